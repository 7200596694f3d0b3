"""The one configuration file: TOML, checked whole, nothing guessed.

Each key is declared once, below, with its default, its rule and its sentence; the command
line, the template and the reference are made from the same declarations. An unknown or
duplicate key, a wrong type or a value out of range refuses the whole file. There is no
merging, no `~` and no environment expansion; relative paths start at the file's directory.
"""

from __future__ import annotations

import os
import stat
import tomllib
from typing import Any

import attrs
import cattrs
from attrs import frozen
from cattrs.gen import make_dict_structure_fn, override

from yarp import paths
from yarp.errors import ConfigError
from yarp.settings import Settings


class _Refusal(ValueError):
    """A value that its rule does not allow; the message is what was found."""

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(found)
        self.allowed = allowed


def _show(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@frozen
class Boolean:
    """true or false."""

    allowed = "true or false"

    def check(self, value: object, directory: str) -> bool:  # noqa: ARG002 - one shape for all rules
        """The value itself. Raises the refusal that names what was found."""
        if not isinstance(value, bool):
            raise _Refusal(_show(value), self.allowed)
        return value


@frozen
class Integer:
    """A whole number from `low` to `high`; with `or_zero` also 0."""

    low: int
    high: int
    or_zero: bool = False

    @property
    def allowed(self) -> str:
        """What the rule takes, in words."""
        span = str(self.low) if self.low == self.high else f"{self.low} to {self.high}"
        return f"0, or {span}" if self.or_zero else span

    def check(self, value: object, directory: str) -> int:  # noqa: ARG002 - one shape for all rules
        """The value itself. Raises the refusal that names what was found."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise _Refusal(_show(value), self.allowed)
        if not (self.low <= value <= self.high or (self.or_zero and value == 0)):
            raise _Refusal(_show(value), self.allowed)
        return value


@frozen
class PathName:
    """A path; a relative one starts at the configuration's directory."""

    allowed = "a path that is not empty and does not begin with ~"

    def check(self, value: object, directory: str) -> str:
        """The absolute path."""
        if not isinstance(value, str) or not value or value.startswith("~") or "\0" in value:
            raise _Refusal(_show(value), self.allowed)
        return os.path.normpath(os.path.join(directory, value))


@frozen
class Name:
    """A name that is not empty."""

    allowed = "a name that is not empty"

    def check(self, value: object, directory: str) -> str:  # noqa: ARG002 - one shape for all rules
        """The value itself."""
        if not isinstance(value, str) or not value.strip():
            raise _Refusal(_show(value), self.allowed)
        return value


@frozen
class Listed:
    """A list whose members follow one rule and differ."""

    member: PathName | Name
    allowed: str

    def check(self, value: object, directory: str) -> tuple[str, ...]:
        """The members as they resolve."""
        if not isinstance(value, list | tuple):
            raise _Refusal(_show(value), self.allowed)
        try:
            members = tuple(self.member.check(member, directory) for member in value)
        except _Refusal as refusal:
            raise _Refusal(f"a list with {refusal}", self.allowed) from None
        for place, member in enumerate(members):
            if member in members[:place]:
                raise _Refusal(f"{_show(member)} twice", self.allowed)
        return members


@frozen
class HostTables:
    """One free table a host; its plugin checks what stands in it."""

    allowed = "one table a host, of text, numbers, booleans, lists and tables"

    def check(self, value: object, directory: str) -> dict[str, dict[str, object]]:  # noqa: ARG002 - one shape for all rules
        """The tables themselves."""
        if not isinstance(value, dict):
            raise _Refusal(_show(value), self.allowed)
        for name, table in value.items():
            if not isinstance(table, dict):
                raise _Refusal(f"{name} = {_show(table)}", self.allowed)
            self._require_plain(table, name)
        return value

    def _require_plain(self, value: object, where: str) -> None:
        if isinstance(value, dict):
            for name, member in value.items():
                self._require_plain(member, f"{where}.{name}")
        elif isinstance(value, list):
            for member in value:
                self._require_plain(member, where)
        elif not isinstance(value, bool | int | float | str):
            # Dates: the compiled cache cannot carry them.
            raise _Refusal(f"{where} = {_show(str(value))}", self.allowed)


Rule = Boolean | Integer | PathName | Name | Listed | HostTables


def _key(default: object, rule: Rule, about: str) -> Any:
    return attrs.field(default=default, metadata={"rule": rule, "about": about})


@frozen
class Pruning:
    """`[pruning]`."""

    enabled: bool = _key(True, Boolean(), "Summarise the output of commands that a rule selects.")


@frozen
class Output:
    """`[output]`."""

    cap_bytes: int = _key(
        5120,
        Integer(1024, 16_777_216, or_zero=True),
        "Most bytes of text that a host's call shows the model; 0: no cap.",
    )
    recovery_cap_bytes: int = _key(
        32_768,
        Integer(1024, 49_152),
        "Most bytes that one `yarp search`, `read`, `grep` or `calls` prints.",
    )
    recovery_cap_lines: int = _key(
        1900, Integer(1, 1900), "Most lines that one of these commands prints."
    )


@frozen
class Reduce:
    """`[reduce]`."""

    success_bytes: int = _key(
        1024, Integer(256, 1_048_576), "Bytes that the summary of a successful command may take."
    )
    failure_bytes: int = _key(
        4096,
        Integer(256, 1_048_576),
        "Bytes that the summary of a failed command, or of one whose status is unknown, may take.",
    )
    minimum_savings_bytes: int = _key(
        256, Integer(0, 1_048_576), "A summary that saves fewer bytes is not used."
    )
    minimum_savings_percent: int = _key(
        15, Integer(0, 100), "A summary that saves a smaller share is not used."
    )


@frozen
class ArchiveSection:
    """`[archive]`."""

    enabled: bool = _key(
        True,
        Boolean(),
        "Keep every call; when false, hosts' results are neither cut nor reduced, and "
        "`yarp run` says `not archived`.",
    )
    path: str | None = _key(
        None,
        PathName(),
        "The database; its directory must be private (0700). Unset: "
        "`$XDG_DATA_HOME/yarp/tool-calls.sqlite3`, else `~/.local/share/yarp/tool-calls.sqlite3`.",
    )


@frozen
class Rules:
    """`[rules]`."""

    packs: tuple[str, ...] = _key(
        (),
        Listed(PathName(), "a list of different paths, none of them empty or beginning with ~"),
        "Directories with rules of your own, each a pack that is called as its directory is.",
    )


@frozen
class Plugins:
    """`[plugins]`."""

    order: tuple[str, ...] = _key(
        (),
        Listed(Name(), "a list of different names, none of them empty"),
        "Plugins that are asked first, in this order; the others follow by name.",
    )


@frozen
class Config:
    """The whole configuration, checked; absolute paths."""

    version: int = _key(1, Integer(1, 1), "The version of this file's format; always there.")
    pruning: Pruning = Pruning()
    output: Output = Output()
    reduce: Reduce = Reduce()
    archive: ArchiveSection = ArchiveSection()
    rules: Rules = Rules()
    plugins: Plugins = Plugins()
    hosts: dict[str, dict[str, object]] = attrs.field(
        factory=dict,
        metadata={
            "rule": HostTables(),
            "about": "One table a host; its plugin checks it.",
        },
    )

    def settings(self) -> Settings:
        """The same as the plain value that hot commands read."""
        settings = Settings()
        settings.pruning_enabled = self.pruning.enabled
        settings.output_cap_bytes = self.output.cap_bytes
        settings.recovery_cap_bytes = self.output.recovery_cap_bytes
        settings.recovery_cap_lines = self.output.recovery_cap_lines
        settings.success_bytes = self.reduce.success_bytes
        settings.failure_bytes = self.reduce.failure_bytes
        settings.minimum_savings_bytes = self.reduce.minimum_savings_bytes
        settings.minimum_savings_percent = self.reduce.minimum_savings_percent
        settings.archive_enabled = self.archive.enabled
        settings.archive_path = self.archive.path
        settings.rule_packs = self.rules.packs
        settings.plugin_order = self.plugins.order
        settings.hosts = self.hosts
        return settings


@frozen
class Key:
    """One key as the command line and the reference name it, such as `output.cap_bytes`."""

    name: str
    default: Any
    rule: Rule
    about: str


def _keys() -> dict[str, Key]:
    found = {}
    for field in attrs.fields(Config):
        if "rule" in field.metadata:
            default = {} if field.name == "hosts" else field.default
            members = [(field.name, default, field.metadata)]
        else:
            section: Any = type(field.default)
            members = [
                (f"{field.name}.{member.name}", member.default, member.metadata)
                for member in attrs.fields(section)
            ]
        for name, default, metadata in members:
            found[name] = Key(name, default, metadata["rule"], metadata["about"])
    return found


KEYS: dict[str, Key] = _keys()
"""Every key in the order of the reference."""


# What to do about a value in the file.
MEND = ". Correct it or delete it"


class ConfigRefused(ConfigError):
    """The file cannot be used; `problems` holds one sentence for each reason."""

    def __init__(self, path: str, problems: list[str]) -> None:
        more = f" (and {len(problems) - 1} more: yarp config check)" if len(problems) > 1 else ""
        super().__init__(f"{path}: {problems[0]}{more}")
        self.path = path
        self.problems = tuple(problems)


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe that stands there."""
    return os.open(path, flags | os.O_NONBLOCK)


def load_config(path: str | None = None) -> Config:
    """The configuration at `path`, by default where `yarp config path` says.

    A missing file is the defaults. Raises ConfigError with the key or line, what was
    found, what is allowed and what to do.
    """
    path = path or paths.config_file()
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigRefused(path, ["is no regular file. Move it away"])
            text = file.read()
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigRefused(
            path, [f"cannot be read: {error.strerror}. Make it a file that you can read"]
        ) from error
    return parse(text, path)


def parse(text: bytes, path: str) -> Config:
    """The configuration in `text`; `path` gives messages their name and paths their start."""
    return structure(parse_toml(text, path), path)


def parse_toml(text: bytes, path: str) -> dict[str, Any]:
    """The TOML document in `text`. Raises ConfigError with the line."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigRefused(path, [f"line {line} is not UTF-8; write it again"]) from error
    try:
        return tomllib.loads(decoded)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigRefused(path, [_syntax(str(error), decoded)]) from error


def _syntax(message: str, text: str) -> str:
    what, _, place = message.rpartition(" (at ")
    if not what:
        return f"is not TOML: {message}; correct it"
    what = what[:1].lower() + what[1:]
    lines = text.split("\n")
    number, _, column = place.rstrip(")").removeprefix("line ").partition(", ")
    if not number.isdecimal():  # "end of document"
        number = str(len(lines))
    place = f"line {number}, {column}" if column else f"line {number}"
    left, equals, _ = lines[int(number) - 1].partition("=")
    if equals and left.isprintable() and len(left) <= 60:
        place += f" ({left.strip()})"
    if "overwrite" in what or "twice" in what:
        return f"{place}: the same key or table twice; keep one of them"
    return f"{place}: {what}; correct it"


def structure(document: dict[str, Any], path: str) -> Config:
    """The checked configuration that `document` holds. Raises ConfigError."""
    if "version" not in document:
        raise ConfigRefused(path, ["version is missing; write `version = 1` on the first line"])
    try:
        return _converter(os.path.dirname(os.path.abspath(path))).structure(document, Config)
    except cattrs.ClassValidationError as error:
        raise ConfigRefused(path, _problems(error, "")) from error


def _converter(directory: str) -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)

    def hook(cls: type) -> Any:
        members: Any = {
            field.name: override(struct_hook=member(field)) for field in attrs.fields(cls)
        }
        return make_dict_structure_fn(cls, converter, **members)

    def member(field: Any) -> Any:
        rule: Rule | None = field.metadata.get("rule")
        if rule is not None:
            return lambda value, _: rule.check(value, directory)
        section = hook(type(field.default))

        def structure_section(value: object, cls: type) -> object:
            if not isinstance(value, dict):
                raise _Refusal(_show(value), f"a table, [{field.name}]")
            return section(value, cls)

        return structure_section

    converter.register_structure_hook(Config, hook(Config))
    return converter


def _problems(error: BaseException, where: str) -> list[str]:
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return [_unknown(f"{where}{name}") for name in sorted(error.extra_fields)]
    if isinstance(error, _Refusal):
        name = where.removesuffix(".")
        return [f"{name} is {error}; allowed: {error.allowed}{MEND}"]
    if not isinstance(error, BaseExceptionGroup):
        raise error
    found = []
    for inner in error.exceptions:
        below = where
        for note in getattr(inner, "__notes__", []):
            if isinstance(note, cattrs.AttributeValidationNote):
                below = f"{where}{note.name}."
        found += _problems(inner, below)
    return found


def _unknown(name: str) -> str:
    shown = name if name.isprintable() and len(name) <= 80 else _show(name)
    return f"{shown} is no key of the configuration; {suggestion(name)}"


def suggestion(name: str) -> str:
    """What to do about a key that is not there: the likely one, else those it could be."""
    import difflib

    section, dot, _ = name.partition(".")
    names = [key for key in KEYS if dot and key.startswith(f"{section}.")]
    names = names or [*dict.fromkeys(key.partition(".")[0] for key in KEYS)]
    close = difflib.get_close_matches(name, [*names, *KEYS], 1, 0.7)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(names)}"
