"""The coverage map of a conversation, over the tree of its summaries: a row for each depth, and a foot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from lcm_core.base.records import Conversation, SummaryId
from lcm_core.base.text import depth_name
from lcm_core.base.values import replace
from lcm_core.engine.coverage import Coverage, CoverageBlock, Scale, beside, beyond, nearest
from lcm_core.store.coverage import read_coverage
from rich.style import Style
from textual import events
from textual.strip import Strip

from lcm_tui.kit.drawn import Drawn, Lines, strip_of
from lcm_tui.kit.lines import Scroller
from lcm_tui.kit.panes import Rows
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Line, Span, StyleName
from lcm_tui.tables.coverage import (
    GUTTER,
    axis_line,
    block_line,
    cut_line,
    gutter,
    legend,
    level_line,
    unseen,
    why_empty,
    wrapped,
)

if TYPE_CHECKING:
    from lcm_core.engine.markers import Wrong


# -- the rows --------------------------------------------------------------------------------------------
# What is in sight, which block is chosen, how the cursor moves.

#: No fewer messages are in sight, however close it is looked at.
CLOSEST: Final = 8
#: Rows that are kept free until it is known how many there are.
USUAL: Final = 3
#: A step of the zoom: so many times as many messages.
ZOOM: Final = 2.0


class CoverageRows(Scroller):
    """A row for each depth; no more cells are drawn than are in sight."""

    moves = (
        (("up", "down"), "what was made from this summary, its sources"),
        (("fold", "unfold"), "the summary before it, the one after it, in the same row"),
        (("page-up", "page-down"), "the messages before, after those in sight"),
        (("first", "last"), "the first, the last summary of the row"),
    )

    def __init__(self, choose: Callable[[SummaryId], None], moved: Callable[[], None]) -> None:
        """*choose* gets what the operator has chosen; *moved*: another block is, or others are in sight."""
        super().__init__(id="rows")
        self.coverage: Coverage | None = None
        self.chosen: CoverageBlock | None = None
        self.empty = "Reading …"
        self._say_chosen = choose
        self._say_moved = moved
        self._expected: Sequence[tuple[int, int]] = ()  #: depths and their summaries, until the map is read
        self._scale: Scale | None = None  #: None: all messages
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

    def show(self, coverage: Coverage, select: SummaryId | None) -> None:
        """Show a map, standing on a summary; what is in sight stays so."""
        before, self.coverage = self.coverage, coverage
        # That there is no summary is said by the tree.
        self.empty = why_empty(coverage) if coverage.blocks or not coverage.messages else ""
        if before is None or not coverage.messages:
            self._scale = None
        elif self._scale is not None:
            size = min(self._scale.messages, coverage.messages)
            first = min(self._scale.first, coverage.messages - size)
            self._scale = Scale(first, first + size, self.cells)
        self.stand_on(select)

    def fit(self, lines: int) -> None:
        """Take as many of *lines* as the rows need."""
        rows = len(self.coverage.levels) if self.coverage is not None else len(self._expected) or USUAL
        height = max(1, min(rows, lines))
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        self._hold(rows)
        self._draw_anew()

    # -- choosing --------------------------------------------------------------------------------------------

    def stand_on(self, summary_id: SummaryId | None) -> None:
        """Mark the block of a summary, if it has one."""
        scale, coverage = self.scale, self.coverage
        block = coverage.blocks.get(summary_id) if coverage is not None and summary_id is not None else None
        self.chosen = block = block if block is not None and block.runs else None
        if block is not None and scale is not None and coverage is not None:
            if self._scale is not None:
                self._scale = scale.showing((block.first, block.end), coverage.messages)
            row = self.row or 0
            if not self._top <= row < self._top + self._height:
                self._show_from(row - self._height // 2)
        self.refresh()
        self._say_moved()

    def _choose(self, block: CoverageBlock | None) -> None:
        if block is not None:
            self.stand_on(block.summary_id)
            self._say_chosen(block.summary_id)

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

    def zoom(self, factor: float) -> None:
        """Show *factor* times as many messages around the chosen block."""
        coverage, scale = self.coverage, self.scale
        if coverage is None or scale is None:
            return
        middle = (scale.first + scale.end) // 2
        around = middle if self.chosen is None else (self.chosen.first + self.chosen.end) // 2
        zoomed = scale.zoomed(factor, around, coverage.messages, CLOSEST)
        self._scale = None if zoomed.messages >= coverage.messages else zoomed
        self.stand_on(None if self.chosen is None else self.chosen.summary_id)

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
            self.action_last()
        else:
            self._choose(beside(coverage.levels[row], self.chosen, scale, side))

    def action_move(self, step: int) -> None:
        """Up and down the depths."""
        if self.coverage is None or self.chosen is None:
            self.action_last()
        else:
            self._choose(beyond(self.coverage, self.chosen, step))

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

    async def on_click(self, event: events.Click) -> None:
        """Choose the block that was clicked."""
        offset = event.get_content_offset(self)
        place = None if offset is None else self.place_at(offset.x)
        if offset is not None and place is not None:
            self.choose_at(place, self._top + offset.y)

    # -- drawing ---------------------------------------------------------------------------------------------

    def drawn(self, rows: range) -> list[Strip]:
        """Some lines of the screen."""
        return [self._strip(self._top + y) for y in rows]

    def _strip(self, row: int) -> Strip:
        coverage, scale = self.coverage, self.scale
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

    def _row(
        self, coverage: Coverage, row: int, scale: Scale, chosen: CoverageBlock | None, over: str
    ) -> Strip:
        level = coverage.levels[row]
        line, here = level_line(level, scale, plain=self.app.no_color, chosen=chosen)
        head = gutter(depth_name(level.depth), len(level.blocks))
        return marked_strip(self, (head, *line), here, over, self._width)

    def _draw_anew(self) -> None:
        self._strips.clear()
        self.refresh()

    def colours_changed(self) -> None:
        """Forget what was drawn in other colours."""
        self._draw_anew()

    def watch_has_focus(self, has_focus: bool) -> None:
        """The cursor looks otherwise."""
        super().watch_has_focus(has_focus)
        self.refresh()


def marked_strip(widget: Drawn, line: Line, here: range, over: str, width: int) -> Strip:
    """A line with another style over some of the cells behind the gutter."""
    strip = strip_of(line, widget.style_of, width)
    if not here or not over:
        return strip
    first, end = GUTTER + here.start, GUTTER + here.stop
    upper = strip_of(line, partial(_over, widget, over), width)
    return Strip.join([strip.crop(0, first), upper.crop(first, end), strip.crop(end, width)])


def _over(widget: Drawn, over: str, name: StyleName) -> Style:
    return widget.style_of(name, over)


# -- the foot --------------------------------------------------------------------------------------------
# Below the rows: the context's row, the axis, the chosen block, the legend.


class CoverageFoot(Lines):
    """A few lines under the rows, at the same cells."""

    def __init__(self, rows: CoverageRows, clicked: Callable[[int], None]) -> None:
        """*clicked* gets the place of the message whose cell of the context was clicked."""
        super().__init__(self._said, id="foot", height=3, clicked=self._clicked_cell)
        self._rows = rows
        self._say_clicked = clicked
        self._cut: tuple[Coverage, Scale, Line] | None = None  #: the row of the context, and what it is of
        self.reading = True  #: which summaries are broken or stale is not known yet
        self.more = 0  #: lines below the axis: the chosen block, and then the legend

    def again(self) -> None:
        """Say what is so now; another block may be chosen in the same lines."""
        super().again()
        self.refresh()

    def _said(self, width: int) -> Sequence[Line]:
        rows, coverage = self._rows, self._rows.coverage
        scale = rows.scale
        if coverage is None or scale is None:
            return ((),) * min(3, 2 + self.more)
        plain = self.app.no_color
        chosen = rows.chosen
        if self._cut is None or self._cut[0] is not coverage or self._cut[1] != scale:
            self._cut = coverage, scale, cut_line(coverage, scale)
        signs = legend(coverage, plain=plain, reading=self.reading, chosen=chosen, short=True)
        if self.more > 1:  # the legend is below
            signs = []
        lines = (
            (gutter("context"), *self._cut[2]),
            (gutter(""), *axis_line(coverage, scale, plain=plain)),
            block_line(coverage, chosen, scale, width, signs) if chosen is not None else (),
            *((Span(" "), *line) for line in self._legend(width - 1, plain=plain)),
        )
        return lines[: 2 + self.more]

    def _legend(self, width: int, *, plain: bool) -> list[Line]:
        coverage = self._rows.coverage
        if coverage is None:
            return []
        entries = legend(coverage, plain=plain, reading=self.reading, chosen=self._rows.chosen)
        entries = [*unseen(coverage), *entries]
        return wrapped(entries, width)

    def render_line(self, y: int) -> Strip:
        """One of the lines; in that of the context the cells of the chosen block are marked."""
        line = self.lines[y] if y < len(self.lines) else ()
        chosen, scale = self._rows.chosen, self._rows.scale
        here = range(0)
        if y == 0 and chosen is not None and scale is not None:
            here = scale.cells_of((chosen.first, chosen.end))
        return marked_strip(self, line, here, "cursor-blur", self.size.width)

    def _clicked_cell(self, line: Line, cell: int) -> None:
        """Choose the place that was clicked."""
        place = self._rows.place_at(cell) if line is self.lines[0] else None
        if place is not None:
            self._say_clicked(place)


# -- the pane --------------------------------------------------------------------------------------------
# Both, and what they are read from; folded away it reads nothing.

#: Rows that are in sight at most, and the part of a screen that all of the map takes.
MOST_ROWS: Final = 5
PART: Final = 3
#: In a terminal of so many lines the map is there until it is folded away, and so is its legend.
HIGH: Final = 30
#: In a lower one than this nothing is said of the chosen block.
LOW: Final = 20
LEGEND_LINES: Final = 3
#: Reading the map again takes at most one part in so many of the time.
SHARE: Final = 5
LONGEST_WAIT: Final = 0.6
#: As where a divider stands it is remembered whether the map is shown.
SHOWN: Final = {False: 0.1, True: 0.9}


class CoveragePane(Rows):
    """The coverage map of a conversation; the tree below it says what is selected."""

    DEFAULT_CSS = """
    CoveragePane { height: auto; & #foot { background: $background; } }
    """

    def __init__(self, conversation: Conversation, choose: Callable[[SummaryId], None]) -> None:
        """*choose* gets the summary that was chosen in the map."""
        self.rows = CoverageRows(choose, self._moved)
        self.foot = CoverageFoot(self.rows, self._context_clicked)
        super().__init__(self.rows, self.foot, id="map")
        self._conversation = conversation
        self._found: Coverage | None = None  #: read last
        self._wrong: Wrong | None = None  #: None: not read yet
        self._seconds = 0.0  #: that reading the map took

    # -- whether it is shown ---------------------------------------------------------------------------------

    def fold_as_left(self, session: Session) -> None:
        """Show it or not: as the operator has left it in terminals of this height."""
        kept = session.remembered.share(self._kept_as)
        self.display = self._high if kept is None else kept == SHOWN[True]

    def toggle(self, session: Session) -> None:
        """Fold it away, or show it again, and remember that."""
        self.display = not self.display
        session.remembered.keep(self._kept_as, SHOWN[self.display])

    @property
    def _high(self) -> bool:
        return self.app.size.height >= HIGH

    @property
    def _kept_as(self) -> str:
        return "dag map" if self._high else "dag map low"

    # -- what it shows ---------------------------------------------------------------------------------------

    async def read(self, session: Session) -> None:
        """Read the map, with the marks that are known; what is read again and again not all the time."""
        if self._found is not None:
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._seconds))
        begun = time.monotonic()
        rules = session.rules_for(self._conversation.session_key).tail
        found = await session.read(read_coverage, self._conversation.conversation_id, rules)
        self._seconds = time.monotonic() - begun
        self._found = found if self._wrong is None else await asyncio.to_thread(found.marked, self._wrong)

    async def learn_wrong(self, wrong: Wrong) -> None:
        """Take which summaries are broken, and which are stale."""
        self._wrong, self.foot.reading = wrong, False
        before = self._found
        if before is not None:
            marked = await asyncio.to_thread(before.marked, wrong)
            if self._found is before:  # no later one has come meanwhile
                self._found = marked

    def expect(self, depths: Mapping[int, int]) -> None:
        """Show the rows that the map will have, by depth with their summaries, until it is read."""
        self.rows.expect(depths)
        self.lay_out()

    def show(self, select: SummaryId | None) -> None:
        """Show what was read, standing on a summary."""
        if self._found is not None:
            self.rows.show(self._found, select)
            self.lay_out()

    def follow(self, select: SummaryId | None) -> None:
        """Stand on what is selected in the tree, unless it was chosen here."""
        chosen = self.rows.chosen
        if self.display and (None if chosen is None else chosen.summary_id) != select:
            self.rows.stand_on(select)

    def on_mount(self) -> None:
        """Take the lines that the map is going to have."""
        self.lay_out()

    def on_resize(self) -> None:
        """Rows and legend have other room."""
        self.lay_out()

    def on_descendant_focus(self) -> None:
        """Who goes to the map sees its legend."""
        self.lay_out()

    def on_descendant_blur(self) -> None:
        """Whoever leaves it does not need that any more."""
        self.lay_out()

    def lay_out(self) -> None:
        """Give rows and foot their lines, as far as the screen has them."""
        height = self.app.size.height
        said = height >= LOW
        legend = LEGEND_LINES if said else 1
        self.foot.more = said + (legend if self._high or self.rows.has_focus else 0)
        self.foot.again()
        self.rows.fit(min(MOST_ROWS, height // PART - 2 - said))

    def _moved(self) -> None:
        self.foot.again()

    def _context_clicked(self, place: int) -> None:
        """Choose the summary that the context holds in the place of a message."""
        coverage = self.rows.coverage
        pieces = () if coverage is None else coverage.cut
        piece = next((one for one in pieces if one.first <= place < one.end), None)
        if coverage is not None and piece is not None and piece.depth is not None:
            depths = [level.depth for level in coverage.levels]
            self.rows.choose_at(place, depths.index(piece.depth) if piece.depth in depths else None)
