"""The user's `config.toml`, which Codex changes for us, and which gets its bytes back."""

from __future__ import annotations

import os
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from yarp.plugin import hostfile

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST = "codex"


class Settings:
    """`config.toml` in Codex's own directory."""

    def __init__(self, home: str) -> None:
        self.path = os.path.join(home, "config.toml")

    @contextmanager
    def changed_by_codex(self) -> Iterator[None]:
        """Remember the file before and after Codex changes it for us."""
        hostfile.keep(self.path, host=_HOST)
        try:
            yield
        finally:
            hostfile.kept(self.path, host=_HOST)

    @property
    def remembered(self) -> bool:
        """Whether Codex changed it for us, and nobody since."""
        return hostfile.restore(self.path, host=_HOST, dry_run=True)

    def restore(self, *, dry_run: bool) -> bool:
        """Its bytes from before, if nobody changed it since; False: somebody did."""
        return hostfile.restore(self.path, host=_HOST, dry_run=dry_run)

    def read(self) -> dict[str, Any]:
        """What it says; nothing where there is none."""
        try:
            with open(self.path, "rb") as file:
                return tomllib.load(file)
        except FileNotFoundError:
            return {}

    def writable_roots(self) -> list[str]:
        """The further directories that a sandboxed command may write to."""
        table = self.read().get("sandbox_workspace_write")
        roots = table.get("writable_roots") if isinstance(table, dict) else None
        return [one for one in roots if isinstance(one, str)] if isinstance(roots, list) else []

    def without(self, keys: list[str], root: str | None, *, dry_run: bool) -> list[str]:
        """Take the trust under `keys` and the writable `root` out of a file edited since."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            with open(self.path, encoding="utf-8", newline="") as file:
                text = file.read()
            document = tomlkit.parse(text)
        except (OSError, ValueError, TOMLKitError):
            return []
        plain: Any = document
        for key in keys:
            _drop(plain, ("hooks", "state", key))
        roots = plain.get("sandbox_workspace_write", {}).get("writable_roots")
        if root is not None and isinstance(roots, list) and root in roots:
            roots.remove(root)
            if not roots:
                _drop(plain, ("sandbox_workspace_write", "writable_roots"))
        changed = tomlkit.dumps(document)
        if changed == text:
            return []
        if not dry_run:
            hostfile.replace(self.path, changed)
        return [f"{'would take' if dry_run else 'took'} YARP out of {self.path}"]


def _drop(table: Any, path: tuple[str, ...]) -> None:
    """Remove one member, and the tables on the way to it that hold nothing more."""
    name, *rest = path
    if not isinstance(table, dict) or name not in table:
        return
    if rest:
        _drop(table[name], tuple(rest))
    if not rest or table[name] == {}:
        del table[name]
