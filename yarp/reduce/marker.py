"""The one line that says what is missing and how to get it back.

Model-facing and counted in every budget: short, true, and with a command that can be run as it
stands (spec Reduction, "What every summary must keep").
"""

# Bytes of search words in one marker; more would cost what the summary saves.
_TERM_BYTES = 96
_QUOTED = b"[in the output: "
_ESCAPES = {ord(c): "\\" + c for c in "\\^$.|?*+()[]{}"}


class Recovery:
    """Where the exact bytes are: the reference (None: not archived) and how whole they are.

    `completeness` is 'complete', 'incomplete' or 'unknown'; `source_names` are what recovery
    calls the two streams.
    """

    __slots__ = ("archive_ref", "completeness", "source_names")

    def __init__(
        self,
        archive_ref: str | None,
        completeness: str = "complete",
        source_names: tuple[str, str] = ("stdout", "stderr"),
    ) -> None:
        self.archive_ref = archive_ref
        self.completeness = completeness
        self.source_names = source_names


def quoted(text: bytes) -> bytes:
    """The text of a program with what looks like a line of ours marked as the program's own.

    `[yarp: ...]` becomes `[in the output: yarp: ...]`: whoever prints or forges a marker, a summary
    has one that counts. The exact text is in the archive as it was.
    """
    if b"[" not in text or b"yarp" not in text.lower():
        return text
    import re

    return re.sub(rb"(?i)\[(?=[ \t]*yarp(?:[ \t]+[a-z]+)?[ \t]*:)", _QUOTED, text)


def usable(terms: list[str]) -> list[str]:
    """The words that one pattern has room for and that a shell reads as they are."""
    words: dict[str, None] = {}
    room = _TERM_BYTES
    for term in terms:
        word = term.strip()
        size = len(_escaped(word).encode()) + 2
        if not word or not word.isprintable() or "'" in word or word in words or size > room:
            continue
        if "\ufffd" in word or "^M" in word or quoted(word.encode()) != word.encode():
            continue  # stands for bytes that no text finds, or would look like a marker
        words[word] = None
        room -= size
    return list(words)


def pattern(terms: list[str]) -> str:
    """One search pattern of plain words, quoted for a shell; '' without a usable word."""
    text = "|".join(_escaped(word) for word in usable(terms))
    if text.startswith("-"):
        text = "\\" + text  # else the pattern would read as an option
    return "'" + text + "'" if text else ""


def _escaped(word: str) -> str:
    return word.translate(_ESCAPES)


def omitted(amount: str, recovery: Recovery, streams: list[int], way: str) -> bytes:
    """The marker of a summary, without a newline.

    `amount` says what is missing ("412 lines"), `streams` are those it is missing from, and `way`
    is the command that gets it back, with what it does: "search: yarp search ...".
    """
    ref = recovery.archive_ref
    if ref is None:
        return f"[yarp: {amount} omitted; not archived]".encode()
    sources = ", ".join(dict.fromkeys(recovery.source_names[stream] for stream in streams))
    return f"[yarp: {amount} omitted; ref={ref}; {sources} {recovery.completeness}; {way}]".encode()


def capped(amount: int, archive_ref: str | None, source: str, completeness: str, way: str) -> bytes:
    """The marker of the global cap, without a newline: `amount` bytes of text are missing.

    `way` is the command that gets them back, with what it does: "search: yarp search ...".
    """
    if archive_ref is None:
        return f"[yarp: {amount} bytes omitted; not archived]".encode()
    return (
        f"[yarp: {amount} bytes omitted; ref={archive_ref}; {source} {completeness}; {way}]"
    ).encode()
