"""Trim the journal, and leave nothing of what was deleted: no record of it, no old copy in the file.

What is forgotten can no longer be undone; the rows themselves stay as they are. SQLite marks what is deleted
as free and writes over it some day. Here deleted bytes are overwritten at once, the full-text tables are
merged until they hold no deleted words, and the file is written anew, since pages that the host rearranged
before may hold copies that no row refers to any more.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lcm_core.change.catalog import read_catalog
from lcm_core.change.connection import Writer, open_writer
from lcm_core.change.copying import Stop
from lcm_core.change.exports import remove_export
from lcm_core.change.journal import TABLE, Operation, all_operations, edits_of, exists, forget
from lcm_core.change.plan import Cells, Edit, Splice, touched_rows
from lcm_core.change.search_index import MESSAGES, SUMMARIES
from lcm_core.change.snapshots import drop_snapshots
from lcm_core.errors import CancelledError, LcmError, RefusedError
from lcm_core.store.assemblies import TABLE as ASSEMBLIES
from lcm_core.store.connecting import Rows, SqlValue

#: Pages of a full-text table that are merged in one transaction.
_MERGED_PAGES: Final = 500
#: Room for writing the file anew, as a multiple of its size: the copy, and what goes through the WAL.
_ROOM: Final = 2.2


def forget_history(
    path: Path, conversation_id: int, *, wait: float = 5.0, stopped: Stop | None = None
) -> int:
    """Remove every operation from the journal that holds rows of a conversation; the number of them.

    To be called while its rows are still there: they tell which operations those are. The snapshots of its
    assemblies go too. *stopped* says whether to give it up; it is asked until the lock is ours.

    Raises:
        CancelledError: *stopped* said so.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    with open_writer(path, wait, stopped) as writer:
        writer.overwrite_deleted()
        writer.begin()
        writer.write_only([TABLE, ASSEMBLIES])
        drop_snapshots(writer, [conversation_id])
        named = _names(writer, conversation_id)
        wanted = [one.id for one in all_operations(writer) if _concerns(writer, one, conversation_id, named)]
        files = forget(writer, wanted)
        writer.commit()
    for file in files:
        remove_export(file)
    return len(wanted)


def _names(writer: Writer, conversation_id: int) -> dict[str, Collection[SqlValue]]:
    """What belongs to a conversation, by the columns that name it."""
    schema = read_catalog(writer).schema
    messages = [row[0] for row in writer.rows(_MESSAGES_OF, (conversation_id,))]
    summaries = []
    if schema.has("summaries"):
        summaries = [row[0] for row in writer.rows(_SUMMARIES_OF, (conversation_id,))]
    held = frozenset(summaries)
    return {
        "conversation_id": frozenset((conversation_id,)),
        "message_id": frozenset(messages),
        "summary_id": held,
        "parent_summary_id": held,
    }


_MESSAGES_OF: Final = "SELECT message_id FROM messages WHERE conversation_id = ?"
_SUMMARIES_OF: Final = "SELECT summary_id FROM summaries WHERE conversation_id = ?"


def _concerns(
    writer: Writer, operation: Operation, conversation_id: int, named: dict[str, Collection[SqlValue]]
) -> bool:
    if operation.conversation_id == conversation_id:
        return True
    try:
        edits = edits_of(writer, operation)
    except LcmError:  # what cannot be read any more may hold anything
        return operation.conversation_id is None
    return any(
        name in named and value in named[name]
        for edit in edits
        for cells in _cells(edit)
        for name, value in cells.values
        if not isinstance(value, bytes | float)
    )


def _cells(edit: Edit) -> Iterable[Cells]:
    yield from (row for _, _, row in touched_rows(edit))
    if isinstance(edit, Splice):
        yield Cells.of({"conversation_id": edit.conversation_id})


# -- the file itself ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What became of the places where deleted text may still be."""

    merged: tuple[str, ...]  #: full-text tables without deleted words
    rewritten: bool  #: the whole file was written anew
    truncated: bool  #: the write-ahead log is empty
    problems: tuple[str, ...]  #: what was not done and why, one sentence each


