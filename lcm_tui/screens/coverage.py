"""The coverage map of a conversation, and below it the text of the chosen summary."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.text import depth_name, fold, sought_as
from lcm_core.base.values import replace
from lcm_core.engine.coverage import Coverage, CoverageBlock, Scale, beside, beyond, nearest
from lcm_core.store import lineage
from lcm_core.store.conversations import depth_counts
from lcm_core.store.coverage import read_coverage
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.message import Message
from textual.strip import Strip

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.drawn import Drawn, strip_of
from lcm_tui.kit.lines import Scroller
from lcm_tui.kit.listing import Finder, Marks, TextFinder
from lcm_tui.kit.panes import Rows, TwoPanes
from lcm_tui.kit.spans import Block, Line, Span, StyleName
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions, pruning
from lcm_tui.screens.dag_tree import Wrong, read_wrong
from lcm_tui.screens.frame import DataScreen
from lcm_tui.tables.coverage import (
    GUTTER,
    axis_line,
    block_line,
    cut_line,
    gutter,
    legend,
    level_line,
    scale_text,
    unseen,
    why_empty,
    wrapped,
)
from lcm_tui.tables.summaries import read_summary_document

if TYPE_CHECKING:
    from lcm_core.engine.rules import TailRules
    from lcm_core.operations.past_point import Point
    from lcm_core.store.database import Reader

    from lcm_tui.kit.session import Session


# -- the rows --------------------------------------------------------------------------------------------
# What is in sight, which block is chosen, how the cursor moves.

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
        self.chosen: CoverageBlock | None = None
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

    def _still_chosen(self) -> CoverageBlock | None:
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

    def _choose(self, block: CoverageBlock | None) -> None:
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

    async def on_click(self, event: events.Click) -> None:
        """Choose the block that was clicked."""
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

    def _row(
        self, coverage: Coverage, row: int, scale: Scale, chosen: CoverageBlock | None, over: str
    ) -> Strip:
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


# -- finding ---------------------------------------------------------------------------------------------
# In the ids of the summaries, then in the texts of all of them.


class MapFinder:
    """Goes from block to block that holds the words: row by row from the top, in a row from left to right."""

    label = "find ids and text"

    def __init__(self, rows: CoverageRows, texts: Callable[[str], Awaitable[Collection[SummaryId]]]) -> None:
        """*texts* gives the summaries whose text holds a needle."""
        self.needle = ""
        self._rows = rows
        self._texts = texts
        self._matches: frozenset[SummaryId] = frozenset()

    def why_not_search(self) -> str | None:
        """Only what is drawn can be found."""
        coverage = self._rows.coverage
        if coverage is None:
            return "the map is being read"
        return None if coverage.levels else "this map has no summary"

    def begin(self) -> None:
        """The search begins behind the chosen block."""

    def typed(self, text: str) -> None:
        """Nothing before it is all typed: the texts of all summaries are read for it."""

    async def confirm(self, text: str) -> str | None:
        """Search ids and texts; go to the first match behind the chosen block."""
        self.needle, self._matches = text, frozenset()
        if not text:
            return None
        sought = sought_as(text)
        named = {one for one in self._drawn() if sought in fold(one)}
        self._matches = frozenset(named | set(await self._texts(text)))
        return await self.go(forward=True)

    async def go(self, *, forward: bool) -> str | None:
        """Go to the match behind the chosen block, or the one before it, round the end of the map."""
        drawn = self._drawn()
        found = [at for at, one in enumerate(drawn) if one in self._matches]
        if not found:
            return f"No summary here contains “{self.needle}”."
        chosen = self._rows.chosen
        here = drawn.index(chosen.summary_id) if chosen is not None else -1
        if forward:
            at = next((one for one in found if one > here), found[0])
        else:
            at = next((one for one in reversed(found) if one < here), found[-1])
        self._rows.choose(drawn[at])
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only when something was found."""
        return None if self._matches else "search first: / finds text"

    def leave(self) -> bool:
        """The chosen block stays where it was led."""
        return False

    def _drawn(self) -> list[SummaryId]:
        coverage = self._rows.coverage
        levels = () if coverage is None else coverage.levels
        return [block.summary_id for level in levels for block in level.blocks]


# -- the foot --------------------------------------------------------------------------------------------
# Below the rows: the context's row, the axis, the chosen block, the legend.

#: Lines of the legend that a screen has room for.
LEGEND_LINES = 3


