"""``restore``: a backup back into the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Argument, command
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import ChangeFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

BackupArgument: TypeAlias = Annotated[
    Path, Argument("BACKUP", "The file that `backup` made, or any copy of an LCM database.", FilePath())
]


@command("restore", examples=("restore /backups/lcm.db", "restore /backups/lcm.db --apply"))
def restore(run: Run, *, backup: BackupArgument, flags: ChangeFlags) -> Answer:
    """Restore a backup and keep a copy of the current database (previews unless --apply)."""
    from lcm_tui.cli.backup import restore_

    return restore_(run, backup, flags)
