"""The index's own configuration file: where the traces lie, and where the index does.

A flag counts before an environment variable, that before the file, that before the default;
`show` tells for each value which it was. Paths of the file are relative to the file, those of
flags and variables to the current directory; only `~` and `~/` are expanded. Source: spec
"Trace index", 10 (Config).
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import tomllib
from typing import TYPE_CHECKING, Any

from attrs import frozen

from yarp import paths
from yarp.errors import ConfigError, StorageError
from yarp.index import metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from yarp.index.reader import TraceReader

CONFIG_VARIABLE = "TRACE_INDEX_CONFIG"
DATABASE_VARIABLE = "TRACE_INDEX_DB"
METADATA_VARIABLE = "TRACE_INDEX_METADATA_DB"
_LIMITS = {"max_indexed_record_bytes": 16_777_216, "max_published_text_bytes": 65_536}
MOST_LIMIT_BYTES = 1 << 30
"""The highest bound of records and texts: what is held in memory, and in one SQLite value."""


@frozen
class Setting:
    """A value, and where it comes from: cli, environment, file or default."""

    value: Any
    origin: str


@frozen
class Root:
    """A directory or file with traces."""

    path: str
    label: str | None = None


@frozen
class Config:
    """What the commands of the index work with. `limits` None: those of the database."""

    file: Setting
    exists: bool
    database: Setting
    metadata_database: Setting
    roots: tuple[Root, ...]
    limits: dict[str, int | None]

    def plain(self) -> dict[str, Any]:
        """The configuration as `config show` prints it."""

        def told(name: str, one: Setting) -> dict[str, Any]:
            return {name: one.value, "origin": one.origin}

        return {
            "configuration": {**told("path", self.file), "exists": self.exists},
            "database": told("path", self.database),
            "metadata_database": told("path", self.metadata_database),
            "indexing": {
                name: told(
                    "value",
                    Setting(_LIMITS[name], "default") if value is None else Setting(value, "file"),
                )
                for name, value in self.limits.items()
            },
            "roots": [
                {"path": root.path, "label": root.label, "origin": "file"} for root in self.roots
            ],
        }


def load(
    *,
    config: str | None = None,
    database: str | None = None,
    metadata_database: str | None = None,
) -> Config:
    """The configuration, with the values of flags if they are given.

    Raises ConfigError for a file that was named and is not there, an empty override, an
    unknown key and a value that cannot be used.
    """
    file = _chosen("--config", config, CONFIG_VARIABLE) or Setting(_default_file(), "default")
    text: dict[str, Any] = {}
    exists = os.path.exists(file.value)
    if exists:
        text = _parse(file.value)
    elif file.origin != "default":
        raise ConfigError(f"{file.value}: there is no such configuration file")
    base = os.path.dirname(file.value)
    where = _chosen("--db", database, DATABASE_VARIABLE)
    if where is None and "database" in text:
        where = Setting(_path(text["database"], base, file.value, "database"), "file")
    if where is None:
        where = Setting(os.path.join(paths.data_dir(), "trace-index.sqlite3"), "default")
    kept = _chosen("--metadata-db", metadata_database, METADATA_VARIABLE)
    if kept is None and "metadata_database" in text:
        given = _path(text["metadata_database"], base, file.value, "metadata_database")
        kept = Setting(given, "file")
    if kept is None:
        kept = Setting(metadata.beside(where.value), "default")
    if os.path.realpath(kept.value) == os.path.realpath(where.value):
        raise ConfigError(
            f"{kept.value}: is the database of the index and that of metadata; give each its own"
        )
    return Config(
        file, exists, where, kept, _roots(text, base, file.value), _limits(text, file.value)
    )


def _default_file() -> str:
    return os.path.join(os.path.dirname(paths.config_file()), "trace-index.toml")


def _chosen(flag: str, given: str | None, variable: str) -> Setting | None:
    found = os.environ.get(variable)
    if given is None and found is None:
        return None
    value, origin = (found, "environment") if given is None else (given, "cli")
    if not value:
        raise ConfigError(f"{flag if origin == 'cli' else variable} is empty; give a path")
    return Setting(os.path.abspath(_expand(value)), origin)


def _expand(path: str) -> str:
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def _path(value: object, base: str, file: str, key: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"{file}: {key} must be a path")
    return os.path.normpath(os.path.join(base, _expand(value)))


def _parse(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    known = {"schema_version", "database", "metadata_database", "indexing", "roots"}
    _known(found, known, path, "")
    version = found.get("schema_version")
    if type(version) is not int or version != 1:
        raise ConfigError(f"{path}: schema_version must be 1")
    return found


def _known(found: Mapping[str, Any], known: Iterable[str], path: str, where: str) -> None:
    for key in found:
        if key not in known:
            raise ConfigError(
                f"{path}: unknown key {where}{key}; known: {', '.join(sorted(known))}"
            )


def _limits(text: Mapping[str, Any], path: str) -> dict[str, int | None]:
    found = text.get("indexing", {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: indexing must be a table")
    _known(found, _LIMITS, path, "indexing.")
    for key, value in found.items():
        if type(value) is not int or not 1 <= value <= MOST_LIMIT_BYTES:
            raise ConfigError(
                f"{path}: indexing.{key} must be a number of bytes from 1 to {MOST_LIMIT_BYTES}"
            )
    return {name: found.get(name) for name in _LIMITS}


def _roots(text: Mapping[str, Any], base: str, path: str) -> tuple[Root, ...]:
    found = text.get("roots", [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ConfigError(f"{path}: roots must be an array of tables")
    roots: list[Root] = []
    for number, one in enumerate(found, 1):
        _known(one, ("label", "name", "path"), path, f"roots {number}.")
        label = one.get("label", one.get("name"))
        if label is not None and not isinstance(label, str):
            raise ConfigError(f"{path}: roots {number}: label must be a text")
        root = Root(_path(one.get("path"), base, path, f"roots {number}: path"), label)
        if any(root.path == other.path for other in roots):
            raise ConfigError(f"{path}: the root {root.path} stands there twice")
        roots.append(root)
    return tuple(roots)


def discover(readers: Mapping[str, TraceReader]) -> list[Root]:
    """The default roots of the runtimes that are there on this machine."""
    home = os.path.expanduser("~")
    return [
        Root(path, name)
        for name, reader in readers.items()
        for option in reader.options
        if option.default is not None
        for path in [os.path.normpath(os.path.join(home, _expand(option.default)))]
        if os.path.exists(path)
    ]


def init(config: str | None, roots: Iterable[Root]) -> str:
    """Write a new configuration file with these roots. ConfigError if there is one.

    `config` is the path that a flag gave, if any did.
    """
    chosen = _chosen("--config", config, CONFIG_VARIABLE)
    path = _default_file() if chosen is None else str(chosen.value)
    lines = ["schema_version = 1", ""]
    for root in roots:
        lines.append("[[roots]]")
        if root.label is not None:
            lines.append(f"label = {_quoted(root.label)}")
        lines += [f"path = {_quoted(os.path.abspath(_expand(root.path)))}", ""]
    paths.make_private_dir(os.path.dirname(path))
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(lines))
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; edit it, or move it away") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def check(config: Config) -> list[dict[str, str]]:
    """What would keep a sync from its work: severity, code and a sentence each."""
    found: list[dict[str, str]] = []

    def say(severity: str, code: str, message: str) -> None:
        found.append({"severity": severity, "code": code, "message": message})

    if not config.exists:
        say("warning", "configuration_not_found", f"{config.file.value}: run: config init")
    if not config.roots:
        say("warning", "no_configured_roots", "no roots: name paths to sync, or configure some")
    canonical: dict[str, str] = {}
    for root in config.roots:
        try:
            real = os.path.realpath(root.path, strict=True)
            mode = os.stat(real).st_mode
        except FileNotFoundError:
            say("error", "root_unavailable", f"{root.path}: is not there")
            continue
        except OSError as error:
            code = "root_canonicalization_failed"
            say("error", code, f"{root.path}: {error.strerror}")
            continue
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            say("error", "unsupported_root_type", f"{root.path}: is no directory and no file")
        elif not os.access(real, os.R_OK):
            say("error", "root_unavailable", f"{root.path}: cannot be read")
        elif real in canonical:
            said = f"{root.path}: is {canonical[real]} once more"
            say("error", "duplicate_canonical_root", said)
        canonical.setdefault(real, root.path)
    _check_database(config.database.value, say)
    return found


def _check_database(path: str, say: Any) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        parent = os.path.dirname(path)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            say("error", "database_parent_not_directory", f"{parent}: is no directory")
        else:
            _check_writable(parent, say)
    except NotADirectoryError:
        say("error", "database_parent_not_directory", f"{path}: a directory above it is none")
    except OSError as error:
        say("error", "database_path_unavailable", f"{path}: {error.strerror}")
    else:
        if not stat.S_ISREG(mode):
            say("error", "unsupported_database_type", f"{path}: is no regular file")
        elif not os.access(path, os.R_OK | os.W_OK):
            say("error", "database_path_unavailable", f"{path}: cannot be read and written")
        else:
            _check_writable(os.path.dirname(path), say)


def _check_writable(directory: str, say: Any) -> None:
    """Whether files can be made there; only making one tells, which has no name where it can."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        said = f"{directory}: no file can be made there ({error.strerror})"
        say("error", "database_parent_unavailable", said)
