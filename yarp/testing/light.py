"""What a module loads when it is imported, seen from a fresh process.

Everything on the way of a live call is held to HEAVY: each of these costs a command a third of
its time or more (docs/explanation). Source: spec "Architecture", The hot lane.
"""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = frozenset(
    {
        "argparse",
        "asyncio",
        "attr",
        "attrs",
        "cattrs",
        "duckdb",
        "click",
        "collections",
        "contextlib",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "importlib.metadata",
        "importlib.resources",
        "inspect",
        "json",
        "logging",
        "orjson",
        "pathlib",
        "pluggy",
        "pyarrow",
        "re",
        "re2",
        "rfc8785",
        "rich",
        "rich_click",
        "shutil",
        "signal",
        "sqlite3",
        "subprocess",
        "tempfile",
        "threading",
        "tomllib",
        "tomlkit",
        "tree_sitter",
        "typing",
        "zstandard",
    }
)


def loaded_by(code: str) -> set[str]:
    """The names of the modules that `code` adds to what an interpreter has loaded at its start.

    The child has this process's environment and search path.
    """
    script = (
        f"import sys; sys.path[:] = {sys.path!r}; before = set(sys.modules)\n"
        f"{code}\n"
        "added = sorted(set(sys.modules) - before)\n"
        "import json; print(json.dumps(added))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode:
        raise AssertionError(f"{code}: {done.stderr.strip().splitlines()[-1]}")
    return set(json.loads(done.stdout.splitlines()[-1]))
