"""What is wrong around the rows that a change touches: the checks, asked by a commit.

Source: docs/spec/changes.md, "Checked before the lock".

The rows around the edits are read. The checks of contexts and of the graph examine them twice: as they are,
and as the edits leave them (`try_change`). A finding that appears only afterwards means that the change would
break the database; a finding that disappears was fixed by the change. References to nothing (A1, A2, B3, B4,
E13 and others) are counted in the database itself, as far as the edits cause them (`missing_targets`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from lcm_core.base.records import ContextItems
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.apply import ResolvedEdits
from lcm_core.change.connection import Catalog, Reference, Writer
from lcm_core.change.place import Listing, Verified
from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cell,
    Cells,
    Edit,
    Ref,
    RowChange,
    Values,
    briefs_key,
    fault_key,
    ref_of,
    reference_key,
    sorted_names,
    touched_rows,
    value_of,
)
from lcm_core.checks import context, lineage
from lcm_core.checks.check import Subject
from lcm_core.checks.structure import StoredNode, Structure, node_of, partial_structure, whole_number
from lcm_core.store.focus import BRIEFS
from lcm_core.store.opening import SqlValue, quoted


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


#: The items of contexts, before a change and after it.
Lists = Mapping[int, tuple[Listing, Listing]]


def try_change(writer: Writer, catalog: Catalog, verified: Verified, resolved: ResolvedEdits) -> Tried:
    """Read what is around the edits, and ask the checks of it before and after."""
    edits = resolved.edits
    lacking, lacking_then = missing_targets(writer, catalog, edits)
    around = Surroundings(writer, catalog, edits, lists_of(verified, resolved.values))
    before, leaving = around.findings(), around.tokens()
    around.apply(edits)
    after, entering = around.findings(), around.tokens()
    return Tried(before | lacking, after | lacking_then, entering - leaving)


def lists_of(verified: Verified, values: Values) -> Lists:
    """The lists before and behind the change, with real ids."""
    found: dict[int, tuple[Listing, Listing]] = {}
    for owner, change in verified.contexts.items():
        known = owner if isinstance(owner, int) else values.get(owner.name)
        if isinstance(known, int):
            found[known] = change.before, change.after.filled(values)
    return found


# -- what is read ------------------------------------------------------------------------------------------
# For edits that name the summaries S and the messages M, and for the contexts that they change:
#
# - the edges and links of S to their sources;
# - of the summaries that come into the model's reach or leave it, the same, and what else was made from
#   those sources: it may be read twice. Most changes keep that reach (a summary is replaced by its sources,
#   or they by it), so few rows are read of a history that grows without end;
# - all that was made from S, from M, from those others, and from the items of the contexts;
# - the rows of all these, and of the sources of S; of the contexts of their conversations the summaries,
#   and the items of M;
# - all focus briefs of a conversation of which the edits touch one.

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "summaries": ("summary_id", "conversation_id", "kind", "depth", "created_at", "token_count"),
    "messages": ("message_id", "conversation_id", "token_count"),
    "summary_messages": ("summary_id", "message_id"),
    "summary_parents": ("summary_id", "parent_summary_id"),
    BRIEFS: ("brief_id", "conversation_id", "status"),
}
#: The columns of a source, by the table of the line to it.
_SOURCES: Final = {"summary_messages": "message_id", "summary_parents": "parent_summary_id"}
#: Checks that are asked of the items that come or go, of all items where some do, and of all that is read.
#: The others are asked of summaries whose row, sources or consumers change.
_OF_ITEMS: Final = frozenset({"A3", "A4", "A5", "A9", "A11", "B13"})
_BESIDE: Final = frozenset({"A6", "A7"})
_SHARED: Final = frozenset({"B14", "B15"})

_Row = dict[str, SqlValue]


class _Named(Struct):
    """What edits name. Both sides of a change together, so that before and after ask the same."""

    summaries: set[str] = field(default_factory=set)
    messages: set[int] = field(default_factory=set)
    owners: set[int] = field(default_factory=set)
    briefs: set[str] = field(default_factory=set)
    of_briefs: set[int] = field(default_factory=set)  #: conversations that get or lose a brief
    items: dict[int, set[Ref]] = field(default_factory=dict)  #: that come or go, by conversation
    touched: set[str] = field(default_factory=set)  #: summaries whose row, sources or consumers change
    joined: set[str] = field(default_factory=set)  #: summaries whose sources or consumers change
    made: dict[str, set[int | str]] = field(default_factory=dict)  #: sources of lines that come
    gone: dict[str, set[int | str]] = field(default_factory=dict)  #: sources of lines that go
    coming: set[str] = field(default_factory=set)  #: into a context, or below another consumer
    leaving: set[str] = field(default_factory=set)

    @classmethod
    def by(cls, edits: Iterable[Edit]) -> _Named:
        """What some resolved edits name."""
        found = cls()
        for edit in edits:
            for table, comes, row in touched_rows(edit):
                if table == BRIEFS:
                    found.of_briefs.update(_whole_numbers(row.get("conversation_id")))
                    found.briefs.update(_texts(row.get("brief_id")))
                elif table in _SOURCES:
                    found._line(table, row, comes)
                elif table == CONTEXT or table in _COLUMNS:
                    found._row(table, row, comes)
        return found

    def _row(self, table: str, row: Cells, comes: bool) -> None:
        owners = _whole_numbers(row.get("conversation_id"))
        summaries = _texts(row.get("summary_id"))
        self.owners.update(owners)
        self.summaries.update(summaries)
        self.messages.update(_whole_numbers(row.get("message_id")))
        if table == "summaries":
            if "conversation_id" in row or "kind" in row:
                self.joined.update(summaries)
                # One that moves to another conversation is out of the reach of its own.
                (self.coming if comes and self.touched.isdisjoint(summaries) else self.leaving).update(
                    summaries
                )
            self.touched.update(summaries)
        elif table == CONTEXT:
            (self.coming if comes else self.leaving).update(summaries)
            for owner in owners:
                self.items.setdefault(owner, set()).add(ref_of(row))

    def _line(self, table: str, row: Cells, comes: bool) -> None:
        source = row.get(_SOURCES[table])
        summaries = [*_texts(row.get("summary_id")), *_texts(source)]
        self.messages.update(_whole_numbers(source))
        for names in (self.summaries, self.touched, self.joined):
            names.update(summaries)
        (self.coming if comes else self.leaving).update(_texts(source))
        for consumer in _texts(row.get("summary_id")):
            lines = self.made if comes else self.gone
            lines.setdefault(consumer, set()).update([*_texts(source), *_whole_numbers(source)])


def _whole_numbers(value: Cell) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else ()


def _texts(value: Cell) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else ()


class Surroundings:
    """The rows around some resolved edits, as the file has them or as the edits leave them."""

    def __init__(self, writer: Writer, catalog: Catalog, edits: Iterable[Edit], lists: Lists) -> None:
        self._writer = writer
        self._columns = {
            table: tuple([name for name in columns if catalog.schema.has(table, name)])
            for table, columns in _COLUMNS.items()
        }
        self.rows: dict[str, dict[tuple[Cell, ...], _Row]] = {table: {} for table in _COLUMNS}
        self._named = _Named.by(edits)
        self._lists = lists
        self._contexts: dict[int, list[tuple[int, Ref]]] = {}
        self._asked: set[int] = set()  #: messages that are gone where no row of them is here
        self._load()
        self._follow(0)

    def apply(self, edits: Iterable[Edit]) -> None:
        """What the edits do to these rows."""
        for edit in edits:
            if isinstance(edit, RowChange) and edit.table in self.rows:
                rows = self.rows[edit.table]
                row = rows.pop(edit.key.cells, {})
                if edit.after is not None:
                    columns = self._columns[edit.table]
                    row = row | {name: value_of(cell) for name, cell in edit.after.values if name in columns}
                    rows[tuple([row.get(name) for name in edit.key.columns])] = row
        self._follow(1)

    def _follow(self, side: int) -> None:
        """Take the lists of one side of the change: of their items those of which something is known."""
        known = {*self._refs("messages", "message_id"), *self._refs("summaries", "summary_id")}
        known.update(row["message_id"] for row in self.rows["summary_messages"].values())
        for owner, both in self._lists.items():
            items = zip(both[side].ordinals, both[side].refs, strict=True)
            near = self._named.items.get(owner, set())
            self._contexts[owner] = [item for item in items if item[1] in known or item[1] in near]

    def _refs(self, table: str, column: str) -> Iterator[SqlValue]:
        return (row[column] for row in self.rows[table].values())

    # -- reading ---------------------------------------------------------------------------------------------

    def _take(self, table: str, column: str, keys: Iterable[SqlValue]) -> list[_Row]:
        """Read the rows of some keys, and give them."""
        wanted, columns = list(keys), self._columns[table]
        if not wanted or column not in columns:
            return []
        names, held = sorted_names(KEYS[table]), self.rows[table]
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {column} IN (?*)"
        found = [dict(zip(columns, row, strict=True)) for row in self._writer.rows_in(sql, wanted)]
        held.update((tuple([row[name] for name in names]), row) for row in found)
        return found

    def _sources_of(self, summaries: Iterable[str]) -> set[SqlValue]:
        """What some summaries were made from, and are made from by the edits."""
        asked = list(summaries)
        found: set[SqlValue] = {source for one in asked for source in self._named.made.get(one, ())}
        for table, column in _SOURCES.items():
            found.update(row[column] for row in self._take(table, "summary_id", asked))
        return found

    def _consumers_of(self, refs: Iterable[SqlValue]) -> set[str]:
        """What was made from some messages and summaries."""
        asked = list(refs)
        messages = [ref for ref in asked if isinstance(ref, int)]
        summaries = [ref for ref in asked if isinstance(ref, str)]
        rows = self._take("summary_messages", "message_id", messages)
        rows += self._take("summary_parents", "parent_summary_id", summaries)
        return {consumer for row in rows if isinstance(consumer := row["summary_id"], str)}

    def _load(self) -> None:
        named = self._named
        sources = self._sources_of(named.summaries)
        suspects = named.joined | self._moved_reach()
        shared = self._sources_of(suspects)
        start = named.summaries | suspects | self._consumers_of(shared | named.messages)
        if start:
            items = {ref for owner in named.items for both in self._lists.get(owner, ()) for ref in both.refs}
            start |= self._consumers_of(ref for ref in items if isinstance(ref, int))
            start.update(ref for ref in items if isinstance(ref, str))
        above, fresh = set(start), set(start)
        while fresh:
            fresh = self._consumers_of(fresh) - above
            above |= fresh
        above.update(one for one in sources | shared if isinstance(one, str))
        self._take("summaries", "summary_id", above)
        self._asked = named.messages.union(one for one in sources if isinstance(one, int))
        self._take("messages", "message_id", self._asked)
        self._load_contexts()
        briefs = self._take(BRIEFS, "brief_id", named.briefs)
        self._take(BRIEFS, "conversation_id", {*named.of_briefs, *(row["conversation_id"] for row in briefs)})

    def _moved_reach(self) -> set[str]:
        """The summaries that come into the model's reach or leave it: below one side of the change alone."""
        sides = [set(self._named.leaving), set(self._named.coming)]
        ahead = [set(one) for one in sides]
        lines = (self._named.gone, self._named.made)
        staying: defaultdict[str, set[str]] = defaultdict(set)  #: sources by consumer
        while any(ahead):
            for side, reached in enumerate(sides):
                # What both sides reach is of no more interest, nor is all below it.
                fresh = ahead[side] - _below(staying, sides[0] & sides[1])
                for row in self._take("summary_parents", "summary_id", fresh):
                    consumer = str(row["summary_id"])
                    staying[consumer].update(
                        {*_texts(row["parent_summary_id"])} - self._named.gone.get(consumer, set())
                    )
                found = {source for one in fresh for source in {*staying[one], *lines[side].get(one, ())}}
                ahead[side] = {one for one in found if isinstance(one, str)} - reached
                reached |= ahead[side]
        return (sides[0] ^ sides[1]) - _below(staying, sides[0] & sides[1])

    def _load_contexts(self) -> None:
        """The summaries of all other contexts that can matter, and of their messages those that are named."""
        owners = self._named.owners.union(
            owner
            for table in ("summaries", "messages")
            for row in self.rows[table].values()
            if isinstance(owner := row["conversation_id"], int)
        )
        for owner in owners - self._lists.keys():
            items = "SELECT message_id, summary_id FROM context_items WHERE conversation_id = "
            rows = self._writer.rows(f"{items}{owner:d} AND summary_id IS NOT NULL")
            rows += self._writer.rows_in(
                f"{items}{owner:d} AND summary_id IS NULL AND message_id IN (?*)", self._named.messages
            )
            self._contexts[owner] = [
                (place, message if summary is None else summary)
                for place, (message, summary) in enumerate(rows)
            ]

    # -- asking ----------------------------------------------------------------------------------------------

    def tokens(self) -> int:
        """The stored estimates of what the contexts hold; a missing row weighs none."""
        rows = (*self.rows["messages"].items(), *self.rows["summaries"].items())
        weights = {key[0]: whole_number(row.get("token_count")) or 0 for key, row in rows}
        return sum(weights.get(ref, 0) for items in self._contexts.values() for _, ref in items)

    def findings(self) -> frozenset[str]:
        """Keys of what is wrong with what the edits touch."""
        briefs = self.rows[BRIEFS].values()
        active = Counter(row["conversation_id"] for row in briefs if row.get("status") == "active")
        several = {briefs_key(owner) for owner, count in active.items() if count > 1}
        return frozenset(several.union(self.keys(self.structures())))

    def keys(self, structures: Iterable[Structure]) -> Iterator[str]:
        """Keys of what is wrong with some conversations, as far as the edits touch it."""
        for structure in structures:
            for rule in (*context.CHECKS, *lineage.CHECKS):
                for subject in rule.subjects(structure):
                    if self._is_near(rule.id, structure.id, subject):
                        yield fault_key(rule.id, structure.id, subject)

    def _is_near(self, check: str, owner: int, subject: Subject) -> bool:
        items: set[Ref] = self._named.items.get(owner, set())
        if check in _OF_ITEMS:
            return subject in items
        if check in _BESIDE:
            return bool(items)
        parts = subject if isinstance(subject, tuple) else (subject,)
        return check in _SHARED or not self._named.touched.isdisjoint(parts)

    def structures(self) -> Iterator[Structure]:
        """What is known of each conversation."""
        owners = {
            key[0]: owner
            for table in ("messages", "summaries")
            for key, row in self.rows[table].items()
            if isinstance(owner := row["conversation_id"], int)
        }
        nodes: defaultdict[int, list[StoredNode]] = defaultdict(list)
        messages: defaultdict[int, set[int]] = defaultdict(set)
        lines: defaultdict[int, list[tuple[str, int | str]]] = defaultdict(list)
        for ref, owner in owners.items():
            if isinstance(ref, int):
                messages[owner].add(ref)
            elif isinstance(ref, str):
                nodes[owner].append(node_of(self.rows["summaries"][(ref,)]))
        consumed = set[Cell]()
        for table, column in _SOURCES.items():
            for row in self.rows[table].values():
                consumer, source = row["summary_id"], row[column]
                consumed.add(source)
                if isinstance(consumer, str) and consumer in owners and isinstance(source, int | str):
                    lines[owners[consumer]].append((consumer, source))
                    if isinstance(source, int) and source not in self._asked:
                        messages[owners[consumer]].add(source)
        for owner in {*nodes, *self._contexts}:
            items = self._contexts.get(owner, [])
            refs = [ref if isinstance(ref, int | str) else None for _, ref in items]
            near = {*refs, *self._named.items.get(owner, ()), *(source for _, source in lines[owner])}
            foreign = {
                ref: owners[ref]
                for ref in near
                if isinstance(ref, int | str) and owners.get(ref, owner) != owner
            }
            at_home = frozenset(
                ref
                for ref, home in foreign.items()
                if ref in consumed or any(item == ref for _, item in self._contexts.get(home, ()))
            )
            listed = ContextItems.naming(refs, [ordinal for ordinal, _ in items])
            yield partial_structure(
                owner, listed, nodes[owner], lines[owner], messages[owner], foreign, at_home
            )


