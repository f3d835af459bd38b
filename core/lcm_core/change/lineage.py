"""Structural checks of summaries, local to those that a change touches.

Source: docs/engine/doctor.md, "Family B: the graph".

Asked before and after a change; what is found after and was not before would break the DAG. Each check is one
query over the touched summaries.
"""

from __future__ import annotations

from collections.abc import Iterable

from lcm_core.change.breaks import line_key, summary_key
from lcm_core.change.catalog import Catalog
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Edit, touched_rows

_LINES = ("summary_messages", "summary_parents")


def touched_summaries(edits: Iterable[Edit]) -> frozenset[str]:
    """The summaries whose row, sources or consumers some edits change."""
    found: set[object] = set()
    for edit in edits:
        for table, _, row in touched_rows(edit):
            if table in ("summaries", *_LINES):
                found.update(row[name] for name in ("summary_id", "parent_summary_id") if name in row)
    return frozenset(one for one in found if isinstance(one, str))


def summary_findings(writer: Writer, catalog: Catalog, summaries: frozenset[str]) -> frozenset[str]:
    """What is wrong with some summaries, or with their lines to sources and consumers."""
    if not summaries or not all(catalog.schema.has(table) for table in ("summaries", *_LINES)):
        return frozenset()
    by_row, by_line = _queries(catalog)
    found = {
        summary_key(check, owner, summary)
        for check, sql in by_row
        for summary, owner in writer.rows_in(sql, summaries)
    }
    found.update(
        line_key(check, owner, kind, consumer, source)
        for check, kind, sql in by_line
        for consumer, source, owner in writer.rows_in(sql, summaries)
    )
    return frozenset(found)


def _queries(catalog: Catalog) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """What to ask of a schema: by check, queries of summaries and queries of lines with both their ends."""
    of_row = "SELECT s.summary_id, s.conversation_id FROM summaries AS s WHERE s.summary_id IN (?*) AND"
    links = "EXISTS (SELECT 1 FROM summary_messages AS l WHERE l.summary_id = s.summary_id)"
    edges = "EXISTS (SELECT 1 FROM summary_parents AS e WHERE e.summary_id = s.summary_id)"
    depth = catalog.schema.has("summaries", "depth")
    by_row = [
        ("B1", f"{of_row} s.kind = 'leaf' AND NOT {links}"),
        ("B2", f"{of_row} s.kind = 'condensed' AND NOT {edges}"),
        ("B6", f"{of_row} {_ON_CYCLE}"),
        ("B8", f"{of_row} ((s.kind = 'leaf' AND {edges}) OR (s.kind = 'condensed' AND {links}))"),
    ]
    if depth:
        by_row.append(("B9", f"{of_row} (s.kind = 'leaf') <> (CAST(s.depth AS INTEGER) = 0)"))
    of_edge = """SELECT c.summary_id, s.summary_id, c.conversation_id FROM summary_parents AS e
        JOIN summaries AS c ON c.summary_id = e.summary_id
        JOIN summaries AS s ON s.summary_id = e.parent_summary_id"""
    older = "julianday(s.created_at) > julianday(c.created_at)"
    inverted = f"(s.depth >= c.depth OR {older})" if depth else f"({older})"
    by_line = [
        ("B5", "edge", f"{of_edge} WHERE e.summary_id IN (?*) AND e.summary_id = e.parent_summary_id"),
        (
            "B7",
            "link",
            """SELECT l.summary_id, l.message_id, s.conversation_id FROM summary_messages AS l
            JOIN summaries AS s ON s.summary_id = l.summary_id
            JOIN messages AS m ON m.message_id = l.message_id
            WHERE l.summary_id IN (?*) AND m.conversation_id IS NOT s.conversation_id""",
        ),
    ]
    for side in ("e.summary_id", "e.parent_summary_id"):
        near = f"{of_edge} WHERE {side} IN (?*) AND"
        by_line.append(("B7", "edge", f"{near} s.conversation_id IS NOT c.conversation_id"))
        by_line.append(("B12", "edge", f"{near} e.summary_id <> e.parent_summary_id AND {inverted}"))
    return by_row, by_line


_ON_CYCLE = """EXISTS (WITH RECURSIVE below(id) AS (
    SELECT e.parent_summary_id FROM summary_parents AS e WHERE e.summary_id = s.summary_id
    UNION SELECT e.parent_summary_id FROM below CROSS JOIN summary_parents AS e ON e.summary_id = below.id)
    SELECT 1 FROM below WHERE below.id = s.summary_id)"""
