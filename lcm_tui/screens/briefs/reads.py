"""What the screen of focus briefs reads: first the briefs, then what is around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.focus_view import BriefEntry, MeasuredBriefs
from lcm_core.records import ConversationId, FocusBrief
from lcm_core.store.briefs import active_in, list_briefs
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class ListedBrief:
    """A brief of the list."""

    brief: FocusBrief
    is_active: bool  #: it is the one that the engine uses
    entry: BriefEntry | None = None  #: with what is around it; None: not read yet


@dataclass(frozen=True, slots=True)
class Briefs:
    """The briefs of a conversation by their ids, newest first, and what the one in force does."""

    by_id: Mapping[str, ListedBrief] = field(default_factory=dict)
    overlay: FocusOverlay | None = None  #: None: it covers nothing of the context, or that is not read yet

    @property
    def active(self) -> str | None:
        """The id of the brief that the engine uses."""
        return next((key for key, one in self.by_id.items() if one.is_active), None)

    @property
    def briefs(self) -> tuple[FocusBrief, ...]:
        """The briefs alone."""
        return tuple(one.brief for one in self.by_id.values())

    def overlay_of(self, brief_id: str) -> FocusOverlay | None:
        """What a brief is sent instead of; None when it is not sent."""
        overlay = self.overlay
        return overlay if overlay is not None and overlay.brief.brief_id == brief_id else None

    def known_from(self, before: Briefs | None) -> Briefs:
        """The same with what was read *before* around briefs that are the same, until it is read again."""
        if before is None:
            return self
        entries = {key: one.entry for key, one in before.by_id.items()}
        found = {
            key: replace(one, entry=held)
            if (held := entries.get(key)) is not None and held.brief == one.brief
            else one
            for key, one in self.by_id.items()
        }
        return Briefs(found, before.overlay if before.active == self.active else None)

    def measured(self, found: MeasuredBriefs) -> Briefs:
        """The same with what is around them."""
        entries = {entry.brief.brief_id: entry for entry in found.entries}
        by_id = {key: replace(one, entry=entries.get(key)) for key, one in self.by_id.items()}
        return Briefs(by_id, found.overlay)


async def read_briefs(reader: Reader, conversation_id: ConversationId) -> Briefs:
    """The briefs alone: quick, however long the context is."""
    known = await list_briefs(reader, conversation_id)
    active = active_in(known)
    return Briefs({one.brief_id: ListedBrief(one, one is active) for one in known})
