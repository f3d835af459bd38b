"""What stands above a review: which draft this is, who wrote it, what was found of it, what is compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.operations.drafting.draft import Draft, DraftOrigin, Material
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.summarize.acceptance import reversal_sentence
from lcm_core.summarize.rulebook import Reversal
from textual.strip import Strip

from lcm_tui.drafts import key_text
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of
from lcm_tui.writing import Modelling, cost_text

_MADE: Final = {DraftOrigin.FALLBACK: "a cut of the source, by no model", DraftOrigin.MANUAL: "by hand"}


class ReviewHead(Drawn):
    """Which draft this is, who wrote it, what was found of it, and what is compared."""

    DEFAULT_CSS = """
    ReviewHead { height: 5; width: 1fr; background: $surface; }
    """

    def __init__(self, lines: Callable[[], Sequence[Line]]) -> None:
        super().__init__(id="head")
        self._lines = lines

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        lines = self._lines()
        return strip_of(lines[y] if y < len(lines) else (), self.style_of, self.size.width)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a review stands."""

    item: BatchItem
    draft: Draft | None
    busy: str  #: what is being done
    trouble: str  #: why the draft no longer fits
    author: Modelling
    author_of_draft: Modelling | None = None  #: None: it is of an earlier run, and nobody knows
    turned: tuple[Reversal, ...] | None = None  #: rules that the text shown reverses; None: not measured yet


def head_lines(
    material: Material, standing: Standing, names: tuple[str, str, bool, str] | None, left: str
) -> tuple[Line, ...]:
    """Five lines; *names*: what is compared, whether it can be taken, which comparison it is of how many;
    *left*: how much of it is left out."""
    item, draft = standing.item, standing.draft
    lines: list[Line] = [_node(material, item)]
    if draft is None:
        lines.append((Span(f" {standing.author.words}"), Span(f" · {key_text(standing.author)}", "dim")))
        lines.append((Span(f" {standing.busy or item.why}", "text" if standing.busy else "warn"),))
        return tuple(lines)
    lines += [_draft(draft, len(item.drafts)), _who(draft, standing.author_of_draft)]
    lines.append(_verdict(draft, item, standing.trouble, standing.turned))
    if names is not None:
        old, new, takes, place = names
        lines.append(
            (
                Span(f" - {old}", "warn"),
                Span("  "),
                Span(f"+ {new}", "ok"),
                Span("" if takes else "  (only to look at)", "dim"),
                Span(f"  ({place})" if place else "", "dim"),
                Span(f"   {left}"),
            )
        )
    return tuple(lines)


def _node(material: Material, item: BatchItem) -> Line:
    summary, gone, spoilt = material.summary, len(material.source.gone), len(material.broken_sources)
    kind = "leaf" if summary.kind == "leaf" else f"condensed, depth {summary.depth}"
    given = len(material.previous.nodes)
    passed = len(material.previous.passed_over)
    before = f" · previous context: {given}" if given or passed else ""
    before += f", {passed} passed over" if passed else ""
    broken = material.broken.value if material.broken else ""
    return (
        Span(f" {kind} · now {summary.tokens:,} tokens", "dim"),
        Span(f" · broken: {broken}" if broken else "", "error"),
        Span(f" · {gone} of its sources are gone" if gone else "", "warn"),
        Span(f" · {spoilt} broken among its sources: repair first" if spoilt else "", "warn"),
        Span(f" · {item.reason}" if item.reason not in {"", broken} else "", "dim"),
        Span(before, "dim"),
    )


def _draft(draft: Draft, count: int) -> Line:
    made = _MADE.get(draft.origin, f"{draft.origin} by {draft.model}")
    return (
        Span(f" draft {draft.number} of {count}", "title"),
        Span(f" · {made} · {draft.tokens:,} of {draft.target_tokens:,} tokens"),
        Span(f" from {draft.source_tokens:,}", "dim"),
    )


def _who(draft: Draft, author: Modelling | None) -> Line:
    """What it cost and with which key."""
    if draft.origin not in (DraftOrigin.NORMAL, DraftOrigin.AGGRESSIVE):
        return (Span(" cost: nothing · no model was asked", "dim"),)
    key = "" if author is None else f" · {key_text(author)}"
    if draft.model == "extractive":
        key = " · offline: sentences of the source, no model was asked"
    return (Span(f" cost: {cost_text(draft.usage.cost_usd)}{key}", "dim"),)


def _verdict(draft: Draft, item: BatchItem, trouble: str, turned: tuple[Reversal, ...] | None) -> Line:
    if item.state is ItemState.COMMITTED:
        return (Span(" committed: U shows it, and takes it back", "ok"),)
    if trouble:
        return (Span(f" {trouble}", "error"),)
    if draft.origin is DraftOrigin.FALLBACK:
        return (Span(" This is a cut of the source, no summary of it: it is never taken by itself.", "warn"),)
    verdict = draft.verdict
    if not verdict.accepted:
        return (Span(f" cannot stand: {' '.join(verdict.sentences)}", "error"),)
    if turned:
        return (Span(f" cannot stand: {reversal_sentence(turned)}", "error"),)
    if verdict.sentences:
        return (Span(" can stand", "ok"), Span(f", but: {' '.join(verdict.sentences)}", "warn"))
    if turned is None:
        return (Span(" no fault found; its rules are being compared with the source …", "dim"),)
    return (Span(" can stand: nothing was found against it", "ok"),)
