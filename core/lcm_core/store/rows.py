"""Rows of any table: whole, in ranges of keys, or thousands of short values as columns."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import AsyncIterator, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from lcm_core.base.errors import LcmError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import safe_line
from lcm_core.base.values import Record
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Access, Row, Rows, SqlValue, choose_way
from lcm_core.store.schema import Columns, R

# -- whole rows ------------------------------------------------------------------------------------------
# As they are stored, for whoever changes them.

#: A whole row by column.
StoredRow = Mapping[str, SqlValue]
#: Texts of a table that its rows share.
_TEXTS = 1_000
_Id = TypeVar("_Id", bound=Hashable)


class ReferringColumn(Record, frozen=True):
    """A column that names rows of another table, declared as a foreign key."""

    table: str
    column: str
    on_delete: str  #: CASCADE, RESTRICT, SET NULL ...

    @property
    def forgets(self) -> bool:
        """Whether the row stays without the reference when what it names is deleted."""
        return self.on_delete == "SET NULL"


async def records(reader: Reader, columns: Columns[R], clause: str, *parameters: object) -> list[R]:
    """The rows *t* of a table as records, those that a *clause* says; none where the table is absent."""
    if not reader.schema.has(columns.table):
        return []
    sql = f"SELECT {columns.select(reader.schema, 't')} FROM {columns.table} AS t {clause}"
    return list(map(columns.record, await reader.rows(sql, *parameters)))


async def records_in(reader: Reader, columns: Columns[R], key: str, keys: Iterable[object]) -> list[R]:
    """The rows of a table with one of some *keys* as records; none where the table is absent."""
    if not reader.schema.has(columns.table):
        return []
    sql = f"SELECT {columns.select(reader.schema, 't')} FROM {columns.table} AS t WHERE t.{key} IN (?*)"
    return list(map(columns.record, await reader.rows_in(sql, keys)))


async def rows_by(reader: Reader, table: str, column: str, keys: Iterable[SqlValue]) -> list[StoredRow]:
    """The whole rows of a table whose *column* holds one of *keys*; none where the table is absent."""
    if not reader.schema.has(table, column):
        return []
    rows = await reader.stored_in(f'SELECT * FROM "{table}" WHERE "{column}" IN (?*) ORDER BY rowid', keys)
    return whole_rows(reader, table, rows)


def whole_rows(reader: Reader, table: str, rows: Sequence[Row]) -> list[StoredRow]:
    """Rows of ``SELECT *`` without the columns that SQLite works out, which nobody can write."""
    columns = [name for name in dict(rows[0]) if name in reader.schema.tables[table]] if rows else []
    texts: dict[str, str] = {}  # SQLite gives a new object for each: types and times are often the same

    def shared(value: SqlValue) -> SqlValue:
        if not isinstance(value, str):
            return value
        return texts.get(value, value) if len(texts) >= _TEXTS else texts.setdefault(value, value)

    return [{name: shared(row[name]) for name in columns} for row in rows]


async def referring_columns(reader: Reader, target: str) -> list[ReferringColumn]:
    """Every declared reference to a table, also from tables that we know nothing else about."""
    rows = await reader.rows(
        """SELECT m.name, f."from", f.on_delete FROM sqlite_master AS m,
        pragma_foreign_key_list(m.name) AS f
        WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%' AND f."table" = ?""",
        target,
    )
    return [ReferringColumn(row[0], row[1], row[2]) for row in rows]


async def columns_by(
    reader: Reader, table: str, key: str, keys: Iterable[SqlValue], columns: Collection[str]
) -> dict[SqlValue, StoredRow]:
    """Some columns of rows, by the value of *key*; columns that this file does not have are left out."""
    known = [name for name in columns if reader.schema.has(table, name)]
    names = ", ".join(f'"{name}"' for name in [key, *known])
    rows = await reader.stored_in(f'SELECT {names} FROM "{table}" WHERE "{key}" IN (?*)', keys)
    return {row[key]: {name: row[name] for name in known} for row in rows}


async def ids_taken(reader: Reader, table: str, column: str, ids: Iterable[_Id]) -> frozenset[_Id]:
    """Which of some ids a table holds; none where the table or the column is absent."""
    if not reader.schema.has(table, column):
        return frozenset()
    rows = await reader.rows_in(f'SELECT "{column}" FROM "{table}" WHERE "{column}" IN (?*)', ids)
    return frozenset(row[0] for row in rows)


