"""Assembly: a context under a token budget as the messages that the model gets. Pure.

The steps are those of the engine, in its order (docs/engine/assembly.md): resolve, overlay, fresh tail, fill,
calls without a result, silence, tool pairing, final clamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lcm_core.assemble.cache import UNOBSERVED, CachePolicy
from lcm_core.assemble.clamp import Clamped, clamp, clamp_tokens
from lcm_core.assemble.fill import Fill, Tail, fill_budget, protected_tail
from lcm_core.assemble.fork import ForkMark, Suffixed, fork_suffix, newest_within, with_suffix
from lcm_core.assemble.message import Role, SentMessage, counted_content
from lcm_core.assemble.repair import Repair, pair_tools, without_silence, without_unanswered_calls
from lcm_core.assemble.resolve import ContextMessages, ResolvedItem, stub
from lcm_core.assemble.result import (
    Assembled,
    AssemblyStep,
    Evicted,
    LastCut,
    Metadata,
    SentSource,
    Unseen,
    cut_off,
    dropped,
    left_out,
    never_sent,
    shares,
    system_addition,
    tail_report,
    unseen,
)
from lcm_core.engine_rules import EngineRules
from lcm_core.tokens import estimate


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """What the operator and the host ask for; the rules say the rest."""

    budget: int  #: tokens
    fresh_tail_count: int | None = None  #: None: what the rules say
    fresh_tail_max_tokens: int | None = None
    prompt: str | None = None  #: what the user asks now
    prompt_aware: bool = True  #: choose by the prompt, where the rules can; else it is not looked at
    stub_large_tool_payloads: bool = False
    clamp: bool = False  #: also cut off what the engine cuts off last; else only report how much that is
    host_delivers_turn: bool = False  #: the host hands the prompt over by itself, behind the messages


@dataclass(frozen=True, slots=True)
class AssemblyInputs:
    """What else is known of a conversation: for the metadata, and for falling back."""

    raw_history_tokens: int | None = None
    raw_history_debt_tokens: int | None = None
    cache: CachePolicy = UNOBSERVED
    live: tuple[SentMessage, ...] | None = None  #: the host's own messages; None: not known
    degraded: bool = False  #: compaction is due, the context too large, and compaction cannot run
    fork: ForkMark | None = None  #: it was begun from a fork of which a part was left out


_NOTHING_KNOWN: Final = AssemblyInputs()


def assemble(
    context: ContextMessages,
    settings: AssemblySettings,
    rules: EngineRules,
    around: AssemblyInputs = _NOTHING_KNOWN,
) -> Assembled:
    """Turn a context into messages; the same records always give the same messages."""
    choice = _choose(context, settings, rules)
    repairs: list[Repair] = []
    sent = _repaired(context, choice, rules, repairs)
    evicted = list(never_sent(context))
    forked = _forked(sent, settings, rules, around)
    if forked is not None:
        evicted += _gave_way(sent, forked, rules)
        sent = list(forked.messages)
    fallback = _fallback(context, sent, settings, rules, around)
    if fallback.messages is None:
        evicted += left_out(choice.fill, settings.budget, choice.tail)
        evicted += dropped(repairs, choice.items)
        estimated = sum(item.tokens for item in choice.items) if forked is None else forked.tokens
    else:
        sent, repairs = list(fallback.messages), []
        estimated = sum(weight(message, rules) for message in sent)
    weights = [weight(message, rules) for message in sent]
    last_cut, left = _last_cut(sent, weights, settings, rules)
    if last_cut.messages and (settings.clamp or fallback.messages is not None):
        evicted += cut_off(sent, weights, last_cut)
        sent, weights = list(left.messages), [weight(message, rules) for message in left.messages]
        repairs += left.repairs
        if fallback.source is SentSource.ASSEMBLED and not _has_user(sent):
            fallback = _Fallback(
                SentSource.FALLBACK_NO_USER_TURN, "no user turn is left after the final clamp"
            )
    reported = sum(weights) if rules.assembly.counts_serialized else estimated
    return Assembled(
        messages=tuple(sent),
        weights=tuple(weights),
        budget=settings.budget,
        estimated_tokens=estimated,
        sent_tokens=reported,
        selection=choice.fill.selection,
        remaining=choice.fill.remaining,
        tail=tail_report(choice.tail),
        shares=shares(sent, weights, {item.ordinal for item in choice.tail.items}, _deepest(context)),
        evicted=tuple(sorted(evicted, key=lambda one: one.ordinal)),
        unread=context.unread,
        repairs=tuple(repairs),
        last_cut=last_cut,
        system=system_addition(context, rules.assembly),
        metadata=_metadata(context, choice.tail, around, fallback, reported),
        rules=rules.name,
        prompt_scores=choice.fill.scores,
        unseen=unseen(evicted, sent, context) if fallback.messages is None else Unseen(),
        pasted={
            ordinal: context.pasted[ordinal]
            for message in sent
            if (ordinal := message.origin.ordinal) is not None and ordinal in context.pasted
        },
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """What steps 3 and 4 chose."""

    tail: Tail
    fill: Fill
    items: tuple[ResolvedItem, ...]  #: the tail, a focus brief and what fits beside them, by ordinal


def _choose(context: ContextMessages, settings: AssemblySettings, rules: EngineRules) -> _Choice:
    """The items to be sent: the tail and a focus brief in any case, and what the budget leaves room for."""
    tail = protected_tail(context.items, rules, settings.fresh_tail_count, settings.fresh_tail_max_tokens)
    protected = {item.ordinal for item in tail.items}
    others = [item for item in context.items if item.ordinal not in protected]
    pinned = [item for item in others if item.is_brief]
    evictable = [item for item in others if not item.is_brief]
    if settings.stub_large_tool_payloads and rules.assembly.stubs_payloads:
        evictable = [stub(item, rules) for item in evictable]
    room = settings.budget - tail.tokens - sum(item.tokens for item in pinned)
    chosen = fill_budget(evictable, room, _prompt(settings, rules), unread=context.unread is not None)
    items = sorted((*pinned, *chosen.kept, *tail.items), key=lambda item: item.ordinal)
    return _Choice(tail, chosen, tuple(items))


def weight(message: SentMessage, rules: EngineRules) -> int:
    """What a message weighs as it is sent: whole as JSON, or at 0.1 by its content."""
    if rules.assembly.counts_serialized:
        return clamp_tokens(message, rules.assembly)
    return message.tokens or estimate(counted_content(message.content), rules.assembly.estimator)


def is_degraded(*, debt_pending: bool, tokens: int, budget: int) -> bool:
    """Whether an engine that cannot compact now would rather send the host's own messages.

    Source: docs/engine/tokens.md, "When compaction is due and cannot run".
    """
    return debt_pending and tokens > _DEGRADED_SHARE * budget


#: Of the budget, above which a context with pending debt counts as too large.
_DEGRADED_SHARE: Final = 0.75


@dataclass(frozen=True, slots=True)
class _Fallback:
    source: SentSource
    reason: str | None = None
    messages: tuple[SentMessage, ...] | None = None  #: None: those that were assembled


def _prompt(settings: AssemblySettings, rules: EngineRules) -> str | None:
    return settings.prompt if settings.prompt_aware and rules.assembly.prompt_aware else None


def _repaired(
    context: ContextMessages, choice: _Choice, rules: EngineRules, repairs: list[Repair]
) -> list[SentMessage]:
    """The chosen messages as a provider accepts them."""
    found = [item.sent for item in choice.items]
    if rules.assembly.drops_unusable:
        results = (item.sent for item in context.items if item.sent.role is Role.TOOL_RESULT)
        answered = context.answered_unread.union(one.call_id for one in results if one.call_id)
        found = without_unanswered_calls(found, choice.tail.first_ordinal, answered, repairs)
        found = without_silence(found, repairs)
    return pair_tools(found, repairs, calls_once=rules.assembly.drops_unusable)


def _last_cut(
    sent: Sequence[SentMessage], weights: Sequence[int], settings: AssemblySettings, rules: EngineRules
) -> tuple[LastCut, Clamped]:
    """What the engine cuts off before it hands the messages over, and what is left then."""
    how = rules.assembly.clamp
    if how is None:  # none at 0.1
        return LastCut({}, sum(weights), settings.budget, applied=False), Clamped(tuple(sent), {})
    left = clamp(sent, weights, settings.budget, how, host_delivers_turn=settings.host_delivers_turn)
    tokens = sum(weight(message, rules) for message in left.messages) if left.cut else sum(weights)
    limit = how.limit(settings.budget)
    return LastCut(left.cut, tokens, limit, applied=bool(settings.clamp and left.cut)), left


def _deepest(context: ContextMessages) -> int:
    """The depth of the context's root, as far as it was read."""
    return max((item.sent.origin.depth or 0 for item in context.items), default=0)


