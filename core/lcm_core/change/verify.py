"""Compare a plan with what is in the database now, edit by edit, and say where it would go.

Nothing is written here. Edits see what earlier edits of the same plan do. What comes out are the edits as
they will go (whole rows, ordinals and neighbours of this moment) and everything that moved since they were
planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from lcm_core.change.errors import Moved, context_name, differences, item_name, row_name
from lcm_core.change.place import (
    Covering,
    Listing,
    Shifts,
    carry_out,
    carry_out_moves,
    locate,
    open_anchors,
)
from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cell,
    Cells,
    Edit,
    Owner,
    Ref,
    RowChange,
    Splice,
    Symbol,
    SymbolKind,
    Values,
    fill_row,
    insertions,
    key_of,
    ref_of,
    substitute,
)
from lcm_core.store.connecting import CHUNK, Rows, SqlValue, listed, quoted, rows_in
from lcm_core.store.walks import Walks

#: From so many new rows of a table on, their keys are asked for together.
MANY_NEW = 50
#: The columns of every table, by name.
Tables = Mapping[str, frozenset[str]]
#: Whole rows by table and key, as the edits so far leave them; None: deleted.
_Rows = dict[tuple[str, Cells], Cells | None]


@dataclass(frozen=True, slots=True)
class Step:
    """An edit as it will go; ids of new rows are still symbols."""

    edit: Edit
    shifts: Shifts = ()  #: ordinals that change besides, in an order without collisions
    rowids: tuple[int, ...] | None = None  #: the rows they belong to; None: some are only now inserted


@dataclass(frozen=True, slots=True)
class ContextChange:
    """What a plan does to one context."""

    before: Listing
    after: Listing


@dataclass(frozen=True, slots=True)
class Verified:
    """A plan against the database as it is now."""

    steps: tuple[Step, ...]
    moved: tuple[Moved, ...]  #: what is not as it was; then the steps are good for nothing
    contexts: Mapping[Owner, ContextChange]
    values: Values  #: what seq and ordinal symbols stand for
    defaulted: tuple[str, ...]  #: ``table.column`` that the plan does not know and that take their default

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits as they will go."""
        return tuple(step.edit for step in self.steps)


def verify(db: Rows, edits: Iterable[Edit], tables: Tables) -> Verified:
    """Compare *edits* with the database; *tables* as its schema has them."""
    edits = tuple(edits)
    state = _State(db, tables)
    _look_for_new(state, edits)
    steps = []
    for edit in edits:
        step = _step(state, edit)
        if step is not None:
            steps.append(step)
    return Verified(
        tuple(steps),
        tuple(state.moved),
        {owner: ContextChange(state.original[owner], listing) for owner, listing in state.contexts.items()},
        state.values,
        tuple(sorted(state.defaulted)),
    )


@dataclass(slots=True)
class _State:
    """What is known so far."""

    db: Rows
    tables: Tables
    rows: _Rows = field(default_factory=dict)
    contexts: dict[Owner, Listing] = field(default_factory=dict)
    original: dict[Owner, Listing] = field(default_factory=dict)
    values: dict[str, SqlValue] = field(default_factory=dict)
    last_seq: dict[Owner, int] = field(default_factory=dict)
    moved: list[Moved] = field(default_factory=list)
    defaulted: set[str] = field(default_factory=set)
    shapes: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)  #: of rows that were seen to fit
    absent: dict[str, set[Cell]] = field(default_factory=dict)  #: keys that are free, by table

    def know(self, table: str, columns: Iterable[str]) -> bool:
        """Whether the schema has a table and columns; if not, that has moved."""
        held = self.tables.get(table)
        if not held:
            self.moved.append(Moved(f"table {table}", "there", "gone"))
            return False
        lacking = sorted(set(columns) - held)
        self.moved += (Moved(f"column {table}.{column}", "there", "gone") for column in lacking)
        return not lacking


def _step(state: _State, edit: Edit) -> Step | None:
    match edit:
        case Splice():
            return _splice(state, edit)
        case RowChange(table="context_items"):
            return _append(state, edit)
        case RowChange(before=None):
            return _insert(state, edit)
        case RowChange():
            return _change(state, edit)


# -- rows ------------------------------------------------------------------------------------------------


