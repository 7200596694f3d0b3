from __future__ import annotations

import json
import marshal
import os
import signal
import subprocess
import sys
import time

import pytest

import yarp

ACME = """
from yarp.plugin import Host, hookimpl

def decode(event):
    return None

@hookimpl
def yarp_host():
    return Host("acme", title="Acme", shell_tools={"sh"}, decode=decode, withholds=["nothing"])
"""

# Loads the cache as a hot command does, and tells what it found and what it cost.
PROBE = """
import json, os, sys
from yarp import cache
spawned = []
real = os.posix_spawn
os.posix_spawn = lambda *args, **more: spawned.append(1) or real(*args, **more)
compiled = cache.load()
print(json.dumps({
    "children": len(spawned),
    "in_process": "yarp.compile" in sys.modules,
    "hosts": {name: host for name, host in compiled.hosts.items() if name in ("acme", "bravo")},
    "callbacks": compiled.callbacks,
    "problems": compiled.problems,
    "programs": sorted(compiled.rules["programs"]),
    "cap": compiled.settings.output_cap_bytes,
    "tables": compiled.settings.hosts,
}))
"""


def probe(*, code=PROBE, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"stderr": done.stderr}


def settle():
    """Let the clock's tick pass, as it does between two acts of a user."""
    time.sleep(0.03)


