"""What the rows of a finding are, and where in a conversation they are: to show them and to jump to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lcm_core.base.findings import KeyPart, RowRef
from lcm_core.base.records import ContextItem, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.values import Record, T
from lcm_core.store.context import ContextEntry, context_entries
from lcm_core.store.database import Reader
from lcm_core.store.state import BOOTSTRAP, CURSORS, GAPS, MAINTENANCE, TELEMETRY


class FoundRow(Record, frozen=True):
    """A row that a check named, with the message or summary that it is, or that it refers to."""

    ref: RowRef
    conversation_id: ConversationId | None = None  #: whose place it is; None: of none, or not known
    ordinal: int | None = None  #: of a context item, also of one that is missing
    message_id: MessageId | None = None
    summary_id: SummaryId | None = None
    entry: ContextEntry | None = None  #: what `message_id` or `summary_id` holds, if they name something
    name: str = ""  #: of a file or a conversation: what people call it

    @property
    def gone(self) -> bool:
        """Whether it refers to a message or summary that is not stored."""
        return self.entry is not None and self.entry.dangling

    @property
    def seq(self) -> int | None:
        """The seq of the message."""
        return None if self.entry is None else self.entry.seq


#: Tables whose key is the id of a conversation.
_OF_CONVERSATIONS: Final = frozenset(
    {
        BOOTSTRAP,
        MAINTENANCE,
        TELEMETRY,
        CURSORS,
        "conversation_transcript_epochs",
    }
)
#: Columns that name what a row belongs to, by table, and the columns of its primary key.
_NAMING: Final = {
    "context_items": (("conversation_id", "ordinal"), ("conversation_id", "message_id", "summary_id")),
    "summary_messages": (("summary_id", "message_id"), ("summary_id", "message_id")),
    "summary_parents": (("summary_id", "parent_summary_id"), ("summary_id",)),
    "message_parts": (("part_id",), ("message_id",)),
    "large_files": (("file_id",), ("conversation_id", "file_name")),
    "conversations": (("conversation_id",), ("conversation_id", "session_key", "session_id")),
    "focus_briefs": (("brief_id",), ("conversation_id",)),
    GAPS: (("gap_id",), ("conversation_id",)),
}
#: Columns by which people know a row, the best first.
_CALLED: Final = ("file_name", "session_key", "session_id")


async def found_rows(reader: Reader, refs: Sequence[RowRef]) -> list[FoundRow]:
    """Some rows of findings with what they refer to; only the beginning of texts is read."""
    rows = [await _named(reader, ref) for ref in refs]
    items = [_item(row) for row in rows]
    named = [item for item in items if item.message_id is not None or item.summary_id is not None]
    entries = iter(await context_entries(reader, named))
    found = []
    for row, item in zip(rows, items, strict=True):
        if item.message_id is None and item.summary_id is None:
            found.append(row)
            continue
        entry = next(entries)
        owner = row.conversation_id if row.conversation_id is not None else entry.conversation_id
        found.append(FoundRow(row.ref, owner, row.ordinal, row.message_id, row.summary_id, entry))
    return found


def _item(row: FoundRow) -> ContextItem:
    message = row.message_id if row.summary_id is None else None
    return ContextItem(row.ordinal or 0, "", message, row.summary_id, Timestamp(""))


async def _named(reader: Reader, ref: RowRef) -> FoundRow:
    """A row with the ids that it holds, as far as they are stored."""
    key = ref.key
    first = key[0] if key else None
    match ref.table:
        case "messages" | "messages_fts" if isinstance(first, int):
            return FoundRow(ref, message_id=MessageId(first))
        case "summaries" if isinstance(first, str):
            return FoundRow(ref, summary_id=SummaryId(first))
        case "summaries_fts" | "summaries_fts_cjk" if isinstance(first, int):
            return FoundRow(ref, summary_id=await _searched_summary(reader, ref.table, first))
        case table if table in _OF_CONVERSATIONS and isinstance(first, int):
            return FoundRow(ref, ConversationId(first))
        case table if table in _NAMING and key and reader.schema.has(table):
            return await _naming(reader, ref)
        case _:
            return FoundRow(ref)


async def _searched_summary(reader: Reader, table: str, rowid: int) -> SummaryId | None:
    if not reader.schema.has(f"{table}_content"):
        return None
    found = await reader.value(f"SELECT CAST(c0 AS TEXT) FROM {table}_content WHERE id = ?", rowid)
    return None if found is None else SummaryId(found)


async def _naming(reader: Reader, ref: RowRef) -> FoundRow:
    """A row that belongs to others: those that it names, or that its key names when it is not there."""
    keys, columns = _NAMING[ref.table]
    by_rowid = len(ref.key) == 1 and (len(keys) > 1 or isinstance(ref.key[0], int))
    where = "rowid = ?" if by_rowid else " AND ".join(f"{name} = ?" for name in keys)
    wanted = dict.fromkeys((*columns, *(("ordinal",) if "ordinal" in keys else ())))
    names = [name for name in wanted if reader.schema.has(ref.table, name)]
    row = await reader.row(f"SELECT {', '.join(names)} FROM {ref.table} WHERE {where}", *ref.key)
    held: dict[str, KeyPart] = {} if by_rowid else dict(zip(keys, ref.key, strict=False))
    if row is not None:
        held |= {name: row[name] for name in names}
    message, summary = held.get("message_id"), held.get("summary_id")
    return FoundRow(
        ref,
        _kept(held.get("conversation_id"), ConversationId),
        _kept(held.get("ordinal"), int),
        _kept(message, MessageId),
        None if not isinstance(summary, str) else SummaryId(summary),
        name=next((str(held[name]) for name in _CALLED if held.get(name)), ""),
    )


def _kept(value: KeyPart, kind: Callable[[int], T]) -> T | None:
    return kind(value) if isinstance(value, int) else None
