"""The checks of the search tables, which are copies that nothing keeps in step (F1 to F6).

Source: docs/spec/search.md, "Upkeep".

The rows of a search table lie in its ``_content`` table, which can be read without the tokenizer. The table's
own self-check writes, so it is never asked for; what it would find shows in the row counts and in a probe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from lcm_core.base.errors import DatabaseError, SearchUnavailableError
from lcm_core.base.findings import Check, CheckScope, FixId, RowRef
from lcm_core.base.records import ConversationId
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record
from lcm_core.checks.check import (
    BROKEN,
    ERROR,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Folders,
    Hit,
    Limits,
    Rule,
    Run,
    hit,
)
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Row
from lcm_core.store.rows import KeyRange, key_ranges, of_conversation, row_count
from lcm_core.store.schema import Schema
from lcm_core.store.search import is_stale

MESSAGES: Final = "messages_fts"
SUMMARIES: Final = "summaries_fts"
CJK: Final = "summaries_fts_cjk"
TABLES: Final = (MESSAGES, SUMMARIES, CJK)
_SHADOWS: Final = ("data", "idx", "content", "docsize", "config")
_CJK_TABLE: Final = "the search table for Chinese, Japanese and Korean"
#: Ids that one transaction compares.
_STEP: Final = 5_000
#: Characters of a message that refers to a file which are compared with what is searched.
_MOST_TEXT: Final = 200_000


class SearchProbe(Record, frozen=True):
    """Whether a search table works."""

    table: str
    fault: str  #: why not; empty when it does
    ours: bool = False  #: the fault is this machine's SQLite, which lacks what the table needs


class Differences:
    """How a search table differs from what it was filled from."""

    def __init__(self, limits: Limits) -> None:
        self.missing = FaultRows(limits)
        self.extra = FaultRows(limits)  #: of rows that are gone, or twice
        self.stale = FaultRows(limits)  #: with another text


class SearchTables:
    """What is known of the search tables of a file, or of what one conversation has in them."""

    def __init__(self, owner: ConversationId | None, limits: Limits) -> None:
        self.owner = owner
        self.probes: list[SearchProbe] = []
        self.messages = Differences(limits)
        self.summaries = Differences(limits)
        self.cjk = Differences(limits)


def _differs(
    noun: str, *parts: tuple[Callable[[SearchTables], FaultRows], str]
) -> Callable[[SearchTables, Limits], Iterator[Hit]]:
    """A rule about kinds of differences, each with what is said of its rows."""

    def find(seen: SearchTables, limits: Limits) -> Iterator[Hit]:
        for rows_of, words in parts:
            yield from rows_of(seen).hits(BROKEN, noun, seen.owner, f"{words}.", FixId.REBUILD_SEARCH)

    return find


def _stale_rows(seen: SearchTables, limits: Limits) -> Iterator[Hit]:
    for noun, found in (("message", seen.messages), ("summary", seen.summaries)):
        words = "differ from the search table."
        yield from found.stale.hits(BROKEN, noun, seen.owner, words, FixId.REBUILD_SEARCH)


def _broken_tables(seen: SearchTables, limits: Limits) -> Iterator[Hit]:
    for probe in seen.probes:
        if probe.fault:
            yield hit(
                SUSPICIOUS if probe.ours else BROKEN,
                f"The search table {probe.table} does not work: {probe.fault}.",
                RowRef(probe.table, ()),
                fix=None if probe.ours else FixId.REBUILD_SEARCH,
            )


# fmt: off
CHECKS: Final[tuple[Rule[SearchTables], ...]] = (
    Rule("F1", WARNING, "messages not found", "Are messages missing from the search table?",
         why="Messages with text can be found: each has a row in the search table (blank ones only before "
         "0.8).", needs=("messages_fts",),
         find=_differs("message", (lambda seen: seen.messages.missing, "cannot be found by searching"))),
    Rule("F2", WARNING, "search rows without message",
         "Does the search table contain messages that do not exist?",
         why="Deleted messages must not be found.", scope=CheckScope.FILE, needs=("messages_fts",),
         find=_differs(
             "message", (lambda seen: seen.messages.extra, "are in the search table although deleted")
         )),
    Rule("F3", WARNING, "summaries in search",
         "Are summaries missing from the search table, in it twice, or in it although deleted?",
         why="Each summary with text has one row in the search table.", needs=("summaries_fts", "summaries"),
         find=_differs(
             "summary",
             (lambda seen: seen.summaries.missing, "cannot be found in the search table"),
             (lambda seen: seen.summaries.extra, "are in the search table twice, or although deleted"),
         )),
    Rule("F4", WARNING, "stale search rows", "Does the search table contain a different text than the row?",
         why="The search table contains the same text as the row; otherwise a search finds words that are "
         "not there.", find=_stale_rows),
    Rule("F5", WARNING, "summaries in CJK search",
         "Is the search table for Chinese, Japanese and Korean out of step?",
         why="The search table for Chinese, Japanese and Korean is filled once and then row by row; a "
         "repair of summaries by the engine does not update it.", needs=("summaries_fts_cjk", "summaries"),
         find=_differs(
             "summary",
             (lambda seen: seen.cjk.missing, f"cannot be found in {_CJK_TABLE}"),
             (lambda seen: seen.cjk.extra, f"are in {_CJK_TABLE} twice, or although deleted"),
             (lambda seen: seen.cjk.stale, f"have another text than {_CJK_TABLE}"),
         )),
    Rule("F6", ERROR, "broken search table", "Can a search table not be read or searched?",
         why="A search table must be complete and readable by this SQLite. Otherwise the engine's search "
         "fails.", scope=CheckScope.FILE, unanswered="The full self-check of the index, which writes.",
         find=_broken_tables),
)
# fmt: on


def why_not(check: Check, schema: Schema, folders: Folders) -> str:
    """Why F4 and F6, which ask of any search table, cannot be asked."""
    if check.id not in ("F4", "F6") or any(
        schema.has(f"{table}_content") or schema.has(table) for table in TABLES
    ):
        return ""
    return "this file has no search tables, which are optional from 0.3.0 on"


async def read_search(run: Run) -> None:
    """F1 to F6: the search tables against what they were filled from."""
    database, seen = run.database, SearchTables(run.conversation_id, run.limits)
    schema = database.schema
    seen.probes = [found for table in TABLES if (found := await probe(database, table)) is not None]
    if run.wants(("F1", "F2", "F4")) and schema.has(f"{MESSAGES}_content"):
        async for done, total in _compare_messages(database, run.conversation_id, seen.messages):
            run.progress(done, total)
    for table, differences, checks in ((SUMMARIES, seen.summaries, ("F3", "F4")), (CJK, seen.cjk, ("F5",))):
        if run.wants(checks) and schema.has(f"{table}_content") and schema.has("summaries"):
            await _compare_summaries(run, table, differences)
    run.ask(CHECKS, seen)


async def _compare_messages(
    database: Database, conversation_id: ConversationId | None, found: Differences
) -> AsyncIterator[tuple[int, int]]:
    """Note what the search table lacks, holds in another form, or holds although gone; a step at a time."""
    done, total = 0, await database.read(row_count, "messages")
    async for step in key_ranges(database, "messages", "message_id", _STEP):
        for row in await database.read(_differing, conversation_id, step):
            if row["missing"]:
                found.missing.add("messages", row["id"])
            elif is_stale(row["text"] or "", row["found"] or ""):
                found.stale.add(MESSAGES, row["id"])
        done = min(done + _STEP, total)
        yield done, total
    if conversation_id is None:
        async for step in key_ranges(database, f"{MESSAGES}_content", "id", _STEP):
            for row in await database.read(_orphans, step):
                found.extra.add(MESSAGES, row["id"])
            yield total, total


async def _orphans(reader: Reader, step: KeyRange) -> list[Row]:
    return await reader.rows(
        f"""SELECT f.id FROM {MESSAGES}_content AS f WHERE {step.where("f.id")}
        AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = f.id)""",
        *step.bounds,
    )


async def _differing(reader: Reader, conversation_id: ConversationId | None, step: KeyRange) -> list[Row]:
    only, keys = of_conversation("m.conversation_id", conversation_id)
    return await reader.rows(
        f"""SELECT m.message_id AS id, f.id IS NULL AS missing,
        CASE WHEN f.id IS NULL OR NOT instr(m.content, 'LCM') THEN NULL
            ELSE substr(CAST(m.content AS TEXT), 1, {_MOST_TEXT}) END AS text,
        CASE WHEN instr(f.c0, 'LCM') THEN substr(CAST(f.c0 AS TEXT), 1, {_MOST_TEXT}) END AS found
        FROM messages AS m LEFT JOIN {MESSAGES}_content AS f ON f.id = m.message_id
        WHERE {step.where("m.message_id")} AND {only}
          AND (CASE WHEN f.id IS NULL THEN trim(m.content, ?) <> '' ELSE f.c0 IS NOT m.content END)""",
        *step.bounds,
        *keys,
        BLANKS,
    )


async def _compare_summaries(run: Run, table: str, found: Differences) -> None:
    """Note the summaries that a search table lacks, holds twice, in another form, or although gone."""
    database, seen = run.database, set[str]()
    async for step in key_ranges(database, f"{table}_content", "id", _STEP):
        rows = await database.read(_summary_step, table, run.conversation_id, step)
        twice = []
        for row in rows:
            if row["id"] in seen:
                twice.append(row["row"])
            seen.add(row["id"])
            if row["stale"]:
                found.stale.add(table, row["row"])
        for rowid in (*(row["row"] for row in rows if row["gone"]), *twice):
            found.extra.add(table, rowid)
        run.moved()
    for summary_id in await database.read(_summaries_without, seen, run.conversation_id):
        found.missing.add("summaries", summary_id)


async def _summary_step(
    reader: Reader, table: str, conversation_id: ConversationId | None, step: KeyRange
) -> list[Row]:
    only, keys = of_conversation("s.conversation_id", conversation_id)
    return await reader.rows(
        f"""SELECT f.id AS row, CAST(f.c0 AS TEXT) AS id, s.summary_id IS NULL AS gone,
        (s.summary_id IS NOT NULL AND f.c1 IS NOT s.content) AS stale
        FROM {table}_content AS f LEFT JOIN summaries AS s ON s.summary_id = f.c0
        WHERE {step.where("f.id")} AND {only}""",
        *step.bounds,
        *keys,
    )


async def _summaries_without(
    reader: Reader, seen: set[str], conversation_id: ConversationId | None
) -> tuple[str, ...]:
    only, keys = of_conversation("s.conversation_id", conversation_id)
    rows = await reader.rows(
        f"""SELECT s.summary_id FROM summaries AS s
        WHERE s.summary_id IS NOT NULL AND trim(s.content, ?) <> '' AND {only}""",
        BLANKS,
        *keys,
    )
    return tuple(row["summary_id"] for row in rows if row["summary_id"] not in seen)


async def probe(database: Database, table: str) -> SearchProbe | None:
    """Whether a search table is whole and can be searched; None when this file has none."""
    schema = database.schema
    shadows = [name for name in _SHADOWS if schema.has(f"{table}_{name}")]
    if not schema.has(table):
        return SearchProbe(table, "the table itself is missing, its parts exist") if shadows else None
    lacking = [name for name in _SHADOWS if name not in shadows]
    if lacking:
        return SearchProbe(table, f"its part {table}_{lacking[0]} is missing")
    try:
        return SearchProbe(table, await database.read(_search_once, table))
    except DatabaseError as error:
        ours = isinstance(error, SearchUnavailableError)
        return SearchProbe(table, f"searching it fails ({error.__cause__ or error.message})", ours)


async def _search_once(reader: Reader, table: str) -> str:
    """Why a search table is broken; empty when it answers and its parts have the same rows."""
    await reader.rows(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT 1", '"lcm"')
    lost = await reader.value(
        f"""SELECT count(*) FROM {table}_content AS c
        WHERE NOT EXISTS (SELECT 1 FROM {table}_docsize AS d WHERE d.id = c.id)"""
    )
    extra = await reader.value(
        f"""SELECT count(*) FROM {table}_docsize AS d
        WHERE NOT EXISTS (SELECT 1 FROM {table}_content AS c WHERE c.id = d.id)"""
    )
    if lost or extra:
        return f"its parts have different rows ({lost + extra:,} of them)"
    columns = await reader.rows("SELECT name FROM pragma_table_info(?)", table)
    wanted = ["content"] if table == MESSAGES else ["summary_id", "content"]
    names = [row["name"] for row in columns]
    return "" if names[: len(wanted)] == wanted else f"it has other columns than {', '.join(wanted)}"