class CoverageFoot(Drawn):
    """A few lines under the rows, at the same cells."""

    def __init__(self, rows: CoverageRows, clicked: Callable[[int], None]) -> None:
        """*clicked* gets the place of the message whose cell of the context was clicked."""
        super().__init__(id="foot")
        self._rows = rows
        self._clicked = clicked
        self._lines: Sequence[Line] = ()
        self.reading = True  #: which summaries are broken or stale is not known yet

    def say(self) -> None:
        """Say what is so now; its height follows."""
        lines = self._said(self.size.width or self.app.size.width)
        if lines != self._lines:
            self._lines = lines
            if self.styles.height is None or self.styles.height.value != len(lines):
                self.styles.height = len(lines)
            self.refresh()

    def _said(self, width: int) -> Sequence[Line]:
        rows, coverage = self._rows, self._rows.coverage
        scale = rows.scale
        if coverage is None or scale is None:
            return ((),)
        plain = self.app.no_color
        chosen = rows.chosen
        return (
            (gutter("context"), *cut_line(coverage, scale)),
            (gutter(""), *axis_line(coverage, scale, plain=plain)),
            block_line(coverage, chosen, scale, width) if chosen is not None else (),
            *((Span(" "), *line) for line in self._legend(width - 1, plain=plain)),
        )

    def _legend(self, width: int, *, plain: bool) -> list[Line]:
        coverage = self._rows.coverage
        if coverage is None:
            return []
        entries = legend(coverage, plain=plain, reading=self.reading, chosen=self._rows.chosen)
        entries = [*unseen(coverage), *entries]
        return wrapped(entries, width)[:LEGEND_LINES]

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        line = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.style_of, self.size.width)

    def on_resize(self) -> None:
        """Cells and the legend have other places."""
        self.say()

    async def on_click(self, event: events.Click) -> None:
        """Choose the place that was clicked."""
        place = self._rows.place_at(event.x) if event.y == 0 else None
        if place is not None:
            self._clicked(place)


# -- the screen ------------------------------------------------------------------------------------------

#: A cursor that runs on reads nothing.
DETAIL_SECONDS = 0.06
#: The blocks of more summaries are late: their rows are painted at once.
MANY = 2_000
#: Reading the map again takes at most one part in so many of the time.
SHARE = 5
LONGEST_WAIT = 0.6


