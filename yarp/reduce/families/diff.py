"""Diffs: totals, a line a file, then whole hunks, the largest first that fit.

What is shown of a hunk is all of it or says how many of its lines are missing: a patch that
exists nowhere is never shown. Lock files and generated files are told by their counts.
"""

from __future__ import annotations

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece
from yarp.reduce.families.lines import Windows

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from yarp.reduce.families.base import Status

FILES_KEPT = 2_048
HUNKS_KEPT = 512
# So many hunks and files are looked at one by one; beyond them changes are only counted.
EVENTS_TAKEN = 20_000
HELD_BYTES = 1 << 20
HUNK_BYTES = 8 * 1024
NOTES_KEPT = 40
MESSAGE_LINES = 14
_LOCKS = frozenset(
    (
        b"package-lock.json", b"npm-shrinkwrap.json", b"yarn.lock", b"pnpm-lock.yaml",
        b"bun.lock", b"bun.lockb",
        b"Cargo.lock", b"poetry.lock", b"uv.lock", b"Pipfile.lock", b"pdm.lock", b"Gemfile.lock",
        b"composer.lock",
        b"go.sum", b"flake.lock", b"mix.lock", b"Podfile.lock", b"pubspec.lock",
        b"packages.lock.json", b"deno.lock",
    )
)  # fmt: skip
_GENERATED = (
    b".min.js",
    b".min.css",
    b".map",
    b".snap",
    b"_pb2.py",
    b"_pb2_grpc.py",
    b".pb.go",
    b".generated.ts",
    b".g.dart",
)
_FOLDERS = (b"node_modules/", b"vendor/", b"dist/", b"__generated__/")
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


class _File:
    """One file's part of a diff."""

    __slots__ = ("added", "facts", "hunks", "name", "removed")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.added = 0
        self.removed = 0
        self.facts: list[bytes] = []
        self.hunks: list[_Hunk] = []


class _Hunk:
    """A hunk's first bytes, and how many lines and changes it has in all."""

    __slots__ = ("added", "lines", "new", "old", "removed", "size", "text")

    def __init__(self, header: bytes) -> None:
        self.text: list[bytes] = []
        self.size = 0
        self.lines = 0
        self.added = 0
        self.removed = 0
        self.old, self.new = _announced(header)

    def complete(self) -> bool:
        """Whether it has as many lines as its header announced."""
        both = self.lines - self.added - self.removed
        return both + self.removed >= self.old and both + self.added >= self.new


class Family(base.Family):
    """Summarises one diff, or the diffs of a log."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self.added = self.removed = 0
        self.files = self.commits = 0
        self.parts: list[_File | bytes] = []
        self.kept: list[_Hunk] = []
        self.file: _File | None = None
        self.hunk: _Hunk | None = None
        self.message = 0
        self.errors: list[bytes] = []
        self.lanes = (Windows(self._read), Windows(self._complain))
        self._event: re.Pattern[bytes] | None = None
        self.events = 0
        self.git = False
        self.counting = False
        self.held = b""

    def feed(self, stream: int, block: bytes) -> None:
        """Take whole lines of one stream."""
        self.lanes[stream].feed(block)

    def finish(self, status: Status) -> list[Piece] | None:
        """Totals, files, hunks; None where this was no diff."""
        self._read(self.lanes[0].rest())
        self._tally(self.held)
        self._complain(self.lanes[1].rest())
        if not self.files:
            return None
        # diff(1) and `git diff --exit-code` end with 1 when there are differences.
        good = status.exit_code in (0, 1)
        budget = self.options.get(
            "success_bytes" if good and status.success else "failure_bytes", 1024
        )
        return self._pieces(budget - 200)

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
        self.commits += len(re.findall(rb"\ncommit [0-9a-f]{7}", body))

    def _begin(self, data: bytes, start: int) -> None:
        """A line that opens something: a hunk, a file, a commit, or tells of a file by itself."""
        self.events += 1
        line = data[start + 1 : _end(data, start + 1)]
        if line.startswith(b"@@"):
            if self.file is not None:
                self.hunk = _Hunk(line)
                if len(self.file.hunks) < HUNKS_KEPT:
                    self.file.hunks.append(self.hunk)
                    self._hold(self.hunk)
            return
        self.hunk = None
        if line.startswith(b"--- "):
            second = _end(data, start + 1) + 1
            name = _named(line, data[second : _end(data, second)])
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
            for line in text[:8192].split(b"\n")[1:]:
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
        self.file = _File(name)
        if name.startswith((b"\0diff --cc ", b"\0diff --combined ")):
            self.file.facts.append(b"merge")
        self._part(self.file)

    def _part(self, part: _File | bytes) -> None:
        if len(self.parts) < FILES_KEPT:
            self.parts.append(part)

    def _hold(self, hunk: _Hunk) -> None:
        """Keep the text of the largest hunks only."""
        self.kept.append(hunk)
        if len(self.kept) >= 2 * HUNKS_KEPT:
            self.kept.sort(key=_signal)
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
            total += b", %d commits" % self.commits
        pieces = [Piece(line, 0 if at < 3 else 5, 1) for at, line in enumerate(self.errors)]
        pieces.append(Piece(total, 0, lines=0))
        heads = [_head(part) if isinstance(part, _File) else part for part in self.parts]
        left = budget_bytes - len(total) - sum(len(head) + 1 for head in heads)
        chosen = self._chosen(left)
        ranks = _ranks(self.parts)
        for at, (part, head) in enumerate(zip(self.parts, heads, strict=True)):
            if not isinstance(part, _File):
                pieces.append(
                    Piece(
                        head,
                        5 if part.startswith((b"Author:", b"Date:", b"Merge:")) else 1,
                    )
                )
                continue
            term = _title(part).decode("utf-8", "replace")
            pieces.append(
                Piece(
                    head,
                    1 if ranks[at] < 40 else 3,
                    lines=0,
                    terms=("diff --git", term),
                )
            )
            for hunk in part.hunks:
                size = chosen.get(id(hunk))
                if size:
                    pieces.append(_shown(hunk, size, term))
        return pieces

    def _chosen(self, left: int) -> dict[int, int]:
        """Hunks to show and how many bytes of each: the largest that fit whole, else a part."""
        chosen: dict[int, int] = {}
        candidates = [
            hunk
            for part in self.parts
            if isinstance(part, _File) and not _is_generated(_title(part))
            for hunk in part.hunks
            if hunk.text
        ]
        candidates.sort(key=_signal, reverse=True)
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


# A file's header up to its two names; no line of a hunk begins like one of these.
_HEADERS = rb"\ndiff --git [^\n]*\n(?:[a-z][^\n]*\n){0,8}--- [^\n]*\n\+\+\+ "


def _end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _signal(hunk: _Hunk) -> int:
    """How much a hunk tells: of a file that came or went the counts say most."""
    changes = hunk.added + hunk.removed
    if not hunk.new:
        return changes // 16
    return changes // 4 if not hunk.old else changes


def _announced(header: bytes) -> tuple[int, int]:
    """How many old and new lines a header speaks of; a merge's says it of each parent."""
    sizes = []
    for word in header.strip(b"@").split(b"@@")[0].split():
        _, comma, size = word.partition(b",")
        sizes.append(int(size) if comma and size.isdigit() else 1)
    return (sizes[0], sizes[-1]) if len(sizes) > 1 else (0, 0)


