"""``demo``: the app on a demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, Outcome, command
from lcm_tui.cli.kinds import FilePath

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Run

To: TypeAlias = Annotated[
    Path | None,
    Option(
        "--to",
        "Write the demo database to this folder for trying commands, and do not open the app.",
        FilePath(),
        "DIR",
    ),
]


@command("demo", examples=("demo", "demo --to try"))
def demo(run: Run, *, to: To = None) -> Outcome:
    """Open the app on a copy of a demonstration database; without a terminal, print some of it."""
    from lcm_tui.cli import demo

    return demo.demo(run) if to is None else demo.leave_copy(run, to)
