"""What the model would read in two summaries after a change.

Source: docs/engine/doctor.md, "Family B: the graph", B14 and B15.

Asked before and after it, of the same summaries: those that it joins to other sources, and those that it may
bring into the model's reach or take out of it. Most changes leave that reach as it is (a summary gives way to
its sources, or they to it), so little is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lcm_core.change.breaks import context_key
from lcm_core.change.catalog import Catalog
from lcm_core.change.connection import Writer
from lcm_core.change.plan import CONTEXT, Cells, Edit, ref_of, touched_rows
from lcm_core.change.walks import Walks

#: By message or summary and conversation, the summaries that were made from it.
Holders = Mapping[tuple[int, int | str], frozenset[str]]

_LINES = ("summary_messages", "summary_parents")
_LEAVES = """FROM summary_messages AS line
    CROSS JOIN summaries AS made ON made.summary_id = line.summary_id AND made.kind = 'leaf'"""
_CONSUMERS = """FROM summary_parents AS line
    CROSS JOIN summaries AS made ON made.summary_id = line.summary_id
    CROSS JOIN summaries AS source ON source.summary_id = line.parent_summary_id
        AND source.conversation_id = made.conversation_id AND source.summary_id <> made.summary_id"""


def told_twice(writer: Writer, catalog: Catalog, edits: Iterable[Edit]) -> frozenset[str]:
    """Keys of what several summaries that the model reads were made from, as far as some edits concern it."""
    if not all(catalog.schema.has(table) for table in ("summaries", "context_items", *_LINES)):
        return frozenset()
    walks = Walks(writer, catalog)
    suspects = concerned(walks, edits)
    found: set[str] = set()
    for check, table, column, joined in (
        ("B14", "summary_parents", "parent_summary_id", _CONSUMERS),
        ("B15", "summary_messages", "message_id", _LEAVES),
    ):
        holders = _shared(writer, suspects, table, column, joined)
        for owner in {owner for owner, _ in holders}:
            of_owner = {ref: held for (one, ref), held in holders.items() if one == owner}
            live = _live(writer, walks, owner, frozenset().union(*of_owner.values()))
            found.update(
                context_key(check, owner, ref) for ref, held in of_owner.items() if len(held & live) > 1
            )
    return frozenset(found)


def was_read_twice(key: str, before: frozenset[str]) -> bool:
    """Whether what is told twice was read twice before: raw (A6), or beside its consumer (A7)."""
    check, _, rest = key.partition(":")
    earlier = {"B14": "A7", "B15": "A6"}.get(check)
    return earlier is not None and f"{earlier}:{rest}" in before


@dataclass(slots=True)
class _Touched:
    """Summaries that edits name. Both sides of a change together, so that before and after ask the same."""

    named: set[str] = field(default_factory=set)  #: whose sources change, and sources that come or go
    coming: set[str] = field(default_factory=set)  #: into the context, or below another consumer
    leaving: set[str] = field(default_factory=set)
    edges: dict[str, set[str]] = field(default_factory=dict)  #: sources by consumer

    def take(self, edit: Edit) -> None:
        for table, comes, row in touched_rows(edit):
            side = self.coming if comes else self.leaving
            if table == CONTEXT:
                side.update([ref] if isinstance(ref := ref_of(row), str) else [])
            elif table in _LINES:
                self._line(row, side)

    def _line(self, row: Cells, side: set[str]) -> None:
        consumer = row.get("summary_id")
        source = row.get("parent_summary_id")
        if isinstance(consumer, str):
            self.named.add(consumer)
            if isinstance(source, str):
                self.edges.setdefault(consumer, set()).add(source)
        if isinstance(source, str):
            self.named.add(source)
            side.add(source)

    def reach(self, walks: Walks, start: set[str]) -> set[str]:
        """*start* and all below it, over the edges that are there and those that come or go."""
        found, fresh = set(start), set(start)
        while fresh:
            found |= walks.below(fresh)
            fresh = {source for one in found for source in self.edges.get(one, ())} - found
            found |= fresh
        return found


def concerned(walks: Walks, edits: Iterable[Edit]) -> frozenset[str]:
    """Summaries of which something may be read twice: those that edits join, or bring in or out of reach."""
    touched = _Touched()
    for edit in edits:
        touched.take(edit)
    if touched.coming == touched.leaving:
        return frozenset(touched.named)
    reached = touched.reach(walks, touched.coming) ^ touched.reach(walks, touched.leaving)
    return frozenset(touched.named | reached)


def _shared(writer: Writer, suspects: frozenset[str], table: str, column: str, joined: str) -> Holders:
    """What some summaries share with others as their source, with all that were made from it."""
    if not suspects:
        return {}
    several = writer.rows_in(
        f"""SELECT line.{column} {joined}
        WHERE line.{column} IN (SELECT {column} FROM {table} WHERE summary_id IN (?*))
        GROUP BY line.{column} HAVING count(*) > 1""",
        suspects,
    )
    found: dict[tuple[int, int | str], set[str]] = {}
    for ref, summary, owner in writer.rows_in(
        f"SELECT line.{column}, line.summary_id, made.conversation_id {joined} WHERE line.{column} IN (?*)",
        {row[0] for row in several},
    ):
        if isinstance(owner, int) and isinstance(ref, int | str):
            found.setdefault((owner, ref), set()).add(summary)
    return {key: frozenset(held) for key, held in found.items() if len(held) > 1}


def _live(writer: Writer, walks: Walks, owner: int, summaries: frozenset[str]) -> frozenset[str]:
    """Those of some summaries that a conversation's context holds or covers."""
    above = walks.above(summaries)
    tops = summaries.union(*above.values())
    standing = {
        row[0]
        for row in writer.rows_in(
            f"SELECT summary_id FROM context_items WHERE conversation_id = {owner:d} AND summary_id IN (?*)",
            tops,
        )
    }
    return frozenset(one for one in summaries if one in standing or not standing.isdisjoint(above[one]))
