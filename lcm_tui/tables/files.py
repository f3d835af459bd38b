"""Large files with what became of each on this machine: the columns of their lists."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from lcm_core.base.paths import StoredFile, StoredFileState, resolve_stored
from lcm_core.base.records import LargeFile
from lcm_core.base.settings import Settings
from lcm_core.base.text import preview
from lcm_core.base.values import Record

from lcm_tui.kit.spans import Span
from lcm_tui.tables.blocks import PENDING, UNRECORDED, ListColumn, minute_text, size_text

#: The words of the app's list for what became of a file.
_STATES: Final = {
    None: Span(PENDING, "dim"),
    StoredFileState.FOUND: Span("found", "ok"),
    StoredFileState.MISSING: Span("missing", "warn"),
    StoredFileState.NOT_LOOKED_FOR: Span("unknown", "dim"),
    StoredFileState.OUTSIDE: Span("outside", "error"),
    StoredFileState.UNREADABLE: Span("unreadable", "error"),
}


def stored_file(file: LargeFile, settings: Settings) -> StoredFile:
    """Where a file of the database is on this machine. Reads the disk: not for the event loop."""
    return resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=settings.large_files_dir.value,
        state_dir=settings.state_dir.value,
        known=settings.knows_large_files,
    )


class FileRow(Record, frozen=True):
    """A file of a list."""

    file: LargeFile
    stored: StoredFile | None  #: None: it has not been looked for yet


def _state(row: FileRow) -> StoredFileState | None:
    return None if row.stored is None else row.stored.state


def _path(row: FileRow) -> str | None:
    return str(row.stored.path) if row.stored is not None and row.stored.path is not None else None


# fmt: off
#: All that lists say of a file, in order.
FILE_COLUMNS: Final[tuple[ListColumn[FileRow, tzinfo | None], ...]] = (
    ListColumn("file", heading="File", json="fileId", value="file.file_id"),
    ListColumn("conversation", "conv", 5, right=True, keep=70, heading="Conv.", spare=3,
               json="conversationId", value="file.conversation_id", text=str,
               cell=lambda value, _, __: Span(str(value), "dim")),
    ListColumn("name", "name", 16, grows=True, keep=100, heading="Name", json="fileName",
               value="file.file_name",
               cell=lambda value, _, __: Span(value or "(no name)", "text" if value else "dim")),
    ListColumn("state", "on disk", 10, keep=95, value=_state, cell=lambda value, _, __: _STATES[value]),
    ListColumn("mime", heading="Type", spare=4, json="mimeType", value="file.mime_type"),
    ListColumn("bytes", "size", 8, right=True, keep=80, heading="Bytes", spare=1, json="byteSize",
               value="file.byte_size",
               cell=lambda value, _, __: Span(UNRECORDED if value is None else size_text(value))),
    ListColumn("lines", "lines", 7, right=True, keep=30, json="lineCount", stored="large_files.line_count",
               value="file.line_count"),
    ListColumn("type", "type", 16, keep=20, value="file.mime_type",
               cell=lambda value, _, __: Span(value or UNRECORDED, "dim")),
    ListColumn("created", "created", 16, keep=60, timed="at", heading="Stored", spare=2, time=True,
               value="file.created_at", cell=lambda value, _, zone: Span(minute_text(value, zone))),
    ListColumn("id", "id", 21, keep=50, value="file.file_id",
               cell=lambda value, _, __: Span(value or UNRECORDED, "key")),
    ListColumn("uri", json="storageUri", value="file.storage_uri"),
    ListColumn("summary", json="explorationSummary", value="file.exploration_summary"),
    ListColumn("made", json="createdAt", value="file.created_at"),
    ListColumn("became", heading="On disk", json="state", value=_state, text=str),
    ListColumn("path", json="resolvedPath", value=_path),
    ListColumn("message", json="message", value="stored.message"),
    ListColumn("preview", grows=True, heading="Exploration summary",
               value=lambda row: preview(row.file.exploration_summary or "")),
)
# fmt: on
