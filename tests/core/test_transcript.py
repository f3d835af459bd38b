"""Reading transcripts: the real ones against the database, and every shape that a file can be bent into."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import MessagePart
from lcm_core.base import jsonl
from lcm_core.base.errors import CancelledError
from lcm_core.base.jsonl import (
    TranscriptChangedError,
    TranscriptError,
    TranscriptMissingError,
    decode_object,
    never_cancelled,
    peek_object,
)
from lcm_core.engine.content import PartKind, engine_role, host_parts, row_parts, shorten
from lcm_host.messages import read_host_file
from lcm_host.reading import open_session
from lcm_host.sessions import FilePlace, HostSession, Storage

from tests.databases import reading

HEAD_BYTES = 65_536

SESSION = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-02T09:25:49.000Z"}
ODD = "research/sessions/ce98a067-e9e5-403f-a6d5-7ded87bb123a.jsonl"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def message(
    entry_id: str | None, parent: str | None, text: str = "hello", **more: object
) -> dict[str, object]:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-03-02T09:25:50Z",
        "message": {"role": "user", "content": text},
    } | more


def write(path: Path, *lines: object) -> Path:
    raw = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path.write_bytes(b"".join(line + b"\n" for line in raw))
    return path


def text_of(parts) -> str:
    """The plain text in parts, one below the other."""
    return "\n".join(part.text for part in parts if part.kind is PartKind.TEXT)


def open_file(path: Path, cancelled=never_cancelled):
    session = HostSession(None, "s", None, Storage.JSONL, False, None, None, FilePlace(path))
    return open_session(session, cancelled=cancelled)


def everything(index):
    return list(index.entries())


def lines_of(index) -> list[int]:
    return [index.scan.line[number] for number in index.shown]


def reasons(index) -> list[tuple[int, str]]:
    return [(problem.line, problem.reason) for problem in index.problems]


# The real state folder


def test_a_bad_line_an_abandoned_branch_and_a_heartbeat(openclaw_home: Path) -> None:
    index = open_file(openclaw_home / "agents" / ODD)
    assert (index.entry_count, len(index), index.abandoned, index.bad) == (76, 75, 1, 1)
    assert [line for line, _ in reasons(index)] == [16]
    shown = everything(index)
    assert 21 not in [entry.number for entry in shown]
    assert all("abandoned branch message" not in text_of(entry.parts) for entry in shown)
    beat = [text_of(entry.parts) for entry in shown if entry.number in (22, 23)]
    assert beat == ["HEARTBEAT: check tasks", "HEARTBEAT_OK"]


def test_entries_that_are_no_messages_have_a_title(openclaw_home: Path) -> None:
    index = open_file(openclaw_home / "agents" / ODD)
    titles = {
        entry.number: (entry.title, text_of(entry.parts))
        for entry in everything(index)
        if not entry.is_message
    }
    assert titles[2] == ("model: anthropic/claude-opus-4-5", "")
    assert titles[3] == ("thinking level: low", "")
    assert titles[18] == ("compaction (12,345 tokens before)", "host compaction summary")
    assert titles[19] == ("branch summary from e7382b12", "abandoned branch")
    assert titles[79][0] == "custom: openclaw.cache-ttl"


def test_a_command_of_the_operator_is_a_call_and_its_result(openclaw_home: Path) -> None:
    index = open_file(openclaw_home / "agents" / ODD)
    (entry,) = (entry for entry in everything(index) if entry.number == 20)
    assert (entry.is_message, entry.role) == (True, "bashExecution")
    call, result = entry.parts
    assert (call.kind, call.tool_name, call.arguments) == (PartKind.TOOL_CALL, "bash", '{"command":"ls -la"}')
    assert (result.kind, result.text, result.is_error) == (PartKind.TOOL_RESULT, "total 0", False)


def seen(parts) -> list[tuple[object, ...]]:
    return [
        (each.kind, each.text, each.call_id, each.tool_name, each.arguments, each.is_error, each.mime)
        for each in parts
    ]


def stored(database: Path, session_id: str) -> list[tuple[str, list[tuple[object, ...]]]]:
    """The role and the parts of each message that the engine stored for a session."""
    found: dict[int, tuple[str, list[tuple[object, ...]]]] = {}
    names = {"text": "text_content"}
    with reading(database) as db:
        db.row_factory = sqlite3.Row
        for row in db.execute(
            "SELECT m.seq, m.role, p.* FROM messages AS m JOIN message_parts AS p USING (message_id)"
            " JOIN conversations AS c USING (conversation_id)"
            " WHERE c.session_id = ? ORDER BY m.seq, p.ordinal",
            (session_id,),
        ):
            record = MessagePart(**{name: row[names.get(name, name)] for name in MessagePart.__slots__})
            found.setdefault(row["seq"], (row["role"], []))[1].extend(seen(row_parts(record, row["role"])))
    return [each for each in found.values() if each[0] != "system"]  # 0.1.2 notes its compactions there


def on_disk(home: Path, session_id: str) -> list[tuple[str, list[tuple[object, ...]]]]:
    (path,) = (home / "agents").glob(f"*/sessions/{session_id}.jsonl")
    entries = everything(open_file(path))
    return [(engine_role(entry.role or ""), seen(entry.parts)) for entry in entries if entry.is_message]


def test_the_database_holds_the_same_parts(openclaw_home: Path, database_file: Any) -> None:
    session_id = "076f4055-3ec1-4d9d-a20f-91df214643db"
    transcript = on_disk(openclaw_home, session_id)
    assert len(transcript) == 115
    assert stored(database_file("0.8.2"), session_id) == transcript


def test_the_newest_engine_moves_only_images_out(openclaw_home: Path, database_file: Any) -> None:
    session_id = "27046938-a735-4a93-a971-f4fe747bb833"
    pairs = list(
        zip(stored(database_file("0.15.3"), session_id), on_disk(openclaw_home, session_id), strict=True)
    )
    moved = [(row[1], host[1]) for row, host in pairs if row != host]
    assert (len(pairs), len(moved)) == (384, 3)
    for row, host in moved:
        assert host[:-1] == row[:-1]
        assert (host[-1][0], host[-1][-1]) == (PartKind.IMAGE, "image/png")
        assert str(row[-1][1]).startswith("[User image: user-image.png (image/png, 49 bytes)")


def test_the_oldest_engines_tool_calls_are_read_from_its_metadata(
    openclaw_home: Path, database_file: Any
) -> None:
    """0.1.2 stored them as part type ``agent`` without columns, and results without name and outcome."""
    session_id = "34904ebd-bc37-4a66-a7f0-18a94dd1c57a"
    rows, transcript = stored(database_file("0.1.2"), session_id), on_disk(openclaw_home, session_id)
    calls = [each for _, parts in rows for each in parts if each[0] is PartKind.TOOL_CALL]
    assert calls == [each for _, parts in transcript for each in parts if each[0] is PartKind.TOOL_CALL]
    assert len(calls) == 20
    results = [each for _, parts in rows for each in parts if each[0] is PartKind.TOOL_RESULT]
    assert {(name, failed) for _, _, _, name, _, failed, _ in results} == {(None, None)}


# The tree


def test_the_path_ends_at_the_last_entry_not_in_file_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.jsonl",
        SESSION,
        message("a", None),
        message("b", "a"),
        message("c", "b"),
        message("d", "a"),
    )
    index = open_file(path)
    assert ([entry.entry_id for entry in everything(index)], index.abandoned) == (["a", "d"], 2)


def test_without_parents_every_line_follows_the_one_before(tmp_path: Path) -> None:
    old = {"type": "message", "message": {"role": "user", "content": "x"}}
    path = write(tmp_path / "t.jsonl", {"type": "session", "id": "s"}, old, old, message("n", None), old)
    index = open_file(path)
    assert index.scan.header is not None
    assert index.scan.header.version == 1
    assert lines_of(index) == [4, 5]


def test_a_missing_parent_begins_the_path_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", message("a", None), b'{"id":"b', message("c", "b"), message("d", "c"))
    index = open_file(path)
    assert (lines_of(index), index.abandoned, index.bad) == ([3, 4], 1, 1)
    assert reasons(index)[-1] == (3, "its parent b is not in the file; what the host sees begins here")


def test_a_parent_may_come_later_and_circles_end(tmp_path: Path) -> None:
    later = open_file(write(tmp_path / "a.jsonl", message("b", "a"), message("a", None), message("c", "b")))
    assert (lines_of(later), later.problems) == ([2, 1, 3], ())
    circle = open_file(write(tmp_path / "b.jsonl", message("a", "b"), message("b", "a")))
    assert lines_of(circle) == [1, 2]
    assert reasons(circle) == [(1, "its parents form a circle; the path begins here")]
    own = open_file(write(tmp_path / "c.jsonl", message("a", "a")))
    assert (lines_of(own), len(own.problems)) == ([1], 1)


def test_of_two_entries_with_one_id_the_last_counts(tmp_path: Path) -> None:
    index = open_file(
        write(tmp_path / "t.jsonl", message("a", None, "1"), message("a", None, "2"), message("b", "a"))
    )
    assert (lines_of(index), reasons(index)) == ([2, 3], [(2, "its id a is already in line 1")])


def test_a_long_chain_is_no_recursion(tmp_path: Path) -> None:
    lines = [message(str(number), str(number - 1) if number else None) for number in range(5000)]
    assert len(open_file(write(tmp_path / "t.jsonl", *lines))) == 5000


@pytest.mark.long
@given(origins=st.lists(st.integers(-1, 30), min_size=1, max_size=30))
def test_the_path_is_what_following_the_parents_gives(
    tmp_path_factory: pytest.TempPathFactory, origins: list[int]
) -> None:
    lines = [message(str(number), str(origin)) for number, origin in enumerate(origins)]
    index = open_file(write(tmp_path_factory.mktemp("tree") / "t.jsonl", *lines))
    expected, at = [], len(origins) - 1
    while 0 <= at < len(origins) and at not in expected:
        expected.append(at)
        at = origins[at]
    assert lines_of(index) == [number + 1 for number in reversed(expected)]
    assert index.abandoned == len(origins) - len(expected)


# Lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "not JSON: Expecting value at character 1"),
        (b"[1]", "a JSON value, but not an object"),
        (b"{}", "an entry without a type"),
        (b'{"type":7}', "an entry without a type"),
        (b'{"type":"x","a":NaN}', "not JSON: NaN is not a JSON value"),
        (b"\x00\x00\x00", "not JSON: Expecting value at character 1"),
        (
            b'{"type":"x","a":' + b"9" * 5000 + b"}",
            "not JSON that can be read here: a number has too many digits",
        ),
        (b'{"type":"x","a":' + b"[" * 200_000, "not JSON that can be read here: it is nested too deeply"),
    ],
)
def test_a_bad_line_is_counted_and_the_rest_is_read(tmp_path: Path, line: bytes, reason: str) -> None:
    path = write(tmp_path / "t.jsonl", SESSION, message("a", None), line, b"", b"  ", message("b", "a"))
    index = open_file(path)
    assert (lines_of(index), index.bad, reasons(index)) == ([2, 6], 1, [(3, reason)])


def test_a_line_over_the_limit_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = message("b", "a", "x" * HEAD_BYTES, type="message")
    path = write(tmp_path / "t.jsonl", SESSION, message("a", None), long, message("c", "b"))
    size = len(json.dumps(long))
    monkeypatch.setattr("lcm_host.archives.ENTRY_LIMIT", HEAD_BYTES)
    index = open_file(path)
    assert (lines_of(index), index.bad) == ([2, 3, 4], 0)
    assert reasons(index) == [(3, f"too long ({size:,} bytes) to be read with the others")]
    entry = everything(index)[1]
    assert (entry.entry_id, entry.problem) == ("b", f"too long ({size:,} bytes) to be read with the others")
    assert (entry.role, entry.parts) == ("user", ())


def test_a_long_line_without_a_type_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcm_host.archives.ENTRY_LIMIT", HEAD_BYTES)
    garbage = open_file(write(tmp_path / "g.jsonl", b"x" * 99_999))
    assert reasons(garbage) == [(1, "too long (99,999 bytes), an entry without a type")]


def test_a_line_of_100_mb_is_never_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcm_host.archives.ENTRY_LIMIT", 1_000_000)
    path = tmp_path / "t.jsonl"
    with path.open("wb") as file:
        file.write(
            json.dumps(message("a", None)).encode() + b'\n{"type":"message","id":"b","parentId":"a","x":"'
        )
        file.seek(100_000_000, os.SEEK_CUR)  # a hole: read like any other bytes, but quickly made
        file.write(b'"}\n' + json.dumps(message("c", "b")).encode() + b"\n")
    tracemalloc.start()
    try:
        index = open_file(path)
        entries = everything(index)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [entry.number for entry in entries] == [1, 2, 3]
    assert "too long (100,0" in str(entries[1].problem)
    assert peak < 8_000_000


@pytest.mark.long
@given(value=st.dictionaries(st.text(max_size=8), json_values, max_size=5), cut=st.integers(0, 2000))
def test_the_start_of_a_cut_object_holds_no_invention(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value, ensure_ascii=False)
    for key, found in peek_object(text[:cut].encode("utf-8", "surrogatepass")).items():
        if not isinstance(found, dict | int | float):  # a cut number or object may be shorter
            assert found == value[key]
    assert peek_object(json.dumps(value)) == value


@pytest.mark.long
@given(
    lines=st.lists(
        st.binary(max_size=40) | json_values.map(lambda each: json.dumps(each).encode()), max_size=8
    )
)
def test_no_file_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    index = open_file(write(tmp_path_factory.mktemp("any") / "t.jsonl", SESSION, *lines))
    assert len(everything(index)) == len(index)
    assert index.problem_count == len(index.problems)


@pytest.mark.long
@given(
    value=st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["message", "compaction", "custom", "custom_message", "reset", "model_change"]
            )
        },
        optional=dict.fromkeys(
            ("id", "parentId", "timestamp", "summary", "data", "content", "customType", "fromId"), json_values
        )
        | {
            "message": json_values
            | st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "toolResult", "bashExecution", "odd"])},
                optional=dict.fromkeys(("content", "output", "command", "timestamp", "isError"), json_values),
            )
        },
    )
)
def test_any_value_in_any_place_is_an_entry(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]
) -> None:
    index = open_file(write(tmp_path_factory.mktemp("any") / "t.jsonl", value))
    (entry,) = everything(index)
    assert "\n" not in entry.title
    assert bool(entry.title) != entry.is_message


# Content


def parts_of(*blocks: object, role: str = "assistant"):
    return host_parts(decode_object(json.dumps({"role": role, "content": list(blocks)})))


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "thinking", "thinking": "why", "thinkingSignature": "s"}, "why"),
        ({"type": "reasoning", "text": "why"}, "why"),
        ({"type": "reasoning", "reasoning": "why"}, "why"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}, {"text": "b"}]}, "a\nb"),
        ({"type": "redacted_thinking", "data": "secret"}, ""),
    ],
)
def test_reasoning_is_read_whatever_its_field(block: dict[str, object], text: str) -> None:
    assert [(each.kind, each.text) for each in parts_of(block)] == [(PartKind.REASONING, text)]


@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        (
            {"type": "toolCall", "id": "c", "name": "sh", "arguments": {"x": "é", "y": [1]}},
            '{"x":"é","y":[1]}',
        ),
        ({"type": "tool_use", "id": "c", "name": "sh", "input": {}}, "{}"),
        (
            {"type": "function_call", "id": "other", "call_id": "c", "name": "sh", "arguments": '{"a": 1}'},
            '{"a": 1}',
        ),
        ({"type": "tool-call", "id": "c", "function": {"name": "sh", "arguments": "{}"}}, "{}"),
        ({"type": "toolCall", "id": "c", "name": "sh"}, None),
    ],
)
def test_tool_calls_of_every_host(block: dict[str, object], arguments: str | None) -> None:
    (call,) = parts_of(block)
    assert (call.kind, call.call_id, call.tool_name, call.arguments) == (
        PartKind.TOOL_CALL,
        "c",
        "sh",
        arguments,
    )


def test_a_tool_result_keeps_its_images() -> None:
    value = {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "shot",
        "isError": True,
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "text", "text": "two"},
        ],
    }
    result, image = host_parts(decode_object(json.dumps(value)))
    assert (result.kind, result.text, result.is_error, result.call_id) == (
        PartKind.TOOL_RESULT,
        "one\ntwo",
        True,
        "c",
    )
    assert (image.kind, image.mime, image.byte_size, image.call_id) == (PartKind.IMAGE, "image/png", 5, "c")


def test_tool_results_as_blocks_of_a_message() -> None:
    parts = parts_of(
        {"type": "tool_result", "tool_use_id": "a", "content": "text", "is_error": False},
        {"type": "function_call_output", "call_id": "b", "output": {"ok": True}},
        {"type": "toolResult", "toolCallId": "c", "content": []},
        role="user",
    )
    assert [(each.kind, each.call_id, each.text, each.is_error) for each in parts] == [
        (PartKind.TOOL_RESULT, "a", "text", False),
        (PartKind.TOOL_RESULT, "b", '{"ok":true}', None),
        (PartKind.TOOL_RESULT, "c", "", None),
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image", "data": "aGk=", "mimeType": "image/png"}, ("image", "image/png", 2, None, None)),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "aGkh"}},
            ("image", "image/gif", 3, None, None),
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
            ("image", None, None, None, "https://x/y"),
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/webp;base64,aA=="}},
            ("image", "image/webp", 1, None, None),
        ),
        ({"type": "input_image", "image_url": "https://x/y"}, ("image", None, None, None, "https://x/y")),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
            ("file", "application/pdf", 2, "a.pdf", None),
        ),
        (
            {"type": "document", "title": "t", "source": {"type": "text", "data": "words"}},
            ("file", None, None, "t", None),
        ),
    ],
)
def test_images_and_files_are_described_and_not_held(
    block: dict[str, object], expected: tuple[object, ...]
) -> None:
    (each,) = parts_of(block)
    assert (each.kind.value, each.mime, each.byte_size, each.name, each.url) == expected


def test_an_unknown_block_keeps_its_payload() -> None:
    (each,) = parts_of({"type": "hologram", "light": [1, 2]})
    assert (each.kind, each.raw_type, each.text) == (
        PartKind.OTHER,
        "hologram",
        '{"type":"hologram","light":[1,2]}',
    )


@pytest.mark.parametrize(
    ("role", "mapped"),
    [
        ("user", "user"),
        ("system", "system"),
        ("tool", "tool"),
        ("toolResult", "tool"),
        ("robot", "assistant"),
        (None, "assistant"),
    ],
)
def test_roles_map_as_the_engine_maps_them(tmp_path: Path, role: str | None, mapped: str) -> None:
    path = write(tmp_path / "t.jsonl", message("a", None, message={"role": role, "content": "x"}))
    index = open_file(path)
    (entry,) = everything(index)
    assert (engine_role(entry.role or ""), entry.role) == (mapped, role)


def test_text_that_is_not_utf_8_and_lone_surrogates_stay(tmp_path: Path) -> None:
    line = (
        b'{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"caf\xe9 \\ud800"}}'
    )
    (entry,) = everything(open_file(write(tmp_path / "t.jsonl", line)))
    assert entry.parts[0].text == "caf\udce9 \ud800"


def test_an_answer_that_failed_says_why(tmp_path: Path) -> None:
    failed = {
        "role": "assistant",
        "content": [],
        "stopReason": "error",
        "errorMessage": "overloaded",
        "model": "m",
    }
    (entry,) = everything(open_file(write(tmp_path / "t.jsonl", message("a", None, message=failed))))
    assert (entry.message["errorMessage"], entry.is_storable) == ("overloaded", False)


def test_a_page_may_shorten_texts_and_says_by_how_much(tmp_path: Path) -> None:
    index = open_file(write(tmp_path / "t.jsonl", message("a", None, "x" * 100)))
    (entry,) = index.entries()
    short = shorten(entry.parts[0], 30)
    assert (len(short.text), short.cut) == (30, 70)


@pytest.mark.parametrize(
    ("stamp", "inner", "moment"),
    [
        ("2026-03-02T09:25:50.5Z", None, datetime(2026, 3, 2, 9, 25, 50, 500_000, tzinfo=UTC)),
        ("2026-03-02T11:25:50+02:00", None, datetime(2026, 3, 2, 9, 25, 50, tzinfo=UTC)),
        ("2026-03-02 09:25:50", None, datetime(2026, 3, 2, 9, 25, 50, tzinfo=UTC)),
        (1772443550000, None, datetime(2026, 3, 2, 9, 25, 50, tzinfo=UTC)),
        (None, 1772443550000, datetime(2026, 3, 2, 9, 25, 50, tzinfo=UTC)),
        ("soon", None, None),
        (10**40, None, None),
        (True, None, None),
    ],
)
def test_times_are_utc(tmp_path: Path, stamp: object, inner: object, moment: datetime | None) -> None:
    inside = {"role": "user", "content": "x", "timestamp": inner}
    (entry,) = everything(
        open_file(write(tmp_path / "t.jsonl", message("a", None, timestamp=stamp, message=inside)))
    )
    assert entry.created_at == moment


# A file that lives


def test_only_what_was_appended_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.jsonl", SESSION, message("a", None), b"bad", message("b", "a"))
    index = open_file(path)
    assert index.refreshed() is index
    with path.open("ab") as file:
        file.write(json.dumps(message("c", "b")).encode() + b"\n" + b'{"type":"mess')
    decoded: list[bytes | str] = []
    monkeypatch.setattr(
        "lcm_host.reading.decode_object",
        lambda data: decoded.append(data) or jsonl.decode_object(data),
    )
    grown = index.refreshed()
    assert len(decoded) == 2
    assert (lines_of(grown), grown.bad) == ([2, 4, 5], 1)
    assert reasons(grown)[-1] == (6, "the file ends within it; the host may be writing it")
    assert lines_of(index) == [2, 4]  # the earlier value is as it was
    with path.open("ab") as file:
        file.write(b'age","id":"d","parentId":"c"}\n')
    done = grown.refreshed()
    assert (lines_of(done), len(done.problems)) == ([2, 4, 5, 6], 1)


@pytest.mark.parametrize("line", [SESSION, message("a", None)])
def test_a_line_that_gets_its_end_later_is_read_once(tmp_path: Path, line: object) -> None:
    path = write(tmp_path / "t.jsonl", line)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    index = open_file(path)
    with path.open("ab") as file:
        file.write(b"\n" + json.dumps(message("b", None)).encode() + b"\n")
    grown = index.refreshed()
    assert (grown.problems, grown.entry_count) == ((), index.entry_count + 1)


def test_a_rewritten_file_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", message("a", None, "one"), message("b", "a", "two"))
    index = open_file(path)
    write(path, message("a", None, "uno"), message("b", "a", "dos"), message("c", "b", "tres"))
    with pytest.raises(TranscriptChangedError, match="line 1 differs"):
        everything(index)
    assert [text_of(entry.parts) for entry in everything(index.refreshed())] == ["uno", "dos", "tres"]
    write(path, message("z", None))
    with pytest.raises(TranscriptChangedError):
        list(index.entries(1, 2))
    assert lines_of(index.refreshed()) == [1]


@pytest.mark.long
@given(
    origins=st.lists(st.integers(-1, 12), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    ended=st.booleans(),
)
def test_bringing_an_index_up_to_date_is_indexing_anew(
    tmp_path_factory: pytest.TempPathFactory, origins: list[int], cuts: list[int], ended: bool
) -> None:
    lines = [json.dumps(message(str(number % 9), str(origin))) for number, origin in enumerate(origins)]
    data = ("\n".join([json.dumps(SESSION), *lines]) + "\n" * ended).encode()
    path = tmp_path_factory.mktemp("grow") / "t.jsonl"
    path.write_bytes(b"")
    index = open_file(path)
    written = 0
    for cut in [*sorted(cuts), len(data)]:
        with path.open("ab") as file:
            file.write(data[written : max(written, cut)])
        written = max(written, min(cut, len(data)))
        index = index.refreshed()
    anew = open_file(path)
    assert (lines_of(index), index.scan.header, index.bad) == (lines_of(anew), anew.scan.header, anew.bad)
    assert (index.problems, index.abandoned) == (anew.problems, anew.abandoned)


def test_positions_outside_are_left_out(tmp_path: Path) -> None:
    index = open_file(write(tmp_path / "t.jsonl", message("a", None), message("b", "a")))
    assert [entry.number for entry in list(index.entries(-5, 99))] == [1, 2]
    assert list(index.entries(2, 1)) == []
    assert [entry.number for entry in list(index.entries(1, 2))] == [2]


def test_reading_can_be_stopped_within_one_long_line(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", b"x" * 20_000_000, *[message(None, None)] * 5)
    asked: list[int] = []

    def enough() -> bool:
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(CancelledError):
        open_file(path, cancelled=enough)
    assert len(asked) == 4
    index = open_file(path)
    with pytest.raises(CancelledError):
        list(index.entries(0, 1, cancelled=lambda: True))


# What cannot be opened


@pytest.mark.parametrize(
    ("name", "content", "code", "word"),
    [
        ("missing.jsonl", None, "TRANSCRIPT_NOT_FOUND", "There is no session file at"),
        ("a.jsonl.deleted.1.gz", b"", "TRANSCRIPT_COMPRESSED", "gzip -dc"),
        ("a.jsonl", b"\x28\xb5\x2f\xfd....", "TRANSCRIPT_COMPRESSED", "zstd -dc"),
        ("a.jsonl", b"\x1f\x8b....", "TRANSCRIPT_COMPRESSED", "gzip -dc"),
    ],
)
def test_one_sentence_says_why_it_cannot_be_opened(
    tmp_path: Path, name: str, content: bytes | None, code: str, word: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TranscriptError) as caught:
        open_file(path)
    assert caught.value.code == code
    assert word in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.message.endswith(".")


def test_folders_pipes_and_closed_files_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TranscriptError, match="is a folder"):
        open_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TranscriptError, match="Not a regular file"):
        open_file(tmp_path / "pipe")
    with pytest.raises(TranscriptMissingError):
        open_file(write(tmp_path / "file") / "below")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(TranscriptError, match="You may not read"):
        open_file(tmp_path / "file")


def test_an_empty_file_is_an_empty_transcript(tmp_path: Path) -> None:
    index = open_file(write(tmp_path / "t.jsonl"))
    assert (len(index), index.scan.header, index.problems, everything(index)) == (0, None, (), [])


# -- lines that two writers or a crash spoiled -----------------------------------------------------------


#: How a record follows the one before it: on its own line or not, after NULs, after a record that is cut.
JOINTS = st.sampled_from(["\n", "\n", "", " ", "\0" * 300, "\n\0\0", "cut", "cut", "\ncut"])


@st.composite
def spliced_files(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A file, and the ids of the whole records in it."""
    text, whole = json.dumps(SESSION, separators=(",", ":")) + "\n", []
    for number in range(draw(st.integers(1, 6))):
        content = draw(st.one_of(st.text(max_size=30), st.sampled_from(['{"a":1}', "}{", "a\u2028b", "{"])))
        more = {"details": draw(json_values), "message": {"role": "user", "content": content}}
        record = json.dumps(
            message(f"e{number}", None) | more, ensure_ascii=draw(st.booleans()), separators=(",", ":")
        )
        joint = draw(JOINTS)
        if joint.endswith("cut"):
            text += joint.removesuffix("cut") + record[: draw(st.integers(1, len(record) - 1))]
            continue
        text += joint + record
        whole.append(f"e{number}")
    return text + "\n", whole


