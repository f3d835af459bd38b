"""Keeps this process from opening and closing a database file by hand while it holds SQLite's locks on it.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it. SQLite
knows the descriptors that are its own; one that Python opened to read the header, or to copy the file, would
take the locks of a commit away under it, and another process could write into the middle of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from lcm_core.errors import DatabaseBusyError

_registry = threading.Lock()
_guards: dict[tuple[int, int], threading.Lock] = {}


@contextlib.contextmanager
def undisturbed(path: Path, wait: float | None = None) -> Iterator[None]:
    """Hold the file for oneself within this process, waiting *wait* seconds (None: for as long as it takes).

    A commit holds it from opening its connection to closing it, a reader while it has the file open by hand.

    Raises:
        DatabaseBusyError: it was held for the whole time.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):  # nothing to hold; opening it says why
        yield
        return
    with _registry:
        guard = _guards.setdefault((found.st_dev, found.st_ino), threading.Lock())
    if not guard.acquire(timeout=-1 if wait is None else wait):
        raise DatabaseBusyError(
            f"{path} is being changed by another part of this program. Try again when it has finished."
        )
    try:
        yield
    finally:
        guard.release()
