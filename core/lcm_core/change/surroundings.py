"""What is wrong around the rows that a change touches: the checks of a commit.

Source: docs/engine/doctor.md, "Family A: the context" and "Family B: the graph".

A finding that is new after a change would break the database; one that is gone, the change has mended.
Contexts, summaries and their lines are checked in a copy, before and after (`findings`). References to
nothing (A1, A2 and their like) are counted once in the database itself, as far as the edits cause them
(`missing`).
"""

from __future__ import annotations

import contextlib
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final

from lcm_core.base.records import ABNORMAL_ORDINAL
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.apply import ResolvedEdits, statement, writes_alike
from lcm_core.change.connection import Catalog, Reference, Writer
from lcm_core.change.place import Listing, Verified
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
    Values,
    briefs_key,
    context_key,
    line_key,
    ref_of,
    reference_key,
    summary_key,
    touched_rows,
    value_of,
)
from lcm_core.store.opening import CHUNK, Rows, SqlValue, connect_memory, quoted, rows_in
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import LINKS_PER_SUMMARY, Walks


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
    it may bring into the model's reach or take out of it. Most changes keep that reach (a summary
    is replaced by its sources, or they by it), so few rows are read.
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


class _Touched(Struct):
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
NamedRow = dict[tuple[str, str], set[SqlValue]]


def named_by(edits: Iterable[Edit], catalog: Catalog) -> NamedRow:
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


class MissingTargets(Record, frozen=True):
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


class _Change(Record, frozen=True):
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


# -- the copy around a plan ------------------------------------------------------------------------------
# What is around the rows of a plan, copied into memory: there a change is tried before it is made.
#
# The structural checks of a commit run on the database before a change and after it. So that the lock is
# held for the writing alone, "after" runs on a copy: the rows that the checks can reach from those that the
# edits touch, up and down the DAG, with the few columns that they read. The same SQL runs on both; a
# declared type converts values as it does in the file (docs/changes.md, "Checked before the lock").
#
# What is loaded, for edits that name the summaries S and the messages M:
#
# - D: S and all below, with the edges to their sources (both ends of an edge that the edits make are in S);
# - the links of S to messages, and of D those that can matter: of leaves that a message was summarised in
#   which is in a spliced context, and of summaries that have sources of both kinds. Nearly all messages
#   below a summary are in no context any more, and there is no end to them;
# - what else was made from the sources of what may be read twice (`concerned`): those lines and summaries;
# - U: S, what was made from M, those others, and all above; the edges between them;
# - the rows of U and of the sources of S and of what may be read twice, and of the messages that M or a
#   line of S names;
# - of the contexts of all their conversations: the summaries, and the items of M;
# - all focus briefs of a conversation of which the edits touch one.

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "summaries": ("summary_id", "conversation_id", "kind", "depth", "created_at", "token_count"),
    "messages": ("message_id", "conversation_id", "token_count"),
    "summary_messages": ("summary_id", "message_id"),
    "summary_parents": ("summary_id", "parent_summary_id"),
    "context_items": ("conversation_id", "message_id", "summary_id"),
    BRIEFS: ("brief_id", "conversation_id", "status"),
}
#: What is looked up in the copy by itself.
_INDEXED: Final[Mapping[str, tuple[str, ...]]] = {
    "summaries": ("summary_id",),
    "messages": ("message_id",),
    "summary_messages": ("summary_id", "message_id"),
    "summary_parents": ("summary_id", "parent_summary_id"),
    "context_items": ("conversation_id", "summary_id", "message_id"),
    BRIEFS: ("brief_id",),
}
_SURROUNDINGS_LINES: Final = ("summary_messages", "summary_parents")


class Tried(Record, frozen=True):
    """What is wrong around the touched rows before a change and after it."""

    before: frozenset[str]
    after: frozenset[str]
    tokens: int  #: by how much the stored estimates of the contexts grow

    def broken(self, allowed: Collection[str]) -> frozenset[str]:
        """Keys of what it would leave behind that was not there, but for those that are *allowed*."""
        new = self.after.difference(self.before, allowed)
        return frozenset(key for key in new if not _was_read_twice(key, self.before))


