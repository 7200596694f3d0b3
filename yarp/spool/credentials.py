"""Takes credentials of well-known shapes out of a text; the core's own redactor.

A shape is a head of bounded length, which says that a secret begins, and what the rest of a
secret is made of. So a secret may be of any length and a chunk may end anywhere: only what could
be the beginning of a head is held back. It knows the shapes below and no others; it is no promise
that nothing secret is kept. Source: seed 004, "Capture before eviction".
"""

from __future__ import annotations

import re
from typing import Any

import re2

from yarp.spool.declared import Redactor

MARKER = b"[redacted]"

_TOKEN = rb"[A-Za-z0-9_-]"
_VALUE = rb"[^\s\"'`<>|;&]"
_PEM_END = re.compile(rb"-----END [A-Z0-9 ]{0,32}-----")
_PEM_END_BYTES = 48
# What a program has put before the lines of a key: a file's name, a bar, a number. Behind it is a
# line of it, or its last, short one.
_PEM_PREFIX = re.compile(
    rb"[^\n]{1,80}?(?=[A-Za-z0-9+/]{40}|[A-Za-z0-9+/]{16,40}={0,2}\r?\n|-----END )"
    rb"|[^\n]{1,160}\n(?=[^\n]{0,80}-----END )"
)
_PEM_PREFIX_BYTES = 300
_TELLING = 4
"""So many bytes of a secret that was cut off are not shown either."""

Part = bytes | tuple[bytes, int, int]
"""Of a head: these very bytes; or a class of bytes, how often at least and at most."""


def _any_case(text: bytes) -> tuple[Part, ...]:
    return tuple((b"[%c%c]" % (byte, byte ^ 0x20), 1, 1) for byte in text)


class Shape:
    """One shape: `kept` parts are shown, `secret` ones not, nor what follows them in `body`.

    `until` ends a body early; `between` are other bytes that may stand within one; `after` is
    shown behind the marker. The head begins where no byte of `_TOKEN` stands before it, unless it
    is `anywhere`.
    """

    __slots__ = ("after", "anywhere", "between", "body", "kept", "secret", "until")

    def __init__(
        self,
        *secret: Part,
        kept: tuple[Part, ...] = (),
        body: bytes = _TOKEN,
        after: bytes = b"",
        until: re.Pattern[bytes] | None = None,
        between: re.Pattern[bytes] | None = None,
        anywhere: bool = False,
    ) -> None:
        self.kept = kept
        self.secret = secret
        self.body = re.compile(body + b"*" if body else b"")
        self.after = after
        self.until = until
        self.between = between
        self.anywhere = anywhere

    def _before(self) -> bytes:
        """The one byte before the head, which every match begins with."""
        return rb"[\x00-\xff]" if self.anywhere else rb"[^A-Za-z0-9_-]"

    def head(self) -> bytes:
        """A regular expression of the head and the byte before it; its group is the kept part."""
        kept, secret = (b"".join(map(_whole, parts)) for parts in (self.kept, self.secret))
        return b"%b(%b)%b" % (self._before(), kept, secret)

    def beginning(self) -> bytes:
        """One of the head's proper beginnings, up to the end of the bytes."""
        parts = [one for part in (*self.kept, *self.secret) for one in _single(part)]
        text = b""
        for one, least, most in reversed(parts):
            if text:
                # All of this part and a beginning of the next ones, or some of this part.
                text = b"(?:%b{%d,%d}%b|%b{0,%d}\\z)" % (one, least, most, text, one, most)
            else:
                text = b"%b{0,%d}\\z" % (one, least - 1)
        return self._before() + text

    def cut_off(self) -> bytes:
        """The beginning of a secret at the end of the bytes; b"" when it would say nothing."""
        last = self.secret[-1]
        if isinstance(last, bytes) or last[1] <= _TELLING:
            return b""
        parts = (*self.kept, *self.secret[:-1], (last[0], _TELLING, last[1]))
        return self._before() + b"".join(map(_whole, parts)) + b"\\z"


def _single(part: Part) -> list[tuple[bytes, int, int]]:
    if isinstance(part, tuple):
        return [part]
    return [(re.escape(bytes((byte,))), 1, 1) for byte in part]


def _whole(part: Part) -> bytes:
    return re.escape(part) if isinstance(part, bytes) else b"%b{%d,%d}" % part


def _some(kind: bytes, count: int) -> tuple[bytes, int, int]:
    return kind, count, count


_NAME = (rb"[A-Z0-9_]", 0, 40)
_ANY_NAME = (rb"[A-Za-z0-9_-]", 0, 24)
_NAMES = (b"PASSWORD", b"PASSWD", b"SECRET", b"TOKEN", b"API_KEY", b"ACCESS_KEY", b"PRIVATE_KEY")
_BLANKS = (rb"[ \t]", 0, 4)
_QUOTE = (rb"[\"']", 0, 1)
_ESCAPE = (rb"\\", 0, 1)
# Members of JSON and of tables like it; `token: "x"` without quotes is also any program's.
_MEMBERS = (b"password", b"passwd", b"secret", b"token", b"api_key", b"api-key", b"apikey",
            b"access_key", b"accesskey", b"private_key", b"privatekey")  # fmt: skip
