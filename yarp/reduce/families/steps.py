"""Commands that report their steps: what changed and what went wrong, without the progress.

One pattern a program says which lines are steps on the way, another which are its outcome. A
line in another language matches neither and is kept, repeats folded.
"""

from yarp.reduce.families.base import Piece
from yarp.reduce.families.names import factor
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.status import Lines

_OBJECTS = (
    rb"(?:remote: )?(?:Enumerating|Counting|Compressing|Receiving|Writing|Unpacking) objects:"
    rb"|(?:remote: )?(?:Resolving deltas|Updating files|Checking out files|Filtering content):"
    rb"|Delta compression using|(?:remote: )?Total [0-9]+ \(delta|remote: *$"
)


_NAMED = pattern_of(
    rb"(?P<conflict>CONFLICT \([^)]*\): [^:]*? in )(?P<file>\S.*)$"
    rb"| (?P<sign>[*+ -]) (?P<kind>\[[^]]+\]) +(?P<ref>\S+) +-> (?:\S+/)?(?P=ref)$"
    rb"|(?P<tab>\t)(?P<path>\S.*)$"
    rb"| (?P<stat>[^ |][^|]*[^ |]|[^ |]) +\| +(?:(?P<size>[0-9]+) [+-]*|Bin .*)$"
    rb"| (?P<mode>create|delete) mode [0-9]+ (?P<made>\S.*)$"
)
_LARGEST = 5
_NAMES_KEPT = 20_000
# Fewer than this many are shown as git put them.
_FEW = 3


class _Git(Lines):
    """git's own words; files and refs of one kind by name, however many."""

    noise = pattern_of(_OBJECTS + rb"|Auto-merging ")
    outcome = pattern_of(
        rb" -> |^Already up|^Everything up-to-date|files? changed|rejected|^error:|^fatal:"
        rb"|^Successfully |^Your branch|^To |^From |^Fast-forward|^Updating |^hint: Updates were"
        rb"|^Automatic merge failed|^Aborting|^Please (?:commit|move|stash)"
        rb"|^\[\S+(?: \([\w-]+\))? [0-9a-f]{7,}\]"
    )

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._names: dict[tuple[int, bytes], list[bytes]] = {}
        self._counts: dict[tuple[int, bytes], int] = {}
        self._whole: dict[tuple[int, bytes], list[bytes]] = {}
        self._above = b""
        # (changed lines, file) of the files that changed most.
        self._largest: list[tuple[int, bytes]] = []

    def line(self, stream: int, line: bytes) -> None:
        found = _NAMED.match(line)
        if found is None:
            self._above = line
            super().line(stream, line)
            return
        heading = b"changed"
        if found["conflict"]:
            heading = found["conflict"].rstrip()
        elif found["kind"]:
            heading = found["sign"] + b" " + found["kind"]
        elif found["tab"]:
            heading = self._above
        elif found["mode"]:
            heading = found["mode"] + b" mode"
        if found["size"] and len(found["size"]) < 10:
            self._largest.append((int(found["size"]), found["stat"]))
            if len(self._largest) > 64:
                self._largest = sorted(self._largest, reverse=True)[:_LARGEST]
        key = (stream, heading)
        names = self._names.get(key)
        if names is None:
            names = self._names[key] = []
            self._counts[key] = 0
            self._whole[key] = []
            # The names are put where the first of them stood.
            self._streams[stream].add(b"\0" + heading, 1)
        self._counts[key] += 1
        if len(names) < _FEW:
            self._whole[key].append(line)
        if len(names) < _NAMES_KEPT:
            kinds = ("file", "ref", "path", "made", "stat")
            names.append(next(name for kind in kinds if (name := found[kind])))

    def _worth(self, line: bytes, from_end: int, failed: bool) -> int:
        moved = line.startswith((b" rename ", b" copy "))
        return 2 if moved else super()._worth(line, from_end, failed)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        pieces: list[Piece] = []
        for piece in super().pieces(failed=failed) or []:
            key = (piece.stream, piece.text[1:])
            if piece.text[:1] != b"\0" or key not in self._names:
                pieces.append(piece)
                continue
            worth = 1 if b"CONFLICT" in key[1] or b"rejected" in key[1] else 3
            if key[1] == b"changed":
                worth = 4
            if self._counts[key] < _FEW:
                pieces += [Piece(line, worth - 1, piece.stream) for line in self._whole[key]]
                continue
            # What stands below a line is said below it, without the line once more.
            above = pieces[-1].text if pieces else b""
            least = b"at least " * self._partial
            if pieces and above == key[1]:
                pieces[-1].text += b" (%b%d)" % (least, self._counts[key])
            else:
                text = b"%b (%b%d)" % (key[1] or b"names", least, self._counts[key])
                pieces.append(Piece(text, worth - 1, piece.stream, 0))
            if key[1] == b"changed" and self._counts[key] > 2 * _LARGEST and not self._partial:
                most = sorted(self._largest, key=lambda file: -file[0])[:_LARGEST]
                text = b", ".join(b"%b %d" % (name, size) for size, name in most)
                pieces.append(Piece(b"  most lines: " + text, 2, piece.stream, 0))
            for line in factor(self._names[key]):
                term = (line.term.decode("utf-8", "replace"),)
                pieces.append(Piece(b"  " + line.text, worth, piece.stream, line.count, term))
        return pieces


