"""``reindex``: search tables are written anew from messages and summaries."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.reindex import Rebuilt, SearchTable, reindex, search_tables
from lcm_core.errors import CancelledError, LcmError, RefusedError

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.working import ask_before_change, interruptible
from lcm_tui.views.blocks import Block, Column, Note, Table

_STOPPED = "Cancelled; the table that was being rebuilt is unchanged."


def reindex_(run: Run, wanted: Sequence[str], flags: ChangeFlags) -> Answer:
    """Show the search tables, or rebuild them."""
    found = _chosen(run.read(search_tables), wanted)
    if not flags.apply or not found:
        return run.answer("reindex", _document(found, ()), _planned_blocks(found))
    names = ", ".join(one.table for one in found)
    ask_before_change(f"Rebuild {names}? The database is locked meanwhile.", yes=flags.yes)
    done: list[Rebuilt] = []
    failed = _rebuild(run, found, done)
    return run.answer("reindex", _document(found, done), _done_blocks(done, failed)).in_part(failed)


def _chosen(known: Sequence[SearchTable], wanted: Sequence[str]) -> list[SearchTable]:
    names = [one.table for one in known]
    for name in wanted:
        if name not in names:
            listed = ", ".join(names) or "none"
            raise RefusedError(f"This database has no search table {name}. It has {listed}.")
    return [one for one in known if not wanted or one.table in wanted]


def _rebuild(run: Run, found: Sequence[SearchTable], done: list[Rebuilt]) -> LcmError | None:
    """Rebuild table by table; why it ended early, when some were done by then."""
    path = run.settings.database.value
    with interruptible() as stopped:
        try:
            for one in found:
                done += reindex(path, [one.table], wait=answer.BUSY_SECONDS, stopped=stopped)
        except (CancelledError, KeyboardInterrupt):
            return _ended(CancelledError(_STOPPED), done)
        except LcmError as error:
            return _ended(error, done)
    return None


def _ended(error: LcmError, done: Sequence[Rebuilt]) -> LcmError:
    if not done:
        raise error
    return error


def _document(found: Sequence[SearchTable], done: Sequence[Rebuilt]) -> Document:
    written = {one.table: one.rows for one in done}
    return {
        "applied": bool(found) and len(done) == len(found),
        "tables": [
            {
                "table": one.table,
                "source": one.source,
                "sourceRows": one.rows,
                "rebuilt": one.table in written,
                "rows": written.get(one.table),
            }
            for one in found
        ],
    }


def _planned_blocks(found: Sequence[SearchTable]) -> list[Block]:
    if not found:
        return [Note("This database has no search table.")]
    columns = (Column("Search table"), Column("Made from"), Column("Rows", right=True))
    table = Table(columns, [(one.table, one.source, one.rows) for one in found])
    return [table, Note("Nothing was changed; --apply rebuilds them.")]


def _done_blocks(done: Sequence[Rebuilt], failed: LcmError | None) -> list[Block]:
    columns = (Column("Rebuilt"), Column("Rows", right=True))
    table = Table(columns, [(one.table, one.rows) for one in done])
    return [table] if failed is None else [table, Note(failed.message)]
