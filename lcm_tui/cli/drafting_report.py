"""Drafts for programs: what would be asked, and what came of it."""

from __future__ import annotations

from lcm_core.operations.drafting.draft import Draft
from lcm_core.operations.drafting.items import BatchItem
from lcm_core.summarize.cost import CallLoad, Spent
from lcm_core.summarize.request import Usage

from lcm_tui.cli.documents import Document
from lcm_tui.views.drafts import DraftForecast


def draft_forecast_document(one: DraftForecast) -> Document:
    """What would be sent for one summary."""
    previous = one.material.previous
    document: Document = {
        **item_document(one.item),
        "sourceTokens": one.source_tokens,
        "targetTokens": one.request.target_tokens,
        "sources": [
            *(message.message.message_id for message in one.material.source.messages),
            *(summary.summary.summary_id for summary in one.material.source.summaries),
        ],
        "gone": list(one.material.source.gone),
        "brokenSources": list(one.broken_sources),
        "previous": [node.summary_id for node in previous.nodes],
        "previousSkipped": [
            {"summaryId": skipped.summary_id, "reason": skipped.reason}
            for skipped in previous.passed_over
            if "broken" in skipped.reason
        ],
        "inputTokens": one.forecast.once.input_tokens,
        "outputTokens": one.forecast.once.output_tokens,
    }
    if one.prompt is not None:
        document["prompt"] = {
            "template": one.prompt.template.name,
            "system": one.prompt.system,
            "user": one.prompt.user,
        }
    return document


def item_document(item: BatchItem) -> Document:
    """An item without the texts of its drafts."""
    return {
        "summaryId": item.summary_id,
        "conversationId": item.conversation_id,
        "depth": item.depth,
        "tokens": item.tokens,
        "reason": item.reason or None,
        "after": list(item.after),
    }


def outcome_document(item: BatchItem) -> Document:
    """What came of an item."""
    return {
        **item_document(item),
        "state": item.state.value,
        "why": item.why or None,
        "operationId": item.operation,
        "chosen": item.chosen,
        "drafts": [draft_document(draft) for draft in item.drafts],
        "threeWay": _three_way(item),
    }


def _three_way(item: BatchItem) -> Document | None:
    """What the draft was made over, what stands there now and the draft, where the first two differ."""
    if item.theirs is None or item.draft is None:
        return None
    return {"base": item.draft.base.content, "theirs": item.theirs, "ours": item.draft.text}


def draft_document(draft: Draft) -> Document:
    """A draft and what was found of it."""
    return {
        "number": draft.number,
        "origin": draft.origin.value,
        "model": draft.model,
        "tokens": draft.tokens,
        "targetTokens": draft.target_tokens,
        "sourceTokens": draft.source_tokens,
        "accepted": draft.may_be_taken,
        "findings": list(draft.verdict.sentences),
        "previous": list(draft.previous),
        "usage": usage_document(draft.usage),
        "text": draft.text,
    }


def usage_document(usage: Usage) -> Document:
    """What something cost; ``exact`` is false where the provider did not say, and the most is counted."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": usage.cost_usd,
        "exact": usage.is_exact,
    }


def spent_document(spent: Spent) -> Document:
    """What a batch has taken in all its runs."""
    return {"calls": spent.calls, **usage_document(spent.usage)}


def load_document(load: CallLoad) -> Document:
    """Calls and what they take."""
    return {
        "calls": load.calls,
        "inputTokens": load.input_tokens,
        "outputTokens": load.output_tokens,
        "costUsd": load.cost_usd,
    }
