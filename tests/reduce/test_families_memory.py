import subprocess
import sys

import pytest

# What is hardest to hold: every line wanted, every line another file, every file a new one.
STREAMS = {
    "test pytest": b"FAILED tests/test_a.py::test_%d - AssertionError: no\n",
    "test cargo test": b"---- tests::t%d stdout ----\nthread 'x' panicked at src/a.rs:1:1:\nno\n\n",
    "test go test": b"=== RUN   Test%d\n    a_test.go:3: log\n",
    "test jest": "  \u25cf sums \u203a case %d\n\n    Error: no\n".encode(),
    "test npm test": b"not ok %d - thing\n  ---\n  error: no\n  ...\n",
    "build cc -c": b"src/file_%d.c:1:1: error: no such thing\n    1 | x\n      | ^\n",
    "build make all": b"would reformat src/file_%d.py\n",
    "build npm run build": b"dist/assets/file_%d.js   1.20 kB\n",
    "search rg -n x": b"src/file_%d.py:1:x\n",
    "log docker logs x": b"2026-11-29 ERROR lost %d of the orders\n",
    "table kubectl get pods": b"web-%d 0/1 CrashLoopBackOff 3 2d\n",
    "json_ curl x": b'{"id": %d, "error": "lost"},\n',
    "diff git diff": b"diff --git a/f%d b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
}
CHILD = """
import resource, sys
from yarp.reduce.families.base import Status
family, *argv = sys.argv[1].split()
module = __import__("yarp.reduce.families." + family, fromlist=["Family"])
line = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reader = module.Family(tuple(argv), {"success_bytes": 1024, "failure_bytes": 4096})
number = total = 0
while total < int(sys.argv[2]):
    block = b"".join(line % n if b"%d" in line else line for n in range(number, number + 9_000))
    number += 9_000
    total += len(block)
    reader.feed(0, block)
reader.finish(Status(1))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def grown_kib(stream, byte_count):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, stream, str(byte_count)],
        input=STREAMS[stream],
        capture_output=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("stream", sorted(STREAMS))
def test_memory_does_not_grow_with_the_stream(stream):
    assert grown_kib(stream, 128 << 20) < 40 * 1024


@pytest.mark.parametrize("stream", ["test pytest", "search rg -n x", "diff git diff"])
def test_a_stream_of_many_megabytes_is_held_in_few(stream):
    assert grown_kib(stream, 12 << 20) < 40 * 1024
