"""What a plan says when writing it will keep the database locked for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: Rows from which on a host may notice that it waits. Measured: some 10,000 rows a second, search tables too.
MANY_ROWS: Final = 20_000
_A_SECOND: Final = 10_000


def takes_long(rows: int) -> Iterator[str]:
    """A warning for so many rows, or none; an engine waits 5 s for a lock from 0.5 on, 30 s from 0.9 on."""
    if rows >= MANY_ROWS:
        yield (
            f"Some {rows:,} rows are written in one transaction, which keeps the host waiting for about "
            f"{rows // _A_SECOND:,} s: better stop it before"
        )
