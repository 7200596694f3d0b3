"""The outputs of `outputs` through a real process and a spool of ours; JSON lines as answer.

python spool_outputs.py table FOLDER           a line for each output, then one for the job
python spool_outputs.py tasks FOLDER           a line for each output that is looked into
python spool_outputs.py stream FOLDER KIND COMMAND...    keep a large stream, and say nothing
"""

import json
import os
import sys
import time

import outputs

from yarp.spool.credentials import CREDENTIALS
from yarp.spool.declared import SpoolLocation
from yarp.spool.receipt import Representation
from yarp.spool.running import Running
from yarp.spool.spool import EXACT, LOSSY, Spool

INLINE_BYTES = 16 << 10
STREAM_BYTES = 4 << 30
# Prints two files, as the command that is told of would have, and ends as it did.
PRINT = """\
import os, shutil, sys
for stream, path in ((1, sys.argv[1]), (2, sys.argv[2])):
    with open(path, "rb") as file, open(stream, "wb", closefd=False) as out:
        shutil.copyfileobj(file, out)
sys.exit(int(sys.argv[3]))
"""


def spool(folder, label, **more):
    location = SpoolLocation(folder, job_bytes=STREAM_BYTES, conversation_bytes=STREAM_BYTES)
    return Spool(location, label=label, **more)


def captured(one, argv):
    """Run a command to its end into a spool; the receipt."""
    return Running(one, argv).wait()


def shown(one, receipt, folder):
    """What a host would put into the transcript: the preview, and where the rest is."""
    paths = [
        os.path.join(folder, stream.reference) for stream in receipt.streams if stream.reference
    ]
    notes = [f"capture {receipt.capture}: {' '.join(paths)}"] if paths else []
    return one.preview(notes).text, paths


def fixture(output, folder):
    files = [os.path.join(folder, name) for name in ("out", "err")]
    spools = os.path.join(folder, "spools")
    for path, text in zip(files, (output.stdout, output.stderr), strict=True):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    began = time.perf_counter()
    one = spool(spools, output.command, redactors=[CREDENTIALS], inline_bytes=INLINE_BYTES)
    receipt = captured(one, [sys.executable, "-c", PRINT, *files, str(output.exit_code)])
    inline, paths = shown(one, receipt, spools)
    seconds = time.perf_counter() - began
    texts = [inline]
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            texts.append(file.read())
    assert receipt.exit_code == output.exit_code
    return {
        "name": output.name,
        "inline": inline,
        "saved_bytes": sum(len(text.encode()) for text in texts[1:]),
        "saved": paths,
        "missing": [
            needle
            for needle in output.needles
            if not any(needle.rstrip("\n") in text for text in texts)
        ],
        "capture": receipt.capture,
        "ms": seconds * 1000,
    }


def background(folder):
    spools = os.path.join(folder, "spools")
    began = time.perf_counter()
    one = spool(spools, "job.py", redactors=[CREDENTIALS])
    launched = all(stream.reference for stream in one.receipt().streams)
    receipt = captured(one, [sys.executable, "-c", outputs.JOB])
    inline, paths = shown(one, receipt, spools)
    seconds = time.perf_counter() - began
    with open(paths[0], encoding="utf-8") as file:
        text = file.read()
    return {
        "name": "background",
        "exit_code": receipt.exit_code,
        "retained": len(text),
        "inline": inline,
        "saved_bytes": len(text.encode()),
        "path_at_launch": launched,
        "begin": "BEGIN-MARKER" in text,
        "end": "END-MARKER" in text,
        "capture": receipt.capture,
        "ms": seconds * 1000,
    }


def stream(folder, kind, *argv):
    """Keep a large stream as `kind`, exactly or under the policy that never waits."""
    representation, policy = kind.split(",")
    one = spool(
        folder,
        "stream",
        representation=Representation(representation),
        redactors=[CREDENTIALS] if representation == "redacted_text" else (),
        policy={"exact": EXACT, "lossy": LOSSY}[policy],
    )
    receipt = captured(one, argv)
    print(json.dumps({"capture": receipt.capture, "reason": receipt.capture_reason}))


def main(what, folder, *words):
    os.makedirs(folder, 0o700, exist_ok=True)
    if what == "stream":
        stream(folder, *words)
        return
    if what == "tasks":
        told = [(task.name, task.output) for task in outputs.tasks()]
    else:
        told = [(output.name, output) for output in outputs.table()]
    for number, (name, output) in enumerate(told):
        below = os.path.join(folder, str(number))
        os.mkdir(below, 0o700)
        print(json.dumps({**fixture(output, below), "name": name}))
    if what == "table":
        print(json.dumps(background(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
