"""Screens around one list: a heading, a line a key, perhaps a filter, perhaps a text beside it.

A screen says which columns there are, which keys hold some words, and what a key looks like. The cursor stays
on its key over every reload and every filter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from lcm_tui.frame import CommandScreen
from lcm_tui.screens.text_search import TextSearch
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Layout, Line, Span, lay_out, row_of
from lcm_tui.widgets.text import TextView

K = TypeVar("K", bound=Hashable)

#: From this width on, list and text stand side by side.
BREAKPOINTS = [(0, "-narrow"), (130, "-wide")]


class ListScreen(CommandScreen, Generic[K]):
    """A heading and a list under it."""

    #: What the list says before anything was read.
    READING: ClassVar[str] = "Reading the database …"

    @abstractmethod
    def where(self) -> str:
        """What the title bar calls this place."""

    @abstractmethod
    def columns(self) -> Sequence[Column]:
        """The columns; those are shown that have room."""

    @abstractmethod
    def cells(self, key: K) -> dict[str, Span]:
        """What stands in each column of a key's line."""

    def draw(self, key: K, width: int) -> Sequence[Line]:
        """What a key looks like: a row of cells, unless a screen draws otherwise."""
        return (row_of(self._layout(width), self.cells(key)),)

    def compose_body(self) -> ComposeResult:
        """The heading and the list."""
        yield Heading(self._layout, beyond=self.beyond, id="heading")
        yield LineView[K](self.draw, empty=self.READING, id="list")

    def beyond(self, width: int) -> str:
        """The sign of columns that stand at a side of those that have room."""
        return ""

    def _layout(self, width: int) -> Layout:
        return lay_out(self.columns(), width)

    @property
    def table(self) -> LineView[K]:
        """The list."""
        return self.query_one("#list", LineView)

    def main_widget(self) -> LineView[K]:
        """The list."""
        return self.table

    def on_mount(self) -> None:
        """Say where this is, and give the keys to the list."""
        self.say_where()
        self.table.focus()

    def say_where(self) -> None:
        """Say in the title bar where this is."""
        self.query_one(TitleBar).where = self.where()

    @on(LineView.Opened, "#list")
    async def _opened_a_key(self) -> None:
        await self.action_run("open")

    @on(LineView.Highlighted, "#list")
    def _highlighted_a_key(self) -> None:
        self.refresh_bars()


class FilterScreen(ListScreen[K]):
    """A list that `/` filters as you type; `esc` takes the filter away before it leaves."""

    #: What the filter asks for.
    FILTER: ClassVar[str]

    _filter = ""

    @abstractmethod
    def matching(self, words: Sequence[str]) -> Sequence[K]:
        """The keys that hold every one of *words*, which are in lower case; in the order of the list."""

    @abstractmethod
    def why_empty(self) -> str:
        """What stands there when no key does."""

    @abstractmethod
    def note(self) -> str:
        """What the title bar says of the list."""

    def counted(self, total: str) -> str:
        """How many there are, and how many of them the filter lets through."""
        return f"{len(self.table.keys):,} of {total} /{self._filter}" if self._filter else total

    def standing(self, keys: Sequence[K]) -> K | None:
        """Where the cursor goes when these keys are listed; None: it stays on its key."""
        return None

    def relist(self, *, changed: bool = True) -> None:
        """List what the filter lets through. *changed*: keys look different now."""
        keys = self.matching(self._filter.casefold().split())
        self.table.empty = self.why_empty()
        self.table.replace(keys, select=self.standing(keys), changed=changed)
        self.say_note()

    def say_note(self) -> None:
        """Say in the title bar what is listed."""
        self.query_one(TitleBar).note = self.note()

    def filter_by(self, text: str) -> None:
        """Filter by other words."""
        if text != self._filter:
            self._filter = text
            self.relist()

    def action_search(self) -> None:
        """Filter as you type."""
        self.open_prompt(f"filter: {self.FILTER}", self._filter)

    def answered(self, text: str, *, done: bool) -> None:
        """The filter changed."""
        self.filter_by(text)

    async def action_back(self) -> None:
        """Take the filter away first."""
        if not self.asking and not self._filter:
            await super().action_back()
            return
        if self.asking:
            self.close_prompt()
        self.filter_by("")


class TextScreen(TextSearch, ListScreen[K]):
    """A list above a text about what is selected; `enter` goes into the text, `esc` out of it again."""

    def compose_body(self) -> ComposeResult:
        """The list, and the text below it."""
        yield from super().compose_body()
        yield TextView(id="text")

    def action_open(self) -> None:
        """Go into the text."""
        self.text.focus()

    async def action_back(self) -> None:
        """Leave the text first."""
        if self.text.has_focus:
            self.table.focus()
        else:
            await super().action_back()


class PanedScreen(TextScreen[K], FilterScreen[K]):
    """A list with a text about what is selected, beside it where there is room, else below it.

    `/` filters the list when the keys are there, and searches in the text when they are in the text.
    """

    HORIZONTAL_BREAKPOINTS = BREAKPOINTS
    DEFAULT_CSS = """
    PanedScreen {
        #panes { layout: vertical; height: 1fr; }
        #listed { height: 3fr; min-height: 3; }
        #text { height: 2fr; padding-left: 1; border-top: solid $foreground 30%; }
        #text:focus { border-top: solid $accent; }
        &.-wide #panes { layout: horizontal; }
        &.-wide #listed { width: 3fr; height: 1fr; }
        &.-wide #text { width: 2fr; height: 1fr; border-top: none; border-left: solid $foreground 30%; }
        &.-wide #text:focus { border-left: solid $accent; }
    }
    """

    _filtering = False  #: whether the prompt is that of the filter, not of the text's search

    def compose_body(self) -> ComposeResult:
        """The list, and the text beside or below it."""
        with Vertical(id="panes"):
            with Vertical(id="listed"):
                yield from ListScreen.compose_body(self)
            yield TextView(id="text")

    def action_search(self) -> None:
        """Filter the list, or search in the text when the keys are there."""
        self._filtering = not self.text.has_focus
        self._asked_from = None
        (FilterScreen if self._filtering else TextSearch).action_search(self)

    def answered(self, text: str, *, done: bool) -> None:
        """The filter, or what is searched for, changed."""
        (FilterScreen if self._filtering else TextSearch).answered(self, text, done=done)

    async def action_back(self) -> None:
        """Leave the search in the text and the text, then take the filter away, then leave the screen."""
        if self.asking and not self._filtering:
            self.close_prompt()
        else:
            await super().action_back()
