"""The screen as a pane knows it: the session, and work beside the keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVarTuple

from textual.worker import Worker

from lcm_tui.session import Session

Ts = TypeVarTuple("Ts")


class Desk(Protocol):
    """What a pane asks of the screen that it stands on."""

    @property
    def session(self) -> Session:
        """The open database and its settings."""

    def work_on(
        self, group: str, work: Callable[[*Ts], Awaitable[object]], *args: *Ts, exclusive: bool = True
    ) -> Worker[None]:
        """Run ``work(*args)`` beside the keys."""
