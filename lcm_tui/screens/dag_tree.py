"""The rows of the summary tree: their places, what is unfolded and known, and how a row looks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from lcm_core.base.records import ConversationId, MessageId, SummaryId
from lcm_core.base.text import cell_width, clip, fold, safe_line, sought_as
from lcm_core.base.values import Record, replace
from lcm_core.engine.graph import GraphColumns, SummaryGraph
from lcm_core.store.summaries import SourceMessage, SummaryEntry

from lcm_tui.kit.spans import Column, Layout, Line, Span, depth_style, lay_out, role_style, row_of
from lcm_tui.tables.blocks import minute_text
from lcm_tui.tables.messages import message_name
from lcm_tui.tables.summaries import (
    ShortIds,
    badge_of,
    below_text,
    broken_text,
    message_preview,
    model_text,
    time_begun,
    time_range,
)

if TYPE_CHECKING:
    from lcm_core.engine.markers import BadKind, Wrong


# -- the tree --------------------------------------------------------------------------------------------
# The rows of an unfolded tree over a graph that need not be one: places, and which of them are unfolded.
#
# A row is a `Place`: a summary (or message, or heading) and the way that led there, so that a summary under
# two consumers has two. Nothing here recurses, and nothing is made for what has never been unfolded.


class Section(Enum):
    """A heading over summaries that no root in the context leads to."""

    ORPHANS = "orphans"
    CYCLES = "cycles"
    DANGLING = "dangling"


Step: TypeAlias = SummaryId | MessageId | Section
#: What stands directly below a step, each once, in order.
Below: TypeAlias = Callable[[Step], Sequence[Step]]
Way: TypeAlias = tuple[Step, ...]


class Place:
    """A step and the way to it. There is one object per way, so identity is equality."""

    __slots__ = ("_below", "_repeats", "above", "level", "step")

    def __init__(self, above: Place | None, step: Step | None) -> None:
        self.above = above
        self.step: Step | None = step  #: None: the top of the tree, which is no row
        self.level: int = 0 if above is None else above.level + 1  #: rows at the left margin have 1
        self._below: dict[Step, Place] | None = None
        self._repeats: bool | None = None

    def to(self, step: Step) -> Place:
        """The place of *step* right below this one."""
        if self._below is None:
            self._below = {}
        place = self._below.get(step)
        if place is None:
            place = self._below[step] = Place(self, step)
        return place

    def upward(self) -> Iterator[Place]:
        """This place and those above it, without the top."""
        place = self
        while place.above is not None:
            yield place
            place = place.above

    @property
    def path(self) -> Way:
        """The steps from the top to here."""
        return tuple(place.step for place in self.upward() if place.step is not None)[::-1]

    @property
    def repeats(self) -> bool:
        """Whether the same summary stands above: here a cycle closes, and nothing more is unfolded."""
        if self._repeats is None:
            self._repeats = any(place.step == self.step for place in self.upward() if place is not self)
        return self._repeats

    def known_below(self) -> tuple[Place, ...]:
        """The places that were ever made right below this one."""
        return tuple(self._below.values()) if self._below else ()


class Tree:
    """Which places are unfolded, and the rows that follow from it."""

    def __init__(self) -> None:
        self.top = Place(None, None)
        self.unfolded: set[Place] = set()

    def at(self, path: Way) -> Place:
        """The place at the end of a way."""
        place = self.top
        for step in path:
            place = place.to(step)
        return place

    def rows(self, tops: Sequence[Step], below: Below) -> list[Place]:
        """All rows, top to bottom."""
        return self._rows([self.top.to(step) for step in tops], below)

    def rows_below(self, place: Place, below: Below) -> list[Place]:
        """The rows that belong under a place; none while it is folded."""
        if place not in self.unfolded or place.step is None:
            return []
        return self._rows([place.to(step) for step in below(place.step)], below)

    def respliced(self, rows: Sequence[Place], index: int, below: Below) -> list[Place]:
        """The rows after the place at *index* was folded or unfolded, or what is below it has changed."""
        end = index + 1
        while end < len(rows) and rows[end].level > rows[index].level:
            end += 1
        return [*rows[: index + 1], *self.rows_below(rows[index], below), *rows[end:]]

    def unfold_above(self, place: Place) -> bool:
        """Unfold everything that a place stands in; returns whether anything was folded."""
        above = {found for found in place.upward() if found is not place}
        opened = bool(above - self.unfolded)
        self.unfolded |= above
        return opened

    def unfold_all(self, starts: Sequence[Place], sources: Mapping[SummaryId, Sequence[SummaryId]]) -> bool:
        """Unfold *starts* and every summary below them that has sources, each where it stands first.

        Where a summary stands again it stays folded: unfolding every way there is can take forever.

        Returns:
            whether anything was folded.
        """
        before = len(self.unfolded)
        seen = {place.step for start in starts for place in start.upward() if place is not start}
        waiting = list(starts)[::-1]
        while waiting:
            place = waiting.pop()
            step = place.step
            if step in seen or not isinstance(step, str):
                continue
            seen.add(step)
            if found := sources.get(SummaryId(step)):
                self.unfolded.add(place)
                # Only what has sources itself: most of a tree are leaves, and those need no place for this.
                waiting += [place.to(source) for source in reversed(found) if source in sources]
        return len(self.unfolded) > before

    def graft(self, old: Place, new: Place) -> None:
        """Unfold below *new* what is unfolded below *old*: the summary has moved."""
        waiting = [(old, new)]
        while waiting:
            old, new = waiting.pop()
            if old in self.unfolded:
                self.unfolded.add(new)
            waiting += [(place, new.to(place.step)) for place in old.known_below() if place.step is not None]

    def _rows(self, starts: Sequence[Place], below: Below) -> list[Place]:
        rows: list[Place] = []
        waiting = list(starts)[::-1]
        while waiting:
            place = waiting.pop()
            rows.append(place)
            if place in self.unfolded and place.step is not None:
                waiting.extend(place.to(step) for step in reversed(below(place.step)))
        return rows


# -- folding ---------------------------------------------------------------------------------------------
# What an operator left unfolded in a tree, and where the cursor was: kept by id while the app runs.
#
# The map replaces the tree on the screen, and going back to the conversations leaves it: whoever returns
# finds the tree as it was left. It does not depend on what was read; a place that no longer exists is
# skipped.

#: Under this name it is kept beside what other screens keep (`Session.left`).
NAME = "summaries"


@dataclass(eq=False, slots=True)
class Folding:
    """The tree as it was left."""

    tree: Tree
    sections: set[Section] = field(default_factory=set)  #: headings that were there, so that they stay folded
    way: Way = ()  #: to where the cursor was
    row: int = 0  #: of the screen, in which it was

    @property
    def summary(self) -> SummaryId | None:
        """The summary under the cursor; of a message the leaf."""
        return next((SummaryId(step) for step in reversed(self.way) if isinstance(step, str)), None)


def key_of(conversation_id: ConversationId) -> tuple[str, int]:
    """Under what it is kept."""
    return NAME, conversation_id


# -- what is known ---------------------------------------------------------------------------------------
# The whole graph, and the rows that were in sight.


class Survey(Record, frozen=True):
    """The whole graph, and where everything in it stands first."""

    graph: SummaryGraph
    sections: Mapping[Section, tuple[SummaryId, ...]]  #: those that are not empty
    visits: Mapping[
        SummaryId, SummaryId | None
    ]  #: in the order of a wholly unfolded tree, with the way there
    ranks: Mapping[SummaryId, int]
    columns: GraphColumns | None = None  #: what the graph was made from
    ids: ShortIds = ShortIds()
    shared: bool = False  #: a summary has several consumers


def survey(graph: SummaryGraph, columns: GraphColumns | None = None) -> Survey:
    """Walk the whole graph once; for a thread, it takes as long as the graph is large."""
    sections = {
        Section.ORPHANS: graph.orphans,
        Section.CYCLES: graph.cycle_heads,
        Section.DANGLING: graph.dangling,
    }
    visits = graph.first_visits((*graph.roots, *(node for nodes in sections.values() for node in nodes)))
    ranks = {node: rank for rank, node in enumerate(visits)}
    shown = {name: nodes for name, nodes in sections.items() if nodes}
    shared = any(len(found) > 1 for found in graph.consumers.values())
    return Survey(graph, shown, visits, ranks, columns, ShortIds(visits), shared)


class Match(Record, frozen=True):
    """Something that a search found: a summary, or a message under a leaf."""

    summary_id: SummaryId
    message: int | None = None  #: place among the leaf's messages


class Known:
    """Everything read of one conversation's tree."""

    def __init__(self, conversation_id: ConversationId) -> None:
        self.conversation_id = conversation_id
        self.ordinals: dict[SummaryId, tuple[int, ...]] = {}
        self.survey: Survey = survey(SummaryGraph.build((), (), ()))
        self.entries: dict[SummaryId, SummaryEntry] = {}
        self.gone: set[SummaryId] = set()  #: asked for, and no row has this id
        self.messages: dict[SummaryId, dict[MessageId, SourceMessage]] = {}  #: in the order of the chunk
        self.broken: dict[SummaryId, BadKind] = {}  #: what a repair lists
        self.stale: Set[SummaryId] = frozenset()  #: made from texts that were replaced since
        self._broken_below: dict[Step, int] = {}
        self._old_entries: set[SummaryId] = set()  #: read before the file changed
        self._old_messages: set[SummaryId] = set()

    # -- learning ----------------------------------------------------------------------------------------

    def grow_old(self) -> None:
        """The file has changed: what was read is shown on, and read again when it comes into sight."""
        self._old_entries = {*self.entries, *self.gone}
        self.messages = {leaf: found for leaf, found in self.messages.items() if found}
        self._old_messages = set(self.messages)

    def learn_ordinals(self, ordinals: Iterable[tuple[SummaryId, int]]) -> None:
        """Take where the context refers to summaries."""
        self.ordinals = {}
        for summary_id, ordinal in ordinals:
            self.ordinals[summary_id] = (*self.ordinals.get(summary_id, ()), ordinal)

    def learn_survey(self, found: Survey) -> None:
        """Take the whole graph, which says what stands where."""
        self.survey = found
        self._broken_below.clear()
        self.gone = {summary_id for summary_id in self.gone if summary_id not in found.graph.nodes}

    @property
    def wrong(self) -> Set[SummaryId]:
        """The broken and the stale ones."""
        return self.broken.keys() | self.stale

    def learn_wrong(self, wrong: Wrong) -> bool:
        """Take which texts are bad and which are stale; returns whether that is news."""
        changed = (wrong.broken, wrong.stale) != (self.broken, self.stale)
        self.broken, self.stale = dict(wrong.broken), wrong.stale
        self._broken_below.clear()
        return changed

    def learn_messages(self, messages: Mapping[SummaryId, Sequence[SourceMessage]]) -> bool:
        """Take the messages of some leaves; returns whether any differs from what was known."""
        changed = False
        for leaf, found in messages.items():
            held = {message.message_id: message for message in found}
            changed |= self.messages.get(leaf, {}) != held
            self.messages[leaf] = held
            self._old_messages.discard(leaf)
        return changed

    def learn_entries(self, asked: Iterable[SummaryId], entries: Iterable[SummaryEntry]) -> set[SummaryId]:
        """Take rows that were asked for; returns those that differ from what was known."""
        found = {entry.summary.summary_id: entry for entry in entries}
        changed: set[SummaryId] = set()
        for summary_id in asked:
            self._old_entries.discard(summary_id)
            entry = found.get(summary_id)
            if entry is None:
                changed |= {summary_id} - self.gone
                self.gone.add(summary_id)
                self.entries.pop(summary_id, None)
            else:
                if self.entries.get(summary_id) != entry:
                    changed.add(summary_id)
                    if summary_id in self.entries and self.broken.pop(summary_id, None) is not None:
                        self._broken_below.clear()  # its row is newer than the reading of all texts
                self.entries[summary_id] = entry
                self.gone.discard(summary_id)
        return changed

    # -- the shape of the tree ---------------------------------------------------------------------------

    def columns(self, width: int) -> Layout:
        """The columns of a list of so many cells."""
        return columns_for(width, self.survey.ids.cells, shared=self.survey.shared)

    @property
    def ids(self) -> set[SummaryId]:
        """Every summary that is there."""
        return set(self.survey.graph.nodes)

    @property
    def roots(self) -> tuple[SummaryId, ...]:
        """The summaries of the context that nothing was made from, oldest first."""
        return self.survey.graph.roots

    @property
    def tops(self) -> list[Step]:
        """What stands at the left margin: roots, then headings."""
        return [*self.roots, *self.survey.sections]

    def sources(self, summary_id: SummaryId) -> tuple[SummaryId, ...]:
        """The sources of a summary."""
        return self.edges.get(summary_id, ())

    @property
    def edges(self) -> Mapping[SummaryId, tuple[SummaryId, ...]]:
        """The sources of every summary that has some."""
        return self.survey.graph.sources

    def below(self, step: Step) -> Sequence[Step]:
        """What is known to stand right below a step: sources, then messages."""
        if isinstance(step, Section):
            return self.survey.sections.get(step, ())
        if not isinstance(step, str):
            return ()
        messages = self.messages.get(step)
        sources = self.sources(step)
        return [*sources, *messages] if messages else sources

    def broken_below(self, step: Step) -> int:
        """How many broken summaries stand anywhere below a step, each once."""
        if not self.broken:
            return 0
        if step not in self._broken_below:
            starts = self.survey.sections.get(step, ()) if isinstance(step, Section) else ()
            found = set(self.survey.graph.walk(self.sources(step) if isinstance(step, str) else starts))
            self._broken_below[step] = len((found - {step}) & self.broken.keys())
        return self._broken_below[step]

    def is_leaf(self, summary_id: SummaryId) -> bool | None:
        """Whether a summary was made from messages; None: not known yet."""
        node = self.survey.graph.nodes.get(summary_id)
        if node is not None:
            return node.kind == "leaf"
        entry = self.entries.get(summary_id)
        return None if entry is None else entry.summary.kind == "leaf"

    def can_unfold(self, step: Step) -> bool:
        """Whether something stands below a step, or may do so before it has been read."""
        if not isinstance(step, str):
            return isinstance(step, Section)
        if step in self.gone:
            return bool(self.sources(step))
        entry = self.entries.get(step)
        if entry is not None:
            return bool(entry.source_summaries or entry.source_messages)
        return bool(self.sources(step) or self.is_leaf(step) is not False)

    def unread_entry(self, summary_id: SummaryId) -> bool:
        """Whether the row of a summary must be read, for the first time or again."""
        known = summary_id in self.entries or summary_id in self.gone
        return not known or summary_id in self._old_entries

    def unread_messages(self, summary_id: SummaryId) -> bool:
        """Whether a summary has messages that have not been read; only leaves should have any (B8)."""
        if summary_id in self._old_messages:
            return True
        if summary_id in self.messages or summary_id in self.gone:
            return False
        entry = self.entries.get(summary_id)
        return entry.source_messages > 0 if entry is not None else self.is_leaf(summary_id) is not False

    def message_of(self, place: Place) -> SourceMessage | None:
        """The message that a place stands for."""
        leaf = place.above.step if place.above is not None else None
        if not isinstance(place.step, int) or not isinstance(leaf, str):
            return None
        return self.messages.get(leaf, {}).get(place.step)

    # -- where a summary stands --------------------------------------------------------------------------

    def places(self, summary_id: SummaryId) -> int:
        """Under how many consumers a summary stands; 1 for a root."""
        return max(1, len(self.survey.graph.consumers.get(summary_id, ())))

    def path_to(self, summary_id: SummaryId) -> Way | None:
        """The way to where a summary stands first; None when it does not."""
        if summary_id not in self.survey.visits:
            return None
        way: list[Step] = [summary_id]
        at = summary_id
        while (consumer := self.survey.visits[at]) is not None:
            way.append(consumer)
            at = consumer
        if at not in self.roots:
            way += [name for name, nodes in self.survey.sections.items() if at in nodes][:1]
        return tuple(reversed(way))

    def elsewhere(self, place: Place) -> Way | None:
        """The next way to the same summary: the nearest one on the way here goes under its next consumer."""
        tail: list[Step] = []
        for found in place.upward():
            if found.step is None or isinstance(found.step, Section):
                return None
            tail.append(found.step)
            consumers = self.survey.graph.consumers.get(found.step, ()) if isinstance(found.step, str) else ()
            if len(consumers) < 2:
                continue
            above = found.above.step if found.above is not None else None
            start = consumers.index(above) + 1 if isinstance(above, str) and above in consumers else 0
            for step in range(len(consumers)):
                consumer = consumers[(start + step) % len(consumers)]
                way = self.path_to(consumer)
                # Below itself a summary stands again without end; that is the cycle's mark, not a place.
                if consumer != above and way is not None and found.step not in way:
                    return (*way, *reversed(tail))
        return None

    # -- searching ---------------------------------------------------------------------------------------

    def matches(self, needle: str) -> list[Match]:
        """What holds *needle*, in any spelling, in what has been read."""
        sought = sought_as(needle)
        found = [
            Match(name) for name in self.survey.visits if sought in fold(name) or self._says(name, sought)
        ]
        for leaf, messages in self.messages.items():
            found += [
                Match(leaf, place)
                for place, message in enumerate(messages.values())
                if sought in fold(f"{message.preview}\0{_words(message)}")
            ]
        return found

    def _says(self, summary_id: SummaryId, sought: str) -> bool:
        entry = self.entries.get(summary_id)
        kind = self.broken.get(summary_id)
        said = "" if kind is None else f"broken\0{kind}\0"
        if entry is not None:
            summary = entry.summary
            badge = badge_of(summary.kind, summary.depth)
            said += f"{entry.preview}\0{badge}\0{entry.broken or ''}\0{summary.model or ''}"
        return bool(said) and sought in fold(said)

    def rank(self, match: Match) -> tuple[int, int]:
        """Where a match stands in the wholly unfolded tree."""
        rank = self.survey.ranks.get(match.summary_id, len(self.survey.ranks))
        return (rank, 0 if match.message is None else match.message + 1)


