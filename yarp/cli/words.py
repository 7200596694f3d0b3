"""The words of a lean command, read without a command-line framework, which would cost more.

Long options take their value as the next word or after `=`, short ones also attached (`-A3`);
short switches may be joined (`-iF`); `--` ends the options. Nothing is abbreviated.
"""

from __future__ import annotations

from yarp.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Options:
    """The parsed words of a command: its positional ones, values by name, and switches."""

    __slots__ = ("_command", "_names", "positional", "switches", "values")

    def __init__(
        self, command: str, words: list[str], values: dict[str, str], switches: dict[str, str]
    ) -> None:
        self._command = command
        self._names = values
        self.positional: list[str] = []
        self.values: dict[str, list[str]] = {}
        self.switches: set[str] = set()
        rest = iter(words)
        for word in rest:
            if word == "--":
                self.positional.extend(rest)
            elif len(word) < 2 or word[0] != "-":
                self.positional.append(word)
            else:
                self._option(word, rest, values, switches)

    def _option(
        self, word: str, rest: Iterator[str], values: dict[str, str], switches: dict[str, str]
    ) -> None:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in switches and not equals:
            self.switches.add(switches[name])
        elif name in values:
            given = value if equals else next(rest, None)
            if given is None:
                raise self.wrong(f"{name} needs a value")
            self.values.setdefault(values[name], []).append(given)
        elif word[:2] in values and not word.startswith("--"):
            self.values.setdefault(values[word[:2]], []).append(word[2:])  # -A3
        elif word[:2] in switches and not word.startswith("--"):
            self.switches.add(switches[word[:2]])  # -iF
            self._option(f"-{word[2:]}", rest, values, switches)
        else:
            raise self.wrong(f"unknown option {word}")

    def wrong(self, what: str) -> UsageError:
        """The error that says `what` and where the options are explained."""
        return UsageError(f"{what}; see: yarp {self._command} --help")

    def _named(self, name: str) -> str:
        return "/".join(word for word, meant in self._names.items() if meant == name)

    def value(self, name: str) -> str | None:
        """The one value of an option; giving it twice differently is an error."""
        given = self.values.get(name)
        if given is None:
            return None
        if any(value != given[0] for value in given):
            raise self.wrong(f"{self._named(name)} is given twice with different values")
        return given[0]

    def number(self, name: str, low: int, high: int) -> int | None:
        """The value of an option as a canonical number from `low` to `high`."""
        value = self.value(name)
        if value is None:
            return None
        number = canonical_number(value)
        if number is None or not low <= number <= high:
            raise self.wrong(f"{self._named(name)} takes {low} to {high}")
        return number


def canonical_number(text: str) -> int | None:
    """A number in plain digits without a leading zero, or None."""
    # Canonical digits only: no sign, no leading zero; 15 digits are more than any source has.
    if text.isascii() and text.isdigit() and len(text) <= 15 and (text == "0" or text[0] != "0"):
        return int(text)
    return None
