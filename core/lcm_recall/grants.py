"""What a call may read: the grants of delegated sessions, its scope, and who answers an expansion."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lcm_core.base.javascript import trimmed
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.values import Record, field, replace
from lcm_core.store.search import RecalledRows

from lcm_recall.answer import MAX_SAFE_INTEGER, Parameters, ToolError, fixed

# -- grants ----------------------------------------------------------------------------------------------
# What a delegated session may expand, for how long, and how much (docs/spec/recall.md, "Grants").
#
# They exist in the memory of one process and are never stored. A grant is given at its creation; no
# argument of a call widens it.

DEFAULT_GRANT_DEPTH: Final = 3
DEFAULT_CAP: Final = 4_000
DEFAULT_LIFE: Final = timedelta(minutes=5)


class Grant(Record, frozen=True):
    """What one delegated session may do."""

    grant_id: str
    issuer: str  #: the session that gave it
    conversations: tuple[ConversationId, ...]
    summaries: tuple[SummaryId, ...]  #: roots that may be expanded; empty: all of the conversations
    max_depth: int
    token_cap: int
    created_at: datetime
    expires_at: datetime
    revoked: bool = False
    family: str | None = None  #: a session key: all of its conversations, also those that begin later


class GrantError(ToolError):
    """A call that its grant does not cover; the text is the answer."""


class Grants:
    """The grants of one process, and the sessions that they are bound to."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._grants: dict[str, Grant] = {}
        self._consumed: dict[str, int] = {}
        self._by_session: dict[str, str] = {}

    # -- life ----------------------------------------------------------------------------------------------

    def create(
        self,
        issuer: str,
        conversations: Iterable[ConversationId],
        *,
        summaries: Iterable[SummaryId] = (),
        max_depth: int = DEFAULT_GRANT_DEPTH,
        token_cap: int = DEFAULT_CAP,
        life: timedelta = DEFAULT_LIFE,
        session: str | None = None,
        family: str | None = None,
    ) -> Grant:
        """Give a grant, and bind it to the key of a *session* when one is named.

        It covers *conversations*, and those of the session key *family* as they are when it is used.
        """
        now = self._clock()
        grant = Grant(
            f"grant_{str(uuid.uuid4())[:12]}",
            issuer,
            tuple(conversations),
            tuple(summaries),
            max(1, max_depth),
            max(1, token_cap),
            now,
            now + life,
            family=family,
        )
        self._grants[grant.grant_id] = grant
        if session is not None:
            self._by_session[session] = grant.grant_id
        return grant

    def revoke(self, grant_id: str) -> bool:
        """Take a grant back; a session that is bound to it hears that it was revoked."""
        grant = self._grants.get(grant_id)
        if grant is None:
            return False
        self._grants[grant_id] = replace(grant, revoked=True)
        return True

    def revoke_session(self, session: str) -> bool:
        """Take back the grant of a session, and forget which one it was."""
        grant_id = self._by_session.pop(session, None)
        return grant_id is not None and self.revoke(grant_id)

    def cleanup(self) -> int:
        """Remove the grants that were revoked or are over; how many there were."""
        now = self._clock()
        over = [one.grant_id for one in self._grants.values() if one.revoked or one.expires_at <= now]
        for grant_id in over:
            del self._grants[grant_id]
            self._consumed.pop(grant_id, None)
        return len(over)

    # -- asking --------------------------------------------------------------------------------------------

    def get(self, grant_id: str) -> Grant | None:
        """A live grant."""
        grant = self._grants.get(grant_id)
        return None if grant is None or grant.revoked or grant.expires_at <= self._clock() else grant

    def of_session(self, session: str) -> Grant | None:
        """The live grant of a session."""
        grant_id = self._by_session.get(session)
        return None if grant_id is None else self.get(grant_id)

    def remaining(self, grant_id: str) -> int | None:
        """The tokens that are left of a live grant."""
        grant = self.get(grant_id)
        return None if grant is None else max(0, grant.token_cap - self._consumed.get(grant_id, 0))

    def problem(
        self,
        grant_id: str,
        conversation: ConversationId,
        summaries: Sequence[SummaryId],
        family: Collection[ConversationId] = (),
    ) -> str | None:
        """Why a grant does not cover a call; None when it does. *family*: what its session key covers."""
        grant = self._grants.get(grant_id)
        if grant is None:
            return "Grant not found"
        if grant.revoked:
            return "Grant has been revoked"
        if grant.expires_at <= self._clock():
            return "Grant has expired"
        if conversation not in grant.conversations and conversation not in family:
            return f"Conversation {conversation} is not in the allowed set"
        others = [one for one in summaries if one not in grant.summaries] if grant.summaries else []
        return f"Summary IDs not authorized: {', '.join(others)}" if others else None

    def permitted(
        self,
        grant_id: str,
        conversation: ConversationId,
        summaries: Sequence[SummaryId],
        *,
        max_depth: int | None,
        token_cap: int | None,
        family: Collection[ConversationId] = (),
    ) -> tuple[int, int]:
        """The depth and the cap that a call may go to: what it asks for, at most what is left.

        Raises:
            GrantError: the grant does not cover it, or nothing is left.
        """
        problem = self.problem(grant_id, conversation, summaries, family)
        if problem is not None:
            raise GrantError(f"Expansion authorization failed: {problem}")
        grant, rest = self._grants[grant_id], self.remaining(grant_id) or 0
        if rest <= 0:
            raise GrantError("Expansion authorization failed: Grant token budget exhausted")
        depth = grant.max_depth if max_depth is None else min(max(1, max_depth), grant.max_depth)
        return depth, rest if token_cap is None else max(1, min(token_cap, rest))

    def consume(self, grant_id: str, tokens: int) -> None:
        """Count the tokens of a result, never more than the cap."""
        grant = self._grants.get(grant_id)
        if grant is not None:
            spent = self._consumed.get(grant_id, 0) + max(0, tokens)
            self._consumed[grant_id] = min(grant.token_cap, spent)


