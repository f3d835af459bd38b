"""The tree of summaries as a list: what is unfolded and selected, what is read behind it, finding in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.values import replace
from lcm_core.store import summaries as store
from lcm_core.store.summaries import SourceMessage, SummaryEntry

from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.spans import Line
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
)
from lcm_tui.screens.frame import CommandScreen

if TYPE_CHECKING:
    from lcm_core.engine.markers import Wrong

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
        place = self.unfolding.at(path)
        if self.unfolding.unfold_above(place) or not self.select(place):
            self.lay_rows(place)

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
            if tree.known.learn_messages(await session.read(store.messages_under, leaves)):
                tree.lay_rows()
                self.fill_rows()


# -- finding ---------------------------------------------------------------------------------------------
# In what is known at once, then in the texts of all summaries.


class TreeFinder(Finder):
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
        self._broken = False  #: goes through the broken and the stale summaries
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
        name, among = self._gone_through(here) if self._broken else (f"/{self.needle}", self._matches)
        at = f"{among.index(here) + 1:,} of " if here in among else ""
        return f"{name} {at}{len(among):,}"

    def _gone_through(self, here: Match | None) -> tuple[str, list[Match]]:
        """The broken or the stale summaries: those that *here* is one of, the broken first."""
        broken = [one for one in self._matches if one.summary_id in self._tree.known.broken]
        stale = [one for one in self._matches if one not in broken]
        return ("stale", stale) if stale and (here in stale or not broken) else ("broken", broken)

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

    async def go_to_broken(self, *, forward: bool = True) -> str | None:
        """Go to the broken or stale summary after the cursor, or before it; `n` and `N` go on from there."""
        self.needle, self._broken = "", True
        await self._tree.surveyed.wait()
        await self._tree.judged.wait()
        self.take_broken()
        return self._go_on(forward) if self._matches else "No summary here is broken or stale."

    def take_broken(self) -> None:
        """What is broken or stale was read again."""
        if self._broken:
            known = self._tree.known
            self._matches = sorted(map(Match, known.wrong), key=known.rank)

    def _take(self, found: set[Match]) -> bool:
        self._matches = sorted(found, key=self._tree.known.rank)
        return self._go(forward=True)

    async def go(self, *, forward: bool) -> str | None:
        """Go to the match after the cursor, or the one before it; without a search to a broken summary."""
        return self._go_on(forward) if self.needle else await self.go_to_broken(forward=forward)

    def _go_on(self, forward: bool) -> str | None:
        """Go there; say so when it goes round the end."""
        before = self._tree.match_at(self._tree.selected)
        self._go(forward=forward)
        after, rank = self._tree.match_at(self._tree.selected), self._tree.known.rank
        if before is None or after is None or (rank(before) < rank(after)) == forward:
            return None
        return "Back at the first match." if forward else "Back at the last match."

    def why_not_next(self) -> str | None:
        """There is a next match when something was found, or is broken or stale."""
        broken = not self.needle and (self._tree.known.wrong or not self._tree.judged.is_set())
        return None if self._matches or broken else "search first: / finds text"

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
