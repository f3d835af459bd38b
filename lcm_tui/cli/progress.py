"""How far a work has come: one line on standard error, drawn by rich; nothing where that is no terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lcm_core.base.text import safe_line

from lcm_tui.tables.blocks import bytes_text

if TYPE_CHECKING:
    from lcm_core.base.findings import Progress as CheckProgress
    from lcm_core.change.copying import CopyProgress
    from rich.progress import Progress

#: Work that takes longer than this says that it goes on, and goes on saying so as often.
SILENT_SECOND: Final = 1.0
#: It is drawn ten times a second at most.
_PAUSE_SECONDS: Final = 0.1
#: Checks that end before this many seconds have passed say nothing.
_SILENT_SECONDS: Final = 0.5


class ProgressLine:
    """A line that is drawn over itself and goes away."""

    def __init__(self, *, bar: bool = True, silent: float = 0.0) -> None:
        """*bar*: with a bar, a share and the time left; *silent*: seconds in which nothing is said."""
        self._on = sys.stderr.isatty()
        self._bar = bar
        self._begun = time.monotonic()
        self._silent = silent
        self._drawn = 0.0
        self._text = ""
        self._progress: Progress | None = None

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees it."""
        return self._on

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show *text*, and *done* of *total*; total 0: nobody knows how much it is."""
        now = time.monotonic()
        if not self._on or now - self._begun < self._silent:
            return
        if text == self._text and now - self._drawn < _PAUSE_SECONDS and done < total:
            return
        self._drawn = now
        with contextlib.suppress(OSError):  # a terminal that went away must not end the work
            self._draw(safe_line(text), done, total)
        self._text = text

    def clear(self) -> None:
        """Take the line away."""
        progress, self._progress, self._text = self._progress, None, ""
        if progress is not None:
            with contextlib.suppress(OSError):
                progress.stop()

    def _draw(self, text: str, done: int, total: int) -> None:
        if self._progress is None:
            self._progress = _made(bar=self._bar)
            self._progress.add_task(text, total=total or None)
            self._progress.start()
        elif text != self._text and self._bar:  # another step has a speed of its own
            self._progress.reset(self._progress.task_ids[0], total=total or None)
        task = self._progress.task_ids[0]
        self._progress.update(task, description=text, completed=done, total=total or None)
        self._progress.refresh()


def _made(*, bar: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if bar else (text,)
    console = Console(stderr=True, highlight=False, emoji=False)
    return Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextlib.contextmanager
def waiting(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Say *text* and the seconds that have passed, from the second one on; for work that tells nothing."""
    line, ended, begun = ProgressLine(bar=False), threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(SILENT_SECOND):
            line.show(f"{text}: {time.monotonic() - begun:.0f} s")

    teller = threading.Thread(target=tell, daemon=True)
    if line.is_shown and not quiet:  # a pipe has nobody who waits
        teller.start()
    try:
        yield
    finally:
        ended.set()
        if teller.is_alive():
            teller.join()
        line.clear()


class CopyMeter(ProgressLine):
    """How far a copy of a database has come."""

    def __call__(self, now: CopyProgress) -> None:
        """Show *now*."""
        size = f" {bytes_text(now.total)}" if now.total else ""
        self.show(f"{now.step.value.capitalize()}{size}", now.done, now.total)


class CheckMeter(ProgressLine):
    """How far the checks have come."""

    def __init__(self) -> None:
        super().__init__(silent=_SILENT_SECONDS)

    def __call__(self, now: CheckProgress) -> None:
        """Show *now*."""
        self.show(f"Checking {now.stage} ({now.stage_number} of {now.stages})", now.done, now.total)
