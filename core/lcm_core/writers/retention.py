"""What a summary kept of its source, what it lost and what it invented; no model, no network, no I/O.

All of it is lexical: an identifier that is not in the text word for word counts as lost, one that is not in
the source as invented. That is an upper bound on what the text is worth (docs/spec/retention.md, "Facts and
inventions"): a kept number may be said of the wrong thing, and a rule in other words looks lost. Keeping
and knowing differ: a text keeps ``/srv/app/x.py`` when it names ``x.py``; it invents ``/tmp/x.py`` when its
source names only ``/srv/app/x.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final
from unicodedata import normalize

from lcm_core.base.text import counted
from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record
from lcm_core.writers.identifiers import (
    LONGEST_PATH,
    Identifier,
    IdentifierKind,
    SourceNames,
    folded,
    identifiers,
    invented_names,
    numbers_in,
    people_checked,
    read_identifiers,
    read_names,
    written_numbers,
)
from lcm_core.writers.modality import PERMISSIONS, RULES, Clause, Force, Relation, clauses, relation
from lcm_core.writers.quantities import (
    HEADER,
    KnownQuantities,
    Quantity,
    Span,
    counts_of_anything,
    rule_words,
    sentences,
    terms,
    told_numbers,
)

# -- rules -----------------------------------------------------------------------------------------------
# What became of the rules of a source: kept, lost, or reversed (docs/spec/retention.md, "Reversals").

#: Rules of a source that are counted; the latest.
_MAX_RULES: Final = 200
#: Statements that a draft is compared with; the latest. What the source has word for word is always known.
_MAX_STATED: Final = 4_000
#: Statements of a draft that are looked at.
_MAX_CLAIMS: Final = 2_000
_LONGEST: Final = 500
#: Terms of a rule, of at most so many, that must be kept together.
_TERMS: Final = 10
_SHARED: Final = 0.5
#: Share of a rule's terms from which the rule counts as kept, whatever else the sentence says.
_WHOLE: Final = 0.8
#: How much less alike than the best two rules may be to be kept by one sentence.
_NEAR: Final = 0.05
_EDGES: Final = re.compile(r"^[\s\-*•>#\d.)]+|[\s.!。！;,]+$")
_MARKUP: Final = re.compile(r"[*`~]+|(?<!\w)_+|_+(?!\w)")
_BULLET: Final = re.compile(r"(?:[-*•]|\d+[.)])\s")
_DUMP: Final = frozenset("{[<")
_WORD: Final = re.compile(r"(?<![\w./\\@=$:-])[^\W\d_]+(?:['’][^\W\d_]+)?(?![\w/\\@=(-]|[.:]\w)")
#: Share of the words of a sentence that are common words of a language whose rules are known.
_COMMON_SHARE: Final = 0.1
#: Words from which a text without common words is of another language.
_FEWEST: Final = 3
#: Share of a text that may be in other languages and is not mentioned.
_PASSED_OVER: Final = 0.05


class Checked(StrEnum):
    """How much of a text is in a language whose rules are known."""

    ALL = "all"
    PART = "part"
    NONE = "none"

    @property
    def words(self) -> str:
        """What is said beside rules, or in their place; empty for `ALL`."""
        return {"all": "", "part": "some not checked", "none": "not checked"}[self]


class Sentence(Record, frozen=True):
    """A sentence of a text and where it is."""

    text: str
    place: Span


class Reversal(Record, frozen=True):
    """A rule of the source and the sentence that says its opposite."""

    rule: Sentence  #: place in the source
    draft: Sentence  #: place in the draft
    was: Force
    now: Force

    @property
    def words(self) -> str:
        """What happened to it, in short: ``forbidden → required``."""
        return f"{self.was} → {'no longer forbidden' if self.now is Force.PLAIN else self.now}"


class RulesKept(Record, frozen=True):
    """What became of the rules."""

    lost: tuple[Sentence, ...]  #: the latest first; a reversed one is not among them
    reversed: tuple[Reversal, ...]  #: in the order of the text
    checked: (
        Checked  #: of the source and the draft, the lesser; NONE: nothing is known of lost or reversed ones
    )


class _Stated(Record, frozen=True):
    """A statement of the source that a draft can agree with or turn round."""

    clause: Clause
    sentence: int  #: number of its sentence; -1: of the previous context


class Rulebook:
    """The rules of a source text, read once for any number of drafts."""

    def __init__(self, text: str, previous: str = "") -> None:
        found = list(_stated(text))
        self.checked = checked(text)
        self._texts = [sentence for sentence, _ in found]
        #: The rules, each once, the latest first.
        self.rules: tuple[Sentence, ...] = tuple(_rules(found))
        stated = [_Stated(clause, number) for number, (_, said) in enumerate(found) for clause in said]
        self._stated = stated[-_MAX_STATED:]
        self._stated += [_Stated(clause, -1) for _, said in _stated(previous) for clause in said][-500:]
        self._verbatim = frozenset(_normal(text[first:last]) for first, last in sentences(text))
        self._verbatim |= frozenset(_normal(previous[first:last]) for first, last in sentences(previous))
        self._index: dict[str, list[int]] = {}
        for number, one in enumerate(self._stated):
            for term in one.clause.terms:
                self._index.setdefault(term, []).append(number)

    def compare(self, text: str) -> RulesKept:
        """What *text* kept of them."""
        both = {self.checked, checked(text)}
        how_much = next(one for one in (Checked.NONE, Checked.PART, Checked.ALL) if one in both)
        if how_much is Checked.NONE or not self._stated:
            return RulesKept((), (), how_much)
        kept: set[int] = set()
        suspects: list[tuple[int, Reversal, float]] = []
        for sentence, claims in _claims(text):
            copied = _normal(sentence.text) in self._verbatim
            for claim in claims:
                same, opposite = self._against(claim, len(claims) == 1, sentence.text)
                kept.update(same)
                if opposite is not None and not copied:
                    number, alike = opposite
                    rule = self._stated[number]
                    reversal = Reversal(self._texts[rule.sentence], sentence, rule.clause.force, claim.force)
                    suspects.append((rule.sentence, reversal, alike))
        found = [(number, one) for number, one, alike in suspects if number not in kept or alike >= _WHOLE]
        reversed_rules = {_normal(one.rule.text) for _, one in found}
        accounted = {_normal(self._texts[number].text) for number in kept} | reversed_rules
        lost = tuple(one for one in self.rules if _normal(one.text) not in accounted)
        unique = {(one.rule.place, one.draft.place): one for _, one in found}
        return RulesKept(lost, tuple(unique.values()), how_much)

    def _against(
        self, claim: Clause, alone: bool, sentence: str
    ) -> tuple[Iterable[int], tuple[int, float] | None]:
        """The sentences that a statement keeps, and the statement of the source that it turns round."""
        shared = Counter(number for term in claim.terms for number in self._index.get(term, ()))
        agree: list[tuple[float, float, int]] = []
        best_same, best_opposite = 0.0, (0.0, -1)
        for number, count in shared.items():
            rule = self._stated[number].clause
            if rule.marks and claim.marks and rule.marks.isdisjoint(claim.marks):
                continue
            alike = count / (len(rule.terms) + len(claim.terms) - count)
            how = relation(rule, claim)
            if claim.force is Force.PLAIN:
                if (
                    alone
                    and rule.force is Force.MUST_NOT
                    and rule.exception is None
                    and _dropped(rule, claim)
                    and not rule_words().past.search(sentence)
                ):
                    best_opposite = max(best_opposite, (alike, number))
            elif how is Relation.SAME:
                best_same = max(best_same, alike)
                agree.append((alike, count / min(len(rule.terms), _TERMS), number))
            elif how is Relation.OPPOSITE and _about_the_same(rule, claim, count):
                best_opposite = max(best_opposite, (alike, number))
        kept = [
            self._stated[number].sentence
            for alike, cover, number in agree
            if cover >= _SHARED
            and self._stated[number].sentence >= 0
            and (alike >= best_same - _NEAR or cover >= _WHOLE)
            and self._keeps_marks(self._stated[number].clause, claim)
        ]
        opposite = None
        alike, number = best_opposite
        if number >= 0 and alike > best_same and self._stated[number].sentence >= 0:
            opposite = number, alike
        return kept, opposite

    def _keeps_marks(self, rule: Clause, claim: Clause) -> bool:
        return not rule.marks or 2 * len(rule.marks & claim.terms) >= len(rule.marks)


def checked(text: str) -> Checked:
    """The share of a text whose language has known rules (docs/spec/retention.md, "Rules not checked")."""
    known = other = unclear = 0
    for first, last in sentences(text):
        sentence = text[first:last]
        if len(sentence) > _LONGEST or sentence[0] in _DUMP:
            continue
        words, score = _counted(sentence)
        if score < 0:
            other += words
        elif score and score >= _COMMON_SHARE * words:
            known += words
        else:
            unclear += words
    # Lists and code have few common words, too, so this decides only where it is most of the text.
    if unclear > known and unclear + other >= _FEWEST:
        other += unclear
    if other <= _PASSED_OVER * (known + other):
        return Checked.ALL
    return Checked.PART if known else Checked.NONE


def _counted(sentence: str) -> tuple[int, int]:
    """The words of a sentence, and how many more of them speak for the known languages than against.

    Common words and the letters of languages without spaces speak for them, other letters against.
    """
    known = rule_words()
    words = score = 0
    for match in _WORD.finditer(normalize("NFC", sentence.lower())):
        dense = len(known.dense_letter.findall(match[0]))
        size = max(dense // 2, 1)
        words += size
        if not known.letters.fullmatch(match[0]):
            score -= size
        elif dense:
            score += size
        else:
            score += match[0].replace("’", "'") in known.common
    return words, score


def _normal(sentence: str) -> str:
    """A sentence without what a writer adds or drops around it."""
    text = _MARKUP.sub("", sentence)
    while True:
        bare = _EDGES.sub("", text)
        if bare == text:
            return " ".join(bare.split()).casefold()
        text = bare


def _read(text: str) -> Iterator[tuple[Sentence, list[Clause]]]:
    """The sentences and what they say; points of a list belong to the words above it."""
    heading = ""
    for first, last in sentences(text):
        sentence = text[first:last]
        if len(sentence) > _LONGEST or sentence[0] in _DUMP:
            heading = ""
            continue
        said = clauses(sentence)
        if sentence.endswith((":", "：")):
            heading = sentence if any(_gives_force(one) for one in said) else ""
            continue
        if heading and _BULLET.match(sentence):
            if all(one.force in (Force.PLAIN, Force.NOT) for one in said):
                said = clauses(f"{heading[:-1]} {_BULLET.sub('', sentence, count=1)}")
        else:
            heading = ""
        yield Sentence(sentence, (first, last)), said


def _gives_force(clause: Clause) -> bool:
    return clause.force in RULES | PERMISSIONS and len(clause.terms) <= 3


def _stated(text: str) -> Iterator[tuple[Sentence, list[Clause]]]:
    for sentence, said in _read(text):
        kept = [one for one in said if one.terms and one.force not in (Force.PLAIN, Force.NOT)]
        if kept:
            yield sentence, kept


def _claims(text: str) -> Iterator[tuple[Sentence, list[Clause]]]:
    count = 0
    for sentence, said in _read(text):
        claims = [one for one in said if one.terms]
        count += len(claims)
        if count > _MAX_CLAIMS:
            return
        if claims:
            yield sentence, claims


def _rules(found: Sequence[tuple[Sentence, Sequence[Clause]]]) -> list[Sentence]:
    rules: dict[str, Sentence] = {}
    for sentence, said in found:
        if any(one.force in RULES for one in said):
            rules[_normal(sentence.text)] = sentence
    return sorted(rules.values(), key=lambda one: -one.place[0])[:_MAX_RULES]


def _about_the_same(rule: Clause, claim: Clause, shared: int) -> bool:
    """Whether two statements share so much that one is the other turned round."""
    of_rule, of_claim = shared / len(rule.terms), shared / len(claim.terms)
    # Each says what the other does not: always run, and never skip, are no opposites.
    both_say_more = shared < len(rule.terms) and shared < len(claim.terms)
    heads = bool(rule.head and claim.head)
    if both_say_more and heads and rule.head.isdisjoint(claim.terms) and claim.head.isdisjoint(rule.terms):
        return False
    return (
        (of_rule >= _WHOLE and of_claim >= 1 / 3)
        or (of_rule >= 0.6 and of_claim >= 0.5)
        or (of_claim >= _WHOLE and of_rule >= 0.4 and shared >= 2)
    )


def _dropped(rule: Clause, claim: Clause) -> bool:
    """Whether a prohibition is repeated in its own words without the negation."""
    there, here = Counter(rule.words), Counter(claim.words)
    most = max(there.total(), here.total())
    return there.total() > 1 and (there & here).total() >= _WHOLE * most


# -- identifiers, files and times ------------------------------------------------------------------------

_SHORTEST_HASH: Final = 7
#: What could be a path, or the name of a branch, whatever else it is.
_RUN: Final = re.compile(r"(?<![\w.@+%~#-])[\w.@+%~#-]*(?:[/\\]+[\w.@+%~#-]+)+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_]+")
_NAME: Final = re.compile(r"[\w.#+-]+")
_URL_END: Final = re.compile(r"[/?#&]")
#: Folders of a path that are looked at from every place; longer ones only from both ends.
_MOST_FOLDERS: Final = 24
#: The default branch where it is named without the word branch.
_DEFAULT: Final = re.compile(
    r"(?<![\w./-])(main|master|develop|trunk|dev)(?![\w-])"
    r"(?=\s{0,2}(?:[.,;:)!?`'\"|]|\n|$|[^\x00-\x7f])|\s(?:is|was|has|got|and|or|branch|after|before|again)\b)"
)
_DEFAULTS: Final = frozenset({"main", "master", "develop", "trunk", "dev"})


class IdentifierIndex:
    """A text to look identifiers up in."""

    def __init__(self, text: str, found: Sequence[Identifier], numbers: Iterable[Quantity]) -> None:
        self._text = folded(text)
        self._keys = frozenset((one.kind, one.key) for one in found)
        self._known = KnownQuantities(numbers)
        self._numbers = numbers_in(self._text)
        self._written = written_numbers(self._text)
        self._tokens = frozenset(_TOKEN.findall(self._text))
        self._hashes = sorted({one.key for one in found if one.kind is IdentifierKind.HASH})
        self._paths = frozenset(one.key for one in found if one.kind is IdentifierKind.PATH)
        self._ends = frozenset(end for path in self._paths for end in ends_of(path))
        self._by_kind = {
            kind: frozenset(one.key for one in found if one.kind is kind)
            for kind in (IdentifierKind.URL, IdentifierKind.BRANCH)
        }

    @staticmethod
    def of(text: str) -> IdentifierIndex:
        """Read a text."""
        return IdentifierIndex(text, *read_identifiers(text))

    def keeps(self, one: Identifier) -> bool:
        """Whether this text has *one* of its source, perhaps shortened."""
        if (one.kind, one.key) in self._keys:
            return True
        match one.kind:
            case IdentifierKind.TIME:
                return False
            case IdentifierKind.NUMBER:
                return self._has_number(one)
            case IdentifierKind.PATH:
                return one.key in self._ends or any(end in self._paths for end in ends_of(one.key))
            case IdentifierKind.HASH:
                return any(_begins(one.key, other) or _begins(other, one.key) for other in self._hashes)
            case _:
                return self._says(one.key)

    def knows(self, one: Identifier) -> bool:
        """Whether this text, a source, has what a draft of it names as *one*."""
        if (one.kind, one.key) in self._keys:
            return True
        match one.kind:
            case IdentifierKind.TIME:
                return one.key.startswith("--") and any(
                    kind is IdentifierKind.TIME and known.endswith(one.key[1:]) for kind, known in self._keys
                )
            case IdentifierKind.NUMBER:
                return self._has_number(one)
            case IdentifierKind.PATH:
                return self._knows_path(one.key)
            case IdentifierKind.HASH:
                return any(_begins(other, one.key) for other in self._hashes) or self._says(one.text)
            case IdentifierKind.URL:
                return one.key in self._beginnings
            case IdentifierKind.BRANCH:
                return self._knows_branch(one.key)
            case IdentifierKind.VERSION:
                return self._knows_version(one)
            case IdentifierKind.FLAG:
                return self._says(one.key, whole=True)
            case _:
                return self._says(one.key)

    def knows_count(self, one: Quantity) -> bool:
        """Whether this text, a source, has the number *one*, whatever it counts."""
        return one.key in self._numbers or self._known.holds(one) or float(one.key) in self._told_numbers

    @cached_property
    def _told_numbers(self) -> frozenset[float]:
        return told_numbers(self._text)

    def _has_number(self, one: Identifier) -> bool:
        if one.quantity is None:
            return one.key in self._numbers
        if self._known.holds(one.quantity):
            return True
        plain = one.key.partition(" ")[0]
        return not one.quantity.unit and plain in self._numbers

    def _knows_version(self, one: Identifier) -> bool:
        series = f"{one.key}."
        if one.key in self._written:
            return True
        return any(kind is IdentifierKind.VERSION and key.startswith(series) for kind, key in self._keys)

    def _knows_path(self, key: str) -> bool:
        """A run of the folders of a path of the source; or such a run below a folder that it names."""
        runs = self._path_runs
        if key in runs:
            return True
        parts = key.split("/")
        for at in range(1, len(parts)):
            above, below = "/".join(parts[:at]), "/".join(parts[at:])
            if above in self._whole and below in self._whole and below not in self._inner:
                return True
        return False

    def _knows_branch(self, name: str) -> bool:
        if name in self._by_kind[IdentifierKind.BRANCH]:
            return True
        if name in _DEFAULTS:
            return name in self._default_branches
        return name in self._path_runs or name in self._names

    def _says(self, key: str, *, whole: bool = False) -> bool:
        """Whether *key* is in the text and no part of a longer word; *whole*: nor of one with hyphens."""
        if not self._tokens.issuperset(_TOKEN.findall(key)) or key not in self._text:
            return False
        before, after = ("[A-Za-z0-9_-]", "[A-Za-z0-9_-]") if whole else ("[A-Za-z0-9_]", "[A-Za-z0-9_]")
        if key[:1].isdigit():
            before = r"[A-Za-z0-9_.]"
        if key[-1:].isdigit():
            after = r"[A-Za-z0-9_]|\.[0-9]"
        return re.search(rf"(?<!{before}){re.escape(key)}(?!{after})", self._text) is not None

    @cached_property
    def _path_runs(self) -> frozenset[str]:
        return frozenset(run for path in self._whole for run in _runs_of(path))

    @cached_property
    def _whole(self) -> frozenset[str]:
        """All that could be a path."""
        found = {
            re.sub(r"[/\\]+", "/", match[0]).rstrip("./").removeprefix("./")
            for match in _RUN.finditer(self._text)
        }
        return frozenset(found) | self._paths

    @cached_property
    def _default_branches(self) -> frozenset[str]:
        return frozenset(match[1] for match in _DEFAULT.finditer(self._text))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name.rstrip(".") for name in _NAME.findall(self._text))

    @cached_property
    def _inner(self) -> frozenset[str]:
        """Ends of longer paths: where they are is known."""
        whole = (path for path in self._whole if len(path) <= LONGEST_PATH)
        return frozenset(end for path in whole for end in ends_of(path)[1:])

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        """The URLs, and what is left when they are cut at a sign that parts them."""
        return frozenset(begun for url in self._by_kind[IdentifierKind.URL] for begun in _cut(url))


def _cut(url: str) -> Iterator[str]:
    yield url
    for match in _URL_END.finditer(url, url.find("://") + 3):
        yield url[: match.start()]


def _runs_of(path: str) -> Iterator[str]:
    if len(path) > LONGEST_PATH:
        return
    parts = path.split("/")
    if len(parts) > _MOST_FOLDERS:
        yield from ("/".join(parts[:at]) for at in range(1, len(parts) + 1))
        yield from ("/".join(parts[at:]) for at in range(len(parts)))
        return
    for first in range(len(parts)):
        for last in range(first + 1, len(parts) + 1):
            yield "/".join(parts[first:last])


def ends_of(path: str) -> list[str]:
    """A path and what is left when folders are dropped from its front; a bare name counts."""
    parts = [part for part in path.split("/") if part not in ("", "~", ".", "..")]
    return ["/".join(parts[at:]) for at in range(len(parts))]


def _begins(longer: str, shorter: str) -> bool:
    return len(shorter) >= _SHORTEST_HASH and longer.startswith(shorter)


#: The identifiers that the share is taken of: those named most often and last.
TOP: Final = 50
#: Words in a row that are no coincidence.
_SHINGLE: Final = 8

_FILES: Final = re.compile(
    r"^[^\w\n]{0,20}files?\b[^:\n]{0,40}:[ \t]*(?P<rest>.*(?:\n[ \t]*[-*•][^\n]*)*)", re.I | re.M
)
_NONE: Final = re.compile(r"[^\w\n]{0,20}(?:none|no files?\b.*|n/a|-)\W*", re.I)
_CLOSING: Final = re.compile(
    r"^[^\w\n]{0,20}expand for details\b[^:\n]{0,20}:?[ \t]*(?P<rest>.*)", re.I | re.M
)


class KindCount(Record, frozen=True):
    """Identifiers of one class: how many different ones."""

    kind: IdentifierKind
    in_source: int
    kept: int
    invented: int

    @property
    def lost(self) -> int:
        """How many of the source are not in the text."""
        return self.in_source - self.kept


class FileList(Record, frozen=True):
    """The line that names the files."""

    stated: bool  #: there is such a line
    says_none: bool
    missing: tuple[Identifier, ...]  #: paths of the source that the line does not name, the worst first
    unknown: tuple[Identifier, ...]  #: paths in the line that the source does not name; places in the text


class TimeCoverage(Record, frozen=True):
    """From when to when: by the headers of the source, and by what the text says."""

    source: tuple[datetime, datetime] | None  #: as written, without a zone
    text: tuple[datetime, datetime] | None

    @property
    def share(self) -> float | None:
        """How much of the source's time is within what the text names; None when either names none."""
        if self.source is None or self.text is None:
            return None
        first, last = max(self.source[0], self.text[0]), min(self.source[1], self.text[1])
        if first > last:
            return 0.0
        whole = self.source[1] - self.source[0]
        return (last - first) / whole if whole else 1.0


