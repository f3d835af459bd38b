"""``python -m benchmarks.diff``: our line diff beside difflib's, in time and in lines that it calls changed.

For information, without bars: the shares matter, not this machine's milliseconds.
"""

from __future__ import annotations

import difflib
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from lcm_core.base.diff import compare_lines, edits_between

T = TypeVar("T")
_SIZES = (200, 2_000, 5_000, 20_000)
_EDITED = (0.01, 0.2, 1.0)  #: share of lines; 1 means that the texts have nothing to do with each other
_LARGEST_FOR_DIFFLIB = 5_000
_WORDS = ("the", "context", "was", "compacted", "before", "a", "message", "with", "summary", "left", "port")
_SEED = 20_261_121


def main() -> None:
    """Print one line for each pair of texts."""
    chooser = random.Random(_SEED)
    print("  lines  edited  lines alone   whole diff      difflib  changed  difflib")
    for size in _SIZES:
        for share in _EDITED:
            old = [_line(chooser) for _ in range(size)]
            new = _edited(old, share, chooser)
            edits, ours = _timed(partial(edits_between, old, new))
            _, whole = _timed(partial(compare_lines, tuple(old), tuple(new)))
            count = sum(edit.old_size + edit.new_size for edit in edits if not edit.same)
            theirs, other = ("-", "-")
            if size <= _LARGEST_FOR_DIFFLIB:
                ops, taken = _timed(partial(_difflib, old, new))
                theirs, other = f"{taken * 1e3:.1f}", str(ops)
            print(
                f"{size:>7} {share:>6.0%} {ours * 1e3:>9.1f} ms {whole * 1e3:>9.1f} ms {theirs:>9} ms "
                f"{count:>8} {other:>8}"
            )


def _difflib(old: Sequence[str], new: Sequence[str]) -> int:
    ops = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(i2 - i1 + j2 - j1 for tag, i1, i2, j1, j2 in ops if tag != "equal")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _line(chooser: random.Random) -> str:
    if chooser.random() < 0.1:
        return ""
    return " ".join(chooser.choice(_WORDS) for _ in range(12)) + f" {chooser.randrange(10_000)}"


def _edited(old: Sequence[str], share: float, chooser: random.Random) -> list[str]:
    if share == 1.0:
        return [_line(chooser) for _ in old]
    new: list[str] = []
    for line in old:
        kind = chooser.random() / share
        if kind < 1 / 3:
            continue  # removed
        if kind < 2 / 3:
            new.append(f"{line} and more")
            continue
        if kind < 1:
            new.append(_line(chooser))
        new.append(line)
    return new


if __name__ == "__main__":
    main()
