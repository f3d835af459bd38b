"""The measurements: each starts the real program on a database and returns plain numbers."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import minimal_app
from benchmarks.generate import LARGEST
from benchmarks.keys import CODES, Cursor, KeyTime, learn_cursor, rounds, typed, unfold
from benchmarks.screen import Screen
from benchmarks.terminal import ProgramError, Terminal, environment
from benchmarks.views import BACK, ESCAPE, FILTER, LIST, OPENED, QUIT, View, proof

COMMITS_PER_SECOND = 20
_ROOT = Path(__file__).parent.parent
_QUIET = 0.06  #: seconds without output after which a key's answer counts as complete
_UNFOLDED = 12
_ECHOED = 60
_MINIMAL = (sys.executable, str(Path(minimal_app.__file__)))
_ECHO = """import os, tty
tty.setraw(0)
os.write(1, b"ready")
while True:
    os.write(1, os.read(0, 100))
"""
_MODULES_HOOK = """import atexit, json, sys
atexit.register(lambda: open({path!r}, "w").write(json.dumps(sorted(sys.modules))))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What is measured, and the empty folder that is its home."""

    command: tuple[str, ...]
    home: Path

    def on(self, database: Path) -> tuple[str, ...]:
        """The command that shows *database*."""
        return (*self.command, "--db", str(database))


@dataclass(slots=True)
class Starts:
    """Seconds, one value per run."""

    minimal: list[float] = field(default_factory=list)
    minimal_opened: list[float] = field(default_factory=list)  #: until a second screen of it has rows
    program: list[float] = field(default_factory=list)
    opened: dict[str, list[float]] = field(default_factory=dict)  #: by view, in a fresh process each


@dataclass(slots=True)
class Least:
    """What a minimal Textual app needs for the same, in the same run."""

    keys: list[KeyTime] = field(default_factory=list)
    typed: list[float] = field(default_factory=list)  #: s


@dataclass(slots=True)
class Session:
    """One long run of the program."""

    keys: dict[str, list[KeyTime]] = field(default_factory=dict)  #: by view
    typed: list[float] = field(default_factory=list)  #: s, of letters of a filter
    least: Least = field(default_factory=Least)
    echo: list[float] = field(default_factory=list)  #: s, of keys echoed by a bare process beforehand
    cursors: dict[str, Cursor] = field(default_factory=dict)  #: by view
    resident: float = 0.0  #: MB at the end
    highest: float = 0.0  #: MB
    modules: frozenset[str] = frozenset()  #: names imported when it ended; empty when not recorded
    commits_per_second: float = 0.0  #: what the other process really did


def warm(path: Path) -> None:
    """Bring the file into the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def starts(program: Program, database: Path, runs: int) -> Starts:
    """First rows of the program and of a minimal app, in turns; then each view opened for the first time."""
    result = Starts()
    listed = proof(LIST, database)
    proofs = {view.name: proof(view, database) for view in OPENED}
    _minimal_start(program)  # once for the bytecode caches
    for run in range(runs):
        first, opened = _minimal_start(program)
        result.minimal.append(first)
        result.minimal_opened.append(opened)
        with Terminal(program.on(database), environment(program.home)) as terminal:
            result.program.append(terminal.wait(listed, LIST.name) - terminal.started)
            terminal.settle()
            for place in range(len(OPENED)):
                view = OPENED[(run + place) % len(OPENED)]
                at = terminal.send(view.key)
                shown = terminal.wait(proofs[view.name], view.name)
                result.opened.setdefault(view.name, []).append(shown - at)
                _leave(terminal, listed)
            terminal.finish(QUIT)
    return result


def session(program: Program, database: Path, count: int) -> Session:
    """The keys of a round in every view, then memory and imported modules."""
    result = Session()
    modules, hook = program.home / "modules.json", program.home / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(_MODULES_HOOK.format(path=str(modules)))
    modules.unlink(missing_ok=True)
    with Terminal(program.on(database), environment(program.home, PYTHONPATH=str(hook))) as terminal:
        _walk(terminal, database, count, result)
        result.resident, result.highest = terminal.memory()
        terminal.finish(QUIT)
    result.echo = _echo(program)
    result.least = least(program, count)
    if modules.exists():
        result.modules = frozenset(json.loads(modules.read_text()))
    return result


def live_session(program: Program, database: Path, count: int, cursors: dict[str, Cursor]) -> Session:
    """The same on a copy to which another process commits; the copy is removed.

    *cursors* are those of a session on the quiet file: here rows light up that no key has touched.
    """
    result = Session(cursors=dict(cursors))
    copy = database.with_suffix(".live.db")
    try:
        shutil.copyfile(database, copy)
        with _writer(copy, result):
            result.echo = _echo(program)
            result.least = least(program, count)
            with Terminal(program.on(copy), environment(program.home)) as terminal:
                _walk(terminal, database, count, result)
                result.resident, result.highest = terminal.memory()
                terminal.finish(QUIT)
    finally:
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    return result


