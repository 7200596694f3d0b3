"""Lines of Cursor's transcripts, put together by hand: no real conversation is in here."""

from __future__ import annotations

import json
import os

from yarp.plugin import Line

STAMP = "<timestamp>Tuesday, Mar 3, 2026, 10:15 AM (UTC-5)</timestamp>"
STAMPED_MS = 1_772_550_900_000


def text(words):
    return {"type": "text", "text": words}


def use(name="Shell", **given):
    return {"type": "tool_use", "name": name, "input": given or {"command": "ls"}}


def user(*content):
    blocks = [text(one) if isinstance(one, str) else one for one in content]
    return {"role": "user", "message": {"content": blocks}}


def query(words, before=""):
    """A request as Cursor wraps it."""
    return user(f"{before}<user_query>\n{words}\n</user_query>")


def said(*content):
    return user(*content) | {"role": "assistant"}


def ended(status="success", **more):
    return {"type": "turn_ended", "status": status} | more


def failed(error="Provider Error"):
    return {"type": "error", "error": error}


def lines(*values):
    for number, value in enumerate(values, 1):
        yield Line(number, number * 100, json.dumps(value).encode(), value)


def write(path, *values):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)
    return str(path)


def store(projects):
    """Transcripts of every kind below a directory of projects."""
    folder = f"{projects}/srv-demo/agent-transcripts"
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}
    write(
        f"{folder}/talk/talk.jsonl",
        user("<agent_skills>\nsay please\n</agent_skills>"),
        query("list files", f"{STAMP}\n<user_info>\nOS Version: linux\n</user_info>\n"),
        said("Listing.", use("LS", target_directory="/srv/demo")),
        said(use("Shell", command="ls -l | wc -l", working_directory="/srv/demo")),
        query("only the hidden ones"),
        said("[REDACTED]", use("ApplyPatch") | {"input": "*** Begin Patch"}),
        said(use("Task", description="explore", prompt="Find the needle")),
        said("Two files.\n\n[REDACTED]"),
        ended(),
        user(text("<user_query>\nand here?\n</user_query>"), image),
        said("I look.", use("run_terminal_cmd", command="false")),
        ended("aborted"),
        query("again"),
        said("Once more."),
        ended("error", error="Connection lost"),
    )
    write(
        f"{folder}/talk/subagents/child.jsonl",
        query("Find the needle"),
        said(use("Grep", pattern="needle")),
        said("In the hay."),
        ended(),
    )
    write(
        f"{folder}/old.jsonl",
        query("old layout"),
        said("Let me see.", use("run_terminal_cmd", command="ls")),
        said("Done as asked."),
        query("and now?"),
        failed(),
        said("Here it is."),
    )
    return str(projects)
