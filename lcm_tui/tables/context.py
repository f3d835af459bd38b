"""How a context looks as a list: the cells of an item, and the lines between items."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Final

from lcm_core.base.text import cell_width, clip, safe_line
from lcm_core.base.times import age, parse_utc
from lcm_core.base.tokens import TokenCheck, Verdict
from lcm_core.base.values import replace
from lcm_core.engine.assembly import AssemblyStep
from lcm_core.engine.sent import ItemOutcome, Ledger
from lcm_core.store.context import ContextEntry
from lcm_core.store.context_view import TAIL, ContextView, Found, RowKey, gap_text

from lcm_tui.kit.spans import Column, Layout, Line, Span, StyleName, depth_style, lay_out, role_style, row_of
from lcm_tui.tables.blocks import kind_name
from lcm_tui.tables.messages import message_name
from lcm_tui.tables.summaries import SHORT_ID_CELLS

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

WIDEST_ID: Final = "sum_0123456789abcdef"

_PLACES = (
    Column("mark", "", 1, keep=99),
    Column("ordinal", "#", 5, right=True, keep=98),
    Column("kind", "kind", 9, keep=97),
)
_NUMBERS = (
    Column("tokens", "stored", 10, right=True, keep=80),
    Column("sent", "sent", 11, right=True, keep=85),
    Column("total", "total", 9, right=True, keep=30),
    Column("age", "age", 4, right=True, keep=40),
)
_ID = Column("id", "id", len(WIDEST_ID), keep=90)
_PREVIEW = Column("preview", "preview", 12, grows=True, keep=60)
#: Below this a preview would be a word or two, and the text stands beside the list.
PREVIEW_FROM = 67
#: Below this ids are shortened, for the preview tells items apart; `y` copies the whole id.
WHOLE_IDS_FROM = 90
#: From here on there is room for running totals, too.
TOTALS_FROM = 96
#: From here on two token counts have room beside each other, however large.
ROOMY_FROM = 110


@lru_cache(maxsize=8)
def columns(width: int) -> Layout:
    """The columns for a list of *width* cells; what is left belongs to the preview, never to the ids."""
    if width >= TOTALS_FROM:
        tokens, *others = _NUMBERS
        tokens = replace(tokens, width=20) if width >= ROOMY_FROM else tokens
        return lay_out((*_PLACES, _ID, tokens, *others, _PREVIEW), width)
    few = [column for column in _NUMBERS if column.name != "total"]
    text = (_PREVIEW,) if width >= PREVIEW_FROM else ()
    named = _ID if width >= WHOLE_IDS_FROM else replace(_ID, width=SHORT_ID_CELLS)
    return lay_out((*_PLACES, named, *few, *text), width)


def item_line(
    view: ContextView,
    place: int,
    check: TokenCheck | None,
    now: datetime,
    width: int,
    mark: str = "",
    ledger: Ledger | None = None,
) -> Line:
    """An item as a line of the list; one whose row is gone says so in place of its numbers.

    *mark* is the operator's, behind the kind of the item; *ledger* tells whether the model gets it.
    """
    layout = columns(width)
    room = next(
        (
            width
            for column, width in zip(layout.columns, layout.widths, strict=True)
            if column.name == "tokens"
        ),
        10,
    )
    fate = fate_at(view, place, ledger)
    cells = item_cells(view, place, check, now, room, fate)
    if mark:
        cells["kind"] = Span(f"{cells['kind'].text} {mark}", cells["kind"].style)
    if not view.entries[place].dangling:
        line = _row(width, tuple(cells.items()))
        return dimmed(line) if fate is not None and not fate.sent else line
    head = Layout(layout.columns[:4], (*layout.widths[:3], len(WIDEST_ID)))
    return (*row_of(head, cells), Span(" "), cells["preview"])


@lru_cache(maxsize=1_000)
def _row(width: int, cells: tuple[tuple[str, Span], ...]) -> Line:
    """The cells as a line; after a reload most rows say what they said before."""
    return row_of(columns(width), dict(cells))


def item_cells(
    view: ContextView,
    place: int,
    check: TokenCheck | None,
    now: datetime,
    room: int,
    fate: ItemOutcome | None,
) -> dict[str, Span]:
    """The cells of an item; *room* is that for its tokens."""
    entry, findings = view.entries[place], view.findings(place)
    ordinal = entry.item.ordinal
    return {
        "mark": _mark(view, place, findings, check, fate),
        "ordinal": Span(str(ordinal), "error" if ordinal < 0 else "dim"),
        "kind": kind_cell(entry),
        "id": id_cell(entry),
        "tokens": tokens_cell(entry.tokens, check, room),
        "sent": fate_cell(fate),
        "total": Span(number(view.running[place], 9), "dim"),
        "age": Span(age_text(entry, now), "dim"),
        "preview": _preview(view, entry, findings, fate),
    }


def fate_at(view: ContextView, place: int, ledger: Ledger | None) -> ItemOutcome | None:
    """What becomes of the item at a place; None while it is not known."""
    items = view.items
    return None if ledger is None else ledger.fate(items.ordinals[place], items.refs[place])


def _mark(
    view: ContextView, place: int, findings: list[Found], check: TokenCheck | None, fate: ItemOutcome | None
) -> Span:
    if findings:
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


def kind_cell(entry: ContextEntry) -> Span:
    """``leaf``, ``D2`` or a role; of an item whose row is gone its type."""
    if entry.kind is not None:
        return Span(kind_name(entry.kind, entry.depth or 0), depth_style(entry.depth))
    if entry.role is not None:
        return Span(entry.role, role_style(entry.role))
    return Span(entry.item.item_type, "dim")


def id_cell(entry: ContextEntry) -> Span:
    """A summary's id, or a message's with its seq."""
    item = entry.item
    if item.summary_id is not None:
        return Span(item.summary_id, "key")
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


def age_text(entry: ContextEntry, now: datetime) -> str:
    """How old an item is."""
    then = parse_utc(entry.said_at)
    return age(then, now) if then is not None else NO_VALUE


def _preview(view: ContextView, entry: ContextEntry, findings: list[Found], fate: ItemOutcome | None) -> Span:
    text = entry.beginning
    if findings:
        return Span(" · ".join([*(found.text for found in findings), text]).strip(" ·"), "error")
    if mended := repairs_text(fate):
        return Span(f"{mended} · {text}", "warn")
    if fate is not None and fate.pasted:
        hidden = sum(file.byte_size or 0 for file in fate.pasted)
        pasted = f"{hidden:,} pasted bytes" if hidden else "what was pasted"
        return Span(f"a note for {pasted} · {text}", "warn")
    return Span(text, "brief" if view.is_covered(entry.item.summary_id) else "text")


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
    messages = "1 message" if tail.messages == 1 else f"{tail.messages:,} messages"
    return f"fresh tail: {messages}, {tail.tokens:,} stored tokens"


def brief_text(view: ContextView) -> str:
    """Which brief stands here, and instead of what."""
    overlay = view.overlay
    if overlay is None:
        return "focus brief"
    covered = "1 summary" if len(overlay.covered) == 1 else f"{len(overlay.covered):,} summaries"
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
        Span(f" · {count:,} {one if count == 1 else many}", style)
        for count, one, many, style in counted
        if count
    ]
    sent = view.tokens_with_brief()
    return (*found, Span(f" · {sent:,} with the focus brief", "brief")) if sent is not None else tuple(found)
