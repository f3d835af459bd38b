"""What the past of a conversation is worked out from: its operations, and the rows of now that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.change.journal import SEVERAL, Operation, edits_of, gaps, touching
from lcm_core.change.place import Listing
from lcm_core.change.plan import Cells, Edit, Ref, Splice, ref_of
from lcm_core.change.verify import Tables
from lcm_core.errors import LcmError
from lcm_core.past.point import Cut, Point, cut_at, seconds_of
from lcm_core.past.rebuild import (
    Doubt,
    Earlier,
    Present,
    RowKey,
    Statement,
    Taken,
    concerns,
    rebuild,
    row_keys,
)
from lcm_core.store.assemblies import snapshot_until
from lcm_core.store.connecting import Rows, listed, quoted
from lcm_core.times import iso_z, parse_utc

#: Messages that are looked at beyond the last one that was stored later.
ROWS_BEHIND: Final = 500

#: Edits that have been read, by operation: they never change.
Read = dict[str, Taken]


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation as it was at a point, and the operations around it."""

    cut: Cut
    earlier: Earlier
    operations: tuple[Operation, ...]  #: all that changed the conversation, the newest first
    #: the newest snapshot that an engine of ours kept until then, and when
    snapshot: tuple[str, str] | None

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What is not known, or was told by other means than the journal."""
        return self.earlier.statements

    @property
    def older(self) -> Point | None:
        """The moment before the operation in front of this point; None: there is none."""
        place = len(self.cut.taken)
        return Point(self.operations[place].id) if place < len(self.operations) else None

    @property
    def newer(self) -> Point | None:
        """The moment before the next newer operation; None: the next step is the present."""
        place = len(self.cut.taken) - 2
        return Point(self.operations[place].id) if place >= 0 else None


def newest_point(db: Rows, conversation_id: int, read: Read) -> Point | None:
    """The moment before the newest operation on a conversation; None: nothing was ever changed."""
    found = operations_on(db, conversation_id, read)
    return Point(found[0].id) if found else None


def operations_on(db: Rows, conversation_id: int, read: Read) -> tuple[Operation, ...]:
    """The operations that changed a conversation, the newest first; their undos and redos are among them."""
    found = touching(db, conversation_id, SEVERAL)
    roots = {one.id: one for one in found}
    kept = []
    for one in found:
        if one.conversation_id == conversation_id:
            kept.append(one)
        elif one.conversation_id is None or _root(one, roots).kind in SEVERAL:
            taken = _taken(db, one, read)
            if taken.problem is not None or concerns(one, taken.edits, conversation_id):
                kept.append(one)
    return tuple(kept)


def _root(one: Operation, by_id: Mapping[str, Operation]) -> Operation:
    """What an undo or redo is of, as far as the journal has it."""
    seen = {one.id}
    while one.undoes is not None and one.undoes in by_id and one.undoes not in seen:
        one = by_id[one.undoes]
        seen.add(one.id)
    return one


def read_past(db: Rows, tables: Tables, conversation_id: int, point: Point, read: Read) -> Found:
    """A conversation as it was; *read* keeps what was read of operations, for the next point.

    Raises:
        NotFoundError: the operation of the point is not in the history, or did not change the conversation.
        UsageError: several operations begin so.
    """
    operations = operations_on(db, conversation_id, read)
    cut = cut_at(point, operations)
    taken = [_taken(db, one, read) for one in cut.taken]
    same = [one for one in operations if seconds_of(one.created_at) == cut.seconds and one not in cut.taken]
    known = frozenset(_put(_taken(db, one, read).edits for one in same))
    present = _present(db, tables, conversation_id, cut.seconds, taken, known)
    earlier = rebuild(present, taken, cut.seconds)
    pruned = tuple(_pruned(db, cut))
    earlier = replace(earlier, statements=(*pruned, *earlier.statements))
    return Found(cut, earlier, operations, snapshot_until(db, conversation_id, cut.seconds))


def _taken(db: Rows, one: Operation, read: Read) -> Taken:
    if one.id not in read:
        try:
            read[one.id] = Taken(one, edits_of(db, one))
        except LcmError as error:  # an export that is gone, a record that is damaged
            read[one.id] = Taken(one, (), error.message)
    return replace(read[one.id], operation=one)


def _put(edits: Iterable[Sequence[Edit]]) -> Iterable[Ref]:
    """What some operations put into contexts."""
    return (
        ref_of(row) for some in edits for edit in some if isinstance(edit, Splice) for row in edit.inserted
    )


def _pruned(db: Rows, cut: Cut) -> Iterable[Statement]:
    """Operations that the history had and has no more, behind the point."""
    oldest = cut.taken[-1].place if cut.taken else None
    number, first = gaps(db, oldest)
    if number:
        many = "1 operation was" if number == 1 else f"{number:,} operations were"
        text = f"{many} removed from the history since this point: what they changed is not reversed."
        yield Statement(Doubt.PRUNED, text)
    elif cut.beside is None and first is not None and first.place > 1:
        made = parse_utc(first.created_at)
        if made is not None and cut.seconds < made.timestamp():
            text = (
                f"The history begins with operation {first.id} of {iso_z(made)}; older ones were removed. "
                "What they changed after this point is not reversed."
            )
            yield Statement(Doubt.PRUNED, text)


# -- the rows of now -------------------------------------------------------------------------------------


def _present(
    db: Rows,
    tables: Tables,
    conversation_id: int,
    seconds: int,
    taken: Sequence[Taken],
    known: frozenset[Ref],
) -> Present:
    # Both formats of times begin with the date, which the index finds; then they are compared as times.
    day = _day_of(seconds)
    made: dict[str, int] = {}
    if "created_at" in tables.get("summaries", ()):
        made = dict(
            db.tuples(
                """SELECT summary_id, CAST(strftime('%s', created_at) AS INTEGER) AS made FROM main.summaries
                WHERE conversation_id = ? AND created_at >= ? AND made > ?""",
                (conversation_id, day, seconds),
            )
        )
    timed = "created_at" in tables.get("context_items", ())
    context, added = _context(db, tables, conversation_id, day)
    sources = _sources(
        db, tables, [ref for ref in context.refs if isinstance(ref, str) and ref in made], made
    )
    may_be_later = {
        ref
        for ref, row in zip(context.refs, context.rows, strict=True)
        if isinstance(ref, int) and (row in added or not timed)
    }
    may_be_later |= {ref for some in sources.values() for ref in some if isinstance(ref, int)}
    said = {ref: when for ref, when in _said(db, may_be_later).items() if when >= seconds}
    keys = dict.fromkeys(key for one in taken for key in row_keys(one.edits))
    rows = _rows(db, tables, keys)
    arrived = _arrived(db, tables, conversation_id, seconds)
    return Present(conversation_id, context, added, rows, made, sources, said, arrived, known)


def _day_of(seconds: int) -> str:
    """The date of a moment, as stored times begin."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _context(db: Rows, tables: Tables, conversation_id: int, day: str) -> tuple[Listing, dict[int, int]]:
    if "context_items" not in tables:
        return Listing([], [], []), {}
    timed = "created_at" in tables["context_items"]
    when = (
        "CASE WHEN created_at >= ? THEN CAST(strftime('%s', created_at) AS INTEGER) END" if timed else "NULL"
    )
    rows = db.tuples(
        f"""SELECT ordinal, message_id, summary_id, rowid, {when} FROM main.context_items
        WHERE conversation_id = ? ORDER BY ordinal""",
        (*((day,) if timed else ()), conversation_id),
    )
    listing, added = Listing([], [], []), {}
    for ordinal, message_id, summary_id, rowid, made in rows:
        listing.ordinals.append(ordinal if isinstance(ordinal, int) else 0)
        listing.refs.append(message_id if summary_id is None else summary_id)
        listing.rows.append(rowid)
        if made is not None:
            added[rowid] = made
    return listing, added


