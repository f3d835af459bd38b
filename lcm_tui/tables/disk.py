"""What a database takes on the disk: the rows of the list, and what can be given back."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lcm_core.base.text import counted
from lcm_core.base.times import format_local
from lcm_core.base.values import Record, replace
from lcm_core.operations.disk import BACKUPS, EXPORTS, LOG, AgeBand, DiskUse, Freed, VacuumEstimate
from lcm_core.store.statistics import ConversationSize, FileSize

from lcm_tui.kit.spans import Block, Document, Span, heading
from lcm_tui.tables.blocks import ListColumn, bar_text, bytes_text, seconds_text
from lcm_tui.tables.messages import below_home

#: Cells of a bar.
_BAR: Final = 12
SPARE: Final = "to give back"
FREE: Final = "free pages of the file"
STRAYS: Final = "large files without a row"


class DiskRow(Record, frozen=True):
    """A line of the list."""

    name: str
    kind: str  #: a table, beside the file, or what can be given back
    bytes: int
    share: float  #: of everything
    indexes: int | None = None  #: bytes of them, of a table
    files: int | None = None
    folder: Path | None = None  #: None: inside the database file, or beside it
    paths: tuple[Path, ...] = ()  #: of the files


def disk_rows(use: DiskUse) -> list[DiskRow]:
    """The largest first; what can be given back before everything else."""
    whole = max(use.bytes, 1)
    free, paths = use.file.free, tuple(one.path for one in use.strays)
    rows = [
        DiskRow(one.name, "table", one.bytes, one.bytes / whole, indexes=one.indexes)
        for one in use.file.tables or ()
    ]
    if use.file.tables is None:
        used = use.file.bytes - use.file.free
        rows.append(DiskRow("tables", "in the file", used, used / whole))
    for part in use.parts:
        if part.files:
            # Pages that only the log has are pages of the file, which grows when the log is emptied.
            size = max(use.stored - use.file.bytes, 0) if part.name == LOG else part.bytes
            spare = part.name == LOG or part in use.copies
            row = DiskRow(part.name, SPARE if spare else "beside it", size, size / whole)
            rows.append(replace(row, files=part.files, folder=part.folder, paths=part.paths))
    rows.append(DiskRow(FREE, SPARE, free, free / whole))
    if paths:
        row = DiskRow(STRAYS, SPARE, use.stray_bytes, use.stray_bytes / whole, files=len(paths))
        rows.append(replace(row, paths=paths))
    return sorted(rows, key=lambda row: (row.kind != SPARE, -row.bytes, row.name))


#: What may be done with the files of a row.
MAY_BE_DELETED: Final = MappingProxyType(
    {
        STRAYS: "No row of the database names them: x removes them.",
        LOG: "It is a part of the database: v empties it. Never delete it by hand.",
        "large files": "Messages refer to them; x removes those without a row.",
        BACKUPS: "Whole copies of the database; no undo needs one.",
        EXPORTS: "Conversations that were deleted; no undo needs one.",
    }
)


def file_rows(row: DiskRow, zone: tzinfo | None) -> list[DiskRow]:
    """The files of a row, the newest first; looks at each."""
    found = []
    for path in row.paths:
        with suppress(OSError):
            stat = path.stat()
            at = datetime.fromtimestamp(stat.st_mtime, UTC)
            made = DiskRow(path.name, format_local(at, zone)[:16], stat.st_size, 1.0)
            found.append((at, replace(made, folder=path.parent, paths=(path,))))
    whole = max(sum(made.bytes for _, made in found), 1)
    newest_first = sorted(found, key=lambda one: one[0], reverse=True)
    return [replace(made, share=made.bytes / whole) for _, made in newest_first]


def numbers_document(row: DiskRow) -> Document:
    """The numbers of a row."""
    return heading(row.name), *map(Block, row_text(row).split(", ")[1:]), Block("inside the database file")


def row_text(row: DiskRow) -> str:
    """What is known of a row, and its files, a line each."""
    said = [row.name, f"{row.bytes:,} bytes", f"{row.share * 100:.0f} %"]
    said += [] if row.indexes is None else [f"of that, indexes {row.indexes:,} bytes"]
    return "\n".join([", ".join(said), *map(str, row.paths)])


def disk_sentence(use: DiskUse) -> str:
    """How much it is in all, and how much of that can be given back."""
    spare = sum(row.bytes for row in disk_rows(use) if row.kind == SPARE)
    return f"{bytes_text(spare)} of {bytes_text(use.bytes)} can be given back."


def freed_sentences(freed: Freed) -> tuple[str, ...]:
    """What a deletion frees, and what it writes; without full stops."""
    said = [f"File {_smaller(freed.file, freed.freed)} after a VACUUM"]
    if freed.free:
        said[0] += f", {bytes_text(max(freed.freed - freed.free, 0))} of it by this"
    if freed.files:
        said[0] += f"; {counted(freed.files, 'large file')}, {bytes_text(freed.stored)}"
    if freed.export:
        said += ["Large files stay on the disk, and no row names them any more"] if freed.files else []
        written = f"Export {bytes_text(freed.export)}, undo {bytes_text(freed.undo)}"
        said.append(f"{written}: both take disk space until you remove them")
    return tuple(said)


def _smaller(size: int, less: int) -> str:
    return f"{bytes_text(size)}, about {bytes_text(less)} less"


def vacuum_sentence(estimate: VacuumEstimate, file: FileSize, freed: int = 0) -> str:
    """What it would do: sizes, time, room. *freed*: bytes that a deletion was estimated to free."""
    needed, room = bytes_text(estimate.needed), bytes_text(estimate.room)
    return (
        f"The file is rewritten without its free pages ({_smaller(file.bytes, freed or file.free)}), and its "
        f"write-ahead log is emptied. It takes about {seconds_text(estimate.seconds)} and {needed} of the "
        f"{room} that are free on this disk; nobody can write meanwhile."
    )


def vacuumed_sentence(before: int, after: int) -> str:
    """What it did: the bytes of the file and its write-ahead log."""
    back = bytes_text(max(0, before - after))
    return f"The disk has {back} back: the file and its write-ahead log take {bytes_text(after)} now."


# fmt: off
SIZE_COLUMNS: Final[tuple[ListColumn[ConversationSize, None], ...]] = (
    ListColumn("conversation", heading="Conversation", right=True, json="conversationId", value="id"),
    ListColumn("session", heading="Session", grows=True,
               value=lambda one: one.conversation.session_key or one.conversation.session_id),
    ListColumn("session_id", json="sessionId", value="conversation.session_id"),
    ListColumn("session_key", json="sessionKey", value="conversation.session_key"),
    ListColumn("state", heading="State", spare=1, json="active", value="conversation.active",
               text=lambda active: "active" if active else "archived"),
    ListColumn("cause", json="archiveCause", value="conversation.archive_cause"),
    ListColumn("messages", heading="Messages", right=True, json="messageCount", value="messages"),
    ListColumn("summaries", heading="Summaries", right=True, spare=2, json="summaryCount", value="summaries"),
    ListColumn("items", json="contextItems", value="context_items"),
    ListColumn("texts", heading="Texts", right=True, json="textBytes", value="bytes", text=bytes_text),
    ListColumn("last", heading="Last message", spare=3, json="latestMessageAt", value="last_activity",
               time=True),
    ListColumn("created", json="createdAt", value="conversation.created_at"),
)
AGE_COLUMNS: Final[tuple[ListColumn[AgeBand, None], ...]] = (
    ListColumn("age", heading="Newest message", json="newestMessage", value="title"),
    ListColumn("conversations", heading="Conversations", right=True, json="conversations",
               value="conversations"),
    ListColumn("messages", heading="Messages", right=True, json="messages", value="messages"),
    ListColumn("texts", heading="Texts", right=True, json="textBytes", value="bytes", text=bytes_text),
)
DISK_COLUMNS: Final[tuple[ListColumn[DiskRow, None], ...]] = (
    ListColumn("name", "what", 30, keep=100, grows=True, heading="What", json="name", value="name",
               cell=lambda value, row, _: Span(value, "warn" if row.kind == SPARE and row.bytes else "text")),
    ListColumn("kind", "", 16, keep=60, heading="Where", json="kind", value="kind",
               cell=lambda value, _, __: Span(value, "dim")),
    ListColumn("bytes", "size", 11, right=True, keep=95, heading="Size", json="bytes", value="bytes",
               text=bytes_text,
               cell=lambda value, _, __: Span(bytes_text(value))),
    ListColumn("share", "share", 6, right=True, keep=80, heading="Share", json="share", value="share",
               text=lambda value: f"{value * 100:.0f} %",
               cell=lambda value, _, __: Span(f"{value * 100:.0f} %")),
    ListColumn("bar", "", _BAR, keep=50, value="share",
               cell=lambda value, _, __: Span(bar_text(value, _BAR), "key")),
    ListColumn("indexes", "indexes", 11, right=True, keep=40, heading="Of that, indexes", spare=2,
               json="indexBytes", value="indexes",
               text=lambda value: None if value is None else bytes_text(value),
               cell=lambda value, _, __: Span("" if value is None else bytes_text(value), "dim")),
    ListColumn("files", "files", 7, right=True, keep=70, heading="Files", json="files", value="files",
               cell=lambda value, _, __: Span("" if value is None else f"{value:,}")),
    ListColumn("folder", "folder", 30, keep=20, heading="Folder", spare=1, json="path",
               value=lambda row: None if row.folder is None else str(row.folder),
               cell=lambda _, row, __: Span("" if row.folder is None else below_home(row.folder), "dim")),
)
# fmt: on
