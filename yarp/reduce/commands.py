"""What the commands around a tool do with the output: print nothing, a line, or pass some on."""

from __future__ import annotations

import re

from yarp.reduce.plan import Line
from yarp.reduce.rules.match import BUILTIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.rules.match import Selection
    from yarp.shell.syntax import Word

# Silent unless they fail, and then on standard error.
_SILENT = frozenset(
    (
        *(":", "true", "false", "test", "[", "[[", "sleep", "wait", "exit", "return", "unset"),
        *("umask", "mkdir", "rmdir", "rm", "cp", "mv", "touch", "ln", "chmod", "chown", "kill"),
    )
)
_SAYS_MORE = frozenset(("mkdir", "rmdir", "rm", "cp", "mv", "ln", "chmod", "chown"))
_DECLARING = frozenset(("export", "declare", "typeset", "local", "readonly"))
# Files that one sources to get a tool into the path; others may print anything.
_SOURCED = (
    "activate", "nvm.sh", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".env", "/env",
)  # fmt: skip
# Their output is one line.
_ONE_LINE = frozenset(("pwd", "date", "whoami", "hostname", "nproc"))
# So it is unless they fail: then they print nothing. It is a path.
ONE_LINE_OR_NONE = frozenset(("pushd", "popd", "which", "command"))
PATH = b"/~"
COUNT = b" 0123456789"
# Expansions to the exit status of the pipeline before, and to that of its first command.
STATUS = frozenset(("$?", "${?}"))
FIRST_STATUS = frozenset(("${PIPESTATUS[0]}", "${PIPESTATUS}", "$PIPESTATUS", "${pipestatus[1]}"))
# Variables whose value is the path of a directory.
_PATHS = frozenset(("$HOME", "${HOME}", "$PWD", "${PWD}", "$(pwd)"))

# They pass on some of the lines that they read.
FILTERS = frozenset(
    ("head", "tail", "cat", "tee", "sort", "uniq", "sed", "grep", "egrep", "fgrep", "rg")
)
# What a cut leaves for these families to read; the others make sense of whole outputs alone.
_WITHOUT_END = frozenset(("test", "build", "log", "list", "search", "diff", "status", "table"))
INSTALLS = frozenset(("npm-install", "pip-install", "pnpm-install", "yarn-install", "apt-install"))
_WITHOUT_START = frozenset(("test", "build", "log", "list", "search"))
# Programs whose lines each stand for themselves, in any order.
_LINES = frozenset(("find", "fd", "fdfind", "ls", "rg", "grep", "egrep", "fgrep", "git"))
# A pattern as the value of an option; what a brace alone expands to could be a guarded value.
_OPTION = re.compile(r"--[a-z-]+=[^{]*(?:$|\*)")
_LOGS = frozenset(("journalctl", "docker", "docker-compose", "podman", "kubectl", "dmesg"))
_CONTEXT = re.compile(r"-[a-zA-Z]*[ABC]\d*|--(?:after-|before-)?context.*")
_GREP_FLAGS = re.compile(r"-[EFGPivwxa]+|--(?:color|colour)=?\w*|--line-buffered")


class Unclear(Exception):
    """What the model reads cannot be told apart: the output stays exact."""


def argument(word: Word) -> str | None:
    """A word as a rule sees it; None where the shell could make options of it."""
    literal = word.literal
    if literal is not None:
        return literal
    seen = ""
    for kind, text in word.parts:
        if kind == "text":
            seen += text
        elif kind == "glob":
            # `--include=*.py`: whatever it expands to begins with the option's name.
            option = _OPTION.match(seen + text)
            if not option and (seen[:1] == "-" or (not seen and text[:1] in "-{")):
                return None
            seen += text
        elif text in _PATHS and (not seen or seen[:1] != "-"):
            seen += text if seen else "/" + text
        elif kind == "value" and seen and (seen[:1] != "-" or ("=" in seen and seen[:2] == "--")):
            seen += text
        else:
            return None
    return seen


def silent(name: str, argv: list[str | None]) -> bool:
    """Whether a command prints nothing when it succeeds."""
    options = [word for word in argv[1:] if word is not None and word[:1] == "-"]
    operands = [word for word in argv[1:] if word is None or word[:1] != "-"]
    if name in _SAYS_MORE:
        return not any(
            word in ("--verbose", "--interactive") or (word[:2] != "--" and {*word} & {*"viI"})
            for word in options
        )
    if name in _SILENT:
        return "--help" not in options
    if name == "cd":
        return not options and len(operands) <= 1
    if name in _DECLARING:
        return bool(operands) and not options
    if name == "set":
        return len(argv) > 1 and not any(
            word is None
            or word in ("xtrace", "verbose")
            or (word[:1] == "-" and {*word} & {*"xvn"})
            or (word in ("-o", "+o") and word == argv[-1])
            for word in argv[1:]
        )
    if name == "shopt":
        return len(argv) > 2 and argv[1] in ("-s", "-u")
    if name in ("source", "."):
        return len(argv) == 2 and argv[1] is not None and argv[1].endswith(_SOURCED)
    return argv[:2] == ["git", "add"] and not any(
        word in ("-v", "--verbose", "-n", "--dry-run", "-p", "-i") for word in options
    )


