"""For tests of a real agent: the agent from npm, and a model on loopback that plays a script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PATIENCE_S = 60
JSON, EVENTS = "application/json", "text/event-stream"


def folder(factory: pytest.TempPathFactory) -> Path:
    """Where agents are installed: `YARP_TEST_AGENTS`, which is kept, else a temporary folder."""
    kept = os.environ.get("YARP_TEST_AGENTS")
    return Path(kept) if kept else factory.mktemp("agents")


def from_npm(name: str, program: str, *packages: str, factory: pytest.TempPathFactory) -> Path:
    """The folder `name` with `packages` in its `node_modules`; installed unless `program` is there.

    The test is skipped where npm is missing or cannot install them.
    """
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    found = folder(factory) / name
    if not (found / "node_modules" / ".bin" / program).exists():
        found.mkdir(parents=True, exist_ok=True)
        (found / "package.json").write_text('{"name": "agents", "private": true}')
        words = ["npm", "install", "--no-audit", "--no-fund", *packages]
        done = subprocess.run(words, cwd=found, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install {name}: {done.stderr.strip()[-300:]}")
    return found


def eventually(found: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait for something to be there; what it is."""
    deadline = time.monotonic() + patience_s
    while not (answer := found()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return answer


class ScriptedModel:
    """A model's HTTP interface on loopback; it serves until `close`.

    A script maps a word to turns: a request that has the word gets the turns one by one.
    Nothing else is kept between requests, so that forks, resumed sessions and retries replay.
    `requests` holds the body of every request that was answered with a turn.
    """

    base = ""
    """The path that an agent's base URL has behind the port."""

    def __init__(self, scripts: dict[str, list[Any]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.scripts = scripts
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._send(JSON, "{}")

            def do_GET(self) -> None:
                self._send(JSON, '{"object": "list", "data": [], "models": []}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(*model.answer(self.path, body))

            def _send(self, kind: str, text: str) -> None:
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{self.base}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, str]:
        """The media type and the text that a POST of `body` to `path` is answered with."""
        raise NotImplementedError

    def turn(self, texts: Iterable[str], number: int) -> tuple[str | None, Any]:
        """The word that is in the first of `texts` that has one, and the turn; None: it is over."""
        word = next((word for text in texts for word in self.scripts if word in text), None)
        turns = self.scripts[word] if word else []
        return word, turns[number] if number < len(turns) else None


def text_of(content: Any) -> str:
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


def as_json(arguments: Any) -> str:
    """The arguments of a call as a model writes them: a text as it is, a value as JSON."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def events(values: Iterable[dict[str, Any]]) -> str:
    """Server-sent events, each under the name of its type."""
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in values)


def results_of_chat(requests: Iterable[dict[str, Any]]) -> dict[str, str]:
    """What chat completions were given for each call id, last."""
    return {
        message["tool_call_id"]: text_of(message["content"])
        for body in requests
        for message in body["messages"]
        if message["role"] == "tool"
    }
