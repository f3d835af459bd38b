"""A session that only the disk knows: its transcript, read-only, a page at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from lcm_core.ingest.sessions import DiskSession, KnownSession, find_sessions, unknown_to
from lcm_core.ingest.transcript import (
    TranscriptEntry,
    TranscriptIndex,
    index_transcript,
    read_entries,
    refresh_index,
)
from lcm_core.records import Conversation
from lcm_core.settings import Settings
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.base import DataScreen, size_text
from lcm_tui.screens.message_list import PAGE, WINDOW, MessageList
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.message_lines import MessageView

T = TypeVar("T")

#: Characters of a text that the list reads; a message is read whole when it is opened.
HEAD = 2_000


def unknown_sessions(settings: Settings, known: Iterable[Conversation]) -> list[DiskSession]:
    """Sessions on disk that the database does not know. Reads the folder: not for the event loop."""
    listing = find_sessions(settings.sessions.value)
    told = [KnownSession(found.session_id, found.session_key) for found in known]
    return unknown_to(listing.sessions, told)


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run file work in a thread; cancelling the caller asks *work* to stop."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop.is_set)
    except asyncio.CancelledError:
        stop.set()
        raise


@dataclass(frozen=True, slots=True)
class Run:
    """A run of entries along the path that the host sees."""

    index: TranscriptIndex
    start: int  #: position of the first one
    entries: tuple[TranscriptEntry, ...]
    select: int | None = None  #: position to stand on


class DiskSessionScreen(DataScreen[Run]):
    """The transcript of one session."""

    HELP = """
