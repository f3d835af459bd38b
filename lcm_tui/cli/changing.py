"""How every command changes a database: plan, show, ask, commit, and say how to undo it.

Without ``--apply`` nothing is locked and nothing is written. A plan for which the database has changed
meanwhile is planned and shown again, with what changed. Several plans are a batch: committed one by one, and
when one fails, the report says what was done.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lcm_core.base.errors import CancelledError, LcmError
from lcm_core.base.setting_values import JsonObject
from lcm_core.change.commit import Committed, commit
from lcm_core.change.guard import check_whole
from lcm_core.change.plan import Plan, RowCount, listed, row_counts
from lcm_core.change.preview import Preview, first_preview
from lcm_core.store.database import Database, Reader

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.cli.progress import waiting
from lcm_tui.cli.working import interruptible, show_and_ask
from lcm_tui.flows.change import ATTEMPTS, STOPPED, Changing, Done, Phase
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, OutputColumn, Prose, Table
from lcm_tui.tables.preview import preview_blocks, rows_table, rows_text, some, warning_notes

# -- previews as JSON ------------------------------------------------------------------------------------
# How a plan is shown to programs.


def preview_document(shown: Preview, *, sql: bool = False) -> Document:
    """A plan for machines: what every operation says, with its title."""
    document: Document = {"title": shown.plan.title, **shown.as_json()}
    if sql:
        document["sql"] = list(shown.sql())
    return document


def rows_document(rows: Sequence[RowCount]) -> Document:
    """Rows per table."""
    return {one.table: {"insert": one.insert, "update": one.update, "delete": one.delete} for one in rows}


# -- a change --------------------------------------------------------------------------------------------

ABOUT_SQL = (
    "The SQL on standard output fits the database as it is now. Run it with `sqlite3 -bail FILE`, "
    "so that an error stops it without a change. Unlike --apply it leaves no entry in the history."
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a command would do, with what it has to say besides."""

    plans: Sequence[Plan]
    data: JsonObject = field(default_factory=dict)  #: more fields of the answer's ``data``
    blocks: Sequence[OutputBlock] = ()  #: shown before the plans
    nothing: str = "There is nothing to change."  #: what is said when no plan changes anything
    brief: bool = False  #: people are shown *blocks* and the rows by table, for there are too many of them
    more: bool = False  #: the rest is planned when these were committed, and committed without asking again
    script: Sequence[str] = ()  #: SQL of what is done besides the plans


#: Makes the plans; called again when they are stale, then for what is left to do. Those of a batch are seen
#: as one plan, in which later edits see what earlier ones did, and committed one by one.
Planner = Callable[[Reader], Awaitable[Plan | Sequence[Plan] | Proposal]]


def run_change(
    run: Run,
    command: str,
    planner: Planner,
    flags: ChangeFlags,
    *,
    budget: int | None = None,
    journal: bool = True,
    before_commit: Callable[[Plan], None] = lambda plan: None,
    ask: Callable[[], None] | None = None,
) -> Answer:
    """Show what *planner* plans and, with ``--apply``, do it.

    *budget* None means the configured one. *before_commit* is called right before each commit, once it is
    agreed to: for what must lie on the disk by then. *ask* asks another question than whether to do it.

    Raises:
        LcmError: the planner's refusals; with ``--apply`` those of a commit while nothing was done yet.
    """
    against = budget_for(run.settings, budget)
    return _Changing(run, command, planner, flags, against, journal, before_commit, ask).answer()


@dataclass(frozen=True, slots=True)
class _Shown:
    """What was planned last as it is previewed, and the file that it was made on."""

    proposal: Proposal
    plans: tuple[Plan, ...]  #: those that change something
    preview: Preview | None  #: of all of them; None: there are none
    inode: int | None


