"""A compaction for programs: what would be done, and what was done."""

from __future__ import annotations

from lcm_core.operations.compaction.forecast import ForecastPass
from lcm_core.operations.compaction.run import PassDone

from lcm_tui.cli.documents import Document
from lcm_tui.cli.modelling import model_document
from lcm_tui.views.compaction import ShownCompaction


def document(shown: ShownCompaction) -> Document:
    """What would be done, for programs."""
    seen, rules = shown.forecast, shown.setting.rendering.rules
    bounds = shown.setting.bounds()
    return {
        "conversationId": shown.conversation_id,
        "operation": shown.operation,
        "rules": rules.name,
        "budget": shown.setting.budget,
        "threshold": rules.compaction.threshold(shown.setting.budget),
        "freshTail": {
            "count": bounds.fresh_tail_count,
            "fromOrdinal": seen.tail_from,
            "tokens": seen.tail_tokens,
        },
        "currentTurn": shown.setting.takes_current_turn,
        "leafChunkTokens": bounds.leaf_chunk_tokens,
        "tokens": {"before": seen.tokens_before, "after": seen.tokens_after, "afterIsAssumed": True},
        "passes": [_pass_document(one) for one in seen.passes],
        "calls": seen.calls,
        "inputTokens": seen.input_tokens,
        "outputTokens": seen.output_tokens,
        "costUsd": shown.cost,
        "model": model_document(shown.model),
        "damagedItems": seen.damaged,
        "warnings": list(shown.warnings),
    }


def _pass_document(one: ForecastPass) -> Document:
    return {
        "number": one.number,
        "kind": "leaf" if one.is_leaf else "condensed",
        "depth": one.depth,
        "sources": list(one.refs),
        "sourceTokens": one.source_tokens,
        "assumedTokens": one.assumed_tokens,
        "exact": one.is_exact,
    }


def step_document(step: PassDone) -> Document:
    """A pass that made something, for programs."""
    draft, committed = step.draft, step.committed
    if draft is None:
        return {}
    text = draft.text
    return {
        "summaryId": draft.summary_id,
        "kind": "leaf" if step.chunk.due.is_leaf else "condensed",
        "depth": step.chunk.due.depth,
        "sources": list(step.chunk.refs),
        "sourceTokens": step.chunk.tokens,
        "tokens": text.tokens,
        "level": str(text.level),
        "isCut": text.is_cut,
        "model": draft.model,
        "calls": text.calls,
        "usage": {
            "inputTokens": text.usage.input_tokens,
            "outputTokens": text.usage.output_tokens,
            "costUsd": text.usage.cost_usd,
        },
        "operationId": committed.id or None if committed else None,
        "searchIndex": committed.search if committed else None,
    }
