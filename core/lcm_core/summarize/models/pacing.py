"""How many calls of one writer go out at a time, and when none does: what a server asks for holds for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

#: A limit that has grown to this is none any more.
_MOST: Final = 64


class Pace:
    """A gate before every call. For one event loop.

    A pause holds for all calls that have not gone out yet. After the first refusal of a pause only half as
    many calls go out at a time as did; with each round of answers one more does.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._sleep = sleep
        self._pauses: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._out = 0
        self._calm = 0  #: answers since the limit was set
        self.most: int | None = None  #: calls at a time; None: as many as are asked for
        self.answers = 0  #: so far, of all calls

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a call may go out; it is out until the end of the block."""
        while self._pauses or (self.most is not None and self._out >= self.most):
            await self._moved.wait()
        self._out += 1
        try:
            yield
        finally:
            self._out -= 1
            self._move()

    def answered(self) -> None:
        """A call was answered: after a round of those, one more may go out at a time."""
        self.answers += 1
        self._calm += 1
        if self.most is not None and self._calm >= self.most:
            self._calm = 0
            self.most = self.most + 1 if self.most < _MOST else None
            self._move()

    def pause(self, seconds: float, *, slower: bool) -> None:
        """Let no call go out for so long; *slower*: afterwards fewer at a time."""
        if slower and not self._pauses:  # the others of the same burst are refused by the same limit
            self.most, self._calm = max(1, (self._out + 1) // 2), 0  # the refused one is back already
        task = asyncio.ensure_future(self._slept(seconds))
        self._pauses.add(task)
        task.add_done_callback(self._ended)

    async def aclose(self) -> None:
        """End all pauses."""
        pauses = tuple(self._pauses)
        for one in pauses:
            one.cancel()
        await asyncio.gather(*pauses, return_exceptions=True)

    async def _slept(self, seconds: float) -> None:
        await self._sleep(seconds)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._pauses.discard(task)
        self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
