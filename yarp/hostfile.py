"""What a plugin writes into a host's own JSON configuration, and takes out of it again.

    lines = hostfile.install("~/.acme/hooks.json", entries, host="acme", dry_run=False)
    lines = hostfile.uninstall("~/.acme/hooks.json", host="acme", dry_run=False)

Only our entries are added and removed; every other byte stays. What the file was before, and
what it became, is recorded in YARP's data directory: a file that nobody touched since goes
back to the very bytes it had. In one that was edited since, our entries alone are removed.
A file is replaced whole, by a rename in its own directory; a symbolic link stays a link.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, frozen

from yarp import jsontext, paths, wholefile
from yarp.errors import DataError, StorageError, YarpError
from yarp.types import Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_SCOPES = ("user", "project")


@frozen
class Entry:
    """One thing of ours in a configuration.

    `path`: the keys that lead to it; a last `[]` means one more member of that array, else it
    is the member of that name. `needed`: the host wants it in any such file (a version, say);
    it is left to those who put something of their own beside it.
    """

    path: tuple[str, ...]
    value: Any
    needed: bool = False


@frozen
class Place:
    """The file of a scope: how our entries stand in it, and the command that writes them anew."""

    path: str
    standing: bool | None
    again: str


@frozen
class Installed:
    """The record of a file: its digests before and after, what we wrote and made."""

    path: str
    before: str | None
    after: str | None
    entries: tuple[Entry, ...]
    made: tuple[tuple[str, ...], ...]
    directories: tuple[str, ...]


def program() -> list[str]:
    """The words that start this very `yarp` from anywhere."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "yarp")
    for path in (beside, os.path.abspath(sys.argv[0])):
        if os.path.basename(path) == "yarp" and os.access(path, os.X_OK):
            return [path]
    return [sys.executable, "-m", "yarp"]


def command(host: str, *, before: bool = False) -> str:
    """The shell text of a host's hook, `yarp hook HOST`, wherever it is started.

    `before`: of one that the host asks before a call, and that can keep it from running.
    DataError: JSON cannot hold the text.
    """
    from yarp.shell.quoting import quote

    words = ["--before", host] if before else [host]
    text = " ".join(map(quote, [*program(), "hook", *words]))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError("the path of this yarp is no Unicode, and JSON cannot name it") from None
    return text


def install(
    path: str, entries: Iterable[Entry], *, host: str, dry_run: bool, comments: bool = False
) -> list[str]:
    """Put `entries` into the file at `path`; a line for each change, none when all is there.

    A missing or empty file becomes one that holds them. Entries of an earlier installation are
    replaced. DataError: the file is not JSON (with `comments`, JSON with comments), or holds
    something else where an entry belongs. StorageError: it is read-only, no file, or cannot be
    written. Nothing was changed then.
    """
    wanted = tuple(entries)
    file = _File(path, host, comments=comments)
    if file.holds(wanted):
        return []
    base = file.without_ours()
    text, made = base or "", list[jsontext.Path]()
    with _naming(path):
        for entry in wanted:
            if not (entry.needed and _has(text, entry, comments=comments)):
                text, created = jsontext.insert(text, entry.path, entry.value, comments=comments)
                made += created
    file.require_writable()
    change = _Change(dry_run)
    if base is not None:
        change.say("kept a copy of", "would keep a copy of", f"{path}: {file.backup}")
    directories = change.make_directories(os.path.dirname(file.target))
    if not directories and file.record is not None:
        directories = list(file.record.directories)
    record = Installed(
        file.target, _digest(base), _digest(text), wanted, tuple(made), tuple(directories)
    )
    change.say("wrote", "would write", path)
    if not dry_run:
        file.remember(record, base)
        file.replace(text)
    return change.lines


