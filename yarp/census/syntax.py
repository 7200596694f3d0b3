"""What stands in a shell text, as labels that may overlap; they say nothing of its content.

Read from the tree of YARP's own parser, so that quoted text, comments and here-documents are what
they are for a shell. Where the grammar finds an error, or the text is too large for it, the labels
are `lexical`, and the text says so. Source: rust-YARP's census.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from yarp.census import lexical
from yarp.reduce.plan import SHELLS, plain_argv
from yarp.shell.parse import parse, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

SIMPLE, FAILURE = "simple", "parser_failure"
LABELS = (
    *("pipeline", "and_chain", "other_redirection", "stream_merge", "semicolon", "multiline"),
    *("parameter_expansion", "or_chain", "command_substitution", "path_invocation"),
    *("control_structure", "unsupported_wrapper", "comment", "background", "nested_shell"),
    *("subshell_group", "shell_function", FAILURE),
)
"""All that a text which is not simple can have."""
PARSER, LEXICAL = "parser", "lexical"
_OF_NODES = {
    "pipeline": "pipeline",
    "comment": "comment",
    "&&": "and_chain",
    "||": "or_chain",
    ";": "semicolon",
    "&": "background",
    "|&": "stream_merge",
    "heredoc_redirect": "other_redirection",
    "herestring_redirect": "other_redirection",
    "simple_expansion": "parameter_expansion",
    "expansion": "parameter_expansion",
    "arithmetic_expansion": "parameter_expansion",
    "command_substitution": "command_substitution",
    "process_substitution": "command_substitution",
    "if_statement": "control_structure",
    "while_statement": "control_structure",
    "for_statement": "control_structure",
    "c_style_for_statement": "control_structure",
    "case_statement": "control_structure",
    "function_definition": "shell_function",
    "subshell": "subshell_group",
}
# There the operators are those of arithmetic and of tests.
_EXPRESSIONS = frozenset(("binary_expression", "c_style_for_statement"))
_QUOTED = frozenset(("string", "raw_string", "ansi_c_string", "translated_string"))
_MERGES = frozenset((">&", "<&", ">&-", "<&-", "&>", "&>>"))
# They start a command that they, or another machine or shell, make out of their arguments.
_UNSUPPORTED = frozenset(
    ("sudo", "xargs", "watch", "ssh", "nohup", "eval", "source", ".", "script", "parallel")
)
_STARTERS = _UNSUPPORTED | {"env", "command", "exec", "time", "timeout", "nice", "stdbuf", "setsid"}


@attrs.frozen
class Syntax:
    """The labels of a text, `simple` for one of plain and quoted words, and who gave them."""

    labels: tuple[str, ...]
    source: str = PARSER


def read(text: str) -> Syntax:
    """The labels of a text in the order of their names."""
    words = plain_argv(text)
    if words is not None:
        return Syntax(tuple(sorted(set(_of_command(words)))) or (SIMPLE,))
    root = tree_of(text)
    if root is None:
        return Syntax(tuple(sorted({*lexical.labels(text), FAILURE})), LEXICAL)
    found = set(_of_tree(root))
    if parse(text) is None:
        found.add(FAILURE)
    return Syntax(tuple(sorted(found)) or (SIMPLE,))


def _of_tree(root: Node) -> Iterator[str]:
    cursor = root.walk()
    around: list[str] = []
    quoted: list[tuple[int, int]] = []
    while True:
        node = cursor.node
        assert node is not None  # noqa: S101 - the cursor stands on the tree
        kind, parent = node.type, around[-1] if around else ""
        label = _OF_NODES.get(kind)
        if label is not None:
            if node.is_named or parent not in _EXPRESSIONS:
                yield label
        elif kind in _QUOTED:
            if not quoted or node.start_byte >= quoted[-1][1]:
                quoted.append((node.start_byte, node.end_byte))
        elif kind == "file_redirect":
            operators = {child.type for child in node.children}
            yield "other_redirection" if _MERGES.isdisjoint(operators) else "stream_merge"
        elif kind in ("compound_statement", "test_command"):
            opening = node.children[0].type
            if opening in ("[[", "(("):
                yield "control_structure"
            elif opening == "{" and parent != "function_definition":
                yield "subshell_group"
        elif kind == "command":
            yield from _of_command(_words(node))
        if cursor.goto_first_child():
            around.append(kind)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                if _goes_on(root.text or b"", root.start_byte, quoted):
                    yield "multiline"
                return
            around.pop()


def _goes_on(source: bytes, start: int, quoted: list[tuple[int, int]]) -> bool:
    """Whether there is a line's end outside of quotes that the shell takes for one."""
    at = start
    parts = []
    for first, end in quoted:
        parts.append(source[at - start : first - start])
        at = end
    parts.append(source[at - start :])
    return b"\n" in b"''".join(parts).replace(b"\\\n", b"").strip()


def _words(command: Node) -> list[str]:
    """The words of a command; what the shell makes is NUL in them."""
    words = [_word(child) for child in command.children if child.is_named]
    skipped = sum(child.type == "variable_assignment" for child in command.children)
    return words[skipped:]


def _word(node: Node) -> str:
    text = (node.text or b"").decode()
    if node.type == "raw_string":
        return text[1:-1]
    if node.type in ("command_name", "concatenation", "string"):
        return "".join(_word(child) for child in node.children if child.is_named)
    return text if node.type in ("word", "number", "string_content") else "\0"


def _of_command(words: list[str]) -> Iterator[str]:
    if not words:
        return
    program = _name(words[0])
    if "/" in words[0]:
        yield "path_invocation"
    if program in _UNSUPPORTED:
        yield "unsupported_wrapper"
    shells = [at for at, word in enumerate(words) if _name(word) in SHELLS]
    if program not in _STARTERS:
        shells = [at for at in shells if not at]
    if any(_runs_text(words[at + 1 :]) for at in shells):
        yield "nested_shell"


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _runs_text(arguments: list[str]) -> bool:
    """Whether a shell with these arguments runs one of them: `-c`, `-lc`, `-eo pipefail -c`."""
    before = ""
    for word in arguments:
        if word[:1] not in ("-", "+"):
            if not before.endswith("o"):
                return False
        elif word[:2] != "--" and "c" in word:
            return True
        before = word
    return False
