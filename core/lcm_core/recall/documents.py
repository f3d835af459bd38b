"""What was found and read, as JSON: the same of the command line and of the server for agents.

All texts are as they are stored: who shows them makes them safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from lcm_core.javascript import Json
from lcm_core.recall.find import Found, Hit
from lcm_core.recall.levels import Level
from lcm_core.recall.read import Passage, Verdict, cite
from lcm_core.store.searched import Document
from lcm_core.times import with_z

if TYPE_CHECKING:  # searching asks no model
    from lcm_core.recall.asking import Asked


def found_document(query: str, scope: str, found: Found) -> dict[str, Json]:
    """A page of hits."""
    coverage = found.coverage
    return {
        "query": query,
        "scope": scope,
        "total": found.total,
        "atLeast": found.at_least,
        "hits": [_hit_document(hit) for hit in found.hits],
        "coverage": {
            "full": coverage.is_full,
            "searched": {str(kind): count for kind, count in coverage.searched},
            "notSearched": list(coverage.not_searched),
            "notRanked": list(coverage.not_ranked),
            "elapsedMs": round(coverage.seconds * 1000),
        },
        "near": [
            {
                "term": one.term,
                "found": one.found,
                "atLeast": one.at_least,
                "spellings": list(one.spellings),
            }
            for one in found.near
        ],
        "nextCursor": None if found.next is None else str(found.next),
    }


def _hit_document(hit: Hit) -> dict[str, Json]:
    return {
        "id": hit.citation,
        "kind": str(hit.kind),
        "conversationId": hit.conversation_id,
        "label": hit.label,
        "at": with_z(hit.at),
        "place": hit.place,
        "snippet": hit.snippet,
        "spans": [{"start": span.start, "end": span.end} for span in hit.spans],
        "foundBy": dict(hit.found_by),
        "otherSpelling": not hit.spelled,
        "coveredBy": hit.way[-1] if hit.way else None,
        "way": list(hit.way),
        "inContext": hit.in_context,
    }


def described_document(name: str, verdict: Verdict, document: Document) -> dict[str, Json]:
    """One thing with its texts; *name* is its id or a citation."""
    return {
        "id": name.partition("@")[0],
        "citation": cite(document),
        "verdict": str(verdict),
        "kind": str(document.kind),
        "conversationId": document.conversation_id,
        "label": document.label,
        "at": with_z(document.at),
        "texts": [{"place": place, "text": text} for place, text in document.texts],
    }


def passage_document(one: Passage) -> dict[str, Json]:
    """A piece of text that was read."""
    return {
        "citation": one.citation,
        "kind": str(one.kind),
        "conversationId": one.conversation_id,
        "label": one.label,
        "at": with_z(one.at),
        "level": one.level,
        "tokens": one.tokens,
        "start": one.start,
        "complete": one.complete,
        **({"repeats": True} if one.repeats else {}),
        **({} if one.spelled else {"otherSpelling": True}),
        "text": one.text,
    }


def levels_document(levels: Sequence[Level]) -> list[Json]:
    """The levels below a summary; tokens as stored."""
    return [
        {
            "level": one.number,
            "summaries": list(one.summaries),
            "messages": list(one.messages),
            "missing": one.missing,
            "tokens": one.tokens,
            "tokensToHere": total,
        }
        for one, total in zip(levels, accumulate(one.tokens for one in levels), strict=True)
    ]


def asked_document(scope: str, asked: Asked) -> dict[str, Json]:
    """A question with its answer, and the evidence beside it: what the answer cites first."""
    usage = asked.usage
    return {
        "question": asked.question,
        "scope": scope,
        "answer": asked.answer,
        "model": asked.model,
        "citations": list(asked.citations),
        "dropped": [{"citation": one.citation, "why": one.why} for one in asked.dropped],
        "cut": asked.is_cut,
        "calls": asked.calls,
        "usage": {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "costUsd": usage.cost_usd,
            "exact": usage.is_exact,
        },
        "tokens": asked.tokens,
        "evidence": [
            {**passage_document(one), "cited": one.citation in asked.citations} for one in asked.cited_first
        ],
        "gaps": list(asked.gaps),
        "notFound": list(asked.unfound),
    }
