"""Where an edit belongs in a database that may have changed since the plan, and what changed meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from lcm_core.base.values import Record, Struct, field
from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cell,
    Cells,
    Edit,
    Item,
    Move,
    Moved,
    Owner,
    Ref,
    RowChange,
    Splice,
    Symbol,
    SymbolKind,
    Values,
    context_name,
    differences,
    fill_row,
    insertions,
    item_name,
    key_of,
    ref_of,
    renumbering,
    row_name,
    substitute,
)
from lcm_core.store.opening import CHUNK, Rows, SqlValue, listed_values, quoted
from lcm_core.store.summaries import made_from

# -- the place of a splice -------------------------------------------------------------------------------
# Where a splice belongs in a context. Pure.
#
# The rule: a run that was in one place is found by what it refers to, whatever became of its neighbours. A
# run of which something is elsewhere too, and an insertion, are found by their neighbours; a neighbour that
# was compacted since is replaced by the one item whose coverage contains it. Where that leaves a doubt,
# there is no place.

#: Old and new ordinals of rows, in an order in which no two rows ever share one.
Shifts = tuple[tuple[int, int], ...]
#: The summaries that cover an anchor, directly or through others, by what the anchor stands for.
Covering = Mapping[Ref, frozenset[str]]

GONE = "what it replaces is no longer in the context"
NO_PLACE = "its place no longer exists"
SEVERAL = "it is in several places, and they have changed"


class Listing(Struct):
    """The items of one context in order, column by column: 35,000 of them are handled under a lock."""

    ordinals: list[int]
    refs: list[Ref]
    rows: list[int | Cells]  #: the rowid in the database, or the row itself when a plan inserts it

    @classmethod
    def of(cls, items: Iterable[tuple[int, Ref]]) -> Listing:
        """A list as a plan is made on it; *items* in order of ordinal."""
        pairs = list(items)
        return cls([ordinal for ordinal, _ in pairs], [ref for _, ref in pairs], list(range(len(pairs))))

    def copy(self) -> Listing:
        """The same list, to be changed."""
        return Listing(self.ordinals[:], self.refs[:], self.rows[:])

    def filled(self, values: Values) -> Listing:
        """The same list with the ids that new rows got."""
        return Listing(
            self.ordinals, [_filled(ref, values) for ref in self.refs] if values else self.refs, self.rows
        )

    def __len__(self) -> int:
        return len(self.refs)

    def item(self, at: int, run: range = range(0)) -> Item | None:
        """What is at a place, counted without a *run*; None beyond the ends."""
        if not 0 <= at < len(self.refs):
            return None
        ref = self.refs[at]
        ahead, inside = self.refs[:at].count(ref), self.refs[run.start : run.stop].count(ref)
        return Item(ref, ahead - (inside if at >= run.stop else 0), self.refs.count(ref) - inside)


class Place(Record, frozen=True):
    """Where a splice goes, and the ordinals that follow from it."""

    start: int  #: index of the first removed item, or of the item that the insertion goes before
    ordinals: tuple[int, ...]  #: of the inserted rows
    shift: int  #: of everything behind


class _Found(Record, frozen=True):
    at: int
    exact: bool  #: the anchor itself; else the item that covers it


def _filled(ref: Ref, values: Values) -> Ref:
    found = values.get(ref.name, ref) if isinstance(ref, Symbol) else ref
    return found if isinstance(found, int | str | Symbol) else None


def count_copies(refs: Sequence[Ref], run: Sequence[Ref]) -> int:
    """How many items stand for what a run stands for: as many as it has, unless something is there twice."""
    wanted = set(run)
    return len([ref for ref in refs if ref in wanted])


def open_anchors(listing: Listing, splice: Splice) -> tuple[Item, ...]:
    """The anchors that `locate` has use for and does not find: what covers them must be asked."""
    if splice.removed and splice.copies[0] == len(splice.removed):
        return ()
    return tuple(
        anchor
        for anchor in (splice.after, splice.before)
        if anchor is not None and anchor.ref not in listing.refs
    )


def locate(listing: Listing, splice: Splice, covering: Covering) -> Place | str:
    """The one place where the splice belongs, or the reason why there is none."""
    if not splice.removed:
        start = _gap(listing.refs, splice, covering)
        return NO_PLACE if start is None else _place(listing, start, splice)
    run = [ref_of(row) for row in splice.removed]
    starts = _starts(listing.refs, run)
    if not starts:
        return GONE
    if count_copies(listing.refs, run) != splice.copies[0]:
        return SEVERAL
    if splice.copies[0] > len(run):
        starts = [start for start in starts if _is_between(listing.refs, start, splice, covering)]
    return _place(listing, starts[0], splice) if len(starts) == 1 else SEVERAL


def _starts(refs: Sequence[Ref], run: Sequence[Ref]) -> list[int]:
    """Every index at which a run begins, item after item."""
    found: list[int] = []
    at = -1
    while True:
        try:
            at = refs.index(run[0], at + 1)
        except ValueError:
            return found
        if list(refs[at : at + len(run)]) == list(run):
            found.append(at)


def _gap(refs: Sequence[Ref], splice: Splice, covering: Covering) -> int | None:
    """The index before which a pure insertion goes."""
    nothing = range(0)
    after = _resolve(refs, splice.after, nothing, covering) if splice.after else None
    before = _resolve(refs, splice.before, nothing, covering) if splice.before else None
    if splice.after is None and splice.before is None:
        return None if refs else 0
    if splice.after is None:
        return 0 if before and before.at == 0 else None
    if after and before:
        return before.at if before.at == after.at + 1 else None
    # An item that covers one neighbour may cover the place itself; only the neighbour proves it alone.
    if after and after.exact:
        return after.at + 1
    return before.at if before and before.exact else None


def _is_between(refs: Sequence[Ref], start: int, splice: Splice, covering: Covering) -> bool:
    """Whether a run's neighbours are the ones it was planned between."""
    run = range(start, start + len(splice.removed))
    for anchor, at, end in ((splice.after, run.start - 1, -1), (splice.before, run.stop, len(refs))):
        found = None if anchor is None else _resolve(refs, anchor, run, covering)
        if at != (end if anchor is None else found.at if found else None):
            return False
    return True


