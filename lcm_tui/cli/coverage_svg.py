"""The coverage map as an SVG picture: the same cells, finer than a terminal has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final

from lcm_core.context_view import depth_name
from lcm_core.dag.coverage import Coverage, Held, Scale, cells_of, cut_cells
from lcm_core.text import safe_line

from lcm_tui.views.coverage import LOOKS, axis_marks, legend, state_text, sums
from lcm_tui.widgets.palette import PAINTS
from lcm_tui.widgets.spans import text_of

#: In pixels.
WIDTH: Final = 1_200
LEFT: Final = 110
ROW: Final = 22
GAP: Final = 6
#: Pixels of a cell; a row has as many as fit.
CELL: Final = 2
_TEXT: Final = "#d8d8d8"
_WRONG: Final = "#ff4040"
_GROUND: Final = "#1c1c1c"
_HELD: Final = {
    Held.LOST: _WRONG,
    Held.DOUBLED: _WRONG,
    Held.RAW: "#808080",
    Held.TAIL: PAINTS["role-assistant"].colour,
}
_DEPTHS: Final = tuple(PAINTS[name].colour for name in ("leaf", "d1", "d2", "d3"))


def drawing(coverage: Coverage, title: str) -> str:
    """The picture as a document of its own; every text in it is escaped."""
    parts = list(_rows(coverage)) if coverage.messages else []
    top = 56 + (len(coverage.levels) + 1) * (ROW + GAP)
    parts += _legend(coverage, top + 34)
    head = _text(12, 22, title, 'font-weight="bold"') + _text(12, 42, sums(coverage))
    height = top + 56
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="{_GROUND}"/>\n{head}{"".join(parts)}</svg>\n'
    )


def _rows(coverage: Coverage) -> Iterator[str]:
    scale = Scale(0, coverage.messages, (WIDTH - LEFT - 12) // CELL)
    y = 56
    for level in coverage.levels:
        yield _text(12, y + 15, f"{depth_name(level.depth)}  {len(level.blocks):,}")
        colours = [
            None if cell.state is None else _WRONG if cell.doubled else PAINTS[LOOKS[cell.state].style].colour
            for cell in cells_of(level, scale)
        ]
        yield from _bars(colours, y)
        edges = [scale.cells_of((block.first, block.first + 1)).start for block in level.blocks]
        if len(edges) * 4 <= scale.width:  # more of them are no edges but a shade
            yield from (_bar(at, 1, y, _GROUND, width=1) for at in edges)
        y += ROW + GAP
    yield _text(12, y + 15, "context")
    cut = cut_cells(coverage, scale)
    yield from _bars(
        [
            _DEPTHS[min(max(cell.depth or 0, 0), 3)] if cell.held is Held.SUMMARY else _HELD[cell.held]
            for cell in cut
        ],
        y,
    )
    yield from (
        _text(LEFT + at * CELL, y + ROW + 16, f"#{seq}", 'fill="#909090"')
        for at, seq in axis_marks(coverage, scale, 90)
    )


def _bars(colours: Sequence[str | None], y: int) -> Iterator[str]:
    """Neighbours of one colour as one rectangle."""
    at = 0
    for colour, run in groupby(colours):
        length = len(list(run))
        if colour is not None:
            yield _bar(at, length, y, colour)
        at += length


def _bar(at: int, cells: int, y: int, colour: str, width: int | None = None) -> str:
    size = cells * CELL if width is None else width
    return f'<rect x="{LEFT + at * CELL}" y="{y}" width="{size}" height="{ROW}" fill="{colour}"/>\n'


def _legend(coverage: Coverage, y: int) -> Iterable[str]:
    x = 12
    for state, look in LOOKS.items():
        if not (count := coverage.counts[state]):
            continue
        words = f"{state_text(state)} {count:,}"
        yield f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{PAINTS[look.style].colour}"/>\n'
        yield _text(x + 18, y, words)
        x += 18 + 8 * len(words) + 22
    wrong = [text_of(entry) for entry in legend(coverage, plain=True) if entry[0].text in "!&"]
    yield from (_text(x, y, "  ".join(wrong), f'fill="{_WRONG}"') for _ in wrong[:1])


def _text(x: int, y: int, text: str, more: str = "") -> str:
    fill = "" if "fill=" in more else f' fill="{_TEXT}"'
    return f'<text x="{x}" y="{y}"{fill} {more}>{escape(safe_line(text))}</text>\n'
