"""Codex sessions: how a rollout is found and read, and compared with its conversation."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lcm_core.api import NotFoundError, Options, resolve
from lcm_core.base.jsonl import TranscriptError
from lcm_core.store.conversations import get_conversation
from lcm_host import codex
from lcm_host.codex import (
    Spoken,
    compare_spoken,
    compare_with_codex,
    read_held,
    read_rollout,
)

from tests.change.support import planned
from tests.conftest import DatabaseFactory
from tests.core.rollouts import THREAD, as_rollout, event, item, line, message, rollout_at
from tests.databases import building, value


def read(tmp_path: Path, *lines: str | bytes, end: str = "\n") -> codex.Rollout:
    path = tmp_path / "rollout.jsonl"
    written = b"\n".join(one if isinstance(one, bytes) else one.encode() for one in lines)
    path.write_bytes(written + end.encode())
    return read_rollout(path)


def said(rollout: codex.Rollout) -> list[tuple[str, str, str]]:
    return [(one.role, one.text, one.where) for one in rollout.rows]


# -- reading ---------------------------------------------------------------------------------------------


def test_what_each_line_says(tmp_path: Path):
    found = read(
        tmp_path,
        line("session_meta", {"id": THREAD}),
        message("user", "one", "two"),
        item("reasoning", summary=[{"type": "summary_text", "text": "why"}], content=None),
        item("function_call", name="read", arguments='{ "path": "a.py" }', call_id="c1"),
        item("function_call_output", call_id="c1", output=[{"type": "text", "text": "body"}]),
        item("custom_tool_call", name="patch", input="*** Begin", call_id="c2"),
        item("custom_tool_call_output", call_id="c2", output={"content": "done"}),
        item("local_shell_call", action={"command": ["ls"]}),
        line("compacted", {"message": "shorter"}),
        event("token_count", None),
    )
    assert said(found) == [
        ("user", "one\ntwo", "line 2"),
        ("reasoning", "why", "line 3"),
        ("call", 'read {"path":"a.py"}', "line 4"),
        ("result", "body", "line 5"),
        ("call", "patch *** Begin", "line 6"),
        ("result", "done", "line 7"),
        ("call", 'local_shell {"command":["ls"]}', "line 8"),
    ]
    assert found.others == {"session_meta": 1, "compacted": 1, "event_msg token_count": 1}
    assert (found.reading.lines, found.reading.problems.count, found.complete) == (10, 0, True)


def test_what_the_import_would_refuse_is_compared_and_said(tmp_path: Path):
    found = read(tmp_path, line("session_meta", {"id": THREAD}), message("user", "a"), end="")
    assert (len(found.rows), found.reading.problems.count) == (1, 0)
    assert found.reading.refused == "line 2 does not end with a newline: Codex may be writing it"


HOSTILE: Sequence[str | bytes] = (
    "[]",
    "7",
    "{}",
    b"\xff\xfe{",
    '{"payload": 7}',
    line("response_item", []),
    line("response_item", {"type": ["message"], "role": {}, "content": 7}),
    line("response_item", {"type": "message", "role": 5, "content": {"text": {"text": {"text": {}}}}}),
    line("response_item", {"type": "reasoning", "summary": 3, "content": [None, [], {}]}),
    line("response_item", {"type": "function_call", "name": None, "arguments": "{" * 2_000}),
    line("response_item", {"type": "function_call_output", "output": None}),
    line("event_msg", {"type": {"a": 1}, "message": ["x"]}, at=[1]),
    line("event_msg", {"type": "user_message", "message": {"text": 1}}, at=1e300),
    '{"type": "response_item", "payload": ' + "[" * 5_000,
    '{"type": "event_msg", "payload": {"type": "user_message", "message": NaN}}',
)


def test_lines_of_any_kind_are_read_or_passed_over(tmp_path: Path):
    found = read(tmp_path, *HOSTILE, message("user", "still \ud800 here"), '{"type": "resp', end="")
    assert found.rows[-1].text.startswith("still")
    assert found.reading.problems.kept[-1].line == len(HOSTILE) + 2
    assert found.reading.problems.kept[-1].reason.startswith("unfinished, ")
    assert found.reading.problems.count == 8
    assert isinstance(compare_spoken(found, 0, found.rows).same, int)


def test_no_more_is_held_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codex, "MOST_ROWS", 3)
    monkeypatch.setattr(codex, "TEXT_LIMIT", 10)
    found = read(tmp_path, *(message("user", f"{number} " + "x" * 100) for number in range(9)))
    assert (len(found.rows), found.complete) == (3, False)
    assert found.rows[0].text == "0 xxxxxxxx\n… 92 more characters"


def test_what_is_no_file_is_refused(tmp_path: Path):
    for path in (tmp_path, tmp_path / "none.jsonl", Path(os.devnull)):
        with pytest.raises(TranscriptError):
            read_rollout(path)


# -- finding ---------------------------------------------------------------------------------------------


def test_the_newest_rollout_of_the_thread_in_all_homes(tmp_path: Path):
    transcript = tmp_path / "agents" / "main" / "sessions" / "s.jsonl"
    transcript.parent.mkdir(parents=True)
    own, other = tmp_path / "agents" / "main" / "agent" / "codex-home", tmp_path / "codex"
    paths = [rollout_at(own, "2026/03/02"), rollout_at(other, "2026/04/01"), rollout_at(own, "2025/12/31")]
    for path in (*paths, rollout_at(own, "2026/05/01", thread="0199bbbb")):
        path.write_text("{}\n")
    (own / "sessions" / "2027").symlink_to(tmp_path)
    binding = transcript.with_name("s.jsonl.codex-app-server.json")
    conversation = SimpleNamespace(conversation_id=1, session_id="s", agent=None)
    settings = settings_of(tmp_path / "lcm.db")

    def found(environ: dict[str, str]) -> list[Path]:
        return codex.find_codex([transcript], conversation, settings, environ)

    with pytest.raises(NotFoundError, match="no Codex session"):
        found({})
    for bad in ("[", "[]", '{"threadId": 7}', '{"threadId": " "}'):
        binding.write_text(bad)
        with pytest.raises(NotFoundError, match="no Codex session"):
            found({})
    binding.write_text(json.dumps({"threadId": THREAD}))
    assert found({"CODEX_HOME": str(other)}) == [paths[1], paths[0], paths[2]]
    assert found({}) == [paths[0], paths[2]]


# -- comparing -------------------------------------------------------------------------------------------


def settings_of(path: Path):
    return resolve(Options(db=path, openclaw_dir=path.parent), {}, home=path.parent)


def compared(path: Path, conversation: int, rollout: Path | None = None):
    settings = settings_of(path)

    async def load(reader) -> Any:
        return await read_held(reader, await get_conversation(reader, conversation), settings)

    return compare_with_codex(asyncio.run(planned(path, load)), settings, {}, rollout)


@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
def test_a_conversation_is_like_the_session_it_was_held_in(
    database_file: DatabaseFactory, tmp_path: Path, version: str
):
    path = database_file(version)
    rollout = tmp_path / "rollout.jsonl"
    lines = as_rollout(path, 3)
    rollout.write_text("\n".join(lines))
    whole = compared(path, 3, rollout)
    assert (whole.only_codex, whole.only_conversation, whole.elsewhere) == ((), (), 0)
    assert whole.same == len(whole.rollout.rows) == len(whole.new_text.rows) > 100
    assert not whole.diff.hunks
    first = next(at for at, one in enumerate(lines) if '"function_call"' in one)
    rollout.write_text("\n".join([*lines[:first], *lines[first + 1 :], message("user", "never stored")]))
    found = compared(path, 3, rollout)
    assert [one.role for one in found.only_conversation] == ["call"]
    assert [one.text for one in found.only_codex] == ["never stored"]
    assert found.same == whole.same - 1
    last = len(found.old_text.lines) - 2
    assert found.old_text.heading_at(last) == f"== user · line {len(lines):,}"


def test_what_is_at_another_place_is_no_loss(tmp_path: Path):
    found = read(tmp_path, *(message("user", text) for text in "abcd"))
    moved = [Spoken("user", text, f"seq {text}", None) for text in "bcda"]
    result = compare_spoken(found, 0, moved)
    assert (result.same, result.elsewhere, result.only_codex, result.only_conversation) == (3, 1, (), ())


def test_the_binding_beside_the_transcript_leads_to_it(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    session = value(path, "SELECT session_id FROM conversations WHERE conversation_id = 7")
    with pytest.raises(NotFoundError, match="is bound to no Codex session"):
        compared(path, 7)
    folder = path.parent / "agents" / "ops"
    (folder / "sessions").mkdir(parents=True)
    binding = folder / "sessions" / f"{session}.jsonl.codex-app-server.json"
    binding.write_text(json.dumps({"threadId": THREAD}))
    with pytest.raises(NotFoundError, match="has no rollout in"):
        compared(path, 7)
    for date in ("2026/03/02", "2026/02/27"):
        rollout_at(folder / "agent" / "codex-home", date).write_text("\n".join(as_rollout(path, 7)))
    found = compared(path, 7)
    assert (found.rollout.path.parent.name, found.older) == ("02", 1)
    assert (found.only_codex, found.only_conversation) == ((), ())


def test_odd_values_in_the_conversation_are_compared(database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("0.15.3")
    with building(path, checks=False) as db:
        db.execute("UPDATE messages SET content = x'00ff', seq = 'x' WHERE conversation_id = 7 AND seq = 3")
        db.execute("UPDATE messages SET role = 7, created_at = 5 WHERE conversation_id = 7 AND seq = 4")
        db.execute("UPDATE message_parts SET tool_input = 9, tool_name = x'ff' WHERE tool_name IS NOT NULL")
    rollout = tmp_path / "rollout.jsonl"
    rollout.write_text(message("user", "x"))
    assert len(compared(path, 7, rollout).only_conversation) > 10


@pytest.mark.long
def test_long_sessions_are_compared_in_proportion(tmp_path: Path):
    """Nothing alike, and everything alike but shifted: neither takes the square of the lines."""
    lines = [message("user", f"word {number}\nsecond line {number % 7}") for number in range(6_000)]
    found = read(tmp_path, *lines)
    texts = [f"other {number}\nsecond line {number % 5}" for number in range(6_000)]
    strangers = [Spoken("assistant", text, "", None) for text in texts]
    began = time.monotonic()
    assert compare_spoken(found, 0, strangers).same == 0
    assert compare_spoken(found, 0, found.rows[5:]).same == 5_995
    assert time.monotonic() - began < 20


def test_a_conversation_that_is_not_there(database_file: DatabaseFactory):
    with pytest.raises(NotFoundError):
        compared(database_file("0.15.3"), 99)
