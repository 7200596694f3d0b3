"""Places for spools, and what they hold."""

import os
import subprocess
import sys

import pytest

from yarp.spool.declared import SpoolLocation
from yarp.testing.files import small_disk


def location_in(conversation, **quotas):
    return SpoolLocation(
        os.path.join(conversation, "outputs"), conversation=str(conversation), **quotas
    )


@pytest.fixture
def location(tmp_path):
    conversation = tmp_path / "talk"
    conversation.mkdir(mode=0o700)
    return location_in(conversation)


@pytest.fixture
def kept(location):
    """The bytes that a receipt's stream refers to."""

    def read(receipt, stream="stdout"):
        with open(os.path.join(location.conversation, receipt.stream(stream).reference), "rb") as f:
            return f.read()

    return read


@pytest.fixture
def names(location):
    """The files there are."""
    return lambda: sorted(os.listdir(location.directory))


@pytest.fixture
def disk(tmp_path):
    """A file system of 1 MiB."""
    with small_disk(tmp_path / "disk", 1) as point:
        yield point


@pytest.fixture
def python():
    """Runs a program in a process of its own."""

    def start(code, *words, **options):
        return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], **options)

    return start
