"""Finds links, edges and parts that lead nowhere (B3, B4, E13)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from lcm_core.dag.checks.links import BadLink, LinkFault
from lcm_core.records import ConversationId
from lcm_core.store.database import Database, Reader, Row
from lcm_core.store.steps import Step, steps

#: Rows that one transaction looks at.
_STEP = 200_000

_LINKS = """
    SELECT l.summary_id AS one, l.message_id AS other,
           s.conversation_id AS owner, m.conversation_id AS of_other,
           s.rowid IS NULL AS lacks_one
    FROM summary_messages AS l
    LEFT JOIN summaries AS s ON s.summary_id = l.summary_id
    LEFT JOIN messages AS m ON m.message_id = l.message_id
    WHERE {step} AND (s.rowid IS NULL OR m.message_id IS NULL)"""
_EDGES = """
    SELECT e.summary_id AS one, e.parent_summary_id AS other,
           s.conversation_id AS owner, p.conversation_id AS of_other,
           s.rowid IS NULL AS lacks_one
    FROM summary_parents AS e
    LEFT JOIN summaries AS s ON s.summary_id = e.summary_id
    LEFT JOIN summaries AS p ON p.summary_id = e.parent_summary_id
    WHERE {step} AND (s.rowid IS NULL OR p.rowid IS NULL)"""
_PARTS = """
    SELECT p.part_id AS one,
           (SELECT max(c.conversation_id) FROM conversations AS c WHERE c.session_id = p.session_id) AS owner
    FROM message_parts AS p
    WHERE {step}
      AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = p.message_id)"""


async def bad_links(
    database: Database, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[list[BadLink], int, int]]:
    """Bad links and edges a step at a time, with how many rows are done and how many there are."""
    plan = [
        (table, alias, query, lacks_other)
        for table, alias, query, lacks_other in (
            ("summary_messages", "l", _LINKS, LinkFault.NO_MESSAGE),
            ("summary_parents", "e", _EDGES, LinkFault.NO_SUMMARY),
        )
        if database.schema.has(table) and database.schema.has("summaries")
    ]
    counts = [await database.read(_count, table) for table, _, _, _ in plan]
    done, total = 0, sum(counts)
    for table, alias, query, lacks_other in plan:
        async for step in steps(database, table, "rowid", _STEP):
            rows = await database.read(_step, query, f"{alias}.rowid", step)
            links = [_link(table, row, lacks_other) for row in rows]
            done = min(done + _STEP, total)
            yield [one for one in links if conversation_id in (None, one.conversation_id)], done, total


async def orphan_parts(
    database: Database, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[list[BadLink], int, int]]:
    """Parts without a message; they count for the conversation whose session they name."""
    done, total = 0, await database.read(_count, "message_parts")
    async for step in steps(database, "message_parts", "message_id", _STEP):
        rows = await database.read(_step, _PARTS, "p.message_id", step)
        done = min(done + _STEP, total)
        links = [BadLink("message_parts", (row["one"],), LinkFault.ORPHAN_PART, row["owner"]) for row in rows]
        kept = [one for one in links if conversation_id in (None, one.conversation_id)]
        yield kept, done, total


async def _count(reader: Reader, table: str) -> int:
    return await reader.value(f"SELECT count(*) FROM {table}") or 0


async def _step(reader: Reader, query: str, column: str, step: Step) -> list[Row]:
    return await reader.rows(query.format(step=step.where(column)), *step.bounds)


def _link(table: str, row: Row, lacks_other: LinkFault) -> BadLink:
    fault, owner = lacks_other, row["owner"]
    if row["lacks_one"]:
        fault, owner = LinkFault.NO_SUMMARY, row["of_other"]
    return BadLink(table, (row["one"], row["other"]), fault, owner)
