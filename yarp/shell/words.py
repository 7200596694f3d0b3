"""Splitting a command text that needs no grammar: plain words and blanks, nothing else."""

# What a shell takes as it stands anywhere in a word, whatever its options. No tilde, brace,
# glob, quote, operator, `#` or `!` is among them.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+@%=")
_IN_NAMES = frozenset("=%@:")
_RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until"),
        *("do", "done", "in", "function", "time", "coproc"),
    )
)


def simple_argv(text: str) -> list[str] | None:
    """The words of a text of plain words only; None when a shell could read anything else in it.

    A leading `NAME=value` is an assignment, a leading reserved word a grammar of its own: both
    are None, as is an empty text. Never expands and never executes.
    """
    if not _PLAIN.issuperset(text.replace(" ", "").replace("\t", "")):
        return None
    argv = text.split()
    return argv if is_plain_start(argv) else None


def is_plain_start(argv: list[str]) -> bool:
    """Whether words are a command and its arguments, and no assignment or reserved word."""
    # The grammar takes `%`, `@` and `:` in a command's name for the parts of an expansion.
    if not argv or not _IN_NAMES.isdisjoint(argv[0]) or argv[0] in _RESERVED:
        return False
    # zsh reads a leading `=` as the path of a command.
    return not any(word[:1] == "=" for word in argv)
