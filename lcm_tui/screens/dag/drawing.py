"""How a row of the summary tree looks."""

from __future__ import annotations

from collections.abc import Container, Set
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache

from lcm_core.records import SummaryId
from lcm_core.store.summaries import SummaryEntry
from lcm_core.text import cell_width, clip, safe_line
from lcm_core.times import format_local, parse_utc

from lcm_tui.screens.dag.known import Known
from lcm_tui.screens.dag.tree import Place, Section, Tree
from lcm_tui.views.summary import (
    SHORT_ID_CELLS,
    badge_of,
    below_text,
    broken_text,
    message_preview,
    model_text,
    time_range,
)
from lcm_tui.widgets.spans import Column, Layout, Line, Span, depth_style, lay_out, role_style, row_of

PENDING = "…"
#: Cells of a summary id as the engine makes it.
ID_CELLS = 20
#: Cells of the fold mark before an id, and of the mark behind it.
MARK_CELLS = 2
PLACES_CELLS = 3

#: A tree of so many cells leaves the beginnings of summaries at least so many: from the widest to the one
#: that every screen of 80 columns has room for.
TREES = (
    (ID_CELLS + MARK_CELLS + PLACES_CELLS + 10, 40),
    (ID_CELLS + MARK_CELLS + PLACES_CELLS + 4, 30),
    (SHORT_ID_CELLS + MARK_CELLS + PLACES_CELLS + 4, 0),
)
COLUMNS = (
    Column("depth", "", 4, keep=95),  # "leaf", "D2": kind and depth need no title
    Column("tokens", "tokens", 7, right=True, keep=85),
    Column("below", "below", 6, right=True, keep=50),
    Column("time", "covers", 22, keep=40, timed="in"),
    Column("model", "model", 14, keep=20),
    Column("context", "ordinal", 7, right=True, keep=90),
    Column("broken", "broken", 11, keep=92),
)
PREVIEW = Column("preview", "begins", 20, grows=True)
#: Columns that come behind the beginnings, each with the cells that it has to leave them.
BEHIND = {"below": 22, "time": 34, "model": 40}

_HEADINGS = {
    Section.ORPHANS: ("Orphans: not in the context and not part of any summary", "warn"),
    Section.CYCLES: ("Cycles: not reachable from the context", "error"),
    Section.DANGLING: ("Dangling: referenced, but not in this conversation", "error"),
}


@lru_cache(maxsize=8)
def columns_for(width: int) -> Layout:
    """The columns of the list: how a summary begins always has one, and whole ids give way to it."""
    needed = [column for column in COLUMNS if column.name not in BEHIND]
    left = width - sum(column.width + 1 for column in needed) - 1
    tree = next(cells for cells, beginning in TREES if left - cells >= beginning or not beginning)
    left -= tree
    for column in COLUMNS:
        if column.name in BEHIND and left - column.width - 1 >= BEHIND[column.name]:
            needed.append(column)
            left -= column.width + 1
    shown = [column for column in COLUMNS if column in needed]
    if tree + 1 + COLUMNS[0].width + 1 + PREVIEW.width > width:
        return lay_out((Column("tree", "summary", tree, grows=True), *shown), width)
    return lay_out((Column("tree", "summary", tree, keep=100), *shown, PREVIEW), width)


