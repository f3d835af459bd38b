"""``--watch``: an answer again and again, until somebody or what it was to fail on ends it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from lcm_core.errors import ExitCode

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.failures import ended_by_signal
from lcm_tui.cli.output import print_answer, write


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
