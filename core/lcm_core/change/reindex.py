"""Rebuild search tables from messages and summaries. Not journaled: they hold nothing of their own."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lcm_core.change.catalog import read_catalog
from lcm_core.change.connection import Writer, open_writer
from lcm_core.change.copying import Stop, check_wanted, never
from lcm_core.change.plan import SqlValue
from lcm_core.change.search_index import MESSAGES, SUMMARIES, indexed_text
from lcm_core.change.verify import quoted
from lcm_core.engine_rules import engine_rules
from lcm_core.errors import RefusedError
from lcm_core.store.database import Reader, Row
from lcm_core.store.guard import undisturbed
from lcm_core.store.schema import Schema

#: Rows that are read and written at a time.
PAGE = 500


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A search table that was written anew."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class SearchTable:
    """A search table and what it is made from."""

    table: str
    source: str  #: the table whose rows it makes searchable
    rows: int  #: of that table


async def search_tables(reader: Reader) -> list[SearchTable]:
    """The search tables that this file has."""
    known = [(MESSAGES, "messages"), *((name, "summaries") for name in SUMMARIES)]
    return [
        SearchTable(table, source, await reader.value(f"SELECT count(*) FROM {source}"))
        for table, source in known
        if reader.schema.has(table)
    ]


def reindex(
    path: Path,
    tables: Iterable[str] | None = None,
    *,
    wait: float = 5.0,
    stopped: Stop = never,
) -> tuple[Rebuilt, ...]:
    """Write search tables anew, all that the file has or those named; each in a transaction of its own.

    The write lock is held while a table is rebuilt (about 20 s for a million messages). *stopped* says
    whether to give it up, while the lock is waited for and later: the table is then as it was.

    Raises:
        CancelledError: *stopped* said so.
        RefusedError: a table that this file does not have.
        BusyError, ReadOnlyError, DiskFullError, DatabaseError: as a commit does.
    """
    with undisturbed(path, wait), open_writer(path, wait, stopped) as writer:
        schema = read_catalog(writer).schema
        known = [name for name in (MESSAGES, *SUMMARIES) if schema.has(name)]
        wanted = known if tables is None else list(tables)
        for table in wanted:
            if table not in known:
                raise RefusedError(
                    f"This database has no search table {table}. It has {', '.join(known) or 'none'}."
                )
        return tuple(_rebuild(writer, schema, table, stopped) for table in wanted)


def _rebuild(writer: Writer, schema: Schema, table: str, stopped: Stop) -> Rebuilt:
    writer.begin()
    sql = writer.value("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    _drop(writer, table)
    writer.execute(sql)
    rows = 0
    entries = _messages(writer, schema) if table == MESSAGES else _summaries(writer)
    columns = "rowid, content" if table == MESSAGES else "summary_id, content"
    for key, text in entries:
        writer.execute(f"INSERT INTO {table} ({columns}) VALUES (?, ?)", (key, text))
        rows += 1
        if rows % PAGE == 0:
            check_wanted(stopped)
    writer.commit()
    return Rebuilt(table, rows)


def _drop(writer: Writer, table: str) -> None:
    """Drop a search table, also one whose module cannot open it any more."""
    with contextlib.suppress(sqlite3.DatabaseError):
        writer.execute(f"DROP TABLE {table}")
        return
    names = [f"{table}_{shadow}" for shadow in _SHADOWS]
    shadows = writer.rows_in("SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (?*)", names)
    writer.execute("PRAGMA writable_schema = ON")
    try:
        writer.execute("DELETE FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    finally:
        writer.execute("PRAGMA writable_schema = RESET")
    for row in shadows:
        writer.execute(f"DROP TABLE {quoted(row[0])}")


_SHADOWS = ("data", "idx", "content", "docsize", "config")


def _messages(writer: Writer, schema: Schema) -> Iterator[tuple[SqlValue, SqlValue]]:
    rules = engine_rules(schema).search
    for row in _pages(writer, "SELECT message_id AS place, content FROM messages WHERE message_id"):
        text = indexed_text(row["content"], rules)
        if text is not None:
            yield row["place"], text


def _summaries(writer: Writer) -> Iterator[tuple[SqlValue, SqlValue]]:
    for row in _pages(writer, "SELECT rowid AS place, summary_id, content FROM summaries WHERE rowid"):
        yield row["summary_id"], row["content"]


def _pages(writer: Writer, select: str) -> Iterator[Row]:
    """All rows of a table by the column that the query ends with."""
    first = -(2**63)
    while rows := writer.rows(f"{select} >= ? ORDER BY place LIMIT {PAGE}", (first,)):
        yield from rows
        if rows[-1]["place"] == 2**63 - 1:
            return
        first = rows[-1]["place"] + 1
