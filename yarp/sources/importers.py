"""How an importer of an agent's store declares itself, and the item that it reads.

An importer is two functions. `discover` names the items below the roots that the user gave;
`read` says what one of them holds, as `yarp.sources.facts`. Neither writes anything, and
neither knows of keys, checkpoints or the database:

    def discover(roots):
        yield from items_below(roots["sessions"], kind="sessions", suffixes=(".jsonl",))

    def read(item):
        for line in item.lines():
            ...
            yield call

    Importer("acme", adapter_version=1, discover=discover, read=read, options=[
        SourceOption("sessions", kind="directory", help="...", default=".acme/sessions")])

Source: seed 003, "Source rules" and "Command line".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from yarp.types import Value

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from yarp.sources.facts import Issue, SourceFact
    from yarp.sources.jsonl import JsonlFile, Line
    from yarp.sources.sqlite import Snapshot


BESIDE = ("", "-wal", "-journal")
"""What a database consists of while it is not being read: suffixes of its path."""


class SourceOption(Value):
    """A root that an importer or a reader takes, and its option on the command line.

    `flag` without dashes, such as `sessions`. `default` is the usual place below the home
    directory; it is offered, never scanned unasked. `source_kind` is the kind under which the
    root and its items are recorded; the flag, with `_` for `-`, unless given. Source: seed
    003, "Command line".
    """

    __slots__ = ("default", "flag", "help", "kind", "required", "source_kind")
    _shown = "flag"

    def __init__(
        self,
        flag: str,
        *,
        kind: str,
        help: str,  # noqa: A002 - as the command line calls it
        default: str | None = None,
        required: bool = True,
        source_kind: str | None = None,
    ) -> None:
        if kind not in ("file", "directory"):
            raise ValueError(f"source option {flag}: kind must be file or directory")
        self.flag = flag
        self.kind = kind
        self.help = help
        self.default = default
        self.required = required
        self.source_kind = source_kind or flag.replace("-", "_")


class Importer(Value):
    """Reads an agent's store into the dataset.

    `agent`: its name in the dataset, and the subcommand of `extract`.
    `adapter_version`: raise it when the same source shall be parsed again.
    `options`: its roots. At least one must be given; a `required` one always.
    `discover(roots)`: the items below the roots, as `SourceItem`, and an `Issue` for what is
    wrong outside of any item. `roots` holds, by flag, the resolved absolute path of each root
    that was given. Order does not matter: the core reads items by kind and path.
    `read(item)`: the facts of one item. A changed item is read as a whole again, and its rows
    are brought in line by their keys. It raises `Rejected` for a source that it does not know;
    whatever else it raises rejects the item too, as a fault of the importer.
    Source: seed 003.
    """

    __slots__ = ("adapter_version", "agent", "discover", "options", "read")
    _shown = "agent"

    def __init__(
        self,
        agent: str,
        *,
        adapter_version: int,
        options: Iterable[SourceOption],
        discover: Callable[[Mapping[str, str]], Iterable[SourceItem | Issue]],
        read: Callable[[SourceItem], Iterable[SourceFact]],
    ) -> None:
        if adapter_version < 1:
            raise ValueError(f"importer {agent}: adapter_version must be 1 or more")
        self.agent = agent
        self.adapter_version = adapter_version
        self.options = tuple(options)
        self.discover = discover
        self.read = read


class SourceItem:
    """One file to read, and the means to read it stably.

    `kind`: the source kind of its root. `root`: the root's path as `discover` was given it.
    `relative_path`: its place below that; "" when the root is the file itself.
    `context`: a JSON value with what `discover` knows of the item from elsewhere, such as the
    metadata of a database that lists it; when it changes, the item is read again.
    `companions`: absolute paths of further files that `read` looks into; when one of them
    changes, the item is read again.
    `database`: the file is an SQLite database, for `sqlite()`.
    `refused`: what keeps it, or what lies below it, from being read: an issue of it. Then it is
    not given to `read`.
    """

    def __init__(
        self,
        kind: str,
        root: str,
        relative_path: str,
        *,
        context: Any = None,
        companions: Iterable[str] = (),
        database: bool = False,
        refused: Issue | None = None,
    ) -> None:
        self.kind = kind
        self.root = root
        self.relative_path = relative_path
        self.context = context
        self.companions = tuple(companions)
        self.database = database
        self.refused = refused
        self.private_directory: str | None = None
        """Where private copies go; the system's directory for temporary files if None."""
        self.most_copy_bytes: int | None = None
        """What a private copy may take there; all if None."""
        self.places: Mapping[str, bytes] = {}
        """Of a database: the digest of the record that the last reading saw, by
        `sqlite_blob_id`. Where it is the same, the core's own importer yields `Kept` and
        looks no further. Empty where everything is to be read."""
        self._lines: Iterator[Line] = iter(())
        self.mark: int | None = None
        """How many first bytes of the file `lines()` shall digest on its way."""
        self.file: JsonlFile | None = None
        """The file of `lines()`, once it is asked for."""
        self.snapshot: Snapshot | None = None
        """The copy behind `sqlite()`, once it is asked for."""

    def unread(self) -> SourceItem:
        """The same item, of which nothing was read yet."""
        return SourceItem(
            self.kind,
            self.root,
            self.relative_path,
            context=self.context,
            companions=self.companions,
            database=self.database,
            refused=self.refused,
        )

    def __repr__(self) -> str:
        return f"SourceItem({self.kind!r}, {self.relative_path!r})"

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return os.path.join(self.root, self.relative_path) if self.relative_path else self.root

    @property
    def shown_root(self) -> str:
        """The root as text, which a path is not where its bytes are no UTF-8."""
        from yarp.sources.beneath import shown

        return shown(self.root)

    @property
    def shown_path(self) -> str:
        """The relative path as text."""
        from yarp.sources.beneath import shown

        return shown(self.relative_path)

    def lines(self) -> Iterator[Line]:
        """The complete lines of the file that are JSON, in order, with their parsed values.

        All others are issues of the item already. To be asked for once: what is needed again
        is read by `line_again`. Raises `Rejected`, or OSError for what is no readable file.
        """
        from yarp.sources.jsonl import JsonlFile

        if self.file is not None:
            raise ValueError("lines() is to be asked for once; see line_again()")
        self.file = JsonlFile(self.path, self.root)
        if self.mark is not None:
            self.file.mark(self.mark)
        self._lines = self.file.lines()
        return self._lines

    def line_again(self, line_number: int, byte_offset: int, byte_length: int) -> Line:
        """Read once more a line that `lines()` gave, instead of keeping it in memory.

        ValueError for a compressed file (`compressed`), which has no way back.
        """
        if self.file is None:
            raise ValueError("lines() comes first")
        return self.file.line_at(byte_offset, line_number, byte_length)

    def sqlite(self) -> sqlite3.Connection:
        """A verified private copy of the database with its write-ahead log, open read-only.

        One transaction is open, `query_only` is on, and the source was not touched. It is
        closed with the item.
        """
        from yarp.sources.sqlite import Snapshot

        if self.snapshot is None:
            self.snapshot = Snapshot(
                self.path,
                self.private_directory,
                root=self.root,
                most_bytes=self.most_copy_bytes,
            )
        return self.snapshot.connection

    def read_beside(self, path: str, *, most_bytes: int = 1 << 30) -> bytes | None:
        """The bytes of another regular file below this item's root; None when there is none.

        Also None for a path that leads out of the root, by whatever way. `path` is absolute or
        relative to the root. Raises `Rejected` when the file is longer than `most_bytes` or
        changes while it is read.
        """
        from yarp.sources.walk import read_whole

        return read_whole(self.root, path, most_bytes)

    def verify(self) -> None:
        """Make sure, after reading, that it was of one state. Raises `Rejected`.

        Lines that were not asked for are read to their end: they count as read.
        """
        for _ in self._lines:
            pass
        if self.file is not None:
            self.file.verify()

    def close(self) -> None:
        """Close and remove what reading opened; more than once does no harm."""
        if self.file is not None:
            self.file.close()
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None

    @property
    def compressed(self) -> bool:
        """Whether the file is compressed: places then count in its content."""
        return self.path.endswith(".zst")

    @property
    def issues(self) -> list[Issue]:
        """What reading itself found."""
        return [] if self.file is None else self.file.issues
