"""docs/how-to/write-a-rule.md, pasted into a shell block by block, in a home of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-rule.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_how_to_works_as_written(tmp_path):
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) > 10
    env = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }
    output = ""
    for kind, text in blocks:
        if kind == "text":
            missing = [line for line in text.splitlines() if line not in output]
            assert missing == [], output
            continue
        done = subprocess.run(
            ["sh", "-e", "-c", text],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, (text, output)
