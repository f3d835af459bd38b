"""The engine's own state in this file, conversation by conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar, Final

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.values import Record
from lcm_core.operations.engine_work import ConversationWork, DebtState, EngineWork, Need, read_work
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import PreparedText, prepared_texts
from textual import on
from textual.app import ComposeResult

from lcm_tui.flows.changes import closing_debt
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Beside, Finder, ListPane, Said
from lcm_tui.kit.spans import Column, Span, StyleName
from lcm_tui.kit.text import TextView
from lcm_tui.screens.copying import Copies, of_conversation
from lcm_tui.screens.frame import here
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import moment_text
from lcm_tui.tables.engine import NEEDS, conversation_work_blocks, document_of, prepared_blocks

# -- what it reads ---------------------------------------------------------------------------------------


class Found(Record, frozen=True):
    """The state at a moment, by conversation; what needs a look first."""

    work: EngineWork
    by_id: dict[ConversationId, ConversationWork]


def clock() -> datetime:
    """The moment up to which ages and leases are counted."""
    return datetime.now(UTC)


async def load_work(reader: Reader, engine: EngineSettings) -> Found:
    """Everything but prepared texts, in one transaction."""
    work = await read_work(reader, engine, clock())
    return Found(work, {one.conversation_id: one for one in work.conversations})


async def load_texts(reader: Reader, one: ConversationWork) -> list[PreparedText]:
    """The prepared texts of one conversation."""
    return await prepared_texts(reader, [node for batch in one.batches for node in batch.nodes])


# -- the list --------------------------------------------------------------------------------------------
# Conversations, those first that need a look.

COLUMNS = (
    Column("mark", "", 1, keep=99),
    Column("id", "conv", 5, right=True, keep=98),
    Column("lane", "conversation", 12, grows=True, keep=97),
    Column("need", "needs a look", 38, keep=90),
    Column("debt", "debt", 10, keep=80),
    Column("prepared", "prepared", 8, keep=70),
)
#: Debt in one or two words: the text beside the list says more.
_DEBT: Mapping[DebtState, tuple[str, StyleName]] = {
    DebtState.NONE: ("–", "dim"),
    DebtState.DUE: ("due", "text"),
    DebtState.BELOW: ("not due", "dim"),
    DebtState.WAITS: ("waits", "text"),
    DebtState.FAILED: ("failed", "warn"),
    DebtState.RUNNING: ("running", "text"),
    DebtState.DIED: ("run died", "warn"),
    DebtState.CLOSED: ("closed", "dim"),
    DebtState.INACTIVE: ("historical", "dim"),
}


def _prepared(one: ConversationWork) -> Span:
    """How many nodes of the batch that is worked on have their text."""
    batch = one.batch
    if batch is None:
        return Span("–", "dim")
    return Span(f"{len(batch.prepared):,}/{len(batch.open):,}", "ok" if batch.publishable else "text")


class WorkList(ListPane[ConversationId]):
    """Conversations, what needs a look first."""

    FILTER = "words of a session key, a need, a debt"

    def __init__(self, changed: Callable[[], None], owner: ConversationId | None) -> None:
        """The cursor stands on *owner* at first."""
        super().__init__(changed=changed)
        self.found: Found | None = None
        self._said = Said(self._said_of)
        self._owner = owner

    def show(self, found: Found) -> None:
        """List what was read; the cursor stays on its conversation."""
        self.found = found
        self._said.forget()
        self.relist()

    @property
    def selected(self) -> ConversationWork | None:
        """The conversation under the cursor."""
        key = self.table.selected
        return self.found.by_id.get(key) if self.found is not None and key is not None else None

    def why_none(self) -> str | None:
        """Why nothing can be done with what is selected."""
        return "no conversation is selected" if self.selected is None else None

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[ConversationId]:
        """Those whose line holds every word."""
        return () if self.found is None else self._said.passing(self.found.by_id, words)

    def _said_of(self, key: ConversationId) -> str:
        return " ".join(one.text for one in self.cells(key).values())

    def keep_on(self, keys: Sequence[ConversationId]) -> ConversationId | None:
        """On the conversation that this was opened from, once."""
        wanted, self._owner = self._owner, None
        return wanted if wanted in keys else None

    def why_empty(self) -> str:
        """There are none, or the filter lets none through."""
        return "No conversation matches." if self.filter.needle else "This database contains no conversation."

    def columns(self) -> Sequence[Column]:
        """What is said of a conversation."""
        return COLUMNS

    def cells(self, key: ConversationId) -> Mapping[str, Span]:
        """A conversation in a line."""
        assert self.found is not None  # it has been listed
        one = self.found.by_id[key]
        need = NEEDS[one.need]
        words, style = _DEBT[one.debt]
        return {
            "mark": Span(" " if one.need is Need.NOTHING else "!", "warn"),
            "id": Span(str(key), "key"),
            "lane": Span(one.conversation.name),
            "need": Span(need or "–", "warn" if need else "dim"),
            "debt": Span(words, style),
            "prepared": _prepared(one),
        }


# -- the screen ------------------------------------------------------------------------------------------

#: How often ages and leases are counted again while nothing changes: a lease is a minute long.
LOOK_SECONDS: Final = 30.0


def _of_selected(key: Key[object], place: Callable[[Conversation], places.Place]) -> Key[EngineScreen]:
    """A key that opens a place of the selected conversation."""
    return key.does(lambda s: s._open_of_selected(place), lambda s: s.list.why_none())


class EngineScreen(DataScreen[Found]):
    """What the engine prepares, owes and has committed."""

    HELP = """
