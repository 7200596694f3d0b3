"""A scripted model: OpenAI chat completions, whole or streamed.

The word in a user message picks the script, the number of assistant messages the turn. A turn is
a list of `(tool, arguments)`, or a text, which is how tools are called in markdown; past the last
turn it says "done".
"""

from __future__ import annotations

import json
from typing import Any

from yarp.testing.live import EVENTS, JSON, ScriptedModel, as_json, results_of_chat, text_of


class Model(ScriptedModel):
    base = "/v1"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, str]:
        self.requests.append(body)
        message = self.message(body)
        if not body.get("stream"):
            return JSON, json.dumps(completion(message))
        return EVENTS, "".join(f"data: {event}\n\n" for event in streamed(message))

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        said = [text_of(m["content"]) for m in messages if m["role"] == "user"]
        number = sum(message["role"] == "assistant" for message in messages)
        word, turn = self.turn(said, number)
        if turn is None or isinstance(turn, str):
            return {"role": "assistant", "content": "done" if turn is None else turn}
        calls = [
            {
                "id": f"call_{word}_{number}_{index}",
                "type": "function",
                "function": {"name": tool, "arguments": as_json(arguments)},
            }
            for index, (tool, arguments) in enumerate(turn)
        ]
        return {"role": "assistant", "content": "Step.", "tool_calls": calls}

    def results(self) -> dict[str, str]:
        """What the model was given for each call id, last."""
        return results_of_chat(self.requests)

    def told(self) -> str:
        """All that stands in the last request."""
        return "\n".join(text_of(message["content"]) for message in self.requests[-1]["messages"])


def completion(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "chunk",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
            "prompt_tokens_details": {"cached_tokens": 60},
        },
    }


def streamed(message: dict[str, Any]) -> list[str]:
    chunk = {"id": "chunk", "object": "chat.completion.chunk", "created": 0, "model": "mock"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    for index, call in enumerate(message.get("tool_calls", ())):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    return [*(json.dumps({**chunk, "choices": [choice]}) for choice in choices), "[DONE]"]
