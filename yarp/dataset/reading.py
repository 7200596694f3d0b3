"""Reads one item with its importer, and says which state of the source was read.

Whatever goes wrong with an item is an issue of that item. Source: seed 003, "Stable reads".
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Literal

import orjson
from attrs import define, field

from yarp.dataset import keys
from yarp.dataset.rows import ImporterFault, require_issue
from yarp.errors import PluginError
from yarp.sources.beneath import Escapes
from yarp.sources.facts import Issue, Rejected
from yarp.sources.importers import BESIDE, SourceItem
from yarp.sources.jsonl import JsonlFile, SourceChanged, Stat
from yarp.sources.values import deep_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from yarp.sources.facts import SourceFact
    from yarp.sources.importers import Importer


@define(slots=True)
class Reading:
    """What was read of an item: its state, the issues of reading, or why it was rejected.

    `stat`: of the file itself. `fingerprint`: of all that decides what a reading gives;
    `surroundings`: of all but the item's own files. `malformed`: numbers of lines that are no
    JSON. `lasting`: a rejected item would be rejected again as it is.
    """

    stat: Stat | None
    surroundings: bytes
    fingerprint: bytes
    status: Literal["complete", "deferred", "rejected"] = "complete"
    imported_byte_count: int | None = None
    prefix_sha256: bytes | None = None
    malformed: Collection[int] = ()
    issues: list[Issue] = field(factory=list)
    rejection: Issue | None = None
    lasting: bool = False

    def reject(self, issue: Issue, *, lasting: bool) -> None:
        """Note that the item cannot be read, and why."""
        self.status, self.rejection, self.lasting = "rejected", issue, lasting


def discovered(importer: Importer, roots: Mapping[str, str]) -> list[SourceItem | Issue]:
    """What the importer finds: issues first, then the items in an order of their own.

    Where it gives up, each root is refused. Raises PluginError when it cannot look.
    """
    try:
        found = list(importer.discover(roots))
    except Rejected as refused:
        found = _refused(importer, roots, refused.issue)
    except OSError as error:
        issue = Issue("unreadable", f"a source cannot be read: {error.strerror}", "error")
        found = _refused(importer, roots, issue)
    except Exception as error:
        what = f"the importer of {importer.agent} raised {type(error).__name__} while looking"
        raise PluginError(what) from error
    issues: list[SourceItem | Issue] = [_told(each) for each in found if isinstance(each, Issue)]
    items = [each for each in found if not isinstance(each, Issue)]
    return issues + sorted(items, key=lambda item: (item.kind, item.root, item.relative_path))


def _refused(
    importer: Importer, roots: Mapping[str, str], issue: Issue
) -> list[SourceItem | Issue]:
    return [
        SourceItem(option.source_kind, roots[option.flag], "", refused=issue)
        for option in importer.options
        if option.flag in roots
    ]


def read(importer: Importer, item: SourceItem, take: Callable[[SourceFact], None]) -> Reading:
    """Give each fact of the item to `take`; the item is closed afterwards.

    Facts that were given count only if the reading is not rejected. `take` may raise
    `ImporterFault`.
    """
    stats, surroundings = state(item)
    reading = Reading(stats[0], surroundings, fingerprint(stats, surroundings))
    if item.refused is not None:
        reading.reject(_told(item.refused), lasting=True)
        return reading
    try:
        with deep_values():
            for fact in importer.read(item):
                take(fact)
        item.verify()
        _take_state(reading, item, stats)
    except SourceChanged as changed:
        reading.reject(changed.issue, lasting=False)
    except Rejected as refused:
        reading.reject(_told(refused.issue), lasting=True)
    except ImporterFault as fault:
        reading.reject(importer_fault(fault), lasting=True)
    except Escapes as error:
        reading.reject(Issue("path_escape", str(error.strerror)), lasting=False)
    except OSError as error:
        what = f"the file cannot be read: {error.strerror}"
        reading.reject(Issue("unreadable", what, "error"), lasting=False)
    except Exception as error:  # noqa: BLE001 - whatever an importer raises is its own
        what = f"its importer raised {type(error).__name__}"
        reading.reject(Issue("importer_fault", what, "error"), lasting=True)
    finally:
        item.close()
    return reading


def importer_fault(fault: ImporterFault) -> Issue:
    """The issue of an importer that said what the dataset cannot hold."""
    return Issue("importer_fault", f"its importer gave what cannot be kept: {fault}", "error")


def _told(issue: Issue) -> Issue:
    """An issue as an importer gave it, or one of the importer itself if no row can hold it."""
    try:
        require_issue(issue)
    except ImporterFault as fault:
        return importer_fault(fault)
    return issue


def _take_state(reading: Reading, item: SourceItem, stats: tuple[Stat | None, ...]) -> None:
    """Put the state that was read into the reading. Raises `SourceChanged`."""
    file, snapshot = item.file, item.snapshot
    if file is not None:
        stats = (file.before, *stats[1:])
        reading.imported_byte_count = file.complete_byte_count
        reading.prefix_sha256 = file.prefix_sha256
        reading.malformed = file.malformed
        reading.issues = file.issues
        if file.waits:
            reading.status = "deferred"
    if snapshot is not None:
        stats = (*snapshot.before, *stats[len(BESIDE) :])
    elif file is None and state(item)[0] != stats:
        raise SourceChanged
    reading.stat = stats[0]
    reading.fingerprint = fingerprint(stats, reading.surroundings)


def state(item: SourceItem) -> tuple[tuple[Stat | None, ...], bytes]:
    """The states of the item's own files, and a digest of what else decides its reading."""
    suffixes = BESIDE if item.database else ("",)
    stats = tuple(_stat(item.path + suffix) for suffix in suffixes)
    around = [_stat(path) for path in item.companions]
    try:
        context = orjson.dumps(item.context, option=orjson.OPT_SORT_KEYS, default=repr)
    except TypeError:  # a path that is no UTF-8, or an integer beyond 64 bits
        context = json.dumps(item.context, sort_keys=True, default=repr).encode()
    parts: list[str | bytes] = [context, *(repr(each) for each in around)]
    if item.refused is not None:
        parts += [item.refused.code, item.refused.message]
    return stats, keys.digest(*parts)


def _stat(path: str) -> Stat | None:
    try:
        return Stat.of(os.lstat(path))
    except OSError:
        return None


def fingerprint(stats: tuple[Stat | None, ...], surroundings: bytes) -> bytes:
    """A digest of all that decides what a reading of the item gives."""
    return keys.digest(surroundings, *(_stat_bytes(each) for each in stats))


def _stat_bytes(stat: Stat | None) -> bytes | None:
    if stat is None:
        return None
    values = (stat.device_id, stat.inode, stat.size_bytes, stat.mtime_ns, stat.ctime_ns)
    return keys.encode(str(value) for value in values)


def same_content(item: SourceItem, byte_count: int, sha256: bytes | None) -> Stat | None:
    """The state of an item's file that holds so many bytes of this digest, and no more; or None."""
    try:
        with JsonlFile(item.path, item.root) as file:
            if file.before.size_bytes != byte_count or file.digest_of(byte_count) != sha256:
                return None
            file.require_unchanged()
            return file.before
    except (OSError, SourceChanged):
        return None
