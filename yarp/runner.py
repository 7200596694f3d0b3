"""`yarp run`: the command as it is, its call in the archive, the short answer where there is one.

Whatever fails here, the command runs, its exact bytes go out on their own streams, its status
is kept and the reason stands on stderr. Source: spec "Archive", `yarp run`; seed 000, Write
lifecycle and Failure behavior.
"""

from __future__ import annotations

import _signal
import os
import sys

from yarp import argv as words
from yarp import cache, payload
from yarp.errors import StorageError, UsageError, YarpError
from yarp.record import NAMES, Receipt, Record, streams_of
from yarp.spool.stream import Child, Ending, NotStarted, open_standard_streams, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yarp.archive.write import Streams
    from yarp.argv import RunOptions
    from yarp.cache import Compiled
    from yarp.payload import Payload, PayloadWriter
    from yarp.reduce.engine import Reduction, Summary
    from yarp.reduce.plan import Plan
    from yarp.reduce.rules.match import Selection
    from yarp.spool.behind import Behind
    from yarp.spool.hold import Hold

_STDOUT, _STDERR = 0, 1
_READER_GONE = 141  # 128 + SIGPIPE
_IO_ERROR = 74
# From here on a thread keeps the stream: starting one costs more than a small stream does.
_LARGE_BYTES = 4 << 20
# What is shown live is copied for the case that we are killed, up to here.
_COPY_BYTES = 64 << 20
# What questions end in, and how long a line that ends in something else may be unfinished.
_ASKING = (b":", b"?", b">", b"]", b")")
_LONG_PAUSE_MS = 5000
_END_BYTES = 16
_LEFT_BEHIND = (
    "the command ended and left a process behind that holds its output; that process goes on, "
    "and what it prints from now on is neither shown nor kept"
)
_LEFT_ALONE = (
    "the command ended and left a process behind that holds its output; nobody reads that "
    "any more, so the process may end when it prints"
)


def main(argv: list[str]) -> int:
    """Run `argv` (yarp, run, words); returns only for --help and wrong words.

    Otherwise the process ends here with the command's status: what an interpreter does on its
    way out costs a third of a short run, and every byte is written and committed already.
    """
    # Where a caller ignores it, the status of a child is thrown away.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    try:
        options = words.parse_run(argv[2:])
    except UsageError as error:
        _say(str(error))
        return error.exit_code
    closed = open_standard_streams()
    if options.help:
        outlet = _Outlet(closed)
        outlet.show(_STDOUT, words.HELP.encode())
        return outlet.status(0)
    os._exit(_Run(options, closed).status())


