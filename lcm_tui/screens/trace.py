"""Where the lines of a summary come from: its text, and beside it the messages that a line may come from.

Of a message the reverse: the summaries made from it, each with the line that tells of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, Final, Literal, TypeAlias

from lcm_core.base.records import Conversation, MessageId, SummaryId
from lcm_core.base.text import counted, places_of, safe_line, safe_text, sought_as, wrap
from lcm_core.operations.trace import (
    TracedMessage,
    TracedSummary,
    TraceSource,
    read_message_trace,
    read_trace,
)
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, MarkingFinder
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.spans import Block, Line, Span, WrappedBlock, depth_style, recoloured, role_style
from lcm_tui.kit.text import mark
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import minute_text
from lcm_tui.tables.messages import message_name
from lcm_tui.tables.summaries import badge_of

#: Lines of a message that stand beside a line of the summary.
_EXCERPT: Final = 4
#: Shown of the part of a message before the first word that both share: one part of so many of what is left.
_BEFORE: Final = 3
#: A message that shares less of a line stands behind the row of the weaker ones, unless it is the best.
_STRONG: Final = 0.5
#: The row that stands for them.
_WEAKER: Final = "weaker"
MessageRow: TypeAlias = MessageId | Literal["weaker"]
#: So many lines may stand before the first that a message says, the one to begin with: a heading has none.
_HEADING: Final = 4
#: What stands beside a line that no message says.
_NOWHERE: Final = (
    "No message below this summary says this. It may be a heading, the words of the writer or of an editor, "
    "or the previous context; or it was made up."
)


class TraceScreen(DataScreen[TraceSource]):
    """The lines of one summary and where each comes from."""

    HELP = """
The lines of a summary, and beside the selected one the messages that it may come from, best first. The first
line that a message says is selected.

enter opens the best message at the words that both share; tab moves to the messages, to choose another one.

There, arrows select, enter opens, / finds text and esc leads back to the lines. Messages that share less than
half of the line are folded into one row: enter unfolds it. The message that led here stands first.

