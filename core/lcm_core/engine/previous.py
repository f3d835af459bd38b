"""Previous context: which earlier summaries the engine gave to the model when it made a summary.

One rule for compaction, rewrite and repair (docs/spec/texts.md, "Previous context"). Nothing in the
database records what was given. It is reconstructed from what is recorded: the row that a summary has
shows the order in which summaries were made, the edges show which of them had been consumed by then, the
messages show which of them came before it. Which kind of pass made a leaf can only be concluded, so the
choice says what it assumes. A condensed summary is given nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from itertools import islice
from typing import Final

from lcm_core.base.records import Summary, SummaryId
from lcm_core.base.values import Record, replace
from lcm_core.engine.markers import BadKind

#: How many summaries are given at the most.
MOST: Final = 2


def given(blank: Iterable[bool]) -> list[int]:
    """Which of the summaries before a leaf pass of its own are given to it: the nearest that say something.

    *blank* tells, nearest first, which say nothing and are passed over, at any distance; the engine of 0.1
    passes over none. The places that are given count from 0, nearest first.
    """
    return list(islice((place for place, is_blank in enumerate(blank) if not is_blank), MOST))


def joined(texts: Iterable[str]) -> str:
    """What summaries say, the older first, as one text; those that say nothing leave no trace."""
    return "\n\n".join(filter(None, texts))


class PreviousRules(Record, frozen=True):
    """How an engine reads the summaries that it gives as previous context."""

    reading: Callable[[str], str]  #: what the text of a summary says, trimmed; maybe nothing
    passes_over: bool  #: one that says nothing makes room for one farther back
    sweeps_only: bool  #: the engine by itself makes no leaf pass of its own


class Making(Enum):
    """The kind of pass that seems to have made a summary."""

    IN_SWEEP = "in sweep"  #: a leaf pass of a sweep that had made a leaf before
    SWEEP_START = "sweep start"  #: the first leaf pass of a sweep
    SINGLE = "single"  #: a leaf pass of its own (up to 0.9, and `compactLeaf`)


class Candidate(Record, frozen=True):
    """A summary made earlier that stood before another one, or that one could expect to have stood there."""

    summary: Summary
    content: str
    broken: BadKind | None
    first_seq: int | None  #: messages that it covers; None: no message is linked to it, its place is by time
    last_seq: int | None
    refused: str | None = None  #: why it was not in the context then; None: it did
    origin: str = ""  #: one clause, once it is part of a previous context
    blank: bool = False  #: its text says nothing, so that it adds nothing to the whole

    @property
    def summary_id(self) -> SummaryId:
        """Id of the summary."""
        return self.summary.summary_id


class PassedOver(Record, frozen=True):
    """A candidate that is not part of a previous context, and why."""

    summary_id: SummaryId
    reason: str  #: one clause


class PreviousChoice(Record, frozen=True):
    """One previous context: what is in it, as one text, and what it rests on."""

    nodes: tuple[Candidate, ...]  #: in the order of the text: the one that stood farther back first
    text: str  #: as the engine joins them; empty when nothing is given
    passed_over: tuple[PassedOver, ...]  #: nearest first
    assumption: str  #: one sentence


class PreviousContext(Record, frozen=True):
    """The previous context of a summary, reconstructed from what the database holds now."""

    summary_id: SummaryId
    applies: bool
    why_not: str | None  #: one sentence, when `applies` is False
    as_given: PreviousChoice
    otherwise: tuple[PreviousChoice, ...]  #: what may have been given instead, if the assumption is wrong
    for_rewrite: PreviousChoice  #: the same without broken summaries

    @property
    def summary_ids(self) -> Sequence[SummaryId]:
        """The summaries that any of them names, each once."""
        named: dict[SummaryId, None] = {}
        for choice in (self.as_given, self.for_rewrite, *self.otherwise):
            named |= dict.fromkeys(node.summary_id for node in choice.nodes)
            named |= dict.fromkeys(one.summary_id for one in choice.passed_over)
        return list(named)


NOTHING: Final = PreviousChoice((), "", (), "")


def not_applicable(summary: Summary) -> PreviousContext | None:
    """The answer for a summary that is made without previous context, else None."""
    if summary.kind == "leaf":
        return None
    why = "A condensed summary is made without previous context: only leaves are given one."
    return PreviousContext(summary.summary_id, False, why, NOTHING, (), NOTHING)


def reconstruct(
    summary_id: SummaryId,
    making: Making,
    preceding: SummaryId | None,
    candidates: Sequence[Candidate],
    rules: PreviousRules,
) -> PreviousContext:
    """The previous context of a leaf.

    *candidates* come nearest first; *preceding* is the leaf made by the pass before, for `Making.IN_SWEEP`.
    """
    rule = _Rule(making, preceding, rules)
    as_given = rule.choose(candidates, _assumed(making, preceding))
    otherwise: list[PreviousChoice] = []
    for other, assumption in _OTHERWISE:
        choice = _Rule(other, None, rules).choose(candidates, assumption)
        if choice.text not in (as_given.text, *(one.text for one in otherwise)):
            otherwise.append(choice)
    sound = rule.choose(candidates, "As given, without broken summaries.", sound=True)
    return PreviousContext(summary_id, True, None, as_given, tuple(otherwise), sound)


def _assumed(making: Making, preceding: SummaryId | None) -> str:
    if making is Making.IN_SWEEP:
        return (
            f"Assumed: a later pass of the sweep that had just made {preceding}, with no message in between; "
            "in a sweep, a pass receives only the summary of the previous pass."
        )
    return _ASSUMED[making]


_ASSUMED: Final = {
    Making.SWEEP_START: "Assumed: the first pass of a sweep, which receives no previous context.",
    Making.SINGLE: "Assumed: a single leaf pass, which receives the last two summaries before it.",
}
_OTHERWISE: Final = (
    (Making.SINGLE, "If it was a single leaf pass instead: it received the last two summaries before it."),
    (Making.SWEEP_START, "If it was the first pass of a sweep instead: it received no previous context."),
)


class _Rule(Record, frozen=True):
    making: Making
    preceding: SummaryId | None
    rules: PreviousRules

    def choose(
        self, candidates: Sequence[Candidate], assumption: str, *, sound: bool = False
    ) -> PreviousChoice:
        """What is given of *candidates* (nearest first); with *sound*, broken ones make room for others."""
        reasons = [one.refused or self._unfit(one, sound) for one in candidates]
        fit = [one for one, reason in zip(candidates, reasons, strict=True) if reason is None]
        taken = {fit[at].summary_id for at in self._given(fit)}
        nodes: list[Candidate] = []
        texts: list[str] = []
        passed: list[PassedOver] = []
        place = 0  #: before the summary: 0 stood next to it
        for one, unfit in zip(candidates, reasons, strict=True):
            reason = unfit or self._left_out(one, taken)
            if reason is None:
                nodes.append(self._node(place, one))
                texts.append(self._text(one))
            else:
                passed.append(PassedOver(one.summary_id, reason))
            place += one.refused is None
        return PreviousChoice(tuple(nodes[::-1]), joined(texts[::-1]), tuple(passed), assumption)

    def _given(self, fit: Sequence[Candidate]) -> list[int]:
        return [0][: len(fit)] if self.making is Making.IN_SWEEP else given(map(self._is_blank, fit))

    def _unfit(self, candidate: Candidate, sound: bool) -> str | None:
        """Why a candidate that stood in the context is none, or None."""
        if self.making is Making.SWEEP_START:
            return "first pass of a sweep: none"
        if sound and candidate.broken is not None:
            return f"is broken ({candidate.broken})"
        if self.making is Making.IN_SWEEP and not sound and candidate.summary_id != self.preceding:
            return "not from the previous pass"
        return None

    def _left_out(self, candidate: Candidate, taken: Collection[SummaryId]) -> str | None:
        """Why a candidate leaves nothing in the text, or None."""
        if candidate.summary_id not in taken:
            return "says nothing" if self._is_blank(candidate) else "too far back"
        if self.making is not Making.IN_SWEEP and not self._text(candidate):
            return "has no text"
        return None

    def _is_blank(self, candidate: Candidate) -> bool:
        """Whether it is passed over for one farther back."""
        return self.rules.passes_over and not self._text(candidate)

    def _text(self, candidate: Candidate) -> str:
        """What it gives: a sweep hands a summary on as it is stored."""
        return candidate.content if self.making is Making.IN_SWEEP else self.rules.reading(candidate.content)

    def _node(self, place: int, candidate: Candidate) -> Candidate:
        if candidate.summary_id == self.preceding:
            origin = "made by the previous pass"
        else:
            origin = "directly before it" if place == 0 else f"{place + 1} places before it"
        return replace(candidate, origin=origin, blank=not self._text(candidate).strip())
