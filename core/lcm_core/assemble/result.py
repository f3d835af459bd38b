"""What assembly gives: the messages, and an account of where they came from and what is not among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from lcm_core.assemble.cache import CachePolicy
from lcm_core.assemble.clamp import Cut
from lcm_core.assemble.fill import Selection
from lcm_core.assemble.js import stringify
from lcm_core.assemble.message import Origin, OriginKind, SentMessage
from lcm_core.assemble.repairs import Repair
from lcm_core.assemble.resolve import Unread
from lcm_core.assemble.system import SystemAddition
from lcm_core.javascript import JsonObject


class Source(StrEnum):
    """Where the messages as a whole came from; the engine's words."""

    ASSEMBLED = "assembled"
    FALLBACK_LIVE = "fallback-live"  #: the host's own list
    FALLBACK_EMPTY = "fallback-empty"  #: nothing: there is neither a context nor a list
    FALLBACK_NO_USER_TURN = "fallback-no-user-turn"  #: nobody would be answered
    EMERGENCY = "emergency"  #: the host's list cut to the budget, since compaction is due and cannot run


class Step(StrEnum):
    """The step in which something was left out."""

    RESOLVE = "resolve"
    FOCUS = "focus brief"
    BUDGET = "budget"
    PROMPT = "prompt"
    NORMALISE = "normalise"
    PAIRING = "tool pairing"
    CLAMP = "final clamp"


@dataclass(frozen=True, slots=True)
class Evicted:
    """A context item that is not sent."""

    ordinal: int
    origin: Origin | None  #: None: its row is gone
    tokens: int  #: as it would be sent
    step: Step
    why: str  #: for people


@dataclass(frozen=True, slots=True)
class TailReport:
    """The protected end of the context."""

    count: int  #: what the rule or the operator asked for
    max_tokens: int | None
    first_ordinal: int | None  #: None: nothing is protected
    items: int
    tokens: int  #: as sent


@dataclass(frozen=True, slots=True)
class LastCut:
    """What the present engine cuts off when whole messages as JSON are more than the budget.

    It then packs the newest to nine tenths of the budget (docs/engine/assembly.md, "The final clamp").
    """

    cut: Mapping[int, Cut]  #: why a message goes, by its place (from 0) among those before it
    tokens: int  #: of what is left
    applied: bool  #: whether they are gone from the result

    @property
    def messages(self) -> int:
        """How many go; 0: none."""
        return len(self.cut)


@dataclass(frozen=True, slots=True)
class Shares:
    """How the tokens that are sent are spread, as sent."""

    tail: int  #: the protected tail
    root: int  #: summaries of the greatest depth in the context
    recent: int  #: summaries of depth 0 and a focus brief
    older: int  #: the summaries between them, and raw messages before the tail


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a host has to know to trust the result.

    Source: docs/engine/assembly.md, "What is said of an assembly".
    """

    source: Source
    prompt_authoritative: bool  #: whether the host may take the size of the result for the size of the prompt
    estimated_tokens: int
    raw_history_tokens: int | None  #: stored estimate of everything ever said; None: not counted
    raw_history_debt_tokens: int | None  #: of it, raw in the context before the tail: what compaction owes
    context_items: int  #: with a row
    summaries: int
    raw_messages: int
    fresh_tail_count: int
    fresh_tail_tokens: int
    cache: CachePolicy
    fallback_reason: str | None

    def document(self) -> JsonObject:
        """The fields under their names for hosts."""
        return {
            "source": str(self.source),
            "promptAuthoritative": self.prompt_authoritative,
            "estimatedTokens": self.estimated_tokens,
            "rawHistoryEstimatedTokens": self.raw_history_tokens,
            "rawHistoryDebtTokens": self.raw_history_debt_tokens,
            "contextItemCount": self.context_items,
            "summaryCount": self.summaries,
            "rawMessageCount": self.raw_messages,
            "freshTailCount": self.fresh_tail_count,
            "freshTailTokens": self.fresh_tail_tokens,
            "cacheState": str(self.cache.state),
            "cacheMutationSensitive": self.cache.mutation_sensitive,
            "cacheReason": self.cache.reason,
            "fallbackReason": self.fallback_reason,
        }


@dataclass(frozen=True, slots=True)
class Assembled:
    """The messages that the model gets, in order, and how they came about."""

    messages: tuple[SentMessage, ...]
    weights: tuple[int, ...]  #: of each message, as it is sent, in tokens
    budget: int
    estimated_tokens: int  #: as the assembler counts: the chosen items before they were mended
    sent_tokens: int  #: as the engine reports: what is really sent
    selection: Selection
    remaining: int  #: of the budget beside the tail
    tail: TailReport
    shares: Shares
    evicted: tuple[Evicted, ...]  #: by ordinal
    unread: Unread | None
    repairs: tuple[Repair, ...]
    last_cut: LastCut
    system: SystemAddition
    metadata: Metadata
    rules: str  #: the name of the rules
    prompt_scores: Mapping[int, float] = field(default_factory=dict)  #: see `Fill.scores`

    @property
    def over_budget(self) -> bool:
        """Whether more than the budget is sent: what is protected alone is more than it."""
        return self.estimated_tokens > self.budget

    @property
    def messages_hash(self) -> str:
        """Equal for equal messages; the engine's ``finalMessagesHash``, which a prompt cache lives by."""
        text = stringify([message.document() for message in self.messages])
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def stored_tokens(self) -> int:
        """What the rows of the sent items say they weigh."""
        return sum(one.origin.stored_tokens or 0 for one in self.messages)

    @property
    def evicted_items(self) -> int:
        """Items that are not sent, those that were not read among them."""
        return len(self.evicted) + (self.unread.items if self.unread else 0)

    @property
    def prompt_idle(self) -> str | None:
        """Why a prompt, if one was given, chose nothing; None: it did choose."""
        if self.prompt_scores:
            return None
        if self.selection is Selection.FULL_FIT:
            return "everything fits the budget"
        if self.selection is Selection.PROMPT_AWARE:
            return "there is nothing to choose among"
        return f"it names no word, or the rules {self.rules} choose by none"

    def sent_summaries(self) -> int:
        """Summaries among the messages."""
        return sum(one.origin.kind is OriginKind.SUMMARY for one in self.messages)
