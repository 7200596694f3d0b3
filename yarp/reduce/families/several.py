"""Installers and git beside builds and tests: what each says of itself, then what is wrong.

The lines that tell what an installer or git did have forms of their own; the ones that say less
are its only as long as it speaks. All others are read as what `make check` prints, where nobody
tells the tools apart either, and so is what a runner tells of its tests. Of a command that never
ran nothing is printed, so nothing is said.
"""

from __future__ import annotations

from yarp.reduce.families import base
from yarp.reduce.families.base import Piece
from yarp.reduce.families.build import Family as Built
from yarp.reduce.families.build.runs import LAST
from yarp.reduce.families.lines import LINES_TAKEN, automaton
from yarp.reduce.families.patterns import pattern_of
from yarp.reduce.families.status import Lines, reader_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from yarp.reduce.families.base import Status
    from yarp.reduce.families.status import Reader

# Stands between the commands in the arguments of a selection.
_BETWEEN = "&&"
# Ends a command of whose output only the last lines are there: nothing is counted of it.
_CUT = "|"
# Every line of this much of a stream is looked at; after it only what tells an outcome.
_READ_BYTES = 512 * 1024
# What is printed besides is shown whole up to here where no tool is recognised in it.
_WHOLE_BYTES = 400
_LONG_BYTES = 600
_BRIEF_BYTES = 400

_NEVER = pattern_of(rb"(?!)")
_BLOCK = b"lines of output]"
_BLOCK_END = b"[end of output]"
_BLOCK_INDENT = b" " * 6
# What begins the output of something else: a script of npm's or its like, a run of pytest.
_OTHER = pattern_of(rb"> \S+@\S+ \S|\$ \S|={20,} |[.FEsxX]+ +\[ *\d+%\]|[.FEsxX]{2,}$")
# Where a runner begins to tell of tests, which may print anything, up to its last line.
_REPORT = (
    rb"=+ (?:test session starts|FAILURES|ERRORS|PASSES|short test summary|warnings summary)"
    rb"|  \xe2\x97\x8f |={70}$|--- FAIL: |=== RUN |running \d+ tests?$|failures:$| RUN  v"
    rb"|TAP version 1"
)
_REPORT_BEGINS = pattern_of(_REPORT)
_REPORT_ENDS = pattern_of(LAST)


class _Form:
    """How the lines of one tool begin.

    `own`: no other tool's do. `within`: until another one speaks. `below`: only right below a
    line of the tool.
    """

    __slots__ = ("below", "own", "within")

    def __init__(
        self,
        own: bytes,
        within: re.Pattern[bytes] = _NEVER,
        below: re.Pattern[bytes] = _NEVER,
    ) -> None:
        self.own = own
        self.within = within
        self.below = below


