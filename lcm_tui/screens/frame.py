"""What all screens share: commands with reasons, one prompt, work beside the keys, the state of the file.

A screen is composed: panes show what it read, and actions say what its commands do and when they can be used.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from inspect import isawaitable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVarTuple, cast

from lcm_core.base.errors import LcmError
from lcm_core.base.times import zone_words
from lcm_core.base.values import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import ScreenResume, ScreenSuspend, Unmount
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import Worker

from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import DONE_SECONDS as DONE_SECONDS
from lcm_tui.kit.bars import KeyBar, KeyHint, Notices, Part, TitleBar, refresh_bars
from lcm_tui.kit.commands import SHARED, Key, bindings, key_title, thing_of
from lcm_tui.kit.dialog import Prompt
from lcm_tui.kit.drawn import Drawn, Lines, Still
from lcm_tui.kit.lines import LineView, Scroller
from lcm_tui.kit.listing import Filter, Finder
from lcm_tui.kit.logfile import log_path
from lcm_tui.kit.panes import Rows, move_divider, why_no_divider
from lcm_tui.kit.pick import Pick, Picks
from lcm_tui.kit.places import Place, is_id_of, place_named
from lcm_tui.kit.session import LONGEST_PAUSE, LOOK_SECONDS, WORD_SECONDS, PastSession, Session
from lcm_tui.kit.spans import Line
from lcm_tui.kit.terminal import HOLD_SECONDS
from lcm_tui.tables.home import PAST, live_lines

if TYPE_CHECKING:
    from lcm_core.base.records import ConversationId
    from lcm_core.operations.past_point import Point

    from lcm_tui.flows.change import Confirmation
    from lcm_tui.screens.copying import Copies


# -- searching -------------------------------------------------------------------------------------------
# The commands that search, as every screen has them: `/` opens the prompt, `n` and `N` repeat the search.


class Searching:
    """Searches with the finder of the pane in front, while its words are typed and afterwards."""

    def __init__(self, screen: CommandScreen) -> None:
        self._screen = screen
        self.finder: Finder | None = None  #: what the prompt searches

    def leave(self) -> None:
        """The prompt was left: what it searches is as before."""
        if self.finder is not None and self.finder is self._screen.finder():
            self.finder.leave()

    def refuse(self, reason: str) -> None:
        """Say why nothing can be found, in the prompt: the letters typed behind `/` are text, no commands."""
        self.finder = None
        self._screen.ask("find", check=lambda text: reason if text.strip() else None, problem=reason)

    def why_not(self) -> str | None:
        """Why nothing can be searched."""
        finder = self._screen.finder()
        return "this screen has nothing to search" if finder is None else finder.why_not_search()

    def why_not_next(self) -> str | None:
        """Why it cannot go on to a match."""
        finder = self._screen.finder()
        return "nothing to find in here" if finder is None else finder.why_not_next()

    def begin(self) -> None:
        """Search in the pane in front as you type."""
        finder = self._screen.finder()
        if finder is not None:
            self.finder = finder
            finder.begin()
            answer = self._screen.ask(finder.label, finder.needle, typed=finder.typed)
            self._screen.work_on("search-prompt", self._search, finder, answer)

    async def _search(self, finder: Finder, answer: asyncio.Future[str | None]) -> None:
        text = await answer
        self.finder = None
        if text is not None and (problem := await finder.confirm(text)):
            self._screen.app.notify(problem, timeout=3)
        self._screen.refresh_bars()

    def go(self, *, forward: bool) -> None:
        """Go to the next match, or to the one before."""
        finder = self._screen.finder()
        if finder is not None:
            self._screen.work_on(
                "search", self._go_to_match, finder, forward, exclusive=False
            )  # each key counts

    async def _go_to_match(self, finder: Finder, forward: bool) -> None:
        if problem := await finder.go(forward=forward):
            self._screen.app.notify(problem, timeout=3)


# -- every screen ----------------------------------------------------------------------------------------

Ts = TypeVarTuple("Ts")

log = logging.getLogger(__name__)

#: The keys that step through a series, each with its direction.
_STEPS: Final = MappingProxyType({commands.HUNK_PREVIOUS.id: -1, commands.HUNK_NEXT.id: 1})
#: Prefix of a failure message. The text of a pane that is still loading ends with "…".
_CANNOT: Final = "Cannot read"
#: Title and help of `/` where it filters.
_FILTER: Final = ("Filter", "Show only the rows that contain every word typed.")


class SeriesOf(Protocol):
    """What a screen shows one of (`screens/reading.py`)."""

    def words(self, direction: int) -> tuple[str, str]:
        """Title and sentence of the key that goes in a direction: -1 is back, 1 is on."""

    def place(self) -> str:
        """Which one is shown, of how many; empty where that is not said."""

    def press(self, screen: CommandScreen, direction: int) -> None:
        """Show the next one (1) or the previous one (-1) in the place of what *screen* shows."""


class Host(Protocol):
    """What a screen asks of the app that it stands in."""

    @property
    def session(self) -> Session:
        """The open database and its settings."""

    def open_place(self, place: Place) -> Screen[None]:
        """Put the screen that shows a place in front."""

    def open_instead(self, place: Place) -> Screen[None]:
        """Put the screen that shows a place where the one in front is, which is left."""

    @property
    def notices(self) -> Notices:
        """What was said in passing."""

    def tell_front_news(self) -> None:
        """Another screen has come to the front, or the one there has read its rows."""

    async def give_keys(self, new: Mapping[str, str]) -> str:
        """Give keys, as people write them, to commands, and keep that; what is wrong with it, or nothing."""


_FIND: Final[Key[CommandScreen]] = commands.SEARCH.does(
    lambda s: s.search.begin(), lambda s: s.search.why_not()
)
#: What every screen has, after its own keys.
EVERYWHERE: Final[Sequence[Key[CommandScreen]]] = (
    _FIND,
    commands.SEARCH_EVERYWHERE.does(lambda s: s.open(places.Search())),
    commands.HISTORY.does(lambda s: s.open(places.History())),
    commands.ENGINE.does(lambda s: s.open(places.Engine())),
    commands.DISK.does(lambda s: s.open(places.Disk())),
    commands.NEXT.does(lambda s: s.search.go(forward=True), lambda s: s.search.why_not_next()),
    commands.PREVIOUS_MATCH.does(lambda s: s.search.go(forward=False), lambda s: s.search.why_not_next()),
    commands.COPY_ID.does(lambda s: s.action_copy_id()),
    commands.PANE.does(lambda s: s.action_pane()),
    commands.DIVIDER_BACK.does(lambda s: move_divider(s, -1), why_no_divider),
    commands.DIVIDER_ON.does(lambda s: move_divider(s, 1), why_no_divider),
    commands.RELOAD.does(lambda s: s.action_reload()),
    commands.HELP.does(lambda s: s.action_help()),
    commands.PALETTE.does(lambda s: s.action_palette()),
    commands.BACK,
    commands.QUIT,
)
#: `[` and `]` on a screen that shows one of a series.
SERIES: Final[Sequence[Key[CommandScreen]]] = (
    commands.HUNK_PREVIOUS.does(
        lambda s: s.step_in_series(-1), lambda s: s.why_no_series(commands.HUNK_PREVIOUS)
    ),
    commands.HUNK_NEXT.does(lambda s: s.step_in_series(1), lambda s: s.why_no_series(commands.HUNK_NEXT)),
)
_STEPPING: Final = {one.id: one for one in SERIES}


def here(key: Key[object]) -> Key[object]:
    """A key of every screen on the screen that it leads to."""
    return key.does(lambda _: None, lambda _: "You are already on this screen.", hidden=True)


@cache
def all_keys() -> Mapping[str, Key[Any]]:
    """The keys of all screens by name, as none of them in particular says them; each screen is imported."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        importlib.import_module(module.name)
    return known_keys()


