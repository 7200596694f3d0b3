import json
import os
import re
import subprocess
import sys

import pytest

from yarp import payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams
from yarp.cli import calls, recover

NOW = 1_700_000_000_000
OUT = b"".join(
    b"%d \x1b[32mok\x1b[0m caf\xc3\xa9\r\n" % n
    if n % 50
    else b"%d \x1b[31mFAILED\x1b[0m t%d\n" % (n, n)
    for n in range(1, 1001)
)
ERR = b"warning: old\nError: broken"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def path(home):
    os.chmod(home, 0o700)
    return str(home / "calls.sqlite3")


@pytest.fixture(scope="module")
def yarp(home, path):
    """Run the real command."""

    def run(*words, env=(), **options):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "YARP_ARCHIVE": path,
            **dict(env),
        }
        return subprocess.run(
            [sys.executable, "-m", "yarp", *words],
            env=environment,
            capture_output=True,
            check=False,
            timeout=120,
            **options,
        )

    return run


def media_type(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return payload.BINARY
    return payload.TEXT


def record(path, call, out, err=b"", *, failed=False, tool="sh", at_ms=NOW, command="make test"):
    archive = SteppedArchive.open(path, narrow=False)
    session = SessionKey("acme", "me", "s1")
    given = payload.of_json({"command": command})
    facts = CallFacts(call, tool, started_at_ms=at_ms, requires_streams=True)
    ref = archive.begin_call(session, facts, given, given, at_ms)
    short = (payload.of(b"short\n"), payload.TEXT)
    kept = [(payload.of(data), media_type(data)) for data in (out, err)]
    result = payload.of_json({"exitCode": 1 if failed else 0})
    archive.finish_run(
        session, call, Streams(kept[0], short, kept[1], kept[1]), result, result, failed, at_ms + 5
    )
    archive.close()
    return ref


@pytest.fixture(scope="module")
def refs(path):
    large = b"x" * (3 << 20) + b"NEEDLE" + b"y" * 1000 + b"\nafter the long line\n"
    found = {
        "text": record(path, "text", OUT, ERR, command="make test\nsecond line"),
        "binary": record(path, "binary", b"\0binary", b"Error here\n", at_ms=NOW + 1000),
        "latin": record(path, "latin", b"caf\xe9 code=77\n", failed=True, at_ms=NOW + 2000),
        "large": record(path, "large", large, tool="cat", at_ms=NOW + 3000, command="\x1b[2J"),
    }
    archive = SteppedArchive.open(path, narrow=False)
    session = SessionKey("other", "me", "s2")
    given = payload.of_json({"path": "/a"})
    facts = CallFacts("text-only", "fetch", started_at_ms=NOW + 4000, requires_streams=False)
    found["result"] = archive.begin_call(session, facts, given, given, NOW + 4000)
    archive.result_text(session, "text-only", payload.of(b"host text Error\n"), "incomplete", NOW)
    facts = CallFacts("nothing", "fetch", started_at_ms=NOW + 5000, requires_streams=False)
    found["nothing"] = archive.begin_call(session, facts, given, given, NOW + 5000)
    archive.close()
    return found


def test_search_shows_lines_with_context_and_how_to_read_them(yarp, refs):
    ref = refs["text"]
    done = yarp("search", ref, "t500|broken", "-C", "1")
    assert done.returncode == 0
    assert done.stderr == b""
    assert (
        done.stdout.decode()
        == f"""[yarp search: ref={ref}]
[source=stdout complete=true matches=1 showing=1 before=1 after=1 max_results=20]
stdout-499-499 ok café
stdout:500:500 FAILED t500
stdout-501-501 ok café
--
[source=stderr complete=true matches=1 showing=1 before=1 after=1 max_results=20]
stderr-1-warning: old
stderr:2:Error: broken
Read exact context: yarp read {ref} stdout 499:501
Read exact context: yarp read {ref} stderr 1:2
"""
    )


def test_every_line_that_search_prints_can_be_read_back_exactly(yarp, refs):
    ref = refs["text"]
    text = yarp("search", ref, "FAILED|broken|^1", "-m", "30").stdout
    lines = re.findall(rb"^(stdout|stderr)[:-](\d+)[:-](.*)$", text, re.MULTILINE)
    assert len(lines) > 20
    whole = {b"stdout": OUT.splitlines(keepends=True), b"stderr": ERR.splitlines(keepends=True)}
    for source, number, shown in lines[::7]:
        done = yarp("read", ref, source.decode(), f"{int(number)}:{int(number)}")
        assert done.returncode == 0
        assert done.stdout == whole[source][int(number) - 1]
        assert re.sub(rb"\x1b\[\d*m|\r?\n", b"", done.stdout) == shown
    for way in re.findall(rb"^Read exact context: yarp (.*)$", text, re.MULTILINE):
        assert yarp(*way.decode().split()).returncode == 0


def test_a_promise_of_every_match_is_kept_up_to_the_line_ceiling(yarp, refs):
    text = yarp("search", refs["text"], "ok", "-m", "1000", "-C", "0").stdout
    assert text.count(b"stdout:") == 980
    assert len(text) <= 32768


@pytest.mark.parametrize(
    "words",
    [
        ("-e", "t500", "-e", "broken"),
        ("T500|BROKEN", "-i"),
        ("-iw", "T500|broken"),
        ("--regexp=t500", "--regexp", "broken"),
        ("-et500", "-ebroken"),
        ("-nE", "t500|broken"),
        ("--", "t500|broken"),
    ],
)
def test_patterns_are_given_in_many_ways(yarp, refs, words):
    done = (
        yarp("search", refs["text"], *words, "-c")
        if "--" not in words
        else yarp("search", "-c", refs["text"], *words)
    )
    assert done.stdout.decode().splitlines()[1:] == [
        "[source=stdout complete=true matches=1]",
        "[source=stderr complete=true matches=1]",
    ]
    assert done.returncode == 0


def test_fixed_inverted_and_counted_searches(yarp, refs):
    ref = refs["text"]
    assert b"matches=0]" in yarp("search", ref, "-F", "t5.0", "-c").stdout
    assert yarp("search", ref, "-F", "t5.0", "-c").returncode == 1
    text = yarp("search", ref, "-v", "caf", "-c").stdout
    assert b"[source=stdout complete=true matches=20]\n" in text
    assert b"[source=stderr complete=true matches=2]\n" in text


def test_no_match_is_said_and_ends_with_one(yarp, refs):
    done = yarp("search", refs["text"], "absent")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"No matches\n", b"")


