"""The checks of messages that need no texts: numbers, times and roles (E1, E2, E14, E24, E25)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    INFO,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Hit,
    Limits,
    Rule,
    hit,
)
from lcm_core.checks.structure import SECOND, Structure
from lcm_core.findings import RowRef
from lcm_core.wording import counted, phrase

#: Times that go back by no more than this come from coarse stamps (docs/format.md, "Times").
_COARSE: Final = 300 * SECOND
#: So many messages in one second were stamped when they were imported.
_STAMPED: Final = 20
#: An agent works alone for long, but hardly that long.
_ONE_SIDED: Final = 300
_WITHOUT_USER: Final = 10


def _seq_gaps(structure: Structure, limits: Limits) -> Iterator[Hit]:
    seqs, ids = structure.messages.seqs, structure.messages.ids
    pruned, odd, unnumbered = FaultRows(limits), FaultRows(limits), FaultRows(limits)
    of_pruned = of_odd = last = 0
    where: list[str] = []
    for place in range(1, len(seqs)):
        if seqs[place] == -1 and seqs[last] >= -1:  # what is no number is read as -1 (store/typed.py)
            unnumbered.add("messages", ids[place])
            continue
        missing = seqs[place] - seqs[last] - 1
        before, last = last, place
        if missing <= 0:
            continue
        # A deleted row leaves its id behind as well: more missing numbers than ids are none of deleted rows.
        if missing <= ids[place] - ids[before] - 1:
            pruned.add("messages", ids[place])
            of_pruned += missing
        else:
            odd.add("messages", ids[place])
            of_odd += missing
            if len(where) < 3:
                where.append(f"{seqs[before]} and {seqs[place]}")
    if unnumbered:
        what = phrase(unnumbered.count, "message", structure.id, "have a seq that is no whole number.")
        yield unnumbered.hit(BROKEN, what)
    between = f"between the messages of conversation {structure.id}"
    if odd:
        yield odd.hit(
            SUSPICIOUS,
            f"{phrase(of_odd, 'number', None, 'are missing')} {between} (between {', '.join(where)}), and "
            "no messages were deleted there: they were moved.",
        )
    if pruned:
        what = f"{phrase(of_pruned, 'number', None, 'are missing')} {between}"
        yield pruned.hit(BY_DESIGN, f"{what}: rows were deleted, as pruning of heartbeats does.")
    if len(seqs) and seqs[0] not in (0, 1):
        what = f"The first message of conversation {structure.id} has seq {seqs[0]}."
        yield hit(BY_DESIGN, what, RowRef("messages", (ids[0],)))


def _times_back(structure: Structure, limits: Limits) -> Iterator[Hit]:
    coarse, far, copied = FaultRows(limits), FaultRows(limits), FaultRows(limits)
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
        (far, SUSPICIOUS, "times and order contradict each other"),
        (coarse, BY_DESIGN, "by so little that coarse timestamps explain it"),
        (copied, BY_DESIGN, "the earlier ones are copies from another conversation, as after a transplant"),
    ):
        if rows:
            where = f"{counted(rows.count, 'message')} of conversation {structure.id}"
            yield rows.hit(confidence, f"Time goes back at {where}; {why}.")


def _events(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    rows = FaultRows(
        limits, "messages", (messages.ids[at] for at, event in enumerate(messages.events) if event)
    )
    words = "were recorded as a message, as 0.1 to 0.6.0 did; the model never sees it."
    return rows.hits(BY_DESIGN, "compaction", structure.id, words)


def _stamped_at_import(structure: Structure, limits: Limits) -> Iterator[Hit]:
    days, start = structure.messages.days, 0
    for place in range(1, len(days) + 1):
        if place < len(days) and abs(days[place] - days[start]) < SECOND / 2:
            continue
        if place - start >= _STAMPED and days[start]:
            rows = FaultRows(limits, "messages", structure.messages.ids[start:place])
            words = (
                f"have the same second ({structure.span_text(start, place - 1)}): they "
                "were stamped when they were imported."
            )
            confidence = BY_DESIGN if start <= structure.copied else SUSPICIOUS
            yield from rows.hits(confidence, "message", structure.id, words)
        start = place


def _one_sided(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    users = [place for place in range(len(messages)) if messages.role(place) == "user"]
    for before, after in pairwise([-1, *users, len(messages)]):
        alone = sum(not event for event in messages.events[before + 1 : after])
        if alone < (_ONE_SIDED if users else _WITHOUT_USER):
            continue
        words = (
            f"come in a row without a user message ({structure.span_text(before + 1, after - 1)}): "
            "some may never have been stored."
        )
        rows = FaultRows(limits, "messages", messages.ids[before + 1 : after])
        yield rows.hit(SUSPICIOUS, phrase(alone, "message", structure.id, words))


CHECKS: Final[tuple[Rule[Structure], ...]] = (
    Rule(
        "E1",
        WARNING,
        "gaps in seq",
        "Are numbers missing between messages, or is the first not 0 or 1?",
        why="seq counts from 0 or 1 without gaps, except where the host deleted heartbeats. A gap without a "
        "reason means that messages were renumbered or removed.",
        find=_seq_gaps,
    ),
    Rule(
        "E2",
        WARNING,
        "times out of order",
        "Do times go back while seq increases?",
        why="Messages are stored in the order of their times; an import, or a clock set back, breaks that "
        "order.",
        find=_times_back,
    ),
    Rule(
        "E14",
        INFO,
        "compaction events",
        "Did 0.1 to 0.6.0 record compactions as messages?",
        why="0.1 to 0.6.0 stored each compaction as a system message. They are not part of the conversation.",
        find=_events,
    ),
    Rule(
        "E24",
        WARNING,
        "stamped at import",
        "Does a long run of messages have the same second?",
        why="Messages have the time at which they were said. A long run with the same second got its time "
        "at import.",
        find=_stamped_at_import,
    ),
    Rule(
        "E25",
        WARNING,
        "one-sided turns",
        "Is there a long run of messages without a user message?",
        why="People and the model take turns. In a long run of one side, messages of the other side may be "
        "missing.",
        unanswered="Entries of the transcript that were never stored: compare the session on disk with it.",
        find=_one_sided,
    ),
)
