"""``messages list`` and ``messages tail``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import Choice, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

ROLES = Choice("system", "user", "assistant", "tool")

Roles: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--role",
        f"Only this role ({', '.join(ROLES.words)}); may be given several times.",
        ROLES,
        "ROLE",
        several=True,
        section=options.FILTERS,
    ),
]
Count: TypeAlias = Annotated[
    int | None,
    Option(
        "--count",
        "Number of messages (default: the fresh tail as configured for the engine).",
        WholeNumber(1, options.MAX_LIMIT),
        "1..500",
    ),
]


@command("messages list", examples=("messages list --session-key agent:main:main --role user --limit 20",))
def list_(
    run: Run,
    *,
    conversation: options.NeededConversation,
    paged: options.PageOptions,
    role: Roles = (),
    include_content: options.IncludeContent = False,
    times: options.TimeOptions,
) -> Answer:
    """List the messages of a conversation, newest first."""
    from lcm_tui.cli import messages

    named = conversation.selector("messages.list")
    window = options.window(run, "messages", paged, times, as_engine=True)
    return messages.list_(run, named, window, tuple(dict.fromkeys(role)), include_content=include_content)


@command("messages tail", examples=("messages tail 1",))
def tail(run: Run, *, conversation: options.NeededConversation, count: Count = None) -> Answer:
    """Show the fresh tail: the newest messages of the context, which compaction does not touch."""
    from lcm_tui.cli import messages

    return messages.tail(run, conversation.selector("messages.tail"), count)
