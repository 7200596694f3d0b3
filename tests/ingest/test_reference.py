"""docs/reference/ingest.md says what the frames are."""

import os
import re

from yarp.ingest.frames import OPERATIONS

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "reference", "ingest.md")
ROW = re.compile(r"^\| `(\w+)` \|(.*?)\|", re.MULTILINE)
CALL = re.compile(r"`call \{(.*?)\}`")


def test_the_reference_names_every_operation_and_its_fields():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    described = {}
    for operation, fields in ROW.findall(text):
        inner = CALL.search(fields)
        names = set(re.findall(r"`(\w+\??)`", CALL.sub("", fields)))
        described[operation] = (names, set(inner[1].split(", ")) if inner else None)
    coded = {
        operation: (
            {name for name, check in checks.items() if not isinstance(check, dict)},
            next((set(check) for check in checks.values() if isinstance(check, dict)), None),
        )
        for operation, checks in OPERATIONS.items()
    }
    assert described == coded
