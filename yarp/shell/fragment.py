"""The statements of a command text: their nesting, connectors, pipelines and redirects.

What the trace index keeps of a shell call, so that SQL finds commands without parsing. Unlike
`parse`, it keeps what it can of a text that it does not understand whole, and says that it is
partial. Nothing is expanded, and nothing inside quotes is parsed again. Ranges are UTF-8 bytes
of the text. Source: seed 002, ShellFragment; spec "Trace index", 6.
"""

from __future__ import annotations

import itertools

from yarp.shell import mend
from yarp.shell.parse import MAX_BYTES, syntax_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tree_sitter import Node

MAX_STATEMENTS = 512

_JOINS = frozenset(("list", "pipeline", "negated_command"))
_ARM_ENDS = frozenset((";;", ";&", ";;&"))
_ENDS = _ARM_ENDS | {";", "&", "\n"}
_LINKS = frozenset(("&&", "||", "|", "|&"))
_GROUPS = frozenset(("subshell", "compound_statement"))
_INVOKED = frozenset(("declaration_command", "unset_command"))
_COMPOUND = frozenset(
    (
        *("if_statement", "for_statement", "c_style_for_statement", "while_statement"),
        *("case_statement", "function_definition"),
    )
)
_ASSIGNMENTS = frozenset(("variable_assignment", "variable_assignments"))
_STATEMENTS = _COMPOUND | _INVOKED | _ASSIGNMENTS | {"command", "test_command"}
_BEHIND_NAMES = frozenset(";&|<>()")
# The shell takes these for a command nowhere.
_CLOSERS = frozenset(("}", "fi", "done", "esac", "then", "do", "else", "elif"))
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
# Inside a compound statement, these begin a sequence of their own.
_SEQUENCE_OPENERS = frozenset(
    ("if", "then", "else", "elif", "while", "until", "do", "{", "(", ")", "$(", "<(", ">(", "`")
)
_GROUPED = frozenset(("unary_expression", "binary_expression", "parenthesized_expression"))
_LITERAL = frozenset(("word", "number", "raw_string", "string", "string_content"))
_ACTIVE = frozenset("*?[]{}\\$`~")

Pipe = tuple[int, int]


def statements(text: bytes) -> tuple[list[dict[str, Any]], bool]:
    """The statements in the order of the text, ancestors first; whether that is all of it."""
    if len(text) > MAX_BYTES or b"\0" in text:
        return [], False
    stand_in, descriptors = mend.without_prefixes(text)
    root = syntax_tree(stand_in)
    if root is None:
        return [], False
    extras: list[mend.Extra] = []
    whole = True
    if root.has_error or (b"<<" in text and _misread(root, text)):
        readable, more, all_of_it = mend.readable(stand_in)
        again = syntax_tree(readable) if readable != stand_in else None
        if again is not None and not again.has_error:
            root, extras, whole = again, more, all_of_it
        else:
            whole = False
    walk = _Walk(text, descriptors)
    walk.sequence(root.children, None, None, ())
    for extra in extras:
        walk.attach(extra)
    found = _in_order(walk.found)[:MAX_STATEMENTS]
    # The grammar lets the ends of a case's arms stand anywhere.
    stray = walk.stray or any(child.type in _ARM_ENDS for child in root.children)
    whole &= not root.has_error and not stray and len(found) == len(walk.found)
    return found, whole


def _misread(root: Node, text: bytes) -> bool:
    """Whether the end of a here-document was taken to be what stands behind its name too."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "heredoc_start" and _BEHIND_NAMES & set(
            text[node.start_byte : node.end_byte].decode("utf-8", "replace").strip("'\"")
        ):
            return True
        stack += node.children
    return False


def _in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The statements by their place in the text; what a heredoc holds comes behind its line."""

    def place(index: int) -> tuple[int, int]:
        return found[index]["range"]["start"], -found[index]["range"]["end"]

    order = sorted(range(len(found)), key=place)
    position = {old: new for new, old in enumerate(order)}
    for entry in found:
        if "parent_position" in entry:
            entry["parent_position"] = position[entry["parent_position"]]
    return [found[old] for old in order]


