"""A change that an operator may make: as it is planned, and its way from the plan to the commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from lcm_core.base.errors import CancelledError, LcmError, RefusedError
from lcm_core.change.commit import Committed
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Moved, Plan, ReplacedError, RowCount, StalePlanError, row_counts
from lcm_core.change.preview import Planner
from lcm_core.store.database import Database

# -- a change --------------------------------------------------------------------------------------------
# How it is planned, what can be chosen, and what it is called.


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


# -- its way to the commit -------------------------------------------------------------------------------
# How far a change is, as a value: planned, agreed to, committed plan by plan, planned again, ended.
#
# Both faces use it. The command line drives it with questions (`cli/changing.py`), the preview with its
# keys (`screens/preview.py`); neither decides by itself what follows from what (docs/changes.md).

#: How often a plan may go stale that is made again while nobody looks at it (``--yes``).
ATTEMPTS = 3
STOPPED = "Cancelled. Earlier changes stay."


class Phase(Enum):
    """Where a change stands."""

    PLANNING = auto()  #: nothing is planned yet, or the rest is to be planned
    PLANNED = auto()  #: what is ahead waits for somebody's word
    COMMITTING = auto()  #: agreed to
    STALE = auto()  #: the database moved on: plan again, and ask again
    DONE = auto()  #: nothing is ahead
    FAILED = auto()
    CANCELLED = auto()


@dataclass(frozen=True, slots=True)
class Done:
    """A plan that was committed."""

    plan: Plan
    committed: Committed
    rows: tuple[RowCount, ...]  #: that it wrote
    slim: bool = False  #: its edits are let go, for many more are to come

    def slimmed(self) -> Done:
        """The same without the edits."""
        return Done(replace(self.plan, edits=()), replace(self.committed, edits=()), self.rows, slim=True)


@dataclass(frozen=True, slots=True)
class Changing:
    """A change on its way; each step gives the next value."""

    phase: Phase = Phase.PLANNING
    batch: str = field(default_factory=new_batch_id)  #: of plans that belong together
    done: tuple[Done, ...] = ()
    ahead: tuple[Plan, ...] = ()  #: planned, and not committed
    more: bool = False  #: behind what is ahead the rest is planned, which was agreed to already
    agreed: bool = False  #: nobody is asked about what is planned next
    stale: int = 0  #: how often the database moved on
    why: tuple[str, ...] = ()  #: what moved when it last did
    error: LcmError | None = None  #: why it went stale or ended

    @property
    def ended(self) -> bool:
        """Whether nothing follows: it is done, or came to a stop."""
        return self.phase in (Phase.DONE, Phase.FAILED, Phase.CANCELLED)

    @property
    def committed(self) -> tuple[Committed, ...]:
        """What was committed."""
        return tuple(one.committed for one in self.done)

    @property
    def moved(self) -> tuple[Moved, ...]:
        """What does not fit any more, while it is stale; none when another file lies there."""
        return self.error.moved if isinstance(self.error, StalePlanError) else ()

    @property
    def total(self) -> int:
        """Plans, done and ahead."""
        return len(self.done) + len(self.ahead)

    @property
    def undo_batch(self) -> str | None:
        """The batch by which the history takes back what was done; None: there is none."""
        return next((one.plan.batch for one in self.done if one.committed.id and one.plan.batch), None)

    def plan(self, plans: Sequence[Plan], *, more: bool = False) -> Changing:
        """These are ahead now; those that belong together get a batch."""
        ahead = tuple(plans)
        if self.done or more or len(ahead) > 1:
            ahead = tuple(replace(one, batch=one.batch or self.batch) for one in ahead)
        phase = Phase.DONE if not ahead else Phase.COMMITTING if self.agreed else Phase.PLANNED
        return replace(self, phase=phase, ahead=ahead, more=more, error=None)

    def agree(self) -> Changing:
        """Somebody agreed to what is ahead."""
        return replace(self, phase=Phase.COMMITTING, agreed=True, error=None)

    def withdraw(self) -> Changing:
        """That is taken back before anything was committed of it."""
        return replace(self, phase=Phase.PLANNED, agreed=False)

    def commit(self, committed: Committed) -> Changing:
        """The first plan ahead was committed."""
        done = (*self.done, Done(self.ahead[0], committed, row_counts(committed.edits)))
        ahead = self.ahead[1:]
        if ahead:
            return replace(self, done=done, ahead=ahead)
        if self.more:
            slim = tuple(one if one.slim else one.slimmed() for one in done)
            return replace(self, phase=Phase.PLANNING, done=slim, ahead=())
        return replace(self, phase=Phase.DONE, done=done, ahead=())

    def fail(self, error: LcmError, *, attempts: int | None = None) -> Changing:
        """It came to a stop; what has gone stale *attempts* times is not planned again."""
        held = replace(self, agreed=False, error=error)
        match error:
            case StalePlanError() | ReplacedError():
                moved = error.moved if isinstance(error, StalePlanError) else ()
                why = tuple(one.text for one in moved) or (error.message,)
                ended = attempts is not None and self.stale + 1 >= attempts
                phase = Phase.FAILED if ended else Phase.STALE
                return replace(held, phase=phase, stale=self.stale + 1, why=why)
            case CancelledError():
                return replace(held, phase=Phase.CANCELLED)
        return replace(held, phase=Phase.FAILED)

    def stop(self, error: LcmError, *, attempts: int | None = None) -> Changing:
        """The same between two commits: who wants no more of it is told that the earlier ones stay."""
        cancelled = bool(self.done) and isinstance(error, CancelledError)
        return self.fail(CancelledError(STOPPED) if cancelled else error, attempts=attempts)
