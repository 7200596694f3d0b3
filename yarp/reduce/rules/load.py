"""From TOML files to the plain values that a hot command matches against.

One directory is one pack; every `*.toml` in it is read, in order of name. The format is in
docs/reference/rules.md. A mistake is a ConfigError that names file, rule and key.
"""

import os
import stat
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from yarp.errors import ConfigError
from yarp.reduce.rules.match import BUILTIN
from yarp.reduce.rules.model import ACTIONS, Example, Launcher, Pack, Program, Rule

_BUDGETS = {
    "success_bytes": (256, 1 << 22),
    "failure_bytes": (256, 1 << 22),
    "max_line_bytes": (256, 1 << 20),
    "minimum_savings_bytes": (0, 1 << 20),
    "minimum_savings_percent": (0, 100),
}
# The streams that hold progress, one bit for each: there a carriage return begins the line anew.
_PROGRESS = {"none": 0, "stderr": 2, "both": 3}
FAMILIES = ("test", "search", "diff", "list", "status", "log", "build", "table", "json")
_FILE_BYTES = 1 << 20
_INPUT_BYTES = 4 << 20
# What every call pays for, or the child that compiles: far above what a pack needs.
FILES = 256
_RULE_BYTES = 2 << 20
_EXAMPLE_BYTES = 64 << 20
_RULES = 1000  # they are compared in pairs
_WORDS = 512
_PROGRAMS = 64
_ENTRIES = 100_000
_NOTES = 100
_DOTS = 4


def builtin_pack() -> Pack:
    """The rules that come with YARP."""
    return load_pack(files("yarp.reduce.rules") / "builtin", BUILTIN)


def load_pack(directory: Traversable | str, name: str) -> Pack:
    """The pack in a directory, checked. Raises ConfigError."""
    root = Path(directory) if isinstance(directory, str) else directory
    rules: list[Rule] = []
    programs: list[Program] = []
    launchers: list[Launcher] = []
    try:
        entries = sorted(
            (entry for entry in root.iterdir() if entry.name.endswith(".toml")),
            key=lambda entry: entry.name,
        )
    except OSError as error:
        raise ConfigError(f"{root}: the rule pack cannot be read: {error.strerror}") from error
    if len(entries) > FILES:
        raise ConfigError(f"{root}: {len(entries)} files of rules; {FILES} in a pack at most")
    texts = _Files(root, _RULE_BYTES, _FILE_BYTES)
    inputs = _Files(root, _EXAMPLE_BYTES, _INPUT_BYTES)
    for entry in entries:
        table = _Table(_parsed(entry, texts), str(entry))
        programs += [_program(item) for item in table.tables("programs")]
        launchers += [_launcher(item) for item in table.tables("launchers")]
        rules += [_rule(item, name, inputs, entry.name) for item in table.tables("rules")]
        table.done()
    if len(rules) > _RULES:
        raise ConfigError(f"{root}: {len(rules)} rules; {_RULES} in a pack at most")
    if sum(map(_weight, rules)) > _ENTRIES:
        raise ConfigError(f"{root}: its rules name more than {_ENTRIES} options in all")
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise ConfigError(f"{root}: two rules are called {rule.id}; rename one")
        seen.add(rule.id)
    return Pack(name, tuple(rules), tuple(programs), tuple(launchers))


def _weight(rule: Rule) -> int:
    """How many words of a rule the compiled rules hold: once for each program."""
    words = rule.guards + rule.values + rule.flags + rule.required
    return len(rule.programs) * (len(words) + sum(map(len, rule.prefix)))


def problems(pack: Pack) -> list[str]:
    """What keeps a pack from being complete: rules without a shortened example or a guard."""
    found = []
    for rule in pack.rules:
        guards = sum(example.guard for example in rule.examples)
        if rule.action == "reduce" and guards == len(rule.examples):
            found.append(f"{pack.name}/{rule.id}: no example that is shortened")
        if not guards:
            found.append(f"{pack.name}/{rule.id}: no guard example that stays exact")
    return found


