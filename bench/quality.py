"""What the model reads of recorded outputs: facts and o200k tokens, beside the hosts' own cuts.

A case is a folder with cmd, exitcode, must_keep.txt and what the command printed (stdout, stderr).
Each goes through a whole `yarp run` with the archive on: a stand-in of the command's name prints
the recording. The hosts' cuts are those that the installed plugins declare.
"""

import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

import bpe_openai

from yarp.plugins import Plugins
from yarp.settings import Settings

YARP = os.path.join(os.path.dirname(sys.executable), "yarp")
OWN = [
    os.path.join(os.path.dirname(__file__), "..", "tests", "reduce", part)
    for part in ("cases", "recordings")
]
# Below this a case says little about what is saved.
SMALL_BYTES = 2048
SEPARATORS = frozenset({"&&", "||", ";", "&"})
BUILTINS = frozenset({"cd", "echo", "export", "false", "popd", "pushd", "set", "true"})
OPERATORS = frozenset("|&;<>()$`*?[]{}~\n")


class Case:
    def __init__(self, folder):
        self.name = os.path.basename(folder)
        self.folder = folder
        self.command = self.read("cmd").decode().strip()
        self.exit_code = int(self.read("exitcode"))
        self.streams = self.read("stdout"), self.read("stderr")
        self.facts = [f for f in self.read("must_keep.txt").decode().splitlines() if f]

    def read(self, part):
        path = os.path.join(self.folder, part)
        if not os.path.exists(path):
            return b""
        with open(path, "rb") as file:
            return file.read()


def find(directories):
    for directory in directories:
        for folder, folders, files in os.walk(directory):
            folders.sort()
            if "cmd" in files:
                yield Case(folder)


def table(title, directories, raw):
    """The rows of the table for all cases below these directories."""
    encoding = bpe_openai.get_encoding("o200k_base")
    hosts = {h.title: h.cut for h in Plugins.load(Settings()).hosts().values() if h.cut}
    ways = {"yarp": None, **hosts}
    results = {name: [] for name in ways}
    larger = wrong_exit = wrong_stream = 0
    lost = []
    with tempfile.TemporaryDirectory() as home:
        for case in find(directories):
            done = run(case, home)
            exact = b"".join(case.streams)
            shown = done.stdout + done.stderr
            larger += len(shown) > len(exact)
            wrong_exit += done.returncode != case.exit_code
            changed = (done.stdout, done.stderr) != case.streams and shown != exact
            wrong_stream += changed and any(
                mine and not theirs
                for mine, theirs in zip((done.stdout, done.stderr), case.streams, strict=True)
            )
            before = len(encoding.encode_ordinary(exact.decode("utf-8", "replace")))
            row = {"case": case.name, "command": case.command, "bytes": [len(exact), len(shown)]}
            for name, cut in ways.items():
                data = shown if name == "yarp" else left(exact, cut, encoding)
                tokens = len(encoding.encode_ordinary(data.decode("utf-8", "replace")))
                # A fact that YARP sums up stands nowhere in the output: nobody else can lose it.
                missing = [
                    fact
                    for fact in map(str.encode, case.facts)
                    if fact not in data and (fact in exact or (name == "yarp" and data != exact))
                ]
                missing = [fact.decode() for fact in missing]
                results[name].append((case, before, tokens, missing))
                row[name] = {"tokens": [before, tokens], "lost": missing}
                if name == "yarp":
                    lost += [f"{case.name}: {fact!r}" for fact in missing]
            raw.write(json.dumps(row) + "\n")
    if not results["yarp"]:
        return [f"{title}: no cases"]
    head = f"{title}: {len(results['yarp'])} cases, {larger} made larger"
    return [
        f"{head}, {wrong_exit} exit statuses wrong, {wrong_stream} streams wrong",
        *(line(title, name, found, results["yarp"]) for name, found in results.items()),
        *(f"{title}: lost {fact}" for fact in lost),
    ]