The 1.x engine prepares summaries in the background and publishes them when a context reaches its threshold.

! marks rows that need attention; they come first.

This screen shows what it stores for that: what is prepared or stuck, what would be published and what that
would replace, why a batch was lost, the compaction debt, how many messages are proven to come from the
transcript, and the last turn.

enter opens the prepared texts, which no model has received: they are not part of the conversation until they
are published. Where there are none, it opens what could be compacted now. x previews closing the debt of an
ended conversation, which no engine ever pays; this screen writes nothing else. Engines before 1.0 prepare
nothing.
"""

    def __init__(self, conversation: Conversation | None = None) -> None:
        """Stand on *conversation*."""
        super().__init__()
        owner = None if conversation is None else conversation.conversation_id
        self.list = WorkList(self._say_count, owner)
        self.text = TextView(id="text")
        self._panes = Beside(self.list, self.text)
        self._texts: tuple[ConversationId, Sequence[PreparedText]] | None = None  #: that are being read
        self._shown: tuple[ConversationId, bool] | None = None  #: whose state, or prepared texts, are shown

    def compose_body(self) -> ComposeResult:
        """The list, and the state of what is selected."""
        yield self._panes

    def on_mount(self) -> None:
        """Count ages again from time to time."""
        self.set_interval(LOOK_SECONDS, self._look_again)

    def where(self) -> str:
        """What this is about."""
        return "Engine"

    def main_widget(self) -> LineView[ConversationId]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter, or the search in the text when the keys are there."""
        return self._panes.finder

    def step_back(self) -> bool:
        """Leave what is prepared first."""
        if self.text.has_focus:
            self._texts = None
            self._show_text()
        return super().step_back()

    def selected_id(self) -> str | None:
        """The conversation's id."""
        return None if self.list.selected is None else str(self.list.selected.conversation_id)

    def copies(self) -> Copies | None:
        """The conversation."""
        number = self.selected_id()
        return None if number is None else of_conversation(ConversationId(int(number)))

    async def fetch(self) -> Found:
        """The state of all conversations."""
        return await self.session.read(load_work, self.session.settings.engine)

    def show(self, data: Found) -> None:
        """Show it; the cursor stays on its conversation."""
        self.list.show(data)
        self._say_count()
        self._show_text()

    def _look_again(self) -> None:
        if self.app.screen is self:
            self.load()

    def _say_count(self) -> None:
        found = self.list.found
        self.title_bar.note = "" if found is None else self.list.counted(f"{len(found.by_id):,}")

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        one, found = self.list.selected, self.list.found
        if one is None or found is None:
            self.text.show(())
            return
        texts: Sequence[PreparedText] = ()
        if self._texts is not None and self._texts[0] == one.conversation_id:
            texts = self._texts[1]
        blocks = prepared_blocks(texts) or conversation_work_blocks(self._when, found.work, one)
        shown = (one.conversation_id, bool(texts))
        self.text.show(document_of(blocks), keep_place=shown == self._shown)
        self._shown = shown

    def _when(self, stored: str | None) -> str | None:
        return None if stored is None else moment_text(stored, self.session.zone)

    # -- commands ----------------------------------------------------------------------------------------

    def _open_of_selected(self, place: Callable[[Conversation], places.Place]) -> None:
        if self.list.selected is not None:
            self.open(place(self.list.selected.conversation))

    def _opened(self) -> str:
        """What enter opens: nothing is prepared of most conversations, but each can be compacted."""
        one = self.list.selected
        nodes = () if one is None else (node for batch in one.batches for node in batch.nodes)
        return "Prepared" if any(node.has_text for node in nodes) else "Compact"

    async def _open(self) -> None:
        """Put the prepared texts in the place of the state, and the keys into them; else open Compact."""
        one = self.list.selected
        if one is None:
            return
        if self._opened() == "Compact":
            self.open(places.Compaction(one.conversation))
            return
        self._texts = (one.conversation_id, await self.session.read(load_texts, one))
        self._show_text()
        self.text.focus()

    def _why_no_closing(self) -> str | None:
        return self.list.why_none() if self.list.selected is None else why_no_closing(self.list.selected)

    def _close_debt(self) -> None:
        if self.list.selected is not None:
            self.open(places.Preview(closing_debt(self.list.selected.conversation)))

    KEYS: ClassVar[Sequence[Key[EngineScreen]]] = (
        commands.OPEN.does(
            _open,
            lambda s: s.list.why_none(),
            title="Prepared",
            help="Read the prepared texts of this conversation; without any, show what to compact.",
            title_now=_opened,
        ),
        commands.FIX.does(
            _close_debt,
            _why_no_closing,
            title="Close debt",
            help="Preview closing the debt of an ended conversation.",
        ),
        _of_selected(commands.CONTEXT, places.Context),
        _of_selected(commands.SUMMARIES, places.Summaries),
        _of_selected(commands.HEALTH, partial(places.Health, only=True)),
        _of_selected(commands.HISTORY, partial(places.History, only=True)),
        commands.SEARCH,
    )
    COMMON: ClassVar[Sequence[Key[EngineScreen]]] = (here(commands.ENGINE),)


def why_no_closing(one: ConversationWork) -> str | None:
    """Why its debt cannot be closed; None when it can."""
    if one.debt is DebtState.INACTIVE:
        return None
    if one.debt in (DebtState.NONE, DebtState.CLOSED):
        return "this conversation owes no compaction"
    if one.debt is DebtState.FAILED:
        return "it is active: once what failed works again, compact it"
    return "this conversation is active: its host pays the debt"
