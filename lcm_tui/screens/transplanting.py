"""Choosing where a transplant goes: the other conversations, to be filtered; then its preview."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from lcm_core.change.commit import Committed
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import ConversationEntry
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.conversation_rows import COLUMNS, COUNTED, Row
from lcm_tui.widgets.spans import Column

SHOWN = tuple(column for column in COLUMNS if column.name not in COUNTED)

#: Gets the conversation that was copied into.
Done = Callable[[ConversationId], object]


class TargetScreen(ConversationList):
    """The conversations that another one can be transplanted into."""

    HELP = """
A transplant copies what one conversation remembers into another: the summaries in its context, with every
summary, message, part and large file below them. The conversation that is copied from stays as it is.

Choose where the copy goes. It comes to the front of that context, in order of time; the messages of the copy
come before the first one there, so that the host finds its own newest message where it left it. / filters the
list by words in any column; enter shows a preview, and nothing is changed before you apply it there.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open"))

    def __init__(self, source: Conversation, done: Done) -> None:
        super().__init__()
        self._source = source
        self._done = done

    def where(self) -> str:
        """What is copied."""
        source = self._source
        return f"Copy conversation {source.conversation_id}  {source.lane}  to the front of another"

    def show(self, data: list[ConversationEntry]) -> None:
        """Show all but the one that is copied."""
        self._rows = {
            entry.conversation.conversation_id: Row(entry)
            for entry in data
            if entry.conversation.conversation_id != self._source.conversation_id
        }
        self.relist()

    def columns(self) -> tuple[Column, ...]:
        """What tells conversations apart and costs nothing to know."""
        return SHOWN

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is one conversation only."""
        return "No conversation matches." if self._rows else "There is no other conversation."

    # -- going on ----------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The conversation's id."""
        return None if self.table.selected is None else str(self.table.selected)

    def why_not(self, command: str) -> str | None:
        """A preview needs a target."""
        if command == "open" and self.table.selected is None:
            return "no conversation is selected"
        return super().why_not(command)

    def action_open(self) -> None:
        """Preview the transplant into what is selected."""
        from lcm_tui.changes.transplant import transplanting

        selected = self.table.selected
        if not isinstance(selected, int):
            return
        source, target = self._source.conversation_id, ConversationId(selected)

        def then(_: tuple[Committed, ...]) -> None:
            if self.app.screen is self:
                self.app.pop_screen()
            self._done(target)

        self.open(places.Preview(transplanting(source, target, self.session.budget, then)))
