"""The text index: current, private, and never the reason that something is not found."""

import os
import pathlib
import subprocess
import sys

import attrs
import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yarp.dataset import database, indexfile, indexing, textindex, wordlist
from yarp.dataset.database import Dataset, SizeLimitReached
from yarp.dataset.ownfiles import index_of
from yarp.dataset.report import verify
from yarp.dataset.search import search
from yarp.errors import StorageError


@pytest.fixture(autouse=True)
def narrows_small_datasets_too(monkeypatch, index_of_any_size):
    monkeypatch.setattr(textindex, "_SMALL_BYTES", 0)


WORDS = st.text(st.sampled_from("aAbé_1 .\n-"), max_size=12)


@pytest.fixture
def calls(result):
    def make(*texts):
        return [
            {"tool": "sh", "input": f"command {number}", "results": [result(text)]}
            for number, text in enumerate(texts)
        ]

    return make


def found(path, needle, **more):
    """How many calls hold the needle: by the index, brought up to date, and by reading all."""
    return found_of_each(path, [needle], **more)[0]


def found_of_each(path, needles, **more):
    counts = []
    with Dataset.read(path) as dataset:
        index = indexing.ready(dataset)
        assert index is not None
        for needle in needles:
            by_index = search(dataset, needle, index, **more)
            by_reading = search(dataset, needle, None, **more)
            assert (by_index.calls, by_index.hits) == (by_reading.calls, by_reading.hits)
            counts.append(by_index.calls)
        index.close()
    return counts


def updated(path):
    with Dataset.read(path) as dataset:
        return textindex.update(dataset)


def test_the_index_is_private_and_says_how_much_it_took(dataset_of, calls):
    path = dataset_of(*calls("one error", "two"))
    done = updated(path)
    assert (done.added, done.dropped) == (4, 0)
    assert done.text_bytes == len("command 0one errorcommand 1two")
    assert os.stat(index_of(path)).st_mode & 0o777 == 0o600
    assert not os.path.exists(index_of(path) + ".wal")


def test_an_index_without_changes_is_left_alone(dataset_of, calls):
    path = dataset_of(*calls("one"))
    updated(path)
    before = os.stat(index_of(path)).st_mtime_ns
    assert updated(path) == textindex.Update()
    assert os.stat(index_of(path)).st_mtime_ns == before


def test_only_what_is_new_is_read_and_what_is_gone_is_dropped(dataset_of, calls):
    path = dataset_of(*calls(*[f"text {n}" for n in range(20)]))
    updated(path)
    assert found(path, "text 1") == 11
    dataset_of(*[{**call, "session": "s2"} for call in calls("another text 1")])
    assert updated(path).added == 2
    with Dataset.write(path) as dataset:
        dataset.connection.execute("DELETE FROM tool_results WHERE output_text = 'text 1'")
    done = updated(path)
    assert (done.added, done.dropped) == (0, 1)
    assert found(path, "text 1") == 11
    assert found(path, "command 1") == 11


def test_an_index_of_which_much_is_gone_is_made_anew(dataset_of, calls):
    path = dataset_of(*calls(*[f"text {n}" for n in range(20)]))
    updated(path)
    with Dataset.write(path) as dataset:
        dataset.connection.execute("DELETE FROM tool_results")
        dataset.connection.execute("DELETE FROM tool_calls WHERE input_text > 'command 2'")
    with Dataset.read(path) as dataset:
        left = dataset.row("SELECT count(*) FROM tool_calls")[0]
    assert updated(path).added == left > 0
    assert found(path, "text") == 0
    with duckdb.connect(index_of(path), read_only=True) as index:
        words = index.execute("SELECT word FROM words ORDER BY word").fetchall()
    assert ("text",) not in words


def test_a_changed_text_under_the_same_key_is_noticed(dataset_of, result):
    call = {"tool": "sh", "input": "first", "key": "k1", "results": [result("out")]}
    path = dataset_of(call)
    assert found(path, "first") == 1
    with Dataset.write(path) as dataset:
        dataset.connection.execute("DELETE FROM tool_calls")
    dataset_of({**call, "input": "second"})
    assert found(path, "first") == 0
    assert found(path, "second") == 1


