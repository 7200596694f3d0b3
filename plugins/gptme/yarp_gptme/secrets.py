"""gptme's configured credentials, and what takes them out of a stream before it is kept.

Two redactors, both in linear time and with a bounded window: one for the very values that are
configured (provider keys, secret members of `[env]` and of MCP servers, secret variables of the
environment), one for what a command prints as `SOME_TOKEN=value`. No general scan for secrets
is promised.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from typing import TYPE_CHECKING, Any

from yarp.plugin import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REDACTED = b"[REDACTED]"
# Shorter values are words that occur anyway; taking them out would say more than it hides.
_LEAST_BYTES = 8
_MOST_BYTES = 4096
# So much of a value at the end of a stream is taken for one that was cut off.
_TELLING_BYTES = 4
_NAME_BYTES = 256
_NAMES_OF_SECRETS = (
    r"api[-_]?key|token|secret|passwd|password|priv(?:ate)?[-_]?key|auth[-_]?key|access[-_]?key"
    r"|credential"
)
_NAMES_SECRET = re.compile(_NAMES_OF_SECRETS, re.IGNORECASE)
_NAME_OF_SECRET = re.compile(_NAMES_OF_SECRETS.encode(), re.IGNORECASE)
_ASSIGNMENT = re.compile(rb"(?<![\w-])[\w-]{1,%d}[ \t]{0,8}=" % _NAME_BYTES)
_PERHAPS = re.compile(rb"(?<![\w-])[\w-]{1,%d}[ \t]{0,8}\Z" % _NAME_BYTES)
# A project's, where gptme works in it.
_PROJECT_FILES = (
    "gptme.toml",
    "gptme.local.toml",
    os.path.join(".github", "gptme.toml"),
    os.path.join(".github", "gptme.local.toml"),
)
_LINE_END = re.compile(rb"[\r\n]")


def redactors() -> list[Redactor]:
    """The redactors for gptme's streams; asked for at the start of each."""
    values = credentials()
    longest = max(map(len, values), default=1)
    return [
        Redactor("gptme-credentials", window_bytes=longest, make=literal_maker(values)),
        Redactor("gptme-assignments", window_bytes=_NAME_BYTES + 16, make=Assignments),
    ]


def credentials() -> list[bytes]:
    """The secret values that gptme is configured with, longest first."""
    return sorted(
        {
            data
            for text in _configured()
            if _LEAST_BYTES <= len(data := text.encode(errors="replace")) <= _MOST_BYTES
        },
        key=lambda data: (-len(data), data),
    )


def _configured() -> Iterator[str]:
    yield from _secret_members(dict(os.environ))
    yield from _live()
    folder = os.path.join(os.path.expanduser("~"), ".config", "gptme")
    user = [os.path.join(folder, name) for name in ("config.toml", "config.local.toml")]
    for path in (*user, *_PROJECT_FILES):
        found = _table(path)
        yield from _secret_members(found.get("env"))
        mcp = found.get("mcp")
        servers = mcp.get("servers") if isinstance(mcp, dict) else None
        for server in servers if isinstance(servers, list) else ():
            if isinstance(server, dict):
                yield from _secret_members(server.get("env"))
                yield from _values(server.get("headers"))
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    yield from _values(_table(os.path.join(base, "gptme", "credentials.toml")).get("providers"))


def _live() -> Iterator[str]:
    """What gptme itself goes by, where it runs: of the user, the project and the chat."""
    core = sys.modules.get("gptme.config")
    try:
        config = core.get_config() if core is not None else None
    except Exception:  # noqa: BLE001 - gptme itself tells of a configuration that it cannot read
        config = None
    yield from _secret_members(getattr(config, "env_overrides", None))
    for level in ("user", "project", "chat"):
        found = getattr(config, level, None)
        yield from _secret_members(getattr(found, "env", None))
        for server in getattr(getattr(found, "mcp", None), "servers", None) or ():
            yield from _secret_members(getattr(server, "env", None))
            yield from _values(getattr(server, "headers", None))


