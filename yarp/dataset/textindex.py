"""The text index: a private file beside the database that says which calls a needle may be in.

It lists the words of every input and every result (`yarp.dataset.words`). What stands inside of
one word it finds by itself; anything else it narrows to the texts that have to be read. It
carries the stamp of the rows that it was made from; where that is not the dataset's, it is not
used before it has been brought up to date. It is a DuckDB file as well, so an update that is cut
short leaves whole steps of it, and the next one goes on. Source: spec Dataset, "Beyond"; how it
was chosen: docs/explanation/text-index.md.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from yarp.dataset import indexfile, words
from yarp.dataset.ownfiles import index_of
from yarp.dataset.wordlist import FiledWords, HeldWords, Narrowed
from yarp.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import Any

    from duckdb import DuckDBPyConnection

    from yarp.dataset.database import Dataset

# Larger segments share more words, and take more memory.
_SEGMENT_BYTES = 4 << 20
# The index of a text takes a tenth of its bytes; a quarter is reserved for it.
_INDEX_SHARE = 4
# Of a word in one text: its length and the number of that text.
_PLACE_BYTES = 8
_FETCHED_ROWS = 256
_FETCHED_BYTES = 4 << 20
# Encoded at a time; four bytes each at most.
_PIECE_CHARACTERS = 1 << 20
# Texts that no longer stand in the dataset make it larger than it need be.
_GONE_SHARE = 4
# The longest words of a needle narrow most, and each takes a look at all words.
_WORDS_ASKED = 2
# So much text is read as fast as it is narrowed for a needle of several words, or for a letter.
_SMALL_BYTES = 256 << 20
_SHORT_CHARACTERS = 2
_CORRUPT = "Corrupt database file"  # so DuckDB begins to say that a block is damaged
_MOST_HELD_BYTES = 1 << 30  # of texts; in memory their index takes a third of it
# Choosing this share of the calls takes longer than to read them all.
_MANY_SHARE = 5

_STAMP = """
SELECT concat_ws(' ', (SELECT concat(count(*), ':', bit_xor(hash(call_key, input_sha256)))
                       FROM tool_calls),
                      (SELECT concat(count(*), ':', bit_xor(hash(result_key))) FROM tool_results))
"""
# Each input and each result is a text of its own. Without a join: one would hold them in memory.
_TEXTS = """(
    SELECT unhex(md5(concat_ws(' ', call_key, hex(input_sha256)))) AS identity, call_key,
           input_text AS text FROM tool_calls
    UNION ALL
    SELECT unhex(md5(result_key)), call_key, concat_ws(chr(10), output_text, output_json)
    FROM tool_results
)"""
_ADD_WORDS = "INSERT INTO words SELECT word, texts FROM listed"
_ADD_TEXTS = "INSERT INTO texts SELECT text, identity, call_key, always FROM segment"


@attrs.frozen
class Update:
    """What an update did: texts read and dropped, and the bytes of those read."""

    added: int = 0
    dropped: int = 0
    text_bytes: int = 0


def stamp_of(dataset: DuckDBPyConnection) -> str:
    """What tells one state of the dataset's texts from another."""
    return str(_one(dataset, _STAMP))


def update(
    dataset: Dataset,
    progress: Callable[[int], None] | None = None,
    growing: Growing | None = None,
) -> Update:
    """Bring the index of a dataset up to date; made anew when it must be.

    At once when nothing has changed. `progress` is told how many bytes of text are done.
    `growing`: the index, open already; it is closed. Raises StorageError when the file cannot
    be written or another process writes it, and SizeLimitReached where there is no room for it.
    """
    import duckdb

    anew = False
    dataset.let_go()
    while True:
        growing = growing or Growing.open(dataset)
        with _told(dataset.path), closing(growing):
            try:
                return _update(dataset, growing, progress)
            except duckdb.OutOfMemoryException:
                if not dataset.take_more():
                    raise
                growing = None
                continue
            except duckdb.Error as error:
                if anew or _CORRUPT not in str(error):
                    raise
        indexfile.forget(dataset.path)
        growing, anew = None, True


