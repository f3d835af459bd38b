"""The snapshots of a conversation's context: what an engine noted of each that it gave to its host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.base.records import Conversation, ConversationId, ItemId
from lcm_core.base.values import Record
from lcm_core.engine.sent import Ledger, ledger_of
from lcm_core.operations.snapshots import RebuiltSnapshot, rebuild_snapshot
from lcm_core.store.database import Reader
from lcm_core.store.listing import DamagedSnapshot, Snapshot, Window, snapshot_page
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import Heading
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, Beside, Finder, ListPane, MarkingFinder, Marks, Said
from lcm_tui.kit.panes import Aside
from lcm_tui.kit.places import Side
from lcm_tui.kit.spans import Block, Column, Document, Line, Span
from lcm_tui.kit.text import TextView, mark
from lcm_tui.screens import actions
from lcm_tui.screens.frame import SERIES
from lcm_tui.screens.reading import DataScreen, Series, row_keys
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.items import SHOWN, cut
from lcm_tui.tables.sent import fitted, message_document, searched_text, sent_columns
from lcm_tui.tables.snapshots import (
    SNAPSHOT_COLUMNS,
    Listed,
    SnapshotCells,
    how_true,
    lost_document,
    noted_document,
    snapshot_line,
    when_of,
    whole_document,
)

# -- what the screens read -------------------------------------------------------------------------------

#: Snapshots that are read; an engine keeps 20 of a conversation unless its host says otherwise.
MOST: Final = 500


class Rebuilt(Record, frozen=True):
    """A snapshot as far as it can be shown today."""

    found: RebuiltSnapshot
    ledger: Ledger

    def place(self, number: int) -> int | None:
        """Where the message that was sent as that *number*, from 0, stands among those of today."""
        return self.found.places[number]


async def load_snapshots(reader: Reader, conversation_id: ConversationId) -> tuple[Listed, ...]:
    """The newest snapshots of a conversation, newest first."""
    return tuple((await snapshot_page(reader, conversation_id, Window(MOST))).items)


async def load_snapshot(reader: Reader, one: Snapshot, zone: tzinfo | None) -> Rebuilt:
    """Put a snapshot together from what stands now. *zone*: that of the times in the messages."""
    found = await rebuild_snapshot(reader, one, zone)
    return Rebuilt(found, await asyncio.to_thread(ledger_of, found.assembled))


# -- the lists -------------------------------------------------------------------------------------------
# Snapshots, and the messages of one.

EMPTY: Final = "No snapshots of this context."
WHO: Final = (
    "Only hosts using lcm_core's Python engine save snapshots (the newest 20 of each conversation). To "
    "compare with an earlier time without one, use a backup: lcm-tui context ID --compare db=BACKUP."
)

COLUMNS: Final = tuple(column for column in SNAPSHOT_COLUMNS if column.width)

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
        cells = cells_of(COLUMNS, one, SnapshotCells(self.zone, MARK if key in self.marks else " "))
        if isinstance(one, DamagedSnapshot):
            common = {name: cells[name] for name in ("mark", "time", "id")}
            return {**common, "budget": Span("damaged", "error")}
        return cells


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
        line = snapshot_line(rebuilt.ledger, self.one.sent[key], rebuilt.place(key), width)
        return (mark(line, self.finder.needle),)

    def _searched(self, key: int) -> str:
        rebuilt = self._rebuilt
        if rebuilt is None or key == WHOLE:
            return ""
        place = rebuilt.place(key)
        if place is None:
            return self.one.sent[key].name
        return searched_text(rebuilt.ledger.assembled.messages[place])


# -- the screen of all snapshots -------------------------------------------------------------------------


class SnapshotsScreen(DataScreen[Sequence[Listed]]):
    """What was kept of the contexts of one conversation."""

    HELP = """
The contexts that an engine sent to its host, newest first.

Only hosts using lcm_core's Python engine save snapshots (the newest 20 of a conversation).

A row says when, under which budget, how many tokens and messages, what was not sent, and where the messages
came from. A snapshot stores numbers and references, no text.

