"""The context of a conversation: what the model sees, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_core.records import ContextItem, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.store.database import Reader, Row

#: Characters of an item that the list reads.
HEAD = 300


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


def item_of(row: Row) -> ContextItem:
    """A row of ``context_items`` as a record."""
    return ContextItem(
        ordinal=row["ordinal"],
        item_type=row["item_type"],
        message_id=None if row["message_id"] is None else MessageId(row["message_id"]),
        summary_id=None if row["summary_id"] is None else SummaryId(row["summary_id"]),
        created_at=row["created_at"] or Timestamp(""),
    )


async def context_items(reader: Reader, conversation_id: ConversationId) -> list[ContextItem]:
    """All items of a context by ordinal: references only, whatever they cost to read."""
    if not reader.schema.has("context_items"):
        return []
    columns = reader.schema.select(
        "context_items", ("ordinal", "item_type", "message_id", "summary_id", "created_at"), "c"
    )
    rows = await reader.rows(
        f"SELECT {columns} FROM context_items AS c WHERE c.conversation_id = ? ORDER BY c.ordinal",
        conversation_id,
    )
    return [item_of(row) for row in rows]


async def entries_of(reader: Reader, items: Sequence[ContextItem]) -> list[ContextEntry]:
    """Some items with what they stand for, in the order given."""
    messages = {
        row["message_id"]: row
        for row in await reader.rows_in(
            f"""SELECT message_id, conversation_id, seq, role, created_at, token_count,
            substr(content, 1, {HEAD}) AS head FROM messages WHERE message_id IN (?*)""",
            [item.message_id for item in items if item.message_id is not None],
        )
    }
    texts = await _part_heads(reader, [key for key, row in messages.items() if not row["head"].strip()])
    summaries: dict[str, Row] = {}
    if reader.schema.has("summaries"):
        columns = reader.schema.select(
            "summaries",
            ("summary_id", "conversation_id", "kind", "depth", "latest_at", "created_at", "token_count"),
            "s",
        )
        summaries = {
            row["summary_id"]: row
            for row in await reader.rows_in(
                f"""SELECT {columns}, substr(s.content, 1, {HEAD}) AS head
                FROM summaries AS s WHERE s.summary_id IN (?*)""",
                [item.summary_id for item in items if item.summary_id is not None],
            )
        }
    return [
        _summary_entry(item, summaries.get(item.summary_id))
        if item.summary_id is not None
        else _message_entry(item, messages.get(item.message_id), texts)
        for item in items
    ]


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


def _message_entry(item: ContextItem, row: Row | None, texts: dict[int, str]) -> ContextEntry:
    if row is None:
        return ContextEntry(item, None, None, None, None, None, None, None, "")
    return ContextEntry(
        item,
        tokens=row["token_count"] or 0,
        role=row["role"],
        seq=row["seq"],
        kind=None,
        depth=None,
        conversation_id=row["conversation_id"],
        said_at=row["created_at"],
        preview=row["head"] if row["head"].strip() else texts.get(row["message_id"], ""),
    )


async def _part_heads(reader: Reader, message_ids: Sequence[int]) -> dict[int, str]:
    """What stands in the parts of messages whose own text is blank (tool calls, results)."""
    if not message_ids or not reader.schema.has("message_parts"):
        return {}
    rows = await reader.rows_in(
        f"""SELECT message_id, tool_name, substr(coalesce(nullif(text_content, ''), tool_output, tool_input, ''),
        1, {HEAD}) AS head FROM message_parts WHERE message_id IN (?*) ORDER BY message_id, ordinal""",
        message_ids,
    )
    found: dict[int, str] = {}
    for row in rows:
        text = f"{row['tool_name']}: {row['head']}" if row["tool_name"] else row["head"]
        found[row["message_id"]] = f"{found.get(row['message_id'], '')} {text}".strip()
    return found
