"""A conversation: its messages, newest shown first, going on in both directions."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.errors import UsageError
from lcm_core.records import Conversation
from lcm_core.store import conversations as store_of_all
from lcm_core.store import messages as store
from lcm_core.store.growth import growth_of
from lcm_core.times import iso_z, typed_moment, zone_words
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.links import bound, conversation_links
from lcm_tui.actions.messages import message_actions
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.messages import MessageList
from lcm_tui.screens.conversation.head import SessionLines
from lcm_tui.screens.conversation.panes import ConversationPane, Window

#: How often the host is looked at while the conversation is in front.
LOOK_SECONDS: Final = 2.0
#: How a conversation grew is read again at most this often while it grows.
GROWTH_SECONDS: Final = 10.0


class ConversationScreen(DataScreen[Window]):
    """The messages of one conversation; a message's number is its seq."""

    HELP = """
The line at the top shows when its messages came: a bar for each equal piece of its time, the tallest for the
most messages (sampled), a dot for none; a click on a bar goes there.

The messages of this conversation in seq order, the newest at the bottom. The list loads more in both
directions as you move; g and G go to the first and the last message.

A message shows its first lines; enter opens it. Until then, reasoning, tool calls and tool results are one
line each; → #12 and ← #11 name the message with the other half of a call. "in context" marks messages that
the model receives as they are, "in sum_..." names the summary that covers a message: s goes there.

J jumps: a number is a seq, m123 a message id, a time like 2026-03-02 10:00 the first message from then on (in
the time zone that is shown; with a Z behind it in UTC).

If the host keeps its sessions in a database, the line above the messages shows whether the engine keeps up
with it: how many messages of finished turns are missing and since when, turns that wait for the engine with
attempts and the last error, the newest entry of the host, the newest message here, and the last committed
turn. A running turn, and what the engine never stores, does not count as missing. If a session has several
conversations, a line names the previous and the next one, and what ended each: a rollover, for example.

D compares the conversation with the Codex session that it was held in, if the host ran it with Codex.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "summaries", "context", "health", "compact", "jump", "files", "history", "search"),
            *("fold-all", "engine", "compare", *STEPPED),
        )
    )

    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {"compare": ("Codex", "Compare with the Codex session that this conversation was held in.")}
    )

    def __init__(self, conversation: Conversation, *, seq: int | None = None, find: str = "") -> None:
        """*find*: what was found in the message with this seq: it opens there, marked."""
        super().__init__()
        self.conversation = conversation
        self._grown_at = 0.0  #: when it was last read how it grew, monotonic
        self._comparing = False  #: how far the engine is, is being read
        self._codex_looked_for = False
        self._why_no_codex: str | None = None  #: why it cannot be compared with Codex, once that is known
        self.head = SessionLines(lambda: self.session.zone)
        self.pane = ConversationPane(self, self._say_place, conversation.conversation_id, seq)
        self._find = find

    def compose_body(self) -> ComposeResult:
        """What is to be said of its session, if anything, and the messages."""
        yield self.head
        yield self.pane

    def on_mount(self) -> None:
        """Follow the host."""
        self.set_interval(LOOK_SECONDS, self._look_at_host)

    def _look_at_host(self) -> None:
        if self.app.screen is self and not self._comparing:
            self._comparing = True
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
        from lcm_core.host.codex_compare import transcripts_of, why_no_codex

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

    def actions(self) -> Sequence[Action]:
        """Opening messages, going to one, and the other views of the conversation."""
        return bound(
            self,
            *conversation_links(self, self.conversation),
            *message_actions(self, self.pane),
            Action("summaries", self._open_summaries),
            Action("jump", self._jump),
            Action(
                "compare",
                lambda: self.open(places.CodexComparison(self.conversation)),
                lambda: self._why_no_codex,
            ),
        )

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

    @on(SessionLines.Clicked)
    def _clicked_bar(self, event: SessionLines.Clicked) -> None:
        self.work_on("go", self.pane.go_to, event.seq)

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
            text = await self.ask(label, text or "", check=self._jump_problem, problem=problem)
            if text is None or not text.strip():
                return
            seq = await self._seq_at(text.strip())
            if seq is not None:
                self.work_on("go", self.pane.go_to, seq)
                return
            problem = f"“{text.strip()}” is not in this conversation."

    def _jump_problem(self, text: str) -> str | None:
        text = text.strip()
        try:
            if not text or _NUMBER.fullmatch(text) or typed_moment(text, self.session.zone):
                return None
        except UsageError as error:
            return error.message
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


#: A seq, or with `m` the id of a message; more digits than SQLite counts with are neither.
_NUMBER: Final = re.compile(r"(m?)#?(-?\d{1,18})", re.ASCII)
