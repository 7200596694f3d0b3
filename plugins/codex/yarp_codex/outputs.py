"""What the output of a call says of its end beside its text, as far as Codex itself wrote it.

Codex writes an envelope before a command's output, JSON around that of its older shell tool, and
JSON in the blocks of a script's. What a command printed is never read. Source: spec "Trace index",
8.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import parse_json
from yarp_codex.merge import ENVELOPED
from yarp_codex.native import exit_code, texts, whole

if TYPE_CHECKING:
    from yarp_codex.happened import Happened
    from yarp_codex.records import Output

_COUNT = "original_token_count"
_HEAD_CHARACTERS = 400
_LONGEST_S = 1e9
_TIME = re.compile(r"^Wall time:? ([0-9]{1,9}(?:\.[0-9]+)?) seconds$", re.MULTILINE)
_TOKENS = re.compile(r"^Original token count: (\d{1,15})$", re.MULTILINE)
_CUT = re.compile(r"^(?:Warning: truncated output \(|Total output lines: \d+$)", re.MULTILINE)


def text_of(record: Output) -> str | None:
    """The text of an output."""
    found = record.output
    return found if isinstance(found, str) else "\n".join(texts(found)) or None


def output_facts(record: Output, tool_name: str | None) -> dict[str, Any]:
    """The members of a `tool.output` that the output itself tells."""
    text = text_of(record) or ""
    if tool_name in ("exec", "wait"):
        return _of_script(record)
    if text.startswith('{"output":') and tool_name in ENVELOPED:
        return _of_json(text)
    if tool_name not in ENVELOPED and not text.startswith("Wall time: "):
        return {}
    head, _, body = text[:_HEAD_CHARACTERS].partition("\nOutput:")
    code = exit_code(text) if tool_name in ENVELOPED else None
    tokens = _TOKENS.search(head)
    cut = _CUT.search(head) or _CUT.match(body.lstrip("\n"))
    return {
        "exit_code": code,
        "failed": None if code is None else code != 0,
        "duration_ms": _milliseconds(head),
        "runtime_output_tokens": int(tokens[1]) if tokens else None,
        "runtime_truncated": True if cut else (False if tokens else None),
    }


def happened_facts(record: Happened) -> dict[str, Any]:
    """The members of a `tool.output` that an event tells."""
    spent = record.item.get("duration")
    duration = None
    if isinstance(spent, dict):
        seconds, nanos = (whole(spent.get(name)) for name in ("secs", "nanos"))
        if seconds is not None and nanos is not None:
            duration = seconds * 1000 + nanos // 1_000_000
    return {"exit_code": record.exit_code, "failed": record.failed, "duration_ms": duration}


def _of_script(record: Output) -> dict[str, Any]:
    """Of a script: its own words, and the results of commands that it shows whole."""
    head = record.first_text
    failed = None
    if head.startswith(("Script completed\n", "Script failed\n")):
        failed = head.startswith("Script failed")
    shown = [one for one in map(_result_of_command, texts(record.output)[1:]) if one]
    codes = {one["exit_code"] for one in shown if whole(one.get("exit_code")) is not None}
    tokens = [one[_COUNT] for one in shown if (whole(one.get(_COUNT)) or 0) > 0]
    return {
        "exit_code": codes.pop() if len(codes) == 1 and len(shown) == 1 else None,
        "failed": failed,
        "duration_ms": _milliseconds(head),
        "runtime_output_tokens": sum(tokens) if tokens else None,
    }


def _of_json(text: str) -> dict[str, Any]:
    value = _parsed(text)
    metadata = value.get("metadata") if value else None
    metadata = metadata if isinstance(metadata, dict) else {}
    code = whole(metadata.get("exit_code"))
    spent: Any = metadata.get("duration_seconds")
    output = value.get("output") if value else None
    cut = isinstance(output, str) and _CUT.match(output) is not None
    return {
        "exit_code": code,
        "failed": None if code is None else code != 0,
        "duration_ms": round(spent * 1000) if _is_time(spent) else None,
        "runtime_truncated": True if cut else None,
    }


def _result_of_command(text: str) -> dict[str, Any] | None:
    value = _parsed(text) if text.startswith("{") else None
    return (
        value if value is not None and {"chunk_id", "wall_time_seconds"} <= value.keys() else None
    )


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = parse_json(text.encode())[0]
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < _LONGEST_S


def _milliseconds(head: str) -> int | None:
    found = _TIME.search(head)
    try:
        return round(float(found[1]) * 1000) if found else None
    except (ValueError, OverflowError):
        return None