class Retention(Record, frozen=True):
    """A text against its source."""

    tokens: int
    source_tokens: int
    classes: tuple[KindCount, ...]  #: those that either side has
    kept: tuple[Identifier, ...]  #: places in the source
    lost: tuple[Identifier, ...]  #: places in the source; the most frequent first, then the most recent
    invented: tuple[Identifier, ...]  #: places in the text
    share: float | None  #: of the weight of the `TOP` identifiers; None: the source has none
    rules_checked: Checked  #: NONE: nothing is known of the rules, and the next three say nothing
    constraints_lost: tuple[Sentence, ...]  #: rules that were not kept, the latest first
    constraints: int  #: rules in the source
    reversed: tuple[Reversal, ...]  #: rules said as their opposite; they are not among those lost
    files: FileList
    times: TimeCoverage
    people_checked: bool  #: whether names of people could be compared: they are known by capitals
    closing: str | None  #: what can be expanded; None: the closing line is missing
    copied: float  #: share of the text that is word for word in the source, in runs of eight words

    @property
    def constraints_kept(self) -> int:
        """Rules that were kept."""
        counted = {one.rule.text for one in self.reversed if one.was in RULES}
        return self.constraints - len(self.constraints_lost) - len(counted)

    @property
    def compression(self) -> float | None:
        """How many tokens of the source one token of the text replaces; None for an empty text."""
        return self.source_tokens / self.tokens if self.tokens else None


