"""`yarp rules` as whole processes: built-in, user, plugin and project packs."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

LISTING = "".join(f"acme-thing-{n:03}\n" for n in range(300))
RULE = """
[[rules]]
id = "ID"
programs = ["PROGRAM"]
family = "list"
guards = ["--json"]

[[rules.examples]]
command = ["PROGRAM"]
stdout = "out.txt"
keep = ["300"]
recorded = false

[[rules.examples]]
command = ["PROGRAM", "--json"]
guard = true
"""


def write(folder, identifier="acme-things", program="acme"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{identifier}.toml").write_text(
        RULE.replace("ID", identifier).replace("PROGRAM", program)
    )
    (folder / "out.txt").write_text(LISTING)
    return folder


@pytest.fixture
def cli(yarp_home, tmp_path):
    """Runs `yarp`, in `project` unless told otherwise; gives what subprocess gives."""
    project = tmp_path / "project"
    (project / "below").mkdir(parents=True)

    def run(*words, cwd=project, **more):
        return subprocess.run(
            [sys.executable, "-P", "-m", "yarp", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
            **more,
        )

    run.project = project
    run.user = yarp_home / "config" / "yarp" / "rules"
    return run


def explained(cli, *words, **more):
    return json.loads(cli("rules", "explain", "--json", "--", *words, **more).stdout)


def shortened(cli, **more):
    """Whether the output of `acme` is shortened here."""
    return "omitted" in cli("reduce", "--command", "acme", input=LISTING, **more).stdout


def test_all_rules_are_listed_with_their_packs(cli):
    write(cli.user)
    found = json.loads(cli("rules", "list", "--json").stdout)
    rules = {(rule["pack"], rule["rule"]): rule for rule in found["rules"]}
    assert rules["yarp", "pytest"]["family"] == "test"
    assert rules["user", "acme-things"]["state"] == "on"
    assert rules["user", "acme-things"]["recorded"] == 1  # the guard; guards have no output
    assert {pack["name"] for pack in found["packs"]} == {"yarp", "user"}
    assert found["project"] is None
    assert found["conflicts"] == []
    table = cli("rules", "list").stdout.splitlines()
    assert table[0].split() == ["PACK", "RULE", "ACTION", "FAMILY", "COMMANDS"]
    assert ["user", "acme-things", "reduce", "list", "acme"] in [line.split() for line in table]


def test_conflicting_rules_are_off_everywhere_and_named(cli):
    write(cli.user, "own-pytest", "pytest")
    done = cli("rules", "list")
    assert "user/own-pytest both claim pytest" in done.stderr.replace("yarp/pytest and ", "")
    off = {line.split()[1] for line in done.stdout.splitlines() if line.split()[2] == "off"}
    assert off == {"pytest", "own-pytest"}
    found = explained(cli, "pytest")
    assert found["outcome"] == "none"
    assert found["conflicting"] == ["yarp/pytest", "user/own-pytest"]
    assert "off, it conflicts: user/own-pytest" in cli("rules", "explain", "--", "pytest").stdout
    done = cli("rules", "check", cli.user)
    assert done.returncode == 65
    assert "both claim pytest" in done.stderr


@pytest.mark.parametrize(
    ("words", "outcome", "rule"),
    [
        (("git", "status"), "reduce", "git-status"),
        (("uv", "run", "pytest", "-q"), "reduce", "pytest"),
        (("git", "status", "--porcelain"), "guarded", None),
        (("sometool", "x"), "none", None),
    ],
)
def test_a_command_is_explained(cli, words, outcome, rule):
    found = explained(cli, *words)
    assert found["outcome"] == outcome
    assert found.get("rule") == rule
    if outcome == "guarded":
        assert found["matching"][0]["guard"] == "--porcelain"
    if rule is not None:
        assert found["success_bytes"] < found["failure_bytes"]


def test_an_explanation_names_the_reducers_of_plugins(cli, plugin_site):
    plugin_site.install(
        "acme",
        "from yarp.plugin import Band, Family, Reducer, hookimpl\n"
        "@hookimpl\n"
        "def yarp_reducers():\n"
        "    return [Reducer('own', band=Band.EXACT, serves=['pytest'], make=Family)]\n",
    )
    assert explained(cli, "pytest")["reducers"] == ["reducer own of plugin acme"]


def test_a_new_rule_passes_its_tests_and_works(cli):
    done = cli("rules", "new", "acme")
    assert done.returncode == 0
    assert cli("rules", "test", "acme-list").returncode == 0
    assert cli("rules", "check").returncode == 0
    assert explained(cli, "acme", "ls")["pack"] == "user"
    again = cli("rules", "new", "acme")
    assert again.returncode == 64
    assert "is there already" in again.stderr


def test_wrong_names_and_folders_are_refused(cli):
    assert cli("rules", "new", "../escape").returncode == 64
    assert cli("rules", "check", "nowhere").returncode == 65
    assert "yarp rules new" in cli("rules", "check").stderr
    assert "did you mean pytest?" in cli("rules", "test", "pytes").stderr
    assert cli("rules", "trust", ".").returncode == 65
    assert cli("rules", "trust", "--revoke", ".").returncode == 64


def test_an_example_that_does_not_hold_is_named(cli):
    folder = write(cli.project / "pack")
    file = folder / "acme-things.toml"
    file.write_text(file.read_text().replace('keep = ["300"]', 'keep = ["no such fact"]'))
    done = cli("rules", "test", "./pack")
    assert done.returncode == 65
    assert "pack/acme-things: acme: loses ['no such fact']" in done.stderr
    assert cli("rules", "check", "./pack").returncode == 0


def test_the_built_in_rules_pass(cli):
    found = json.loads(cli("rules", "test", "--json").stdout)
    assert found["ok"] is True
    assert found["rules"] > 15


def test_an_untrusted_project_is_named_and_unused_until_it_is_trusted(cli):
    write(cli.project / ".yarp" / "rules")
    done = cli("rules", "list")
    assert "acme-things" not in done.stdout
    assert "not trusted" in done.stderr
    assert "yarp rules trust" in done.stderr
    assert not shortened(cli)

    assert cli("rules", "trust", ".").returncode == 0
    assert "project" in cli("rules", "list").stdout
    assert shortened(cli)
    assert shortened(cli, cwd=cli.project / "below")
    assert not shortened(cli, cwd=cli.project.parent)
    assert not shortened(cli, cwd="/")
    assert explained(cli, "acme", cwd=cli.project / "below")["pack"] == "project"

    assert cli("rules", "trust", "--revoke", ".").returncode == 0
    assert not shortened(cli)


def test_a_project_that_changed_is_named_and_unused_until_it_is_trusted_again(cli):
    folder = write(cli.project / ".yarp" / "rules")
    cli("rules", "trust", ".")
    assert shortened(cli)
    (folder / "more.toml").write_text("")
    assert not shortened(cli)
    done = cli("rules", "list")
    assert "changed since they were trusted" in done.stderr
    assert "acme-things" not in done.stdout
    (folder / "more.toml").unlink()
    assert shortened(cli)
    file = folder / "acme-things.toml"
    file.write_text(file.read_text().replace("acme-things", "acme-thongs"))
    assert not shortened(cli)
    cli("rules", "trust", folder)
    assert shortened(cli)


def test_a_trusted_project_works_in_yarp_run_and_its_conflicts_stay_its_own(cli, tmp_path):
    folder = write(cli.project / ".yarp" / "rules", "own-ls", "ls")
    many = tmp_path / "many"
    many.mkdir()
    for n in range(300):
        (many / f"name-{n:03}").touch()
    assert cli("rules", "trust", ".").returncode == 0
    assert "omitted" in cli("run", "--", "ls", many, cwd="/").stdout
    assert "omitted" not in cli("run", "--", "ls", many).stdout  # both are off here
    folder.joinpath("own-ls.toml").unlink()
    write(folder)
    cli("rules", "trust", ".")
    assert "omitted" in cli("run", "--", "ls", many).stdout


@pytest.mark.parametrize("what", ["a link", "a pipe", "a linked folder"])
def test_a_project_with_anything_but_files_is_not_trusted(cli, what):
    folder = write(cli.project / ".yarp" / "rules")
    if what == "a link":
        (folder / "more.toml").symlink_to("/etc/passwd")
    elif what == "a pipe":
        os.mkfifo(folder / "more.toml")
    else:
        (folder / "more").symlink_to("/etc")
    done = cli("rules", "trust", ".")
    assert done.returncode == 65
    assert "more" in done.stderr


def test_a_project_behind_a_link_goes_by_its_real_place(cli, tmp_path):
    write(cli.project / ".yarp" / "rules")
    link = tmp_path / "link"
    link.symlink_to(cli.project)
    assert cli("rules", "trust", link, cwd="/").returncode == 0
    assert shortened(cli)
    assert shortened(cli, cwd=link)


def test_a_record_of_trust_that_others_can_write_is_not_believed(cli, yarp_home):
    write(cli.project / ".yarp" / "rules")
    cli("rules", "trust", ".")
    record = yarp_home / "config" / "yarp" / "trusted-rules.json"
    assert record.stat().st_mode & 0o777 == 0o600
    record.chmod(0o666)
    os.utime(record)
    assert not shortened(cli)
    done = cli("rules", "list")
    assert "others can write it" in done.stderr
    record.chmod(0o600)
    record.write_text("{")
    assert "trust again" in cli("rules", "list").stderr
    assert not shortened(cli)


# More of them, where they are read: tests/reduce/rules/test_hostile.py.
@pytest.mark.parametrize("fault", ["an unknown action", "a bomb", "a pipe", "a crowd"])
def test_a_hostile_pack_is_refused_with_its_reason_and_commands_run_unchanged(cli, fault):
    cli.user.mkdir(parents=True)
    if fault == "an unknown action":
        (cli.user / "x.toml").write_text('[[rules]]\nid="a"\nprograms=["a"]\naction="exec"\n')
        reason = "action must be one of"
    elif fault == "a bomb":
        (cli.user / "x.toml").write_text("a." * 250_000 + "x = 1")
        reason = "a key has too many parts"
    elif fault == "a pipe":
        os.mkfifo(cli.user / "x.toml")
        reason = "no regular file"
    else:
        for number in range(10_000):
            (cli.user / f"{number}.toml").touch()
        reason = "256 in a pack at most"
    done = cli("rules", "check", cli.user, timeout=20)
    assert done.returncode == 65
    assert reason in done.stderr
    assert reason in cli("rules", "list", timeout=20).stderr
    done = cli("run", "--", "echo", "unchanged", timeout=20)
    assert (done.returncode, done.stdout) == (0, "unchanged\n")
    assert explained(cli, "pytest")["outcome"] == "reduce"


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_users_pack_reads_its_own_regular_files_alone(cli, tmp_path, what):
    folder = write(cli.user)
    (folder / "out.txt").unlink()
    if what == "link":
        (tmp_path / "secret").write_text(LISTING)
        (folder / "out.txt").symlink_to(tmp_path / "secret")
    elif what == "pipe":
        os.mkfifo(folder / "out.txt")
    else:
        (folder / "out.txt").mkdir()
    done = cli("rules", "list")
    assert "out.txt" in done.stderr
    assert "the pack is left out" in done.stderr
