"""The checks of rows that join two others and have lost one: links, edges and parts (B3, B4, E13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from lcm_core.base.findings import FixId
from lcm_core.base.records import ConversationId
from lcm_core.checks.check import BROKEN, ERROR, FaultRows, Hit, Limits, Rule, Run
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Row
from lcm_core.store.ownership import ROWS_AT_A_TIME, parts_without_message
from lcm_core.store.rows import KeyRange, key_ranges, row_count

#: Each table with what its rows have lost where their summary is there.
_LINES: Final = (
    (
        "summary_messages",
        "l.rowid",
        "B3",
        """SELECT l.summary_id AS one, l.message_id AS other,
        s.conversation_id AS owner, m.conversation_id AS of_other, s.rowid IS NULL AS lacks_one
        FROM summary_messages AS l
        LEFT JOIN summaries AS s ON s.summary_id = l.summary_id
        LEFT JOIN messages AS m ON m.message_id = l.message_id
        WHERE {step} AND (s.rowid IS NULL OR m.message_id IS NULL)""",
    ),
    (
        "summary_parents",
        "e.rowid",
        "B4",
        """SELECT e.summary_id AS one, e.parent_summary_id AS other,
        s.conversation_id AS owner, p.conversation_id AS of_other, s.rowid IS NULL AS lacks_one
        FROM summary_parents AS e
        LEFT JOIN summaries AS s ON s.summary_id = e.summary_id
        LEFT JOIN summaries AS p ON p.summary_id = e.parent_summary_id
        WHERE {step} AND (s.rowid IS NULL OR p.rowid IS NULL)""",
    ),
)


class LooseEnds:
    """The rows that lead nowhere, by what they have lost and by the conversation of the end that is there."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rows: dict[tuple[str, ConversationId | None], FaultRows] = {}

    def take(self, check: str, owner: ConversationId | None, table: str, *key: int | str | None) -> None:
        """Note a row."""
        self._rows.setdefault((check, owner), FaultRows(self._limits)).add(table, *key)

    def of(self, check: str) -> Iterator[tuple[ConversationId | None, FaultRows]]:
        """The rows that a check is about, conversation by conversation."""
        return ((owner, rows) for (of, owner), rows in self._rows.items() if of == check)


def _lost(check: str, noun: str, words: str, fix: FixId) -> Callable[[LooseEnds, Limits], Iterator[Hit]]:
    def find(seen: LooseEnds, limits: Limits) -> Iterator[Hit]:
        for owner, rows in seen.of(check):
            yield from rows.hits(BROKEN, noun, owner, words, fix)

    return find


async def read_lines(run: Run) -> None:
    """B3, B4: links and edges, a step at a time."""
    seen, database = LooseEnds(run.limits), run.database
    lines = [line for line in _LINES if database.schema.has(line[0]) and database.schema.has("summaries")]
    done, total = 0, sum([await database.read(row_count, line[0]) for line in lines])
    for table, column, check, query in lines:
        async for rows in _stepwise(database, table, "rowid", _where(query, column)):
            for row in rows:
                lost, owner = ("B4", row["of_other"]) if row["lacks_one"] else (check, row["owner"])
                if run.conversation_id in (None, owner):
                    seen.take(lost, owner, table, row["one"], row["other"])
            done = min(done + ROWS_AT_A_TIME, total)
            run.progress(done, total)
    run.ask(LINES, seen)


async def read_parts(run: Run) -> None:
    """E13: parts, which count for the conversation whose session they name."""
    seen, database = LooseEnds(run.limits), run.database
    done, total = 0, await database.read(row_count, "message_parts")
    async for rows in _stepwise(database, "message_parts", "message_id", parts_without_message):
        for row in rows:
            if run.conversation_id in (None, row["owner"]):
                seen.take("E13", row["owner"], "message_parts", row["id"])
        done = min(done + ROWS_AT_A_TIME, total)
        run.progress(done, total)
    run.ask(PARTS, seen)


async def _stepwise(
    database: Database, table: str, key: str, query: Callable[[KeyRange], str]
) -> AsyncIterator[list[Row]]:
    async for step in key_ranges(database, table, key, ROWS_AT_A_TIME):
        yield await database.read(Reader.rows, query(step), *step.bounds)


def _where(query: str, column: str) -> Callable[[KeyRange], str]:
    return lambda step: query.format(step=step.where(column))


LINES: Final[tuple[Rule[LooseEnds], ...]] = (
    Rule(
        "B3",
        ERROR,
        "link to a missing message",
        "Does a link name a message that does not exist?",
        why="Each link of a leaf names a stored message.",
        needs=("summaries", "summary_messages"),
        find=_lost("B3", "link", "refer to a missing message.", FixId.DELETE_ORPHAN_LINKS),
    ),
    Rule(
        "B4",
        ERROR,
        "link of a missing summary",
        "Does a link or an edge name a summary that does not exist?",
        why="Each link and each edge joins summaries that are stored.",
        needs=("summaries",),
        find=_lost("B4", "link or edge", "refer to a missing summary.", FixId.DELETE_ORPHAN_LINKS),
    ),
)
PARTS: Final[tuple[Rule[LooseEnds], ...]] = (
    Rule(
        "E13",
        ERROR,
        "orphan parts",
        "Are there parts whose message does not exist?",
        why="A part belongs to a stored message; parts without a message are never read.",
        needs=("message_parts",),
        find=_lost("E13", "part", "belong to a missing message.", FixId.DELETE_ORPHAN_PARTS),
    ),
)
