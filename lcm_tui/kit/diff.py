"""Two texts compared on the screen: rows of the diff, the view, its keys, and its search."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, partial
from itertools import groupby, takewhile
from typing import Any, ClassVar, Final, NamedTuple

from lcm_core.base.diff import Diff, DiffRow, LineMark, compare_texts, emphasis
from lcm_core.base.text import cell_width, clip, counted, fold, safe_line, sought_as, wrap_spans
from lcm_core.base.values import Record, field
from textual import events
from textual.message import Message
from textual.worker import Worker

from lcm_tui.kit import commands
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.spans import Line, Span, StyleName, recoloured, text_of
from lcm_tui.kit.text import mark

# -- rows of a diff --------------------------------------------------------------------------------------
# As lines of the screen: folded where nothing changed, wrapped to a width, drawn one by one.

#: Unchanged lines that are shown around a change.
AROUND: Final = 3
#: A fold hides at least so many lines.
LEAST: Final = 3
#: What stands before the lines of a change that is left out: the old ones stay, the new ones do not come.
STAYS, STAYS_OUT = "=", "·"
#: Cells of the mark before a line, and what the second one holds in the change at the cursor.
MARGIN: Final = 2
AT: Final = "▌"
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


class Naming(Record, frozen=True):
    """What the lines of a text mean, where they mean something."""

    name_at: Callable[[int], str] = lambda line: ""  #: what a line of the new text belongs to
    is_heading: Callable[[str], bool] = lambda text: False


PLAIN: Final = Naming()


class LaidOut(Record, frozen=True):
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


# -- drawing rows ----------------------------------------------------------------------------------------


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
    said = f"── {counted(piece.hidden, 'unchanged line')} {'· ' + name + ' ' if name else ''}"
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


# -- the view --------------------------------------------------------------------------------------------
# Of texts of any size: unified or side by side, change by change, each included or skipped.

#: Cells from which the two texts stand beside each other unless the operator has chosen.
WIDE: Final = 110


class DiffView(LineView[Piece]):
    """The lines of a diff; comparing and laying out happen in a thread, drawing line by line."""

    COUNTED: ClassVar[bool] = False

    class Laid(Message):
        """Another diff, another layout, or other changes are taken."""

    def __init__(
        self,
        *,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - Textual's own name for it
        changes: bool = True,
        compare: Callable[[str, str], Diff] = compare_texts,
    ) -> None:
        """*changes*: whether changes can be taken and left here; *compare*: by lines, or by sentences."""
        super().__init__(self._line_of, empty=empty, id=id)
        self.can_choose = changes
        self._compare = compare
        self.laid: LaidOut | None = None
        self.left: frozenset[int] = frozenset()  #: the changes that stay as they were
        self._texts: tuple[str, str] | None = None
        self._diff: Diff | None = None
        self._naming = PLAIN
        self._chosen: bool | None = None  #: side by side, as the operator said
        self._open: set[int] = set()
        self._stay: int | None = None  #: the change to stand on once it is laid out
        self._needle = ""
        self._keeps = False  #: another diff takes the place of one: the cursor stays where it is
        self._anchor: tuple[bool, int] | None = None  #: a line of the old text (True) or of the new one

    # -- what is compared --------------------------------------------------------------------------------

    def show(self, old: str, new: str, *, naming: Naming = PLAIN) -> None:
        """Compare two texts; all changes are taken."""
        if self._texts == (old, new):
            return
        self._texts, self._diff, self._naming = (old, new), None, naming
        self.left = frozenset()
        self._open.clear()
        self._again()

    def show_diff(self, diff: Diff, naming: Naming = PLAIN) -> None:
        """Show what was compared already in place of the diff before; the cursor stays where it is."""
        self._keeps = self.laid is not None
        self._texts, self._diff, self._naming = ("", ""), diff, naming
        self._open.clear()
        self._again()

    @property
    def diff(self) -> Diff | None:
        """The diff in sight; None while it is made."""
        return self._diff

    @property
    def text(self) -> str | None:
        """The text that the taken changes give; None while it is not known."""
        return None if self._diff is None else self._diff.text(self.left)

    @property
    def side_by_side(self) -> bool:
        """How it is laid out: as chosen, else by the width."""
        return self.size.width >= WIDE if self._chosen is None else self._chosen

    @property
    def hunk(self) -> int | None:
        """The number of the change at the cursor, or of the one before it."""
        key, laid = self.selected, self.laid
        if key is None or laid is None:
            return None
        before = bisect_right(laid.hunks, key.row, key=lambda hunk: hunk.row)
        return before - 1 if before else None

    def _move_to(self, place: int, *, reveal: bool = True) -> None:
        before = self.hunk
        super()._move_to(place, reveal=reveal)
        if self.hunk != before:
            self.redraw()

    def _again(self) -> None:
        width = self.size.width or self.screen.size.width  # another pane may stand in its place
        if self._texts is not None and width > 0:
            self._worker: Worker[None] = self.run_worker(
                partial(self._lay_out, self._texts, width - 1, self.side_by_side),
                group="diff",
                exclusive=True,
                exit_on_error=False,
            )

    async def _lay_out(self, texts: tuple[str, str], width: int, beside: bool) -> None:
        """Compare and wrap, in a thread: there may be tens of thousands of lines."""
        known, opened, naming = self._diff, frozenset(self._open), self._naming

        def work() -> LaidOut:
            diff = known or self._compare(*texts)
            return lay_out(diff, max(width, 12), side_by_side=beside, open_=opened, naming=naming)

        laid = await asyncio.to_thread(work)
        before, hunk, selected = self.laid, self.hunk, self.selected
        self.laid, self._diff = laid, laid.diff
        if not laid.hunks:
            self.empty = "No differences."
        stay: Piece | None = None
        if self._stay is not None and self._stay < len(laid.hunks):
            stay, self._stay = laid.hunks[self._stay], None
        elif before is not None and before.diff is laid.diff:
            same = before.side_by_side == beside and before.width == laid.width
            stay = selected if same else laid.hunks[hunk] if hunk is not None else None
        elif laid.hunks:
            stay = laid.hunks[0]
        self.replace(laid.pieces, select=None if self._keeps else self._at_anchor() or stay)
        self._keeps = False
        self.post_message(self.Laid())

    def line_held(self) -> tuple[bool, int] | None:
        """The line under the cursor, of the old text (True) or of the new one; from now on it is kept.

        In another layout it may share its row with a line of the other text; it is still that line.
        """
        key, laid = self.selected, self.laid
        if key is None or laid is None or key.row >= len(laid.rows):
            return None
        row = laid.rows[key.row]
        if self._anchor not in ((True, row.old), (False, row.new)):
            self._anchor = (False, row.new or 0) if row.old is None else (True, row.old)
        return self._anchor

    def _at_anchor(self) -> Piece | None:
        """The first line of the row that holds the line on which the cursor stood."""
        laid, anchor = self.laid, self._anchor
        if laid is None or anchor is None:
            return None
        is_old, line = anchor
        found = (at for at, row in enumerate(laid.rows) if (row.old if is_old else row.new) == line)
        place = next(found, None)
        within = (
            piece for piece in laid.pieces if piece.row <= (place or 0) < piece.row + max(1, piece.hidden)
        )
        return None if place is None else next(within, None)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for another width."""
        self.call_after_refresh(self._again)

    def _line_of(self, key: Piece, width: int) -> Sequence[Line]:
        del width
        if self.laid is None:
            return ((),)
        line, hunk = draw(self.laid, key, self.left), self.laid.hunk_of(key)
        if hunk is not None and hunk == self.hunk:
            first, *rest = line
            line = (Span(f"{first.text[:1]}{AT}{first.text[MARGIN:]}", first.style), *rest)
        return (mark(line, self._needle) if self._needle else line,)

    # -- what can be done with it ------------------------------------------------------------------------

    def go(self, direction: int) -> bool:
        """Stand on the next change, or the one before, as much of it in sight as has room; False: none."""
        laid, key = self.laid, self.selected
        if laid is None or key is None:
            return False
        hunks = laid.hunks if direction > 0 else laid.hunks[::-1]
        found = next((hunk for hunk in hunks if (hunk.row - key.row) * direction > 0), None)
        if found is None or not self.select(found):
            return False
        first, hunk = self.cursor, laid.hunk_of(found)
        page = laid.pieces[first : first + self._height]
        lines = sum(1 for _ in takewhile(lambda piece: laid.hunk_of(piece) == hunk, page))
        self._show_from(max(self._top, first + lines - self._height))
        return True

    def take_or_leave(self) -> bool:
        """Leave the change at the cursor, or take it again; False when the cursor stands on none."""
        key, laid = self.selected, self.laid
        hunk = laid.hunk_of(key) if laid is not None and key is not None else None
        if hunk is None or not self.can_choose:
            return False
        self.left = self.left ^ {hunk}
        self.redraw()
        self.post_message(self.Laid())
        return True

    def take_all(self, *, include: bool) -> None:
        """Take every change, or leave all of them."""
        hunks = 0 if self.diff is None else len(self.diff.hunks)
        self.left = frozenset() if include else frozenset(range(hunks))
        self.redraw()
        self.post_message(self.Laid())

    def switch(self) -> None:
        """Put the texts one under the other, or side by side."""
        self._chosen = not self.side_by_side
        self._open.clear()
        self._again()

    def unfold(self) -> bool:
        """Unfold alike lines, or make a change of several lines as many changes; False on anything else."""
        key, laid = self.selected, self.laid
        if key is None or laid is None:
            return False
        if key.hidden:
            self._open.add(key.row)
            self._again()
            return True
        hunk = laid.hunk_of(key)
        if hunk is None or not self.can_choose:
            return False
        diff = laid.diff.split(hunk)
        more = len(diff.hunks) - len(laid.diff.hunks)
        if not more:
            return False
        was_left = hunk in self.left
        self.left = frozenset(one if one < hunk else one + more for one in self.left if one != hunk) | (
            frozenset(range(hunk, hunk + more + 1)) if was_left else frozenset()
        )
        self._diff = diff
        self._stay = hunk
        self._again()
        return True

    @property
    def stands_alone(self) -> bool:
        """Whether the line at the cursor is a heading with nothing below it."""
        key, laid = self.selected, self.laid
        if key is None or laid is None or key.hidden:
            return False
        rows = laid.rows[key.row : key.row + 2]
        return all(any(map(laid.naming.is_heading, filter(None, _texts(laid, row)))) for row in rows)

    def section(self) -> tuple[Sequence[str], Sequence[str]]:
        """The lines of the old and of the new text below the same heading as the line at the cursor."""
        key, laid = self.selected, self.laid
        if key is None or laid is None:
            return (), ()
        is_heading = laid.naming.is_heading
        heads = [
            at for at, row in enumerate(laid.rows) if any(map(is_heading, filter(None, _texts(laid, row))))
        ]
        first = max((at for at in heads if at <= key.row), default=0)
        rows = laid.rows[first : min((at for at in heads if at > key.row), default=None)]
        old = [laid.diff.old[row.old] for row in rows if row.old is not None]
        return old, [laid.diff.new[row.new] for row in rows if row.new is not None]

    def text_at(self, piece: Piece) -> str:
        """What a line says."""
        return "" if self.laid is None else text_of(draw(self.laid, piece))

    def look_for(self, needle: str) -> None:
        """Mark what is looked for wherever it stands."""
        self._needle = needle
        self.redraw()

    def find(self, needle: str, *, direction: int = 1, first: bool = False) -> bool:
        """Mark what is looked for, and stand on the next line that holds it; False when none does."""
        self.look_for(needle)
        laid = self.laid
        if laid is None or not needle or not laid.pieces:
            return False
        sought, count = sought_as(needle), len(laid.pieces)
        start = 0 if first else self.cursor + direction
        for at in range(start, start + direction * count, direction):
            piece = laid.pieces[at % count]
            if not piece.hidden and sought in fold(text_of(draw(laid, piece))):
                return self.select(piece)
        return False


