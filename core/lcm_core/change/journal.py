"""The journal: the operations that were committed to a database, their edits as JSON, and large exports."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import sqlite3
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import platformdirs

from lcm_core.base.errors import DatabaseError, NotFoundError, RefusedError
from lcm_core.base.files import PROGRAM, make_private, sync_folder
from lcm_core.base.records import Timestamp
from lcm_core.base.text import clip, safe_line
from lcm_core.base.values import Record, field, replace
from lcm_core.change.connection import Writer
from lcm_core.change.guard import OWN_TABLES
from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cell,
    Cells,
    DiskFullError,
    Edit,
    Item,
    Move,
    Moved,
    Owner,
    RowChange,
    RowCount,
    Splice,
    StalePlanError,
    Symbol,
    SymbolKind,
    Values,
    deletions,
    insertion,
    renumbering,
    substitute,
    touched_rows,
)
from lcm_core.store.opening import Row, Rows, SqlValue
from lcm_core.store.schema import GREATEST, JOURNAL, LEAST, Columns, number, text

# -- edits as JSON ---------------------------------------------------------------------------------------
# For the journal and for machines: lossless for every value that SQLite can hold.

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


#: Packed edits have so many bytes at most, and unpacked ones: the bytes may be anybody's, and a megabyte of
#: them can stand for a gigabyte.
PACKED_BYTES: Final = 1 << 30
UNPACKED_BYTES: Final = 2 << 30


class CodecError(ValueError):
    """A text that is no plan of ours."""


def encode_edits(edits: Iterable[Edit]) -> list[Json]:
    """Edits as JSON values."""
    return [_edit(edit) for edit in edits]


def decode_edits(values: Json) -> tuple[Edit, ...]:
    """JSON values as edits.

    Raises:
        CodecError: they are none.
    """
    try:
        return tuple(_read_edit(_object(value)) for value in _array(values))
    except KeyError as error:
        raise CodecError(f"not a list of edits: there is no {error}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"not a list of edits: {error}") from error


def encode_values(values: Mapping[str, SqlValue]) -> dict[str, Json]:
    """Named values as JSON values."""
    return {name: encode_cell(value) for name, value in values.items()}


def decode_values(value: Json) -> dict[str, SqlValue]:
    """JSON values as named values.

    Raises:
        CodecError: they are none.
    """
    try:
        found = {name: _read_cell(cell) for name, cell in _object(value).items()}
    except (TypeError, ValueError) as error:
        raise CodecError(f"no values: {error}") from error
    return {name: cell for name, cell in found.items() if not isinstance(cell, Symbol)}


def pack(edits: Iterable[Edit]) -> bytes:
    """Edits as compressed JSON."""
    text = json.dumps(encode_edits(edits), ensure_ascii=True, separators=(",", ":"))
    return zlib.compress(text.encode("ascii"), 6)


def inflate(packed: object, most: int = UNPACKED_BYTES) -> bytes:
    """What compressed bytes stand for.

    Raises:
        CodecError: they are none, are cut off, or stand for more than *most* bytes.
    """
    if not isinstance(packed, bytes):
        raise CodecError("compressed bytes were expected")
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(packed, most)
    except zlib.error as error:
        raise CodecError(f"the compressed bytes are damaged: {error}") from error
    if stream.unconsumed_tail:
        raise CodecError(f"they stand for more than {most:,} bytes")
    if not stream.eof:
        raise CodecError("the compressed bytes are cut off")
    return found


def unpack(packed: object) -> tuple[Edit, ...]:
    """The edits that `pack` was given.

    Raises:
        CodecError: the bytes are damaged.
    """
    try:
        return decode_edits(json.loads(inflate(packed)))
    except (ValueError, RecursionError) as error:
        raise CodecError(f"the recorded edits cannot be read: {error}") from error


def _edit(edit: Edit) -> Json:
    """An edit under one of five names: journals, machines and earlier versions know it by them."""
    if isinstance(edit, RowChange):
        if edit.before is None:
            return {"edit": "insert", "table": edit.table, "row": _cells(edit.row)}
        sides: dict[str, Json] = {"table": edit.table, "key": _cells(edit.key), "before": _cells(edit.before)}
        if edit.after is None:
            return {"edit": "delete", **sides}
        return {"edit": "update", **sides, "after": _cells(edit.after)}
    owner = encode_cell(edit.conversation_id)
    if edit.moves:
        moves: list[Json] = [
            {"item": _item(move.item), "old": move.old, "new": move.new} for move in edit.moves
        ]
        return {"edit": "renumber", "conversationId": owner, "moves": moves}
    return {
        "edit": "splice",
        "conversationId": owner,
        "after": _item(edit.after),
        "before": _item(edit.before),
        "removed": [_cells(row) for row in edit.removed],
        "inserted": [_cells(row) for row in edit.inserted],
        "shift": edit.shift,
        "gap": list(edit.gap),
        "copies": list(edit.copies),
    }


def _cells(cells: Cells) -> Json:
    return dict(zip(cells.columns, map(encode_cell, cells.cells), strict=True))


def encode_cell(value: Cell) -> Json:
    """One value: text that is not valid Unicode and blobs are tagged and in base64."""
    if isinstance(value, str):
        try:
            value.isascii() or value.encode("utf-8")
        except UnicodeEncodeError:
            raw = value.encode("utf-8", "surrogateescape")
            return {"$text": base64.b64encode(raw).decode("ascii")}
        return value
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Symbol):
        return {"$new": value.name, "of": value.kind.value}
    if isinstance(value, bytes):
        return {"$blob": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return {"$real": repr(value)}
    return value


def _item(item: Item | None) -> Json:
    if item is None:
        return None
    return {
        "type": item.item_type,
        "ref": encode_cell(item.ref),
        "occurrence": item.occurrence,
        "copies": item.copies,
    }


def _read_edit(value: dict[str, Json]) -> Edit:
    match value["edit"]:
        case "insert":
            return insertion(_text(value["table"]), _read_cells(value["row"]))
        case "update" | "delete" as name:
            return RowChange(
                _text(value["table"]),
                _read_cells(value["key"]),
                _read_cells(value["before"]),
                _read_cells(value["after"]) if name == "update" else None,
            )
        case "splice":
            return Splice(
                _owner(value["conversationId"]),
                _read_item(value["after"]),
                _read_item(value["before"]),
                tuple(_read_cells(row) for row in _array(value["removed"])),
                tuple(_read_cells(row) for row in _array(value["inserted"])),
                _integer(value["shift"]),
                _pair(value["gap"]),
                _counts(value["copies"]),
            )
        case "renumber":
            return renumbering(
                _owner(value["conversationId"]),
                (_read_move(_object(move)) for move in _array(value["moves"])),
            )
        case other:
            raise CodecError(f"unknown edit {other!r}")


def _read_move(value: dict[str, Json]) -> Move:
    item = _read_item(value["item"])
    if item is None:
        raise CodecError("a move without an item")
    return Move(item, _integer(value["old"]), _integer(value["new"]))


def _read_cells(value: Json) -> Cells:
    return Cells.of({_text(name): _read_cell(cell) for name, cell in _object(value).items()})


def _read_cell(value: Json) -> Cell:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        _integer(int(value))
        return value
    if isinstance(value, dict):
        if "$new" in value:
            return Symbol(_text(value["$new"]), SymbolKind(str(value["of"])))
        if "$blob" in value:
            return base64.b64decode(str(value["$blob"]), validate=True)
        if "$text" in value:
            return base64.b64decode(str(value["$text"]), validate=True).decode("utf-8", "surrogateescape")
        if "$real" in value:
            return float(str(value["$real"]))
        raise CodecError("unknown tag")
    if isinstance(value, list):
        raise CodecError("a list is no value of a column")
    return value


def _read_item(value: Json) -> Item | None:
    if value is None:
        return None
    found = _object(value)
    ref = _read_cell(found["ref"])
    if not isinstance(ref, int | str | Symbol | None):
        raise CodecError("an item stands for an id")
    return Item(ref, _integer(found["occurrence"]), _integer(found["copies"]))


def _owner(value: Json) -> Owner:
    found = _read_cell(value)
    if not isinstance(found, int | Symbol) or isinstance(found, bool):
        raise CodecError("a conversation was expected")
    return found


def _pair(value: Json) -> tuple[int | None, int | None]:
    first, second = (None if part is None else _integer(part) for part in _array(value))
    return first, second


def _counts(value: Json) -> tuple[int, int]:
    first, second = (_integer(part) for part in _array(value))
    return first, second


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise CodecError("an object was expected")
    return value


def _array(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise CodecError("a list was expected")
    return value


def _integer(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CodecError("a number was expected")
    if not LEAST <= value <= GREATEST:
        raise CodecError("a number has more than 64 bits")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise CodecError("a text was expected")
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError as error:
        raise CodecError("a text is not valid Unicode") from error
    return value


# -- what only a commit can have made --------------------------------------------------------------------


def check_committed(edits: Iterable[Edit]) -> None:
    """Hold edits to what every commit of ours leaves: known places, whole keys, no symbols.

    Raises:
        CodecError: nothing of ours made one of them.
    """
    for edit in edits:
        if any(row.has_symbols for _, _, row in touched_rows(edit)):
            raise CodecError("a value is not known")
        if isinstance(edit, Splice):
            _check_splice(edit)
        else:
            _check_row(edit)


def _check_row(edit: RowChange) -> None:
    key = edit.key.as_dict()
    if edit.table == CONTEXT:
        raise CodecError("items of a context change by splices only")
    if not key or not set(KEYS.get(edit.table, ())) <= set(key) or edit.key.has_symbols:
        raise CodecError(f"a row of {edit.table} is named by {', '.join(key) or 'nothing'}")
    if edit.before is None:
        return
    if any(name in edit.before and edit.before[name] != value for name, value in key.items()):
        raise CodecError(f"a row of {edit.table} is named by a key that it does not have")
    if edit.after is None and not set(key) <= set(edit.before.columns):
        raise CodecError(f"a row of {edit.table} that goes is not whole")
    if edit.after is not None and edit.after.columns != edit.before.columns:
        raise CodecError(f"a row of {edit.table} changes, and not all of it is known")


def _check_splice(edit: Splice) -> None:
    owner = edit.conversation_id
    items = [one for one in (edit.after, edit.before, *(move.item for move in edit.moves)) if one is not None]
    if isinstance(owner, Symbol) or any(isinstance(item.ref, Symbol) for item in items):
        raise CodecError("a value is not known")
    if any(not 0 <= item.occurrence < max(item.copies, 1) for item in items) or min(edit.copies) < 0:
        raise CodecError("an item of a context is counted wrongly")
    for row in (*edit.removed, *edit.inserted):
        if not _ITEM.issubset(row.columns):
            raise CodecError("an item of a context has no ordinal or no id")
        if type(row["ordinal"]) is not int or row["conversation_id"] != owner:
            raise CodecError(f"an item is not in the context of conversation {owner}")


_ITEM: Final = frozenset({"conversation_id", "ordinal", "message_id", "summary_id"})


# -- exports ---------------------------------------------------------------------------------------------
# Files that hold the edits of operations too large for the journal (docs/spec/hostile-files.md, "Exports").
#
# The journal is in the database, which anybody may have written: what it names is opened only as a file of
# ours. Of a recorded path only the name is used, and only if we give such names; it is looked for in our
# own folder, opened once without following a link or waiting for a writer, and has to be a private file of
# this user, of bounded size, that holds what was recorded.

#: Packed edits of more bytes are kept outside the database.
LIMIT_BYTES = 8 * 1024 * 1024
#: The same for a plan that is there to save space.
APART_BYTES = 16 * 1024

_NAME: Final = re.compile(r"op_[0-9a-f]{16}\.edits")
_CHUNK: Final = 1 << 20


class Export(Record, frozen=True):
    """A file with packed edits."""

    path: Path  #: as it was recorded
    sha256: str


def export_folder() -> Path:
    """Where exports of this user are kept."""
    return Path(platformdirs.user_data_dir(PROGRAM, appauthor=False)) / "operations"


def write_export(operation_id: str, packed: bytes) -> Export:
    """Write packed edits to a file of their own that only this user can read, and make it last.

    Raises:
        DiskFullError: the folder cannot be written.
        RefusedError: they are more than could be read again.
    """
    if len(packed) > PACKED_BYTES:
        raise RefusedError(
            f"Undoing this needs {len(packed):,} bytes, more than {PACKED_BYTES:,}. Change less "
            "at a time; nothing was changed."
        )
    path = export_folder() / f"{operation_id}.edits"
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        remove_export(path)
        raise DiskFullError(
            "This change is too large for the journal, and what undoing it needs cannot be written to "
            f"{path} ({error.strerror}). Nothing was changed; make room there and try again.",
            code="EXPORT_FAILED",
        ) from error
    return Export(path, hashlib.sha256(packed).hexdigest())


def read_export(export: Export) -> bytes:
    """The packed edits.

    Raises:
        RefusedError: the file is gone, unreadable, not private, too large, or not what was written.
    """
    folder, name = export_folder(), export.path.name
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"The data for undoing this is recorded to be in {str(export.path)!r}, which is not a file "
            "written by lcm-tui. It is not opened, and nothing was changed."
        )
    try:
        packed = _read_private(folder, name)
    except OSError as error:
        raise RefusedError(
            f"What undoing this needs was kept in {folder / name}, which cannot be read ({error.strerror}). "
            "Put the file back; nothing was changed."
        ) from error
    if hashlib.sha256(packed).hexdigest() != export.sha256:
        raise RefusedError(
            f"What undoing this needs was kept in {folder / name}, which is not as it was written. "
            "Restore the file from a backup; nothing was changed."
        )
    return packed


def remove_export(path: Path) -> None:
    """Remove an export that nothing needs any more; of the recorded path only the name counts."""
    if not _NAME.fullmatch(path.name):
        return
    with contextlib.suppress(OSError), _opened(export_folder()) as folder:
        os.unlink(path.name, dir_fd=folder)


def _read_private(folder: Path, name: str) -> bytes:
    """A whole file of *folder*, which nobody can exchange between the look at it and the reading.

    Raises:
        RefusedError: it is no private file of this user, or too large.
        OSError: it cannot be opened, a symbolic link for example.
    """
    with _opened(folder) as parent:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=parent
        )
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if problem := _no_export(found):
            raise RefusedError(
                f"What undoing this needs was kept in {folder / name}, which {problem}. Put the file back "
                "as it was written, for this user only (chmod 600); nothing was changed."
            )
        pieces, left = [], found.st_size
        while left > 0 and (piece := file.read(min(_CHUNK, left))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _no_export(found: os.stat_result) -> str:
    """Why a file cannot be an export of ours; empty when it can."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return "others could have written or read"
    if found.st_size > PACKED_BYTES:
        return f"has {found.st_size:,} bytes, more than the {PACKED_BYTES:,} that are ever written"
    return ""


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# -- the journal -----------------------------------------------------------------------------------------
# Table ``lcm_tui_operations``, in the same file and the same transaction as the change.
#
# The first commit creates it; browsing never does. The engine does not mind it: no version stores a schema
# number, counts tables or looks at tables that it does not know by name (docs/spec/format.md, "The file
# itself"); its migrations, its cleaners and its search go by names, and its backups copy all.
#
# A row keeps the edits as they were planned and, apart, what the commit made of them (ids, ordinals, and
# neighbours). So the large part is packed before the lock is taken, or is in an export.

