"""Tokens of Claude Code's sessions against the truth of a made-up account.

`Account` plays sessions and keeps its own books: what each response cost in the end, and in which
turn of which file it was first seen. It knows the seed's rules and nothing of the reader. Source:
seed 002, "Loop model and usage".
"""

from __future__ import annotations

import json
import random

import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import Options, sync
from yarp.testing.books import Books, total
from yarp_claude.trace import reader


class File(Books):
    """One transcript: its lines, and for each of its turns the responses that count there."""

    def __init__(self, name, native_id, **common):
        super().__init__()
        self.name = name
        self.native_id = native_id
        self.common = common
        self.lines = []

    def truth(self):
        return [(self.native_id, number, total(turn)) for number, turn in enumerate(self.loops)]


class Account:
    """Plays sessions of Claude Code by a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers_turns = seed % 2 == 0
        self.count = 0
        self.files = [self.session("s-main")]
        for _ in range(self.random.randint(2, 4)):
            self.turn(self.files[0])
        if self.chance(0.7):
            self.fork(self.files[0])
        if self.chance(0.5):
            self.files.append(self.session("s-beside"))
            self.turn(self.files[-1])

    def chance(self, share):
        return self.random.random() < share

    def name(self, kind):
        self.count += 1
        return f"{kind}-{self.count}"

    @staticmethod
    def session(name):
        return File(name, name, sessionId=name, isSidechain=False, cwd="/srv")

    def put(self, file, kind, **more):
        self.count += 1
        stamp = f"2026-11-30T03:{self.count // 60 % 60:02}:{self.count % 60:02}.000Z"
        base = {"type": kind, "uuid": self.name("u"), "timestamp": stamp} | file.common
        file.lines.append(base | more)

    def turn(self, file, *, steered=True):
        """A prompt, some responses with their calls, and an end, or none."""
        again = self.random.choice(file.lines) if file.lines and self.chance(0.6) else None
        submission = self.name("p")
        more = {"promptId": submission}
        if not file.common["isSidechain"]:
            more["promptSource"] = "typed"
            if self.numbers_turns:
                more["turnPosition"] = {"promptIndex": 1, "turnIndex": len(file.loops) + 1}
        self.put(file, "user", message={"role": "user", "content": self.name("ask")}, **more)
        file.loops.append([])
        for _ in range(self.random.randint(0, 3)):
            self.response(file, "tool_use", submission)
            if steered and self.chance(0.2):
                queued = {"type": "queued_command", "prompt": "mind this", "commandMode": "prompt"}
                self.put(file, "attachment", attachment=queued)
        if again is not None:
            self.replay(file, again)
        if self.numbers_turns and self.chance(0.15):
            return  # it was killed: the next turn says so
        self.response(file, "end_turn", submission)
        if self.chance(0.3):
            self.put(file, "system", subtype="turn_duration", durationMs=5)

    def response(self, file, stop, submission):
        if self.chance(0.15):  # made up by Claude Code: it cost nothing
            self.records(file, self.name("made-up"), "<synthetic>", "tool_use", counted=False)
        if self.chance(0.15):  # broken off: what was reported before counts, and it is tried again
            self.records(file, self.name("m"), "opus", None)
        missing = self.chance(0.15)
        self.records(file, None if missing else self.name("m"), "opus", stop)
        if stop == "tool_use":
            call = self.name("call")
            delegates = not file.common["isSidechain"] and self.chance(0.2)
            given = {"prompt": "do"} if delegates else {"command": "ls"}
            use = {"type": "tool_use", "id": call, "name": "Agent" if delegates else "Bash"}
            file.lines[-1]["message"]["content"].append(use | {"input": given})
            result = {"type": "tool_result", "tool_use_id": call, "content": "x"}
            details = {"totalTokens": 10**6, "usage": {"input_tokens": 10**6, "output_tokens": 1}}
            if delegates:
                details["agentId"] = self.helper(file)
            message = {"role": "user", "content": [result]}
            more = {"promptId": submission, "toolUseResult": details}
            self.put(file, "user", message=message, **more)

    def records(self, file, response, model, stop, *, counted=True):
        """The records of one response, a block each, with what it has cost by then."""
        whole, silent = self.usage(), self.chance(0.2)
        blocks = self.random.randint(1, 3)
        for number in range(1, blocks + 1):
            usage = dict(whole)
            usage["output_tokens"] = whole["output_tokens"] * number // blocks
            last = number == blocks
            if not last and self.chance(0.2):
                usage.pop(self.random.choice(["input_tokens", "output_tokens"]))
            if silent or self.chance(0.1):
                usage = None
            message = {"role": "assistant", "model": model, "stop_reason": stop if last else None}
            message["content"] = [{"type": "text", "text": self.name("said")}]
            message |= {} if response is None else {"id": response}
            message |= {} if usage is None else {"usage": usage}
            self.put(file, "assistant", message=message)
            self.book(file, response, usage, counted=counted)

    def book(self, file, response, usage, *, counted=True):
        if counted:
            file.meet(response)
        if counted and usage and {"input_tokens", "output_tokens"} <= usage.keys():
            file.observe(response, told(usage))

    def usage(self):
        usage = {
            "input_tokens": self.random.randint(0, 900),
            "output_tokens": self.random.randint(0, 900),
        }
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
            if self.chance(0.8):
                usage[name] = self.random.choice([0, self.random.randint(1, 900)])
        if self.chance(0.7):  # also more than all output: then it is no part of it
            thought = self.random.randint(0, max(1, usage["output_tokens"]) * 2)
            usage["output_tokens_details"] = {"thinking_tokens": thought}
        return usage

    def replay(self, file, line):
        """A line is written once more: as it was, or a response with what it cost in the end."""
        message = line.get("message", {})
        if line["type"] == "user" or (self.chance(0.5) and message.get("id")):
            file.lines.append(line)
            return
        if line["type"] != "assistant" or message["model"] != "opus" or "id" not in message:
            return
        usage = self.usage()
        late = message | {"usage": usage, "content": [{"type": "text", "text": self.name("said")}]}
        self.put(file, "assistant", message=late | {"stop_reason": None})
        self.book(file, message["id"], usage)

    def helper(self, file):
        """A subagent: a file of its own, with the session that started it."""
        name = self.name("a")
        common = file.common | {"isSidechain": True, "agentId": name}
        helper = File(f"{file.name}/subagents/agent-{name}", name, **common)
        self.files.append(helper)
        self.turn(helper, steered=False)
        return name

    def fork(self, file):
        """All lines under another session, all prompts under one id; then turns of its own."""
        name = self.name("s-fork")
        fork = File(name, name, **file.common | {"sessionId": name})
        submission = self.name("p")
        for line in file.lines:
            copy = line | {"sessionId": name}
            if "promptId" in copy:
                copy["promptId"] = submission
            if line["type"] == "assistant":
                copy["requestSessionId"] = line["sessionId"]
            fork.lines.append(copy)
        fork.copy_of(file)
        for _ in range(self.random.randint(1, 2)):
            self.turn(fork)
        self.files.append(fork)


def told(usage):
    """The seed's words for what Anthropic counts: input has all that was read and written."""
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    counts = {"input": usage["input_tokens"] + (read or 0) + (written or 0)}
    counts["output"] = usage["output_tokens"]
    thought = usage.get("output_tokens_details", {}).get("thinking_tokens")
    for name, count in (("cached", read), ("cache_write", written), ("reasoning", thought)):
        if count is not None and (name != "reasoning" or count <= counts["output"]):
            counts[name] = count
    return counts


