"""What a view of the summary DAG reads: its first rows, the way to one summary, and what is around one.

The first rows cost one walk over a context's references; everything else is read for the summaries in sight.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from lcm_core.base.records import ConversationId, Edge, Message, MessageId, Summary, SummaryId, SummaryText
from lcm_core.base.text import fold, sought_as
from lcm_core.base.values import Record
from lcm_core.engine.graph import SummaryGraph
from lcm_core.store import messages as message_store
from lcm_core.store import summaries as store
from lcm_core.store.database import Reader
from lcm_core.store.opening import CHUNK, Rows, as_text, contains_pattern, may_hold
from lcm_core.store.summaries import SummaryEntry

#: Characters of a message that a line of a list reads.
HEAD = 300
#: Edges that are followed upward in search of a summary's consumers; the whole graph finds the rest.
WAY_LIMIT = 2_000


class ContextSummary(Record, frozen=True):
    """A summary that a context refers to."""

    summary_id: SummaryId
    ordinal: int
    present: bool  #: whether this conversation has its row; else it dangles (A2) or is another's (A5)
    consumed: bool  #: whether something was made from it, so that it is shown below that


class TreeOpening(Record, frozen=True):
    """The first rows of a tree, and the way down to a summary that was asked for."""

    context: tuple[ContextSummary, ...]  #: by ordinal
    sources: Mapping[SummaryId, tuple[SummaryId, ...]]  #: of every summary that is to be unfolded
    way: tuple[SummaryId, ...]  #: from a root in the context to the one asked for; empty: none was found


class WholeTree(Record, frozen=True):
    """The references of a context, and the whole graph."""

    context: tuple[ContextSummary, ...]  #: by ordinal
    fingerprint: str
    graph: SummaryGraph | None  #: None: it is as it was


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


async def context_summaries(reader: Reader, conversation_id: ConversationId) -> tuple[ContextSummary, ...]:
    """The summaries that a context refers to, by ordinal, with what distinguishes roots from the rest."""
    if not reader.schema.has("context_items") or not reader.schema.has("summaries"):
        return ()
    consumed = "0"
    if reader.schema.has("summary_parents"):
        consumed = "c.summary_id IN (SELECT parent_summary_id FROM summary_parents)"
    owner = "(SELECT s.conversation_id FROM summaries AS s WHERE s.summary_id = c.summary_id)"
    rows = await reader.rows(
        f"""SELECT c.summary_id, c.ordinal, {owner} IS c.conversation_id AS present,
        {consumed} AS consumed
        FROM context_items AS c
        WHERE c.conversation_id = ? AND c.summary_id IS NOT NULL ORDER BY c.ordinal""",
        conversation_id,
    )
    return tuple(
        ContextSummary(
            SummaryId(row["summary_id"]), row["ordinal"], bool(row["present"]), bool(row["consumed"])
        )
        for row in rows
    )


async def open_tree(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    select: SummaryId | None = None,
    unfolded: Iterable[SummaryId] = (),
) -> TreeOpening:
    """The first rows of a tree, with the sources of what is *unfolded* and the way to *select*."""
    context = await context_summaries(reader, conversation_id)
    way: tuple[SummaryId, ...] = ()
    if select is not None:
        roots = {held.summary_id for held in context if held.present and not held.consumed}
        way = SummaryGraph.build((), await _edges_above(reader, select), ()).way_down(select, roots)
    sources = await sources_in(reader, dict.fromkeys((*unfolded, *way[:-1])))
    return TreeOpening(context, sources, way)


async def whole_tree(reader: Reader, conversation_id: ConversationId, *, known: str = "") -> WholeTree:
    """The references of the context and the whole graph, both of one moment.

    *known* is the fingerprint of what was read before: as long as it holds, the graph is not read again.
    """
    context = await context_summaries(reader, conversation_id)
    fingerprint = await _fingerprint(reader, conversation_id, context)
    graph = None if fingerprint == known else await store.load_graph(reader, conversation_id)
    return WholeTree(context, fingerprint, graph)


async def _fingerprint(
    reader: Reader, conversation_id: ConversationId, context: Iterable[ContextSummary]
) -> str:
    """Another one when the graph may have changed; made within SQLite, many times faster than reading it."""
    made: str | None = ""
    edges: str | None = ""
    if reader.schema.has("summaries"):
        depth = "depth" if reader.schema.has("summaries", "depth") else "''"
        made = await reader.value(
            f"""SELECT group_concat(said) FROM (SELECT rowid || kind || ifnull({depth}, '') AS said
            FROM summaries WHERE conversation_id = ?)""",
            conversation_id,
        )
    if reader.schema.has("summary_parents") and reader.schema.has("summaries"):
        edges = await reader.run(_edges_of, conversation_id, (made or "").count(",") + 1)
    return await asyncio.to_thread(_digest, made or "", edges or "", tuple(context))


def _edges_of(db: Rows, conversation_id: ConversationId, summaries: int) -> str | None:
    said = "e.summary_id || ' ' || e.parent_summary_id || ' ' || e.ordinal"
    if store.few_others(db, "summary_parents", summaries):
        [(edges,)] = db.tuples(f"SELECT group_concat({said}) FROM summary_parents AS e")
    else:
        [(edges,)] = db.tuples(
            f"""SELECT group_concat({said}) FROM summaries AS s
            CROSS JOIN summary_parents AS e ON e.summary_id = s.summary_id WHERE s.conversation_id = ?""",
            (conversation_id,),
        )
    return None if edges is None else str(edges)


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def _edges_above(reader: Reader, summary_id: SummaryId) -> list[Edge]:
    """The edges between a summary and everything that was made from it, near ones first."""
    if not reader.schema.has("summary_parents"):
        return []
    rows = await reader.rows(
        f"""WITH RECURSIVE above(id) AS (
            SELECT ? UNION SELECT e.summary_id FROM above CROSS JOIN summary_parents AS e
            ON e.parent_summary_id = above.id LIMIT {WAY_LIMIT})
        SELECT e.summary_id, e.parent_summary_id, e.ordinal
        FROM above CROSS JOIN summary_parents AS e ON e.parent_summary_id = above.id""",
        summary_id,
    )
    return [Edge(row["summary_id"], row["parent_summary_id"], row["ordinal"]) for row in rows]


async def sources_in(
    reader: Reader, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, tuple[SummaryId, ...]]:
    """What each of some summaries was condensed from, in order; every one asked for has an answer."""
    found: dict[SummaryId, dict[SummaryId, None]] = {summary_id: {} for summary_id in summary_ids}
    for edge in await store.edges_of(reader, list(found)):
        found[edge.consumer][edge.source] = None
    return {summary_id: tuple(sources) for summary_id, sources in found.items()}


async def messages_under(
    reader: Reader, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, tuple[SourceMessage, ...]]:
    """The messages that each of some leaves was made from, in order; every one asked for has an answer."""
    found: dict[SummaryId, list[SourceMessage]] = {summary_id: [] for summary_id in summary_ids}
    if not reader.schema.has("summary_messages"):
        return dict.fromkeys(found, ())
    columns = reader.schema.select(
        "messages", [name for name in message_store.COLUMNS if name != "message_id"], "m"
    )
    rows = await reader.rows_in(
        f"""SELECT link.summary_id, link.message_id, m.message_id IS NOT NULL AS present, {columns},
        CAST(substr(m.content, 1, {HEAD}) AS TEXT) AS content
        FROM summary_messages AS link LEFT JOIN messages AS m ON m.message_id = link.message_id
        WHERE link.summary_id IN (?*) ORDER BY link.summary_id, link.ordinal, link.rowid""",
        list(found),
    )
    silent = [row["message_id"] for row in rows if row["present"] and not (row["content"] or "").strip()]
    parts = await _part_heads(reader, silent)
    for row in rows:
        message = message_store.message_of(row) if row["present"] else None
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

    Reads the text of all of them: for the background, never for a key press. Source: docs/recall.md.
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
