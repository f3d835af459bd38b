"""A conversation beside the Codex session that it was held in, for the screen of comparisons."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from datetime import tzinfo

from lcm_core.host.codex_compare import CodexDiff, compare_with_codex, read_held
from lcm_core.records import Conversation
from lcm_core.text import safe_line

from lcm_tui.screens.comparison.comparing import Comparing
from lcm_tui.screens.comparison.panes import HeadLines
from lcm_tui.session import Session
from lcm_tui.views.codex import codex_rows, remarks
from lcm_tui.widgets.spans import Line, Span


def _difference(found: CodexDiff) -> Sequence[Line]:
    return [
        (Span(f"rows: {len(found.only_codex):,} only in Codex", "warn"),),
        (Span(f"{len(found.only_conversation):,} only in the conversation", "ok"),),
        (Span(f"{found.same:,} alike"),),
        (Span(f"{found.elsewhere:,} elsewhere"),),
        (Span(f"lines -{found.diff.removed:,} +{found.diff.added:,}", "dim"),),
    ]


class CodexSession(Comparing[CodexDiff]):
    """A Codex session and its conversation."""

    waiting = "Reading the Codex session …"
    head_height = 4  # what was left out, too

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.title = f"Codex with conversation {conversation.conversation_id}"

    async def load(self, session: Session) -> CodexDiff:
        """Read the conversation, then, beside it, the file of Codex."""
        held = await session.read(read_held, self.conversation, session.settings)
        left = threading.Event()
        try:
            return await asyncio.to_thread(
                compare_with_codex, held, session.settings, os.environ, cancelled=left.is_set
            )
        finally:
            left.set()

    def head_lines(self, data: CodexDiff | None, zone: tzinfo | None) -> HeadLines:
        """Both sides, in how many rows they differ, and what was left out."""
        del zone
        first: list[Line] = [(Span("- ", "warn"), Span("Codex session"))]
        second: list[Line] = [(Span("+ ", "ok"), Span(f"conversation {self.conversation.conversation_id}"))]
        if data is None:
            return [first, second]
        first += [(Span(codex_rows(data)),), (Span(safe_line(data.rollout.path.name), "dim"),)]
        second.append((Span(f"{len(data.new_text.rows):,} rows"),))
        return [first, second, _difference(data), [(Span(line, "dim"),) for line in remarks(data)]]

    def id_of(self, heading: str) -> str | None:
        """The line of the file, or the seq of the message."""
        return heading.partition(" · ")[2] or None
