"""Where Claude Code keeps its transcripts: what the dataset imports, found without reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarp.plugin import Importer, SourceOption, items_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from yarp.plugin import Issue, SourceFact, SourceItem


def importer() -> Importer:
    """The declaration."""
    return Importer(
        "claude",
        adapter_version=1,
        options=[
            SourceOption(
                "projects",
                kind="directory",
                help="Claude Code's transcripts, with those of subagents and persisted outputs.",
                default=".claude/projects",
            )
        ],
        discover=discover,
        read=facts,
    )


def discover(roots: Mapping[str, str]) -> Iterator[SourceItem | Issue]:
    """Every transcript below the root, subagents' included."""
    yield from items_below(
        roots["projects"], kind="projects", suffixes=(".jsonl",), accept=_is_transcript
    )


def _is_transcript(relative_path: str) -> bool:
    # What tools wrote, and notes: a file there may have any name.
    return not {"tool-results", "memory"} & set(relative_path.split("/")[1:-1])


def facts(item: SourceItem) -> Iterable[SourceFact]:
    """What one transcript says."""
    from yarp_claude import importer as reading  # most runs of an import find nothing to read

    return reading.facts(item)
