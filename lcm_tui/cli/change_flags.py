"""The options of the commands that change something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer
from lcm_core.errors import UsageError

Apply: TypeAlias = Annotated[bool, typer.Option("--apply", metavar="", help="Do it, after asking.")]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Only show what would happen; so without --apply.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", metavar="", help="Agree without being asked.")]
Sql: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--sql", metavar="", help="Print the SQL it stands for, and nothing else on standard output."
    ),
]


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """The options that every changing command takes.

    Raises:
        UsageError: two of them exclude each other.
    """

    dry_run: DryRun = False
    apply: Apply = False
    yes: Yes = False
    sql: bool = False  #: an option only where `SqlFlags` are taken

    def __post_init__(self) -> None:
        """Refuse what excludes each other."""
        if self.apply and self.dry_run:
            raise UsageError("--apply and --dry-run exclude each other.", details={"option": "apply"})


@dataclass(frozen=True, slots=True)
class SqlFlags(ChangeFlags):
    """The same of a command that can show its SQL."""

    sql: Sql = False
