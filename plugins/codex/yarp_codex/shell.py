"""The words that mean something else in Codex's shell than in one that `yarp run` starts.

Codex writes a snapshot of the user's shell when a session begins, and starts each command in a
fresh shell that has its variables alone. Without one, a login shell reads the user's own files,
and has the functions in them.
"""

from __future__ import annotations

import os

# What a login shell reads, and what those files commonly read in turn.
_FILES = (
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bashrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
)


def own_words(transcript: str, thread: str) -> frozenset[str] | None:
    """The functions and aliases that a command may find; None: not known."""
    home, found, _ = transcript.rpartition("/sessions/")
    try:
        names = os.listdir(os.path.join(home, "shell_snapshots")) if found else []
    except (OSError, ValueError):
        names = []
    if any(name.startswith(f"{thread}.") for name in names):
        return frozenset()
    words: set[str] = set()
    for name in _FILES:
        try:
            with open(os.path.join(os.path.expanduser("~"), name), "rb") as file:
                text = file.read()
        except OSError:
            continue
        for line in text.decode("utf-8", "replace").split("\n"):
            word = _defined(line.strip())
            if word:
                words.add(word)
    return frozenset(words)


def _defined(line: str) -> str:
    """The function or alias that a line defines; nothing if it defines none."""
    if line.startswith("alias "):
        return line[6:].removeprefix("-g ").partition("=")[0].strip(" '\"")
    if line.startswith("function "):
        return line[9:].partition("{")[0].partition("(")[0].strip()
    name, found, _ = line.partition("()")
    return name.strip() if found and " " not in name.strip() else ""
