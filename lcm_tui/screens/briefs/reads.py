"""What the screen of focus briefs reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.records import ConversationId, FocusBrief
from lcm_core.store.briefs import active_brief, focus_overlay, list_briefs
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class Briefs:
    """The briefs of a conversation by their ids, newest first, and what the one in force does."""

    by_id: Mapping[str, FocusBrief] = field(default_factory=dict)
    active: str | None = None  #: id of the brief that the engine uses
    overlay: FocusOverlay | None = None  #: None: it covers nothing of the context

    def overlay_of(self, brief_id: str) -> FocusOverlay | None:
        """What a brief is sent instead of; None when it is not sent."""
        overlay = self.overlay
        return overlay if overlay is not None and overlay.brief.brief_id == brief_id else None


async def load_briefs(reader: Reader, conversation_id: ConversationId, zone: tzinfo | None) -> Briefs:
    """Everything that the screen shows, in one transaction."""
    briefs = await list_briefs(reader, conversation_id)
    active = await active_brief(reader, conversation_id)
    overlay = await focus_overlay(reader, conversation_id, zone) if active else None
    return Briefs({brief.brief_id: brief for brief in briefs}, active.brief_id if active else None, overlay)
