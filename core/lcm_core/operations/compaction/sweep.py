"""The order of passes: leaf pass, incremental, full sweep, until under. Pure (docs/engine/compaction.md).

Each is a generator: it yields the next pass on the present context, is sent what became of it, and
returns the result. Whoever drives it keeps the context up to date; a dry run, a test and a live database are
driven alike.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from lcm_core.engine_rules import EngineRules
from lcm_core.errors import LcmError
from lcm_core.operations.compaction import selection
from lcm_core.operations.compaction.selection import Bounds, WeighedContext
from lcm_core.summarize.escalate import Level
from lcm_core.summarize.request import ProviderAuthError


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass that is due: a run of the context that is to become a summary of *depth*."""

    number: int  #: from 0 within the operation
    depth: int  #: of the summary to be made: 0 a leaf
    run: range  #: indices of the context
    previous: tuple[str, ...] = ()  #: summaries that it is given as previous context
    handed_on: bool = False  #: the previous context is what the pass before made, word for word
    given: str | None = None  #: a previous context that the caller chose

    @property
    def is_leaf(self) -> bool:
        """Whether it summarises messages."""
        return self.depth == 0


@dataclass(frozen=True, slots=True)
class PassMade:
    """What became of a pass that made a summary."""

    summary_id: str
    level: Level
    saved: int  #: tokens that it took out of the running total, less those of the summary


@dataclass(frozen=True, slots=True)
class PassSkipped:
    """Nothing was made: the chunk says nothing."""


@dataclass(frozen=True, slots=True)
class PassRefused:
    """Nothing was made: the provider refused the key, or the operator stopped, and then nothing more is."""

    by_provider: bool = True
    ends: bool = False  #: whoever runs it ends the operation here, also where the engine continues


@dataclass(frozen=True, slots=True)
class PassMoved:
    """Nothing was made: the run changed meanwhile, and the context has been read again."""


