"""Tokens of Pi's sessions against the truth of a made-up account.

`Account` plays sessions and keeps its own books: what each answer cost in the end, and in which
loop of which file it was first seen. It knows the seed's rules and nothing of the reader. Source:
seed 002, "Loop model and usage".
"""

from __future__ import annotations

import json
import random

import pytest

from yarp.index.store import open_readonly
from yarp.index.sync import Options, sync
from yarp.testing.books import Books, total
from yarp_pi.trace import reader


class File(Books):
    """One session: its lines, and for each of its loops the answers that count there."""

    def __init__(self, name, version=3, **header):
        super().__init__()
        self.name = name
        self.has_ids = version > 1
        head = {"type": "session", "id": name, "timestamp": "2026-11-29T21:08:00.000Z"}
        head |= {"cwd": "/srv"} | header
        self.lines = [head | ({"version": version} if version > 1 else {})]
        self.leaf = None

    def truth(self):
        return [(self.name, number, total(loop)) for number, loop in enumerate(self.loops)]


class Account:
    """Plays sessions of Pi by a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        first = File("s-main", version=1 if seed % 5 == 4 else 3)
        self.files = [first]
        for _ in range(self.random.randint(2, 4)):
            self.loop(first)
        if first.has_ids and self.chance(0.7):
            self.fork(first)
        if self.chance(0.5):
            self.files.append(File("s-beside"))
            self.loop(self.files[-1])

    def chance(self, share):
        return self.random.random() < share

    def put(self, file, kind, **body):
        """An entry that goes on from the last one; older sessions have no ids."""
        self.count += 1
        stamp = f"2026-11-29T21:{self.count // 60 % 60:02}:{self.count % 60:02}.000Z"
        line = {"type": kind, "timestamp": stamp}
        if file.has_ids:
            line |= {"id": f"{self.count:08x}", "parentId": file.leaf}
            file.leaf = line["id"]
        file.lines.append(line | body)
        return line.get("id")

    def message(self, file, role, **body):
        return self.put(file, "message", message={"role": role} | body)

    def loop(self, file):
        """A message of the person, answers with their calls, and an end, or a branch left."""
        start = file.leaf
        asked = self.message(file, "user", content="please", usage=self.usage())
        file.loops.append([])
        for _ in range(self.random.randint(0, 3)):
            if self.chance(0.2):  # it fails, and is tried again in the same loop
                self.answer(file, self.random.choice(["error", "length"]))
            self.answer(file, "toolUse")
            result = {"toolCallId": "call_1", "content": [], "isError": False}
            self.message(file, "toolResult", usage=self.usage(), **result)
            if self.chance(0.2):
                self.message(file, "user", content="rather so")
            if self.chance(0.2):
                self.put(file, "compaction", summary="so far", usage=self.usage())
        if file.has_ids and self.chance(0.15):
            file.leaf = start  # the person goes back to where it began, and says something else
            return
        self.answer(file, self.random.choice(["stop", "stop", "aborted", "error", "length"]))
        if file.has_ids and self.chance(0.15):
            file.leaf = asked  # the same message is answered once more: another execution
            file.loops.append([])
            self.answer(file, "stop")
        for _ in range(self.random.randint(0, 4)):
            self.again(file)

    def answer(self, file, stop):
        usage = self.usage() if self.chance(0.8) else None
        message = {"model": "mock", "stopReason": stop, "content": []}
        if stop == "toolUse":
            message["content"] = [{"type": "toolCall", "id": "call_1", "name": "bash"}]
        entry = self.message(file, "assistant", **message, **({"usage": usage} if usage else {}))
        if file.has_ids and self.chance(0.1):
            entry = None
            del file.lines[-1]["id"]
            file.leaf = file.lines[-1]["parentId"]
        self.book(file, entry, usage)

    def book(self, file, entry, usage):
        file.meet(entry)
        if usage and {"input", "output"} <= usage.keys():
            file.observe(entry, told(usage))

    def again(self, file):
        """An answer is written once more: as it was, or with what it cost in the end."""
        line = self.random.choice(file.lines)
        message = line.get("message", {})
        if message.get("role") != "assistant" or "id" not in line:
            return
        if self.chance(0.7):
            message = message | {"usage": self.usage()}
        file.lines.append(line | {"message": message})
        self.book(file, line["id"], message.get("usage"))

    def usage(self):
        usage = {name: self.random.randint(0, 900) for name in ("input", "output")}
        for name in ("cacheRead", "cacheWrite"):
            if self.chance(0.9):
                usage[name] = self.random.choice([0, self.random.randint(1, 900)])
        if self.chance(0.7):  # also more than all output: then it is no part of it
            usage["reasoning"] = self.random.randint(0, max(1, usage["output"]) * 2)
        if self.chance(0.1):
            del usage[self.random.choice(["input", "output"])]
        return usage

    def fork(self, file):
        """All entries under their own ids in another file; then loops of its own."""
        fork = File("s-fork", parentSession=f"/elsewhere/{file.name}.jsonl")
        fork.lines += file.lines[1:]
        fork.leaf = file.leaf
        fork.copy_of(file)
        for _ in range(self.random.randint(1, 2)):
            self.loop(fork)
        self.files.append(fork)


def told(usage):
    """The seed's words for what Pi counts: input has all that was read and written."""
    read, written, thought = (usage.get(one) for one in ("cacheRead", "cacheWrite", "reasoning"))
    counts = {"input": usage["input"] + (read or 0) + (written or 0), "output": usage["output"]}
    for name, count in (("cached", read), ("cache_write", written), ("reasoning", thought)):
        if count is not None and (name != "reasoning" or count <= counts["output"]):
            counts[name] = count
    return counts


def synced(database, root, **options):
    report = sync(database, [str(root)], {"pi": reader()}, Options(**options))
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
    database, root = str(tmp_path / "index.sqlite3"), tmp_path / "sessions"
    root.mkdir()
    truth = sorted(row for file in account.files for row in file.truth())
    pieces = account.random.randint(1, 3)
    for piece in range(pieces):
        for file in account.files:
            size = len(file.lines)
            with (root / f"{file.name}.jsonl").open("a") as opened:
                for line in file.lines[size * piece // pieces : size * (piece + 1) // pieces]:
                    opened.write(json.dumps(line) + "\n")
        found = synced(database, root)
    assert found == truth
    assert synced(database, root, rebuild=True) == truth


def test_the_made_up_sessions_have_all_that_makes_counting_hard():
    """The generator is worth something only if the cases occur."""
    accounts = [Account(seed) for seed in range(16)]
    files = [file for account in accounts for file in account.files]
    entries = [line for file in files for line in file.lines[1:]]
    answers = [line for line in entries if line.get("message", {}).get("role") == "assistant"]
    assert any(file.name == "s-fork" for file in files)
    assert any(not file.has_ids for file in files)
    assert any("id" not in line and "parentId" in line for line in answers)
    assert any("usage" not in line["message"] for line in answers)
    assert {"error", "length"} <= {line["message"]["stopReason"] for line in answers}
    ids = [[line["id"] for line in file.lines[1:] if "id" in line] for file in files]
    assert any(len(one) != len(set(one)) for one in ids)
    parents = [line["parentId"] for line in entries if "parentId" in line]
    assert len(parents) > len(set(parents))