def _table(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        return {}  # gptme itself tells of a configuration that it cannot read


def _values(table: object) -> Iterator[str]:
    if isinstance(table, dict):
        yield from (value for value in table.values() if isinstance(value, str))


def _secret_members(table: object) -> Iterator[str]:
    if isinstance(table, dict):
        for name, value in table.items():
            if isinstance(value, str) and _NAMES_SECRET.search(str(name)):
                yield value


def clean(text: str, limit: int = 200) -> str:
    """`text` without credentials, as one short line: for labels and messages."""
    data = text.encode(errors="replace")
    for redactor in redactors():
        one = redactor.make()
        data = one.feed(data) + one.finish()  # type: ignore[attr-defined]  # of this module
    line = " ".join(data.decode(errors="replace").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def literal_maker(values: Iterable[bytes]) -> Callable[[], Literals]:
    """What makes a redactor of these values for one stream."""
    ordered = sorted(set(values), key=lambda value: (-len(value), value))
    pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None
    prefixes = frozenset(value[:end] for value in ordered for end in range(1, len(value)))
    longest = max(map(len, ordered), default=1)
    return lambda: Literals(pattern, prefixes, longest)


class Literals:
    """Replaces each value, the leftmost and longest first, whatever the chunks."""

    def __init__(
        self, pattern: re.Pattern[bytes] | None, prefixes: frozenset[bytes], longest: int
    ) -> None:
        self._pattern = pattern
        self._prefixes = prefixes
        self._longest = longest
        self._rest = b""

    @property
    def held(self) -> int:
        """How many bytes wait for what comes next."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> bytes:
        """What can be told of the stream up to here."""
        if self._pattern is None:
            return chunk
        data = self._rest + chunk
        out: list[bytes] = []
        position = 0
        while True:
            found = self._pattern.search(data, position)
            undecided = self._undecided(data, position)
            if found is None or undecided <= found.start():
                out.append(data[position:undecided])
                self._rest = data[undecided:]
                return b"".join(out)
            out += (data[position : found.start()], REDACTED)
            position = found.end()

    def _undecided(self, data: bytes, position: int) -> int:
        """Where the end of `data` may be the beginning of a value."""
        for start in range(max(position, len(data) - self._longest + 1), len(data)):
            if data[start:] in self._prefixes:
                return start
        return len(data)

    def finish(self) -> bytes:
        """The rest; what began like a value was cut off, unless it is too short to say so."""
        data, self._rest = self._rest, b""
        return data if len(data) < _TELLING_BYTES else REDACTED


class Assignments:
    """Takes away what stands behind the `=` of a secret's name, to the end of the line."""

    def __init__(self) -> None:
        self._rest = b""
        self._before = b""
        self._dropping = False

    @property
    def held(self) -> int:
        """How many bytes wait for what comes next."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> bytes:
        """What can be told of the stream up to here."""
        return self._go(self._rest + chunk, last=False)

    def finish(self) -> bytes:
        """The rest."""
        return self._go(self._rest, last=True)

    def _go(self, data: bytes, *, last: bool) -> bytes:
        # One byte in front says whether `data` begins inside a word.
        data, position = self._before + data, len(self._before)
        out: list[bytes] = []
        while True:
            if self._dropping:
                end = _LINE_END.search(data, position)
                if end is None:
                    position = len(data)
                    break
                position, self._dropping = end.start(), False
            found = _next_secret(data, position)
            if found is None:
                break
            out += (data[position:found], REDACTED)
            position, self._dropping = found, True
        tail = None if last or self._dropping else _PERHAPS.search(data, self._tail(data, position))
        keep = len(data) if tail is None else tail.start()
        out.append(data[position:keep])
        self._rest = data[keep:]
        self._before = data[max(0, keep - 1) : keep]
        return b"".join(out)

    @staticmethod
    def _tail(data: bytes, position: int) -> int:
        """From where to look for the beginning of an assignment at the end of `data`."""
        return max(position, len(data) - _NAME_BYTES - 10)


def _next_secret(data: bytes, position: int) -> int | None:
    """Where the value behind the next secret's name begins."""
    equals = data.find(b"=", position)
    if equals < 0:
        return None
    word = _NAME_OF_SECRET.search(data, position)
    while word is not None:
        # The name around the word: back to where it begins, and on to the sign.
        begin = word.start()
        floor = max(position, begin - _NAME_BYTES)
        while begin > floor and (data[begin - 1 : begin].isalnum() or data[begin - 1] in b"_-"):
            begin -= 1
        found = _ASSIGNMENT.match(data, begin)
        if found is not None:
            return found.end()
        word = _NAME_OF_SECRET.search(data, word.end())
    return None
