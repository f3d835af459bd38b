"""The list of conversations by what needs a look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lcm_core.engine_work import ConversationWork, DebtState, Need
from lcm_core.records import ConversationId

from lcm_tui.panes.listing import ListPane, Said
from lcm_tui.screens.engine.reads import Found
from lcm_tui.views.engine import NEEDS
from lcm_tui.widgets.spans import Column, Span, StyleName

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
