import os

import pytest

from yarp import paths
from yarp.errors import PermissionsTooOpen


def test_a_private_directory_is_made_whatever_the_umask(tmp_path):
    before = os.umask(0o777)
    try:
        paths.make_private_dir(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_the_advice_for_a_wide_directory_of_ones_own_is_to_narrow_it(tmp_path):
    tmp_path.chmod(0o755)
    with pytest.raises(PermissionsTooOpen, match="chmod 700"):
        paths.require_private(str(tmp_path), directory=True, narrow=False)


def test_a_directory_that_is_everybodys_is_never_to_be_narrowed(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionsTooOpen) as caught:
        paths.require_private(str(tmp_path), directory=True, narrow=False)
    assert "chmod" not in str(caught.value)
    assert "mkdir -m 700" in str(caught.value)
