"""``compact``: the passes that the engine would make, forecast without a call, and made with ``--apply``."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from lcm_core.base.errors import CancelledError
from lcm_core.base.text import safe_line
from lcm_core.operations.compact import PassDone
from lcm_core.operations.selection import PassMoved, PassSkipped, UnderResult, reason_of
from lcm_core.store.database import Database
from lcm_core.writers.cost import CallBudget

from lcm_tui.cli import output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.changing import Terminal
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.drafts import model_document
from lcm_tui.cli.options import ChangeFlags, Named
from lcm_tui.cli.progress import waiting
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.working import can_ask
from lcm_tui.flows.compaction import (
    CompactionRun,
    CompactionWish,
    PlannedCompaction,
    Rule,
    plan_compaction,
    step_words,
)
from lcm_tui.flows.drafts import Modelling
from lcm_tui.tables.blocks import Note, json_of
from lcm_tui.tables.compaction import FORECAST_COLUMNS, done_compaction, planned_compaction

# -- as JSON ---------------------------------------------------------------------------------------------
# A compaction for programs: what would be done, and what was done.


def document(shown: PlannedCompaction) -> Document:
    """What would be done, for programs."""
    seen, rules = shown.forecast, shown.setting.rendering.rules
    bounds = shown.setting.bounds()
    return {
        "conversationId": shown.conversation_id,
        "operation": shown.wish.mode.value,
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
        "passes": [json_of(FORECAST_COLUMNS, one) for one in seen.passes],
        **some_of(seen, "calls input_tokens output_tokens"),
        "costUsd": shown.cost,
        "model": None if shown.model is None else model_document(shown.model),
        "damagedItems": seen.damaged,
        "warnings": list(shown.warnings),
    }


def step_document(step: PassDone) -> Document:
    """A pass that made something, for programs."""
    chunk, draft = step.chunk, step.draft
    if draft is None:
        return {}
    text = draft.text
    return {
        "summaryId": draft.summary_id,
        "kind": "leaf" if chunk.due.is_leaf else "condensed",
        "depth": chunk.due.depth,
        "sources": list(chunk.refs),
        "sourceTokens": chunk.tokens,
        "tokens": text.tokens,
        **some_of(text, "level is_cut"),
        "model": draft.model,
        "calls": text.calls,
        "usage": some_of(text.usage, "input_tokens output_tokens cost_usd"),
        "operationId": step.operation_id,
        "searchIndex": step.search,
    }


# -- the command -----------------------------------------------------------------------------------------


class Compacting(Terminal):
    """Passes that a command makes (`CompactionUi`); people see each when it has been made."""

    quiet = True

    def __init__(self, run: Run, *, yes: bool, batch: str = "", budget: CallBudget | None = None) -> None:
        """*yes*: it was agreed to. *batch* and *budget* are those of what the passes are a part of."""
        super().__init__(run)
        self.yes = yes
        self.passes = CompactionRun(self, batch=batch, budget=budget)
        self.tells = can_ask() and not run.presentation.json
        self._told = 0

    async def make(self, database: Database, planned: PlannedCompaction) -> None:
        """Make the passes when that is agreed to."""
        self.database = database
        try:
            await self.passes.go(planned)
        finally:
            await self.passes.close()

    async def agree(self, planned: PlannedCompaction) -> bool:
        """Ask a person, unless that is answered."""
        question = f"Compact conversation {planned.conversation_id}?"
        await self.ask(lambda: planned_compaction(planned), question, yes=self.yes)
        return True

    def changed(self) -> None:
        """Tell of passes, and stop when that is wished."""
        done = self.passes.done
        self.passes.stopping = self.passes.stopping or self.cancelled()
        while self._told < len(done):
            self._told += 1
            if self.tells:
                line = safe_line(step_words(self._told, done[self._told - 1]))
                output.write(sys.stderr, f"{line}\n", utf8=False)

    def carry_out(self, work: Callable[[Database], Awaitable[None]]) -> None:
        """Do *work* that makes passes; ctrl-C ends it between two of them.

        Raises:
            LcmError: what ended it before anything was made.
        """
        broken_off = False
        try:
            self.run.work(work)
        except KeyboardInterrupt:
            if self.asking:
                raise
            broken_off = True
        self.end(broken_off=broken_off)

    def end(self, *, broken_off: bool = False) -> None:
        """Say why not all was made.

        Raises:
            LcmError: what ended it before anything was made.
        """
        done = self.passes
        if broken_off or (done.failed is None and done.under_way is not None):
            done.failed = CancelledError("Cancelled. Finished passes stay.")
        if done.failed is not None and not done.made and not isinstance(done.failed, CancelledError):
            raise done.failed


def compact_conversation(
    run: Run,
    named: Named,
    wish: CompactionWish,
    model: Modelling,
    flags: ChangeFlags,
    rule: Rule = Rule.ACCEPT,
) -> Answer:
    """Show what would be done, or make pass after pass; ctrl-C ends it between two of them."""
    found: list[PlannedCompaction] = []
    work = Compacting(run, yes=flags.yes)
    work.passes.rule = rule

    async def plan_and_make(database: Database) -> None:
        conversation = await database.read(chosen, named)
        with waiting("Reading", quiet=run.presentation.quiet):
            found.append(await plan_compaction(database, run.settings, conversation, wish, model))
        if flags.apply and found[0].forecast.passes:
            await work.make(database, found[0])

    work.carry_out(plan_and_make)
    [planned] = found
    if not flags.apply or not planned.forecast.passes:
        return _planned(run, planned)
    return _made(run, planned, work)


def _planned(run: Run, planned: PlannedCompaction) -> Answer:
    """The answer of a dry run."""
    blocks, target = planned_compaction(planned), planned.wish.target
    seen = planned.forecast
    if target is not None and seen.tokens_after > target:
        about = f"~{seen.tokens_after:,}" if seen.passes else f"{seen.tokens_after:,}"
        blocks.append(Note(f"That is {about} tokens: no pass brings the context below {target:,}."))
    if seen.passes:
        blocks.append(Note("No call was made and nothing was changed; --apply runs the passes."))
    return run.answer("compact", {**document(planned), "applied": False}, blocks)


def _made(run: Run, planned: PlannedCompaction, work: Compacting) -> Answer:
    done = work.passes
    after = planned.forecast.tokens_before - done.saved
    data = {
        **document(planned),
        "tokens": {"before": planned.forecast.tokens_before, "after": after, "afterIsAssumed": False},
        "applied": done.failed is None,
        "compacted": bool(done.made),
        "reason": reason_of(len(done.made), done.result, done.failed),
        "batch": done.batch,
        "made": [step_document(step) for step in done.made],
        "skipped": sum(isinstance(step.outcome, PassSkipped) for step in done.done),
        "lost": sum(isinstance(step.outcome, PassMoved) for step in done.done),
    }
    blocks = done_compaction(done, run.undo_of_batch(done.batch), told=work.tells)
    if isinstance(done.result, UnderResult) and done.failed is None:
        data["reached"] = done.result.success
        if not done.result.success:
            words = f"The context has {done.result.final_tokens:,} tokens: no pass brings it below"
            blocks.append(Note(f"{words} {planned.wish.target or planned.wish.budget:,}."))
    return run.answer("compact", data, blocks).in_part(done.failed)
