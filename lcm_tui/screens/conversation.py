"""A conversation: its messages, newest shown first, going on in both directions."""

from __future__ import annotations

import asyncio
import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.times import format_local, iso_z, parse_utc, typed_moment, zone_words
from lcm_core.base.values import Record, replace
from lcm_core.store import conversations as store_of_all
from lcm_core.store import messages as store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.messages import MessageEntry, MessagePage
from lcm_core.store.statistics import Growth, growth_of
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.panes import Desk
from lcm_tui.kit.spans import Line
from lcm_tui.screens import actions, picks
from lcm_tui.screens.exporting import export_conversation
from lcm_tui.screens.frame import SERIES
from lcm_tui.screens.message_pane import PAGE, MessageList, MessagesPane, window_around
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.conversation_rows import chain_line
from lcm_tui.tables.messages import MessageView, columns_text, parts_of
from lcm_tui.tables.status import growth_line, ingestion_line, seq_at

if TYPE_CHECKING:
    from lcm_host.ingestion import Ingestion


# -- the lines above -------------------------------------------------------------------------------------
# How the conversation grew, how far the engine is, and which others its session has.


class SessionLines(Lines):
    """How it grew, and two lines more at most; a click on a bar goes to the messages of that time."""

    def __init__(self, zone: Callable[[], tzinfo | None], go_to: Callable[[int], None]) -> None:
        """*go_to* gets the seq of the first message of the time that was clicked."""
        super().__init__(self._compose_session, id="session-lines", clicked=self._clicked_bar)
        self._zone = zone
        self._go_to = go_to
        self._ingestion: Line | None = None
        self._chain: Line = ()
        self._growth: Growth | None = None
        self._grown = False  #: how it grew has been read

    def show_growth(self, growth: Growth | None) -> None:
        """Say how it grew; None: it has hardly begun."""
        self._grown, self._growth = True, growth
        self.again()

    def _clicked_bar(self, line: Line, cell: int) -> None:
        seq = seq_at(self._growth, cell, self.size.width) if line is self.lines[0] and self._growth else None
        if seq is not None:
            self._go_to(seq)

    def show_ingestion(self, found: Ingestion | None) -> None:
        """Say how far the engine is; None: the host's databases have no session of this conversation."""
        if found is not None:
            self._ingestion = ingestion_line(found, self._moment)
        elif self._ingestion is not None:
            self._ingestion = ()
        self.again()

    def expect_ingestion(self) -> None:
        """Keep the room of what is to be said of the engine, so that nothing moves when it is."""
        self._ingestion, self.styles.height = (), 2

    def show_chain(self, conversation: Conversation, chain: Sequence[Conversation], merge_key: str) -> None:
        """Say what comes before and behind the conversation in its session."""
        self._chain = chain_line(conversation, chain, merge_key)
        self.again()

    def _compose_session(self, width: int) -> Sequence[Line]:
        growth = growth_line(self._growth, width, self._zone(), read=self._grown)
        engine = () if self._ingestion is None else (self._ingestion,)
        return [growth, *engine, *((self._chain,) if self._chain else ())]

    def _moment(self, moment: datetime | None) -> str:
        return "–" if moment is None else format_local(moment, self._zone())[5:16]


# -- the messages ----------------------------------------------------------------------------------------
# Read from the database; a message's number is its seq.

#: Messages behind the window that are counted as new, at most.
MOST_NEW: Final = 10_000
#: What a message looked like, and what it was made from; by seq.
Views = Mapping[int, tuple[MessageEntry, MessageView]]


class Window(Record, frozen=True):
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
        columns=columns_text(entry),
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


# -- the screen ------------------------------------------------------------------------------------------

#: How often the host is looked at while the conversation is in front.
LOOK_SECONDS: Final = 2.0
#: The same when for so long no key came and nothing was written.
CALM_SECONDS: Final = 10.0
#: How a conversation grew is read again at most this often while it grows.
GROWTH_SECONDS: Final = 10.0


