"""A diff as lines of the screen: folded where nothing changed, wrapped to a width, drawn one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from lcm_core.diff import Diff, DiffRow, LineMark, emphasis
from lcm_core.text import cell_width, clip, safe_line, wrap_spans

from lcm_tui.widgets.spans import Line, Span, StyleName, recoloured

#: Unchanged lines that are shown around a change.
AROUND: Final = 3
#: A fold hides at least so many lines.
LEAST: Final = 3
#: What stands before the lines of a change that is left out: the old ones stay, the new ones do not come.
STAYS, STAYS_OUT = "=", "·"
#: Cells of the mark before a line.
MARGIN: Final = 2
_STYLES: Final[dict[LineMark, StyleName]] = {
    LineMark.SAME: "text",
    LineMark.GONE: "warn",
    LineMark.ADDED: "ok",
    LineMark.CHANGED: "text",
}


class Piece(NamedTuple):
    """A line of the screen: a part of a row, or a fold that stands for several."""

    row: int  #: number of the row; of a fold: of the first that it hides
    part: int = 0  #: which of the lines that the row is wrapped to
    hidden: int = 0  #: rows that it hides


@dataclass(frozen=True, slots=True)
class Naming:
    """What the lines of a text mean, where they mean something."""

    name_at: Callable[[int], str] = field(default=lambda line: "")  #: what a line of the new text belongs to
    is_heading: Callable[[str], bool] = field(default=lambda text: False)


PLAIN: Final = Naming()


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A diff at one width."""

    diff: Diff
    side_by_side: bool
    width: int  #: cells
    naming: Naming = PLAIN
    rows: tuple[DiffRow, ...] = ()
    pieces: tuple[Piece, ...] = ()
    hunks: tuple[Piece, ...] = ()  #: the first line of each change
    mates: dict[int, int] = field(default_factory=dict)  #: line of the old text: the one that it became
    mated: dict[int, int] = field(default_factory=dict)  #: and back

    def hunk_of(self, piece: Piece) -> int | None:
        """The number of the change that a line belongs to."""
        return self.rows[piece.row].hunk if piece.row < len(self.rows) and not piece.hidden else None


def lay_out(
    diff: Diff, width: int, *, side_by_side: bool, open_: Collection[int] = (), naming: Naming = PLAIN
) -> LaidOut:
    """Lay a diff out; *open_*: first rows of folds that are unfolded. To be run in a thread."""
    rows = tuple(diff.side_by_side() if side_by_side else diff.unified())
    mates = dict(diff.pairs)
    mated = {new: old for old, new in mates.items()}
    laid = LaidOut(diff, side_by_side, width, naming, rows, mates=mates, mated=mated)
    pieces: list[Piece] = []
    hunks: list[Piece] = []
    for hunk, run in _runs(rows):
        if hunk is None:
            pieces += _same(laid, run, open_, ends=run.stop == len(rows))
            continue
        hunks.append(Piece(run.start))
        for row in run:
            pieces += (Piece(row, part) for part in range(_height(laid, rows[row])))
    return LaidOut(diff, side_by_side, width, naming, rows, tuple(pieces), tuple(hunks), mates, mated)


def _runs(rows: Sequence[DiffRow]) -> Iterator[tuple[int | None, range]]:
    """Rows that belong together: those of one change, or those between two."""
    start = 0
    for hunk, run in groupby(rows, key=lambda row: row.hunk):
        end = start + sum(1 for _ in run)
        yield hunk, range(start, end)
        start = end


def _same(laid: LaidOut, run: range, open_: Collection[int], *, ends: bool) -> Iterator[Piece]:
    """Rows that are alike: a few beside each change, the others folded."""
    before = 0 if run.start == 0 else AROUND
    behind = 0 if ends else AROUND
    first, last = run.start + before, run.stop - behind
    folds = last - first >= LEAST and first not in open_
    for row in run:
        if folds and first <= row < last:
            if row == first:
                yield Piece(row, 0, last - first)
            continue
        yield from (Piece(row, part) for part in range(_height(laid, laid.rows[row])))


