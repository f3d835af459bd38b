"""The context of a conversation: what the model sees, in order.

Its items say which row is where, its entries what is in it and how that begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from sys import intern
from typing import NamedTuple, TypeAlias, cast

from lcm_core.base.records import (
    ContextItem,
    ContextItems,
    ConversationId,
    ItemId,
    MessageId,
    SummaryId,
    Timestamp,
)
from lcm_core.base.tokens import (
    Estimator,
    TokenCheck,
    Verdict,
    check_message_tokens,
    estimate_weighted,
    estimator_of,
)
from lcm_core.base.values import Record
from lcm_core.engine.blocks import tokens_as_sent
from lcm_core.engine.items import DanglingItem, LoadedItem, LoadedMessage, LoadedSummary
from lcm_core.engine.markers import beginning
from lcm_core.store.database import Reader
from lcm_core.store.messages import ContextMessage, files_by_id, whole_messages
from lcm_core.store.opening import Row, Rows
from lcm_core.store.rows import StoredRow, whole_rows
from lcm_core.store.schema import NO_MESSAGE, Schema
from lcm_core.store.summaries import texts_of

#: Characters of an item that the list reads.
HEAD = 300


class Weight(Record, frozen=True):
    """What sums over a context need to know of a message or summary."""

    tokens: int  #: stored estimate
    role: str | None  #: of a message
    depth: int | None  #: of a summary
    conversation_id: ConversationId


class ContextEntry(Record, frozen=True):
    """A context item with what it refers to; the fields of a dangling item are None."""

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
        """Whether the item is a summary."""
        return self.item.summary_id is not None

    @property
    def beginning(self) -> str:
        """What tells it from others in a list: of a summary, its preview behind what summaries open with."""
        return beginning(self.preview) if self.is_summary else self.preview

    @property
    def dangling(self) -> bool:
        """Whether the row it refers to is gone: the engine skips such an item silently."""
        return self.tokens is None

    @property
    def as_message(self) -> ContextMessage | None:
        """What the rule of the fresh tail needs of a message; None: it is none, or its row is gone."""
        item = self.item
        if self.tokens is None or item.message_id is None or item.summary_id is not None:
            return None
        return ContextMessage(item.message_id, item.ordinal, self.role or "", self.tokens)

    @property
    def weight(self) -> Weight | None:
        """What sums need of it; None when its row is gone."""
        if self.tokens is None or self.conversation_id is None:
            return None
        return Weight(self.tokens, self.role, self.depth, self.conversation_id)


async def context_items(reader: Reader, conversation_id: ConversationId) -> ContextItems:
    """All items of a context by ordinal; nothing of what they name."""
    if not reader.schema.has("context_items"):
        return ContextItems()
    columns = reader.schema.select(
        "context_items", ("item_type", "message_id", "summary_id", "created_at"), "c"
    )
    rows = await reader.rows(
        f"SELECT c.ordinal, {columns} FROM context_items AS c WHERE c.conversation_id = ? ORDER BY c.ordinal",
        conversation_id,
    )
    ordinals, types, messages, summaries, created = zip(*rows, strict=True) if rows else [()] * 5
    made = tuple([one or Timestamp("") for one in created])
    return ContextItems(ordinals, tuple(map(intern, map(str, types))), messages, summaries, made)


def weights_by_id(db: Rows, schema: Schema, ids: Iterable[object]) -> dict[ItemId, Weight]:
    """What the messages and summaries among some ids weigh; one whose row is gone has no weight."""
    found: dict[ItemId, Weight] = {}
    named = list(ids)
    messages = [one for one in named if isinstance(one, int)]
    if messages and schema.has("messages", "token_count"):
        for message_id, owner, role, tokens in db.rows_in(
            """SELECT message_id, conversation_id, role, CAST(token_count AS INTEGER)
            FROM messages WHERE message_id IN (?*)""",
            messages,
        ):
            found[message_id] = Weight(tokens or 0, role, None, owner)
    summaries = [one for one in named if isinstance(one, str)]
    if summaries and schema.has("summaries", "token_count"):
        depth = "CAST(depth AS INTEGER)" if schema.has("summaries", "depth") else "0"
        for summary_id, owner, deep, tokens in db.rows_in(
            f"""SELECT summary_id, conversation_id, {depth}, CAST(token_count AS INTEGER)
            FROM summaries WHERE summary_id IN (?*)""",
            summaries,
        ):
            found[summary_id] = Weight(tokens or 0, None, deep or 0, owner)
    return found


async def stored_tokens(reader: Reader, refs: Iterable[object]) -> int:
    """The stored tokens of what some items name, as often as it is named; what is gone counts none."""
    ids: list[ItemId] = [
        SummaryId(ref) if isinstance(ref, str) else MessageId(ref)
        for ref in refs
        if isinstance(ref, int | str)
    ]
    weights = await reader.run(weights_by_id, reader.schema, ids)
    return sum(weight.tokens for one in ids if (weight := weights.get(one)))


async def context_entries(reader: Reader, items: Sequence[ContextItem]) -> list[ContextEntry]:
    """Some items with what they refer to, in the order given."""
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
    """Count again what an item refers to, as `checked_tokens`; None when the row is gone."""
    return (await checked_tokens(reader, [item])).get(item)


async def checked_tokens(reader: Reader, items: Iterable[ItemId]) -> dict[ItemId, TokenCheck]:
    """Count again what items refer to and compare (docs/spec/tokens.md, "What is counted").

    A row that is gone is left out. Reads the whole texts of the messages and summaries.
    """
    wanted = list(dict.fromkeys(items))
    messages = await _checked_messages(reader, [item for item in wanted if isinstance(item, int)])
    summaries = await _checked_summaries(reader, [item for item in wanted if isinstance(item, str)])
    return {**messages, **summaries}


async def _checked_messages(reader: Reader, items: Sequence[MessageId]) -> dict[ItemId, TokenCheck]:
    if not items:
        return {}
    rows = await reader.rows_in(
        """SELECT message_id, CAST(token_count AS INTEGER) AS tokens, CAST(content AS TEXT) AS content
        FROM messages WHERE message_id IN (?*)""",
        items,
    )
    metadata: dict[int, list[str | None]] = {row["message_id"]: [] for row in rows}
    if reader.schema.has("message_parts"):
        for part in await reader.rows_in(
            f"""SELECT p.message_id, {reader.schema.select("message_parts", ("metadata",), "p")}
            FROM message_parts AS p WHERE p.message_id IN (?*) ORDER BY p.message_id, p.ordinal""",
            list(metadata),
        ):
            told = part["metadata"]
            metadata[part["message_id"]].append(told if isinstance(told, str) else None)
    counted = [
        (MessageId(row["message_id"]), row["tokens"] or 0, row["content"] or "", metadata[row["message_id"]])
        for row in rows
    ]
    found = await asyncio.to_thread(_check_messages, counted)
    stored = {item: tokens for item, tokens, _, _ in counted if found[item].verdict is Verdict.DIFFERS}
    for message, parts in await whole_messages(reader, list(stored)) if stored else ():
        sent = await asyncio.to_thread(tokens_as_sent, message, parts)
        if sent == stored[message.message_id]:
            found[message.message_id] = TokenCheck(Verdict.FITS, Estimator.WEIGHTED, weighted=sent)
    return found


def _check_messages(
    counted: Iterable[tuple[MessageId, int, str, Sequence[str | None]]],
) -> dict[ItemId, TokenCheck]:
    return {
        item: check_message_tokens(stored, content, metadata) for item, stored, content, metadata in counted
    }


async def _checked_summaries(reader: Reader, items: Sequence[SummaryId]) -> dict[ItemId, TokenCheck]:
    if not items or not reader.schema.has("summaries"):
        return {}
    rows = await reader.rows_in(
        """SELECT summary_id, CAST(token_count AS INTEGER) AS tokens, CAST(content AS TEXT) AS content
        FROM summaries WHERE summary_id IN (?*)""",
        items,
    )
    counted = [(SummaryId(row["summary_id"]), row["tokens"] or 0, row["content"] or "") for row in rows]
    return await asyncio.to_thread(_check_summaries, counted)


def _check_summaries(counted: Iterable[tuple[SummaryId, int, str]]) -> dict[ItemId, TokenCheck]:
    found: dict[ItemId, TokenCheck] = {}
    for item, stored, content in counted:
        estimator = estimator_of(content, stored)
        verdict = Verdict.DIFFERS if estimator is None else Verdict.FITS
        found[item] = TokenCheck(verdict, estimator, weighted=estimate_weighted(content))
    return found


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
    """What is in the parts of messages whose own text is blank (tool calls, results)."""
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


# -- what assembly reads: the end of a context, whole --------------------------------------------------


class ContextSize(Record, frozen=True):
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


class ContextEnd(Record, frozen=True):
    """The last items of a context, or of what is before them."""

    items: tuple[ContextItem, ...]  #: by ordinal
    is_whole: bool  #: nothing is before them


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
    counts = "0" if most is None else f"CAST(coalesce({_SUMMARY_TOKENS}, {_MESSAGE_TOKENS}, 0) AS INTEGER)"
    rows = await reader.rows(
        f"""SELECT c.ordinal, c.item_type, c.message_id, c.summary_id,
        c.created_at, {counts} AS tokens
        FROM (SELECT {columns} FROM context_items AS c
            WHERE c.conversation_id = ? {"" if before is None else "AND c.ordinal < ?"}
            ORDER BY c.ordinal DESC {"" if most is None else f"LIMIT {most}"}) AS c
        ORDER BY c.ordinal DESC""",
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
    return ContextEnd(tuple(items), is_whole)


# Asked for one by one, and not joined: so SQLite looks them up in what is laid over the tables, too
# (docs/spec/past.md, "How it is read").
_SUMMARY_TOKENS = "(SELECT s.token_count FROM summaries AS s WHERE s.summary_id = c.summary_id)"
_MESSAGE_TOKENS = "(SELECT m.token_count FROM messages AS m WHERE m.message_id = c.message_id)"


async def stored_items(
    reader: Reader, items: Sequence[ContextItem], *, payloads: bool = False
) -> list[LoadedItem]:
    """What some context items refer to, whole, in their order; *payloads* with the files of tool results."""
    message_ids = [item.message_id for item in items if item.message_id is not None]
    held = {one[0].message_id: one for one in await whole_messages(reader, message_ids)}
    names = [one.large_content for one, _ in held.values() if one.large_content] if payloads else ()
    files = await files_by_id(reader, names)
    summary_ids = [item.summary_id for item in items if item.summary_id is not None]
    texts = {one.summary.summary_id: one for one in await texts_of(reader, summary_ids)}
    condensed = [key for key, one in texts.items() if one.summary.kind == "condensed"]
    sources = await present_sources(reader, condensed)
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


async def raw_tokens_before(reader: Reader, conversation_id: ConversationId, ordinal: int | None) -> int:
    """Stored tokens of the raw messages in a context before an ordinal (None: of all)."""
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


async def present_sources(
    reader: Reader, summary_ids: Sequence[SummaryId]
) -> dict[SummaryId, list[SummaryId]]:
    """The sources of some summaries that have a row, in the order of condensation: wrappers name them."""
    found: dict[SummaryId, list[SummaryId]] = {}
    if not (summary_ids and reader.schema.has("summary_parents") and reader.schema.has("summaries")):
        return found
    for row in await reader.rows_in(
        """SELECT edge.summary_id AS consumer, edge.parent_summary_id AS source FROM summary_parents AS edge
        WHERE edge.summary_id IN (?*)
        AND EXISTS (SELECT 1 FROM summaries AS s WHERE s.summary_id = edge.parent_summary_id)
        ORDER BY edge.ordinal, edge.parent_summary_id""",
        summary_ids,
    ):
        found.setdefault(row["consumer"], []).append(row["source"])
    return found


async def tool_history(
    reader: Reader, conversation_id: ConversationId, summary_ids: Sequence[SummaryId], user: MessageId
) -> frozenset[SummaryId]:
    """Those of some summaries that are proven to hold nothing but tool exchanges behind a user's message.

    Source: docs/spec/assembly.md, "Summaries inside the current turn".
    """
    needed = ("summaries", "summary_parents", "summary_messages", "messages")
    if not summary_ids or not all(map(reader.schema.has, needed)):
        return frozenset()
    nodes: dict[SummaryId, _HistoryNode] = {}
    level = list(dict.fromkeys(summary_ids))
    while level:
        nodes.update(await _history_nodes(reader, conversation_id, level, user))
        below = [source for one in level if one in nodes for source in nodes[one].sources]
        level = [one for one in dict.fromkeys(below) if one not in nodes]
    proven: dict[SummaryId, _Proof] = {}
    for name in sorted(nodes, key=lambda name: nodes[name].depth):  # sources have a smaller depth, or refute
        node = nodes[name]
        under = [
            proven[source] for source in node.sources if source in proven and nodes[source].depth < node.depth
        ]
        proven[name] = _Proof(
            node.own.holds and len(under) == len(node.sources) and all(one.holds for one in under),
            node.own.answers or any(one.answers for one in under),
            node.own.results or any(one.results for one in under),
        )
    return frozenset(name for name in summary_ids if name in proven and all(proven[name]))


class _Proof(NamedTuple):
    """What is known of the messages below a summary."""

    holds: bool  #: none is of another kind, or where it may not be
    answers: bool  #: one is an assistant's
    results: bool  #: one is a tool's


class _HistoryNode(Record, frozen=True):
    depth: int
    own: _Proof  #: by the row and by the messages that are linked to it
    sources: tuple[SummaryId, ...]


async def _history_nodes(
    reader: Reader, conversation_id: ConversationId, summary_ids: Sequence[SummaryId], user: MessageId
) -> dict[SummaryId, _HistoryNode]:
    """The rows of some summaries, and what is linked to each."""
    linked = {
        row["summary_id"]: row
        for row in await reader.rows_in(
            f"""SELECT link.summary_id, count(*) AS messages,
            total(m.conversation_id = {int(conversation_id)} AND m.role IN ('assistant', 'tool')
                AND CAST(m.seq AS INTEGER) > (SELECT CAST(seq AS INTEGER) FROM messages
                    WHERE message_id = {int(user)})) AS proven,
            max(m.role = 'assistant') AS answers, max(m.role = 'tool') AS results
            FROM summary_messages AS link LEFT JOIN messages AS m ON m.message_id = link.message_id
            WHERE link.summary_id IN (?*) GROUP BY link.summary_id""",
            summary_ids,
        )
    }
    sources = await present_sources(reader, summary_ids)
    found: dict[SummaryId, _HistoryNode] = {}
    for row in await reader.rows_in(
        """SELECT summary_id, kind, CAST(depth AS INTEGER) AS depth, conversation_id
        FROM summaries WHERE summary_id IN (?*)""",
        summary_ids,
    ):
        name = row["summary_id"]
        link = linked.get(name)
        below = tuple(sources.get(name, ())) if row["kind"] == "condensed" else ()
        holds = row["conversation_id"] == conversation_id and bool(below or row["kind"] != "condensed")
        if link is None:
            own = _Proof(holds and bool(below), answers=False, results=False)
        else:
            whole = link["messages"] == link["proven"]
            own = _Proof(holds and whole, bool(link["answers"]), bool(link["results"]))
        found[name] = _HistoryNode(row["depth"] or 0, own, below)
    return found


# -- what compaction reads -----------------------------------------------------------------------------

#: An item of a context: ordinal, message id, summary id; then, of what it refers to, the conversation (None
#: where that row is gone), the stored estimate, whether a user said it (1 or 0), the depth of a summary, all
#: 0 where there is none, and of a user's row the sender as the host recorded it. Tuples as SQLite gives them:
#: of 46,000 each object that is not made saves time.
CompactionRow: TypeAlias = tuple[int, int | None, str | None, int | None, int, int, int, str | None]


async def compaction_rows(reader: Reader, conversation_id: ConversationId) -> list[CompactionRow]:
    """Every item of a context by ordinal, in one statement."""
    if not reader.schema.has("context_items"):
        return []
    depth = "CAST(s.depth AS INTEGER)" if reader.schema.has("summaries", "depth") else "0"
    has_sender = reader.schema.has("messages", "openclaw_sender_metadata")
    sender = "CASE m.role WHEN 'user' THEN CAST(m.openclaw_sender_metadata AS TEXT) END"
    rows = await reader.tuples(
        f"""SELECT CASE typeof(c.ordinal) WHEN 'integer' THEN c.ordinal ELSE -1 END,
        CASE typeof(c.message_id) WHEN 'integer' THEN c.message_id WHEN 'null' THEN NULL
            ELSE {NO_MESSAGE} END,
        CAST(c.summary_id AS TEXT),
        coalesce(s.conversation_id, m.conversation_id),
        CAST(coalesce(s.token_count, m.token_count, 0) AS INTEGER), ifnull(m.role = 'user', 0),
        ifnull({depth}, 0), {sender if has_sender else "NULL"}
        FROM context_items AS c
        LEFT JOIN messages AS m ON m.message_id = c.message_id
        LEFT JOIN summaries AS s ON s.summary_id = c.summary_id
        WHERE c.conversation_id = ? ORDER BY c.ordinal""",
        conversation_id,
    )
    return cast(list[CompactionRow], rows)


async def context_refs(reader: Reader, conversation_id: ConversationId) -> list[tuple[int, int | str | None]]:
    """Ordinal of every item and what it refers to, without a look at messages or summaries."""
    if not reader.schema.has("context_items"):
        return []
    rows = await reader.rows(
        "SELECT ordinal, message_id, summary_id FROM context_items WHERE conversation_id = ? "
        "ORDER BY ordinal",
        conversation_id,
    )
    return [(ordinal, summary_id or message_id) for ordinal, message_id, summary_id in rows]


async def context_rows(
    reader: Reader, conversation_id: ConversationId, first: int | None = None, last: int | None = None
) -> list[StoredRow]:
    """The whole rows of a context by ordinal; from *first* to *last*, both included, where they are given."""
    between = "" if first is None else "AND ordinal BETWEEN ? AND ?"
    rows = await reader.stored(
        f"SELECT * FROM context_items WHERE conversation_id = ? {between} ORDER BY ordinal",
        conversation_id,
        *(() if first is None else (first, last)),
    )
    return whole_rows(reader, "context_items", rows)
