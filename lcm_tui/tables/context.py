"""How a context looks as a list: the cells of an item, and the lines between items."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

from lcm_core.base.records import Timestamp
from lcm_core.base.text import cell_width, clip, counted, preview, safe_line
from lcm_core.base.times import age, parse_utc
from lcm_core.base.tokens import TokenCheck, Verdict
from lcm_core.base.values import Record, replace
from lcm_core.engine.assembly import AssemblyStep
from lcm_core.engine.sent import ItemOutcome, Ledger
from lcm_core.store.context import ContextEntry
from lcm_core.store.context_view import TAIL, ContextView, Found, RowKey, gap_text

from lcm_tui.kit.spans import Layout, Line, Span, StyleName, depth_style, lay_out, role_style, row_of
from lcm_tui.tables.blocks import ListColumn, Table, When, cells_of, kind_name, kind_words, list_table
from lcm_tui.tables.messages import message_name
from lcm_tui.tables.summaries import ID_CELLS, ShortIds

PENDING: Final = "…"
NO_VALUE: Final = "–"
#: Shown instead of the tokens of an item that is not sent: the step that dropped it.
STEP_WORDS: Final = {
    AssemblyStep.RESOLVE: "missing",
    AssemblyStep.FOCUS: "in brief",
    AssemblyStep.BUDGET: "cut: budget",
    AssemblyStep.PROMPT: "cut: prompt",
    AssemblyStep.NORMALISE: "empty",
    AssemblyStep.PAIRING: "unpaired",
    AssemblyStep.CLAMP: "cut: limit",
}

#: Below this a preview would be a word or two, and the text stands beside the list.
PREVIEW_FROM = 67
#: From here on there is room for running totals, too.
TOTALS_FROM = 96
#: From here on two token counts have room beside each other, however large.
ROOMY_FROM = 110


class ItemRow(Record, frozen=True):
    """An item of a context."""

    view: ContextView
    place: int
    created: Timestamp | None = None  #: when the message or summary was made, for programs

    @property
    def entry(self) -> ContextEntry:
        """The item with what it refers to."""
        return self.view.entries[self.place]

    @property
    def name(self) -> str:
        """The item in words."""
        return self.entry.item.summary_id or f"message {self.entry.item.message_id}"

    @property
    def kind(self) -> str | None:
        """The kind of a summary with its depth, or the role of a message."""
        entry = self.entry
        return kind_words(entry.kind, entry.depth or 0) if entry.kind else entry.role

    @property
    def findings(self) -> list[Found]:
        """What is wrong with it."""
        return self.view.findings(self.place)

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, and with the text of a summary."""
        one, broken = self.entry.item.summary_id, self.view.wrong.broken
        text = broken[one].value if one is not None and one in broken else None
        return [*(found.text for found in self.findings), *([text] if text else [])]

    @property
    def stale(self) -> bool:
        """Whether it was made from a text that was replaced since."""
        return self.entry.item.summary_id in self.view.wrong.stale

    @property
    def status(self) -> str | None:
        """What is wrong with it, in a word."""
        return next((found.finding for found in self.findings), None)

    @property
    def notes(self) -> str:
        """What is wrong with it, and how it stands in its context."""
        item, overlay = self.entry.item, self.view.overlay
        notes = self.faults
        if item.ordinal == self.view.tail.first_ordinal:
            notes.append("fresh tail begins")
        if overlay is not None and item.summary_id in overlay.covered:
            notes.append("replaced by the focus brief")
        if self.stale:
            notes.append("stale: a source was rewritten since")
        return "; ".join(notes)


class ItemCells(Record, frozen=True):
    """What the cells of the app's list are drawn with."""

    check: TokenCheck | None
    now: datetime
    rooms: Mapping[str, int]  #: cells of each column that is shown
    fate: ItemOutcome | None
    ids: ShortIds
    mark: str = ""  #: the operator's, behind the kind of the item


def fate_at(view: ContextView, place: int, ledger: Ledger | None) -> ItemOutcome | None:
    """What becomes of the item at a place; None while it is not known."""
    items = view.items
    return None if ledger is None else ledger.fate(items.ordinals[place], items.refs[place])


