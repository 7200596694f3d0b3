"""gptme's own functions with this plugin around them, in gptme's interpreter."""

from __future__ import annotations

import json
import subprocess

import pytest

from yarp.testing.files import neighbour

pytestmark = pytest.mark.slow

agent = neighbour(__file__, "agent")

BEGIN = """
import contextlib, io, json, os, pathlib, sys, threading, time
from yarp_gptme import inside
from gptme.tools import shell, shell_background as jobs
from gptme.util import output_storage
logdir = pathlib.Path(sys.argv[1])
found = {}
jobs._current_log_dir = lambda: logdir
def activate(**settings):
    return inside.activate({"archive": False, **settings})
def command(text, timeout=None):
    with contextlib.redirect_stdout(io.StringIO()):
        return [m.content for m in shell.execute_shell_impl(text, logdir, timeout)]
def receipts():
    paths = sorted(logdir.rglob("*.receipt.json"), key=os.path.getmtime)
    return [json.loads(path.read_text()) for path in paths]
def names():
    return sorted(str(p.relative_to(logdir)) for p in logdir.rglob("*") if p.is_file())
"""
END = "\nprint('FOUND' + json.dumps(found))\nos._exit(0)\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    found = agent.installed(tmp_path_factory)
    return agent.beside(found, tmp_path_factory.mktemp("beside") / "gptme")


