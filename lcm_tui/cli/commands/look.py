"""``summaries``, ``context`` and ``sessions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_tui.cli import options
from lcm_tui.cli.command import Sectioned, command
from lcm_tui.cli.kinds import (
    Choice,
    WholeNumber,
)

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


# -- summaries ------------------------------------------------------------------------------------------
# ``summaries list``, ``summaries show``, ``summaries previous`` and ``summaries map``.


@command("summaries list", forms=("csv",), examples=("summaries list --conversation-id 1 --kind condensed",))
@options.conversation_options
@options.page_options
@options.depth
@click.option(
    "--kind",
    cls=Sectioned,
    section=options.FILTERS,
    type=Choice("leaf", "condensed"),
    metavar="leaf|condensed",
    help="Only this kind.",
)
@options.include_content
@options.time_options
@options.past_options
def summaries_list(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    depth: int | None,
    kind: str | None,
    include_content: bool,
    times: options.TimeOptions,
    past: options.PastOptions,
) -> Answer:
    """List the summaries of one or all conversations, newest coverage first."""
    from lcm_tui.cli import summaries
    from lcm_tui.cli.working import run_at

    named = conversation.selector("summaries.list", needed=past.at is not None)
    run = run_at(run, named, past)
    filters = summaries.Filters(depth, kind, include_content)
    window = options.window(run, "summaries", paged, times, as_engine=True)
    return summaries.list_(run, named, window, filters)


@command("summaries show", examples=("summaries show sum_4c4bd5292abfa225",))
@options.summary_argument
def summaries_show(run: Run, *, summary_id: str) -> Answer:
    """Show one summary: its text, its sources, and the summaries that use it."""
    from lcm_tui.cli import summaries

    return summaries.show(run, summary_id)


@command("summaries previous", examples=("summaries previous sum_18ef3ddbebbf8c2e --json",))
@options.summary_argument
@options.rule_set
def summaries_previous(run: Run, *, summary_id: str, rules: str | None) -> Answer:
    """Show the previous context a summary was made with, reconstructed, and the one for a rewrite."""
    from lcm_tui.cli import summaries

    return summaries.previous(run, summary_id, rules)


@command("summaries map", examples=("summaries map 1", "summaries map 1 --ascii"))
@options.needed_conversation
@click.option(
    "--width",
    type=WholeNumber(20, 10_000),
    metavar="N",
    help="Cells of a line (default: the terminal's width, else 80).",
)
@click.option("--ascii", "letters", is_flag=True, help="Letters instead of patterns.")
@options.past_options
def map_(
    run: Run,
    *,
    conversation: options.NeededConversation,
    width: int | None,
    letters: bool,
    past: options.PastOptions,
) -> Answer:
    """Draw which summaries cover which messages, by depth, and what the context uses."""
    from lcm_tui.cli import coverage as coverage_map
    from lcm_tui.cli.working import run_at

    named = conversation.selector("summaries.map")
    run = run_at(run, named, past)
    return coverage_map.show(run, named, width, letters=letters)
