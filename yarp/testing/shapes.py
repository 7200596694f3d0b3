"""Records as another build of an agent might write them: one part replaced, or missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ODD: tuple[Any, ...] = (None, True, 7, -1.5, "", "a\0b", [], {}, [None], [[]], {"": None}, 2**70)
_DEEPEST = 4


def mutations(value: Any, depth: int = 0) -> Iterator[Any]:
    """The JSON value with one part of it replaced by something odd, or missing."""
    if depth == 0:
        yield from ODD
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, part in value.items():
            yield {name: one for name, one in value.items() if name != key}
            for odd in ODD:
                yield {**value, key: odd}
            for inner in mutations(part, depth + 1):
                yield {**value, key: inner}
    elif isinstance(value, list) and value and depth < _DEEPEST:
        for odd in ODD:
            yield [odd, *value[1:]]
        for inner in mutations(value[0], depth + 1):
            yield [inner, *value[1:]]
