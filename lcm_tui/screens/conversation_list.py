"""A list of conversations, and of sessions that only the host knows: the first list, and that of targets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import cell_width, fold
from lcm_core.base.values import replace
from lcm_core.store.conversations import ConversationEntry
from textual import on

from lcm_tui.kit.bars import Heading
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, ListPane
from lcm_tui.kit.spans import Column, Layout, Sorting, Span, lay_out_in_turn
from lcm_tui.tables.blocks import UNRECORDED
from lcm_tui.tables.conversation_rows import (
    AGENT_TROUBLE,
    COLUMNS,
    COUNTED,
    Row,
    RowFilter,
    RowKey,
    Scale,
    cells_of,
    falls,
    names_of,
    ordered,
    scale_of,
    troubles,
    troubles_by_agent,
    wider,
    with_sessions,
    words_of,
)

if TYPE_CHECKING:
    from lcm_host.sessions import HostSession


#: Cells of a column of troubles: the longer heading with its arrow.
LEAST: Final = 15


@lru_cache(maxsize=16)
def _layouts(columns: Sequence[Column], width: int, sorts: str, needs: int) -> Sequence[Layout]:
    """The columns, as many at a time as have room; asked for each row.

    The one that sorts is among the first, and as wide as it *needs*: 0, as any other.
    """
    others = 28 if sorts == TROUBLE else 35  # what is broken is said by the one, else by a column of its own
    kept = [
        replace(one, keep=max(one.keep, SORTED), width=min(needs, one.wish, width - others) or one.width)
        if one.name == sorts
        else one
        for one in columns
    ]
    return lay_out_in_turn(kept, width)


#: The `keep` of the column that sorts, at least.
SORTED: Final = 94
#: The column with what is wrong.
TROUBLE: Final = "trouble"
#: Characters of a name that stand before the word that is filtered by.
LEAD: Final = 6
#: Rows whose texts are put together between two keys.
AT_ONCE: Final = 40


def _of_agent(agent: str, found: Sequence[tuple[float, str]]) -> str:
    return f"{agent or UNRECORDED}: {', '.join(words_of(found)) or 'nothing'}"


class ConversationList(ListPane[RowKey]):
    """Conversations in the order of any column; columns that have no room beside the others come in turn."""

    FILTER = "words in any column"
    FILTER_CHANGES_LINES = True  # a name begins where the word is

    def __init__(
        self,
        changed: Callable[[], None],
        *,
        none: str,
        columns: Sequence[Column] = COLUMNS,
        marked: Container[object] = (),
        named: Callable[[Mapping[RowKey, str]], None] | None = None,
        known: Callable[[], Mapping[RowKey, str]] = dict,
        session_keys: Callable[[], str] = str,
        untouched: Callable[[], bool] = bool,
    ) -> None:
        """*none* is shown when there is no row at all; *changed*: filter or order list other rows.

        *named* is given what each row is called, whenever that has changed; *known*: what another list calls
        them, which has read more of them. *session_keys*: what can be done with a session on disk. As long
        as the list is *untouched*, the cursor stays on the first row while rows are still being read.
        """
        super().__init__(changed=changed)
        self.table.also_moves("the columns at the left, at the right, where they do not all fit")
        self.none = none
        self.rows: dict[RowKey, Row] = {}
        self.budget = 0  #: tokens, of which the bars of contexts show the share
        self.sorted_by = "activity"
        self.turned = False  #: whether it is in the other direction than usual
        self._columns = tuple(columns)
        self._marked = marked
        self._named = named
        self._known = known
        self._session_keys = session_keys
        self._untouched = untouched
        self._words = RowFilter()
        self._counts: dict[str, Mapping[ConversationId, int]] = {}  #: that were noted
        self._side = 0  #: which lot of the columns is shown, where there is no room for all
        self._sessions: Collection[HostSession] = ()
        self._listed = False
        self._names: dict[RowKey, str] | None = None  #: as far as they are known; None: to be made again
        self._scale = Scale()
        self._in_order: Sequence[RowKey] | None = None  #: every row; None: to be sorted again
        #: What is wrong with the conversations of each agent, while they are sorted by that.
        self._agents: Mapping[str, Sequence[tuple[float, str]]] = {}
        self._needs = 0  #: cells of the longest text in the column that sorts, where it is one of troubles
        self._places: dict[RowKey, Any] = {}  #: by what a row was sorted, until it changes
        self._in_database: int | None = None  #: how many rows are; None: to be counted again

    # -- what is listed ----------------------------------------------------------------------------------

    def show(self, entries: Sequence[ConversationEntry]) -> Collection[RowKey]:
        """List conversations, and return those that have changed.

        What was known of a conversation stays until it has been read again; new and changed ones are marked.
        """
        known, rows, on_disk = self.rows, dict[RowKey, Row](), self.session
        changed: set[RowKey] = set()
        for entry in entries:
            key = entry.conversation.conversation_id
            old = known.get(key)
            if old is not None and old.entry != entry:
                changed.add(key)
                old = replace(old, entry=entry)
            rows[key] = old or self._noted(Row(entry, budget=self.budget), self._counts)
        fresh = [key for key in rows if key not in known] if self._listed else []
        self._listed = True
        self.rows = with_sessions(rows, self._sessions)
        self._names = self._in_order = self._in_database = None
        self._places.clear()
        self._scale = scale_of(self.rows.values(), self.budget)
        self._shown_anew(fresh, changed)
        if on_disk is not None and self.session != on_disk:  # it is a conversation now
            for new in fresh:
                if (one := rows[new].conversation) and one.session_id == on_disk.session_id:
                    self.table.select(new)
        return changed

    def update(self, entries: Sequence[ConversationEntry]) -> None:
        """Some conversations have changed; none has come, or is gone."""
        changed: set[RowKey] = set()
        for entry in entries:
            key, old = entry.conversation.conversation_id, self.rows.get(entry.conversation.conversation_id)
            if old is None or old.entry is None or old.entry == entry:
                continue
            before, now = old.entry.conversation, entry.conversation
            if (before.title, before.session_key, before.session_id) != (
                now.title,
                now.session_key,
                now.session_id,
            ):
                self._names = None
            self.rows[key] = replace(old, entry=entry)
            self._places.pop(key, None)
            changed.add(key)
        if changed:
            self._in_order = None
            self._words.forget()
            self._shown_anew([], changed)

    def _shown_anew(self, fresh: Collection[RowKey], changed: Collection[RowKey]) -> None:
        self.relist(changed=False)
        self.table.redraw(changed)
        self.table.mark_fresh([*fresh, *changed])

    def show_sessions(self, sessions: Collection[HostSession]) -> None:
        """List below the conversations those of *sessions* that the database does not know."""
        self._sessions = sessions
        if self._listed:
            self.rows = with_sessions(self.rows, sessions)
            self._names = self._in_order = self._in_database = None
            self.relist()

    def note(self, **counts: Mapping[ConversationId, int]) -> None:
        """What is counted elsewhere, by the name in `Row` and the conversation; the others have none."""
        self._counts |= counts
        changed: list[RowKey] = []
        for key, row in list(self.rows.items()):
            noted = self._noted(row, counts)
            if noted is not row:
                self.rows[key] = noted
                changed.append(key)
        if not changed:
            return
        self._words.forget()
        if self.sorted_by in (TROUBLE, AGENT_TROUBLE.name):
            self._in_order = None
            self._places.clear()
            self.relist(changed=False)
        self.table.redraw(changed)

    @staticmethod
    def _noted(row: Row, counts: Mapping[str, Mapping[ConversationId, int]]) -> Row:
        if row.conversation is None:
            return row
        number = row.conversation.conversation_id
        known = {name: by_number.get(number, 0) for name, by_number in counts.items()}
        if all(getattr(row, name) == count for name, count in known.items()):
            return row
        return replace(row, **cast(dict[str, Any], known))

    def learn(self, key: RowKey, row: Row) -> None:
        """More is known of a row; `say` draws it."""
        if row.words != self.rows[key].words:
            self._names = None
        if self.sorted_by in COUNTED:
            self._in_order = None
            self._places.pop(key, None)
        self._words.forget()
        self.rows[key] = row

    def say(self, keys: Collection[RowKey]) -> None:
        """Draw rows again of which more is known; all of them when the bars have a larger scale."""
        known = scale_of([self.rows[key] for key in keys if key in self.rows], self.budget)
        scale = wider(self._scale, known)
        everything = scale != self._scale or self._names is None
        self._scale = scale
        if self.filter.needle:  # the next letter finds these rows put together
            for key in self.rows.keys() & set(keys):
                self._words.learn(key, self.rows[key], self.names.get(key, ""), self.zone)
        self.table.redraw(None if everything else keys)

    def fit_bars(self) -> None:
        """Measure the bars by the longest row; `say` leaves them as they are if that has shrunk."""
        if (scale := scale_of(self.rows.values(), self.budget)) != self._scale:
            self._scale = scale
            self.table.redraw()

    @property
    def names(self) -> Mapping[RowKey, str]:
        """What a person tells each row by, as far as it is known."""
        if self._names is None:
            known = self._known()
            self._names = {key: known.get(key, name) for key, name in names_of(self.rows).items()}
            if self._named is not None:
                self._named(self._names)
        return self._names

    @property
    def count(self) -> str:
        """How many the database knows and how many more the disk."""
        if self._in_database is None:
            self._in_database = sum(row.entry is not None for row in self.rows.values())
        known, more = self._in_database, len(self.rows) - self._in_database
        return self.counted(f"{known:,} and {more:,} on disk" if more else f"{known:,}")

    @property
    def order(self) -> str:
        """By what they are sorted; empty: as usual."""
        if self.sorted_by == "activity" and not self.turned:
            return ""
        title = next(column.title for column in self.columns() if column.name == self.sorted_by)
        return f"by {title} {self.sorting().arrow}"

    def sorting(self) -> Sorting:
        """The column, and whether its largest value is on top."""
        return Sorting(self.sorted_by, falls(self.sorted_by) != self.turned)

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def selected(self) -> Row | None:
        """The row under the cursor."""
        return self.rows.get(self.table.selected) if self.table.selected is not None else None

    @property
    def conversation(self) -> Conversation | None:
        """The selected conversation; None for a session that only the host knows."""
        return self.selected.conversation if self.selected is not None else None

    @property
    def session(self) -> HostSession | None:
        """The selected session that only the host knows."""
        return self.selected.session if self.selected is not None else None

    def why_nothing(self) -> str | None:
        """Why nothing can be opened."""
        return "no conversation is selected" if self.selected is None else None

    def why_no_conversation(self) -> str | None:
        """Why nothing can be done that needs a conversation."""
        if self.selected is not None and self.conversation is None:
            return f"this session is not in the database; {self._session_keys()}"
        return self.why_nothing()

    # -- order -------------------------------------------------------------------------------------------

    @property
    def sort(self) -> str:
        """By what they are sorted, to be remembered: a column, behind a - where the order is reversed."""
        return f"{'-' if self.turned else ''}{self.sorted_by}"

    def sort_as(self, sort: str) -> None:
        """Sort as is remembered, before the first row is listed; a column that there is not is ignored."""
        if (name := sort.removeprefix("-")) in {column.name for column in (*self._columns, AGENT_TROUBLE)}:
            self.sorted_by, self.turned = name, name != sort

    def sort_by(self, name: str) -> None:
        """Sort by a column; by the same one again: in the other direction."""
        self.turned = self.sorted_by == name and not self.turned
        before, self.sorted_by = self.layout_at(self._width), name
        self._reorder()
        if self.layout_at(self._width) != before:
            self.table.redraw()

    def turn(self) -> None:
        """Turn the order round."""
        self.turned = not self.turned
        self._reorder()

    def _reorder(self) -> None:
        """Sort, and go to the first row: who sorts wants to see the top."""
        self._in_order = None
        self._places.clear()
        self.filter_changed()
        if self.table.keys:
            self.table.select(self.table.keys[0])
        self.heading.refresh_changed()

    @on(Heading.Clicked)
    def _heading_clicked(self, event: Heading.Clicked) -> None:
        if event.column:
            self.sort_by(event.column)
        else:
            self._show_side((self._side + 1) % len(self._layouts(self._width)))

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[RowKey]:
        """The rows that hold the words in any column, sorted: a letter changes no order."""
        if self._in_order is None:
            by_agent = self.sorted_by == AGENT_TROUBLE.name
            agents = troubles_by_agent(self.rows.values()) if by_agent else {}
            said = [_of_agent(agent, found) for agent, found in agents.items()]
            if self.sorted_by == TROUBLE:
                said = [", ".join(words_of(troubles(row))) for row in self.rows.values()]
            needs = max((LEAST, *map(len, said))) if said else 0
            if (self._agents, self._needs) != (agents, needs):
                self._agents, self._needs = agents, needs
                self.table.redraw()
            self._in_order = ordered(
                self.rows, self._places, self.sorted_by, turned=self.turned, agents=self._agents
            )
        return self._words.passing(self._in_order, self.rows, self.names if words else {}, words, self.zone)

    def keep_on(self, keys: Sequence[RowKey]) -> RowKey | None:
        """The first row, until somebody chose one."""
        first = keys and self._untouched() and not self.table.cursor and not self.table.scroll_offset.y
        return keys[0] if first else None

    def filter_begun(self) -> None:
        """Put together what the rows say, a few at a time, before the first letter comes."""
        self.run_worker(self._learn_rows(), group="filter", exclusive=True)

    async def _learn_rows(self) -> None:
        rows = iter(list(self.rows.items()))
        while some := list(islice(rows, AT_ONCE)):
            for key, row in some:
                self._words.learn(key, row, self.names.get(key, ""), self.zone)
            await asyncio.sleep(0)

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is nothing."""
        return "No conversation matches; F searches the messages." if self.rows else self.none

    def columns(self) -> Sequence[Column]:
        """What is said of a conversation; of its agent, too, while the list is sorted by that."""
        more = self.sorted_by == AGENT_TROUBLE.name
        return (*self._columns, AGENT_TROUBLE) if more else self._columns

    @property
    def sortable(self) -> Sequence[Column]:
        """What the list can be sorted by, trouble first; by that of agents where there are several."""
        agents = {row.conversation.agent for row in self.rows.values() if row.conversation is not None}
        more = (AGENT_TROUBLE,) if len(agents) > 1 else ()
        first = [column for column in self._columns if column.name == TROUBLE]
        return (*first, *more, *(column for column in self._columns if column.name != TROUBLE))

    def cells(self, key: RowKey) -> Mapping[str, Span]:
        """What is known so far."""
        cells = cells_of(self.rows[key], self.zone, self.names.get(key, ""), self._scale)
        one = self.rows[key].conversation
        if self.sorted_by == AGENT_TROUBLE.name and one is not None:
            agent = one.agent or ""
            said = _of_agent(agent, self._agents.get(agent, ()))
            cells = {**cells, AGENT_TROUBLE.name: Span(said, "dim")}
        if self.filter.needle:
            cells = {**cells, "name": self._from_match(cells["name"])}
        return {**cells, "id": Span(f"{MARK}{key}", "warn")} if key in self._marked else cells

    def _from_match(self, name: Span) -> Span:
        """A name from shortly before the word that is filtered by, where that would be cut off."""
        layout, folded = self.layout_at(self._width), fold(name.text)
        rooms = dict(zip((column.name for column in layout.columns), layout.widths, strict=True))
        for word in self.filter.words:
            at = folded.find(word)
            if at >= 0 and cell_width(folded[: at + len(word)]) >= rooms.get("name", 0):
                return replace(name, text=f"…{name.text[max(at - LEAD, 0) :]}")
        return name

    # -- columns in turn ---------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.table.scrollable_content_region.width

    def _layouts(self, width: int) -> Sequence[Layout]:
        """All columns in turn; the one that sorts is among the first."""
        return _layouts(tuple(self.columns()), width, self.sorted_by, self._needs)

    def layout_at(self, width: int) -> Layout:
        """The columns that are shown at the moment."""
        layouts = self._layouts(width)
        return layouts[min(self._side, len(layouts) - 1)]

    def beyond(self, width: int) -> str:
        """Which way there are more columns."""
        last = len(self._layouts(width)) - 1
        return "" if not last else "›" if self._side <= 0 else "‹" if self._side >= last else "↔"

    @on(LineView.Sided)
    def _sided(self, event: LineView.Sided) -> None:
        """Show the columns at that side."""
        last = len(self._layouts(self._width)) - 1
        self._show_side(max(0, min(self._side + event.side, last)))

    def _show_side(self, side: int) -> None:
        if side != self._side:
            self._side = side
            self.table.redraw()
            self.heading.refresh_changed()
