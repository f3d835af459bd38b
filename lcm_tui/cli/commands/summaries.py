"""``summaries list``, ``summaries show``, ``summaries previous`` and ``summaries map``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import Choice, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

SummaryKind: TypeAlias = Annotated[
    str | None,
    Option(
        "--kind", "Only this kind.", Choice("leaf", "condensed"), "leaf|condensed", section=options.FILTERS
    ),
]


@command("summaries list", examples=("summaries list --conversation-id 1 --kind condensed",))
def list_(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    depth: options.Depth = None,
    kind: SummaryKind = None,
    include_content: options.IncludeContent = False,
    times: options.TimeOptions,
    past: options.PastOptions,
) -> Answer:
    """List the summaries of one or all conversations, newest coverage first."""
    from lcm_tui.cli import summaries
    from lcm_tui.cli.past_at import run_at

    named = conversation.selector("summaries.list", needed=past.at is not None)
    run = run_at(run, named, past)
    filters = summaries.Filters(depth, kind, include_content)
    window = options.window(run, "summaries", paged, times, as_engine=True)
    return summaries.list_(run, named, window, filters)


@command("summaries show", examples=("summaries show sum_4c4bd5292abfa225",))
def show(run: Run, *, summary_id: options.SummaryArgument) -> Answer:
    """Show one summary: its text, its sources, and the summaries that use it."""
    from lcm_tui.cli import summaries

    return summaries.show(run, summary_id)


@command("summaries previous", examples=("summaries previous sum_18ef3ddbebbf8c2e --json",))
def previous(run: Run, *, summary_id: options.SummaryArgument, rules: options.RuleSet = None) -> Answer:
    """Show the previous context a summary was made with, reconstructed, and the one for a rewrite."""
    from lcm_tui.cli import summaries

    return summaries.previous(run, summary_id, rules)


Width: TypeAlias = Annotated[
    int | None,
    Option(
        "--width", "Cells of a line (default: the terminal's width, else 80).", WholeNumber(20, 10_000), "N"
    ),
]
Ascii: TypeAlias = Annotated[bool, Option("--ascii", "Letters instead of patterns.")]


@command("summaries map", examples=("summaries map 1", "summaries map 1 --ascii"))
def map_(
    run: Run,
    *,
    conversation: options.NeededConversation,
    width: Width = None,
    letters: Ascii = False,
    past: options.PastOptions,
) -> Answer:
    """Draw which summaries cover which messages, by depth, and what the context uses."""
    from lcm_tui.cli import coverage_map
    from lcm_tui.cli.past_at import run_at

    named = conversation.selector("summaries.map")
    run = run_at(run, named, past)
    return coverage_map.show(run, named, width, letters=letters)
