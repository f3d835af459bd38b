"""Which rows belong to a conversation or a session, what refers to them, and rows that nothing owns."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from lcm_core.base.records import ConversationId, MessageId
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row, SqlValue
from lcm_core.store.rows import KeyRange, StoredRow, next_range, rows_by
from lcm_core.store.state import GAPS, REPLAY_KEYS

# -- what a conversation holds ---------------------------------------------------------------------------
# For whoever copies, merges or deletes its rows.

#: Columns of ``messages`` that hold a value once in a conversation (docs/spec/format.md, "Indexes").
UNIQUE_COLUMNS = ("transcript_entry_id", "stable_event_key")
#: The same of tables whose rows are about entries of a conversation's transcript (docs/spec/cursors.md).
UNIQUE_ENTRIES: Final[Mapping[str, tuple[str, ...]]] = {
    REPLAY_KEYS: ("transcript_entry_id",),
    GAPS: ("first_entry_id", "last_entry_id"),
}


async def values_taken(
    reader: Reader, conversation_id: ConversationId, column: str, values: Iterable[str]
) -> frozenset[str]:
    """Which of some values of one of the columns `UNIQUE_COLUMNS` a conversation's messages hold."""
    if column not in UNIQUE_COLUMNS:
        raise ValueError(f"{column} may be more than once in a conversation")
    if not reader.schema.has("messages", column):
        return frozenset()
    rows = await reader.rows_in(
        f"SELECT {column} FROM messages WHERE conversation_id = ? AND {column} IN (?*)",
        values,
        conversation_id,
    )
    return frozenset(row[0] for row in rows)


async def messages_of_times(
    reader: Reader, conversation_id: ConversationId, times: Collection[str]
) -> list[StoredRow]:
    """Id, role, text and time of the messages of a conversation that bear one of some stored times."""
    if not reader.schema.has("messages", "created_at"):
        return []
    rows = await reader.rows(
        "SELECT message_id, created_at FROM messages WHERE conversation_id = ? ORDER BY seq", conversation_id
    )
    wanted = [row["message_id"] for row in rows if row["created_at"] in times]
    found = await reader.rows_in(
        "SELECT message_id, role, content, created_at FROM messages WHERE message_id IN (?*)", wanted
    )
    return [dict(row) for row in found]


async def message_seqs(reader: Reader, conversation_id: ConversationId) -> list[tuple[MessageId, int]]:
    """The messages of a conversation with their seq, in its order."""
    rows = await reader.rows(
        "SELECT message_id, seq FROM messages WHERE conversation_id = ? ORDER BY seq", conversation_id
    )
    return [(MessageId(row[0]), int(row[1])) for row in rows]


async def unique_values(
    reader: Reader, conversation_id: ConversationId, column: str
) -> list[tuple[MessageId, str]]:
    """The values of one of the columns `UNIQUE_COLUMNS` in a conversation, with whose they are."""
    if column not in UNIQUE_COLUMNS or not reader.schema.has("messages", column):
        return []
    rows = await reader.rows(
        f"SELECT message_id, {column} FROM messages WHERE conversation_id = ? AND {column} IS NOT NULL",
        conversation_id,
    )
    return [(MessageId(row[0]), str(row[1])) for row in rows]


async def entries_noted(
    reader: Reader, conversation_id: ConversationId, table: str
) -> dict[tuple[SqlValue, ...], StoredRow]:
    """The rows of one of `UNIQUE_ENTRIES` for a conversation, by the entries that they are about."""
    rows = await rows_by(reader, table, "conversation_id", [conversation_id])
    return {tuple(row[name] for name in UNIQUE_ENTRIES[table]): row for row in rows}


# -- what refers to them -------------------------------------------------------------------------------

#: Of many uses this many are named.
NAMED = 5


class ForeignUse(Record, frozen=True):
    """Something of another conversation that needs a row of this one."""

    conversation_id: int | None  #: the other one; None: not known
    user: str  #: ``summary sum_...``, ``the context``, ``focus brief ...``
    used: str  #: ``message 17``, ``summary sum_...``
    file: bool = False  #: a large file that is only named: nothing breaks


async def consumers_first(reader: Reader, conversation_id: ConversationId) -> tuple[list[str], list[str]]:
    """The summaries of a conversation, each before what it was made from; then those on or below a cycle."""
    if not reader.schema.has("summaries"):
        return [], []
    owned = [
        row[0]
        for row in await reader.rows(
            "SELECT summary_id FROM summaries WHERE conversation_id = ? ORDER BY rowid", conversation_id
        )
    ]
    if not reader.schema.has("summary_parents"):
        return owned, []
    edges = await reader.rows_in(
        "SELECT summary_id, parent_summary_id FROM summary_parents WHERE summary_id IN (?*)", owned
    )
    sources: dict[str, list[str]] = {one: [] for one in owned}
    consumers = dict.fromkeys(owned, 0)
    for consumer, source in edges:
        if source in consumers and source != consumer:
            sources[consumer].append(source)
            consumers[source] += 1
    waiting = deque(one for one in owned if not consumers[one])
    found: dict[str, None] = {}
    while waiting:
        one = waiting.popleft()
        found[one] = None
        for source in sources[one]:
            consumers[source] -= 1
            if not consumers[source]:
                waiting.append(source)
    return list(found), [one for one in owned if one not in found]


