from yarp.reduce.families.base import Status
from yarp.reduce.families.status import Family


def said(command, text, chunk=1 << 16):
    family = Family(tuple(command.split()), {})
    lines = text.splitlines(True)
    for at in range(0, len(lines), chunk):
        family.feed(0, b"".join(lines[at : at + chunk]))
    return [piece.text for piece in family.finish(Status(1)) or []]


def test_an_error_is_kept_wherever_it_stands_in_a_long_install():
    noise = b"".join(
        b"Downloading pkg_%d-1.0-py3-none-any.whl (12 kB)\n" % i for i in range(40_000)
    )
    text = noise + b"ERROR: no matching distribution for spam\n" + noise
    for chunk in (1, 77, 1 << 16):
        assert said("pip install", text, chunk) == [b"ERROR: no matching distribution for spam"]


def test_deprecations_are_counted_over_the_whole_of_a_long_install():
    text = b"".join(b"npm warn deprecated p%d@1.0.0: throws an error\n" % i for i in range(60_000))
    (line,) = said("npm install", text + b"\n")
    assert line.startswith(b"npm warn deprecated (60000): p0@1.0.0 ")


def test_repeats_that_were_not_all_read_are_no_exact_count():
    text = b"".join(b"gcc -c src/f%d.c\n" % i for i in range(90_000))
    assert b" (and at least " in said("pip install", text)[-1]


def test_a_flood_of_changes_is_counted_however_its_blocks_are_cut():
    names = [b"src/a%d.py" % i for i in range(30_000)]
    long = b"Changes not staged for commit:\n"
    long += b"".join(b"\tmodified:   %b\n\tdeleted:    %b\n" % (name, name) for name in names[:999])
    long += b"".join(b"\tmodified:   %b\n" % name for name in names)
    long += b"Untracked files:\n" + b"".join(b"\tnew/%b\n" % name for name in names)
    short = b"".join(b" M %b\n" % name for name in names)
    short += b"".join(b"?? %b\n" % name for name in names)
    for command, text, totals in (
        ("git status", long, (b"modified (30999)", b"deleted (999)", b"Untracked files: (30000)")),
        ("git status -s", short, (b" M (30000)", b"?? (30000)")),
    ):
        one, other = [b"\n".join(said(command, text, chunk)) for chunk in (1 << 20, 501)]
        assert all(total in one for total in totals)
        assert other == one


def test_names_with_nothing_above_them_are_names():
    text = b"".join(b"\tsrc/a%d.py\n" % i for i in range(300))
    first, *_ = said("git checkout main", text)
    assert first == b"names (300)"