def _resolve(refs: Sequence[Ref], anchor: Item, run: range, covering: Covering) -> _Found | None:
    """The index of an anchor, or of the only item that was made from it since."""
    places = [at for at, ref in enumerate(refs) if ref == anchor.ref and at not in run]
    if places or anchor.copies > 1:
        return _Found(places[anchor.occurrence], True) if len(places) == anchor.copies else None
    summaries = covering.get(anchor.ref, frozenset())
    found = [at for at, ref in enumerate(refs) if ref in summaries and at not in run]
    return _Found(found[0], False) if len(found) == 1 else None


# -- ordinals --------------------------------------------------------------------------------------------


def _place(listing: Listing, start: int, splice: Splice) -> Place:
    """Ordinals as they were planned, moved along with the run; else one after the other."""
    ordinals, count = listing.ordinals, len(splice.removed)
    ahead = ordinals[start - 1] if start else None
    behind = ordinals[start + count] if start + count < len(ordinals) else None
    first = ordinals[start] if count else behind or 0 if ahead is None else ahead + 1
    in_turn = tuple(range(first, first + len(splice.inserted)))
    delta = _translation(ordinals[start : start + count], ahead, behind, splice)
    wanted = [(in_turn, splice.shift)]
    if delta is not None:
        planned = tuple(ordinal + delta for ordinal in _planned(splice.inserted))
        room = planned[-1] + 1 - behind if planned and behind is not None else splice.shift
        wanted[:0] = [(planned, splice.shift), (planned, max(room, splice.shift))]
    for chosen, shift in wanted:
        if _fits(chosen, shift, ahead, behind):
            return Place(start, chosen, shift)
    if count:
        shift = len(in_turn) - count
        lowest = 0 if behind is None else min(0, behind) - behind
        return Place(start, in_turn, shift if behind is None else max(shift, lowest))
    return Place(start, in_turn, 0 if behind is None else max(0, first + len(in_turn) - behind))