def test_a_stale_index_is_not_used(dataset_of, calls):
    path = dataset_of(*calls("one error"))
    updated(path)
    dataset_of(*[{**call, "session": "s2"} for call in calls("second error")])
    with Dataset.read(path) as dataset:
        index = textindex.TextIndex.open(path)
        assert not index.is_current(dataset)
        answer = search(dataset, "error", index)
        index.close()
    assert answer.calls == 2
    assert not answer.narrowed


def test_an_index_goes_stale_under_a_dataset_that_is_written(dataset_of, calls):
    path = dataset_of(*calls("one error"))
    updated(path)
    index = textindex.TextIndex.open(path)
    with Dataset.write(path) as dataset:
        assert search(dataset, "error", index).narrowed
        dataset.connection.execute("DELETE FROM tool_results")
        answer = search(dataset, "error", index)
    index.close()
    assert (answer.calls, answer.narrowed) == (0, False)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no database at all" * 1000),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: duckdb.connect(str(path)).execute("UPDATE info SET version = 99").close(),
        lambda path: duckdb.connect(str(path)).execute("DROP TABLE info").close(),
    ],
    ids=["empty", "foreign", "cut", "of another version", "without its tables"],
)
def test_an_index_that_cannot_be_used_is_made_anew(dataset_of, calls, tmp_path, damage):
    path = dataset_of(*calls("one error"))
    updated(path)
    damage(tmp_path / "data" / "calls.duckdb.text")
    assert found(path, "error") == 1


def damage_a_block_of(index, table):
    with duckdb.connect(index, read_only=True) as connection:
        ((block,),) = connection.execute(
            "SELECT max(block_id) FROM pragma_storage_info(?) WHERE segment_type = 'VARCHAR'",
            [table],
        ).fetchall()
    with open(index, "r+b") as file:
        file.seek(3 * 4096 + block * (256 << 10) + 1000)
        file.write(b"damage")


def test_an_import_makes_a_damaged_index_anew(dataset_of, calls, tmp_path):
    path = dataset_of(*calls(*[f"error_{n}" for n in range(50)]))
    assert updated(path).added == 100
    damage_a_block_of(index_of(path), "texts")
    dataset_of(*[{**call, "session": "s2"} for call in calls("second error")])
    assert updated(path).added == 102
    assert found(path, "error") == 51


@pytest.mark.parametrize("hold", [True, False], ids=["to hold it", "to look for a needle"])
def test_an_index_with_damaged_words_hides_nothing_and_is_made_anew(dataset_of, calls, hold):
    path = dataset_of(*calls(" ".join(f"error_{n}_{n * n}" for n in range(100_000)), "no error"))
    updated(path)
    index = index_of(path)
    damage_a_block_of(index, "words")
    with Dataset.read(path) as dataset:
        found = indexing.ready(dataset, hold=hold)
        answer = search(dataset, "error", found)
        assert (answer.calls, answer.narrowed) == (2, hold)
        assert search(dataset, "error", found).calls == 2
        assert os.path.exists(index) is hold
        found.close()
        again = indexing.ready(dataset, hold=hold)
        assert search(dataset, "error", again) == attrs.evolve(answer, narrowed=True)
        again.close()


