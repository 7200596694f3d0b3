"""Puts the hooks into Claude Code's settings, takes them out, and tells how they stand.

With the user's consent (`hosts.claude.sandbox`) the archive's folder becomes one that Claude
Code's sandbox lets commands write to.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from datetime import datetime
from typing import Any

from yarp.plugin import Health, Probe, hostfile
from yarp_claude.events import MANAGED, settings_files, writable

_HOST = "claude"
# Seconds. Before a call, the archive is waited for; after one, for two seconds at most. The rest
# is for a machine under load, and for the one hook that compiles the cache.
_EVENTS = {
    "SessionStart": 30,
    "PreToolUse": 60,
    "PostToolUse": 30,
    "PostToolUseFailure": 30,
    "PostToolBatch": 30,
    # They tell of no call today; what they will tell of one is kept without a new installation.
    "SubagentStart": 10,
    "SubagentStop": 10,
    "SessionEnd": 10,
}
_BEFORE = "PreToolUse"
_TAIL_BYTES = 1 << 22
_SANDBOX = (
    "Claude Code's sandbox keeps commands from the archive's folder: they are kept, and failed "
    "ones are not shortened. To open that folder to them: "
    "yarp config set hosts.claude.sandbox true; yarp install claude"
)
_PACKAGE = "@anthropic-ai/claude-code"


def install(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Write the hooks; a line for each change.

    `scope` user: `settings.json` of Claude Code's own directory (CLAUDE_CONFIG_DIR); project:
    `.claude/settings.local.json` below `directory`, which names a path of this machine and is
    not shared. Errors as of `hostfile.install`.
    """
    path = _settings_file(scope, directory)
    lines = hostfile.install(path, _entries(), host=_HOST, dry_run=dry_run)
    if lines:
        kept = "From now on every call is kept, with the secrets in it, in a private archive here"
        lines += [
            f"{kept}; see: yarp archive stats",
            "Running sessions take the hooks up when they are started again.",
        ]
    if _wants_root():
        # A root that is not there would not count.
        if not dry_run:
            os.makedirs(hostfile.archive_directory(), mode=0o700, exist_ok=True)
    elif lines and _beyond_sandbox(directory):
        lines.append(_SANDBOX)
    return lines + _problems(directory)


def uninstall(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Remove the hooks; a line for each change."""
    return hostfile.uninstall(_settings_file(scope, directory), host=_HOST, dry_run=dry_run)


def health(directory: str | None) -> Health:
    """Whether Claude Code is here, its version, and whether the hooks are in place."""
    places, notes = hostfile.places(
        lambda scope: _settings_file(scope, directory), _entries(), host=_HOST
    )
    hooked_in = any(place.standing is not False for place in places)
    problems = _problems(directory)
    program = shutil.which("claude")
    return Health(
        installed=program is not None,
        hooked_in=hooked_in and not problems,
        version=None if program is None else _version(program),
        last_call_ms=_last_call_ms(),
        notes=[
            *notes,
            *problems,
            *([_SANDBOX] if hooked_in and _beyond_sandbox(directory) else []),
        ],
    )


def probe(directory: str | None) -> list[Probe]:
    """The hooks before a call, as they stand in the settings."""
    event: dict[str, object] = {
        "session_id": "yarp-doctor",
        "hook_event_name": _BEFORE,
        "cwd": _directory(directory),
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_use_id": "yarp-doctor",
    }
    return hostfile.probes(lambda scope: _settings_file(scope, directory), event, host=_HOST)


# -- what is written ----------------------------------------------------------------------------


def _home() -> str:
    configured = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join("~", ".claude")
    return os.path.abspath(os.path.expanduser(configured))


def _directory(directory: str | None) -> str:
    return os.path.abspath(directory or os.getcwd())


def _settings_file(scope: str, directory: str | None) -> str:
    if scope == "project":
        return os.path.join(_directory(directory), ".claude", "settings.local.json")
    return os.path.join(_home(), "settings.json")


def _entries() -> list[hostfile.Entry]:
    entries = []
    for event, seconds in _EVENTS.items():
        command = hostfile.command(_HOST, before=event == _BEFORE)
        hook = {"type": "command", "command": command, "timeout": seconds}
        entries.append(hostfile.Entry(("hooks", event, "[]"), {"hooks": [hook]}))
    if _wants_root():
        path = ("sandbox", "filesystem", "allowWrite", "[]")
        entries.append(hostfile.Entry(path, hostfile.archive_directory()))
    return entries


def _wants_root() -> bool:
    return hostfile.chosen(_HOST).get("sandbox") is True


# -- what keeps the hooks from running ----------------------------------------------------------


def _problems(directory: str | None) -> list[str]:
    """What in any settings keeps the hooks from running, a sentence each."""
    problems = []
    for path in settings_files(_home(), _directory(directory)):
        settings = _read(path)
        if settings.get("disableAllHooks") is True:
            problems.append(f"{path} switches all hooks off: remove disableAllHooks from it.")
        if path == MANAGED and settings.get("allowManagedHooksOnly") is True:
            problems.append(f"{path} allows no hooks but its own: ask whoever manages it.")
    return problems


def _beyond_sandbox(directory: str | None) -> bool:
    """Whether commands run in a sandbox that keeps them from the archive's folder."""
    roots = writable({"cwd": _directory(directory)})
    folder = os.path.realpath(hostfile.archive_directory())
    return roots is not None and not any(
        f"{folder}/".startswith(os.path.realpath(root).rstrip("/") + "/") for root in roots
    )


def _read(path: str) -> dict[str, Any]:
    """The settings in a file; none where it cannot be read: installing says what is wrong."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_call_ms() -> int | None:
    """When a tool was last called, as the newest transcript has it."""
    newest, path = 0.0, None
    for folder, folders, names in os.walk(os.path.join(_home(), "projects")):
        folders[:] = [name for name in folders if name != "tool-results"]
        for name in names:
            found = os.path.join(folder, name)
            if name.endswith(".jsonl") and os.stat(found).st_mtime > newest:
                newest, path = os.stat(found).st_mtime, found
    if path is None:
        return None
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        if b'"tool_use"' in line:
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                if record["type"] == "assistant":
                    return round(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
    return None


def _version(program: str) -> str | None:
    """The version that stands beside the program: in its package, or in the name of its file."""
    path = os.path.realpath(program)
    if os.path.basename(os.path.dirname(path)) == "versions":
        return os.path.basename(path)
    directory = os.path.dirname(path)
    while directory != os.path.dirname(directory):
        package = _read(os.path.join(directory, "package.json"))
        if package.get("name") == _PACKAGE:
            version = package.get("version")
            return version if isinstance(version, str) else None
        directory = os.path.dirname(directory)
    return None
