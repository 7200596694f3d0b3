"""Puts the hooks into Codex's configuration, has them trusted, and tells how they stand.

The hooks are entries of `hooks.json`. Codex skips a hook that nobody trusts, in silence; trust
is written into the user's `config.toml` by Codex itself, asked through its app-server. With
the user's consent (`hosts.codex.sandbox`) the archive's folder becomes a writable root there.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from typing import Any

from yarp.plugin import Health, Probe, hostfile
from yarp_codex.appserver import AppServer, version
from yarp_codex.settings import Settings
from yarp_codex.turn import last_call_ms

_HOST = "codex"
# Seconds. Before a call, the archive is waited for; after one, for two seconds at most. What
# comes at the end of a session may take no more than three.
_EVENTS = {
    "SessionStart": 10,
    "PreToolUse": 30,
    "PostToolUse": 10,
    "Stop": 10,
    "SubagentStop": 10,
    "Interrupt": 3,
    "SessionEnd": 3,
}


def install(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Write the hooks and have them trusted; a line for each change.

    `scope` user: CODEX_HOME, else ~/.codex; project: `.codex` below `directory`. Errors as of
    `hostfile.install`.
    """
    path = _hooks_file(scope, directory)
    lines = hostfile.install(path, _entries(), host=_HOST, dry_run=True)
    if lines and shutil.which("codex"):
        # Codex itself would write over a file that was made read-only.
        hostfile.require_writable(Settings(_home()).path)
    if not dry_run:
        lines = hostfile.install(path, _entries(), host=_HOST, dry_run=False)
    advice = _advice() if lines else []
    return [*lines, *_trust(path, dry_run, directory), *_sandbox(dry_run), *advice]


