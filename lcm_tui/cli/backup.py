"""``backup``: the whole database to a file."""

from __future__ import annotations

from pathlib import Path

from lcm_core.base.errors import ExitCode
from lcm_core.base.values import replace, to_json
from lcm_core.change.backup import (
    OFFER_BYTES,
    Backup,
    check_target,
    default_target,
    estimate_backup,
    make_backup,
)
from lcm_core.store.opening import Access

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.progress import CopyMeter
from lcm_tui.cli.working import ask, can_ask, interruptible
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    Note,
    OutputBlock,
    OutputColumn,
    Table,
    bytes_text,
    seconds_text,
)

#: A copy that takes longer is begun only when somebody at the terminal agrees.
LONG_SECONDS = 10.0
_HOW = {
    Access.IMMUTABLE: "as a file at rest; no lock and no extra files",
    Access.READ_ONLY: "in one read transaction, while others may write",
    Access.COPY: "through a private copy, because its WAL cannot be read in place",
}


@command("backup", examples=("backup --to lcm-backup.db",))
@option(
    "--to",
    FilePath(),
    "PATH",
    "The file or folder for the copy (default: next to the database, named by the time).",
)
@flag("--quick-check", "Read the copy again and check every page.", into="check")
@flag("--force", "Replace an existing file.")
@flag("--yes", "Do not ask for confirmation.")
def backup(run: Run, *, to: Path | None, check: bool, force: bool, yes: bool) -> Answer:
    """Copy one consistent state of the database, also while a host writes to it."""
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
    data = {**to_json(made), "estimatedSeconds": round(estimate.seconds, 3)}
    told = run.answer("backup", data, _blocks(made))
    return replace(told, exit_code=ExitCode.FINDINGS) if made.problems else told


def _target(database: Path, to: Path | None) -> Path:
    if to is None:
        return default_target(database)
    return to / default_target(database).name if to.is_dir() else to


def _blocks(made: Backup) -> list[OutputBlock]:
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
