"""The command `yarp`: hot commands go straight to their module, all others to the command line."""

import sys

# Commands that run once per tool call or recovery: they import almost nothing.
_LEAN = {
    "run": "yarp.runner",
    "search": "yarp.cli.recover",
    "read": "yarp.cli.recover",
    "grep": "yarp.cli.recover",
    "calls": "yarp.cli.recover",
    "reduce": "yarp.cli.reduce",
}


def main(argv: list[str]) -> int:
    """Run the command line `argv` (program name first) and return its exit status."""
    module = _LEAN.get(argv[1]) if len(argv) > 1 else None
    if module is None:
        # A host's extension starts this one with every session.
        module = "yarp.ingest.server" if argv[1:3] == ["archive", "ingest"] else "yarp.cli.root"
    __import__(module)
    status: int = sys.modules[module].main(argv)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv))
