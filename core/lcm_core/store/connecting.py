"""The one kind of connection that this program makes, and what a load asks whose work is done in one piece.

No text of the file is a reason to fail otherwise than with `sqlite3.Error`.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Iterable, Sequence
from operator import methodcaller
from typing import Any, Final, Protocol

from lcm_core.store.typed import parameter

#: A value as SQLite stores it; invalid UTF-8 as surrogate escapes.
SqlValue = None | int | float | str | bytes
Row = sqlite3.Row

#: TEXT may hold invalid UTF-8: what cannot be decoded survives as surrogate escapes. No function of Python's
#: own, for it is called for each text that is read.
DECODE: Final = methodcaller("decode", "utf-8", "surrogateescape")


class Rows(Protocol):
    """Queries within one transaction, every value as it is stored.

    A function over it is a load for both: a reader runs it in a thread (`Reader.run`), the connection that
    commits calls it. So what a preview finds and what a commit checks is the same code.
    """

    def rows(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[Row]:
        """All rows of a query, addressed by column name."""

    def tuples(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query as plain tuples: without names they take half the time."""

    def rows_in(self, sql: str, keys: Iterable[SqlValue]) -> list[Row]:
        """The rows of a query whose text holds ``IN (?*)`` once, for all keys."""


#: Keys of one query: more are read by several. SQLite takes 999 parameters at most in its oldest builds.
CHUNK: Final = 500


def rows_in(db: Rows, sql: str, keys: Iterable[SqlValue], chunk: int = CHUNK) -> list[Row]:
    """The rows of a query whose text holds ``IN (?*)`` once, for all *keys*, *chunk* of them at a time."""
    wanted = list(keys)
    found: list[Row] = []
    for start in range(0, len(wanted), chunk):
        some = wanted[start : start + chunk]
        found += db.rows(sql.replace("?*", ", ".join("?" * len(some))), some)
    return found


def as_text(value: object) -> str:
    """A stored value as a text, as LIKE takes it."""
    return DECODE(value) if isinstance(value, bytes) else str(value)


def contains_pattern(needle: str) -> str:
    """The pattern of ``LIKE ... ESCAPE '\\'`` that is true of a text that contains *needle*."""
    return "%" + needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def may_hold(column: str) -> str:
    """A condition that a text holds what a ``contains_pattern`` says: one that is not ASCII may in another
    spelling, and LIKE and ``length`` look no further than a NUL.
    """
    return f"({column} LIKE ? ESCAPE '\\' OR length({column}) < length(CAST({column} AS BLOB)))"


def quoted(name: str) -> str:
    """The name of a table or column in SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def listed(columns: Iterable[str]) -> str:
    """The select list of some columns; `*` would give those that SQLite works out, which nobody writes."""
    return ", ".join(map(quoted, sorted(columns)))


class Connection(sqlite3.Connection):
    """Text that is no UTF-8 is read with surrogate escapes, in values and in SQLite's own complaints."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.text_factory = DECODE

    # Narrower than sqlite3's on purpose: no mapping, for what is bound is looked at by place.
    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        """As `sqlite3.Connection.execute`; text that is no UTF-8 is bound as the bytes that it was read from.

        Raises:
            sqlite3.Error: also where SQLite's message quotes bytes of the file, which Python cannot decode.
        """
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:
            return super().execute(*as_bytes(sql, parameters))
        except UnicodeDecodeError as error:
            raise _said(error) from error

    def executemany(self, *given: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`; raises as `execute`."""
        try:
            return super().executemany(*given)
        except UnicodeDecodeError as error:
            raise _said(error) from error


class ReadConnection(Connection):
    """One that only reads: whatever is asked for can be bound, and is found or not."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, cached_statements=64, **options)
        self.row_factory = sqlite3.Row

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        """The same; a number beyond 64 bits is asked for as a real, a lone surrogate as its bytes."""
        try:
            return super().execute(sql, parameters)
        except OverflowError:
            return super().execute(sql, tuple(map(parameter, parameters)))
        except UnicodeEncodeError:  # typed or pasted, for nothing that is read has such a surrogate
            return super().execute(*as_bytes(sql, parameters, "surrogatepass"))


def error_name(error: sqlite3.Error) -> str:
    """SQLite's name of an error, such as ``SQLITE_BUSY``; empty when Python alone raised it."""
    return getattr(error, "sqlite_errorname", "") or ""


def as_bytes(
    sql: str, parameters: Sequence[SqlValue], otherwise: str = ""
) -> tuple[str, tuple[SqlValue, ...]]:
    """The statement with text that is not valid UTF-8 bound as the bytes that are in the file.

    Raises:
        UnicodeEncodeError: a text holds a surrogate that no byte was read as, and *otherwise* is empty.
    """
    places = itertools.count(1)

    def cast(mark: re.Match[str]) -> str:
        place = int(mark[1]) if mark[1] else next(places)
        return f"CAST({mark[0]} AS TEXT)" if isinstance(parameters[place - 1], str) else mark[0]

    bound = tuple([_raw(value, otherwise) if isinstance(value, str) else value for value in parameters])
    return _MARK.sub(cast, sql), bound


_MARK: Final = re.compile(r"\?([0-9]*)")  #: of a value; a statement has only numbered ones or none


def _raw(text: str, otherwise: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        if not otherwise:
            raise
        return text.encode("utf-8", otherwise)


def _said(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """SQLite's complaint, as far as it is known: its code is lost with the message."""
    text = error.object.decode("utf-8", "backslashreplace")
    malformed = text.startswith("malformed")
    said = sqlite3.DatabaseError(text)
    said.sqlite_errorcode = sqlite3.SQLITE_CORRUPT if malformed else sqlite3.SQLITE_ERROR
    said.sqlite_errorname = "SQLITE_CORRUPT" if malformed else "SQLITE_ERROR"
    return said
