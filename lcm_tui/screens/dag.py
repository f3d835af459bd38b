"""The summary DAG of a conversation: an expandable tree, and beside it what the selected row says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Container, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, ClassVar

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.values import Record, replace
from lcm_core.store import lineage
from lcm_core.store import summaries as store
from lcm_core.store.lineage import SourceMessage
from lcm_core.store.messages import get_message
from lcm_core.store.summaries import SummaryEntry
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import Heading
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, Marks, TextFinder
from lcm_tui.kit.panes import Rows, TwoPanes
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Document, Line, Span, heading
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions, pruning
from lcm_tui.screens.dag_tree import (
    Folding,
    Known,
    Match,
    Painter,
    Place,
    Section,
    Survey,
    Tree,
    Way,
    Wrong,
    key_of,
    read_wrong,
    survey,
)
from lcm_tui.screens.frame import CommandScreen, DataScreen
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


# -- the tree --------------------------------------------------------------------------------------------
# What is unfolded, and where the cursor is, by path.

#: A heading over more than so many is folded at first.
FEW = 5


class SummaryTree(LineView[Place]):
    """The rows of one conversation's summaries; it reads nothing and says what it needs."""

    def __init__(self, conversation_id: ConversationId, marks: Container[SummaryId] = ()) -> None:
        """*marks*: the summaries that the operator has marked."""
        super().__init__(self._draw_place, empty="Reading …", id="lines")
        self.known = Known(conversation_id)
        self.unfolding = Tree()
        self.surveyed = asyncio.Event()  #: the graph was read
        self.judged = asyncio.Event()  #: which texts are broken was read
        self._painter = Painter(self.known, self.unfolding, None, marks)
        self._sections: set[Section] = set()  #: headings that were there before
        self._returning: tuple[Way, int] | None = None  #: to where the cursor was, and in which row

    # -- what is selected ----------------------------------------------------------------------------------

    @property
    def summary(self) -> SummaryId | None:
        """The selected summary."""
        place = self.selected
        return SummaryId(place.step) if place is not None and isinstance(place.step, str) else None

    @property
    def message(self) -> SourceMessage | None:
        """The selected message."""
        return self.known.message_of(self.selected) if self.selected is not None else None

    # -- what it shows -------------------------------------------------------------------------------------

    def left_as(self) -> Folding:
        """What is unfolded, and where the cursor is; before it could return there, where it should."""
        way, row = self._returning or (
            self.selected.path if self.selected is not None else (),
            self._offset(self._cursor) - self._top,
        )
        return Folding(self.unfolding, self._sections, way, row)

    def return_to(self, left: Folding, *, select: bool) -> None:
        """Unfold what was left unfolded; *select*: the cursor goes back to its row once that is read."""
        self.unfolding, self._sections = left.tree, left.sections
        self._painter = replace(self._painter, tree=left.tree)
        self._returning = (left.way, left.row) if select and left.way else None

    def _place_on(self, way: Way) -> Place | None:
        """As far on a way as is known, unfolded; None: nothing of it is there."""
        at, place = self.known.tops, self.unfolding.top
        for step in way:
            if step not in at:
                break
            place = place.to(step)
            at = list(self.known.below(step))
        if place is self.unfolding.top:
            return None
        self.unfolding.unfold_above(place)
        return place

    def lay_rows(self, select: Place | None = None) -> None:
        """Compute all rows again, from what is known and unfolded; the cursor stays on its summary."""
        if select is not None:
            self._returning = None
        returning = self._returning
        if returning is not None:
            select = self._place_on(returning[0])
        rows = self.unfolding.rows(self.known.tops, self.known.below)
        if select is None and self.selected is not None and self.selected not in rows:
            select = self._place_now(self.selected)
            rows = self.unfolding.rows(self.known.tops, self.known.below)
        self.replace(rows, select=select, changed=False)
        if returning is not None and select is not None:
            self._show_from(self._offset(self._cursor) - returning[1])
            if select.path == returning[0]:
                self._returning = None
        self.redraw()

    def _move_to(self, place: int, *, reveal: bool = True) -> None:
        """Whoever moves the cursor does not want to return any more."""
        self._returning = None
        super()._move_to(place, reveal=reveal)

    def _place_now(self, place: Place) -> Place | None:
        """Where what stood at a place stands now, unfolded to; None when it stands nowhere any more."""
        above = place.above
        if isinstance(place.step, str):
            path = self.known.path_to(SummaryId(place.step))
        elif place.step is not None and above is not None and isinstance(above.step, str):
            path = self.known.path_to(SummaryId(above.step))
            if path is not None and place.step in self.known.below(above.step):
                path = (*path, place.step)
        else:
            path = None
        return None if path is None else self.unfolded_to(path)

    def show_times_in(self, zone: tzinfo | None) -> None:
        """Write times in a time zone; None: that of the machine."""
        self._painter = replace(self._painter, zone=zone)

    def show_wrong(self, wrong: Wrong) -> None:
        """Say which summaries are broken or stale, and how many are broken below those that are folded."""
        if self.known.learn_wrong(wrong):
            self.redraw()

    def take_survey(self, found: Survey) -> None:
        """Take the whole graph; what was unfolded below a root stays so when something was made from it."""
        roots = self.known.roots
        self.known.learn_survey(found)
        self.surveyed.set()
        self.empty = "This conversation has no summaries."
        for section, nodes in found.sections.items():
            if section not in self._sections and (len(nodes) <= FEW or not found.graph.roots):
                self.unfolding.unfolded.add(self.unfolding.at((section,)))
        self._sections = set(found.sections)
        for root in set(roots) - set(self.known.roots):
            path = self.known.path_to(root)
            if path is not None and path[0] != root:
                self.unfolding.graft(self.unfolding.at((root,)), self.unfolding.at(path))

    def unfolded_to(self, path: Way) -> Place:
        """The place at the end of *path*, with everything above it unfolded."""
        place = self.unfolding.at(path)
        self.unfolding.unfold_above(place)
        return place

    def reveal(self, path: Way) -> None:
        """Stand on the place at the end of *path*."""
        self.lay_rows(self.unfolded_to(path))

    # -- folding -------------------------------------------------------------------------------------------

    def can_unfold(self, place: Place | None) -> bool:
        """Whether a place can be unfolded, or folded again."""
        if place is None or place.step is None:
            return False
        return self.known.can_unfold(place.step) and not place.repeats

    def is_unfolded(self, place: Place) -> bool:
        """Whether what is below a place is shown."""
        return place in self.unfolding.unfolded

    def toggle(self, place: Place) -> None:
        """Unfold a place, or fold it."""
        if self.can_unfold(place):
            self.unfolding.unfolded ^= {place}
            self._respread(place)

    def _respread(self, place: Place) -> None:
        """Show what is below a place now, and leave all other rows as they are."""
        index = self.index_of(place)
        if index is not None:
            rows = self.unfolding.respliced(self.keys, index, self.known.below)
            self.replace(rows, changed=False)
            self.redraw([place])

    def step_out(self, place: Place) -> None:
        """Fold a place; from one that is folded go to its consumer."""
        if self.is_unfolded(place):
            self.toggle(place)
        elif place.above is not None:
            self.select(place.above)

    def step_in(self, place: Place) -> None:
        """Unfold a place; from one that is unfolded go to the first below it."""
        if not self.is_unfolded(place):
            self.toggle(place)
        elif place.step is not None and (below := self.known.below(place.step)):
            self.select(place.to(below[0]))

    def fold_all(self) -> None:
        """Fold everything; the cursor goes out to the left margin."""
        above = list(self.selected.upward()) if self.selected is not None else [None]
        self.unfolding.unfolded.clear()
        self.lay_rows(above[-1])

    def unfold_below(self, place: Place) -> None:
        """Unfold every summary below a place; when nothing was folded there, below everything."""
        tree, known = self.unfolding, self.known
        starts = [place]
        opened = False
        if isinstance(place.step, Section):
            opened = place not in tree.unfolded
            tree.unfolded.add(place)
            starts = [place.to(step) for step in known.below(place.step)]
        if not tree.unfold_all(starts, known.edges) and not opened:
            tops = [tree.top.to(step) for step in known.tops]
            tree.unfolded.update(top for top in tops if isinstance(top.step, Section))
            below = [
                top.to(step)
                for top in tops
                if isinstance(top.step, Section)
                for step in known.below(top.step)
            ]
            tree.unfold_all([*tops, *below], known.edges)
        self.lay_rows()

    # -- what it needs -------------------------------------------------------------------------------------

    def unread_rows(self) -> list[SummaryId]:
        """The summaries in sight whose rows have not been read; else those near it, a page at a time."""
        first = self.index_of(self.visible_keys[0]) if self.visible_keys else None
        if first is None:
            return []
        page = len(self.visible_keys)
        for margin, wanted in ((0, 0), (page // 2, page)):
            if self._unread_within(first - margin, first + page + margin):
                return self._unread_within(first - wanted, first + page + wanted)
        return []

    def _unread_within(self, start: int, end: int) -> list[SummaryId]:
        places = self.keys[max(0, start) : end]
        ids = dict.fromkeys(SummaryId(place.step) for place in places if isinstance(place.step, str))
        return [summary_id for summary_id in ids if self.known.unread_entry(summary_id)]

    def learn_rows(self, asked: Sequence[SummaryId], entries: Sequence[SummaryEntry]) -> bool:
        """Take rows that were asked for and draw those anew that changed; returns whether any is in sight."""
        changed = self.known.learn_entries(asked, entries)
        drawn = self._lines.keys()
        self._forget([place for place in drawn if place.step in changed])
        seen = any(place.step in changed for place in self.visible_keys)
        if seen:
            self.refresh()
        return seen

    def unread_below(self) -> list[SummaryId]:
        """The summaries that are unfolded and whose messages have not been read."""
        ids = {SummaryId(place.step) for place in self.unfolding.unfolded if isinstance(place.step, str)}
        return [summary_id for summary_id in ids if self.known.unread_messages(summary_id)]

    def places_of(self, summary_ids: Collection[SummaryId]) -> list[Place]:
        """The rows of some summaries."""
        return [place for place in self.keys if place.step in summary_ids]

    # -- searching -----------------------------------------------------------------------------------------

    def match_at(self, place: Place | None) -> Match | None:
        """What a place is to a search."""
        if place is None or place.step is None or isinstance(place.step, Section):
            return None
        if isinstance(place.step, str):
            return Match(SummaryId(place.step))
        leaf = place.above.step if place.above is not None else None
        if not isinstance(leaf, str):
            return None
        below = list(self.known.messages.get(SummaryId(leaf), ()))
        return Match(SummaryId(leaf), below.index(place.step) if place.step in below else None)

    def go_to(self, match: Match) -> bool:
        """Stand on a match, where it stands first; False when it stands nowhere any more."""
        path = self.known.path_to(match.summary_id)
        if path is None:
            return False
        if match.message is not None:
            messages = list(self.known.messages.get(match.summary_id, ()))
            path = (*path, *messages[match.message : match.message + 1])
        self.reveal(path)
        return True

    def _draw_place(self, place: Place, width: int) -> Sequence[Line]:
        return (self._painter.line(place, width),)


# -- reading behind the rows -----------------------------------------------------------------------------
# What comes into sight and what was unfolded.


class ReadBehind:
    """Readers of a tree, each of which reads until nothing is wanted and runs once at a time."""

    def __init__(self, screen: CommandScreen, tree: SummaryTree) -> None:
        self._screen = screen
        self._tree = tree
        self._running: set[str] = set()

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a reader, unless the one of that name runs already."""
        if name not in self._running:
            self._running.add(name)
            self._screen.work_on(name, self._run, name, work, exclusive=False)

    async def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._running.discard(name)

    def fill(self) -> None:
        """Read what is in sight and what was unfolded, as far as it is not known."""
        self.fill_rows()
        self.start("below", self._read_below)

    def fill_rows(self) -> None:
        """Read the rows in sight that are not known."""
        self.start("rows", self._read_rows)

    async def _read_rows(self) -> None:
        while wanted := self._tree.unread_rows():
            entries = await self._screen.session.read(store.summary_entries, wanted)
            if self._tree.learn_rows(wanted, entries):
                self._screen.refresh_bars()

    async def _read_below(self) -> None:
        tree, session = self._tree, self._screen.session
        while leaves := tree.unread_below():
            if tree.known.learn_messages(await session.read(lineage.messages_under, leaves)):
                tree.lay_rows()
                self.fill_rows()


# -- finding ---------------------------------------------------------------------------------------------
# In what is known at once, then in the texts of all summaries.


class TreeFinder:
    """Goes from match to match of a tree, in its order, round its end."""

    label = "find ids, models, failures and text"

    def __init__(
        self,
        tree: SummaryTree,
        texts: Callable[[str], Awaitable[Collection[SummaryId]]],
        moved: Callable[[], None],
    ) -> None:
        """*texts* gives the summaries whose text holds a needle.

        *moved* is called when there are other matches, and when another of them was selected.
        """
        self.needle = ""
        self._broken = False  #: goes from broken summary to broken summary
        self._tree = tree
        self._texts = texts
        self._moved = moved
        self._matches: list[Match] = []  #: in the order of the tree

    @property
    def place(self) -> str:
        """What was searched for, and which of the matches is selected; empty: nothing was."""
        if not self.needle and not self._broken:
            return ""
        here = self._tree.match_at(self._tree.selected)
        at = f"{self._matches.index(here) + 1:,} of " if here in self._matches else ""
        return f"{'broken' if self._broken else f'/{self.needle}'} {at}{len(self._matches):,}"

    def why_not_search(self) -> str | None:
        """A tree can always be searched."""
        return None

    def begin(self) -> None:
        """The search begins below the cursor."""

    def typed(self, text: str) -> None:
        """Nothing before it is all typed: the texts of all summaries are read for it."""

    async def confirm(self, text: str) -> str | None:
        """Search what is known, then all texts; go to the first match below the cursor."""
        self.needle, self._broken = text, False
        self._matches = []
        self._moved()
        if not text:
            return None
        await self._tree.surveyed.wait()
        known = self._tree.known
        found = set(known.matches(text))
        gone_there = bool(found) and self._take(found)
        found |= {Match(summary_id) for summary_id in await self._texts(text)}
        await self._tree.judged.wait()
        found.update(known.matches(text))
        if gone_there:
            self._matches = sorted(found, key=known.rank)
            self._moved()
        elif not self._take(found):
            return f"No summary here contains “{text}”."
        return None

    async def look_for(self, needle: str) -> None:
        """Search for what was found elsewhere; the cursor stays, and `n` and `N` go on from it."""
        self.needle, self._broken, self._matches = needle, False, []
        await self._tree.surveyed.wait()
        found = {Match(summary_id) for summary_id in await self._texts(needle)}
        if self.needle == needle:
            known = self._tree.known
            self._matches = sorted(found.union(known.matches(needle)), key=known.rank)
            self._moved()

    async def go_to_broken(self) -> str | None:
        """Go to the first broken summary; `n` and `N` go on from there."""
        self.needle, self._broken = "", True
        await self._tree.surveyed.wait()
        await self._tree.judged.wait()
        self.take_broken()
        here = self._tree.match_at(self._tree.selected)
        if here not in self._matches[:1] and not any(self._tree.go_to(match) for match in self._matches):
            return "No summary here is broken."
        self._moved()
        return None

    def take_broken(self) -> None:
        """What is broken was read again."""
        if self._broken:
            known = self._tree.known
            self._matches = sorted(map(Match, known.broken), key=known.rank)

    def _take(self, found: set[Match]) -> bool:
        self._matches = sorted(found, key=self._tree.known.rank)
        return self._go(forward=True)

    async def go(self, *, forward: bool) -> str | None:
        """Go to the match after the cursor, or the one before it."""
        self._go(forward=forward)
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only when something was found."""
        return None if self._matches else "search first: / finds text"

    def leave(self) -> bool:
        """The cursor stays where it was led."""
        return False

    def _go(self, *, forward: bool) -> bool:
        tree, rank = self._tree, self._tree.known.rank
        here = tree.match_at(tree.selected)
        at = rank(here) if here is not None else (-1, 0)
        ahead = [match for match in self._matches if (rank(match) > at if forward else rank(match) < at)]
        for match in (*ahead, *self._matches) if forward else (*reversed(ahead), *reversed(self._matches)):
            if tree.go_to(match):
                self._moved()
                return True
        return False


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
    whole = await session.read(lineage.whole_tree, conversation_id)
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
#: After all texts were read, the next reading waits so many times as long.
CALM = 20


class DagScreen(DataScreen[Reading]):
    """The summaries of one conversation, from those of the context down to leaves and their messages."""

    HELP = """
The summaries of this conversation and their sources. Top-level rows are the summaries in the context, in its
order; below each are its sources in the order in which they were condensed, and below a leaf its messages.
enter or l unfolds, h folds or goes to the summary above, Z unfolds everything below the selected row (again:
everything), z folds all. Messages unfold leaf by leaf; enter on one opens the conversation there.

D1 D2 … is a condensed summary of that depth. "below" counts the summaries below it as stored, or a leaf's
messages; "ord" is its ordinal in the context, if it is there; "broken" names what is wrong with its text,
or says how many broken summaries a folded row hides (✗5 below), or stale: one of its sources was rewritten
since. ! goes to the first broken summary, n and N to the next and the previous one. "begins" shows how its
text begins. An id is as short as it can be, for the time that is covered (y copies all of it). ×2 means that
two summaries use it: O goes to the next place.
Headings at the end list what no row in the context leads to: orphans, cycles, and ids without a row.

d previews dissolving a condensed summary of the context: its sources take its place. space marks summaries
(●), and d then dissolves all of them: several of the context, or one and its sources. U lists changes and
undoes them. r drafts a new text for a summary, W for it and everything below it, R lists broken summaries.

m switches to the coverage map: which summaries cover which messages. > reads what is below the selected
summary level by level, with the tokens that each level costs.

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
        self.text = TextView(id="text")
        self._in_tree = TreeFinder(self.lines, self._texts_with, self._match_selected)
        self._in_text = TextFinder(self.text)
        self._behind = ReadBehind(self, self.lines)
        self._wanted = select  #: where to stand as soon as the way there is known
        self._find = find  #: what the tree is searched for as soon as it has been read
        self._graph_seconds = 0.0
        self._outdated = False  #: which texts are broken has to be read again
        self._calm_until = 0.0  #: but not before this moment
        self._later: Timer | None = None  #: of that moment
        self._shown: Place | None = None  #: whose detail is shown

    # -- what it is made of --------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The tree under its heading, and the detail; the tree as it was left."""
        self._return()
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
        return await read_tree(self.session, self.conversation_id, self.lines.known.survey)

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
                lines.mark_fresh(lines.places_of(known.ids - before))
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
        self._say_count()
        self._outdated = True
        self._behind.start("wrong", self._read_wrong)
        if self._find:
            self.work_on("search-prompt", self._in_tree.look_for, self._find)
            self._find = ""

    async def _read_wrong(self) -> None:
        """Read every text, again when the file has changed, but not all the time."""
        while self._outdated:
            if (wait := self._calm_until - time.monotonic()) > 0:
                self._later = self._later or self.set_timer(wait, self._judge)
                return
            self._outdated = False
            begun = time.monotonic()
            try:
                self.lines.show_wrong(await read_wrong(self.session, self.conversation_id))
            finally:
                self.lines.judged.set()  # whoever waits for it goes on with what is known
            self._in_tree.take_broken()
            self._say_count()
            now = time.monotonic()
            self._calm_until = now + CALM * (now - begun)

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
        counts += [f"{len(known.ids):,} summaries", f"{len(known.ordinals):,} in the context"]
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

    def _why_none_broken(self) -> str | None:
        lines = self.lines
        return None if lines.known.broken or not lines.judged.is_set() else "no summary here is broken"

    async def _go_to_broken(self) -> None:
        """Stand on the first broken summary; `n` and `N` go on in the tree."""
        self.lines.focus()
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
        commands.OPEN.does(_open_row, _why_not_open),
        commands.OTHER_VIEW.does(
            _show_map, title="Map", help="Switch between the tree of the summaries and the coverage map."
        ),
        pruning.rewrite_key(_rewritable),
        *pruning.edit_keys(_rewritable, hidden=False),
        actions.trace_key(lambda s: s.lines.summary, hidden=False),
        actions.dissolve_key(lambda s: s.lines.summary, held_above=_held_above),
        commands.EXPAND.does(_expand, _why_not_expanded),
        pruning.repair_key(lambda s: s.conversation),
        pruning.rewrite_subtree_key(_rewritable),
        commands.CONTEXT.does(_open_context),
        commands.PREVIOUS.does(_open_previous, _why_no_previous),
        actions.ITS_COMPACT,
        actions.mark_key(lambda s: s.lines.summary),
        actions.ITS_HEALTH,
        actions.ITS_HISTORY,
        actions.ITS_FILES,
        Key(
            "first-broken",
            "exclamation_mark",
            "First broken",
            "Go to the first broken summary; n and N go to the next and the previous one.",
            _go_to_broken,
            _why_none_broken,
            words="first broken summary; next broken; failures; what is broken",
            hidden=True,
        ),
        Key(
            "elsewhere",
            "O",
            "Next place",
            "Go to the next place this summary appears in the DAG.",
            _go_elsewhere,
            _why_not_elsewhere,
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
    )
    COMMON: ClassVar[Sequence[Key[DagScreen]]] = (actions.ITS_ENGINE,)
