"""A document as a value, and how its blocks fall into lines at one width."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from lcm_core.text import cell_width, fold, places_of, safe_line, safe_text, wrap_spans

from lcm_tui.widgets.spans import Line, Span, StyleName, recoloured, slice_of, text_of

#: Cells of a line of prose at most: longer ones are hard to read, however wide the terminal is.
MEASURE: Final = 120


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document: a text of any number of lines, or one line of spans; both are wrapped."""

    text: str = ""
    style: StyleName = "text"
    spans: Line | None = None
    indent: int = 0  #: cells before each line; a line of spans has as many of its own


Document = tuple[Block, ...]


def heading(text: str) -> Block:
    """A heading within a document."""
    return Block(spans=(Span(text, "heading"),))


def field(name: str, value: str, style: StyleName = "text", width: int = 14) -> Block:
    """A name and its value, on one line or on more when the value is long.

    *width* is in cells; a name that fills it is still two blanks from its value.
    """
    label = f"{name}  " if cell_width(name) >= width else f"{name:<{width}}"
    return Block(spans=(Span(label, "dim"), Span(value, style)), indent=width)


class WrappedBlock:
    """A block at one width: its safe text, and where in it each of its lines begins and ends."""

    def __init__(self, block: Block, width: int) -> None:
        self._margin = " " * max(0, min(block.indent, width - 8))
        self._folded: str | None = None
        self._found: tuple[str, list[tuple[int, int]]] = ("", [])
        self.starts, self.ends = array("q"), array("q")
        if block.spans is None:
            self._hangs = False
            self._spans: Line = (Span(safe_text(block.text), block.style),)
            self.text = self._spans[0].text
            self._break(0, width - len(self._margin))
        else:
            self._hangs = True
            self._spans = tuple(Span(safe_line(span.text), span.style) for span in block.spans)
            self.text = text_of(self._spans)
            if cell_width(self.text) <= width:
                self._break(0, width)
            else:  # what stands in the margin of the first line is not wrapped
                head = len(self._margin)
                fits = cell_width(self.text[:head]) == head
                self._break(head if fits else 0, width - head)

    def _break(self, head: int, room: int) -> None:
        start = head
        for line in self.text[head:].split("\n"):
            for first, last in wrap_spans(line, room):
                self.starts.append(start + first)
                self.ends.append(start + last)
            start += len(line) + 1
        self.starts[0] = 0

    def __len__(self) -> int:
        return len(self.starts)

    def places(self, sought: str) -> list[tuple[int, int]]:
        """Where a text stands in any spelling, start and end of each; *sought* is folded."""
        if self._found[0] != sought:
            if self._folded is None:
                self._folded = fold(self.text)
            self._found = sought, places_of(sought, self.text, self._folded)
        return self._found[1]

    def line(self, at: int, sought: str = "") -> Line:
        """One line; marked in it is what is *sought*, a folded text."""
        start, end = self.starts[at], self.ends[at]
        line = slice_of(self._spans, start, end)
        if sought:  # a match may begin on the line before and end on the next
            found = self.places(sought)
            near = found[bisect_right(found, start, key=itemgetter(1)) : bisect_left(found, (end, end))]
            line = recoloured(line, [(first - start, last - start) for first, last in near], "match")
        return (Span(self._margin), *line) if self._margin and not (self._hangs and at == 0) else line

    def line_at(self, offset: int) -> int:
        """The line on which a place in the text stands."""
        return max(0, bisect_right(self.starts, offset) - 1)
