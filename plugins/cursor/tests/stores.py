"""Cursor's stores, put together by hand: no real conversation is in here."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3

from yarp_cursor import graph

SECRET = "cGxhbnRlZC1ibG9iLWtleQ=="
T0 = 1_785_000_000_000


def made(name, **fields):
    """The bytes of a protobuf message."""
    return graph.classes()[name](**fields).SerializeToString()


def ids(*blob_ids):
    return [bytes.fromhex(one) for one in blob_ids]


def call(call_id, name="Shell", args=None, **more):
    return {
        "type": "tool-call",
        "toolCallId": call_id,
        "toolName": name,
        "args": {"command": "ls"} if args is None else args,
        **more,
    }


def result(call_id, text="a", **more):
    return {
        "type": "tool-result",
        "toolCallId": call_id,
        "toolName": "Shell",
        "result": text,
        **more,
    }


class Store:
    """The blobs of a store in the order of their rows, and the metadata."""

    def __init__(self, agent_id="agent-1", **meta):
        self.rows = []
        self.meta = {
            "agentId": agent_id,
            "latestRootBlobId": "",
            "createdAt": T0,
            "mode": "default",
            "name": "planted-title",
            "blobEncryptionKey": SECRET,
            **meta,
        }

    def blob(self, data):
        blob_id = hashlib.sha256(data).hexdigest()
        if blob_id not in dict(self.rows):
            self.rows.append((blob_id, data))
        return blob_id

    def json(self, value):
        return self.blob(json.dumps(value, separators=(",", ":")).encode())

    def assistant(self, *blocks, **more):
        return self.json({"role": "assistant", "id": "1", "content": list(blocks), **more})

    def tool(self, block, high_level=None):
        message = {"role": "tool", "id": block.get("toolCallId"), "content": [block]}
        if high_level is not None:
            message["providerOptions"] = {"cursor": {"highLevelToolCallResult": high_level}}
        return self.json(message)

    def pair(self, call_id, text="a", **arguments):
        """A call and its result, for the order of a root."""
        return [self.assistant(call(call_id, **arguments)), self.tool(result(call_id, text))]

    def turn(self, call_id, started=T0 + 1, ended=T0 + 2):
        step = self.blob(
            made(
                "ConversationStep",
                tool_call={
                    "tool_call_id": call_id,
                    "started_at_ms": started,
                    "completed_at_ms": ended,
                },
            )
        )
        return self.blob(
            made("ConversationTurnStructure", agent_conversation_turn={"steps": ids(step)})
        )

    def archive(self, *messages):
        return self.blob(made("ConversationSummaryArchive", summarized_messages=ids(*messages)))

    def root(self, *messages, archives=(), turns=(), pending=(), extra=b"", **fields):
        """A root over these messages; it becomes the latest one."""
        fields["root_prompt_messages_json"] = ids(*messages)
        fields["summary_archives"] = ids(*archives)
        fields["turns"] = ids(*turns)
        fields["pending_tool_calls"] = [json.dumps(one).encode() for one in pending]
        fields.setdefault("previous_workspace_uris", [b"file:///srv/demo%20app"])
        self.meta["latestRootBlobId"] = self.blob(
            made("ConversationStateStructure", **fields) + extra
        )
        return self.meta["latestRootBlobId"]

    def meta_value(self):
        return json.dumps(self.meta).encode().hex()

    def write(self, path, *, in_log=0):
        """A database with these rows; the last `in_log` of them stand in the write-ahead log."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        work = f"{path}.work"
        connection = sqlite3.connect(work, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        split = len(self.rows) - in_log
        connection.executemany("INSERT INTO blobs VALUES (?, ?)", self.rows[:split])
        connection.execute("INSERT INTO meta VALUES ('0', ?)", (self.meta_value(),))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if in_log:
            connection.executemany("INSERT INTO blobs VALUES (?, ?)", self.rows[split:])
            for suffix in ("", "-wal"):
                with open(work + suffix, "rb") as source, open(path + suffix, "wb") as copy:
                    copy.write(source.read())
        connection.close()
        if not in_log:
            os.replace(work, path)
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(work + suffix):
                os.unlink(work + suffix)
        return path


def transcript(path, *uses, partial=b""):
    """A transcript with a line for each call."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(
            b'{"role":"user","message":{"content":[{"type":"text","text":"planted-prompt"}]}}\n'
        )
        for name, given in uses:
            blocks = [
                {"type": "text", "text": "planted-prose"},
                {"type": "tool_use", "name": name, "input": given},
            ]
            file.write(
                json.dumps({"role": "assistant", "message": {"content": blocks}}).encode() + b"\n"
            )
        file.write(b'{"type":"turn_ended","status":"success"}\n' + partial)
    return path
