"""``engine``: what the 1.x engine has prepared, what is stuck, and what it owes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import Moment, Stamp

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

At: TypeAlias = Annotated[
    Stamp | None,
    Option("--at", "Time for ages and leases (default: now).", Moment(), "TIME"),
]
ShowPrepared: TypeAlias = Annotated[
    bool,
    Option(
        "--show-prepared", "Also show the prepared texts of one conversation; no model has received them."
    ),
]
CloseDebt: TypeAlias = Annotated[
    bool,
    Option(
        "--close-debt",
        "Close the compaction debt of an ended conversation, which no engine pays. Makes a backup first.",
    ),
]


@command("engine", examples=("engine", "engine 3 --show-prepared", "engine 4 --close-debt --apply"))
def engine(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    at: At = None,
    show_prepared: ShowPrepared = False,
    close_debt: CloseDebt = False,
    flags: options.SqlFlags,
) -> Answer:
    """Show prepared compactions and compaction debt; conversations that need attention come first."""
    from lcm_tui.cli import engine

    named = conversation.selector("engine", needed=close_debt)
    if close_debt:
        return engine.close_debt(run, named, flags)
    if flags.apply:
        raise UsageError("engine --apply requires --close-debt.", details={"option": "apply"})
    if show_prepared and not named.given:
        raise UsageError(
            f"--show-prepared needs a conversation: {options.by_what('engine')}.",
            details={"option": "show-prepared"},
        )
    when = None if at is None else at.moment(run.clock)
    return engine.engine(run, named, when, show_prepared=show_prepared)
