"""Messages that go on in both directions: a window of them is held, its ends are loaded, all are searched."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import pairwise
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from lcm_tui.kit.drawn import Still, word_at
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.panes import Desk
from lcm_tui.kit.spans import Line, Span
from lcm_tui.kit.text import mark_across
from lcm_tui.tables.messages import MessageView, Pairing, message_lines, pair

#: Messages loaded at a time, and held at most.
PAGE = 40
WINDOW = 420
#: Messages from the end of the window at which the next page is loaded.
AHEAD = 20
#: What stands above messages that the context has, where it lacks the one before.
BEGINS: Final = "── in the context from here "
#: How a call names the message with its result, and a result that of its call.
_OTHER_HALF: Final = re.compile("[→←] #[0-9]+")
#: A number beyond that of every message.
BEYOND = 2**62


class MessageList(LineView[int]):
    """A window over the messages of one conversation or transcript; a key is a message's place in it."""

    COUNTED: ClassVar[bool] = False

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

    class Reached(Message):
        """The number of a message was clicked, where a call names its result or the other way round."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, empty: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(self._draw_message, tall=True, empty=empty, id=id)
        self.views: dict[int, MessageView] = {}
        self.opened: set[int] = set()
        self.has_older = False
        self.has_newer = False
        self.zone: tzinfo | None = None
        self.needle = ""
        self._pairing = Pairing({}, {})
        self._begin: frozenset[int] = frozenset()  #: messages in the context behind some that are not

    def show(
        self,
        views: Sequence[MessageView],
        *,
        has_older: bool,
        has_newer: bool,
        select: int | None = None,
    ) -> list[int]:
        """Show this window and return the keys that were not in it before."""
        before, pairing, begun = self.views, self._pairing, self._begin
        self.views = {view.number: view for view in views}
        self.has_older, self.has_newer = has_older, has_newer
        self._pairing = pair(views)
        self._begin = frozenset(
            view.number for last, view in pairwise(views) if view.in_context and not last.in_context
        )
        self._forget(
            number
            for number, view in self.views.items()
            if before.get(number) != view
            or self._paired_otherwise(view, pairing)
            or (number in self._begin) != (number in begun)
        )
        self.replace(list(self.views), select=select, changed=False)
        return [number for number in self.views if number not in before]

    def _is_below(self, key: int, last: int) -> bool:
        """A message behind the window is below it, too."""
        return super()._is_below(key, last) or (bool(self.keys) and key > self.keys[-1])

    def learn(self, view: MessageView) -> None:
        """Put the whole of a message in place of its head."""
        if view.number in self.views:
            self.views[view.number] = view
            self.redraw([view.number])
            if view.number == self.selected and view.number in self.opened:
                self.reveal_more()

    async def on_click(self, event: events.Click) -> None:
        """Go to the other half of a call that is named there; else as in any list."""
        offset = event.get_content_offset(self)
        line = "" if offset is None else self.render_line(offset.y).text
        if offset is not None and (half := word_at(line, offset.x, _OTHER_HALF)):
            event.prevent_default()
            self.post_message(self.Reached(int(half.rpartition("#")[2])))

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
        self.needle = needle
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
        if number in self._begin:
            lines.insert(0, (Span(f"{BEGINS:─<{width}}", "tail"),))
        return mark_across(lines, self.needle) if self.needle else lines


class MessagesPane(Vertical, Still):
    """A list of messages that is longer than what is held of it.

    A message is addressed by its number, which orders the list.
    """

    BLANK: ClassVar[bool] = True  # what it holds covers it
    DEFAULT_CSS = """
    MessagesPane { height: 1fr; }
    """

    def __init__(self, desk: Desk, moved: Callable[[], None]) -> None:
        """*moved* is called when another message is selected or in sight, and while a search runs."""
        super().__init__()
        self.list = MessageList(empty="Reading …", id="messages")
        self.list.also_moves("fold the message, show all of it")
        self.finder = MessageFinder(self)
        self.searching = ""  #: what is being searched for at the moment
        self.extending = False  #: whether a page is being read
        self._desk = desk
        self._moved = moved
        self._opened_for_match: int | None = None

    def compose(self) -> ComposeResult:
        """The list."""
        yield self.list

    def on_mount(self) -> None:
        """Times are shown in the zone of the session."""
        self.list.zone = self._desk.session.zone

    # -- what a pane says of its messages ----------------------------------------------------------------

    @abstractmethod
    async def extend(self, older: bool) -> None:
        """Read the next page at one end of the window and show it."""

    @abstractmethod
    async def go_to_end(self, first: bool) -> None:
        """Show the first or the last messages of all, and select the outermost."""

    @abstractmethod
    async def go_to(self, number: int) -> None:
        """Select a message, wherever it is."""

    @abstractmethod
    async def find(self, needle: str, start: int, forward: bool) -> int | None:
        """The nearest message after *start* (or before it) that holds *needle*; it may be `BEYOND` all."""

    @abstractmethod
    async def read_whole(self, number: int) -> None:
        """Read what was cut of an open message, and show it."""

    # -- the window --------------------------------------------------------------------------------------

    def shown_anew(self) -> None:
        """Another window is shown: what is open in it is read whole."""
        for number in self.list.opened & self.list.views.keys():
            if not self.list.views[number].complete:
                self._desk.work_on("whole", self.read_whole, number, exclusive=False)
        self._moved()

    @on(LineView.Highlighted)
    @on(LineView.Scrolled)
    def _want_more(self) -> None:
        self.list.want_more()
        self._moved()

    @on(MessageList.Wanted)
    def _wanted(self, event: MessageList.Wanted) -> None:
        self._desk.work_on("extend", self._extend, event.older, exclusive=False)

    async def _extend(self, older: bool) -> None:
        if not self.extending:
            self.extending = True
            try:
                await self.extend(older)
            finally:
                self.extending = False

    @on(MessageList.End)
    def _end(self, event: MessageList.End) -> None:
        self._desk.work_on("go", self.go_to_end, event.first)

    @on(MessageList.Reached)
    def _reached(self, event: MessageList.Reached) -> None:
        self._desk.work_on("go", self.go_to, event.number)

    # -- opening -----------------------------------------------------------------------------------------

    def why_none(self) -> str | None:
        """Why nothing can be done with the selected message."""
        return "no message is selected" if self.list.selected is None else None

    def toggle(self, number: int, *, opened: bool | None = None) -> None:
        """Open or fold a message; the rest of its text is read when it is opened."""
        if self.list.toggle(number, opened=opened):
            self._desk.work_on("whole", self.read_whole, number, exclusive=False)

    def toggle_selected(self) -> None:
        """Open or fold the selected message."""
        if self.list.selected is not None:
            self.toggle(self.list.selected)

    def fold_all(self) -> None:
        """Fold every message."""
        self.list.opened.clear()
        self.list.redraw()

    @on(LineView.Sided)
    def _sided(self, event: LineView.Sided) -> None:
        if event.key is not None:
            self.toggle(event.key, opened=event.side > 0)

    # -- searching ---------------------------------------------------------------------------------------

    def search(self, needle: str, start: int, *, forward: bool) -> None:
        """Go to the nearest match after *start*, or before it; another search or jump takes its place."""
        self._desk.work_on("go", self._search, needle, start, forward)

    async def _search(self, needle: str, start: int, forward: bool) -> None:
        here = self.list.selected
        self.searching = needle
        self._moved()
        try:
            found = await self.find(needle, start, forward)
            wrapped = found is None
            if wrapped:
                found = await self.find(needle, -BEYOND if forward else BEYOND, forward)
        finally:
            if self.searching == needle:
                self.searching = ""
            self._moved()
        if found is None:
            self.app.notify(f"No message contains “{needle}”.", timeout=3)
            return
        if wrapped:
            end = "oldest" if forward else "newest"
            only = f"Only this message contains “{needle}”."
            said = only if found == here else f"Continued from the {end} message."
            self.app.notify(said, timeout=3)
        if self._opened_for_match is not None:
            self.list.toggle(self._opened_for_match, opened=False)
            self._opened_for_match = None
        await self.go_to(found)
        await self._show_match(found)

    async def _show_match(self, number: int) -> None:
        """Show the match in the selected message, unfolded if it is where a folded one shows nothing."""
        if not self.list.show_match():
            self._opened_for_match = number
            self.list.toggle(number, opened=True)
            await self.read_whole(number)
            self.list.show_match()

    async def stand_on_match(self, needle: str) -> None:
        """Show what was found elsewhere in the selected message; `n` and `N` go on from it."""
        self.finder.look_for(needle, brought=True)
        if self.list.selected is not None:
            await self._show_match(self.list.selected)


class MessageFinder(Finder):
    """Searches all messages, those too that are not held: toward older ones, back toward newer ones."""

    label = "find in all messages (toward older ones; n: next, N: previous)"

    def __init__(self, pane: MessagesPane) -> None:
        self._brought = False  #: the needle, from where it was searched for
        self._pane = pane

    def look_for(self, text: str, *, brought: bool = False) -> None:
        """What is marked, and what `n` goes to; *brought* from another screen, `esc` leads back."""
        self.needle, self._brought = text, brought
        self._pane.list.search_for(text)

    async def confirm(self, text: str) -> str | None:
        """Search from the selected message on, toward older ones; the pane says when there is no match."""
        self.look_for(text)
        if text:
            self._pane.search(text, (self._pane.list.selected or 0) + 1, forward=False)
        return None

    async def go(self, *, forward: bool) -> str | None:
        """The next match is the next older one."""
        if self.needle:
            self._pane.search(self.needle, self._pane.list.selected or 0, forward=not forward)
        return None

    def leave(self) -> bool:
        """End the search: matches are not marked any more."""
        if self._brought or not self.needle:
            return False
        self.look_for("")
        return True


def window_around(count: int, middle: int) -> slice:
    """Which of *count* messages to hold when it is *middle* that is looked at: at most `WINDOW`."""
    start = max(0, min(middle - WINDOW // 2, count - WINDOW))
    return slice(start, start + WINDOW)
