"""Puts values into the tables of a database that their columns do not promise, constraints or not."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.databases import connect, query

#: SQL of values that no engine writes where they are put, by a name for failures.
VALUES: Mapping[str, str] = {
    "null": "NULL",
    "blob": "X'00FF01414243'",
    "empty blob": "X''",
    "text": "'no number'",
    "number in text": "'12abc'",
    "empty text": "''",
    "greatest": "9223372036854775807",
    "least": "-9223372036854775808",
    "negative": "-1",
    "infinite": "9e999",
    "infinite below": "-9e999",
    "real": "1e300",
    "half": "0.5",
    "not a number": "'NaN'",
    "infinite in text": "'Infinity'",
    "digits": f"'{'9' * 5000}'",
    "invalid": "CAST(X'61FF80EDA080C3' AS TEXT)",
    "with NUL": "CAST(X'610062' AS TEXT)",
    "first year": "'0000-00-00 00:00:00'",
    "last year": "'9999-12-31T23:59:59.999Z'",
    "no such day": "'2026-02-31T25:61:61.000Z'",
    "far offset": "'0001-01-01T00:00:00+14:00'",
    "deep JSON": f"'{'[' * 3000}'",
    "deep object": f"""'{'{"raw":' * 3000}'""",
    "JSON of no type": """'{"raw":{"type":5,"text":7,"id":[],"name":{},"content":{"a":1}}}'""",
    "JSON list": "'[1,null,{},\"x\"]'",
    "JSON null": "'null'",
    "half a character": """'{"raw":{"type":"text","text":"\\ud800"},"a":"\\udc00"}'""",
}


@dataclass(frozen=True, slots=True)
class Place:
    """One column of a table."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


def places(path: Path) -> list[Place]:
    """Every column of every table with rows, those of search tables and their shadows left out."""
    with connect(path) as database:
        return [
            Place(table, column)
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if "_fts" not in table and not table.startswith("sqlite_")
            if database.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]
            for (column,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        ]


def plant(path: Path, place: Place, value: str, *, row: int = 0) -> bool:
    """Put the SQL *value* into one row; whether SQLite could be brought to take it.

    *row* counts the rows from the middle of those that belong to the fullest conversation.
    """
    with _unguarded(path) as database:
        return put(database, place, value, row)


def sprinkle(path: Path, table: str, value: str) -> int:
    """Put the SQL *value* into every column of a table, each in a row of its own; how many took it."""
    chosen = [place for place in places(path) if place.table == table]
    with _unguarded(path) as database:
        return sum(put(database, place, value, number) for number, place in enumerate(chosen))


def fullest(path: Path) -> int:
    """The conversation with most summaries and messages."""
    [(found,)] = query(path, _FULLEST)
    return int(found)


_FULLEST = """SELECT c.conversation_id FROM conversations AS c ORDER BY
    (SELECT count(*) FROM summaries AS s WHERE s.conversation_id = c.conversation_id) DESC,
    (SELECT count(*) FROM messages AS m WHERE m.conversation_id = c.conversation_id) DESC LIMIT 1"""


def put(database: sqlite3.Connection, place: Place, value: str, row: int) -> bool:
    """`plant` on an open connection that checks nothing."""
    table, column = place.table, place.column
    columns = {name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    where = "1"
    if "conversation_id" in columns:
        where = f"conversation_id = ({_FULLEST})"
    elif "message_id" in columns:
        where = f"message_id IN (SELECT message_id FROM messages WHERE conversation_id = ({_FULLEST}))"
    rows = [one for (one,) in database.execute(f"SELECT rowid FROM {table} WHERE {where} ORDER BY rowid")]
    rows = rows or [one for (one,) in database.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
    if not rows:
        return False
    rowid = rows[(len(rows) // 2 + row) % len(rows)]
    try:
        database.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = ?", (rowid,))
    except sqlite3.Error:  # the alias of the rowid, or a unique key that is there already
        return False
    return True


@contextmanager
def _unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to which no column is NOT NULL or checked; the schema is put back afterwards."""
    with connect(path) as database:
        for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON", "synchronous = OFF"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("PRAGMA writable_schema = ON")
        tables = database.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%NOT NULL%'"
        ).fetchall()
        _write_schema(
            database, {name: re.sub(r"(?<!IS )NOT\s+NULL", "", sql, flags=re.I) for name, sql in tables}
        )
        yield database
        _write_schema(database, dict(tables))


def _write_schema(database: sqlite3.Connection, statements: Mapping[str, str]) -> None:
    for name, sql in statements.items():
        database.execute("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (sql, name))
    database.execute("PRAGMA writable_schema = RESET")
    database.execute("PRAGMA writable_schema = ON")
