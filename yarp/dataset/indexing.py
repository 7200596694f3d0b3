"""Lists the words of texts while an import goes on, so that they need not be read once more.

Only of a dataset that is so large that it pays: of a small one all texts are read faster. The
thread that commits lists what it has committed; it spends its time in DuckDB and Arrow and leaves
the interpreter to the import. Whatever is missing in the end, or too much, `finish` makes up for:
the index is one of the dataset's state only after that.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Self

from yarp.dataset.ownfiles import index_of
from yarp.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yarp.dataset import textindex
    from yarp.dataset.database import Dataset
    from yarp.dataset.tables import Row
    from yarp.dataset.textindex import TextIndex

PAYS_BYTES = 384 << 20
"""A database of this size has about 250 MB of texts. In memory, 100 MB of them are read for a
needle in 20 to 40 ms; to make their index takes more than half as long as their import."""


def pays(database: str) -> bool:
    """Whether the database is so large that an index of its texts is worth its making.

    One that is there stays until the database has half that size.
    """
    index = index_of(database)
    least = PAYS_BYTES // 2 if os.path.lexists(index) else PAYS_BYTES
    return _size(database) + _size(database + ".wal") >= least


def current(dataset: Dataset) -> TextIndex | None:
    """The index of a dataset, if there is one that is of its rows and can be read now.

    Makes none: that takes much longer than to read all texts once.
    """
    if not pays(dataset.path):
        return None
    from yarp.dataset import textindex  # with Arrow

    index = textindex.TextIndex.open(dataset.path)
    if index is None or index.is_current(dataset):
        return index
    index.close()
    return None


def ready(
    dataset: Dataset, progress: Callable[[int], None] | None = None, *, hold: bool = True
) -> TextIndex | None:
    """The index of a dataset, current; brought up to date if it is not. None where none pays.

    `hold`: take the words into memory, or the texts where there is no index: for a process that
    looks for more than one needle. Raises StorageError where the index cannot be written.
    """
    if not pays(dataset.path):
        if hold:
            dataset.hold_texts()
        return None
    from yarp.dataset import textindex  # with Arrow

    for _ in range(2):
        index = textindex.TextIndex.open(dataset.path)
        if index is not None:
            if index.is_current(dataset) and (not hold or index.hold()):
                return index
            index.close()
        textindex.update(dataset, progress)
    return textindex.TextIndex.open(dataset.path)


class Indexing:
    """The text index of a dataset that is open to be written, kept up with what is committed."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._taken = False
        self._growing: textindex.Growing | None = None
        self._given_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    @property
    def has_begun(self) -> bool:
        """Whether what is committed is listed."""
        return self._taken

    def take(self, calls: list[Row], results: list[Row]) -> None:
        """List the texts of rows of tool_calls and tool_results that were committed and are new."""
        if self._given_up or not (calls or results) or not self._is_wanted():
            return
        if not self._taken:
            self._dataset.let_go()  # from here on there are two
        self._taken = True
        self._add(calls, results)

    def finish(self, progress: Callable[[int], None] | None = None) -> textindex.Update | None:
        """Make the index that of the dataset as it is now; None where none pays.

        `progress` is told how many bytes of text are done. Raises StorageError.
        """
        if not self._is_wanted():
            from yarp.dataset import indexfile

            indexfile.forget(self._dataset.path)
            return None
        from yarp.dataset import textindex  # with Arrow

        growing, self._growing = self._growing, None
        return textindex.update(self._dataset, progress, growing)

    def _is_wanted(self) -> bool:
        return self._taken or pays(self._dataset.path)

    def _add(self, calls: list[Row], results: list[Row]) -> None:
        from yarp.dataset import textindex  # with Arrow; most runs find nothing new

        try:
            if self._growing is None:
                self._growing = textindex.Growing.open(self._dataset)
            self._growing.add(_texts(calls, results))
        except StorageError:  # `finish` tries once more, and says so
            self._given_up = True
            self._let_go()

    def _let_go(self) -> None:
        if self._growing is not None:
            self._growing.close()
            self._growing = None


def _texts(calls: list[Row], results: list[Row]) -> Iterable[tuple[bytes, str, str]]:
    """Identity, key of the call, text: as `textindex` takes them from the tables."""
    for call in calls:
        named = f"{call[0]} {call[11].hex().upper()}"
        yield _md5(named), call[0], call[10]
    for result in results:
        parts = (part for part in result[4:6] if part is not None)
        yield _md5(result[0]), result[1], "\n".join(parts)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _md5(text: str) -> bytes:
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()
