"""The rules in a sentence: what they are about, and which way they point (docs/spec/retention.md, "Rules").

A sentence is cut into clauses, each with one force. Everything is read from words and their order; nothing is
parsed, so what is said by the sense alone (irony, "out of the question") is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Final

from lcm_core.base.values import Record, Struct
from lcm_core.writers.quantities import Atom, RuleWords, rule_words, terms


class Force(StrEnum):
    """Which way a clause points."""

    MUST = "required"
    MUST_NOT = "forbidden"
    ONLY = "restricted"
    MAY = "allowed"
    NEED_NOT = "optional"
    CAN = "possible"
    NOT = "denied"  #: a negation that may describe an event
    PLAIN = "stated"


#: What makes a sentence a rule.
RULES: Final = frozenset({Force.MUST, Force.MUST_NOT, Force.ONLY})
#: What is a permission; its opposite turns it round, losing it loses no rule.
PERMISSIONS: Final = frozenset({Force.MAY, Force.NEED_NOT})


class Relation(StrEnum):
    """How two clauses about the same thing agree."""

    SAME = "same"
    OPPOSITE = "opposite"
    OTHER = "other"


class Clause(Record, frozen=True):
    """One statement of a sentence."""

    force: Force
    terms: frozenset[str]  #: what it is about, without the words that give the force
    marks: frozenset[
        str
    ]  #: of these, what distinguishes one object from another: numbers, identifiers, names
    words: tuple[str, ...]  #: as written, in lower case; runs of a dense script as pairs of characters
    head: frozenset[str]  #: terms right beside the words that give the force: most often the verb
    exception: frozenset[str] | None = None  #: terms behind unless, without; None: there is no exception
    until: bool = False  #: a time is given that may be said from the other side
    bound: int = 0  #: -1 at most, 1 at least


_MARKUP: Final = re.compile(r"\*+|~~|`+|</?[a-zA-Z]{1,10}>|(?<!\w)_+|_+(?!\w)")
_TOKEN: Final = re.compile(
    r"(?P<stop>[,;:、，；：()\u2014\u2013]+(?=\s|$|[^\x00-\x7f])|\s-\s|[，；：、]+|[.!?。！？]+\s)"
    r"|(?P<word>[^\W_]+(?:[-'._/:@#][^\W_]+)*)"
)
_DENSE_STOPS: Final = " 。！？.!?，,、"
_QUESTION_MARK: Final = re.compile(r"[?？][\"'”’）)*_\s]*$")
_STRONG: Final = frozenset(
    {
        *(Atom.MUST, Atom.NEED, Atom.MAY, Atom.CAN, Atom.BAN, Atom.OPTIONAL, Atom.ALWAYS, Atom.ONLY),
        *(Atom.NEVER, Atom.DO_NOT, Atom.AVOID, Atom.AT_MOST, Atom.AT_LEAST),
    }
)
_NEGATIONS: Final = frozenset({Atom.NOT, Atom.NEVER, Atom.DO_NOT})
#: At most so many words or pairs of characters of a clause are looked at; the rest is a list or a dump.
_LONGEST: Final = 80

# -- phrases ------------------------------------------------------------------------------------------------


class _Phrase(Record, frozen=True):
    words: tuple[str, ...]  #: those after the first
    atoms: tuple[Atom, ...]


class _Phrases(Record, frozen=True):
    """The phrases by their first word, the longest first."""

    whole: dict[str, list[_Phrase]]
    begun: dict[str, list[_Phrase]]  #: by the beginning of their first word
    lengths: tuple[int, ...]  #: of these beginnings, the longest first


@cache
def _phrases() -> _Phrases:
    whole: dict[str, list[_Phrase]] = {}
    begun: dict[str, list[_Phrase]] = {}
    for phrase, atoms in rule_words().phrases:
        first, *rest = phrase.split()
        table = begun if first.endswith("*") else whole
        table.setdefault(first.removesuffix("*"), []).append(_Phrase(tuple(rest), atoms))
    for table in (whole, begun):
        for group in table.values():
            group.sort(key=lambda one: -len(one.words))
    return _Phrases(whole, begun, tuple(sorted({len(first) for first in begun}, reverse=True)))


def _phrase_at(words: Sequence[str], at: int) -> tuple[int, tuple[Atom, ...]] | None:
    """How many words a phrase takes that begins at *at*, and what it does."""
    word, phrases = words[at], _phrases()
    found = _fitting(phrases.whole.get(word, ()), words, at)
    for length in phrases.lengths:
        if found is None and len(word) >= length:
            found = _fitting(phrases.begun.get(word[:length], ()), words, at)
    return found


def _fitting(
    phrases: Sequence[_Phrase], words: Sequence[str], at: int
) -> tuple[int, tuple[Atom, ...]] | None:
    for phrase in phrases:
        end = at + 1 + len(phrase.words)
        if tuple(words[at + 1 : end]) == phrase.words:
            return end - at, phrase.atoms
    return None


# -- a sentence as words ------------------------------------------------------------------------------------


class _ClausePart(Struct):
    """A piece of a sentence between two stops."""

    content: list[str]  #: words that give no force, as written
    atoms: list[tuple[Atom, int]]  #: each with the number of words of content before it
    condition_from: int | None = None  #: words of content from here on are a condition
    exception: tuple[int, int] | None = None  #: words of content that are an exception

    def strong(self) -> bool:
        return any(atom in _STRONG for atom, _ in self.atoms)


def _plain(sentence: str) -> str:
    return _MARKUP.sub("", sentence.replace("\u2019", "'"))


def _parts(text: str) -> Iterator[_ClausePart]:
    """The pieces between stops and contrasting words."""
    matches = list(_TOKEN.finditer(text))
    lowered = [match[0].lower() if match.lastgroup == "word" else "\n" for match in matches]
    known = rule_words()
    part = _ClausePart([], [])
    at = 0
    while at < len(matches):
        match = matches[at]
        if match.lastgroup == "stop":
            yield part
            part = _ClausePart([], [])
            at += 1
            continue
        if known.dense_letter.search(match[0]):
            start = match.start()
            end = match.end()
            while (
                at + 1 < len(matches)
                and matches[at + 1].lastgroup == "word"
                and known.dense_letter.search(matches[at + 1][0])
            ):
                at += 1
                end = matches[at].end()
            _add_dense(part, text[start : end + 1], known)
            at += 1
            continue
        found = _phrase_at(lowered, at)
        if found is None:
            if lowered[at] in known.contrasts:
                yield part
                part = _ClausePart([], [])
            else:
                part.content.append(match[0])
            at += 1
            continue
        count, atoms = found
        _add(part, atoms)
        at += count
    yield part


def _add(part: _ClausePart, atoms: Sequence[Atom]) -> None:
    place = len(part.content)
    for atom in atoms:
        if atom is Atom.IF:
            if part.condition_from is None:
                part.condition_from = place
        elif atom is Atom.NOTHING:
            continue
        elif part.condition_from is None:
            if part.exception is not None and atom in _STRONG:
                part.exception = part.exception[0], min(part.exception[1], max(place, part.exception[0] + 1))
            if atom is Atom.WITHOUT and part.exception is None:
                part.exception = place, place + _LONGEST
            part.atoms.append((atom, place))


def _add_dense(part: _ClausePart, text: str, known: RuleWords) -> None:
    """A run of a script that is written without spaces."""
    at = 0
    for match in known.dense.finditer(text):
        before = text[at : match.start()].strip(_DENSE_STOPS)
        if before:
            part.content.append(before)
        atoms = known.dense_atoms[int((match.lastgroup or "a0")[1:])]
        if atoms == (Atom.WITHOUT,) and known.behind.fullmatch(match[0]) and part.content:
            part.exception = len(part.content) - 1, len(part.content)
        _add(part, atoms)
        at = match.end()
    rest = text[at:].strip(_DENSE_STOPS)
    if rest:
        part.content.append(rest)
    if known.condition.search(text) and not any(
        atom in (Atom.ONLY, Atom.WITHOUT, Atom.BAN, Atom.MUST) for atom, _ in part.atoms
    ):
        part.condition_from = 0
        part.atoms.clear()


# -- clauses ------------------------------------------------------------------------------------------------


def clauses(sentence: str) -> list[Clause]:
    """What a sentence says, each statement with its force; empty for a question and a text without words."""
    if _QUESTION_MARK.search(sentence) or rule_words().question.search(sentence):
        return []
    text = _plain(sentence)
    parts = [part for part in _parts(text) if part.content or part.atoms]
    merged: list[_ClausePart] = []
    for part in parts:
        if merged and not (part.strong() and part.content and merged[-1].strong() and _says(merged[-1])):
            _join(merged[-1], part)
        else:
            merged.append(part)
    return [clause for part in merged if (clause := _clause(part, text)) is not None]


def _says(part: _ClausePart) -> bool:
    return any(len(word) > 1 for word in part.content)


def _join(part: _ClausePart, more: _ClausePart) -> None:
    """Append a piece that has no force of its own to the piece before it."""
    shift = len(part.content)
    if part.exception is not None:
        part.exception = part.exception[0], min(part.exception[1], shift)
    if more.exception is not None and part.exception is None:
        part.exception = more.exception[0] + shift, more.exception[1] + shift
    part.content += more.content
    # A condition ends with its piece, so what follows it counts again.
    part.atoms += [(atom, place + shift) for atom, place in more.atoms]
    part.condition_from = None


def _clause(part: _ClausePart, sentence: str) -> Clause | None:
    content = part.content[:_LONGEST]
    force = _force(part, sentence)
    about = frozenset(_about(" ".join(content)))
    if not about and force is Force.PLAIN:
        return None
    kinds = {atom for atom, _ in part.atoms}
    exception = None
    if Atom.WITHOUT in kinds and part.exception is not None:
        exception = frozenset(terms(" ".join(content[slice(*part.exception)])))
    return Clause(
        force,
        about,
        frozenset(_marks(content)),
        tuple(_words(content)),
        frozenset(_beside(part, content, sentence)),
        exception,
        Atom.UNTIL in kinds,
        (Atom.AT_LEAST in kinds) - (Atom.AT_MOST in kinds),
    )


def _about(content: str) -> Iterator[str]:
    """What a clause is about, without endings and particles."""
    bare = rule_words().particles.sub(" ", content)
    yield from terms(bare) or terms(content)


def _marks(content: Sequence[str]) -> Iterator[str]:
    """What distinguishes one object from another."""
    for at, word in enumerate(content):
        if any(map(str.isdigit, word)) or (at and word[0].isupper() and word[1:].islower()):
            yield from terms(word)


def _words(content: Sequence[str]) -> Iterator[str]:
    dense = rule_words().dense_letter
    for word in content:
        if dense.search(word):
            yield from terms(word)
        else:
            yield word.lower()


def _beside(part: _ClausePart, content: Sequence[str], sentence: str) -> Iterator[str]:
    """Terms of the word that the force most often falls on.

    That is the next one; where nothing follows, and in Japanese, the one before; in German the last.
    """
    places = [place for atom, place in part.atoms if atom in _STRONG or atom in _NEGATIONS]
    if not places or not content:
        return
    at, step, known = max(places), 1, rule_words()
    if known.verb_last_letters.search(sentence):
        at, step = max(places) - 1, -1
    elif known.verb_last.search(sentence.lower()):
        at, step = len(content) - 1, -1
    if not 0 <= at < len(content):
        at, step = len(content) - 1, -1
    while 0 <= at < len(content):
        word = known.ending.sub("", content[at]) if step < 0 else content[at]
        found = terms(word or content[at])
        if found and content[at].lower() not in known.helpers:
            yield from found[-2:] if step < 0 else found[:2]
            return
        at += step


def _force(part: _ClausePart, sentence: str) -> Force:
    kinds = {atom for atom, _ in part.atoms}
    negated = _negated(part)
    if Atom.OPTIONAL in kinds:
        return Force.MUST if Atom.NOT in kinds and Atom.DO_NOT not in kinds else Force.NEED_NOT
    if Atom.BAN in kinds:
        if Atom.OMIT in kinds:
            return Force.MUST
        return Force.MAY if negated and not kinds & {Atom.NEVER, Atom.MUST} else Force.MUST_NOT
    if Atom.ONLY in kinds:
        hard = kinds & {Atom.MUST, Atom.MAY, Atom.CAN, Atom.NEVER}
        return Force.MUST_NOT if negated and Atom.ALWAYS not in kinds and hard else Force.ONLY
    if Atom.MUST in kinds:
        return Force.MUST_NOT if negated else Force.MUST
    if Atom.NEED in kinds:
        return _needed(part, sentence) if negated else Force.MUST
    return _without_obligation(part, kinds, negated, sentence)


def _needed(part: _ClausePart, sentence: str) -> Force:
    """Not needed, or needed not to; German *muss nicht* takes the need away wherever the negation is."""
    need = min(place for atom, place in part.atoms if atom is Atom.NEED)
    first = next(atom for atom, _ in part.atoms if atom in _NEGATIONS or atom in (Atom.NEED, Atom.AVOID))
    late = first is Atom.NEED and all(place > need for atom, place in part.atoms if atom in _NEGATIONS)
    return Force.MUST_NOT if late and not rule_words().verb_last.search(sentence.lower()) else Force.NEED_NOT


def _without_obligation(part: _ClausePart, kinds: set[Atom], negated: bool, sentence: str) -> Force:
    if kinds & {Atom.MAY, Atom.CAN}:
        if negated:
            return Force.MUST_NOT
        return Force.MAY if Atom.MAY in kinds else Force.CAN
    if kinds & {Atom.NEVER, Atom.DO_NOT, Atom.AVOID}:
        return Force.MUST_NOT if negated else Force.MUST
    if Atom.ALWAYS in kinds:
        return Force.NOT if negated else Force.MUST
    if kinds & {Atom.AT_MOST, Atom.AT_LEAST}:
        return Force.MUST
    if negated:
        return Force.MUST_NOT if _begins_negated(part, sentence) else Force.NOT
    return Force.PLAIN


def _negated(part: _ClausePart) -> bool:
    """Whether the negations leave one; several words are one in most languages (niemals nicht)."""
    kinds = [atom for atom, _ in part.atoms]
    count = int(any(kind in _NEGATIONS for kind in kinds))
    count += kinds.count(Atom.AVOID) > 0
    if Atom.OMIT in kinds and (count or Atom.MUST in kinds):
        count += 1
    return count % 2 == 1


def _begins_negated(part: _ClausePart, sentence: str) -> bool:
    """An order without a modal begins with its negation: *Nicht löschen*.

    English *No* begins an order only where no verb describes an event: *No deploys on Fridays*.
    """
    atom, place = next(one for one in part.atoms if one[0] in _NEGATIONS)
    if place > 0 or atom is not Atom.NOT or not part.content:
        return False
    if sentence.lstrip("-*• \t").lower().startswith("no "):
        lowered = {word.lower() for word in part.content}
        return not lowered & rule_words().events and len(part.content) <= 12
    return True


# -- how two clauses agree ----------------------------------------------------------------------------------

_POSITIVE: Final = frozenset({Force.MUST, Force.ONLY, Force.MAY, Force.CAN})
_AGREE: Final = {
    Force.MUST: frozenset({Force.MUST, Force.ONLY}),
    Force.ONLY: frozenset({Force.ONLY, Force.MUST}),
    Force.MUST_NOT: frozenset({Force.MUST_NOT, Force.NOT}),
    Force.MAY: frozenset({Force.MAY, Force.CAN}),
    Force.NEED_NOT: frozenset({Force.NEED_NOT, Force.MAY, Force.NOT}),
    Force.CAN: frozenset({Force.CAN, Force.MAY}),
    Force.NOT: frozenset({Force.NOT, Force.MUST_NOT}),
    Force.PLAIN: frozenset({Force.PLAIN}),
}
_CONTRADICT: Final = {
    Force.MUST: frozenset({Force.MUST_NOT, Force.MAY, Force.NEED_NOT}),
    Force.ONLY: frozenset({Force.MUST_NOT, Force.NEED_NOT}),
    Force.MUST_NOT: frozenset({Force.MUST, Force.ONLY, Force.MAY, Force.CAN, Force.NEED_NOT}),
    Force.MAY: frozenset({Force.MUST_NOT, Force.MUST}),
    Force.NEED_NOT: frozenset({Force.MUST, Force.MUST_NOT, Force.ONLY}),
}


def relation(rule: Clause, claim: Clause) -> Relation:
    """How *claim* agrees with *rule*, both about the same thing."""
    if rule.bound and claim.bound and rule.bound != claim.bound:
        return Relation.OPPOSITE
    one, other = rule.exception is not None, claim.exception is not None
    if one != other:
        # Never without approval, and: only with approval.
        exception = rule.exception if one else claim.exception
        there = claim if one else rule
        shared = len((exception or frozenset()) & there.terms)
        if exception and 2 * shared >= len(exception):
            signs = [_sign(rule.force) * (-1 if one else 1), _sign(claim.force) * (-1 if other else 1)]
            if 0 not in signs:
                return Relation.SAME if signs[0] == signs[1] else Relation.OPPOSITE
        if rule.force in (Force.MUST_NOT, Force.ONLY) and claim.force in RULES:
            return Relation.OTHER if claim.force is not Force.MUST else _plainly(rule, claim)
    if rule.until != claim.until and _plainly(rule, claim) is Relation.OPPOSITE and claim.force in RULES:
        return Relation.OTHER
    return _plainly(rule, claim)


def _plainly(rule: Clause, claim: Clause) -> Relation:
    if claim.force in _AGREE[rule.force]:
        return Relation.SAME
    if claim.force in _CONTRADICT.get(rule.force, ()):
        return Relation.OPPOSITE
    return Relation.OTHER


def _sign(force: Force) -> int:
    if force in _POSITIVE:
        return 1
    return -1 if force in (Force.MUST_NOT, Force.NOT) else 0