@dataclass(slots=True)
class _Changing:
    """One run of a changing command: what the terminal adds to the road of every change (`Changing`)."""

    run: Run
    command: str
    planner: Planner
    flags: ChangeFlags
    budget: int
    journal: bool
    before_commit: Callable[[Plan], None]
    ask: Callable[[], None] | None
    state: Changing = field(default_factory=Changing)

    def answer(self) -> Answer:
        """Plan; with ``--apply`` ask, commit, and plan again as often as the database moves on."""
        shown = asyncio.run(self._plan())
        if self.flags.apply:
            shown = self._apply(shown)
        if self.state.error is not None and not self.state.done:
            raise self.state.error
        return self._answer(shown)

    # -- planning ----------------------------------------------------------------------------------------

    async def _plan(self) -> _Shown:
        """Plan, and work out what that would do, in one read transaction."""
        path = self.run.settings.database.value
        with waiting("Planning the change", quiet=self.run.presentation.quiet):
            async with await Database.open(path, busy_seconds=answer.BUSY_SECONDS) as database:
                proposal, self.state, preview = await database.read(self._load)
                return _Shown(proposal, self.state.ahead, preview, database.inode)

    async def _load(self, reader: Reader) -> tuple[Proposal, Changing, Preview | None]:
        check_whole(reader.schema)
        planned = await self.planner(reader)
        if isinstance(planned, Plan):
            planned = (planned,)
        proposal = planned if isinstance(planned, Proposal) else Proposal(planned)
        state = self.state.plan([plan for plan in proposal.plans if plan], more=proposal.more)
        return proposal, state, await first_preview(reader, state.ahead) if state.ahead else None

    # -- doing -------------------------------------------------------------------------------------------

    def _apply(self, shown: _Shown) -> _Shown:
        """Go on until all is done or it comes to a stop; what was shown last."""
        while not self.state.ended:
            try:
                match self.state.phase:
                    case Phase.PLANNED:
                        self._agree(shown)
                        self.state = self.state.agree()
                    case Phase.COMMITTING:
                        self._commit(shown)
                    case _:
                        shown = asyncio.run(self._plan())
            except LcmError as error:
                self.state = self.state.stop(error, attempts=1)
            except KeyboardInterrupt:
                if not self.state.done:
                    raise
                self.state = self.state.stop(CancelledError(STOPPED))
        return shown

    def _agree(self, shown: _Shown) -> None:
        """Show the preview and ask, unless that was answered beforehand."""
        number = len(self.state.ahead)
        show_and_ask(
            lambda: [*self._again(), *self._preview_blocks(shown)],
            "Apply this change?" if number == 1 else f"Apply these {number} changes?",
            self.run.presentation,
            yes=self.flags.yes,
            ask=self.ask,
        )

    def _commit(self, shown: _Shown) -> None:
        """Commit what is ahead one by one; ctrl-C ends it between two, or while the lock is waited for."""
        path, begun = self.run.settings.database.value, len(self.state.done)
        quiet = self.run.presentation.quiet
        with interruptible() as stopped, waiting("Applying the change", quiet=quiet):
            try:
                for plan in self.state.ahead:
                    if len(self.state.done) > begun and stopped():
                        raise CancelledError(STOPPED)
                    self.before_commit(plan)
                    wait = answer.BUSY_SECONDS
                    committed = commit(
                        path, plan, wait=wait, journal=self.journal, inode=shown.inode, stopped=stopped
                    )
                    self.state = self.state.commit(committed)
            except LcmError as error:
                self.state = self.state.stop(error, attempts=ATTEMPTS if self.flags.yes else None)
            except KeyboardInterrupt:
                words = "Cancelled during a commit, which either completed or changed nothing"
                said = f"{words}: `{PROGRAM} history list` says which."
                self.state = self.state.fail(CancelledError(said))

    # -- saying ------------------------------------------------------------------------------------------

    def _answer(self, shown: _Shown) -> Answer:
        """What is planned, or what was done; and why it had to be planned again."""
        state, failed = self.state, self.state.error
        told = self.run.answer(
            self.command,
            {
                **shown.proposal.data,
                **self._document(shown),
                **({"plannedAgainFor": list(state.why)} if state.why else {}),
            },
            self._done_blocks(shown, failed) if state.done else self._planned_blocks(shown),
        )
        if self.flags.sql:
            script = () if shown.preview is None else tuple(shown.preview.sql())
            told = dataclasses.replace(told, script=(*script, *shown.proposal.script))
        return told.in_part(failed)

    def _document(self, shown: _Shown) -> Document:
        done, ahead = self.state.done, self.state.ahead
        document = {} if shown.preview is None else preview_document(shown.preview, sql=self.flags.sql)
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
            "title": plan.title,
            "kind": plan.kind,
            "conversationId": plan.conversation_id,
            "rows": rows_document(rows),
            "applied": committed is not None,
            "operationId": committed.id or None if committed else None,
        }
        if committed is not None:
            document["undo"] = self._undo(committed) or None
            document["searchIndex"] = committed.search
            document["waitedSeconds"] = round(committed.waited, 3)
            document["heldSeconds"] = round(committed.held, 3)
        return document

    def _planned_blocks(self, shown: _Shown) -> list[OutputBlock]:
        if not self.state.ahead:
            return [*shown.proposal.blocks, Note(shown.proposal.nothing)]
        blocks = self._preview_blocks(shown)
        if self.flags.sql:
            blocks.append(Note(ABOUT_SQL))
        return [*blocks, Note("Nothing was changed; --apply makes the change.")]

    def _preview_blocks(self, shown: _Shown) -> list[OutputBlock]:
        blocks: list[OutputBlock] = [*shown.proposal.blocks]
        if shown.preview is not None and shown.proposal.brief:
            blocks += [rows_table(shown.preview.rows), *(warning_notes(shown.preview))]
        elif shown.preview is not None:
            blocks += preview_blocks(shown.preview, self.budget)
        if len(shown.plans) > 1:
            titles = some([f"{number}  {plan.title}" for number, plan in enumerate(shown.plans, 1)])
            title = "Committed one by one, each a separate operation"
            blocks.append(Prose("\n".join(titles), title=title))
        return blocks

    def _done_blocks(self, shown: _Shown, failed: LcmError | None) -> list[OutputBlock]:
        done = self.state.done
        seen = not self.flags.yes or failed is not None  # it was shown before the question
        blocks = [] if seen else [*self._again(), *self._preview_blocks(shown)]
        if len(done) == 1:
            blocks.append(Facts(list(self._done_facts(done[0])), title=f"Done: {done[0].plan.title}"))
        else:
            blocks += self._batch_blocks(done)
        if failed is not None:
            made = f"{len(done):,} of {self.state.total:,} changes were applied and stay"
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


def _of_many(last: Document, done: Sequence[Done]) -> Document:
    """What was previewed last, as part of more than is kept: what all of it wrote, without the edits."""
    found: dict[str, RowCount] = {}
    for one in (count for each in done for count in each.rows):
        held = found.get(one.table, RowCount(one.table, 0, 0, 0))
        found[one.table] = RowCount(
            one.table, held.insert + one.insert, held.update + one.update, held.delete + one.delete
        )
    kept = {name: value for name, value in last.items() if name not in ("edits", "shift", "sql", "tokens")}
    return {**kept, "kind": done[0].plan.kind, "rows": rows_document([found[name] for name in sorted(found)])}
