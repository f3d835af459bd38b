"""A session that only the host knows: its transcript, read-only, a page at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

from lcm_core.base.records import ConversationId
from lcm_core.base.text import clip, fold, sought_as
from lcm_core.base.values import Record, replace
from lcm_core.change.commit import Committed
from lcm_core.engine.content import engine_role, shorten
from lcm_core.store.conversations import get_conversation
from lcm_host.entries import SessionEntry
from lcm_host.reading import OpenSession, open_session
from lcm_host.sessions import HostSession
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.panes import Desk
from lcm_tui.screens import actions
from lcm_tui.screens.copying import Copies
from lcm_tui.screens.frame import SERIES
from lcm_tui.screens.message_pane import PAGE, MessageList, MessagesPane, window_around
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import size_text
from lcm_tui.tables.conversation_rows import session_state
from lcm_tui.tables.messages import MessageView

# -- the entries -----------------------------------------------------------------------------------------
# Read from where the session is stored; an entry's number is its position on the path.

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


class Run(Record, frozen=True):
    """A run of entries along the path that the host sees."""

    text: OpenSession
    start: int  #: position of the first one
    views: tuple[MessageView, ...]
    ids: tuple[str | None, ...]
    turn: int = 0  #: which state of the pane it was read for
    select: int | None = None  #: position to stand on

    @property
    def stop(self) -> int:
        """The position after the last one."""
        return self.start + len(self.views)


class TranscriptPane(MessagesPane):
    """A window over the entries of a transcript."""

    def __init__(self, desk: Desk, moved: Callable[[], None], session: HostSession) -> None:
        super().__init__(desk, moved)
        self.run_shown: Run | None = None
        self._session = session
        self._turn = 0  #: counts the runs shown

    @property
    def is_end(self) -> bool:
        """Whether only the end of the session was read so far."""
        return self.run_shown is not None and self.run_shown.text.is_end

    async def fetch(self) -> Run:
        """The entries in sight, with what was appended."""
        held, turn = self.run_shown, self._turn
        # The cursor stays on its entry when the rest of the session comes before it.
        selected = self.list.selected
        from_end = 0 if held is None or selected is None else len(held.text) - 1 - selected

        def read(stopped: Callable[[], bool]) -> Run:
            if held is None:
                text = open_session(self._session, newest=PAGE, cancelled=stopped)
            else:
                text = held.text.refreshed(cancelled=stopped)
            if held is None or held.text.is_end:
                run = _run(text, len(text) - PAGE, len(text), stopped)
                return replace(run, turn=turn, select=len(text) - 1 - from_end)
            if text is held.text:
                return replace(held, turn=turn, select=None)
            start = min(held.start, max(0, len(text) - PAGE))
            stop = held.stop + (PAGE if held.stop == len(held.text) else 0)
            return replace(_run(text, start, stop, stopped), turn=turn)

        return await in_thread(read)

    def show(self, data: Run) -> bool:
        """Show the run and mark what was appended; False: one has moved away while it was read."""
        if data.turn != self._turn:
            return False
        held = self.run_shown
        if held is not None and data.text is held.text:
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
        part = window_around(len(run.views), middle - run.start)
        run = replace(run, start=run.start + part.start, views=run.views[part], ids=run.ids[part])
        self.run_shown = run
        fresh = self.list.show(
            run.views,
            has_older=run.start > 0,
            has_newer=run.stop < len(run.text),
            select=run.select,
        )
        if not run.views:
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
        found = await in_thread(lambda stopped: _run(held.text, number, number + 1, stopped, whole=True))
        if self.run_shown is not None and self.run_shown.text is held.text:
            for whole in found.views:
                self.list.learn(whole)


def _run(
    text: OpenSession, start: int, stop: int, stopped: Callable[[], bool], *, whole: bool = False
) -> Run:
    """Read some entries; of long texts the beginning, unless they are asked for *whole*."""
    start = max(0, start)
    views: list[MessageView] = []
    ids: list[str | None] = []
    for number, entry in enumerate(text.entries(start, stop, cancelled=stopped), start):
        views.append(_view(number, entry, text.place_word, whole=whole))
        ids.append(entry.entry_id)
    return Run(text, start, tuple(views), tuple(ids))


def _find_entry(
    text: OpenSession, sought: str, start: int, step: int, stopped: Callable[[], bool]
) -> int | None:
    """The nearest position from *start* on, in the direction of *step*, whose entry holds it."""
    place = start
    while 0 <= place < len(text) and not stopped():
        first = max(0, place - PAGE + 1) if step < 0 else place
        page = list(text.entries(first, first + PAGE, cancelled=stopped))
        for at in range(place, first - 1 if step < 0 else first + len(page), step):
            parts = page[at - first].parts
            said = " ".join(f"{part.text} {part.tool_name or ''} {part.arguments or ''}" for part in parts)
            if sought in fold(said):
                return at
        place = first - 1 if step < 0 else first + len(page)
    return None


#: Characters of a field that an open entry shows besides its parts.
COLUMN: Final = 200


def _view(number: int, entry: SessionEntry, place_word: str, *, whole: bool) -> MessageView:
    """An entry as the list shows it."""
    parts = entry.parts if whole else tuple(shorten(part, HEAD) for part in entry.parts)
    place = f"{place_word} {entry.number}  " if place_word else ""
    return MessageView(
        number=number,
        role=engine_role(entry.role or "") if entry.is_message else entry.type or "",
        moment=entry.created_at,
        said_at=entry.timestamp or "",
        tokens=None,
        parts=parts,
        title=f"{place}{entry.title}",
        complete=not any(part.cut for part in parts),
        note=entry.problem or "",
        columns=" · ".join(
            f"{name} {clip(str(value), COLUMN)}"
            for name, value in entry.value.items()
            if isinstance(value, str | int | float)
        ),
    )


# -- the screen ------------------------------------------------------------------------------------------

#: How often the transcript is looked at while it is in front.
LOOK_SECONDS: Final = 0.5


class DiskSessionScreen(DataScreen[Run]):
    """The transcript of one session; an entry's number is its position on the path."""

    HELP = """
A session as its host wrote it. It is not in the database, so it has no tokens, summaries or context here.

i previews importing it into the database, as its engine would have stored it.

The host wrote it to a file ("on disk"), to its own database ("living"; "earlier" when its key continues in a
newer session), or to an archive ("cold", "deleted", "archived"). The list shows the branch that the host
sees; the title counts entries on abandoned branches and unreadable lines. lcm-tui never writes to a session.
"""

    def __init__(self, session: HostSession) -> None:
        super().__init__()
        self.shown = session
        self.pane = TranscriptPane(self, self._say_place, session)

    def compose_body(self) -> ComposeResult:
        """The entries."""
        yield self.pane

    def on_mount(self) -> None:
        """Follow the transcript."""
        self.set_interval(LOOK_SECONDS, self._look)

    def on_unmount(self) -> None:
        """Remove what was unpacked for it."""
        self.pane.close()

    def _look(self) -> None:
        # What could not be opened is not tried again by itself: unpacking it may take its time.
        if self.app.screen is self and self.pane.run_shown is not None:
            self.load()

    def in_key_bar(self) -> list[str]:
        """Importing comes right behind opening: it is what this screen is for."""
        opens, *others = super().in_key_bar()
        return [opens, "backfill", *others]

    async def _open_imported(self, done: Sequence[Committed]) -> None:
        """Show the conversation in the place of the session that became it."""
        numbers = (one.operation.conversation_id for one in done if one.operation is not None)
        if (number := next(numbers, None)) is not None:
            conversation = await self.session.read(get_conversation, ConversationId(number))
            if self.app.screen is self:
                self.open_instead(places.Messages(conversation))

    def where(self) -> str:
        """Whose transcript this is."""
        return f"Session {session_state(self.shown)}  {self.shown.session_key or self.shown.session_id}"

    @property
    def messages(self) -> MessageList:
        """The list."""
        return self.pane.list

    def main_widget(self) -> MessageList:
        """The list."""
        return self.pane.list

    def finder(self) -> Finder:
        """The search in all entries."""
        return self.pane.finder

    def selected_id(self) -> str | None:
        """The entry's id."""
        run, place = self.pane.run_shown, self.messages.selected
        return None if run is None or place is None else run.ids[place - run.start]

    def copies(self) -> Copies | None:
        """What is in no database has only its id."""
        name = self.selected_id()
        return None if name is None else Copies(name)

    async def fetch(self) -> Run:
        """The entries in sight, with what was appended."""
        return await self.pane.fetch()

    def show(self, data: Run) -> None:
        """Show them, unless one has moved away while they were read."""
        if not self.pane.show(data) or self.pane.is_end:
            self.load()

    def _say_place(self) -> None:
        """How much there is, and what of it is not shown; or what is being searched for."""
        if self.pane.searching:
            self.title_bar.note = f"searching for {self.pane.searching} …"
        elif self.pane.is_end:
            self.title_bar.note = "the newest entries; reading the others …"
        elif self.pane.run_shown is not None:
            text = self.pane.run_shown.text
            one, bad = len(text) == 1, text.bad
            said = [f"{len(text):,} {'entry' if one else 'entries'}"]
            said += [size_text(text.size)] if text.size is not None else []
            said += [f"{text.abandoned:,} on abandoned branches"] if text.abandoned else []
            said += [f"{bad:,} unreadable {'line' if bad == 1 else 'lines'}"] if bad else []
            said += text.remarks[:1]
            self.title_bar.note = ", ".join(said)

    KEYS: ClassVar[Sequence[Key[DiskSessionScreen]]] = (
        actions.OPEN_MESSAGE,
        commands.BACKFILL.does(
            lambda s: s.open(
                places.Import(s.shown, lambda done: s.work_on("imported", s._open_imported, done))
            )
        ),
        commands.HISTORY.does(lambda s: s.open(places.History(None))),
        actions.FOLD_MESSAGES,
        *SERIES,
    )
    COMMON: ClassVar[Sequence[Key[DiskSessionScreen]]] = (actions.COPY_MESSAGE_ID,)