@pytest.mark.long
@given(spliced_files())
def test_whole_records_are_read_wherever_they_stand_in_a_line(given: tuple[str, list[str]]) -> None:
    text, whole = given
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        index = open_file(path)
        assert list(index.scan.numbers) == whole
        imported = read_host_file(path, whole_records=True)
        if not any(one in text for one in ("\u2028", "\u2029", "\r")):
            assert [entry.node for entry in imported.entries] == whole
        else:
            assert {entry.node for entry in imported.entries} <= {*whole}  # lines end there, too
        spoiled = {problem.line for problem in index.problems if "parent" not in problem.reason}
        assert index.bad <= len(spoiled)


RECORD = json.dumps(message("e1", None, "x"))
#: A line, the ids of its whole records, and whether something is lost.
SPOILED = [
    (RECORD + RECORD.replace("e1", "e2"), ["e1", "e2"], False),
    (RECORD + " \t" + RECORD.replace("e1", "e2") + "\0", ["e1", "e2"], False),
    ("\0" * 9 + RECORD, ["e1"], False),
    (RECORD[:50] + RECORD, ["e1"], True),
    (RECORD[:-1] + RECORD, ["e1"], True),
    (RECORD + RECORD[:50], ["e1"], True),
    (RECORD[:90] + RECORD + RECORD.replace("e1", "e2") + RECORD[:20], ["e1", "e2"], True),
    (RECORD[60:] + RECORD, ["e1"], True),
    (RECORD + RECORD[60:], ["e1"], True),
    ('{"type":"message","id":"a","message":{"role":"user","content":"x"}', [], True),
    ('{"type":"message","id":"a","message":{"role":"user","content":[{"type":"text","text":"x"}', [], True),
    ('{"type":"message","id":"a","d":{"type":"message","id":"b","timestamp":1,"message":{}},"x', [], True),
    ('{"type":"message","content":[{"type":"toolCall","id":"c","arguments":{}}' + RECORD, ["e1"], True),
    ("\0\0\0", [], True),
    ("{" * 3000 + RECORD, ["e1"], True),
    ('{"a":' * 3000, [], True),
    ("{" * 3_000_000, [], True),
    ('{"a":"b ' * 200_000, [], True),
    ("{} " * 100_000, [], True),
    ("{}x" * 10_000 + RECORD, ["e1"], True),
    (RECORD.replace("e1", "\\ud800") + RECORD, ["\ud800", "e1"], False),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("line", "whole", "is_lost"), SPOILED, ids=range(len(SPOILED)))