def least(program: Program, count: int) -> Least:
    """The keys of a round and the letters of a minimal app."""
    result = Least()
    with Terminal(_MINIMAL, environment(program.home)) as terminal:
        terminal.wait(_minimal_shown, "minimal app")
        terminal.settle()
        cursor = learn_cursor(terminal)
        if cursor is None:
            raise ProgramError(f"the minimal app shows no cursor\n{terminal.screen.text()}")
        result.keys = rounds(terminal, cursor.signature, count, quiet=_QUIET)
        terminal.send(minimal_app.TYPE)
        terminal.settle()
        result.typed = typed(terminal, count, quiet=_QUIET)
    return result


def _minimal_shown(screen: Screen) -> bool:
    return minimal_app.FIRST_ROW in screen.text()


def _minimal_start(program: Program) -> tuple[float, float]:
    """Until the first rows are there, and from a key until a second screen has some."""

    def second(screen: Screen) -> bool:
        return minimal_app.SECOND_SCREEN in screen.text()

    with Terminal(_MINIMAL, environment(program.home)) as terminal:
        first = terminal.wait(_minimal_shown, "minimal app") - terminal.started
        terminal.settle()
        at = terminal.send(minimal_app.OPEN)
        opened = terminal.wait(second, "second screen") - at
        terminal.finish(QUIT)
    return first, opened


def _echo(program: Program) -> list[float]:
    """How fast keys come back from a process that does nothing else: the noise of machine and harness."""
    rng, times = random.Random(3), []
    with Terminal((sys.executable, "-c", _ECHO), environment(program.home)) as terminal:
        terminal.wait(lambda screen: "ready" in screen.line(0), "echo")
        for _ in range(_ECHOED):
            time.sleep(rng.uniform(0.005, 0.06))
            at = terminal.send("x")
            times += [chunk.at - at for chunk in terminal.collect(quiet=0.02, longest=0.5)[:1]]
    return times


def _walk(terminal: Terminal, database: Path, count: int, result: Session) -> None:
    """Press keys in every view; cursors that *result* does not know are learned, on a quiet file."""
    terminal.wait(proof(LIST, database), LIST.name)
    terminal.settle()
    if conversations(database) > 1:
        result.keys[LIST.name] = _press_all(terminal, LIST, count, result)
        terminal.send(FILTER)
        terminal.settle(quiet=0.5, longest=5.0)
        result.typed = typed(terminal, count, quiet=_QUIET)
        terminal.send(ESCAPE)
        terminal.settle(quiet=0.5, longest=5.0)
    _home(terminal)
    for view in OPENED:
        terminal.send(view.key)
        terminal.wait(view.titled, view.name)
        terminal.settle()
        result.keys[view.name] = _press_all(terminal, view, count, result)
        _leave(terminal, LIST.titled)


def _press_all(terminal: Terminal, view: View, count: int, result: Session) -> list[KeyTime]:
    if view.unfold_all:
        # From the last row upwards, so that all are rows of the folded list.
        for key in (CODES["end"], *(view.unfold_all, CODES["up"]) * _UNFOLDED):
            _send(terminal, key)
    cursor = result.cursors.get(view.name) or learn_cursor(terminal)
    if cursor is None:
        raise ProgramError(f"{view.name}: no row stands out as the selected one\n{terminal.screen.text()}")
    result.cursors[view.name] = cursor
    times = rounds(terminal, cursor.signature, count, quiet=_QUIET)
    if view.unfold:
        _send(terminal, view.fold_all)
        times += unfold(terminal, view.unfold, cursor.signature, _UNFOLDED, quiet=_QUIET)
    return times


def _send(terminal: Terminal, key: str) -> None:
    """A key of which nothing is measured, and everything that follows it on the screen."""
    terminal.send(key)
    terminal.settle(quiet=0.15, longest=2.0)


def conversations(database: Path) -> int:
    """How many conversations the database has."""
    connection = sqlite3.connect(f"{database.resolve().as_uri()}?immutable=1", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM conversations").fetchone()[0])
    finally:
        connection.close()


def _home(terminal: Terminal) -> None:
    terminal.send("\x1b[H")
    terminal.settle()


def _leave(terminal: Terminal, listed: Callable[[Screen], bool]) -> None:
    terminal.send(BACK)
    terminal.wait(listed, "back to the conversation list")
    terminal.settle()


@contextmanager
def _writer(database: Path, result: Session) -> Iterator[None]:
    command = (
        sys.executable,
        "-m",
        "benchmarks.writer",
        str(database),
        str(LARGEST),
        str(COMMITS_PER_SECOND),
    )
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(1.0)
        yield
    finally:
        try:
            printed, _ = process.communicate("stop\n", timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    seconds = time.perf_counter() - started
    result.commits_per_second = int(printed or 0) / seconds
