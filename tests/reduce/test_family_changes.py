"""git's files with their changes, its graph and its words, held against git itself."""

import subprocess

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.families.status import Family
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

RULES = compile_rules([builtin_pack()])


def pieces(command, stdout):
    family = Family(tuple(command.split()), {})
    family.feed(0, stdout)
    found = family.finish(Status(0))
    return None if found is None else [piece.text.decode() for piece in found]


def shown(words, stdout=b"", stderr=b"", exit_code=0):
    reduction = Reduction(select(words, RULES), Settings())
    reduction.feed(0, stdout)
    reduction.feed(1, stderr)
    summary = reduction.finish(Status(exit_code), Recovery("yr_" + "0" * 32))
    return (summary.stdout + summary.stderr).decode() if summary.changed else None


class Repository:
    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def run(self, *words):
        identity = ["-c", "user.name=Ada", "-c", "user.email=a@b", "-c", "core.pager=cat"]
        return subprocess.run(
            ["git", *identity, "-C", str(self.path), *words], check=False, capture_output=True
        )

    def git(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name, text):
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def commit(self, subject):
        self.git("add", "-A")
        self.git("commit", "-qm", subject)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Twelve commits: new, changed, renamed, deleted and binary files, a subject like a stat."""
    made = Repository(tmp_path_factory.mktemp("git") / "work")
    for number in range(40):
        made.write(f"src/part{number % 5}/file{number}.py", f"line {number}\n" * 30)
    made.commit("Everything")
    for number in range(10):
        made.write(f"src/part{number % 5}/file{number}.py", f"line {number}\n" * (31 + number))
        made.write(f"docs/page{number}.md", "text\n" * number)
        made.commit(f"Change {number}")
    made.git("mv", "src/part1/file21.py", "src/part1/renamed.py")
    made.git("rm", "-q", "src/part2/file12.py")
    (made.path / "logo.png").write_bytes(b"\0\1\2" * 400)
    made.commit(" a.py | 3 +++ is what a subject may look like")
    return made


def test_the_commits_of_a_history_have_gits_own_counts(history):
    told = pieces("git log --stat", history.git("log", "--stat"))
    assert told[0] == "12 commits"
    for digest in history.git("log", "--format=%H").decode().split():
        (line,) = (text for text in told if text.startswith(digest[:10]))
        counted = history.git("show", "--format=", "--shortstat", digest).decode().split()
        files = int(counted[0])
        assert f"({files} file{'' if files == 1 else 's'}" in line
        for at, word in enumerate(counted):
            if word.startswith("insertion"):
                assert f" +{counted[at - 1]}" in line
            if word.startswith("deletion"):
                assert f" -{counted[at - 1]}" in line


def test_the_files_of_a_comparison_are_all_there_by_kind(history):
    first = history.git("rev-list", "--max-parents=0", "HEAD").decode().strip()
    stdout = history.git("diff", "--name-status", first)
    told = pieces("git diff --name-status", stdout)
    kinds = [line[:1] for line in stdout.decode().splitlines()]
    assert told[0].startswith(f"{len(kinds)} files: ")
    for letter, word in (("A", "added"), ("M", "modified"), ("D", "deleted"), ("R", "renamed")):
        assert f"{word} {kinds.count(letter)}" in told[0]
    assert "deleted: src/part2/file12.py" in told
    assert any("file21.py -> src/part1/renamed.py" in text for text in told)


def test_the_names_of_a_history_stand_below_their_commits(history):
    told = pieces("git log --name-only", history.git("log", "--name-only"))
    assert told[0] == "12 commits"
    assert sum("(2 files)" in text or "(1 file)" in text for text in told) == 10
    assert any(text.endswith("Everything (40 files)") for text in told)
    assert "  docs/page9.md" in told


def test_a_diffstat_keeps_gits_sum_and_the_largest_files(history):
    first = history.git("rev-list", "--max-parents=0", "HEAD").decode().strip()
    stdout = history.git("diff", "--stat", first)
    told = pieces("git diff --stat", stdout)
    assert told[0] == stdout.decode().splitlines()[-1]
    assert " src/part2/file12.py -30" in told
    assert any("logo.png" in text for text in told)


def test_the_patches_of_a_history_are_counted_as_git_counts_them(history):
    reduced = shown(["git", "log", "-p"], history.git("log", "-p"))
    rows = history.git("log", "--numstat", "--format=").decode().split("\n")
    counts = [row.split("\t") for row in rows if row]
    added, removed = (sum(int(row[at]) for row in counts if row[at] != "-") for at in (0, 1))
    files = {*history.git("log", "--name-only", "--format=").decode().split("\n")} - {""}
    assert f"+{added} -{removed} in {len(files)} files, 12 commits" in reduced


def test_the_commits_of_a_graph_are_counted_and_the_lanes_left_out(history):
    history.git("checkout", "-q", "-b", "side", "HEAD~3")
    history.write("side.txt", "x\n")
    history.commit("Aside")
    history.git("merge", "-q", "-m", "Merge main", "main")
    told = pieces("git log --graph --oneline", history.git("log", "--graph", "--oneline"))
    history.git("checkout", "-q", "main")
    assert told[0] == "14 commits"
    assert "Merge main" in told[1]
    assert told[-1].endswith("Everything")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "git diff --stat",
            " a.py | 3 +++\n 1 Datei ge\xc3\xa4ndert, 3 Zeilen hinzugef\xc3\xbcgt(+)\n",
        ),
        ("git diff --stat", " a.py | Unmerged\n b.py | 3 +++\n 1 file changed, 3 insertions(+)\n"),
        ("git show --stat", "tag v1\nTagger: Ada <a@b>\n\nRelease\n\ncommit 1a2b3c4d5e6f\n"),
        ("git log --graph --oneline", "* 1a2b3c4 one\n| not a commit\n"),
        ("git diff --name-status", "warning of another kind\n"),
    ],
)
def test_what_is_not_known_is_not_summed_up(command, text):
    assert pieces(command, text.encode("latin-1") * 40) is None


def test_a_push_that_was_rejected_says_so_among_many_that_were_not(tmp_path):
    bare = tmp_path / "origin.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    mine, other = Repository(tmp_path / "mine"), Repository(tmp_path / "other")
    mine.write("a", "1")
    mine.commit("One")
    mine.git("push", "-q", str(bare), "main")
    other.git("pull", "-q", str(bare), "main")
    other.write("b", "2")
    other.commit("Two")
    other.git("push", "-q", str(bare), "main")
    mine.write("c", "3")
    mine.commit("Three")
    for number in range(90):
        mine.git("branch", f"feature/a-piece-of-work-{number:03}-of-the-team")
    done = mine.run("push", str(bare), "--all")
    assert done.returncode == 1
    assert len(done.stderr) > 4096
    text = shown(["git", "push", "origin", "--all"], done.stdout, done.stderr, 1)
    assert "! [rejected]        main -> main (fetch first)" in text
    assert "error: failed to push some refs to" in text
    assert "* [new branch] (90)" in text


def test_files_in_the_way_of_a_checkout_are_counted(tmp_path):
    made = Repository(tmp_path / "work")
    for number in range(80):
        made.write(f"src/module{number % 9}/a-part-of-the-shop-{number:03}.txt", "1")
    made.commit("One")
    for number in range(80):
        made.write(f"src/module{number % 9}/a-part-of-the-shop-{number:03}.txt", "2")
    made.commit("Two")
    for number in range(80):
        made.write(f"src/module{number % 9}/a-part-of-the-shop-{number:03}.txt", "3")
    done = made.run("checkout", "HEAD~1")
    text = shown(["git", "checkout", "HEAD~1"], done.stdout, done.stderr, done.returncode)
    assert "would be overwritten by checkout: (80)" in text
    assert "Please commit your changes or stash them" in text
    assert "Aborting" in text


def commits(words, count=300):
    """A history of `count` commits as these words of git print it, the newest first."""
    out = []
    for n in range(count, 0, -1):
        digest = b"%07x" % (0xABC0000 + n)
        if "--oneline" in words:
            lane = b"* " if "--graph" in words else b""
            out.append(lane + b"%b Step %d of the work on parts of the whole\n" % (digest, n))
            continue
        out.append(
            b"commit %b\nAuthor: Ada <a@b>\nDate:   Mon Nov 2 10:00:00 2026 +0000\n\n"
            % (digest * 6)[:40]
        )
        out.append(b"    Step %d of the work on parts of the whole\n\n" % n)
        if "--stat" in words:
            out.append(b" a.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n")
    return b"".join(out)


@pytest.mark.parametrize(
    "words",
    [
        ["git", "log"],
        ["git", "log", "--oneline"],
        ["git", "log", "--oneline", "--graph"],
        ["git", "log", "--stat"],
    ],
)
@pytest.mark.parametrize("count", [120, 700])
def test_between_two_commits_it_is_said_how_many_are_left_out(words, count):
    told = shown(words, commits(words, count)).split("\n")
    assert told[0].startswith(f"{count} commits")
    following = count
    for line in told[1:]:
        if line.startswith("... "):
            following -= int(line.split()[1])
            assert line.endswith((" commits ...", " commit ..."))
        elif " Step " in line:
            assert int(line.partition(" Step ")[2].split()[0]) == following
            following -= 1
    assert following == 0


def test_a_notable_commit_in_the_middle_has_a_gap_on_both_sides():
    words = ["git", "log", "--oneline"]
    lines = commits(words).replace(b"Step 250 of", b"Revert Step 250 of")
    told = shown(words, lines).split("\n")
    at = next(at for at, line in enumerate(told) if "Revert" in line)
    above = int(told[at - 2].partition(" Step ")[2].split()[0])
    assert told[at - 1] == f"... {above - 251} commits ..."
    assert told[at + 1] == "... 248 commits ..."
    assert " Step 1 of" in told[at + 2]


@pytest.mark.parametrize("words", [["git", "log"], ["git", "log", "--oneline"]])
def test_however_small_the_budget_the_newest_commit_is_told_first(words):
    settings = Settings()
    settings.success_bytes = 330
    reduction = Reduction(select(words, RULES), settings)
    reduction.feed(0, commits(words, 100))
    told = reduction.finish(Status(0), Recovery("yr_" + "0" * 32)).stdout.decode().split("\n")
    assert "Step 100 of" in told[1]
    assert told[2].startswith(("... ", "abc", "[yarp: "))
