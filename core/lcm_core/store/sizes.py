"""What takes the space: by table, by conversation, by age. Scans, for the command line and the background."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lcm_core.errors import DatabaseError
from lcm_core.records import Conversation, ConversationId, Timestamp
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table with its indexes; a search table with its shadows."""

    name: str
    bytes: int
    indexes: int  #: bytes of them that are indexes


@dataclass(frozen=True, slots=True)
class FileSize:
    """The whole file."""

    bytes: int
    free: int  #: bytes in pages that hold nothing: written again before the file grows
    tables: tuple[TableSize, ...] | None  #: the largest first; None: this SQLite cannot tell


@dataclass(frozen=True, slots=True)
class ConversationSize:
    """What one conversation takes: its rows, and the bytes of their texts."""

    conversation: Conversation
    last_activity: Timestamp | None  #: of the message with the highest seq
    messages: int
    summaries: int
    context_items: int
    bytes: int | None = None  #: texts of messages, parts, summaries; None: not measured

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.messages or self.summaries or self.context_items)

    @property
    def at(self) -> Timestamp:
        """What its age is counted from: its newest message, else when it was made."""
        return self.last_activity or self.conversation.created_at


async def file_size(reader: Reader) -> FileSize:
    """Pages, and which tables hold them: reads every page once."""
    page = await reader.value("PRAGMA page_size")
    pages = await reader.value("PRAGMA page_count")
    free = await reader.value("PRAGMA freelist_count")
    return FileSize(page * pages, page * free, await _tables(reader))


async def _tables(reader: Reader) -> tuple[TableSize, ...] | None:
    try:
        rows = await reader.rows(
            """SELECT m.tbl_name, m.type, d.pgsize FROM dbstat('main', 1) AS d
            JOIN sqlite_master AS m ON m.name = d.name"""
        )
    except DatabaseError:  # built without the dbstat table
        return None
    search = [name for name in reader.schema.tables if name.endswith(("_fts", "_fts_cjk"))]
    whole: dict[str, int] = {}
    indexes: dict[str, int] = {}
    for table, kind, size in rows:
        shadow_of = [name for name in search if table.startswith(f"{name}_")]
        name = max(shadow_of, key=len) if shadow_of and table not in search else table
        whole[name] = whole.get(name, 0) + size
        indexes[name] = indexes.get(name, 0) + (size if kind == "index" else 0)
    found = (TableSize(name, size, indexes[name]) for name, size in whole.items())
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.name)))


async def conversation_counts(reader: Reader) -> list[ConversationSize]:
    """Every conversation with the number of its rows, by id; indexes only."""
    counts = {table: await _grouped(reader, table) for table in ("messages", "summaries", "context_items")}
    found = (
        ConversationSize(
            entry.conversation,
            entry.last_activity,
            *(counts[table].get(entry.conversation.conversation_id, 0) for table in counts),
        )
        for entry in await list_conversations(reader)
    )
    return sorted(found, key=lambda one: one.id)


async def _grouped(reader: Reader, table: str) -> dict[int, int]:
    if not reader.schema.has(table):
        return {}
    rows = await reader.rows(f"SELECT conversation_id, count(*) FROM {table} GROUP BY conversation_id")
    return {row[0]: row[1] for row in rows}


async def measured(
    reader: Reader, sizes: Iterable[ConversationSize], *, whole: bool
) -> list[ConversationSize]:
    """The same with the bytes of their texts; *whole*: those are most of the file, which is scanned once."""
    wanted = list(sizes)
    ids = None if whole else [one.id for one in wanted]
    found: dict[int, int] = {}
    for table, columns in _TEXTS.items():
        held = [column for column in columns if reader.schema.has(table, column)]
        if not held:
            continue
        for owner, size in await _bytes(reader, table, held, ids):
            found[owner] = found.get(owner, 0) + size
    return [replace(one, bytes=found.get(one.id, 0)) for one in wanted]


#: Columns with texts of any length.
_TEXTS = {
    "messages": ("content", "large_content", "openclaw_sender_metadata"),
    "message_parts": (
        "text_content",
        "tool_input",
        "tool_output",
        "tool_error",
        "metadata",
        "file_url",
        "patch_files",
        "subtask_prompt",
    ),
    "summaries": ("content",),
    "large_files": ("exploration_summary",),
    "focus_briefs": ("content", "raw_result_json"),
}


async def _bytes(
    reader: Reader, table: str, columns: list[str], ids: list[ConversationId] | None
) -> list[tuple[int, int]]:
    size = " + ".join(f"coalesce(length(CAST(t.{column} AS BLOB)), 0)" for column in columns)
    source, owner = f"{table} AS t", "t.conversation_id"
    if table == "message_parts":
        source = "message_parts AS t JOIN messages AS m ON m.message_id = t.message_id"
        owner = "m.conversation_id"
    if ids is None:
        rows = await reader.rows(f"SELECT {owner}, sum({size}) FROM {source} GROUP BY 1")
    else:
        rows = await reader.rows_in(
            f"SELECT {owner}, sum({size}) FROM {source} WHERE {owner} IN (?*) GROUP BY 1", ids
        )
    return [(row[0], row[1] or 0) for row in rows]
