"""What changed, told by file instead of by line: git's `--stat`, `--name-status`, `--graph`.

Sums are git's own; files are named by what happened to them, and of a history each commit has
its line before any of its files.
"""

from __future__ import annotations

from yarp.reduce.families.base import Piece, Series
from yarp.reduce.families.names import factor
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.status import Reader, one_line

_SIZE = pattern_of(rb" *(?P<size>\d{1,12}|Bin)(?: (?P<rest>.*))?$")
_NAMED = pattern_of(rb"(?P<kind>[ACDMRTUXB])\d*\t(?P<name>\S.*)$")
_TOTAL = pattern_of(rb" \d+ files? changed")
_SUMMARY = pattern_of(rb" (?:create|delete) mode \d+ |  ?(?:rename|copy|mode change|rewrite) ")
_PARTS = pattern_of(rb"(\d+) (file|insertion|deletion)")
_KINDS = {b"A": b"added", b"C": b"copied", b"D": b"deleted", b"M": b"modified", b"R": b"renamed",
    b"T": b"another type", b"U": b"unmerged"}  # fmt: skip
_OPTIONS = ("--stat", "--name-status", "--name-only", "--compact-summary")
_COMMITS_KEPT = 300
_FILES_KEPT = 20_000
_COMMIT_FILES = 200
_LARGEST = 8


def asked(argv: tuple[str, ...]) -> bool:
    """Whether this git command prints files with what changed in them."""
    return any(word.startswith(_OPTIONS) for word in argv)


class _Commit:
    """One commit of a history: what is said of it, and its files."""

    __slots__ = ("files", "head", "lines", "more", "total")

    def __init__(self, line: bytes) -> None:
        self.head = [line]
        self.files: list[tuple[bytes, bytes, int]] = []  # name, kind or count, count as a number
        self.more = 0
        self.total = b""
        self.lines = 1


