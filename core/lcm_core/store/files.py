"""Large files: payloads that the engine took out of messages, and what refers to them. Never opens a file."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from lcm_core.errors import NotFoundError
from lcm_core.records import ConversationId, FileId, LargeFile, MessageId, SummaryId, Timestamp
from lcm_core.store.connecting import Row
from lcm_core.store.database import Reader
from lcm_core.store.rows import of_conversation

COLUMNS = (
    "file_id",
    "conversation_id",
    "file_name",
    "mime_type",
    "byte_size",
    "line_count",
    "storage_uri",
    "exploration_summary",
    "created_at",
)


@dataclass(frozen=True, slots=True)
class FileReferences:
    """What refers to a file, as far as it is cheap to know."""

    messages: tuple[MessageId, ...]  #: in the order of the conversation
    summaries: tuple[SummaryId, ...]  #: in the order in which they were made


def file_of(row: Row) -> LargeFile:
    """A row that holds `COLUMNS` as a record."""
    return LargeFile(
        file_id=FileId(row["file_id"]),
        conversation_id=ConversationId(row["conversation_id"]),
        file_name=row["file_name"],
        mime_type=row["mime_type"],
        byte_size=row["byte_size"],
        line_count=row["line_count"],
        storage_uri=row["storage_uri"] or "",
        exploration_summary=row["exploration_summary"],
        created_at=row["created_at"] or Timestamp(""),
    )


async def list_files(
    reader: Reader, conversation_id: ConversationId | None = None, *, newest: int | None = None
) -> list[LargeFile]:
    """The files of one conversation, or of all, in the order in which they were stored.

    *newest*: only so many of them, those that were stored last.
    """
    if not reader.schema.has("large_files"):
        return []
    condition, keys = of_conversation("f.conversation_id", conversation_id)
    rows = await reader.rows(
        f"""SELECT {reader.schema.select("large_files", COLUMNS, "f")} FROM large_files AS f
        WHERE {condition} ORDER BY f.rowid DESC LIMIT ?""",
        *keys,
        -1 if newest is None else newest,
    )
    return [file_of(row) for row in reversed(rows)]


async def get_file(reader: Reader, file_id: str) -> LargeFile:
    """One file by its id, letter case aside, as references write it (docs/format.md, "Identifiers").

    Raises:
        NotFoundError: no file has this id.
    """
    row = None
    if reader.schema.has("large_files"):
        row = await reader.row(
            f"""SELECT {reader.schema.select("large_files", COLUMNS, "f")} FROM large_files AS f
            WHERE f.file_id IN (?, ?)""",
            file_id,
            file_id.lower(),
        )
    if row is None:
        raise NotFoundError(
            f"No file matched id {file_id}; list those that are there with: lcm-tui files list.",
            code="FILE_NOT_FOUND",
            details={"fileId": file_id},
        )
    return file_of(row)


async def references_to(reader: Reader, file: LargeFile) -> FileReferences:
    """What refers to a file in its conversation.

    Looks at the file ids that summaries carry and at the messages below them or in the context: a message
    that is in neither place is not found, for that would take reading every message.
    """
    naming = await _summaries_naming(reader, file)
    large = "OR m.large_content = ?" if reader.schema.has("messages", "large_content") else ""
    holds = f"SELECT m.message_id, m.seq FROM messages AS m WHERE (instr(m.content, ?) > 0 {large})"
    wanted = (file.file_id, *((file.file_id,) if large else ()), file.conversation_id)
    rows: list[Row] = []
    if reader.schema.has("summary_messages"):
        rows += await reader.rows_in(
            f"""{holds} AND m.conversation_id = ? AND m.message_id IN (
            SELECT message_id FROM summary_messages WHERE summary_id IN (?*))""",
            naming,
            *wanted,
        )
    if reader.schema.has("context_items"):
        rows += await reader.rows(
            f"""{holds} AND m.conversation_id = ? AND m.message_id IN (
            SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL)""",
            *wanted,
            file.conversation_id,
        )
    found = {row["message_id"]: row["seq"] for row in rows}
    return FileReferences(tuple(MessageId(one) for one in sorted(found, key=found.__getitem__)), naming)


async def _summaries_naming(reader: Reader, file: LargeFile) -> tuple[SummaryId, ...]:
    if not reader.schema.has("summaries", "file_ids"):
        return ()
    rows = await reader.rows(
        """SELECT summary_id FROM summaries
        WHERE conversation_id = ? AND instr(file_ids, ?) > 0 ORDER BY rowid""",
        file.conversation_id,
        f'"{file.file_id}"',
    )
    return tuple(SummaryId(row["summary_id"]) for row in rows)


async def files_by_id(reader: Reader, file_ids: Sequence[str]) -> dict[str, LargeFile]:
    """Some files by their id; those without a row are left out."""
    if not file_ids or not reader.schema.has("large_files"):
        return {}
    rows = await reader.rows_in(
        f"""SELECT {reader.schema.select("large_files", COLUMNS, "f")} FROM large_files AS f
        WHERE f.file_id IN (?*)""",
        file_ids,
    )
    return {row["file_id"]: file_of(row) for row in rows}


def new_file_id() -> str:
    """``file_`` and 16 random hexadecimal digits."""
    return f"file_{secrets.token_hex(8)}"
