"""The messages of a conversation, read from the database; a message's number is its seq."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.errors import NotFoundError
from lcm_core.records import ConversationId
from lcm_core.store import messages as store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.messages import MessageEntry, MessagePage
from lcm_core.times import parse_utc

from lcm_tui.panes.desk import Desk
from lcm_tui.panes.messages import PAGE, MessagesPane, window_around
from lcm_tui.views.message import parts_of
from lcm_tui.widgets.message_lines import MessageView

#: Messages behind the window that are counted as new, at most.
MOST_NEW: Final = 10_000
#: What a message looked like, and what it was made from; by seq.
Views = Mapping[int, tuple[MessageEntry, MessageView]]


@dataclass(frozen=True, slots=True)
class Window:
    """A run of messages, with what lies beyond its ends."""

    page: MessagePage
    views: Views
    turn: int  #: which state of the pane it was read for
    select: int | None = None  #: seq to select, or the one near it; None keeps the selection
    newest: tuple[int, ...] = ()  #: of a window away from the end: what came behind it since the last look
    gone: bool = False  #: the conversation itself is no longer in the database


class ConversationPane(MessagesPane):
    """A window over the messages of a conversation, which begins at its end or at a seq."""

    def __init__(
        self,
        desk: Desk,
        moved: Callable[[], None],
        conversation_id: ConversationId,
        start: int | None,
    ) -> None:
        """*start*: the seq to begin at; None: the newest."""
        super().__init__(desk, moved)
        self.entries: dict[int, MessageEntry] = {}  #: the window, in order of seq
        self._conversation_id = conversation_id
        self._views: Views = {}  #: of the window
        self._turn = 0  #: counts the windows shown
        self._newest: int | None = None  #: the last seq of the conversation, as far as it is known
        self._start = start

    @property
    def entry(self) -> MessageEntry | None:
        """The selected message."""
        return self.entries.get(self.list.selected) if self.list.selected is not None else None

    async def fetch(self) -> Window:
        """The window as it is now, and what was appended behind it."""
        turn, held = self._turn, list(self.entries)
        if held:
            limit = len(held) + (0 if self.list.has_newer else PAGE)
            page = await self._desk.session.read(store.page_from, self._conversation_id, held[0], limit)
            if page.entries:
                return Window(page, await self._views_of(page), turn, newest=await self._read_newest())
        if self._start is not None:
            page = await self._desk.session.read(store.page_around, self._conversation_id, self._start, PAGE)
            if page.entries:
                newest = await self._read_newest()
                return Window(page, await self._views_of(page), turn, self._start, newest)
        page = await self._desk.session.read(store.newest_page, self._conversation_id, PAGE)
        last = page.entries[-1].message.seq if page.entries else None
        gone = not page.entries and await self._is_gone()
        return Window(page, await self._views_of(page), turn, last, gone=gone)

    async def _is_gone(self) -> bool:
        try:
            await self._desk.session.read(get_conversation, self._conversation_id)
        except NotFoundError:
            return True
        return False

    async def _read_newest(self) -> tuple[int, ...]:
        """What came behind a window that is away from the end."""
        if self.entries and not self.list.has_newer:
            return ()
        read = self._desk.session.read
        return tuple(await read(store.newest_seqs, self._conversation_id, self._newest, MOST_NEW))

    async def _views_of(self, page: MessagePage) -> Views:
        """What the messages of a page look like; made in a thread, and only of those that have changed."""
        return await asyncio.to_thread(_views, page, self._views)

    def show(self, data: Window) -> bool:
        """Show the window and mark what was appended; False: one has moved away while it was read."""
        if data.turn != self._turn:
            return False
        known = bool(self.entries)
        fresh = self._take(data.page, data.views, data.select)
        behind = data.newest if self._newest is not None else ()
        self._newest = max((*self.entries, *data.newest, self._newest or 0), default=0)
        if known and data.select is None:
            self.list.mark_fresh([*fresh, *(seq for seq in behind if seq not in fresh)])
        if not data.page.entries:
            self.list.empty = (
                f"Conversation {self._conversation_id} is no longer in the database."
                if data.gone
                else "This conversation has no messages."
            )
        return True

    def _take(self, page: MessagePage, views: Views, select: int | None = None) -> list[int]:
        """Hold and show a run of messages, as much of it as fits a window; returns which are new in it."""
        self._turn += 1
        seqs = [entry.message.seq for entry in page.entries]
        seen = self.list.visible_keys
        middle = bisect_left(seqs, select if select is not None else seen[0] if seen else 0)
        part = window_around(len(seqs), middle)
        self.entries = {entry.message.seq: self._whole(entry) for entry in page.entries[part]}
        self._views = {seq: _view(entry, views) for seq, entry in self.entries.items()}
        fresh = self.list.show(
            [view for _, view in self._views.values()],
            has_older=page.has_older or part.start > 0,
            has_newer=page.has_newer or part.stop < len(seqs),
            select=seqs[min(middle, len(seqs) - 1)] if select is not None and seqs else None,
        )
        self.shown_anew()
        return fresh

    def _whole(self, entry: MessageEntry) -> MessageEntry:
        """The message with the texts that were read whole when it was opened, if they are still its own."""
        old = self.entries.get(entry.message.seq)
        if old is None or not old.complete or entry.complete or entry.message.seq not in self.list.opened:
            return entry
        if not _same(old, entry):
            return entry
        return replace(old, covered_by=entry.covered_by, in_context=entry.in_context)

    async def extend(self, older: bool) -> None:
        """Add a page at one end of the window; what is too much at the other is let go."""
        turn, held = self._turn, list(self.entries)
        if not held:
            return
        if older:
            page = await self._desk.session.read(store.page_before, self._conversation_id, held[0], PAGE)
        else:
            page = await self._desk.session.read(store.page_from, self._conversation_id, held[-1] + 1, PAGE)
        views = {**self._views, **await self._views_of(page)}
        if turn != self._turn:
            return
        entries = tuple(self.entries.values())
        if older:
            run = MessagePage(page.entries + entries, page.has_older, self.list.has_newer)
        else:
            run = MessagePage(entries + page.entries, self.list.has_older, page.has_newer)
        self._take(run, views)

    async def go_to_end(self, first: bool) -> None:
        """Show the first or the last page."""
        read = store.oldest_page if first else store.newest_page
        page = await self._desk.session.read(read, self._conversation_id, PAGE)
        if page.entries:
            views = await self._views_of(page)
            self._take(page, views, page.entries[0 if first else -1].message.seq)

    async def go_to(self, number: int) -> None:
        """Put the cursor on the message with this seq, or the next one there is."""
        if not self.list.select(number):
            page = await self._desk.session.read(store.page_around, self._conversation_id, number, PAGE)
            if page.entries:
                self._take(page, await self._views_of(page), number)

    async def find(self, needle: str, start: int, forward: bool) -> int | None:
        """The nearest message whose text or parts hold *needle*."""
        return await self._desk.session.read(
            store.find_text, self._conversation_id, needle, start=start, forward=forward
        )

    async def read_whole(self, number: int) -> None:
        """Read what a list leaves out of long texts."""
        entry = self.entries.get(number)
        if entry is None or entry.complete:
            return
        whole = await self._desk.session.read(store.get_message, entry.message.message_id)
        if number in self.entries and whole.message.seq == number:
            self.entries[number] = whole
            self._views = {**self._views, number: (whole, view_of(whole))}
            self.list.learn(self._views[number][1])


def view_of(entry: MessageEntry) -> MessageView:
    """A message of the database as the list shows it."""
    message = entry.message
    return MessageView(
        number=message.seq,
        role=message.role,
        moment=parse_utc(message.created_at),
        said_at=message.created_at,
        tokens=message.tokens,
        parts=tuple(parts_of(entry)),
        title=f"payload in {message.large_content}" if message.large_content else "",
        covered_by=entry.covered_by,
        in_context=entry.in_context,
        complete=entry.complete,
    )


def _view(entry: MessageEntry, known: Views) -> tuple[MessageEntry, MessageView]:
    """A message with what it looks like, which may be known."""
    held = known.get(entry.message.seq)
    return held if held is not None and held[0] == entry else (entry, view_of(entry))


def _views(page: MessagePage, known: Views) -> Views:
    return {entry.message.seq: _view(entry, known) for entry in page.entries}


def _same(whole: MessageEntry, head: MessageEntry) -> bool:
    """Whether what was read whole is still what stands there."""
    return (
        whole.message.message_id == head.message.message_id
        and whole.message.tokens == head.message.tokens
        and whole.message.content.startswith(head.message.content)
    )
