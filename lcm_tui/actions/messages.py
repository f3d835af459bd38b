"""Opening and folding messages."""

from __future__ import annotations

from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.messages import MessagesPane


def message_actions(screen: CommandScreen, pane: MessagesPane) -> tuple[Action, ...]:
    """What both a conversation and a transcript offer for the selected message."""
    return (
        Action("open", pane.toggle_selected, pane.why_none),
        Action("fold-all", pane.fold_all),
        Action("copy-id", screen.action_copy_id, pane.why_none),
    )
