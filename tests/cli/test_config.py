import json
import os
import stat
import tomllib

import pytest
from click.testing import CliRunner

from yarp.cli.config import command
from yarp.errors import YarpError


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("YARP_ARCHIVE", raising=False)
    return tmp_path / "yarp" / "config.toml"


def run(*words):
    result = CliRunner().invoke(command, words, catch_exceptions=True)
    if isinstance(result.exception, YarpError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def write(path, text):
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text)


def test_path_prints_the_file_whether_it_is_there_or_not(path):
    assert run("path") == (0, f"{path}\n")


def test_init_creates_a_private_valid_template_once(path):
    old = os.umask(0o777)
    try:
        assert run("init") == (0, f"created {path}\n")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert run("check") == (0, "configuration: ok\n")
    code, message = run("init")
    assert code == 64
    assert "exists already" in message


def test_every_commented_line_of_the_template_is_a_valid_setting(path):
    run("init")
    lines = path.read_text().splitlines()
    uncommented = [line[2:] if line.startswith("# ") and " = " in line else line for line in lines]
    path.write_text("\n".join(uncommented))
    assert run("check") == (0, "configuration: ok\n")
    assert len(tomllib.loads(path.read_text())["reduce"]) == 4


def test_show_prints_every_value_in_use(path):
    write(path, "version = 1\noutput.cap_bytes = 0\n[hosts.acme]\nmode = 'fast'\n")
    code, text = run("show")
    assert code == 0
    assert "output.cap_bytes = 0\n" in text
    assert "output.recovery_cap_lines = 1900  # default\n" in text
    assert json.loads(run("show", "--json")[1]) == {
        "version": 1,
        "pruning": {"enabled": True},
        "output": {"cap_bytes": 0, "recovery_cap_bytes": 32768, "recovery_cap_lines": 1900},
        "reduce": {
            "success_bytes": 1024,
            "failure_bytes": 4096,
            "minimum_savings_bytes": 256,
            "minimum_savings_percent": 15,
        },
        "archive": {
            "enabled": True,
            "path": str(path.parent.parent / "data" / "yarp" / "tool-calls.sqlite3"),
        },
        "rules": {"packs": []},
        "plugins": {"order": []},
        "hosts": {"acme": {"mode": "fast"}},
    }


