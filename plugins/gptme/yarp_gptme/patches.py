"""Wraps functions of gptme, each only after its signature was checked, and puts them back.

gptme has no hook between a command's pipe and its buffers, so the offers of this plugin stand
on a few wrapped functions. Each offer names the functions it needs and how they are called; a
single difference leaves all of that offer alone, and says what differs.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.KEYWORD_ONLY: "*",
    inspect.Parameter.VAR_POSITIONAL: "*args ",
    inspect.Parameter.VAR_KEYWORD: "**kwargs ",
}


class Mismatch(Exception):
    """A function of gptme is not there, or is called in another way than this plugin knows."""


class Target:
    """A function to wrap: where it is, and the parameters that it must have.

    `place` is `module:name` or `module:Class.name`. `parameters` in the short form of `shape`.
    """

    def __init__(self, place: str, parameters: str) -> None:
        self.place = place
        self.parameters = parameters

    def resolve(self) -> tuple[Any, str, Any]:
        """Its owner, its name there, and the function. Mismatch: it is not as expected."""
        module_name, _, path = self.place.partition(":")
        *outer, name = path.split(".")
        try:
            owner: Any = importlib.import_module(module_name)
            for part in outer:
                owner = getattr(owner, part)
            function = getattr(owner, name)
        except (ImportError, AttributeError):
            raise Mismatch(f"{self.place} is not there") from None
        if not callable(function):
            raise Mismatch(f"{self.place} is no function")
        found = shape(function)
        if found != self.parameters:
            raise Mismatch(f"{self.place} takes ({found}), expected ({self.parameters})")
        return owner, name, function


def shape(function: Callable[..., Any]) -> str:
    """The parameters of a function: names, `=` behind an optional one, `*` before a keyword's.

    Annotations and the values of defaults do not count.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "?"
    return ", ".join(
        _KINDS.get(parameter.kind, "")
        + parameter.name
        + ("" if parameter.default is inspect.Parameter.empty else "=")
        for parameter in parameters
    )


class Patches:
    """What was wrapped, so that all of it can be put back."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def wrap(self, changes: Iterable[tuple[Target, Callable[[Any], Any]]]) -> None:
        """Wrap every target, or none of them when one is not as expected (Mismatch).

        A change takes the function as it is and gives the one to put in its place.
        """
        resolved = [(target.resolve(), change) for target, change in changes]
        for (owner, name, function), change in resolved:
            wrapped = change(function)
            wrapped.__wrapped__ = function
            wrapped.__name__ = getattr(function, "__name__", name)
            wrapped.__doc__ = function.__doc__
            self._undo.append((owner, name, function))
            setattr(owner, name, wrapped)

    def restore(self) -> None:
        """Put back what was there, last first."""
        while self._undo:
            owner, name, function = self._undo.pop()
            setattr(owner, name, function)
