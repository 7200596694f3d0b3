"""Files of tests: those beside a test, and those a suite finds before and again after."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import ModuleType


def facts_of(roots: Iterable[str]) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and modification time of every file below the roots."""
    found = {}
    for root in roots:
        paths = [root] if os.path.isfile(root) else []
        for directory, _, files in os.walk(root):
            paths += [os.path.join(directory, name) for name in files]
        for path in paths:
            stat = os.stat(path)
            with open(path, "rb") as file:
                content = file.read()
            found[path] = (content, stat.st_mode, stat.st_mtime_ns)
            # Reading for the check must not be what changes the source.
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return found


def tree(root: str, without: str = "/data") -> dict[str, str | bytes | None]:
    """All below `root`: the target of a link, the bytes of a file; None: a directory.

    Paths that hold `without` are passed over: what YARP itself keeps.
    """
    found: dict[str, str | bytes | None] = {}
    for directory, folders, names in os.walk(root):
        for path in (os.path.join(directory, name) for name in folders + names):
            if without in path:
                continue
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isdir(path):
                found[path] = None
            else:
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found


def lay(path: str, kind: str, content: bytes | None) -> None:
    """Put a configuration at `path`, as `kind` says.

    A kind that is none of: missing, a folder, a symlink, read-only, is a plain file.
    """
    directory = os.path.dirname(path)
    if kind != "missing":
        os.makedirs(directory, exist_ok=True)
    target = path
    if kind == "a folder":
        os.mkdir(path)
    if kind == "a symlink":
        target = os.path.join(os.path.dirname(directory), "dotfiles", os.path.basename(path))
        os.mkdir(os.path.dirname(target))
        os.symlink(target, path)
    if content is not None:
        with open(target, "wb") as file:
            file.write(content)
    if kind == "read-only":
        os.chmod(path, 0o444)


def neighbour(test: str, name: str) -> ModuleType:
    """The module in the file `name`.py beside the file `test`, anew; such files are no package."""
    directory = os.path.dirname(os.path.abspath(test))
    label = "".join(letter if letter.isalnum() else "_" for letter in f"{directory}_{name}")
    spec = importlib.util.spec_from_file_location(label, os.path.join(directory, f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def small_disk(point: Path, size_mib: int) -> Iterator[Path]:
    """A file system of that size, private, at `point`, which is made.

    The test is skipped for a user who may not mount one: nothing else is a disk that is full.
    """
    point.mkdir(mode=0o700)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=0700", "tmpfs", str(point)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a full disk needs a small file system: {done.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)
