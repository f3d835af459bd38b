"""Questions to a database that do not care who asks: a reader that waits, or the connection that commits.

A function that is a generator of `Ask`s gets the rows of each as the value of its ``yield`` and returns its
result; `answer` drives it with a reader, `Writer.answer` with the connection that commits. So what a preview
finds and what a commit checks is the same code.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lcm_core.change.plan import SqlValue
from lcm_core.store.database import Reader, Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """One query."""

    sql: str
    parameters: tuple[SqlValue, ...] = ()
    plain: bool = False  #: rows are only iterated, so that they need no names


#: A computation that asks its way.
Asking = Generator[Ask, Sequence[Row], T]


async def answer(reader: Reader, asking: Asking[T]) -> T:
    """Carry *asking* through within one read transaction."""
    try:
        ask = next(asking)
        while True:
            ask = asking.send(await reader.rows(ask.sql, *ask.parameters))
    except StopIteration as stop:
        result: T = stop.value
        return result