TABLE = JOURNAL
#: Operations that `operations` gives at a time.
PAGE = 200

_COLUMNS = """rowid, id, batch, kind, conversation_id, title, export_path, export_sha256, removed_findings,
    row_counts, tokens, tool_version, created_at, undoes, undone_by"""


#: Kinds whose operations change conversations besides the one that they are noted under.
SEVERAL: Final = frozenset({"merge", "transplant"})


class Operation(Record, frozen=True):
    """What a commit left in the journal. Source: table ``lcm_tui_operations``."""

    id: str = field(name="operationId")  #: ``op_`` and 16 hex digits
    place: int  #: larger for later operations of the same file
    kind: str
    title: str
    conversation_id: int | None
    batch: str | None
    rows: tuple[RowCount, ...]
    tokens: int  #: by how much the stored estimates of the contexts it changed grew
    removed: frozenset[str]  #: keys of the findings that it removed (`lcm_core.change.plan`)
    tool_version: str
    created_at: Timestamp
    undoes: str | None
    undone_by: str | None
    export: Export | None  #: where its edits are, when they are too large for the journal


_OPERATIONS: Final = Columns(
    TABLE, Operation, text, place="rowid", **dict.fromkeys(("conversation_id", "rows", "removed", "export"))
)


class JournalRow(Record, frozen=True):
    """An operation, and its row."""

    operation: Operation
    values: tuple[SqlValue, ...]
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
    return _read(
        db,
        """WHERE (? IS NULL OR rowid < ?) AND (? IS NULL OR conversation_id = ?)
        ORDER BY rowid DESC LIMIT ?""",
        (below, below, conversation_id, conversation_id, limit),
    )