def test_set_keeps_comments_order_and_layout(path):
    write(
        path,
        "# mine\nversion=1   # one\n\n[archive]\nenabled =  true # keep\n\n"
        "[output]\n  cap_bytes = 2000 # small\n# end\n",
    )
    assert run("set", "output.cap_bytes", "4096") == (0, "output.cap_bytes = 4096\n")
    assert path.read_text() == (
        "# mine\nversion=1   # one\n\n[archive]\nenabled =  true # keep\n\n"
        "[output]\n  cap_bytes = 4096 # small\n# end\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["config.toml"]


@pytest.mark.parametrize(
    "before",
    [
        "version = 1\noutput = { cap_bytes = 2000, recovery_cap_lines = 9 } # inline\n",
        "version = 1\noutput.cap_bytes = 2000\noutput.recovery_cap_lines = 9\n",
        "version = 1\r\n[output]\r\ncap_bytes = 2000\r\nrecovery_cap_lines = 9\r\n",
        '"version" = 1\n["output"]\n"cap_bytes" = 2000\nrecovery_cap_lines = 9',
        "version = 1\n[hosts.a]\n[output]\ncap_bytes = 2000\nrecovery_cap_lines = 9\n[hosts.b]\n",
    ],
)
def test_set_and_unset_edit_every_layout_of_a_table(path, before):
    write(path, before)
    assert run("set", "output.cap_bytes", "0") == (0, "output.cap_bytes = 0\n")
    assert run("set", "output.recovery_cap_bytes", "2048")[0] == 0
    assert run("get", "output.recovery_cap_lines") == (0, "9\n")
    assert run("get", "output.cap_bytes") == (0, "0\n")
    assert run("unset", "output.recovery_cap_bytes")[0] == 0
    assert run("unset", "output.cap_bytes") == (0, "output.cap_bytes = 5120\n")
    assert run("get", "output.recovery_cap_lines") == (0, "9\n")


def test_set_without_a_file_makes_one(path):
    assert run("set", "archive.enabled", "false") == (0, "archive.enabled = false\n")
    assert tomllib.loads(path.read_text()) == {"version": 1, "archive": {"enabled": False}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_set_takes_any_number_of_values_for_a_list_and_resolves_paths(path):
    home = path.parent
    for name in ("yarp/a", "b"):
        (home.parent / name).mkdir(parents=True, exist_ok=True)
    assert run("set", "rules.packs", "a", "../b")[1] == (
        f'rules.packs = ["{home}/a", "{home.parent}/b"]\n'
    )
    assert run("get", "rules.packs")[1] == f'["{home}/a", "{home.parent}/b"]\n'
    assert run("set", "rules.packs") == (0, "rules.packs = []\n")
    assert run("set", "archive.path", "x.db") == (0, f"archive.path = {home}/x.db\n")


def test_a_rule_pack_that_cannot_be_used_is_refused(path):
    code, message = run("set", "rules.packs", "missing")
    assert code == 64
    assert "missing: the rule pack cannot be read" in message
    assert not path.exists()
    for name in ("one/pack", "two/pack"):
        (path.parent / name).mkdir(parents=True)
    assert "both called pack" in run("set", "rules.packs", "one/pack", "two/pack")[1]
    (path.parent / "one/pack/bad.toml").write_text("frob = 1\n")
    write(path, 'version = 1\nrules.packs = ["one/pack"]\n')
    code, message = run("check")
    assert code == 64
    assert "bad.toml" in message


def test_set_refuses_what_the_whole_file_would_not_allow_and_writes_nothing(path):
    write(path, "version = 1\n")
    for words in (
        ("output.cap_bytes", "12"),
        ("output.cap_bytes", "012"),
        ("output.cap_bytes", "-5"),
        ("output.cap_bytes",),
        ("output.cap_bytes", "1", "2"),
        ("archive.enabled", "yes"),
        ("archive.path", ""),
        ("rules.packs", "a", "a"),
        ("version", "2"),
        ("output", "1"),
        ("nothing.here", "1"),
        ("hosts.acme", "1"),
        ("hosts..a", "1"),
    ):
        code, message = run("set", *words)
        assert code == 64, words
        assert message, words
        assert path.read_text() == "version = 1\n"


def test_a_broken_file_is_never_edited(path):
    write(path, "version = 1\n[output]\ncap = 1\n")
    before = path.read_text()
    assert run("set", "output.cap_bytes", "0")[0] == 64
    assert path.read_text() == before


def test_a_host_table_is_edited_freely(path):
    assert run("set", "hosts.acme.deep.on", "true")[0] == 0
    assert run("set", "hosts.acme.names", "a", "2")[0] == 0
    assert run("get", "hosts.acme") == (0, '{"names": ["a", 2], "deep": {"on": true}}\n')
    assert run("get", "hosts.acme.names") == (0, '["a", 2]\n')
    assert run("get", "hosts.other")[0] == 64
    assert run("unset", "hosts.acme.names")[0] == 0
    assert run("unset", "hosts.acme.deep.on")[0] == 0
    assert tomllib.loads(path.read_text()) == {"version": 1}


def test_unset_drops_a_section_that_holds_nothing_but_keeps_comments(path):
    write(path, "version = 1\n[output]\ncap_bytes = 0\n[archive]\n# why\nenabled = false\n")
    run("unset", "output.cap_bytes")
    run("unset", "archive.enabled")
    assert path.read_text() == "version = 1\n[archive]\n# why\n"


def test_unset_refuses_the_version_and_what_is_not_set(path):
    assert run("unset", "output.cap_bytes")[0] == 64
    write(path, "version = 1\n")
    assert "must stay" in run("unset", "version")[1]
    assert run("unset", "output.cap_bytes") == (64, "output.cap_bytes is not set")


def test_a_symbolic_link_is_refused(path, tmp_path):
    target = tmp_path / "real.toml"
    target.write_text("version = 1\n")
    path.parent.mkdir(mode=0o700)
    path.symlink_to(target)
    code, message = run("set", "output.cap_bytes", "0")
    assert code == 64
    assert "symbolic link" in message
    assert target.read_text() == "version = 1\n"
    assert run("init")[0] == 64


def test_check_prints_one_line_a_problem(path):
    write(path, "version = 1\nx = 1\noutput.cap_bytes = 3\n")
    result = CliRunner().invoke(command, ["check"])
    assert isinstance(result.exception, YarpError)
    lines = [*result.stderr.splitlines(), str(result.exception)]
    assert len(lines) == 2
    assert all(f"{path}: " in line for line in lines)


def test_a_directory_in_place_of_the_file_is_refused(path):
    path.mkdir(parents=True)
    assert run("check")[0] == 64
    assert run("set", "output.cap_bytes", "0")[0] in {64, 74}


def test_a_wrong_value_is_blamed_on_the_argument_not_on_a_file(path):
    code, message = run("set", "output.cap_bytes", "foo")
    assert code == 64
    assert "output.cap_bytes cannot be 'foo'" in message
    assert "config.toml" not in message


def test_a_refused_value_is_told_and_nothing_is_written(path):
    code, message = run("set", "output.cap_bytes", "5")
    assert code == 64
    assert "output.cap_bytes cannot be 5; allowed: " in message
    assert message.endswith("; nothing was changed")
    assert not path.exists()
    write(path, "version = 1\noutput.recovery_cap_lines = 0\n")
    code, message = run("set", "output.cap_bytes", "8192")
    assert "output.recovery_cap_lines is 0; allowed: " in message
    assert message.endswith("; nothing was changed")


def test_check_names_a_key_that_an_installed_host_does_not_know(path):
    write(path, "version = 1\n[hosts.pi]\nfoo = 1\n[hosts.nobody]\nfoo = 1\n")
    code, message = run("check")
    assert code == 64
    assert "hosts.pi.foo is no key of Pi's; there are: wrap" in message
    assert "nobody" not in message
