"""A child and its two pipes: the one reader of a child's output in this code base.

The child runs without a shell, in its own process group, and signals reach it. Its pipes are
read to the end whatever becomes of the bytes, so that it never waits for YARP. Statuses are a
shell's: 128 + N for signal N, 127 and 126 for a program that is not there or cannot run.
Source: spec "Archive", `yarp run`; spec "Receipts", Parts.
"""

from __future__ import annotations

import _signal
import _thread
import errno
import os
import select
import time

from yarp.paths import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yarp.spool.guard import Guard
    from yarp.spool.hold import Hold

# A descendant may hold a pipe after the child is gone. What the child itself wrote is all in
# the pipe by then, so this much silence ends the reading; and so does this much time, when a
# descendant goes on writing.
DRAIN_SILENCE_MS = 500
DRAIN_TOTAL_MS = 5000

_PIPE_BYTES = 1 << 16  # what Linux gives a pipe
_LARGE_PIPE_BYTES = 1 << 20  # what it gives to everybody who asks
_F_SETPIPE_SZ = 1031
_POLL_CHILD_MS = 20
_GUARD_AFTER_MS = 300
_PAUSE_MS = 900
_STANDARD = (0, 1, 2)
_ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)
_FORWARDED = (*_ENDING, _signal.SIGUSR1, _signal.SIGUSR2)
# A run whose command is gone after such a signal has this long to commit and to show.
_GRACE_MS = 2000
_GRACE_STEP_MS = 500
# Python ignores these and a program would inherit that: `yes` would never end.
_RESET = (_signal.SIGPIPE, _signal.SIGXFSZ)


class NotStarted(Exception):
    """The program cannot be started; `status` is what a shell would end with."""

    def __init__(self, program: str, error: OSError | ValueError) -> None:
        if isinstance(error, OSError):
            missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            what = "not found" if missing else error.strerror
        else:  # an empty name
            missing, what = True, "not found"
        super().__init__(f"{program or repr(program)}: {what}")
        self.status = 127 if missing else 126


class Ending:
    """How the reading ended: `ended[n]` is True when stream n (0 stdout, 1 stderr) had its EOF.

    `held_open` says that a descendant still had a pipe when the drain window closed, and
    `drained` that somebody reads on for it, so that it does not end of a closed pipe.
    """

    __slots__ = ("drained", "ended", "held_open")

    def __init__(self) -> None:
        self.ended = [False, False]
        self.held_open = False
        self.drained = False