def _below(sources: Mapping[str, set[str]], start: Iterable[str]) -> set[str]:
    """*start* and all below, as far as it is known."""
    found = set(start)
    fresh = set(found)
    while fresh:
        fresh = {source for one in fresh for source in sources.get(one, ())} - found
        found |= fresh
    return found


# -- references without a target ------------------------------------------------------------------------


def missing_targets(
    writer: Writer, catalog: Catalog, edits: Iterable[Edit]
) -> tuple[frozenset[str], frozenset[str]]:
    """Keys of what lacks its target in the database as it is, and of what will behind resolved *edits*.

    Rows are counted: those that are there, less those that the edits take away, and those that they make.
    """
    rows: defaultdict[str, list[tuple[int, Cells]]] = defaultdict(list)
    for table, comes, row in (one for edit in edits for one in touched_rows(edit)):
        rows[table].append((1 if comes else -1, row))
    before: set[str] = set()
    after: set[str] = set()
    for target, column in {(one.target, one.target_column) for one in catalog.references}:
        named = [one for one in catalog.to(target) if one.target_column == column]
        moved = {one: _moved(rows[one.table], one.column, _owner_column(one)) for one in named}
        made = _moved(rows[target], column)
        values = {value for counts in (made, *moved.values()) for value, _ in counts} - {None}
        sql = f"SELECT {quoted(column)} FROM {quoted(target)} WHERE {quoted(column)} IN (?*)"
        there = Counter(row[0] for row in writer.rows_in(sql, values))
        lacking = {one for one in values if there[one] <= 0}
        lacking_then = {one for one in values if there[one] + made[one, None] <= 0}
        for reference in named if lacking or lacking_then else ():
            now = _referring(writer, reference, lacking | lacking_then)
            later = now + moved[reference]  # what is no more is left out
            key = partial(reference_key, reference.table, reference.column)
            before.update(key(*one) for one in now if one[0] in lacking)
            after.update(key(*one) for one in later if one[0] in lacking_then)
    return frozenset(before), frozenset(after)


#: How many rows name a value; in contexts, by the conversation beside it.
_Counts = Counter[tuple[SqlValue, SqlValue]]


def _owner_column(reference: Reference) -> str | None:
    return "conversation_id" if reference.table == CONTEXT and reference.column != "conversation_id" else None


def _moved(rows: Iterable[tuple[int, Cells]], column: str, owner: str | None = None) -> _Counts:
    """By how many rows a column's values grow or shrink; what stays as many is there with 0."""
    found: _Counts = Counter()
    for sign, row in rows:
        if column in row.columns:
            found[value_of(row[column]), value_of(row.get(owner)) if owner else None] += sign
    return found


def _referring(writer: Writer, reference: Reference, values: Iterable[SqlValue]) -> _Counts:
    rows = writer.rows_in(
        f"""SELECT {quoted(reference.column)}, {_owner_column(reference) or "NULL"}, count(*)
        FROM {quoted(reference.table)} WHERE {quoted(reference.column)} IN (?*) GROUP BY 1, 2""",
        values,
    )
    return Counter({(value, of): count for value, of, count in rows})