# -- the layout ------------------------------------------------------------------------------------------
# How the texts are arranged.


def layout_key(view: Callable[[Any], DiffView]) -> Key[Any]:
    """`v` and `m`."""
    return commands.LAYOUT.does(
        lambda s: view(s).switch(), title_now=lambda s: "Unified" if view(s).side_by_side else ""
    )


# -- finding ---------------------------------------------------------------------------------------------
# What `/`, `n` and `N` do in a diff.


class DiffFinder(Finder):
    """Goes from line to line of a diff that holds the text, among the lines that are shown."""

    label = "find in the lines shown"

    def __init__(self, view: DiffView, *, as_typed: bool = True) -> None:
        """*as_typed*: go to the first match while it is typed; a long diff is only marked until then."""
        self._view = view
        self._as_typed = as_typed

    def typed(self, text: str) -> None:
        """Mark it, or go to the first line that holds it."""
        self.needle = text
        if self._as_typed:
            self._view.find(text, first=True)
        else:
            self._view.look_for(text)

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        self.needle = text
        return self._problem(found=self._view.find(text, first=True))

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the diff."""
        return self._problem(found=self._view.find(self.needle, direction=1 if forward else -1))

    def _problem(self, *, found: bool) -> str | None:
        if found or not self.needle:
            return None
        return f"“{self.needle}” is not in the lines shown."
