"""The tree of summaries as a widget: what is unfolded, and where the cursor stands, by path."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Sequence
from dataclasses import replace
from datetime import tzinfo

from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.lineage import SourceMessage
from lcm_core.store.summaries import SummaryEntry

from lcm_tui.screens.dag.drawing import Painter
from lcm_tui.screens.dag.folding import Folding
from lcm_tui.screens.dag.known import Known, Match, Survey
from lcm_tui.screens.dag.tree import Place, Section, Tree, Way
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line

#: A heading over more than so many is folded at first.
FEW = 5


class SummaryTree(LineView[Place]):
    """The rows of one conversation's summaries; it reads nothing and says what it needs."""

    def __init__(self, conversation_id: ConversationId, marks: Container[SummaryId] = ()) -> None:
        """*marks*: the summaries that the operator has marked."""
        super().__init__(self._draw_place, empty="Reading …", id="lines")
        self.known = Known(conversation_id)
        self.unfolding = Tree()
        self.surveyed = asyncio.Event()  #: the whole graph is known
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

    def show_stale(self, stale: set[SummaryId]) -> None:
        """Say of these that they were made from texts that were replaced since."""
        changed = stale ^ self._painter.stale
        self._painter = replace(self._painter, stale=stale)
        if changed:
            self.redraw(self.places_of(changed))

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

    def unread_below(self) -> tuple[list[SummaryId], list[SummaryId]]:
        """The summaries that are unfolded and whose sources, or messages, have not been read."""
        ids = {SummaryId(place.step) for place in self.unfolding.unfolded if isinstance(place.step, str)}
        return (
            [summary_id for summary_id in ids if self.known.unread_sources(summary_id)],
            [summary_id for summary_id in ids if self.known.unread_messages(summary_id)],
        )

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