def _was_read_twice(key: str, before: frozenset[str]) -> bool:
    """Whether what is read twice was read twice before: raw (A6), or beside its consumer (A7)."""
    check, _, rest = key.partition(":")
    earlier = {"B14": "A7", "B15": "A6"}.get(check)
    return earlier is not None and f"{earlier}:{rest}" in before


def try_change(writer: Writer, catalog: Catalog, verified: Verified, resolved: ResolvedEdits) -> Tried:
    """Make the change in a copy of what is around it, and ask the same before and after."""
    edits = resolved.edits
    lacking = missing_targets(writer, catalog, edits)
    with surroundings(writer, catalog, edits) as copy:
        lists = {owner: context.before for owner, context in verified.contexts.items()}
        before = findings(copy.memory, catalog, edits, lists)
        leaving = moved_tokens(copy.memory, catalog, edits, entering=False)
        copy.apply(edits)
        after = findings(copy.memory, catalog, edits, lists_after(verified, resolved.values))
        entering = moved_tokens(copy.memory, catalog, edits, entering=True)
    return Tried(before | lacking.before, after | lacking.after, entering - leaving)


def lists_after(verified: Verified, values: Values) -> dict[Owner, Listing]:
    """The lists behind the change, with real ids."""
    found: dict[Owner, Listing] = {}
    for owner, context in verified.contexts.items():
        known = owner if isinstance(owner, int) else values.get(owner.name)
        if isinstance(known, int):
            found[known] = context.after.filled(values)
    return found


# -- the copy --------------------------------------------------------------------------------------------


class Named(Struct):
    """What edits name: keys of summaries and messages, conversations, and lines that they make."""

    summaries: set[str] = field(default_factory=set)
    messages: set[int] = field(default_factory=set)
    owners: set[int] = field(default_factory=set)
    briefs: set[str] = field(default_factory=set)
    of_briefs: set[int] = field(default_factory=set)  #: conversations that get or lose a brief
    sources: dict[str, set[str]] = field(default_factory=dict)  #: of new edges, by consumer
    linked: dict[str, set[int]] = field(default_factory=dict)  #: messages of new links, by leaf

    @classmethod
    def by(cls, edits: Iterable[Edit]) -> Named:
        """What some resolved edits name."""
        found = cls()
        for edit in edits:
            for table, made, row in touched_rows(edit):
                if table == BRIEFS:
                    found._take_brief(row)
                elif table in _COLUMNS:
                    found._take(row)
                if made and table in _SURROUNDINGS_LINES:
                    found._join(row)
        return found

    def _take(self, row: Cells) -> None:
        for column in ("summary_id", "parent_summary_id"):
            if column in row and isinstance(one := row[column], str):
                self.summaries.add(one)
        if isinstance(message := row.get("message_id"), int):
            self.messages.add(message)
        if isinstance(owner := row.get("conversation_id"), int):
            self.owners.add(owner)

    def _take_brief(self, row: Cells) -> None:
        if isinstance(brief := row.get("brief_id"), str):
            self.briefs.add(brief)
        if isinstance(owner := row.get("conversation_id"), int):
            self.of_briefs.add(owner)

    def _join(self, row: Cells) -> None:
        consumer, source, message = (
            row.get(name) for name in ("summary_id", "parent_summary_id", "message_id")
        )
        if isinstance(consumer, str) and isinstance(source, str):
            self.sources.setdefault(consumer, set()).add(source)
        if isinstance(consumer, str) and isinstance(message, int):
            self.linked.setdefault(consumer, set()).add(message)


@contextlib.contextmanager
def surroundings(writer: Writer, catalog: Catalog, edits: tuple[Edit, ...]) -> Iterator[MemoryCopy]:
    """A copy in memory of what is around the rows of resolved *edits*, as *writer* sees it now."""
    with contextlib.closing(connect_memory()) as connection:
        connection.row_factory = sqlite3.Row
        memory = Writer(connection, 0.0)
        memory.execute("BEGIN")
        held = {
            table: tuple([name for name in columns if catalog.schema.has(table, name)])
            for table, columns in _COLUMNS.items()
        }
        copy = MemoryCopy(memory, {table: columns for table, columns in held.items() if columns})
        copy.make(writer)
        _Loading(writer, catalog, copy, edits).load()
        yield copy