@pytest.fixture
def yarp_home(yarp_home, monkeypatch):
    """A home where no call was made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(yarp_home / "cache"))
    return yarp_home


@pytest.fixture
def cached(yarp_home):
    def files():
        directory = yarp_home / "cache" / "yarp"
        return sorted(directory.iterdir()) if directory.is_dir() else []

    return files


@pytest.fixture
def made(yarp_home, cached, precompiled):
    """The file that a first call makes."""
    precompiled.put(yarp_home / "config", yarp_home / "cache")
    probe()
    (file,) = cached()
    return file


@pytest.fixture
def configure(yarp_home):
    def write(text):
        directory = yarp_home / "config" / "yarp"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.toml").write_text(text)
        settle()

    return write


def test_the_first_call_compiles_and_the_next_one_reads(plugin_site, cached):
    plugin_site.install("acme", ACME)
    settle()
    first, second = probe(), probe()
    assert (first["children"], second["children"]) == (1, 0)
    assert first["hosts"] == second["hosts"]
    assert second["hosts"]["acme"] == {
        "title": "Acme",
        "shell_tools": {"sh": "command"},
        "shell": None,
        "keeps_shell_state": False,
        "wrap": "always",
        "judges_words": False,
        "withholds": ["nothing"],
        "cut": None,
        "decode": "yarp_acme:decode",
        "reply": None,
        "replace": None,
        "refused": None,
        "install": None,
        "uninstall": None,
        "health": None,
        "probe": None,
        "sandbox": None,
        "spools": None,
    }
    assert "pytest" in second["programs"]
    assert len(cached()) == 1


def test_the_file_and_its_directory_are_private_whatever_the_umask(yarp_home, cached):
    before = os.umask(0)
    try:
        probe()
    finally:
        os.umask(before)
    (file,) = cached()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_public_cache_directory_of_ours_is_narrowed(yarp_home, cached):
    (yarp_home / "cache" / "yarp").mkdir(parents=True, mode=0o755)
    probe()
    (file,) = cached()
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_an_installed_plugin_an_edited_plugin_and_an_uninstalled_one_show_at_once(plugin_site):
    assert probe()["hosts"] == {}
    plugin_site.install("acme", ACME)
    settle()
    assert probe()["hosts"]["acme"]["title"] == "Acme"
    (plugin_site.path / "yarp_acme.py").write_text(ACME.replace("Acme", "Acme II"))
    settle()
    assert probe()["hosts"]["acme"]["title"] == "Acme II"
    for file in (plugin_site.path / "yarp_acme-1.0.0.dist-info").iterdir():
        file.unlink()
    (plugin_site.path / "yarp_acme-1.0.0.dist-info").rmdir()
    assert probe()["hosts"] == {}


def test_a_changed_configuration_shows_at_once(made, configure):
    assert probe()["cap"] == 5120
    configure("version = 1\n[output]\ncap_bytes = 2048\n")
    assert probe()["cap"] == 2048
    configure("version = 1\n[output]\ncap_bytes = 4096\n")
    assert probe()["cap"] == 4096
    assert probe()["children"] == 0


def test_a_rule_pack_of_the_user_shows_at_once_and_when_it_changes(made, yarp_home):
    assert "mytool" not in probe()["programs"]
    rules = yarp_home / "config" / "yarp" / "rules"
    rules.mkdir(parents=True)
    (rules / "own.toml").write_text(
        '[[rules]]\nid = "mine"\nprograms = ["mytool"]\naction = "pass"\n'
    )
    settle()
    assert "mytool" in probe()["programs"]
    (rules / "own.toml").write_text(
        '[[rules]]\nid = "mine"\nprograms = ["othertool"]\naction = "pass"\n'
    )
    settle()
    assert "othertool" in probe()["programs"]


def test_a_broken_rule_pack_costs_its_rules_and_is_said_once(yarp_home):
    rules = yarp_home / "config" / "yarp" / "rules"
    rules.mkdir(parents=True)
    (rules / "own.toml").write_text("this is no TOML")
    settle()
    first, second = probe(), probe()
    assert "pytest" in first["programs"]
    assert "own.toml" in first["stderr"]
    assert first["stderr"].count("\n") == 1
    assert second["stderr"] == ""
    assert "own.toml" in second["problems"][0]


def test_yarp_plugins_is_part_of_the_key(plugin_site, cached):
    plugin_site.install("acme", ACME)
    settle()
    assert "problem" not in probe()["hosts"]["acme"]
    assert "leaves" in probe(YARP_PLUGINS="other")["hosts"]["acme"]["problem"]
    assert "leaves" in probe(YARP_PLUGINS="")["hosts"]["acme"]["problem"]
    assert "problem" not in probe(YARP_PLUGINS="acme")["hosts"]["acme"]
    assert len(cached()) == 4
    assert probe()["children"] == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: b"other" + data[5:],
        lambda data: os.urandom(2000),
    ],
    ids=["a byte short", "half", "empty", "one bit", "another program's", "noise"],
)
def test_a_damaged_file_is_as_good_as_none(made, damage):
    made.write_bytes(damage(made.read_bytes()))
    assert probe()["children"] == 1
    assert probe()["children"] == 0


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o666])
def test_a_file_that_others_can_reach_is_not_trusted(made, mode):
    made.chmod(mode)
    assert probe()["children"] == 1
    assert made.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_owner_is_not_trusted(made):
    os.chown(made, 12345, 12345)
    assert probe()["children"] == 1
    assert made.stat().st_uid == 0


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_no_regular_file_is_not_read(made, tmp_path, kind):
    if kind == "link":
        made.rename(tmp_path / "elsewhere")
        made.symlink_to(tmp_path / "elsewhere")
    else:
        made.unlink()
        os.mkfifo(made, 0o600) if kind == "pipe" else made.mkdir()
    assert probe()["children"] == 1


@pytest.mark.parametrize("place", ["a file", "a link to nowhere"])
def test_a_cache_that_cannot_be_written_costs_time_and_never_a_call(yarp_home, place):
    if place == "a file":
        (yarp_home / "cache").write_text("in the way")
    else:
        (yarp_home / "cache").symlink_to("/nonexistent/there")
    for _ in range(2):
        found = probe()
        assert found["children"] == 1
        assert found["cap"] == 5120


def test_without_a_child_it_is_compiled_in_the_process(yarp_home):
    nowhere = "import sys; sys.executable = '/nonexistent/python'\n"
    found = probe(code=nowhere + PROBE)
    assert (found["children"], found["in_process"]) == (1, True)
    assert "pytest" in found["programs"]
    assert probe(code=nowhere + PROBE)["in_process"] is False


def test_a_process_that_changed_its_search_path_still_gets_its_own_plugins(
    plugin_site, tmp_path, monkeypatch
):
    plugin_site.install("acme", ACME)
    monkeypatch.delenv("PYTHONPATH")
    settle()
    moved = f"import sys; sys.path.append({str(plugin_site.path)!r})\n"
    assert probe(code=moved + PROBE)["hosts"]["acme"]["title"] == "Acme"
    assert probe(code=moved + PROBE)["children"] == 0


def test_a_broken_configuration_is_a_config_error_each_time(configure):
    configure("version = 1\nunknown_key = 3\n")
    code = (
        "from yarp import cache, errors\n"
        "import json\n"
        "try: cache.load()\n"
        "except errors.ConfigError as error: print(json.dumps({'error': str(error)}))\n"
    )
    for _ in range(2):
        assert "unknown_key" in probe(code=code)["error"]
    configure("version = 1\n")
    assert probe()["cap"] == 5120


def test_a_plugin_that_fails_to_load_is_said_once_and_stands_in_for_its_host(plugin_site):
    plugin_site.install("acme", "raise RuntimeError('out of order')")
    plugin_site.install("bravo", ACME.replace("acme", "bravo"))
    settle()
    first, second = probe(), probe()
    assert first["stderr"] == (
        "yarp: plugin acme (yarp-acme 1.0.0) cannot be loaded: RuntimeError: out of order\n"
    )
    assert second["stderr"] == ""
    assert "out of order" in second["hosts"]["acme"]["problem"]
    assert second["hosts"]["bravo"]["decode"] == "yarp_bravo:decode"


def test_what_a_plugin_prints_while_it_loads_does_not_end_up_in_the_cache(plugin_site):
    plugin_site.install("acme", "import os\nprint('hello')\nos.write(1, b'there')\n" + ACME)
    settle()
    found = probe()
    assert found["in_process"] is False
    assert "hello" in found["stderr"]


@pytest.mark.parametrize(
    "code", [ACME, "raise RuntimeError('out of order')"], ids=["works", "fails"]
)
@pytest.mark.parametrize("package", [False, True], ids=["module", "package"])
def test_what_python_writes_as_it_first_imports_a_plugin_is_no_change(plugin_site, code, package):
    plugin_site.install("acme", code)
    directory = plugin_site.path
    if package:
        directory /= "yarp_acme"
        directory.mkdir()
        (plugin_site.path / "yarp_acme.py").rename(directory / "__init__.py")
    settle()
    first, second = [probe(PYTHONDONTWRITEBYTECODE="") for _ in range(2)]
    assert (directory / "__pycache__").is_dir()
    assert (first["children"], first["in_process"]) == (1, False)
    assert (second["children"], second["stderr"]) == (0, "")
    assert first["hosts"] == second["hosts"]


def test_a_change_while_it_is_compiled_costs_the_next_call_time_and_shows_there(plugin_site):
    plugin_site.install("bravo", ACME.replace("acme", "bravo"))
    held = plugin_site.path / "yarp_bravo-1.0.0.dist-info"
    held.rename(plugin_site.path / "later")
    plugin_site.install(
        "acme",
        "import os\n"
        f"if os.path.isdir({str(plugin_site.path / 'later')!r}):\n"
        f"    os.rename({str(plugin_site.path / 'later')!r}, {str(held)!r})\n" + ACME,
    )
    settle()
    found = [probe(PYTHONDONTWRITEBYTECODE="") for _ in range(3)]
    assert [list(one["hosts"]) for one in found] == [["acme"], ["acme", "bravo"], ["acme", "bravo"]]
    assert [one["children"] for one in found] == [1, 1, 0]
    assert not any(one["in_process"] for one in found)


def test_callbacks_are_listed_in_calling_order(plugin_site, configure):
    code = "from yarp.plugin import hookimpl\n@hookimpl\ndef yarp_call_started(call): pass\n"
    for name in ("alpha", "bravo", "carol"):
        plugin_site.install(name, code)
    configure('version = 1\n[plugins]\norder = ["carol"]\n')
    assert probe()["callbacks"] == {"yarp_call_started": ["carol", "alpha", "bravo"]}


def test_a_table_of_a_host_that_is_not_installed_is_kept_and_warned_about(configure):
    configure('version = 1\n[hosts.zulu]\nwrap = "never"\n')
    found = probe()
    assert found["tables"] == {"zulu": {"wrap": "never"}}
    assert "hosts.zulu" in found["stderr"]


def test_many_calls_that_find_it_stale_at_once_all_get_it(yarp_home, cached):
    children = [
        subprocess.Popen([sys.executable, "-c", PROBE], stdout=subprocess.PIPE, text=True, cwd="/")
        for _ in range(6)
    ]
    for child in children:
        assert json.loads(child.communicate()[0])["cap"] == 5120
        assert child.returncode == 0
    assert [file.name.count(".") for file in cached()] == [0]


def test_a_killed_writer_leaves_nothing_that_is_read(yarp_home, cached):
    for delay_ms in (20, 60, 100, 140, 180):
        child = subprocess.Popen([sys.executable, "-P", "-m", "yarp.compile"], cwd="/")
        time.sleep(delay_ms / 1000)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert probe()["cap"] == 5120
        for file in cached():
            file.unlink()


HASTY = "import yarp.cache\nyarp.cache._LOAD_LIMIT_MS = 1500\n" + PROBE


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("import os\nos._exit(5)", "ended the process with status 5"),
        ("import os\nos._exit(0)", "ended the process with status 0"),
        ("import os\nos._exit(64)", "ended the process with status 64"),
        ("import os\nos.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("import time\ntime.sleep(600)", "did not end within 1 s"),
        (
            ACME.replace('return Host("acme", ', 'import os; os._exit(5); Host("acme", '),
            "ended the process with status 5",
        ),
    ],
    ids=["exits", "exits with 0", "exits with 64", "is killed", "hangs", "exits in a hook"],
)
def test_a_plugin_that_ends_or_stops_the_process_is_named_and_paid_for_once(
    plugin_site, code, ending
):
    plugin_site.install("acme", code)
    plugin_site.install("bravo", ACME.replace("acme", "bravo"))
    settle()
    first, second = probe(code=HASTY), probe(code=HASTY)
    assert (first["children"], first["in_process"]) == (2, False)
    assert first["stderr"] == f"yarp: {first['hosts']['acme']['problem']}\n"
    assert first["stderr"].startswith(f"yarp: plugin acme (yarp-acme 1.0.0) {ending} while")
    assert "yarp plugins" in first["stderr"]
    assert (second["children"], second["stderr"]) == (0, "")
    assert second["hosts"] == first["hosts"]
    assert second["hosts"]["bravo"]["decode"] == "yarp_bravo:decode"


def test_two_plugins_that_end_the_process_are_both_named(plugin_site):
    plugin_site.install("acme", "import os\nos._exit(5)")
    plugin_site.install("bravo", "import os\nos._exit(6)")
    settle()
    found = probe()
    assert "status 5" in found["hosts"]["acme"]["problem"]
    assert "status 6" in found["hosts"]["bravo"]["problem"]
    assert probe()["children"] == 0


def test_a_plugin_that_was_given_up_is_tried_again_when_any_file_of_its_package_changes(
    plugin_site,
):
    plugin_site.install("acme", "", module="yarp_acme_one")
    package = plugin_site.path / "yarp_acme_one"
    package.mkdir()
    (plugin_site.path / "yarp_acme_one.py").unlink()
    (package / "__init__.py").write_text("from yarp_acme_one.deep import *\n")
    (package / "deep.py").write_text("import os\nos._exit(5)\n")
    settle()
    assert "problem" in probe()["hosts"]["acme"]
    assert probe()["children"] == 0
    (package / "deep.py").write_text(ACME + "__all__ = ['yarp_host', 'decode']\n")
    settle()
    assert probe()["hosts"]["acme"]["title"] == "Acme"


def test_threads_and_last_words_of_a_plugin_keep_nobody_waiting(plugin_site):
    plugin_site.install(
        "acme",
        "import atexit, os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "atexit.register(os._exit, 5)\n" + ACME,
    )
    settle()
    found = probe()
    assert (found["children"], found["hosts"]["acme"]["title"]) == (1, "Acme")


def test_an_edit_of_our_own_code_makes_it_anew(made):
    _, stamps, *_ = marshal.loads(made.read_bytes()[16:])
    watched = {path for path, _ in stamps}
    for name in ("cache", "compile", "config", "plugins", "settings", "types"):
        assert os.path.join(os.path.dirname(yarp.__file__), f"{name}.py") in watched


def test_a_host_without_a_plugin_is_an_error_that_says_what_to_do(yarp_home):
    code = (
        "from yarp import cache, errors\n"
        "import json\n"
        "try: cache.load().host('zulu')\n"
        "except errors.PluginError as error: print(json.dumps({'error': str(error)}))\n"
    )
    assert "install yarp-zulu" in probe(code=code)["error"]


def test_files_of_environments_long_gone_are_swept(made, cached):
    old = made.with_name("compiled-0000000000000000")
    old.write_bytes(b"x")
    os.utime(old, (1, 1))
    made.unlink()
    probe()
    assert old not in cached()
