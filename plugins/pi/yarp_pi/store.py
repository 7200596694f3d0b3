"""Where Pi keeps its sessions: what the dataset imports, found without reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarp.plugin import Importer, SourceOption, items_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from yarp.plugin import Issue, SourceFact, SourceItem


def importer() -> Importer:
    """The declaration."""
    return Importer(
        "pi",
        adapter_version=1,
        options=[
            SourceOption(
                "sessions",
                kind="directory",
                help="Pi's sessions.",
                default=".pi/agent/sessions",
            )
        ],
        discover=discover,
        read=facts,
    )


def discover(roots: Mapping[str, str]) -> Iterator[SourceItem | Issue]:
    """Every session below the root."""
    yield from items_below(roots["sessions"], kind="sessions", suffixes=(".jsonl",))


def facts(item: SourceItem) -> Iterable[SourceFact]:
    """What one session says."""
    from yarp_pi import importer as reading  # most runs of an import find nothing to read

    return reading.facts(item)
