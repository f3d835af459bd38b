"""The coverage map of a conversation, and below it the text of the chosen summary."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from lcm_core.context_view import depth_name
from lcm_core.coverage_map import read_broken, read_coverage
from lcm_core.dag.coverage import Coverage
from lcm_core.errors import NotFoundError
from lcm_core.records import Conversation, ConversationId, SummaryId
from lcm_core.store import lineage
from lcm_core.store.conversations import summary_depths
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.dissolve import dissolve_actions, why_not_dissolved
from lcm_tui.actions.drafts import rewrite_actions
from lcm_tui.actions.links import bound, conversation_links
from lcm_tui.actions.past import STEPS, step_actions
from lcm_tui.commands import Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder, TextFinder
from lcm_tui.panes.marks import Marks
from lcm_tui.panes.summary import read_summary_document
from lcm_tui.screens.coverage.finding import MapFinder
from lcm_tui.screens.coverage.foot import CoverageFoot
from lcm_tui.screens.coverage.rows import ZOOM, CoverageRows
from lcm_tui.views.coverage import scale_text, why_empty
from lcm_tui.widgets.panes import Rows
from lcm_tui.widgets.text import Block, TextView
from lcm_tui.widgets.two_panes import TwoPanes

if TYPE_CHECKING:
    from lcm_core.engine_rules import TailRules
    from lcm_core.past.point import Point
    from lcm_core.store.database import Reader

    from lcm_tui.session import Session

#: A cursor that runs on reads nothing.
DETAIL_SECONDS = 0.06
#: The blocks of more summaries are late: their rows are painted at once.
MANY = 2_000
#: Reading the map again takes at most one part in so many of the time.
SHARE = 5
LONGEST_WAIT = 0.6


@dataclass(frozen=True, slots=True)
class Wrong:
    """The summaries whose texts are not what they should be."""

    broken: frozenset[SummaryId] = frozenset()
    stale: frozenset[SummaryId] = frozenset()


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
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **STEPS,
            "other-view": ("Tree", "Switch between the tree of the summaries and the coverage map."),
            "open": ("Open", "Open the selected summary in the tree."),
            "messages": ("Messages", "Go to the first message of the selected summary."),
            "summaries": ("Tree", "Show the summaries as a tree."),
        }
    )
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "other-view", "dissolve", "rewrite", "zoom-in", "zoom-out"),
            *("messages", "context", "repair", *STEPS),
            *("rewrite-subtree", "compact", "health", "history", "files"),
        )
    )
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
        self._marks = Marks[SummaryId](lambda _: None)
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

    def title_now(self, command: str) -> str:
        """`m` goes back to the tree."""
        return "Tree" if command == "other-view" else super().title_now(command)

    def actions(self) -> Sequence[Action]:
        """Looking closer, where a block leads to, and what can be done with its summary."""
        rows = self.rows
        return bound(
            self,
            *conversation_links(self, self.conversation),
            *rewrite_actions(self, self.conversation, self._summary),
            *dissolve_actions(
                self, self.conversation, self._marks, selected=self._summary, why_not=self._why_not_dissolved
            ),
            *step_actions(self, self.conversation),
            Action("open", self._open_summary, self._why_none),
            Action("other-view", self._show_tree),
            Action("zoom-in", lambda: rows.zoom(1 / ZOOM), rows.why_not_closer),
            Action("zoom-out", lambda: rows.zoom(ZOOM), rows.why_not_wider),
            Action("messages", self._open_messages, self._why_none),
            Action("context", self._open_context),
        )

    # -- the map ---------------------------------------------------------------------------------------------

    async def _read(self, reader: Reader, rules: TailRules) -> Coverage:
        """The depths with their counts first: where the blocks are late, they are painted before them."""
        if self.rows.coverage is None:
            depths: Counter[int] = Counter()
            for each in await summary_depths(reader, self.conversation_id):
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
        return await asyncio.to_thread(coverage.marked, wrong.broken, wrong.stale)

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
        from lcm_core.operations.stale import stale_in

        await asyncio.sleep(DETAIL_SECONDS)  # the picture is painted first
        broken = await self.session.read(read_broken, self.conversation_id)
        stale = await self.session.read(stale_in, self.conversation_id)
        self._wrong = Wrong(frozenset(broken), frozenset(one.summary_id for one in stale))
        self.foot.reading = False
        if (coverage := self.rows.coverage) is not None:
            marked = await asyncio.to_thread(coverage.marked, self._wrong.broken, self._wrong.stale)
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

    def _why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        coverage, chosen = self.rows.coverage, self.rows.chosen
        if coverage is None or chosen is None:
            return "no summary is selected"
        standing = coverage.columns.in_context.count(summary_id)
        return why_not_dissolved(chosen.kind == "leaf", standing, below)

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
