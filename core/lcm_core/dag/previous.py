"""Previous context: which earlier summaries the engine gave to the model when it made a summary.

Nothing in the database records it. It is reconstructed from what does stand there (engine.md 2.2, 2.5 and the
recorded passes of ``data/compaction``): the row that a summary has tells the order in which summaries were
made, the edges tell which of them had been consumed by then, the messages tell which of them stood before it.

What then was given depends on the pass. A leaf pass of its own is given the last two summaries before it. A
sweep gives its first leaf pass nothing, and every later one only the summary that the pass before it made. A
condensation of leaves is given those leaves, at the most two, that are among the last four summaries before
it. Which kind of pass it was can only be concluded, so the choice says what it assumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lcm_core.dag.markers import BrokenKind
from lcm_core.javascript import BLANKS
from lcm_core.records import Summary, SummaryId

#: How many summaries are given at the most (engine.md 2.2).
MOST: Final = 2
#: How many summaries before a condensed one its previous context is looked for in (engine.md 2.2).
CONDENSING_WINDOW: Final = 4


class Making(Enum):
    """The kind of pass that seems to have made a summary."""

    IN_SWEEP = "in sweep"  #: a leaf pass of a sweep that had made a leaf before
    SWEEP_START = "sweep start"  #: the first leaf pass of a sweep
    SINGLE = "single"  #: a leaf pass of its own (up to 0.9, and `compactLeaf`)
    CONDENSING = "condensing"  #: a condensation of leaves


@dataclass(frozen=True, slots=True)
class Candidate:
    """A summary made earlier that stood before another one, or that one could expect to have stood there."""

    summary: Summary
    content: str
    broken: BrokenKind | None
    first_seq: int | None  #: messages that it covers; None: no message is linked to it, its place is by time
    last_seq: int | None
    refused: str | None = None  #: why it did not stand in the context then; None: it did


@dataclass(frozen=True, slots=True)
class PreviousNode:
    """A summary that is part of a previous context, and where it comes from."""

    summary: Summary
    broken: BrokenKind | None
    first_seq: int | None
    last_seq: int | None
    origin: str  #: one clause

    @property
    def summary_id(self) -> SummaryId:
        """Id of the summary."""
        return self.summary.summary_id


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A candidate that is not part of a previous context, and why."""

    summary_id: SummaryId
    reason: str  #: one clause


@dataclass(frozen=True, slots=True)
class PreviousChoice:
    """One previous context: what is in it, as one text, and what it rests on."""

    nodes: tuple[PreviousNode, ...]  #: in the order of the text: the one that stood farther back first
    text: str  #: as the engine joins them; empty when nothing is given
    passed_over: tuple[PassedOver, ...]  #: nearest first
    assumption: str  #: one sentence


@dataclass(frozen=True, slots=True)
class PreviousContext:
    """The previous context of a summary, reconstructed from what the database holds now."""

    summary_id: SummaryId
    applies: bool
    why_not: str | None  #: one sentence, when `applies` is False
    as_given: PreviousChoice
    otherwise: tuple[PreviousChoice, ...]  #: what may have been given instead, if the assumption is wrong
    for_rewrite: PreviousChoice  #: the same without broken summaries


NOTHING: Final = PreviousChoice((), "", (), "")


def not_applicable(summary: Summary) -> PreviousContext | None:
    """The answer for a summary that is made without previous context (engine.md 8), else None."""
    if summary.kind == "leaf" or summary.depth <= 1:
        return None
    why = (
        f"A summary of depth {summary.depth} is made without previous context: "
        "only leaves and summaries of depth 1 are given one."
    )
    return PreviousContext(summary.summary_id, False, why, NOTHING, (), NOTHING)


def reconstruct(
    summary_id: SummaryId,
    making: Making,
    preceding: SummaryId | None,
    candidates: Sequence[Candidate],
    *,
    tidy: bool,
) -> PreviousContext:
    """The previous context of a summary.

    *candidates* come nearest first; *preceding* is the leaf made by the pass before, for `Making.IN_SWEEP`.
    With *tidy*, texts lose blank lines and the blanks at line ends, as they do since some version before 0.15
    unless a sweep hands them on.
    """
    rule = _Rule(making, preceding, tidy)
    as_given = rule.choose(candidates, _assumed(making, preceding))
    otherwise: list[PreviousChoice] = []
    for other, assumption in () if making is Making.CONDENSING else _OTHERWISE:
        choice = _Rule(other, None, tidy).choose(candidates, assumption)
        if choice.text not in (as_given.text, *(one.text for one in otherwise)):
            otherwise.append(choice)
    sound = rule.choose(candidates, "As given, without broken summaries.", sound=True)
    return PreviousContext(summary_id, True, None, as_given, tuple(otherwise), sound)


