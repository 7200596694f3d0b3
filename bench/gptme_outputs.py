"""The outputs of `outputs` through gptme's own code; its Python runs this and reads JSON lines.

python gptme_outputs.py      a line for each output, then one for the background job
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import outputs

# Without the first one a count of tokens tries a download; the others are gptme's defaults.
os.environ.update(
    GPTME_TIKTOKEN_TIMEOUT="0",
    GPTME_SHELL_TRUNC_PRE_TOKENS="2000",
    GPTME_SHELL_TRUNC_POST_TOKENS="8000",
    GPTME_SHELL_TRUNC_STDERR_PRE_TOKENS="2000",
    GPTME_SHELL_TRUNC_STDERR_POST_TOKENS="2000",
)


def formatted(output, folder):
    from gptme.tools.shell import _format_shell_output

    began = time.perf_counter()
    inline = _format_shell_output(
        output.command, output.stdout, output.stderr, output.exit_code, False, False, logdir=folder
    )
    seconds = time.perf_counter() - began
    saved = {str(path): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}
    texts = [text for path, text in saved.items() if path.endswith(".txt")]
    return {
        "name": output.name,
        "inline": inline,
        "saved_bytes": sum(len(text.encode()) for text in texts),
        "saved": [path for path in saved if path.endswith(".txt")],
        "missing": [
            needle
            for needle in output.needles
            if not any(needle.rstrip("\n") in text for text in [inline, *texts])
        ],
        "ms": seconds * 1000,
    }


def background(folder):
    from gptme.tools import shell_background

    script = folder / "job.py"
    script.write_text(outputs.JOB)
    began = time.perf_counter()
    job = shell_background.start_background_job(f"{sys.executable} {script}")
    before = bool(getattr(job, "log_path", None))
    job.log_dir = folder
    job._reader_thread.join(60)  # noqa: SLF001 - its end is told nowhere else
    seconds = time.perf_counter() - began
    out, err = job.get_output()
    inline = shell_background.format_job_output(job, out, err)
    log = Path(job.log_path).read_text() if job.log_path else ""
    return {
        "name": "background",
        "exit_code": job.process.poll(),
        "retained": len(out),
        "inline": inline,
        "saved_bytes": len(log.encode()),
        "path_at_launch": before,
        "begin": "BEGIN-MARKER" in log,
        "end": "END-MARKER" in log,
        "ms": seconds * 1000,
    }


def main(what, work):
    answer = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # gptme prints to its user
        if what == "tasks":
            shown = [(task.name, task.output) for task in outputs.tasks()]
        else:
            shown = [(output.name, output) for output in outputs.table()]
        for number, (name, output) in enumerate(shown):
            folder = Path(work) / str(number)
            folder.mkdir()
            print(json.dumps({**formatted(output, folder), "name": name}), file=answer)
        if what == "table":
            print(json.dumps(background(Path(work))), file=answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
