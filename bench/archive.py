"""The archive: what a begin and a finish cost, and how much disk a fixture takes.

Source: seed 001, Verification (limits and repetitions); spec "Speed".
"""

import json
import os
import random
import shutil
import tempfile
import time

from yarp import canonical, payload
from yarp.archive.steps import SteppedArchive
from yarp.archive.write import CallFacts, SessionKey, Streams

WARM_UP = 30
BEGINS = 300
FINALS = 150
FIXTURE_CALLS = 812  # as many results as the fixture of seed 001 has
SESSION = SessionKey("acme", "bob", "bench", 1)


def run(out_dir):
    with open(os.path.join(out_dir, "archive.jsonl"), "w", encoding="utf-8") as raw:
        directory = tempfile.mkdtemp(prefix="archive-", dir=out_dir)
        try:
            archive = SteppedArchive.open(os.path.join(directory, "times.sqlite3"), narrow=False)
            rows = [
                _times(
                    raw, "begin, 16 KiB input, unchanged", _begins(archive, rewritten=False), 10, 2
                ),
                _times(
                    raw, "begin, 16 KiB input, rewritten", _begins(archive, rewritten=True), 10, 2
                ),
                _times(raw, "final, 1 MiB result of text", _finals(archive, _text_result), 100, 15),
                _times(raw, "final, 1 MiB result of rows", _finals(archive, _rows_result), 100, 15),
                _times(
                    raw, "final, 1 MiB result of noise", _finals(archive, _noise_result), 100, 15
                ),
            ]
            archive.close()
            rows.append(_size(raw, directory))
        finally:
            shutil.rmtree(directory)
    return rows


def _times(raw, name, seconds, limit_ms, aim_ms):
    timed = [one * 1000 for one in seconds][WARM_UP:]
    for one in timed:
        raw.write(json.dumps({"name": name, "ms": round(one, 4)}) + "\n")
    timed.sort()
    middle, p95 = timed[len(timed) // 2], timed[int(len(timed) * 0.95)]
    return (
        f"{name}: p50 {middle:.2f} ms, p95 {p95:.2f} ms over {len(timed)} "
        f"(limit {limit_ms}, aim {aim_ms})"
    )


def _begins(archive, *, rewritten):
    """Seconds from the host's value to the committed begin, with the canonical form and digest."""
    rng = random.Random(1)
    for number in range(WARM_UP + BEGINS):
        content = source_code(rng, 16 << 10)
        given = {"path": f"src/module_{number}.py", "content": content, "rewritten": rewritten}
        facts = CallFacts(
            f"begin-{rewritten}-{number}", "write", started_at_ms=1, requires_streams=False
        )
        start = time.perf_counter()
        before = payload.of(canonical.encode(given))
        after = before
        if rewritten:
            after = payload.of(canonical.encode({**given, "path": "elsewhere.py"}))
        archive.begin_call(SESSION, facts, before, after, 1)
        yield time.perf_counter() - start


def _finals(archive, make):
    """Seconds from the final value to the commit that replaces a staged result of that size."""
    rng = random.Random(2)
    for number in range(WARM_UP + FINALS):
        call = f"final-{make.__name__}-{number}"
        given = payload.of(b"{}")
        facts = CallFacts(call, "sh", started_at_ms=1, requires_streams=False)
        archive.begin_call(SESSION, facts, given, given, 1)
        staged = payload.of(canonical.encode(make(rng)))
        archive.result_before(SESSION, call, staged, None, payload.TEXT, 1)
        archive.stage_result(SESSION, call, staged, False, 1)
        final = make(rng)
        start = time.perf_counter()
        archive.update_final_result(SESSION, call, payload.of(canonical.encode(final)), False, 2)
        yield time.perf_counter() - start


def _text_result(rng):
    return {"content": [{"type": "text", "text": log(rng, 1 << 20)}]}


def _rows_result(rng):
    return {"rows": [{"id": n, "name": word(rng), "ok": n % 3 > 0} for n in range(24_000)]}


def _noise_result(rng):
    return {"content": [{"type": "image", "data": rng.randbytes(512 << 10).hex()}]}


def _size(raw, directory):
    """The whole database against the uncompressed bytes of all its snapshots."""
    path = os.path.join(directory, "size.sqlite3")
    archive = SteppedArchive.open(path, narrow=False)
    rng = random.Random(3)
    total = distinct = stored = 0

    def kept(data):
        nonlocal total, distinct, stored
        one = payload.of(data)
        total += len(data)
        distinct += len(data)
        stored += one.stored_length
        return one

    for number in range(FIXTURE_CALLS):
        tool, text = tool_result(rng)
        call = f"size-{number}"
        wrapped = tool == "sh" and number % 3 == 0
        given = kept(canonical.encode(tool_input(rng, tool, number)))
        total += given.byte_length
        facts = CallFacts(call, tool, started_at_ms=number, requires_streams=wrapped)
        archive.begin_call(SESSION, facts, given, given, number)
        shown = text
        if wrapped:
            shown = text[:600] + f"\n[yarp: lines omitted; ref={call}]\n"
            before, after, nothing = kept(text.encode()), kept(shown.encode()), payload.of(b"")
            archive.record_streams(
                SESSION,
                call,
                Streams(*((one, payload.TEXT) for one in (before, after, nothing, nothing))),
                number,
            )
        result = kept(canonical.encode({"content": [{"text": shown, "type": "text"}]}))
        total += result.byte_length
        archive.result_before(SESSION, call, result, None, payload.TEXT, number)
        archive.finish_call(SESSION, call, result, number % 9 == 0, True, number)
    archive.close()
    size = os.path.getsize(path)
    share, compressed = 100 * size / total, 100 * stored / distinct
    raw.write(
        json.dumps({"name": "size", "database": size, "payload": total, "stored": stored}) + "\n"
    )
    return (
        f"database {size} bytes for {total} of payload before and after, {FIXTURE_CALLS} calls: "
        f"{share:.1f} % (limit 30, aim 20); payloads alone compress to {compressed:.1f} %"
    )


# A synthetic fixture: what tools print, as many and on average as long as the results behind the
# figures of seed 001 (812 of 9.2 kB). One result speaks of few things often; some of it is noise.

NAMES = """
archive session payload snapshot reader writer stream result input output status config token
parser engine family marker budget window column record schema digest filter handler request
response server client worker queue batch cursor index shard replica commit branch merge build
test fixture assert expect render layout widget button event signal timer clock buffer socket
""".split()  # noqa: SIM905 - a list of words reads as prose
SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()  # noqa: SIM905


def word(rng):
    if rng.random() < 0.6:
        return rng.choice(NAMES)
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randrange(2, 5)))