def _words(message: SourceMessage) -> str:
    found = message.message
    name = message_name(message.message_id, None if found is None else found.seq)
    return name if found is None else f"{name} {found.role}"


# -- how a row looks -------------------------------------------------------------------------------------

PENDING = "…"
#: Of a level that a row stands below.
GUIDE = "│ "
#: Cells of the fold mark before an id, of the mark behind it, and of what four levels are indented by.
MARK_CELLS = 2
PLACES_CELLS = 3
INDENT_CELLS = 3

_DEPTH = Column("depth", "", 4, keep=95)  # "leaf", "D2": kind and depth need no title
_TOKENS = Column("tokens", "tokens", 6, right=True, keep=85)
_BELOW = Column("below", "below", 6, right=True)
_TIME = Column("time", "covers", 16, timed="in")
_MODEL = Column("model", "model", 14)
_CONTEXT = Column("context", "ordinal", 7, right=True, keep=90)
_BROKEN = Column("broken", "broken", 11, keep=92)
PREVIEW = Column("preview", "begins", 12, grows=True)
#: What a wider list has besides, the first first, with the cells that it takes and those that it leaves the
#: beginnings.
EXTRAS = (
    ("time", 17, 12),
    ("below", 7, 24),
    ("deep", 9, 28),
    ("whole times", 9, 34),
    ("model", 15, 40),
)

