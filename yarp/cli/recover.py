"""`yarp search`, `read`, `grep` and `calls`: the way back from a summary to the exact bytes.

They run once per look and are asked by models, so they start lean: no command-line framework,
one small parser for all four. Answers never pass the recovery ceilings. Source: reference 2.6
and 2.7; spec "Archive", search and read.
"""

from __future__ import annotations

import os
import sys

from yarp import paths
from yarp.archive.read import Reader
from yarp.cli.words import Options, canonical_number
from yarp.errors import (
    DataError,
    ReferenceUnknown,
    StorageError,
    YarpError,
)
from yarp.recover.select import COMPLETE, is_redacted, open_text, pick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yarp.archive.read import CallRow, Source
    from yarp.recover.pattern import Matcher
    from yarp.recover.search import Found
    from yarp.recover.search import Source as Searched
    from yarp.recover.select import Text
    from yarp.settings import Settings

_CONTEXT = 2
_MAX_CONTEXT = 50
_RESULTS = 20
_CALLS = 20
_ERROR_BYTES = 1024  # while the configuration is not known

SEARCH_HELP = """\
yarp search yr_REF 'FAILED|Error'       lines that match, with context, of every source
yarp search yr_REF -F 'a[0]' -C 0 -m 99 plain text, no context, up to 99 lines a source
yarp search yr_REF -c warning           only count
yarp search yr_REF -e A -e B -i         several patterns, ignoring case

Searches the exact output of one archived call, line by line. Patterns are RE2
expressions (linear time; no look-around, no back-references).

  -e, --regexp P        a pattern; repeat for more (at most 8), instead of PATTERN
  -F, --fixed-strings   patterns are plain text
  -i, --ignore-case     ignore case
  -w, --word-regexp     match whole words only
  -v, --invert-match    lines that do not match
  -A, -B, -C N          lines of context after, before, both: 0 to 50 (default 2)
  -m, --max-results N   lines shown of each source (default 20)
  -c, --count           count, show nothing
  -a, --text            search a binary source too
  --source NAME         only that source
  --                    what follows is no option

Sources are stdout and stderr, else the host's result text. Lines are shown without
terminal sequences; control characters and bytes that are no UTF-8 stand as \\xNN.
When the answer is too large, context goes first, then the last lines.
Exit codes: 0 found, 1 nothing found, 64 usage, 65 bad data, 74 I/O.
"""

READ_HELP = """\
yarp read yr_REF stdout 116:120         lines 116 to 120, exactly
yarp read yr_REF stderr 116:            from line 116 to the end
yarp read yr_REF stdout --bytes 0:4096  bytes 0 to 4095
yarp read yr_REF --tail 40              the last 40 lines
yarp read yr_REF --list                 the call's sources: bytes, lines, completeness

Prints exact bytes of one archived call and nothing else: no line ending is added,
nothing is escaped, and a range that is too large or not there prints nothing.

  A:B           lines A to B, from 1, both included; A: to the end; A that line
  --bytes A:B   bytes from A up to B, from 0, B not included; A: to the end
  --head N      the first N lines        --tail N   the last N lines
  --list        the sources              --json     ... as JSON

SOURCE (stdout, stderr, result_text, source_output) may be left out when there is one.
Exit codes: 0, 64 usage, 65 bad data, 74 I/O.
"""

# Short and long names of the options with a value, and of those without.
PATTERN_VALUES = {"-e": "regexp", "--regexp": "regexp", "-m": "results", "--max-results": "results"}
PATTERN_SWITCHES = {
    "-F": "fixed",
    "--fixed-strings": "fixed",
    "-i": "ignore_case",
    "--ignore-case": "ignore_case",
    "-w": "words",
    "--word-regexp": "words",
    "-c": "count",
    "--count": "count",
    "-a": "text",
    "--text": "text",
    # Habits of grep that hold here anyway.
    "-n": "numbered",
    "--line-number": "numbered",
    "-E": "regular",
    "--extended-regexp": "regular",
}
_SEARCH_VALUES = {
    **PATTERN_VALUES,
    "-A": "after",
    "--after-context": "after",
    "-B": "before",
    "--before-context": "before",
    "-C": "context",
    "--context": "context",
    "--source": "source",
}
_SEARCH_SWITCHES = {**PATTERN_SWITCHES, "-v": "invert", "--invert-match": "invert"}
_READ_VALUES = {"--bytes": "bytes", "--head": "head", "--tail": "tail"}
_READ_SWITCHES = {"--list": "list", "--json": "json"}