def _translation(present: Sequence[int], ahead: int | None, behind: int | None, splice: Splice) -> int | None:
    """By how much the run has moved since it was planned; None when it is not the same any more."""
    planned = _planned(splice.removed)
    if planned:
        deltas = {now - then for now, then in zip(present, planned, strict=True)}
        return deltas.pop() if len(deltas) == 1 else None
    for now, then in ((ahead, splice.gap[0]), (behind, splice.gap[1])):
        if now is not None and then is not None:
            return now - then
    return 0


def _fits(ordinals: Sequence[int], shift: int, ahead: int | None, behind: int | None) -> bool:
    """Whether everything is still in order, and nothing behind gets an ordinal below zero."""
    line = [*([] if ahead is None else [ahead]), *ordinals]
    if behind is not None:
        if behind + shift < min(0, behind):
            return False
        line.append(behind + shift)
    return all(left < right for left, right in pairwise(line))


def _planned(rows: Iterable[Cells]) -> list[int]:
    found = []
    for row in rows:
        ordinal = row["ordinal"]
        if not isinstance(ordinal, int):
            raise TypeError("the rows of a splice have ordinals")
        found.append(ordinal)
    return found


# -- carrying a splice out -------------------------------------------------------------------------------


class Spliced(Record, frozen=True):
    """What a splice did to a list."""

    splice: Splice  #: as it went: ordinals, neighbours and shift of this list
    shifts: Shifts  #: ordinals that change besides
    rowids: tuple[int, ...] | None  #: the rows they belong to, when the database has all of them


def carry_out(
    listing: Listing,
    conversation_id: Owner,
    place: Place,
    removed: Sequence[Cells],
    inserted: Sequence[Cells],
) -> Spliced:
    """Splice a list; *removed* are the rows as they are there."""
    run = range(place.start, place.start + len(removed))
    ordinals, old = listing.ordinals, listing.ordinals[run.stop :]
    # Row by row from the far end, so that no two rows ever share an ordinal.
    turn = slice(None, None, -1 if place.shift > 0 else 1) if place.shift else slice(0)
    shifts = tuple([(ordinal, ordinal + place.shift) for ordinal in old[turn]])
    rowids = _rowids(listing.rows[run.stop :][turn])
    rows = tuple(row.but(ordinal=ordinal) for row, ordinal in zip(inserted, place.ordinals, strict=True))
    gap = (ordinals[run.start - 1] if run.start else None, old[0] if old else None)
    after, before = listing.item(run.start - 1, run), listing.item(run.stop, run)
    refs = [ref_of(row) for row in rows]
    gone = count_copies(listing.refs, listing.refs[run.start : run.stop])
    ordinals[run.start :] = [*place.ordinals, *[ordinal + place.shift for ordinal in old]]
    listing.refs[run.start : run.stop] = refs
    listing.rows[run.start : run.stop] = rows
    copies = (gone, count_copies(listing.refs, refs))
    splice = Splice(conversation_id, after, before, tuple(removed), rows, place.shift, gap, copies)
    return Spliced(splice, shifts, rowids)


def splice_at(
    listing: Listing, conversation_id: Owner, start: int, removed: Sequence[Cells], inserted: Sequence[Cells]
) -> Splice:
    """Plan a splice and carry it out on *listing*, so that the next one can be planned on it.

    *removed* are the whole rows from *start* on. Inserted rows need no ordinal: they take those
    from the first removed one on (or from the place they go to), and what follows shifts by the difference.
    """
    if start + len(removed) > len(listing):
        raise ValueError("the run ends beyond the list")
    ordinals = listing.ordinals
    end = ordinals[-1] + 1 if ordinals else 0
    first = ordinals[start] if start < len(ordinals) else end
    place = Place(start, tuple(range(first, first + len(inserted))), len(inserted) - len(removed))
    return carry_out(listing, conversation_id, place, removed, inserted).splice


