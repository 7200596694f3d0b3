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
from yarp_codex.native import envelope_of, exit_code, string, texts, whole

if TYPE_CHECKING:
    from yarp_codex.happened import Happened
    from yarp_codex.records import Output

_COUNT = "original_token_count"
_LONGEST_S = 1e9
_TIME = re.compile(r"^Wall time:? ([0-9]{1,9}(?:\.[0-9]+)?) seconds$", re.MULTILINE)
_TOKENS = re.compile(
    r"^(?:Original token count: |Warning: truncated output \(original token count: )(\d{1,15})",
    re.MULTILINE,
)
_CUT = re.compile(r"^(?:Warning: truncated output \(|Total output lines: \d+$)", re.MULTILINE)


def text_of(record: Output) -> str | None:
    """The text of an output."""
    found = record.output
    if isinstance(found, dict):
        return string(found.get("content")) or string(found.get("output"))
    return found if isinstance(found, str) else "\n".join(texts(found)) or None


def output_facts(record: Output, tool_name: str | None) -> dict[str, Any]:
    """The members of a `tool.output` that the output itself tells.

    `tool_name` None: the call is not in the rollout, and what Codex writes before an output is
    known by its shape alone.
    """
    text = text_of(record) or ""
    if tool_name in ("exec", "wait"):
        return _of_script(record)
    of_command = tool_name is None or tool_name in ENVELOPED
    if not of_command and not text.startswith("Wall time: "):
        return _of_payload(record)
    if of_command and text.startswith("{"):
        return _of_json(text) or _of_payload(record)
    head = envelope_of(text)
    if not head:
        return _of_payload(record)
    body = text[len(head) :].removeprefix("Output:").lstrip("\n")
    code = exit_code(text) if of_command else None
    tokens = _TOKENS.search(head)
    cut = _CUT.search(head) or _CUT.match(body)
    return {
        "exit_code": code,
        "failed": None if code is None else code != 0,
        "duration_ms": _milliseconds(head),
        "runtime_output_tokens": int(tokens[1]) if tokens else None,
        "runtime_truncated": True if cut else (False if tokens else None),
    }


def _of_payload(record: Output) -> dict[str, Any]:
    """Of an output that is an object: whether it says that the call went well."""
    found = record.output
    success = found.get("success") if isinstance(found, dict) else None
    return {"failed": not success} if isinstance(success, bool) else {}


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
    """Of a script: its own words, and the results of calls that it shows whole."""
    head, *shown = texts(record.output) or [""]
    if not shown:
        head, _, rest = head.partition("\nOutput:\n")
        shown = rest.split("\n")
    results = [one for one in map(_shown_result, shown) if one]
    codes = [one["exit_code"] for one in results if whole(one.get("exit_code")) is not None]
    tokens = [one[_COUNT] for one in results if (whole(one.get(_COUNT)) or 0) > 0]
    verdicts = [one["isError"] for one in results if isinstance(one.get("isError"), bool)]
    if head.startswith(("Script completed", "Script failed")):
        verdicts.append(head.startswith("Script failed"))
    failed = any(verdicts) if verdicts else None
    return {
        "exit_code": codes[0] if len(codes) == 1 and len(results) == 1 else None,
        "failed": True if any(codes) else failed,
        "duration_ms": _milliseconds(head),
        "runtime_output_tokens": sum(tokens) if tokens else None,
    }


def _of_json(text: str) -> dict[str, Any]:
    value = _parsed(text)
    metadata = value.get("metadata") if value else None
    if value is None or not isinstance(metadata, dict):
        return {}
    code = whole(metadata.get("exit_code"))
    spent: Any = metadata.get("duration_seconds")
    output = value.get("output")
    cut = isinstance(output, str) and _CUT.match(output) is not None
    return {
        "exit_code": code,
        "failed": None if code is None else code != 0,
        "duration_ms": round(spent * 1000) if _is_time(spent) else None,
        "runtime_truncated": True if cut else None,
    }


def _shown_result(text: str) -> dict[str, Any] | None:
    """What a script got from a command or from an MCP server, where it shows all of it."""
    value = _parsed(text) if text.startswith("{") else None
    if value is None:
        return None
    of_command = {"wall_time_seconds", "output"} <= value.keys()
    return value if of_command or {"content", "isError"} <= value.keys() else None


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
