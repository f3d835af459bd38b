"""The line above a conversation that says whether the engine keeps up with its host."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from lcm_core.times import format_local
from textual.strip import Strip

from lcm_tui.views.ingesting import ingestion_line
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of

if TYPE_CHECKING:  # the host is looked at behind the messages
    from lcm_core.host.ingestion import Ingestion


class IngestionLine(Drawn):
    """One line; it is not there while there is nothing to compare."""

    DEFAULT_CSS = """
    IngestionLine { height: 1; width: 1fr; background: $surface; display: none; }
    """

    def __init__(self, zone: Callable[[], tzinfo | None]) -> None:
        super().__init__(id="ingestion")
        self._zone = zone
        self._said: Line = ()

    def show(self, found: Ingestion | None) -> None:
        """Say how far the engine is; None: the host's databases have no session of this conversation."""
        said = () if found is None else ingestion_line(found, self._moment)
        if said != self._said:
            self._said = said
            self.display = bool(said)
            self.refresh()

    def _moment(self, moment: datetime | None) -> str:
        return "–" if moment is None else format_local(moment, self._zone())[5:16]

    def render_line(self, y: int) -> Strip:
        """The line."""
        return strip_of(self._said if y == 0 else (), self.style_of, self.size.width)
