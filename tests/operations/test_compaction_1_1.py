"""Forced sweeps of 1.1 do what its engine did in the recordings: after an overflow, of groups, upgraded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.compact import CompactionSetting, Runner
from lcm_core.writers.request import SummaryReply
from lcm_core.writers.source import Rendering

from tests.conftest import DatabaseFactory
from tests.databases import connect, query
from tests.operations.compacting import report, with_config
from tests.support import recorded

SHAPES: dict[str, Any] = recorded("lcm-1.1.0-shapes.expected.json.xz")
UPGRADED: dict[str, Any] = recorded("lcm-1.1.0-upgraded.expected.json.xz")


@dataclass
class Gists:
    """The summariser of the recordings."""

    write: Callable[[int, str], str]
    made: int = 0
    calls: list[tuple[str, str | None]] = field(default_factory=list)

    async def __call__(self, request, /) -> SummaryReply:
        self.made += 1
        self.calls.append((request.text, request.previous))
        return SummaryReply(self.write(self.made, request.text), "unknown")


async def swept(
    path: Path, conversation: int, config: dict[str, Any], budget: int, gists: Gists, *, recovers: bool
):
    async with await Database.open(path) as database:
        rules = with_config(engine_rules(database.schema), config)
        setting = CompactionSetting(Rendering(rules, UTC), budget, current_turn=recovers)
        runner = Runner(database, conversation, setting, gists, lambda passes: passes.sweep(force=True))
        async for _ in runner.steps():
            pass
    assert runner.result is not None
    return runner.result


def summaries_of(path: Path, conversation: int) -> list[tuple[object, ...]]:
    """What each leaf was made from, its text and its numbers, in order."""
    return query(
        path,
        """SELECT (SELECT group_concat(message_id) FROM (SELECT message_id FROM summary_messages AS l
            WHERE l.summary_id = s.summary_id ORDER BY ordinal)), content, token_count,
            source_message_token_count, earliest_at, latest_at, model, depth
        FROM summaries AS s WHERE conversation_id = ? ORDER BY rowid""",
        conversation,
    )


def context_of(path: Path, conversation: int) -> list[object]:
    """The context, where a summary stands for the first message that it was made from."""
    return query(
        path,
        """SELECT c.ordinal, c.item_type, ifnull(c.message_id, (SELECT message_id FROM summary_messages AS l
            WHERE l.summary_id = c.summary_id ORDER BY ordinal LIMIT 1))
        FROM context_items AS c WHERE conversation_id = ? ORDER BY ordinal""",
        conversation,
    )


def rewind(path: Path, conversation: int) -> None:
    """The conversation as it was before it was compacted: nothing but its messages."""
    with connect(path) as connection:
        for statement in (
            "DELETE FROM context_items WHERE conversation_id = :c",
            "DELETE FROM summary_messages WHERE message_id IN "
            "(SELECT message_id FROM messages WHERE conversation_id = :c)",
            "DELETE FROM summaries WHERE conversation_id = :c",
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) "
            "SELECT conversation_id, seq - 1, 'message', message_id FROM messages "
            "WHERE conversation_id = :c ORDER BY seq",
        ):
            connection.execute(statement, {"c": conversation})


#: Those with a recorded sweep, and two whose sweep only left its rows.
@pytest.mark.cases(1)
@pytest.mark.parametrize("conversation", [1, 2, 3, 4, 5])
async def test_a_sweep_of_1_1_makes_the_recorded_summaries(
    conversation: int, database_copy: DatabaseFactory
) -> None:
    path = database_copy("1.1.0-shapes")
    summaries, context = summaries_of(path, conversation), context_of(path, conversation)
    [first] = re.findall(r"Gist (\d+):", str(summaries[0][1]))
    gists = Gists(lambda made, text: f"Gist {made}: {' '.join(text.split()[:18])}", made=int(first) - 1)
    rewind(path, conversation)
    wanted = SHAPES["sweeps"].get(str(conversation))
    recovers = conversation != 5
    result = await swept(path, conversation, SHAPES["compactionConfig"], 1_000, gists, recovers=recovers)
    assert summaries_of(path, conversation) == summaries
    assert context_of(path, conversation) == context
    if wanted is not None:
        assert wanted["recovery"] is recovers
        assert gists.calls == [
            (one["source"], one["options"].get("previousSummary")) for one in wanted["calls"]
        ]
        created = {} if not result.created else {result.created[-1]: wanted["result"]["createdSummaryId"]}
        assert report(result, created) == wanted["result"]


@pytest.mark.cases(2)
@pytest.mark.parametrize("conversation", sorted(UPGRADED["sweeps"], key=int))
async def test_a_sweep_of_an_upgraded_file_gives_the_recorded_texts(
    conversation: str, database_copy: DatabaseFactory
) -> None:
    wanted = UPGRADED["sweeps"][conversation]
    gists = Gists(lambda made, text: f"S{made} {text[:120]}")
    config = {"freshTailCount": UPGRADED["freshTailCount"], "leafChunkTokens": 1_200}
    path = database_copy("1.1.0-upgraded")
    result = await swept(path, int(conversation), config, 8_000, gists, recovers=False)
    assert gists.calls == [(one["source"], one["previous"]) for one in wanted["calls"]]
    created = {} if not result.created else {result.created[-1]: wanted["result"]["createdSummaryId"]}
    assert report(result, created) == wanted["result"]
