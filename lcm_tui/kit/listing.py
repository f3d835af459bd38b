"""A list as a pane: its rows, filter and marks, and the selected row in full below it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from datetime import tzinfo
from itertools import takewhile
from typing import Any, ClassVar, Final, Generic, TypeVar

from lcm_core.base.text import clip, fold, sought_as
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip

from lcm_tui.kit.bars import Heading
from lcm_tui.kit.drawn import Drawn, Still, strip_of
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.spans import (
    Block,
    Column,
    Layout,
    Line,
    Sorting,
    Span,
    WrappedBlock,
    lay_out,
    row_of,
    text_of,
)
from lcm_tui.kit.text import TextView

# -- finding ---------------------------------------------------------------------------------------------
# What `/`, `n` and `N` do in one pane: filter its list, or move from match to match.
#
# The frame requests the `Finder` of the pane with the focus, opens the prompt with it, and passes on what
# is typed.

K = TypeVar("K")


class Finder:
    """How one pane is searched."""

    label: str  #: what the prompt asks for
    needle: str = ""  #: what was searched for last; empty: nothing

    def why_not_search(self) -> str | None:
        """Why it cannot be searched at the moment; None when it can."""
        return None

    def begin(self) -> None:
        """The prompt opens: what is typed is searched for from here."""

    def typed(self, text: str) -> None:
        """The prompt holds another text."""

    @abstractmethod
    async def confirm(self, text: str) -> str | None:
        """The text was confirmed; a sentence when nothing holds it."""

    @abstractmethod
    async def go(self, *, forward: bool) -> str | None:
        """Go to the next match or the one before; a sentence when there is none."""

    def why_not_next(self) -> str | None:
        """Why there is no next match to go to; None when there may be one."""
        return None if self.needle else "search first: / finds text"

    def leave(self) -> bool:
        """`esc`: take back what the search changed; False when that is nothing."""
        return False


class Filter(Finder):
    """Narrows a list to what holds the words, as they are typed; `esc` takes the filter away."""

    def __init__(
        self, asks_for: str, changed: Callable[[], None], begun: Callable[[], None] = lambda: None
    ) -> None:
        """*asks_for*: what can be typed; *changed* lists again; *begun*: somebody is about to type."""
        self.label = f"filter: {asks_for}"
        self._changed = changed
        self._begun = begun

    @property
    def words(self) -> list[str]:
        """What a row must hold, folded (docs/spec/searching.md, "Spellings")."""
        return fold(self.needle).split()

    def begin(self) -> None:
        """The cursor stays on its row as long as that is listed."""
        self._begun()

    def typed(self, text: str) -> None:
        """Filter by other words."""
        if text != self.needle:
            self.needle = text
            self._changed()

    async def confirm(self, text: str) -> str | None:
        """It is filtered already."""
        self.typed(text)
        return None

    async def go(self, *, forward: bool) -> str | None:
        """A filtered list has no matches to go to: all of it is one."""
        del forward
        return None

    def why_not_next(self) -> str | None:
        """As `go`."""
        return f"a list has no next match: {'only matches are shown' if self.needle else '/ filters it'}"

    def leave(self) -> bool:
        """Take the filter away."""
        had = bool(self.needle)
        self.typed("")
        return had


class TextFinder(Finder):
    """Goes from match to match in a text, from its first line in sight on."""

    label = "find in the text"

    def __init__(self, text: TextView, why_not: Callable[[], str | None] = lambda: None) -> None:
        """*why_not*: why there is nothing to search in."""
        self._text = text
        self._why_not = why_not
        self._found = False

    def why_not_search(self) -> str | None:
        """A text can be searched unless there is a reason against it."""
        return self._why_not()

    def look_for(self, needle: str) -> None:
        """What `n` goes to, when something else than the prompt has said it."""
        self.needle, self._found = needle, True

    def stand_on_match(self, needle: str) -> bool:
        """Show the text at the first match of what was found elsewhere; `n` and `N` go on from it."""
        self.needle = needle
        self._found = self._text.find_first(needle)
        return self._found

    def typed(self, text: str) -> None:
        """Go to the first match while it is typed."""
        if text != self.needle:
            self.needle = text
            self._found = self._text.find(text)

    async def confirm(self, text: str) -> str | None:
        """Say so when there is no match, once it is all typed."""
        self.typed(text)
        return await self.go(forward=True) if text and not self._found else None

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the text."""
        if self.needle and not self._text.find(self.needle, forward=forward):
            return f"“{self.needle}” is not in this text."
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only once something was searched for."""
        return self._why_not() or super().why_not_next()


class LineFinder(Finder, Generic[K]):
    """Goes from line to line of a list whose text holds the words."""

    def __init__(
        self,
        view: Callable[[], LineView[K]],
        text_of: Callable[[K], str],
        *,
        label: str = "find: an id, or words of a line",
    ) -> None:
        """*view*: the list in front; *text_of*: what a line says, as far as that is known without reading."""
        self.label = label
        self._view = view
        self._text_of = text_of
        self._origin = 0  #: where the search began

    def begin(self) -> None:
        """Search from the cursor on."""
        self._origin = self._view().cursor

    def typed(self, text: str) -> None:
        """Go to the first line from the cursor on that holds it; back to where it began when none does."""
        self.needle = text
        keys = self._view().keys
        if text and not self._find(self._origin, 1) and self._origin < len(keys):
            self._view().select(keys[self._origin])

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        self.needle = text
        return f"No line contains “{text}”." if text and not self._find(self._origin, 1) else None

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the list."""
        step = 1 if forward else -1
        self._find(self._view().cursor + step, step)
        return None

    def _find(self, start: int, step: int) -> bool:
        view, sought = self._view(), sought_as(self.needle)
        count = len(view.keys)
        for at in range(start, start + step * count, step):
            key = view.keys[at % count]
            if sought in fold(self._text_of(key)):
                view.select(key)
                return True
        return False