def compile_rules(packs: list[Pack]) -> dict[str, Any]:
    """All packs as one value of dicts, tuples, strings and numbers that `marshal` can carry.

    Two rules that could both claim a command are both left out; `problems` in the result says
    which. A `pass` rule conflicts with nothing: it only guards.
    """
    conflicting, notes = _conflicts([rule for pack in packs for rule in pack.rules])
    programs: dict[str, dict[str, Any]] = {}
    launchers: dict[str, list[dict[str, Any]]] = {}
    versioned: set[str] = set()
    guards: dict[str, tuple[str, ...]] = {}

    def entry(name: str) -> dict[str, Any]:
        empty = {"flags": frozenset(), "values": frozenset(), "wild": (), "rules": ()}
        return programs.setdefault(name, empty)

    for program in (program for pack in packs for program in pack.programs):
        known = entry(program.name)
        known["flags"] |= {flag for flag in program.flags if not flag.endswith("*")}
        known["wild"] += tuple(flag[:-1] for flag in program.flags if flag.endswith("*"))
        known["values"] |= set(program.values)
        guards[program.name] = guards.get(program.name, ()) + program.guards
        if program.versioned:
            versioned.add(program.name)
    for launcher in (launcher for pack in packs for launcher in pack.launchers):
        launchers.setdefault(launcher.program, []).append(
            {
                "prefix": launcher.prefix,
                "flags": frozenset(flag for flag in launcher.flags if not flag.endswith("*")),
                "wild": tuple(flag[:-1] for flag in launcher.flags if flag.endswith("*")),
                "values": frozenset(launcher.values),
                "operands": launcher.operands,
                "assignments": launcher.assignments,
                "starts": frozenset(launcher.starts),
            }
        )
    for rule in (rule for pack in packs for rule in pack.rules):
        if (rule.pack, rule.id) in conflicting:
            continue
        for name in rule.programs:
            entry(name)["rules"] += (_compiled(rule, guards.get(name, ())),)
    return {
        "programs": programs,
        "launchers": {name: tuple(items) for name, items in launchers.items()},
        "versioned": frozenset(versioned),
        "problems": tuple(notes),
    }


def _compiled(rule: Rule, guards: tuple[str, ...]) -> dict[str, Any]:
    required = _alternatives(rule.required)
    return {
        "pack": rule.pack,
        "id": rule.id,
        "action": rule.action,
        "family": rule.family,
        "prefix": rule.prefix,
        "required": required,
        "guards": rule.guards + guards,
        "values": frozenset(rule.values),
        "options_known": frozenset((*rule.flags, *rule.guards, *guards, *sum(required, ()))),
        "exact": frozenset((*rule.flags, *rule.values)),
        "passes_on": rule.passes_on,
        "options": dict(rule.options),
    }


def _conflicts(rules: list[Rule]) -> tuple[set[tuple[str, str]], list[str]]:
    """The rules that could meet another one, and a sentence for each pair."""
    conflicting: set[tuple[str, str]] = set()
    notes: list[str] = []
    active = [(rule, set(rule.programs)) for rule in rules if rule.action != "pass"]
    for index, (one, names) in enumerate(active):
        for other, others in active[index + 1 :]:
            known = (one.pack, one.id) in conflicting and (other.pack, other.id) in conflicting
            if names.isdisjoint(others) or (known and len(notes) >= _NOTES):
                continue
            shared = sorted(names & others)
            if not shared or not _prefixes_meet(one, other) or _kept_apart(one, other):
                continue
            conflicting |= {(one.pack, one.id), (other.pack, other.id)}
            notes.append(
                f"rules {one.pack}/{one.id} and {other.pack}/{other.id} both claim"
                f" {', '.join(shared)}: both are off until one of them is changed"
            )
    return conflicting, notes


