"""A conversation as a file that brings it back, and what forgetting it removes besides its rows."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Final, TextIO, cast

import platformdirs

from lcm_core import __version__
from lcm_core.base.errors import DatabaseError, FileMissingError, LcmError, NotFoundError, RefusedError
from lcm_core.base.files import (
    PROGRAM,
    FileNotWrittenError,
    FileThereError,
    PartialFile,
    checked_target,
    drafts_folder,
    forget_cache,
    make_private,
    reason_of,
    sync_folder,
)
from lcm_core.base.jsonl import open_regular
from lcm_core.base.records import ContextItems, Conversation, ConversationId, Edge, SummaryId
from lcm_core.base.text import counted, phrase
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.apply import last_id
from lcm_core.change.backup import known_backups
from lcm_core.change.copying import Stop
from lcm_core.change.journal import CodecError, decode_values, encode_values, new_batch_id, operations
from lcm_core.change.place import Listing, Place, carry_out
from lcm_core.change.plan import (
    Cell,
    Cells,
    DiskFullError,
    Edit,
    Plan,
    RowChange,
    Splice,
    Symbol,
    SymbolKind,
    fault_key,
    insertion,
    ref_of,
    touched_rows,
    value_of,
)
from lcm_core.change.preview import row_seconds
from lcm_core.change.undo import forget_history
from lcm_core.checks import context, lineage
from lcm_core.checks.structure import node_of, partial_structure
from lcm_core.engine.graph import PlainNode, SummaryGraph
from lcm_core.operations.copy import refer
from lcm_core.operations.prune import CAUSE, deletion_pieces
from lcm_core.operations.rows import new_summary_id, update
from lcm_core.store.database import Reader
from lcm_core.store.messages import new_file_id
from lcm_core.store.opening import SqlValue, database_files
from lcm_core.store.rows import ids_taken, rows_by
from lcm_core.store.schema import Schema
from lcm_core.store.state import GAPS
from lcm_core.store.state import PREPARED_TABLES as PREPARED

# -- the file --------------------------------------------------------------------------------------------
# JSON lines, written before a conversation is deleted, and imported again when it is wanted.
#
# The first line says what it is: ``{"format": "lcm-tui conversation", "version": 1, "conversationId":
# ...}``. Each further line is one row, ``{"table": ..., "row": {column: value}}``, with every column that
# the database had; a row comes after those that refer to it. The last line counts them: ``{"end": {table:
# rows}}``. A value that JSON cannot hold is an object: ``{"$blob": base64}`` for bytes, ``{"$text":
# base64}`` for text that is not valid UTF-8, ``{"$real": "inf"}``. Search tables are derived and not in it;
# large files stay where they are.

FORMAT: Final = "lcm-tui conversation"
VERSION: Final = 1
_STAMP: Final = "%Y%m%dT%H%M%SZ"

#: A row as it is stored.
FileRow = dict[str, SqlValue]


class ConversationFile(Record, frozen=True):
    """What a file holds."""

    path: Path
    conversation_id: int
    exported_at: str
    rows: dict[str, list[FileRow]]  #: by table


class Exported(Record, frozen=True):
    """A file that was written."""

    path: Path
    conversation_id: int
    bytes: int
    rows: int
    last_message: int  #: the largest id of a message in it; 0 without one
    summaries: frozenset[str]  #: the ids of those in it

    def covers(self, edits: Iterable[Edit]) -> bool:
        """Whether it holds all messages and summaries that some edits delete."""
        return all(
            row["message_id"] <= self.last_message
            if table == "messages" and isinstance(row["message_id"], int)
            else table != "summaries" or row["summary_id"] in self.summaries
            for table, row in _rows(edits)
        )


def default_folder() -> Path:
    """Where exported conversations of this user are kept unless a caller says otherwise."""
    return Path(platformdirs.user_data_dir(PROGRAM, appauthor=False)) / "exports"


def known_exports(folder: Path, conversations: Iterable[int]) -> list[Path]:
    """The files of some conversations in a folder, whichever database they are from."""
    found = (folder.glob(f"conversation-{number}-*.jsonl") for number in conversations)
    return sorted(path for paths in found for path in paths)


async def export_conversation(
    reader: Reader, conversation: Conversation, folder: Path, database: Path, *, now: datetime | None = None
) -> Exported:
    """Write all that a deletion would take into a new file that only this user can read, and make it last.

    Raises:
        DiskFullError: the folder cannot be written.
    """
    number, moment = conversation.conversation_id, now or datetime.now(UTC)
    wanted = folder / export_name(number, moment)
    try:
        return await _write(reader, conversation, folder, database, moment, partial(_placed, wanted))
    except OSError as error:
        raise DiskFullError(
            f"Conversation {number} cannot be exported to {folder} ({error.strerror}), so it is not deleted. "
            "Nothing was changed; make room there, or give another folder with --export-to.",
            code="EXPORT_FAILED",
        ) from error


def export_name(number: int, moment: datetime) -> str:
    """What an exported conversation is called unless a caller says otherwise, without the ending."""
    return f"conversation-{number}-{moment.astimezone(UTC):{_STAMP}}"


async def export_to(
    reader: Reader, conversation: Conversation, path: Path, database: Path, *, replace: bool = False
) -> Exported:
    """Write the same into the file at *path*, which stays as it is if it is there, unless *replace* says so.

    Raises:
        FileThereError: something of that name is there.
        FileMissingError: its folder is missing.
        FileNotWrittenError: it cannot be written.
    """
    whole = checked_target(path, never=database_files(database), replace=replace)

    def place(part: Path) -> Path:
        if replace:
            os.replace(part, whole)
        else:
            os.link(part, whole)
            part.unlink()
        sync_folder(whole.parent)
        return whole

    try:
        return await _write(reader, conversation, whole.parent, database, datetime.now(UTC), place)
    except FileExistsError as error:
        raise FileThereError(f"{whole} already exists; nothing was written.") from error
    except OSError as error:
        problem = error.strerror or "it is not a path"
        raise FileNotWrittenError(f"{whole} cannot be written ({problem}); give another name.") from error
    except ValueError as error:  # a name with a NUL
        raise FileNotWrittenError("That is not a file name; give another one.") from error


async def _write(
    reader: Reader,
    conversation: Conversation,
    folder: Path,
    database: Path,
    moment: datetime,
    place: Callable[[Path], Path],
) -> Exported:
    """Write the file, and give it its name with *place* when it is whole."""
    number = conversation.conversation_id
    writing = await asyncio.to_thread(_Writing.begin, folder, number)
    try:
        await asyncio.to_thread(writing.line, _header(conversation, database, moment))
        async for piece in deletion_pieces(reader, number):
            await asyncio.to_thread(writing.rows, piece.edits)
        target, size = await asyncio.to_thread(writing.end, place)
    finally:
        writing.leave()
    return Exported(
        target, number, size, writing.counts.total(), writing.last_message, frozenset(writing.summaries)
    )


class _Writing(Struct):
    """A file on its way, under another name until it is whole."""

    part: PartialFile
    file: TextIO
    counts: Counter[str] = field(default_factory=Counter)
    last_message: int = 0
    summaries: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, folder: Path, number: int) -> _Writing:
        """Make the folder and the file."""
        part = PartialFile.create(make_private(folder), f".conversation-{number}")
        return cls(part, part.path.open("w", encoding="ascii", newline="\n"))

    def line(self, value: object) -> None:
        """Write one line."""
        self.file.write(_line(value))

    def rows(self, edits: Iterable[Edit]) -> None:
        """Write the rows that some edits delete."""
        for table, row in _rows(edits):
            self.counts[table] += 1
            self.line({"table": table, "row": encode_values(row)})
            if table == "messages" and isinstance(row["message_id"], int):
                self.last_message = max(self.last_message, row["message_id"])
            elif table == "summaries":
                self.summaries.add(str(row["summary_id"]))

    def end(self, place: Callable[[Path], Path]) -> tuple[Path, int]:
        """Write the last line, make it last, and give it its name with *place*."""
        self.line({"end": dict(sorted(self.counts.items()))})
        self.file.flush()
        os.fsync(self.file.fileno())
        size = os.fstat(self.file.fileno()).st_size
        return place(self.part.path), size

    def leave(self) -> None:
        """Close the file; what is not whole is removed."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.part.close()


