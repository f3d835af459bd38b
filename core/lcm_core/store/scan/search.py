"""Compares the search tables with what they were filled from, row by row (family F).

The rows of a search table lie in its ``_content`` table, which can be read without the tokenizer. The table's
own self-check writes, so it is never asked for; what it would find shows in the row counts and in a probe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from lcm_core.dag.checks.search import SearchProbe, SearchRows, SummaryRows
from lcm_core.errors import DatabaseError, SearchUnavailableError
from lcm_core.javascript import BLANKS
from lcm_core.records import ConversationId
from lcm_core.store.database import Database, Reader, Row
from lcm_core.store.steps import Step, steps

MESSAGES = "messages_fts"
SUMMARIES = "summaries_fts"
CJK = "summaries_fts_cjk"
TABLES = (MESSAGES, SUMMARIES, CJK)
_SHADOWS = ("data", "idx", "content", "docsize", "config")
#: Ids that one transaction compares.
_STEP = 5_000
#: Characters of a message that refers to a file which are compared with what is searched.
_MOST_TEXT = 200_000


async def compare_messages(
    database: Database, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[SearchRows, int, int]]:
    """Messages that the search table lacks, holds in another form, or holds although they are gone."""
    done, total = 0, await database.read(_count, "messages")
    async for step in steps(database, "messages", "message_id", _STEP):
        rows = await database.read(_compare_step, conversation_id, step)
        done = min(done + _STEP, total)
        yield rows, done, total
    if conversation_id is None:
        async for step in steps(database, f"{MESSAGES}_content", "id", _STEP):
            yield await database.read(_orphan_step, step), total, total


async def _count(reader: Reader, table: str) -> int:
    return await reader.value(f"SELECT count(*) FROM {table}") or 0


async def _orphan_step(reader: Reader, step: Step) -> SearchRows:
    rows = await reader.rows(
        f"""SELECT f.id FROM {MESSAGES}_content AS f WHERE {step.where("f.id")}
        AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = f.id)""",
        *step.bounds,
    )
    return SearchRows(missing=(), differing=(), orphans=tuple(row["id"] for row in rows))


async def _compare_step(reader: Reader, conversation_id: ConversationId | None, step: Step) -> SearchRows:
    only, keys = ("", ()) if conversation_id is None else ("AND m.conversation_id = ?", (conversation_id,))
    differing = await reader.rows(
        f"""SELECT m.message_id AS id, f.id IS NULL AS missing,
        CASE WHEN f.id IS NULL OR NOT instr(m.content, 'LCM') THEN NULL
            ELSE substr(CAST(m.content AS TEXT), 1, {_MOST_TEXT}) END AS text,
        CASE WHEN instr(f.c0, 'LCM') THEN substr(CAST(f.c0 AS TEXT), 1, {_MOST_TEXT}) END AS found
        FROM messages AS m LEFT JOIN {MESSAGES}_content AS f ON f.id = m.message_id
        WHERE {step.where("m.message_id")} {only}
          AND (CASE WHEN f.id IS NULL THEN trim(m.content, ?) <> '' ELSE f.c0 IS NOT m.content END)""",
        *step.bounds,
        *keys,
        BLANKS,
    )
    return SearchRows(
        missing=tuple(row["id"] for row in differing if row["missing"]),
        differing=tuple(
            (row["id"], row["text"] or "", row["found"] or "") for row in differing if not row["missing"]
        ),
        orphans=(),
    )


async def compare_summaries(
    database: Database, table: str, conversation_id: ConversationId | None
) -> AsyncIterator[tuple[SummaryRows, int, int]]:
    """Summaries that a search table lacks, holds twice, in another form, or although they are gone."""
    done, total = 0, await database.read(_count, f"{table}_content")
    seen: dict[str, int] = {}
    async for step in steps(database, f"{table}_content", "id", _STEP):
        rows = await database.read(_summary_step, table, conversation_id, step)
        done = min(done + _STEP, total)
        twice = []
        for row in rows:
            if row["id"] in seen:
                twice.append(row["row"])
            seen.setdefault(row["id"], row["row"])
        yield (
            SummaryRows(
                missing=(),
                orphans=tuple(row["row"] for row in rows if row["gone"]),
                repeated=tuple(twice),
                stale=tuple(row["row"] for row in rows if row["stale"]),
            ),
            done,
            total,
        )
    lacking = await database.read(_summaries_without, seen, conversation_id)
    yield SummaryRows(missing=lacking, orphans=(), repeated=(), stale=()), 1, 1


async def _summary_step(
    reader: Reader, table: str, conversation_id: ConversationId | None, step: Step
) -> list[Row]:
    only, keys = ("", ()) if conversation_id is None else ("AND s.conversation_id = ?", (conversation_id,))
    return await reader.rows(
        f"""SELECT f.id AS row, CAST(f.c0 AS TEXT) AS id, s.summary_id IS NULL AS gone,
        (s.summary_id IS NOT NULL AND f.c1 IS NOT s.content) AS stale
        FROM {table}_content AS f LEFT JOIN summaries AS s ON s.summary_id = f.c0
        WHERE {step.where("f.id")} {only}""",
        *step.bounds,
        *keys,
    )


async def _summaries_without(
    reader: Reader, seen: dict[str, int], conversation_id: ConversationId | None
) -> tuple[str, ...]:
    only, keys = ("", ()) if conversation_id is None else ("AND s.conversation_id = ?", (conversation_id,))
    rows = await reader.rows(
        f"""SELECT s.summary_id FROM summaries AS s
        WHERE s.summary_id IS NOT NULL AND trim(s.content, ?) <> '' {only}""",
        BLANKS,
        *keys,
    )
    return tuple(row["summary_id"] for row in rows if row["summary_id"] not in seen)


async def probe(database: Database, table: str) -> SearchProbe | None:
    """Whether a search table is whole and can be searched; None when this file has none."""
    schema = database.schema
    shadows = [name for name in _SHADOWS if schema.has(f"{table}_{name}")]
    if not schema.has(table):
        return SearchProbe(table, "the table itself is gone, its parts are not") if shadows else None
    lacking = [name for name in _SHADOWS if name not in shadows]
    if lacking:
        return SearchProbe(table, f"its part {table}_{lacking[0]} is gone")
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
