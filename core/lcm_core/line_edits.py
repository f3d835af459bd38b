"""Which lines two texts share, and the edits that lead from one to the other.

The longest common subsequence of rapidfuzz over interned lines: it compares by hash,
so lines become numbers. Lines that only one side has are left out before, so unrelated texts cost nothing,
and texts that are still long are cut at lines that stand once on each side.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq, Levenshtein

#: Pairs of lines that one comparison may weigh: 5,000 by 5,000 lines take 5 ms.
_CELLS: Final = 25_000_000
#: What does not fit there is still compared whole up to this size (50 MB of memory) ...
_WHOLE_CELLS: Final = 16 * _CELLS
#: ... then by the distance that needs little memory, and beyond 50,000 by 50,000 lines not at all.
_MOST_CELLS: Final = 2_500_000_000
#: Two lines with less in common (percent) are two lines, and none that was changed.
ALIKE: Final = 45.0
#: Characters of a line by which likeness is judged.
_JUDGED: Final = 600


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines ``old_start`` to before ``old_end`` of the old text against lines of the new text."""

    same: bool
    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def old_size(self) -> int:
        """How many old lines it covers."""
        return self.old_end - self.old_start

    @property
    def new_size(self) -> int:
        """How many new lines it covers."""
        return self.new_end - self.new_start


def likeness(one: str, other: str) -> float:
    """How alike two lines are, in percent; 0 below `ALIKE`."""
    return fuzz.ratio(one[:_JUDGED], other[:_JUDGED], score_cutoff=ALIKE)


def line_edits(old: Sequence[str], new: Sequence[str]) -> tuple[Edit, ...]:
    """The edits that lead from *old* to *new*, cleaned up for reading."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    runs = _slid(_without_coincidences(_runs(a, b), old, new), new, old, a, b)
    return tuple(_edits(runs, len(a), len(b)))


@dataclass(slots=True)
class _Run:
    """Lines that both sides have: *size* of them, from *old* and *new* on."""

    old: int
    new: int
    size: int


def _edits(runs: Iterable[_Run], old_size: int, new_size: int) -> Iterator[Edit]:
    old = new = 0
    for run in (*runs, _Run(old_size, new_size, 0)):
        if run.old > old or run.new > new:
            yield Edit(False, old, run.old, new, run.new)
        if run.size:
            yield Edit(True, run.old, run.old + run.size, run.new, run.new + run.size)
        old, new = run.old + run.size, run.new + run.size


def _runs(a: Sequence[int], b: Sequence[int]) -> list[_Run]:
    """The lines that stay, in runs as long as can be."""
    least = min(len(a), len(b))
    head = next((at for at in range(least) if a[at] != b[at]), least)
    tail = next((at for at in range(least - head) if a[-1 - at] != b[-1 - at]), least - head)
    matches = [(at, at) for at in range(head)]
    middle = _matches(range(head, len(a) - tail), range(head, len(b) - tail), a, b)
    matches += sorted(middle)
    matches += [(len(a) - tail + at, len(b) - tail + at) for at in range(tail)]
    runs: list[_Run] = []
    for old, new in matches:
        last = runs[-1] if runs else None
        if last is not None and old == last.old + last.size and new == last.new + last.size:
            last.size += 1
        else:
            runs.append(_Run(old, new, 1))
    return runs


def _matches(
    olds: Sequence[int], news: Sequence[int], a: Sequence[int], b: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Places of lines that stay, among the places *olds* and *news*."""
    pending = [(olds, news)]
    while pending:
        olds, news = pending.pop()
        common = {a[at] for at in olds}.intersection(b[at] for at in news)
        olds = [at for at in olds if a[at] in common]
        news = [at for at in news if b[at] in common]
        if not common:
            continue
        anchors = _anchors(olds, news, a, b) if len(olds) * len(news) > _CELLS else []
        if not anchors:
            yield from _compared(olds, news, a, b)
            continue
        yield from ((olds[i], news[j]) for i, j in anchors)
        for (i, j), (k, m) in pairwise([(-1, -1), *anchors, (len(olds), len(news))]):
            if k - i > 1 and m - j > 1:
                pending.append((olds[i + 1 : k], news[j + 1 : m]))