class _Token:
    """A statement or group in a sequence, with the redirects that stand behind it."""

    def __init__(self, node: Node | None) -> None:
        self.node = node
        self.redirects: list[dict[str, Any]] = []
        self.words: list[Node] = []


class _Walk:
    def __init__(self, source: bytes, descriptors: dict[int, bytes]) -> None:
        self._source = source
        self._descriptors = descriptors
        self._pipelines = 0
        self.found: list[dict[str, Any]] = []
        self.stray = False
        """Whether a word that ends a compound statement stands where none is open."""

    def sequence(
        self,
        nodes: Sequence[Node],
        parent: int | None,
        pipe: Pipe | None,
        outer: Sequence[dict[str, Any]],
    ) -> None:
        """Visit the statements of a sequence; `pipe` and the redirects `outer` are all's."""
        tokens: list[_Token | str] = []
        for node in nodes:
            self._flatten(node, tokens)
        connector: str | None = None
        first = True
        at = 0
        while at < len(tokens):
            lead = tokens[at]
            if isinstance(lead, str):
                if lead in ("&&", "||"):
                    connector = lead
                elif connector is None or connector == "newline":
                    # The first operator behind a statement counts: `a;` and a newline is `;`.
                    connector = "newline" if lead == "\n" else lead[:1]
                at += 1
                continue
            stages = [lead]
            while at + 2 < len(tokens) and tokens[at + 1] in ("|", "|&"):
                following = tokens[at + 2]
                if isinstance(following, str):
                    break
                stages.append(following)
                at += 2
            own = None
            if len(stages) > 1:
                own, self._pipelines = self._pipelines, self._pipelines + 1
            for position, stage in enumerate(stages):
                self._stage(
                    stage,
                    parent,
                    None if first else connector or "newline",
                    pipe if own is None else (own, position),
                    outer,
                )
            connector, first = None, False
            at += 1

    def _flatten(self, node: Node, tokens: list[_Token | str]) -> None:
        """Operators one by one: the tree puts a redirect or a pipe around a whole `a && b`."""
        kind = node.type
        if kind in _JOINS or kind == "ERROR":
            for child in node.children:
                self._flatten(child, tokens)
        elif kind == "redirected_statement":
            for child in node.children:
                if child.type.endswith("_redirect"):
                    self._attach(child, tokens)
                else:
                    self._flatten(child, tokens)
        elif kind in _ENDS or kind in _LINKS:
            tokens.append(kind)
        elif kind in _STATEMENTS or kind in _GROUPS:
            tokens.append(_Token(node))
        elif kind in _SUBSTITUTIONS:  # within what could not be read whole
            token = _Token(None)
            token.words.append(node)
            tokens.append(token)

    def _attach(self, node: Node, tokens: list[_Token | str]) -> None:
        """A redirect belongs to the statement right before it."""
        last = tokens[-1] if tokens else None
        if last is None or isinstance(last, str):
            last = _Token(None)
            tokens.append(last)
        if node.type != "heredoc_redirect":
            self._redirect(node, last)
            return
        operator = "<<"
        start, source_fd = self._descriptor(node)
        for child in node.children:
            if child.type == "file_descriptor":
                source_fd = self._text(child)
            elif child.type in ("<<", "<<-"):
                operator = child.type
            elif child.type == "heredoc_start":
                last.redirects.append(
                    _redirect(source_fd, operator, self._text(child), start, child.end_byte)
                )
            elif child.type.endswith("_redirect"):
                self._attach(child, tokens)
            elif child.type == "heredoc_body":
                last.words.append(child)
            elif child.type != "heredoc_end":
                # The rest of the line stands between the delimiter and the text.
                self._flatten(child, tokens)

    def _descriptor(self, node: Node) -> tuple[int, str | None]:
        """Where a redirect begins, and the descriptor that the grammar did not see there."""
        start = node.start_byte
        if node.type == "file_redirect" and self._source[start - 2 : start + 1] == b"<<<":
            start -= 2  # in the stand-in it is a `<`
        found = self._descriptors.get(start)
        return (start, None) if found is None else (start - len(found), found.decode())

    def attach(self, extra: mend.Extra) -> None:
        """Give a redirect that is in no tree to the statement before it."""
        before = [one for one in self.found if one["range"]["start"] < extra.start]
        if not before:
            self.stray = True
            return
        owner = max(before, key=lambda one: one["range"]["start"])
        while "parent_position" in owner:
            parent = self.found[owner["parent_position"]]
            if parent["range"]["end"] > extra.start:
                break
            owner = parent
        owner["redirects"] = [
            *owner["redirects"],
            _redirect(
                extra.source_fd or None, extra.operator, extra.target, extra.start, extra.end
            ),
        ]
        owner["redirects"].sort(key=lambda one: one["range"]["start"])

    def _redirect(self, node: Node, token: _Token) -> None:
        operator, target = "", None
        start, source_fd = self._descriptor(node)
        for child in node.children:
            if child.type == "file_descriptor":
                source_fd = self._text(child)
            elif child.type == "ERROR":
                break
            elif not child.is_named:
                operator = self._text(child)
                if child.start_byte >= 2 and self._source[child.start_byte - 2 :][:2] == b"<<":
                    operator = "<<<"
            elif target is None:
                target = child
                if child.type in _SUBSTITUTIONS:
                    token.words.append(child)
            else:
                token.words.append(child)  # the grammar takes the words of `> f a b` for targets
        end = node.end_byte if target is None else target.end_byte
        shown = "" if target is None else self._text(target)
        token.redirects.append(_redirect(source_fd, operator, shown, start, end))

    def _stage(
        self,
        token: _Token,
        parent: int | None,
        connector: str | None,
        pipe: Pipe | None,
        outer: Sequence[dict[str, Any]],
    ) -> None:
        node = token.node
        if node is not None and node.start_byte == node.end_byte:
            node = None  # made up by the grammar, where a command is missing
        redirects = [*token.redirects, *outer]
        if node is not None and node.type in _GROUPS and node.children[0].type in ("{", "("):
            # A group is no statement: what it redirects, each of its statements writes there.
            before = len(self.found)
            self.sequence(node.children[1:-1], parent, pipe, redirects)
            if connector is not None and len(self.found) > before:
                self.found[before].setdefault("connector", connector)
            self._inside(token.words, parent)
            return
        if node is None and not redirects:
            self._inside(token.words, parent)
            return
        cut = node.start_byte if node is not None else redirects[0]["range"]["start"]
        if node is not None and node.type == "command":
            cut = self._split_assignments(node, parent, connector, pipe)
            if cut != node.start_byte:
                connector = "newline"
        position = len(self.found)
        end = node.end_byte if node is not None else redirects[-1]["range"]["end"]
        entry: dict[str, Any] = {"range": {"start": cut, "end": end}}
        if parent is not None:
            entry["parent_position"] = parent
        if connector is not None:
            entry["connector"] = connector
        if pipe is not None:
            entry["pipeline"] = {"id": pipe[0], "position": pipe[1]}
        entry["invocations"] = []
        entry["redirects"] = redirects
        self.found.append(entry)
        if node is None:
            self._inside(token.words, position)
        elif node.type in _COMPOUND:
            own = _Token(node)  # of a function, the redirects are its children
            for child in node.children:
                if child.type.endswith("_redirect"):
                    self._redirect(child, own)
            entry["redirects"] = own.redirects + redirects
            self._compound(node, position, pipe)
            self._inside(token.words, position)
        else:
            self._simple(node, token, entry, cut)
            self._inside([*node.children, *token.words], position, cut)

    def _split_assignments(
        self, node: Node, parent: int | None, connector: str | None, pipe: Pipe | None
    ) -> int:
        """Where the command begins: the grammar counts assignments of lines before as its own."""
        cut = start = node.start_byte
        end = None
        for child in node.children:
            if end is not None and b"\n" in self._source[end : child.start_byte].replace(
                b"\\\n", b""
            ):
                entry: dict[str, Any] = {"range": {"start": start, "end": end}}
                if parent is not None:
                    entry["parent_position"] = parent
                said = connector if start == node.start_byte else "newline"
                if said is not None:
                    entry["connector"] = said
                if pipe is not None:
                    entry["pipeline"] = {"id": pipe[0], "position": pipe[1]}
                self.found.append(entry | {"invocations": [], "redirects": []})
                cut = start = child.start_byte
            if child.type != "variable_assignment":
                break
            end = child.end_byte
        return cut

    def _simple(self, node: Node, token: _Token, entry: dict[str, Any], cut: int) -> None:
        """Fill in what a simple statement invokes and redirects."""
        words: list[Node] = []
        own = _Token(node)
        for child in node.children:
            if child.start_byte < cut:
                continue
            if child.type.endswith("_redirect"):
                self._redirect(child, own)
            elif child.type == "command_name" or node.type in _INVOKED:
                words += child.children if child.type == "command_name" else [child]
            elif words or (node.type == "command" and child.type != "variable_assignment"):
                words.append(child)
        if node.type == "test_command" and node.children[0].type == "[":
            words = _operands(node)
        entry["redirects"] = own.redirects + entry["redirects"]
        extra = [word for word in (*own.words, *token.words) if word.type != "heredoc_body"]
        words += [word for word in extra if word.type not in _SUBSTITUTIONS]
        # What the grammar made up for a missing command is no word.
        words = [word for word in words if word.end_byte > word.start_byte]
        if words:
            program, *argv = words
            self.stray |= self._text(program) in _CLOSERS
            entry["invocations"].append(
                {"program": self._program(program), "argv": [self._text(word) for word in argv]}
            )

    def _program(self, node: Node) -> str:
        """The basename of a literal word; one that the shell would change as it stands."""
        text = self._text(node)
        parts = node.children if node.type == "concatenation" else [node]
        if any(part.type not in _LITERAL for part in parts):
            return text
        plain = ""
        for part in parts:
            shown = self._text(part)
            if part.type in ("word", "number"):
                if _ACTIVE & set(shown):
                    return text
                plain += shown
            elif part.type == "string" and _ACTIVE & set(shown) - set("*?[]{}~"):
                return text
            else:
                plain += shown[1:-1]
        return plain.rsplit("/", 1)[-1] or text

    def _compound(self, node: Node, position: int, pipe: Pipe | None) -> None:
        """The sequences inside a compound statement, each from its keyword on."""
        run: list[Node] = []

        def close() -> None:
            self.sequence(run, position, pipe, ())
            run.clear()

        for child in node.children:
            kind = child.type
            if kind in ("do_group", "elif_clause", "else_clause", "case_item"):
                close()
                self._compound(child, position, pipe)
            elif kind in _SEQUENCE_OPENERS:
                close()
            elif kind in _GROUPS and node.type == "function_definition":
                close()
                self.sequence(child.children[1:-1], position, pipe, ())
            elif (
                kind in _STATEMENTS
                or kind in _JOINS
                or kind in _GROUPS
                or kind in _ENDS
                or kind in ("redirected_statement", "ERROR")
            ):
                run.append(child)
            elif child.is_named:
                close()
                self._inside([child], position)
        close()

    def _inside(self, nodes: Sequence[Node], position: int | None, cut: int = 0) -> None:
        """The substitutions within words, each a sequence of its own."""
        stack = [node for node in reversed(nodes) if node.start_byte >= cut]
        while stack:
            node = stack.pop()
            if node.type in _SUBSTITUTIONS:
                self.sequence(node.children, position, None, ())
            else:
                stack += reversed(node.children)

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _operands(node: Node) -> list[Node]:
    """The words of a `[ ... ]`, which the grammar groups by their meaning."""
    found: list[Node] = []
    for child in node.children:
        apart = child.type in _GROUPED and all(
            one.end_byte < other.start_byte for one, other in itertools.pairwise(_operands(child))
        )
        found += _operands(child) if apart else [child]
    return found


def _redirect(
    source_fd: str | None, operator: str, target: str, start: int, end: int
) -> dict[str, Any]:
    said = {} if source_fd is None else {"source_fd": source_fd}
    return {
        **said,
        "operator": operator,
        "target": target,
        "range": {"start": start, "end": end},
    }
