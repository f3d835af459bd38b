"""One message as the model gets it, whole, or the account of all of them."""

from __future__ import annotations

from typing import ClassVar

from lcm_core.context_items import ItemId
from lcm_core.records import Conversation
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.item_links import ItemLinks
from lcm_tui.screens.text_search import TextSearch
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.text import Document, TextView


class SentScreen(TextSearch, ItemLinks):
    """What was assembled, to read; it stays as it was when it was opened."""

    HELP = """
One message as the model gets it under the budget: its role, what it stands for, what it weighs as it is sent
and as it is stored, what was mended, then its text (a summary in its wrapper) or its blocks as JSON.

Opened on the first line of the messages it is the account of all of them: where they came from, whether the
host may take their size for the size of the prompt, the fresh tail, the prompt cache, what was left out in
which step, everything that was mended, and what is added to the system prompt.

It stays as it was when it was opened, also when the file changes.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("summaries", "previous", "messages"))

    def __init__(
        self,
        conversation: Conversation,
        name: str,
        document: Document,
        item: ItemId,
        seq: int | None,
        note: str = "",
    ) -> None:
        """*note*: under what it was sent, by default the budget that is set."""
        super().__init__()
        self._note = note
        self.conversation = conversation
        self._name = name
        self._document = document
        self._item = item
        self._seq = seq

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield TextView(self._document, id="text")

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def on_mount(self) -> None:
        """Say what this is."""
        bar = self.query_one(TitleBar)
        bar.where = f"Context {self.conversation.conversation_id}  {self._name}"
        bar.note = self._note or f"as sent under {self.session.budget:,} tokens"
        self.text.focus()

    def action_reload(self) -> None:
        """It stays as it was: another one is opened from the list."""
        self.app.notify("This stays as it was when it was opened; go back and open it again.", timeout=4)

    def selected_id(self) -> str | None:
        """The id of what it stands for."""
        return None if self._item is None else str(self._item)

    def linked_item(self) -> ItemId:
        """What it stands for."""
        return self._item

    def linked_seq(self) -> int | None:
        """The seq of the message."""
        return self._seq