class _Wget(Lines):
    noise = pattern_of(
        rb"\s*[0-9]+K[ .,]+ |Resolving |Connecting to |Reusing existing|Proxy request|HTTP request"
        rb" sent, awaiting response\.\.\. 200"
    )
    outcome = pattern_of(rb" saved \[|ERROR [0-9]{3}|FINISHED|Downloaded: |^wget: |failed")


class _Apt(Lines):
    noise = pattern_of(
        rb"(?:Get|Hit|Ign|Holen|OK|Atteint|R.ception ?):[0-9]+ |Selecting previously|Preparing to"
        rb" unpack|Unpacking |Setting up |Processing triggers|\(Reading database|Reading package"
        rb"|Building dependency|Reading state|Fetched |Inst |Conf |debconf: |update-alternatives: "
        rb"|Need to get|After this operation|Selecting |Extracting templates|Preconfiguring|Remv "
    )
    outcome = pattern_of(
        rb"^[0-9]+ (?:upgraded|newly|aktualisiert)|^[EW]: |^Err:|^[0-9]+ packages? "
    )

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._set_up: list[bytes] = []
        self._count = 0

    def line(self, stream: int, line: bytes) -> None:
        start = next((word for word in (b"Setting up ", b"Inst ") if line.startswith(word)), b"")
        if start:
            self._count += 1
            if len(self._set_up) < 400:
                self._set_up.append(
                    b" ".join(line[len(start) :].split()[:2]).translate(None, b"()")
                )
        super().line(stream, line)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        pieces = super().pieces(failed=failed) or []
        if self._count:
            least = b"at least " * self._partial
            text = b"%b%d packages set up: %b" % (least, self._count, b", ".join(self._set_up))
            pieces.append(Piece(text, 3, 0, self._count, ("Setting up",)))
        return pieces


class _Brew(Lines):
    noise = pattern_of(
        rb"#+ +[0-9.]+%|==> (?:Downloading|Fetching|Pouring|Auto-updat)|Already downloaded"
        rb"|[ #=O-]+$"
    )
    outcome = pattern_of(
        rb"^Error: |^Warning: |^\xf0\x9f\x8d\xba|files, [0-9.]+[KMG]B|already installed"
    )


class _DockerBuild(Lines):
    noise = pattern_of(
        rb"#[0-9]+ (?:DONE|CACHED|sha256:|extracting|transferring|resolve |\.\.\.|[0-9]+\.[0-9]+ "
        rb"|\[internal\]|exporting|writing|unpacking|preparing)|Sending build context| ---> "
        rb"|Removing intermediate|[0-9a-f]{12}: (?:Pull|Wait|Download|Verify|Extract|Already|Layer)"
        rb"|\s*\xe2\xa0|^ +[0-9a-f]{12} "
    )
    outcome = pattern_of(
        rb"^Successfully |ERROR|failed to |^#[0-9]+ naming to|^Digest:|^Status:|^Error"
        rb"|Container \S+ +(?:Error|Exited|Unhealthy)|exit code"
    )


class _Compose(_DockerBuild):
    """docker-compose: which containers it created, started or removed, by name."""

    _done = pattern_of(
        rb"(Creating|Recreating|Starting|Restarting|Stopping|Killing|Removing) (\S+)"
        rb" +\.\.\. *(\S*)\s*$"
    )

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._named: dict[tuple[int, bytes], list[bytes]] = {}

    def line(self, stream: int, line: bytes) -> None:
        found = self._done.match(line)
        if found is None or found[3] not in (b"", b"done"):
            super().line(stream, line)
        elif found[3]:
            names = self._named.setdefault((stream, found[1]), [])
            if len(names) < _NAMES_KEPT:
                names.append(found[2])

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        pieces = super().pieces(failed=failed) or []
        for (stream, verb), names in self._named.items():
            least = b"at least " * self._partial
            text = b"%b ... done (%b%d): %b" % (verb, least, len(names), b" ".join(names[:200]))
            pieces.append(Piece(text, 2, stream, len(names), (verb.decode(),)))
        return pieces