class Changes(Reader):
    """Files with their changes, of one comparison or of each commit."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._commits_told = argv[1] != "diff"
        self._only = any(word.startswith("--name-only") for word in argv)
        self._commits: list[_Commit] = []
        self._count = 0
        self._open = _Commit(b"")
        self._files = 0
        self._said: list[Piece] = []
        self._unknown = False

    def line(self, stream: int, line: bytes) -> None:
        """Take one line that is not blank."""
        if stream:
            if len(self._said) < 40:
                self._said.append(Piece(line, 0 if len(self._said) < 3 else 4, 1))
            return
        commit = self._open
        if line.startswith(b"commit ") and self._commits_told:
            self._count += 1
            self._open = commit = _Commit(line)
            # The last one always stays.
            if len(self._commits) >= _COMMITS_KEPT:
                self._commits.pop()
            self._commits.append(commit)
            return
        commit.lines += 1
        # ` a/b.py | 12 ++--`: no sign of a change is a bar.
        name, bar, rest = line.rpartition(b" | ")
        found = _SIZE.match(rest) if bar and name[:1] == b" " != name[1:2] else None
        if found is not None:
            count = int(found["size"]) if found["size"] != b"Bin" else 0
            signs = found["rest"] or b""
            added, removed = b"+" in signs, b"-" in signs and found["size"] != b"Bin"
            mark = b"+" if added and not removed else b"-" if removed and not added else b"+-"
            self._file(name.strip(), mark + found["size"] if count else found["size"], count)
        elif (named := _NAMED.match(line)) is not None:
            self._file(named["name"].replace(b"\t", b" -> "), named["kind"], 0)
        elif _TOTAL.match(line):
            commit.total = line.strip()
        elif _SUMMARY.match(line):
            return
        elif self._count and line.startswith((b"Author:", b"Date:", b"Merge:", b"    ")):
            if len(commit.head) < 40:
                commit.head.append(line)
        elif self._only and not line.startswith(b" "):
            self._file(line, b"", 0)
        else:
            self._unknown = True

    def _file(self, name: bytes, mark: bytes, count: int) -> None:
        commit = self._open
        self._files += 1
        most = _FILES_KEPT if self._count < 2 else _COMMIT_FILES
        if len(commit.files) < most:
            commit.files.append((name, mark, count))
        else:
            commit.more += 1

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """Sums, then files; None where something else was printed."""
        del failed
        if self._unknown or not (self._count or self._files):
            return None
        out = self._alone(self._open) if self._count < 2 else self._history()
        return out + self._said

    def _alone(self, commit: _Commit) -> list[Piece]:
        out: list[Piece] = []
        if self._count:
            out += [
                Piece(line, 5 if line.startswith((b"Author:", b"Date:")) else 1)
                for line in commit.head
            ]
        counts: dict[bytes, list[bytes]] = {}
        for name, mark, _ in commit.files:
            counts.setdefault(_KINDS.get(mark, mark), []).append(name)
        if commit.total:
            out.append(Piece(b" " + commit.total, 0))
            return out + self._sized(commit)
        kinds = [b"%b %d" % (kind, len(names)) for kind, names in counts.items() if kind]
        total = b"%d files" % (len(commit.files) + commit.more)
        if kinds and not commit.more:
            total += b": " + b", ".join(kinds)
        out.append(Piece(total, 0, lines=0))
        # The rarest kinds are what one looks for.
        for rank, kind in enumerate(sorted(counts, key=lambda kind: len(counts[kind]))):
            start = kind + b": " if kind else b""
            for line in factor(counts[kind]):
                worth = min(2 + rank, 5)
                term = (line.term.decode("utf-8", "replace"),)
                text = start + line.text
                out.append(Piece(text, min(worth, 3) if line.odd else worth, 0, line.count, term))
                start = b"  " if kind else b""
        return out

    def _sized(self, commit: _Commit) -> list[Piece]:
        """The largest changes, renames, then the names of the others by directory."""
        ranked = sorted(commit.files, key=lambda file: -file[2])
        many = len(ranked) > _LARGEST + 4
        shown = ranked[:_LARGEST] if many else ranked
        names = {name for name, _, _ in shown}
        moved = [file for file in ranked[len(shown) :] if b" => " in file[0]]
        names |= {name for name, _, _ in moved}
        out = []
        for at, (name, mark, count) in enumerate(shown + moved):
            text = b" " + name + b" " + (mark if count or not mark.isdigit() else b"0")
            term = (name.decode("utf-8", "replace"),)
            out.append(Piece(text, 2 if at < 3 else 3 if at < len(shown) else 4, terms=term))
        rest = [name for name, _, _ in commit.files if name not in names]
        for line in factor(rest):
            term = (line.term.decode("utf-8", "replace"),)
            out.append(Piece(b" " + line.text, 4 if line.odd else 5, 0, line.count, term))
        return out

    def _history(self) -> list[Piece]:
        out = [Piece(b"%d commits" % self._count, 0, lines=0)]
        series = Series(b"commit")
        for at, commit in enumerate(self._commits):
            text = one_line(b"\n".join([*commit.head[:4], b"", *_message(commit.head)]))
            files = len(commit.files) + commit.more
            said = b"%d file%b" % (files, b"" if files == 1 else b"s")
            if commit.total:
                # Added and removed lines as git counted them.
                signs = {b"insertion": b" +", b"deletion": b" -"}
                parts = _PARTS.findall(commit.total)
                said += b"".join(signs[w] + n for n, w in parts if w in signs)
            last = at == len(self._commits) - 1
            term = (commit.head[0].partition(b" ")[2][:10].decode("utf-8", "replace"),)
            worth = 1 if not at else 2 if last or at < 10 else 3
            out.append(Piece(b"%b (%b)" % (text, said), worth, 0, 1, term))
            out[-1].nth = series, self._count - 1 if last else at
            names = [
                name if mark in (b"M", b"") or not mark.isalpha() else mark + b" " + name
                for name, mark, _ in commit.files
            ]
            listed = factor(names)
            for line in listed:
                near = 3 if not at else 4 if at < 3 else 5 if at < 8 else 6
                out.append(Piece(b"  " + line.text, near, 0, line.count))
                if len(listed) > 1:
                    out[-1].holds = {commit.head[0]: line.count}
        return out


def _message(head: list[bytes]) -> list[bytes]:
    return [line for line in head if line.startswith(b"    ")]


_COMMIT = pattern_of(rb"(?P<drawn>[*|/\\_ .-]*\*[|/\\_ .-]*) (?P<said>[0-9a-f]{7,40} .*)$")


class Graph(Reader):
    """`git log --oneline --graph`: commits with their lane, the lines that only draw left out."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._count = self._drawn = 0
        self._kept: list[bytes] = []
        self._last = b""
        self._unknown = False
        self._said: list[Piece] = []

    def line(self, stream: int, line: bytes) -> None:
        """Take one line that is not blank."""
        if stream:
            if len(self._said) < 40:
                self._said.append(Piece(line, 0, 1))
        elif _COMMIT.match(line):
            self._count += 1
            self._last = line
            if len(self._kept) < _COMMITS_KEPT:
                self._kept.append(line)
        elif line.strip(b"*|/\\_ .-"):
            self._unknown = True
        else:
            self._drawn += 1

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        """How many, the first ones, merges and the oldest; None where each has more to say."""
        del failed
        if self._unknown or not self._count:
            return None
        out = [Piece(b"%d commits" % self._count, 0, 0, self._drawn)]
        series = Series(b"commit")
        for at, line in enumerate(self._kept):
            merge = b" Merge " in line
            worth = 1 if not at else 2 if at < 4 else 3 if merge else 4 if at < 12 else 5
            out.append(Piece(line.rstrip(), worth, terms=("Merge",) if merge else ()))
            out[-1].nth = series, at
        if self._count > len(self._kept):
            out.append(Piece(self._last, 2))
            out[-1].nth = series, self._count - 1
        elif len(out) > 2:
            out[-1].worth = 2
        return out + self._said
