"""The keys of several checkouts in turns: ``python -m benchmarks.turns DATABASE RUNS CHECKOUT...``.

Each checkout has its program in ``.venv/bin/lcm-tui``. A machine that others use slows all of them alike.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.keys import CODES
from benchmarks.terminal import Terminal, environment

_DOWN, _UP = CODES["down"], CODES["up"]
#: What is pressed one after the other, without being measured and measured.
_PLACES = {
    "list": ("", [_DOWN, _DOWN, _UP, _UP] * 10),
    "conversation": ("\r", [*[_UP] * 20, *[_DOWN] * 20]),
    "letters": ("/", ["e", "r", "\x7f", "\x7f"] * 10),
}
_QUIET, _OPENING, _LONGEST = 0.1, 1.5, 5.0


def measured(checkout: Path, database: Path, home: Path) -> dict[str, list[float]]:
    """Milliseconds until the first answer to each key, by place."""
    found: dict[str, list[float]] = {}
    command = [str(checkout / ".venv/bin/lcm-tui"), "--db", str(database)]
    with Terminal(command, environment(home)) as terminal:
        terminal.collect(quiet=2 * _OPENING, longest=2 * _LONGEST)
        for place, (opened_by, keys) in _PLACES.items():
            if opened_by:
                terminal.send(opened_by)
                terminal.collect(quiet=_OPENING, longest=_LONGEST)
            times = found[place] = []
            for key in keys:
                sent = terminal.send(key)
                chunks = terminal.collect(quiet=_QUIET, longest=_LONGEST)
                if chunks:
                    times.append((chunks[0].at - sent) * 1000)
    return found


def main(database: str, runs: str, checkouts: Sequence[str]) -> None:
    """Print the medians over all runs of a checkout's p50 and p95."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(database, folder))
        all_runs = [
            {each: measured(Path(each).resolve(), copy, Path(folder)) for each in checkouts}
            for _ in range(int(runs))
        ]
    for place in _PLACES:
        for each in checkouts:
            cuts = [statistics.quantiles(run[each][place], n=20) for run in all_runs]
            p50, p95 = (statistics.median(cut[at] for cut in cuts) for at in (9, 18))
            print(f"{place:12} p50 {p50:5.1f} ms  p95 {p95:5.1f} ms  {each}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
