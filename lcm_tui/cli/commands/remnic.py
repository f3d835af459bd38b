"""``remnic``: the LCM store of Remnic, filled from a lossless-claw database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from lcm_core.base.errors import UsageError
from lcm_core.base.values import Record

from lcm_tui.cli import options
from lcm_tui.cli.command import command, gather
from lcm_tui.cli.kinds import FilePath, StoredText, Text, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

src = click.option(
    "--src", type=FilePath(), metavar="PATH", help="The lossless-claw database; instead of --db."
)
session_filter = click.option(
    "--session-filter",
    type=StoredText(),
    metavar="ID",
    multiple=True,
    help="Only this session, by its id; may be given several times.",
)
rows = click.option(
    "--limit",
    type=WholeNumber(1, 100_000),
    metavar="N",
    default=50,
    help="Maximum rows of each list; 50 by default.",
)


class RemnicOptions(Record, frozen=True):
    """Where Remnic's database is."""

    remnic: Path | None = None
    memory_dir: Path | None = None

    @property
    def path(self) -> Path:
        """The file.

        Raises:
            UsageError: it is named in two ways, or in none.
        """
        if self.remnic is not None and self.memory_dir is not None:
            raise UsageError("--remnic and --memory-dir exclude each other.", details={"option": "remnic"})
        if self.memory_dir is not None:
            return self.memory_dir / "state" / "lcm.sqlite"
        if self.remnic is None:
            raise UsageError(
                "remnic needs Remnic's database: --remnic PATH or --memory-dir DIR.",
                code="MISSING_SELECTOR",
                details={"option": "remnic"},
            )
        return self.remnic


remnic_options = gather(
    "where",
    RemnicOptions,
    click.option(
        "--remnic",
        type=FilePath(),
        metavar="PATH",
        help="Remnic's database, the file state/lcm.sqlite of its memory folder.",
    ),
    click.option(
        "--memory-dir", type=FilePath(), metavar="DIR", help="Remnic's memory folder; instead of --remnic."
    ),
)


@command("remnic list", examples=("remnic list --memory-dir ~/memory",))
@remnic_options
def list_(run: Run, *, where: RemnicOptions) -> Answer:
    """List the sessions of Remnic's database, and the imports that can be undone."""
    from lcm_tui.cli import remnic

    return remnic.list_(run, where.path)


@command("remnic show", examples=("remnic show 2b8481de --remnic lcm.sqlite",))
@click.argument(
    "session_id", type=StoredText(), metavar="SESSION_ID", help="The session, or a unique prefix of its id."
)
@remnic_options
@rows
def show(run: Run, *, session_id: str, where: RemnicOptions, limit: int) -> Answer:
    """Show the turns and summaries of a session, and their hierarchy."""
    from lcm_tui.cli import remnic

    return remnic.show(run, where.path, session_id, limit)


@command(
    "remnic import",
    examples=(
        "remnic import --memory-dir ~/memory",
        "remnic import --src lcm.db --remnic lcm.sqlite --apply",
    ),
)
@remnic_options
@src
@session_filter
@click.option("--create", is_flag=True, help="Create the target database if it does not exist.")
@options.change_flags
def import_(
    run: Run,
    *,
    where: RemnicOptions,
    src: Path | None,
    session_filter: tuple[str, ...],
    create: bool,
    flags: options.ChangeFlags,
) -> Answer:
    """Import conversations and summaries into Remnic's database (previews unless --apply)."""
    from lcm_tui.cli import remnic

    return remnic.import_(remnic.of_source(run, src), where.path, session_filter, flags, create=create)


@command("remnic verify", examples=("remnic verify --memory-dir ~/memory",))
@remnic_options
@src
@session_filter
@rows
def verify(
    run: Run, *, where: RemnicOptions, src: Path | None, session_filter: tuple[str, ...], limit: int
) -> Answer:
    """Compare Remnic's database with lossless-claw's row by row; exits with code 6 if they differ."""
    from lcm_tui.cli import remnic

    return remnic.verify(remnic.of_source(run, src), where.path, session_filter, limit)


@command("remnic undo", examples=("remnic undo --memory-dir ~/memory --apply",))
@click.argument(
    "import_id",
    type=Text(),
    required=False,
    metavar="[IMPORT_ID]",
    help="The import, or a unique prefix of its id (default: the newest in effect).",
)
@remnic_options
@options.change_flags
def undo(run: Run, *, import_id: str | None, where: RemnicOptions, flags: options.ChangeFlags) -> Answer:
    """Undo an import into Remnic's database (previews unless --apply)."""
    from lcm_tui.cli import remnic

    return remnic.undo(run, where.path, import_id, flags)
