"""A change that an operator may make, and the one way from its plan to its commit (`apply`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lcm_core.base.errors import CancelledError, LcmError, RefusedError
from lcm_core.base.values import Record, replace
from lcm_core.change.commit import Committed, commit_plan
from lcm_core.change.copying import check_wanted
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Moved, Plan, ReplacedError, RowCount, StalePlanError, row_counts
from lcm_core.change.preview import Planner, check_complete
from lcm_core.store.database import Database

from lcm_tui.flows.ui import Ui

# -- a change --------------------------------------------------------------------------------------------
# How it is planned, what can be chosen, and what it is called.


class Choice:
    """Something to choose about a change; its planner reads `value`, and plans anew when it was turned."""

    def __init__(
        self, title: str, values: Sequence[str], *, chosen: str | None = None, allows: bool = True
    ) -> None:
        """*values* are what the operator reads; the first one holds unless another is *chosen*.

        *allows*: with another value may be possible what is refused.
        """
        self.title = title
        self.allows = allows
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

    @property
    def following(self) -> str:
        """The next value."""
        return self.values[(self.values.index(self.value) + 1) % len(self.values)]

    def turn(self) -> None:
        """Choose the next value."""
        self.value = self.following


class BlockedError(RefusedError):
    """A change is refused as it is chosen now, and possible with another choice."""

    def __init__(self, message: str, choice: int, offer: str) -> None:
        """*choice*: the place of the choice to turn, from 0; *offer*: what that does, in a few words."""
        super().__init__(message)
        self.choice = choice
        self.offer = offer


#: What is done when everything has been applied.
Then = Callable[[tuple[Committed, ...]], object]


class Notice(Record, frozen=True):
    """What the operator is told after a change."""

    title: str
    text: str
    warns: bool = False


class Confirmation(Record, frozen=True):
    """What the operator has to type before a change that cannot be undone."""

    text: str
    prompt: str


def confirm_removal(files: int) -> Confirmation:
    """How many *files* are to be removed for good."""
    return Confirmation(str(files), f"type how many they are to remove for good ({files}); esc cancels")


class Change:
    """What a preview shows and applies; a kind of change with more than rows, such as files, says so here."""

    def __init__(
        self,
        planner: Planner,
        title: str = "Preview",
        about: str = "",
        choices: Sequence[Choice] = (),
        then: Then | None = None,
        agreed: Callable[[], object] | None = None,
    ) -> None:
        """*planner* plans by the choices: a plan, or those of a batch, which are committed one by one.

        *about*: what is done, for the help. *then* gets what was committed, once the preview is closed.
        *agreed* is called when the operator applies the preview, in place of a commit: the caller commits.
        """
        self.planner = planner
        self.about = about
        self.choices = tuple(choices)
        self.then = then
        self.agreed = agreed
        self._title = title

    @property
    def title(self) -> str:
        """Where this is, as it is chosen now (``Dissolve, conversation 3``)."""
        return self._title

    @property
    def offers_backup(self) -> bool:
        """Whether a backup is offered before the first change of a day."""
        return self.agreed is None

    def confirmation(self) -> Confirmation | None:
        """What the operator has to type before it is applied; None: nothing."""
        return None

    async def before(self, ui: Ui, plan: Plan) -> None:
        """Put on the disk what must lie there before a plan is committed; an LcmError stops the change."""

    async def failed(self, ui: Ui, error: LcmError, done: Sequence[Committed]) -> Sequence[Notice]:
        """It stopped with an error after what was *done*."""
        del ui, error, done
        return ()

    async def applied(self, ui: Ui, done: Sequence[Committed]) -> Sequence[Notice]:
        """All was committed."""
        del ui, done
        return ()

    async def left(self, database: Database) -> None:
        """The preview is closed."""


# -- its way to the commit -------------------------------------------------------------------------------
# Planned, agreed to, committed plan by plan, planned again when the database moved on (docs/spec/changes.md).

#: How often a plan may go stale that is made again while nobody looks at it (``--yes``).
ATTEMPTS = 3
STOPPED = "Cancelled. Earlier changes stay."


class Done(Record, frozen=True):
    """A plan that was committed."""

    plan: Plan
    committed: Committed
    rows: tuple[RowCount, ...]  #: that it wrote
    slim: bool = False  #: its edits are let go, for many more are to come

    def slimmed(self) -> Done:
        """The same without the edits."""
        return Done(replace(self.plan, edits=()), replace(self.committed, edits=()), self.rows, slim=True)


class ChangeState:
    """How far a change is."""

    def __init__(self) -> None:
        self.batch = new_batch_id()  #: of plans that belong together
        self.done: list[Done] = []
        self.ahead: tuple[Plan, ...] = ()  #: planned, and not committed
        self.more = False  #: behind what is ahead the rest is planned, which was agreed to already
        self.inode: int | None = None  #: of the file that was planned on
        self.running = False  #: agreed to, and being committed
        self.finished = False  #: all is committed
        self.stale = 0  #: how often the database moved on
        self.why: tuple[str, ...] = ()  #: what moved when it last did
        self.error: LcmError | None = None  #: why it went stale or ended

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

    def plan(self, plans: Sequence[Plan], *, more: bool = False) -> None:
        """These are ahead now; those that belong together get a batch."""
        ahead = tuple(plan for plan in plans if plan)
        if self.done or more or len(ahead) > 1:
            ahead = tuple(replace(one, batch=one.batch or self.batch) for one in ahead)
        self.ahead, self.more, self.error = ahead, more, None

    def commit(self, committed: Committed) -> None:
        """The first plan ahead was committed."""
        self.done.append(Done(self.ahead[0], committed, row_counts(committed.edits)))
        self.ahead = self.ahead[1:]
        if self.more and not self.ahead:
            self.done = [one if one.slim else one.slimmed() for one in self.done]

    def fail(self, error: LcmError) -> None:
        """It stopped with *error*. A cancellation between two commits says that the earlier changes stay."""
        self.error = CancelledError(STOPPED) if self.done and isinstance(error, CancelledError) else error
        if isinstance(error, StalePlanError | ReplacedError):
            moved = error.moved if isinstance(error, StalePlanError) else ()
            self.stale, self.why = self.stale + 1, tuple(one.text for one in moved) or (error.message,)


class ChangeUi(Ui, Protocol):
    """Who shows a change and asks about it."""

    async def agree(self, state: ChangeState) -> bool:
        """Plan what is left, show it, and ask whether to do it; False: there is nothing, or not now."""

    async def plan_rest(self, state: ChangeState) -> None:
        """Plan what follows what was committed; that was agreed to."""

    def changed(self) -> None:
        """It has come further."""

    def tell(self, notices: Sequence[Notice]) -> None:
        """Tell the operator."""


async def apply(ui: ChangeUi, change: Change, state: ChangeState) -> None:
    """Commit what is agreed to, plan by plan, and ask again when the database moved on.

    It ends when all is done, when nobody agrees, or with `ChangeState.error`.
    """
    while True:
        try:
            if not await ui.agree(state):
                return
            state.running = True
            with ui.working("Applying the change"):
                await _commit(ui, change, state)
        except LcmError as error:
            moved_on = state.running and isinstance(error, StalePlanError | ReplacedError)
            ui.tell(await change.failed(ui, error, state.committed))
            if not state.finished:
                state.fail(error)
            if not moved_on:
                return
        else:
            return
        finally:
            state.running = False


async def _commit(ui: ChangeUi, change: Change, state: ChangeState) -> None:
    """Commit what is ahead, then what is planned after it; nothing if it is not all by now."""
    if any(one.whole for one in state.ahead):
        await ui.database.read(check_complete, change.planner, state.ahead)
    while state.ahead:
        for plan in state.ahead:
            check_wanted(ui.cancelled)
            await change.before(ui, plan)
            committed = await commit_plan(
                ui.database, plan, wait=ui.wait, inode=state.inode, stopped=ui.cancelled
            )
            state.commit(committed)
            ui.changed()
        if state.more:
            check_wanted(ui.cancelled)
            await ui.plan_rest(state)
    state.finished = True
    ui.tell(await change.applied(ui, state.committed))