_KEYS = (b"password", b"passwd", b"secret", b"api_key", b"access_key", b"private_key")

# Nobody's word ends in these: they are found also where they are glued to one.
_TELLING_PREFIXES = (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-",
                     b"sk_live_", b"sk_test_", b"rk_live_")  # fmt: skip

SHAPES = (
    # Assignments to names of environment variables: NAME_TOKEN=value.
    *(
        Shape(
            (rb"[^\s\"'`<>|;&=]", 1, 1),
            kept=(name, _NAME, b"=", _QUOTE),
            body=_VALUE,
            anywhere=True,
        )
        for name in _NAMES
    ),
    # Members: "password": "value", also within a text of JSON; and password: "value".
    *(
        Shape(
            (b"[^%b\\\\\\n]" % quote, 1, 1),
            kept=(
                *opening,
                *_any_case(name),
                _ANY_NAME,
                *closing,
                _BLANKS,
                b":",
                _BLANKS,
                _ESCAPE,
                quote,
            ),
            body=b"[^%b\\n]" % quote,
        )
        for names, opening, closing in (
            (_MEMBERS, ((rb"[\"']", 1, 1), _ANY_NAME), (_ESCAPE, (rb"[\"']", 1, 1))),
            (_KEYS, (), ()),
        )
        for name in names
        for quote in (b'"', b"'")
    ),
    # Headers: Authorization: Bearer value.
    Shape(
        _some(_VALUE, 8),
        kept=(
            *_any_case(b"authorization"),
            (rb"[\"']", 0, 1),
            _BLANKS,
            b":",
            _BLANKS,
            (rb"[\"']", 0, 1),
            (rb"[A-Za-z]", 4, 8),
            b" ",
        ),
        body=_VALUE,
    ),
    Shape(
        _some(_VALUE, 16),
        kept=(*_any_case(b"authorization"), _QUOTE, _BLANKS, b":", _BLANKS, _QUOTE),
        body=rb"[^\r\n\"']",
    ),
    # Headers: X-Api-Key: value, Private-Token: value, Cookie: name=value.
    *(
        Shape(
            _some(_VALUE, 8),
            kept=(*_any_case(name), _QUOTE, _BLANKS, b":", _BLANKS, _QUOTE),
            body=_VALUE,
            anywhere=True,
        )
        for name in (b"-api-key", b"-auth-key", b"-token")
    ),
    *(
        Shape(
            (rb"[^\s\"';]", 1, 1),
            kept=(
                *_any_case(name),
                _QUOTE,
                _BLANKS,
                b":",
                _BLANKS,
                _QUOTE,
                (rb"[^\s\"'=;:,]", 1, 64),
                b"=",
            ),
            body=rb"[^\r\n\"']",
            anywhere=name.startswith(b"-"),
        )
        for name in (b"cookie", b"-cookie")
    ),
    # A password in a URL, which may hold what should have been escaped: scheme://user:password@.
    Shape(
        (rb"[^\s/\"'<>]", 1, 128),
        b"@",
        kept=(b"://", (rb"[^\s/:@\"']", 0, 64), b":"),
        body=b"",
        after=b"@",
        anywhere=True,
    ),
    # Private keys, as PEM.
    Shape(
        (rb"[A-Z0-9 ]", 0, 32),
        b"PRIVATE KEY-----",
        kept=(b"-----BEGIN ",),
        body=rb"[A-Za-z0-9+/=\s\\:,-]",
        until=_PEM_END,
        between=_PEM_PREFIX,
        anywhere=True,
    ),
    # Tokens that say by their first letters what they are.
    *(
        Shape(prefix, _some(kind, count), anywhere=prefix in _TELLING_PREFIXES)
        for prefix, kind, count in (
            (b"ghp_", rb"[A-Za-z0-9]", 20),
            (b"gho_", rb"[A-Za-z0-9]", 20),
            (b"ghu_", rb"[A-Za-z0-9]", 20),
            (b"ghs_", rb"[A-Za-z0-9]", 20),
            (b"ghr_", rb"[A-Za-z0-9]", 20),
            (b"github_pat_", rb"[A-Za-z0-9_]", 20),
            (b"glpat-", _TOKEN, 16),
            (b"sk-", _TOKEN, 20),
            (b"sk_live_", rb"[A-Za-z0-9]", 16),
            (b"sk_test_", rb"[A-Za-z0-9]", 16),
            (b"rk_live_", rb"[A-Za-z0-9]", 16),
            (b"xoxb-", _TOKEN, 10),
            (b"xoxp-", _TOKEN, 10),
            (b"xoxa-", _TOKEN, 10),
            (b"xoxr-", _TOKEN, 10),
            (b"xoxs-", _TOKEN, 10),
            (b"xapp-", _TOKEN, 10),
            (b"AKIA", rb"[A-Z0-9]", 16),
            (b"ASIA", rb"[A-Z0-9]", 16),
            (b"AIza", _TOKEN, 35),
            (b"npm_", rb"[A-Za-z0-9]", 30),
            (b"pypi-", _TOKEN, 16),
            (b"hf_", rb"[A-Za-z0-9]", 30),
        )
    ),
    # JSON web tokens.
    Shape(
        b"eyJ",
        (_TOKEN, 8, 512),
        b".eyJ",
        _some(_TOKEN, 8),
        body=rb"[A-Za-z0-9_.-]",
    ),
)


