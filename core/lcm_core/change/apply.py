"""Write verified edits, and count what they write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

from lcm_core.change.connection import Fault, Writer
from lcm_core.change.errors import Moved, RefusedError, StalePlanError
from lcm_core.change.plan import (
    KEYS,
    Cells,
    Delete,
    Edit,
    Insert,
    Owner,
    Renumber,
    Splice,
    SqlValue,
    Symbol,
    SymbolKind,
    Update,
)
from lcm_core.change.symbols import Values, fill_row, substitute
from lcm_core.change.verify import CONTEXT, Step, quoted

_LAST_ID = 2**63 - 1
#: From so many new rows of one shape on they go in with one statement.
MANY_ALIKE = 100
#: What two writers can both want: a row that took the place of ours since it was planned.
_TAKEN = ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")


@dataclass(frozen=True, slots=True)
class Applied:
    """What was written."""

    edits: tuple[Edit, ...]  #: with the ids that new rows got
    values: Values  #: what all symbols stand for
    row_changes: int  #: how many rows the edits stand for


def apply(writer: Writer, steps: Iterable[Step], values: Values, fault: Fault) -> Applied:
    """Write *steps* in their order.

    Raises:
        StalePlanError: another row holds what must be unique.
        RefusedError: the schema does not take a row.
    """
    known, count = dict(values), 0
    edits: list[Edit] = []
    for alike in _alike(steps):
        try:
            if len(alike) < MANY_ALIKE or not _insert_many(writer, alike, known, edits):
                for step in alike:
                    count += _one_step(writer, step, known, edits)
            else:
                count += len(alike)
        except sqlite3.IntegrityError as error:
            raise _refusal(alike[0].edit, error) from error
        for number in range(len(edits) - len(alike), len(edits)):
            fault(f"applied {number}")
    return Applied(tuple(edits), known, count)


def _alike(steps: Iterable[Step]) -> Iterator[Sequence[Step]]:
    """The steps in their order: new rows of one shape together, everything else by itself."""
    for shape, group in groupby(steps, _shape):
        if shape is None:
            yield from ([step] for step in group)
        else:
            yield list(group)


def _shape(step: Step) -> tuple[object, ...] | None:
    """What new rows have in common that one statement can insert."""
    edit = step.edit
    if not isinstance(edit, Insert):
        return None
    return edit.table, edit.row.columns, isinstance(edit.row.get(_key(edit.table)), Symbol)


def _one_step(writer: Writer, step: Step, known: dict[str, SqlValue], edits: list[Edit]) -> int:
    edit = substitute(step.edit, known)
    count = _apply(writer, edit, step, known)
    edits.append(substitute(edit, known))
    return count


def _insert_many(
    writer: Writer, alike: Sequence[Step], known: dict[str, SqlValue], edits: list[Edit]
) -> bool:
    """Insert rows of one shape; False, and nothing is done, when they have to go in one by one.

    Ids that the database gives follow one another, for nobody else writes: the first one says them all.
    """
    inserts = [step.edit for step in alike if isinstance(step.edit, Insert)]
    table = inserts[0].table
    key = _key(table)
    rows = [fill_row(insert.row, known) for insert in inserts]
    own = [name for row in rows if (name := _own_id(row, key)) is not None]
    if len(own) not in (0, len(rows)):
        return False
    done = 0
    if own:
        _insert(writer, table, rows[0], known)
        first, done = known[own[0]], 1
        if not isinstance(first, int) or first > _LAST_ID - len(own):
            raise RefusedError(f"Table {table} has no ids left. Nothing was changed.")
        known.update(zip(own, range(first, first + len(own)), strict=True))
        rows = [fill_row(row, known) for row in rows]
    _insert_rows(writer, table, rows[done:])
    edits += [Insert(table, row) for row in rows]
    return True


def _insert_rows(writer: Writer, table: str, rows: Sequence[Cells]) -> None:
    """Insert rows of the same columns, all of them known: with one statement where their text allows it."""
    values = list(map(_plain, rows))
    sql = _insertion(table, rows[0].columns)
    if all(map(_is_valid, rows)):
        writer.execute_many(sql, values)
    else:
        for each in values:
            writer.execute(sql, each)


def _key(table: str) -> str:
    """The column that the database may give the value of."""
    return KEYS.get(table, ("",))[0]


def _own_id(row: Cells, key: str) -> str | None:
    """The name of the id that the database gives a row."""
    cell = row.get(key)
    return cell.name if isinstance(cell, Symbol) and cell.kind is SymbolKind.ID else None


def _is_valid(row: Cells) -> bool:
    """Whether all text of a row is valid: what is not, is bound as the bytes that it was."""
    try:
        for cell in row.cells:
            if isinstance(cell, str) and not cell.isascii():
                cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def _apply(writer: Writer, edit: Edit, step: Step, known: dict[str, SqlValue]) -> int:
    match edit:
        case Insert():
            _insert(writer, edit.table, edit.row, known)
            return 1
        case Update():
            columns = ", ".join(f"{quoted(name)} = ?" for name in edit.after.columns)
            return _one(
                writer,
                f"UPDATE {quoted(edit.table)} SET {columns} WHERE {_where(edit.key)}",
                [*_plain(edit.after), *_plain(edit.key)],
            )
        case Delete():
            return _one(
                writer, f"DELETE FROM {quoted(edit.table)} WHERE {_where(edit.key)}", _plain(edit.key)
            )
        case Splice():
            conversation = _number(edit.conversation_id)
            for row in edit.removed:
                sql = "DELETE FROM context_items WHERE conversation_id = ? AND ordinal = ?"
                _one(writer, sql, [conversation, *_plain(Cells.of({"ordinal": row["ordinal"]}))])
            _shift(writer, conversation, step)
            for _, rows in groupby(edit.inserted, attrgetter("columns")):
                _insert_rows(writer, CONTEXT, list(rows))
            return len(edit.removed) + len(step.shifts) + len(edit.inserted)
        case Renumber():
            _shift(writer, _number(edit.conversation_id), step)
            return len(step.shifts)


def _insert(writer: Writer, table: str, row: Cells, known: dict[str, SqlValue]) -> None:
    """Insert a row; the id that it gets becomes known."""
    if not row.has_symbols:
        given: Any = row.cells
        writer.execute(_insertion(table, row.columns), given)
        return
    key = KEYS[table][0]
    symbol, others = row[key], row.without(key)
    if not isinstance(symbol, Symbol) or symbol.kind is not SymbolKind.ID:
        raise ValueError(f"a row of {table} refers to a row that is not there yet")
    known[symbol.name] = writer.execute(_insertion(table, others.columns), _plain(others)).lastrowid


@lru_cache(maxsize=64)
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
    return f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"


def _shift(writer: Writer, conversation_id: int, step: Step) -> None:
    """Change ordinals row by row; by rowid, which takes half the time, where all rows are there already."""
    if step.rowids is not None:
        rows = zip([new for _, new in step.shifts], step.rowids, strict=True)
        writer.execute_many("UPDATE context_items SET ordinal = ? WHERE rowid = ?", list(rows))
        return
    writer.execute_many(
        "UPDATE context_items SET ordinal = ? WHERE conversation_id = ? AND ordinal = ?",
        [(new, conversation_id, old) for old, new in step.shifts],
    )


def _one(writer: Writer, sql: str, parameters: Sequence[SqlValue]) -> int:
    changed = writer.execute(sql, parameters).rowcount
    if changed != 1:
        raise RefusedError(f"One row was to change, and {changed} would have. Nothing was changed.")
    return changed


def _where(key: Cells) -> str:
    return " AND ".join(f"{quoted(name)} IS ?" for name in key.columns)


def _plain(cells: Cells) -> tuple[SqlValue, ...]:
    if cells.has_symbols:
        raise ValueError("an edit refers to a row that is not there yet")
    return cast(tuple[SqlValue, ...], cells.cells)


def _number(owner: Owner) -> int:
    if isinstance(owner, Symbol):
        raise ValueError(f"nothing made conversation {owner.name}")
    return owner


def _refusal(edit: Edit, error: sqlite3.IntegrityError) -> StalePlanError | RefusedError:
    table = CONTEXT if isinstance(edit, Splice | Renumber) else edit.table
    if (getattr(error, "sqlite_errorname", "") or "") in _TAKEN:
        return StalePlanError([Moved(f"table {table}", "free for the new row", f"taken ({error})")])
    return RefusedError(
        f"Table {table} does not take a row of this change ({error}). Nothing was changed; this file's "
        "schema differs from the one that the row was made for."
    )