def carry_out_moves(listing: Listing, edit: Splice) -> Spliced | str:
    """Renumber a list, or say why its order would change or which item is elsewhere.

    The splice that comes out has the items too that had to move along.
    """
    places: dict[Ref, list[int]] = {}
    for at, ref in enumerate(listing.refs):
        places.setdefault(ref, []).append(at)
    wanted: dict[int, int] = {}
    for move in edit.moves:
        found = places.get(move.item.ref, [])[move.item.occurrence :][:1]
        if not found or listing.ordinals[found[0]] != move.old:
            return f"{move.item.item_type} {move.item.ref} is no longer at ordinal {move.old}"
        wanted[found[0]] = move.new
    new = [wanted.get(at, ordinal) for at, ordinal in enumerate(listing.ordinals)]
    last = max(wanted, default=-1)
    if 0 <= last < len(new) - 1 and new[last] >= new[last + 1]:
        step = new[last] - listing.ordinals[last]
        new[last + 1 :] = [ordinal + step for ordinal in new[last + 1 :]]
    if any(left >= right for left, right in pairwise(new)):
        return "the order of the context would change"
    old = listing.ordinals[:]
    moved = [at for at in range(len(new)) if new[at] != old[at]]
    moves = tuple(Move(_counted(listing, at, places), old[at], new[at]) for at in moved)
    listing.ordinals[:] = new
    down = [at for at in moved if new[at] < old[at]]
    turn = [*down, *(at for at in reversed(moved) if new[at] > old[at])]
    shifts = tuple((old[at], new[at]) for at in turn)
    rowids = _rowids([listing.rows[at] for at in turn])
    return Spliced(renumbering(edit.conversation_id, moves), shifts, rowids)


def moves_from_zero(listing: Listing) -> Iterator[Move]:
    """The moves of the items whose ordinal is not their place in the list."""
    copies, seen = Counter(listing.refs), Counter[Ref]()
    for at, (ref, ordinal) in enumerate(zip(listing.refs, listing.ordinals, strict=True)):
        if ordinal != at:
            yield Move(Item(ref, seen[ref], copies[ref]), ordinal, at)
        seen[ref] += 1


def _counted(listing: Listing, at: int, places: Mapping[Ref, list[int]]) -> Item:
    copies = places[listing.refs[at]]
    return Item(listing.refs[at], copies.index(at), len(copies))


def _rowids(rows: Sequence[int | Cells]) -> tuple[int, ...] | None:
    """The rowids of some rows, if the database has all of them."""
    found = tuple([row for row in rows if isinstance(row, int)])
    return found if len(found) == len(rows) else None


# -- verifying a plan ------------------------------------------------------------------------------------
# Compares a plan with the database, edit by edit, and says where it would go.
#
# Nothing is written here. Edits see what earlier edits of the same plan do. The result is the edits as they
# will be made (whole rows, ordinals and neighbours of this moment) and everything that changed since they
# were planned.

#: From so many new rows of a table on, their keys are asked for together.
MANY_NEW = 50
#: The columns of every table, by name.
Tables = Mapping[str, frozenset[str]]
#: Whole rows by table and key, as the edits so far leave them; None: deleted.
_Rows = dict[tuple[str, Cells], Cells | None]


class Step(Record, frozen=True):
    """An edit as it will go; ids of new rows are still symbols."""

    edit: Edit
    shifts: Shifts = ()  #: ordinals that change besides, in an order without collisions
    rowids: tuple[int, ...] | None = None  #: the rows they belong to; None: some are only now inserted


class ContextChange(Record, frozen=True):
    """What a plan does to one context."""

    before: Listing
    after: Listing


class Verified(Record, frozen=True):
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


class _State(Struct):
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
    filled = _verify_filled(edit, state.values)
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
    filled = _verify_filled(edit, state.values)
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


def _verify_filled(edit: RowChange, values: Values) -> RowChange:
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
        taken = {row[0] for row in state.db.rows_in(sql, keys)}
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
    columns = listed_values(state.tables[table])
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
        if set(map(type, listing.ordinals)) - {int}:
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
    anchors = (anchor.ref for anchor in open_anchors(listing, filled))
    known = [ref for ref in anchors if isinstance(ref, int | str)]
    over = made_from(state.db, state.tables, known)
    covering: dict[Ref, frozenset[str]] = {ref: over[ref] for ref in known}
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
        f"SELECT rowid, {listed_values(columns)} FROM context_items WHERE rowid IN (?*)",
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