def row_bytes(edits: Iterable[Edit]) -> tuple[int, int, int]:
    """Bytes of the rows that some edits delete: in a file, in the database, and of texts that are searched.

    A file names every column of every row, and the database stores nothing where there is no value; an id is
    in an index, too.
    """
    file = stored = searched = 0
    for table, row in _rows(edits):
        file += len(_line({"table": table, "row": encode_values(row)}))
        for name, value in row.items():
            size = len(value.encode(errors="replace")) if isinstance(value, str) else value is not None
            stored += 1 + size * (1 + name.endswith("_id"))
            searched += size if name == "content" and table in ("messages", "summaries") else 0
    return file, stored, searched


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"


def _header(conversation: Conversation, database: Path, moment: datetime) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "conversationId": conversation.conversation_id,
        "sessionId": _plain(conversation.session_id),
        "sessionKey": _plain(conversation.session_key),
        "exportedAt": iso_z(moment),
        "toolVersion": __version__,
        "database": _plain(str(database)),
    }


def _plain(text: str | None) -> str | None:
    """A text without bytes that are no text; the row itself keeps them."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def _rows(edits: Iterable[Edit]) -> Iterator[tuple[str, FileRow]]:
    """The rows that some edits delete; one that only loses a reference is another conversation's."""
    for edit in edits:
        if not isinstance(edit, RowChange) or edit.after is None:
            for table, _, row in touched_rows(edit):
                yield table, {name: value_of(value) for name, value in row.values}


