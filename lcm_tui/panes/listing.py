"""A list as a pane: a heading, a line a key, perhaps a filter, perhaps a text beside it.

A list says which columns there are, which keys hold some words, and what a key looks like. The cursor stays
on its key over every reload and every filter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from datetime import tzinfo
from itertools import takewhile
from typing import Any, ClassVar, Final, Generic, TypeVar

from lcm_core.text import fold
from textual.app import ComposeResult
from textual.containers import Vertical

from lcm_tui.panes.finding import Filter, Finder, TextFinder
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.drawn import Still
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Layout, Line, Sorting, Span, lay_out, row_of
from lcm_tui.widgets.text import TextView
from lcm_tui.widgets.two_panes import TwoPanes

K = TypeVar("K", bound=Hashable)

#: Rows that a list reads at a time.
PAGE: Final = 200
#: A limit that limits nothing.
ALL: Final = 2**62


class ListPane(Vertical, Still, Generic[K]):
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
        self.table = LineView[K](self.draw, empty=self.READING, id="list")
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
    def cells(self, key: K) -> Mapping[str, Span]:
        """What stands in each column of a key's line."""

    @abstractmethod
    def matching(self, words: Sequence[str]) -> Sequence[K]:
        """The keys that hold every one of *words*, which are in lower case; in the order of the list."""

    @abstractmethod
    def why_empty(self) -> str:
        """What stands there when no key does."""

    def draw(self, key: K, width: int) -> Sequence[Line]:
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

    def keep_on(self, keys: Sequence[K]) -> K | None:
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


class Said(Generic[K]):
    """What each row of a list says, for its filter: put together once, until other rows are shown."""

    def __init__(self, text_of: Callable[[K], str]) -> None:
        self._text_of = text_of
        self._texts: dict[K, str] = {}  #: folded

    def forget(self) -> None:
        """Other rows are shown."""
        self._texts.clear()

    def passing(self, keys: Iterable[K], words: Sequence[str]) -> list[K]:
        """Those of *keys* whose rows hold every one of *words*, which are folded."""
        return [key for key in keys if all(word in self._text(key) for word in words)] if words else [*keys]

    def _text(self, key: K) -> str:
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

    def limit(self, pane: ListPane[K]) -> int:
        """How many rows to read."""
        return ALL if pane.filter.needle else self._limit

    def take(self, pane: ListPane[K], held: int, *, more: bool) -> bool:
        """So many rows were read; *more*: there are others. True: they are wanted, so read again."""
        self._held, self._more = held, more
        return more and bool(pane.filter.needle)  # typed while they were read

    def reached_end(self, pane: ListPane[K]) -> bool:
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


def appeared(keys: Iterable[K], known: Container[K]) -> list[K]:
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

    def leave_text(self) -> bool:
        """Give the keys back to the list; False when it has them."""
        if not self._text.has_focus:
            return False
        self._list.table.focus()
        return True
