"""The errors that a caller can act on, each one sentence for a person and one code for a script."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import PurePath
from typing import ClassVar

JsonScalar = str | int | float | bool | None


class ExitCode(IntEnum):
    """Exit codes of every command (docs/configuration.md, "Exit codes")."""

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFIGURATION = 4
    DATABASE = 5
    FINDINGS = 6
    STALE = 7
    BUSY = 8
    REFUSED = 9
    CANCELLED = 10


class LcmError(Exception):
    """Something that a person can understand and act on.

    ``message`` is one sentence: what happened, to what, what to do now. ``code`` is the machine's name
    for it (docs/spec/command.md, "Errors"), ``details`` the values behind the sentence.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL
    default_code: ClassVar[str] = "INTERNAL_ERROR"

    def __init__(
        self, message: str, *, code: str | None = None, details: Mapping[str, JsonScalar] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.details = dict(details or {})


class UsageError(LcmError):
    """A command line that does not fit: its words, an option, an argument."""

    exit_code = ExitCode.USAGE
    default_code = "INVALID_ARGUMENT"


class NotFoundError(LcmError):
    """An id that this database does not hold."""

    exit_code = ExitCode.NOT_FOUND
    default_code = "NOT_FOUND"


class FileMissingError(NotFoundError):
    """Nothing is at a path that was named: one sentence and one exit code wherever a path is given
    (docs/spec/decisions.md, "Missing files").
    """

    default_code = "FILE_NOT_FOUND"

    def __init__(self, what: str, path: PurePath | str, advice: str, *, code: str | None = None) -> None:
        super().__init__(nothing_at(what, path, advice), code=code, details={"path": str(path)})


def nothing_at(what: str, path: PurePath | str, advice: str) -> str:
    """The sentence about a file or folder that is missing."""
    return f"There is no {what} at {path}. {advice}"


class ConfigurationError(LcmError):
    """A configuration file or environment variable that cannot be used."""

    exit_code = ExitCode.CONFIGURATION
    default_code = "CONFIG_INVALID"


class DatabaseError(LcmError):
    """A file that cannot be read as an LCM database."""

    exit_code = ExitCode.DATABASE
    default_code = "DATABASE_OPEN_FAILED"


class DatabaseMissingError(DatabaseError):
    """There is no file at the path; it is never created. It exits as "not found"."""

    exit_code = ExitCode.NOT_FOUND
    default_code = "DATABASE_NOT_FOUND"


class DatabaseQueryError(DatabaseError):
    """A statement failed on an open database."""

    default_code = "DATABASE_QUERY_FAILED"


class DatabaseBusyError(DatabaseError):
    """Another process holds a lock for longer than we wait."""

    exit_code = ExitCode.BUSY
    default_code = "DATABASE_BUSY"


class SearchUnavailableError(DatabaseQueryError):
    """This program's SQLite lacks a module or tokenizer that a search table of the file needs."""


class RefusedError(LcmError):
    """Something that is understood and not done: it would do harm, or nothing."""

    exit_code = ExitCode.REFUSED
    default_code = "REFUSED"


class CancelledError(LcmError):
    """The user stopped it."""

    exit_code = ExitCode.CANCELLED
    default_code = "CANCELLED"
