"""Damage planted into a copy of the recorded database of 0.15.3, one function per kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_core.api import Confidence, Database
from lcm_core.base.findings import RowRef
from lcm_core.base.tokens import estimate_weighted
from lcm_core.base.values import replace
from lcm_core.checks.check import Limits
from lcm_core.checks.running import run_checks

from tests.conftest import DatabaseFactory
from tests.databases import Builder, building
from tests.support import sampled

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
    only: frozenset[str] | None = None  #: families that are asked; None: all

    def __str__(self) -> str:
        return self.name if self.only else f"{self.name}, all checks"

    def alone(self) -> Plant:
        """The same, looked for by the families that are to find something, in a third of the time."""
        return replace(self, only=frozenset(name[0] for name in (self.check, *self.also)))

    async def prove(self, database_copy: DatabaseFactory, database_file: DatabaseFactory) -> None:
        """The check finds the damage, names exactly its rows, and nothing else is found."""
        whole = self.check[0] == "F" or self.check == "G13"
        if (whole, self.only) not in _healthy:
            _healthy[whole, self.only] = frozenset(await _findings(database_file("0.15.3"), whole, self.only))
        path = database_copy("0.15.3")
        with building(path) as builder:
            rows = self.make(builder.connection)

        healthy = _healthy[whole, self.only]
        fresh = [one for one in await _findings(path, whole, self.only) if one not in healthy]

        mine = [one for one in fresh if (one.check, one.confidence) == (self.check, self.confidence)]
        assert len(mine) == 1, [(one.check, one.confidence, one.sentence) for one in fresh]
        if rows is not None:
            assert list(mine[0].rows) == rows
            assert mine[0].row_count == len(rows)
        assert {one.check for one in fresh} == {self.check, *self.also}


#: By name; the test files of the families fill it.
PLANTS: dict[str, Plant] = {}
_healthy = {}


async def _findings(path: Path, whole_file: bool, only: frozenset[str] | None):
    async with await Database.open(path) as database:
        report = await run_checks(database, only=only, whole_file=whole_file, limits=LIMITS)
    return list(report.findings())


def plants(family: str) -> list[Any]:
    """The damages to what one family checks: the first of each finding alone; all of them are long."""
    made = [one for one in PLANTS.values() if one.check[0] == family]
    alone = [one.alone() for one in {(one.check, one.confidence): one for one in reversed(made)}.values()]
    return sampled([*alone, *made], alone)


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


def append_item(con: Con, conversation: int, ref: int | str) -> RowRef:
    return row("context_items", conversation, Builder(con).item(conversation, ref))


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
    rows = Builder(con)
    message_id = rows.message(conversation, content, role=role, in_context=held, created_at=created)
    rows.part(message_id, part_type, content)
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
    at = "2026-03-02T12:00:00.000Z"
    times = {"earliest_at": at, "latest_at": at, "created_at": "2026-03-02 12:01:00"}
    return Builder(con).summary(
        conversation, summary, depth=depth, kind=kind, model="claude-haiku-4-5", **times
    )


def link_message(con: Con, summary: str, message_id: int) -> None:
    """After the other messages of a leaf."""
    count = one(con, "SELECT count(*) FROM summary_messages WHERE summary_id = ?", summary)
    Builder(con).links(summary, messages=[message_id], first=count)


def link_source(con: Con, summary: str, source: str) -> None:
    """After the other sources of a condensed summary."""
    count = one(con, "SELECT count(*) FROM summary_parents WHERE summary_id = ?", summary)
    Builder(con).links(summary, sources=[source], first=count)


def sources(con: Con, summary: str) -> list[str]:
    return ids(
        con, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal", summary
    )


def a_part(con: Con, seq: int) -> str:
    return str(one(con, "SELECT part_id FROM message_parts WHERE message_id = ?", message(con, BARE, seq)))
