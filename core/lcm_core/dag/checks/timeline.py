"""Family E, what needs no texts: numbers, times and roles of the messages (E1, E2, E14, E24, E25)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from lcm_core.dag.checks.facts import SECOND, Limits, Structure, StructureRule, Tally, counted, told
from lcm_core.findings import Confidence, Finding

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

#: Times that go back by no more than this come from coarse stamps (docs/format.md, "Times").
_COARSE: Final = 300 * SECOND
#: So many messages in one second were stamped when they were imported.
_STAMPED: Final = 20
#: An agent works alone for long, but hardly that long.
_ONE_SIDED: Final = 300
_WITHOUT_USER: Final = 10


def _seq_gaps(structure: Structure, limits: Limits) -> Iterator[Finding]:
    seqs, ids = structure.messages.seqs, structure.messages.ids
    pruned, odd = Tally(limits), Tally(limits)
    where: list[str] = []
    for place in range(1, len(seqs)):
        missing = seqs[place] - seqs[place - 1] - 1
        if missing <= 0:
            continue
        # A deleted row leaves its id behind as well: more missing numbers than ids are none of deleted rows.
        rows = pruned if missing <= ids[place] - ids[place - 1] - 1 else odd
        rows.add("messages", ids[place])
        rows.things += missing
        if rows is odd and len(where) < 3:
            where.append(f"{seqs[place - 1]} and {seqs[place]}")
    if odd:
        yield odd.finding(
            "E1",
            _SUSPICIOUS,
            structure.id,
            f"{told(odd.things, 'number', None, 'are missing')} between the messages of conversation "
            f"{structure.id} "
            f"(between {', '.join(where)}), and no messages were deleted there: they were moved.",
        )
    if pruned:
        yield pruned.finding(
            "E1",
            _BY_DESIGN,
            structure.id,
            f"{told(pruned.things, 'number', None, 'are missing')} between the messages of conversation "
            f"{structure.id}: "
            "rows were deleted, as pruning of heartbeats does.",
        )
    if len(seqs) and seqs[0] not in (0, 1):
        first = Tally(limits)
        first.add("messages", ids[0])
        yield first.finding(
            "E1",
            _BY_DESIGN,
            structure.id,
            f"The first message of conversation {structure.id} has seq {seqs[0]}.",
        )


def _times_back(structure: Structure, limits: Limits) -> Iterator[Finding]:
    coarse, far, copied = Tally(limits), Tally(limits), Tally(limits)
    days = structure.messages.days
    newest = 0.0
    for place, day in enumerate(days):
        if not day:
            continue
        if day < newest - SECOND and day < days[place - 1]:
            back = copied if place <= structure.copied else coarse if newest - day <= _COARSE else far
            back.add("messages", structure.messages.ids[place])
        newest = day if place == structure.copied else max(newest, day)
    for rows, confidence, why in (
        (far, _SUSPICIOUS, "times and order contradict each other"),
        (coarse, _BY_DESIGN, "by so little that coarse stamps explain it"),
        (copied, _BY_DESIGN, "those before are copies of another conversation's, as a transplant makes them"),
    ):
        if rows:
            yield rows.finding(
                "E2",
                confidence,
                structure.id,
                f"Time goes back at {counted(rows.count, 'message')} of conversation {structure.id}; {why}.",
            )


def _events(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for place, event in enumerate(structure.messages.events):
        if event:
            rows.add("messages", structure.messages.ids[place])
    if rows:
        yield rows.finding(
            "E14",
            _BY_DESIGN,
            structure.id,
            told(
                rows.count,
                "compaction",
                structure.id,
                "were recorded as a message, as 0.1 to 0.6.0 did; the model never sees it.",
            ),
        )


def _stamped_at_import(structure: Structure, limits: Limits) -> Iterator[Finding]:
    days, start = structure.messages.days, 0
    for place in range(1, len(days) + 1):
        if place < len(days) and abs(days[place] - days[start]) < SECOND / 2:
            continue
        if place - start >= _STAMPED and days[start]:
            rows = Tally(limits)
            for one in range(start, place):
                rows.add("messages", structure.messages.ids[one])
            yield rows.finding(
                "E24",
                _BY_DESIGN if start <= structure.copied else _SUSPICIOUS,
                structure.id,
                told(
                    rows.count,
                    "message",
                    structure.id,
                    f"have one and the same second ({structure.span_text(start, place - 1)}): they "
                    "were stamped when they were imported.",
                ),
            )
        start = place


def _one_sided(structure: Structure, limits: Limits) -> Iterator[Finding]:
    messages = structure.messages
    users = [place for place in range(len(messages)) if messages.role(place) == "user"]
    bounds = [-1, *users, len(messages)]
    for before, after in pairwise(bounds):
        alone = sum(not event for event in messages.events[before + 1 : after])
        if alone < (_ONE_SIDED if users else _WITHOUT_USER):
            continue
        rows = Tally(limits)
        for place in range(before + 1, after):
            rows.add("messages", messages.ids[place])
        yield rows.finding(
            "E25",
            _SUSPICIOUS,
            structure.id,
            told(
                alone,
                "message",
                structure.id,
                f"stand in a row without any of the user's ({structure.span_text(before + 1, after - 1)}): "
                "some may never have been stored.",
            ),
        )


RULES: Final[Mapping[str, StructureRule]] = {
    "E1": _seq_gaps,
    "E2": _times_back,
    "E14": _events,
    "E24": _stamped_at_import,
    "E25": _one_sided,
}
