"""A small MCP server over stdio: `rows` gives lines, `judge` answers permission questions.

Every question that `judge` was asked is a line of the file named on the command line.
"""

import json
import sys

TOOLS = [
    {
        "name": "rows",
        "description": "Give rows",
        "inputSchema": {"type": "object", "properties": {"count": {"type": "number"}}},
    },
    {"name": "judge", "description": "Judge", "inputSchema": {"type": "object"}},
]


def call(name, arguments):
    if name == "rows":
        text = "".join(f"row {number}\n" for number in range(arguments["count"]))
    else:
        with open(sys.argv[1], "a", encoding="utf-8") as file:
            file.write(json.dumps(arguments) + "\n")
        allowed = "forbidden" not in json.dumps(arguments["input"])
        answer = {"behavior": "allow", "updatedInput": arguments["input"]}
        text = json.dumps(answer if allowed else {"behavior": "deny", "message": "no"})
    return {"content": [{"type": "text", "text": text}]}


for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if "id" not in request:
        continue
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rows", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = call(request["params"]["name"], request["params"].get("arguments") or {})
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
