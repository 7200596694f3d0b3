"""Outputs of the sizes that the capture contract was measured on, and what must be found in them.

Only the standard library is used: the Python of an installed agent runs this too.
Source: seed 004, "Evidence".
"""


class Output:
    """What a command printed, how it ended, and the texts that must not get lost."""

    def __init__(self, name, command, size, *, stdout, stderr="", exit_code=0, needles=()):
        assert len((stdout + stderr).encode()) == size, (name, len((stdout + stderr).encode()))
        self.name = name
        self.command = command
        self.size = size
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code = exit_code
        self.needles = tuple(needles)


def compact():
    text = "42 passed in 0.31 s"
    return Output("compact success", "make test", 19, stdout=text, needles=[text])


def pytest(failing=None):
    """20,000 result lines; `failing` is the number of the one test that fails."""
    lines = [
        f"tests/test_prices.py::test_item_{n:05d} {'FAILED' if n == failing else 'PASSED'}\n"
        for n in range(20_000)
    ]
    end = "20000 passed in 12.34s"
    return Output(
        "pytest, 20,000 lines",
        "pytest -v",
        900_022,
        stdout="".join(lines) + end,
        exit_code=0 if failing is None else 1,
        needles=[lines[0], lines[12_345], end],
    )


def api():
    objects = [f'{{"id":{n},"name":"lamp","stock":"some"}}' for n in range(10_000)]
    return Output(
        "API JSON, 10,000 objects",
        "curl -s http://127.0.0.1/items",
        408_891,
        stdout="[" + ",".join(objects) + "]",
        needles=[objects[7_777]],
    )


def compiler():
    out = "".join(f"[{n:05d}/06000] cc -c src/module.c\n" for n in range(6_000))
    error = "src/main.c:42:5: error: expected ';' before '}' token\nmake: *** [all] Error 2\n"
    warning = "src/module.c:7:3: warning: unused variable\n"
    left = 358_928 - len(out) - len(error)
    err = warning * (left // len(warning)) + "." * (left % len(warning) - 1) + "\n" + error
    return Output(
        "compiler failure, exit 2",
        "make",
        358_928,
        stdout=out,
        stderr=err,
        exit_code=2,
        needles=[error],
    )


def csv():
    rows = [f"{n},ok,{n % 7}\n" for n in range(30_000)]
    return Output(
        "CSV, 30,000 rows",
        "cat table.csv",
        318_905,
        stdout="id,state,value\n" + "".join(rows),
        needles=[rows[23_456]],
    )


def one_line():
    return Output(
        "one line of 2 MiB",
        "cat blob",
        2_097_176,
        stdout="BEGIN-MARKER\n" + "x" * (2 << 20) + "\nEND-MARKER",
        needles=["BEGIN-MARKER", "END-MARKER"],
    )


class Task:
    """What somebody looks for in an output, the command that finds it in a file, the answer."""

    def __init__(self, name, output, argv, answer):
        self.name = name
        self.output = output
        self.argv = argv  # the file's path comes last
        self.answer = answer


def tasks():
    """Selective retrieval, as the contract asks for it: by the ordinary tools for local files."""
    rows = csv().stdout.splitlines(keepends=True)[23_457:23_462]
    return [
        Task(
            "the failing test",
            pytest(failing=12_345),
            ["grep", "FAILED"],
            "tests/test_prices.py::test_item_12345 FAILED\n",
        ),
        Task(
            "one API object",
            api(),
            ["jq", "-c", ".[] | select(.id == 7777)"],
            '{"id":7777,"name":"lamp","stock":"some"}\n',
        ),
        Task("a range of CSV rows", csv(), ["sed", "-n", "23458,23462p"], "".join(rows)),
        Task(
            "the compiler's error",
            compiler(),
            ["grep", "error:"],
            compiler().needles[0].splitlines(keepends=True)[0],
        ),
    ]


def table():
    return [compact(), pytest(), api(), compiler(), csv(), one_line()]


JOB_CHARACTERS = 2_340_024
JOB_EXIT_CODE = 2
# 60,000 lines of 38 digits between two markers; a real process prints them and fails.
JOB = """\
import sys
write = sys.stdout.write
write("BEGIN-MARKER\\n")
for n in range(60_000):
    write(f"{n:038d}\\n")
write("END-MARKER\\n")
sys.exit(2)
"""
