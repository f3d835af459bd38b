"""The context of a conversation: what the model sees, in order.

It is read in three layers, since a context may hold tens of thousands of items: the items (which row stands
where), weights (tokens and role of what they name, by pages), and entries (with a preview, for the rows in
sight).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern

from lcm_core.assemble.rebuild import tokens_as_sent
from lcm_core.context_items import ContextItems, ItemId
from lcm_core.records import ContextItem, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.store.connecting import Row
from lcm_core.store.database import Reader
from lcm_core.store.standing import whole_messages
from lcm_core.tokens import (
    Estimator,
    TokenCheck,
    Verdict,
    check_message_tokens,
    estimate_weighted,
    estimator_of,
)

#: Characters of an item that the list reads.
HEAD = 300
#: Characters from which counting tokens is worth a thread.
LONG = 50_000


@dataclass(frozen=True, slots=True)
class Weight:
    """What sums over a context need to know of a message or summary."""

    tokens: int  #: stored estimate
    role: str | None  #: of a message
    depth: int | None  #: of a summary
    conversation_id: ConversationId


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """A context item with what it stands for; the fields of a dangling item are None."""

    item: ContextItem
    tokens: int | None  #: stored estimate of the message or summary; None when its row is gone
    role: str | None  #: of a message
    seq: int | None  #: of a message
    kind: str | None  #: of a summary
    depth: int | None  #: of a summary
    conversation_id: ConversationId | None  #: whose row it is; another one than the context's is damage (A5)
    said_at: Timestamp | None  #: a message's time, or the newest time a summary covers
    preview: str

    @property
    def is_summary(self) -> bool:
        """Whether the item stands for a summary."""
        return self.item.summary_id is not None

    @property
    def dangling(self) -> bool:
        """Whether the row it refers to is gone: the engine skips such an item silently."""
        return self.tokens is None

    @property
    def weight(self) -> Weight | None:
        """What sums need of it; None when its row is gone."""
        if self.tokens is None or self.conversation_id is None:
            return None
        return Weight(self.tokens, self.role, self.depth, self.conversation_id)


async def context_items(
    reader: Reader, conversation_id: ConversationId, *, limit: int | None = None
) -> ContextItems:
    """All items of a context by ordinal, or the first *limit* of them; nothing of what they name."""
    if not reader.schema.has("context_items"):
        return ContextItems()
    return await _rows_from(reader, conversation_id, None, limit, "")


async def items_now(reader: Reader, conversation_id: ConversationId, known: ContextItems) -> ContextItems:
    """All items of a context that is read again and again.

    What is *known* is given back as it is when the list has not changed, and is gone on with when items were
    only appended: a list under a busy host is not read again and again.
    """
    if not reader.schema.has("context_items"):
        return ContextItems()
    signature = await _signature(reader, conversation_id)
    if not known.complete or not known.signature:
        return await _rows_from(reader, conversation_id, None, None, signature)
    if signature == known.signature:
        return known
    if signature.startswith(f"{known.signature}\n"):
        return known.then(await _rows_from(reader, conversation_id, known.ordinals[-1], None, signature))
    return await _rows_from(reader, conversation_id, None, None, signature)


async def weights_of(reader: Reader, ids: Sequence[ItemId]) -> dict[ItemId, Weight | None]:
    """What some items weigh; None: the row is gone."""
    found: dict[ItemId, Weight | None] = dict.fromkeys(ids)
    messages = [one for one in ids if isinstance(one, int)]
    for row in await reader.rows_in(
        """SELECT message_id, conversation_id, role, CAST(token_count AS INTEGER) AS tokens
        FROM messages WHERE message_id IN (?*)""",
        messages,
    ):
        message_id, owner, role, tokens = row
        found[message_id] = Weight(tokens or 0, role, None, owner)
    summaries = [one for one in ids if isinstance(one, str)]
    if summaries and reader.schema.has("summaries"):
        depth = "CAST(s.depth AS INTEGER)" if reader.schema.has("summaries", "depth") else "0"
        for row in await reader.rows_in(
            f"""SELECT s.summary_id, s.conversation_id, {depth} AS depth,
            CAST(s.token_count AS INTEGER) AS tokens FROM summaries AS s WHERE s.summary_id IN (?*)""",
            summaries,
        ):
            found[row["summary_id"]] = Weight(
                row["tokens"] or 0, None, row["depth"] or 0, row["conversation_id"]
            )
    return found


async def tokens_of(reader: Reader, refs: Iterable[object]) -> int:
    """The stored tokens of what some items name, as often as it is named; what is gone counts none."""
    ids: list[ItemId] = [
        SummaryId(ref) if isinstance(ref, str) else MessageId(ref)
        for ref in refs
        if isinstance(ref, int | str)
    ]
    weights = await weights_of(reader, ids)
    return sum(weight.tokens for one in ids if (weight := weights.get(one)))


async def entries_of(reader: Reader, items: Sequence[ContextItem]) -> list[ContextEntry]:
    """Some items with what they stand for, in the order given."""
    messages = {
        row["message_id"]: row
        for row in await reader.rows_in(
            f"""SELECT message_id, conversation_id, seq, role, created_at,
            CAST(token_count AS INTEGER) AS token_count, {_head("content")} AS head
            FROM messages WHERE message_id IN (?*)""",
            dict.fromkeys(item.message_id for item in items if item.message_id is not None),
        )
    }
    texts = await _part_heads(
        reader, [key for key, row in messages.items() if not (row["head"] or "").strip()]
    )
    summaries = await _summary_rows(
        reader, list(dict.fromkeys(item.summary_id for item in items if item.summary_id is not None))
    )
    return [
        _summary_entry(item, summaries.get(item.summary_id))
        if item.summary_id is not None
        else _message_entry(item, messages.get(item.message_id), texts)
        for item in items
    ]


async def check_tokens(reader: Reader, item: ItemId) -> TokenCheck | None:
    """Count what stands behind an item anew and compare (docs/engine/tokens.md, "What is counted"); None when
    the row is gone.

    Reads the whole text of one message or summary.
    """
    if isinstance(item, str):
        return await _check_summary(reader, item)
    row = await reader.row(
        """SELECT CAST(token_count AS INTEGER) AS tokens, CAST(content AS TEXT) AS content
        FROM messages WHERE message_id = ?""",
        item,
    )
    if row is None:
        return None
    metadata: list[str | None] = []
    if reader.schema.has("message_parts"):
        parts = await reader.rows(
            f"""SELECT {reader.schema.select("message_parts", ("metadata",), "p")}
            FROM message_parts AS p WHERE p.message_id = ? ORDER BY p.ordinal""",
            item,
        )
        metadata = [part["metadata"] if isinstance(part["metadata"], str) else None for part in parts]
    content, stored = row["content"] or "", row["tokens"] or 0
    check = await asyncio.to_thread(check_message_tokens, stored, content, metadata)
    if check.verdict is Verdict.DIFFERS and isinstance(item, int):
        for message, whole in await whole_messages(reader, [item]):
            sent = await asyncio.to_thread(tokens_as_sent, message, whole)
            if sent == stored:
                return TokenCheck(Verdict.FITS, Estimator.WEIGHTED, weighted=sent)
    return check


async def standing_sources(reader: Reader, summary_id: SummaryId) -> list[SummaryId]:
    """The sources of a summary that have a row, in the order of condensation: its wrapper names them."""
    if not (reader.schema.has("summary_parents") and reader.schema.has("summaries")):
        return []
    rows = await reader.rows(
        """SELECT s.summary_id FROM summary_parents AS edge
        JOIN summaries AS s ON s.summary_id = edge.parent_summary_id
        WHERE edge.summary_id = ? ORDER BY edge.ordinal, edge.rowid""",
        summary_id,
    )
    return [SummaryId(row["summary_id"]) for row in rows]


# -- items -----------------------------------------------------------------------------------------------


async def _signature(reader: Reader, conversation_id: ConversationId) -> str:
    """The whole list as one text, made within one statement: the interpreter is free meanwhile."""
    found = await reader.value(
        """SELECT group_concat(ordinal || ' ' || item_type || ' ' || ifnull(message_id, '') || ' '
        || ifnull(summary_id, ''), char(10))
        FROM (SELECT * FROM context_items WHERE conversation_id = ? ORDER BY ordinal)""",
        conversation_id,
    )
    return str(found or "")


async def _rows_from(
    reader: Reader, conversation_id: ConversationId, after: int | None, limit: int | None, signature: str
) -> ContextItems:
    columns = reader.schema.select(
        "context_items", ("item_type", "message_id", "summary_id", "created_at"), "c"
    )
    rows = await reader.rows(
        f"""SELECT c.ordinal, {columns} FROM context_items AS c
        WHERE c.conversation_id = ? {"" if after is None else "AND c.ordinal > ?"}
        ORDER BY c.ordinal {"" if limit is None else f"LIMIT {limit + 1}"}""",
        conversation_id,
        *(() if after is None else (after,)),
    )
    more = limit is not None and len(rows) > limit
    if len(rows) < LONG // 10:
        return _columns(rows[:limit], not more, signature)
    return await asyncio.to_thread(_columns, rows[:limit], not more, signature)


def _columns(rows: Sequence[Row], complete: bool, signature: str) -> ContextItems:
    ordinals, types, messages, summaries, created = zip(*rows, strict=True) if rows else [()] * 5
    made = tuple([one or Timestamp("") for one in created])
    return ContextItems(
        ordinals, tuple(map(intern, map(str, types))), messages, summaries, made, complete, signature
    )


# -- entries ---------------------------------------------------------------------------------------------


def _head(expression: str) -> str:
    """SQL: the beginning of a text, also where a program has stored bytes in its place."""
    return f"CAST(substr({expression}, 1, {HEAD}) AS TEXT)"


async def _summary_rows(reader: Reader, ids: Sequence[SummaryId]) -> Mapping[str, Row]:
    if not ids or not reader.schema.has("summaries"):
        return {}
    columns = reader.schema.select(
        "summaries", ("summary_id", "conversation_id", "kind", "latest_at", "created_at"), "s"
    )
    depth = "CAST(s.depth AS INTEGER)" if reader.schema.has("summaries", "depth") else "0"
    rows = await reader.rows_in(
        f"""SELECT {columns}, {depth} AS depth, CAST(s.token_count AS INTEGER) AS token_count,
        {_head("s.content")} AS head FROM summaries AS s WHERE s.summary_id IN (?*)""",
        ids,
    )
    return {row["summary_id"]: row for row in rows}


def _summary_entry(item: ContextItem, row: Row | None) -> ContextEntry:
    if row is None:
        return ContextEntry(item, None, None, None, None, None, None, None, "")
    return ContextEntry(
        item,
        tokens=row["token_count"] or 0,
        role=None,
        seq=None,
        kind=row["kind"],
        depth=row["depth"] or 0,
        conversation_id=row["conversation_id"],
        said_at=row["latest_at"] or row["created_at"],
        preview=row["head"] or "",
    )


def _message_entry(item: ContextItem, row: Row | None, texts: Mapping[int, str]) -> ContextEntry:
    if row is None:
        return ContextEntry(item, None, None, None, None, None, None, None, "")
    head = row["head"] or ""
    return ContextEntry(
        item,
        tokens=row["token_count"] or 0,
        role=row["role"],
        seq=row["seq"],
        kind=None,
        depth=None,
        conversation_id=row["conversation_id"],
        said_at=row["created_at"],
        preview=head if head.strip() else texts.get(row["message_id"], ""),
    )


async def _part_heads(reader: Reader, message_ids: Sequence[int]) -> dict[int, str]:
    """What stands in the parts of messages whose own text is blank (tool calls, results)."""
    if not message_ids or not reader.schema.has("message_parts"):
        return {}
    text = "coalesce(nullif(text_content, ''), tool_output, tool_input, '')"
    rows = await reader.rows_in(
        f"""SELECT message_id, tool_name, {_head(text)} AS head
        FROM message_parts WHERE message_id IN (?*) ORDER BY message_id, ordinal""",
        message_ids,
    )
    found: dict[int, str] = {}
    for row in rows:
        text = f"{row['tool_name']}: {row['head']}" if row["tool_name"] else row["head"]
        found[row["message_id"]] = f"{found.get(row['message_id'], '')} {text}".strip()
    return found


# -- tokens ----------------------------------------------------------------------------------------------


async def _check_summary(reader: Reader, summary_id: SummaryId) -> TokenCheck | None:
    if not reader.schema.has("summaries"):
        return None
    row = await reader.row(
        """SELECT CAST(token_count AS INTEGER) AS tokens, CAST(content AS TEXT) AS content
        FROM summaries WHERE summary_id = ?""",
        summary_id,
    )
    if row is None:
        return None
    content, stored = row["content"] or "", row["tokens"] or 0
    if len(content) < LONG:
        return _checked(content, stored)
    return await asyncio.to_thread(_checked, content, stored)


def _checked(content: str, stored: int) -> TokenCheck:
    estimator = estimator_of(content, stored)
    verdict = Verdict.DIFFERS if estimator is None else Verdict.FITS
    return TokenCheck(verdict, estimator, weighted=estimate_weighted(content))