def test_an_incomplete_source_is_said_even_without_a_match(yarp, refs):
    done = yarp("search", refs["result"], "absent")
    assert done.returncode == 1
    assert done.stdout.startswith(b"No matches\n[yarp search: result_text is incomplete")
    found = yarp("search", refs["result"], "Error")
    assert b"[source=result_text complete=false matches=1" in found.stdout


def test_a_binary_source_is_reported_and_the_others_are_searched(yarp, refs):
    ref = refs["binary"]
    done = yarp("search", ref, "Error|binary")
    assert done.returncode == 0
    assert b"stderr:1:Error here\n" in done.stdout
    assert (
        f"stdout is binary (7 bytes) and was not searched; use -a, or: yarp read {ref}".encode()
        in (done.stdout)
    )
    assert b"stdout:1:\\x00binary" in yarp("search", ref, "-a", "binary").stdout


def test_bytes_that_are_no_utf8_do_not_hide_the_text_around_them(yarp, refs):
    assert b"stdout:1:caf\\xe9 code=77\n" in yarp("search", refs["latin"], "code=").stdout


def test_an_over_long_line_is_searched_in_pieces_and_the_rest_as_well(yarp, refs):
    ref = refs["large"]
    text = yarp("search", ref, "NEEDLE|after", "-C", "0").stdout
    assert b"matches=2 showing=2" in text
    assert b"xNEEDLEy" in text
    assert b"stdout:2:after the long line\n" in text
    assert b"[yarp search: stdout line 1 with 3146734 bytes, searched in pieces;" in text
    way = re.search(rb"Read exact context: yarp (read \S+ stdout --bytes \S+)", text)[1]
    assert b"NEEDLE" in yarp(*way.decode().split()).stdout


