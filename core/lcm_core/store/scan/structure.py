"""Reads a conversation without its texts, for the checks (families A, B, D).

Columns hold what their type promises only as long as nobody else wrote to them, so every value is cast.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence

from lcm_core.dag.checks.facts import ROLES, Links, MessageColumns, Node, Structure
from lcm_core.records import ContextItem, ConversationId, Edge, MessageId, SummaryId, Timestamp
from lcm_core.store.conversations import COLUMNS as CONVERSATION_COLUMNS
from lcm_core.store.conversations import conversation_of
from lcm_core.store.database import Reader, Row
from lcm_core.store.moments import moment
from lcm_core.store.scan.elsewhere import reached_at_home, remains_of
from lcm_core.store.state import BOOTSTRAP, MAINTENANCE
from lcm_core.store.steps import Step, next_step
from lcm_core.store.typed import LEAST, NO_MESSAGE
from lcm_core.tokens import MOST_PER_CHARACTER

#: Messages that are fetched at a time; they become columns at once.
_PAGE = 10_000
#: SQL: whether a message is a compaction event of 0.1 to 0.6.0 (docs/format.md, "Records of passes").
_EVENT = "(m.role = 'system' AND m.content GLOB 'LCM compaction * pass (*')"
_NODE_COLUMNS = (
    ("summary_id", "TEXT"),
    ("kind", "TEXT"),
    ("depth", "INTEGER"),
    ("token_count", "INTEGER"),
    ("descendant_count", "INTEGER"),
    ("descendant_token_count", "INTEGER"),
    ("source_message_token_count", "INTEGER"),
    ("model", "TEXT"),
)
#: Tokens of a sender's label beside what is recorded of them (docs/engine/compaction.md, "Weights").
_LABEL_TOKENS = 8


async def conversation_ids(reader: Reader) -> list[ConversationId]:
    """All conversations, in order of id."""
    rows = await reader.rows("SELECT conversation_id FROM conversations ORDER BY conversation_id")
    return [ConversationId(row["conversation_id"]) for row in rows]


async def load_structure(reader: Reader, conversation_id: ConversationId) -> Structure | None:
    """A conversation's rows without their texts; None when it does not exist (any more)."""
    columns = reader.schema.select("conversations", CONVERSATION_COLUMNS, "c")
    row = await reader.row(
        f"SELECT {columns} FROM conversations AS c WHERE c.conversation_id = ?", conversation_id
    )
    if row is None:
        return None
    messages, labels = await _messages(reader, conversation_id)
    items = await _items(reader, conversation_id)
    nodes, nameless = await _nodes(reader, conversation_id)
    links = await _links(reader, conversation_id)
    edges = await _edges(reader, conversation_id)
    foreign_messages, foreign_summaries = await _foreign(reader, messages, items, nodes, links, edges)
    gone = [one for item in items if (one := item.summary_id) and foreign_summaries.get(one, 0) is None]
    soft_reset, recorded = await _soft_reset(reader, conversation_id)
    budget, pending = await _debt(reader, conversation_id)
    return Structure(
        conversation=conversation_of(row),
        messages=messages,
        items=items,
        nodes=nodes,
        nameless=nameless,
        links=links,
        edges=edges,
        foreign_messages=foreign_messages,
        foreign_summaries=foreign_summaries,
        labels=labels,
        soft_reset=soft_reset,
        records_soft_reset=recorded,
        token_budget=budget,
        debt_pending=pending,
        remains=await remains_of(reader, gone, nodes),
        at_home=await reached_at_home(reader, _owners_of_items(items, foreign_messages, foreign_summaries)),
    )


def _owners_of_items(
    items: Sequence[ContextItem], messages: Mapping[int, int | None], summaries: Mapping[str, int | None]
) -> dict[int | str, int]:
    """The conversations of what a context names and is another one's."""
    named: list[tuple[int | str, int | None]] = [
        (item.message_id, messages.get(item.message_id)) for item in items if item.message_id is not None
    ]
    named += [(one, summaries.get(one)) for item in items if (one := item.summary_id) is not None]
    return {ref: owner for ref, owner in named if owner is not None}


