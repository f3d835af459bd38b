"""The summary DAG of a conversation: an expandable tree, and beside it what the selected row says."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId, ItemId, SummaryId
from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.store import summaries as store
from lcm_core.store.messages import get_message
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import Heading
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, Marks, TextFinder
from lcm_tui.kit.panes import Rows, TwoPanes
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Document, Span, heading
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions, picks
from lcm_tui.screens.coverage import ZOOM, CoveragePane
from lcm_tui.screens.dag_lines import ReadBehind, SummaryTree, TreeFinder
from lcm_tui.screens.dag_tree import (
    Folding,
    Known,
    Place,
    Section,
    Survey,
    key_of,
    survey,
)
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.summaries import message_document, read_summary_document

if TYPE_CHECKING:
    from textual.timer import Timer


# -- the detail ------------------------------------------------------------------------------------------
# What the pane beside the tree says about a row.

_SECTIONS = {
    Section.ORPHANS: (
        "Orphans",
        "Summaries that are not in the context of this conversation and that no other summary was made from: "
        "the model cannot reach them. This is normal after /new and in an archived conversation; otherwise a "
        "write stopped between storing the summary and adding it to the context.",
    ),
    Section.CYCLES: (
        "Cycles",
        "Summaries that, by the recorded edges, are made from themselves, and everything below them. They "
        "are not reachable from the context. One summary of each cycle is listed here; it is marked again "
        "where the cycle closes.",
    ),
    Section.DANGLING: (
        "Dangling ids",
        "Ids that the context or a summary of this conversation refers to, without a summary in this "
        "conversation. The engine skips them without a warning. If the row is in another conversation, that "
        "number is shown.",
    ),
}


async def detail_of(session: Session, known: Known, place: Place | None) -> Document:
    """The document for a row; reads what it needs."""
    if place is None:
        return ()
    match place.step:
        case Section() as section:
            title, said = _SECTIONS[section]
            return (heading(title), Block(), Block(said))
        case str():
            return await _summary(session, known, SummaryId(place.step))
        case _:
            return await _message(session, known, place)


async def _summary(session: Session, known: Known, summary_id: SummaryId) -> Document:
    try:
        return await read_summary_document(session, summary_id)
    except NotFoundError:
        return await _gone(session, known, summary_id)


async def _gone(session: Session, known: Known, summary_id: SummaryId) -> Document:
    """What still names a summary whose row is gone."""
    edges = await session.read(store.consumers_of, summary_id)
    ordinals = known.ordinals.get(summary_id, ())
    return (
        Block(spans=(Span(summary_id, "title"), Span("  ✗ row missing", "error"))),
        Block(),
        Block("No summary of this database has this id. It is named by:"),
        *(Block(f"the context, at ordinal {ordinal}", indent=2) for ordinal in ordinals),
        *(Block(f"{edge.consumer}, as its source {edge.ordinal}", indent=2) for edge in edges),
    )


async def _message(session: Session, known: Known, place: Place) -> Document:
    source = known.message_of(place)
    try:
        entry = await session.read(get_message, source.message_id if source else -1)
    except NotFoundError:
        return (
            Block(spans=(Span(f"m{place.step}", "title"), Span("  ✗ row missing", "error"))),
            Block(),
            Block("The leaf names this message, and no message of this database has this id."),
        )
    return await asyncio.to_thread(message_document, entry, zone=session.zone)


# -- what it reads ---------------------------------------------------------------------------------------
# The graph, and which summaries are stale.


class Reading(Record, frozen=True):
    """What one fetch brings."""

    ordinals: tuple[tuple[SummaryId, int], ...]  #: of the summaries in the context
    survey: Survey
    seconds: float  #: that reading it took


async def read_tree(session: Session, conversation_id: ConversationId, known: Survey) -> Reading:
    """The whole graph; what is *known* of it as long as its rows are as they were."""
    begun = time.monotonic()
    whole = await session.read(store.whole_tree, conversation_id)
    if known.columns != whole.columns:
        known = await asyncio.to_thread(lambda: survey(whole.columns.graph, whole.columns))
    return Reading(whole.ordinals, known, time.monotonic() - begun)


# -- the screen ------------------------------------------------------------------------------------------

#: Cells from which the detail stands beside the tree and not below it.
WIDE = 110
#: A cursor that runs on reads nothing.
DETAIL_SECONDS = 0.06
#: Reading the whole graph again takes at most one part in so many of the time.
SHARE = 5
LONGEST_WAIT = 0.6
#: The map of more summaries is late: the tree does not wait for it.
MANY = 2_000
#: After all texts were read, the next reading waits so many times as long.
CALM = 20


class DagScreen(DataScreen[Reading]):
    """The summaries of one conversation, from those of the context down to leaves and their messages."""

    HELP = """
