"""Lists of files: what a long one says besides names, and the counts of directories."""

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])


def long_list(*odd, count=60, time="Nov 30 01:15", owner="ada users"):
    rows = [f"-rw-r--r-- 1 {owner} {n:6} {time} file{n}.txt" for n in range(1, count + 1)]
    return "".join(line + "\n" for line in ["total 99", *rows, *odd])


def told(command, text):
    reduction = Reduction(select(command.split(), RULES), Settings())
    reduction.feed(0, text.encode())
    summary = reduction.finish(Status(0), Recovery("yr_" + "0" * 32))
    assert summary.changed
    return summary.stdout.decode().split("\n")


def test_a_long_list_names_what_is_odd_and_counts_what_is_not():
    lines = told(
        "ls -la",
        long_list(
            "drwxr-xr-x 2 ada users 4096 Nov 30 01:15 sub",
            "drwxrwxrwt 2 ada users 4096 Nov 30 01:15 tmp",
            "-rwsr-xr-x 1 ada users 10 Nov 30 01:15 runs-as",
            "-rw------- 1 ada users 10 Nov 30 01:15 secret",
            "-rw-rw-rw- 1 ada users 10 Nov 30 01:15 open",
            "srwxr-xr-x 1 ada users 0 Nov 30 01:15 sock",
            "-rw-r--r-- 1 bob users 5000000 Nov 30 01:15 huge.bin",
            "lrwxrwxrwx 1 ada users 12 Nov 30 01:15 dangling -> /nonexistent",
            "-rw-r--r-- 1 ada users 10 Nov 30 02:20 newest",
            "-rw-r--r-- 1 ada users 10 Jan  5  2019 oldest",
        ),
    )
    assert (
        "mode: -rw-r--r-- 63, drwxr-xr-x 1, drwxrwxrwt 1; owner: ada users 69, bob users 1" in lines
    )
    for line in (
        "-rwsr-xr-x: runs-as",
        "-rw-------: secret",
        "-rw-rw-rw-: open",
        "srwxr-xr-x: sock",
        "bob users: huge.bin",
        "links: dangling -> /nonexistent",
        "oldest: oldest Jan 5 2019",
    ):
        assert line in lines
    assert any(line.startswith("largest (bytes): huge.bin 5000000") for line in lines)


def test_the_newest_are_named_unless_they_are_as_old_as_the_others():
    same = told("ls -l", long_list())
    assert not any(line.startswith(("newest", "oldest")) for line in same)
    some = [f"-rw-r--r-- 1 ada users 1 Dec  {n} 0{n}:00 d{n}" for n in (1, 3, 2)]
    after = "-rw-r--r-- 1 ada users 1 Jan  2 09:00 new-year"
    assert "newest: d3 Dec 3 03:00, d2 Dec 2 02:00, d1 Dec 1 01:00" in told(
        "ls -l", long_list(*some)
    )
    assert "newest: new-year Jan 2 09:00, d3 Dec 3 03:00, d2 Dec 2 02:00" in told(
        "ls -l", long_list(*some, after)
    )
    iso = [f"-rw-r--r-- 1 ada users 1 2026-12-0{n} 10:00:00.000{n} +0000 d{n}" for n in (1, 3, 2)]
    lines = told("ls -l --time-style=full-iso", long_list(*iso, time="2026-11-30 01:15:00.5 +0000"))
    assert "newest: d3 2026-12-03 10:00, d2 2026-12-02 10:00, d1 2026-12-01 10:00" in lines
    german = long_list("-rw-r--r-- 1 ada users 1  5. Mai 09:00 neu", time="30. Okt 01:15")
    assert not any(line.startswith(("newest", "oldest")) for line in told("ls -l", german))


def test_a_directory_that_no_other_is_like_is_counted_by_its_own_name():
    names = [f"./.venv/lib/python3.11/pkg{n}/mod{n % 7}.py" for n in range(300)]
    names += [f"./src{n % 5}/part/mod{n}.py" for n in range(200)]
    lines = told("find .", "".join(name + "\n" for name in names))
    spread = next(line for line in lines if line.startswith("by directory: "))
    assert "#.#" not in spread
