"""Tables a step at a time: by rows that are there, not by numbers, for ids reach from -2**63 to 2**63-1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Database, Reader


@dataclass(frozen=True, slots=True)
class Step:
    """A run of values of a column in SQLite's order: all behind one of them, up to and with another."""

    after: SqlValue = None  #: None: from the first one on, NULL too
    until: SqlValue = None  #: None: to the last one

    def where(self, column: str) -> str:
        """SQL that is true of the values of the run; `bounds` are its parameters."""
        first = f"{column} > ?" if self.after is not None else ""
        last = f"{column} <= ?" if self.until is not None else ""
        if last and not first:
            return f"({last} OR {column} IS NULL)"
        return " AND ".join(filter(None, (first, last))) or "1"

    @property
    def bounds(self) -> tuple[SqlValue, ...]:
        """The parameters of `where`."""
        return tuple(bound for bound in (self.after, self.until) if bound is not None)


def bound_sql(table: str, column: str, size: int, *, behind: bool, of: str | None = None) -> str:
    """SQL of the value with which a step of *size* rows ends; no row: it goes to the end.

    Its parameters are the value of the column *of*, if rows with one value of that are asked for, and the
    value that the step is *behind*.
    """
    conditions = " AND ".join([*([f"{of} = ?"] if of else []), *([f"{column} > ?"] if behind else [])])
    where = f"WHERE {conditions}" if conditions else ""
    return f"SELECT {column} FROM {table} {where} ORDER BY {column} LIMIT 1 OFFSET {size - 1}"


async def next_step(
    reader: Reader,
    table: str,
    column: str,
    size: int,
    last: Step | None,
    *,
    of: tuple[str, SqlValue] | None = None,
) -> Step | None:
    """The step after *last*, or the first one; None when that was the last.

    *of*: only of the rows that have a value in another column, which an index leads to.
    """
    if last is not None and last.until is None:
        return None
    after = None if last is None else last.until
    sql = bound_sql(table, column, size, behind=after is not None, of=of[0] if of else None)
    keys = (*(() if of is None else (of[1],)), *(() if after is None else (after,)))
    rows = await reader.stored(sql, *keys)
    return Step(after, rows[0][0] if rows else None)


async def steps(database: Database, table: str, column: str, size: int) -> AsyncIterator[Step]:
    """Steps over a whole table by an indexed *column*, each of about *size* rows; one at least."""
    step = await database.read(next_step, table, column, size, None)
    while step is not None:
        yield step
        step = await database.read(next_step, table, column, size, step)
