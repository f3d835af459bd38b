"""A conversation's rows without their texts: what most checks look at, and how it is read.

A conversation may hold half a million messages, so they are columns, not records. Times are days as
``julianday`` counts them: both stored formats give the same number for the same moment. Columns hold what
their type promises only as long as nobody else wrote to them, so every value is cast.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

from lcm_core.base.records import ContextItems, Conversation, ConversationId, Edge, SummaryId, Timestamp
from lcm_core.base.times import parse_utc
from lcm_core.base.tokens import MOST_PER_CHARACTER
from lcm_core.base.values import Record, field
from lcm_core.checks.check import days_of
from lcm_core.engine.graph import SummaryGraph
from lcm_core.store.context import context_items
from lcm_core.store.conversations import CONVERSATIONS, moment
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row
from lcm_core.store.rows import KeyRange, ids_taken, next_range, records
from lcm_core.store.schema import LEAST, NO_MESSAGE, Columns, columns_of
from lcm_core.store.state import BOOTSTRAP, MAINTENANCE
from lcm_core.store.summaries import made_from

#: Two stored times this close are the same (days); the formats keep milliseconds.
SAME_MOMENT: Final = 0.002 / 86_400
SECOND: Final = 1 / 86_400
ROLES: Final = ("system", "user", "assistant", "tool")


class MessageColumns(Record, frozen=True, dict=True):
    """The messages of a conversation in order of seq; ``ids[i]``, ``seqs[i]`` ... are one message."""

    ids: array[int]
    seqs: array[int]
    tokens: array[int]
    days: array[float]  #: 0.0 where the time cannot be read
    roles: bytes  #: index in `ROLES`; 255 for another one
    events: bytes  #: 1 for a record of a pass (docs/spec/format.md, "Records of passes"): never in a context

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def position(self) -> Mapping[int, int]:
        """Place in the columns by message id."""
        return {message_id: place for place, message_id in enumerate(self.ids)}

    def role(self, place: int) -> str:
        """The role of a message; empty when it is none of the four."""
        code = self.roles[place]
        return ROLES[code] if code < len(ROLES) else ""


class StoredNode(Record, frozen=True):
    """A summary without its text. Times are days; NaN where what is stored cannot be read."""

    summary_id: SummaryId
    kind: str
    depth: int | None
    created: float
    tokens: int = 0
    earliest: float | None = None
    latest: float | None = None
    descendant_count: int | None = None
    descendant_tokens: int | None = None
    source_tokens: int | None = None
    model: str | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether it was made from messages."""
        return self.kind == "leaf"


class Links(Record, frozen=True):
    """The messages that a summary is linked to, by ordinal and then as stored."""

    message_ids: array[int]
    ordinals: array[int]


NO_LINKS: Final = Links(array("q"), array("q"))


