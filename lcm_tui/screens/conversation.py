"""A conversation: its messages, newest shown first, going on in both directions."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import ClassVar

from lcm_core.records import Conversation
from lcm_core.store import messages as store
from lcm_core.store.messages import MessageEntry, MessagePage
from lcm_core.times import iso_z, parse_utc
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.screens.message_list import PAGE, window_around
from lcm_tui.screens.message_screen import MessageScreen
from lcm_tui.views.message import parts_of
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.message_lines import MessageView

#: What a message looked like, and what it was made from; by seq.
Views = Mapping[int, tuple[MessageEntry, MessageView]]


@dataclass(frozen=True, slots=True)
class Window:
    """A run of messages, with what lies beyond its ends."""

    page: MessagePage
    views: Views
    turn: int  #: which state of the screen it was read for
    select: int | None = None  #: seq to stand on, or near; None keeps the selection


class ConversationScreen(MessageScreen[Window]):
    """The messages of one conversation; a message's number is its seq."""

    HELP = """
The messages of this conversation in the order of their seq, the newest at the bottom. The list goes on in
both directions while you move; g and G go to the first and the last message of all.

A message shows its first lines; enter opens it. Reasoning, tool calls and tool results are one line until
then; → #12 and ← #11 name the message that holds the other half of a call. "in context" marks what the model
still sees as it is, "in sum_..." the summary that covers it: s goes there.

J jumps: a number is a seq, m123 a message id, a time like 2026-03-02 10:00 the first message from then on (in
the time zone that is shown; with a Z behind it in UTC).
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "summaries", "context", "health", "compact", "jump", "files", "history", "search"),
            "fold-all",
        )
    )

    def __init__(self, conversation: Conversation, *, seq: int | None = None) -> None:
        super().__init__()
        self.conversation = conversation
        self._conversation_id = conversation.conversation_id
        self._entries: dict[int, MessageEntry] = {}  #: the window, in order of seq
        self._views: Views = {}  #: of the window
        self._turn = 0  #: counts the windows shown
        self._start = seq
        self._jumping = False

    def on_mount(self) -> None:
        """Say whose messages these are."""
        self.query_one(TitleBar).where = f"Conversation {self._conversation_id}  {self.conversation.lane}"

    # -- data ----------------------------------------------------------------------------------------------

    async def fetch(self) -> Window:
        """The window as it is now, and what was appended behind it."""
        turn, held = self._turn, list(self._entries)
        if held:
            limit = len(held) + (0 if self.messages.has_newer else PAGE)
            page = await self.session.read(store.page_from, self._conversation_id, held[0], limit)
            if page.entries:
                return Window(page, await self._views_of(page), turn)
        if self._start is not None:
            page = await self.session.read(store.page_around, self._conversation_id, self._start, PAGE)
            if page.entries:
                return Window(page, await self._views_of(page), turn, self._start)
        page = await self.session.read(store.newest_page, self._conversation_id, PAGE)
        last = page.entries[-1].message.seq if page.entries else None
        return Window(page, await self._views_of(page), turn, last)

    async def _views_of(self, page: MessagePage) -> Views:
        """What the messages of a page look like; made in a thread, and only of those that have changed."""
        return await asyncio.to_thread(_views, page, self._views)

    def show(self, data: Window) -> None:
        """Show the window, unless one has moved away while it was read; mark what was appended."""
        if data.turn != self._turn:
            self.load()
            return
        known = bool(self._entries)
        fresh = self._take(data.page, data.views, data.select)
        if known and data.select is None:
            self.messages.mark_fresh(fresh)
        if not data.page.entries:
            self.messages.empty = "This conversation has no messages."

    def _take(self, page: MessagePage, views: Views, select: int | None = None) -> list[int]:
        """Hold and show a run of messages, as much of it as fits a window; returns which are new in it."""
        self._turn += 1
        seqs = [entry.message.seq for entry in page.entries]
        seen = self.messages.visible_keys
        middle = bisect_left(seqs, select if select is not None else seen[0] if seen else 0)
        part = window_around(len(seqs), middle)
        self._entries = {entry.message.seq: self._whole(entry) for entry in page.entries[part]}
        self._views = {seq: _view(entry, views) for seq, entry in self._entries.items()}
        fresh = self.messages.show(
            [view for _, view in self._views.values()],
            has_older=page.has_older or part.start > 0,
            has_newer=page.has_newer or part.stop < len(seqs),
            select=seqs[min(middle, len(seqs) - 1)] if select is not None and seqs else None,
        )
        for seq in self.messages.opened & self._entries.keys():
            if not self._entries[seq].complete:
                self.work_on("whole", self.read_whole, seq, exclusive=False)
        self.show_place()
        return fresh

    def _whole(self, entry: MessageEntry) -> MessageEntry:
        """The message with the texts that were read whole when it was opened, if they are still its own."""
        old = self._entries.get(entry.message.seq)
        if old is None or not old.complete or entry.complete or entry.message.seq not in self.messages.opened:
            return entry
        if not _same(old, entry):
            return entry
        return replace(old, covered_by=entry.covered_by, in_context=entry.in_context)

    async def extend(self, older: bool) -> None:
        """Add a page at one end of the window; what is too much at the other is let go."""
        turn, held = self._turn, list(self._entries)
        if not held:
            return
        if older:
            page = await self.session.read(store.page_before, self._conversation_id, held[0], PAGE)
        else:
            page = await self.session.read(store.page_from, self._conversation_id, held[-1] + 1, PAGE)
        views = {**self._views, **await self._views_of(page)}
        if turn != self._turn:
            return
        entries = tuple(self._entries.values())
        if older:
            run = MessagePage(page.entries + entries, page.has_older, self.messages.has_newer)
        else:
            run = MessagePage(entries + page.entries, self.messages.has_older, page.has_newer)
        self._take(run, views)

    async def go_to_end(self, first: bool) -> None:
        """Show the first or the last page."""
        read = store.oldest_page if first else store.newest_page
        page = await self.session.read(read, self._conversation_id, PAGE)
        if page.entries:
            views = await self._views_of(page)
            self._take(page, views, page.entries[0 if first else -1].message.seq)

    async def go_to(self, number: int) -> None:
        """Put the cursor on the message with this seq, or the next one there is."""
        if not self.messages.select(number):
            page = await self.session.read(store.page_around, self._conversation_id, number, PAGE)
            if page.entries:
                self._take(page, await self._views_of(page), number)

    async def find(self, needle: str, start: int, forward: bool) -> int | None:
        """The nearest message whose text or parts hold *needle*."""
        return await self.session.read(
            store.find_text, self._conversation_id, needle, start=start, forward=forward
        )

    async def read_whole(self, number: int) -> None:
        """Read what a list leaves out of long texts."""
        entry = self._entries.get(number)
        if entry is None or entry.complete:
            return
        whole = await self.session.read(store.get_message, entry.message.message_id)
        if number in self._entries and whole.message.seq == number:
            self._entries[number] = whole
            self._views = {**self._views, number: (whole, view_of(whole))}
            self.messages.learn(self._views[number][1])

    # -- commands ------------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The message's id."""
        entry = self._selected()
        return str(entry.message.message_id) if entry else None

    def show_place(self) -> None:
        """The seq of the selected message."""
        seq = self.messages.selected
        self.query_one(TitleBar).note = "" if seq is None else f"#{seq}"

    def action_summaries(self) -> None:
        """Show the DAG, standing on the summary that covers the selected message."""
        entry = self._selected()
        covering = entry.covered_by[0] if entry and entry.covered_by else None
        if entry and covering is None:
            self.app.notify("No summary covers this message.", timeout=3)
        self.open(places.Summaries(self.conversation, select=covering))

    def action_context(self) -> None:
        """Show what the model sees."""
        self.open(places.Context(self.conversation))

    def action_files(self) -> None:
        """Show the large files."""
        self.open(places.Files(self.conversation))

    def action_compact(self) -> None:
        """Show what would be compacted."""
        self.open(places.Compaction(self.conversation))

    def action_history(self) -> None:
        """Show what was changed in this conversation."""
        self.open(places.History(self.conversation, only=True))

    def action_health(self) -> None:
        """Show what the checks find in this conversation."""
        self.open(places.Health(self.conversation, only=True))

    def action_jump(self) -> None:
        """Ask where to."""
        self._jumping = True
        self.open_prompt("jump to: seq, m<message id>, or a time")

    def action_search(self) -> None:
        """Ask what for."""
        self._jumping = False
        super().action_search()

    def answered(self, text: str, *, done: bool) -> None:
        """A place or a text was typed."""
        if not self._jumping:
            super().answered(text, done=done)
        elif done and text.strip():
            self.work_on("go", self._jump, text.strip())

    async def _jump(self, text: str) -> None:
        number = re.fullmatch(r"(m?)#?(-?\d{1,18})", text)
        seq: int | None = None
        if number is None:
            moment = moment_of(text, self.session.zone)
            problem = f"{text} is no seq, message id or time"
            if moment is not None:
                problem = "this conversation has no messages"
                seq = await self.session.read(store.seq_at_time, self._conversation_id, iso_z(moment))
        elif number[1]:
            seq = await self.session.read(store.seq_of_message, self._conversation_id, int(number[2]))
            problem = f"this conversation has no message {number[2]}"
        else:
            seq, problem = int(number[2]), ""
        if seq is None:
            self.app.notify(problem, severity="warning")
        else:
            await self.go_to(seq)

    def _selected(self) -> MessageEntry | None:
        seq = self.messages.selected
        return self._entries.get(seq) if seq is not None else None


def moment_of(text: str, zone: tzinfo | None) -> datetime | None:
    """A time that was typed: in *zone* (None: that of this machine), unless it names one itself."""
    moment = parse_utc(text)
    if moment is None or re.search(r"([Zz]|[+-]\d\d:?\d\d)$", text):
        return moment
    naive = moment.replace(tzinfo=None)
    return naive.replace(tzinfo=zone) if zone is not None else naive.astimezone()


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
