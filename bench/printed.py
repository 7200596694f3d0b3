"""Commands as agents run them, each with an output of the size that is asked for, made up."""

import math
import random

WORDS = """
archive batch branch buffer build cache channel client cluster commit config context
cursor decoder digest driver entry error event field filter frame graph handler header
index item journal kernel layout ledger limit lock loop mapper marker merge message metric
module node offset packet page parser patch payload pipe plan pool port prefix probe
process queue range reader record region request result router row schema scope segment
server session shard signal slot socket source stage state stream table target task thread
token trace tree view warning worker writer zone
""".split()  # noqa: SIM905 - a list of strings would hide the words


class Printer:
    """Makes commands and outputs; the same seed, the same ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self._code = [self._line_of_code() for _ in range(20_000)]
        # A program has a few dozen things to say, again and again.
        self._messages = [
            (self._level(), self.prose(self.random.randrange(3, 8))) for _ in range(60)
        ]

    def size(self):
        """Characters of one output: mostly a screen or two, one in eight of 10 to 200 kB."""
        draw = self.random
        if draw.random() < 0.125:
            return int(math.exp(draw.uniform(math.log(10_000), math.log(200_000))))
        return max(24, min(9_000, int(draw.lognormvariate(7.6, 1.1))))

    def word(self):
        return self.random.choice(WORDS)

    def hexadecimal(self, digits):
        return f"{self.random.getrandbits(4 * digits):0{digits}x}"

    def path(self):
        return f"src/{self.word()}/{self.word()}_{self.word()}.py"

    def shell(self):
        """A command with its output and exit status."""
        kind = self.random.choices(*_SHELL)[0]
        return getattr(self, f"_{kind}")(self.size())

    def prose(self, words):
        return " ".join(self.random.choices(WORDS, k=words)).capitalize() + "."

    def listing(self, size):
        """What a tool that reads a file gives: numbered lines of code."""
        start = self.random.randrange(len(self._code))
        lines, length = [], 0
        while length < size:
            at = len(lines)
            lines.append(f"{at + 1:6d}\t{self._code[(start + at) % len(self._code)]}")
            length += len(lines[-1]) + 1
        return "\n".join(lines)

    def matches(self, size):
        lines = self._until(size, self._match)
        return "\n".join(lines)

    def _until(self, size, line):
        lines, length = [], 0
        while length < size:
            lines.append(line())
            length += len(lines[-1]) + 1
        return lines

    def _line_of_code(self):
        a, b, c = (self.random.choice(WORDS) for _ in range(3))
        return self.random.choice(
            (
                f"    {a}_{b} = self._{c}.{a}({b}, {self.random.randrange(99)})",
                f"def {a}_{b}({c}: bytes, *, {b}: int = {self.random.randrange(9)}) -> None:",
                f"    if {a} is None or len({b}) > {c}_LIMIT:",
                f'        raise ValueError(f"{a} {b}: {{{c}}} is not a {a}")',
                f"    for {a} in sorted({b}, key=lambda one: one.{c}):",
                f"from {a}.{b} import {c.title()}",
                "",
                f"    # The {a} of a {b} comes before its {c}.",
            )
        )

    def _match(self):
        number = self.random.randrange(len(self._code))
        return f"{self.path()}:{number % 900 + 1}:{self._code[number]}"

    # -- commands

    def _pytest(self, size):
        failed = self.random.random() < 0.3
        lines = [
            "============================= test session starts ==============================",
            "platform linux -- Python 3.12.4, pytest-8.3.2, pluggy-1.5.0",
            "collecting ... collected items",
            "",
        ]
        tests = self._until(
            size,
            lambda: (
                f"tests/{self.word()}/test_{self.word()}.py::test_{self.word()}_{self.word()}"
                f"[{self.word()}-{self.random.randrange(99)}] PASSED "
                f"[{self.random.randrange(100):3d}%]"
            ),
        )
        count = len(tests)
        lines += tests
        summary = f"{count} passed in {self.random.randrange(900) / 10}s"
        if failed:
            name = f"tests/{self.word()}/test_{self.word()}.py::test_{self.word()}"
            lines += [
                "",
                "=================================== FAILURES ===================================",
                f"_____________________________ test_{self.word()} _____________________________",
                "",
                "    def test_it():",
                f">       assert {self.word()}() == {self.random.randrange(99)}",
                f"E       AssertionError: assert {self.random.randrange(99)} == 3",
                "",
                f"{name.split('::', maxsplit=1)[0]}:{self.random.randrange(300)}: AssertionError",
                "=========================== short test summary info ============================",
                f"FAILED {name} - AssertionError: assert 1 == 3",
            ]
            summary = f"1 failed, {summary}"
        lines.append(f"========================= {summary} =========================")
        command = self.random.choice(("pytest -v", "python -m pytest -v", "uv run pytest -v"))
        return command, "\n".join(lines) + "\n", int(failed)

    def _cargo(self, size):
        failed = self.random.random() < 0.2
        lines = [f"   Compiling {self.word()} v0.{self.random.randrange(9)}.0" for _ in range(9)]
        lines.append("    Finished `test` profile [unoptimized + debuginfo] target(s) in 4.2s")
        lines.append("     Running unittests src/lib.rs (target/debug/deps/lib-0f)")
        tests = self._until(
            size, lambda: f"test {self.word()}::tests::{self.word()}_{self.word()} ... ok"
        )
        lines += ["", f"running {len(tests) + failed} tests", *tests]
        if failed:
            name = f"{self.word()}::tests::{self.word()}"
            lines += [
                f"test {name} ... FAILED",
                "",
                "failures:",
                "",
                f"---- {name} stdout ----",
                f"thread '{name}' panicked at src/{self.word()}.rs:{self.random.randrange(400)}:9:",
                "assertion `left == right` failed",
                "  left: 1",
                " right: 2",
                "",
                "failures:",
                f"    {name}",
                "",
            ]
        state = "FAILED" if failed else "ok"
        lines.append(
            f"test result: {state}. {len(tests)} passed; {int(failed)} failed; 0 ignored; "
            "0 measured; 0 filtered out; finished in 0.31s"
        )
        return "cargo test", "\n".join(lines) + "\n", 101 if failed else 0

    def _diff(self, size):
        lines, length = [], 0
        while length < size:
            path = self.path()
            hunk = [
                f"diff --git a/{path} b/{path}",
                f"index {self.hexadecimal(7)}..{self.hexadecimal(7)} 100644",
                f"--- a/{path}",
                f"+++ b/{path}",
            ]
            for _ in range(self.random.randrange(1, 5)):
                at = self.random.randrange(len(self._code) - 40)
                old = self._code[at : at + 12]
                new = self._code[at + 20 : at + 24]
                start = self.random.randrange(1, 900)
                hunk.append(f"@@ -{start},12 +{start},13 @@ def {self.word()}():")
                hunk += [" " + line for line in old[:4]]
                hunk += ["-" + line for line in old[4:7]]
                hunk += ["+" + line for line in new]
                hunk += [" " + line for line in old[7:]]
            lines += hunk
            length += sum(map(len, hunk)) + len(hunk)
        return self.random.choice(("git diff", "git diff HEAD~1")), "\n".join(lines) + "\n", 0

    def _log(self, size):
        clock = self.random.randrange(80_000)

        def line():
            nonlocal clock
            clock += self.random.randrange(4)
            level, message = self.random.choice(self._messages)
            return (
                f"2026-10-07T{clock // 3600 % 24:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}.123Z "
                f"{level} [worker-{self.random.randrange(16)}] {message} "
                f"id={self.hexadecimal(12)} took={self.random.randrange(9999)}ms"
            )

        command = self.random.choice(("docker logs api", "kubectl logs deploy/api", "cat app.log"))
        return command, "\n".join(self._until(size, line)) + "\n", 0

    def _level(self):
        return self.random.choices(("INFO", "DEBUG", "WARN", "ERROR"), (80, 14, 4, 2))[0]

    def _rg(self, size):
        return f"rg -n {self.word()} src", self.matches(min(size, 60_000)) + "\n", 0

    def _find(self, size):
        lines = self._until(min(size, 60_000), lambda: "./" + self.path())
        return "find . -name '*.py'", "\n".join(lines) + "\n", 0

    def _build(self, size):
        lines = ["> app@1.0.0 build", "> tsc -p . && vite build", ""]
        for _ in range(min(size, 8000) // 200):
            path = f"src/{self.word()}/{self.word()}.ts"
            at = f"{self.random.randrange(400)},{self.random.randrange(80)}"
            lines.append(
                f"{path}({at}): error TS2339: Property '{self.word()}' does not exist on type "
                f"'{self.word().title()}'."
            )
        failed = len(lines) > 3
        if not failed:
            lines.append("✓ built in 2.31s")
        return "npm run build 2>&1 | tail -50", "\n".join(lines[-50:]) + "\n", int(failed)

    def _sed(self, size):
        start = self.random.randrange(len(self._code))
        lines = [self._code[(start + at) % len(self._code)] for at in range(max(2, size // 40))]
        return f"sed -n '1,{len(lines)}p' {self.path()}", "\n".join(lines) + "\n", 0

    def _status(self, _size):
        lines = ["On branch main", "Changes not staged for commit:"]
        lines += [f"\tmodified:   {self.path()}" for _ in range(self.random.randrange(1, 40))]
        return "git status", "\n".join(lines) + "\n", 0

    def _script(self, size):
        lines = self._until(size // 2, lambda: f"{self.word()}: {self.random.random():.6f}")
        command = f'cd tools && for x in a b; do python3 {self.word()}.py "$x"; done'
        return command, "\n".join(lines) + "\n", 0


_SHELL = (
    ("pytest", "cargo", "diff", "log", "rg", "find", "build", "sed", "status", "script"),
    (12, 7, 10, 9, 11, 4, 5, 20, 4, 18),
)
