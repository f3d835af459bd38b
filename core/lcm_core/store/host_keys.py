"""Auth profiles that newer hosts keep in SQLite files, read as best we can (docs/host.md, "Credentials")."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from lcm_core.errors import DatabaseError
from lcm_core.store.opening import Access, choose_way

#: A host that writes is not waited for longer than that. s
_WAIT: Final = 0.5
#: What is read, by table and column: profiles, and the order in which they are used.
_DOCUMENTS: Final = (("auth_profile_store", "store_json"), ("auth_profile_state", "state_json"))


def profile_documents(path: Path) -> tuple[str, ...]:
    """The JSON documents about auth profiles in a host's own database, profiles first; none is no mistake.

    The file is opened as a conversation database is (docs/decisions.md, "No trace"), so nothing is left
    beside it.

    Raises:
        DatabaseError: it cannot be read without leaving a trace, or at all.
    """
    way = choose_way(path)
    if way.access is Access.COPY:
        raise DatabaseError(f"{path} cannot be read while its -shm cannot.")
    try:
        with closing(way.connect(_WAIT)) as connection:
            return tuple(_documents(connection))
    except sqlite3.Error as error:
        raise DatabaseError(f"{path} cannot be read ({error}).") from None


def _documents(connection: sqlite3.Connection) -> list[str]:
    found: list[str] = []
    for table, column in _DOCUMENTS:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if column in names:
            rows = connection.execute(f"SELECT {column} FROM {table}")
            found += [row[0] for row in rows if isinstance(row[0], str)]
    return found
