"""``compact``: the passes that the engine would make, forecast without a call, and made when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import Tokens

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

Leaf: TypeAlias = Annotated[bool, Option("--leaf", "Create one leaf, then condense as the engine does.")]
Sweep: TypeAlias = Annotated[
    bool, Option("--sweep", "Create leaves until only the fresh tail is raw, then condense (default).")
]
UntilUnder: TypeAlias = Annotated[
    int | None,
    Option("--until-under", "Repeat sweeps until the context has at most this size.", Tokens(), "TOKENS"),
]
SingleRoot: TypeAlias = Annotated[
    bool, Option("--single-root", "Condense to one summary before the fresh tail.")
]
IfDue: TypeAlias = Annotated[bool, Option("--if-due", "Only if the engine itself would compact now.")]
CurrentTurn: TypeAlias = Annotated[
    bool,
    Option(
        "--current-turn",
        "Also finished tool calls of the current turn, as the engine does after an overflow (1.1 on).",
    ),
]
NoFallback: TypeAlias = Annotated[
    bool, Option("--no-fallback", "Stop if no model gave a shorter text; never truncate.")
]
NoSql: TypeAlias = Annotated[bool, Option("--sql", "", hidden=True)]


@command("compact", examples=("compact 1", "compact 1 --leaf --apply", "compact 1 --until-under 40k"))
def compact(
    run: Run,
    *,
    conversation: options.NeededConversation,
    leaf: Leaf = False,
    sweep: Sweep = False,
    until_under: UntilUnder = None,
    single_root: SingleRoot = False,
    budget: options.Budget = None,
    tail: options.Tail = None,
    chunk: options.Chunk = None,
    if_due: IfDue = False,
    current_turn: CurrentTurn = False,
    no_fallback: NoFallback = False,
    rules: options.RuleSet = None,
    sql: NoSql = False,
    model: options.ModelOptions,
    flags: options.ChangeFlags,
) -> Answer:
    """Compact a conversation pass by pass, as its engine would (previews unless --apply)."""
    if sql:
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
    from lcm_core.operations.compaction.sweep import Mode, operation_of

    from lcm_tui.cli.compact import CompactWork
    from lcm_tui.cli.modelling import modelling
    from lcm_tui.session import budget_for

    asked = (
        (leaf, Mode.LEAF),
        (single_root, Mode.SINGLE_ROOT),
        (until_under is not None, Mode.UNTIL_UNDER),
        (True, Mode.SWEEP),
    )
    mode = next(mode for named, mode in asked if named)
    work = CompactWork(
        run,
        named,
        mode.value,
        operation_of(mode, target=until_under, if_due=if_due),
        modelling(run, model),
        budget_for(run.settings, budget),
        tail,
        chunk,
        no_fallback,
        rules=rules,
        target=until_under,
        current_turn=current_turn,
    )
    shown = work.forecast()
    if not flags.apply or not shown.forecast.passes:
        return work.planned(shown)
    return work.apply(shown, agreed=flags.yes)
