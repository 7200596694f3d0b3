"""A scripted model: OpenAI's Responses API, streamed, as Codex asks for it.

The word in the last user message that has one picks the script; how many calls were answered
since picks the turn. A turn is a list of `(tool, arguments)`, or of `("js", source)` for a script
in code mode; an empty turn says "done". `mcp__SERVER__TOOL` calls a tool of an MCP server.
Arguments that are a function get all answers so far, as one text.
"""

from __future__ import annotations

from typing import Any

from yarp.testing.live import EVENTS, ScriptedModel, as_json, events, text_of

ANSWERS = ("function_call_output", "custom_tool_call_output")


class Model(ScriptedModel):
    base = "/v1"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, str]:
        self.requests.append(body)
        return EVENTS, events(self.events(body))

    def events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        word, since, answers = None, 0, ""
        for item in body["input"]:
            if item.get("type", "message") == "message" and item.get("role") == "user":
                found = [one for one in self.scripts if one in text_of(item["content"])]
                if found:
                    word, since = found[0], 0
            elif item.get("type") in ANSWERS:
                since += 1
                answers += text_of(item["output"])
        turns = self.scripts[word] if word else []
        number = 0
        while number < len(turns) and since >= len(turns[number]) > 0:
            since -= len(turns[number])
            number += 1
        turn = turns[number] if number < len(turns) else []
        items = [
            self._item(
                f"{word}_{number}_{index}", tool, given(answers) if callable(given) else given
            )
            for index, (tool, given) in enumerate(turn)
        ]
        if not items:
            content = [{"type": "output_text", "text": "done", "annotations": []}]
            items = [{"type": "message", "id": "msg_1", "role": "assistant", "content": content}]
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
        ]
        for index, item in enumerate(items):
            place = {"output_index": index, "item": {**item, "status": "completed"}}
            events.append({"type": "response.output_item.added", **place})
            events.append({"type": "response.output_item.done", **place})
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        response = {"id": "resp_1", "status": "completed", "output": items, "usage": usage}
        return [*events, {"type": "response.completed", "response": response}]

    @staticmethod
    def _item(name: str, tool: str, arguments: Any) -> dict[str, Any]:
        if tool in ("js", "apply_patch"):
            tool = "exec" if tool == "js" else tool
            ids = {"id": f"ctc_{name}", "call_id": f"call_{name}"}
            return {"type": "custom_tool_call", **ids, "name": tool, "input": arguments}
        item = {"type": "function_call", "id": f"fc_{name}", "call_id": f"call_{name}"}
        space, _, last = tool.rpartition("__")
        named = {"name": last, "namespace": space} if space else {"name": tool}
        return {**item, **named, "arguments": as_json(arguments)}

    def results(self) -> dict[str, str]:
        """What the model was given for each call id, last."""
        return {
            item["call_id"]: text_of(item["output"])
            for body in self.requests
            for item in body["input"]
            if item.get("type") in ANSWERS
        }
