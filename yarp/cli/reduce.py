"""`yarp reduce`: what a command printed in, the short answer out; a filter for other programs.

Nothing is archived, and the marker says so. Source: spec "Reduction"; hot lane, so no framework
of command lines.
"""

from __future__ import annotations

import _signal
import os
import sys

from yarp import cache
from yarp.cli.words import Options
from yarp.errors import StorageError, UsageError, YarpError
from yarp.reduce.plan import plan
from yarp.spool.stream import enlarge, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.spool.behind import Behind

HELP = """\
Examples:
  pytest -v 2>&1 | yarp reduce --command 'pytest -v' --exit-code 1
  yarp reduce --command 'git log' < log.txt

Usage: yarp reduce --command TEXT [--exit-code N]

Read what the command TEXT printed on standard input and write what a model needs of it to
standard output: the same short answer as `yarp run` gives. What no rule selects, and what would
not become shorter, is copied byte for byte. Nothing is archived: the marker says so, and there
is no way back but the input itself. TEXT is never run.

Options:
  --command TEXT   the command whose output this is; it selects the rule
  --exit-code N    how it ended (0 to 255); unknown without it, which is read as a failure
  -h, --help       show this

Exit codes: 0; 64 usage, or a broken configuration, and then the input is copied; 74 I/O;
141 the reader of the output went away.
"""
_READER_GONE = 141
# From here on a thread reduces while this one reads and keeps: starting it costs a little.
_LARGE_BYTES = 4 << 20


def main(argv: list[str]) -> int:
    """Filter standard input; returns the exit status. `argv` is (yarp, reduce, words)."""
    try:
        options = Options(
            "reduce",
            argv[2:],
            {"--command": "command", "--exit-code": "exit_code"},
            {"-h": "help", "--help": "help"},
        )
        if "help" in options.switches:
            return _written(lambda: write_all(1, HELP.encode()))
        if options.positional:
            raise options.wrong(f"unexpected word {options.positional[0]}")
        command = options.value("command")
        if command is None:
            raise options.wrong("--command TEXT is missing")
        exit_code = options.number("exit_code", 0, 255)
    except UsageError as error:
        return _fail(error)
    # Python's own handler would leave a trace where a filter just ends.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    return _written(lambda: _filter(command, exit_code))


def _written(work: Callable[[], int | None]) -> int:
    try:
        return work() or 0
    except BrokenPipeError:
        return _READER_GONE
    except OSError as error:
        return _fail(StorageError(error.strerror or "input or output failed"))


def _fail(error: YarpError) -> int:
    sys.stderr.write(f"yarp: {error}\n")
    return error.exit_code


def _filter(command: str, exit_code: int | None) -> int:
    try:
        compiled = cache.load()
        planned = plan(command, compiled.rules)
    except YarpError as error:
        # What is wrong with YARP must not swallow another program's output.
        _copy()
        return _fail(error)
    selection, shape = planned.selection, planned.shape
    if selection is None or not compiled.settings.pruning_enabled:
        _copy()
        return 0
    from yarp.reduce.engine import Recovery, Reduction
    from yarp.spool.hold import Hold

    if shape is not None:
        shape.merged = True
    reduction = Reduction(selection, compiled.settings, compiled.candidates, shape)
    directory = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - spools are unlinked at once
    hold = Hold(directory)
    size = enlarge(0)
    feed: Callable[[int, bytes], None] = reduction.feed
    behind: Behind | None = None
    left = _LARGE_BYTES
    while chunk := os.read(0, size):
        try:
            hold.keep(0, chunk)
        except YarpError as error:
            hold.show(_show)
            write_all(1, chunk)
            _copy()
            return _fail(error)
        feed(0, chunk)
        left -= len(chunk)
        if behind is None and left < 0:
            from yarp.spool.behind import Behind

            behind = Behind(reduction.feed)
            feed = behind.put
        if reduction.hopeless:
            hold.show(_show)
            hold = Hold(directory)
            _copy()
    if behind is not None:
        behind.finish()
    summary = reduction.finish(planned.status(exit_code), Recovery(None))
    if summary.fault is not None:
        sys.stderr.write(f"yarp: {summary.fault}\n")
    if summary.changed:
        write_all(1, summary.stdout + summary.stderr)
    else:
        hold.show(_show)
    return 0


def _show(_: int, chunk: bytes) -> None:
    write_all(1, chunk)


def _copy() -> None:
    size = enlarge(0)
    while chunk := os.read(0, size):
        write_all(1, chunk)