def test_while_another_process_writes_it_everything_is_read(dataset_of, calls):
    path = dataset_of(*calls("one error"))
    updated(path)
    code = (
        "import duckdb, sys\n"
        f"con = duckdb.connect({index_of(path)!r})\n"
        "print('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"open\n"
        with Dataset.read(path) as dataset:
            assert indexing.current(dataset) is None
            with pytest.raises(StorageError):
                indexing.ready(dataset)
            with pytest.raises(StorageError):
                textindex.update(dataset)
        other.stdin.close()
    with Dataset.read(path) as dataset:
        index = indexing.current(dataset)
        assert search(dataset, "error", index).narrowed
        index.close()
    assert found(path, "error") == 1


def test_a_search_makes_no_index_and_leaves_one_that_is_stale_as_it_is(dataset_of, calls):
    path = dataset_of(*calls("one error"))
    with Dataset.read(path) as dataset:
        assert indexing.current(dataset) is None
    assert not os.path.exists(index_of(path))
    updated(path)
    dataset_of(*[{**call, "session": "s2"} for call in calls("second error")])
    before = os.stat(index_of(path)).st_mtime_ns
    with Dataset.read(path) as dataset:
        assert indexing.current(dataset) is None
    assert os.stat(index_of(path)).st_mtime_ns == before


@pytest.mark.parametrize("suffix", ["", ".wal"], ids=["itself", "its log"])
@pytest.mark.parametrize(
    "put",
    [os.mkdir, os.mkfifo, lambda place: os.symlink(place + ".elsewhere", place)],
    ids=["directory", "pipe", "link"],
)
def test_what_is_no_file_of_ours_is_neither_read_nor_written(dataset_of, calls, put, suffix):
    path = dataset_of(*calls("one error"))
    updated(path)
    place = index_of(path) + suffix
    if suffix:
        open(place, "w").close()
    os.rename(place, f"{place}.elsewhere")  # a current one
    before = pathlib.Path(f"{place}.elsewhere").read_bytes()
    put(place)
    with Dataset.read(path) as dataset:
        assert indexing.current(dataset) is None
        assert verify(dataset)["valid"] is False
        assert verify(dataset)["regular_files"] is False
        with pytest.raises(StorageError, match="no regular file"):
            textindex.update(dataset)
        indexfile.forget(path)
    assert os.path.lexists(place)
    assert pathlib.Path(f"{place}.elsewhere").read_bytes() == before


KILLED_WHILE_IT_IS_MADE = """
import os, sys
from yarp.dataset import textindex
from yarp.dataset.database import Dataset
os.umask(0o022)
textindex._SEGMENT_BYTES = 1
done = iter(range(5))
with Dataset.read(sys.argv[1]) as dataset:
    textindex.update(dataset, lambda _: next(done, None) is None and os._exit(9))
"""


def test_all_that_a_reader_makes_for_it_is_private_from_the_start(dataset_of, calls):
    path = dataset_of(*calls(*[f"an error {n}" for n in range(8)]))
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_IT_IS_MADE, path], check=False)
    assert killed.returncode == 9
    assert os.path.exists(index_of(path) + ".wal")
    modes = {
        os.path.join(place, name): os.stat(os.path.join(place, name)).st_mode & 0o077
        for place, directories, files in os.walk(os.path.dirname(path))
        for name in directories + files
    }
    assert len(modes) > 3
    assert not any(modes.values())
    with Dataset.read(path) as dataset:
        assert verify(dataset)["private_permissions"]


def test_who_made_it_has_the_umask_as_it_was(dataset_of, calls):
    path = dataset_of(*calls("one error"))
    os.umask(0o022)
    with Dataset.read(path) as dataset:
        textindex.update(dataset)
        assert os.umask(0o022) == 0o022
        os.unlink(index_of(path))
        os.mkdir(index_of(path))
        with pytest.raises(StorageError):
            textindex.update(dataset)
    assert os.umask(0o022) == 0o022


