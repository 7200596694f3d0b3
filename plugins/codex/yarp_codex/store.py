"""Where Codex keeps its threads: what the dataset imports, found without reading it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from yarp.plugin import Issue, Rejected, SourceItem, SourceOption, items_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from yarp.plugin import SourceFact

ADAPTER_VERSION = 1
OPTIONS = (
    SourceOption(
        "sessions",
        kind="directory",
        help="Rollouts of Codex's threads, .jsonl and .jsonl.zst.",
        default=".codex/sessions",
    ),
    SourceOption(
        "archived-sessions",
        kind="directory",
        help="Rollouts of threads that were archived.",
        default=".codex/archived_sessions",
        required=False,
    ),
    SourceOption(
        "state-db",
        kind="file",
        help="Codex's list of its threads.",
        default=".codex/state_5.sqlite",
        required=False,
    ),
)
LIST = "state_db"
_ROLLOUTS = (".jsonl", ".jsonl.zst")
_COLUMNS = ("id", "rollout_path", "cwd", "model_provider", "model", "created_at_ms", "created_at")


def discover(roots: Mapping[str, str]) -> Iterator[SourceItem]:
    """The rollouts below the roots, each with what Codex's own list of threads says of it.

    And the list itself, with the threads of which there is none.
    """
    threads: dict[str, dict[str, Any]] = {}
    listed = None
    if "state-db" in roots:
        listed = SourceItem(LIST, roots["state-db"], "", database=True)
        try:
            threads = _threads(roots["state-db"])
        except Rejected as rejected:
            listed.refused = rejected.issue
        except OSError as error:
            what = f"the list of threads cannot be read: {error.strerror}"
            listed.refused = Issue("unreadable", what)
    below = set()
    for flag in ("sessions", "archived-sessions"):
        if flag not in roots:
            continue
        found = list(items_below(roots[flag], kind=flag.replace("-", "_"), suffixes=_ROLLOUTS))
        plain = {item.path for item in found if item.refused is None}
        for item in found:
            if item.refused is None:
                path = item.path.removesuffix(".zst")
                below.add(path)
                if path != item.path and path in plain:
                    continue  # Codex is just compressing it
                item.context = threads.get(path)
            yield item
    if listed is not None:
        from yarp_codex.native import string

        listed.context = sorted(
            (string(threads[path]["id"]) or "", any(map(os.path.lexists, (path, f"{path}.zst"))))
            for path in threads.keys() - below
        )
        yield listed


def _threads(path: str) -> dict[str, dict[str, Any]]:
    """What the list says of each thread, by the path of its rollout."""
    import sqlite3

    item = SourceItem(LIST, path, "", database=True)
    try:
        connection = item.sqlite()
        has = {row[1] for row in connection.execute("PRAGMA table_info(threads)")}
        if not {"id", "rollout_path"} <= has:
            raise Rejected("unsupported_codex_state", "the list of threads has another schema")
        names = [name for name in _COLUMNS if name in has]
        rows = connection.execute(f"SELECT {', '.join(names)} FROM threads")  # noqa: S608 - ours
        found = {}
        for row in rows:
            thread = dict(zip(names, row, strict=True))
            rollout = thread.pop("rollout_path")
            if isinstance(rollout, str):
                # No file has a name with a NUL in it.
                place = rollout if "\0" in rollout else os.path.realpath(rollout)
                found[place.removesuffix(".zst")] = thread
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        raise Rejected("malformed_database", "the list of threads cannot be read") from None
    else:
        return found
    finally:
        item.close()


def read(item: SourceItem) -> Iterable[SourceFact]:
    """What one rollout says, or the list of threads."""
    if item.kind == LIST:
        return _unlisted(item)
    from yarp_codex import importer as reading  # most runs of an import find nothing to read

    return reading.facts(item)


def _unlisted(item: SourceItem) -> Iterator[Issue]:
    """What the list of threads names and is not below the roots."""
    for thread_id, is_there in item.context:
        code, what = "rollout_missing", "a listed thread has no rollout any more"
        if is_there:
            code, what = "rollout_outside_roots", "a listed thread lies below none of the roots"
        yield Issue(code, what, sqlite_blob_id=thread_id)
