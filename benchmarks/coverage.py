"""How long until the coverage map of a large conversation is drawn, by the real program in a pseudo-terminal.

``python -m benchmarks.coverage [--shapes b,a] [--runs 5] [--program COMMAND]`` opens the summary DAG of the
largest conversation, where the map is folded away, presses `m`, and waits for the rows of the depths with
their counts, then for the row of the context, which is drawn together with all blocks. Printed are the least
and the middle of the runs, in milliseconds, beside what a minimal Textual app needs for a second screen
in the same run, and how long one arrow key takes on the map.
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import minimal_app
from benchmarks.generate import FOLDER, database
from benchmarks.measure import warm
from benchmarks.screen import Screen
from benchmarks.shapes import DEEP_CONVERSATION, MANY_CONVERSATIONS, TINY
from benchmarks.terminal import Terminal, environment
from benchmarks.views import LIST, OPENED, proof

SHAPES = {shape.name: shape for shape in (MANY_CONVERSATIONS, DEEP_CONVERSATION, TINY)}
LEFT = "\x1b[D"


def main() -> None:
    """Measure each shape named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage")
    parser.add_argument("--shapes", default="b,a")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--program", default=f"{sys.executable} -m lcm_tui")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    for name in given.shapes.split(","):
        path = database(SHAPES[name], given.folder)
        warm(path)
        figures: dict[str, list[float]] = {}
        for _ in range(given.runs):
            with tempfile.TemporaryDirectory() as home:
                _minimal(Path(home), figures)
                _program(shlex.split(given.program), path, Path(home), figures)
        for what, seconds in figures.items():
            least, middle = min(seconds) * 1_000, statistics.median(seconds) * 1_000
            print(f"({name}) {what:24} least {least:6.0f}  middle {middle:6.0f} ms", flush=True)


def _minimal(home: Path, figures: dict[str, list[float]]) -> None:
    with Terminal((sys.executable, str(Path(minimal_app.__file__))), environment(home)) as terminal:
        terminal.wait(lambda screen: minimal_app.FIRST_ROW in screen.text(), "minimal app")
        terminal.settle()
        at = terminal.send(minimal_app.OPEN)
        shown = terminal.wait(lambda screen: minimal_app.SECOND_SCREEN in screen.text(), "second screen")
        figures.setdefault("minimal second screen", []).append(shown - at)


def _program(command: list[str], path: Path, home: Path, figures: dict[str, list[float]]) -> None:
    tree = next(view for view in OPENED if view.key == "s")
    with Terminal((*command, "--db", str(path)), environment(home)) as terminal:
        terminal.wait(proof(LIST, path), LIST.name)
        terminal.settle()
        terminal.send("s")
        terminal.wait(proof(tree, path), tree.name)
        terminal.settle(quiet=1.0, longest=10.0)
        terminal.send("m")
        terminal.settle()
        terminal.send("\x1b")
        terminal.wait(proof(LIST, path), LIST.name)
        terminal.send("s")
        terminal.wait(proof(tree, path), tree.name)
        terminal.settle(quiet=1.0, longest=10.0)
        at = terminal.send("m")
        rows = terminal.wait(_counted, "rows")
        blocks = rows if _drawn(terminal.screen) else terminal.wait(_drawn, "blocks")
        figures.setdefault("map, its rows", []).append(rows - at)
        figures.setdefault("map, its blocks", []).append(blocks - at)
        terminal.settle(quiet=1.0, longest=10.0)
        before = terminal.screen.state()
        at = terminal.send(LEFT)
        moved = terminal.wait(lambda screen: screen.state() != before, "arrow")
        figures.setdefault("arrow", []).append(moved - at)


def _counted(screen: Screen) -> bool:
    """The first paint: each depth, and how many summaries it has."""
    return "Summary DAG" in screen.line(0) and bool(re.search(r"\nleaf +[\d,]+\s", screen.text()))


def _drawn(screen: Screen) -> bool:
    text = screen.text()
    return "Summary DAG" in screen.line(0) and "\ncontext " in text and " in the context " in text


if __name__ == "__main__":
    main()
