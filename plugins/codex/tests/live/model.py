"""A scripted model on loopback: OpenAI's Responses API, streamed, as Codex asks for it.

A script maps a word to turns. The word in the last user message that has one picks the
script; how many calls were answered since picks the turn, so that nothing is kept between
requests. A turn is a list of `(tool, arguments)`, or of `("js", source)` for a script in code
mode; an empty turn says "done". `mcp__SERVER__TOOL` calls a tool of an MCP server. Arguments that
are a function get all answers so far, as one text.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Turn = list[tuple[str, Any]]
ANSWERS = ("function_call_output", "custom_tool_call_output")


class Model:
    """Serves until `close`; `requests` holds every body that was received."""

    def __init__(self, scripts: dict[str, list[Turn]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._scripts = scripts
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b'{"object": "list", "data": [], "models": []}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for event in model.answer(body):
                    kind, data = event["type"], json.dumps(event)
                    self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        word, since, answers = None, 0, ""
        for item in body["input"]:
            if item.get("type", "message") == "message" and item.get("role") == "user":
                found = [one for one in self._scripts if one in text_of(item["content"])]
                if found:
                    word, since = found[0], 0
            elif item.get("type") in ANSWERS:
                since += 1
                answers += text_of(item["output"])
        turns = self._scripts[word] if word else []
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
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        item = {"type": "function_call", "id": f"fc_{name}", "call_id": f"call_{name}"}
        space, _, last = tool.rpartition("__")
        named = {"name": last, "namespace": space} if space else {"name": tool}
        return {**item, **named, "arguments": text}

    def results(self) -> dict[str, str]:
        """What the model was given for each call id, last."""
        return {
            item["call_id"]: text_of(item["output"])
            for body in self.requests
            for item in body["input"]
            if item.get("type") in ANSWERS
        }


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])
