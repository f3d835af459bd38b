"""From a host's message to rows: against every row that the real engine wrote, and beyond."""

from __future__ import annotations

import json
import re
from collections import UserList
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.javascript import js_json, js_number, read_json, well_formed
from lcm_core.engine.rules import RULES_PRESENT
from lcm_core.engine.sessions import is_acknowledgement, is_poll
from lcm_core.engine.stored_parts import entry_hash, identity_of
from lcm_core.store.messages import new_file_id
from lcm_host.messages import (
    HostMessage,
    StoredMessage,
    read_host_file,
    read_messages,
    store_message,
    stored_time,
)

from tests.databases import rows
from tests.support import with_values

PARTS = ("part_type", "text_content", "tool_call_id", "tool_name", "tool_input", "tool_output", "metadata")


def stored(message: dict[str, Any]) -> StoredMessage:
    found = store_message(HostMessage(message), RULES_PRESENT.ingest)
    assert isinstance(found, StoredMessage)
    return found


def parts(message: StoredMessage) -> list[tuple[object, ...]]:
    return [
        (
            one.part_type,
            one.text,
            one.tool_call_id,
            one.tool_name,
            one.tool_input,
            one.tool_output,
            one.metadata,
        )
        for one in message.parts
    ]


def ids_in(content: str) -> Callable[[], str]:
    """The file ids of a stored text in the order in which the engine made them: images first."""
    found = re.findall(r"file_[0-9a-f]{16}", content)
    images = [one for one in found if f"LCM file: {one}" in content]
    order: Iterator[str] = iter([*images, *(one for one in found if one not in images)])
    return lambda: next(order)


# The transcripts of the demonstration against the rows that the engine made of them


@pytest.mark.long
def test_every_row_of_the_recorded_database(openclaw_home: Path) -> None:
    database = openclaw_home / "lcm.db"
    compared, files = 0, 0
    for conversation in rows(database, "SELECT conversation_id, session_id FROM conversations"):
        [path] = (openclaw_home / "agents").glob(f"*/sessions/{conversation['session_id']}.jsonl")
        stored = rows(
            database, "SELECT * FROM messages WHERE conversation_id = ? ORDER BY seq", conversation[0]
        )
        by_entry = {row["transcript_entry_id"]: row for row in stored}
        file = read_host_file(path)
        # The engine itself stored two messages of one turn a second time, without their entry ids.
        assert len(file.on_path) == sum(row["transcript_entry_id"] is not None for row in stored)
        assert len(stored) - len(file.on_path) == (2 if conversation["conversation_id"] == 3 else 0)
        hosts = list(read_messages(file, file.messages))
        assert [one for one in by_entry if one] == [host.entry_id for host in hosts]
        for host in hosts:
            row = by_entry[host.entry_id]
            message = store_message(
                host,
                with_values(RULES_PRESENT, large_file_token_threshold=2000).ingest,
                new_id=ids_in(row["content"]),
            )
            assert isinstance(message, StoredMessage)
            assert (message.role, message.content, message.tokens) == (
                row["role"],
                row["content"],
                row["token_count"],
            )
            assert message.identity == row["identity_hash"]
            assert message.event_key == row["stable_event_key"]
            assert message.created_at == row["created_at"]
            assert message.sender is None
            made = rows(database, "SELECT * FROM message_parts WHERE message_id = ? ORDER BY ordinal", row[0])
            assert parts(message) == [tuple(part[name] for name in PARTS) for part in made]
            for payload in message.payloads:
                [file] = rows(database, "SELECT * FROM large_files WHERE file_id = ?", payload.file_id)
                assert (payload.file_name, payload.mime) == (file["file_name"], file["mime_type"])
                assert (len(payload.data), payload.lines) == (file["byte_size"], file["line_count"])
                assert payload.summary == file["exploration_summary"]
                assert file["storage_uri"].endswith(f"/{payload.stored_name}")
                kept = openclaw_home / "lcm-files" / str(conversation[0]) / payload.stored_name
                assert payload.data == kept.read_bytes()
                files += 1
            compared += 1
    assert (compared, files) == (863, 9)