def _sources(
    db: Rows, tables: Tables, first: Sequence[str], made: Mapping[str, int]
) -> dict[str, tuple[Ref, ...]]:
    """What summaries of the context were made from, and those of their sources that are as new."""
    found: dict[str, tuple[Ref, ...]] = {}
    wanted = list(first)
    while wanted:
        below: dict[str, list[Ref]] = {name: [] for name in wanted}
        for table, column in (("summary_parents", "parent_summary_id"), ("summary_messages", "message_id")):
            if table in tables:
                for row in db.rows_in(
                    f"SELECT summary_id, {column} AS source FROM main.{table} WHERE summary_id IN (?*) "
                    f"ORDER BY ordinal, {column}",
                    wanted,
                ):
                    below[row["summary_id"]].append(row["source"])
        found |= {name: tuple(sources) for name, sources in below.items()}
        new = (ref for sources in below.values() for ref in sources)
        again = (ref for ref in dict.fromkeys(new) if isinstance(ref, str) and ref in made)
        wanted = [ref for ref in again if ref not in found]
    return found


def _arrived(db: Rows, tables: Tables, conversation_id: int, seconds: int) -> dict[int, tuple[str, ...]]:
    """The messages that were stored later, and the summaries that are linked to each.

    They are looked for from the newest on, until of `ROWS_BEHIND` in a row none is later: the time is behind
    the text, and reading it of all messages takes as long as reading them.
    """
    if "created_at" not in tables.get("messages", ()):
        return {}
    found: dict[int, tuple[str, ...]] = {}
    behind, parameters = "", [conversation_id]
    while True:
        rows = db.tuples(
            f"""SELECT seq, message_id, CAST(strftime('%s', created_at) AS INTEGER) FROM main.messages
            WHERE conversation_id = ? {behind} ORDER BY seq DESC, message_id DESC LIMIT {ROWS_BEHIND}""",
            parameters,
        )
        later = [name for _, name, when in rows if when is not None and when > seconds]
        found |= dict.fromkeys(later, ())
        if not later or len(rows) < ROWS_BEHIND:
            break
        behind, parameters = "AND (seq, message_id) < (?, ?)", [conversation_id, *rows[-1][:2]]
    if "summary_messages" in tables:
        linked = "SELECT summary_id, message_id FROM main.summary_messages WHERE message_id IN (?*)"
        for summary_id, message_id in db.rows_in(linked, found):
            found[message_id] += (summary_id,)
    return found


