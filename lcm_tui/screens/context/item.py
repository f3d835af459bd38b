"""One item of a context, whole: as text, and as it is wrapped for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lcm_core.context_items import ItemId
from lcm_core.records import Conversation, SummaryId
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.actions.drafts import rewrite_actions
from lcm_tui.actions.links import bound, item_links
from lcm_tui.commands import AS_SENT, STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.finding import Finder, TextFinder
from lcm_tui.views.item import ItemData, document, facts, load_item, name_of
from lcm_tui.widgets.text import Block, Document, TextView


class ItemScreen(DataScreen[ItemData]):
    """A summary or message of a context to read."""

    HELP = """
One item of the context: first its metadata, then its whole text. Opened from the list of items it also says
whether the model receives it under the budget, and if not, which step dropped it and why.

m switches to what the model receives: a summary in the wrapper of the engine version that wrote this
database, a message as its role and the blocks that the host sent. Later assembly steps (pairing of tool
calls, the budget) are not applied here: m on the list of items shows the messages after all steps.

"not recomputable" after a token count: the text that the engine counted is not in the database, so the count
cannot be verified.
"""
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = AS_SENT
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("other-view", "summaries", "previous", "messages", "rewrite", *STEPPED)
    )

    def __init__(
        self, conversation: Conversation, item: ItemId, *, wrapped: bool = False, fate: Document = ()
    ) -> None:
        """*fate*: whether the model receives it, as known on opening; it stays as it is."""
        super().__init__()
        self.conversation = conversation
        self.item = item
        self.text = TextView(empty="Reading the database …", id="text")
        self._finder = TextFinder(self.text)
        self._wrapped = wrapped
        self._fate = fate
        self._data: ItemData | None = None

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def actions(self) -> Sequence[Action]:
        """As text or as the model gets it, and where it leads to."""
        links = item_links(
            self, self.conversation, item=lambda: self.item, seq=self._seq, covered_by=self._covered_by
        )
        drafts = rewrite_actions(self, self.conversation, self._summary_id)
        return bound(self, Action("other-view", self._turn_wrapped), *links, *drafts)

    def where(self) -> str:
        """Which item."""
        return f"Context {self.conversation.conversation_id}  {name_of(self.item)}"

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self._finder

    def selected_id(self) -> str | None:
        """The item's id."""
        return None if self.item is None else str(self.item)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> ItemData:
        """Everything behind the item."""
        return await self.session.read(load_item, self.item)

    def show(self, data: ItemData) -> None:
        """Show it; of a row that is gone meanwhile, go on showing what was read."""
        gone = data.summary is None and data.message is None
        if gone and self._data is not None:
            self.title_bar.note = "its row is missing from the database"
            return
        self._data = data
        self._show_text(keep_place=True)

    def _show_text(self, *, keep_place: bool) -> None:
        if self._data is None:
            return
        body = document(self._data, self.session, wrapped=self._wrapped)
        self.title_bar.note = "as the model receives it" if self._wrapped else "as text"
        self.text.show((*facts(self._data, self.session), *self._fate, Block(), *body), keep_place=keep_place)

    def _turn_wrapped(self) -> None:
        """Switch between the text and what the model gets."""
        self._wrapped = not self._wrapped
        self._show_text(keep_place=False)
        self.refresh_bars()

    def go_on_from(self, before: CommandScreen) -> None:
        """As text, or as the model gets it."""
        if isinstance(before, ItemScreen):
            self._wrapped = before._wrapped

    def title_now(self, command: str) -> str:
        """`m` gives the other form."""
        return "As stored" if command == "other-view" and self._wrapped else super().title_now(command)

    # -- what is shown -----------------------------------------------------------------------------------

    def _summary_id(self) -> SummaryId | None:
        return SummaryId(self.item) if isinstance(self.item, str) else None

    def _seq(self) -> int | None:
        message = self._data.message if self._data is not None else None
        return None if message is None else message.message.seq

    def _covered_by(self) -> SummaryId | None:
        """A summary that covers the message."""
        message = self._data.message if self._data is not None else None
        return message.covered_by[0] if message and message.covered_by else None
