"""A scripted model: OpenAI chat completions, streamed, for Pi's `openai-completions`.

The word in the first user message picks the script, the number of assistant messages the turn. A
turn is a list of `(tool, arguments)`, the arguments as a JSON text or a value; an empty turn says
"done". Call ids repeat between sessions on purpose.
"""

from __future__ import annotations

import json
from typing import Any

from yarp.testing.live import EVENTS, ScriptedModel, as_json, results_of_chat, text_of


class Model(ScriptedModel):
    base = "/v1"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, str]:
        self.requests.append(body)
        return EVENTS, "".join(f"data: {event}\n\n" for event in self.events(body))

    def events(self, body: dict[str, Any]) -> list[str]:
        messages = body["messages"]
        first = next(text_of(m["content"]) for m in messages if m["role"] == "user")
        number = sum(message["role"] == "assistant" for message in messages)
        word, turn = self.turn([first], number)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if turn else "done"}]
        for index, (tool, arguments) in enumerate(turn or ()):
            function = {"name": tool, "arguments": as_json(arguments)}
            call = {"index": index, "id": f"call_{word}_{number}_{index}", "type": "function"}
            deltas.append({"tool_calls": [{**call, "function": function}]})
        chunk = {"id": "chunk", "object": "chat.completion.chunk", "created": 0, "model": "mock"}
        end = "tool_calls" if turn else "stop"
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": end})
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        events = [json.dumps({**chunk, "choices": [choice]}) for choice in choices]
        return [*events, json.dumps({**chunk, "choices": [], "usage": usage}), "[DONE]"]

    def results(self) -> dict[str, str]:
        """What the model was given for each call id, last."""
        return results_of_chat(self.requests)
