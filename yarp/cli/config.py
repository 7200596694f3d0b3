"""`yarp config`: read and edit the one configuration file.

An edit keeps comments, order and layout, is checked as a whole before anything is
written, and replaces the file in one step.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
import textwrap
from typing import TYPE_CHECKING, Any

import rich_click as click

from yarp import config, paths
from yarp.cli import text
from yarp.errors import ConfigError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HOSTS = "hosts."


@click.group("config")
@text.shows("yarp config init", "yarp config set output.cap_bytes 8192", "yarp config show --json")
def command() -> None:
    """Read and edit the configuration: one TOML file, checked whole."""


@command.command("path")
@text.shows("yarp config path")
def path_command() -> None:
    """Print where the configuration file is, there or not."""
    click.echo(paths.config_file())


@command.command("init")
@text.shows("yarp config init")
def init_command() -> None:
    """Create the file: a commented template with every key and its default."""
    path = paths.config_file()
    with _locked(path):
        if os.path.lexists(path):
            raise ConfigError(f"{path} exists already; edit it, or see: yarp config show")
        _replace(path, template(), fresh=True)
    click.echo(f"created {path}")


@command.command("show")
@text.json_option
@text.shows("yarp config show", "yarp config show --json")
def show_command(as_json: bool) -> None:
    """Print every value in use, defaults among them."""
    values = _resolved(config.load_config())
    if as_json:
        click.echo(json.dumps(_nested(values), indent=2, ensure_ascii=False))
        return
    given = _given(paths.config_file())
    for name, value in values.items():
        note = "" if name in given or name == "hosts" else "  # default"
        click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}{note}")


@command.command("get")
@click.argument("key")
@text.shows("yarp config get output.cap_bytes")
def get_command(key: str) -> None:
    """Print one value: plain text, or JSON for a list or a table."""
    values = _resolved(config.load_config())
    if key.startswith(_HOSTS):
        value: Any = values["hosts"]
        for part in key.split(".")[1:]:
            if not isinstance(value, dict) or part not in value:
                raise ConfigError(f"{key} is not set; yarp config show names what is")
            value = value[part]
    else:
        value = values[_known(key)]
    click.echo(_plain(value))


@command.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("values", nargs=-1)
@text.shows("yarp config set output.cap_bytes 8192", "yarp config set plugins.order acme zeta")
def set_command(key: str, values: tuple[str, ...]) -> None:
    """Set KEY to VALUES, keep the rest of the file as it is, and print what it means now.

    A list takes any number of values, none among them; all others take one.
    """
    value = _typed(key, values)
    path = paths.config_file()
    with _locked(path):
        resolved = _edit(path, key, value)
    if key.startswith(_HOSTS):
        click.echo(f"{key} = {_plain(value)}")
    else:
        click.echo(f"{key} = {_plain(_resolved(resolved)[key])}")


@command.command("unset")
@click.argument("key")
@text.shows("yarp config unset output.cap_bytes")
def unset_command(key: str) -> None:
    """Take KEY out of the file, so that its default counts again."""
    if key == "version":
        raise ConfigError("version must stay; it names the format of the file")
    if not key.startswith(_HOSTS):
        _known(key)
    path = paths.config_file()
    with _locked(path):
        resolved = _edit(path, key, None)
    if key.startswith(_HOSTS):
        click.echo(f"{key} is not set")
    else:
        click.echo(f"{key} = {_plain(_resolved(resolved)[key])}")


@command.command("check")
@text.shows("yarp config check")
def check_command() -> None:
    """Check the file; each problem is one line on standard error."""
    path = paths.config_file()
    try:
        loaded = config.load_config(path)
        problems = [*pack_problems(loaded), *_host_problems(loaded)]
    except config.ConfigRefused as refused:
        problems = list(refused.problems)
    if problems:
        for problem in problems[:-1]:
            click.echo(f"yarp: {path}: {problem}", err=True)
        raise ConfigError(f"{path}: {problems[-1]}")
    click.echo("configuration: ok")


def template() -> str:
    """The file that `yarp config init` writes: every key as a comment with its default."""
    lines = ["# YARP's configuration. See docs/reference/configuration.md", "version = 1"]
    section = ""
    for name, key in config.KEYS.items():
        head, dot, member = name.partition(".")
        if not dot:
            continue
        if head != section:
            section = head
            lines += ["", f"[{section}]"]
        note = key.about.replace("`", "")
        lines += textwrap.wrap(
            note, 96, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        lines += [f"# Allowed: {key.rule.allowed}"]
        default = "/where/you/want/it.sqlite3" if key.default is None else key.default
        lines += [f"# {member} = {json.dumps(default)}"]
    return "\n".join(lines) + "\n"


def pack_problems(loaded: config.Config) -> list[str]:
    """What is wrong with the rule packs that the configuration names."""
    from yarp.reduce.rules.load import load_pack

    problems = []
    names: dict[str, str] = {}
    for path in loaded.rules.packs:
        name = os.path.basename(path)
        if name in names:
            problems.append(f"rules.packs: {names[name]} and {path} are both called {name}")
        names[name] = path
        try:
            load_pack(path, name)
        except ConfigError as error:
            problems.append(f"rules.packs: {error}")
    return problems


def _host_problems(loaded: config.Config) -> list[str]:
    """What the plugins say of the tables of their hosts; one of no plugin here is kept."""
    if not loaded.hosts:
        return []
    from yarp.plugins import Plugins

    plugins = Plugins.load(loaded.settings())
    wanted = tuple(f"hosts.{name}." for name in plugins.hosts())
    return [note for note in plugins.notes if note.startswith(wanted)]


def _known(name: str) -> str:
    if name not in config.KEYS:
        raise ConfigError(f"{name} is no key of the configuration; {config.suggestion(name)}")
    return name


def _resolved(loaded: config.Config) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in config.KEYS:
        value: Any = loaded
        for part in name.split("."):
            value = getattr(value, part)
        values[name] = list(value) if isinstance(value, tuple) else value
    if values["archive.path"] is None:
        values["archive.path"] = paths.archive_file()
    return values


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        section, dot, member = name.partition(".")
        if dot:
            found.setdefault(section, {})[member] = value
        else:
            found[section] = value
    return found


def _given(path: str) -> set[str]:
    try:
        with open(path, "rb") as file:
            document = config.parse_toml(file.read(), path)
    except FileNotFoundError:
        return set()
    return {
        f"{section}.{member}"
        for section, table in document.items()
        if isinstance(table, dict)
        for member in table
    } | {name for name, value in document.items() if not isinstance(value, dict)}


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _typed(key: str, values: tuple[str, ...]) -> Any:
    if key.startswith(_HOSTS):
        if len(key.split(".")) < 3 or not all(key.split(".")):
            raise ConfigError(f"{key} is a table; set one of its keys: hosts.NAME.KEY")
        guessed = [_guess(value) for value in values]
        return guessed[0] if len(guessed) == 1 else guessed
    if key == "hosts":
        raise ConfigError("hosts holds tables; set one of their keys: hosts.NAME.KEY")
    rule = config.KEYS[_known(key)].rule
    if isinstance(rule, config.Listed):
        return list(values)
    if len(values) != 1:
        raise ConfigError(f"{key} takes one value, not {len(values)}; allowed: {rule.allowed}")
    text = values[0]
    if isinstance(rule, config.Boolean) and text in {"true", "false"}:
        return text == "true"
    if isinstance(rule, config.Integer) and _is_number(text):
        return int(text)
    if isinstance(rule, config.Boolean | config.Integer):
        raise ConfigError(f"{key} cannot be {text!r}; allowed: {rule.allowed}")
    return text  # the check of the whole file says what is wrong with it


def _guess(text: str) -> bool | int | str:
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if _is_number(text) else text


def _is_number(text: str) -> bool:
    # Canonical digits only: 007 and +5 are spelling mistakes more often than numbers.
    return text.isascii() and text.isdigit() and len(text) < 19 and str(int(text)) == text


def _edit(path: str, key: str, value: Any) -> config.Config:
    """The configuration after the edit, which is on disk then; `value` None takes it out."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if os.path.islink(path):
        raise ConfigError(f"{path} is a symbolic link; edit the file that it names")
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        if value is None:
            raise ConfigError(f"{key} is not set; there is no {path}") from None
        text = b"version = 1\n"
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    wanted = config.parse_toml(text, path)
    parts = key.split(".")
    try:
        document = tomlkit.parse(text.decode())
        _change(wanted, parts, value, key, dict)
        _change(document, parts, value, key, tomlkit.table)
        edited = tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ConfigError(f"{path} cannot be edited here ({error}); edit it by hand") from error
    try:
        candidate = config.structure(wanted, path)
    except config.ConfigRefused as refused:
        raise ConfigError(_not_set(refused.problems, key)) from refused
    if _full(config.parse_toml(edited.encode(), path)) != _full(wanted):
        raise ConfigError(f"{path}: its layout does not let {key} be edited; edit it by hand")
    problems = pack_problems(candidate) if key == "rules.packs" else []
    if problems:
        raise ConfigError(problems[0])
    _replace(path, edited, fresh=False)
    return candidate


