"""Which rule an argument list selects: a few dictionary look-ups, no pattern, no import.

Reads only what `yarp.reduce.rules.load.compile_rules` made. The command decides, never its
output (spec Reduction, "Order of things"); whatever is unknown, ambiguous or guarded selects
nothing, and its bytes stay exact.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # What `compile_rules` returns, and its parts.
    Compiled = dict[str, Any]

BUILTIN = "yarp"
"""The name of the pack that comes with YARP."""
# `timeout 5 uv run python -m pytest` is three launchers deep.
_LAUNCHERS = 5
# Scripts that their tools put into a project under their own name.
_WRAPPERS = ("gradlew", "mvnw")


class Selection:
    """The rule that won, and the command it was chosen for, launchers taken away."""

    __slots__ = ("argv", "family", "options", "pack", "rule")

    def __init__(
        self, pack: str, rule: str, family: str, options: dict[str, int], argv: tuple[str, ...]
    ) -> None:
        self.pack = pack
        self.rule = rule
        self.family = family
        self.options = options
        self.argv = argv


def candidate(program: str, rules: Compiled) -> bool:
    """Whether a command starting with this word can select a rule at all."""
    name = _program(program, rules)
    return name in rules["programs"] or name in rules["launchers"]


def select(argv: list[str], rules: Compiled) -> Selection | None:
    """The one rule for this argument list; None if there is none, several, or a guard.

    A guard keeps its own rule away, and all others but one that requires the guarded option.
    """
    matched = matching(argv, rules)
    fits = [found for found in matched if found[1] is None]
    if len(fits) != 1 or fits[0][0]["action"] != "reduce":
        return None
    rule, _, command = fits[0]
    required = [option for options in rule["required"] for option in options]
    if any(guard not in required for _, guard, _ in matched if guard is not None):
        return None
    return Selection(rule["pack"], rule["id"], rule["family"], rule["options"], tuple(command))


def matching(argv: list[str], rules: Compiled) -> list[tuple[Compiled, str | None, list[str]]]:
    """Every rule whose program, prefix and required options fit: rule, guard hit, command.

    A `pass` rule that fits is its own guard. For explaining; `select` wants exactly one.
    """
    name, command = launched(argv, rules)
    if not command:
        return []
    entry = rules["programs"].get(name)
    if entry is None or "--help" in command:
        return []
    arguments = _skipped(command, 1, entry)
    command = [name, *arguments]
    found = []
    for rule in entry["rules"]:
        rest = _after_prefix(arguments, rule["prefix"])
        if rest is None:
            continue
        words = _words(rest, rule)
        if all(any(_hit(one, words, rule) for one in options) for options in rule["required"]):
            guard = next((option for option in rule["guards"] if _hit(option, words, rule)), None)
            if rule["action"] == "pass":
                guard = rule["id"]
            found.append((rule, guard, command))
    return found


def launched(argv: list[str], rules: Compiled) -> tuple[str, list[str]]:
    """The program that is run at last, and its command without launchers; empty when too deep."""
    command = list(argv)
    for _ in range(_LAUNCHERS):
        if not command:
            break
        name = _program(command[0], rules)
        inner = _launched(name, command, rules)
        if inner is None:
            return name, command
        command = inner
    return "", []


def _program(word: str, rules: Compiled) -> str:
    """The name a rule knows the program by: of a path its last part, of a version its stem."""
    if "/" in word:
        directory, _, word = word.rpartition("/")
        # A script of the project may be called like a tool; what lies in a bin directory is one.
        known = directory.startswith("/") or directory.endswith(("/bin", "/.bin"))
        if not known and not (directory == "." and word in _WRAPPERS):
            return ""
    stem = word.rstrip("0123456789.")
    return stem if stem in rules["versioned"] else word


def _launched(name: str, command: list[str], rules: Compiled) -> list[str] | None:
    """The command that a launcher (`uv run`, `timeout 5`) starts; None for anything else."""
    for launcher in rules["launchers"].get(name, ()):
        entry = rules["programs"].get(name)
        rest = command[1:] if entry is None else _skipped(command, 1, entry)
        inner = _after_prefix(rest, launcher["prefix"])
        if inner is None:
            continue
        rest = _skipped(inner, 0, launcher)
        while launcher["assignments"] and rest and _assigns(rest[0]):
            rest = rest[1:]
        rest = rest[launcher["operands"] :]
        if rest and rest[0] == "--":
            rest = rest[1:]
        if launcher["starts"] and (not rest or rest[0] not in launcher["starts"]):
            continue
        return rest if rest and not rest[0].startswith("-") else None
    return None


def _assigns(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()


def _skipped(command: list[str], start: int, entry: Compiled) -> list[str]:
    """The arguments after the options that stand before the subcommand."""
    flags, values, wild = entry["flags"], entry["values"], entry["wild"]
    at = start
    while at < len(command):
        word = command[at]
        if word in flags or (wild and word.startswith(wild)):
            at += 1
        elif word in values:
            at += 2
        elif _attached(word) in values:
            at += 1
        else:
            break
    return command[at:]


def _attached(word: str) -> str:
    """The option of a word that carries its value too: `--name=value`, `-nvalue`; else ''."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        return name if equals else ""
    return word[:2] if word.startswith("-") and len(word) > 2 else ""


