"""A scrolling view of text of any size: wrapped once per width, drawn by the line."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import ClassVar

from lcm_core.base.text import places_of, safe_line, sought_as, wrap
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.message import Message
from textual.strip import Strip

from lcm_tui.kit.drawn import name_at, strip_of, word_at
from lcm_tui.kit.lines import CACHED_STRIPS, Scroller
from lcm_tui.kit.spans import MEASURE, Block, Document, Line, Span, WrappedBlock, heading, recoloured, text_of
from lcm_tui.kit.spans import text_field as field

__all__ = ["Block", "Document", "TextView", "field", "heading", "mark"]

#: Lines that stand above a match when it is scrolled to.
ABOVE = 2

#: A place in a document: number of the block, offset in its text.
Place = tuple[int, int]


class TextView(Scroller):
    """A document to read: arrows scroll, nothing is selected."""

    class Clicked(Message):
        """A line of the text was clicked."""

        def __init__(self, view: TextView, block: int) -> None:
            super().__init__()
            self.view = view
            self.block = block  #: its number in the document

        @property
        def control(self) -> TextView:
            """The text."""
            return self.view

    moves = (
        (("up", "down"), "scroll by a line"),
        (("page-up", "page-down", "text-page-down"), "scroll by a page"),
        (("first", "last"), "the beginning, the end"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "page(1)", "Page down", show=False, id="text-page-down"),
    ]

    def __init__(self, document: Document = (), *, empty: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Scroller.empty, empty)
        self._document = document
        self._wrapped: list[WrappedBlock] = []
        self._tops = [0]  #: the first line of each block, and the end
        self._wrapped_at = 0
        self._needle = ""
        self._sought = ""  #: the needle folded
        self._hit: Place | None = None
        self._strips: LRUCache[int, Strip] = LRUCache(CACHED_STRIPS)  #: lines as the terminal gets them

    @property
    def document(self) -> Document:
        """What is shown."""
        return self._document

    @property
    def first_block(self) -> int:
        """The block of the first line in sight, by its number in the document."""
        return max(bisect_right(self._tops, self._top) - 1, 0)

    @property
    def line(self) -> str:
        """The line of the text that the last match is in, if that is in sight, else the first in sight."""
        if not self._wrapped:
            return ""
        hit = self._hit is not None and 0 <= self._line_of(self._hit) - self._top < self._height
        block, offset = self._hit if self._hit is not None and hit else self._place()
        text = self._wrapped[block].text
        return text[text.rfind("\n", 0, max(offset, 0)) + 1 :].split("\n", 1)[0]

    @property
    def text(self) -> str:
        """What is shown, as lines of text."""
        return "\n".join(text_of(self._line(at)) for at in range(self._tops[-1]))

    @property
    def _measure(self) -> int:
        """Cells that lines are wrapped to: no more than are easily read."""
        return min(self._width, MEASURE)

    async def load(self, document: Document, *, keep_place: bool = False) -> None:
        """`show`, with the lines made in a thread: the keys do not wait for a long document."""
        if document == self._document and self._wrapped_at == self._measure:
            return
        width = self._measure
        wrapped = await asyncio.to_thread(_wrapped, document, width) if width > 0 else []
        self.show(document, keep_place=keep_place, wrapped=(width, wrapped))

    def show(
        self,
        document: Document,
        *,
        keep_place: bool = False,
        wrapped: tuple[int, list[WrappedBlock]] | None = None,
    ) -> None:
        """Show another document, from its top unless it is the same one grown.

        *wrapped*: it in lines of so many cells, as far as that is known.
        """
        if document == self._document and self._wrapped_at == self._measure:
            return
        place = self._place() if keep_place else (0, 0)
        self._document = document
        self._wrapped_at = 0
        if not keep_place:
            self._hit = None
        self._wrap(wrapped)
        self._show_from(self._line_of(place))
        self._draw_anew()

    def find(self, needle: str, *, forward: bool = True) -> bool:
        """Scroll to the next (or previous) place where *needle* stands, in any spelling, and mark all.

        A needle that was not looked for before is found from the top of the screen on. False when it stands
        nowhere; an empty one ends the search.
        """
        if needle != self._needle:
            self._needle, self._sought = needle, sought_as(needle)
            block, offset = self._place()
            self._hit = (block, offset - 1 if forward else offset)
        self._draw_anew()
        if not self._sought or not self._wrapped:
            return False
        found = self._next_hit() if forward else self._hit_before()
        if found is not None:
            self._hit = found
            self._show_from(self._line_of(found) - ABOVE)
        return found is not None

    def find_first(self, needle: str) -> bool:
        """As `find`, from the beginning of the document on."""
        self._needle, self._sought, self._hit = needle, sought_as(needle), None
        return self.find(needle)

    def find_at(self, needle: str, place: Place) -> None:
        """Scroll to a place, and mark *needle* there and wherever else it stands."""
        self._needle, self._sought, self._hit = needle, sought_as(needle), place
        self._show_from(self._line_of(place) - ABOVE)
        self._draw_anew()

    def reveal_next(self, blocks: Sequence[int]) -> None:
        """Scroll to the first of some blocks that begins below the top line; without one, to the top."""
        tops = [self._tops[block] for block in blocks]
        following = next((top for top in tops if top > self._top), 0)
        self._show_from(following if self._top < self._bottom else 0)

    def drawn(self, rows: range) -> list[Strip]:
        """Some lines of the document, their matches marked."""
        strips, top, width = [], self._top, self._width
        for at in range(top + rows.start, top + rows.stop):
            strip = self._strips.get(at)
            if strip is None:
                strip = strip_of(self._line_or_nothing(at), self.style_of, width)
                self._strips.set(at, strip)
            strips.append(strip)
        return strips

    def _line_or_nothing(self, at: int) -> Line:
        if at < self._tops[-1]:
            return self._line(at, self._sought)
        said = () if self._document else wrap(safe_line(self.empty), max(self._width, 1))
        return (Span(said[at], "dim"),) if at < len(said) else ()

    def _draw_anew(self) -> None:
        self._strips.clear()
        self.refresh()

    def watch_empty(self) -> None:
        """Something else is said when there is nothing."""
        self._draw_anew()

    def colours_changed(self) -> None:
        """Forget what was drawn in other colours."""
        self._strips.clear()

    def action_move(self, step: int) -> None:
        """Scroll by a line."""
        self._show_from(self._top + step)

    def action_page(self, direction: int) -> None:
        """Scroll by a page."""
        self._show_from(self._top + direction * max(self._height - 1, 1))

    def action_first(self) -> None:
        """Scroll to the top."""
        self._show_from(0)

    def action_last(self) -> None:
        """Scroll to the end."""
        self._show_from(self._bottom)

    async def on_click(self, event: events.Click) -> None:
        """Go where an id leads."""
        offset = event.get_content_offset(self)
        line = self._top + offset.y if offset is not None else self._tops[-1]
        if offset is not None and line < self._tops[-1]:
            block = bisect_right(self._tops, line) - 1
            self.post_message(self.Clicked(self, block))
            if name := name_at(text_of(self._line(line)), offset.x):
                self.post_message(self.Pressed(self, name=name))
        elif offset is not None and offset.y == 0 and not self._document:
            self.post_message(self.Pressed(self, key=word_at(self.empty, offset.x)))

    def on_resize(self, event: events.Resize) -> None:
        """Wrap for another width, and keep the place."""
        place = self._place()
        self._wrap()
        self._show_from(self._line_of(place))

    def _wrap(self, known: tuple[int, list[WrappedBlock]] | None = None) -> None:
        width = self._measure
        if self._wrapped_at != width and width > 0:
            self._wrapped_at = width
            fits = known is not None and known[0] == width
            self._wrapped = known[1] if known is not None and fits else _wrapped(self._document, width)
            self._tops = [0, *accumulate(map(len, self._wrapped))]
            self._hold(self._tops[-1])
            self._draw_anew()

    def _line(self, at: int, sought: str = "") -> Line:
        block = bisect_right(self._tops, at) - 1
        return self._wrapped[block].line(at - self._tops[block], sought)

    def _place(self) -> Place:
        """Where in the document the screen begins."""
        if not self._wrapped:
            return (0, 0)
        at = min(self._top, self._tops[-1] - 1)
        block = bisect_right(self._tops, at) - 1
        return block, self._wrapped[block].starts[at - self._tops[block]]

    def _line_of(self, place: Place) -> int:
        block, offset = place
        if block >= len(self._wrapped):
            return self._tops[-1]
        return self._tops[block] + self._wrapped[block].line_at(offset)

    def _next_hit(self) -> Place | None:
        block, offset = self._hit or (0, -1)
        total = len(self._wrapped)
        for step in range(total + 1):
            at = (block + step) % total
            found = self._wrapped[at].places(self._sought)
            first = bisect_right(found, offset, key=itemgetter(0)) if step == 0 else 0
            if first < len(found):
                return at, found[first][0]
        return None

    def _hit_before(self) -> Place | None:
        block, offset = self._hit or (0, 0)
        total = len(self._wrapped)
        for step in range(total + 1):
            at = (block - step) % total
            found = self._wrapped[at].places(self._sought)
            last = bisect_left(found, offset, key=itemgetter(0)) if step == 0 else len(found)
            if last:
                return at, found[last - 1][0]
        return None


def mark(line: Line, needle: str) -> Line:
    """The line with every place where *needle* stands, in any spelling, drawn as a match."""
    places = places_of(sought_as(needle), text_of(line))
    return recoloured(line, places, "match") if places else line


def mark_across(lines: Sequence[Line], needle: str) -> list[Line]:
    """The lines with *needle* marked, also where it begins at the end of one and goes on in the next."""
    texts = [text_of(line) for line in lines]
    said = [text.lstrip() for text in texts]
    places = places_of(sought_as(needle), " ".join(said))
    marked, at = [], 0
    for line, text, words in zip(lines, texts, said, strict=True):
        end, margin = at + len(words), len(text) - len(words)
        near = places[bisect_right(places, at, key=itemgetter(1)) : bisect_left(places, (end, end))]
        spots = [(max(first - at, 0) + margin, last - at + margin) for first, last in near]
        marked.append(recoloured(line, spots, "match"))
        at = end + 1
    return marked


def _wrapped(document: Document, width: int) -> list[WrappedBlock]:
    return [WrappedBlock(block, width) for block in document]
