"""Rows whose other end is gone, whole and as they are stored: what a fix deletes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lcm_core.records import ConversationId
from lcm_core.store.connecting import Row, SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.rows import KeyRange, StoredRow, next_range, rows_by

#: Conversations that are asked for; None: all of them, and rows of none.
Owners = Collection[ConversationId | None] | None
#: A whole row and its table.
TableRow = tuple[str, StoredRow]
#: Rows that one transaction looks at.
ROWS_AT_A_TIME = 200_000


def parts_without_message(step: KeyRange) -> str:
    """SQL of the parts in a range of message ids whose message is gone: ``id``, and ``owner`` by session."""
    return f"""
        SELECT p.part_id AS id, (SELECT max(c.conversation_id) FROM conversations AS c
            WHERE c.session_id = p.session_id) AS owner
        FROM message_parts AS p WHERE {step.where("p.message_id")}
        AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = p.message_id)"""


async def orphan_part_rows(reader: Reader, owners: Owners) -> list[TableRow]:
    """The parts whose message is gone, of the conversations whose session they name."""
    if not reader.schema.has("message_parts"):
        return []
    lost: list[SqlValue] = []
    step = await next_range(reader, "message_parts", "message_id", ROWS_AT_A_TIME, None)
    while step is not None:
        rows = await reader.stored(parts_without_message(step), *step.bounds)
        step = await next_range(reader, "message_parts", "message_id", ROWS_AT_A_TIME, step)
        lost += (row["id"] for row in rows if owners is None or row["owner"] in owners)
    return [("message_parts", row) for row in await rows_by(reader, "message_parts", "part_id", lost)]


async def lines_of_no_summary(reader: Reader, owners: Owners) -> list[TableRow]:
    """Links and edges whose summary is gone, of the conversations of their other end."""
    found: list[TableRow] = []
    for table, target, column, key in (
        ("summary_messages", "messages", "message_id", "message_id"),
        ("summary_parents", "summaries", "parent_summary_id", "summary_id"),
    ):
        if reader.schema.has(table) and reader.schema.has("summaries"):
            rows = await reader.stored(
                f"""SELECT l.*, (SELECT t.conversation_id FROM {target} AS t WHERE t.{key} = l.{column})
                AS of_other FROM {table} AS l
                WHERE NOT EXISTS (SELECT 1 FROM summaries AS s WHERE s.summary_id = l.summary_id)"""
            )
            found += ((table, row) for row in _owned(rows, "of_other", owners))
    return found


async def brief_sources_gone(reader: Reader, owners: Owners) -> list[TableRow]:
    """The sources of focus briefs whose summary is gone."""
    if not (reader.schema.has("focus_brief_sources") and reader.schema.has("focus_briefs")):
        return []
    rows = await reader.stored(
        """SELECT f.*, b.conversation_id AS brief_of FROM focus_brief_sources AS f
        JOIN focus_briefs AS b ON b.brief_id = f.brief_id
        WHERE NOT EXISTS (SELECT 1 FROM summaries AS s WHERE s.summary_id = f.summary_id)"""
    )
    return [("focus_brief_sources", row) for row in _owned(rows, "brief_of", owners)]


def _owned(rows: Iterable[Row], column: str, owners: Owners) -> Iterator[StoredRow]:
    """The rows of some conversations, without the column that names these."""
    for row in rows:
        if owners is None or row[column] in owners:
            yield {name: row[name] for name in dict(row) if name != column}


async def conversations_with_loose_ends(reader: Reader) -> list[ConversationId]:
    """The conversations whose context or lineage names what is gone."""
    wanted = [
        """SELECT c.conversation_id FROM context_items AS c WHERE
        (c.message_id IS NOT NULL AND c.message_id NOT IN (SELECT message_id FROM messages))
        OR (c.summary_id IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM summaries AS s WHERE s.summary_id = c.summary_id))""",
        """SELECT s.conversation_id FROM summary_messages AS l JOIN summaries AS s USING (summary_id)
        WHERE l.message_id NOT IN (SELECT message_id FROM messages)""",
        """SELECT s.conversation_id FROM summary_parents AS e JOIN summaries AS s USING (summary_id)
        WHERE NOT EXISTS (SELECT 1 FROM summaries AS p WHERE p.summary_id = e.parent_summary_id)""",
    ]
    tables = ("context_items", "summary_messages", "summary_parents")
    known = [sql for table, sql in zip(tables, wanted, strict=True) if reader.schema.has(table)]
    if not known or not reader.schema.has("summaries"):
        return []
    rows = await reader.rows(" UNION ".join(known))
    return [ConversationId(row[0]) for row in rows if isinstance(row[0], int)]
