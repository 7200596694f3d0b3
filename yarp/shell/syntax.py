"""What a command text is made of: words, redirects, commands, and how they are joined."""

from __future__ import annotations


class Word:
    """One word of a command, as `parts` of (kind, text).

    `text`: what the command gets, quotes taken away. `glob`: unquoted text with `*`, `?`, `[`,
    `{` or a leading `~`, which the shell may expand. `value`: an expansion in double quotes, as
    written. `words`: one outside of quotes, which may become any number of words.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[str, str]]) -> None:
        self.parts = parts

    @property
    def literal(self) -> str | None:
        """The word that the command gets; None when the shell makes it."""
        if all(kind == "text" for kind, _ in self.parts):
            return "".join(text for _, text in self.parts)
        return None

    def __repr__(self) -> str:
        return f"Word({self.parts!r})"


class Redirect:
    """`operator` is `>`, `>>`, `<`, `>&`, `&>`, `<<` and so on; `fd` None: the operator's own."""

    __slots__ = ("fd", "operator", "target")

    def __init__(self, fd: int | None, operator: str, target: Word) -> None:
        self.fd = fd
        self.operator = operator
        self.target = target


class Command:
    """One simple command. Without `words` it is only `assigns` (`NAME=value`) and redirects."""

    __slots__ = ("assigns", "redirects", "words")

    def __init__(self, words: list[Word], assigns: list[str], redirects: list[Redirect]) -> None:
        self.words = words
        self.assigns = assigns
        self.redirects = redirects

    @property
    def starts_others(self) -> bool:
        """Whether a `$( )` or the like in it starts commands, whose errors are seen."""
        made = [text for word in self.words for kind, text in word.parts if kind != "text"]
        return any(
            "$(" in text.replace("$(pwd)", "").replace("$((", "") or "`" in text or "<(" in text
            for text in made + self.assigns
        )


class Group:
    """`( ... )` when `subshell`, else `{ ...; }`."""

    __slots__ = ("body", "redirects", "subshell")

    def __init__(self, body: list[Chain], *, subshell: bool) -> None:
        self.body = body
        self.subshell = subshell
        self.redirects: list[Redirect] = []


class Opaque:
    """A loop, a condition, a function: nothing is known about it but its `kind`."""

    __slots__ = ("kind", "redirects")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.redirects: list[Redirect] = []


Part = Command | Group | Opaque


class Pipeline:
    """Commands joined by pipes. `join` is how it follows the one before: '', '&&' or '||'."""

    __slots__ = ("both", "join", "negated", "stages")

    def __init__(self, join: str) -> None:
        self.join = join
        self.negated = False
        self.stages: list[Part] = []
        # Which stages hand on their standard error too (`|&`).
        self.both: list[bool] = []


class Chain:
    """Pipelines joined by `&&` and `||`, up to a `;`, a newline, or an `&` (`background`)."""

    __slots__ = ("background", "pipelines")

    def __init__(self) -> None:
        self.pipelines: list[Pipeline] = []
        self.background = False
