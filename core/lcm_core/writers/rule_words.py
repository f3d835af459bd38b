"""The words of rules, as ``rule_words.toml`` lists them (docs/spec/retention.md, "Another language")."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from lcm_core.base.values import Record


class Atom(StrEnum):
    """What one word or phrase does to its clause."""

    MUST = "must"  #: an obligation; negated: a prohibition (must not, soll nicht)
    NEED = "need"  #: an obligation; a negation before it takes it away (not have to, muss nicht)
    MAY = "may"  #: a permission; negated: a prohibition
    CAN = "can"  #: an ability, which may be meant as a permission
    BAN = "ban"  #: forbidden
    OPTIONAL = "optional"  #: need not
    ALWAYS = "always"
    ONLY = "only"
    NEVER = "never"  #: a negation that is a rule without a modal
    DO_NOT = "do not"  #: a negated order
    NOT = "not"  #: a negation, which may describe an event
    AVOID = "avoid"  #: an order that negates what follows
    OMIT = "omit"  #: forget, fail: negates what follows when it is negated itself
    WITHOUT = "without"  #: begins an exception: unless, without, except
    UNTIL = "until"  #: begins a time that may be said from the other side: before, until
    IF = "if"  #: begins a condition or a reason, which is no part of the rule
    AT_MOST = "at most"
    AT_LEAST = "at least"
    NOTHING = "nothing"  #: swallows what looks like one of these: not only, no problem


#: The keys of a language and what their words do, in the order in which patterns are tried: long ones first.
_KEYS: Final[Mapping[str, tuple[Atom, ...]]] = {
    "nothing": (Atom.NOTHING,),
    "at_most": (Atom.AT_MOST,),
    "at_least": (Atom.AT_LEAST,),
    "double_negation": (Atom.MUST,),
    "optional": (Atom.OPTIONAL,),
    "ban": (Atom.BAN,),
    "must": (Atom.MUST,),
    "need": (Atom.NEED,),
    "only": (Atom.ONLY,),
    "may": (Atom.MAY,),
    "cannot": (Atom.CAN, Atom.NOT),
    "must_not": (Atom.MUST, Atom.NOT),
    "may_not": (Atom.MAY, Atom.NOT),
    "can": (Atom.CAN,),
    "always": (Atom.ALWAYS,),
    "never": (Atom.NEVER,),
    "do_not": (Atom.DO_NOT,),
    "avoid": (Atom.AVOID,),
    "omit": (Atom.OMIT,),
    "without": (Atom.WITHOUT,),
    "until": (Atom.UNTIL,),
    "if": (Atom.IF,),
    "not": (Atom.NOT,),
}
#: Matches nothing.
_NEVER: Final = r"(?!)"


class RuleWords(Record, frozen=True):
    """The words of all languages together."""

    phrases: tuple[tuple[str, tuple[Atom, ...]], ...]  #: of languages written with spaces
    dense: re.Pattern[str]  #: the phrases of the others, a group for each of `dense_atoms`: ``a0`` ...
    dense_atoms: tuple[tuple[Atom, ...], ...]  #: what each group does
    dense_letter: re.Pattern[str]  #: a letter of a language written without spaces
    letters: re.Pattern[str]  #: a word of no other letters than those of some language
    common: frozenset[str]  #: words by which a language written with spaces is known
    contrasts: frozenset[str]  #: begin another statement
    events: frozenset[str]  #: verbs that report an event
    helpers: frozenset[str]  #: verbs that accompany another verb
    verb_last: re.Pattern[str]  #: where it is found, in a sentence in lower case, the verb comes last
    verb_last_letters: re.Pattern[str]  #: where it is found, the word of the rule follows its verb
    condition: re.Pattern[str]  #: a piece of a sentence that is a condition
    question: re.Pattern[str]
    behind: re.Pattern[str]  #: words for "without" that follow what they except
    ending: re.Pattern[str]  #: of a verb
    particles: re.Pattern[str]
    past: re.Pattern[str]  #: marks an event


@cache
def _languages() -> Mapping[str, Mapping[str, str]]:
    read = files("lcm_core.writers").joinpath("rule_words.toml").read_text("utf-8")
    found: Mapping[str, Mapping[str, str]] = tomllib.loads(read)
    return found


def _values(key: str, *, spaced: bool) -> Iterator[str]:
    """What the languages written with spaces, or the others, say for *key*."""
    for language in _languages().values():
        if key in language and ("common" in language) is spaced:
            yield language[key]


def phrases_of(key: str) -> tuple[str, ...]:
    """The phrases of *key* in the languages written with spaces."""
    lines = (line for value in _values(key, spaced=True) for line in value.splitlines())
    return tuple(phrase.strip() for line in lines for phrase in line.split("/") if phrase.strip())


def pattern_of(key: str) -> str:
    """The patterns of *key* in the languages written without spaces; matches nothing where there are none."""
    return (
        "|".join(line for value in _values(key, spaced=False) for line in value.split("\n") if line) or _NEVER
    )


def _words(key: str) -> frozenset[str]:
    return frozenset(word for value in _values(key, spaced=True) for word in value.split())


@cache
def rule_words() -> RuleWords:
    """The words of rules; read when they are first needed."""
    groups = [(pattern, atoms) for key, atoms in _KEYS.items() if (pattern := pattern_of(key)) != _NEVER]
    dense_letters = "".join(_values("letters", spaced=False))
    letters = "".join(_values("letters", spaced=True))
    phrases = tuple((phrase, atoms) for key, atoms in _KEYS.items() for phrase in phrases_of(key))
    last = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in phrases_of("verb_last"))
    return RuleWords(
        phrases=phrases,
        dense=re.compile("|".join(f"(?P<a{at}>{pattern})" for at, (pattern, _) in enumerate(groups))),
        dense_atoms=tuple(atoms for _, atoms in groups),
        dense_letter=re.compile(f"[{dense_letters}]"),
        letters=re.compile(f"[{letters}{dense_letters}'’]+"),
        common=_words("common").union(*map(phrases_of, ("must", "ban", "avoid"))),
        contrasts=_words("contrasts"),
        events=_words("events"),
        helpers=_words("helpers"),
        verb_last=re.compile(rf"\b(?:{last or _NEVER})\b"),
        verb_last_letters=re.compile(f"[{''.join(_values('verb_last_letters', spaced=False))}]"),
        condition=re.compile(pattern_of("condition")),
        question=re.compile(pattern_of("question")),
        behind=re.compile(pattern_of("behind")),
        ending=re.compile(pattern_of("ending")),
        particles=re.compile(pattern_of("particles")),
        past=re.compile(pattern_of("past")),
    )
