"""The connection that an `Engine` keeps open while its host runs."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from pathlib import Path

from lcm_core.base.errors import LcmError
from lcm_core.change.connection import check_beside
from lcm_core.store.opening import connect_writing, real_path, undisturbed


class OpenConnection:
    """Is kept as long as a host runs, and with it the WAL: readers take SQLite's locks and see whole states.

    Else each commit would be the last to close the file, and write its pages under those who read without a
    lock (`lcm_core.store.opening.Access.IMMUTABLE`).
    """

    def __init__(self, path: Path) -> None:
        self._path = real_path(path)
        self._connection: sqlite3.Connection | None = None
        self._ended = False
        self._turn = threading.Lock()  #: `end` may be called while `begin` runs, or before it does

    def begin(self) -> None:
        """Open the file if it is a WAL file that can be written; blocks. Never raises: a commit says why.

        Of a file that it may not write SQLite would leave a WAL that its owner cannot write.
        """
        if not os.access(self._path, os.W_OK):
            return
        try:
            check_beside(self._path)
        except LcmError:
            return
        with undisturbed(self._path), self._turn, contextlib.suppress(sqlite3.Error):
            if self._ended:
                return
            self._connection = connect_writing(self._path, 5.0, any_thread=True)
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if self._connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                self._close()

    def end(self) -> None:
        """Close it; the last to do so writes the WAL into the file and removes it."""
        with self._turn:
            self._ended = True
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
