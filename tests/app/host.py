"""A host of the engine in a process of its own, which writes to a database while the app shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_PROGRAM = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
print(json.dumps(database.execute("PRAGMA journal_mode = WAL").fetchone()), flush=True)
for line in sys.stdin:
    try:
        database.execute("BEGIN IMMEDIATE")
        rows = [database.execute(sql, values).fetchall() for sql, values in json.loads(line)]
        database.execute("COMMIT")
        print(json.dumps(rows), flush=True)
    except sqlite3.Error as error:
        print(json.dumps({"error": str(error)}), flush=True)
        break
database.close()
"""


class Host:
    """Writes transactions as the engine does; its WAL stays as long as it is open."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, *statements: tuple[str, list[object]]) -> list[list[list[Any]]]:
        """Run statements in one transaction; the rows of each."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statements) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def say(self, conversation_id: int, text: str, role: str = "user") -> int:
        """Append a message to a conversation and to its context; its id."""
        [[[message_id]]] = self.write(
            (
                """INSERT INTO messages (conversation_id, seq, role, content, token_count)
                SELECT ?, coalesce(max(seq), 0) + 1, ?, ?, 5 FROM messages WHERE conversation_id = ?
                RETURNING message_id""",
                [conversation_id, role, text, conversation_id],
            )
        )
        self.write(
            (
                """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
                SELECT ?, coalesce(max(ordinal), -1) + 1, 'message', ? FROM context_items
                WHERE conversation_id = ?""",
                [conversation_id, message_id, conversation_id],
            )
        )
        return int(message_id)

    def close(self) -> None:
        """Leave the database, as the last one: its WAL goes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(20) == 0
        self._process.stdout.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert not isinstance(answer, dict), answer
        return answer
