"""How a conversation grew, as a line of bars; for both faces, with colours or without."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from lcm_core.store.growth import Growth
from lcm_core.times import format_local

from lcm_tui.widgets.spans import Line, Span

#: Bars by height; a piece of time without a message has a dot.
BARS: Final = "▁▂▃▄▅▆▇█"
NONE: Final = "·"
#: Cells of the line where nobody says otherwise.
CELLS: Final = 40
#: What stands before it.
LABEL: Final = " messages over time "


def spark_text(growth: Growth, cells: int) -> str:
    """Bars for the messages of equal pieces of its time; the tallest is the most of any piece."""
    counts = [count for count, _ in growth.cells(cells)]
    most = max(counts, default=0)
    return "".join(
        BARS[min(count * len(BARS) // (most + 1), len(BARS) - 1)] if count > 0 else NONE for count in counts
    )


def growth_line(growth: Growth | None, width: int, zone: tzinfo | None, *, read: bool) -> Line:
    """The bars between the first and the last time, over a line; *read*: without them it has hardly begun."""
    if growth is None:
        return (Span(LABEL, "dim"), Span("–" if read else "…", "dim"))
    first, last = (format_local(at, zone)[:16] for at in (growth.first, growth.last))
    return (
        Span(LABEL, "dim"),
        Span(f"{first} "),
        Span(spark_text(growth, bar_cells(width)), "d1"),
        Span(f" {last}"),
    )


def bar_cells(width: int) -> int:
    """Cells that the bars have on a line."""
    return max(width - bar_start() - 18, 8)


def bar_start() -> int:
    """The cell of the first bar on a line."""
    return len(LABEL) + 17


def seq_at(growth: Growth, cell: int, width: int) -> int | None:
    """The seq of the first message of a piece of time, by the cell of its bar on the line."""
    at, cells = cell - bar_start(), growth.cells(bar_cells(width))
    return cells[at][1] if 0 <= at < len(cells) else None
