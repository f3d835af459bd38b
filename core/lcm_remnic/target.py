"""What Remnic holds of one session, and how it differs from what it should hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Concatenate

from lcm_core.base.errors import FileMissingError
from lcm_core.base.values import P, Record, T
from lcm_core.change.plan import Cell, Cells, Symbol, SymbolKind
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.opening import Row, Rows, SqlValue, connect_memory, quoted
from lcm_core.store.schema import text

from lcm_remnic import records as schema
from lcm_remnic.records import (
    LIMIT,
    OURS,
    Kind,
    Origin,
    SessionId,
    Step,
    What,
    is_place,
    parsed_object,
    written,
)
from lcm_remnic.source import SOURCE

# -- reading ---------------------------------------------------------------------------------------------
# Under whatever transaction the caller has: `Rows`.


class TurnKey(Record, frozen=True):
    """A turn without its text."""

    id: int
    turn_index: SqlValue
    created_at: SqlValue
    origin: Origin | None  #: None: Remnic recorded it itself


class Session(Record, frozen=True):
    """The places of a session's turns, and the ids of its nodes."""

    turns: tuple[TurnKey, ...]
    nodes: frozenset[str]
    has_marker: bool  #: an event that stands for the end of an import is there
    last_id: int  #: no turn of any session has a larger id


