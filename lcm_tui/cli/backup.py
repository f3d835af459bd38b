"""The whole file: ``backup`` and ``restore``, ``migrate`` and ``reindex``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lcm_core.base.errors import CancelledError, ExitCode, LcmError, RefusedError, SearchUnavailableError
from lcm_core.base.values import replace
from lcm_core.change.backup import (
    OFFER_BYTES,
    Backup,
    BackupEstimate,
    Contents,
    Restored,
    RestorePreview,
    check_target,
    default_target,
    estimate_backup,
    make_backup,
    preview_restore,
    restore,
)
from lcm_core.change.connection import Holder, check_writable, processes_with_open
from lcm_core.change.migrate import Migrated, Migration, migrate, plan_migration
from lcm_core.change.reindex import Rebuilt, SearchTable, reindex, search_tables
from lcm_core.store.opening import Access

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.progress import CopyMeter
from lcm_tui.cli.working import ask, can_ask, carry_out, interruptible
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    Note,
    OutputBlock,
    OutputColumn,
    Prose,
    Table,
    bytes_text,
    seconds_text,
)

# -- backup and restore ----------------------------------------------------------------------------------
# The whole database, to a file and back.

#: A copy that takes longer is begun only when somebody at the terminal agrees.
LONG_SECONDS = 10.0


_HOW = {
    Access.IMMUTABLE: "as a file at rest; no lock and no extra files",
    Access.READ_ONLY: "in one read transaction, while others may write",
    Access.COPY: "through a private copy, because its WAL cannot be read in place",
}


def backup(run: Run, to: Path | None, *, check: bool, force: bool, yes: bool) -> Answer:
    """Copy the database to a file."""
    database = run.settings.database.value
    target = _target(database, to)
    check_target(database, target, replace=force)
    estimate = estimate_backup(database, target)
    long = estimate.seconds > LONG_SECONDS or estimate.bytes > OFFER_BYTES
    if long and not yes and can_ask():
        size, time = bytes_text(estimate.bytes), seconds_text(estimate.seconds)
        ask(f"Copy {size} to {target}; it takes about {time}. Continue?", default=True)
    meter = CopyMeter()
    with interruptible(meter) as stopped:
        made = make_backup(database, target, meter, stopped, check=check, replace=force)
    told = run.answer("backup", _backup_document(made, estimate), _backup_blocks(made))
    return replace(told, exit_code=ExitCode.FINDINGS) if made.problems else told


def _target(database: Path, to: Path | None) -> Path:
    if to is None:
        return default_target(database)
    return to / default_target(database).name if to.is_dir() else to


def _backup_document(made: Backup, estimate: BackupEstimate) -> Document:
    return {
        "path": str(made.path),
        "bytes": made.bytes,
        "pages": made.pages,
        "seconds": round(made.seconds, 3),
        "estimatedSeconds": round(estimate.seconds, 3),
        "checked": made.checked,
        "problems": list(made.problems),
        "access": made.access.value,
    }


def _backup_blocks(made: Backup) -> list[OutputBlock]:
    checked = "every page" if made.checked else "pages counted, header compared"
    facts: list[tuple[str, Cell]] = [
        ("Backup", str(made.path)),
        ("Size", f"{made.bytes:,} bytes"),
        ("Took", f"{made.seconds:.1f} s"),
        ("Checked", checked if not made.problems else "damaged"),
        ("Read", _HOW[made.access]),
    ]
    if not made.problems:
        return [Facts(facts)]
    columns = (OutputColumn("What is wrong", grows=True),)
    note = Note("The copy equals the database: the database itself is damaged. Keep both.")
    return [Facts(facts), Table(columns, [(line,) for line in made.problems]), note]


def restore_(run: Run, source: Path, flags: ChangeFlags) -> Answer:
    """Show what putting a backup back would do, or do it."""
    database = run.settings.database.value
    meter = CopyMeter()
    with interruptible(meter) as stopped:
        preview = preview_restore(source, database, meter, stopped, check=not flags.apply)
    if not flags.apply:
        document = {"applied": False, **_preview_document(preview)}
        return run.answer("restore", document, _preview_blocks(run, preview))
    done = carry_out(
        run,
        _question(run, preview),
        lambda stopped: restore(source, database, meter, stopped, wait=answer.BUSY_SECONDS),
        yes=flags.yes,
        meter=meter,
    )
    document = {"applied": True, **_preview_document(preview), **_restored_document(done)}
    return run.answer("restore", document, _restored_blocks(done))


def _question(run: Run, preview: RestorePreview) -> str:
    until = _time(run, preview.backup)
    backup = f"{preview.backup.path} ({preview.backup.messages:,} messages, the last of {until})"
    if preview.missing:
        return f"There is no {run.settings.database.value}. Create it from {backup}?"
    now = preview.database
    what = f" ({now.messages:,} messages, the last of {_time(run, now)})" if now else ""
    return (
        f"Replace the contents of {run.settings.database.value}{what} with {backup}? A copy of the old "
        "database is kept."
    )


def _time(run: Run, contents: Contents) -> str:
    return run.time(contents.newest) or "an unknown time"


def _contents_document(contents: Contents | None) -> Document | None:
    if contents is None:
        return None
    return {
        "path": str(contents.path),
        "bytes": contents.bytes,
        "version": contents.version,
        "conversations": contents.conversations,
        "messages": contents.messages,
        "summaries": contents.summaries,
        "latestMessageAt": contents.newest,
    }


def _preview_document(preview: RestorePreview) -> Document:
    return {
        "backup": _contents_document(preview.backup),
        "database": _contents_document(preview.database),
        "missing": preview.missing,
        "unreadable": preview.unreadable or None,
        "roomBytes": preview.room,
        "holders": [{"pid": holder.pid, "name": holder.name} for holder in preview.holders],
    }


def _restored_document(done: Restored) -> Document:
    return {
        "path": str(done.path),
        "bytes": done.bytes,
        "pages": done.pages,
        "kept": None if done.kept is None else str(done.kept),
        "seconds": round(done.seconds, 3),
    }


def _preview_blocks(run: Run, preview: RestorePreview) -> list[OutputBlock]:
    now, backup = preview.database, preview.backup
    rows: list[tuple[Cell, ...]] = [
        ("File", str(now.path) if now else str(run.settings.database.value), str(backup.path)),
        ("Size in bytes", now.bytes if now else None, backup.bytes),
        ("Written by LCM", now.version if now else None, backup.version),
        ("Conversations", now.conversations if now else None, backup.conversations),
        ("Messages", now.messages if now else None, backup.messages),
        ("  last", _time(run, now) if now else None, _time(run, backup)),
        ("Summaries", now.summaries if now else None, backup.summaries),
    ]
    blocks: list[OutputBlock] = [
        Table((OutputColumn(""), OutputColumn("Now", grows=True), OutputColumn("Backup", grows=True)), rows)
    ]
    if preview.missing:
        blocks.append(Note("There is no database: the backup would be copied there."))
    else:
        blocks.append(
            Note(
                "The current database would be copied to a file next to it; only that copy has what the "
                f"host stored since the backup. {preview.room:,} bytes must be free. Files outside the "
                "database do not change."
            )
        )
    if preview.unreadable:
        blocks.append(Note(f"The database cannot be read now: {preview.unreadable}"))
    if preview.holders:
        who = ", ".join(holder.text for holder in preview.holders)
        blocks.append(Note(f"Stop these processes first; they have the database open: {who}."))
    blocks.append(Note("The backup is complete. Nothing was changed; --apply restores it."))
    return blocks


def _restored_blocks(done: Restored) -> list[OutputBlock]:
    facts: list[tuple[str, Cell]] = [
        ("Restored", str(done.path)),
        ("Size", f"{done.bytes:,} bytes"),
        ("Took", f"{done.seconds:.1f} s"),
        ("Previous database", None if done.kept is None else str(done.kept)),
    ]
    return [Facts(facts), Note("The host can be started again.")]


# -- migrate ---------------------------------------------------------------------------------------------
# An old database to the present schema, after a backup.


def migrate_(run: Run, flags: ChangeFlags, backup_to: Path | None) -> Answer:
    """Show what a migration would do, or do it, after a backup."""
    path = run.settings.database.value
    target = default_target(path, label="before-migration") if backup_to is None else backup_to
    migration = run.read(plan_migration)
    holding = processes_with_open(path)
    if not migration or not flags.apply:
        return run.answer("migrate", _document(migration, holding), _blocks(migration, holding))
    check_writable(path)
    meter = CopyMeter()

    def work(stopped: Callable[[], bool]) -> tuple[Backup, Migrated]:
        made = make_backup(path, target, meter, stopped)
        meter.clear()
        return made, migrate(path, wait=answer.BUSY_SECONDS, stopped=stopped)

    question = _migrate_question(path.name, migration, holding)
    backup, done = carry_out(run, question, work, yes=flags.yes, meter=meter)
    document = {**_document(migration, holding), **_done_document(done, backup)}
    return run.answer("migrate", document, _done_blocks(run, done, backup))


def _migrate_question(name: str, migration: Migration, holding: Sequence[Holder]) -> str:
    stop = f" {holding[0].text} has the database open: stop it first." if holding else ""
    return f"Migrate {name} ({migration.version}) to the current schema, after a backup?{stop}"


def _document(migration: Migration, holding: Sequence[Holder]) -> Document:
    return {
        "applied": False,
        "version": migration.version,
        "tables": list(migration.tables),
        "columns": list(migration.columns),
        "indexes": list(migration.indexes),
        "searchTables": list(migration.search_tables),
        "droppedIndexes": list(migration.dropped),
        "steps": list(migration.steps),
        "holders": [{"pid": holder.pid, "name": holder.name} for holder in holding],
    }


def _done_document(done: Migrated, backup: Backup) -> Document:
    return {
        "applied": True,
        "backup": str(backup.path),
        "searchTables": list(done.search_tables),
        "rows": dict(done.rows),
    }


def _blocks(migration: Migration, holding: Sequence[Holder]) -> list[OutputBlock]:
    facts: list[tuple[str, Cell]] = [("Written by LCM", migration.version)]
    if not migration:
        return [Facts(facts), Note("The schema is current: nothing to do.")]
    named = (
        ("Tables to create", migration.tables),
        ("Columns to add", migration.columns),
        ("Indexes to create", migration.indexes),
        ("Indexes to drop", migration.dropped),
        ("Search tables", migration.search_tables),
        ("Values to compute", migration.steps),
    )
    blocks: list[OutputBlock] = [Facts(facts)]
    blocks += (Prose(", ".join(names), title=f"{title} ({len(names)})") for title, names in named if names)
    if holding:
        who = ", ".join(holder.text for holder in holding)
        blocks.append(Note(f"Stop these processes first; they have the database open: {who}."))
    blocks.append(Note("A host of an older version can still use the file; a backup is made first."))
    blocks.append(Note("Nothing was changed; --apply migrates it."))
    return blocks


def _done_blocks(run: Run, done: Migrated, backup: Backup) -> list[OutputBlock]:
    facts: list[tuple[str, Cell]] = [
        ("Was written by LCM", done.migration.version),
        ("Tables created", len(done.migration.tables)),
        ("Columns added", len(done.migration.columns)),
        *((name.capitalize(), count) for name, count in done.rows),
        ("Backup", str(backup.path)),
    ]
    return [Facts(facts), Note(f"To go back: {run.line('restore', str(backup.path), '--apply')}")]


# -- reindex ---------------------------------------------------------------------------------------------
# Search tables are rebuilt from messages and summaries.

_STOPPED = "Cancelled; the table that was being rebuilt is unchanged."


def reindex_(run: Run, wanted: Sequence[str], flags: ChangeFlags) -> Answer:
    """Show the search tables, or rebuild them."""
    found = _chosen(run.read(search_tables), wanted)
    able = [one for one in found if not one.problem]
    if found and not able:
        raise SearchUnavailableError(f"Nothing was changed: {' '.join(map(_lacking, found))}")
    if not flags.apply or not found:
        return run.answer("reindex", _reindex_document(found, ()), _planned_blocks(found))
    names = ", ".join(one.table for one in able)
    done: list[Rebuilt] = []
    question = f"Rebuild {names}? The database is locked meanwhile."
    failed = carry_out(run, question, partial(_rebuild, run, able, done), yes=flags.yes)
    return run.answer(
        "reindex", _reindex_document(found, done), _reindex_done_blocks(found, done, failed)
    ).in_part(failed)


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


def _rebuild(
    run: Run, found: Sequence[SearchTable], done: list[Rebuilt], stopped: Callable[[], bool]
) -> LcmError | None:
    """Rebuild table by table; why it ended early, when some were done by then."""
    failed: LcmError | None = None
    try:
        for one in found:
            path = run.settings.database.value
            done += reindex(path, [one.table], wait=answer.BUSY_SECONDS, stopped=stopped)
    except (CancelledError, KeyboardInterrupt):
        failed = CancelledError(_STOPPED)
    except LcmError as error:
        failed = error
    if failed is not None and not done:
        raise failed
    return failed


def _reindex_document(found: Sequence[SearchTable], done: Sequence[Rebuilt]) -> Document:
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


def _reindex_done_blocks(
    found: Sequence[SearchTable], done: Sequence[Rebuilt], failed: LcmError | None
) -> list[OutputBlock]:
    columns = (OutputColumn("Rebuilt"), OutputColumn("Rows", right=True))
    table = Table(columns, [(one.table, one.rows) for one in done])
    return [table, *_lacking_blocks(found), *([] if failed is None else [Note(failed.message)])]
