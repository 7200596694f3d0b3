"""Quoting: one word for a shell, and the words of a command that quotes but expands nothing."""

_BARE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
# What the shell would act on outside quotes; a text that has one is not understood here.
_ACTIVE = frozenset("|&;<>()$`#{}*?[]~!\n")
# The commands whose answers stay whole.
RECOVERY = ("search", "read", "grep", "calls")


def quote(word: str) -> str:
    """`word` as a POSIX shell reads it back, unchanged."""
    if word and _BARE.issuperset(word.encode("utf-8", "replace")):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def split(text: str) -> list[str] | None:
    """The words of one simple command, its quotes and backslashes removed.

    None for anything that the shell would expand, redirect, join or leave open.
    """
    words: list[str] = []
    word: list[str] | None = None
    position, end = 0, len(text)
    while position < end:
        character = text[position]
        position += 1
        if character in " \t":
            if word is not None:
                words.append("".join(word))
                word = None
            continue
        word = [] if word is None else word
        if character == "'":
            closing = text.find("'", position)
            if closing < 0:
                return None
            word.append(text[position:closing])
            position = closing + 1
        elif character == '"':
            after = _double_quoted(text, position, word)
            if after is None:
                return None
            position = after
        elif character == "\\":
            if position == end or text[position] == "\n":
                return None
            word.append(text[position])
            position += 1
        elif character in _ACTIVE:
            return None
        else:
            word.append(character)
    if word is not None:
        words.append("".join(word))
    return words


def _double_quoted(text: str, position: int, word: list[str]) -> int | None:
    end = len(text)
    while position < end:
        character = text[position]
        position += 1
        if character == '"':
            return position
        if character in "$`":
            return None
        if character == "\\" and position < end and text[position] in '"\\$`\n':
            if text[position] == "\n":
                return None
            character = text[position]
            position += 1
        word.append(character)
    return None


def is_recovery(text: str) -> bool:
    """Whether a command text is one call of a recovery command, whose answer stays whole."""
    words = split(text.strip())
    return (
        words is not None
        and len(words) > 1
        and words[0].rpartition("/")[2] == "yarp"
        and words[1] in RECOVERY
    )
