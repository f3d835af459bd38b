"""The terminal that the app is drawn on, which may go away at any moment."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def is_gone() -> bool:
    """Whether standard input is no terminal any more."""
    return sys.__stdin__ is None or not sys.__stdin__.isatty()


@contextmanager
def that_may_go_away() -> Iterator[None]:
    """Draw on standard error so that what a lost terminal cannot take is dropped.

    Textual draws by a thread with a short queue. An error would end that thread, and the app would wait for
    ever to put into the queue what nobody takes out, before it notices that it is to end.
    """
    own = sys.__stderr__
    if own is None or not own.isatty():
        yield
        return
    file = io.BufferedWriter(_Terminal(own.fileno(), "w", closefd=False))
    vars(sys)["__stderr__"] = io.TextIOWrapper(file, own.encoding, own.errors, line_buffering=True)
    try:
        yield
    finally:
        vars(sys)["__stderr__"] = own


class _Terminal(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


__all__ = ["is_gone", "that_may_go_away"]
