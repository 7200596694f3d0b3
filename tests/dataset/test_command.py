from __future__ import annotations

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from toy_agent import TOY, call, result, session

from yarp.cli import dataset as cli
from yarp.cli import root
from yarp.dataset import indexing
from yarp.dataset.database import Dataset
from yarp.dataset.extract import check_roots
from yarp.errors import UsageError
from yarp.sources.importers import Importer, SourceOption

SECRETS = ["SECRET-INPUT", "SECRET-OUTPUT", "SECRET-STRUCTURE", "SECRET-PROMPT"]


class Plugins:
    """The toy agent's importer, as a plugin would bring it."""

    problems = ()

    def __init__(self, importer):
        self._importer = importer

    def importers(self):
        return {"toy": self._importer}


@pytest.fixture
def command(store, monkeypatch, capfd):
    monkeypatch.setattr(cli, "_plugins", lambda _name: Plugins(TOY))

    def run(*words, name="toolcall-extractor", stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = root.run(cli.command, name, list(words))
        return status, *capfd.readouterr()

    return run


@pytest.fixture
def filled(store):
    store.write(
        "a.jsonl",
        session("s", 1),
        {"type": "note", "text": "SECRET-PROMPT"},
        call("a", input={"k": "SECRET-INPUT"}),
        result("a", "SECRET-OUTPUT", json={"k": "SECRET-STRUCTURE"}),
        b'{"SECRET-PROMPT',
        result("lost", "SECRET-OUTPUT"),
        result("other", "SECRET-OUTPUT"),
        call("b"),
        result("b", "one SECRET-OUTPUT"),
        result("b", "two SECRET-OUTPUT"),
    )
    return store


def extract(command, store):
    return command(
        "extract", "--unix-user", "ann", "--database", store.database, "toy", "--sessions", str(store.sessions)
    )  # fmt: skip


def test_an_import_says_what_it_did_and_a_second_one_that_nothing_is_new(command, filled):
    status, out, err = extract(command, filled)
    assert (status, err) == (0, "")
    assert out == (
        "1 source: 1 read, 0 unchanged, 0 touched but equal, 0 rejected, 0 newly gone\n"
        "2 new calls, 4 new results\n"
        "See: yarp dataset issues\n"
    )
    assert extract(command, filled)[1].endswith("0 new calls, 0 new results\n")


@pytest.mark.parametrize("words", [["stats"], ["issues"], ["verify"]])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_summaries_never_print_content(command, filled, words, more):
    extract(command, filled)
    status, out, err = command(*words, "--database", filled.database, *more)
    assert out
    assert not [secret for secret in SECRETS if secret in out + err]
    assert status == (65 if words == ["verify"] else 0)
    if more:
        json.loads(out)


ODD = "a\x1b[31m\n\u202eb\x07\x9b.jsonl"


@pytest.mark.parametrize("words", [["stats"], ["issues"], ["verify"], ["calls"]])
def test_odd_names_reach_a_terminal_as_escapes_and_programs_exactly(command, store, words):
    user = "ann\x1b]0;x\x07\u200f"
    store.write(ODD, session("s"), call("a", tool="\x1b[2J"), b"{")
    store.extract(user=user)
    status, out, err = command(*words, "--database", store.database)
    assert (status, err) == (0, "")
    assert all(line.isprintable() for line in out.splitlines())
    found = json.loads(command(*words, "--database", store.database, "--json")[1])
    if words == ["issues"]:
        assert "a\\x1b[31m\\n\\u202eb\\x07\\x9b.jsonl:3" in out
        assert found["issues"][0]["source"] == str(store.sessions / ODD)
    elif words == ["stats"]:
        assert "ann\\x1b]0;x\\x07\\u200f" in out
        assert found["by_agent"][0]["unix_user"] == user


def test_odd_names_in_an_error_are_escaped(command, store):
    words = ("extract", "--unix-user", "ann", "--database", store.database, "toy", "--sessions")
    status, _, err = command(*words, "no\x1b[2Jroot")
    assert status == 64
    assert "no\\x1b[2Jroot" in err
    assert all(line.isprintable() for line in err.splitlines())


def test_issues_beyond_the_limit_are_counted(command, store):
    store.write("a.jsonl", session("s"), *[call(str(n)) for n in range(4)], *[b"{", b"[]"] * 5)
    store.write("b.jsonl", session("t"), call("b"))
    store.extract()
    words = ("issues", "--database", store.database)
    status, out, err = command(*words, "--limit", "3")
    assert (status, len(out.splitlines())) == (0, 6)
    assert err == "yarp: 4 more issues are not listed; see --limit\n"
    for limit in (1, 5, 6, 7, 8):
        found = json.loads(command(*words, "--limit", str(limit), "--json")[1])
        assert (len(found["issues"]), found["more"]) == (min(limit, 7), max(0, 7 - limit))
    assert command(*words)[2] == ""


def test_content_is_where_it_belongs_and_excluded_records_are_nowhere(command, filled):
    extract(command, filled)
    with open(filled.database, "rb") as file:
        raw = file.read()
    found = set()
    with Dataset.read(filled.database) as dataset:
        columns = dataset.rows(
            "SELECT schema_name, table_name, column_name FROM duckdb_columns()"
            " WHERE NOT internal AND data_type IN ('VARCHAR', 'BLOB')"
        )
        for schema, table, column in columns:
            values = dataset.rows(f'SELECT "{column}" FROM "{schema}"."{table}"')
            found |= {secret for secret in SECRETS for (value,) in values if secret in str(value)}
    assert found == {"SECRET-INPUT", "SECRET-OUTPUT", "SECRET-STRUCTURE"}
    assert b"SECRET-PROMPT" not in raw


def test_verify_fails_while_a_result_has_no_call(command, filled):
    extract(command, filled)
    status, out, _ = command("verify", "--database", filled.database, "--json")
    found = json.loads(out)
    assert (status, found["valid"], found["orphan_results"]) == (65, False, 1)
    filled.append("a.jsonl", call("other"))
    extract(command, filled)
    status, out, _ = command("verify", "--database", filled.database, "--json")
    assert (status, json.loads(out)["valid"]) == (0, True)
    assert json.loads(out)["calls_with_conflicting_results"] == 1


def test_stream_and_ingest_are_one_pipe(command, filled, tmp_path):
    words = ["stream", "--unix-user", "bob", "toy", "--sessions", str(filled.sessions)]
    status, sent, err = command(*words)
    assert (status, err) == (0, "")
    ingest = ["ingest", "--unix-user", "bob", "--database", filled.database]
    status, out, _ = command(*ingest, stdin=sent.encode())
    assert (status, out.splitlines()[-2]) == (0, "2 new calls, 4 new results")
    status, _, err = command(*ingest, stdin=sent.encode()[:-30])
    assert (status, err.startswith("toolcall-extractor: ")) == (74, True)


class Several(Plugins):
    """The toy agent, and one whose sources cannot be looked through."""

    def importers(self):
        def discover(_roots):
            raise ValueError

        options = {"adapter_version": 1, "options": TOY.options, "read": TOY.read}
        return {
            "toy": TOY,
            "other": Importer("other", discover=TOY.discover, **options),
            "torn": Importer("torn", discover=discover, **options),
        }


@pytest.fixture
def several(monkeypatch, command):
    monkeypatch.setattr(cli, "_plugins", lambda _name: Several(TOY))


@pytest.mark.usefixtures("several")
def test_one_command_imports_several_agents_and_each_reports_its_own_run(command, filled):
    words = ["extract", "--unix-user", "ann", "--database", filled.database]
    agents = [word for name in ("toy", "other") for word in (name, "--sessions", filled.sessions)]
    status, out, err = command(*words, *map(str, agents))
    assert (status, err) == (0, "")
    assert out.splitlines()[1:4:2] == [
        "toy: 2 new calls, 4 new results",
        "other: 2 new calls, 4 new results",
    ]
    assert out.splitlines()[4:] == ["See: yarp dataset issues"]
    status, out, _ = command(*words, "--json", *map(str, agents))
    assert [(run["agent"], run["unchanged"]) for run in json.loads(out)] == [
        ("toy", 1),
        ("other", 1),
    ]
    assert filled.rows("SELECT DISTINCT agent, status FROM import_runs ORDER BY 1") == [
        ("other", "complete"),
        ("toy", "complete"),
    ]


@pytest.mark.usefixtures("several")
def test_what_one_source_cannot_give_keeps_no_other_from_being_imported(command, filled):
    words = ["extract", "--unix-user", "ann", "--database", filled.database]
    agents = [word for name in ("torn", "toy") for word in (name, "--sessions", filled.sessions)]
    status, out, err = command(*words, *map(str, agents))
    assert (status, err.count("\n")) == (70, 1)
    assert "torn raised ValueError" in err
    assert out.splitlines()[-2:] == ["toy: 2 new calls, 4 new results", "See: yarp dataset issues"]
    status, out, _ = command(*words, "--json", *map(str, agents))
    failed, done = json.loads(out)
    assert (status, failed["agent"], done["agent"]) == (70, "torn", "toy")
    assert "torn raised ValueError" in failed["error"]


@pytest.mark.usefixtures("several")
def test_a_source_that_is_named_wrongly_is_told_before_anything_is_imported(command, filled):
    words = ["extract", "--unix-user", "ann", "--database", filled.database]
    words += ["toy", "--sessions", str(filled.sessions)]
    for more in (["other", "--sessions", "/no/where"], ["nobody", "--sessions", "/"]):
        assert command(*words, *more)[0] == 64
    assert not os.path.exists(filled.database)


def test_an_interrupted_import_says_what_stays(command, filled, monkeypatch):
    def read(item):
        yield from TOY.read(item)
        raise KeyboardInterrupt

    importer = Importer(
        "toy", adapter_version=1, options=TOY.options, discover=TOY.discover, read=read
    )
    monkeypatch.setattr(cli, "_plugins", lambda _name: Plugins(importer))
    status, _, err = extract(command, filled)
    assert (status, err.count("\n")) == (130, 1)
    assert "what was committed stays" in err


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_source_that_may_not_be_read_is_told_before_anything_is_imported(kind, request):
    above = pathlib.Path(tempfile.mkdtemp())  # which another user can reach
    request.addfinalizer(lambda: shutil.rmtree(above))
    above.chmod(0o755)
    closed = above / "closed"
    closed.mkdir() if kind == "directory" else closed.write_text("{}")
    closed.chmod(0)
    option = SourceOption("sessions", kind=kind, help="the sessions")
    importer = Importer("toy", adapter_version=1, options=[option], discover=None, read=None)
    child = os.fork()
    if not child:
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            check_roots(importer, {"sessions": str(closed)})
        except UsageError as error:
            os._exit(f"is no {kind} that can be read" in str(error))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.usefixtures("several")
def test_several_agents_go_through_one_pipe(command, filled):
    agents = [word for name in ("toy", "other") for word in (name, "--sessions", filled.sessions)]
    status, sent, _ = command("stream", "--unix-user", "bob", *map(str, agents))
    assert status == 0
    ingest = ["ingest", "--unix-user", "bob", "--database", filled.database, "--json"]
    status, out, _ = command(*ingest, stdin=sent.encode())
    assert [(run["agent"], run["written"]["calls"]) for run in json.loads(out)] == [
        ("toy", 2),
        ("other", 2),
    ]
    status, out, _ = command(*ingest, stdin=sent.encode()[:-30])
    assert (status, [run.get("error") is None for run in json.loads(out)]) == (74, [True, False])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["extract", "toy", "--sessions", "/x"], 64, "Missing option '--unix-user'"),
        (["extract", "--unix-user", "ann", "toy"], 64, "Missing option '--sessions'"),
        (["stream", "--unix-user", "ann", "toy"], 64, "Missing option '--sessions'"),
        (
            ["extract", "--unix-user", "ann", "toy", "--sessions", "/tmp", "toy"],
            64,
            "Missing option '--sessions'",
        ),
        (["extract", "--unix-user", "ann"], 64, "Missing command"),
        (["extract", "--unix-user", "ann", "nobody", "--sessions", "/x"], 64, "nobody"),
        (
            ["extract", "--unix-user", "ann", "toy", "--sessions", "/no/where"],
            64,
            "no directory that can be read",
        ),
        (["extract", "--unix-user", "", "toy", "--sessions", "/tmp"], 64, "must be named"),
        (["stats", "--database", "/no/where.duckdb"], 65, "there is no dataset yet"),
    ],
)
def test_mistakes_are_said_in_one_line(command, store, words, status, said):
    if "--sessions" in words and words[-1] == "/tmp":
        words = [*words[:-1], str(store.sessions)]
        words[1:1] = ["--database", store.database]
    found, out, err = command(*words)
    assert found == status
    assert said in (out if status == 0 else err)
    if status:
        assert err.count("\n") == 1
        assert err.startswith("toolcall-extractor: ")


