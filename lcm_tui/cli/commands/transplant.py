"""``transplant``: what one conversation remembers, copied to the front of another one's context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

SourceArgument: TypeAlias = Annotated[
    ConversationId,
    Argument("SOURCE", "The conversation to copy from; it does not change.", options.CONVERSATION),
]
TargetArgument: TypeAlias = Annotated[
    ConversationId, Argument("TARGET", "The conversation to copy into.", options.CONVERSATION)
]
SkipDuplicates: TypeAlias = Annotated[
    bool, Option("--skip-duplicates", "Skip summaries whose text the target already has.")
]


@command("transplant", examples=("transplant 5 8 --skip-duplicates",))
def transplant(
    run: Run,
    *,
    source: SourceArgument,
    target: TargetArgument,
    skip_duplicates: SkipDuplicates = False,
    budget: options.Budget = None,
    flags: options.SqlFlags,
) -> Answer:
    """Copy the summaries of a context to the front of another context (previews unless --apply)."""
    from lcm_tui.cli import transplant

    return transplant.transplant(run, source, target, flags, skip_duplicates=skip_duplicates, budget=budget)
