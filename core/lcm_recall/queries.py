"""The engine's searches over rows and files: settings, its dialect of patterns, and queries of words."""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import regex
from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import NotFoundError
from lcm_core.base.javascript import paired, trimmed
from lcm_core.base.paths import read_bytes, resolve_stored
from lcm_core.base.records import ConversationId, FileId, LargeFile
from lcm_core.base.setting_values import SettingSource
from lcm_core.base.settings import Settings
from lcm_core.base.text import BLANKS
from lcm_core.base.times import iso_z
from lcm_core.base.tokens import as_engine_read
from lcm_core.base.values import Record, replace
from lcm_core.change.reindex import reference_text
from lcm_core.store.opening import contains_pattern
from lcm_core.store.search import FoundRow, Kind, Order, Range, RecalledRows, SearchRows

from lcm_recall.answer import ToolError

# -- settings --------------------------------------------------------------------------------------------


class RecallSettings(Record, frozen=True):
    """What a call is answered by, besides its parameters. Tokens are estimates."""

    large_files_dir: Path
    state_dir: Path
    zone: tzinfo | None  #: in which answers show times; None: that of this machine
    max_expand_tokens: int = 4_000
    delegation_timeout_ms: int = 120_000
    expansion_provider: str = ""
    expansion_model: str = ""
    #: In which a time without a zone is read: that of the process, which `timezone` does not change.
    local: tzinfo | None = None


def recall_settings(settings: Settings) -> RecallSettings:
    """Those of an operator."""
    return engine_recall(settings.engine, settings.large_files_dir.value, settings.state_dir.value)


def engine_recall(engine: EngineSettings, large_files_dir: Path, state_dir: Path) -> RecallSettings:
    """Those of an engine whose files are in these folders."""
    zone = None if engine.timezone.value is None else ZoneInfo(engine.timezone.value)
    return RecallSettings(
        large_files_dir=large_files_dir,
        state_dir=state_dir,
        zone=zone,
        max_expand_tokens=engine.max_expand_tokens.value,
        delegation_timeout_ms=engine.delegation_timeout_ms.value,
        expansion_provider=engine.expansion_provider.value,
        expansion_model=engine.expansion_model.value,
        local=zone if engine.timezone.source is SettingSource.ENVIRONMENT else None,
    )


# -- patterns --------------------------------------------------------------------------------------------
# Regular expressions in the dialect of the engine's language, matched unit by unit (docs/spec/recall.md,
# "Regular expressions").
#
# A pattern is translated into one of the `regex` package, which alone can stop after a time. Where the two
# dialects differ in what they *mean*, the translation says it in full: blanks, line ends, classes,
# references to groups that took no part. Text and pattern are compared in UTF-16 units: a dot stands for
# one.

#: The longest pattern that is tried.
MAX_PATTERN: Final = 500
#: Beyond this a count means "more than any text has".
_MAX_COUNT: Final = 2**24

_QUANTIFIED: Final = r"(?:[+*?]|\{\d+(?:,\d*)?\})"
#: A quantifier, a closing parenthesis, a quantifier.
_NESTED: Final = re.compile(rf"{_QUANTIFIED}\)(?:[+*?]|\{{\d)")
#: A group that holds alternatives, and a quantifier behind it.
_ALTERNATED: Final = re.compile(r"\([^)]*\|[^)]*\)(?:[+*?]|\{\d)")

_COUNT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_LINE_ENDS: Final = r"\n\r\u2028\u2029"
_SPACE: Final = "".join(f"\\u{ord(one):04x}" for one in BLANKS)
_CLASSES: Final = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": _SPACE,
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}


#: Elements of a pattern when what is counted is written out: a larger one takes a second and more to compile.
MAX_ELEMENTS: Final = 500_000


