"""Answers for people: the one place where blocks become lines.

They hold texts as they stand in the database; everything is made safe here, on its way out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lcm_core.text import cell_width, clip, safe_line, safe_text, wrap

from lcm_tui.views.blocks import Block, Column, Facts, Note, Prose, Table, Verbatim, shown

#: The narrowest that a growing column becomes; below that, lines run over.
_MIN_GROWING = 20
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Page:
    """What the lines are for."""

    width: int | None  #: cells of the terminal; None: not a terminal, nothing is cut
    color: bool

    def render(self, blocks: Sequence[Block]) -> str:
        """The blocks as text, an empty line between them."""
        return "\n\n".join("\n".join(self._lines(block)) for block in blocks)

    def _lines(self, block: Block) -> Iterator[str]:
        match block:
            case Table():
                yield from self._titled(block.title)
                yield from self._table(block)
            case Facts():
                yield from self._titled(block.title)
                yield from self._facts(block)
            case Prose():
                yield from self._titled(block.title)
                text = safe_text(block.text)
                yield from wrap(text, self.width) if self.width else text.split("\n")
            case Verbatim():
                yield block.text
            case Note():
                text = safe_line(block.text)
                yield from (self._dim(line) for line in (wrap(text, self.width) if self.width else [text]))

    def _titled(self, title: str) -> Iterator[str]:
        if title:
            text = safe_line(title)
            yield from (self._bold(line) for line in (wrap(text, self.width) if self.width else [text]))

    def _facts(self, block: Facts) -> Iterator[str]:
        names = [safe_line(name) for name, _ in block.rows]
        width = max(map(cell_width, names), default=0)
        if self.width is not None:
            width = min(width, self.width // 2)
        for name, (_, value) in zip(names, block.rows, strict=True):
            text = shown(value)
            first, *rest = [text] if self.width is None else wrap(text, self.width - width - len(_GAP))
            yield f"{self._dim(_padded(clip(name, width), width))}{_GAP}{first}".rstrip()
            yield from (" " * (width + len(_GAP)) + line for line in rest)

    def _table(self, block: Table) -> Iterator[str]:
        if not block.rows:
            yield safe_line(block.empty)
            return
        texts = [
            [safe_line(column.title), *(shown(row[at]) for row in block.rows)]
            for at, column in enumerate(block.columns)
        ]
        parts = [
            _Part(column, found, max(map(cell_width, found)))
            for column, found in zip(block.columns, texts, strict=True)
        ]
        if self.width is not None:
            parts = _fitted(parts, self.width)
        for at in range(len(block.rows) + 1):
            line = _GAP.join(part.cell(at) for part in parts).rstrip()
            line = line if self.width is None else clip(line, self.width)
            yield line if at else self._bold(line)

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.color else text


@dataclass(frozen=True, slots=True)
class _Part:
    """A column on its way out: its texts, the title first, and the cells that it takes."""

    column: Column
    texts: Sequence[str]
    width: int

    @property
    def least(self) -> int:
        """The narrowest that it becomes."""
        return min(self.width, max(_MIN_GROWING, len(self.column.title))) if self.column.grows else self.width

    def cell(self, at: int) -> str:
        """One text in its cells."""
        return _padded(clip(self.texts[at], self.width), self.width, right=self.column.right)


def _fitted(parts: Sequence[_Part], width: int) -> list[_Part]:
    """The columns that a terminal has room for, those that grow made narrower, the last first."""
    left = list(parts)
    while sum(part.least + len(_GAP) for part in left) - len(_GAP) > width:
        spare = max(left, key=lambda part: part.column.spare)
        if not spare.column.spare:
            break
        left.remove(spare)
    excess = sum(part.width + len(_GAP) for part in left) - len(_GAP) - width
    for at in reversed(range(len(left))):
        taken = max(0, min(excess, left[at].width - left[at].least))
        left[at] = replace(left[at], width=left[at].width - taken)
        excess -= taken
    return left


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cell_width(text))
    return space + text if right else text + space
