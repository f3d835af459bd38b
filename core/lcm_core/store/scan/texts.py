"""Reads the texts of summaries in batches, and those of their sources where a copy is suspected."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.dag.checks.quality import Body
from lcm_core.dag.checks.texts import file_ids
from lcm_core.javascript import BLANKS
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.scan.messages import MOST_CHARACTERS

#: Summaries of one batch.
BATCH = 100
#: Characters of a first source that tell whether a summary may be a copy of it.
_OPENING = 400
#: Characters of sources that are compared with a suspected copy; no engine cuts a longer run.
_MOST_SOURCE = 2_000_000
#: Messages whose texts are searched for file ids at a time.
_PAGE = 500


async def bodies_of(reader: Reader, summary_ids: Sequence[SummaryId]) -> list[Body]:
    """The texts of some summaries, each with the beginning of its first source that is not blank.

    Those that are too long to be looked into are left out.
    """
    listed = "CAST(s.file_ids AS TEXT)" if reader.schema.has("summaries", "file_ids") else "NULL"
    rows = await reader.rows_in(
        f"""SELECT s.summary_id, CAST(s.content AS TEXT) AS content, {listed} AS file_ids
        FROM summaries AS s
        WHERE ifnull(length(s.content), 0) <= {MOST_CHARACTERS} AND s.summary_id IN (?*)""",
        summary_ids,
    )
    openings: dict[str, str] = {}
    for table, query in (
        (
            "summary_parents",
            f"""SELECT e.summary_id AS id, min(e.ordinal),
            substr(CAST(s.content AS TEXT), 1, {_OPENING}) AS opening
            FROM summary_parents AS e CROSS JOIN summaries AS s ON s.summary_id = e.parent_summary_id
            WHERE trim(s.content, ?) <> '' AND e.summary_id IN (?*) GROUP BY e.summary_id""",
        ),
        (
            "summary_messages",
            f"""SELECT l.summary_id AS id, min(l.ordinal),
            substr(CAST(m.content AS TEXT), 1, {_OPENING}) AS opening
            FROM summary_messages AS l CROSS JOIN messages AS m ON m.message_id = l.message_id
            WHERE trim(m.content, ?) <> '' AND l.summary_id IN (?*) GROUP BY l.summary_id""",
        ),
    ):
        if reader.schema.has(table):
            openings |= {
                row["id"]: row["opening"] for row in await reader.rows_in(query, summary_ids, BLANKS)
            }
    return [
        Body(
            SummaryId(row["summary_id"]),
            row["content"] or "",
            row["file_ids"],
            openings.get(row["summary_id"], ""),
        )
        for row in rows
    ]


async def source_texts(reader: Reader, summary_id: SummaryId) -> list[str]:
    """The texts that a summary was made from, in order, as far as a copy of them could reach."""
    found: list[str] = []
    for table, query in (
        (
            "summary_messages",
            """SELECT CAST(m.content AS TEXT) AS content
            FROM summary_messages AS l JOIN messages AS m ON m.message_id = l.message_id
            WHERE l.summary_id = ? ORDER BY l.ordinal""",
        ),
        (
            "summary_parents",
            """SELECT CAST(s.content AS TEXT) AS content
            FROM summary_parents AS e JOIN summaries AS s ON s.summary_id = e.parent_summary_id
            WHERE e.summary_id = ? ORDER BY e.ordinal""",
        ),
    ):
        if reader.schema.has(table):
            found += [row["content"] or "" for row in await reader.rows(query, summary_id)]
    length = 0
    for index, text in enumerate(found):
        length += len(text)
        if length > _MOST_SOURCE:
            return found[: index + 1]
    return found


async def files_named(
    reader: Reader, conversation_id: ConversationId, after: SqlValue
) -> tuple[dict[int, tuple[str, ...]], SqlValue]:
    """File ids in the texts of the messages after a seq, and where to go on; None at the end.

    A seq as it is stored: text is behind all numbers.
    """
    rows = await reader.stored(
        f"""SELECT m.message_id, m.seq, CAST(m.content AS TEXT) AS content FROM messages AS m
        WHERE m.conversation_id = ? AND m.seq > ? AND m.content LIKE '%file\\_%' ESCAPE '\\'
        ORDER BY m.seq LIMIT {_PAGE}""",
        conversation_id,
        after,
    )
    named = {row["message_id"]: tuple(file_ids(row["content"])) for row in rows}
    return {key: ids for key, ids in named.items() if ids}, rows[-1]["seq"] if len(rows) == _PAGE else None


async def known_files(reader: Reader) -> frozenset[str]:
    """The ids of all files that the database knows, in lower case."""
    if not reader.schema.has("large_files"):
        return frozenset()
    rows = await reader.rows(
        "SELECT lower(CAST(file_id AS TEXT)) AS id FROM large_files WHERE file_id IS NOT NULL"
    )
    return frozenset(row["id"] for row in rows)
