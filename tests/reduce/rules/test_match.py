import marshal
import subprocess
import sys

import pytest

from yarp.reduce.rules.load import builtin_pack, compile_rules
from yarp.reduce.rules.match import candidate, select


@pytest.fixture(scope="session")
def rules():
    return marshal.loads(marshal.dumps(compile_rules([builtin_pack()])))


@pytest.mark.parametrize(
    ("command", "rule", "argv"),
    [
        ("git status", "git-status", "git status"),
        ("git -C x --no-pager status -s", "git-status", "git status -s"),
        ("/usr/bin/git -c a=b diff --staged", "git-diff", "git diff --staged"),
        ("git log --oneline -n 5", "git-log", "git log --oneline -n 5"),
        ("rg -e --json foo", "rg", None),
        ("rg -el x", "rg", None),
        ("rg --type py foo", "rg", None),
        ("rg -- --json src", "rg", None),
        ("python3.11 -m pytest -q", "pytest", "pytest -q"),
        ("python -W error -m unittest", "unittest", "unittest"),
        ("uv run --with foo python -m pytest -k --co", "pytest", "pytest -k --co"),
        ("npx --yes jest", "jest", "jest"),
        ("npx vitest run", "vitest", "vitest run"),
        ("pnpm -r vitest run", "vitest", "vitest run"),
        ("pnpm exec jest", "jest", "jest"),
        ("yarn jest", "jest", "jest"),
        ("uv run -- pytest", "pytest", "pytest"),
        ("poetry run pytest", "pytest", "pytest"),
        (".venv/bin/pytest", "pytest", "pytest"),
        ("./gradlew build", "gradle", "gradlew build"),
        ("timeout -s KILL 60 uv run pytest", "pytest", "pytest"),
        ("env -u X A=b pytest -x", "pytest", "pytest -x"),
        ("cargo +nightly test", "cargo-test", "cargo test"),
        ("go -C sub test ./... -coverprofile=x", "go-test", "go test ./... -coverprofile=x"),
        ("npm --prefix web ci", "npm-install", "npm ci"),
        ("pnpm -C web install", "pnpm-install", "pnpm install"),
        ("npm test", "package-test", "npm test"),
        ("pnpm eslint src", "eslint", "eslint src"),
        ("pnpm --filter web tsc --noEmit", "tsc", "tsc --noEmit"),
        ("yarn playwright test", "playwright-test", "playwright test"),
        ("pnpm vite build", "vite-build", "vite build"),
        ("node --test test/", "node-test", "node --test test/"),
        ("esbuild a.ts --bundle --outfile=b.js", "esbuild", None),
        ("prettier -c src", "prettier-check", "prettier -c src"),
        ("prettier -w src", "prettier-write", "prettier -w src"),
        ("gradle :app:test", "gradle", "gradle :app:test"),
        ("python -m pip install x", "pip-install", "pip install x"),
        ("pip3.11 install x", "pip-install", "pip install x"),
        ("find . -name -exec", "find", None),
        ("ls -la", "ls", None),
    ],
)
def test_a_command_selects_its_rule(rules, command, rule, argv):
    selection = select(command.split(), rules)
    assert selection is not None
    assert selection.rule == rule
    assert argv is None or selection.argv == tuple(argv.split())
    assert candidate(command.split()[0], rules)


@pytest.mark.parametrize(
    "command",
    [
        "git diff --outp=x",
        "git diff --raw",
        "git status -sz",
        "git log --pretty=oneline",
        "rg --json foo",
        "rg -nl x",
        "rg -tpy -l x",
        "grep -rc x .",
        "grep --files-with x .",
        "pytest --co",
        "pytest --collect",
        "cargo test -- --format=json",
        "go test -json",
        "find . -exec rm",
        "npm ci --json",
        "jest --watchA",
        "./ls",
        "scripts/pytest",
        "git",
        "git status --help",
        "uv --version",
        "pnpm install --reporter=ndjson",
        "yarn",
        "env",
        "uv pip freeze",
        "uv run --unknown pytest",
        "python -i script.py",
        "timeout 5",
        "unknown",
        "",
    ],
)
def test_a_guarded_or_unknown_command_selects_nothing(rules, command):
    assert select(command.split(), rules) is None


def test_matching_loads_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import yarp.reduce.rules.match, yarp.reduce.engine,"
        " yarp.shell.words; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    files = [name for name in loaded if name not in sys.builtin_module_names]
    assert all(name.startswith(("yarp", "__future__")) for name in files), loaded
