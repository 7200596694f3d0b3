"""JSON values as others wrote them: read exactly, walked at any depth, written again.

What the fast parser cannot read exactly, such as integers over 64 bits, is read by Python's
own. Source: seed 003, "Stable reads".
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DEPTH = 1024
"""A text whose values are nested more deeply is refused. It is what orjson reads at most."""

_RECURSION_LIMIT = 8000  # who walks a value, or writes it again, takes up to three frames a level
_DIGITS = bytes(ord("0") if 48 <= byte < 58 else ord("x") for byte in range(256))
# 2**63 has 19 digits: what is longer or as long may not fit 64 bits.
_LONG_NUMBER = b"0" * 19


@contextmanager
def deep_values() -> Iterator[None]:
    """Around the use of values of lines: what walks them by recursion has the frames it needs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Beyond(float):
    """A number that JSON can write and no type of ours holds, such as 1e999: it is infinite.

    `text` is how it stands there. What asks for an integer, or for a bound, passes it over.
    """

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Self:
        """The number that stands there as `text`."""
        number = super().__new__(cls, "-inf" if text.startswith("-") else "inf")
        number.text = text
        return number

    def __repr__(self) -> str:
        return self.text


def parse_json(
    data: bytes, most_depth: int = MOST_DEPTH, *, beyond: bool = False
) -> tuple[Any, bool]:
    """The value of one JSON text, and whether a lone surrogate in it has become U+FFFD.

    Integers are exact whatever their size. Of an object's equal keys the last counts; those that
    would be equal without lone surrogates keep them. Raises ValueError, whose words name the kind
    of fault and quote nothing; a number of thousands of digits is one, and one that is no finite
    double, unless `beyond` has them as `Beyond`.
    """
    try:
        value = orjson.loads(data)
        if not may_be_rounded(value, data):
            return value, False
    except ValueError:
        pass
    try:
        with deep_values():
            value = _exact(data.decode(), beyond=beyond)
            if is_deeper(value, most_depth):
                raise ValueError("nested too deeply")
            return without_surrogates(value)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(_fault(data, error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_deeper(value: Any, most_depth: int) -> bool:
    """Whether values stand in one another more than `most_depth` deep."""
    level = [value]
    for _ in range(most_depth + 1):
        level = [
            inner
            for each in level
            if type(each) is dict or type(each) is list
            for inner in (each.values() if type(each) is dict else each)
        ]
        if not level:
            return False
    return True


def may_be_rounded(value: Any, data: bytes) -> bool:
    """Whether the fast parser may have made floats, `value`, of integers that `data` holds."""
    return _holds_float(value) and has_long_number(data)


def _holds_float(value: Any) -> bool:
    left = [value]
    for each in left:
        kind = type(each)
        if kind is dict:
            left += each.values()
        elif kind is list:
            left += each
        elif kind is float:
            return True
    return False


def has_long_number(data: bytes) -> bool:
    """Whether so many digits stand together that the fast parser may round them."""
    # Ten times as fast as a regular expression.
    return _LONG_NUMBER in data.translate(_DIGITS)


def _refuse(_: str) -> Any:
    raise ValueError("a number that JSON does not have")


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError("a number of more digits than can be read") from None


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _exact(text: str, *, beyond: bool) -> Any:
    return json.loads(
        text,
        parse_constant=_refuse,
        parse_float=_float_or_beyond if beyond else _finite,
        parse_int=_integer_or_beyond if beyond else _integer,
    )


def _integer_or_beyond(digits: str) -> int | Beyond:
    try:
        return int(digits)
    except ValueError:
        return Beyond(digits)


def _float_or_beyond(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else Beyond(text)


def _fault(data: bytes, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return "more than one JSON value"
    if b"\0" in data:
        return "NUL bytes"
    if error.pos >= len(error.doc.rstrip()):
        return "it ends too early"
    return "no JSON value"


def json_text(value: Any) -> str:
    """A JSON value as compact text: numbers in full, lone surrogates as escapes.

    Raises TypeError or ValueError for what is no JSON.
    """
    return _written(value).encode("utf-8", "backslashreplace").decode()


def _written(value: Any) -> str:
    kind = type(value)
    if kind is Beyond:
        return str(value.text)
    if kind is list:
        return f"[{','.join(map(_written, value))}]"
    if kind is dict:
        if any(type(key) is not str for key in value):
            raise TypeError("a key that is no string")
        members = (f"{_written(key)}:{_written(item)}" for key, item in value.items())
        return f"{{{','.join(members)}}}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def without_surrogates(value: Any) -> tuple[Any, bool]:
    """A JSON value with U+FFFD for each lone surrogate, and whether there was one.

    The keys of an object that would become equal stay as they are.
    """
    try:
        # Python's own writer passes lone surrogates on; no other character fails to encode.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        replaced = _replaced(value)
        return replaced, replaced != value
    return value, False


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replaced(item) for item in value]
    if isinstance(value, dict):
        keys = {key: _replaced(key) for key in value}
        if len({*keys.values()}) < len(keys):
            keys = {key: key for key in keys}
        return {keys[key]: _replaced(item) for key, item in value.items()}
    return value
