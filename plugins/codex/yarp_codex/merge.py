"""What the records of one call say together: its results, and which record says which.

Outputs that the model was given are canonical. Equal ones are one result, unequal ones stay
apart. What Codex tells beside them fills in what they do not say: an error, and structured
fields. A text that the result has already is not kept a second time; what contradicts stays
under `source_projections`. Source: seed 003, "Implementation status"; spec "Dataset", Formats.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yarp.plugin import parse_json
from yarp_codex.happened import Happened
from yarp_codex.native import exit_code
from yarp_codex.records import Call, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

# The tools whose output Codex begins with how the command ended.
ENVELOPED = frozenset(
    {
        *("exec_command", "write_stdin", "shell", "shell_command", "local_shell", "apply_patch"),
        "container.exec",
    }
)
# The fields of a projection that are kept, by what it tells of.
_FIELDS = {
    "command": ("status", "exit_code", "duration", "aggregated_output", "stdout", "stderr"),
    "patch": ("status", "success", "changes", "stdout", "stderr"),
    "mcp": ("status", "result", "error", "duration"),
    "search": ("query", "action"),
    "image": ("path",),
    "drawing": ("status", "result", "saved_path", "revised_prompt"),
    "dynamic": ("status", "success", "content_items", "error", "duration"),
    "agents": ("status", "receiver_thread_ids", "receiver_agents", "agents_states"),
}
# Those of them that may be all that is known of the input.
_GIVEN = ("changes", "path", "revised_prompt")
# What Codex puts where it cut a text out of the middle.
_CUT = re.compile(
    r"…\d+ (?:chars|tokens) truncated…|\n+\.\.\. command output truncated for persistence \.\.\.\n+"
)
_TEXTS = frozenset({"aggregated_output", "stdout", "stderr", "output", "text"})
_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text", "inputText"})


class Answer:
    """One result of a call, as several records say it together."""

    __slots__ = ("fields", "is_error", "returned_at_ms", "said_by", "text")

    def __init__(self, text: str | None, fields: Any, is_error: bool | None) -> None:
        self.text = text
        self.fields = fields
        self.is_error = is_error
        self.returned_at_ms: int | None = None
        self.said_by: list[Output | Happened | Call] = []

    def says(self, other: Answer) -> bool:
        """Whether the other one says the same."""
        return (self.text, self.fields, self.is_error) == (
            other.text,
            other.fields,
            other.is_error,
        )


def merged(
    said: Sequence[Output | Happened | Call], tool_name: str | None, given: object = None
) -> list[Answer]:
    """The results that these records of one call, in order, amount to.

    `given` is the call's input, as JSON, which a result does not repeat.
    """
    answers: list[Answer] = []
    beside = []
    for record in said:
        if isinstance(record, Happened):
            beside.append(record)
            continue
        answer = canonical(record, tool_name)
        same = next((known for known in answers if known.says(answer)), None)
        if same is None:
            answer.returned_at_ms = record.at_ms
            answers.append(answer)
        (same or answer).said_by.append(record)
    if beside and not answers:
        answers.append(_told_alone(beside[0]))
    for record in beside:
        _enrich(_answer_for(answers, record), record, given, alone=len(answers) == 1)
    for answer in answers:
        if answer.fields == {}:
            answer.fields = None
        if answer.text is None and answer.fields is None:
            answer.text = ""
    return answers


def canonical(record: Output | Call, tool_name: str | None) -> Answer:
    """What the model was given, as its record has it."""
    if isinstance(record, Call):  # a drawing stands in the record of its call
        return Answer(None, _present(record.payload, ("status", "result")), None)
    if record.kind == "tool_search_output":
        return Answer(None, _present(record.payload, ("status", "execution", "tools")), None)
    output = record.output
    if isinstance(output, str):
        return Answer(output, {}, _failed(output, tool_name))
    if isinstance(output, list) and all(_is_block(block) for block in output):
        texts = [block["text"] for block in output if _is_text(block)]
        others = [block for block in output if not _is_text(block)]
        text = "\n".join(texts) if texts or not others else None
        failed = _failed(record.first_text, tool_name)
        return Answer(text, {"content": others} if others else {}, failed)
    if isinstance(output, dict):
        return Answer(None, dict(output), None)
    return Answer(None, {"canonical_structured_output": output}, None)


def _failed(text: str, tool_name: str | None) -> bool | None:
    """What Codex itself says at the beginning of an output; a tool cannot write there."""
    if tool_name in ENVELOPED:
        code = exit_code(text)
        return None if code is None else code != 0
    if tool_name in ("exec", "wait") and text.startswith(("Script completed\n", "Script failed\n")):
        return text.startswith("Script failed")
    return None


def _told_alone(record: Happened) -> Answer:
    """The result of a call that no canonical record has an output of."""
    answer = Answer(record.shown_text, {}, None)
    answer.returned_at_ms = record.ended_at_ms
    return answer


def _answer_for(answers: list[Answer], record: Happened) -> Answer:
    """The result that a projection belongs to: the one that shows its text, else the first."""
    if len(answers) > 1 and record.output:
        showing = [one for one in answers if one.text and record.output in one.text]
        if len(showing) == 1:
            return showing[0]
    return answers[0]


def _enrich(answer: Answer, record: Happened, given: object, *, alone: bool) -> None:
    answer.said_by.append(record)
    told = _without_copies(_facts(record, given), _shown(answer.text))
    left = {}
    if alone:
        if answer.is_error is None:
            answer.is_error = record.failed
        for name, value in told.items():
            if name not in answer.fields:
                answer.fields[name] = value
            elif answer.fields[name] != value:
                left[name] = value
    else:
        left = told  # of which of several results it tells is not certain
    if left:
        beside = answer.fields.setdefault("source_projections", [])
        entry = {"source": record.name, **left}
        if entry not in beside:
            beside.append(entry)


def _shown(text: str | None) -> str:
    """All that a rendered text shows: the older shell tool's is JSON, with the output in it."""
    if text is None or not text.startswith('{"output":'):
        return text or ""
    try:
        output = parse_json(text.encode())[0]["output"]
    except ValueError:
        return text
    return f"{text}\n{output}" if isinstance(output, str) else text


