"""What became of the rules of a source: kept, lost, or reversed (docs/retention.md, "Reversals")."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from unicodedata import normalize

from lcm_core.summarize.language import Span, sentences
from lcm_core.summarize.modality import PERMISSIONS, RULES, Clause, Force, Relation, clauses, relation
from lcm_core.summarize.modality_words import rule_words

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
        return {"all": "", "part": "checked in part", "none": "not checked"}[self]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text and where it is."""

    text: str
    place: Span


@dataclass(frozen=True, slots=True)
class Reversal:
    """A rule of the source and the sentence that says its opposite."""

    rule: Sentence  #: place in the source
    draft: Sentence  #: place in the draft
    was: Force
    now: Force

    @property
    def words(self) -> str:
        """What happened to it, in short: ``forbidden → required``."""
        return f"{self.was} → {'no longer forbidden' if self.now is Force.PLAIN else self.now}"


@dataclass(frozen=True, slots=True)
class RulesKept:
    """What became of the rules."""

    lost: tuple[Sentence, ...]  #: the latest first; a reversed one is not among them
    reversed: tuple[Reversal, ...]  #: in the order of the text
    checked: (
        Checked  #: of the source and the draft, the lesser; NONE: nothing is known of lost or reversed ones
    )


@dataclass(frozen=True, slots=True)
class _Stated:
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
    """How much of a text is in a language whose rules are known (docs/retention.md, "Rules not checked")."""
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
