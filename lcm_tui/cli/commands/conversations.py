"""``conversations list`` and ``conversations show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_tui.cli import options
from lcm_tui.cli.declaring import command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


@command("conversations list", examples=("conversations list --recency 7d",))
def list_(run: Run, *, paged: options.PageOptions, times: options.TimeOptions) -> Answer:
    """List all conversations, including archived ones, last updated first."""
    from lcm_tui.cli import conversations

    window = options.window(run, "conversations", paged, times, as_engine=True)
    return conversations.list_(run, window)


@command("conversations show", examples=("conversations show 1",))
def show(run: Run, *, conversation: options.NeededConversation) -> Answer:
    """Show one conversation: its counts, its context, and what the engine records about it."""
    from lcm_tui.cli import conversations

    return conversations.show(run, conversation.selector("conversations.show"))