class RetentionSource(Record, frozen=True):
    """A source text, read once for any number of summaries of it."""

    text: str
    tokens: int
    estimator: Estimator
    identifiers: tuple[Identifier, ...]
    rulebook: Rulebook
    span: tuple[datetime, datetime] | None
    shingles: frozenset[int]
    names: SourceNames
    _index: IdentifierIndex
    _before: IdentifierIndex | None  #: the previous context, which no summary invents


def read_retention_source(
    text: str, *, previous: str = "", estimator: Estimator = Estimator.WEIGHTED
) -> RetentionSource:
    """Find what there is to keep in a source text; *previous* is the previous context it was given with."""
    body = HEADER.sub(lambda header: "\x00" * len(header[0]), text)
    found, numbers = read_identifiers(body)
    headers = list(HEADER.finditer(text))
    moments = [moment for header in headers if (moment := _moment(header["first"]))]
    moments += [moment for header in headers if (moment := _moment(header["last"]))]
    return RetentionSource(
        text=text,
        tokens=estimate(text, estimator),
        estimator=estimator,
        identifiers=tuple(found),
        rulebook=Rulebook(text, previous),
        span=(min(moments), max(moments)) if moments else None,
        shingles=frozenset(_shingles(text)),
        names=read_names(
            f"{text}\n{previous}",
            frozenset(day for one in found if one.kind is IdentifierKind.TIME and (day := _day(one.key)))
            | {moment.date() for moment in moments},
        ),
        _index=IdentifierIndex(
            text,
            [*found, *identifiers("\n".join(dict.fromkeys(header[0] for header in headers)))],
            numbers,
        ),
        _before=IdentifierIndex.of(previous) if previous else None,
    )


