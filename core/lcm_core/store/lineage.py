"""What a view of the summary DAG reads: the whole graph, and what is around one summary.

Of texts only those of the summaries in sight are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcm_core.base.records import ConversationId, Message, MessageId, Summary, SummaryId, SummaryText
from lcm_core.base.text import fold, sought_as
from lcm_core.base.values import Record
from lcm_core.engine.graph import GraphColumns
from lcm_core.store import messages as message_store
from lcm_core.store import summaries as store
from lcm_core.store.database import Reader
from lcm_core.store.opening import CHUNK, Rows, as_text, contains_pattern, may_hold
from lcm_core.store.summaries import SummaryEntry

#: Characters of a message that a line of a list reads.
HEAD = 300


class WholeTree(Record, frozen=True):
    """The references of a context, and the whole graph."""

    ordinals: tuple[tuple[SummaryId, int], ...]  #: of the summaries in the context, in order
    columns: GraphColumns


class SourceMessage(Record, frozen=True):
    """A message that a leaf was made from."""

    message_id: MessageId
    message: Message | None  #: text cut after `HEAD` characters; None: its row is gone (B3)
    preview: str  #: the beginning of its text, or of its parts where it has none


class Relative(Record, frozen=True):
    """A source or consumer as a line."""

    summary_id: SummaryId
    ordinal: int  #: of the edge
    summary: Summary | None  #: None: its row is gone (B4)


class SummaryDetail(Record, frozen=True):
    """A summary with its text and everything that refers to it or that it refers to."""

    text: SummaryText
    entry: SummaryEntry
    sources: tuple[Relative, ...]  #: in the order of condensation
    consumers: tuple[Relative, ...]
    messages: tuple[SourceMessage, ...]  #: in the order of the chunk


async def whole_tree(reader: Reader, conversation_id: ConversationId) -> WholeTree:
    """The references of the context and the whole graph, both of one moment: 12,000 summaries take 40 ms."""
    ordinals = await store.context_ordinals(reader, conversation_id)
    return WholeTree(tuple(ordinals), await store.load_columns(reader, conversation_id))


async def messages_under(
    reader: Reader, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, tuple[SourceMessage, ...]]:
    """The messages that each of some leaves was made from, in order; every one asked for has an answer."""
    found: dict[SummaryId, list[SourceMessage]] = {summary_id: [] for summary_id in summary_ids}
    if not reader.schema.has("summary_messages"):
        return dict.fromkeys(found, ())
    head = f"substr(m.content, 1, {HEAD})"
    columns = message_store.MESSAGES.select(reader.schema, "m", message_id="link.message_id", content=head)
    rows = await reader.rows_in(
        f"""SELECT link.summary_id, m.message_id IS NOT NULL AS present, {columns}
        FROM summary_messages AS link LEFT JOIN messages AS m ON m.message_id = link.message_id
        WHERE link.summary_id IN (?*) ORDER BY link.summary_id, link.ordinal, link.rowid""",
        list(found),
    )
    silent = [row["message_id"] for row in rows if row["present"] and not (row["content"] or "").strip()]
    parts = await _part_heads(reader, silent)
    for row in rows:
        message = message_store.MESSAGES.record(row) if row["present"] else None
        text = message.content if message and message.content.strip() else parts.get(row["message_id"], "")
        found[row["summary_id"]].append(SourceMessage(MessageId(row["message_id"]), message, text))
    return {summary_id: tuple(messages) for summary_id, messages in found.items()}


async def _part_heads(reader: Reader, message_ids: Sequence[MessageId]) -> dict[MessageId, str]:
    """What is in the parts of messages whose own text is blank (tool calls, results)."""
    found: dict[MessageId, list[str]] = {}
    for part in await message_store.message_parts(reader, message_ids, head=HEAD):
        said = part.text or part.tool_output or part.tool_input or part.file_name or part.part_type
        found.setdefault(part.message_id, []).append(f"{part.tool_name}: {said}" if part.tool_name else said)
    return {message_id: " ".join(said) for message_id, said in found.items()}


async def summary_detail(reader: Reader, summary_id: SummaryId) -> SummaryDetail:
    """One summary with its text, sources, consumers and source messages.

    Raises:
        NotFoundError: no summary has this id.
    """
    text = await store.get_summary(reader, summary_id)
    [entry] = await store.entries_of_texts(reader, [text])
    sources = await store.edges_of(reader, [summary_id])
    consumers = await store.consumers_of(reader, summary_id)
    around = [edge.source for edge in sources] + [edge.consumer for edge in consumers]
    known = {found.summary_id: found for found in await store.summaries_in(reader, dict.fromkeys(around))}
    messages = await messages_under(reader, [summary_id])
    return SummaryDetail(
        text,
        entry,
        tuple(Relative(edge.source, edge.ordinal, known.get(edge.source)) for edge in sources),
        tuple(Relative(edge.consumer, edge.ordinal, known.get(edge.consumer)) for edge in consumers),
        messages[summary_id],
    )


async def summaries_with(reader: Reader, conversation_id: ConversationId, needle: str) -> list[SummaryId]:
    """The summaries of a conversation whose text holds *needle* in any spelling.

    Reads the text of all of them: for the background, never for a key press. Source: docs/spec/searching.md.
    """
    if not reader.schema.has("summaries"):
        return []
    return await reader.run(_summaries_with, conversation_id, sought_as(needle))


def _summaries_with(db: Rows, conversation_id: ConversationId, sought: str) -> list[SummaryId]:
    rows = db.tuples(
        f"""SELECT rowid, summary_id FROM summaries
        WHERE conversation_id = ? AND {may_hold("content")} ORDER BY rowid""",
        (conversation_id, contains_pattern(sought)),
    )
    names = {row: SummaryId(name) for row, name in rows}
    found: set[int] = set()
    for start in range(0, len(rows), CHUNK):
        some = [row for row, _ in rows[start : start + CHUNK]]
        texts = db.rows_in("SELECT rowid AS row, content FROM summaries WHERE rowid IN (?*)", some)
        found |= {text["row"] for text in texts if sought in fold(as_text(text["content"]))}
    return [name for row, name in names.items() if row in found]
