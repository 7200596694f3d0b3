from __future__ import annotations

import ast
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import rich_click as click

import yarp
from yarp.cli import root

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = "import sys; from yarp.scripts import {0}; sys.exit({0}())"


def run(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "yarp", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        **more,
    )


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_the_help_leads_with_examples_and_lists_every_command(yarp_home, words):
    done = run(*words)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.index("Examples:") < done.stdout.index("Commands")
    listed = done.stdout.split("Commands", 1)[1]
    for name in ("run", "search", "read", "grep", "calls", "archive", "config", "plugins"):
        assert f"│ {name} " in listed
    for name in ("hooks", "hosts", "install", "uninstall"):
        assert f"│ {name} " in listed


def test_the_version_is_the_package_and_nothing_else(yarp_home):
    assert run("--version").stdout == f"yarp {yarp.__version__}\n"


def test_hot_commands_are_the_same_in_the_help_and_in_the_entry():
    tree = ast.parse((ROOT / "yarp" / "__main__.py").read_text())
    lean = next(
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_LEAN"
    )
    assert lean == {
        name: module for name, (module, attribute, _) in root._COMMANDS.items() if not attribute
    }


def test_the_help_imports_no_module_of_commands(yarp_home):
    code = (
        "import sys\n"
        "from yarp.cli import root\n"
        "assert root.main(['yarp', '--help']) == 0\n"
        "loaded = [module for module, name, _ in root._COMMANDS.values() if module in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("hoks",), "yarp: there is no command 'hoks'; did you mean hooks?\n"),
        (("zzz",), "yarp: there is no command 'zzz'; see: yarp --help\n"),
        (("--zzz",), "yarp: No such option '--zzz'. See: yarp --help\n"),
        (("plugins", "--jsn"), "yarp: No such option '--jsn'."),
        (("hooks", "yarp_hots"), "yarp: there is no hook 'yarp_hots'; did you mean yarp_host?\n"),
        (("hosts", "show", "zulu"), "yarp: no plugin declares a host 'zulu'; see: yarp hosts\n"),
        (("install",), "yarp: Missing argument 'HOST'. See: yarp install --help\n"),
        (("plugins", "new", "pi"), "yarp: a plugin pi is installed already, and no two can"),
        (("plugins", "new", "Not A Name"), "yarp: 'Not A Name' is no name for a plugin; use"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_words_are_one_sentence_and_64(yarp_home, words, sentence):
    done = run(*words)
    assert done.returncode == 64
    assert done.stdout == ""
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


def _helps():
    """The words of every command and of every command of a group."""
    from yarp.cli.root import _COMMANDS

    for name, (module, attribute, _) in _COMMANDS.items():
        yield (name,)
        found = getattr(importlib.import_module(module), attribute) if attribute else None
        for below in getattr(found, "commands", ()):
            yield (name, below)


# Forks of one process: a hundred interpreters would take their time to start.
HELPS = """
import contextlib, importlib, io, json, os, sys, tempfile
import yarp.__main__, yarp.cli.root

def said(words):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.exit(yarp.__main__.main(["yarp", *words, "--help"]))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return [status, *[(file.seek(0), file.read().decode())[1] for file in (out, err)]]

for module, _, _ in yarp.cli.root._COMMANDS.values():
    importlib.import_module(module)
with contextlib.redirect_stdout(io.StringIO()):
    yarp.cli.root.main(["yarp", "--help"])
print(json.dumps([said(words) for words in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def helps(tmp_path_factory):
    """What the help of each command says, with its status and what it complains of."""
    every = list(_helps())
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "100", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", HELPS],
        input=json.dumps(every),
        capture_output=True,
        text=True,
        env={**environment, "HOME": str(tmp_path_factory.mktemp("home"))},
        check=True,
        cwd="/",
    )
    return dict(zip(every, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("words", list(_helps()), ids=" ".join)
def test_the_help_of_every_command_leads_with_examples(helps, words):
    status, text, complaints = helps[words]
    assert (status, complaints) == (0, "")
    assert "\\b" not in text
    assert "\b" not in text
    lines = [line.strip() for line in text.splitlines()]
    examples = [at for at, line in enumerate(lines) if f"yarp {' '.join(words)}" in line]
    options = [at for at, line in enumerate(lines) if "Options" in line or line.startswith("-")]
    assert [at for at in examples if not lines[at].startswith("Usage")]
    assert examples[-1] < min(options, default=len(lines))


def test_a_reader_that_goes_away_is_no_error(yarp_home):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "yarp", "hooks", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        cwd="/",
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
@pytest.mark.parametrize(
    "words", ["plugins", "hooks --json", "config get version", "--help", "--version", "hosts",
              "search --help", "plugins new zeta"]
)  # fmt: skip
def test_an_answer_that_cannot_be_written_is_one_sentence_and_74(yarp_home, words, where):
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m yarp {words} {where}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
        cwd=yarp_home,
    )
    assert done.returncode == 74
    assert done.stderr.startswith("yarp: ")
    assert done.stderr.count("\n") == 1


def test_a_closed_stderr_takes_no_answer_away(yarp_home):
    done = subprocess.run(
        ["sh", "-c", '"$0" -m yarp hooks 2>&-; "$0" -m yarp zzz 2>&-', sys.executable],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 64
    assert done.stdout == "no plugin implements a hook\n" or "HOOK" in done.stdout


def test_a_broken_configuration_is_said_and_the_help_still_comes(yarp_home):
    folder = yarp_home / "config" / "yarp"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\nzzz = 1\n")
    done = run("--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert "zzz" in done.stderr
    done = run("plugins")
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_read_or_written_is_74_and_names_the_file(yarp_home, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("plugins", "new", "zeta", str(tmp_path / "file" / "below"))
    assert done.returncode == 74
    assert str(tmp_path / "file") in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_fault_of_ours_is_70_and_shows_where(yarp_home):
    code = (
        "import sys\n"
        "from yarp.cli import root\n"
        "def broken(*words): raise ZeroDivisionError\n"
        "root.Root.resolve_command = broken\n"
        "sys.exit(root.main(['yarp', 'hooks']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "fault of YARP (ZeroDivisionError)" in done.stderr
    assert "in broken" in done.stderr


@pytest.mark.parametrize(("word", "ends"), [("search", True), ("benchmark", False)])
def test_a_command_that_is_done_ends_the_process_with_all_that_it_said(yarp_home, word, ends):
    code = (
        "import atexit, sys\n"
        "from yarp.cli import root\n"
        "atexit.register(print, 'closed')\n"
        "print('said')\n"
        f"sys.exit(root.leave(7, [{word!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert done.stdout == ("said\n" if ends else "said\nclosed\n")
    assert root.leave(7, []) == 7


def test_a_hot_command_reached_the_slow_way_still_runs(yarp_home):
    done = run("--", "run", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7


@pytest.mark.parametrize(
    "words", [("-m", "yarp", "index", "status"), ("-c", SCRIPTS.format("trace_index"))]
)
def test_an_interrupt_while_it_starts_ends_it_without_a_word(yarp_home, tmp_path, words):
    (tmp_path / "rich_click.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    )
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_of_which_a_library_makes_an_error_is_one(capsys):
    @click.command()
    def swallows():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    before = signal.getsignal(signal.SIGINT)
    assert root.run(swallows, "yarp", []) == 130
    assert capsys.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("where", "yarps", "traces"),
    [("| true", 141, 141), (">&-", 74, 1), (">/dev/full", 74, 1)],
)
@pytest.mark.parametrize("words", ["", "--help", "docs list", "stats --help"])
def test_a_script_that_cannot_write_its_answer_says_so_in_its_way(
    yarp_home, words, where, yarps, traces
):
    script, status = ("trace_index", traces)
    if words == "stats --help":
        script, status = ("toolcall_extractor", yarps)
    pipe = 'set -o pipefail; { sleep 0.1; "$0" -c "$1" $2; } '
    done = subprocess.run(
        ["bash", "-c", pipe + where, sys.executable, SCRIPTS.format(script), words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    name = script.replace("_", "-")
    assert done.stderr == "" if status == 141 else done.stderr.startswith(f"{name}: ")
    assert done.stderr.count("\n") == (status != 141)
