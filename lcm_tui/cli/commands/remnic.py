"""``remnic``: the LCM store of Remnic, filled from a lossless-claw database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import FilePath, StoredText, Text, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

Remnic: TypeAlias = Annotated[
    Path | None,
    Option(
        "--remnic", "Remnic's database, the file state/lcm.sqlite of its memory folder.", FilePath(), "PATH"
    ),
]
MemoryDir: TypeAlias = Annotated[
    Path | None, Option("--memory-dir", "Remnic's memory folder; instead of --remnic.", FilePath(), "DIR")
]
Src: TypeAlias = Annotated[
    Path | None, Option("--src", "The lossless-claw database; instead of --db.", FilePath(), "PATH")
]
SessionFilter: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--session-filter",
        "Only this session, by its id; may be given several times.",
        StoredText(),
        "ID",
        several=True,
    ),
]
SessionArgument: TypeAlias = Annotated[
    str, Argument("SESSION_ID", "The session, or a unique prefix of its id.", StoredText())
]
Create: TypeAlias = Annotated[bool, Option("--create", "Create the target database if it does not exist.")]
ImportArgument: TypeAlias = Annotated[
    str | None,
    Argument(
        "IMPORT_ID", "The import, or a unique prefix of its id (default: the newest in effect).", Text()
    ),
]
Rows: TypeAlias = Annotated[
    int, Option("--limit", "Maximum rows of each list; 50 by default.", WholeNumber(1, 100_000), "N")
]


@dataclass(frozen=True, slots=True)
class RemnicOptions:
    """Where Remnic's database is."""

    remnic: Remnic = None
    memory_dir: MemoryDir = None

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


@command("remnic list", examples=("remnic list --memory-dir ~/memory",))
def list_(run: Run, *, where: RemnicOptions) -> Answer:
    """List the sessions of Remnic's database, and the imports that can be undone."""
    from lcm_tui.cli import remnic

    return remnic.list_(run, where.path)


@command("remnic show", examples=("remnic show 2b8481de --remnic lcm.sqlite",))
def show(run: Run, *, session_id: SessionArgument, where: RemnicOptions, limit: Rows = 50) -> Answer:
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
def import_(
    run: Run,
    *,
    where: RemnicOptions,
    src: Src = None,
    session_filter: SessionFilter = (),
    create: Create = False,
    flags: options.ChangeFlags,
) -> Answer:
    """Import conversations and summaries into Remnic's database (previews unless --apply)."""
    from lcm_tui.cli import remnic

    return remnic.import_(remnic.of_source(run, src), where.path, session_filter, flags, create=create)


@command("remnic verify", examples=("remnic verify --memory-dir ~/memory",))
def verify(
    run: Run,
    *,
    where: RemnicOptions,
    src: Src = None,
    session_filter: SessionFilter = (),
    limit: Rows = 50,
) -> Answer:
    """Compare Remnic's database with lossless-claw's row by row; exits with code 6 if they differ."""
    from lcm_tui.cli import remnic

    return remnic.verify(remnic.of_source(run, src), where.path, session_filter, limit)


@command("remnic undo", examples=("remnic undo --memory-dir ~/memory --apply",))
def undo(
    run: Run, *, import_id: ImportArgument = None, where: RemnicOptions, flags: options.ChangeFlags
) -> Answer:
    """Undo an import into Remnic's database (previews unless --apply)."""
    from lcm_tui.cli import remnic

    return remnic.undo(run, where.path, import_id, flags)
