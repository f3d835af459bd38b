"""What a verified plan writes, as statements for many rows each, and writing it.

Everything here but `write` is worked out before the lock is taken (docs/spec/changes.md, "Under the lock"):
the ids that new rows will get, the rows as tuples, text that is not valid UTF-8 as bytes. What a plan does to
one context goes in as a whole, whatever number of splices it was planned as: the items that leave, then one
pass over the ordinals that differ, then the items that come.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from lcm_core.base.errors import RefusedError
from lcm_core.base.text import agree, counted
from lcm_core.base.values import Record
from lcm_core.change.connection import Fault, Writer
from lcm_core.change.guard import Statement
from lcm_core.change.place import ContextChange, Listing, Step
from lcm_core.change.plan import (
    CONTEXT,
    KEYS,
    Cell,
    Cells,
    Edit,
    Moved,
    Owner,
    Splice,
    StalePlanError,
    Symbol,
    SymbolKind,
    Values,
    fill_row,
    insertions,
    substitute,
)
from lcm_core.store.opening import Rows, SqlValue, as_bytes, error_name, quoted

_LAST_ID = 2**63 - 1
#: What two writers can both want: a row that took the place of ours since it was planned.
_TAKEN = ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")
_SHIFT = f"UPDATE OR ABORT {CONTEXT} SET ordinal = ? WHERE rowid = ?"
_LEAVE = f"DELETE FROM {CONTEXT} WHERE rowid = ?"


#: A table, a statement, and the values of one row.
_Row = tuple[str, str, tuple[SqlValue, ...]]


class Write(Record, frozen=True):
    """One statement for some rows of one table; each changes exactly one row."""

    table: str
    sql: str
    rows: Sequence[tuple[SqlValue, ...]]


class ResolvedEdits(Record, frozen=True):
    """Verified edits with nothing left to be known."""

    edits: tuple[Edit, ...]
    values: Values  #: what all symbols stand for


# -- before the lock -------------------------------------------------------------------------------------


def resolve_symbols(writer: Writer, steps: Sequence[Step], values: Values) -> ResolvedEdits:
    """Give new rows their ids, and put all symbols' values in place: right as long as nobody else commits.

    Raises:
        RefusedError: a table has no ids left.
    """
    known = with_new_ids(writer, [step.edit for step in steps], values)
    return ResolvedEdits(tuple([substitute(step.edit, known) for step in steps]), known)


def with_new_ids(db: Rows, edits: Iterable[Edit], values: Values) -> Values:
    """*values* and the ids that the database would give new rows next.

    Raises:
        RefusedError: a table has no ids left.
    """
    known = dict(values)
    last: dict[str, int] = {}
    for edit in insertions(edits):
        key = KEYS.get(edit.table, ("",))[0]
        cell = edit.row.get(key)
        if isinstance(cell, Symbol) and cell.name in known:
            continue  # a row that is named by another one
        if isinstance(cell, Symbol) and cell.kind is SymbolKind.ID:
            if edit.table not in last:
                last[edit.table] = last_id(db, edit.table, key)
            if last[edit.table] >= _LAST_ID:
                raise RefusedError(f"Table {edit.table} has no ids left. Nothing was changed.")
            last[edit.table] += 1
            known[cell.name] = last[edit.table]
        elif edit.table in last and isinstance(cell, int):
            last[edit.table] = max(last[edit.table], cell)
    return known


def last_id(db: Rows, table: str, key: str) -> int:
    """The largest id that a table has or ever had (``sqlite_sequence``, where it remembers)."""
    rows = db.rows(f"SELECT max({quoted(key)}) FROM {quoted(table)}")
    if db.rows("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"):
        rows += db.rows("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (table,))
    return max([0, *(row[0] for row in rows if isinstance(row[0], int))])


def writes_of(edits: Iterable[Edit], contexts: Mapping[Owner, ContextChange], values: Values) -> list[Write]:
    """What *edits* write, in their order; each context as a whole where it is touched first.

    Raises:
        ValueError: something refers to a row that nothing makes.
    """
    return _in_runs(_rows(edits, contexts, values))


def writes_alike(table: str, sql: str, rows: Iterable[tuple[SqlValue, ...]]) -> list[Write]:
    """One statement for some rows, wherever their text allows it."""
    return _in_runs(_bound(table, sql, row) for row in rows)


def _in_runs(rows: Iterable[_Row]) -> list[Write]:
    """Neighbours that one statement writes, together."""
    found: list[Write] = []
    gathered: list[tuple[SqlValue, ...]] = []
    table = sql = ""
    for row_table, row_sql, row in rows:
        if row_sql != sql or row_table != table:
            table, sql, gathered = row_table, row_sql, []
            found.append(Write(table, sql, gathered))
        gathered.append(row)
    return found


def _rows(edits: Iterable[Edit], contexts: Mapping[Owner, ContextChange], values: Values) -> Iterator[_Row]:
    written: set[int] = set()
    for edit in edits:
        if isinstance(edit, Splice):
            owner = _number(edit.conversation_id)
            if owner not in written:
                written.add(owner)
                yield from _context_rows(_context_of(contexts, owner, values), values)
        else:
            sql, cells = statement(edit.table, edit.key, edit.before, edit.after)
            yield _bound(edit.table, sql, _known(cells))


def _context_of(contexts: Mapping[Owner, ContextChange], owner: int, values: Values) -> ContextChange:
    for name, context in contexts.items():
        if name == owner or (isinstance(name, Symbol) and values.get(name.name) == owner):
            return context
    raise ValueError(f"the context of conversation {owner} was not verified")


def _context_rows(context: ContextChange, values: Values) -> Iterator[_Row]:
    """From one list to another, which holds what stays in the same order."""
    before, after = context.before, context.after
    ahead = len(before)
    if after.rows[:ahead] == before.rows and after.ordinals[:ahead] == before.ordinals:
        placed = list(zip(after.rows[ahead:], after.ordinals[ahead:], strict=True))  # a host mostly appends
    else:
        placed = list(zip(after.rows, after.ordinals, strict=True))
        staying = {row: ordinal for row, ordinal in placed if isinstance(row, int)}
        for row in before.rows:
            if isinstance(row, int) and row not in staying:
                yield CONTEXT, _LEAVE, (row,)
        for rowid, ordinal in shifted(before, staying):
            yield CONTEXT, _SHIFT, (ordinal, rowid)
    for row, ordinal in placed:
        if isinstance(row, Cells):
            cells = fill_row(row, values)
            if cells["ordinal"] != ordinal:
                cells = cells.but(ordinal=ordinal)
            yield _bound(CONTEXT, _insertion(CONTEXT, cells.columns), _known(cells.cells))


def shifted(before: Listing, staying: Mapping[int, int]) -> list[tuple[int, int]]:
    """Rows whose ordinal differs, with the new one, in an order in which no two rows ever share one.

    What moves down goes first, from the front; then what moves up, from the end: as the order stays, what a
    row moves to is free by then.
    """
    moves = [
        (row, old, staying[row])
        for row, old in zip(before.rows, before.ordinals, strict=True)
        if isinstance(row, int) and staying.get(row, old) != old
    ]
    down = [(row, new) for row, old, new in moves if new < old]
    return down + [(row, new) for row, old, new in reversed(moves) if new > old]


def _bound(table: str, sql: str, values: tuple[SqlValue, ...]) -> _Row:
    """A statement and its values; text that is not valid UTF-8 as the bytes that it was."""
    for value in values:
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return table, *as_bytes(sql, values)
    return table, sql, values


def statement(
    table: str, key: Cells, before: Cells | None, after: Cells | None
) -> tuple[str, tuple[Cell, ...]]:
    """The statement of a row change, and its values."""
    if after is None:
        return _deletion(table, key.columns), key.cells
    if before is None:
        return _insertion(table, after.columns), after.cells
    return _update(table, after.columns, key.columns), (*after.cells, *key.cells)


@lru_cache(maxsize=128)
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
    return f"INSERT OR ABORT INTO {quoted(table)} ({names}) VALUES ({marks})"


@lru_cache(maxsize=128)
def _update(table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    changes = ", ".join(f"{quoted(name)} = ?" for name in columns)
    return f"UPDATE OR ABORT {quoted(table)} SET {changes} WHERE {_where(key)}"


@lru_cache(maxsize=128)
def _deletion(table: str, key: tuple[str, ...]) -> str:
    return f"DELETE FROM {quoted(table)} WHERE {_where(key)}"


def statements_of(edits: Iterable[Edit]) -> set[Statement]:
    """The statements that some edits may need, each once."""
    found: set[Statement] = set()
    for edit in edits:
        if isinstance(edit, Splice):
            found |= {(CONTEXT, _SHIFT, 2), (CONTEXT, _LEAVE, 1)}
            found |= {(CONTEXT, _insertion(CONTEXT, row.columns), len(row.columns)) for row in edit.inserted}
        else:
            sql, cells = statement(edit.table, edit.key, edit.before, edit.after)
            found.add((edit.table, sql, len(cells)))
    return found


def _where(key: Iterable[str]) -> str:
    return " AND ".join(f"{quoted(name)} IS ?" for name in key)


def _known(cells: tuple[Cell, ...]) -> tuple[SqlValue, ...]:
    if Symbol in map(type, cells):
        raise ValueError("an edit refers to a row that is not there yet")
    return cast(tuple[SqlValue, ...], cells)


def _number(owner: Owner) -> int:
    if isinstance(owner, Symbol):
        raise ValueError(f"nothing made conversation {owner.name}")
    return owner


# -- under the lock --------------------------------------------------------------------------------------


def write(writer: Writer, writes: Sequence[Write], fault: Fault) -> int:
    """Write all rows, and nothing else; how many there are.

    Raises:
        StalePlanError: another row holds what must be unique.
        RefusedError: the schema does not take a row, or more changed than these rows.
    """
    changes = writer.row_changes
    for number, one in enumerate(writes):
        try:
            changed = writer.execute_many(one.sql, one.rows)
        except sqlite3.IntegrityError as error:
            raise _refusal(one.table, error) from error
        if changed != len(one.rows):
            raise RefusedError(
                f"{counted(len(one.rows), 'row')} of {one.table} {agree(len(one.rows), 'were')} to change, "
                f"and {changed:,} would have. Nothing was changed."
            )
        fault(f"applied {number}")
    expected = sum(len(one.rows) for one in writes)
    check_counted(writer.row_changes - changes, expected)
    return expected


def check_counted(counted: int, expected: int) -> None:
    """Hold the rows that SQLite changed against those that a change is for.

    Raises:
        RefusedError: there are more or fewer.
    """
    if counted != expected:
        raise RefusedError(
            f"This change is for {expected:,} rows, and the database changed {counted:,}: something in "
            "it (a trigger?) changes other rows. Nothing was changed."
        )


def _refusal(table: str, error: sqlite3.IntegrityError) -> StalePlanError | RefusedError:
    if error_name(error) in _TAKEN:
        return StalePlanError([Moved(f"table {table}", "free for the new row", f"taken ({error})")])
    return RefusedError(
        f"Table {table} rejected a row of this change ({error}). Nothing was changed; this file's "
        "schema differs from the one that the row was made for."
    )


# -- as SQL ----------------------------------------------------------------------------------------------


def literal(value: Cell) -> str:
    """A value in SQL."""
    match value:
        case str():
            if _UNPRINTABLE.search(value):
                return f"CAST(x'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
            return "'" + value.replace("'", "''") + "'"
        case None:
            return "NULL"
        case Symbol():
            return parameter(value.name)
        case bytes():
            return f"x'{value.hex()}'"
        case float():
            return {float("inf"): "9e999", float("-inf"): "-9e999"}.get(value, repr(value))
        case int():
            return str(value)


#: Controls but tab and newline, characters that turn, hide or join what is around them, and what stands for
#: a byte that is no UTF-8.
_UNPRINTABLE: Final = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def parameter(name: str) -> str:
    """What stands for a new id in SQL."""
    return ":" + "".join(letter if letter.isalnum() else "_" for letter in name)
