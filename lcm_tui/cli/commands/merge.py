"""``merge``: sessions that a rollover split, listed, and made one conversation again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

ConversationArguments: TypeAlias = Annotated[
    tuple[ConversationId, ...],
    Argument(
        "CONVERSATION_ID",
        "Any conversation of the session; several conversations merge several sessions. Without one: list "
        "split sessions.",
        options.CONVERSATION,
        several=True,
    ),
]
AssumeRollover: TypeAlias = Annotated[
    bool, Option("--assume-rollover", "Treat the split as a rollover when the cause was not recorded.")
]


@command("merge", examples=("merge", "merge 8 --apply"))
def merge(
    run: Run,
    *,
    conversations: ConversationArguments = (),
    assume_rollover: AssumeRollover = False,
    budget: options.Budget = None,
    flags: options.SqlFlags,
) -> Answer:
    """Rejoin a session that a rollover split into several conversations (previews unless --apply)."""
    from lcm_tui.cli import merge

    return merge.merge(run, conversations, flags, assume_rollover=assume_rollover, budget=budget)
