"""The rows of the coverage map as a widget: what is in sight, which block is chosen, how the cursor moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from lcm_core.context_view import depth_name
from lcm_core.dag.coverage import Block, Coverage, Scale, beside, beyond, nearest
from lcm_core.records import SummaryId
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from lcm_tui.views.coverage import GUTTER, gutter, level_line
from lcm_tui.widgets.scrolling import Scroller
from lcm_tui.widgets.spans import Span, StyleName, strip_of

#: No fewer messages are in sight, however close it is looked at.
CLOSEST: Final = 8
#: A step of the zoom: so many times as many messages.
ZOOM: Final = 2.0


class CoverageRows(Scroller):
    """A row for each depth; no more cells are drawn than are in sight."""

    class Chosen(Message):
        """Another block is chosen, or other messages are in sight."""

    moves = (
        (("up", "down"), "what was made from this summary, its sources"),
        (("fold", "unfold"), "the summary before it, the one after it, in the same row"),
        (("page-up", "page-down"), "the messages before, after those in sight"),
        (("first", "last"), "the first, the last summary of the row"),
    )

    def __init__(self) -> None:
        super().__init__(id="rows")
        self.coverage: Coverage | None = None
        self.chosen: Block | None = None
        self._expected: Sequence[tuple[int, int]] = ()  #: depths and their summaries, until the map is read
        self._scale: Scale | None = None  #: None: all messages
        self._spacing = 1  #: lines of a row, the last of which are blank
        self._strips: dict[int, tuple[tuple[object, ...], Strip]] = {}  #: by row

    # -- what is in sight ------------------------------------------------------------------------------------

    @property
    def cells(self) -> int:
        """Cells of a row."""
        return max(self._width - GUTTER, 1)

    @property
    def scale(self) -> Scale | None:
        """The messages in sight; None: there are none."""
        coverage = self.coverage
        if coverage is None or not coverage.messages:
            return None
        if self._scale is None:
            return Scale(0, coverage.messages, self.cells)
        return replace(self._scale, width=self.cells)

    def expect(self, depths: Mapping[int, int]) -> None:
        """Show the rows that the map will have, by depth with their summaries, until it is read."""
        if self.coverage is None:
            self._expected = sorted(depths.items(), reverse=True)
            self._draw_anew()

    def show(self, coverage: Coverage, select: SummaryId | None = None) -> None:
        """Show a map; the chosen block stays so, or what is at its place, and so does what is in sight."""
        before, self.coverage = self.coverage, coverage
        if before is None or not coverage.messages:
            self._scale = None
        elif self._scale is not None:
            size = min(self._scale.messages, coverage.messages)
            first = min(self._scale.first, coverage.messages - size)
            self._scale = Scale(first, first + size, self.cells)
        wanted = coverage.blocks.get(select) if select is not None else None
        self._choose(wanted if wanted is not None and wanted.runs else self._still_chosen())

    def _still_chosen(self) -> Block | None:
        """The block that was chosen, or what is nearest to it; at first the newest of the deepest."""
        coverage, before = self.coverage, self.chosen
        if coverage is None or not coverage.levels:
            return None
        if before is None:
            return coverage.levels[0].blocks[-1]
        now = coverage.blocks.get(before.summary_id)
        if now is not None and now.runs:
            return now
        level = min(coverage.levels, key=lambda level: abs(level.depth - before.depth))
        return nearest(level, before.first)

    def fit(self, lines: int) -> None:
        """Take as many of *lines* as the rows need, twice as many where they have room."""
        rows = len(self.coverage.levels if self.coverage is not None else self._expected)
        self._spacing = 2 if rows * 2 <= lines else 1
        height = max(1, min(rows * self._spacing, lines))
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        self._hold(rows * self._spacing)
        self._draw_anew()

    # -- choosing --------------------------------------------------------------------------------------------

    def _choose(self, block: Block | None) -> None:
        self.chosen = block
        scale, coverage = self.scale, self.coverage
        if block is not None and scale is not None and coverage is not None:
            if self._scale is not None:
                self._scale = scale.showing((block.first, block.end), coverage.messages)
            row = coverage.level_of(block.summary_id) or 0
            if not self._top <= row * self._spacing < self._top + self._height:
                self._show_from(row * self._spacing - self._height // 2)
        self.refresh()
        self.post_message(self.Chosen())

    @property
    def row(self) -> int | None:
        """The row of the chosen block."""
        if self.chosen is None or self.coverage is None:
            return None
        return self.coverage.level_of(self.chosen.summary_id)

    def choose_at(self, place: int, row: int | None = None) -> None:
        """Choose the block of a row over a message; without one in the row it is the nearest there."""
        coverage = self.coverage
        if coverage is not None and coverage.levels:
            at = row if row is not None else self.row or 0
            self._choose(nearest(coverage.levels[min(at, len(coverage.levels) - 1)], place))

    def choose(self, summary_id: SummaryId) -> None:
        """Choose a summary that has a place."""
        block = self.coverage.blocks.get(summary_id) if self.coverage is not None else None
        if block is not None and block.runs:
            self._choose(block)

    def zoom(self, factor: float) -> None:
        """Show *factor* times as many messages around the chosen block."""
        coverage, scale = self.coverage, self.scale
        if coverage is None or scale is None:
            return
        middle = (scale.first + scale.end) // 2
        around = middle if self.chosen is None else (self.chosen.first + self.chosen.end) // 2
        zoomed = scale.zoomed(factor, around, coverage.messages, CLOSEST)
        self._scale = None if zoomed.messages >= coverage.messages else zoomed
        self._choose(self.chosen)

    def why_not_closer(self) -> str | None:
        """Why no fewer messages can be in sight."""
        scale = self.scale
        if scale is None:
            return "this conversation has no messages"
        return None if scale.messages > CLOSEST else f"no fewer than {CLOSEST} messages are shown"

    def why_not_wider(self) -> str | None:
        """Why no more messages can be in sight."""
        return None if self._scale is not None else "all messages are shown"

    # -- keys and the mouse ----------------------------------------------------------------------------------

    def action_side(self, side: int) -> None:
        """Along the time: to the block before or behind."""
        coverage, scale, row = self.coverage, self.scale, self.row
        if coverage is None or scale is None or row is None or self.chosen is None:
            return
        found = beside(coverage.levels[row], self.chosen, scale, side)
        if found is not None:
            self._choose(found)

    def action_move(self, step: int) -> None:
        """Up and down the depths."""
        if self.coverage is None or self.chosen is None:
            return
        found = beyond(self.coverage, self.chosen, step)
        if found is not None:
            self._choose(found)

    def action_page(self, direction: int) -> None:
        """Along the time by what is in sight."""
        scale, coverage = self.scale, self.coverage
        if scale is None or coverage is None:
            return
        if self._scale is not None:
            first = min(max(scale.first + direction * scale.messages, 0), coverage.messages - scale.messages)
            self._scale = scale = replace(scale, first=first, end=first + scale.messages)
        self.choose_at(scale.first if direction < 0 else scale.end - 1)

    def action_first(self) -> None:
        """To the first block of the row."""
        self.choose_at(0)

    def action_last(self) -> None:
        """To the last block of the row."""
        if self.coverage is not None:
            self.choose_at(self.coverage.messages - 1)

    def place_at(self, x: int) -> int | None:
        """The first message of the cell at a column of the widget."""
        scale = self.scale
        if scale is None or not GUTTER <= x < GUTTER + scale.width:
            return None
        return scale.run_at(x - GUTTER)[0]

    async def _on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        place = None if offset is None else self.place_at(offset.x)
        if offset is not None and place is not None:
            self.choose_at(place, (self._top + offset.y) // self._spacing)

    # -- drawing ---------------------------------------------------------------------------------------------

    def drawn(self, rows: range) -> list[Strip]:
        """Some lines of the screen."""
        return [self._strip(self._top + y) for y in rows]

    def _strip(self, line: int) -> Strip:
        coverage, scale = self.coverage, self.scale
        row, blank = divmod(line, self._spacing)
        if blank:
            return strip_of((), self.style_of, self._width)
        if coverage is None or scale is None or row >= len(coverage.levels):
            expected = self._expected[row : row + 1] if coverage is None else ()
            heads = [gutter(depth_name(depth), count) for depth, count in expected]
            said = Span(f" {self.empty}" if row == 0 else "", "dim")
            return strip_of((*heads, said), self.style_of, self._width)
        chosen = self.chosen if self.row == row else None
        over = "" if chosen is None else "cursor" if self.has_focus else "cursor-blur"
        looks = (coverage, scale, chosen, over, self._width)
        held = self._strips.get(row)
        if held is None or held[0] != looks:
            held = self._strips[row] = (looks, self._row(coverage, row, scale, chosen, over))
        return held[1]

    def _row(self, coverage: Coverage, row: int, scale: Scale, chosen: Block | None, over: str) -> Strip:
        level = coverage.levels[row]
        line, here = level_line(level, scale, plain=self.app.no_color, chosen=chosen)
        head = gutter(depth_name(level.depth), len(level.blocks))
        cells = strip_of(line, self.style_of, scale.width)
        parts = [strip_of((head,), self.style_of, GUTTER), cells]
        if here:
            upper = strip_of(line, partial(self._style_over, over), scale.width)
            parts[1:] = [
                cells.crop(0, here.start),
                upper.crop(here.start, here.stop),
                cells.crop(here.stop, scale.width),
            ]
        return Strip.join(parts).adjust_cell_length(self._width)

    def _style_over(self, over: str, name: StyleName) -> Style:
        return self.style_of(name, over)

    def _draw_anew(self) -> None:
        self._strips.clear()
        self.refresh()

    def colours_changed(self) -> None:
        """Forget what was drawn in other colours."""
        self._draw_anew()

    def watch_empty(self) -> None:
        """Something else is said when there is nothing."""
        self._draw_anew()

    def watch_has_focus(self, has_focus: bool) -> None:
        """The cursor looks otherwise."""
        super().watch_has_focus(has_focus)
        self.refresh()