class MarkingFinder(LineFinder[K]):
    """Goes from line to line, and has the words marked wherever they stand; `esc` takes the marks away.

    The list draws the marks (`needle`).
    """

    def __init__(
        self, view: Callable[[], LineView[K]], text_of: Callable[[K], str], *, label: str, none: str
    ) -> None:
        """*none*: what does not hold the words when no line does (``No message of this context``)."""
        super().__init__(view, text_of, label=label)
        self._none = none

    def typed(self, text: str) -> None:
        """Mark it, and go to the first line that holds it."""
        super().typed(text)
        self._view().redraw()

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        found = await super().confirm(text) is None
        self._view().redraw()
        return None if found else self._nothing()

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the list; say so when no line holds it any more."""
        step = 1 if forward else -1
        return None if self._find(self._view().cursor + step, step) else self._nothing()

    def leave(self) -> bool:
        """Take the marks away."""
        had, self.needle = bool(self.needle), ""
        self._view().redraw()
        return had

    def _nothing(self) -> str:
        return f"{self._none} holds “{self.needle}”."


# -- the list --------------------------------------------------------------------------------------------
# A heading, a line a key, perhaps a filter, perhaps a text beside it.
#
# A list says which columns there are, which keys contain some words, and what a key looks like. The cursor
# stays on its key over every reload and every filter.

ListK = TypeVar("ListK", bound=Hashable)

#: Rows that a list reads at a time.
PAGE: Final = 200
#: A limit that limits nothing.
ALL: Final = 2**62


class ListPane(Vertical, Still, Generic[ListK]):
    """A heading and a list under it."""

    BLANK: ClassVar[bool] = True  # what it holds covers it
    DEFAULT_CSS = """
    ListPane { height: 1fr; }
    """
    #: What the list says before anything was read.
    READING: ClassVar[str] = "Reading the database …"
    #: What the filter asks for; empty: there is none.
    FILTER: ClassVar[str] = ""
    #: Whether a key that passes the filter may look otherwise under another one: what is folded does.
    FILTER_CHANGES_LINES: ClassVar[bool] = False

    def __init__(
        self,
        *,
        changed: Callable[[], None] | None = None,
        id: str = "listed",  # noqa: A002 - Textual's own name for it
    ) -> None:
        """*changed* is called when the filter has listed other rows."""
        super().__init__(id=id)
        self._changed = changed
        self.table = LineView[ListK](self.draw, empty=self.READING, id="list")
        self.zone: tzinfo | None = None  #: of the times in it; None: that of this machine
        self.heading = Heading(
            self.layout_at, beyond=self.beyond, sorting=self.sorting, zone=lambda: self.zone, id="heading"
        )
        self.filter = Filter(self.FILTER, self.filter_changed, self.filter_begun)

    def compose(self) -> ComposeResult:
        """The heading and the list."""
        yield self.heading
        yield self.table

    # -- what a list says of itself --------------------------------------------------------------------

    @abstractmethod
    def columns(self) -> Sequence[Column]:
        """The columns; those are shown that have room."""

    @abstractmethod
    def cells(self, key: ListK) -> Mapping[str, Span]:
        """What stands in each column of a key's line."""

    @abstractmethod
    def matching(self, words: Sequence[str]) -> Sequence[ListK]:
        """The keys that hold every one of *words*, which are in lower case; in the order of the list."""

    @abstractmethod
    def why_empty(self) -> str:
        """What stands there when no key does."""

    def draw(self, key: ListK, width: int) -> Sequence[Line]:
        """What a key looks like: a row of cells, unless a list draws otherwise."""
        return (row_of(self.layout_at(width), self.cells(key)),)

    def beyond(self, width: int) -> str:
        """The sign of columns that stand at a side of those that have room."""
        return ""

    def sorting(self) -> Sorting | None:
        """By which column it is sorted; None: it has one order only."""
        return None

    def layout_at(self, width: int) -> Layout:
        """The columns that have room."""
        return lay_out(self.columns(), width)

    def keep_on(self, keys: Sequence[ListK]) -> ListK | None:
        """Where the cursor goes when these keys are listed; None: it stays on its key."""
        return None

    # -- listing -----------------------------------------------------------------------------------------

    def relist(self, *, changed: bool = True) -> None:
        """List what the filter lets through. *changed*: keys look different now."""
        keys = self.matching(self.filter.words)
        self.table.empty = self.why_empty()
        self.table.replace(keys, select=self.keep_on(keys), changed=changed)

    def filter_begun(self) -> None:
        """Somebody is about to type a filter."""

    def filter_changed(self) -> None:
        """The filter holds other words; a key that was listed before looks as it did."""
        self.relist(changed=self.FILTER_CHANGES_LINES)
        if self._changed is not None:
            self._changed()

    def counted(self, total: str) -> str:
        """How many there are, and how many of them the filter lets through."""
        return f"{len(self.table.keys):,} of {total} /{self.filter.needle}" if self.filter.needle else total