def _named(old: bytes, new: bytes) -> bytes:
    """The path of the lines `--- a/path` and `+++ b/path`."""
    line = old[4:] if new.startswith(b"+++ /dev/null") else new[4:]
    path = line.partition(b"\t")[0].strip()
    path = path.strip(b'"') if path.startswith(b'"') else path
    return path[2:] if path[1:2] == b"/" and path[:1] in b"abciwo" else path


def _title(file: _File) -> bytes:
    """The file's path; of a file without hunks the header is all that names it."""
    name = file.name
    if not name.startswith(b"\0"):
        return name
    moved = [
        line.partition(b" to ")[2]
        for line in file.facts
        if line.startswith((b"rename to", b"copy to"))
    ]
    if moved:
        return moved[0]
    rest = name[1:].split(b" ", 2)[-1]
    half = len(rest) // 2
    first, second = rest[:half], rest[half + 1 :]
    if first[2:] == second[2:] and first[1:2] == b"/":
        return second[2:]
    return second if first == second else rest


def _head(file: _File) -> bytes:
    """A file's line: path, counts, and what else happened to it."""
    notes = []
    for line in file.facts:
        if line.startswith(b"new file"):
            notes.append(b"new")
        elif line.startswith(b"deleted file"):
            notes.append(b"deleted")
        elif line.startswith((b"rename from", b"copy from")):
            notes.append(
                line.replace(b" from", b"d from" if line.startswith(b"rename") else b" from", 1)
            )
        elif line.startswith((b"Binary ", b"GIT binary")):
            notes.append(b"binary")
        elif line.startswith(b"old mode"):
            notes.append(b"mode " + line[9:])
        elif line.startswith(b"new mode") and notes:
            notes[-1] += b" -> " + line[9:]
        elif line == b"merge":
            notes.append(line)
    title = _title(file)
    if _is_generated(title) and file.hunks:
        notes.append(b"generated, hunks left out")
    counts = b"" if not file.hunks else b" +%d -%d" % (file.added, file.removed)
    return title + counts + (b" (" + b", ".join(notes) + b")" if notes else b"")


def _is_generated(path: bytes) -> bool:
    return (
        path.rpartition(b"/")[2] in _LOCKS
        or path.endswith(_GENERATED)
        or any(path.startswith(folder) or b"/" + folder in path for folder in _FOLDERS)
    )


def _ranks(parts: list[_File | bytes]) -> list[int]:
    """Each part's place by changed lines, the largest 0."""
    changes = [part.added + part.removed if isinstance(part, _File) else 0 for part in parts]
    ranks = [0] * len(parts)
    for rank, at in enumerate(sorted(range(len(parts)), key=lambda at: -changes[at])):
        ranks[at] = rank
    return ranks


def _shown(hunk: _Hunk, size: int, term: str) -> Piece:
    """A hunk whole, or its beginning with the number of lines that are missing."""
    text = b"".join(hunk.text)[1:]
    if size >= hunk.size:
        return Piece(text, 4, terms=(term,))
    shown = text[: text.rfind(b"\n", 0, size)] if b"\n" in text[:size] else text[:size]
    lines = shown.count(b"\n") + 1
    note = b"\n[... %d more lines of this hunk ...]" % (hunk.lines + 1 - lines)
    return Piece(shown + note, 4, lines=lines, terms=(term,))
