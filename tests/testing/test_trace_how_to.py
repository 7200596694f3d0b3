"""The reader of the how-to, as it is printed there, holds to the suite."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "how-to" / "write-a-trace-reader.md"


def test_the_reader_of_the_how_to_passes_the_suite_that_it_names(tmp_path_factory, run_suites):
    from yarp.testing.plugin import PluginSite

    text = PAGE.read_text()
    (trace,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    reader, suite = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert next(json.loads(line)["kind"] for line in trace.splitlines()) == "chat"
    site = PluginSite(tmp_path_factory.mktemp("site"))
    site.install("acme", reader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site.path))
        found, output = run_suites(
            tmp_path_factory.mktemp("suite"), f"import pytest\nTRACE = {trace!r}\n{suite}"
        )
    assert set(found["TestAcmeTraces"]) == {"PASSED"}, output
