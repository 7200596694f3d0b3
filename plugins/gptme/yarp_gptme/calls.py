"""A tool call of gptme's as it runs: what is known of it, and where it runs.

The call of the running context is `current()`: whoever captures for it adds what it kept.
"""

from __future__ import annotations

import contextvars
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENT = "gptme"
SHELL_TOOL = "shell"
# What gptme asks the user for in secret: the answer is kept by nobody.
SECRET_TOOLS = frozenset({"elicit"})

_current: contextvars.ContextVar[Call | None] = contextvars.ContextVar("yarp_call", default=None)


class Call:
    """One call on its way. `shown` pairs what we put into its result with what gptme had there."""

    def __init__(self, tool_use: Any, conversation: str | None) -> None:
        self.tool_use = tool_use
        self.tool: str = tool_use.tool
        self.conversation = conversation
        self.before = input_of(tool_use)
        self.source_call_id: str | None = None
        self.archive_ref: str | None = None
        self.started_at_ms = now_ms()
        self.begun = False
        self.lost = False
        self.posted = False
        self.exit_code: int | None = None
        self.failed = False
        self.shown: list[tuple[str, str]] = []
        self.receipts: list[dict[str, Any]] = []
        self.full_output_path: str | None = None


def current() -> Call | None:
    """The call whose tool runs in this context."""
    return _current.get()


def conversation_id() -> str | None:
    """The conversation that a tool runs for, as gptme's own job control tells it."""
    try:
        from gptme.tools.shell_background import _current_conversation_id

        found = _current_conversation_id()
    except Exception:  # noqa: BLE001 - of another gptme: it is not known
        return None
    return None if found is None else str(found)


def conversation_directory() -> str | None:
    """The directory of that conversation."""
    try:
        from gptme.tools.shell_background import _current_log_dir

        found = _current_log_dir()
    except Exception:  # noqa: BLE001 - as above
        return None
    return None if found is None else str(found)


@contextmanager
def running(call: Call) -> Iterator[None]:
    """Make it the call of this context."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)


def input_of(use: Any) -> dict[str, Any]:
    """What the model asked for: named arguments, or the text of a code block and its words."""
    if use.kwargs:
        return dict(use.kwargs)
    key = "command" if use.tool == SHELL_TOOL else "content"
    given = {key: use.content, "args": list(use.args) if use.args else None}
    return {name: value for name, value in given.items() if value is not None}


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def text(value: object) -> str | None:
    """A name for a column, which holds no lone surrogates."""
    if value is None:
        return None
    return str(value).encode(errors="replace").decode()


def model() -> tuple[str | None, str | None]:
    """The provider and the model in use."""
    try:
        from gptme.llm.models import get_default_model

        found = get_default_model()
        return text(found.provider), text(found.model)
    except Exception:  # noqa: BLE001 - of another gptme, or none is set: it is not known
        return None, None


def working_directory() -> str | None:
    """Where a tool runs."""
    try:
        from gptme.tools import shell

        return shell.get_workspace_cwd() or os.getcwd()
    except (ImportError, AttributeError, OSError):
        return None
