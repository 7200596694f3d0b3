"""Puts the extension where Pi looks for it, takes it away again, and tells how it stands.

The extension is one directory of its own, `extensions/yarp`. A record beside its files,
`yarp.json`, says which program installed it, the digest of every file, and which directories
had to be made; so that uninstalling removes exactly what installing wrote.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any

from yarp.plugin import DataError, Health, StorageError

_EXTENSION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "extension")
_RECORD = "yarp.json"
_MARK = "yarp install pi"
_TAIL_BYTES = 1 << 22
# What would make the directory somebody's extension, or be in the way of ours.
_LOADED = (".ts", ".js", ".json")
_PACKAGES = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")


def install(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Write the extension; a line for each change. Nothing changes when all is in place.

    `scope` user: Pi's own directory (PI_CODING_AGENT_DIR); project: `.pi` below `directory`.
    A file that was edited meanwhile is kept beside the new one as `NAME.backup`.
    DataError: something that YARP did not write stands in the place.
    """
    target = _target(scope, directory)
    record = _record(target)
    shipped = _shipped()
    known: dict[str, str] = record.get("files", {})
    change = _Change(dry_run)
    created = list(record.get("created", [])) or change.make_directories(target)
    for name in sorted(known.keys() - shipped.keys()):
        change.remove(os.path.join(target, name), known[name])
    for name, data in shipped.items():
        change.write(os.path.join(target, name), data, known.get(name))
    new = {
        "writtenBy": _MARK,
        "program": _program(),
        "files": {name: _digest(data) for name, data in shipped.items()},
        "created": created,
    }
    if new != record:
        change.write(os.path.join(target, _RECORD), json.dumps(new, indent=2).encode() + b"\n", "")
    if change.lines and not record:
        change.lines += _advice(scope)
    return change.lines


def uninstall(scope: str, dry_run: bool, directory: str | None) -> list[str]:
    """Remove what `install` wrote, and nothing else; a line for each change.

    A directory goes if `install` made it and nothing is left in it; Pi's own stays in any case.
    """
    target = _target(scope, directory)
    record = _record(target)
    change = _Change(dry_run)
    own = _own(scope, directory)
    if record:
        for name, digest in record["files"].items():
            change.remove(os.path.join(target, name), digest)
        change.remove(os.path.join(target, _RECORD), None)
        for path in reversed(record["created"]):
            if f"{target}/".startswith(f"{path}/") and path.startswith(f"{own}/"):
                change.remove_directory(path)
    return change.lines


def health(directory: str | None) -> Health:
    """Whether Pi is here, its version, and whether the extension is in place and whole."""
    program = shutil.which("pi")
    notes: list[str] = []
    hooked_in = False
    for scope in ("user", "project"):
        target = _target(scope, directory)
        try:
            record = _record(target)
        except DataError as error:
            notes.append(str(error))
            continue
        if record:
            problem = _problem(target, record)
            hooked_in = hooked_in or problem is None
            if problem is not None:
                again = _MARK if scope == "user" else f"{_MARK} --scope project"
                notes.append(f"{problem}; run: {again}")
    return Health(
        installed=program is not None,
        hooked_in=hooked_in,
        version=None if program is None else _version(program),
        last_call_ms=_last_call_ms(),
        notes=notes,
    )


def _problem(target: str, record: dict[str, Any]) -> str | None:
    program = record["program"][0]
    if not os.access(program, os.X_OK):
        return f"{program}, which {target} wants to start, is gone"
    for name, digest in record["files"].items():
        if _digest_of(os.path.join(target, name)) != digest:
            return f"{os.path.join(target, name)} is not as YARP wrote it"
    if record["files"] != {name: _digest(data) for name, data in _shipped().items()}:
        return f"{target} is of another version of yarp-pi"
    return None


def _own(scope: str, directory: str | None) -> str:
    """The outermost directory that belongs to Pi itself."""
    if scope == "project":
        return os.path.join(os.path.abspath(directory or os.getcwd()), ".pi")
    configured = os.environ.get("PI_CODING_AGENT_DIR") or os.path.join("~", ".pi")
    return os.path.abspath(os.path.expanduser(configured))


def _target(scope: str, directory: str | None) -> str:
    base = _own(scope, directory)
    if scope != "project" and not os.environ.get("PI_CODING_AGENT_DIR"):
        base = os.path.join(base, "agent")
    return os.path.join(base, "extensions", "yarp")


def _record(target: str) -> dict[str, Any]:
    """The record of what was installed there, {} where nothing is. DataError: not ours."""
    if os.path.islink(target) or (os.path.exists(target) and not os.path.isdir(target)):
        raise DataError(f"{target} is no directory of YARP's; move it away")
    path = os.path.join(target, _RECORD)
    if not os.path.lexists(path):
        # Backups of ours, and what else Pi would not load, may stand beside the extension.
        names = sorted(os.listdir(target)) if os.path.isdir(target) else []
        theirs = [name for name in names if name.endswith(_LOADED)]
        if theirs:
            raise DataError(f"{target} holds {theirs[0]} but no {_RECORD}; move it away")
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}); move it away") from error
    if not _is_record(record):
        raise DataError(f"{path} was not written by {_MARK}; move it away")
    found: dict[str, Any] = record
    return found