def measure(source: RetentionSource, text: str) -> Retention:
    """What *text* kept, lost and invented of *source*."""
    found, numbers = read_identifiers(text)
    index = IdentifierIndex(text, found, numbers)
    kept = [one for one in source.identifiers if index.keeps(one)]
    there = {(one.kind, one.key) for one in kept}
    lost = [one for one in source.identifiers if (one.kind, one.key) not in there]
    invented = [one for one in found if not _is_known(one, source)]
    invented += _invented_counts(text, numbers, source)
    invented += invented_names(text, source.names, source.text)
    shingles = list(_shingles(text))
    rules = source.rulebook.compare(text)
    return Retention(
        tokens=estimate(text, source.estimator),
        source_tokens=source.tokens,
        classes=tuple(_counts(source.identifiers, kept, invented)),
        kept=tuple(kept),
        lost=tuple(sorted(lost, key=_worst_first)),
        invented=tuple(invented),
        share=_share(source, there),
        rules_checked=rules.checked,
        constraints_lost=rules.lost,
        constraints=len(source.rulebook.rules),
        reversed=rules.reversed,
        files=_file_list(source, text),
        times=TimeCoverage(source.span, _span_of(text, source.span)),
        people_checked=people_checked(text),
        closing=_closing(text),
        copied=sum(one in source.shingles for one in shingles) / len(shingles) if shingles else 0.0,
    )


