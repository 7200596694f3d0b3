"""`yarp archive ingest`: serves one host session over standard input and output.

One JSON line answers each frame. A refused operation is answered and the process goes on; a
malformed frame ends it with exit status 74 and no answer; the end of input between two frames
ends it with 0. Source: seed 001, "Ingest process"; spec "Archive", Ingest.
"""

from __future__ import annotations

import os
import sys

from yarp import paths
from yarp.errors import DataError, FrameError, YarpError
from yarp.ingest.frames import parse, read_frames
from yarp.spool.stream import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from yarp.archive.write import SessionKey
    from yarp.capture import Shortened
    from yarp.ingest.calls import Calls
    from yarp.ingest.frames import Json, Request

SCHEMA_VERSION = 1
PROTOCOL = 1
_HELP = """Usage: yarp archive ingest

Examples:
  yarp archive ingest < frames

Serve one host session: frames on standard input, one JSON line an answer on standard output.
A host's extension starts it; see docs/reference/ingest.md for the frames.
"""


def main(argv: list[str]) -> int:
    """Serve until the peer closes; `argv` is the whole command line."""
    if len(argv) > 3:
        try:
            write_all(1, _HELP.encode())
        except OSError as error:
            sys.stderr.write(f"yarp: standard output: {error.strerror}\n")
            return 74
        return 0 if argv[3] in ("-h", "--help") else 64
    import _signal

    # The terminal's interrupt reaches the whole process group; the session goes on without it.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    frames, answers = _reserve()
    server = Server(paths.program(argv[0]))
    try:
        for frame in read_frames(frames):
            write_all(answers, server.answer(frame) + b"\n")
    except (FrameError, OSError) as error:
        sys.stderr.write(f"yarp: ingest ends: {error}\n")
        return 74
    finally:
        server.close()
    return 0


def _reserve() -> tuple[int, int]:
    """Descriptors of our own for the frames and the answers.

    The standard ones are left to plugins and whatever they start: nothing to read, and stderr.
    """
    frames, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return frames, answers


class Server:
    """Answers frames; what it needs is loaded with the first one."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self._program = program
        self._calls: Calls | None = None

    def answer(self, frame: bytes | bytearray) -> bytes:
        """The answer to one frame, without its newline. FrameError for a malformed one."""
        request = parse(frame)
        reply: dict[str, object] = {"requestId": request.request_id, "ok": True}
        try:
            _check_version(request)
            operation = _OPERATIONS[request.operation]
            reply.update(operation(self._loaded(), _session(request), request))
        except YarpError as error:
            reply = {"requestId": request.request_id, "ok": False, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - a fault of ours must not lose the session
            kind = type(error).__name__
            reply = {
                "requestId": request.request_id,
                "ok": False,
                "error": f"{request.operation} failed inside YARP ({kind})",
            }
        return _dump(reply)

    def _loaded(self) -> Calls:
        if self._calls is None:
            from yarp import cache
            from yarp.ingest.calls import Calls

            self._calls = Calls(cache.load(), self._program)
        return self._calls

    def close(self) -> None:
        """Close the archive, if this session used it."""
        if self._calls is not None:
            self._calls.close()


def _check_version(request: Request) -> None:
    if request.schema_version != SCHEMA_VERSION:
        raise DataError(
            f"schemaVersion {request.schema_version} is not supported; "
            f"this program speaks {SCHEMA_VERSION}"
        )


def _dump(reply: dict[str, object]) -> bytes:
    """One line of JSON; what orjson refuses in a host's own input is escaped instead."""
    import orjson

    try:
        return orjson.dumps(reply)
    except TypeError:  # a lone surrogate, an integer beyond 64 bits
        import json

        return json.dumps(reply, separators=(",", ":")).encode()


def _session(request: Request) -> SessionKey:
    from yarp.archive.write import SessionKey

    found = request.session
    return SessionKey(
        _text(found["agent"]),
        _text(found["account"]),
        _text(found["sourceSessionId"]),
        _optional_int(found["startedAtMs"]),
    )