class Said(Generic[ListK]):
    """What each row of a list says, for its filter: put together once, until other rows are shown."""

    def __init__(self, text_of: Callable[[ListK], str]) -> None:
        self._text_of = text_of
        self._texts: dict[ListK, str] = {}  #: folded

    def forget(self) -> None:
        """Other rows are shown."""
        self._texts.clear()

    def passing(self, keys: Iterable[ListK], words: Sequence[str]) -> list[ListK]:
        """Those of *keys* whose rows hold every one of *words*, which are folded."""
        return [key for key in keys if all(word in self._text(key) for word in words)] if words else [*keys]

    def _text(self, key: ListK) -> str:
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = fold(self._text_of(key))
        return text


class Paging:
    """How many rows a list reads: a page more when its end comes into sight, all when a filter is on."""

    def __init__(self) -> None:
        self._limit = PAGE
        self._held = 0
        self._more = False

    def limit(self, pane: ListPane[ListK]) -> int:
        """How many rows to read."""
        return ALL if pane.filter.needle else self._limit

    def take(self, pane: ListPane[ListK], held: int, *, more: bool) -> bool:
        """So many rows were read; *more*: there are others. True: they are wanted, so read again."""
        self._held, self._more = held, more
        return more and bool(pane.filter.needle)  # typed while they were read

    def reached_end(self, pane: ListPane[ListK]) -> bool:
        """Other lines came into sight; True: the end did, and there is more to read."""
        if not (self._more and pane.table.at_end and self._limit <= self._held):
            return False
        self._limit += PAGE
        return True

    def begin(self) -> None:
        """Read the first page again."""
        self._limit = PAGE

    @property
    def more(self) -> bool:
        """Whether there are rows that were not read."""
        return self._more

    @property
    def count(self) -> str:
        """How many, as far as they were read."""
        return f"{self._held:,}{'+' if self._more else ''}"


