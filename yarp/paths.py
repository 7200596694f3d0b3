"""Where YARP keeps its files, and how they become private.

Paths are ``str``: this module lies on the hot lane, where ``pathlib`` alone would double
the cost of a command. XDG variables and HOME count only when absolute.
"""

from __future__ import annotations

import os
import stat
import sys

from yarp.errors import ConfigError, PermissionsTooOpen, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The environment to start a program with: ours, less a nameless variable."""
    if "" not in os.environ:
        return os.environ
    return {name: value for name, value in os.environ.items() if name}


def _base(variable: str, *below_home: str) -> str:
    directory = os.environ.get(variable, "")
    if directory.startswith("/"):
        return os.path.join(directory, "yarp")
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            raise ConfigError(
                f"neither {variable} nor HOME names an absolute directory; set one of them"
            ) from None
    return os.path.join(home, *below_home, "yarp")


def config_file() -> str:
    """The one configuration file, there or not."""
    return os.path.join(_base("XDG_CONFIG_HOME", ".config"), "config.toml")


def cache_dir() -> str:
    """Where compiled declarations lie; losing it costs time, never a call."""
    return _base("XDG_CACHE_HOME", ".cache")


def data_dir() -> str:
    """The known default directory of the archive."""
    return _base("XDG_DATA_HOME", ".local", "share")


def archive_file(configured: str | None = None) -> str:
    """The archive's path: YARP_ARCHIVE, else `configured`, else the default.

    Source: spec "Archive", Database.
    """
    override = os.environ.get("YARP_ARCHIVE")
    if override:
        if not override.startswith("/"):
            raise ConfigError("YARP_ARCHIVE must be an absolute path")
        return override
    return configured or os.path.join(data_dir(), "tool-calls.sqlite3")


def account() -> str:
    """The account of the operating system that this process runs for."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    if name:
        return name
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def program(argv0: str) -> tuple[str, ...]:
    """The words that start this very `yarp` from anywhere."""
    path = os.path.abspath(argv0)
    if os.path.basename(path) == "yarp" and os.access(path, os.X_OK):
        return (path,)
    return (sys.executable, "-m", "yarp")


def make_private_dir(path: str) -> None:
    """Create `path` and its missing parents with mode 0700, whatever the umask.

    A directory that exists already is left as it is.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_private_dir(parent)
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # a umask may have taken the owner's own bits
    except FileExistsError:
        if not os.path.isdir(path):
            raise StorageError(f"{path} is not a directory; move it away") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be created: {error.strerror}") from error


def _is_shared(path: str, found: os.stat_result) -> bool:
    """Whether a directory is the system's: /tmp, /, /proc."""
    world = found.st_mode & (stat.S_IWOTH | stat.S_ISVTX)
    return bool(world) or found.st_uid != os.getuid() or os.path.dirname(path) == "/"


def require_private(path: str, *, directory: bool, narrow: bool) -> None:
    """Make sure that only the owner can reach `path`.

    With `narrow`, broader modes are taken away (the known default directory and its
    database); without it they are an error, since an override is the user's own choice.
    Symbolic links are refused. Source: seed 000, "Filesystem permissions".
    """
    try:
        found = os.lstat(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    kind = stat.S_ISDIR(found.st_mode) if directory else stat.S_ISREG(found.st_mode)
    if not kind:
        wanted = "a directory" if directory else "a regular file"
        raise StorageError(f"{path} is not {wanted}; YARP does not follow links here")
    if not found.st_mode & 0o077:
        return
    mode = 0o700 if directory else 0o600
    if not narrow:
        advice = f"Run: chmod {mode:o} '{path}'"
        if directory and _is_shared(path, found):
            # It must stay as it is.
            advice = "Give it a directory of its own: mkdir -m 700 DIRECTORY"
        elif directory:
            advice = f"{advice}, or give it a directory of its own"
        raise PermissionsTooOpen(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}; others can reach it. {advice}"
        )
    try:
        os.chmod(path, mode)
    except OSError as error:
        raise PermissionsTooOpen(f"{path} cannot be made private: {error.strerror}") from error
