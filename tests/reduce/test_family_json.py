import json

import pytest

from yarp.reduce.engine import Reduction, Status
from yarp.reduce.marker import Recovery
from yarp.reduce.rules.match import Selection
from yarp.settings import Settings

REFERENCE = "yr_" + "0" * 32


def summarise(data, *command, chunk_bytes=1 << 20, family="json"):
    data = data if isinstance(data, bytes) else data.encode()
    options = {"max_line_bytes": 1 << 20}
    reduction = Reduction(Selection("test", "x", family, options, command or ("curl",)), Settings())
    for start in range(0, len(data), chunk_bytes):
        reduction.feed(0, data[start : start + chunk_bytes])
    summary = reduction.finish(Status(0), Recovery(REFERENCE))
    return summary.stdout.decode() if summary.changed else None


def orders(count, **odd):
    items = [
        {"id": n, "status": "paid", "total": n * 1.5, "by": {"name": f"n{n}"}} for n in range(count)
    ]
    items[count // 2].update(odd)
    return {"page": 1, "next": None, "items": items}


def test_shape_states_and_both_ends_are_told_and_the_odd_element_whole():
    text = summarise(json.dumps(orders(300, status="failed", error="card declined")))
    assert ".items: array of 300 objects; keys id, status, total, by{name}, error (in 1)" in text
    assert '.items[].status: "paid" 299, "failed" 1' in text
    assert '.items[150]: {"id":150,"status":"failed"' in text
    assert '.items[0]: {"id":0,' in text
    assert '.items[299]: {"id":299,' in text
    assert ".next: null" in text


def test_numbers_keep_the_digits_they_were_written_with():
    document = '{"big":123456789012345678901234567890,"tiny":1e-7,"one":1.0,"list":[%s]}'
    text = summarise(document % ",".join(f'{{"value":{n}.50}}' for n in range(900)))
    assert ".big: 123456789012345678901234567890" in text
    assert ".tiny: 1e-7" in text
    assert ".one: 1.0" in text
    assert '{"value":0.50}' in text


def test_small_json_stays_exact():
    assert summarise(json.dumps(orders(30))[:3000]) is None
    assert summarise(json.dumps(orders(40))) is None


def test_one_long_line_is_shown_by_its_shape_in_bytes():
    text = summarise(json.dumps(orders(500)))
    assert "[yarp: " in text
    assert "bytes omitted" in text


def test_an_error_deep_inside_is_told_with_its_place():
    deep = {
        "a": {"b": {"c": {"d": {"lastError": "disk full on node-7"}}}},
        "pad": list(range(3000)),
    }
    assert '"lastError":"disk full on node-7"' in summarise(json.dumps(deep, indent=1))


def test_a_document_cut_off_is_described_as_far_as_it_goes():
    text = summarise(json.dumps(orders(300), indent=1)[:-100])
    assert "what follows describes its first" in text
    assert ".page: 1" in text


def test_a_document_of_many_megabytes_keeps_the_trouble_in_its_middle():
    pad = "x" * 90
    items = ",\n".join(f'{{"id": {n}, "text": "{pad}"}}' for n in range(60_000))
    text = summarise(
        "[\n" + items.replace('"id": 50000,', '"error": "lost row 50000",', 1) + "\n]\n"
    )
    assert "lost row 50000" in text


def test_a_key_given_twice_is_told():
    pad = ",".join(f'"k{n}":"{n * 7}"' for n in range(900))
    assert "some keys occur twice" in summarise('{"a":1,"a":2,' + pad + "}")


def test_json_lines_are_read_line_by_line():
    lines = [json.dumps({"n": n, "level": "info", "msg": "done"}) for n in range(200)]
    lines[77] = json.dumps({"n": 77, "level": "error", "msg": "no space left"})
    text = summarise("\n".join(lines) + "\n")
    assert "error 1, info 199" in text
    assert "JSON lines; keys: n, level, msg" in text
    assert "no space left" in text


@pytest.mark.parametrize(
    "data", [b"[not json " * 900, b"<html>" * 900, b'{"a": ' * 3000, b"[" * 90_000]
)
def test_what_is_no_json_stays_exact(data):
    assert summarise(data) is None


def test_a_lone_surrogate_keeps_its_escape():
    text = summarise('{"a":"\\ud800","pad":' + json.dumps(list(range(3000))) + "}")
    assert '.a: "\\ud800"' in text


def test_json_shown_by_cat_is_read_as_json_and_a_bracketed_log_as_a_log():
    assert "array of 300 objects" in summarise(
        json.dumps(orders(300)), "cat", "x.json", family="log"
    )
    log = "".join(f"[2026-11-29 10:00:{n % 60:02d}] INFO done {n}\n" for n in range(200))
    assert "info 200" in summarise(log, "cat", "x.log", family="log")


@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_how_the_bytes_arrive_does_not_show(chunk_bytes):
    data = json.dumps(orders(90, error="é 変"), ensure_ascii=False, indent=2)
    assert summarise(data, chunk_bytes=chunk_bytes) == summarise(data)


def test_a_line_of_many_megabytes_tells_its_length_and_the_trouble_at_its_end():
    pad = "x" * 90
    items = ",".join(f'{{"id": {n}, "text": "{pad}"}}' for n in range(30_000))
    data = '{"items": [' + items + '], "error": "lost row QX-7"}'
    text = summarise(data)
    assert text.startswith(f"JSON, {len(data)} bytes: object of 1 key; what follows")
    assert "lost row QX-7" in text