@pytest.mark.long
def test_what_the_parts_keep_gives_the_same_rows(database_file: Callable[[str], Path]) -> None:
    """The host's message, put together again from the blocks that the parts keep."""
    database = database_file("0.15.3")
    compared = 0
    for row in rows(database, "SELECT * FROM messages"):
        made = rows(database, "SELECT * FROM message_parts WHERE message_id = ? ORDER BY ordinal", row[0])
        kept = [json.loads(part["metadata"]) for part in made]
        if not kept or "originalRole" not in kept[0] or "externalizedFileIds" in kept[0]:
            continue  # an event of the engine, a bulk import without parts, a text that held a file
        message: dict[str, Any] = {
            key: kept[0][key] for key in ("toolName", "isError", "toolCallId") if key in kept[0]
        }
        names = {"modelProvider": "provider", "modelApi": "api", "modelId": "model", "originalRole": "role"}
        message |= {name: kept[0][key] for key, name in names.items() if key in kept[0]}
        if row["role"] == "tool":
            message["toolCallId"] = made[0]["tool_call_id"]
        blocks = [one.get("raw") for one in kept]
        message["content"] = blocks if all(blocks) else made[0]["text_content"]
        again = stored(message)
        assert (again.content, again.tokens) == (row["content"], row["token_count"]), row["message_id"]
        assert parts(again) == [tuple(part[name] for name in PARTS) for part in made]
        compared += 1
    assert compared >= 850


# Shapes that the recordings do not hold


def test_roles_that_are_not_stored() -> None:
    for role in ("bashExecution", "developer", "custom", "User", "", None, 5):
        message: dict[str, Any] = {"role": role, "content": "x", "command": "ls", "output": "a"}
        assert (
            store_message(HostMessage(message), RULES_PRESENT.ingest)
            == "of roles that the engine does not store"
        )
    command = stored({"role": "user", "command": "ls", "output": "a\nb"})
    assert (command.content, command.parts[0].part_type) == ("$ ls\na\nb", "text")
    assert json.loads(command.parts[0].metadata)["source"] == "bash-exec"


def test_results_in_blocks_of_a_user() -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "out"}]}
    message = stored({"role": "user", "content": [block, {"type": "text", "text": "and?"}]})
    assert message.content == "and?"
    assert [part.part_type for part in message.parts] == ["tool", "text"]
    assert (message.parts[0].tool_call_id, message.parts[0].tool_output) == ("toolu_1", None)
    assert json.loads(message.parts[0].metadata)["raw"] == block


def test_what_is_no_known_block_stays_whole() -> None:
    message = stored({"role": "assistant", "content": [{"type": "video", "x": 1}, "loose", 7]})
    assert [part.part_type for part in message.parts] == ["agent", "agent", "agent"]
    assert json.loads(message.parts[0].metadata)["raw"] == {"type": "video", "x": 1}
    assert json.loads(message.parts[2].metadata)["raw"] == 7


def test_a_message_without_content_keeps_what_it_has() -> None:
    message = stored({"role": "assistant", "summary": "s", "tokensBefore": 9})
    assert (message.content, message.parts[0].part_type) == ("", "agent")
    assert json.loads(message.parts[0].metadata)["raw"]["summary"] == "s"


def test_redacted_reasoning_and_reasoning_with_a_summary() -> None:
    content = [
        {"type": "redacted_thinking", "data": "x"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]},
    ]
    message = stored({"role": "assistant", "content": content})
    assert [(part.part_type, part.text) for part in message.parts] == [
        ("reasoning", None),
        ("reasoning", "why"),
    ]


def test_signatures_count_only_where_the_model_is_known() -> None:
    block = {"type": "thinking", "thinking": "hm", "thinkingSignature": "S" * 400}
    bare = stored({"role": "assistant", "content": [block]})
    known = stored(
        {"role": "assistant", "content": [block], "provider": "anthropic", "api": "x", "model": "y"}
    )
    assert (bare.tokens, known.tokens) == (10, 115)


@pytest.mark.parametrize(
    ("call", "key"),
    [
        ("toolu_01SZduC9r5ERPnKN3BepiG", "tool-result:toolu_01SZduC9r5ERPnKN3BepiG"),
        ("call_abcdefABCDEF", "tool-result:call_abcdefABCDEF"),
        ("call_short", None),
        ("call_y8sy43X4V3p5SMKDNc5X|fc_b64bcbb5957da8266d91", None),
        ("functions.exec:3", None),
    ],
)
def test_only_ids_that_a_provider_minted_name_an_event(call: str, key: str | None) -> None:
    assert stored({"role": "toolResult", "toolCallId": call, "content": "x"}).event_key == key


