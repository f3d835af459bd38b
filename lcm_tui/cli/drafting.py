"""``rewrite`` and ``repair``: forecast, drafts, a decision on each, commits one by one.

Without ``--apply`` and ``--draft`` no call is made and nothing is written. What is paid for is kept in a
private file until it is decided, so that ``--resume`` goes on after a stop or a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from lcm_core.base.errors import CancelledError, LcmError, NotFoundError, RefusedError, UsageError
from lcm_core.base.files import drafts_folder
from lcm_core.base.text import agree, counted, safe_text
from lcm_core.base.values import Record, field, replace, to_json
from lcm_core.change.backup import make_backup
from lcm_core.change.commit import commit_plan
from lcm_core.change.plan import Plan
from lcm_core.change.preview import as_one_plan, prepared_work_lost, preview_plan
from lcm_core.operations.batch import Batch, BatchOptions
from lcm_core.operations.drafting import (
    SETTLED,
    BatchItem,
    DraftSetting,
    ItemState,
    draft_setting,
    interrupted,
    messages_below,
    retention_of,
)
from lcm_core.operations.drafts import (
    EXAMPLES,
    AcceptanceRule,
    SavedDrafts,
    parse_rule,
    spent_to_json,
    unfinished,
)
from lcm_core.operations.stale import stale_in
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.writers.cost import CallBudget, Spent, total_forecast
from lcm_core.writers.request import ProviderUnavailableError
from lcm_core.writers.writer import SummaryWriter

from lcm_tui.cli import changing, output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.changing import Terminal
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.drafts import (
    Reviewed,
    draft_forecast_document,
    measured,
    model_document,
    modelling,
    outcome_document,
    read_drafts,
    refuse_existing,
    write_drafts,
)
from lcm_tui.cli.options import DraftFlags
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.cli.working import can_ask, interruptible
from lcm_tui.flows.drafts import DraftForecast, Work, draft
from lcm_tui.tables import drafts as drafts_view
from lcm_tui.tables.blocks import Note, OutputBlock

#: Summaries that a line for people names.
NAMED = 8
STOPPED = "Stopped. Applied drafts stay and the others are saved: --resume continues."


class Selection(Record, frozen=True):
    """What a command is about, with what it has to say besides."""

    items: Sequence[BatchItem]
    data: Document = field(default_factory=dict)
    blocks: Sequence[OutputBlock] = ()
    nothing: str = "Nothing to rewrite."


Select = Callable[[Reader], Awaitable[Selection]]


def run_drafts(run: Run, command: str, select: Select, flags: DraftFlags) -> Answer:
    """Forecast, draft or commit, as *flags* say."""
    ways = {"--draft": flags.draft, "--from-draft": flags.from_drafts, "--resume": flags.resume or None}
    given = [name for name, value in ways.items() if value is not None]
    if "--from-draft" in given and len(given) > 1:
        raise UsageError("--from-draft cannot be used with --draft or --resume.", details={"option": "draft"})
    if flags.draft is not None and flags.change.apply:
        raise UsageError(
            "--draft and --apply exclude each other: run --from-draft FILE --apply afterwards.",
            details={"option": "draft"},
        )
    if flags.change.sql and (flags.from_drafts is None or flags.change.apply):
        raise UsageError(
            f"{command} --sql requires --from-draft FILE and excludes --apply.",
            details={"option": "sql"},
        )
    rule = None if flags.accept is None else parse_rule(flags.accept)
    return _Drafting(run, command, select, flags, rule).do()


class _Drafting(Terminal):
    """One run of the command (`DraftsUi`)."""

    work: Work
    quiet = True  #: a line says how many are drafted

    def __init__(
        self, run: Run, command: str, select: Select, flags: DraftFlags, rule: AcceptanceRule | None
    ) -> None:
        super().__init__(run)
        self.command, self.select, self.flags, self.rule = command, select, flags, rule
        calls = flags.change.apply or flags.draft is not None
        self.model = modelling(run, flags.model, flags.prompt_dir, unasked=calls and flags.change.yes)
        self.line = ProgressLine(bar=False)
        self.failed: LcmError | None = None  #: what ended it
        self.file: Path | None = None  #: where the drafts were written for review
        self.kept = False  #: what is not decided can be gone on with
        self.items: Sequence[BatchItem] = ()  #: as far as they came
        self.data: Document = {}  #: of what came of them
        self.blocks: list[OutputBlock] = []

    def do(self) -> Answer:
        """Forecast, draft, or take what was reviewed."""
        flags = self.flags
        if flags.from_drafts is not None:
            return self._reviewed(flags.from_drafts)
        kept = self._kept() if flags.resume else None
        selection = Selection(kept.items) if kept is not None else self._selected()
        selection = self._with_prepared_work(selection)
        if not selection.items:
            blocks = [*selection.blocks, Note(selection.nothing)]
            return self.run.answer(self.command, {**selection.data, "items": [], "applied": False}, blocks)
        if not flags.change.apply and flags.draft is None:
            return self.run.work(partial(self._forecast, selection, kept))
        file = None if flags.draft is None else flags.draft.absolute()
        if file is not None:
            refuse_existing(file)
        try:
            self.run.work(partial(self._make, selection, kept, file))
        except KeyboardInterrupt:
            if self.asking:
                raise
            self.failed = CancelledError(STOPPED)
        return self._answer(selection)

    def _selected(self) -> Selection:
        """What the command line names; and whether something was stopped that could be gone on with."""
        selection = self.run.read(self.select)
        found = self._stopped()
        if not found:
            return selection
        data: Document = {"batch": found[0].header.batch, "startedAt": found[0].header.made_at}
        waiting = counted(found[0].open_items, "summary")
        said = Note(
            f"A {self.command} of this database, started at {found[0].header.made_at}, was stopped with "
            f"{waiting} undecided: --resume continues it without paying for a draft twice."
        )
        return replace(
            selection,
            data={**selection.data, "stopped": {**data, "undecided": found[0].open_items}},
            blocks=[*selection.blocks, said],
        )

    def _with_prepared_work(self, selection: Selection) -> Selection:
        """The same, with what the engine discards of its own when these texts change."""
        lost = self.run.read(prepared_work_lost, [item.summary_id for item in selection.items])
        notes = [Note(f"Warning: {one}.") for one in lost]
        return replace(
            selection, data={**selection.data, "warnings": list(lost)}, blocks=[*selection.blocks, *notes]
        )

    def _stopped(self) -> list[SavedDrafts]:
        return unfinished(drafts_folder(), self.run.settings.database.value, self.command)

    def _kept(self) -> SavedDrafts:
        found = self._stopped()
        if not found:
            raise NotFoundError(
                f"No {self.command} of this database was stopped: there is nothing to resume.",
                code="NOTHING_TO_RESUME",
            )
        return found[0]

    def setting(self, schema: Schema) -> DraftSetting:
        """How summaries of this database are drafted."""
        run, flags = self.run, self.flags
        return draft_setting(
            schema, run.settings.engine, run.zone, rules=flags.rules, previous=not flags.no_previous
        )

    @property
    def _words(self) -> str:
        return "nothing" if self.rule is None else self.rule.words.removeprefix("accept ")

    # -- without a call ----------------------------------------------------------------------------------

    async def _forecast(self, selection: Selection, kept: SavedDrafts | None, database: Database) -> Answer:
        seen, budget = await self._forecasts(selection, kept, database)
        whole = total_forecast(one.forecast for one in seen)
        most = budget.at_most(whole)
        data: Document = {
            **selection.data,
            "applied": False,
            "writer": model_document(self.model),
            "rule": None if self.rule is None else self.rule.words,
            "expected": to_json(whole.once),
            "atMost": to_json(most),
            "items": [draft_forecast_document(one) for one in seen],
        }
        blocks = [*selection.blocks, *drafts_view.draft_forecast_blocks(seen, most, self.model, self._words)]
        if kept is not None:
            reviews = [item for item in selection.items if interrupted(item).state is ItemState.REVIEW]
            made = [safe_text(item.summary_id) for item in reviews]
            data = {**data, "drafted": [*made], "spent": spent_to_json(kept.header.spent)}
            if made:
                few = ", ".join(made[:NAMED]) + (" …" if len(made) > NAMED else "")
                number = counted(len(made), "summary has a draft", "summaries have drafts")
                blocks.append(Note(f"{number} not yet decided: {few}."))
            blocks.append(Note(drafts_view.spent_words(kept.header.spent)))
        blocks.append(
            Note(
                "No call was made and nothing was changed; --draft FILE writes the drafts, --apply applies "
                "them."
            )
        )
        return self.run.answer(self.command, data, blocks)

    def _batch(
        self, selection: Selection, kept: SavedDrafts | None, database: Database, *, ahead: bool = False
    ) -> Work:
        setting, settings = self.setting(database.schema), self.run.settings
        at_once = settings.summary.in_flight.value
        how = BatchOptions(self.command, at_once, None if ahead else self.rule, ahead)
        return Work(database, settings, self.model, selection.items, how, setting=setting, kept=kept)

    async def _forecasts(
        self, selection: Selection, kept: SavedDrafts | None, database: Database
    ) -> tuple[list[DraftForecast], CallBudget]:
        """What is left to draft, and what that may take."""
        work, prompt = self._batch(selection, kept, database), self.flags.show_prompts
        try:
            left = (item for item in work.batch.items if item.state is ItemState.WAITING)
            return [await work.forecast(one.summary_id, prompt=prompt) for one in left], work.budget
        finally:
            await work.close()

    # -- with calls --------------------------------------------------------------------------------------

    async def _make(
        self, selection: Selection, kept: SavedDrafts | None, file: Path | None, database: Database
    ) -> None:
        self.database = database
        if self.flags.draft is None and self.rule is None and not self._asks:
            raise RefusedError(
                f"Not a terminal, cannot ask which drafts to accept: use --accept CONDITIONS ({EXAMPLES}), "
                "or write them with --draft FILE."
            )
        harmless = file is not None and not self.model.chosen.choice.base_url
        yes = self.flags.change.yes or harmless  # nothing is paid and nothing is changed
        forecast = [] if yes or not can_ask() else (await self._forecast(selection, kept, database)).blocks
        await self.ask(
            lambda: [*forecast][:-1], f"Draft {counted(len(selection.items), 'summary')}?", yes=yes
        )
        work = self.work = self._batch(selection, kept, database, ahead=file is not None)
        batch = work.batch
        try:
            await draft(self, work)
            if file is not None:
                self.data = {"file": str(file), **(await self._written(batch, file))}
                self.file = file
            self.failed = work.failed
        finally:
            self.line.clear()
            self.items = batch.items
            handed_over = self.file is not None and all(item.drafts for item in batch.items)
            self.kept = not (batch.finished or handed_over)
            await work.close(keep=self.kept)
        await self._tell(batch, work.budget.spent)
        if self.cancelled():
            self.failed = CancelledError(STOPPED)

    @property
    def _asks(self) -> bool:
        return can_ask() and not self.flags.change.yes and not self.run.presentation.json

    def changed(self) -> None:
        """A line that goes away."""
        self.line.show(drafts_view.progress_line(self.work.batch.progress(), self.work.budget.spent))

    async def decide(self) -> bool:
        """Ask about what no rule takes, one after the other."""
        self.line.clear()
        batch = self.work.batch
        undecided = [item for item in batch.items if item.state is ItemState.REVIEW]
        if batch.options.ahead or not self._asks or not undecided:
            return False
        for item in undecided:
            if not await self._ask(batch, item):
                return False
        return True

    async def _ask(self, batch: Batch, item: BatchItem) -> bool:
        """Show one draft and ask; False: the operator wants to stop."""
        draft = item.draft or item.drafts[-1]
        material = await batch.material(item.summary_id)
        kept = await retention_of(material, draft.text, batch.setting)
        now = await retention_of(material, material.base.content, batch.setting)
        messages = await batch.database.read(messages_below, material, batch.setting)
        below = await retention_of(material, draft.text, batch.setting, messages) if messages else None
        blocks = drafts_view.draft_blocks(item, draft, material, kept, now, below)
        if item.why:
            blocks.append(Note(item.why))
        output.print_aside(blocks, self.run.presentation)
        wanted = _decision(f"Use this text for {item.summary_id}?")  # no call is in flight that could wait
        if wanted == "y":
            with contextlib.suppress(LcmError):  # the item says why, and stays
                await batch.take(item.summary_id, draft.number)
        elif wanted == "n":
            batch.skip(item.summary_id, "Skipped.")
        return wanted != "q"

    async def _written(self, batch: Batch, file: Path) -> Document:
        """The drafts in a file; those that the rule takes are marked so."""
        taken = set()
        if self.rule is not None:
            for item in batch.items:
                if item.draft is not None and not await batch.objections(item.summary_id, self.rule):
                    taken.add(item.summary_id)
        rule = None if self.rule is None else self.rule.words
        described: Document = {"database": str(self.run.settings.database.value.resolve()), "rule": rule}
        kept = {item.summary_id: await measured(batch, item) for item in batch.items}
        write_drafts(file, self.command, batch.id, batch.items, frozenset(taken), described, kept)
        return {"marked": sorted(taken), "retention": {str(one): found for one, found in kept.items()}}

    # -- reviewed drafts (--from-draft) -------------------------------------------------------------------

    def _reviewed(self, path: Path) -> Answer:
        """Show which drafts of a file would be taken, or take them."""
        reviewed, flags = read_drafts(path, self.command), self.flags.change
        items = [
            replace(item, state=ItemState.REVIEW)
            for item in reviewed.items
            if item.summary_id in reviewed.taken or (self.rule is not None and item.draft is not None)
        ]
        if not items:
            note = Note(f"No draft in {path} is marked: set take to true, or use --accept CONDITIONS.")
            data: Document = {"items": [], "applied": False, "file": str(path)}
            return self.run.answer(self.command, data, [note])
        if flags.sql:
            with interruptible():
                script = self.run.work(partial(self._script, items, reviewed))
            told = self._planned(items, reviewed, path)
            data = {**told.data, "sql": list(script)}
            return replace(told, data=data, blocks=[*told.blocks, Note(changing.ABOUT_SQL)], script=script)
        if not flags.apply:
            return self._planned(items, reviewed, path)
        self.data = {"file": str(path)}
        self.run.work(partial(self._take, items, reviewed))
        return self._answer(Selection(items))

    def _planned(self, items: Sequence[BatchItem], reviewed: Reviewed, path: Path) -> Answer:
        documents = [{**outcome_document(one), "take": one.summary_id in reviewed.taken} for one in items]
        data: Document = {"file": str(path), "applied": False, "items": documents}
        number = counted(len(items), "draft")
        note = Note(f"{number} would be applied; nothing was changed, --apply applies them.")
        return self.run.answer(self.command, data, [*drafts_view.taken_blocks(items), note])

    @contextlib.asynccontextmanager
    async def _batch_of(
        self, items: Sequence[BatchItem], reviewed: Reviewed, database: Database
    ) -> AsyncIterator[tuple[Batch, SummaryWriter]]:
        how, writer = BatchOptions(self.command), self.model.open()
        try:
            setting = self.setting(database.schema)
            yield Batch(database, items, setting, writer, how, batch_id=reviewed.batch), writer
        finally:
            await writer.aclose()

    async def _take(self, items: Sequence[BatchItem], reviewed: Reviewed, database: Database) -> None:
        self.database = database
        await self.ask(lambda: (), f"Apply {counted(len(items), 'draft')}?", yes=self.flags.change.yes)
        async with self._batch_of(items, reviewed, database) as (batch, writer):
            with self.working("Applying the drafts"):
                for item in batch.items:
                    if self.cancelled():
                        self.failed = CancelledError("Cancelled. Applied drafts stay.")
                        break
                    await self._take_one(batch, item, marked=item.summary_id in reviewed.taken)
            await self._tell(batch, writer.meter.budget.spent)

    async def _take_one(self, batch: Batch, item: BatchItem, *, marked: bool) -> None:
        """Commit one draft; what is against it is said of the item, and the next one is tried."""
        if not marked and self.rule is not None:
            objections = await batch.objections(item.summary_id, self.rule)
            if objections:
                batch.skip(item.summary_id, " ".join(objections))
                return
        with contextlib.suppress(LcmError):
            await batch.take(item.summary_id)

    async def _script(
        self, items: Sequence[BatchItem], reviewed: Reviewed, database: Database
    ) -> tuple[str, ...]:
        """The SQL of the drafts that would be taken, as one transaction.

        Raises:
            LcmError: a summary is not what its draft was made from (docs/spec/changes.md, "As SQL").
        """
        async with self._batch_of(items, reviewed, database) as (batch, _):
            taken = [
                item
                for item in batch.items
                if item.draft is not None
                and (
                    item.summary_id in reviewed.taken
                    or self.rule is None
                    or not await batch.objections(item.summary_id, self.rule)
                )
            ]
            plans = [plan for plan in await _in_turn(database, taken, batch) if plan]
            return await database.read(_sql_of, plans)

    # -- what came of them -------------------------------------------------------------------------------

    async def _tell(self, batch: Batch, spent: Spent) -> None:
        """Say what came of a batch."""
        items = self.items = batch.items
        committed = [item for item in items if item.state is ItemState.COMMITTED]
        undo = self.run.undo_of_batch(batch.id) if committed else ""
        owners = dict.fromkeys(item.conversation_id for item in committed)
        stale = [(owner, one) for owner in owners for one in await batch.database.read(stale_in, owner)]
        progress = batch.progress()
        self.data |= {
            "applied": bool(committed) and batch.finished,
            "batch": batch.id,
            "writer": model_document(self.model),
            "rule": None if self.rule is None else self.rule.words,
            "usage": to_json(progress.usage),
            "spent": spent_to_json(spent),
            "counts": {state.value: progress.counts.get(state, 0) for state in ItemState},
            "undo": undo or None,
            "items": [outcome_document(item) for item in items],
            "stale": [some_of(one, "summary_id sources") for _, one in stale],
        }
        self.blocks = drafts_view.outcome_blocks(items, progress, spent, undo)
        if stale:
            number = counted(len(stale), "summary was", "summaries were")
            owners = dict.fromkeys(owner for owner, _ in stale)
            lines = " ; ".join(f"`{self.run.line('rewrite', str(owner), '--stale')}`" for owner in owners)
            since = f"{number} made from texts that were rewritten since"
            self.blocks.append(Note(f"{since}. To rewrite them and what was made from them: {lines}."))
        if self.file is not None:
            take = self.run.line(self.command, "--from-draft", str(self.file), "--apply")
            words = f"Drafts are in {self.file}: set take to true for the drafts to apply, then `{take}`."
            self.blocks.append(Note(f"{words} Nothing was changed."))

    def _answer(self, selection: Selection) -> Answer:
        """The answer; exit code 10 when only part of it was done.

        Raises:
            LcmError: what ended the run, when nothing at all came of it.
        """
        failed, items = self.failed, self.items
        if failed is not None and not any(item.drafts or item.state in SETTLED for item in items):
            raise failed
        kept = " The drafts are saved: --resume continues." if self.kept else ""
        if isinstance(failed, ProviderUnavailableError):
            failed = CancelledError(f"{failed.message}{kept}", code=failed.code, details=failed.details)
        left = sum(item.state not in SETTLED for item in items)
        without = sum(not item.drafts for item in items)
        if failed is None and self.file is None and left:
            words = f"{_of_all(left, items, 'were not applied')}; the reason is listed.{kept}"
            failed = CancelledError(words, code="BATCH_IN_PART")
        if failed is None and self.file is not None and without:
            words = f"{_of_all(without, items, 'have no draft')}; the reason is listed."
            failed = CancelledError(words, code="BATCH_IN_PART")
        blocks = [*selection.blocks, *self.blocks]
        if failed is not None:
            blocks.append(Note(failed.message))
        return self.run.answer(self.command, {**selection.data, **self.data}, blocks).in_part(failed)


def _of_all(number: int, items: Sequence[BatchItem], words: str) -> str:
    """How many of the summaries *words* are true of; they begin with a verb in the plural."""
    return f"{number:,} of {counted(len(items), 'summary')} {agree(number, words)}"


async def _in_turn(database: Database, items: Sequence[BatchItem], batch: Batch) -> list[Plan]:
    """The plan of each draft, planned on what those before it leave.

    Several are made on a private copy of the file in which each is committed in its turn.
    """
    if len(items) < 2:
        return [await database.read(_plan, item, batch) for item in items]
    plans: list[Plan] = []
    with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
        copy = Path(folder) / "copy.db"
        await asyncio.to_thread(make_backup, database.path, copy)
        async with await Database.open(copy) as after:
            for item in items:
                plan = await after.read(_plan, item, batch)
                if plan:
                    await commit_plan(after, plan)
                    plans.append(plan)
    return plans


async def _plan(reader: Reader, item: BatchItem, batch: Batch) -> Plan:
    assert item.draft is not None  # only those are taken
    return await batch.plan(reader, item, item.draft)


async def _sql_of(reader: Reader, plans: Sequence[Plan]) -> tuple[str, ...]:
    """Their script: a batch is joined as for a preview, where edits see what edits before them do."""
    return tuple((await preview_plan(reader, as_one_plan(plans))).sql()) if plans else ()


def _decision(question: str) -> str:
    """``y`` take, ``n`` leave as it is, ``q`` stop."""
    while True:
        sys.stderr.write(f"{question} [y/n/q] ")
        sys.stderr.flush()
        given = sys.stdin.readline()
        answer = given.strip().lower()[:1]
        if not given or answer in ("y", "n", "q"):
            return answer or "q"
