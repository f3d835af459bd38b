"""``files list`` and ``files show``: payloads that the engine took out of messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lcm_core.base.errors import NotFoundError
from lcm_core.base.paths import FileText, StoredFile, read_head, resolve_stored
from lcm_core.base.records import ConversationId, LargeFile
from lcm_core.base.settings import Settings
from lcm_core.base.text import preview
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Window, file_page
from lcm_core.store.messages import FileReferences, get_file, references_to
from lcm_core.store.schema import Schema

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import as_text, chosen
from lcm_tui.tables.blocks import Cell, Facts, Mark, Note, Prose, Table
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.blocks import OutputColumn as Column

#: What ``--content`` reads at the most.
MAX_CONTENT_BYTES = 64 * 1024 * 1024


class _Shown(Record, frozen=True):
    schema: Schema
    file: LargeFile
    references: FileReferences


def list_(run: Run, named: Selector, window: Window) -> Answer:
    """A page of the large files of a conversation, or of all."""
    schema, owner, page = run.read(_load_list, named, window)
    stored = [_resolved(run.settings, file) for file in page.items]
    return run.answer(
        "files.list",
        {
            "conversationId": owner,
            "items": [_document(file, place) for file, place in zip(page.items, stored, strict=True)],
        },
        [_table(run, schema, page.items, stored)],
        paging=Paging("files", window.limit, len(page.items), page.next),
        not_recorded=[f"items.{name}" for name in documents.not_recorded(schema, "large_files")],
    )


async def _load_list(
    reader: Reader, named: Selector, window: Window
) -> tuple[Schema, ConversationId | None, Page[LargeFile]]:
    owner = (await chosen(reader, named)).conversation_id if named.given else None
    return reader.schema, owner, await file_page(reader, owner, window)


def show(run: Run, file_id: str, *, content: bool) -> Answer:
    """One file, with its text when *content*."""
    found = run.read(_load, file_id)
    stored = _resolved(run.settings, found.file)
    text = _content(stored) if content else None
    data: Document = {
        "file": _document(found.file, stored),
        "references": {
            "messages": list(found.references.messages),
            "summaries": list(found.references.summaries),
        },
    }
    if text is not None:
        data["content"] = {
            "text": None if text.binary else text.text,
            "description": text.description,
            "bytesRead": text.bytes_read,
            "complete": text.complete,
        }
    missing = documents.not_recorded(found.schema, "large_files")
    return run.answer(
        "files.show",
        data,
        _blocks(run, found, stored, text),
        not_recorded=[f"file.{name}" for name in missing],
    )


async def _load(reader: Reader, file_id: str) -> _Shown:
    file = as_text(await get_file(reader, file_id))
    return _Shown(reader.schema, file, await references_to(reader, file))


def _resolved(settings: Settings, file: LargeFile) -> StoredFile:
    return resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=settings.large_files_dir.value,
        state_dir=settings.state_dir.value,
        known=settings.knows_large_files,
    )


def _content(stored: StoredFile) -> FileText:
    """The file's text.

    Raises:
        NotFoundError: it is not there, or must not be opened.
    """
    path: Path | None = stored.path
    if path is None:
        raise NotFoundError(stored.message, code="FILE_UNREADABLE", details={"path": stored.stored})
    return read_head(path, MAX_CONTENT_BYTES)


def _document(file: LargeFile, stored: StoredFile) -> Document:
    return {
        "fileId": file.file_id,
        "conversationId": file.conversation_id,
        "fileName": file.file_name,
        "mimeType": file.mime_type,
        "byteSize": file.byte_size,
        "lineCount": file.line_count,
        "storageUri": file.storage_uri,
        "explorationSummary": file.exploration_summary,
        "createdAt": file.created_at,
        "state": stored.state,
        "resolvedPath": None if stored.path is None else str(stored.path),
        "message": stored.message,
    }


def _table(run: Run, schema: Schema, files: Sequence[LargeFile], stored: Sequence[StoredFile]) -> Table:
    columns = (
        Column("File"),
        Column("Conv.", right=True, spare=3),
        Column("Name", grows=True),
        Column("Type", spare=4),
        Column("Bytes", right=True, spare=1),
        Column("Stored", spare=2),
        Column("On disk"),
        Column("Exploration summary", grows=True),
    )
    rows = [
        (
            file.file_id,
            str(file.conversation_id),
            file.file_name,
            file.mime_type,
            file.byte_size,
            run.time(file.created_at),
            str(place.state),
            preview(file.exploration_summary or ""),
        )
        for file, place in zip(files, stored, strict=True)
    ]
    return Table(columns, rows, empty="No large files.")


def _blocks(run: Run, found: _Shown, stored: StoredFile, text: FileText | None) -> list[Block]:
    file = found.file
    lines: Cell = file.line_count if found.schema.has("large_files", "line_count") else Mark.NOT_RECORDED
    facts: list[tuple[str, Cell]] = [
        ("File", file.file_id),
        ("Conversation", str(file.conversation_id)),
        ("Name", file.file_name),
        ("Type", file.mime_type),
        ("Bytes", file.byte_size),
        ("Lines", lines),
        ("Stored", run.time(file.created_at)),
        ("Stored as", file.storage_uri),
        ("On disk", str(stored.path) if stored.path else stored.message),
        ("Messages", ", ".join(map(str, found.references.messages)) or None),
        ("Summaries", ", ".join(found.references.summaries) or None),
    ]
    blocks: list[Block] = [
        Facts(facts),
        Prose(file.exploration_summary or "No exploration summary.", title="Exploration summary"),
    ]
    if text is not None:
        blocks.append(
            Note(f"The file is {text.description}: it is not shown.")
            if text.binary
            else Prose(text.text, title="Content")
        )
        if not text.complete and not text.binary:
            blocks.append(Note(f"Truncated after {text.bytes_read:,} of {text.size:,} bytes."))
    return blocks