def test_recovery_never_prints_a_marker_of_yarps_own(yarp, path):
    inner = b"[yarp: 412 lines omitted; ref=yr_x]\n" * 3
    ref = record(path, "marked", inner, at_ms=NOW - 5000)
    for words in (("search", ref, "yarp"), ("grep", "412 lines"), ("calls",)):
        text = yarp(*words).stdout
        assert b"\n[yarp: " not in b"\n" + text
    assert yarp("read", ref, "stdout", "1:3").stdout == inner


def test_read_gives_exact_bytes(yarp, refs):
    ref = refs["text"]
    lines = OUT.splitlines(keepends=True)
    assert yarp("read", ref, "stdout", "49:51").stdout == b"".join(lines[48:51])
    assert yarp("read", ref, "stderr", "2:2").stdout == b"Error: broken"
    assert yarp("read", ref, "stdout", "--bytes", "3:40").stdout == OUT[3:40]
    assert yarp("read", ref, "stdout", "--head", "3").stdout == b"".join(lines[:3])
    assert yarp("read", ref, "stdout", "--tail", "3").stdout == b"".join(lines[-3:])
    assert yarp("read", refs["result"], "1:1").stdout == b"host text Error\n"
    assert yarp("read", refs["binary"], "stdout", "--bytes", "0:7").stdout == b"\0binary"
    assert yarp("read", refs["latin"], "stdout", "1:1").stdout == b"caf\xe9 code=77\n"


