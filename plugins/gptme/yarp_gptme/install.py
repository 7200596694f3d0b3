"""Puts a marked block into gptme's configuration, takes it out, and tells how gptme stands.

gptme finds this plugin itself (entry point group `gptme.plugins`) when it is installed in
gptme's own environment; the block switches it on and says which program keeps the archive. A
list of allowed plugins that the user keeps gets our name, and loses it again.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from datetime import datetime
from typing import Any

from yarp.plugin import DataError, Health, StorageError, hostfile

NAME = "yarp"
"""The plugin's name within gptme: its entry point, its table `[plugin.yarp]`."""
_BEGIN = "# >>> yarp install gptme"
_END = "# <<< yarp install gptme"
_ALLOWED = "# yarp install gptme: added to plugins.enabled"
_TAIL_BYTES = 1 << 22
_ASK_S = 20


def install(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Switch the plugin on; a line for each change, none when all is in place.

    `scope` user: `~/.config/gptme/config.toml`; project: `gptme.toml` in `directory`. DataError:
    the file is no TOML, or has a `[plugin.yarp]` that YARP did not write. StorageError: it
    cannot be written.
    """
    path = config_file(scope, directory)
    text = _read(path)
    wanted = _with_block(_without(text or "", path), path, scope)
    lines = _write(path, text, wanted, dry_run=dry_run)
    if lines:
        lines.append(
            "From now on every call is kept, with the secrets in it, in a private archive here; "
            "see: yarp archive stats"
        )
    return lines + [f"{note}." for note in _missing()]


def uninstall(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Take out what `install` wrote, and nothing else; a line for each change."""
    path = config_file(scope, directory)
    text = _read(path)
    if text is None:
        return []
    base = _without(text, path)
    kept = _read(_backup(path))
    # A file that nobody touched since goes back to the very text it had.
    with suppress(DataError):
        if kept is not None and _with_block(_without(kept, path), path, scope) == text:
            base = kept
    return _write(path, text, base, dry_run=dry_run)


def health(directory: str | None) -> Health:
    """Whether gptme is here and has the plugin, and whether all it offers is at work."""
    program = _program()
    notes, on, allowed = list[str](), False, True
    for scope in ("user", "project"):
        path = config_file(scope, directory)
        try:
            found = _parsed(_read(path) or "", path)
            table = found.get("plugin", {}).get(NAME, {})
            names = found.get("plugins", {}).get("enabled") or [NAME]
        except (DataError, StorageError, AttributeError) as error:
            notes.append(f"{error}.")
            continue
        if scope == "user" and NAME not in names:
            allowed = False
        if not (isinstance(table, dict) and table.get("enabled") is True):
            continue
        on = True
        if scope == "user" and table.get("program") != hostfile.program():
            notes.append(f"{path} names another YARP; run: yarp install gptme.")
    if on and not allowed:
        notes.append(f"plugins.enabled of gptme leaves {NAME} out; run: yarp install gptme.")
    versions = None if program is None else _versions(program)
    inside = versions is not None and versions.get("yarp-gptme") is not None
    if on and program is not None:
        notes += [f"{note}." for note in _missing()]
        if inside and allowed:
            notes += _unavailable(program)
    return Health(
        installed=program is not None,
        hooked_in=on and inside and allowed,
        version=None if versions is None else versions.get("gptme"),
        last_call_ms=_last_call_ms(),
        notes=notes,
    )


def _unavailable(program: str) -> list[str]:
    """Which offers this gptme does not allow, and why: asked in its own interpreter."""
    code = (
        "import json, os, sys, yarp_gptme.inside as inside\n"
        "offers = inside.activate({}).offers\n"
        "inside.deactivate()\n"
        "sys.stdout.write('\\n' + json.dumps(offers) + '\\n')\n"
        "sys.stdout.flush()\n"
        "os._exit(0)\n"
    )
    found = _asked(program, code)
    if found is None:
        return ["The plugin cannot be loaded by gptme; run: gptme-doctor."]
    return [f"{name}: unavailable, since {why}." for name, why in found.items() if why]


def spools() -> list[str]:
    """Below which gptme's conversations keep their spools."""
    return [logs_directory()]


def logs_directory() -> str:
    """Where gptme keeps its conversations, one directory each."""
    logs = os.environ.get("GPTME_LOGS_HOME")
    if logs:
        return os.path.abspath(os.path.expanduser(logs))
    data = os.environ.get("XDG_DATA_HOME") or os.path.join("~", ".local", "share")
    return os.path.join(os.path.abspath(os.path.expanduser(data)), "gptme", "logs")


def config_file(scope: str, directory: str | None) -> str:
    """The configuration of gptme: the user's, or a project's."""
    if scope == "project":
        return os.path.join(os.path.abspath(directory or os.getcwd()), "gptme.toml")
    return os.path.join(os.path.expanduser("~"), ".config", "gptme", "config.toml")


def _missing() -> list[str]:
    """What keeps gptme from finding the plugin, with what to do; no full stops."""
    program = _program()
    if program is None:
        return ["gptme is neither on the PATH nor beside this YARP"]
    interpreter = _interpreter(program)
    versions = _versions(program)
    if interpreter is None or versions is None:
        return [f"{program} cannot be asked whether it has yarp-gptme beside it"]
    ours, theirs = _own_version(), versions.get("yarp-gptme")
    if theirs is None:
        return [f"gptme does not have the plugin yet; run: {interpreter} -m pip install yarp-gptme"]
    if theirs != ours:
        found = f"gptme has yarp-gptme {theirs}, this is {ours}"
        return [f"{found}; run: {interpreter} -m pip install yarp-gptme=={ours}"]
    return []


def _program() -> str | None:
    """gptme: the one on the PATH, else the one in the environment that this runs in."""
    return shutil.which("gptme") or shutil.which("gptme", path=os.path.dirname(sys.executable))


def _own_version() -> str:
    from importlib.metadata import version

    return version("yarp-gptme")


def _interpreter(program: str) -> str | None:
    """The Python that the script `gptme` runs with."""
    try:
        with open(os.path.realpath(program), "rb") as file:
            line = file.readline(4096)
    except OSError:
        return None
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    beside = os.path.join(os.path.dirname(os.path.abspath(program)), "python")
    for path in (words[0] if len(words) == 1 else beside, beside):
        if os.access(path, os.X_OK):
            return path
    return None


def _versions(program: str) -> dict[str, str] | None:
    """The versions of gptme and of this plugin in gptme's environment."""
    code = (
        "import importlib.metadata as m, json\n"
        "found = {}\n"
        "for name in ('gptme', 'yarp-gptme'):\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))\n"
    )
    return _asked(program, code)


def _asked(program: str, code: str) -> dict[str, Any] | None:
    """The JSON object that code prints last in gptme's interpreter; None: it prints none."""
    interpreter = _interpreter(program)
    if interpreter is None:
        return None
    try:
        done = subprocess.run(
            [interpreter, "-c", code], capture_output=True, timeout=_ASK_S, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return found


def _last_call_ms() -> int | None:
    """When a tool last gave a result, as the newest conversation has it."""
    paths = glob.glob(os.path.join(glob.escape(logs_directory()), "*", "conversation.jsonl"))
    if not paths:
        return None
    try:
        with open(max(paths, key=os.path.getmtime), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        if b'"call_id"' in line or b"Ran command" in line:
            with suppress(ValueError, KeyError, TypeError):
                moment = json.loads(line)["timestamp"]
                return round(datetime.fromisoformat(moment).timestamp() * 1000)
    return None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__})") from error


def _backup(path: str) -> str:
    return f"{os.path.realpath(path)}.yarp-backup"


def _with_block(base: str, path: str, scope: str) -> str:
    """The text with the block behind it."""
    found = _parsed(base, path)
    plugins = found.get("plugin", {})
    if not isinstance(plugins, dict) or NAME in plugins:
        raise DataError(f"{path} has a [plugin.{NAME}] of its own; remove it, then install again")
    allowed = found.get("plugins", {})
    enabled = allowed.get("enabled") if scope == "user" and isinstance(allowed, dict) else None
    if isinstance(enabled, list) and enabled and NAME not in enabled:
        base = _allow(base, path)
    gap = "" if not base or base.endswith("\n") else "\n"
    # A JSON array of strings is one of TOML's. A project may not say what is to be run.
    program = f"program = {json.dumps(hostfile.program())}\n" if scope == "user" else ""
    text = f"{base}{gap}{_BEGIN}\n[plugin.{NAME}]\nenabled = true\n{program}{_END}\n"
    _parsed(text, path)
    return text


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no TOML ({error}); correct it first") from error


def _allow(text: str, path: str) -> str:
    """The text with our name in the user's list of allowed plugins."""
    import tomlkit

    document: Any = tomlkit.parse(text)
    document["plugins"]["enabled"].append(NAME)
    changed: str = tomlkit.dumps(document)
    _parsed(changed, path)
    return changed + ("" if changed.endswith("\n") else "\n") + f"{_ALLOWED}\n"


def _without(text: str, path: str) -> str:
    """The text without what an earlier installation put there."""
    begin = text.find(_BEGIN)
    if begin >= 0:
        end = text.find(_END, begin)
        if end < 0:
            raise DataError(f"{path} has the line '{_BEGIN}' and no '{_END}'; remove it by hand")
        text = text[:begin] + text[end + len(_END) :].removeprefix("\n")
    if f"{_ALLOWED}\n" in text:
        import tomlkit

        document: Any = tomlkit.parse(text.replace(f"{_ALLOWED}\n", ""))
        enabled = document.get("plugins", {}).get("enabled", [])
        while NAME in enabled:
            enabled.remove(NAME)
        text = tomlkit.dumps(document)
    return text


def _write(path: str, before: str | None, after: str, *, dry_run: bool) -> list[str]:
    if (before or "") == after:
        return []
    target, backup = os.path.realpath(path), _backup(path)
    # A file that was there before, also an empty one, has a copy.
    removes = not after and not os.path.exists(backup)
    keep = before is not None and _BEGIN in after
    lines = []
    if keep:
        lines.append(f"{'would keep' if dry_run else 'kept'} a copy of {path}: {backup}")
    did, would = ("removed", "would remove") if removes else ("wrote", "would write")
    lines.append(f"{would if dry_run else did} {path}")
    if dry_run:
        return lines
    try:
        if removes:
            os.unlink(target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600
        if keep:
            _publish(backup, before or "", mode)
        if not removes:
            _publish(target, after, mode)
        if not keep:
            with suppress(FileNotFoundError):
                os.unlink(backup)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    return lines


def _publish(path: str, text: str, mode: int) -> None:
    temporary = f"{path}.{os.getpid()}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