def _invented_counts(text: str, numbers: Iterable[Quantity], source: RetentionSource) -> Iterator[Identifier]:
    """Small numbers of a draft with any word behind them that the source does not have
    (docs/spec/retention.md, "Numbers").
    """
    indexes = [one for one in (source._index, source._before) if one is not None]
    places: dict[str, list[Span]] = {}
    for one in counts_of_anything(folded(text), numbers):
        if not any(index.knows_count(one) for index in indexes):
            places.setdefault(one.key, []).append(one.place)
    for key, some in places.items():
        yield Identifier(IdentifierKind.NUMBER, key, text[slice(*some[0])], tuple(some))


def _is_known(one: Identifier, source: RetentionSource) -> bool:
    return source._index.knows(one) or (source._before is not None and source._before.knows(one))


def _counts(
    all_: Iterable[Identifier], kept: Iterable[Identifier], invented: Iterable[Identifier]
) -> Iterable[KindCount]:
    there, here, new = (Counter(one.kind for one in group) for group in (all_, kept, invented))
    return (
        KindCount(kind, there[kind], here[kind], new[kind])
        for kind in IdentifierKind
        if there[kind] or new[kind]
    )


def _worst_first(one: Identifier) -> tuple[int, int]:
    return -one.count, -one.places[-1][0]


