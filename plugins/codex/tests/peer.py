"""A stand-in for `codex`: the few requests of its app-server that YARP makes, over real files.

Like the real one it finds hooks in its own and the project's `hooks.json`, keys them by place,
hashes them by what they say, and rewrites `config.toml` with line feeds alone.
"""

import hashlib
import json
import os
import sys
import tomllib

HOME = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
SETTINGS = os.path.join(HOME, "config.toml")
NAMES = {"PreToolUse": "pre_tool_use", "PostToolUse": "post_tool_use"}
MODE = os.environ.get("PEER_MODE", "")


def settings():
    if not os.path.exists(SETTINGS):
        return {}
    with open(SETTINGS, "rb") as file:
        return tomllib.load(file)


def hooks(cwd):
    state = settings().get("hooks", {}).get("state", {})
    files = [os.path.join(HOME, "hooks.json")]
    if cwd in settings().get("projects", {}):
        files.append(os.path.join(cwd, ".codex", "hooks.json"))
    for path in files:
        if not os.path.exists(path):
            continue
        with open(path) as file:
            found = json.load(file)["hooks"]
        for event, groups in found.items():
            for index, group in enumerate(groups):
                for place, hook in enumerate(group["hooks"]):
                    key = f"{path}:{NAMES.get(event, event.lower())}:{index}:{place}"
                    said = "sha256:" + hashlib.sha256(json.dumps(hook).encode()).hexdigest()
                    known = state.get(key, {}).get("trusted_hash")
                    trust = (
                        "untrusted" if known is None else "trusted" if known == said else "modified"
                    )
                    yield {"key": key, "sourcePath": path, "command": hook["command"], "enabled": True,
                           "currentHash": said, "trustStatus": trust}  # fmt: skip


def write(edits):
    import tomlkit

    text = ""
    if os.path.exists(SETTINGS):
        with open(SETTINGS, newline="") as file:
            text = file.read().replace("\r\n", "\n")
    document = tomlkit.parse(text)
    for edit in edits:
        *way, last = edit["keyPath"].split(".")
        table = document
        for name in way:
            table = table.setdefault(name, tomlkit.table())
        if edit["mergeStrategy"] == "upsert":
            table.setdefault(last, tomlkit.table()).update(edit["value"])
        else:
            table[last] = edit["value"]
    with open(os.path.realpath(SETTINGS), "w") as file:
        file.write(tomlkit.dumps(document))


def answer(method, params):
    if method == "hooks/list":
        return {"data": [{"cwd": cwd, "hooks": list(hooks(cwd))} for cwd in params["cwds"]]}
    if method == "config/batchWrite" and not MODE:
        write(params["edits"])
    return {}


if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.171.0")
    sys.exit()
if MODE == "old":
    sys.exit("error: unrecognized subcommand")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    reply = {"id": asked["id"], "result": answer(asked["method"], asked["params"])}
    if MODE == "refuses" and asked["method"] == "config/batchWrite":
        reply = {"id": asked["id"], "error": {"code": -32600, "message": "managed"}}
    print("a line of a log")
    print(json.dumps({"method": "note"}))
    print(json.dumps(reply), flush=True)
