"""``rewrite``: other texts for summaries, drafted from their true sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import Text
from lcm_tui.cli.options import DraftFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command(
    "rewrite",
    examples=(
        "rewrite sum_4c4b",
        "rewrite 8 --depth 0 --draft drafts.json",
        "rewrite --from-drafts drafts.json --accept every --apply",
    ),
)
@options.summary_options
@options.depth
@click.option("--all", "all_", is_flag=True, help="Every summary of the conversation.")
@click.option(
    "--stale",
    is_flag=True,
    help="Summaries made from a text that was rewritten since, and everything above them.",
)
@click.option("--subtree", is_flag=True, help="Also everything below, sources first.")
@click.option(
    "--restore",
    type=Text(),
    metavar="OPERATION",
    help="Restore the text of one summary from before a rewrite.",
)
@options.draft_flags
def rewrite(
    run: Run,
    *,
    target: options.SummaryOptions,
    depth: int | None,
    all_: bool,
    stale: bool,
    subtree: bool,
    restore: str | None,
    flags: DraftFlags,
) -> Answer:
    """Draft new texts for summaries from their sources (no call without --apply or --draft)."""
    if restore is not None:
        if target.given or depth is not None or all_ or stale or flags.resume:
            raise UsageError(
                "--restore cannot be combined with other selections.", details={"option": "restore"}
            )
        from lcm_tui.cli.drafting import restore_text

        return restore_text(run, restore, flags.change)
    free = flags.resume or flags.from_drafts is not None
    named = target.selector("rewrite", needed=not free)
    if sum([bool(target.summaries), depth is not None, all_, stale]) != (0 if free else 1):
        raise UsageError(
            "--summary, --depth, --all and --stale cannot be used with --resume or --from-drafts."
            if free
            else "rewrite needs one of --summary ID, --depth N, --all and --stale.",
            details={"option": "summary"},
        )
    from lcm_tui.cli.drafting import Chosen, run_drafts

    return run_drafts(run, "rewrite", Chosen(named, target.summaries, depth, stale, subtree).select, flags)