def elements_in(pattern: str) -> int:
    """How many elements a pattern has, about, when what is counted is written out; by either dialect."""
    sizes = [[0, 0]]  # of each open group: all of it, and its last element
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        counted = _COUNT.match(pattern, at) if sign == "{" else None
        if counted is not None:
            times = max(int(counted[1][:9]), 1)  # only so many are written out, the others are counted
            sizes[-1][0] += sizes[-1][1] * (times - 1)
            sizes[-1][1] *= times
            at = counted.end()
            continue
        if sign == "(":
            sizes.append([0, 0])
        elif sign == ")" and len(sizes) > 1:
            size = sizes.pop()[0] + 1
            sizes[-1] = [sizes[-1][0] + size, size]
        else:
            if sign == "[":
                at = _end_of_class(pattern, at)
            sizes[-1] = [sizes[-1][0] + 1, 1]
        at += 2 if sign == "\\" else 1
    return sum(size for size, _ in sizes)


def _end_of_class(pattern: str, at: int) -> int:
    """Where the class that begins at a place ends; the end of the pattern if it does not."""
    at += 1
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at


class PatternError(ValueError):
    """A pattern that the engine's language does not compile; the text says why."""


class Match(Record, frozen=True):
    """Where a pattern matched."""

    start: int  #: in characters of the text that was searched
    end: int
    text: str  #: what matched; half a surrogate pair may stand at an end


class EnginePattern:
    """A compiled pattern of the engine's language: case matters, and a line is nothing special."""

    def __init__(self, pattern: str) -> None:
        """Compile *pattern*.

        Raises:
            PatternError: the language would not compile it.
        """
        translated = _Translator(units(pattern)).translated()
        if elements_in(pattern) > MAX_ELEMENTS:
            raise PatternError("Regular expression too large")
        try:
            self._compiled = regex.compile(translated, regex.VERSION0)
        except (regex.error, RecursionError, MemoryError, OverflowError) as error:
            raise PatternError(str(error)) from None

    def all(self, text: str, seconds: float | None = None) -> Iterator[Match]:
        """All matches, one behind the other; after an empty one the next is looked for a unit further on.

        Raises:
            TimeoutError: *seconds* were not enough for one of them.
        """
        searched = units(text)
        at = 0
        while at <= len(searched):
            found = self._compiled.search(searched, at, timeout=seconds, concurrent=True)
            if found is None:
                return
            start, end = found.span()
            matched = searched[start:end]
            yield Match(start, end, paired(matched))
            at = end if end > start else end + 1


@lru_cache(maxsize=64)
def compiled(pattern: str) -> EnginePattern | None:
    """The pattern; None for long, doubly repeated and broken ones: the engine finds nothing, silently."""
    if len(units(pattern)) > MAX_PATTERN or _NESTED.search(pattern) or _ALTERNATED.search(pattern):
        return None
    try:
        return EnginePattern(pattern)
    except PatternError:
        return None


def units(text: str) -> str:
    """A text in which every character is one UTF-16 unit; bytes that are no UTF-8 are U+FFFD."""
    text = as_engine_read(text)
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16-le", "surrogatepass"))))


