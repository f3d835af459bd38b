"""The journal of a database: what was changed by lcm-tui, kept in the same file and the same transaction.

Table ``lcm_tui_operations`` is made by the first commit and never by browsing. The engine does not mind it:
no version stores a schema number, counts tables or looks at tables that it does not know by name
(docs/format.md, "The file itself"); its migrations, its cleaners and its search go by names, and its backups
copy all.

A row keeps the edits as they were planned and, apart, what the commit made of them (ids, ordinals, and
neighbours). So the large part is packed before the lock is taken, or lies in an export.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final

from lcm_core.change.codec import (
    CodecError,
    check_committed,
    decode_edits,
    decode_values,
    encode_edits,
    encode_values,
    inflate,
    unpack,
)
from lcm_core.change.connection import Writer
from lcm_core.change.errors import Moved, StalePlanError
from lcm_core.change.exports import Export, read_export
from lcm_core.change.guard import OWN_TABLES
from lcm_core.change.plan import Edit, RowCount, Values, substitute
from lcm_core.errors import DatabaseError, NotFoundError, RefusedError
from lcm_core.records import Timestamp
from lcm_core.store.connecting import Row, Rows, SqlValue
from lcm_core.store.schema import JOURNAL
from lcm_core.store.typed import GREATEST, LEAST, number, text
from lcm_core.text import clip, safe_line

TABLE = JOURNAL
#: Operations that `operations` gives at a time.
PAGE = 200

_COLUMNS = """rowid, id, batch, kind, conversation_id, title, export_path, export_sha256, removed_findings,
    row_counts, tokens, tool_version, created_at, undoes, undone_by"""


#: Kinds whose operations change conversations besides the one that they are noted under.
SEVERAL: Final = frozenset({"merge", "transplant"})


@dataclass(frozen=True, slots=True)
class Operation:
    """What a commit left in the journal. Source: table ``lcm_tui_operations``."""

    id: str  #: ``op_`` and 16 hex digits
    place: int  #: larger for later operations of the same file
    kind: str
    title: str
    conversation_id: int | None
    batch: str | None
    rows: tuple[RowCount, ...]
    tokens: int  #: by how much the stored estimates of the contexts it changed grew
    removed: frozenset[str]  #: keys of the findings that it removed (`lcm_core.change.breaks`)
    tool_version: str
    created_at: Timestamp
    undoes: str | None
    undone_by: str | None
    export: Export | None  #: where its edits are, when they are too large for the journal


@dataclass(frozen=True, slots=True)
class JournalRow:
    """An operation, and its row."""

    operation: Operation
    values: tuple[SqlValue, ...] = field(repr=False)
    table_exists: bool  #: else it is to be made


class DamagedRecordError(DatabaseError):
    """The row of an operation is not one that a commit wrote: it can be neither shown nor undone."""

    default_code: ClassVar[str] = "HISTORY_DAMAGED"

    def __init__(self, operation: Operation, why: str) -> None:
        super().__init__(
            f"The history of this database is damaged: operation {operation.id} (row {operation.place}) "
            f"cannot be read ({clip(safe_line(why), _WHY)}). Nothing was changed; `lcm-tui history list` "
            "shows the other operations.",
            details={"operationId": operation.id, "row": operation.place},
        )


_WHY: Final = 160

#: How the id of a batch begins that ends with a focus brief: so it shows where it ended before.
BRIEF_BATCH: Final = "batch_brief_"


def new_batch_id(beginning: str = "batch_") -> str:
    """An id of several operations that the history shows as one."""
    return f"{beginning}{secrets.token_hex(8)}"


# -- reading ---------------------------------------------------------------------------------------------


def operations(
    db: Rows, *, limit: int = PAGE, below: int | None = None, conversation_id: int | None = None
) -> list[Operation]:
    """The newest operations, or those *below* a place; none where nothing was ever changed."""
    if not exists(db):
        return []
    rows = db.rows(
        f"""SELECT {_COLUMNS} FROM {TABLE} WHERE (? IS NULL OR rowid < ?)
        AND (? IS NULL OR conversation_id = ?) ORDER BY rowid DESC LIMIT ?""",
        (below, below, conversation_id, conversation_id, limit),
    )
    return [_operation(row) for row in rows]


def all_operations(db: Rows, *, conversation_id: int | None = None) -> Iterator[Operation]:
    """Every operation, the newest first."""
    below: int | None = None
    while page := operations(db, below=below, conversation_id=conversation_id):
        yield from page
        if len(page) < PAGE:
            break
        below = page[-1].place


def touching(db: Rows, conversation_id: int, kinds: Iterable[str]) -> list[Operation]:
    """The operations that may have changed a conversation, the newest first.

    Those that are noted under it or under none, those of *kinds* that change several, and every undo and redo
    of these.
    """
    if not exists(db):
        return []
    several = sorted(kinds)
    rows = db.rows(
        f"""SELECT {_COLUMNS} FROM {TABLE} WHERE conversation_id = ? OR conversation_id IS NULL
        OR kind IN ({", ".join("?" * len(several))}) OR undoes IS NOT NULL ORDER BY rowid DESC""",
        (conversation_id, *several),
    )
    return [_operation(row) for row in rows]


def gaps(db: Rows, oldest: int | None) -> tuple[int, Operation | None]:
    """How many operations are missing from a place on (None: that is not looked at), and the oldest one.

    Places are counted up; one that is free belonged to an operation that was removed.
    """
    if not exists(db):
        return 0, None
    first = [_operation(row) for row in db.rows(f"SELECT {_COLUMNS} FROM {TABLE} ORDER BY rowid LIMIT 1")]
    missing = 0
    if oldest is not None:
        sql = f"SELECT max(rowid) - min(rowid) + 1 - count(*) FROM {TABLE} WHERE rowid >= ?"
        missing = number(db.rows(sql, (oldest,))[0][0]) or 0
    return missing, first[0] if first else None


def find(db: Rows, operation_id: str) -> Operation | None:
    """An operation by its id."""
    if not exists(db):
        return None
    rows = db.rows(f"SELECT {_COLUMNS} FROM {TABLE} WHERE id = ?", (operation_id,))
    return _operation(rows[0]) if rows else None


def get(db: Rows, operation_id: str) -> Operation:
    """An operation by its id.

    Raises:
        NotFoundError: the journal does not hold it.
    """
    found = find(db, operation_id)
    if found is None:
        raise NotFoundError(
            f"There is no operation {operation_id} in this database's history. `lcm-tui history list` lists "
            "them.",
            code="OPERATION_NOT_FOUND",
            details={"operationId": operation_id},
        )
    return found


def beginning(db: Rows, start: str, limit: int) -> list[str]:
    """The ids of operations that begin so, the newest first, *limit* at most."""
    if not exists(db):
        return []
    sql = f"SELECT id FROM {TABLE} WHERE substr(id, 1, length(?)) = ? ORDER BY rowid DESC LIMIT ?"
    return [text(row["id"]) or "" for row in db.rows(sql, (start, start, limit))]


def undone_now(found: Iterable[Operation]) -> dict[str, str | None]:
    """What undoes each operation as things are now; None where what it did holds, also after a redo.

    *found* are operations, newest first, with all that undid them: those of one conversation, for example.
    """
    last: dict[str, tuple[str, bool]] = {}  # the end of the chain of undoing, and whether the first one holds
    for one in found:
        end, holds = one.id, True
        if one.undone_by is not None:
            end, other_holds = last.get(one.undone_by, (one.undone_by, True))
            holds = not other_holds
        last[one.id] = end, holds
    return {name: None if holds else end for name, (end, holds) in last.items()}


def edits_of(db: Rows, operation: Operation) -> tuple[Edit, ...]:
    """What an operation did, as it was committed: whole rows, real ids. Reads its export if it has one.

    Raises:
        DamagedRecordError: its row is not one that a commit wrote.
        RefusedError: the row or its export is gone.
    """
    rows = db.rows(f"SELECT edits, resolution FROM {TABLE} WHERE id = ?", (operation.id,))
    if not rows:
        raise RefusedError(f"Operation {operation.id} is no longer in the history. Nothing was changed.")
    packed = read_export(operation.export) if operation.export else rows[0]["edits"]
    try:
        edits = _resolved(unpack(packed), rows[0]["resolution"])
        check_committed(edits)
    except (CodecError, TypeError) as error:
        raise DamagedRecordError(operation, str(error)) from error
    return edits


def of_batch(db: Rows, batch: str) -> list[Operation]:
    """The operations that were committed together, the newest first.

    Raises:
        NotFoundError: the journal holds none of this batch.
    """
    rows: Sequence[Row] = ()
    if exists(db):
        rows = db.rows(f"SELECT {_COLUMNS} FROM {TABLE} WHERE batch = ? ORDER BY rowid DESC", (batch,))
    if not rows:
        raise NotFoundError(
            f"There is no batch {batch} in this database's history. `lcm-tui history list` lists them.",
            code="OPERATION_NOT_FOUND",
            details={"batch": batch},
        )
    return [_operation(row) for row in rows]


def exists(db: Rows) -> bool:
    """Whether anything was ever changed in this file by us."""
    rows = db.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,))
    return bool(rows)


def _operation(row: Row) -> Operation:
    """A row as a record; what does not have the type of its column, as SQLite would cast it."""
    path, owner = text(row["export_path"]), row["conversation_id"]
    return Operation(
        text(row["id"]) or "",
        row["rowid"],
        text(row["kind"]) or "",
        text(row["title"]) or "",
        owner if isinstance(owner, int) else None,
        text(row["batch"]),
        _counts(row["row_counts"]),
        number(row["tokens"]) or 0,
        _keys(row["removed_findings"]),
        text(row["tool_version"]) or "",
        Timestamp(text(row["created_at"]) or ""),
        text(row["undoes"]),
        text(row["undone_by"]),
        None if path is None else Export(Path(path), text(row["export_sha256"]) or ""),
    )


def _counts(stored: object) -> tuple[RowCount, ...]:
    """Rows per table; none when the text is damaged."""
    try:
        return tuple(
            RowCount(table, int(counts["insert"]), int(counts["update"]), int(counts["delete"]))
            for table, counts in json.loads(text(stored) or "").items()
        )
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError):
        return ()


def _keys(stored: object) -> frozenset[str]:
    try:
        return frozenset(str(key) for key in json.loads(text(stored) or ""))
    except (ValueError, TypeError, RecursionError):
        return frozenset()


# -- what a commit made of a plan ------------------------------------------------------------------------


def pack_resolution(planned: Sequence[Edit], committed: Sequence[Edit], values: Values) -> bytes:
    """What tells the committed edits from the planned ones: the symbols' values, and edits that differ."""
    differing = {
        str(number): encode_edits([done])[0]
        for number, (edit, done) in enumerate(zip(planned, committed, strict=True))
        if substitute(edit, values) != done
    }
    document = json.dumps({"values": encode_values(values), "edits": differing}, separators=(",", ":"))
    return zlib.compress(document.encode("ascii"), 6)


