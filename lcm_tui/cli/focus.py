"""``focus``: briefs listed and shown, written and put in force with the sweep around it, cleared, deleted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from lcm_core.base.errors import CancelledError, ExitCode, LcmError, NotFoundError, RefusedError, UsageError
from lcm_core.base.files import read_limited, reason_of
from lcm_core.base.javascript import Json
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted, safe_line
from lcm_core.base.values import Record, Struct, replace
from lcm_core.change.journal import BRIEF_BATCH, new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.operations.focus import (
    CURED_BY_SWEEP,
    BriefDraft,
    BriefEntry,
    FocusKind,
    FocusWish,
    check_known_to_engine,
    drop_draft,
    load_briefs,
    plan_activate_brief,
    plan_clear_brief,
    plan_delete_brief,
    read_draft,
    write_draft,
)
from lcm_core.operations.selection import Mode
from lcm_core.store.database import Database, Reader
from lcm_core.store.focus import briefs_beginning
from lcm_core.store.listing import CANDIDATES, the_one
from lcm_core.writers.briefing import BriefQuestion
from lcm_core.writers.cost import CallBudget
from lcm_core.writers.writer import call_budget

from lcm_tui.cli import compact as compact_report
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.asking import at_most, flagged_model, forecast_blocks, forecast_document
from lcm_tui.cli.changing import Proposal, run_change
from lcm_tui.cli.compact import CompactWork
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafts import model_document, modelling, spent_document
from lcm_tui.cli.options import BriefOptions, ChangeFlags, ModelOptions, Selector
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.cli.selecting import as_text, chosen
from lcm_tui.cli.working import show_and_ask
from lcm_tui.flows.compaction import CompactionRun, CompactionWish
from lcm_tui.flows.drafts import Modelling, spent_text
from lcm_tui.flows.focus import BriefWork
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Facts, Note, json_names, json_of
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.compaction import ShownCompaction, planned_compaction
from lcm_tui.tables.focus import (
    BRIEF_COLUMNS,
    NO_SWEEP,
    ListedBrief,
    brief_blocks,
    briefs_blocks,
    draft_blocks,
    wish_blocks,
)

_LARGEST_TEXT = 4 * 1024 * 1024


# -- looking ---------------------------------------------------------------------------------------------


def list_briefs(run: Run, named: Selector) -> Answer:
    """The briefs of a conversation."""

    async def load(reader: Reader) -> tuple[ConversationId, Sequence[BriefEntry]]:
        owner = (await chosen(reader, named)).conversation_id
        check_known_to_engine(reader)
        return owner, await load_briefs(reader, owner)

    owner, entries = run.read(load)
    data: Document = {"conversationId": owner, "items": [entry_document(one) for one in entries]}
    return run.answer(
        "focus.list",
        data,
        briefs_blocks([_listed(_shown(one)) for one in entries], run.clock),
        names=json_names(BRIEF_COLUMNS),
    )


def show_brief(run: Run, wanted: str) -> Answer:
    """One brief with its text."""

    async def load(reader: Reader) -> BriefEntry:
        brief_id, owner = await brief_beginning(reader, wanted)
        [found] = await load_briefs(reader, owner, only=brief_id, with_tokens=True)
        return found

    entry = run.read(load)
    document = {**entry_document(entry), "content": entry.brief.content}
    return run.answer("focus.show", document, brief_blocks(_shown(entry), run.clock))


def _shown(entry: BriefEntry) -> BriefEntry:
    return replace(entry, brief=as_text(entry.brief))


def entry_document(entry: BriefEntry) -> Document:
    """A brief without its text, for programs."""
    return json_of(BRIEF_COLUMNS, _listed(entry))


def _listed(entry: BriefEntry) -> ListedBrief:
    return ListedBrief(entry.brief, entry.is_active, entry)


async def brief_beginning(reader: Reader, wanted: str) -> tuple[str, ConversationId]:
    """The brief whose id is *wanted*, or the only one whose id begins so, and its conversation.

    Raises:
        NotFoundError: there is none.
        UsageError: there are several.
        RefusedError: this version has no briefs.
    """
    check_known_to_engine(reader)
    found = dict(await briefs_beginning(reader, wanted, CANDIDATES + 1))
    if not found:
        raise NotFoundError(
            f"No focus brief matched id {safe_line(wanted)}.",
            code="BRIEF_NOT_FOUND",
            details={"briefId": wanted},
        )
    brief_id = the_one(wanted, list(found), "focus briefs", "briefId")
    return brief_id, found[brief_id]


# -- briefs that are there -------------------------------------------------------------------------------


def activate_brief(run: Run, wanted: str, flags: ChangeFlags) -> Answer:
    """Put an older brief in force."""

    async def plan(reader: Reader) -> Plan:
        brief_id, owner = await brief_beginning(reader, wanted)
        return await plan_activate_brief(reader, owner, brief_id)

    return run_change(run, "focus.activate", plan, flags)


def delete_brief(run: Run, wanted: str, flags: ChangeFlags) -> Answer:
    """Delete a brief."""

    async def plan(reader: Reader) -> Plan:
        brief_id, owner = await brief_beginning(reader, wanted)
        return await plan_delete_brief(reader, owner, brief_id)

    return run_change(run, "focus.delete", plan, flags)


def clear_brief(
    run: Run, named: Selector, sweep: bool, budget: int | None, model: ModelOptions, flags: ChangeFlags
) -> Answer:
    """Take the active brief out of force, then sweep as the engine does; both are one batch."""
    owner, sweeping = _around(run, named, sweep, budget, modelling(run, model), new_batch_id())
    _check_sql(flags, sweeping)

    async def plan(reader: Reader) -> Proposal:
        batch = sweeping.batch if sweeping.passes else None
        cleared = await plan_clear_brief(reader, owner, batch=batch)
        return Proposal((cleared,), data={"sweep": sweeping.document}, blocks=sweeping.blocks(after=True))

    answer = run_change(run, "focus.clear", plan, flags, budget=budget)
    if not flags.apply or answer.exit_code is not ExitCode.DONE or not sweeping.passes:
        return answer
    try:
        sweeping.make()
    except LcmError as error:
        error.message = f"{error.message} The brief was cleared; the sweep was not made."
        sweeping.failed = error
    told = sweeping.behind(answer)
    if sweeping.failed is not None:
        told = replace(told, blocks=[*told.blocks, Note(sweeping.failed.message)])
    return told.in_part(sweeping.failed)


# -- the sweep around it ---------------------------------------------------------------------------------


class _Sweeping(Struct):
    """The sweep that the engine forces: foreseen, made, and told of. One batch with the brief."""

    run: Run
    work: CompactWork
    shown: ShownCompaction | None  #: None: it is left out
    batch: str
    done: CompactionRun | None = None
    failed: LcmError | None = None

    @property
    def passes(self) -> int:
        """How many are due."""
        return 0 if self.shown is None else len(self.shown.forecast.passes)

    @property
    def document(self) -> Json:
        """The sweep for programs; null when it is left out."""
        if self.shown is None:
            return None
        made = [] if self.done is None else self.done.made
        return {
            **compact_report.document(self.shown),
            "batch": self.batch if made else None,
            "made": [compact_report.step_document(one) for one in made],
        }

    def blocks(self, *, after: bool = False) -> list[Block]:
        """What it would do, for people."""
        if self.shown is None:
            return [Note(NO_SWEEP)]
        when = "after it" if after else "first"
        if not self.passes:
            return [Note(f"The engine sweeps {when}: there is nothing to compact.")]
        return [
            *planned_compaction(self.shown),
            Note(f"The engine sweeps {when}, and so does --apply; --no-sweep skips it."),
        ]

    def make(self, brief: BriefWork | None = None) -> None:
        """Make the passes; the *brief* behind them belongs to their batch.

        Raises:
            LcmError: none was made.
        """
        if self.shown is not None and self.passes:
            self.done = self.work.make(self.shown, self.batch)
            self.failed = self.done.failed
            if brief is not None:
                brief.swept = bool(self.done.made)

    def behind(self, answer: Answer) -> Answer:
        """The answer of the brief with what the sweep did, and how all of it is taken back."""
        if self.done is None or not self.done.made:
            return answer
        undo = self.run.undo_of_batch(self.batch)
        facts = Facts(
            [("Passes", len(self.done.made)), ("Tokens in context", f"{-self.done.saved:+,}")], title="Sweep"
        )
        return replace(
            answer,
            data={**answer.data, "sweep": self.document, "batch": self.batch, "undo": undo},
            blocks=[*answer.blocks, facts, Facts([("To undo all of it", undo)])],
        )


def _around(
    run: Run,
    named: Selector,
    wanted: bool,
    budget: int | None,
    model: Modelling,
    batch: str,
    spending: CallBudget | None = None,
) -> tuple[ConversationId, _Sweeping]:
    """The conversation, and the sweep around a change of its briefs."""
    work = CompactWork(
        run,
        named,
        CompactionWish(Mode.SWEEP, budget_for(run.settings, budget)),
        model,
        spending=spending,
    )

    async def known(reader: Reader) -> ConversationId:
        owner = (await chosen(reader, named)).conversation_id
        check_known_to_engine(reader)
        return owner

    owner = run.read(known)
    return owner, _Sweeping(run, work, work.forecast() if wanted else None, batch)


# -- a new text ------------------------------------------------------------------------------------------


def create_brief(run: Run, prompt: str, options: BriefOptions) -> Answer:
    """Write a new brief."""
    return _FocusWork(run, FocusKind.CREATE, prompt, options).do()


def refocus_brief(run: Run, options: BriefOptions) -> Answer:
    """Write the active brief again."""
    return _FocusWork(run, FocusKind.REFOCUS, "", options).do()


class _FocusWork(Record, frozen=True):
    """One run of ``focus create`` or ``focus refocus``."""

    run: Run
    kind: FocusKind
    prompt: str
    options: BriefOptions

    @property
    def word(self) -> str:
        """The command's second word."""
        return "create" if self.kind is FocusKind.CREATE else "refocus"

    @property
    def command(self) -> str:
        """The command, dotted."""
        return f"focus.{self.word}"

    def do(self) -> Answer:
        """Show what would be done; with ``--apply`` sweep, have it written, show it, ask, and commit."""
        given, sweeper = self.options, modelling(self.run, self.options.model)
        named = flagged_model(self.run, given.model)
        spending = call_budget(sweeper.settings)
        sweeps = not given.no_sweep and given.draft is None and given.from_draft is None
        batch = new_batch_id(BRIEF_BATCH)
        owner, sweeping = _around(
            self.run,
            given.conversation.selector(self.command),
            sweeps,
            given.budget,
            sweeper,
            batch,
            spending,
        )
        _check_sql(given.flags, sweeping)
        work = BriefWork(
            self.run.settings, owner, self.kind, self.prompt, author=named, budget=spending, batch=batch
        )
        if given.from_draft is not None:
            work.draft = self._kept(owner, given.from_draft)
            return self._commit(work, sweeping, [Note(_OF_DRAFT)])
        if given.text is not None:
            return self._by_hand(work, sweeping, _read_text(given.text))
        if named is None:
            raise UsageError(
                f"focus {self.word} needs a text: --text FILE, or name a model with --provider or --model.",
                details={"option": "text"},
            )
        return self._by_model(work, sweeping, named)

    # -- by hand -----------------------------------------------------------------------------------------

    def _by_hand(self, work: BriefWork, sweeping: _Sweeping, text: str) -> Answer:
        """A text that the operator wrote."""
        if self.options.flags.apply and sweeping.passes:
            question = f"Sweep conversation {work.owner} first?"
            show_and_ask(sweeping.blocks, question, self.run.presentation, yes=self.options.flags.yes)
            sweeping.make(work)
            if sweeping.failed is not None:
                return self._swept_alone(sweeping, sweeping.failed)

        async def plan(reader: Reader) -> Proposal:
            work.draft = None  # over the context as it is now
            try:
                await work.take(reader, text)
            except RefusedError as error:
                if error.code not in CURED_BY_SWEEP or not sweeping.passes or sweeping.done is not None:
                    raise
                note = Note("The sweep makes the summaries; what the brief replaces is known after it.")
                return Proposal(
                    (),
                    data={"sweep": sweeping.document},
                    blocks=[*sweeping.blocks(), note],
                    nothing=_LATER,
                )
            made = await work.plan(reader)
            blocks = [] if sweeping.done is not None else sweeping.blocks()
            data = {"sweep": sweeping.document, **_draft_document(work)}
            return Proposal((made,), data=data, blocks=blocks)

        return self._changed(work, sweeping, plan)

    def _changed(
        self, work: BriefWork, sweeping: _Sweeping, plan: Callable[[Reader], Awaitable[Proposal]]
    ) -> Answer:
        """Show the plan of the brief and commit it; what was made before stays, and is told of."""
        try:
            answer = run_change(self.run, self.command, plan, self.options.flags, budget=self.options.budget)
        except (LcmError, KeyboardInterrupt) as caught:
            error = caught if isinstance(caught, LcmError) else CancelledError(_CANCELLED)
            if work.draft is not None and work.draft.path is not None:
                again = self._again(work.owner, work.draft.path)
                error.message = f"{error.message} The draft was kept; to use it: {again}"
            if sweeping.done is not None and sweeping.done.made:
                return self._swept_alone(sweeping, error)
            raise error from None
        if answer.data.get("applied") is True:
            asyncio.run(work.committed())
        return sweeping.behind(answer)

    def _again(self, owner: ConversationId, path: Path) -> str:
        return self.run.line("focus", self.word, str(owner), "--from-draft", str(path), "--apply")

    def _swept_alone(self, sweeping: _Sweeping, failed: LcmError) -> Answer:
        """The sweep was made, at least in part, and no brief was written."""
        blocks: list[Block] = [Note(f"{failed.message} The passes of the sweep stay; no brief was written.")]
        answer = self.run.answer(self.command, {"applied": False, "sweep": sweeping.document}, blocks)
        return sweeping.behind(answer).in_part(failed)

    # -- by a draft --------------------------------------------------------------------------------------

    def _kept(self, owner: ConversationId, path: Path) -> BriefDraft:
        kept = read_draft(path)
        here = str(self.run.settings.database.value.resolve())
        if kept.wish.conversation_id != owner or kept.wish.kind is not self.kind or kept.database != here:
            what = f"{kept.wish.kind} of conversation {kept.wish.conversation_id} in {kept.database}"
            raise RefusedError(
                f"The draft {path} is for {safe_line(what)}. Nothing was changed.", code="OTHER_DRAFT"
            )
        return replace(kept, batch="")  # the sweep of that run is no part of this one

    def _commit(
        self, work: BriefWork, sweeping: _Sweeping, blocks: Sequence[Block], data: Document | None = None
    ) -> Answer:
        """Put a draft in force."""

        async def plan(reader: Reader) -> Proposal:
            made = await work.plan(reader)
            assert work.draft is not None  # else it was refused
            text = work.draft.text
            shown = {**_draft_document(work), "text": text.content, "writerName": text.writer}
            return Proposal(
                (made,),
                data={"sweep": sweeping.document, **shown, **(data or {})},
                blocks=[*blocks, *draft_blocks(text, work.retention)],
            )

        return self._changed(work, sweeping, plan)

    # -- by a model --------------------------------------------------------------------------------------

    def _by_model(self, work: BriefWork, sweeping: _Sweeping, named: Modelling) -> Answer:
        """A text that a model writes when that was agreed to."""
        found: FocusWish | None
        try:
            found, question = self.run.read(work.question)
        except RefusedError as error:
            if error.code not in CURED_BY_SWEEP or not sweeping.passes:
                raise
            found, question = None, BriefQuestion(self.prompt, ())
        forecast, asking = work.forecast(question), work.model()
        assert forecast is not None  # a model was named
        assert asking is not None
        most = at_most(asking, forecast)
        data: Document = {
            "sweep": sweeping.document,
            "writer": model_document(named),
            **forecast_document(forecast, most),
        }
        blocks = [
            *(sweeping.blocks() if self.options.draft is None else []),
            *([] if found is None else wish_blocks(found)),
            *forecast_blocks(named, forecast, most, when="if it asks for nothing more"),
            *([] if self.options.draft is not None else [Note(_OF_FAILURE)]),
        ]
        if not (self.options.flags.apply or self.options.draft is not None):
            data |= {"applied": False, **({} if found is None else _wish_document(found))}
            return self.run.answer(self.command, data, [*blocks, Note(_NO_CALL)])
        first = "sweep and " if sweeping.passes else ""
        show_and_ask(
            lambda: blocks,
            f"{first}call {named.words}?".capitalize(),
            self.run.presentation,
            yes=self.options.flags.yes,
        )
        sweeping.make(work)
        if sweeping.failed is not None:
            return self._swept_alone(sweeping, sweeping.failed)
        try:
            self._write(work)
        except (LcmError, KeyboardInterrupt) as caught:
            failed = caught if isinstance(caught, LcmError) else CancelledError(_CANCELLED)
            if work.failed is not None and self.options.draft is None:
                return self._record(work, named, sweeping, failed)
            if sweeping.done is None or not sweeping.done.made:
                raise failed from None
            return self._swept_alone(sweeping, failed)
        assert work.draft is not None  # it was written
        spent_so_far = asking.meter.budget.spent
        spent: Document = {"writer": model_document(named), "spent": spent_document(spent_so_far)}
        facts = Facts([("Calls", spent_so_far.calls), ("Cost", spent_text(spent_so_far.usage))])
        if self.options.draft is not None:
            path = write_draft(self.options.draft, work.draft)
            drop_draft(work.draft.path)
            told = [*draft_blocks(work.draft.text, work.retention), facts]
            told.append(Note(f"Written to {path}: {_EDIT_IT}"))
            told.append(Note(f"To use it: {self._again(work.owner, path)}"))
            written: Document = {"applied": False, "draft": str(path), **_draft_document(work), **spent}
            return self.run.answer(self.command, written, told)
        return self._commit(work, sweeping, [facts], spent)

    def _write(self, work: BriefWork) -> None:
        """Have it written, and say how far that is."""
        line = ProgressLine(bar=False)
        work.changed = lambda: line.show(work.busy) if work.busy else None

        async def write(database: Database) -> None:
            try:
                await work.write(database)
            finally:
                await work.close()

        try:
            self.run.work(write)
        finally:
            line.clear()

    def _record(self, work: BriefWork, named: Modelling, sweeping: _Sweeping, failed: LcmError) -> Answer:
        """Leave the row that the engine leaves when nobody wrote a text: that was agreed to with the call."""
        assert work.failed is not None  # it is that which is recorded
        assert work.budget is not None
        flags = replace(self.options.flags, yes=True)
        try:
            answer = run_change(self.run, self.command, work.plan_failure, flags, budget=self.options.budget)
        except LcmError as error:
            failed.message = f"{failed.message} The failed brief was not recorded: {error.message}"
            if sweeping.done is None or not sweeping.done.made:
                raise failed from None
            return self._swept_alone(sweeping, failed)
        wish, _ = work.failed
        spent = {"writer": model_document(named), "spent": spent_document(work.budget.spent)}
        data: Document = {"sweep": sweeping.document, **answer.data, **_wish_document(wish), **spent}
        told = replace(answer, data=data, blocks=[Note(failed.message), *answer.blocks])
        if sweeping.done is not None and sweeping.done.made:
            return sweeping.behind(told).in_part(failed)
        return replace(told, exit_code=failed.exit_code, failed=failed)


def _check_sql(flags: ChangeFlags, sweeping: _Sweeping) -> None:
    """Refuse SQL that could not hold all that would be done."""
    if flags.sql and sweeping.passes:
        passes = counted(sweeping.passes, "pass")
        raise UsageError(
            f"--sql cannot include the sweep ({passes}): its summaries are not written yet. Add --no-sweep.",
            details={"option": "sql"},
        )


_CANCELLED = "Cancelled."
_NO_CALL = "No call was made and nothing was changed; --apply calls the model, then asks again."
_LATER = "Nothing was changed; --apply sweeps, then shows the brief and asks again."
_OF_FAILURE = "If the model writes no text, a failed brief with the error is recorded, as the engine does."
_OF_DRAFT = "The engine would sweep first; a draft is applied to the context it was written from."
_EDIT_IT = 'edit "text" in it as you like.'


def _draft_document(work: BriefWork) -> Document:
    return {} if work.draft is None else _wish_document(work.draft.wish)


def _wish_document(wish: FocusWish) -> Document:
    mark = wish.made_from.watermark
    return {
        "focus": {
            "kind": wish.kind.value,
            "conversationId": wish.conversation_id,
            "prompt": wish.prompt,
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
