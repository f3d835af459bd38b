"""Put values in the place of the symbols that stand for them."""

from __future__ import annotations

from collections.abc import Mapping

from lcm_core.change.plan import (
    Cell,
    Cells,
    Delete,
    Edit,
    Insert,
    Item,
    Move,
    Owner,
    Renumber,
    Splice,
    SqlValue,
    Symbol,
    Update,
)

#: What symbols stand for, by name.
Values = Mapping[str, SqlValue]


def fill(cell: Cell, values: Values) -> Cell:
    """One value; a symbol that is not known yet stays."""
    return values.get(cell.name, cell) if isinstance(cell, Symbol) else cell


def fill_row(row: Cells, values: Values) -> Cells:
    """The columns of a row."""
    if not values or not row.has_symbols:  # most rows have no symbol that is known by now
        return row
    cells = [values.get(cell.name, cell) if isinstance(cell, Symbol) else cell for cell in row.cells]
    return Cells(row.columns, tuple(cells))


def substitute(edit: Edit, values: Values) -> Edit:
    """An edit with the symbols that are known by now."""
    if not values:
        return edit
    match edit:
        case Insert():
            return Insert(edit.table, fill_row(edit.row, values))
        case Update():
            key, before, after = (fill_row(cells, values) for cells in (edit.key, edit.before, edit.after))
            return Update(edit.table, key, before, after)
        case Delete():
            return Delete(edit.table, fill_row(edit.key, values), fill_row(edit.before, values))
        case Splice():
            return Splice(
                _owner(edit.conversation_id, values),
                _item(edit.after, values),
                _item(edit.before, values),
                tuple(fill_row(row, values) for row in edit.removed),
                tuple(fill_row(row, values) for row in edit.inserted),
                edit.shift,
                edit.gap,
                edit.copies,
            )
        case Renumber():
            moves = tuple(
                Move(_item(move.item, values) or move.item, move.old, move.new) for move in edit.moves
            )
            return Renumber(_owner(edit.conversation_id, values), moves)


def _item(item: Item | None, values: Values) -> Item | None:
    if item is None or not isinstance(item.ref, Symbol):
        return item
    ref = fill(item.ref, values)
    return Item(ref, item.occurrence, item.copies) if isinstance(ref, int | str) else item


def _owner(owner: Owner, values: Values) -> Owner:
    if isinstance(owner, int):
        return owner
    found = values.get(owner.name)
    return found if isinstance(found, int) else owner
