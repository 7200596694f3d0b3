"""A scripted model on loopback: Anthropic messages, streamed.

A script maps a word to turns. The word in the first user message that holds one picks the script,
the number of assistant messages picks the turn: nothing is kept between requests, so that resumed
sessions and retries replay. A turn is a list of `(tool, input)`, the input as a JSON text or a
value; an empty turn says "done".
"""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Turn = list[tuple[str, Any]]


class Model:
    """Serves until `close`; `requests` holds every body that asked for a message."""

    def __init__(self, scripts: dict[str, list[Turn]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._scripts = scripts
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._json({})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if "count_tokens" in self.path:
                    self._json({"input_tokens": 100})
                    return
                model.requests.append(body)
                blocks = model.answer(body)
                if not body.get("stream"):
                    self._json(message(body, blocks))
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for event in stream(body, blocks):
                    text = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                    self.wfile.write(text.encode())
                self.close_connection = True

            def _json(self, value: object) -> None:
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> list[tuple[str, str, str]]:
        """The tool calls to make: id, tool, input as JSON."""
        users = [text_of(m["content"]) for m in body["messages"] if m["role"] == "user"]
        word = next((word for text in users for word in self._scripts if word in text), None)
        number = sum(m["role"] == "assistant" for m in body["messages"])
        turns = self._scripts[word] if word and body.get("tools") else []
        turn = turns[number] if number < len(turns) else []
        return [
            (
                f"call_{word}_{number}_{index}",
                tool,
                value if isinstance(value, str) else json.dumps(value),
            )
            for index, (tool, value) in enumerate(turn)
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
