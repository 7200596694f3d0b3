"""Whole processes: in a home of their own, with their seconds and their peak memory."""

import os
import statistics
import subprocess
import sys


def home(work):
    """An environment in which nothing of the user's is read or written."""
    names = {"HOME": "home", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"}
    environment = {
        **os.environ,
        **{variable: os.path.join(work, name) for variable, name in names.items()},
        "XDG_CONFIG_HOME": os.path.join(work, "config"),
    }
    # Without it every start would compile what changed since the last one.
    for variable in ("PYTHONDONTWRITEBYTECODE", "YARP_ARCHIVE", "YARP_PLUGINS", "PYTHONPATH"):
        environment.pop(variable, None)
    return environment


# A process's peak counts what the one that started it had, so a small one starts it.
_STARTER = """
import os, sys, time
out, source, *command = sys.argv[1:]
actions = [
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
]
began = time.perf_counter()
if source:
    reading, writing = os.pipe()
    give = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    os.posix_spawnp("cat", ["cat", source], os.environ, file_actions=give)
    os.close(writing)
    actions.append((os.POSIX_SPAWN_DUP2, reading, 0))
pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
if source:
    os.close(reading)
_, ended, used = os.wait4(pid, 0)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(ended))
"""


class Run:
    """A finished command: wall seconds, its processor time, its peak memory in MiB."""

    def __init__(self, seconds, cpu_seconds, peak_mib):
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds
        self.peak_mib = peak_mib


def timed(command, environment, *, source="", out=os.devnull, status=0):
    """Run a command that must end with `status`; a `Run`.

    `source` is a file that comes through a pipe on its stdin; its stdout goes to the file `out`.
    """
    starter = [sys.executable, "-I", "-S", "-c", _STARTER, out, source, *command]
    done = subprocess.run(starter, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode != status:
        raise OSError(f"{command[0]} ended with {done.returncode}")
    return Run(*map(float, done.stdout.split()))


def said(runs, megabytes):
    """What several runs over a stream of so many MB came to."""
    rates = [megabytes / run.seconds for run in runs]
    cpu = statistics.median(run.cpu_seconds for run in runs)
    return f"{statistics.median(rates):.0f} MB/s ({cpu:.2f} s of processor time)"