async def owned_keys(
    reader: Reader, table: str, key: str, conversation_id: ConversationId
) -> list[str | int]:
    """The keys of the rows of a table that belong to a conversation, in the order in which they were made."""
    if not reader.schema.has(table, key):
        return []
    rows = await reader.rows(
        f'SELECT "{key}" FROM "{table}" WHERE conversation_id = ? ORDER BY rowid', conversation_id
    )
    return [row[0] for row in rows]


async def row_count(reader: Reader, table: str, conversation_id: ConversationId | None = None) -> int:
    """How many rows a table has, of one conversation or of all."""
    condition, keys = of_conversation("conversation_id", conversation_id)
    return int(await reader.value(f'SELECT count(*) FROM "{table}" WHERE {condition}', *keys))


async def row_counts(
    reader: Reader, table: str, conversation_ids: Iterable[ConversationId] | None = None
) -> dict[ConversationId, int]:
    """How many rows of a table some conversations have, or all that have any; from an index."""
    if not reader.schema.has(table, "conversation_id"):
        return {}
    counting = f"SELECT conversation_id, count(*) FROM {table}"
    if conversation_ids is None:
        rows = await reader.rows(f"{counting} GROUP BY conversation_id")
    else:
        rows = await reader.rows_in(
            f"{counting} WHERE conversation_id IN (?*) GROUP BY conversation_id", conversation_ids
        )
    return {row[0]: row[1] for row in rows}


def sum_of(expression: str) -> str:
    """SQL: a sum that is 0 for no rows and that no value can make overflow."""
    return f"CAST(total({expression}) AS INTEGER)"


def where_all(conditions: Sequence[str]) -> str:
    """SQL: the rows for which all *conditions* are true."""
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def of_conversation(
    column: str, conversation_id: ConversationId | None
) -> tuple[str, tuple[ConversationId, ...]]:
    """SQL that is true of the rows of one conversation, by the column that names it, and its parameters.

    None: of all rows.
    """
    return ("1", ()) if conversation_id is None else (f"{column} = ?", (conversation_id,))


#: SQL behind ``FROM messages WHERE conversation_id = ?``: in the order in which they lie in the file. Left to
#: itself SQLite may go by the hashes, and reads a page for each row: five times as long for a large
#: conversation. The limit keeps the order in a subquery.
IN_SEQ_ORDER: Final = "ORDER BY seq LIMIT -1"


def owning_tables(reader: Reader) -> tuple[str, ...]:
    """The tables whose rows belong to a conversation; not our own."""
    return tuple(
        sorted(
            table
            for table, columns in reader.schema.tables.items()
            if "conversation_id" in columns and not table.startswith("lcm_tui_")
        )
    )


# -- a table in ranges of keys that exist, since ids reach from -2**63 to 2**63-1 ------------------------


class KeyRange(Record, frozen=True):
    """Values of a column in SQLite's order: all after one of them, up to and including another."""

    after: SqlValue = None  #: None: from the first one on, NULL too
    until: SqlValue = None  #: None: to the last one

    def where(self, column: str) -> str:
        """SQL that is true of the values in it; `bounds` are its parameters."""
        first = f"{column} > ?" if self.after is not None else ""
        last = f"{column} <= ?" if self.until is not None else ""
        if last and not first:
            return f"({last} OR {column} IS NULL)"
        return " AND ".join(filter(None, (first, last))) or "1"

    @property
    def bounds(self) -> tuple[SqlValue, ...]:
        """The parameters of `where`."""
        return tuple(bound for bound in (self.after, self.until) if bound is not None)


def range_end_sql(table: str, column: str, size: int, *, behind: bool, of: str | None = None) -> str:
    """SQL of the value with which a range of *size* rows ends; no row: it reaches the end of the table.

    Its parameters are the value of the column *of*, if only rows with that value are wanted, and the value
    that the range is *behind*.
    """
    conditions = " AND ".join([*([f"{of} = ?"] if of else []), *([f"{column} > ?"] if behind else [])])
    where = f"WHERE {conditions}" if conditions else ""
    return f"SELECT {column} FROM {table} {where} ORDER BY {column} LIMIT 1 OFFSET {size - 1}"


