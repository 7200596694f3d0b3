"""What a text changes, or uses, of the shell that runs it."""

from __future__ import annotations

from yarp.shell.syntax import Group, Opaque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.shell.syntax import Chain, Command

_STATE = frozenset(
    (
        *("cd", "pushd", "popd", "dirs", "export", "declare", "typeset", "readonly", "local"),
        *("source", ".", "alias", "unalias", "set", "unset", "shopt", "setopt", "unsetopt"),
        *("umask", "ulimit", "trap", "exec", "eval", "exit", "logout", "return", "hash", "enable"),
        *("fg", "bg", "jobs", "wait", "disown", "read", "mapfile", "readarray", "getopts", "let"),
        *("deactivate", "conda", "nvm", "history", "bind", "complete", "builtin", "autoload"),
    )
)
# What every process has; all other variables may be the shell's own.
_EXPORTED = frozenset(
    ("$HOME", "${HOME}", "$PWD", "${PWD}", "$USER", "${USER}", "$PATH", "${PATH}")
)


def kept_state(chains: list[Chain]) -> tuple[str, ...]:
    """The words of a script that change what its shell keeps, or rely on it; each once.

    What a subshell does ends with it. A function or an alias of before cannot be seen.
    """
    return tuple(dict.fromkeys(_all(chains)))


def _all(chains: list[Chain]) -> list[str]:
    found: list[str] = []
    for chain in chains:
        if chain.background:
            found.append("&")
        for pipeline in chain.pipelines:
            for part in pipeline.stages:
                if isinstance(part, Opaque):
                    found.append(part.kind)
                elif isinstance(part, Group):
                    if not part.subshell:
                        found += _all(part.body)
                else:
                    found += _one(part)
    return found


def _one(command: Command) -> list[str]:
    found: list[str] = []
    for text in command.assigns:
        name, _, value = text.partition("=")
        if not command.words:
            found.append(name)
        # Its value is not taken apart: any expansion in it may be the shell's own.
        if _rests(value):
            found.append(value)
    for word in [*command.words, *(redirect.target for redirect in command.redirects)]:
        found += [text for kind, text in word.parts if kind in ("value", "words") and _rests(text)]
    # The text of a here-document is not read here.
    found += [one.operator for one in command.redirects if one.operator in ("<<", "<<-")]
    program = next((w.literal for w in command.words if w.literal not in ("command", "time")), None)
    if program in _STATE:
        found.append(program or "")
    return found


def _rests(text: str) -> bool:
    """Whether something of the shell's own may be expanded in a text."""
    for name in _EXPORTED:
        rest = text.removeprefix(name)
        if rest != text and not (rest[:1].isalnum() or rest[:1] == "_"):
            text = rest
    return "$" in text or "`" in text
