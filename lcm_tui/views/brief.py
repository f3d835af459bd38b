"""A focus brief as a document: its text with what is recorded of it, or what the model gets."""

from __future__ import annotations

from datetime import tzinfo

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.focus_view import BriefEntry

from lcm_tui.views.focus import state_words
from lcm_tui.views.units import moment_text
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, field, heading


def brief_document(entry: BriefEntry, overlay: FocusOverlay | None, zone: tzinfo | None) -> Document:
    """A brief with its text; *overlay*: what it is sent instead of."""
    brief = entry.brief
    covered = "nothing in the context"
    if overlay is not None:
        covered = f"{', '.join(sorted(overlay.covered))} at ordinal {overlay.at_ordinal}"
    seq = brief.covered_message_seq
    covers_to = f"{moment_text(brief.covered_latest_at, zone)}, seq {'–' if seq is None else seq}"
    return (
        Block(spans=(Span(brief.brief_id, "title"), Span(f"  {brief.status}", "dim"))),
        Block(brief.prompt, "brief"),
        field("covers to", covers_to),
        *([field("replaces", covered)] if brief.status == "active" else []),
        field("saves" if entry.is_active else "would save", entry.effect.words),
        field("state", state_words(entry), "warn" if entry.state.outdated else "text"),
        *(
            [field("sources", ", ".join(f"{n:,} {role}" for role, n in entry.roles.items()))]
            if entry.roles
            else []
        ),
        *([field("error", brief.error)] if brief.error else []),
        field("written by", f"run {brief.generator_run_id or '–'}, {brief.generator_session_key or '–'}"),
        Block(),
        Block(brief.content) if brief.content.strip() else Block("It has no text.", "dim"),
    )


def sent_document(overlay: FocusOverlay) -> Document:
    """The message that the model gets for a brief."""
    return (heading("role: user"), Block(overlay.text))
