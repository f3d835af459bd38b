"""The summary DAG of a conversation: an expandable tree, and beside it what the selected row says."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from lcm_core.records import Conversation, ConversationId, SummaryId
from lcm_core.store import lineage
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
from lcm_tui.screens.dag.behind import ReadBehind
from lcm_tui.screens.dag.detail import detail_of
from lcm_tui.screens.dag.drawing import columns_for
from lcm_tui.screens.dag.finding import TreeFinder
from lcm_tui.screens.dag.folding import Folding, key_of
from lcm_tui.screens.dag.panes import SummaryTree
from lcm_tui.screens.dag.reads import Reading, read_all, read_opening, read_stale
from lcm_tui.screens.dag.tree import Place, Section
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.panes import Rows
from lcm_tui.widgets.text import TextView
from lcm_tui.widgets.two_panes import TwoPanes

if TYPE_CHECKING:
    from lcm_core.past.point import Point

    from lcm_tui.session import Session

#: Cells from which the detail stands beside the tree and not below it.
WIDE = 110
#: A cursor that runs on reads nothing.
DETAIL_SECONDS = 0.06
#: Reading the whole graph again takes at most one part in so many of the time.
SHARE = 5
LONGEST_WAIT = 0.6


class DagScreen(DataScreen[Reading]):
    """The summaries of one conversation, from the newest consumers down to leaves and their messages."""

    HELP = """
The summaries of this conversation and their sources. Top-level rows are the summaries in the context, newest
first; below each are its sources in the order in which they were condensed, and below a leaf its messages.
enter or l unfolds, h folds or goes to the summary above, Z unfolds everything below the selected row (again:
everything), z folds all. Messages unfold leaf by leaf; enter on one opens the conversation there.

D1 D2 … is a condensed summary of that depth. "below" counts the summaries below it as stored, or a leaf's
messages; "ordinal" is its ordinal in the context, if it is there; "broken" names the failure marker in its
text, or says stale: one of its sources was rewritten since. "begins" shows how its text begins; on a narrow
screen the id is shortened for it (y copies all of it). ×2 means that two summaries use it: O goes to the
next place.
Headings at the end list what no row in the context leads to: orphans, cycles, and ids without a row.

d previews dissolving a condensed summary of the context: its sources take its place. space marks summaries
(●), and d then dissolves all of them: several of the context, or one and its sources. U lists changes and
undoes them. r drafts a new text for a summary, W for it and everything below it, R lists broken summaries.

m switches to the coverage map: which summaries cover which messages. > reads what is below the selected
summary level by level, with the tokens that each level costs.

[ and ] step through the operations that changed this conversation: the DAG as it was before each, and at last
as it is now. The past is read-only.