class MemoryCopy(Record, frozen=True):
    """The copy: asked like the file itself."""

    memory: Writer
    columns: Mapping[str, tuple[str, ...]]  #: that it has, by table

    def make(self, writer: Writer) -> None:
        """Make the tables; a type as declared converts values as it does there."""
        for table, columns in self.columns.items():
            asked = writer.rows("SELECT name, type FROM pragma_table_info(?)", (table,))
            types = {row[0]: row[1] for row in asked}
            declared = ", ".join(f"{quoted(name)} {_affinity(types.get(name))}" for name in columns)
            self.memory.execute(f"CREATE TABLE {table} ({declared})")
            for name in _INDEXED[table]:
                if name in columns:
                    self.memory.execute(f"CREATE INDEX {table}_{name} ON {table} ({name})")

    def take(self, table: str, rows: Iterable[tuple[SqlValue, ...]]) -> None:
        """Rows of the file, each with its rowid in front; a row that is there already stays one."""
        columns = self.columns[table]
        marks = ", ".join("?" * (len(columns) + 1))
        sql = f"INSERT OR IGNORE INTO {table} (rowid, {', '.join(columns)}) VALUES ({marks})"
        self._write(table, sql, rows)

    def apply(self, edits: Iterable[Edit]) -> None:
        """What the edits do to these tables; ordinals are no matter here."""
        table = sql = ""
        gathered: list[tuple[SqlValue, ...]] = []
        for row_table, row_sql, row in (one for edit in edits for one in self._rows(edit)):
            if row_sql != sql or len(gathered) >= CHUNK:
                self._write(table, sql, gathered)
                table, sql, gathered = row_table, row_sql, []
            gathered.append(row)
        self._write(table, sql, gathered)

    def _write(self, table: str, sql: str, rows: Iterable[tuple[SqlValue, ...]]) -> None:
        for one in writes_alike(table, sql, rows):
            self.memory.execute_many(one.sql, one.rows)

    def _rows(self, edit: Edit) -> Iterator[tuple[str, str, tuple[SqlValue, ...]]]:
        table = CONTEXT if isinstance(edit, Splice) else edit.table
        if table not in self.columns:
            return
        if isinstance(edit, RowChange):
            after = edit.after and self._held(table, edit.after)
            if after is None or after.columns:
                sql, cells = statement(table, edit.key, edit.before, after)
                yield table, sql, tuple(map(value_of, cells))
            return
        for row in edit.removed:
            yield table, self._one_item(), tuple(value_of(row.get(name)) for name in self.columns[table])
        for row in edit.inserted:
            sql, cells = statement(table, row, None, self._held(table, row))
            yield table, sql, tuple(map(value_of, cells))

    def _held(self, table: str, row: Cells) -> Cells:
        """What the copy has of a row."""
        columns, places = _held(self.columns[table], row.columns)
        return Cells(columns, tuple([row.cells[place] for place in places]))

    def _one_item(self) -> str:
        where = " AND ".join(f"{name} IS ?" for name in self.columns["context_items"])
        one = f"SELECT rowid FROM context_items WHERE {where} LIMIT 1"
        return f"DELETE FROM context_items WHERE rowid = ({one})"


def _affinity(declared: object) -> str:
    """What a declared type makes of the values of its column (SQLite, "Determination Of Column Affinity")."""
    text = str(declared or "").upper()
    for parts, affinity in _AFFINITIES:
        if any(part in text for part in parts):
            return affinity
    return "NUMERIC" if text else "BLOB"


_AFFINITIES: Final = (
    (("INT",), "INTEGER"),
    (("CHAR", "CLOB", "TEXT"), "TEXT"),
    (("BLOB",), "BLOB"),
    (("REAL", "FLOA", "DOUB"), "REAL"),
)


