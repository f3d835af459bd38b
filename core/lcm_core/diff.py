"""The difference of two texts as it is shown, and the text that any choice of its changes gives.

Lines are what stands between ``\\n``; joining them gives the text back, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from rapidfuzz.distance import LCSseq

from lcm_core.line_edits import Edit, likeness, line_edits

#: Lines of a change that are paired by likeness, and what all pairing of one diff may cost.
_PAIRED_LINES: Final = 60
_PAIRED_CELLS: Final = 20_000
#: Words are compared in pairs of lines up to this many pairs of words, and marked when so much is common.
_WORD_CELLS: Final = 16_000_000
_COMMON: Final = 0.5

_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_MARKS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u200d\ufe0f"
_WORDS: Final = re.compile(rf"[{_IDEOGRAPHS}]|(?:[^\W{_IDEOGRAPHS}]|[{_MARKS}])+|\s+|.")

Span = tuple[int, int]  #: from the first to before the second


class Mark(StrEnum):
    """What stands before a line, besides any colour."""

    SAME = " "
    GONE = "-"
    ADDED = "+"
    CHANGED = "~"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a diff: a line of the old text, of the new one, or of both. Lines are numbered from 0."""

    old: int | None
    new: int | None
    hunk: int | None  #: the hunk that it belongs to; None: the same in both
    mark: Mark


@dataclass(frozen=True, slots=True)
class Diff:
    """Two texts and the edits from one to the other; a *hunk* is one edit that changes something."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    edits: tuple[Edit, ...]  #: in order, without gaps; only the pieces of a split hunk follow each other
    hunks: tuple[Edit, ...]
    pairs: tuple[Span, ...]  #: line of the old text, line of the new one that it became; in order

    def text(self, left: Collection[int] = ()) -> str:
        """The new text, in which the hunks numbered in *left* stay as they were."""
        lines: list[str] = []
        number = 0
        for edit in self.edits:
            keep = edit.same
            if not edit.same:
                keep, number = number in left, number + 1
            lines += (
                self.old[edit.old_start : edit.old_end] if keep else self.new[edit.new_start : edit.new_end]
            )
        return "\n".join(lines)

    def unified(self) -> Iterator[Row]:
        """Rows one under the other: of a hunk first the old lines, then the new ones."""
        number = 0
        for edit in self.edits:
            if edit.same:
                yield from _same_rows(edit)
                continue
            for old in range(edit.old_start, edit.old_end):
                yield Row(old, None, number, Mark.GONE)
            for new in range(edit.new_start, edit.new_end):
                yield Row(None, new, number, Mark.ADDED)
            number += 1

    def side_by_side(self) -> Iterator[Row]:
        """Rows with the old line and the line that it became in one row; a line without one stands alone."""
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
                    yield Row(old, None, number, Mark.GONE)
                    continue
                yield from (Row(None, lone, number, Mark.ADDED) for lone in range(new, mate))
                yield Row(old, mate, number, Mark.CHANGED)
                new = mate + 1
            yield from (Row(None, lone, number, Mark.ADDED) for lone in range(new, edit.new_end))
            number += 1

    def split(self, hunk: int) -> Diff:
        """The same diff with one hunk in pieces: each line that became another, went or came by itself."""
        whole = self.hunks[hunk]
        pieces = tuple(self._pieces(whole))
        at = self.edits.index(whole)
        edits = (*self.edits[:at], *pieces, *self.edits[at + 1 :])
        return Diff(self.old, self.new, edits, tuple(edit for edit in edits if not edit.same), self.pairs)

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


def _same_rows(edit: Edit) -> Iterator[Row]:
    shift = edit.new_start - edit.old_start
    return (Row(old, old + shift, None, Mark.SAME) for old in range(edit.old_start, edit.old_end))


def compare(old: str, new: str) -> Diff:
    """The difference of two texts."""
    return compare_lines(tuple(old.split("\n")), tuple(new.split("\n")))


def compare_lines(old: tuple[str, ...], new: tuple[str, ...]) -> Diff:
    """The difference of two texts that are split into lines already."""
    edits = line_edits(old, new)
    hunks = tuple(edit for edit in edits if not edit.same)
    return Diff(old, new, edits, hunks, tuple(_pairs(old, new, hunks)))


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
            found = ((at, at) for at in range(min(len(left), len(right))) if likeness(left[at], right[at]))
        yield from ((hunk.old_start + i, hunk.new_start + j) for i, j in found)


def _best_pairs(left: Sequence[str], right: Sequence[str]) -> list[Span]:
    """The pairs in order that have most in common."""
    shared = [[likeness(one, other) for other in right] for one in left]
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


def unified_text(diff: Diff, *, context: int = 3) -> Iterator[str]:
    """The lines of a unified diff, without file names, *context* unchanged lines around each change."""
    for group in _groups(diff.edits, context):
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
