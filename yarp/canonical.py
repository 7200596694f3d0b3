"""RFC 8785 canonical JSON and SHA-256: the bytes that inputs and results are kept as.

Three encoders give the same bytes and differ in what they cost. The own one imports nothing and
serves the small values of the hot lane; orjson serves large ones; rfc8785, the reference, serves
all that the other two would print otherwise. Source: spec "Archive", Payloads; spec "Speed",
Canonical JSON.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    from _json import encode_basestring as _quote
except ImportError:  # another Python's private module: the public one, at its price
    from json.encoder import encode_basestring as _quote

# More nodes than this are worth the import of orjson (27 ms against about 0.4 us a node).
_SMALL_NODES = 4096
# Integers of up to this size are exact in a double, and every encoder prints their digits.
_EXACT = 2**53 - 1
# From here on UTF-16 order (RFC 8785) and code point order (Python, orjson) differ.
_FIRST_MISORDERED = "\ue000"
_SPACE = " \t\n\r"
_RAW = "yarpRawJson"
_HASHLIB_PAYS = 1 << 20
_LIGHT_SHA256 = "_sha256" if sys.version_info < (3, 12) else "_sha2"


class NotCanonical(ValueError):
    """RFC 8785 has no bytes for this value, or would change it."""


class _Declined(Exception):
    """This encoder leaves the value to the next one."""


def encode(value: object) -> bytes:
    """The RFC 8785 bytes of a JSON value.

    An integer beyond 2**53 is written when its double prints the same digits. Raises
    NotCanonical for what RFC 8785 cannot hold: other such integers, NaN, infinity, lone
    surrogates, keys that are no strings, nesting beyond Python's own depth.
    """
    try:
        if "orjson" not in sys.modules:
            try:
                return _encode_small(value)
            except _Declined:
                pass
        if _orjson_agrees(value):
            import orjson

            try:
                return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
            except orjson.JSONEncodeError:
                pass  # the reference knows whether the value is at fault, or orjson's depth
        return _encode_by_reference(value)
    except RecursionError:
        raise NotCanonical("nested too deeply") from None


def encode_text(json_text: bytes | str) -> bytes:
    """The canonical bytes of a host's JSON text, or of `{"yarpRawJson": text}`.

    The second form keeps, as a string, a text that RFC 8785 cannot hold unchanged: integers
    whose double prints other digits, lone surrogates, duplicate keys, NaN and infinity, and
    nesting beyond Python's own depth. Raises ValueError for what is no JSON text.
    Source: spec "Archive", Payloads.
    """
    text = json_text if isinstance(json_text, str) else json_text.decode("utf-8")
    try:
        value = parse(text)
        if type(value) is not dict or value.keys() != {_RAW}:
            return encode(value)
        # The host's own object of that name: kept as text too, so that `raw_text` gives it back.
    except NotCanonical:
        pass
    # A lone surrogate can stand only inside a JSON string, where its escape means the same.
    kept = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return encode({_RAW: kept.strip(_SPACE)})


def raw_text(data: bytes) -> str | None:
    """The host's JSON text when `data` is a payload that `encode_text` kept as text, else None."""
    if not data.startswith(b'{"yarpRawJson":"'):
        return None
    value = parse(data.decode("utf-8"))
    text: str | None = value[_RAW] if value.keys() == {_RAW} else None
    return text


def parse(text: str) -> Any:
    """The value of one JSON text, as `json.loads` gives it, without importing `json`.

    Raises NotCanonical for duplicate keys, NaN, infinity and numbers Python will not read;
    ValueError for what is no JSON.
    """
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = _scan(text, start)
    except StopIteration as stop:
        raise ValueError(f"no JSON value at character {stop.value}") from None
    except RecursionError:
        raise NotCanonical("nested too deeply") from None
    except SystemError:
        if "json.decoder" in sys.modules:
            raise
        # Python 3.11's scanner cannot raise its own error before this module is loaded.
        __import__("json.decoder")
        return parse(text)
    except ValueError as error:
        if type(error) is ValueError:  # int() itself: more digits than Python will read
            raise NotCanonical("an integer has too many digits") from None
        raise
    if text[end:].strip(_SPACE):
        raise ValueError(f"more than one JSON value, at character {end}")
    return value


def sha256(data: bytes | bytearray | memoryview) -> bytes:
    """The SHA-256 digest, 32 bytes."""
    hasher = new_sha256(large=len(data) >= _HASHLIB_PAYS)
    hasher.update(data)
    digest: bytes = hasher.digest()
    return digest


