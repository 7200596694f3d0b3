"""Where the streams of a command end: what the model reads, a pipe, or nowhere that it sees."""

from __future__ import annotations

from yarp.reduce.commands import Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.shell.syntax import Redirect

    Sinks = dict[int, str]

OUT, ERR, PIPE, GONE = "out", "err", "pipe", "gone"
_STANDARD = {
    "/dev/stdout": 1, "/dev/fd/1": 1, "/proc/self/fd/1": 1,
    "/dev/stderr": 2, "/dev/fd/2": 2, "/proc/self/fd/2": 2,
}  # fmt: skip


def redirected(sinks: Sinks, redirects: list[Redirect]) -> Sinks:
    """Where the streams go after the redirects, in their order."""
    sinks = dict(sinks)
    for redirect in redirects:
        operator = redirect.operator
        target = redirect.target.literal
        if operator in ("<", "<<", "<<-", "<<<", "<&", "<&-"):
            continue
        if operator == "<>":
            raise Unclear
        if operator in (">&", ">&-") and (target is None or target.isdecimal() or target == "-"):
            if target is None and redirect.target.parts:
                raise Unclear
            source = GONE if target in (None, "-") else sinks.get(int(target))
            if source is None:
                raise Unclear
            sinks[1 if redirect.fd is None else redirect.fd] = source
            continue
        copied = _STANDARD.get(target or "")
        device = (target or "").startswith("/dev/") and target != "/dev/null"
        if device and copied is None:
            raise Unclear
        went = GONE if copied is None else sinks[copied]
        if operator in ("&>", "&>>") or (operator == ">&" and redirect.fd is None):
            sinks[1] = sinks[2] = went
        elif operator in (">", ">>", ">|"):
            sinks[1 if redirect.fd is None else redirect.fd] = went
        else:
            raise Unclear
    return sinks
