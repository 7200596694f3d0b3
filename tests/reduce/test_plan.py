"""What is seen in command texts as agents write them."""

import pytest

from yarp.reduce.plan import plan, plan_argv
from yarp.reduce.rules.load import builtin_pack, compile_rules

RULES = compile_rules([builtin_pack()])


def said(line):
    text = b"<>".join(line.texts).decode()
    return text + ("?" if line.status else "") + ("~" if line.optional else "")


def described(found):
    """A plan in one line: lines before, rule, what a filter left, lines after; the status."""
    if found.selection is None:
        return "recovery" if found.recovery else "exact"
    if found.shape is None:
        parts = [found.selection.rule]
    else:
        parts = []
        for segment in found.shape.segments:
            words = [f"'{said(line)}'" for line in segment.before]
            words.append(segment.selection.rule if segment.selection else "whole")
            if segment.note:
                words.append(f"({segment.note.decode().strip(':')})")
            words += [f"'{said(line)}'" for line in segment.after]
            parts.append(" ".join(words))
    text = " / ".join(parts)
    return text if found.confidence == "complete" else f"{text}; {found.confidence}"


TABLE = [
    # One command, and what stands around it.
    ("pytest", "pytest"),
    ("cd x && pytest -q", "pytest"),
    ('cd "$DIR" && pytest', "pytest"),
    ("cd /a/b && git status", "git-status"),
    ("cd a; cd b; ls", "ls"),
    ("cd x || exit 1; pytest", "pytest"),
    ("VAR=1 pytest", "pytest"),
    ('CI=1 FOO="a b" pytest', "pytest"),
    ("env A=B pytest tests", "pytest"),
    ("timeout 60 pytest", "pytest"),
    ("timeout -k 5 60 pytest -x", "pytest"),
    ("time pytest -q", "pytest"),
    ("nice -n 10 pytest", "pytest"),
    ("sudo -n git status", "git-status"),
    ("sudo sh -c 'cd /x && ls -la'", "ls"),
    ("sudo -i", "exact"),
    ("sudo -u www env A=1 git status", "git-status"),
    ("nice pytest", "pytest"),
    ("ionice -c3 nice -n 19 pytest", "pytest"),
    ("stdbuf -oL pytest", "pytest"),
    ("nohup pytest", "pytest"),
    ("git -C dir log", "git-log"),
    ("git -C dir --no-pager diff", "git-diff"),
    ("git --no-pager diff", "git-diff"),
    ("GIT_PAGER=cat git log", "git-log"),
    ("coverage run --branch -m pytest", "pytest"),
    ("conda run -n e pytest", "pytest"),
    ("xvfb-run -a pytest", "pytest"),
    ("docker exec -it c bash -lc 'cd /app && pytest'", "pytest"),
    ("docker compose exec -T web pytest", "pytest"),
    ("kubectl exec -n ns pod -- ls -la", "ls"),
    ("docker exec c", "exact"),
    ("docker exec -d c pytest", "exact"),
    ("time -p git status", "git-status"),
    ("/usr/bin/time -v pytest", "exact"),
    ("command -v pytest", "exact"),
    ("$HOME/.venv/bin/pytest", "pytest"),
    ("~/x/bin/pytest -q", "pytest"),
    ("~/*/bin/pytest", "exact"),
    # A pattern as an option's value is no other option, whatever it expands to.
    ("grep -rn x --include=*.py src", "grep"),
    ("grep -rn x --include=*.{ts,tsx} src", "grep"),
    ("grep -rn x --in* src", "exact"),
    ("command ls -la", "ls"),
    ("exec pytest", "pytest"),
    ("/usr/bin/git diff", "git-diff"),
    (".venv/bin/python -m pytest -q", "pytest"),
    ("python -m pytest -q 'tests/a b.py'", "pytest"),
    ("python3.12 -m unittest -v", "unittest"),
    ("uv run pytest -q", "pytest"),
    ("uv run --frozen python -m pytest", "pytest"),
    ("poetry run pytest", "pytest"),
    ("npx jest --ci", "jest"),
    ("source .venv/bin/activate && pytest", "pytest"),
    (". venv/bin/activate; python -m unittest -v", "unittest"),
    ("export FOO=1; pytest", "pytest"),
    ("mkdir -p x && cd x && git status", "git-status"),
    ("rm -rf build && cargo test", "cargo-test"),
    ("git add -A && git status", "git-status"),
    ("sleep 5; git status", "git-status"),
    ("test -d x && pytest", "pytest"),
    ("[ -f a ] && pytest", "pytest"),
    ("{ pytest; } 2>&1", "pytest"),
    ("(cd web && git status)", "git-status"),
    ("pytest  # only these", "pytest"),
    ("# all of them\npytest", "pytest"),
    ("cd x\npytest", "pytest"),
    ("cd x \\\n  && pytest \\\n  -q", "pytest"),
    ("pytest <<< x", "pytest"),
    ("pytest < input.txt", "pytest"),
    ("yes | pytest", "pytest; final"),
    ("npm ci > /dev/null 2>&1 && pytest", "pytest"),
    ("npm ci > /dev/null && pytest", "pytest"),
    # Shells inside.
    ("bash -lc 'pytest -q'", "pytest"),
    ("sh -c 'ls -la src'", "ls"),
    ("/bin/bash -lc \"rg -n 'foo bar' src | head -40\"", "rg (of the first 40 lines); final"),
    ("timeout 600 bash -c 'cd x && pytest'", "pytest"),
    ("bash -c 'bash -c pytest'", "pytest"),
    ("bash -euo pipefail -c 'pytest | tail -5'", "pytest (of the last 5 lines)"),
    ("bash -eu -o pipefail -c 'cd x; pytest; rm y'", "pytest"),
    ("bash -x -c pytest", "exact"),
    ("bash -c pytest x", "exact"),
    ("bash <<EOF\npytest\nEOF", "exact"),
    ("exec > log; pytest", "exact"),
    ('bash -c "$TEXT"', "exact"),
    ("bash test.sh pytest", "exact"),
    # Words.
    ("ls -la *.py", "ls"),
    ("ls ~/x", "ls"),
    ("ls {a,b}", "exact"),
    ("ls src/{a,b}", "ls"),
    ("ls $OPTS", "exact"),
    ("ls --sort={size,time}", "exact"),
    ('pytest "$@"', "exact"),
    ('pytest "tests/$X"', "pytest"),
    ("pytest tests/$X", "exact"),
    ('rg -n "$PATTERN" src', "exact"),
    ('rg -n foo "$HOME/x"', "rg"),
    ('git -C "$HOME/repo" status', "git-status"),
    ("'git' 'status'", "git-status"),
    ('git log --since="$DAY"', "git-log"),
    ('"$PYTHON" -m pytest', "exact"),
    ("git status --porcelain && pytest > /dev/null", "exact"),
    # Filters.
    ("pytest 2>&1 | tail -50", "pytest (of the last 50 lines); final"),
    ("pytest -q | head", "pytest (of the first 10 lines); final"),
    ("pytest 2>&1 | tail -n 50", "pytest (of the last 50 lines); final"),
    ("pytest |& tail --lines=50", "pytest (of the last 50 lines); final"),
    ("cargo test 2>&1 | tee out.txt | tail -30", "cargo-test (of the last 30 lines); final"),
    ("git log --oneline -5 | cat", "git-log; final"),
    ("set -o pipefail; pytest 2>&1 | tail -20", "pytest (of the last 20 lines)"),
    ("set -euo pipefail\npytest | tail -20\nrm -f x", "pytest (of the last 20 lines)"),
    ("find . -type f | head -100", "find (of the first 100 lines); final"),
    ("find . -name '*.py' | sort", "find; final"),
    ("find . | grep -v test | sort", "find (of the lines that grep kept); final"),
    ("grep -rn foo . | sort -u", "grep (of the distinct lines); final"),
    ("rg foo | sed -n '1,80p'", "rg (of lines 1 to 80); final"),
    ("rg foo | head -50 | tail -5", "rg (of a part of the lines); final"),
    ("tail -f log | grep x", "exact"),
    ("git log | tail -20", "exact"),
    ("git diff | tail -20", "exact"),
    ("tree | tail -20", "exact"),
    ("ls | head -c 100", "exact"),
    ("ls | head -n -3", "exact"),
    ("ls | tail -n +3", "exact"),
    ("pytest | sort", "exact"),
    ("grep -rn -A3 foo . | sort", "exact"),
    ("grep -rn foo . | sort -k2", "exact"),
    ("find . | sort | uniq -c", "exact"),
    ("pytest 2>&1 | grep FAILED", "exact"),
    ("git diff | grep '^+'", "exact"),
    ("rg foo | wc -l", "exact"),
    ("rg foo | awk '{print $1}'", "exact"),
    ("rg foo | sed 's/a/b/'", "exact"),
    ("rg foo | cut -d: -f1", "exact"),
    # What a search is handed the names for; one that might leave the names out is not read.
    ("find . -name '*.py' | xargs grep -n foo", "grep; final"),
    ("find . -print0 | xargs -0 grep -nH foo", "grep; final"),
    ("git ls-files | grep -v x | xargs rg -n foo | head -40", "rg (of the first 40 lines); final"),
    ("find . -type f -exec grep -n foo {} +", "grep; final"),
    ("find . -type f -exec grep -Hn foo {} \\;", "grep; final"),
    ("find . -type f -exec grep -n foo {} \\;", "exact"),
    ("find . | xargs grep foo", "exact"),
    ("find . | xargs grep -l foo", "exact"),
    ("find . | xargs -n 1 grep -n foo", "exact"),
    ("find . | xargs -P4 grep -n foo", "exact"),
    ("find . | xargs -I{} grep -n foo {}", "exact"),
    ("find . -exec ls -l {} \\;", "exact"),
    ("find . -exec rm {} + -exec grep -n x {} +", "exact"),
    ("./names | xargs grep -n foo", "exact"),
    ("grep -rl foo . | xargs sed -i s/a/b/", "exact"),
    ("cat f | grep foo", "exact"),
    ("cat data.json | grep foo", "exact"),
    ("cat app.log | grep -i error", "cat (of the lines that grep kept); final"),
    (
        "docker logs x 2>&1 | grep -v DEBUG | tail -200",
        "container-logs (of a part of the lines); final",
    ),
    ("journalctl -u x | grep error | sort", "exact"),
    ("docker logs x | grep -A3 error", "exact"),
    ("curl -s x | jq .", "exact"),
    # What something else consumes.
    ("n=$(grep -c foo f)", "exact"),
    ("n=$(grep -rn foo .); echo $n", "exact"),
    ("git diff > p && git apply p", "exact"),
    ("git show HEAD:f > out", "exact"),
    ("pytest > /dev/null", "exact"),
    ("pytest &> out.txt", "exact"),
    ("cat > f <<EOF && pytest\n$X\nEOF\n", "pytest"),
    ("cat <<'EOF' > f\nx\nEOF\npytest", "pytest"),
    ("pytest >out 2>&1; nproc", "exact"),
    ("diff <(ls a) <(ls b)", "exact"),
    ("pytest > >(tee log)", "exact"),
    ("pytest 2>/dev/null", "pytest"),
    ("ls -la /x 2>&1", "ls"),
    # Statuses.
    ("pytest || true", "pytest; conditional"),
    ("pytest || exit 1", "pytest"),
    ("pytest || exit $?", "pytest"),
    ("pytest || (echo failed; exit 1)", "pytest 'failed~'; final"),
    ("pytest || { echo failed; }", "pytest 'failed~'; conditional"),
    ("pytest || exit 0", "pytest; conditional"),
    ("pytest || exit 256", "pytest; conditional"),
    ("pytest || exit", "pytest"),
    ("pytest || { true; exit; }", "pytest; conditional"),
    ("pytest || { true; exit $?; }", "pytest; conditional"),
    ("pytest || { true; exit 3; }", "pytest; final"),
    ("pytest || { ! exit 3; }", "pytest; conditional"),
    # `set -e` ends nothing where something looks at the failure.
    ("set -e; pytest; true", "pytest"),
    ("set -e; pytest && rm x; true", "pytest; final"),
    ("(set -e; pytest; true) && rm x", "pytest; final"),
    ("(set -e; pytest; true)", "pytest"),
    ("! (set -e; pytest; true)", "pytest; conditional"),
    ("bash -ec 'pytest; true' && rm x", "pytest"),
    ("pytest; echo $?", "pytest '<>?'; final"),
    ('pytest; echo "EXIT=$?"', "pytest 'EXIT=<>?'; final"),
    ('pytest 2>&1 | tail -5; echo "${PIPESTATUS[0]}"', "pytest (of the last 5 lines) '<>?'; final"),
    # Only the status of the command itself counts.
    ("pytest 2>&1 | tail -5; echo $?", "pytest (of the last 5 lines) '<>'; final"),
    ("set -o pipefail\npytest | tail -5\necho $?", "pytest (of the last 5 lines) '<>?'; final"),
    ("pytest; rm x; echo $?", "pytest '<>'; final"),
    ("pytest || true; echo $?", "pytest '<>'; conditional"),
    ("pytest; echo; echo $?", "pytest '' '<>'; final"),
    ("! pytest; echo $?", "pytest '<>'; conditional"),
    ("(pytest; true); echo $?", "pytest '<>'; final"),
    ("(cd x && pytest); echo $?", "pytest '<>?'; final"),
    ("bash -c 'pytest; echo $?'", "pytest '<>?'; final"),
    ("pytest; bash -c 'echo $?'", "pytest '<>'; final"),
    ("yes | pytest | tail -5; echo ${PIPESTATUS[0]}", "pytest (of the last 5 lines) '<>'; final"),
    ('pytest || echo "failed: $?"', "pytest 'failed: <>?~'; conditional"),
    ("true || set -o pipefail; pytest | tail -5", "pytest (of the last 5 lines); final"),
    ("pytest && echo OK || echo FAIL", "pytest 'OK~' 'FAIL~'; conditional"),
    ("! grep -rn foo .", "grep; conditional"),
    ("pytest && rm -rf x", "pytest"),
    ("pytest; rm -rf x", "pytest; final"),
    # Several outputs.
    ("ls -la a; ls -la b", "exact"),
    ("apt-get update && sudo apt-get install -y x", "apt-install"),
    ("pip install -q a && pip install b", "pip-install"),
    ("pip install a && npm install", "exact"),
    # Tools one after the other, as `make check` would run them.
    ("cd x && npm run lint && npm run build", "several"),
    ("ruff check . && mypy . && pytest -q", "several"),
    ("ruff check .; pytest -x", "several; final"),
    ("cargo fmt --check && cargo clippy && cargo test", "several"),
    ("pytest a; true || pytest b; echo $?", "several '<>'; final"),
    ("cmake -B build && make -j8; ./run", "exact"),
    ("pytest a; pytest b 2>&1", "several; final"),
    ("npm run build && cargo run", "exact"),
    ("npm run build && ls -la", "exact"),
    ("ruff check . | head -5; pytest", "exact"),
    ("npm run build; echo ---; npm run lint && pytest", "package-script / '---' several; final"),
    ("git commit -m x && git push", "exact"),
    # The second shows by itself.
    ("git status && git diff", "git-status / git-diff"),
    (
        "cd x && git log -5; git diff | head -90",
        "git-log / git-diff (of the first 90 lines); final",
    ),
    ("pip install -e . && pytest -x", "pip-install / pytest"),
    ("pip install -e . && pytest -xq", "exact"),
    ("git status; git diff | tail -90", "exact"),
    ("git diff; git status", "exact"),
    ("cat f; git diff", "exact"),
    # Lines that stand for themselves, of one kind.
    ("grep -rn a x; grep -rn b y", "grep; final"),
    ("cd x && rg -n a && rg -n b", "rg"),
    ("find a -name b; find c -name d; find e -name f", "find; final"),
    ("grep -rn a x; grep -rni b y", "exact"),
    ("grep -n a f; grep -n b c d", "exact"),
    ("rg -n a | head -5; rg -n b", "exact"),
    ("python script.py && pytest", "exact"),
    ("npm ci && pytest", "exact"),
    ("pwd && ls -la", "'<>' ls"),
    ("pushd x && ls -la", "'<>' ls"),
    ("pushd x && ls -la; popd", "'<>' ls '<>'; final"),
    ("bash -c 'pushd x' && ls -la; popd", "exact"),
    ("pushd x > /dev/null; ls -la; popd > /dev/null", "ls; final"),
    ("which pytest && pytest", "'<>' pytest"),
    ("command -v pytest && pytest", "'<>' pytest"),
    ("ls | wc -l && pytest", "'<>' pytest"),
    # Where it fails there is no line.
    ("pushd x; ls -la", "exact"),
    ("ls -la; popd", "exact"),
    ("which pytest; pytest", "exact"),
    ("make | wc -l; pytest", "exact"),
    ("./a | ./b && pytest", "exact"),
    ("echo '== here'; ls -la", "'== here' ls"),
    ("echo -e '\\n== here'; ls -la", "'' '== here' ls"),
    ("printf 'here\\n'; ls -la", "'here' ls"),
    ("git status; echo '-----'; git diff", "git-status / '-----' git-diff; final"),
    ("git status; echo; echo '== log'; git log", "git-status '' / '== log' git-log; final"),
    ("od f; echo ----; git diff", "whole / '----' git-diff; final"),
    ("git status && echo ---- && git diff", "exact"),
    ('git status; echo "$X"; git diff', "exact"),
    ("echo -----; ls; " * 65, "exact"),
    # Not understood, or not to be.
    ("for f in *.py; do pytest $f; done", "exact"),
    ("if pytest; then echo ok; fi", "exact"),
    ("while read f; do grep foo $f; done < list", "exact"),
    ("pytest & wait", "exact"),
    ("pytest > log & tail -f log", "exact"),
    ("(cd x && pytest) &", "exact"),
    ("bash -c 'pytest &'", "exact"),
    ("nohup pytest > log 2>&1 &", "exact"),
    ("sleep 5 & pytest", "exact"),
    ("f() { pytest; }; f", "exact"),
    ("alias ls=foo; ls", "exact"),
    ('eval "pytest"', "exact"),
    ("set -x; pytest", "exact"),
    ("source ./lib.sh; pytest", "exact"),
    ("cd - && pytest", "exact"),
    ("mkdir -pv x && pytest", "exact"),
    ("pytest 'unclosed", "exact"),
    ("pytest )", "exact"),
    ("echo pytest", "exact"),
    ("ssh host 'pytest'", "exact"),
    ("", "exact"),
    # Answers of YARP's own.
    ("yarp search yr_1 'a|b'", "recovery"),
    ("cd x && yarp read yr_1 stdout 1:5", "recovery"),
    ("yarp search yr_1 foo 2>&1 | head -20", "recovery"),
    ("yarp search yr_1 foo > f; git status", "git-status"),
    ("yarp run -- pytest", "exact"),
]


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=[text for text, _ in TABLE])
def test_the_plan_of_a_text_that_agents_write(text, expected):
    assert described(plan(text, RULES)) == expected


