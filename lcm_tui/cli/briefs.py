"""A focus brief that is written and put in force, or cleared, with the sweep around it."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path

from lcm_core.base.errors import CancelledError, ExitCode, LcmError, NotFoundError, RefusedError, UsageError
from lcm_core.base.files import read_limited, reason_of
from lcm_core.base.javascript import Json
from lcm_core.base.records import Conversation
from lcm_core.base.text import counted, safe_line
from lcm_core.base.values import replace
from lcm_core.change.journal import BRIEF_BATCH, new_batch_id
from lcm_core.operations.drafts import spent_to_json
from lcm_core.operations.focus import (
    BriefDraft,
    FocusKind,
    FocusWish,
    check_known_to_engine,
    drop_draft,
    plan_clear_brief,
    read_draft,
    write_draft,
)
from lcm_core.operations.selection import Mode
from lcm_core.store.database import Database, Reader
from lcm_core.writers.cost import CallBudget
from lcm_core.writers.writer import call_budget

from lcm_tui.cli import compacting as compact_report
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.asking import flagged_model, forecast_blocks, forecast_document
from lcm_tui.cli.changing import Changing, Proposal, Terminal, run_change
from lcm_tui.cli.compacting import Compacting
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.drafts import model_document, modelling
from lcm_tui.cli.options import BriefOptions, ChangeFlags, ModelOptions, Named
from lcm_tui.cli.progress import ProgressLine, waiting
from lcm_tui.cli.selecting import chosen
from lcm_tui.flows.change import Change
from lcm_tui.flows.compaction import CompactionWish, PlannedCompaction, plan_compaction
from lcm_tui.flows.drafts import Modelling, spent_text
from lcm_tui.flows.focus import BriefWork, InForce, Step, make_brief
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Facts, Note
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.compaction import planned_compaction
from lcm_tui.tables.focus import (
    NO_SWEEP,
    draft_blocks,
    wish_blocks,
)

_COMMAND = "focus.create"
_LARGEST_TEXT = 4 * 1024 * 1024


# -- the active brief cleared -----------------------------------------------------------------------------


def clear_brief(
    run: Run, named: Named, sweep: bool, budget: int | None, model: ModelOptions, flags: ChangeFlags
) -> Answer:
    """Take the active brief out of force, then sweep as the engine does; both are one batch."""
    sweeping = _Sweeping(run, new_batch_id())
    sweeper = modelling(run, model, unasked=sweep and flags.apply and flags.yes)
    owner = run.work(partial(sweeping.plan, named, sweep, budget, sweeper)).conversation_id
    sweeping.check_sql(flags)

    async def plan(reader: Reader) -> Proposal:
        batch = sweeping.passes.batch if sweeping.due else None
        cleared = await plan_clear_brief(reader, owner, batch=batch)
        return Proposal((cleared,), data={"sweep": sweeping.document}, blocks=sweeping.blocks(after=True))

    answer = run_change(run, "focus.clear", plan, flags, budget=budget)
    planned = sweeping.planned
    if not flags.apply or answer.exit_code is not ExitCode.DONE or planned is None or not sweeping.due:
        return answer
    try:
        sweeping.carry_out(lambda database: sweeping.make(database, planned))
    except LcmError as error:
        error.message = f"{error.message} The brief was cleared; the sweep was not made."
        sweeping.passes.failed = error
    told, failed = sweeping.behind(answer), sweeping.passes.failed
    if failed is not None:
        told = replace(told, blocks=[*told.blocks, Note(failed.message)])
    return told.in_part(failed)


# -- the sweep around it ---------------------------------------------------------------------------------


class _Sweeping(Compacting):
    """The sweep that the engine forces: foreseen, made, and told of. One batch with the brief."""

    def __init__(self, run: Run, batch: str, spending: CallBudget | None = None) -> None:
        super().__init__(run, yes=True, batch=batch, budget=spending)
        self.planned: PlannedCompaction | None = None  #: None: it is left out

    async def plan(
        self, named: Named, wanted: bool, budget: int | None, model: Modelling, database: Database
    ) -> Conversation:
        """Foresee it, if it is wanted; the conversation."""

        async def known(reader: Reader) -> Conversation:
            conversation = await chosen(reader, named)
            check_known_to_engine(reader)
            return conversation

        settings, conversation = self.run.settings, await database.read(known)
        if wanted:
            wish = CompactionWish(Mode.SWEEP, budget_for(settings, budget))
            with waiting("Reading", quiet=self.run.presentation.quiet):
                self.planned = await plan_compaction(database, settings, conversation, wish, model)
        return conversation

    @property
    def due(self) -> int:
        """How many passes are due."""
        return 0 if self.planned is None else len(self.planned.forecast.passes)

    def check_sql(self, flags: ChangeFlags) -> None:
        """Refuse SQL that could not hold all that would be done."""
        if flags.sql and self.due:
            raise UsageError(
                f"--sql cannot include the sweep ({counted(self.due, 'pass')}): its summaries are not "
                "written yet. Add --no-sweep.",
                details={"option": "sql"},
            )

    @property
    def document(self) -> Json:
        """The sweep for programs; null when it is left out."""
        if self.planned is None:
            return None
        made = self.passes.made
        return {
            **compact_report.document(self.planned),
            "batch": self.passes.batch if made else None,
            "made": [compact_report.step_document(one) for one in made],
        }

    def blocks(self, *, after: bool = False) -> list[Block]:
        """What it would do, for people."""
        if self.planned is None:
            return [Note(NO_SWEEP)]
        when = "after it" if after else "first"
        if not self.due:
            return [Note(f"The engine sweeps {when}: there is nothing to compact.")]
        return [
            *planned_compaction(self.planned),
            Note(f"The engine sweeps {when}, and so does --apply; --no-sweep skips it."),
        ]

    def behind(self, answer: Answer) -> Answer:
        """The answer of the brief with what the sweep did, and how all of it is taken back."""
        made, batch = self.passes.made, self.passes.batch
        if not made:
            return answer
        undo = self.run.undo_of_batch(batch)
        facts = Facts(
            [("Passes", len(made)), ("Tokens in context", f"{-self.passes.saved:+,}")], title="Sweep"
        )
        return replace(
            answer,
            data={**answer.data, "sweep": self.document, "batch": batch, "undo": undo},
            blocks=[*answer.blocks, facts, Facts([("To undo all of it", undo)])],
        )


# -- a new text ------------------------------------------------------------------------------------------


class BriefWriting(Terminal):
    """One run of ``focus create`` (`BriefUi`)."""

    work: BriefWork

    def __init__(self, run: Run, options: BriefOptions, prompt: str | None = None) -> None:
        """*prompt*: what a new brief is about; None: the active one is written again."""
        super().__init__(run)
        kind = FocusKind.REFOCUS if prompt is None else FocusKind.CREATE
        self.kind, self.prompt, self.options, self.flags = kind, prompt or "", options, options.flags
        self.sweeper = modelling(run, options.model, unasked=self.flags.apply and self.flags.yes)
        self.author = flagged_model(run, options.model)
        self.spending = call_budget(self.sweeper.settings)
        self.sweeping = _Sweeping(run, new_batch_id(BRIEF_BATCH), self.spending)
        self.changing: Changing | None = None  #: the brief, or the failed call, as a change
        self.failed: LcmError | None = None  #: what ended it before there was a change
        self._agreed = False
        self._path: Path | None = None  #: to which a draft was written
        self._data: Document = {}  #: of a call that is foreseen
        self._blocks: list[Block] = []

    def do(self) -> Answer:
        """Show what would be done; with ``--apply`` sweep, have it written, show it, ask, and commit."""
        try:
            self.run.work(self._carry_out)
        except KeyboardInterrupt:
            self._break_off()
        except LcmError as error:
            self.failed = error
        return self._answer()

    async def _carry_out(self, database: Database) -> None:
        self.database, given = database, self.options
        sweeps = not given.no_sweep and given.draft is None and given.from_draft is None
        owner = await self.sweeping.plan(given.conversation, sweeps, given.budget, self.sweeper, database)
        self.sweeping.check_sql(self.flags)
        work = self.work = BriefWork(
            self.run.settings, owner, self.kind, self.prompt, author=self.author, budget=self.spending
        )
        work.batch, work.sweep = self.sweeping.passes.batch, self.sweeping.planned
        line = ProgressLine(bar=False)
        work.changed = lambda: line.show(work.busy) if work.busy else line.clear()
        try:
            if given.from_draft is not None:
                work.draft = self._kept(work, given.from_draft)
            elif given.text is not None:
                work.text = _read_text(given.text)
            elif self.author is None:
                raise UsageError(
                    "focus create needs a text: --text FILE, or name a model with --provider or --model.",
                    details={"option": "text"},
                )
            else:
                await self._foresee(work, self.author)
            if work.text is not None and not self.flags.apply:
                await self.put_in_force()
            else:
                await make_brief(self, work)
            if given.draft is not None and work.draft is not None:
                self._path = write_draft(given.draft, work.draft)
                drop_draft(work.draft.path)
        except LcmError as error:
            if work.failed is None or given.draft is not None:
                raise
            self.failed = error
            await self._put(Change(work.plan_failure), replace(self.flags, yes=True))
        finally:
            line.clear()
            await work.close()

    def _kept(self, work: BriefWork, path: Path) -> BriefDraft:
        kept = read_draft(path)
        here = str(self.run.settings.database.value.resolve())
        if (
            kept.wish.conversation_id != work.owner
            or kept.wish.kind is not self.kind
            or kept.database != here
        ):
            what = f"{kept.wish.kind} of conversation {kept.wish.conversation_id} in {kept.database}"
            raise RefusedError(
                f"The draft {path} is for {safe_line(what)}. Nothing was changed.", code="OTHER_DRAFT"
            )
        return replace(kept, batch="")  # the sweep of that run is no part of this one

    async def _foresee(self, work: BriefWork, author: Modelling) -> None:
        """What a call would take."""
        with waiting("Reading", quiet=self.run.presentation.quiet):
            found = await work.look(self.database)
        assert found.question is not None  # it was not refused
        forecast, asking = work.forecast(found.question), work.model()
        assert forecast is not None  # a model was named
        assert asking is not None
        most = asking.meter.budget.at_most(forecast)
        self._data = {
            "sweep": self.sweeping.document,
            "writer": model_document(author),
            **forecast_document(forecast, most),
            "applied": False,
            **({} if found.wish is None else _wish_document(found.wish)),
        }
        self._blocks = [
            *(self.sweeping.blocks() if self.options.draft is None else []),
            *([] if found.wish is None else wish_blocks(found.wish)),
            *forecast_blocks(author, forecast, most, "it asks for nothing more"),
            *([] if self.options.draft is not None else [Note(_OF_FAILURE)]),
        ]

    # -- what the flow asks ------------------------------------------------------------------------------

    async def agree(self, step: Step) -> bool:
        """Ask once for the sweep and the call; a change asks for itself."""
        by_hand = self.work.text is not None
        if step is Step.PREVIEW:
            return self.changing is None and self.options.draft is None
        if not self._agreed and (self.flags.apply or self.options.draft is not None):
            question = f"Sweep conversation {self.work.owner} first?"
            if not by_hand and self.author is not None:
                sweep = "sweep and " if self.sweeping.due else ""
                question = f"{sweep}call {self.author.words}?".capitalize()
            blocks = self.sweeping.blocks if by_hand else lambda: self._blocks
            await self.ask(blocks, question, yes=self.flags.yes)
            self._agreed = True
        return self._agreed

    async def sweep(self, planned: PlannedCompaction) -> None:
        """Make its passes; nothing follows when one was not made."""
        work, passes = self.work, self.sweeping.passes
        await self.sweeping.make(self.database, planned)
        work.sweeps, work.swept = False, bool(passes.made)
        self.sweeping.end()
        if passes.failed is not None:
            raise passes.failed

    async def put_in_force(self) -> None:
        """Show the change of the brief, and commit it when a person wants it."""
        await self._put(InForce(self.work, self._plan), self.flags)

    async def _put(self, change: Change, flags: ChangeFlags) -> None:
        self.changing = Changing(self.run, _COMMAND, change, flags, self.options.budget)
        await self.changing.carry_out(self.database)

    async def _plan(self, reader: Reader) -> Proposal:
        """The brief, with what is said beside it."""
        work, sweeping = self.work, self.sweeping
        by_hand = work.text is not None
        blocks = sweeping.blocks() if by_hand and not sweeping.passes.made else []
        try:
            made = await work.plan(reader)
        except RefusedError as error:
            if not work.is_cured_by_sweep(error):
                raise
            note = Note("The sweep makes the summaries; what the brief replaces is known after it.")
            data: Document = {"sweep": sweeping.document}
            return Proposal((), data=data, blocks=[*blocks, note], nothing=_LATER)
        assert work.draft is not None  # else it was refused
        text, data = work.draft.text, {"sweep": sweeping.document, **_wish_document(work.draft.wish)}
        if by_hand:
            return Proposal((made,), data=data, blocks=blocks)
        data |= {"text": text.content, "writerName": text.writer, **self._spent}
        said = [Note(_OF_DRAFT)] if self.options.from_draft is not None else [self._spent_facts]
        return Proposal((made,), data=data, blocks=[*said, *draft_blocks(text, work.retention)])

    # -- saying ------------------------------------------------------------------------------------------

    @property
    def _spent(self) -> Document:
        if self.options.from_draft is not None or self.author is None:
            return {}
        return {"writer": model_document(self.author), "spent": spent_to_json(self.spending.spent)}

    @property
    def _spent_facts(self) -> Facts:
        spent = self.spending.spent
        return Facts([("Calls", spent.calls), ("Cost", spent_text(spent.usage))])

    def _again(self, path: Path) -> str:
        return self.run.line("focus", "create", str(self.work.owner), "--from-draft", str(path), "--apply")

    def _break_off(self) -> None:
        """Ctrl-C has ended it.

        Raises:
            KeyboardInterrupt: before anything was agreed to.
        """
        self.failed = CancelledError(_CANCELLED)
        if self.changing is not None:
            with contextlib.suppress(KeyboardInterrupt):  # while it was asked about
                self.changing.break_off()
                self.failed = None
        elif self.asking:
            raise KeyboardInterrupt
        elif self.work.sweeps and not self.sweeping.asking:
            self.sweeping.end(broken_off=True)
            self.failed = self.sweeping.passes.failed

    def _answer(self) -> Answer:
        """What was done, or would be.

        Raises:
            LcmError: what ended it before anything was done.
        """
        changing, failed = self.changing, self.failed
        if changing is None and failed is not None:
            return self._swept_alone(failed)
        work = self.work
        if changing is None and self._path is not None and work.draft is not None:
            told = [*draft_blocks(work.draft.text, work.retention), self._spent_facts]
            told.append(Note(f"Written to {self._path}: {_EDIT_IT}"))
            told.append(Note(f"To use it: {self._again(self._path)}"))
            wish = _wish_document(work.draft.wish)
            written: Document = {"applied": False, "draft": str(self._path), **wish, **self._spent}
            return self.run.answer(_COMMAND, written, told)
        if changing is None:
            return self.run.answer(_COMMAND, self._data, [*self._blocks, Note(_NO_CALL)])
        if work.failed is not None and failed is not None:
            return self._recorded(changing, work.failed[0], failed)
        try:
            if failed is not None:
                raise failed
            return self.sweeping.behind(changing.answer())
        except LcmError as error:
            if work.draft is not None and work.draft.path is not None:
                again = self._again(work.draft.path)
                error.message = f"{error.message} The draft was kept; to use it: {again}"
            return self._swept_alone(error)

    def _recorded(self, changing: Changing, wish: FocusWish, failed: LcmError) -> Answer:
        """The row that the engine leaves when nobody wrote a text; it was agreed to with the call."""
        try:
            answer = changing.answer()
        except LcmError as error:
            failed.message = f"{failed.message} The failed brief was not recorded: {error.message}"
            return self._swept_alone(failed)
        data = {"sweep": self.sweeping.document, **answer.data, **_wish_document(wish), **self._spent}
        told = replace(answer, data=data, blocks=[Note(failed.message), *answer.blocks])
        if self.sweeping.passes.made:
            return self.sweeping.behind(told).in_part(failed)
        return replace(told, exit_code=failed.exit_code, failed=failed)

    def _swept_alone(self, failed: LcmError) -> Answer:
        """The sweep was made, at least in part, and no brief was written.

        Raises:
            LcmError: not even that.
        """
        if not self.sweeping.passes.made:
            raise failed from None
        blocks: list[Block] = [Note(f"{failed.message} The passes of the sweep stay; no brief was written.")]
        answer = self.run.answer(_COMMAND, {"applied": False, "sweep": self.sweeping.document}, blocks)
        return self.sweeping.behind(answer).in_part(failed)


_CANCELLED = "Cancelled."
_NO_CALL = "No call was made and nothing was changed; --apply calls the model, then asks again."
_LATER = "Nothing was changed; --apply sweeps, then shows the brief and asks again."
_OF_FAILURE = "If the model writes no text, a failed brief with the error is recorded, as the engine does."
_OF_DRAFT = "The engine would sweep first; a draft is applied to the context it was written from."
_EDIT_IT = 'edit "text" in it as you like.'


def _wish_document(wish: FocusWish) -> Document:
    mark = wish.made_from.watermark
    return {
        "focus": {
            **some_of(wish, "kind conversation_id prompt"),
            "madeFrom": [one.summary_id for one in wish.wanted],
            "madeFromTokens": wish.tokens,
            "coveredLatestAt": mark.latest_at,
            "coveredMessageSeq": mark.message_seq,
            "sourceContextHash": wish.made_from.digest,
            "carriesOn": None if wish.earlier is None else wish.earlier.brief_id,
        }
    }


def _read_text(path: Path) -> str:
    """The text of a file; of standard input for ``-``.

    Raises:
        NotFoundError: it cannot be read.
        RefusedError: it is not a text.
    """
    try:
        if str(path) == "-":
            raw = sys.stdin.buffer.read(_LARGEST_TEXT + 1)
            if len(raw) > _LARGEST_TEXT:
                raise ValueError(f"it is larger than {_LARGEST_TEXT:,} bytes")
        else:
            raw = read_limited(path, _LARGEST_TEXT, regular_only=False)
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise NotFoundError(
            f"The text {path} cannot be read ({reason_of(error)}): name a file with the text of the brief, "
            "or - for standard input. Nothing was changed.",
            code="FILE_NOT_FOUND",
        ) from None
    except ValueError as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else reason_of(error)
        raise RefusedError(
            f"The text {path} cannot be used ({why}). Nothing was changed.", code="TEXT_INVALID"
        ) from None
