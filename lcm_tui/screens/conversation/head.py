"""The lines above a conversation: how it grew, how far the engine is, and which others its session has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from lcm_core.records import Conversation
from lcm_core.store.growth import Growth
from lcm_core.times import format_local
from textual import events
from textual.message import Message
from textual.strip import Strip

from lcm_tui.views.growth import growth_line, seq_at
from lcm_tui.views.ingesting import ingestion_line
from lcm_tui.views.session_chain import chain_line
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of

if TYPE_CHECKING:  # the host is looked at behind the messages
    from lcm_core.host.ingestion import Ingestion


class SessionLines(Drawn):
    """How it grew, and two lines more at most; a click on a bar goes to the messages of that time."""

    DEFAULT_CSS = """
    SessionLines { height: 1; width: 1fr; background: $surface; }
    """

    class Clicked(Message):
        """A bar was clicked."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq  #: of the first message of its time

    def __init__(self, zone: Callable[[], tzinfo | None]) -> None:
        super().__init__(id="session-lines")
        self._zone = zone
        self._ingestion: Line = ()
        self._chain: Line = ()
        self._growth: Growth | None = None
        self._grown = False  #: how it grew has been read

    def show_growth(self, growth: Growth | None) -> None:
        """Say how it grew; None: it has hardly begun."""
        self._grown, self._growth = True, growth
        self.refresh()

    async def _on_click(self, event: events.Click) -> None:
        seq = seq_at(self._growth, event.x, self.size.width) if event.y == 0 and self._growth else None
        if seq is not None:
            self.post_message(self.Clicked(seq))

    def show_ingestion(self, found: Ingestion | None) -> None:
        """Say how far the engine is; None: the host's databases have no session of this conversation."""
        self._ingestion = () if found is None else ingestion_line(found, self._moment)
        self._draw_again()

    def show_chain(self, conversation: Conversation, chain: Sequence[Conversation], merge_key: str) -> None:
        """Say what comes before and behind the conversation in its session."""
        self._chain = chain_line(conversation, chain, merge_key)
        self._draw_again()

    def _draw_again(self) -> None:
        self.styles.height = len(self._lines)
        self.refresh()

    @property
    def _lines(self) -> list[Line]:
        growth = growth_line(self._growth, self.size.width, self._zone(), read=self._grown)
        return [growth, *(line for line in (self._ingestion, self._chain) if line)]

    def _moment(self, moment: datetime | None) -> str:
        return "–" if moment is None else format_local(moment, self._zone())[5:16]

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        lines = self._lines
        return strip_of(lines[y] if y < len(lines) else (), self.style_of, self.size.width)