def _facts(record: Happened, given: object) -> dict[str, Any]:
    """The structured fields of a projection, but for those that the input has."""
    found = _present(record.item, _FIELDS[record.sort])
    command = record.item.get("command")
    if record.sort == "command" and isinstance(command, list) and command:
        asked = given if isinstance(given, dict) else {}
        if command[-1] not in (asked.get("cmd"), asked.get("command")) and command not in (
            asked.get("argv"),
            asked.get("command"),
        ):
            found["command"] = command  # a hook had it rewritten, or the input is not readable
    if isinstance(given, dict):
        for name in _GIVEN:
            if name in found and found[name] == given.get(name):
                del found[name]
    return found


def _present(item: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        value = item.get(name)
        if value is not None and value != "":
            found[name] = value
    return found


def _without_copies(value: Any, text: str) -> Any:
    """`value` without the rendered texts that `text` has already."""
    if isinstance(value, dict):
        kept = {}
        for name, inner in value.items():
            if name in _TEXTS and isinstance(inner, str) and _shows(text, inner):
                continue
            kept[name] = _without_copies(inner, text)
            if inner and kept[name] == []:
                del kept[name]
        return kept
    if isinstance(value, list):
        return [
            _without_copies(inner, text)
            for inner in value
            if not (_is_block(inner) and _is_text(inner) and inner["text"] in text)
        ]
    return value


def _shows(text: str, inner: str) -> bool:
    """Whether a rendered text has all of another one, which Codex may have cut elsewhere."""
    if inner in text:
        return True
    return "truncated" in inner and all(part in text for part in _CUT.split(inner))


def _is_block(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _is_text(block: dict[str, Any]) -> bool:
    return block["type"] in _TEXT_BLOCKS and isinstance(block.get("text"), str)
