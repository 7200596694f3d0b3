"""The census as a whole: the same totals however the work is cut, and no content."""

import gc
import json
import os
import signal
import subprocess
import sys
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarp import cache
from yarp.census import count as counting
from yarp.census import report, shards
from yarp.census.count import count
from yarp.census.executors import Processes, Ray
from yarp.census.measure import Ceiling
from yarp.census.tally import Tally
from yarp.dataset.database import Dataset
from yarp.dataset.export import export
from yarp.errors import YarpError


@pytest.fixture
def exported(filled, tmp_path):
    with Dataset.read(filled) as dataset:
        export(dataset, str(tmp_path / "parquet"), "parquet")
    return str(tmp_path / "parquet")


def totals(source, executor):
    return report.totals(count(source, cache.load(), executor).tally)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "_SHARD_BYTES", 128 << 10)


def test_the_census_says_what_was_found(filled, yarp_home):
    counted = count(filled, cache.load(), Processes(1))
    found = report.census(counted)
    assert found["evaluated_results"] == 15
    assert found["shell_results"] == 14
    assert found["eligible_results"] == 11
    assert found["affected_results"] == 10
    assert found["passthrough_results"] == 1
    assert found["unsupported_results"] == 1
    assert found["no_command_results"] == 1
    assert found["missing_recovery_markers"] == found["reducer_faults"] == 0
    assert 80 < found["removed_percent"]["of_eligible_characters"] < 100
    assert found["breakdown"]["agent"]["other"]["results"] == 1
    assert found["breakdown"]["rule"]["yarp/pytest"]["changed"] == 9
    assert found["breakdown"]["result_property"]["non_ascii"]["results"] == 1
    assert found["evaluated_megabytes_per_second"] > 0


def test_neither_report_holds_content(filled, yarp_home):
    counted = count(filled, cache.load(), Processes(1))
    said = json.dumps([report.census(counted), report.ceiling(counted, Ceiling())])
    for planted in ("planted", "secret", "größe", "test_bad", "project", "s3"):
        assert planted not in said
    assert "exact inspection/md5sum" in said


def test_the_totals_are_the_same_in_one_process_and_in_two(filled, yarp_home, small_shards):
    assert len(shards.shards(filled)) > 8
    assert totals(filled, Processes(1)) == totals(filled, Processes(2))


def test_the_totals_are_the_same_over_parquet(filled, exported, yarp_home, small_shards):
    over_database = totals(filled, Processes(1))
    assert len(shards.shards(exported)) > 2
    assert totals(exported, Processes(1)) == over_database
    file = shards.shards(exported)[0].file
    assert 0 < totals(file, Processes(1))["evaluated_results"] < over_database["evaluated_results"]


@pytest.mark.slow
def test_the_totals_are_the_same_on_a_local_ray_of_two_workers(
    filled, exported, yarp_home, small_shards
):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        for source in (filled, exported):
            assert totals(source, Ray()) == totals(source, Processes(1))
    finally:
        ray.shutdown()


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 9))))
def test_tallies_come_to_the_same_in_any_order(added):
    parts = []
    for dimension, label, number in added:
        parts.append(Tally())
        parts[-1].add(dimension, label, (1, number))
    one, other = Tally(), Tally()
    for part in parts:
        one.merge(part)
    for part in reversed(parts):
        other.merge(part)
    assert one.groups == other.groups
    assert sum(numbers[0] for numbers in one.groups.values()) == len(added)


def test_garbage_is_looked_for_by_what_was_read(monkeypatch):
    class Ring:
        def __init__(self):
            self.ring = self

    collected = []
    monkeypatch.setattr(counting, "_COLLECTED_CHARACTERS", 100)
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with counting._collected() as collect:
                assert not gc.isenabled()
                gone = weakref.ref(Ring())
                collect(100)
                collected.append(gone() is None)
                collect(1)
                collected.append(gone() is None)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
    assert collected == [False, True] * 2


def test_every_result_with_a_text_is_in_one_shard(filled, monkeypatch):
    with Dataset.write(filled) as dataset:
        # Row numbers have gaps then.
        dataset.connection.execute(
            "DELETE FROM tool_results WHERE result_key IN "
            "(SELECT result_key FROM tool_results WHERE output_text LIKE '%session%' LIMIT 3)"
        )
        expected = dataset.row("SELECT count(output_text) FROM tool_results")[0]
    opened = shards.Opened()
    for size in (64 << 10, 1 << 20, 1 << 30):
        monkeypatch.setattr(shards, "_SHARD_BYTES", size)
        parts = shards.shards(filled)
        assert sum(len(list(shard.rows(opened))) for shard in parts) == expected
    opened.close()
    Dataset.write(filled).close()  # nobody has it open any more


def test_an_empty_dataset_has_a_census(dataset_of, yarp_home):
    found = totals(dataset_of(), Processes(1))
    assert found["evaluated_results"] == 0
    assert found["removed_percent"]["of_all_characters"] is None


def test_what_is_no_dataset_is_told(tmp_path, yarp_home):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no database")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and nothing more")
    for name in ("missing", "empty", "text", "cut.parquet"):
        with pytest.raises(YarpError, match=name):
            count(str(tmp_path / name), cache.load(), Processes(1))


def test_a_damaged_shard_is_told_and_nothing_of_what_it_holds(exported, yarp_home):
    file = shards.shards(exported)[0].file
    os.chmod(file, 0o600)
    with open(file, "rb") as opened:
        whole = bytearray(opened.read())
    told = []
    for at in range(4, len(whole), max(1, len(whole) // 16)):
        damaged = whole.copy()
        damaged[at : at + 40] = b"planted\xff" * 5
        with open(file, "wb") as opened:
            opened.write(damaged)
        try:
            count(file, cache.load(), Processes(1))
        except YarpError as error:
            told.append(str(error))
    assert len(told) > 5
    assert all(error.startswith(f"{file} is damaged") for error in told)
    assert "planted" not in "".join(told)


def test_an_interrupt_of_a_terminal_reaches_the_first_process_alone():
    code = (
        "import sys, time\n"
        "from yarp.census.executors import Processes\n"
        "try:\n"
        "    for _ in Processes(2).run(time.sleep, [0.5] * 8):\n"
        "        print(flush=True)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert running.stdout.readline() == b"\n"
    os.killpg(running.pid, signal.SIGINT)
    assert running.communicate(timeout=30)[1] == b""
    assert running.returncode == 130