class ConversationScreen(DataScreen[Window]):
    """The messages of one conversation; a message's number is its seq."""

    HELP = """
The messages of this conversation in seq order, the newest at the bottom.

The line at the top shows when its messages came; a click on a bar goes there. Each bar stands for nearly the
same time, the tallest for the most messages (sampled), a dot for none, ┊ for a long time without any.

The list loads more in both directions as you move; g and G go to the first and the last message.

A message shows its first lines; enter opens it. Until then, reasoning, tool calls and tool results are one
line each; → #12 and ← #11 name the message with the other half of a call. "in context" marks messages that
the model receives as they are, "leaf sum_..." names the summary made from a message: s goes there, L lists
all that were made from it, each with the line that tells of it.

J jumps: a number is a seq, m123 a message id, a time like 2026-03-02 10:00 the first message from then on (in
the time zone that is shown; with a Z behind it in UTC).

If the host keeps its sessions in a database, the line above the messages shows whether the engine keeps up
with it: how many messages of finished turns are missing and since when, turns that wait for the engine with
attempts and the last error, the newest entry of the host, the newest message here, and the last committed
turn. A running turn, and what the engine never stores, does not count as missing. If a session has several
conversations, a line names the previous and the next one, and what ended each: a rollover, for example.

D compares the conversation with the Codex session that it was held in, if the host ran it with Codex.
"""

    def __init__(self, conversation: Conversation, *, seq: int | None = None, find: str = "") -> None:
        """*find*: what was found in the message with this seq: it opens there, marked."""
        super().__init__()
        self.conversation = conversation
        self._grown_at = 0.0  #: when it was last read how it grew, monotonic
        self._comparing = False  #: how far the engine is, is being read
        self._compared_at = 0.0  #: monotonic
        self._codex_looked_for = False
        self._why_no_codex: str | None = None  #: why it cannot be compared with Codex, once that is known
        self.head = SessionLines(lambda: self.session.zone, self._go_to)
        self.pane = ConversationPane(self, self._say_place, conversation.conversation_id, seq)
        self._find = find

    def compose_body(self) -> ComposeResult:
        """What is to be said of its session, if anything, and the messages."""
        if self.session.host.listed_of(self.conversation):
            self.head.expect_ingestion()
        yield self.head
        yield self.pane

    def on_mount(self) -> None:
        """Follow the host."""
        self.set_interval(LOOK_SECONDS, self._look_at_host)

    def _look_at_host(self) -> None:
        now, news_at = time.monotonic(), max(self.session.key_at, self._loaded_at)
        calm = now - news_at > CALM_SECONDS and now - self._compared_at < CALM_SECONDS
        if self.app.screen is self and not (self._comparing or calm):
            self._comparing, self._compared_at = True, now
            self.work_on("host", self._compare, exclusive=False)

    async def _compare(self) -> None:
        """Say how far the engine is with this conversation, and why its session has others."""
        session = self.session
        try:
            chain = await session.read(store_of_all.same_session, self.conversation)
            own = next(
                (one for one in chain if one.conversation_id == self.conversation.conversation_id), None
            )
            self.head.show_chain(own or self.conversation, chain, self.key_of("merge"))
            self.head.show_ingestion(await session.host.of_conversation(session.database, self.conversation))
            await self._look_for_codex()
        finally:
            self._comparing = False

    async def _look_for_codex(self) -> None:
        """Learn once whether it was held in Codex."""
        if self._codex_looked_for:
            return
        from lcm_host.codex import transcripts_of, why_no_codex

        settings = self.session.settings
        recorded = await self.session.read(transcripts_of, self.conversation, settings)
        why = await asyncio.to_thread(why_no_codex, recorded, self.conversation, settings, os.environ)
        self._codex_looked_for, self._why_no_codex = True, why
        self.refresh_bars()

    def in_key_bar(self) -> list[str]:
        """The comparison with Codex only where there is one."""
        shown = super().in_key_bar()
        in_codex = self._codex_looked_for and self._why_no_codex is None
        return shown if in_codex else [name for name in shown if name != "compare"]

    def where(self) -> str:
        """Whose messages these are."""
        return f"Conversation {self.session.called(self.conversation)}"

    @property
    def messages(self) -> MessageList:
        """The list."""
        return self.pane.list

    def main_widget(self) -> MessageList:
        """The list."""
        return self.pane.list

    def finder(self) -> Finder:
        """The search in all messages."""
        return self.pane.finder

    def selected_id(self) -> str | None:
        """The message's id."""
        return str(self.pane.entry.message.message_id) if self.pane.entry is not None else None

    async def fetch(self) -> Window:
        """The messages in sight, and what was appended behind them."""
        return await self.pane.fetch()

    def show(self, data: Window) -> None:
        """Show them, unless one has moved away while they were read."""
        if not self.pane.show(data):
            self.load()
        elif self._find:
            self.call_after_refresh(self.work_on, "go", self.pane.stand_on_match, self._find)
            self._find = ""
        self._look_at_host()
        if time.monotonic() - self._grown_at > GROWTH_SECONDS:
            self._grown_at = time.monotonic()
            self.call_after_refresh(self.work_on, "growth", self._read_growth, exclusive=False)

    async def _read_growth(self) -> None:
        """Say how it grew, once the messages have been painted and no key is expected."""
        await self.calm()
        found = await self.session.read(growth_of, self.conversation.conversation_id)
        self.head.show_growth(found)

    def _go_to(self, seq: int) -> None:
        self.work_on("go", self.pane.go_to, seq)

    def _say_place(self) -> None:
        """The seq of the selected message, or what is being searched for."""
        seq, searching = self.messages.selected, self.pane.searching
        place = "" if seq is None else f"#{seq}"
        self.title_bar.note = f"searching for {searching} …" if searching else place

    def _open_summaries(self) -> None:
        """Show the DAG, with the summary that covers the selected message selected."""
        entry = self.pane.entry
        covering = entry.covered_by[0] if entry and entry.covered_by else None
        if entry and covering is None:
            self.app.notify("No summary covers this message.", timeout=3)
        self.open(places.Summaries(self.conversation, select=covering))

    async def _jump(self) -> None:
        """Ask where to until there is such a place, and go there."""
        text: str | None = ""
        problem = ""
        while True:
            zone = zone_words(self.session.zone)
            label = f"jump to: seq (120), id (m4711), or time (2026-03-02 10:00 {zone})"
            known = partial(picks.places_of, self.session, self.conversation)
            text = await self.ask(label, text or "", check=self._jump_problem, problem=problem, picks=known)
            if text is None or not text.strip():
                return
            seq = await self._seq_at(text.strip())
            if seq is not None:
                self._go_to(seq)
                return
            problem = f"“{text.strip()}” is not in this conversation."

    def _jump_problem(self, text: str) -> str | None:
        text = text.strip()
        if not text or _NUMBER.fullmatch(text) or typed_moment(text, self.session.zone):
            return None
        return f"“{text}” is no seq, message id or time: write 120, m4711 or 2026-03-02 10:00."

    async def _seq_at(self, text: str) -> int | None:
        """The seq that is meant; None: nothing in this conversation."""
        conversation_id = self.conversation.conversation_id
        number = _NUMBER.fullmatch(text)
        if number is None:
            moment = typed_moment(text, self.session.zone)
            assert moment is not None  # else the prompt is still open
            return await self.session.read(store.seq_at_time, conversation_id, iso_z(moment))
        if number[1]:
            return await self.session.read(store.seq_of_message, conversation_id, int(number[2]))
        return int(number[2])

    KEYS: ClassVar[Sequence[Key[ConversationScreen]]] = (
        actions.OPEN_MESSAGE,
        commands.SUMMARIES.does(_open_summaries),
        actions.ITS_CONTEXT,
        actions.ITS_HEALTH,
        actions.ITS_COMPACT,
        Key(
            "jump",
            "J",
            "Jump",
            "Jump to a seq (120), a message id (m4711), or a time (2026-03-02 10:00).",
            _jump,
            words="go to message; go to time; go to date; line number",
        ),
        actions.trace_key(lambda s: s.pane.entry.message.message_id if s.pane.entry else None),
        actions.ITS_FILES,
        actions.ITS_HISTORY,
        commands.SEARCH,
        actions.FOLD_MESSAGES,
        actions.ITS_ENGINE,
        commands.EXPORT.does(
            lambda s: export_conversation(s, s.conversation),
            help="Write the whole conversation to a file: Markdown, JSON, CSV, or JSON lines for import.",
        ),
        commands.COMPARE.does(
            lambda s: s.open(places.CodexComparison(s.conversation)),
            lambda s: s._why_no_codex,
            title="Codex",
            help="Compare with the Codex session that this conversation was held in.",
        ),
        *SERIES,
    )
    COMMON: ClassVar[Sequence[Key[ConversationScreen]]] = (actions.COPY_MESSAGE_ID,)


#: A seq, or with `m` the id of a message; more digits than SQLite counts with are neither.
_NUMBER: Final = re.compile(r"(m?)#?(-?\d{1,18})", re.ASCII)
