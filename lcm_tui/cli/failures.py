"""Failures that only the command line has."""

from __future__ import annotations

import threading
from typing import Final

from lcm_core.errors import CancelledError, LcmError, RefusedError
from lcm_core.settings import Json

#: Whether this run of the program has ended a piece of work that may have written something.
WORK_ENDED: Final = threading.Event()


def cancelled() -> CancelledError:
    """What is said when ctrl-C ends a command outside of work that ends in order."""
    said = "what the command had done by then stays" if WORK_ENDED.is_set() else "nothing was changed"
    return CancelledError(f"Cancelled; {said}.")


def error_document(error: LcmError) -> dict[str, Json]:
    """An error as the engine's envelope holds it (docs/engine/command.md, "Envelope")."""
    details: dict[str, Json] = {"details": dict(error.details)} if error.details else {}
    return {"code": error.code, "message": error.message, **details}


class NobodyToAskError(RefusedError):
    """What has to be agreed to, where no terminal is there to ask at."""

    def __init__(self) -> None:
        super().__init__("Not a terminal, cannot ask for confirmation; nothing changed. Re-run with --yes.")