def read_remnic(
    path: Path,
    load: Callable[Concatenate[Rows, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run *load* over one state of a database of Remnic's; blocks, and may run twice.

    Raises:
        FileMissingError: there is no such file.
        DatabaseError: it is not Remnic's, or cannot be read.
    """
    if not path.is_file():
        raise FileMissingError(
            "Remnic database",
            path,
            "Give Remnic's lcm.sqlite, or its memory folder, with --remnic.",
            code="REMNIC_NOT_FOUND",
        )

    def checked(rows: HostRows) -> T:
        schema.check_readable(rows, path)
        return load(rows, *args, **kwargs)

    return read_host(path, checked)


def read_empty(load: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run *load* over an empty database of Remnic's, which is in memory alone."""
    with closing(connect_memory()) as connection:
        connection.row_factory = Row
        for statement in schema.statements():
            connection.execute(statement)
        return load(HostRows(connection, Path(":memory:")), *args, **kwargs)


def load_session(rows: Rows, session: SessionId) -> Session:
    """The outline of a session."""
    turns = tuple(
        TurnKey(row["id"], row["turn_index"], row["created_at"], origin_in(row["metadata"]))
        for row in rows.rows(
            "SELECT id, turn_index, created_at, metadata FROM lcm_messages WHERE session_id = ? ORDER BY id",
            (session,),
        )
    )
    nodes = rows.tuples("SELECT id FROM lcm_summary_nodes WHERE session_id = ?", (session,))
    marked = schema.has_table(rows, schema.EVENTS) and rows.tuples(
        "SELECT 1 FROM lcm_compaction_events WHERE session_id = ? AND tokens_before = tokens_after LIMIT 1",
        (session,),
    )
    [(last,)] = rows.tuples("SELECT max(id) FROM lcm_messages")
    return Session(turns, frozenset(text(row[0]) or "" for row in nodes), bool(marked), last or 0)


def load_newcomers(rows: Rows, session: SessionId, last_id: int) -> list[Origin | None]:
    """The origins of the turns that came behind an id: None of one that Remnic recorded itself."""
    sql = "SELECT metadata FROM lcm_messages WHERE id > ? AND session_id = ?"
    return [origin_in(row[0]) for row in rows.tuples(sql, (last_id, session))]


def next_turn(rows: Rows, session: SessionId) -> int:
    """The place behind the last turn of a session; places that no host gives do not count."""
    sql = (
        "SELECT turn_index FROM lcm_messages WHERE session_id = ? AND typeof(turn_index) = 'integer' "
        "AND turn_index < ? ORDER BY turn_index DESC LIMIT 1"
    )
    found = rows.tuples(sql, (session, LIMIT))
    return int(found[0][0]) + 1 if found else 0


def load_record(rows: Rows, key: str) -> tuple[SqlValue, ...]:
    """What is stored under a key of Remnic's table of settings, as it is stored; empty without such a row."""
    if not schema.has_table(rows, schema.META):
        return ()
    found = rows.tuples("SELECT value FROM lcm_meta WHERE key = ?", (key,))
    return found[0] if found else ()


def load_owners(rows: Rows, ids: Sequence[str]) -> dict[str, str]:
    """The sessions of some nodes that are there, by id."""
    sql = "SELECT id, session_id FROM lcm_summary_nodes WHERE id IN (?*)"
    return {row["id"]: text(row["session_id"]) or "" for row in rows.rows_in(sql, ids)}


def origin_in(metadata: SqlValue) -> Origin | None:
    """Which message of the source a turn is, by its metadata; None: none that an importer brought."""
    if not isinstance(metadata, str) or "source_seq" not in metadata:
        return None
    held = parsed_object(metadata)
    seq, conversation = held.get("source_seq"), held.get("conversation_id")
    if not is_place(seq) or held.get("source", SOURCE) != SOURCE:
        return None
    if isinstance(conversation, bool) or not isinstance(conversation, int | str):
        return None
    return Origin(str(conversation), seq)


def load_turns(rows: Rows, ids: Sequence[int]) -> dict[int, Row]:
    """Some turns, whole, by id."""
    columns = ", ".join(("id", "session_id", "turn_index", *schema.TURN_COLUMNS))
    sql = f"SELECT {columns} FROM lcm_messages WHERE id IN (?*)"
    return {row["id"]: row for row in rows.rows_in(sql, ids)}


def load_parts(rows: Rows, turn_ids: Iterable[int]) -> dict[int, list[Row]]:
    """The parts of some turns, whole, by the turn's id."""
    columns = ", ".join(("id", "message_id", "ordinal", *schema.PART_COLUMNS))
    sql = f"SELECT {columns} FROM lcm_message_parts WHERE message_id IN (?*) ORDER BY ordinal, id"
    found: dict[int, list[Row]] = {}
    for row in rows.rows_in(sql, turn_ids):
        found.setdefault(row["message_id"], []).append(row)
    return found


def load_nodes(rows: Rows, ids: Iterable[str]) -> dict[str, Row]:
    """Some nodes, whole, by id, with the number by which search knows each."""
    columns = ", ".join(("rowid AS place", "id", *schema.NODE_COLUMNS))
    sql = f"SELECT {columns} FROM lcm_summary_nodes WHERE id IN (?*)"
    return {row["id"]: row for row in rows.rows_in(sql, ids)}


def unsearchable(rows: Rows, table: str, places: Mapping[int, object]) -> frozenset[int]:
    """Which of some rows search does not find, by their numbers; none where there is no search table."""
    search = schema.SEARCH[table][0]
    sizes = f"{search}_docsize"  # FTS5 asks the table itself for a row; this alone says what is indexed
    if not places or not schema.has_table(rows, search) or not schema.has_table(rows, sizes):
        return frozenset()
    sql = f"SELECT id FROM {quoted(sizes)} WHERE id IN (?*)"
    indexed = {row["id"] for row in rows.rows_in(sql, tuple(places))}
    return frozenset(places.keys() - indexed)


# -- differences -----------------------------------------------------------------------------------------
# What of a session's rows differs from what they should be, and the step that corrects each.
#
# The same code reads a snapshot for a preview and the locked file for a write
# (docs/spec/remnic.md, "Import").


class WantedTurn(Record, frozen=True):
    """A turn as it should be."""

    message_id: int
    origin: Origin
    turn_id: int | None  #: the row that it has; None: none yet
    turn_index: int | None  #: None: where it is
    row: Cells
    parts: Mapping[int, Cells]  #: by ordinal


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
        Kind.MISSING, What.TURN, session, one.origin.text, schema.TURNS, None, after=row, origin=one.origin
    )
    for ordinal in one.parts:
        yield _new_part(session, one, Symbol(one.origin.text, SymbolKind.ID), ordinal)


def _new_part(session: SessionId, one: WantedTurn, owner: Cell, ordinal: int) -> Step:
    row = Cells.of({**one.parts[ordinal].as_dict(), "message_id": owner, "ordinal": ordinal})
    return Step(Kind.MISSING, What.PART, session, _part_name(one, ordinal), schema.PARTS, None, after=row)


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
            yield Step(Kind.EXTRA, What.PART, session, name, schema.PARTS, each["id"])


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
            yield Step(Kind.MISSING, What.NODE, session, name, schema.NODES, None, after=made)
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
    return Step(Kind.MISSING, What.SEARCH, session, named, table, place, after=Cells.of({column: said}))


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
