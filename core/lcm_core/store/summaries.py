"""Summaries: their columns without the text, the text of one, the edges of the DAG, and walks along them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import Final, cast

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import (
    ConversationId,
    Edge,
    Message,
    MessageId,
    Summary,
    SummaryId,
    SummaryText,
)
from lcm_core.base.text import BLANKS, fold, sought_as
from lcm_core.base.values import Record
from lcm_core.engine.graph import GraphColumns, SummaryGraph
from lcm_core.engine.markers import BadKind, Copy, broken_kind, copy_of_source, gist, may_be_copy
from lcm_core.store import messages as message_store
from lcm_core.store.database import Reader
from lcm_core.store.opening import CHUNK, Row, Rows, as_text, contains_pattern, may_hold
from lcm_core.store.rows import records_in, texts
from lcm_core.store.schema import Columns, Schema, place, typed

SUMMARIES: Final = Columns(
    "summaries",
    Summary,
    tokens="token_count",
    descendant_tokens="descendant_token_count",
    source_message_tokens="source_message_token_count",
)
#: Characters of a summary that a list reads.
HEAD = 300


class SummaryEntry(Record, frozen=True):
    """A summary as a line of a list, with what is around it."""

    summary: Summary
    preview: str  #: the first `HEAD` characters of the content
    broken: BadKind | None
    consumers: tuple[SummaryId, ...]
    source_summaries: int
    source_messages: int
    ordinals: tuple[int, ...]  #: its places in its conversation's context

    @property
    def beginning(self) -> str:
        """What tells it from others in a list: its preview behind what summaries open with."""
        return gist(self.preview)


async def get_summary(reader: Reader, summary_id: str) -> SummaryText:
    """One summary with its text.

    Raises:
        NotFoundError: no summary has this id.
    """
    found = await texts_of(reader, [SummaryId(summary_id)])
    if not found:
        raise NotFoundError(
            f"No summary matched id {summary_id}.",
            code="SUMMARY_NOT_FOUND",
            details={"summaryId": summary_id},
        )
    return found[0]


async def texts_of(reader: Reader, summary_ids: Sequence[SummaryId]) -> list[SummaryText]:
    """Some summaries with their texts, in the order asked; those that are gone are left out."""
    if not reader.schema.has("summaries"):
        return []
    columns = f"{SUMMARIES.select(reader.schema, 's')}, {reader.schema.select('summaries', ['content'], 's')}"
    rows = await reader.rows_in(
        f"SELECT {columns} FROM summaries AS s WHERE s.summary_id IN (?*)", summary_ids
    )
    found = {row["summary_id"]: SummaryText(SUMMARIES.record(row), row["content"] or "") for row in rows}
    return [found[summary_id] for summary_id in summary_ids if summary_id in found]


async def summary_entries(reader: Reader, summary_ids: Sequence[SummaryId]) -> list[SummaryEntry]:
    """Some summaries as lines of a list, in the order asked; those that are gone are left out."""
    return await entries_of_texts(reader, await texts_of(reader, summary_ids))


async def entries_of_texts(reader: Reader, texts: Sequence[SummaryText]) -> list[SummaryEntry]:
    """Some summaries whose texts have been read as lines of a list, in their order."""
    ids = [text.summary.summary_id for text in texts]
    consumers: dict[str, list[SummaryId]] = {}
    for edge in await _edges(reader, "parent_summary_id", ids):
        consumers.setdefault(edge.source, []).append(edge.consumer)
    sources = await count_by(reader, "summary_parents", "summary_id", ids)
    source_messages = await count_by(reader, "summary_messages", "summary_id", ids)
    broken = await broken_among(reader, ids)
    ordinals: dict[str, list[int]] = {}
    for conversation_id in dict.fromkeys(text.summary.conversation_id for text in texts):
        for summary_id, ordinal in await context_ordinals(reader, conversation_id, ids):
            ordinals.setdefault(summary_id, []).append(ordinal)
    return [
        SummaryEntry(
            text.summary,
            text.content[:HEAD],
            broken.get(text.summary.summary_id),
            tuple(consumers.get(text.summary.summary_id, ())),
            sources.get(text.summary.summary_id, 0),
            source_messages.get(text.summary.summary_id, 0),
            tuple(ordinals.get(text.summary.summary_id, ())),
        )
        for text in texts
    ]


async def summaries_in(reader: Reader, summary_ids: Iterable[SummaryId]) -> list[Summary]:
    """Some summaries without their texts, in no order; those that are gone are left out."""
    return await records_in(reader, SUMMARIES, "summary_id", summary_ids)


async def context_ordinals(
    reader: Reader, conversation_id: ConversationId, summary_ids: Sequence[SummaryId] | None = None
) -> list[tuple[SummaryId, int]]:
    """The summaries in a conversation's context (or some of them) and their ordinals, in order."""
    if not reader.schema.has("context_items"):
        return []
    sql = "SELECT summary_id, ordinal FROM context_items WHERE conversation_id = ? AND summary_id"
    if summary_ids is None:
        rows = await reader.rows(f"{sql} IS NOT NULL ORDER BY ordinal", conversation_id)
    else:
        rows = await reader.rows_in(f"{sql} IN (?*) ORDER BY ordinal", summary_ids, conversation_id)
    return [(SummaryId(row["summary_id"]), row["ordinal"]) for row in rows]