def _placed(wanted: Path, part: Path) -> Path:
    """Give a finished file a name that is not taken, and make the name last too."""
    number = 1
    while True:
        target = wanted.with_name(f"{wanted.name}{f'-{number}' if number > 1 else ''}.jsonl")
        try:
            os.link(part, target)
        except FileExistsError:
            number += 1
            continue
        part.unlink()
        break
    sync_folder(target.parent)
    return target


# -- reading ---------------------------------------------------------------------------------------------


def read_conversation_file(path: Path) -> ConversationFile:
    """What a file holds, checked to be whole.

    Raises:
        NotFoundError: there is no such file, or it cannot be read.
        RefusedError: it is no export of ours, or a part of one.
    """
    rows: dict[str, list[FileRow]] = {}
    header: dict[str, object] | None = None
    ended = False
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8") as file:  # a device may never end
            for number, line in enumerate(file, 1):
                found = _parsed(path, number, line)
                if header is None:
                    header = _checked(path, found)
                elif ended:
                    raise _refused(path, f"line {number} comes after its end")
                elif "end" in found:
                    ended = True
                    _check_counts(path, found["end"], rows)
                else:
                    table, row = _row_of(path, number, found)
                    rows.setdefault(table, []).append(row)
    except FileNotFoundError as error:
        raise FileMissingError(
            "exported conversation", path, "Give a file that `lcm-tui conversations delete` or `export` made."
        ) from error
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror}. Give the path of an exported conversation.",
            code="FILE_UNREADABLE",
            details={"path": str(path)},
        ) from error
    except UnicodeDecodeError as error:
        raise _refused(path, "it is not text") from error
    if header is None or not ended:
        raise _refused(path, "its end is missing: it was truncated")
    owner = header["conversationId"]
    assert isinstance(owner, int)
    _check_owner(path, owner, rows)
    return ConversationFile(path, owner, str(header.get("exportedAt") or ""), rows)


def _parsed(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"line {number} is not JSON") from error
    if not isinstance(found, dict):
        raise _refused(path, f"line {number} is not an object")
    return found


def _checked(path: Path, header: dict[str, object]) -> dict[str, object]:
    if header.get("format") != FORMAT or not isinstance(header.get("conversationId"), int):
        raise _refused(path, "its first line is not the header of an export")
    if header.get("version") != VERSION:
        raise _refused(path, f"it is of version {header.get('version')!r}; this program reads {VERSION}")
    return header


def _row_of(path: Path, number: int, found: dict[str, object]) -> tuple[str, FileRow]:
    table, row = found.get("table"), found.get("row")
    if not isinstance(table, str) or not isinstance(row, dict):
        raise _refused(path, f"line {number} is not a row")
    try:
        return table, decode_values(row)
    except CodecError as error:
        raise _refused(path, f"line {number} contains an invalid value") from error


