"""A host at work: another process that commits many times a second, by the engine's own rules.

``python -m benchmarks.writer FILE CONVERSATION RATE`` appends messages, their parts, their search rows and
their context items until its standard input is closed, and prints how many commits that were.
"""

from __future__ import annotations

import random
import select
import sqlite3
import sys
import time
from datetime import UTC, datetime

from benchmarks.passages import output, prose
from benchmarks.rows import MESSAGE_SQL, PART_SQL, Rows, Session

_MEAN_LENGTH = 1_500.0


def append(connection: sqlite3.Connection, rows: Rows, session: Session) -> None:
    """Commit one message of *session*, as the engine ingests it."""
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    own = (session.conversation_id,)
    connection.execute("BEGIN IMMEDIATE")
    (message_id,) = connection.execute("SELECT max(message_id) + 1 FROM messages").fetchone()
    (session.seq,) = connection.execute(
        "SELECT max(seq) FROM messages WHERE conversation_id = ?", own
    ).fetchone()
    row, parts = rows.message(session, message_id, at)
    connection.execute(MESSAGE_SQL, row)
    connection.executemany(PART_SQL, parts)
    connection.execute("INSERT INTO messages_fts (rowid, content) VALUES (?, ?)", (message_id, row[4]))
    connection.execute(
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, created_at)
        SELECT ?, coalesce(max(ordinal), -1) + 1, 'message', ?, ? FROM context_items
        WHERE conversation_id = ?""",
        (*own, message_id, at, *own),
    )
    connection.execute("COMMIT")


def main(path: str, conversation_id: int, rate: float) -> int:
    """Commit *rate* times a second until standard input ends; returns how often."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").fetchone()
    seed = time.time_ns()
    rows = Rows(random.Random(seed), prose(random.Random(seed + 1)), output(random.Random(seed + 2)))
    (session_id,) = connection.execute(
        "SELECT session_id FROM conversations WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    session = Session(conversation_id, session_id, _MEAN_LENGTH, call=(f"toolu_01{seed:022x}", "exec"))
    commits, next_at = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, next_at - time.monotonic()))[0]:
        append(connection, rows, session)
        commits += 1
        next_at += 1 / rate
    connection.close()
    return commits


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