async def edges_of(reader: Reader, consumers: Iterable[SummaryId]) -> list[Edge]:
    """What some summaries were condensed from, each one's sources in the order of condensation."""
    return await _edges(reader, "summary_id", consumers)


async def consumers_of(reader: Reader, summary_id: SummaryId) -> list[Edge]:
    """The summaries that were made from this one."""
    return await _edges(reader, "parent_summary_id", [summary_id])


async def edges_above(reader: Reader, summary_ids: Iterable[SummaryId]) -> list[Edge]:
    """The edges to everything that was made from some summaries, directly or not, each once."""
    found: dict[tuple[SummaryId, SummaryId, int], Edge] = {}
    seen: set[SummaryId] = set()
    level = set(summary_ids)
    while level:
        seen |= level
        edges = await _edges(reader, "parent_summary_id", level)
        found |= {(edge.consumer, edge.source, edge.ordinal): edge for edge in edges}
        level = {edge.consumer for edge in edges} - seen
    return list(found.values())


async def source_messages_of(reader: Reader, summary_id: SummaryId) -> list[Message]:
    """The messages that a leaf was made from, in order; texts cut after `messages.HEAD` characters."""
    if not reader.schema.has("summary_messages"):
        return []
    head = f"substr(m.content, 1, {message_store.HEAD})"
    rows = await reader.rows(
        f"""SELECT {message_store.MESSAGES.select(reader.schema, "m", content=head)}
        FROM summary_messages AS link JOIN messages AS m ON m.message_id = link.message_id
        WHERE link.summary_id = ? ORDER BY link.ordinal""",
        summary_id,
    )
    return [message_store.MESSAGES.record(row) for row in rows]


async def source_message_ids(reader: Reader, summary_id: SummaryId) -> list[int]:
    """The ids of the messages a leaf was made from, in order, also those whose row is gone."""
    if not reader.schema.has("summary_messages"):
        return []
    rows = await reader.rows(
        "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", summary_id
    )
    return [row["message_id"] for row in rows]


#: A table is read whole if its last rowid is at most so many times the rows a conversation may have in it.
MOST_ROWS: Final = 3


async def load_graph(reader: Reader, conversation_id: ConversationId) -> SummaryGraph:
    """The whole DAG of a conversation: ids, kinds, depths and edges, no text; read in one thread."""
    columns = await load_columns(reader, conversation_id)
    return await asyncio.to_thread(lambda: columns.graph)


async def load_columns(reader: Reader, conversation_id: ConversationId) -> GraphColumns:
    """The rows of `load_graph`, which nobody has to walk yet."""
    if not reader.schema.has("summaries"):
        return GraphColumns((), (), (), (), (), ())
    in_context = [summary_id for summary_id, _ in await context_ordinals(reader, conversation_id)]
    return await reader.run(_columns, reader.schema, conversation_id, tuple(in_context))


def _columns(
    db: Rows, schema: Schema, conversation_id: ConversationId, in_context: tuple[SummaryId, ...]
) -> GraphColumns:
    ids, kinds, depths = _nodes(db, schema, conversation_id)
    if not schema.has("summary_parents"):
        return GraphColumns(ids, kinds, depths, (), (), in_context)
    mine = ""
    parameters: tuple[ConversationId, ...] = ()
    if not few_others(db, "summary_parents", len(ids)):
        mine = "WHERE e.summary_id IN (SELECT summary_id FROM summaries WHERE conversation_id = ?)"
        parameters = (conversation_id,)
    consumers, sources = texts(
        db,
        f"""SELECT CAST(e.summary_id AS TEXT) AS consumer, CAST(e.parent_summary_id AS TEXT) AS source
        FROM summary_parents AS e {mine} ORDER BY e.ordinal, e.parent_summary_id""",
        ("consumer", "source"),
        parameters,
    )
    if not (known := set(ids)).issuperset(consumers):
        here = list(map(known.__contains__, consumers))
        consumers, sources = list(compress(consumers, here)), list(compress(sources, here))
    edges = cast(Sequence[SummaryId], consumers), cast(Sequence[SummaryId], sources)
    return GraphColumns(ids, kinds, depths, *edges, in_context)


