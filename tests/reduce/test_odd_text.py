"""Bytes that programs print and nobody expects, in every rule's own examples and alone.

No crash, valid UTF-8, no control character, and the same summary however the bytes arrive.
"""

import re

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import select
from yarp.settings import Settings

PACK = builtin_pack()
RULES = compile_rules([PACK])
ODD = {
    "ansi": b"\x1b[1;31mred\x1b[0m \x1b]8;;https://x\x07link\x1b]8;;\x07 \x1b[2K\x1b[1Gup\n",
    "an open ansi": b"\x1b[31",
    "progress": b"10%\r20%\r\r100% done\r\n",
    "spinner": b"|\x08/\x08-\x08\\\x08done\n",
    "cjk": "エラー: 見つかりません 错误:找不到 오류\n".encode(),
    "emoji": "👩‍👩‍👧‍👦 ✅ 3 passed 🚀\u200d\ufe0f\n".encode(),
    "rtl": "שגיאה \u202eabc\u202c خطأ 12\n".encode(),
    "combining": "e\u0301\u0323 a\u0308\n".encode(),
    "crlf": b"one\r\ntwo\r\n\r\n",
    "nul": b"a\0b\0\0\n\0",
    "lone": b"\x80\xbf\xc3 \xe4\xb8 \xf0\x9f\x98 \xff\xfe\n",
    "latin-1": "Datei nicht gefunden: übel\n".encode("latin-1"),
    "utf-16": "error: x\n".encode("utf-16"),
    "separators": "a\u2028b\u2029c\x0bd\x0ce\x85\n".encode(),
    "controls": bytes(range(32)) + b"\x7f\n",
    "no newline": "最後の行".encode(),
}
EXAMPLES = [
    (rule.id, at, example)
    for rule in PACK.rules
    for at, example in enumerate(rule.examples)
    if not example.guard and rule.action == "reduce"
]


def summarised(argv, streams, code, size):
    selection = select(list(argv), RULES)
    reduction = Reduction(selection, Settings())
    for number, data in enumerate(streams):
        for at in range(0, len(data), size):
            reduction.feed(number, data[at : at + size])
    return reduction.finish(Status(code), Recovery("yr_" + "0" * 32))


def check(argv, streams, code):
    found = summarised(argv, streams, code, 1 << 20)
    again = summarised(argv, streams, code, 997)
    assert (found.changed, found.stdout, found.stderr) == (
        again.changed,
        again.stdout,
        again.stderr,
    )
    assert found.fault is None
    if found.changed:
        text = (found.stdout + found.stderr).decode()
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
        assert len(text.encode()) < sum(map(len, streams))


@pytest.mark.parametrize("rule", sorted({identifier for identifier, _, _ in EXAMPLES}))
def test_odd_bytes_in_what_a_rule_knows(rule):
    """Between the lines of the rule's examples: all kinds at once, and its lines with CRLF."""
    odd = b"".join(data if data.endswith(b"\n") else data + b"\n" for data in ODD.values())
    example = next(example for identifier, _, example in EXAMPLES if identifier == rule)
    streams = [example.stdout or b"", example.stderr or b""]
    mixed = []
    for data in streams:
        half = data.find(b"\n", len(data) // 2) + 1
        mixed.append(odd + data[:half] + odd + data[half:] + odd if data else b"")
    check(example.command, mixed, example.exit_status)
    check(example.command, [data.replace(b"\n", b"\r\n") for data in streams], example.exit_status)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "argv",
    [("pytest",), ("git", "status"), ("git", "diff"), ("git", "log"), ("rg", "-n", "x"), ("ls", "-l"),
     ("gcc", "-c", "x.c"), ("cat", "x.log"), ("cat", "x.json"), ("docker", "ps"), ("npm", "ci"),
     ("git", "blame", "f")],
    ids=" ".join,
)  # fmt: skip
def test_nothing_but_odd_bytes(argv, kind):
    data = ODD[kind] * (6000 // len(ODD[kind]) + 1)
    for code in (0, 1):
        check(argv, [data, b""], code)
        check(argv, [b"", data], code)


@pytest.mark.parametrize("argv", [("pytest",), ("cargo", "test"), ("go", "test"), ("jest",)])
def test_a_run_in_no_known_language_has_no_count(argv):
    lines = "".join(f"検査 {n} 番目は成功しました 12 秒\n" for n in range(400)).encode()
    for code in (0, 1):
        found = summarised(argv, [lines, b""], code, 1 << 20)
        assert not re.search(rb"\d+ (?:passed|failed|tests?|errors?)\b", found.stdout)
        assert b"no tests" not in found.stdout.lower()