def _room(laid: LaidOut) -> int:
    """Cells for the text of a line, behind its mark."""
    return max(4, ((laid.width - 3) // 2 if laid.side_by_side else laid.width) - MARGIN)


def _height(laid: LaidOut, row: DiffRow) -> int:
    """The lines that a row takes."""
    old, new = _texts(laid, row)
    room = _room(laid)
    return max(len(_wrapped(text, room)) for text in (old, new) if text is not None)


def _texts(laid: LaidOut, row: DiffRow) -> tuple[str | None, str | None]:
    """What stands in a row, old and new."""
    old = None if row.old is None else laid.diff.old[row.old]
    new = None if row.new is None else laid.diff.new[row.new]
    return (old, new) if laid.side_by_side else (old, None) if new is None else (None, new)


@lru_cache(maxsize=4_000)
def _safe(text: str) -> str:
    return safe_line(text)


@lru_cache(maxsize=4_000)
def _wrapped(text: str, room: int) -> tuple[tuple[int, int], ...]:
    """Where the safe form of a text is cut."""
    safe = _safe(text)
    return ((0, len(safe)),) if safe.isascii() and len(safe) <= room else tuple(wrap_spans(safe, room))


# -- drawing -----------------------------------------------------------------------------------------------


def draw(laid: LaidOut, piece: Piece, left: Collection[int] = ()) -> Line:
    """One line of the screen; *left*: numbers of the changes that are not taken."""
    if piece.row >= len(laid.rows):
        return ()
    if piece.hidden:
        return _fold(laid, piece)
    row = laid.rows[piece.row]
    is_left = row.hunk is not None and row.hunk in left
    if laid.side_by_side:
        return _beside(laid, row, piece.part, is_left=is_left)
    old, new = _texts(laid, row)
    text = new if old is None else old
    return _side(laid, row, text or "", piece.part, is_old=old is not None, is_left=is_left)


def _fold(laid: LaidOut, piece: Piece) -> Line:
    """What stands for lines that are alike; it says what the change behind it belongs to."""
    last = laid.rows[piece.row + piece.hidden - 1]
    name = laid.naming.name_at(last.new) if last.new is not None else ""
    said = f"── {piece.hidden:,} unchanged lines {'· ' + name + ' ' if name else ''}"
    said = clip(safe_line(said), laid.width)
    return (Span(said + "─" * max(0, laid.width - cell_width(said)), "dim"),)


def _side(laid: LaidOut, row: DiffRow, text: str, part: int, *, is_old: bool, is_left: bool) -> Line:
    """A mark and a part of one side of a row."""
    mark = (STAYS if is_old else STAYS_OUT) if is_left else str(row.mark)
    before = Span(f"{mark} ", "dim" if mark == STAYS_OUT else _STYLES[row.mark])
    return (before, *_part(laid, row, text, part, is_old=is_old, is_left=is_left))


def _part(laid: LaidOut, row: DiffRow, text: str, part: int, *, is_old: bool, is_left: bool) -> Line:
    """A part of one side of a row, the words that changed marked."""
    spans = _wrapped(text, _room(laid))
    if part >= len(spans):
        return ()
    start, end = spans[part]
    safe = _safe(text)
    if is_left:
        return (Span(safe[start:end], "text" if is_old else "dim"),)
    style = _STYLES[row.mark]
    if row.mark is LineMark.SAME and laid.naming.is_heading(text):
        style = "heading"
    line: Line = (Span(safe[start:end], style),)
    changed = _changed(laid, row, is_old=is_old)
    return recoloured(
        line, [(max(0, a - start), min(end, b) - start) for a, b in changed if b > start and a < end], "match"
    )


def _changed(laid: LaidOut, row: DiffRow, *, is_old: bool) -> tuple[tuple[int, int], ...]:
    """The characters of a line that are not in the line that it became, or was."""
    if row.mark is LineMark.SAME:
        return ()
    old, new = row.old, row.new
    if old is None and new is not None:
        old = laid.mated.get(new)
    elif new is None and old is not None:
        new = laid.mates.get(old)
    if old is None or new is None:
        return ()
    return emphasis(_safe(laid.diff.old[old]), _safe(laid.diff.new[new]))[0 if is_old else 1]


def _beside(laid: LaidOut, row: DiffRow, part: int, *, is_left: bool) -> Line:
    """A line of both sides."""
    old, new = _texts(laid, row)
    half = _room(laid) + MARGIN
    left = () if old is None else _side(laid, row, old, part, is_old=True, is_left=is_left)
    right = () if new is None else _side(laid, row, new, part, is_old=False, is_left=is_left)
    taken = sum(cell_width(span.text) for span in left)
    return (*left, Span(" " * max(0, half - taken)), Span(" │ ", "dim"), *right)