def lines(name: str, words: list[Word], *, optional: bool, relied: bool) -> list[Line] | None:
    """The lines that an `echo` or the like prints; None for other commands.

    `relied`: what follows runs only if this command succeeds.
    """
    if name in _ONE_LINE:
        starts = PATH if name == "pwd" else b""
        return [Line((b"", b""), status="", optional=optional, starts=starts)]
    if name in ONE_LINE_OR_NONE and len(words) <= 2 + (name == "command"):
        if not relied or not all(argument(word) for word in words):
            raise Unclear
        return [Line((b"", b""), status="", optional=optional, starts=PATH)]
    if name == "printf" and len(words) == 2:
        return _printed(words[1].literal, optional=optional)
    if name != "echo":
        return None
    arguments = words[1:]
    escapes = bool(arguments) and arguments[0].literal == "-e"
    if escapes:
        arguments = arguments[1:]
    if arguments and (first := arguments[0].literal) and re.fullmatch(r"-[neE]+", first):
        raise Unclear
    texts = [""]
    status = ""
    for index, word in enumerate(arguments):
        if index:
            texts[-1] += " "
        for kind, text in word.parts:
            if kind == "text":
                texts[-1] += text
            elif kind == "glob" and not {*text} & {*"*?[~"}:
                texts[-1] += text  # a brace alone; what it may expand to would not be found
            else:
                status = text if text in STATUS | FIRST_STATUS else ""
                texts.append("")
    if len(texts) > 1 and not status and not "".join(texts).strip():
        raise Unclear
    if len(texts) > 2:
        status = ""
    return _split(texts, status=status, optional=optional, escapes=escapes)


def _printed(text: str | None, *, optional: bool) -> list[Line]:
    if text is None or "%" in text or not text.endswith("\\n"):
        raise Unclear
    return _split([text[:-2]], status="", optional=optional, escapes=True)


def _split(texts: list[str], *, status: str, optional: bool, escapes: bool) -> list[Line]:
    """One `Line` for each line; of escapes only that of a newline is read."""
    found: list[list[str]] = [[]]
    for text in texts:
        parts = text.replace("\\n", "\n").split("\n") if escapes else text.split("\n")
        found[-1].append(parts[0])
        found += [[part] for part in parts[1:]]
    for line in found:
        if any(not (text + "x").isprintable() or "\\" in text for text in line):
            raise Unclear
    return [
        Line(
            tuple(text.encode() for text in line),
            status=status if len(line) == 2 else "",
            optional=optional,
        )
        for line in found
    ]


# How what they say on standard error begins, besides their own name.
_COMPLAINTS = {"git": (b"fatal: ", b"error: ", b"warning: "), "fd": (b"[fd error]: ",)}
_SUPPLIERS = frozenset(
    ("find", "fd", "fdfind", "git", "rg", "grep", "ls", "cat", "sort", "uniq", "head", "tail", "tr")
)
_FINDS_MORE = (
    "-print", "-print0", "-printf", "-ls", "-fls", "-fprint", "-fprint0", "-fprintf", "-delete",
    "-ok", "-okdir", "-execdir",
)  # fmt: skip


def complaints(argv: list[str | None]) -> tuple[bytes, ...]:
    """How each complaint begins of a command whose output is names for `xargs`; else nothing."""
    name = argv[0] if argv else None
    if name is None or name not in _SUPPLIERS:
        return ()
    return (name.encode() + b": ", *_COMPLAINTS.get(name, ()))


def counts(argv: list[str | None]) -> bool:
    """Whether this is `wc` for what is piped into it."""
    return argv[:1] == ["wc"] and all(word in ("-l", "-w", "-c", "-m") for word in argv[1:])


def handed_on(argv: list[str]) -> list[str] | None:
    """The search that `xargs` starts, with operands for the names; None for anything else."""
    if argv[:1] != ["xargs"]:
        return None
    rest = argv[1:]
    while rest and rest[0][:1] == "-":
        if rest[0] in ("-d", "-s", "--delimiter"):
            rest = rest[1:]
        elif not re.fullmatch(r"-[0rx]+|-[ds].+|--null|--no-run-if-empty|--delimiter=.*", rest[0]):
            return None  # -n 1 names no file, -P mixes what several print, -t prints commands
        rest = rest[1:]
    return _searching(rest, always=False)


