"""JSON: its shape, what is wrong in it, how often each state occurs, its first and last elements.

A document is parsed whole up to 2 MiB; of a longer one, its beginning is, and words of trouble
are looked for in all of it. Numbers and strings shown are the document's own, never their types;
what is described instead is missing, and the marker says so. Other text is read as a log.
"""

from collections import Counter

from yarp.reduce.blocks import both_ends
from yarp.reduce.families import base
from yarp.reduce.families.base import Piece, Status
from yarp.reduce.families.lines import split
from yarp.reduce.families.log import JSON_START, Log
from yarp.reduce.families.names import factor
from yarp.reduce.families.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEAD_BYTES = 2 << 20
_TAIL_BYTES = 64 << 10
# Below this, values are worth more than a description of them.
_EXACT_BYTES = 4096
_VALUE_SHOWN = 320
_INLINE = 140
_DEPTH = 4
_STATES = 6
_ODD_SHOWN = 6
_TROUBLES = 24
_NODES = 300_000
_NESTED = 200
_PLAIN = pattern_of(r"[\w-]+")
_TROUBLE_KEY = pattern_of(
    r"(?:^|_|[a-z])(?:[Ee]rr|[Ee]rrors?|ERRORS?|[Ee]xceptions?|[Ff]ailures?|[Ff]ailed|[Ff]ault"
    r"|[Tt]raceback|[Ss]tack_?[Tt]race)(?:$|_|[A-Z])|^(?:[Ww]arnings?|[Rr]eason)$"
)
_TROUBLE_VALUE = pattern_of(
    r"(?i)^(?:error|failed|failure|fatal|critical|crash\w*|unhealthy|degraded|down|timeout|denied|"
    r"rejected|unknown|offline|expired|evicted|oomkilled|\w*backoff|err\w*pull)$"
    r"|\b\w*(?:Error|Exception)\b|\b(?i:permission denied|timed out|not found|refused)\b"
)
_NEEDLES = (b'error"', b'"error', b"exception", b"failed", b"failure", b"fatal")
_CALM = ("", "0", "none", "ok", "false", "no", "success")
_TOKEN = pattern_of(rb'(?s)"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[][{},]')
_PROGRESS = pattern_of(
    rb"\s*% Total|\s+Dload\s+Upload|\* |[{}] \[[0-9]+ bytes data\]|> |< (?!HTTP/)|--:--:--"
)


_LONG_LINE = pattern_of(rb" \[\.\.\. ([0-9]{1,15})-byte line \.\.\.\] ")


class _Number(str):
    """A number in the document's own digits."""

    __slots__ = ()


class Family(base.Family):
    """Summarises JSON documents and JSON lines."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self._document: _Document | None = None
        self._lines: Log | None = None
        self._sample: list[bytes] | None = None
        self._said = _Said()

    def feed(self, stream: int, block: bytes) -> None:
        """See `base.Family`."""
        if stream:
            self._said.feed(block)
            return
        if self._document is None and self._lines is None:
            if json_lines(block):
                self._sample = split(block)[:1000]
            if JSON_START.match(block) and self._sample is None:
                self._document = _Document()
            else:
                self._lines = Log()
        if self._document is not None:
            self._document.feed(block)
        elif self._lines is not None:
            self._lines.feed(block)

    def finish(self, status: Status) -> list[Piece] | None:
        """See `base.Family`."""
        del status  # a document says what it holds, whatever its program thought of it
        pieces: list[Piece] | None = []
        if self._document is not None:
            pieces = self._document.pieces()
        elif self._lines is not None:
            pieces = self._lines.pieces(0, always=self._sample is not None)
            if pieces and self._sample:
                pieces[1:1] = _sampled(self._sample)
        return None if pieces is None else pieces + self._said.pieces()


def json_lines(block: bytes) -> bool:
    """Whether each line is a document of its own, judged by the first two."""
    lines = block.lstrip()[: 1 << 20].split(b"\n", 2)
    if len(lines) < 2 or lines[0][:1] not in (b"{", b"["):
        return False
    first, second = lines[0].rstrip(), lines[1].strip()
    return second[:1] == first[:1] and first[-1:] in (b"}", b"]") and _parsed(first) is not None


def _sampled(lines: list[bytes]) -> list[Piece]:
    values = [value for line in lines if (value := _parsed(line)) is not None]
    objects = [value[0] for value in values if isinstance(value[0], dict)]
    if not objects:
        return []
    text = b"JSON lines; keys" + (b"" if len(lines) < 1000 else b" of the first 1000")
    return [Piece(text + b": " + _keys(objects), 1, 0, 0)]


class _Said:
    """What the program said besides: all of it but the meter's headings and a conversation."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._last: list[bytes] = []

    def feed(self, block: bytes) -> None:
        lines = [line for line in block.split(b"\n") if line.strip()]
        room = 40 - len(self._kept)
        self._kept += lines[:room]
        self._last = (self._last + lines[room:] if room < len(lines) else self._last)[-10:]

    def pieces(self) -> list[Piece]:
        return [
            Piece(line, 6 if _PROGRESS.match(line) else 1, 1) for line in self._kept + self._last
        ]


