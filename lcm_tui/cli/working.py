"""How a command runs: over the past with ``--at``, interruptible, with questions, repeated by ``--watch``."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from lcm_core.base.errors import CancelledError, ExitCode
from lcm_core.base.text import safe_line
from lcm_core.base.values import replace

from lcm_tui.cli import output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.kinds import invalid
from lcm_tui.cli.options import Named
from lcm_tui.cli.output import print_answer, write
from lcm_tui.cli.presentation import WORK_ENDED, NobodyToAskError, Presentation, ended_by_signal, note_signal

if TYPE_CHECKING:
    from lcm_core.operations.past_point import Point

    from lcm_tui.cli.progress import ProgressLine
    from lcm_tui.flows.change import Confirmation
    from lcm_tui.tables.blocks import OutputBlock

T = TypeVar("T")

# -- the past --------------------------------------------------------------------------------------------
# Whether a command reads it; without ``--at`` nothing of it is imported.


def run_at(run: Run, named: Named | None, at: str | None) -> Run:
    """The run over the database as it was at the point; the same one where none was given.

    Raises:
        UsageError: what was typed is no point.
        NotFoundError: no conversation is named so.
    """
    if at is None or named is None:
        return run
    from lcm_core.operations.past_overlay import Past

    from lcm_tui.cli.selecting import number_of

    point = point_of(run, at)
    return replace(run, past=Past(run.read(number_of, named), point))


def point_of(run: Run, written: str, option: str = "at") -> Point:
    """A point as it was typed.

    Raises:
        UsageError: it is none.
    """
    from lcm_core.operations.past_point import FORMS, parse_point

    point = parse_point(written, run.clock)
    if point is None:
        raise invalid(option, f"must be {FORMS}", written)
    return point


# -- a command that takes its time -----------------------------------------------------------------------
# A question, and an orderly end.

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(meter: ProgressLine | None = None) -> Iterator[Callable[[], bool]]:
    """Whether the user wants to stop: one ctrl-C is noted and the work ends in order, two end it.

    *meter* says how far it is, and goes away at the end.
    """
    asked = threading.Event()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {kind: signal.getsignal(kind) for kind in _SIGNALS}

    def note(number: int, _: FrameType | None) -> None:
        asked.set()
        note_signal(number)
        signal.signal(number, before[signal.Signals(number)])

    for kind, handler in before.items():
        if handler != signal.SIG_IGN:  # as under nohup
            signal.signal(kind, note)
    try:
        yield asked.is_set
        if before:
            WORK_ENDED.set()
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        if meter is not None:
            meter.clear()


@contextmanager
def _ends_at_once() -> Iterator[None]:
    """Ctrl-C ends a question at once, also where a loop of events would note it for later."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
        with _ends_at_once():
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
        CancelledError: something else was typed.
    """
    sys.stderr.write(f"{safe_line(question)} ")
    sys.stderr.flush()
    with _ends_at_once():
        given = sys.stdin.readline()
    if given.strip() != wanted:
        raise CancelledError("Cancelled; nothing was changed.")


def show_and_ask(
    shown: Callable[[], Sequence[OutputBlock]],
    question: str,
    presentation: Presentation,
    *,
    yes: bool,
    typed: Confirmation | None = None,
) -> None:
    """Show what would be done and ask whether to do it, unless *yes* answers; *typed* asks for more than y.

    Raises:
        NobodyToAskError: there is no terminal, and no *yes*.
        CancelledError: the answer is no.
    """
    if yes:
        return
    if not can_ask():
        raise NobodyToAskError
    if blocks := shown():
        output.print_aside(blocks, presentation)
    if typed is None:
        ask(question)
    else:
        ask_to_type(typed.prompt, typed.text)


def carry_out(
    run: Run,
    question: str,
    work: Callable[[Callable[[], bool]], T],
    *,
    yes: bool,
    shown: Callable[[], Sequence[OutputBlock]] = lambda: (),
    meter: ProgressLine | None = None,
) -> T:
    """Ask, then do the *work*, which cannot be divided; the function that it gets says whether to stop.

    What has a plan goes by `run_change`.

    Raises:
        NobodyToAskError: there is no terminal, and no *yes*.
        CancelledError: the answer is no.
    """
    show_and_ask(shown, question, run.presentation, yes=yes)
    with interruptible(meter) as stopped:
        return work(stopped)


# -- repeating (--watch) ---------------------------------------------------------------------------------
# An answer again and again, until somebody or the condition it fails on ends it.


def watched(
    run: Run,
    once: Callable[[], Answer],
    seconds: int,
    *,
    ends: bool,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Print what *once* gives every so many seconds; at a terminal in the place of what was there.

    With *ends*, the first answer that does not end well is the last. Ctrl-C ends it well.
    """
    clears = sys.stdout.isatty() and not run.presentation.json
    try:
        while True:
            answer = once()
            if clears:
                write(sys.stdout, "\x1b[H\x1b[2J", utf8=False)
            print_answer(answer, run.presentation)
            if ends and answer.exit_code is not ExitCode.DONE:
                return answer.exit_code
            wait(seconds)
    except KeyboardInterrupt:
        if ended_by_signal():
            raise
        return ExitCode.DONE
