"""What a conversation holds, for whoever copies, merges or deletes its rows, and what others need of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lcm_core.records import ConversationId, MessageId
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.state import GAPS, REPLAY_KEYS

#: Columns of ``messages`` that hold a value once in a conversation (docs/format.md, "Indexes").
UNIQUE_COLUMNS = ("transcript_entry_id", "stable_event_key")
#: The same of tables whose rows are about entries of a conversation's transcript (docs/engine/cursors.md).
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


@dataclass(frozen=True, slots=True)
class ForeignUse:
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


@dataclass(frozen=True, slots=True)
class _Naming:
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
