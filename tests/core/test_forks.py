"""Forks, first imports and what an answer keeps beside its content, against what the engine recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lcm_core.engine.assembly import weight
from lcm_core.engine.blocks import live_message
from lcm_core.engine.pairing import fork_suffix, with_suffix
from lcm_core.engine.rules import RULES_PRESENT
from lcm_host.appending import Session
from lcm_host.backfill import kept_by_engine
from lcm_host.engine import Engine

from tests.databases import query
from tests.databases import run as write
from tests.support import recorded

RECORDED: dict[str, Any] = recorded("lcm-0.15.3.policy.json.xz")
KEY = Session("s1", "agent:main:main")


def messages(documents: Sequence[Any]):
    return tuple(map(live_message, documents))


def weigh(message) -> int:
    return weight(message, RULES_PRESENT)


@pytest.mark.parametrize(
    "case", [one for one in RECORDED["fork"] if "suffix" in one], ids=lambda one: one["name"]
)
def test_what_a_fork_holds_alone(case: dict[str, Any]) -> None:
    assembled, live = messages(case["assembled"]), messages(case["live"])
    assert fork_suffix(assembled, live, case["forkSourceMessageCount"]) == messages(case["suffix"])


FORKED = [
    (case, answer)
    for case, *answers in (
        RECORDED["fork"][at : at + 4] for at, one in enumerate(RECORDED["fork"]) if "suffix" in one
    )
    for answer in answers
]


@pytest.mark.parametrize(("case", "answer"), FORKED, ids=lambda one: f"{one['name']} {one.get('budget', '')}")
def test_it_stands_behind_what_was_assembled_within_the_budget(
    case: dict[str, Any], answer: dict[str, Any]
) -> None:
    found = with_suffix(messages(case["assembled"]), messages(case["suffix"]), answer["budget"], weigh)
    assert found.messages == messages(answer["messages"])
    assert (found.appended, found.evicted) == (answer["appended"], answer["evicted"])
    assert list(range(len(found.messages)))[len(found.messages) - found.appended :] == answer["protected"]
    if case["suffix"]:  # else the estimate is what the caller brought
        assert found.tokens == answer["estimatedTokens"]


def test_answers_at_the_end_of_a_fork_are_not_its_own() -> None:
    live = messages(
        [
            {"role": role, "content": role[0] + str(at)}
            for at, role in enumerate(["user", "assistant", "user", "assistant", "assistant"])
        ]
    )
    assert fork_suffix(live[:1], live, 2) == live[1:3]
    assert fork_suffix((), live, 9) == live[:3]


@pytest.mark.parametrize("case", RECORDED["bootstrap"]["trim"], ids=lambda one: str(one["tokens"]))
def test_what_a_first_import_keeps(case: dict[str, Any]) -> None:
    count = kept_by_engine(case["tokens"], case["max"])
    assert list(range(len(case["tokens"])))[len(case["tokens"]) - count :] == case["keptIndexes"]


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "case", RECORDED["topLevelReasoning"], ids=lambda one: one["stored"]["content"] or "-"
)
async def test_what_an_answer_keeps_beside_its_content(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    async with await Engine.open(path, large_files=tmp_path) as engine:
        await engine.ingest(KEY, case["message"])
        await engine.ingest(KEY, {"role": "user", "content": "next"})
        assembled = await engine.assemble(KEY, budget=100_000)
    [(role, content, tokens)] = query(path, "SELECT role, content, token_count FROM messages WHERE seq = 1")
    assert {"role": role, "content": content, "tokenCount": tokens} == case["stored"]
    stored = query(
        path,
        "SELECT part_type, ordinal, text_content, metadata FROM message_parts "
        "WHERE message_id = 1 ORDER BY ordinal",
    )
    for (kind, ordinal, text, metadata), part in zip(stored, case["parts"], strict=True):
        assert (kind, ordinal, text) == (part["type"], part["ordinal"], part["text"])
        assert json.loads(metadata) == part["metadata"]
    assert [one.document() for one in assembled.messages] == case["assembled"]
    assert assembled.estimated_tokens == case["estimatedTokens"]


async def test_a_fork_of_which_a_part_was_left_out_is_sent_what_the_host_holds_of_it(tmp_path: Path) -> None:
    live = [{"role": role, "content": f"{role} {at}"} for at in range(4) for role in ("user", "assistant")]
    live.append({"role": "user", "content": "and now?"})
    async with await Engine.open(tmp_path / "lcm.db", large_files=tmp_path) as engine:
        for one in live[2:6]:
            await engine.ingest(KEY, one)

        async def said() -> list[str]:
            found = await engine.assemble(KEY, budget=100_000, live=live)
            return [message.text for message in found.messages]

        every = [str(one["content"]) for one in live]
        assert await said() == every  # fewer rows than the host has messages: the database is behind
        mark = (
            "INSERT INTO conversation_bootstrap_state (conversation_id, session_file_path, last_seen_size, "
            "last_seen_mtime_ms, last_processed_offset, fork_bounded, fork_source_message_count) "
            "VALUES (1, '/x', 1, 1, 1, 1, 6)"
        )
        write(tmp_path / "lcm.db", mark)
        await engine.database.refresh()
        assert await said() == every[2:]
        write(tmp_path / "lcm.db", "CREATE TABLE pending_compaction_batches (batch_id TEXT)")
        await engine.database.refresh()
        assert await said() == every  # the 1.x line reads no mark that an upgraded file kept
        write(tmp_path / "lcm.db", "DROP TABLE pending_compaction_batches")
        write(tmp_path / "lcm.db", "DELETE FROM context_items")
        await engine.database.refresh()
        assert await said() == every[6:]


async def test_a_fork_that_was_read_before_there_were_marks_gets_one(tmp_path: Path) -> None:
    header = {"type": "session", "version": 3, "id": "s1", "parentSession": "/other.jsonl"}
    entry = {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "hi"}}
    transcript, database = tmp_path / "s1.jsonl", tmp_path / "lcm.db"
    transcript.write_text(f"{json.dumps(header)}\n{json.dumps(entry)}\n")
    marks = "SELECT fork_bounded, fork_source_message_count FROM conversation_bootstrap_state"
    async with await Engine.open(database, large_files=tmp_path) as engine:
        await engine.bootstrap(KEY, transcript)
        assert query(database, marks) == [(0, 1)]  # nothing was left out
        await engine.bootstrap(KEY, transcript)
        assert query(database, marks) == [(1, 1)]