def _check_counts(path: Path, end: object, rows: dict[str, list[FileRow]]) -> None:
    if end != {table: len(found) for table, found in rows.items()}:
        raise _refused(path, "it has missing or surplus rows")


def _check_owner(path: Path, owner: int, rows: dict[str, list[FileRow]]) -> None:
    """Every row that names a conversation names the one."""
    if len(rows.get("conversations", ())) != 1:
        raise _refused(path, "it does not contain exactly one conversation")
    for table, found in rows.items():
        if any(row.get("conversation_id", owner) != owner for row in found):
            raise _refused(path, f"a row of {table} belongs to another conversation")


def _refused(path: Path, reason: str) -> RefusedError:
    return RefusedError(
        f"{path} is not a complete export of a conversation: {reason}. Nothing was changed.",
        code="FILE_INVALID",
    )


class Traces(Record, frozen=True):
    """What was noted about conversations and is gone."""

    operations: int = field(name="historyForgotten", default=0)  #: that are no longer in the history
    #: files that held drafts of their summaries or briefs
    drafts: tuple[Path, ...] = field(name="draftsForgotten", default=())

    def __add__(self, other: Traces) -> Traces:
        """Both together."""
        return Traces(self.operations + other.operations, (*self.drafts, *other.drafts))

    def add_to(self, error: LcmError) -> None:
        """Say in the error of a change that was not made what is gone all the same."""
        if self.operations:
            error.message += (
                f" Only the history lost {counted(self.operations, 'operation')} that touched it."
            )
            error.args = (error.message,)


def forgetting_means(database: Path, conversations: Sequence[ConversationId]) -> tuple[str, ...]:
    """What has to be known before it is agreed to, and where copies are left; sentences without an end.

    Looks into folders, so call it in a thread.
    """
    return (
        "This cannot be undone: every row and all records of lcm-tui about it are deleted, nothing is "
        "exported, and the file is rewritten (VACUUM)",
        "Large files, transcripts of the host, copies in other conversations and backups are not touched",
        *(f"An export is at {path}" for path in known_exports(default_folder(), conversations)),
        *(f"A backup is at {one.path}" for one in known_backups(database)),
    )


