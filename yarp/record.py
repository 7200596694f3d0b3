"""The call of a `yarp run` in the archive: begun here, or by a host.

Source: seed 000, Records and Write lifecycle; spec "Archive", `yarp run`; spec "Receipts".
"""

from __future__ import annotations

import os
import time

from yarp import canonical, paths, payload
from yarp.archive.write import Archive, CallFacts, SessionKey, Streams
from yarp.errors import ReferenceUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.argv import RunOptions
    from yarp.cache import Compiled
    from yarp.payload import Payload
    from yarp.reduce.engine import Summary

NAMES = ("stdout", "stderr")


class Receipt:
    """What was captured of a run; a count that is unknown is None. Source: spec "Receipts"."""

    __slots__ = ("capture", "observed", "reason", "shortened", "shown", "signal", "status")

    def __init__(self, status: int, signal: int | None, capture: str, reason: str | None) -> None:
        self.status = status
        self.signal = signal
        self.capture = capture
        self.reason = reason
        self.shortened = False
        unknown = capture == "disabled"
        self.observed: list[int | None] = [None, None] if unknown else [0, 0]
        self.shown: list[int | None] = [None, None] if unknown else [0, 0]

    def result(self) -> dict[str, object]:
        """The call's result, as JSON."""
        streams = {
            name: {"observed": self.observed[n], "accepted": self.observed[n], "shown": self.shown[n]}
            for n, name in enumerate(NAMES)
        }
        receipt = {
            "process": "exited",
            "signal": self.signal,
            "capture": self.capture,
            "captureReason": self.reason,
            "representation": "binary",
            "shortened": self.shortened,
            "streams": streams,
        }
        return {"exitCode": self.status, "receipt": receipt}


class Record:
    """The call in the archive: begun here before the command starts, or by a host."""

    __slots__ = ("_archive", "_call_id", "_callbacks", "_hosted", "_path", "_reference", "_session")

    def __init__(self, compiled: Compiled, options: RunOptions, *, requires_streams: bool) -> None:
        self._path = paths.archive_file(compiled.settings.archive_path)
        self._hosted = options.host is not None
        self._callbacks = compiled.callbacks
        self._reference: str | None = None
        self._archive: Archive | None = None
        if options.host is not None:
            agent, account, source_session_id, self._call_id = options.host
            self._session = SessionKey(agent, account, source_session_id)
            return
        self._session = SessionKey("yarp", _account(), _session_id())
        self._call_id = os.urandom(16).hex()
        self._begin(options, requires_streams=requires_streams)

    @property
    def directory(self) -> str:
        """Where spools are made."""
        return os.path.dirname(self._path)

    def reference(self) -> str:
        """The call's archive reference."""
        if self._reference is None:
            from yarp.archive.read import Reader

            reader = Reader.open(self._path)
            key = self._session
            row = reader.find(key.agent, key.account, key.source_session_id, self._call_id)
            reader.close()
            if row is None:
                raise ReferenceUnknown(f"call {self._call_id} is not in the archive")
            self._reference = row.archive_ref
        return self._reference

    def finish(self, receipt: Receipt, streams: Streams | None) -> None:
        """Commit what there is to commit, in one transaction."""
        now = _now_ms()
        if self._hosted:
            if streams is not None:
                self._open().record_streams(self._session, self._call_id, streams, now)
            return
        result = receipt.result()
        body = payload.of_json(result)
        is_error = receipt.status != 0
        self._open().finish_run(self._session, self._call_id, streams, body, body, is_error, now)
        if self._callbacks.get("yarp_call_finished"):
            self._tell(self._tell_finished, result, receipt.status, now)

    def _begin(self, options: RunOptions, *, requires_streams: bool) -> None:
        given: dict[str, object] = (
            {"argv": options.argv} if options.text is None else {"command": options.text}
        )
        try:
            directory: str | None = os.getcwd()
        except OSError:  # somebody removed it
            directory = None
        now = _now_ms()
        facts = CallFacts(
            self._call_id,
            "run",
            working_directory=directory,
            started_at_ms=now,
            requires_streams=requires_streams,
        )
        body = _json_payload(given)
        self._reference = self._open().begin_call(self._session, facts, body, body, now)
        if self._callbacks.get("yarp_call_started"):
            self._tell(self._tell_started, given, facts)

    def _open(self) -> Archive:
        if self._archive is None:
            narrow = os.path.dirname(self._path) == paths.data_dir()
            self._archive = Archive.open(self._path, narrow=narrow)
        return self._archive

    @staticmethod
    def _tell(tell: Callable[..., None], *facts: object) -> None:
        try:
            tell(*facts)
        except Exception as error:  # noqa: BLE001 - it is committed; plugins change nothing about it
            _say(_reason(error))

    def _tell_started(self, given: object, facts: CallFacts) -> None:
        from yarp import plugins
        from yarp.types import CallStarted

        plugins.call_started(
            CallStarted(
                self._session.source_session_id,
                self._call_id,
                facts.tool_name,
                given,
                agent=self._session.agent,
                account=self._session.account,
                working_directory=facts.working_directory,
                started_at_ms=facts.started_at_ms,
                archive_ref=self._reference,
            )
        )

    def _tell_finished(self, result: object, status: int, now: int) -> None:
        from yarp import plugins
        from yarp.types import CallEnded

        plugins.call_finished(
            CallEnded(
                self._session.source_session_id,
                self._call_id,
                result,
                status != 0,
                agent=self._session.agent,
                account=self._session.account,
                exit_code=status,
                executed=True,
                finished_at_ms=now,
                archive_ref=self._reference,
            )
        )


def streams_of(before: list[tuple[Payload, str]], summary: Summary | None) -> Streams:
    """The four stream snapshots: what came, and what is shown of it."""
    after = before
    if summary is not None:
        after = [(payload.of(text), payload.TEXT) for text in (summary.stdout, summary.stderr)]
    return Streams(before[0], after[0], before[1], after[1])


def _json_payload(value: object) -> Payload:
    """The payload of an input; words that are no Unicode are kept as the text of their JSON."""
    try:
        return payload.of_json(value)
    except canonical.NotCanonical:
        import json

        return payload.of(canonical.encode_text(json.dumps(value)))


def _account() -> str:
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    if name:
        return name
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _session_id() -> str:
    """A session for each terminal, else for each parent process, told apart by its start."""
    name, leader = "process", os.getppid()
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor):
            name, leader = os.ttyname(descriptor), os.getsid(0)
            break
    try:
        with open(f"/proc/{leader}/stat", "rb") as file:
            started = file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        started = "unknown"
    return f"{name}:{leader}:{started}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
