"""The outputs of `outputs` through gptme's own shell tool; its Python runs this, and answers JSON.

    python gptme_outputs.py table FOLDER [yarp]    a line for each output, then one for the job
    python gptme_outputs.py tasks FOLDER [yarp]    a line for each output that is looked into

With `yarp`, the plugin of this checkout is switched on inside gptme.
"""

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path

import outputs

# Without it a count of tokens tries a download.
os.environ["GPTME_TIKTOKEN_TIMEOUT"] = "0"
for variable in [name for name in os.environ if name.startswith("GPTME_SHELL_")]:
    del os.environ[variable]  # gptme's own budgets are compared
KEPT = (".txt", ".log", ".stdout", ".stderr")


def kept(folder):
    """The files with output that are in a conversation, and what is in them."""
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in KEPT)
    return {str(path): path.read_bytes().decode() for path in paths if path.stat().st_size}


def shown(output, folder):
    """What the shell tool answers to a command that prints the output and ends like it."""
    from gptme.tools import shell

    (folder / "out").write_bytes(output.stdout.encode())
    (folder / "err").write_bytes(output.stderr.encode())
    (folder / "run").write_text(f"cat out; cat err >&2; exit {output.exit_code}\n")
    conversation = folder / "conversation"
    conversation.mkdir(0o700)
    list(shell.execute_shell_impl(f"cd {folder}", conversation, None))
    began = time.perf_counter()
    inline = "".join(
        message.content for message in shell.execute_shell_impl("sh run", conversation, None)
    )
    seconds = time.perf_counter() - began
    saved = kept(conversation)
    return {
        "name": output.name,
        "inline": inline,
        "saved_bytes": sum(len(text.encode()) for text in saved.values()),
        "saved": [*saved],
        "missing": [
            needle
            for needle in output.needles
            if not any(needle.rstrip("\n") in text for text in [inline, *saved.values()])
        ],
        "ms": seconds * 1000,
    }


def background(folder):
    from gptme.tools import shell_background as jobs

    (folder / "job.py").write_text(outputs.JOB)
    conversation = folder / "conversation"
    conversation.mkdir(0o700)
    jobs._current_log_dir = lambda: conversation  # noqa: SLF001 - as in a conversation
    began = time.perf_counter()
    job = jobs.start_background_job(f"{sys.executable} {folder / 'job.py'}")
    launched = any("captures" in str(path) for path in conversation.rglob("*"))
    job._reader_thread.join(60)  # noqa: SLF001 - its end is told nowhere else
    seconds = time.perf_counter() - began
    out, err = job.get_output()
    inline = jobs.format_job_output(job, out, err)
    saved = kept(conversation)
    captured = [text for path, text in saved.items() if path.endswith(".stdout")]
    log = captured[0] if captured else "".join(saved.values())
    return {
        "name": "background",
        "exit_code": job.process.poll(),
        "inline": inline,
        "saved_bytes": len(log.encode()),
        "path_at_launch": launched,
        "begin": "BEGIN-MARKER" in log,
        "end": "END-MARKER" in log,
        "ms": seconds * 1000,
    }


def main(what, work, *more):
    answer = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):  # gptme prints to its user
        if more:
            from yarp_gptme import inside

            offers = inside.activate({"archive": False}).offers
            assert set(offers.values()) == {None}, offers
        if what == "tasks":
            told = [(task.name, task.output) for task in outputs.tasks()]
        else:
            told = [(output.name, output) for output in outputs.table()]
        for number, (name, output) in enumerate(told):
            folder = Path(work) / str(number)
            folder.mkdir(0o700)
            print(json.dumps({**shown(output, folder), "name": name}), file=answer)
        if what == "table":
            print(json.dumps(background(Path(work))), file=answer)
    answer.flush()
    os._exit(0)  # the shell of the conversation is left as it is


if __name__ == "__main__":
    main(*sys.argv[1:])