def forget_traces(
    database: Path, conversation: ConversationId, *, wait: float = 5.0, stopped: Stop | None = None
) -> Traces:
    """Remove what our own history and drafts hold of a conversation, while its rows are still there; blocks.

    The private index and what is remembered of the file go as a whole: both hold words of it.

    Raises:
        RefusedError: a file in the cache folder cannot be removed.
        CancelledError: *stopped* said so before the lock was ours.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    # Only who forgets needs those who write: 50 ms of each deletion and import.
    from lcm_core.operations.drafts import forget_drafts
    from lcm_core.operations.focus import forget_brief_drafts

    try:
        forget_cache(database, searches=False)
    except OSError as error:
        raise RefusedError(f"{error.filename} cannot be removed ({reason_of(error)}).") from error
    operations = forget_history(database, conversation, wait=wait, stopped=stopped)
    drafts = forget_drafts(drafts_folder(), database, [conversation])
    return Traces(operations, (*drafts, *forget_brief_drafts(database, [conversation])))


# -- importing it ----------------------------------------------------------------------------------------
# The plans that bring an exported conversation back, into the database it came from or into another.
#
# Ids stay what they were as long as they are free; else the conversation, its messages, or single
# summaries, parts, files and briefs get new ones. Columns that this database does not have are left out.
#
# What takes longer is committed in pieces that keep no host waiting, and no host finds it before it is
# whole: until the last piece it is archived, without its session (docs/spec/changes.md, "How long the host
# waits").

#: Seconds for which a host waits for one piece, about (`lcm_core.change.preview`).
PIECE_SECONDS: Final = 0.02
#: Context items that are not parted.
CONTEXT_ROWS: Final = 500
#: New ids of messages begin so far behind the largest one: a host may append that much until the first piece
#: is committed. It holds the largest id, so that the host continues behind it.
ROOM: Final = 1_000
_LAST_ID: Final = 2**63 - 1

#: Tables in which every row refers only to rows of tables before its own; others come before the last.
_ORDER: Final = (
    *("conversations", "large_files", "messages", "message_parts", "summaries", "summary_messages"),
    *("summary_parents", "focus_briefs", "focus_brief_sources"),
)
#: What comes with the summary that was made.
_LINES: Final = ("summary_messages", "summary_parents")
_CONTEXT: Final = "context_items"
#: The checks that an import may break as the conversation did when it was exported.
_MAY_BE_SO: Final = frozenset({"A3", "A4", "A6", "A7", "A9", "B1", "B2", "B8", "B9", "B12", "B14", "B15"})
#: Never written by an import: our own tables, the engine's notes about its migrations, SQLite's.
_FORBIDDEN: Final = ("lcm_", "sqlite_")

_NewId = Callable[[], str]
_KEYS: Final[Mapping[str, tuple[str, _NewId]]] = {
    "summaries": ("summary_id", new_summary_id),
    "message_parts": ("part_id", lambda: str(uuid.uuid4())),
    "large_files": ("file_id", new_file_id),
    "focus_briefs": ("brief_id", lambda: f"focus_{secrets.token_hex(8)}"),
}
#: Columns that name a message; where it is not in the file, the last two name none, as if it were deleted.
_MESSAGES: Final = ("message_id", "prev_message_id", "next_message_id")
#: Columns by the table whose rows they name.
_NAMES: Final[Mapping[str, str]] = {
    "summary_id": "summaries",
    "parent_summary_id": "summaries",
    "part_id": "message_parts",
    "file_id": "large_files",
    "brief_id": "focus_briefs",
}


async def plan_import(
    reader: Reader, file: ConversationFile, *, now: datetime | None = None
) -> tuple[Plan, ...]:
    """Insert a conversation as it was exported; an active session of the same key makes it an archived one.

    One plan for each piece, to be committed in their order.

    Raises:
        DatabaseError: this database lacks a table that it needs.
        RefusedError: an earlier import of the file was stopped, or a table has no ids left.
    """
    moment = now or datetime.now(UTC)
    marker = _marker(file)
    await _refuse_half(reader, file, marker)
    importing = await _Importing.begin(reader, file)
    row = await _conversation(reader, file, importing, moment)
    pieces = _packed(importing.units(), reader.schema)
    opening: Edit = importing.insert("conversations", row)
    if len(pieces) > 1:
        held = {name: value for name, value in _hidden(marker, moment).items() if name in row}
        opening = importing.insert("conversations", {**row, **held})
        pieces[-1].append(
            update(
                "conversations", opening.row.as_dict(), importing.insert("conversations", row).row.as_dict()
            )
        )
    pieces[0].insert(0, opening)
    messages, summaries = (len(file.rows.get(table, ())) for table in ("messages", "summaries"))
    as_new = "" if importing.owner == file.conversation_id else ", as a new conversation"
    title = (
        f"Import conversation {file.conversation_id}{as_new}: {counted(messages, 'message')}, "
        f"{counted(summaries, 'summary')}"
    )
    batch = new_batch_id() if len(pieces) > 1 else None
    warnings, allowed = tuple(importing.warnings()), importing.oddities(chain.from_iterable(pieces))
    return tuple(
        Plan(
            kind="import",
            title=title if batch is None else f"{title}, part {number:,} of {len(pieces):,}",
            conversation_id=importing.owner,
            edits=tuple(edits),
            warnings=warnings if number == 1 else (),
            batch=batch,
            allows=allowed,
        )
        for number, edits in enumerate(pieces, 1)
    )


# -- pieces ----------------------------------------------------------------------------------------------


def _packed(units: Iterable[Sequence[Edit]], schema: Schema) -> list[list[Edit]]:
    """What may not be parted, put together as long as a host does not wait too long; at least one piece."""
    pieces: list[list[Edit]] = [[]]
    seconds = 0.0
    for unit in units:
        if seconds >= PIECE_SECONDS:
            pieces.append([])
            seconds = 0.0
        pieces[-1] += unit
        for table, _, row in (one for edit in unit for one in touched_rows(edit)):
            seconds += row_seconds(table, row, schema)
    return pieces


def _marker(file: ConversationFile) -> str:
    """What replaces the session of a conversation until all of the file is there."""
    named = f"{file.conversation_id}\n{file.exported_at}".encode("utf-8", "surrogatepass")
    return f"lcm-tui:import:{hashlib.sha256(named).hexdigest()[:16]}"


def _hidden(marker: str, now: datetime) -> FileRow:
    """A conversation that no host finds: it looks for a session's key, else for its id."""
    return {
        "session_id": marker,
        "session_key": None,
        "active": 0,
        "archived_at": iso_z(now),
        "archive_cause": "import",
    }


