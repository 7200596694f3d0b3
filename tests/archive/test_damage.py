"""Whatever is wrong with the file, each command says so; none breaks or makes it worse."""

import os
import random

import pytest

from yarp.archive.prune import prune
from yarp.archive.read import Reader
from yarp.archive.redact import redact
from yarp.archive.restore import restore
from yarp.archive.stats import stats
from yarp.archive.verify import verify
from yarp.errors import YarpError


def damaged(sound, moment):
    data = bytearray(sound)
    at = moment.randrange(len(data))
    kind = moment.randrange(5)
    if kind == 0:
        data[at] ^= 1 << moment.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        length = moment.choice([4, 100, 4096])
        data[at : at + length] = moment.randbytes(length)
    elif kind == 3:
        for _ in range(50):
            data[moment.randrange(len(data))] ^= 1 << moment.randrange(8)
    else:  # the first page: the header and the schema's own text
        data[moment.randrange(4096)] ^= 1 << moment.randrange(8)
    return bytes(data)


def every_command_holds(store, another_store, rounds, seed):
    for number in range(8):
        reference = store.call(
            f"c{number}",
            text=os.urandom(600 * number).hex(),
            streams=(b"x" * 3000 * number, b"\xff"),
        )
    with open(store.path, "rb") as file:
        sound = file.read()
    path = another_store.path

    def read():
        reader = Reader.open(path)
        try:
            for row in reader.calls():
                for source in reader.sources(row):
                    reader.payload(source.sha256)
        finally:
            reader.close()

    commands = (
        lambda: verify(path),
        lambda: stats(path),
        lambda: prune(path, before_ms=10**14, dry_run=True),
        read,
        lambda: restore(
            path, agent="acme", account="ann", source_session_id="chat", source_call_id="c3"
        ),
        lambda: redact(path, reference, 5),
        lambda: prune(path, before_ms=10**14),
    )
    moment = random.Random(seed)
    said = []
    for _ in range(rounds):
        data = damaged(sound, moment)
        for command in commands:
            for name in os.listdir(another_store.directory):
                os.unlink(os.path.join(another_store.directory, name))
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(data)
            try:
                command()
            except YarpError as error:
                said.append(str(error))
    assert all(text.isprintable() for text in said)


def test_every_command_holds_on_damaged_files(store, another_store):
    every_command_holds(store, another_store, 30, seed=1)


@pytest.mark.slow
def test_every_command_holds_on_a_thousand_damaged_files(store, another_store):
    every_command_holds(store, another_store, 1000, seed=2)
