"""Items and drafts as JSON: for the file that survives a crash, and for the one that people look at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from lcm_core.ingest.jsonl import Json, JsonObject
from lcm_core.operations.drafting.items import Item, State
from lcm_core.operations.drafting.making import Draft, Origin
from lcm_core.operations.drafting.material import Base
from lcm_core.records import ConversationId, SummaryId
from lcm_core.summarize.acceptance import Caution, DraftVerdict, Fault
from lcm_core.summarize.cost import NOTHING_SPENT, Spent
from lcm_core.summarize.request import Usage


class DamagedError(Exception):
    """A document that is not what it should be: the name of what is wrong."""


def item_document(item: Item) -> JsonObject:
    """An item with all its drafts."""
    return {
        "summaryId": item.summary_id,
        "conversationId": item.conversation_id,
        "depth": item.depth,
        "tokens": item.tokens,
        "reason": item.reason,
        "after": list(item.after),
        "state": item.state.value,
        "why": item.why,
        "chosen": item.chosen,
        "operation": item.operation,
        "drafts": [draft_document(draft) for draft in item.drafts],
    }


def draft_document(draft: Draft) -> JsonObject:
    """A draft."""
    return {
        "number": draft.number,
        "origin": draft.origin.value,
        "text": draft.text,
        "model": draft.model,
        "tokens": draft.tokens,
        "sourceTokens": draft.source_tokens,
        "targetTokens": draft.target_tokens,
        "faults": [fault.value for fault in draft.verdict.faults],
        "cautions": [caution.value for caution in draft.verdict.cautions],
        "sentences": list(draft.verdict.sentences),
        "usage": _usage_document(draft.usage),
        "base": draft.base.content,
        "sourceDigest": draft.base.source_digest,
        "madeAt": draft.made_at,
        "previous": list(draft.previous),
        "gone": draft.gone,
    }


def spent_document(spent: Spent) -> JsonObject:
    """What a batch has taken."""
    return {"calls": spent.calls, **_usage_document(spent.usage)}


def spent_from(document: Mapping[str, Json]) -> Spent:
    """What a batch has taken, as a document of it says under ``spent``; nothing when it does not.

    Raises:
        DamagedError: something is missing, or is no value of its kind.
    """
    spent = document.get("spent")
    if spent is None:
        return NOTHING_SPENT
    if not isinstance(spent, dict):
        raise DamagedError("spent")
    return Spent(_number(spent, "calls"), _usage_from(spent))


def item_from(document: Mapping[str, Json]) -> Item:
    """An item as `item_document` wrote it.

    Raises:
        DamagedError: something is missing, or is no value of its kind.
    """
    summary_id = SummaryId(text_of(document, "summaryId"))
    try:
        state = State(text_of(document, "state"))
    except ValueError:
        raise DamagedError("state") from None
    return Item(
        summary_id,
        ConversationId(_number(document, "conversationId")),
        _number(document, "depth"),
        _number(document, "tokens"),
        text_of(document, "reason"),
        tuple(map(SummaryId, _texts(document, "after"))),
        state,
        text_of(document, "why"),
        tuple(draft_from(summary_id, one) for one in _objects(document, "drafts")),
        _number(document, "chosen") if document.get("chosen") is not None else None,
        None,
        text_of(document, "operation") if document.get("operation") is not None else None,
    )


def draft_from(summary_id: SummaryId, document: Mapping[str, Json]) -> Draft:
    """A draft as `draft_document` wrote it.

    Raises:
        DamagedError: something is missing, or is no value of its kind.
    """
    usage = document.get("usage")
    if not isinstance(usage, dict):
        raise DamagedError("usage")
    try:
        verdict = DraftVerdict(
            _number(document, "tokens"),
            tuple(map(Fault, _texts(document, "faults"))),
            tuple(map(Caution, _texts(document, "cautions"))),
            tuple(_texts(document, "sentences")),
        )
        origin = Origin(text_of(document, "origin"))
    except ValueError:
        raise DamagedError("verdict") from None
    return Draft(
        number=_number(document, "number"),
        summary_id=summary_id,
        origin=origin,
        text=text_of(document, "text"),
        model=text_of(document, "model"),
        verdict=verdict,
        source_tokens=_number(document, "sourceTokens"),
        target_tokens=_number(document, "targetTokens"),
        usage=_usage_from(usage),
        base=Base(text_of(document, "base"), text_of(document, "sourceDigest")),
        made_at=text_of(document, "madeAt"),
        previous=tuple(_texts(document, "previous")),
        gone=_number(document, "gone"),
    )


def _usage_document(usage: Usage) -> JsonObject:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": usage.cost_usd,
        "exact": usage.is_exact,
    }


def _usage_from(document: Mapping[str, Json]) -> Usage:
    cost = document.get("costUsd")
    known = float(cost) if isinstance(cost, int | float) else None
    exact = document.get("exact") is not False  # files from before it was noted do not say
    return Usage(_number(document, "inputTokens"), _number(document, "outputTokens"), known, exact)


def digest_of_text(text: str) -> str:
    """Tells whether somebody has changed a text in a file."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def text_of(document: Mapping[str, Json], key: str) -> str:
    """A text of a document. Raises DamagedError where there is none."""
    value = document.get(key)
    if not isinstance(value, str):
        raise DamagedError(key)
    return value


def _number(document: Mapping[str, Json], key: str) -> int:
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedError(key)
    return value


def _texts(document: Mapping[str, Json], key: str) -> list[str]:
    value = document.get(key)
    if not isinstance(value, list):
        raise DamagedError(key)
    return [one for one in value if isinstance(one, str)]


def _objects(document: Mapping[str, Json], key: str) -> list[JsonObject]:
    value = document.get(key)
    if not isinstance(value, list):
        raise DamagedError(key)
    return [one for one in value if isinstance(one, dict)]
