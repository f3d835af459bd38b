"""Plans as JSON, for the journal and for machines: lossless for every value that SQLite can hold."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cell,
    Cells,
    Edit,
    Item,
    Move,
    Owner,
    RowChange,
    Splice,
    Symbol,
    SymbolKind,
    insertion,
    renumbering,
    touched_rows,
)
from lcm_core.store.connecting import SqlValue
from lcm_core.store.typed import GREATEST, LEAST

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
