"""The order of passes: leaf pass, incremental, full sweep, until under. Pure (engine.md 2.2, 2.5).

Each is a generator: it yields the next pass on the context as it stands, is sent what became of it, and
returns the result. Whoever drives it keeps the context up to date; a dry run, a test and a live database are
driven alike.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final

from lcm_core.compaction_rules import CompactionRules, CompactionSettings
from lcm_core.operations.compaction import selection
from lcm_core.operations.compaction.selection import Bounds, Context
from lcm_core.summarize.escalate import Level

#: How many summaries a leaf pass of its own, or a condensation of leaves, is given (engine.md 2.2).
PREVIOUS: Final = 2
#: How far back the previous context of a condensation is looked for (engine.md 2.2).
PREVIOUS_WINDOW: Final = 4


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
class Made:
    """What became of a pass that made a summary."""

    summary_id: str
    level: Level
    saved: int  #: tokens by which the context is smaller for it


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was made: the chunk says nothing."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was made, and nothing more is to be: the provider refused the key, or the operator stopped."""

    by_provider: bool = True


@dataclass(frozen=True, slots=True)
class Moved:
    """Nothing was made: the run changed meanwhile, and the context has been read again."""


Outcome = Made | Skipped | Refused | Moved


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation did, as the engine reports it."""

    acted: bool
    tokens_before: int
    tokens_after: int
    created: tuple[str, ...] = ()
    condensed: bool = False
    level: Level | None = None  #: of the last pass
    auth_failure: bool = False
    halted: bool = False  #: by the provider or the operator
    stopped_at_bound: bool = False  #: of iterations or time


@dataclass(frozen=True, slots=True)
class UnderResult:
    """What `until_under` came to."""

    success: bool
    rounds: int
    final_tokens: int
    auth_failure: bool = False


Passes = Generator[Pass, Outcome, Result]
Clock = Callable[[], int]  #: milliseconds


@dataclass(slots=True)
class _Run:
    """One operation on its way."""

    context: Context
    rules: CompactionRules
    settings: CompactionSettings
    bounds: Bounds
    clock: Clock
    deadline: int | None = None  #: by the clock
    passes: int = 0
    created: list[str] = field(default_factory=list)
    condensed: bool = False
    level: Level | None = None
    auth_failure: bool = False
    halted: bool = False
    stopped: bool = False
    before: int = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.context.tokens

    def tail(self) -> int:
        return selection.tail_start(
            self.context, self.bounds.fresh_tail_count, self.rules.sweep, self.settings
        )

    def ended(self) -> bool:
        """Whether a bound of iterations or time is reached."""
        if not self.rules.sweep.bounded or self.deadline is None:
            return False
        reached = self.passes >= self.settings.max_iterations or self.clock() >= self.deadline
        self.stopped = self.stopped or reached
        return reached

    def do(self, due: Pass) -> Generator[Pass, Outcome, Outcome]:
        """Have a pass made and note what became of it."""
        self.passes += 1
        outcome = yield due
        match outcome:
            case Made(summary_id=made, level=level):
                self.created.append(made)
                self.level = level
                self.condensed = self.condensed or due.depth > 0
            case Refused(by_provider=by_provider):
                self.halted = True
                self.auth_failure = by_provider
            case Moved():
                self.passes -= 1
            case Skipped():
                pass
        return outcome

    def result(self) -> Result:
        return Result(
            acted=bool(self.created),
            tokens_before=self.before,
            tokens_after=self.context.tokens,
            created=tuple(self.created),
            condensed=self.condensed,
            level=self.level,
            auth_failure=self.auth_failure,
            halted=self.halted,
            stopped_at_bound=self.stopped,
        )


@dataclass(frozen=True, slots=True)
class Compaction:
    """How one conversation is compacted: rules, settings, and what a caller overrides."""

    context: Context
    rules: CompactionRules
    settings: CompactionSettings
    budget: int  #: tokens of the model's context
    clock: Clock
    bounds: Bounds

    def _run(self, deadline: int | None = None) -> _Run:
        return _Run(self.context, self.rules, self.settings, self.bounds, self.clock, deadline)

    def is_due(self, observed: int = 0, *, leaf_trigger: bool = True) -> bool:
        """Whether the engine would compact by itself; *observed*: tokens of the prompt as a host saw it."""
        if max(self.context.tokens, observed) > self.settings.threshold(self.budget):
            return True
        return leaf_trigger and self.raw_outside_tail() >= self.bounds.leaf_chunk_tokens

    def tail_start(self) -> int:
        """The index from which on everything is protected."""
        return self._run().tail()

    def raw_outside_tail(self) -> int:
        """The tokens of raw messages that compaction may touch."""
        return selection.raw_tokens(self.context, self.tail_start())

    # -- one leaf pass, and what follows it ------------------------------------------------------------

    def leaf(self, *, force: bool = True, given: str | None = None, incremental: bool = True) -> Passes:
        """One leaf pass, and (*incremental*) condensed ones up to the depth that is condensed by itself."""
        run = self._run()
        if not force and not self.is_due():
            return run.result()
        while True:
            chunk = selection.leaf_chunk(self.context, run.tail(), self.bounds.leaf_chunk_tokens)
            if not chunk:
                return run.result()
            previous = selection.nearest_summaries(self.context, chunk.start, PREVIOUS)
            due = Pass(run.passes, 0, chunk, () if given is not None else tuple(previous), given=given)
            outcome = yield from run.do(due)
            if not isinstance(outcome, Moved):
                break
        if incremental and isinstance(outcome, Made) and outcome.saved > 0:
            yield from self._incremental(run)
        return run.result()

    def _incremental(self, run: _Run) -> Generator[Pass, Outcome, None]:
        limit = self.settings.max_depth
        depth = 0
        while limit < 0 or depth < limit:
            found = selection.oldest_run(self.context, run.tail(), depth, self.bounds.leaf_chunk_tokens)
            if not selection.is_enough(
                self.context, found, depth, self.rules.sweep, self.settings, hard=False
            ):
                return
            outcome = yield from run.do(self._condensed(run, depth, found))
            if isinstance(outcome, Moved):
                continue
            if not isinstance(outcome, Made) or outcome.saved <= 0:
                return
            depth += 1

    def _condensed(self, run: _Run, depth: int, found: range) -> Pass:
        """The pass that condenses a run of summaries of *depth*."""
        previous: list[str] = []
        if depth == 0:
            near = selection.nearest_summaries(self.context, found.start, PREVIOUS_WINDOW)
            depths = dict(zip(self.context.refs[: found.start], self.context.depths, strict=False))
            previous = [one for one in near if depths.get(one) == 0][-PREVIOUS:]
        return Pass(run.passes, depth + 1, found, tuple(previous))

    # -- sweeps ----------------------------------------------------------------------------------------

    def sweep(
        self,
        *,
        force: bool = True,
        hard: bool = False,
        stop_at: int | None = None,
        observed: int = 0,
        deadline: int | None = None,
    ) -> Passes:
        """Leaf passes until nothing is left outside the tail, then condensed ones.

        *hard* takes the small fan-out throughout; *stop_at* goes on condensing until the context is so small.
        """
        until = self.clock() + self.settings.sweep_deadline_ms
        run = self._run(until if deadline is None else min(until, deadline))
        if not force and not self.is_due(observed, leaf_trigger=self.rules.sweep.leaf_trigger):
            return run.result()
        yield from self._leaves(run)
        if not (run.halted or run.stopped):
            yield from self._condensations(run, hard, stop_at)
        return run.result()

    def _leaves(self, run: _Run) -> Generator[Pass, Outcome, None]:
        passed_over: set[int | str | None] = set()
        handed_on: tuple[str, ...] = ()
        while True:
            chunk = selection.leaf_chunk(self.context, run.tail(), self.bounds.leaf_chunk_tokens, passed_over)
            if not chunk or run.ended():
                return
            refs = self.context.refs[chunk.start : chunk.stop]
            outcome = yield from run.do(Pass(run.passes, 0, chunk, handed_on, handed_on=True))
            match outcome:
                case Skipped():
                    passed_over.update(refs)
                case Made(saved=saved) if saved > 0:
                    handed_on = (outcome.summary_id,)
                case Moved():
                    continue
                case _:
                    return

    def _condensations(self, run: _Run, hard: bool, stop_at: int | None) -> Generator[Pass, Outcome, None]:
        if not self.rules.sweep.prefix_target:
            yield from self._condense(run, hard, None, None)
            return
        if not (yield from self._condense(run, hard, self.settings.max_depth, stop_at)):
            return
        yield from self._condense(run, True, None, stop_at)

    def _condense(
        self, run: _Run, hard: bool, depth_limit: int | None, stop_at: int | None
    ) -> Generator[Pass, Outcome, bool]:
        """Condensed passes, shallowest first, while there is one and it helps; whether to try harder."""
        while self._is_wanted(run, stop_at):
            found = self._candidate(run, hard, depth_limit)
            if found is None:
                return True
            if run.ended():
                return False
            outcome = yield from run.do(self._condensed(run, *found))
            if isinstance(outcome, Moved):
                continue
            if not isinstance(outcome, Made) or outcome.saved <= 0:
                return False
        return False

    def _is_wanted(self, run: _Run, stop_at: int | None) -> bool:
        """Whether condensation goes on: always at 0.1, else while the summaries are over their target."""
        if not self.rules.sweep.prefix_target:
            return True
        if stop_at is not None and self.context.tokens > stop_at:
            return True
        summaries = selection.prefix_tokens(self.context, run.tail())
        return summaries > self.settings.prefix_target(self.budget)

    def _candidate(self, run: _Run, hard: bool, depth_limit: int | None) -> tuple[int, range] | None:
        """The shallowest depth with a run that can be condensed.

        What a caller overrides does not count here: so it is in the engine (engine.md 2.5).
        """
        settings = self.settings
        tail = selection.tail_start(self.context, settings.fresh_tail_count, run.rules.sweep, settings)
        for depth in selection.depths_before(self.context, tail):
            if depth_limit is not None and 0 <= depth_limit <= depth:
                return None
            found = selection.oldest_run(self.context, tail, depth, settings.leaf_chunk_tokens)
            if selection.is_enough(self.context, found, depth, self.rules.sweep, self.settings, hard=hard):
                return depth, found
        return None

    # -- a single root ---------------------------------------------------------------------------------

    def single_root(self) -> Passes:
        """A sweep, and then condensed passes until one summary stands before the tail.

        No engine does this by itself: every bound is off, two sources are enough, and neighbours of
        different depth are taken together where no two of one depth stand side by side.
        """
        run = self._run()
        yield from self._leaves(run)
        while not run.halted:
            found = self._neighbours(run)
            if found is None:
                break
            depth = max(self.context.depths[found.start : found.stop])
            outcome = yield from run.do(Pass(run.passes, depth + 1, found))
            if isinstance(outcome, Moved):
                continue
            if not isinstance(outcome, Made) or outcome.saved <= 0:
                break
        return run.result()

    def _neighbours(self, run: _Run) -> range | None:
        """Two summaries or more that stand side by side: the shallowest of one depth, else any two."""
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
        """Sweep after sweep until the context has no more than *target* tokens (None: the budget)."""
        target = self.budget if target is None else target
        last = max(self.context.tokens, observed)
        if last < target:
            return UnderResult(True, 0, last)
        deadline = self.clock() + self.settings.until_under_deadline_ms
        for number in range(1, self.settings.max_rounds + 1):
            result = yield from self.sweep(deadline=deadline)
            after = self.context.tokens
            if after <= target and not result.halted:
                return UnderResult(True, number, after)
            late = self.rules.sweep.bounded and self.clock() >= deadline
            if result.halted or not result.acted or after >= last or late:
                return UnderResult(False, number, after, result.auth_failure)
            last = after
        return UnderResult(False, self.settings.max_rounds, self.context.tokens)
