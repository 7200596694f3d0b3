"""Packs made to hurt: each is refused with its reason, in a child with little memory and time."""

import os
import resource
import subprocess
import sys

import pytest

from yarp.reduce.rules.load import compile_rules, load_pack
from yarp.reduce.rules.match import select

HEAD = '[[rules]]\nid = "a"\nprograms = ["p"]\n'
REDUCE = HEAD + 'family = "list"\n'
EXAMPLE = REDUCE + '[[rules.examples]]\ncommand = ["p"]\nkeep = ["x"]\n'


def words(count):
    return "".join(f'"w{n}",' for n in range(count))


TEXTS = {
    "an unknown action": (HEAD + 'action = "exec"', "action must be one of"),
    "a key twice": (HEAD + 'id = "b"', "Cannot overwrite a value"),
    "a table twice": ("[rules]\n[rules]\n", "twice"),
    "a key of the format's future": (REDUCE + 'pattern = "(a+)+$"', "pattern is no key"),
    "a number for a name": ('[[rules]]\nid = 5\nprograms = ["p"]', "id must be of type str"),
    "a word for a list": (REDUCE + 'guards = "--json"', "guards must be of type list"),
    "a list of numbers": (REDUCE + "guards = [1]", "guards must be a list of words"),
    "an empty word": (REDUCE + 'guards = [""]', "guards must be a list of words"),
    "a word for a number": (REDUCE + 'success_bytes = "9"', "must be of type int"),
    "a truth for a number": (REDUCE + "success_bytes = true", "must be of type int"),
    "a budget of nothing": (REDUCE + "success_bytes = -1", "must be from"),
    "a budget without end": (REDUCE + "success_bytes = 99999999999", "must be from"),
    "a table for rules": ("[rules]\nid = 'a'", "rules must be of type list"),
    "words for rules": ('rules = ["a"]', "must be an array of tables"),
    "a number for examples": (REDUCE + "examples = 3", "examples must be of type list"),
    "no program": ('[[rules]]\nid = "a"\nprograms = []\naction = "pass"', "names without a path"),
    "a path for a program": (REDUCE.replace('"p"', '"/bin/p"'), "names without a path"),
    "an unknown family": (HEAD + 'family = "magic"', "family must be one of"),
    "an id with a path": (REDUCE.replace('"a"', '"../a"'), "id must be of"),
    "an input above the pack": (EXAMPLE + 'stdout = "../../etc/passwd"', "a path below the pack"),
    "an input from the root": (EXAMPLE + 'stdout = "/etc/passwd"', "a path below the pack"),
    "an input with a NUL": (EXAMPLE + 'stdout = "a\\u0000b"', "cannot be read"),
    "deep nesting": ("x = " + "[" * 20000, "nested too deeply"),
    "deep tables": ("x = " + "{a = " * 20000, "nested too deeply"),
    # The parser's memory grows with the square of a key's parts.
    "a key of many parts": ("a." * 250000 + "x = 1", "a key has too many parts"),
    "a table of many parts": ("[" + "a." * 250000 + "x]", "a key has too many parts"),
    "a hidden key of many parts": (
        'x = { "a\\"#" = ".", y' + ".a" * 250000 + " = 1 }", "a key has too many parts",
    ),
    "a text over many lines": ('x = """\n' + "a." * 250000 + '\n"""', "several lines"),
    "a number of many digits": ("x = " + "9" * 500000, "limit"),
    "no TOML": ("\x00\x01{{{", "x.toml"),
    "many words": (REDUCE + f"guards = [{words(600)}]", "512 at most"),
    "many programs": (f'[[rules]]\nid = "a"\nprograms = [{words(65)}]\naction = "pass"', "64 at most"),
    "many rules": (
        "".join(f'[[rules]]\nid = "r{n}"\nprograms = ["p"]\naction = "pass"\n' for n in range(1200)),
        "1000 in a pack at most",
    ),
    "much in all": (
        "".join(
            f'[[rules]]\nid = "r{n}"\nprograms = [{words(40)}]\naction = "pass"\nguards = [{words(200)}]\n'
            for n in range(20)
        ),
        "more than 100000 options",
    ),
}  # fmt: skip
LOAD = (
    "import sys\n"
    "from yarp.errors import ConfigError\n"
    "from yarp.reduce.rules.load import load_pack\n"
    "for folder in sys.argv[1:]:\n"
    "    try:\n"
    "        load_pack(folder, 'x')\n"
    "        print('loaded')\n"
    "    except ConfigError as error:\n"
    "        print(str(error).replace('\\n', ' '))\n"
)


