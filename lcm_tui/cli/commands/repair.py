"""``repair``: every summary that is none gets a text made from its true sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.drafting_options import DraftFlags
from lcm_tui.cli.kinds import Moment, Stamp, WholeNumber, Words

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

#: What can be wrong with the text of a summary: `repair.BadKind`.
BAD_KINDS: Final = Words(
    *("old", "fallback", "truncated", "emergency", "empty", "error", "copy"),
    *("capped", "reasoning", "refusal", "wordless"),
)

All: TypeAlias = Annotated[bool, Option("--all", "Check every conversation.")]
BadKinds: TypeAlias = Annotated[
    tuple[str, ...] | None,
    Option(
        "--kinds",
        f"Of {', '.join(BAD_KINDS.words)}; by default all except the last four, which are only suspected.",
        BAD_KINDS,
        "KIND,...",
    ),
]
Since: TypeAlias = Annotated[
    Stamp | None, Option("--since", "Only summaries made since this time.", Moment(), "TIME")
]
Most: TypeAlias = Annotated[
    int | None, Option("--limit", "Maximum number of summaries, sources first.", WholeNumber(1), "N")
]
Contaminated: TypeAlias = Annotated[bool, Option("--contaminated", "Also summaries made from broken ones.")]


@command(
    "repair",
    examples=("repair 3", "repair --all --kinds fallback,truncated", "repair 3 --apply --accept every"),
)
def repair(
    run: Run,
    *,
    target: options.SummaryOptions,
    all_: All = False,
    kinds: BadKinds = None,
    since: Since = None,
    limit: Most = None,
    contaminated: Contaminated = False,
    flags: DraftFlags,
) -> Answer:
    """Draft new texts for broken summaries from their sources (no call without --apply or --draft)."""
    free = flags.resume or flags.from_drafts is not None
    if not (free or all_ or target.given):
        raise UsageError(
            f"repair needs a conversation: {options.by_what('repair')}; --all takes every one.",
            code="MISSING_SELECTOR",
            details={"command": "repair"},
        )
    named = target.selector("repair", needed=not (free or all_))
    if all_ and target.given:
        raise UsageError("--all cannot be used with a conversation or --summary.", details={"option": "all"})
    from lcm_tui.cli.drafting import run_drafts
    from lcm_tui.cli.repair import Search

    made = None if since is None else since.moment(run.clock)
    search = Search.of(named, target.summaries, kinds, made, limit, contaminated=contaminated)
    return run_drafts(run, "repair", search.select, flags)
