import json
import os
import random

import pytest

from yarp.errors import FrameError
from yarp.ingest.frames import MAX_FRAME_BYTES, OPERATIONS, parse, read_frames

SESSION = {"agent": "acme", "account": "someone", "sourceSessionId": "s1"}


def envelope(operation, **fields):
    return {
        "operation": operation,
        "requestId": 1,
        "schemaVersion": 1,
        "session": SESSION,
        **fields,
    }


def begin(**changes):
    call = {
        "sourceCallId": "c1",
        "toolName": "sh",
        "startedAtMs": 5,
        "requiresStreams": False,
    }
    fields = {"call": call, "inputBefore": {}, "inputAfter": {}, "capturedAtMs": 6}
    return envelope("begin_call", **{**fields, **changes})


def through_a_pipe(data):
    reader, writer = os.pipe()
    try:
        if os.fork() == 0:
            os.write(writer, data)
            os._exit(0)
        os.close(writer)
        return [bytes(frame) for frame in read_frames(reader)]
    finally:
        os.close(reader)
        os.wait()


def test_frames_come_out_as_they_went_in_and_the_end_between_two_is_the_end():
    bodies = [b"{}", b"x" * 70_000]
    data = b"".join(len(body).to_bytes(8, "big") + body for body in bodies)
    assert through_a_pipe(data) == bodies
    assert through_a_pipe(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 8,
        (MAX_FRAME_BYTES + 1).to_bytes(8, "big"),
        b"\xff" * 8,
        b"\0\0\0",
        (10).to_bytes(8, "big"),
        (10).to_bytes(8, "big") + b"123456789",
    ],
    ids=["zero", "one too large", "huge", "half a length", "no body", "half a body"],
)
def test_a_broken_length_or_a_cut_frame_is_an_error(data):
    with pytest.raises(FrameError):
        through_a_pipe(data)


def test_a_whole_begin_is_understood_and_absent_optional_fields_are_none():
    request = parse(json.dumps(begin()).encode())
    assert request.operation == "begin_call"
    assert request.session["startedAtMs"] is None
    assert request.fields["call"]["provider"] is None
    assert request.fields["inputBefore"].canonical() == b"{}"


def test_null_counts_as_absent_only_where_a_field_may_be_absent():
    frame = begin()
    frame["call"]["provider"] = None
    assert parse(json.dumps(frame).encode()).fields["call"]["provider"] is None
    frame["call"]["toolName"] = None
    with pytest.raises(FrameError):
        parse(json.dumps(frame).encode())


def test_null_is_a_value_where_any_json_is_wanted():
    assert parse(json.dumps(begin(inputBefore=None)).encode()).fields["inputBefore"].value is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{",
        '{"operation":"begin_call"',
        '{"operation":"begin_call",}',
        '{"operation":"begin_call"}x',
        '{"operation":"erase"}',
        '{"operation":3}',
        "\ufeff{}",
    ],
)
def test_what_is_not_one_known_operation_is_an_error(text):
    with pytest.raises(FrameError):
        parse(text.encode())


@pytest.mark.parametrize("raw", [b"\xff", b'{"operation":"\xff"}'])
def test_bytes_that_are_not_utf_8_are_an_error(raw):
    with pytest.raises(FrameError):
        parse(raw)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_refuses_an_unknown_key(operation):
    with pytest.raises(FrameError):
        parse(json.dumps(envelope(operation, colour="red")).encode())


@pytest.mark.parametrize("value", [True, -1, 2**64, 1.0, "1", None, []])
def test_a_request_id_is_an_unsigned_64_bit_integer(value):
    with pytest.raises(FrameError):
        parse(json.dumps({**begin(), "requestId": value}).encode())


@pytest.mark.parametrize("value", [2**63, -1, 0.5, "now"])
def test_a_time_is_milliseconds_that_a_column_can_hold(value):
    with pytest.raises(FrameError):
        parse(json.dumps(begin(capturedAtMs=value)).encode())


def test_an_identifier_that_utf_8_cannot_hold_is_an_error():
    frame = begin()
    frame["call"]["sourceCallId"] = "\ud800"
    with pytest.raises(FrameError):
        parse(json.dumps(frame).encode())


@pytest.mark.parametrize(
    ("text", "archived"),
    [
        ('{"n":12345678901234567890}', b'{"yarpRawJson":"{\\"n\\":12345678901234567890}"}'),
        ('{"n":1234567890123456789}', b'{"yarpRawJson":"{\\"n\\":1234567890123456789}"}'),
        ('"\\ud800"', b'{"yarpRawJson":"\\"\\\\ud800\\""}'),
        ('{"a":1,"a":2}', b'{"yarpRawJson":"{\\"a\\":1,\\"a\\":2}"}'),
        ('{"n":NaN}', b'{"yarpRawJson":"{\\"n\\":NaN}"}'),
        ('{"b":1.0,"a":"\\u00e9"}', b'{"a":"\xc3\xa9","b":1}'),
        ('{"n":9007199254740992}', b'{"n":9007199254740992}'),
    ],
)
def test_what_canonical_json_cannot_hold_is_kept_as_the_hosts_own_text(text, archived):
    frame = json.dumps(begin()).replace('"inputBefore": {}', '"inputBefore": ' + text)
    assert parse(frame.encode()).fields["inputBefore"].canonical() == archived


def mutations(seed, count):
    """Frames that are wrong in one place or two: cut, doubled, of other types, with other keys."""
    chance = random.Random(seed)
    odd = [None, True, -1, 2**70, 1.5, "", "x" * 50, "\ud800", [], [[]], {}, {"a": 1}]
    for _ in range(count):
        frame = begin()
        for _ in range(chance.randint(1, 2)):
            target = chance.choice([frame, frame["call"], frame["session"]])
            if not isinstance(target, dict):
                continue
            kind = chance.random()
            if kind < 0.4 and target:
                target[chance.choice(list(target))] = chance.choice(odd)
            elif kind < 0.6:
                target[chance.choice(["colour", "Operation", ""])] = chance.choice(odd)
            elif kind < 0.8 and target:
                target.pop(chance.choice(list(target)))
            frame.setdefault("call", {})
            frame.setdefault("session", {})
        text = json.dumps(frame)
        kind = chance.random()
        if kind < 0.2:
            text = text[: chance.randrange(len(text))]
        elif kind < 0.3:
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice('{}[]",:x0\\') + text[at + 1 :]
        yield text.encode()


def test_a_fuzzed_frame_is_a_request_or_a_frame_error_and_nothing_else():
    outcomes = set()
    for frame in mutations(1, 3000):
        try:
            outcomes.add(type(parse(frame)).__name__)
        except FrameError:
            outcomes.add("FrameError")
    assert outcomes == {"Request", "FrameError"}
