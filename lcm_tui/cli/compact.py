"""``compact``: the passes that the engine would make, forecast without a call, and made with ``--apply``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from lcm_core.base.errors import CancelledError, LcmError, RefusedError
from lcm_core.base.text import safe_line
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.engine.rules import EngineRules
from lcm_core.engine.sessions import UNKNOWN_MODEL, RuntimeModel
from lcm_core.operations.compact import (
    CompactionForecast,
    CompactionSetting,
    ForecastPass,
    LoadedContext,
    Operation,
    PassDone,
    Runner,
    compaction_setting,
    forecast_passes,
    load_for_compaction,
    noted_model,
    refuse_fallback,
    warnings_of,
)
from lcm_core.operations.selection import PassMade, PassMoved, PassSkipped, UnderResult, reason_of
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.writers.cost import CallBudget
from lcm_core.writers.request import ProviderAuthError
from lcm_core.writers.writer import SummaryWriter

from lcm_tui.cli import answer as answers
from lcm_tui.cli import output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafts import model_document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.working import can_ask, interruptible, show_and_ask
from lcm_tui.flows.compaction import refusal_of, step_words
from lcm_tui.flows.drafts import Modelling
from lcm_tui.tables.blocks import Note
from lcm_tui.tables.compaction import ShownCompaction, done_compaction, planned_compaction

# -- as JSON ---------------------------------------------------------------------------------------------
# A compaction for programs: what would be done, and what was done.


def document(shown: ShownCompaction) -> Document:
    """What would be done, for programs."""
    seen, rules = shown.forecast, shown.setting.rendering.rules
    bounds = shown.setting.bounds()
    return {
        "conversationId": shown.conversation_id,
        "operation": shown.operation,
        "rules": rules.name,
        "budget": shown.setting.budget,
        "threshold": rules.compaction.threshold(shown.setting.budget),
        "freshTail": {
            "count": bounds.fresh_tail_count,
            "fromOrdinal": seen.tail_from,
            "tokens": seen.tail_tokens,
        },
        "currentTurn": shown.setting.takes_current_turn,
        "leafChunkTokens": bounds.leaf_chunk_tokens,
        "tokens": {"before": seen.tokens_before, "after": seen.tokens_after, "afterIsAssumed": True},
        "passes": [_pass_document(one) for one in seen.passes],
        "calls": seen.calls,
        "inputTokens": seen.input_tokens,
        "outputTokens": seen.output_tokens,
        "costUsd": shown.cost,
        "model": model_document(shown.model),
        "damagedItems": seen.damaged,
        "warnings": list(shown.warnings),
    }


def _pass_document(one: ForecastPass) -> Document:
    return {
        "number": one.number,
        "kind": "leaf" if one.is_leaf else "condensed",
        "depth": one.depth,
        "sources": list(one.refs),
        "sourceTokens": one.source_tokens,
        "assumedTokens": one.assumed_tokens,
        "exact": one.is_exact,
    }


def step_document(step: PassDone) -> Document:
    """A pass that made something, for programs."""
    draft, committed = step.draft, step.committed
    if draft is None:
        return {}
    text = draft.text
    return {
        "summaryId": draft.summary_id,
        "kind": "leaf" if step.chunk.due.is_leaf else "condensed",
        "depth": step.chunk.due.depth,
        "sources": list(step.chunk.refs),
        "sourceTokens": step.chunk.tokens,
        "tokens": text.tokens,
        "level": str(text.level),
        "isCut": text.is_cut,
        "model": draft.model,
        "calls": text.calls,
        "usage": {
            "inputTokens": text.usage.input_tokens,
            "outputTokens": text.usage.output_tokens,
            "costUsd": text.usage.cost_usd,
        },
        "operationId": committed.id or None if committed else None,
        "searchIndex": committed.search if committed else None,
    }


# -- the command -----------------------------------------------------------------------------------------


class CompactWork(Record, frozen=True):
    """One run of the command."""

    run: Run
    named: Selector
    name: str
    operation: Operation[Any]
    model: Modelling
    budget: int
    tail: int | None
    chunk: int | None
    no_fallback: bool
    adjust: Callable[[EngineRules], EngineRules] = lambda rules: rules
    rules: str | None = None  #: by name; None: as the schema says
    target: int | None = None  #: tokens that the context is to be under
    current_turn: bool = False  #: finished tool calls of the current turn may go
    spending: CallBudget | None = None  #: what it shares with other work of the same run; None: its own

    def forecast(self) -> ShownCompaction:
        """What would be done, read in one transaction."""
        return self.run.read(self._forecast)

    async def _forecast(self, reader: Reader) -> ShownCompaction:
        conversation = await chosen(reader, self.named)
        owner = conversation.conversation_id
        setting = self.setting(reader.schema, conversation.session_key, await noted_model(reader, owner))
        shown = self.shown(await load_for_compaction(reader, owner, setting.rendering), setting)
        return replace(shown, warnings=await warnings_of(reader, owner) if shown.forecast.passes else ())

    def setting(
        self, schema: Schema, session_key: str | None = None, model: RuntimeModel = UNKNOWN_MODEL
    ) -> CompactionSetting:
        """How a session of a database of this schema is compacted by these options.

        Raises:
            RefusedError: the rules know nothing of the current turn, which was asked for.
        """
        setting = compaction_setting(
            schema,
            self.run.settings.engine,
            self.run.zone,
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

    def shown(self, loaded: LoadedContext, setting: CompactionSetting) -> ShownCompaction:
        """What would be done to a context, also to one that nobody has written yet."""
        forecast: CompactionForecast[Any] = forecast_passes(loaded, setting, self.operation)
        return ShownCompaction(
            loaded.conversation_id, self.name, setting, forecast, self.model, self.rules is not None
        )

    def planned(self, shown: ShownCompaction) -> Answer:
        """The answer of a dry run."""
        blocks = planned_compaction(shown)
        seen = shown.forecast
        if self.target is not None and seen.tokens_after > self.target:
            about = f"~{seen.tokens_after:,}" if seen.passes else f"{seen.tokens_after:,}"
            blocks.append(Note(f"That is {about} tokens: no pass brings the context below {self.target:,}."))
        if seen.passes:
            blocks.append(Note("No call was made and nothing was changed; --apply runs the passes."))
        return self.run.answer("compact", {**document(shown), "applied": False}, blocks)

    # -- doing -------------------------------------------------------------------------------------------

    def apply(self, shown: ShownCompaction, *, agreed: bool) -> Answer:
        """Ask, then make pass after pass; ctrl-C ends it between two of them."""
        question = f"Compact conversation {shown.conversation_id}?"
        show_and_ask(lambda: planned_compaction(shown), question, self.run.presentation, yes=agreed)
        return self._answer(shown, self.make(shown))

    def make(self, shown: ShownCompaction, batch: str = "") -> Done:
        """Make the passes, as a part of *batch* where one is given; ctrl-C ends it between two of them.

        Raises:
            LcmError: what ended it before anything was made; else `Done.failed` says so.
        """
        done = Done()
        try:
            with interruptible() as stopped:
                asyncio.run(self._apply(shown, done, stopped, batch))
        except KeyboardInterrupt:
            done.failed = CancelledError("Cancelled. Finished passes stay.")
        except LcmError as error:
            if not done.made:
                raise
            done.failed = error
        if done.failed is None and (refused := refusal_of(done.result)):
            done.failed = ProviderAuthError(refused)
            if not done.made:
                raise done.failed
        return done

    async def _apply(
        self, shown: ShownCompaction, done: Done, stopped: Callable[[], bool], batch: str
    ) -> None:
        path = self.run.settings.database.value
        async with await Database.open(path, busy_seconds=answers.BUSY_SECONDS) as database:
            writer = self.model.open(self.spending)
            try:
                await self._passes(database, shown, writer, done, stopped, batch)
            finally:
                await writer.aclose()

    async def _passes(
        self,
        database: Database,
        shown: ShownCompaction,
        writer: SummaryWriter,
        done: Done,
        stopped: Callable[[], bool],
        batch: str,
    ) -> None:
        runner: Runner[Any] = Runner(
            database,
            shown.conversation_id,
            shown.setting,
            writer,
            self.operation,
            accept=refuse_fallback if self.no_fallback else None,
            batch=batch,
            ends_at_refusal=True,
        )
        try:
            async for step in runner.steps():
                done.steps.append(step)
                self._tell(done, step)
                if stopped():
                    raise CancelledError("Cancelled. Finished passes stay.")
        finally:
            done.batch = runner.batch
            await runner.note()
        done.result = runner.result

    @property
    def _tells(self) -> bool:
        """Whether people see each pass when it has been made."""
        return can_ask() and not self.run.presentation.json

    def _tell(self, done: Done, step: PassDone) -> None:
        """A line of progress for people."""
        if self._tells:
            line = safe_line(step_words(len(done.steps), step))
            output.write(sys.stderr, f"{line}\n", utf8=False)

    def _answer(self, shown: ShownCompaction, done: Done) -> Answer:
        after = shown.forecast.tokens_before - done.saved
        data = {
            **document(shown),
            "tokens": {"before": shown.forecast.tokens_before, "after": after, "afterIsAssumed": False},
            "applied": done.failed is None,
            "compacted": bool(done.made),
            "reason": reason_of(len(done.made), done.result, done.failed),
            "batch": done.batch or None,
            "made": [step_document(step) for step in done.made],
            "skipped": sum(isinstance(step.outcome, PassSkipped) for step in done.steps),
            "lost": sum(isinstance(step.outcome, PassMoved) for step in done.steps),
        }
        undo = self.run.undo_of_batch(done.batch)
        blocks = done_compaction(done.steps, undo, done.failed, told=self._tells)
        if isinstance(done.result, UnderResult) and done.failed is None:
            data["reached"] = done.result.success
            if not done.result.success:
                words = f"The context has {done.result.final_tokens:,} tokens: no pass brings it below"
                blocks.append(Note(f"{words} {self.target or self.budget:,}."))
        return self.run.answer("compact", data, blocks).in_part(done.failed)


class Done(Struct):
    """What was done so far."""

    steps: list[PassDone] = field(default_factory=list)
    batch: str = ""
    result: Any = None
    failed: LcmError | None = None

    @property
    def saved(self) -> int:
        """Tokens by which the context became smaller."""
        return sum(step.outcome.saved for step in self.steps if isinstance(step.outcome, PassMade))

    @property
    def made(self) -> list[PassDone]:
        """The passes that made something."""
        return [step for step in self.steps if isinstance(step.outcome, PassMade)]