@pytest.fixture
def inside(python, yarp_home, monkeypatch):
    """Runs code in gptme's interpreter, where the plugin can be switched on; what it found."""
    monkeypatch.setenv("GPTME_TIKTOKEN_TIMEOUT", "0")
    logdir = yarp_home / "conversation"
    logdir.mkdir()

    def run(code, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        done = subprocess.run(
            [python, "-c", BEGIN + code + END, str(logdir)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert "FOUND" in done.stdout, done.stderr[-3000:]
        return json.loads(done.stdout.rpartition("FOUND")[2])

    run.logdir = logdir
    return run


def test_switching_off_puts_every_function_back(inside):
    found = inside("""
places = [(shell, "execute_shell_impl"), (shell, "_format_shell_output"), (shell, "save_large_output"),
          (shell, "register_background_job"), (shell, "format_job_output"), (jobs, "_notify_completion"),
          (jobs.BackgroundJob, "_append_output"), (jobs.BackgroundJob, "kill"),
          (shell.ShellSession, "_decode_output"), (shell.ShellSession, "_read_output_unix"),
          (output_storage, "save_large_output")]
before = [getattr(owner, name) for owner, name in places]
found["offers"] = activate().offers
found["wrapped"] = [getattr(o, n) is not b for (o, n), b in zip(places, before)]
inside.deactivate()
found["back"] = [getattr(o, n) is b for (o, n), b in zip(places, before)]
""")
    assert set(found["offers"].values()) == {None}
    assert all(found["wrapped"])
    assert all(found["back"])


def test_a_small_result_needs_no_file(inside):
    found = inside("""
activate()
found["shown"] = command("echo small; (exit 3)")
found["names"] = names()
""")
    assert found["names"] == []
    assert found["shown"] == ["Ran command: `echo small; (exit 3)`\n\n`small`\n\nReturn code: 3\n"]


def test_what_gptme_does_not_cut_has_neither_file_nor_receipt_and_is_its_own_to_the_letter(inside):
    found = inside("""
texts = ["seq 1 3000", "seq 1 8000", "yes | head -c 39000", "seq 1 3000 >&2; false", "sleep 0.01; echo one",
         "python3 -c \\"print('é' * 39000)\\"", "git --no-pager log --oneline", "true"]
activate()
with_plugin = [command(text) for text in texts]
found["names"] = names()
inside.deactivate()
found["same"] = [mine == theirs for mine, theirs in zip(with_plugin, [command(text) for text in texts])]
""")
    assert found["names"] == []
    assert found["same"] == [True] * 8


def test_a_receipt_states_what_was_really_shown(inside):
    code = """
from types import SimpleNamespace
from yarp_gptme import calls
activate(**{settings!r})
def run(text):
    call = SimpleNamespace(receipts=[], shown=[], tool="shell", source_call_id="c", failed=False, begun=False)
    with calls.running(call):
        (shown,) = command(text)
    return [call.receipts[-1]["preview"], call.receipts[-1]["reference_state"], shown]
found["seen"] = [run(text) for text in {texts!r}]
"""
    texts = ["true", "echo é", "seq 1 3000", "seq 1 20000", "seq 1 20000; seq 1 20000 >&2; false"]
    nothing, small, whole, cut, failed = inside(code.format(settings={}, texts=texts))["seen"]
    assert nothing[:2] == [{"state": "complete", "byte_length": 0}, "inline"]
    assert small[:2] == [{"state": "complete", "byte_length": len("`é`".encode())}, "inline"]
    assert whole[0]["state"] == "complete"
    assert 13_892 <= whole[0]["byte_length"] < 13_920 < len(whole[2])
    for preview, reference, shown in (cut, failed):
        assert (preview["state"], reference) == ("head_tail", "local")
        body = shown.partition("output\n")[2].partition("\n````")[0]
        assert preview["byte_length"] == len(body.encode()), shown[:200] + shown[-600:]
    own = inside(code.format(settings={"preview": "gptme"}, texts=texts))["seen"]
    assert own[2] == whole
    for preview, reference, shown in own[3:]:
        assert (preview["state"], reference) == ("head_tail", "local")
        body = shown.partition("\n\n")[2].partition("\n[yarp capture")[0]
        body = body.removesuffix("\nReturn code: 1\n").strip()
        assert preview["byte_length"] == len(body.encode()) > 39_000


def test_a_large_output_that_is_not_stored_by_choice_is_shown_all_the_same(inside):
    found = inside("""
activate(never_spool=["seq"])
(shown,) = command("seq 1 20000")
found["shown"] = [word in shown for word in ("\\n19999\\n20000\\n", "\\n1\\n2\\n")]
found["kept"] = [p.read_text() for p in logdir.rglob("*.txt")]
""")
    assert found["shown"] == [True, True]
    assert not any("20000" in text for text in found["kept"])


def test_a_path_in_gptmes_own_words_leads_to_the_whole_text_or_says_why_not(inside):
    found = inside("""
activate(preview="gptme", job_mib=0, conversation_mib=0)
(found["refused"],) = command("seq 1 20000; (exit 4)")
found["names"] = [n for n in names() if n.startswith("tool-outputs")]
activate(preview="gptme")
(shown,) = command("seq 1 20000")
path = shown.partition("full output saved to ")[2].partition(")")[0]
found["whole"] = len(pathlib.Path(path).read_text())
""")
    assert "saved to" in found["refused"]
    assert "(not kept: " in found["refused"]
    assert "Return code: 4" in found["refused"]
    assert found["whole"] == 108894


def test_large_outputs_saved_in_one_second_are_files_of_their_own(inside):
    found = inside("""
activate()
os.umask(0)
saved = [output_storage.save_large_output("same text", logdir, "shell", "ls", 7) for _ in range(3)]
saved.append(output_storage.save_large_output(content="other", logdir=logdir))
found["summary"] = saved[0][0].replace(str(saved[0][1]), "PATH")
found["paths"] = [str(path.relative_to(logdir)) for _, path in saved]
found["texts"] = [path.read_text() for _, path in saved]
found["types"] = [type(path).__mro__[1].__name__ for _, path in saved]
found["modes"] = sorted({oct(p.stat().st_mode & 0o777) for p in logdir.rglob("*")})
found["receipts"] = [(r["capture"], r["capture_reason"], r["process"]) for r in receipts()]
""")
    assert (
        found["summary"]
        == "[Large shell output saved]\nCommand: ls\nOriginal: 7 tokens\nFull output: PATH"
    )
    assert len(set(found["paths"])) == 4
    assert {path.rpartition("/")[0] for path in found["paths"]} == {"tool-outputs/captures"}
    assert found["texts"] == ["same text"] * 3 + ["other"]
    assert found["modes"] == ["0o600", "0o700"]
    assert len(found["receipts"]) == 4
    assert found["receipts"][0] == ["partial", "as-decoded-and-trimmed-by-gptme", None]


@pytest.mark.parametrize("link", ["tool-outputs", "tool-outputs/captures"])
def test_a_text_that_cannot_be_kept_safely_is_not_kept_and_costs_nobody_a_result(inside, link):
    outside = inside.logdir.parent / "outside"
    outside.mkdir()
    (inside.logdir / link).parent.mkdir(exist_ok=True)
    (inside.logdir / link).symlink_to(outside)
    found = inside("""
activate()
for kind in ("shell", "../../outside", "/tmp/x", "a/b", "", "."):
    summary, path = output_storage.save_large_output("text", logdir, kind)
    found[kind] = [path.name, path.exists(), str(path) in summary]
""")
    for name, exists, told in found.values():
        assert name.startswith("(not kept: ")
        assert "follow no links" in name
        assert (exists, told) == (False, True)
    assert list(outside.iterdir()) == []


def test_no_kind_of_output_leads_anywhere_else(inside):
    found = inside("""
activate()
for kind in ("shell", "../../outside", "/tmp/x", "a/b", "", "."):
    found[kind] = str(output_storage.save_large_output("text", logdir, kind)[1].relative_to(logdir))
""")
    assert {path.rpartition("/")[0] for path in found.values()} == {"tool-outputs/captures"}


def test_a_text_is_kept_where_gptmes_own_writer_keeps_it(inside):
    found = inside("""
os.umask(0o002)
output_storage.save_large_output("before", logdir, "autocompact")
activate()
os.chdir(logdir)
for number, place in enumerate((logdir, pathlib.Path("relative"), "string", logdir / "not" / "there")):
    path = output_storage.save_large_output("text", place, "autocompact")[1]
    found[str(number)] = [path.read_text(), oct(path.stat().st_mode & 0o777)]
""")
    assert list(found.values()) == [["text", "0o600"]] * 4


def test_all_texts_and_captures_of_a_conversation_share_one_allowance(inside):
    found = inside("""
activate(conversation_mib=1)
from gptme.message import Message
from gptme.tools.autocompact import engine
paths = [output_storage.save_large_output("y" * 900_000, logdir, kind)[1] for kind in ("tmux", "read", "shell")]
found["texts"] = [path.exists() for path in paths]
found["refused"] = paths[1].name
before = names()
found["again"] = output_storage.save_large_output("y" * 900_000, logdir, "read")[1].name
found["same"] = names() == before
command("seq 1 140000")
found["kept"] = sum(p.stat().st_size for p in (logdir / "tool-outputs").rglob("*") if p.is_file() and ".receipt" not in p.name)
def messages():
    large = [Message("system", "out " + "z " * 30000) for _ in range(6)]
    return [Message("system", "s"), Message("user", "hi"), *large, Message("user", "u"), *[Message("assistant", "a")] * 6]
found["compacted"] = len(list(engine.auto_compact_log(messages(), logdir=logdir, limit=2000)))
inside.deactivate()
found["plain"] = len(list(engine.auto_compact_log(messages(), logdir=logdir, limit=2000)))
""")
    assert found["texts"] == [True, False, False]
    assert found["refused"] == found["again"] == "(not kept: conversation-quota)"
    assert found["same"]
    assert found["kept"] <= 1 << 20
    assert found["compacted"] == found["plain"] > 0


def test_a_place_that_cannot_be_written_costs_the_capture_and_nothing_else(inside):
    (inside.logdir / "tool-outputs").write_text("in the way")
    found = inside("""
activate()
found["shown"] = command("seq 1 20000; (exit 4)")
job = jobs.start_background_job("echo job; exit 5")
job._reader_thread.join(10)
found["code"] = job.process.poll()
""")
    (shown,) = found["shown"]
    assert "Return code: 4" in shown
    assert "20000" in shown
    assert found["code"] == 5
    assert (inside.logdir / "tool-outputs").read_text() == "in the way"


def test_the_quota_makes_a_capture_partial_and_the_command_goes_on(inside):
    found = inside("""
activate(job_mib=1)
job = jobs.start_background_job("seq 1 400000; exit 6")
job._reader_thread.join(20)
found["code"] = job.process.poll()
found["message"] = jobs._completion_message(job).content
(receipt,) = receipts()
found["receipt"] = receipt
found["size"] = (logdir / receipt["streams"][0]["reference"]).stat().st_size
""")
    stdout = found["receipt"]["streams"][0]
    assert (found["code"], found["receipt"]["exit_code"]) == (6, 6)
    assert (found["receipt"]["capture"], found["receipt"]["capture_reason"]) == (
        "partial",
        "job-quota",
    )
    assert stdout["observed"] == 2688895
    assert stdout["observed"] == stdout["accepted"] + stdout["pending"] + stdout["discarded"]
    assert found["size"] == stdout["committed"] <= 1 << 20
    assert "output partial (job-quota)" in found["message"]
    assert "exit code 6" in found["message"]
    # The preview comes from what was read, not from the file.
    assert "399999" in found["message"]


def test_two_readers_of_a_running_job_and_its_completion_do_not_take_from_one_another(inside):
    found = inside("""
activate()
gate = "until [ -e %s/{n} ]; do sleep 0.02; done" % logdir
job = jobs.start_background_job(f"echo word$((1)); {gate.format(n=1)}; echo word$((2)); {gate.format(n=2)}; echo word$((3))")
from yarp.plugin import Cursor
where = job._yarp_capture.spool
place = inside.active().policy.location(str(logdir))
first, second = (Cursor(place, where.identity.capture_id, "stdout") for _ in range(2))
def until(read, wanted):
    got, deadline = "", time.monotonic() + 20
    while wanted not in got and time.monotonic() < deadline:
        got += read()
        time.sleep(0.02)
    return got
def text(): return "".join(m.content for m in jobs.execute_output_command(f"{job.id} --new"))
found["first"] = [until(lambda: first.read().decode(), "word1\\n")]
found["new"] = ["word1" in until(text, "word1")]
(logdir / "1").touch()
found["first"].append(until(lambda: first.read().decode(), "word2\\n"))
found["new"].append("word1" in until(text, "word2"))
(logdir / "2").touch()
job._reader_thread.join(20)
found["first"].append(until(lambda: first.read().decode(), "word3\\n"))
found["second"] = second.read().decode()
messages = list(jobs.background_job_completion_hook(None))
found["completions"] = [len(messages), len(list(jobs.background_job_completion_hook(None)))]
found["delivered"] = [n for n in names() if n.endswith(".delivered")] != []
""")
    assert found["first"] == ["word1\n", "word2\n", "word3\n"]
    assert found["second"] == "word1\nword2\nword3\n"
    assert found["new"] == [True, False]
    assert found["completions"] == [1, 0]
    assert found["delivered"]


def test_gptmes_own_presentation_stays_where_the_user_wants_it(inside):
    code = """
activate(preview={preview!r})
(shown,) = command("seq 1 30000")
found["shown"], found["names"] = len(shown), names()
found["path"] = receipts()[0]["streams"][0]["reference"]
found["named"] = f"full output saved to {{logdir}}/{{found['path']}}" in shown
"""
    found = inside(code.format(preview="gptme"))
    assert found["shown"] > 39_000
    assert found["named"]
    assert not [name for name in found["names"] if name.endswith(".txt")]
    chosen = inside(code.format(preview="bounded"), GPTME_SHELL_TRUNC_PRE_TOKENS="100")
    assert chosen["shown"] > 30_000


@pytest.mark.parametrize("seconds", ["0.25", "0.3", "0.35"])
def test_a_promotion_racing_the_end_neither_loses_nor_doubles(inside, seconds):
    found = inside(f"""
activate()
os.environ["GPTME_SHELL_FOREGROUND_TIMEOUT"] = "0.3"
for number in range(6):
    list(command("seq 1 5000; sleep {seconds}; seq 5001 10000; (exit 9)"))
deadline = time.monotonic() + 20
while len(receipts()) < 6 and time.monotonic() < deadline:
    time.sleep(0.1)
found["receipts"] = [(r["process"], r["exit_code"], r["capture"], r["streams"][0]["observed"], r["streams"][0]["sha256"]) for r in receipts()]
found["files"] = len([n for n in names() if n.endswith(".stdout")])
""")
    assert len(found["receipts"]) == found["files"] == 6
    assert len(set(map(tuple, found["receipts"]))) == 1
    assert found["receipts"][0][:4] == ["exited", 9, "complete", 48894]


def test_a_kill_racing_the_end_gives_one_receipt_that_agrees_with_itself(inside):
    found = inside("""
activate()
seen = []
for number in range(8):
    job = jobs.start_background_job("sleep 0.1; echo done; exit 3")
    time.sleep(0.08 + number * 0.01)
    job.kill()
    capture = job._yarp_capture
    capture.done.wait(5)
    r = capture.receipt
    seen.append((str(r.process), r.exit_code, r.signal, job.process.returncode))
found["seen"] = seen
""")
    for process, exit_code, signal, code in found["seen"]:
        assert (exit_code if signal is None else -signal) == code
        assert process == "cancelled" if code < 0 else process in ("exited", "cancelled")


def test_a_large_result_of_python_is_kept_and_said_to_be_what_gptme_handed_on(inside):
    found = inside("""
activate()
from types import SimpleNamespace
from gptme.message import Message
from yarp_gptme.entries import declare
from yarp_gptme.captures import Policy
call = SimpleNamespace(tool="ipython", shown=[], receipts=[], source_call_id="c1")
text = "B" + "x" * 50_000 + "E"
message = declare(Policy({}), call, Message("system", text), str(logdir))
found["shown"], found["pairs"] = message.content, len(call.shown)
found["kept"] = (logdir / receipts()[0]["streams"][0]["reference"]).read_text() == text
found["receipt"] = {k: receipts()[0][k] for k in ("capture", "capture_reason", "process")}
cut = declare(Policy({}), call, Message("system", text + "[... 1,000 bytes omitted (2,000 total)"), str(logdir))
found["cut"] = receipts()[-1]["capture_reason"]
small = Message("system", "small")
found["same"] = declare(Policy({}), call, small, str(logdir)) is small
secret = SimpleNamespace(tool="elicit", shown=[], receipts=[], source_call_id="c2")
found["secret"] = declare(Policy({}), secret, Message("system", text), str(logdir)).content == text
hidden = Message("system", text, hide=True)
found["hidden"] = declare(Policy({}), call, hidden, str(logdir)) is hidden
found["count"] = len(receipts())
""")
    assert found["kept"]
    assert found["receipt"] == {
        "capture": "partial", "capture_reason": "tool-text-streams-cut-at-10-MiB", "process": None,
    }  # fmt: skip
    assert "output partial" in found["shown"]
    assert len(found["shown"]) < 9000
    assert found["cut"].startswith("cut-upstream")
    assert found["same"]
    assert found["secret"]
    assert found["hidden"]
    assert (found["count"], found["pairs"]) == (2, 1)


def test_gptmes_own_short_previews_stay(inside):
    found = inside("""
activate()
os.system("cd %s && git init -q . && git config user.email a@b && git config user.name a" % logdir.parent)
os.chdir(logdir.parent)
for number in range(60):
    os.system(f"git commit -q --allow-empty -m 'commit number {number} of a long line of commits'")
(found["shown"],) = command("git log --oneline")
""")
    assert "Showing first" in found["shown"]
    assert len(found["shown"]) < 5000


def test_output_on_stderr_alone_stands_first_when_the_command_failed(inside):
    found = inside("""
activate()
(found["shown"],) = command("seq 1 20000; seq 1 20000 | sed s/^/e/ >&2; false")
(found["alone"],) = command("seq 1 20000 >&2; (exit 9)")
found["receipts"] = [(r["exit_code"], r["streams"][0]["observed"], r["streams"][1]["observed"]) for r in receipts()]
""")
    shown = found["shown"]
    assert 0 <= shown.index("[stderr]") < shown.index("[stdout]")
    assert "e20000" in shown
    assert "Return code: 1" in shown
    assert "Return code: 9" in found["alone"]
    assert found["receipts"] == [[1, 108894, 128894], [9, 0, 108894]]


def test_what_is_published_stays_whatever_is_asked_later(inside):
    found = inside("""
activate()
job = jobs.start_background_job("seq 1 3000; exit 2")
job._reader_thread.join(20)
def seen():
    return {p.name: (p.stat().st_mtime_ns, p.stat().st_ino, p.read_bytes().hex()) for p in logdir.rglob("*") if p.is_file() and "delivered" not in p.name}
before = seen()
for text in (f"output {job.id}", f"wait {job.id} 1s", f"output {job.id} --new", f"kill {job.id}"):
    for message in shell.execute_shell(None, None, {"command": text}):
        found.setdefault("said", []).append(message.content)
job._append_output(job.process.stdout.fileno(), job.process.stdout.fileno(), b"later", final=False)
list(jobs.background_job_completion_hook(None))
found["same"] = seen() == before
found["files"] = len(before)
""")
    assert found["same"]
    assert found["files"] == 3
    assert all("output complete" in said for said in found["said"][:3])


@pytest.mark.parametrize(
    "text", ["printf 'caf\\\\303'", "printf 'caf\\\\303'; sleep 0.3; printf '\\\\251'"]
)
def test_a_character_split_between_reads_or_at_the_end_is_not_lost(inside, text):
    found = inside(f"""
activate()
command("seq 1 9000; {text}")
(receipt,) = receipts()
found["end"] = (logdir / receipt["streams"][0]["reference"]).read_text()[-4:]
found["capture"] = receipt["capture"]
""")
    assert found == {"end": "café" if "251" in text else "caf\ufffd", "capture": "complete"}


def test_a_sandboxed_shell_is_told_that_it_cannot_reach_the_files(inside):
    found = inside(
        """
from yarp_gptme.captures import Capture, Policy
capture = Capture(Policy({}), str(logdir), "x", session=None, job_id="1")
found["lines"] = capture.lines()
""",
        GPTME_SANDBOX="bwrap",
    )
    assert "not reachable from the sandboxed shell" in found["lines"]


def test_a_command_with_a_terminal_of_its_own_has_no_counts(inside):
    found = inside("""
activate()
from yarp_gptme import foreground
seen = []
real = foreground.Shell.conclude
foreground.Shell.conclude = lambda *a: seen.append(real(*a)) or seen[-1]
shell.ShellSession._needs_tty = lambda self, text: text.startswith("sudo")
command("sudo -n true")
command("echo seen\\nsudo -n true")
found["receipts"] = [receipt.plain() for receipt in seen]
""")
    alone, mixed = found["receipts"]
    assert (alone["capture"], alone["capture_reason"]) == ("unavailable", "terminal-of-its-own")
    assert (alone["streams"], alone["exit_code"]) == ([], 127)
    assert (mixed["capture"], mixed["capture_reason"]) == ("partial", "terminal-of-its-own")


def test_the_user_counts_before_the_project_which_names_no_program(inside):
    found = inside("""
user = {"enabled": True, "program": ["mine"], "never_spool": ["a"], "archive": True}
project = {"program": ["/evil"], "never_spool": ["b"], "archive": False, "preview": "gptme"}
found["both"] = inside.settings_of(user, project)
found["project"] = inside.settings_of({}, project)
""")
    assert found["both"]["program"] == ["mine"]
    assert (found["both"]["archive"], found["both"]["preview"]) == (True, "gptme")
    assert found["both"]["never_spool"] == ["a", "b"]
    assert found["project"]["program"] is None


def test_a_fault_of_ours_costs_nobody_an_output(inside):
    found = inside("""
activate()
from yarp_gptme import captures
def broken(*a, **k): raise RuntimeError("broken")
for part in ("take", "ended", "finish"):
    class Spool: pass
    real = captures.spool_at
    def made(*a, part=part, real=real, **k):
        spool = real(*a, **k)
        setattr(spool, part, broken)
        return spool
    captures.spool_at = made
    (shown,) = command("seq 1 20000; (exit 3)")
    job = jobs.start_background_job("seq 1 5000; exit 4")
    job._reader_thread.join(20)
    text = jobs._completion_message(job).content
    found[part] = ["Return code: 3" in shown, "20000" in shown, "exit code 4" in text, "5000" in text,
                   str(job._yarp_capture.receipt.capture_reason)]
    captures.spool_at = real
captures.spool_at = broken
(shown,) = command("seq 1 20000; (exit 3)")
job = jobs.start_background_job("seq 1 5000; exit 4")
job._reader_thread.join(20)
found["none"] = ["Return code: 3" in shown, "20000" in shown, "exit code 4" in jobs._completion_message(job).content]
""")
    assert found["none"] == [True, True, True]
    for part in ("take", "ended", "finish"):
        assert found[part][:3] == [True, True, True], part
        assert found[part][4] == "fault-inside-yarp"


def test_what_other_tools_save_says_what_it_is_of(inside):
    found = inside("""
activate()
from types import SimpleNamespace
from gptme.message import Message
from gptme.tools import tmux
from gptme.tools.autocompact import engine
from gptme import tools
from yarp_gptme.captures import Policy
from yarp_gptme.entries import declare
lines = "\\n".join(f"line {n}" for n in range(1000))
found["tmux"] = tmux._truncate_output(lines, logdir=logdir)
found["stub"] = engine._stale_output_stub(Message("system", "an old result"), 9, logdir)
found["summary"] = output_storage.create_tool_result_summary("a huge result", 9, logdir, "autocompact")
tools.get_tool = lambda name: SimpleNamespace(is_mcp=True)
call = SimpleNamespace(tool="srv.echo", shown=[], receipts=[], source_call_id="c")
found["mcp"] = declare(Policy({"preview": "gptme"}), call, Message("system", "m" * 50_000), str(logdir)).content
found["reasons"] = [(r["capture"], r["capture_reason"]) for r in receipts()]
found["texts"] = sorted(p.read_text()[:13] for p in logdir.rglob("*.txt"))
""")
    assert "full output saved to /" in found["tmux"]
    assert "Full output saved to: /" in found["stub"]
    assert "Full output saved to: /" in found["summary"]
    assert found["mcp"].startswith("m" * 50_000)
    assert "output partial (first-text-of-the-answer)" in found["mcp"]
    assert found["reasons"] == [
        ["partial", "pane-history-may-lack-its-beginning"],
        ["partial", "message-as-recorded"],
        ["partial", "message-as-recorded"],
        ["partial", "first-text-of-the-answer"],
    ]
    assert found["texts"] == ["a huge result", "an old result", "line 0\nline 1", "m" * 13]


def test_a_promoted_command_has_its_receipt_where_jobs_are_not_spooled(inside):
    found = inside("""
append = jobs.BackgroundJob._append_output
jobs.BackgroundJob._append_output = lambda self, *given, **named: append(self, *given, **named)
found["offers"] = activate().offers
os.environ["GPTME_SHELL_FOREGROUND_TIMEOUT"] = "0.3"
command("seq 1 5000; sleep 1; (exit 5)")
job = next(iter(jobs._background_jobs[None].values()))
job.process.wait(20)
deadline = time.monotonic() + 20
while not receipts() and time.monotonic() < deadline:
    time.sleep(0.05)
found["receipts"] = [(r["process"], r["exit_code"], r["capture"], r["job_id"]) for r in receipts()]
job = jobs.start_background_job("echo plain; exit 6")
job._reader_thread.join(20)
found["job"] = [job.process.poll(), job.get_output()[0], len(receipts())]
""")
    assert found["offers"]["spools of commands in the foreground"] is None
    assert "_append_output takes" in found["offers"]["spools of background jobs"]
    assert found["receipts"] == [["exited", 5, "complete", "1"]]
    assert found["job"] == [6, "plain\n", 1]


def test_credentials_of_the_project_and_the_chat_are_taken_out(inside):
    found = inside("""
from gptme.config import ChatConfig, MCPConfig, ProjectConfig, get_config
from gptme.config.models import MCPServerConfig
config = get_config()
server = MCPServerConfig("a", env={"X_TOKEN": "of-a-server-123"}, headers={"A": "of-a-header-123"})
config.project = ProjectConfig(env={"MY_API_KEY": "of-the-project-1"}, mcp=MCPConfig(servers=[server]))
config.chat = ChatConfig(env={"MY_PASSWORD": "of-the-chat-12"})
config.env_overrides["A_SECRET"] = "of-an-override-1"
activate()
command("seq 1 20000; echo of-a-server-123 of-a-header-123 of-an-override-1 of-the-project-1 of-the-chat-12")
found["last"] = (logdir / receipts()[0]["streams"][0]["reference"]).read_text().splitlines()[-1]
""")
    assert found["last"] == " ".join(["[REDACTED]"] * 5)


HELD = "descendant-holds-output"


@pytest.mark.parametrize(
    "left",
    [
        'sh -c "sleep 9; echo LATE" &',
        '(setsid sh -c "sleep 9; echo LATE" &)',
        '(nohup sh -c "sleep 9; echo LATE" &)',
        'python3 -c "import os,time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(9)"',
        'sh -c "sleep 9; echo LATE >&2" >/dev/null &',
    ],
)
def test_whoever_still_holds_the_output_makes_it_partial_whosever_child_it_is(inside, left):
    found = inside(f"""
activate()
found["shown"] = command({"seq 1 20000; " + left!r})
(found["receipt"],) = receipts()
""")
    receipt = found["receipt"]
    assert (receipt["capture"], receipt["capture_reason"]) == ("partial", HELD)
    assert receipt["streams"][0]["observed"] == 108894
    assert f"partial ({HELD})" in found["shown"][0]


def test_who_holds_nothing_of_the_output_does_not_make_it_partial(inside):
    found = inside("""
activate()
command("seq 1 20000; (setsid sleep 9 >/dev/null 2>&1 &); sleep 9 >/dev/null 2>&1 &")
found["receipts"] = [(r["capture"], r["capture_reason"]) for r in receipts()]
""")
    assert found["receipts"] == [["complete", None]]


def test_whom_an_earlier_command_left_says_nothing_of_a_later_one(inside):
    found = inside("""
activate()
command("seq 1 20000; (setsid sh -c 'sleep 0.6; for i in 1 2 3 4 5 6 7 8; do sleep 1 & wait; done' &)")
command("seq 1 20001")
time.sleep(1)
command("seq 1 20002")
found["receipts"] = [(r["capture"], r["capture_reason"]) for r in receipts()]
""")
    assert found["receipts"] == [["partial", HELD], ["complete", None], ["complete", None]]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_background_child_writes_behind_the_end_is_kept_or_the_capture_is_partial(
    inside, stream
):
    found = inside(f"""
activate()
seen = []
for delay in (0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3):
    for end in ("", "disown"):
        command(f"seq 1 20000; (sleep {{delay}}; echo LATE{">&2" if stream == "stderr" else ""}) & {{end}}")
        receipt = receipts()[-1]
        one = {{s["name"]: s["reference"] for s in receipt["streams"]}}[{stream!r}]
        kept = one is not None and "LATE" in (logdir / one).read_text()
        seen.append((delay, receipt["capture"], receipt["capture_reason"], kept))
        time.sleep(0.35)
found["seen"] = seen
""")
    for delay, capture, reason, kept in found["seen"]:
        assert (capture, kept) == ("complete", True) or reason == HELD, (delay, capture, reason)
    assert any(kept for *_, kept in found["seen"])


def test_a_small_result_with_something_behind_its_end_has_files_that_hold_it(inside):
    found = inside("""
activate()
while not receipts():
    (shown,) = command("echo small; (sleep 0.05; echo LATE) & disown")
found["shown"] = shown
(receipt,) = receipts()
found["kept"] = (logdir / receipt["streams"][0]["reference"]).read_text()
""")
    assert found["kept"] == "small\nLATE\n"
    assert "output complete" in found["shown"]


def test_a_code_that_gptme_makes_up_is_no_signal(inside):
    found = inside("""
activate()
from yarp_gptme import foreground
seen = []
real = foreground.Shell.conclude
foreground.Shell.conclude = lambda *a: seen.append(real(*a)) or seen[-1]
command("exec 2>&1; seq 1 3000 >&2")
command("seq 1 3000; kill -9 $$")
found["seen"] = [(r["process"], r["process_reason"], r["exit_code"], r["signal"]) for r in (s.plain() for s in seen)]
""")
    assert found["seen"] == [
        [None, "gptme does not know how it ended", None, None],
        ["exited", None, None, 9],
    ]


def test_a_small_result_that_is_partial_is_not_said_to_be_lost(inside):
    found = inside("""
activate()
found["shown"], found["names"] = command("sleep 9 & echo bg"), names()
""")
    assert found["names"] == []
    assert "stdout: 3 bytes, as shown" in found["shown"][0]