class _Translator:
    """One pass over a pattern, by the grammar that the language has for the web (its Annex B)."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups, self._names = _groups_of(pattern)
        self._closed: set[int] = set()  # groups that a reference may repeat
        self._opened = 0

    def translated(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise PatternError("Unmatched ')'")
        return text

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, wanted: str) -> bool:
        if self._pattern.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        pieces: list[str] = []
        while (sign := self._next()) and sign not in "|)":
            piece, repeatable = self._term()
            pieces.append(piece + self._quantifier(repeatable))
        return "".join(pieces)

    def _term(self) -> tuple[str, bool]:
        """A piece of the pattern, and whether a quantifier may follow."""
        sign = self._next()
        if sign in "*+?" or (sign == "{" and _COUNT.match(self._pattern, self._at)):
            raise PatternError("Nothing to repeat")
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class(), True
        if sign == "\\":
            return self._escape()
        simple = {"^": (r"\A", False), "$": (r"\Z", False), ".": (f"[^{_LINE_ENDS}]", True)}
        return simple.get(sign) or (_literal(sign), True)

    def _quantifier(self, repeatable: bool) -> str:
        sign = self._next()
        counted = _COUNT.match(self._pattern, self._at) if sign == "{" else None
        if counted is not None:
            self._at = counted.end()
            least = min(int(counted[1]), _MAX_COUNT)
            most = min(int(counted[3]), _MAX_COUNT) if counted[3] else None
            if most is not None and most < least:
                raise PatternError("numbers out of order in {} quantifier")
            text = f"{{{least},{'' if most is None else most}}}" if counted[2] else f"{{{least}}}"
        elif sign and sign in "*+?":
            self._at += 1
            text = sign
        else:
            return ""
        if not repeatable:
            raise PatternError("Nothing to repeat")
        return text + ("?" if self._take("?") else "")

    def _group(self) -> tuple[str, bool]:
        repeatable, number = True, 0
        if self._take("?"):
            for opening in (":", "=", "!", "<=", "<!"):
                if self._take(opening):
                    head, repeatable = f"(?{opening}", not opening.startswith("<")
                    break
            else:
                if not re.compile(r"<[^>]*>").match(self._pattern, self._at):
                    raise PatternError("Invalid group")
                self._at = self._pattern.index(">", self._at) + 1
                head, number = "(", self._opened + 1
        else:
            head, number = "(", self._opened + 1
        self._opened = number or self._opened
        inside = self._alternatives()
        if not self._take(")"):
            raise PatternError("Unterminated group")
        self._closed.add(number)
        return f"{head}{inside})", repeatable

    def _escape(self) -> tuple[str, bool]:
        sign = self._next()
        if not sign:
            raise PatternError("\\ at end of pattern")
        if sign in "bB":
            self._at += 1
            return _BOUNDARY[sign], False
        if sign in "dws":
            self._at += 1
            return f"[{_CLASSES[sign]}]", True
        if sign in "DWS":
            self._at += 1
            return f"[^{_CLASSES[sign.lower()]}]", True
        if sign == "k" and self._names:
            return self._named(), True
        if sign in "123456789":
            digits = re.compile(r"\d+").match(self._pattern, self._at)
            if digits is not None and int(digits[0][:9]) <= self._groups:
                self._at = digits.end()
                return self._reference(int(digits[0])), True
        return _literal(self._character()), True

    def _named(self) -> str:
        found = re.compile(r"k<([^>]*)>").match(self._pattern, self._at)
        if found is None or found[1] not in self._names:
            raise PatternError("Invalid named reference")
        self._at = found.end()
        return self._reference(self._names[found[1]])

    def _reference(self, number: int) -> str:
        """A reference to a group; to one that took no part, or is not over, it matches nothing at all."""
        return f"(?({number})\\g<{number}>|)" if number in self._closed else "(?:)"

    def _character(self, in_class: bool = False) -> str:
        """The one character that an escape stands for."""
        sign = self._next()
        self._at += 1
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "c":
            letter = self._next()
            if letter and (letter.isascii() and (letter.isalpha() or (in_class and letter in "0123456789_"))):
                self._at += 1
                return chr(ord(letter) % 32)
            self._at -= 1  # the backslash stands for itself
            return "\\"
        for name, length in (("x", 2), ("u", 4)):
            if sign == name:
                digits = self._pattern[self._at : self._at + length]
                if re.fullmatch(rf"[0-9A-Fa-f]{{{length}}}", digits):
                    self._at += length
                    return chr(int(digits, 16))
                return sign
        if sign in "01234567":
            return self._octal(sign)
        return sign

    def _octal(self, sign: str) -> str:
        digits = sign
        while len(digits) < 3 and (one := self._next()) and one in "01234567" and int(digits + one, 8) < 256:
            digits += one
            self._at += 1
        return chr(int(digits, 8))

    def _class(self) -> str:
        negated = self._take("^")
        pieces: list[str] = []
        while not self._take("]"):
            if not self._next():
                raise PatternError("Unterminated character class")
            first, single = self._member()
            if self._pattern.startswith("-", self._at) and self._pattern[self._at + 1 : self._at + 2] != "]":
                if not self._pattern[self._at + 1 :]:
                    raise PatternError("Unterminated character class")
                self._at += 1
                last, also_single = self._member()
                if single and also_single:
                    if first > last:
                        raise PatternError("Range out of order in character class")
                    pieces.append(f"{_literal(first)}-{_literal(last)}")
                else:  # a class at either end makes the dash a dash
                    pieces += [_literal(first) if single else first, _literal("-")]
                    pieces.append(_literal(last) if also_single else last)
            else:
                pieces.append(_literal(first) if single else first)
        if not pieces:
            return r"[\s\S]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{''.join(pieces)}]"

    def _member(self) -> tuple[str, bool]:
        """A character of a class, or what a class inside it stands for, and which of the two it is."""
        if not self._take("\\"):
            self._at += 1
            return self._pattern[self._at - 1], True
        sign = self._next()
        if not sign:
            raise PatternError("\\ at end of pattern")
        if sign in "dws":
            self._at += 1
            return _CLASSES[sign], False
        if sign in "DWS":
            self._at += 1
            return _complement(_CLASSES[sign.lower()]), False
        if sign == "b":
            self._at += 1
            return "\b", True
        return self._character(in_class=True), True


_BOUNDARY: Final = {
    "b": r"(?:(?<![A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?![A-Za-z0-9_]))",
    "B": r"(?:(?<![A-Za-z0-9_])(?![A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_]))",
}
_RANGE: Final = re.compile(r"\\u([0-9a-f]{4})|(.)-(.)|(.)")


@lru_cache(maxsize=8)
def _complement(listed: str) -> str:
    """All units that a list of units and ranges leaves out, as ranges."""
    inside: set[int] = set()
    for one in _RANGE.finditer(listed):
        if one[1]:
            inside.add(int(one[1], 16))
        elif one[2]:
            inside.update(range(ord(one[2]), ord(one[3]) + 1))
        else:
            inside.add(ord(one[4]))
    bounds = [-1, *sorted(inside), 0x10000]
    gaps = [(low + 1, high - 1) for low, high in pairwise(bounds) if high - low > 1]
    return "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in gaps)


def _groups_of(pattern: str) -> tuple[int, dict[str, int]]:
    """How many groups a pattern captures, and the numbers of those with a name."""
    count, names, in_class, at = 0, dict[str, int](), False, 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign == "(":
            named = re.compile(r"\(\?<([^=!>][^>]*)>").match(pattern, at)
            if named is not None:
                count += 1
                if not re.fullmatch(r"[^\W\d]\w*|[$_][\w$]*|[^\W\d][\w$]*", named[1]) or named[1] in names:
                    raise PatternError("Invalid capture group name")
                names[named[1]] = count
            elif not pattern.startswith("(?", at):
                count += 1
        at += 1
    return count, names


def _literal(sign: str) -> str:
    return sign if sign.isascii() and sign.isalnum() else f"\\u{ord(sign):04x}"


# -- words -----------------------------------------------------------------------------------------------
# What a search for words requests from the search tables, and from plain text without them
# (docs/spec/recall.md, "Words", "Without search tables", "Chinese, Japanese, Korean").

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
_QUERIES_SYNTAX: Final = (
    (re.compile(r"\\[bBdDsSwW]"), "regex character escape"),
    (re.compile(r"\|"), "alternation"),
    (re.compile(r"\.[*+?]"), "wildcard"),
    (re.compile(r"\[[^\]]+\]"), "character class"),
    (re.compile(rf"(?:(?<=\A)|(?<={_BLANK}))\^"), "anchor"),
    (re.compile(rf"\$(?=\Z|{_BLANK})"), "anchor"),
)


class LikePlan(Record, frozen=True):
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


class TrigramPlan(Record, frozen=True):
    """What is asked of the table of trigrams."""

    match: str  #: the expression
    filters: LikePlan  #: on what it finds


def syntax_in(query: str) -> str | None:
    """What of a query for words is syntax of a regular expression, the first of it; None when nothing is."""
    outside = _PHRASE.sub(" ", query)
    found = [(match.start(), name) for syntax, name in _QUERIES_SYNTAX if (match := syntax.search(outside))]
    return min(found)[1] if found else None


def match_expression(query: str) -> str:
    """The expression for FTS5: every word and every phrase in quotes, all of them wanted."""
    return " ".join(f'"{one}"' for one in _phrases_and_words(query)) or '""'


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


# -- searching -------------------------------------------------------------------------------------------
# Messages, summaries and files, as the engine searches them (docs/spec/recall.md).

#: Rows that a regular expression is tried on.
MAX_ROWS: Final = 10_000
#: Bytes of a file that are searched.
FILE_BYTES: Final = 512_000
_HITS_PER_FILE: Final = 10
_AROUND: Final = 80
_TEXT_TYPES: Final = ("json", "javascript", "xml", "yaml", "yml", "toml")
#: How long all matching of one call may take. The engine has no such limit and hangs.
DEADLINE_SECONDS: Final = 5.0


class Search(Record, frozen=True):
    """What is searched, and how."""

    pattern: str
    full_text: bool
    conversations: tuple[ConversationId, ...] | None  #: None: all
    since: datetime | None
    before: datetime | None
    limit: int
    order: Order
    now: datetime

    @property
    def range(self) -> Range:
        """Which rows."""
        since, before = (None if one is None else iso_z(one) for one in (self.since, self.before))
        return Range(self.conversations, since, before)


class FileHit(Record, frozen=True):
    """A place in a file."""

    conversation_id: ConversationId
    file_id: FileId
    name: str | None
    line: int  #: from 1
    offset: int  #: bytes before it
    match: str
    snippet: str
    cut: bool  #: the file is longer than what was searched


class Clock:
    """The time that is left for matching."""

    def __init__(self) -> None:
        self._end = time.monotonic() + DEADLINE_SECONDS

    @property
    def left(self) -> float:
        """Seconds; at least a little, so that the last match can be refused by its own time-out."""
        return max(0.001, self._end - time.monotonic())


def search_rows(rows: RecalledRows, search: Search, kind: Kind, clock: Clock) -> list[FoundRow]:
    """The messages or summaries that are found, in the order of the search.

    Raises:
        ToolError: the pattern took longer than it may.
    """
    searched = SearchRows(rows.db, rows.schema)
    if not search.full_text:
        return _by_pattern(searched, search, kind, clock)
    if _RUN.search(search.pattern) is not None:
        if kind is Kind.MESSAGES:
            return _by_like(searched, search, kind, like_plan(search.pattern))
        return _by_trigrams(searched, search) or _by_like(searched, search, kind, pair_plan(search.pattern))
    found = searched.match(
        f"{kind}_fts",
        match_expression(search.pattern),
        search.range,
        search.order,
        search.limit,
        now=search.now,
    )
    if found is None:
        return _by_like(searched, search, kind, like_plan(search.pattern))
    return list(found)


def _by_pattern(searched: SearchRows, search: Search, kind: Kind, clock: Clock) -> list[FoundRow]:
    pattern = compiled(search.pattern)
    found: list[FoundRow] = []
    if pattern is None or search.limit <= 0:
        return found
    for row in searched.newest(kind, search.range, MAX_ROWS):
        match = _first(pattern, row.content, clock)
        if match is not None:
            found.append(replace(row, snippet=match))
            if len(found) >= search.limit:
                break
    return found


def _first(pattern: EnginePattern, text: str, clock: Clock) -> str | None:
    try:
        match = next(pattern.all(text, clock.left), None)
    except TimeoutError:
        raise too_slow() from None
    return None if match is None else match.text


def too_slow() -> ToolError:
    """The refusal of a pattern that takes too long."""
    return ToolError(
        f"The pattern took longer than {DEADLINE_SECONDS:g} s and was given up. "
        'Use a simpler pattern, or mode: "full_text".'
    )


def _by_like(searched: SearchRows, search: Search, kind: Kind, plan: LikePlan) -> list[FoundRow]:
    if not plan.terms:
        return []
    rows = searched.like(kind, search.range, plan.where, plan.arguments, search.limit)
    if kind is Kind.SUMMARIES:
        return [replace(row, snippet=snippet_around(row.content, plan.terms)) for row in rows]
    texts = [(row, reference_text(row.content)) for row in rows]
    return [replace(row, snippet=snippet_around(text, plan.terms)) for row, text in texts if plan.holds(text)]


def _by_trigrams(searched: SearchRows, search: Search) -> list[FoundRow]:
    plan = trigram_plan(search.pattern)
    if plan is None:
        return []
    found = searched.match(
        "summaries_fts_cjk",
        plan.match,
        search.range,
        search.order,
        search.limit,
        likes=plan.filters.where,
        values=plan.filters.arguments,
        now=search.now,
    )
    return list(found or ())


# -- files of a conversation -----------------------------------------------------------------------------


def search_files(
    rows: RecalledRows, search: Search, file_ids: Sequence[str], settings: RecallSettings, clock: Clock
) -> list[FileHit]:
    """The places in text files that are found; what is no file of ours is passed over.

    Raises:
        ToolError: the pattern took longer than it may.
    """
    pattern = None if search.full_text else compiled(search.pattern)
    terms = tuple(one.lower() for one in _phrases_and_words(search.pattern)) if search.full_text else ()
    if pattern is None and not terms:
        return []
    found: list[FileHit] = []
    for file in _files(rows, search, file_ids):
        if len(found) >= search.limit:
            break
        read = read_bounded(file, settings, FILE_BYTES)
        if read is None:
            continue
        data, size = read
        text = data.decode("utf-8", "replace")
        searched = units(text)
        places = _pattern_places(pattern, text, clock) if pattern else _word_places(terms, searched)
        newlines = _Lines(searched)
        for start, end in places[: min(_HITS_PER_FILE, search.limit - len(found))]:
            found.append(_file_hit(file, searched, newlines, start, end, size > len(data)))
    return found


def path_of_file(file: LargeFile, settings: RecallSettings) -> Path | None:
    """Where a large file is; None when it is not on this machine, or outside the folder."""
    return resolve_stored(
        file.storage_uri,
        conversation_id=file.conversation_id,
        large_files_dir=settings.large_files_dir,
        state_dir=settings.state_dir,
    ).path


def read_bounded(file: LargeFile, settings: RecallSettings, limit: int) -> tuple[bytes, int] | None:
    """The first *limit* bytes of a large file, and how many it has; None when it is not there, or outside."""
    path = path_of_file(file, settings)
    if path is None:
        return None
    try:
        return read_bytes(path, limit)
    except NotFoundError:
        return None


def _files(rows: RecalledRows, search: Search, file_ids: Sequence[str]) -> list[LargeFile]:
    if file_ids:
        known = [file for one in file_ids if (file := rows.file(one)) is not None]
        scope = search.conversations
        files = [file for file in known if scope is None or file.conversation_id in scope]
    else:
        files = rows.files(search.conversations)
    return [file for file in files if _is_text(file.mime_type)]


def _is_text(mime_type: str | None) -> bool:
    if not mime_type:
        return True
    lower = mime_type.lower()
    return lower.startswith("text/") or any(word in lower for word in _TEXT_TYPES)


def _pattern_places(pattern: EnginePattern, text: str, clock: Clock) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    try:
        for match in pattern.all(text, clock.left):
            places.append((match.start, match.end))
            if len(places) >= _HITS_PER_FILE:
                break
    except TimeoutError:
        raise too_slow() from None
    return places


def _word_places(words: Sequence[str], searched: str) -> list[tuple[int, int]]:
    lower = searched.lower()
    terms = [units(word) for word in words]
    if not all(term in lower for term in terms):
        return []
    places: list[tuple[int, int]] = []
    at = lower.find(terms[0])
    while at >= 0 and len(places) < _HITS_PER_FILE:
        places.append((at, at + len(terms[0])))
        at = lower.find(terms[0], at + len(terms[0]))
    return places


class _Lines:
    """Where the lines of a text begin, in units and in bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._line = self._bytes = 0

    def place(self, at: int) -> tuple[int, int]:
        """The line (from 1) and the bytes before a place; places are asked for in order."""
        between = self._text[self._at : at]
        self._line += between.count("\n")
        self._bytes += len(paired(between).encode("utf-8", "replace"))
        self._at = at
        return self._line + 1, self._bytes


def _file_hit(file: LargeFile, text: str, lines: _Lines, start: int, end: int, cut: bool) -> FileHit:
    line, offset = lines.place(start)
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    snippet = f"{'...' if first else ''}{text[first:last].strip()}{'...' if last < len(text) else ''}"
    return FileHit(
        file.conversation_id,
        file.file_id,
        file.file_name,
        line,
        offset,
        paired(text[start:end]),
        paired(snippet),
        cut,
    )