def test_read_lists_the_sources(yarp, refs):
    assert yarp("read", refs["text"], "--list").stdout.decode() == (
        f"stdout  {len(OUT)} bytes  1000 lines  complete\nstderr  {len(ERR)} bytes  2 lines  complete\n"
    )
    assert json.loads(yarp("read", refs["result"], "--list", "--json").stdout) == [
        {
            "source": "result_text",
            "bytes": 16,
            "lines": 1,
            "completeness": "incomplete",
            "mediaType": "text/plain; charset=utf-8",
        }
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("search",), 64, "give a reference and one pattern; see: yarp search --help"),
        (("search", "REF"), 64, "one pattern"),
        (("search", "REF", "a", "b"), 64, "one pattern"),
        (("search", "REF", "a", "-e", "b"), 64, "no other pattern than those of -e"),
        (("search", "REF", "a", "--frob"), 64, "unknown option --frob"),
        (("search", "REF", "a", "-m"), 64, "-m needs a value"),
        (("search", "REF", "a", "-m", "0"), 64, "-m/--max-results takes 1 to 1900"),
        (("search", "REF", "a", "-m", "1901"), 64, "takes 1 to 1900"),
        (("search", "REF", "a", "-m", "05"), 64, "takes 1 to 1900"),
        (("search", "REF", "a", "-A", "51"), 64, "-A/--after-context takes 0 to 50"),
        (("search", "REF", "a", "-A", "+1"), 64, "takes 0 to 50"),
        (("search", "REF", "a", "-A", "1", "-A", "2"), 64, "given twice with different values"),
        (("search", "REF", "a", "-C", "1", "-B", "2"), 64, "-C and a different -A or -B"),
        (("search", "REF", "a(?=b)"), 64, "use -F for plain text"),
        (("search", "REF", ""), 64, "1 to 1024 bytes"),
        (("search", "yr_0", "a"), 65, "yr_0 is no reference; one is yr_ and 32 hexadecimal digits"),
        (("search", "yr_" + "A" * 32, "a"), 65, "is no reference"),
        (("search", "yr_" + "0" * 32, "a"), 65, "no such call"),
        (("search", "x" * 65536, "a"), 65, "is no reference"),
        (("search", "a\nb\x1b", "a"), 65, "a b  is no reference"),
        (("search", "NOTHING", "a"), 65, "no output that could be recovered"),
        (("read", "REF"), 64, "one range"),
        (
            ("read", "REF", "stdout"),
            64,
            "stdout is no range; write plain numbers, such as 116:120, 116: or 116",
        ),
        (("read", "REF", "stdout", "1:2", "3"), 64, "one range"),
        (("read", "REF", "stdout", "0:2"), 64, "lines count from 1"),
        (("read", "REF", "stdout", "3:2"), 64, "empty range"),
        (("read", "REF", "stdout", ":"), 64, ": is no range"),
        (("read", "REF", "stdout", ":5"), 64, ":5 is no range"),
        (("read", "REF", "stdout", "0"), 64, "0 is an empty range; lines count from 1"),
        (("read", "REF", "stdout", "0:"), 64, "0: is an empty range; lines count from 1"),
        (("read", "REF", "stdout", "1001"), 65, "lines 1001:1001 are not there"),
        (("read", "REF", "stdout", "1001:"), 65, "line 1001 is not there; the source has 1000"),
        (("read", "REF", "stdout", "--bytes", "5"), 64, "such as 116:120 or 116:"),
        (("read", "REF", "stderr", "--bytes", "99:"), 65, "bytes 99: are not there"),
        (("read", "LARGE", "stdout", "--bytes", "0:"), 65, "or: --bytes 0:32768"),
        (("search", "REF", "a", "--source", "result_text"), 65, "it has: stdout, stderr"),
        (("grep", "a", "--source", "out"), 64, "--source takes one of stdout, stderr"),
        (("calls", "--until", "soon"), 64, "--until soon is no time"),
        (("calls", "--until", "yr_12"), 65, "yr_12 is no reference"),
        (("grep", "a", "--until", "yr_" + "0" * 32), 65, "no such call"),
        (("read", "REF", "stdout", "01:2"), 64, "is no range"),
        (("read", "REF", "stdout", "1:9" + "9" * 60), 64, "is no range"),
        (("read", "REF", "stdout", "--bytes", "5:5"), 64, "empty range"),
        (("read", "REF", "stdout", "--bytes"), 64, "--bytes needs a value"),
        (("read", "REF", "stdout", "--head", "0"), 64, "--head takes 1 to 1900"),
        (("read", "REF", "--head", "1", "--tail", "1"), 64, "one range"),
        (("read", "REF", "stdout", "--head", "1", "--json"), 64, "--json goes with --list"),
        (("read", "REF", "1:2"), 64, "has the sources stdout, stderr; name one"),
        (
            ("read", "REF", "result_text", "1:2"),
            65,
            "no source result_text; it has: stdout, stderr",
        ),
        (("read", "REF", "stdout", "1000:1001"), 65, "the source has 1000 lines"),
        (
            ("read", "REF", "stdout", "1:1901"),
            65,
            "more than the 1900 that one read may give; read them in parts, such as 1:1900",
        ),
        (("read", "REF", "stdout", "--bytes", "0:40000"), 65, "the source has"),
        (("read", "LARGE", "stdout", "1:1"), 65, "more than the 32768"),
        (("read", "LARGE", "stdout", "--bytes", "0:32769"), 65, "more than the 32768"),
        (("calls", "x"), 64, "unexpected word x"),
        (("calls", "--since", "yesterday"), 64, "--since yesterday is no time"),
        (("calls", "-n", "0"), 64, "--limit/-n takes 1 to"),
        (("grep",), 64, "give one pattern; see: yarp grep --help"),
        (("grep", "("), 64, "is refused"),
    ],
)
def test_a_wrong_call_is_one_clear_line(yarp, refs, words, code, message):
    names = {"REF": refs["text"], "LARGE": refs["large"], "NOTHING": refs["nothing"]}
    done = yarp(*(names.get(word, word) for word in words))
    assert done.returncode == code
    assert done.stdout == b""
    text = done.stderr.decode()
    assert message in text
    assert text.startswith("yarp: ")
    assert text.count("\n") == 1
    assert text[:-1].isprintable()
    assert len(done.stderr) <= 32768


def test_an_error_is_cut_to_the_ceiling(yarp, refs, tmp_path):
    (tmp_path / "yarp").mkdir(mode=0o700)
    (tmp_path / "yarp" / "config.toml").write_text(
        "version = 1\noutput.recovery_cap_bytes = 1024\n"
    )
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = yarp("search", refs["text"], "a", "--" + "é" * 3000, env=env)
    assert done.returncode == 64
    assert done.stderr.endswith(b"...\n")
    assert 1000 < len(done.stderr) <= 1024
    assert done.stderr.decode()
    shown = yarp("search", refs["text"], "ok", "-m", "500", env=env)
    assert shown.returncode == 0
    assert len(shown.stdout) <= 1024
    assert yarp("read", refs["text"], "stdout", "--bytes", "0:1025", env=env).returncode == 65


