"""pip and npm installs: what was installed, what is wrong, the progress counted."""

from __future__ import annotations

from yarp.reduce.families.base import Piece
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.status import Lines

_KEPT = 300
# The engine's note in a line that it cut: how much is missing there is not known here.
_CUT = b"-byte line ...] "
_NAME = pattern_of(rb"[\w.-]+")
_DEPRECATED = pattern_of(rb"npm (?:warn|WARN) deprecated (\S+?):? ")


def _starting(window: bytes, starts: tuple[bytes, ...]) -> list[int]:
    """How many lines of a window begin with each of these."""
    return [window.count(b"\n" + start) + window.startswith(start) for start in starts]


class Pip(Lines):
    """pip install: what was installed, and everything that is no progress."""

    noise = pattern_of(
        rb"\s*+(?:Collecting |Downloading |Using cached |Obtaining |Processing |Preparing metadata"
        rb"|Installing build dependencies|Getting requirements to build|Installing backend"
        rb"|Building wheel|Created wheel|Stored in directory|Attempting uninstall"
        rb"|Found existing installation|Uninstalling |Looking in (?:indexes|links)"
        rb"|Installing collected packages"
        rb"|Building wheels for|Running setup\.py|Building editable|Checking if build backend"
        rb"|Resuming download|Copying |Cloning |Running command git|Resolved |Requirement already"
        rb"|\xe2\x94\x81|[-\\|/ ]++$|\[notice\])"
    )
    outcome = pattern_of(rb"^(?:Successfully |Would install |ERROR: )")
    counted = (b"Requirement already satisfied: ", b"Collecting ")

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._satisfied = 0
        self._collected = 0
        self._names: list[bytes] = []

    def line(self, stream: int, line: bytes) -> None:
        """Take one line that is not blank."""
        if line.startswith(b"Requirement already satisfied: "):
            self._satisfied += 1
            name, _, rest = line[31:].partition(b" in ")
            # What a file of requirements names was asked for as well.
            asked = b" (from " not in rest or (b" (from -r " in rest and b"->" not in rest)
            if asked and len(self._names) < _KEPT:
                self._names.append(name + b" " + rest.rpartition(b"(")[2].rstrip(b")"))
        elif line.startswith(b"Collecting "):
            self._collected += 1
        super().line(stream, line)

    def skim(self, stream: int, window: bytes) -> None:
        """Count the rest of a very long install."""
        satisfied, collected = _starting(window, self.counted)
        self._satisfied += satisfied
        self._collected += collected
        super().skim(stream, window)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """What was installed or went wrong, then counts."""
        pieces = super().pieces(failed=failed) or []
        for piece in pieces:
            if piece.text.startswith(b"Successfully installed ") and _CUT not in piece.text:
                # What was asked for stands before what it brought along.
                names = (_NAME.match(word.encode()) for word in self.argv[2:])
                asked = {name[0].lower().replace(b"_", b"-") for name in names if name}
                packages = piece.text.split(b" ")[2:]
                packages.sort(key=lambda name: _project(name) not in asked)
                if len(packages) > 3:
                    piece.text = b"Successfully installed %d packages: %b" % (
                        len(packages),
                        b" ".join(packages),
                    )
        if self._satisfied:
            text = b"%d requirements were already satisfied" % self._satisfied
            if self._names:
                text += b": " + b", ".join(self._names[:20])
                text += b", ..." if len(self._names) > 20 else b""
            # Where nothing else was to be done this is the outcome.
            worth = 3 if any(not piece.worth for piece in pieces) else 1
            pieces.insert(0, Piece(text, worth, 0, self._satisfied))
        if self._collected:
            text = b"%d packages collected" % self._collected
            pieces.insert(0, Piece(text, 5, 0, self._collected))
        return pieces


def _project(package: bytes) -> bytes:
    """`pydantic-core` of `pydantic_core-2.14.4`."""
    return package.rpartition(b"-")[0].lower().replace(b"_", b"-")


_USAGE = pattern_of(rb"npm (?:error|ERR!) Usage:")


class Npm(Lines):
    """npm install: what changed, vulnerabilities and errors; deprecations by name."""

    noise = pattern_of(
        rb"\s*+(?:npm (?:http|timing|sill|verb|info)\b|run `npm fund`|.*looking for funding"
        rb"|npm notice|To address |npm audit fix|Run `npm audit`|[\xe2\xa0][\x80-\xbf]|[-\\|/ ]++$)"
    )
    outcome = pattern_of(
        rb"^(?:added|removed|changed|up to date|audited)\b|\bvulnerabilit"
        rb"|^npm (?:error|ERR!) (?:code|\d{3}|missing|notarget)"
    )
    counted = (b"npm warn deprecated ", b"npm WARN deprecated ")

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._deprecated: dict[bytes, None] = {}
        self._deprecations = 0
        self._usage = False

    def line(self, stream: int, line: bytes) -> None:
        """Take one line that is not blank."""
        found = _DEPRECATED.match(line)
        # Below the error stands what the command can do, down to where the log lies.
        self._usage = self._usage or _USAGE.match(line) is not None
        if self._usage and b" A complete log of this run " not in line:
            return
        self._usage = False
        if found is None:
            super().line(stream, line)
            return
        self._deprecations += 1
        if len(self._deprecated) < _KEPT:
            self._deprecated[found[1].rstrip(b":")] = None

    def skim(self, stream: int, window: bytes) -> None:
        """Count the rest of a very long install."""
        self._deprecations += sum(_starting(window, self.counted))
        super().skim(stream, window)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """What was installed or went wrong, then counts."""
        pieces = super().pieces(failed=failed) or []
        if self._deprecations:
            text = b"npm warn deprecated (%d): %b" % (
                self._deprecations,
                b" ".join(list(self._deprecated)[:60]),
            )
            at = next((i for i, piece in enumerate(pieces) if piece.stream), len(pieces))
            pieces.insert(at, Piece(text, 2, 1, self._deprecations, ("deprecated",)))
        return pieces


_NPM = frozenset(("install", "i", "in", "add", "ci", "install-clean", "clean-install"))


def installer(argv: tuple[str, ...]) -> type[Lines] | None:
    """Who reads an install of this program; None for its other commands."""
    if argv[:2] == ("pip", "install"):
        return Pip
    return Npm if argv[0] == "npm" and _NPM & set(argv[1:2]) else None
