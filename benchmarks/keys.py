"""How long a key takes to be answered, judged by the cursor that it moves."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from benchmarks.screen import Screen
from benchmarks.terminal import Chunk, Terminal

CODES = {
    "down": "\x1b[B",
    "up": "\x1b[A",
    "page down": "\x1b[6~",
    "page up": "\x1b[5~",
    "home": "\x1b[H",
    "end": "\x1b[F",
}
#: Every key of this round has somewhere to go in a list of three pages or more.
ROUND = (
    "home", "down", "down", "down", "up", "down", "page down", "down", "page down", "up", "page up",
    "down", "down", "end", "up", "up", "page up", "page up", "up", "page down", "down", "up",
)  # fmt: skip
_TEXT = 30  #: characters by which a row is known again; what stands behind them may be counted up by a writer
_PATIENCE = 1.0  #: a key that changed nothing after so many seconds had nothing to do, or failed

Signature = Callable[[Screen], Hashable]


@dataclass(frozen=True, slots=True)
class KeyTime:
    """One key press; all times in seconds after the key was written, None when nothing changed."""

    key: str
    answered: float | None  #: until the frame that shows the effect was complete
    first: float | None  #: until the first output of any kind
    settled: float | None  #: until the last output before a pause


@dataclass(frozen=True, slots=True)
class Cursor:
    """The column and the background by which the selected row is told from the others."""

    column: int
    background: str

    def rows(self, screen: Screen) -> range:
        """The lines of the selected row; none while no run of lines, or more than one, looks like it."""
        painted = [y for y in range(screen.rows) if screen.backgrounds(y)[self.column] == self.background]
        run = range(painted[0], painted[-1] + 1) if painted else range(0)
        return run if len(run) == len(painted) else range(0)

    def signature(self, screen: Screen) -> Hashable:
        """Where the cursor is and on what, None when that cannot be told."""
        rows = self.rows(screen)
        return (rows[0], screen.line(rows[0])[:_TEXT]) if rows else None


def everything(screen: Screen) -> Hashable:
    """A signature that changes with any visible cell."""
    return screen.state()


def learn_cursor(terminal: Terminal) -> Cursor | None:
    """Find out how this screen shows its cursor, by moving it; None when no run of lines stands out.

    Of all backgrounds that followed the key in one column, the one on the fewest lines is the cursor's.
    """
    screen = terminal.screen
    for key in ("down", "up"):
        candidates = {
            Cursor(column, background)
            for y in range(screen.rows)
            for column, background in enumerate(screen.backgrounds(y))
        }
        before = {cursor: cursor.signature(screen) for cursor in candidates if cursor.background}
        terminal.send(CODES[key])
        terminal.settle()
        moved = [
            (len(cursor.rows(screen)), cursor.column, cursor.background)
            for cursor, signature in before.items()
            if signature is not None and cursor.signature(screen) not in (None, signature)
        ]
        if moved:
            return Cursor(*min(moved)[1:])
    return None


def press(terminal: Terminal, name: str, code: str, signature: Signature, *, quiet: float) -> KeyTime:
    """Press one key and wait for its answer."""
    before = signature(terminal.screen)
    at = terminal.send(code)
    chunks: list[Chunk] = []
    answered: float | None = None
    while answered is None and time.perf_counter() - at < _PATIENCE:
        more = terminal.collect(quiet=quiet, longest=2.5 * quiet)
        chunks += more
        answered = _answer(terminal, more, before, signature)
    first, settled = (chunks[0].at - at, chunks[-1].at - at) if chunks else (None, None)
    return KeyTime(name, None if answered is None else answered - at, first, settled)


def _answer(
    terminal: Terminal, chunks: Sequence[Chunk], before: Hashable, signature: Signature
) -> float | None:
    """When the first frame in which the signature differs was complete; all *chunks* are interpreted."""
    screen, answered, changed_in = terminal.screen, None, None
    delimited = screen.frames > 0
    for chunk in chunks:
        frames = screen.frames
        screen.feed(chunk.data)
        if answered is not None:
            continue
        if changed_in is None and (now := signature(screen)) is not None and now != before:
            changed_in = frames
        if changed_in is not None and (not delimited or screen.frames > changed_in):
            answered = chunk.at
    if answered is None and changed_in is not None:
        answered = chunks[-1].at
    return answered


def rounds(terminal: Terminal, signature: Signature, count: int, *, quiet: float) -> list[KeyTime]:
    """Press the keys of a round *count* times, irregularly, so that no timer of the app keeps step."""
    rng = random.Random(7)
    times = []
    for _ in range(count):
        for name in ROUND:
            time.sleep(rng.uniform(0.005, 0.06))
            terminal.settle(quiet=0.005, longest=0.03)
            times.append(press(terminal, name, CODES[name], signature, quiet=quiet))
    return times[1:]  # the first home may have nowhere to go


#: Letters of the session keys, and what takes them away again.
_WORD = "agent"
_ERASE = "\x7f"
#: How often it is typed in a round: the 95th percentile of ten letters would be the slowest one.
_WORDS = 3
#: Characters of a line that hold the id of its row.
_BEGINNING = 8


def typed(terminal: Terminal, count: int, *, quiet: float) -> list[float]:
    """Type a word into the input that has the keys and erase it, three times in each of *count* rounds.

    Seconds until the letter and the rows that are listed by it were drawn; what is read of the rows and
    drawn later does not count.
    """
    rng = random.Random(11)
    times = []
    for _ in range(count * _WORDS):
        for letter in (*_WORD, *(_ERASE for _ in _WORD)):
            time.sleep(rng.uniform(0.02, 0.08))
            terminal.settle(quiet=0.005, longest=0.03)
            before, at, drawn = _listed(terminal.screen), terminal.send(letter), None
            for chunk in terminal.collect(quiet=quiet, longest=5 * quiet):
                terminal.feed([chunk])
                if (now := _listed(terminal.screen)) != before:
                    before, drawn = now, chunk.at
            if drawn is not None:
                times.append(drawn - at)
    return times


def _listed(screen: Screen) -> Hashable:
    """The beginnings of all lines, where ids and what is typed stand."""
    return tuple(screen.line(y)[:_BEGINNING] for y in range(1, screen.rows))


def unfold(terminal: Terminal, code: str, cursor: Signature, count: int, *, quiet: float) -> list[KeyTime]:
    """Unfold up to *count* rows, from the last one upwards so that all are rows of the folded list."""
    times: list[KeyTime] = []
    place = None
    terminal.send(CODES["end"])
    terminal.settle()
    while len(times) < count and (now := cursor(terminal.screen)) != place:
        place = now
        times.append(press(terminal, "unfold", code, everything, quiet=quiet))
        terminal.settle()
        terminal.send(CODES["up"])
        terminal.settle()
    return times
