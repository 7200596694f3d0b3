"""The calls of a session, as its frames tell them: ended in steps.

Source: seed 000, Write lifecycle; seed 001, Ingest process.
"""

from __future__ import annotations

import os

from yarp import paths, payload
from yarp.capture import OFF, Capture, Shortened, parsed
from yarp.errors import ConfigError
from yarp.types import CallEnded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.archive.read import CallRow, Source
    from yarp.archive.steps import SteppedArchive
    from yarp.archive.write import SessionKey
    from yarp.cache import Compiled
    from yarp.payload import Payload

_READ_BYTES = 1 << 20


class Calls(Capture):
    """The calls of one session, from before they run to their final result."""

    def __init__(self, compiled: Compiled, program: tuple[str, ...]) -> None:
        super().__init__(compiled, program)
        self._stepped: SteppedArchive | None = None

    def close(self) -> None:
        """Leave a checkpointed archive behind."""
        if self._reader is not None:
            self._reader.close()
        if self._stepped is not None:
            self._stepped.close()

    def _writer(self) -> SteppedArchive:
        """The archive, opened for the first call."""
        if not self.settings.archive_enabled:
            raise ConfigError(OFF)
        if self._stepped is None:
            from yarp.archive.steps import SteppedArchive

            narrow = os.path.dirname(self._path) == paths.data_dir()
            self._stepped = SteppedArchive.open(self._path, narrow=narrow)
        return self._stepped

    def result_before(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        full_output_path: str | None,
        captured_at_ms: int,
    ) -> None:
        """Commit the result as the host gave it, and the file that holds its whole output.

        The path counts only for the host's own shell tool.
        """
        archive = self._writer()
        output: Payload | None = None
        media_type = payload.BINARY
        if full_output_path is not None and self._is_shell_call(session, source_call_id):
            output, media_type = payload.of_file(full_output_path, os.path.dirname(self._path))
        try:
            archive.result_before(
                session, source_call_id, payload.of(result), output, media_type, captured_at_ms
            )
        finally:
            if output is not None:
                output.close()

    def result_text(
        self,
        session: SessionKey,
        source_call_id: str,
        text: str,
        completeness: str,
        captured_at_ms: int,
    ) -> str:
        """Commit the text that the host would have shown; the call's archive reference."""
        whole = payload.of(payload.utf8(text))
        return self._writer().result_text(
            session, source_call_id, whole, completeness, captured_at_ms
        )

    def stage(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        captured_at_ms: int,
        *,
        is_error: bool,
    ) -> None:
        """Commit the provisional result; the call stays started."""
        self._writer().stage_result(
            session, source_call_id, payload.of(result), is_error, captured_at_ms
        )

    def update_final(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        finished_at_ms: int,
        *,
        is_error: bool,
    ) -> None:
        """Commit the final result in place of the provisional one, and finish the call."""
        self._writer().update_final_result(
            session, source_call_id, payload.of(result), is_error, finished_at_ms
        )
        self._finished(session, source_call_id, result)

    def finish(
        self,
        session: SessionKey,
        source_call_id: str,
        result: bytes,
        finished_at_ms: int,
        *,
        is_error: bool,
        require_pre_result: bool,
    ) -> None:
        """Finish a call that has no provisional result (a tool that never ran, above all)."""
        self._writer().finish_call(
            session,
            source_call_id,
            payload.of(result),
            is_error,
            require_pre_result,
            finished_at_ms,
        )
        self._finished(session, source_call_id, result)

    def _finished(self, session: SessionKey, source_call_id: str, result: bytes) -> None:
        if not self._compiled.callbacks.get("yarp_call_finished"):
            return
        row = self._row(session, source_call_id)
        before = self._archived().snapshot(row.call_id, "result", "before")
        whole = result if before is None else self._archived().payload(before.sha256)
        self.tell(
            "yarp_call_finished",
            CallEnded(
                session.source_session_id,
                source_call_id,
                parsed(whole),
                bool(row.is_error),
                agent=session.agent,
                account=session.account,
                executed=None if row.executed is None else bool(row.executed),
                finished_at_ms=row.finished_at_ms,
                archive_ref=row.archive_ref,
            ),
        )

    def reduce(
        self,
        session: SessionKey,
        source_call_id: str,
        command: str,
        text: str,
        completeness: str,
        *,
        is_error: bool,
        exit_code: int | None,
        ending: str = "",
    ) -> Shortened | None:
        """A summary of a result that was not wrapped, or None to show it as it is.

        Reads the committed `source_output` where there is one, else `text`. `ending` is what the
        host itself put behind the output; it stays at the end.
        """
        if not (self.settings.archive_enabled and self.settings.pruning_enabled):
            return None
        from yarp import shorten
        from yarp.reduce import plan as plans

        row = self._row(session, source_call_id)
        planned = plans.plan(command, self._compiled.rules_for(row.working_directory))
        reduction = shorten.reduction_of(planned, self._compiled)
        if reduction is None:
            return None
        whole = self._source_output(row)
        source = "result_text" if whole is None else "source_output"
        if whole is None:
            reduction.feed(0, payload.utf8(text.removesuffix(ending)))
        else:
            completeness = "complete"
            descriptor = self._archived().payload_file(whole.sha256, os.path.dirname(self._path))
            try:
                while chunk := os.read(descriptor, _READ_BYTES):
                    reduction.feed(0, chunk)
            finally:
                os.close(descriptor)
        success = not is_error if exit_code is None else exit_code == 0
        status = planned.status(exit_code, success=success)
        short = shorten.summary_of(reduction, status, row.archive_ref, completeness, source)
        return None if short is None else Shortened(short + ending, source)

    def _source_output(self, row: CallRow) -> Source | None:
        found = self._archived().snapshot(row.call_id, "source_output", "before")
        return found if found is not None and found.media_type != payload.BINARY else None

    def _is_shell_call(self, session: SessionKey, source_call_id: str) -> bool:
        return (
            self._row(session, source_call_id).tool_name
            in self._compiled.host(session.agent)["shell_tools"]
        )
