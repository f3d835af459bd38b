"""``migrate``: an old database to the present schema, after a backup."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import ChangeFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

BackupTo: TypeAlias = Annotated[
    Path | None,
    Option(
        "--backup-to", "The path of the backup (default: next to the database).", FilePath(text=True), "PATH"
    ),
]


@command("migrate", examples=("migrate", "migrate --backup-to /backups/before.db --apply"))
def migrate(run: Run, *, flags: ChangeFlags, backup_to: BackupTo = None) -> Answer:
    """Migrate an old database to the engine's current schema, after a backup (previews unless --apply)."""
    from lcm_tui.cli import migrate

    return migrate.migrate_(run, flags, backup_to)
