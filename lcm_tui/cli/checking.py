"""One line on standard error that says how far the checks have come."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time

from lcm_core.findings import Progress
from lcm_core.text import clip

_PAUSE_SECONDS = 0.1
#: Checks that end before this many seconds have passed say nothing.
_SILENT_SECONDS = 0.5


class CheckMeter:
    """Shows progress at a terminal, and nothing elsewhere."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._begun = self._drawn = time.monotonic()
        self._shown = 0

    def __call__(self, now: Progress) -> None:
        """Show *now*, ten times a second at most."""
        moment = time.monotonic()
        if not self._on or moment - self._begun < _SILENT_SECONDS or moment - self._drawn < _PAUSE_SECONDS:
            return
        self._drawn = moment
        stage = f"{now.stage_number} of {now.stages}"
        self._show(f"Checking {now.stage} ({stage}): {100 * min(now.done, now.total) // now.total} %")

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._show("")
            self._show("")

    def _show(self, text: str) -> None:
        text = clip(text, max(shutil.get_terminal_size().columns - 1, 1))
        with contextlib.suppress(OSError):  # a terminal that went away must not end the work
            sys.stderr.write("\r" + text.ljust(self._shown))
            sys.stderr.flush()
        self._shown = len(text)
