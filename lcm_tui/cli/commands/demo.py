"""``demo``: the app on a demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_tui.cli.declaring import Outcome, command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Run


@command("demo")
def demo(run: Run) -> Outcome:
    """Open the app on a copy of a demonstration database; without a terminal, print some of it."""
    from lcm_tui.cli import demo

    return demo.demo(run)
