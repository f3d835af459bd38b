"""`[` and `]` where a screen shows one of a series: the previous and the next one, without the list between.

The rows of a list are the series. Stepping moves the cursor of that list, so `esc` comes back to what
was shown last; what cannot be shown is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Generic, TypeAlias, TypeVar

from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.places import Place
from lcm_tui.widgets.lines import LineView

K = TypeVar("K", bound=Hashable)

#: The place that shows a row; None: it cannot be shown.
Shown: TypeAlias = Place | None


@dataclass(eq=False)
class Series(Generic[K]):
    """The rows of a list, each of which a screen can show."""

    one: str  #: what a row is: "operation"
    view: Callable[[], LineView[K]]
    place_of: Callable[[K], Shown | Awaitable[Shown]]
    newest_first: bool = False  #: then `[` goes down, to what is older
    _asked: deque[int] = field(default_factory=deque, init=False)  #: steps down the list, not taken yet
    _taking: bool = field(default=False, init=False)

    def words(self, direction: int) -> tuple[str, str]:
        """Title and sentence of the key that goes in a direction: -1 is back, 1 is on."""
        adjective = _adjective(self.newest_first, direction)
        return f"{adjective} {self.one}", f"Show the {adjective.lower()} {self.one} of the list."

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
            key = view.keys[at]
            place = self.place_of(key)
            if isawaitable(place):
                place = await place
            if place is not None and view.select(key):
                return place
            at += down
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


def row_actions(
    screen: CommandScreen, one: str, view: Callable[[], LineView[K]], *, newest_first: bool = False
) -> tuple[Action, Action]:
    """`[` and `]` where the list and what is selected in it share a screen: the previous and the next row.

    They work from the text, too, which keeps the keys.
    """

    def step(direction: int) -> None:
        listed = view()
        down = -direction if newest_first else direction
        before = listed.cursor
        listed.action_move(down)
        if listed.cursor == before:
            screen.app.notify(f"This is the {_end(newest_first, down)} {one}.", timeout=3)

    def why() -> str | None:
        return None if view().keys else f"there is no {one} in this list"

    def words(direction: int) -> tuple[str, str]:
        adjective = _adjective(newest_first, direction)
        return f"{adjective} {one}", f"Select the {adjective.lower()} {one}."

    return (
        Action("hunk-previous", lambda: step(-1), why, words(-1)),
        Action("hunk-next", lambda: step(1), why, words(1)),
    )