def _share(source: RetentionSource, kept: set[tuple[IdentifierKind, str]]) -> float | None:
    """Of the weight of the identifiers that count most; what is at the end weighs double."""
    size = max(len(source.text), 1)
    weighed = sorted(
        ((one.count * (1 + one.places[-1][0] / size), (one.kind, one.key)) for one in source.identifiers),
        reverse=True,
    )[:TOP]
    whole = sum(weight for weight, _ in weighed)
    return sum(weight for weight, key in weighed if key in kept) / whole if whole else None


def _file_list(source: RetentionSource, text: str) -> FileList:
    lines = list(_FILES.finditer(text))
    listed: list[Identifier] = []
    for line in lines:
        # Blanked before it, so that places are places in the text.
        blanked = "\x00" * line.start("rest") + text[line.start("rest") : line.end("rest")]
        listed += [one for one in identifiers(blanked) if one.kind is IdentifierKind.PATH]
    named = frozenset(end for one in listed for end in ends_of(one.key))
    paths = [one for one in source.identifiers if one.kind is IdentifierKind.PATH]
    return FileList(
        stated=bool(lines),
        says_none=bool(lines) and all(_NONE.fullmatch(line["rest"]) for line in lines),
        missing=tuple(sorted((one for one in paths if named.isdisjoint(ends_of(one.key))), key=_worst_first)),
        unknown=tuple(one for one in listed if not _is_known(one, source)),
    )


