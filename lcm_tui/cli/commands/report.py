"""``report``: what a bug report needs, and nothing of what the database, the log or the settings say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import FilePath

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

To: TypeAlias = Annotated[
    Path | None,
    Option("--to", "The output file (default: a new file in this folder).", FilePath(text=True), "PATH"),
]


@command("report")
def report(run: Run, *, to: To = None) -> Answer:
    """Write a bug report: versions, schema, counts, masked settings, errors; no content."""
    from lcm_tui.cli import report

    return report.report(run, to)
