"""One message as the model gets it, whole, or the account of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lcm_core.context_items import ItemId
from lcm_core.records import Conversation
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.actions.links import item_links
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.finding import Finder, TextFinder
from lcm_tui.widgets.text import Document, TextView


class SentScreen(CommandScreen):
    """What was assembled, to read; it stays as it was when it was opened."""

    HELP = """
One message as the model receives it under the budget: its role, its source, its tokens as sent and as stored,
its adjustments, then its text (a summary in its wrapper) or its blocks as JSON.

The first line of the messages opens the whole request: where the messages came from, whether the host may use
their size as the prompt size, the fresh tail, the prompt cache, what each step left out, every adjustment,
and what is added to the system prompt.

This view does not change when the database does.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("summaries", "previous", "messages", *STEPPED))

    def __init__(
        self,
        conversation: Conversation,
        name: str,
        document: Document,
        item: ItemId,
        seq: int | None,
        note: str,
    ) -> None:
        """*note*: under what it was sent."""
        super().__init__()
        self.conversation = conversation
        self.text = TextView(document, id="text")
        self._finder = TextFinder(self.text)
        self._name = name
        self._item = item
        self._seq = seq
        self._note = note

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def actions(self) -> Sequence[Action]:
        """Where it leads to; it is never read again."""
        links = item_links(self, self.conversation, item=lambda: self._item, seq=lambda: self._seq)
        return (*links, Action("reload", self._say_it_stays))

    def where(self) -> str:
        """Of which context, and what of it."""
        return f"Context {self.conversation.conversation_id}  {self._name}"

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self._finder

    def selected_id(self) -> str | None:
        """The id of what it stands for."""
        return None if self._item is None else str(self._item)

    def on_mount(self) -> None:
        """Say under what it was sent."""
        self.title_bar.note = self._note

    def _say_it_stays(self) -> None:
        """Another one is opened from the list."""
        self.app.notify("This view does not reload; go back and open it again.", timeout=4)
