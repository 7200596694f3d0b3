"""Where tasks are counted: processes that end when they should, however this one ends."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from yarp.census.executors import Processes
from yarp.errors import UsageError, YarpError

# With a second thread, processes are not copies of this one.
THREADED = "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
SCRIPT = """import os, signal, sys, threading, time
from yarp.census.executors import Processes
from yarp.errors import YarpError

def told(task):
    os.write(2, f'{{os.getpid()}}\\n'.encode())
    time.sleep(task)

def spoilt(task):
    raise ValueError('planted content')

if __name__ == '__main__':
    {before}
    try:
        print(list(Processes(2).run({function}, {tasks})))
    except YarpError as error:
        sys.exit(f'told: {{error}}')
"""


@pytest.fixture(params=["", THREADED], ids=["copied", "new"])
def script(request, tmp_path):
    """Starts a script that runs a function on tasks, in a session of its own."""
    started = []

    def start(function, tasks):
        path = tmp_path / "script.py"
        path.write_text(SCRIPT.format(before=request.param, function=function, tasks=tasks))
        process = subprocess.Popen(
            [sys.executable, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids):
    """Whether all these processes end soon."""
    end = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, pids))


def pids_of(process):
    return [int(process.stderr.readline()) for _ in range(2)]


def test_every_task_is_done_once(script):
    process = script("abs", list(range(-100, 0)))
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert sorted(eval(out)) == list(range(1, 101))


def test_a_copy_is_made_only_of_a_process_without_threads(monkeypatch):
    made = []
    context = __import__("multiprocessing").get_context
    monkeypatch.setattr("multiprocessing.get_context", lambda how: made.append(how) or context(how))
    assert sorted(Processes(2).run(abs, [-1, -2, -3])) == [1, 2, 3]
    waits = threading.Event()
    thread = threading.Thread(target=waits.wait)
    thread.start()
    assert sorted(Processes(2).run(abs, [-1, -2, -3])) == [1, 2, 3]
    waits.set()
    thread.join()
    assert made[-1] == "spawn"
    assert made[0] == ("fork" if len(os.listdir("/proc/self/task")) == 1 else "spawn")


def test_a_process_that_dies_is_told(script):
    process = script("os._exit", [3, 3, 3])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err == "told: a process of the census ended before its time\n"


def test_the_words_of_a_fault_are_not_told(script):
    process = script("spoilt", [3, 3, 3])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err == "told: a task of the census failed: ValueError\n"


def test_an_interrupt_ends_all_at_once(script):
    process = script("told", [1000, 1000, 1000])
    pids = pids_of(process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert err.count("KeyboardInterrupt") == 1  # of the one that was started by hand
    assert gone(pids)


def interrupted(process):
    """As a person does it: once more where Python loses the first, within a callback of its own."""
    for left in (1, 0):
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.communicate(timeout=15)  # none that is left holds its streams open
        except subprocess.TimeoutExpired:
            if not left:
                raise
        else:
            return


def test_an_interrupt_while_processes_start_ends_all(script):
    """It may come at any moment of it."""
    for milliseconds in range(40, 200, 20):
        process = script("told", [1000, 1000, 1000])
        time.sleep(milliseconds / 1000)
        interrupted(process)
        assert process.returncode


def test_processes_end_when_the_one_that_started_them_is_killed(script):
    process = script("told", [0.5, 0.5, 0.5, 0.5])
    pids = pids_of(process)
    process.kill()
    assert gone(pids)


def test_ray_that_is_not_installed_is_told(monkeypatch):
    from yarp.census.executors import Ray

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'yarp-core\[ray\]'"):
        Ray()


def test_an_error_of_ours_is_told_as_it_is():
    with pytest.raises(YarpError, match="no such dataset"):
        list(Processes(2).run(_missing, [1, 2]))


def _missing(_task):
    raise YarpError("no such dataset")