def _read(db: Rows, rest: str, values: Sequence[SqlValue] = ()) -> list[Operation]:
    """The operations that a query finds; none where nothing was ever changed."""
    if not exists(db):
        return []
    return [_operation(row) for row in db.rows(f"SELECT {_COLUMNS} FROM {TABLE} {rest}", values)]


def all_operations(db: Rows, *, conversation_id: int | None = None) -> Iterator[Operation]:
    """Every operation, the newest first."""
    below: int | None = None
    while page := operations(db, below=below, conversation_id=conversation_id):
        yield from page
        if len(page) < PAGE:
            break
        below = page[-1].place


def touching(db: Rows, conversation_id: int) -> list[Operation]:
    """The operations that may have changed a conversation, the newest first.

    Those that are noted under it or under none, those that change several, and every undo and redo of these.
    """
    several = sorted(SEVERAL)
    return _read(
        db,
        f"""WHERE conversation_id = ? OR conversation_id IS NULL OR undoes IS NOT NULL
        OR kind IN ({", ".join("?" * len(several))}) ORDER BY rowid DESC""",
        (conversation_id, *several),
    )


def gaps(db: Rows, oldest: int | None) -> tuple[int, Operation | None]:
    """How many operations are missing from a place on (None: that is not looked at), and the oldest one.

    Places are counted up; one that is free belonged to an operation that was removed.
    """
    first = _read(db, "ORDER BY rowid LIMIT 1")
    missing = 0
    if first and oldest is not None:
        sql = f"SELECT max(rowid) - min(rowid) + 1 - count(*) FROM {TABLE} WHERE rowid >= ?"
        missing = number(db.rows(sql, (oldest,))[0][0]) or 0
    return missing, first[0] if first else None


