"""A conversation beside the Codex session that it was held in, for the screen of comparisons."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from lcm_core.host.codex_compare import CodexDiff, compare_with_codex, read_held
from lcm_core.records import Conversation
from lcm_core.text import safe_line
from textual.strip import Strip

from lcm_tui.screens.comparison.comparing import Comparing
from lcm_tui.session import Session
from lcm_tui.views.codex import codex_rows, remarks
from lcm_tui.views.sent import fitted
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of


class CodexHead(Drawn):
    """Both sides in a line each, the difference in one more, and what was left out."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    CodexHead { height: 4; width: 1fr; background: $surface; }
    """

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(id="head")
        self._conversation = conversation
        self._found: CodexDiff | None = None

    def show_diff(self, found: CodexDiff) -> None:
        """Say how the two differ."""
        self._found = found
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        lines, width = self._lines(), self.size.width
        return strip_of(fitted(lines[y], width) if y < len(lines) else (), self.style_of, width)

    def _lines(self) -> Sequence[Sequence[Line]]:
        number, found = self._conversation.conversation_id, self._found
        first: list[Line] = [(Span("- ", "warn"), Span("Codex session"))]
        second: list[Line] = [(Span("+ ", "ok"), Span(f"conversation {number}"))]
        if found is None:
            return [first, second]
        first += [(Span(codex_rows(found)),), (Span(safe_line(found.rollout.path.name), "dim"),)]
        second.append((Span(f"{len(found.new_text.rows):,} rows"),))
        return [first, second, _difference(found), [(Span(line, "dim"),) for line in remarks(found)]]


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

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.title = f"Codex with conversation {conversation.conversation_id}"
        self.head: CodexHead = CodexHead(conversation)

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

    def say(self, data: CodexDiff, zone: tzinfo | None) -> None:
        """Both sides, and in how many rows they differ."""
        del zone
        self.head.show_diff(data)

    def id_of(self, heading: str) -> str | None:
        """The line of the file, or the seq of the message."""
        return heading.partition(" · ")[2] or None
