"""The difference of two texts as it is shown, and the text that any choice of its changes gives.

Texts are compared by their lines, or by their sentences where changes are to be taken one by one. Putting the
lines, or the sentences with what stood between them, together again gives the text back, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq, Levenshtein

from lcm_core.base.values import Record, Struct, replace

#: Lines of a change that are paired by likeness, and what all pairing of one diff may cost.
_PAIRED_LINES: Final = 140
_PAIRED_CELLS: Final = 20_000
#: Words are compared in pairs of lines up to this many pairs of words, and marked when so much is common.
_WORD_CELLS: Final = 16_000_000
_COMMON: Final = 0.5

_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_MARKS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u200d\ufe0f"
_WORDS: Final = re.compile(rf"[{_IDEOGRAPHS}]|(?:[^\W{_IDEOGRAPHS}]|[{_MARKS}])+|\s+|.")

#: Where a sentence ends within a line: blanks before what may begin another, or the full stop of a script
#: without blanks.
_SENTENCE_END: Final = re.compile(
    r"(?<=[^\s][.!?…])[ \t]+(?=[^\W_a-z]|[\"'“‘«(\[`*])|(?<=[。！？｡])(?=[^\s。！？｡」』”’）])"
)
#: The number of an item of a list, which is no sentence.
_LIST_NUMBER: Final = re.compile(r"\s*(?:[-*+] )?[0-9]{1,3}[.]")

Span = tuple[int, int]  #: from the first to before the second


class LineMark(StrEnum):
    """What precedes a line, besides any colour."""

    SAME = " "
    GONE = "-"
    ADDED = "+"
    CHANGED = "~"


class DiffRow(Record, frozen=True):
    """A row of a diff: a line of the old text, of the new one, or of both. Lines are numbered from 0."""

    old: int | None
    new: int | None
    hunk: int | None  #: the hunk that it belongs to; None: the same in both
    mark: LineMark


class Diff(Record, frozen=True):
    """Two texts and the edits from one to the other; a *hunk* is one edit that changes something."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    edits: tuple[Edit, ...]  #: in order, without gaps; only the pieces of a split hunk follow each other
    hunks: tuple[Edit, ...]
    pairs: tuple[Span, ...]  #: line of the old text, line of the new one that it became; in order
    #: what stands before each line, where these are sentences; empty: they are lines
    old_before: tuple[str, ...] = ()
    new_before: tuple[str, ...] = ()

    def text(self, left: Collection[int] = ()) -> str:
        """The new text, in which the hunks numbered in *left* stay as they were.

        A sentence brings with it what stood before it in its own text.
        """
        taken: list[tuple[str, str]] = []
        number = 0
        for edit in self.edits:
            keep = edit.same
            if not edit.same:
                keep, number = number in left, number + 1
            if keep:
                taken += _with_before(self.old, self.old_before, edit.old_start, edit.old_end)
            else:
                taken += _with_before(self.new, self.new_before, edit.new_start, edit.new_end)
        return "".join(text for one in taken for text in one)[len(taken[0][0]) :] if taken else ""

    def unified(self) -> Iterator[DiffRow]:
        """Rows one under the other: of a hunk first the old lines, then the new ones."""
        number = 0
        for edit in self.edits:
            if edit.same:
                yield from _same_rows(edit)
                continue
            for old in range(edit.old_start, edit.old_end):
                yield DiffRow(old, None, number, LineMark.GONE)
            for new in range(edit.new_start, edit.new_end):
                yield DiffRow(None, new, number, LineMark.ADDED)
            number += 1

    def side_by_side(self) -> Iterator[DiffRow]:
        """Rows with the old line and the line that it became in one row; a line without one is alone."""
        became = dict(self.pairs)
        number = 0
        for edit in self.edits:
            if edit.same:
                yield from _same_rows(edit)
                continue
            new = edit.new_start
            for old in range(edit.old_start, edit.old_end):
                mate = became.get(old)
                if mate is None:
                    yield DiffRow(old, None, number, LineMark.GONE)
                    continue
                yield from (DiffRow(None, lone, number, LineMark.ADDED) for lone in range(new, mate))
                yield DiffRow(old, mate, number, LineMark.CHANGED)
                new = mate + 1
            yield from (DiffRow(None, lone, number, LineMark.ADDED) for lone in range(new, edit.new_end))
            number += 1

    def split(self, hunk: int) -> Diff:
        """The same diff with one hunk in pieces: each line that became another, went or came by itself."""
        whole = self.hunks[hunk]
        pieces = tuple(self._pieces(whole))
        at = self.edits.index(whole)
        return self._with_edits((*self.edits[:at], *pieces, *self.edits[at + 1 :]))

    def paired(self) -> Diff:
        """The same diff in which each line that became another is a hunk, and so is each run between them."""
        edits: list[Edit] = []
        for edit in self.edits:
            edits += (edit,) if edit.same else _joined(self._pieces(edit))
        return self._with_edits(tuple(edits))

    def _with_edits(self, edits: tuple[Edit, ...]) -> Diff:
        return replace(self, edits=edits, hunks=tuple(edit for edit in edits if not edit.same))

    def _pieces(self, hunk: Edit) -> Iterator[Edit]:
        became = dict(self.pairs)
        new = hunk.new_start
        for old in range(hunk.old_start, hunk.old_end):
            mate = became.get(old)
            if mate is None:
                yield Edit(False, old, old + 1, new, new)
                continue
            yield from (Edit(False, old, old, lone, lone + 1) for lone in range(new, mate))
            yield Edit(False, old, old + 1, mate, mate + 1)
            new = mate + 1
        yield from (
            Edit(False, hunk.old_end, hunk.old_end, lone, lone + 1) for lone in range(new, hunk.new_end)
        )

    @property
    def added(self) -> int:
        """Lines that only the new text has."""
        return sum(hunk.new_size for hunk in self.hunks)

    @property
    def removed(self) -> int:
        """Lines that only the old text has."""
        return sum(hunk.old_size for hunk in self.hunks)