class _Document:
    """One document: its beginning, its end, and the troubles between them."""

    def __init__(self) -> None:
        self._head: list[bytes] = []
        self._kept = 0
        self._tail = b""
        self._bytes = 0
        self._newlines = 0
        self._found: list[bytes] = []

    def feed(self, block: bytes) -> None:
        self._bytes += len(block)
        self._newlines += block.count(b"\n")
        if self._kept < _HEAD_BYTES:
            room = _HEAD_BYTES - self._kept
            self._head.append(block[:room])
            self._kept += len(self._head[-1])
            block = block[room:]
        if block:
            self._tail = (self._tail + block)[-_TAIL_BYTES:]
            self._search(block)

    def _search(self, block: bytes) -> None:
        small = block.lower()
        seen: set[int] = set()
        for needle in _NEEDLES:
            at = small.find(needle)
            while at >= 0 and len(self._found) < _TROUBLES:
                start = max(small.rfind(b"\n", 0, at) + 1, at - 120)
                end = small.find(b"\n", at)
                # Several words of trouble stand near one another.
                near = {at // 256 - 1, at // 256, at // 256 + 1}
                if not near & seen:
                    seen.add(at // 256)
                    last = min(at + 200, end if end >= 0 else at + 200)
                    self._found.append(block[start:last])
                at = small.find(needle, at + 400)

    def pieces(self) -> list[Piece] | None:
        if self._bytes < _EXACT_BYTES:
            return None
        text = b"".join(self._head)
        # A line too long for the engine has a note where its middle was.
        note = _LONG_LINE.search(text)
        start = text[: note.start()] if note else text
        read = _parsed(text) if self._bytes == len(text) and not note else None
        cut = b""
        if read is None:
            start = _beginning(start)
            read = _parsed(start) if start else None
            if read is None:
                return None
            self._search(text[note.end() if note else len(start) :])
            self._tail = self._tail or text[-_TAIL_BYTES:]
            if note:
                self._bytes = max(self._bytes, int(note[1]))
            cut = b"; what follows describes its first %d bytes" % len(start)
        value, doubled = read
        writer = _Writer(lines=self._newlines > 2)
        head = b"JSON, %d bytes: %b" % (self._bytes, _what(value))
        if self._newlines > 2:
            head = b"JSON, %d lines: %b" % (self._newlines, _what(value))
        if doubled:
            head += b"; some keys occur twice in an object, only the last of each is shown"
        # One line of source is shown in part, however much is said about it.
        header = Piece(head + cut, 0, 0, 0 if writer.by_line else self._newlines or 1)
        writer.value("", value, 0)
        writer.troubles(value)
        writer.pieces += [Piece(found.strip(), 2, 0, 0, ("error",)) for found in self._found]
        if self._tail:
            writer.pieces.append(Piece(b"... " + self._tail[-200:].strip(), 4, 0, 0))
        return [header, *writer.pieces]


class _Writer:
    """Writes a value down as pieces, the telling ones worth most."""

    def __init__(self, *, lines: bool) -> None:
        self.pieces: list[Piece] = []
        # Whether the source has a line for each scalar, so that lines can be counted.
        self.by_line = lines
        self._said: set[str] = set()

    def _add(self, path: str, text: bytes, worth: int, value: "Any" = None, term: str = "") -> None:
        name = path or "."
        count = _line_count(value) if self.by_line and value is not None else 0
        terms = (term,) if term else ()
        self.pieces.append(Piece(_bytes(name) + b": " + text, worth, 0, count, terms))

    def value(self, path: str, value: "Any", depth: int) -> None:
        """Describe a value."""
        if isinstance(value, dict):
            self._members(path, value, depth)
        elif isinstance(value, list):
            self._elements(path, value, depth)
        else:
            self._whole(path, value, 2 + depth)

    def _whole(self, path: str, value: "Any", worth: int) -> None:
        text = _short(value)
        if b" [... " not in text and b"[... " not in text:
            self._said.add(path)
        self._add(path, text, min(worth, 8), value, path.rpartition(".")[2].partition("[")[0])

    def _members(self, path: str, value: "dict[str, Any]", depth: int) -> None:
        if depth and (depth > _DEPTH or len(_compact(value, _INLINE)) <= _INLINE):
            self._whole(path, value, 2 + depth)
            return
        children = [child for child in value.values() if isinstance(child, dict)]
        if len(children) == len(value) >= 8:
            # Names are data here: an array whose elements are called something.
            keys = list(value)
            self._add(path, b"%b, each with keys %b" % (_what(value), _keys(children)), 2 + depth)
            self._names(keys, 4 + depth)
            self._states(path + ".*", children, 2 + depth, [f"{path}.{key}" for key in keys])
            return
        if depth:
            self._add(path, _what(value), 3 + depth)
        for key, child in value.items():
            name = f"{path}.{key}" if _PLAIN.fullmatch(key) else f"{path}[{_text(key)}]"
            if isinstance(child, dict | list):
                self.value(name, child, depth + 1)
            else:
                self._whole(name, child, 2 + depth)

    def _elements(self, path: str, value: "list[Any]", depth: int) -> None:
        size = len(value)
        if depth and len(_compact(value, _INLINE)) <= _INLINE:
            self._whole(path, value, 3 + depth)
            return
        objects = [child for child in value if isinstance(child, dict)]
        if objects:
            self._add(path, b"%b; keys %b" % (_what(value), _keys(objects)), 2 + depth)
            if len(objects) == size:
                places = [f"{path}[{at}]" for at in range(size)]
                self._states(path + "[]", objects, 2 + depth, places)
        elif all(isinstance(child, str) and not isinstance(child, _Number) for child in value):
            self._add(path, _what(value), 2 + depth)
            self._names(value, 4 + depth)
            return
        else:
            self._add(path, _what(value), 2 + depth)
        for at in dict.fromkeys((0, size - 1)):
            if size:
                name = f"{path}[{at}]"
                if name not in self._said:
                    self._whole(name, value[at], 3 + depth + bool(at))

    def _names(self, names: list[str], worth: int) -> None:
        for line in factor([_bytes(name.replace("\n", " ")) for name in names[:20_000] if name]):
            term = line.term.decode("utf-8", "replace")
            # A name is no line of its own here.
            piece = Piece(b"  " + line.text, min(worth - line.odd, 8), 0, 0, (term,))
            self.pieces.append(piece)

    def _states(
        self, path: str, objects: "list[dict[str, Any]]", worth: int, places: list[str]
    ) -> None:
        """How often members have which value, and the elements that stand apart."""
        size = len(objects)
        odd: dict[int, int] = {}
        for key in _common_keys(objects):
            values = [_state(element.get(key)) for element in objects]
            told = Counter(value for value in values if value is not None)
            if not told or len(told) > min(_STATES, max(1, size // 3)) or size < 5:
                continue
            if sum(told.values()) * 2 < size and not _TROUBLE_KEY.search(key):
                continue
            parts = [b"%b %d" % (_bytes(text), count) for text, count in told.most_common()]
            self._add(f"{path}.{key}", b", ".join(parts), worth, None, key)
            few = max(1, size // 20)
            for at, text in enumerate(values):
                if text is not None and len(told) > 1 and told[text] <= few:
                    odd[at] = odd.get(at, 0) + 1
        for at in sorted(odd, key=lambda at: -odd[at])[:_ODD_SHOWN]:
            self._whole(places[at], objects[at], worth)

    def troubles(self, value: "Any") -> None:
        """Every member that speaks of an error, with where it stands."""
        found: dict[str, tuple[str, Any]] = {}
        more = 0
        nodes = 0
        stack: list[tuple[str, str, Any]] = [("", "", value)]
        while stack and nodes < _NODES:
            path, key, child = stack.pop()
            nodes += 1
            if isinstance(child, dict | list) and not (child and _TROUBLE_KEY.search(key)):
                if isinstance(child, dict):
                    stack += [(f"{path}.{k}", k, v) for k, v in reversed(child.items())]
                else:
                    stack += [(f"{path}[{i}]", "", v) for i, v in reversed([*enumerate(child)])]
            elif _troubled(key, child):
                text = key + _compact(child, _VALUE_SHOWN)
                if self._inside(path):
                    continue
                if text in found:
                    more += 1
                elif len(found) < _TROUBLES:
                    found[text] = (path, child)
        pieces = []
        for path, child in found.values():
            term = path.rpartition(".")[2].partition("[")[0]
            count = _line_count(child) if self.by_line else 0
            said = _bytes(path or ".") + b": " + _short(child)
            pieces.append(Piece(said, 1, 0, count, (term,)))
        if more:
            pieces.append(Piece(b"(%d more members say the same)" % more, 2, 0, 0))
        self.pieces += pieces

    def _inside(self, path: str) -> bool:
        """Whether a value was shown in full that this path is in."""
        while path and path not in self._said:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return bool(path)


def _troubled(key: str, value: "Any") -> bool:
    if isinstance(value, str) and not isinstance(value, _Number):
        if _TROUBLE_KEY.search(key):
            return value.lower() not in _CALM
        return len(value) < 4096 and bool(_TROUBLE_VALUE.search(value))
    if _TROUBLE_KEY.search(key):
        return value not in (None, False, "0", "0.0", [], {})
    return False


def _parsed(text: bytes) -> "tuple[Any, bool] | None":
    """The value and whether an object had a key twice; None for what is no JSON."""
    doubled = False

    def members(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
        nonlocal doubled
        value = dict(pairs)
        doubled = doubled or len(value) < len(pairs)
        return value

    # Only a document that is described pays for the parser (hot lane).
    from json import JSONDecoder

    decoder = JSONDecoder(
        object_pairs_hook=members, parse_int=_Number, parse_float=_Number, parse_constant=_Number
    )
    try:
        return decoder.decode(text.decode("utf-8", "replace")), doubled
    except (ValueError, RecursionError):
        return None


def _beginning(text: bytes) -> bytes:
    """The whole members and elements at the start of a cut document, made a document again."""
    open_at: list[bytes] = []
    cut = 0
    closers = b""
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in (b"{", b"["):
            open_at.append(b"}" if sign == b"{" else b"]")
            if len(open_at) > _NESTED:
                break
        elif sign in (b"}", b"]"):
            if not open_at or open_at.pop() != sign:
                break
            if not open_at:
                cut, closers = token.end(), b""
                break
        elif sign == b",":
            cut, closers = token.start(), b"".join(reversed(open_at))
    return text[:cut] + closers


def _what(value: "Any") -> bytes:
    """`array of 250 objects`, `object of 3 keys`, or the value itself."""
    if isinstance(value, dict):
        return b"object of %d key%b" % (len(value), b"" if len(value) == 1 else b"s")
    if not isinstance(value, list):
        return _short(value)
    kinds = Counter(_kind(child) for child in value)
    if len(kinds) == 1:
        kind = _bytes(next(iter(kinds)))
        return b"array of %d %b%b" % (len(value), kind, b"" if len(value) == 1 else b"s")
    parts = [b"%d %b" % (count, _bytes(kind)) for kind, count in kinds.most_common()]
    return b"array of %d: %b" % (len(value), b", ".join(parts)) if parts else b"[]"


def _kind(value: "Any") -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, _Number) else "string"


def _common_keys(objects: "list[dict[str, Any]]") -> list[str]:
    counts: Counter[str] = Counter()
    for element in objects:
        counts.update(element.keys())
    return list(counts)[:64]


def _keys(objects: "list[dict[str, Any]]") -> bytes:
    """Their keys; those that not all have with how many do, those of objects inside in braces."""
    counts: Counter[str] = Counter()
    for element in objects:
        counts.update(element.keys())
    parts = []
    for key in list(counts)[:40]:
        text = _bytes(key)
        few = [e[key] for e in objects if e.get(key) is not None][:20]
        child = few[0] if few else None
        if isinstance(child, dict):
            # Where every one has other members, their names are data.
            same = all(isinstance(one, dict) and one.keys() == child.keys() for one in few)
            names = [_bytes(name) for name in child] if same else []
            text += b"{" + b",".join(names[:8]) + (b",..." if len(names) > 8 else b"") + b"}"
        elif isinstance(child, list):
            text += b"[]"
        if counts[key] < len(objects):
            text += b" (in %d)" % counts[key]
        parts.append(text)
    if len(counts) > 40:
        parts.append(b"%d more" % (len(counts) - 40))
    return b", ".join(parts)


def _state(value: "Any") -> str | None:
    """A value short enough to be counted, as it stands in the document."""
    if value is None or isinstance(value, dict | list) or len(str(value)) > 40:
        return None
    return _compact(value, 64)


def _line_count(value: "Any") -> int:
    """Lines of a value with one for each scalar and bracket."""
    count = 0
    stack = [value]
    while stack and count < _NODES:
        child = stack.pop()
        count += 1
        if isinstance(child, dict | list) and child:
            count += 1
            stack += child.values() if isinstance(child, dict) else child
    return count


def _text(value: "Any") -> str:
    from json import dumps

    return dumps(value, ensure_ascii=False)


def _compact(value: "Any", room: int) -> str:
    """The value as JSON without spaces; some more than `room` characters of a longer one."""
    parts: list[str] = []
    _write(value, parts, [room])
    return "".join(parts)


def _write(value: "Any", parts: list[str], left: list[int], depth: int = 0) -> None:
    if left[0] < 0 or depth > 40:
        return
    if isinstance(value, dict):
        parts.append("{")
        for at, (key, child) in enumerate(value.items()):
            parts.append(("," if at else "") + _text(key) + ":")
            left[0] -= len(parts[-1])
            _write(child, parts, left, depth + 1)
            if left[0] < 0:
                return
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for at, child in enumerate(value):
            if at:
                parts.append(",")
            _write(child, parts, left, depth + 1)
            if left[0] < 0:
                return
        parts.append("]")
    else:
        parts.append(str(value) if isinstance(value, _Number) else _text(value))
    left[0] -= len(parts[-1])


def _short(value: "Any") -> bytes:
    """The value as JSON, a long one with the places where something is left out marked."""
    if isinstance(value, str) and not isinstance(value, _Number):
        text = _bytes(_text(value))
        return text if len(text) <= _VALUE_SHOWN else both_ends(text, text, len(text), _VALUE_SHOWN)
    text = _bytes(_compact(value, _VALUE_SHOWN))
    if len(text) <= _VALUE_SHOWN or not isinstance(value, dict | list):
        return text
    # Long members are what makes it long: shorten those before the whole.
    text = _bytes(_compact(_trimmed(value, 0), 2 * _VALUE_SHOWN))
    return text if len(text) <= 2 * _VALUE_SHOWN else text[:_VALUE_SHOWN] + b" [... more]"


def _trimmed(value: "Any", depth: int) -> "Any":
    if isinstance(value, dict):
        if depth > 1:
            return _Number(f"{{... {len(value)} keys}}") if value else value
        return {key: _trimmed(child, depth + 1) for key, child in value.items()}
    if isinstance(value, list):
        return _Number(f"[... {len(value)} elements]") if len(value) > 3 or depth > 1 else value
    if isinstance(value, str) and not isinstance(value, _Number) and len(value) > 60:
        return _Number(f'{_text(value)[:41]}[... {len(value)} characters]"')
    return value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