def synced(database, root, **options):
    report = sync(database, [str(root)], {"claude": reader()}, Options(**options))
    assert not report.actions["failed"], report.sources
    opened = open_readonly(database)
    try:
        return [
            (native, position, usage and json.loads(usage))
            for native, position, usage in opened.execute(
                "SELECT s.native_id, l.session_position, l.usage FROM loops AS l"
                " JOIN sessions AS s USING (session_id) ORDER BY 1, 2"
            )
        ]
    finally:
        opened.close()


@pytest.mark.parametrize("seed", range(16))
def test_tokens_of_made_up_sessions_are_what_they_cost(tmp_path, seed):
    """However the files grow between syncs, and once more when all is read anew."""
    account = Account(seed)
    database, root = str(tmp_path / "index.sqlite3"), tmp_path / "projects"
    truth = sorted(row for file in account.files for row in file.truth())
    pieces = account.random.randint(1, 3)
    for piece in range(pieces):
        for file in account.files:
            path = root / f"{file.name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            size = len(file.lines)
            with path.open("a") as opened:
                for line in file.lines[size * piece // pieces : size * (piece + 1) // pieces]:
                    opened.write(json.dumps(line) + "\n")
        found = synced(database, root)
    assert found == truth
    assert synced(database, root, rebuild=True) == truth


def test_the_made_up_sessions_have_all_that_makes_counting_hard():
    """The generator is worth something only if the cases occur."""
    accounts = [Account(seed) for seed in range(16)]
    files = [file for account in accounts for file in account.files]
    lines = [line for file in files for line in file.lines]
    said = [line["message"] for line in lines if line["type"] == "assistant"]
    assert any(file.native_id.startswith("s-fork") for file in files)
    assert any(file.common["isSidechain"] for file in files)
    assert any("id" not in one for one in said)
    assert any(one["model"] == "<synthetic>" for one in said)
    assert any("usage" not in one for one in said)
    assert any(len(file.lines) != len({line["uuid"] for line in file.lines}) for file in files)
    assert any(
        turn and total(turn).keys() == {"input", "output"} for f in files for turn in f.loops
    )
