"""A conversation as a file of JSON lines: written before it is deleted, imported again when it is wanted.

The first line says what it is: ``{"format": "lcm-tui conversation", "version": 1, "conversationId": ...}``.
Each further line is one row, ``{"table": ..., "row": {column: value}}``, with every column that the database
had; a row comes after those that refer to it. The last line counts them:
``{"end": {table: rows}}``. A value that JSON cannot hold is an object: ``{"$blob": base64}`` for bytes,
``{"$text": base64}`` for text that is not valid UTF-8, ``{"$real": "inf"}``. Search tables are derived and
not in it; large files stay where they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

import platformdirs

from lcm_core import __version__
from lcm_core.change.codec import CodecError, decode_values, encode_values
from lcm_core.change.errors import DiskFullError
from lcm_core.change.plan import Edit, RowChange, touched_rows, value_of
from lcm_core.errors import FileMissingError, NotFoundError, RefusedError
from lcm_core.ingest.jsonl import open_regular
from lcm_core.operations.prune import deletion_pieces
from lcm_core.private_files import PROGRAM, PartialFile, make_private, sync_folder
from lcm_core.records import Conversation
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.times import iso_z

FORMAT: Final = "lcm-tui conversation"
VERSION: Final = 1
_STAMP: Final = "%Y%m%dT%H%M%SZ"

#: A row as it is stored.
FileRow = dict[str, SqlValue]


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """What a file holds."""

    path: Path
    conversation_id: int
    exported_at: str
    rows: dict[str, list[FileRow]] = field(repr=False)  #: by table


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written."""

    path: Path
    conversation_id: int
    bytes: int
    rows: int
    last_message: int  #: the largest id of a message in it; 0 without one
    summaries: frozenset[str] = field(repr=False)  #: the ids of those in it

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
    writing: _Writing | None = None
    try:
        writing = await asyncio.to_thread(_Writing.begin, folder, number)
        await asyncio.to_thread(writing.line, _header(conversation, database, moment))
        async for piece in deletion_pieces(reader, number):
            await asyncio.to_thread(writing.rows, piece.edits)
        name = f"conversation-{number}-{moment.astimezone(UTC):{_STAMP}}"
        target, size = await asyncio.to_thread(writing.end, name)
    except OSError as error:
        raise DiskFullError(
            f"Conversation {number} cannot be exported to {folder} ({error.strerror}), so it is not deleted. "
            "Nothing was changed; make room there, or give another folder with --export-to.",
            code="EXPORT_FAILED",
        ) from error
    finally:
        if writing is not None:
            writing.leave()
    return Exported(
        target, number, size, writing.counts.total(), writing.last_message, frozenset(writing.summaries)
    )


@dataclass(slots=True)
class _Writing:
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
        self.file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")

    def rows(self, edits: Iterable[Edit]) -> None:
        """Write the rows that some edits delete."""
        for table, row in _rows(edits):
            self.counts[table] += 1
            self.line({"table": table, "row": encode_values(row)})
            if table == "messages" and isinstance(row["message_id"], int):
                self.last_message = max(self.last_message, row["message_id"])
            elif table == "summaries":
                self.summaries.add(str(row["summary_id"]))

    def end(self, name: str) -> tuple[Path, int]:
        """Write the last line, make it last, and give it its name."""
        self.line({"end": dict(sorted(self.counts.items()))})
        self.file.flush()
        os.fsync(self.file.fileno())
        size = os.fstat(self.file.fileno()).st_size
        return _placed(self.part.path, self.part.path.with_name(name)), size

    def leave(self) -> None:
        """Close the file; what is not whole is removed."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.part.close()


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


def _placed(part: Path, wanted: Path) -> Path:
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
            "exported conversation", path, "Give a file that `lcm-tui prune --delete` exported."
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
