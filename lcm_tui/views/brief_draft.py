"""A focus brief on its way, as its screen shows it: what is due, what it costs and replaces, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lcm_core.operations.compaction.forecast import CompactionForecast
from lcm_core.operations.drafting.draft import MANUAL
from lcm_core.operations.focus import TARGET_TOKENS
from lcm_core.wording import counted, some

from lcm_tui.briefing import BriefOutlook, BriefWork
from lcm_tui.compacting import cost_of
from lcm_tui.drafts import forecast_text
from lcm_tui.widgets.spans import Span, StyleName
from lcm_tui.widgets.wrapped import Block, Document
from lcm_tui.writing import Modelling, cost_text

LEFT_OUT = "skipped; the engine would sweep first"


def sweep_text(seen: CompactionForecast[Any], model: Modelling | None) -> str:
    """The passes of a sweep, and what they cost."""
    if not seen.passes:
        return "nothing to compact"
    cost = None if model is None else cost_of(seen, model)
    passes, about = counted(len(seen.passes), "pass"), "~" if cost else ""
    return f"{passes}, {seen.tokens_before:,} → ~{seen.tokens_after:,} tokens, cost {about}{cost_text(cost)}"


def head_blocks(work: BriefWork, outlook: BriefOutlook | None, failure: str) -> list[Block]:
    """What is due, who writes, and what the brief replaces."""
    blocks = [_fact("question", work.prompt)]
    if failure:
        blocks.append(_said(failure, "error"))
    if outlook is None:
        return blocks
    blocks += [_said(one, "error") for one in (outlook.refusal, outlook.problem) if one]
    blocks += _facts(work, outlook)
    return blocks


def _facts(work: BriefWork, outlook: BriefOutlook) -> Iterator[Block]:
    wish, draft, found = outlook.wish, work.draft, work.retention
    if outlook.sweep is not None:
        yield _fact("sweep", sweep_text(outlook.sweep, work.sweeper))
    elif work.draft is None or not work.draft.batch:
        yield _fact("sweep", LEFT_OUT)
    if wish is not None:
        yield _fact("from", f"{counted(len(wish.wanted), 'summary')}, {wish.tokens:,} tokens")
    if draft is None:
        if work.author is not None and work.budget is not None and outlook.cost is not None:
            said = forecast_text(outlook.cost, work.budget)
            yield _fact("writer", f"{work.author.words}: {said}")
        return
    if outlook.effect is not None:
        yield _fact("saves", outlook.effect.words)
    text = draft.text
    yield _fact("writer", "you (manual)" if text.writer == MANUAL else text.writer)
    if found is not None:
        kept = f"{len(found.kept):,} of {len(found.kept) + len(found.lost):,} names kept"
        invented = some((one.text for one in found.invented), 4) if found.invented else "nothing found"
        yield _fact("text", f"{kept}; invented: {invented}")
    if text.truncated:
        yield _said("The model reports that it omitted something.", "warn")
    if wish is not None and wish.made_from.digest != draft.wish.made_from.digest:
        yield _said("The context changed since it was written: the brief will be stale.", "warn")


def text_document(work: BriefWork, keys: Mapping[str, str]) -> Document:
    """The text, or how it comes about."""
    if work.busy:
        return (Block(work.busy, "dim"),)
    if work.draft is not None:
        return (Block(work.draft.text.content),)
    lines = []
    if work.author is None:
        lines.append(
            "No model is configured (config.toml: [summary] provider, model), and the offline writer answers "
            "no questions: write it yourself."
        )
    else:
        lines.append(f"{keys['apply']}: {work.author.words} writes it, at most {TARGET_TOKENS:,} tokens.")
    if work.failed is not None:
        lines.append(f"{keys['choice-2']}: record the failed call as a failed brief, as the engine does.")
    lines.append(f"{keys['edit']}: write it here. {keys['edit-outside']}: write it in $EDITOR.")
    return tuple(Block(line, "dim") for line in ("There is no text yet.", *lines))


def _fact(name: str, value: str) -> Block:
    return Block(spans=(Span(" "), Span(f"{name:<9}", "dim"), Span(value)), indent=10)


def _said(text: str, style: StyleName) -> Block:
    return Block(spans=(Span(" "), Span(text, style)), indent=1)
