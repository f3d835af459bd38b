"""Processor time of the command line: ``python -m benchmarks.commands``.

Each command runs in a process of its own, a few times in turns with what it is compared with: a bare Python,
a server of the MCP SDK without tools, sqlite3's own checks. What counts is the least processor time of all
threads, so that a busy machine changes little. ``--large FILE`` adds commands on a database ten times (a),
``--sqlite-utils PROGRAM`` help and lists beside those of sqlite-utils, in an environment of its own.
Exit code 0: every bar is kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lcm_core.base.values import replace

from benchmarks import report
from benchmarks.generate import database
from benchmarks.measure import warm
from benchmarks.shapes import MANY_CONVERSATIONS, TINY
from benchmarks.terminal import environment

#: How often a command and what it is compared with run in turns, each as often as all others at a time.
_TURNS: Final = 5
_NOWHERE: Final = "reticulate"
_COMMON: Final = "config"
#: A tenth of (a), and many conversations of next to nothing.
_TENTH: Final = replace(
    MANY_CONVERSATIONS,
    name="tenth",
    conversations=76,
    messages=27_526,
    summaries=356,
    context_items=None,
    largest_messages=4_600,
    largest_tokens=2_000_000,
    largest_raw=100,
)
_CROWD: Final = replace(
    TINY, name="crowd", conversations=5_000, messages=24_000, summaries=60, context_items=None
)
_INITIALIZE: Final = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"benchmark","version":"1"}}}\n'
)
_BARE_SERVER: Final = (
    "import asyncio\nfrom mcp.server import Server\nfrom mcp.server.stdio import stdio_server\n"
    "async def main():\n    server = Server('bare')\n    async with stdio_server() as (read, write):\n"
    "        await server.run(read, write, server.create_initialization_options())\nasyncio.run(main())\n"
)
_CHECKS: Final = (
    "import sqlite3, sys\nconnection = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n"
    "connection.execute('PRAGMA quick_check').fetchall()\n"
    "connection.execute('PRAGMA foreign_key_check').fetchall()\n"
)


@dataclass(frozen=True, slots=True)
class Bench:
    """The program, where its files are, and how often each command runs."""

    program: str
    home: Path
    runs: int

    def least(self, *command: str, given: str | None = None) -> float:
        """Seconds of the processor of *command*, the least of all runs.

        *given* is written to it; then it is ended as soon as it has answered with a line.
        """
        return min(self._once(command, given) for _ in range(self.runs))

    def own(self, path: Path, *arguments: str) -> float:
        """Likewise for a command of the program, after it ran once and remembers what it worked out."""
        command = (self.program, "--db", str(path), *arguments)
        self._once(command, None)
        return self.least(*command)

    def anew(self, *command: str) -> float:
        """Likewise for a command of which nothing was kept from an earlier one."""
        seconds = []
        for _ in range(self.runs):
            shutil.rmtree(self.home)
            self.home.mkdir()
            seconds.append(self._once(command, None))
        return min(seconds)

    def _once(self, command: Sequence[str], given: str | None) -> float:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if given else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(self.home),
            text=True,
        )
        assert process.stdin is not None
        if given is not None:
            assert process.stdout is not None
            process.stdin.write(given)
            process.stdin.flush()
            process.stdout.readline()
        process.stdin.close()
        used = os.wait4(process.pid, 0)[2]
        process.returncode = 0
        if process.stdout is not None:
            process.stdout.close()
        return used.ru_utime + used.ru_stime


def _judged(name: str, measure: str, seconds: float, bar: float, compared: str = "") -> report.Row:
    return report.Row(name, measure, f"{seconds:.3f} s", f"{bar:g} s", compared, seconds <= bar)


def _ratio(name: str, measure: str, seconds: float, least: float, bar: float, what: str) -> report.Row:
    value = f"x {seconds / least:.2f}"
    compared = f"{seconds:.3f} s, {what} {least:.3f} s"
    return report.Row(name, measure, value, f"x {bar:g}", compared, seconds <= bar * least)


def starts(bench: Bench, tiny: Path) -> list[report.Row]:
    """What a command costs where there is next to nothing to read, and the start of the server for agents."""
    bare = bench.least(sys.executable, "-c", "import sqlite3")
    server = bench.least(sys.executable, "-c", _BARE_SERVER, given=_INITIALIZE)
    served = bench.least(bench.program, "--db", str(tiny), "mcp", given=_INITIALIZE)
    beside = f"python with sqlite3 {bare:.3f} s"
    return [
        report.Row("tiny", "--help", f"{bench.least(bench.program, '--help'):.3f} s", compared=beside),
        _judged("tiny", "conversations list", bench.own(tiny, "conversations", "list"), 0.2, beside),
        _judged("tiny", "mcp, initialized", served, 0.5, f"a server of the SDK without tools {server:.3f} s"),
    ]


#: Commands, and what sqlite-utils prints of the same rows; of the history, which is empty here, a single row.
_LISTS: Final = {
    ("--help",): ("--help",),
    ("conversations", "list"): ("rows", "conversations"),
    ("messages", "list", "1"): ("rows", "messages", "--limit", "50"),
    ("summaries", "list", "1"): ("rows", "summaries", "--limit", "50"),
    ("files", "1"): ("rows", "large_files"),
    ("history", "list"): ("rows", "context_items", "--limit", "1"),
}


def beside(bench: Bench, path: Path, other: str) -> list[report.Row]:
    """Help and lists, in turns with those of sqlite-utils: its table, of the same rows."""
    rows = []
    for ours, theirs in _LISTS.items():
        mine = (bench.program, *ours) if ours == theirs else (bench.program, *ours, "--db", str(path))
        table = (other, *theirs) if ours == theirs else (other, theirs[0], str(path), *theirs[1:], "-t")
        turns = [(bench.least(*mine), bench.least(*table)) for _ in range(_TURNS)]
        least, compared = (min(seconds) for seconds in zip(*turns, strict=True))
        rows.append(_ratio("tiny", " ".join(ours), least, compared, 1, "sqlite-utils"))
    return rows


def growth(bench: Bench, small: Path, path: Path, name: str) -> list[report.Row]:
    """What one page and one context of the largest conversation cost beside a smaller database."""
    rows = []
    page, before = (bench.own(each, "messages", "1") for each in (path, small))
    rows.append(_judged(name, "messages 1", page, round(before + 0.05, 3), f"smaller {before:.3f} s"))
    context, before = (bench.own(each, "context", "1", "--assembled") for each in (path, small))
    rows.append(_ratio(name, "context 1 --assembled", context, before, 2, "smaller"))
    return rows


def searches(bench: Bench, path: Path) -> list[report.Row]:
    """The searches that the engine's own full text answers."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("messages_fts", "summaries_fts"):
            if not connection.execute(f"SELECT 1 FROM {table}_docsize LIMIT 1").fetchone():
                _fill(bench, path)
                break
        begun = time.process_time()
        connection.execute(
            "SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rank LIMIT 20", (_COMMON,)
        ).fetchall()
        ranked = time.process_time() - begun
    nowhere = bench.own(path, "grep", _NOWHERE)
    common = bench.own(path, "grep", _COMMON, "--as-engine")
    return [
        _judged("a", "grep of a word that is nowhere", nowhere, 0.5),
        _judged("a", "grep --as-engine of a common word", common, 0.4, f"a ranked MATCH {ranked:.3f} s"),
    ]


