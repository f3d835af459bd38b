"""The SQL that a verified plan stands for, statement by statement, as a commit runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lcm_core.change.plan import Cell, Cells, Delete, Insert, Renumber, Splice, Symbol, SymbolKind, Update
from lcm_core.change.verify import CONTEXT, Step, quoted


def sql_of(steps: Iterable[Step]) -> Iterator[str]:
    """Statements without search tables and journal; what nobody knows yet is a parameter such as ``:new_1``.

    Text that a script cannot hold (not valid UTF-8, with a NUL) stands as the bytes it is made of.
    """
    for step in steps:
        edit = step.edit
        match edit:
            case Insert():
                yield _insert(edit.table, edit.row)
            case Update():
                columns = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in edit.after.values)
                yield f"UPDATE {quoted(edit.table)} SET {columns} WHERE {_where(edit.key, edit.before)};"
            case Delete():
                yield f"DELETE FROM {quoted(edit.table)} WHERE {_where(edit.key)};"
            case Splice():
                yield from _splice(edit, step)
            case Renumber():
                yield from _shifts(edit.conversation_id, step)


def _splice(edit: Splice, step: Step) -> Iterator[str]:
    for row in edit.removed:
        key = Cells.of({"conversation_id": edit.conversation_id, "ordinal": row["ordinal"]})
        ref = row.without("ordinal", "conversation_id", "created_at", "item_type")
        yield f"DELETE FROM {CONTEXT} WHERE {_where(key, ref)};"
    yield from _shifts(edit.conversation_id, step)
    for row in edit.inserted:
        yield _insert(CONTEXT, row)


def _shifts(owner: Cell, step: Step) -> Iterator[str]:
    for old, new in step.shifts:
        yield (
            f"UPDATE {CONTEXT} SET ordinal = {new} "
            f"WHERE conversation_id = {literal(owner)} AND ordinal = {old};"
        )


def _insert(table: str, row: Cells) -> str:
    given = [
        (name, value)
        for name, value in row.values
        if not (isinstance(value, Symbol) and value.kind is SymbolKind.ID and _names_the_row(table, name))
    ]
    new = [
        value.name for name, value in row.values if isinstance(value, Symbol) and (name, value) not in given
    ]
    names = ", ".join(quoted(name) for name, _ in given)
    values = ", ".join(literal(value) for _, value in given)
    note = f" -- its id is {_parameter(new[0])}" if new else ""
    return f"INSERT INTO {quoted(table)} ({names}) VALUES ({values});{note}"


def _names_the_row(table: str, column: str) -> bool:
    return (table, column) in (("messages", "message_id"), ("conversations", "conversation_id"))


def _where(*cells: Cells) -> str:
    return " AND ".join(
        f"{quoted(name)} IS {literal(value)}" for each in cells for name, value in each.values
    )


def literal(value: Cell) -> str:
    """A value in SQL."""
    match value:
        case None:
            return "NULL"
        case Symbol():
            return _parameter(value.name)
        case bytes():
            return f"x'{value.hex()}'"
        case float():
            return {float("inf"): "9e999", float("-inf"): "-9e999"}.get(value, repr(value))
        case int():
            return str(value)
        case str():
            raw = value.encode("utf-8", "surrogateescape")
            if "\0" in value or raw.decode("utf-8", "replace") != value:
                return f"CAST(x'{raw.hex()}' AS TEXT)"
            return "'" + value.replace("'", "''") + "'"


def _parameter(name: str) -> str:
    return ":" + "".join(letter if letter.isalnum() else "_" for letter in name)
