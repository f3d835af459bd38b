"""``migrate``: an old database to the present schema, after a backup."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lcm_core.change.backup import Backup, default_target, make_backup
from lcm_core.change.connection import check_writable
from lcm_core.change.migrate import Migrated, Migration, migrate, plan_migration
from lcm_core.change.processes import Holder, processes_with_open

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.progress import CopyMeter
from lcm_tui.cli.working import ask_before_change, interruptible
from lcm_tui.views.blocks import Block, Cell, Facts, Note, Prose


def migrate_(run: Run, flags: ChangeFlags, backup_to: Path | None) -> Answer:
    """Show what a migration would do, or do it, after a backup."""
    path = run.settings.database.value
    target = default_target(path, label="before-migration") if backup_to is None else backup_to
    migration = run.read(plan_migration)
    holding = processes_with_open(path)
    if not migration or not flags.apply:
        return run.answer("migrate", _document(migration, holding), _blocks(migration, holding))
    check_writable(path)
    ask_before_change(_question(path.name, migration, holding), yes=flags.yes)
    meter = CopyMeter()
    with interruptible() as stopped:
        try:
            backup = make_backup(path, target, meter, stopped)
        finally:
            meter.clear()
        done = migrate(path, wait=answer.BUSY_SECONDS, stopped=stopped)
    document = {**_document(migration, holding), **_done_document(done, backup)}
    return run.answer("migrate", document, _done_blocks(run, done, backup))


def _question(name: str, migration: Migration, holding: Sequence[Holder]) -> str:
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


def _blocks(migration: Migration, holding: Sequence[Holder]) -> list[Block]:
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
    blocks: list[Block] = [Facts(facts)]
    blocks += (Prose(", ".join(names), title=f"{title} ({len(names)})") for title, names in named if names)
    if holding:
        who = ", ".join(holder.text for holder in holding)
        blocks.append(Note(f"Stop these processes first; they have the database open: {who}."))
    blocks.append(Note("A host of an older version can still use the file; a backup is made first."))
    blocks.append(Note("Nothing was changed; --apply migrates it."))
    return blocks


def _done_blocks(run: Run, done: Migrated, backup: Backup) -> list[Block]:
    facts: list[tuple[str, Cell]] = [
        ("Was written by LCM", done.migration.version),
        ("Tables created", len(done.migration.tables)),
        ("Columns added", len(done.migration.columns)),
        *((name.capitalize(), count) for name, count in done.rows),
        ("Backup", str(backup.path)),
    ]
    return [Facts(facts), Note(f"To go back: {run.line('restore', str(backup.path), '--apply')}")]