_GIT = _Form(
    rb"\[\S+(?: \([\w -]+\))? [0-9a-f]{7,40}\] | \d+ files? changed\b"
    rb"| (?:create|delete) mode \d{6} | mode change \d{6} | (?:rename|copy|rewrite) .* \(\d+%\)"
    rb"|Already up to date\.|Updating [0-9a-f]{4,40}\.\.[0-9a-f]{4,40}|Fast-forward$"
    rb"|Merge made by |Auto-merging |CONFLICT \(|Automatic merge failed|Everything up-to-date"
    rb"|On branch |Your branch |nothing to commit|no changes added|Switched to |Already on '"
    rb"|HEAD is now at |To \S+[/:]\S*$|From \S+[/:]\S*$|remote: |hint: |fatal: |branch '\S+' set up"
    rb"|   [0-9a-f]{4,40}\.\.\.?[0-9a-f]{4,40} +\S+ +-> | [*!+=-] \[[^\]]+\] .*-> "
    rb"|error: (?:failed to push|Your local changes|The following untracked|pathspec |Pulling|"
    rb"Merging|Committing|cannot )|Please (?:commit|move|stash) |Aborting$|Merge with strategy "
    rb"|(?:Enumerating|Counting|Compressing|Receiving|Writing|Unpacking) objects: "
    rb"|Resolving deltas: |Updating files: |Delta compression using |Total \d+ \(delta ",
    below=pattern_of(rb"\t\S| \S.* \| +(?:\d+ [+-]*$|Bin )|[MADRCU]\t\S"),
)
_NPM = _Form(
    rb"(?:added|removed|changed|audited) \d+ packages?\b|up to date(?:, audited \d+| in \d)"
    rb"|\d+ packages? (?:is|are) looking for funding|  run `npm fund`|found \d+ vulnerabilit"
    rb"|\d+ (?:\w+ severity )?vulnerabilit|To address (?:all )?issues|  npm audit fix"
    rb"|Run `npm audit|Some issues need review|npm (?:warn|WARN|notice|error|ERR!)(?: |$)"
)
_PIP = _Form(
    rb"Successfully (?:installed|uninstalled|built) |Would install |\[notice\] "
    rb"|Requirement already satisfied: ",
    pattern_of(
        rb"\s*(?:Collecting |Downloading |Using cached |Obtaining |Processing |Preparing "
        rb"|Installing (?:build dependencies|backend|collected packages)|Getting requirements to "
        rb"|Building (?:wheel|editable)|Created wheel|Stored in directory|Attempting uninstall"
        rb"|Found existing installation|Uninstalling |Looking in (?:indexes|links)|Running "
        rb"|Checking if build backend|Resuming download|Copying |Cloning |Resolved "
        rb"|Defaulting to user installation|Ignoring |\xe2\x94\x81)"
    ),
)
_APT = _Form(
    rb"(?:Get|Hit|Ign|Err):\d+ |Selecting previously |Preparing to unpack |Unpacking \S+ \("
    rb"|Setting up \S+ \(|Processing triggers for |\(Reading database |Reading (?:package|state) "
    rb"|Building dependency tree|Fetched \d|debconf: |update-alternatives: |Need to get \d"
    rb"|After this operation, |\d+ upgraded, |[EWN]: |The following [^:]*:$|Suggested packages:$"
    rb"|Recommended packages:$|All packages are up to date|\d+ packages? can be upgraded",
    below=pattern_of(rb"  \S"),
)
_PNPM = _Form(
    rb"Packages: [+-]\d|Lockfile is up to date|Progress: resolved |\s*ERR_PNPM|\s*WARN +\S"
    rb"|Done in \d|Already up to date$|success (?:Saved|Already)|info Direct dep|\[[1-5]/[1-5]\] ",
    pattern_of(
        "[+-]+$|(?:dev|optional|peer)?[dD]ependencies:$|[+-] \\S+ \\d|info |warning |yarn install "
        "|(?:├|└)─|\\.\\.\\./.* (?:postinstall|install|prepare)".encode()
    ),
)
_FORMS = {
    "git": _GIT, "npm": _NPM, "pip": _PIP, "apt": _APT, "apt-get": _APT, "pnpm": _PNPM,
    "yarn": _PNPM,
}  # fmt: skip


class Family(base.Family):
    """Summarises several tools, some of which say themselves what they did."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, int]) -> None:
        super().__init__(argv, options)
        self._speakers: dict[str, _Speaker] = {}
        # How many of them were named before the first build or test.
        self._first = 0
        tools = False
        for command in _commands(argv):
            form = _FORMS.get(command[0])
            if form is None:
                tools = True
            elif command[0] not in self._speakers:
                reader = (Lines if command[-1] == _CUT else reader_of(command))(command)
                if command[-1] == _CUT:
                    reader.skipped()
                self._speakers[command[0]] = _Speaker(form, reader)
                self._first += not tools
        self._others = Built(("make",), options)
        self._printed = (bytearray(), bytearray())
        self._lanes = (_Lane(self, 0), _Lane(self, 1))

    def feed(self, stream: int, block: bytes) -> None:
        """Give each line to the one whose it is."""
        self._lanes[stream].feed(block)

    def speakers(self) -> list[_Speaker]:
        """Those who speak for themselves, in order."""
        return list(self._speakers.values())

    def other(self, stream: int, lines: bytes) -> None:
        """Take lines that are no speaker's."""
        printed = self._printed[stream]
        if len(printed) <= _WHOLE_BYTES:
            printed += lines
        self._others.feed(stream, lines)

    def finish(self, status: Status) -> list[Piece] | None:
        """What the speakers say, and around it what was built and tested."""
        others = self._others.finish(status)
        if not others:
            if sum(len(printed.strip()) for printed in self._printed) > _WHOLE_BYTES:
                return None  # nobody knows who said it
            others = [
                Piece(bytes(printed).strip(b"\n"), 1, stream)
                for stream, printed in enumerate(self._printed)
                if printed.strip()
            ]
        said: list[list[Piece]] = []
        for speaker in self._speakers.values():
            pieces = speaker.reader.pieces(failed=not status.success) or []
            for piece in pieces:
                _step_back(piece, others=bool(others) and not status.success)
            said.append(pieces)
        said.insert(self._first, others)
        return [piece for pieces in said for piece in pieces] or None


