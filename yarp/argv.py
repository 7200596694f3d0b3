"""The words of `yarp run`, read without argparse, which would cost as much as the run itself."""

from __future__ import annotations

from yarp.errors import UsageError

HELP = """\
Examples:
  yarp run -- pytest -q
  yarp run -- git log
  yarp run --shell 'npm test'
  yarp run --tty -- vim notes.txt

Usage: yarp run [OPTIONS] -- COMMAND [ARGUMENT...]
       yarp run [OPTIONS] --shell TEXT

Run a command, keep its exact input and output in the archive, and print a short true answer
where a rule knows how, with the reference that leads back to every byte. What no rule knows
passes through live and unchanged. The status is the command's own: 127 not found, 126 not
executable, 128+N ended by signal N; 141 when the reader of the output went away.

Options:
  --shell TEXT            run TEXT in a shell, unchanged, instead of a command
  --shell-program PATH    that shell (default: /bin/sh)
  --tty                   give the command the terminal itself; its output is not kept
  --archive-agent NAME    the call that a host has begun in the archive:
  --archive-account NAME    all four or none
  --archive-session ID
  --archive-call ID
  -h, --help              show this
"""

_HOST_OPTIONS = ("--archive-agent", "--archive-account", "--archive-session", "--archive-call")
_VALUE_OPTIONS = (*_HOST_OPTIONS, "--shell", "--shell-program")


class RunOptions:
    """What `yarp run` was asked to do.

    `argv` is what is started. `text` is the command text of `--shell`, else None. `host` is
    agent, account, session and call of a call that a host has begun, else None.
    """

    __slots__ = ("argv", "help", "host", "text", "tty")

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.text: str | None = None
        self.host: tuple[str, str, str, str] | None = None
        self.tty = False
        self.help = False


def parse_run(words: list[str]) -> RunOptions:
    """Read the words after `yarp run`; UsageError says which word is off."""
    options = RunOptions()
    values: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            options.argv = words[at:]
            if not options.argv:
                raise UsageError("no command after `--`")
            break
        name, equals, value = word.partition("=")
        if name in _VALUE_OPTIONS:
            if not equals:
                if at == len(words):
                    raise UsageError(f"{name} needs a value")
                value = words[at]
                at += 1
            if name in values:
                raise UsageError(f"{name} stands twice")
            values[name] = value
        elif word == "--tty":
            options.tty = True
        elif word in ("-h", "--help"):
            options.help = True
            return options
        elif word.startswith("-") and word != "-":
            raise UsageError(f"{name} is no option of `yarp run`; see: yarp run --help")
        else:
            raise UsageError("put `--` before the command: yarp run -- COMMAND")
    _take_command(options, values)
    options.host = _host(values)
    if options.tty and options.host:
        raise UsageError("--tty cannot be used with --archive-*: a host's call keeps its streams")
    return options


def _take_command(options: RunOptions, values: dict[str, str]) -> None:
    text = values.get("--shell")
    if text is None:
        if not options.argv:
            raise UsageError("no command; say: yarp run -- COMMAND")
        if "--shell-program" in values:
            raise UsageError("--shell-program goes with --shell TEXT")
        return
    if options.argv:
        raise UsageError("give either --shell TEXT or -- COMMAND, not both")
    options.text = text
    program = values.get("--shell-program", "/bin/sh")
    # A text that begins like an option is still a text.
    options.argv = [program, "-c", *(["--"] if text[:1] in ("-", "+") else []), text]


def _host(values: dict[str, str]) -> tuple[str, str, str, str] | None:
    given = [values[name] for name in _HOST_OPTIONS if values.get(name)]
    if not given and not any(name in values for name in _HOST_OPTIONS):
        return None
    if len(given) < len(_HOST_OPTIONS):
        missing = ", ".join(name for name in _HOST_OPTIONS if not values.get(name))
        raise UsageError(f"a host's call needs all four --archive-* values; missing: {missing}")
    agent, account, session, call = given
    return agent, account, session, call
