"""The short text of one result, made while its whole output is read.

Source: seed 000, Write lifecycle; spec "Reduction", Order of things.
"""

from __future__ import annotations

import sys

from yarp.payload import utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.cache import Compiled
    from yarp.reduce.engine import Reduction, Status
    from yarp.reduce.plan import Plan

# What the cap holds in memory to choose from; of more, it takes the part that the host shows.
HELD_BYTES = 16 << 20


def reduction_of(planned: Plan, compiled: Compiled) -> Reduction | None:
    """The reduction of a text in which both streams are one; None where no rule knows it."""
    if planned.selection is None or not compiled.settings.pruning_enabled:
        return None
    from yarp.reduce.engine import Reduction

    if planned.shape is not None:
        planned.shape.merged = True
    return Reduction(planned.selection, compiled.settings, compiled.candidates, planned.shape)


def summary_of(
    reduction: Reduction, status: Status, archive_ref: str, completeness: str, source: str
) -> str | None:
    """What a reduction that was fed the text of `source` makes of it; None: no shorter one."""
    from yarp.reduce.engine import Recovery

    summary = reduction.finish(status, Recovery(archive_ref, completeness, (source, source)))
    if summary.fault is not None:
        sys.stderr.write(f"yarp: {summary.fault}\n")
    return summary.stdout.decode() if summary.changed else None


class Shortener:
    """A summary where a rule knows the command, within the global cap; else nothing.

    Feed it the tool's whole output where the host keeps that in a file; without, it takes the
    text that the host shows.
    """

    __slots__ = ("_bytes_fed", "_compiled", "_held", "_plan", "_reduction", "_reference")

    def __init__(
        self,
        compiled: Compiled,
        archive_ref: str,
        command: str | None,
        working_directory: str | None,
    ) -> None:
        """`command` is the text that ran in a shell; None for another tool."""
        self._compiled = compiled
        self._reference = archive_ref
        self._plan: Plan | None = None
        self._reduction: Reduction | None = None
        self._held: list[bytes] = []
        self._bytes_fed = 0
        if command is None:
            return
        from yarp.reduce.plan import plan

        self._plan = plan(command, compiled.rules_for(working_directory))
        self._reduction = reduction_of(self._plan, compiled)

    @property
    def recovers(self) -> bool:
        """Whether the command is one of YARP's own, whose answer stays as it is."""
        return self._plan is not None and self._plan.recovery

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the whole output."""
        self._bytes_fed += len(chunk)
        if self._bytes_fed <= HELD_BYTES:
            self._held.append(chunk)
        else:
            self._held.clear()
        if self._reduction is not None:
            try:
                self._reduction.feed(0, chunk)
            except Exception as error:  # noqa: BLE001 - the output itself must be read to its end
                sys.stderr.write(f"yarp: the summary raised {type(error).__name__}\n")
                self._reduction = None

    def finish(
        self,
        text: str,
        completeness: str,
        ending: str,
        *,
        binary: bool,
        success: bool,
        exit_code: int | None,
    ) -> tuple[str, str] | None:
        """The short text and the source that has what it leaves out; None: show `text`.

        `text` is what the host shows, and `ending` what it put behind that. `binary`: what was
        fed is no text, and the host's is taken after all.
        """
        if self.recovers:
            return None
        fed = self._bytes_fed > 0 and not binary
        source, known = ("source_output", "complete") if fed else ("result_text", completeness)
        content = None
        if self._reduction is not None and (fed or not self._bytes_fed):
            if not fed:
                self._reduction.feed(0, utf8(text.removesuffix(ending)))
            content = self._summary(self._reduction, source, known, ending, success, exit_code)
        shown = text if content is None else content
        budget = self._compiled.settings.output_cap_bytes
        if 0 < budget < len(utf8(shown)):
            from yarp.reduce.cap import cap

            if content is None and fed:
                if self._held:
                    shown = b"".join(self._held).decode() + ending
                else:
                    source, known = "result_text", completeness
            room = budget - len(utf8(ending))
            text, exact = shown.removesuffix(ending), content is None
            short = cap(text, room, self._reference, source, known, exact=exact)
            content = short + ending
        return None if content is None else (content, source)

    def _summary(
        self,
        reduction: Reduction,
        source: str,
        completeness: str,
        ending: str,
        success: bool,
        exit_code: int | None,
    ) -> str | None:
        from yarp.reduce.engine import Status

        status = Status(exit_code, success)
        if self._plan is not None:
            status = self._plan.status(exit_code, success=success)
        summary = summary_of(reduction, status, self._reference, completeness, source)
        return None if summary is None else summary + ending
