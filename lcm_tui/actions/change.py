"""Going through a change that is shown."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from lcm_tui.commands import Action
from lcm_tui.dialogs.whole import WholeScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.change import ChangePane

#: What the other view of a change is.
OTHER_VIEW: Final = MappingProxyType(
    {"other-view": ("Diff", "Show the rows before and after as a diff, or what was in front before.")}
)


def change_actions(screen: CommandScreen, view: ChangePane) -> tuple[Action, ...]:
    """Look at a line whole, and go from ordinals to edits and SQL."""

    async def open_line() -> None:
        document = await view.whole()
        if document is not None:
            screen.app.push_screen(WholeScreen(document))

    def turn() -> None:
        view.turn()
        screen.refresh_bars()

    return (
        Action("open", open_line, view.why_not_open),
        Action("pane", view.next_pane),
        Action("other-view", turn),
    )
