"""The list of the summaries of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from lcm_core.context_view import depth_name
from lcm_core.operations.drafting.items import BatchItem
from lcm_core.records import SummaryId
from lcm_core.text import fold

from lcm_tui.panes.listing import ListPane
from lcm_tui.panes.marks import MARK, Marks
from lcm_tui.views.drafting import STATE_STYLES, reason_text, state_text, why_text
from lcm_tui.widgets.spans import Column, Layout, Span, depth_style, lay_out

COLUMNS: Final = (
    Column("mark", "", 1, keep=10),
    Column("summary", "summary", 20, keep=9),
    Column("depth", "kind", 4, right=True, keep=2),
    Column("reason", "reason", 13, keep=8),
    Column("state", "state", 9, keep=7),
    Column("tokens", "tokens", 6, right=True, keep=3),
    Column("draft", "draft", 9, right=True, keep=6),
    Column("why", "", 20, grows=True, keep=5),
)
#: Where a batch goes through several conversations.
OF_SEVERAL: Final = (*COLUMNS[:2], Column("conversation", "conv", 4, right=True, keep=7), *COLUMNS[2:])


class ItemList(ListPane[SummaryId]):
    """The summaries of a batch, sources before their consumers, each as far as it has come."""

    READING: ClassVar[str] = "Searching …"
    FILTER: ClassVar[str] = "words of an id, a reason or a state"

    def __init__(
        self,
        item_of: Callable[[SummaryId], BatchItem],
        marks: Marks[SummaryId],
        changed: Callable[[], None],
    ) -> None:
        """*item_of*: a summary as far as it has come at the moment; *changed*: the filter lists others."""
        super().__init__(changed=changed)
        self._item_of = item_of
        self._marks = marks
        self._keys: Sequence[SummaryId] = ()
        self._nothing = self.READING
        self._several = False  #: whether the batch goes through several conversations

    def show(self, keys: Sequence[SummaryId], *, nothing: str) -> None:
        """List a batch; *nothing* is said when it has no summary."""
        self._keys, self._nothing = keys, nothing
        self._several = len({self._item_of(key).conversation_id for key in keys}) > 1
        self.relist()

    @property
    def count_text(self) -> str:
        """How many the filter lets through; empty: there is no filter."""
        return self.counted(f"{len(self._keys):,}") if self.filter.needle else ""

    @property
    def item(self) -> BatchItem | None:
        """The selected summary, as far as it has come."""
        key = self.table.selected
        return None if key is None else self._item_of(key)

    def matching(self, words: Sequence[str]) -> Sequence[SummaryId]:
        """The summaries whose id, reason or state hold the words."""
        return [key for key in self._keys if all(word in self._text_of(key) for word in words)]

    def _text_of(self, key: SummaryId) -> str:
        item = self._item_of(key)
        return fold(f"{key} #{item.conversation_id} {item.reason} {state_text(item.state)}")

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is nothing."""
        return "No summary matches." if self._keys else self._nothing

    def columns(self) -> Sequence[Column]:
        """What is said of a summary; of which conversation it is where there are several."""
        return OF_SEVERAL if self._several else COLUMNS

    def layout_at(self, width: int) -> Layout:
        """The columns that have room; the id and the reason before the sentence, which the foot says too."""
        layout = super().layout_at(width)
        if layout.shows("summary"):
            return layout
        return lay_out([one for one in self.columns() if one.name != "why"], width)

    def cells(self, key: SummaryId) -> Mapping[str, Span]:
        """Whether it is marked, why it is to be written again, and how far it has come."""
        item = self._item_of(key)
        draft = item.draft or (item.drafts[-1] if item.drafts else None)
        marked = key in self._marks
        return {
            "mark": Span(MARK if marked else "○", "title" if marked else "dim"),
            "summary": Span(item.summary_id),
            "conversation": Span(str(item.conversation_id), "key"),
            "depth": Span(depth_name(item.depth), depth_style(item.depth)),
            "reason": Span(reason_text(item), "dim"),
            "state": Span(state_text(item.state), STATE_STYLES[item.state]),
            "tokens": Span(f"{item.tokens:,}", "dim"),
            "draft": Span("" if draft is None else f"{draft.tokens:,} tok"),
            "why": Span(why_text(item), "dim"),
        }