def _is_record(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("writtenBy") != _MARK:
        return False
    program, files, created = value.get("program"), value.get("files"), value.get("created")
    return (
        isinstance(program, list)
        and bool(program)
        and all(isinstance(word, str) for word in program)
        and isinstance(files, dict)
        # A name is what is removed later: it must not lead out of the directory.
        and all(os.path.basename(name) == name for name in files)
        and all(isinstance(digest, str) for digest in files.values())
        and isinstance(created, list)
        and all(isinstance(path, str) and os.path.isabs(path) for path in created)
    )


def _shipped() -> dict[str, bytes]:
    found = {}
    for name in sorted(os.listdir(_EXTENSION)):
        if name.endswith(".ts"):
            with open(os.path.join(_EXTENSION, name), "rb") as file:
                found[name] = file.read()
    return found


def _program() -> list[str]:
    """The words that start this very `yarp` from anywhere."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "yarp")
    for path in (beside, os.path.abspath(sys.argv[0])):
        if os.path.basename(path) == "yarp" and os.access(path, os.X_OK):
            return [path]
    return [sys.executable, "-m", "yarp"]


def _advice(scope: str) -> list[str]:
    kept = "From now on every call is kept, with the secrets in it, in a private archive here"
    lines = [f"{kept}; see: yarp archive stats"]
    if scope == "project":
        lines += [
            "Pi loads a project's extensions only once the project is trusted.",
            f"{_RECORD} names a path of this machine: keep it out of version control.",
        ]
    return lines


def _last_call_ms() -> int | None:
    """When a tool was last called, as the newest session has it."""
    own = _own("user", None)
    agent = own if os.environ.get("PI_CODING_AGENT_DIR") else os.path.join(own, "agent")
    folder = os.environ.get("PI_CODING_AGENT_SESSION_DIR") or os.path.join(agent, "sessions")
    paths = glob.glob(os.path.join(glob.escape(folder), "**", "*.jsonl"), recursive=True)
    if not paths:
        return None
    with open(max(paths, key=os.path.getmtime), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        if b'"toolCall"' in line:
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                if record["message"]["role"] == "assistant":
                    return round(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
    return None


def _version(program: str) -> str | None:
    """The version in the package.json above the program that `pi` stands for."""
    directory = os.path.dirname(os.path.realpath(program))
    while directory != os.path.dirname(directory):
        try:
            with open(os.path.join(directory, "package.json"), encoding="utf-8") as file:
                package = json.load(file)
        except (OSError, ValueError):
            package = None
        if isinstance(package, dict) and package.get("name") in _PACKAGES:
            version = package.get("version")
            return version if isinstance(version, str) else None
        directory = os.path.dirname(directory)
    return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return _digest(file.read())
    except OSError:
        return None


def _check_writable(directory: str, otherwise: str) -> None:
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StorageError(f"{otherwise}: {directory} is not writable")


class _Change:
    """Changes files and says so; a dry run only says so, and fails where the change would."""

    def __init__(self, dry_run: bool) -> None:
        self.lines: list[str] = []
        self._dry_run = dry_run
        self._would_be_gone: set[str] = set()

    def _begin(self, did: str, would: str, path: str) -> bool:
        self.lines.append(f"{would if self._dry_run else did} {path}")
        return not self._dry_run

    def make_directories(self, target: str) -> list[str]:
        """Make `target` and what is missing above it; the ones that were made, outermost first."""
        missing = []
        path = target
        while not os.path.isdir(path):
            if os.path.lexists(path):
                raise StorageError(f"{path} is not a directory; move it away")
            missing.append(path)
            path = os.path.dirname(path)
        missing.reverse()
        if missing:
            _check_writable(path, f"{missing[0]} cannot be made")
        for path in missing:
            if self._begin("made", "would make", path):
                try:
                    os.mkdir(path)
                except OSError as error:
                    raise StorageError(f"{path} cannot be made: {error.strerror}") from error
        return missing

    def write(self, path: str, data: bytes, known: str | None) -> None:
        """Write `data`; what stands there already is backed up unless its digest is `known`.

        An empty `known` means a file that is always ours.
        """
        found = _digest_of(path)
        if found == _digest(data):
            return
        if os.path.isdir(path):
            raise StorageError(f"{path} is a directory; move it away")
        if os.path.isdir(os.path.dirname(path)):
            _check_writable(os.path.dirname(path), f"{path} cannot be written")
        if found is not None and known not in ("", found):
            self._back_up(path)
        if not self._begin("wrote", "would write", path):
            return
        temporary = f"{path}.{os.getpid()}.new"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}") from error

    def remove(self, path: str, known: str | None) -> None:
        """Remove a file; one that was edited since is kept as a backup."""
        if not os.path.lexists(path):
            return
        _check_writable(os.path.dirname(path), f"{path} cannot be removed")
        if known is not None and _digest_of(path) != known:
            self._back_up(path)
        elif self._begin("removed", "would remove", path):
            os.unlink(path)
        else:
            self._would_be_gone.add(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory if nothing is left in it."""
        if not os.path.isdir(path) or os.path.islink(path):
            return
        inside = {os.path.join(path, name) for name in os.listdir(path)}
        if inside - self._would_be_gone:
            return
        _check_writable(os.path.dirname(path), f"{path} cannot be removed")
        if self._begin("removed", "would remove", path):
            os.rmdir(path)
        else:
            self._would_be_gone.add(path)

    def _back_up(self, path: str) -> None:
        number = 1
        backup = f"{path}.backup"
        while os.path.lexists(backup):
            number += 1
            backup = f"{path}.backup{number}"
        if self._begin(f"kept the edited {path} as", f"would keep the edited {path} as", backup):
            os.rename(path, backup)
