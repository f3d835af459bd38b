"""What the list and the text have in common: keys that move, and scrolling that is done at once."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView

from lcm_tui.widgets.drawn import Drawn


class Scroller(Drawn, ScrollView, can_focus=True):
    """A widget that draws the lines in sight; what the moving keys mean is for the subclass to say."""

    BINDING_GROUP_TITLE = "Moving"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="up"),
        Binding("down,j", "move(1)", "Down", show=False, id="down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="page-up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="page-down"),
        Binding("home,g", "first", "First", show=False, id="first"),
        Binding("end,G", "last", "Last", show=False, id="last"),
        Binding("left,h", "side(-1)", "Fold", show=False, id="fold"),
        Binding("right,l", "side(1)", "Unfold", show=False, id="unfold"),
    ]
    DEFAULT_CSS = """
    Scroller {
        height: 1fr; width: 1fr; background: $background; scrollbar-size-vertical: 1;
        overflow-x: hidden; overflow-y: scroll;
    }
    """

    def action_move(self, step: int) -> None:
        """Move by one."""

    def action_page(self, direction: int) -> None:
        """Move by what fits on the screen."""

    def action_first(self) -> None:
        """Go to the start."""

    def action_last(self) -> None:
        """Go to the end."""

    def action_side(self, side: int) -> None:
        """Fold or unfold."""

    @property
    def _top(self) -> int:
        """The first line in sight."""
        return self.scroll_offset.y

    @property
    def _height(self) -> int:
        """The lines in sight; 1 before there is a place on the screen."""
        return max(self.size.height, 1)

    @property
    def _width(self) -> int:
        """Cells of a line."""
        return self.scrollable_content_region.width

    @property
    def _bottom(self) -> int:
        """The first line in sight when the end is."""
        return max(0, self.virtual_size.height - self._height)

    def _hold(self, lines: int) -> None:
        """Say how many lines there are; the scroll bar follows, the layout of the screen need not."""
        size = Size(self._width, lines)
        if size != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, size)
            self._scroll_update(size)
            self.refresh()

    def _show_from(self, line: int) -> None:
        self.scroll_to(y=max(0, min(line, self._bottom)), animate=False, immediate=True, force=True)
