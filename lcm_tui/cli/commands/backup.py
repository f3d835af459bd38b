"""``backup``: the whole database to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import FilePath

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

To: TypeAlias = Annotated[
    Path | None,
    Option(
        "--to",
        "The file or folder for the copy (default: next to the database, named by the time).",
        FilePath(),
        "PATH",
    ),
]
Check: TypeAlias = Annotated[bool, Option("--quick-check", "Read the copy again and check every page.")]
Force: TypeAlias = Annotated[bool, Option("--force", "Replace an existing file.")]
Yes: TypeAlias = Annotated[bool, Option("--yes", "Do not ask for confirmation.")]


@command("backup", examples=("backup --to /backups",))
def backup(
    run: Run, *, to: To = None, check: Check = False, force: Force = False, yes: Yes = False
) -> Answer:
    """Copy one consistent state of the database, also while a host writes to it."""
    from lcm_tui.cli import backup

    return backup.backup(run, to, check=check, force=force, yes=yes)
