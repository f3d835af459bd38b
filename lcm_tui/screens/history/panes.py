"""The list of operations: a line each, or one for a batch that unfolds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo

from lcm_core.change.journal import Operation

from lcm_tui.panes.listing import ListPane, appeared
from lcm_tui.screens.history.reads import History, when_of
from lcm_tui.widgets.spans import Column, Span

COLUMNS = (
    Column("sign", "", 1, keep=99),
    Column("when", "when", 16, keep=95),
    Column("conversation", "conv", 5, right=True, keep=80),
    Column("tokens", "tokens", 9, right=True, keep=70),
    Column("rows", "rows", 6, right=True, keep=60),
    Column("what", "what", 26, grows=True, keep=98),
    Column("undone", "", 7, keep=90),
    Column("id", "id", 19, keep=30),
)


class OperationList(ListPane[str]):
    """Operations, newest first; a key is the id of an operation or of a batch."""

    FILTER = "words of what was done, its kind, time or id"

    def __init__(self, changed: Callable[[], None]) -> None:
        """*changed* is called when the filter has listed other operations."""
        super().__init__(changed=changed)
        self.history = History()
        self.narrowed = False  #: to one conversation
        self.zone: tzinfo | None = None
        self._unfolded: set[str] = set()
        self._listed = False

    def show(self, history: History) -> None:
        """List what was read; the cursor stays on its operation, and new ones are marked."""
        known, self.history = self.history.by_id, history
        self.relist()
        if self._listed:
            self.table.mark_fresh(appeared(history.by_id, known))
        self._listed = True

    def begin_anew(self) -> None:
        """The next list is another one: nothing in it is new."""
        self._listed = False

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def whole(self) -> Sequence[Operation]:
        """The operations of the selected batch; none when it is no batch."""
        return self.history.batches.get(self.table.selected or "", ())

    @property
    def operation(self) -> Operation | None:
        """The selected operation; of a batch its newest."""
        return self.whole[0] if self.whole else self.history.by_id.get(self.table.selected or "")

    def why_no_operation(self) -> str | None:
        """Why nothing can be done with what is selected."""
        return "no operation is selected" if self.operation is None else None

    def fold(self) -> bool:
        """Unfold the selected batch, or fold it; False when it is no batch."""
        if not self.whole:
            return False
        self._unfolded ^= {self.whole[0].batch or ""}
        self.relist()
        return True

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The operations that hold the words, and the batches that hold one of them."""
        found: dict[str, None] = {}
        for key, one in self.history.by_id.items():
            text = f"{one.id} {one.kind} {one.title} {when_of(one, self.zone)} {one.batch or ''}".casefold()
            if not all(word in text for word in words):
                continue
            if one.batch is not None and one.batch in self.history.batches:
                found[one.batch] = None
                if one.batch not in self._unfolded:
                    continue
            found[key] = None
        return list(found)

    def why_empty(self) -> str:
        """Nothing passes the filter, or nothing was changed."""
        if self.history.operations:
            return "No operation matches."
        if self.narrowed:
            return "Nothing was changed in this conversation by lcm-tui. T shows all conversations."
        return "Nothing was changed by lcm-tui. Each change will stand here, and u takes it back."

    def columns(self) -> Sequence[Column]:
        """What is said of an operation."""
        return COLUMNS

    def cells(self, key: str) -> Mapping[str, Span]:
        """When, where, how much and what; in grey what does not hold any more."""
        batch = self.history.batches.get(key)
        if batch is not None:
            return self._batch_cells(key, batch)
        one = self.history.by_id[key]
        holds = self.history.holds(one)
        return {
            **self._numbers((one,)),
            "sign": Span("" if holds else "↶", "warn"),
            "what": Span(
                f"{'  ' if one.batch in self.history.batches else ''}{one.title}",
                "text" if holds else "dim",
            ),
            "undone": Span("" if holds else "undone", "warn"),
            "id": Span(one.id, "key"),
        }

    def _batch_cells(self, name: str, batch: Sequence[Operation]) -> Mapping[str, Span]:
        """A batch in one line: its sums, and whether all, some or none of it holds."""
        holding = sum(map(self.history.holds, batch))
        state = "" if holding == len(batch) else "undone" if not holding else "in part"
        return {
            **self._numbers(batch),
            "sign": Span("▾" if name in self._unfolded else "▸", "key"),
            "what": Span(f"{len(batch):,} operations: {batch[0].title}", "text" if holding else "dim"),
            "undone": Span(state, "warn"),
            "id": Span(name, "key"),
        }

    def _numbers(self, found: Sequence[Operation]) -> Mapping[str, Span]:
        """When the newest was committed, whose they are, and what they add up to."""
        owners = {one.conversation_id for one in found}
        tokens = sum(one.tokens for one in found)
        touched = sum(count.insert + count.update + count.delete for one in found for count in one.rows)
        owner = owners.pop() if len(owners) == 1 else None
        return {
            "when": Span(when_of(found[0], self.zone)[:16], "dim"),
            "conversation": Span("" if owner is None else str(owner)),
            "tokens": Span(f"{tokens:+,}" if tokens else "0"),
            "rows": Span(f"{touched:,}", "dim"),
        }
