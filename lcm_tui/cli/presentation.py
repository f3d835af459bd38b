"""How answers are printed, and the failures that only the command line has."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Final

from lcm_core.base.errors import CancelledError, ExitCode, LcmError, RefusedError
from lcm_core.base.setting_values import Json
from lcm_core.base.values import Record

# -- printing --------------------------------------------------------------------------------------------
# What the command is called, and how its answers are printed.

PROGRAM = "lcm-tui"
#: In it, a shell's completion script says what it asks.
COMPLETION_VARIABLE = "_LCM_TUI_COMPLETE"


class Presentation(Record, frozen=True):
    """How an answer or an error is printed."""

    json: bool = False
    engine_table: bool = False  #: the engine's own tab-separated form
    pretty: bool = False
    color: bool = True
    form: str = ""  #: csv, or a form of the command's own
    quiet: bool = False  #: no answer is printed

    @property
    def for_programs(self) -> bool:
        """Whether it is a form of the engine's command, which scripts read: JSON or its table."""
        return self.json or self.engine_table

    @property
    def prints_data(self) -> bool:
        """Whether the data of an answer is printed, not its blocks."""
        return self.for_programs or self.form == "csv"


# -- failures --------------------------------------------------------------------------------------------

#: Whether this run of the program has ended a piece of work that may have written something.
WORK_ENDED: Final = threading.Event()

#: The signals other than ctrl-C that came to end this run.
_ENDED_BY: Final[list[int]] = []


def begin() -> None:
    """A run of the program begins: nothing was done, and nothing came to end it."""
    WORK_ENDED.clear()
    _ENDED_BY.clear()


def note_signal(number: int) -> None:
    """A signal has come that ends the run in order."""
    if number != signal.SIGINT:
        _ENDED_BY.append(number)


def end_by_signal(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM and SIGHUP as ctrl-C is handled.

    Raises:
        KeyboardInterrupt: always.
    """
    note_signal(number)
    raise KeyboardInterrupt


def ended_by_signal() -> bool:
    """Whether a signal other than ctrl-C ends this run."""
    return bool(_ENDED_BY)


def exit_code(code: int) -> int:
    """The exit code of the process: what a signal cancelled ends with 128 and its number, as in a shell."""
    return 128 + _ENDED_BY[0] if _ENDED_BY and code == ExitCode.CANCELLED else code


def cancelled() -> CancelledError:
    """What is said when ctrl-C ends a command outside of work that ends in order."""
    said = "what the command had done by then stays" if WORK_ENDED.is_set() else "nothing was changed"
    return CancelledError(f"Cancelled; {said}.")


def error_document(error: LcmError) -> dict[str, Json]:
    """An error as the engine's envelope holds it (docs/spec/command.md, "Envelope")."""
    details: dict[str, Json] = {"details": dict(error.details)} if error.details else {}
    return {"code": error.code, "message": error.message, **details}


class NobodyToAskError(RefusedError):
    """What has to be agreed to, where no terminal is there to ask at."""

    def __init__(self) -> None:
        super().__init__("Not a terminal, cannot ask for confirmation; nothing changed. Re-run with --yes.")
