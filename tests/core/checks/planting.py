"""Damage planted into a copy of the recorded database of 0.15.3, one function per kind."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_core.checks import Limits, run_checks
from lcm_core.findings import Confidence, Finding, RowRef
from lcm_core.store.database import Database
from lcm_core.tokens import estimate_weighted

from tests.conftest import DatabaseFactory

BROKEN, SUSPICIOUS, BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

#: After the recorded conversations; the clock of the machine does not matter.
LIMITS = Limits(datetime(2026, 3, 20, tzinfo=UTC))
Con = sqlite3.Connection
#: Rows that the finding must name, all of them and no others; None: any.
Rows = list[RowRef] | None


@dataclass(frozen=True)
class Plant:
    name: str
    check: str
    confidence: Confidence
    also: frozenset[str]  #: checks whose findings follow from the damage
    make: Callable[[Con], Rows]

    def __str__(self) -> str:
        return self.name

    async def prove(self, database_copy: DatabaseFactory, database_file: DatabaseFactory) -> None:
        """The check finds the damage, names exactly its rows, and nothing else is found."""
        whole = self.check[0] == "F" or self.check == "G13"
        if whole not in _healthy:
            _healthy[whole] = frozenset(await _findings(database_file("0.15.3"), whole_file=whole))
        path = database_copy("0.15.3")
        connection = sqlite3.connect(path)
        rows = self.make(connection)
        connection.commit()
        connection.close()

        fresh = [one for one in await _findings(path, whole_file=whole) if one not in _healthy[whole]]

        mine = [one for one in fresh if (one.check, one.confidence) == (self.check, self.confidence)]
        assert len(mine) == 1, [(one.check, one.confidence, one.sentence) for one in fresh]
        if rows is not None:
            assert list(mine[0].rows) == rows
            assert mine[0].row_count == len(rows)
        assert {one.check for one in fresh} == {self.check, *self.also}


#: By name; the test files of the families fill it.
PLANTS: dict[str, Plant] = {}
_healthy: dict[bool, frozenset[Finding]] = {}


async def _findings(path: Path, *, whole_file: bool) -> list[Finding]:
    async with await Database.open(path) as database:
        report = await run_checks(database, whole_file=whole_file, limits=LIMITS)
    return list(report.findings())


def plants(family: str) -> list[Plant]:
    """The damages to what one family checks."""
    return [one for one in PLANTS.values() if one.check[0] == family]


def plant(check: str, confidence: Confidence = BROKEN, also: str = "") -> Callable[..., Any]:
    def register(make: Callable[[Con], Rows]) -> Callable[[Con], Rows]:
        name = f"{check}-{make.__name__}"
        PLANTS[name] = Plant(name, check, confidence, frozenset(also.split()), make)
        return make

    return register


def row(table: str, *key: int | str | None) -> RowRef:
    return RowRef(table, key)


def one(con: Con, sql: str, *parameters: object) -> Any:
    return con.execute(sql, parameters).fetchone()[0]


def ids(con: Con, sql: str, *parameters: object) -> list[Any]:
    return [found[0] for found in con.execute(sql, parameters)]


def run(con: Con, sql: str, *parameters: object) -> None:
    assert con.execute(sql, parameters).rowcount != 0, f"the damage touched nothing: {sql}"


# Facts of the recorded database that the damage builds on.
#: Conversation 4: context of a condensed summary, a leaf, and raw messages seq 50 to 61.
CONDENSED, LEAF = "sum_f6b6d7017e1f2ae2", "sum_595d3b77235f8e52"
#: Conversation 6 is archived: five leaves without consumers, raw messages seq 40 to 49.
LONELY, LONELY_TOO = "sum_3e03970afb10ff96", "sum_6b1d6a666e366795"
#: Conversation 1: two summaries of depth 3 and two of depth 2, all healthy.
ROOT, ROOT_TOO = "sum_6f28c0a7f6f90a1a", "sum_07742015d971b59d"
#: Conversation 7 has 19 raw messages and no summaries.
BARE = 7


def message(con: Con, conversation: int, seq: int) -> int:
    return int(
        one(con, "SELECT message_id FROM messages WHERE conversation_id = ? AND seq = ?", conversation, seq)
    )


def append_item(
    con: Con, conversation: int, *, message_id: int | None = None, summary: str | None = None
) -> RowRef:
    ordinal = one(con, "SELECT max(ordinal) + 1 FROM context_items WHERE conversation_id = ?", conversation)
    kind = "message" if summary is None else "summary"
    con.execute(
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id)
        VALUES (?, ?, ?, ?, ?)""",
        (conversation, ordinal, kind, message_id, summary),
    )
    return row("context_items", conversation, ordinal)


