"""Opens the dataset: one DuckDB file in a private directory, for one writer or many readers.

DuckDB may reach nothing but that directory: no network, no extensions, no other files. A writer
holds `<database>.lock`; readers need no lock of ours, and are told when a writer is at work.
Source: seed 003, "Size and privacy controls".
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from yarp import paths
from yarp.dataset import rowgroups
from yarp.dataset.indexing import pays
from yarp.dataset.ownfiles import narrow_own_files
from yarp.dataset.temporary import TemporaryDirectory
from yarp.errors import DataError, StorageError
from yarp.sources.held import remove_leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

VERSION = 1
MOST_BYTES = 10_000_000_000
"""Files below the data directory stay below this. Source: seed 003, Outcome."""

NEEDS = "the dataset needs DuckDB and PyArrow: pip install 'yarp-core[dataset]'"
SCHEMA_FILES = ("001_dataset.sql", "002_private.sql", "003_views.sql", "004_indexes.sql")
# An import of 200 MB takes 340 MB then; 224 MB made it no faster. Indexes need a part of the file's
# size, and so much a row at most.
_MEMORY_BYTES = 160 << 20
_MEMORY_BYTES_BESIDE_INDEX = 96 << 20
_MEMORY_BYTES_TO_READ = 128 << 20  # texts of 24 MiB at a time, and what their copies take
_INDEX_ROW_BYTES = 1536
_READ_TOGETHER = 2  # by as many threads, or by one that copies them
_MOST_MEMORY_BYTES = 4 << 30
_FAT_ROW_BYTES = 16 << 10
_ROWS_OF_A_RESULT = 6  # itself, its call, their observations and links
_VECTOR_ROWS = 2048
_READING_MEMORY_BYTES = 512 << 20  # a second search finds what the first one read
_CHECKPOINT = "1GB"  # one checkpoint at the end: writing the log twice costs less than many
_MOST_TEMPORARY_BYTES = 2 << 30
_SLACK_BYTES = 1 << 20
_HELD = "held_outputs"
_OUTPUTS = "SELECT call_key, output_text, output_json FROM tool_results"
# More than any table has: the index is made anew where rows of a whole group were deleted.
_REBUILT_ROWS = 1 << 40
# What DuckDB says of a file that it can read and that is none of its own, whole ones.
_DAMAGED = ("Corrupt database file", "not a valid DuckDB", "Could not read enough bytes")


class DatasetUnknown(DataError):
    """There is no dataset at that place yet."""


class SizeLimitReached(StorageError):
    """The next batch could make the dataset's files cross their limit; nothing was written."""


def default_path() -> str:
    """`toolcalls.duckdb` in the data directory that belongs to the extractor alone."""
    # Beside YARP's own: $XDG_DATA_HOME, or ~/.local/share.
    share = os.path.dirname(paths.data_dir())
    return os.path.join(share, "toolcall-extractor", "toolcalls.duckdb")


def existing(path: str | None = None) -> str:
    """The real path of a dataset that is there. Raises `DatasetUnknown`."""
    path = os.path.realpath(path or default_path())
    if not os.path.exists(path) or not os.path.getsize(path):
        raise DatasetUnknown(f"{path}: there is no dataset yet; yarp dataset extract makes it")
    return path


