"""A context with its assembly: read and made behind the list, again when the budget or the file changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from lcm_core.assemble.ledger import Ledger, MessageKey, ledger_of
from lcm_core.context_view import Fetched, RowKey, stands_for_item
from lcm_core.engine_rules import CompactionRules
from lcm_core.errors import LcmError
from lcm_core.operations.compaction.forecast import Distance, distance_of
from lcm_core.records import Conversation
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.worker import Worker

from lcm_tui.frame import RELOAD_SECONDS
from lcm_tui.screens.context.list import WIDE, ContextList
from lcm_tui.screens.dissolving import MARK
from lcm_tui.views.context import columns, fate_at, same_fate
from lcm_tui.views.sent import (
    account_document,
    account_line,
    asked_line,
    counts_line,
    message_document,
    sent_columns,
    sent_line,
    shares_line,
)
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.panes import Columns, Rows
from lcm_tui.widgets.spans import Layout, Line, strip_of
from lcm_tui.widgets.text import Document, mark

if TYPE_CHECKING:
    from lcm_core.assemble.assembler import AssemblySettings
    from lcm_core.assembly import AssemblyBasis

#: The list comes first: so long after it the assembly begins.
OPENING_SECONDS: Final = 0.05
#: Under a host that writes without a pause, assembling takes at most one part of so many of the time.
SHARE_OF_TIME: Final = 4
#: The line above the messages that stands for all of them.
ACCOUNT: Final[MessageKey] = ("account", 0, 0)


class AccountBar(Drawn):
    """The head of an assembly: what is sent and left out; how it is spread, and when compaction comes.

    A third line says what else is asked for than the engine would do by itself, when there is such a thing.
    """

    DEFAULT_CSS = """
    AccountBar { height: 2; width: 1fr; background: $surface; }
    """

    def __init__(self, owner: AssembledContext) -> None:
        super().__init__(id="account")
        self._owner = owner
        self._said: dict[int, Line] = {}  #: what stands in each line

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        self._said[y] = self._line(y)
        return strip_of(self._said[y], self.style_of, self.size.width)

    def refresh_changed(self) -> None:
        """Draw again the lines that do not say any more what stands there."""
        for y in range(self.size.height):
            if self._said.get(y) != self._line(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _line(self, y: int) -> Line:
        owner, width = self._owner, self.size.width
        if y == 1:
            return shares_line(owner.ledger, owner.distance, width)
        if y:
            return asked_line(owner.ledger, owner.user_prompt, clamps=owner.clamps, width=width)
        return counts_line(owner.ledger, owner.problem, working=owner.outdated, width=width)


class AssembledContext(ContextList):
    """The items of a context with what becomes of each; in their place the messages as they are sent."""

    def __init__(self, conversation: Conversation, *, select: tuple[str, ...] | None = None) -> None:
        """The context of *conversation*, standing on ``("summary", id)`` or ``("message", id)``."""
        super().__init__(conversation, select=select)
        self.as_sent = False  #: the messages stand in place of the items
        self.account = AccountBar(self)
        self.sent = LineView[MessageKey](self._draw_sent, empty="Assembling …", id="sent")
        self.user_prompt = ""  #: what the user asks, as the operator typed it; empty: nothing
        self.clamps = True  #: with the engine's final clamp
        self.problem: str | None = None  #: why nothing could be assembled
        self.first: Ledger | None = None  #: the assembly as it was when the screen was opened
        self._basis: AssemblyBasis | None = None
        self._made_for: AssemblySettings | None = None  #: what `ledger` was assembled for
        self._changes = 0  #: how often the file may have changed
        self._read_at = -1  #: the value of `_changes` before the basis was read
        self._assembler: Worker[None] | None = None
        self._compaction: CompactionRules | None = None

    def compose_body(self) -> ComposeResult:
        """The head, the items or the messages, and the text of what is selected."""
        self.text.display = self.app.size.width >= WIDE
        self.sent.display = False
        yield self.head
        yield self.account
        with Columns(id="panes"):
            with Rows(id="chosen"):
                yield Heading(self._columns, id="heading")
                yield self.table
                yield self.sent
            yield self.text

    def _columns(self, width: int) -> Layout:
        return sent_columns(width) if self.as_sent else columns(width)

    def main_widget(self) -> LineView[RowKey]:
        """The list of items, or of messages: their keys look alike."""
        return self.sent if self.as_sent else self.table

    # -- the assembly --------------------------------------------------------------------------------------

    @property
    def assembling(self) -> bool:
        """Whether what is shown of the assembly is about to be replaced."""
        return self._assembler is not None and not self._assembler.is_finished

    @property
    def outdated(self) -> bool:
        """Whether what is shown of the assembly is of other settings than those that are asked for."""
        return self.assembling and not self._is_current()

    @property
    def distance(self) -> Distance | None:
        """How far the next compaction is; None while the context is being read."""
        totals = self.known.totals
        if totals is None:
            return None
        if self._compaction is None:
            self._compaction = self.session.rules.compaction
        return distance_of(totals, self._compaction, self.asked_budget())

    def asked_budget(self) -> int:
        """The budget that the engine would take: what is asked for, under the cap that is configured."""
        cap = self.session.settings.engine.max_assembly_token_budget.value
        return self.session.budget if cap is None else min(self.session.budget, cap)

    def assembly_settings(self, budget: int | None = None) -> AssemblySettings:
        """How the model's messages are assembled under a *budget*, by default the one that is set."""
        from lcm_core.assembly import settings_for

        asked = self.session.budget if budget is None else budget
        engine = self.session.settings.engine
        return settings_for(engine, asked, self.user_prompt or None, clamp=self.clamps)

    def show(self, data: Fetched) -> None:
        """Show the items; then assemble them."""
        super().show(data)
        if data.view.items.complete:
            self._changes += 1
            if not self.assembling:
                self._assembler = self.work_on("assembly", self._assemble, OPENING_SECONDS)

    def show_known(self, select: RowKey | None = None, alike: Iterable[RowKey] = ()) -> None:
        """Show what is known now; how far the next compaction is follows from it."""
        super().show_known(select, alike)
        self.account.refresh_changed()

    def rebudget(self) -> None:
        """The budget, the prompt or the clamp has changed: assemble at once; what runs is for another one."""
        self.account.styles.height = 2 if self.clamps and not self.user_prompt else 3
        self.show_known()
        if self._loaded:
            self._assembler = self.work_on("assembly", self._assemble, 0.0)
            self.account.refresh_changed()

    async def _assemble(self, pause: float) -> None:
        """Assemble until what is shown is of this budget and of the file as it is."""
        await asyncio.sleep(pause)
        try:
            while True:
                if self._is_current():  # only the file has changed: keys come first
                    await self.calm()
                began = time.monotonic()
                await self._assemble_once()
                if self._read_at == self._changes and self._is_current():
                    break
                await asyncio.sleep(max(RELOAD_SECONDS, (SHARE_OF_TIME - 1) * (time.monotonic() - began)))
        except LcmError as error:
            self.problem = error.message
            self.account.refresh_changed()
            raise
        finally:
            self.call_later(self.account.refresh_changed)

    def _is_current(self) -> bool:
        return self.ledger is not None and self._made_for == self.assembly_settings()

    async def _assemble_once(self) -> None:
        from lcm_core.assembly import assembly_basis

        settings, basis = self.assembly_settings(), self._basis
        if (
            basis is None
            or not basis.serves(settings)
            or (self._read_at != self._changes and self._is_current())
        ):
            changes = self._changes
            zone = self.session.zone
            read = await self.session.read(
                assembly_basis, self._conversation_id, settings, zone=zone, known=basis
            )
            self._basis, self._read_at = read, changes
            if read == basis and settings == self._made_for and self.problem is None:
                return  # what was written is of another conversation
            basis = read
        self._adopt(await asyncio.to_thread(_made, basis, settings), settings)

    def _adopt(self, ledger: Ledger, settings: AssemblySettings) -> None:
        """Show an assembly in place of the one before."""
        if not self.table.is_attached:
            return
        known, before = self.known, self.ledger
        alike = [
            key
            for key, _, place in self._rows_as_old()
            if same_fate(fate_at(known, place, before), fate_at(known, place, ledger))
        ]
        self.ledger, self.problem, self._made_for = ledger, None, settings
        self.first = self.first or ledger
        self.account.refresh_changed()
        self.sent.empty = "Nothing is sent."
        if self.as_sent:
            self.sent.replace((ACCOUNT, *ledger.keys))
        else:
            self.table.redraw(alike=alike)
            self.show_text()
        self.refresh_bars()

    # -- the messages ----------------------------------------------------------------------------------------

    def action_wrapped(self) -> None:
        """Switch between the items and the messages as they are sent, staying at the same place."""
        ledger, at = self.ledger, self.ordinal()
        self.as_sent = not self.as_sent
        self.table.display, self.sent.display = not self.as_sent, self.as_sent
        if self.as_sent:
            key = ledger.key_at(at) if ledger is not None and at is not None else None
            self.sent.replace((ACCOUNT, *ledger.keys) if ledger is not None else (), select=key)
        else:
            self.table.redraw()  # what becomes of the items may have changed meanwhile
            self._stand_at(at)
        self.main_widget().focus()
        self.call_after_refresh(self._begin_at_top)
        self.query_one("#heading", Heading).refresh()
        self.show_text()
        self.refresh_bars()

    def _begin_at_top(self) -> None:
        """Show the messages from the first one on when the selected one is in sight then, too."""
        if self.as_sent and self.sent.cursor < self.sent.size.height:
            self.sent.scroll_to(y=0, animate=False, immediate=True, force=True)

    def ordinal(self) -> int | None:
        """The ordinal of the item that is selected, itself or as the message it is sent as."""
        if self.as_sent:
            at = self.sent_place()
            return (
                None
                if at is None or self.ledger is None
                else self.ledger.assembled.messages[at].origin.ordinal
            )
        place = self.place_of(self.table.selected)
        return None if place is None else self.known.view.items.ordinals[place]

    def _stand_at(self, ordinal: int | None) -> None:
        """Select the item at an ordinal, when it is still there."""
        view = self.known.view
        for key, place in zip(view.keys, view.places, strict=True) if ordinal is not None else ():
            if stands_for_item(key) and view.items.ordinals[place] == ordinal:
                self.table.select(key)
                return

    def sent_place(self) -> int | None:
        """The place of the selected message among those that are sent; None on the line above them."""
        key = self.sent.selected
        return None if key is None or self.ledger is None else self.ledger.places.get(key)

    def sent_document(self) -> Document | None:
        """What is selected among the messages, to read; None while nothing is assembled."""
        if self.ledger is None:
            return None
        at = self.sent_place()
        return (
            account_document(self.ledger, self.distance) if at is None else message_document(self.ledger, at)
        )

    def _draw_sent(self, key: MessageKey, width: int) -> Sequence[Line]:
        ledger = self.ledger
        if ledger is None:
            return ((),)
        if key == ACCOUNT:
            return (account_line(ledger, width),)
        at = ledger.places.get(key)
        if at is None:
            return ((),)
        marked = ledger.assembled.messages[at].origin.summary_id in self.marks
        line = sent_line(ledger, at, width, MARK if marked else "")
        return (mark(line, self._needle) if self._needle else line,)


def _made(basis: AssemblyBasis, settings: AssemblySettings) -> Ledger:
    return ledger_of(basis.assembled(settings))
