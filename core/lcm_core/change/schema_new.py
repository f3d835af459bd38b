"""Makes a new, empty database with the present schema (docs/format.md, "The file itself" and "Tables")."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from lcm_core.change.connection import Writer, explained, open_writer
from lcm_core.change.errors import ReadOnlyError
from lcm_core.change.schema_new_tables import INDEXES, MIGRATION_STEPS, SEARCH_TABLES, TABLES
from lcm_core.errors import RefusedError
from lcm_core.store.guard import undisturbed

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def create_database(path: Path) -> None:
    """Make the file, private to its user, in WAL mode; blocks. What goes wrong leaves no file.

    Raises:
        RefusedError: something lies there already.
        ReadOnlyError: its folder is missing or cannot be written.
        DatabaseError: SQLite refused.
    """
    try:
        os.close(os.open(path, _NEW, 0o600))
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already: nothing is made in its place.") from error
    except OSError as error:
        raise ReadOnlyError(
            f"{path} cannot be made ({error.strerror or error}): check that its folder is there and that "
            "you may write to it."
        ) from error
    try:
        with undisturbed(path), open_writer(path, 5.0) as writer:
            writer.execute("PRAGMA journal_mode = WAL")
            writer.begin()
            for statement in (*TABLES, *INDEXES):
                writer.execute(statement.sql)
            add_search_tables(writer, frozenset())
            for step, version in MIGRATION_STEPS:
                writer.execute(
                    "INSERT INTO lcm_migration_state (step_name, algorithm_version) VALUES (?, ?)",
                    (step, version),
                )
            writer.commit()
    except BaseException as error:
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{path}{ending}")
        if isinstance(error, sqlite3.Error):
            raise explained(error, path, 0.0) from error
        raise


def add_search_tables(writer: Writer, present: frozenset[str]) -> tuple[str, ...]:
    """Make those search tables that are not *present* and that this SQLite can; which were made.

    Full-text search is optional: an engine without it looks with LIKE (docs/engine/search.md, "Tables").
    """
    made = []
    for table in SEARCH_TABLES:
        if table.name in present:
            continue
        try:
            writer.execute("SAVEPOINT search_table")
            writer.execute(table.sql)
        except sqlite3.OperationalError:
            writer.execute("ROLLBACK TO search_table")
        else:
            made.append(table.name)
        writer.execute("RELEASE search_table")
    return tuple(made)
