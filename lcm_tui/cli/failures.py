"""Failures that only the command line has."""

from __future__ import annotations

from typing import ClassVar

from lcm_core.errors import ExitCode, LcmError
from lcm_core.settings import Json


def error_document(error: LcmError) -> dict[str, Json]:
    """An error as the engine's envelope holds it (docs/engine/command.md, "Envelope")."""
    details: dict[str, Json] = {"details": dict(error.details)} if error.details else {}
    return {"code": error.code, "message": error.message, **details}


class RefusedError(LcmError):
    """Something that is understood and not done."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED
    default_code: ClassVar[str] = "REFUSED"


class CancelledError(LcmError):
    """The user stopped it."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANCELLED
    default_code: ClassVar[str] = "CANCELLED"
