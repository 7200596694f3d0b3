"""The console scripts beside `yarp`, which start as it does."""

import sys

from yarp.__main__ import ready, spare_collections


def trace_index() -> int:
    """Run `trace-index`; the exit status."""
    return _start("trace-index", "yarp.cli.index", 1)


def toolcall_extractor() -> int:
    """Run `toolcall-extractor`; the exit status."""
    return _start("toolcall-extractor", "yarp.cli.dataset", 74)


def _start(program: str, module: str, unwritable: int) -> int:
    if not ready(program):
        return unwritable
    spare_collections()
    __import__(module)
    status: int = sys.modules[module].main()
    return status
