"""A scripted model on loopback: OpenAI chat completions, streamed, for Pi's `openai-completions`.

A script maps a word to turns. The word in the first user message picks the script, the number
of assistant messages picks the turn: nothing is kept between requests, so that forks, resumed
sessions and retries replay. A turn is a list of `(tool, arguments)`, the arguments as a JSON
text or a value; an empty turn says "done". Call ids repeat between sessions on purpose.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Turn = list[tuple[str, Any]]


class Model:
    """Serves until `close`; `requests` holds every body that was received."""

    def __init__(self, scripts: dict[str, list[Turn]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._scripts = scripts
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for event in model.answer(body):
                    self.wfile.write(f"data: {event}\n\n".encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> list[str]:
        messages = body["messages"]
        first = next(text_of(m["content"]) for m in messages if m["role"] == "user")
        word = next((word for word in self._scripts if word in first), None)
        number = sum(message["role"] == "assistant" for message in messages)
        turns = self._scripts[word] if word else []
        turn = turns[number] if number < len(turns) else []
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if turn else "done"}]
        for index, (tool, arguments) in enumerate(turn):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            function = {"name": tool, "arguments": text}
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
        return {
            message["tool_call_id"]: text_of(message["content"])
            for body in self.requests
            for message in body["messages"]
            if message["role"] == "tool"
        }


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])