class Child:
    """A started command.

    With `piped`, its stdout and stderr are pipes for `read`; otherwise it has ours. It shares
    our process group when stdin is a terminal, which would stop it on reading from another;
    `from_terminal` signals have reached it there already.

    `share`, where the caller sets it, is asked once the child has lasted: for the spool that
    takes every chunk of `read`, and the program that keeps it should this process be killed.
    `on_pause(ms)`, where it is set, is called again and again while the child lives and has
    printed nothing for so long, about a second at least.
    """

    __slots__ = (
        "_began",
        "_guard",
        "_guarded",
        "_interrupts",
        "_lock",
        "_mask",
        "_piped",
        "_reaped",
        "_shared",
        "_spool",
        "on_pause",
        "pid",
        "pipes",
        "share",
        "signal",
    )

    def __init__(self, argv: Sequence[str], *, piped: bool, closed: Sequence[int] = ()) -> None:
        """`closed` are the standard descriptors that the caller was started without."""
        self._piped = piped
        # One that has our terminal must be in its foreground, wherever stdin comes from.
        self._shared = os.isatty(0) or (not piped and os.isatty(1))
        self._began = time.monotonic()
        self._interrupts = 0
        self._guard: Guard | None = None
        # Without pipes, whoever kills our group kills the command, and nothing of it is kept.
        self._guarded = self._shared and not piped
        self._spool: Hold | None = None
        self.share: Callable[[], tuple[Hold, Sequence[str]] | None] | None = None
        self.on_pause: Callable[[float], object] | None = None
        self._reaped = False
        self.signal: int | None = None
        self._lock = _thread.allocate_lock()
        # Blocked here and taken by one thread, a signal is never lost and never cuts a write.
        self._mask = _signal.pthread_sigmask(
            _signal.SIG_BLOCK,
            [s for s in _FORWARDED if _signal.getsignal(s) is not _signal.SIG_IGN],
        )
        actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_CLOSE, fd) for fd in closed]
        ends: list[tuple[int, int]] = [os.pipe(), os.pipe()] if piped else []
        actions += [(os.POSIX_SPAWN_DUP2, ends[n][1], n + 1) for n in range(len(ends))]
        self.pipes = [reading for reading, _ in ends]
        try:
            self.pid = os.posix_spawnp(
                argv[0],
                list(argv),
                environment(),
                file_actions=actions,
                setsigmask=self._mask,
                setsigdef=_RESET,
                **({} if self._shared else {"setpgroup": 0}),  # type: ignore[arg-type]
            )
        except (OSError, ValueError) as error:
            for reading in self.pipes:
                os.close(reading)
            _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)
            raise NotStarted(argv[0], error) from None
        finally:
            for _, writing in ends:
                os.close(writing)
        try:
            _thread.start_new_thread(self._forward, ())
        except RuntimeError:  # no thread to be had: a signal ends us, and then the guard the child
            _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)

    def read(self, take: Callable[[int, bytes], bool]) -> Ending:
        """Read both pipes until they end or the drain window closes; once only.

        What still holds a pipe then goes on, and what it writes goes nowhere.
        `take(stream, chunk)` gets every chunk as it arrives; when it returns False the child's
        pipe is closed, as a reader that goes away does it.
        """
        ending = Ending()
        poll = select.poll()
        reading = {pipe: stream for stream, pipe in enumerate(self.pipes)}
        sizes = dict.fromkeys(self.pipes, _PIPE_BYTES)
        watch = self._watch()
        for descriptor in (*self.pipes, watch):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        drain: _Drain | None = None
        heard = self._began
        while reading:
            if not self._guarded and (time.monotonic() - self._began) * 1000 >= _GUARD_AFTER_MS:
                self._set_guard()
            if drain:
                ready = drain.poll(poll)
                if not ready:
                    ending.held_open = True
                    break
            else:
                patient = self._guarded and self.on_pause is None
                timeout = None if patient else _GUARD_AFTER_MS
                ready = poll.poll(timeout if watch >= 0 else _POLL_CHILD_MS)
                if self.on_pause is not None:
                    now = time.monotonic()
                    if ready:
                        heard = now
                    elif (now - heard) * 1000 >= _PAUSE_MS:
                        self.on_pause((now - heard) * 1000)
            for descriptor, _ in ready:
                if descriptor == watch:
                    poll.unregister(watch)
                    drain = _Drain()
                    continue
                if self._spool is not None:
                    self._spool.coming()
                chunk = os.read(descriptor, sizes[descriptor])
                if drain:
                    drain.byte_length += len(chunk)
                if not chunk:
                    ending.ended[reading[descriptor]] = True
                    if self._spool is not None:
                        self._spool.settled()
                elif take(reading[descriptor], chunk):
                    if len(chunk) == _PIPE_BYTES == sizes[descriptor]:
                        sizes[descriptor] = enlarge(descriptor)
                    continue
                poll.unregister(descriptor)
                os.close(descriptor)
                self.pipes[reading.pop(descriptor)] = -1
                if chunk and self._guard is not None:
                    # It holds the pipe too, and the command must notice that its reader left.
                    self.dismiss()
                    self._set_guard()
            if watch < 0 and not drain and self._has_exited():
                drain = _Drain()
        if ending.held_open:
            from yarp.spool.drainer import drain_to_the_end

            ending.drained = drain_to_the_end(reading)
        for descriptor in (*reading, watch):
            if descriptor >= 0:
                os.close(descriptor)
        self.pipes = [-1, -1]
        return ending

    def wait(self) -> int:
        """The status of the child, once it has exited.

        `signal` is then the number that ended it, if one did.
        """
        if not self._guarded and not self._exits_soon():
            self._set_guard()
        # The lock keeps its number from being signalled after the system has given it away.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._reaped = True
            _, status = os.waitpid(self.pid, 0)
        if self._guard is not None:
            self._guard.leave()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            self.signal = -code
            return 128 - code
        return code

    def dismiss(self) -> None:
        """Call the guard off: what `read` gave is safe, or shown."""
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    def _set_guard(self) -> None:
        from yarp.spool.guard import Guard

        self._guarded = True
        shared = self.share() if self.share is not None else None
        if shared is None:
            self._guard = Guard(self.pid, (), ())
            return
        self._spool, words = shared
        descriptors = [self._spool.share(), *self.pipes]
        rescue = [*words, *map(str, descriptors)]
        self._guard = Guard(self.pid, rescue, [each for each in descriptors if each >= 0])

    def _watch(self) -> int:
        """A descriptor that is readable once the child has exited, or -1."""
        try:
            return os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # no Linux, an old one, or a sandbox that forbids it
            return -1

    def _exits_soon(self) -> bool:
        """Whether the child exits before it is worth a guard; most do, once their pipes ended."""
        watch = self._watch()
        if watch < 0:
            return self._has_exited()
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        ready = poll.poll(_GUARD_AFTER_MS)
        os.close(watch)
        return bool(ready)

    def _has_exited(self) -> bool:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, options) is not None

    def _forward(self) -> None:
        """Hand signals on; end a run that was told to end and cannot, its reader being stuck."""
        told = 0
        deadline: float | None = None
        while True:
            number, from_terminal = _next_signal(_GRACE_STEP_MS if told else None)
            with self._lock:
                gone = self._reaped or (told > 0 and self._has_exited())
                if number and not self._reaped:
                    self._send(number, from_terminal=from_terminal)
            if number in _ENDING:
                told = number
            if gone and told and deadline is None:
                deadline = time.monotonic() + _GRACE_MS / 1000
            if deadline is not None and time.monotonic() >= deadline:
                if self._guard is not None:
                    self._guard.leave()
                os._exit(128 + told)  # what is neither shown nor committed is the guard's

    def _send(self, number: int, *, from_terminal: bool) -> None:
        self._interrupts += number == _signal.SIGINT
        # With the terminal its own, the child decides what a second one means.
        if self._interrupts > 1 and number == _signal.SIGINT and self._piped:
            number, from_terminal = _signal.SIGKILL, False
        if self._shared and from_terminal:
            return  # the terminal has told its whole group
        try:
            if self._shared:
                os.kill(self.pid, number)
            else:
                os.killpg(self.pid, number)
        except OSError:
            pass  # it is gone