def _assumed(making: Making, preceding: SummaryId | None) -> str:
    if making is Making.IN_SWEEP:
        return (
            f"Assumed: a later pass of the sweep that had just made {preceding}, no message came between; "
            "a sweep hands on only the summary of the pass before."
        )
    return _ASSUMED[making]


_ASSUMED: Final = {
    Making.SWEEP_START: "Assumed: the first pass of a sweep, which is given nothing.",
    Making.SINGLE: "Assumed: a leaf pass of its own, which is given the last two summaries before it.",
    Making.CONDENSING: "Of the last four summaries before it, the leaves are given, two at the most.",
}
_OTHERWISE: Final = (
    (Making.SINGLE, "If it was a leaf pass of its own instead: the last two summaries before it are given."),
    (Making.SWEEP_START, "If it was the first pass of a sweep instead: nothing is given."),
)


@dataclass(frozen=True, slots=True)
class _Rule:
    making: Making
    preceding: SummaryId | None
    tidy: bool

    def choose(
        self, candidates: Sequence[Candidate], assumption: str, *, sound: bool = False
    ) -> PreviousChoice:
        """What is given of *candidates* (nearest first); with *sound*, broken ones make room for others."""
        taken: list[tuple[int, Candidate]] = []
        passed: list[PassedOver] = []
        for place, candidate in self._standing(candidates):
            reason = candidate.refused or self._unfit(place, candidate, taken, sound)
            if reason is None:
                taken.append((place, candidate))
            else:
                passed.append(PassedOver(candidate.summary.summary_id, reason))
        blank = [] if self.making is Making.IN_SWEEP else [one for one in taken if not _text(one[1], True)]
        passed += [PassedOver(one.summary.summary_id, "has no text") for _, one in blank]
        nodes = [self._node(*one) for one in reversed(taken) if one not in blank]
        return PreviousChoice(tuple(nodes), self._joined(taken), tuple(passed), assumption)

    def _standing(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Candidate]]:
        """The candidates with their place before the summary: 0 stood next to it."""
        place = 0
        for candidate in candidates:
            yield place, candidate
            place += candidate.refused is None

    def _unfit(
        self, place: int, candidate: Candidate, taken: Sequence[tuple[int, Candidate]], sound: bool
    ) -> str | None:
        """Why a candidate that stood in the context is not taken, or None."""
        if self.making is Making.SWEEP_START:
            return "a sweep gives its first pass nothing"
        if self.making is Making.CONDENSING:
            if place >= CONDENSING_WINDOW:
                return "stood farther back than the last four summaries"
            if candidate.summary.depth != 0:
                return f"has depth {candidate.summary.depth}, and only leaves are given here"
        if sound and candidate.broken is not None:
            return f"is broken ({candidate.broken})"
        if self.making is Making.IN_SWEEP and not sound and candidate.summary.summary_id != self.preceding:
            return "a sweep hands on only the summary of the pass before"
        if len(taken) >= (1 if self.making is Making.IN_SWEEP else MOST):
            return "stood farther back than what is given"
        return None

    def _node(self, place: int, candidate: Candidate) -> PreviousNode:
        if candidate.summary.summary_id == self.preceding:
            origin = "made by the pass before it"
        else:
            origin = "stood next before it" if place == 0 else f"stood {place + 1} places before it"
        return PreviousNode(
            candidate.summary, candidate.broken, candidate.first_seq, candidate.last_seq, origin
        )

    def _joined(self, taken: Sequence[tuple[int, Candidate]]) -> str:
        """The text as the engine makes it: a sweep hands on a summary as it is, else blank ones drop out."""
        if self.making is Making.IN_SWEEP:
            return "".join(candidate.content for _, candidate in taken)
        texts = (_text(candidate, self.tidy) for _, candidate in reversed(taken))
        return "\n\n".join(text for text in texts if text)


def _text(candidate: Candidate, tidy: bool) -> str:
    text = candidate.content.strip(BLANKS)
    if not tidy:
        return text
    return "\n".join(line.rstrip(BLANKS) for line in text.split("\n") if line.strip(BLANKS))
