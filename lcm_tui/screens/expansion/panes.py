"""The levels below a summary as a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_core.recall.levels import Level

from lcm_tui.panes.listing import ListPane
from lcm_tui.views.expansion import level_text, totals
from lcm_tui.widgets.spans import Column, Span

COLUMNS = (
    Column("level", "level", 5, right=True, keep=90),
    Column("contains", "contains", 20, grows=True, keep=99),
    Column("tokens", "tokens", 11, right=True, keep=98),
    Column("total", "to here", 11, right=True, keep=97),
)


class LevelList(ListPane[int]):
    """A row a level, the summary itself on top."""

    def __init__(self) -> None:
        super().__init__(id="levels")
        self.levels: tuple[Level, ...] = ()
        self._totals: list[int] = []

    def show(self, levels: tuple[Level, ...]) -> None:
        """List what was read; the cursor stays on its level."""
        self.levels, self._totals = levels, totals(levels)
        self.relist()

    @property
    def selected(self) -> Level | None:
        """The level under the cursor."""
        key = self.table.selected
        return self.levels[key] if key is not None and key < len(self.levels) else None

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[int]:
        """All of them: they are few, so nothing filters them."""
        del words
        return range(len(self.levels))

    def why_empty(self) -> str:
        """Nothing was read yet."""
        return self.READING

    def columns(self) -> Sequence[Column]:
        """What is said of a level."""
        return COLUMNS

    def cells(self, key: int) -> Mapping[str, Span]:
        """A level in a line."""
        level = self.levels[key]
        return {
            "level": Span(f"{key:,}"),
            "contains": Span(level_text(level), "warn" if level.missing else "text"),
            "tokens": Span(f"{level.tokens:,}"),
            "total": Span(f"{self._totals[key]:,}", "dim"),
        }
