"""Stores of three agents as they lie in a home directory, made up; and what is true of them.

Claude Code (projects with subagents and forks that keep the records' uuid), Codex (rollouts with
projections, and forks that replay their history at a new time), Pi (session trees, and forks that
keep their entries). Turns begin with a request and end with an answer; a few are steered, a few are
interrupted. A few calls have no answer, and a few lines are torn. What an importer should find
stands in `Truth`.
"""

import contextlib
import datetime as dt
import hashlib
import json
import os
import random
import uuid

from printed import Printer

PROJECTS = ("/home/dev/work/ledger", "/home/dev/work/api.server", "/home/dev/src/übung")
SHARES = {"claude": 0.5, "codex": 0.4, "pi": 0.1}
_FORKED = 0.09
_TORN = 0.02
_UNANSWERED = 0.01
_STEERED = 0.02
_INTERRUPTED = 0.05
_SOUGHT = 0.01
_BEGAN = dt.datetime(2026, 9, 1, 7, tzinfo=dt.timezone.utc)  # noqa: UP017 - as everywhere here


class Truth:
    """Calls and answers counted once, however often forks copied them; torn lines; files."""

    def __init__(self):
        self.calls = self.results = self.unanswered = self.malformed = 0
        self.files = self.source_bytes = self.copied_calls = 0
        self.texts = set()  # digests of what the answers say


def write(home, megabytes, seed=11):
    """Fill `home` with stores of about so many MB; the truth by agent."""
    truths = {}
    for number, (agent, share) in enumerate(SHARES.items()):
        store = {"claude": Claude, "codex": Codex, "pi": Pi}[agent](home, Printer(seed + number))
        while store.truth.source_bytes < megabytes * 1e6 * share:
            store.session()
        truths[agent] = store.truth
    return truths


