"""Patterns that are compiled when they are first used.

A family has dozens of them and one call needs few, in a process of its own: to load a family must
not cost what most calls never use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import AnyStr

_METHODS = ("match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")


def pattern_of(text: AnyStr) -> re.Pattern[AnyStr]:
    """The pattern of `text`; a mistake in it shows when it is first used."""
    return _Late(text)  # type: ignore[return-value]


class _Late:
    """A pattern in waiting: its slots are filled with the compiled one's methods on first use."""

    __slots__ = (*_METHODS, "pattern")

    def __init__(self, text: object) -> None:
        self.pattern = text

    def __getattr__(self, name: str) -> object:
        """Only reached while a slot is empty."""
        if name not in _METHODS:
            raise AttributeError(name)
        import re

        compiled = re.compile(self.pattern)  # type: ignore[call-overload]
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(self, name)