def _with_before(lines: Sequence[str], before: Sequence[str], start: int, end: int) -> list[tuple[str, str]]:
    """Some lines, each with what stands before it."""
    return [(before[at] if before else "\n", lines[at]) for at in range(start, end)]


def _joined(pieces: Iterable[Edit]) -> list[Edit]:
    """Pieces of a hunk, of which those that follow each other and only go, or only come, are one."""
    found: list[Edit] = []
    for piece in pieces:
        last = found[-1] if found else None
        alike = last is not None and (
            (not last.new_size and not piece.new_size) or (not last.old_size and not piece.old_size)
        )
        if last is not None and alike:
            found[-1] = Edit(False, last.old_start, piece.old_end, last.new_start, piece.new_end)
        else:
            found.append(piece)
    return found


def _same_rows(edit: Edit) -> Iterator[DiffRow]:
    shift = edit.new_start - edit.old_start
    return (DiffRow(old, old + shift, None, LineMark.SAME) for old in range(edit.old_start, edit.old_end))


def compare_texts(old: str, new: str) -> Diff:
    """The difference of two texts."""
    return compare_lines(tuple(old.split("\n")), tuple(new.split("\n")))


def compare_lines(old: tuple[str, ...], new: tuple[str, ...]) -> Diff:
    """The difference of two texts that are split into lines already."""
    edits = edits_between(old, new)
    hunks = tuple(edit for edit in edits if not edit.same)
    return Diff(old, new, edits, hunks, tuple(_pairs(old, new, hunks)))


def compare_sentences(old: str, new: str) -> Diff:
    """The difference of two texts by their sentences; one that was reworded is a change of its own."""
    old_before, left = _sentences(old)
    new_before, right = _sentences(new)
    edits = edits_between(
        [one + text for one, text in zip(old_before, left, strict=True)],
        [one + text for one, text in zip(new_before, right, strict=True)],
    )
    hunks = tuple(edit for edit in edits if not edit.same)
    pairs = tuple(_pairs(left, right, hunks))
    return Diff(left, right, edits, hunks, pairs, old_before, new_before).paired()


