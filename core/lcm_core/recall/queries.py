"""What a search for words asks of the search tables, and of plain text without them (docs/engine/recall.md,
"Words", "Without search tables", "Chinese, Japanese, Korean").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.blanks import BLANKS
from lcm_core.javascript import paired, trimmed
from lcm_core.recall.patterns import units
from lcm_core.store.connecting import contains_pattern

_BLANK: Final = f"[{re.escape(BLANKS)}]"
_PHRASE: Final = re.compile('"([^"]+)"')
_TERM: Final = re.compile(rf'"([^"]+)"|([^{re.escape(BLANKS)}]+)')
#: What is stripped from the ends of a term that is looked for with LIKE.
_EDGES: Final = "`'\"()[]{}<>.,:;!?*_+=|\\/-"

_IDEOGRAPHS: Final = "\u2e80-\u9fff\u3400-\u4dbf\uf900-\ufaff\uac00-\ud7af"
_RUN: Final = re.compile(f"[{_IDEOGRAPHS}]+")
_LATIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")

#: Characters around the first term of a text that was found without a search table.
_BEFORE, _AFTER, _HEAD = 24, 40, 80

#: What a search for words refuses, each with its name.
_SYNTAX: Final = (
    (re.compile(r"\\[bBdDsSwW]"), "regex character escape"),
    (re.compile(r"\|"), "alternation"),
    (re.compile(r"\.[*+?]"), "wildcard"),
    (re.compile(r"\[[^\]]+\]"), "character class"),
    (re.compile(rf"(?:(?<=\A)|(?<={_BLANK}))\^"), "anchor"),
    (re.compile(rf"\$(?=\Z|{_BLANK})"), "anchor"),
)


@dataclass(frozen=True, slots=True)
class LikePlan:
    """Conditions that a text must all fulfil; terms are in lower case."""

    terms: tuple[str, ...]  #: every one of them has to occur; a snippet is cut around the first that does
    conditions: tuple[tuple[str, ...], ...]  #: of each group one has to occur

    @property
    def where(self) -> tuple[str, ...]:
        """The conditions in SQL, over a column of the name ``content``."""
        one = "LOWER(content) LIKE ? ESCAPE '\\'"
        return tuple(
            one if len(group) == 1 else f"({' OR '.join([one] * len(group))})" for group in self.conditions
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the question marks of `where` stand for."""
        return tuple(contains_pattern(term) for group in self.conditions for term in group)

    def holds(self, text: str) -> bool:
        """Whether a text fulfils the conditions, its letters in lower case by all of Unicode."""
        lower = text.lower()
        return all(any(term in lower for term in group) for group in self.conditions)


@dataclass(frozen=True, slots=True)
class TrigramPlan:
    """What is asked of the table of trigrams."""

    match: str  #: the expression
    filters: LikePlan  #: on what it finds


def syntax_in(query: str) -> str | None:
    """What of a query for words is syntax of a regular expression, the first of it; None when nothing is."""
    outside = _PHRASE.sub(" ", query)
    found = [(match.start(), name) for syntax, name in _SYNTAX if (match := syntax.search(outside))]
    return min(found)[1] if found else None


def match_expression(query: str) -> str:
    """The expression for FTS5: every word and every phrase in quotes, all of them wanted."""
    return " ".join(f'"{one}"' for one in _phrases_and_words(query)) or '""'


def file_terms(query: str) -> tuple[str, ...]:
    """The phrases and words that all have to occur in a file, in lower case."""
    return tuple(one.lower() for one in _phrases_and_words(query))


def _phrases_and_words(query: str) -> list[str]:
    found: list[str] = []
    at = 0
    for phrase in _PHRASE.finditer(query):
        found += _words(query[at : phrase.start()])
        found += [inside] if (inside := trimmed(phrase[1])) else []
        at = phrase.end()
    return found + _words(query[at:])


def _words(text: str) -> list[str]:
    return [word for one in re.split(f"{_BLANK}+", text) if (word := one.replace('"', ""))]


def like_plan(query: str) -> LikePlan:
    """The terms that all have to occur where there is no search table."""
    terms = (
        trimmed(found[1] if found[1] is not None else found[2]).strip(_EDGES).lower()
        for found in _TERM.finditer(query)
    )
    unique = tuple(dict.fromkeys(term for term in terms if term))
    return LikePlan(unique, tuple((term,) for term in unique))


def has_ideographs(query: str) -> bool:
    """Whether a query holds a character of Chinese, Japanese or Korean."""
    return _RUN.search(query) is not None


def trigram_plan(query: str) -> TrigramPlan | None:
    """What the table of trigrams is asked; None when a run is too short for it."""
    runs = _RUN.findall(query)
    if not runs or min(map(len, runs)) < 3:
        return None
    parts = []
    for run in runs:
        pieces = [f'"{piece}"' for piece in _pieces(run, 4)]
        parts.append(pieces[0] if len(pieces) == 1 else f"({' OR '.join(pieces)})")
    latin = _latin(query)
    return TrigramPlan(" AND ".join(parts), LikePlan(latin, tuple((one,) for one in latin)))


def pair_plan(query: str) -> LikePlan:
    """The same without that table: any two characters of each run, and every Latin word."""
    groups = [tuple(_pieces(run, 2)) for run in _RUN.findall(query)]
    groups += [(one,) for one in _latin(query)]
    return LikePlan(tuple(dict.fromkeys(term for group in groups for term in group)), tuple(groups))


def _latin(query: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.lower() for one in _LATIN.findall(query)))


def _pieces(run: str, length: int) -> Sequence[str]:
    if len(run) <= length:
        return (run,)
    return tuple(dict.fromkeys(run[at : at + length] for at in range(len(run) - length + 1)))


def snippet_around(text: str, terms: Iterable[str]) -> str:
    """What stands around the term that comes first in a text; its beginning when none occurs."""
    content = units(text)
    lower = units(text.lower())
    places = [(at, term) for term in map(units, terms) if (at := lower.find(term)) >= 0]
    if not places:
        whole = content.strip(BLANKS)
        return paired(whole if len(whole) <= _HEAD else whole[: _HEAD - 3] + "...")
    at, term = min(places, key=lambda place: place[0])
    start, end = max(0, at - _BEFORE), min(len(content), at + len(term) + _AFTER)
    inside = content[start:end].strip(BLANKS)
    return paired(f"{'...' if start else ''}{inside}{'...' if end < len(content) else ''}")
