"""Whether a command reads the past; without ``--at`` nothing of it is imported."""

from __future__ import annotations

from lcm_tui.cli.answer import Run
from lcm_tui.cli.options import PastOptions, Selector


def run_at(run: Run, named: Selector, past: PastOptions) -> Run:
    """The run over the database as it was at the point; the same one where none was given.

    Raises:
        UsageError: what was typed is no point.
        NotFoundError: no conversation has that session key.
    """
    if past.at is None:
        return run
    from lcm_tui.cli.past import run_over

    return run_over(run, named, past.at)
