"""The one parser of shell text: what it says, and that nothing makes it run, hang or guess."""

import os
import random
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarp.capture import wrap
from yarp.reduce.plan import plain_argv, plan
from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.shell.parse import MAX_BYTES, MAX_DEPTH, parse
from yarp.shell.syntax import Command, Group, Opaque

RULES = compile_rules([builtin_pack()])
REAL = [
    'cd x && FOO=1 BAR="a b" pytest -q "tests/$X" src/*.py 2>&1 | tail -50',
    "cat > f <<'EOF' && pytest\nhi $x\nEOF\ngit status",
    'for f in *.py; do pytest $f; done; echo "exit: ${PIPESTATUS[0]}"',
    "git commit -m \"$(cat <<'EOF'\nhi\nEOF\n)\" && git status",
    "find . \\( -name a -o -name b \\) -print | xargs -0 grep -n 'x y' | sort -u",
    "bash -lc 'set -o pipefail; (cd a; ls) |& tee out | head -3' || true",
    "if [ -f a ]; then grep -rn foo .; else ls; fi > /dev/null 2>&1 &",
    "n=$(grep -c foo f); diff <(ls a) <(ls b); echo $((n+1)) `date` ${n:-0}",
]
PIECES = [*"ab$`\"'()<>|&;#\n \t\\*?[]{}~!=-/0%@:,.+^é😀", "<<", "$(", "&&", "||", "EOF", "ls "]
SHELL_TEXT = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def shown(chains):
    """A text as its structure: words, redirects, operators."""
    if chains is None:
        return None
    return " ; ".join(
        "".join(
            f" {one.join} " * bool(one.join)
            + "!" * one.negated
            + " | ".join(map(part_shown, one.stages))
            for one in chain.pipelines
        )
        + " &" * chain.background
        for chain in chains
    )


def part_shown(part):
    if isinstance(part, Opaque):
        body = part.kind
    elif isinstance(part, Group):
        body = ("({})" if part.subshell else "{{{}}}").format(shown(part.body))
    else:
        body = " ".join([*part.assigns, *map(word_shown, part.words)])
    return body + "".join(
        f" [{'' if r.fd is None else r.fd}{r.operator} {word_shown(r.target)}]".replace(" ]", "]")
        for r in part.redirects
    )


def word_shown(word):
    return (
        word.literal
        if word.literal is not None
        else "".join(f"<{k} {t}>" if k != "text" else t for k, t in word.parts)
    )


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        # The grammar puts the redirect and the pipe around the whole list; a shell does not.
        ("a && b 2>&1 | c", "a && b [2>& 1] | c"),
        ("a || b && c | d", "a || b && c | d"),
        ("a; b > f", "a ; b [> f]"),
        ("a &&\n b |\n c\n\n# hi\n d", "a && b | c ; d"),
        ("! a | b", "!a | b"),
        ("a & b", "a & ; b"),
        ("(a; b) 2>/dev/null | c", "(a ; b) [2> /dev/null] | c"),
        ("{ a; b; } > f", "{a ; b} [> f]"),
        ("A=1 B=2 a b", "A=1 B=2 a b"),
        ("cat > f <<EOF && b\nhi\nEOF\nc", "cat [> f] [<<] && b ; c"),
        ("cat <<'EOF' | b > y\nhi $x\nEOF\nc", "cat [<<] | b [> y] ; c"),
        ("python - <<'EOF' && b\nhi\nEOF\n", "python - [<<] && b"),
        ("> f a b", "a b [> f]"),
        ("1>&2 a", "a [1>& 2]"),
        ("a &> f; b >| f; c 2>> f", "a [&> f] ; b [>| f] ; c [2>> f]"),
        ("a \\\n  b", "a b"),
        ("a 'x y' \"p $q\" r\\ s $'t\\n'", "a x y p <value $q> r s t\n"),
        ('a $x "$x" *.py ~/y', "a <words $x> <value $x> <glob *.py> <glob ~/y>"),
        ('a "  $x  $y "', "a   <value $x>  <value $y> "),
        ("if a; then b; fi; c", "if_statement ; c"),
        ("f() { a; }", "function_definition"),
        ("export A=b C", "export <value A=b> C"),
        ("[ -f a ] && [[ -f b ]] && c", "[ && [[ && c"),
    ],
)
def test_operators_bind_as_in_the_shell(text, structure):
    assert shown(parse(text)) == structure


