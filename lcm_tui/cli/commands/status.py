"""``status``: what a database holds, on one page, and whether its engine keeps up with the host."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import Lag

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

FailOn: TypeAlias = Annotated[
    timedelta | None,
    Option(
        "--fail-on",
        "Exit with 6 when the engine has lagged behind its host for so long.",
        Lag(),
        "behind=N[smhdw]",
    ),
]


@command("status", examples=("status", "status --db copy.db --json", "status --fail-on behind=5m"))
def status(run: Run, *, fail_on: FailOn = None) -> Answer:
    """Show what the database holds, which engine wrote it, and whether that keeps up with its host."""
    from lcm_tui.cli import status

    return status.status(run, fail_on)
