"""Codex's own app-server, asked about hooks, and told to trust them or to write its settings."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from typing import Any, Self

_SECONDS = 20


class AppServer:
    """One `codex app-server`, for the length of a `with`; OSError where it does not answer."""

    def __init__(self, codex: str, directory: str) -> None:
        self._directory = directory
        self._number = 0
        # Its own standard error is a log.
        self._process = subprocess.Popen(
            [codex, "app-server"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._alarm = threading.Timer(_SECONDS, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()

    def __enter__(self) -> Self:
        try:
            self._call("initialize", clientInfo={"name": "yarp", "version": "1"})
            self._send({"method": "initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def hooks(self) -> list[dict[str, Any]]:
        """The hooks that Codex finds for this directory, with key, source, hash and trust."""
        found = self._call("hooks/list", cwds=[self._directory])
        return [hook for entry in found["data"] for hook in entry["hooks"]]

    def trust(self, hooks: list[dict[str, Any]]) -> None:
        """Trust these hooks as they are now, as the review in the terminal would."""
        state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
        self.write("hooks.state", state, merge="upsert")

    def write(self, path: str, value: Any, *, merge: str = "replace") -> None:
        """Put a value into the user's config.toml."""
        edit = {"keyPath": path, "value": value, "mergeStrategy": merge}
        self._call("config/batchWrite", edits=[edit])

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict) and message.get("id") == self._number:
                if "error" in message:
                    raise OSError(f"codex app-server refuses {method}")
                result: dict[str, Any] = message.get("result") or {}
                return result
        raise OSError(f"codex app-server ended before it answered {method}")


def version(codex: str) -> str | None:
    """What `codex --version` says; None: nothing in time."""
    try:
        done = subprocess.run(
            [codex, "--version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else None
