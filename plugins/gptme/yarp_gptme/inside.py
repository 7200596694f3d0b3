"""What lives inside gptme: found through `gptme.plugins`, switched on by `[plugin.yarp]`.

Everything that gptme has no hook for is a wrapped function (`patches`), one offer each; an
offer whose functions are not as expected is off, and that is said once. `deactivate` puts all
of it back.
"""

from __future__ import annotations

import atexit
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from gptme.plugins.plugin import GptmePlugin

from yarp_gptme.background import Background
from yarp_gptme.captures import Policy
from yarp_gptme.client import Client
from yarp_gptme.entries import declare
from yarp_gptme.foreground import Foreground
from yarp_gptme.install import NAME
from yarp_gptme.patches import Mismatch, Patches, Target
from yarp_gptme.record import Recorder
from yarp_gptme.say import say_once
from yarp_gptme.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable

# Below all others: what they change of an input is in it, what they say of a result is out.
_LAST = -1_000_000
_EXECUTE = Target("gptme.tools.base:ToolUse.execute", "self, log=, workspace=, on_result_message=")


class Active:
    """What is switched on in this process. `offers`: each by name, None or why it is off."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.patches = Patches()
        self.offers: dict[str, str | None] = {}
        self.recorder: Recorder | None = None
        self.policy = Policy(settings)

    def offer(self, name: str, start: Callable[[], None]) -> bool:
        """Start one offer; a gptme of another shape leaves it off, and that is said once."""
        try:
            start()
        except Mismatch as mismatch:
            self.offers[name] = str(mismatch)
            say_once(f"{name}: unavailable with this gptme, since {mismatch}")
            return False
        self.offers[name] = None
        return True

    def spool(self) -> None:
        """Spool what commands write, and keep whole what gptme cuts."""
        for name, start in (
            ("spools of commands in the foreground", Foreground(self.policy).start),
            ("spools of background jobs", Background(self.policy).start),
            ("safe files for large outputs", Storage(self.policy).start),
        ):
            self.offer(name, partial(start, self.patches))

    def record(self) -> None:
        """Archive the tool calls, and declare what of their results was there to keep."""
        client = Client(_words(self.settings.get("program")))
        declared = None
        if self.settings.get("spool", True):
            declared = partial(declare, self.policy)
        recorder = Recorder(client, say_once, wrapped=True, declare=declared)

        def start() -> None:
            self.patches.wrap([(_EXECUTE, recorder.execute)])

        if not self.offer("archive of failed and refused calls", start):
            recorder = Recorder(client, say_once, wrapped=False)
        self.recorder = recorder
        atexit.register(recorder.close)


_active: Active | None = None


def active() -> Active | None:
    """What is switched on; None: nothing is."""
    return _active


def init(config: Any) -> None:
    """Called by gptme once, before its tools are set up."""
    settings = settings_of(_table(config.user), _table(config.project))
    if settings.get("enabled") is True:
        activate(settings)


def settings_of(user: dict[str, Any], project: dict[str, Any]) -> dict[str, Any]:
    """The settings in use. A project's count where the user has none; it names no program."""
    settings = {**project, **user}
    settings["program"] = user.get("program")
    never = [table.get("never_spool") for table in (user, project)]
    settings["never_spool"] = [one for given in never if isinstance(given, list) for one in given]
    return settings


def activate(settings: dict[str, Any]) -> Active:
    """Switch on what the settings ask for, as far as this gptme allows."""
    global _active  # noqa: PLW0603 - one process, one plugin
    deactivate()
    _active = Active(settings)
    if settings.get("spool", True):
        _active.spool()
    if settings.get("archive", True):
        _active.record()
    return _active


def deactivate() -> None:
    """Put every wrapped function back, and end the archive's child."""
    global _active
    was, _active = _active, None
    if was is not None:
        was.patches.restore()
        if was.recorder is not None:
            was.recorder.close()


def register_hooks() -> None:
    """Called by gptme when it sets up hooks; does nothing while the plugin is off."""
    if _active is None or _active.recorder is None:
        return
    from gptme.hooks import HookType, register_hook

    recorder = _active.recorder
    try:
        register_hook("yarp.before", HookType.TOOL_EXECUTE_PRE, recorder.before, priority=_LAST)
        register_hook("yarp.after", HookType.TOOL_EXECUTE_POST, recorder.after, priority=-_LAST)
    except (AttributeError, TypeError) as error:
        say_once(f"archive of calls: unavailable with this gptme, since {error}")


def _table(config: Any) -> dict[str, Any]:
    plugins = getattr(config, "plugin", None)
    found = plugins.get(NAME) if isinstance(plugins, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def _words(program: object) -> list[str]:
    """The program that keeps the archive: as installed, else this very environment's."""
    if isinstance(program, list) and program and all(isinstance(word, str) for word in program):
        return program
    return [sys.executable, "-m", "yarp"]


plugin = GptmePlugin(name=NAME, init=init, register_hooks=register_hooks)