def test_each_option_of_an_importer_is_an_option_and_its_root_is_recorded(
    command, store, monkeypatch
):
    (store.path / "state.db").write_bytes(b"")
    seen = []
    options = [
        SourceOption("sessions", kind="directory", help="the sessions", default=".toy/sessions"),
        SourceOption("state-db", kind="file", help="the index", required=False),
    ]

    def discover(roots):
        seen.append(roots)
        return TOY.discover(roots)

    importer = Importer("toy", adapter_version=1, options=options, discover=discover, read=TOY.read)
    monkeypatch.setattr(cli, "_plugins", lambda _name: Plugins(importer))
    status, out, _ = command("extract", "--unix-user", "ann", "toy", "--help")
    assert (status, "--state-db" in out, "~/.toy/sessions" in out) == (0, True, True)
    state = str(store.path / "state.db")
    words = [
        "extract",
        "--unix-user",
        "ann",
        "--database",
        store.database,
        "toy",
        "--sessions",
        str(store.sessions),
    ]
    assert command(*words, "--state-db", state)[0] == 0
    assert command(*words)[0] == 0
    assert seen == [
        {"sessions": str(store.sessions), "state-db": state},
        {"sessions": str(store.sessions)},
    ]
    assert store.rows("SELECT source_kind, root_path FROM source_roots ORDER BY 1") == [
        ("sessions", str(store.sessions)),
        ("state_db", state),
    ]


