"""What a command that takes its time asks: a question, an end in order."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from lcm_core.errors import CancelledError
from lcm_core.text import safe_line

from lcm_tui.cli import output
from lcm_tui.cli.failures import WORK_ENDED, NobodyToAskError, note_signal
from lcm_tui.cli.presentation import Presentation

if TYPE_CHECKING:
    from lcm_tui.views.blocks import Block

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether the user wants to stop: one ctrl-C is noted and the work ends in order, two end it."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, _: FrameType | None) -> None:
        asked.set()
        note_signal(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {kind: signal.getsignal(kind) for kind in _SIGNALS}
    for kind in _SIGNALS:
        if before[kind] != signal.SIG_IGN:  # as under nohup
            signal.signal(kind, note)
    try:
        yield asked.is_set
        WORK_ENDED.set()
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


def show_and_ask(
    shown: Callable[[], Sequence[Block]],
    question: str,
    presentation: Presentation,
    *,
    yes: bool,
    ask: Callable[[], None] | None = None,
) -> None:
    """Show what would be done and ask whether to do it, unless *yes* answers; *ask* asks something else.

    Raises:
        NobodyToAskError: there is no terminal, and no *yes*.
        CancelledError: the answer is no.
    """
    if yes:
        return
    if can_ask():
        output.print_aside(shown(), presentation)
    if ask is not None:
        ask()
    else:
        ask_before_change(question, yes=False)