def test_an_answer_is_named_by_its_response() -> None:
    assert stored({"role": "assistant", "content": "x", "responseId": "r1"}).event_key == (
        "assistant-response:r1"
    )


def test_the_hash_of_the_last_entry_is_the_recorded_one(openclaw_home: Path) -> None:
    database = openclaw_home / "lcm.db"
    states = rows(
        database,
        """SELECT s.last_processed_entry_hash, m.role, m.content FROM conversation_bootstrap_state AS s
        JOIN messages AS m ON m.conversation_id = s.conversation_id
        AND m.transcript_entry_id = s.last_processed_entry_id""",
    )
    assert len(states) == 8
    assert all(entry_hash(row[1], row[2]) == row[0] for row in states)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            {"role": "assistant", "content": [], "stopReason": "error"},
            "empty answers of a turn that failed or was stopped",
        ),
        (
            {"role": "assistant", "content": "", "stopReason": "aborted"},
            "empty answers of a turn that failed or was stopped",
        ),
        ({"role": "assistant", "stop_reason": "error"}, "empty answers of a turn that failed or was stopped"),
        (
            {
                "role": "assistant",
                "content": "\n OpenClaw runtime context for the immediately preceding user message. "
                "This context is runtime-generated, not user-author. And so on",
            },
            "runtime context of the host",
        ),
    ],
)
def test_what_the_engine_does_not_store(message: dict[str, Any], reason) -> None:
    assert store_message(HostMessage(message), RULES_PRESENT.ingest) == reason


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": "OpenClaw runtime context\nx"},
        {"role": "assistant", "content": [], "stopReason": "stop"},
        {"role": "assistant", "content": [{"type": "text", "text": ""}], "stopReason": "error"},
        {"role": "user", "content": [], "stopReason": "error"},
        {
            "role": "assistant",
            "content": [{"type": "toolCall", "id": "a", "name": "b"}],
            "stopReason": "error",
        },
    ],
)
def test_blank_messages_are_stored_as_the_recordings_have_them(message: dict[str, Any]) -> None:
    assert isinstance(store_message(HostMessage(message), RULES_PRESENT.ingest), StoredMessage)


def test_heartbeats_are_recognised() -> None:
    assert is_poll("user", " [OpenClaw heartbeat POLL]\n")
    assert not is_poll("user", "HEARTBEAT: check tasks")
    assert not is_poll("assistant", "[openclaw heartbeat poll]")
    assert is_acknowledgement("assistant", " HEARTBEAT_OK\n")
    assert not is_acknowledgement("assistant", "HEARTBEAT_OK.")


def test_who_of_a_group_wrote_it() -> None:
    told = {"senderName": "李雷", "senderId": " 4 ", "senderUsername": " ", "more": 1}
    message = {"role": "user", "content": "x", "senderId": "5", "__openclaw": told}
    assert stored(message).sender == '{"senderId":" 4 ","senderName":"李雷"}'
    assert stored({**message, "role": "system"}).sender is None
    assert stored({**message, "__openclaw": "x"}).sender is None


@pytest.mark.parametrize(
    ("message", "entry_time", "wanted"),
    [
        ({"timestamp": 1772440631999}, "2026-01-01T00:00:00Z", "2026-03-02 08:37:11"),
        ({"timestamp": None, "createdAt": 0}, None, "1970-01-01 00:00:00"),
        ({"created_at": -1}, None, "1969-12-31 23:59:59"),
        ({"timestamp": "nonsense"}, "2026-01-01T00:00:00Z", None),  # nothing further is looked at
        ({"timestamp": " "}, " 2026-01-01 ", "2026-01-01 00:00:00"),
        ({"timestamp": True, "createdAt": 5}, "2026-01-01T00:00:00Z", "2026-01-01 00:00:00"),
        ({"timestamp": "2026-02-03 04:05:06"}, None, "2026-02-03 04:05:06"),
        ({"timestamp": "2026-02-03T04:05:06.789+05:30"}, None, "2026-02-02 22:35:06"),
        ({"timestamp": 8.64e15}, None, "+275760-09-13 00:00"),
        ({"timestamp": 8.64e15 + 1}, "2026-01-01T00:00:00Z", None),
        ({"timestamp": -8.64e15}, None, "-271821-04-20 00:00"),
        ({"timestamp": 10**400}, None, None),
        ({}, 5, None),
    ],
)
def test_times(message: dict[str, Any], entry_time: Any, wanted: str | None) -> None:
    assert stored_time(message, entry_time if isinstance(entry_time, str) else None) == wanted


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_every_second_of_the_calendar(seconds: int) -> None:
    told = stored_time({"timestamp": seconds * 1000})
    assert told is not None
    assert stored_time({"timestamp": told}) == told
    assert stored_time({"timestamp": f"{told.replace(' ', 'T')}.999Z"}) == told


