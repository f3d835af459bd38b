"""``backup`` and ``restore``: the whole database, to a file and back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lcm_core.change.backup import (
    OFFER_BYTES,
    Backup,
    BackupEstimate,
    check_target,
    default_target,
    estimate_backup,
    make_backup,
)
from lcm_core.change.restore import Contents, Restored, RestorePreview, preview_restore, restore
from lcm_core.errors import ExitCode
from lcm_core.store.opening import Access

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.progress import CopyMeter
from lcm_tui.cli.working import (
    ask,
    ask_before_change,
    can_ask,
    interruptible,
)
from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Table
from lcm_tui.views.units import bytes_text, seconds_text

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
    with interruptible() as stopped:
        try:
            made = make_backup(database, target, meter, stopped, check=check, replace=force)
        finally:
            meter.clear()
    told = run.answer("backup", _backup_document(made, estimate), _backup_blocks(made))
    return dataclasses.replace(told, exit_code=ExitCode.FINDINGS) if made.problems else told


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


def _backup_blocks(made: Backup) -> list[Block]:
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
    columns = (Column("What is wrong", grows=True),)
    note = Note("The copy equals the database: the database itself is damaged. Keep both.")
    return [Facts(facts), Table(columns, [(line,) for line in made.problems]), note]


def restore_(run: Run, source: Path, flags: ChangeFlags) -> Answer:
    """Show what putting a backup back would do, or do it."""
    database = run.settings.database.value
    meter = CopyMeter()
    with interruptible() as stopped:
        try:
            preview = preview_restore(source, database, meter, stopped, check=not flags.apply)
        finally:
            meter.clear()
    if not flags.apply:
        document = {"applied": False, **_preview_document(preview)}
        return run.answer("restore", document, _preview_blocks(run, preview))
    ask_before_change(_question(run, preview), yes=flags.yes)
    with interruptible() as stopped:
        try:
            done = restore(source, database, meter, stopped, wait=answer.BUSY_SECONDS)
        finally:
            meter.clear()
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


def _preview_blocks(run: Run, preview: RestorePreview) -> list[Block]:
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
    blocks: list[Block] = [Table((Column(""), Column("Now", grows=True), Column("Backup", grows=True)), rows)]
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


def _restored_blocks(done: Restored) -> list[Block]:
    facts: list[tuple[str, Cell]] = [
        ("Restored", str(done.path)),
        ("Size", f"{done.bytes:,} bytes"),
        ("Took", f"{done.seconds:.1f} s"),
        ("Previous database", None if done.kept is None else str(done.kept)),
    ]
    return [Facts(facts), Note("The host can be started again.")]
