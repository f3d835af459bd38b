"""The databases of ``python -m benchmarks.lock``: one an operation and size, with filled search tables.

Schema and rows are those of the engine at 0.15. Texts are short, so that the number of rows decides and not
that of bytes; what a host has beside the touched conversations is one more of the same size.
"""

from __future__ import annotations

import random
import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import engine_schema, stamp
from benchmarks.passages import prose

_START = 1_770_000_000  #: seconds since 1970
_LEAF = 8  #: messages of a leaf
_FANOUT = 4  #: sources of a condensed summary
_CHARACTERS = 220.0  #: mean of a message
_TAIL = 16  #: raw messages behind the summaries of a context


@dataclass(slots=True)
class _Made:
    """A summary while its consumers are still to be made."""

    summary_id: str
    messages: int
    tokens: int
    first: int
    last: int


class Filling:
    """Fills one database, conversation by conversation."""

    def __init__(self, connection: sqlite3.Connection, seed: int) -> None:
        self._db = connection
        self._random = random.Random(seed)
        self._prose = prose(random.Random(seed + 1))
        self._clock = _START
        self._messages = 0
        self._conversations = 0

    def conversation(self, *, key: str | None = None, archived: bool = False) -> int:
        """An empty conversation."""
        self._conversations += 1
        at = stamp(self._clock)
        cause = "rollover-fallback" if archived else None
        self._db.execute(
            """INSERT INTO conversations (conversation_id, session_id, session_key, active, archived_at,
            archive_cause, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?)""",
            (
                self._conversations,
                self._uuid(),
                key or f"agent:main:direct:{self._conversations}",
                int(not archived),
                at if archived else None,
                cause,
                at,
                at,
            ),
        )
        return self._conversations

    def history(self, owner: int, count: int) -> None:
        """Messages, leaves over all but the last of them, condensed layers, and the context; two at least."""
        messages = [self._message(owner, seq) for seq in range(1, count + 1)]
        size = min(_LEAF, max(2, count // 2))
        covered = max(size, (count - _TAIL) // size * size)
        layer = [self._leaf(owner, messages[start : start + size]) for start in range(0, covered, size)]
        depth = 1
        while len(layer) >= 2 * _FANOUT:
            whole = len(layer) // _FANOUT * _FANOUT
            made = [
                self._condensed(owner, layer[start : start + _FANOUT], depth)
                for start in range(0, whole, _FANOUT)
            ]
            layer, depth = made + layer[whole:], depth + 1
        refs: list[str | int] = [one.summary_id for one in layer]
        self.context(owner, [*refs, *(one[0] for one in messages[covered:])])

    def long_context(self, owner: int, items: int) -> str:
        """One condensed summary in front of many raw messages; its id."""
        messages = [self._message(owner, seq) for seq in range(1, items + 2 * _LEAF)]
        leaves = [self._leaf(owner, messages[start : start + _LEAF]) for start in (0, _LEAF)]
        top = self._condensed(owner, leaves, 1)
        self.context(owner, [top.summary_id, *(one[0] for one in messages[2 * _LEAF :])])
        return top.summary_id

    def context(self, owner: int, refs: list[str | int]) -> None:
        """The items of a context, in order."""
        at = stamp(self._clock)
        self._db.executemany(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id,
            created_at) VALUES (?,?,?,?,?,?)""",
            [
                (owner, ordinal, "summary", None, ref, at)
                if isinstance(ref, str)
                else (owner, ordinal, "message", ref, None, at)
                for ordinal, ref in enumerate(refs)
            ],
        )

    def _message(self, owner: int, seq: int) -> tuple[int, int, int]:
        """Id, tokens and time of a new message."""
        self._messages += 1
        self._clock += 7
        text = self._text(self._random.expovariate(1 / _CHARACTERS))
        tokens, role = len(text) // 4 + 1, ("user", "assistant")[seq % 2]
        self._db.execute(
            """INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count,
            identity_hash, transcript_entry_id, created_at) VALUES (?,?,?,?,?,?,?,?,?)""",
            (
                self._messages,
                owner,
                seq,
                role,
                text,
                tokens,
                f"{self._random.getrandbits(256):064x}",
                f"{self._messages:08x}",
                stamp(self._clock),
            ),
        )
        self._db.execute(
            """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content,
            metadata) VALUES (?,?,?,?,0,?,?)""",
            (self._uuid(), self._messages, "session", "text", text, f'{{"originalRole":"{role}"}}'),
        )
        self._db.execute("INSERT INTO messages_fts (rowid, content) VALUES (?,?)", (self._messages, text))
        return self._messages, tokens, self._clock

    def _leaf(self, owner: int, messages: list[tuple[int, int, int]]) -> _Made:
        made = _Made(
            self._id(), len(messages), sum(one[1] for one in messages), messages[0][2], messages[-1][2]
        )
        self._summary(owner, made, "leaf", 0)
        self._db.executemany(
            "INSERT INTO summary_messages VALUES (?,?,?)",
            [(made.summary_id, one[0], ordinal) for ordinal, one in enumerate(messages)],
        )
        return made

    def _condensed(self, owner: int, sources: list[_Made], depth: int) -> _Made:
        made = _Made(
            self._id(),
            sum(one.messages for one in sources),
            sum(one.tokens for one in sources),
            sources[0].first,
            sources[-1].last,
        )
        self._summary(owner, made, "condensed", depth)
        self._db.executemany(
            "INSERT INTO summary_parents VALUES (?,?,?)",
            [(made.summary_id, one.summary_id, ordinal) for ordinal, one in enumerate(sources)],
        )
        return made

    def _summary(self, owner: int, made: _Made, kind: str, depth: int) -> None:
        text = f"{made.summary_id}: {self._text(900.0)}"
        self._clock += 1
        self._db.execute(
            """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count,
            earliest_at, latest_at, descendant_count, descendant_token_count, source_message_token_count,
            created_at, model) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)""",
            (
                made.summary_id,
                owner,
                kind,
                depth,
                text,
                len(text) // 4 + 1,
                stamp(made.first),
                stamp(made.last),
                0 if depth == 0 else made.messages // _LEAF,
                0 if depth == 0 else made.tokens // 4,
                made.tokens,
                stamp(self._clock),
                "claude-haiku-4-5",
            ),
        )
        for table in ("summaries_fts", "summaries_fts_cjk"):
            self._db.execute(
                f"INSERT INTO {table} (summary_id, content) VALUES (?,?)", (made.summary_id, text)
            )

    def _text(self, length: float) -> str:
        return self._prose.passage(self._random, max(12.0, length)).text

    def _id(self) -> str:
        return f"sum_{self._random.getrandbits(64):016x}"

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def empty(path: Path) -> sqlite3.Connection:
    """A new file with the engine's tables, open for filling."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-400000"):
        connection.execute(f"PRAGMA {pragma}")
    statements, steps = engine_schema()
    connection.execute("BEGIN")
    for statement in statements:
        connection.execute(statement)
    connection.executemany("INSERT INTO lcm_migration_state VALUES (?,?,?)", steps)
    return connection


def finish(connection: sqlite3.Connection) -> None:
    """Make it last, in the mode that hosts use."""
    with closing(connection):
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