def test_ids_of_files() -> None:
    assert new_file_id() != new_file_id()
    assert re.fullmatch(r"file_[0-9a-f]{16}", new_file_id())


# A transcript, line by line


def write(path: Path, *lines: object) -> Path:
    raw = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def line(entry: str, parent: str | None, text: object = "x", **more: object) -> dict[str, object]:
    return {
        "type": "message",
        "id": entry,
        "parentId": parent,
        "message": {"role": "user", "content": text},
        **more,
    }


def test_a_missing_time_is_inherited_where_nobody_is_to_be_told_that_it_was_now(tmp_path: Path) -> None:
    begun = {"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00.500Z"}
    path = write(
        tmp_path / "s.jsonl",
        begun,
        line("a", None),
        line("b", "a", timestamp="2026-01-02T00:00:00Z"),
        line("c", "b"),
    )
    file = read_host_file(path)
    inherited = [one.created_at for one in read_messages(file, file.messages, inherit=True)]
    assert inherited == ["2026-01-01 00:00:00", "2026-01-02 00:00:00", "2026-01-02 00:00:00"]
    own = [one.created_at for one in read_messages(file, file.messages)]
    assert own == [None, "2026-01-02 00:00:00", None]


@pytest.mark.long
def test_lines_of_any_length_and_bytes_of_any_kind(tmp_path: Path) -> None:
    long = "ж" * 9_000_000  # 18 MB: more than the screens would read of a line
    path = write(
        tmp_path / "s.jsonl",
        line("a", None, long),
        b"{not json",
        b'{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"\xff\\ud800"}}',
    )
    file = read_host_file(path)
    first, second = read_messages(file, file.messages)
    assert first.message["content"] == long
    assert second.message["content"] == "\ufffd\ud800"
    assert stored(second.message).content == "\ufffd\ufffd"
    assert (file.bad_lines, file.problems[0].line) == (1, 2)


# JSON as the engine's language writes it


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1.5e-7, "1.5e-7"),
        (1e-6, "0.000001"),
        (123456789012345680000, "123456789012345680000"),
        (2**64, "18446744073709552000"),
        (float("inf"), "null"),
        (5e-324, "5e-324"),
        (10**400, "null"),
    ],
)
def test_numbers(number: float, text: str) -> None:
    assert js_number(number) == text


def test_keys_that_are_indexes_come_first() -> None:
    value = read_json('{"b":1,"10":2,"9":3,"01":4,"a":[1.0,{"1":0}]}')
    assert js_json(value) == '{"9":3,"10":2,"b":1,"01":4,"a":[1,{"1":0}]}'


def test_values_of_any_kind_are_looked_through() -> None:
    mapping = MappingProxyType({"b": None, "1": True})
    assert js_json(UserList(["x", mapping, 1.0])) == '["x",{"1":true,"b":null},1]'
    assert js_json(("x", {"y": [{"z": [2.0]}]})) == '["x",{"y":[{"z":[2]}]}]'


def test_what_is_assembled_is_written_alike() -> None:
    value = read_json('{"b":1.0,"10":1e-7,"2":0.00001,"c":[1.5e-8,1e16,-0.0],"d":"1.0"}')
    assert js_json(value) == '{"2":0.00001,"10":1e-7,"b":1,"c":[1.5e-8,10000000000000000,0],"d":"1.0"}'


def test_half_a_pair_is_escaped_in_json_and_replaced_in_text() -> None:
    assert js_json({"a": "x\ud83d"}) == '{"a":"x\\ud83d"}'
    assert well_formed("x\ud83d") == "x\ufffd"
    assert identity_of("user", "\ud800") == identity_of("user", "\ufffd")


@pytest.mark.long
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
        max_leaves=10,
    )
)
def test_what_was_written_reads_the_same(value: Any) -> None:
    assert json.loads(js_json(value)) == value
