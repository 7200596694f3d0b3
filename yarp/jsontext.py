"""JSON text that belongs to somebody else: read with its places, changed in few bytes.

`insert` and `remove` work on the text and leave every other character as it is: comments,
indentation, line ends. What they write follows what stands beside it. Nothing here touches a
file; `yarp.hostfile` does.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from yarp.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SPACE = re.compile(r"[ \t\r\n]*")
_TRIVIA = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_REMARK = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\r\n]*)?")
_DECODER = json.JSONDecoder()
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 200

Path = tuple[str, ...]


class Node:
    """One value of the text, from `start` to `end`; `value` is what it says, parsed."""

    def __init__(self, start: int, end: int, value: Any) -> None:
        self.start = start
        self.end = end
        self.value = value


class Member:
    """What an object or array holds at one place; `start` is that of its key, if it has one.

    `comma` is the place of the comma behind it, None behind the last.
    """

    def __init__(self, start: int, key: str | None, node: Node) -> None:
        self.start = start
        self.key = key
        self.node = node
        self.comma: int | None = None


class Container(Node):
    """An object or array with its members, in order."""

    def __init__(self, start: int) -> None:
        super().__init__(start, start, None)
        self.members: list[Member] = []

    def named(self, key: str) -> Member | None:
        """The member of that name. DataError: there are two, and readers differ about them."""
        found = [member for member in self.members if member.key == key]
        if len(found) > 1:
            raise DataError(f"the key {key!r} stands there twice")
        return found[0] if found else None


def parse(text: str, *, comments: bool) -> Node:
    """The one value of `text`. DataError: it is not JSON (with `comments`, JSON with comments).

    With `comments`, a comma may also stand behind the last member. The message names line and
    column, never what stands there.
    """
    parser = _Parser(text, comments=comments)
    found = parser.value(parser.skip(1 if text.startswith("\ufeff") else 0), 0)
    rest = parser.skip(found.end)
    if rest != len(text):
        parser.fail(rest, "nothing more")
    return found


class _Parser:
    def __init__(self, text: str, *, comments: bool) -> None:
        self.text = text
        self._trailing = comments
        self._trivia = _TRIVIA if comments else _SPACE

    def skip(self, place: int) -> int:
        found = self._trivia.match(self.text, place)
        return found.end() if found else place

    def fail(self, place: int, wanted: str) -> None:
        line = self.text.count("\n", 0, place) + 1
        column = place - (self.text.rfind("\n", 0, place) + 1) + 1
        raise DataError(f"line {line}, column {column}: it should have {wanted} here")

    def value(self, place: int, depth: int) -> Node:
        text = self.text
        first = text[place : place + 1]
        if first in ("{", "["):
            if depth == _DEEPEST:
                self.fail(place, f"no more than {_DEEPEST} levels")
            return self._container(place, depth)
        if first == '"':
            string, end = self._string(place)
            return Node(place, end, string)
        for word, value in _WORDS.items():
            if text.startswith(word, place):
                return Node(place, place + len(word), value)
        number = _NUMBER.match(text, place)
        if number is None:
            self.fail(place, "a value")
        assert number is not None  # noqa: S101 - fail raises
        try:
            return Node(place, number.end(), json.loads(number[0]))
        except ValueError:  # thousands of digits
            return Node(place, number.end(), number[0])

    def _string(self, place: int) -> tuple[str, int]:
        try:
            string, end = _DECODER.raw_decode(self.text, place)
        except json.JSONDecodeError as error:
            self.fail(error.pos, "a whole string")
            raise
        return str(string), end

    def _container(self, start: int, depth: int) -> Container:
        text, found = self.text, Container(start)
        is_object = text[start] == "{"
        closing = "}" if is_object else "]"
        place = self.skip(start + 1)
        while text[place : place + 1] != closing or (found.members and not self._trailing):
            begin, key = place, None
            if is_object:
                if text[place : place + 1] != '"':
                    self.fail(place, "a key")
                key, place = self._string(place)
                place = self.skip(place)
                if text[place : place + 1] != ":":
                    self.fail(place, "a colon")
                place = self.skip(place + 1)
            node = self.value(place, depth + 1)
            member = Member(begin, key, node)
            found.members.append(member)
            place = self.skip(node.end)
            if text[place : place + 1] != ",":
                break
            member.comma = place
            place = self.skip(place + 1)
        if text[place : place + 1] != closing:
            self.fail(place, f"a comma or {closing}")
        found.end = place + 1
        values = [member.node.value for member in found.members]
        if is_object:
            keys = [member.key for member in found.members]
            found.value = dict(zip(keys, values, strict=True))
        else:
            found.value = values
        return found


def is_blank(text: str, *, comments: bool) -> bool:
    """Whether the text says nothing: blanks, and with `comments` remarks."""
    body = text.removeprefix("\ufeff")
    # Not `fullmatch`: it would stretch one remark to the end of the last.
    found = (_TRIVIA if comments else _SPACE).match(body)
    return found is not None and found.end() == len(body)


def insert(text: str, path: Path, value: object, *, comments: bool) -> tuple[str, list[Path]]:
    """`text` with `value` behind the last member of the array at `path`; what had to be made.

    A last name of `path` that is no `[]` names a member of an object instead: it must not be
    there yet. The second is the paths of the objects and arrays on the way that were missing.
    An empty text becomes a whole one. DataError: it is not JSON, or not of that shape.
    """
    if not is_blank(text, comments=comments):
        return _insert(text, path, value, comments=comments)
    body = text.removeprefix("\ufeff")
    kept = "" if not body.strip() else body if body.endswith("\n") else body + "\n"
    head = text[: len(text) - len(body)]
    return _insert(f"{head}{kept}{{\n}}\n", path, value, comments=comments)


def _insert(text: str, path: Path, value: object, *, comments: bool) -> tuple[str, list[Path]]:
    root = parse(text, comments=comments)
    node, way, is_array = root, list(path[:-1]), path[-1] == "[]"
    for depth, name in enumerate(way):
        container = _object(node, way[:depth])
        member = container.named(name)
        if member is None:
            inner: object = [value] if is_array else {path[-1]: value}
            for key in reversed(way[depth + 1 :]):
                inner = {key: inner}
            made = [tuple(way[: count + 1]) for count in range(depth, len(way))]
            return _added(text, container, name, inner, root), made
        node = member.node
    if is_array:
        if not isinstance(node, Container) or not isinstance(node.value, list):
            raise DataError(f"{'.'.join(way)} is no array")
        return _added(text, node, None, value, root), []
    container = _object(node, way)
    if container.named(path[-1]) is not None:
        raise DataError(f"{'.'.join(path)} is there already")
    return _added(text, container, path[-1], value, root), []


def _object(node: Node, way: list[str]) -> Container:
    if not isinstance(node, Container) or not isinstance(node.value, dict):
        raise DataError(f"{'.'.join(way) or 'the whole'} is no object")
    return node


def _added(text: str, container: Container, key: str | None, value: object, root: Node) -> str:
    """`text` with one more member in `container`, in the manner of what stands there."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text, root)
    if container.members:
        last = container.members[-1]
        indent = _indent_of(text, last.start)
        spread = indent is not None
        behind = last.node.end if last.comma is None else last.comma + 1
        if spread:
            rest = _REST_OF_LINE.match(text, behind)
            line_end = rest.end() if rest else behind
            # A remark behind the last member stays on its line.
            if text[line_end : line_end + 1] in ("\r", "\n"):
                between, behind = text[behind:line_end], line_end
            else:
                between = ""
            item = newline + (indent or "") + _item(key, value, unit, newline, indent or "")
        else:
            between = ""
            item = " " + _item(key, value, None, newline, "")
        if last.comma is not None:
            return text[:behind] + item + text[behind:]
        end = last.node.end
        return text[:end] + "," + between + item + text[behind:]
    place = container.end - 1
    inside = text[container.start + 1 : place]
    if "\n" not in inside and "\n" not in text.strip():
        return text[:place] + _item(key, value, None, newline, "") + text[place:]
    line = text.rfind("\n", 0, container.start) + 1
    outer = re.match(r"[ \t]*", text[line:])
    margin = outer[0] if outer else ""
    item = _item(key, value, unit, newline, margin + unit)
    if "\n" in inside:
        # The closing bracket stands on a line of its own: ours goes in before it.
        own = _indent_of(text, place)
        gap = unit if own is not None and own == margin else newline + margin + unit
    else:
        gap = newline + margin + unit
    return text[:place] + gap + item + newline + margin + text[place:]


