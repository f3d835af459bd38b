"""Structural checks of contexts, local to the items that a change touches.

Source: docs/engine/doctor.md, "Family A: the context".

Asked before and after a change, with the list of that moment: what is found after and was not before would
break the context; what was found before and is not after, the change has mended. A reference without a target
(A1, A2) is found by `lcm_core.change.references`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from lcm_core.change.breaks import context_key
from lcm_core.change.place import Listing
from lcm_core.change.plan import Ref, Splice, SqlValue, ref_of
from lcm_core.change.walks import Walks

#: From here on an ordinal is no place in a list but what an interrupted resequencing left (A9).
HUGE_ORDINAL = 10_000_000


def subjects_of(splices: Iterable[Splice]) -> frozenset[Ref]:
    """What some splices take out of a context or put into it."""
    rows = (row for splice in splices for row in (*splice.removed, *splice.inserted))
    return frozenset(ref for row in rows if isinstance(ref := ref_of(row), int | str))


def context_findings(
    walks: Walks, conversation_id: int, listing: Listing, subjects: frozenset[Ref]
) -> frozenset[str]:
    """What is wrong with some items of a context, or with their absence from it."""
    held = frozenset(listing.refs)
    owners = {
        **walks.owners("messages", "message_id", _messages(subjects)),
        **walks.owners("summaries", "summary_id", _summaries(subjects)),
    }
    checks = (
        *_repeated(listing, subjects, held),
        *_foreign(conversation_id, subjects & held, owners),
        *_misnumbered(listing, subjects),
        *_covered_twice(walks, subjects & held, held),
        *_uncovered(walks, conversation_id, subjects - held, held, owners),
    )
    return frozenset(context_key(check, conversation_id, ref) for check, ref in checks)


Broken = Iterator[tuple[str, Ref]]


def _repeated(listing: Listing, subjects: frozenset[Ref], held: frozenset[Ref]) -> Broken:
    """A3, A4: the same thing stands more than once."""
    if len(held) == len(listing):
        return
    counts = Counter(listing.refs)
    for ref in subjects:
        if counts[ref] > 1:
            yield "A3" if isinstance(ref, str) else "A4", ref


def _foreign(conversation_id: int, present: frozenset[Ref], owners: dict[SqlValue, SqlValue]) -> Broken:
    """A5: another conversation's row."""
    for ref in present:
        if isinstance(ref, int | str) and owners.get(ref, conversation_id) != conversation_id:
            yield "A5", ref


def _misnumbered(listing: Listing, subjects: frozenset[Ref]) -> Broken:
    """A9: an ordinal out of range."""
    first, last = bisect_left(listing.ordinals, 0), bisect_left(listing.ordinals, HUGE_ORDINAL)
    for ref in (*listing.refs[:first], *listing.refs[last:]):
        if ref in subjects:
            yield "A9", ref


def _covered_twice(walks: Walks, present: frozenset[Ref], held: frozenset[Ref]) -> Broken:
    """A6, A7: an item and a summary that covers it stand side by side, one of them among *present*."""
    for ref, over in walks.above([ref for ref in present if isinstance(ref, int | str)]).items():
        if (over - {ref}) & held and isinstance(ref, int | str):
            yield "A7" if isinstance(ref, str) else "A6", ref
    covering = _summaries(present)
    below = walks.below(covering)
    for ref in below & held:
        yield "A7", ref
    for message in walks.linked(below | covering, held):
        yield "A6", message


def _uncovered(
    walks: Walks,
    conversation_id: int,
    absent: frozenset[Ref],
    held: frozenset[Ref],
    owners: dict[SqlValue, SqlValue],
) -> Broken:
    """A11, B13: what is in no context any more and not covered from there."""
    there = [ref for ref in absent if isinstance(ref, int | str) and ref in owners]
    for ref, over in walks.above(there).items():
        # What is another conversation's (A5) stands where it belongs.
        if over or (owners[ref] != conversation_id and walks.stands(owners[ref], ref)):
            continue
        if isinstance(ref, int):
            yield "A11", ref
        elif isinstance(ref, str) and not _replaced(walks, ref, held):
            yield "B13", ref


def _replaced(walks: Walks, summary_id: str, held: frozenset[Ref]) -> bool:
    """Whether everything that a summary covers stands in the context in finer form."""
    waiting, seen = {summary_id}, {summary_id}
    while waiting:
        further: set[str] = set()
        for sources in walks.sources(waiting).values():
            open_ones = sources - held
            if not sources or any(not isinstance(source, str) for source in open_ones):
                return False
            further.update(source for source in open_ones if isinstance(source, str))
        waiting = further - seen
        seen |= further
    return True


def _messages(refs: frozenset[Ref]) -> frozenset[int]:
    return frozenset(ref for ref in refs if isinstance(ref, int))


def _summaries(refs: frozenset[Ref]) -> frozenset[str]:
    return frozenset(ref for ref in refs if isinstance(ref, str))
