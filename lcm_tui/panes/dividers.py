"""The keys that move the divider of a screen's two panes."""

from __future__ import annotations

from textual.screen import Screen

from lcm_tui.commands import Action
from lcm_tui.widgets.two_panes import TwoPanes


def divider_actions(screen: Screen[None]) -> tuple[Action, Action]:
    """Move it left or up, and right or down; a screen with one pane says so."""

    def move(step: int) -> None:
        for panes in screen.query(TwoPanes):
            panes.move(step)

    def why_not() -> str | None:
        panes = next(iter(screen.query(TwoPanes)), None)
        return "this screen has one pane" if panes is None else panes.why_not_move()

    return (
        Action("divider-back", lambda: move(-1), why_not),
        Action("divider-on", lambda: move(1), why_not),
    )
