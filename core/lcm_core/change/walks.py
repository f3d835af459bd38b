"""Walks over the DAG for the checks of a commit: ids only, cycles or not, no text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lcm_core.change.catalog import Catalog
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Ref, SqlValue

#: Links that a leaf has, about: below it they are asked for by message, above by summary.
LINKS_PER_SUMMARY = 8


class Walks:
    """The lineage tables of one file; a table that it does not have is empty."""

    def __init__(self, writer: Writer, catalog: Catalog) -> None:
        self._writer = writer
        self._edges = catalog.schema.has("summary_parents")
        self._links = catalog.schema.has("summary_messages")

    def below(self, summaries: Iterable[str]) -> frozenset[str]:
        """Everything that some summaries were made from, directly or through others."""
        if not self._edges:
            return frozenset()
        rows = self._writer.rows_in(
            """WITH RECURSIVE below(id) AS (
            SELECT parent_summary_id FROM summary_parents WHERE summary_id IN (?*)
            UNION SELECT edge.parent_summary_id FROM below CROSS JOIN summary_parents AS edge
            ON edge.summary_id = below.id) SELECT id FROM below""",
            summaries,
        )
        return frozenset(row[0] for row in rows)

    def above(self, refs: Iterable[SqlValue]) -> Mapping[SqlValue, frozenset[str]]:
        """By message or summary, everything that was made from it, directly or through others."""
        wanted = list(refs)
        found: dict[SqlValue, set[str]] = {ref: set() for ref in wanted}
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

    def _collect(self, found: dict[SqlValue, set[str]], first: str, refs: Iterable[SqlValue]) -> None:
        wanted = list(refs)
        if not wanted:
            return
        further = (
            """UNION SELECT above.root, edge.summary_id FROM above CROSS JOIN summary_parents AS edge
            ON edge.parent_summary_id = above.id"""
            if self._edges
            else ""
        )
        rows = self._writer.rows_in(
            f"WITH RECURSIVE above(root, id) AS ({first} IN (?*) {further}) SELECT root, id FROM above",
            wanted,
        )
        for root, over in rows:
            found[root].add(over)

    def linked(self, summaries: frozenset[str], held: frozenset[Ref]) -> frozenset[int]:
        """Which messages of a context some leaves were made from; asked from the smaller side."""
        if not self._links or not summaries:
            return frozenset()
        columns = "SELECT summary_id, message_id FROM summary_messages WHERE"
        if len(held) < len(summaries) * LINKS_PER_SUMMARY:
            messages = [ref for ref in held if isinstance(ref, int)]
            rows = self._writer.rows_in(f"{columns} message_id IN (?*)", messages)
        else:
            rows = self._writer.rows_in(f"{columns} summary_id IN (?*)", summaries)
        return frozenset(message for summary, message in rows if summary in summaries and message in held)

    def sources(self, summaries: Iterable[str]) -> Mapping[str, frozenset[SqlValue]]:
        """What each of some summaries was made from: summaries and messages."""
        wanted = list(summaries)
        found: dict[str, set[SqlValue]] = {summary: set() for summary in wanted}
        if self._edges:
            for summary, source in self._writer.rows_in(
                "SELECT summary_id, parent_summary_id FROM summary_parents WHERE summary_id IN (?*)", wanted
            ):
                found[summary].add(source)
        if self._links:
            for summary, message in self._writer.rows_in(
                "SELECT summary_id, message_id FROM summary_messages WHERE summary_id IN (?*)", wanted
            ):
                found[summary].add(message)
        return {summary: frozenset(made_from) for summary, made_from in found.items()}

    def owners(self, table: str, column: str, refs: Iterable[SqlValue]) -> Mapping[SqlValue, SqlValue]:
        """The conversation of each of some messages or summaries; those that are gone are left out."""
        sql = f"SELECT {column}, conversation_id FROM {table} WHERE {column} IN (?*)"
        return {row[0]: row[1] for row in self._writer.rows_in(sql, refs)}

    def stands(self, owner: SqlValue, ref: SqlValue) -> bool:
        """Whether a message or a summary is an item of a conversation's context."""
        column = "message_id" if isinstance(ref, int) else "summary_id"
        sql = f"SELECT 1 FROM context_items WHERE conversation_id = ? AND {column} = ? LIMIT 1"
        return bool(self._writer.rows(sql, (owner, ref)))