def run(case, home):
    """A whole `yarp run` of a stand-in that prints the recording."""
    tools = os.path.join(home, "bin")
    os.makedirs(tools, exist_ok=True)
    words = shlex.split(case.command)
    shell = not OPERATORS.isdisjoint(case.command.replace("'", "").replace('"', ""))
    programs = {os.path.basename(words[0])}
    tokens = list(shlex.shlex(case.command, posix=True, punctuation_chars=True))
    several = shell and not SEPARATORS.isdisjoint(tokens)
    if several:
        # The first one prints it all; where the text goes on, the others have nothing to add.
        starts = (after for mark, after in itertools.pairwise([";", *tokens]) if mark in SEPARATORS)
        programs = {os.path.basename(word) for word in starts} - BUILTINS
    elif shell:
        # Behind a pipe every filter prints the recording too: what is shown is the last one's.
        programs |= {after for bar, after in itertools.pairwise(tokens) if bar == "|"}
    place = os.path.join(home, "place")
    for change, directory in itertools.pairwise(tokens):
        if change in ("cd", "pushd"):
            os.makedirs(os.path.join(place, directory.lstrip("/")), exist_ok=True)
    os.makedirs(place, exist_ok=True)
    once = os.path.join(home, "once")
    paths = []
    for number, data in enumerate(case.streams):
        paths.append(os.path.join(home, f"stream{number}"))
        with open(paths[-1], "wb") as file:
            file.write(data)
    stand_ins = [os.path.join(tools, program) for program in programs]
    for stand_in in stand_ins:
        with open(stand_in, "w", encoding="utf-8") as file:
            file.write(
                "#!/bin/sh\n"
                + (f"/bin/mkdir {once} 2>/dev/null || exit {case.exit_code}\n" if several else "")
                + f"/bin/cat {paths[0]}\n/bin/cat {paths[1]} >&2\nexit {case.exit_code}\n"
            )
        os.chmod(stand_in, 0o700)
    how = ["--shell", case.command] if shell else ["--", *words]
    environment = {
        "HOME": home,
        "PATH": f"{tools}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "USER": "bench",
    }
    try:
        return subprocess.run(
            [YARP, "run", *how],
            env=environment,
            cwd=place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    finally:
        for stand_in in stand_ins:
            os.unlink(stand_in)
        if os.path.isdir(once):
            os.rmdir(once)


def left(data, cut, encoding):
    """What a host's own cut leaves.

    A host that shows a short preview of what is over a size gives its model the rest on demand:
    counted is what it lets through at once.
    """
    text = data.decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    if cut.lines is not None and len(lines) > cut.lines:
        first = {"head": cut.lines, "tail": 0, "ends": cut.lines // 2}[cut.keeps]
        text = "".join(lines[:first] + lines[len(lines) - cut.lines + first :])
    if cut.unit == "characters":
        return part(text, cut).encode()
    if cut.unit == "bytes":
        return part(text.encode(), cut)
    tokens = encoding.encode_ordinary(text)
    return data if len(tokens) <= cut.limit else encoding.decode_bytes(part(tokens, cut))


def part(whole, cut):
    limit = cut.beyond or cut.limit
    if len(whole) <= limit:
        return whole
    if cut.keeps == "ends":
        return whole[: limit // 2] + whole[len(whole) - limit // 2 :]
    return whole[:limit] if cut.keeps == "head" else whole[-limit:]


def line(title, name, found, yarp):
    facts = sum(len(case.facts) for case, *_ in found)
    kept = facts - sum(len(missing) for *_, missing in found)
    before = sum(row[1] for row in found)
    after = sum(row[2] for row in found)
    shares = [
        100 - 100 * tokens / whole
        for case, whole, tokens, _ in found
        if whole and sum(map(len, case.streams)) > SMALL_BYTES
    ]
    median = f", median above 2 kB {statistics.median(shares):.1f} %" if shares else ""
    against = ""
    if name != "yarp":
        ours = sum(min(mine[2], own[2]) for mine, own in zip(yarp, found, strict=True))
        against = f"; yarp against it saves {share(after, ours)}"
    return (
        f"{title}: {name}: {kept} of {facts} facts, tokens {before:,} -> {after:,},"
        f" saved {share(before, after)}{median}{against}"
    )


def share(before, after):
    return f"{100 - 100 * after / before:.1f} %" if before else "-"
