"""How every command changes a database: plan, show, ask, commit, and say how to undo it.

Without ``--apply`` nothing is locked and nothing is written. A plan for which the database has changed
meanwhile is planned and shown again, with what changed. Several plans are a batch: committed one by one, and
when one fails, the report says what was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lcm_core.base.errors import CancelledError, LcmError
from lcm_core.base.setting_values import JsonObject
from lcm_core.base.text import agree, counted
from lcm_core.base.values import field, replace
from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan, RowCount, listed, row_counts, rows_json, summed_rows
from lcm_core.change.preview import Batch, Planner, Preview, batch_of, first_preview
from lcm_core.store.database import Database, Reader

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.cli.progress import waiting
from lcm_tui.cli.working import interruptible, show_and_ask
from lcm_tui.flows.change import ATTEMPTS, STOPPED, Change, ChangeState, Confirmation, Done, Notice, apply
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, OutputColumn, Prose, Table
from lcm_tui.tables.preview import done_text, preview_blocks, rows_table, rows_text, some, warning_notes

# -- a change --------------------------------------------------------------------------------------------

ABOUT_SQL = (
    "The SQL on standard output fits the database as it is now. Run it with `sqlite3 -bail FILE`, "
    "so that an error stops it without a change. Unlike --apply it leaves no entry in the history."
)


class Proposal(Batch, frozen=True):
    """What a command would do, with what it has to say besides."""

    data: JsonObject = field(default_factory=dict)  #: more fields of the answer's ``data``
    blocks: Sequence[OutputBlock] = ()  #: shown before the plans
    nothing: str = "There is nothing to change."  #: what is said when no plan changes anything
    brief: bool = False  #: people are shown *blocks* and the rows by table, for there are too many of them
    script: Sequence[str] = ()  #: SQL of what is done besides the plans


def run_change(
    run: Run, command: str, planned: Planner | Change, flags: ChangeFlags, *, budget: int | None = None
) -> Answer:
    """Show what is planned and, with ``--apply``, do it; *budget* None means the configured one.

    Raises:
        LcmError: the planner's refusals; with ``--apply`` those of a commit while nothing was done yet.
    """
    change = planned if isinstance(planned, Change) else Change(planned)
    return Changing(run, command, change, flags, budget).do()


class Terminal:
    """The command line as flows know it (`Ui`)."""

    database: Database

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asking = True  #: nothing has begun that ctrl-C would end in order
        self.cancelled: Callable[[], bool] = lambda: False

    @property
    def wait(self) -> float:
        """How long a lock of another process is waited for."""
        return answer.BUSY_SECONDS

    async def ask(
        self,
        shown: Callable[[], Sequence[OutputBlock]],
        question: str,
        *,
        yes: bool,
        typed: Confirmation | None = None,
    ) -> None:
        """Show what would be done and ask whether to do it (`show_and_ask`); the database rests meanwhile."""
        self.asking = True
        if not yes:
            await self.database.rest()
        show_and_ask(shown, question, self.run.presentation, yes=yes, typed=typed)
        self.asking = False

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Ctrl-C is noted (`cancelled`), and what goes on ends in order; the second one breaks it off."""
        awake = asyncio.ensure_future(_stay_awake())
        with interruptible() as self.cancelled, waiting(what, quiet=self.quiet):
            try:
                yield
            finally:
                awake.cancel()

    @property
    def quiet(self) -> bool:
        """Whether nobody is told that work goes on."""
        return self.run.presentation.quiet


