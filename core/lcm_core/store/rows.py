"""Whole rows as they are stored, for what changes them: every column that this file has, undecoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader

#: A whole row by column.
StoredRow = Mapping[str, SqlValue]


@dataclass(frozen=True, slots=True)
class ReferringColumn:
    """A column that names rows of another table, declared as a foreign key."""

    table: str
    column: str
    on_delete: str  #: CASCADE, RESTRICT, SET NULL ...


async def rows_by(reader: Reader, table: str, column: str, keys: Iterable[SqlValue]) -> list[StoredRow]:
    """The whole rows of a table whose *column* holds one of *keys*; none where the table is absent."""
    if not reader.schema.has(table, column):
        return []
    rows = await reader.stored_in(f'SELECT * FROM "{table}" WHERE "{column}" IN (?*) ORDER BY rowid', keys)
    return [dict(row) for row in rows]


async def referring_columns(reader: Reader, target: str) -> list[ReferringColumn]:
    """Every declared reference to a table, also from tables that we know nothing else about."""
    rows = await reader.rows(
        """SELECT m.name, f."from", f.on_delete FROM sqlite_master AS m,
        pragma_foreign_key_list(m.name) AS f
        WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%' AND f."table" = ?""",
        target,
    )
    return [ReferringColumn(row[0], row[1], row[2]) for row in rows]
