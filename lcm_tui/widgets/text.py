"""A scrolling view of text of any size: wrapped once per width, drawn by the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.text import safe_text, wrap
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip

from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line, Span, StyleName, strip_of, text_of


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document: a line of spans as it is, or a text to be wrapped."""

    text: str = ""
    style: StyleName = "text"
    spans: Line | None = None
    indent: int = 0


Document = tuple[Block, ...]


def heading(text: str) -> Block:
    """A heading within a document."""
    return Block(spans=(Span(text, "heading"),))


def field(name: str, value: str, style: StyleName = "text", width: int = 14) -> Block:
    """A name and its value on one line, or more when the value is long."""
    return Block(spans=(Span(f"{name:<{width}}", "dim"), Span(value, style)))


def lines_of(document: Document, width: int) -> list[Line]:
    """The document as lines of at most *width* cells."""
    lines: list[Line] = []
    for block in document:
        if block.spans is not None:
            lines.append(block.spans)
            continue
        margin = (Span(" " * block.indent),) if block.indent else ()
        wrapped = wrap(safe_text(block.text), max(width - block.indent, 1))
        lines.extend((*margin, Span(text, block.style)) for text in wrapped)
    return lines


class TextView(LineView[int]):
    """A document to read: arrows scroll, nothing is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "page(1)", "Page down", show=False, id="text-page-down"),
    ]

    def __init__(self, document: Document = (), *, empty: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(self._draw_line, empty=empty, id=id)
        self._document = document
        self._wrapped: list[Line] = []
        self._wrapped_at = -1
        self._needle = ""
        self._hit = -1

    @property
    def document(self) -> Document:
        """What is shown."""
        return self._document

    @property
    def text(self) -> str:
        """What is shown, as lines of text."""
        return "\n".join(text_of(line) for line in self._wrapped)

    def show(self, document: Document, *, keep_place: bool = False) -> None:
        """Show another document, from its top unless it is the same one grown."""
        if document == self._document and self._wrapped_at == self._width:
            return
        self._document = document
        self._wrapped_at = -1
        self._wrap()
        if not keep_place:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.refresh()

    def find(self, needle: str, *, forward: bool = True) -> bool:
        """Scroll to the next (or previous) line that holds *needle*, ignoring case; False when none does."""
        folded = needle.casefold()
        if folded != self._needle:
            self._needle, self._hit = folded, self.scroll_offset.y - 1
        total = len(self._wrapped)
        for step in range(1, total + 1):
            at = (self._hit + (step if forward else -step)) % total
            if folded in text_of(self._wrapped[at]).casefold():
                self._hit = at
                self.scroll_to(y=max(0, at - 2), animate=False, immediate=True, force=True)
                self.refresh()
                return True
        return False

    def render_line(self, y: int) -> Strip:
        """One line of the document, its matches marked."""
        at = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if at >= len(self._wrapped):
            said = (Span(self.empty, "dim"),) if y == 0 and not self._document else ()
            return strip_of(said, self.style_of, width)
        line = self._wrapped[at]
        if self._needle and self._needle in text_of(line).casefold():
            line = mark(line, self._needle)
        return strip_of(line, self.style_of, width)

    def action_move(self, step: int) -> None:
        """Scroll by a line."""
        self._scroll_by(step)

    def action_page(self, direction: int) -> None:
        """Scroll by a page."""
        self._scroll_by(direction * max(self.size.height - 1, 1))

    def action_last(self) -> None:
        """Scroll to the end."""
        self._scroll_by(len(self._wrapped))

    def action_first(self) -> None:
        """Scroll to the top."""
        self._scroll_by(-len(self._wrapped))

    def _scroll_by(self, lines: int) -> None:
        bottom = max(0, len(self._wrapped) - self.size.height)
        self.scroll_to(
            y=max(0, min(self.scroll_offset.y + lines, bottom)), animate=False, immediate=True, force=True
        )

    def _draw_line(self, key: int, width: int) -> Sequence[Line]:
        return (self._wrapped[key],)

    async def _on_click(self, event: events.Click) -> None:
        event.stop()

    def _on_resize(self, event: events.Resize) -> None:
        event.prevent_default()  # Textual calls the handlers of base classes too: there are no keys to measure
        self._wrap()

    def _wrap(self) -> None:
        if self._wrapped_at != self._width and self._width > 0:
            self._wrapped = lines_of(self._document, self._width)
            self._wrapped_at = self._width
            self._hit = -1
            self.virtual_size = Size(self._width, len(self._wrapped))


def mark(line: Line, needle: str) -> Line:
    """The line with every place where *needle* (folded) stands in one span drawn as a match."""
    spans: list[Span] = []
    for span in line:
        folded = span.text.casefold()
        # Folding can change the length of a text; then its places are not those of the original.
        at = folded.find(needle) if len(folded) == len(span.text) else -1
        done = 0
        while at >= 0:
            spans += [Span(span.text[done:at], span.style), Span(span.text[at : at + len(needle)], "match")]
            done = at + len(needle)
            at = folded.find(needle, done)
        spans.append(Span(span.text[done:], span.style))
    return tuple(span for span in spans if span.text)