def _update(dataset: Dataset, growing: Growing, progress: Callable[[int], None] | None) -> Update:
    index = growing.connection
    stamp = stamp_of(dataset.connection)
    if _one(index, "SELECT stamp FROM info") == stamp:
        return Update()
    index.execute("BEGIN")
    # Until it is whole it is of no state of the dataset.
    index.execute("UPDATE info SET stamp = ''")
    added, dropped = _changes(dataset.connection, index)
    if dropped * _GONE_SHARE > int(_one(index, "SELECT count(*) FROM texts")):
        index.execute("DELETE FROM texts; DELETE FROM words; UPDATE info SET text_bytes = 0")
        added = _identities(dataset.connection)
    elif dropped:
        index.execute("DELETE FROM texts WHERE identity IN (SELECT identity FROM gone)")
    index.execute("COMMIT")
    with closing(_texts(dataset.connection, added)) as texts:
        size = growing.list_words(texts, progress)
    index.execute("UPDATE info SET stamp = ?", [stamp])
    index.execute("CHECKPOINT")
    return Update(added.num_rows, dropped, size)


class Growing:
    """The index of a dataset, open to list further texts."""

    def __init__(self, dataset: Dataset, connection: DuckDBPyConnection) -> None:
        self.connection = connection
        self._dataset = dataset
        self._umask: int | None = None

    @classmethod
    def open(cls, dataset: Dataset) -> Growing:
        """The index, made if there is none that can be used. Raises StorageError."""
        pa.system_memory_pool().release_unused()  # and what an import has freed
        umask = os.umask(0o077)  # until it is closed, as of a dataset
        try:
            with _told(dataset.path):
                place, room = dataset.temporary_room("text")
                growing = cls(dataset, indexfile.to_write(dataset.path, place, room))
        except BaseException:
            os.umask(umask)
            raise
        growing._umask = umask
        return growing

    def close(self) -> None:
        """Let the file go; what was added is in it."""
        try:
            self.connection.close()
        finally:
            if self._umask is not None:
                os.umask(self._umask)
                self._umask = None

    def add(
        self,
        texts: Iterable[tuple[bytes, str, str]],
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """List the words of texts, each with its identity and its call; how many bytes they have.

        Until `update` the index is of no state of the dataset. Uses none of the dataset's
        connection. Raises StorageError.
        """
        with _told(self._dataset.path):
            return self.list_words(texts, progress)

    def list_words(
        self,
        texts: Iterable[tuple[bytes, str, str]],
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """The same, with DuckDB's own errors."""
        index = self.connection
        done, number = 0, int(_one(index, "SELECT texts FROM info"))
        always = False  # what the last segment's text, which goes on in this one, has come to
        for segment in _segments(texts, number):
            always = segment.find_words(always=always)
            self._dataset.require_space((done + segment.size) // _INDEX_SHARE, segment.rows)
            for name, table in segment.tables.items():
                index.register(name, table)
            index.execute("BEGIN")
            index.execute(_ADD_WORDS)
            index.execute(_ADD_TEXTS)
            # Also the number of a text that is not whole yet: after a crash it is nobody's.
            number = segment.first + segment.rows
            done += segment.size
            index.execute(
                "UPDATE info SET stamp = '', texts = ?, text_bytes = text_bytes + ?",
                [number, segment.size],
            )
            # All of them in one commit would take 90 MB more; cut short, the next update goes on.
            index.execute("COMMIT")
            for name in segment.tables:
                index.unregister(name)
            segment.tables.clear()
            # Else what was freed stays with the process, beside what it takes next.
            pa.system_memory_pool().release_unused()
            if progress is not None:
                progress(done)
        return done


@contextmanager
def _told(database: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError) as error:
        place = index_of(database)
        raise StorageError(f"{place} cannot be written: {type(error).__name__}") from error


class TextIndex:
    """An index open for reading."""

    def __init__(self, connection: DuckDBPyConnection, database: str) -> None:
        self._connection = connection
        self._database = database
        always = connection.sql("SELECT DISTINCT call_key FROM texts WHERE always")
        self._always = always.to_arrow_table()
        self._calls = int(_one(connection, "SELECT count(DISTINCT call_key) FROM texts"))
        self._stamp = _one(connection, "SELECT stamp FROM info")
        self._text_bytes = int(_one(connection, "SELECT text_bytes FROM info"))
        self._words: FiledWords | HeldWords = FiledWords(connection)
        self._current: Dataset | None = None

    @classmethod
    def open(cls, database: str) -> TextIndex | None:
        """The index of a database; None when there is none that can be read."""
        import duckdb

        connection = indexfile.to_read(database)
        if connection is None:
            return None
        try:
            return cls(connection, database)
        except duckdb.Error:  # damaged; to be made anew
            connection.close()
            indexfile.forget(database)
            return None

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def hold(self) -> bool:
        """Take the words into memory, unless they are too many.

        False: the index is damaged, and is removed to be made anew.
        """
        import duckdb

        try:
            if self._text_bytes <= _MOST_HELD_BYTES:
                self._words = HeldWords(self._connection)
        except duckdb.Error:
            self._give_up()
            return False
        return True

    def is_current(self, dataset: Dataset) -> bool:
        """Whether it was made from the rows that the dataset has now."""
        # Nobody writes what is open to be read.
        if dataset.is_written or self._current is not dataset:
            fits = self._stamp == stamp_of(dataset.connection)
            self._current = dataset if fits else None
        return self._current is dataset

    def narrow(self, needle: str, *, ignore_case: bool = False) -> Narrowed | None:
        """The calls in which the needle can stand; None: reading all texts takes no longer.

        None as well where the index is damaged; it is removed then, to be made anew.
        """
        import duckdb

        wanted = words.parts(needle)
        if not wanted:
            return None
        telling = wanted[0].word == needle and len(needle) > _SHORT_CHARACTERS
        if not telling and self._text_bytes < _SMALL_BYTES:
            return None
        asked = sorted(wanted, key=lambda one: len(one.word))[-_WORDS_ASKED:]
        try:
            found = self._words.calls(asked, ignore_case=ignore_case)
        except duckdb.Error:
            self._give_up()
            return None
        if wanted[0].word == needle:  # what stands inside of one word is all that was asked for
            return Narrowed(found, self._always)
        if found.num_rows * _MANY_SHARE > self._calls:
            return None
        return Narrowed(found.slice(0, 0), pa.concat_tables([found, self._always]))

    def _give_up(self) -> None:
        self._stamp = self._current = None
        indexfile.forget(self._database)


def _changes(dataset: DuckDBPyConnection, index: DuckDBPyConnection) -> tuple[pa.Table, int]:
    """The identities that the index does not have; and how many it has too many, left in `gone`."""
    index.register("current", _identities(dataset))
    new = index.sql("SELECT identity FROM current ANTI JOIN texts USING (identity)")
    added = new.to_arrow_table()
    index.execute(
        "CREATE OR REPLACE TEMP TABLE gone AS "
        "SELECT identity FROM texts ANTI JOIN current USING (identity)"
    )
    index.unregister("current")
    return added, int(_one(index, "SELECT count(*) FROM gone"))


def _identities(dataset: DuckDBPyConnection) -> pa.Table:
    return dataset.sql(f"SELECT identity FROM {_TEXTS}").to_arrow_table()


@attrs.define
class _Segment:
    """Some texts, blanked, with what is known of them; `tables` once their words are found.

    Of a long text it holds a piece: `continues` says that the first text began in the segment
    before, and `goes_on` that the last one ends in another.
    """

    first: int
    identities: list[bytes] = attrs.field(factory=list)
    call_keys: list[str] = attrs.field(factory=list)
    blanked: list[bytes] = attrs.field(factory=list)
    size: int = 0
    continues: bool = False
    goes_on: bool = False
    tables: dict[str, pa.Table] = attrs.field(factory=dict)

    @property
    def rows(self) -> int:
        return len(self.identities)

    def find_words(self, *, always: bool = False) -> bool:
        """Fill `tables`; the texts are let go.

        `always`: the text that continues has to be read always. Gives whether one that goes on has.
        """
        listed, too_long = words.listed(self.blanked, self.first)
        self.blanked.clear()
        if self.continues and always:
            too_long.add(self.first)
        if self.rows == 1 and (self.continues or self.goes_on) and self._is_dense(listed):
            listed, too_long = listed.slice(0, 0), {self.first}
        numbers = range(self.first, self.first + self.rows)
        rows = {
            "text": pa.array(numbers, pa.uint32()),
            "identity": self.identities,
            "call_key": self.call_keys,
            "always": [number in too_long for number in numbers],
        }
        whole = self.rows - self.goes_on
        self.tables = {"listed": listed, "segment": pa.table(rows).slice(0, whole)}
        return self.goes_on and numbers[-1] in too_long

    def _is_dense(self, listed: pa.Table) -> bool:
        """Whether a list of the words would take more than its share of a piece's bytes."""
        listed_bytes = int(listed["word"].nbytes) + _PLACE_BYTES * len(listed)
        return _INDEX_SHARE * listed_bytes > self.size


def _texts(
    dataset: DuckDBPyConnection, added: pa.Table
) -> Generator[tuple[bytes, str, str], None, None]:
    """The texts of these identities."""
    import duckdb

    if not added.num_rows:
        return
    dataset.register("added", added)
    try:
        found = dataset.execute(f"FROM {_TEXTS} WHERE identity IN (SELECT identity FROM added)")
        count = 1
        while rows := found.fetchmany(count):
            yield from rows
            size = sum(len(text) for _, _, text in rows)
            count = max(1, min(_FETCHED_ROWS, 2 * count, _FETCHED_BYTES * count // max(1, size)))
    finally:
        # Not where the rest of them is still to come: it is taken away with the connection.
        with suppress(duckdb.Error):
            dataset.unregister("added")


def _segments(texts: Iterable[tuple[bytes, str, str]], first: int) -> Iterator[_Segment]:
    segment = _Segment(first)
    for identity, call_key, text in texts:
        for piece in _pieces(text):
            if segment.size >= _SEGMENT_BYTES:
                yield segment
                going_on = segment.goes_on
                segment = _Segment(segment.first + segment.rows - going_on, continues=going_on)
                if going_on:
                    segment.identities, segment.call_keys = [identity], [call_key]
                    segment.blanked, segment.goes_on = [b""], True
            if segment.goes_on:
                segment.blanked[-1] += piece
            else:
                segment.identities.append(identity)
                segment.call_keys.append(call_key)
                segment.blanked.append(piece)
            segment.size += len(piece)
            segment.goes_on = True
        segment.goes_on = False
    if segment.rows:
        yield segment


def _pieces(text: str) -> Iterator[bytes]:
    """The text, blanked, in pieces that end between words; also in what is too long for a word."""
    left = b""
    for at in range(0, max(1, len(text)), _PIECE_CHARACTERS):
        piece = left + words.blanked(text[at : at + _PIECE_CHARACTERS].encode())
        end = piece.rfind(b" ") + 1 if at + _PIECE_CHARACTERS < len(text) else len(piece)
        if not end and len(piece) > words.LONGEST_WORD_BYTES:
            end = len(piece)
        left = piece[end:]
        if end or not text:
            yield piece[:end]


def _one(connection: DuckDBPyConnection, query: str) -> Any:
    return connection.execute(query).fetchall()[0][0]
