"""Whether an expansion is answered at once or handed to a sub-agent (docs/engine/recall.md, "Routing")."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from lcm_core.javascript import Json, JsonObject, trimmed
from lcm_core.recall.parameters import MAX_SAFE_INTEGER, fixed

DEFAULT_DEPTH, _LEAST_DEPTH, _MOST_DEPTH = 3, 1, 10
_TOKENS_PER_SUMMARY: Final = 220
_PER_DEPTH, _WITH_MESSAGES, _BROAD, _MULTI_HOP = 0.65, 1.9, 1.35, 1.25
_MODERATE, _HIGH = 0.35, 0.70
_HOPS_BY_DEPTH, _HOPS_BY_CANDIDATES = 3, 5
_PROBE_DEPTH, _PROBE_CANDIDATES = 2, 1
#: Words that ask about a long time.
_LONG_TIME: Final = (
    re.compile(r"\b(?:last|past)\s+(?:month|months|quarter|quarters|year|years)\b", re.I | re.A),
    re.compile(r"\b(?:over|across|throughout)\s+(?:time|months|quarters|years)\b", re.I | re.A),
    re.compile(r"\b(?:timeline|chronology|history|long[-\s]?term)\b", re.I | re.A),
    re.compile(r"\bbetween\s+[^.]{0,40}\s+and\s+[^.]{0,40}\b", re.I | re.A),
)
#: Words that ask how one thing came of another.
_CHAIN: Final = (
    re.compile(r"\b(?:root\s+cause|causal\s+chain|chain\s+of\s+events)\b", re.I | re.A),
    re.compile(r"\b(?:multi[-\s]?hop|multi[-\s]?step|cross[-\s]?summary)\b", re.I | re.A),
    re.compile(r"\bhow\s+did\b.+\blead\s+to\b", re.I | re.A),
)
_YEAR: Final = re.compile(r"\b(?:19|20)\d{2}\b", re.A)
_FAR_YEARS: Final = 2


@dataclass(frozen=True, slots=True)
class Route:
    """What is decided of an expansion, and why."""

    action: str  #: answer_directly, expand_shallow or delegate_traversal
    depth: int
    candidates: int
    estimated_tokens: int
    token_cap: int
    risk: float  #: of the cap
    broad: bool
    multi_hop: bool
    nothing: bool
    probe: bool
    by_risk: bool
    by_breadth: bool
    reasons: tuple[str, ...]

    @property
    def risk_level(self) -> str:
        """low, moderate or high."""
        return "high" if self.risk >= _HIGH else "moderate" if self.risk >= _MODERATE else "low"

    @property
    def document(self) -> JsonObject:
        """The decision as details hold it."""
        indicators: dict[str, Json] = {"broadTimeRange": self.broad, "multiHopRetrieval": self.multi_hop}
        triggers: dict[str, Json] = {
            "directByNoCandidates": self.nothing,
            "directByLowComplexityProbe": self.probe,
            "delegateByDepth": False,
            "delegateByCandidateCount": False,
            "delegateByTokenRisk": self.by_risk,
            "delegateByBroadTimeRangeAndMultiHop": self.by_breadth,
        }
        return {
            "action": self.action,
            "normalizedMaxDepth": self.depth,
            "candidateSummaryCount": self.candidates,
            "estimatedTokens": self.estimated_tokens,
            "tokenCap": self.token_cap,
            "tokenRiskRatio": self.risk,
            "tokenRiskLevel": self.risk_level,
            "indicators": indicators,
            "triggers": triggers,
            "reasons": list(self.reasons),
        }


def route(
    *,
    probe: bool,
    candidates: int,
    query: str | None = None,
    max_depth: float | None = None,
    token_cap: float = MAX_SAFE_INTEGER,
    include_messages: bool = False,
) -> Route:
    """Decide; *probe* is a query that looks for something, else ids were named."""
    depth = DEFAULT_DEPTH if max_depth is None else math.trunc(max_depth)
    depth = min(max(depth, _LEAST_DEPTH), _MOST_DEPTH)
    candidates = max(0, math.trunc(candidates))
    cap = max(1, math.trunc(token_cap))
    broad = is_broad(query)
    multi_hop = asks_for_hops(query) or depth >= _HOPS_BY_DEPTH or candidates >= _HOPS_BY_CANDIDATES
    estimated = _estimated(candidates, depth, include_messages, broad, multi_hop)
    risk = estimated / cap
    simple = probe and depth <= _PROBE_DEPTH and candidates <= _PROBE_CANDIDATES and risk < _MODERATE
    nothing = candidates == 0
    by_probe = not nothing and simple and not broad and not multi_hop
    by_risk = risk >= _HIGH
    by_breadth = broad and multi_hop
    reasons: list[str] = []
    if nothing:
        reasons.append("No candidate summary IDs are available.")
    if by_probe:
        reasons.append("Query probe is low complexity and below retrieval-risk thresholds.")
    if by_risk:
        reasons.append(f"Estimated token risk ratio {fixed(risk)} meets delegate threshold {fixed(_HIGH)}.")
    if by_breadth:
        reasons.append("Broad time-range request combined with multi-hop retrieval indicators.")
    if nothing or by_probe:
        action = "answer_directly"
    else:
        action = "delegate_traversal" if by_risk or by_breadth else "expand_shallow"
    return Route(
        action,
        depth,
        candidates,
        estimated,
        cap,
        risk,
        broad,
        multi_hop,
        nothing,
        by_probe,
        by_risk,
        by_breadth,
        tuple(reasons) or ("Complexity is bounded; use direct/shallow expansion.",),
    )


def _estimated(candidates: int, depth: int, include_messages: bool, broad: bool, multi_hop: bool) -> int:
    """Tokens that an expansion will take."""
    each = _TOKENS_PER_SUMMARY * (1 + (depth - 1) * _PER_DEPTH)
    if include_messages:
        each *= _WITH_MESSAGES
    if broad:
        each *= _BROAD
    if multi_hop:
        each *= _MULTI_HOP
    return math.ceil(each * candidates)


def is_broad(query: str | None) -> bool:
    """Whether a query asks about a long time."""
    text = trimmed(query or "")
    if any(words.search(text) for words in _LONG_TIME):
        return True
    years = [int(year) for year in _YEAR.findall(text)]
    return len(years) > 1 and max(years) - min(years) >= _FAR_YEARS


def asks_for_hops(query: str | None) -> bool:
    """Whether a query asks how one thing came of another."""
    text = trimmed(query or "")
    return any(words.search(text) for words in _CHAIN)
