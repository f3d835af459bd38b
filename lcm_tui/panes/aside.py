"""Lists with the text of what is selected beside them, where a screen is wide enough for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.app import ComposeResult
from textual.widget import Widget

from lcm_tui.widgets.panes import Columns, Rows
from lcm_tui.widgets.text import TextView

#: From this width on, the text stands beside the list.
WIDE: Final = 110


class Aside(Columns):
    """What is listed, and the text about what is selected in it, which a narrow screen does without."""

    DEFAULT_CSS = """
    Aside { height: 1fr; }
    Aside > #chosen { width: 3fr; }
    Aside > #text { width: 2fr; border-left: solid $foreground 30%; }
    """

    def __init__(self, *listed: Widget, show_text: Callable[[], None]) -> None:
        """*listed* stands in rows; *show_text* is called once the text has room that it had not before."""
        super().__init__(id="panes")
        self.text = TextView(id="text")
        self._listed = listed
        self._show_text = show_text

    def compose(self) -> ComposeResult:
        """The lists and the text."""
        self.text.display = self._has_room
        yield Rows(*self._listed, id="chosen")
        yield self.text

    def on_resize(self) -> None:
        """Show the text where it has room (a class for that would style the whole screen again)."""
        if self.text.display != self._has_room:
            self.text.display = self._has_room
            self.call_after_refresh(self._show_text)

    @property
    def _has_room(self) -> bool:
        return self.app.size.width >= WIDE