class Structure(Record, frozen=True, dict=True):
    """A conversation's rows without their texts, as one transaction saw them."""

    conversation: Conversation
    messages: MessageColumns
    items: ContextItems
    nodes: Mapping[SummaryId, StoredNode]  #: in the order in which they were made
    nameless: tuple[int, ...]  #: rowids of summaries whose id is NULL
    links: Mapping[SummaryId, Links]
    edges: Mapping[SummaryId, tuple[Edge, ...]]  #: by consumer, by ordinal and then by id
    foreign_messages: Mapping[int, int | None]  #: owner of messages named here that are not ours; None: gone
    foreign_summaries: Mapping[str, int | None]
    #: By message id, the most that a message may weigh beside its count: for its sender, and uncounted text
    #: (docs/spec/compaction.md, "Weights").
    labels: Mapping[int, int] | None = None
    soft_reset: float | None = None  #: when ``/new`` last pruned the context, in days
    records_soft_reset: bool = False  #: whether this version would have recorded it
    token_budget: int | None = None  #: as the maintenance row has it
    debt_pending: bool = False
    copies: frozenset[int] = frozenset()  #: places of repeated messages whose originals the context reaches
    #: by summary that is gone and that the context names, or what lay above it: what links and edges still
    #: name as its sources, in order
    remains: Mapping[SummaryId, tuple[int | SummaryId, ...]] = field(default_factory=dict)
    at_home: frozenset[int | str] = (
        frozenset()
    )  #: rows named here that their own conversation's context reaches

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id

    @property
    def archived(self) -> bool:
        """Whether the conversation is recorded as not active."""
        return self.conversation.active is False

    @cached_property
    def graph(self) -> SummaryGraph:
        """The summaries with their edges, for every walk."""
        edges = (edge for found in self.edges.values() for edge in found)
        held = [one for one in self.items.summary_ids if one is not None]
        return SummaryGraph.build(self.nodes.values(), edges, held)

    @cached_property
    def summaries_in_context(self) -> tuple[SummaryId, ...]:
        """The summaries of this conversation that are in its context, each once, in order."""
        return tuple(one for one in dict.fromkeys(self.graph.in_context) if one in self.nodes)

    @property
    def orphans(self) -> tuple[SummaryId, ...]:
        """The summaries that neither the context nor another summary uses, in the order of their making."""
        return self.graph.orphans

    def places(self, summary_id: SummaryId) -> Sequence[int]:
        """Where the messages are that a summary is itself linked to; missing and foreign ones are none."""
        return self._places.get(summary_id, ())

    @cached_property
    def overlap(self) -> bool:
        """Whether any message is linked more than once."""
        named = [links.message_ids for links in self.links.values()]
        return len(set[int]().union(*named)) < sum(map(len, named))

    @property
    def has_foreign_messages(self) -> bool:
        """Whether a message of another conversation is named here."""
        return any(owner is not None for owner in self.foreign_messages.values())

    @cached_property
    def _places(self) -> Mapping[SummaryId, Sequence[int]]:
        """The same of all summaries, which ten checks ask for."""
        place_of = self.messages.position.get
        return {
            summary_id: [place for place in map(place_of, links.message_ids) if place is not None]
            for summary_id, links in self.links.items()
        }

    def message_places(self, items: ContextItems) -> list[int | None]:
        """Where the message of each item is; None of a summary, and of a message that is not ours."""
        position = self.messages.position
        return [None if one is None else position.get(one) for one in items.message_ids]

    def covered_by(self, items: ContextItems) -> list[tuple[int, int] | None]:
        """First and last place that each item covers; None when that is nothing of this conversation."""
        spans, places = self.spans, self.message_places(items)
        return [
            (None if place is None else (place, place))
            if message is not None
            else (None if summary is None else spans.get(summary))
            for (message, summary), place in zip(items.named(), places, strict=True)
        ]

    @cached_property
    def raw(self) -> bytes:
        """By place: 1 where the message is in the context itself."""
        found = bytearray(len(self.messages))
        for place in self.message_places(self.items):
            if place is not None:
                found[place] = 1
        return bytes(found)

    @cached_property
    def copied(self) -> int:
        """How many messages at the front are copies: a transplant numbers them below 0, nothing else does."""
        seqs = self.messages.seqs
        return bisect_left(seqs, 1) if seqs and seqs[0] < 0 else 0

    @cached_property
    def linked(self) -> bytes:
        """By place: 1 where a summary is linked to the message, 2 where one that the context reaches is."""
        found = bytearray(len(self.messages))
        live = self.graph.live
        for summary_id in sorted(self.nodes, key=live.__contains__):
            mark = 2 if summary_id in live else 1
            for place in self.places(summary_id):
                found[place] = mark
        return bytes(found)

    @cached_property
    def spans(self) -> Mapping[SummaryId, tuple[int, int]]:
        """First and last place that a summary covers, itself or through its sources; none when nothing."""
        found: dict[SummaryId, tuple[int, int]] = {}
        for node in self.graph.bottom_up(*self.nodes):  # on a cycle as far as known
            places = self.places(node)
            spans = [(min(places), max(places))] if places else []
            spans += [found[source] for source in self.graph.sources.get(node, ()) if source in found]
            if spans:
                found[node] = (min(first for first, _ in spans), max(last for _, last in spans))
        return found

    def span_text(self, first: int, last: int) -> str:
        """Places as people read them: ``seq 12`` or ``seq 12-40``."""
        low, high = self.messages.seqs[first], self.messages.seqs[last]
        return f"seq {low}" if low == high else f"seq {low}-{high}"


