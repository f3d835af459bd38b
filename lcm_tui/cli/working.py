"""What a command that takes its time shows and asks: a line of progress, a question, an end in order."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from lcm_core.change.copying import CopyProgress, CopyStep
from lcm_core.errors import CancelledError
from lcm_core.text import clip, safe_line

from lcm_tui.cli.failures import NobodyToAskError
from lcm_tui.views.units import bytes_text, seconds_text

_PAUSE_SECONDS = 0.1
#: Before so long has passed nothing is said of what is left.
_FIRST_GUESS_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Meter:
    """One line on standard error that says how far a work has come; nothing when that is no terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._step: CopyStep | None = None
        self._begun = self._drawn = 0.0
        self._shown = 0

    def __call__(self, now: CopyProgress) -> None:
        """Show *now*, ten times a second at most."""
        if not self._on:
            return
        moment = time.monotonic()
        if now.step is not self._step:
            self._step, self._begun = now.step, moment
        elif moment - self._drawn < _PAUSE_SECONDS and now.done < now.total:
            return
        self._drawn = moment
        self._show(_line(now, moment - self._begun))

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._show("")
            self._write("\r")

    def _show(self, text: str) -> None:
        text = clip(text, max(shutil.get_terminal_size().columns - 1, 1))
        self._write("\r" + text.ljust(self._shown))
        self._shown = len(text)

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that went away must not end the work
            sys.stderr.write(text)
            sys.stderr.flush()


class StatusLine:
    """One line on standard error that says how a work stands; nothing when that is no terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Show *text* in place of what stood there."""
        if not self._on:
            return
        text = clip(safe_line(text), max(shutil.get_terminal_size().columns - 1, 1))
        if text != self._shown:
            self._write("\r" + text.ljust(len(self._shown)))
            self._shown = text

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write("\r" + " " * len(self._shown) + "\r")
            self._shown = ""

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that went away must not end the work
            sys.stderr.write(text)
            sys.stderr.flush()


def _line(now: CopyProgress, spent: float) -> str:
    text = now.step.value.capitalize()
    if not now.total:
        return text
    text += f": {100 * now.done // now.total} % of {bytes_text(now.total)}"
    if spent >= _FIRST_GUESS_SECONDS and 0 < now.done < now.total:
        text += f", about {seconds_text(spent * (now.total - now.done) / now.done)} left"
    return text


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether the user wants to stop: one ctrl-C is noted and the work ends in order, two end it."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, _: FrameType | None) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {kind: signal.getsignal(kind) for kind in _SIGNALS}
    for kind in _SIGNALS:
        if before[kind] != signal.SIG_IGN:  # as under nohup
            signal.signal(kind, note)
    try:
        yield asked.is_set
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def can_ask() -> bool:
    """Whether a person is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, *, default: bool = False) -> None:
    """Ask on standard error whether to go on.

    Raises:
        CancelledError: the answer is no.
    """
    sys.stderr.write(f"{safe_line(question)} [{'Y/n' if default else 'y/N'}] ")
    sys.stderr.flush()
    try:
        given = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write(os.linesep)
        raise
    answer = given.strip().lower()
    if not given:
        sys.stderr.write(os.linesep)
    if not (answer in ("y", "yes") or (default and given and not answer)):
        raise CancelledError("Cancelled; nothing was changed.")


def ask_to_type(question: str, wanted: str) -> None:
    """Have a person type something that nobody types without meaning it.

    Raises:
        NobodyToAskError: there is no terminal.
        CancelledError: something else was typed.
    """
    if not can_ask():
        raise NobodyToAskError
    sys.stderr.write(f"{safe_line(question)} ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != wanted:
        raise CancelledError("Cancelled; nothing was changed.")


def ask_before_change(question: str, *, yes: bool) -> None:
    """Ask unless *yes* answers; without a terminal nobody can be asked.

    Raises:
        NobodyToAskError: there is no terminal, and no *yes*.
        CancelledError: the answer is no.
    """
    if yes:
        return
    if not can_ask():
        raise NobodyToAskError
    ask(question)