_HEADINGS = {
    Section.ORPHANS: ("Orphans: not in the context and not part of any summary", "warn"),
    Section.CYCLES: ("Cycles: not reachable from the context", "error"),
    Section.DANGLING: ("Dangling: referenced, but not in this conversation", "error"),
}


@lru_cache(maxsize=8)
def columns_for(width: int, id_cells: int = ShortIds().cells, *, shared: bool = True) -> Layout:
    """The columns of the list; *shared*: at least one summary has several consumers."""
    tree = id_cells + MARK_CELLS + (PLACES_CELLS if shared else 0) + INDENT_CELLS
    needed = (_DEPTH, _TOKENS, _CONTEXT, _BROKEN)
    left = width - tree - sum(column.width + 1 for column in needed) - 1
    extras = set()
    for name, cells, least in EXTRAS:
        if left - cells >= least:
            extras.add(name)
            left -= cells
    tree += 9 * ("deep" in extras)
    whole = "whole times" in extras
    shown = (
        Column("tree", "summary", tree, grows=left < PREVIEW.width),
        _DEPTH,
        _TOKENS,
        *([_BELOW] if "below" in extras else ()),
        *([replace(_TIME, width=22) if whole else _TIME] if "time" in extras else ()),
        *([_MODEL] if "model" in extras else ()),
        _CONTEXT,
        _BROKEN,
    )
    return lay_out(shown if left < PREVIEW.width else (*shown, PREVIEW), width)


