"""Answers for people: blocks become lines here alone, and tables fit the terminal.

Blocks hold texts as they stand in the database; everything is made safe here, on its way out. Rich would
draw the same: to import it and to draw a table took 18 ms, a sixth of what a list costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lcm_core.base.text import cell_width, clip, safe_line, safe_text, wrap
from lcm_core.base.values import Record

from lcm_tui.tables.blocks import Facts, Note, OutputBlock, OutputColumn, Prose, Table, Verbatim, shown

#: The narrowest that a growing column becomes, in cells; below that, columns are left out.
_MIN_GROWING = 20
_GAP = 2
#: What a column of sentences has of a line before others are left out.
_SENTENCES = 0.6
#: Cells of a line where there is no terminal: more than any text has, so that nothing is cut or wrapped.
_UNBOUNDED = 1 << 31
#: The SGR code of each style.
_CODES: Final = {"bold": 1, "dim": 2, "red": 31, "yellow": 33}


class Page(Record, frozen=True):
    """What the lines are for."""

    width: int | None  #: cells of the terminal; None: not a terminal, nothing is cut
    color: bool

    def render(self, blocks: Sequence[OutputBlock]) -> str:
        """The blocks as text, an empty line between them."""
        return "\n\n".join("\n".join(self._lines(block)) for block in blocks)

    def _lines(self, block: OutputBlock) -> Iterator[str]:
        if isinstance(block, Verbatim):
            yield block.text
            return
        if isinstance(block, Note):
            yield from self._wrapped(safe_line(block.text), "dim")
            return
        if block.title:
            yield from self._wrapped(safe_line(block.title), "bold")
        match block:
            case Table(rows=[]) | Table(rows=()):
                yield safe_line(block.empty)
            case Table():
                yield from self._table(block)
            case Facts():
                yield from self._facts(block)
            case Prose():
                yield from self._wrapped(safe_text(block.text))

    @property
    def _room(self) -> int:
        return _UNBOUNDED if self.width is None else self.width

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.color and style and text else text

    def _cell(self, text: str, width: int, style: str = "", *, right: bool = False) -> str:
        if cell_width(text) > width:
            text = clip(text, width)
        blanks, drawn = " " * (width - cell_width(text)), self._styled(text, style)
        return blanks + drawn if right else drawn + blanks

    def _wrapped(self, text: str, style: str = "", indent: int = 0) -> Iterator[str]:
        """The lines of a text, without the blanks at their ends."""
        for line in wrap(text, self._room - indent):
            yield " " * indent * bool(line) + self._styled(line.rstrip(), style)

    def _facts(self, block: Facts) -> Iterator[str]:
        names = [safe_line(name) for name, _ in block.rows]
        width = min(max(map(cell_width, names), default=0), self._room // 2)
        for name, (_, value) in zip(names, block.rows, strict=True):
            first, *more = self._wrapped(shown(value), indent=width + _GAP)
            yield (self._cell(name, width, "dim") + first[width:]).rstrip()
            yield from more

    def _table(self, block: Table) -> Iterator[str]:
        """A table; where its sentences would be crushed, each is below its row instead."""
        columns, titles = block.columns, [safe_line(column.title) for column in block.columns]
        rows = [list(map(shown, row)) for row in block.rows]
        widths = [min(self._room, max(map(cell_width, texts))) for texts in zip(titles, *rows, strict=True)]
        least = [self._least(*each) for each in zip(columns, widths, titles, strict=True)]
        kept = list(range(len(columns)))
        while self._excess(least, kept) > 0:  # those that can be spared go first
            spare = max(kept, key=lambda at: columns[at].spare)
            if not columns[spare].spare:
                break
            kept.remove(spare)
        growing = [at for at in kept if columns[at].grows]
        below = None
        if growing and len(kept) > 1 and self._excess(least, kept) > 0:
            below = max(growing, key=widths.__getitem__)
            kept.remove(below)
            growing.remove(below)
        for among in filter(None, (growing, kept)):  # the widest of them first
            for _ in range(self._excess(widths, kept)):
                widest = max(among, key=widths.__getitem__)
                widths[widest] -= widths[widest] > 0

        def lines_of(texts: Sequence[str], styles: Sequence[str]) -> Iterator[str]:
            cells = [self._cell(texts[at], widths[at], styles[at], right=columns[at].right) for at in kept]
            yield (" " * _GAP).join(cells).rstrip()
            if below is not None and texts[below]:
                yield from self._wrapped(texts[below], styles[below], _GAP)

        yield from lines_of(titles, ["bold"] * len(columns))
        colors = [dict(column.colors) for column in columns]
        for row in rows:
            yield from lines_of(row, [own.get(text, "") for own, text in zip(colors, row, strict=True)])

    def _least(self, column: OutputColumn, widest: int, title: str) -> int:
        """The narrowest that a column becomes, in cells."""
        share = round(self._room * _SENTENCES) if column.wide else 0
        return min(widest, max(_MIN_GROWING, share, cell_width(title))) if column.grows else widest

    def _excess(self, widths: Sequence[int], kept: Sequence[int]) -> int:
        """How many cells too wide a table of the columns that are kept is."""
        return sum(widths[at] + _GAP for at in kept) - _GAP - self._room