def _nodes(
    db: Rows, schema: Schema, conversation_id: ConversationId
) -> tuple[Sequence[SummaryId], Sequence[str], Sequence[int]]:
    """The summaries in the order in which they were made; from indexes alone where the file has them.

    A row holds the text as well: to read past 12,000 texts takes longer than all the rest.
    """
    columns = schema.select("summaries", ("kind", "depth"), "s")
    made, kinds, depths = texts(
        db,
        f"""SELECT s.rowid AS made, {columns}
        FROM summaries AS s WHERE s.conversation_id = ? ORDER BY s.rowid""",
        ("made", "kind", "depth"),
        (conversation_id,),
    )
    whole = few_others(db, "summaries", len(made))
    where = "ORDER BY summaries.summary_id" if whole else "WHERE conversation_id = ?"
    rows, names = texts(
        db,
        f"SELECT rowid AS made, CAST(summary_id AS TEXT) AS summary_id FROM summaries {where}",
        ("made", "summary_id"),
        () if whole else (conversation_id,),
    )
    named = dict(zip(rows, cast(Sequence[SummaryId], names), strict=True))
    numbers = {depth: int(depth or 0) for depth in set(depths)}
    ids = list(map(named.__getitem__, made))
    deep = list(map(numbers.__getitem__, depths))
    if len(set(ids)) == len(ids):
        return ids, kinds, deep
    each = dict(zip(ids, zip(kinds, deep, strict=True), strict=True))
    # Ids that are not there are all the same: one of them stands for all.
    return list(each), [kind for kind, _ in each.values()], [depth for _, depth in each.values()]


def few_others(db: Rows, table: str, rows: int) -> bool:
    """Whether a table is read sooner whole than for a conversation that may have so many *rows* in it."""
    [(last,)] = db.tuples(f"SELECT max(rowid) FROM {table}")
    return (last or 0) <= MOST_ROWS * rows


# -- broken summaries ------------------------------------------------------------------------------------
# The only answer to which summaries are broken: what every list, count, check, repair and search goes by.

#: Summaries whose texts are read at a time.
BATCH: Final = 100
#: A text of more characters is not looked into: what looks for patterns in it would take minutes.
MOST_CHARACTERS: Final = 10_000_000
#: Characters of a first source that show whether a summary may be a copy of it.
_OPENING: Final = 400
#: Characters of sources that are compared with a suspected copy; no engine cuts a longer run.
_MOST_SOURCE: Final = 2_000_000
_BLANKS: Final = f"char({', '.join(str(ord(blank)) for blank in BLANKS)})"
#: The sources of a summary: the table of the links, the column, the table of the rows and its key.
_SOURCES: Final = (
    ("summary_messages", "message_id", "messages", "message_id"),
    ("summary_parents", "parent_summary_id", "summaries", "summary_id"),
)


class Body(Record, frozen=True):
    """The text of a summary, and the beginning of what it was made from."""

    summary_id: SummaryId
    content: str
    model: str | None
    file_ids: str | None  #: as stored
    opening: str  #: the beginning of the first source that is not blank


async def broken_in(reader: Reader, conversation_id: ConversationId) -> dict[SummaryId, BadKind]:
    """The summaries of a conversation that certainly are none, and what is wrong with each.

    Reads the text of all of them: for the background, never for a first page.
    """
    if not reader.schema.has("summaries"):
        return {}
    rows = await reader.rows(
        "SELECT summary_id FROM summaries WHERE conversation_id = ? ORDER BY rowid", conversation_id
    )
    return await broken_among(reader, [SummaryId(row["summary_id"]) for row in rows])


async def broken_among(reader: Reader, ids: Sequence[SummaryId]) -> dict[SummaryId, BadKind]:
    """Those of some summaries that certainly are none, in the order of *ids*; reads the text of all."""
    return await reader.run(broken_rows, reader.schema, ids)


