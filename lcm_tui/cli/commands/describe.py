"""``describe``: one thing by its id, or a citation of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_tui.cli.commands.expand import IdArgument
from lcm_tui.cli.commands.grep import AsEngine
from lcm_tui.cli.declaring import command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command("describe", examples=("describe m826", "describe sum_4c4bd5292abfa225 --as-engine"))
def describe(run: Run, *, name: IdArgument, as_engine: AsEngine = False) -> Answer:
    """Show one message, summary, focus brief or large file; for a citation, whether it is valid."""
    from lcm_tui.cli import recall

    return recall.engine_describe(run, name) if as_engine else recall.describe(run, name)
