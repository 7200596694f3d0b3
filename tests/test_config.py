import json
import os
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp import config
from yarp.errors import ConfigError
from yarp.settings import Settings

REFERENCE = os.path.join(os.path.dirname(__file__), "..", "docs", "reference", "configuration.md")


def refusal(text, path="/etc/acme/config.toml"):
    with pytest.raises(ConfigError) as caught:
        config.parse(text.encode() if isinstance(text, str) else text, path)
    assert caught.value.exit_code == 64
    return str(caught.value)


def test_a_missing_file_is_the_defaults_and_they_equal_the_settings(tmp_path):
    loaded = config.load_config(str(tmp_path / "config.toml"))
    assert loaded == config.Config()
    assert loaded.settings().dump() == Settings().dump()


def test_an_empty_file_with_a_version_is_the_defaults():
    assert config.parse(b"version = 1\n", "/x/config.toml") == config.Config()


def test_the_version_is_required_when_the_file_exists():
    assert "version is missing; write `version = 1`" in refusal("[output]\ncap_bytes = 0\n")


def test_every_value_reaches_the_settings():
    loaded = config.parse(
        b"""
        version = 1
        pruning.enabled = false
        [output]
        cap_bytes = 0
        recovery_cap_bytes = 1024
        recovery_cap_lines = 1
        [reduce]
        success_bytes = 256
        failure_bytes = 1_000
        minimum_savings_bytes = 0
        minimum_savings_percent = 100
        [archive]
        enabled = false
        path = "../a.sqlite3"
        [rules]
        packs = ["one.toml", "/two.toml"]
        [plugins]
        order = ["acme"]
        [hosts.acme]
        mode = "fast"
        deep = { list = [1, 2.5, true] }
        """,
        "/etc/acme/config.toml",
    )
    assert loaded.settings().dump() == {
        "pruning_enabled": False,
        "output_cap_bytes": 0,
        "recovery_cap_bytes": 1024,
        "recovery_cap_lines": 1,
        "success_bytes": 256,
        "failure_bytes": 1000,
        "minimum_savings_bytes": 0,
        "minimum_savings_percent": 100,
        "archive_enabled": False,
        "archive_path": "/etc/a.sqlite3",
        "rule_packs": ("/etc/acme/one.toml", "/two.toml"),
        "plugin_order": ("acme",),
        "hosts": {"acme": {"mode": "fast", "deep": {"list": [1, 2.5, True]}}},
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("output.cap_bytes = 12", "output.cap_bytes is 12; allowed: 0, or 1024 to 16777216"),
        ("output.cap_bytes = true", "output.cap_bytes is true; allowed: 0, or 1024"),
        ("output.cap_bytes = 2000.0", "output.cap_bytes is 2000.0; allowed"),
        ('output.cap_bytes = "2000"', "output.cap_bytes is '2000'; allowed"),
        ("output.recovery_cap_bytes = 0", "allowed: 1024 to 49152"),
        ("output.recovery_cap_lines = 1901", "allowed: 1 to 1900"),
        ("pruning.enabled = 1", "pruning.enabled is 1; allowed: true or false"),
        ("pruning = 1", "pruning is 1; allowed: a table, [pruning]"),
        ("output.caps = 1", "output.caps is no key of the configuration; did you mean output.cap"),
        ("zebra = 1", "zebra is no key of the configuration; there are: version, pruning"),
        ('"a\\nb" = 1', "'a\\nb' is no key"),
        ('archive.path = ""', "archive.path is ''; allowed: a path"),
        ('archive.path = "~/a"', "archive.path is '~/a'; allowed: a path"),
        ('rules.packs = "a"', "rules.packs is 'a'; allowed: a list of different paths"),
        ('rules.packs = ["a", "./a"]', "twice; allowed"),
        (
            'plugins.order = [""]',
            "plugins.order is a list with ''; allowed: a list of different names",
        ),
        ("hosts.acme = 1", "hosts is acme = 1; allowed: one table a host"),
        ("hosts.acme.on = 2020-01-01", "hosts is acme.on = '2020-01-01'; allowed"),
    ],
)
def test_a_bad_value_names_the_key_what_was_found_and_what_is_allowed(line, message):
    text = refusal(f"version = 1\n{line}\n")
    assert message in text
    assert text.startswith("/etc/acme/config.toml: ")
    assert "\n" not in text


@pytest.mark.parametrize("version", ["2", "0", "true", '"1"', "1.0"])
def test_only_version_one_is_allowed(version):
    assert "version is" in refusal(f"version = {version}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 1\nversion = 1\n", "line 2, column 12 (version): the same key"),
        ("version = 1\nversion = 1", "line 2 (version): the same key or table twice"),
        ("version = 1\n[a]\n[a]\n", "line 3"),
        ("version = ", "line 1"),
        ("version = 1\nx", "line 2"),
        (b"version = 1\n\xff", "line 2 is not UTF-8"),
    ],
)
def test_what_is_not_toml_names_the_line(text, message):
    assert message in refusal(text)


def test_every_problem_of_the_file_is_kept():
    with pytest.raises(config.ConfigRefused) as caught:
        config.parse(b"version = 1\noutput.cap_bytes = 1\narchive.enabled = 3\nx = 1", "/c.toml")
    assert len(caught.value.problems) == 3
    assert "(and 2 more: yarp config check)" in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        config.load_config(str(tmp_path))


def test_deep_nesting_is_refused_not_a_crash():
    refusal("version = 1\nx = " + "[" * 100_000)


@given(st.binary(max_size=200) | st.text("=[]{}\"'\n.#ab1 \x00").map(str.encode))
def test_any_bytes_are_a_configuration_or_a_refusal(text):
    try:
        found = config.parse(text, "/x/config.toml")
    except ConfigError as error:
        found = str(error)
    assert isinstance(found, config.Config) or found.isprintable()


@given(st.integers(-(2**70), 2**70))
def test_a_number_is_taken_exactly_when_the_rule_allows_it(number):
    rule = config.KEYS["output.cap_bytes"].rule
    allowed = number == 0 or 1024 <= number <= 16_777_216
    try:
        assert rule.check(number, "/") == number
        assert allowed
    except ValueError:
        assert not allowed


def test_every_key_fills_a_setting_of_its_own():
    assert len(config.KEYS) - 1 == len(Settings.__slots__)
    assert {field.name for field in attrs.fields(config.Config)} == {
        name.partition(".")[0] for name in config.KEYS
    }


def test_the_reference_equals_the_code():
    with open(REFERENCE) as file:
        rows = re.findall(
            r"^\| `([a-z_.A-Z]+)` \| (.+?) \| (.+?) \| (.+) \|$", file.read(), re.MULTILINE
        )
    expected = [
        (
            name,
            "the data directory" if key.default is None else f"`{json.dumps(key.default)}`",
            key.rule.allowed,
            key.about,
        )
        for name, key in config.KEYS.items()
    ]
    assert rows == expected


def test_a_pipe_in_place_of_the_file_is_refused_without_waiting(tmp_path):
    path = tmp_path / "config.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file"):
        config.load_config(str(path))
