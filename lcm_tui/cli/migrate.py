"""``migrate``: an old database to the present schema, after a backup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lcm_core.base.values import to_json
from lcm_core.change.backup import Backup, default_target, make_backup
from lcm_core.change.connection import Holder, check_writable, process_names, processes_with_open
from lcm_core.change.migrate import Migrated, Migration, plan_migration
from lcm_core.change.migrate import migrate as upgrade

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command, option
from lcm_tui.cli.documents import some_of
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import ChangeFlags, change_flags
from lcm_tui.cli.progress import CopyMeter
from lcm_tui.cli.working import carry_out
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, Prose


@command("migrate", examples=("migrate", "migrate --to lcm-before.db --apply"))
@change_flags
@option("--to", FilePath(text=True), "PATH", "The path of the backup (default: next to the database).")
def migrate(run: Run, *, flags: ChangeFlags, to: Path | None) -> Answer:
    """Migrate an old database to the engine's current schema, after a backup (previews unless --apply)."""
    path = run.settings.database.value
    target = default_target(path, label="before-migration") if to is None else to
    migration = run.read(plan_migration)
    holding = processes_with_open(path)
    planned = {"applied": False, **to_json(migration), "holders": to_json(holding)}
    if not migration or not flags.apply:
        return run.answer("migrate", planned, _blocks(migration, holding))
    check_writable(path)
    meter = CopyMeter()

    def work(stopped: Callable[[], bool]) -> tuple[Backup, Migrated]:
        made = make_backup(path, target, meter, stopped)
        meter.clear()
        return made, upgrade(path, wait=answer.BUSY_SECONDS, stopped=stopped)

    question = _question(path.name, migration, holding)
    backup, done = carry_out(run, question, work, yes=flags.yes, meter=meter)
    data = {**planned, "applied": True, "backup": str(backup.path), **some_of(done, "search_tables rows")}
    return run.answer("migrate", data, _done_blocks(run, done, backup))


def _question(name: str, migration: Migration, holding: Sequence[Holder]) -> str:
    stop = f" {holding[0].text} has the database open: stop it first." if holding else ""
    return f"Migrate {name} ({migration.version}) to the current schema, after a backup?{stop}"


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
        who = process_names(holding)
        blocks.append(Note(f"Stop these processes first; they have the database open: {who}."))
    blocks.append(Note("A host of an older version can still use the file; a backup is made first."))
    blocks.append(Note("Nothing was changed; --apply migrates it."))
    return blocks


def _done_blocks(run: Run, done: Migrated, backup: Backup) -> list[OutputBlock]:
    facts: list[tuple[str, Cell]] = [
        ("Was written by LCM", done.migration.version),
        ("Tables created", len(done.migration.tables)),
        ("Columns added", len(done.migration.columns)),
        *((name.capitalize(), count) for name, count in done.rows.items()),
        ("Backup", str(backup.path)),
    ]
    return [Facts(facts), Note(f"To go back: {run.line('restore', str(backup.path), '--apply')}")]
