import os
import shlex

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

CASES = os.path.join(os.path.dirname(__file__), "cases")
RULES = compile_rules([builtin_pack()])


@pytest.mark.parametrize("name", sorted(os.listdir(CASES)))
def test_a_recorded_output_keeps_its_facts(name):
    def read(part):
        with open(os.path.join(CASES, name, part), "rb") as file:
            return file.read()

    selection = select(shlex.split(read("cmd").decode()), RULES)
    assert selection is not None
    streams = [read("stdout"), read("stderr")]
    reduction = Reduction(selection, Settings())
    for number, data in enumerate(streams):
        reduction.feed(number, data)
    status = Status(int(read("exitcode")))
    summary = reduction.finish(status, Recovery("yr_" + "0" * 32))
    shown = [summary.stdout, summary.stderr] if summary.changed else streams
    text = b"".join(shown).decode("utf-8", "replace")
    assert [fact for fact in read("must_keep.txt").decode().splitlines() if fact not in text] == []
    assert len(text.encode()) <= sum(map(len, streams))
    budgets = {"success_bytes": 1024, "failure_bytes": 4096} | selection.options
    budget = budgets["success_bytes" if status.success else "failure_bytes"]
    assert summary.changed == (sum(map(len, streams)) > budget), summary.reason
