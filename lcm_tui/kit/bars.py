"""The bars of a screen: the title above, where notices stand too, the keys below, and a line for the past."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from enum import Enum
from itertools import groupby
from typing import Final, Protocol, runtime_checkable

from lcm_core.base.text import cell_width, clip, safe_line
from lcm_core.base.times import zone_sign
from lcm_core.base.values import Record, replace
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from lcm_tui.kit.drawn import Drawn, strip_of
from lcm_tui.kit.spans import Block, Document, Layout, Line, Sorting, Span, StyleName, heading_of

# -- notices ---------------------------------------------------------------------------------------------
# What the app says in passing: one sentence at a time in the line of the title, and the last one in the help.

#: Who presses a key when a notice has stood for so long has read it.
READ_SECONDS = 2.5
#: What tells of finished work is shown for at least so long, over other screens too; what is shown for less
#: belongs to the screen that says it.
DONE_SECONDS: Final = 12
#: So long the help can show again what tells of finished work or of trouble.
LATELY_SECONDS: Final = 60.0
#: What a notice looks like, by its severity; one is not replaced by a lesser one before a key.
_LOOKS: Final[Mapping[str, StyleName]] = {"information": "ok", "warning": "warn", "error": "error"}


#: In a notice: the keys that undo or redo a change of a conversation. Where it is read says which they are.
_KEYS_BACK: Final = re.compile(r"⟨(undo|redo) (\d*)⟩")


def keys_back(kind: str, conversation_ids: Iterable[int | None]) -> str:
    """The place, in a notice, of the keys that *kind*, undo or redo, a change of some conversations."""
    owners = {*conversation_ids}
    owner = owners.pop() if len(owners) == 1 else None
    return f"⟨{kind} {'' if owner is None else owner}⟩"


@runtime_checkable
class Undoes(Protocol):
    """Where a notice is read."""

    def keys_back(self, kind: str, conversation_id: int | None) -> str:
        """The keys that *kind* (undo, redo) the newest change of a conversation; None: of several."""


class Notice(Record, frozen=True):
    """A sentence that was said."""

    text: str
    severity: str
    seconds: float  #: that it stands; an error stands until a key
    by: object  #: the screen that was in front
    at: float  #: monotonic

    def read_on(self, screen: object) -> Notice:
        """The same with the keys of the screen where it is read."""
        if not isinstance(screen, Undoes):
            return self
        keys = screen.keys_back
        text = _KEYS_BACK.sub(lambda one: keys(one[1], int(one[2]) if one[2] else None), self.text)
        return replace(self, text=text)

    @property
    def passing(self) -> bool:
        """Whether it belongs to the screen that said it: it tells of no finished work and of no trouble."""
        return self.severity != "error" and self.seconds < DONE_SECONDS

    @property
    def lasts(self) -> float:
        """Seconds that the help can show it again."""
        return self.seconds if self.passing else LATELY_SECONDS

    @property
    def over(self) -> bool:
        """Whether its time has passed."""
        return self.severity != "error" and not self.new

    @property
    def new(self) -> bool:
        """Whether it may cover the line below the title for what does not fit."""
        return time.monotonic() < self.at + self.seconds


class Notices:
    """The notice that stands, and the last one."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """*changed* is called when another one stands, or none."""
        self._changed = changed
        self._standing: Notice | None = None
        self._last: Notice | None = None
        self._key_at = 0.0

    @property
    def standing(self) -> Notice | None:
        """The one that is shown."""
        return None if self._standing is None or self._standing.over else self._standing

    def add(self, notice: Notice) -> None:
        """Say something: the newest replaces the one before; what one key finished is said together."""
        ranks, before = list(_LOOKS), self.standing
        if before is not None and before.at > self._key_at and before.severity == notice.severity:
            together = not (before.passing or notice.passing or before.text in notice.text)
            notice = replace(notice, text=f"{notice.text} {before.text}") if together else notice
        self._last = notice
        if (
            before is None
            or before.at <= self._key_at
            or ranks.index(before.severity) <= ranks.index(notice.severity)
        ):
            self._stand(notice)

    def note_key(self) -> None:
        """A key was pressed: what has been read goes."""
        self._key_at = time.monotonic()
        if self._standing is not None and self._standing.at < self._key_at - READ_SECONDS:
            self.clear()

    def clear(self) -> None:
        """Take away what stands."""
        if self._standing is not None:
            self._stand(None)

    def step(self, pressed_at: float) -> None:
        """A key did something: what was said in passing before it is of the step before."""
        if self._standing is not None and self._standing.passing and self._standing.at < pressed_at:
            self.clear()

    def leave(self, screen: object, stack: Sequence[object]) -> None:
        """Another screen comes to the front: what *screen* said would be read as said by that.

        What tells of finished work goes along when *screen* is closed: it says why the other one is there.
        """
        standing, last = self._standing, self._last
        closed = bool(stack) and screen not in stack
        if goes := closed and last is not None and last.by is screen and not last.passing:
            self._last = replace(last, by=stack[-1])
        if standing is not None and standing.by is screen:
            self._stand(self._last if goes and standing is last else None)

    def latest(self, front: object) -> Document:
        """What was said on a screen: what stands, else the last; finished work and trouble for a minute."""
        one = self.standing or self._last
        late = one is not None and one is not self.standing and time.monotonic() >= one.at + one.lasts
        if one is None or late or one.by is not front:
            return ()
        return (Block(spans=(Span("▌", _LOOKS[one.severity]), Span(one.read_on(front).text)), indent=1),)

    def _stand(self, notice: Notice | None) -> None:
        self._standing = notice
        self._changed()


# -- title and keys --------------------------------------------------------------------------------------
# The title says where you are and what the file does.

#: What is left of the name of a place, at the least, beside all that is to be said of the file.
SHORTEST_PLACE = 22
#: Commands that keep their place in the key bar however many there are.
ALWAYS = frozenset({"help", "back", "quit", "palette"})
#: In a bar of so many cells the key that just opens what is selected gives its room to the others.
NARROW = 80
#: What leads to the commands that have no room, and the key beside it, which then lends it its word.
REST, BESIDE_REST = "palette", "help"


class _Bar(Drawn):
    """One line."""

    DEFAULT_CSS = """
    _Bar { height: 1; width: 1fr; background: $panel; }
    """

    @abstractmethod
    def compose_line(self, width: int) -> Line:
        """What stands in the bar."""

    _said: tuple[int, Line] | None = None  #: the width, and what stands in the bar

    def render_line(self, y: int) -> Strip:
        """The one line."""
        width = self.size.width
        self._said = (width, self.compose_line(width))
        return strip_of(self._said[1], self.style_of, width)

    def refresh_changed(self) -> None:
        """Draw the bar again if it does not say any more what stands there."""
        width = self.size.width
        if self._said is None or self._said != (width, self.compose_line(width)):
            self.refresh()


class Part(Enum):
    """What can be clicked in the title."""

    PLACE = "where this is"
    POSITION = "the place in the list, and what is new below it"
    FILE = "the state of the file"
    NOTICE = "what was said"


class TitleBar(_Bar):
    """Where you are at the left, the state of the file at the right; between them what is said."""

    DEFAULT_CSS = """
    TitleBar.-notice { background: $primary-muted; }
    """

    class Clicked(Message):
        """Something in it was clicked."""

        def __init__(self, part: Part) -> None:
            super().__init__()
            self.part = part

    where: reactive[str] = reactive("", layout=False)
    note: reactive[str] = reactive("", layout=False)
    live: reactive[Sequence[Line]] = reactive(((),), layout=False)  #: the same, shorter and shorter
    notice: reactive[Notice | None] = reactive(None, layout=False)  #: what stands between these
    help_key = "F1"  #: which shows a notice whole that has no room

    def __init__(self, position: Callable[[], str] = str) -> None:
        """*position* says where in the list below the cursor stands; "" for nowhere."""
        super().__init__()
        self._position = position
        self._named = 0  #: the last cell of the name of the place
        self._starts = (0, 0)  #: the cells where the position and the state of the file begin
        self._rest: RestOfNotice | None = None

    async def on_click(self, event: events.Click) -> None:
        """Say which part was clicked."""
        placed, live = self._starts
        if self.notice is not None:
            self.post_message(self.Clicked(Part.NOTICE))
        elif event.x <= self._named:
            self.post_message(self.Clicked(Part.PLACE))
        elif event.x >= placed:
            self.post_message(self.Clicked(Part.POSITION if event.x < live else Part.FILE))

    def show_notice(self, notice: Notice | None, help_key: str) -> None:
        """Show what is said, or again what this is the title of."""
        self.help_key, self.notice = help_key, notice
        self.set_class(notice is not None, "-notice")
        self._fit_rest()
        self.refresh_changed()  # the same notice may have lost its second line

    def on_resize(self) -> None:
        """A notice may need another number of lines."""
        self._fit_rest()

    def _fit_rest(self) -> None:
        """Give a notice its second line, which moves nothing."""
        needed = len(self.notice_lines(self.size.width)) > 1
        if needed and self._rest is None and self.parent is not None:
            self._rest = RestOfNotice(self)
            self.screen.mount(self._rest, after=self)
        if self._rest is not None:
            self._rest.display = needed
            self._rest.refresh()

    def notice_lines(self, width: int) -> Sequence[Line]:
        """The notice between what this is the title of and the shortest state of the file; the rest below.

        A note that counts is left out, then the name of the place is clipped. A warning or an error continues
        for a few seconds on the line below; any other notice has one line. The last sentence says what to do
        next, so the others are cut first.
        """
        if self.notice is None:
            return ((),)
        text, state = safe_line(" ".join(self.notice.text.split())), self.live[-1]
        look = _LOOKS[self.notice.severity]
        note = "" if self.note[:1].isdigit() else clip(safe_line(self.note), width // 3)
        note = f"  {note}  " if note else "  " if self.where else ""
        beside = width - cell_width(note) - _width(state) - 3
        named = max(beside - cell_width(text), width // 10)
        where = clip(safe_line(self.where), named)
        room, more = beside - cell_width(where), ""
        trouble = self.notice.severity != "information"
        rooms = (room, width - 2) if trouble and self.notice.new and self._has_room_below else (room,)
        parts = _in_rooms(text, rooms)
        if cell_width(parts[-1]) > rooms[len(parts) - 1]:
            more, (others, _, last) = f" {self.help_key} more", text.rpartition(". ")
            while "/" in last and ". " in others:  # a path says nothing of what to do
                others, _, last = f"{others}.".rpartition(". ")
            left = sum(rooms) - len(more)
            if others and "/" not in last and (others_left := left - cell_width(last) - 1) > left // 3:
                text = f"{clip(others, others_left)} {last}"
            parts = _in_rooms(clip(text, left), rooms)
            parts[-1] = clip(parts[-1], rooms[len(parts) - 1] - len(more))
        said = [(Span(f"▌{part}", look), Span(more if part is parts[-1] else "", "key")) for part in parts]
        space = Span(" " * (room - _width(said[0]) + 2))
        line = (Span(" "), Span(where, "title"), Span(note, "dim"), *said[0], space, *state)
        return (line, *((Span(" "), *rest) for rest in said[1:]))

    @property
    def _has_room_below(self) -> bool:
        """Whether the line below is no line of what has the keys; a dialog has its box there."""
        keyed = self.screen.focused if self.is_attached else None
        return keyed is not None and keyed.region.y > 1 and self.styles.dock == "none"

    def compose_line(self, width: int) -> Line:
        """The place and the note first; of the state of the file as much as has room beside them.

        A place has half of the bar at the most, before the state of the file becomes shorter: the size of the
        file says less than a name.
        """
        if self.notice is not None:
            return self.notice_lines(width)[0]
        where = safe_line(self.where)
        note = safe_line(f"  {self.note}") if self.note else ""
        noted = cell_width(note)
        # The end of a long name says less than a note, or than the place in the list.
        named = cell_width(where)
        least = width * 7 // 20 if note else SHORTEST_PLACE
        wishes = (min(named, width // 2), min(named, least))
        position = self._position()
        placed = (Span(position, "dim"), Span("  ")) if position else ()
        shorter = [(*placed, *line) for line in self.live]
        fitting = (line for wish in wishes for line in shorter if _width(line) + wish + noted + 3 <= width)
        right = next(fitting, None)
        if right is None:
            least = min(cell_width(where), SHORTEST_PLACE) + 3
            right = shorter[-1] if _width(shorter[-1]) + least + noted <= width else self.live[-1]
        room = max(width - _width(right) - 3, 8)
        where = clip(where, max(room - noted, min(room, width * 7 // 20)) if note else room)
        note = clip(note, room - cell_width(where))
        self._named = cell_width(where)
        space = " " * (width - _width(right) - cell_width(where) - cell_width(note) - 2)
        begins = width - 1 - _width(right)
        self._starts = (begins, begins + _width(placed))
        return (Span(" "), Span(where, "title"), Span(note, "dim"), Span(space), *right)


class RestOfNotice(_Bar):
    """The second line of a notice, over the line below the title for as long as the notice stands."""

    DEFAULT_CSS = """
    RestOfNotice { overlay: screen; background: $primary-muted; }
    """

    def __init__(self, bar: TitleBar) -> None:
        super().__init__()
        self._bar = bar

    def compose_line(self, width: int) -> Line:
        """What had no room in the title."""
        lines = self._bar.notice_lines(width)
        return lines[1] if len(lines) > 1 else ()

    async def on_click(self, event: events.Click) -> None:
        """A click is one on the notice."""
        del event
        self._bar.post_message(TitleBar.Clicked(Part.NOTICE))


def _in_rooms(text: str, rooms: Sequence[int]) -> list[str]:
    """The parts of a text for lines of so many cells, up to the end of a word; the last may be too long."""
    parts: list[str] = []
    for room in rooms[:-1]:
        if cell_width(text) > room:
            kept = len(clip(text, room)) - 1
            at = text.rfind(" ", kept // 2, kept + 1)
            at = at if at > 0 else kept
            parts.append(text[:at])
            text = text[at:].lstrip()
    return [*parts, text]


def _width(spans: Iterable[Span]) -> int:
    return sum(cell_width(safe_line(span.text)) for span in spans)


class KeyHint(Record, frozen=True):
    """A key of the bar below."""

    key: str
    title: str  #: "" before a neighbour that has the same: they are drawn as one, "[ ] Change"
    command: str
    available: bool
    shown: bool = True  #: it can be used now, or on another row

    @property
    def drawn(self) -> str:
        """Key and title with the blanks around them."""
        return f" {self.key} {self.title} " if self.title else f" {self.key}"


class KeyBar(_Bar):
    """The keys of this screen; a click on one is the key."""

    def __init__(self, hints: Callable[[], Sequence[KeyHint]], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._hints = hints

    def compose_line(self, width: int) -> Line:
        """As many keys as fit: first those that do something now, the first ones first.

        The way to the others is always there.
        """
        spans: list[Span] = []
        for _, hint in self._placed(width):
            before, key, title = hint.drawn.partition(hint.key)
            spans += [
                Span(before),
                Span(key, "key" if hint.available else "dim"),
                Span(title, "text" if hint.available else "dim"),
            ]
        if _width(spans) > width:
            spans[-1] = replace(spans[-1], text=spans[-1].text.rstrip())
        return tuple(spans)

    async def on_click(self, event: events.Click) -> None:
        """Do what the key does that was clicked."""
        for start, hint in self._placed(self.size.width):
            if start <= event.x < start + cell_width(hint.drawn):
                await self.screen.run_action(f"run('{hint.command}')")
                return

    def _placed(self, width: int) -> list[tuple[int, KeyHint]]:
        hints = [hint for hint in self._hints() if hint.shown]
        left = width + 1  # the last one needs no blank behind it
        groups = _sharing(hints)
        if sum(map(_cells, groups)) > left:
            groups = _sharing(_with_rest(hints))
        fitting: list[Sequence[KeyHint]] = []
        # Sorting is stable: of those that come next alike, the order is that of the screen.
        opens = "Open" if width <= NARROW else None

        def rank(group: Sequence[KeyHint]) -> tuple[bool, bool, bool]:
            available = any(one.available for one in group)
            return group[-1].command not in ALWAYS, not available, group[-1].title == opens

        for group in sorted(groups, key=rank):
            if group[-1].command in ALWAYS or _cells(group) <= left:
                left -= _cells(group)
                fitting.append(group)
        placed: list[tuple[int, KeyHint]] = []
        at = 0
        for hint in (one for group in groups if group in fitting for one in group):
            placed.append((at, hint))
            at += cell_width(hint.drawn)
        return placed


def _sharing(hints: Iterable[KeyHint]) -> list[Sequence[KeyHint]]:
    """Those together that stand side by side and have the same word, which only the last of them keeps."""
    groups = [list(group) for _, group in groupby(hints, lambda one: one.title)]
    return [[*(replace(one, title="") for one in group[:-1]), group[-1]] for group in groups]


def _with_rest(hints: Sequence[KeyHint]) -> Sequence[KeyHint]:
    """The way to the commands that have no room, beside the help and with its word."""
    rest = [one for one in hints if one.command == REST]
    others = [one for one in hints if one.command != REST]
    at = next((at for at, one in enumerate(others) if one.command == BESIDE_REST), len(others))
    return [*others[:at], *(replace(one, title=others[at].title) for one in rest), *others[at:]]


def _cells(group: Iterable[KeyHint]) -> int:
    return sum(cell_width(one.drawn) for one in group)


def refresh_bars(root: Widget) -> None:
    """Draw the bars of a screen again, after what they say has changed."""
    for bar in root.query("_Bar"):
        assert isinstance(bar, _Bar)
        bar.refresh_changed()


class Heading(_Bar):
    """The titles of a list's columns; a click names the column."""

    class Clicked(Message):
        """A column's title was clicked."""

        def __init__(self, column: str) -> None:
            """*column*: its name; "" for the sign of more columns at a side."""
            super().__init__()
            self.column = column

    DEFAULT_CSS = """
    Heading { background: $surface; }
    """

    def __init__(
        self,
        layout: Callable[[int], Layout],
        *,
        beyond: Callable[[int], str] | None = None,
        sorting: Callable[[], Sorting | None] | None = None,
        zone: Callable[[], tzinfo | None] | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """*beyond*: the sign of columns at a side of those that are shown, for the width of the list.

        *sorting* says by which column the list is sorted; None where lists have one order only.
        *zone* is that of their times; None where they show none.
        """
        super().__init__(id=id)
        self._columns = layout
        self._beyond = beyond
        self._sorting = sorting
        self._zone = zone

    def compose_line(self, width: int) -> Line:
        """The titles where the list has its columns; above its scroll bar, which takes one cell, the sign."""
        sorting = self._sorting() if self._sorting is not None else None
        zone = zone_sign(self._zone()) if self._zone is not None else ""
        line = heading_of(self._columns(width - 1), sorting, zone)
        sign = self._beyond(width - 1) if self._beyond is not None else ""
        return (*line, Span(" " * (width - 1 - _width(line))), Span(sign, "key")) if sign else line

    async def on_click(self, event: events.Click) -> None:
        """Sort by the column that was clicked, or go on from the sign to the columns at that side."""
        if self._beyond is not None and event.x == self.size.width - 1 and self._beyond(event.x):
            self.post_message(self.Clicked(""))
            return
        layout = self._columns(self.size.width - 1)
        end = 0
        for column, width in zip(layout.columns, layout.widths, strict=True):
            end += width + 1
            if event.x < end:
                self.post_message(self.Clicked(column.name))
                return