def test_a_broken_configuration_is_said(yarp, refs, tmp_path):
    (tmp_path / "yarp").mkdir(mode=0o700)
    (tmp_path / "yarp" / "config.toml").write_text("version = 1\noutput.frob = 1\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = yarp("search", refs["text"], "a", env=env)
    assert done.returncode == 64
    assert b"output.frob is no key" in done.stderr
    assert yarp("search", "--help", env=env).returncode == 0


@pytest.mark.parametrize("command", ["search", "read", "grep", "calls"])
def test_help_leads_with_examples_and_is_short(yarp, command):
    done = yarp(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"yarp {command}".encode())
    assert len(done.stdout) <= 2048
    assert yarp(command, "-h").stdout == done.stdout


def test_help_and_reference_name_every_option():
    habits = {"-n", "--line-number", "-E", "--extended-regexp"}
    longs = {"--after-context", "--before-context", "--context"}
    patterns = {**recover.PATTERN_VALUES, **recover.PATTERN_SWITCHES}
    documented = {
        recover.SEARCH_HELP: {**recover._SEARCH_VALUES, **recover._SEARCH_SWITCHES}.keys()
        - (habits | longs),
        recover.READ_HELP: recover._READ_VALUES.keys() | recover._READ_SWITCHES.keys(),
        calls.GREP_HELP: calls._GREP_VALUES.keys() | calls._GREP_SWITCHES.keys() - patterns.keys(),
        calls.CALLS_HELP: calls._CALLS_VALUES.keys() | calls._CALLS_SWITCHES.keys(),
    }
    with open(os.path.join(os.path.dirname(__file__), "../../docs/reference/recovery.md")) as file:
        reference = file.read()
    for text, options in documented.items():
        for option in options - {"--regexp"} if text is calls.GREP_HELP else options:
            assert re.search(rf"{option}\b", text), (option, text)
            assert re.search(rf"`[^`]*{option}\b", reference), option
    for option in longs:
        assert f"`{option}`" in reference


def test_an_archive_that_cannot_be_read_is_one_clear_line(yarp, refs, tmp_path, path):
    ref = refs["text"]

    def complaint(archive):
        done = yarp("search", ref, "a", env={"YARP_ARCHIVE": str(archive)})
        assert done.stdout == b""
        assert done.stderr.count(b"\n") == 1
        return done.returncode, done.stderr.decode()

    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    code, text = complaint(private / "none")
    assert (code, "there is no archive yet" in text) == (74, True)
    foreign = private / "foreign"
    foreign.write_bytes(b"not a database" * 100)
    foreign.chmod(0o600)
    code, text = complaint(foreign)
    assert (code, "is no SQLite database" in text) == (65, True)
    with open(path, "rb") as file:
        content = file.read()
    newer = private / "newer"
    newer.write_bytes(content[:60] + (9).to_bytes(4, "big") + content[64:])
    newer.chmod(0o600)
    assert complaint(newer)[0] == 65
    wide = private / "wide"
    wide.write_bytes(content)
    wide.chmod(0o644)
    code, text = complaint(wide)
    assert (code, "chmod 600" in text) == (74, True)
    wide.chmod(0o600)
    assert yarp("search", ref, "FAILED", env={"YARP_ARCHIVE": str(wide)}).returncode == 0
    private.chmod(0o755)
    code, text = complaint(wide)
    assert (code, "chmod 700" in text) == (74, True)
    private.chmod(0o700)
    link = private / "link"
    link.symlink_to(wide)
    assert complaint(link)[0] == 74
    code, _ = complaint("relative.sqlite3")
    assert code == 64


def test_damaged_bytes_are_never_printed(yarp, refs, path, tmp_path):
    import sqlite3

    tmp_path.chmod(0o700)
    damaged = tmp_path / "damaged"
    with open(path, "rb") as file:
        damaged.write_bytes(file.read())
    damaged.chmod(0o600)
    database = sqlite3.connect(damaged)
    database.execute(
        "UPDATE payloads SET body = substr(body, 1, length(body) - 1) WHERE uncompressed_byte_length > 99"
    )
    database.execute("UPDATE payloads SET body = x'61' WHERE uncompressed_byte_length < 99")
    database.commit()
    database.close()
    env = {"YARP_ARCHIVE": str(damaged)}
    for words in (
        ("search", refs["text"], "a"),
        ("read", refs["text"], "stderr", "1:1"),
        ("read", refs["large"], "stdout", "--bytes", "0:5"),
        ("search", refs["large"], "x"),
    ):
        done = yarp(*words, env=env)
        assert done.returncode == 65, words
        assert done.stdout == b""


def test_a_damaged_call_hides_no_other(yarp, refs, path, tmp_path):
    import sqlite3

    tmp_path.chmod(0o700)
    damaged = tmp_path / "damaged"
    with open(path, "rb") as file:
        damaged.write_bytes(file.read())
    damaged.chmod(0o600)
    database = sqlite3.connect(damaged)
    for call, subject in (("latin", "stdout"), ("large", "input")):
        database.execute(
            "UPDATE payloads SET body = x'61' WHERE sha256 IN (SELECT payload_sha256 FROM snapshots"
            " JOIN tool_calls ON id = tool_call_id WHERE archive_ref = ? AND subject = ?)",
            (refs[call], subject),
        )
    database.commit()
    database.close()
    env = {"YARP_ARCHIVE": str(damaged)}
    done = yarp("grep", "t500|host text", env=env)
    assert refs["text"].encode() in done.stdout
    assert refs["result"].encode() in done.stdout
    assert done.returncode == 65
    complaint = f"yarp: damaged bytes in {refs['latin']}, of which not all was searched; see: yarp archive verify\n"
    assert done.stderr.decode() == complaint
    done = yarp("grep", "never there", env=env)
    assert done.returncode == 65
    assert done.stdout.endswith(b"1 more could not be searched\n")
    done = yarp("calls", env=env)
    assert done.returncode == 65
    assert all(reference.encode() in done.stdout for reference in refs.values())
    assert refs["large"].encode() in done.stderr
    rows = json.loads(yarp("calls", "--json", env=env).stdout)
    assert [row["ref"] for row in rows if row["damaged"]] == [refs["large"]]


def test_calls_are_listed_newest_first(yarp, refs):
    text = yarp("calls").stdout.decode()
    lines = text.splitlines()
    assert lines[0] == (
        f'{refs["nothing"]}  2023-11-14T22:13:25Z  other  fetch  started  ->-  {{"path":"/a"}}'
    )
    assert f"{refs['text']}  2023-11-14T22:13:20Z  acme  sh  ok  {len(OUT) + len(ERR)}>" in text
    assert [line for line in lines if line.endswith("make test")]
    assert "\\x1b[2J" in text
    assert "\x1b" not in text


def test_calls_are_filtered(yarp, refs):
    def listed(*words):
        return re.findall(r"^yr_[0-9a-f]{32}", yarp("calls", *words).stdout.decode(), re.MULTILINE)

    assert listed("--failed") == [refs["latin"]]
    assert listed("--tool", "cat") == [refs["large"]]
    assert listed("--agent", "other") == [refs["nothing"], refs["result"]]
    assert listed("--session=s2", "-n1") == [refs["nothing"]]
    assert listed("--since", "2023-11-14T22:13:24Z") == [refs["nothing"], refs["result"]]
    assert "there are older ones" in yarp("calls", "-n", "1").stdout.decode()
    none = yarp("calls", "--agent", "nobody")
    assert (none.returncode, none.stdout) == (1, b"No calls\n")


def test_calls_as_json(yarp, refs):
    done = yarp("calls", "--json", "--tool", "sh", "--since", "2023-11-14T22:13:22Z")
    assert json.loads(done.stdout) == [
        {
            "ref": refs["latin"],
            "time": "2023-11-14T22:13:22Z",
            "startedAtMs": NOW + 2000,
            "finishedAtMs": NOW + 2005,
            "agent": "acme",
            "session": "s1",
            "tool": "sh",
            "workingDirectory": None,
            "command": "make test",
            "durationMs": 5,
            "bytesBefore": 13,
            "bytesAfter": 6,
            "exitStatus": None,
            "signal": None,
            "capture": "complete",
            "captureReason": None,
            "redacted": False,
            "damaged": False,
            "state": "failed",
        }
    ]
    none = yarp("calls", "--json", "--agent", "nobody")
    assert json.loads(none.stdout) == []
    assert none.returncode == 1


def test_calls_are_paged_by_the_last_reference_until_none_is_left(yarp, refs):
    every = re.findall(r"^yr_\w+", yarp("calls", "-n", "99").stdout.decode(), re.MULTILINE)
    assert set(refs.values()) <= set(every)
    found = []
    words = ()
    while True:
        text = yarp("calls", "-n", "1", *words).stdout.decode()
        found += re.findall(r"^yr_\w+", text, re.MULTILINE)
        more = re.search(r"there are older ones; the next: (--until) (yr_\w+)\]\n$", text)
        if more is None:
            break
        words = more.groups()
    assert found == every


def test_calls_until_a_time_are_those_begun_before_it(yarp, refs):
    def listed(*words):
        text = yarp("calls", "-n", "99", *words).stdout.decode()
        found = re.findall(r"^yr_\w+", text, re.MULTILINE)
        return {name for name, ref in refs.items() if ref in found}

    assert listed("--until", "2023-11-14T22:13:21Z") == {"text"}
    assert listed("--until", refs["binary"]) == {"text"}
    window = ("--since", "2023-11-14T22:13:21Z", "--until", "2023-11-14T22:13:22Z")
    assert listed(*window) == {"binary"}
    assert refs["latin"] not in yarp("grep", "code", "--until", refs["latin"]).stdout.decode()


def test_search_and_grep_look_into_one_source_alone(yarp, refs):
    ref = refs["text"]
    found = yarp("search", ref, "Error|t500", "--source", "stderr").stdout
    assert b"stderr:2:Error: broken\n" in found
    assert b"stdout" not in found
    assert yarp("search", ref, "t500", "--source=stderr").returncode == 1
    found = yarp("grep", "Error|t500", "--source", "stderr").stdout
    assert b"stderr:2:Error: broken\n" in found
    assert b"stdout:" not in found


def test_read_takes_one_line_and_all_from_a_line_on(yarp, refs):
    ref, lines = refs["text"], OUT.splitlines(keepends=True)
    assert yarp("read", ref, "stdout", "500").stdout == lines[499]
    assert yarp("read", ref, "stdout", "990:").stdout == b"".join(lines[989:])
    assert yarp("read", ref, "stderr", "2:").stdout == b"Error: broken"
    assert yarp("read", ref, "stderr", "--bytes", "9:").stdout == ERR[9:]


def test_calls_and_grep_keep_the_ceilings(yarp, refs, tmp_path):
    (tmp_path / "yarp").mkdir(mode=0o700)
    (tmp_path / "yarp" / "config.toml").write_text(
        "version = 1\noutput.recovery_cap_bytes = 1024\noutput.recovery_cap_lines = 5\n"
    )
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    for words in (("calls",), ("calls", "--json"), ("grep", "."), ("grep", ".", "-m", "5")):
        done = yarp(*words, env=env)
        assert done.returncode == 0, words
        assert 0 < len(done.stdout) <= 1024
        assert done.stdout.count(b"\n") <= 5
    json.loads(yarp("calls", "--json", env=env).stdout)


def test_grep_searches_all_calls(yarp, refs):
    text = yarp("grep", "Error|NEEDLE").stdout.decode()
    assert re.findall(r"^(yr_\w+).*matches=(\d+)", text, re.MULTILINE) == [
        (refs["result"], "1"),
        (refs["large"], "1"),
        (refs["binary"], "1"),
        (refs["text"], "1"),
    ]
    assert "stderr:2:Error: broken\n" in text
    assert "result_text:1:host text Error\n" in text
    assert re.search(r"\[yarp grep: \d+ calls searched; 4 of them match\]\n$", text)
    assert yarp("grep", "-i", "needle", "--tool", "cat", "-c").stdout.count(b"\n") == 2
    none = yarp("grep", "absent", "--failed")
    assert (none.returncode, none.stdout) == (1, b"No matches in 1 calls\n")


def test_a_reader_that_went_away_ends_with_74(yarp, refs):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "yarp", "search", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert done.returncode == 74
    assert b"standard output cannot be written" in done.stderr


def test_a_fault_of_yarp_never_looks_like_nothing_found(yarp, refs, path, home):
    for fault, code in (("KeyError('secret')", 70), ("KeyboardInterrupt", 130)):
        program = (
            "import sys\nfrom yarp.recover import search\nfrom yarp.cli.recover import main\n"
            f"def scan(*args, **kw):\n    raise {fault}\nsearch.scan = scan\n"
            f"sys.exit(main(['yarp', 'search', {refs['text']!r}, 'x']))"
        )
        done = subprocess.run(
            [sys.executable, "-I", "-c", program],
            env={"HOME": str(home), "YARP_ARCHIVE": path},
            capture_output=True,
            check=False,
        )
        assert done.returncode == code
        assert b"secret" not in done.stderr
        assert code == 130 or b"KeyError in <string>, scan; please report it" in done.stderr


def test_recovery_imports_nothing_heavy(yarp, refs, path, home):
    code = (
        "import sys\nfrom yarp.cli.recover import main\n"
        f"assert main(['yarp', 'search', {refs['text']!r}, 'FAILED']) == 0\n"
        f"assert main(['yarp', 'read', {refs['text']!r}, 'stderr', '1:1']) == 0\n"
        "heavy = {'attrs', 'cattrs', 'click', 'pluggy', 'typing', 'enum', 're', 'json', 'sqlite3',"
        " 'subprocess', 'pathlib', 'zstandard', 're2', 'hashlib', 'tempfile', 'threading'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    yarp("calls")  # compiles the cache
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env={"HOME": str(home), "YARP_ARCHIVE": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == b"[]"


def test_a_redacted_source_is_said_to_be_and_never_taken_for_output(yarp, path):
    archive = SteppedArchive.open(path, narrow=False)
    session = SessionKey("acme", "ann", "redacted")
    given = payload.of_json({"command": "x"})
    facts = CallFacts("r", "sh", started_at_ms=NOW, requires_streams=True)
    ref = archive.begin_call(session, facts, given, given, NOW)
    out, empty = (payload.of(b"secret\n"), payload.TEXT), (payload.of(b""), payload.TEXT)
    archive.record_streams(session, "r", Streams(out, out, empty, empty), NOW)
    archive.close()
    assert yarp("archive", "redact", ref).returncode == 0
    found = yarp("search", ref, ".")
    assert found.returncode == 65
    assert b"stdout was redacted" in found.stderr
    assert b"redacted" in yarp("read", ref, "--list").stdout
    read = yarp("read", ref, "stdout", "1:1")
    assert read.stdout.startswith(b'{"yarpRedacted"')
    assert b"was redacted" in read.stderr
    (line,) = yarp("calls", "--session", "redacted").stdout.splitlines()
    assert line.endswith(b"  sh  started  ->-  redacted")
    (row,) = json.loads(yarp("calls", "--session", "redacted", "--json").stdout)
    assert (row["redacted"], row["command"], row["bytesBefore"]) == (True, None, None)
    assert row["capture"] is None
    assert yarp("grep", "sha256|yarpRedacted", "--session", "redacted").returncode == 1


def test_a_run_that_had_the_terminal_has_no_sizes(yarp, path):
    archive = SteppedArchive.open(path, narrow=False)
    session = SessionKey("yarp", "ann", "terminal")
    given, receipt = payload.of_json({"argv": ["vim"]}), payload.of_json({"exitCode": 0})
    facts = CallFacts("t", "run", started_at_ms=NOW, requires_streams=False)
    archive.begin_call(session, facts, given, given, NOW)
    archive.finish_run(session, "t", None, receipt, receipt, False, NOW)
    archive.close()
    (row,) = json.loads(yarp("calls", "--session", "terminal", "--json").stdout)
    assert (row["exitStatus"], row["signal"], row["capture"]) == (0, None, None)
    (line,) = yarp("calls", "--session", "terminal").stdout.splitlines()
    assert b"  ->-  vim" in line
