"""An import taken back: what came goes, what changed gets its columns back (docs/remnic.md, "Undo").

Only rows that are as the import left them: whatever Remnic or somebody else wrote since stays, and is
counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lcm_core.change.connection import Writer, open_writer
from lcm_core.change.copying import Stop, check_wanted
from lcm_core.remnic import schema
from lcm_core.remnic.journal import Came, Import, Written, digest_of, undoing, written_by
from lcm_core.remnic.target import read_remnic
from lcm_core.remnic.write import reindex, update_row, whole_row
from lcm_core.store.connecting import Rows


@dataclass(slots=True)
class Undone:
    """What was taken back, or would be."""

    removed: int = 0
    restored: int = 0
    gone: int = 0  #: rows that are not there any more, or are restored already
    left: int = 0  #: rows that were changed since: they stay


def preview_undo(target: Path, one: Import) -> Undone:
    """What taking an import back would do; blocks.

    Raises:
        LcmError: the database or the file of the import cannot be read.
    """
    return read_remnic(target, _previewed, one)


def _previewed(rows: Rows, one: Import) -> Undone:
    found = Undone()
    later: dict[tuple[str, int | str], dict[str, object]] = {}
    for piece in written_by(one):
        for each in reversed(piece):
            row = {**whole_row(rows, each.table, each.key), **later.get((each.table, each.key), {})}
            _judge(found, each, row)
            if not isinstance(each, Came):
                later.setdefault((each.table, each.key), {}).update(each.before)
    return found


def _judge(found: Undone, each: Written, row: dict[str, object]) -> bool:
    """Count what becomes of a row; whether it is to be taken back."""
    if not row:
        found.gone += 1
        return False
    if isinstance(each, Came):
        if digest_of(row) != each.digest:  # type: ignore[arg-type]
            found.left += 1
            return False
        found.removed += 1
        return True
    if all(row.get(name) == value for name, value in each.before.items()):
        found.gone += 1
        return False
    if any(row.get(name) != value for name, value in each.after.items()):
        found.left += 1
        return False
    found.restored += 1
    return True


def undo_import(
    target: Path,
    one: Import,
    wait: float,
    *,
    told: Callable[[int, int], None] = lambda done, of: None,
    stopped: Stop = lambda: False,
) -> Undone:
    """Take an import back, a transaction of its own for each of the import's; blocks. It can be run again.

    Raises:
        RefusedError: the import still runs, or its file is damaged.
        CancelledError: *stopped* said so; what was taken back is.
        LcmError: the database cannot be written.
    """
    found = Undone()
    done = 0
    with undoing(one), open_writer(target, wait, stopped) as writer:
        schema.check_writable(writer, target)
        for piece in written_by(one):
            check_wanted(stopped)
            writer.begin()
            writer.write_only(schema.WRITTEN)
            for each in reversed(piece):
                _take_back(writer, found, each)
            writer.commit()
            done += len(piece)
            told(done, one.rows)
    return found


def _take_back(writer: Writer, found: Undone, each: Written) -> None:
    row = whole_row(writer, each.table, each.key)
    if not _judge(found, each, dict(row)):
        return
    key = schema.KEYS[each.table]
    column = schema.SEARCH[each.table][1] if each.table in schema.SEARCH else None
    [(place,)] = writer.tuples(f"SELECT rowid FROM {each.table} WHERE {key} = ?", (each.key,))
    if isinstance(each, Came):
        if column is not None:
            reindex(writer, each.table, place, row[column], None)
        writer.execute(f"DELETE FROM {each.table} WHERE {key} = ?", (each.key,))
        return
    if column is not None and column in each.before:
        reindex(writer, each.table, place, row[column], each.before[column])
    update_row(writer, each.table, each.key, {}, each.before)