def _after_prefix(arguments: list[str], prefix: tuple[tuple[str, ...], ...]) -> list[str] | None:
    if len(arguments) < len(prefix):
        return None
    for word, alternatives in zip(arguments, prefix, strict=False):
        if word not in alternatives:
            return None
    return arguments[len(prefix) :]


def _words(arguments: list[str], rule: Compiled) -> list[tuple[str, str | None]]:
    """The arguments as (option, value) pairs; an operand is ('', operand)."""
    values, options = rule["values"], rule["options_known"]
    words: list[tuple[str, str | None]] = []
    at, size = 0, len(arguments)
    while at < size:
        word = arguments[at]
        at += 1
        if word == "--":
            if not rule["passes_on"]:
                words += [("", operand) for operand in arguments[at:]]
                break
        elif len(word) < 2 or word[0] != "-":
            words.append(("", word))
        elif word in values:
            words.append((word, arguments[at] if at < size else None))
            at += 1
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            words.append((name, value if equals else None))
        elif word in options or len(word) == 2:
            words.append((word, None))
        elif "=" in word and (name := word.partition("=")[0]) in values | options:
            words.append((name, word[len(name) + 1 :]))
        else:
            words.append((word, None))
            # A cluster: each letter is an option until one takes the rest as its value.
            for index in range(1, len(word)):
                letter = "-" + word[index]
                if letter in values:
                    rest = word[index + 1 :]
                    if not rest and at < size:
                        rest = arguments[at]
                        at += 1
                    words.append((letter, rest))
                    break
                words.append((letter, None))
    return words


def _hit(option: str, words: list[tuple[str, str | None]], rule: Compiled) -> bool:
    """Whether the option was given; `--name=value` asks for a value, a word for an operand."""
    if option[0] != "-" or option == "-":
        # The task that a path of projects leads to is one: `:app:run`.
        return any(
            not word and value is not None and option in (value, value.rpartition(":")[2])
            for word, value in words
        )
    name, equals, wanted = option.partition("=")
    exact = rule["exact"]
    for index, (word, value) in enumerate(words):
        if word == name:
            pass
        elif len(word) > 2 and word[:2] == "--" and name.startswith(word) and word not in exact:
            pass  # An abbreviation that the program may accept; one that it does not is exact too.
        else:
            continue
        if not equals:
            return True
        if value == wanted or (value is None and words[index + 1 : index + 2] == [("", wanted)]):
            return True
    return False