def _compared(
    olds: Sequence[int], news: Sequence[int], a: Sequence[int], b: Sequence[int]
) -> Iterator[tuple[int, int]]:
    cells = len(olds) * len(news)
    if cells > _MOST_CELLS:
        return
    left, right = [a[at] for at in olds], [b[at] for at in news]
    ops = (LCSseq if cells <= _WHOLE_CELLS else Levenshtein).opcodes(left, right)
    for op in ops:
        if op.tag == "equal":
            yield from zip(olds[op.src_start : op.src_end], news[op.dest_start : op.dest_end], strict=True)


def _anchors(
    olds: Sequence[int], news: Sequence[int], a: Sequence[int], b: Sequence[int]
) -> list[tuple[int, int]]:
    """Lines that stand once on each side, as many as keep their order (patience)."""
    in_old, in_new = Counter(a[at] for at in olds), Counter(b[at] for at in news)
    place = {b[at]: j for j, at in enumerate(news) if in_new[b[at]] == 1}
    candidates = [(i, place[a[at]]) for i, at in enumerate(olds) if in_old[a[at]] == 1 and a[at] in place]
    ends: list[int] = []  # the lowest place at which a chain of each length ends
    tops: list[int] = []  # the candidate that ends it
    before: list[int] = []
    for number, (_, j) in enumerate(candidates):
        length = bisect_left(ends, j)
        before.append(tops[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        tops[length : length + 1] = [number]
    chain: list[tuple[int, int]] = []
    number = tops[-1] if tops else -1
    while number >= 0:
        chain.append(candidates[number])
        number = before[number]
    return chain[::-1]


def _without_coincidences(runs: list[_Run], old: Sequence[str], new: Sequence[str]) -> list[_Run]:
    """Without blank or near blank lines that stayed by chance between two changes at least as long.

    A blank line between two paragraphs that were each reworded stays: it lets them be taken one by one.
    """
    kept: list[_Run] = []
    for number, run in enumerate(runs):
        before_old, before_new = (
            (kept[-1].old + kept[-1].size, kept[-1].new + kept[-1].size) if kept else (0, 0)
        )
        following = runs[number + 1] if number + 1 < len(runs) else _Run(len(old), len(new), 0)
        end_old, end_new = run.old + run.size, run.new + run.size
        size_before = max(run.old - before_old, run.new - before_new)
        size_after = max(following.old - end_old, following.new - end_new)
        by_chance = (
            min(size_before, size_after) >= run.size
            and all(_is_slight(line) for line in old[run.old : end_old])
            and not _reworded(old[before_old : run.old], new[before_new : run.new])
            and not _reworded(old[end_old : following.old], new[end_new : following.new])
        )
        if not by_chance:
            kept.append(run)
    return kept


def _is_slight(line: str) -> bool:
    return len(line) <= 2 or line.isspace()


def _reworded(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one side of a change reads like the other, by its first lines."""
    if not old or not new:
        return False
    return likeness("\n".join(old[:3]), "\n".join(new[:3])) >= ALIKE


def _slid(
    runs: list[_Run], new: Sequence[str], old: Sequence[str], a: Sequence[int], b: Sequence[int]
) -> list[_Run]:
    """With lines that were only added, or only removed, moved to where a paragraph begins, if they can be."""
    for before, after in pairwise(runs):
        old_gap = after.old - before.old - before.size
        new_gap = after.new - before.new - before.size
        if old_gap and new_gap:
            continue
        ids, lines, start = (a, old, before.old) if old_gap else (b, new, before.new)
        first, gap = start + before.size, old_gap or new_gap
        up = 0
        while up < before.size - 1 and ids[first - 1 - up] == ids[first + gap - 1 - up]:
            up += 1
        down = 0
        while down < after.size - 1 and ids[first + down] == ids[first + gap + down]:
            down += 1
        best = max(range(-up, down + 1), key=lambda by: (_begins_well(lines, first + by, gap), -abs(by)))
        before.size += best
        after.old, after.new, after.size = after.old + best, after.new + best, after.size - best
    return runs


def _begins_well(lines: Sequence[str], first: int, size: int) -> int:
    """How naturally a block of lines stands for itself: after an empty line, or ending with one."""
    ends = not lines[first + size - 1].strip()
    begins = first == 0 or not lines[first - 1].strip()
    return 2 * begins + ends
