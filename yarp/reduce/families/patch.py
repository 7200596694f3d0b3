"""The parts of a diff: files with what happened to them, hunks with what they announce."""

from __future__ import annotations

from yarp.reduce.blocks import RETURN
from yarp.reduce.families.base import Piece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter

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
_PLACES = 8
_FOLDERS = frozenset((b"node_modules", b"vendor", b"dist", b"__generated__"))


class File:
    """One file's part of a diff."""

    __slots__ = ("added", "facts", "hunks", "name", "removed")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.added = 0
        self.removed = 0
        self.facts: list[bytes] = []
        self.hunks: list[Hunk] = []


class Hunk:
    """A hunk's first bytes, and how many lines and changes it has in all."""

    __slots__ = ("added", "lines", "new", "old", "removed", "size", "text")

    def __init__(self, header: bytes) -> None:
        self.text: list[bytes] = []
        self.size = 0
        self.lines = 0
        self.added = 0
        self.removed = 0
        self.old, self.new = announced(header)

    def complete(self) -> bool:
        """Whether it has as many lines as its header announced."""
        both = self.lines - self.added - self.removed
        return both + self.removed >= self.old and both + self.added >= self.new


def signal(hunk: Hunk) -> int:
    """How much a hunk tells: of a file that came or went the counts say most."""
    changes = hunk.added + hunk.removed
    if not hunk.new:
        return changes // 16
    return changes // 4 if not hunk.old else changes


def announced(header: bytes) -> tuple[int, int]:
    """How many old and new lines a header speaks of; a merge's says it of each parent."""
    sizes = []
    for word in header.strip(b"@").split(b"@@")[0].split():
        _, comma, size = word.partition(b",")
        sizes.append(int(size) if comma and size.isdigit() else 1)
    return (sizes[0], sizes[-1]) if len(sizes) > 1 else (0, 0)


def named(old: bytes, new: bytes) -> bytes:
    """The path of the lines `--- a/path` and `+++ b/path`."""
    line = old[4:] if new.startswith(b"+++ /dev/null") else new[4:]
    path = line.partition(b"\t")[0].strip()
    path = path.strip(b'"') if path.startswith(b'"') else path
    return path[2:] if path[1:2] == b"/" and path[:1] in b"abciwo" else path


def title_of(file: File) -> bytes:
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


def head_of(file: File) -> bytes:
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
    title = title_of(file)
    if is_generated(title) and file.hunks:
        notes.append(b"generated, hunks left out")
    counts = b"" if not file.hunks else b" +%d -%d" % (file.added, file.removed)
    return title + counts + (b" (" + b", ".join(notes) + b")" if notes else b"")


def came_or_went(file: File) -> bool:
    """Whether the counts of a file say most of it: it is new, or gone, or made by a program."""
    new = any(line.startswith((b"new file", b"deleted file")) for line in file.facts)
    return new or is_generated(title_of(file))


def spread(parts: list[File | bytes], others: Counter[bytes]) -> bytes:
    """The counts of each first directory below what all have in common; nothing for one.

    `others` counts files of which only the first directory is known: then files are counted.
    """
    files = [part for part in parts if isinstance(part, File)]
    paths = [title_of(file).split(b"/")[:-1] for file in files]
    depth = 0
    if not others:
        least = min((len(path) for path in paths), default=0)
        while depth < least and len({path[depth] for path in paths}) == 1:
            depth += 1
    counts: dict[bytes, list[int]] = {}
    for path, file in zip(paths, files, strict=True):
        place = b"/".join(path[: depth + 1]) + b"/" if len(path) > depth else b"."
        count = counts.setdefault(place, [0, 0, 0])
        for at, more in enumerate((1, file.added, file.removed)):
            count[at] += more
    for place, number in others.items():
        counts.setdefault(place or b".", [0, 0, 0])[0] += number
    if len(counts) < 2:
        return b""
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], -item[1][1]))
    said = [
        b"%b %d" % (place, count[0]) + (b"" if others else b" (+%d -%d)" % (count[1], count[2]))
        for place, count in ordered[:_PLACES]
    ]
    if len(ordered) > _PLACES:
        said.append(
            b"%d files in %d more"
            % (sum(count[0] for _, count in ordered[_PLACES:]), len(ordered) - _PLACES)
        )
    return b", ".join(said)


def is_generated(path: bytes) -> bool:
    """Whether a program writes this file, so that its counts say enough."""
    *folders, name = path.split(b"/")
    return name in _LOCKS or path.endswith(_GENERATED) or not _FOLDERS.isdisjoint(folders)


def spare(hunk: Hunk) -> bool:
    """Whether a hunk is worth showing where room is left: whole, and of a file that changed."""
    return bool(hunk.text and hunk.old and hunk.new) and hunk.size < 2048


def shown(hunk: Hunk, size: int, term: str, worth: int = 4) -> Piece:
    """A hunk whole, or its beginning with the number of lines that are missing."""
    text = b"".join(hunk.text)[1:]
    if RETURN + b"\n" in text:
        text = _plain_ends(text)
    if size >= hunk.size:
        return Piece(text, worth, terms=("@@ -", term))
    part = text[: text.rfind(b"\n", 0, size)] if b"\n" in text[:size] else text[:size]
    lines = part.count(b"\n") + 1
    note = b"\n[... %d more lines of this hunk ...]" % (hunk.lines + 1 - lines)
    return Piece(part + note, worth, lines=lines, terms=("@@ -", term))


def _plain_ends(text: bytes) -> bytes:
    """A hunk's text; where every line ends with a carriage return, that says nothing."""
    header, _, body = text.partition(b"\n")
    lines = [line for line in body.split(b"\n") if not line.startswith(b"\\")]
    if not all(line.endswith(RETURN) for line in lines):
        return text
    return header.removesuffix(RETURN) + b"\n" + (body + b"\n").replace(RETURN + b"\n", b"\n")[:-1]
