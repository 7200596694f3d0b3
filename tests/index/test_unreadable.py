"""What a sync cannot see: it is said, and takes nothing else down."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

import pytest

from yarp.index.sync import sync


def as_nobody(work):
    """What `work` returns in a process that may not read everything, as root may."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.write(writer, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(said)


@pytest.fixture
def place():
    """A directory that anybody may use."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o777)
        yield pathlib.Path(path)


def test_what_cannot_be_read_is_said_and_takes_nothing_else_down(index, conversation, place):
    index.sync()  # has all modules loaded, which nobody else might read
    index = index.another(place)
    for number, name in enumerate(("a", "closed/b", "d", "e/f")):
        (index.traces / name).parent.mkdir(exist_ok=True)
        index.write(f"{name}.jsonl", {**conversation[0], "id": f"s{number}"})
    (index.traces / "closed").chmod(0)
    (index.traces / "d.jsonl").chmod(0)
    if os.getuid() == 0:
        os.chown(place, 65534, 65534)
        os.chown(index.traces, 65534, 65534)
    try:
        told = as_nobody(lambda: index.sync().plain())
    finally:
        (index.traces / "closed").chmod(0o755)
    assert (told["indexed_files"], told["failed_files"], told["discovered_files"]) == (2, 1, 3)
    (problem,) = told["problems"]
    closed = index.traces / "closed"
    assert problem == f"{closed}: what is below cannot be seen (Permission denied)"
    (failed,) = told["source_results"]
    assert failed["path"] == str(index.traces / "d.jsonl")
    assert failed["error"] == "Permission denied"
    (index.traces / "d.jsonl").chmod(0o644)
    told = as_nobody(lambda: index.sync().plain())
    assert (told["indexed_files"], told["unchanged_files"], told["problems"]) == (2, 2, [])


@pytest.mark.parametrize("becomes", ["directory", "fifo", "link", "nothing"])
def test_what_becomes_no_file_while_a_sync_runs_takes_nothing_else_down(
    index, conversation, becomes
):
    for name in "abc":
        index.write(f"{name}.jsonl", {**conversation[0], "id": name})
    path = index.traces / "b.jsonl"

    def change(_):
        if not path.is_file() or path.is_symlink():
            return
        path.unlink()
        if becomes == "directory":
            path.mkdir()
        elif becomes == "fifo":
            os.mkfifo(path)
        elif becomes == "link":
            path.symlink_to(index.traces / "a.jsonl")

    report = sync(index.path, [str(index.traces)], index.readers, progress=change)
    assert report.actions["indexed"] == 2
    assert report.actions["failed"] == (becomes != "nothing")
    names = [row["native_id"] for row in index.all("SELECT native_id FROM sessions ORDER BY 1")]
    assert names == ["a", "c"]
