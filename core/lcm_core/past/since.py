"""What changed in a conversation since a point: items of its context, and summaries. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lcm_core.change.plan import Ref
from lcm_core.past.rebuild import SUMMARIES, Earlier


@dataclass(frozen=True, slots=True)
class Since:
    """What came, went and changed between a point and now."""

    left: tuple[Ref, ...]  #: what the context represented then and does not now, in the order of then
    joined: tuple[Ref, ...]  #: what it represents now and did not then, in the order of now
    made: tuple[str, ...]  #: summaries that were not there
    gone: tuple[str, ...]  #: summaries that no longer exist
    changed: tuple[str, ...]  #: summaries of which some column is another one

    def __bool__(self) -> bool:
        return bool(self.left or self.joined or self.made or self.gone or self.changed)


def since(earlier: Earlier) -> Since:
    """Compare a state with that of now."""
    then, now = earlier.refs, earlier.refs_now
    made: list[str] = []
    gone: list[str] = []
    changed: list[str] = []
    for key, row in earlier.rows.items():
        if key[0] != SUMMARIES:
            continue
        name = str(key[1].cells[0])
        (made if row is None else changed if key in earlier.there else gone).append(name)
    return Since(
        tuple(_beyond(then, now)),
        tuple(_beyond(now, then)),
        tuple(sorted({*made, *earlier.later})),
        tuple(sorted(gone)),
        tuple(sorted(changed)),
    )


def _beyond(some: Iterable[Ref], others: Iterable[Ref]) -> Iterator[Ref]:
    """Those of *some* that are not among *others*, each as often as it is missing there."""
    there = Counter(others)
    for ref in some:
        if there[ref]:
            there[ref] -= 1
        else:
            yield ref
