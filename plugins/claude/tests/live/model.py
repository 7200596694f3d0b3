"""A scripted model: Anthropic messages, whole or streamed.

The word in the first user message that holds one picks the script, the number of assistant
messages the turn. A turn is a list of `(tool, input)`, the input as a JSON text or a value; an
empty turn says "done".
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from yarp.testing.live import EVENTS, JSON, ScriptedModel, as_json, events


class Model(ScriptedModel):
    """Its `requests` are those that asked for a message."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, str]:
        if "count_tokens" in path:
            return JSON, json.dumps({"input_tokens": 100})
        self.requests.append(body)
        calls = self.calls(body)
        if not body.get("stream"):
            return JSON, json.dumps(message(body, calls))
        return EVENTS, events(stream(body, calls))

    def calls(self, body: dict[str, Any]) -> list[tuple[str, str, str]]:
        """The tool calls to make: id, tool, input as JSON."""
        users = [text_of(m["content"]) for m in body["messages"] if m["role"] == "user"]
        number = sum(m["role"] == "assistant" for m in body["messages"])
        word, turn = self.turn(users if body.get("tools") else (), number)
        return [
            (f"call_{word}_{number}_{index}", tool, as_json(value))
            for index, (tool, value) in enumerate(turn or ())
        ]

    def results(self) -> dict[str, str]:
        """What the model was given for each call id, last."""
        return {
            block["tool_use_id"]: text_of(block.get("content"))
            for body in self.requests
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        }


def message(body: dict[str, Any], calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": call_id, "name": tool, "input": json.loads(value)}
        for call_id, tool, value in calls
    ]
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "mock"),
        "content": content or [{"type": "text", "text": "done"}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def stream(body: dict[str, Any], calls: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    start = message(body, [])
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "content": [], "stop_reason": None}}
    ]
    if not calls:
        events += block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"})
    for index, (call_id, tool, value) in enumerate(calls):
        shell = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
        events += block(index, shell, {"type": "input_json_delta", "partial_json": value})
    stop = "tool_use" if calls else "end_turn"
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}})
    return [*events, {"type": "message_stop"}]


def block(index: int, shell: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": shell},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if part.get("type") == "text")
