"""Trim the journal: what is forgotten can no longer be undone. The database itself stays as it is."""

from __future__ import annotations

from pathlib import Path

from lcm_core.change.connection import Writer, open_writer
from lcm_core.change.exports import remove_export
from lcm_core.change.journal import TABLE, forget
from lcm_core.change.plan import SqlValue
from lcm_core.store.guard import undisturbed


def prune_history(
    path: Path,
    *,
    keep: int | None = None,
    before: str | None = None,
    conversation_id: int | None = None,
    wait: float = 5.0,
) -> int:
    """Forget operations and their exports, and say how many.

    Those beyond the newest *keep*, those made *before* a time (in either stored format), those of one
    conversation; of several conditions all must hold, and with none everything is forgotten.

    Raises:
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    with undisturbed(path, wait), open_writer(path, wait) as writer:
        if not writer.value("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)):
            return 0
        writer.begin()
        wanted = _wanted(writer, keep, before, conversation_id)
        files = forget(writer, wanted)
        writer.commit()
    for file in files:
        remove_export(file)
    return len(wanted)


def _wanted(
    writer: Writer, keep: int | None, before: str | None, conversation_id: int | None
) -> list[SqlValue]:
    rows = writer.rows(
        f"""SELECT id FROM {TABLE} WHERE (? IS NULL OR julianday(created_at) < julianday(?))
        AND (? IS NULL OR conversation_id = ?)
        AND (? IS NULL OR rowid NOT IN (SELECT rowid FROM {TABLE} ORDER BY rowid DESC LIMIT ?))
        ORDER BY rowid""",
        (before, before, conversation_id, conversation_id, keep, keep),
    )
    return [row["id"] for row in rows]