@dataclass(frozen=True, slots=True)
class Painter:
    """Draws the rows of one tree."""

    known: Known
    tree: Tree
    zone: tzinfo | None
    marks: Container[SummaryId] = ()  #: those that wear a mark
    stale: Set[SummaryId] = frozenset()  #: those that were made from texts that were replaced since

    def line(self, place: Place, width: int) -> Line:
        """The row of a place."""
        layout = columns_for(width)
        match place.step:
            case Section() as section:
                return self._heading(place, section)
            case str():
                return row_of(layout, self._summary_cells(place, SummaryId(place.step), layout.widths[0]))
            case _:
                return self._message_line(place, layout)

    def _heading(self, place: Place, section: Section) -> Line:
        said, style = _HEADINGS[section]
        found = self.known.survey.sections.get(section, ()) if self.known.survey else ()
        count = len(found)
        if section is Section.CYCLES and self.known.survey is not None:
            count = len(self.known.survey.graph.unreachable)
        head = Span(f"{self._mark(place)} {said} ", "error" if style == "error" else "warn")
        return (head, Span(f"{count:,}", "title"))

    def _mark(self, place: Place) -> str:
        if place.step is None or not self.known.can_unfold(place.step) or place.repeats:
            return " "
        return "▾" if place in self.tree.unfolded else "▸"

    def _tree_cell(self, place: Place, name: str, width: int, mark: str, *, marked: bool = False) -> str:
        """Indentation, fold mark (● behind it: the operator's) and name.

        A level that would push the name out stands there as a number.
        """
        indent = " " * (2 * (place.level - 1))
        room = width - MARK_CELLS - max(cell_width(name), _id_cells(width))
        if len(indent) > room:
            deep = f"{place.level - 1}·"
            indent = deep.rjust(max(min(room, len(indent)), len(deep)))
        return f"{indent}{mark}{'●' if marked else ' '}{name}"

    def _summary_cells(self, place: Place, summary_id: SummaryId, width: int) -> dict[str, Span]:
        known = self.known
        entry = known.entries.get(summary_id)
        places = known.places(summary_id)
        name = clip(safe_line(summary_id), _id_cells(width)) + (f" ×{places}" if places > 1 else "")
        cells = {
            "tree": Span(
                self._tree_cell(place, name, width, self._mark(place), marked=summary_id in self.marks),
                "warn" if places > 1 else "key",
            ),
            "context": _context_cell(known.ordinals.get(summary_id, ())),
        }
        if entry is None:
            gone = summary_id in known.gone
            node = known.survey.graph.nodes.get(summary_id) if known.survey else None
            badge = Span(badge_of(node.kind, node.depth or 0), depth_style(node.depth)) if node else Span("")
            return cells | {
                "depth": badge,
                "tokens": Span("" if gone else PENDING, "dim"),
                "preview": Span("" if gone else PENDING, "dim"),
                "broken": Span("✗ no row", "error") if gone else self._repeat(place),
            }
        summary = entry.summary
        return cells | {
            "depth": Span(badge_of(summary.kind, summary.depth), depth_style(summary.depth)),
            "tokens": Span(f"{summary.tokens:,}", "text" if summary.tokens >= 0 else "error"),
            "below": Span(below_text(entry), "dim"),
            "time": Span(time_range(summary.earliest_at, summary.latest_at, self.zone)),
            "model": Span(model_text(summary), "dim"),
            "broken": self._broken_cell(place, entry),
            "preview": Span(safe_line(entry.beginning), "dim"),
        }

    def _repeat(self, place: Place) -> Span:
        return Span("↺ cycle", "error") if place.repeats else Span("")

    def _broken_cell(self, place: Place, entry: SummaryEntry) -> Span:
        if entry.broken is not None:
            return Span(broken_text(entry.broken), "error")
        if place.repeats:
            return self._repeat(place)
        if entry.summary.conversation_id != self.known.conversation_id:
            return Span(f"✗ in conv {entry.summary.conversation_id}", "error")
        if not entry.source_summaries and not entry.source_messages:
            return Span("no source", "warn")
        if entry.summary.summary_id in self.stale:
            return Span("stale", "warn")
        return Span("")

    def _message_line(self, place: Place, layout: Layout) -> Line:
        found = self.known.message_of(place)
        width = layout.widths[0]
        message = found.message if found else None
        if found is None or message is None:
            cell = self._tree_cell(place, f"m{place.step}", width, " ")
            return (Span(clip(cell, width), "error"), Span(" ✗ message row missing", "error"))
        tree = self._tree_cell(place, f"#{message.seq} {safe_line(message.role)}", width, " ")
        head = Layout(
            layout.columns[:3] if layout.shows("tokens") else layout.columns[:1],
            layout.widths[:3] if layout.shows("tokens") else layout.widths[:1],
        )
        cells = {"tree": Span(tree, role_style(message.role)), "tokens": Span(f"{message.tokens:,}")}
        said = format_local(parse_utc(message.created_at), self.zone)[:16] or safe_line(message.created_at)
        return (*row_of(head, cells), Span(f" {said} ", "dim"), Span(message_preview(found)))


def _id_cells(width: int) -> int:
    """How much of an id a tree of so many cells shows."""
    return ID_CELLS if width >= TREES[-2][0] else SHORT_ID_CELLS


def _context_cell(ordinals: tuple[int, ...]) -> Span:
    if not ordinals:
        return Span("")
    if len(ordinals) > 1:  # the same summary twice is damage (A3)
        return Span(",".join(str(ordinal) for ordinal in ordinals), "error")
    return Span(str(ordinals[0]), "ok")
