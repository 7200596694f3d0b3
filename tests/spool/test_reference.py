"""The reference says what the code does."""

from __future__ import annotations

import inspect
import pathlib
import re

import attrs

from yarp.spool import credentials, preview, quota, spool, writer
from yarp.spool.declared import CONVERSATION_BYTES, JOB_BYTES
from yarp.spool.receipt import Receipt, StreamReceipt
from yarp.spool.represent import UNDECIDED_BYTES

PAGE = (pathlib.Path(__file__).parents[2] / "docs/reference/receipts.md").read_text()
NAMED = set(re.findall(r"`([a-z_0-9]+)", PAGE))


def test_every_member_of_a_receipt_is_explained():
    for kind in (Receipt, StreamReceipt):
        assert {field.name for field in attrs.fields(kind)} <= NAMED


def test_every_option_and_method_of_a_spool_is_explained():
    options = set(inspect.signature(spool.Spool.__init__).parameters) - {"self", "location"}
    # What `open_spool` gives itself.
    assert options - {"identity", "redactors", "label", "without", "published"} <= NAMED
    methods = {name for name in vars(spool.Spool) if not name.startswith("_")}
    assert methods <= NAMED


def test_the_figures_are_those_of_the_code():
    budget = preview.Budget()
    assert (JOB_BYTES, CONVERSATION_BYTES) == (32 << 20, 128 << 20)
    assert "32 MiB of both streams" in PAGE
    assert "128 MiB (`SpoolLocation`)" in PAGE
    assert (budget.stdout, budget.stderr, budget.combined_bytes) == (8000, 2000, 16 << 10)
    assert f"| {spool.SETTLE_SECONDS:g} | how long `finish` waits" in PAGE
    assert f"| {writer.QUEUE_BYTES >> 20} MiB | what may wait" in PAGE
    assert writer.BACKPRESSURE_SECONDS == 5
    assert writer._STALLED_SECONDS == 0.25
    assert UNDECIDED_BYTES == 64 << 10
    assert quota._STEP_BYTES == 1 << 20


def test_the_names_that_give_a_value_away_are_listed():
    for name in credentials._NAMES:
        assert f"`{name.decode()}`" in PAGE
