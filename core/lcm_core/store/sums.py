"""What the list of conversations fills in behind its first page: sums that lie behind ``content``."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.summaries import broken_in


@dataclass(frozen=True, slots=True)
class ConversationSums:
    """Token sums of one conversation, and what is needed to bring them up to date."""

    conversation_id: ConversationId
    messages: int
    last_message_id: int  #: largest id among them; 0 without messages
    message_tokens: int
    context_tokens: int  #: stored estimates of all items; a dangling one counts nothing
    broken: int  #: summaries that the marker rules call bad


async def sums_of(reader: Reader, conversation_id: ConversationId) -> ConversationSums:
    """Read every message and summary of the conversation: a scan."""
    row = await reader.row(
        f"""SELECT count(*) AS messages, coalesce(max(m.message_id), 0) AS last,
        coalesce(sum({_tokens(reader, "messages", "m")}), 0) AS tokens
        FROM messages AS m WHERE m.conversation_id = ?""",
        conversation_id,
    )
    messages, last, tokens = (0, 0, 0) if row is None else (row["messages"], row["last"], row["tokens"])
    return ConversationSums(
        conversation_id,
        messages,
        last,
        tokens,
        await context_tokens(reader, conversation_id),
        len(await broken_in(reader, conversation_id)),
    )


async def sums_since(reader: Reader, known: ConversationSums) -> ConversationSums:
    """The sums after a host appended messages: only those are read.

    Rows that were changed in place are not noticed; where the count does not add up, everything is read.
    """
    row = await reader.row(
        f"""SELECT count(*) AS messages, coalesce(max(m.message_id), 0) AS last,
        coalesce(sum({_tokens(reader, "messages", "m")}), 0) AS tokens
        FROM messages AS m WHERE m.message_id > ? AND +m.conversation_id = ?""",
        known.last_message_id,
        known.conversation_id,
    )
    total = await reader.value(
        "SELECT count(*) FROM messages WHERE conversation_id = ?", known.conversation_id
    )
    if row is None or known.messages + row["messages"] != total:
        return await sums_of(reader, known.conversation_id)
    return ConversationSums(
        known.conversation_id,
        total,
        max(known.last_message_id, row["last"]),
        known.message_tokens + row["tokens"],
        await context_tokens(reader, known.conversation_id),
        known.broken,
    )


async def context_tokens(reader: Reader, conversation_id: ConversationId) -> int:
    """The stored tokens of everything that stands in the context."""
    if not reader.schema.has("context_items"):
        return 0
    summaries, counted = "", "0"
    if reader.schema.has("summaries"):
        summaries = "LEFT JOIN summaries AS s ON s.summary_id = c.summary_id"
        counted = _tokens(reader, "summaries", "s")
    total: int = await reader.value(
        f"""SELECT coalesce(sum(coalesce({_tokens(reader, "messages", "m")}, {counted}, 0)), 0)
        FROM context_items AS c LEFT JOIN messages AS m ON m.message_id = c.message_id {summaries}
        WHERE c.conversation_id = ?""",
        conversation_id,
    )
    return total


def _tokens(reader: Reader, table: str, alias: str) -> str:
    return f"{alias}.token_count" if reader.schema.has(table, "token_count") else "NULL"
