"""``reindex``: search tables are written anew from messages and summaries."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.reindex import Rebuilt, SearchTable, reindex, search_tables
from lcm_core.errors import CancelledError, LcmError, RefusedError, SearchUnavailableError

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
    able = [one for one in found if not one.problem]
    if found and not able:
        raise SearchUnavailableError(f"Nothing was changed: {' '.join(map(_lacking, found))}")
    if not flags.apply or not found:
        return run.answer("reindex", _document(found, ()), _planned_blocks(found))
    names = ", ".join(one.table for one in able)
    ask_before_change(f"Rebuild {names}? The database is locked meanwhile.", yes=flags.yes)
    done: list[Rebuilt] = []
    failed = _rebuild(run, able, done)
    return run.answer("reindex", _document(found, done), _done_blocks(found, done, failed)).in_part(failed)


def _lacking(one: SearchTable) -> str:
    who = "this file" if one.problem.startswith("no such column") else "this program's SQLite"
    return f"{one.table} cannot be rebuilt, because {who} lacks something ({one.problem}); it stays as it is."


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
        "applied": bool(done) and len(done) == len([one for one in found if not one.problem]),
        "tables": [
            {
                "table": one.table,
                "source": one.source,
                "sourceRows": one.rows,
                "rebuilt": one.table in written,
                "rows": written.get(one.table),
                "problem": one.problem or None,
            }
            for one in found
        ],
    }


def _planned_blocks(found: Sequence[SearchTable]) -> list[Block]:
    if not found:
        return [Note("This database has no search table.")]
    columns = (Column("Search table"), Column("Made from"), Column("Rows", right=True))
    table = Table(columns, [(one.table, one.source, one.rows) for one in found])
    lacking = _lacking_blocks(found)
    which = "the others" if lacking else "them"
    return [table, *lacking, Note(f"Nothing was changed; --apply rebuilds {which}.")]


def _lacking_blocks(found: Sequence[SearchTable]) -> list[Block]:
    return [Note(_lacking(one)) for one in found if one.problem]


def _done_blocks(
    found: Sequence[SearchTable], done: Sequence[Rebuilt], failed: LcmError | None
) -> list[Block]:
    columns = (Column("Rebuilt"), Column("Rows", right=True))
    table = Table(columns, [(one.table, one.rows) for one in done])
    return [table, *_lacking_blocks(found), *([] if failed is None else [Note(failed.message)])]
