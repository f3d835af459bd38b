"""What is done in pauses once the first rows stand: the other screens are imported, garbage is collected."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from textual.app import App

from lcm_tui.registry import FIRST, LATER, import_ahead

#: So long behind a key the screens that are opened most may be imported; all others wait for a rest.
WARM_UP_SECONDS = 0.15
#: Without a key for so long, the operator reads.
REST_SECONDS = 1.5
#: Collections of the middle generation, one in some 7,000 objects, before Python looks through all objects.
RARELY = 200


class WarmUp:
    """Works while no key comes and the screen in front has its rows."""

    def __init__(self, app: App[int], key_at: Callable[[], float], loaded: Callable[[], bool]) -> None:
        """*key_at*: when a key was last pressed, monotonic; *loaded*: the screen in front has its rows."""
        self._app = app
        self._key_at = key_at
        self._loaded = loaded
        self._front_news = asyncio.Event()

    def tell_front_news(self) -> None:
        """Another screen has come to the front, or the one there has read its rows."""
        self._front_news.set()

    async def run(self) -> None:
        """Once the first rows stand, import the other screens; keys come first, and screens that open.

        An opening would else pay for it. What lives on is kept out of the collector's way, together with some
        6,000 objects (1 MB) of garbage: to look for those takes up to 150 ms, in which no key is answered.
        """
        painted = asyncio.Event()
        # Textual calls back before it has painted what is mounted in one batch.
        self._app.call_later(self._app.screen.call_after_refresh, painted.set)
        await painted.wait()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, RARELY)
        gc.enable()  # the launch had disabled it
        for name in FIRST:
            await self._without_keys(WARM_UP_SECONDS)
            await asyncio.to_thread(import_ahead, name)
        await asyncio.sleep(REST_SECONDS)
        for name in LATER:
            await self._without_keys(REST_SECONDS)
            await asyncio.to_thread(import_ahead, name)
        gc.freeze()
        await self._collect_at_rest()

    async def _collect_at_rest(self) -> None:
        """Look through all objects for garbage when no key has come for a while, and hardly ever else."""
        collected = time.monotonic()
        while True:
            await asyncio.sleep(REST_SECONDS)
            pressed = self._key_at()
            if collected < pressed < time.monotonic() - REST_SECONDS:
                gc.collect()
                collected = time.monotonic()

    async def _without_keys(self, seconds: float) -> None:
        """Wait until the screen in front has its rows, and no key has come for so many *seconds*."""
        await self._rows_in_front()
        while (left := self._key_at() + seconds - time.monotonic()) > 0:
            await asyncio.sleep(left)
            await self._rows_in_front()

    async def _rows_in_front(self) -> None:
        while not self._loaded():
            self._front_news.clear()
            await self._front_news.wait()
