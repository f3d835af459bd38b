"""Where a row of the summary tree leads to, what can be done with it, and why not."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.records import Conversation, SummaryId
from lcm_core.store.lineage import SourceMessage

from lcm_tui import places
from lcm_tui.actions.dissolve import why_not_dissolved
from lcm_tui.screens.dag_rows import Section
from lcm_tui.screens.dag_search import TreeSearch
from lcm_tui.screens.dissolving import Dissolving
from lcm_tui.screens.rewriting import Rewriting


class TreeLinks(TreeSearch, Dissolving, Rewriting):
    """A screen of one conversation's tree: the commands that start from the selected row."""

    conversation: Conversation
    _stale_ids: set[SummaryId] | None = None

    def selected_id(self) -> str | None:
        """The id of the summary, or of the message."""
        place = self.lines.selected
        return None if place is None or isinstance(place.step, Section) else str(place.step)

    def _summary(self) -> SummaryId | None:
        """The selected summary."""
        place = self.lines.selected
        return SummaryId(place.step) if place is not None and isinstance(place.step, str) else None

    def _message(self) -> SourceMessage | None:
        place = self.lines.selected
        return self.lines.known.message_of(place) if place is not None else None

    def why_not(self, command: str) -> str | None:
        """What the selected row does not offer."""
        match command:
            case "open":
                return self._why_not_open()
            case "previous":
                return self._why_not_previous()
            case "elsewhere":
                place = self.lines.selected
                if place is None or self.lines.known.elsewhere(place) is None:
                    return "it stands nowhere else"
                return None
            case _:
                return super().why_not(command)

    def _why_not_open(self) -> str | None:
        place = self.lines.selected
        if place is None:
            return "nothing is selected"
        if self.text.has_focus:
            return "the text has the focus: esc goes back to the tree"
        if isinstance(place.step, int):
            source = self._message()
            if source is None or source.message is None:
                return "the message's row is gone"
            owner = source.message.conversation_id
            return None if owner == self.conversation_id else f"the message is of conversation {owner}"
        if place.repeats:
            return "it stands above already: this is a cycle"
        return None if self.lines.can_unfold(place) else "nothing that it was made from is recorded"

    def _why_not_previous(self) -> str | None:
        summary_id = self._summary()
        if summary_id is None:
            return "no summary is selected"
        if summary_id in self.lines.known.gone:
            return "its row is gone"
        depth = self.lines.known.depth_of(summary_id)
        if depth is not None and not self.lines.known.is_leaf(summary_id):
            return "only leaves were given a previous context"
        return None

    @property
    def stale(self) -> set[SummaryId]:
        """The summaries that were made from texts that were replaced since, as far as the history tells."""
        if self._stale_ids is None:
            self._stale_ids = set()
        return self._stale_ids

    async def read_stale(self) -> None:
        """Ask the history which they are."""
        from lcm_core.operations.stale import stale_in

        found = await self.session.read(stale_in, self.conversation.conversation_id)
        now = {one.summary_id for one in found}
        changed = now ^ self.stale
        self.stale.clear()
        self.stale.update(now)
        if changed:
            self.lines.redraw(self.lines.places_of(changed))

    # -- changes -------------------------------------------------------------------------------------------

    def markable(self) -> SummaryId | None:
        """The selected summary."""
        return self._summary()

    def rewritable(self) -> SummaryId | None:
        """The selected summary, when it has a row."""
        found = self._summary()
        return None if found in self.lines.known.gone else found

    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """What the tree knows of it: a leaf, gone, or not in the context."""
        known = self.lines.known
        if summary_id in known.gone:
            return "its row is gone"
        return why_not_dissolved(known.is_leaf(summary_id), len(known.ordinals.get(summary_id, ())), below)

    def marks_changed(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw their rows again."""
        self.lines.redraw(self.lines.places_of(summary_ids))
        self.note()

    def action_previous(self) -> None:
        """Show the previous context of the selected summary."""
        summary_id = self._summary()
        if summary_id is not None:
            self.open(places.Previous(self.conversation, summary_id))

    def action_context(self) -> None:
        """Show the context, at the nearest consumer of the selected row that it holds."""
        place, ordinals = self.lines.selected, self.lines.known.ordinals
        above = place.upward() if place is not None else ()
        held = (SummaryId(found.step) for found in above if isinstance(found.step, str))
        found = next((summary_id for summary_id in held if summary_id in ordinals), None)
        select = ("summary", found) if found is not None else None
        self.open(places.Context(self.conversation, select=select))

    def action_files(self) -> None:
        """Show the large files of the conversation."""
        self.open(places.Files(self.conversation))
