"""Blocks of a view as a document to read: facts as fields, a table's rows as lines that may be wrapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lcm_tui.views.blocks import Block, Cell, Facts, Mark, Note, Prose, Table, Verbatim, shown
from lcm_tui.widgets.text import Block as Piece
from lcm_tui.widgets.text import Document, field, heading

#: Cells that the name of a fact takes at most.
NAMES = 20


def document_of(blocks: Iterable[Block]) -> Document:
    """The same as a document. Values that are not recorded say that it is this version that does not."""
    pieces: list[Piece] = []
    for block in blocks:
        if pieces:
            pieces.append(Piece())
        pieces += _pieces(block)
    return tuple(pieces)


def _pieces(block: Block) -> Iterator[Piece]:
    if isinstance(block, Facts | Table | Prose) and block.title:
        yield heading(block.title)
    match block:
        case Facts():
            width = min(NAMES, max((len(name) for name, _ in block.rows), default=0) + 2)
            yield from (_fact(name, value, width) for name, value in block.rows)
        case Table():
            yield from map(_row, block.rows)
            if not block.rows:
                yield Piece(block.empty, "dim")
        case Note():
            yield Piece(block.text, "dim")
        case Prose() | Verbatim():
            yield Piece(block.text)


def _fact(name: str, value: Cell, width: int) -> Piece:
    if value is Mark.NOT_RECORDED:
        return field(name, "not recorded by this version", "dim", width)
    return field(name, shown(value), "dim" if value is None else "text", width)


def _row(row: Sequence[Cell]) -> Piece:
    first, *rest = row
    return field(shown(first), "  ".join(shown(one) for one in rest if one is not None), width=10)