def broken_rows(db: Rows, schema: Schema, ids: Sequence[SummaryId]) -> dict[SummaryId, BadKind]:
    """The same over the rows of a transaction.

    Source: docs/spec/doctor.md, "Order of the markers", and docs/spec/texts.md, "Fallback".
    """
    found: dict[SummaryId, BadKind] = {}
    for start in range(0, len(ids), BATCH):
        for body in _bodies(db, schema, ids[start : start + BATCH]):
            kind = broken_kind(body.content, body.model)
            if kind is None and may_be_copy(body.content, body.opening):
                copied = copy_of_source(body.content, _source_texts(db, schema, body.summary_id))
                kind = BadKind.COPY if copied is Copy.CUT else None
            if kind is not None:
                found[body.summary_id] = kind
    return {one: found[one] for one in ids if one in found}


async def bodies_of(reader: Reader, summary_ids: Sequence[SummaryId]) -> list[Body]:
    """The texts of some summaries; those that are too long to be looked into are left out."""
    return await reader.run(_bodies, reader.schema, summary_ids)


def _bodies(db: Rows, schema: Schema, summary_ids: Sequence[SummaryId]) -> list[Body]:
    if not schema.has("summaries"):
        return []
    openings = ["''", "''"]  # two at least, for coalesce
    openings[:0] = [
        f"""(SELECT substr(CAST(t.content AS TEXT), 1, {_OPENING}) FROM
        (SELECT {column} AS id FROM {links} WHERE summary_id = s.summary_id ORDER BY ordinal LIMIT -1) AS l
        CROSS JOIN {table} AS t ON t.{key} = l.id WHERE trim(t.content, {_BLANKS}) <> '' LIMIT 1)"""
        for links, column, table, key in _SOURCES
        if schema.has(links)
    ]
    rows = db.rows_in(
        f"""SELECT s.summary_id, CAST(s.content AS TEXT) AS content,
        {schema.select("summaries", ("model", "file_ids"), "s")}, coalesce({", ".join(openings)}) AS opening
        FROM summaries AS s
        WHERE ifnull(length(s.content), 0) <= {MOST_CHARACTERS} AND s.summary_id IN (?*)""",
        summary_ids,
    )
    return [
        Body(
            SummaryId(row["summary_id"]), row["content"] or "", row["model"], row["file_ids"], row["opening"]
        )
        for row in rows
    ]


async def source_texts(reader: Reader, summary_id: SummaryId) -> list[str]:
    """The texts that a summary was made from, in order, as far as a copy of them could reach."""
    return await reader.run(_source_texts, reader.schema, summary_id)


def _source_texts(db: Rows, schema: Schema, summary_id: SummaryId) -> list[str]:
    found: list[str] = []
    length = 0
    for links, column, table, key in _SOURCES:
        if not schema.has(links):
            continue
        for row in db.rows(
            f"""SELECT CAST(t.content AS TEXT) AS content FROM {links} AS l JOIN {table} AS t
            ON t.{key} = l.{column} WHERE l.summary_id = ? ORDER BY l.ordinal, l.{column}""",
            (summary_id,),
        ):
            found.append(row["content"] or "")
            length += len(found[-1])
            if length > _MOST_SOURCE:
                return found
    return found


async def _edges(reader: Reader, side: str, ids: Iterable[SummaryId]) -> list[Edge]:
    if not reader.schema.has("summary_parents"):
        return []
    rows = await reader.rows_in(
        f"""SELECT summary_id, parent_summary_id, ordinal FROM summary_parents
        WHERE {side} IN (?*) ORDER BY ordinal, parent_summary_id, rowid""",
        ids,
    )
    return [_edge(row) for row in rows]


def _edge(row: Row) -> Edge:
    return Edge(SummaryId(row["summary_id"]), SummaryId(row["parent_summary_id"]), row["ordinal"])


async def count_by(reader: Reader, table: str, column: str, ids: Sequence[str]) -> dict[str, int]:
    """How many links or edges have each of some ids in a column; ids without one are left out."""
    if not reader.schema.has(table):
        return {}
    rows = await reader.rows_in(
        f"SELECT {column} AS id, count(*) AS n FROM {table} WHERE {column} IN (?*) GROUP BY {column}", ids
    )
    return {row["id"]: row["n"] for row in rows}