async def next_range(
    reader: Reader,
    table: str,
    column: str,
    size: int,
    last: KeyRange | None,
    *,
    of: tuple[str, SqlValue] | None = None,
) -> KeyRange | None:
    """The range after *last*, or the first one; None when that was the last.

    *of*: only of the rows that have a value in another column, which an index leads to.
    """
    if last is not None and last.until is None:
        return None
    after = None if last is None else last.until
    sql = range_end_sql(table, column, size, behind=after is not None, of=of[0] if of else None)
    keys = (*(() if of is None else (of[1],)), *(() if after is None else (after,)))
    rows = await reader.stored(sql, *keys)
    return KeyRange(after, rows[0][0] if rows else None)


async def key_ranges(database: Database, table: str, column: str, size: int) -> AsyncIterator[KeyRange]:
    """A whole table by an indexed *column*, in ranges of about *size* rows; one at least."""
    step = await database.read(next_range, table, column, size, None)
    while step is not None:
        yield step
        step = await database.read(next_range, table, column, size, step)


# -- columns of short values -----------------------------------------------------------------------------
# Thousands of short values of a query arrive as one text for each column. For 12,000 ids that takes a fifth
# of the time of rows.


def texts(
    db: Rows, query: str, names: Sequence[str], parameters: Sequence[SqlValue] = ()
) -> list[Sequence[str]]:
    """The named columns of a query, in its order; numbers as their digits, no value as an empty text.

    With a comma in a value the rows are read after all: then there are more parts than rows.
    """
    joined = ", ".join(f"group_concat(ifnull({name}, ''))" for name in names)
    [(number, *found)] = db.tuples(f"SELECT count(*), {joined} FROM ({query})", parameters)
    if not number:
        return [() for _ in names]
    columns: list[Sequence[str]] = [text.split(",") for text in found]
    if all(len(column) == number for column in columns):
        return columns
    given = ", ".join(f"CAST(ifnull({name}, '') AS TEXT)" for name in names)
    return list(zip(*db.tuples(f"SELECT {given} FROM ({query})", parameters), strict=True))


# -- what a shell may offer while a line is typed --------------------------------------------------------

Named: TypeAlias = Literal["conversation", "session key", "summary", "brief", "operation"]

#: Seconds that a person waits for, and rows that are looked at.
_MOST_SECONDS, _MOST_ROWS = 0.3, 500
#: Names that a shell takes as they are: what a database holds is foreign.
_PLAIN: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)
_LONGEST: Final = 60
_SQL: Final[Mapping[Named, str]] = {
    "conversation": "SELECT * FROM conversations ORDER BY conversation_id DESC LIMIT ?2",
    "session key": "SELECT * FROM conversations WHERE session_key BETWEEN ?1 AND ?1 || char(1114111) "
    "ORDER BY conversation_id DESC LIMIT ?2",
    "summary": "SELECT * FROM summaries WHERE summary_id BETWEEN ?1 AND ?1 || char(1114111) LIMIT ?2",
    "brief": "SELECT * FROM focus_briefs ORDER BY rowid DESC LIMIT ?2",
    "operation": "SELECT id, title FROM lcm_tui_operations ORDER BY rowid DESC LIMIT ?2",
}
#: The column that names each, and those of which the first with a text describes it.
_COLUMNS: Final[Mapping[Named, tuple[str, tuple[str, ...]]]] = {
    "conversation": ("conversation_id", ("title", "session_key", "session_id")),
    "session key": ("session_key", ("title",)),
    "summary": ("summary_id", ("content",)),
    "brief": ("brief_id", ("prompt",)),
    "operation": ("id", ("title",)),
}


def names_in(path: Path, named: Named, beginning: str) -> list[tuple[str, str]]:
    """Names of a database that begin so, each with a description; none where that would take long.

    No file is made or changed, and nothing is said of one that cannot be read.
    """
    try:
        way = choose_way(path)
        if way.access is Access.COPY:
            return []
        with closing(way.connect(_MOST_SECONDS)) as connection:
            end = time.monotonic() + _MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > end, 1_000)
            rows = connection.execute(_SQL[named], (beginning, _MOST_ROWS)).fetchall()
    except (LcmError, OSError, ValueError, sqlite3.Error):
        return []
    return list(dict(_described(rows, named, beginning)).items())


def _described(rows: list[sqlite3.Row], named: Named, beginning: str) -> Iterator[tuple[str, str]]:
    column, describing = _COLUMNS[named]
    for row in rows:
        name = str(row[column])
        if name.startswith(beginning) and _PLAIN.fullmatch(name):
            words = (str(row[one]) for one in describing if one in row.keys() and row[one])  # noqa: SIM118
            yield name, safe_line(next(words, "")[:_LONGEST])
