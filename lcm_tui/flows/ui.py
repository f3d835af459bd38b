"""What a flow asks of whoever shows it: the app and the command line each have one such class."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from lcm_core.store.database import Database


class Ui(Protocol):
    """One of the two faces, as far as every flow needs it."""

    @property
    def database(self) -> Database:
        """The open file."""

    @property
    def wait(self) -> float:
        """How long a lock of another process is waited for, in seconds."""

    def working(self, what: str) -> AbstractContextManager[None]:
        """Say that *what* goes on; while it lasts, a wish to stop ends it in order (`cancelled`)."""

    def cancelled(self) -> bool:
        """Whether what goes on is not wanted any more; asked in other threads too."""
