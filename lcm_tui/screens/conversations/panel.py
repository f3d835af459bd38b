"""The panel above the list: lines that answer at a glance, each of which leads somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from lcm_tui.views.home import Outlook, PanelKey, conversation_at, panel_columns, panel_keys, panel_line
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line

#: From this size of a terminal on, the panel has two columns.
WIDE: Final = (130, 40)
#: Lines at most, by the height of the terminal: 80x24 has room for what is only on disk below a change.
MOST_LINES: Final = ((30, 7), (24, 6), (0, 5))


class PanelLines(LineView[PanelKey]):
    """Lines that a single click opens."""

    COUNTED: ClassVar[bool] = False
    OPENS_AT_ONCE = True
    DEFAULT_CSS = """
    PanelLines { background: $surface; }
    """


class Panel(Horizontal):
    """One column of lines, or two where there is room."""

    BLANK: ClassVar[bool] = True
    DEFAULT_CSS = """
    Panel { height: 1; }
    """

    def __init__(self, outlook: Outlook) -> None:
        super().__init__(id="panel")
        self.outlook = outlook
        self.lines = PanelLines(self._draw, id="lines")
        self.beside = PanelLines(self._draw, id="beside")
        self._terminal = (80, 24)
        self._clicked: PanelKey | None = None  #: with the conversation in it

    def compose(self) -> ComposeResult:
        """The first column; the other one comes when there is room."""
        yield self.lines

    def on_mount(self) -> None:
        """Say what is known before anything was read."""
        self.fit(*self.app.size)

    def fit(self, width: int, height: int) -> None:
        """Lay the lines out for a terminal of this size."""
        self._terminal = width, height
        self.show(self.outlook)

    def show(self, outlook: Outlook) -> None:
        """Say something else; the cursor stays on its line."""
        changed = outlook != self.outlook
        self.outlook = outlook
        width, height = self._terminal
        left, right = (
            panel_keys(outlook, next(most for least, most in MOST_LINES if height >= least)),
            tuple[PanelKey, ...](),
        )
        if width >= WIDE[0] and height >= WIDE[1]:
            left, right = panel_columns(outlook)
        if right and not self.beside.is_attached:
            self.mount(self.beside)
        self.beside.display = bool(right)
        for view, keys in ((self.lines, left), (self.beside, right)):
            if changed or view.keys != keys:
                view.replace(keys)
        self.styles.height = max(len(left), len(right))

    @property
    def selected(self) -> PanelKey | None:
        """The line that has the keys; None when neither column has them."""
        view = next((view for view in (self.lines, self.beside) if view.has_focus), None)
        return None if view is None else view.selected

    @on(LineView.Opened)
    def _note_where(self, event: LineView.Opened) -> None:
        """Which conversation of a line was clicked, when it names several."""
        key, cell = event.key, event.cell
        if isinstance(key, PanelKey) and key.ref is None and cell is not None:
            number = conversation_at(self.outlook, key, event.view.size.width, cell)
            self._clicked = replace(key, ref=number)

    def take_opened(self) -> PanelKey | None:
        """The line that is opened: with the conversation in it that was clicked."""
        clicked, self._clicked = self._clicked, None
        return clicked or self.selected

    def _draw(self, key: PanelKey, width: int) -> Sequence[Line]:
        keys: Sequence[PanelKey] = self.beside.keys if key in self.beside.keys else self.lines.keys
        at = list(keys).index(key) if key in keys else 0
        repeated = at > 0 and keys[at - 1].subject is key.subject
        return (panel_line(self.outlook, key, width, repeated=repeated),)