async def _refuse_half(reader: Reader, file: ConversationFile, marker: str) -> None:
    if not reader.schema.has("conversations", "session_id"):
        return
    for row in await rows_by(reader, "conversations", "session_id", [marker]):
        half = row["conversation_id"]
        assert isinstance(half, int)
        found = await reader.run(operations, limit=1, conversation_id=half)
        batch = found[0].batch if found else None
        take = (
            f"`lcm-tui history undo {batch} --apply`" if batch else f"`lcm-tui conversations delete {half}`"
        )
        raise RefusedError(
            f"An earlier import of {file.path} was stopped or is still running: conversation {half} "
            f"contains a part of it. Undo that with {take}, then import it again; nothing was changed.",
            code="IMPORT_BEGUN",
        )


# -- rows ------------------------------------------------------------------------------------------------


class _Importing(Struct):
    """What everything is called in this database."""

    file: ConversationFile
    columns: Mapping[str, frozenset[str]]
    owner: int
    messages: Mapping[object, int]
    ids: Mapping[str, Mapping[object, str]]  #: by table
    said: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)  #: values of columns that are not there
    stray: int = 0  #: rows that refer to what is not in the file
    gaps: frozenset[SqlValue] = frozenset()  #: ids of gaps that are taken here

    @classmethod
    async def begin(cls, reader: Reader, file: ConversationFile) -> _Importing:
        """Look which ids are taken."""
        number = file.conversation_id
        columns = reader.schema.tables
        for table in ("conversations", "messages"):
            if not columns.get(table):
                raise DatabaseError(f"This database has no table {table}: nothing can be imported into it.")
        there = await rows_by(reader, "conversations", "conversation_id", [number])
        owner = await _next_id(reader, "conversations", "conversation_id") if there else number
        held = [row["message_id"] for row in file.rows.get("messages", ())]
        taken = await ids_taken(reader, "messages", "message_id", held)
        first = 0
        if taken:
            first = await _next_id(reader, "messages", "message_id", len(held) + ROOM) + ROOM
        messages: dict[object, int] = {}
        for place, one in enumerate(held):
            assert isinstance(one, int)
            messages[one] = first + place if taken else one
        ids: dict[str, dict[object, str]] = {}
        for table, (column, new) in _KEYS.items():
            names = [row[column] for row in file.rows.get(table, ())]
            used = await ids_taken(reader, table, column, names)
            ids[table] = {one: new() if one in used else str(one) for one in names}
        gaps = [row.get("gap_id") for row in file.rows.get(GAPS, ())]
        made = cls(file, columns, owner, messages, ids, gaps=await ids_taken(reader, GAPS, "gap_id", gaps))
        if there:
            made.said.append(f"Conversation {number} already exists here, so the import gets a new number")
        if taken:
            made.said.append("Some message ids already exist here, so all messages get new ids")
        for table, renamed in ids.items():
            count = sum(old != new for old, new in renamed.items())
            if count:
                made.said.append(
                    phrase(count, _NOUNS[table], None, "get a new id, because the old one already exists")
                )
        return made

    @property
    def renames(self) -> bool:
        """Whether the conversation, its messages or its summaries are called something else here."""
        return (
            self.owner != self.file.conversation_id
            or any(old != new for old, new in self.messages.items())
            or any(old != new for old, new in self.ids["summaries"].items())
        )

    def units(self) -> Iterator[Sequence[Edit]]:
        """All rows but the conversation's, by what may not be parted; nothing refers ahead."""
        lines = {table: self._by_summary(table) for table in _LINES}
        together: list[Edit] = []
        for table in self.tables():
            rows = self.file.rows[table]
            if table in _LINES:
                continue
            if table == "summaries":
                for group in self._sources_first(rows):
                    made = [self.insert(table, row) for row in group if self.leads_somewhere(table, row)]
                    keys = [row["summary_id"] for row in group]
                    yield [
                        *made,
                        *(edit for key in keys for one in lines.values() for edit in one.pop(key, ())),
                    ]
            elif table == "messages":
                # The largest id first: what a host appends meanwhile is numbered behind it.
                for row in sorted(rows, key=lambda row: -self.messages[row["message_id"]]):
                    yield [self.insert(table, row)]
            elif table in _ORDER or table not in PREPARED:
                yield from ([self.insert(table, row)] for row in rows if self.leads_somewhere(table, row))
            else:
                together += (self.insert(table, row) for row in rows if self.leads_somewhere(table, row))
        yield from self.context(self.file.rows.get(_CONTEXT, ()))
        if together:  # these refer to each other, and a host continues with what it has prepared
            yield together

    def _by_summary(self, table: str) -> dict[object, list[Edit]]:
        found: dict[object, list[Edit]] = {}
        if self.columns.get(table):
            for row in self.file.rows.get(table, ()):
                if self.leads_somewhere(table, row):
                    found.setdefault(row.get("summary_id"), []).append(self.insert(table, row))
        return found

    def _sources_first(self, rows: Sequence[FileRow]) -> Iterator[Sequence[FileRow]]:
        """Summaries one by one, each behind its sources; those on or above a cycle together."""
        by_id = {_id(row, "summary_id"): row for row in rows}
        graph = SummaryGraph.build(
            (PlainNode(one, str(row.get("kind")), 0) for one, row in by_id.items()),
            (
                Edge(_id(line, "summary_id"), _id(line, "parent_summary_id"), 0)
                for line in self.file.rows.get("summary_parents", ())
            ),
            (),
        )
        for one in graph.sources_first:
            yield [by_id[one]]
        done = {id(by_id[one]) for one in graph.sources_first}
        if rest := [row for row in rows if id(row) not in done]:
            yield rest

    def tables(self) -> Iterator[str]:
        """The tables of the file that this database has, in an order in which nothing refers ahead."""
        rest = sorted(set(self.file.rows) - {*_ORDER, _CONTEXT})
        for table in (*_ORDER[1:], *rest):
            count = len(self.file.rows.get(table, ()))
            if count and (table.startswith(_FORBIDDEN) or not self.columns.get(table)):
                self.said.append(
                    f"{counted(count, 'row')} of {table} not imported: this database has no such table"
                )
            elif count and table in PREPARED and self.renames:
                self.said.append(
                    f"{counted(count, 'row')} of {table} not imported: prepared compactions belong to the "
                    "original conversation"
                )
            elif count:
                yield table

    def leads_somewhere(self, table: str, row: FileRow) -> bool:
        """Whether what a row refers to is in the file."""
        known: Mapping[object, object]
        for column, value in row.items():
            if column == "message_id":
                known = self.messages
            elif column in _NAMES and table != "message_parts":
                known = self.ids[_NAMES[column]]
            else:
                continue
            if value is not None and value not in known:
                self.stray += 1
                return False
        return True

    def insert(self, table: str, row: FileRow) -> RowChange:
        """A row under its new names."""
        return insertion(table, Cells.of(self._cells(table, row)))

    def _cells(self, table: str, row: FileRow) -> dict[str, Cell]:
        renamed = {old: new for old, new in self.ids["large_files"].items() if old != new}
        texts = refer(row, {str(old).lower(): new for old, new in renamed.items()})
        found: dict[str, Cell] = {}
        for column, value in texts.items():
            if column not in self.columns[table]:
                if value is not None:
                    name = f"{table}.{column}"
                    self.lost[name] = self.lost.get(name, 0) + 1
            elif column == "conversation_id":
                found[column] = self.owner
            elif column in _MESSAGES:
                found[column] = self.messages.get(row[column])
            elif column == "gap_id" and value in self.gaps:
                found[column] = Symbol(f"gap:{value!r}", SymbolKind.ID)
            elif column in _NAMES:
                found[column] = self.ids[_NAMES[column]].get(row[column])
            else:
                found[column] = value
        return found

    def context(self, rows: Sequence[FileRow]) -> Iterator[Sequence[Splice]]:
        """The whole context with the ordinals that it had, from its beginning."""
        if not self.columns.get(_CONTEXT):
            return
        kept = sorted((row for row in rows if self.leads_somewhere(_CONTEXT, row)), key=_ordinal)
        listing = Listing.of(())
        for start in range(0, len(kept), CONTEXT_ROWS):
            some = kept[start : start + CONTEXT_ROWS]
            place = Place(len(listing), tuple(map(_ordinal, some)), 0)
            cells = [Cells.of(self._cells(_CONTEXT, row)) for row in some]
            yield [carry_out(listing, self.owner, place, (), cells).splice]

    def oddities(self, edits: Iterable[Edit]) -> frozenset[str]:
        """What was wrong with its summaries and its context when it was exported, and is so again."""
        rows: dict[str, list[Cells]] = {}
        for table, _, row in chain.from_iterable(map(touched_rows, edits)):
            rows.setdefault(table, []).append(row)
        items = rows.get(_CONTEXT, [])
        refs = [ref if isinstance(ref := ref_of(row), int | str) else None for row in items]
        structure = partial_structure(
            self.owner,
            ContextItems.naming(refs, [cast(int, row["ordinal"]) for row in items]),
            [node_of(row.as_dict()) for row in rows.get("summaries", ())],
            [
                (str(row["summary_id"]), cast(int | str, row[source]))
                for table, source in zip(_LINES, ("message_id", "parent_summary_id"), strict=True)
                for row in rows.get(table, ())
            ],
            [cast(int, row["message_id"]) for row in rows.get("messages", ())],
        )
        return frozenset(
            fault_key(rule.id, self.owner, subject)
            for rule in (*context.CHECKS, *lineage.CHECKS)
            if rule.id in _MAY_BE_SO
            for subject in rule.subjects(structure)
        )

    def warnings(self) -> Iterator[str]:
        """What is not as it was."""
        yield from self.said
        if self.lost:
            names = ", ".join(sorted(self.lost))
            yield f"This version does not record {names}: those values are not imported"
        if self.stray:
            yield (
                f"{counted(self.stray, 'row')} not imported because they refer to rows that are not in "
                "the file"
            )


