"""What the messages of a conversation and the entries of a transcript have in common as a screen."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from textual import on
from textual.app import ComposeResult

from lcm_tui.frame import DataScreen
from lcm_tui.screens.message_list import MessageList
from lcm_tui.widgets.bars import TitleBar

D = TypeVar("D")


class MessageScreen(DataScreen[D]):
    """A list of messages that is longer than what is held of it, and searching in all of them.

    A message is addressed by its number, which orders the list.
    """

    def __init__(self) -> None:
        super().__init__()
        self._needle = ""
        self._extending = False
        self._opened_for_match: int | None = None

    # -- what the subclass says ------------------------------------------------------------------------------

    @abstractmethod
    async def extend(self, older: bool) -> None:
        """Read the next page at one end of the window and show it."""

    @abstractmethod
    async def go_to_end(self, first: bool) -> None:
        """Show the first or the last messages of all, and stand on the outermost."""

    @abstractmethod
    async def go_to(self, number: int) -> None:
        """Stand on a message, wherever it is."""

    @abstractmethod
    async def find(self, needle: str, start: int, forward: bool) -> int | None:
        """The nearest message after *start* (or before it) that holds *needle*."""

    @abstractmethod
    async def read_whole(self, number: int) -> None:
        """Read what was cut of an open message, and show it."""

    @abstractmethod
    def show_place(self) -> None:
        """Say in the title where one is."""

    # -- layout ----------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The list."""
        yield MessageList(empty="Reading …", id="messages")

    @property
    def messages(self) -> MessageList:
        """The list."""
        return self.query_one("#messages", MessageList)

    def main_widget(self) -> MessageList:
        """The list."""
        return self.messages

    def on_mount(self) -> None:
        """Give the list the keys."""
        self.messages.zone = self.session.zone
        self.messages.focus()

    # -- the window ------------------------------------------------------------------------------------------

    @on(MessageList.Highlighted)
    @on(MessageList.Scrolled)
    def _moved(self) -> None:
        self.messages.want_more()
        self.show_place()

    @on(MessageList.Wanted)
    def _wanted(self, event: MessageList.Wanted) -> None:
        self.work_on("extend", self._extend, event.older, exclusive=False)

    async def _extend(self, older: bool) -> None:
        if not self._extending:
            self._extending = True
            try:
                await self.extend(older)
            finally:
                self._extending = False

    @on(MessageList.End)
    def _end(self, event: MessageList.End) -> None:
        self.work_on("go", self.go_to_end, event.first)

    # -- opening ---------------------------------------------------------------------------------------------

    def why_not(self, command: str) -> str | None:
        """Most commands need a message, and a next match needs a search."""
        if command in {"open", "copy-id"} and self.messages.selected is None:
            return "no message is selected"
        if command in {"next", "previous-match"} and not self._needle:
            return "nothing has been searched for yet"
        return super().why_not(command)

    def toggle(self, number: int, *, opened: bool | None = None) -> None:
        """Open or fold a message; the rest of its text is read when it is opened."""
        if self.messages.toggle(number, opened=opened):
            self.work_on("whole", self.read_whole, number, exclusive=False)

    def action_open(self) -> None:
        """Open or fold the selected message."""
        if self.messages.selected is not None:
            self.toggle(self.messages.selected)

    def action_fold_all(self) -> None:
        """Fold every message."""
        self.messages.opened.clear()
        self.messages.redraw()

    @on(MessageList.Opened)
    async def _opened(self) -> None:
        await self.action_run("open")

    @on(MessageList.Sided)
    def _sided(self, event: MessageList.Sided) -> None:
        if event.key is not None:
            self.toggle(event.key, opened=event.side > 0)

    # -- searching -------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Ask what for."""
        self.open_prompt("search in all messages (toward older ones; n goes on, N back)", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """Search from the selected message on, toward older ones."""
        if done:
            self._needle = text
            self.messages.search_for(text)
            if text:
                self._search_from((self.messages.selected or 0) + 1, forward=False)

    def action_next(self) -> None:
        """The next match, toward older messages."""
        self._search_from(self.messages.selected or 0, forward=False)

    def action_previous_match(self) -> None:
        """The match before, toward newer messages."""
        self._search_from(self.messages.selected or 0, forward=True)

    async def action_back(self) -> None:
        """Close the prompt, end a search, then leave."""
        if self._needle and not self.asking:
            self._needle = ""
            self.messages.search_for("")
        else:
            await super().action_back()

    def _search_from(self, start: int, *, forward: bool) -> None:
        self.query_one(TitleBar).note = f"searching for {self._needle} …"
        self.work_on("go", self._search, start, forward)

    async def _search(self, start: int, forward: bool) -> None:
        needle = self._needle
        try:
            found = await self.find(needle, start, forward)
        finally:
            self.show_place()
        if found is None:
            where = "newer" if forward else "older"
            self.app.notify(f"No {where} message holds “{needle}”.", timeout=3)
            return
        if self._opened_for_match is not None:
            self.messages.toggle(self._opened_for_match, opened=False)
            self._opened_for_match = None
        await self.go_to(found)
        if not self.messages.show_match():  # it stands where a folded message shows nothing
            self._opened_for_match = found
            self.messages.toggle(found, opened=True)
            await self.read_whole(found)
            self.messages.show_match()