def uninstall(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Remove the hooks, their trust and the writable root; a line for each change."""
    path = _hooks_file(scope, directory)
    before = _hooks(directory)
    ours = [hook["key"] for hook in before if _is_ours(hook, path)]
    lines = hostfile.uninstall(path, host=_HOST, dry_run=dry_run)
    settings = Settings(_home())
    if lines and settings.restore(dry_run=dry_run):
        lines.append(f"{'would take' if dry_run else 'took'} trust out of {settings.path}")
    elif lines:
        root = _root() if _wants_root() else None
        lines += settings.without(ours, root, dry_run=dry_run)
    if not dry_run:
        _trust_again(before, directory)
    return lines


def health(directory: str | None) -> Health:
    """Whether Codex is here, its version, and whether its hooks are in place and trusted."""
    codex = shutil.which("codex")
    places, notes = hostfile.places(
        lambda scope: _hooks_file(scope, directory), _entries(), host=_HOST
    )
    hooked_in = False
    for place in places:
        if place.standing:
            problem = _problem(place.path, directory) if codex else None
            hooked_in = hooked_in or problem is None
            if problem is not None:
                notes.append(f"{problem}; run: {place.again}")
    return Health(
        installed=codex is not None,
        hooked_in=hooked_in,
        version=None if codex is None else version(codex),
        last_call_ms=last_call_ms(_home()),
        notes=notes,
    )


def probe(directory: str | None) -> list[Probe]:
    """The hooks before a call, as they stand in the configuration."""
    event: dict[str, object] = {
        "session_id": "yarp-doctor",
        "turn_id": "yarp-doctor",
        "transcript_path": None,
        "cwd": os.path.abspath(directory or os.getcwd()),
        "hook_event_name": "PreToolUse",
        "model": "yarp-doctor",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_use_id": "yarp-doctor",
    }
    return hostfile.probes(lambda scope: _hooks_file(scope, directory), event, host=_HOST)


def sandbox(directory: str | None) -> list[str] | None:  # noqa: ARG001 - it is the user's own
    """What runs a command in Codex's sandbox, where the user wants commands wrapped there."""
    codex = shutil.which("codex")
    if codex is None or not _wants_root():
        return None
    return [codex, "sandbox", "-c", 'sandbox_mode="workspace-write"']


def _problem(path: str, directory: str | None) -> str | None:
    """What keeps the hooks of a file that is in order from running; None: nothing."""
    found = [hook for hook in _hooks(directory) if _is_ours(hook, path)]
    if not found:
        return f"Codex does not read {path} (of a project, only once it is trusted)"
    if any(hook["trustStatus"] not in ("trusted", "managed") for hook in found):
        return f"Codex skips the hooks in {path}, which nobody trusts"
    if not all(hook["enabled"] for hook in found):
        return f"hooks in {path} are switched off"
    return None


# -- what is written ----------------------------------------------------------------------------


def _home() -> str:
    configured = os.environ.get("CODEX_HOME") or os.path.join("~", ".codex")
    return os.path.abspath(os.path.expanduser(configured))


def _hooks_file(scope: str, directory: str | None) -> str:
    if scope == "project":
        return os.path.join(os.path.abspath(directory or os.getcwd()), ".codex", "hooks.json")
    return os.path.join(_home(), "hooks.json")


def _entries() -> list[hostfile.Entry]:
    entries = []
    for event, seconds in _EVENTS.items():
        command = hostfile.command(_HOST, before=event == "PreToolUse")
        hook = {"type": "command", "command": command, "timeout": seconds}
        entries.append(hostfile.Entry(("hooks", event, "[]"), {"hooks": [hook]}))
    return entries


def _advice() -> list[str]:
    kept = "From now on every call is kept, with the secrets in it, in a private archive here"
    lines = [f"{kept}; see: yarp archive stats"]
    if not _wants_root():
        lines.append(
            "In a sandboxed session, calls are kept and not shortened. To shorten them there too, "
            f"let commands write to the archive's folder, {_root()}: "
            "yarp config set hosts.codex.sandbox true; yarp install codex"
        )
    return lines


# -- trust --------------------------------------------------------------------------------------


def _hooks(directory: str | None) -> list[dict[str, Any]]:
    """The hooks that Codex finds; none where it cannot be asked."""
    codex = shutil.which("codex")
    if codex is None or not os.path.isdir(_home()):
        return []
    try:
        with AppServer(codex, os.path.abspath(directory or os.getcwd())) as server:
            return server.hooks()
    except (OSError, KeyError, TypeError):
        return []


def _is_ours(hook: dict[str, Any], path: str) -> bool:
    same = os.path.realpath(str(hook.get("sourcePath"))) == os.path.realpath(path)
    return same and f" {_HOST}" in str(hook.get("command")) and "yarp" in str(hook["command"])


def _trust(path: str, dry_run: bool, directory: str | None) -> list[str]:
    """Have Codex trust the hooks in this file, as they are."""
    settings = Settings(_home())
    codex = shutil.which("codex")
    otherwise = f"Codex skips the hooks in {path} until you trust them: start codex, then /hooks"
    if codex is None:
        return [f"codex is not on the PATH. {otherwise}"]
    if dry_run:
        return (
            [f"would have Codex trust them in {settings.path}"] if not settings.remembered else []
        )
    try:
        with AppServer(codex, os.path.abspath(directory or os.getcwd())) as server:
            ours = [hook for hook in server.hooks() if _is_ours(hook, path)]
            new = [hook for hook in ours if hook["trustStatus"] not in ("trusted", "managed")]
            if not ours:
                return [f"Codex does not see them yet (is the project trusted?). {otherwise}"]
            if not new:
                return []
            with settings.changed_by_codex():
                server.trust(new)
            left = [hook for hook in server.hooks() if _is_ours(hook, path)]
    except (OSError, KeyError, TypeError) as error:
        return [f"Codex could not be asked ({error}). {otherwise}"]
    if any(hook["trustStatus"] != "trusted" for hook in left):
        return [otherwise]
    return [f"had Codex trust them in {settings.path}"]


def _trust_again(before: list[dict[str, Any]], directory: str | None) -> None:
    """Keep the trust of others' hooks, whose keys count the hooks before them in the file."""
    trusted = {hook["currentHash"] for hook in before if hook["trustStatus"] == "trusted"}
    moved = [
        hook
        for hook in (_hooks(directory) if trusted else ())
        if hook["trustStatus"] == "untrusted" and hook["currentHash"] in trusted
    ]
    codex = shutil.which("codex")
    if moved and codex is not None:
        try:
            with AppServer(codex, os.path.abspath(directory or os.getcwd())) as server:
                server.trust(moved)
        except (OSError, KeyError, TypeError):
            return


# -- the sandbox --------------------------------------------------------------------------------


def _wants_root() -> bool:
    return hostfile.chosen(_HOST).get("sandbox") is True


def _root() -> str:
    return hostfile.archive_directory()


def _sandbox(dry_run: bool) -> list[str]:
    """With the user's consent, the archive's folder among the sandbox's writable roots."""
    settings, root = Settings(_home()), _root()
    if not _wants_root():
        return []
    try:
        roots = settings.writable_roots()
    except (OSError, tomllib.TOMLDecodeError):
        return [f"{settings.path} cannot be read; {root} is no writable root yet"]
    codex = shutil.which("codex")
    if root in roots:
        return []
    if codex is None:
        return [f"codex is not on the PATH; {root} is no writable root yet"]
    if not dry_run:
        try:
            with settings.changed_by_codex(), AppServer(codex, os.getcwd()) as server:
                server.write("sandbox_workspace_write.writable_roots", [*roots, root])
        except (OSError, KeyError, TypeError) as error:
            return [f"{root} could not be made a writable root ({error})"]
        # A root that is not there would not count.
        os.makedirs(root, mode=0o700, exist_ok=True)
    return [f"{'would make' if dry_run else 'made'} {root} a writable root in {settings.path}"]