class _Run:
    """One command, from its words to its status.

    It is piped, unless it has the terminal, or nothing of it is kept or shortened. A piped one
    is live, shown as it comes, or held until it is known what to show.
    """

    def __init__(self, options: RunOptions, closed: list[int]) -> None:
        self._options = options
        self._closed = closed
        self._outlet = _Outlet(closed)
        self._problems: dict[str, None] = {}
        self._compiled: Compiled | None = None
        self._asked = False
        self._selection: Selection | None = None
        self._plan: Plan | None = None
        self._piped = options.host is not None
        self._record: Record | None = None
        self._writers: tuple[PayloadWriter, ...] = ()
        self._behind: Behind | None = None
        self._reduction: Reduction | None = None
        self._hold: Hold | None = None
        self._copy: Hold | None = None
        self._observed = [0, 0]
        self._ends = [b"\n", b"\n"]

    def status(self) -> int:
        """Run the command to its end; its status."""
        hosted = self._options.host is not None
        child: Child | None = None
        status = 0
        try:
            # A host has committed the call: its command need not wait for us.
            if hosted:
                child = self._start()
                self._prepare()
            else:
                self._prepare()
                child = self._start()
        except NotStarted as error:
            _say(str(error))
            status = error.status
            if hosted:
                self._prepare()
        self._open_spools()
        if child is None:
            receipt = Receipt(status, None, "unavailable", "not-started")
            self._conclude(receipt)
        elif self._piped:
            child.share = self._share
            if self._hold is not None and os.isatty(0):
                child.on_pause = self._show_question
            ending = child.read(self._take)
            status = child.wait()
            if ending.held_open:
                self._problems[_LEFT_BEHIND if ending.drained else _LEFT_ALONE] = None
            self._conclude(_receipt(status, child.signal, ending))
        else:
            status = child.wait()
            self._commit(Receipt(status, child.signal, "disabled", "terminal"), None)
        if child is not None:
            child.dismiss()
        if self._record is not None:
            self._tell(self._record.tell_finished)
        for problem in self._problems:
            _say(problem)
        return self._outlet.status(status)

    # -- before the command and while it starts -----------------------------------------------

    def _prepare(self) -> None:
        """Decide how the command gets its streams, and begin its call; on a fault it is raw."""
        options = self._options
        try:
            compiled = self._compiled = cache.load()
            archived = compiled.settings.archive_enabled
            if options.host is None:
                terminal = options.tty or (os.isatty(1) and self._selected() is None)
                self._piped = not terminal and (archived or self._selected() is not None)
            if archived:
                self._record = Record(compiled, options, requires_streams=self._piped)
                self._tell(self._record.tell_started)
        except Exception as error:  # noqa: BLE001 - the command runs whatever is wrong with YARP
            _say(_reason(error))
            self._compiled = None
            self._piped = options.host is not None

    def _start(self) -> Child:
        return Child(self._options.argv, piped=self._piped, closed=self._closed)

    def _selected(self) -> Selection | None:
        """The rule for this command, if there is one."""
        compiled = self._compiled
        if self._asked or compiled is None:
            return self._selection
        self._asked = True
        argv, text = self._options.argv, self._options.text
        if not compiled.settings.pruning_enabled or self._options.tty:
            return None
        if text is None:
            from yarp.reduce.rules.match import select

            self._selection = select(argv, compiled.rules)
        # A command that starts no shell needs no plan, whose modules would cost it 5 %.
        if self._selection is None and (text is not None or _has_script(argv)):
            from yarp.reduce import plan

            if text is None:
                self._plan = plan.plan_argv(argv, compiled.rules)
            else:
                self._plan = plan.plan(text, compiled.rules)
            self._selection = self._plan.selection
        return self._selection

    def _open_spools(self) -> None:
        """Make ready to keep both streams and, for a selected command, to reduce them."""
        if not self._piped or self._compiled is None:
            return
        directory = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - spools are unlinked at once
        if self._record is not None:
            directory = self._record.directory
            self._writers = (payload.PayloadWriter(directory), payload.PayloadWriter(directory))
        try:
            selection = self._selected()
            if selection is not None:
                from yarp.reduce.engine import Reduction
                from yarp.spool.hold import Hold

                shape = None if self._plan is None else self._plan.shape
                compiled = self._compiled
                candidates = compiled.candidates
                self._reduction = Reduction(selection, compiled.settings, candidates, shape)
                self._hold = Hold(directory)
        except Exception as error:  # noqa: BLE001 - it is shown as it comes
            self._problem(error)

    # -- while it runs ------------------------------------------------------------------------

    def _take(self, stream: int, chunk: bytes) -> bool:
        """Keep a chunk, and show it unless it may be shortened. False: its reader went away."""
        self._observed[stream] += len(chunk)
        try:
            if self._hold is not None:
                self._hold.keep(stream, chunk)
            elif self._copy is not None:
                self._add_to_copy(self._copy, stream, chunk)
            if self._writers:
                self._write(stream, chunk)
        except Exception as error:  # noqa: BLE001 - exact bytes from here on
            self._stop_keeping(error)
        if self._hold is None:
            return self._outlet.show(stream, chunk)
        self._ends[stream] = chunk[-_END_BYTES:]
        if self._reduction is not None:
            try:
                self._reduction.feed(stream, chunk)
                if self._reduction.hopeless:
                    self._go_live()
            except Exception as error:  # noqa: BLE001 - the exact bytes are held
                self._problem(error)
                self._reduction = None
        return True

    def _show_question(self, paused_ms: float) -> None:
        """Go live when the command may be asking: it waits in the middle of a line.

        It reads the terminal, and whoever types there must see what it wants to know. A full
        buffer ends in the middle of a line too; so what looks like no question has more time.
        """
        for stream, end in enumerate(self._ends):
            asks = end.rstrip(b" ")[-1:] in _ASKING or paused_ms >= _LONG_PAUSE_MS
            if asks and end[-1:] != b"\n" and self._hold is not None and os.isatty(stream + 1):
                self._reduction = None
                self._go_live()

    def _go_live(self) -> None:
        """Show what was held, and the rest as it comes; what is held serves on as the copy."""
        self._copy = self._hold
        self._show_held(close=False)

    def _write(self, stream: int, chunk: bytes) -> None:
        if self._behind is not None:
            self._behind.put(stream, chunk)
            return
        writers = self._writers
        writers[stream].write(chunk)
        if sum(self._observed) >= _LARGE_BYTES:
            from yarp.spool.behind import Behind

            self._behind = Behind(lambda stream, chunk: writers[stream].write(chunk))

    def _share(self) -> tuple[Hold, Sequence[str]] | None:
        """Where everything is that came, and the program that keeps it should we be killed."""
        if self._record is None or not self._writers or not sys.executable:
            return None
        try:
            hold = self._hold or self._copy or self._new_copy(self._record.directory)
            if hold is None:
                return None
            hold.share()
        except (YarpError, OSError):
            return None  # the command goes on without it
        return hold, [*cache.interpreter(), "-m", "yarp.rescue", *self._record.words()]

    def _new_copy(self, directory: str) -> Hold | None:
        """A copy of what was shown so far; None when that is too much."""
        from yarp.spool.hold import Hold

        copy = Hold(directory)
        for stream, writer in enumerate(self._writers):
            shown = writer.in_memory()
            if shown is None:
                return None
            copy.keep(stream, shown)
        self._copy = copy
        return copy

    def _add_to_copy(self, copy: Hold, stream: int, chunk: bytes) -> None:
        try:
            if sum(self._observed) <= _COPY_BYTES:
                copy.keep(stream, chunk)
                return
        except StorageError:
            pass  # the streams themselves say what is wrong with the disk
        copy.give_up()
        copy.close()
        self._copy = None

    def _stop_keeping(self, error: Exception) -> None:
        """Show what was held back; the call stays `started`."""
        self._problem(error)
        self._writers = ()
        self._record = None
        self._reduction = None
        for spool in (self._hold, self._copy):
            if spool is not None:
                spool.give_up()
        self._show_held()

    def _show_held(self, *, close: bool = True) -> None:
        hold, self._hold = self._hold, None
        if hold is None:
            return
        try:
            hold.show(self._outlet.show)
        except (YarpError, OSError) as error:
            self._problem(error)
        if close:
            hold.close()

    # -- after it -----------------------------------------------------------------------------

    def _conclude(self, receipt: Receipt) -> None:
        """Commit the call and show what was held back, shortened or not."""
        before = self._finish_spools()
        summary = self._summary(receipt)
        receipt.observed = [*self._observed]
        receipt.shown = [*(self._observed if self._hold else self._outlet.shown)]
        if summary is not None:
            receipt.shortened = True
            receipt.shown = [len(summary.stdout), len(summary.stderr)]
        if before is not None and not self._commit(
            receipt, streams_of(before, summary, receipt.ended)
        ):
            summary = None
        if summary is None:
            self._show_held()
        else:
            self._outlet.show(_STDOUT, summary.stdout)
            self._outlet.show(_STDERR, summary.stderr)

    def _finish_spools(self) -> list[tuple[Payload, str]] | None:
        """The payloads of both streams; None when they are not kept."""
        if not self._writers:
            return None
        try:
            if self._behind is not None:
                self._behind.finish()
            return [(writer.finish(), writer.media_type) for writer in self._writers]
        except Exception as error:  # noqa: BLE001 - exact bytes go out instead
            self._stop_keeping(error)
            return None

    def _summary(self, receipt: Receipt) -> Summary | None:
        """The short answer; None: show the exact bytes."""
        if self._reduction is None:
            return None
        from yarp.reduce.engine import Recovery, Status

        completeness = "complete" if receipt.capture == "complete" else "incomplete"
        status = Status(receipt.status, receipt.status == 0)
        if self._plan is not None:
            status = self._plan.status(receipt.status)
        try:
            reference = None if self._record is None else self._record.reference()
            summary = self._reduction.finish(status, Recovery(reference, completeness, NAMES))
        except Exception as error:  # noqa: BLE001 - exact bytes go out instead
            self._problem(error)
            return None
        if summary.fault is not None:
            self._problems[summary.fault] = None
        return summary if summary.changed else None

    def _commit(self, receipt: Receipt, streams: Streams | None) -> bool:
        """Whether the archive has it all; True too when nothing is archived."""
        if self._record is None:
            return True
        try:
            self._record.finish(receipt, streams)
        except Exception as error:  # noqa: BLE001 - exact bytes go out instead
            self._problem(error)
            return False
        return True

    def _tell(self, tell: Callable[[], list[str]]) -> None:
        """Tell plugins what is committed; their faults are reported and change nothing."""
        try:
            self._problems.update(dict.fromkeys(tell()))
        except Exception as error:  # noqa: BLE001 - any fault of theirs
            self._problem(error)

    def _problem(self, error: Exception) -> None:
        self._problems[_reason(error)] = None


