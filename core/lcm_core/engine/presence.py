"""The connection that a host keeps for as long as it runs."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from lcm_core.store.guard import undisturbed
from lcm_core.store.opening import real_path


class Presence:
    """Keeps the WAL of a database there: with it, readers take SQLite's locks and see whole states.

    Else each commit would be the last to close the file, and write its pages under those who read without a
    lock (`lcm_core.store.opening.Access.IMMUTABLE`).
    """

    def __init__(self, path: Path) -> None:
        self._path = real_path(path)
        self._connection: sqlite3.Connection | None = None

    def begin(self) -> None:
        """Open the file if it is a WAL file that can be written; blocks. Never raises: a commit says why."""
        with undisturbed(self._path), contextlib.suppress(sqlite3.Error):
            connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                self.end()

    def end(self) -> None:
        """Close it; the last to do so writes the WAL into the file and removes it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
