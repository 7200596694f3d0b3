"""A `yarp` that refuses one ingest operation and is the real one otherwise.

refuser.py OPERATION archive ingest
"""

import json
import os
import subprocess
import sys

refused, *words = sys.argv[1:]
real = [sys.executable, "-m", "yarp", *words]
if words != ["archive", "ingest"]:
    os.execv(real[0], real)
child = subprocess.Popen(real, stdin=subprocess.PIPE)
while header := sys.stdin.buffer.read(8):
    body = sys.stdin.buffer.read(int.from_bytes(header, "big"))
    request = json.loads(body)
    if request["operation"] == refused:
        answer = {"requestId": request["requestId"], "ok": False, "error": "the disk is full"}
        print(json.dumps(answer), flush=True)
    else:
        child.stdin.write(header + body)
        child.stdin.flush()
child.stdin.close()
sys.exit(child.wait())
