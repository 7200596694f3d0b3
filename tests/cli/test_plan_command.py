import json
import os
import shlex
import subprocess
import sys

import pytest

PROGRAM = os.path.join(os.path.dirname(sys.executable), "yarp")
IDS = [
    *("--archive-agent", "acme", "--archive-account", "it's", "--archive-session", "s"),
    *("--archive-call", "c 1"),
]
ACME = """
from yarp.plugin import Host, hookimpl

@hookimpl
def yarp_host():
    return Host("acme", shell_tools={"sh": "text"}, shell="/bin/sh", keeps_shell_state=KEEPS)
"""


@pytest.fixture(autouse=True)
def home(yarp_home):
    return yarp_home


def run(*words, **more):
    return subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, check=False, cwd="/", **more
    )


def host(plugin_site, monkeypatch, *, keeps):
    plugin_site.install("acme", ACME.replace("KEEPS", str(keeps)))
    monkeypatch.setenv("YARP_PLUGINS", "acme")


def test_a_rewritten_text_is_printed_without_a_newline_and_holds_the_command_unchanged():
    command = "cd x && pytest -k 'a or b' 2>&1 | tail -50; echo \"$?\""
    done = run("rewrite", command)
    assert (done.returncode, done.stderr) == (0, "")
    assert not done.stdout.endswith("\n")
    words = shlex.split(done.stdout)
    assert words[0] == PROGRAM
    assert words[1:] == ["run", "--shell", command]


def test_a_text_that_is_not_wrapped_prints_nothing_and_ends_with_3():
    for command in ("echo pytest", "n=$(grep -c foo f)", "yarp search yr_1 x", "pytest 'open"):
        done = run("rewrite", command)
        assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_the_text_that_a_host_gets_names_its_call_and_its_shell(plugin_site, monkeypatch):
    host(plugin_site, monkeypatch, keeps=False)
    words = shlex.split(run("rewrite", *IDS, "cd x && pytest").stdout)
    assert words[2:-4] == IDS
    assert words[-4:] == ["--shell-program", "/bin/sh", "--shell", "cd x && pytest"]


def test_a_host_that_keeps_its_shells_state_gets_no_text_wrapped_that_changes_it(
    plugin_site, monkeypatch
):
    host(plugin_site, monkeypatch, keeps=True)
    for command in ("cd x && pytest", "export A=1; pytest", ". venv/bin/activate && pytest"):
        assert run("rewrite", *IDS, command).returncode == 3
    assert run("rewrite", *IDS, "(cd x && pytest) 2>&1 | tail -5").returncode == 0
    assert run("rewrite", *IDS, "A=1 pytest").returncode == 0


def test_the_plan_is_one_line_of_json():
    done = run("plan", "--json", "pytest | tail -5")
    assert done.stdout.count("\n") == 1
    plan = json.loads(done.stdout)
    assert plan["version"] == 1
    assert plan["execution"]["kind"] == "rewrite"
    assert plan["execution"]["command"] == run("rewrite", "pytest | tail -5").stdout
    assert plan["result"] == {"kind": "ordinary"}
    assert json.loads(run("plan", "--json", "cd x; yarp read yr_1 1:5").stdout) == {
        "version": 1,
        "execution": {"kind": "original"},
        "result": {"kind": "recovery"},
    }


def test_the_plan_in_words_says_whose_the_output_is():
    done = run("plan", "git status; echo -----; git diff | head -20")
    assert done.stdout.splitlines() == [
        "execution: rewrite",
        "output:    yarp/git-status",
        "output:    yarp/git-diff, of the first 20 lines",
        "status:    that of a later command",
    ]
    assert run("plan", "echo pytest").stdout == "execution: original\noutput:    exact\n"


def test_some_of_the_four_ids_are_refused():
    done = run("rewrite", *IDS[:4], "pytest")
    assert done.returncode == 64
    assert "all four" in done.stderr


def test_a_host_without_its_plugin_is_refused():
    assert run("rewrite", *IDS, "pytest").returncode == 70


def test_with_pruning_off_nothing_is_wrapped(yarp_home):
    folder = yarp_home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\n[pruning]\nenabled = false\n")
    assert run("rewrite", "pytest").returncode == 3
