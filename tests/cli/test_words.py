import pytest

from yarp.cli.words import Options, canonical_number
from yarp.errors import UsageError

VALUES = {"-m": "most", "--most": "most", "-e": "pattern"}
SWITCHES = {"-i": "fold", "--fold": "fold", "-v": "invert"}


def parse(*words):
    options = Options("look", list(words), VALUES, SWITCHES)
    return options.positional, options.values, options.switches


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("a", "-", "b"), (["a", "-", "b"], {}, set())),
        (("-m", "3", "-m3", "--most=3", "--most", "3"), ([], {"most": ["3"] * 4}, set())),
        (("-iv", "--fold"), ([], {}, {"fold", "invert"})),
        (("-ie", "x"), ([], {"pattern": ["x"]}, {"fold"})),
        (("-vex",), ([], {"pattern": ["x"]}, {"invert"})),
        (("-e", "-i", "--", "-v", "--"), (["-v", "--"], {"pattern": ["-i"]}, set())),
        (("--most=", "-e", ""), ([], {"most": [""], "pattern": [""]}, set())),
    ],
)
def test_words_are_read_the_usual_ways(words, found):
    assert parse(*words) == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-x",), "unknown option -x"),
        (("-ix",), "unknown option -x"),
        (("--mos", "3"), "unknown option --mos"),
        (("--fold=1",), "unknown option --fold=1"),
        (("-m",), "-m needs a value"),
        (("---",), "unknown option ---"),
    ],
)
def test_a_wrong_word_is_named(words, message):
    with pytest.raises(UsageError) as caught:
        parse(*words)
    assert str(caught.value) == f"{message}; see: yarp look --help"


def test_a_value_is_one_and_a_number_is_in_range():
    options = Options("look", ["-m5", "--most=5", "-ea", "-eb"], VALUES, SWITCHES)
    assert options.number("most", 1, 5) == 5
    assert options.number("fold", 1, 5) is None
    with pytest.raises(UsageError, match="-m/--most takes 6 to 7"):
        options.number("most", 6, 7)
    with pytest.raises(UsageError, match="-e is given twice with different values"):
        options.value("pattern")


def test_numbers_are_canonical_digits():
    good = {"0": 0, "7": 7, "1900": 1900, "9" * 15: 10**15 - 1}
    assert {text: canonical_number(text) for text in good} == good
    for text in ("", "00", "07", "+1", "-1", "1.0", " 1", "1_0", "\N{SUPERSCRIPT TWO}", "9" * 16):
        assert canonical_number(text) is None