def _resolved(planned: Sequence[Edit], resolution: object) -> tuple[Edit, ...]:
    try:
        document = json.loads(inflate(resolution))
        values = decode_values(document["values"])
        differing = {int(number): decode_edits([edit])[0] for number, edit in document["edits"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CodecError(f"the recorded resolution cannot be read: {error}") from error
    return tuple(differing.get(number) or substitute(edit, values) for number, edit in enumerate(planned))


# -- writing ---------------------------------------------------------------------------------------------


def record(writer: Writer, entry: JournalRow) -> Operation:
    """Write an operation within the commit's transaction.

    Raises:
        StalePlanError: what it undoes has been undone meanwhile, or its row is gone.
        RefusedError: the table does not hold it afterwards, or more changed than its rows.
    """
    one = entry.operation
    if not entry.table_exists:
        writer.execute(OWN_TABLES[TABLE])
    before = writer.row_changes
    try:
        place = writer.execute(_INSERT, entry.values).lastrowid or 0
    except sqlite3.IntegrityError as error:
        raise _not_recorded(str(error)) from error
    if one.undoes is not None:
        mark_undone(writer, one.undoes, one.id)
    if not writer.rows(_PROOF, (place, *entry.values)):
        raise _not_recorded("its row is not there")
    if writer.row_changes - before != 1 + (one.undoes is not None):
        raise _not_recorded("other rows changed with it")
    return replace(one, place=place)


def _not_recorded(why: str) -> RefusedError:
    return RefusedError(
        f"The history ({TABLE}) did not take the record of this change ({why}), so it could not be undone. "
        "Nothing was changed; `lcm-tui doctor` checks the database."
    )


_VALUES = (
    *("id", "batch", "kind", "conversation_id", "title", "edits", "resolution", "export_path"),
    *("export_sha256", "removed_findings", "row_counts", "tokens", "tool_version", "created_at", "undoes"),
)
_INSERT = f"""INSERT OR ABORT INTO {TABLE} ({", ".join(_VALUES)})
    VALUES ({", ".join("?" * len(_VALUES))})"""
_PROOF = f"SELECT 1 FROM {TABLE} WHERE rowid = ? AND {' AND '.join(f'{name} IS ?' for name in _VALUES)}"


def journal_row(
    operation: Operation, packed: bytes | None, resolution: bytes, *, table_exists: bool
) -> JournalRow:
    """An operation as its row will be: made before the lock is taken."""
    counts: Mapping[str, Mapping[str, int]] = {
        count.table: {"insert": count.insert, "update": count.update, "delete": count.delete}
        for count in operation.rows
    }
    export = operation.export
    values = (
        operation.id,
        operation.batch,
        operation.kind,
        operation.conversation_id,
        operation.title,
        packed,
        resolution,
        str(export.path) if export else None,
        export.sha256 if export else None,
        json.dumps(sorted(operation.removed)),
        json.dumps(counts),
        max(LEAST, min(operation.tokens, GREATEST)),  # of counts that no engine wrote
        operation.tool_version,
        operation.created_at,
        operation.undoes,
    )
    return JournalRow(operation, values, table_exists)


def mark_undone(writer: Writer, undone: str, by: str) -> None:
    """Note at an operation what undid it."""
    sql = f"UPDATE {TABLE} SET undone_by = ? WHERE id = ? AND undone_by IS NULL"
    if writer.execute(sql, (by, undone)).rowcount != 1:
        raise StalePlanError([Moved(f"operation {undone}", "in effect", "undone already, or forgotten")])


def forget(writer: Writer, ids: Iterable[SqlValue]) -> list[Path]:
    """Delete operations, within the caller's transaction, and name the exports that lose their use."""
    wanted = list(ids)
    if not wanted or not exists(writer):
        return []
    rows = writer.rows_in(
        f"SELECT export_path FROM {TABLE} WHERE id IN (?*) AND export_path NOT NULL", wanted
    )
    for operation_id in wanted:
        writer.execute(f"DELETE FROM {TABLE} WHERE id = ?", (operation_id,))
    return [Path(text(row["export_path"]) or "") for row in rows]