async def _messages(reader: Reader, conversation_id: ConversationId) -> tuple[MessageColumns, dict[int, int]]:
    ids, seqs, tokens, days = array("q"), array("q"), array("q"), array("d")
    roles, events = bytearray(), bytearray()
    labels: dict[int, int] = {}
    codes = {role: code for code, role in enumerate(ROLES)}
    schema = reader.schema
    sender = "m.openclaw_sender_metadata" if schema.has("messages", "openclaw_sender_metadata") else "NULL"
    day = moment("m.created_at") if schema.has("messages", "created_at") else "0"
    count = "ifnull(CAST(m.token_count AS INTEGER), 0)" if schema.has("messages", "token_count") else "0"
    uncounted = f"CASE WHEN {count} = 0 THEN length(CAST(m.content AS TEXT)) END"
    step = await _next_messages(reader, conversation_id, None)
    while step is not None:
        rows = await reader.rows(
            f"""SELECT m.message_id, m.seq, m.role, {count} AS tokens, {day} AS day,
            {_EVENT} AS event, length({sender}) AS label, {uncounted} AS uncounted FROM messages AS m
            WHERE m.conversation_id = ? AND {step.where("m.seq")} ORDER BY m.seq""",
            conversation_id,
            *step.bounds,
        )
        for message_id, seq, role, amount, moment_of, event, label, unweighed in rows:
            ids.append(message_id)
            seqs.append(seq)
            tokens.append(amount)
            days.append(moment_of or 0.0)
            roles.append(codes.get(role, 255))
            events.append(1 if event else 0)
            if label:
                labels[message_id] = _LABEL_TOKENS + MOST_PER_CHARACTER * label
            if unweighed:  # the engine goes by the text then
                labels[message_id] = labels.get(message_id, 0) + MOST_PER_CHARACTER * unweighed
        step = await _next_messages(reader, conversation_id, step)
    return MessageColumns(ids, seqs, tokens, days, bytes(roles), bytes(events)), labels


async def _next_messages(reader: Reader, conversation_id: ConversationId, last: Step | None) -> Step | None:
    """The next run of messages by seq; two with one seq are in the same run."""
    return await next_step(reader, "messages", "seq", _PAGE, last, of=("conversation_id", conversation_id))


async def _items(reader: Reader, conversation_id: ConversationId) -> list[ContextItem]:
    if not reader.schema.has("context_items"):
        return []
    rows = await reader.rows(
        """SELECT ordinal, CAST(item_type AS TEXT) AS item_type,
        message_id, CAST(summary_id AS TEXT) AS summary_id
        FROM context_items AS c WHERE c.conversation_id = ? ORDER BY c.ordinal""",
        conversation_id,
    )
    return [
        ContextItem(
            row["ordinal"],
            row["item_type"],
            None if row["message_id"] is None else MessageId(row["message_id"]),
            None if row["summary_id"] is None else SummaryId(row["summary_id"]),
            Timestamp(""),
        )
        for row in rows
    ]


async def _nodes(
    reader: Reader, conversation_id: ConversationId
) -> tuple[dict[SummaryId, Node], tuple[int, ...]]:
    schema = reader.schema
    if not schema.has("summaries"):
        return {}, ()
    times = ", ".join(
        f"{moment(f's.{name}')} AS {name}_day, s.{name}"
        if schema.has("summaries", name)
        else f"0 AS {name}_day, NULL AS {name}"
        for name in ("earliest_at", "latest_at", "created_at")
    )
    columns = ", ".join(
        f"CAST(s.{name} AS {kind}) AS {name}" if schema.has("summaries", name) else f"NULL AS {name}"
        for name, kind in _NODE_COLUMNS
    )
    rows = await reader.rows(
        f"SELECT {columns}, {times}, s.rowid AS row FROM summaries AS s WHERE s.conversation_id = ? ORDER "
        "BY s.rowid",
        conversation_id,
    )
    nodes = {row["summary_id"]: _node(row) for row in rows if row["summary_id"] is not None}
    return nodes, tuple(row["row"] for row in rows if row["summary_id"] is None)


def _node(row: Row) -> Node:
    created = _day(row, "created_at")
    return Node(
        summary_id=SummaryId(row["summary_id"]),
        kind=row["kind"],
        depth=row["depth"],
        tokens=row["token_count"] or 0,
        earliest=_day(row, "earliest_at"),
        latest=_day(row, "latest_at"),
        created=math.nan if created is None else created,
        descendant_count=row["descendant_count"],
        descendant_tokens=row["descendant_token_count"],
        source_tokens=row["source_message_token_count"],
        model=row["model"],
    )


def _day(row: Row, name: str) -> float | None:
    if row[name] is None:
        return None
    return row[f"{name}_day"] or math.nan