def test_a_shell_started_without_a_shell_is_planned_by_its_text():
    assert described(plan_argv(["bash", "-lc", "cd x && pytest"], RULES)) == "pytest"
    assert described(plan_argv(["bash", "-lc", "pytest > f"], RULES)) == "exact"
    assert described(plan_argv(["git", "status"], RULES)) == "git-status"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("cd x && pytest", {"cd"}),
        ("export A=1; pytest", {"export"}),
        ("A=1; pytest", {"A"}),
        ("source .venv/bin/activate && pytest", {"source"}),
        ("set -e; pytest", {"set"}),
        ('pytest "tests/$X"', {"$X"}),
        ("pytest; echo $?", {"$?"}),
        ("{ cd x; pytest; }", {"cd"}),
        ("f() { pytest; }; pytest", {"function_definition"}),
        ("(cd x && pytest)", set()),
        ("bash -c 'cd x && pytest'", set()),
        ("A=1 pytest 2>&1 | tail -5", set()),
        ('rg foo "$HOME/x"', set()),
        ("A=$B pytest", {"$B"}),
        ("A=$HOME/x pytest", set()),
        ("pytest > $OUT; ls", {"$OUT"}),
        ("rg foo `cat names`", {"`cat names`"}),
        ("ls $HOME_X", {"$HOME_X"}),
        ("cat > f <<EOF && pytest\n$X\nEOF\n", {"<<"}),
        ("pushd x && pytest", {"pushd"}),
    ],
)
def test_a_plan_tells_what_a_text_changes_or_uses_of_its_shell(text, state):
    assert set(plan(text, RULES).state) == state


def test_the_status_of_a_pipeline_is_not_the_tools_own():
    assert plan("pytest | tail -5", RULES).status(0).success is None
    assert plan("pytest || true", RULES).status(0).success is None
    assert plan("cd x && pytest", RULES).status(1).success is False
    assert plan("cd x && pytest", RULES).status(0).success is True
