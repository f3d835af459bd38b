"""Lists with the text of what is selected beside them, where a screen is wide enough for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.widget import Widget

from lcm_tui.widgets.panes import Rows
from lcm_tui.widgets.text import TextView
from lcm_tui.widgets.two_panes import TwoPanes

#: From this width on, the text stands beside the list.
WIDE: Final = 110


class Aside(TwoPanes):
    """What is listed, and the text about what is selected in it, which a narrow screen does without."""

    def __init__(self, *listed: Widget, show_text: Callable[[], None], beside: int = WIDE) -> None:
        """*listed* is the list; *show_text* is called once the text has room that it had not before.

        *beside*: the width of the terminal, in cells, from which on it has.
        """
        self.text = TextView(id="text")
        super().__init__(Rows(*listed, id="chosen"), self.text, beside=beside, below=False, changed=show_text)
