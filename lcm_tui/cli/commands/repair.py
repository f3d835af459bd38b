"""``rewrite``, ``repair`` and ``compact``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import Moment, Stamp, Text, Tokens, WholeNumber, Words
from lcm_tui.cli.options import DraftFlags

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


# -- rewrite --------------------------------------------------------------------------------------------
# ``rewrite``: other texts for summaries, drafted from their true sources.


@command(
    "rewrite",
    examples=(
        "rewrite sum_4c4b",
        "rewrite 1 --depth 0 --draft drafts.json",
        "rewrite --resume --apply",
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


# -- repair ---------------------------------------------------------------------------------------------
# ``repair``: every summary that is none gets a text made from its true sources.

#: What can be wrong with the text of a summary: `repair.BadKind`.
BAD_KINDS: Final = Words(
    *("old", "fallback", "truncated", "emergency", "empty", "error", "copy"),
    *("capped", "reasoning", "refusal", "wordless"),
)


@command(
    "repair",
    examples=("repair 3", "repair --all --kinds fallback,truncated", "repair 3 --apply --accept every"),
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
    from lcm_tui.cli.drafting import Search, run_drafts

    made = None if since is None else since.moment(run.clock)
    search = Search.of(named, target.summaries, kinds, made, limit, contaminated=contaminated)
    return run_drafts(run, "repair", search.select, flags)


# -- compact --------------------------------------------------------------------------------------------
# ``compact``: the passes that the engine would make, forecast without a call, and made when asked.


@command("compact", examples=("compact 1", "compact 1 --leaf --apply", "compact 1 --until-under 40k"))
@options.needed_conversation
@click.option("--leaf", is_flag=True, help="Create one leaf, then condense as the engine does.")
@click.option(
    "--sweep", is_flag=True, help="Create leaves until only the fresh tail is raw, then condense (default)."
)
@click.option(
    "--until-under",
    type=Tokens(),
    metavar="TOKENS",
    help="Repeat sweeps until the context has at most this size.",
)
@click.option("--single-root", is_flag=True, help="Condense to one summary before the fresh tail.")
@options.budget
@options.tail
@options.chunk
@click.option("--if-due", is_flag=True, help="Only if the engine itself would compact now.")
@click.option(
    "--current-turn",
    is_flag=True,
    help="Also finished tool calls of the current turn, as the engine does after an overflow (1.1 on).",
)
@click.option("--no-fallback", is_flag=True, help="Stop if no model gave a shorter text; never truncate.")
@options.rule_set
@click.option("--sql", "as_sql", is_flag=True, hidden=True)
@options.model_options
@options.change_flags
def compact(
    run: Run,
    *,
    conversation: options.NeededConversation,
    leaf: bool,
    sweep: bool,
    until_under: int | None,
    single_root: bool,
    budget: int | None,
    tail: int | None,
    chunk: int | None,
    if_due: bool,
    current_turn: bool,
    no_fallback: bool,
    rules: str | None,
    as_sql: bool,
    model: options.ModelOptions,
    flags: options.ChangeFlags,
) -> Answer:
    """Compact a conversation pass by pass, as its engine would (previews unless --apply)."""
    if as_sql:
        raise UsageError(
            "compact has no --sql: each pass needs the text of the previous one. --apply runs the passes, "
            "and `history undo --batch` undoes them.",
            details={"option": "sql"},
        )
    if sum([leaf, sweep, until_under is not None, single_root]) > 1:
        raise UsageError(
            "--leaf, --sweep, --until-under and --single-root exclude each other.",
            details={"option": "sweep"},
        )
    if if_due and (single_root or until_under is not None):
        raise UsageError(
            "--if-due requires --leaf or --sweep: the engine runs nothing else.",
            details={"option": "if-due"},
        )
    if current_turn and (leaf or single_root or if_due):
        raise UsageError(
            "--current-turn requires a forced --sweep or --until-under: the engine does it in no other way.",
            details={"option": "current-turn"},
        )
    named = conversation.selector("compact")
    from lcm_core.operations.selection import Mode

    from lcm_tui.cli import compact
    from lcm_tui.cli.drafts import modelling
    from lcm_tui.flows.compaction import CompactionWish, Rule
    from lcm_tui.kit.session import budget_for

    asked = (
        (leaf, Mode.LEAF),
        (single_root, Mode.SINGLE_ROOT),
        (until_under is not None, Mode.UNTIL_UNDER),
        (True, Mode.SWEEP),
    )
    mode = next(mode for named, mode in asked if named)
    wish = CompactionWish(
        mode, budget_for(run.settings, budget), until_under, tail, chunk, rules, if_due, current_turn
    )
    rule = Rule.NO_FALLBACK if no_fallback else Rule.ACCEPT
    return compact.compact(run, named, wish, modelling(run, model), flags, rule)