/ finds ids, models, failures and text in all summaries, or in the text beside the tree when that has the
focus (tab); n and N go to the next and the previous match.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *(
                "open",
                "other-view",
                "expand",
                "dissolve",
                "rewrite",
                "repair",
                "rewrite-subtree",
                "context",
                "previous",
                "compact",
            ),
            *("mark", "health", "history", "files", "elsewhere", "fold-all", "unfold-all"),
            *STEPS,
        )
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {**STEPS, "other-view": ("Map", "Switch between the tree of the summaries and the coverage map.")}
    )

    def __init__(
        self, conversation: Conversation, *, select: SummaryId | None = None, find: str = ""
    ) -> None:
        """*find*: what was found in the text of the selected summary, which is shown there."""
        super().__init__()
        self.conversation = conversation
        self.conversation_id = conversation.conversation_id
        self.marks = Marks[SummaryId](self._marks_changed)
        self.lines = SummaryTree(self.conversation_id, self.marks)
        self.lines.also_moves("fold, then up to what was made from it; unfold, then down to its first source")
        self.text = TextView(id="text")
        self._in_tree = TreeFinder(self.lines, self._texts_with, self._match_selected)
        self._in_text = TextFinder(self.text)
        self._behind = ReadBehind(self, self.lines)
        self._wanted = select  #: where to stand as soon as the way there is known
        self._find = find  #: what the tree is searched for as soon as it has been read
        self._openings = 0
        self._graph_seconds = 0.0
        self._shown: Place | None = None  #: whose detail is shown
        self._unfold_later: Place | None = None

    # -- what it is made of --------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The tree under its heading, and the detail; the tree as it was left."""
        self._return()
        heading = Heading(columns_for, zone=lambda: self.session.zone, id="heading")
        tree = Rows(heading, self.lines, id="tree-pane")
        yield TwoPanes(tree, self.text, shares=(2 / 3, 0.6), beside=WIDE)

    def on_mount(self) -> None:
        """Write times as the operator wants them."""
        self.lines.show_times_in(self.session.zone)

    def where(self) -> str:
        """Whose summaries."""
        return f"Summary DAG of {self.session.called(self.conversation)}"

    def main_widget(self) -> SummaryTree:
        """The tree."""
        return self.lines

    def finder(self) -> Finder:
        """The text when it has the focus, else the tree."""
        return self._in_text if self.text.has_focus else self._in_tree

    def selected_id(self) -> str | None:
        """The id of the summary, or of the message."""
        place = self.lines.selected
        return None if place is None or isinstance(place.step, Section) else str(place.step)

    def step_back(self) -> bool:
        """Leave the text first."""
        if not self.text.has_focus:
            return super().step_back()
        self.lines.focus()
        return True

    def actions(self) -> Sequence[Action]:
        """Unfolding, where a row leads, and what can be done with a summary."""
        return bound(
            self,
            *conversation_links(self, self.conversation),
            *rewrite_actions(self, self.conversation, self._rewritable),
            *dissolve_actions(
                self,
                self.conversation,
                self.marks,
                selected=lambda: self.lines.summary,
                why_not=self._why_not_dissolved,
            ),
            *step_actions(self, self.conversation),
            Action("open", self._open_row, self._why_not_open),
            Action("other-view", self._show_map),
            Action("expand", self._expand, self._why_not_expanded),
            Action("context", self._open_context),
            Action("previous", self._open_previous, self._why_no_previous),
            Action("elsewhere", self._go_elsewhere, self._why_not_elsewhere),
            Action("fold-all", self._fold_all),
            Action("unfold-all", self._unfold_all),
        )

    # -- coming back -------------------------------------------------------------------------------------

    def _return(self) -> None:
        """Unfold what was unfolded when this tree was left, and put the cursor back."""
        left = self.session.left.get(key_of(self.conversation_id)) if self.then is None else None
        if isinstance(left, Folding):
            select = self._wanted in (None, left.summary)
            self.lines.return_to(left, select=select)
            if select:
                self._wanted = None

    def on_screen_suspend(self) -> None:
        """Another screen comes to the front, perhaps in place of this one."""
        if self.then is None:
            self.session.left[key_of(self.conversation_id)] = self.lines.left_as()

    # -- the tree ----------------------------------------------------------------------------------------

    def look_at(self, session: Session, conversation_id: ConversationId, point: Point | None) -> None:
        """Another moment has another graph: its first rows come before the whole."""
        super().look_at(session, conversation_id, point)
        self.lines.known.survey = None

    async def fetch(self) -> Reading:
        """The context's references; once the whole graph was read, all of it again, but not all the time."""
        known = self.lines.known.survey
        if known is not None:
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._graph_seconds))
            return await read_all(self.session, self.conversation_id, known)
        unfolded = [place.step for place in self.lines.unfolding.unfolded if isinstance(place.step, str)]
        ids = [SummaryId(step) for step in unfolded]
        return await read_opening(self.session, self.conversation_id, select=self._wanted, unfolded=ids)

    def show(self, data: Reading) -> None:
        """Show the tree as it is now; selection, unfolding and place stay by path."""
        known = self.lines.known
        if data.survey is None and known.survey is not None:
            return  # the graph has overtaken it
        self._graph_seconds = data.seconds
        again = known.survey is not None or (data.survey is None and self._openings > 0)
        if again:
            known.grow_old()
            self._want_detail()
        if data.survey is None or data.survey is not known.survey:
            self._show_tree(data, again=again)
        self._read_on()

    def _show_tree(self, data: Reading, *, again: bool) -> None:
        """Lay the rows anew and mark those of summaries that were not there before."""
        lines, known = self.lines, self.lines.known
        before = known.ids
        known.learn_opening(data.opening)
        if data.survey is None:
            self._openings += 1
        else:
            lines.take_survey(data.survey)
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
            self.app.notify(f"{wanted} is not in this conversation.", severity="warning")
        return None

    def _read_on(self) -> None:
        """Start what a new state of the tree calls for."""
        if self.lines.known.survey is None:
            self._behind.start("graph", self._read_graph)
        elif (later := self._unfold_later) is not None:
            self._unfold_later = None
            self.lines.unfold_below(later)
        self._behind.fill()
        self._say_count()
        self.work_on("stale", self._read_stale)
        if self._find:
            self.work_on("search-prompt", self._in_tree.look_for, self._find)
            self._find = ""

    async def _read_graph(self) -> None:
        """Read the whole graph for the first time, behind the first rows."""
        openings = self._openings
        self.post_message(self.Loaded(await read_all(self.session, self.conversation_id, None)))
        if self._openings != openings:  # the file changed meanwhile
            self.load()

    async def _read_stale(self) -> None:
        self.lines.show_stale(await read_stale(self.session, self.conversation_id))

    @on(LineView.Scrolled, "#lines")
    def _scrolled(self) -> None:
        self._behind.fill_rows()

    def stand_on(self, ref: str | int) -> None:
        """Stand on a summary as soon as the way there is known."""
        if isinstance(ref, str):
            self._wanted = SummaryId(ref)
            self.load()

    def _say_count(self) -> None:
        """How many are marked and found, and how many there are."""
        known = self.lines.known
        counts = [self.marks.text, self._in_tree.place]
        if known.survey is not None:
            counts.append(f"{len(known.survey.graph.nodes):,} summaries")
        counts.append(f"{len(known.ordinals):,} in the context")
        if known.survey is None:
            counts.append("reading all …")
        self.title_bar.note = " · ".join(filter(None, counts))

    # -- the detail ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#lines")
    def _want_detail(self) -> None:
        self.work_on("detail", self._read_detail, self.lines.selected)

    async def _read_detail(self, place: Place | None) -> None:
        """Read the detail of a row; the one before stays until it is there."""
        await asyncio.sleep(DETAIL_SECONDS)
        document = await detail_of(self.session, self.lines.known, place)
        same = place is self._shown
        await self.text.load(document, keep_place=same)
        if self._in_tree.needle and not same:
            self._in_text.stand_on_match(self._in_tree.needle)
        self._shown = place

    # -- searching -----------------------------------------------------------------------------------------

    async def _texts_with(self, needle: str) -> Collection[SummaryId]:
        return await self.session.read(lineage.summaries_with, self.conversation_id, needle)

    def _match_selected(self) -> None:
        self._behind.fill()
        self._say_count()

    # -- folding -------------------------------------------------------------------------------------------

    @on(LineView.Sided, "#lines")
    def _sided(self, event: LineView.Sided) -> None:
        place = self.lines.selected
        if place is not None:
            (self.lines.step_out if event.side < 0 else self.lines.step_in)(place)
            self._behind.fill()

    def _why_not_open(self) -> str | None:
        place = self.lines.selected
        if place is None:
            return "nothing is selected"
        if self.text.has_focus:
            return "the text has the focus: esc goes back to the tree"
        if isinstance(place.step, int):
            source = self.lines.message
            if source is None or source.message is None:
                return "the message's row is missing"
            owner = source.message.conversation_id
            return None if owner == self.conversation_id else f"the message is of conversation {owner}"
        if place.repeats:
            return "this is a cycle: the summary is already above"
        return None if self.lines.can_unfold(place) else "no source of it is recorded"

    def _open_row(self) -> None:
        """Unfold or fold a summary or a heading; open the conversation at a message."""
        place, source = self.lines.selected, self.lines.message
        if source is not None and source.message is not None:
            self.open(places.Messages(self.conversation, seq=source.message.seq))
        elif place is not None:
            self.lines.toggle(place)
            self._behind.fill()

    def _show_map(self) -> None:
        """Show the same summaries over the messages; of a message the leaf, so that `m` leads back to it."""
        self.open_instead(places.CoverageMap(self.conversation, self.lines.left_as().summary))

    def _why_not_expanded(self) -> str | None:
        summary_id = self.lines.summary
        if summary_id is None:
            return "no summary is selected"
        return "the summary is deleted (row missing)" if summary_id in self.lines.known.gone else None

    def _expand(self) -> None:
        """Read the selected summary down level by level."""
        if (summary_id := self.lines.summary) is not None:
            self.open(places.Expansion(self.conversation, summary_id))

    def _fold_all(self) -> None:
        self.lines.fold_all()
        self._behind.fill()

    def _unfold_all(self) -> None:
        """Unfold everything below the selected row; a leaf shows its messages."""
        lines, place = self.lines, self.lines.selected
        if place is None:
            return
        leaf = lines.summary is not None and lines.known.is_leaf(lines.summary)
        if leaf and lines.can_unfold(place) and not lines.is_unfolded(place):
            lines.toggle(place)
        elif lines.known.survey is None:
            self._unfold_later = place
            return
        else:
            lines.unfold_below(place)
        self._behind.fill()

    def _why_not_elsewhere(self) -> str | None:
        place = self.lines.selected
        there = place is not None and self.lines.known.elsewhere(place) is not None
        return None if there else "it appears nowhere else"

    def _go_elsewhere(self) -> None:
        """Go to the next place where this summary stands."""
        place = self.lines.selected
        path = self.lines.known.elsewhere(place) if place is not None else None
        if path is not None:
            self.lines.reveal(path)
            self._behind.fill()

    # -- going on ------------------------------------------------------------------------------------------

    def _open_context(self) -> None:
        """Show the context, at the nearest consumer of the selected row that it holds."""
        place, ordinals = self.lines.selected, self.lines.known.ordinals
        above = place.upward() if place is not None else ()
        held = (SummaryId(found.step) for found in above if isinstance(found.step, str))
        found = next((summary_id for summary_id in held if summary_id in ordinals), None)
        select = ("summary", found) if found is not None else None
        self.open(places.Context(self.conversation, select=select))

    def _why_no_previous(self) -> str | None:
        summary_id, known = self.lines.summary, self.lines.known
        if summary_id is None:
            return "no summary is selected"
        if summary_id in known.gone:
            return "the summary is deleted (row missing)"
        return (
            "Only leaves are written with a previous context" if known.is_leaf(summary_id) is False else None
        )

    def _open_previous(self) -> None:
        if (summary_id := self.lines.summary) is not None:
            self.open(places.Previous(self.conversation, summary_id))

    # -- changes -------------------------------------------------------------------------------------------

    def _rewritable(self) -> SummaryId | None:
        """The selected summary, when it has a row."""
        selected = self.lines.summary
        return None if selected in self.lines.known.gone else selected

    def _why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """What the tree knows of it: a leaf, gone, or not in the context."""
        known = self.lines.known
        if summary_id in known.gone:
            return "the summary is deleted (row missing)"
        return why_not_dissolved(known.is_leaf(summary_id), len(known.ordinals.get(summary_id, ())), below)

    def _marks_changed(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw their rows again."""
        self.lines.redraw(self.lines.places_of(summary_ids))
        self._say_count()
