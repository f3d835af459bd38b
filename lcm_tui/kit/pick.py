"""What can be picked instead of typed: a short list under the prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from lcm_core.base.text import cell_width, clip, fold, safe_line
from lcm_core.base.values import Record
from textual import on

from lcm_tui.kit.lines import LineView
from lcm_tui.kit.spans import Line, Span


class Pick(Record, frozen=True):
    """An entry of the list."""

    text: str  #: what would be typed for it; empty: what an empty answer stands for
    title: str = ""  #: in words; empty: what would be typed
    note: str = ""  #: what else is known of it


#: Entries, or how they are read.
Picks: TypeAlias = Sequence[Pick] | Callable[[], Awaitable[Sequence[Pick]]]

#: What is said of the entry that stands for what is typed.
AS_TYPED: Final = "as typed"
#: The list takes one part of so many of the lines of the screen at most.
_PART: Final = 3


def matching(picks: Sequence[Pick], typed: str, own: str) -> list[Pick]:
    """What is in the line, if it is an answer of its *own*; then the entries that hold the words *typed*."""
    words = fold(typed).split()
    said = {one: fold(f"{one.text} {one.title} {one.note}") for one in picks}
    found = [one for one, text in said.items() if all(word in text for word in words)]
    if not own:
        return found
    first = next((one for one in found if one.text.casefold() == own.casefold()), Pick(own, note=AS_TYPED))
    return [first, *(one for one in found if one is not first)]


class PickList(LineView[Pick]):
    """The entries; the keys stay with the prompt above."""

    COUNTED = False
    OPENS_AT_ONCE = True
    DEFAULT_CSS = """
    PickList { height: 0; background: $panel; display: none; }
    """

    def __init__(self, take: Callable[[], object]) -> None:
        """*take* answers with what is selected."""
        super().__init__(self._row, id="picks")
        self.can_focus = False
        self._take = take

    def offer(self, picks: Sequence[Pick]) -> None:
        """List these, the first one selected; none: it is out of sight."""
        self.display = bool(picks)
        self.styles.height = min(len(picks), max(self.app.size.height // _PART, 1))
        self.replace(picks, select=next(iter(picks), None))

    def _row(self, pick: Pick, width: int) -> Sequence[Line]:
        title = safe_line(pick.title or pick.text)
        shown = clip(title, max(width - 2, 1))
        room = width - cell_width(shown) - 4
        note = f"  {clip(safe_line(pick.note), room)}" if pick.note and room > 3 else ""
        return ((Span(" "), Span(shown, "key" if not pick.title else "text"), Span(note, "dim")),)

    @on(LineView.Opened)
    def _clicked(self, event: LineView.Opened) -> None:
        """A click takes an entry; the screen need not hear of it."""
        event.stop()
        self._take()

    @on(LineView.Highlighted)
    @on(LineView.Scrolled)
    def _moved(self, event: LineView.Highlighted | LineView.Scrolled) -> None:
        event.stop()
