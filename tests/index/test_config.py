from __future__ import annotations

import os

import pytest

from yarp.errors import ConfigError
from yarp.index import config
from yarp.index.config import Root


@pytest.fixture
def home(yarp_home, monkeypatch):
    for name in (config.CONFIG_VARIABLE, config.DATABASE_VARIABLE, config.METADATA_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(yarp_home)
    return yarp_home


def written(home, text):
    path = home / "index.toml"
    path.write_text("schema_version = 1\n" + text)
    return str(path)


def test_without_a_file_all_is_default(home):
    told = config.load().plain()
    assert told["configuration"] == {
        "path": str(home / "config" / "yarp" / "trace-index.toml"),
        "origin": "default",
        "exists": False,
    }
    data = home / "data" / "yarp"
    assert told["database"] == {"path": str(data / "trace-index.sqlite3"), "origin": "default"}
    assert told["metadata_database"]["path"] == str(data / "trace-index-metadata.sqlite3")
    assert told["indexing"]["max_published_text_bytes"] == {"value": 65_536, "origin": "default"}
    assert told["roots"] == []


def test_a_flag_counts_before_a_variable_and_that_before_the_file(home, monkeypatch):
    path = written(home, 'database = "from-file.sqlite3"\n')
    assert config.load(config=path).database.value == str(home / "from-file.sqlite3")
    monkeypatch.setenv("TRACE_INDEX_DB", "~/from-env.sqlite3")
    monkeypatch.setenv("TRACE_INDEX_CONFIG", path)
    found = config.load()
    assert (found.database.value, found.database.origin) == (
        str(home / "from-env.sqlite3"),
        "environment",
    )
    assert found.file.origin == "environment"
    found = config.load(database="x/from-flag.sqlite3")
    assert (found.database.value, found.database.origin) == (
        str(home / "x" / "from-flag.sqlite3"),
        "cli",
    )
    assert found.metadata_database.value == str(home / "x" / "from-flag-metadata.sqlite3")


def test_paths_of_the_file_are_relative_to_the_file(home):
    (home / "there").mkdir()
    path = home / "there" / "c.toml"
    path.write_text(
        'schema_version = 1\n[[roots]]\npath = "../traces"\n'
        '[[roots]]\nname = "work"\npath = "~/work"\n'
        "[indexing]\nmax_published_text_bytes = 10\n"
    )
    found = config.load(config=str(path))
    assert found.roots == (Root(str(home / "traces")), Root(str(home / "work"), "work"))
    assert found.limits == {"max_indexed_record_bytes": None, "max_published_text_bytes": 10}
    assert config.load(config="~/there/c.toml").file.value == str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("novel = 1", "unknown key novel"),
        ("[indexing]\nnovel = 1", "unknown key indexing.novel"),
        ("[indexing]\nmax_published_text_bytes = 0", "from 1 to"),
        ("[indexing]\nmax_published_text_bytes = true", "from 1 to"),
        ("[indexing]\nmax_published_text_bytes = 1073741825", "from 1 to"),
        ('[[roots]]\npath = "a\\u0000b"', "must be a path"),
        ('database = "a"\nmetadata_database = "./a"', "give each its own"),
        ('[[roots]]\npath = ""', "must be a path"),
        ("[[roots]]\nlabel = 'x'", "must be a path"),
        ("[[roots]]\npath = 'x'\n[[roots]]\npath = './x'", "stands there twice"),
        ("[[roots]]\npath = 'x'\nnovel = 1", "unknown key roots 1.novel"),
        ("roots = 1", "array of tables"),
        ("indexing = 1", "must be a table"),
        ("database = 7", "must be a path"),
        ("schema_version = 2", "Cannot overwrite"),
        ("= 1", "line 2"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(home, text, said):
    with pytest.raises(ConfigError, match=said):
        config.load(config=written(home, text))


def test_a_file_of_another_version_or_that_is_not_there_is_refused(home, monkeypatch):
    (home / "v2.toml").write_text("schema_version = 2\n")
    with pytest.raises(ConfigError, match="schema_version must be 1"):
        config.load(config="v2.toml")
    (home / "v1.toml").write_text("schema_version = true\n")
    with pytest.raises(ConfigError, match="schema_version must be 1"):
        config.load(config="v1.toml")
    with pytest.raises(ConfigError, match="no such configuration file"):
        config.load(config="none.toml")
    with pytest.raises(ConfigError, match="--db is empty"):
        config.load(database="")
    monkeypatch.setenv("TRACE_INDEX_CONFIG", "")
    with pytest.raises(ConfigError, match="TRACE_INDEX_CONFIG is empty"):
        config.load()


@pytest.mark.parametrize("place", ["/proc/x.db", "/proc/none/x.db", "/sys/x.db"])
def test_a_place_where_no_file_can_be_made_is_an_error(home, place):
    codes = [one["code"] for one in config.check(config.load(database=place))]
    assert "database_parent_unavailable" in codes


def test_a_check_leaves_nothing_behind(home):
    place = home / "db"
    place.mkdir()
    for _ in range(2):
        found = config.check(config.load(database=str(place / "x.db")))
        assert [one for one in found if one["severity"] == "error"] == []
        assert [path.name for path in place.iterdir() if path.name != "x.db"] == []
        (place / "x.db").touch()


def test_init_writes_a_file_once_that_says_what_was_meant(home):
    roots = [Root(str(home / 'odd "name" \\ é')), Root("~/work", "acme")]
    path = config.init(None, roots)
    assert os.stat(path).st_mode & 0o777 == 0o600
    found = config.load()
    assert found.exists
    assert found.roots == (roots[0], Root(str(home / "work"), "acme"))
    with pytest.raises(ConfigError, match="is there already"):
        config.init(None, [])
    assert config.load().roots == found.roots


def test_discover_finds_the_usual_places_that_are_there(home, acme):
    assert config.discover({"acme": acme.READER}) == []
    (home / ".acme" / "sessions").mkdir(parents=True)
    found = config.discover({"acme": acme.READER})
    assert found == [Root(str(home / ".acme" / "sessions"), "acme")]


def codes(found):
    return [(one["severity"], one["code"]) for one in config.check(found)]


def test_check_says_what_would_keep_a_sync_from_its_work(home):
    assert codes(config.load()) == [
        ("warning", "configuration_not_found"),
        ("warning", "no_configured_roots"),
    ]
    (home / "traces").mkdir()
    (home / "link").symlink_to(home / "traces")
    (home / "loop").symlink_to(home / "loop")
    os.mkfifo(home / "pipe")
    text = "".join(
        f"[[roots]]\npath = '{name}'\n" for name in ("traces", "link", "none", "pipe", "loop")
    )
    assert codes(config.load(config=written(home, text))) == [
        ("error", "duplicate_canonical_root"),
        ("error", "root_unavailable"),
        ("error", "unsupported_root_type"),
        ("error", "root_canonicalization_failed"),
    ]
    sound = written(home, "[[roots]]\npath = 'traces'\n")
    assert codes(config.load(config=sound)) == []
    for database, code in (
        ("traces", "unsupported_database_type"),
        ("index.toml/x.sqlite3", "database_parent_not_directory"),
        ("pipe/y/x.sqlite3", "database_parent_not_directory"),
        ("loop/x.sqlite3", "database_path_unavailable"),
    ):
        assert codes(config.load(config=sound, database=database)) == [("error", code)]