The summaries of this conversation and their sources.

enter or l unfolds, h folds or goes to the summary above, Z unfolds everything below the selected row (again:
everything), z folds all.

Top-level rows are the summaries in the context, in its order; below each are its sources in the order in
which they were condensed, and below a leaf its messages. Messages unfold leaf by leaf; enter on one opens the
conversation there. L, and enter in the text (tab), list the messages that each line of a summary comes from;
of a message, the summaries that tell of it.

D1 D2 … is a condensed summary of that depth. "below" counts the summaries below it as stored, or a leaf's
messages; "ordinal" is its place in the context, from 0 on; "broken" says what is wrong with its text (✗
fallback), how many broken summaries a folded row hides ("5 below"; "✗ +5 below" if it is broken itself), or
stale: one of its sources was rewritten since. ! goes to the next broken or stale summary; without a search, n
does too, and N goes to the previous one. "begins" shows how its text begins. Ids are as short as tells
them apart (y copies a whole one). ×2 means that two summaries use it: O goes to the next place. Headings at
the end list what no row in the context leads to: orphans, cycles, and ids without a row.

d previews dissolving a condensed summary of the context: its sources take its place. space marks summaries
(●), and d then dissolves all of them: several of the context, or one and its sources. u previews undoing the
newest change, U lists all. r drafts a new text for a summary, W for it and everything below it, R lists
broken summaries.

The map above the tree (m folds it away or shows it, tab goes there) has the messages from left to right, and
in each row the summaries of a depth over what they cover; the selected one is marked, and what is chosen in
the map is selected in the tree. ← → go along the messages, ↑ ↓ to what was made from a summary and to its
sources, page keys by what is shown; + and - zoom. The row "context" is what the model reads: a digit is the
depth of the summary, L a leaf, m a message itself, t the fresh tail, ! messages that are in no form in the
context (after /new on purpose), & messages that are in it twice; in another row & is what several summaries
cover. The legend has the other signs; the selected block, and without colours every one, is drawn in letters:
c in the context, u under another, o orphan, b broken, s stale; a capital where a summary begins (Cccc). Where
a cell stands for several summaries, one that is broken, orphan or stale decides. M goes to the first message.

> reads what is below the selected summary level by level, with the tokens that each level costs.

[ and ] step through this conversation's changes and compactions: the DAG as it was before each, and at last
as it is now. The past is read-only.