def appeared(keys: Iterable[ListK], known: Container[ListK]) -> list[ListK]:
    """The keys that came on top of the *known* ones; what a further page brings is not new."""
    return list(takewhile(lambda key: key not in known, keys))


class Beside(TwoPanes):
    """A list and a text about what is selected: side by side where there is room, else below it."""

    def __init__(self, listed: ListPane[Any], text: TextView) -> None:
        super().__init__(listed, text)
        self._list = listed
        self._text = text
        self._in_text = TextFinder(text)

    @property
    def finder(self) -> Finder:
        """The filter of the list, or the search in the text when the keys are there."""
        return self._in_text if self._text.has_focus else self._list.filter


# -- marks -----------------------------------------------------------------------------------------------
# What an operator has marked in a list: ids, in the order in which they were marked.

MarkK = TypeVar("MarkK", bound=Hashable)

MARK: Final = "●"


class Marks(Generic[MarkK]):
    """The marked ids of one screen; they go with it."""

    def __init__(self, changed: Callable[[Sequence[MarkK]], None]) -> None:
        """*changed* gets the ids whose marks were set or taken away."""
        self._marked: dict[MarkK, None] = {}
        self._changed = changed

    def __contains__(self, key: object) -> bool:
        return key in self._marked

    def __len__(self) -> int:
        return len(self._marked)

    @property
    def keys(self) -> Sequence[MarkK]:
        """What is marked, in the order in which it was."""
        return tuple(self._marked)

    def turn(self, keys: Sequence[MarkK]) -> None:
        """Mark *keys*; when all of them are marked, take their marks away."""
        if all(key in self._marked for key in keys):
            for key in keys:
                del self._marked[key]
        else:
            self._marked.update(dict.fromkeys(keys))
        self._changed(keys)

    def keep(self, known: Collection[MarkK]) -> None:
        """Forget what is not there any more."""
        gone = [key for key in self._marked if key not in known]
        for key in gone:
            del self._marked[key]
        if gone:
            self._changed(gone)

    def clear(self) -> None:
        """Take all marks away: they have done their work."""
        gone = self.keys
        self._marked.clear()
        self._changed(gone)

    def chosen(self, selected: MarkK | None) -> list[MarkK]:
        """The marked ids; without marks the selected one."""
        return list(self._marked) or ([] if selected is None else [selected])

    @property
    def text(self) -> str:
        """How many are marked, for the title bar."""
        return f"{MARK} {len(self._marked):,} marked" if self._marked else ""


# -- the row in full -------------------------------------------------------------------------------------
# Below a list: what the row under the cursor says where its cells have no room for all of it.

#: Lines that it takes, whatever is said, so that the list stays as tall.
LINES: Final = 2


class WholeRow(Drawn):
    """Two lines, drawn again whenever it is refreshed."""

    DEFAULT_CSS = f"""
    WholeRow {{ height: {LINES}; width: 1fr; background: $surface; }}
    """

    def __init__(self, said: Callable[[], Line]) -> None:
        """*said*: what the selected row says, whole."""
        super().__init__(id="whole-row")
        self._said = said

    def render_line(self, y: int) -> Strip:
        """One of the lines; the last one ends in … when there is still more."""
        width = self.size.width
        wrapped = WrappedBlock(Block(spans=(Span(" "), *self._said()), indent=1), width)
        line = wrapped.line(y) if y < len(wrapped) else ()
        if y == LINES - 1 and len(wrapped) > LINES:
            line = (Span(clip(f"{text_of(line)} …", width)),)
        return strip_of(line, self.style_of, width)