def executed(argv: list[str]) -> list[str] | None:
    """The search that `find -exec` starts, with operands for the names; None for anything else."""
    if argv.count("-exec") != 1 or any(word in _FINDS_MORE for word in argv):
        return None
    inner = argv[argv.index("-exec") + 1 :]
    if inner[-2:] != ["{}", "+"] and (inner[-1:] != [";"] or inner.count("{}") != 1):
        return None
    # One command for each file names none of them unless it is told to.
    words = [word for word in inner[:-1] if word != "{}"]
    return _searching(words, always=inner[-1] == ";")


def _searching(argv: list[str], *, always: bool) -> list[str] | None:
    """A search whose lines tell file and number apart; of several runs, the last has one file."""
    if not argv or argv[0].rpartition("/")[2] not in ("grep", "egrep", "fgrep", "rg"):
        return None
    short = "".join(word for word in argv[1:] if re.fullmatch(r"-[a-zA-Z]+", word))
    named = "H" in short or "--with-filename" in argv
    if not named and (always or not ("n" in short or "--line-number" in argv)):
        return None
    return [*argv, "{}", "{}"]


class Filter:
    """What a filter lets through: at most `limit` lines, `note` for what that part is."""

    __slots__ = ("limit", "note")

    def __init__(self, note: bytes = b"", limit: int | None = None) -> None:
        self.note = note
        self.limit = limit


def filtered(name: str, argv: list[str], selection: Selection) -> Filter:
    """What is left of the output of `selection` behind a filter; Unclear: not its output."""
    arguments = argv[1:]
    family = selection.family
    if name == "tee":
        if any(word[:1] == "-" and word != "-a" for word in arguments):
            raise Unclear
        if any(word.startswith("/dev/") and word != "/dev/null" for word in arguments):
            raise Unclear
        return Filter()
    if name == "cat" and not [word for word in arguments if word != "-"]:
        return Filter()
    if name in ("head", "tail", "sed"):
        return _cut(name, arguments, selection)
    lines_alone = family in ("list", "search") and selection.argv[0] in _LINES
    if any(_CONTEXT.fullmatch(word) for word in selection.argv[1:]):
        lines_alone = False
    if name == "sort" and lines_alone and arguments in ([], ["-u"]):
        return Filter(b"of the distinct lines:" if arguments else b"")
    if name == "uniq" and lines_alone and not arguments:
        return Filter(b"of the distinct lines:")
    if name in ("grep", "egrep", "fgrep", "rg") and (lines_alone or _is_log(selection)):
        plain = [word for word in arguments if not _GREP_FLAGS.fullmatch(word)]
        if plain[:1] == ["-e"]:
            plain = plain[1:]
        if len(plain) == 1 and plain[0][:1] != "-":
            return Filter(b"of the lines that %s kept:" % name.encode())
    raise Unclear


def _is_log(selection: Selection) -> bool:
    """Whether what is printed is surely a log, whose lines some of can be left out."""
    if selection.family != "log":
        return False
    if selection.argv[0] in _LOGS:
        return True
    names = [word for word in selection.argv[1:] if word[:1] != "-" and not word.isdigit()]
    return bool(names) and all(name.endswith(".log") for name in names)


def _cut(name: str, arguments: list[str], selection: Selection) -> Filter:
    words = " ".join(arguments)
    if name == "sed":
        found = re.fullmatch(r"-n (\d+),(\d+)p", words)
        if found is None:
            raise Unclear
        first, last = int(found[1]), int(found[2])
        count, end = last - max(first, 1) + 1, first <= 1
        note = b"of lines %d to %d:" % (first, last)
    else:
        found = re.fullmatch(r"(?:(?:-n ?|--lines[= ])?-?(\d+))?|-n ?(\+)\d+", words)
        if found is None or (name == "head" and re.fullmatch(r"(?:-n ?|--lines[= ])-\d+", words)):
            raise Unclear
        if found[2]:
            raise Unclear
        count = int(found[1] or 10)
        end = name == "head"
        note = b"of the %s %d lines:" % (b"first" if end else b"last", count)
    fits = _WITHOUT_END if end else _WITHOUT_START
    # An installer's last lines say what it did.
    fits_too = not end and selection.rule in INSTALLS and selection.pack == BUILTIN
    if not (selection.family in fits or fits_too) or (not end and selection.argv[0] == "tree"):
        raise Unclear
    return Filter(note, max(count, 0))
