"""Going through a change that is shown."""

from __future__ import annotations

from lcm_tui.commands import Action
from lcm_tui.dialogs.whole import WholeScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.change import ChangePane


def change_actions(screen: CommandScreen, view: ChangePane) -> tuple[Action, ...]:
    """Look at a line whole, and go from ordinals to edits and SQL."""

    async def open_line() -> None:
        document = await view.whole()
        if document is not None:
            screen.app.push_screen(WholeScreen(document))

    return (Action("open", open_line, view.why_not_open), Action("pane", view.next_pane))
