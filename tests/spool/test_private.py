from __future__ import annotations

import os
import stat

import pytest

from yarp.errors import DataError, StorageError
from yarp.spool import private


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids="umask {0:03o}".format)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def directory(tmp_path):
    opened = private.open_directory(str(tmp_path / "spools"), below=str(tmp_path))
    yield opened
    os.close(opened)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_what_is_made_is_private_whatever_the_umask(tmp_path, umask):
    opened = private.open_directory(str(tmp_path / "a" / "b"), below=str(tmp_path))
    os.close(private.create(opened, "file"))
    private.publish(opened, "whole", b"text")
    os.close(opened)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a" / "b" / "file") == mode(tmp_path / "a" / "b" / "whole") == 0o600


def test_a_hostile_umask_locks_out_no_ordinary_user(python):
    """The superuser enters what others could not; so this process gives its rights away."""
    code = """
import os, tempfile
from yarp.spool import private
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
place = tempfile.mkdtemp(dir="/tmp")
os.umask(0o777)
opened = private.open_directory(place + "/a/b", below=place)
private.publish(opened, "whole", b"text")
assert private.read_file(opened, "whole", 9) == b"text"
os.unlink(place + "/a/b/whole")
os.removedirs(place + "/a/b")
"""
    assert python(code).wait() == 0


@pytest.mark.parametrize("part", ["a", "a/b", "a/b/c"])
def test_a_link_anywhere_below_the_anchor_is_refused(tmp_path, part):
    target = tmp_path / "elsewhere"
    target.mkdir()
    link = tmp_path / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(StorageError, match="follow no links"):
        private.open_directory(str(tmp_path / "a" / "b" / "c"), below=str(tmp_path))
    assert list(target.iterdir()) == []


def test_without_an_anchor_no_link_at_all_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StorageError, match="follow no links"):
        private.open_directory(str(tmp_path / "link" / "spools"))


def test_the_anchor_itself_is_the_hosts_choice(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.close(private.open_directory(f"{tmp_path}/link/spools", below=f"{tmp_path}/link"))
    assert (tmp_path / "real" / "spools").is_dir()


@pytest.mark.parametrize("path", ["a", "a/b"])
def test_what_is_no_directory_is_refused(tmp_path, path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(StorageError, match="no directory"):
        private.open_directory(str(tmp_path / path), below=str(tmp_path))
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.parametrize("path", ["a/../../out", "../out", "relative", "/elsewhere", "a\0b"])
def test_a_path_that_leads_out_is_refused(tmp_path, path):
    inner = tmp_path / "inner"
    inner.mkdir()
    wanted = path if path.startswith("/") or path == "relative" else f"{inner}/{path}"
    with pytest.raises(DataError):
        private.open_directory(wanted, below=str(inner))
    assert os.listdir(tmp_path) == ["inner"]


def test_a_directory_in_which_others_rename_files_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    os.chmod(tmp_path / "open", 0o777)
    with pytest.raises(StorageError, match="others can write"):
        private.open_directory(str(tmp_path / "open"), below=str(tmp_path))
    assert mode(tmp_path / "open") == 0o777


def test_an_existing_directory_keeps_its_mode(tmp_path):
    (tmp_path / "there").mkdir()
    os.chmod(tmp_path / "there", 0o755)
    os.close(private.open_directory(str(tmp_path / "there" / "new"), below=str(tmp_path)))
    assert mode(tmp_path / "there") == 0o755


@pytest.mark.parametrize("make", [private.create, lambda *a: private.publish(*a, b"new")])
def test_an_existing_file_is_neither_overwritten_nor_chmod_ed(tmp_path, directory, make):
    path = tmp_path / "spools" / "taken"
    path.write_text("mine")
    os.chmod(path, 0o400)
    with pytest.raises(StorageError):
        make(directory, "taken")
    assert path.read_text() == "mine"
    assert mode(path) == 0o400
    assert os.listdir(tmp_path / "spools") == ["taken"]


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("make", [private.create, lambda *a: private.publish(*a, b"new")])
def test_a_link_at_the_destination_is_refused(tmp_path, directory, make, dangling):
    target = tmp_path / "target"
    if not dangling:
        target.write_text("mine")
    (tmp_path / "spools" / "taken").symlink_to(target)
    with pytest.raises(StorageError):
        make(directory, "taken")
    assert target.exists() is not dangling
    assert dangling or target.read_text() == "mine"


def test_where_files_have_but_one_name_nothing_is_overwritten_either(
    tmp_path, directory, monkeypatch
):
    def no_links(*names, **options):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(private.os, "link", no_links)
    private.publish(directory, "whole", b"text")
    with pytest.raises(StorageError):
        private.publish(directory, "whole", b"other")
    assert (tmp_path / "spools" / "whole").read_bytes() == b"text"
    assert os.listdir(tmp_path / "spools") == ["whole"]


def test_a_text_that_cannot_be_written_whole_leaves_nothing(disk):
    opened = private.open_directory(str(disk / "spools"), below=str(disk))
    with pytest.raises(StorageError, match="No space"):
        private.publish(opened, "large", bytes(2 << 20))
    os.close(opened)
    assert os.listdir(disk / "spools") == []


def test_a_failure_before_the_name_appears_leaves_nothing(tmp_path, directory, monkeypatch):
    def broken(file):
        raise OSError(5, "broken disk")

    monkeypatch.setattr(private.os, "fsync", broken)
    with pytest.raises(StorageError, match="broken disk"):
        private.publish(directory, "whole", b"text")
    assert os.listdir(tmp_path / "spools") == []


def test_a_short_write_goes_on_to_the_end(tmp_path, directory, monkeypatch):
    write = os.write
    monkeypatch.setattr(private.os, "write", lambda file, data: write(file, data[:3]))
    private.publish(directory, "whole", b"0123456789")
    assert (tmp_path / "spools" / "whole").read_bytes() == b"0123456789"


def test_only_regular_files_are_read(tmp_path, directory):
    os.mkfifo(tmp_path / "spools" / "fifo")
    (tmp_path / "spools" / "link").symlink_to("/etc/passwd")
    for name in ("fifo", "link"):
        with pytest.raises(StorageError):
            private.open_file(directory, name)
    with pytest.raises(DataError, match="does not exist"):
        private.open_file(directory, "none")
