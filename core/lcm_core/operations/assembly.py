"""Reads a context and assembles it: few statements, and of a long context only the end that can fit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import Final, TypeAlias

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.records import ConversationId
from lcm_core.base.values import replace
from lcm_core.engine.assembly import Assembled, AssemblyInputs, AssemblySettings, assemble, is_degraded
from lcm_core.engine.items import (
    ContextMessages,
    LoadedItem,
    LoadedMessage,
    ResolvedItem,
    Tail,
    UnreadItems,
    protected_tail,
    references,
    resolve_brief,
    resolve_items,
    stub,
    turn_summaries,
    with_answers,
)
from lcm_core.engine.messages import Role, SentMessage
from lcm_core.engine.pairing import ForkMark
from lcm_core.engine.rules import EngineRules, engine_rules
from lcm_core.engine.wrapper import FocusOverlay, cache_policy
from lcm_core.store.context import (
    ContextSize,
    context_depths,
    context_end,
    context_size,
    raw_tokens_before,
    stored_items,
    tool_history,
    tool_rows_before,
)
from lcm_core.store.database import Reader
from lcm_core.store.focus import focus_overlay
from lcm_core.store.messages import files_by_id
from lcm_core.store.state import cache_telemetry, fork_source, pending_debt
from lcm_core.store.statistics import History, history_of
from lcm_core.store.summaries import summaries_above

#: Items that are read at once, at the least.
PAGE: Final = 200
#: Tokens of an item in a conversation of the usual kind, to guess of how many items the counts are looked at.
TYPICAL_TOKENS: Final = 120
#: What part of a budget is read beyond it: an item may weigh a little less as sent than its row says.
_SLACK: Final = 20
#: Messages, at most, of which it is kept what they were read as: of a context of the usual kind all that fit.
KEPT: Final = 2_000
#: Calls, at most, whose results are looked for in what is not read: the newest that have none.
_ASKED: Final = 100

#: Messages as they were read, and what became of each, by ordinal.
ReadMessages: TypeAlias = Mapping[int, tuple[LoadedMessage, ResolvedItem]]


def settings_for(
    engine: EngineSettings, budget: int, prompt: str | None = None, *, clamp: bool = True
) -> AssemblySettings:
    """What an operator configured, for a *budget* that ``maxAssemblyTokenBudget`` caps.

    A *prompt* counts whatever ``promptAwareEviction`` says: whoever gives one wants to see its effect.
    *clamp*: with the final clamp, which is the engine's last step before a host gets the messages
    (docs/spec/assembly.md); without it they are those that its assembler returns.
    """
    cap = engine.max_assembly_token_budget.value
    count = engine.fresh_tail_count
    return AssemblySettings(
        budget=budget if cap is None else min(budget, cap),
        fresh_tail_count=count.value if count.is_set else None,
        fresh_tail_max_tokens=engine.fresh_tail_max_tokens.value,
        prompt=prompt,
        stub_large_tool_payloads=engine.stub_large_tool_payloads.value,
        clamp=clamp,
    )


@dataclass(frozen=True, slots=True)
class AssemblyBasis:
    """What was read of a conversation to assemble it, for one budget and all smaller ones."""

    context: ContextMessages
    around: AssemblyInputs
    rules: EngineRules
    loaded_for: AssemblySettings
    #: For `assembly_basis` the next time.
    read: ReadMessages = field(default_factory=dict, repr=False, compare=False)

    def serves(self, settings: AssemblySettings) -> bool:
        """Whether `assembled` gives the true answer for other settings, too; else read again."""
        if settings.stub_large_tool_payloads != self.loaded_for.stub_large_tool_payloads:
            return False
        if self.context.unread is None:
            return True
        same = replace(settings, budget=self.loaded_for.budget, clamp=self.loaded_for.clamp)
        return settings.budget <= self.loaded_for.budget and same == self.loaded_for

    def assembled(self, settings: AssemblySettings | None = None) -> Assembled:
        """The messages under *settings* (None: those that it was read for); no I/O."""
        return assemble(self.context, settings or self.loaded_for, self.rules, self.around)


class Resolver:
    """Resolves what is read; of messages that read as they did before, it is known what became of them."""

    def __init__(self, rules: EngineRules, zone: tzinfo | None, known: ReadMessages) -> None:
        self.rules = rules
        self.zone = zone  #: of the times in wrappers
        self.read: dict[int, tuple[LoadedMessage, ResolvedItem]] = {}  #: to be *known* the next time
        self._known = known

    def resolved(self, items: Sequence[LoadedItem], overlay: FocusOverlay | None) -> ContextMessages:
        """What `resolve_items` says of stored items, a piece of a context."""
        context = resolve_items((), overlay, self.rules, self.zone)
        for reads_alike, group in groupby(items, self._reads_alike):
            run = list(group)
            if reads_alike:
                pairs = [self._known[item.ordinal] for item in run]
                piece = ContextMessages(tuple([one for _, one in pairs]))
            else:
                piece = resolve_items(run, overlay, self.rules, self.zone)
                messages = {item.ordinal: item for item in run if isinstance(item, LoadedMessage)}
                pairs = [(messages[one.ordinal], one) for one in piece.items if one.is_message]
            context = piece.behind(context)
            spare = KEPT - len(self.read)
            self.read.update({pair[0].ordinal: pair for pair in pairs[-spare:]} if spare > 0 else {})
        return context

    def _reads_alike(self, item: LoadedItem) -> bool:
        before = self._known.get(item.ordinal)
        return before is not None and before[0] == item


async def assemble_context(
    reader: Reader,
    conversation_id: ConversationId,
    settings: AssemblySettings,
    *,
    zone: tzinfo | None = None,
    rules: EngineRules | None = None,
    live: Sequence[SentMessage] | None = None,
    can_compact: bool = True,
    with_history: bool = False,
    now: datetime | None = None,
) -> Assembled:
    """What the model gets of a conversation under a budget, and why it gets that (docs/spec/assembly.md).

    *zone* is that of the times in wrappers (None: this machine's); *rules* None means those of the engine
    that wrote the file; *live* are the host's own messages, where they are known: they are sent when
    compaction is due, the context fills the budget and the host cannot compact now (docs/spec/tokens.md);
    *with_history* also sums what was ever said, which reads past every message of the conversation; *now*
    judges the cache.
    """
    basis = await assembly_basis(reader, conversation_id, settings, zone=zone, rules=rules, now=now)
    debt = await pending_debt(reader, conversation_id) if live and not can_compact else None
    tokens = max(debt or 0, _stored_tokens(basis.context, settings.budget))
    degraded = is_degraded(debt_pending=debt is not None, tokens=tokens, budget=settings.budget)
    follows = live and basis.rules.assembly.follows_forks
    fork = await _fork_mark(reader, conversation_id, basis.rules) if follows else None
    held = None if live is None else tuple(live)
    around = replace(basis.around, live=held, degraded=degraded, fork=fork)
    assembled = await asyncio.to_thread(replace(basis, around=around).assembled)
    return await add_history(reader, conversation_id, assembled) if with_history else assembled


async def _fork_mark(reader: Reader, conversation_id: ConversationId, rules: EngineRules) -> ForkMark | None:
    """Whether the conversation was begun from a fork of which a part was left out."""
    marked = await fork_source(reader, conversation_id)
    return None if marked is None else ForkMark(marked, rules.ingest.bootstrap_max_tokens)


def _stored_tokens(context: ContextMessages, budget: int) -> int:
    """What a context weighs by its rows; of one that was not read whole: more than the budget."""
    read = sum(item.stored_tokens for item in (*context.items, *context.covered) if not item.is_brief)
    return read if context.unread is None else max(read, budget + 1)


async def assembly_basis(
    reader: Reader,
    conversation_id: ConversationId,
    settings: AssemblySettings,
    *,
    zone: tzinfo | None = None,
    rules: EngineRules | None = None,
    now: datetime | None = None,
    known: AssemblyBasis | None = None,
) -> AssemblyBasis:
    """What `assemble_context` reads, to be assembled under several budgets without reading again.

    *known* is what was read before of this conversation: messages that read as they did then are not resolved
    again, which would take the better part of the time.
    """
    how = rules or engine_rules(reader.schema)
    resolver = Resolver(how, zone, known.read if known is not None and known.rules == how else {})
    context = await reader.at_once(_load_resolved, conversation_id, settings, resolver)
    telemetry = await cache_telemetry(reader, conversation_id)
    around = AssemblyInputs(cache=cache_policy(telemetry, now or datetime.now(UTC)))
    return AssemblyBasis(context, around, how, settings, resolver.read)


async def add_history(
    reader: Reader, conversation_id: ConversationId, assembled: Assembled, known: History | None = None
) -> Assembled:
    """An assembly with what was ever said counted afterwards; reads every message unless it is *known*."""
    history = known or await history_of(reader, conversation_id)
    metadata = replace(
        assembled.metadata,
        raw_history_tokens=history.tokens,
        raw_history_debt_tokens=await raw_tokens_before(
            reader, conversation_id, assembled.tail.first_ordinal
        ),
    )
    return replace(assembled, metadata=metadata)


async def _load_resolved(
    reader: Reader,
    conversation_id: ConversationId,
    settings: AssemblySettings,
    resolver: Resolver,
) -> ContextMessages:
    """A context as messages: all of it, or from the newest back until nothing older can fit the budget.

    What was loaded for one budget serves every smaller one, too: `assemble` it again.
    """
    rules = resolver.rules
    overlay = await focus_overlay(reader, conversation_id, resolver.zone)
    brief = () if overlay is None else (resolve_brief(overlay, rules),)
    payloads = settings.stub_large_tool_payloads and rules.assembly.stubs_payloads
    whole = bool(settings.prompt) and settings.prompt_aware and rules.assembly.prompt_aware
    context, before, missing, average = ContextMessages(()), None, settings.budget, float(TYPICAL_TOKENS)
    while True:
        most = None if whole else max(PAGE, int(missing / average * 1.2))
        end = await context_end(
            reader, conversation_id, before=before, tokens=missing + missing // _SLACK, least=PAGE, most=most
        )
        stored = await stored_items(reader, end.items, payloads=payloads)
        context = context.behind(resolver.resolved(stored, overlay))
        if end.is_whole:
            break
        before = end.items[0].ordinal
        tokens = sum(item.tokens for item in brief) + _weight(context, settings, rules)
        if tokens > settings.budget and _is_enough(context, tokens, settings, rules):
            size = await context_size(reader, conversation_id, before=before)
            unread = _unread(size, context, overlay)
            if not rules.assembly.sends_static_policy:  # then it fits the summaries, read or not
                deepest, condensed = await context_depths(reader, conversation_id, before=before)
                unread = replace(unread, deepest=deepest, condensed=condensed)
            waiting = _waiting(context, settings, rules)[:_ASKED]
            named = await tool_rows_before(reader, conversation_id, waiting, before=before)
            answered = {
                one.sent.call_id or "" for one in resolve_items(named, None, rules, resolver.zone).items
            }
            context = replace(
                context, unread=unread, answered_unread=frozenset(answered.intersection(waiting))
            )
            break
        missing, average = settings.budget - tokens, max(1.0, tokens / max(1, len(context.items)))
    context = await with_turn_answers(reader, conversation_id, context, rules)
    context = await _with_account(reader, context)
    items = tuple(sorted((*brief, *context.items), key=lambda item: item.ordinal)) if brief else context.items
    return replace(context, items=items)


async def with_turn_answers(
    reader: Reader, conversation_id: ConversationId, context: ContextMessages, rules: EngineRules
) -> ContextMessages:
    """The same context with summaries of this turn's tool exchanges as messages of the assistant."""
    found = turn_summaries(context) if rules.assembly.answers_in_turn else None
    if found is None:
        return context
    user, summaries = found
    return with_answers(context, await tool_history(reader, conversation_id, summaries, user))


async def _with_account(reader: Reader, context: ContextMessages) -> ContextMessages:
    """The same context with what is asked of it when it is known what is sent."""
    origins = [item.sent.origin for item in context.items]
    here = frozenset(one.summary_id for one in origins if one.summary_id is not None)
    raw = [one.message_id for one in origins if one.message_id is not None]
    above = await summaries_above(reader, raw) if here else {}
    named = references(context)
    files = await files_by_id(reader, list({one for ids in named.values() for one in ids}))
    return replace(
        context,
        above={one: over & here for one, over in above.items() if over & here},
        pasted={
            ordinal: known
            for ordinal, ids in named.items()
            if (known := tuple([files[one] for one in ids if one in files]))
        },
    )


def _tail(context: ContextMessages, settings: AssemblySettings, rules: EngineRules) -> Tail:
    return protected_tail(context.items, rules, settings.fresh_tail_count, settings.fresh_tail_max_tokens)


def _weight(context: ContextMessages, settings: AssemblySettings, rules: EngineRules) -> int:
    """What the items of a context weigh as they would be sent: before the tail payloads as references."""
    if not (settings.stub_large_tool_payloads and rules.assembly.stubs_payloads):
        return sum(item.tokens for item in context.items)
    first = _tail(context, settings, rules).first_ordinal
    return sum(
        (item if first is not None and item.ordinal >= first else stub(item, rules)).tokens
        for item in context.items
    )


def _waiting(context: ContextMessages, settings: AssemblySettings, rules: EngineRules) -> list[str]:
    """The ids of calls in the fresh tail whose results are not among what was read, the newest first.

    Such a call is sent, unless its result is anywhere else in the context.
    """
    if not rules.assembly.drops_unusable:
        return []
    tail = _tail(context, settings, rules)
    known = {item.sent.call_id for item in context.items if item.sent.role is Role.TOOL_RESULT}
    called = [call.call_id or "" for item in reversed(tail.items) for call in item.sent.calls]
    return [call_id for call_id in dict.fromkeys(called) if call_id not in known]


def _is_enough(context: ContextMessages, tokens: int, settings: AssemblySettings, rules: EngineRules) -> bool:
    """Whether the tail is among the items and one beside it does not fit: then no older one is sent.

    *tokens* are those of all items and of the focus brief.
    """
    items = context.items
    tail = _tail(context, settings, rules)
    first = tail.first_ordinal
    counted = [item for item in items if item.is_message or rules.assembly.tail_of_items]
    if first is None and tail.count > 0:
        return False
    if first is not None and not any(item.ordinal < first for item in counted) and len(counted) < tail.count:
        return False
    if rules.tail.keeps_turn_whole and not any(item.role == "user" for item in items):
        return False
    return tokens > settings.budget and sum(item.tokens for item in items) > tail.tokens


def _unread(size: ContextSize, context: ContextMessages, overlay: FocusOverlay | None) -> UnreadItems:
    under = {one.sent.origin.summary_id for one in context.covered}
    covered = 0 if overlay is None else len(overlay.covered - under)
    return UnreadItems(size.items, size.summaries, covered, size.first_ordinal, size.last_ordinal)
