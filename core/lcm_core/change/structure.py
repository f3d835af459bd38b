"""What is wrong around the rows that a change touches: the checks of a commit.

Source: docs/engine/doctor.md, "Family A: the context" and "Family B: the graph".

What is found after a change and was not before would break the database; what was found before and is not
after, the change has removed. The structure of contexts, summaries and their lines is asked of a copy, before
and after (`findings`). What refers to nothing (A1, A2 and their like) is asked of the database itself, once:
what follows from the edits is counted (`missing`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from lcm_core.change.breaks import briefs_key, context_key, line_key, reference_key, summary_key
from lcm_core.change.catalog import Catalog, Reference
from lcm_core.change.connection import Writer
from lcm_core.change.place import Listing
from lcm_core.change.plan import (
    CONTEXT,
    Cell,
    Cells,
    Edit,
    Owner,
    Ref,
    RowChange,
    Splice,
    Symbol,
    ref_of,
    touched_rows,
    value_of,
)
from lcm_core.context_items import ABNORMAL_ORDINAL
from lcm_core.store.connecting import SqlValue, quoted
from lcm_core.store.walks import Walks


def findings(
    writer: Writer, catalog: Catalog, edits: Sequence[Edit], contexts: Mapping[Owner, Listing]
) -> frozenset[str]:
    """Keys of what is wrong with what some edits touch, with the *contexts* as they are at this moment."""
    found = _summary_findings(writer, catalog, _touched_summaries(edits))
    found |= _read_in_two(writer, catalog, edits)
    found |= _rival_briefs(writer, catalog, edits)
    for owner, listing in contexts.items():
        if isinstance(owner, int) and (subjects := _subjects_of(edits, owner)):
            found |= _context_findings(Walks(writer, catalog.schema.tables), owner, listing, subjects)
    return found


#: A row of it is in force for a conversation, and no other may be.
BRIEFS: Final = "focus_briefs"


def _rival_briefs(writer: Writer, catalog: Catalog, edits: Iterable[Edit]) -> frozenset[str]:
    """G11: several focus briefs of one conversation are active, around those that edits touch."""
    if not catalog.schema.has(BRIEFS, "status"):
        return frozenset()
    if not any(isinstance(edit, RowChange) and edit.table == BRIEFS for edit in edits):
        return frozenset()
    rows = writer.rows(
        f"""SELECT conversation_id FROM {BRIEFS} WHERE status = 'active'
        GROUP BY conversation_id HAVING count(*) > 1"""
    )
    return frozenset(briefs_key(row[0]) for row in rows)


# -- summaries: one query a check -----------------------------------------------------------------------


_LINES = ("summary_messages", "summary_parents")


def _touched_summaries(edits: Iterable[Edit]) -> frozenset[str]:
    """The summaries whose row, sources or consumers some edits change."""
    found: set[object] = set()
    for edit in edits:
        for table, _, row in touched_rows(edit):
            if table in ("summaries", *_LINES):
                found.update(row[name] for name in ("summary_id", "parent_summary_id") if name in row)
    return frozenset(one for one in found if isinstance(one, str))


def _summary_findings(writer: Writer, catalog: Catalog, summaries: frozenset[str]) -> frozenset[str]:
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


# -- contexts -------------------------------------------------------------------------------------------


def _subjects_of(edits: Iterable[Edit], owner: int) -> frozenset[Ref]:
    """What edits take out of a context or put into it."""
    splices = (edit for edit in edits if isinstance(edit, Splice) and edit.conversation_id == owner)
    rows = (row for splice in splices for row in (*splice.removed, *splice.inserted))
    return frozenset(ref for row in rows if isinstance(ref := ref_of(row), int | str))


def _context_findings(
    walks: Walks, conversation_id: int, listing: Listing, subjects: frozenset[Ref]
) -> frozenset[str]:
    """What is wrong with some items of a context, or with their absence from it."""
    held = frozenset(listing.refs)
    owners = {
        **walks.owners("messages", "message_id", _messages(subjects)),
        **walks.owners("summaries", "summary_id", _summaries(subjects)),
    }
    checks = (
        *_repeated(listing, subjects, held),
        *_foreign(conversation_id, subjects & held, owners),
        *_misnumbered(listing, subjects),
        *_covered_twice(walks, subjects & held, held),
        *_uncovered(walks, conversation_id, subjects - held, held, owners),
    )
    return frozenset(context_key(check, conversation_id, ref) for check, ref in checks)


Broken = Iterator[tuple[str, Ref]]


def _repeated(listing: Listing, subjects: frozenset[Ref], held: frozenset[Ref]) -> Broken:
    """A3, A4: the same thing is there more than once."""
    if len(held) == len(listing):
        return
    counts = Counter(listing.refs)
    for ref in subjects:
        if counts[ref] > 1:
            yield "A3" if isinstance(ref, str) else "A4", ref


def _foreign(conversation_id: int, present: frozenset[Ref], owners: dict[SqlValue, SqlValue]) -> Broken:
    """A5: another conversation's row."""
    for ref in present:
        if isinstance(ref, int | str) and owners.get(ref, conversation_id) != conversation_id:
            yield "A5", ref


