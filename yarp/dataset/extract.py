"""Runs an importer over the roots of one agent and one Unix user.

Items that have not changed are passed over, the others are read and committed in groups. An item
that cannot be read keeps what it had. Source: seed 003, "Command line" and "Stable reads".
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import define

from yarp.dataset import keys, settle
from yarp.dataset.database import told
from yarp.dataset.outcome import Outcome
from yarp.dataset.places import places
from yarp.dataset.reading import discovered, fingerprint, read, same_content, state
from yarp.dataset.rows import ItemRows
from yarp.dataset.run import Report, Run
from yarp.dataset.writer import Writer
from yarp.errors import UsageError
from yarp.sources.beneath import shown
from yarp.sources.facts import Issue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future

    from yarp.dataset.database import Dataset
    from yarp.dataset.indexing import Indexing
    from yarp.dataset.run import Known
    from yarp.sources.importers import Importer, SourceItem
    from yarp.sources.jsonl import Stat

    Progress = Callable[[int, int], None]

_MOST_ROUNDS = 4
_READERS = 2  # of files that were touched: hashing leaves the interpreter to others


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
        is_directory = option.kind == "directory"
        fits = os.path.isdir(real) if is_directory else os.path.isfile(real)
        if not fits or not os.access(real, os.R_OK | os.X_OK if is_directory else os.R_OK):
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
    indexing: Indexing | None = None,
) -> Report:
    """Import what lies below `roots` (by option flag) as belonging to `unix_user`.

    `progress(done, all)` is told of items, and `indexing` of texts that were committed. Raises
    what keeps the run from going on; what was committed until then stays, and the next run goes
    on from there.
    """
    roots = check_roots(importer, roots)
    with told(dataset.path):
        run = Run(dataset, unix_user, importer.agent)
        try:
            report = _Extraction(run, importer, roots, progress, indexing).run()
        except BaseException:
            run.end_badly()
            raise
        run.end("complete")
    return report


@define(slots=True)
class _Look:
    """A known item as it looks now.

    `may_be_equal`: it was touched, and its file may hold what it held. `content`: the state of
    that file if it does.
    """

    stats: tuple[Stat | None, ...]
    surroundings: bytes
    is_unchanged: bool
    may_be_equal: bool
    content: Future[Stat | None] | None = None

    @classmethod
    def at(cls, item: SourceItem, known: Known) -> _Look:
        """A look at the item, which is not opened."""
        stats, surroundings = state(item)
        is_unchanged = fingerprint(stats, surroundings) == known.fingerprint
        may_be_equal = (
            not is_unchanged
            and known.surroundings == surroundings
            and known.status != "rejected"
            and not item.database
            and item.refused is None
            and stats[0] is not None
            and stats[0].size_bytes == known.size_bytes == known.imported_byte_count
            and known.prefix_sha256 is not None
        )
        return cls(stats, surroundings, is_unchanged, may_be_equal)


class _Extraction:
    def __init__(
        self,
        run: Run,
        importer: Importer,
        roots: dict[str, str],
        progress: Progress,
        indexing: Indexing | None,
    ) -> None:
        self._run = run
        self._importer = importer
        self._roots = roots
        self._progress = progress
        self._root_keys: dict[tuple[str, str], str] = {}
        self._writer = Writer(run.dataset, run.key, indexing)

    def run(self) -> Report:
        try:
            return self._run_all()
        finally:
            self._writer.close()

    def _run_all(self) -> Report:
        for option in self._importer.options:
            if option.flag in self._roots:
                self._root_key(option.source_kind, self._roots[option.flag])
        issues, items = self._discover()
        known = self._run.known(set(self._root_keys.values()))
        unchanged = 0
        with self._looks(items, known) as looks:
            for done, (key, item) in enumerate(items.items()):
                self._progress(done, len(items))
                look = looks.get(key)
                if look is not None and look.is_unchanged:
                    unchanged += 1
                else:
                    self._writer.add(self._become(key, item, known.get(key), look))
        self._writer.flush()
        self._progress(len(items), len(items))
        self._run.note(issues)
        vanished = 0
        if not any(issue.code == "unreadable" for issue in issues):
            refused = [
                (self._root_key(item.kind, item.root), shown(item.relative_path))
                for item in items.values()
                if item.refused is not None
            ]
            vanished = self._run.note_vanished(known, items, refused)
        self._settle(items)
        counts = self._writer.counts
        left = self._run.issue_count()
        return Report(self._run.agent, self._run.key, len(items), unchanged, vanished, counts, left)

    def _discover(self) -> tuple[list[Issue], dict[str, SourceItem]]:
        """The issues, and the items in an order that depends on nothing but them."""
        issues, items = [], []
        for found in discovered(self._importer, self._roots):
            if isinstance(found, Issue):
                issues.append(found)
            else:
                items.append(found)
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
        known = self._run.known(set(self._root_keys.values()))
        given: dict[str, set[str]] = {}
        # A source that has changed once more may leave its calls to yet another one.
        for _ in range(_MOST_ROUNDS):
            claims = settle.to_read_again(dataset)
            here = [key for key in claims.keys() & items.keys() if claims[key] != given.get(key)]
            if not here:
                break
            for key in sorted(here):
                outcome = self._read(key, items[key].unread(), known.get(key), whole=True)
                outcome.claims = given[key] = claims[key]
                self._writer.add(outcome)
            self._writer.flush()
        else:
            claims = settle.to_read_again(dataset)
        self._writer.settle([key for key in claims if claims[key] != given.get(key)])

    @contextmanager
    def _looks(
        self, items: Mapping[str, SourceItem], known: Mapping[str, Known]
    ) -> Iterator[dict[str, _Look]]:
        """How the known items look now; the files of those that were touched are being read."""
        version = self._importer.adapter_version
        looks = {
            key: _Look.at(item, known[key])
            for key, item in items.items()
            if key in known
            and known[key].adapter_version == version
            and known[key].fingerprint is not None
        }
        touched = [key for key, look in looks.items() if look.may_be_equal]
        if not touched:
            yield looks
            return
        from concurrent.futures import ThreadPoolExecutor  # most runs find nothing touched

        pool = ThreadPoolExecutor(_READERS)
        try:
            for key in touched:
                looks[key].content = pool.submit(
                    same_content, items[key], known[key].size_bytes, known[key].prefix_sha256
                )
            yield looks
        finally:
            pool.shutdown(cancel_futures=True)

    def _become(
        self, key: str, item: SourceItem, known: Known | None, look: _Look | None
    ) -> Outcome:
        """What has become of an item that is new or has changed, if only in its state."""
        if known is not None and look is not None and look.content is not None:
            stat = look.content.result()
            if stat is not None:
                mark = fingerprint((stat, *look.stats[1:]), look.surroundings)
                return self._outcome(key, item, known).touched(known, stat, mark)
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

    def _is_current(self, known: Known) -> bool:
        """Whether the rows of an item are what this importer made of it.

        A rejected one has those of an earlier reading, by who knows which version; one in doubt
        may have less.
        """
        version = self._importer.adapter_version
        is_sure = known.fingerprint is not None
        return is_sure and known.status == "complete" and known.adapter_version == version

    def _read(
        self, key: str, item: SourceItem, known: Known | None, *, whole: bool = False
    ) -> Outcome:
        dataset = self._run.dataset
        item.private_directory = dataset.directory
        if item.database:
            item.most_copy_bytes = max(0, dataset.most_bytes - dataset.used_bytes())
            if known is not None and not whole and self._is_current(known):
                self._writer.flush()  # until then the connection is the writer's
                item.places = places(dataset, key)
        if known is not None and not item.compressed:
            item.mark = known.imported_byte_count
        rows = ItemRows(self._run.unix_user, self._importer.agent, key, item.places)
        reading = read(self._importer, item, rows.add)
        if known is not None and reading.rejection is None and _was_reset(item, known):
            what = "the file is not a continuation of what was imported"
            reading.issues = [*reading.issues, Issue("checkpoint_reset", what)]
        return self._outcome(key, item, known).filled(reading, rows)


def _was_reset(item: SourceItem, known: Known) -> bool:
    """Whether what was imported before is no longer the beginning of the file."""
    if item.file is None or known.imported_byte_count is None or known.prefix_sha256 is None:
        return False
    if item.compressed:
        return item.file.prefix_sha256 != known.prefix_sha256
    return item.file.marks.get(known.imported_byte_count) != known.prefix_sha256
