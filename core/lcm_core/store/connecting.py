"""The one kind of connection that this program makes: no text of the file is a reason to fail otherwise."""

from __future__ import annotations

import sqlite3
from operator import methodcaller
from typing import Any, Final

#: TEXT may hold invalid UTF-8: what cannot be decoded survives as surrogate escapes. No function of Python's
#: own, for it is called for each text that is read.
DECODE: Final = methodcaller("decode", "utf-8", "surrogateescape")


class Connection(sqlite3.Connection):
    """Text that is no UTF-8 is read with surrogate escapes, in values and in SQLite's own complaints."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.text_factory = DECODE

    def execute(self, *given: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`.

        Raises:
            sqlite3.Error: also where SQLite's message quotes bytes of the file, which Python cannot decode.
        """
        try:
            return super().execute(*given)
        except UnicodeDecodeError as error:
            raise _told(error) from error

    def executemany(self, *given: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`; raises as `execute`."""
        try:
            return super().executemany(*given)
        except UnicodeDecodeError as error:
            raise _told(error) from error


def _told(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """SQLite's complaint, as far as it is known: its code is lost with the message."""
    text = error.object.decode("utf-8", "backslashreplace")
    malformed = text.startswith("malformed")
    told = sqlite3.DatabaseError(text)
    told.sqlite_errorcode = sqlite3.SQLITE_CORRUPT if malformed else sqlite3.SQLITE_ERROR
    told.sqlite_errorname = "SQLITE_CORRUPT" if malformed else "SQLITE_ERROR"
    return told
