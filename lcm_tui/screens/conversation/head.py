"""The lines above a conversation: how far the engine is with its session, and which others that has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from lcm_core.records import Conversation
from lcm_core.times import format_local
from textual.strip import Strip

from lcm_tui.views.ingesting import ingestion_line
from lcm_tui.views.session_chain import chain_line
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of

if TYPE_CHECKING:  # the host is looked at behind the messages
    from lcm_core.host.ingestion import Ingestion


class SessionLines(Drawn):
    """Two lines at most; none while there is nothing to say."""

    DEFAULT_CSS = """
    SessionLines { height: 1; width: 1fr; background: $surface; display: none; }
    """

    def __init__(self, zone: Callable[[], tzinfo | None]) -> None:
        super().__init__(id="session-lines")
        self._zone = zone
        self._ingestion: Line = ()
        self._chain: Line = ()

    def show_ingestion(self, found: Ingestion | None) -> None:
        """Say how far the engine is; None: the host's databases have no session of this conversation."""
        self._ingestion = () if found is None else ingestion_line(found, self._moment)
        self._draw_again()

    def show_chain(self, conversation: Conversation, chain: Sequence[Conversation], merge_key: str) -> None:
        """Say what comes before and behind the conversation in its session."""
        self._chain = chain_line(conversation, chain, merge_key)
        self._draw_again()

    def _draw_again(self) -> None:
        lines = self._lines
        self.display = bool(lines)
        self.styles.height = max(1, len(lines))
        self.refresh()

    @property
    def _lines(self) -> list[Line]:
        return [line for line in (self._ingestion, self._chain) if line]

    def _moment(self, moment: datetime | None) -> str:
        return "–" if moment is None else format_local(moment, self._zone())[5:16]

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        lines = self._lines
        return strip_of(lines[y] if y < len(lines) else (), self.style_of, self.size.width)