class _Drain:
    """The time after the child's exit in which its pipes are still read."""

    __slots__ = ("_began", "_waited", "byte_length")

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._waited = 0.0
        self.byte_length = 0

    def poll(self, poll: select.poll) -> list[tuple[int, int]]:
        """What is ready; nothing once the window has closed."""
        before = time.monotonic()
        ready = poll.poll(DRAIN_SILENCE_MS)
        now = time.monotonic()
        self._waited += now - before
        # Time that a slow reader of ours takes does not count until the child's own bytes, at
        # most what two pipes hold, are through.
        own_bytes_are_in = self.byte_length > 2 * _LARGE_PIPE_BYTES
        spent = now - self._began if own_bytes_are_in else self._waited
        return [] if spent * 1000 > DRAIN_TOTAL_MS else ready


def open_standard_streams() -> list[int]:
    """Fill closed standard descriptors, so that no file of ours gets their numbers; which."""
    closed = []
    for descriptor in _STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            closed.append(descriptor)
            os.open(os.devnull, os.O_RDWR)
    return closed


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data`, waiting for a slow reader, whatever the descriptor's mode."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # somebody we share it with made it non-blocking
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


def enlarge(pipe: int) -> int:
    """Let a busy pipe hold more; how much to read from it at once."""
    try:
        import fcntl

        return int(fcntl.fcntl(pipe, _F_SETPIPE_SZ, _LARGE_PIPE_BYTES))
    except (ImportError, OSError):
        return _PIPE_BYTES


def _next_signal(timeout_ms: int | None) -> tuple[int, bool]:
    """Wait for a signal: its number (0: none came in time), and whether a terminal sent it."""
    try:
        if timeout_ms is None:
            found = _signal.sigwaitinfo(_FORWARDED)
        else:
            found = _signal.sigtimedwait(_FORWARDED, timeout_ms / 1000)
    except AttributeError:  # not on every POSIX system
        return int(_signal.sigwait(_FORWARDED)), True
    return (found.si_signo, found.si_code > 0) if found else (0, False)
