"""What stands above a review: which draft this is, who wrote it, what was found of it, what is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lcm_core.operations.drafting.draft import Draft, DraftOrigin, Material
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.summarize.acceptance import reversal_sentence
from lcm_core.summarize.rulebook import Reversal
from lcm_core.wording import counted

from lcm_tui.drafts import key_text
from lcm_tui.widgets.spans import Line, Span
from lcm_tui.writing import Modelling, cost_text

_MADE: Final = {DraftOrigin.FALLBACK: "truncated source, no model", DraftOrigin.MANUAL: "by hand"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that can be compared."""

    old_name: str
    old: str
    new_name: str
    new: str
    takes: bool  #: whether what is shown here may be put into the database


@dataclass(frozen=True, slots=True)
class ReviewState:
    """What is known of the draft in sight."""

    item: BatchItem
    draft: Draft | None
    busy: str  #: what is being done
    trouble: str  #: why the draft no longer fits
    author: Modelling
    author_of_draft: Modelling | None = None  #: None: it is of an earlier run, and nobody knows
    reversals: tuple[Reversal, ...] | None = None  #: rules that the text reverses; None: not measured yet
    pair: Pair | None = None  #: what is compared
    place: str = ""  #: which comparison it is of how many
    changes: str = ""  #: how many changes there are and how many are left out


def head_lines(material: Material, state: ReviewState) -> tuple[Line, ...]:
    """Five lines."""
    item, draft, pair = state.item, state.draft, state.pair
    lines: list[Line] = [_node(material, item)]
    if draft is None:
        lines.append((Span(f" {state.author.words}"), Span(f" · {key_text(state.author)}", "dim")))
        lines.append((Span(f" {state.busy or item.why}", "text" if state.busy else "warn"),))
        return tuple(lines)
    lines += [_draft(draft, len(item.drafts)), _who(draft, state.author_of_draft)]
    lines.append(_verdict(draft, item, state.trouble, state.reversals))
    if pair is not None:
        lines.append(
            (
                Span(f" - {pair.old_name}", "warn"),
                Span("  "),
                Span(f"+ {pair.new_name}", "ok"),
                Span("" if pair.takes else "  (read only)", "dim"),
                Span(f"  ({state.place})" if state.place else "", "dim"),
                Span(f"   {state.changes}"),
            )
        )
    return tuple(lines)


def _node(material: Material, item: BatchItem) -> Line:
    summary, gone, spoilt = material.summary, len(material.source.gone), len(material.broken_sources)
    kind = "leaf" if summary.kind == "leaf" else f"condensed, depth {summary.depth}"
    given = len(material.previous.nodes)
    passed = len(material.previous.passed_over)
    before = f" · previous context: {counted(given, 'summary')} used" if given or passed else ""
    before += f", {passed} skipped" if passed else ""
    applied = item.state is ItemState.COMMITTED
    broken = material.broken.value if material.broken else ""
    return (
        Span(" applied ·" if applied else "", "ok"),
        Span(f" {kind} · now {summary.tokens:,} tokens", "dim"),
        Span(f" · broken: {broken}" if broken else "", "error"),
        Span(f" · {gone} of its sources {'is' if gone == 1 else 'are'} missing" if gone else "", "warn"),
        Span(f" · {spoilt} broken among its sources: repair first" if spoilt else "", "warn"),
        Span(f" · {item.reason}" if item.reason not in {"", broken} and not applied else "", "dim"),
        Span(before, "dim"),
    )


def _draft(draft: Draft, count: int) -> Line:
    made = _MADE.get(draft.origin, f"{draft.model}, {draft.origin} mode")
    return (
        Span(f" draft {draft.number} of {count}", "title"),
        Span(f" · {made} · {draft.tokens:,} tokens (target {draft.target_tokens:,})"),
        Span(f" from a {draft.source_tokens:,}-token source", "dim"),
    )


def _who(draft: Draft, author: Modelling | None) -> Line:
    """What it cost and with which key."""
    if draft.origin not in (DraftOrigin.NORMAL, DraftOrigin.AGGRESSIVE):
        return (Span(" no cost · no model was called", "dim"),)
    key = "" if author is None else f" · {key_text(author)}"
    if draft.model == "extractive":
        key = " · offline: sentences of the source, no model was called"
    return (Span(f" cost: {cost_text(draft.usage.cost_usd)}{key}", "dim"),)


def _verdict(draft: Draft, item: BatchItem, trouble: str, reversals: tuple[Reversal, ...] | None) -> Line:
    if item.state is ItemState.COMMITTED:
        return (Span(" applied: U, then u undoes it", "ok"),)
    if trouble:
        return (Span(f" {trouble}", "error"),)
    if draft.origin is DraftOrigin.FALLBACK:
        return (
            Span(" This is the truncated source, not a summary: it is never accepted automatically.", "warn"),
        )
    verdict = draft.verdict
    if not verdict.accepted:
        return (Span(f" Rejected: {' '.join(verdict.sentences)}", "error"),)
    if reversals:
        return (Span(f" Rejected: {reversal_sentence(reversals)}", "error"),)
    if verdict.sentences:
        return (Span(" OK", "ok"), Span(f", but: {' '.join(verdict.sentences)}", "warn"))
    if item.why:
        return (Span(" No fault", "ok"), Span(f", but the rule did not accept it: {item.why}", "warn"))
    if reversals is None:
        return (Span(" no problem so far; comparing its rules with the source …", "dim"),)
    return (Span(" OK: no problems found", "ok"),)