@pytest.mark.parametrize(
    "text",
    ["", "  \n", "a )", "(a", "a 'b", 'a "b', "a; ; b", "a && ", "a |", "a \0 b", "\ud800", "a > f b c",
     "a >(b)", "a " * MAX_BYTES, "(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1)],
    ids=lambda text: ascii(text[:12]),
)  # fmt: skip
def test_a_text_that_is_not_understood_whole_is_none(text):
    assert parse(text) is None


@settings(max_examples=300, deadline=None)
@given(SHELL_TEXT)
def test_no_text_raises_or_is_changed(text):
    parse(text)
    plan("pytest " + text, RULES)
    assert shlex.split(wrap(text, ("yarp",), "/bin/sh", ("a", "b", "c", "d")))[-1] == text


def mutated(rng, text):
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randint(0, 8))
        other = rng.choice(REAL)
        start = rng.randrange(len(other))
        text = rng.choice(
            [
                text[:at] + text[end:],
                text[:end] + text[at:],
                text[:at] + rng.choice("$`\"'()<>|&;#\n\\*{}!=") + text[at:],
                text[:at] + other[start : start + 12] + text[at:],
            ]
        )
    return text


def test_real_commands_with_faults_never_raise():
    rng = random.Random(11)
    understood = 0
    for _ in range(1500):
        text = mutated(rng, rng.choice(REAL))
        understood += parse(text) is not None
        plan(text, RULES)
    assert understood > 100


HOSTILE = {
    "pipes": "a|" * 130000,
    "assignments": "a=(" * 80000,
    "parentheses": "(" * 250000,
    "substitutions": "$(" * 120000,
    "quotes": '"' * 250000,
    "heredocs": "<<A " * 60000,
    "many heredocs": "".join(f"cat <<{'A' * 200}{n}\n" for n in range(1000)),
    "a long delimiter": "cat <<" + "A" * 250000 + "\nx",
    "expansions in a heredoc": "cat <<A\n" + '"$y" `q` $(z) ${x}\n' * 12000 + "A\n",
    "brackets": "[[ a && " * 30000,
    "cases": "case a in b) " * 20000,
    "braces": "{ " * 120000,
    "mixed": "[$(\"'`${<<(" * 22000,
    "words": "pytest " + "a " * 120000,
    "chains": "pytest;" * 36000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_neither_hangs_nor_crashes(name):
    code = "import sys; from yarp.shell.parse import parse; parse(sys.stdin.read()); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code], input=HOSTILE[name], capture_output=True, text=True,
        timeout=20, check=False,
    )  # fmt: skip
    assert done.stdout == "alive\n"


FUZZ = """
import random, sys
sys.path.insert(0, sys.argv[1])
from test_parse import HOSTILE, PIECES, REAL, RULES, mutated, plan
from yarp.capture import rewrite
from yarp.settings import Settings

rng = random.Random(int(sys.argv[2]))
texts = list(HOSTILE.values())
texts += ["pytest; " + text[:200_000] for text in HOSTILE.values()]
texts += [mutated(rng, rng.choice(REAL)) for _ in range(400)]
texts += ["pytest " + "".join(rng.choices(PIECES, k=rng.randint(1, 60))) for _ in range(800)]
texts += ["bash -c '" + "".join(rng.choices(PIECES, k=20)) + "'" for _ in range(200)]
for text in texts:
    print(ascii(text[:60]), flush=True)
    planned = plan(text, RULES)
    after = rewrite(text, planned, Settings(), ("yarp",), "/bin/sh", call=None)
    assert after is None or text.replace("'", "'\\\\''") in after or text in after, text
print("all")
"""