def _said(db: Rows, message_ids: Iterable[int]) -> dict[int, int]:
    rows = db.rows_in(
        "SELECT message_id, CAST(strftime('%s', created_at) AS INTEGER) AS said FROM main.messages "
        "WHERE message_id IN (?*)",
        message_ids,
    )
    return {row["message_id"]: row["said"] for row in rows if row["said"] is not None}


def _rows(db: Rows, tables: Tables, keys: Iterable[RowKey]) -> dict[RowKey, Cells]:
    """The whole rows that some keys name, as they are."""
    found: dict[RowKey, Cells] = {}
    single: dict[tuple[str, str], list[RowKey]] = {}
    for table, key in keys:
        if not tables.get(table, frozenset()).issuperset(key.columns):
            continue
        if len(key.columns) == 1:
            single.setdefault((table, key.columns[0]), []).append((table, key))
            continue
        where = " AND ".join(f"{quoted(name)} IS ?" for name in key.columns)
        sql = f"SELECT {listed(tables[table])} FROM main.{quoted(table)} WHERE {where} LIMIT 1"
        for row in db.rows(sql, _values(key)):
            found[table, key] = Cells.of(dict(row))
    for (table, column), named in single.items():
        values = {_values(key)[0]: (one, key) for one, key in named}
        sql = f"SELECT {listed(tables[table])} FROM main.{quoted(table)} WHERE {quoted(column)} IN (?*)"
        for row in db.rows_in(sql, values):
            found[values[row[column]]] = Cells.of(dict(row))
    return found


def _values(key: Cells) -> tuple[int | float | str | bytes | None, ...]:
    """The values of a key; the edits of the journal have no symbols."""
    return tuple([cell for cell in key.cells if cell is None or isinstance(cell, int | float | str | bytes)])
