"""The two screens to read, and stepping through a series of them.

`DataScreen` shows one value of the database and follows it, `TextScreen` a text.

A `DataScreen` says how to `fetch` its data (in a worker, off the event loop) and how to `show` it. It is
painted with its first rows. A change of the file fetches again; results that come late replace nothing newer,
and the view keeps its place by key.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.events import ScreenSuspend, Unmount
from textual.message import Message

from lcm_tui.kit import commands
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, TextFinder
from lcm_tui.kit.places import Place
from lcm_tui.kit.session import LONGEST_PAUSE
from lcm_tui.kit.spans import Document
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import CommandScreen

D = TypeVar("D")
K = TypeVar("K", bound=Hashable)

#: A host that writes without a pause makes a screen load at most this often, and for at most one part in so
#: many of the processor's time; it is not later than the longest rest after all.
RELOAD_SECONDS = 0.5
SHARE_OF_LOADS: Final = 60
LONGEST_REST: Final = 2.0
#: So long a screen that is opened waits for what it reads before it is painted; a person sees no pause.
FIRST_PAINT_SECONDS: Final = 0.08


def rest_after(cost: float) -> float:
    """Seconds of rest behind what a change of the file has caused, from its seconds of the processor."""
    return min(LONGEST_REST, SHARE_OF_LOADS * cost)


class DataScreen(CommandScreen, Generic[D]):
    """A screen that shows one value, fetched from the database."""

    class Loaded(Message):
        """A worker has fetched the data."""

        def __init__(self, data: object) -> None:
            super().__init__()
            self.data = data

    def __init__(self, first: D | None = None) -> None:
        """A screen that fetches what it shows, or shows *first* at once and fetches when the file changes."""
        super().__init__()
        self._first = first
        self._has_shown = first is not None
        self._loading = False
        self._again = False
        self._stale = False
        self._held_back = False
        self._loaded_at = 0.0  #: monotonic
        self._began = 0.0  #: the last fetch, in processor time of the program
        self._cost = 0.0  #: processor time of the last fetch and of what it showed, but for the first one
        self._unpainted = ExitStack()  #: nothing is painted until there are rows, or for a moment
        self._waiting = False  #: for a moment to load again
        self._load_by = 0.0  #: monotonic

    @abstractmethod
    async def fetch(self) -> D:
        """Read what the screen shows; runs in a worker and touches no widget."""

    @abstractmethod
    def show(self, data: D) -> None:
        """Show what was fetched, keeping selection and place."""

    def compose(self) -> ComposeResult:
        """Load for the first time, while widgets are made."""
        if self._first is None:
            self._held_back = True
            self._unpainted.enter_context(self.app.batch_update())
            self.load()
        yield from super().compose()

    def on_mount(self) -> None:
        """Show what there is already (Textual calls the handler of each base class itself)."""
        if self._first is not None:
            self.show(self._first)
            self._first = None
        else:
            self.set_timer(FIRST_PAINT_SECONDS, self._paint_from_now)

    @property
    def held_back(self) -> bool:
        """Until the first rows are there, or are late."""
        return self._held_back

    @on(ScreenSuspend)
    @on(Unmount)
    def _paint_from_now(self) -> None:
        self._held_back = False
        self._unpainted.close()
        self.call_after_refresh(self._note_painted)

    def on_screen_resume(self) -> None:
        """Load what changed while another screen was in front."""
        if self._stale:
            self.load()

    def data_changed(self) -> None:
        """Load again, at once when in front, else when it comes to the front."""
        super().data_changed()
        # `is_current` would also be true of the screen just below.
        if self.app.screen is not self:
            self._stale = True
            return
        if not self._waiting:
            now = time.monotonic()
            self._waiting = True
            self._load_by = max(now, self._loaded_at + self._rest) + LONGEST_PAUSE
            self._load_in_pause()

    @property
    def _rest(self) -> float:
        """Seconds between two loads while the file is written."""
        return max(RELOAD_SECONDS, rest_after(self._cost))

    def _load_in_pause(self) -> None:
        """Load once the last load is old enough, between keys; not much later in any case."""
        now = time.monotonic()
        early = self._loaded_at + self._rest - now
        if (wait := early if early > 0 else self._until_calm(now, self._load_by)) > 0:
            self.set_timer(wait, self._load_in_pause)
            return
        self._waiting = False
        if self.app.screen is self:
            self.load()
        else:
            self._stale = True

    @property
    def loaded(self) -> bool:
        """Whether it has shown something, or tried to."""
        return self._has_shown

    def action_reload(self) -> None:
        """Read the database again now."""
        self.load()

    def load(self) -> None:
        """Fetch and show; while one fetch runs, further calls amount to one more."""
        self._stale = False
        if self._loading:
            self._again = True
            return
        self._loading = True
        self.work_on("load", self._load, exclusive=False)

    async def _load(self) -> None:
        try:
            while True:
                self._again = False
                await self._told(self._load_once)
                if not self._again:
                    return
                await asyncio.sleep(self._rest)
        finally:
            self._loading = False
            self.call_later(self._has_tried)

    def _has_tried(self) -> None:
        self._note_rows()
        self._paint_from_now()

    def _note_rows(self) -> None:
        self._has_shown = True
        self._host.tell_front_news()

    def _note_cost(self) -> None:
        self._cost = time.process_time() - self._began

    async def load_now(self) -> None:
        """Fetch and show, and wait until it is shown: what is fetched at the moment is of another kind."""
        data = await self.fetch()
        shown = asyncio.get_running_loop().create_future()
        self.post_message(self.Loaded(data))
        self.call_later(shown.set_result, None)
        await shown
        self._loaded_at = time.monotonic()

    async def _load_once(self) -> None:
        self._began = time.process_time()
        self.post_message(self.Loaded(await self.fetch()))
        self._loaded_at = time.monotonic()

    @on(Loaded)
    def _show_loaded(self, event: Loaded) -> None:
        if self._has_shown:
            self.call_after_refresh(self._note_cost)
        self.show(cast(D, event.data))
        self.say_past()
        self._note_rows()
        self._paint_from_now()
        self.refresh_bars()


class TextScreen(CommandScreen):
    """A text, and the search in it."""

    def __init__(self, document: Document = (), *, empty: str = "") -> None:
        """*empty*: the text until there is a document."""
        super().__init__()
        self.text = TextView(document, empty=empty, id="text")
        self.in_text = TextFinder(self.text)

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self.in_text


# -- a series --------------------------------------------------------------------------------------------
# `[` and `]` where a screen shows one of a series: the previous and the next one, without the list between.
#
# The rows of a list are the series. Stepping moves the cursor of that list, so `esc` returns to what was
# shown last; what cannot be shown is skipped.

#: The place that shows a row; None: it cannot be shown.
Shown: TypeAlias = Place | None


@dataclass(eq=False)
class Series(Generic[K]):
    """The rows of a list, each of which a screen can show."""

    one: str  #: what a row is: "operation"
    view: Callable[[], LineView[K]]
    place_of: Callable[[K], Shown | Awaitable[Shown]]
    newest_first: bool = False  #: then `[` goes down, to what is older
    counted: bool = False  #: a screen says which row it shows: it may be opened before the list was seen
    _asked: deque[int] = field(default_factory=deque, init=False)  #: steps down the list, not taken yet
    _taking: bool = field(default=False, init=False)

    def words(self, direction: int) -> tuple[str, str]:
        """Title and sentence of the key that goes in a direction: -1 is back, 1 is on."""
        adjective = _adjective(self.newest_first, direction)
        return f"{adjective} {self.one}", f"Show the {adjective.lower()} {self.one} of the list."

    def place(self) -> str:
        """Which row is shown, "hit 1 of 23"; empty where that is not said."""
        at, total = self.view().counted_keys() if self.counted else (0, 0)
        return f"{self.one} {at:,} of {total:,}" if at else ""

    def press(self, screen: CommandScreen, direction: int) -> None:
        """Go on (1) or back (-1) from what *screen* shows; presses that come meanwhile are taken together.

        They are taken one by one, so that those behind an end count from there.
        """
        self._asked.append(-direction if self.newest_first else direction)
        if not self._taking:
            self._taking = True
            screen.work_on("series", self._take, screen, exclusive=False)

    async def _take(self, screen: CommandScreen) -> None:
        place: Shown = None
        ended = 0  #: the direction in which the last press found nothing; 0: it found something
        try:
            while self._asked:
                down = self._asked.popleft()
                if down == ended:
                    continue  # said already
                found = await self._step(down)
                ended = down if found is None else 0
                if found is None:
                    screen.app.notify(f"This is the {_end(self.newest_first, down)} {self.one}.", timeout=3)
                place = found or place
        finally:
            self._asked.clear()
            self._taking = False
        if place is not None and screen.app.screen is screen:
            following = screen.open_instead(place, self)
            if isinstance(following, CommandScreen):
                following.go_on_from(screen)

    async def _step(self, down: int) -> Shown:
        """The place of the next row that has one; the cursor of the list is on it then."""
        view = self.view()
        at = view.cursor + down
        while 0 <= at < len(view.keys):
            key, before = view.keys[at], len(view.keys)
            place = self.place_of(key)
            if isawaitable(place):
                place = await place
            if place is not None and view.select(key):
                return place
            # A heading may unfold: its rows come behind it.
            at = at + 1 if down > 0 else at - 1 + len(view.keys) - before
        return None


def _adjective(newest_first: bool, direction: int) -> str:
    """What the one in a direction is called: -1 is back."""
    if newest_first:
        return "Older" if direction < 0 else "Newer"
    return "Previous" if direction < 0 else "Next"


def _end(newest_first: bool, down: int) -> str:
    """What the row at an end of the list is called."""
    if newest_first:
        return "oldest" if down > 0 else "newest"
    return "last" if down > 0 else "first"


def row_keys(
    one: str, view: Callable[[Any], LineView[Any]], *, newest_first: bool = False
) -> tuple[Key[Any], Key[Any]]:
    """`[` and `]` where the list and what is selected in it share a screen: the previous and the next row.

    They work from the text, too, which keeps the keys.
    """

    def step(screen: CommandScreen, direction: int) -> None:
        listed = view(screen)
        down = -direction if newest_first else direction
        before = listed.cursor
        listed.action_move(down)
        if listed.cursor == before:
            screen.app.notify(f"This is the {_end(newest_first, down)} {one}.", timeout=3)

    def stepping(key: Key[object], direction: int) -> Key[Any]:
        adjective = _adjective(newest_first, direction)
        return key.does(
            lambda s: step(s, direction),
            lambda s: None if view(s).keys else f"there is no {one} in this list",
            title=f"{adjective} {one}",
            help=f"Select the {adjective.lower()} {one}.",
        )

    return stepping(commands.HUNK_PREVIOUS, -1), stepping(commands.HUNK_NEXT, 1)
