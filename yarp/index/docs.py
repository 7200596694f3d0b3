"""The index's documentation, from within: what an agent asks before it asks the index.

Topics are files of `topics/` and parts that are made from the catalogue and the examples, so
that they cannot say anything else than the code. The reference page is all of them in order;
a test holds it equal.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from yarp.errors import UsageError
from yarp.index.catalog import RELATIONS, ROLES
from yarp.index.examples import EXAMPLES

TOPICS = {
    "overview": "The trace index",
    "sync": "Syncing",
    "schema": "Relations",
    "sessions": "Sessions, forks and branches",
    "semantics": "What items mean",
    "shell": "Shell commands",
    "usage": "Model and usage",
    "search": "Finding texts",
    "queries": "Example queries",
    "records": "Records and assets",
    "metadata": "Session metadata",
    "configuration": "Configuration",
}


def get(topic: str) -> str:
    """The Markdown of a topic, heading included. UsageError if there is none."""
    if topic not in TOPICS:
        raise UsageError(f"there is no topic {topic!r}; there are {', '.join(TOPICS)}")
    made = {"schema": _schema, "semantics": _semantics, "queries": _queries}
    body = made[topic]() if topic in made else _file(topic)
    return f"## {TOPICS[topic]}\n\n{body.strip()}\n"


def search(text: str) -> list[dict[str, Any]]:
    """The lines of topics that hold all words of `text`, whatever their case."""
    words = text.casefold().split()
    return [
        {"topic": topic, "line": number, "text": line}
        for topic in TOPICS
        for number, line in enumerate(get(topic).splitlines(), 1)
        if words and all(word in line.casefold() for word in words)
    ]


def page() -> str:
    """All topics, as the reference has them."""
    return "# Trace index\n\n" + "\n".join(get(topic) for topic in TOPICS)


def _file(topic: str) -> str:
    return files("yarp.index").joinpath("topics", f"{topic}.md").read_text("utf-8")


def _schema() -> str:
    parts = [_file("schema")]
    for relation in RELATIONS:
        rows = [
            f"| `{one.name}` | {one.data_type} | {'yes' if one.nullable else 'no'} "
            f"| {one.description} |"
            for one in relation.columns
        ]
        head = f"### `{relation.name}`\n\n{relation.description}\n"
        table = "| column | type | null | |\n| --- | --- | --- | --- |\n" + "\n".join(rows)
        parts.append(f"{head}\n{table}\n")
    return "\n".join(parts)


def _semantics() -> str:
    rows = []
    for role in ROLES:
        members = ", ".join(
            f"`{name}{'?' if kind.endswith('?') else ''}`: {_kind(kind)}"
            for name, kind in role.members.items()
        )
        searched = "yes" if role.searched else ""
        rows.append(f"| `{role.name}` | {role.description} | {members} | {searched} |")
    table = "| role | | value | searched |\n| --- | --- | --- | --- |\n" + "\n".join(rows)
    return f"{_file('semantics').strip()}\n\n{table}\n"


def _kind(kind: str) -> str:
    kind = kind.removesuffix("?")
    return ", ".join(kind.split("|")) if "|" in kind else kind


def _queries() -> str:
    parts = [_file("queries")]
    parts += [f"### {one.name}\n\n{one.question}\n\n```sql\n{one.sql}\n```\n" for one in EXAMPLES]
    return "\n".join(parts)