class Dataset:
    """The dataset, open. `connection` is DuckDB's; `close()` it, or use `with`.

    `texts`: the table from which outputs are read the fastest.
    """

    def __init__(self, path: str, connection: duckdb.DuckDBPyConnection, lock: int | None) -> None:
        self.path = path
        self.directory = os.path.dirname(path)
        self.connection = connection
        self.most_bytes = MOST_BYTES
        self._rows = 0
        self._memory = 0
        self._most_temporary = _MOST_TEMPORARY_BYTES
        self._temporary: TemporaryDirectory | None = None
        self._filling: rowgroups.Filling | None = None
        self._has_short_groups: bool | None = None  # nobody has looked
        self._lock = lock
        self._umask: int | None = None
        self.texts = "tool_results"

    @classmethod
    def read(cls, path: str | None = None) -> Dataset:
        """Open it to read. Raises `DatasetUnknown`, and StorageError while a writer has it."""
        path = existing(path)
        temporary = TemporaryDirectory(path)
        try:
            dataset = cls(path, _connect(path, temporary, readonly=True), None)
        except BaseException:
            temporary.remove()
            raise
        dataset._temporary = temporary
        try:
            require_version(dataset.connection, path)
        except BaseException:
            dataset.close()
            raise
        return dataset

    @classmethod
    def write(cls, path: str | None = None) -> Dataset:
        """Open it to write, and make it if need be. Only one process can at a time.

        The directory of `path` must be private (0700); the default one is made so. Runs that
        ended without saying so are marked as failed.
        """
        is_default = path is None
        path = os.path.realpath(path or default_path())  # of which lock and index are
        directory = os.path.dirname(path)
        umask = os.umask(0o077)  # until it is closed: DuckDB makes files of its own all the time
        lock: int | None = None
        temporary: TemporaryDirectory | None = None
        try:
            paths.make_private_dir(directory)
            paths.require_private(directory, directory=True, narrow=is_default)
            lock = _lock(path)
            remove_leftovers(directory)
            narrow_own_files(path)
            if os.path.exists(path) and not os.path.getsize(path):
                os.unlink(path)  # what an interrupted first run leaves, or `touch`
            temporary = TemporaryDirectory(path)
            dataset = cls(path, _connect(path, temporary), lock)
        except BaseException:
            if temporary is not None:
                temporary.remove()
            if lock is not None:
                os.close(lock)
            os.umask(umask)
            raise
        dataset._umask, dataset._temporary = umask, temporary
        try:
            dataset._prepare()
        except BaseException:
            dataset.close()
            raise
        return dataset

    def __enter__(self) -> Dataset:  # noqa: PYI034 - no class is derived from this
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_written(self) -> bool:
        """Whether it is open to be written."""
        return self._lock is not None

    def hold_texts(self) -> None:
        """Take the outputs into memory: from its file DuckDB copies each one that it looks into."""
        if not self.is_written and self.texts != _HELD:
            self.rows(f"CREATE TEMP TABLE {_HELD} AS {_OUTPUTS}")
            self.texts = _HELD

    def close(self) -> None:
        """Close it; what was committed is in the file then, or in a short log beside it."""
        try:
            with told(self.path):
                if self.is_written and self._leaves_its_log():
                    self.connection.execute("PRAGMA disable_checkpoint_on_shutdown")
                self.connection.close()
        finally:
            if self._temporary is not None:
                self._temporary.remove()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
            if self._umask is not None:
                os.umask(self._umask)
                self._umask = None

    def _leaves_its_log(self) -> bool:
        size = _size(f"{self.path}.wal")
        if self._has_short_groups is None and size < rowgroups.SHORT_LOG_BYTES:
            return True
        self._look_at_groups()
        return bool(self._has_short_groups) and size < rowgroups.MOST_LEFT_BYTES

    def _look_at_groups(self) -> None:
        """Before rows are written, or row groups: whether some are to be kept short."""
        if self._has_short_groups is None:
            self._has_short_groups = _has_short_groups(self.connection, self.path)
            if self._has_short_groups:
                self._set_memory(self._needed_memory(_size(self.path)))
                rowgroups.keep_short(self.connection)

    def rows(self, statement: str, values: object = None) -> list[tuple[Any, ...]]:
        """All rows that a statement gives."""
        with told(self.path):
            return self.connection.execute(statement, values).fetchall()

    def row(self, statement: str, values: object = None) -> tuple[Any, ...]:
        """The one row that a statement gives."""
        return self.rows(statement, values)[0]

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All or nothing. DuckDB's own errors pass, for whoever can tell what was wrong."""
        self.connection.execute("BEGIN TRANSACTION")
        try:
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            _rollback(self.connection)
            raise

    def divide(self, byte_count: int, rows: int) -> None:
        """End row groups where the next `rows`, of so many bytes, would make them too large.

        Before a transaction; `rows` is that of the table that gets most.
        """
        with told(self.path):
            self._look_at_groups()
            if self._filling is None:
                self._filling = rowgroups.Filling.of(self.connection)
            if self._filling.add(rows, byte_count) and rowgroups.can_end():
                self._has_short_groups = True
                rowgroups.keep_short(self.connection)
                self.connection.execute("CHECKPOINT")

    def require_room(self, byte_count: int, row_count: int) -> None:
        """Make sure that a batch of this size cannot make the files cross their limit.

        Counted are all files of the directory and a generous bound for the batch: twice its
        bytes, since they stand in the log and in the file for a while, and 1 KiB a row. What
        DuckDB may put into temporary files is what is left then.
        """
        used = self.require_space(byte_count, row_count)
        self._rows += row_count
        if self._lock is None:
            return
        fat_bytes = byte_count if byte_count > _FAT_ROW_BYTES * row_count else 0
        needed = self._needed_memory(used, fat_bytes)
        if not self._memory // 2 < needed <= 5 * self._memory // 4:
            self._set_memory(needed)
        temporary = self._temporary.size_bytes() if self._temporary is not None else 0
        left = self.most_bytes - used + temporary - _bound(byte_count, row_count)
        most = min(_MOST_TEMPORARY_BYTES, left)
        if most != self._most_temporary:
            self._set_most_temporary(most)

    def require_space(self, byte_count: int, row_count: int) -> int:
        """The same for a batch of another connection's; gives the size of the files."""
        bound = _bound(byte_count, row_count)
        used = self.used_bytes()
        if used + bound > self.most_bytes:
            raise SizeLimitReached(
                f"{self.directory} holds {used} bytes; the next batch of up to {bound} could cross "
                f"{self.most_bytes}. What was imported stays; free room there, then run this again"
            )
        return used

    def temporary_room(self, name: str) -> tuple[str, int]:
        """A place for temporary files of another connection, and what they may take.

        Where nobody can write, the place is "".
        """
        place = self._temporary and self._temporary.beneath(name)
        return place or "", max(0, self.most_bytes - self.used_bytes())

    def used_bytes(self) -> int:
        """The size of all files below the data directory."""
        return sum(_size(path) for path in _files_in(self.directory))

    def _needed_memory(self, used: int, fat_bytes: int = 0) -> int:
        indexes = min(used // 2, _INDEX_ROW_BYTES * self._rows)
        # In the table, and twice on their way into the log.
        texts = 3 * fat_bytes
        if fat_bytes and not rowgroups.can_end():
            texts += used
        if self._has_short_groups:
            texts = max(texts, _READ_TOGETHER * rowgroups.MOST_BYTES)
        least = _MEMORY_BYTES_BESIDE_INDEX if pays(self.path) else _MEMORY_BYTES
        return min(least + indexes + texts, _MOST_MEMORY_BYTES)

    def _set_memory(self, byte_count: int) -> None:
        self.connection.execute(f"SET memory_limit = '{byte_count}B'")
        self._memory = byte_count

    def let_go(self) -> None:
        """Keep no more in memory than it takes to read, until more is written."""
        from yarp.dataset.engine import duckdb

        if self.is_written:
            with suppress(duckdb.OutOfMemoryException):  # it cannot let go of so much
                self._set_memory(min(self._memory, _MEMORY_BYTES_TO_READ))

    def take_more(self) -> bool:
        """Take as much memory as there may be, where that is more: some texts are very long."""
        more = self.is_written and self._memory < _MOST_MEMORY_BYTES
        if more:
            self._set_memory(_MOST_MEMORY_BYTES)
        return more

    def _set_most_temporary(self, byte_count: int) -> None:
        self._most_temporary = byte_count
        self.connection.execute(f"SET max_temp_directory_size = '{byte_count}B'")

    def _prepare(self) -> None:
        tables = self.rows("SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'main'")
        if tables == [(0,)]:
            self.require_room(0, 0)
            with told(self.path), self.transaction() as connection:
                for name in SCHEMA_FILES:
                    connection.execute(schema_text(name))
                connection.execute("INSERT INTO schema_info VALUES (?)", [VERSION])
        require_version(self.connection, self.path)
        (results,) = self.row("SELECT count(*) FROM tool_results")
        self._rows = _ROWS_OF_A_RESULT * results
        size = _size(self.path)
        with told(self.path):
            self._set_memory(self._needed_memory(size))
            if size <= rowgroups.MOST_BYTES:
                self._look_at_groups()
        os.chmod(self.path, 0o600)
        with told(self.path):
            self.connection.execute(
                "UPDATE import_runs SET status = 'failed', finished_at_ms = greatest("
                "started_at_ms, epoch_ms(now())) WHERE status = 'running'"
            )


def schema_text(name: str) -> str:
    """One of the schema's files."""
    from importlib.resources import files  # for a new dataset alone

    return files("yarp.dataset").joinpath("schema", name).read_text(encoding="utf-8")


def require_version(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Make sure that the tables are those that this YARP knows. Raises DataError."""
    from yarp.dataset.engine import duckdb

    with told(path):
        try:
            found = connection.execute("SELECT max(version) FROM schema_info").fetchall()[0][0]
        except duckdb.CatalogException:
            found = None
    if found != VERSION:
        version = "no version" if found is None else f"version {found}"
        what = f"its schema has {version}, and this YARP reads version {VERSION}"
        raise DataError(f"{path} is no dataset of this YARP: {what}")


def _connect(
    path: str, temporary: TemporaryDirectory, *, readonly: bool = False
) -> duckdb.DuckDBPyConnection:
    try:
        from yarp.dataset.engine import duckdb
    except ImportError:
        raise StorageError(NEEDS) from None
    directory = temporary.path
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
        "checkpoint_threshold": _CHECKPOINT,
        "memory_limit": f"{_READING_MEMORY_BYTES}B",
        # Several threads copy what is inserted once more than one does.
        "threads": str(min(4, os.cpu_count() or 1) if readonly else 1),
        "temp_directory": directory or "",
        "max_temp_directory_size": f"{_MOST_TEMPORARY_BYTES if directory else 0}B",
    }
    with told(path):
        connection = duckdb.connect(":memory:", config=config)
        try:
            _attach(connection, path, readonly=readonly)
            connection.execute("USE dataset")
            connection.execute("SET enable_progress_bar = false")  # a shell of Python would have it
            # A third of the room, and then no line is read without 2,047 rows around it.
            connection.execute("SET disabled_compression_methods = 'zstd'")
            connection.execute("SET enable_external_access = false")
            if readonly:  # a writer's memory grows with the file
                if _has_short_groups(connection, path):
                    rowgroups.keep_short(connection)
                connection.execute(f"SET memory_limit = '{reading_memory(connection, path)}B'")
                connection.execute("SET lock_configuration = true")
        except BaseException:
            connection.close()
            raise
    return connection


def _has_short_groups(connection: duckdb.DuckDBPyConnection, path: str) -> bool:
    from yarp.dataset.engine import duckdb

    with suppress(duckdb.Error):  # no dataset; whoever reads it is told
        return _size(path) > rowgroups.MOST_BYTES and rowgroups.has_short(connection)
    return False


def _attach(connection: duckdb.DuckDBPyConnection, path: str, *, readonly: bool) -> None:
    options = "READ_ONLY" if readonly else f"ROW_GROUP_SIZE {rowgroups.GROUP_ROWS}"
    if not readonly and rowgroups.can_end():
        # Else rows of a file of before 2.0 begin none before the last one is full.
        options += f", VACUUM_REBUILD_INDEXES {_REBUILT_ROWS}"
    quoted = path.replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS dataset ({options})")


@contextmanager
def told(path: str) -> Iterator[None]:
    """Around the use of a dataset: DuckDB's errors in our own words, which hold no content."""
    from yarp.dataset.engine import duckdb

    damaged = f"{path} is damaged, or no dataset"
    try:
        yield
    except (duckdb.IOException, duckdb.FatalException) as error:
        if any(each in str(error) for each in _DAMAGED):
            raise DataError(damaged) from None
        if isinstance(error, duckdb.FatalException):
            raise _stopped(path, error) from None
        if "set lock on file" in str(error):
            raise StorageError(f"{path} is in use by another process; try again later") from None
        raise StorageError(
            f"{path} cannot be read or written, or its disk is full; what was committed stays"
        ) from None
    except (duckdb.OutOfMemoryException, duckdb.TransactionException) as error:
        raise _stopped(path, error) from None
    except RuntimeError as error:  # what DuckDB makes of an interrupt
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        kind = type(error).__name__
        raise DataError(damaged if kind == "Error" else f"{damaged}: {kind}") from None


def _stopped(path: str, error: Exception) -> StorageError:
    return StorageError(
        f"{path}: DuckDB had to stop ({type(error).__name__}): its disk or its memory is full; "
        "what was committed stays"
    )


def _rollback(connection: duckdb.DuckDBPyConnection) -> None:
    from yarp.dataset.engine import duckdb

    with suppress(duckdb.Error):  # it is rolled back already
        connection.execute("ROLLBACK")


def _lock(path: str) -> int:
    place = f"{path}.lock"
    try:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{place} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StorageError(f"{path} is being written by another process; try again later") from None
    return lock


def _files_in(directory: str) -> Iterator[str]:
    for place, _, names in os.walk(directory):
        for name in names:
            yield os.path.join(place, name)


def reading_memory(connection: duckdb.DuckDBPyConnection, path: str) -> int:
    """Enough for what DuckDB reads at a time: 2,048 rows, for each of its threads."""
    from yarp.dataset.engine import duckdb

    try:
        results = int(connection.execute("SELECT count(*) FROM tool_results").fetchall()[0][0])
    except duckdb.Error:  # no dataset; whoever reads it is told
        return _READING_MEMORY_BYTES
    rows = min(_VECTOR_ROWS, results)
    vectors = 4 * rows * (_size(path) // max(1, results))
    return max(_READING_MEMORY_BYTES, min(vectors, _MOST_MEMORY_BYTES))


def _bound(byte_count: int, row_count: int) -> int:
    """What a batch may take for a while."""
    return 2 * byte_count + 1024 * row_count + _SLACK_BYTES


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:  # not there yet, or a temporary file that is gone
        return 0
