from __future__ import annotations

import shutil
import subprocess

import pytest

from yarp import cache, capture
from yarp.reduce import plan as plans

SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh") if shutil.which(shell)]


def judged(text):
    compiled = cache.load()
    planned = plans.plan(text, compiled.rules)
    return capture.rewrite(
        text, planned, compiled.settings, ("echo",), "/bin/sh", call=None, judged=True
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "text",
    ["git status", "cd /tmp && git status", "git status\ntouch ran", 'git log -n 1 --grep="it\'s"'],
)
def test_a_text_that_is_judged_by_its_words_names_them_and_runs_once(
    yarp_home, tmp_path, shell, text
):
    wrapped = judged(text)
    assert wrapped.endswith("\n" + text)
    done = subprocess.run(
        [shell, "-lc", wrapped], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"run --shell-program /bin/sh --shell {text}\n"
    assert list(tmp_path.glob("ran")) == []


def test_a_text_judged_by_its_words_that_cannot_be_started_does_not_run_the_original(
    yarp_home, tmp_path
):
    text = "git status\ntouch ran"
    wrapped = judged(text).replace("echo", "/no/such/yarp", 1)
    done = subprocess.run(["bash", "-lc", wrapped], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 127
    assert list(tmp_path.glob("ran")) == []
