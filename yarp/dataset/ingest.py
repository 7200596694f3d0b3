"""Takes the frames of a stream into the dataset, for one Unix user. See `yarp.dataset.framing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from yarp.dataset import keys, settle
from yarp.dataset.database import told
from yarp.dataset.framing import KINDS, VERSION, fact
from yarp.dataset.outcome import Outcome
from yarp.dataset.reading import Reading, importer_fault
from yarp.dataset.rows import ImporterFault, ItemRows, is_digest, require_issue
from yarp.dataset.run import Report, Run
from yarp.dataset.writer import Writer
from yarp.errors import FrameError
from yarp.sources.facts import Call, Issue, Issues, Observation, Result
from yarp.sources.jsonl import Stat
from yarp.sources.values import MOST_DEPTH, deep_values, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from yarp.dataset.database import Dataset
    from yarp.dataset.indexing import Indexing
    from yarp.dataset.run import Known
    from yarp.sources.facts import SourceFact


def ingest(
    dataset: Dataset,
    unix_user: str,
    frames: Iterable[bytes],
    *,
    agent: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    indexing: Indexing | None = None,
) -> Iterator[Report]:
    """Take streams for `unix_user`, one behind the other; a report for each, once it is taken.

    Raises FrameError for a broken or truncated one. Sources that were committed by then stay.
    Those that are the same as before are retained.
    """
    left = iter(frames)
    first = next(left, b"")
    number = 0
    while first or not number:
        taking = _Ingest(dataset, unix_user, agent, progress, number, indexing)
        with told(dataset.path):
            try:
                if first:
                    taking.take(first)
                for data in left if not taking.ended else ():
                    taking.take(data)
                    if taking.ended:
                        break
                taking.end()
            except FrameError:
                taking.keep()
                raise
            except BaseException:
                taking.fail()
                raise
            finally:
                taking.close()
        assert taking.report is not None  # noqa: S101 - `end` has seen to it
        yield taking.report
        number, first = taking.number, next(left, b"")


class _Ingest:
    """What frames may follow, and what has come so far."""

    def __init__(
        self,
        dataset: Dataset,
        unix_user: str,
        agent: str | None,
        progress: Callable[[int, int], None],
        number: int,
        indexing: Indexing | None,
    ) -> None:
        self._indexing = indexing
        self._dataset = dataset
        self._unix_user = unix_user
        self._agent = agent
        self._progress = progress
        self._run: Run | None = None
        self.ended = False
        self.number = number
        self._roots: dict[tuple[str, str], str] = {}
        self._known: dict[str, dict[str, Known]] = {}
        self._issues = Issues()
        self._keys: set[str] = set()
        self._refused: list[tuple[str, str]] = []
        self._unchanged = 0
        self._item: _OpenItem | None = None
        self._open = False
        self.report: Report | None = None

    def take(self, data: bytes) -> None:
        """Take one frame."""
        self.number += 1
        try:
            # A frame is two levels around a value.
            whole = parse_json(data, MOST_DEPTH + 2, beyond=True)[0]
            record, value = whole["record"], whole.get("value")
            handle = getattr(self, f"_on_{record}", None) or KINDS.get(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            whole_line = data.endswith(b"\n")
            what = "no frame" if whole_line else "incomplete: the stream was cut within it"
            raise self._broken(what) from None
        if handle is None or self.ended or (self._run is None) is not (record == "stream_start"):
            raise self._broken(f"a {_name(record)} does not belong there")
        try:
            if isinstance(handle, type):
                self._on_fact(handle, value)
            elif value is None:
                handle()
            else:
                handle(value)
        except (ValueError, KeyError, TypeError, AttributeError, ImporterFault):
            raise self._broken(f"the value of a {_name(record)} is not what it should be") from None

    def end(self) -> None:
        """Settle a stream that came whole."""
        if not self.ended:
            raise FrameError(
                "the stream ends before its end; its last source was rolled back, the others stay"
            )
        assert self._run is not None  # noqa: S101 - `stream_end` comes after `stream_start`
        self._writer.flush()
        self._run.note(self._issues)
        vanished = 0
        if not any(issue.code == "unreadable" for issue in self._issues):
            known = {key: each for found in self._known.values() for key, each in found.items()}
            vanished = self._run.note_vanished(known, self._keys, self._refused)
        if settle.unsettled(self._dataset):
            self._writer.settle()
        self._run.end("complete")
        self.report = Report(
            self._run.agent,
            self._run.key,
            len(self._keys),
            self._unchanged,
            vanished,
            self._writer.counts,
            self._run.issue_count(),
        )

    def keep(self) -> None:
        """Keep the sources that are whole, and say that the run failed."""
        if self._run is not None:
            try:
                self._writer.flush()
            finally:
                self.fail()

    def fail(self) -> None:
        """Say that the run failed."""
        if self._run is not None:
            self._writer.close()
            self._run.end_badly()

    def close(self) -> None:
        """Let go of what a run holds."""
        if self._run is not None:
            self._writer.close()

    def _broken(self, what: str) -> FrameError:
        return FrameError(f"frame {self.number}: {what}")

    def _on_stream_start(self, value: dict[str, Any]) -> None:
        if value["version"] != VERSION:
            raise self._broken("the stream has another version")
        if value["unix_user"] != self._unix_user:
            raise self._broken("the stream is of another Unix user than --unix-user names")
        if self._agent not in (None, value["agent"]):
            raise self._broken("the stream is of another agent than --agent names")
        self._version = _number(value["adapter_version"], 1, 1 << 31)
        self._run = Run(self._dataset, self._unix_user, _text(value["agent"]))
        self._writer = Writer(self._dataset, self._run.key, self._indexing)
        self._claims = settle.to_read_again(self._dataset)

    def _on_source_root(self, value: dict[str, Any]) -> None:
        self._outside()
        assert self._run is not None  # noqa: S101 - as `take` has seen
        place = (_text(value["kind"]), _text(value["path"]))
        self._writer.flush()
        key = self._roots[place] = self._run.root(*place)
        self._known[key] = self._run.known([key])

    def _outside(self) -> None:
        if self._open:
            raise self._broken("a source is open")

    def _on_source_start(self) -> None:
        self._outside()
        self._open = True
        self._item = None

    def _on_source_item(self, value: dict[str, Any]) -> None:
        if not self._open or self._item is not None:
            raise self._broken("no source was started")
        assert self._run is not None  # noqa: S101 - as `take` has seen
        root_key = self._roots[value["kind"], value["root"]]
        relative_path = _relative(value["relative_path"])
        key = keys.source_item(root_key, relative_path)
        known = self._known[root_key].get(key)
        outcome = Outcome(key, root_key, relative_path, self._version, None, "complete")
        outcome.known = known is not None
        rows = ItemRows(self._unix_user, self._run.agent, key)
        self._item = _OpenItem(outcome, known, rows)

    def _here(self) -> _OpenItem:
        if self._item is None:
            raise self._broken("no source is open")
        return self._item

    def _on_fact(self, kind: type[SourceFact], value: dict[str, Any]) -> None:
        if kind is Issue and not self._open:
            self._issues.add(_issue(value))
            return
        item = self._here()
        if kind is Observation:
            number = value["target"]
            if type(number) is not int or not 0 <= number < len(item.targets):
                raise self._broken("an observation points nowhere")
            said = fact(kind, value)
            said.target = item.targets[number]
        else:
            said = fact(kind, value)
            if kind in (Call, Result):
                item.targets.append(said)
        item.add(said)

    def _on_source_state(self, value: dict[str, Any]) -> None:
        stat = value.pop("stat", None)
        malformed = value.pop("malformed")
        issues = value.pop("issues")
        reading = fact(Reading, {**value, "stat": None, "surroundings": value["surroundings"]})
        if stat is not None:
            reading.stat = Stat(**{name: _number(each, 0, 1 << 63) for name, each in stat.items()})
        reading.malformed = frozenset(_number(each, 1, 1 << 63) for each in malformed)
        reading.issues = Issues(_issue(each) for each in issues)
        _require_state(reading)
        self._here().reading = reading

    def _on_source_commit(self) -> None:
        self._close(None)

    def _on_source_rollback(self, value: dict[str, Any]) -> None:
        self._close(_issue(value))

    def _close(self, refused: Issue | None) -> None:
        item = self._here()
        reading = item.reading
        if reading is None:
            raise self._broken("the state of the source is missing")
        if (refused is None) is (reading.status == "rejected"):
            raise self._broken("the state of the source is another one")
        if refused is not None:
            reading.reject(refused, lasting=reading.lasting)
            self._refused.append((item.outcome.source_root_key, item.outcome.relative_path))
        elif item.fault is not None:
            reading.reject(item.fault, lasting=True)
        outcome, known = item.outcome, item.known
        claims = self._claims.get(outcome.source_item_key)
        if claims is not None:
            outcome.claims = claims
        self._keys.add(outcome.source_item_key)
        self._progress(len(self._keys), 0)
        if known is not None and claims is None and _same(known, reading, self._version):
            self._unchanged += 1
            if known.fingerprint != reading.fingerprint:
                self._writer.add(outcome.touched(known, reading.stat, reading.fingerprint))
        else:
            self._writer.add(outcome.filled(reading, item.rows))
        self._item, self._open = None, False

    def _on_stream_end(self) -> None:
        self._outside()
        self.ended = True


@attrs.define(slots=True)
class _OpenItem:
    """The source that is open: rolled back by being forgotten."""

    outcome: Outcome
    known: Known | None
    rows: ItemRows
    targets: list[Call | Result] = attrs.field(factory=list)
    reading: Reading | None = None
    fault: Issue | None = None

    def add(self, said: SourceFact) -> None:
        """Take a fact, or note that no row can hold it."""
        try:
            with deep_values():
                self.rows.add(said)
        except ImporterFault as fault:
            self.fault = importer_fault(fault)


def _same(known: Known, reading: Reading, version: int) -> bool:
    return (
        reading.rejection is None
        and known.adapter_version == version
        and known.status == reading.status
        and known.surroundings == reading.surroundings
        and known.prefix_sha256 is not None
        and known.prefix_sha256 == reading.prefix_sha256
        and known.imported_byte_count == reading.imported_byte_count
    )


def _number(value: object, low: int, end: int) -> int:
    """A number that is at least `low` and below `end`. Raises ValueError."""
    if type(value) is not int or not low <= value < end:
        raise ValueError
    return value


def _text(value: object) -> str:
    """A text that is not empty. Raises ValueError."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return value


def _relative(path: object) -> str:
    """A path below a root, or "" for the root itself. Raises ValueError."""
    if path == "":
        return ""
    found = _text(path)
    if found.startswith("/") or ".." in found.split("/"):
        raise ValueError
    return found


def _issue(value: dict[str, Any]) -> Issue:
    """Raises ImporterFault or TypeError for what is none."""
    issue: Issue = fact(Issue, value)
    require_issue(issue)
    return issue


def _require_state(reading: Reading) -> None:
    """Make sure that a row can hold the state of a source. Raises ValueError."""
    count, digest = reading.imported_byte_count, reading.prefix_sha256
    fits = (
        reading.status in ("complete", "deferred", "rejected")
        and type(reading.lasting) is bool
        and type(reading.fingerprint) is bytes
        and type(reading.surroundings) is bytes
        and (digest is None or is_digest(digest))
        and (count is None) is (digest is None)
    )
    if not fits:
        raise ValueError
    if count is not None:
        _number(count, 0, reading.stat.size_bytes + 1 if reading.stat is not None else 1)


def _name(record: object) -> str:
    known = isinstance(record, str) and (record in KINDS or hasattr(_Ingest, f"_on_{record}"))
    return str(record) if known else "frame of an unknown name"
