"""A database that is read as it was at a point: the same queries, over the rows of then."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Lock

from lcm_core.past.overlay import lay_over, lift
from lcm_core.past.point import Point
from lcm_core.past.reading import Found, Read, read_past
from lcm_core.records import ConversationId
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Database
from lcm_core.store.schema import Schema

#: How often the rows of then are computed at most while another process writes to the file.
TRIES = 3


class Past:
    """One conversation at a point, which may be moved; what its connections show of the database."""

    def __init__(self, conversation_id: ConversationId, point: Point) -> None:
        self.conversation_id = conversation_id
        self.found: Found | None = None  #: what was worked out last
        self._point = (point, 0)
        self._read: Read = {}
        self._lock = Lock()  #: over `_laid`
        self._laid: dict[sqlite3.Connection, tuple[int, int]] = {}

    @property
    def point(self) -> Point:
        """The moment that is shown."""
        return self._point[0]

    def go(self, point: Point) -> None:
        """Show another moment from the next read on."""
        self._point = (point, self._point[1] + 1)

    async def open(self, path: Path, *, busy_seconds: float = 5.0) -> Database:
        """Open *path* so that whatever is read of it is as it was.

        Raises:
            DatabaseError: as `Database.open`.
        """
        return await Database.open(path, busy_seconds=busy_seconds, arrange=self.arrange)

    def arrange(self, connection: sqlite3.Connection, rows: Rows, schema: Schema) -> None:
        """Lay the rows of then over a connection that has begun a transaction, unless they are there already.

        Raises:
            LcmError: there is no such point.
            sqlite3.Error: the file cannot be read.
        """
        for _ in range(TRIES):
            point, number = self._point
            [version] = connection.execute("PRAGMA data_version").fetchone()
            if self._laid.get(connection) == (number, version):
                return
            lift(connection)
            found = read_past(rows, schema.tables, self.conversation_id, point, self._read)
            lay_over(connection, schema, found.earlier, found.cut.taken)
            self.found = found
            # Temporary tables last only when committed, and then another process may write.
            connection.execute("COMMIT")
            connection.execute("BEGIN")
            with self._lock:
                self._laid[connection] = (number, version)
