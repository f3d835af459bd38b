"""The account of an assembly: what is not sent, in which step it went, and how the tokens are spread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from lcm_core.assemble.clamp import Cut
from lcm_core.assemble.fill import Fill, Selection, Tail
from lcm_core.assemble.message import OriginKind, SentMessage
from lcm_core.assemble.repairs import DROPPING, Mended, Repair
from lcm_core.assemble.resolve import Resolved, ResolvedContext
from lcm_core.assemble.result import Evicted, LastCut, Shares, Step, TailReport


def absent(context: ResolvedContext) -> Iterator[Evicted]:
    """Items that are not sent whatever the budget: without a row, void, or under a focus brief."""
    for item in context.dangling:
        yield Evicted(item.ordinal, None, 0, Step.RESOLVE, f"{item.name} has no row")
    for origin in context.void:
        why = "the engine does not see an answer with neither text nor parts"
        yield Evicted(origin.ordinal or 0, origin, 0, Step.RESOLVE, why)
    for one in context.covered:
        why = f"{context.brief_id} stands for it"
        yield Evicted(one.ordinal, one.sent.origin, one.tokens, Step.FOCUS, why)


def left_out(choice: Fill, budget: int, tail: Tail) -> Iterator[Evicted]:
    """Items for which the budget had no room."""
    by_prompt = choice.selection is Selection.PROMPT_AWARE
    step = Step.PROMPT if by_prompt else Step.BUDGET
    for item in choice.evicted:
        if choice.remaining == 0:
            why = f"the protected tail takes the whole budget ({tail.tokens:,} of {budget:,})"
        elif by_prompt:
            share = choice.scores.get(item.ordinal, 0.0)
            why = f"the prompt names {share:.1%} of its words; what says more of it, or is newer, came first"
        elif item.ordinal == choice.stopped_at:
            why = f"the first that does not fit: {item.tokens:,} tokens"
        else:
            why = f"older than ordinal {choice.stopped_at}, which does not fit"
        yield Evicted(item.ordinal, item.sent.origin, item.tokens, step, why)


def dropped(repairs: Iterable[Repair], chosen: Iterable[Resolved]) -> Iterator[Evicted]:
    """Chosen items that went when messages were mended."""
    tokens = {item.ordinal: item.tokens for item in chosen}
    for repair in repairs:
        ordinal = repair.origin.ordinal
        if repair.what in DROPPING and ordinal is not None:
            early = repair.what in (Mended.EMPTY_DROPPED, Mended.REASONING_DROPPED)
            step = Step.NORMALISE if early else Step.PAIRING
            yield Evicted(ordinal, repair.origin, tokens.get(ordinal, 0), step, str(repair.what))


def cut_off(
    messages: Sequence[SentMessage], weights: Sequence[int], last_cut: LastCut, budget: int
) -> Iterator[Evicted]:
    """What went in the last cut, since the whole was still over the budget."""
    why = {
        Cut.OLD: f"whole messages weigh {sum(weights):,} tokens as JSON, more than {budget:,}",
        Cut.RESULT_FIRST: "a tool result cannot come first, and its call is too old",
        Cut.ANSWER_LAST: "an answer cannot come last",
    }
    for at, reason in sorted(last_cut.cut.items()):
        origin = messages[at].origin
        if origin.ordinal is not None and origin.kind is not OriginKind.SYNTHETIC:
            yield Evicted(origin.ordinal, origin, weights[at], Step.CLAMP, why[reason])


def tail_report(tail: Tail) -> TailReport:
    """The tail without its items."""
    return TailReport(tail.count, tail.max_tokens, tail.first_ordinal, len(tail.items), tail.tokens)


def shares(
    messages: Sequence[SentMessage], weights: Sequence[int], protected: Collection[int], deepest: int
) -> Shares:
    """How the tokens are spread: tail, root (depth *deepest*), newest layer, and those between them."""
    tail = root = recent = older = 0
    for message, weight in zip(messages, weights, strict=True):
        origin = message.origin
        if origin.ordinal in protected:
            tail += weight
        elif origin.kind is OriginKind.FOCUS_BRIEF or origin.depth == 0:
            recent += weight
        elif origin.depth is not None and origin.depth == deepest:
            root += weight
        else:
            older += weight
    return Shares(tail, root, recent, older)
