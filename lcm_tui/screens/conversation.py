"""A conversation: its messages, newest shown first, going on in both directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.ingest.content import ContentPart, PartKind, row_parts
from lcm_core.records import Conversation, MessageId
from lcm_core.store import messages as store
from lcm_core.store.messages import MessageEntry, MessagePage
from lcm_core.times import parse_utc
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.base import DataScreen
from lcm_tui.screens.message_list import PAGE, MessageList, trimmed
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.message_lines import MessageView


@dataclass(frozen=True, slots=True)
class Window:
    """A run of messages, with what lies beyond its ends."""

    page: MessagePage
    select: int | None = None  #: seq to stand on; None keeps the selection


class ConversationScreen(DataScreen[Window]):
    """The messages of one conversation."""

    HELP = """
The messages of this conversation in the order of their seq, the newest at the bottom. The list goes on in
both directions while you move; g and G go to the first and the last message of all.

A message shows its first lines; enter opens it. Reasoning, tool calls and tool results are one line until
then; → #12 and ← #11 name the message that holds the other half of a call. "in context" marks what the model
still sees as it is, "in sum_..." the summary that covers it: s goes there.

J jumps: a number is a seq, m123 a message id, a time like 2026-03-02 10:00 the first message from then on
(UTC).
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "summaries", "context", "files", "jump", "search", "fold-all")
    )

    def __init__(self, conversation: Conversation, *, seq: int | None = None) -> None:
        super().__init__()
        self.conversation = conversation
        self._conversation_id = conversation.conversation_id
        self._entries: dict[int, MessageEntry] = {}
        self._start = seq
        self._needle = ""
        self._asking = "search"

    def compose_body(self) -> ComposeResult:
        """The list."""
        yield MessageList(empty="Reading …", id="messages")

    @property
    def messages(self) -> MessageList:
        """The list of messages."""
        return self.query_one("#messages", MessageList)

    def main_widget(self) -> MessageList:
        """The list."""
        return self.messages

    def on_mount(self) -> None:
        """Load the newest page, or the one around the message asked for."""
        self.messages.zone = self.session.zone
        self.messages.focus()
        self.query_one(TitleBar).where = f"Conversation {self._conversation_id}  {self.conversation.lane}"

    # -- data ----------------------------------------------------------------------------------------------

    async def fetch(self) -> Window:
        """The window as it is now, and what was appended behind it."""
        views = self.messages
        if not self._entries:
            if self._start is None:
                page = await self.session.read(store.newest_page, self._conversation_id, PAGE)
                return Window(page, page.entries[-1].message.seq if page.entries else None)
            page = await self.session.read(store.page_around, self._conversation_id, self._start, PAGE)
            return Window(page, self._start)
        first, last = min(self._entries), max(self._entries)
        if views.has_newer:
            return Window(
                await self.session.read(
                    store.reread, self._conversation_id, first, last, len(self._entries) + PAGE
                )
            )
        page = await self.session.read(
            store.page_from, self._conversation_id, first, len(self._entries) + PAGE
        )
        return Window(MessagePage(page.entries, views.has_older, page.has_newer))

    def show(self, data: Window) -> None:
        """Show the window; opened messages stay open and whole."""
        kept = {
            seq: entry
            for seq, entry in self._entries.items()
            if entry.complete and seq in self.messages.opened
        }
        self._entries = {entry.message.seq: entry for entry in data.page.entries}
        known = bool(self.messages.views)
        views = [
            view_of(kept[seq] if seq in kept and _same(kept[seq], entry) else entry)
            for seq, entry in self._entries.items()
        ]
        for seq, entry in kept.items():
            if seq in self._entries and _same(entry, self._entries[seq]):
                self._entries[seq] = entry
        fresh = self.messages.show(
            views, has_older=data.page.has_older, has_newer=data.page.has_newer, select=data.select
        )
        if known and data.select is None:
            self.messages.mark_fresh(fresh)
        if not data.page.entries:
            self.messages.empty = "This conversation has no messages."
        self._show_place()

    @on(MessageList.Wanted)
    def _more(self, event: MessageList.Wanted) -> None:
        self.work_on("extend", self._extend, event.older)

    async def _extend(self, older: bool) -> None:
        """Add a page at one end of the window and let go at the other."""
        if not self._entries:
            return
        first, last = min(self._entries), max(self._entries)
        held = list(self._entries.values())
        if older:
            page = await self.session.read(store.page_before, self._conversation_id, first, PAGE)
            entries, cut = trimmed([*page.entries, *held], keep_newest=False)
            has_older, has_newer = page.has_older, self.messages.has_newer or cut
        else:
            page = await self.session.read(store.page_from, self._conversation_id, last + 1, PAGE)
            entries, cut = trimmed([*held, *page.entries], keep_newest=True)
            has_older, has_newer = self.messages.has_older or cut, page.has_newer
        self._entries = {entry.message.seq: entry for entry in entries}
        self.messages.show([view_of(entry) for entry in entries], has_older=has_older, has_newer=has_newer)
        self._show_place()

    @on(MessageList.End)
    def _to_end(self, event: MessageList.End) -> None:
        self.work_on("extend", self._go_to_end, event.first)

    async def _go_to_end(self, first: bool) -> None:
        if first:
            page = await self.session.read(store.oldest_page, self._conversation_id, PAGE)
        else:
            page = await self.session.read(store.newest_page, self._conversation_id, PAGE)
        if page.entries:
            self.show(Window(page, page.entries[0 if first else -1].message.seq))

    async def _go_to(self, seq: int) -> None:
        """Put the cursor on the message with this seq, or the next one there is."""
        if seq not in self._entries:
            page = await self.session.read(store.page_around, self._conversation_id, seq, PAGE)
            if not page.entries:
                return
            held = [entry.message.seq for entry in page.entries]
            seq = min((found for found in held if found >= seq), default=held[-1])
            self.show(Window(page, seq))
        self.messages.select(seq)

    # -- commands ------------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The message's id."""
        entry = self._selected()
        return str(entry.message.message_id) if entry else None

    def why_not(self, command: str) -> str | None:
        """Some need a message."""
        if command in {"open", "copy-id"} and self._selected() is None:
            return "no message is selected"
        return None

    def action_open(self) -> None:
        """Open or fold the message; the rest of its text is read when it is opened."""
        entry = self._selected()
        if entry is None:
            return
        seq = entry.message.seq
        if self.messages.toggle(seq) and not entry.complete:
            self._read_whole(entry)

    @on(MessageList.Sided)
    def _side(self, event: MessageList.Sided) -> None:
        entry = self._selected()
        if entry is None:
            return
        self.messages.toggle(entry.message.seq, opened=event.side > 0)
        if event.side > 0 and not entry.complete:
            self._read_whole(entry)

    @on(MessageList.Opened)
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_fold_all(self) -> None:
        """Fold every message."""
        self.messages.opened.clear()
        self.messages.redraw()

    def action_summaries(self) -> None:
        """Show the DAG, standing on the summary that covers the selected message."""
        from lcm_tui.screens.dag import DagScreen

        entry = self._selected()
        covering = entry.covered_by[0] if entry and entry.covered_by else None
        if entry and covering is None:
            self.app.notify("No summary covers this message.", timeout=3)
        self.app.push_screen(DagScreen(self.conversation, select=covering))

    def action_context(self) -> None:
        """Show what the model sees."""
        from lcm_tui.screens.context import ContextScreen

        self.app.push_screen(ContextScreen(self.conversation))

    def action_files(self) -> None:
        """Show the large files."""
        from lcm_tui.screens.files import FilesScreen

        self.app.push_screen(FilesScreen(self.conversation))

    def action_jump(self) -> None:
        """Ask where to."""
        self._asking = "jump"
        self.ask("jump to: seq, m<message id>, or a time (UTC)")

    def action_search(self) -> None:
        """Ask what for."""
        self._asking = "search"
        self.ask("search in all messages (toward older ones; n goes on, N back)", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """A place or a text was typed."""
        if not done:
            return
        if self._asking == "jump":
            if text.strip():
                self.work_on("jump", self._jump, text.strip())
            return
        self._needle = text
        self.messages.search_for(text)
        if text:
            self._find(forward=False, include=True)

    def action_next(self) -> None:
        """The next match, toward older messages."""
        self._find(forward=False)

    def action_previous_match(self) -> None:
        """The match before, toward newer messages."""
        self._find(forward=True)

    async def action_back(self) -> None:
        """Close the prompt, end a search, then leave."""
        if self.query_one("#prompt").display:
            self.close_prompt()
        elif self._needle:
            self._needle = ""
            self.messages.search_for("")
        else:
            await super().action_back()

    @on(MessageList.Highlighted)
    @on(MessageList.Scrolled)
    def _moved(self) -> None:
        self.messages.want_more()
        self._show_place()

    async def _jump(self, text: str) -> None:
        number = re.fullmatch(r"(m?)#?(\d{1,18})", text)
        if number is None:
            seq = await self.session.read(store.seq_at_time, self._conversation_id, text)
            problem = f"{text} is no seq, message id or time"
        elif number[1]:
            seq = await self.session.read(store.seq_of_message, self._conversation_id, int(number[2]))
            problem = f"this conversation has no message {number[2]}"
        else:
            seq, problem = int(number[2]), ""
        if seq is None:
            self.app.notify(problem, severity="warning")
        else:
            await self._go_to(seq)

    def _find(self, *, forward: bool, include: bool = False) -> None:
        if not self._needle:
            self.app.notify("Nothing to search for; / asks.", timeout=3)
            return
        entry = self._selected()
        start = entry.message.seq if entry else 0
        start += (-1 if forward else 1) if include else 0
        self.work_on("search", self._search, start, forward)

    async def _search(self, start: int, forward: bool) -> None:
        found = await self.session.read(
            store.find_text, self._conversation_id, self._needle, start=start, forward=forward
        )
        if found is None:
            where = "newer" if forward else "older"
            self.app.notify(f"No {where} message holds “{self._needle}”.", timeout=3)
        else:
            await self._go_to(found)

    def _read_whole(self, entry: MessageEntry) -> None:
        self.work_on("whole", self._complete, entry.message.message_id, exclusive=False)

    async def _complete(self, message_id: MessageId) -> None:
        entry = await self.session.read(store.get_message, message_id)
        if entry.message.seq in self._entries:
            self._entries[entry.message.seq] = entry
            self.messages.learn(view_of(entry))

    def _selected(self) -> MessageEntry | None:
        seq = self.messages.selected
        return self._entries.get(seq) if seq is not None else None

    def _show_place(self) -> None:
        entry = self._selected()
        older = "" if self.messages.has_older else " (first shown)"
        self.query_one(TitleBar).note = f"#{entry.message.seq}{older}" if entry else ""


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
        complete=entry.complete or not _cut(entry),
    )


def parts_of(entry: MessageEntry) -> Sequence[ContentPart]:
    """What the message holds: its parts, else its text (bulk imports wrote no parts)."""
    found = [part for row in entry.parts for part in row_parts(row, entry.message.role)]
    if any(part.text or part.arguments or part.byte_size or part.name for part in found):
        return found
    return [ContentPart(PartKind.TEXT, "", entry.message.content), *found]


def _cut(entry: MessageEntry) -> bool:
    texts = [entry.message.content, *(part.text or "" for part in entry.parts)]
    texts += [text or "" for part in entry.parts for text in (part.tool_input, part.tool_output)]
    return any(len(text) >= store.HEAD for text in texts)


def _same(whole: MessageEntry, head: MessageEntry) -> bool:
    """Whether what was read whole is still what stands there."""
    return (
        whole.message.message_id == head.message.message_id
        and whole.message.tokens == head.message.tokens
        and whole.message.content.startswith(head.message.content)
    )