def _insert(state: _State, edit: RowChange) -> Step | None:
    columns = edit.row.columns
    if (edit.table, columns) not in state.shapes:
        if not state.know(edit.table, columns):
            return None
        state.defaulted |= {f"{edit.table}.{name}" for name in state.tables[edit.table] - set(columns)}
        state.shapes.add((edit.table, columns))
    row = fill_row(edit.row, state.values)
    for cell in row.cells:
        if isinstance(cell, Symbol) and cell.kind is SymbolKind.SEQ:
            state.values[cell.name] = _next_seq(state, row["conversation_id"])
    filled = _filled(edit, state.values)
    if _row_now(state, edit.table, filled.key) is not None:
        state.moved.append(Moved(row_name(edit.table, filled.key), "not there", "there"))
        return None
    state.rows[edit.table, filled.key] = filled.row
    return Step(filled)


def _change(state: _State, edit: RowChange) -> Step | None:
    """A row that is there changes or goes."""
    sides = [cells for cells in (edit.key, edit.before, edit.after) if cells is not None]
    if not state.know(edit.table, {name for cells in sides for name in cells.columns}):
        return None
    filled = _filled(edit, state.values)
    assert filled.before is not None
    row_now = _row_now(state, filled.table, filled.key)
    if row_now is None:
        state.moved.append(Moved(row_name(filled.table, filled.key), "there", "gone"))
        return None
    moved = list(differences(partial(row_name, filled.table, filled.key), filled.before, row_now))
    if moved:
        state.moved += moved
        return None
    state.rows[filled.table, filled.key] = None
    if filled.after is None:
        return Step(RowChange(filled.table, filled.key, row_now, None))
    row = Cells.of({**row_now.as_dict(), **filled.after.as_dict()})
    state.rows[filled.table, key_of(filled.table, row)] = row
    return Step(filled)


def _filled(edit: RowChange, values: Values) -> RowChange:
    filled = substitute(edit, values)
    assert isinstance(filled, RowChange)
    return filled


def _look_for_new(state: _State, edits: Iterable[Edit]) -> None:
    """Ask for the keys of many new rows at once: most are free, and need no question each."""
    wanted: dict[str, list[int | str]] = {}
    for edit in insertions(edits):
        if len(KEYS.get(edit.table, ())) == 1:
            [column], [key] = edit.key.columns, edit.key.cells
            if isinstance(key, int | str) and column in state.tables.get(edit.table, ()):
                wanted.setdefault(edit.table, []).append(key)
    for table, keys in wanted.items():
        if len(keys) < MANY_NEW:
            continue
        name = quoted(KEYS[table][0])
        sql = f"SELECT {name} FROM {quoted(table)} WHERE {name} IN (?*)"
        taken = {row[0] for row in rows_in(state.db, sql, keys)}
        state.absent[table] = {key for key in keys if key not in taken}


def _row_now(state: _State, table: str, key: Cells) -> Cells | None:
    """The whole row that a key names, as the edits so far leave it."""
    if (table, key) in state.rows:
        return state.rows[table, key]
    if len(key.cells) == 1 and key.cells[0] in state.absent.get(table, ()):
        return None
    parameters = tuple([value for value in key.cells if not isinstance(value, Symbol)])
    if len(parameters) < len(key.cells):
        return None
    where = " AND ".join(f"{quoted(name)} IS ?" for name in key.columns)
    columns = listed(state.tables[table])
    rows = state.db.rows(f"SELECT {columns} FROM {quoted(table)} WHERE {where} LIMIT 2", parameters)
    if len(rows) > 1:
        state.moved.append(Moved(row_name(table, key), "one row", "several"))
    return Cells.of(dict(rows[0])) if rows else None


def _next_seq(state: _State, owner: Cell) -> int:
    if not isinstance(owner, int | Symbol):
        raise TypeError("a message belongs to a conversation")
    if owner not in state.last_seq:
        state.last_seq[owner] = 0
        if isinstance(owner, int):
            [row] = state.db.rows("SELECT max(seq) FROM messages WHERE conversation_id = ?", (owner,))
            state.last_seq[owner] = row[0] or 0
    state.last_seq[owner] += 1
    return state.last_seq[owner]


# -- contexts --------------------------------------------------------------------------------------------


def read_listing(db: Rows, conversation_id: int) -> Listing:
    """The items of a context in order; nothing of what they refer to."""
    rows = db.tuples(
        """SELECT ordinal, message_id, summary_id, rowid FROM context_items
        WHERE conversation_id = ? ORDER BY ordinal""",
        (conversation_id,),
    )
    if not rows:
        return Listing.of(())
    ordinals, messages, summaries, rowids = zip(*rows, strict=True)
    pairs = zip(messages, summaries, strict=True)
    refs: list[Ref] = [message if summary is None else summary for message, summary in pairs]
    return Listing(list(ordinals), refs, list(rowids))