def loaded(*folders):
    """What becomes of packs, in a child of 512 MiB that is killed after a minute."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, folders)],
        capture_output=True, text=True, check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20)),
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """For each of the texts, what is said."""
    root = tmp_path_factory.mktemp("packs")
    folders = []
    for number, (text, _) in enumerate(TEXTS.values()):
        folders.append(root / str(number))
        folders[-1].mkdir()
        (folders[-1] / "x.toml").write_text(text)
    return dict(zip(TEXTS, loaded(*folders), strict=False))


@pytest.mark.parametrize("kind", TEXTS)
def test_a_hostile_text_is_refused_with_its_reason(refused, kind):
    assert TEXTS[kind][1] in refused[kind]


def test_hostile_files_are_refused_with_their_reason(tmp_path):
    def folder(name):
        (tmp_path / name).mkdir()
        return tmp_path / name

    (folder("latin") / "x.toml").write_bytes(b'id = "\xfc"')
    (folder("utf-16") / "x.toml").write_bytes("x = 1".encode("utf-16"))
    with (folder("large") / "x.toml").open("wb") as file:
        file.truncate(100 << 20)
    (tmp_path / "outside.toml").write_text(REDUCE)
    (folder("link") / "x.toml").symlink_to(tmp_path / "outside.toml")
    (folder("device") / "x.toml").symlink_to("/dev/zero")
    (folder("circle") / "x.toml").symlink_to("x.toml")
    os.mkfifo(folder("pipe") / "x.toml")
    (folder("folder") / "x.toml").mkdir()
    for number in range(10_000 if folder("crowd") else 0):
        (tmp_path / "crowd" / f"{number}.toml").touch()
    (folder("input") / "x.toml").write_text(EXAMPLE + 'stdout = "big"')
    with (tmp_path / "input" / "big").open("wb") as file:
        file.truncate(100 << 20)
    (folder("inputs") / "x.toml").write_text(
        REDUCE + '[[rules.examples]]\ncommand = ["p"]\nkeep = ["x"]\nstdout = "big"\n' * 40
    )
    with (tmp_path / "inputs" / "big").open("wb") as file:
        file.truncate(4 << 20)
    for number in range(3):
        path = folder("heavy") if not number else tmp_path / "heavy"
        (path / f"{number}.toml").write_text("# \n" * 300_000)
    (tmp_path / "file").write_text("")
    expected = {
        "latin": "can't decode", "utf-16": "can't decode", "large": "1048576 at most",
        "link": "leads out of the pack", "device": "leads out of the pack", "circle": "cannot be read",
        "pipe": "no regular file", "folder": "Is a directory", "crowd": "256 in a pack at most",
        "input": "4194304 at most", "inputs": "more than 64 MiB", "heavy": "more than 2 MiB",
        "file": "cannot be read", "nowhere": "cannot be read",
    }  # fmt: skip
    said = loaded(*(tmp_path / name for name in expected))
    assert len(said) == len(expected)
    for reason, text in zip(expected.values(), said, strict=True):
        assert reason in text


def test_conflicts_of_many_rules_are_told_in_few_sentences(tmp_path):
    text = "".join(
        f'[[rules]]\nid = "r{n}"\nprograms = ["p"]\nfamily = "list"\n' for n in range(900)
    )
    (tmp_path / "x.toml").write_text(text)
    rules = compile_rules([load_pack(str(tmp_path), "x")])
    assert len(rules["problems"]) < 1000
    assert select(["p"], rules) is None


def test_what_looks_like_a_pattern_is_a_word(tmp_path):
    (tmp_path / "x.toml").write_text(REDUCE + 'guards = ["(a+)+$"]\nprefix = ["(a|a)*"]')
    rules = compile_rules([load_pack(str(tmp_path), "x")])
    assert select(["p", "a" * 100_000 + "!"], rules) is None
    assert select(["p", "(a", "b"], rules).rule == "a"
    assert select(["p", "(a", "(a+)+$"], rules) is None
