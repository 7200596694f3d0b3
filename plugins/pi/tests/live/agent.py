"""The real Pi in a home of its own, driven over its RPC mode."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path


class Pi:
    """One running `pi --mode rpc`."""

    def __init__(self, prefix: Path, home: Path, project: Path, *options: str) -> None:
        words, environment = _start(prefix, home)
        self._process = subprocess.Popen(
            [*words, *options, "--mode", "rpc"],
            cwd=project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.seen: list[dict[str, Any]] = []
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._pumping = threading.Thread(target=self._pump, daemon=True)
        self._pumping.start()

    @staticmethod
    def once(
        prefix: Path, home: Path, project: Path, prompt: str
    ) -> subprocess.CompletedProcess[str]:
        """`pi -p PROMPT`, run to its end."""
        words, environment = _start(prefix, home)
        return subprocess.run(
            [*words, "-p", prompt], cwd=project, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._pumping.join()
            assert self._process.stdout
            self._process.stdout.close()

    def _pump(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def until(self, *types: str) -> dict[str, Any]:
        while True:
            found = self._lines.get(timeout=60)
            assert found is not None, "pi ended"
            if found["type"] != "message_update":
                self.seen.append(found)
            # Before 1.0 a run ends with agent_end; since, with agent_settled after it.
            if found["type"] in types and "willRetry" not in found:
                return found

    def command(self, name: str, /, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin
        line = json.dumps({"id": name, "type": name, **fields})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        response = self.until("response")
        assert response.get("success"), response
        found: dict[str, Any] = response.get("data") or {}
        return found

    def prompt(self, text: str) -> None:
        """Ask, and wait until the agent is at rest."""
        self.command("prompt", message=text)
        self.until("agent_settled", "agent_end")

    def writer(self) -> int:
        """The process id of the session's `yarp archive ingest`."""
        words = ["ps", "-o", "pid=,args=", "--ppid", str(self._process.pid)]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        (line,) = (line for line in found.splitlines() if line.endswith("archive ingest"))
        return int(line.split()[0])

    def said(self) -> list[str]:
        """What extensions told the user."""
        return [
            event["message"]
            for event in self.seen
            if event["type"] == "extension_ui_request" and event.get("method") == "notify"
        ]


def _start(prefix: Path, home: Path) -> tuple[list[str], dict[str, str]]:
    """The words that start Pi, and the environment it gets."""
    binaries = prefix / "node_modules" / ".bin"
    kept = {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
    environment = kept | {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "PI_SKIP_VERSION_CHECK": "1",
    }
    node = os.environ.get("YARP_TEST_PI_NODE") or str(binaries / "node")
    model = ["--provider", "mock", "--model", "mock-model"]
    return [node, str(binaries / "pi"), *model], environment
