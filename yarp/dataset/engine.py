"""DuckDB without the Python around it, which takes four times as long to import.

It connects, executes and fetches. Arrow tables and relations need all of the package, which adds
to the same classes: who uses those imports `duckdb`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:  # its name is DuckDB's own affair
        import duckdb

__all__ = ["duckdb"]
