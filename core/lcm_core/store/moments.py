"""SQL fragments that compare stored times as times: the two formats of the engine sort wrongly as text."""

from __future__ import annotations

#: What cannot be a stored time is not handed to SQLite, which would read ``now`` as the present.
_LOOKS_LIKE_A_TIME = "GLOB '[0-9][0-9][0-9][0-9]-*'"


def moment(expression: str) -> str:
    """SQL: the time that *expression* holds in days (``julianday``), 0 when it holds none.

    *expression* is repeated, so it is a column or an alias, never a parameter.
    """
    return f"CASE WHEN {expression} {_LOOKS_LIKE_A_TIME} THEN ifnull(julianday({expression}), 0) ELSE 0 END"


def moment_key(expression: str) -> str:
    """SQL: the time that *expression* holds as sortable text with the stored form behind a ``|``, else NULL.

    ``min`` and ``max`` of it find both ends in one scan, whatever formats are mixed; `stored_form` undoes it.
    """
    return (
        f"CASE WHEN {expression} {_LOOKS_LIKE_A_TIME} "
        f"THEN strftime('%Y-%m-%d %H:%M:%f', {expression}) || '|' || CAST({expression} AS TEXT) END"
    )


def stored_form(key: str | None) -> str | None:
    """The stored time behind a `moment_key`."""
    return None if key is None else key.partition("|")[2]