def main(argv: list[str]) -> int:
    """Run one of the four commands and return its exit status."""
    command, words = argv[1], argv[2:]
    cap = _ERROR_BYTES
    try:
        run, help_text = _command(command)
        if words in (["--help"], ["-h"]):
            _write(help_text.encode())
            return 0
        settings = _settings()
        cap = settings.recovery_cap_bytes
        answer, status = run(words, settings)
        _write(answer)
    except YarpError as error:
        complain(str(error), cap)
        status = error.exit_code
    except KeyboardInterrupt:
        status = 130
    except Exception as error:  # noqa: BLE001 - Python's own status would mean "nothing found"
        complain(_fault(error), cap)
        status = YarpError.exit_code
    if argv is sys.argv:
        # The process's own words: all is written, and closing the interpreter takes a tenth.
        os._exit(status)
    return status


def _fault(error: Exception) -> str:
    """Where an exception came from that nobody foresaw; its own words may hold payload content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f"{os.path.basename(code.co_filename)}, {code.co_qualname}" if code else "nowhere"
    return f"a fault of YARP: {type(error).__name__} in {place}; please report it"


def _command(name: str) -> tuple[Callable[[list[str], Settings], tuple[bytes, int]], str]:
    if name == "search":
        return search, SEARCH_HELP
    if name == "read":
        return read, READ_HELP
    from yarp.cli import calls

    return (calls.grep, calls.GREP_HELP) if name == "grep" else (calls.calls, calls.CALLS_HELP)


def _settings() -> Settings:
    from yarp import cache

    return cache.load().settings


def complain(message: str, cap: int) -> None:
    """One line on standard error that fits `cap` bytes."""
    line = "".join(c if c.isprintable() else " " for c in f"yarp: {message}").encode(
        "utf-8", "replace"
    )
    if len(line) >= cap:
        line = line[: cap - 4].decode("utf-8", "ignore").encode() + b"..."
    try:
        os.write(2, line + b"\n")
    except OSError:
        return  # nobody listens; the exit status still speaks


def _write(answer: bytes) -> None:
    view = memoryview(answer)
    try:
        try:
            while view:
                view = view[os.write(1, view) :]
        except BlockingIOError:  # somebody we share it with made it non-blocking
            from yarp.spool.stream import write_all

            write_all(1, view)
    except OSError as error:
        raise StorageError(f"standard output cannot be written: {error.strerror}") from error


def _call(reader: Reader, ref: str) -> tuple[CallRow, list[Source]]:
    call = call_of(reader, ref)
    sources = reader.sources(call)
    if not sources:
        raise ReferenceUnknown(f"{ref}: the call has no output that could be recovered")
    return call, sources


def call_of(reader: Reader, ref: str) -> CallRow:
    """The call of a reference; ReferenceUnknown for what names none."""
    hexadecimal = ref.removeprefix("yr_")
    if len(ref) != 35 or len(hexadecimal) != 32 or hexadecimal.strip("0123456789abcdef"):
        shown = ref if len(ref) <= 60 else ref[:57] + "..."
        raise ReferenceUnknown(
            f"{shown} is no reference; one is yr_ and 32 hexadecimal digits: yarp calls"
        )
    return reader.call(ref)


def open_archive(settings: Settings) -> Reader:
    """The archive of the configuration, read-only."""
    return Reader.open(paths.archive_file(settings.archive_path))


def matcher_of(options: Options, patterns: list[str]) -> Matcher:
    """The patterns and switches of a command, compiled."""
    from yarp.recover.pattern import Matcher

    return Matcher(
        [pattern.encode("utf-8", "surrogateescape") for pattern in patterns],
        fixed="fixed" in options.switches,
        ignore_case="ignore_case" in options.switches,
        words="words" in options.switches,
    )


def search(words: list[str], settings: Settings) -> tuple[bytes, int]:
    """The answer of `yarp search` and its exit status."""
    from yarp.recover import search as engine

    options = Options("search", words, _SEARCH_VALUES, _SEARCH_SWITCHES)
    patterns = options.values.get("regexp", [])
    wanted = 1 if patterns else 2
    if len(options.positional) != wanted:
        raise options.wrong(
            "give a reference and no other pattern than those of -e"
            if patterns
            else "give a reference and one pattern"
        )
    ref = options.positional[0]
    patterns = patterns or options.positional[1:]
    both = options.number("context", 0, _MAX_CONTEXT)
    before = options.number("before", 0, _MAX_CONTEXT)
    after = options.number("after", 0, _MAX_CONTEXT)
    if both is not None and any(side not in (None, both) for side in (before, after)):
        raise options.wrong("-C and a different -A or -B")
    before = next(side for side in (before, both, _CONTEXT) if side is not None)
    after = next(side for side in (after, both, _CONTEXT) if side is not None)
    results = options.number("results", 1, settings.recovery_cap_lines) or min(
        _RESULTS, settings.recovery_cap_lines
    )
    counting = "count" in options.switches
    matcher = matcher_of(options, patterns)

    reader = open_archive(settings)
    _, sources = _call(reader, ref)
    only = options.value("source")
    if only is not None:
        only = pick(sources, only).name
        sources = [source for source in sources if source.name == only]
    searched: list[engine.Source] = []
    notes: list[bytes] = []
    skipped: list[str] = []
    for source in sources:
        text = open_text(reader, source, os.path.dirname(reader.path))
        if is_redacted(text):
            skipped.append(f"{source.name} was redacted; its bytes are gone")
            continue
        found = engine.scan(
            text,
            matcher,
            1 if counting else results,
            invert="invert" in options.switches,
            as_text="text" in options.switches,
        )
        if found.binary:
            skipped.append(
                f"{source.name} is binary ({source.byte_length} bytes) and was not searched; "
                f"use -a, or: yarp read {ref} {source.name} --bytes "
                f"0:{min(source.byte_length, settings.recovery_cap_bytes)}"
            )
            continue
        notes += [note.encode() for note in _notes(source, found, settings.recovery_cap_bytes)]
        searched.append(
            engine.Source(source.name, COMPLETE[source.completeness], text, found, matcher)
        )
    if not searched:
        raise DataError("; ".join(skipped))
    notes += [f"[yarp search: {reason}]".encode() for reason in skipped]
    matches = sum(source.found.matches for source in searched)
    if counting:
        return fit([f"[yarp search: ref={ref}]".encode(), *_counts(searched), *notes], settings), (
            0 if matches else 1
        )
    if not matches:
        return fit([b"No matches", *notes], settings), 1
    answer = engine.Answer(
        ref,
        searched,
        notes,
        max_results=results,
        cap_bytes=settings.recovery_cap_bytes,
        cap_lines=settings.recovery_cap_lines,
    ).fitted(before, after)
    if answer is None:
        raise DataError("no answer fits output.recovery_cap_bytes; raise it or narrow the pattern")
    return answer, 0


def _counts(searched: list[Searched]) -> Iterator[bytes]:
    for source in searched:
        yield (
            f"[source={source.name} complete={source.complete} matches={source.found.matches}]"
        ).encode()


def _notes(source: Source, found: Found, cap_bytes: int) -> Iterator[str]:
    if source.completeness != "complete":
        known = "is incomplete" if source.completeness == "incomplete" else "may be incomplete"
        why = (
            "its run was killed, or did not see its end"
            if source.name in ("stdout", "stderr")
            else "the host gave YARP no more of it"
        )
        yield f"[yarp search: {source.name} {known}: {why}]"
    if found.long_lines:
        line = found.long_lines[0]
        many = f"{len(found.long_lines)} lines, the first" if len(found.long_lines) > 1 else "line"
        end = min(line.end, line.start + cap_bytes)
        yield (
            f"[yarp search: {source.name} {many} {line.number} with {line.end - line.start} bytes, "
            f"searched in pieces; read it with --bytes {line.start}:{end}]"
        )


def fit(lines: list[bytes], settings: Settings) -> bytes:
    """As many of `lines` as the ceilings allow, each with its ending."""
    kept: list[bytes] = []
    room = settings.recovery_cap_bytes
    for line in lines[: settings.recovery_cap_lines]:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return b"".join(line + b"\n" for line in kept)


def read(words: list[str], settings: Settings) -> tuple[bytes, int]:
    """The answer of `yarp read` and its exit status."""
    from yarp.recover import read as engine

    options = Options("read", words, _READ_VALUES, _READ_SWITCHES)
    asked: list[str] = [name for name in ("bytes", "head", "tail") if name in options.values]
    asked += ["list"] if "list" in options.switches else []
    places = options.positional
    if not asked and len(places) > 1:
        places, asked = places[:-1], ["lines"]
    if len(asked) != 1 or not 1 <= len(places) <= 2 or ("list" in asked and len(places) > 1):
        raise options.wrong("give a reference, perhaps a source, and one range")
    if "json" in options.switches and asked != ["list"]:
        raise options.wrong("--json goes with --list only")
    cap_bytes, cap_lines = settings.recovery_cap_bytes, settings.recovery_cap_lines
    span: tuple[int, int | None] = (0, 0)
    if asked == ["lines"]:
        span = _span(options, options.positional[-1], 1)
    elif asked == ["bytes"]:
        span = _span(options, options.value("bytes") or "", 0)
    count = options.number(asked[0], 1, cap_lines) if asked[0] in ("head", "tail") else None

    reader = open_archive(settings)
    _, sources = _call(reader, places[0])
    directory = os.path.dirname(reader.path)
    if asked == ["list"]:
        found = [(source, open_text(reader, source, directory)) for source in sources]
        return _list(found, as_json="json" in options.switches), 0
    source = pick(sources, places[1] if len(places) > 1 else None)
    text = open_text(reader, source, directory)
    if is_redacted(text):
        sys.stderr.write(f"yarp: {source.name} was redacted; this is what stands in its place\n")
    if asked == ["lines"]:
        return engine.lines(text, *span, cap_bytes, cap_lines), 0
    if asked == ["bytes"]:
        return engine.byte_range(text, *span, cap_bytes, cap_lines), 0
    return (engine.head if asked == ["head"] else engine.tail)(text, count or 1, cap_bytes), 0


def _span(options: Options, text: str, low: int) -> tuple[int, int | None]:
    """The two numbers of a range; the second one is None where it goes on to the end."""
    first, colon, last = text.partition(":")
    if low and not colon:
        last = first  # a single line
    start, end = canonical_number(first), canonical_number(last)
    if start is None or (end is None and (last or not colon)):
        shown = text if len(text) <= 40 else text[:37] + "..."
        alone = ", 116: or 116" if low else " or 116:"
        raise options.wrong(f"{shown} is no range; write plain numbers, such as 116:120{alone}")
    if start < low or (end is not None and (end < start or (low == 0 and end == start))):
        what = "lines count from 1" if low else "the second byte is not part of the range"
        raise options.wrong(f"{text} is an empty range; {what}")
    return start, end


def _list(found: list[tuple[Source, Text]], *, as_json: bool) -> bytes:
    from yarp.recover.read import total_lines

    rows = [
        {
            "source": source.name,
            "bytes": source.byte_length,
            "lines": total_lines(text),
            "completeness": "redacted" if is_redacted(text) else source.completeness,
            "mediaType": source.media_type,
        }
        for source, text in found
    ]
    if as_json:
        import json

        return json.dumps(rows, indent=2).encode() + b"\n"
    return "".join(
        "{source}  {bytes} bytes  {lines} lines  {completeness}\n".format(**row) for row in rows
    ).encode()
