"""A small MCP server on standard input and output: `echo` says its text, `fail` fails."""

import json
import sys

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "echo", "description": "Echo a text", "inputSchema": TEXT},
    {"name": "fail", "description": "Fail", "inputSchema": {"type": "object", "properties": {}}},
]


def answer(method, params):
    if method == "initialize":
        information = {"name": "tiny", "version": "0"}
        capabilities = {"capabilities": {"tools": {}}, "serverInfo": information}
        return {"protocolVersion": params["protocolVersion"], **capabilities}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        failed = params["name"] == "fail"
        text = "it failed" if failed else "echo: " + params["arguments"]["text"]
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