def text_of(line):
    """A function of (rng, byte_length) that repeats `line(rng, number, word)` up to that length."""

    def text(rng, byte_length):
        spoken_of = [word(rng) for _ in range(12)]
        parts = []
        size = 0
        while size < byte_length:
            parts.append(line(rng, len(parts), lambda: rng.choice(spoken_of)))
            size += len(parts[-1])
        return "".join(parts)[:byte_length]

    return text


@text_of
def source_code(rng, _number, name):
    kind = rng.randrange(6)
    if kind == 0:
        return f"\n\ndef {name()}_{name()}({name()}, *, {name()}=None):\n"
    if kind == 1:
        return f'    """Give the {name()} {name()} of the {name()}, or None."""\n'
    if kind == 2:
        return f"    if {name()}.{name()} is None or {name()} > {rng.randrange(500)}:\n"
    if kind == 3:
        return f"        return self._{name()}[{name()}].{name()}({name()})\n"
    if kind == 4:
        return f"    # {' '.join(name() for _ in range(rng.randrange(4, 11)))}\n"
    return f"    {name()} = {name()}_{name()}({name()}, {rng.randrange(99)})\n"


@text_of
def log(rng, number, name):
    level = rng.choice(("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"))
    clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
    return (
        f"2026-03-14T{clock}.{rng.randrange(1000):03}Z {level} {name()}.{name()} "
        f"request={rng.getrandbits(32):08x} {name()} {name()} took {rng.randrange(900)} ms\n"
    )


@text_of
def rows(rng, number, name):
    row = {
        "id": rng.getrandbits(32),
        "name": f"{name()}-{name()}",
        "enabled": rng.random() < 0.9,
        "score": rng.randrange(10**4) / 100,
        "url": f"https://example.org/{name()}/{number}",
    }
    return json.dumps(row, indent=2) + ",\n"


@text_of
def listing(rng, _number, name):
    return (
        f"-rw-r--r-- 1 bob bob {rng.randrange(90_000):>7} Mar {rng.randrange(1, 29):>2} "
        f"{rng.randrange(24):02}:{rng.randrange(60):02} src/{name()}/{name()}_{name()}.py\n"
    )


@text_of
def matches(rng, number, name):
    path = f"src/{NAMES[number // 6 % len(NAMES)]}/{NAMES[number // 9 % len(NAMES)]}.py"
    return f"{path}:{rng.randrange(900)}:    {name()} = {name()}.{name()}({name()})\n"


@text_of
def tests(rng, number, name):
    outcome = "FAILED" if rng.random() < 0.03 else "PASSED"
    path = f"tests/test_{NAMES[number // 8 % len(NAMES)]}.py"
    return f"{path}::test_a_{name()}_{name()}_{name()} {outcome} [{number % 100:>3}%]\n"


@text_of
def build(rng, number, name):
    if rng.random() < 0.1:
        return f"warning: unused variable: `{name()}` in src/{name()}.rs:{rng.randrange(300)}\n"
    return f"   Compiling {name()}-{name()} v1.{number % 30}.0 (/home/bob/src/{name()})\n"


def tool_input(rng, tool, number):
    """What a tool is asked: a command, a path, or a text to write."""
    if tool == "write":
        byte_length = int(min(50_000, rng.lognormvariate(8.0, 1.0)))
        return {"path": f"src/{word(rng)}.py", "content": source_code(rng, byte_length)}
    if tool == "sh":
        return {"command": f"{word(rng)} {word(rng)} --{word(rng)} {number}", "timeout": 120}
    return {"path": f"src/{word(rng)}/{word(rng)}.py", "offset": number}


def tool_result(rng):
    """A tool's name and what it gave: mostly small, some large, as in a day of real work."""
    byte_length = int(min(200_000, rng.lognormvariate(8.0, 1.5)))  # 9.2 kB on average
    tool, make = rng.choice(
        (
            ("read", source_code),
            ("read", source_code),
            ("sh", log),
            ("sh", listing),
            ("sh", tests),
            ("sh", build),
            ("grep", matches),
            ("fetch", rows),
            ("write", listing),
        )
    )
    text = make(rng, byte_length)
    if rng.random() < 0.1:  # digests, identifiers, encoded data
        text += f"\n{rng.randbytes(rng.randrange(16, 1500)).hex()}\n"
    return tool, text
