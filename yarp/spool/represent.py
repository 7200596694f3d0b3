"""What is kept of a stream: the bytes themselves, or UTF-8 text, with secrets taken out.

Redacted text is also without the escapes of terminals, which could stand within a secret.

State goes on across chunk borders: a character or a secret may be cut anywhere. What cannot be
decided yet is held back, within a bound; past it, it is left out and a marker says so. Nothing is
given out that a later byte could turn into a secret. Source: seed 004, "Capture before eviction".
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Protocol

from yarp.spool.escapes import Escapes
from yarp.spool.receipt import Representation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarp.spool.declared import Redactor

UNDECIDED_BYTES = 64 << 10
# How far apart it is looked at what a redactor holds: at fixed places of the stream, so that
# chunks do not decide what is left out.
_STEP_BYTES = 16 << 10
_ESCAPE_BYTES = 8 << 10  # more than an escape has that is not at its end


class Transform(Protocol):
    """Raw bytes of one stream in, representation out."""

    @property
    def undecoded(self) -> int:
        """Raw bytes that wait for the rest of their character."""

    @property
    def undecided(self) -> int:
        """Decoded bytes that redactors hold back."""

    @property
    def omitted(self) -> int:
        """Decoded bytes that were left out because they could not be decided about."""

    def feed(self, chunk: bytes) -> bytes:
        """What may be kept, now that `chunk` is here too."""

    def finish(self, *, ended: bool) -> bytes:
        """The rest. Not `ended`: the stream went on, and what is undecided is left out."""


def transform(representation: Representation, redactors: Iterable[Redactor] = ()) -> Transform:
    """The transformation of one stream; only redacted text has redactors."""
    if representation is Representation.BINARY:
        return _Binary()
    if representation is Representation.REDACTED_TEXT:
        return _Redacted(list(redactors))
    return _Text()


class _Binary:
    undecoded = undecided = omitted = 0

    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def finish(self, *, ended: bool) -> bytes:  # noqa: ARG002 - nothing is ever undecided
        return b""


class _Text:
    """UTF-8; what is none becomes U+FFFD, as if the whole stream had been decoded at once."""

    undecided = omitted = 0

    def __init__(self) -> None:
        self._cut = b""

    @property
    def undecoded(self) -> int:
        return len(self._cut)

    def feed(self, chunk: bytes) -> bytes:
        return self._decode(chunk, final=False)

    def finish(self, *, ended: bool) -> bytes:
        return self._decode(b"", final=True) if ended else b""

    def _decode(self, chunk: bytes, *, final: bool) -> bytes:
        data = self._cut + chunk if self._cut else chunk
        try:
            _, used = codecs.utf_8_decode(data, "strict", final)
            self._cut = data[used:]
            return data if used == len(data) else data[:used]
        except UnicodeDecodeError:
            text, used = codecs.utf_8_decode(data, "replace", final)
            self._cut = data[used:]
            return text.encode()


class _Redacted(_Text):
    """Text without what steers a terminal, that has gone through redactors."""

    def __init__(self, redactors: list[Redactor]) -> None:
        super().__init__()
        self._escapes = Escapes()
        share = (UNDECIDED_BYTES - _ESCAPE_BYTES - _STEP_BYTES) // max(1, len(redactors))
        self._links = [_Link(one, min(share, one.window_bytes)) for one in redactors]

    @property
    def undecided(self) -> int:  # type: ignore[override]  # it is none where there is no redactor
        return self._escapes.held + sum(link.held for link in self._links)

    @property
    def omitted(self) -> int:  # type: ignore[override]
        return sum(link.omitted for link in self._links)

    def feed(self, chunk: bytes) -> bytes:
        text = self._escapes.feed(self._decode(chunk, final=False))
        for link in self._links:
            text = link.feed(text)
        return text

    def finish(self, *, ended: bool) -> bytes:
        text = self._escapes.feed(super().finish(ended=ended)) + self._escapes.finish()
        for link in self._links:
            text = link.feed(text) + link.finish(ended=ended)
        return text


class _Link:
    """One redactor of a chain, held to its window."""

    def __init__(self, redactor: Redactor, window: int) -> None:
        self._make = redactor.make
        self._bounded = redactor.bounded
        self._window = window
        self._redactor: Any = self._make()
        self._position = 0
        self._skipping = False
        self.omitted = 0
        self._unsaid = 0

    @property
    def held(self) -> int:
        return 0 if self._skipping else int(self._redactor.held)

    def feed(self, text: bytes) -> bytes:
        if self._bounded:
            return self._pass(text)
        first = _STEP_BYTES - self._position % _STEP_BYTES
        self._position += len(text)
        if len(text) < first:
            return self._pass(text)
        parts = [self._checked(text[:first])]
        at = first
        while at + _STEP_BYTES <= len(text):
            parts.append(self._checked(text[at : at + _STEP_BYTES]))
            at += _STEP_BYTES
        parts.append(self._pass(text[at:]))
        return b"".join(parts)

    def finish(self, *, ended: bool) -> bytes:
        if not ended:
            self._unsaid += self.held
            self._skipping = True
        said = self._say()
        return said if self._skipping else said + bytes(self._redactor.finish())

    def _checked(self, text: bytes) -> bytes:
        out = self._pass(text)
        if self.held > self._window:
            self._unsaid = self.held
            self._redactor = self._make()
            self._skipping = True
        return out

    def _pass(self, text: bytes) -> bytes:
        if not text:
            return b""
        if not self._skipping:
            return bytes(self._redactor.feed(text))
        end = text.find(b"\n")
        if end < 0:
            self._unsaid += len(text)
            return b""
        self._unsaid += end
        self._skipping = False
        return self._say() + bytes(self._redactor.feed(text[end:]))

    def _say(self) -> bytes:
        """The marker of what was left out since the last one."""
        if not self._unsaid:
            return b""
        left_out, self._unsaid = self._unsaid, 0
        self.omitted += left_out
        return b"[yarp: %d bytes left out that may hold a secret]" % left_out