def _closing(text: str) -> str | None:
    """The last closing line; one long before the end is a quotation."""
    lines = list(_CLOSING.finditer(text))
    return lines[-1]["rest"].strip() if lines and len(text) - lines[-1].end() < 200 else None


def _moment(stamp: str | None) -> datetime | None:
    """The time at the beginning of a header, without its zone: all headers of a source have the same."""
    try:
        return datetime.fromisoformat(stamp[:16].rstrip()) if stamp else None
    except ValueError:
        return None


def _day(key: str) -> date | None:
    try:
        return date.fromisoformat(key)
    except ValueError:
        return None


def _moments(text: str, only_day: datetime | None) -> list[datetime]:
    """The times that *text* names, in order; a clock belongs to the date before it, or to *only_day*."""
    times = sorted(
        (place, one.key)
        for one in identifiers(text)
        if one.kind is IdentifierKind.TIME
        for place in one.places
    )
    day = only_day
    found: list[datetime] = []
    for at, (_, key) in enumerate(times):
        if ":" not in key:
            try:
                day = datetime.fromisoformat(key)
            except ValueError:  # 30 February
                continue
            if at + 1 == len(times) or ":" not in times[at + 1][1]:
                found += [day, day + timedelta(days=1, minutes=-1)]
        elif day is not None:
            hour, minute = map(int, key.split(":"))
            found.append(day.replace(hour=hour, minute=minute))
    return found


def _span_of(text: str, source: tuple[datetime, datetime] | None) -> tuple[datetime, datetime] | None:
    one_day = source is not None and source[0].date() == source[1].date()
    day = source[0].replace(hour=0, minute=0) if source is not None and one_day else None
    moments = _moments(text, day)
    return (min(moments), max(moments)) if moments else None


def _shingles(text: str) -> Iterable[int]:
    """Runs of words, or of characters where words are not separated, as numbers."""
    words = terms(text)
    return (hash(tuple(words[at : at + _SHINGLE])) for at in range(len(words) - _SHINGLE + 1))


# -- whether a draft is worth taking ---------------------------------------------------------------------
# In one line, from what it keeps beside what the present text keeps.

