"""A change that an operator may make: how it is planned, what can be chosen, and what it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.change.planning import Planner
from lcm_core.errors import LcmError, RefusedError
from lcm_core.store.database import Database


class Choice:
    """Something to choose about a change; its planner reads `value`, and plans anew when it was turned."""

    def __init__(self, title: str, values: Sequence[str], *, chosen: str | None = None) -> None:
        """*values* are what the operator reads; the first one holds unless another is *chosen*."""
        self.title = title
        self.values = tuple(values)
        self.value = chosen if chosen is not None else self.values[0]

    @classmethod
    def switch(cls, title: str) -> Choice:
        """Off at first: no, then yes."""
        return cls(title, ("no", "yes"))

    @property
    def on(self) -> bool:
        """Whether another value than the first is chosen."""
        return self.value != self.values[0]

    def turn(self) -> None:
        """Choose the next value."""
        self.value = self.values[(self.values.index(self.value) + 1) % len(self.values)]


class BlockedError(RefusedError):
    """A change is refused as it is chosen now, and possible with another choice."""

    def __init__(self, message: str, choice: int, offer: str) -> None:
        """*choice*: the place of the choice to turn, from 0; *offer*: what that does, in a few words."""
        super().__init__(message)
        self.choice = choice
        self.offer = offer


#: What is done when everything has been applied.
Then = Callable[[tuple[Committed, ...]], object]


@dataclass(frozen=True, slots=True)
class Notice:
    """What the operator is told after a change."""

    title: str
    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the operator has to type before a change that cannot be undone."""

    text: str
    prompt: str


class Surroundings:
    """What belongs to a change besides its rows, such as files: here, nothing does."""

    def title(self) -> str | None:
        """What the change is called as it is chosen now; None: as it was at first."""
        return None

    def confirmation(self) -> Confirmation | None:
        """What the operator has to type before it is applied; None: nothing."""
        return None

    @property
    def wants_backup(self) -> bool:
        """Whether a backup is offered before the first change of a day."""
        return True

    async def before_all(self, database: Database, plans: Sequence[Plan]) -> None:
        """Put on the disk what must lie there before the first commit; an LcmError stops the change."""

    async def before(self, database: Database, plan: Plan, stopped: Callable[[], bool]) -> None:
        """The same before each plan; *stopped* says whether the change is not wanted any more."""

    async def failed(
        self, database: Database, error: LcmError, done: Sequence[Committed]
    ) -> Sequence[Notice]:
        """It stopped with an error after what was *done*."""
        del database, error, done
        return ()

    async def applied(self, database: Database, done: Sequence[Committed]) -> Sequence[Notice]:
        """All was committed."""
        del database, done
        return ()

    async def left(self, database: Database) -> None:
        """The preview is closed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a preview shows and applies."""

    planner: Planner  #: a plan, or the plans of a batch, which are applied one by one; it reads the choices
    title: str = "Preview"  #: where this is (``Dissolve, conversation 3``)
    about: str = ""  #: what is done, for the help
    choices: tuple[Choice, ...] = ()  #: shown with a digit each
    then: Then | None = None  #: gets what was committed, once all is applied and the preview is closed
    around: Surroundings = field(default_factory=Surroundings)  #: what belongs to it besides its rows