Nothing records where a line comes from: it is found by what both say, identifiers, numbers, names and rare
words. The share is how much of the line is in the message; the words are marked, and those that stand
elsewhere in the message are named below. A line that no message says may be a heading or from the previous
context, or it was made up.
"""

    def __init__(
        self,
        conversation: Conversation,
        summary_id: SummaryId,
        line: str = "",
        message_id: MessageId | None = None,
    ) -> None:
        """*line*: where to stand; *message_id*: the message that led here, which stands first."""
        super().__init__()
        self.conversation = conversation
        self._summary_id = summary_id
        self._line = safe_text(line)
        self._led_here = message_id
        self.lines = LineView[int](self._draw, tall=True, empty="Reading the messages …", id="lines")
        self.messages = LineView[MessageRow](self._draw_message, tall=True, id="messages")
        self._finder = MarkingFinder[MessageRow](
            lambda: self.messages, self._text_of, label="find in the messages", none="No message here"
        )
        self._source: TraceSource | None = None
        self._begins_at: int | None = None  #: the line to begin with
        self._found: dict[MessageId, TracedMessage] = {}
        self._found_for: int | None = None  #: the line that they were found for
        self._unfolded = False  #: the weaker ones are listed, too

    def compose_body(self) -> ComposeResult:
        """The lines, and the messages of the selected one."""
        yield TwoPanes(self.lines, self.messages, shares=(0.5, 0.5))

    def where(self) -> str:
        """Of which summary."""
        return f"Lines of {self._summary_id}"

    def main_widget(self) -> LineView[int]:
        """The lines."""
        return self.lines

    def finder(self) -> Finder:
        """The search in the messages."""
        return self._finder

    def selected_id(self) -> str:
        """The message's id where the keys are; on the lines the summary's."""
        row = self.messages.selected if self.messages.has_focus else None
        return self._summary_id if row is None or row == _WEAKER else message_name(row)

    async def fetch(self) -> TraceSource:
        """The summary with the messages below it."""
        source = await self.session.read(read_trace, self.conversation.conversation_id, self._summary_id)
        if self._source is None:
            self._begins_at = await asyncio.to_thread(_first_line, source, self._line)
        return source

    def show(self, data: TraceSource) -> None:
        """Show the lines; the cursor stays on its line."""
        self._source = data
        more = f", {data.left_out:,} more are not compared" if data.left_out else ""
        self.title_bar.note = counted(len(data.messages), "message") + more
        self.lines.replace(range(len(data.lines)), select=self._begins_at)
        self._begins_at = None
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
        found.sort(key=lambda one: one.message.message_id != self._led_here)
        again, self._found_for = key == self._found_for, key
        self._unfolded = again and self._unfolded
        self._found = {one.message.message_id: one for one in found}
        self.messages.empty = "" if found else _NOWHERE
        self._list_messages(None if again else next(iter(self._found), None))
        if not again:
            self.messages.reveal_top()
        self.refresh_bars()

    def _list_messages(self, select: MessageId | None) -> None:
        rows: list[MessageRow] = list(self._found)
        first = 2 if rows[:1] == [self._led_here] else 1
        strong = first + sum(one.share >= _STRONG for one in list(self._found.values())[first:])
        if strong < len(rows) and not self._unfolded:
            rows[strong:] = [_WEAKER]
        self.messages.replace(rows, select=select)

    def _draw_message(self, key: MessageRow, width: int) -> Sequence[Line]:
        if key == _WEAKER:
            number = len(self._found) - len(self.messages.keys) + 1
            return [(Span("▸ ", "key"), Span(f"weaker: {number:,} more share less than half", "dim"))]
        found = self._found[key]
        message = found.message
        head = (
            Span(f"{found.share * 100:.0f} %  ", "title"),
            Span(f"{message_name(key, message.seq)}  ", "key"),
            Span(message.role, role_style(message.role)),
            Span(f"  {minute_text(message.created_at, self.session.zone)}", "dim"),
            Span("  led here" if key == self._led_here else "", "match"),
        )
        excerpt, _, elsewhere = _excerpt(found.text, found.common, _EXCERPT * width)
        lines = [head, *_wrapped(excerpt, width)[:_EXCERPT]]
        if elsewhere:
            lines += _wrapped((Span(f"elsewhere in it: {', '.join(elsewhere)}", "dim"),), width)
        return [mark(line, self._finder.needle) for line in lines]

    def _text_of(self, key: MessageRow) -> str:
        return "" if key == _WEAKER else self._found[key].text

    def _why_not_open(self) -> str | None:
        return None if self._found or self._found_for != self.lines.selected else "no message says this"

    @on(LineView.Sided, "#messages")
    def _sided(self, event: LineView.Sided) -> None:
        if event.key == _WEAKER and event.side > 0:
            self._unfold()

    def _unfold(self) -> None:
        """List the weaker ones too, standing on the first of them."""
        self._unfolded = True
        self._list_messages(list(self._found)[len(self.messages.keys) - 1])

    async def _open_message(self) -> None:
        if self._found_for != self.lines.selected:  # its messages are still looked for
            await self._find_messages(self.lines.selected)
            if not self._found:
                self.app.notify("no message says this", severity="warning", timeout=4)
                return
        row = self.messages.selected
        if row == _WEAKER:
            self._unfold()
            return
        found = self._found[row or next(iter(self._found))]
        _, find, _ = _excerpt(found.text, found.common, _EXCERPT * self.messages.size.width)
        self.open(places.Messages(self.conversation, seq=found.message.seq, find=find))

    KEYS: ClassVar[Sequence[Key[TraceScreen]]] = (
        commands.OPEN.does(
            _open_message, _why_not_open, help="Open the message at the words that both share.", bar="Message"
        ),
    )


class MessageTraceScreen(DataScreen[list[TracedSummary]]):
    """The summaries made from one message."""

    HELP = """
The summaries made from this message, the leaf first, and of each the line that has most in common with the
message. The words that both share are marked; the share is how much of the line is in the message.

