"""One task at a time beside its caller, and nothing that it raises is lost."""

import sys
import threading

import pytest

from yarp.dataset.beside import Beside


def test_tasks_run_one_behind_the_other_in_one_thread():
    beside, ran = Beside(), []
    for number in range(5):
        beside.start(lambda number=number: ran.append((number, threading.get_ident())))
    beside.wait()
    assert [number for number, _ in ran] == list(range(5))
    assert len({thread for _, thread in ran} - {threading.get_ident()}) == 1
    beside.close()


def test_the_caller_goes_on_meanwhile_and_the_next_task_waits():
    beside, may_end, ended = Beside(), threading.Event(), []
    beside.start(lambda: (may_end.wait(10), ended.append(1)))
    assert ended == []
    may_end.set()
    beside.start(lambda: ended.append(2))
    beside.close()
    assert ended == [1, 2]


@pytest.mark.parametrize("then", ["wait", "start"])
def test_what_a_task_raises_is_raised_once_where_it_is_waited_for(then):
    beside, ran = Beside(), []
    beside.start(lambda: {}["nothing"])
    with pytest.raises(KeyError):
        beside.wait() if then == "wait" else beside.start(lambda: ran.append(1))
    beside.wait()
    assert ran == []
    beside.close()


def test_closing_waits_and_says_nothing_of_what_was_raised():
    beside, may_end, ended = Beside(), threading.Event(), []
    beside.start(lambda: (may_end.wait(10), ended.append(1), {}["nothing"]))
    threading.Timer(0.05, may_end.set).start()
    beside.close()
    assert ended == [1]
    beside.close()


def test_the_interpreter_is_handed_over_quickly_until_all_are_closed():
    before = sys.getswitchinterval()
    one, other = Beside(), Beside()
    one.start(lambda: None)
    other.start(lambda: None)
    assert sys.getswitchinterval() < before
    one.close()
    other.close()
    assert sys.getswitchinterval() == before