A session as its host wrote it to disk. The database does not hold it, so it has no tokens, summaries or
context here. What is shown is the branch that the host sees; entries on abandoned branches and lines that
could not be read are counted in the title. Nothing is ever written to a transcript.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "fold-all"))

    def __init__(self, disk: DiskSession) -> None:
        super().__init__()
        self.disk = disk
        self._run: Run | None = None
        self._needle = ""

    def compose_body(self) -> ComposeResult:
        """The list."""
        yield MessageList(empty="Reading the transcript …", id="messages")

    @property
    def messages(self) -> MessageList:
        """The list of entries; their keys are positions on the path."""
        return self.query_one("#messages", MessageList)

    def main_widget(self) -> MessageList:
        """The list."""
        return self.messages

    def on_mount(self) -> None:
        """Read the transcript."""
        self.messages.zone = self.session.zone
        self.messages.focus()
        self.query_one(TitleBar).where = f"Session on disk  {self.disk.session_key or self.disk.session_id}"

    async def fetch(self) -> Run:
        """The entries in sight, with what was appended."""
        held = self._run

        def read(stopped: Callable[[], bool]) -> Run:
            if held is None:
                index = index_transcript(self.disk.path, cancelled=stopped)
                start = max(0, len(index) - PAGE)
                return _run(index, start, len(index), stopped, len(index) - 1)
            index = refresh_index(held.index, cancelled=stopped)
            start = min(held.start, max(0, len(index) - 1))
            return _run(index, start, start + WINDOW, stopped, None)

        return await in_thread(read)

    def show(self, data: Run) -> None:
        """Show the run."""
        self._run = data
        views = [_view(data.start + place, entry) for place, entry in enumerate(data.entries)]
        known = bool(self.messages.views)
        fresh = self.messages.show(
            views,
            has_older=data.start > 0,
            has_newer=data.start + len(views) < len(data.index),
            select=data.select,
        )
        if known and data.select is None:
            self.messages.mark_fresh(fresh)
        if not views:
            self.messages.empty = "This transcript has no entries."
        index = data.index
        said = [f"{len(index):,} entries", size_text(self.disk.size)]
        said += [f"{index.abandoned:,} on abandoned branches"] if index.abandoned else []
        said += [f"{index.bad_lines:,} unreadable lines"] if index.bad_lines else []
        self.query_one(TitleBar).note = ", ".join(said)

    @on(MessageList.Highlighted)
    @on(MessageList.Scrolled)
    def _moved(self) -> None:
        self.messages.want_more()

    @on(MessageList.Wanted)
    def _more(self, event: MessageList.Wanted) -> None:
        if self._run is not None:
            last = self._run.start + len(self._run.entries)
            start = self._run.start - PAGE if event.older else max(self._run.start, last + PAGE - WINDOW)
            self._move_to(start, start + WINDOW if event.older else last + PAGE, None)

    @on(MessageList.End)
    def _to_end(self, event: MessageList.End) -> None:
        if self._run is not None:
            total = len(self._run.index)
            if event.first:
                self._move_to(0, PAGE, 0)
            else:
                self._move_to(total - PAGE, total, total - 1)

    def _move_to(self, start: int, stop: int, select: int | None) -> None:
        self.work_on("extend", self._read_run, max(0, start), stop, select)

    async def _read_run(self, start: int, stop: int, select: int | None) -> None:
        held = self._run
        if held is not None:
            self.show(await in_thread(lambda stopped: _run(held.index, start, stop, stopped, select)))

    def selected_id(self) -> str | None:
        """The entry's id."""
        place = self.messages.selected
        if self._run is None or place is None:
            return None
        return self._run.entries[place - self._run.start].entry_id

    def why_not(self, command: str) -> str | None:
        """Opening needs an entry."""
        return "no entry is selected" if command == "open" and self.messages.selected is None else None

    @on(MessageList.Opened)
    async def _opened(self) -> None:
        await self.action_run("open")

    @on(MessageList.Sided)
    def _side(self, event: MessageList.Sided) -> None:
        if event.key is not None:
            self.messages.toggle(event.key, opened=event.side > 0)
            self._complete(event.key)

    def action_open(self) -> None:
        """Open or fold the entry."""
        place = self.messages.selected
        if place is not None and self.messages.toggle(place):
            self._complete(place)

    def action_fold_all(self) -> None:
        """Fold every entry."""
        self.messages.opened.clear()
        self.messages.redraw()

    def action_search(self) -> None:
        """Ask what for."""
        self.ask("search in the transcript (toward older entries; n goes on, N back)", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """A text was typed."""
        if done:
            self._needle = text
            self.messages.search_for(text)
            self._find(-1, include=True)

    def action_next(self) -> None:
        """The next match, toward older entries."""
        self._find(-1)

    def action_previous_match(self) -> None:
        """The match before, toward newer entries."""
        self._find(1)

    async def action_back(self) -> None:
        """Close the prompt, end a search, then leave."""
        if self.query_one("#prompt").display:
            self.close_prompt()
        elif self._needle:
            self._needle = ""
            self.messages.search_for("")
        else:
            await super().action_back()

    def _find(self, step: int, *, include: bool = False) -> None:
        place = self.messages.selected
        if self._needle and place is not None:
            start = place if include else place + step
            self.work_on("search", self._search, start, step)

    async def _search(self, start: int, step: int) -> None:
        held, needle = self._run, self._needle.casefold()
        if held is None:
            return
        found = await in_thread(lambda stopped: _find_entry(held.index, needle, start, step, stopped))
        if found is None:
            self.app.notify(f"No {'newer' if step > 0 else 'older'} entry holds “{self._needle}”.", timeout=3)
        elif not self.messages.select(found):
            self._move_to(found - PAGE // 2, found + PAGE // 2, found)

    def _complete(self, place: int) -> None:
        view = self.messages.views.get(place)
        if view is not None and not view.complete and place in self.messages.opened:
            self.work_on("whole", self._read_whole, place, exclusive=False)

    async def _read_whole(self, place: int) -> None:
        held = self._run
        if held is not None:
            [entry] = await in_thread(
                lambda stopped: read_entries(held.index, place, place + 1, cancelled=stopped)
            )
            self.messages.learn(_view(place, entry))


def _run(
    index: TranscriptIndex, start: int, stop: int, stopped: Callable[[], bool], select: int | None
) -> Run:
    entries = read_entries(index, start, min(stop, len(index)), text_limit=HEAD, cancelled=stopped)
    return Run(index, start, tuple(entries), select)


def _find_entry(
    index: TranscriptIndex, needle: str, start: int, step: int, stopped: Callable[[], bool]
) -> int | None:
    """The nearest position from *start* on, in the direction of *step*, whose entry holds *needle*."""
    place = start
    while 0 <= place < len(index) and not stopped():
        first = max(0, place - PAGE + 1) if step < 0 else place
        page = read_entries(index, first, min(first + PAGE, len(index)), cancelled=stopped)
        for at in range(place, first - 1 if step < 0 else first + len(page), step):
            parts = page[at - first].parts
            said = " ".join(f"{part.text} {part.tool_name or ''} {part.arguments or ''}" for part in parts)
            if needle in said.casefold():
                return at
        place = first - 1 if step < 0 else first + len(page)
    return None


def _view(place: int, entry: TranscriptEntry) -> MessageView:
    """An entry as the list shows it."""
    message = entry.message
    return MessageView(
        number=place,
        role=message.role if message else entry.type,
        moment=entry.moment,
        said_at=entry.timestamp or "",
        tokens=None,
        parts=entry.parts,
        title=f"line {entry.line}  {'' if message else entry.title}",
        complete=not any(part.cut for part in entry.parts),
        note=entry.problem or "",
    )