class Painter(Record, frozen=True):
    """Draws the rows of one tree."""

    known: Known
    tree: Tree
    zone: tzinfo | None
    marks: Container[SummaryId] = ()  #: those that wear a mark

    def line(self, place: Place, width: int) -> Line:
        """The row of a place."""
        layout = self.known.columns(width)
        match place.step:
            case Section() as section:
                return self._heading(place, section)
            case str():
                cells = self._summary_cells(place, SummaryId(place.step), layout)
                return _with_guides(row_of(layout, cells))
            case _:
                return _with_guides(self._message_line(place, layout))

    def _heading(self, place: Place, section: Section) -> Line:
        said, style = _HEADINGS[section]
        count = len(self.known.survey.sections.get(section, ()))
        if section is Section.CYCLES:
            count = len(self.known.survey.graph.unreachable)
        head = Span(f"{self._mark(place)} {said} ", "error" if style == "error" else "warn")
        hidden = self._hidden(place)
        return (
            head,
            Span(f"{count:,}  ", "title"),
            Span(f"{hidden:,} broken below" if hidden else "", "error"),
        )

    def _hidden(self, place: Place) -> int:
        """How many broken summaries a folded row hides."""
        if place in self.tree.unfolded or place.step is None or place.repeats:
            return 0
        return self.known.broken_below(place.step)

    def _mark(self, place: Place) -> str:
        if place.step is None or not self.known.can_unfold(place.step) or place.repeats:
            return " "
        return "▾" if place in self.tree.unfolded else "▸"

    def _tree_cell(self, place: Place, name: str, width: int, mark: str, *, marked: bool = False) -> str:
        """A guide for each level above, fold mark (● behind it: the operator's) and name.

        A level that would push the name out stands there as a number.
        """
        room = width - MARK_CELLS - cell_width(name)
        indent = self._guide(width) * (place.level - 1)
        if len(indent) > room:
            deep = f"{place.level - 1}·"
            indent = deep.rjust(max(min(room, len(indent)), len(deep)))
        return f"{indent}{mark}{'●' if marked else ' '}{name}"

    def _guide(self, width: int) -> str:
        """The guide of a level; narrower in a column that has no more for it."""
        survey = self.known.survey
        room = width - MARK_CELLS - survey.ids.cells - PLACES_CELLS * survey.shared
        return GUIDE if room > INDENT_CELLS else GUIDE[0]

    def _summary_cells(self, place: Place, summary_id: SummaryId, layout: Layout) -> dict[str, Span]:
        known, width = self.known, layout.widths[0]
        entry = known.entries.get(summary_id)
        places = known.places(summary_id)
        also = f" ×{places}" if places > 1 else ""
        room = width - MARK_CELLS - len(self._guide(width)) * (place.level - 1) - len(also)
        ids = known.survey.ids
        name = clip(safe_line(ids.of(summary_id)), max(room, ids.cells)) + also
        cells = {
            "tree": Span(
                self._tree_cell(place, name, width, self._mark(place), marked=summary_id in self.marks),
                "warn" if places > 1 else "key",
            ),
            "context": _context_cell(known.ordinals.get(summary_id, ())),
        }
        if entry is None:
            gone = summary_id in known.gone
            node = known.survey.graph.nodes.get(summary_id)
            badge = Span(badge_of(node.kind, node.depth or 0), depth_style(node.depth)) if node else Span("")
            return cells | {
                "depth": badge,
                "tokens": Span("" if gone else PENDING, "dim"),
                "preview": Span("" if gone else PENDING, "dim"),
                "broken": Span("✗ no row", "error") if gone else self._state(place, summary_id, None),
            }
        summary = entry.summary
        whole = any(column.name == "time" and column.width > _TIME.width for column in layout.columns)
        covers = (time_range if whole else time_begun)(summary.earliest_at, summary.latest_at, self.zone)
        return cells | {
            "depth": Span(badge_of(summary.kind, summary.depth), depth_style(summary.depth)),
            "tokens": Span(f"{summary.tokens:,}", "text" if summary.tokens >= 0 else "error"),
            "below": Span(below_text(entry), "dim"),
            "time": Span(covers),
            "model": Span(model_text(summary), "dim"),
            "broken": self._state(place, summary_id, entry),
            "preview": Span(safe_line(entry.beginning), "dim"),
        }

    def _state(self, place: Place, summary_id: SummaryId, entry: SummaryEntry | None) -> Span:
        """What is wrong with a summary, else with what its row hides; *entry*: its row, once it was read."""
        known = self.known
        kind = known.broken.get(summary_id) or (entry.broken if entry is not None else None)
        hidden = self._hidden(place)
        if kind is not None:
            return Span(f"✗ +{hidden} below" if hidden else broken_text(kind), "error")
        if place.repeats:
            return Span("↺ cycle", "error")
        if entry is not None and entry.summary.conversation_id != known.conversation_id:
            return Span(f"✗ conv {entry.summary.conversation_id}", "error")
        if hidden:
            return Span(f"  {hidden} below", "error")  # no ✗: the row itself is sound
        if entry is not None and not entry.source_summaries and not entry.source_messages:
            return Span("no source", "warn")
        return Span("stale" if summary_id in known.stale else "", "warn")

    def _message_line(self, place: Place, layout: Layout) -> Line:
        found = self.known.message_of(place)
        width = layout.widths[0] + 1 + layout.widths[1]
        message = found.message if found else None
        if found is None or message is None:
            cell = self._tree_cell(place, f"m{place.step}", width, " ")
            return (Span(clip(cell, width), "error"), Span(" ✗ message row missing", "error"))
        tree = self._tree_cell(place, f"#{message.seq} {safe_line(message.role)}", width, " ")
        numbers = layout.shows("tokens")
        head = Layout(
            (layout.columns[0], *layout.columns[2:3]) if numbers else layout.columns[:1],
            (width, *layout.widths[2:3]) if numbers else (width,),
        )
        cells = {"tree": Span(tree, role_style(message.role)), "tokens": Span(f"{message.tokens:,}")}
        said = minute_text(message.created_at, self.zone)
        return (*row_of(head, cells), Span(f" {said} ", "dim"), Span(message_preview(found)))


def _with_guides(line: Line) -> Line:
    """A row whose guides stand back."""
    first, *rest = line
    name = first.text.lstrip(GUIDE)
    return (Span(first.text[: len(first.text) - len(name)], "dim"), Span(name, first.style), *rest)


def _context_cell(ordinals: tuple[int, ...]) -> Span:
    if not ordinals:
        return Span("")
    if len(ordinals) > 1:  # the same summary twice is damage (A3)
        return Span(",".join(str(ordinal) for ordinal in ordinals), "error")
    return Span(str(ordinals[0]), "ok")