def test_progress_goes_to_stderr_once_a_run_takes_long(command, filled, monkeypatch):
    monkeypatch.setattr(cli, "_PROGRESS_AFTER_S", -10)
    _, out, err = extract(command, filled)
    assert "of 1 sources" in err
    assert "of 1 sources" not in out


@pytest.mark.usefixtures("index_of_any_size")
def test_an_import_tells_of_the_index_that_it_makes(command, filled, monkeypatch):
    monkeypatch.setattr(cli, "_PROGRESS_AFTER_S", -10)
    monkeypatch.setattr(cli, "_LINE_EVERY_S", 0)
    monkeypatch.setattr(indexing.Indexing, "take", lambda *_, **__: None)
    _, out, err = extract(command, filled)
    assert re.search(r"^text index: 0 MB, \d+ s$", err, re.MULTILINE)
    assert "text index" not in out


def test_the_console_script_and_the_command_are_the_same(plugin_site, store, yarp_home):
    with open(os.path.join(os.path.dirname(__file__), "toy_agent.py")) as file:
        code = file.read()
    plugin_site.install(
        "toy",
        code
        + "\nfrom yarp.plugin import hookimpl\n@hookimpl\ndef yarp_importers():\n    return [TOY]\n",
    )
    store.write("a.jsonl", session("s"), call("a"))
    programs = os.path.dirname(sys.executable)
    words = ["extract", "--unix-user", "ann", "toy", "--sessions", str(store.sessions)]
    for number, start in enumerate(
        ([f"{programs}/toolcall-extractor"], [f"{programs}/yarp", "dataset"])
    ):
        done = subprocess.run([*start, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{1 - number} read" in done.stdout
    assert os.path.exists(yarp_home / "data" / "toolcall-extractor" / "toolcalls.duckdb")