class CoverageScreen(DataScreen[Coverage]):
    """The summaries of one conversation as blocks over its messages."""

    HELP = """
Which summaries cover which messages. From left to right are the messages, from the first to the last; each
row is a depth, the deepest first, and a block is a summary over the messages under it. The row "context" is
what the model reads: a digit is the depth of the summary, L a leaf, m a message itself, t the fresh tail,
! messages that are not in the context in any form (after /new on purpose), & messages that are in it twice.

A block is in the context, under another summary, orphan (the context does not lead to it), broken or stale;
the legend has the signs. The selected block is drawn in letters, and without colours every one is: c in the
context, u under another, o orphan, b broken, s stale; a capital where a summary begins (Cccc). & in a
row: several summaries of this depth cover the same message. Where a cell stands for several summaries, one
that is broken, orphan or stale decides.

← → go along the messages, ↑ ↓ to what was made from a summary and to its sources; + and - zoom in and out
around it, page keys move by what is shown. A click selects. enter opens the summary in the tree, M its first
message in the conversation; m switches to the tree. d dissolves it, r drafts a new text, W for it and
everything below it. / finds ids and text in all summaries, n and N go from match to match. The text below is
the summary's: tab goes there, and / finds in it. [ and ] go through the past, one operation at a time.
"""
    DEFAULT_CSS = """
    CoverageScreen {
        & #foot { height: 4; background: $background; }
    }
    """

    def __init__(self, conversation: Conversation, *, select: SummaryId | None = None) -> None:
        super().__init__()
        self.conversation = conversation
        self.conversation_id = conversation.conversation_id
        self.rows = CoverageRows()
        self.rows.empty = "Reading …"
        self.foot = CoverageFoot(self.rows, self._context_clicked)
        self.text = TextView(id="text")
        map_pane = Rows(self.rows, self.foot, id="map")
        self._panes = TwoPanes(map_pane, self.text, shares=(0.5, None), beside=None, changed=self._lay_out)
        self._in_text = TextFinder(self.text)
        self._in_map = MapFinder(self.rows, self._texts_with)
        self.marks = Marks[SummaryId](lambda _: None)
        self.steps = actions.Steps(self, conversation)
        self._wanted = select
        self._wrong: Wrong | None = None  #: None: not read yet
        self._seconds = 0.0  #: that reading the map took
        self._shown: SummaryId | None = None  #: whose text is shown
        self._outdated = False  #: that text may have changed

    # -- what it is made of ----------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The rows, what belongs to all of them, and the text."""
        yield self._panes

    def where(self) -> str:
        """Whose summaries."""
        return f"Coverage map of {self.session.called(self.conversation)}"

    def main_widget(self) -> CoverageRows:
        """The rows."""
        return self.rows

    def finder(self) -> Finder:
        """The map, or the text when that has the focus."""
        return self._in_text if self.text.has_focus else self._in_map

    async def _texts_with(self, needle: str) -> Collection[SummaryId]:
        return await self.session.read(lineage.summaries_with, self.conversation_id, needle)

    def position(self) -> str:
        """Which block of its row is chosen."""
        coverage, row, chosen = self.rows.coverage, self.rows.row, self.rows.chosen
        if coverage is None or row is None or chosen is None:
            return ""
        level = coverage.levels[row]
        ids = (block.summary_id for block in level.blocks)
        at = next(at for at, summary_id in enumerate(ids, 1) if summary_id == chosen.summary_id)
        return f"{depth_name(level.depth)} {at:,} of {len(level.blocks):,}"

    def selected_id(self) -> str | None:
        """The id of the chosen summary."""
        return self._summary()

    def step_back(self) -> bool:
        """Leave the text first."""
        if not self.text.has_focus:
            return super().step_back()
        self.rows.focus()
        return True

    # -- the map ---------------------------------------------------------------------------------------------

    async def _read(self, reader: Reader, rules: TailRules) -> Coverage:
        """The depths with their counts first: where the blocks are late, they are painted before them."""
        if self.rows.coverage is None:
            depths: Counter[int] = Counter()
            for each in await depth_counts(reader, self.conversation_id):
                depths[each.depth] += each.count
            self.call_later(self._expect, depths)
        return await read_coverage(reader, self.conversation_id, rules)

    def _expect(self, depths: Mapping[int, int]) -> None:
        self.rows.expect(depths)
        if sum(depths.values()) > MANY:
            self._paint_from_now()
        if self.size:  # else it is laid out with them
            self._lay_out()

    def look_at(self, session: Session, conversation_id: ConversationId, point: Point | None) -> None:
        """Another moment has other texts."""
        super().look_at(session, conversation_id, point)
        self._wrong = None

    async def fetch(self) -> Coverage:
        """The map, with the marks that are known; what is read again and again not all the time."""
        if self.rows.coverage is not None:
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._seconds))
        begun = time.monotonic()
        rules = self.session.rules_for(self.conversation.session_key).tail
        found = await self.session.read(self._read, rules)
        self._seconds = time.monotonic() - begun
        return await self._with_marks(found)

    async def _with_marks(self, coverage: Coverage) -> Coverage:
        wrong = self._wrong
        if wrong is None or not (wrong.broken or wrong.stale):
            return coverage
        return await asyncio.to_thread(coverage.marked, wrong.broken.keys(), wrong.stale)

    def show(self, data: Coverage) -> None:
        """Show it; then look which texts are broken, and which are stale."""
        self._outdated = True
        self._show_map(data)
        self.work_on("wrong", self._read_wrong)

    def _show_map(self, coverage: Coverage) -> None:
        self.rows.empty = why_empty(coverage)
        select, self._wanted = self._wanted, None
        self.rows.show(coverage, select)
        self._lay_out()
        if select is not None and self._summary() != select:
            lacks = (
                "covers no message of this conversation"
                if select in coverage.blocks
                else "is not in this conversation"
            )
            self.app.notify(f"{select} {lacks}.", severity="warning")

    async def _read_wrong(self) -> None:
        """Read every text, behind the picture."""
        await asyncio.sleep(DETAIL_SECONDS)  # the picture is painted first
        self._wrong = wrong = await read_wrong(self.session, self.conversation_id)
        self.foot.reading = False
        if (coverage := self.rows.coverage) is not None:
            marked = await asyncio.to_thread(coverage.marked, wrong.broken.keys(), wrong.stale)
            if self.rows.coverage is coverage:  # no later one has come meanwhile
                self._show_map(marked)

    def on_resize(self) -> None:
        """The rows take what the text below can spare."""
        self._lay_out()

    def _lay_out(self) -> None:
        self.foot.say()
        room = self._panes.room
        spare = self.size.height // 2 - 5 if room is None else room - self.foot.size.height
        self.rows.fit(max(3, spare))
        self._say_scale()

    def _say_scale(self) -> None:
        scale = self.rows.scale
        if scale is not None and self.is_mounted:
            self.title_bar.note = scale_text(scale)

    def stand_on(self, ref: str | int) -> None:
        """Choose a summary once it has been read."""
        if isinstance(ref, str):
            self._wanted = SummaryId(ref)
            self.load()

    @on(CoverageRows.Chosen)
    def _chosen(self) -> None:
        self.foot.say()
        self._say_scale()
        self.refresh_bars()
        if self._outdated or self._summary() != self._shown:
            self._outdated = False
            self.work_on("detail", self._read_detail, self._summary())

    def _context_clicked(self, place: int) -> None:
        """Choose the summary that the context holds in the place of a message."""
        coverage = self.rows.coverage
        piece = (
            next((one for one in coverage.cut if one.first <= place < one.end), None) if coverage else None
        )
        if coverage is not None and piece is not None and piece.depth is not None:
            row = next((at for at, level in enumerate(coverage.levels) if level.depth == piece.depth), None)
            self.rows.choose_at(place, row)

    async def _read_detail(self, summary_id: SummaryId | None) -> None:
        """Read the text of a summary; the one before stays until it is there."""
        await asyncio.sleep(DETAIL_SECONDS)
        if summary_id is None:
            self.text.show(())
            return
        try:
            document = await read_summary_document(self.session, summary_id)
        except NotFoundError:
            document = (Block(f"{summary_id} was deleted meanwhile."),)
        await self.text.load(document, keep_place=summary_id == self._shown)
        self._shown = summary_id

    # -- what is chosen --------------------------------------------------------------------------------------

    def _summary(self) -> SummaryId | None:
        chosen = self.rows.chosen
        return None if chosen is None else chosen.summary_id

    def _why_none(self) -> str | None:
        return "no summary is selected" if self._summary() is None else None

    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """A block knows no more of it than this."""
        coverage, chosen = self.rows.coverage, self.rows.chosen
        if coverage is None or chosen is None:
            return "no summary is selected"
        standing = coverage.columns.in_context.count(summary_id)
        return actions.why_not_dissolved(chosen.kind == "leaf", standing, below)

    def _open_summary(self) -> None:
        self.open(places.Summaries(self.conversation, self._summary()))

    def _show_tree(self) -> None:
        self.open_instead(places.Summaries(self.conversation, self._summary()))

    def _open_messages(self) -> None:
        coverage, chosen = self.rows.coverage, self.rows.chosen
        if coverage is not None and chosen is not None:
            self.open(places.Messages(self.conversation, seq=coverage.seqs[chosen.first]))

    def _open_context(self) -> None:
        """Show the context, at the summary when it is in it."""
        coverage, summary_id = self.rows.coverage, self._summary()
        held = coverage is not None and summary_id is not None and summary_id in coverage.columns.in_context
        select = ("summary", str(summary_id)) if held else None
        self.open(places.Context(self.conversation, select=select))

    KEYS: ClassVar[Sequence[Key[CoverageScreen]]] = (
        commands.OPEN.does(_open_summary, _why_none, help="Open the selected summary in the tree."),
        commands.OTHER_VIEW.does(
            _show_tree, title="Tree", help="Switch between the tree of the summaries and the coverage map."
        ),
        actions.dissolve_key(_summary),
        pruning.rewrite_key(_summary),
        *pruning.edit_keys(_summary),
        Key(
            "zoom-in",
            "plus",
            "Zoom in",
            "Show fewer messages, around the selected summary.",
            lambda s: s.rows.zoom(1 / ZOOM),
            lambda s: s.rows.why_not_closer(),
        ),
        Key(
            "zoom-out",
            "minus",
            "Zoom out",
            "Show more messages, around the selected summary.",
            lambda s: s.rows.zoom(ZOOM),
            lambda s: s.rows.why_not_wider(),
        ),
        commands.MESSAGES.does(
            _open_messages, _why_none, help="Go to the first message of the selected summary."
        ),
        commands.CONTEXT.does(_open_context),
        pruning.repair_key(lambda s: s.conversation),
        *actions.STEPS,
        pruning.rewrite_subtree_key(_summary),
        actions.ITS_COMPACT,
        actions.ITS_HEALTH,
        actions.ITS_HISTORY,
        actions.ITS_FILES,
    )
    COMMON: ClassVar[Sequence[Key[CoverageScreen]]] = (actions.ITS_ENGINE,)
