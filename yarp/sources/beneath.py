r"""Places below a root: opened without following a link, and shown as text.

Source: seed 003, "Stable reads".
"""

from __future__ import annotations

import os
import re

_LIKE_AN_ESCAPE = re.compile(r"\\x[0-9a-f]{2}")


def shown(path: str) -> str:
    r"""A path as the dataset keeps it: itself, or bytes that are no UTF-8 as escapes (`\xff`).

    No two paths look the same: where there are escapes, or what reads like one, each backslash
    of the path itself is written twice.
    """
    data = os.fsencode(path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\") if _LIKE_AN_ESCAPE.search(text) else text