INTERRUPTED = """
import os, sys, signal
from yarp.dataset import textindex
from yarp.dataset.database import Dataset
textindex._SEGMENT_BYTES = 1
try:
    with (Dataset.write if sys.argv[2] == "write" else Dataset.read)(sys.argv[1]) as dataset:
        textindex.update(dataset, lambda _: os.kill(os.getpid(), signal.SIGINT))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("how", ["read", "write"])
def test_an_interrupt_leaves_no_trace_of_python_s(dataset_of, calls, how):
    path = dataset_of(*calls(*["an error " * 100_000 + str(n) for n in range(8)]))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, path, how], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_its_log_stays_short(dataset_of, calls, monkeypatch):
    monkeypatch.setattr(textindex, "_SEGMENT_BYTES", 1 << 16)
    monkeypatch.setattr(indexfile, "_CHECKPOINT", "1MB")
    texts = [" ".join(map(str, range(n, n + 9000))) for n in range(0, 450_000, 9000)]
    path = dataset_of(*calls(*texts))
    logs = []

    def note(_):
        log = index_of(path) + ".wal"
        logs.append(os.path.getsize(log) if os.path.exists(log) else 0)

    with Dataset.read(path) as dataset:
        textindex.update(dataset, note)
    assert 0 < max(logs) < 3 << 20 < os.path.getsize(index_of(path))


def test_an_update_that_is_cut_short_is_gone_on_with(dataset_of, calls, monkeypatch):
    path = dataset_of(*calls(*[f"an error {n}" for n in range(8)]))
    monkeypatch.setattr(textindex, "_SEGMENT_BYTES", 1)
    code = (
        "import os, sys\n"
        "from yarp.dataset import textindex\n"
        "from yarp.dataset.database import Dataset\n"
        "textindex._SEGMENT_BYTES = 1\n"
        "done = iter(range(5))\n"
        "with Dataset.read(sys.argv[1]) as dataset:\n"
        "    textindex.update(dataset, lambda _: next(done, None) is None and os._exit(9))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert killed.returncode == 9
    with Dataset.read(path) as dataset:
        index = textindex.TextIndex.open(path)
        assert index is None or not index.is_current(dataset)
        if index is not None:
            index.close()
    assert updated(path).added == 16 - 6
    assert found(path, "error") == 8


def test_there_must_be_room_for_it(dataset_of, calls):
    path = dataset_of(*calls("one error"))
    with Dataset.read(path) as dataset:
        dataset.most_bytes = 1000
        with pytest.raises(SizeLimitReached):
            textindex.update(dataset)
        with pytest.raises(SizeLimitReached):
            indexing.ready(dataset)
    assert found(path, "error") == 1


def test_a_word_too_long_to_list_is_found_by_reading(dataset_of, calls):
    long = "x" * 5000
    path = dataset_of(*calls(f"{long}needle{long}", "y" * 128 + " short", "needle alone"))
    assert found(path, "needle") == 2
    assert found(path, "xneedlex") == 1
    assert found(path, "y" * 128) == 1
    assert found(path, "x" * 200) == 1


def test_what_crosses_words_is_found(dataset_of, calls):
    path = dataset_of(*calls("src/a.py:12: error", "src/a.py", "py 12 error", "a.pyx:12"))
    assert found(path, "a.py:12") == 1
    assert found(path, "py:1") == 1
    assert found(path, "=> {") == 0
    assert found(path, ": ") == 1
    assert found(path, "12: error") == 1
    assert found(path, "ERROR") == 0
    assert found(path, "ERROR", ignore_case=True) == 2


def test_a_text_never_reaches_over_from_one_field_to_the_next(dataset_of, result):
    path = dataset_of({"tool": "sh", "input": "end", "results": [result("start", {"a": "b"})]})
    assert found(path, "end\nstart") == 0
    assert found(path, "start") == found(path, '{"a"') == found(path, "nd") == 1


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(textindex, "_PIECE_CHARACTERS", 300)
    monkeypatch.setattr(textindex, "_SEGMENT_BYTES", 700)


LONG = "".join(f"wörd{n} same-{n % 7}\n" for n in range(400))
ONE_WORD = "é" * 2000 + "needle" + "ö" * 2000


@pytest.mark.usefixtures("small_pieces")
def test_a_long_text_is_listed_piece_by_piece_and_found_as_a_whole(dataset_of, calls):
    path = dataset_of(*calls("short 1", LONG, "short 2", ONE_WORD, "x", LONG[::-1]))
    done = updated(path)
    assert done.added == 12
    with Dataset.read(path) as dataset:
        (size,) = dataset.row(
            "SELECT (SELECT sum(strlen(input_text)) FROM tool_calls)::BIGINT"
            " + (SELECT sum(strlen(output_text)) FROM tool_results)::BIGINT"
        )
    assert done.text_bytes == size
    needles = ["short", "needle", "éneedleö", "x", "same", "drö", "99 same", "command 1"]
    needles += [LONG[at : at + 9] for at in range(0, len(LONG), 97)]
    needles += [f"wörd{n}" for n in range(0, 400, 13)]
    assert min(found_of_each(path, needles)) >= 1
    assert found(path, "wörd400") == 0
    assert found(path, "wörd399") == 1


@pytest.mark.usefixtures("small_pieces")
def test_a_text_is_nobody_s_until_its_last_piece_is_listed(dataset_of, calls):
    path = dataset_of(*calls(LONG))
    code = (
        "import os, sys\n"
        "from yarp.dataset import textindex\n"
        "from yarp.dataset.database import Dataset\n"
        "textindex._PIECE_CHARACTERS, textindex._SEGMENT_BYTES = 300, 700\n"
        "with Dataset.read(sys.argv[1]) as dataset:\n"
        "    textindex.update(dataset, lambda done: done > 2000 and os._exit(9))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert killed.returncode == 9
    dataset_of(*[{**call, "session": "s2"} for call in calls("another one")])
    assert updated(path).added >= 3
    assert found(path, "wörd1") == found(path, "wörd399") == found(path, "another") == 1


@pytest.mark.usefixtures("small_pieces")
def test_words_that_would_take_more_than_their_share_are_not_listed(dataset_of, calls):
    unique = " ".join(os.urandom(8).hex() for _ in range(2000))
    path = dataset_of(*calls(unique, "short"))
    updated(path)
    with duckdb.connect(index_of(path), read_only=True) as index:
        (listed,) = index.execute("SELECT sum(strlen(word)) FROM words").fetchone()
    assert listed * 4 < len(unique)
    assert found(path, unique[5000:5012].strip()) == 1
    assert found(path, "short") == 1


def hexadecimal(count):
    return " ".join(os.urandom(6).hex() for _ in range(count // 13))


def source_code(count):
    line = "    return self._value(name{0}, kind=Kind{1}) or default_{2}\n"
    parts = (line.format(n % 9973, n % 401, n % 77) for n in range(count // 40))
    return "".join(parts)[:count]


def any_characters(count):
    whole = os.urandom(2 * count).decode("utf-16-le", "replace")
    return whole.replace("\0", " ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda: source_code(40 << 20), id="of 40 MiB"),
        pytest.param(lambda: source_code(40 << 20).replace("\n", " "), id="of one line"),
        pytest.param(lambda: any_characters(14 << 20), id="of any characters"),
        pytest.param(lambda: hexadecimal(40 << 20), id="of words that occur once"),
        pytest.param(lambda: "a" * (40 << 20), id="of one word"),
        pytest.param(lambda: source_code(200 << 20), id="of 200 MiB"),
    ],
)
def test_one_huge_text_is_indexed(dataset_of, calls, text, monkeypatch):
    monkeypatch.setattr(database, "_MEMORY_BYTES", 2 << 30)  # the fixture asks for no room
    text = text()
    path = dataset_of(*calls(text, "short"))
    updated(path)
    assert os.path.getsize(index_of(path)) * 4 < len(text.encode())
    for at in range(0, len(text) - 20, len(text) // 5):
        assert found(path, text[at : at + 12], lines=0) >= 1
    assert found(path, "short") == 1


@settings(suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(WORDS, min_size=1, max_size=6),
    needle=WORDS.filter(bool),
    ignore_case=st.booleans(),
    held=st.sampled_from([None, 0, 1, 1 << 10]),
)
@pytest.mark.parametrize(("piece", "segment"), [(3, 5), (1 << 20, 4 << 20)])
def test_the_index_finds_what_reading_everything_finds(
    texts, needle, ignore_case, held, piece, segment, monkeypatch
):
    monkeypatch.setattr(textindex, "_PIECE_CHARACTERS", piece)
    monkeypatch.setattr(textindex, "_SEGMENT_BYTES", segment)
    index = duckdb.connect()
    index.execute(indexfile.SCHEMA)
    identified = [(b"%d" % at, str(at), text) for at, text in enumerate(texts)]
    textindex.Growing(Dataset("", index, None), index).add(identified)
    found = textindex.TextIndex(index, "")
    if held is not None:
        monkeypatch.setattr(wordlist, "_NEXT_WORDS", 2)
        monkeypatch.setattr(wordlist, "_MANY_PLACES", held)
        assert found.hold()
    narrowed = found.narrow(needle, ignore_case=ignore_case)
    index.close()
    if narrowed is None:
        return
    fold = str.lower if ignore_case else str
    holding = {str(at) for at, text in enumerate(texts) if fold(needle) in fold(text)}
    certain = set(narrowed.certain["call_key"].to_pylist())
    unsure = set(narrowed.unsure["call_key"].to_pylist())
    assert certain <= holding <= certain | unsure
