"""A Python traceback in few lines: the exception whole, the user's own frames, the causes."""

from __future__ import annotations

from yarp.reduce.families.patterns import pattern_of

_FRAME = pattern_of(rb'  File "(?P<path>[^"]*)", line (?P<line>\d+)(?:, in (?P<name>.*))?$')
_LIBRARY = (b"site-packages/", b"/lib/python", b"<frozen ", b"/importlib/")
_CHAINED = (
    b"The above exception was the direct cause",
    b"During handling of the above exception",
)
_FRAMES_KEPT = 40
_MESSAGE_LINES = 12


class Traceback:
    """One chain of tracebacks, in bounded memory."""

    def __init__(self) -> None:
        # (frame line, code line) of the current traceback; the middle ones are let go.
        self._frames: list[list[bytes]] = []
        self._said: list[bytes] = []
        self._ended = False
        self._blank = False
        self._lines = 0
        # Closed tracebacks of the chain: what links to the next, frames, the exception.
        self.chain: list[tuple[list[list[bytes]], list[bytes], bytes]] = []

    def add(self, line: bytes) -> bool:
        """Take a line; False when it no longer belongs."""
        if not line.strip():
            self._blank = True
            return True
        if self._ended and self._blank:
            if line.startswith(_CHAINED):
                self._link(line)
                return True
            if line.startswith(b"Traceback (most recent"):
                return not self._said
            return False
        if line.startswith(b"Traceback (most recent") and not self._frames and not self._ended:
            return True
        if not self._ended:
            return self._inside(line)
        if len(self._said) >= _MESSAGE_LINES or not line.startswith((b" ", b"\t")):
            return False
        self._said.append(line)
        return True

    def _inside(self, line: bytes) -> bool:
        self._blank = False
        if line.startswith(b"  "):
            if _FRAME.match(line):
                self._frames.append([line])
                if len(self._frames) > _FRAMES_KEPT:
                    del self._frames[self._least()]
            elif self._frames and line.strip(b" ^~") and len(self._frames[-1]) < 2:
                self._frames[-1].append(line)
            return True
        self._ended = True
        self._said.append(line)
        return True

    def _least(self) -> int:
        """The frame that says least: one of a library, else one in the middle."""
        for at, frame in enumerate(self._frames[:-1]):
            if any(word in frame[0] for word in _LIBRARY):
                return at
        return _FRAMES_KEPT // 2

    def _link(self, line: bytes) -> None:
        if len(self.chain) < 8:
            self.chain.append((self._frames, self._said, line))
        self._frames, self._said = [], []
        self._ended = self._blank = False

    def parts(self) -> list[tuple[int, bytes]]:
        """(worth, text) in the order of the traceback; 0 is the exception that ended it all."""
        out: list[tuple[int, bytes]] = []
        for frames, said, link in self.chain:
            out += _frames(frames, last=1, worth=3)
            if said:
                out.append((2, b"\n".join(said)))
            out.append((2, link))
        out += _frames(self._frames, last=2, worth=1)
        if self._said:
            out.append((0, b"\n".join(self._said)))
        return out


def _frames(frames: list[list[bytes]], last: int, worth: int) -> list[tuple[int, bytes]]:
    """The user's frames, the last ones first in worth, a repeated one once."""
    own = [frame for frame in frames if not any(word in frame[0] for word in _LIBRARY)]
    own = own or frames[-1:]
    out: list[tuple[int, bytes]] = []
    previous = b""
    for number, frame in enumerate(own):
        if frame[0] == previous:
            continue
        previous = frame[0]
        repeats = sum(other[0] == frame[0] for other in own)
        text = b"\n".join(frame)
        if repeats > 1:
            text += (
                b" [%d times]" % repeats if len(frame) == 1 else b"  [at least %d times]" % repeats
            )
        near = len(own) - number <= last
        out.append((worth if near else 4, text))
    return out