Outcome = PassMade | PassSkipped | PassRefused | PassMoved


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation did, as the engine reports it."""

    acted: bool
    tokens_before: int  #: the stored total
    tokens_after: int  #: the running total, which may differ from what is stored
    created: tuple[str, ...] = ()
    condensed: bool = False
    level: Level | None = None  #: of the last pass
    auth_failure: bool = False
    halted: bool = False  #: whoever runs it ended it
    cut_short: bool = False  #: of these, the engine would have gone on to condense
    stopped_at_bound: bool = False  #: of iterations or time


@dataclass(frozen=True, slots=True)
class UnderResult:
    """What `until_under` came to."""

    success: bool
    rounds: int
    final_tokens: int
    auth_failure: bool = False
    acted: bool = False  #: a summary was stored


def reason_of(made: int, result: object, failed: LcmError | None) -> str | None:
    """Why a forced operation of *made* passes did not do all, in the words of engines from 1.1 on.

    docs/engine/compaction.md, "What is answered"; *failed*: what ended it.
    """
    refused = isinstance(result, Result | UnderResult) and result.auth_failure
    if refused or isinstance(failed, ProviderAuthError):
        return "provider auth failure after partial compaction" if made else "provider auth failure"
    if failed is not None:
        return "compaction failed after partial progress" if made else "compaction failed"
    return None if made else "no compaction progress"


Passes = Generator[Pass, Outcome, Result]
Clock = Callable[[], int]  #: milliseconds


@dataclass(slots=True)
class _Running:
    """One operation on its way."""

    context: WeighedContext
    rules: EngineRules
    bounds: Bounds
    clock: Clock
    deadline: int | None = None  #: by the clock
    passes: int = 0
    created: list[str] = field(default_factory=list)
    condensed: bool = False
    level: Level | None = None
    auth_failure: bool = False
    halted: bool = False
    cut_short: bool = False
    stopped: bool = False
    fell: bool = False  #: the last pass made something, and the total fell
    before: int = field(init=False)
    total: int = field(init=False)  #: the running total
    reached: int = field(init=False)  #: the total after the last pass that counted as progress

    def __post_init__(self) -> None:
        self.before = self.total = self.reached = self.context.tokens

    def tail(self) -> int:
        return selection.tail_start(self.context, self.bounds.fresh_tail_count, self.rules.tail)

    def settings_tail(self) -> int:
        """The tail of the settings, whatever the caller gave."""
        return selection.tail_start(self.context, self.rules.tail.fresh_tail_count, self.rules.tail)

    def ended(self) -> bool:
        """Whether a bound of iterations or time is reached."""
        if not self.rules.compaction.bounded or self.deadline is None:
            return False
        reached = self.passes >= self.rules.compaction.max_sweep_iterations or self.clock() >= self.deadline
        self.stopped = self.stopped or reached
        return reached

    def do(self, due: Pass) -> Generator[Pass, Outcome, Outcome]:
        """Have a pass made and note what became of it."""
        self.passes += 1
        self.fell = False
        before = self.total
        outcome = yield due
        match outcome:
            case PassMade(summary_id=made, level=level, saved=saved):
                self.created.append(made)
                self.level = level
                self.condensed = self.condensed or due.depth > 0
                running = self.rules.compaction.running_total
                self.total = max(0, self.total - saved) if running else self.context.tokens
                self.fell = self.total < before and self.total < self.reached
            case PassRefused(by_provider=by_provider, ends=ends):
                self.auth_failure = self.auth_failure or by_provider
                outlives = by_provider and self.rules.compaction.outlives_refusal
                self.halted = self.halted or ends or not outlives
            case PassMoved():
                self.passes -= 1
            case PassSkipped():
                pass
        return outcome

    def counts(self) -> None:
        """What the last pass left is what the next one is measured by."""
        self.reached = self.total

    def result(self) -> Result:
        return Result(
            acted=bool(self.created),
            tokens_before=self.before,
            tokens_after=self.total,
            created=tuple(self.created),
            condensed=self.condensed,
            level=self.level,
            auth_failure=self.auth_failure,
            halted=self.halted,
            cut_short=self.cut_short,
            stopped_at_bound=self.stopped,
        )


@dataclass(frozen=True, slots=True)
class _Goal:
    """What a caller asked of the condensations of a sweep."""

    force: bool
    hard: bool  #: the hard fan-out
    mark: int | None  #: the stop mark: tokens that the total is to reach


@dataclass(frozen=True, slots=True)
class Compaction:
    """How one conversation is compacted: rules, and what a caller overrides."""

    context: WeighedContext
    rules: EngineRules
    budget: int  #: tokens of the model's context
    clock: Clock
    bounds: Bounds
    current_turn: bool = False  #: recovery from an overflow: finished tool calls of the current turn go too

    def _run(self, deadline: int | None = None) -> _Running:
        return _Running(self.context, self.rules, self.bounds, self.clock, deadline)

    def is_over(self, observed: int = 0) -> bool:
        """Whether the context is above its threshold; *observed*: tokens of the prompt as a host saw it."""
        return max(self.context.tokens, observed) > self.rules.compaction.threshold(self.budget)

    def tail_start(self) -> int:
        """The index from which on everything is protected."""
        return self._run().tail()

    def is_chunk_due(self) -> bool:
        """Whether the raw messages that compaction may touch make a leaf chunk."""
        raw = selection.raw_tokens(self.context, self.tail_start())
        return raw >= self.bounds.leaf_chunk_tokens

    # -- one leaf pass, and what follows it ------------------------------------------------------------

    def leaf(self, *, force: bool = True, given: str | None = None, incremental: bool = True) -> Passes:
        """One leaf pass, and (*incremental*) condensed ones up to the depth that is condensed by itself.

        docs/engine/compaction.md, "Leaf pass of its own"; *given* is a previous context that the caller
        chose.
        """
        run = self._run()
        if not (force or self.is_over() or self.is_chunk_due()):
            return run.result()
        while True:
            chunk = selection.leaf_chunk(self.context, run.tail(), self.bounds.leaf_chunk_tokens)
            if not chunk:
                return run.result()
            previous = () if given is not None else self._nearest(chunk)
            outcome = yield from run.do(Pass(run.passes, 0, chunk, previous, given=given))
            if not isinstance(outcome, PassMoved):
                break
        if not isinstance(outcome, PassMade):
            return run.result()
        if incremental:
            yield from self._incremental(run)
        # The engine does not report a key that is refused after the leaf; a caller that ends there needs it.
        return replace(run.result(), auth_failure=run.auth_failure and run.halted)

    def _nearest(self, chunk: range) -> tuple[str, ...]:
        return tuple(selection.nearest_summaries(self.context, chunk.start))

    def _incremental(self, run: _Running) -> Generator[Pass, Outcome, None]:
        rules, depth = self.rules.compaction, 0
        limit = rules.sweep_max_depth
        while depth < limit or (limit < 0 and rules.endless_depth):
            found = selection.condensed_chunk(
                self.context, run.settings_tail(), depth, rules.leaf_chunk_tokens
            )
            if not selection.is_enough(self.context, found, depth, rules, hard=False):
                return
            run.counts()
            outcome = yield from run.do(Pass(run.passes, depth + 1, found))
            if isinstance(outcome, PassMoved):
                continue
            if not run.fell:
                return
            depth += 1

    # -- sweeps ----------------------------------------------------------------------------------------

    def sweep(
        self,
        *,
        force: bool = True,
        hard: bool = False,
        stop_at: int | None = None,
        threshold: float | None = None,
        observed: int = 0,
        deadline: int | None = None,
    ) -> Passes:
        """Leaf passes until nothing is left outside the tail, then condensed ones.

        docs/engine/compaction.md, "Sweep". *hard* takes the small fan-out throughout, *stop_at* is the mark
        in tokens, *threshold* a share of the budget in place of the setting's.
        """
        if threshold is not None and 0 <= threshold <= 1:
            compaction = replace(self.rules.compaction, context_threshold=threshold)
            own = replace(self, rules=replace(self.rules, compaction=compaction))
            return (
                yield from own.sweep(
                    force=force, hard=hard, stop_at=stop_at, observed=observed, deadline=deadline
                )
            )
        rules = self.rules.compaction
        until = self.clock() + rules.sweep_deadline_ms
        run = self._run(until if deadline is None else min(until, deadline))
        mark = stop_at if stop_at is not None and stop_at > 0 and rules.running_total else None
        over = self.is_over(observed) or (mark is not None and self.context.tokens > mark)
        if not (force or over or (rules.leaf_trigger and self.is_chunk_due())):
            return run.result()
        yield from self._leaves(run, mark)
        run.cut_short = run.halted and run.auth_failure and rules.outlives_refusal
        if not (run.halted or run.stopped):
            yield from self._condensations(run, _Goal(force, hard, mark))
        return run.result()

    def _leaves(self, run: _Running, mark: int | None = None) -> Generator[Pass, Outcome, None]:
        skipped: int | None = None  # ordinal of the last message that was
        made: str | None = None
        while not run.ended():
            chunk = selection.leaf_chunk(self.context, run.tail(), self.bounds.leaf_chunk_tokens, skipped)
            if not chunk and self.current_turn:
                chunk = selection.tool_chunk(self.context, self.bounds, self.rules.tail, skipped)
            if not chunk or run.ended():
                return
            last = self.context.ordinals[chunk.stop - 1]
            if made is None and skipped is not None:
                due = Pass(run.passes, 0, chunk, self._nearest(chunk))
            else:
                due = Pass(run.passes, 0, chunk, () if made is None else (made,), handed_on=True)
            match (yield from run.do(due)):
                case PassSkipped():
                    skipped = last
                case PassMade(summary_id=made):
                    if not run.fell or (mark is not None and run.total <= mark):
                        return
                    run.counts()
                case PassMoved():
                    continue
                case PassRefused():
                    return

    def _condensations(self, run: _Running, goal: _Goal) -> Generator[Pass, Outcome, None]:
        if not self.rules.compaction.has_prefix_target:
            yield from self._condense(run, goal, None)
            return
        goes_on = yield from self._condense(run, goal, self.rules.compaction.sweep_max_depth)
        if goes_on and not run.auth_failure:
            yield from self._condense(run, replace(goal, hard=True), None)

    def _condense(
        self, run: _Running, goal: _Goal, depth_limit: int | None
    ) -> Generator[Pass, Outcome, bool]:
        """Condensed passes, shallowest first, while there is one and it helps; whether to try harder."""
        while self._is_wanted(run, goal):
            if run.ended():
                return False
            found = self._candidate(run, goal, depth_limit)
            if found is None:
                return True
            if run.ended():
                return False
            depth, chunk = found
            outcome = yield from run.do(Pass(run.passes, depth + 1, chunk))
            if isinstance(outcome, PassMoved):
                continue
            if not isinstance(outcome, PassMade) or not (run.fell or self._is_reached(run, goal)):
                return False
            run.counts()
        return True

    def _is_wanted(self, run: _Running, goal: _Goal) -> bool:
        """Whether to condense further: always at 0.1, else while the summaries are over their target."""
        if not self.rules.compaction.has_prefix_target:
            return True
        if goal.mark is not None and run.total > goal.mark:
            return True
        summaries = selection.prefix_tokens(self.context, run.tail())
        return summaries > self.rules.compaction.prefix_target(self.budget)

    def _is_reached(self, run: _Running, goal: _Goal) -> bool:
        """Whether a pass brought the total to its goal, even if it did not fall."""
        if not self.rules.compaction.has_prefix_target:
            return False
        if goal.mark is not None and run.total <= goal.mark:
            return True
        return not goal.force and run.total <= self.rules.compaction.threshold(self.budget)

    def _candidate(self, run: _Running, goal: _Goal, depth_limit: int | None) -> tuple[int, range] | None:
        """The shallowest depth with a chunk that is enough; None also when it is too deep.

        What a caller overrides does not count here (docs/engine/compaction.md, "Condensed chunk").
        """
        rules, tail = self.rules.compaction, run.settings_tail()
        for depth in selection.depths_before(self.context, tail):
            found = selection.condensed_chunk(self.context, tail, depth, rules.leaf_chunk_tokens)
            if selection.is_enough(self.context, found, depth, rules, hard=goal.hard):
                too_deep = depth_limit is not None and 0 <= depth_limit <= depth
                return None if too_deep else (depth, found)
        return None

    # -- a single root ---------------------------------------------------------------------------------

    def single_root(self) -> Passes:
        """A sweep, and then condensed passes until there is one summary before the tail.

        No engine does this by itself: every bound is off, two sources are enough, and neighbours of
        different depth are taken together where no two neighbours have one depth.
        """
        run = self._run()
        yield from self._leaves(run)
        while not (run.halted or run.auth_failure):
            found = self._neighbours(run)
            if found is None:
                break
            depth = max(self.context.depths[found.start : found.stop])
            outcome = yield from run.do(Pass(run.passes, depth + 1, found))
            if isinstance(outcome, PassMoved):
                continue
            if not isinstance(outcome, PassMade) or outcome.saved <= 0:
                break
            run.counts()
        return run.result()

    def _neighbours(self, run: _Running) -> range | None:
        """Two neighbouring summaries or more: the shallowest of one depth, else any two."""
        tail, limit = run.tail(), self.bounds.leaf_chunk_tokens
        for depth in selection.depths_before(self.context, tail):
            for found in selection.runs(self.context, tail, depth, limit):
                if len(found) > 1:
                    return found
        is_summary = self.context.is_summary
        pairs = (at for at in range(tail - 1) if is_summary(at) and is_summary(at + 1))
        first = next(pairs, None)
        return None if first is None else range(first, first + 2)

    # -- until under -----------------------------------------------------------------------------------

    def until_under(
        self, target: int | None = None, *, observed: int = 0
    ) -> Generator[Pass, Outcome, UnderResult]:
        """Sweep after sweep until the context has no more than *target* tokens (None or 0: the budget).

        docs/engine/compaction.md, "Until under"; *observed*: tokens of the prompt as a host saw it.
        """
        goal = self.rules.compaction.threshold(self.budget) if self.current_turn else self.budget
        target = target if target is not None and target > 0 else goal
        acted = False
        last = max(self.context.tokens, observed)
        if last < target:
            return UnderResult(True, 0, last)
        reports_stored = self.rules.compaction.reports_stored
        bounded = self.rules.compaction.bounded
        deadline = self.clock() + self.rules.compaction.compact_until_under_deadline_ms
        for number in range(1, self.rules.compaction.max_rounds + 1):
            if bounded and number > 1 and self.clock() >= deadline:
                return UnderResult(False, number - 1, last, acted=acted)
            result = yield from self.sweep(deadline=deadline)
            after = result.tokens_after
            acted = acted or result.acted
            if result.auth_failure or result.halted:
                left = self.context.tokens if reports_stored else after
                return UnderResult(False, number, left, result.auth_failure, acted)
            if after <= target:
                return UnderResult(True, number, after, acted=acted)
            if not result.acted or after >= last:
                return UnderResult(False, number, after, acted=acted)
            last = after
        return UnderResult(last <= target, self.rules.compaction.max_rounds, last, acted=acted)


# -- what an operator asks for --------------------------------------------------------------------------


class Mode(StrEnum):
    """An operation by the name that people and programs give it."""

    ONE_LEAF = "one-leaf"  #: a leaf pass and nothing after it
    LEAF = "leaf"  #: a leaf pass, and what the engine condenses after it by itself
    SWEEP = "sweep"
    UNTIL_UNDER = "until-under"
    SINGLE_ROOT = "single-root"


def operation_of(
    mode: Mode, *, target: int | None = None, if_due: bool = False
) -> Callable[[Compaction], Generator[Pass, Outcome, Any]]:
    """The passes of a mode.

    *target*: tokens for `Mode.UNTIL_UNDER`, None the budget; *if_due*: nothing unless the engine would
    compact by itself, for leaf and sweep.
    """

    def passes(compaction: Compaction) -> Generator[Pass, Outcome, Any]:
        match mode:
            case Mode.ONE_LEAF:
                return compaction.leaf(force=not if_due, incremental=False)
            case Mode.LEAF:
                return compaction.leaf(force=not if_due)
            case Mode.SWEEP:
                return compaction.sweep(force=not if_due)
            case Mode.UNTIL_UNDER:
                return compaction.until_under(target)
            case Mode.SINGLE_ROOT:
                return compaction.single_root()

    return passes
