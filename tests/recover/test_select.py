import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarp.errors import ReferenceUnknown, StorageError, UsageError
from yarp.recover import select


class Kept:
    """A source, and the archive that keeps it."""

    def __init__(self, name, data, directory=None):
        self.name = name
        self.byte_length = len(data)
        self.sha256 = b""
        self._data = data
        self._writable = directory

    def payload(self, sha256):
        return self._data

    def payload_file(self, sha256, directory):
        if directory != self._writable:
            raise StorageError("full")
        file = os.memfd_create("payload")
        os.write(file, self._data)
        return file


def test_the_only_source_needs_no_name_and_several_are_listed():
    out, err = Kept("stdout", b""), Kept("stderr", b"")
    assert select.pick([out], None) is out
    assert select.pick([out, err], "stderr") is err
    with pytest.raises(UsageError, match="sources stdout, stderr; name one"):
        select.pick([out, err], None)
    with pytest.raises(ReferenceUnknown, match="no source result_text; it has: stdout"):
        select.pick([out], "result_text")


@given(st.text("a\n", max_size=30).map(str.encode), st.integers(0, 31), st.integers(0, 31))
def test_a_source_reads_the_same_from_memory_and_from_a_file(data, start, end):
    file = os.memfd_create("source")
    os.write(file, data)
    for text in (select.Text(len(data), data), select.Text(len(data), None, file)):
        assert text.read(start, end) == data[start:end]
        assert text.newline_from(start) == data.find(b"\n", start)
        assert text.newline_before(end) == data.rfind(b"\n", 0, end)
        text.close()


def test_a_large_source_goes_to_a_file_beside_the_archive_else_to_tmpdir(monkeypatch):
    monkeypatch.setattr(select, "MEMORY_BYTES", 3)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    for place in ("/archive", "/elsewhere"):
        kept = Kept("stdout", b"large", place)
        text = select.open_text(kept, kept, "/archive")
        assert text.data is None
        assert text.read(1, 99) == b"arge"
        text.close()
    kept = Kept("stdout", b"large", "/nowhere")
    with pytest.raises(StorageError):
        select.open_text(kept, kept, "/archive")


def test_a_file_that_ends_early_is_an_error():
    file = os.memfd_create("source")
    text = select.Text(5, None, file)
    with pytest.raises(StorageError, match="ended early"):
        text.read(0, 5)
    text.close()