def _context(state: _State, owner: Owner) -> Listing:
    if owner not in state.contexts:
        listing = read_listing(state.db, owner) if isinstance(owner, int) else Listing.of(())
        if set(map(type, listing.ordinals)) > {int}:
            state.moved.append(Moved(context_name(owner), "numbered", "with an ordinal that is not a number"))
            listing = Listing.of(())
        state.contexts[owner], state.original[owner] = listing, listing.copy()
    return state.contexts[owner]


def _append(state: _State, edit: RowChange) -> Step | None:
    """An item at the end of a context, as the splice that undo can find again."""
    if not state.know(CONTEXT, edit.row.columns):
        return None
    row, ordinal = fill_row(edit.row, state.values), edit.row.get("ordinal")
    if edit.before or not (isinstance(ordinal, Symbol) and ordinal.kind is SymbolKind.ORDINAL):
        raise ValueError("context items change by Splice only")
    owner = row["conversation_id"]
    if not isinstance(owner, int | Symbol):
        raise TypeError("a context item belongs to a conversation")
    listing = _context(state, owner)
    state.values[ordinal.name] = listing.ordinals[-1] + 1 if len(listing) else 0
    end = Splice(owner, listing.item(len(listing) - 1), None, (), (row.but(ordinal=0),), 1)
    return _splice(state, end)


def _splice(state: _State, edit: Splice) -> Step | None:
    filled = substitute(edit, state.values)
    assert isinstance(filled, Splice)
    shapes = {row.columns for row in filled.inserted}
    if not state.know(CONTEXT, set().union(*shapes, *(row.columns for row in filled.removed))):
        return None
    for columns in shapes:
        state.defaulted |= {f"{CONTEXT}.{name}" for name in state.tables[CONTEXT] - set(columns)}
    listing = _context(state, filled.conversation_id)
    if filled.moves:
        return _renumbered(state, listing, filled)
    covering: dict[Ref, frozenset[str]] = {}
    walks = Walks(state.db, state.tables)
    for anchor in open_anchors(listing, filled):
        if isinstance(anchor.ref, int | str):
            covering[anchor.ref] = walks.above([anchor.ref])[anchor.ref]
    return _spliced(state, listing, filled, covering)


def _spliced(state: _State, listing: Listing, edit: Splice, covering: Covering) -> Step | None:
    owner = edit.conversation_id
    place = locate(listing, edit, covering)
    if isinstance(place, str):
        run = [item_name(ref_of(row)) for row in edit.removed or edit.inserted]
        what = run[0] if len(run) == 1 else f"{run[0]} and {len(run) - 1:,} more" if run else "the end"
        state.moved.append(Moved(context_name(owner), f"as planned around {what}", place))
        return None
    removed: list[Cells] = []
    for start in range(0, len(edit.removed), CHUNK):
        part = edit.removed[start : start + CHUNK]
        places = range(place.start + start, place.start + start + len(part))
        for at, planned, row_now in zip(places, part, _context_rows(state, listing, places), strict=False):
            if planned.is_exactly(row_now):  # one object for both: a run may have a million rows
                removed.append(planned)
                continue
            name = partial(_item_in, owner, listing.refs[at])
            state.moved += differences(name, planned.without("ordinal"), row_now)
            removed.append(row_now)
    done = carry_out(listing, owner, place, removed, edit.inserted)
    return Step(done.splice, done.shifts, done.rowids)


def _item_in(owner: Owner, ref: Ref) -> str:
    return f"{context_name(owner)}: {item_name(ref)}"


def _context_rows(state: _State, listing: Listing, places: range) -> list[Cells]:
    """The whole rows of some items, with the ordinals that they have by now."""
    rows = listing.rows[places.start : places.stop]
    columns = sorted(state.tables[CONTEXT])
    found = state.db.rows_in(
        f"SELECT rowid, {listed(columns)} FROM context_items WHERE rowid IN (?*)",
        [row for row in rows if isinstance(row, int)],
    )
    stored = {row[0]: Cells.of(dict(zip(columns, row[1:], strict=True))) for row in found}
    return [
        (row if isinstance(row, Cells) else stored[row]).but(ordinal=ordinal)
        for row, ordinal in zip(rows, listing.ordinals[places.start : places.stop], strict=True)
    ]


def _renumbered(state: _State, listing: Listing, edit: Splice) -> Step | None:
    done = carry_out_moves(listing, edit)
    if isinstance(done, str):
        state.moved.append(Moved(context_name(edit.conversation_id), "as planned", done))
        return None
    return Step(done.splice, done.shifts, done.rowids)