class Changing(Terminal):
    """One run of a changing command: what the terminal shows and asks (`ChangeUi`)."""

    def __init__(
        self, run: Run, command: str, change: Change, flags: ChangeFlags, budget: int | None = None
    ) -> None:
        super().__init__(run)
        self.command = command
        self.change = change
        self.flags = flags
        self.budget = budget_for(run.settings, budget)
        self.state = ChangeState()
        self._proposal = Proposal(())
        self._plans: Sequence[Plan] = ()  #: as they were planned last
        self._preview: Preview | None = None  #: of all plans together; None: there are none

    def do(self) -> Answer:
        """Plan; with ``--apply`` ask, commit, and plan again as often as the database moves on."""
        try:
            self.run.work(self.carry_out)
        except KeyboardInterrupt:
            self.break_off()
        return self.answer()

    async def carry_out(self, database: Database) -> None:
        """The same, in an open file; what came of it is in `state`, and `answer` says it.

        Raises:
            LcmError: the planner's refusals, and that nobody agreed.
        """
        self.database = database
        try:
            if self.flags.apply:
                await apply(self, self.change, self.state)
            else:
                await self._plan()
        finally:
            await self.change.left(database)

    def break_off(self) -> None:
        """Ctrl-C has ended it.

        Raises:
            KeyboardInterrupt: before anything was done.
        """
        if self.asking and not self.state.done:
            raise KeyboardInterrupt
        words = "Cancelled during a commit, which either completed or changed nothing"
        said = f"{words}: `{PROGRAM} history list` says which."
        self.state.error = CancelledError(STOPPED if self.asking else said)

    def answer(self) -> Answer:
        """What came of it.

        Raises:
            LcmError: what ended it while nothing was done.
        """
        if self.state.error is not None and not self.state.done:
            raise self.state.error
        return self._answer()

    # -- what the flow asks ------------------------------------------------------------------------------

    async def agree(self, state: ChangeState) -> bool:
        """Plan, show the preview, and ask unless that was answered beforehand."""
        if self.flags.yes and state.error is not None and state.stale >= ATTEMPTS:
            return False
        self.asking = True
        await self._plan()
        if not state.ahead:
            return False
        number = len(state.ahead)
        await self.ask(
            lambda: [*self._again(), *self._preview_blocks()],
            "Apply this change?" if number == 1 else f"Apply these {number} changes?",
            yes=self.flags.yes,
            typed=self.change.confirmation(),
        )
        return True

    async def _plan(self) -> None:
        """Plan, and work out what that would do, in one read transaction."""
        with waiting("Planning the change", quiet=self.run.presentation.quiet):
            await self.plan_rest(self.state)

    async def plan_rest(self, state: ChangeState) -> None:
        """The same without a word: it goes on."""
        batch, self._preview = await self.database.read(self._load, state)
        self._proposal = batch if isinstance(batch, Proposal) else Proposal(batch.plans)
        self._plans, state.inode = state.ahead, self.database.inode

    async def _load(self, reader: Reader, state: ChangeState) -> tuple[Batch, Preview | None]:
        batch = await batch_of(reader, self.change.planner)
        state.plan(batch.plans, more=batch.more)
        return batch, await first_preview(reader, state.ahead) if state.ahead else None

    def changed(self) -> None:
        """Nobody looks meanwhile."""

    def tell(self, notices: Sequence[Notice]) -> None:
        """The answer of the command says it."""

    # -- saying ------------------------------------------------------------------------------------------

    def _answer(self) -> Answer:
        """What is planned, or what was done; and why it had to be planned again."""
        state, failed = self.state, self.state.error
        told = self.run.answer(
            self.command,
            {
                **self._proposal.data,
                **self._document(),
                **({"plannedAgainFor": list(state.why)} if state.why else {}),
            },
            self._done_blocks(failed) if state.done else self._planned_blocks(),
        )
        if self.flags.sql:
            script = () if self._preview is None else tuple(self._preview.sql())
            told = replace(told, script=(*script, *self._proposal.script))
        return told.in_part(failed)

    def _document(self) -> Document:
        done, ahead = self.state.done, self.state.ahead
        document: Document = {}
        if self._preview is not None:
            document = {"title": self._preview.plan.title, **self._preview.as_json()}
            if self.flags.sql:
                document["sql"] = list(self._preview.sql())
        if any(one.slim for one in done):
            document = _of_many(document, done)
        parts = [self._part(one.plan, one.committed, one.rows) for one in done]
        parts += [self._part(one, None, row_counts(one.edits)) for one in ahead]
        document["applied"] = bool(done) and not ahead
        document["operationId"] = None
        if len(parts) == 1:
            return {**document, **parts[0]}
        plans = [*(one.plan for one in done), *ahead]
        document["batch"] = next((plan.batch for plan in plans if plan.batch), None)
        if done:
            document["undo"] = self._undo_batch() or None
        return {**document, "plans": list(parts)}

    def _part(self, plan: Plan, committed: Committed | None, rows: Sequence[RowCount]) -> Document:
        """One plan, and what became of it."""
        document: Document = {
            **some_of(plan, "title kind conversation_id"),
            "rows": rows_json(rows),
            "applied": committed is not None,
            "operationId": committed.id or None if committed else None,
        }
        if committed is not None:
            document["undo"] = self._undo(committed) or None
            document |= some_of(committed, "search waited held")
        return document

    def _planned_blocks(self) -> list[OutputBlock]:
        if not self.state.ahead:
            return [*self._proposal.blocks, Note(self._proposal.nothing)]
        blocks = self._preview_blocks()
        if self.flags.sql:
            blocks.append(Note(ABOUT_SQL))
        return [*blocks, Note("Nothing was changed; --apply makes the change.")]

    def _preview_blocks(self) -> list[OutputBlock]:
        blocks: list[OutputBlock] = [*self._proposal.blocks]
        if self._preview is not None and self._proposal.brief:
            blocks += [rows_table(self._preview.different_rows), *(warning_notes(self._preview))]
        elif self._preview is not None:
            blocks += preview_blocks(self._preview, self.budget)
        if len(self._plans) > 1:
            titles = some([f"{number}  {plan.title}" for number, plan in enumerate(self._plans, 1)])
            title = "Committed one by one, each a separate operation"
            blocks.append(Prose("\n".join(titles), title=title))
        return blocks

    def _done_blocks(self, failed: LcmError | None) -> list[OutputBlock]:
        done = self.state.done
        seen = not self.flags.yes or failed is not None  # it was shown before the question
        blocks = [] if seen else [*self._again(), *self._preview_blocks()]
        if len(done) == 1:
            blocks.append(
                Facts(list(self._done_facts(done[0])), title=done_text([done[0].plan.title], "Done"))
            )
        else:
            blocks += self._batch_blocks(done)
        if failed is not None:
            of = f"{len(done):,} of {counted(self.state.total, 'change')}"
            made = f"{of} {agree(len(done), 'were')} applied and {agree(len(done), 'stay')}"
            blocks.append(Note(f"{made}. The next was not: {failed.message}"))
        return blocks

    def _again(self) -> list[OutputBlock]:
        if not self.state.why:
            return []
        return [Note(f"The database changed, so this was planned again: {listed(self.state.why)}.")]

    def _batch_blocks(self, done: Sequence[Done]) -> Iterator[OutputBlock]:
        columns = (
            OutputColumn("Operation"),
            OutputColumn("Tokens", right=True),
            OutputColumn("Done", grows=True),
        )
        rows = [(one.committed.id or None, f"{one.committed.tokens:+,}", one.plan.title) for one in done]
        yield Table(columns, rows)
        yield from (Note(f"{warning}.") for warning in {one.committed.search for one in done} if warning)
        if undo := self._undo_batch():
            undone = all(one.plan.kind == "undo" for one in done)
            yield Facts([("To redo all of it" if undone else "To undo all of it", undo)])

    def _done_facts(self, done: Done) -> Iterator[tuple[str, Cell]]:
        committed = done.committed
        if committed.id:
            yield "Operation", committed.id
        yield "Rows", rows_text(done.rows)
        yield "Tokens in context", f"{committed.tokens:+,}"
        if committed.id:
            yield ("To redo" if done.plan.kind == "undo" else "To undo"), self._undo(committed)
        if committed.search is not None:
            yield "Search", committed.search

    def _undo(self, committed: Committed) -> str:
        """The command that takes a change back; empty when none does."""
        return self.run.line("history", "undo", committed.id, "--apply") if committed.id else ""

    def _undo_batch(self) -> str:
        batch = self.state.undo_batch
        return self.run.undo_of_batch(batch) if batch else ""


async def _stay_awake() -> None:
    """Python notices a signal that comes right before the loop begins to wait only when that wakes up."""
    while True:  # noqa: ASYNC110 - no event: it only has to wake up
        await asyncio.sleep(0.1)


def _of_many(last: Document, done: Sequence[Done]) -> Document:
    """What was previewed last, as part of more than is kept: what all of it wrote, without the edits."""
    rows = rows_json(summed_rows(count for each in done for count in each.rows))
    kept = {name: value for name, value in last.items() if name not in ("edits", "shift", "sql", "tokens")}
    return {**kept, "kind": done[0].plan.kind, "rows": rows}