async def foreign_uses(reader: Reader, conversation_id: ConversationId) -> list[ForeignUse]:
    """What of other conversations needs rows of this one; a few of each kind."""
    found = [
        *await _uses_of(reader, _LINKS, conversation_id),
        *await _uses_of(reader, _EDGES, conversation_id),
    ]
    if reader.schema.has("context_items"):
        found += await _in_other_contexts(reader, conversation_id)
    found += await _uses_of(reader, _BRIEF_SOURCES, conversation_id)
    return found + await _files_named(reader, conversation_id)


class _Naming(Record, frozen=True):
    """A table whose rows join a row of one conversation and what is made from it."""

    table: str
    column: str  #: names what is used
    used: tuple[str, str, str]  #: its table, the key there, its word
    user: tuple[str, str, str]  #: the same of what uses it


_SUMMARY: Final = ("summaries", "summary_id", "summary")
_LINKS: Final = _Naming("summary_messages", "message_id", ("messages", "message_id", "message"), _SUMMARY)
_EDGES: Final = _Naming("summary_parents", "parent_summary_id", _SUMMARY, _SUMMARY)
_BRIEF_SOURCES: Final = _Naming(
    "focus_brief_sources", "summary_id", _SUMMARY, ("focus_briefs", "brief_id", "focus brief")
)


async def _uses_of(reader: Reader, naming: _Naming, conversation_id: ConversationId) -> list[ForeignUse]:
    (used, used_key, used_word), (user, user_key, user_word) = naming.used, naming.user
    if not all(map(reader.schema.has, (naming.table, used, user))):
        return []
    rows = await reader.rows(
        f"""SELECT c.conversation_id, n.{user_key}, s.{used_key} FROM {used} AS s
        JOIN {naming.table} AS n ON n.{naming.column} = s.{used_key}
        JOIN {user} AS c ON c.{user_key} = n.{user_key}
        WHERE s.conversation_id = ? AND c.conversation_id IS NOT s.conversation_id LIMIT ?""",
        conversation_id,
        NAMED,
    )
    return [ForeignUse(row[0], f"{user_word} {row[1]}", f"{used_word} {row[2]}") for row in rows]


async def _in_other_contexts(reader: Reader, conversation_id: ConversationId) -> list[ForeignUse]:
    """The items of other contexts are fewer than the messages: asked from there."""
    found: list[ForeignUse] = []
    for table, column, word in (
        ("messages", "message_id", "message"),
        ("summaries", "summary_id", "summary"),
    ):
        if not reader.schema.has(table):
            continue
        rows = await reader.rows(
            f"""SELECT c.conversation_id, c.{column} FROM context_items AS c
            JOIN {table} AS t ON t.{column} = c.{column}
            WHERE c.conversation_id IS NOT ? AND t.conversation_id = ? LIMIT ?""",
            conversation_id,
            conversation_id,
            NAMED,
        )
        found += [ForeignUse(row[0], "the context", f"{word} {row[1]}") for row in rows]
    return found


async def _files_named(reader: Reader, conversation_id: ConversationId) -> list[ForeignUse]:
    """Large files that summaries of other conversations name among theirs."""
    if not (reader.schema.has("large_files") and reader.schema.has("summaries", "file_ids")):
        return []
    rows = await reader.rows(
        """SELECT s.conversation_id, s.summary_id, f.file_id FROM large_files AS f
        JOIN summaries AS s ON s.conversation_id IS NOT f.conversation_id
        AND s.file_ids NOT IN ('', '[]') AND instr(s.file_ids, f.file_id)
        WHERE f.conversation_id = ? LIMIT ?""",
        conversation_id,
        NAMED,
    )
    return [ForeignUse(row[0], f"summary {row[1]}", f"file {row[2]}", file=True) for row in rows]


# -- owners of sessions ----------------------------------------------------------------------------------
# Which conversations hold the sessions of a host.


async def session_owners(reader: Reader, session_ids: Iterable[str]) -> Mapping[str, ConversationId]:
    """The conversation of each session that has one: the active one of its id, else the newest."""
    return await _owners(reader, "session_id", session_ids)


async def key_owners(reader: Reader, session_keys: Iterable[str]) -> Mapping[str, ConversationId]:
    """The conversation of each session key that has one: the active one, else the newest."""
    if not reader.schema.has("conversations", "session_key"):
        return {}
    return await _owners(reader, "session_key", session_keys)


