"""The real Codex in a home of its own: `codex exec`, and its app-server as an editor drives it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

FREE = ("--dangerously-bypass-approvals-and-sandbox",)
SANDBOXED = ("--sandbox", "workspace-write")


def environment(prefix: Path, home: Path) -> dict[str, str]:
    ours = ("XDG_", "YARP_PLUGINS")
    kept = {name: value for name, value in os.environ.items() if name.startswith(ours)}
    return kept | {
        "PATH": f"{prefix / 'node_modules' / '.bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "MOCK_API_KEY": "dummy",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


def configure(home: Path, url: str, model: str, *more: str) -> None:
    """Point Codex at the scripted model; `model` decides which tools it offers."""
    (home / ".codex").mkdir(exist_ok=True)
    lines = [
        f'model = "{model}"',
        'model_provider = "mock"',
        "check_for_update_on_startup = false",
        "[model_providers.mock]",
        'name = "mock"',
        f'base_url = "{url}"',
        'wire_api = "responses"',
        'env_key = "MOCK_API_KEY"',
        "request_max_retries = 0",
        "stream_max_retries = 0",
        "[analytics]",
        "enabled = false",
        *more,
    ]
    (home / ".codex" / "config.toml").write_text("\n".join(lines) + "\n")


def run(prefix: Path, home: Path, project: Path, prompt: str, *options: str) -> str:
    """`codex exec PROMPT`, run to its end; its events and complaints."""
    words = ["codex", "exec", "--json", "--skip-git-repo-check", *options, prompt]
    done = subprocess.run(
        words, cwd=project, env=environment(prefix, home), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


class AppServer:
    """One `codex app-server`; `asked` holds the approvals it asked for."""

    def __init__(self, prefix: Path, home: Path, project: Path, decision: str = "accept") -> None:
        self._process = subprocess.Popen(
            ["codex", "app-server"], cwd=project, env=environment(prefix, home),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.asked: list[dict[str, Any]] = []
        self._decision = decision
        self._number = 0
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._pumping = threading.Thread(target=self._pump, daemon=True)
        self._pumping.start()

    def __enter__(self) -> Self:
        information = {"name": "test", "version": "0"}
        capabilities = {"experimentalApi": True}
        self.call("initialize", clientInfo=information, capabilities=capabilities)
        self._send({"method": "initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._pumping.join()
            self._process.stdout.close()

    def _pump(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _until(self, key: str, value: object) -> dict[str, Any]:
        while True:
            message = self._lines.get(timeout=60)
            assert message is not None, "the app-server ended"
            if "method" in message and "id" in message:
                self.asked.append(message)
                self._send({"id": message["id"], "result": {"decision": self._decision}})
            elif message.get(key) == value:
                return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        message = self._until("id", self._number)
        assert "error" not in message, message
        found: dict[str, Any] = message["result"]
        return found

    def turn(self, prompt: str, cwd: Path, **options: Any) -> None:
        """A thread of its own, asked once, until it is at rest."""
        self.begin(prompt, cwd, **options)
        self.rest()

    def begin(self, prompt: str, cwd: Path, **options: Any) -> dict[str, str]:
        """A thread of its own, asked once; what names its turn."""
        thread = self.call("thread/start", cwd=str(cwd), **options)["thread"]["id"]
        asked = [{"type": "text", "text": prompt}]
        turn = self.call("turn/start", threadId=thread, input=asked)["turn"]["id"]
        return {"threadId": thread, "turnId": turn}

    def rest(self) -> None:
        self._until("method", "turn/completed")
