"""``status``: what a database holds, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_tui.cli.declaring import command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command("status", examples=("status", "status --db copy.db --json"))
def status(run: Run) -> Answer:
    """Show what the database holds: counts, tokens, times, and which engine wrote it."""
    from lcm_tui.cli import status

    return status.status(run)