def test_an_object_within_a_record_that_is_cut_is_no_record(
    line: str, whole: list[str], is_lost: bool, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{json.dumps(SESSION)}\n{line}\n")
    index = open_file(path)
    assert list(index.scan.numbers) == whole
    assert index.bad == is_lost
    assert [problem.line for problem in index.problems if "parent" not in problem.reason][:1] == [2]
    imported = read_host_file(path, whole_records=True)
    assert ([entry.node for entry in imported.entries], imported.bad_lines) == (whole, is_lost)
    assert read_host_file(path).entries == ()  # as the engine reads it


def test_a_cut_record_is_named_and_later_lines_are_read_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    cut = json.dumps(message("lost", "e1", "ü" * 40))[:120]
    lines = [
        json.dumps(SESSION),
        RECORD,
        cut + json.dumps(message("e3", "e1")),
        json.dumps(message("e4", "e3")),
    ]
    path.write_text("\n".join(lines) + "\n")
    index = open_file(path)
    assert [one.reason for one in index.problems] == [
        "1 record in it (lost) is cut off and lost; 1 whole record of the line is read"
    ]
    assert [entry.entry_id for entry in index.entries(0, 9)] == ["e1", "e3", "e4"]
    with path.open("a") as file:
        file.write(json.dumps(message("e5", "e4")) + json.dumps(message("e6", "e5")))
    longer = index.refreshed()
    assert [entry.entry_id for entry in longer.entries(0, 9)] == ["e1", "e3", "e4", "e5", "e6"]
    with path.open("a") as file:
        file.write("\n" + json.dumps(message("e7", "e6")) + "\n")
    assert [entry.entry_id for entry in longer.refreshed().entries(3, 9)] == ["e5", "e6", "e7"]