def _has_user(messages: Sequence[SentMessage]) -> bool:
    return any(message.role is Role.USER for message in messages)


def _forked(
    sent: Sequence[SentMessage], settings: AssemblySettings, rules: EngineRules, around: AssemblyInputs
) -> Suffixed | None:
    """The chosen messages with what the host holds of a fork alone; None: there is nothing of that."""
    if around.fork is None or not around.live or not sent:
        return None
    suffix = fork_suffix(sent, around.live, around.fork.source_messages)
    return with_suffix(sent, suffix, settings.budget, partial(weight, rules=rules)) if suffix else None


def _gave_way(sent: Sequence[SentMessage], forked: Suffixed, rules: EngineRules) -> Iterator[Evicted]:
    why = "the host's messages after the fork need the space"
    for one in sent[: forked.evicted]:
        if one.origin.ordinal is not None:
            yield Evicted(one.origin.ordinal, one.origin, weight(one, rules), AssemblyStep.BUDGET, why)


def _fallback(
    context: ContextMessages,
    sent: Sequence[SentMessage],
    settings: AssemblySettings,
    rules: EngineRules,
    around: AssemblyInputs,
) -> _Fallback:
    """Which messages are sent in place of the assembled ones, and why.

    Source: docs/engine/assembly.md, "What is sent instead".

    The database is compared with the host by the rows of its whole context, read or not.
    """
    items, live, unread = context.items, around.live, context.unread
    if around.degraded and live:
        return _Fallback(
            SentSource.EMERGENCY, "compaction is due and cannot run; the host's messages fit", live
        )
    fork = around.fork
    if not items and live and fork is not None:
        room = min(settings.budget, fork.budget)
        own = newest_within(live[fork.source_messages :], room, partial(weight, rules=rules))
        return _or_live("the context of a fork has no items", own, SentSource.FALLBACK_EMPTY)
    if not items:
        return _or_live("the context has no items", live, SentSource.FALLBACK_EMPTY)
    raw_only = all(item.is_message for item in items) and not (unread and unread.summaries)
    rows = len(items) + len(context.dangling) + len(context.void) + (unread.items if unread else 0)
    if live is not None and raw_only and rows < len(live) and fork is None:
        return _Fallback(SentSource.FALLBACK_LIVE, "the database has fewer messages than the host", live)
    if not sent:
        return _or_live("nothing is left after the tool calls were repaired", live, SentSource.FALLBACK_EMPTY)
    if not _has_user(sent):
        return _or_live("no user turn is left", live, SentSource.FALLBACK_NO_USER_TURN)
    return _Fallback(SentSource.ASSEMBLED)


