"""Time grows with the stream and with nothing else, whatever stands in its lines."""

import time

import pytest

from yarp.reduce.families.base import Status

MODULES = {"list": "listing"}
COMMANDS = (
    "status npm install",
    "status pip install",
    "status git status",
    "status git branch",
    "status git log",
    "status git log --stat",
    "status git log --graph --oneline",
    "status git pull",
    "table pip list",
    "table dpkg -l",
    "table coverage report",
    "status make install",
    "test pytest",
    "test cargo test",
    "test go test",
    "test jest",
    "test npm test",
    "test python -m unittest",
    "log docker logs",
    "search rg -n x",
    "search grep -r x",
    "diff git diff",
    "list ls -l",
    "list find .",
    "list tree",
)
# Runs of what patterns repeat over, alone and behind what wakes a parser.
UNITS = (
    b"a",
    b"abcdef",
    b"deadbeef0123",
    b"/",
    b"\\",
    b"[",
    b"[]",
    b"=",
    b"a=",
    b"'x",
    b" ",
    b"@",
    b"1",
    b".",
    b":",
    b"((",
    b"_",
    b"1,",
    b"x:1:",
    b"error(",
    b"Author: ",
    b"\t",
)
STARTS = (b"", b"error: ", b"\nAuthor: ", b"  at ", b"FAILED ", b"=== ", b"- ")


def hostile(line_count, line_bytes):
    """Lines of `line_bytes` of each kind in turn, no two the same."""
    kinds = [
        start + (unit * line_bytes)[:line_bytes] + b"x%d\n" for start in STARTS for unit in UNITS
    ]
    return [kinds[number % len(kinds)] % number for number in range(line_count)]


def spent(command, lines):
    """Processor time that a family takes for these lines, the best of two."""
    name, *argv = command.split()
    family = __import__(f"yarp.reduce.families.{MODULES.get(name, name)}", fromlist=["Family"])
    best = float("inf")
    for _ in range(2):
        reader = family.Family(tuple(argv), {"success_bytes": 1024, "failure_bytes": 4096})
        began = time.process_time()
        for at in range(0, len(lines), 64):
            reader.feed(0, b"".join(lines[at : at + 64]))
        reader.finish(Status(1))
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize("command", COMMANDS)
def test_lines_four_times_as_long_take_four_times_as_long_not_sixteen(command):
    # Both above the sizes at which a family stops looking closely.
    short, long = (hostile(310, size) for size in (4_000, 16_000))
    assert spent(command, long) < 8 * spent(command, short) + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_twice_as_many_lines_take_twice_as_long(command):
    lines = hostile(8_000, 1_000)
    assert spent(command, lines) < 3 * spent(command, lines[: len(lines) // 2]) + 0.02
