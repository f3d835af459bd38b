"""The list of snapshots, and the messages of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.context_items import ItemId
from lcm_core.store.assemblies import DamagedSnapshot, Snapshot

from lcm_tui.panes.finding import MarkingFinder
from lcm_tui.panes.listing import ListPane, Said
from lcm_tui.panes.marks import MARK, Marks
from lcm_tui.screens.snapshots.reads import Listed, Rebuilt, when_of
from lcm_tui.views.sent import fitted, message_document, searched_text
from lcm_tui.views.snapshot import (
    how_true,
    lost_document,
    noted_document,
    snapshot_line,
    value_of,
    whole_document,
)
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Line, Span
from lcm_tui.widgets.text import Block, Document, mark

EMPTY: Final = "No snapshots of this context."
WHO: Final = (
    "Only hosts using lcm_core's Python engine save snapshots (the newest 20 of each conversation). To "
    "compare with an earlier time without one, use a backup: lcm-tui context compare ID --db-b BACKUP."
)

COLUMNS: Final = (
    Column("mark", "", 1, keep=99),
    Column("time", "sent at", 19, keep=95, timed="at"),
    Column("budget", "budget", 8, right=True, keep=94),
    Column("tokens", "tokens", 8, right=True, keep=93),
    Column("messages", "messages", 8, right=True, keep=85),
    Column("evicted", "not sent", 8, right=True, keep=80),
    Column("source", "source", 14, keep=70),
    Column("rules", "rules", 5, keep=20),
    Column("cache", "cache", 8, keep=30),
    Column("selection", "selection", 13, keep=15),
    Column("id", "id", 20, keep=90),
)

#: The line above the messages of a snapshot, for all of them.
WHOLE: Final = -1


class SnapshotList(ListPane[str]):
    """Snapshots by their ids, newest first; two can be marked to be compared."""

    FILTER: ClassVar[str] = "a time, a budget, a source or an id"

    def __init__(self, changed: Callable[[], None]) -> None:
        """*changed* is called when the filter has listed other snapshots, or others are marked."""
        super().__init__(changed=changed)
        self.by_id: Mapping[str, Listed] = MappingProxyType({})
        self._said = Said(self._said_of)
        self.marks = Marks[str](self._marked)
        self._listed = False

    def show(self, snapshots: Sequence[Listed]) -> None:
        """List what was read; the cursor stays on its snapshot, and new ones are marked as new."""
        known, self.by_id = self.by_id, {one.id: one for one in snapshots}
        self._said.forget()
        self.marks.keep([one.id for one in snapshots if isinstance(one, Snapshot)])
        self.relist()
        if self._listed:
            self.table.mark_fresh([one for one in self.by_id if one not in known])
        self._listed = True

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def selected(self) -> Listed | None:
        """The snapshot under the cursor."""
        return self.by_id.get(self.table.selected or "")

    @property
    def compared(self) -> Sequence[Snapshot]:
        """What is to be compared, the older first: the two that are marked, else the one under the cursor."""
        marked = [one for key, one in self.by_id.items() if key in self.marks and isinstance(one, Snapshot)]
        if len(marked) == 2:
            return marked[::-1]
        return [self.selected] if isinstance(self.selected, Snapshot) else []

    def why_not_selected(self) -> str | None:
        """Why nothing can be done with the one under the cursor."""
        if self.selected is None:
            return "no snapshot is selected"
        return "this snapshot is damaged" if isinstance(self.selected, DamagedSnapshot) else None

    def why_not_compared(self) -> str | None:
        """One is compared with now, or two with each other."""
        if len(self.marks) > 2:
            return "more than two are marked: only two can be compared"
        return None if len(self.marks) == 2 else self.why_not_selected()

    def document(self) -> Document:
        """What was noted of the one under the cursor; without any, who would keep one."""
        one = self.selected
        if isinstance(one, DamagedSnapshot):
            return (Block(one.id, "key"), Block(one.problem, "error"))
        if one is not None:
            return noted_document(one, when_of(one, self.zone))
        return () if self.by_id or not self._listed else (Block(WHO, "dim"),)

    @property
    def count(self) -> str:
        """How many there are, and how many are marked."""
        marked = f", {len(self.marks)} marked" if self.marks else ""
        return self.counted(f"{len(self.by_id):,}") + marked if self.by_id else ""

    def _marked(self, keys: Sequence[str]) -> None:
        self.table.redraw(keys)
        if self._changed is not None:
            self._changed()

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The snapshots whose cells hold every word."""
        return self._said.passing(self.by_id, words)

    def _said_of(self, key: str) -> str:
        return " ".join(span.text for name, span in self.cells(key).items() if name != "mark")

    def why_empty(self) -> str:
        """Nobody keeps any, or the filter lets none through."""
        return f"No snapshot contains “{self.filter.needle}”." if self.filter.needle else EMPTY

    def columns(self) -> Sequence[Column]:
        """What is said of a snapshot."""
        return COLUMNS

    def cells(self, key: str) -> Mapping[str, Span]:
        """A snapshot; a dot marks those that are to be compared."""
        one = self.by_id[key]
        common = {
            "mark": Span(MARK if key in self.marks else " ", "ok"),
            "time": Span(when_of(one, self.zone)[:19]),
            "id": Span(key, "key"),
        }
        if isinstance(one, DamagedSnapshot):
            return {**common, "budget": Span("damaged", "error")}
        source = value_of(one, "source")
        return {
            **common,
            "budget": Span(f"{one.budget:,}"),
            "tokens": Span(f"{one.sent_tokens:,}"),
            "messages": Span(f"{len(one.sent):,}"),
            "evicted": Span(f"{one.evicted:,}", "warn" if one.evicted else "dim"),
            "source": Span(source, "text" if source == "assembled" else "warn"),
            "rules": Span(one.rules, "dim"),
            "cache": Span(value_of(one, "cacheState"), "dim"),
            "selection": Span(one.selection, "dim"),
        }