class _Terraform(Lines):
    noise = pattern_of(
        rb"\S+: (?:Refreshing state|Reading\.\.\.|Read complete|Still \w+ing|Creation complete)"
        rb"|\s+[+~-]\s+\S+\s+= .*|\s+[}\])]+(?: -> null)?,?$|\s+\"[^\"]+\" += "
        rb"|\s+[+~-] [{[]$|-/\+ destroy and then"
        rb"|\s+# \([0-9]+ unchanged|\xe2\x95[\xb7\xb5]"
        rb"|- (?:Finding|Installing|Reusing|Using)|Terraform (?:used the sel|will perform)"
        rb"|plan\. Resource actions are|  (?:[+~-]|-/\+) (?:create|update|destroy)|Note: You didn't"
        rb"|guarantee to take exactly|\s+[+~-] resource \"|\S+: (?:Creat|Modify|Destroy)ing\.\.\."
        rb"|\s+\} -> \(known|\s+[a-z_]+ += .*|\s+[+-] \"[^\"]*\",?$"
        rb"|\s+[+-] \(known after apply\),?$|[\]}]$|(?:\xe2\x94\x80)+$"
    )
    changed = pattern_of(rb"\s+~\s.* -> (?!\(known)|\s+-/\+ |.*# forces replacement")
    output = pattern_of(rb"(?:  [+~-] )?\w+ += ")
    resource = pattern_of(
        rb"  # (\S+) (will be created|will be destroyed|will be read during apply)$"
    )
    outcome = pattern_of(
        rb"^(?:Plan:|Apply complete|Destroy complete|No changes|Changes to Outputs)|Error:"
        rb"|successfully initialized"
    )

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._named: dict[bytes, list[bytes]] = {}
        self._whole: dict[bytes, list[bytes]] = {}
        self._outputs = False

    def line(self, stream: int, line: bytes) -> None:
        if line.startswith((b"Changes to Outputs:", b"Outputs:")):
            self._outputs = True
        elif line[:1].isalpha() and self._outputs and b" = " not in line:
            self._outputs = False
        resource = self.resource.match(line)
        if resource is not None:
            names = self._named.setdefault(resource[2], [])
            if not names:
                # The names are put where the first of them stood.
                self._streams[stream].add(b"\0" + resource[2], 1)
            if len(names) < _NAMES_KEPT:
                names.append(resource[1])
        elif self._outputs and self.output.match(line):
            self._streams[stream].add(line.rstrip(b" [{"), 40)
        # What is changed in place is what a plan is read for.
        elif self.changed.match(line) or line.startswith(b"  # "):
            self._streams[stream].add(line.rstrip(), 20)
        else:
            super().line(stream, line)

    def _worth(self, line: bytes, from_end: int, failed: bool) -> int:
        told = self.changed.match(line) or line.startswith(b"  # ")
        return 2 if told else super()._worth(line, from_end, failed)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        out: list[Piece] = []
        for piece in super().pieces(failed=failed) or []:
            names = self._named.get(piece.text[1:], []) if piece.text[:1] == b"\0" else []
            if not names:
                out.append(piece)
                continue
            if len(names) < _FEW:
                out += [Piece(b"  # %b %b" % (name, piece.text[1:]), 1) for name in names]
                continue
            least = b"at least " * self._partial
            out.append(Piece(b"  # %b%d %b:" % (least, len(names), piece.text[1:]), 1, 0, 0))
            for line in _of_types(names):
                out.append(Piece(b"  " + line, 2, 0, line.count(b",") + 1, ("will be",)))
        return out


def _of_types(names: list[bytes]) -> list[bytes]:
    """Resources with what many of them begin with said once: `aws_subnet.{a,b}`."""
    groups: dict[bytes, list[bytes]] = {}
    for name in names:
        kind, _, own = name.rpartition(b".")
        groups.setdefault(kind, []).append(own)
    return [
        b"%b.{%b}" % (kind, b",".join(owns)) if len(owns) > 1 else b"%b.%b" % (kind, owns[0])
        for kind, owns in groups.items()
    ]


class _Ansible(Lines):
    noise = pattern_of(
        rb"(?:ok|skipping|included|changed): |TASK \[|RUNNING HANDLER|\s*\*+$|\.\.\.ignoring"
    )
    outcome = pattern_of(
        rb"^\S+ +: ok=[0-9]+|^(?:fatal|failed|ERROR|\[ERROR\])\b|^PLAY |UNREACHABLE!"
    )

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._task = b""
        self._said = b""
        self._counts: dict[bytes, int] = {}

    def line(self, stream: int, line: bytes) -> None:
        kind = line.partition(b":")[0]
        if line.startswith((b"TASK [", b"RUNNING HANDLER [")):
            self._task = line.rstrip(b"* ")
        elif kind in (b"ok", b"skipping", b"changed"):
            self._counts[kind] = self._counts.get(kind, 0) + 1
        elif kind in (b"fatal", b"failed") and self._task != self._said:
            self._said = self._task
            self._streams[stream].add(self._task, 20)
        super().line(stream, line.rstrip(b"* "))

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        pieces = super().pieces(failed=failed) or []
        for piece in pieces:
            if piece.text.startswith((b"TASK [", b"RUNNING HANDLER [")):
                piece.worth = 0
        if self._counts:
            parts = [b"%b %d" % item for item in self._counts.items()]
            pieces.insert(
                0, Piece(b"results: " + b"at least " * self._partial + b", ".join(parts), 3, 0, 0)
            )
        return pieces


