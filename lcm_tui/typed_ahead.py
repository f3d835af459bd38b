"""Keys that come faster than screens: each waits until the one before has acted and the screen is painted.

Textual gives a key at once to whatever stands in front, also to a screen that has no widgets yet. Here keys
stand in line: a screen gets them when it is painted and has read what it shows. What asks for a decision gets
none that was typed before it could be read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from textual import events
from textual.app import App
from textual.message import Message
from textual.screen import ModalScreen, Screen

T = TypeVar("T")

#: How often it is looked whether the screen in front is ready.
LOOK_SECONDS: Final = 0.01
#: A screen that reads for longer gets its keys: some need no data, and none waits for a database.
HOLD_SECONDS: Final = 1.5
#: A key that nobody has reported to have acted by then has gone with its widget.
LOST_SECONDS: Final = 0.5


class Decision(ModalScreen[T]):
    """A question: only keys that were pressed after it was painted answer it."""

    decides = True  #: else an answer only leads somewhere
    painted_at: float | None = None  #: first, monotonic

    def on_mount(self) -> None:
        """Note when it can be read."""
        self.call_after_refresh(self._note_painted)

    def _note_painted(self) -> None:
        self.painted_at = time.monotonic()

    def answered_by(self, key: events.Key) -> bool:
        """Whether a key may be an answer: whoever pressed it could have read the question."""
        seen = self.painted_at is not None and key.time >= self.painted_at
        return seen or not self.decides or key.key == "escape"


class Handled(Message, bubble=True):
    """Follows a key through the same widgets: when it arrives at the app, the key has been dealt with."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class TypedAhead:
    """The keys that wait, and whose turn it is."""

    def __init__(
        self, app: App[int], act: Callable[[events.Key], Awaitable[None]], loaded: Callable[[], bool]
    ) -> None:
        """*act* gives a key to what stands in front; *loaded* says whether that has read what it shows."""
        self._app = app
        self._act = act
        self._loaded = loaded
        self._waiting: deque[events.Key] = deque()
        self._number = 0  #: of the key that was given away last
        self._acting = False  #: it has not been dealt with
        self._looking = False  #: a look at the screen in front is due
        self._fronts: WeakKeyDictionary[Screen[object], float] = WeakKeyDictionary()  #: since when in front
        self._painted: WeakSet[Screen[object]] = WeakSet()

    @property
    def resting(self) -> bool:
        """Whether every key has been dealt with."""
        return not (self._waiting or self._acting)

    async def take(self, key: events.Key) -> None:
        """A key was pressed."""
        if key.key == "ctrl+j":  # what a terminal makes of enter that is pressed before the app has it
            enter = events.Key("enter", "\r")
            enter.time = key.time
            key = enter.set_sender(self._app)
        self._waiting.append(key)
        await self.go_on()

    def dealt_with(self, number: int | None = None) -> None:
        """The key that was given away last has acted, or the one with that *number*.

        What it left to the app to do, such as moving the focus, comes before the next one.
        """
        if number in (None, self._number):
            self._app.call_later(self._next, self._number)

    async def _next(self, number: int) -> None:
        if self._acting and number == self._number:
            self._acting = False
            await self.go_on()

    async def go_on(self) -> None:
        """Give keys away, one after the other, as long as what stands in front can take them."""
        while self._waiting and not self._acting:
            if not self._ready(self._waiting[0]):
                self._look_again()
                return
            key = self._waiting.popleft()
            screen = self._app.screen
            if isinstance(screen, Decision) and not screen.answered_by(key):
                continue
            self._acting, self._number = True, self._number + 1
            target = self._app.focused or screen
            await self._act(key)
            if not target.post_message(Handled(self._number)):
                self._acting = False
            elif self._acting:
                self._app.set_timer(LOST_SECONDS, partial(self.dealt_with, self._number))

    def _ready(self, key: events.Key) -> bool:
        """Whether the screen in front has been painted, and holds what a key could be meant for."""
        if not self._app.screen_stack:  # the app begins, or ends
            return False
        screen, now = self._app.screen, time.monotonic()
        since = self._fronts.setdefault(screen, now)
        if not screen.is_mounted:
            return False
        if screen not in self._painted:
            screen.call_after_refresh(self._painted.add, screen)
            return False
        return key.key == "escape" or self._loaded() or now - since > HOLD_SECONDS

    def _look_again(self) -> None:
        if not self._looking and self._app.is_running:
            self._looking = True
            self._app.set_timer(LOOK_SECONDS, self._look)

    async def _look(self) -> None:
        self._looking = False
        await self.go_on()
