"""A queue of drafts that can be trusted: any number in flight, one failure costs nothing that was paid for.

Drafting holds no lock and opens no transaction; a commit is a plan of its own, by compare and set. Sources
come before their consumers, which are drafted from the new texts. What is paid for is kept at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial

from lcm_core.base.errors import DatabaseError, LcmError, NotFoundError, RefusedError
from lcm_core.base.records import SummaryId
from lcm_core.base.values import Record, replace
from lcm_core.change.commit import Committed, commit_plan
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.change.preview import rehearse
from lcm_core.operations.drafting import (
    SETTLED,
    BatchItem,
    BatchProgress,
    Draft,
    DraftSetting,
    ItemState,
    Material,
    by_id,
    cut_draft,
    draft_summary,
    interrupted,
    is_ready,
    manual_draft,
    read_material,
    ready,
)
from lcm_core.operations.drafts import AcceptanceRule, MeasuredDraft, measured
from lcm_core.operations.repair import CONTAMINATED, STALE, kind_of_text
from lcm_core.operations.rewrite import ChangedMeanwhileError, SourceChangedError, plan_rewrite
from lcm_core.store.database import Database, Reader
from lcm_core.writers.cost import LimitReachedError
from lcm_core.writers.request import ProviderAuthError, ProviderUnavailableError, Summarizer, Usage

#: Why a draft that was applied counts as left.
UNDONE = "it was applied, and that was undone"
#: Calls in flight by default.
IN_FLIGHT = 4


class BatchOptions(Record, frozen=True):
    """How a batch runs."""

    kind: str = "rewrite"  #: ``rewrite`` or ``repair``, as the history calls it
    in_flight: int = IN_FLIGHT
    rule: AcceptanceRule | None = None  #: what is taken by itself, in this batch and no other; None: nothing
    ahead: bool = False  #: draft consumers from drafts of their sources; nothing is taken


class Batch:
    """The queue. For one event loop; `run` may be called again, after a decision or a cancellation."""

    def __init__(
        self,
        database: Database,
        items: Iterable[BatchItem],
        setting: DraftSetting,
        writer: Summarizer,
        options: BatchOptions | None = None,
        *,
        batch_id: str = "",
        keep: Callable[[BatchItem], None] = lambda item: None,
        changed: Callable[[BatchItem], None] = lambda item: None,
    ) -> None:
        self.id = batch_id or new_batch_id()
        self.options = options or BatchOptions()
        self.setting = setting
        self.writer = writer
        self.failed: LcmError | None = None  #: what stopped the run: a refused key, a limit, the database
        self.database = database
        self._items = by_id(items)
        self._keep, self._changed = keep, changed
        self._begun = time.monotonic()
        self._drafted = 0
        self._committing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._news = asyncio.Event()  #: set, and another one, when something has come further
        self._turns: dict[SummaryId, bool] = {}  #: what is judged, and whether it still waits for its turn
        self._running: asyncio.Task[None] | None = None
        self._stopping = False
        self._items = {one: interrupted(item) for one, item in self._items.items()}

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def items(self) -> tuple[BatchItem, ...]:
        """All items, sources before their consumers."""
        return tuple(self._items.values())

    def item(self, summary_id: SummaryId) -> BatchItem:
        """One item.

        Raises:
            NotFoundError: the batch has no such summary.
        """
        if summary_id not in self._items:
            raise NotFoundError(f"This batch has no summary {summary_id}.", code="SUMMARY_NOT_FOUND")
        return self._items[summary_id]

    @property
    def running(self) -> bool:
        """Whether `run` is at work."""
        return self._running is not None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to draft or to decide."""
        return all(item.state in SETTLED for item in self._items.values())

    def waits_for(self, summary_id: SummaryId) -> SummaryId | None:
        """The source that must be decided on before a waiting item can be drafted, or a source of that."""
        item = self.item(summary_id)
        if item.state is not ItemState.WAITING:
            return None
        sources = (self._items[one] for one in item.after if one in self._items)
        first = next((one.summary_id for one in sources if one.state not in SETTLED), None)
        return None if first is None else self.waits_for(first) or first

    def progress(self) -> BatchProgress:
        """How far it has come."""
        items = self._items.values()
        counts = Counter(item.state for item in items)
        usage = sum((item.usage for item in items), Usage(cost_usd=0.0))
        seconds = time.monotonic() - self._begun
        return BatchProgress(len(items), counts, self._drafted, seconds, counts[ItemState.DRAFTING], usage)

    # -- running -----------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether `run` would draft something."""
        return bool(ready(self._items, ahead=self.options.ahead))

    async def run(self) -> None:
        """Draft all that can be drafted, and take what the rule accepts, until nothing moves any more.

        A call that fails fails its item and no other; a refused key, a provider that answers no one, a limit
        that is reached and a database that cannot be written end the run, and `failed` says why. Cancelling
        it breaks the calls off, and their items wait again.
        """
        if self._running is not None:
            raise RefusedError("This batch is already running.")
        self._running = asyncio.current_task()
        self._begun, self._drafted = time.monotonic(), 0
        self._stopping, self.failed = False, None
        tasks: set[asyncio.Task[None]] = set()
        try:
            await self._take_what_is_there()
            while True:
                if not self._stopping:
                    calls = len(tasks) - sum(self._turns.values())
                    free = max(max(self.options.in_flight, 1) - calls, 0)
                    for item in ready(self._items, ahead=self.options.ahead)[:free]:
                        self._set(replace(item, state=ItemState.DRAFTING, why=""))
                        tasks.add(asyncio.create_task(self._work(item.summary_id)))
                if not tasks:
                    break
                self._wake.clear()
                woken = asyncio.create_task(self._wake.wait())
                try:
                    done, _ = await asyncio.wait((*tasks, woken), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
                for task in done - {woken}:
                    tasks.discard(task)
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._running = None
            self._say_what_waits()

    def stop(self) -> None:
        """Begin no other call; those in flight are finished."""
        self._stopping = True
        self._tell()

    async def ended(self) -> None:
        """Wait until nothing runs: what was broken off needs a moment to end."""
        while self._running is not None:
            await asyncio.wait((self._running,))

    async def cancel(self) -> None:
        """Break off the calls in flight, really; what they would have answered is not paid for again."""
        if self._running is not None:
            running = self._running
            running.cancel()
            await asyncio.wait((running,))

    async def _work(self, summary_id: SummaryId) -> None:
        try:
            material = await self.material(summary_id)
            needless = why_not_asked(self.item(summary_id), material, self.options.kind)
            if needless is not None:
                state, why = needless
                self._set(replace(self.item(summary_id), state=state, why=why))
                return
            await self._rehearse(material)
            drafts = await draft_summary(
                self.writer,
                material,
                self.setting,
                first=self._next_number(summary_id),
                keep=self._add,
            )
            self._drafted += 1
            await self._settle(material, drafts)
        except asyncio.CancelledError:
            self._set(interrupted(self.item(summary_id)))
            raise
        except (ProviderAuthError, ProviderUnavailableError, LimitReachedError, DatabaseError) as error:
            self._set(replace(self.item(summary_id), state=ItemState.WAITING, why=error.message))
            self._end(error)
        except LcmError as error:
            self._set(replace(self.item(summary_id), state=ItemState.FAILED, why=error.message))

    async def _rehearse(self, material: Material) -> None:
        """Raise what would keep a draft from being committed; drafts for a file are for any database."""
        if not self.options.ahead:
            planner = partial(
                plan_rewrite,
                conversation_id=material.summary.conversation_id,
                summary_id=material.summary.summary_id,
                text=f"{material.base.content}.",
                model=material.summary.model or "",
                rendering=self.setting.rendering,
                kind=self.options.kind,
            )
            await rehearse(self.database, planner)

    def _end(self, error: LcmError) -> None:
        self.failed = self.failed or error
        self.stop()

    async def _settle(self, material: Material, drafts: Iterable[Draft]) -> None:
        """Propose the draft that is accepted, and take it when the rule allows it."""
        summary_id = material.summary.summary_id
        proposed = next((one for one in drafts if one.may_be_taken), None)
        number = None if proposed is None else proposed.number
        why = "" if proposed else "Every draft was rejected: choose one by its number, edit, or skip."
        if proposed is not None and proposed.text == material.base.content:
            why = "The draft is identical to the current text: nothing to decide."
            self._set(replace(self.item(summary_id), state=ItemState.SKIPPED, chosen=number, why=why))
            return
        self._set(replace(self.item(summary_id), state=ItemState.REVIEW, chosen=number, why=why))
        if proposed is not None and self.options.rule is not None and not self.options.ahead:
            await self._judge_in_turn(material, proposed, self.options.rule)

    async def _judge_in_turn(self, material: Material, draft: Draft, rule: AcceptanceRule) -> None:
        """The same behind those before it: the history has the order of the batch, not that of the answers.

        It costs nobody a call, and nothing is lost meanwhile: the draft is kept, and waits for a decision.
        """
        summary_id = draft.summary_id
        self._turns[summary_id] = False
        try:
            while self._is_due_before(summary_id):
                self._turns[summary_id] = True
                self._wake.set()  # another call may begin
                await self._news.wait()
            self._turns[summary_id] = False
            item = self.item(summary_id)
            if item.state is ItemState.REVIEW and item.chosen == draft.number:
                await self._judge(material, draft, rule)
        finally:
            del self._turns[summary_id]
            self._tell()

    def _is_due_before(self, summary_id: SummaryId) -> bool:
        """Whether something before it in the batch is drafted, waits for its turn, or will be drafted now."""
        for one, item in self._items.items():
            if one == summary_id:
                break
            if item.state is ItemState.DRAFTING or one in self._turns:
                return True
            if item.state is ItemState.WAITING and not self._stopping and is_ready(item, self._items):
                return True
        return False

    async def objections(self, summary_id: SummaryId, rule: AcceptanceRule) -> tuple[str, ...]:
        """Why a rule does not take the proposed draft of an item, each a sentence; empty when it does."""
        draft = self.item(summary_id).draft
        if draft is None:
            return ("Every draft was rejected.",)
        return (await measured(draft, await self.material(summary_id), self.setting)).objections(rule)

    def accept_by(self, rule: AcceptanceRule) -> None:
        """Judge drafts by this rule from now on, those too that an earlier one has left."""
        self.options = replace(self.options, rule=rule)
        for item in self.items:
            if item.to_judge is not None and item.why:
                self._set(replace(item, why=""))

    async def to_judge(self) -> AsyncIterator[MeasuredDraft]:
        """The drafts that a rule would judge now, one after the other: about 0.1 s each."""
        for item in self.items:
            if (draft := item.to_judge) is not None:
                yield await measured(draft, await self.material(item.summary_id), self.setting)

    async def _judge(self, material: Material, draft: Draft, rule: AcceptanceRule) -> LcmError | None:
        """Take a draft if the rule does; what the commit was refused for, else None."""
        objections = (await measured(draft, material, self.setting)).objections(rule)
        if objections:
            self._set(replace(self.item(draft.summary_id), why=" ".join(objections)))
            return None
        try:
            await self.take(draft.summary_id, draft.number)
        except DatabaseError as error:
            self._end(error)
        except LcmError as error:
            return error  # the item says why, and waits for somebody
        return None

    async def _take_what_is_there(self) -> None:
        """Judge drafts of earlier runs by the rule of this one; nothing is paid for twice.

        What was made from sources that say something else by now is drafted again.
        """
        rule = self.options.rule
        if rule is None or self.options.ahead:
            return
        for item in self.items:
            if (draft := item.to_judge) is not None:
                refused = await self._judge(await self.material(item.summary_id), draft, rule)
                if isinstance(refused, SourceChangedError):
                    self._set(
                        replace(self.item(item.summary_id), state=ItemState.WAITING, chosen=None, why="")
                    )

    # -- deciding ----------------------------------------------------------------------------------------

    async def material(self, summary_id: SummaryId) -> Material:
        """What a draft of an item is made from now, read in one short transaction."""
        overrides = {}
        if self.options.ahead:
            found = (
                (one, self._items[one].draft) for one in self.item(summary_id).after if one in self._items
            )
            overrides = {one: draft.text for one, draft in found if draft is not None}
        return await self.database.read(
            read_material,
            summary_id,
            self.setting.rendering,
            overrides=overrides,
            with_previous=self.setting.previous,
        )

    async def take(
        self, summary_id: SummaryId, number: int | None = None, *, alone: bool = False
    ) -> Committed | None:
        """Commit a draft: the proposed one, or another by its number, whatever was found against it.

        *alone*: a person decided on it, so the operation belongs to no batch and is undone by itself.
        None: it is there already, for a crash came between the commit and the note of it.

        Raises:
            ChangedMeanwhileError, SourceChangedError: the node is not what the draft was made from.
            RefusedError: there is no such draft.
            LcmError: the commit was refused. In all cases the item says why, and its drafts stay.
        """
        item = self.item(summary_id)
        draft = item.draft if number is None else item.numbered(number)
        if draft is None:
            raise RefusedError(f"Summary {summary_id} has no draft to accept.", code="NO_DRAFT")
        async with self._committing:
            try:
                done = await self._commit(item, draft, None if alone else self.id)
            except LcmError as error:
                theirs = error.theirs if isinstance(error, ChangedMeanwhileError) else None
                self._set(
                    replace(self.item(summary_id), state=ItemState.REVIEW, why=error.message, theirs=theirs)
                )
                raise
        operation = done.id if done is not None else None
        self._set(
            replace(
                self.item(summary_id),
                state=ItemState.COMMITTED,
                why="",
                chosen=draft.number,
                theirs=None,
                operation=operation,
            )
        )
        return done

    async def plan(self, reader: Reader, item: BatchItem, draft: Draft, batch: str | None = None) -> Plan:
        """Plan to put a draft in the place of the text that it was made over, as part of *batch*.

        Raises:
            RefusedError: it does not fit (docs/spec/changes.md).
        """
        return await plan_rewrite(
            reader,
            item.conversation_id,
            item.summary_id,
            draft.text,
            model=draft.model,
            rendering=self.setting.rendering,
            base=draft.base,
            kind=self.options.kind,
            batch=batch,
        )

    async def _commit(self, item: BatchItem, draft: Draft, batch: str | None) -> Committed | None:
        try:
            plan = await self.database.read(self.plan, item, draft, batch)
        except ChangedMeanwhileError as error:
            if error.theirs == draft.text:
                return None
            raise
        return await commit_plan(self.database, plan)

    def skip(self, summary_id: SummaryId, why: str = "") -> None:
        """Leave a summary as it is; its consumers are drafted without it. Its drafts stay."""
        self._set(replace(self.item(summary_id), state=ItemState.SKIPPED, why=why))

    def follow_history(self, undone: Collection[str]) -> None:
        """Leave as it is what was undone since, by operation id; what was redone then is committed again."""
        for item in self.items:
            if item.state is ItemState.COMMITTED and item.operation in undone:
                self.skip(item.summary_id, UNDONE)
            elif item.why == UNDONE and item.operation not in undone:
                self._set(replace(item, state=ItemState.COMMITTED, why=""))

    async def again(self, summary_id: SummaryId, writer: Summarizer | None = None) -> tuple[Draft, ...]:
        """Ask again, another model perhaps; drafts that are there stay beside the new ones.

        Raises:
            SummarizerError: no answer came back; the item is as it was before, with what was paid for.
        """
        before = self.item(summary_id)
        self._set(replace(before, state=ItemState.DRAFTING, why=""))
        try:
            material = await self.material(summary_id)
            await self._rehearse(material)
            drafts = await draft_summary(
                writer or self.writer,
                material,
                self.setting,
                first=self._next_number(summary_id),
                keep=self._add,
            )
        except BaseException:
            self._set(replace(self.item(summary_id), state=before.state, why=before.why))
            raise
        proposed = next((one.number for one in drafts if one.may_be_taken), before.chosen)
        self._set(
            replace(self.item(summary_id), state=ItemState.REVIEW, chosen=proposed, why="", theirs=None)
        )
        return drafts

    async def write(self, summary_id: SummaryId, text: str, over: str) -> Draft:
        """Add a text that a person wrote (or put together from hunks) as a draft, and propose it.

        *over*: the stored text that the person saw; another one by now makes the draft stale.
        """
        material = await self.material(summary_id)
        draft = await asyncio.to_thread(
            manual_draft, material, self.setting, text, self._next_number(summary_id)
        )
        return self._propose(replace(draft, replaced=over))

    async def cut(self, summary_id: SummaryId) -> Draft:
        """Add the engine's cut of the source as a draft, and propose it; no rule takes it."""
        material = await self.material(summary_id)
        draft = await asyncio.to_thread(cut_draft, material, self.setting, self._next_number(summary_id))
        return self._propose(draft)

    def _propose(self, draft: Draft) -> Draft:
        self._add(draft)
        newest = self.item(draft.summary_id)
        self._set(replace(newest, state=ItemState.REVIEW, chosen=draft.number, why="", theirs=None))
        return draft

    def choose(self, summary_id: SummaryId, number: int) -> None:
        """Propose another draft; nothing is committed."""
        if self.item(summary_id).numbered(number) is None:
            raise RefusedError(f"Summary {summary_id} has no draft {number}.", code="NO_DRAFT")
        self._set(replace(self.item(summary_id), chosen=number))

    # -- noting ------------------------------------------------------------------------------------------

    def _next_number(self, summary_id: SummaryId) -> int:
        return max((one.number for one in self.item(summary_id).drafts), default=0) + 1

    def _add(self, draft: Draft) -> None:
        item = self.item(draft.summary_id)
        self._set(replace(item, drafts=(*item.drafts, draft)))

    def _set(self, newest: BatchItem) -> None:
        before = self._items[newest.summary_id]
        self._items[newest.summary_id] = newest
        if newest.state is not ItemState.DRAFTING or len(newest.drafts) > len(before.drafts):
            self._keep(newest)
        self._changed(newest)
        self._tell()

    def _tell(self) -> None:
        self._wake.set()
        self._news.set()
        self._news = asyncio.Event()

    def _say_what_waits(self) -> None:
        for item in self.items:
            first = self.waits_for(item.summary_id)
            if first is not None:
                self._set(replace(item, why=f"Source undecided: accept or skip {first}."))


# -- when no model is asked -----------------------------------------------------------------------------


def why_not_asked(item: BatchItem, material: Material, kind: str) -> tuple[ItemState, str] | None:
    """What becomes of an item without a call, and why, a sentence; None: it is asked for.

    *kind* is that of the batch, ``rewrite`` or ``repair``.
    """
    if not material.source.text:
        lost = "are gone" if material.source.gone else "say nothing"
        return ItemState.FAILED, f"Its sources {lost}: there is nothing to summarise."
    if kind == "repair" and _is_sound_now(item, material):
        return ItemState.SKIPPED, "It is no longer broken: another change repaired it meanwhile."
    return None


def _is_sound_now(item: BatchItem, material: Material) -> bool:
    """Whether a summary has another text than when it was listed, and a sound one."""
    if item.reason in (CONTAMINATED, STALE) or item.tokens == material.summary.tokens:
        return False
    return kind_of_text(material.base.content, material.summary.model) is None