def test_no_text_hangs_the_planner_or_ends_it():
    """A child does it all, killed when it takes too long: the last line names the text."""
    folder = __file__.rpartition("/")[0]
    child = subprocess.Popen(
        [sys.executable, "-c", FUZZ, folder, "23"], stdout=subprocess.PIPE, text=True
    )
    watch = threading.Timer(60, child.kill)
    watch.start()
    try:
        lines = child.stdout.read().splitlines()
    finally:
        watch.cancel()
        child.stdout.close()
        child.wait()
    assert lines[-1] == "all"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_shell_hands_a_wrapped_text_on_byte_for_byte(tmp_path):
    record = tmp_path / "record"
    record.write_text('#!/bin/sh\nfor last; do :; done\nprintf "%s\\0" "$last" >> "$OUT"\n')
    record.chmod(0o755)
    rng = random.Random(7)
    texts = [
        *REAL,
        "a\\\n b",
        "é😀\u202e",
        "'",
        "''\"'",
        "a\tb\r\n",
        "!!",
        "~root",
        "-n",
        "$(touch no)",
    ]
    texts += ["".join(rng.choices(PIECES, k=rng.randint(1, 40))) for _ in range(150)]
    texts = [text for text in texts if text]
    out = tmp_path / "out"
    for shell in ("/bin/sh", "bash"):
        script = "\n".join(wrap(text, (str(record),), "/bin/sh", None) for text in texts)
        env = {"OUT": str(out), "PATH": os.environ["PATH"]}
        subprocess.run([shell, "-c", script], env=env, cwd=tmp_path, check=True, timeout=60)
        assert out.read_bytes().decode().split("\0")[:-1] == texts
        out.unlink()
    assert not (tmp_path / "no").exists()


def test_the_grammar_is_loaded_without_what_reads_its_queries():
    code = "import sys; from yarp.shell.parse import parse; parse('a | b'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tree_sitter" in done.stdout.split()
    assert "importlib.resources" not in done.stdout.split()


def test_planning_starts_nothing_and_opens_nothing(tmp_path):
    """Held by the interpreter's own audit of what this process does."""
    code = textwrap.dedent("""
        import random, sys
        sys.path.insert(0, sys.argv[1])
        import test_parse
        test_parse.plan("pytest | tail -5; echo hi", test_parse.RULES)
        seen = []
        watched = ("open", "os.", "subprocess.", "socket.", "shutil.", "ctypes.")
        sys.addaudithook(lambda event, _: event.startswith(watched) and seen.append(event))
        rng = random.Random(5)
        canary = "touch canary; $(touch canary) `touch canary` | pytest > canary && . ./canary"
        for text in [canary, *test_parse.REAL]:
            test_parse.plan(text, test_parse.RULES)
            for _ in range(60):
                test_parse.plan(test_parse.mutated(rng, text), test_parse.RULES)
        print(seen)
    """)
    folder = __file__.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", code, folder],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []


@given(st.text(alphabet="abz09-_./=%@'\"\\ \t", max_size=24))
def test_the_short_way_and_the_grammar_read_the_same_words(text):
    argv = plain_argv("w " + text)
    if argv is None:
        return
    chains = parse("w " + text)
    if chains is None:
        return  # the grammar knows no word that begins with an escaped blank
    (stage,) = chains[0].pipelines[0].stages
    assert isinstance(stage, Command)
    assert [word.literal for word in stage.words] == argv


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_reads_the_same_words():
    rng = random.Random(3)
    texts = []
    while len(texts) < 1500:
        text = "w " + "".join(rng.choices("ab1-_./=%@:+,^'\"\\ \t#!$é", k=rng.randint(1, 14)))
        chains = parse(text)
        if chains is None or len(chains) != 1:
            continue
        stage = chains[0].pipelines[0].stages[0]
        words = [word.literal for word in stage.words]
        if None not in words and not stage.assigns:
            texts.append((text, words))
    script = 'w() { printf \'%s\\0\' "$#" "$@"; }\n' + "".join(f"{text}\n" for text, _ in texts)
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    got = iter(done.stdout.decode().split("\0"))
    for text, words in texts:
        assert [next(got) for _ in range(int(next(got)))] == words[1:], text
