"""``status``: what a database holds, on one page, and whether its engine keeps up with the host."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, Outcome, command
from lcm_tui.cli.kinds import Lag
from lcm_tui.cli.options import Watch

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Run

FailOn: TypeAlias = Annotated[
    timedelta | None,
    Option(
        "--fail-on",
        "Exit with code 6 if the engine has been behind its host for this long.",
        Lag(),
        "behind=N[smhdw]",
    ),
]


@command(
    "status",
    examples=(
        "status",
        "status --db copy.db --json",
        "status --fail-on behind=5m",
        "status --watch 10 --fail-on behind=5m --quiet",
    ),
)
def status(run: Run, *, fail_on: FailOn = None, watch: Watch = None) -> Outcome:
    """Show the contents of the database, its engine version, and whether the engine keeps up with its
    host."""
    from lcm_tui.cli import status

    if watch is None:
        return status.status(run, fail_on)
    from lcm_tui.cli.watching import watched

    return watched(run, lambda: status.status(run, fail_on), watch, ends=fail_on is not None)
