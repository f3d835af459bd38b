"""What tests of changes share: the rows of a database, its search tables against their base, plain checks."""

from __future__ import annotations

import asyncio
import hashlib
import marshal
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from pathlib import Path
from typing import Any, TypeVar

from lcm_core.api import Database, Plan, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.place import Listing, splice_at
from lcm_core.change.plan import Cells, RowChange, deletion, key_of, ref_of
from lcm_core.change.preview import preview_plan
from lcm_core.change.schema import allow_unknown_schema

from tests.databases import column, connect

REAL = ("0.1.2", "0.3.0", "0.8.2", "0.15.3")
SEARCH = ("messages_fts", "summaries_fts", "summaries_fts_cjk")

Rows = dict[str, list[bytes]]
T = TypeVar("T")


def allowed(act: Callable[[], T]) -> T:
    """What *act* gives once the operator has allowed schemas that are not known."""
    context = copy_context()
    context.run(allow_unknown_schema, True)
    return context.run(act)


#: What `dump` has read, by the bytes of the file: most tests compare a file that a refusal has left alone.
_dumped: dict[bytes, Rows] = {}


def dump(path: Path) -> Rows:
    """Sorted rows of every table by column name, with types (docs/spec/decisions.md, "A change is a value").

    They are shared with whoever asks for those of the same bytes.
    """
    if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
        return _dump(path)
    content = hashlib.sha256(path.read_bytes()).digest()
    if content not in _dumped:
        if len(_dumped) == 16:
            del _dumped[next(iter(_dumped))]
        _dumped[content] = _dump(path)
    return _dumped[content]


def _dump(path: Path) -> Rows:
    with connect(path) as connection:
        tables = [
            name
            for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
            if name != "sqlite_sequence"
            and not name.startswith(("lcm_tui_", *SEARCH))
            and not str(sql).upper().startswith("CREATE VIRTUAL")
        ]
        return {table: _rows(connection, table) for table in tables}


def _rows(connection: sqlite3.Connection, table: str) -> list[bytes]:
    """The rows, packed with the names of their columns: 1 is not 1.0, as it is to Python itself."""
    names = sorted(column[0] for column in connection.execute(f'SELECT * FROM "{table}" LIMIT 0').description)
    columns = ", ".join(f'"{name}"' for name in names)
    # Version 2 packs equal values alike; later ones refer to what is shared.
    found = _read(connection, f'SELECT {columns} FROM "{table}" NOT INDEXED')
    return sorted(marshal.dumps((columns, *row), 2) for row in found)


def _read(connection: sqlite3.Connection, query: str) -> list[tuple[object, ...]]:
    decode = connection.text_factory
    connection.text_factory = str  # a function of Python is called for every text
    try:
        return connection.execute(query).fetchall()
    except sqlite3.OperationalError:  # a text that is no UTF-8
        connection.text_factory = decode
        return connection.execute(query).fetchall()
    finally:
        connection.text_factory = decode


def unpacked(row: bytes) -> dict[str, object]:
    """A row of `dump` by column name."""
    columns, *values = marshal.loads(row)
    return dict(zip(columns.strip('"').split('", "'), values, strict=True))


def changed(before: Rows, after: Rows) -> set[str]:
    """The tables whose rows differ."""
    return {table for table in before.keys() | after.keys() if before.get(table) != after.get(table)}


def beside(path: Path) -> set[str]:
    """The names of the files in the folder of a database, its own with them."""
    return {entry.name for entry in path.parent.iterdir()}


def sources(path: Path, summary: str) -> list[str]:
    """What a condensed summary was made from, in order."""
    sql = "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal"
    return column(path, sql, summary)


def context_of(path: Path, conversation_id: int) -> list[tuple[int, int | str]]:
    """Ordinals and what stands there."""
    with connect(path) as connection:
        return connection.execute(
            """SELECT ordinal, coalesce(summary_id, message_id) FROM context_items
            WHERE conversation_id = ? ORDER BY ordinal""",
            (conversation_id,),
        ).fetchall()


def dissolvable(path: Path) -> list[tuple[int, str]]:
    """Conversation and id of every condensed summary in a context."""
    with connect(path) as connection:
        return connection.execute(
            """SELECT c.conversation_id, s.summary_id FROM context_items AS c
            JOIN summaries AS s ON s.summary_id = c.summary_id
            WHERE s.kind = 'condensed' ORDER BY c.conversation_id, c.ordinal"""
        ).fetchall()


async def planned(path: Path, plan: Callable[..., Awaitable[Plan]], *args: object, **kwargs: object) -> Plan:
    """What an operation plans on a database."""
    async with await Database.open(path) as database:
        return await database.read(plan, *args, **kwargs)


def undo(path: Path, operation: str):
    """Take an operation back."""
    return commit(path, asyncio.run(planned(path, plan_undo, operation)))


def previewed(path: Path, plan: Plan):
    """What a person sees before the commit."""
    return asyncio.run(reading(path, lambda reader: preview_plan(reader, plan)))


async def reading(path: Path, load) -> Any:
    """What *load* reads."""
    async with await Database.open(path) as database:
        return await database.read(load)