class _Outlet:
    """Our own stdout and stderr, and what became of their readers."""

    __slots__ = ("_closed", "_failed", "_gone", "shown")

    def __init__(self, closed: list[int]) -> None:
        """`closed` are the standard descriptors that we were started without."""
        self._closed = closed
        self._gone = [False, False]
        self._failed = [False, False]
        self.shown = [0, 0]

    def show(self, stream: int, data: bytes) -> bool:
        """Write to our stdout (0) or stderr (1); False once its reader went away."""
        if self._gone[stream] or self._failed[stream]:
            return self._failed[stream]
        if not data:
            return True
        try:
            write_all(-1 if stream + 1 in self._closed else stream + 1, data)
        except BrokenPipeError:
            self._gone[stream] = True
            return False
        except OSError as error:
            self._failed[stream] = True
            _say(f"{NAMES[stream]}: {error.strerror}")
            return True
        self.shown[stream] += len(data)
        return True

    def status(self, status: int) -> int:
        """The status to end with, given the command's."""
        if self._gone[_STDOUT]:
            return _READER_GONE
        return _IO_ERROR if status == 0 and any(self._failed) else status


def _has_script(argv: list[str]) -> bool:
    """Whether a command might be a shell with a text of its own: `bash -lc '...'`."""
    return any(word[:1] == "-" and word[-1] == "c" for word in argv)


def _receipt(status: int, signal: int | None, ending: Ending) -> Receipt:
    if all(ending.ended):
        return Receipt(status, signal, "complete", None)
    reason = "drain-timeout" if ending.held_open else "reader-closed"
    receipt = Receipt(status, signal, "partial", reason)
    receipt.ended = ending.ended
    return receipt


def _reason(error: Exception) -> str:
    if isinstance(error, (YarpError, OSError)):
        return str(error)
    return f"a fault of YARP ({type(error).__name__}); the command is not affected"


def _say(text: str) -> None:
    try:
        write_all(2, f"yarp: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody reads it
