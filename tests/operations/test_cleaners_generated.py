"""The engine's cleaners over generated conversations, against plain SQL written from their description.

docs/spec/doctor.md, "Its cleaners": the only recording has a match of one of the three.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from lcm_core.operations.prune import Cleaner, Cleaning, Criteria, selection

from tests.change.support import planned
from tests.databases import building, column, new_database, query

AGENTS = ("main", "ops-2", "a:b")
#: What a cleaner matches, of the agent ``:agent``.
BEGINS = """SELECT conversation_id FROM conversations WHERE typeof(session_key) = 'text'
    AND lower(substr(session_key, 1, 7 + length(:agent))) = 'agent:' || :agent || ':'
    AND substr(session_key, 1, 6) = 'agent:'
    AND substr(session_key, 8 + length(:agent), length(:lane)) = :lane"""
ORACLE = {
    Cleaner.ARCHIVED_SUBAGENTS: (f"{BEGINS} AND active = 0", "subagent:"),
    Cleaner.CRON_SESSIONS: (BEGINS, "cron:"),
    Cleaner.NULL_SUBAGENT_CONTEXT: (
        """SELECT conversation_id FROM conversations AS c
        WHERE session_key IS NULL AND active = 0 AND archived_at IS NOT NULL
        AND (SELECT substr(CAST(content AS TEXT), 1, 18) FROM messages AS m
            WHERE m.conversation_id = c.conversation_id ORDER BY seq LIMIT 1) = '[Subagent Context]'""",
        None,
    ),
}
FIRST = (
    *("[Subagent Context] go", "[Subagent Context]", "[subagent context]", "[Subagent Context", "x", ""),
    *(" [Subagent Context]", "\n[Subagent Context]", "缓存 [Subagent Context]", "[Subagent Context]\x00"),
    b"[Subagent Context] \xff",
)
HEADS = ("agent:", "agent:", "agent:", "Agent:", " agent:", "xagent:", "")
NAMES = (*AGENTS, "MAIN", "main ", "other", "", "m_in", "%", "main:telegram")
LANES = (
    ":subagent:",
    ":subagent:",
    ":cron:",
    ":cron:",
    ":Cron:",
    ":subagents:",
    ":cron",
    "cron:",
    ":main",
    "",
)
RESTS = ("", "1", "x:cron:1", "x:subagent:2", "缓存")


def fill(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with building(path, checks=False) as rows:
        rows.execute("DROP INDEX IF EXISTS conversations_active_session_key_idx")
        for number in range(1, 60):
            key = "".join(map(rng.choice, (HEADS, NAMES, LANES, RESTS)))
            rows.conversation(
                number,
                session_key=rng.choice((None, None, key, key, key, key)),
                active=rng.choice((0, 0, 1)),
                archived_at=rng.choice((None, "2026-03-01 00:00:00", "2026-03-01T00:00:00.000Z", "")),
            )
            for seq in rng.sample(range(1, 9), rng.randint(0, 3)):
                rows.message(number, "", seq=seq, role=rng.choice(("system", "user")))
                said = rng.choice(FIRST)
                rows.execute("UPDATE messages SET content = ? WHERE rowid = last_insert_rowid()", said)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(one, marks=pytest.mark.long) for one in range(3, 60))]
)
def test_the_cleaners_select_what_their_description_says(seed: int, tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    fill(path, seed)
    every: set[int] = set()
    for cleaner, (sql, lane) in ORACLE.items():
        expected: set[int] = set()
        for agent in AGENTS if lane else ("",):
            filled = sql.replace(":agent", f"'{agent}'").replace(":lane", f"'{lane}'")
            expected |= set(column(path, filled))
        found = asyncio.run(planned(path, selection, Criteria(cleaning=Cleaning((cleaner,), AGENTS))))
        assert {one.id for one in found.conversations} == expected, cleaner
        counts = dict(query(path, "SELECT conversation_id, count(*) FROM messages GROUP BY 1"))
        assert {one.id: one.messages for one in found.conversations} == {
            one: counts.get(one, 0) for one in expected
        }
        every |= expected
    together = asyncio.run(planned(path, selection, Criteria(cleaning=Cleaning(agents=AGENTS))))
    assert {one.id for one in together.conversations} == every
    assert every or seed > 2  # the first ones are known to match something