class SentThen:
    """The messages of a snapshot by number from 0, as a list; a line above them is for all."""

    def __init__(self, one: Snapshot) -> None:
        self.one = one
        self.table = LineView[int](self._draw, empty="Reading the database …", id="list")
        self.finder = MarkingFinder(
            lambda: self.table,
            self._searched,
            label="find: an id, a role, or words of a message",
            none="No message of this snapshot",
        )
        self._rebuilt: Rebuilt | None = None

    def show(self, rebuilt: Rebuilt) -> None:
        """List them; the cursor stays on its message."""
        self._rebuilt = rebuilt
        self.table.replace([WHOLE, *range(len(self.one.sent))])

    def document(self, time: str, key: int | None = None) -> Document | None:
        """What is under the cursor, or a *key*, to read; None while nothing was read.

        *time*: when it was sent.
        """
        key, rebuilt = self.table.selected if key is None else key, self._rebuilt
        if rebuilt is None or key is None:
            return None
        if key == WHOLE:
            return whole_document(self.one, rebuilt.found, time)
        place = rebuilt.place(key)
        if place is None:
            return lost_document(self.one.sent[key])
        return message_document(rebuilt.ledger, place)

    def item(self, key: int | None = None) -> ItemId:
        """The summary or message of the selected row, or of a *key*; None on the line for all."""
        key, rebuilt = self.table.selected if key is None else key, self._rebuilt
        place = None if rebuilt is None or key is None or key == WHOLE else rebuilt.place(key)
        if rebuilt is None or place is None:
            return None
        origin = rebuilt.ledger.assembled.messages[place].origin
        return origin.summary_id or origin.message_id

    def selected_id(self) -> str | None:
        """Its id; on the line for all of it that of the snapshot."""
        item = self.item()
        return self.one.id if self.table.selected == WHOLE else None if item is None else str(item)

    def _draw(self, key: int, width: int) -> Sequence[Line]:
        rebuilt = self._rebuilt
        if rebuilt is None:
            return ((),)
        if key == WHOLE:
            said, same = how_true(rebuilt.found)
            parts = ((Span("Whole request", "heading"),), (Span(said, "ok" if same else "warn"),))
            return (fitted(parts, width),)
        line = snapshot_line(rebuilt.ledger, self.one.sent[key], key, rebuilt.place(key), width)
        return (mark(line, self.finder.needle),)

    def _searched(self, key: int) -> str:
        rebuilt = self._rebuilt
        if rebuilt is None or key == WHOLE:
            return ""
        place = rebuilt.place(key)
        if place is None:
            return self.one.sent[key].name
        return searched_text(rebuilt.ledger.assembled.messages[place])
