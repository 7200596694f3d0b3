import os
import shlex

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings

RECORDINGS = os.path.join(os.path.dirname(__file__), "recordings")
REFERENCE = "yr_" + "0" * 32
RULES = compile_rules([builtin_pack()])
CASES = sorted(
    (family, name)
    for family in os.listdir(RECORDINGS)
    for name in os.listdir(os.path.join(RECORDINGS, family))
)


def read(family, name, part):
    path = os.path.join(RECORDINGS, family, name, part)
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def summarise(family, name, chunk_bytes):
    text = read(family, name, "cmd").decode().strip()
    status = Status(int(read(family, name, "exitcode")))
    if family == "several":
        found = plan(text, RULES)
        assert found.selection.rule == "several"
        reduction = Reduction(found.selection, Settings(), shape=found.shape)
    else:
        argv = tuple(shlex.split(text.split(" 2>&1")[0]))
        reduction = Reduction(Selection("test", name, family, {}, argv), Settings())
    for stream, part in enumerate(("stdout", "stderr")):
        data = read(family, name, part)
        for start in range(0, len(data), chunk_bytes):
            reduction.feed(stream, data[start : start + chunk_bytes])
    return reduction.finish(status, Recovery(REFERENCE))


@pytest.mark.parametrize(("family", "name"), CASES)
def test_a_recorded_output_keeps_its_facts_within_the_budget(family, name):
    exact = read(family, name, "stdout") + read(family, name, "stderr")
    summary = summarise(family, name, 1 << 20)
    text = summary.stdout + summary.stderr if summary.changed else exact
    facts = read(family, name, "must_keep.txt").decode().splitlines()
    assert [fact for fact in facts if fact not in text.decode()] == []
    failure_bytes = 5120 if family == "several" else 4096
    budget = 1024 if int(read(family, name, "exitcode")) == 0 else failure_bytes
    if len(exact) > budget:
        assert summary.changed, summary.reason
        assert len(text) <= budget
        assert text.count(b"[yarp: ") == 1


@pytest.mark.parametrize(("family", "name"), CASES)
def test_how_the_bytes_arrive_does_not_show(family, name):
    whole, pieces = (summarise(family, name, size) for size in (1 << 20, 37))
    assert (whole.changed, whole.stdout, whole.stderr) == (
        pieces.changed,
        pieces.stdout,
        pieces.stderr,
    )