#: A draft of more than this share of its source, or this many times the present text, saves hardly anything.
_HARDLY_SHORTER: Final = 0.8
_MUCH_LONGER: Final = 1.5
#: A draft that keeps less than this share of the names says little of its source.
_FEW_NAMES: Final = 0.2
#: A smaller difference of that share is none.
_SAME_SHARE: Final = 0.05


class Worth(StrEnum):
    """What a draft is, compared with the present text and with its source."""

    WORSE = "worse"
    POOR = "poor"
    LONG = "hardly shorter"
    EVEN = "no worse"
    FAIR = "fair"
    GOOD = "good"


class Assessment(Record, frozen=True):
    """The line above a draft (docs/spec/retention.md, "Worth taking")."""

    worth: Worth
    sentence: str

    @property
    def good(self) -> bool:
        """Whether a rule may accept the draft."""
        return self.worth in {Worth.FAIR, Worth.GOOD}


def assess(new: Retention, old: Retention | None, *, cautions: bool = False) -> Assessment:
    """What the numbers say of a draft; *old*: of the present text, None where it has none to measure.

    *cautions*: something else is said against the draft, beside this.
    """
    if old is not None and (lost := list(_lost_since(new, old))):
        return Assessment(Worth.WORSE, f"Worse: {', '.join(lost)}.")
    missing = list(_missing(new, old))
    # How many rules a text keeps is not always known: then it is not known whether this keeps as many.
    if missing and (old is None or (_rules_kept(new) is not None and _rules_kept(old) is None)):
        return Assessment(Worth.POOR, f"Says little of its source: {', '.join(missing)}.")
    share = new.tokens / new.source_tokens if new.source_tokens else 0.0
    if share > _HARDLY_SHORTER:
        times = new.tokens / old.tokens if old is not None and old.tokens else 0.0
        more = f", {times:.1f} times the present text" if times > _MUCH_LONGER else ""
        return Assessment(Worth.LONG, f"Hardly shorter: {share * 100:.0f} % of its source{more}.")
    kept = [*_told_rules(new, old), *_told_names(new, old)]
    if missing:
        better = old is not None and list(_lost_since(old, new))
        return Assessment(
            Worth.EVEN, f"{'Better than' if better else 'Like'} the present text: {', '.join(kept)}."
        )
    if new.invented:
        kept.append(f"invents {_names_or_numbers(len(new.invented))}")
    told = f"{', '.join(kept)}{', ' if kept else ''}{share * 100:.0f} % of its source."
    if cautions or new.invented or (new.constraints and _rules_kept(new) != new.constraints):
        return Assessment(Worth.FAIR, f"{told[0].upper()}{told[1:]}")
    return Assessment(Worth.GOOD, f"OK: {told}")


def _lost_since(new: Retention, old: Retention) -> Iterator[str]:
    """What the present text has and the draft has not."""
    rules, before = _rules_kept(new), _rules_kept(old)
    if rules is not None and before is not None and rules < before:
        now = f" (now {new.constraints - before:,})" if before < new.constraints else ""
        yield f"loses {new.constraints - rules:,} of {counted(new.constraints, 'rule')}{now}"
    if new.share is not None and new.share < (old.share or 0.0) - _SAME_SHARE:
        yield from _told_names(new, old)
    if len(new.invented) > len(old.invented):
        yield f"invents {_names_or_numbers(len(new.invented) - len(old.invented))}"


def _missing(new: Retention, old: Retention | None) -> Iterator[str]:
    """What a summary of its source would have."""
    if new.constraints and _rules_kept(new) == 0:
        yield f"loses {new.constraints:,} of {counted(new.constraints, 'rule')}"
    if new.share is not None and new.share < _FEW_NAMES:
        yield from _told_names(new, old)


def _told_rules(new: Retention, old: Retention | None) -> Iterator[str]:
    rules = _rules_kept(new)
    if new.constraints and rules is None:
        yield "rules not checked"
    elif rules is not None and new.constraints:
        before = rules if old is None else _rules_kept(old)
        now = "" if before in (None, rules) else f" (now {before:,})"
        yield f"keeps {rules:,} of {counted(new.constraints, 'rule')}{now}"


def _told_names(new: Retention, old: Retention | None) -> Iterator[str]:
    if new.share is not None:
        before = new.share if old is None else old.share or 0.0
        now = "" if abs(before - new.share) <= _SAME_SHARE else f" (now {before * 100:.0f} %)"
        yield f"keeps {new.share * 100:.0f} % of the names{now}"


def _names_or_numbers(count: int) -> str:
    return counted(count, "name or number", "names or numbers")


def _rules_kept(kept: Retention) -> int | None:
    """How many rules are kept; None where that is not known."""
    return None if kept.rules_checked is Checked.NONE else kept.constraints_kept