# -- walks -----------------------------------------------------------------------------------------------
# What is above, below and under a few summaries of a file. `lcm_core.engine.graph.SummaryGraph` walks the
# graph of a conversation that has been read whole; a commit, or a view of a few summaries, reads only what
# it needs.

NodeId = int | str  #: the id of a message, or of a summary


def made_from(db: Rows, tables: Collection[str], refs: Iterable[NodeId]) -> Mapping[NodeId, frozenset[str]]:
    """By message or summary, everything that was made from it, directly or through others.

    *tables* are those of the file. It ends, also where edges go in a circle or lead nowhere.
    """
    found: dict[NodeId, set[str]] = {ref: set() for ref in refs}
    further = (
        """UNION SELECT above.root, edge.summary_id FROM above CROSS JOIN summary_parents AS edge
        ON edge.parent_summary_id = above.id"""
        if "summary_parents" in tables
        else ""
    )
    for table, column, kind in (
        ("summary_messages", "message_id", int),
        ("summary_parents", "parent_summary_id", str),
    ):
        some = [ref for ref in found if isinstance(ref, kind)]
        if table in tables and some:
            for root, over in db.rows_in(
                f"""WITH RECURSIVE above(root, id) AS (
                SELECT {column}, summary_id FROM {table} WHERE {column} IN (?*) {further})
                SELECT root, id FROM above""",
                some,
            ):
                found[root].add(over)
    return {ref: frozenset(over) for ref, over in found.items()}


#: SQL: the common table ``below(root, id)``, every summary that a walk from some roots toward the messages
#: meets, cycles or not; the roots are put in place of ``(?*)``.
BELOW = """below(root, id) AS (
    SELECT summary_id, summary_id FROM summaries WHERE summary_id IN (?*)
    UNION SELECT below.root, edge.parent_summary_id
    FROM below CROSS JOIN summary_parents AS edge ON edge.summary_id = below.id)"""


async def summaries_above(
    reader: Reader, message_ids: Iterable[MessageId]
) -> dict[MessageId, frozenset[SummaryId]]:
    """By message, everything that was made from it; messages of which nothing was made are left out."""
    wanted = list(message_ids)

    def load(db: Rows) -> dict[MessageId, frozenset[SummaryId]]:
        rows = db.rows_in("SELECT message_id FROM summary_messages WHERE message_id IN (?*)", wanted)
        linked = {MessageId(row[0]) for row in rows}  # few, where thousands are asked about
        found = made_from(db, reader.schema.tables, linked)
        return {one: frozenset(map(SummaryId, found[one])) for one in linked}

    return await reader.run(load) if wanted and reader.schema.has("summary_messages") else {}


class SeqRange(Record, frozen=True):
    """The first and the last message that something covers, by seq."""

    first: int
    last: int


async def seq_ranges(
    reader: Reader, conversation_id: ConversationId, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, SeqRange]:
    """What some summaries cover of a conversation's messages; those that cover none are left out."""
    return await reader.run(read_seq_ranges, reader.schema, conversation_id, list(summary_ids))


def read_seq_ranges(
    db: Rows, schema: Schema, conversation_id: ConversationId, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, SeqRange]:
    """The same as a load."""
    if not all(schema.has(table) for table in ("summaries", "summary_parents", "summary_messages")):
        return {}
    rows = db.rows_in(
        f"""WITH RECURSIVE {BELOW}
        SELECT below.root AS summary_id, min(m.seq) AS first, max(m.seq) AS last
        FROM below
        CROSS JOIN summary_messages AS link ON link.summary_id = below.id
        CROSS JOIN messages AS m
            ON m.message_id = link.message_id AND m.conversation_id = {conversation_id:d}
        GROUP BY below.root""",
        summary_ids,
    )
    return {
        SummaryId(summary_id): SeqRange(place(first), place(last)) for summary_id, first, last in typed(rows)
    }


# -- what a view of the DAG reads ------------------------------------------------------------------------
# Of texts only those of the summaries in sight are read.


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
    ordinals = await context_ordinals(reader, conversation_id)
    return WholeTree(tuple(ordinals), await load_columns(reader, conversation_id))


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
    text = await get_summary(reader, summary_id)
    [entry] = await entries_of_texts(reader, [text])
    sources = await edges_of(reader, [summary_id])
    consumers = await consumers_of(reader, summary_id)
    around = [edge.source for edge in sources] + [edge.consumer for edge in consumers]
    known = {found.summary_id: found for found in await summaries_in(reader, dict.fromkeys(around))}
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
