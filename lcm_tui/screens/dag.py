"""The summary DAG of a conversation: an expandable tree, and beside it what the selected row says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.records import Conversation, SummaryId
from lcm_core.store import lineage
from lcm_core.store import summaries as store
from lcm_core.store.lineage import TreeOpening
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.screens.dag_detail import detail_of
from lcm_tui.screens.dag_draw import Painter, columns_for
from lcm_tui.screens.dag_known import Survey, survey
from lcm_tui.screens.dag_links import TreeLinks
from lcm_tui.screens.dag_rows import Place
from lcm_tui.screens.dag_view import SummaryTree
from lcm_tui.widgets.bars import Heading, KeyHint, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.panes import Rows
from lcm_tui.widgets.text import TextView

#: Cells from which the detail stands beside the tree and not below it.
WIDE = 110
#: A cursor that runs on reads nothing.
DETAIL_SECONDS = 0.06
#: Reading the whole graph again takes at most one part in so many of the time.
SHARE = 5
LONGEST_WAIT = 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    """What one fetch brings: the first rows, or everything."""

    opening: TreeOpening
    survey: Survey | None = None


class DagScreen(TreeLinks, DataScreen[Reading]):
    """The summaries of one conversation, from the newest consumers down to leaves and their messages."""

    HELP = """
What the model sees of the older part of this conversation, and what that was made from. The rows at the left
margin are the summaries that the context holds and that nothing was made from, the newest first; below each
stand its sources in the order in which they were condensed, and below a leaf its messages. enter or l
unfolds, h folds or goes to the consumer, Z unfolds everything below the selected row (once more: everything),
z folds all. Messages are unfolded leaf by leaf; enter on one opens the conversation there.

L is a leaf, D1 D2 … a condensed summary of that depth. "below" counts the summaries below it as stored, or a
leaf's messages; "context" is the ordinal at which it stands in the context; "broken" names the failure that
the engine left in its text, or says stale: a source was rewritten since. ×2 says that a summary was made
into two others: O goes to its next place. Headings at the end hold what no row in the context leads to:
orphans, cycles, and ids that have no row.

d previews dissolving a condensed summary of the context: its sources take its place. space marks summaries
(●), and d takes the marked set: several of the context, or one and what it was made from. U shows what was
changed, and takes it back. r asks for another text of a summary and shows what it would change, W for all
that lies below too, R lists what is broken.

