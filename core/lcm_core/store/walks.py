"""Walks through the summary graph of a file: what is above, below and under a few of its rows.

`lcm_core.dag.graph.SummaryGraph` walks the graph of a conversation that has been read whole. A commit, or a
view of a few summaries, asks the file for no more than it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lcm_core.records import ConversationId, MessageId, SummaryId
from lcm_core.store.connecting import Rows, SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.schema import Schema
from lcm_core.store.typed import place, typed

NodeId = int | str  #: the id of a message, or of a summary
#: Links that a leaf has, about: below it they are asked for by message, above by summary.
LINKS_PER_SUMMARY: Final = 8


class Walks:
    """The links and edges of one file within a transaction; *tables* are those that it has.

    Ids only, no text. Every walk ends, also where edges go in a circle or lead nowhere.
    """

    def __init__(self, db: Rows, tables: Collection[str]) -> None:
        self._db = db
        self._edges = "summary_parents" in tables
        self._links = "summary_messages" in tables

    def below(self, summaries: Iterable[str]) -> frozenset[str]:
        """Everything that some summaries were made from, directly or through others."""
        if not self._edges:
            return frozenset()
        rows = self._db.rows_in(
            """WITH RECURSIVE below(id) AS (
            SELECT parent_summary_id FROM summary_parents WHERE summary_id IN (?*)
            UNION SELECT edge.parent_summary_id FROM below CROSS JOIN summary_parents AS edge
            ON edge.summary_id = below.id) SELECT id FROM below""",
            summaries,
        )
        return frozenset(row[0] for row in rows)

    def above(self, refs: Iterable[NodeId]) -> Mapping[NodeId, frozenset[str]]:
        """By message or summary, everything that was made from it, directly or through others."""
        wanted = list(refs)
        found: dict[NodeId, set[str]] = {ref: set() for ref in wanted}
        messages = [ref for ref in wanted if isinstance(ref, int)]
        summaries = [ref for ref in wanted if isinstance(ref, str)]
        if self._links:
            self._collect(
                found, "SELECT message_id, summary_id FROM summary_messages WHERE message_id", messages
            )
        if self._edges:
            edges = "SELECT parent_summary_id, summary_id FROM summary_parents WHERE parent_summary_id"
            self._collect(found, edges, summaries)
        return {ref: frozenset(over) for ref, over in found.items()}

    def _collect(self, found: dict[NodeId, set[str]], first: str, refs: Iterable[SqlValue]) -> None:
        wanted = list(refs)
        if not wanted:
            return
        further = (
            """UNION SELECT above.root, edge.summary_id FROM above CROSS JOIN summary_parents AS edge
            ON edge.parent_summary_id = above.id"""
            if self._edges
            else ""
        )
        rows = self._db.rows_in(
            f"WITH RECURSIVE above(root, id) AS ({first} IN (?*) {further}) SELECT root, id FROM above",
            wanted,
        )
        for root, over in rows:
            found[root].add(over)

    def linked(self, summaries: frozenset[str], held: Collection[object]) -> frozenset[int]:
        """Which messages of a context some leaves were made from; asked from the smaller side."""
        if not self._links or not summaries:
            return frozenset()
        columns = "SELECT summary_id, message_id FROM summary_messages WHERE"
        if len(held) < len(summaries) * LINKS_PER_SUMMARY:
            messages = [ref for ref in held if isinstance(ref, int)]
            rows = self._db.rows_in(f"{columns} message_id IN (?*)", messages)
        else:
            rows = self._db.rows_in(f"{columns} summary_id IN (?*)", summaries)
        return frozenset(message for summary, message in rows if summary in summaries and message in held)

    def sources(self, summaries: Iterable[str]) -> Mapping[str, frozenset[SqlValue]]:
        """What each of some summaries was made from: summaries and messages."""
        wanted = list(summaries)
        found: dict[str, set[SqlValue]] = {summary: set() for summary in wanted}
        if self._edges:
            for summary, source in self._db.rows_in(
                "SELECT summary_id, parent_summary_id FROM summary_parents WHERE summary_id IN (?*)", wanted
            ):
                found[summary].add(source)
        if self._links:
            for summary, message in self._db.rows_in(
                "SELECT summary_id, message_id FROM summary_messages WHERE summary_id IN (?*)", wanted
            ):
                found[summary].add(message)
        return {summary: frozenset(made_from) for summary, made_from in found.items()}

    def owners(self, table: str, column: str, refs: Iterable[SqlValue]) -> Mapping[SqlValue, SqlValue]:
        """The conversation of each of some messages or summaries; those that are gone are left out."""
        sql = f"SELECT {column}, conversation_id FROM {table} WHERE {column} IN (?*)"
        return {row[0]: row[1] for row in self._db.rows_in(sql, refs)}

    def in_context(self, owner: SqlValue, ref: SqlValue) -> bool:
        """Whether a message or a summary is an item of a conversation's context."""
        column = "message_id" if isinstance(ref, int) else "summary_id"
        sql = f"SELECT 1 FROM context_items WHERE conversation_id = ? AND {column} = ? LIMIT 1"
        return bool(self._db.rows(sql, (owner, ref)))


#: SQL: the common table ``below(root, id)``, every summary that a walk from some roots toward the messages
#: meets, cycles or not; the roots are put in place of ``(?*)``.
BELOW = """below(root, id) AS (
    SELECT summary_id, summary_id FROM summaries WHERE summary_id IN (?*)
    UNION SELECT below.root, edge.parent_summary_id
    FROM below CROSS JOIN summary_parents AS edge ON edge.summary_id = below.id)"""


async def summaries_above(
    reader: Reader, message_ids: Iterable[MessageId]
) -> dict[MessageId, frozenset[SummaryId]]:
    """By message, everything that was made from it; messages of which nothing was made are left out."""
    wanted = list(message_ids)

    def load(db: Rows) -> dict[MessageId, frozenset[SummaryId]]:
        rows = db.rows_in("SELECT message_id FROM summary_messages WHERE message_id IN (?*)", wanted)
        linked = {MessageId(row[0]) for row in rows}  # few, where thousands are asked about
        found = Walks(db, reader.schema.tables).above(linked)
        return {one: frozenset(map(SummaryId, found[one])) for one in linked}

    return await reader.run(load) if wanted and reader.schema.has("summary_messages") else {}


@dataclass(frozen=True, slots=True)
class SeqRange:
    """The first and the last message that something covers, by seq."""

    first: int
    last: int


async def seq_ranges(
    reader: Reader, conversation_id: ConversationId, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, SeqRange]:
    """What some summaries cover of a conversation's messages; those that cover none are left out."""
    return await reader.run(read_seq_ranges, reader.schema, conversation_id, list(summary_ids))


def read_seq_ranges(
    db: Rows, schema: Schema, conversation_id: ConversationId, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, SeqRange]:
    """The same as a load."""
    if not all(schema.has(table) for table in ("summaries", "summary_parents", "summary_messages")):
        return {}
    rows = db.rows_in(
        f"""WITH RECURSIVE {BELOW}
        SELECT below.root AS summary_id, min(m.seq) AS first, max(m.seq) AS last
        FROM below
        CROSS JOIN summary_messages AS link ON link.summary_id = below.id
        CROSS JOIN messages AS m
            ON m.message_id = link.message_id AND m.conversation_id = {conversation_id:d}
        GROUP BY below.root""",
        summary_ids,
    )
    return {
        SummaryId(summary_id): SeqRange(place(first), place(last)) for summary_id, first, last in typed(rows)
    }
