"""``rewrite`` and ``repair``: forecast, drafts, a decision on each, commits one by one.

Without ``--apply`` and ``--draft`` no call is made and nothing is written. What is paid for is kept in a
private file until it is decided, so that ``--resume`` goes on after a stop or a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from lcm_core.base.errors import CancelledError, LcmError, NotFoundError, RefusedError, UsageError
from lcm_core.base.files import drafts_folder
from lcm_core.base.records import SummaryId
from lcm_core.base.text import counted, safe_text
from lcm_core.base.values import Record, replace
from lcm_core.change.plan import Plan
from lcm_core.change.prepared import prepared_work_lost
from lcm_core.operations.batch import Batch, BatchOptions
from lcm_core.operations.drafting import (
    BatchItem,
    DraftSetting,
    ItemState,
    draft_setting,
    interrupted,
    messages_below,
    retention_of,
    select_items,
)
from lcm_core.operations.drafts import (
    EXAMPLES,
    AcceptanceRule,
    SavedDrafts,
    parse_rule,
    unfinished,
)
from lcm_core.operations.repair import SURE, BadKind, RepairList, conversations_of, find_repair
from lcm_core.operations.rewrite import plan_restore
from lcm_core.operations.stale import stale_in
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.writers.cost import CallBudget, total_forecast

from lcm_tui.cli import changing, output
from lcm_tui.cli import drafts as modelling
from lcm_tui.cli import drafts as report
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafts import (
    STOPPED,
    Outcome,
    Selection,
    Taking,
    answer_of,
    measured,
    model_document,
    refuse_existing,
    tell,
    write_drafts,
)
from lcm_tui.cli.options import ChangeFlags, DraftFlags, Selector
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.cli.selecting import chosen, owner_of, summary_beginning
from lcm_tui.cli.working import can_ask, interruptible, show_and_ask
from lcm_tui.flows.drafts import DraftForecast, Modelling, Work
from lcm_tui.tables import drafts as drafts_view
from lcm_tui.tables.blocks import Note, OutputBlock, OutputColumn, Table
from lcm_tui.tables.drafts import MOST

#: Summaries that a line for people names.
NAMED = 8
Select = Callable[[Reader], Awaitable[Selection]]


def run_drafts(run: Run, command: str, select: Select, flags: DraftFlags) -> Answer:
    """Forecast, draft or commit, as *flags* say."""
    ways = {"--draft": flags.draft, "--from-drafts": flags.from_drafts, "--resume": flags.resume or None}
    given = [name for name, value in ways.items() if value is not None]
    if "--from-drafts" in given and len(given) > 1:
        raise UsageError(
            "--from-drafts cannot be used with --draft or --resume.", details={"option": "draft"}
        )
    if flags.draft is not None and flags.change.apply:
        raise UsageError(
            "--draft and --apply exclude each other: run --from-drafts FILE --apply afterwards.",
            details={"option": "draft"},
        )
    if flags.change.sql and (flags.from_drafts is None or flags.change.apply):
        raise UsageError(
            f"{command} --sql requires --from-drafts FILE and excludes --apply.",
            details={"option": "sql"},
        )
    rule = None if flags.accept is None else parse_rule(flags.accept)
    work = _Work(
        run,
        command,
        select,
        flags,
        rule,
        modelling.modelling(run, flags.model, flags.prompt_dir),
        flags.in_flight,
    )
    return work.do()


class _Work(Record, frozen=True):
    """One run of the command."""

    run: Run
    command: str
    select: Select
    flags: DraftFlags
    rule: AcceptanceRule | None
    model: Modelling
    in_flight: int

    def do(self) -> Answer:
        flags = self.flags
        if flags.from_drafts is not None:
            return Taking(self.run, self.command, flags.from_drafts, self.rule, self.model, flags.change).do(
                self.setting
            )
        kept = self._kept() if flags.resume else None
        selection = Selection(kept.items) if kept is not None else self._selected()
        selection = self._with_prepared_work(selection)
        if not selection.items:
            blocks = [*selection.blocks, Note(selection.nothing)]
            return self.run.answer(self.command, {**selection.data, "items": [], "applied": False}, blocks)
        if not flags.change.apply and flags.draft is None:
            return self._forecast(selection, kept)
        file = None if flags.draft is None else flags.draft.absolute()
        if file is not None:
            refuse_existing(file)
        self._agree(selection, kept)
        return answer_of(self.run, self.command, selection, self._carry_out(selection, kept, file))

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
        return setting_of(self.run, schema, self.flags.rules, previous=not self.flags.no_previous)

    @property
    def _words(self) -> str:
        return "nothing" if self.rule is None else self.rule.words.removeprefix("accept ")

    # -- without a call ----------------------------------------------------------------------------------

    def _forecast(self, selection: Selection, kept: SavedDrafts | None = None) -> Answer:
        seen, budget = self.run.work(partial(self._forecasts, selection, kept))
        whole = total_forecast(one.forecast for one in seen)
        most = budget.at_most(whole)
        data: Document = {
            **selection.data,
            "applied": False,
            "writer": model_document(self.model),
            "rule": None if self.rule is None else self.rule.words,
            "expected": report.load_document(whole.once),
            "atMost": report.load_document(most),
            "items": [report.draft_forecast_document(one) for one in seen],
        }
        blocks = [*selection.blocks, *drafts_view.draft_forecast_blocks(seen, most, self.model, self._words)]
        if kept is not None:
            reviews = [item for item in selection.items if interrupted(item).state is ItemState.REVIEW]
            made = [safe_text(item.summary_id) for item in reviews]
            data = {**data, "drafted": [*made], "spent": report.spent_document(kept.header.spent)}
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
        how = BatchOptions(self.command, self.in_flight, None if ahead else self.rule, ahead)
        setting, settings = self.setting(database.schema), self.run.settings
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

    def _agree(self, selection: Selection, kept: SavedDrafts | None) -> None:
        if self.flags.draft is None and self.rule is None and not self._asks:
            raise RefusedError(
                f"Not a terminal, cannot ask which drafts to accept: use --accept RULE ({EXAMPLES}), or "
                "write them with --draft FILE."
            )
        harmless = self.flags.draft is not None and not self.model.chosen.choice.base_url
        show_and_ask(
            lambda: [*self._forecast(selection, kept).blocks][:-1],
            f"Draft {counted(len(selection.items), 'summary')}?",
            self.run.presentation,
            yes=self.flags.change.yes or harmless,  # nothing is paid and nothing is changed
        )

    def _carry_out(self, selection: Selection, kept: SavedDrafts | None, file: Path | None) -> Outcome:
        done = Outcome()
        try:
            with interruptible() as stopped:
                self.run.work(partial(self._make, selection, kept, file, done, stopped))
        except KeyboardInterrupt:
            done.failed = CancelledError(STOPPED)
        return done

    async def _make(
        self,
        selection: Selection,
        kept: SavedDrafts | None,
        file: Path | None,
        done: Outcome,
        stopped: Callable[[], bool],
        database: Database,
    ) -> None:
        work = self._batch(selection, kept, database, ahead=file is not None)
        line, batch = ProgressLine(bar=False), work.batch
        try:
            await work.begin()
            await self._until_decided(work, line, stopped)
            if file is not None:
                done.data = {"file": str(file), **(await self._written(batch, file))}
                done.file = file
            done.failed = work.failed
        finally:
            line.clear()
            done.items = batch.items
            handed_over = done.file is not None and all(item.drafts for item in batch.items)
            done.kept = not (batch.finished or handed_over)
            await work.close(keep=done.kept)
        await tell(self.run, self.command, batch, work.writer, self.model, self.rule, done)
        if stopped():
            done.failed = CancelledError(STOPPED)

    async def _until_decided(self, work: Work, line: ProgressLine, stopped: Callable[[], bool]) -> None:
        """Draft, and ask about what no rule takes, until nothing is left that can be asked about."""
        batch = work.batch
        while True:
            await self._run(work, line, stopped)
            line.clear()
            if batch.options.ahead or stopped() or work.failed is not None or not self._asks:
                return
            undecided = [item for item in batch.items if item.state is ItemState.REVIEW]
            if not undecided:
                return
            for item in undecided:
                if not await self._ask(batch, item):
                    return

    @property
    def _asks(self) -> bool:
        return can_ask() and not self.flags.change.yes and not self.run.presentation.json

    async def _run(self, work: Work, line: ProgressLine, stopped: Callable[[], bool]) -> None:
        batch = work.batch
        running = asyncio.create_task(batch.run())
        try:
            while not running.done():
                await asyncio.wait((running,), timeout=0.1)
                line.show(drafts_view.progress_line(batch.progress(), work.budget.spent))
                if stopped():
                    await batch.cancel()
                    return
        finally:
            if not running.done():
                await batch.cancel()
        await running

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


def setting_of(
    run: Run, schema: Schema, rules_name: str | None = None, *, previous: bool = True
) -> DraftSetting:
    """How summaries of a database of this schema are drafted, by its own rules or those of this name."""
    return draft_setting(schema, run.settings.engine, run.zone, rules=rules_name, previous=previous)


def _decision(question: str) -> str:
    """``y`` take, ``n`` leave as it is, ``q`` stop."""
    while True:
        sys.stderr.write(f"{question} [y/n/q] ")
        sys.stderr.flush()
        given = sys.stdin.readline()
        answer = given.strip().lower()[:1]
        if not given or answer in ("y", "n", "q"):
            return answer or "q"


# -- rewrite ---------------------------------------------------------------------------------------------
# Other texts for summaries, drafted from their true sources.


class Chosen(Record, frozen=True):
    """Which summaries are to be rewritten."""

    named: Selector
    wanted: tuple[str, ...]  #: beginnings of ids; none: by depth, or all
    depth: int | None
    stale: bool
    subtree: bool

    async def select(self, reader: Reader) -> Selection:
        """The summaries, sources first, and which are stale."""
        ids = [await summary_beginning(reader, one) for one in self.wanted]
        owner = await owner_of(reader, self.named, ids)
        old = await stale_in(reader, owner)
        if self.stale:
            ids = await _and_above(reader, [one.summary_id for one in old])
        items: list[BatchItem] = []
        if ids or not self.stale:
            items = await select_items(reader, owner, summary_ids=ids, depth=self.depth, subtree=self.subtree)
        blocks = []
        if old and not self.stale:
            number = counted(
                len(old), "summary of this conversation was", "summaries of this conversation were"
            )
            blocks.append(Note(f"{number} made from texts that were rewritten since: --stale names them."))
        data: Document = {
            "conversationId": owner,
            "stale": [{"summaryId": one.summary_id, "sources": list(one.sources)} for one in old],
        }
        return Selection(items, data, blocks)


def restore_text(run: Run, operation: str, flags: ChangeFlags) -> Answer:
    """Show what giving back the text from before a rewrite would do, or do it."""

    async def plan(reader: Reader) -> Plan:
        rendering = setting_of(run, reader.schema).rendering
        return await plan_restore(reader, operation, rendering=rendering)

    return changing.run_change(run, "rewrite", plan, flags)


async def _and_above(reader: Reader, stale: list[SummaryId]) -> list[SummaryId]:
    """Stale summaries with all that was made from them: that is stale once they are rewritten."""
    edges = await summary_store.edges_above(reader, stale)
    rows = await summary_store.summaries_in(reader, {*stale, *(edge.consumer for edge in edges)})
    owners = {row.conversation_id for row in rows if row.summary_id in stale}
    return [row.summary_id for row in rows if row.conversation_id in owners]


# -- repair ----------------------------------------------------------------------------------------------
# Every broken summary gets a text made from its true sources.


class Search(Record, frozen=True):
    """Which bad summaries are looked for."""

    named: Selector
    ids: tuple[str, ...]
    kinds: frozenset[BadKind]
    since: datetime | None
    limit: int | None
    contaminated: bool

    @classmethod
    def of(
        cls,
        named: Selector,
        ids: tuple[str, ...],
        kinds: tuple[str, ...] | None,
        since: datetime | None,
        limit: int | None,
        *,
        contaminated: bool,
    ) -> Search:
        """As the options say: by default the kinds that are sure, and all for a summary by its id."""
        usual = frozenset(BadKind) if ids else SURE
        wanted = usual if kinds is None else frozenset(map(BadKind, kinds))
        return cls(named, ids, wanted, since, limit, contaminated)

    async def select(self, reader: Reader) -> Selection:
        """What there is to repair, sources first."""
        found = await self._found(reader)
        items = [item for one in found for item in (one.all_items if self.contaminated else one.items)]
        if self.limit is not None:
            items = items[: self.limit]
        return Selection(
            items,
            self._document(found),
            [] if self.contaminated else list(_spoiled_blocks(found)),
            "No broken summaries: nothing to repair.",
        )

    async def _found(self, reader: Reader) -> list[RepairList]:
        ids = [await summary_beginning(reader, one) for one in self.ids]
        owner = (await chosen(reader, self.named)).conversation_id if self.named.given else None
        owners = await conversations_of(reader, owner)
        by_owner: dict[int, list[SummaryId]] = {}
        if ids:
            for row in await summary_store.summaries_in(reader, ids):
                by_owner.setdefault(row.conversation_id, []).append(row.summary_id)
            if owner is not None and by_owner.keys() - {owner}:
                raise NotFoundError(
                    f"Conversation {owner} has no such summary: {', '.join(ids)}.", code="SUMMARY_NOT_FOUND"
                )
            owners = [one for one in owners if one in by_owner]
        return [
            await find_repair(
                reader, one, kinds=self.kinds, summary_ids=by_owner.get(one, ()), since=self.since
            )
            for one in owners
        ]

    def _document(self, found: Sequence[RepairList]) -> Document:
        kinds = Counter(bad.kind for one in found for bad in one.bad)
        return {
            "kinds": {str(kind): kinds[kind] for kind in BadKind if kinds[kind]},
            "bad": [
                {
                    "summaryId": bad.summary.summary_id,
                    "conversationId": one.conversation_id,
                    "kind": bad.kind.value,
                    "check": bad.kind.check,
                }
                for one in found
                for bad in one.bad
            ],
            "contaminated": [
                {
                    "summaryId": spoiled.summary.summary_id,
                    "conversationId": one.conversation_id,
                    "sources": list(spoiled.sources),
                    "direct": spoiled.direct,
                    "chosen": self.contaminated,
                }
                for one in found
                for spoiled in one.contaminated
            ],
        }


def _spoiled_blocks(found: Sequence[RepairList]) -> Iterator[OutputBlock]:
    """What was made from bad summaries and is not chosen."""
    rows = [
        (one.summary.summary_id, one.summary.depth, ", ".join(one.sources))
        for repair in found
        for one in repair.contaminated
    ]
    if rows:
        columns = (
            OutputColumn("Summary"),
            OutputColumn("Depth", right=True),
            OutputColumn("Made from", grows=True),
        )
        number = counted(len(rows), "summary")
        title = f"Not included: {number} made from broken ones (include with --contaminated)"
        yield Table(columns, rows[:MOST], title=title)
        if len(rows) > MOST:
            yield Note(f"{len(rows) - MOST:,} more are not shown; --json shows them all.")