class _Rsync(Lines):
    noise = pattern_of(
        rb"sending incremental file list|receiving incremental|building file list"
        rb"|\s+[0-9,]+ +[0-9]+% |\./$"
    )
    outcome = pattern_of(rb"^sent |^total size|^rsync[: ]|error|^deleting ")


class _Meter(Lines):
    noise = pattern_of(rb"\s*% Total|\s+Dload +Upload")


class _Prettier(Lines):
    """prettier --write: the files it changed by name, those it left alone counted."""

    written = pattern_of(rb"(.+?) \d+ms( \(unchanged\))?$")

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._written: list[bytes] = []
        self._same = 0

    def line(self, stream: int, line: bytes) -> None:
        found = None if stream else self.written.match(line)
        if found is None:
            super().line(stream, line)
        elif found[2]:
            self._same += 1
        elif len(self._written) < _NAMES_KEPT:
            self._written.append(found[1])

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        pieces = super().pieces(failed=failed) or []
        if not self._written and not self._same:
            return pieces
        least = b"at least " * (self._partial or len(self._written) == _NAMES_KEPT)
        text = b"%b%d files written, %b%d unchanged" % (
            least,
            len(self._written),
            least,
            self._same,
        )
        pieces.insert(0, Piece(text, 0, 0, self._same))
        for line in factor(self._written):
            term = (line.term.decode("utf-8", "replace"),)
            pieces.append(Piece(b"  " + line.text, 3, 0, line.count, term))
        return pieces


class _S3(Lines):
    """aws s3: what was transferred, or what lies there, by name."""

    noise = pattern_of(rb"Completed [0-9.]+ ")
    moved = pattern_of(
        rb"(\(dryrun\) )?(upload|download|copy|move|delete): (\S.*?)(?: to (\S+))? *$"
    )

    held = pattern_of(rb"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +(\d+) | +PRE )(\S.*)$")

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._moved: dict[bytes, list[bytes]] = {}
        self._count: dict[bytes, int] = {}
        self._bytes = 0

    def line(self, stream: int, line: bytes) -> None:
        held = self.held.match(line) if stream == 0 else None
        found = self.moved.match(line)
        if held is not None:
            self._take(b"objects" if held[1] else b"prefixes", held[2])
            self._bytes += int(held[1] or 0)
        elif found is not None:
            self._take((found[1] or b"") + found[2], found[4] or found[3])
        else:
            super().line(stream, line)

    def _take(self, kind: bytes, name: bytes) -> None:
        self._count[kind] = self._count.get(kind, 0) + 1
        names = self._moved.setdefault(kind, [])
        if len(names) < _NAMES_KEPT:
            names.append(name)

    def pieces(self, *, failed: bool) -> list[Piece] | None:
        pieces = super().pieces(failed=failed) or []
        for kind, names in self._moved.items():
            least = b"at least " * self._partial
            text = b"%b: %b%d" % (kind, least, self._count[kind])
            text += b", %b%d bytes" % (least, self._bytes) if kind == b"objects" else b""
            pieces.append(Piece(text, 0, 0, 0))
            for line in factor(names):
                term = (line.term.decode("utf-8", "replace"),)
                pieces.append(Piece(b"  " + line.text, 3, 0, line.count, term))
        return pieces


_READERS: dict[str, type[Lines]] = {
    "git": _Git,
    "prettier": _Prettier,
    "aws": _S3,
    "wget": _Wget,
    "apt": _Apt,
    "apt-get": _Apt,
    "brew": _Brew,
    "docker": _DockerBuild,
    "podman": _DockerBuild,
    "docker-compose": _Compose,
    "terraform": _Terraform,
    "tofu": _Terraform,
    "ansible-playbook": _Ansible,
    "rsync": _Rsync,
    "curl": _Meter,
}


def reader_of(argv: tuple[str, ...]) -> type[Lines]:
    """Who reads this program's steps; of an unknown one every line is read."""
    if argv[0] in ("npm", "pnpm", "yarn", "cargo"):
        from yarp.reduce.families.packages import reader

        return reader(argv)
    return _READERS.get(argv[0], Lines)