enter opens one: it is rebuilt from the rows that still exist, and its hash shows whether that is exactly what
was sent. D compares the selected snapshot (-) with the context as it is now under the same budget (+); with
two marked (space), the older one (-) with the newer one (+).
"""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self.list: SnapshotList = SnapshotList(self._changed)
        self.text = TextView(id="text")
        self._panes = Beside(self.list, self.text)
        self._series = Series("snapshot", lambda: self.list.table, self._place_of, newest_first=True)

    def compose_body(self) -> ComposeResult:
        """The list, and what was noted of the selected one."""
        yield self._panes

    def where(self) -> str:
        """Whose snapshots."""
        return f"Snapshots {self.session.called(self.conversation)}"

    def main_widget(self) -> LineView[str]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter; in the text the search in it."""
        return self._panes.finder

    def selected_id(self) -> str | None:
        """The snapshot's id."""
        return self.list.table.selected

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Sequence[Listed]:
        """The newest."""
        return await self.session.read(load_snapshots, self.conversation.conversation_id)

    def show(self, data: Sequence[Listed]) -> None:
        """Show them; the selection stays on its snapshot."""
        self.list.zone = self.session.zone
        self.list.show(data)
        self._changed()

    @on(LineView.Highlighted, "#list")
    def _changed(self) -> None:
        """Another one is under the cursor, others are listed, or others are marked."""
        self.title_bar.note = self.list.count
        self.text.show(self.list.document())

    # -- commands ----------------------------------------------------------------------------------------

    def _open_snapshot(self) -> None:
        place = None if self.list.table.selected is None else self._place_of(self.list.table.selected)
        if place is not None:
            self.open(place, self._series)

    def _place_of(self, key: str) -> places.Place | None:
        """One that can be rebuilt."""
        one = self.list.by_id.get(key)
        return places.OneSnapshot(self.conversation, one) if isinstance(one, Snapshot) else None

    def _mark(self) -> None:
        if self.list.selected is not None:
            self.list.marks.turn([self.list.selected.id])
            self.refresh_bars()

    def _compare(self) -> None:
        """Compare two that are marked, or the selected one with the context as it is now."""
        number = self.conversation.conversation_id
        found = [Side(number, one.budget, snapshot_id=one.id) for one in self.list.compared]
        if found:
            now = Side(number, found[0].budget, "now", budget_of_snapshot=True)
            self.open(places.Comparison(found[0], found[1] if len(found) > 1 else now))

    KEYS: ClassVar[Sequence[Key[SnapshotsScreen]]] = (
        commands.OPEN.does(
            _open_snapshot,
            lambda s: s.list.why_not_selected(),
            help="Show the context as it was sent, from the rows that still exist.",
        ),
        commands.COMPARE.does(
            _compare,
            lambda s: s.list.why_not_compared(),
            help="Compare the selected one with now, or the two that are marked.",
        ),
        commands.MARK.does(
            _mark,
            lambda s: s.list.why_not_selected(),
            help="Mark two snapshots, to compare them with each other.",
        ),
        commands.CONTEXT.does(
            lambda s: s.open(places.Context(s.conversation)), help="Show the context as it is now."
        ),
        *row_keys("snapshot", lambda s: s.list.table, newest_first=True),
    )


# -- the screen of one snapshot --------------------------------------------------------------------------
# A context as an engine sent it once: its messages, as far as their rows still exist.


class SnapshotScreen(DataScreen[Rebuilt]):
    """What was sent then."""

    HELP = """
One context as an engine sent it, message by message, rebuilt from the rows that still exist.

D compares the snapshot (-) with the context as it is now under the same budget.

The first line is the whole request; it says whether the rebuilt request matches the hash of what was sent.
"sent" is the token count recorded then; ✗ marks a message that no longer exists.

enter opens a message.
"""

    def __init__(self, conversation: Conversation, snapshot: Snapshot) -> None:
        super().__init__()
        self.conversation = conversation
        self.one = snapshot
        self.list = SentThen(snapshot)
        self._series = Series("message", lambda: self.list.table, self._place_of)
        self._aside = Aside(Heading(sent_columns, id="heading"), self.list.table, show_text=self._show_text)
        self.text = self._aside.text

    def compose_body(self) -> ComposeResult:
        """The messages, and beside them, where there is room, the text of the selected one."""
        yield self._aside

    def where(self) -> str:
        """Which one."""
        return f"Snapshot {self.conversation.conversation_id}  {self._time}"

    def main_widget(self) -> LineView[int]:
        """The messages."""
        return self.list.table

    def finder(self) -> Finder:
        """The search among the messages."""
        return self.list.finder

    def selected_id(self) -> str | None:
        """The id of what is selected."""
        return self.list.selected_id()

    def on_mount(self) -> None:
        """Say under which budget it was sent."""
        self.title_bar.note = f"under {self.one.budget:,} tokens"

    @property
    def _time(self) -> str:
        return when_of(self.one, self.session.zone)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Rebuilt:
        """Put it together from what stands now."""
        return await self.session.read(load_snapshot, self.one, self.session.engine_zone)

    def show(self, data: Rebuilt) -> None:
        """Show it; the cursor stays on its message."""
        self.list.show(data)
        self._show_text()

    @on(LineView.Highlighted, "#list")
    def _show_text(self) -> None:
        document = self._document()
        if self.text.display and document is not None:
            self.text.show(cut(document, SHOWN))

    def _document(self) -> Document | None:
        return self.list.document(self._time)

    # -- commands ----------------------------------------------------------------------------------------

    def _why_not_open(self) -> str | None:
        return "the snapshot is still being read" if self._document() is None else None

    def _open_message(self) -> None:
        """Show it whole."""
        if self.list.table.selected is not None:
            place = self._place_of(self.list.table.selected)
            if place is not None:
                self.open(place, self._series)

    def _place_of(self, key: int) -> places.Place | None:
        document, item = self.list.document(self._time, key), self.list.item(key)
        if document is None:
            return None
        name = self.one.id if key == WHOLE else "synthetic" if item is None else str(item)
        return places.Sent(self.conversation, name, document, item, None, f"sent {self._time[:16]}")

    def _compare(self) -> None:
        """Compare with the context as it is now."""
        one = self.one
        then = Side(one.conversation_id, one.budget, snapshot_id=one.id)
        now = Side(one.conversation_id, one.budget, "now", budget_of_snapshot=True)
        self.open(places.Comparison(then, now))

    KEYS: ClassVar[Sequence[Key[SnapshotScreen]]] = (
        commands.OPEN.does(
            _open_message,
            _why_not_open,
            help="Open the selected message, or the record of the whole request.",
        ),
        commands.COMPARE.does(
            _compare, help="Compare it with the context as it is now, under the same budget."
        ),
        actions.summaries_key(lambda s: s.list.item()),
        actions.previous_key(lambda s: s.list.item()),
        *SERIES,
    )