def uninstall(path: str, *, host: str, dry_run: bool, comments: bool = False) -> list[str]:
    """Take our entries out of the file at `path`; a line for each change.

    One that nobody touched since `install` gets the bytes that it had; one that `install`
    made goes, and the directories that it made, if nothing else is in them. Errors as there.
    """
    file = _File(path, host, comments=comments)
    base = file.without_ours()
    change = _Change(dry_run)
    if base != file.text:
        file.require_writable()
        if base is None:
            change.say("removed", "would remove", path)
        else:
            change.say("took YARP out of", "would take YARP out of", path)
        if not dry_run:
            file.replace(base)
    if file.record is not None:
        for directory in reversed(file.record.directories):
            change.remove_directory(directory, gone=file.target if base is None else None)
        if not dry_run:
            file.forget()
    return change.lines


def standing(
    path: str, entries: Iterable[Entry], *, host: str, comments: bool = False
) -> bool | None:
    """Whether the file holds `entries`; None: entries of ours, but not those.

    Errors as for `install`, of a file that cannot be read.
    """
    file = _File(path, host, comments=comments)
    if file.holds(tuple(entries)):
        return True
    return None if file.without_ours() != file.text else False


def keep(path: str, *, host: str) -> None:
    """Remember the file at `path` as it is, before the host itself changes it for us."""
    file = _File(path, host, comments=False)
    record = file.record
    if record is not None and _digest(file.text) == record.after:
        return  # changed for us before, and by nobody since
    file.remember(Installed(file.target, _digest(file.text), None, (), (), ()), file.text)


def kept(path: str, *, host: str) -> None:
    """Remember what the host made of a file that `keep` was told of."""
    file = _File(path, host, comments=False)
    if file.record is not None:
        file.remember(evolve(file.record, after=_digest(file.text)), None)


def restore(path: str, *, host: str, dry_run: bool) -> bool:
    """Give a file that `keep` was told of its bytes back, if nobody changed it since.

    False: somebody did, or nothing is remembered; the file is left, and the record goes.
    """
    file = _File(path, host, comments=False)
    record = file.record
    before = wholefile.read(file.backup) if os.path.isfile(file.backup) else None
    same = (
        record is not None
        and _digest(file.text) == record.after
        and _digest(before) == record.before
    )
    if same:
        file.require_writable()
    if not dry_run:
        if same and before != file.text:
            file.replace(before)
        file.forget()
    return same


def require_writable(path: str) -> None:
    """StorageError: the file at `path`, there or not, could not be written."""
    wholefile.read(path)
    wholefile.require_writable(path)


def replace(path: str, text: str) -> None:
    """Put `text` in the place of a file of a host's, at once and whole; links and modes stay."""
    file = _File(path, "", comments=False)
    file.require_writable()
    file.replace(text)


def chosen(host: str) -> dict[str, Any]:
    """The user's own table `hosts.HOST` of YARP's configuration."""
    from yarp.config import load_config

    return dict(load_config().settings().hosts.get(host, {}))


def archive_directory() -> str:
    """The folder of the archive: what a host's sandbox must let commands write to."""
    from yarp.config import load_config

    return os.path.dirname(paths.archive_file(load_config().settings().archive_path))


def commands(path: str, *, host: str, comments: bool = False) -> list[str]:
    """The texts in the file that start a hook of ours, in order; errors as for `install`."""
    file = _File(path, host, comments=comments)
    if file.text is None or file.is_blank():
        return []
    with _naming(path):
        found = jsontext.parse(file.text, comments=comments).value
    return [text for text in _strings(found) if _is_ours(text, file.marks)]


def places(
    file: Callable[[str], str], entries: Iterable[Entry], *, host: str, comments: bool = False
) -> tuple[list[Place], list[str]]:
    """How `entries` stand in the files of both scopes, with a note for each that is amiss.

    `file` gives the path for a scope, `user` or `project`. What cannot be read has a note alone.
    """
    wanted, found, notes = tuple(entries), list[Place](), list[str]()
    for scope in _SCOPES:
        path = file(scope)
        again = f"yarp install {host}" + ("" if scope == "user" else f" --scope {scope}")
        try:
            place = Place(path, standing(path, wanted, host=host, comments=comments), again)
        except YarpError as error:
            notes.append(f"{error}.")
            continue
        found.append(place)
        if place.standing is None:
            notes.append(f"{path} holds hooks of another YARP; run: {again}")
    return found, notes