def _compiled(text: bytes, *, groups: bool = True) -> Any:
    options = re2.Options()
    options.never_capture = not groups
    options.encoding = re2.Options.Encoding.LATIN1  # bytes, whatever they are
    # Up to here it may know its states; short of room it forgets them all, and is slow.
    options.max_mem = 64 << 20
    return re2.compile(text, options)


_HEADS = b"|".join(b"(?P<s%d>%b)" % (n, one.head()) for n, one in enumerate(SHAPES))
# Groups cost a search ten times as much: where a head is found first, then whose it is.
_HEAD = _compiled(_HEADS, groups=False)
_WHOSE = re.compile(_HEADS)
_BEGINNING = _compiled(b"|".join(one.beginning() for one in SHAPES))
_CUT_OFF = _compiled(b"|".join(filter(None, (one.cut_off() for one in SHAPES))))
WINDOW_BYTES = 1024
"""More than any head has."""


class Credentials:
    """Replaces the secrets of one stream by `MARKER`."""

    def __init__(self) -> None:
        self._rest = b"\n"  # the byte before what is held, and what is held
        self._inside: Shape | None = None

    @property
    def held(self) -> int:
        """How many bytes could be the beginning of a head, or the end of a body."""
        return len(self._rest) - 1

    def feed(self, chunk: bytes) -> bytes:
        """What can be shown by now."""
        return self._scan(chunk, final=False)

    def finish(self) -> bytes:
        """The rest, without a secret that the end of the stream cut off."""
        return self._scan(b"", final=True)

    def _scan(self, chunk: bytes, *, final: bool) -> bytes:
        data = self._rest + chunk
        at = 1
        out: list[bytes] = []
        while True:
            if self._inside is not None:
                at = self._skip(self._inside, data, at, final=final)
                if self._inside is not None:
                    break
            found = _HEAD.search(data, at - 1)
            undecided = len(data) if final else self._undecided(data, at, found)
            if found is None or found.start() + 1 >= undecided:
                if final and (cut := _CUT_OFF.search(data, max(at, len(data) - WINDOW_BYTES) - 1)):
                    out += data[at : cut.start() + 1], MARKER
                    at = len(data)
                out.append(data[at:undecided])
                at = undecided
                break
            shape, kept = _of(found.group())
            out += data[at : found.start() + 1], kept, MARKER, shape.after
            at = found.end()
            self._inside = shape
        self._rest = data[at - 1 :]
        return b"".join(out)

    def _skip(self, shape: Shape, data: bytes, at: int, *, final: bool) -> int:
        """Where a secret ends; it goes on, if `_inside` is still set afterwards."""
        end = self._body_end(shape, data, at, final=final)
        stop = shape.until.search(data, at, end) if shape.until is not None else None
        if stop is not None:
            end = stop.end()
        elif end == len(data) and not final:
            # The end of a body may be cut too.
            return max(at, end - _PEM_END_BYTES) if shape.until is not None else end
        elif shape.between is not None and not final and len(data) - end < _PEM_PREFIX_BYTES:
            return max(at, end - _PEM_END_BYTES)
        self._inside = None
        return end

    @staticmethod
    def _body_end(shape: Shape, data: bytes, at: int, *, final: bool) -> int:
        """Up to where all bytes are of a body."""
        length = len(data)
        if final and shape.between is not None:
            data += b"\n"  # the end of a stream is one of a line
        while True:
            run = shape.body.match(data, at)
            at = run.end() if run is not None else at
            more = shape.between.match(data, at) if shape.between is not None else None
            if more is None:
                return min(at, length)
            at = more.end()

    def _undecided(self, data: bytes, at: int, found: Any) -> int:
        """Where the first head begins whose end is still to come."""
        if found is not None and found.end() <= len(data) - WINDOW_BYTES:
            return len(data)
        # No head has a line end in it.
        first = max(at, len(data) - WINDOW_BYTES)
        tail = max(first, data.rfind(b"\n", first) + 1) - 1
        begun = _BEGINNING.search(data[tail:])
        return len(data) if begun is None else tail + begun.start() + 1


def _of(head: bytes) -> tuple[Shape, bytes]:
    """Whose head it is, and the part of it that is kept."""
    found = _WHOSE.fullmatch(head)
    if found is None or found.lastgroup is None:
        raise ValueError("two matchers disagree about a head")
    number = int(found.lastgroup[1:])
    return SHAPES[number], found[found.re.groupindex[found.lastgroup] + 1]


CREDENTIALS = Redactor("credentials", window_bytes=WINDOW_BYTES, make=Credentials, bounded=True)
