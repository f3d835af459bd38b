"""Trim the journal: what is forgotten can no longer be undone. The database itself stays as it is."""

from __future__ import annotations

from pathlib import Path

from lcm_core.change.connection import open_writer
from lcm_core.change.copying import Stop
from lcm_core.change.exports import remove_export
from lcm_core.change.journal import TABLE, exists, forget
from lcm_core.change.plan import SqlValue
from lcm_core.store.connecting import Rows
from lcm_core.store.guard import undisturbed


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
    with undisturbed(path, wait), open_writer(path, wait, stopped) as writer:
        if not exists(writer):
            return 0
        writer.begin()
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
    first: dict[SqlValue, SqlValue] = {}  # of the chain of an operation; what it undoes stands before it
    for row in rows:
        first[row["id"]] = first.get(row["undoes"], row["id"])
    kept = {first[row["id"]] for row in rows if not row["wanted"]}
    return [row["id"] for row in rows if first[row["id"]] not in kept]
