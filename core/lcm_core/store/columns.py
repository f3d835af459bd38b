"""Thousands of short values of a query as columns: they come as one text for each, not as so many rows.

Of 12,000 ids that takes a fifth of the time: no row is made for each of them, and no text is decoded alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.store.connecting import Rows, SqlValue


def texts(
    db: Rows, query: str, names: Sequence[str], parameters: Sequence[SqlValue] = ()
) -> list[Sequence[str]]:
    """The named columns of a query, in its order; numbers as their digits, no value as an empty text.

    With a comma in a value the rows are read after all: then there are more parts than rows.
    """
    joined = ", ".join(f"group_concat(ifnull({name}, ''))" for name in names)
    [(number, *found)] = db.tuples(f"SELECT count(*), {joined} FROM ({query})", parameters)
    if not number:
        return [() for _ in names]
    columns: list[Sequence[str]] = [text.split(",") for text in found]
    if all(len(column) == number for column in columns):
        return columns
    given = ", ".join(f"CAST(ifnull({name}, '') AS TEXT)" for name in names)
    return list(zip(*db.tuples(f"SELECT {given} FROM ({query})", parameters), strict=True))
