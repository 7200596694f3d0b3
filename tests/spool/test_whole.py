from __future__ import annotations

import os
import stat

import pytest

from yarp.errors import DataError, StorageError
from yarp.spool.whole import save_text


def test_each_text_has_a_private_file_of_its_own_also_within_a_second(tmp_path):
    paths = {save_text(str(tmp_path / "out"), "same", kind="shell") for _ in range(20)}
    assert len(paths) == 20
    for path in paths:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path) as file:
            assert file.read() == "same"
    assert stat.S_IMODE(os.stat(tmp_path / "out" / "shell").st_mode) == 0o700


@pytest.mark.parametrize("kind", ["", ".", "..", "a/b", "../up", "a\0", "-x", "é", "a" * 65, "a\n"])
def test_a_kind_that_could_lead_elsewhere_is_refused(tmp_path, kind):
    with pytest.raises(DataError):
        save_text(str(tmp_path / "out"), "text", kind=kind)
    assert os.listdir(tmp_path) == []


def test_a_linked_folder_of_a_kind_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shell").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        save_text(str(tmp_path / "out"), "text", kind="shell", below=str(tmp_path))
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_text_with_half_a_character_is_saved_with_a_mark_in_its_place(tmp_path):
    with open(save_text(str(tmp_path / "out"), "a\ud800b"), "rb") as file:
        assert file.read() == b"a?b"
