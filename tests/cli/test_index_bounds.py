"""What a query may cost, whatever its SQL: memory, time, temporary files; and an interrupt."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from yarp.index.store import Store

MOST_KIB = 300 << 10
EIGHT_MIB = "hex(zeroblob(4000000))"
FACES = "replace(hex(zeroblob(1900000)), '0', char(128512))"
GROUPED = "group_concat(printf('%d%.*c', i, 400000, 'x'))"
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n{}) "
# The process between is small: what a child of this one took would begin with what this one has.
BETWEEN = """
import os, sys
pid = os.posix_spawn(sys.executable, [sys.executable, "-m", "yarp", *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(pid, 0)
sys.stderr.write(f"\\n{usage.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """An index that holds nothing yet."""
    path = str(tmp_path_factory.mktemp("index") / "index.sqlite3")
    Store(path).close()
    return path


@pytest.fixture
def ask(database, yarp_home):
    """Run a query as a process; its answer or None, what it said, its status, its peak in KiB."""

    def ask(sql, *options, limit_kib=None):
        words = ["index", "--db", database, "query", "run", "--stdin", *options]
        command = [sys.executable, "-c", BETWEEN, *words]
        if limit_kib is not None:
            command = ["sh", "-c", f'ulimit -f {limit_kib}; exec "$0" "$@"', *command]
        done = subprocess.run(
            command, input=sql, capture_output=True, text=True, check=False, timeout=120
        )
        said, _, peak = done.stderr.rpartition("\n")
        answer = json.loads(done.stdout)["data"] if done.stdout else None
        return answer, said, done.returncode, int(peak)

    return ask


def columns(count, value):
    return ", ".join(f"{value} AS c{number}" for number in range(count))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {columns(1500, 'zeroblob(15000000)')}",
        f"SELECT {columns(1999, 'x')} FROM (SELECT zeroblob(15000000) AS x LIMIT 1)",
        f"SELECT {columns(30, 'x')} FROM (SELECT randomblob(15000000) AS x LIMIT 1)",
        f"SELECT {columns(1999, 'x')} FROM (SELECT {EIGHT_MIB} AS x LIMIT 1)",
        f"SELECT {columns(24, EIGHT_MIB)}",
        f"SELECT {columns(8, FACES)}",
        COUNT.format(" WHERE i < 40") + f"SELECT {columns(400, GROUPED)} FROM n",
        COUNT.format(" WHERE i < 99") + f"SELECT json_group_array({EIGHT_MIB}) AS a FROM n",
        f"SELECT count(*) AS a FROM json_each('[' || replace({EIGHT_MIB}, '0', '1,') || '1]')",
        "WITH a AS (SELECT 1 AS x)"
        + "".join(
            f", a{n} AS (SELECT * FROM a{n - 1 or ''} UNION ALL SELECT * FROM a{n - 1 or ''})"
            for n in range(1, 25)
        )
        + " SELECT count(*) AS n FROM a24",
    ],
    ids=lambda sql: sql[:40],
)
def test_a_query_fails_before_it_takes_the_memory_of_the_machine(ask, sql):
    answer, said, status, peak = ask(sql, "--timeout-seconds", "100")
    assert peak < MOST_KIB
    assert (answer, status) == (None, 65), said
    assert said.startswith("yarp: the query needs too large a value, row or list (")


def test_a_row_of_large_texts_is_over_the_budget_and_costs_little(ask):
    sql = f"SELECT {columns(6, 'x')} FROM (SELECT {FACES} AS x LIMIT 1)"
    answer, _, _, peak = ask(sql, "--max-cell-bytes", "1048576")
    assert peak < MOST_KIB
    assert (answer["incomplete_reason"], answer["returned"]) == ("output_budget", 0)
    answer, _, _, peak = ask(sql, "--max-cell-bytes", "1000")
    assert peak < MOST_KIB
    assert (answer["complete"], answer["cells_truncated"]) == (True, 6)
    assert answer["rows"][0]["c5"] == "\U0001f600" * 250


@pytest.mark.parametrize(
    "sql",
    [
        COUNT.format("") + "SELECT max(i) AS m FROM n",
        "SELECT instr(zeroblob(9000000), zeroblob(4500000) || x'01') AS a",
        COUNT.format("") + "SELECT count(DISTINCT randomblob(100000)) AS a FROM n",
    ],
)
def test_time_is_kept_in_many_steps_and_in_one(ask, sql):
    began = time.monotonic()
    answer, said, status, _ = ask(sql, "--timeout-seconds", "1")
    assert (answer, status) == (None, 1)
    assert said.startswith("yarp: the query took longer than 1 s; narrow it")
    assert time.monotonic() - began < 25  # of which the machine may take most


def test_a_sort_may_take_so_much_disk(ask):
    sql = COUNT.format(" WHERE i < 5000") + "SELECT i FROM n ORDER BY randomblob(10000)"
    answer, said, status, _ = ask(sql, limit_kib=8 << 10)
    assert (answer, status) == (None, 74)
    assert said.startswith("yarp: the query found no room for what it sorts or sets aside")
    assert ask(sql)[2] == 0


@pytest.mark.parametrize(
    "sql",
    [
        COUNT.format("") + "SELECT max(i) AS m FROM n",
        "SELECT instr(zeroblob(9000000), zeroblob(4500000) || x'01') AS a",
    ],
)
def test_an_interrupt_ends_a_query_at_once(database, yarp_home, sql):
    words = [sys.executable, "-m", "yarp", "index", "--db", database, "query", "run", sql]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert running.communicate() == (b"", b"")
    assert time.monotonic() - began < 5
    assert running.returncode == -signal.SIGINT
