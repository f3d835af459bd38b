"""A change that an operator may make: how it is planned, what can be chosen, and what it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lcm_core.change.commit import Committed
from lcm_core.change.planning import Planner


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


#: What is done when everything has been applied.
Then = Callable[[tuple[Committed, ...]], object]


@dataclass(frozen=True, slots=True)
class Change:
    """What a preview shows and applies."""

    planner: Planner  #: a plan, or the plans of a batch, which are applied one by one; it reads the choices
    title: str = "Preview"  #: where this is (``Dissolve, conversation 3``)
    about: str = ""  #: what is done, for the help
    choices: tuple[Choice, ...] = ()  #: shown with a digit each
    then: Then | None = None  #: gets what was committed, once all is applied and the preview is closed
