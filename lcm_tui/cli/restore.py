"""``restore``: a backup back into the database."""

from __future__ import annotations

from pathlib import Path

from lcm_core.base.text import counted
from lcm_core.base.values import to_json
from lcm_core.change.backup import Contents, RestorePreview, preview_restore
from lcm_core.change.backup import restore as put_back
from lcm_core.change.connection import process_names

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import ChangeFlags, change_flags
from lcm_tui.cli.progress import CopyMeter
from lcm_tui.cli.working import carry_out, interruptible
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, OutputColumn, Table


@command("restore", examples=("restore lcm-backup.db", "restore lcm-backup.db --apply"))
@argument("backup", FilePath(), "BACKUP", "The file that `backup` made, or any copy of an LCM database.")
@change_flags
def restore(run: Run, *, backup: Path, flags: ChangeFlags) -> Answer:
    """Restore a backup and keep a copy of the current database (previews unless --apply)."""
    database = run.settings.database.value
    meter = CopyMeter()
    with interruptible(meter) as stopped:
        preview = preview_restore(backup, database, meter, stopped, check=not flags.apply)
    if not flags.apply:
        return run.answer("restore", {"applied": False, **to_json(preview)}, _blocks(run, preview))
    done = carry_out(
        run,
        _question(run, preview),
        lambda stopped: put_back(backup, database, meter, stopped, wait=answer.BUSY_SECONDS),
        yes=flags.yes,
        meter=meter,
    )
    data = {"applied": True, **to_json(preview), **to_json(done)}
    facts: list[tuple[str, Cell]] = [
        ("Restored", str(done.path)),
        ("Size", f"{done.bytes:,} bytes"),
        ("Took", f"{done.seconds:.1f} s"),
        ("Previous database", None if done.kept is None else str(done.kept)),
    ]
    return run.answer("restore", data, [Facts(facts), Note("The host can be started again.")])


def _question(run: Run, preview: RestorePreview) -> str:
    until = _time(run, preview.backup)
    backup = f"{preview.backup.path} ({counted(preview.backup.messages, 'message')}, the last of {until})"
    if preview.missing:
        return f"There is no {run.settings.database.value}. Create it from {backup}?"
    now = preview.database
    what = f" ({counted(now.messages, 'message')}, the last of {_time(run, now)})" if now else ""
    return (
        f"Replace the contents of {run.settings.database.value}{what} with {backup}? A copy of the old "
        "database is kept."
    )


def _time(run: Run, contents: Contents) -> str:
    return run.time(contents.newest) or "an unknown time"


def _blocks(run: Run, preview: RestorePreview) -> list[OutputBlock]:
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
        who = process_names(preview.holders)
        blocks.append(Note(f"Stop these processes first; they have the database open: {who}."))
    blocks.append(Note("The backup is complete. Nothing was changed; --apply restores it."))
    return blocks
