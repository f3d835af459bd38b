"""``python -m benchmarks``: make the databases, measure the program on them, print a table, judge it.

Exit code 0 when every bar is met, 1 when one is missed, 2 when a measurement could not be made.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import plain_sqlite, report
from benchmarks.generate import FOLDER, database
from benchmarks.measure import Program, Session, Starts, live_session, session, starts, warm
from benchmarks.shapes import DEEP_CONVERSATION, MANY_CONVERSATIONS, TINY, Shape
from benchmarks.terminal import ProgramError

_SHAPES = {shape.name: shape for shape in (MANY_CONVERSATIONS, DEEP_CONVERSATION, TINY)}
_BYTES_PER_MESSAGE = 4_300


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    shapes: tuple[Shape, ...]
    large: int | None
    runs: int
    rounds: int
    live: bool
    keep_large: bool
    program: tuple[str, ...]
    markdown: Path | None


def main() -> int:
    """Run the benchmark."""
    options = _options()
    rows: list[report.Row] = []
    by_shape: dict[str, Starts] = {}
    with tempfile.TemporaryDirectory() as home:
        program = Program(options.program, Path(home))
        try:
            for shape in options.shapes:
                by_shape[shape.name] = _measure(program, shape, options, rows)
            if options.large is not None:
                small = by_shape[MANY_CONVERSATIONS.name]
                rows += _measure_large(program, options.large, small, options)
        except ProgramError as error:
            print(f"cannot measure: {error}", file=sys.stderr)
            return 2
    print("\n" + _machine() + "\n\n" + report.plain(rows))
    if options.markdown:
        options.markdown.write_text(f"{_machine()}\n\n{report.markdown(rows)}\n")
    missed = sum(row.passed is False for row in rows)
    print(f"\n{missed} of {sum(row.passed is not None for row in rows)} bars missed")
    return int(missed > 0)


def _measure(program: Program, shape: Shape, options: Options, rows: list[report.Row]) -> Starts:
    path = _made(shape)
    name = f"({shape.name})"
    _say(f"{name} starting the program and a minimal app in turns, {options.runs} times")
    started = starts(program, path, options.runs)
    rows += report.of_starts(name, started, plain_sqlite.times(path))
    _say(f"{name} pressing keys")
    quiet = session(program, path, options.rounds)
    rows += report.of_keys(name, quiet)
    rows += [report.of_memory(name, quiet), report.of_modules(name, quiet)]
    _details(quiet)
    if options.live:
        _say(f"{name} pressing keys while another process commits")
        busy = live_session(program, path, options.rounds, quiet.cursors)
        note = f" at {busy.commits_per_second:.0f} commits/s"
        rows += [*report.of_keys(name, busy, note), report.of_memory(name, busy, note)]
        _details(busy)
    return started


def _measure_large(program: Program, scale: int, small: Starts, options: Options) -> list[report.Row]:
    """Only the comparison with the smaller database has bars; the rest is for information."""
    shape = MANY_CONVERSATIONS.scaled(scale)
    if (free := shutil.disk_usage(FOLDER).free) < 1.5 * _BYTES_PER_MESSAGE * shape.messages:
        raise ProgramError(f"the larger database does not fit: {free / 1e9:.0f} GB are free; try --scale 2")
    path = _made(shape)
    try:
        started = starts(program, path, options.runs)
        name = f"({shape.name})"
        quiet = session(program, path, options.rounds)
        known = report.of_starts(name, started, plain_sqlite.times(path))
        known += [*report.of_keys(name, quiet), report.of_memory(name, quiet)]
        rows = [row.without_bar() for row in known] + report.of_scale(small, started, name)
    finally:
        if not options.keep_large:
            path.unlink()
    return rows


def _made(shape: Shape) -> Path:
    start = time.perf_counter()
    path = database(shape)
    warm(path)
    _say(f"({shape.name}) {path} {path.stat().st_size / 1e6:.0f} MB in {time.perf_counter() - start:.0f} s")
    return path


def _details(measured: Session) -> None:
    for line in report.slowest_keys(measured)[:4]:
        _say(f"    {line}")


def _machine() -> str:
    return (
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"{time.strftime('%Y-%m-%d')}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", default="a,b", help="databases, of a, b and tiny (default: a,b)")
    parser.add_argument("--large", action="store_true", help="also a database that is --scale times (a)")
    parser.add_argument("--scale", type=int, default=10, help="how much larger (default: 10, about 10 GB)")
    parser.add_argument("--keep-large", action="store_true", help="do not remove the large database")
    parser.add_argument(
        "--runs",
        type=int,
        default=6,
        help="starts of each program (default: 6); in a multiple of 3 each view is as often the first opened",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="rounds of 22 keys in each view, of 30 letters in a filter (default: 5)",
    )
    parser.add_argument("--no-live", action="store_true", help="leave out the keys under a writing process")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    parser.add_argument(
        "--program", default=str(Path(sys.executable).parent / "lcm-tui"), help="what is measured"
    )
    given = parser.parse_args()
    names = [name for name in given.shapes.split(",") if name]
    if unknown := [name for name in names if name not in _SHAPES]:
        parser.error(f"no such shape: {', '.join(unknown)}")
    if given.large and MANY_CONVERSATIONS.name not in names:
        parser.error("--large is compared with a: name it in --shapes")
    return Options(
        shapes=tuple(_SHAPES[name] for name in names),
        large=given.scale if given.large else None,
        runs=given.runs,
        rounds=given.rounds,
        live=not given.no_live,
        keep_large=given.keep_large,
        program=tuple(given.program.split()),
        markdown=given.markdown,
    )


if __name__ == "__main__":
    raise SystemExit(main())