def find(db: Rows, operation_id: str) -> Operation | None:
    """An operation by its id."""
    return next(iter(_read(db, "WHERE id = ?", (operation_id,))), None)


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


def deleted_sessions(db: Rows) -> dict[Cell, Timestamp]:
    """When the conversations of sessions were deleted that still are, by session id and by session key."""
    done = list(all_operations(db))
    undone, found = undone_now(done), dict[Cell, Timestamp]()
    for one in done:
        if undone[one.id] is None and any(rows.table == "conversations" and rows.delete for rows in one.rows):
            with contextlib.suppress(DatabaseError, RefusedError):  # what it did cannot be read any more
                for edit in deletions(edits_of(db, one)):
                    if edit.table == "conversations":
                        names = [edit.row.get(name) for name in ("session_id", "session_key")]
                        found = {**dict.fromkeys(filter(None, names), one.created_at), **found}
    return found


def of_batch(db: Rows, batch: str) -> list[Operation]:
    """The operations that were committed together, the newest first.

    Raises:
        NotFoundError: the journal holds none of this batch.
    """
    found = _read(db, "WHERE batch = ? ORDER BY rowid DESC", (batch,))
    if not found:
        raise NotFoundError(
            f"There is no batch {batch} in this database's history. `lcm-tui history list` lists them.",
            code="OPERATION_NOT_FOUND",
            details={"batch": batch},
        )
    return found


def exists(db: Rows) -> bool:
    """Whether anything was ever changed in this file by us."""
    rows = db.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,))
    return bool(rows)


def _operation(row: Row) -> Operation:
    """A row as a record; what does not have the type of its column, as SQLite would cast it."""
    path, owner = text(row["export_path"]), row["conversation_id"]
    return _OPERATIONS.record(
        row,
        conversation_id=owner if isinstance(owner, int) else None,
        rows=_journal_counts(row["row_counts"]),
        removed=_keys(row["removed_findings"]),
        export=None if path is None else Export(Path(path), text(row["export_sha256"]) or ""),
    )


def _journal_counts(stored: object) -> tuple[RowCount, ...]:
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