def probes(
    file: Callable[[str], str], event: dict[str, object], *, host: str, comments: bool = False
) -> list[Probe]:
    """The hooks before a call, as they stand in the files of both scopes; `file` as in `places`."""
    found = []
    for path in map(file, _SCOPES):
        with suppress(YarpError):  # `places` tells of a file that cannot be read
            found += [
                Probe(["/bin/sh", "-c", text], event, path)
                for text in commands(path, host=host, comments=comments)
                if "--before" in text
            ]
    return found


class _File:
    """A host's file as it stands, and what is recorded of it."""

    def __init__(self, path: str, host: str, *, comments: bool) -> None:
        self.path = path
        self.target = os.path.realpath(path)
        self.comments = comments
        self.marks = (f"hook {host}", f"hook --before {host}")
        self.text = wholefile.read(path)
        name = hashlib.sha256(os.fsencode(self.target)).hexdigest()[:16]
        place = os.path.join(paths.data_dir(), "hosts", host)
        base = os.path.basename(self.target)
        self._record_path = os.path.join(place, f"{base}-{name}.installed")
        self.backup = os.path.join(place, f"{base}-{name}.before")
        self.record = self._recorded()

    def _recorded(self) -> Installed | None:
        try:
            with open(self._record_path, encoding="utf-8") as file:
                found = json.load(file)
            return Installed(
                found["path"],
                found["before"],
                found["after"],
                tuple(
                    Entry(tuple(one["path"]), one["value"], one["needed"])
                    for one in found["entries"]
                ),
                tuple(tuple(path) for path in found["made"]),
                tuple(found["directories"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            # Without a record our entries are known by their mark.
            return None

    def is_blank(self) -> bool:
        """Whether there is no file, or one that says nothing."""
        return self.text is None or jsontext.is_blank(self.text, comments=self.comments)

    def holds(self, wanted: tuple[Entry, ...]) -> bool:
        """Whether just these entries of ours are in the file."""
        text = self.text
        if text is None or self.is_blank():
            return False
        with _naming(self.path):
            if not all(_has(text, entry, comments=self.comments) for entry in wanted):
                return False
            listed = [entry for entry in wanted if entry.path[-1] == "[]"]
            _, count = jsontext.remove(text, self._is_marked, set(), comments=self.comments)
            known = () if self.record is None else self.record.entries
            return count == sum(_is_ours(one.value, self.marks) for one in listed) and all(
                entry in wanted or not _has(text, entry, comments=self.comments) for entry in known
            )

    def without_ours(self) -> str | None:
        """The text as it is without YARP; None: no file."""
        record = self.record
        if self.text is None or self.is_blank():
            return self.text
        if record is not None and _digest(self.text) == record.after:
            if record.before is None:
                return None
            before = wholefile.read(self.backup) if os.path.isfile(self.backup) else None
            if _digest(before) == record.before:
                return before
        made = set() if record is None else set(record.made)
        with _naming(self.path):
            text, count = jsontext.remove(self.text, self._is_entry, made, comments=self.comments)
            if record is not None and record.before is None and count:
                needed = {one.path[-1]: one.value for one in record.entries if one.needed}
                left = jsontext.parse(text, comments=self.comments).value
                # A file that we made, and nobody put anything into.
                if isinstance(left, dict) and left.items() <= needed.items():
                    return None
        return text

    def _is_marked(self, path: jsontext.Path, member: jsontext.Member) -> bool:
        return path[-1] == "[]" and _is_ours(member.node.value, self.marks)

    def _is_entry(self, path: jsontext.Path, member: jsontext.Member) -> bool:
        known = () if self.record is None else self.record.entries
        value = member.node.value
        return self._is_marked(path, member) or any(
            not entry.needed and entry.path == path and _same(entry.value, value) for entry in known
        )

    def require_writable(self) -> None:
        """StorageError where the file could not be replaced."""
        wholefile.require_writable(self.path)

    def remember(self, record: Installed, before: str | None) -> None:
        """Keep the record, and what the file was; before the file is touched."""
        paths.make_private_dir(os.path.dirname(self.backup))
        if before is not None:
            wholefile.replace(self.backup, before.encode(), 0o600)
        wholefile.replace(self._record_path, json.dumps(asdict(record)).encode(), 0o600)

    def forget(self) -> None:
        """Remove the record and the copy, and their directory if nothing else is in it."""
        for path in (self._record_path, self.backup):
            if os.path.lexists(path):
                os.unlink(path)
        directory = os.path.dirname(self.backup)
        for empty in (directory, os.path.dirname(directory)):
            if os.path.isdir(empty) and not os.listdir(empty):
                os.rmdir(empty)

    def replace(self, text: str | None) -> None:
        """Put `text` in the file's place, at once and whole; None removes it."""
        if wholefile.read(self.path) != self.text:
            raise StorageError(f"{self.path} changed meanwhile; run it again")
        if text is None:
            os.unlink(self.target)
            return
        wholefile.replace(self.target, text.encode(), None)


class _Change:
    """Says what is done, or in a dry run what would be; makes and removes directories."""

    def __init__(self, dry_run: bool) -> None:
        self.lines: list[str] = []
        self._dry_run = dry_run

    def say(self, did: str, would: str, what: str) -> None:
        self.lines.append(f"{would if self._dry_run else did} {what}")

    def make_directories(self, directory: str) -> list[str]:
        """Make what is missing of `directory`; the ones that were made, outermost first."""
        missing: list[str] = []
        while not os.path.isdir(directory):
            missing.insert(0, directory)
            directory = os.path.dirname(directory)
        for path in missing:
            self.say("made", "would make", path)
            if not self._dry_run:
                try:
                    os.mkdir(path)
                except OSError as error:
                    raise StorageError(f"{path} cannot be made: {error.strerror}") from error
        return missing

    def remove_directory(self, path: str, gone: str | None) -> None:
        """Remove a directory in which nothing is left."""
        if not os.path.isdir(path) or os.path.islink(path):
            return
        left = {os.path.join(path, name) for name in os.listdir(path)}
        if left - ({gone} if self._dry_run else set()):
            return
        self.say("removed", "would remove", path)
        if not self._dry_run:
            os.rmdir(path)


def _is_ours(value: Any, marks: tuple[str, ...]) -> bool:
    """Whether a member of an array is a hook of ours: it starts `yarp hook HOST`.

    A group of hooks is ours if every hook in it is.
    """
    if isinstance(value, dict):
        groups = [
            inner
            for inner in value.values()
            if isinstance(inner, list) and any(isinstance(one, dict) for one in inner)
        ]
        if groups:
            return any(all(_is_ours(one, marks) for one in group) for group in groups)
    words = " ".join(_strings(value))
    return "yarp" in words and any(mark in words for mark in marks)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [string for one in inner for string in _strings(one)]


def _has(text: str, entry: Entry, *, comments: bool) -> bool:
    """Whether an entry is in the text. DataError: something else is where it belongs."""
    if jsontext.is_blank(text, comments=comments):
        return False
    node = jsontext.parse(text, comments=comments).value
    for name in entry.path[:-1]:
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    if entry.path[-1] == "[]":
        return isinstance(node, list) and any(_same(one, entry.value) for one in node)
    if not isinstance(node, dict) or entry.path[-1] not in node:
        return False
    if _same(node[entry.path[-1]], entry.value):
        return True
    raise DataError(f"{'.'.join(entry.path)} should be {json.dumps(entry.value)} here")


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Says which file an error is about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}; nothing was changed") from error


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
