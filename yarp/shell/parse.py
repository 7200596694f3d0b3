"""What a command text says: its commands, how they are joined, where their output goes.

The one parser of shell text. It reads, and never expands or executes anything; a text that it
does not understand whole, or that is too large, is None, and whoever asked leaves it alone.
tree-sitter-bash finds the words and the operators; which operator binds tighter is decided here,
because its tree puts a pipe or a redirect around a whole `a && b`.
"""

from __future__ import annotations

import functools
import re
import time

import tree_sitter

from yarp.shell.syntax import Chain, Command, Group, Opaque, Part, Pipeline, Redirect, Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

MAX_BYTES = 256 * 1024
MAX_NODES = 16_384
MAX_DEPTH = 64
# The grammar's scanner takes quadratic time on some texts that no agent writes.
_DEADLINE_S = 0.5
_STEPS = 20_000
# Its error recovery does not always ask whether it may go on; so many of these need none.
_MAX_MARKS = 8_192
_MARKS = b"|&;<>(){}[]$`\"'"

_OPERATORS = frozenset(("&&", "||", "|", "|&", ";", "&", "!", "\n"))
_JOINS = frozenset(("list", "pipeline", "negated_command"))
_COMPOUND = frozenset(
    (
        *("if_statement", "while_statement", "for_statement", "c_style_for_statement"),
        *("case_statement", "function_definition"),
    )
)
_PLAIN = frozenset(("word", "number", "variable_name", "test_operator", "==", "=~"))
_EXPANSIONS = frozenset(("simple_expansion", "expansion", "command_substitution"))
_VALUES = frozenset(("arithmetic_expansion", "translated_string", "process_substitution"))
_GLOB = frozenset("*?[]{}")
_ACTIVE = frozenset("$`\"'()<>|&;#")
# Escapes of $'...' whose meaning is one character.
_ANSI_C = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b",
    "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v", "?": "?",
}  # fmt: skip


class _Unclear(Exception):
    """The text says something that is not understood here."""


# Who labels a text plans it too; nobody changes what was read.
@functools.lru_cache(maxsize=1)
def parse(text: str) -> list[Chain] | None:
    """The chains of a command text in their order; None when it is not understood whole."""
    root = tree_of(text)
    if root is None:
        return None
    try:
        return _Reader(text.encode()).whole(root)
    except _Unclear:
        return None


@functools.lru_cache(maxsize=1)
def tree_of(text: str) -> Node | None:
    """The grammar's tree of a whole text; None where it finds an error, or the text is too long."""
    if len(text) > MAX_BYTES or "\0" in text:
        return None
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return None
    if len(source) > MAX_BYTES or not source.strip():
        return None
    root = syntax_tree(source)
    return None if root is None or root.has_error else root


_parser: tree_sitter.Parser | None = None


def _grammar() -> object:
    """The compiled grammar, without the module around it.

    That one only adds queries which nobody asks for, and takes longer to load than all the rest.
    """
    from importlib.machinery import PathFinder

    package = PathFinder.find_spec("tree_sitter_bash")
    inside = None if package is None else package.submodule_search_locations
    found = None if inside is None else PathFinder.find_spec("tree_sitter_bash._binding", inside)
    if found is None or found.loader is None:
        import tree_sitter_bash

        return tree_sitter_bash.language()
    from _frozen_importlib import module_from_spec

    module = module_from_spec(found)
    found.loader.exec_module(module)
    grammar: object = module.language()
    return grammar


