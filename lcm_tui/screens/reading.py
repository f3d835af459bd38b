"""The two screens to read: `DataScreen` shows one value of the database and follows it, `TextScreen` a text.

A `DataScreen` says how to `fetch` its data (in a worker, off the event loop) and how to `show` it. It is
painted with its first rows. A change of the file fetches again; results that come late replace nothing newer,
and the view keeps its place by key.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from contextlib import ExitStack
from typing import Final, Generic, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.events import ScreenSuspend, Unmount
from textual.message import Message

from lcm_tui.kit.listing import Finder, TextFinder
from lcm_tui.kit.session import LONGEST_PAUSE
from lcm_tui.kit.spans import Document
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import CommandScreen

D = TypeVar("D")

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
        """*empty*: what stands there until there is a document."""
        super().__init__()
        self.text = TextView(document, empty=empty, id="text")
        self.in_text = TextFinder(self.text)

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self.in_text
