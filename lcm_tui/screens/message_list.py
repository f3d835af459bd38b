"""A list of messages that goes on in both directions: a window of them is held, its ends are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from textual.message import Message

from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.message_lines import MessageView, Pairing, message_lines, pair
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import mark

#: Messages loaded at a time, and held at most.
PAGE = 40
WINDOW = 420
#: Messages from the end of the window at which the next page is loaded.
AHEAD = 20


class MessageList(LineView[int]):
    """A window over the messages of one conversation or transcript; a key is a message's place in it."""

    class Wanted(Message):
        """The window is near an end, and more lies there."""

        def __init__(self, older: bool) -> None:
            super().__init__()
            self.older = older

    class End(Message):
        """The first or the last message of all was asked for, and the window does not reach it."""

        def __init__(self, first: bool) -> None:
            super().__init__()
            self.first = first

    def __init__(self, *, empty: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(self._draw_message, tall=True, empty=empty, id=id)
        self.views: dict[int, MessageView] = {}
        self.opened: set[int] = set()
        self.has_older = False
        self.has_newer = False
        self.zone: tzinfo | None = None
        self.needle = ""
        self._pairing = Pairing({}, {})

    def show(
        self,
        views: Sequence[MessageView],
        *,
        has_older: bool,
        has_newer: bool,
        select: int | None = None,
    ) -> list[int]:
        """Show this window and return the keys that were not in it before."""
        before, pairing = self.views, self._pairing
        self.views = {view.number: view for view in views}
        self.has_older, self.has_newer = has_older, has_newer
        self._pairing = pair(views)
        self._forget(
            number
            for number, view in self.views.items()
            if before.get(number) != view or self._paired_otherwise(view, pairing)
        )
        self.replace(list(self.views), select=select, changed=False)
        return [number for number in self.views if number not in before]

    def learn(self, view: MessageView) -> None:
        """Put the whole of a message in place of its head."""
        if view.number in self.views:
            self.views[view.number] = view
            self.redraw([view.number])
            if view.number == self.selected and view.number in self.opened:
                self.reveal_more()

    def toggle(self, number: int, *, opened: bool | None = None) -> bool:
        """Open or fold a message; returns whether it is open now."""
        wanted = number not in self.opened if opened is None else opened
        (self.opened.add if wanted else self.opened.discard)(number)
        self.redraw([number])
        if wanted and number == self.selected:
            self.reveal_more()
        return wanted

    def search_for(self, needle: str) -> None:
        """Mark a text wherever it stands."""
        self.needle = needle.casefold()
        self.redraw()

    def action_first(self) -> None:
        """Go to the first message of all."""
        if self.has_older:
            self.post_message(self.End(first=True))
        else:
            super().action_first()

    def action_last(self) -> None:
        """Go to the last message of all."""
        if self.has_newer:
            self.post_message(self.End(first=False))
        else:
            super().action_last()

    def want_more(self) -> None:
        """Ask for the next page when an end of the window is near."""
        seen = self.visible_keys
        if not seen:
            return
        first, last = self.index_of(seen[0]) or 0, self.index_of(seen[-1]) or 0
        if self.has_older and first < AHEAD:
            self.post_message(self.Wanted(older=True))
        elif self.has_newer and last >= len(self.keys) - AHEAD:
            self.post_message(self.Wanted(older=False))

    def show_match(self) -> bool:
        """Scroll to the first match in the selected message; False when it shows none."""
        number = self.selected
        if number is None or not self.needle:
            return False
        for at, line in enumerate(self._lines_of(number)):
            if any(span.style == "match" for span in line):
                self.reveal_line(at)
                return True
        return False

    def _paired_otherwise(self, view: MessageView, before: Pairing) -> bool:
        now, number = self._pairing, view.number
        return any(
            before.call_of(part.call_id, number) != now.call_of(part.call_id, number)
            or before.result_of(part.call_id, number) != now.result_of(part.call_id, number)
            for part in view.parts
            if part.call_id
        )

    def _draw_message(self, number: int, width: int) -> Sequence[Line]:
        lines = message_lines(
            self.views[number], width, opened=number in self.opened, pairing=self._pairing, zone=self.zone
        )
        return [mark(line, self.needle) for line in lines] if self.needle else lines


def window_around(count: int, middle: int) -> slice:
    """Which of *count* messages to hold when it is *middle* that is looked at: at most `WINDOW`."""
    start = max(0, min(middle - WINDOW // 2, count - WINDOW))
    return slice(start, start + WINDOW)
