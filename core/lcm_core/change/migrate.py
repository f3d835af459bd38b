"""Brings an old database to the present schema, as the engine's own migrations do.

Source: docs/engine/versions.md, "Features".

Additive only: tables, columns, indexes and search tables are made, and what their rows would hold is worked
out. One transaction; nothing of it is journaled, the way back is the backup that is made before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lcm_core.change.catalog import read_catalog
from lcm_core.change.connection import Writer, open_writer
from lcm_core.change.copying import Stop
from lcm_core.change.migrate_rows import ROW_STEPS
from lcm_core.change.schema_new import add_search_tables
from lcm_core.change.schema_new_tables import (
    INDEXES,
    MIGRATION_STEPS,
    OBSOLETE_INDEXES,
    SEARCH_TABLES,
    TABLES,
    Index,
    Table,
)
from lcm_core.change.search_index import MESSAGES, indexed_text
from lcm_core.engine_rules import engine_rules
from lcm_core.errors import RefusedError
from lcm_core.store.database import Reader
from lcm_core.store.guard import undisturbed
from lcm_core.store.schema import Schema

#: Rows of a search table that are written at a time.
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Migration:
    """What a file lacks of the present schema."""

    version: str  #: of the engine that left it, for people
    tables: tuple[str, ...]
    columns: tuple[str, ...]  #: ``table.column``, of tables that are there
    indexes: tuple[str, ...]
    search_tables: tuple[str, ...]
    dropped: tuple[str, ...]  #: indexes that forbid what is allowed now
    steps: tuple[str, ...]  #: backfills of the engine that have not run

    def __bool__(self) -> bool:
        return any((self.tables, self.columns, self.indexes, self.dropped, self.steps))


@dataclass(frozen=True, slots=True)
class Migrated:
    """A migration that was carried out."""

    migration: Migration
    search_tables: tuple[str, ...]  #: that were made; this SQLite may not know their tokenizer
    rows: tuple[tuple[str, int], ...]  #: what was worked out, and in how many rows


async def plan_migration(reader: Reader) -> Migration:
    """What *reader*'s file lacks; nothing is written.

    Raises:
        RefusedError: the 1.0 line wrote it, which has another schema.
    """
    rows = await reader.rows("SELECT name FROM sqlite_master WHERE type = 'index'")
    steps = []
    if reader.schema.has("lcm_migration_state"):
        steps = await reader.rows("SELECT step_name, algorithm_version FROM lcm_migration_state")
    return _lacking(
        reader.schema, frozenset(row[0] for row in rows), frozenset((row[0], row[1]) for row in steps)
    )


def migrate(path: Path, *, wait: float = 5.0, stopped: Stop | None = None) -> Migrated:
    """Bring the file to the present schema in one transaction; blocks. Make a backup before.

    *stopped* says whether to give it up; it is asked until the lock is ours.

    Raises:
        CancelledError: *stopped* said so.
        RefusedError: there is nothing to do, the 1.0 line wrote it, or rows stand in the way of an index.
        BusyError: another process kept the lock for *wait* seconds.
        DatabaseError: it cannot be written; then it is as it was.
    """
    with undisturbed(path, wait), open_writer(path, wait, stopped) as writer:
        writer.begin()
        catalog = read_catalog(writer)
        indexes = frozenset(
            row[0] for row in writer.rows("SELECT name FROM sqlite_master WHERE type = 'index'")
        )
        migration = _lacking(catalog.schema, indexes, _steps_done(writer, catalog.schema))
        if not migration:
            raise RefusedError(f"{path} has the present schema: there is nothing to do.")
        _add_tables(writer, catalog.schema)
        for name in migration.dropped:
            writer.execute(f"DROP INDEX {name}")
        rows = tuple((name, count) for name, step in ROW_STEPS if (count := step(writer)))
        _add_indexes(writer, indexes)
        made = add_search_tables(writer, frozenset(catalog.schema.tables))
        for table in made:
            _fill(writer, table)
        for step, version in MIGRATION_STEPS:
            writer.execute(
                "INSERT OR IGNORE INTO lcm_migration_state (step_name, algorithm_version) VALUES (?, ?)",
                (step, version),
            )
        writer.commit()
    return Migrated(migration, made, rows)


def _lacking(schema: Schema, indexes: frozenset[str], steps: frozenset[tuple[str, int]]) -> Migration:
    if schema.is_beta:
        raise RefusedError(
            "The 1.0 line of the engine wrote this file; its schema is another one and is left alone.",
            code="NOT_MIGRATED",
        )
    return Migration(
        schema.version,
        tuple(table.name for table in TABLES if not schema.has(table.name)),
        tuple(_missing_columns(schema)),
        tuple(index.name for index in INDEXES if index.name not in indexes),
        tuple(table.name for table in SEARCH_TABLES if not schema.has(table.name)),
        tuple(name for name in OBSOLETE_INDEXES if name in indexes),
        tuple(step for step, version in MIGRATION_STEPS if (step, version) not in steps),
    )


def _missing_columns(schema: Schema) -> Iterator[str]:
    for table in TABLES:
        if schema.has(table.name):
            for column, _ in table.columns:
                if not schema.has(table.name, column):
                    yield f"{table.name}.{column}"


def _steps_done(writer: Writer, schema: Schema) -> frozenset[tuple[str, int]]:
    if not schema.has("lcm_migration_state"):
        return frozenset()
    rows = writer.rows("SELECT step_name, algorithm_version FROM lcm_migration_state")
    return frozenset((row[0], row[1]) for row in rows)


def _add_tables(writer: Writer, schema: Schema) -> None:
    for table in TABLES:
        if not schema.has(table.name):
            writer.execute(table.sql)
            continue
        for column, definition in table.columns:
            if not schema.has(table.name, column):
                _add_column(writer, table, column, definition)


def _add_column(writer: Writer, table: Table, column: str, definition: str) -> None:
    """Add a column; a clock as default is not allowed of one that is added."""
    constant = definition.replace("DEFAULT (datetime('now'))", "DEFAULT '1970-01-01 00:00:00'")
    writer.execute(f"ALTER TABLE {table.name} ADD COLUMN {column} {constant}")


def _add_indexes(writer: Writer, present: frozenset[str]) -> None:
    for index in INDEXES:
        if index.name in present:
            continue
        try:
            writer.execute(index.sql)
        except sqlite3.IntegrityError as error:
            raise RefusedError(_in_the_way(index)) from error


def _in_the_way(index: Index) -> str:
    return (
        f"Several rows of {index.table} are the same in {', '.join(index.columns)}, which the present schema "
        "forbids. Nothing was changed: `lcm-tui doctor` shows them; mend them, then migrate."
    )


def _fill(writer: Writer, table: str) -> None:
    """Write a search table that was just made."""
    if table != MESSAGES:
        writer.execute(f"INSERT INTO {table} (summary_id, content) SELECT summary_id, content FROM summaries")
        return
    rules, last = engine_rules(read_catalog(writer).schema).search, 0
    while rows := writer.rows(
        "SELECT message_id, content FROM messages WHERE message_id > ? ORDER BY message_id LIMIT ?",
        (last, _PAGE),
    ):
        for row in rows:
            text = indexed_text(row["content"], rules)
            if text is not None:
                writer.execute(
                    "INSERT INTO messages_fts (rowid, content) VALUES (?, ?)", (row["message_id"], text)
                )
        last = rows[-1]["message_id"]