def _item(key: str | None, value: object, unit: str | None, newline: str, indent: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=unit)
    if unit is not None:
        text = text.replace("\n", newline + indent)
    return text if key is None else f"{json.dumps(key, ensure_ascii=False)}: {text}"


def _indent_of(text: str, place: int) -> str | None:
    """The blanks before `place`, if nothing else stands before it on its line."""
    line = text.rfind("\n", 0, place) + 1
    before = text[line:place]
    return before if line and not before.strip(" \t") else None


def _unit(text: str, root: Node) -> str:
    """What one level of indentation is in this text; two blanks where it shows none."""
    if isinstance(root, Container) and root.members:
        inner = _indent_of(text, root.members[0].start)
        outer = _indent_of(text, root.start) or ""
        if inner is not None and inner.startswith(outer) and inner != outer:
            return inner[len(outer) :]
    return "  "


def remove(
    text: str, ours: Callable[[Path, Member], bool], made: set[Path], *, comments: bool
) -> tuple[str, int]:
    """`text` without the members that are `ours`, and how many they were.

    `ours` gets the path of each member: the names on the way, then `[]` for one of an array
    or its key. Objects and arrays of `made` that become empty go as well.
    """
    count = 0
    while True:
        found = next(_walk((), parse(text, comments=comments), ours), None)
        if found is None:
            break
        path, container, index = found
        text = _removed(text, container, index)
        count += 1
        text = _prune(text, path[:-1], made, comments=comments)
    return text, count


