"""``reindex``: search tables rebuilt from messages and summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lcm_core.base.errors import CancelledError, LcmError, SearchUnavailableError
from lcm_core.base.values import to_json
from lcm_core.change.reindex import Rebuilt, SearchTable, search_tables
from lcm_core.change.reindex import reindex as rebuild

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command
from lcm_tui.cli.kinds import Text, invalid
from lcm_tui.cli.options import ChangeFlags, change_flags
from lcm_tui.cli.working import carry_out
from lcm_tui.tables.blocks import Note, OutputBlock, OutputColumn, Table

_STOPPED = "Cancelled; the table that was being rebuilt is unchanged."


@command("reindex", examples=("reindex --apply", "reindex summaries_fts --apply"))
@argument("table", Text(), "[TABLE...]", "Only these search tables.", nargs=-1, required=False)
@change_flags
def reindex(run: Run, *, table: tuple[str, ...], flags: ChangeFlags) -> Answer:
    """Rebuild the search tables from messages and summaries (previews unless --apply)."""
    found = _chosen(run.read(search_tables), table)
    able = [one for one in found if not one.problem]
    if found and not able:
        raise SearchUnavailableError(f"Nothing was changed: {' '.join(map(_lacking, found))}")
    if not flags.apply or not found:
        return _answer(run, found, (), _planned_blocks(found))
    names = ", ".join(one.table for one in able)
    done: list[Rebuilt] = []
    question = f"Rebuild {names}? The database is locked meanwhile."
    failed = carry_out(run, question, partial(_rebuild, run, able, done), yes=flags.yes)
    return _answer(run, found, done, _done_blocks(found, done, failed)).in_part(failed)


def _lacking(one: SearchTable) -> str:
    who = "this file" if str(one.problem).startswith("no such column") else "this program's SQLite"
    return f"{one.table} cannot be rebuilt, because {who} lacks something ({one.problem}); it stays as it is."


def _chosen(known: Sequence[SearchTable], wanted: Sequence[str]) -> list[SearchTable]:
    names = [one.table for one in known]
    for name in wanted:
        if name not in names:
            listed = ", ".join(names) or "none"
            raise invalid("TABLE", f"names no search table of this database, which has {listed}", name)
    return [one for one in known if not wanted or one.table in wanted]


def _rebuild(
    run: Run, found: Sequence[SearchTable], done: list[Rebuilt], stopped: Callable[[], bool]
) -> LcmError | None:
    """Rebuild table by table; why it ended early, when some were done by then."""
    failed: LcmError | None = None
    try:
        for one in found:
            path = run.settings.database.value
            done += rebuild(path, [one.table], wait=answer.BUSY_SECONDS, stopped=stopped)
    except (CancelledError, KeyboardInterrupt):
        failed = CancelledError(_STOPPED)
    except LcmError as error:
        failed = error
    if failed is not None and not done:
        raise failed
    return failed


def _answer(
    run: Run, found: Sequence[SearchTable], done: Sequence[Rebuilt], blocks: Sequence[OutputBlock]
) -> Answer:
    written = {one.table: one.rows for one in done}
    tables = [
        {**to_json(one), "rebuilt": one.table in written, "rows": written.get(one.table)} for one in found
    ]
    applied = bool(done) and len(done) == len([one for one in found if not one.problem])
    return run.answer("reindex", {"applied": applied, "tables": tables}, blocks)


def _planned_blocks(found: Sequence[SearchTable]) -> list[OutputBlock]:
    if not found:
        return [Note("This database has no search table.")]
    columns = (OutputColumn("Search table"), OutputColumn("Made from"), OutputColumn("Rows", right=True))
    table = Table(columns, [(one.table, one.source, one.rows) for one in found])
    lacking = _lacking_blocks(found)
    which = "the others" if lacking else "them"
    return [table, *lacking, Note(f"Nothing was changed; --apply rebuilds {which}.")]


def _lacking_blocks(found: Sequence[SearchTable]) -> list[OutputBlock]:
    return [Note(_lacking(one)) for one in found if one.problem]


def _done_blocks(
    found: Sequence[SearchTable], done: Sequence[Rebuilt], failed: LcmError | None
) -> list[OutputBlock]:
    columns = (OutputColumn("Rebuilt"), OutputColumn("Rows", right=True))
    table = Table(columns, [(one.table, one.rows) for one in done])
    return [table, *_lacking_blocks(found), *([] if failed is None else [Note(failed.message)])]