def whole_number(value: object) -> int | None:
    """A value as a column of whole numbers has it."""
    try:
        return int(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return 0


def node_of(row: Mapping[str, object]) -> StoredNode:
    """What a row of ``summaries`` says of kind, depth and time; of sums nothing is known."""
    created = row.get("created_at")
    made = parse_utc(created) if isinstance(created, str) else None
    return StoredNode(
        summary_id=SummaryId(str(row["summary_id"])),
        kind=str(row.get("kind")),
        depth=whole_number(row.get("depth")),
        created=math.nan if made is None else days_of(made),
    )


def partial_structure(
    owner: int,
    items: ContextItems,
    nodes: Iterable[StoredNode],
    lines: Iterable[tuple[str, int | str]],
    messages: Iterable[int],
    foreign: Mapping[int | str, int] = MappingProxyType({}),
    at_home: frozenset[int | str] = frozenset(),
) -> Structure:
    """What some rows of a conversation say of it; what is not among them is no part of it.

    *lines* lead from summaries to messages and to summaries, *foreign* are the owners of other rows that it
    names. Of messages no more is known than that they are there.
    """
    own = {node.summary_id: node for node in nodes}
    links: dict[SummaryId, Links] = {}
    edges: dict[SummaryId, list[Edge]] = {}
    for one, source in lines:
        consumer = SummaryId(one)
        if isinstance(source, str):
            edges.setdefault(consumer, []).append(Edge(consumer, SummaryId(source), 0))
        else:
            links.setdefault(consumer, Links(array("q"), array("q"))).message_ids.append(source)
    ids = array("q", sorted(messages))
    blank = bytes(len(ids))
    return Structure(
        Conversation(ConversationId(owner), "", None, None, None, None, None, None, _NEVER, _NEVER),
        MessageColumns(ids, ids, array("q", blank * 8), array("d", blank * 8), blank, blank),
        items,
        own,
        (),
        links,
        {consumer: tuple(found) for consumer, found in edges.items()},
        {ref: of for ref, of in foreign.items() if isinstance(ref, int)},
        {ref: of for ref, of in foreign.items() if isinstance(ref, str)},
        at_home=at_home,
    )


_NEVER: Final = Timestamp("")
#: Messages that are fetched at a time; they become columns at once.
_PAGE = 10_000
#: SQL: whether a message is a compaction event of 0.1 to 0.6.0 (docs/spec/format.md, "Records of passes").
_EVENT = "(m.role = 'system' AND m.content GLOB 'LCM compaction * pass (*')"
#: SQL: the place of its role in `ROLES`.
_CODE = f"""CASE CAST(m.role AS TEXT)
    {" ".join(f"WHEN '{role}' THEN {code}" for code, role in enumerate(ROLES))} ELSE 255 END"""
_NODES: Final = Columns(
    "summaries",
    StoredNode,
    **dict.fromkeys(("created", "earliest", "latest")),
    tokens="token_count",
    descendant_tokens="descendant_token_count",
    source_tokens="source_message_token_count",
)
#: Tokens of a sender's label beside what is recorded of them (docs/spec/compaction.md, "Weights").
_LABEL_TOKENS = 8


async def conversation_ids(reader: Reader) -> list[ConversationId]:
    """All conversations, in order of id."""
    rows = await reader.rows("SELECT conversation_id FROM conversations ORDER BY conversation_id")
    return [ConversationId(row["conversation_id"]) for row in rows]


async def load_structure(
    reader: Reader, conversation_id: ConversationId, *, small: bool = False
) -> Structure | None:
    """A conversation's rows without their texts; None when it does not exist (any more).

    *small*: its messages are few enough to be read at once.
    """
    conversation = await records(reader, CONVERSATIONS, "WHERE t.conversation_id = ?", conversation_id)
    if not conversation:
        return None
    messages, labels = await _messages(reader, conversation_id, KeyRange() if small else None)
    items = await context_items(reader, conversation_id)
    nodes, nameless = await _nodes(reader, conversation_id)
    links = await _links(reader, conversation_id) if nodes else {}
    edges = await _edges(reader, conversation_id) if nodes else {}
    foreign_messages, foreign_summaries = await _foreign(reader, messages, items, nodes, links, edges)
    gone = [one for one in items.summary_ids if one and foreign_summaries.get(one, 0) is None]
    soft_reset, recorded = await _soft_reset(reader, conversation_id)
    budget, pending = await _debt(reader, conversation_id)
    return Structure(
        conversation=conversation[0],
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
    items: ContextItems, messages: Mapping[int, int | None], summaries: Mapping[str, int | None]
) -> dict[int | str, int]:
    """The conversations of what a context names and is another one's."""
    named: list[tuple[int | str, int | None]] = [
        (one, messages.get(one)) for one in items.message_ids if one is not None
    ]
    named += [(one, summaries.get(one)) for one in items.summary_ids if one is not None]
    return {ref: owner for ref, owner in named if owner is not None}


async def _messages(
    reader: Reader, conversation_id: ConversationId, step: KeyRange | None
) -> tuple[MessageColumns, dict[int, int]]:
    ids, seqs, tokens, days = array("q"), array("q"), array("q"), array("d")
    roles, events = bytearray(), bytearray()
    labels: dict[int, int] = {}
    schema = reader.schema
    sender = "m.openclaw_sender_metadata" if schema.has("messages", "openclaw_sender_metadata") else "NULL"
    day = moment("m.created_at") if schema.has("messages", "created_at") else "0"
    count = "ifnull(CAST(m.token_count AS INTEGER), 0)" if schema.has("messages", "token_count") else "0"
    label = f"ifnull({_LABEL_TOKENS} + {MOST_PER_CHARACTER} * nullif(length({sender}), 0), 0)"
    text = f"ifnull({MOST_PER_CHARACTER} * length(CAST(m.content AS TEXT)), 0)"
    weight = f"{label} + CASE WHEN {count} = 0 THEN {text} ELSE 0 END"
    step = step or await _next_messages(reader, conversation_id, None)
    while step is not None:
        rows = await reader.stored(
            f"""SELECT m.message_id, m.seq, {_CODE} AS code, {count} AS tokens, {day} AS day,
            {_EVENT} AS event, {weight} AS weight FROM messages AS m
            WHERE m.conversation_id = ? AND {step.where("m.seq")} ORDER BY m.seq""",
            conversation_id,
            *step.bounds,
        )
        if rows:
            message_ids, places, senders, counted, moments, noted, weights = columns_of(rows)
            ids.extend(message_ids)
            seqs.extend(places)
            roles.extend(senders)
            tokens.extend(counted)
            days.extend(moments)
            events.extend(map(bool, noted))
            if any(weights):  # the engine goes by the text where nothing was counted
                labels.update(one for one in zip(message_ids, weights, strict=True) if one[1])
        step = await _next_messages(reader, conversation_id, step)
    return MessageColumns(ids, seqs, tokens, days, bytes(roles), bytes(events)), labels


async def _next_messages(
    reader: Reader, conversation_id: ConversationId, last: KeyRange | None
) -> KeyRange | None:
    """The next run of messages by seq; two with one seq are in the same run."""
    return await next_range(reader, "messages", "seq", _PAGE, last, of=("conversation_id", conversation_id))


async def _nodes(
    reader: Reader, conversation_id: ConversationId
) -> tuple[dict[SummaryId, StoredNode], tuple[int, ...]]:
    schema = reader.schema
    if not schema.has("summaries"):
        return {}, ()
    times = ", ".join(
        f"{moment(f's.{name}')} AS {name}_day, s.{name}"
        if schema.has("summaries", name)
        else f"0 AS {name}_day, NULL AS {name}"
        for name in ("earliest_at", "latest_at", "created_at")
    )
    rows = await reader.rows(
        f"SELECT {_NODES.select(schema, 's')}, {times}, s.rowid AS row FROM summaries AS s "
        "WHERE s.conversation_id = ? ORDER BY s.rowid",
        conversation_id,
    )
    nodes = {row["summary_id"]: _node(row) for row in rows if row["summary_id"] is not None}
    return nodes, tuple(row["row"] for row in rows if row["summary_id"] is None)


def _node(row: Row) -> StoredNode:
    created = _day(row, "created_at")
    return _NODES.record(
        row,
        earliest=_day(row, "earliest_at"),
        latest=_day(row, "latest_at"),
        created=math.nan if created is None else created,
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
        ids = [row["summary_id"] for row in owners]
        of_these = "FROM summary_messages AS l WHERE l.summary_id IN (?*)"
        numbers = await reader.rows_in(
            f"SELECT l.summary_id, count(*) AS number {of_these} GROUP BY 1 ORDER BY 1", ids
        )
        rows = await reader.stored_in(
            f"SELECT l.message_id, l.ordinal {of_these} ORDER BY l.summary_id, l.ordinal, l.rowid", ids
        )
        if rows:
            named, ordinals = columns_of(rows)
            if None in named:
                named = tuple(NO_MESSAGE if one is None else one for one in named)
            begin = 0
            for summary_id, number in numbers:
                end = begin + number
                found[SummaryId(summary_id)] = Links(
                    array("q", named[begin:end]), array("q", ordinals[begin:end])
                )
                begin = end
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
    # Consumers in the order in which they were made, the sources of each as the engine reads them.
    return {
        consumer: tuple(sorted(edges, key=lambda edge: (edge.ordinal or 0, edge.source)))
        for consumer, edges in found.items()
    }


async def _foreign(
    reader: Reader,
    messages: MessageColumns,
    items: ContextItems,
    nodes: dict[SummaryId, StoredNode],
    links: dict[SummaryId, Links],
    edges: dict[SummaryId, tuple[Edge, ...]],
) -> tuple[dict[int, int | None], dict[str, int | None]]:
    """Who owns what is named here and is not ours."""
    ours = messages.position
    odd_messages = {one for one in items.message_ids if one is not None and one not in ours}
    linked = {one for found in links.values() for one in found.message_ids if one not in ours}
    named: Iterable[SummaryId | None] = (
        *items.summary_ids,
        *(edge.source for found in edges.values() for edge in found),
    )
    odd_summaries = {one for one in named if one is not None and one not in nodes}
    owners_of_messages: dict[int, int | None] = dict.fromkeys({*odd_messages, *linked})
    for row in await reader.rows_in(
        "SELECT message_id, conversation_id FROM messages WHERE message_id IN (?*)",
        sorted(owners_of_messages),
    ):
        owners_of_messages[row["message_id"]] = row["conversation_id"]
    owners_of_summaries: dict[str, int | None] = dict.fromkeys(odd_summaries)
    if reader.schema.has("summaries"):
        for row in await reader.rows_in(
            "SELECT summary_id, conversation_id FROM summaries WHERE summary_id IN (?*)",
            sorted(owners_of_summaries),
        ):
            owners_of_summaries[row["summary_id"]] = row["conversation_id"]
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


async def remains_of(
    reader: Reader, gone: Iterable[SummaryId], ours: Collection[SummaryId]
) -> dict[SummaryId, tuple[int | SummaryId, ...]]:
    """What links and edges still name as the sources of summaries that are gone, each in order.

    A source that is gone too has its own entry; *ours* are summaries that are there. Those of which nothing
    is left are left out.
    """
    found: dict[SummaryId, tuple[int | SummaryId, ...]] = {}
    asked: set[SummaryId] = set()
    waiting = sorted(set(gone))
    while waiting:
        asked.update(waiting)
        sources: dict[SummaryId, list[int | SummaryId]] = {}
        for table, column, kind in (
            ("summary_messages", "message_id", "INTEGER"),
            ("summary_parents", "parent_summary_id", "TEXT"),
        ):
            if reader.schema.has(table):
                for row in await reader.rows_in(
                    f"""SELECT summary_id, CAST({column} AS {kind}) AS source FROM {table}
                    WHERE summary_id IN (?*) ORDER BY summary_id, CAST(ordinal AS INTEGER), rowid""",
                    waiting,
                ):
                    sources.setdefault(SummaryId(row["summary_id"]), []).append(row["source"])
        found |= {one: tuple(named) for one, named in sources.items()}
        below = {SummaryId(one) for named in sources.values() for one in named if isinstance(one, str)}
        foreign = below - asked - set(ours)
        waiting = sorted(foreign - await ids_taken(reader, "summaries", "summary_id", foreign))
    return found


async def reached_at_home(reader: Reader, owners: Mapping[int | str, int]) -> frozenset[int | str]:
    """The messages and summaries that the context of their own conversation holds, or covers.

    *owners* by message or summary.
    """
    if not owners or not reader.schema.has("context_items"):
        return frozenset()
    above = await reader.run(made_from, reader.schema.tables, list(owners))
    held = {
        (row["conversation_id"], ref)
        for row in await reader.rows_in(
            "SELECT conversation_id, message_id, summary_id FROM context_items WHERE conversation_id IN (?*)",
            sorted(set(owners.values())),
        )
        for ref in (row["message_id"], row["summary_id"])
    }
    return frozenset(
        ref for ref, owner in owners.items() if any((owner, one) in held for one in (ref, *above[ref]))
    )