def _prune(text: str, path: Path, made: set[Path], *, comments: bool) -> str:
    """Without the containers on the way to `path`, innermost first, that hold nothing more."""
    for length in range(len(path), 0, -1):
        if path[:length] not in made:
            break
        node = parse(text, comments=comments)
        container: Container | None = None
        for name in path[:length]:
            if not isinstance(node, Container):
                return text
            container, member = node, node.named(name)
            if member is None:
                return text
            node = member.node
        if container is None or node.value not in ({}, []):
            break
        index = next(i for i, one in enumerate(container.members) if one.key == path[length - 1])
        text = _removed(text, container, index)
    return text


def _walk(
    path: Path, node: Node, ours: Callable[[Path, Member], bool]
) -> Iterator[tuple[Path, Container, int]]:
    if isinstance(node, Container):
        for index, member in enumerate(node.members):
            here = (*path, "[]" if member.key is None else member.key)
            if ours(here, member):
                yield here, node, index
            yield from _walk(here, member.node, ours)


def _removed(text: str, container: Container, index: int) -> str:
    """`text` without one member, the blanks before it, and one comma."""
    member = container.members[index]
    start = _blanks_before(text, container, index)
    if len(container.members) == 1:
        end = member.node.end if member.comma is None else member.comma + 1
        rest = text[end : container.end - 1]
        # Nothing but blanks would be left: the brackets close up.
        if start == container.start + 1 and not rest.strip():
            end = container.end - 1
        return text[:start] + text[end:]
    end = member.node.end
    if member.comma is not None:
        return text[:start] + text[end : member.comma] + text[member.comma + 1 :]
    before = container.members[index - 1].comma
    assert before is not None  # noqa: S101 - a comma stands between two members
    return text[:before] + text[before + 1 : start] + text[end:]


def _blanks_before(text: str, container: Container, index: int) -> int:
    """Where the blanks before a member begin; the end of line that a remark needs is none."""
    comma = container.members[index - 1].comma if index else None
    member = container.members[index]
    begin = container.start + 1 if comma is None else comma + 1
    start = member.start
    while start > begin and text[start - 1] in " \t\r\n":
        start -= 1
    remarks = list(_REMARK.finditer(text, begin, start))
    if remarks and remarks[-1][0].startswith("//"):
        behind = member.node.end if member.comma is None else member.comma + 1
        if not re.match(r"[ \t]*\r?\n", text[behind:]):
            return text.index("\n", start) + 1
    return start
