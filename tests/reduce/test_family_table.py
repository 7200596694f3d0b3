import random

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings

REFERENCE = "yr_" + "0" * 32


def summarise(text, *command, chunk_bytes=1 << 20, family="table", errors="", code=0):
    reduction = Reduction(Selection("test", "x", family, {}, command), Settings())
    for stream, part in enumerate((text, errors)):
        data = part if isinstance(part, bytes) else part.encode()
        for start in range(0, len(data), chunk_bytes):
            reduction.feed(stream, data[start : start + chunk_bytes])
    summary = reduction.finish(Status(code), Recovery(REFERENCE))
    return (summary.stdout + summary.stderr).decode() if summary.changed else None


def pods(count, odd=()):
    rows = [f"web-{n:<22} 1/1     Running   0          {n % 9}d" for n in range(count)]
    for at, row in odd:
        rows[at] = row
    return "NAME                       READY   STATUS    RESTARTS   AGE\n" + "\n".join(rows) + "\n"


def test_the_header_stays_as_printed_and_unusual_rows_come_first():
    text = summarise(
        pods(90, [(70, "api-5d8                    0/1     Error     7          2d")]),
        *("kubectl", "get", "pods"),
    )
    lines = text.splitlines()
    assert lines[0] == "90 rows: STATUS Running 89, Error 1"
    assert lines[1] == "NAME                       READY   STATUS    RESTARTS   AGE"
    assert lines[2].startswith("api-5d8")


def test_what_has_completed_need_not_be_ready():
    done = "job-1                      0/1     Completed 0          2d"
    text = summarise(pods(60, [(at, done) for at in range(30, 40)]), "kubectl", "get", "pods")
    assert "Completed 10" in text
    assert text.splitlines()[2].startswith("web-")


def test_a_full_disk_is_told_among_many():
    rows = "".join(f"/dev/sd{n}      98G   41G   52G  45% /data/{n}\n" for n in range(60))
    rows += "/dev/full      98G   98G     0 100% /var/lib/full\n"
    text = summarise("Filesystem      Size  Used Avail Use% Mounted on\n" + rows, "df", "-h")
    assert text.splitlines()[2].endswith("100% /var/lib/full")


def test_a_daemon_that_is_not_there_is_no_empty_table():
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n" * 90
    text = summarise("", "docker", "ps", errors=said, code=1)
    assert "Cannot connect to the Docker daemon" in text
    assert "rows" not in text


def test_no_column_is_invented_where_rows_do_not_fit_the_header():
    draw = random.Random(3)
    rows = "".join("x" * draw.randrange(1, 60) + f" 变数{n}\n" for n in range(80))
    text = summarise("NAME   STATUS\n" + rows, "kubectl", "get", "things")
    assert text.startswith("80 rows\nNAME   STATUS\n")


def test_two_tables_below_one_another_are_both_read():
    text = summarise(pods(40) + "\n" + pods(30).replace("web", "job"), "kubectl", "get", "all")
    assert "40 rows" in text
    assert "30 rows" in text


@pytest.mark.parametrize("chunk_bytes", [1, 133])
def test_how_the_bytes_arrive_does_not_show(chunk_bytes):
    command = ("kubectl", "get", "pods")
    whole = summarise(pods(120), *command)
    assert summarise(pods(120), *command, chunk_bytes=chunk_bytes) == whole


def test_a_table_of_many_megabytes_keeps_the_one_row_in_trouble():
    rows = pods(40_000, [(35_000, "api-x     0/1     CrashLoopBackOff   3     1d failed")])
    text = summarise(rows, "kubectl", "get", "pods")
    assert "40001 lines" in text
    assert "CrashLoopBackOff" in text


def test_an_outline_keeps_the_state_and_drops_the_setting_up():
    lines = ["Name:    api", *(f"      key-{n}:  value {n}" for n in range(90))]
    lines += ["    State:   Terminated", "      Reason:  OOMKilled", "    Exit Code:  137"]
    text = summarise("\n".join(lines) + "\n", "kubectl", "describe", "pod", "api")
    assert "Name:    api\n" in text
    assert "OOMKilled\n    Exit Code:  137\n" in text


def test_refs_and_conflicts_of_git_keep_every_name():
    text = "".join(f"CONFLICT (content): Merge conflict in src/a{n}.c\n" for n in range(120))
    text += "CONFLICT (modify/delete): old.c deleted in HEAD and modified in x.\n"
    text = summarise(text * 1, "git", "merge", "x", family="status", code=1)
    assert "src/a{0..119}.c (120)" in text
    assert "old.c deleted in HEAD" in text


@pytest.mark.parametrize(
    "line",
    [" * [new branch]      main -> feature", " ! [rejected]        main -> main (fetch first)"],
)
def test_a_single_ref_is_shown_as_git_put_it(line):
    noise = "".join(f"Writing objects: {n}% ({n}/100)\n" for n in range(100))
    text = summarise("", "git", "push", family="status", errors=noise + line + "\n", code=0)
    assert line in text


def test_a_plan_in_another_language_is_kept():
    text = "".join(f"#{n} Schritt {n} von 40 läuft\n" for n in range(90)) + "Fehler: Platte voll\n"
    assert "Fehler: Platte voll" in summarise(text, "terraform", "plan", family="status")


def blamed(number, commit, text, day=1):
    head = b"%b (Ada 2026-11-%02d 10:00:00 +0000 %3d) " % (commit, day, number)
    return head + text.encode() + b"\n"


def test_what_blame_leaves_out_of_a_text_or_of_lines_is_seen():
    long = "é" * 40 + " and what is cut away"
    lines = [
        blamed(1, b"aaaaaaa1", "short"),
        blamed(2, b"bbbbbbb2", ""),
        blamed(3, b"bbbbbbb2", "    the first that is not blank"),
        blamed(4, b"bbbbbbb2", "another"),
        blamed(5, b"ccccccc3", long),
        blamed(6, b"ddddddd4", "x" * 60),
        blamed(7, b"eeeeeee5", ""),
        blamed(8, b"eeeeeee5", "the last"),
        *(blamed(n, b"fffffff6", "the same commit for a while") for n in range(9, 200)),
    ]
    told = summarise(b"".join(lines), "git", "blame", "f").split("\n")
    assert told[0] == "199 lines by Ada 199; 6 commits, 2026-11-01 to 2026-11-01"
    assert told[1:-2] == [
        "1: aaaaaaa1 Ada 2026-11-01: short",
        "2-4: bbbbbbb2 Ada 2026-11-01: ... the first that is not blank ...",
        "5: ccccccc3 Ada 2026-11-01: " + "é" * 28 + "...",
        "6: ddddddd4 Ada 2026-11-01: " + "x" * 60,
        "7-8: eeeeeee5 Ada 2026-11-01: ... the last",
        "9-199: fffffff6 Ada 2026-11-01: the same commit for a while ...",
    ]


def test_commands_that_give_no_rows_are_counted_by_what_they_did():
    said = ["CREATE TABLE"] * 2 + ["INSERT 0 1"] * 400 + ["INSERT 0 7", "UPDATE 3", "COMMIT"]
    lines = summarise("\n".join(said) + "\n", "psql", "-f", "load.sql").split("\n")
    assert lines[0] == "405 commands: INSERT 401, CREATE TABLE 2, UPDATE 1, COMMIT 1"
    assert lines[1:6] == [
        "CREATE TABLE (2 times)",
        "INSERT 0 1 (400 times)",
        "INSERT 0 7",
        "UPDATE 3",
        "COMMIT",
    ]
