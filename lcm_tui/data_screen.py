"""Screens that read: they are painted with their first rows, and follow the file.

A screen says how to `fetch` its data (in a worker, off the event loop) and how to `show` it. A change of the
file fetches again; results that come late replace nothing newer, and the view keeps its place by key.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Final, Generic, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message

from lcm_tui.frame import CommandScreen
from lcm_tui.pace import LONGEST_PAUSE

D = TypeVar("D")

#: A host that writes without a pause makes a screen load at most this often.
RELOAD_SECONDS = 0.5
#: So long a screen that is opened waits for what it reads before it is painted; a person sees no pause.
FIRST_PAINT_SECONDS: Final = 0.08


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
        self._loaded_at = 0.0  #: monotonic
        self._held_back = first is None  #: not painted before there are rows, or for a moment
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

    def _paint_from_now(self) -> None:
        if self._held_back:
            self._held_back = False
            self._lay_out_first()
            self.check_idle()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        """Lay out; for the first time just before the first paint.

        Textual does so as soon as a screen comes to the front, again when that has told the screen its size,
        and again when its widgets were styled.
        """
        if self._size or not self._held_back:
            super()._refresh_layout(size, scroll)

    def _lay_out_first(self) -> None:
        if not self._size:
            self._layout_required = False
            super()._refresh_layout(self.app.size)

    def _screen_resized(self, size: Size) -> None:
        """Lay out for another size."""
        if size != self._size:
            super()._screen_resized(size)

    def _compositor_refresh(self) -> None:
        """Paint, unless it is held back: what is to be painted stays noted until then.

        Textual has no public way to put this off. In a trace of the summary DAG of the benchmark's database
        (a), six paints without rows took 23 ms of the processor before the first one with rows.
        """
        follows = self._layout_required and self._repaint_required  # laid out first, then painted as a whole
        if not (follows or (self._held_back and self.app.screen is self)):
            super()._compositor_refresh()

    def on_screen_resume(self) -> None:
        """Load what changed while another screen was in front."""
        if self._stale:
            self._stale = False
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
            self._load_by = max(now, self._loaded_at + RELOAD_SECONDS) + LONGEST_PAUSE
            self._load_in_pause()

    def _load_in_pause(self) -> None:
        """Load once the last load is old enough, between keys; not much later in any case."""
        now = time.monotonic()
        early = self._loaded_at + RELOAD_SECONDS - now
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
                await asyncio.sleep(RELOAD_SECONDS)
        finally:
            self._loading = False
            self.call_later(self._has_tried)

    def _has_tried(self) -> None:
        self._note_rows()
        self._paint_from_now()

    def _note_rows(self) -> None:
        self._has_shown = True
        self._host.tell_front_news()

    async def load_now(self) -> None:
        """Fetch and show, and wait until it is shown: what is fetched at the moment is of another kind."""
        data = await self.fetch()
        shown = asyncio.get_running_loop().create_future()
        self.post_message(self.Loaded(data))
        self.call_later(shown.set_result, None)
        await shown
        self._loaded_at = time.monotonic()

    async def _load_once(self) -> None:
        self.post_message(self.Loaded(await self.fetch()))
        self._loaded_at = time.monotonic()

    @on(Loaded)
    def _show_loaded(self, event: Loaded) -> None:
        self._lay_out_first()  # rows are drawn for the room that there is
        self.show(cast(D, event.data))
        self.say_past()
        self._note_rows()
        self._held_back = False
        self.refresh_bars()