def known_keys() -> Mapping[str, Key[Any]]:
    """The same, of the screens that are imported already."""
    found: dict[str, Key[Any]] = dict(SHARED)
    screens: dict[str, set[str]] = {}
    kinds: list[type[CommandScreen]] = [CommandScreen]
    for kind in kinds:  # which grows
        kinds += kind.__subclasses__()
        for one in kind.ALL_KEYS.values():
            found.setdefault(one.id, one.general or one)
            screens.setdefault(one.id, set()).add(kind.__name__)
    return {name: replace(one, screens=frozenset(screens.get(name, ()))) for name, one in found.items()}


class CommandScreen(Screen[None], Still):
    """A screen whose `KEYS` say what each of its keys does; it may name what `/` searches (`finder`)."""

    HELP: ClassVar[str] = ""
    KEYS: ClassVar[Sequence[Key[Any]]] = ()  #: its own, in the order of the key bar
    #: Keys of every screen that do or say something else here; named in `KEYS` they stand there in order.
    COMMON: ClassVar[Sequence[Key[Any]]] = ()
    ALL_KEYS: ClassVar[Mapping[str, Key[Any]]] = {one.id: one for one in EVERYWHERE}  #: of the class, by name
    BINDINGS: ClassVar[list[BindingType]] = list(bindings(EVERYWHERE))
    BLANK: ClassVar[bool] = True  # what it holds covers it
    AUTO_FOCUS: ClassVar[str | None] = ""  # `on_mount` does; two of them draw the first rows twice

    def __init_subclass__(cls, **given: Any) -> None:
        """Bind its keys, and those that every screen has, after its own."""
        if {"KEYS", "COMMON"} & vars(cls).keys():
            common = {one.id: one for one in (*EVERYWHERE, *cls.COMMON)}
            own = {one.id: one if one.run else common[one.id] for one in cls.KEYS}
            cls.ALL_KEYS = own | {name: one for name, one in common.items() if name not in own}
            cls.BINDINGS = list(bindings(cls.ALL_KEYS.values()))
        super().__init_subclass__(**given)

    def __init__(self) -> None:
        super().__init__()
        self.then: PastSession | None = None  #: shows the past; None: the present
        self.step = ""  #: which of the moments in the past, of how many; empty: not known
        self.moving = False  #: another moment is being read and is not shown yet
        self.among: SeriesOf | None = None  #: what it shows one of
        self._left: list[PastSession] = []
        self.prompt = Prompt()
        self.search: Searching = Searching(self)
        self._key_bar = KeyBar(self.key_hints)
        self.title_bar = TitleBar(self.position)  #: also of a screen that is just being left
        self._resumed = False  #: has come to the front before
        self._problems: set[str] = set()  #: what was said about work that failed
        self._opening: tuple[Worker[None] | None, float] = (None, 0.0)  #: by a key, and since when
        self._decidable: tuple[object, float] = (object(), 0.0)  #: what could be decided on, and since when

    @property
    def session(self) -> Session:
        """The open database and its settings; of the past where this screen shows the past."""
        return self._host.session if self.then is None else self.then

    def look_at(self, session: Session, conversation_id: ConversationId, point: Point | None) -> None:
        """Show what this screen shows as it was at a point (None: as it is now), from the next load on."""
        before = self.then
        if point is not None and before is not None:
            before.past.go(point)
            return
        self.then = None if point is None else PastSession(session, conversation_id, point)
        if before is not None:
            self._left.append(before)  # something may be read by it just now

    def say_past(self) -> None:
        """Say above the body at which point this is, and what is not known of it."""
        self.show_live()
        bars = self.query("#past")
        if not (lines := self._past_lines(0)):
            bars.remove()
        elif bars:
            bars.first(Lines).again()
        else:
            self.mount(Lines(self._past_lines, id="past", height=len(lines)), before="#body")

    def _past_lines(self, width: int) -> Sequence[Line]:
        del width
        found = None if self.then is None else self.then.past.found
        if found is None:
            return ()
        from lcm_tui.tables.past import past_lines

        return past_lines(found, self.session.zone, self.key_of, self.step)

    @on(Unmount)
    async def _let_go_of_the_past(self) -> None:
        for left in (*self._left, *([self.then] if self.then is not None else ())):
            await left.close()

    @property
    def _host(self) -> Host:
        return cast(Host, self.app)

    def open(self, place: Place, among: SeriesOf | None = None) -> Screen[None]:
        """Put the screen that shows a place in front, which is one *among* others."""
        return _one_of(among, self._host.open_place(self._as_then(place)))

    def _as_then(self, place: Place) -> Place:
        """What belongs to the same conversation is shown as it was at the same point."""
        if self.then is not None and isinstance(place, places.OfThen):
            return places.Earlier(place, self.then.past.point)
        return place

    def open_instead(self, place: Place, among: SeriesOf | None = None) -> Screen[None]:
        """Put the screen of a place where this one is: another view of the same, or the next one."""
        return _one_of(among or self.among, self._host.open_instead(self._as_then(place)))

    def go_on_from(self, before: CommandScreen) -> None:
        """Show what this shows as *before* showed the one before it; what a screen remembers of its mode."""

    def where(self) -> str:
        """What the title bar calls this place; screens that say it themselves return nothing."""
        return ""

    def say_where(self) -> None:
        """Say in the title bar where this is."""
        if where := self.where():
            self.title_bar.where = where

    @property
    def committing(self) -> bool:
        """Whether what is written to the file at the moment comes from this screen."""
        return False

    @property
    def loaded(self) -> bool:
        """Whether it has read what it shows; a key that comes earlier waits a little."""
        return True

    @property
    def held_back(self) -> bool:
        """Whether the screen below stays in sight for a moment, until this one has something to show."""
        return False

    def compose(self) -> ComposeResult:
        """Title above, body and keys below; `ask` adds the prompt."""
        yield self.title_bar
        with Rows(id="body"):
            yield from self.compose_body()
        yield self._key_bar

    @on(LineView.Opened)
    async def _opened_a_line(self) -> None:
        if "open" in self.ALL_KEYS:
            await self.action_run("open")

    @on(LineView.Highlighted)
    def _highlighted_a_line(self) -> None:
        if "open" in self.ALL_KEYS:
            self.refresh_bars()
        else:
            self._placed_otherwise()

    @on(LineView.Scrolled)
    def _placed_otherwise(self) -> None:
        self.title_bar.refresh_changed()

    def position(self) -> str:
        """Which of a series this is; where the cursor is in the list with the keys, else in the first."""
        listed, among = self._counted_list, self.among
        said = ("" if among is None else among.place(), "" if listed is None else listed.position)
        return " · ".join(filter(None, said))

    @property
    def _counted_list(self) -> LineView[Any] | None:
        """The list with the keys, or that had them before the prompt; else the first one."""
        focused = self.prompt.asked_from or self.focused
        if isinstance(focused, LineView):
            return focused
        return next((one for one in self.query(LineView) if one.COUNTED and one.display), None)

    @on(TitleBar.Clicked)
    async def _clicked_title(self, event: TitleBar.Clicked) -> None:
        """Go to the end of the list, where what is new is; or read the file again."""
        listed = self._counted_list
        if event.part is Part.NOTICE:
            self._host.notices.clear()
        elif event.part is Part.PLACE:
            if not self.is_first:
                await self.action_run("back")
        elif event.part is Part.FILE:
            await self.action_run("reload")
        elif listed is not None:
            listed.focus()
            listed.action_last()

    @on(Drawn.Pressed)
    async def _pressed(self, event: Drawn.Pressed) -> None:
        """A click on the id of a row is one on the row; on another id it opens what that names."""
        own = self.selected_id() if isinstance(event.widget, LineView) else None
        if not event.name:
            named = (name for name in self.commands if self.key_of(name) == event.key)
            if (command := next(named, None)) is not None:
                await self.action_run(command)
        elif own is not None and is_id_of(event.name, own):
            if event.opens and isinstance(event.widget, LineView):
                event.widget.open_selected()
        else:
            self.work_on("clicked", self._go_to_named, event.name)

    async def _go_to_named(self, name: str) -> None:
        """Open what an id names."""
        found = await self.session.read(place_named, name)
        if found is not None:
            self.open(found)
        elif "_" in name:  # "m4" may be a word of a text
            self.app.notify(f"Nothing in this database is called {name}.", timeout=3)

    def compose_body(self) -> ComposeResult:
        """What the screen is about."""
        yield from ()

    def explained(self) -> str:
        """What the help says above the keys; in the past also what is not known of it."""
        zone = self.session.zone
        words = f"{self.HELP}\nTimes are shown and typed in {zone_words(zone)}.\n"
        if self.then is None or self.then.past.found is None:
            return words
        from lcm_tui.tables.past import past_text

        return f"{words}\n{past_text(self.then.past.found, zone)}"

    def moved_in(self) -> Sequence[Widget]:
        """What takes the keys that move, the one with the keys first."""
        first = self.focused or self.main_widget()
        return (first, *(one for one in self.focus_chain if one is not first))

    def finder(self) -> Finder | None:
        """What `/`, `n` and `N` search at the moment; None: nothing."""
        return None

    def why_not(self, command: str) -> str | None:
        """Why a command cannot be used now; None when it can."""
        key = self._key(command)
        if self.moving and key.changes:
            return f"another moment is being read: then press {self.key_of(command)}"
        if self.then is not None and key.changes:
            return f"the past cannot be changed; {self.key_of('hunk-next')} leads to the present"
        return key.why_not(self)

    def _key(self, command: str) -> Key[Any]:
        """What a key is on this screen; where it is one of a series, `[` and `]` go through that first."""
        return _STEPPING[command] if command in _STEPS and self.among is not None else self.ALL_KEYS[command]

    @property
    def commands(self) -> list[str]:
        """The names of this screen's keys, its own first; one of a series has the keys of that."""
        steps = self.among is not None or self.ALL_KEYS.get("hunk-next") not in {None, SERIES[1]}
        return [name for name in self.ALL_KEYS if steps or name not in _STEPS]

    def key_of(self, command: str) -> str:
        """The key of a command as people write it, remapped or not."""
        remapped = self.session.settings.keys.get(command)
        return key_title(remapped or (self.ALL_KEYS.get(command) or SHARED[command]).key)

    def keys_back(self, kind: str, conversation_id: int | None) -> str:
        """The keys that *kind* (undo, redo) the newest change of a conversation; None: of several."""
        undo, key = self.key_of("undo"), self.ALL_KEYS.get("undo")
        if key is not None and not key.of_row:  # for the newest that is in effect, of its own conversation
            own = getattr(self, "conversation", None)
            here = own is None or own.conversation_id == conversation_id
            key = key if here and kind == "undo" and self.then is None else None
        return undo if key is not None else f"{self.key_of('history')}, {undo}"

    def told(self, command: str) -> Key[Any]:
        """A key in the words that this screen has for it now."""
        key = self._key(command)
        title, text, bar = key.title, key.help, key.bar
        if command in _STEPS and self.among is not None:
            title, text = self.among.words(_STEPS[command])
            bar = thing_of(title)
        elif key is EVERYWHERE[0] and isinstance(self.finder(), Filter):
            title, text = _FILTER
        return replace(key, title=(key.title_now and key.title_now(self)) or title, help=text, bar=bar)

    def key_hints(self) -> list[KeyHint]:
        """What the key bar shows; while something is typed, the keys that are no text."""
        if self.asking:
            done, left = ("Done", "Cancel") if self.search.finder is None else ("Keep", "Clear")
            return [
                KeyHint("enter", done, "prompt-done", True),
                KeyHint("F1", "Help", "help", True),
                KeyHint("esc", left, "back", True),
            ]
        told = [(self.told(name), self.why_not(name) is None) for name in self.in_key_bar()]
        return [
            KeyHint(
                self.key_of(one.id), one.bar or one.title, one.id, able, able or self._keeps_its_place(one.id)
            )
            for one, able in told
        ]

    def _keeps_its_place(self, name: str) -> bool:
        """Whether the bar keeps a key that cannot be used now: another row, or a moment, may allow it."""
        of_row = self._key(name).of_row and self.selected_id() is not None
        return of_row or self.moving or not self.loaded

    def in_key_bar(self) -> list[str]:
        """The commands of the key bar, in order; on the first screen `q` has a meaning of its own."""
        keys = (self._key(name) for name in self.commands)
        shown = [one.id for one in keys if not (one.hidden or (one.changes and self.then is not None))]
        return [("quit" if name == "back" and self.is_first else name) for name in shown]

    def say_unknown_key(self, key: str) -> None:
        """Say that a key has no meaning here, and what has it elsewhere or had it; a run gets one notice."""
        if self.asking or isinstance(self.focused, Input | TextArea):
            return
        keys, unknown = (
            self.session.settings.keys,
            f"is not a key here; {self.key_of('help')} lists the keys.",
        )
        moved = next((name for name in self.commands if key in self._key(name).key.split(",")), None)
        elsewhere = (one for one in known_keys().values() if key in keys.get(one.id, one.key).split(","))
        found = next((one for one in elsewhere if one.id not in self.commands), None)
        standing = self._host.notices.standing
        if moved is not None:  # by [keys]
            self.app.notify(f"{self.told(moved).title} is {self.key_of(moved)} now.", timeout=3)
        elif found is not None:
            self.app.notify(self._no_key_here(found, key), timeout=3)
        elif standing is None or not standing.text.endswith(unknown):
            self.app.notify(f"{key_title(key)} {unknown}", timeout=3)

    def _no_key_here(self, command: Key[Any], key: str | None = None) -> str:
        named = self.key_of(command.id) if key is None else key_title(key)
        here = self.title_bar.where.startswith(command.title[:6])  # of "Summaries" and "Summary DAG"
        said = "is this screen already" if here else "is not a key here"
        return f"{named} ({command.title}) {said}; {self.key_of('palette')} lists all."

    async def action_run(self, command: str) -> None:
        """Do what a key does, or say why it cannot be done."""
        self._problems.clear()
        reason = self.why_not(command) or self._why_unseen(command)
        if reason is not None and command == "search":
            self.search.refuse(reason)
            return
        if reason is not None:
            self.app.notify(reason, severity="warning", timeout=4)
            return
        run = self._key(command).run
        if run is None:
            await self.run_action(command)
            return
        doing = run(self)
        if isawaitable(doing):  # beside the keys; up to the first prompt it opens it runs before the next one
            if self._key(command).opens:
                self.open_by(command, self._finish, doing)
            else:
                self.work_on(command, self._finish, doing)
            await asyncio.sleep(0)  # the work begins: the next key is for its prompt

    def open_by(self, group: str, work: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Run work that opens another screen, as `work_on` does: the next keys are meant for that screen."""
        self._opening = self.work_on(group, work, *args), time.monotonic()

    @property
    def opening(self) -> bool:
        """Whether a key reads what it opens: the next ones are meant for that, if it comes soon."""
        work, since = self._opening
        reads = work is not None and not work.is_finished and not self.asking
        return reads and time.monotonic() - since < HOLD_SECONDS

    @staticmethod
    async def _finish(doing: Awaitable[object]) -> None:
        await doing

    def decided_on(self) -> object:
        """What a key that decides would act on: the same value as long as the operator sees the same."""
        return None

    def _why_unseen(self, command: str) -> str | None:
        """Why a deciding key that was pressed before its object was painted does nothing."""
        pressed, (seen, since) = self.session.pressed_at, self._decidable
        if (
            not self._key(command).decides
            or pressed is None
            or (seen == self.decided_on() and since <= pressed)
        ):
            return None
        self.call_after_refresh(self._note_painted)
        return f"Too early: {self.key_of(command)} again"

    def _note_painted(self) -> None:
        if not self.held_back and self._decidable[0] != (now := self.decided_on()):
            self._decidable = (now, time.monotonic())

    def refresh_bars(self) -> None:
        """Draw title and keys again."""
        refresh_bars(self)
        self.call_after_refresh(self._note_painted)

    # -- work beside the keys --------------------------------------------------------------------------

    def work_on(
        self, group: str, work: Callable[[*Ts], Awaitable[object]], *args: *Ts, exclusive: bool = True
    ) -> Worker[None]:
        """Run ``work(*args)`` without anybody waiting for it; a failure is told in one sentence and logged.

        *exclusive*: it takes the place of what runs in the same *group*, whose statement is interrupted.
        """
        return self.run_worker(
            partial(self._told, work, *args), group=group, exclusive=exclusive, exit_on_error=False
        )

    async def _told(self, work: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        try:
            await work(*args)
        except LcmError as error:
            self._tell(error.message)
            self.call_later(self._say_in_place, error.message)  # panes may be mounted later than it fails
        except Exception as error:
            log.exception("%s: %s failed", type(self).__name__, getattr(work, "__name__", "work"))
            self._tell(
                "Something went wrong while reading; the screen may be out of date. The log has the details."
            )
            why = f"{type(error).__name__}: {error}. {log_path()} has the details."
            self.call_later(self._say_in_place, why)

    def _say_in_place(self, problem: str) -> None:
        """Say it where something is awaited: it does not come."""
        said = f"{_CANNOT}: {problem} {self.key_of('reload')} tries again."
        for view in self.query("Scroller"):
            if isinstance(view, Scroller) and (view.empty.endswith("…") or view.empty.startswith(_CANNOT)):
                view.empty = said

    def _tell(self, problem: str) -> None:
        """Say it once, until the operator does something: work may be tried again many times a second."""
        if problem not in self._problems:
            self._problems.add(problem)
            self.app.notify(problem, title=_CANNOT, severity="error")

    async def calm(self) -> None:
        """Wait until no key is to be expected at once, for `LONGEST_PAUSE` seconds at most.

        Who types into a prompt is waited for to the end of the word.
        """
        while self.prompt.lists and (left := self._until_end_of_word()) > 0:  # noqa: ASYNC110 - no event
            await asyncio.sleep(left)
        now = time.monotonic()
        until = now + LONGEST_PAUSE
        while (wait := self._until_calm(now, until)) > 0:
            await asyncio.sleep(wait)
            now = time.monotonic()

    def _until_end_of_word(self) -> float:
        return self.session.key_at + WORD_SECONDS - time.monotonic()

    def _until_calm(self, now: float, until: float) -> float:
        """How long to wait before it is looked again; 0 when it is calm, or *until* has come."""
        return max(0.0, min(self.session.until_calm(now), LOOK_SECONDS, until - now))

    # -- commands that every screen has ---------------------------------------------------------------

    async def action_back(self) -> None:
        """Close the prompt, else take back one step, else leave the screen; the first one stays."""
        if self.asking:
            self.close_prompt()
            self.search.leave()
        elif self.step_back():
            return
        elif self.is_first:
            self.app.notify(f"This is the first screen; {self.key_of('quit')} quits.", timeout=3)
        elif await self.before_leaving() and self.app.screen is self:
            self.app.pop_screen()

    async def action_quit(self) -> None:
        """Go back; leave the app where there is nothing to go back to."""
        if self.asking or not self.is_first:
            await self.action_back()
        elif not self.step_back() and await self.before_leaving() and self.app.screen is self:
            self.app.exit(0)

    @property
    def is_first(self) -> bool:
        """Whether no screen of ours is below this one."""
        return len(self.app.screen_stack) <= 2

    def step_back(self) -> bool:
        """Take back one step here: out of a text beside the list, a filter; False: the screen is left."""
        main = self.main_widget()
        if isinstance(self.focused, Scroller) and isinstance(main, Scroller) and self.focused is not main:
            main.focus()
            return True
        finder = self.finder()
        return finder is not None and finder.leave()

    async def before_leaving(self) -> bool:
        """End what belongs to this screen, before the one below comes to the front; False: it stays."""
        return True

    def step_in_series(self, direction: int) -> None:
        """Show the previous or the next one of the series."""
        if self.among is not None:
            self.among.press(self, direction)

    def why_no_series(self, key: Key[Any]) -> str | None:
        """Why there is nothing to step through."""
        return None if self.among is not None else self._no_key_here(key)

    def action_reload(self) -> None:
        """Read the database again now; here nothing is read."""

    def action_help(self) -> None:
        """Explain this screen, or the line that is typed."""
        from lcm_tui.kit.dialog import HelpScreen
        from lcm_tui.kit.dialogs import prompt_document
        from lcm_tui.kit.help import HelpMenu

        if self.asking:
            keys = (self.key_of("next"), self.key_of("previous-match"))
            label, explained = self.prompt.line.label, self.prompt.explained
            said = prompt_document(label, explained, self.search.finder, keys, picks=self.prompt.list.display)
            self.app.push_screen(HelpScreen(said))
        else:
            self.app.push_screen(HelpMenu(self, self._host.give_keys, all_keys), self._run_from_help)

    async def _run_from_help(self, name: str | None) -> None:
        """Run the key that was chosen in the help."""
        if name:
            await self.action_run(name)

    async def action_prompt_done(self) -> None:
        """Enter, by a click on it."""
        await self.prompt.action_submit()

    def action_palette(self) -> None:
        """Search all commands."""
        self.app.action_command_palette()

    def action_pane(self) -> None:
        """Go to the next pane."""
        self.focus_next()

    def action_copy_id(self) -> None:
        """Ask what is copied of the selected thing."""
        from lcm_tui.screens.copying import copy

        copy(self)

    def copies(self) -> Copies | None:
        """What `y` copies of the selected thing."""
        from lcm_tui.screens.copying import by_id

        found = self.selected_id()
        return None if found is None else by_id(self.session, found)

    def stand_on(self, ref: str | int) -> None:
        """Select a summary or a message, by id, as soon as it has been read; a change has brought it."""

    def hand_down(self, ref: str | int | None) -> None:
        """Before this screen is left: those below read the change, the next selects *ref* of it."""
        below = [one for one in self.app.screen_stack if one is not self and isinstance(one, CommandScreen)]
        for screen in below:
            screen.data_changed()
        if below and ref is not None:
            below[-1].stand_on(ref)

    def selected_id(self) -> str | None:
        """The id of what is selected."""
        return None

    # -- the prompt ------------------------------------------------------------------------------------

    def ask(
        self,
        label: str,
        value: str = "",
        *,
        typed: Callable[[str], None] | None = None,
        check: Callable[[str], object] | None = None,
        explained: str = "",
        problem: str = "",
        picks: Picks = (),
    ) -> asyncio.Future[str | None]:
        """Open the prompt at once, so that the next key belongs to it; the future holds what was typed.

        It is None when the prompt was left. *typed* gets each change as it is made. *check* returns or raises
        what is wrong with a text, which is shown while it is typed; the prompt stays open until it is right.
        *explained* is what its help says besides the label, *problem* what is wrong with *value*. *picks*
        stand in a list below; they may be read first, and `enter` waits for them.
        """
        prompt, before = self.prompt, self.focused
        if not prompt.is_attached:
            self.mount(prompt.line, prompt, prompt.list, before=self._key_bar)
        answer = prompt.ask(
            label,
            value,
            typed=typed,
            check=check,
            explained=explained,
            problem=problem,
            picks=None if callable(picks) else picks,
            asked_from=before,
        )
        if callable(picks):
            self.work_on("picks", self._read_picks, answer, picks)
        self.set_focus(prompt)
        self.refresh_bars()
        return answer

    async def confirmed(self, wanted: Confirmation) -> bool:
        """Have something typed before what cannot be undone."""
        typed = await self.ask(wanted.prompt)
        if typed is not None and typed.strip() != wanted.text:
            self.app.notify("The answer does not match; nothing was changed.", severity="warning")
        return typed is not None and typed.strip() == wanted.text

    async def _read_picks(
        self, asked: asyncio.Future[str | None], read: Callable[[], Awaitable[Sequence[Pick]]]
    ) -> None:
        found: Sequence[Pick] = ()
        try:
            found = await read()
        finally:
            self.prompt.offer(asked, found)

    @property
    def asking(self) -> bool:
        """Whether the prompt is open."""
        return self.prompt.asking

    def close_prompt(self) -> None:
        """Give the keys back to the list."""
        before = self.prompt.leave()
        (before or self.main_widget()).focus()
        self.refresh_bars()

    def main_widget(self) -> Widget:
        """What has the focus when nothing else asks for it."""
        return self.query_one("#body > *", Widget)

    @on(Prompt.Submitted, "#prompt")
    def _prompt_submitted(self, event: Prompt.Submitted) -> None:
        if self.prompt.accept(event.value):
            self.close_prompt()

    # -- the state of the file ---------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Say where this is, show what the file does, and give the keys to the main pane."""
        self.say_where()
        self.show_live()
        self.main_widget().focus()
        self.call_after_refresh(self._note_painted)

    @on(ScreenResume)
    @on(ScreenSuspend)
    def _front_is_another(self) -> None:
        self._host.tell_front_news()

    @on(ScreenSuspend)
    @on(Unmount)
    def _take_notes_along(self) -> None:
        self._host.notices.leave(self, self.app.screen_stack)

    @on(ScreenResume)
    def _first_in_front(self, event: ScreenResume) -> None:
        """Style nothing again that was styled a moment ago, when it was mounted."""
        if not self._resumed:
            self._resumed, event.refresh_styles = True, False

    def on_screen_resume(self) -> None:
        """Show what the file has done meanwhile."""
        self.show_live()

    def data_changed(self) -> None:
        """The file was written."""
        # Textual takes the screen just below for one in sight: what is drawn on it draws all of the front.
        front = self.app.screen
        if front is self or not isinstance(front, CommandScreen):
            self.show_live()

    def show_live(self) -> None:
        """Say in the title bar whether the file is followed, when it changed last, and how large it is."""
        # The file may change while a screen is pushed but not composed yet.
        for bar in self.query(TitleBar):
            bar.live = live_lines(self.session) if self.then is None else (PAST,)


def _one_of(among: SeriesOf | None, screen: Screen[None]) -> Screen[None]:
    if isinstance(screen, CommandScreen):
        screen.among = among
    return screen
