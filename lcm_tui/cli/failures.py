"""Failures that only the command line has."""

from __future__ import annotations

from lcm_core.errors import LcmError, RefusedError
from lcm_core.settings import Json


def error_document(error: LcmError) -> dict[str, Json]:
    """An error as the engine's envelope holds it (docs/engine/command.md, "Envelope")."""
    details: dict[str, Json] = {"details": dict(error.details)} if error.details else {}
    return {"code": error.code, "message": error.message, **details}


class NobodyToAskError(RefusedError):
    """What has to be agreed to, where no terminal is there to ask at."""

    def __init__(self) -> None:
        super().__init__("Not a terminal, cannot ask for confirmation; nothing changed. Re-run with --yes.")
