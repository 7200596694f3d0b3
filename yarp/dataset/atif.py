"""One session as an ATIF trajectory, so that other programs read the dataset's calls.

ATIF, the Agent Trajectory Interchange Format, version 1.7. The dataset holds calls and results
and no prose: each call is one step of the agent with an empty message, and its distinct results
are that step's observation. What ATIF has no field for stands under `extra`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import orjson

from yarp.sources.values import is_deeper

if TYPE_CHECKING:
    from typing import Any

VERSION = "ATIF-v1.7"
_MOST_DEPTH = 200  # a writer of JSON goes to 254 levels, of which some are the trajectory's
_EXTRA_OF_CALL = (
    "call_key",
    "native_worker_id",
    "provider",
    "working_directory",
    "input_format",
    "input_sha256",
)
_EXTRA_OF_RESULT = ("result_key", "is_error", "output_json", "result_sha256")


def trajectory(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The trajectory of the calls of one session, in their order; there is at least one."""
    first = calls[0]
    session = {
        "unix_user": first["unix_user"],
        "started_at": moment(first["session_started_at_ms"]),
    }
    return {
        "schema_version": VERSION,
        "session_id": first["native_session_id"],
        "trajectory_id": first["session_key"],
        # The stores say which agent it was, not its version.
        "agent": {"name": first["agent"], "version": "unknown"},
        "steps": [_step(number, call) for number, call in enumerate(calls, 1)],
        "extra": _known(session),
    }


def _step(number: int, call: dict[str, Any]) -> dict[str, Any]:
    # Its id in the agent's store need not be its own: the key is.
    name = call["call_key"]
    extra = {"native_call_id": call["native_call_id"], **{key: call[key] for key in _EXTRA_OF_CALL}}
    step = {
        "step_id": number,
        "timestamp": moment(call["called_at_ms"]),
        "source": "agent",
        "model_name": call["model"],
        "message": "",
        "tool_calls": [
            {
                "tool_call_id": name,
                "function_name": call["tool_name"],
                "arguments": _arguments(call),
                "extra": _known(extra),
            }
        ],
    }
    if call["results"]:
        step["observation"] = {"results": [_result(name, result) for result in call["results"]]}
    return _known(step)


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    """The input as an object; one that is none, or nested too deeply, stands under `input`."""
    text = call["input_text"]
    if call["input_format"] != "json":
        return {"input": text}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:  # as deep as only other readers of JSON can go
        return {"input": text}
    if is_deeper(value, _MOST_DEPTH):
        return {"input": text}
    return value if isinstance(value, dict) else {"input": value}


def _result(call: str, result: dict[str, Any]) -> dict[str, Any]:
    extra = {key: result[key] for key in _EXTRA_OF_RESULT}
    return _known(
        {
            "source_call_id": call,
            "content": result["output_text"],
            "extra": _known({**extra, "returned_at": moment(result["returned_at_ms"])}),
        }
    )


def moment(milliseconds: int | None) -> str | None:
    """A time as ISO 8601 in UTC; None where it is unknown or no year has it."""
    if milliseconds is None:
        return None
    try:
        time = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
