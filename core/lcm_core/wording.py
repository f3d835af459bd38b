"""Numbers, nouns and verbs that agree, for sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lcm_core.records import ConversationId

_PLURALS: Final = {
    "summary": "summaries",
    "broken summary": "broken summaries",
    "leaf": "leaves",
    "copied summary": "copied summaries",
    "entry": "entries",
    "pass": "passes",
    "link or edge": "links or edges",
    "source of a focus brief": "sources of focus briefs",
    "source of a missing summary": "sources of a missing summary",
}
_SINGULARS: Final = {
    "are": "is",
    "have": "has",
    "were": "was",
    "had": "had",
    "do": "does",
    "lie": "lies",
    "go": "goes",
}


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 message``, ``12,000 messages``; *many*: a plural that no rule makes."""
    return f"{number:,} {one if number == 1 else many or _PLURALS.get(one, one + 's')}"


def agree(number: int, words: str) -> str:
    """*words*, which begin with a verb in the plural, as they follow on *number*."""
    verb, blank, rest = words.partition(" ")
    if number == 1:
        verb = _SINGULARS.get(verb, verb if verb in _PAST else verb + "s")
    return verb + blank + rest


_PAST: Final = frozenset({"went", "could", "cannot", "must"})


def phrase(number: int, noun: str, owner: ConversationId | None, words: str) -> str:
    """``2 messages of conversation 7 have no parts``; *words* begin with a verb in the plural."""
    where = "" if owner is None else f" of conversation {owner}"
    return f"{counted(number, noun)}{where} {agree(number, words)}"


def some(texts: Iterable[object], limit: int = 3, count: int | None = None) -> str:
    """The first few of some ids or texts, for a sentence; *count*: of how many, where not all are given."""
    shown = [str(one) for one in texts]
    rest = (len(shown) if count is None else count) - limit
    return ", ".join(shown[:limit]) + (f" and {rest:,} more" if rest > 0 else "")