class _Speaker:
    """One tool that says itself what it did."""

    __slots__ = ("form", "own", "reader")

    def __init__(self, form: _Form, reader: Reader) -> None:
        self.form = form
        self.own = pattern_of(form.own)
        self.reader = reader


class _Lane:
    """One stream on its way to those who read it."""

    def __init__(self, family: Family, stream: int) -> None:
        self.family = family
        self.stream = stream
        self._read = 0
        # Whose line the last one was, and who still has lines that say little.
        self._last: _Speaker | None = None
        self._open = {one: True for one in family.speakers() if one.form.within is not _NEVER}
        self._begun: set[_Speaker] = set()
        self._indented = False
        self._reporting = False
        self._taken = 0
        self._pip = any(one.form is _PIP for one in family.speakers())
        self._late: re.Pattern[bytes] | None = None

    def feed(self, block: bytes) -> None:
        """Take whole lines."""
        start = at = 0
        owner: _Speaker | None = None
        while at < len(block):
            if self._read >= _READ_BYTES:
                break
            end = block.find(b"\n", at) + 1 or len(block)
            self._read += end - at
            line = block[at:end].rstrip()
            whose = self._whose(line)
            inside = self._inside(line)
            if at > start and (whose is not owner or inside):
                self._give(owner, block[start:at])
                start = at
            if inside:
                # A build below pip stands there as it would alone.
                self._give(None, block[at:end].removeprefix(_BLOCK_INDENT))
                start = end
            owner = whose
            at = end
        if at > start:
            self._give(owner, block[start:at])
        if at < len(block):
            self._skim(block[at:] if at else block)

    def _whose(self, line: bytes) -> _Speaker | None:
        if not line or self._indented:
            return None
        last, self._last = self._last, None
        if self._reporting:
            self._reporting = _REPORT_ENDS.match(line) is None
            return None
        for speaker in self.family.speakers():
            form = speaker.form
            if (
                speaker.own.match(line)
                or (speaker in self._open and form.within.match(line))
                or (speaker is last and form.below.match(line))
            ):
                self._last = speaker
                self._begun.add(speaker)
                return speaker
        self._reporting = _REPORT_BEGINS.match(line) is not None
        if line[:1] != b" ":
            # Another one speaks now.
            other = _OTHER.match(line) is not None
            for speaker in [one for one in self._open if other or one in self._begun]:
                del self._open[speaker]
        return None

    def _inside(self, line: bytes) -> bool:
        """Whether the line stands in what pip shows of a build that failed."""
        if self._indented:
            self._indented = not line.endswith(_BLOCK_END)
            return True
        self._indented = self._pip and line.endswith(_BLOCK)
        return False

    def _skim(self, block: bytes) -> None:
        """Only outcomes are looked for any more."""
        if self._late is None:
            forms = [one.form.own for one in self.family.speakers()]
            forms = [b"(?:%b)" % form for form in (*forms, _REPORT, LAST)]
            self._late = automaton(b"(?m)^(?:" + b"|".join(forms) + b")")
        start = at = 0
        while self._taken < LINES_TAKEN and (found := self._late.search(block, at)) is not None:
            self._taken += 1
            begin = found.start()
            at = block.find(b"\n", begin) + 1 or len(block)
            whose = self._whose(block[begin:at].rstrip())
            if whose is None:
                continue
            if begin > start:
                self._give(None, block[start:begin])
            self._give(whose, block[begin:at])
            start = at
        if self._taken == LINES_TAKEN:
            for speaker in self.family.speakers():
                speaker.reader.skipped()
        if start < len(block):
            self._give(None, block[start:])

    def _give(self, owner: _Speaker | None, lines: bytes) -> None:
        if owner is None:
            self.family.other(self.stream, lines)
        else:
            owner.reader.feed(self.stream, lines)


def _commands(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The commands that the arguments of a selection name."""
    commands: list[tuple[str, ...]] = []
    current: list[str] = []
    for word in (*argv, _BETWEEN):
        if word != _BETWEEN:
            current.append(word)
        elif current:
            commands.append(tuple(current))
            current = []
    return commands


def _step_back(piece: Piece, *, others: bool) -> None:
    """What went well stands behind what is wrong: totals stay, details and warnings give way."""
    if len(piece.text) > _LONG_BYTES and piece.worth < 2 and b"\n" not in piece.text:
        cut = piece.text.rfind(b" ", 0, _BRIEF_BYTES)
        if cut > 0:
            piece.text = piece.text[:cut] + b" ..."
    if others and piece.worth >= 2:
        piece.worth = min(9, piece.worth + 2)