/ searches ids, models, failures and the text of all summaries, or the text beside the tree when that has the
focus (tab); n and N go on from match to match.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "rewrite", "rewrite-subtree", "dissolve", "repair", "context", "previous", "compact"),
            *("mark", "health", "history", "files", "elsewhere", "fold-all", "unfold-all"),
        )
    )
    DEFAULT_CSS = """
    DagScreen {
        & #panes { height: 1fr; layout: vertical; }
        & #tree-pane { height: 3fr; }
        & #text { height: 2fr; border-top: solid $foreground 30%; padding-left: 1; }
        & #text:focus { border-top: solid $accent; }
        &.-wide #panes { layout: horizontal; }
        &.-wide #tree-pane { width: 62.5%; min-width: 80; height: 1fr; }
        &.-wide #text { width: 1fr; height: 1fr; border-top: none; border-left: solid $foreground 30%; }
        &.-wide #text:focus { border-left: solid $accent; }
    }
    """

    def __init__(self, conversation: Conversation, *, select: SummaryId | None = None) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.conversation = conversation
        self.conversation_id = conversation.conversation_id
        self._wanted = select  #: where to stand as soon as the way there is known
        self._reading: set[str] = set()  #: readers that work in the background
        self._openings = 0
        self._graph_seconds = 0.0
        self._shown: Place | None = None  #: whose detail is shown
        self._unfold_later: Place | None = None
        self._hints: list[KeyHint] = []  #: as the key bar shows them

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The tree under its heading, and the detail."""
        with Rows(id="panes"):
            with Rows(id="tree-pane"):
                yield Heading(columns_for, id="heading")
                yield SummaryTree(self.conversation_id, id="lines")
            yield TextView(id="text")

    def main_widget(self) -> SummaryTree:
        """The tree."""
        return self.lines

    def on_mount(self) -> None:
        """Show where we are; the rows are on their way."""
        lines = self.lines
        lines.painter = Painter(lines.known, lines.unfolding, self.session.zone, self.marks, self.stale)
        self.query_one(TitleBar).where = f"Summary DAG of {self.conversation_id}  {self.conversation.lane}"
        lines.focus()

    # -- the tree ----------------------------------------------------------------------------------------

    async def fetch(self) -> Reading:
        """The context's references; once the whole graph was read, all of it again, but not all the time."""
        lines = self.lines
        if lines.known.survey is not None:
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._graph_seconds))
            return await self._read_all()
        unfolded = [place.step for place in lines.unfolding.unfolded if isinstance(place.step, str)]
        opening = await self.session.read(
            lineage.open_tree,
            self.conversation_id,
            select=self._wanted,
            unfolded=[SummaryId(step) for step in unfolded],
        )
        return Reading(opening)

    async def _read_all(self) -> Reading:
        begun = time.monotonic()
        known = self.lines.known.survey
        whole = await self.session.read(
            lineage.whole_tree, self.conversation_id, known=known.fingerprint if known else ""
        )
        if whole.graph is not None:
            known = await asyncio.to_thread(survey, whole.graph, whole.fingerprint)
        self._graph_seconds = time.monotonic() - begun
        return Reading(TreeOpening(whole.context, {}, ()), known)

    def show(self, data: Reading) -> None:
        """Show the tree as it is now; selection, unfolding and place stay by path."""
        known = self.lines.known
        if data.survey is None and known.survey is not None:
            return  # the graph has overtaken it
        if known.survey is not None or (data.survey is None and self._openings > 0):
            known.grow_old()
            self._want_detail()
        if data.survey is None or data.survey is not known.survey:
            self._show_tree(data)
        self._read_behind()

    def _show_tree(self, data: Reading) -> None:
        """Lay the rows anew and mark those of summaries that were not there before."""
        lines, known = self.lines, self.lines.known
        before = known.ids
        again = known.survey is not None or (data.survey is None and self._openings > 0)
        known.learn_opening(data.opening)
        if data.survey is None:
            self._openings += 1
        else:
            lines.take_survey(data.survey)
            self.surveyed.set()
            lines.empty = "This conversation has no summaries."
        lines.lay_rows(self._place_wanted(data.opening.way))
        if again:
            lines.mark_fresh(lines.places_of(known.ids - before))

    def _place_wanted(self, way: tuple[SummaryId, ...]) -> Place | None:
        """The place of the summary that was asked for, once the way there is known."""
        wanted, known = self._wanted, self.lines.known
        if wanted is None:
            return None
        path = way or known.path_to(wanted)
        if path:
            self._wanted = None
            return self.lines.unfolded_to(path)
        if known.survey is not None:
            self._wanted = None
            self.app.notify(f"{wanted} does not stand in this conversation.", severity="warning")
        return None

    def _read_behind(self) -> None:
        """Start what a new state of the tree calls for."""
        if self.lines.known.survey is None:
            self._start("graph", self._read_graph)
        elif (later := self._unfold_later) is not None:
            self._unfold_later = None
            self.lines.unfold_below(later)
        self.fill()
        self.note()
        self.work_on("stale", self.read_stale)

    async def _read_graph(self) -> None:
        """Read the whole graph for the first time, behind the first rows."""
        openings = self._openings
        self.post_message(self.Loaded(await self._read_all()))
        if self._openings != openings:  # the file changed meanwhile
            self.load()

    # -- rows ----------------------------------------------------------------------------------------------

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a reader that reads until nothing is wanted, unless it runs already."""
        if name not in self._reading:
            self._reading.add(name)
            self.work_on(name, self._run_alone, name, work, exclusive=False)

    async def _run_alone(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._reading.discard(name)

    def fill(self) -> None:
        """Read what is in sight and what was unfolded, as far as it is not known."""
        self._start("rows", self._read_rows)
        self._start("below", self._read_below)

    async def _read_rows(self) -> None:
        while wanted := self.lines.unread_rows():
            entries = await self.session.read(store.summary_entries, wanted)
            if self.lines.learn_rows(wanted, entries):
                self._refresh_keys()

    async def _read_below(self) -> None:
        lines = self.lines
        while True:
            sources, leaves = lines.unread_below()
            if not sources and not leaves:
                return
            if sources:
                lines.known.learn_sources(await self.session.read(lineage.sources_in, sources))
            found = await self.session.read(lineage.messages_under, leaves) if leaves else {}
            if lines.known.learn_messages(found) or sources:
                lines.lay_rows()
                self._start("rows", self._read_rows)

    @on(LineView.Scrolled, "#lines")
    def _scrolled(self) -> None:
        self._start("rows", self._read_rows)

    # -- the detail ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#lines")
    def _highlighted(self) -> None:
        self._refresh_keys()
        self._want_detail()

    def _refresh_keys(self) -> None:
        """Draw the bars anew when other keys can be used, and not at every step."""
        hints = self.key_hints()
        if hints != self._hints:
            self._hints = hints
            self.refresh_bars()

    def _want_detail(self) -> None:
        self.work_on("detail", self._read_detail, self.lines.selected)

    async def _read_detail(self, place: Place | None) -> None:
        """Read the detail of a row; the one before stays until it is there."""
        await asyncio.sleep(DETAIL_SECONDS)
        document = await detail_of(self.session, self.lines.known, place)
        await self.text.load(document, keep_place=place is self._shown)
        self._shown = place

    # -- folding -------------------------------------------------------------------------------------------

    @on(LineView.Opened, "#lines")
    async def _opened(self) -> None:
        await self.action_run("open")

    @on(LineView.Sided, "#lines")
    def _sided(self, event: LineView.Sided) -> None:
        place = self.lines.selected
        if place is not None:
            (self.lines.step_out if event.side < 0 else self.lines.step_in)(place)
            self.fill()

    async def action_back(self) -> None:
        """Leave the text first, then the screen."""
        if self.text.has_focus:
            self.lines.focus()
        else:
            await super().action_back()

    def action_open(self) -> None:
        """Unfold or fold a summary or a heading; open the conversation at a message."""
        place = self.lines.selected
        if place is None:
            return
        source = self.lines.known.message_of(place)
        if source is None or source.message is None:
            self.lines.toggle(place)
            self.fill()
            return
        self.open(places.Messages(self.conversation, seq=source.message.seq))

    def action_fold_all(self) -> None:
        """Fold everything."""
        self.lines.fold_all()
        self.fill()

    def action_unfold_all(self) -> None:
        """Unfold everything below the selected row; a leaf shows its messages."""
        lines, place = self.lines, self.lines.selected
        if place is None:
            return
        leaf = isinstance(place.step, str) and lines.known.is_leaf(SummaryId(place.step))
        if leaf and lines.can_unfold(place) and not lines.is_unfolded(place):
            lines.toggle(place)
            self.fill()
            return
        if lines.known.survey is None:
            self._unfold_later = place
            return
        lines.unfold_below(place)
        self.fill()

    def action_elsewhere(self) -> None:
        """Go to the next place where this summary stands."""
        place = self.lines.selected
        path = self.lines.known.elsewhere(place) if place is not None else None
        if path is not None:
            self.lines.reveal(path)
            self.fill()

    # -- going on ------------------------------------------------------------------------------------------

    def note(self) -> None:
        """How much there is, and where among the matches we are."""
        lines = self.lines
        found = lines.known.survey
        said = [self.marked_text()] if self.marks else []
        said += [self.place_among_matches()] if self.sought else []
        if found is not None:
            said.append(f"{len(found.graph.nodes):,} summaries")
        said.append(f"{len(lines.known.ordinals):,} in the context")
        if found is None:
            said.append("reading all …")
        self.query_one(TitleBar).note = " · ".join(said)

    def stand_on(self, ref: str | int) -> None:
        """Stand on a summary as soon as the way there is known."""
        if isinstance(ref, str):
            self._wanted = SummaryId(ref)
            self.load()