def _mark(faults: list[str], row: ItemRow, drawing: ItemCells) -> Span:
    view, place, check, fate = row.view, row.place, drawing.check, drawing.fate
    if faults:
        return Span("✗", "error")
    if fate is not None and not fate.sent and fate.step is not AssemblyStep.FOCUS:
        return Span("-", "warn")
    if fate is not None and fate.repairs:
        return Span("~", "warn")
    if check is not None and check.verdict is Verdict.DIFFERS:
        return Span("!", "warn")
    if fate is not None and fate.score:
        return Span("*", "new")
    if view.is_covered(view.items.refs[place]):
        return Span("┆", "brief")
    return Span("│" if view.is_protected(place) else " ", "tail")


def _kind(_: str | None, row: ItemRow, drawing: ItemCells) -> Span:
    """``leaf``, ``D2``, ``D2 stale`` or a role; of an item whose row is gone its type.

    What is wrong with it where it has no preview, which says so otherwise.
    """
    entry, marked = row.entry, f" {drawing.mark}" if drawing.mark else ""
    if entry.kind is not None and row.faults and "preview" not in drawing.rooms:
        return Span(f"{kind_name(entry.kind, entry.depth or 0)} {drawing.mark}{row.faults[0]}", "error")
    if entry.kind is not None and row.stale:
        return Span(f"{kind_name(entry.kind, entry.depth or 0)} {drawing.mark}stale", "warn")
    if entry.kind is not None:
        return Span(kind_name(entry.kind, entry.depth or 0) + marked, depth_style(entry.depth))
    if entry.role is not None:
        return Span(entry.role + marked, role_style(entry.role))
    return Span(entry.item.item_type + marked, "dim")


def id_cell(entry: ContextEntry, ids: ShortIds) -> Span:
    """A summary's id, or a message's with its seq."""
    item = entry.item
    if item.summary_id is not None:
        return Span(ids.of(item.summary_id), "key")
    if item.message_id is None:
        return Span("refers to nothing", "error")
    return Span(message_name(item.message_id, entry.seq), "key")


def tokens_cell(tokens: int | None, check: TokenCheck | None, room: int) -> Span:
    """The stored count, beside ours when no estimator of the engine gives it and both have room."""
    if tokens is None:
        return Span(NO_VALUE, "dim")
    stored = number(tokens, room)
    if check is None or check.verdict is not Verdict.DIFFERS:
        return Span(stored)
    ours = check.weighted or 0
    both = (f"{tokens:,} ≠ ~{ours:,}", f"{tokens}≠~{ours}", f"{stored} ≠")
    return Span(next((text for text in both if len(text) <= room), stored), "warn")


def fate_cell(fate: ItemOutcome | None) -> Span:
    """What an item weighs as it is sent, or the step in which it went."""
    if fate is None:
        return Span(PENDING, "dim")
    if fate.step is not None:
        return Span(STEP_WORDS[fate.step], "warn")
    return Span(number(fate.tokens, 11))


def repairs_text(fate: ItemOutcome | None) -> str:
    """What was mended at an item, each thing once."""
    return "" if fate is None else " · ".join(dict.fromkeys(str(one.what) for one in fate.repairs))


def dimmed(line: Line) -> Line:
    """A line of what is not sent."""
    return tuple(span if span.style in ("warn", "error") else Span(span.text, "dim") for span in line)


def number(value: int, room: int) -> str:
    """A number with separators where they have room."""
    written = f"{value:,}"
    return written if len(written) <= room else str(value)


def age_text(said_at: str | None, now: datetime) -> str:
    """How old what was said then is."""
    then = parse_utc(said_at)
    return age(then, now) if then is not None else NO_VALUE


def _preview(text: str, row: ItemRow, drawing: ItemCells) -> Span:
    fate = drawing.fate
    if faults := row.faults:
        return Span(" · ".join([*faults, text]).strip(" ·"), "error")
    if mended := repairs_text(fate):
        return Span(f"{mended} · {text}", "warn")
    if fate is not None and fate.pasted:
        hidden = sum(file.byte_size or 0 for file in fate.pasted)
        pasted = f"{hidden:,} pasted bytes" if hidden else "what was pasted"
        return Span(f"a note for {pasted} · {text}", "warn")
    return Span(text, "brief" if row.view.is_covered(row.entry.item.summary_id) else "text")


