"""The coverage map as lines: rows of depths, the context's row, the axis, the legend; for both faces.

Patterns and colours tell the states apart, or letters alone (docs/spec/map.md, "What the picture shows").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lcm_core.base.text import cell_width, counted, depth_name
from lcm_core.base.values import Record
from lcm_core.engine.coverage import (
    Cell,
    Coverage,
    CutCell,
    Held,
    Level,
    Runs,
    Scale,
    State,
    cells_of,
    cut_cells,
)
from lcm_core.engine.coverage import CoverageBlock as Block

from lcm_tui.kit.spans import Line, Span, StyleName, text_of
from lcm_tui.tables.blocks import ListColumn
from lcm_tui.tables.sent import fitted

#: Cells before the first of a row: the depth, and how many summaries it has.
GUTTER: Final = 12
#: Cells between two labels of the axis.
TICKS: Final = 20
#: Runs that a sentence names.
NAMED: Final = 5


class Look(Record, frozen=True):
    """How a state is drawn."""

    letter: str  #: where there are neither colours nor patterns; a capital where a summary begins
    pattern: str
    edge: str  #: the pattern where a summary begins
    style: StyleName


LOOKS: Final = {
    State.BROKEN: Look("b", "X", "X", "role-system"),
    State.ORPHAN: Look("o", "▚", "▚", "d3"),
    State.STALE: Look("s", "▒", "▒", "role-tool"),
    State.IN_CONTEXT: Look("c", "█", "▐", "leaf"),
    State.CONSUMED: Look("u", "░", "│", "d1"),
}
_WORDS: Final = {State.CONSUMED: "under another"}
DOUBLED: Final = Span("&", "error")
LOST: Final = Span("!", "error")


def state_text(state: State) -> str:
    """A state in the words of the legend."""
    return _WORDS.get(state, state.value)


def gutter(name: str, count: int | None = None) -> Span:
    """What stands before a row."""
    number = "" if count is None else f"{count:,}"
    room = GUTTER - 1 - cell_width(number)
    return Span(f"{name[:room]:<{room}}{number} ", "dim")


def level_line(level: Level, scale: Scale, *, plain: bool, chosen: Block | None = None) -> tuple[Line, range]:
    """The cells of a row, a span each at most; and which of them *chosen* touches, always in letters."""
    cells = cells_of(level, scale)
    here = range(0)
    if chosen is not None:
        here = scale.cells_of((chosen.first, chosen.end))
    spans = [_cell(cells, at, plain=plain or at in here) for at in range(scale.width)]
    return merged(spans), here


def _cell(cells: Sequence[Cell], at: int, *, plain: bool) -> Span:
    cell = cells[at]
    state = cell.state
    if state is None:
        return Span(" ")
    if cell.doubled:
        return DOUBLED
    look = LOOKS[state]
    # Where summaries are as narrow as cells there are edges everywhere, and no states to be seen.
    edge = cell.begins and cell.summaries <= 2 and not (at + 1 < len(cells) and cells[at + 1].begins)
    if plain:
        return Span(look.letter.upper() if edge else look.letter, look.style)
    return Span(look.edge if edge else look.pattern, look.style)


def cut_line(coverage: Coverage, scale: Scale) -> Line:
    """The row of the context."""
    return merged(_held(cell) for cell in cut_cells(coverage, scale))


def _held(cell: CutCell) -> Span:
    match cell.held:
        case Held.LOST:
            return LOST
        case Held.DOUBLED:
            return DOUBLED
        case Held.SUMMARY:
            depth = cell.depth or 0
            return Span("L" if depth == 0 else str(depth) if 0 < depth < 10 else "+", "leaf")
        case Held.RAW:
            return Span("m")
        case Held.TAIL:
            return Span("t", "role-assistant")


def merged(spans: Iterable[Span]) -> Line:
    """Neighbours of one style as one span."""
    found: list[Span] = []
    for span in spans:
        if found and found[-1].style == span.style:
            found[-1] = Span(found[-1].text + span.text, span.style)
        else:
            found.append(span)
    return tuple(found)


def axis_line(coverage: Coverage, scale: Scale, *, plain: bool) -> Line:
    """The seq of a message every few cells, each behind the mark of its cell; the last is at the end."""
    mark = "|" if plain else "╵"
    last = f"#{coverage.seqs[scale.end - 1]}{mark}"
    text = ""
    before = None
    for cell in range(0, scale.width, TICKS):
        seq = coverage.seqs[scale.run_at(cell)[0]]
        label = f"{mark}#{seq}"
        if seq != before and cell + len(label) + 1 + len(last) <= scale.width:
            text = text.ljust(cell) + label
        before = seq
    return (Span(text.ljust(scale.width - len(last)) + last, "dim"),)


def scale_of(coverage: Coverage, width: int) -> Scale:
    """All messages over a line of *width* cells."""
    return Scale(0, coverage.messages, max(width - GUTTER, 1))


def scale_text(scale: Scale) -> str:
    """What a cell stands for."""
    if scale.messages < scale.width:
        return f"1 message = {_number(scale.width / scale.messages)} cells"
    number = scale.messages / scale.width
    return f"1 cell = {_number(number)} {'message' if number == 1 else 'messages'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def legend(
    coverage: Coverage,
    *,
    plain: bool,
    reading: bool = False,
    chosen: Block | None = None,
    short: bool = False,
) -> list[Line]:
    """What the signs mean, with counts, an entry each; *reading*: broken and stale are not known yet.

    *chosen*: the block that is drawn in letters. *short*: only what is wrong, and that block.
    """
    entries: list[Line] = []
    sound = () if short else (State.IN_CONTEXT, State.CONSUMED)
    for state in (*sound, State.ORPHAN, State.BROKEN, State.STALE):
        look, count = LOOKS[state], coverage.counts[state]
        unknown = reading and state in {State.BROKEN, State.STALE}
        if count or unknown or state in sound:
            sign = look.letter if plain else look.pattern
            number = "…" if unknown else f"{count:,}"
            entries.append((Span(sign, look.style), Span(f" {state_text(state)} "), Span(number, "dim")))
    begins = " ".join(
        (look.letter.upper() if plain else look.edge)
        for look in (LOOKS[State.IN_CONTEXT], LOOKS[State.CONSUMED])
    )
    if not short:
        entries.append((Span(begins), Span(" a summary begins")))
    if chosen is not None and not plain:
        look, selected = LOOKS[chosen.state], " selected" if short else " the selected summary"
        entries.append((Span(look.letter.upper() + look.letter * 2, look.style), Span(selected)))
    if short:
        return entries
    depths = sorted({row.depth for row in coverage.cut if row.depth is not None})
    deep = [depth for depth in depths if depth > 0]
    signs: list[Line] = [(Span("L", "leaf"), Span(" leaf"))] if 0 in depths else []
    if deep:
        digits = str(deep[0]) if len(deep) == 1 else f"{deep[0]}-{min(deep[-1], 9)}"
        signs.append(
            (
                Span(digits, "leaf"),
                Span(f" {depth_name(deep[0])} summary" if len(deep) == 1 else " summary of that depth"),
            )
        )
    signs.append((Span("m"), Span(" message")))
    entries += [(Span("row context: ", "dim"), *signs[0]), *signs[1:]]
    if coverage.tail < coverage.messages:
        number = counted(coverage.messages - coverage.tail, "message", "messages")
        entries.append((Span("t", "role-assistant"), Span(" fresh tail "), Span(number, "dim")))
    if coverage.lost:
        entries.append((LOST, Span(" not in the context "), Span(f"{_size(coverage.lost):,}", "dim")))
    if coverage.doubled or any(level.doubled for level in coverage.levels):
        entries.append((DOUBLED, Span(" covered twice")))
    return entries


def unseen(coverage: Coverage) -> list[Line]:
    """How much the rows do not show, an entry each."""
    counts = (
        (len(coverage.unplaced), "without messages"),
        (len(coverage.dangling), "without a row"),
        (coverage.coarse, "without small holes"),
    )
    return [(Span(f"{count:,} {what}", "warn"),) for count, what in counts if count]


def why_empty(coverage: Coverage) -> str:
    """Why there is no row."""
    if not coverage.messages:
        return "This conversation has no messages."
    if coverage.blocks:
        return "No summary covers a message of this conversation."
    return "This conversation has no summaries."


def wrapped(entries: Sequence[Line], width: int) -> list[Line]:
    """Entries one behind the other, on as many lines as they need."""
    lines: list[Line] = []
    for entry in entries:
        together = (*lines[-1], Span("  "), *entry) if lines else entry
        if lines and cell_width(text_of(together)) <= width:
            lines[-1] = together
        else:
            lines.append(entry)
    return lines


def block_line(
    coverage: Coverage, block: Block, scale: Scale, width: int, signs: Sequence[Line] = ()
) -> Line:
    """A summary in one line: place, state, *signs*, which messages it covers, the scale; what has room."""
    level = coverage.levels[coverage.level_of(block.summary_id) or 0]
    at, number = level.blocks.index(block) + 1, len(level.blocks)
    name: Line = (
        Span(f"{depth_name(block.depth)} {at:,} of {number:,} ", "dim"),
        Span(block.summary_id, "key"),
        Span(f" {state_text(block.state)}", LOOKS[block.state].style),
    )
    parts = [name]
    if block.state is not State.IN_CONTEXT and block.summary_id in coverage.graph.in_context:
        parts.append((Span(state_text(State.IN_CONTEXT)),))
    parts += signs
    parts += [(Span(runs_text(coverage, block.runs)),), (Span(counted(block.messages, "message")),)]
    [first, *_] = scale.cells_of((block.first, block.first + 1)) or [None]
    if first is not None and (number := cells_of(level, scale)[first].summaries) > 1:
        parts.append((Span(f"1 of {number:,} in this cell", "dim"),))
    parts.append((Span(scale_text(scale), "dim"),))
    return fitted(parts, width)


def runs_text(coverage: Coverage, runs: Runs) -> str:
    """Runs of messages by seq, the first few of them."""
    said = [
        f"#{coverage.seqs[first]}" + (f"-#{coverage.seqs[end - 1]}" if end - first > 1 else "")
        for first, end in runs[:NAMED]
    ]
    more = f" and {len(runs) - NAMED:,} more" if len(runs) > NAMED else ""
    return ", ".join(said) + more


def runs_json(coverage: Coverage, runs: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    """Runs of messages for programs."""
    seqs = coverage.seqs
    return [
        {"firstSeq": seqs[first], "lastSeq": seqs[end - 1], "messages": end - first} for first, end in runs
    ]


class BlockRow(NamedTuple):
    """A summary in the map of its conversation."""

    coverage: Coverage
    block: Block


# fmt: off
#: All that is said of a summary in the map, in order.
BLOCK_COLUMNS: Final[tuple[ListColumn[BlockRow, None], ...]] = (
    ListColumn("id", heading="Summary", json="summaryId", value="block.summary_id"),
    ListColumn("kind", json="kind", value="block.kind"),
    ListColumn("depth", heading="Depth", value="block.depth", text=depth_name),
    ListColumn("state", heading="State", value="block.state", text=state_text),
    ListColumn("state_name", json="state", value=lambda row: row.block.state.name.lower()),
    ListColumn("messages", json="messages", value="block.messages"),
    ListColumn("runs", json="runs", value=lambda row: runs_json(row.coverage, row.block.runs)),
    ListColumn("coarse", json="coarse", value="block.coarse"),
    ListColumn("seqs", grows=True, heading="Messages",
               value=lambda row: runs_text(row.coverage, row.block.runs) or None),
)
# fmt: on


def _size(runs: Runs) -> int:
    return sum(end - first for first, end in runs)


def sums(coverage: Coverage) -> str:
    """How much there is."""
    seqs = coverage.seqs
    span = f", #{seqs[0]} to #{seqs[-1]}" if seqs else ""
    summaries = counted(len(coverage.blocks), "summary")
    depths = counted(len(coverage.levels), "depth")
    return f"{counted(len(seqs), 'message')}{span} · {summaries} in {depths}"


def picture(coverage: Coverage, width: int, *, plain: bool) -> list[Line]:
    """The whole map in lines of *width* cells."""
    if not coverage.messages:
        return [(Span(why_empty(coverage)),)]
    scale = scale_of(coverage, width)
    lines: list[Line] = []
    for level in coverage.levels:
        row, _ = level_line(level, scale, plain=plain)
        lines.append((gutter(depth_name(level.depth), len(level.blocks)), *row))
    lines.append((gutter("context"), *cut_line(coverage, scale)))
    lines.append((gutter(""), *axis_line(coverage, scale, plain=plain)))
    return lines


def notes(coverage: Coverage) -> list[tuple[str, str]]:
    """What the picture alone does not tell, as names and values."""
    rows = [
        ("Not in the context", runs_text(coverage, coverage.lost)),
        ("Twice in the context", runs_text(coverage, coverage.doubled)),
        *(
            (
                f"Covered twice by {'leaves' if level.depth == 0 else depth_name(level.depth)}",
                runs_text(coverage, level.doubled),
            )
            for level in coverage.levels
        ),
        ("Without messages", _ids([block.summary_id for block in coverage.unplaced])),
        ("Without a row", _ids(coverage.dangling)),
        ("Drawn without holes", f"{coverage.coarse:,}" if coverage.coarse else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _ids(found: Sequence[str]) -> str:
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more