enter shows the summary's lines, on that one, beside the messages that they may come from. / finds text in the
lines.
"""

    def __init__(self, conversation: Conversation, message_id: MessageId) -> None:
        super().__init__()
        self.conversation = conversation
        self._message_id = message_id
        self.summaries = LineView[SummaryId](self._draw, tall=True, empty="Reading …", id="summaries")
        self._finder = MarkingFinder[SummaryId](
            lambda: self.summaries,
            lambda key: self._found[key].line,
            label="find in the lines",
            none="No line here",
        )
        self._found: dict[SummaryId, TracedSummary] = {}

    def compose_body(self) -> ComposeResult:
        """The summaries."""
        yield self.summaries

    def where(self) -> str:
        """Of which message."""
        return f"Summaries of message {self._message_id}"

    def main_widget(self) -> LineView[SummaryId]:
        """The summaries."""
        return self.summaries

    def finder(self) -> Finder:
        """The search in the lines."""
        return self._finder

    def selected_id(self) -> str | None:
        """The summary's id."""
        return self.summaries.selected

    async def fetch(self) -> list[TracedSummary]:
        """What was made from the message."""
        return await self.session.read(read_message_trace, self._message_id)

    def show(self, data: list[TracedSummary]) -> None:
        """Show them; the cursor stays on its summary."""
        self._found = {one.summary.summary_id: one for one in data}
        self.summaries.empty = "No summary was made from this message."
        self.summaries.replace(list(self._found))

    def _draw(self, key: SummaryId, width: int) -> Sequence[Line]:
        found = self._found[key]
        summary = found.summary
        head = (
            Span(f"{found.share * 100:.0f} %  " if found.line else "", "title"),
            Span(f"{badge_of(summary.kind, summary.depth)} ", depth_style(summary.depth)),
            Span(key, "key"),
        )
        if not found.line:
            return [head, (Span("No line of it tells of this message.", "dim"),)]
        excerpt, _, _ = _excerpt(found.line, found.common, _EXCERPT * width)
        return [mark(line, self._finder.needle) for line in (head, *_wrapped(excerpt, width)[:_EXCERPT])]

    def _open(self) -> None:
        if (key := self.summaries.selected) is not None:
            self.open(places.Trace(self.conversation, key, self._found[key].line, self._message_id))

    KEYS: ClassVar[Sequence[Key[MessageTraceScreen]]] = (
        commands.OPEN.does(
            _open,
            lambda s: "no summary is selected" if s.summaries.selected is None else None,
            help="Show the lines of the summary, on the one that tells of the message.",
        ),
    )


def _first_line(source: TraceSource, wanted: str) -> int:
    """The line that is *wanted*, else the first that a message says, among those at the top."""
    if (
        at := next((at for at, one in enumerate(source.lines) if safe_text(one) == wanted), None)
    ) is not None:
        return at
    return next((at for at, line in enumerate(source.lines[:_HEADING]) if source.of_line(line)), 0)


def _wrapped(line: Line, width: int) -> list[Line]:
    block = WrappedBlock(Block(spans=line), max(width, 1))
    return [block.line(at) for at in range(len(block))]


def _excerpt(whole: str, common: Sequence[str], room: int) -> tuple[Line, str, Sequence[str]]:
    """The part of a text that has most of what is *common* to it and another, in about *room* characters.

    The shared words are marked in it. Also: what to search the text for to find the place, and the shared
    words that stand elsewhere in it.
    """
    text = " ".join(safe_text(whole).split())
    found = sorted(
        (start, end, word) for word in common if word for start, end in places_of(sought_as(word), text)
    )
    if not found:
        return (Span(text[:room]),), "", ()
    room -= room // 10  # lines break at words
    most, first, behind = 0, 0, 0  # words, and the place that has them
    for at, (begin, _, _) in enumerate(found):
        words: set[str] = set()
        for _, end, word in islice(found, at, None):
            if end - begin > room and words:
                break
            words.add(word)
            if (len(words), begin - end) > (most, first - behind):
                most, first, behind = len(words), begin, end
    start = max(first - max(room - (behind - first), 0) // _BEFORE, 0)
    start = text.find(" ", start, first) + 1 or start if start else 0
    stop = max(start + room, behind)
    if stop < len(text):
        stop = text.rfind(" ", behind, stop) + 1 or stop
    runs: list[tuple[int, int]] = []
    for begin, end, _ in found:
        if begin < start or end > stop:
            continue
        if runs and begin <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((begin, end))
    shown = (Span(text[start:stop].rstrip()),)
    marked = recoloured(shown, [(begin - start, end - start) for begin, end in runs], "match")
    written = sorted((text[begin:end] for begin, end in runs), key=len, reverse=True)
    within = {word for begin, end, word in found if start <= begin and end <= stop}
    return (
        (Span("… " if start else "", "dim"), *marked, Span(" …" if stop < len(text) else "", "dim")),
        # It is sought as it is written, and what stands there more than once may be another sentence.
        next((run for run in (text[first:behind], *written) if whole.count(run) == 1), common[0]),
        [safe_line(word) for word in common if word not in within],
    )