def _prefixes_meet(one: Rule, other: Rule) -> bool:
    return all(set(a) & set(b) for a, b in zip(one.prefix, other.prefix, strict=False))


def _kept_apart(one: Rule, other: Rule) -> bool:
    """Whether what one requires is what the other guards against."""
    return any(
        set(option) <= set(second.guards)
        for first, second in ((one, other), (other, one))
        for option in _alternatives(first.required)
    )


class _Table:
    """A TOML table whose keys are taken one by one, so that an unknown one is noticed."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self._values = dict(values)
        self.where = where

    def take(self, key: str, kind: type, default: Any = None, *, required: bool = False) -> Any:
        if key not in self._values:
            if required:
                raise ConfigError(f"{self.where}: {key} is missing")
            return default
        value = self._values.pop(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ConfigError(f"{self.where}: {key} must be of type {kind.__name__}")
        return value

    def words(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        value = self.take(key, list, [], required=required)
        if not all(isinstance(word, str) and word for word in value):
            raise ConfigError(f"{self.where}: {key} must be a list of words")
        if len(value) > _WORDS:
            raise ConfigError(f"{self.where}: {key} has {len(value)} words; {_WORDS} at most")
        return tuple(value)

    def tables(self, key: str) -> list["_Table"]:
        value = self.take(key, list, [])
        if not all(isinstance(item, dict) for item in value):
            raise ConfigError(f"{self.where}: {key} must be an array of tables, [[{key}]]")
        return [_Table(item, f"{self.where}: {key}[{at}]") for at, item in enumerate(value)]

    def done(self) -> None:
        if self._values:
            raise ConfigError(f"{self.where}: {min(self._values)} is no key of the format")


def _parsed(file: Traversable, texts: "_Files") -> dict[str, Any]:
    try:
        text = texts.read(file).decode()
        _check_shape(text, str(file))
        return tomllib.loads(text)
    except ValueError as error:  # no UTF-8, no TOML, a number of a million digits
        raise ConfigError(f"{file}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{file}: is nested too deeply") from None


def _check_shape(text: str, where: str) -> None:
    """Refuse what costs the parser the square of its length: keys of many parts.

    Only a text within one line is known from a key by its quotes alone.
    """
    if '"""' in text or "'''" in text:
        raise ConfigError(f"{where}: a text over several lines is no part of the format")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _DOTS and _dots(line) > _DOTS:
            raise ConfigError(f"{where}: line {number}: a key has too many parts")


def _dots(line: str) -> int:
    """How many dots stand in a line outside of quotes and of its comment."""
    found = 0
    quote = ""
    characters = iter(line)
    for character in characters:
        if quote:
            if character == "\\" and quote == '"':
                next(characters, None)
            elif character == quote:
                quote = ""
        elif character in ("'", '"'):
            quote = character
        elif character == "#":
            break
        elif character == ".":
            found += 1
    return found