def scrub(path: Path, *, rewrite: bool = True, wait: float = 5.0, stopped: Stop | None = None) -> Scrubbed:
    """Take what was deleted out of the full-text tables, the file and its log, as far as others let us.

    *stopped* says whether to give up writing the file anew, which takes long; that is reported as a problem.

    Raises:
        DatabaseMissingError, ReadOnlyError, DatabaseError: the file cannot be opened for writing.
    """
    merged: list[str] = []
    problems: list[str] = []
    rewritten = truncated = False
    with open_writer(path, wait, stopped) as writer:
        writer.overwrite_deleted()
        schema = read_catalog(writer).schema
        for table in (name for name in (MESSAGES, *SUMMARIES) if schema.has(name)):
            try:
                _merge(writer, table)
                merged.append(table)
            except CancelledError:
                problems.append(
                    f"{table} was not merged because the command was stopped: "
                    f"`lcm-tui reindex --table {table}` fixes it"
                )
            except sqlite3.DatabaseError as error:
                problems.append(
                    f"{table} could not be merged ({error}): `lcm-tui reindex --table {table}` fixes it"
                )
        if rewrite:
            try:
                _rewrite(writer, path)
                rewritten = True
            except CancelledError:
                problems.append(
                    "The file was not rewritten because the command was stopped: old page contents may "
                    "remain. Stop the host and run VACUUM on it"
                )
            except (sqlite3.Error, LcmError) as error:
                problems.append(
                    f"The file could not be rewritten ({error}): old page contents may remain. "
                    "Stop the host and run VACUUM on it"
                )
        if writer.value("PRAGMA journal_mode") == "wal":
            [busy, *_] = writer.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]
            truncated = not busy
            if busy:
                problems.append(
                    f"{path.name}-wal could not be emptied because another process reads the database: stop "
                    "it; the file is removed when the database is closed"
                )
        else:
            truncated = True
    return Scrubbed(tuple(merged), rewritten, truncated, tuple(problems))


def rewrite_file(path: Path, *, wait: float = 5.0, stopped: Stop | None = None) -> tuple[int, int]:
    """Write the file anew without the pages that hold nothing: its bytes before and after.

    Nobody else can write meanwhile. *stopped* says whether to give it up; the file is as before then.

    Raises:
        CancelledError: it was stopped.
        RefusedError: there is no room for it.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    before = path.stat().st_size
    with open_writer(path, wait, stopped) as writer:
        _rewrite(writer, path)
        if writer.value("PRAGMA journal_mode") == "wal":
            writer.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, path.stat().st_size


def _merge(writer: Writer, table: str) -> None:
    """Merge a full-text table into one piece, which holds no deleted words; in short transactions."""
    pages = -_MERGED_PAGES
    while True:
        before = writer.row_changes
        writer.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
        if writer.row_changes - before < 2:
            return
        pages = _MERGED_PAGES


def _rewrite(writer: Writer, path: Path) -> None:
    size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    if free < size * _ROOM:
        raise RefusedError(f"that needs {int(size * _ROOM):,} bytes, and {free:,} are free")
    writer.rewrite_file()


# -- a shorter history ----------------------------------------------------------------------------------


def prune_history(
    path: Path,
    *,
    keep: int | None = None,
    before: str | None = None,
    conversation_id: int | None = None,
    wait: float = 5.0,
    stopped: Stop | None = None,
) -> int:
    """Forget operations and their exports, and say how many.

    Those beyond the newest *keep*, those made *before* a time (in either stored format), those of one
    conversation; of several conditions all must hold, and with none everything is forgotten. A change, its
    undo and its redo are forgotten together or not at all: without the others none can be taken back.
    *stopped* says whether to give it up; it is asked until the lock is ours.

    Raises:
        CancelledError: *stopped* said so.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    with open_writer(path, wait, stopped) as writer:
        if not exists(writer):
            return 0
        writer.begin()
        writer.write_only([TABLE])
        wanted = prunable(writer, keep=keep, before=before, conversation_id=conversation_id)
        files = forget(writer, wanted)
        writer.commit()
    for file in files:
        remove_export(file)
    return len(wanted)


def prunable(
    db: Rows, *, keep: int | None = None, before: str | None = None, conversation_id: int | None = None
) -> list[SqlValue]:
    """The ids of the operations that `prune_history` would forget, the oldest first."""
    if not exists(db):
        return []
    rows = db.rows(
        f"""SELECT id, undoes, (? IS NULL OR julianday(created_at) < julianday(?))
        AND (? IS NULL OR conversation_id = ?)
        AND (? IS NULL OR rowid NOT IN (SELECT rowid FROM {TABLE} ORDER BY rowid DESC LIMIT ifnull(?, 0)))
        AS wanted FROM {TABLE} ORDER BY rowid""",
        (before, before, conversation_id, conversation_id, keep, keep),
    )
    first: dict[SqlValue, SqlValue] = {}  # of the chain of an operation; what it undoes comes before it
    for row in rows:
        first[row["id"]] = first.get(row["undoes"], row["id"])
    kept = {first[row["id"]] for row in rows if not row["wanted"]}
    return [row["id"] for row in rows if first[row["id"]] not in kept]