class _Store:
    def __init__(self, home, printer):
        self.home = home
        self.printer = printer
        self.random = printer.random
        self._facts = random.Random(type(self).__name__)
        self.truth = Truth()
        self.now = _BEGAN

    @contextlib.contextmanager
    def aside(self):
        """What is drawn meanwhile changes nothing of the calls and outputs that come."""
        before = self.random
        self.random = self.printer.random = self._facts
        try:
            yield
        finally:
            self.random = self.printer.random = before

    def happens(self, share):
        return self._facts.random() < share

    def prose(self, words):
        """What people and agents say; some of it is what the documentation searches for."""
        said = self.printer.prose(words)
        return f"{said} It is the retry timeout." if self.happens(_SOUGHT) else said

    def uuid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def tick(self, seconds=20):
        self.now += dt.timedelta(milliseconds=self.random.randrange(150, seconds * 1000))
        return self.time()

    def time(self):
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def milliseconds(self):
        return int(self.now.timestamp() * 1000)

    def put(self, path, records):
        lines = [
            json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records
        ]
        if self.random.random() < _TORN:
            lines.insert(len(lines) // 2, lines[len(lines) // 2][:40])
            self.truth.malformed += 1
        data = ("\n".join(lines) + "\n").encode()
        path = os.path.join(self.home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)
        self.truth.files += 1
        self.truth.source_bytes += len(data)

    def answered(self, text):
        """Count a call; whether it gets its answer."""
        self.truth.calls += 1
        answered = self.random.random() >= _UNANSWERED
        if answered:
            self.truth.texts.add(hashlib.sha256(text.encode()).digest())
        self.truth.results += answered
        self.truth.unanswered += not answered
        return answered


class Claude(_Store):
    def session(self):
        self.now += dt.timedelta(hours=self.random.randrange(1, 9))
        session, folder = self.uuid(), self.random.choice(PROJECTS)
        place = ".claude/projects/" + "".join(
            c if c.isascii() and c.isalnum() else "-" for c in folder
        )
        records = self._turns(session, folder, self.random.randrange(2, 8))
        self.put(f"{place}/{session}.jsonl", records)
        for _ in range(self.random.randrange(3)):
            agent = self.printer.hexadecimal(17)
            side = self._turns(session, folder, 1, agent)
            self.put(f"{place}/{session}/subagents/agent-{agent}.jsonl", side)
        if self.random.random() < _FORKED:
            fork = self.uuid()
            kept = records[: self.random.randrange(len(records) // 2, len(records) + 1)]
            self.truth.copied_calls += sum(_uses(record) for record in kept)
            copies = [{**record, "sessionId": fork} for record in kept]
            self.put(f"{place}/{fork}.jsonl", copies + self._turns(fork, folder, 1))

    def _turns(self, session, folder, turns, agent=None):
        records, parent = [], None
        model = self.random.choice(("claude-opus-4-1-20250805", "claude-sonnet-4-5-20250929"))

        def add(kind, message, **more):
            nonlocal parent
            record = {
                "parentUuid": parent,
                "isSidechain": agent is not None,
                "userType": "external",
                "cwd": folder,
                "sessionId": session,
                "version": "2.1.14",
                "gitBranch": "main",
                **({"agentId": agent} if agent else {}),
                "type": kind,
                "message": message,
                "uuid": self.uuid(),
                "timestamp": self.tick(6),
                **more,
            }
            parent = record["uuid"]
            records.append(record)

        for _ in range(turns):
            add("user", {"role": "user", "content": self.printer.prose(30)})
            for _ in range(self.random.randrange(2, 14)):
                self._step(add, model)
                if self.happens(_STEERED):
                    with self.aside():
                        add("user", {"role": "user", "content": self.prose(12)})
            with self.aside():
                self._end(add, model)
        return records

    def _end(self, add, model):
        if self.happens(_INTERRUPTED):
            broken_off = {"type": "text", "text": "[Request interrupted by user]"}
            add("user", {"role": "user", "content": [broken_off]})
            return
        message = self._message(model, "end_turn")
        add("assistant", {**message, "content": [{"type": "text", "text": self.prose(60)}]})

    def _message(self, model, stop_reason):
        return {
            "id": "msg_01" + self.printer.hexadecimal(22),
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_reason": stop_reason,
            "usage": {"input_tokens": self.random.randrange(50), "output_tokens": 90},
        }

    def _step(self, add, model):
        message = self._message(model, "tool_use")
        add("assistant", {**message, "content": [{"type": "text", "text": self.printer.prose(25)}]})
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            name, given, text, structured, failed = self._tool()
            use = "toolu_01" + self.printer.hexadecimal(22)
            block = {"type": "tool_use", "id": use, "name": name, "input": given}
            add("assistant", {**message, "content": [block]})
            if self.answered(text):
                result = {"tool_use_id": use, "type": "tool_result", "content": text}
                if name == "Bash" or failed:
                    result["is_error"] = failed
                message_back = {"role": "user", "content": [result]}
                add("user", message_back, toolUseResult=structured)

    def _tool(self):
        name = self.random.choices(("Bash", "Read", "Grep", "Edit"), (5, 3, 1, 1))[0]
        path = "/" + self.printer.path()
        if name == "Bash":
            command, text, status = self.printer.shell()
            given = {"command": command, "description": self.printer.prose(5)}
            shown = text.rstrip("\n")
            if status:
                return (
                    name,
                    given,
                    f"Exit code {status}\n{shown}",
                    f"Error: Exit code {status}",
                    True,
                )
            about = {"stdout": shown, "stderr": "", "interrupted": False, "isImage": False}
            return name, given, shown, about, False
        if name == "Read":
            text = self.printer.listing(min(self.printer.size(), 60_000))
            file = {"filePath": path, "content": text, "numLines": text.count("\n") + 1}
            return name, {"file_path": path}, text, {"type": "text", "file": file}, False
        if name == "Grep":
            text = self.printer.matches(min(self.printer.size(), 30_000))
            about = {"mode": "content", "numFiles": 0, "filenames": [], "content": text}
            return (
                name,
                {"pattern": self.printer.word(), "output_mode": "content"},
                text,
                about,
                False,
            )
        old, new = self.printer.listing(300), self.printer.listing(300)
        about = {"filePath": path, "oldString": old, "newString": new, "structuredPatch": []}
        given = {"file_path": path, "old_string": old, "new_string": new}
        return name, given, f"The file {path} has been updated.", about, False


def _uses(record):
    content = record["message"]["content"]
    return isinstance(content, list) and content[0]["type"] == "tool_use"


class Codex(_Store):
    taken = 0

    def session(self):
        self.now += dt.timedelta(hours=self.random.randrange(1, 9))
        thread, folder = self.uuid(), self.random.choice(PROJECTS)
        records = [self._meta(thread, folder), *self._turns(folder, self.random.randrange(1, 5))]
        self._rollout(thread, records)
        if self.random.random() < _FORKED:
            fork = self.uuid()
            time = self.tick()
            replayed = [{**record, "timestamp": time} for record in records]
            self.truth.copied_calls += sum(
                record["payload"].get("type") == "function_call" for record in records
            )
            meta = self._meta(fork, folder, forked_from_id=thread)
            self._rollout(fork, [meta, *replayed, *self._turns(folder, 1)])

    def _rollout(self, thread, records):
        day = self.now.strftime("%Y/%m/%d")
        time = self.now.strftime("%Y-%m-%dT%H-%M-%S")
        self.put(f".codex/sessions/{day}/rollout-{time}-{thread}.jsonl", records)

    def _meta(self, thread, folder, **more):
        payload = {
            "id": thread,
            "timestamp": self.tick(),
            "cwd": folder,
            "originator": "codex_cli_rs",
            "cli_version": "0.98.0",
            "source": "cli",
            "model_provider": "openai",
            "base_instructions": {"text": self.printer.prose(400)},
            **more,
        }
        return {"timestamp": self.time(), "type": "session_meta", "payload": payload}

    def _turns(self, folder, turns):
        records = []

        def add(kind, payload):
            records.append({"timestamp": self.tick(4), "type": kind, "payload": payload})

        for _ in range(turns):
            turn = self.uuid()
            with self.aside():
                started = {"type": "task_started", "turn_id": turn, "model_context_window": 272000}
                add("event_msg", started)
            context = {"turn_id": turn, "cwd": folder, "model": "gpt-5-codex", "effort": "high"}
            add("turn_context", context)
            self._asked(add, self.printer.prose(30))
            for _ in range(self.random.randrange(3, 16)):
                self._step(add, folder, turn)
                if self.happens(_STEERED):
                    with self.aside():
                        self._asked(add, self.prose(12))
            with self.aside():
                self._end(add, turn)
        return records

    def _asked(self, add, text):
        content = [{"type": "input_text", "text": text}]
        add("response_item", {"type": "message", "role": "user", "content": content})
        with self.aside():
            add("event_msg", {"type": "user_message", "message": text, "kind": "plain"})

    def _end(self, add, turn):
        if self.happens(_INTERRUPTED):
            add("event_msg", {"type": "turn_aborted", "turn_id": turn, "reason": "interrupted"})
            return
        text = self.prose(60)
        content = [{"type": "output_text", "text": text}]
        answer = {"type": "message", "role": "assistant", "phase": "final_answer"}
        add("event_msg", {"type": "agent_message", "message": text, "phase": "final_answer"})
        add("response_item", {**answer, "content": content})
        taken = self.random.randrange(1_000, 90_000)
        last = {"input_tokens": taken, "cached_input_tokens": taken // 2, "output_tokens": 90}
        self.taken += taken + 90
        total = {**last, "total_tokens": self.taken}
        info = {"last_token_usage": last, "total_token_usage": total}
        add("event_msg", {"type": "token_count", "info": info, "rate_limits": None})
        ended = {"type": "task_complete", "turn_id": turn, "last_agent_message": text}
        add("event_msg", ended)

    def _step(self, add, folder, turn):
        thought = {
            "type": "reasoning",
            "summary": [],
            "encrypted_content": self.printer.hexadecimal(900),
        }
        add("response_item", thought)
        call = "call_" + self.printer.hexadecimal(24)
        command, text, status = self.printer.shell()
        given = json.dumps({"cmd": command, "workdir": folder, "yield_time_ms": 1000})
        add(
            "response_item",
            {"type": "function_call", "name": "exec_command", "arguments": given, "call_id": call},
        )
        said = f"Wall time: 1.0 seconds\nProcess exited with code {status}\nOutput:\n{text}"
        said = f"Chunk ID: {self.printer.hexadecimal(6)}\n{said}"
        if not self.answered(said):
            return
        if self.random.random() < 0.3:
            ended = {
                "type": "exec_command_end",
                "call_id": call,
                "turn_id": turn,
                "command": ["bash", "-lc", command],
                "cwd": folder,
                "stdout": text,
                "stderr": "",
                "aggregated_output": text,
                "exit_code": status,
                "duration": {"secs": 1, "nanos": 0},
                "formatted_output": "",
            }
            add("event_msg", ended)
        add("response_item", {"type": "function_call_output", "call_id": call, "output": said})
        add("event_msg", {"type": "token_count", "info": None, "rate_limits": None})


class Pi(_Store):
    def session(self):
        self.now += dt.timedelta(hours=self.random.randrange(1, 9))
        folder = self.random.choice(PROJECTS)
        entries = self._turns(self.random.randrange(1, 6))
        self._file(folder, self.uuid(), entries)
        if self.random.random() < _FORKED:
            kept = entries[: self.random.randrange(len(entries) // 2, len(entries) + 1)]
            self.truth.copied_calls += sum(
                any(block["type"] == "toolCall" for block in entry["message"]["content"])
                for entry in kept
            )
            self._file(folder, self.uuid(), kept + self._turns(1, kept[-1]["id"]))

    def _file(self, folder, session, entries):
        head = {
            "type": "session",
            "version": 3,
            "id": session,
            "timestamp": self.tick(),
            "cwd": folder,
        }
        name = self.now.strftime("%Y-%m-%dT%H-%M-%S-000Z")
        place = "--" + folder.strip("/").replace("/", "-") + "--"
        self.put(f".pi/agent/sessions/{place}/{name}_{session}.jsonl", [head, *entries])

    def _turns(self, turns, parent=None):
        entries = []

        def add(message):
            nonlocal parent
            entry = {
                "type": "message",
                "id": self.printer.hexadecimal(8),
                "parentId": parent,
                "timestamp": self.tick(),
                "message": {**message, "timestamp": self.milliseconds()},
            }
            parent = entry["id"]
            entries.append(entry)

        for _ in range(turns):
            add({"role": "user", "content": [{"type": "text", "text": self.printer.prose(20)}]})
            for _ in range(self.random.randrange(1, 10)):
                call = "toolu_" + self.printer.hexadecimal(20)
                command, text, status = self.printer.shell()
                use = {
                    "type": "toolCall",
                    "id": call,
                    "name": "bash",
                    "arguments": {"command": command},
                }
                add(
                    {
                        "role": "assistant",
                        "content": [{"type": "text", "text": self.printer.prose(9)}, use],
                        "provider": "anthropic",
                        "model": "claude-sonnet-4-5",
                        "stopReason": "toolUse",
                    }
                )
                if self.answered(text):
                    add(
                        {
                            "role": "toolResult",
                            "toolCallId": call,
                            "toolName": "bash",
                            "content": [{"type": "text", "text": text}],
                            "details": {},
                            "isError": bool(status),
                        }
                    )
                if self.happens(_STEERED):
                    with self.aside():
                        said = [{"type": "text", "text": self.prose(12)}]
                        add({"role": "user", "content": said})
            with self.aside():
                add(self._end())
        return entries

    def _end(self):
        broken_off = self.happens(_INTERRUPTED)
        content = [] if broken_off else [{"type": "text", "text": self.prose(40)}]
        taken = self.random.randrange(1_000, 90_000)
        return {
            "role": "assistant",
            "content": content,
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "stopReason": "aborted" if broken_off else "stop",
            "usage": {"input": taken, "output": 90, "cacheRead": taken // 2, "cacheWrite": 0},
        }
