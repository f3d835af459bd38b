"""Where the lines of a summary come from: its text, and beside it the messages that a line may come from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from lcm_core.base.records import Conversation, SummaryId
from lcm_core.base.text import places_of, safe_line, safe_text, sought_as, wrap
from lcm_core.operations.trace import TracedMessage, TraceSource, read_trace
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, TextFinder
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.spans import Block, Document, Line, Span, recoloured, role_style
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import DataScreen
from lcm_tui.tables.blocks import moment_text

#: Characters of a message that stand beside a line: around the first thing that both have in common.
_BEFORE: Final = 100
_SHOWN: Final = 500
#: What a line and a message have in common, as far as there is room for it.
_COMMON: Final = 6


class TraceScreen(DataScreen[TraceSource]):
    """The lines of one summary and where each comes from."""

    HELP = """
The lines of a summary, and beside the selected one the messages that it may come from, best first.

enter opens the best message in its conversation.

Nothing records that: they are found by what both say, identifiers, numbers, names and rare words. The share
is how much of the line is in the message. A line that no message says was made up, or is from the previous
context.

tab moves to the messages, / finds text there.
"""

    def __init__(self, conversation: Conversation, summary_id: SummaryId) -> None:
        super().__init__()
        self.conversation = conversation
        self._summary_id = summary_id
        self.lines = LineView[int](self._draw, tall=True, empty="Reading the messages …", id="lines")
        self.text = TextView(id="text")
        self._in_text = TextFinder(self.text)
        self._source: TraceSource | None = None
        self._found: Sequence[TracedMessage] = ()

    def compose_body(self) -> ComposeResult:
        """The lines, and the messages of the selected one."""
        yield TwoPanes(self.lines, self.text, shares=(0.5, 0.5))

    def where(self) -> str:
        """Of which summary."""
        return f"Lines of {self._summary_id}"

    def main_widget(self) -> LineView[int]:
        """The lines."""
        return self.lines

    def finder(self) -> Finder:
        """The search in the messages."""
        return self._in_text

    def selected_id(self) -> str | None:
        """The summary's id."""
        return self._summary_id

    def step_back(self) -> bool:
        """Leave the messages first."""
        if not self.text.has_focus:
            return super().step_back()
        self.lines.focus()
        return True

    async def fetch(self) -> TraceSource:
        """The summary with the messages below it."""
        return await self.session.read(read_trace, self.conversation.conversation_id, self._summary_id)

    def show(self, data: TraceSource) -> None:
        """Show the lines; the cursor stays on its line."""
        self._source = data
        more = f", {data.left_out:,} more are not compared" if data.left_out else ""
        self.title_bar.note = f"{len(data.messages):,} messages{more}"
        self.lines.replace(range(len(data.lines)))
        self._trace()

    def _draw(self, key: int, width: int) -> Sequence[Line]:
        assert self._source is not None  # it has been listed
        return [(Span(line),) for line in wrap(safe_line(self._source.lines[key]), width) or [""]]

    @on(LineView.Highlighted, "#lines")
    def _trace(self) -> None:
        self.work_on("trace", self._find_messages, self.lines.selected)

    async def _find_messages(self, key: int | None) -> None:
        source = self._source
        if source is None or key is None:
            return
        found = await asyncio.to_thread(source.of_line, source.lines[key])
        self._found = found
        await self.text.load(tuple(self._document(found)))
        self.refresh_bars()

    def _document(self, found: Sequence[TracedMessage]) -> Iterator[Block]:
        if not found:
            yield Block("No message below this summary says this.", "warn")
            yield Block("It was made up, or it is from the previous context.", "dim")
        for one in found:
            yield from self._of_message(one)

    def _of_message(self, one: TracedMessage) -> Document:
        message = one.message
        head = (
            Span(f"{one.share * 100:.0f} %", "title"),
            Span(f"  #{message.seq}  ", "key"),
            Span(message.role, role_style(message.role)),
            Span(f"  {moment_text(message.created_at, self.session.zone)}", "dim"),
        )
        common = (Span("both: ", "dim"), Span(", ".join(map(safe_line, one.common[:_COMMON])), "dim"))
        return Block(spans=head), Block(spans=common), Block(spans=_excerpt(one)), Block()

    def _why_not_open(self) -> str | None:
        return None if self._found else "no message says this"

    def _open_message(self) -> None:
        best = self._found[0]
        self.open(places.Messages(self.conversation, seq=best.message.seq, find=next(iter(best.common), "")))

    KEYS: ClassVar[Sequence[Key[TraceScreen]]] = (commands.OPEN.does(_open_message, _why_not_open),)


def _excerpt(one: TracedMessage) -> Line:
    """The part of a message around what it has in common with the line, which is marked."""
    text = " ".join(safe_text(one.text).split())
    found = sorted(place for word in one.common if word for place in places_of(sought_as(word), text))
    start = max(found[0][0] - _BEFORE, 0) if found else 0
    cut = text[start : start + _SHOWN]
    marks = [
        (first - start, last - start) for first, last in found if start <= first and last <= start + _SHOWN
    ]
    line = recoloured((Span(cut),), _apart(marks), "match")
    before, behind = "…" if start else "", "…" if start + _SHOWN < len(text) else ""
    return (Span(before, "dim"), *line, Span(behind, "dim"))


def _apart(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places without those that begin within the one before."""
    found: list[tuple[int, int]] = []
    for place in places:
        if not found or place[0] >= found[-1][1]:
            found.append(place)
    return found
