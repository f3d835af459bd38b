"""``compact``: the passes that the engine would make, forecast without a call, and made with ``--apply``."""

from __future__ import annotations

import sys

from lcm_core.base.errors import CancelledError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import safe_line
from lcm_core.base.values import Record, replace
from lcm_core.operations.compact import CompactionSetting, ForecastPass
from lcm_core.operations.selection import PassMoved, PassSkipped, UnderResult, WeighedContext, reason_of
from lcm_core.store.database import Database, Reader
from lcm_core.writers.cost import CallBudget
from lcm_core.writers.wire import ReplyCache

from lcm_tui.cli import output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafts import model_document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.working import can_ask, interruptible, show_and_ask
from lcm_tui.flows.compaction import (
    CompactionRun,
    CompactionWish,
    Done,
    Order,
    Rule,
    read_context,
    step_words,
)
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


def step_document(step: Done) -> Document:
    """A pass that made something, for programs."""
    draft = step.draft
    if draft is None:
        return {}
    text = draft.text
    return {
        "summaryId": draft.summary_id,
        "kind": "leaf" if step.is_leaf else "condensed",
        "depth": step.depth,
        "sources": list(step.refs),
        "sourceTokens": step.tokens,
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
        "operationId": step.operation_id,
        "searchIndex": step.search,
    }


# -- the command -----------------------------------------------------------------------------------------


class CompactWork(Record, frozen=True):
    """One run of the command."""

    run: Run
    named: Selector
    wish: CompactionWish
    model: Modelling
    no_fallback: bool = False
    spending: CallBudget | None = None  #: what it shares with other work of the same run; None: its own

    def forecast(self) -> ShownCompaction:
        """What would be done, read in one transaction."""
        return self.run.read(self._forecast)

    async def _forecast(self, reader: Reader) -> ShownCompaction:
        conversation = await chosen(reader, self.named)
        setting, context, warnings = await read_context(reader, self.run.settings, conversation, self.wish)
        shown = self.shown(conversation.conversation_id, context, setting)
        return replace(shown, warnings=warnings if shown.forecast.passes else ())

    def shown(
        self, conversation_id: ConversationId, context: WeighedContext, setting: CompactionSetting
    ) -> ShownCompaction:
        """What would be done to a context, also to one that nobody has written yet."""
        forecast, wish = self.wish.forecast(context, setting), self.wish
        return ShownCompaction(
            conversation_id, wish.mode.value, setting, forecast, self.model, wish.rules is not None
        )

    def planned(self, shown: ShownCompaction) -> Answer:
        """The answer of a dry run."""
        blocks = planned_compaction(shown)
        seen = shown.forecast
        if self.wish.target is not None and seen.tokens_after > self.wish.target:
            about = f"~{seen.tokens_after:,}" if seen.passes else f"{seen.tokens_after:,}"
            blocks.append(
                Note(f"That is {about} tokens: no pass brings the context below {self.wish.target:,}.")
            )
        if seen.passes:
            blocks.append(Note("No call was made and nothing was changed; --apply runs the passes."))
        return self.run.answer("compact", {**document(shown), "applied": False}, blocks)

    # -- doing -------------------------------------------------------------------------------------------

    def apply(self, shown: ShownCompaction, *, agreed: bool) -> Answer:
        """Ask, then make pass after pass; ctrl-C ends it between two of them."""
        question = f"Compact conversation {shown.conversation_id}?"
        show_and_ask(lambda: planned_compaction(shown), question, self.run.presentation, yes=agreed)
        return self._answer(shown, self.make(shown))

    def make(self, shown: ShownCompaction, batch: str = "") -> CompactionRun:
        """Make the passes, as a part of *batch* where one is given; ctrl-C ends it between two of them.

        Raises:
            LcmError: what ended it before anything was made; else `CompactionRun.failed` says so.
        """
        runs: list[CompactionRun] = []
        order = Order(self.wish, shown.setting)

        async def work(database: Database) -> None:
            said = 0

            def changed() -> None:
                nonlocal said
                run.stopping = run.stopping or stopped()
                while said < len(run.done):
                    said += 1
                    self._tell(said, run.done[said - 1])

            run = CompactionRun(database, shown.conversation_id, changed, ReplyCache(), batch)
            run.rule = Rule.NO_FALLBACK if self.no_fallback else Rule.ACCEPT
            runs.append(run)
            writer = self.model.open(self.spending)
            try:
                await run.go(order, writer, self.model.words, whole=True)
            finally:
                await writer.aclose()

        cancelled = CancelledError("Cancelled. Finished passes stay.")
        try:
            with interruptible() as stopped:
                self.run.work(work)
        except KeyboardInterrupt:
            if not runs:
                raise
            runs[0].failed = cancelled
        [done] = runs
        if done.failed is None and done.under_way is not None:
            done.failed = cancelled
        if done.failed is not None and not done.made and not isinstance(done.failed, CancelledError):
            raise done.failed
        return done

    @property
    def _tells(self) -> bool:
        """Whether people see each pass when it has been made."""
        return can_ask() and not self.run.presentation.json

    def _tell(self, number: int, step: Done) -> None:
        """A line of progress for people."""
        if self._tells:
            output.write(sys.stderr, f"{safe_line(step_words(number, step))}\n", utf8=False)

    def _answer(self, shown: ShownCompaction, done: CompactionRun) -> Answer:
        after = shown.forecast.tokens_before - done.saved
        data = {
            **document(shown),
            "tokens": {"before": shown.forecast.tokens_before, "after": after, "afterIsAssumed": False},
            "applied": done.failed is None,
            "compacted": bool(done.made),
            "reason": reason_of(len(done.made), done.result, done.failed),
            "batch": done.batch,
            "made": [step_document(step) for step in done.made],
            "skipped": sum(isinstance(step.outcome, PassSkipped) for step in done.done),
            "lost": sum(isinstance(step.outcome, PassMoved) for step in done.done),
        }
        undo = self.run.undo_of_batch(done.batch)
        blocks = done_compaction(done, undo, told=self._tells)
        if isinstance(done.result, UnderResult) and done.failed is None:
            data["reached"] = done.result.success
            if not done.result.success:
                words = f"The context has {done.result.final_tokens:,} tokens: no pass brings it below"
                blocks.append(Note(f"{words} {self.wish.target or self.wish.budget:,}."))
        return self.run.answer("compact", data, blocks).in_part(done.failed)
