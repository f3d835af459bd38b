"""``repair``: every summary that is none gets a text made from its true sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import Moment, Stamp, WholeNumber, Words
from lcm_tui.cli.options import DraftFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

#: What can be wrong with the text of a summary: `repair.BadKind`.
BAD_KINDS: Final = Words(
    *("old", "fallback", "truncated", "emergency", "empty", "error", "copy"),
    *("capped", "reasoning", "refusal", "wordless"),
)


@command(
    "repair",
    examples=("repair", "repair --all --kinds fallback,truncated", "repair 3 --apply --accept every"),
)
@options.summary_options
@click.option("--all", "all_", is_flag=True, help="Check every conversation.")
@click.option(
    "--kinds",
    type=BAD_KINDS,
    metavar="KIND,...",
    help=f"Of {', '.join(BAD_KINDS.words)}; by default all except the last four, which are only suspected.",
)
@click.option("--since", type=Moment(), metavar="TIME", help="Only summaries made since this time.")
@click.option("--limit", type=WholeNumber(1), metavar="N", help="Maximum number of summaries, sources first.")
@click.option("--contaminated", is_flag=True, help="Also summaries made from broken ones.")
@options.draft_flags
def repair(
    run: Run,
    *,
    target: options.SummaryOptions,
    all_: bool,
    kinds: tuple[str, ...] | None,
    since: Stamp | None,
    limit: int | None,
    contaminated: bool,
    flags: DraftFlags,
) -> Answer:
    """Draft new texts for broken summaries from their sources (no call without --apply or --draft).

    Without a conversation or a summary, it shows what is broken in the whole database.
    """
    free = flags.resume or flags.from_drafts is not None
    if (flags.change.apply or flags.draft is not None) and not (free or all_ or target.given):
        raise UsageError(
            f"repair needs a conversation: {options.by_what('repair')}; --all takes every one.",
            code="MISSING_SELECTOR",
            details={"command": "repair"},
        )
    named = target.selector("repair", needed=False)
    if all_ and target.given:
        raise UsageError("--all cannot be used with a conversation or --summary.", details={"option": "all"})
    from lcm_tui.cli.drafting import Search, run_drafts

    made = None if since is None else since.moment(run.clock)
    search = Search.of(named, target.summaries, kinds, made, limit, contaminated=contaminated)
    return run_drafts(run, "repair", search.select, flags)