/ finds ids, models, failures and text in all summaries, or in the text beside the tree when that has the
focus (tab); n and N go to the next and the previous match.
"""

    def __init__(
        self, conversation: Conversation, *, select: SummaryId | None = None, find: str = ""
    ) -> None:
        """*find*: what was found in the text of the selected summary, which is shown there."""
        super().__init__()
        self.conversation = conversation
        self.conversation_id = conversation.conversation_id
        self.marks = Marks[SummaryId](self._marks_changed)
        self.steps = actions.Steps(self, conversation)
        self.lines = SummaryTree(self.conversation_id, self.marks)
        self.lines.also_moves("fold, then up to what was made from it; unfold, then down to its first source")
        self.map = CoveragePane(conversation, self._choose)
        self.text = TextView(id="text")
        self._in_tree = TreeFinder(self.lines, self._texts_with, self._match_selected)
        self._in_text = TextFinder(self.text)
        self._behind = ReadBehind(self, self.lines)
        self._wanted = select  #: where to stand as soon as the way there is known
        self._find = find  #: what the tree is searched for as soon as it has been read
        self._graph_seconds = 0.0
        self._unmapped = False  #: the map has to be read
        self._outdated = False  #: which texts are broken has to be read again
        self._calm_until = 0.0  #: but not before this moment
        self._later: Timer | None = None  #: of that moment
        self._shown: Place | None = None  #: whose detail is shown

    # -- what it is made of --------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The map, the tree under its heading, and the detail; all as it was left."""
        self._return()
        self.map.fold_as_left(self.session)
        yield self.map
        heading = Heading(self.lines.known.columns, zone=lambda: self.session.zone, id="heading")
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

    def step_back(self) -> bool:
        """Out of the text, a search, the past; then the screen is left."""
        return super().step_back() or self.steps.back()

    def finder(self) -> Finder:
        """The text when it has the focus, else the tree."""
        return self._in_text if self.text.has_focus else self._in_tree

    def in_key_bar(self) -> list[str]:
        """The next match only after a search; broken ones are gone through with the key that began it."""
        return [name for name in super().in_key_bar() if name != "next" or self._in_tree.needle]

    def selected_id(self) -> str | None:
        """The id of the summary, or of the message."""
        place = self.lines.selected
        return None if place is None or isinstance(place.step, Section) else str(place.step)

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

    async def fetch(self) -> Reading:
        """The whole graph; of a large one not all the time."""
        if self.lines.surveyed.is_set():
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._graph_seconds))
        found = await read_tree(self.session, self.conversation_id, self.lines.known.survey)
        if self.map.display and len(found.survey.visits) <= MANY:
            await self.map.read(self.session)
        return found

    def show(self, data: Reading) -> None:
        """Show the tree as it is now; selection, unfolding and place stay by path."""
        lines, known = self.lines, self.lines.known
        self._graph_seconds = data.seconds
        again, before = lines.surveyed.is_set(), known.ids
        if again:
            known.grow_old()
            self._want_detail()
        ordinals = known.ordinals
        known.learn_ordinals(data.ordinals)
        if data.survey is not known.survey or known.ordinals != ordinals or self._wanted or not again:
            lines.take_survey(data.survey)
            self.query_one("#heading").refresh()
            lines.lay_rows(self._place_wanted())
            if again:
                lines.mark_fresh(lines.places_of(known.ids - before), arrived=not self.moving)
        self._read_on()

    def _place_wanted(self) -> Place | None:
        """The place of the summary that was asked for."""
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return None
        path = self.lines.known.path_to(wanted)
        if path is None:
            self.app.notify(f"{wanted} is not in this conversation.", severity="warning")
            return None
        return self.lines.unfolded_to(path)

    def _read_on(self) -> None:
        """Start what a new state of the tree calls for."""
        self._behind.fill()
        if len(self.lines.known.survey.visits) <= MANY:
            self.map.show(self._covering)
        else:
            self._unmapped = True
            self._behind.start("map", self._read_map)
        self._say_count()
        self._outdated = True
        self._behind.start("wrong", self._read_wrong)
        if self._find:
            self.work_on("search-prompt", self._in_tree.look_for, self._find)
            self._find = ""

    async def _read_wrong(self) -> None:
        """Read every text, again when the file has changed, but not all the time."""
        from lcm_core.operations.stale import read_wrong

        while self._outdated:
            if (wait := self._calm_until - time.monotonic()) > 0:
                self._later = self._later or self.set_timer(wait, self._judge)
                return
            self._outdated = False
            begun = time.monotonic()
            try:
                wrong = await self.session.read(read_wrong, self.conversation_id)
                self.lines.show_wrong(wrong)
                await self.map.learn_wrong(wrong)
                self.map.show(self._covering)
            finally:
                self.lines.judged.set()  # whoever waits for it goes on with what is known
            self._in_tree.take_broken()
            self._say_count()
            now = time.monotonic()
            self._calm_until = now + CALM * (now - begun)

    # -- the map -----------------------------------------------------------------------------------------

    @property
    def _covering(self) -> SummaryId | None:
        """The selected summary, or the leaf of the selected message: the map marks it."""
        return self.lines.left_as().summary

    async def _read_map(self) -> None:
        """Read the map behind the rows, again when the file has changed; not while it is folded away."""
        while self._unmapped and self.map.display:
            self._unmapped = False
            if self.map.rows.coverage is None:
                nodes = self.lines.known.survey.graph.nodes.values()
                self.map.expect(Counter(node.depth or 0 for node in nodes))
            await self.map.read(self.session)
            self.map.show(self._covering)

    def _choose(self, summary_id: SummaryId) -> None:
        """Stand on what was chosen in the map."""
        path = self.lines.known.path_to(summary_id)
        if path is not None and summary_id != self._covering:
            self.lines.reveal(path)
            self._behind.fill()

    def _fold_map(self) -> None:
        """Fold the map away, or show it and go there."""
        self.map.toggle(self.session)
        if self.map.display:
            self._unmapped = True
            self._behind.start("map", self._read_map)
            self.map.rows.focus()
        else:
            self.lines.focus()
        self.refresh_bars()
        self.work_on("remember", asyncio.to_thread, self.session.remembered.write)

    def _why_no_map(self) -> str | None:
        return None if self.map.display else f"the map is folded away: {self.key_of('other-view')} shows it"

    def _judge(self) -> None:
        """Read which texts are broken, unless that was done just now."""
        self._later = None
        self._behind.start("wrong", self._read_wrong)

    @on(LineView.Scrolled, "#lines")
    def _scrolled(self) -> None:
        self._behind.fill_rows()

    def stand_on(self, ref: str | int) -> None:
        """Stand on a summary."""
        if isinstance(ref, str):
            self._wanted = SummaryId(ref)
            self.load()

    def _say_count(self) -> None:
        """How many are marked and found, and how many there are."""
        known = self.lines.known
        counts = [self.marks.text, self._in_tree.place]
        counts += [counted(len(known.ids), "summary"), f"{len(known.ordinals):,} in the context"]
        self.title_bar.note = " · ".join(filter(None, counts))

    # -- the detail ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#lines")
    def _want_detail(self) -> None:
        self.work_on("detail", self._read_detail, self.lines.selected)

    async def _read_detail(self, place: Place | None) -> None:
        """Mark a row in the map and read its detail; the one before stays until it is there."""
        await asyncio.sleep(DETAIL_SECONDS)
        self.map.follow(self._covering)
        document = await detail_of(self.session, self.lines.known, place)
        same = place is self._shown
        await self.text.load(document, keep_place=same)
        if self._in_tree.needle and not same:
            self._in_text.stand_on_match(self._in_tree.needle)
        self._shown = place

    # -- searching -----------------------------------------------------------------------------------------

    async def _texts_with(self, needle: str) -> Collection[SummaryId]:
        return await self.session.read(store.summaries_with, self.conversation_id, needle)

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
        if self.map.rows.has_focus:
            return None
        if self.text.has_focus:
            return "select a summary or a message" if self._traced() is None else None
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
        """Unfold or fold a summary or heading; open a message or the trace of a text; leave the map."""
        place, source = self.lines.selected, self.lines.message
        if self.map.rows.has_focus:
            self.lines.focus()
        elif self.text.has_focus:
            actions.open_trace(self, self._traced(), self.text.line)
        elif source is not None and source.message is not None:
            self.open(places.Messages(self.conversation, seq=source.message.seq))
        elif place is not None:
            self.lines.toggle(place)
            self._behind.fill()

    def _traced(self) -> ItemId:
        """The selected summary or message."""
        return self.lines.summary if self.lines.message is None else self.lines.message.message_id

    def _why_none_broken(self) -> str | None:
        lines = self.lines
        return (
            None if lines.known.wrong or not lines.judged.is_set() else "no summary here is broken or stale"
        )

    def _go_to_broken(self) -> None:
        """Stand on the next broken or stale summary; `n` and `N` go on in the tree."""
        self.lines.focus()
        self.work_on("search", self._step_to_broken, exclusive=False)

    async def _step_to_broken(self) -> None:
        if problem := await self._in_tree.go_to_broken():
            self.app.notify(problem, timeout=3)

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

    async def _open_messages(self) -> None:
        """Go to the first message of the selected summary, or to the selected one."""
        message, covering = self.lines.message, self._covering
        if message is not None and message.message is not None:
            self.open(places.Messages(self.conversation, seq=message.message.seq))
        elif covering is not None:
            found = await self.session.read(store.seq_ranges, self.conversation_id, [covering])
            if covering in found:
                self.open(places.Messages(self.conversation, seq=found[covering].first))
            else:
                self.app.notify("It covers no message of this conversation.", timeout=4)

    # -- changes -------------------------------------------------------------------------------------------

    def _rewritable(self) -> SummaryId | None:
        """The selected summary, when it has a row."""
        selected = self.lines.summary
        return None if selected in self.lines.known.gone else selected

    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """What the tree knows of it: a leaf, gone, or not in the context."""
        known = self.lines.known
        if summary_id in known.gone:
            return "the summary is deleted (row missing)"
        return actions.why_not_dissolved(
            known.is_leaf(summary_id), len(known.ordinals.get(summary_id, ())), below
        )

    def _held_above(self, summary_id: SummaryId) -> SummaryId | None:
        """What of the context was made from a condensed summary that is not in it."""
        known = self.lines.known
        if known.is_leaf(summary_id) is not False or summary_id in known.ordinals or summary_id in known.gone:
            return None
        return known.survey.graph.held_above(summary_id)

    def _marks_changed(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw their rows again."""
        self.lines.redraw(self.lines.places_of(summary_ids))
        self._say_count()

    KEYS: ClassVar[Sequence[Key[DagScreen]]] = (
        commands.OPEN.does(_open_row, _why_not_open, title_now=lambda s: "Lines" if s.text.has_focus else ""),
        commands.OTHER_VIEW.does(
            _fold_map,
            title="Map",
            help="Show the coverage map over the tree, or fold it away.",
            title_now=lambda s: "Fold map" if s.map.display else "",
        ),
        *actions.edit_keys(_rewritable, hidden=False),
        actions.trace_key(_traced, hidden=False),
        actions.dissolve_key(lambda s: s.lines.summary, held_above=_held_above),
        commands.NEXT_BROKEN.does(
            _go_to_broken,
            _why_none_broken,
            help="Go to the next broken or stale summary; without a search, n goes on and N goes back.",
        ),
        commands.NEXT,
        actions.rewrite_key(_rewritable),
        commands.EXPAND.does(_expand, _why_not_expanded),
        actions.repair_key(lambda s: s.conversation, only=True),
        actions.rewrite_subtree_key(_rewritable),
        commands.CONTEXT.does(_open_context),
        actions.previous_key(
            lambda s: s.lines.summary, lambda s, summary_id: s.lines.known.is_leaf(summary_id)
        ),
        actions.ITS_COMPACT,
        actions.mark_key(lambda s: s.lines.summary),
        actions.ITS_HEALTH,
        actions.UNDO_NEWEST,
        actions.ITS_HISTORY,
        actions.ITS_FILES,
        Key(
            "elsewhere",
            "O",
            "Next place",
            "Go to the next place this summary appears in the DAG.",
            _go_elsewhere,
            _why_not_elsewhere,
            hidden=True,
        ),
        Key(
            "zoom-in",
            "plus",
            "Zoom in",
            "Show fewer messages in the map, around the selected summary.",
            lambda s: s.map.rows.zoom(1 / ZOOM),
            lambda s: s._why_no_map() or s.map.rows.why_not_closer(),
            hidden=True,
        ),
        Key(
            "zoom-out",
            "minus",
            "Zoom out",
            "Show more messages in the map, around the selected summary.",
            lambda s: s.map.rows.zoom(ZOOM),
            lambda s: s._why_no_map() or s.map.rows.why_not_wider(),
            hidden=True,
        ),
        commands.MESSAGES.does(
            _open_messages,
            lambda s: "no summary is selected" if s._covering is None else None,
            help="Go to the first message that the selected summary covers.",
            hidden=True,
        ),
        commands.FOLD_ALL.does(_fold_all),
        Key(
            "unfold-all",
            "Z",
            "Unfold all",
            "Unfold everything below the selected row.",
            _unfold_all,
            hidden=True,
        ),
        *actions.STEPS,
        picks.AS_IT_WAS,
    )
    COMMON: ClassVar[Sequence[Key[DagScreen]]] = (actions.ITS_ENGINE, actions.BACK_FROM_PAST)