# The frame's types were checked by `parse`; these only tell the type checker so.
def _text(value: object) -> str:
    assert isinstance(value, str)  # noqa: S101
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _int(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101
    return value


def _optional_int(value: object) -> int | None:
    return None if value is None else _int(value)


def _bytes(value: object) -> bytes:
    json: Json = value  # type: ignore[assignment]  # as above
    return json.canonical()


def _hello(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:  # noqa: ARG001
    settings = calls.settings
    return {
        "protocol": PROTOCOL,
        "archiveEnabled": settings.archive_enabled,
        "pruningEnabled": settings.pruning_enabled,
        "capBytes": settings.output_cap_bytes,
    }


def _plan(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    call: dict[str, object] = request.fields["call"]  # type: ignore[assignment]  # checked by parse
    tool_input: Json = request.fields["input"]  # type: ignore[assignment]  # as above
    plan = calls.plan(
        session,
        _text(call["sourceCallId"]),
        _text(call["toolName"]),
        tool_input.value,
        _optional_text(call["workingDirectory"]),
    )
    reply: dict[str, object] = {
        "result": "recovery" if plan.recovery else "ordinary",
        "requiresStreams": plan.requires_streams,
    }
    if plan.input is not None:
        reply["input"] = plan.input
    return reply


def _begin_call(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    from yarp.archive.write import CallFacts

    fields = request.fields
    call: dict[str, object] = fields["call"]  # type: ignore[assignment]  # checked by parse
    facts = CallFacts(
        _text(call["sourceCallId"]),
        _text(call["toolName"]),
        provider=_optional_text(call["provider"]),
        model=_optional_text(call["model"]),
        working_directory=_optional_text(call["workingDirectory"]),
        started_at_ms=_int(call["startedAtMs"]),
        requires_streams=bool(call["requiresStreams"]),
    )
    before, after = _bytes(fields["inputBefore"]), _bytes(fields["inputAfter"])
    return {"archiveRef": calls.begin(session, facts, before, after, _int(fields["capturedAtMs"]))}


def _result_before(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    calls.result_before(
        session,
        _text(fields["sourceCallId"]),
        _bytes(fields["result"]),
        _optional_text(fields["fullOutputPath"]),
        _int(fields["capturedAtMs"]),
    )
    return {}


def _result_text(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    reference = calls.result_text(
        session,
        _text(fields["sourceCallId"]),
        _text(fields["text"]),
        _text(fields["sourceCompleteness"]),
        _int(fields["capturedAtMs"]),
    )
    return {"archiveRef": reference}


def _stage_result(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    calls.stage(
        session,
        _text(fields["sourceCallId"]),
        _bytes(fields["result"]),
        _int(fields["capturedAtMs"]),
        is_error=bool(fields["isError"]),
    )
    return {}


def _update_final_result(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    calls.update_final(
        session,
        _text(fields["sourceCallId"]),
        _bytes(fields["result"]),
        _int(fields["finishedAtMs"]),
        is_error=bool(fields["isError"]),
    )
    return {}


def _finish_call(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    calls.finish(
        session,
        _text(fields["sourceCallId"]),
        _bytes(fields["result"]),
        _int(fields["finishedAtMs"]),
        is_error=bool(fields["isError"]),
        require_pre_result=bool(fields["requirePreResult"]),
    )
    return {}


def _shortened(found: Shortened | None) -> dict[str, object]:
    if found is None:
        return {"changed": False, "needsResultText": False}
    return {
        "changed": True,
        "content": found.content,
        "source": found.source,
        "needsResultText": found.source == "result_text",
    }


def _reduce(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    return _shortened(
        calls.reduce(
            session,
            _text(fields["sourceCallId"]),
            _text(fields["command"]),
            _text(fields["text"]),
            _text(fields["sourceCompleteness"]),
            is_error=bool(fields["isError"]),
            exit_code=_optional_int(fields["exitCode"]),
            ending=_optional_text(fields["ending"]) or "",
        )
    )


def _cap(calls: Calls, session: SessionKey, request: Request) -> dict[str, object]:
    fields = request.fields
    return _shortened(
        calls.cap(
            session,
            _text(fields["sourceCallId"]),
            _text(fields["text"]),
            _optional_text(fields["source"]),
            _text(fields["sourceCompleteness"]),
            ending=_optional_text(fields["ending"]) or "",
        )
    )


_OPERATIONS: dict[str, Callable[[Calls, SessionKey, Request], dict[str, object]]] = {
    "hello": _hello,
    "plan": _plan,
    "begin_call": _begin_call,
    "result_before": _result_before,
    "result_text": _result_text,
    "stage_result": _stage_result,
    "update_final_result": _update_final_result,
    "finish_call": _finish_call,
    "reduce": _reduce,
    "cap": _cap,
}
