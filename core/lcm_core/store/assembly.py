"""What assembly reads: the end of a context with whole texts and parts, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lcm_core.assemble.resolve import DanglingItem, LoadedItem, LoadedMessage, LoadedSummary
from lcm_core.records import (
    ContextItem,
    ConversationId,
    LargeFile,
    SummaryId,
    SummaryText,
    Timestamp,
)
from lcm_core.store import summaries
from lcm_core.store.database import Reader
from lcm_core.store.files import COLUMNS as FILE_COLUMNS
from lcm_core.store.files import file_of
from lcm_core.store.standing import whole_messages


@dataclass(frozen=True, slots=True)
class ContextSize:
    """How many items a piece of a context holds, and where it begins and ends."""

    items: int
    summaries: int
    first_ordinal: int
    last_ordinal: int


async def context_size(reader: Reader, conversation_id: ConversationId, *, before: int) -> ContextSize:
    """Count the items of a context before an ordinal; nothing of what they refer to is read."""
    here = "FROM context_items WHERE conversation_id = ? AND ordinal < ?"
    row = await reader.row(
        # The ends are looked up in the index; beside the counts they would be compared row by row.
        f"""SELECT (SELECT min(ordinal) {here}) AS first, (SELECT max(ordinal) {here}) AS last,
        count(*) AS items, count(summary_id) AS summaries {here}""",
        *(conversation_id, before) * 3,
    )
    if row is None or not row["items"]:
        return ContextSize(0, 0, 0, 0)
    return ContextSize(row["items"], row["summaries"], row["first"], row["last"])


async def context_depths(reader: Reader, conversation_id: ConversationId, *, before: int) -> tuple[int, int]:
    """Of the summaries in a context before an ordinal: the greatest depth, and how many are no leaves."""
    depth = "s.depth" if reader.schema.has("summaries", "depth") else "(s.kind = 'condensed')"
    row = await reader.row(
        f"""SELECT max({depth}) AS deepest, sum({depth} > 0) AS condensed
        FROM context_items AS c JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = ? AND c.ordinal < ?""",
        conversation_id,
        before,
    )
    return (0, 0) if row is None else (row["deepest"] or 0, row["condensed"] or 0)


@dataclass(frozen=True, slots=True)
class ContextEnd:
    """The last items of a context, or of what stands before them."""

    items: tuple[ContextItem, ...]  #: by ordinal
    is_whole: bool  #: nothing stands before them
    tokens: int = 0  #: by their stored counts; 0 where all items were asked for


async def context_end(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    before: int | None = None,
    tokens: int = 0,
    least: int = 0,
    most: int | None = None,
) -> ContextEnd:
    """The last items before an ordinal: as many as by their stored counts are more than *tokens*.

    They are *least* items at least and *most* at most; None: all that there are.
    """
    if not reader.schema.has("context_items"):
        return ContextEnd((), is_whole=True)
    columns = reader.schema.select(
        "context_items", ("ordinal", "item_type", "message_id", "summary_id", "created_at"), "c"
    )
    counts = "" if most is None else "CAST(coalesce(s.token_count, m.token_count, 0) AS INTEGER)"
    rows = await reader.rows(
        f"""SELECT c.ordinal, c.item_type, c.message_id, c.summary_id,
        c.created_at, {counts or "0"} AS tokens
        FROM (SELECT {columns} FROM context_items AS c
            WHERE c.conversation_id = ? {"" if before is None else "AND c.ordinal < ?"}
            ORDER BY c.ordinal DESC {"" if most is None else f"LIMIT {most}"}) AS c
        {_COUNTED if counts else ""} ORDER BY c.ordinal DESC""",
        conversation_id,
        *(() if before is None else (before,)),
    )
    sums = list(accumulate([row[-1] for row in rows]))
    filling = next((items for items, spent in enumerate(sums, 1) if spent > tokens), len(rows))
    taken = rows if most is None else rows[: max(least, filling)]
    items = [
        ContextItem(ordinal, item_type or "", message_id, summary_id, created_at or Timestamp(""))
        for ordinal, item_type, message_id, summary_id, created_at, _ in reversed(taken)
    ]
    is_whole = len(taken) == len(rows) and (most is None or len(rows) < most)
    return ContextEnd(tuple(items), is_whole, sums[len(taken) - 1] if taken else 0)


_COUNTED = """LEFT JOIN messages AS m ON m.message_id = c.message_id
        LEFT JOIN summaries AS s ON s.summary_id = c.summary_id"""


async def stored_items(
    reader: Reader, items: Sequence[ContextItem], *, payloads: bool = False
) -> list[LoadedItem]:
    """What some context items stand for, whole, in their order; *payloads* with the files of tool results."""
    message_ids = [item.message_id for item in items if item.message_id is not None]
    held = {one[0].message_id: one for one in await whole_messages(reader, message_ids)}
    names = [one.large_content for one, _ in held.values() if one.large_content] if payloads else ()
    files = await _files(reader, names)
    summary_ids = [item.summary_id for item in items if item.summary_id is not None]
    texts = {one.summary.summary_id: one for one in await summaries.texts_of(reader, summary_ids)}
    sources = await _standing_sources(reader, texts)
    found: list[LoadedItem] = []
    for item in items:
        if item.summary_id is not None:
            text = texts.get(item.summary_id)
            below = tuple(sources.get(item.summary_id, ()))
            gone = DanglingItem(item.ordinal, f"summary {item.summary_id}")
            found.append(gone if text is None else LoadedSummary(item.ordinal, text, below))
        elif item.message_id is not None and item.message_id in held:
            message, parts = held[item.message_id]
            found.append(LoadedMessage(item.ordinal, message, parts, files.get(message.large_content or "")))
        else:
            found.append(DanglingItem(item.ordinal, f"message {item.message_id}"))
    return found


async def tool_rows_before(
    reader: Reader, conversation_id: ConversationId, call_ids: Sequence[str], *, before: int
) -> list[LoadedMessage]:
    """Messages of a context before an ordinal that may be results of some calls: their parts name one.

    What only an escape in the metadata's JSON hides is not found.
    """
    if not call_ids or not reader.schema.has("message_parts"):
        return []
    named = " OR ".join(["instr(p.metadata, ?)"] * len(call_ids))
    marks = ", ".join("?" * len(call_ids))
    rows = await reader.rows(
        f"""SELECT DISTINCT CAST(c.ordinal AS INTEGER), c.message_id FROM context_items AS c
        JOIN message_parts AS p ON p.message_id = c.message_id
        WHERE c.conversation_id = ? AND c.ordinal < ? AND (p.tool_call_id IN ({marks}) OR {named})""",
        conversation_id,
        before,
        *call_ids,
        *call_ids,
    )
    items = [ContextItem(ordinal, "message", key, None, Timestamp("")) for ordinal, key in rows]
    return [one for one in await stored_items(reader, items) if isinstance(one, LoadedMessage)]


async def history_tokens(reader: Reader, conversation_id: ConversationId) -> int:
    """Stored tokens of everything that was ever said; reads past every text, so not for a first page."""
    return int(
        await reader.value(
            "SELECT CAST(total(token_count) AS INTEGER) FROM messages WHERE conversation_id = ?",
            conversation_id,
        )
        or 0
    )


async def raw_tokens_before(reader: Reader, conversation_id: ConversationId, ordinal: int | None) -> int:
    """Stored tokens of the raw messages that stand in a context before an ordinal (None: of all)."""
    if not reader.schema.has("context_items"):
        return 0
    return int(
        await reader.value(
            f"""SELECT CAST(total(m.token_count) AS INTEGER)
            FROM context_items AS c JOIN messages AS m ON m.message_id = c.message_id
            WHERE c.conversation_id = ? {"" if ordinal is None else "AND c.ordinal < ?"}""",
            conversation_id,
            *(() if ordinal is None else (ordinal,)),
        )
        or 0
    )


async def _standing_sources(
    reader: Reader, texts: dict[SummaryId, SummaryText]
) -> dict[SummaryId, list[SummaryId]]:
    """The sources that have a row, of the condensed ones, in the order of condensation."""
    condensed = [key for key, one in texts.items() if one.summary.kind == "condensed"]
    if not condensed or not reader.schema.has("summary_parents"):
        return {}
    found: dict[SummaryId, list[SummaryId]] = {}
    for row in await reader.rows_in(
        """SELECT edge.summary_id AS consumer, s.summary_id AS source FROM summary_parents AS edge
        JOIN summaries AS s ON s.summary_id = edge.parent_summary_id
        WHERE edge.summary_id IN (?*) ORDER BY edge.ordinal, edge.rowid""",
        condensed,
    ):
        found.setdefault(row["consumer"], []).append(row["source"])
    return found


async def _files(reader: Reader, names: Sequence[str]) -> dict[str, LargeFile]:
    if not names or not reader.schema.has("large_files"):
        return {}
    rows = await reader.rows_in(
        f"""SELECT {reader.schema.select("large_files", FILE_COLUMNS, "f")} FROM large_files AS f
        WHERE f.file_id IN (?*)""",
        names,
    )
    return {row["file_id"]: file_of(row) for row in rows}
