"""Runs an importer over the roots of one agent and one Unix user.

Items that have not changed are passed over, the others are read and committed in groups. An item
that cannot be read keeps what it had. Source: seed 003, "Command line" and "Stable reads".
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import orjson
from attrs import define

from yarp.dataset import keys, settle
from yarp.dataset.rows import ImporterFault, ItemRows, issue_rows
from yarp.dataset.tables import Tables
from yarp.dataset.writer import Counts, Outcome, Writer, rejected
from yarp.errors import UsageError
from yarp.sources.facts import Issue, Rejected
from yarp.sources.importers import SourceItem
from yarp.sources.jsonl import JsonlFile, SourceChanged, Stat
from yarp.sources.sqlite import BESIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from yarp.dataset.database import Dataset
    from yarp.sources.importers import Importer

    Progress = Callable[[int, int], None]


@define(slots=True)
class Report:
    """What a run did: items found, passed over as unchanged, gone, and what was written."""

    run_key: str
    found: int
    unchanged: int
    vanished: int
    written: Counts


@define(slots=True)
class Known:
    """What the dataset knows of an item from its last reading."""

    relative_path: str
    adapter_version: int
    size_bytes: int
    imported_byte_count: int | None
    prefix_sha256: bytes | None
    status: str
    fingerprint: bytes | None
    surroundings: bytes | None


def check_roots(importer: Importer, roots: Mapping[str, str]) -> dict[str, str]:
    """The resolved roots by flag. UsageError: a root is missing, or is not what it should be."""
    found = {}
    for option in importer.options:
        path = roots.get(option.flag)
        if path is None:
            if option.required:
                raise UsageError(f"--{option.flag} is needed: {option.help}")
            continue
        real = os.path.realpath(path)
        fits = os.path.isdir(real) if option.kind == "directory" else os.path.isfile(real)
        if not fits:
            raise UsageError(f"--{option.flag}: {path} is no {option.kind} that can be read")
        found[option.flag] = real
    if not found:
        flags = ", ".join(f"--{option.flag}" for option in importer.options)
        raise UsageError(f"name at least one source: {flags}")
    return found


def extract(
    dataset: Dataset,
    importer: Importer,
    unix_user: str,
    roots: Mapping[str, str],
    progress: Progress = lambda _done, _all: None,
) -> Report:
    """Import what lies below `roots` (by option flag) as belonging to `unix_user`.

    `progress(done, all)` is told of items. Raises what keeps the run from going on; what was
    committed until then stays, and the next run goes on from there.
    """
    run = Run(dataset, unix_user, importer.agent)
    try:
        report = _Extraction(run, importer, check_roots(importer, roots), progress).run()
    except BaseException:
        run.end("failed")
        raise
    run.end("complete")
    return report


class Run:
    """A row of import_runs, and what all runs do: know roots and items, settle, end."""

    def __init__(self, dataset: Dataset, unix_user: str, agent: str) -> None:
        if not unix_user:
            raise UsageError("the Unix user must be named")
        self.dataset = dataset
        self.unix_user = unix_user
        self.agent = agent
        started = time.time_ns() // 1_000_000
        self.key = keys.run(unix_user, agent, started, os.getpid())
        with dataset.transaction() as connection:
            connection.execute(
                "INSERT INTO import_runs VALUES (?, ?, ?, ?, NULL, 'running')"
                " ON CONFLICT DO NOTHING",  # the same millisecond, in tests
                [self.key, unix_user, agent, started],
            )

    def end(self, status: str) -> None:
        """Say how the run ended."""
        with self.dataset.transaction() as connection:
            connection.execute(
                "UPDATE import_runs SET status = ?, finished_at_ms = greatest(started_at_ms, ?)"
                " WHERE run_key = ? AND status = 'running'",
                [status, time.time_ns() // 1_000_000, self.key],
            )

    def root(self, kind: str, path: str) -> str:
        """The key of a root, which is recorded if it is new."""
        path = shown(path)
        key = keys.source_root(self.unix_user, self.agent, kind, path)
        if not self.dataset.rows("SELECT 1 FROM source_roots WHERE source_root_key = ?", [key]):
            with self.dataset.transaction() as connection:
                connection.execute(
                    "INSERT INTO source_roots VALUES (?, ?, ?, ?, ?)",
                    [key, self.unix_user, self.agent, kind, path],
                )
        return key

    def known(self, root_keys: Iterable[str]) -> dict[str, Known]:
        """What is known of the items below these roots, by item key."""
        found = self.dataset.rows(
            "SELECT source_item_key, relative_path, adapter_version, size_bytes,"
            " imported_byte_count, prefix_sha256, status, fingerprint, surroundings"
            " FROM source_items LEFT JOIN private.checkpoints USING (source_item_key)"
            " WHERE list_contains(?, source_root_key)",
            [list(root_keys)],
        )
        return {row[0]: Known(*row[1:]) for row in found}

    def note(self, issues: Iterable[Issue]) -> None:
        """Record issues that belong to no item, in place of those of earlier runs."""
        rows = issue_rows(issues, self.key, None, (self.unix_user, self.agent))
        before = self.dataset.rows(
            "SELECT issue_key FROM import_issues JOIN import_runs USING (run_key)"
            " WHERE source_item_key IS NULL AND unix_user = ? AND agent = ?",
            [self.unix_user, self.agent],
        )
        if rows or before:
            with self.dataset.transaction() as connection:
                for (key,) in before:
                    connection.execute("DELETE FROM import_issues WHERE issue_key = ?", [key])
                Tables(connection).insert("import_issues", rows)

    def note_vanished(self, gone: Mapping[str, str], here: Iterable[str]) -> int:
        """Say of items (keys, with their paths) that they are gone; and of others no longer.

        Gives how many are newly gone.
        """
        found = self.dataset.rows(
            "SELECT source_item_key FROM import_issues WHERE code = 'source_vanished'"
        )
        told = {key for (key,) in found}
        new = sorted(set(gone) - told)
        back = told.intersection(here)
        if new or back:
            with self.dataset.transaction() as connection:
                for key in back:
                    connection.execute(
                        "DELETE FROM import_issues WHERE code = 'source_vanished'"
                        " AND source_item_key = ?",
                        [key],
                    )
                what = Issue("source_vanished", "the source is gone; what was imported stays")
                rows = [row for key in new for row in issue_rows([what], self.key, key, (key,))]
                Tables(connection).insert("import_issues", rows)
        return len(new)


class _Extraction:
    def __init__(
        self, run: Run, importer: Importer, roots: dict[str, str], progress: Progress
    ) -> None:
        self._run = run
        self._importer = importer
        self._roots = roots
        self._progress = progress
        self._root_keys: dict[tuple[str, str], str] = {}
        self._writer = Writer(run.dataset, run.key)

    def run(self) -> Report:
        for option in self._importer.options:
            if option.flag in self._roots:
                self._root_key(option.source_kind, self._roots[option.flag])
        issues, items = self._discover()
        known = self._run.known(set(self._root_keys.values()))
        unchanged = 0
        for done, (key, item) in enumerate(items.items()):
            self._progress(done, len(items))
            outcome = self._look(key, item, known.get(key))
            if outcome is None:
                unchanged += 1
            else:
                self._writer.add(outcome)
        self._writer.flush()
        self._progress(len(items), len(items))
        self._run.note(issues)
        vanished = 0
        if not any(issue.code == "unreadable" for issue in issues):
            gone = {key: one.relative_path for key, one in known.items() if key not in items}
            vanished = self._run.note_vanished(gone, items)
        self._settle(items)
        return Report(self._run.key, len(items), unchanged, vanished, self._writer.counts)

    def _discover(self) -> tuple[list[Issue], dict[str, SourceItem]]:
        """The issues, and the items in an order that depends on nothing but them."""
        issues, items = [], []
        for found in self._importer.discover(self._roots):
            if isinstance(found, Issue):
                issues.append(found)
            else:
                items.append(found)
        items.sort(key=lambda item: (item.kind, item.root, item.relative_path))
        return issues, {self._item_key(item): item for item in items}

    def _root_key(self, kind: str, path: str) -> str:
        key = self._root_keys.get((kind, path))
        if key is None:
            key = self._root_keys[kind, path] = self._run.root(kind, path)
        return key

    def _item_key(self, item: SourceItem) -> str:
        return keys.source_item(self._root_key(item.kind, item.root), shown(item.relative_path))

    def _settle(self, items: Mapping[str, SourceItem]) -> None:
        dataset = self._run.dataset
        if not settle.unsettled(dataset):
            return
        claims = settle.to_read_again(dataset)
        known = self._run.known(set(self._root_keys.values()))
        for key, calls in claims.items():
            if key in items and key in known:
                item = items[key]
                again = SourceItem(
                    item.kind,
                    item.root,
                    item.relative_path,
                    context=item.context,
                    companions=item.companions,
                    database=item.database,
                )
                outcome = self._read(key, again, known[key])
                outcome.again = True
                outcome.claims = calls
                self._writer.add(outcome)
        self._writer.flush()
        settle.settle(dataset, self._run.key)

    def _look(self, key: str, item: SourceItem, known: Known | None) -> Outcome | None:
        """What has become of an item; None where nothing has."""
        version = self._importer.adapter_version
        if known is None or known.adapter_version != version or known.fingerprint is None:
            return self._read(key, item, known)
        stats, surroundings = _state(item)
        if _fingerprint(stats, surroundings) == known.fingerprint:
            return None
        equal = (
            known.surroundings == surroundings
            and known.status != "rejected"
            and not item.database
            and stats[0] is not None
            and stats[0].size_bytes == known.size_bytes
            and known.prefix_sha256 is not None
            and known.imported_byte_count is not None
        )
        if equal:
            assert known.imported_byte_count is not None  # noqa: S101 - for the type checker
            stat = _same_content(item.path, known.imported_byte_count, known.prefix_sha256)
            if stat is not None:
                outcome = self._outcome(key, item, known)
                outcome.stat = stat
                outcome.status = known.status  # type: ignore[assignment]
                outcome.imported_byte_count = known.imported_byte_count
                outcome.prefix_sha256 = known.prefix_sha256
                outcome.fingerprint = _fingerprint((stat, *stats[1:]), surroundings)
                outcome.surroundings = surroundings
                return outcome
        return self._read(key, item, known)

    def _outcome(self, key: str, item: SourceItem, known: Known | None) -> Outcome:
        return Outcome(
            key,
            self._root_key(item.kind, item.root),
            shown(item.relative_path),
            self._importer.adapter_version,
            None,
            "complete",
            known=known is not None,
        )

    def _read(self, key: str, item: SourceItem, known: Known | None) -> Outcome:
        outcome = self._outcome(key, item, known)
        item.private_directory = self._run.dataset.directory
        if known is not None and not item.compressed:
            item.mark = known.imported_byte_count
        stats, outcome.surroundings = _state(item)
        outcome.stat = stats[0]
        rows = ItemRows(self._run.unix_user, self._importer.agent, key)
        try:
            for fact in self._importer.read(item):
                rows.add(fact)
            item.verify()
            self._take_state(outcome, item, stats)
            rows.finish(item.file.malformed if item.file is not None else ())
        except SourceChanged as changed:
            return rejected(outcome, changed.issue, lasting=False)
        except Rejected as refused:
            outcome.fingerprint = _fingerprint(stats, outcome.surroundings)
            return rejected(outcome, refused.issue, lasting=True)
        except ImporterFault as fault:
            outcome.fingerprint = _fingerprint(stats, outcome.surroundings)
            issue = Issue(
                "importer_fault", f"its importer gave what cannot be kept: {fault}", "error"
            )
            return rejected(outcome, issue, lasting=True)
        except OSError as error:
            issue = Issue("unreadable", f"the file cannot be read: {error.strerror}", "error")
            return rejected(outcome, issue, lasting=False)
        except Exception as error:  # noqa: BLE001 - whatever an importer raises is its own
            outcome.fingerprint = _fingerprint(stats, outcome.surroundings)
            what = f"its importer raised {type(error).__name__}"
            return rejected(outcome, Issue("importer_fault", what, "error"), lasting=True)
        finally:
            item.close()
        outcome.rows = rows
        outcome.issues = item.issues
        if known is not None and _was_reset(item, known):
            outcome.issues = [
                *item.issues,
                Issue("checkpoint_reset", "the file is not a continuation of what was imported"),
            ]
        return outcome

    def _take_state(
        self, outcome: Outcome, item: SourceItem, stats: tuple[Stat | None, ...]
    ) -> None:
        """Put the state that was read into the outcome. Raises `SourceChanged`."""
        file, snapshot = item.file, item.snapshot
        if file is not None:
            stats = (file.before, *stats[1:])
            outcome.imported_byte_count = file.complete_byte_count
            outcome.prefix_sha256 = file.prefix_sha256
            if file.waits:
                outcome.status = "deferred"
        if snapshot is not None:
            stats = (*snapshot.before, *stats[len(BESIDE) :])
        elif file is None and _state(item)[0] != stats:
            raise SourceChanged
        outcome.stat = stats[0]
        outcome.fingerprint = _fingerprint(stats, outcome.surroundings)


def shown(path: str) -> str:
    """A path as the dataset keeps it: bytes that are no UTF-8 as backslash escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _state(item: SourceItem) -> tuple[tuple[Stat | None, ...], bytes]:
    """The states of the item's own files, and a digest of what else decides its reading."""
    suffixes = BESIDE if item.database else ("",)
    stats = tuple(_stat(item.path + suffix) for suffix in suffixes)
    around = [_stat(path) for path in item.companions]
    context = orjson.dumps(item.context, option=orjson.OPT_SORT_KEYS, default=repr)
    return stats, keys.digest(context, *(repr(each) for each in around))


