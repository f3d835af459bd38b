"""A host that writes: appends messages, compacts and prunes by the engine's own rules, in another process.

``python host.py DATABASE CONVERSATION COUNT SEED LOG``: every transaction is one line of JSON in LOG, with
how long it waited for the lock. After COUNT of them it goes on until its standard input ends: others may be
slower. It knows nothing of the code under test, and reads the same rows.
"""

from __future__ import annotations

import hashlib
import json
import random
import select
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any

#: Engine defaults, scaled down: messages that compaction may not touch, and what a leaf is made from.
TAIL, CHUNK, FANOUT = 32, 8, 4
NOW = "2026-03-06 12:00:00"
#: Transactions in a second, at most.
PER_SECOND = 50


class Host:
    """One conversation as its engine goes on with it."""

    def __init__(self, path: str, conversation: int, seed: int) -> None:
        self.connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.conversation = conversation
        self.random = random.Random(seed)
        self.made = 0
        tables = {row[0] for row in self.ask("SELECT name FROM sqlite_master")}
        self.search = [name for name in ("summaries_fts", "summaries_fts_cjk") if name in tables]

    def ask(self, sql: str, *parameters: object) -> list[Any]:
        return self.connection.execute(sql, parameters).fetchall()

    def items(self) -> list[tuple[int, int | None, str | None, int | None]]:
        return self.ask(
            """SELECT c.ordinal, c.message_id, c.summary_id, s.depth FROM context_items AS c
            LEFT JOIN summaries AS s ON s.summary_id = c.summary_id
            WHERE c.conversation_id = ? ORDER BY c.ordinal""",
            self.conversation,
        )

    def boundary(self, items: list[Any]) -> int:
        """The index of the first message of the fresh tail."""
        messages = [at for at, item in enumerate(items) if item[1] is not None]
        return messages[-TAIL] if len(messages) >= TAIL else (messages[0] if messages else len(items))

    # -- what it does ------------------------------------------------------------------------------------

    def append(self) -> dict[str, Any]:
        """A message with a part, at the end (docs/spec/format.md, "Numbering")."""
        [(seq,)] = self.ask("SELECT max(seq) FROM messages WHERE conversation_id = ?", self.conversation)
        text = f"message {seq + 1} of the host about ports, caches and retries"
        role = ("user", "assistant")[seq % 2]
        message = self.connection.execute(
            "INSERT INTO messages (conversation_id, seq, role, content, token_count) VALUES (?, ?, ?, ?, 12)",
            (self.conversation, seq + 1, role, text),
        ).lastrowid
        self.ask(
            """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content)
            VALUES (?, ?, 'host', 'text', 0, ?)""",
            f"part-{message}-{seq}",
            message,
            text,
        )
        [(last,)] = self.ask(
            "SELECT max(ordinal) FROM context_items WHERE conversation_id = ?", self.conversation
        )
        self.ask(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
            VALUES (?, ?, 'message', ?)""",
            self.conversation,
            0 if last is None else last + 1,
            message,
        )
        self.ask("INSERT INTO messages_fts (rowid, content) VALUES (?, ?)", message, text)
        return {"appended": message}

    def compact(self) -> dict[str, Any] | None:
        """A leaf from the oldest run of messages before the tail, or a condensation of equal depths."""
        items = self.items()
        items = items[: self.boundary(items)]
        start = next((at for at, item in enumerate(items) if item[1] is not None), None)
        if start is not None:
            run = items[start : start + CHUNK]
            run = run[: next((at for at, item in enumerate(run) if item[1] is None), len(run))]
            if len(run) == CHUNK:
                return self._summarise(run, "leaf", 0)
        for depth in sorted({item[3] for item in items if item[3] is not None}):
            for at in range(len(items) - FANOUT + 1):
                run = items[at : at + FANOUT]
                if all(item[3] == depth for item in run):
                    return self._summarise(run, "condensed", depth + 1)
        return None

    def prune(self) -> dict[str, Any] | None:
        """A message that no summary refers to goes for good; the ordinals of the others stay."""
        items = self.items()
        messages = [item[1] for item in items[self.boundary(items) :] if item[1] is not None]
        if len(messages) < 4:
            return None
        message = self.random.choice(messages[:-2])
        self.ask("DELETE FROM messages_fts WHERE rowid = ?", message)
        self.ask(
            "DELETE FROM context_items WHERE conversation_id = ? AND message_id = ?",
            self.conversation,
            message,
        )
        self.ask("DELETE FROM message_parts WHERE message_id = ?", message)
        self.ask("DELETE FROM messages WHERE message_id = ?", message)
        return {"pruned": message}

    def _summarise(self, run: list[Any], kind: str, depth: int) -> dict[str, Any]:
        """Summary, links, range gives way, everything is numbered anew (docs/spec/format.md, "Numbering")."""
        self.made += 1
        text = f"host summary {self.made} of depth {depth} about ports and caches"
        name = f"sum_{hashlib.sha256(f'{text}{self.random.random()}'.encode()).hexdigest()[:16]}"
        self.ask(
            """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count,
            created_at) VALUES (?, ?, ?, ?, ?, 20, ?)""",
            name,
            self.conversation,
            kind,
            depth,
            text,
            NOW,
        )
        table, column, place = (
            ("summary_messages", "message_id", 1)
            if kind == "leaf"
            else ("summary_parents", "parent_summary_id", 2)
        )
        for ordinal, item in enumerate(run):
            self.ask(
                f"INSERT INTO {table} (summary_id, {column}, ordinal) VALUES (?, ?, ?)",
                name,
                item[place],
                ordinal,
            )
        self.ask(
            "DELETE FROM context_items WHERE conversation_id = ? AND ordinal BETWEEN ? AND ?",
            self.conversation,
            run[0][0],
            run[-1][0],
        )
        self.ask(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
            VALUES (?, ?, 'summary', ?)""",
            self.conversation,
            run[0][0],
            name,
        )
        self._resequence()
        for search in self.search:
            self.ask(f"INSERT INTO {search} (summary_id, content) VALUES (?, ?)", name, text)
        return {"made": name, "kind": kind, "of": [item[place] for item in run]}

    def _resequence(self) -> None:
        ordinals = [item[0] for item in self.items()]
        move = "UPDATE context_items SET ordinal = ? WHERE conversation_id = ? AND ordinal = ?"
        moved = [(new, old) for new, old in enumerate(ordinals) if new != old]
        self.connection.executemany(move, [(-1 - new, self.conversation, old) for new, old in moved])
        self.connection.executemany(move, [(new, self.conversation, -1 - new) for new, _ in moved])

    # -- its day -----------------------------------------------------------------------------------------

    def choose(self) -> Callable[[], dict[str, Any] | None]:
        number = self.random.random()
        return self.append if number < 0.8 else self.compact if number < 0.93 else self.prune

    def transact(self) -> dict[str, Any]:
        """One transaction; what it did and how long it waited for the lock and held it, in seconds."""
        begun = time.perf_counter()
        self.connection.execute("BEGIN IMMEDIATE")
        locked = time.perf_counter()
        done = self.choose()()
        self.connection.execute("COMMIT")
        return {**(done or {}), "waited": locked - begun, "held": time.perf_counter() - locked}


def main(path: str, conversation: str, count: str, seed: str, log: str) -> None:
    """Go on until there is enough."""
    host = Host(path, int(conversation), int(seed))
    begun, number = time.monotonic(), 0
    with open(log, "w", encoding="utf-8") as file:
        while number < int(count) or not select.select([sys.stdin], [], [], 0)[0]:
            file.write(json.dumps(host.transact()) + "\n")
            file.flush()
            number += 1
            time.sleep(max(0.0, begun + number / PER_SECOND - time.monotonic()))
    host.connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
