"""The entries of a session, read from where it lies; an entry's number is its position on the path."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from lcm_core.host.glimpse import Glimpse, glimpse
from lcm_core.host.listing import HostSession
from lcm_core.host.reading import OpenSession, open_session
from lcm_core.ingest.transcript import TranscriptEntry
from lcm_core.text import fold, sought_as

from lcm_tui.panes.desk import Desk
from lcm_tui.panes.messages import PAGE, MessagesPane, window_around
from lcm_tui.widgets.message_lines import MessageView

T = TypeVar("T")

#: Characters of a text that the list reads; a message is read whole when it is opened.
HEAD = 2_000


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

    text: OpenSession
    start: int  #: position of the first one
    entries: tuple[TranscriptEntry, ...]
    turn: int = 0  #: which state of the pane it was read for
    select: int | None = None  #: position to stand on

    @property
    def stop(self) -> int:
        """The position after the last one."""
        return self.start + len(self.entries)


class TranscriptPane(MessagesPane):
    """A window over the entries of a transcript."""

    def __init__(self, desk: Desk, moved: Callable[[], None], session: HostSession) -> None:
        super().__init__(desk, moved)
        self.run_shown: Run | None = None
        self._session = session
        self._turn = 0  #: counts the runs shown
        self._glimpsed = False  #: its end was looked for, before all of it is read

    @property
    def is_glimpse(self) -> bool:
        """Whether only the end of the session was read so far."""
        return self.run_shown is not None and isinstance(self.run_shown.text, Glimpse)

    async def fetch(self) -> Run:
        """The entries in sight, with what was appended."""
        held, turn = self.run_shown, self._turn
        # The cursor stays on its entry when the rest of the session comes before it.
        selected = self.list.selected
        from_end = 0 if held is None or selected is None else len(held.text) - 1 - selected

        def read(stopped: Callable[[], bool]) -> Run:
            if held is None and not self._glimpsed:
                self._glimpsed = True
                end = glimpse(self._session, PAGE, HEAD, cancelled=stopped)
                if end is not None:
                    return replace(_run(end, 0, PAGE, stopped), turn=turn, select=len(end) - 1)
            if held is None or isinstance(held.text, Glimpse):
                text = open_session(self._session, cancelled=stopped)
                run = _run(text, len(text) - PAGE, len(text), stopped)
                return replace(run, turn=turn, select=len(text) - 1 - from_end)
            text = held.text.refreshed(cancelled=stopped)
            if text == held.text:
                return replace(held, text=text, turn=turn, select=None)
            start = min(held.start, max(0, len(text) - PAGE))
            stop = held.stop + (PAGE if held.stop == len(held.text) else 0)
            return replace(_run(text, start, stop, stopped), turn=turn)

        return await in_thread(read)

    def show(self, data: Run) -> bool:
        """Show the run and mark what was appended; False: one has moved away while it was read."""
        if data.turn != self._turn:
            return False
        held = self.run_shown
        if held is not None and data.text == held.text:
            self.run_shown = replace(held, text=data.text)  # it was looked at later
            return True
        fresh = self._take(data)
        if held is not None:
            self.list.mark_fresh(fresh)
        return True

    def close(self) -> None:
        """Remove what was unpacked."""
        if self.run_shown is not None:
            self.run_shown.text.close()

    def _take(self, run: Run) -> list[int]:
        """Hold and show a run, as much of it as fits a window; returns the positions that are new in it."""
        self._turn += 1
        seen = self.list.visible_keys
        middle = run.select if run.select is not None else seen[0] if seen else run.stop
        part = window_around(len(run.entries), middle - run.start)
        run = replace(run, start=run.start + part.start, entries=run.entries[part])
        self.run_shown = run
        fresh = self.list.show(
            [_view(run.start + place, entry, run.text.place_word) for place, entry in enumerate(run.entries)],
            has_older=run.start > 0,
            has_newer=run.stop < len(run.text),
            select=run.select,
        )
        if not run.entries:
            self.list.empty = "This session has no entries."
        self.shown_anew()
        return fresh

    async def extend(self, older: bool) -> None:
        """Add a page at one end of the run; what is too much at the other is let go."""
        held, turn = self.run_shown, self._turn
        if held is None:
            return
        start, stop = (held.start - PAGE, held.stop) if older else (held.start, held.stop + PAGE)
        run = await in_thread(lambda stopped: _run(held.text, start, stop, stopped))
        if turn == self._turn:
            self._take(run)

    async def go_to_end(self, first: bool) -> None:
        """Show the first or the last page."""
        if self.run_shown is not None:
            await self.go_to(0 if first else len(self.run_shown.text) - 1)

    async def go_to(self, number: int) -> None:
        """Stand on the entry at a position."""
        held = self.run_shown
        if held is not None and not self.list.select(number):
            start = max(0, min(number - PAGE // 2, len(held.text) - PAGE))
            run = await in_thread(lambda stopped: _run(held.text, start, start + PAGE, stopped))
            self._take(replace(run, select=number))

    async def find(self, needle: str, start: int, forward: bool) -> int | None:
        """The nearest entry whose parts hold *needle*, in any spelling."""
        held, step = self.run_shown, 1 if forward else -1
        if held is None:
            return None
        first = max(start + step, 0) if forward else min(start + step, len(held.text) - 1)
        sought = sought_as(needle)
        return await in_thread(lambda stopped: _find_entry(held.text, sought, first, step, stopped))

    async def read_whole(self, number: int) -> None:
        """Read what a list leaves out of long texts."""
        held, view = self.run_shown, self.list.views.get(number)
        if held is None or view is None or view.complete:
            return
        found = await in_thread(lambda stopped: held.text.entries(number, number + 1, cancelled=stopped))
        if self.run_shown is not None and self.run_shown.text == held.text and found:
            self.list.learn(_view(number, found[0], held.text.place_word))


def _run(text: OpenSession, start: int, stop: int, stopped: Callable[[], bool]) -> Run:
    start = max(0, start)
    entries = text.entries(start, min(stop, len(text)), text_limit=HEAD, cancelled=stopped)
    return Run(text, start, tuple(entries))


def _find_entry(
    text: OpenSession, sought: str, start: int, step: int, stopped: Callable[[], bool]
) -> int | None:
    """The nearest position from *start* on, in the direction of *step*, whose entry holds it."""
    place = start
    while 0 <= place < len(text) and not stopped():
        first = max(0, place - PAGE + 1) if step < 0 else place
        page = text.entries(first, min(first + PAGE, len(text)), cancelled=stopped)
        for at in range(place, first - 1 if step < 0 else first + len(page), step):
            parts = page[at - first].parts
            said = " ".join(f"{part.text} {part.tool_name or ''} {part.arguments or ''}" for part in parts)
            if sought in fold(said):
                return at
        place = first - 1 if step < 0 else first + len(page)
    return None


def _view(place: int, entry: TranscriptEntry, word: str) -> MessageView:
    """An entry as the list shows it."""
    message = entry.message
    return MessageView(
        number=place,
        role=message.role if message else entry.type,
        moment=entry.moment,
        said_at=entry.timestamp or "",
        tokens=None,
        parts=entry.parts,
        title=f"{word} {entry.line}  {'' if message else entry.title}",
        complete=not any(part.cut for part in entry.parts),
        note=entry.problem or "",
    )