# -- scope -----------------------------------------------------------------------------------------------
# Which conversations a call is about (docs/spec/recall.md, "Scope").

NOTHING_FOUND = (
    "No LCM conversation found for this session. Provide conversationId or set allConversations=true."
)
NO_GRANT = (
    "Delegated LCM retrieval requires a valid grant. "
    "This sub-agent session has no propagated expansion grant."
)
_SUBAGENT = "subagent:"


class Caller(Record, frozen=True):
    """Who calls: the session as the host names it, and the grants of this process."""

    session_key: str | None = None
    session_id: str | None = None
    grants: Grants | None = None

    @property
    def is_delegated(self) -> bool:
        """Whether it is a sub-agent, which may only what it was granted."""
        return self.session_key is not None and is_subagent_key(self.session_key)

    @property
    def grant(self) -> Grant | None:
        """Its live grant."""
        if self.grants is None or self.session_key is None:
            return None
        return self.grants.of_session(self.session_key)


class Scope(Record, frozen=True):
    """The conversations of a call."""

    conversations: tuple[ConversationId, ...] | None  #: None: all of them; else the first is the root
    everything: bool = False  #: all conversations were asked for, whatever a grant left of them
    family: bool = False  #: the conversations of one session

    @property
    def single(self) -> ConversationId | None:
        """The only conversation, when there is one."""
        found = self.conversations
        return found[0] if found is not None and len(found) == 1 else None

    def covers(self, conversation_id: ConversationId) -> bool:
        """Whether a conversation is among them."""
        return self.conversations is None or conversation_id in self.conversations

    @property
    def label(self) -> str:
        """The scope as answers name it."""
        if self.conversations is None or (self.everything and len(self.conversations) != 1):
            return "all conversations"
        if len(self.conversations) == 1:
            return str(self.conversations[0])
        return f"session family rooted at {self.conversations[0]} ({len(self.conversations)} segments)"


