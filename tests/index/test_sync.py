from __future__ import annotations

import orjson


def test_a_conversation_is_published_in_its_order(index, conversation):
    index.write("a.jsonl", *conversation)
    report = index.sync().plain()
    assert (report["indexed_files"], report["indexed_records"]) == (1, len(conversation))
    items = index.items("loop_id IS NOT NULL")
    assert [(role, text) for _, role, text, _ in items] == [
        ("human.request", "Find the needle in the haystack"),
        ("agent.reasoning", "hm"),
        ("agent.tool_call.shell", None),
        ("tool.output", "hay/needle"),
        ("human.steering", "also look in the barn"),
        ("agent.commentary", "Looking there"),
        ("agent.delegation", "Search the barn"),
        ("subagent.report", "Nothing here"),
        ("runtime.notice", "Be quick"),
        ("runtime.compaction_summary", "We look for a needle"),
        ("agent.final_answer", "It is in the hay"),
    ]
    (session,) = index.all("SELECT * FROM sessions")
    assert (session["native_id"], session["name"]) == ("s1", "A session")
    (loop,) = index.all("SELECT * FROM loops")
    assert orjson.loads(loop["usage"]) == {
        "input": 100, "cached": 80, "output": 7, "reasoning": 2,
    }  # fmt: skip
    assert orjson.loads(loop["model"]) == {"id": "m-1", "effort": "high", "context_window": 200_000}
    assert orjson.loads(loop["end"])["outcome"] == "completed"
    assert items[3][3]["call_item_id"] == items[2][0]
