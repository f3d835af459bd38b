"""A batch of drafts as lines: each summary with how far it has come, and what is said above them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lcm_core.operations.drafting.items import BatchItem, BatchProgress, ItemState
from lcm_core.summarize.request import Usage

from lcm_tui.screens.dissolving import MARK
from lcm_tui.widgets.composition import gauge
from lcm_tui.widgets.spans import Column, Layout, Line, Span, StyleName, depth_style, lay_out, row_of
from lcm_tui.writing import spent_text

COLUMNS: Final = (
    Column("mark", "", 1, keep=9),
    Column("summary", "summary", 20, keep=8),
    Column("depth", "depth", 5, right=True, keep=3),
    Column("reason", "because", 12, keep=4),
    Column("state", "state", 9, keep=7),
    Column("tokens", "now", 6, right=True, keep=5),
    Column("draft", "draft", 6, right=True, keep=6),
    Column("why", "", 12, grows=True, keep=2),
)
#: States and how they look.
STYLES: Final[dict[ItemState, StyleName]] = {
    ItemState.WAITING: "dim",
    ItemState.DRAFTING: "title",
    ItemState.REVIEW: "warn",
    ItemState.COMMITTED: "ok",
    ItemState.SKIPPED: "dim",
    ItemState.FAILED: "error",
}
GAUGE: Final = 20


def columns_for(width: int) -> Layout:
    """The columns that fit."""
    return lay_out(COLUMNS, width)


def row(item: BatchItem, width: int, *, marked: bool) -> Line:
    """One summary of the batch."""
    draft = item.draft or (item.drafts[-1] if item.drafts else None)
    why = item.why
    if draft is not None and not why:
        more = f"{len(item.drafts)} drafts, " if len(item.drafts) > 1 else ""
        why = f"{more}{draft.model}" + (", " + draft.verdict.sentences[0] if draft.verdict.sentences else "")
    return row_of(
        columns_for(width),
        {
            "mark": Span(MARK if marked else "○", "title" if marked else "dim"),
            "summary": Span(item.summary_id),
            "depth": Span("L" if item.depth == 0 else f"D{item.depth}", depth_style(item.depth)),
            "reason": Span(item.reason, "dim"),
            "state": Span(item.state.value, STYLES[item.state]),
            "tokens": Span(f"{item.tokens:,}", "dim"),
            "draft": Span("" if draft is None else f"{draft.tokens:,}"),
            "why": Span(why, "dim"),
        },
    )


def head_lines(
    who: str,
    key: str,
    marked: int,
    contaminated: int,
    estimate: str,
    progress: BatchProgress | None,
    *,
    spent: Usage,
    running: bool,
    rule: str,
    trouble: str,
    width: int,
) -> Iterator[Line]:
    """Five lines: who is asked, with which key; what it takes, or how far it is; what is to be known."""
    yield (Span(f" {who}"),)
    cost = "" if progress is None else f" · cost so far: {spent_text(spent)}"
    yield (Span(f" {key}{cost}", "dim"),)
    if progress is None:
        apart = f" · {contaminated:,} made from broken ones, not marked" if contaminated else ""
        yield (Span(f" {marked:,} marked", "title"), Span(apart, "warn"))
        yield (Span(f" {estimate or 'nothing to estimate'}", "dim"),)
        yield (Span(" Nothing has been asked yet: P says what it takes and asks you.", "dim"),)
        return
    yield (Span(" "), *_bar(progress), Span(f"  {pace(progress, running=running)}"))
    yield tuple(_states(progress))
    if trouble:
        yield (Span(f" {trouble}", "error"),)
    elif rule:
        yield (Span(f" The rule of this batch: {rule}.", "warn"),)
    else:
        yield (Span(" Nothing is accepted by itself: enter reviews, a previews, A states a rule.", "dim"),)


def _bar(progress: BatchProgress) -> Line:
    done = progress.done / progress.total if progress.total else 1.0
    return (*gauge(done, GAUGE), Span(f" {progress.done:,} of {progress.total:,} drafted"))


def pace(progress: BatchProgress, *, running: bool) -> str:
    """Rate and remaining time."""
    said = []
    rate, left = progress.per_minute, progress.remaining
    if running and rate is not None:
        said.append(f"{rate:,.0f} a minute")
    if running and left is not None and progress.done < progress.total:
        said.append(f"about {left:,.0f} s left" if left < 100 else f"about {left / 60:,.0f} min left")
    if not running and progress.counts.get(ItemState.WAITING, 0):
        decide = progress.counts.get(ItemState.REVIEW, 0) + progress.counts.get(ItemState.FAILED, 0)
        said.append("waits for your decisions" if decide else "paused")
    return " · ".join(said)


def _states(progress: BatchProgress) -> Iterator[Span]:
    yield Span(" ")
    for state in ItemState:
        count = progress.counts.get(state, 0)
        if count:
            yield Span(f"{count:,} {state.value}   ", STYLES[state])