async def _links(reader: Reader, conversation_id: ConversationId) -> dict[SummaryId, Links]:
    if not (reader.schema.has("summary_messages") and reader.schema.has("summaries")):
        return {}
    found: dict[SummaryId, Links] = {}
    after, page = LEAST, 200
    while True:
        # In pages of summaries: all links of a large conversation at once would be too many rows.
        owners = await reader.rows(
            f"""SELECT s.summary_id, s.rowid AS row FROM summaries AS s
            WHERE s.conversation_id = ? AND s.rowid > ? ORDER BY s.rowid LIMIT {page}""",
            conversation_id,
            after,
        )
        for row in await reader.rows_in(
            """SELECT l.summary_id, l.message_id, l.ordinal FROM summary_messages AS l
            WHERE l.summary_id IN (?*) ORDER BY l.summary_id, l.ordinal, l.rowid""",
            [row["summary_id"] for row in owners],
        ):
            links = found.setdefault(SummaryId(row["summary_id"]), Links(array("q"), array("q")))
            links.message_ids.append(NO_MESSAGE if row["message_id"] is None else row["message_id"])
            links.ordinals.append(row["ordinal"])
        if len(owners) < page:
            return found
        after = owners[-1]["row"]


async def _edges(reader: Reader, conversation_id: ConversationId) -> dict[SummaryId, tuple[Edge, ...]]:
    if not (reader.schema.has("summary_parents") and reader.schema.has("summaries")):
        return {}
    rows = await reader.rows(
        """SELECT e.summary_id, CAST(e.parent_summary_id AS TEXT) AS parent_summary_id,
        e.ordinal
        FROM summaries AS s CROSS JOIN summary_parents AS e ON e.summary_id = s.summary_id
        WHERE s.conversation_id = ? ORDER BY e.ordinal, e.rowid""",
        conversation_id,
    )
    found: dict[SummaryId, list[Edge]] = {}
    for row in rows:
        edge = Edge(SummaryId(row["summary_id"]), SummaryId(row["parent_summary_id"]), row["ordinal"])
        found.setdefault(edge.consumer, []).append(edge)
    return {consumer: tuple(edges) for consumer, edges in found.items()}


async def _foreign(
    reader: Reader,
    messages: MessageColumns,
    items: Sequence[ContextItem],
    nodes: dict[SummaryId, Node],
    links: dict[SummaryId, Links],
    edges: dict[SummaryId, tuple[Edge, ...]],
) -> tuple[dict[int, int | None], dict[str, int | None]]:
    """Who owns what is named here and is not ours."""
    ours = messages.position
    odd_messages = {
        item.message_id for item in items if item.message_id is not None and item.message_id not in ours
    }
    linked = {one for found in links.values() for one in found.message_ids if one not in ours}
    named: Iterable[SummaryId | None] = (
        *(item.summary_id for item in items),
        *(edge.source for found in edges.values() for edge in found),
    )
    odd_summaries = {one for one in named if one is not None and one not in nodes}
    owners_of_messages: dict[int, int | None] = dict.fromkeys({*odd_messages, *linked})
    for row in await reader.rows_in(
        "SELECT message_id AS id, conversation_id AS owner FROM messages WHERE message_id IN (?*)",
        sorted(owners_of_messages),
    ):
        owners_of_messages[row["id"]] = row["owner"]
    owners_of_summaries: dict[str, int | None] = dict.fromkeys(odd_summaries)
    if reader.schema.has("summaries"):
        for row in await reader.rows_in(
            "SELECT summary_id AS id, conversation_id AS owner FROM summaries WHERE summary_id IN (?*)",
            sorted(owners_of_summaries),
        ):
            owners_of_summaries[row["id"]] = row["owner"]
    return owners_of_messages, owners_of_summaries


async def _soft_reset(reader: Reader, conversation_id: ConversationId) -> tuple[float | None, bool]:
    """When ``/new`` last pruned the context, and whether this version records it."""
    if not reader.schema.has(BOOTSTRAP, "soft_reset_pruned_at"):
        return None, False
    day = await reader.value(
        f"SELECT {moment('soft_reset_pruned_at')} FROM {BOOTSTRAP} WHERE conversation_id = ?", conversation_id
    )
    return day or None, True


async def _debt(reader: Reader, conversation_id: ConversationId) -> tuple[int | None, bool]:
    """The token budget as compaction last saw it, and whether debt is recorded."""
    if not reader.schema.has(MAINTENANCE, "token_budget"):
        return None, False
    row = await reader.row(
        f"SELECT CAST(token_budget AS INTEGER) AS token_budget, pending FROM {MAINTENANCE} WHERE "
        "conversation_id = ?",
        conversation_id,
    )
    return (None, False) if row is None else (row["token_budget"], bool(row["pending"]))
