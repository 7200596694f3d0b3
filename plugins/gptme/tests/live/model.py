"""A scripted model on loopback: OpenAI chat completions, whole or streamed.

A script maps a word to turns. The word in a user message picks the script, the number of
assistant messages picks the turn: nothing is kept between requests, so that retries replay. A
turn is a list of `(tool, arguments)`, or a text, which is how tools are called in markdown;
past the last turn it says "done".
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Turn = str | list[tuple[str, Any]]


class Model:
    """Serves until `close`; `requests` holds every body that asked for a completion."""

    def __init__(self, scripts: dict[str, list[Turn]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._scripts = scripts
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._send("application/json", json.dumps({"object": "list", "data": []}))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                message = model.answer(body)
                if not body.get("stream"):
                    self._send("application/json", json.dumps(completion(message)))
                    return
                events = "".join(f"data: {event}\n\n" for event in streamed(message))
                self._send("text/event-stream", events)

            def _send(self, kind: str, text: str) -> None:
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        said = [text_of(m["content"]) for m in messages if m["role"] == "user"]
        word = next((word for text in said for word in self._scripts if word in text), None)
        number = sum(message["role"] == "assistant" for message in messages)
        turns = self._scripts[word] if word else []
        turn = turns[number] if number < len(turns) else "done"
        if isinstance(turn, str):
            return {"role": "assistant", "content": turn}
        calls = [
            {
                "id": f"call_{word}_{number}_{index}",
                "type": "function",
                "function": {
                    "name": tool,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for index, (tool, arguments) in enumerate(turn)
        ]
        return {"role": "assistant", "content": "Step.", "tool_calls": calls}

    def results(self) -> dict[str, str]:
        """What the model was given for each call id, last."""
        return {
            message["tool_call_id"]: text_of(message["content"])
            for body in self.requests
            for message in body["messages"]
            if message["role"] == "tool"
        }

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
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
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


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])
