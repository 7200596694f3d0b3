"""Puts the hooks into Cursor's `hooks.json`, takes them out, and tells how they stand."""

from __future__ import annotations

import os
import re
import shutil

from yarp.plugin import Health, Probe, hostfile

_HOST = "cursor"
# Seconds. Before a call, the archive is waited for; after one, for two seconds at most.
_EVENTS = {"preToolUse": 30, "postToolUse": 10, "postToolUseFailure": 10}
_VERSION = re.compile(r"20\d\d\.\d\d\.\d\d-\w+")


def install(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Write the hooks; a line for each change.

    `scope` user: `~/.cursor`; project: `.cursor` below `directory`. Errors as of
    `hostfile.install`.
    """
    path = _hooks_file(scope, directory)
    lines = hostfile.install(path, _entries(), host=_HOST, dry_run=dry_run, comments=True)
    if lines:
        lines += [
            (
                "From now on every call is kept, with the secrets in it, in a private archive "
                "here; see: yarp archive stats"
            ),
            (
                "Shell output is kept and not shortened, since Cursor would judge the wrapped "
                "text. Where you let it run everything: yarp config set hosts.cursor.wrap always"
            ),
        ]
    return lines + [f"{problem}." for problem in _problems(path)]


def uninstall(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Remove the hooks; a line for each change."""
    path = _hooks_file(scope, directory)
    return hostfile.uninstall(path, host=_HOST, dry_run=dry_run, comments=True)


def health(directory: str | None) -> Health:
    """Whether Cursor is here, its version, and whether the hooks are in place."""
    places, notes = hostfile.places(
        lambda scope: _hooks_file(scope, directory), _entries(), host=_HOST, comments=True
    )
    hooked_in = False
    for place in places:
        if place.standing:
            problems = _problems(place.path)
            notes += problems
            hooked_in = hooked_in or not problems
    program = shutil.which("cursor-agent") or shutil.which("cursor")
    return Health(
        installed=program is not None,
        hooked_in=hooked_in,
        version=None if program is None else _version(program),
        notes=notes,
    )


def probe(directory: str | None) -> list[Probe]:
    """The hooks before a call, as they stand in the configuration."""
    event: dict[str, object] = {
        "conversation_id": "yarp-doctor",
        "hook_event_name": "preToolUse",
        "cwd": os.path.abspath(directory or os.getcwd()),
        "tool_name": "Shell",
        "tool_input": {"command": "true"},
        "tool_use_id": "yarp-doctor",
    }
    return hostfile.probes(
        lambda scope: _hooks_file(scope, directory), event, host=_HOST, comments=True
    )


def _hooks_file(scope: str, directory: str | None) -> str:
    base = os.path.expanduser("~")
    if scope == "project":
        base = os.path.abspath(directory or os.getcwd())
    return os.path.join(base, ".cursor", "hooks.json")


def _entries() -> list[hostfile.Entry]:
    entries = [hostfile.Entry(("version",), 1, needed=True)]
    for event, seconds in _EVENTS.items():
        command = hostfile.command(_HOST, before=event == "preToolUse")
        hook = {"command": command, "type": "command", "timeout": seconds}
        entries.append(hostfile.Entry(("hooks", event, "[]"), hook))
    return entries


def _problems(path: str) -> list[str]:
    """What keeps Cursor from reading a file that is in order."""
    for part in (path, os.path.dirname(path)):
        if os.path.islink(part):
            return [f"Cursor does not read {path}, since {part} is a symbolic link"]
    return []


def _version(program: str) -> str | None:
    """The version in the path that the program stands for."""
    found = _VERSION.search(os.path.realpath(program))
    return found[0] if found else None
