"""A previous context, for both faces: the summaries that were given or skipped, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Final

from lcm_core.base.records import Summary, SummaryId
from lcm_core.base.text import depth_name
from lcm_core.base.values import Record
from lcm_core.engine.previous import PreviousChoice

from lcm_tui.kit.spans import Span, depth_style
from lcm_tui.tables.blocks import ListColumn
from lcm_tui.tables.summaries import time_range

#: What is made of a summary that is not in it.
SKIPPED: Final = "skipped"


class ConsideredSummary(Record, frozen=True):
    """A summary that a previous context holds, or that was considered and skipped."""

    summary_id: SummaryId
    summary: Summary | None  #: None: it is no longer in the database
    use: str  #: what is made of it, in a word
    why: str  #: one clause
    broken: bool = False

    @property
    def skipped(self) -> bool:
        """Whether it is not part of the text."""
        return self.use == SKIPPED


def considered(
    choice: PreviousChoice, use: str, summaries: Mapping[SummaryId, Summary]
) -> dict[SummaryId, ConsideredSummary]:
    """What a previous context holds, in the order of its text, then what was skipped; *use* of the first."""
    found = {}
    for node in choice.nodes:
        also = [f"broken ({node.broken})"] if node.broken else []
        also += ["no text"] if node.blank else []
        why = "; ".join([*also, node.origin])
        summary = summaries.get(node.summary_id)
        found[node.summary_id] = ConsideredSummary(
            node.summary_id, summary, use, why, node.broken is not None
        )
    for one in choice.passed_over:
        summary = summaries.get(one.summary_id)
        found[one.summary_id] = ConsideredSummary(one.summary_id, summary, SKIPPED, one.reason)
    return found


def _depth(summary: Summary | None) -> str:
    return "gone" if summary is None else depth_name(summary.depth)


def _tokens(row: ConsideredSummary) -> str:
    return "" if row.summary is None else f"{row.summary.tokens:,}"


def _use_cell(use: str, row: ConsideredSummary, _: object) -> Span:
    return Span("–", "dim") if row.skipped else Span(use, "ok")


def _depth_cell(summary: Summary | None, *_: object) -> Span:
    return Span(_depth(summary), "error" if summary is None else depth_style(summary.depth))


def _covers_cell(summary: Summary | None, _: object, zone: tzinfo | None) -> Span:
    return Span(time_range(summary.earliest_at, summary.latest_at, zone) if summary else "", "dim")


def _why_cell(why: str, row: ConsideredSummary, _: object) -> Span:
    return Span(why, "dim" if row.skipped else "error" if row.broken else "text")


# fmt: off
CONSIDERED_COLUMNS: Final[tuple[ListColumn[ConsideredSummary, tzinfo | None], ...]] = (
    ListColumn("use", "", 7, keep=100, heading=" ", value="use", cell=_use_cell),
    ListColumn("id", "summary", 20, keep=95, heading="Summary", value="summary_id",
               cell=lambda name, row, _: Span(name, "dim" if row.skipped else "key")),
    ListColumn("depth", "depth", 5, keep=90, heading="Depth", value="summary", text=_depth, cell=_depth_cell),
    ListColumn("tokens", "tokens", 7, right=True, keep=60, heading="Tokens", value=_tokens),
    ListColumn("span", "covers", 22, keep=50, timed="in", value="summary", cell=_covers_cell),
    ListColumn("why", "why", 30, grows=True, keep=80, heading="Why", wide=True, value="why", cell=_why_cell),
)
# fmt: on