@lru_cache(maxsize=64)
def _held(held: tuple[str, ...], given: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The columns that a copy holds of a row with some columns, and where in it they are."""
    names = tuple([name for name in given if name in held])
    return names, tuple([given.index(name) for name in names])


class _Loading:
    """Reads the rows, walk by walk; every question is one of many keys and of an index."""

    def __init__(self, writer: Writer, catalog: Catalog, copy: MemoryCopy, edits: tuple[Edit, ...]) -> None:
        self._writer = writer
        self._catalog = catalog
        self._copy = copy
        self._edits = edits
        self._named = Named.by(edits)
        self._messages: set[int] = set(self._named.messages)
        self._owners: set[int] = set(self._named.owners)

    def load(self) -> None:
        named = self._named
        below = self._walk(named.summaries, "summary_id", "parent_summary_id")
        self._messages |= {message for _, message in self._links("summary_id", named.summaries)}
        others, sources = self._beside()
        made = {leaf for leaf, _ in self._links("message_id", named.messages)}
        self._links_below(below - named.summaries, made)
        above = self._walk(named.summaries | made | others, "parent_summary_id", "summary_id")
        sources |= {source for _, source in self._edges("summary_id", named.summaries)}
        self._summaries(above | sources)
        self._take("messages", "message_id", self._messages)
        self._contexts()
        self._briefs()

    def _briefs(self) -> None:
        rows = self._take(BRIEFS, "brief_id", self._named.briefs)
        owners = {owner for row in rows if isinstance(owner := row[2], int)}
        self._take(BRIEFS, "conversation_id", owners | self._named.of_briefs)

    def _links_below(self, below: set[str], made: set[str]) -> None:
        """Of summaries under those that are named, the links that show what of it is in a context.

        Asked from the smaller side: of all of them, or of what is in the spliced contexts. *made* are the
        leaves of messages that are named. A leaf without a link in the copy covers nothing that is
        anywhere, as one that has links to other messages alone; so a leaf is copied whole or not at all, and
        a summary that has edges too, which would hide that, is always.
        """
        spliced = {
            edit.conversation_id for edit in self._edits if isinstance(edit, Splice) and not edit.moves
        }
        if not below or not spliced or "context_items" not in self._copy.columns:
            return
        items = [
            row[0]
            for owner in spliced
            if isinstance(owner, int)
            for row in self._writer.rows(
                "SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL",
                (owner,),
            )
        ]
        if len(below) * LINKS_PER_SUMMARY <= len(items):
            self._links("summary_id", below)
            return
        holding = made | {leaf for leaf, _ in self._links("message_id", items)}
        rows = self._copy.memory.rows("SELECT DISTINCT summary_id FROM summary_parents")
        self._links("summary_id", below & (holding | {row[0] for row in rows}))

    def _beside(self) -> tuple[set[str], set[str]]:
        """What was made from the sources of summaries that may be read twice; and those sources."""
        if not all(
            table in self._copy.columns for table in ("summaries", "context_items", *_SURROUNDINGS_LINES)
        ):
            return set(), set()
        suspects = concerned(Walks(self._writer, self._catalog.schema.tables), self._edits)
        sources = {source for _, source in self._edges("summary_id", suspects)}
        messages = {message for _, message in self._links("summary_id", suspects)}
        for one in suspects:
            sources |= self._named.sources.get(one, set())
            messages |= self._named.linked.get(one, set())
        consumers = {consumer for consumer, _ in self._edges("parent_summary_id", sources)}
        others = consumers | {leaf for leaf, _ in self._links("message_id", messages)} | suspects
        return others, sources

    def _walk(self, start: set[str], at: str, to: str) -> set[str]:
        """*start* and all that edges lead to from there."""
        found, fresh = set(start), set(start)
        while fresh:
            rows = self._take("summary_parents", at, fresh)
            column = 1 + self._column("summary_parents", to)
            ahead = {one for row in rows if isinstance(one := row[column], str)}
            fresh = ahead - found
            found |= fresh
        return found

    def _edges(self, column: str, keys: Iterable[SqlValue]) -> list[tuple[str, str]]:
        rows = self._take("summary_parents", column, keys)
        return [(row[1], row[2]) for row in rows if isinstance(row[1], str) and isinstance(row[2], str)]

    def _links(self, column: str, keys: Iterable[SqlValue]) -> list[tuple[str, int]]:
        rows = self._take("summary_messages", column, keys)
        return [(row[1], row[2]) for row in rows if isinstance(row[1], str) and isinstance(row[2], int)]

    def _summaries(self, keys: set[str]) -> None:
        rows = self._take("summaries", "summary_id", keys)
        if "conversation_id" in self._copy.columns.get("summaries", ()):
            owner = 1 + self._column("summaries", "conversation_id")
            self._owners |= {one for row in rows if isinstance(one := row[owner], int)}

    def _contexts(self) -> None:
        """The summaries of all contexts that can matter, and of their messages those that are named."""
        if "messages" in self._copy.columns:
            sql = "SELECT DISTINCT conversation_id FROM messages WHERE message_id IN (?*)"
            rows = self._writer.rows_in(sql, self._named.messages)
            self._owners |= {row[0] for row in rows if isinstance(row[0], int)}
        for owner in self._owners:
            self._take("context_items", "conversation_id", [owner], "AND summary_id IS NOT NULL")
            if self._named.messages:
                within = f"AND summary_id IS NULL AND conversation_id = {owner:d}"
                self._take("context_items", "message_id", self._named.messages, within)

    def _take(
        self, table: str, column: str, keys: Iterable[SqlValue], further: str = ""
    ) -> list[tuple[SqlValue, ...]]:
        """MemoryCopy the rows of some keys, and give them: the rowid, then the columns."""
        wanted = list(keys)
        columns = self._copy.columns.get(table)
        if not columns or not wanted:
            return []
        names = ", ".join(columns)
        sql = f"SELECT rowid, {names} FROM {table} WHERE {column} IN (?*) {further}"
        taken: list[tuple[SqlValue, ...]] = []
        for start in range(0, len(wanted), CHUNK):
            rows = [tuple(row) for row in self._writer.rows_in(sql, wanted[start : start + CHUNK])]
            self._copy.take(table, rows)
            taken += rows
        return taken

    def _column(self, table: str, name: str) -> int:
        return self._copy.columns[table].index(name)


# -- tokens of the contexts ------------------------------------------------------------------------------


#: What an item stands for, by the table of its row.
_IDS = {"messages": "message_id", "summaries": "summary_id"}


def moved_tokens(writer: Writer, catalog: Catalog, edits: Iterable[Edit], *, entering: bool) -> int:
    """Tokens of what some edits put into contexts, or take out of them; a missing row weighs none.

    What stays there and is counted anew counts as well. To be asked before the edits are applied for what
    leaves, and behind them for what enters.
    """
    moved: Counter[Ref] = Counter()
    anew: dict[str, list[int | str]] = {table: [] for table in _IDS}
    for edit in edits:
        if isinstance(edit, Splice):
            moved.update(ref_of(row) for row in (edit.inserted if entering else edit.removed))
        elif edit.table in _IDS and edit.before and edit.after and "token_count" in edit.after:
            ref = edit.key[_IDS[edit.table]]
            anew[edit.table] += [ref] if isinstance(ref, int | str) else []
    for table, refs in anew.items():
        moved |= Counter(dict(_items_now(writer, catalog, table, refs)))
    weights = tokens_by_ref(writer, catalog.schema, moved)
    return sum(moved[ref] * tokens for ref, tokens in weights.items())


def tokens_by_ref(db: Rows, schema: Schema, refs: Collection[Ref]) -> dict[Ref, int]:
    """The stored estimates of messages and summaries, by id; a row that is missing has none."""
    found: dict[Ref, int] = {}
    for table, kind in (("messages", int), ("summaries", str)):
        if schema.has(table, "token_count"):
            key = _IDS[table]
            sql = f"SELECT {key}, CAST(token_count AS INTEGER) FROM {table} WHERE {key} IN (?*)"
            keys = [ref for ref in refs if isinstance(ref, kind)]
            found.update((row[0], row[1] or 0) for row in rows_in(db, sql, keys))
    return found


def _items_now(
    writer: Writer, catalog: Catalog, table: str, refs: Iterable[int | str]
) -> list[tuple[int | str, int]]:
    """How many items of their conversations' contexts stand for some messages or summaries now."""
    if not catalog.schema.has("context_items"):
        return []
    key = _IDS[table]
    sql = f"""WITH wanted AS (SELECT {key}, conversation_id FROM {table} WHERE {key} IN (?*))
        SELECT {key}, count(*) FROM context_items WHERE {key} IN (SELECT {key} FROM wanted)
        AND conversation_id IN (SELECT conversation_id FROM wanted) GROUP BY {key}"""
    return [(row[0], row[1]) for row in writer.rows_in(sql, refs)]
