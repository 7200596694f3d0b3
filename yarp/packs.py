"""The rule packs in force: the core's, the user's, the plugins', and those of trusted projects.

A project brings rules in `.yarp/rules`; they count only below that project, and only once the
user has trusted exactly these files (`yarp rules trust`): the configuration directory records the
folder's canonical path and the digest of what lies in it. Source: spec "Reduction", Rules are
data.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import attrs

from yarp import paths
from yarp.errors import ConfigError, DataError, YarpError
from yarp.reduce.rules.load import FILES, compile_rules, load_pack
from yarp.reduce.rules.match import BUILTIN
from yarp.types import RulePack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from yarp.plugins import Plugins
    from yarp.reduce.rules.model import Pack
    from yarp.settings import Settings

PROJECT = "project"
"""The name of a project's pack; only one counts in any directory."""

_FOLDER = os.path.join(".yarp", "rules")
_FILES = 4096
_BYTES = 64 << 20
_TRUST_BYTES = 1 << 20


@attrs.frozen
class Source:
    """A folder of rules, and the pack in it; None with the `problem` when it cannot be used.

    `owner` says in words who brings it.
    """

    owner: str
    name: str
    directory: Traversable | str
    pack: Pack | None = None
    problem: str | None = None


@attrs.frozen
class Project:
    """A project with rules: its `root`, the canonical path of the `folder` they lie in.

    `state` is `trusted`, `untrusted`, or `changed` since it was trusted; `problem` says why a
    trusted one cannot be used.
    """

    root: str
    folder: str
    state: str
    pack: Pack | None = None
    problem: str | None = None


def user_folder() -> str:
    """The user's own folder of rules, there or not."""
    return os.path.join(os.path.dirname(paths.config_file()), "rules")


def installed(plugins: Plugins, settings: Settings) -> list[Source]:
    """The packs that count everywhere: the core's, the user's, configured ones, the plugins'."""
    from importlib.resources import files

    wanted = [("YARP", RulePack(BUILTIN, files("yarp.reduce.rules") / "builtin"))]
    if os.path.isdir(user_folder()):
        wanted.append(("the user's folder of rules", RulePack("user", user_folder())))
    wanted += [
        ("rules.packs", RulePack(os.path.basename(path), path)) for path in settings.rule_packs
    ]
    wanted += [(f"plugin {name}", pack) for name, pack in plugins.rule_packs()]
    found: list[Source] = []
    names = {PROJECT}
    for owner, declared in wanted:
        name, directory = declared.name, declared.directory
        if name in names:
            problem = f"{owner}: another rule pack is called {name}; this one is left out"
            found.append(Source(owner, name, directory, problem=problem))
            continue
        names.add(name)
        try:
            found.append(Source(owner, name, directory, load_pack(directory, name)))
        except ConfigError as error:
            problem = f"{owner}: {error}; the pack is left out"
            found.append(Source(owner, name, directory, problem=problem))
    return found


def files_of(directory: Traversable | str) -> list[str]:
    """A pack's directory and its rule files; none inside an archive, which the site covers."""
    if not isinstance(directory, str | os.PathLike):
        return []
    root = os.fspath(directory)
    try:
        names = sorted(name for name in os.listdir(root) if name.endswith(".toml"))
    except OSError:
        names = []
    if len(names) > FILES:
        names = []  # it is refused; the folder itself shows when that changes
    return [root, *(os.path.join(root, name) for name in names)]


# Projects


def folder_of(directory: str) -> str:
    """The canonical path of the rules of a project, given the project or the folder itself.

    Raises DataError when there is no such folder.
    """
    whole = os.path.realpath(directory)
    if not whole.endswith(os.sep + _FOLDER):
        whole = os.path.realpath(os.path.join(whole, _FOLDER))
    if not whole.endswith(os.sep + _FOLDER) or not os.path.isdir(whole):
        raise DataError(f"{directory}: there is no folder {_FOLDER} in it")
    return whole


def project_at(directory: str) -> Project | None:
    """The innermost project with rules that `directory` lies in; None: there is none."""
    at = os.path.realpath(directory)
    while True:
        folder = os.path.join(at, _FOLDER)
        if os.path.isdir(folder):
            return _project(os.path.realpath(folder), at, _recorded())
        parent = os.path.dirname(at)
        if parent == at:
            return None
        at = parent