def syntax_tree(source: bytes) -> Node | None:
    """The grammar's tree; None for a text on which it would take too long, or that is too large.

    What it could not read is an ERROR node of the tree, and `has_error` says that there is one.
    """
    if len(source) - len(source.translate(None, _MARKS)) > _MAX_MARKS:
        return None
    global _parser  # noqa: PLW0603 - the grammar takes longer to load than a text to parse
    if _parser is None:
        _parser = tree_sitter.Parser(tree_sitter.Language(_grammar()))
    steps = 0
    deadline = time.monotonic() + _DEADLINE_S

    def enough(_offset: int, _error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > _STEPS or time.monotonic() > deadline

    try:
        tree = _parser.parse(
            lambda offset, _point: source[offset : offset + 65536],
            encoding="utf8",
            progress_callback=enough,
        )
    except ValueError:
        _parser.reset()  # else the next text would go on where this one stopped
        return None
    # A node is of no use without its tree, which it keeps alive.
    root = tree.root_node
    return None if root.descendant_count > MAX_NODES or _too_deep(root) else root


def _too_deep(root: Node) -> bool:
    cursor = root.walk()
    depth = 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > MAX_DEPTH:
                return True
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False
            depth -= 1


class _Reader:
    """From the grammar's tree to ours."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        # Where the reading is: all that comes before is understood.
        self._at = 0

    def whole(self, root: Node) -> list[Chain]:
        """The chains of the whole text."""
        chains = self.script(root.children)
        if self._source[self._at :].replace(b"\\\n", b"").strip(b" \t\n"):
            raise _Unclear
        return chains

    def script(self, nodes: Iterable[Node]) -> list[Chain]:
        """The chains that these nodes are, each operator bound as the shell binds it."""
        tokens: list[str | Part] = []
        for node in nodes:
            self._flatten(node, tokens)
        chains: list[Chain] = []
        tokens.append("")
        at = 0
        while tokens[at] != "":
            if tokens[at] == ";":
                at += 1
                continue
            at = _chain(tokens, at, chains)
        return chains

    def _flatten(self, node: Node, tokens: list[str | Part]) -> None:
        """Append the commands and operators of a node in the order of the text."""
        kind = node.type
        if kind in _JOINS:
            for child in node.children:
                self._flatten(child, tokens)
        elif kind == "redirected_statement":
            for child in node.children:
                if child.type.endswith("_redirect"):
                    self._attach(child, tokens)
                else:
                    self._flatten(child, tokens)
        elif kind == "comment":
            self._pass(node, tokens)
            self._at = node.end_byte
        elif kind in _OPERATORS:
            self._pass(node, tokens)
            tokens.append(";" if kind == "\n" else kind)
            self._at = node.end_byte
        else:
            self._pass(node, tokens)
            if tokens and not isinstance(tokens[-1], str):
                raise _Unclear
            tokens.append(self._part(node))
            self._at = node.end_byte

    def _pass(self, node: Node, tokens: list[str | Part] | None = None) -> None:
        """Go to a node; only blanks may lie before it, and a newline ends a command."""
        newline = self._to(node)
        if newline and tokens and not isinstance(tokens[-1], str):
            tokens.append(";")

    def _stay(self, node: Node) -> None:
        """Go to a node of the same command."""
        if self._to(node):
            raise _Unclear  # the grammar went on over the end of a line

    def _to(self, node: Node) -> bool:
        """Go to a node; whether a line ends before it."""
        gap = self._source[self._at : node.start_byte].replace(b"\\\n", b" ")
        if gap.strip(b" \t\n") or self._at > node.start_byte:
            raise _Unclear
        self._at = node.start_byte
        return b"\n" in gap

    def _attach(self, node: Node, tokens: list[str | Part]) -> None:
        """A redirect belongs to the command right before it."""
        if not tokens or isinstance(tokens[-1], str):
            tokens.append(Command([], [], []))
        part = tokens[-1]
        assert not isinstance(part, str)  # noqa: S101 - it was appended if there was none
        if node.type != "heredoc_redirect":
            self._stay(node)
            part.redirects.append(self._redirect(node))
            self._at = node.end_byte
            return
        part.redirects.append(Redirect(None, "<<", Word([])))
        if self._source[self._at : node.start_byte].strip() == b"-" and isinstance(part, Command):
            # The grammar has no node for the dash of `python - <<EOF`.
            part.words.append(Word([("text", "-")]))
            self._at = node.start_byte
        self._stay(node)
        for child in node.children:
            if child.type in ("<<", "<<-", "heredoc_start", "file_descriptor"):
                self._at = child.end_byte
            elif child.type in ("heredoc_body", "heredoc_end"):
                self._at = max(self._at, child.end_byte)
            elif child.type.endswith("_redirect"):
                self._attach(child, tokens)
            else:
                # The rest of the line stands between the delimiter and the text.
                self._flatten(child, tokens)
        self._at = max(self._at, node.end_byte)

    def _part(self, node: Node) -> Part:
        kind = node.type
        if kind == "command":
            return self._command(node)
        if kind in ("declaration_command", "unset_command"):
            words = []
            for child in node.children:
                self._stay(child)
                words.append(self._any_word(child))
                self._at = child.end_byte
            return Command(words, [], [])
        if kind == "variable_assignment":
            return Command([], [self._text(node)], [])
        if kind == "variable_assignments":
            return Command([], [self._text(child) for child in node.children], [])
        if kind == "test_command" and node.children[0].type in ("[", "[["):
            return Command([Word([("text", node.children[0].type)])], [], [])
        if kind in ("subshell", "compound_statement") and node.children[0].type in ("(", "{"):
            self._at = node.children[0].end_byte
            body = self.script(node.children[1:-1])
            self._pass(node.children[-1])
            return Group(body, subshell=kind == "subshell")
        if kind in _COMPOUND or kind in ("compound_statement", "test_command"):
            return Opaque(kind)
        raise _Unclear

    def _command(self, node: Node) -> Command:
        command = Command([], [], [])
        for child in node.children:
            redirect = child.type.endswith("_redirect")
            if child.start_byte == self._at > node.start_byte and not redirect:
                raise _Unclear  # the grammar cut one word into two
            self._stay(child)
            if child.type == "variable_assignment" and not command.words:
                command.assigns.append(self._text(child))
            elif child.type in ("file_redirect", "herestring_redirect"):
                command.redirects.append(self._redirect(child))
            elif child.type == "command_name":
                command.words += [self._word(name) for name in child.children]
            elif child.type == "heredoc_redirect":
                raise _Unclear
            else:
                command.words.append(self._word(child))
            self._at = child.end_byte
        return command

    def _redirect(self, node: Node) -> Redirect:
        fd: int | None = None
        operator = ""
        target = Word([])
        for child in node.children:
            if child.type == "file_descriptor":
                digits = self._text(child)
                if not digits.isdecimal() or len(digits) > 3:
                    raise _Unclear
                fd = int(digits)
            elif child.is_named:
                if target.parts:
                    # The grammar takes the words of `> f a b` for targets too.
                    raise _Unclear
                target = self._word(child)
            else:
                operator = child.type
        return Redirect(fd, operator, target)

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode()

    def _any_word(self, node: Node) -> Word:
        if node.type == "variable_assignment":
            return Word([("value", self._text(node))])
        if not node.is_named:
            return Word([("text", self._text(node))])
        return self._word(node)

    def _word(self, node: Node) -> Word:
        parts: list[tuple[str, str]] = []
        self._read_word(node, parts)
        return Word(parts)

    def _read_word(self, node: Node, parts: list[tuple[str, str]]) -> None:
        kind = node.type
        text = self._text(node)
        if text == "{}":
            parts.append(("text", text))  # no shell expands it: `find -exec cmd {} +`
        elif kind == "concatenation":
            at = node.start_byte
            for child in node.children:
                if child.start_byte != at:
                    raise _Unclear
                self._read_word(child, parts)
                at = child.end_byte
        elif kind in _PLAIN:
            parts += _unquoted(text, first=not parts)
        elif kind == "raw_string":
            parts.append(("text", text[1:-1]))
        elif kind == "string":
            self._read_string(node, parts)
        elif kind == "ansi_c_string":
            parts.append(_ansi_c(text))
        elif kind in _EXPANSIONS:
            parts.append(("words", text))
        elif kind in _VALUES and not text.startswith(">("):
            parts.append(("value", text))
        elif kind in ("brace_expression", "extglob_pattern"):
            parts.append(("glob", text))
        else:
            raise _Unclear

    def _read_string(self, node: Node, parts: list[tuple[str, str]]) -> None:
        """What stands in double quotes; blanks beside an expansion are no nodes of the tree."""
        at = node.start_byte + 1
        parts.append(("text", ""))
        for child in node.children:
            if child.type in ("string_content", '"'):
                continue
            if child.type not in _EXPANSIONS and child.type != "arithmetic_expansion":
                raise _Unclear
            text = self._text(child)
            # The grammar counts the blanks before an expansion as a part of it.
            bare = text.lstrip(" \t\n")
            blanks = text[: len(text) - len(bare)]
            parts.append(_quoted(self._source[at : child.start_byte].decode() + blanks))
            parts.append(("value", bare))
            at = child.end_byte
        parts.append(_quoted(self._source[at : node.end_byte - 1].decode()))


def _chain(tokens: list[str | Part], at: int, chains: list[Chain]) -> int:
    """Read a chain that begins at `at`; where it ends."""
    chain = Chain()
    chains.append(chain)
    join = ""
    while True:
        pipeline = Pipeline(join)
        chain.pipelines.append(pipeline)
        while tokens[at] == "!":
            pipeline.negated = not pipeline.negated
            at += 1
        while True:
            part = tokens[at]
            if isinstance(part, str):
                raise _Unclear
            pipeline.stages.append(part)
            at += 1
            pipeline.both.append(tokens[at] == "|&")
            if tokens[at] not in ("|", "|&"):
                break
            at = _next_line(tokens, at + 1)
        if tokens[at] not in ("&&", "||"):
            break
        join = str(tokens[at])
        at = _next_line(tokens, at + 1)
    if tokens[at] == "&":
        chain.background = True
        return at + 1
    if tokens[at] not in (";", ""):
        raise _Unclear
    return at


def _next_line(tokens: list[str | Part], at: int) -> int:
    while tokens[at] == ";":
        at += 1
    return at


def _unquoted(text: str, *, first: bool) -> list[tuple[str, str]]:
    """A word outside of quotes, backslashes taken away."""
    plain: list[str] = []
    kind = "glob" if first and text.startswith("~") else "text"
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\":
            if at == len(text):
                raise _Unclear
            if text[at] != "\n":
                plain.append(text[at])
            at += 1
            continue
        if character in _GLOB:
            kind = "glob"
        elif character in _ACTIVE and (character != "#" or at == 1):
            raise _Unclear
        plain.append(character)
    return [(kind, "".join(plain))]


_ESCAPED = re.compile(r'\\(["\\$`\n])')


def _quoted(text: str) -> tuple[str, str]:
    """A stretch of text in double quotes; a `value` if something may yet be expanded in it."""
    if re.search(r"(?<!\\)(?:\\\\)*[$`]", text):
        return "value", text
    return "text", _ESCAPED.sub(lambda found: found[1].strip("\n"), text)


def _ansi_c(text: str) -> tuple[str, str]:
    inner = text[2:-1]
    if re.search(r"\\[^ntr\\'\"abeEfv?]", inner):
        return "value", text
    return "text", re.sub(r"(?s)\\(.)", lambda found: _ANSI_C[found[1]], inner)
