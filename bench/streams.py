"""Streams of 256 MiB as tools print them, with a failure at their end that must not get lost."""

import itertools
import os

MIB = 1 << 20
STREAM_MIB = 256
STREAM_MB = STREAM_MIB * MIB / 1e6
# What is repeated: more than any window or block of a reducer.
_UNIT_BYTES = 8 * MIB
NEEDLE = b"needle"

_PYTEST_END = b"""\
=================================== FAILURES ===================================
__________________________________ test_needle _________________________________

    def test_needle():
>       assert 41 == 42
E       assert 41 == 42

tests/test_x.py:3: AssertionError
=========================== short test summary info ============================
FAILED tests/test_x.py::test_needle - assert 41 == 42
=================== 1 failed, 8000 passed in 0.31s ===================
"""
_BUILD_END = b"src/needle.c:3:5: error: expected ';'\nmake: *** [needle.o] Error 1\n"


class Stream:
    """One stream: the command that prints it, its status, and its bytes in three parts."""

    def __init__(self, name, command, unit, *, end=b"", status=0):
        self.name = name
        self.command = command
        self.status = status
        self._unit = unit
        self._end = end

    def write(self, path):
        """Write the stream to a file."""
        left = STREAM_MIB * MIB - len(self._end)
        unit = self._unit()
        with open(path, "wb") as file:
            while left >= len(unit):
                file.write(unit)
                left -= len(unit)
            file.write(unit[: unit.rfind(b"\n", 0, left) + 1] or unit[:left])
            file.write(self._end)

    def lost(self, summary):
        """Whether what went wrong at the end is missing from what is shown."""
        return NEEDLE in self._end and NEEDLE not in summary


def lines(line, values, size=_UNIT_BYTES):
    """Lines of a form, up to about `size` bytes."""
    whole = []
    for n in itertools.count():
        whole.append(line % values(n))
        size -= len(whole[-1])
        if size <= 0:
            break
    return b"".join(whole)


def _passed(word=b"PASSED"):
    form = b"tests/test_green.py::test_g[%d] " + word + b" " * 60 + b"[%3d%%]\n"
    return lines(form, lambda n: (n, n % 8000 // 80))


def _under(heading, form, values):
    """Lines of a form, forty under each heading."""
    return lines(b"%b" + form, lambda n: (b"" if n % 40 else heading % n, *values(n)))


ALL = (
    Stream("pytest -v", "pytest -v", _passed, end=_PYTEST_END, status=1),
    Stream(
        "pytest in colour",
        "pytest -v",
        lambda: _passed(b"\x1b[32mPASSED\x1b[0m"),
        end=_PYTEST_END,
        status=1,
    ),
    Stream(
        "progress with carriage returns",
        "pytest",
        lambda: lines(b"\rcollecting %d items\n", lambda n: (n,)),
        end=_PYTEST_END,
        status=1,
    ),
    Stream(
        "tests that all fail",
        "pytest -v",
        lambda: _passed(b"FAILED"),
        end=_PYTEST_END,
        status=1,
    ),
    Stream(
        "lines that nearly say failed",
        "pytest -v",
        lambda: lines(
            b"tests/test_a.py::test FAILED_ ERRO R ed  in %d = session\n", lambda n: (n,)
        ),
        end=_PYTEST_END,
        status=1,
    ),
    Stream("rg", "rg -n x", lambda: lines(b"src/m%d.py:%d:  x = %d\n", lambda n: (n // 40, n, n))),
    Stream(
        "rg under headings",
        "rg -p x",
        lambda: _under(b"\nsrc/m%d.py\n", b"%d:  x = %d\n", lambda n: (n, n))[1:],
    ),
    Stream(
        "rg with context",
        "rg -n -C1 x",
        lambda: lines(b"src/m%d.py-%d-  y\nsrc/m%d.py:%d:  x\n--\n", lambda n: (n, n, n, n + 1)),
    ),
    Stream(
        "a build",
        "make",
        lambda: lines(
            b"cc -O2 -Wall -Iinclude -c src/dir%d/file%d.c -o build/dir%d/file%d.o\n",
            lambda n: (n % 97, n, n % 97, n),
        ),
        end=_BUILD_END,
        status=2,
    ),
    Stream(
        "a build of errors",
        "make",
        lambda: lines(
            b"src/d%d/f%d.c:%d:5: error: expected ';' before %d\n",
            lambda n: (n % 9, n % 97, n, n),
        ),
        end=_BUILD_END.replace(NEEDLE, b"x"),
        status=2,
    ),
    Stream(
        "cargo build",
        "cargo build",
        lambda: lines(b"   Compiling crate-%d v0.%d.%d\n", lambda n: (n % 997, n % 9, n % 13)),
        end=b"error[E0308]: mismatched needle\n --> a.rs:2:5\n\nerror: could not compile `x`\n",
        status=101,
    ),
    Stream("find", "find .", lambda: lines(b"./p%d/src/f%d.ts\n", lambda n: (n % 97, n))),
    Stream(
        "ls -lR",
        "ls -lR",
        lambda: _under(
            b"\n./dir%d:\ntotal 4\n",
            b"-rw-r--r-- 1 root root %d Nov 29 23:14 file%d.txt\n",
            lambda n: (n, n),
        )[1:],
    ),
    Stream(
        "a log",
        "docker logs x",
        lambda: lines(
            b"2026-01-01T00:00:%02d worker-%d GET /items/%d took %d us\n",
            lambda n: (n % 60, n % 7, n, n % 9973),
        ),
        end=b"2026-01-01T00:01:00 worker-1 ERROR needle lost\n",
    ),
    Stream("one line", "pytest", lambda: b"x" * MIB),
    Stream("random bytes", "cat a.bin", lambda: os.urandom(_UNIT_BYTES)),
)