def _not_set(problems: Sequence[str], key: str) -> str:
    """Why an edit was refused; a fault that stood in the file before it is told as it is."""
    first = problems[0]
    if first.startswith(f"{key} is "):
        first = first.replace(" is ", " cannot be ", 1).removesuffix(config.MEND)
    return f"{first}; nothing was changed"


def _change(table: Any, parts: list[str], value: Any, key: str, make: Any) -> None:
    chain = [table]
    for part in parts[:-1]:
        if part not in chain[-1]:
            if value is None:
                raise ConfigError(f"{key} is not set")
            chain[-1][part] = make()
        chain.append(chain[-1][part])
        if not hasattr(chain[-1], "keys"):
            raise ConfigError(f"{key}: {part} is no table; correct the file by hand")
    if value is not None:
        chain[-1][parts[-1]] = value
        return
    if parts[-1] not in chain[-1]:
        raise ConfigError(f"{key} is not set")
    del chain[-1][parts[-1]]
    for depth in range(len(parts) - 2, -1, -1):
        if chain[depth + 1] or "#" in getattr(chain[depth + 1], "as_string", str)():
            break  # a comment is somebody's: only a section with nothing in it goes
        del chain[depth][parts[depth]]


def _full(table: dict[str, Any]) -> dict[str, Any]:
    """`table` without the tables in it that hold nothing."""
    inner = {name: _full(v) if isinstance(v, dict) else v for name, v in table.items()}
    return {name: value for name, value in inner.items() if value != {}}


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold the file's directory, made private when it is new, against other edits."""
    directory = os.path.dirname(path)
    paths.make_private_dir(directory)
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StorageError(f"{directory} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: str, text: str, *, fresh: bool) -> None:
    directory = os.path.dirname(path)
    try:
        if not fresh and os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise UsageError(f"{path} is not a regular file; move it away")
        handle, temporary = tempfile.mkstemp(prefix=".config-", suffix=".toml", dir=directory)
        try:
            with open(handle, "wb") as file:
                os.fchmod(handle, 0o600)  # a umask may have taken the owner's own bits
                file.write(text.encode())
                file.flush()
                os.fsync(handle)  # a crash may keep the new name and lose the bytes
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        folder = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