class _Files:
    """Reads files of a pack, up to a number of bytes each and in all."""

    def __init__(self, root: Traversable, whole: int, each: int) -> None:
        self.root = root
        self._whole = self._left = whole
        self._each = each

    def read(self, file: Traversable) -> bytes:
        """The bytes of a regular file that lies in the pack itself, wherever links lead."""
        data = self._bytes(file)
        self._left -= len(data)
        if self._left < 0:
            raise ConfigError(f"{self.root}: more than {self._whole >> 20} MiB of such files")
        return data

    def _bytes(self, file: Traversable) -> bytes:
        try:
            if not isinstance(file, Path) or not isinstance(self.root, Path):
                return file.read_bytes()
            if not file.resolve().is_relative_to(self.root.resolve()):
                raise ConfigError(f"{file}: a link that leads out of the pack")
            # Not blocking: a pipe of that name must not stop whoever compiles.
            descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as opened:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise ConfigError(f"{file}: is no regular file")
                if found.st_size > self._each:
                    raise ConfigError(f"{file}: {found.st_size} bytes; {self._each} at most")
                return opened.read(self._each)
        except (OSError, RuntimeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no usable path"
            raise ConfigError(f"{file}: cannot be read: {reason}") from error


def _alternatives(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(word.split("|")) for word in words)


def _program(table: _Table) -> Program:
    program = Program(
        table.take("name", str, required=True),
        table.words("flags"),
        table.words("values"),
        table.words("guards"),
        table.take("versioned", bool, False),
    )
    table.done()
    return program


def _launcher(table: _Table) -> Launcher:
    launcher = Launcher(
        table.take("program", str, required=True),
        _alternatives(table.words("prefix")),
        table.words("flags"),
        table.words("values"),
        table.take("operands", int, 0),
        table.take("assignments", bool, False),
        table.words("starts"),
    )
    table.done()
    return launcher


def _rule(table: _Table, pack: str, inputs: "_Files", file: str) -> Rule:
    identifier = table.take("id", str, required=True)
    table.where = f"{inputs.root}/{file}: rule {identifier}"
    if not identifier or not set(identifier) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
        raise ConfigError(f"{table.where}: id must be of a-z, 0-9 and -")
    action = table.take("action", str, "reduce")
    if action not in ACTIONS:
        raise ConfigError(f"{table.where}: action must be one of {', '.join(ACTIONS)}")
    family = table.take("family", str)
    if (family is not None) != (action == "reduce"):
        raise ConfigError(f"{table.where}: family belongs to action = 'reduce', and only there")
    if family is not None and family not in FAMILIES:
        raise ConfigError(f"{table.where}: family must be one of {', '.join(FAMILIES)}")
    programs = table.words("programs", required=True)
    if not programs or any("/" in name or name.split() != [name] for name in programs):
        raise ConfigError(f"{table.where}: programs must be names without a path")
    if len(programs) > _PROGRAMS:
        raise ConfigError(f"{table.where}: {len(programs)} programs; {_PROGRAMS} at most")
    options = {}
    for key, (least, most) in _BUDGETS.items():
        value = table.take(key, int)
        if value is None:
            continue
        if not least <= value <= most:
            raise ConfigError(f"{table.where}: {key} must be from {least} to {most}")
        options[key] = value
    progress = table.take("progress", str)
    if progress is not None:
        if progress not in _PROGRESS:
            raise ConfigError(f"{table.where}: progress must be one of {', '.join(_PROGRESS)}")
        options["progress"] = _PROGRESS[progress]
    rule = Rule(
        pack,
        identifier,
        file,
        programs,
        action,
        family,
        _alternatives(table.words("prefix")),
        table.words("required"),
        table.words("guards"),
        table.words("values"),
        table.words("flags"),
        table.take("passes_on", bool, False),
        options,
        tuple(_example(item, inputs) for item in table.tables("examples")),
    )
    table.done()
    return rule


def _example(table: _Table, inputs: "_Files") -> Example:
    example = Example(
        table.words("command", required=True),
        table.take("guard", bool, False),
        table.take("exit_status", int, 0),
        _input(table, "stdout", inputs),
        _input(table, "stderr", inputs),
        table.words("keep"),
        table.words("absent"),
        table.take("recorded", bool, True),
    )
    table.done()
    if not example.guard and not (example.keep and (example.stdout or example.stderr)):
        raise ConfigError(f"{table.where}: an example needs an input and facts to keep")
    return example


def _input(table: _Table, key: str, inputs: "_Files") -> bytes | None:
    name = table.take(key, str)
    if name is None:
        return None
    if name.startswith("/") or ".." in name.split("/"):
        raise ConfigError(f"{table.where}: {key} must be a path below the pack")
    try:
        return inputs.read(inputs.root.joinpath(*name.split("/")))
    except ConfigError as error:
        raise ConfigError(f"{table.where}: {error}") from error
