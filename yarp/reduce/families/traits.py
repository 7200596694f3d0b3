"""What a long listing says besides names: who may do what, whose, how new, where links lead."""

from __future__ import annotations

from yarp.reduce.families.base import Piece
from yarp.reduce.families.names import counted
from yarp.reduce.families.patterns import pattern_of

_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
# `Nov 30 01:15`, `30. Nov 2024`, `2026-11-30 01:15:00`.
_ISO = pattern_of(rb"\d{4}-\d\d-\d\d(?:[ T][\d:.]+)?")
_DATE = pattern_of(rb"(?:([A-Z][a-z]{2})\s+(\d{1,2})|(\d{1,2})\s+([A-Z][a-z]{2}))\s+([\d:]+)$")
_NAMED = 6
_LINKS = 8
_NEWEST = 3
_LINE_BYTES = 160
_KINDS = 6


class Traits:
    """Takes each entry's columns; tells the usual ones as counts and the unusual ones by name."""

    def __init__(self) -> None:
        self._modes: dict[bytes, list[bytes]] = {}
        self._owners: dict[bytes, list[bytes]] = {}
        self._links: list[tuple[bytes, bytes]] = []
        self._times: list[tuple[bytes, bytes]] = []

    def add(self, mode: bytes, owner: bytes, time: bytes, path: bytes, target: bytes) -> None:
        """Take an entry; `target` is where a link leads."""
        if mode.startswith(b"l"):
            self._links.append((path, target))
        else:
            self._modes.setdefault(mode, []).append(path)
            self._times.append((time, path))
        self._owners.setdefault(b" ".join(owner.split()), []).append(path)

    def pieces(self) -> list[Piece]:
        """Sentences of ours; nothing for a list without entries."""
        modes = {mode: len(paths) for mode, paths in self._modes.items()}
        owners = {owner: len(paths) for owner, paths in self._owners.items()}
        if not owners:
            return []
        odd = [mode for mode in modes if _special(mode)]
        for kind in sorted({mode[:1] for mode in modes}):
            alike = {mode: count for mode, count in modes.items() if mode.startswith(kind)}
            odd += [mode for mode in _rare(alike) if mode not in odd]
        usual = {mode: count for mode, count in modes.items() if mode not in odd[:_KINDS]}
        text = b"owner: " + counted(owners, 3)
        if usual:
            text = b"mode: " + counted(usual, 4) + b"; " + text
        out = [Piece(text, 4, lines=0)]
        for mode in odd[:_KINDS]:
            worth = 2 if _special(mode) else 3
            out.append(_line(mode + b": ", self._modes[mode], _NAMED, worth))
        strangers = _rare(owners)[:_KINDS]
        out += [_line(owner + b": ", self._owners[owner], _NAMED, 3) for owner in strangers]
        if self._links:
            links = [path + b" -> " + target for path, target in self._links]
            # Where many are links they are no exception.
            out.append(_line(b"links: ", links, _LINKS, 3 if len(links) <= _LINKS else 6))
        return out + self._ages()

    def _ages(self) -> list[Piece]:
        """The newest and the oldest; nothing where they cannot be told apart."""
        if len(self._times) <= _NEWEST:
            return []
        keys = [_order(time) for time, _ in self._times]
        months = {key[1] for key in keys if key is not None and key[0] == b"~"}
        if None in keys or max(keys) == min(keys):  # type: ignore[type-var]
            return []
        # Times without a year are of the last half: after the turn of a year small months are new.
        turned = any(month > 9 for month in months) and any(month < 4 for month in months)
        rank = {
            at: (key[0], (key[1] + 8) % 12 if turned and key[0] == b"~" else key[1], *key[2:])
            for at, key in enumerate(keys)
            if key is not None
        }
        order = sorted(rank, key=lambda at: rank[at], reverse=True)
        said = [b"%b %b" % (self._times[at][1], _minute(self._times[at][0])) for at in order]
        out = []
        # Of many that are equally new or old none is the one.
        if rank[order[_NEWEST - 1]] != rank[order[_NEWEST]]:
            out.append(_line(b"newest: ", said[:_NEWEST], _NEWEST, 4))
        if rank[order[-1]] != rank[order[-2]]:
            out.append(_line(b"oldest: ", said[-1:], 1, 4))
        return out


def _minute(time: bytes) -> bytes:
    """A time without what is below its minutes."""
    return time[:16] if _ISO.match(time) else b" ".join(time.split())


def _special(mode: bytes) -> bool:
    """Whether others may write, or it runs as its owner or group; no plain file or directory."""
    open_to_all = mode[8:9] == b"w" and not (mode[:1] == b"d" and mode[9:10] in (b"t", b"T"))
    runs_as = mode[:1] != b"d" and any(sign in b"sS" for sign in mode[1:7])
    return open_to_all or runs_as or mode[:1] not in (b"-", b"d")


def _rare(counts: dict[bytes, int]) -> list[bytes]:
    """What few have, the rarest first."""
    few = max(2, sum(counts.values()) // 20)
    most = max(counts.values(), default=0)
    rare = (name for name, count in counts.items() if count <= few and count < most)
    return sorted(rare, key=lambda name: counts[name])


def _line(start: bytes, names: list[bytes], most: int, worth: int) -> Piece:
    """As many of the names as one line has room for, and how many more there are."""
    shown: list[bytes] = []
    size = len(start)
    for name in names[:most]:
        size += len(name) + 2
        if shown and size > _LINE_BYTES:
            break
        shown.append(name)
    text = start + b", ".join(shown)
    if len(names) > len(shown):
        text += b" (+%d more)" % (len(names) - len(shown))
    return Piece(text, worth, lines=0)


def _order(time: bytes) -> tuple[bytes, int, int, bytes] | None:
    """What sorts times of one listing: the year, `~` for none; month, day, time of day."""
    if _ISO.match(time):
        return time[:10], 0, 0, time[10:]
    found = _DATE.match(time)
    month = found and (found[1] or found[4])
    if found is None or month not in _MONTHS:
        return None
    day = int(found[2] or found[3])
    clock = found[5]
    year, clock = (b"~", clock) if b":" in clock else (clock, b"")
    return year, _MONTHS.index(month), day, clock