def take_item(con: Con, conversation: int, ordinal: int, *, close: bool) -> None:
    run(con, "DELETE FROM context_items WHERE conversation_id = ? AND ordinal = ?", conversation, ordinal)
    if close:
        con.execute(
            "UPDATE context_items SET ordinal = ordinal - 1 WHERE conversation_id = ? AND ordinal > ?",
            (conversation, ordinal),
        )


def add_message(
    con: Con,
    conversation: int,
    role: str,
    content: str,
    *,
    created: str,
    part_type: str = "text",
    held: bool = True,
) -> int:
    """Append a message as the engine would: hash, tokens, a part, and its place in the context."""
    seq = one(con, "SELECT max(seq) + 1 FROM messages WHERE conversation_id = ?", conversation)
    session = one(con, "SELECT session_id FROM conversations WHERE conversation_id = ?", conversation)
    identity = hashlib.sha256(f"{role}\0{content}".encode()).hexdigest()
    cursor = con.execute(
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, identity_hash, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (conversation, seq, role, content, estimate_weighted(content), identity, created),
    )
    message_id = int(cursor.lastrowid or 0)
    con.execute(
        """INSERT INTO message_parts
        (part_id, message_id, session_id, part_type, ordinal, text_content, metadata)
        VALUES (?, ?, ?, ?, 0, ?, '{}')""",
        (f"part-{message_id}", message_id, session, part_type, content),
    )
    if held:
        append_item(con, conversation, message_id=message_id)
    return message_id


def last_time(con: Con, conversation: int) -> str:
    return str(one(con, "SELECT max(created_at) FROM messages WHERE conversation_id = ?", conversation))


def set_text(con: Con, summary: str, text: str) -> list[RowRef]:
    """Give a summary another text, and the token count that goes with it."""
    run(
        con,
        "UPDATE summaries SET content = ?, token_count = ? WHERE summary_id = ?",
        text,
        estimate_weighted(text),
        summary,
    )
    return [row("summaries", summary)]


def text_of(con: Con, summary: str) -> str:
    return str(one(con, "SELECT content FROM summaries WHERE summary_id = ?", summary))


def add_summary(con: Con, summary: str | None, conversation: int, kind: str = "leaf", depth: int = 0) -> int:
    text = "What happened there.\nExpand for details about: it"
    cursor = con.execute(
        """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count, earliest_at,
        latest_at, created_at, model) VALUES (?, ?, ?, ?, ?, ?, '2026-03-02T12:00:00.000Z',
        '2026-03-02T12:00:00.000Z', '2026-03-02 12:01:00', 'claude-haiku-4-5')""",
        (summary, conversation, kind, depth, text, estimate_weighted(text)),
    )
    return int(cursor.lastrowid or 0)


def link_count(con: Con, summary: str) -> int:
    return int(one(con, "SELECT count(*) FROM summary_messages WHERE summary_id = ?", summary))


def source_count(con: Con, summary: str) -> int:
    return int(one(con, "SELECT count(*) FROM summary_parents WHERE summary_id = ?", summary))


def sources(con: Con, summary: str) -> list[str]:
    return ids(
        con, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal", summary
    )


def a_part(con: Con, seq: int) -> str:
    return str(one(con, "SELECT part_id FROM message_parts WHERE message_id = ?", message(con, BARE, seq)))
