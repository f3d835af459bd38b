"""``files``, and ``show`` of a file: payloads that the engine took out of messages."""

from __future__ import annotations

from pathlib import Path

from lcm_core.base.errors import NotFoundError
from lcm_core.base.paths import FileText, StoredFile, read_head
from lcm_core.base.records import ConversationId, LargeFile
from lcm_core.base.values import to_json
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Window, file_page
from lcm_core.store.messages import FileReferences, get_file, references_to
from lcm_core.store.schema import Schema

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import ConversationName
from lcm_tui.cli.options import Named
from lcm_tui.cli.selecting import as_text, owner_if_named
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    Mark,
    Note,
    Prose,
    json_names,
    json_of,
    list_table,
    not_recorded,
)
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.files import FILE_COLUMNS, FileRow, stored_file

#: What ``--include-content`` reads at the most.
MAX_CONTENT_BYTES = 64 * 1024 * 1024


@command("files", forms=("csv",), examples=("files", "files 1"))
@options.optional_conversation
@options.page_options
@options.period_options
def files(
    run: Run,
    *,
    conversation: ConversationName | None,
    paged: options.PageOptions,
    times: options.TimeOptions,
) -> Answer:
    """List the large files of one or all conversations, newest first."""
    window = options.window(run, "files", paged, times)
    schema, owner, page = run.read(_load_list, conversation, window)
    rows = [FileRow(file, stored_file(file, run.settings)) for file in page.items]
    return run.answer(
        "files",
        {
            "conversationId": owner,
            "items": [json_of(FILE_COLUMNS, row) for row in rows],
        },
        [list_table(FILE_COLUMNS, rows, run.time, empty="No large files.")],
        paging=Paging("files", window.limit, len(page.items), page.next),
        not_recorded=not_recorded(FILE_COLUMNS, schema, "items"),
        names=json_names(FILE_COLUMNS),
    )


async def _load_list(
    reader: Reader, named: Named | None, window: Window
) -> tuple[Schema, ConversationId | None, Page[LargeFile]]:
    owner = await owner_if_named(reader, named)
    return reader.schema, owner, await file_page(reader, owner, window)


def show_file(run: Run, file_id: str, *, content: bool) -> Answer:
    """Show one file: its record, its location, and what refers to it."""
    schema, file, references = run.read(_load, file_id)
    stored = stored_file(file, run.settings)
    text = _content(stored) if content else None
    data: Document = {
        "file": json_of(FILE_COLUMNS, FileRow(file, stored)),
        "references": to_json(references),
    }
    if text is not None:
        data["content"] = {
            "text": None if text.binary else text.text,
            **some_of(text, "description bytes_read"),
            "complete": text.complete,
        }
    counts_lines = schema.has("large_files", "line_count")
    facts: list[tuple[str, Cell]] = [
        ("File", file.file_id),
        ("Conversation", str(file.conversation_id)),
        ("Name", file.file_name),
        ("Type", file.mime_type),
        ("Bytes", file.byte_size),
        ("Lines", file.line_count if counts_lines else Mark.NOT_RECORDED),
        ("Stored", run.time(file.created_at)),
        ("Stored as", file.storage_uri),
        ("On disk", str(stored.path) if stored.path else stored.message),
        ("Messages", ", ".join(map(str, references.messages)) or None),
        ("Summaries", ", ".join(references.summaries) or None),
    ]
    summary = Prose(file.exploration_summary or "No exploration summary.", title="Exploration summary")
    blocks = [Facts(facts), summary, *([] if text is None else _content_blocks(text))]
    return run.answer("show", data, blocks, not_recorded=not_recorded(FILE_COLUMNS, schema, "file"))


async def _load(reader: Reader, file_id: str) -> tuple[Schema, LargeFile, FileReferences]:
    file = as_text(await get_file(reader, file_id))
    return (reader.schema, file, await references_to(reader, file))


def _content(stored: StoredFile) -> FileText:
    """The file's text.

    Raises:
        NotFoundError: it is not there, or must not be opened.
    """
    path: Path | None = stored.path
    if path is None:
        raise NotFoundError(stored.message, code="FILE_UNREADABLE", details={"path": stored.stored})
    return read_head(path, MAX_CONTENT_BYTES)


def _content_blocks(text: FileText) -> list[Block]:
    if text.binary:
        return [Note(f"The file is {text.description}: it is not shown.")]
    cut = [] if text.complete else [Note(f"Truncated after {text.bytes_read:,} of {text.size:,} bytes.")]
    return [Prose(text.text, title="Content"), *cut]
