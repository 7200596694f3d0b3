"""The command `yarp`: hot commands go straight to their module, all others to the command line."""

import _signal
import os
import sys

# Commands that run once per tool call or recovery: they import almost nothing.
_LEAN = {
    "run": "yarp.runner",
    "hook": "yarp.hook",
    "search": "yarp.cli.recover",
    "read": "yarp.cli.recover",
    "grep": "yarp.cli.recover",
    "calls": "yarp.cli.recover",
    "reduce": "yarp.cli.reduce",
}


def main(argv: list[str]) -> int:
    """Run the command line `argv` (program name first) and return its exit status."""
    name = argv[1] if len(argv) > 1 else ""
    if name == "hook":
        # It is for the agent: what is being committed is committed.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    # `run` sees to the descriptors itself: its command gets them as they are.
    if not ready("yarp", streams=name != "run"):
        return 74
    module = _LEAN.get(name)
    if module is None:
        # A host's extension starts this one with every session.
        module = "yarp.ingest.server" if argv[1:3] == ["archive", "ingest"] else "yarp.cli.root"
        spare_collections()
    __import__(module)
    status: int = sys.modules[module].main(argv)
    return status


def spare_collections() -> None:
    """Have Python look for rubbish less often: there is none while modules are loaded."""
    import gc

    gc.set_threshold(20_000)


def ready(program: str, *, streams: bool = True) -> bool:
    """Make the process ready to import a command; whether it can give an answer.

    An interrupt this early ends it by the signal, without a trace of what was imported then.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    if not streams or None not in (sys.stdin, sys.stdout, sys.stderr):
        return True
    closed = sys.stdout is None
    _fill_standard_streams()
    if closed:
        sys.stderr.write(f"{program}: standard output is closed, so the answer cannot be written\n")
    return not closed


def _fill_standard_streams() -> None:
    """Fill closed standard descriptors, so that no file of ours gets their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
