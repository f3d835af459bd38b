"""What our own search looks for, and the words of a memory that spellings are suggested from."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime, tzinfo
from enum import StrEnum
from itertools import islice
from typing import Final

import regex
from lcm_core.base.errors import UsageError
from lcm_core.base.text import fold, same_spelling, sought_as, starts_of, unfolded
from lcm_core.base.times import span_of, typed_moment
from lcm_core.base.values import Record

from lcm_recall.queries import MAX_ELEMENTS, elements_in

# -- queries ---------------------------------------------------------------------------------------------
# Words, phrases, beginnings of words, parts of words, patterns (docs/spec/searching.md, "Queries").

MAX_QUERY: Final = 1_000
#: Places of a term that are looked for in one text.
_PLACES: Final = 50
#: Scripts that are written without blanks between words.
_GLUED: Final = "\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_TOKEN: Final = re.compile(r'"([^"]*)"|(\S+)')
_ASCII_RUN: Final = re.compile(r"[\x21-\x7e]+")


class Mode(StrEnum):
    """How a query is read; the values are words of the command line."""

    WORDS = "words"
    SUBSTRING = "substring"
    REGEX = "regex"


def moment_of(text: str, zone: tzinfo | None, now: datetime) -> datetime | None:
    """A time that limits a search: in ISO, one of *zone* where it names none, or a span up to *now*."""
    span = span_of(text)
    try:
        return typed_moment(text, zone) if span is None else now - span
    except OverflowError:
        return None


class Term(Record, frozen=True):
    """One thing that has to occur."""

    text: str  #: as it was typed, without its quotes or its star
    folded: str  #: the same folded (docs/spec/searching.md, "Spellings")
    word: re.Pattern[str]  #: in a folded text: as a word, a phrase or a beginning
    part: re.Pattern[str]  #: in a folded text: anywhere
    is_one_word: bool  #: no blanks, marks and glued scripts in it
    is_beginning: bool = False  #: of a word

    def counted(self, folded: str) -> tuple[int, int]:
        """How often it occurs in a folded text anywhere, and how often as a word."""
        if not re.search(r"\s", self.folded):
            starts = starts_of(folded, self.folded)
        else:
            starts = [one.start() for one in self.part.finditer(folded)]
        words = sum(self.word.match(folded, start) is not None for start in starts)
        if starts and not words and not self.is_one_word:  # it may begin inside of another occurrence
            words = len(self.word.findall(folded))
        return len(starts), words

    def is_spelled_in(self, text: str) -> bool:
        """Whether a text that holds it, folded, has it in the very spelling that was typed."""
        if self.text.isascii() and text.isascii():
            return True
        return _pieces(same_spelling(self.text)).search(same_spelling(text)) is not None

    def places(self, text: str, folded: str | None = None) -> list[tuple[int, int]]:
        """Where it occurs in a text, as a word or else anywhere, the first fifty: start and end of each."""
        folded = fold(text) if folded is None else folded
        found = [*islice(self.word.finditer(folded), _PLACES)] or [
            *islice(self.part.finditer(folded), _PLACES)
        ]
        return unfolded(text, [one.span() for one in found])

    @property
    def needle(self) -> str | None:
        """A part that SQLite finds, case aside, in each ASCII text that holds the term; None: there is none.

        A text with other characters may hold it in another spelling.
        """
        runs = sorted(_ASCII_RUN.findall(self.folded), key=len)
        return runs[-1] if runs and len(runs[-1]) > 1 else None


class Query(Record, frozen=True):
    """What is looked for."""

    text: str
    mode: Mode
    terms: tuple[Term, ...]  #: all of them; none for a pattern
    pattern: regex.Pattern[str] | None


def parse(text: str, mode: Mode = Mode.WORDS) -> Query:
    """Read a query.

    Raises:
        UsageError: it is empty, too long, or a pattern that cannot be compiled.
    """
    if len(text) > MAX_QUERY:
        raise _refused(f"has {len(text):,} characters; use at most {MAX_QUERY:,}", text)
    if mode is Mode.REGEX:
        return Query(text, mode, (), _pattern(text))
    if mode is Mode.SUBSTRING:
        terms = [_term(text.strip())] if text.strip() else []
    else:
        terms = [_term(quoted or word, prefix=prefix) for quoted, word, prefix in _tokens(text)]
    if not terms:
        raise _refused('is empty; give a word, a "phrase" or the start of a word*', text)
    unique = {(term.text.casefold(), term.word.pattern): term for term in terms}
    return Query(text, mode, tuple(unique.values()), None)


def _tokens(text: str) -> list[tuple[str, str, bool]]:
    found: list[tuple[str, str, bool]] = []
    for quoted, word in _TOKEN.findall(text):
        if quoted.strip():
            found.append((quoted.strip(), "", False))
        elif word.strip('"'):
            bare = word.strip('"')
            prefix = bare.endswith("*") and len(bare) > 1
            found.append(("", bare[:-1] if prefix else bare, prefix))
    return found


def _term(text: str, *, prefix: bool = False) -> Term:
    folded = sought_as(text)
    part = _pieces(folded)
    left = rf"(?:(?<!\w)|(?<=[{_GLUED}]))" if _is_spaced(folded[0]) else ""
    right = rf"(?:(?!\w)|(?=[{_GLUED}]))" if _is_spaced(folded[-1]) and not prefix else ""
    word = re.compile(left + part.pattern + right)
    return Term(text, folded, word, part, all(_is_spaced(sign) for sign in folded), prefix)


def _pieces(text: str) -> re.Pattern[str]:
    """A text with any blanks between its words."""
    return re.compile(r"\s+".join(re.escape(piece) for piece in text.split()))


def _is_spaced(sign: str) -> bool:
    """Whether a word that ends with this sign ends where a blank or a mark follows."""
    return re.fullmatch(r"\w", sign) is not None and re.fullmatch(f"[{_GLUED}]", sign) is None


def _pattern(text: str) -> regex.Pattern[str]:
    if not text:
        raise _refused("is empty; give a pattern", text)
    if elements_in(text) > MAX_ELEMENTS:
        raise _refused("is too large a pattern: use smaller counts", text)
    try:
        return regex.compile(text, regex.VERSION0 | regex.IGNORECASE)
    except (regex.error, RecursionError, MemoryError, OverflowError, ValueError) as error:
        raise _refused(f"is not a regular expression: {error}", text) from None


def _refused(problem: str, text: str) -> UsageError:
    return UsageError(f"The query {problem}.", code="INVALID_QUERY", details={"query": text[:200]})


# -- spellings -------------------------------------------------------------------------------------------
# The words of a memory, kept between searches: a long-lived server suggests similar ones at once.

#: Scopes whose words are kept, and seconds after which they are read anew.
_KEPT: Final = 4
_FRESH_SECONDS: Final = 60.0


class KnownWords:
    """Words by what was searched. They are suggestions: those of a minute ago do as well."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._words: dict[Hashable, tuple[float, Sequence[str]]] = {}

    def of(self, scope: Hashable, read: Callable[[], Sequence[str]]) -> Sequence[str]:
        """The words of a scope, which *read* finds when they are not known or no longer fresh."""
        kept = self._words.pop(scope, None)
        if kept is None or self._clock() - kept[0] > _FRESH_SECONDS:
            kept = self._clock(), read()
        self._words[scope] = kept
        while len(self._words) > _KEPT:
            self._words.pop(next(iter(self._words)), None)
        return kept[1]