def is_subagent_key(session_key: str) -> bool:
    """Whether a session key is that of a sub-agent: ``agent:<agent>:subagent:...``."""
    lower = session_key.strip().lower()
    parts = lower.split(":", 2)
    return lower.startswith(_SUBAGENT) or (
        len(parts) == 3 and parts[0] == "agent" and parts[2].startswith(_SUBAGENT)
    )


def is_cron_key(session_key: str) -> bool:
    """Whether a session key is that of a run by the clock, which is never joined with others."""
    parts = session_key.strip().lower().split(":")
    return len(parts) >= 4 and parts[0] == "agent" and parts[2] == "cron"


def resolve_scope(
    rows: RecalledRows, parameters: Parameters, caller: Caller, *, no_grant: str = NO_GRANT
) -> Scope:
    """The scope of a call: what it names, all conversations, or the family of the caller's session.

    Raises:
        ToolError: the caller's session has no conversation, or its grant does not reach so far.
    """
    named = parameters.number("conversationId")
    everything = parameters.flag("allConversations")
    if caller.is_delegated:
        return _delegated(rows, named, everything, caller.grant, no_grant)
    if named is not None:
        return Scope((ConversationId(named),))
    if everything:
        return Scope(None, everything=True)
    current = current_conversation(rows, caller)
    if current is None:
        raise ToolError(NOTHING_FOUND)
    if current.session_key and is_cron_key(current.session_key):
        return Scope((current.conversation_id,))
    family = [one.conversation_id for one in rows.family(current)]
    others = [one for one in family if one != current.conversation_id]
    return Scope((current.conversation_id, *others), family=bool(others))


def current_conversation(rows: RecalledRows, caller: Caller) -> Conversation | None:
    """The conversation that the caller's session is in.

    A session id counts only where it belongs to an active one; another one than that of the key is newer.
    """
    key, session = (caller.session_key or "").strip(), (caller.session_id or "").strip()
    of_key = rows.active_of_key(key) if key else None
    of_session = rows.of_session(session) if session else None
    return of_session if of_session is not None and of_session.active else of_key


def granted(rows: RecalledRows, grant: Grant) -> tuple[ConversationId, ...]:
    """The conversations that a grant covers now."""
    family = [] if grant.family is None else rows.family_of_key(grant.family)
    return tuple(dict.fromkeys([*grant.conversations, *(one.conversation_id for one in family)]))


def _delegated(
    rows: RecalledRows, named: int | None, everything: bool, grant: Grant | None, no_grant: str
) -> Scope:
    if grant is None:
        raise ToolError(no_grant)
    covered = granted(rows, grant)
    if named is not None:
        if named not in covered:
            raise ToolError(f"Conversation {named} is outside delegated conversation scope.")
        return Scope((ConversationId(named),))
    return Scope(covered, everything=everything)


# -- routing ---------------------------------------------------------------------------------------------
# Whether an expansion is answered at once or delegated to a sub-agent (docs/spec/recall.md, "Routing").

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


class Route(Record, frozen=True):
    """What is decided of an expansion, and why."""

    action: str  #: answer_directly, expand_shallow or delegate_traversal
    depth: int = field(name="normalizedMaxDepth")
    candidates: int = field(name="candidateSummaryCount")
    estimated_tokens: int
    token_cap: int
    risk: float = field(name="tokenRiskRatio")  #: of the cap
    risk_level: str = field(name="tokenRiskLevel")  #: low, moderate or high
    indicators: Mapping[str, bool]  #: what the question is like, and what decides, by their names in JSON
    triggers: Mapping[str, bool]
    reasons: list[str]


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
        "high" if by_risk else "moderate" if risk >= _MODERATE else "low",
        {"broadTimeRange": broad, "multiHopRetrieval": multi_hop},
        {
            "directByNoCandidates": nothing,
            "directByLowComplexityProbe": by_probe,
            "delegateByDepth": False,
            "delegateByCandidateCount": False,
            "delegateByTokenRisk": by_risk,
            "delegateByBroadTimeRangeAndMultiHop": by_breadth,
        },
        reasons or ["Complexity is bounded; use direct/shallow expansion."],
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
