"""``compact``: the passes that the engine would make, forecast without a call, and made when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.kinds import ConversationName, Tokens

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command("compact", examples=("compact 1", "compact 1 --leaf --apply", "compact 1 --until-under 40k"))
@options.needed_conversation
@flag("--leaf", "Create one leaf, then condense as the engine does.")
@option("--until-under", Tokens(), "TOKENS", "Repeat sweeps until the context has at most this size.")
@flag("--single-root", "Condense to one summary before the fresh tail.")
@options.budget
@options.engine_settings
@flag("--if-due", "Only if the engine itself would compact now.")
@flag(
    "--current-turn",
    "Also finished tool calls of the current turn, as the engine does after an overflow (1.1 on).",
)
@flag("--no-fallback", "Stop if no model gave a shorter text; never truncate.")
@options.rule_set
@options.model_options
@options.change_flags
def compact(
    run: Run,
    *,
    conversation: ConversationName,
    leaf: bool,
    until_under: int | None,
    single_root: bool,
    budget: int | None,
    given: tuple[tuple[str, int], ...],
    if_due: bool,
    current_turn: bool,
    no_fallback: bool,
    rules: str | None,
    model: options.ModelOptions,
    flags: options.ChangeFlags,
) -> Answer:
    """Compact a conversation pass by pass, as its engine would (previews unless --apply).

    By default it creates leaves until only the fresh tail is raw, then condenses. There is no --sql: each
    pass needs the text of the previous one.
    """
    if sum([leaf, until_under is not None, single_root]) > 1:
        raise UsageError(
            "--leaf, --until-under and --single-root exclude each other.", details={"option": "leaf"}
        )
    if if_due and (single_root or until_under is not None):
        raise UsageError(
            "--if-due excludes --until-under and --single-root: the engine runs neither.",
            details={"option": "if-due"},
        )
    if current_turn and (leaf or single_root or if_due):
        raise UsageError(
            "--current-turn excludes --leaf, --single-root and --if-due: the engine does it in no other way.",
            details={"option": "current-turn"},
        )
    from lcm_core.engine.rules import configured
    from lcm_core.operations.selection import Mode

    from lcm_tui.cli.compacting import compact_conversation
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
    settings, tokens = dict(given), budget_for(run.settings, budget)
    tail, chunk = settings.pop("freshTailCount", None), settings.pop("leafChunkTokens", None)
    wish = CompactionWish(
        *(mode, tokens, until_under, tail, chunk, rules, if_due, current_turn),
        adjust=lambda rules: configured(rules, options.set_settings(settings)),
    )
    rule = Rule.NO_FALLBACK if no_fallback else Rule.ACCEPT
    writer = modelling(run, model, unasked=flags.apply and flags.yes)
    return compact_conversation(run, conversation, wish, writer, flags, rule)
