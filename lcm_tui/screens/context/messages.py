"""The messages of a context as the model gets them, as a list; the line above them stands for all."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from lcm_core.assemble.ledger import Ledger, MessageKey
from lcm_core.assemble.message import Origin
from lcm_core.context_items import ItemId
from lcm_core.operations.compaction.distance import Distance

from lcm_tui.panes.finding import MarkingFinder
from lcm_tui.panes.marks import MARK
from lcm_tui.screens.context.items import SEARCH
from lcm_tui.views.sent import account_document, account_line, message_document, searched_text, sent_line
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import Document, mark

#: The line above the messages that stands for all of them.
ACCOUNT: Final[MessageKey] = ("account", 0, 0)


class SentList(LineView[MessageKey]):
    """What an assembly sends, message by message."""

    def __init__(self, marks: Container[object]) -> None:
        """*marks* are the operator's."""
        super().__init__(self._row, empty="Assembling …", id="sent")
        self.finder = MarkingFinder[MessageKey](
            lambda: self, self._searched, label=SEARCH, none="No message of this context"
        )
        self._marks = marks
        self._ledger: Ledger | None = None

    def counted_keys(self) -> tuple[int, int]:
        """The messages, without the line above them."""
        return self.cursor, max(len(self.keys) - 1, 0)

    def show_sent(self, ledger: Ledger) -> None:
        """Show an assembly in place of the one before; while the list is hidden, only keep it."""
        self._ledger = ledger
        self.empty = "Nothing is sent."
        if self.display:
            self.replace((ACCOUNT, *ledger.keys))

    def select_ordinal(self, ordinal: int | None) -> None:
        """Stand on the message that is sent for the item at an ordinal; from the top where that fits."""
        ledger = self._ledger
        key = ledger.key_at(ordinal) if ledger is not None and ordinal is not None else None
        if ledger is not None:
            self.replace((ACCOUNT, *ledger.keys), select=key)
        self.call_after_refresh(self._begin_at_top)

    def _begin_at_top(self) -> None:
        if self.display and self.cursor < self.size.height:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def number(self) -> int | None:
        """The number of the selected message among those sent, from 0; None on the line above them."""
        key = self.selected
        return None if key is None or self._ledger is None else self._ledger.places.get(key)

    @property
    def origin(self) -> Origin | None:
        """What the selected message stands for."""
        return None if self.selected is None else self._origin_of(self.selected)

    def _origin_of(self, key: MessageKey) -> Origin | None:
        number = None if self._ledger is None else self._ledger.places.get(key)
        if number is None or self._ledger is None:
            return None
        return self._ledger.assembled.messages[number].origin

    @property
    def item(self) -> ItemId:
        """The item that it stands for; None for what was made up."""
        return None if self.selected is None else self.item_of(self.selected)

    def item_of(self, key: MessageKey) -> ItemId:
        """The item that a message was made from."""
        origin = self._origin_of(key)
        return None if origin is None else origin.summary_id or origin.message_id

    @property
    def ordinal(self) -> int | None:
        """The ordinal of the item that it stands for."""
        origin = self.origin
        return None if origin is None else origin.ordinal

    def document(self, distance: Distance | None, key: MessageKey | None = None) -> Document | None:
        """What is selected, or a *key*, to read; None while nothing is assembled.

        *distance*: to the next compaction.
        """
        ledger, key = self._ledger, self.selected if key is None else key
        if ledger is None:
            return None
        number = None if key is None else ledger.places.get(key)
        return account_document(ledger, distance) if number is None else message_document(ledger, number)

    # -- drawing -----------------------------------------------------------------------------------------

    def _row(self, key: MessageKey, width: int) -> Sequence[Line]:
        ledger = self._ledger
        if ledger is None:
            return ((),)
        if key == ACCOUNT:
            return (account_line(ledger, width),)
        at = ledger.places.get(key)
        if at is None:
            return ((),)
        marked = ledger.assembled.messages[at].origin.summary_id in self._marks
        return (mark(sent_line(ledger, at, width, MARK if marked else ""), self.finder.needle),)

    def _searched(self, key: MessageKey) -> str:
        message = self._ledger.message(key) if self._ledger is not None else None
        return "" if message is None else searched_text(message)
