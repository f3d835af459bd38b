"""Choosing where a transplant goes: the other conversations, to be filtered; then its preview."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from lcm_core.base.records import Conversation, ConversationId
from lcm_core.store.conversations import ConversationEntry, list_conversations
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.copying import Copies, of_conversation
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.conversation_rows import COLUMNS, COUNTED, RowKey

if TYPE_CHECKING:
    from lcm_core.change.commit import Committed

#: What tells conversations apart and costs nothing to know.
SHOWN = tuple(column for column in COLUMNS if column.name not in COUNTED)

#: Gets the conversation that was copied into.
Done = Callable[[ConversationId], object]


class TargetScreen(DataScreen[list[ConversationEntry]]):
    """The conversations that another one can be transplanted into."""

    HELP = """
A transplant copies the summaries in one context to another conversation, with every summary, message, part
and large file below them.

The source conversation does not change.

Choose the target. The copy is placed at the front of its context, in time order; the copied messages come
before its first message, so the host's newest message stays in place. / filters the list by words in any
column; enter opens a preview, and nothing changes before you apply it there.
"""

    def __init__(self, source: Conversation, done: Done) -> None:
        super().__init__()
        self._source = source
        self._done = done
        self._stood = False  #: on the first row that is proposed
        self.list = ConversationList(
            self._say_count,
            none="No other conversations.",
            columns=SHOWN,
            known=lambda: self.session.names,
        )

    def compose_body(self) -> ComposeResult:
        """The list alone."""
        yield self.list

    def where(self) -> str:
        """What is copied."""
        return f"Choose the target for {self.session.called(self._source)}"

    def main_widget(self) -> LineView[RowKey]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter."""
        return self.list.filter

    def selected_id(self) -> str | None:
        """The conversation's id."""
        return None if self.list.table.selected is None else str(self.list.table.selected)

    def copies(self) -> Copies | None:
        """The conversation."""
        number = self.selected_id()
        return None if number is None else of_conversation(ConversationId(int(number)))

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(list_conversations)

    def show(self, data: list[ConversationEntry]) -> None:
        """Show all but the one that is copied."""
        self.list.zone = self.session.zone
        source = self._source.conversation_id
        self.list.show([entry for entry in data if entry.conversation.conversation_id != source])
        if not self._stood:
            self._stood = True
            self._stand_on_successor([entry.conversation for entry in data])
        self._say_count()

    def _stand_on_successor(self, found: Sequence[Conversation]) -> None:
        """The cursor begins on the session that goes on with the one that is copied, where there is one."""
        key = self._source.session_key
        living = (one for one in found if key and one.session_key == key and one.active)
        successor = next((one.conversation_id for one in living), None)
        if successor is not None and successor != self._source.conversation_id:
            self.list.table.select(successor)

    def _say_count(self) -> None:
        self.title_bar.note = self.list.count

    def _preview(self) -> None:
        """Preview the transplant into what is selected."""
        from lcm_tui.flows.changes import transplanting

        if self.list.conversation is None:
            return
        source, target = self._source.conversation_id, self.list.conversation.conversation_id

        def then(_: tuple[Committed, ...]) -> None:
            if self.app.screen is self:
                self.app.pop_screen()
            self._done(target)

        self.open(places.Preview(transplanting(source, target, self.session.budget, then)))

    KEYS: ClassVar[Sequence[Key[TargetScreen]]] = (
        commands.OPEN.does(
            _preview,
            lambda s: s.list.why_no_conversation(),
            title="Choose",
            help="Preview the copy into the selected conversation.",
        ),
    )