def _misnumbered(listing: Listing, subjects: frozenset[Ref]) -> Broken:
    """A9: an ordinal out of range."""
    first, last = bisect_left(listing.ordinals, 0), bisect_left(listing.ordinals, ABNORMAL_ORDINAL)
    for ref in (*listing.refs[:first], *listing.refs[last:]):
        if ref in subjects:
            yield "A9", ref


def _covered_twice(walks: Walks, present: frozenset[Ref], held: frozenset[Ref]) -> Broken:
    """A6, A7: an item and a summary that covers it are side by side, one of them among *present*."""
    for ref, over in walks.above([ref for ref in present if isinstance(ref, int | str)]).items():
        if (over - {ref}) & held and isinstance(ref, int | str):
            yield "A7" if isinstance(ref, str) else "A6", ref
    covering = _summaries(present)
    below = walks.below(covering)
    for ref in below & held:
        yield "A7", ref
    for message in walks.linked(below | covering, held):
        yield "A6", message


def _uncovered(
    walks: Walks,
    conversation_id: int,
    absent: frozenset[Ref],
    held: frozenset[Ref],
    owners: dict[SqlValue, SqlValue],
) -> Broken:
    """A11, B13: what is in no context any more and not covered from there."""
    there = [ref for ref in absent if isinstance(ref, int | str) and ref in owners]
    for ref, over in walks.above(there).items():
        # What is another conversation's (A5) is where it belongs.
        if over or (owners[ref] != conversation_id and walks.in_context(owners[ref], ref)):
            continue
        if isinstance(ref, int):
            yield "A11", ref
        elif isinstance(ref, str) and not _replaced(walks, ref, held):
            yield "B13", ref


def _replaced(walks: Walks, summary_id: str, held: frozenset[Ref]) -> bool:
    """Whether everything that a summary covers is in the context in finer form."""
    open_summaries, seen = {summary_id}, {summary_id}
    while open_summaries:
        further: set[str] = set()
        for sources in walks.sources(open_summaries).values():
            open_ones = sources - held
            if not sources or any(not isinstance(source, str) for source in open_ones):
                return False
            further.update(source for source in open_ones if isinstance(source, str))
        open_summaries = further - seen
        seen |= further
    return True


def _messages(refs: frozenset[Ref]) -> frozenset[int]:
    return frozenset(ref for ref in refs if isinstance(ref, int))


def _summaries(refs: frozenset[Ref]) -> frozenset[str]:
    return frozenset(ref for ref in refs if isinstance(ref, str))


# -- what would be read in two summaries ----------------------------------------------------------------


#: By message or summary and conversation, the summaries that were made from it.
Sharing = Mapping[tuple[int, int | str], frozenset[str]]

_LEAVES = """FROM summary_messages AS line
    CROSS JOIN summaries AS made ON made.summary_id = line.summary_id AND made.kind = 'leaf'"""
_CONSUMERS = """FROM summary_parents AS line
    CROSS JOIN summaries AS made ON made.summary_id = line.summary_id
    CROSS JOIN summaries AS source ON source.summary_id = line.parent_summary_id
        AND source.conversation_id = made.conversation_id AND source.summary_id <> made.summary_id"""


def _read_in_two(writer: Writer, catalog: Catalog, edits: Iterable[Edit]) -> frozenset[str]:
    """Keys of what several summaries that the model reads were made from, as far as some edits concern it.

    Asked of the same summaries before and after: those that a change joins to other sources, and those that
    it may bring into the model's reach or take out of it. Most changes leave that reach as it is (a summary
    gives way to its sources, or they to it), so little is looked at.
    """
    if not all(catalog.schema.has(table) for table in ("summaries", "context_items", *_LINES)):
        return frozenset()
    walks = Walks(writer, catalog.schema.tables)
    suspects = concerned(walks, edits)
    found: set[str] = set()
    for check, table, column, joined in (
        ("B14", "summary_parents", "parent_summary_id", _CONSUMERS),
        ("B15", "summary_messages", "message_id", _LEAVES),
    ):
        sharing = _shared(writer, suspects, table, column, joined)
        for owner in {owner for owner, _ in sharing}:
            of_owner = {ref: held for (one, ref), held in sharing.items() if one == owner}
            live = _live(writer, walks, owner, frozenset().union(*of_owner.values()))
            found.update(
                context_key(check, owner, ref) for ref, held in of_owner.items() if len(held & live) > 1
            )
    return frozenset(found)


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


def _shared(writer: Writer, suspects: frozenset[str], table: str, column: str, joined: str) -> Sharing:
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
    in_context = {
        row[0]
        for row in writer.rows_in(
            f"SELECT summary_id FROM context_items WHERE conversation_id = {owner:d} AND summary_id IN (?*)",
            tops,
        )
    }
    return frozenset(one for one in summaries if one in in_context or not in_context.isdisjoint(above[one]))