_NOUNS: Final = {
    "summaries": "summary",
    "message_parts": "part",
    "large_files": "large file",
    "focus_briefs": "focus brief",
}


async def _next_id(reader: Reader, table: str, column: str, count: int = 1) -> int:
    """The first of some ids that a table has not used yet."""
    last = await reader.run(last_id, table, column)
    if last > _LAST_ID - count:
        raise RefusedError(f"Table {table} has no ids left. Nothing was changed.")
    return last + 1


def _id(row: FileRow, column: str) -> SummaryId:
    """What a file gives for an id: of any type, as it was stored."""
    return cast(SummaryId, row.get(column))


def _ordinal(row: FileRow) -> int:
    ordinal = row.get("ordinal")
    return ordinal if isinstance(ordinal, int) else 0


async def _conversation(
    reader: Reader, file: ConversationFile, importing: _Importing, now: datetime
) -> FileRow:
    """The conversation's row; of one key only one can be active (docs/spec/format.md, "conversations")."""
    [row] = file.rows["conversations"]
    key = row.get("session_key")
    if key is None or not reader.schema.has("conversations", "session_key"):
        return row
    others = await rows_by(reader, "conversations", "session_key", [key])
    if not reader.schema.has("conversations", "active"):
        if others:
            importing.said.append("Another conversation has its session key: it is imported without one")
            return {**row, "session_key": None}
        return row
    if row.get("active", 1) == 0 or not any(one["active"] == 1 for one in others):
        return row
    importing.said.append("Another conversation of its session is active: it is imported as archived")
    wanted: FileRow = {
        "active": 0,
        "archived_at": iso_z(now),
        "archive_cause": row.get("archive_cause") or CAUSE,
    }
    here = importing.columns["conversations"]
    return {**row, **{name: value for name, value in wanted.items() if name in here}}
