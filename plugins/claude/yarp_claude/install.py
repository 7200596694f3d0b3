"""Puts the hooks into Claude Code's settings, takes them out, and tells how they stand."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

from yarp.plugin import Health, Probe, YarpError, hostfile

_HOST = "claude"
# Seconds. Before a call, the archive is waited for; after one, for two seconds at most. The rest
# is for a machine under load, and for the one hook that compiles the cache.
_EVENTS = {
    "SessionStart": 30,
    "PreToolUse": 60,
    "PostToolUse": 30,
    "PostToolUseFailure": 30,
    "PostToolBatch": 30,
}
_BEFORE = "PreToolUse"
_PACKAGE = "@anthropic-ai/claude-code"
_MANAGED = "/etc/claude-code/managed-settings.json"


def install(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Write the hooks; a line for each change.

    `scope` user: `settings.json` of Claude Code's own directory (CLAUDE_CONFIG_DIR); project:
    `.claude/settings.local.json` below `directory`, which names a path of this machine and is
    not shared. Errors as of `hostfile.install`.
    """
    path = _settings_file(scope, directory)
    lines = hostfile.install(path, _entries(), host=_HOST, dry_run=dry_run)
    if lines:
        lines += [
            "From now on every call is kept, with the secrets in it, in a private archive here; "
            "see: yarp archive stats",
            "Running sessions take the hooks up when they are started again.",
        ]
    return lines + _problems(directory)


def uninstall(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Remove the hooks; a line for each change."""
    return hostfile.uninstall(_settings_file(scope, directory), host=_HOST, dry_run=dry_run)


def health(directory: str | None) -> Health:
    """Whether Claude Code is here, its version, and whether the hooks are in place."""
    notes: list[str] = []
    hooked_in = False
    for scope in ("user", "project"):
        path = _settings_file(scope, directory)
        try:
            standing = hostfile.standing(path, _entries(), host=_HOST)
        except YarpError as error:
            notes.append(f"{error}.")
            continue
        if standing is None:
            again = "yarp install claude" + ("" if scope == "user" else " --scope project")
            notes.append(f"{path} holds hooks of another YARP; run: {again}.")
        hooked_in = hooked_in or standing is not False
    problems = _problems(directory)
    program = shutil.which("claude")
    return Health(
        installed=program is not None,
        hooked_in=hooked_in and not problems,
        version=None if program is None else _version(program),
        notes=[*notes, *problems],
    )


def probe(directory: str | None) -> list[Probe]:
    """The hooks before a call, as they stand in the settings."""
    found = []
    for scope in ("user", "project"):
        path = _settings_file(scope, directory)
        for group in _listed(_read(path), "hooks", _BEFORE):
            for hook in _listed(group, "hooks"):
                command = hook.get("command") if isinstance(hook, dict) else None
                if isinstance(command, str) and "yarp" in command and "hook" in command:
                    found.append(Probe(["/bin/sh", "-c", command], _event(directory), path))
    return found


def _event(directory: str | None) -> dict[str, Any]:
    return {
        "session_id": "yarp-doctor",
        "hook_event_name": _BEFORE,
        "cwd": os.path.abspath(directory or os.getcwd()),
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_use_id": "yarp-doctor",
    }


# -- what is written ----------------------------------------------------------------------------


def _home() -> str:
    configured = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join("~", ".claude")
    return os.path.abspath(os.path.expanduser(configured))


def _project(directory: str | None) -> str:
    return os.path.join(os.path.abspath(directory or os.getcwd()), ".claude")


def _settings_file(scope: str, directory: str | None) -> str:
    if scope == "project":
        return os.path.join(_project(directory), "settings.local.json")
    return os.path.join(_home(), "settings.json")


def _entries() -> list[hostfile.Entry]:
    entries = []
    for event, seconds in _EVENTS.items():
        command = hostfile.command(_HOST, before=event == _BEFORE)
        hook = {"type": "command", "command": command, "timeout": seconds}
        entries.append(hostfile.Entry(("hooks", event, "[]"), {"hooks": [hook]}))
    return entries


# -- what keeps the hooks from running ----------------------------------------------------------


def _problems(directory: str | None) -> list[str]:
    """What in any settings keeps the hooks from running, a sentence each."""
    problems = []
    for path in _all_settings(directory):
        settings = _read(path)
        if settings.get("disableAllHooks") is True:
            problems.append(f"{path} switches all hooks off: remove disableAllHooks from it.")
        if path == _MANAGED and settings.get("allowManagedHooksOnly") is True:
            problems.append(f"{path} allows no hooks but its own: ask whoever manages it.")
    return problems


def sandboxed(directory: str | None) -> str | None:
    """The settings that switch Claude Code's sandbox on, if any do."""
    found = None
    for path in _all_settings(directory):
        sandbox = _read(path).get("sandbox")
        if isinstance(sandbox, dict) and isinstance(sandbox.get("enabled"), bool):
            found = path if sandbox["enabled"] else None
    return found


def _all_settings(directory: str | None) -> list[str]:
    """Every settings file that counts here, the last word last."""
    project = _project(directory)
    names = ("settings.json", "settings.local.json")
    return [
        os.path.join(_home(), "settings.json"),
        *(os.path.join(project, name) for name in names),
        _MANAGED,
    ]


def _read(path: str) -> dict[str, Any]:
    """The settings in a file; none where it cannot be read: installing says what is wrong."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _listed(value: Any, *keys: str) -> list[Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


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
