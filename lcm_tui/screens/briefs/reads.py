"""What the screen of focus briefs reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from lcm_core.assemble.elements import FocusOverlay, overlay
from lcm_core.focus_view import BriefEntry, load_briefs
from lcm_core.records import ConversationId
from lcm_core.store.briefs import active_in, context_reaches, list_briefs
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class Briefs:
    """The briefs of a conversation by their ids, newest first, and what the one in force does."""

    by_id: Mapping[str, BriefEntry] = field(default_factory=dict)
    overlay: FocusOverlay | None = None  #: None: it covers nothing of the context

    @property
    def active(self) -> str | None:
        """The id of the brief that the engine uses."""
        return next((key for key, entry in self.by_id.items() if entry.is_active), None)

    def overlay_of(self, brief_id: str) -> FocusOverlay | None:
        """What a brief is sent instead of; None when it is not sent."""
        overlay = self.overlay
        return overlay if overlay is not None and overlay.brief.brief_id == brief_id else None


async def read_briefs(reader: Reader, conversation_id: ConversationId, zone: tzinfo | None) -> Briefs:
    """Everything that the screen shows, in one transaction."""
    known = await list_briefs(reader, conversation_id)
    if not known:
        return Briefs()
    reaches = await context_reaches(reader, conversation_id)
    entries = await load_briefs(reader, conversation_id, reaches=reaches)
    active = active_in(known)
    found = {entry.brief.brief_id: entry for entry in entries}
    return Briefs(found, None if active is None else overlay(active, reaches, zone))