def _stat(path: str) -> Stat | None:
    try:
        return Stat.of(os.lstat(path))
    except OSError:
        return None


def _fingerprint(stats: tuple[Stat | None, ...], surroundings: bytes) -> bytes:
    return keys.digest(surroundings, *(_stat_bytes(each) for each in stats))


def _stat_bytes(stat: Stat | None) -> bytes | None:
    if stat is None:
        return None
    values = (stat.device_id, stat.inode, stat.size_bytes, stat.mtime_ns, stat.ctime_ns)
    return keys.encode(str(value) for value in values)


def _same_content(path: str, byte_count: int, sha256: bytes | None) -> Stat | None:
    """The state of a file whose first bytes are still the same, or None."""
    try:
        with JsonlFile(path) as file:
            if file.digest_of(byte_count) != sha256:
                return None
            file.require_unchanged()
            return file.before
    except (OSError, SourceChanged):
        return None


def _was_reset(item: SourceItem, known: Known) -> bool:
    """Whether what was imported before is no longer the beginning of the file."""
    if item.file is None or known.imported_byte_count is None or known.prefix_sha256 is None:
        return False
    if item.compressed:
        return item.file.prefix_sha256 != known.prefix_sha256
    return item.file.marks.get(known.imported_byte_count) != known.prefix_sha256