def trusted_projects() -> list[Project]:
    """Every project whose rules were trusted, those that changed since included."""
    recorded = _recorded()
    return [
        _project(folder, os.path.dirname(os.path.dirname(folder)), recorded)
        for folder in sorted(recorded)
    ]


def trust(folder: str) -> tuple[str, Pack]:
    """Trust what lies in `folder` (see `folder_of`) now: its digest, and the pack.

    Raises DataError for a pack that could not be used.
    """
    before = digest(folder)
    try:
        pack = load_pack(folder, PROJECT)
    except ConfigError as error:
        raise DataError(str(error)) from error
    if digest(folder) != before:
        raise DataError(f"{folder}: changed while it was read; look at it and try again")
    _record({**_recorded(), folder: before})
    return before, pack


def distrust(folder: str) -> bool:
    """Forget that `folder` was trusted; whether it had been."""
    recorded = _recorded()
    if folder not in recorded:
        return False
    del recorded[folder]
    _record(recorded)
    return True


def digest(folder: str) -> str:
    """The SHA-256 over names and bytes of all files below a folder, in order of name.

    Raises DataError for anything but files and folders, and for more than any pack needs.
    """
    whole = hashlib.sha256()
    left = _BYTES
    for count, path in enumerate(_walk(folder)):
        if count == _FILES:
            raise DataError(f"{folder}: more than {_FILES} files; that is no rule pack")
        data = _bytes(path, left)
        left -= len(data)
        name = os.path.relpath(path, folder).encode("utf-8", "surrogateescape")
        whole.update(b"%d:%b%d:" % (len(name), name, len(data)))
        whole.update(data)
    return whole.hexdigest()


def overlay(rules: dict[str, Any], packs: list[Pack], project: Pack) -> dict[str, Any]:
    """What the project's pack changes in the compiled `rules` of `packs`; see `cache.merged`."""
    whole = compile_rules([*packs, project])
    changed: dict[str, Any] = {}
    for key, value in whole.items():
        if isinstance(value, dict):
            changed[key] = {name: one for name, one in value.items() if rules[key].get(name) != one}
        else:
            changed[key] = value
    for name in rules["programs"].keys() - whole["programs"].keys():
        changed["programs"][name] = {**rules["programs"][name], "rules": ()}
    return changed


def trust_file() -> str:
    """Where it is recorded which folders are trusted."""
    return os.path.join(os.path.dirname(paths.config_file()), "trusted-rules.json")


def _project(folder: str, root: str, recorded: dict[str, str]) -> Project:
    if folder not in recorded:
        return Project(root, folder, "untrusted")
    try:
        if digest(folder) != recorded[folder]:
            return Project(root, folder, "changed")
        return Project(root, folder, "trusted", load_pack(folder, PROJECT))
    except YarpError as error:
        return Project(root, folder, "changed", problem=str(error))


def _walk(folder: str) -> Iterator[str]:
    for directory, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in folders:
            if os.path.islink(os.path.join(directory, name)):
                raise DataError(f"{os.path.join(directory, name)}: a link; a rule pack holds none")
        yield from (os.path.join(directory, name) for name in sorted(names))


def _raise(error: OSError) -> None:
    raise DataError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _bytes(path: str, most: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise DataError(f"{path}: no regular file; a rule pack holds nothing else")
            data = file.read(most + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise DataError(f"{path}: more than {_BYTES >> 20} MiB in all; that is no rule pack")
    return data


def _recorded() -> dict[str, str]:
    """Folder to digest. Raises ConfigError when the record cannot be trusted itself."""
    path = trust_file()
    if not os.path.lexists(path):
        return {}
    try:
        found = os.lstat(path)
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ConfigError(f"{path}: others can write it; remove it, or run: chmod 600 '{path}'")
        record = json.loads(_bytes(path, _TRUST_BYTES))
        return {folder: record[folder]["sha256"] for folder in record}
    except (DataError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path}: cannot be read; remove it and trust again") from error


def _record(recorded: dict[str, str]) -> None:
    path = trust_file()
    paths.make_private_dir(os.path.dirname(path))
    temporary = f"{path}.{os.getpid()}"
    values = {folder: {"sha256": sha256} for folder, sha256 in sorted(recorded.items())}
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(values, indent=2) + "\n")
        file.flush()
        os.fsync(descriptor)
    os.rename(temporary, path)
