"""A Codex rollout as the engine's import reads it, and as an import of ours stores it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.jsonl import RawLine, TranscriptChangedError, TranscriptError, scan_lines
from lcm_core.engine.rules import RULES_PRESENT
from lcm_host.codex import RolloutReading, is_rollout, write_rollout
from lcm_host.messages import StoredMessage, read_host_file, read_messages, store_message

from tests.core.rollouts import THREAD, event, item, line, message

BEGIN = datetime(2026, 3, 2, 15, 14, 23, tzinfo=UTC)


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def later(text: str, seconds: float | None) -> str:
    """The same record, said at another time."""
    value = json.loads(text)
    value["timestamp"] = None if seconds is None else at(seconds)
    return json.dumps(value)


def header(**more: Any) -> str:
    return line("session_meta", {"id": THREAD, "timestamp": at(0), "cwd": "/w", **more})


def rollout(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(lines) + end)
    return path


def written(tmp_path: Path, *lines: str) -> tuple[RolloutReading, list[dict[str, Any]]]:
    target = io.BytesIO()
    reading, thread = write_rollout(rollout(tmp_path, *lines), target)
    assert thread == THREAD
    return reading, [json.loads(one) for one in target.getvalue().splitlines()]


def stored(tmp_path: Path, *lines: str) -> list[StoredMessage]:
    """What the import would store of it."""
    transcript = tmp_path / "transcript.jsonl"
    with transcript.open("wb") as target:
        write_rollout(rollout(tmp_path, *lines), target)
    file = read_host_file(transcript)
    found = [store_message(one, RULES_PRESENT.ingest) for one in read_messages(file, file.messages)]
    assert all(isinstance(one, StoredMessage) for one in found)
    return [one for one in found if isinstance(one, StoredMessage)]


def said(lines: Sequence[str]) -> list[tuple[str, str, int]]:
    """Kind, text and line of what a rollout says."""
    file = io.BytesIO("\n".join(lines).encode() + b"\n")
    return [(one.kind.value, one.text, one.line) for one in RolloutReading().records(scan_lines(file))]


def test_each_record_becomes_a_message(tmp_path: Path):
    call = item("function_call", name="read", arguments='{ "path": "a.py" }', call_id="c1")
    lines = [
        header(),
        message("user", "one", "two"),
        message("system", "rules"),
        call,
        item("function_call_output", call_id="c1", output="body"),
        item("custom_tool_call", name="patch", input="*** Begin", call_id="c2"),
        message("developer", "more rules"),
        event("user_message", "only an event"),
        event("token_count", None),
        line("turn_context", {"cwd": "/w"}),
    ]
    reading, entries = written(tmp_path, *lines)
    assert entries[0] == {
        "type": "session",
        "version": 3,
        "id": THREAD,
        "cwd": "/w",
        "timestamp": "2026-03-02T15:14:23+00:00",
    }
    messages = [one["message"] for one in entries[1:]]
    assert [one["role"] for one in messages] == [
        *("user", "system", "assistant", "toolResult", "assistant", "assistant", "user", "assistant")
    ]
    text = {"type": "text", "codexOriginalType": "output_text"}
    assert messages[0]["content"] == [{**text, "text": "one"}, {**text, "text": "two"}]
    assert messages[2]["content"] == [
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.py"}}
    ]
    assert messages[3] == {
        "role": "toolResult",
        "toolCallId": "c1",
        "content": [{"type": "text", "text": "body"}],
    }
    assert messages[4]["content"][0]["codexRecord"] == json.loads(lines[5])
    assert messages[4]["content"][0]["text"].startswith("Codex response_item custom_tool_call: {")
    digest = sha256(call.encode()).hexdigest()
    assert entries[3]["id"] == f"codex:{THREAD}:4:{digest}"
    assert [one["parentId"] for one in entries[1:]] == [None, *(one["id"] for one in entries[1:-1])]
    assert reading.kept == {
        "response_item custom_tool_call": 1,
        "response_item message": 1,
        "event_msg token_count": 1,
    }


def test_what_is_stored_of_it(tmp_path: Path):
    rows = stored(
        tmp_path,
        header(),
        later(message("user", "one"), 60),
        item("function_call", name="read", arguments="no JSON", call_id="c1"),
        item("function_call_output", call_id="c1", output=[{"type": "input_text", "text": "body\u2028x"}]),
        item("reasoning", summary=[{"type": "summary_text", "text": "why"}]),
    )
    assert [one.role for one in rows] == ["user", "assistant", "tool", "assistant"]
    assert rows[0].created_at == "2026-03-02 15:15:23"
    assert (rows[1].parts[0].tool_name, rows[1].parts[0].tool_input) == ("read", '"no JSON"')
    assert (rows[2].content, rows[2].parts[0].tool_call_id) == ("body\u2028x", "c1")
    assert json.loads(rows[3].parts[0].metadata)["raw"]["codexRecord"]["payload"]["type"] == "reasoning"
    assert all((one.entry_id or "").startswith(f"codex:{THREAD}:") for one in rows)


EVENTS = {
    "behind its message": (message("user", "a"), event("user_message", "a"), True),
    "of another text": (message("user", "a"), event("user_message", "a "), False),
    "of another role": (message("user", "a"), event("agent_message", "a"), False),
    "before its message": (event("user_message", "a"), message("user", "a"), False),
    "five seconds later": (message("assistant", "a"), later(event("agent_message", "a"), 5), True),
    "five seconds earlier": (later(message("user", "a"), 5), event("user_message", "a"), True),
    "later": (message("assistant", "a"), later(event("agent_message", "a"), 5.001), False),
    "without a time": (message("user", "a"), later(event("user_message", "a"), None), False),
    "of a message without a time": (later(message("user", "a"), None), event("user_message", "a"), False),
}


@pytest.mark.parametrize("case", EVENTS)
def test_an_event_is_left_out_only_where_a_message_of_its_turn_says_the_same(case: str):
    first, second, is_repeated = EVENTS[case]
    assert len(said([header(), first, second])) == 2 - is_repeated


@pytest.mark.parametrize(
    "boundary",
    [
        line("turn_context", {}),
        line("event_msg", {"type": "task_started"}),
        line("event_msg", {"type": "task_complete"}),
        line("event_msg", {"type": "turn_aborted", "reason": "interrupted"}),
    ],
)
def test_a_boundary_of_a_turn_parts_an_event_from_its_message(boundary: str):
    found = said([header(), message("user", "a"), boundary, event("user_message", "a")])
    assert [kind for kind, *_ in found] == ["message", "event"]


def test_every_event_of_a_message_is_left_out():
    lines = [header(), message("user", "a"), event("user_message", "a"), event("user_message", "a")]
    assert said(lines) == [("message", "a", 2)]


REFUSED = {
    "no header": ([message("user", "a")], "line 1 is no session_meta"),
    "a header without an id": ([line("session_meta", {}), message("user", "a")], "without an id"),
    "a blank id": ([line("session_meta", {"id": " "})], "without an id"),
    "two headers": ([header(), message("user", "a"), header()], "line 3 is a session_meta"),
    "a header behind a message": ([message("user", "a"), header()], "line 1 is no session_meta"),
    "no JSON": ([header(), "{"], "line 2 is not JSON"),
    "no object": ([header(), "[]"], "line 2 is a JSON value, but not an object"),
    "no type": ([header(), '{"payload": {}}'], "line 2 has no type"),
    "a type that is no text": ([header(), '{"type": 7}'], "line 2 has no type"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_whole_is_refused(tmp_path: Path, case: str):
    lines, reason = REFUSED[case]
    with pytest.raises(TranscriptError, match=reason) as refusal:
        write_rollout(rollout(tmp_path, *lines), io.BytesIO())
    assert refusal.value.code == "ROLLOUT_INVALID"


@pytest.mark.parametrize(("lines", "reason"), [((header(),), "newline"), ((header(), "{"), "unfinished")])
def test_an_unfinished_last_line_is_refused(tmp_path: Path, lines: tuple[str, ...], reason: str):
    with pytest.raises(TranscriptError, match=reason):
        write_rollout(rollout(tmp_path, *lines, end=""), io.BytesIO())


def test_an_empty_file_is_refused(tmp_path: Path):
    with pytest.raises(TranscriptError, match="it is empty"):
        write_rollout(rollout(tmp_path), io.BytesIO())


def test_a_file_that_is_written_meanwhile_is_refused(tmp_path: Path):
    path = rollout(tmp_path, header(), *(message("user", str(one)) for one in range(9)))

    class Target(io.BytesIO):
        def write(self, data: Any, /) -> int:
            with path.open("a") as file:
                file.write(message("user", "meanwhile") + "\n")  # as fast as it is read
            return super().write(data)

    with pytest.raises(TranscriptChangedError):
        write_rollout(path, Target())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"forked_from_id": "0199bbbb"}, "forked"),
        ({"history_mode": "paginated"}, "paginated"),
        ({"paginated": True}, "paginated"),
        ({"forked_from_id": None, "paginated": False}, ""),
    ],
)
def test_a_fork_and_a_page_are_only_said(tmp_path: Path, more: dict[str, Any], words: str):
    reading, entries = written(tmp_path, header(**more), message("user", "a"))
    assert len(entries) == 2
    assert any(words in one for one in reading.notes()) == bool(words)


def test_blank_lines_count_for_the_number_and_are_no_record(tmp_path: Path):
    _, entries = written(tmp_path, header(), "", "  ", message("user", "a"), "")
    assert entries[1]["id"].split(":")[2] == "4"


def test_a_transcript_of_the_host_is_no_rollout(tmp_path: Path):
    path = rollout(tmp_path, '{"type": "session", "id": "s"}', header())
    assert not is_rollout(path)
    assert is_rollout(rollout(tmp_path, header()))
    assert not is_rollout(tmp_path)
    assert not is_rollout(tmp_path / "none")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "function_call", "function_call_output", "user_message", "x"])
        | JSON,
        "role": st.sampled_from(["user", "assistant", "system", "developer"]) | JSON,
        **dict.fromkeys(("content", "output", "message", "arguments", "call_id", "name"), JSON),
    },
)
RECORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["response_item", "event_msg", "compacted"]), "payload": PAYLOADS | JSON},
    optional={"timestamp": JSON},
)


@pytest.mark.long
@given(st.lists(RECORDS, max_size=6))
def test_every_record_that_is_stored_has_a_line_of_its_own(records: list[Any]):
    lines = [header(), *(json.dumps(one, allow_nan=False, default=str) for one in _finite(records))]
    data = "\n".join(lines).encode() + b"\n"
    reading = RolloutReading()
    found = list(reading.records(scan_lines(io.BytesIO(data))))
    assert reading.refused is None
    boundaries = len(records) - len(found) - reading.repeated
    assert boundaries == 0
    assert len({one.source_id(THREAD) for one in found}) == len(found)
    for one in found:
        assert json.loads(lines[one.line - 1]) == one.value
        assert one.message()["role"] in ("user", "assistant", "system", "toolResult")


def _finite(value: Any) -> Any:
    """The same without numbers that JSON has no word for."""
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return 0 if isinstance(value, float) and value - value != 0 else value


def test_a_line_that_is_too_long_is_a_reason_to_refuse():
    line_ = RawLine(2, 10, 2**30, b"{", True, ended=True)
    reading = RolloutReading()
    first = RawLine(1, 0, 10, header().encode(), False, ended=True)
    assert list(reading.records([first, line_])) == []
    assert reading.refused == "line 2 has 1,073,741,824 bytes, which is more than is read of one line"
