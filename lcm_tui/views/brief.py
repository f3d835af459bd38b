"""A focus brief as a document: its text with what is recorded of it, or what the model gets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Final

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.focus_view import BriefEntry
from lcm_core.records import FocusBrief
from lcm_core.wording import some

from lcm_tui.views.focus import state_words
from lcm_tui.views.units import moment_text
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, field, heading

#: Summaries that are named.
_NAMED: Final = 6


def brief_document(
    brief: FocusBrief, entry: BriefEntry | None, overlay: FocusOverlay | None, zone: tzinfo | None
) -> Document:
    """A brief with its text; *entry*: what is around it, if it is read; *overlay*: what it replaces."""
    seq = brief.covered_message_seq
    covers_to = f"{moment_text(brief.covered_latest_at, zone)}, seq {'–' if seq is None else seq}"
    return (
        Block(spans=(Span(brief.brief_id, "title"), Span(f"  {brief.status}", "dim"))),
        Block(brief.prompt, "brief"),
        field("covers to", covers_to),
        *(_around(brief, entry, overlay) if entry is not None else [field("state", "…", "dim")]),
        *([field("error", brief.error)] if brief.error else []),
        field("written by", f"run {brief.generator_run_id or '–'}, {brief.generator_session_key or '–'}"),
        Block(),
        Block(brief.content) if brief.content.strip() else Block("It has no text.", "dim"),
    )


def _around(brief: FocusBrief, entry: BriefEntry, overlay: FocusOverlay | None) -> Iterator[Block]:
    """What a brief replaces and saves, whether it is stale and why, and how many sources are recorded."""
    if brief.status == "active":
        covered = "nothing in the context"
        if overlay is not None:
            covered = f"{some(sorted(overlay.covered), _NAMED)} at ordinal {overlay.at_ordinal}"
        yield field("replaces", covered)
    yield field("saves" if entry.is_active else "would save", entry.effect.words)
    yield field("state", state_words(entry), "warn" if entry.state.outdated else "text")
    if entry.roles:
        yield field("sources", ", ".join(f"{n:,} {role}" for role, n in entry.roles.items()))


def sent_document(overlay: FocusOverlay) -> Document:
    """The message that the model gets for a brief."""
    return (heading("role: user"), Block(overlay.text))