def _fill(bench: Bench, path: Path) -> None:
    command = (bench.program, "--db", str(path), "reindex", "--apply", "--yes")
    subprocess.run(command, env=environment(bench.home), check=True, stdout=subprocess.DEVNULL)


def doctor(bench: Bench, path: Path, crowd: Path) -> list[report.Row]:
    """All checks: of (a) anew and with what is remembered, and of many small conversations."""
    checked = bench.least(sys.executable, "-c", _CHECKS, str(path))
    first = bench.anew(bench.program, "--db", str(path), "doctor", "--json")
    again = bench.own(path, "doctor", "--json")
    small = bench.anew(bench.program, "--db", str(crowd), "doctor", "--json")
    return [
        _ratio("a", "doctor, everything", first, checked, 5, "quick_check and foreign_key_check"),
        _ratio("a", "doctor, again", again, checked, 5, "quick_check and foreign_key_check"),
        _judged("crowd", "doctor", small, 2.0),
    ]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("lcm-tui")))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--large", type=Path, help="a database that is ten times (a)")
    parser.add_argument(
        "--sqlite-utils", metavar="PROGRAM", help="compare help and lists with this program's"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        bench = Bench(given.program, home, given.runs)
        path, full = Path(folder, "a.db"), Path(folder, "full.db")
        for copy in (path, full):
            shutil.copyfile(database(MANY_CONVERSATIONS), copy)
            warm(copy)
        time.sleep(0.1)  # a file that was written in this moment is not remembered
        rows = starts(bench, database(TINY))
        if given.sqlite_utils is not None:
            rows += beside(bench, database(TINY), given.sqlite_utils)
        rows += growth(bench, database(_TENTH), path, "a")
        rows += searches(bench, full)
        rows += doctor(bench, path, database(_CROWD))
        if given.large is not None:
            rows += growth(bench, path, given.large, "ten times a")
    print(report.plain(rows))
    return int(any(row.passed is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