async def _owners(reader: Reader, column: str, values: Iterable[str]) -> Mapping[str, ConversationId]:
    order = "active, " if reader.schema.has("conversations", "active") else ""
    rows = await reader.rows_in(
        f"SELECT {column} AS named, conversation_id FROM conversations WHERE {column} IN (?*) "
        f"ORDER BY {order}conversation_id",
        values,
    )
    return {row["named"]: ConversationId(row["conversation_id"]) for row in rows}


# -- loose ends ------------------------------------------------------------------------------------------
# Rows whose other end is gone, whole and as they are stored: what a fix deletes.

#: Conversations that are asked for; None: all of them, and rows of none.
Owners = Collection[ConversationId | None] | None
#: A whole row and its table.
TableRow = tuple[str, StoredRow]
#: Rows that one transaction looks at.
ROWS_AT_A_TIME = 200_000


def parts_without_message(step: KeyRange) -> str:
    """SQL of the parts in a range of message ids whose message is gone: ``id``, and ``owner`` by session."""
    return f"""
        SELECT p.part_id AS id, (SELECT max(c.conversation_id) FROM conversations AS c
            WHERE c.session_id = p.session_id) AS owner
        FROM message_parts AS p WHERE {step.where("p.message_id")}
        AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = p.message_id)"""


async def orphan_part_rows(reader: Reader, owners: Owners) -> list[TableRow]:
    """The parts whose message is gone, of the conversations whose session they name."""
    if not reader.schema.has("message_parts"):
        return []
    lost: list[SqlValue] = []
    step = await next_range(reader, "message_parts", "message_id", ROWS_AT_A_TIME, None)
    while step is not None:
        rows = await reader.stored(parts_without_message(step), *step.bounds)
        step = await next_range(reader, "message_parts", "message_id", ROWS_AT_A_TIME, step)
        lost += (row["id"] for row in rows if owners is None or row["owner"] in owners)
    return [("message_parts", row) for row in await rows_by(reader, "message_parts", "part_id", lost)]


async def lines_of_no_summary(reader: Reader, owners: Owners) -> list[TableRow]:
    """Links and edges whose summary is gone, of the conversations of their other end."""
    found: list[TableRow] = []
    for table, target, column, key in (
        ("summary_messages", "messages", "message_id", "message_id"),
        ("summary_parents", "summaries", "parent_summary_id", "summary_id"),
    ):
        if reader.schema.has(table) and reader.schema.has("summaries"):
            rows = await reader.stored(
                f"""SELECT l.*, (SELECT t.conversation_id FROM {target} AS t WHERE t.{key} = l.{column})
                AS of_other FROM {table} AS l
                WHERE NOT EXISTS (SELECT 1 FROM summaries AS s WHERE s.summary_id = l.summary_id)"""
            )
            found += ((table, row) for row in _owned(rows, "of_other", owners))
    return found


async def brief_sources_gone(reader: Reader, owners: Owners) -> list[TableRow]:
    """The sources of focus briefs whose summary is gone."""
    if not (reader.schema.has("focus_brief_sources") and reader.schema.has("focus_briefs")):
        return []
    rows = await reader.stored(
        """SELECT f.*, b.conversation_id AS brief_of FROM focus_brief_sources AS f
        JOIN focus_briefs AS b ON b.brief_id = f.brief_id
        WHERE NOT EXISTS (SELECT 1 FROM summaries AS s WHERE s.summary_id = f.summary_id)"""
    )
    return [("focus_brief_sources", row) for row in _owned(rows, "brief_of", owners)]


def _owned(rows: Iterable[Row], column: str, owners: Owners) -> Iterator[StoredRow]:
    """The rows of some conversations, without the column that names these."""
    for row in rows:
        if owners is None or row[column] in owners:
            yield {name: row[name] for name in dict(row) if name != column}


async def conversations_with_loose_ends(reader: Reader) -> list[ConversationId]:
    """The conversations whose context or lineage names what is gone."""
    wanted = [
        """SELECT c.conversation_id FROM context_items AS c WHERE
        (c.message_id IS NOT NULL AND c.message_id NOT IN (SELECT message_id FROM messages))
        OR (c.summary_id IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM summaries AS s WHERE s.summary_id = c.summary_id))""",
        """SELECT s.conversation_id FROM summary_messages AS l JOIN summaries AS s USING (summary_id)
        WHERE l.message_id NOT IN (SELECT message_id FROM messages)""",
        """SELECT s.conversation_id FROM summary_parents AS e JOIN summaries AS s USING (summary_id)
        WHERE NOT EXISTS (SELECT 1 FROM summaries AS p WHERE p.summary_id = e.parent_summary_id)""",
    ]
    tables = ("context_items", "summary_messages", "summary_parents")
    known = [sql for table, sql in zip(tables, wanted, strict=True) if reader.schema.has(table)]
    if not known or not reader.schema.has("summaries"):
        return []
    rows = await reader.rows(" UNION ".join(known))
    return [ConversationId(row[0]) for row in rows if isinstance(row[0], int)]
