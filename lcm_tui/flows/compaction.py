"""A compaction that is run pass by pass, and the words that both faces use for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol

from lcm_core.base.errors import LcmError, RefusedError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.settings import Settings
from lcm_core.base.values import Record, replace
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.engine.rules import EngineRules
from lcm_core.engine.sessions import UNKNOWN_MODEL, RuntimeModel
from lcm_core.operations.compact import (
    CompactionForecast,
    CompactionSetting,
    PassDone,
    Runner,
    compaction_setting,
    forecast_passes,
    refuse_fallback,
    utc_now,
    warnings_of,
)
from lcm_core.operations.compact_pass import PassDraft, load_for_compaction
from lcm_core.operations.debt import noted_model
from lcm_core.operations.engine_work import EngineWork, read_work
from lcm_core.operations.selection import (
    Compaction,
    Mode,
    Outcome,
    Pass,
    PassMade,
    PassMoved,
    PassRefused,
    PassSkipped,
    Result,
    UnderResult,
    WeighedContext,
    operation_of,
)
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.writers.cost import CallBudget, likely_of_count
from lcm_core.writers.request import NO_USAGE, ProviderAuthError, Usage
from lcm_core.writers.wire import CachingSummarizer, ReplyCache, StoppableSummarizer
from lcm_core.writers.writer import SummaryWriter

from lcm_tui.flows.drafts import Modelling
from lcm_tui.tables.blocks import moment_text
from lcm_tui.tables.engine import debt_words

# -- words for both faces --------------------------------------------------------------------------------

#: Tokens of a prompt around the text that is to be summarised, as an estimate.
PROMPT_TOKENS: Final = 700

KEY_REFUSED: Final = (
    "The provider refused the key, so this pass did not run; finished passes stay. Give another key and run "
    "the same command again."
)


_GOES_ON: Final = "The engine itself would continue and condense the existing summaries."


def refusal_of(result: object) -> str:
    """What is to be said of a key that was refused; empty when none was."""
    if not (isinstance(result, Result | UnderResult) and result.auth_failure):
        return ""
    return f"{KEY_REFUSED} {_GOES_ON}" if isinstance(result, Result) and result.cut_short else KEY_REFUSED


def span_text(refs: Sequence[int | str]) -> str:
    """The sources of a pass, from the first to the last."""
    first, *_, last = (f"m{one}" if isinstance(one, int) else one for one in (refs[0], refs[-1]))
    return first if len(refs) == 1 else f"{first} to {last}"


def depth_text(depth: int) -> str:
    """What a pass makes."""
    return "leaf" if depth == 0 else f"depth {depth}"


def step_words(number: int, step: PassDone) -> str:
    """What became of a pass, in one line."""
    what = f"{span_text(step.chunk.refs)} ({step.chunk.tokens:,} tokens)"
    match step.outcome:
        case PassMade(summary_id=made, level=level):
            size = step.draft.text.tokens if step.draft else 0
            way = step.draft.text.way if step.draft else level
            return f"{number}. {what} became {made} of {size:,} tokens ({way})."
        case PassSkipped():
            return f"{number}. {what} is empty and was skipped."
        case PassMoved():
            return f"{number}. {what} was changed by another process meanwhile; it is planned again."
        case _:
            return f"{number}. {what}: nothing was made."


# -- what would be done ----------------------------------------------------------------------------------


class CompactionWish(Record, frozen=True):
    """What an operator wants compacted: the options of the command, the choices of the screen."""

    mode: Mode
    budget: int  #: tokens
    target: int | None = None  #: tokens, for until-under; None: the budget
    tail: int | None = None  #: newest messages that are left alone; None: as is configured
    chunk: int | None = None  #: tokens; None: as is configured
    rules: str | None = None  #: by name; None: as the schema says
    if_due: bool = False  #: nothing unless the engine would compact by itself
    current_turn: bool = False  #: finished tool calls of the current turn may go
    adjust: Callable[[EngineRules], EngineRules] = lambda rules: rules

    @property
    def operation(self) -> Callable[[Compaction], Generator[Pass, Outcome, Any]]:
        """Its passes."""
        return operation_of(self.mode, target=self.target, if_due=self.if_due)

    def setting(
        self,
        schema: Schema,
        settings: Settings,
        session_key: str | None = None,
        model: RuntimeModel = UNKNOWN_MODEL,
    ) -> CompactionSetting:
        """How a session of a database of this schema is compacted.

        Raises:
            RefusedError: the rules know nothing of the current turn, which was asked for.
        """
        setting = compaction_setting(
            schema,
            settings.engine,
            settings.zone,
            self.budget,
            tail=self.tail,
            chunk=self.chunk,
            rules=self.rules,
            session_key=session_key,
            model=model,
        )
        rules = self.adjust(setting.rendering.rules)
        if self.current_turn and not rules.compaction.compacts_current_turn:
            raise RefusedError(
                f"The engine of this database ({rules.name}) never compacts the current turn: omit "
                "--current-turn, or add --rules 1.1 to compact as the engine of 1.1 would.",
                code="NOT_IN_THESE_RULES",
            )
        rendering = replace(setting.rendering, rules=rules)
        return replace(setting, rendering=rendering, current_turn=self.current_turn)


class PlannedCompaction(Record, frozen=True):
    """What would be done to a conversation, and by whom."""

    conversation_id: ConversationId
    wish: CompactionWish
    setting: CompactionSetting
    forecast: CompactionForecast[Any]
    model: Modelling | None  #: None: nobody can write
    warnings: tuple[str, ...] = ()  #: each without a full stop
    debt: str | None = None  #: what the engine noted as due, in words

    @property
    def cost(self) -> float | None:
        """What it would cost in USD, when each first answer is good; None: nobody knows."""
        seen = self.forecast
        sent = likely_of_count(seen.input_tokens) + seen.calls * PROMPT_TOKENS
        return None if self.model is None else self.model.cost(sent, seen.output_tokens)


async def plan_compaction(
    database: Database,
    settings: Settings,
    conversation: Conversation,
    wish: CompactionWish,
    model: Modelling | None,
) -> PlannedCompaction:
    """What would be done to a conversation as it is; nothing is sent.

    Raises:
        RefusedError: as `CompactionWish.setting`.
    """
    owner = conversation.conversation_id

    async def read(reader: Reader) -> tuple[CompactionSetting, WeighedContext, tuple[str, ...], EngineWork]:
        noted = await noted_model(reader, owner)
        setting = wish.setting(reader.schema, settings, conversation.session_key, noted)
        context = await load_for_compaction(reader, owner, setting.rendering)
        work = await read_work(reader, settings.engine, utc_now(), owner, urgent=True)
        return setting, context, await warnings_of(reader, owner), work

    setting, context, warnings, work = await database.read(read)
    forecast = await asyncio.to_thread(forecast_passes, context, setting, wish.operation)
    said = warnings if forecast.passes else ()
    debt = debt_words(partial(moment_text, zone=settings.clock), work.conversations[0])
    return PlannedCompaction(owner, wish, setting, forecast, model, said, debt)


# -- the run ---------------------------------------------------------------------------------------------
# One pass at a time or all, stopped between passes, discarded, or continued.


class Rule(StrEnum):
    """What becomes of a draft before it is committed."""

    ACCEPT = "all"
    ASK = "ask each"
    NO_FALLBACK = "stop on truncation"


class CompactionUi(Protocol):
    """Who shows a compaction, and asks whether to begin it."""

    @property
    def database(self) -> Database:
        """The open file."""

    async def agree(self, planned: PlannedCompaction) -> bool:
        """Ask whether to make the first passes."""

    def working(self, what: str, /) -> AbstractContextManager[object]:
        """Say that *what* goes on."""

    def changed(self) -> None:
        """It has come further, or waits for a word."""


class _WorkClock:
    """Milliseconds of work: an operator who thinks uses up no deadline."""

    def __init__(self) -> None:
        self._spent, self._since = 0.0, 0.0
        self._runs = False

    def run(self) -> None:
        if not self._runs:
            self._runs, self._since = True, time.monotonic()

    def pause(self) -> None:
        if self._runs:
            self._spent += time.monotonic() - self._since
            self._runs = False

    def __call__(self) -> int:
        now = time.monotonic() - self._since if self._runs else 0.0
        return int((self._spent + now) * 1000)


class CompactionRun:
    """The passes that are made of one conversation, in one batch of the history."""

    def __init__(
        self,
        ui: CompactionUi,
        paid: ReplyCache | None = None,
        batch: str = "",
        budget: CallBudget | None = None,
    ) -> None:
        """*paid*: answers that were put off, of this run and of those before it; *batch*: to go on with.

        *budget*: that of a larger work, which the calls are a part of; None: one of its own.
        """
        self._ui = ui
        self._paid = ReplyCache() if paid is None else paid
        self._budget = budget
        self.batch = batch or new_batch_id()
        self.done: list[PassDone] = []
        self.held: PassDraft | None = None  #: waits for the operator's word
        self.running = False
        self.stopping = False
        self.failed: LcmError | None = None  #: why the last pass was not made
        self.result: Any = None  #: what came of the last operation that ended
        self.rule = Rule.ACCEPT
        self._whole = False
        #: the operation that has begun and not ended; its next pass follows from those that were made
        self.under_way: PlannedCompaction | None = None
        self._runner: Runner[Any] | None = None
        self._steps: AsyncIterator[PassDone] | None = None
        self.writer: SummaryWriter | None = None  #: of all passes, for its limits of cost hold for them
        self._stoppable: StoppableSummarizer | None = None
        self._memory: CachingSummarizer | None = None
        self._spent_before: Usage = NO_USAGE  #: by writers that are asked no more
        self._keeps = False  #: the draft that was not taken is kept
        self._answer: asyncio.Future[PassDraft | None] | None = None
        self._clock = _WorkClock()

    @property
    def made(self) -> list[PassDone]:
        """The passes that stored a summary."""
        return [one for one in self.done if one.is_made]

    @property
    def saved(self) -> int:
        """Tokens by which the context became smaller."""
        return sum(one.outcome.saved for one in self.done if isinstance(one.outcome, PassMade))

    @property
    def failure(self) -> str:
        """Why the last pass was not made, in a sentence; empty: it was."""
        return "" if self.failed is None else self.failed.message

    @property
    def spent(self) -> Usage:
        """What all calls of this run cost, whatever became of their answers."""
        return self._spent_before if self._memory is None else self._spent_before + self._memory.spent

    @property
    def is_asking(self) -> bool:
        """Whether a model is writing."""
        return self._stoppable is not None and self._stoppable.is_asking

    # -- going on ----------------------------------------------------------------------------------------

    async def go(self, planned: PlannedCompaction, *, whole: bool = True) -> None:
        """Make the next pass when that is agreed to, or (*whole*) all that are left.

        Raises:
            LcmError: it was not agreed to, or nobody can write; why no pass followed is in `failed`.
        """
        if not self.made and not await self._ui.agree(planned):
            return
        if self.writer is None and planned.model is not None:
            self.writer = planned.model.open(self._budget)
        with self._ui.working("Compacting"):
            await self._go(planned, whole=whole)

    async def _go(self, planned: PlannedCompaction, *, whole: bool) -> None:
        self.running, self.stopping, self.failed, self._whole = True, False, None, whole
        self._clock.run()
        self._ui.changed()
        try:
            before = self.under_way
            if before is None or (before.wish, before.setting) != (planned.wish, planned.setting):
                self._begin(planned)
            try:
                await self._passes()
            except LcmError as error:
                self.failed = error
                self._forget()
            finally:
                await self._note()
        finally:
            self.running = self.stopping = False
            self._clock.pause()
            self._ui.changed()

    def _begin(self, planned: PlannedCompaction) -> None:
        assert planned.model is not None  # nobody else can make a pass
        assert self.writer is not None
        self._spent_before = self.spent
        self._memory = CachingSummarizer(self.writer, planned.model.words, self._paid)
        self.under_way, self._stoppable = planned, StoppableSummarizer(self._memory)
        self._runner = Runner(
            self._ui.database,
            planned.conversation_id,
            planned.setting,
            self._stoppable,
            planned.wish.operation,
            self._accept,
            self._clock,
            batch=self.batch,
            ends_at_refusal=True,
        )
        self._steps = self._runner.steps()

    async def _passes(self) -> None:
        assert self._steps is not None
        while True:
            step = await anext(self._steps, None)
            if step is None:
                self.result = None if self._runner is None else self._runner.result
                self._forget()
                if refused := refusal_of(self.result):
                    self.failed = ProviderAuthError(refused)
                    await self.close()  # the key is looked for again
                return
            put_off = isinstance(step.outcome, PassRefused) and self._keeps
            self._keeps = False
            self.done.append(replace(step, is_kept=put_off))
            if self._memory is not None:
                # What is planned again may be asked for again; what is stored is not.
                self._memory.settle(keep=put_off or isinstance(step.outcome, PassMoved))
            self._ui.changed()
            if isinstance(step.outcome, PassMoved | PassRefused):
                continue  # planned again by the operation, or its end
            if self.stopping or not self._whole:
                return

    async def _note(self) -> None:
        """Bring what the engine notes beside the conversation in step with what was made so far."""
        try:
            if self._runner is not None:
                await self._runner.note()
        except LcmError as error:
            error.message = f"{self.failure} {error.message}".strip()
            self.failed = error

    def _forget(self) -> None:
        """The operation has ended; the next one looks at the context anew."""
        self.under_way = self._steps = None

    async def close(self) -> None:
        """Close what is connected."""
        if self.writer is not None:
            writer, self.writer = self.writer, None
            await writer.aclose()

    # -- what the operator says --------------------------------------------------------------------------

    async def _accept(self, draft: PassDraft) -> PassDraft | None:
        match self.rule:
            case Rule.ACCEPT:
                return draft
            case Rule.NO_FALLBACK:
                return await refuse_fallback(draft)
            case Rule.ASK:
                return await self._asked(draft)

    async def _asked(self, draft: PassDraft) -> PassDraft | None:
        self.held, self._answer = draft, asyncio.get_running_loop().create_future()
        self._clock.pause()
        self._ui.changed()
        try:
            return await self._answer
        finally:
            self.held = self._answer = None
            self._clock.run()
            self._ui.changed()

    async def plan_held(self, reader: Reader) -> Plan:
        """What taking the draft that waits changes.

        Raises:
            RefusedError: none waits any more.
            StalePlanError: its sources have changed.
        """
        if self.held is None or self._runner is None:
            raise RefusedError("The draft was decided on meanwhile.")
        return await self._runner.plan(reader, self.held)

    def answer(self, *, take: bool, rest: Rule | None = None, keep: bool = False) -> None:
        """Take the draft that waits, or not, which ends the operation; *rest*: all others by this rule.

        *keep* one that is not taken: the next time it is wanted nobody is asked for it.
        """
        if self._answer is None or self._answer.done():
            return
        self._keeps = keep and not take
        if rest is not None:
            self.rule, self._whole = rest, True
        self._answer.set_result(self.held if take else None)

    def stop(self) -> None:
        """End after the pass that is being made."""
        self.stopping = True
        self._ui.changed()

    def give_up(self) -> bool:
        """Cancel the call of the model; False when none is being made."""
        return self._stoppable is not None and self._stoppable.stop()
