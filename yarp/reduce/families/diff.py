"""Diffs: totals, a line a file, then whole hunks, the largest first that fit.

What is shown of a hunk is all of it or says how many of its lines are missing: a patch that
exists nowhere is never shown. Lock files and generated files are told by their counts.
"""

from __future__ import annotations

from collections import Counter

from yarp.reduce.blocks import RETURN
from yarp.reduce.families import base
from yarp.reduce.families.base import Piece, Series
from yarp.reduce.families.lines import Windows
from yarp.reduce.families.patch import (
    File,
    Hunk,
    came_or_went,
    head_of,
    is_generated,
    named,
    shown,
    signal,
    spare,
    spread,
    title_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from yarp.reduce.families.base import Status

HUNKS_KEPT = 512
# So many hunks and files are looked at one by one; beyond them changes are only counted.
EVENTS_TAKEN = 20_000
FILES_KEPT = EVENTS_TAKEN
HELD_BYTES = 1 << 20
HUNK_BYTES = 8 * 1024
NOTES_KEPT = 40
MESSAGE_LINES = 14
MARKER_BYTES = 280
_STATES = (
    b"new file",
    b"deleted file",
    b"old mode",
    b"new mode",
    b"similarity",
    b"rename ",
    b"copy ",
    b"Binary ",
    b"GIT binary",
)


class Family(base.Family):
    """Summarises one diff, or the diffs of a log."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self.added = self.removed = 0
        self.files = self.commits = 0
        self.parts: list[File | bytes] = []
        self.kept: list[Hunk] = []
        self.file: File | None = None
        self.hunk: Hunk | None = None
        self.message = 0
        self.errors: list[bytes] = []
        self.closing: list[bytes] = []
        self.lanes = (Windows(self._read), Windows(self._complain))
        self._event: re.Pattern[bytes] | None = None
        self.events = 0
        self.git = False
        self.counting = False
        self.held = b""
        # Files by their first directory, beyond what is looked at one by one.
        self.uncounted: Counter[bytes] = Counter()

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of one stream."""
        self.lanes[stream].feed(block)

    def finish(self, status: Status) -> list[Piece] | None:
        """Totals, files, hunks; None where this was no diff."""
        rest = self.lanes[0].rest()
        self._read(rest)
        last = rest.rstrip().rpartition(b"\n")[2]
        if self.hunk is not None and self.hunk.complete() and last[:1].isalpha():
            self.closing.append(last)  # what a formatter says below its diff
        self._tally(self.held)
        said = self.lanes[1].rest()
        self._complain(said)
        if len(self.errors) > 3:
            last = said.rstrip().rpartition(b"\n")[2]
            self.errors = [line for line in self.errors if line != last]
            self.closing.append(last)
        if not self.files:
            return None
        # diff(1) and `git diff --exit-code` end with 1 when there are differences.
        good = status.exit_code in (0, 1)
        budget = self.options.get(
            "success_bytes" if good and status.success else "failure_bytes", 1024
        )
        return self._pieces(budget - MARKER_BYTES)

    # Reading.

    def _read(self, window: bytes) -> None:
        if self._event is None:
            import re

            self._event = re.compile(_EVENTS)
        if self.git and self.events >= EVENTS_TAKEN:
            window = self._counted(window)
        data = b"\n" + window.removesuffix(b"\n") if window else b""
        at = 0
        for found in self._event.finditer(data):
            start = found.start()
            self._stretch(data[at:start])
            at = start
            if not (
                data.startswith(b"\n--- ", start)
                and self.hunk is not None
                and not self.hunk.complete()
            ):
                self._begin(data, start)
        self._stretch(data[at:])

    def _counted(self, window: bytes) -> bytes:
        """Count whole files, holding back the last; answers with what belongs to the open one."""
        body = self.held + (b"" if self.held else b"\n") + window.removesuffix(b"\n")
        before = b""
        if not self.counting:
            first = body.find(b"\ndiff --git ")
            if first < 0:
                if self.file is None or self.hunk is None or b"\ncommit " in body:
                    return window
                # Further hunks of the open file.
                added, removed = body.count(b"\n+"), body.count(b"\n-")
                self.file.added, self.file.removed = (
                    self.file.added + added,
                    self.file.removed + removed,
                )
                self.added, self.removed = self.added + added, self.removed + removed
                self.hunk.text.clear()
                self.hunk.size = HUNK_BYTES
                return b""
            self.counting = True
            before, body = body[1:first], body[first:]
        last = body.rfind(b"\ndiff --git ")
        if last <= 0 and len(body) > HELD_BYTES:
            last = len(body)
        last = max(last, 0)
        self._tally(body[:last])
        self.held = body[last:] + b"\n" if last < len(body) else b""
        return before

    def _tally(self, body: bytes) -> None:
        """Count the files and changes of text that holds their headers whole."""
        if not body:
            return
        import re

        headers = len(re.findall(_HEADERS, body))
        added, removed = body.count(b"\n+") - headers, body.count(b"\n-") - headers
        self.added += added
        self.removed += removed
        self.files += body.count(b"\ndiff --git ")
        self.uncounted.update(re.findall(_DIRECTORY, body))
        self.commits += len(re.findall(rb"\ncommit [0-9a-f]{7}", body))

    def _begin(self, data: bytes, start: int) -> None:
        """A line that opens something: a hunk, a file, a commit, or tells of a file by itself."""
        self.events += 1
        line = data[start + 1 : _end(data, start + 1)]
        if line.startswith(b"@@"):
            if self.file is not None:
                self.hunk = Hunk(line)
                if len(self.file.hunks) < HUNKS_KEPT:
                    self.file.hunks.append(self.hunk)
                    self._hold(self.hunk)
            return
        self.hunk = None
        if line.startswith(b"--- "):
            second = _end(data, start + 1) + 1
            name = named(line, data[second : _end(data, second)])
            if self.file is not None and not self.file.hunks and self.file.name.startswith(b"\0"):
                self.file.name = name
            else:
                self._open(name)
        elif line.startswith(b"commit "):
            self.commits += 1
            self.file = None
            self.message = 0
            self._part(line)
        elif line.startswith((b"diff --git ", b"diff --cc ", b"diff --combined ")):
            self.git = True
            self._open(b"\0" + line)
        elif self.file is None or not self.file.name.startswith(b"\0"):
            # `diff -r` and submodules tell of a file in one line.
            self.file = None
            self.message = MESSAGE_LINES
            self.files += line.startswith((b"Binary files ", b"Submodule "))
            if not line.startswith(b"diff "):
                self._part(line)

    def _stretch(self, text: bytes) -> None:
        """What stands between two openings, with the opening line itself."""
        hunk, file = self.hunk, self.file
        if not text:
            return
        if hunk is not None and file is not None:
            added, removed = text.count(b"\n+"), text.count(b"\n-")
            if text.startswith(b"\n@@@") or (hunk.text and hunk.text[0].startswith(b"\n@@@")):
                added, removed = (
                    added + text.count(b"\n +"),
                    removed + text.count(b"\n -"),
                )
            hunk.lines += text.count(b"\n") - text.count(b"\n\\") - text.startswith(b"\n@@")
            hunk.added += added
            hunk.removed += removed
            file.added += added
            file.removed += removed
            self.added += added
            self.removed += removed
            if hunk.size < HUNK_BYTES:
                hunk.text.append(text[: HUNK_BYTES + 1])
            hunk.size += len(text)
        elif file is not None:
            for line in text[:4096].split(b"\n")[1:20]:
                if line.startswith(_STATES) and len(file.facts) < 8:
                    file.facts.append(line)
        else:
            for line in text[:8192].replace(RETURN + b"\n", b"\n").split(b"\n")[1:]:
                # Of one commit the message is told, of many their subjects.
                if (
                    line.strip()
                    and not line.startswith(b"commit ")
                    and self.message < MESSAGE_LINES
                ):
                    self.message += 1
                    if self.commits < 2:
                        self._part(line)
                    elif line.startswith(b"    "):
                        self._part(line)
                        self.message = MESSAGE_LINES

    def _open(self, name: bytes) -> None:
        self.files += 1
        self.file = File(name)
        if name.startswith((b"\0diff --cc ", b"\0diff --combined ")):
            self.file.facts.append(b"merge")
        self._part(self.file)

    def _part(self, part: File | bytes) -> None:
        if len(self.parts) < FILES_KEPT:
            self.parts.append(part)

    def _hold(self, hunk: Hunk) -> None:
        """Keep the text of the largest hunks only."""
        self.kept.append(hunk)
        if len(self.kept) >= 2 * HUNKS_KEPT:
            self.kept.sort(key=signal)
            for small in self.kept[:HUNKS_KEPT]:
                small.text.clear()
            del self.kept[:HUNKS_KEPT]

    def _complain(self, window: bytes) -> None:
        self.errors += [line for line in window.split(b"\n")[:NOTES_KEPT] if line.strip()][
            : NOTES_KEPT - len(self.errors)
        ]

    # Telling.

    def _pieces(self, budget_bytes: int) -> list[Piece]:
        files = b"%d file%s" % (self.files, b"" if self.files == 1 else b"s")
        total = b"+%d -%d in %s" % (self.added, self.removed, files)
        if self.commits > 1:
            total = b"+%d -%d in %s, %d commits" % (
                self.added,
                self.removed,
                self._changed(),
                self.commits,
            )
        pieces = [Piece(line, 0 if at < 3 else 5, 1) for at, line in enumerate(self.errors)]
        pieces += [Piece(line, 0, 1 if self.errors else 0) for line in self.closing]
        pieces.append(Piece(total, 0, lines=0))
        heads = [head_of(part) if isinstance(part, File) else part for part in self.parts]
        left = budget_bytes - len(total) - sum(len(head) + 1 for head in heads)
        crowded = left < 0
        many = crowded and self.commits < 2
        known = sum(isinstance(part, File) for part in self.parts) + self.uncounted.total()
        if many and known == self.files and (places := spread(self.parts, self.uncounted)):
            pieces.append(Piece(b"by directory: " + places, 0, lines=0))
        chosen = self._chosen(left)
        ranks = _ranks(self.parts)
        unnamed = Series(b"file")
        commits, number = Series(b"commit"), 0
        for at, (part, head) in enumerate(zip(self.parts, heads, strict=True)):
            if not isinstance(part, File):
                routine = part.startswith((b"Author:", b"Date:", b"Merge:"))
                pieces.append(Piece(head, 5 if routine else 1))
                if part.startswith(b"commit "):
                    pieces[-1].nth = commits, number
                    number += 1
                    unnamed = Series(b"file")  # each commit has its own
                continue
            term = title_of(part).decode("utf-8", "replace")
            if crowded and number and not isinstance(self.parts[at - 1], File):
                pieces[-1].holds = {unnamed: 0}  # where no file of a commit is named
            pieces.append(
                Piece(
                    head,
                    1 if ranks[at] < 40 else 3,
                    lines=0,
                    terms=("diff --git", term),
                )
            )
            if crowded:
                pieces[-1].holds = {unnamed: 1}
            for hunk in part.hunks:
                size = chosen.get(id(hunk))
                if size:
                    pieces.append(shown(hunk, size, term))
                elif spare(hunk) and len(pieces) < HUNKS_KEPT:
                    pieces.append(shown(hunk, hunk.size, term, worth=9))
        if many and self.files > (named := sum(isinstance(part, File) for part in self.parts)):
            pieces.append(Piece(b"", 9, lines=0))
            pieces[-1].holds = {unnamed: self.files - named}
        return pieces

    def _changed(self) -> bytes:
        """How many files a history changed: a file counts once, if all of them are known."""
        files = [part for part in self.parts if isinstance(part, File)]
        if len(files) < self.files:
            return b"%d changes of files" % self.files
        count = len({title_of(file) for file in files})
        return b"%d file%s" % (count, b"" if count == 1 else b"s")

    def _chosen(self, left: int) -> dict[int, int]:
        """Hunks to show and how many bytes of each: the largest that fit whole, else a part."""
        chosen: dict[int, int] = {}
        candidates = [
            hunk
            for part in self.parts
            if isinstance(part, File) and not is_generated(title_of(part))
            for hunk in part.hunks
            if hunk.text
        ]
        candidates.sort(key=signal, reverse=True)
        for hunk in candidates:
            if hunk.size <= min(left, HUNK_BYTES):
                chosen[id(hunk)] = hunk.size
                left -= hunk.size
        if candidates and left > 300 and id(candidates[0]) not in chosen:
            chosen[id(candidates[0])] = left - 60
        return chosen


_EVENTS = (
    rb"\n(?:@@|diff -|commit [0-9a-f]{7}|--- [^\n]*\n\+\+\+ |Only in |Binary files |Submodule "
    rb"|\* Unmerged path )"
)


_DIRECTORY = rb'\ndiff --git "?a/([^/\n ]*/|)'
# A file's header up to its two names; no line of a hunk begins like one of these.
_HEADERS = rb"\ndiff --git [^\n]*\n(?:[a-z][^\n]*\n){0,8}--- [^\n]*\n\+\+\+ "


def _end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _ranks(parts: list[File | bytes]) -> list[int]:
    """Each part's place: what changed before what came or went, the most changed lines first."""
    order = {
        at: (came_or_went(part), -part.added - part.removed)
        for at, part in enumerate(parts)
        if isinstance(part, File)
    }
    ranks = [0] * len(parts)
    for rank, at in enumerate(sorted(order, key=lambda at: order[at])):
        ranks[at] = rank
    return ranks