# -- references without a target ------------------------------------------------------------------------


#: Values that touched rows name or bear, by the table and column they are keys of.
Named = dict[tuple[str, str], set[SqlValue]]


def named_by(edits: Iterable[Edit], catalog: Catalog) -> Named:
    """Everything that the touched rows refer to, and every key that comes or goes."""
    found: dict[tuple[str, str], set[Cell]] = {}
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[Cell, ...]]] = {}  # a plan has few kinds of rows
    for table, _, row in (one for edit in edits for one in touched_rows(edit)):
        alike.setdefault((table, row.columns), []).append(row.cells)
    for (table, columns), rows in alike.items():
        naming = [(reference, reference.column) for reference in catalog.of(table)]
        naming += ((reference, reference.target_column) for reference in catalog.to(table))
        for reference, column in naming:
            if column in columns:
                values = map(itemgetter(columns.index(column)), rows)
                found.setdefault((reference.target, reference.target_column), set()).update(values)
    return {
        key: {one for one in values if one is not None and not isinstance(one, Symbol)}
        for key, values in found.items()
    }


@dataclass(frozen=True, slots=True)
class MissingTargets:
    """Keys of the references without a target, among those that edits touch."""

    before: frozenset[str]
    after: frozenset[str]


def missing_targets(writer: Writer, catalog: Catalog, edits: Sequence[Edit]) -> MissingTargets:
    """What lacks its target in the database as it is, and what will behind resolved *edits*.

    Rows are counted: those that are there, less those that the edits take away, and those that they make.
    """
    change = _Change.of(edits)
    before: set[str] = set()
    after: set[str] = set()
    for (target, column), values in named_by(edits, catalog).items():
        rows = writer.rows_in(
            f"SELECT {quoted(column)} FROM {quoted(target)} WHERE {quoted(column)} IN (?*)", values
        )
        there: Counter[SqlValue] = Counter(row[0] for row in rows)
        then = there + Counter()
        then.update(change.of_column(target, column))
        lacking = {one for one in values if there[one] <= 0}
        lacking_then = {one for one in values if then[one] <= 0}
        if lacking or lacking_then:
            for reference in catalog.to(target):
                if reference.target_column == column:
                    now, later = _referring(writer, reference, lacking | lacking_then, change)
                    before.update(key for value, key in now if value in lacking)
                    after.update(key for value, key in later if value in lacking_then)
    return MissingTargets(frozenset(before), frozenset(after))


#: A value that is referred to, and the key of the reference.
_Referring = set[tuple[SqlValue, str]]


def _referring(
    writer: Writer, reference: Reference, values: Iterable[SqlValue], change: _Change
) -> tuple[_Referring, _Referring]:
    """What names one of *values*, before the change and behind it."""
    wanted = set(values)
    owner = None
    if reference.table == CONTEXT and reference.column != "conversation_id":
        owner = "conversation_id"
    rows = writer.rows_in(
        f"""SELECT {quoted(reference.column)}, {owner or "NULL"}, count(*) FROM {quoted(reference.table)}
        WHERE {quoted(reference.column)} IN (?*) GROUP BY 1, 2""",
        wanted,
    )
    now: Counter[tuple[SqlValue, SqlValue]] = Counter()
    for value, of, count in rows:
        now[value, of] += count
    later = Counter(now)
    for (value, of), count in change.of_reference(reference.table, reference.column, owner).items():
        if value in wanted:
            later[value, of] += count
    return _keys(reference, now), _keys(reference, later)


def _keys(reference: Reference, counts: Mapping[tuple[SqlValue, SqlValue], int]) -> _Referring:
    return {
        (value, reference_key(reference.table, reference.column, value, of if isinstance(of, int) else None))
        for (value, of), count in counts.items()
        if count > 0
    }


@dataclass(frozen=True, slots=True)
class _Change:
    """Rows that come (1) and go (-1), by table: only the columns that an edit knows."""

    rows: Mapping[str, Sequence[tuple[int, Cells]]]

    @classmethod
    def of(cls, edits: Iterable[Edit]) -> _Change:
        found: dict[str, list[tuple[int, Cells]]] = {}
        for table, comes, row in (one for edit in edits for one in touched_rows(edit)):
            found.setdefault(table, []).append((1 if comes else -1, row))
        return cls(found)

    def of_column(self, table: str, column: str) -> Counter[SqlValue]:
        """By how many rows a column's values grow or shrink."""
        found: Counter[SqlValue] = Counter()
        for sign, row in self.rows.get(table, ()):
            if column in row.columns:
                found[value_of(row[column])] += sign
        return found

    def of_reference(self, table: str, column: str, owner: str | None) -> Counter[tuple[SqlValue, SqlValue]]:
        """The same with the conversation beside it, where *owner* names its column."""
        found: Counter[tuple[SqlValue, SqlValue]] = Counter()
        for sign, row in self.rows.get(table, ()):
            if column in row.columns:
                found[value_of(row[column]), value_of(row.get(owner)) if owner else None] += sign
        return found