def _sentences(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stands before each sentence, and the sentences; a line without a full stop is one."""
    before: list[str] = []
    found: list[str] = []
    for line in text.split("\n"):
        blanks, start = "\n", 0
        for end in _SENTENCE_END.finditer(line):
            if _LIST_NUMBER.fullmatch(line, start, end.start()):
                continue
            before.append(blanks)
            found.append(line[start : end.start()])
            blanks, start = end[0], end.end()
        before.append(blanks)
        found.append(line[start:])
    return tuple(before), tuple(found)


def _pairs(old: Sequence[str], new: Sequence[str], hunks: Iterable[Edit]) -> Iterator[Span]:
    """Which old line became which new one."""
    budget = _PAIRED_CELLS
    for hunk in hunks:
        cells = hunk.old_size * hunk.new_size
        if not cells:
            continue
        left = old[hunk.old_start : hunk.old_end]
        right = new[hunk.new_start : hunk.new_end]
        if max(hunk.old_size, hunk.new_size) <= _PAIRED_LINES and cells <= budget:
            budget -= cells
            found: Iterable[Span] = _best_pairs(left, right)
        else:
            found = ((at, at) for at in range(min(len(left), len(right))) if _likeness(left[at], right[at]))
        yield from ((hunk.old_start + i, hunk.new_start + j) for i, j in found)


def _best_pairs(left: Sequence[str], right: Sequence[str]) -> list[Span]:
    """The pairs in order that have most in common."""
    shared = [[_likeness(one, other) for other in right] for one in left]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        row, below, alike = best[i], best[i + 1], shared[i]
        for j in range(len(right) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1], below[j + 1] + alike[j] if alike[j] else 0.0)
    pairs: list[Span] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if shared[i][j] and best[i][j] == best[i + 1][j + 1] + shared[i][j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


@lru_cache(maxsize=2_000)
def emphasis(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The characters that changed in a pair of lines, on each side; nothing when little is common."""
    left, right = _WORDS.findall(old), _WORDS.findall(new)
    if not left or not right or len(left) * len(right) > _WORD_CELLS:
        return (), ()
    numbers: dict[str, int] = {}
    ops = LCSseq.opcodes(
        [numbers.setdefault(word, len(numbers)) for word in left],
        [numbers.setdefault(word, len(numbers)) for word in right],
    )
    stay = [op for op in ops if op.tag == "equal"]
    common = sum(len(word) for op in stay for word in left[op.src_start : op.src_end] if not word.isspace())
    whole = max(sum(len(word) for word in words if not word.isspace()) for words in (left, right))
    if common < _COMMON * whole:
        return (), ()
    return (
        tuple(_changed(left, [(op.src_start, op.src_end) for op in stay])),
        tuple(_changed(right, [(op.dest_start, op.dest_end) for op in stay])),
    )


def _changed(words: Sequence[str], stay: Iterable[Span]) -> Iterator[Span]:
    """The characters outside the words that stay; blanks between two changed words are changed with them."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    changed: list[list[int]] = []
    start = 0
    for begin, end in (*stay, (len(words), len(words))):
        if start < begin:
            if changed and all(word.isspace() for word in words[changed[-1][1] : start]):
                changed[-1][1] = begin
            else:
                changed.append([start, begin])
        start = end
    return ((places[first], places[last]) for first, last in changed)


def unified_text(diff: Diff) -> Iterator[str]:
    """The lines of a unified diff, without file names, three unchanged lines around each change."""
    for group in _groups(diff.edits, 3):
        first, last = group[0], group[-1]
        yield (f"@@ -{_range(first.old_start, last.old_end)} +{_range(first.new_start, last.new_end)} @@")
        for edit in group:
            if edit.same:
                yield from (f" {line}" for line in diff.old[edit.old_start : edit.old_end])
                continue
            yield from (f"-{line}" for line in diff.old[edit.old_start : edit.old_end])
            yield from (f"+{line}" for line in diff.new[edit.new_start : edit.new_end])


def _range(start: int, end: int) -> str:
    size = end - start
    return f"{start + 1}" if size == 1 else f"{start + (size > 0)},{size}"


def _groups(edits: Sequence[Edit], context: int) -> Iterator[list[Edit]]:
    """Changes with their surroundings; two that are no further apart than twice *context* share a group."""
    group: list[Edit] = []
    for number, edit in enumerate(edits):
        if not edit.same:
            group.append(edit)
            continue
        ends_group = bool(group)
        begins_group = number + 1 < len(edits)
        if ends_group and begins_group and edit.old_size <= 2 * context:
            group.append(edit)
            continue
        if ends_group:
            size = min(context, edit.old_size)
            if size:
                group.append(
                    Edit(True, edit.old_start, edit.old_start + size, edit.new_start, edit.new_start + size)
                )
            yield group
            group = []
        if begins_group:
            size = min(context, edit.old_size)
            if size:
                group.append(Edit(True, edit.old_end - size, edit.old_end, edit.new_end - size, edit.new_end))
    if any(not edit.same for edit in group):
        yield group


# -- which lines two texts share ---------------------------------------------------------------------------


#: Pairs of lines that one comparison may weigh: 5,000 by 5,000 lines take 5 ms.
_CELLS: Final = 25_000_000
#: What does not fit there is still compared whole up to this size (50 MB of memory) ...
_WHOLE_CELLS: Final = 16 * _CELLS
#: ... then by the distance that needs little memory, and beyond 50,000 by 50,000 lines not at all.
_MOST_CELLS: Final = 2_500_000_000
#: Two lines with less in common (percent) are two lines, and none that was changed.
_ALIKE: Final = 45.0
#: Characters of a line by which likeness is judged.
_JUDGED: Final = 600


class Edit(Record, frozen=True):
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


def _likeness(one: str, other: str) -> float:
    """How alike two lines are, in percent; 0 below `_ALIKE`."""
    return fuzz.ratio(one[:_JUDGED], other[:_JUDGED], score_cutoff=_ALIKE)


def edits_between(old: Sequence[str], new: Sequence[str]) -> tuple[Edit, ...]:
    """The edits that lead from *old* to *new*, cleaned up for reading."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    runs = _slid(_without_coincidences(_runs(a, b), old, new), new, old, a, b)
    return tuple(_edits(runs, len(a), len(b)))


class _Run(Struct):
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
    """Lines that occur once on each side, as many as keep their order (patience)."""
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
            and all(len(line) <= 2 or line.isspace() for line in old[run.old : end_old])
            and not _reworded(old[before_old : run.old], new[before_new : run.new])
            and not _reworded(old[end_old : following.old], new[end_new : following.new])
        )
        if not by_chance:
            kept.append(run)
    return kept


def _reworded(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one side of a change reads like the other, by its first lines."""
    if not old or not new:
        return False
    return _likeness("\n".join(old[:3]), "\n".join(new[:3])) >= _ALIKE


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
    """How naturally a block of lines is one: after an empty line, or ending with one."""
    ends = not lines[first + size - 1].strip()
    begins = first == 0 or not lines[first - 1].strip()
    return 2 * begins + ends