# fmt: off
#: All that is said of an item, in order.
ITEM_COLUMNS: Final[tuple[ListColumn[ItemRow, ItemCells], ...]] = (
    ListColumn("mark", "", 1, keep=99, value="faults", cell=_mark),
    ListColumn("ordinal", "ordinal", 7, right=True, keep=98, heading="Ordinal", json="ordinal",
               value="entry.item.ordinal", text=str,
               cell=lambda value, _, __: Span(str(value), "error" if value < 0 else "dim")),
    ListColumn("type", json="itemType", value="entry.item.item_type"),
    ListColumn("summary", json="summaryId", value="entry.item.summary_id"),
    ListColumn("message", json="messageId", value="entry.item.message_id"),
    ListColumn("name", heading="Item", value="name"),
    ListColumn("kind", "kind", 9, keep=97, heading="What", value="kind", cell=_kind),
    ListColumn("of_summary", json="kind", value="entry.kind"),
    ListColumn("depth", json="depth", value="entry.depth"),
    ListColumn("role", json="role", value="entry.role"),
    ListColumn("id", "id", ID_CELLS, keep=90, value="entry",
               cell=lambda entry, _, drawing: id_cell(entry, drawing.ids)),
    ListColumn("tokens", "stored", 10, right=True, keep=80, heading="Stored", json="tokenCount",
               value="entry.tokens",
               cell=lambda value, _, drawing: tokens_cell(
                   value, drawing.check, drawing.rooms.get("tokens", 10))),
    ListColumn("sent", "sent", 11, right=True, keep=85, value="place",
               cell=lambda _, __, drawing: fate_cell(drawing.fate)),
    ListColumn("total", "total", 9, right=True, keep=30, value=lambda row: row.view.running[row.place],
               cell=lambda value, _, __: Span(number(value, 9), "dim")),
    ListColumn("time", heading="Time", spare=2, time=True, value="entry.said_at"),
    ListColumn("age", "age", 4, right=True, keep=40, value="entry.said_at",
               cell=lambda value, _, drawing: Span(age_text(value, drawing.now), "dim")),
    ListColumn("created", json="createdAt", value="created"),
    ListColumn("notes", heading="Note", spare=1, value="notes"),
    ListColumn("text", json="preview", value=lambda row: preview(row.entry.preview)),
    ListColumn("seq", json="seq", value="entry.seq"),
    ListColumn("status", json="status", value="status"),
    ListColumn("preview", "preview", 12, grows=True, keep=60, heading="Text", value="entry.beginning",
               text=preview, cell=_preview),
)
# fmt: on
_IN_APP: Final = tuple(column for column in ITEM_COLUMNS if column.width)


def ids_of(view: ContextView) -> tuple[ShortIds, int]:
    """How the ids of a context are written, and the cells for them: names of messages are whole."""
    ids = ShortIds(filter(None, (entry.item.summary_id for entry in view.entries)))
    names = (len(id_cell(one, ids).text) for one in view.entries if one.item.message_id is not None)
    return ids, min(max(ids.cells, *names, 0), ID_CELLS)


@lru_cache(maxsize=8)
def columns(width: int, id_cells: int) -> Layout:
    """The columns for a list of *width* cells; what is left belongs to the preview, never to the ids."""
    narrower = {"id": id_cells}
    left_out, grows = set[str](), "preview"
    if width >= ROOMY_FROM:
        narrower["tokens"] = 20
    if width < TOTALS_FROM:
        left_out.add("total")
    if width < PREVIEW_FROM:
        left_out.add("preview")
        grows = "kind"
    shown = [column for column in _IN_APP if column.name not in left_out]
    return lay_out(
        [replace(one, width=narrower.get(one.name, one.width), grows=one.name == grows) for one in shown],
        width,
    )


