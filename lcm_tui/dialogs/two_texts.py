"""Two texts over the screen, beside each other where there is room."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import ModalScreen

from lcm_tui.widgets.text import Document, TextView

#: Cells of a terminal in which two texts stand beside each other.
_BESIDE = 100


class TwoTexts(ModalScreen[None]):
    """Two texts; ``tab`` goes from one to the other."""

    DEFAULT_CSS = """
    TwoTexts { align: center middle; }
    TwoTexts > Container { width: 96%; height: 94%; background: $surface; padding: 1 2; layout: vertical; }
    TwoTexts.-beside > Container { layout: horizontal; }
    TwoTexts TextView { background: $surface; width: 1fr; height: 1fr; }
    TwoTexts.-beside #second { margin-left: 2; }
    TwoTexts #second { border-top: solid $primary; }
    TwoTexts.-beside #second { border-top: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", id="two-texts-back"),
    ]

    def __init__(self, first: Document, second: Document) -> None:
        super().__init__()
        self.first = TextView(first, id="first")
        self.second = TextView(second, id="second")

    def compose(self) -> ComposeResult:
        """Both texts."""
        with Container():
            yield self.first
            yield self.second

    def on_resize(self, event: events.Resize) -> None:
        """Beside each other, or one below the other."""
        self.set_class(event.size.width >= _BESIDE, "-beside")

    async def show(self, first: Document, second: Document) -> None:
        """Show others."""
        await self.first.load(first)
        await self.second.load(second)
