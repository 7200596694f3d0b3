import marshal

import pytest

from yarp.errors import ConfigError
from yarp.reduce.rules.examples import failures
from yarp.reduce.rules.load import builtin_pack, compile_rules, load_pack, problems
from yarp.reduce.rules.match import select

RULE = """
[[rules]]
id = "acme-list"
programs = ["acme"]
prefix = ["list|ls"]
family = "list"
guards = ["--json", "-f", "--output=wide"]
values = ["-n", "--filter"]
success_bytes = 600

[[rules.examples]]
command = ["acme", "list"]
stdout = "out/long.txt"
keep = ["item-7"]
recorded = false

[[rules.examples]]
command = ["acme", "list", "--json"]
guard = true
"""


def pack(tmp_path, text, name="mine"):
    directory = tmp_path / name
    (directory / "out").mkdir(parents=True, exist_ok=True)
    (directory / "acme.toml").write_text(text)
    (directory / "out" / "long.txt").write_text("".join(f"item-{n}\n" for n in range(900)))
    return load_pack(str(directory), name)


def test_a_pack_of_ones_own_is_checked_and_selected(tmp_path):
    mine = pack(tmp_path, RULE)
    assert problems(mine) == []
    rules = marshal.loads(marshal.dumps(compile_rules([builtin_pack(), mine])))
    assert rules["problems"] == ()
    selection = select(["acme", "ls"], rules)
    assert (selection.pack, selection.rule, selection.options) == (
        "mine",
        "acme-list",
        {"success_bytes": 600},
    )
    (problem,) = failures(mine, rules)
    assert "loses ['item-7']" in problem  # the numbers became one range


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        ("list", True),
        ("list -nfoo", True),
        ("list -n -f", True),
        ("list --filter --json", True),
        ("list --filter=--json", True),
        ("list --output wide2", True),
        ("list --output=json", True),
        ("list -- --json", True),
        ("list -f", False),
        ("list -vf", False),
        ("list -vfn x", False),
        ("list --js", False),
        ("list --json=true", False),
        ("list --output=wide", False),
        ("list --output wide", False),
        ("list --outp=wide", False),
        ("show", False),
    ],
)
def test_guards_read_options_as_programs_do(tmp_path, words, selected):
    rules = compile_rules([pack(tmp_path, RULE)])
    assert (select(["acme", *words.split()], rules) is not None) is selected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "acme-list"', 'id = "Acme"', "id must be"),
        ('family = "list"', 'family = "poem"', "family must be one of"),
        ('family = "list"', "", "family belongs to"),
        ('family = "list"', 'family = "list"\naction = "eat"', "action must be"),
        ("success_bytes = 600", "success_bytes = 6", "success_bytes must be from"),
        ("success_bytes = 600", "success_bytes = true", "must be of type int"),
        ("success_bytes = 600", "budget = 600", "budget is no key"),
        ('programs = ["acme"]', 'programs = ["bin/acme"]', "without a path"),
        ('programs = ["acme"]', "", "programs is missing"),
        ('guards = ["--json"', "guards = [1", "list of words"),
        ("out/long.txt", "out/none.txt", "cannot be read"),
        ("out/long.txt", "../mine/out/long.txt", "below the pack"),
        ('keep = ["item-7"]', "", "facts to keep"),
        ("[[rules]]", "[[rules", "line 2"),
        ("[[rules]]", "[[rule]]", "rules must be of type list"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message) as caught:
        pack(tmp_path, RULE.replace(old, new, 1))
    assert "acme.toml" in str(caught.value)


def test_a_directory_that_is_not_there_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_pack(str(tmp_path / "none"), "mine")


def test_two_rules_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="two rules are called acme-list"):
        pack(tmp_path, RULE + RULE)


def test_a_conflict_disables_both_rules_and_says_so(tmp_path):
    mine = pack(tmp_path, RULE)
    theirs = pack(tmp_path, RULE.replace('prefix = ["list|ls"]', ""), "theirs")
    rules = compile_rules([builtin_pack(), mine, theirs])
    assert select(["acme", "list"], rules) is None
    (note,) = rules["problems"]
    assert "mine/acme-list" in note
    assert "theirs/acme-list" in note
    assert select(["git", "status"], rules) is not None


def test_rules_that_an_option_keeps_apart_do_not_conflict(tmp_path):
    other = RULE.replace("acme-list", "acme-short").replace(
        'guards = ["--json", ', 'required = ["--short"]\nguards = ["--json", '
    )
    both = pack(tmp_path, RULE.replace('"--json", "-f"', '"--json", "--short", "-f"') + other)
    rules = compile_rules([both])
    assert rules["problems"] == ()
    assert select(["acme", "list"], rules).rule == "acme-list"
    assert select(["acme", "list", "--short"], rules).rule == "acme-short"
    assert select(["acme", "list", "--short", "--json"], rules) is None


def test_of_alternatives_that_a_rule_requires_one_is_enough(tmp_path):
    other = RULE.replace("acme-list", "acme-short").replace(
        'guards = ["--json", ', 'required = ["--short|--brief"]\nguards = ["--json", '
    )
    guarded = RULE.replace('"--json", "-f"', '"--json", "--short", "--brief", "-f"')
    rules = compile_rules([pack(tmp_path, guarded + other)])
    assert rules["problems"] == ()
    assert select(["acme", "list"], rules).rule == "acme-list"
    assert select(["acme", "list", "--brief"], rules).rule == "acme-short"
    assert select(["acme", "list", "--short"], rules).rule == "acme-short"
    half = guarded.replace('"--brief", ', "")
    assert compile_rules([pack(tmp_path, half + other, "half")])["problems"] != ()


def test_a_pass_rule_guards_what_others_reduce(tmp_path):
    guard = (
        '[[rules]]\nid = "no-status"\nprograms = ["git"]\nprefix = ["status"]\naction = "pass"\n'
    )
    rules = compile_rules([builtin_pack(), pack(tmp_path, guard)])
    assert rules["problems"] == ()
    assert select(["git", "status"], rules) is None
    assert select(["git", "branch"], rules) is not None


def test_a_rule_without_examples_is_a_problem(tmp_path):
    bare = pack(tmp_path, RULE.partition("[[rules.examples]]")[0])
    assert problems(bare) == [
        "mine/acme-list: no example that is shortened",
        "mine/acme-list: no guard example that stays exact",
    ]