def item_line(
    view: ContextView,
    place: int,
    check: TokenCheck | None,
    now: datetime,
    width: int,
    mark: str = "",
    ledger: Ledger | None = None,
    *,
    ids: ShortIds,
    id_cells: int,
) -> Line:
    """An item as a line of the list; one whose row is gone says so in place of its numbers.

    *mark* is the operator's, behind the kind of the item; *ledger* tells whether the model gets it.
    """
    layout = columns(width, id_cells)
    rooms = {column.name: cells for column, cells in zip(layout.columns, layout.widths, strict=True)}
    fate = fate_at(view, place, ledger)
    cells = cells_of(ITEM_COLUMNS, ItemRow(view, place), ItemCells(check, now, rooms, fate, ids, mark))
    if not view.entries[place].dangling:
        line = _row(layout, tuple(cells.items()))
        return dimmed(line) if fate is not None and not fate.sent else line
    head = Layout(layout.columns[:4], (*layout.widths[:3], ID_CELLS))
    return (*row_of(head, cells), Span(" "), cells["preview"])


@lru_cache(maxsize=1_000)
def _row(layout: Layout, cells: tuple[tuple[str, Span], ...]) -> Line:
    """The cells as a line; after a reload most rows say what they said before."""
    return row_of(layout, dict(cells))


def context_table(view: ContextView, when: When, most: int) -> Table:
    """The newest items as a table, *most* of them, with the gaps between them."""
    first = max(0, len(view.items) - most)
    rows = [ItemRow(view, place) for place in range(first, len(view.items))]
    table = list_table(ITEM_COLUMNS, rows, when, empty="The context is empty.")
    lines = list(table.rows)
    for gap in reversed(view.items.gaps):
        if gap.place >= first:
            lines.insert(gap.place - first, ("", "", "", "", "", gap_text(gap), ""))
    return replace(table, rows=lines)


# -- what stands between items -----------------------------------------------------------------------------


def line_between(view: ContextView, key: RowKey, width: int) -> Line:
    """A line that no item stands in: a gap, the beginning of the fresh tail, a focus brief."""
    kind = key[0]
    if kind == "gap":
        gap = view.gap(key)
        return _ruler(gap_text(gap) if gap else "gap", width, "warn")
    if key == TAIL:
        return _ruler(tail_text(view), width, "tail")
    return _ruler(brief_text(view), width, "brief")


def tail_text(view: ContextView) -> str:
    """Where the fresh tail begins, in words."""
    tail = view.tail
    return f"fresh tail: {counted(tail.messages, 'message')}, {tail.tokens:,} stored tokens"


def brief_text(view: ContextView) -> str:
    """Which brief stands here, and instead of what."""
    overlay = view.overlay
    if overlay is None:
        return "focus brief"
    covered = counted(len(overlay.covered), "summary")
    brief = overlay.brief
    return f"focus brief replaces {covered} marked ┆ ({brief.tokens:,} tokens): “{brief.prompt}”"


def _ruler(text: str, width: int, style: StyleName) -> Line:
    said = clip(safe_line(f"── {text} "), width)
    return (Span(said, style), Span("─" * max(width - cell_width(said), 0), style))


def findings_line(view: ContextView) -> Line:
    """What is wrong with the context, in short, for its head; and what a focus brief makes of its tokens."""
    items, totals = view.items, view.totals
    repeated = sum(len(places) - 1 for places in items.repeated.values())
    mismatched = sum(items.refs[place] is not None for place in items.mismatched)
    counted: list[tuple[int, str, str, StyleName]] = [
        (len(items.gaps), "gap", "gaps", "warn"),
        (repeated, "duplicate", "duplicates", "error"),
        (totals.dangling, "dangling", "dangling", "error"),
        (totals.foreign, "foreign", "foreign", "error"),
        (len(items.abnormal), "bad ordinal", "bad ordinals", "error"),
        (mismatched, "wrong type", "wrong types", "error"),
    ]
    found = [
        Span(f"{count:,} {one if count == 1 else many}", style)
        for count, one, many, style in counted
        if count
    ]
    sent = view.tokens_with_brief()
    return (*found, Span(f"{sent:,} with the focus brief", "brief")) if sent is not None else tuple(found)
