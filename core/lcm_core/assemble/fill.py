"""The protected tail, and what of the rest fits the budget (docs/engine/assembly.md, "What is sent")."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from lcm_core.assemble.resolve import ResolvedItem
from lcm_core.engine_rules import EngineRules
from lcm_core.fresh_tail import fresh_tail


class SelectionRule(StrEnum):
    """How the items before the tail were chosen."""

    FULL_FIT = "full-fit"  #: all of them fit
    CHRONOLOGICAL = "chronological"  #: from the newest back, to the first that does not fit
    PROMPT_AWARE = "prompt-aware"  #: those that match the prompt best


@dataclass(frozen=True, slots=True)
class Tail:
    """The protected end of a context as the assembler sees it."""

    count: int  #: what the rule or the operator asked for
    max_tokens: int | None
    first_ordinal: int | None  #: None: nothing is protected
    items: tuple[ResolvedItem, ...]

    @property
    def tokens(self) -> int:
        """Tokens as sent."""
        return sum(item.tokens for item in self.items)


@dataclass(frozen=True, slots=True)
class Fill:
    """What was chosen, in order of ordinal."""

    kept: tuple[ResolvedItem, ...]  #: of what may be evicted
    evicted: tuple[ResolvedItem, ...]
    selection: SelectionRule
    remaining: int  #: of the budget beside tail and brief, 0 when they take it all
    stopped_at: int | None  #: ordinal of the first item that did not fit
    #: By ordinal, of what may be evicted, when a prompt chose: the share of the words that it names.
    scores: Mapping[int, float] = field(default_factory=dict)


def protected_tail(
    items: Sequence[ResolvedItem], rules: EngineRules, count: int | None, max_tokens: int | None
) -> Tail:
    """The items that are sent whatever they weigh; *count* and *max_tokens* are an operator's settings."""
    limit = rules.tail.fresh_tail_count if count is None else count
    if rules.assembly.tail_of_items:
        kept = tuple(items[max(0, len(items) - limit) :]) if limit > 0 else ()
        return Tail(limit, None, kept[0].ordinal if kept else None, kept)
    found = fresh_tail(
        items, replace(rules.tail, fresh_tail_count=limit, fresh_tail_max_tokens=max_tokens)
    )  # by their weight as sent
    first = found.first_ordinal
    kept = () if first is None else tuple([item for item in items if item.ordinal >= first])
    return Tail(limit, max_tokens, first, kept)


def fill_budget(
    evictable: Sequence[ResolvedItem], room: int, prompt: str | None, *, unread: bool = False
) -> Fill:
    """Choose among *evictable* what fits *room*, the budget beside what is protected.

    *prompt* chooses by what it asks for; *unread*: older items come before these, which cannot fit.
    """
    remaining = max(0, room)
    if not unread and sum(item.tokens for item in evictable) <= remaining:
        return Fill(tuple(evictable), (), SelectionRule.FULL_FIT, remaining, None)
    terms = tuple(dict.fromkeys(_terms(prompt or "")))
    stopped: int | None = None
    scores: Mapping[int, float] = {}
    if terms:
        named = [_score(item.said, terms) for item in evictable]
        chosen, selection = _by_prompt(evictable, remaining, named), SelectionRule.PROMPT_AWARE
        scores = {item.ordinal: score for item, score in zip(evictable, named, strict=True)}
    else:
        first = _newest(evictable, remaining)
        chosen, selection = frozenset(range(first, len(evictable))), SelectionRule.CHRONOLOGICAL
        stopped = evictable[first - 1].ordinal if first else None
    return Fill(
        tuple(item for at, item in enumerate(evictable) if at in chosen),
        tuple(item for at, item in enumerate(evictable) if at not in chosen),
        selection,
        remaining,
        stopped,
        scores,
    )


def _newest(items: Sequence[ResolvedItem], remaining: int) -> int:
    """From the newest back to the first that does not fit."""
    first, spent = len(items), 0
    while first > 0 and spent + items[first - 1].tokens <= remaining:
        spent += items[first - 1].tokens
        first -= 1
    return first


def _by_prompt(items: Sequence[ResolvedItem], remaining: int, scores: Sequence[float]) -> frozenset[int]:
    """The best by what they say of the prompt, newer before older, as many as fit."""
    chosen: set[int] = set()
    for at in sorted(range(len(items)), key=lambda at: (-scores[at], -at)):
        if items[at].tokens <= remaining:
            remaining -= items[at].tokens
            chosen.add(at)
    return frozenset(chosen)


#: A word of letters and digits of ASCII: an accent or an ideograph parts two of them.
_WORD: Final = re.compile(r"[a-z0-9]{2,}")


def _terms(text: str) -> list[str]:
    """The words that count: a single letter or digit is none."""
    return _WORD.findall(text.lower())


def _score(text: str, terms: Sequence[str]) -> float:
    """The share of a text's words that the prompt names, added up in the order of the prompt."""
    words = _terms(text)
    if not words:
        return 0.0
    counts, score = Counter(words), 0.0
    for term in terms:
        score += counts[term] / len(words)
    return score
