"""Failures that only the command line has."""

from __future__ import annotations

from typing import ClassVar

from lcm_core.errors import ExitCode, LcmError


class RefusedError(LcmError):
    """Something that is understood and not done."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED
    default_code: ClassVar[str] = "REFUSED"


class CancelledError(LcmError):
    """The user stopped it."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANCELLED
    default_code: ClassVar[str] = "CANCELLED"