def search_faults(path: Path) -> list[str]:
    """Where search tables differ from what the engine of this schema would have written."""
    faults = []
    with connect(path) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        blanks = 0 if "conversation_bootstrap_state" in tables or "turn_advancements" in tables else 1
        missing = """SELECT m.message_id FROM messages AS m
            LEFT JOIN messages_fts AS f ON f.rowid = m.message_id
            WHERE f.content IS NOT m.content AND (? OR trim(m.content, char(9, 10, 13, 32)) <> '')"""
        faults += [f"message {row[0]} is stale" for row in connection.execute(missing, (blanks,))]
        extra = """SELECT f.rowid FROM messages_fts AS f LEFT JOIN messages AS m ON m.message_id = f.rowid
            WHERE m.message_id IS NULL OR (NOT ? AND trim(m.content, char(9, 10, 13, 32)) = '')"""
        faults += [f"search row {row[0]} is extra" for row in connection.execute(extra, (blanks,))]
        for table in tables & {"summaries_fts", "summaries_fts_cjk"}:
            base, held = (
                sorted(connection.execute(f"SELECT summary_id, content FROM {name}"))
                for name in ("summaries", table)
            )
            faults += [f"{table} differs in {row[0]}" for row in set(base) ^ set(held)]
            if len(base) != len(held):
                faults.append(f"{table} holds {len(held)} rows for {len(base)}")
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    return faults


def only(path: Path, conversation_id: int) -> Path:
    """Leave a single conversation in a database, so that its rows are compared in no time."""
    other = f"SELECT message_id FROM messages WHERE conversation_id <> {conversation_id}"
    summaries = f"SELECT summary_id FROM summaries WHERE conversation_id <> {conversation_id}"
    with connect(path) as connection:
        connection.execute("BEGIN")
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in ("summaries_fts", "summaries_fts_cjk", "summary_messages", "summary_parents"):
            if table in tables:
                connection.execute(f"DELETE FROM {table} WHERE summary_id IN ({summaries})")
        connection.execute(f"DELETE FROM messages_fts WHERE rowid IN ({other})")
        connection.execute(f"DELETE FROM message_parts WHERE message_id IN ({other})")
        if "focus_briefs" in tables:
            briefs = f"SELECT brief_id FROM focus_briefs WHERE conversation_id <> {conversation_id}"
            connection.execute(f"DELETE FROM focus_brief_sources WHERE brief_id IN ({briefs})")
        for table in tables:
            names = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
            if "conversation_id" in names:
                connection.execute(f"DELETE FROM {table} WHERE conversation_id <> {conversation_id}")
        connection.execute("COMMIT")
        connection.execute("VACUUM")
    return path


# -- plans by hand ---------------------------------------------------------------------------------------


def row_of(path: Path, table: str, key: str, wanted: object) -> Cells:
    """A whole row."""
    with connect(path) as connection:
        connection.row_factory = sqlite3.Row
        [row] = connection.execute(f"SELECT * FROM {table} WHERE {key} IS ?", (wanted,)).fetchall()
        return Cells.of(dict(row))


def rows_of(path: Path, sql: str, *parameters: object) -> list[Cells]:
    """Some whole rows."""
    with connect(path) as connection:
        connection.row_factory = sqlite3.Row
        return [Cells.of(dict(row)) for row in connection.execute(sql, parameters)]


def item_row(conversation_id: int, ref) -> Cells:
    """A row for a context, without an ordinal."""
    return Cells.of(
        {
            "conversation_id": conversation_id,
            "item_type": "summary" if isinstance(ref, str) else "message",
            "message_id": None if isinstance(ref, str) else ref,
            "summary_id": ref if isinstance(ref, str) else None,
            "created_at": "2026-03-06 12:00:00",
        }
    )


def listing_of(path: Path, conversation_id: int) -> tuple[Listing, list[Cells]]:
    """A context to plan on, and its whole rows."""
    rows = rows_of(
        path, "SELECT * FROM context_items WHERE conversation_id = ? ORDER BY ordinal", conversation_id
    )
    return Listing.of([(row["ordinal"], ref_of(row)) for row in rows]), rows


def splice(path: Path, conversation_id: int, start: int, count: int, *refs):
    """*count* items from place *start* on give way to others."""
    listing, rows = listing_of(path, conversation_id)
    new = [item_row(conversation_id, ref) for ref in refs]
    return splice_at(listing, conversation_id, start, rows[start : start + count], new)


def plan_of(*edits, allows: Iterable[str] = (), conversation_id: int | None = 1) -> Plan:
    """A plan without a story."""
    return Plan("test", "A test", conversation_id, edits, allows=frozenset(allows))


def delete(path: Path, table: str, **key: object) -> tuple[RowChange, ...]:
    """The deletion of all rows with some values."""
    where = " AND ".join(f"{name} IS ?" for name in key)
    rows = rows_of(path, f"SELECT * FROM {table} WHERE {where}", *key.values())
    return tuple(deletion(table, row) for row in rows)


def update(path: Path, table: str, key: str, wanted: object, **after) -> RowChange:
    """A change of some columns of one row."""
    row = row_of(path, table, key, wanted)
    return RowChange(
        table,
        key_of(table, row),
        Cells.of({name: row[name] for name in after}),
        Cells.of(after),
    )


def summary_row(path: Path, summary_id: str, **changed) -> Cells:
    """A summary like the first of the file, but for some columns."""
    row = rows_of(path, "SELECT * FROM summaries ORDER BY rowid LIMIT 1")[0]
    return row.but(summary_id=summary_id, **changed)