def new_sha256(*, large: bool) -> Any:
    """A hash object: OpenSSL's for `large` data, five times as fast once it is imported."""
    if not large and "hashlib" not in sys.modules:
        try:
            return __import__(_LIGHT_SHA256).sha256()
        except ImportError:
            pass  # another Python's private module: the public one, at its price
    import hashlib

    return hashlib.sha256()


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotCanonical("an object has a key twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise NotCanonical(f"{name} is no JSON number")


class _ScannerOptions:
    """What the scanner of `_json` asks of its context; `json.JSONDecoder` without its imports."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_unique_pairs)
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)


def _new_scanner() -> Any:
    try:
        from _json import make_scanner

        return make_scanner(_ScannerOptions)  # type: ignore[arg-type]
    except (ImportError, AttributeError):  # another Python: the public module, at its price
        from json import JSONDecoder

        decoder: Any = JSONDecoder(object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant)
        return decoder.scan_once


_scan = _new_scanner()


def _encode_small(value: object) -> bytes:
    out: list[str] = []
    _append(value, out.append, [_SMALL_NODES])
    try:
        return "".join(out).encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("a string holds a lone surrogate") from None


def _append(value: object, write: Callable[[str], None], nodes_left: list[int]) -> None:
    kind = type(value)
    if kind is str:
        write(_quote(value))  # type: ignore[arg-type]
    elif value is None:
        write("null")
    elif kind is bool:
        write("true" if value else "false")
    elif kind is int and -_EXACT <= value <= _EXACT:  # type: ignore[operator]
        write(str(value))
    elif kind is dict or kind is list:
        nodes_left[0] -= len(value)  # type: ignore[arg-type]
        if nodes_left[0] < 0:
            raise _Declined
        separator = ""
        if kind is list:
            write("[")
            for item in value:  # type: ignore[attr-defined]
                write(separator)
                _append(item, write, nodes_left)
                separator = ","
            write("]")
        else:
            write("{")
            for key in _sorted_keys(value):  # type: ignore[arg-type]
                write(f"{separator}{_quote(key)}:")
                _append(value[key], write, nodes_left)  # type: ignore[index]
                separator = ","
            write("}")
    else:
        raise _Declined


def _sorted_keys(value: dict[str, object]) -> list[str]:
    if not _keys_sort_alike(value):
        raise _Declined
    return sorted(value)


def _orjson_agrees(value: object) -> bool:
    """Whether orjson prints `value` as RFC 8785 wants it (spec "Speed", Canonical JSON)."""
    kind = type(value)
    items: Any = (value,)
    if kind is dict:
        if not _keys_sort_alike(value):  # type: ignore[arg-type]
            return False
        items = value.values()  # type: ignore[attr-defined]
    elif kind is list:
        items = value
    for item in items:
        kind = type(item)
        if kind is str or item is None or kind is bool:
            continue
        if kind is int:
            if not -_EXACT <= item <= _EXACT:
                return False
        elif kind is float:
            if not _orjson_prints(item):
                return False
        elif (kind is not dict and kind is not list) or not _orjson_agrees(item):
            return False
    return True


def _keys_sort_alike(value: dict[str, object]) -> bool:
    try:
        keys = "".join(value)
    except TypeError:  # a key that is no string
        return False
    return keys.isascii() or max(keys) < _FIRST_MISORDERED


def _orjson_prints(number: float) -> bool:
    size = abs(number)
    if size >= 1e21:
        return size != float("inf")
    return number == number and not number.is_integer() and not 1e-6 <= size < 1e-5  # noqa: PLR0124 - NaN


def _encode_by_reference(value: object) -> bytes:
    import rfc8785

    try:
        return rfc8785.dumps(_with_doubles(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise NotCanonical(str(error)) from None


def _with_doubles(value: object) -> Any:
    """`value` with each large integer as the double that prints its digits."""
    if isinstance(value, dict):
        return {key: _with_doubles(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        try:
            double = float(value)
        except OverflowError:
            raise NotCanonical("an integer exceeds every double") from None
        # ECMAScript prints integral doubles in full below 1e21; from there with an exponent.
        if double >= 1e21 or double <= -1e21 or _printed(double) != str(value):
            raise NotCanonical("an integer's double prints other digits")
        return double
    return value


def _printed(double: float) -> str:
    """The digits ECMAScript prints: the shortest that read back, filled up with zeros."""
    mantissa, _, exponent = repr(double).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction.rstrip("0")
    if not exponent:
        return whole
    return digits + "0" * (int(exponent) - len(fraction.rstrip("0")))
