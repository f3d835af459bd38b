"""Questions to a database that do not care who asks: a reader that waits, or the connection that commits.

A function that is a generator of `Ask`s gets the rows of each as the value of its ``yield`` and returns its
result; `answer` drives it with a reader, `Writer.answer` with the connection that commits. So what a preview
finds and what a commit checks is the same code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


#: Rows from which on working on them is worth a thread: the app's keys are served meanwhile.
MANY = 2_000


async def answer(reader: Reader, asking: Asking[T]) -> T:
    """Carry *asking* through within one read transaction."""
    step, many = _next(asking, None), False
    while isinstance(step, Ask):
        rows = await reader.stored(step.sql, *step.parameters)
        many = many or len(rows) >= MANY
        step = await asyncio.to_thread(_next, asking, rows) if many else _next(asking, rows)
    return step.value


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


def _next(asking: Asking[T], rows: Sequence[Row] | None) -> Ask | _Done[T]:
    """The next question, or the result: a thread cannot raise the end of a generator."""
    try:
        return next(asking) if rows is None else asking.send(rows)
    except StopIteration as stop:
        return _Done(stop.value)
