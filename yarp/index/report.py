"""What a sync did: counted by file, timed by phase. Source: spec "Trace index", 9."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from yarp.index.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACTIONS = ("indexed", "appended", "unchanged", "rebuilt", "skipped", "failed")
PHASES = (
    *("discover", "prepare", "clear", "read", "project", "persist", "fingerprint", "commit"),
    "build_indexes",
)


class Report:
    """Grows while a sync runs; `plain` is its JSON."""

    def __init__(self, database: str, progress: Callable[[Report], None] | None = None) -> None:
        self.database = database
        self.policy = (0, 0)
        self.problems: list[str] = []
        self.sources: list[dict[str, Any]] = []
        self.actions = dict.fromkeys(ACTIONS, 0)
        self.runtimes: set[str] = set()
        self.discovered = self.total = self.finished = 0
        self.source_bytes = self.processed_bytes = self.fingerprint_bytes = 0
        self.records = self.loops = self.items = self.malformed = self.oversized = (
            self.incomplete
        ) = 0
        self.orphans = 0
        self.size_before = self.size_after = 0
        self.current: str | None = None
        self.phases = dict.fromkeys(PHASES, 0.0)
        self.written = Spent()
        """What was written inside whatever phase; all of it is time of phase `persist`."""
        self._phase: str | None = None
        self._progress = progress
        self._began = time.perf_counter()
        self.elapsed_s = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside; phases do not nest."""
        began, written = time.perf_counter(), self.written.total
        self._phase = name
        try:
            yield
        finally:
            wrote = self.written.total - written
            self.phases[name] += time.perf_counter() - began - wrote
            self.phases["persist"] += wrote

    def tick(self) -> None:
        """Tell whoever shows the progress."""
        if self._progress is not None:
            self.elapsed_s = time.perf_counter() - self._began
            self._progress(self)

    def done(
        self,
        path: str,
        runtime: str | None,
        action: str,
        *,
        error: str | None = None,
        records: int = 0,
        items: int = 0,
        indexed_bytes: int = 0,
        file_size: int = 0,
        malformed: int = 0,
        oversized: int = 0,
        tail: bool = False,
    ) -> None:
        """One file is done with."""
        self.actions[action] += 1
        self.malformed += malformed
        self.oversized += oversized
        self.incomplete += tail
        if runtime is not None:
            self.runtimes.add(runtime)
        if action != "unchanged":
            self.finished += 1
        result: dict[str, Any] = {
            "path": path,
            "adapter": runtime,
            "action": action,
            "indexed_records": records,
            "indexed_items": items,
            "indexed_bytes": indexed_bytes,
            "file_size": file_size,
            "malformed_records": malformed,
            "oversized_records": oversized,
            "incomplete_tail": tail,
        }
        if error is not None:
            result["error"] = error
        self.sources.append(result)

    def vanished(self, size: int) -> None:
        """A file that was to be looked into is not there any more: as if it had never been."""
        self.discovered -= 1
        self.total -= 1
        self.source_bytes -= size

    def finish(self) -> None:
        """The sync is over."""
        self.elapsed_s = time.perf_counter() - self._began

    def progress(self) -> dict[str, Any]:
        """How far it is, for programs."""
        current = {} if self.current is None else {"current_source": self.current}
        return {
            "type": "progress",
            "phase": self._phase,
            "elapsed_ms": round(self.elapsed_s * 1000),
            "completed_files": self.finished,
            "total_files": self.total,
            "processed_bytes": self.processed_bytes,
            "source_bytes": self.source_bytes,
            "records": self.records,
            "items": self.items,
            **current,
        }

    def plain(self, *, include_sources: bool = False) -> dict[str, Any]:
        """The report as JSON; without `include_sources` only of files that are out of the way."""
        phases = {name: round(spent * 1000, 1) for name, spent in self.phases.items()}
        parts = self.written.parts
        unnamed = self.phases["persist"] - sum(parts.values()) + parts["other"]
        written = {**parts, "other": max(0.0, unnamed)}
        spent_ms = round((self.elapsed_s - sum(self.phases.values())) * 1000, 1)
        return {
            "adapters": sorted(self.runtimes),
            "database": self.database,
            "indexing_policy": {
                "max_indexed_record_bytes": self.policy[0],
                "max_published_text_bytes": self.policy[1],
            },
            "discovered_files": self.discovered,
            **{f"{action}_files": count for action, count in self.actions.items()},
            "incomplete_files": self.incomplete,
            "indexed_records": self.records,
            "indexed_items": self.items,
            "malformed_records": self.malformed,
            "oversized_records": self.oversized,
            "orphan_blobs": self.orphans,
            "problems": self.problems,
            "metrics": {
                "elapsed_ms": round(self.elapsed_s * 1000, 1),
                "source_bytes": self.source_bytes,
                "processed_bytes": self.processed_bytes,
                "fingerprint_bytes": self.fingerprint_bytes,
                "database_bytes_before": self.size_before,
                "database_bytes_after": self.size_after,
                "phases_ms": phases | {"unattributed": max(0.0, spent_ms)},
                "persist_ms": {name: round(spent * 1000, 1) for name, spent in written.items()},
                "writes": {
                    "records": self.records,
                    "sessions": sum(self.actions[one] for one in ("indexed", "rebuilt")),
                    "loops": self.loops,
                    "items": self.items,
                },
            },
            "source_results": [
                one
                for one in self.sources
                if include_sources
                or one["action"] in ("skipped", "failed", "rebuilt")
                or one["malformed_records"]
                or one["oversized_records"]
                or one["incomplete_tail"]
            ],
        }
