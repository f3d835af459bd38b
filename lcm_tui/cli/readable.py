"""Answers for people: blocks become lines here alone, by rich; and tables that fit the terminal.

Blocks hold texts as they stand in the database; everything is made safe here, on its way out.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import rich.table
from lcm_core.base.text import safe_line, safe_text
from lcm_core.base.values import Record
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from lcm_tui.tables.blocks import Facts, Note, OutputBlock, OutputColumn, Prose, Table, Verbatim, shown

#: The narrowest that a growing column becomes, in cells; below that, columns are left out.
_MIN_GROWING = 20
_GAP = 2
#: What a column of sentences has of a line before others are left out.
_SENTENCES = 0.6
#: Cells of a line where there is no terminal: more than any text has, so that nothing is cut or wrapped.
_UNBOUNDED = 1 << 31


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
            yield from self._drawn(Text(safe_line(block.text), "dim"))
            return
        if block.title:
            yield from self._drawn(Text(safe_line(block.title), "bold"))
        match block:
            case Table(rows=[]) | Table(rows=()):
                yield safe_line(block.empty)
            case Table():
                yield from self._table_lines(block)
            case Facts():
                yield from self._drawn(self._facts(block))
            case Prose():
                yield from self._drawn(Text(safe_text(block.text)))

    def _drawn(self, what: RenderableType) -> Iterator[str]:
        """The lines of one thing, without the blanks at their ends."""
        to = io.StringIO()
        console = Console(
            file=to,
            width=self.width or _UNBOUNDED,
            height=1,
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            no_color=not self.color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )
        console.print(what)
        yield from (line.rstrip() for line in to.getvalue().removesuffix("\n").split("\n"))

    def _facts(self, block: Facts) -> rich.table.Table:
        names = [safe_line(name) for name, _ in block.rows]
        widest = max(map(cell_len, names), default=0)
        grid = rich.table.Table.grid(padding=(0, _GAP, 0, 0))
        grid.add_column(
            style="dim",
            no_wrap=True,
            overflow="ellipsis",
            width=widest if self.width is None else min(widest, self.width // 2),
        )
        grid.add_column(overflow="fold")
        for name, (_, value) in zip(names, block.rows, strict=True):
            grid.add_row(Text(name), Text(shown(value)))
        return grid

    def _table_lines(self, block: Table) -> Iterator[str]:
        """A table; where its sentences would be crushed, each is below its row instead."""
        kept = self._with_room(block)
        below = self._crushed(block, kept)
        lines = list(self._drawn(self._table(block, [at for at in kept if at != below])))
        if below is None:
            yield from lines
            return
        head = len(lines) - len(block.rows)  # a row is one line
        yield from lines[:head]
        yield from self._indented(Text(safe_line(block.columns[below].title), "bold"))
        for line, row in zip(lines[head:], block.rows, strict=True):
            yield line
            if text := shown(row[below]):
                yield from self._indented(Text(text))

    def _indented(self, text: Text) -> Iterator[str]:
        return self._drawn(Padding(text, (0, 0, 0, _GAP)))

    def _table(self, block: Table, kept: Sequence[int]) -> rich.table.Table:
        table = rich.table.Table(
            box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold", collapse_padding=True
        )
        for at in kept:
            column = block.columns[at]
            table.add_column(
                Text(safe_line(column.title), no_wrap=True, overflow="ellipsis"),
                justify="right" if column.right else "left",
                no_wrap=not column.grows,
                overflow="ellipsis",
            )
        for row in block.rows:
            table.add_row(*(_cell(shown(row[at]), block.columns[at]) for at in kept))
        return table

    def _with_room(self, block: Table) -> list[int]:
        """The columns that the terminal has room for: those that can be spared go first."""
        kept = list(range(len(block.columns)))
        if self.width is None:
            return kept
        least = {at: self._least(at, block) for at in kept}
        while sum(least[at] + _GAP for at in kept) - _GAP > self.width:
            spare = max(kept, key=lambda at: block.columns[at].spare)
            if not block.columns[spare].spare:
                break
            kept.remove(spare)
        return kept

    def _crushed(self, block: Table, kept: Sequence[int]) -> int | None:
        """The growing column with the longest text, where the terminal has no room for it; else None."""
        growing = [at for at in kept if block.columns[at].grows]
        if self.width is None or not growing or len(kept) < 2:
            return None
        if sum(self._least(at, block) + _GAP for at in kept) - _GAP <= self.width:
            return None
        return max(growing, key=lambda at: max(cell_len(shown(row[at])) for row in block.rows))

    def _least(self, at: int, block: Table) -> int:
        """The narrowest that a column becomes, in cells."""
        column = block.columns[at]
        title = cell_len(safe_line(column.title))
        width = max(title, *(cell_len(shown(row[at])) for row in block.rows))
        share = round((self.width or 0) * _SENTENCES) if column.wide else 0
        return min(width, max(_MIN_GROWING, share, title)) if column.grows else width


def _cell(text: str, column: OutputColumn) -> Text:
    return Text(text, dict(column.colors).get(text, ""), no_wrap=True, overflow="ellipsis")