def _or_live(reason: str, live: tuple[SentMessage, ...] | None, otherwise: SentSource) -> _Fallback:
    """The host's messages where they are known; else what was assembled, which the host would not send."""
    if not live:
        return _Fallback(otherwise, reason)
    source = otherwise if otherwise is SentSource.FALLBACK_NO_USER_TURN else SentSource.FALLBACK_LIVE
    return _Fallback(source, reason, live)


def _metadata(
    context: ContextMessages,
    tail: Tail,
    around: AssemblyInputs,
    fallback: _Fallback,
    reported: int,
) -> Metadata:
    items, unread = context.items, context.unread
    return Metadata(
        source=fallback.source,
        prompt_authoritative=fallback.source is SentSource.ASSEMBLED,
        estimated_tokens=reported,
        raw_history_tokens=around.raw_history_tokens,
        raw_history_debt_tokens=around.raw_history_debt_tokens,
        context_items=len(items) + (unread.items - unread.covered if unread else 0),
        summaries=sum(one.sent.origin.summary_id is not None for one in items)
        + (unread.summaries - unread.covered if unread else 0),
        raw_messages=sum(item.is_message for item in items) + (unread.messages if unread else 0),
        fresh_tail_count=len(tail.items),
        fresh_tail_tokens=tail.tokens,
        cache=around.cache,
        fallback_reason=fallback.reason,
    )
