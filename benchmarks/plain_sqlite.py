"""The same rows without an app: what opening the file and reading the first page costs sqlite3."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from statistics import median

from benchmarks.generate import LARGEST

_PAGE = 50

#: The queries behind the first page of each screen, by the names that views.py uses.
QUERIES: dict[str, tuple[str, ...]] = {
    "conversation list": (
        """SELECT c.*, (SELECT created_at FROM messages AS m WHERE m.conversation_id = c.conversation_id
        ORDER BY seq DESC LIMIT 1) AS newest FROM conversations AS c ORDER BY newest DESC""",
    ),
    "conversation": (
        f"SELECT * FROM messages WHERE conversation_id = {LARGEST} ORDER BY seq DESC LIMIT {_PAGE}",
        f"""SELECT p.* FROM message_parts AS p WHERE message_id IN (SELECT message_id FROM messages
        WHERE conversation_id = {LARGEST} ORDER BY seq DESC LIMIT {_PAGE}) ORDER BY message_id, ordinal""",
    ),
    "summary DAG": (
        f"""SELECT summary_id, kind, depth, created_at FROM summaries AS s WHERE conversation_id = {LARGEST}
        AND NOT EXISTS (SELECT 1 FROM summary_parents AS e WHERE e.parent_summary_id = s.summary_id)""",
    ),
    "context": (
        f"""SELECT ordinal, item_type, message_id, summary_id FROM context_items
        WHERE conversation_id = {LARGEST} ORDER BY ordinal""",
        f"""SELECT m.* FROM context_items AS i JOIN messages AS m USING (message_id)
        WHERE i.conversation_id = {LARGEST} ORDER BY ordinal DESC LIMIT {_PAGE}""",
    ),
}


def times(path: Path, repeats: int = 5) -> dict[str, float]:
    """Seconds to open *path* and read the first page of each screen: the median of *repeats*."""
    return {name: median(_once(path, queries) for _ in range(repeats)) for name, queries in QUERIES.items()}


def _once(path: Path, queries: tuple[str, ...]) -> float:
    start = time.perf_counter()
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)
    try:
        for query in queries:
            connection.execute(query).fetchall()
    finally:
        connection.close()
    return time.perf_counter() - start
