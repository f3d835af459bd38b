"""Finds links, edges and parts that lead nowhere (B3, B4, E13)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from lcm_core.dag.checks.links import BadLink, LinkFault
from lcm_core.records import ConversationId
from lcm_core.store.database import Database, Reader, Row

#: Rows that one transaction looks at.
_STEP = 200_000

_LINKS = """
    SELECT l.summary_id AS one, l.message_id AS other,
           s.conversation_id AS owner, m.conversation_id AS of_other,
           s.rowid IS NULL AS lacks_one
    FROM summary_messages AS l
    LEFT JOIN summaries AS s ON s.summary_id = l.summary_id
    LEFT JOIN messages AS m ON m.message_id = l.message_id
    WHERE l.rowid > ? AND l.rowid <= ?
      AND (s.rowid IS NULL OR m.message_id IS NULL)"""
_EDGES = """
    SELECT e.summary_id AS one, e.parent_summary_id AS other,
           s.conversation_id AS owner, p.conversation_id AS of_other,
           s.rowid IS NULL AS lacks_one
    FROM summary_parents AS e
    LEFT JOIN summaries AS s ON s.summary_id = e.summary_id
    LEFT JOIN summaries AS p ON p.summary_id = e.parent_summary_id
    WHERE e.rowid > ? AND e.rowid <= ?
      AND (s.rowid IS NULL OR p.rowid IS NULL)"""
_PARTS = """
    SELECT p.part_id AS one,
           (SELECT max(c.conversation_id) FROM conversations AS c WHERE c.session_id = p.session_id) AS owner
    FROM message_parts AS p
    WHERE p.message_id > ? AND p.message_id <= ?
      AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = p.message_id)"""


async def bad_links(
    database: Database, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[list[BadLink], int, int]]:
    """Bad links and edges a step at a time, with how many rows are done and how many there are."""
    plan = [
        (table, query, lacks_other)
        for table, query, lacks_other in (
            ("summary_messages", _LINKS, LinkFault.NO_MESSAGE),
            ("summary_parents", _EDGES, LinkFault.NO_SUMMARY),
        )
        if database.schema.has(table) and database.schema.has("summaries")
    ]
    ends = [await database.read(_last, table, "rowid") for table, _, _ in plan]
    done, total = 0, sum(ends)
    for (table, query, lacks_other), end in zip(plan, ends, strict=True):
        for start in range(0, end, _STEP):
            rows = await database.read(_step, query, start, start + _STEP)
            links = [_link(table, row, lacks_other) for row in rows]
            done += min(_STEP, end - start)
            yield [one for one in links if conversation_id in (None, one.conversation_id)], done, total


async def orphan_parts(
    database: Database, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[list[BadLink], int, int]]:
    """Parts without a message; they count for the conversation whose session they name."""
    end = await database.read(_last, "message_parts", "message_id")
    for start in range(-1, end + 1, _STEP):
        rows = await database.read(_step, _PARTS, start, start + _STEP)
        links = [BadLink("message_parts", (row["one"],), LinkFault.ORPHAN_PART, row["owner"]) for row in rows]
        kept = [one for one in links if conversation_id in (None, one.conversation_id)]
        yield kept, min(start + _STEP, end), max(end, 1)


async def _last(reader: Reader, table: str, column: str) -> int:
    return await reader.value(f"SELECT max({column}) FROM {table}") or 0


async def _step(reader: Reader, query: str, start: int, end: int) -> list[Row]:
    return await reader.rows(query, start, end)


def _link(table: str, row: Row, lacks_other: LinkFault) -> BadLink:
    fault, owner = lacks_other, row["owner"]
    if row["lacks_one"]:
        fault, owner = LinkFault.NO_SUMMARY, row["of_other"]
    return BadLink(table, (row["one"], row["other"]), fault, owner)
