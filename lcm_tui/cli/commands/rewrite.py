"""``rewrite``: other texts for summaries, drafted from their true sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.drafting_options import DraftFlags
from lcm_tui.cli.kinds import Text

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

All: TypeAlias = Annotated[bool, Option("--all", "Every summary of the conversation.")]
Stale: TypeAlias = Annotated[
    bool, Option("--stale", "Summaries made from a text that was rewritten since, and everything above them.")
]
Restore: TypeAlias = Annotated[
    str | None,
    Option("--restore", "Restore the text of one summary from before a rewrite.", Text(), "OPERATION"),
]
Subtree: TypeAlias = Annotated[bool, Option("--subtree", "Also everything below, sources first.")]


@command(
    "rewrite",
    examples=(
        "rewrite sum_4c4b",
        "rewrite 1 --depth 0 --draft drafts.json",
        "rewrite --resume --apply",
    ),
)
def rewrite(
    run: Run,
    *,
    target: options.SummaryOptions,
    depth: options.Depth = None,
    all_: All = False,
    stale: Stale = False,
    subtree: Subtree = False,
    restore: Restore = None,
    flags: DraftFlags,
) -> Answer:
    """Draft new texts for summaries from their sources (no call without --apply or --draft)."""
    if restore is not None:
        if target.given or depth is not None or all_ or stale or flags.resume:
            raise UsageError(
                "--restore cannot be combined with other selections.", details={"option": "restore"}
            )
        from lcm_tui.cli.rewrite import restore_text

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
    from lcm_tui.cli.drafting import run_drafts
    from lcm_tui.cli.rewrite import Chosen

    return run_drafts(run, "rewrite", Chosen(named, target.summaries, depth, stale, subtree).select, flags)
