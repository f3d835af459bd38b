"""What of a session's rows differs from what they should be, and the step that makes each right.

Asked of a snapshot for a preview and of the locked file for a write: the same code (docs/remnic.md,
"Import").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lcm_core.change.plan import Cell, Cells, Symbol, SymbolKind
from lcm_core.remnic import schema
from lcm_core.remnic.payloads import OURS, parsed_object, written
from lcm_core.remnic.records import Kind, Origin, SessionId, Step, What
from lcm_core.remnic.target import load_nodes, load_parts, load_turns, unsearchable
from lcm_core.store.connecting import Row, Rows, SqlValue

NOTHING = Cells((), ())


@dataclass(frozen=True, slots=True)
class WantedTurn:
    """A turn as it should be."""

    message_id: int
    origin: Origin
    turn_id: int | None  #: the row that it has; None: none yet
    turn_index: int | None  #: None: where it is
    row: Cells
    parts: Mapping[int, Cells]  #: by ordinal


def symbol_of(origin: Origin) -> Symbol:
    """The id of a turn that is still to come."""
    return Symbol(origin.text, SymbolKind.ID)


def differing_turns(rows: Rows, session: SessionId, wanted: Sequence[WantedTurn]) -> Iterator[Step]:
    """What is wrong with some turns, their parts and their search rows."""
    ids = [one.turn_id for one in wanted if one.turn_id is not None]
    present, parts = load_turns(rows, ids), load_parts(rows, ids)
    unfound = unsearchable(rows, schema.TURNS, present)
    for one in wanted:
        row = None if one.turn_id is None else present.get(one.turn_id)
        if row is None or row["session_id"] != session:
            yield from _new_turn(session, one)
            continue
        changed = _changed(row, _with_place(_keeping(row, one.row), one.turn_index))
        key = int(row["id"])
        if changed is not None:
            before, after = changed
            kind = Kind.MOVED if after.columns == ("turn_index",) else Kind.CHANGED
            yield Step(kind, What.TURN, session, one.origin.text, schema.TURNS, key, before, after)
        if key in unfound and (changed is None or "content" not in changed[1]):
            yield _unfound(What.TURN, session, one.origin.text, schema.TURNS, key, row["content"])
        yield from _parts(session, one, key, parts.get(key, ()))


def _new_turn(session: SessionId, one: WantedTurn) -> Iterator[Step]:
    row = Cells.of({**one.row.as_dict(), "session_id": session, "turn_index": one.turn_index})
    yield Step(
        Kind.MISSING, What.TURN, session, one.origin.text, schema.TURNS, None, NOTHING, row, one.origin
    )
    for ordinal in one.parts:
        yield _new_part(session, one, symbol_of(one.origin), ordinal)


def _new_part(session: SessionId, one: WantedTurn, owner: Cell, ordinal: int) -> Step:
    row = Cells.of({**one.parts[ordinal].as_dict(), "message_id": owner, "ordinal": ordinal})
    return Step(Kind.MISSING, What.PART, session, _part_name(one, ordinal), schema.PARTS, None, NOTHING, row)


def _part_name(one: WantedTurn, ordinal: int) -> str:
    return f"{one.origin.text}, part {ordinal}"


def _parts(session: SessionId, one: WantedTurn, turn_id: int, present: Sequence[Row]) -> Iterator[Step]:
    by_ordinal: dict[object, Row] = {}
    for each in present:
        by_ordinal.setdefault(each["ordinal"], each)
    for ordinal, wanted in one.parts.items():
        row = by_ordinal.get(ordinal)
        if row is None:
            yield _new_part(session, one, turn_id, ordinal)
        elif (changed := _changed(row, wanted)) is not None:
            name = _part_name(one, ordinal)
            yield Step(Kind.CHANGED, What.PART, session, name, schema.PARTS, int(row["id"]), *changed)
    for place, each in by_ordinal.items():
        if place not in one.parts:
            name = f"{one.origin.text}, part {place}"
            yield Step(Kind.EXTRA, What.PART, session, name, schema.PARTS, each["id"], NOTHING, NOTHING)


def differing_nodes(
    rows: Rows, session: SessionId, wanted: Mapping[str, Cells], known: frozenset[str]
) -> Iterator[Step]:
    """What is wrong with some nodes and their search rows; *known* are all summaries of the source.

    A node that Remnic put below one of its own stays there.
    """
    present = load_nodes(rows, wanted)
    unfound = unsearchable(rows, schema.NODES, {row["place"]: row for row in present.values()})
    for name, cells in wanted.items():
        row = present.get(name)
        if row is None:
            made = Cells.of({**cells.as_dict(), "id": name})
            yield Step(Kind.MISSING, What.NODE, session, name, schema.NODES, None, NOTHING, made)
            continue
        if row["session_id"] != session:
            continue  # it came since its id was looked for
        above = row["parent_id"]
        if cells["parent_id"] is None and isinstance(above, str) and above not in known:
            cells = cells.but(parent_id=above)
        changed = _changed(row, cells)
        if changed is not None:
            places = {"msg_start", "msg_end", "parent_id"}
            kind = Kind.MOVED if places.issuperset(changed[1].columns) else Kind.CHANGED
            yield Step(kind, What.NODE, session, name, schema.NODES, name, *changed)
        if row["place"] in unfound and (changed is None or "summary_text" not in changed[1]):
            yield _unfound(What.NODE, session, name, schema.NODES, row["place"], row["summary_text"])


def _unfound(of: What, session: SessionId, name: str, table: str, place: int, said: SqlValue) -> Step:
    column = schema.SEARCH[table][1]
    named = f"{of} {name}"
    return Step(Kind.MISSING, What.SEARCH, session, named, table, place, NOTHING, Cells.of({column: said}))


def _with_place(cells: Cells, turn_index: int | None) -> Cells:
    return cells if turn_index is None else cells.but(turn_index=turn_index)


def _keeping(row: Row, wanted: Cells) -> Cells:
    """The turn with what else its metadata says; where nothing of ours differs, with the metadata it has."""
    stored = row["metadata"]
    held = parsed_object(stored)
    ours = parsed_object(wanted["metadata"])
    joined = {**held, **ours}
    # The other importer wrote the number of the conversation as it found it, and its words for the rest.
    if held and joined == held:
        return wanted.but(metadata=stored)
    return wanted.but(metadata=written(joined)) if held and OURS in ours else wanted


def _changed(row: Row, wanted: Cells) -> tuple[Cells, Cells] | None:
    """The columns that differ, as they are and as they should be; None where none does."""
    names = [name for name in wanted.columns if not _same(row[name], wanted[name])]
    if not names:
        return None
    before: dict[str, Cell] = {name: row[name] for name in names}
    return Cells.of(before), Cells.of({name: wanted[name] for name in names})


def _same(stored: SqlValue, wanted: Cell) -> bool:
    return type(stored) is type(wanted) and stored == wanted
