import os

import pytest

from yarp.reduce.engine import Reduction
from yarp.reduce.marker import Recovery
from yarp.reduce.plan import plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.settings import Settings

CASES = os.path.join(os.path.dirname(__file__), "cases")
RULES = compile_rules([builtin_pack()])


@pytest.mark.parametrize("name", sorted(os.listdir(CASES)))
def test_a_recorded_output_keeps_its_facts(name):
    def read(part):
        with open(os.path.join(CASES, name, part), "rb") as file:
            return file.read()

    found = plan(read("cmd").decode().strip(), RULES)
    assert found.selection is not None
    streams = [read("stdout"), read("stderr")]
    reduction = Reduction(found.selection, Settings(), shape=found.shape)
    for number, data in enumerate(streams):
        reduction.feed(number, data)
    status = found.status(int(read("exitcode")))
    summary = reduction.finish(status, Recovery("yr_" + "0" * 32))
    shown = [summary.stdout, summary.stderr] if summary.changed else streams
    text = b"".join(shown).decode("utf-8", "replace")
    assert [fact for fact in read("must_keep.txt").decode().splitlines() if fact not in text] == []
    size = sum(map(len, streams))
    assert len(text.encode()) <= size
    options = {"success_bytes": 1024, "failure_bytes": 4096, **found.selection.options}
    budget = options["success_bytes" if status.success else "failure_bytes"]
    # Close to the budget a summary may save too little to be shown.
    assert summary.changed or size <= budget * 5 // 4, summary.reason
