"""Which chunk each pass compacts, and the order of passes. Pure (docs/spec/compaction.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from lcm_core.base.errors import LcmError
from lcm_core.base.values import Record, replace
from lcm_core.engine.previous import given
from lcm_core.engine.rules import CompactionRules, EngineRules, TailRules, protected
from lcm_core.writers.acceptance import Level
from lcm_core.writers.request import ProviderAuthError

# -- chunks ----------------------------------------------------------------------------------------------
# Chunks of raw messages and of summaries.


class WeighedItem(NamedTuple):
    """An item of a context with what selection needs to know of it."""

    ref: int | str | None  #: message id or summary id; None: the item names neither
    weight: int  #: tokens by which it is selected; 0 when the row is gone
    is_user: bool = False  #: a message of the user
    depth: int = 0  #: of a summary
    sound: bool = True  #: its row is there, of this conversation, and there once: it may be compacted
    blank: bool = False  #: a summary that says nothing
    stored: int | None = None  #: its ``token_count``; None: what it weighs
    ordinal: int | None = None  #: None: one more than that of the item before


class TurnMessage(NamedTuple):
    """What a message of the current turn has to do with tools."""

    role: str  #: as stored
    ids: tuple[str, ...]  #: that an assistant calls, or a tool message answers; '': one without an id


@dataclass(slots=True)
class WeighedContext:
    """The items of a context with what selection weighs; a pass replaces a run of them by a summary.

    Column by column, as the fields of `WeighedItem`: 46,000 objects take half as long to make, and to be gone
    through by the garbage collector, as all else that a sweep is planned with.
    """

    refs: list[int | str | None]
    weights: list[int]  #: tokens by which they are selected
    users: list[bool]
    depths: list[int]
    sound: list[bool]
    blank: list[bool]
    stored: list[int]  #: ``token_count`` of each
    ordinals: Sequence[int]  #: a range where none is missing, as in nearly every context
    #: the messages behind the newest of the user, by id; empty where no engine looks at them
    turn: Mapping[int, TurnMessage] = field(default_factory=dict)
    tokens: int = field(init=False)  #: the stored total

    def __post_init__(self) -> None:
        self.tokens = sum(self.stored)

    @classmethod
    def of(cls, items: Sequence[WeighedItem]) -> Self:
        """A context of some items."""
        whole: list[WeighedItem] = []
        for item in items:
            following = whole[-1].ordinal + 1 if whole and whole[-1].ordinal is not None else 0
            whole.append(
                item._replace(
                    stored=item.weight if item.stored is None else item.stored,
                    ordinal=following if item.ordinal is None else item.ordinal,
                )
            )
        *columns, ordinals = zip(*whole, strict=True) if whole else [()] * len(WeighedItem._fields)
        return cls._of_columns([list(column) for column in columns], compact_ordinals(ordinals))

    @classmethod
    def _of_columns(cls, columns: Iterable[list[Any]], ordinals: Sequence[int]) -> Self:
        refs, weights, users, depths, sound, blank, stored = columns
        return cls(refs, weights, users, depths, sound, blank, stored, ordinals)

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def items(self) -> list[WeighedItem]:
        """The items one by one."""
        return list(map(WeighedItem._make, zip(*self._columns, self.ordinals, strict=True)))

    def copy(self) -> Self:
        """The same, to be changed."""
        copied = self._of_columns((column[:] for column in self._columns), self.ordinals)
        copied.turn = self.turn
        return copied

    def adopt(self, other: WeighedContext) -> None:
        """Take over a context that was read again."""
        self.refs, self.weights, self.users, self.depths, self.sound, self.blank, self.stored = other._columns
        self.ordinals, self.tokens, self.turn = other.ordinals, other.tokens, other.turn

    def replace(self, run: range, summary: WeighedItem) -> None:
        """A summary takes the place of a run, and the whole context is numbered from 0."""
        stored = summary.weight if summary.stored is None else summary.stored
        self.tokens += stored - sum(self.stored[run.start : run.stop])
        for column, value in zip(self._columns, summary._replace(stored=stored), strict=False):
            column[run.start : run.stop] = [value]
        self.ordinals = range(len(self.refs))

    def is_message(self, at: int) -> bool:
        """Whether there is a raw message that may be compacted."""
        return self.sound[at] and isinstance(self.refs[at], int)

    def is_summary(self, at: int) -> bool:
        """Whether there is a summary that may be condensed."""
        return self.sound[at] and isinstance(self.refs[at], str)

    def removed(self, run: range, *, is_leaf: bool) -> int:
        """The tokens that a pass on a run takes out of the running total."""
        return sum((self.weights if is_leaf else self.stored)[run.start : run.stop])

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return self.refs, self.weights, self.users, self.depths, self.sound, self.blank, self.stored


def compact_ordinals(ordinals: Sequence[int]) -> Sequence[int]:
    """The same numbers, as a range where they follow each other."""
    if not ordinals or ordinals[-1] - ordinals[0] != len(ordinals) - 1:
        return ordinals
    return range(ordinals[0], ordinals[-1] + 1)


class Bounds(Record, frozen=True):
    """The numbers by which one operation selects; a caller may override the settings' own."""

    fresh_tail_count: int
    leaf_chunk_tokens: int


def tail_start(context: WeighedContext, count: int, rules: TailRules) -> int:
    """The index from which on everything is protected; one past the end when nothing is (Fresh tail)."""
    places: list[int] = []

    def newest_first() -> Iterator[tuple[int, bool]]:
        for at in range(len(context) - 1, -1, -1):
            if context.is_message(at):
                places.append(at)
                yield context.weights[at], context.users[at]

    size = protected(
        newest_first(),
        count=count,
        max_tokens=rules.fresh_tail_max_tokens,
        whole_turn=rules.keeps_turn_whole,
    )
    return places[size - 1] if size else len(context)


def leaf_chunk(context: WeighedContext, tail: int, limit: int, above: int | None = None) -> range:
    """The oldest run of raw messages before the tail, at least one, of at most *limit* tokens; maybe empty.

    Only items with an ordinal *above* that of the last chunk that was skipped are looked at (Leaf chunk).
    """

    def is_due(at: int) -> bool:
        return context.is_message(at) and (above is None or context.ordinals[at] > above)

    first = next(filter(is_due, range(tail)), tail)
    end, spent = first, 0
    while end < tail and is_due(end) and (end == first or spent + context.weights[end] <= limit):
        spent += context.weights[end]
        end += 1
        if spent >= limit:
            break
    return range(first, end)


def newest_user(context: WeighedContext) -> int | None:
    """The index of the newest raw message of the user."""
    found = (at for at in range(len(context) - 1, -1, -1) if context.users[at] and context.is_message(at))
    return next(found, None)


def tool_chunk(context: WeighedContext, bounds: Bounds, rules: TailRules, above: int | None = None) -> range:
    """The oldest finished tool calls of the current turn that may be compacted; maybe empty.

    Groups of an assistant's calls with all their results, of at most the tokens of a leaf chunk together, the
    first in any case; docs/spec/compaction.md, "Current turn". *above* as in `leaf_chunk`.
    """
    user = newest_user(context)
    if user is None:
        return range(0)
    end = _recovery_tail(context, user, bounds.fresh_tail_count, rules.fresh_tail_max_tokens)
    calls = Counter(
        call
        for at in range(user + 1, len(context))
        if (message := _turn_message(context, at)) is not None and message.role == "assistant"
        for call in message.ids
    )
    chunk, spent, at = range(0), 0, user + 1
    while at < end and spent < bounds.leaf_chunk_tokens:
        if isinstance(context.refs[at], str) or _is_plain_assistant(_turn_message(context, at)):
            at += 1
            continue
        group = _tool_group(context, at, end, calls)
        if not group:
            break
        at = group.stop
        if above is not None and context.ordinals[group.start] <= above:
            continue
        weight = sum(context.weights[group.start : group.stop])
        if not chunk:
            chunk, spent = group, weight
        elif (
            chunk.stop == group.start
            and context.ordinals[chunk.stop] == context.ordinals[chunk.stop - 1] + 1
            and (spent + weight <= bounds.leaf_chunk_tokens)
        ):
            chunk, spent = range(chunk.start, group.stop), spent + weight
        else:
            break
    return chunk


def _recovery_tail(context: WeighedContext, user: int, count: int, most: int | None) -> int:
    """The index from which on the current turn is left alone: its newest messages, at least one."""
    end, counted, spent = len(context), 0, 0
    for at in range(len(context) - 1, user, -1):
        if not context.is_message(at):
            continue
        spent += context.weights[at]
        if counted and (counted >= count or (most is not None and spent > most)):
            break
        end, counted = at, counted + 1
    return end


def _tool_group(context: WeighedContext, first: int, end: int, calls: Mapping[str, int]) -> range:
    """An assistant's calls and the messages right behind it with all their results; else empty."""
    message = _turn_message(context, first)
    if message is None or message.role != "assistant":
        return range(0)
    still_open = set(message.ids)
    if "" in still_open or any(calls[call] != 1 for call in message.ids):
        return range(0)
    at = first + 1
    while still_open:
        result = _turn_message(context, at) if at < end else None
        if result is None or result.role != "tool" or not result.ids:
            return range(0)
        if not still_open.issuperset(result.ids):
            return range(0)
        still_open.difference_update(result.ids)
        at += 1
    return range(first, at)


def _turn_message(context: WeighedContext, at: int) -> TurnMessage | None:
    ref = context.refs[at]
    return context.turn.get(ref) if isinstance(ref, int) and context.is_message(at) else None


def _is_plain_assistant(message: TurnMessage | None) -> bool:
    return message is not None and message.role == "assistant" and not message.ids


def raw_tokens(context: WeighedContext, tail: int) -> int:
    """What the raw messages before the tail weigh."""
    return sum(context.weights[at] for at in range(tail) if context.is_message(at))


def condensed_chunk(context: WeighedContext, tail: int, depth: int, limit: int) -> range:
    """The oldest run of summaries of one depth before the tail, of at most *limit* tokens; maybe empty.

    Those that say nothing are passed over at its beginning, and weigh nothing within it (Condensed chunk).
    """
    belongs = _belongs(context, depth)
    first = next((at for at in range(tail) if belongs(at) and not context.blank[at]), tail)
    return _condensed_run(context, first, tail, limit, belongs)


def _belongs(context: WeighedContext, depth: int) -> Callable[[int], bool]:
    return lambda at: context.is_summary(at) and context.depths[at] == depth


def _condensed_run(
    context: WeighedContext, first: int, tail: int, limit: int, belongs: Callable[[int], bool]
) -> range:
    end, spent = first, 0
    while end < tail and belongs(end):
        if not context.blank[end]:
            if end > first and spent + context.weights[end] > limit:
                break
            spent += context.weights[end]
        end += 1
    return range(first, end)


def runs(context: WeighedContext, tail: int, depth: int, limit: int) -> Iterator[range]:
    """All runs of summaries of one depth before the tail, two at least where two are neighbours."""
    belongs = _belongs(context, depth)
    at = 0
    while at < tail:
        if not belongs(at):
            at += 1
            continue
        found = _condensed_run(context, at, tail, limit, belongs)
        if len(found) == 1 and at + 1 < tail and belongs(at + 1):
            found = range(at, at + 2)
        yield found
        at = found.stop


def depths_before(context: WeighedContext, tail: int) -> list[int]:
    """The depths of summaries before the tail, shallowest first."""
    return sorted({context.depths[at] for at in range(tail) if context.is_summary(at)})


def fanout(depth: int, rules: CompactionRules, *, hard: bool) -> int:
    """How many sources of *depth* make a condensed summary at the least."""
    if hard:
        return rules.condensed_min_fanout_hard
    return rules.leaf_min_fanout if depth == 0 else rules.condensed_min_fanout


def is_enough(context: WeighedContext, run: range, depth: int, rules: CompactionRules, *, hard: bool) -> bool:
    """Whether a run has the count and the tokens to be condensed; what says nothing has neither."""
    counted = [context.weights[at] for at in run if not context.blank[at]]
    return (
        len(run) > 0
        and len(counted) >= fanout(depth, rules, hard=hard)
        and sum(counted) >= rules.smallest_condensation
    )


def nearest_summaries(context: WeighedContext, before: int) -> list[str]:
    """The summaries before an index that a leaf pass of its own is given, in order."""
    summaries = [(at, ref) for at, ref in enumerate(context.refs[:before]) if isinstance(ref, str)][::-1]
    return [summaries[place][1] for place in reversed(given(context.blank[at] for at, _ in summaries))]


# -- the order of passes ---------------------------------------------------------------------------------
# Leaf pass, incremental, full sweep, until under a target.
#
# Each is a generator: it yields the next pass on the present context, is sent what became of it, and
# returns the result. Whoever drives it keeps the context up to date; a dry run, a test and a live database
# are driven alike.


class Pass(Record, frozen=True):
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


class PassMade(Record, frozen=True):
    """What became of a pass that made a summary."""

    summary_id: str
    level: Level
    saved: int  #: tokens that it took out of the running total, less those of the summary


class PassSkipped(Record, frozen=True):
    """Nothing was made: the chunk says nothing."""


class PassRefused(Record, frozen=True):
    """Nothing was made: the provider refused the key, or the operator stopped, and then nothing more is."""

    by_provider: bool = True
    ends: bool = False  #: whoever runs it ends the operation here, also where the engine continues


class PassMoved(Record, frozen=True):
    """Nothing was made: the run changed meanwhile, and the context has been read again."""


Outcome = PassMade | PassSkipped | PassRefused | PassMoved


class Result(Record, frozen=True):
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


class UnderResult(Record, frozen=True):
    """What `until_under` came to."""

    success: bool
    rounds: int
    final_tokens: int
    auth_failure: bool = False
    acted: bool = False  #: a summary was stored


def reason_of(made: int, result: object, failed: LcmError | None) -> str | None:
    """Why a forced operation of *made* passes did not do all, in the words of engines from 1.1 on.

    docs/spec/compaction.md, "What is answered"; *failed*: what ended it.
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
        return tail_start(self.context, self.bounds.fresh_tail_count, self.rules.tail)

    def settings_tail(self) -> int:
        """The tail of the settings, whatever the caller gave."""
        return tail_start(self.context, self.rules.tail.fresh_tail_count, self.rules.tail)

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


class _Goal(Record, frozen=True):
    """What a caller asked of the condensations of a sweep."""

    force: bool
    hard: bool  #: the hard fan-out
    mark: int | None  #: the stop mark: tokens that the total is to reach


class Compaction(Record, frozen=True):
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
        raw = raw_tokens(self.context, self.tail_start())
        return raw >= self.bounds.leaf_chunk_tokens

    # -- one leaf pass, and what follows it ------------------------------------------------------------

    def leaf(self, *, force: bool = True, given: str | None = None, incremental: bool = True) -> Passes:
        """One leaf pass, and (*incremental*) condensed ones up to the depth that is condensed by itself.

        docs/spec/compaction.md, "Leaf pass of its own"; *given* is a previous context that the caller
        chose.
        """
        run = self._run()
        if not (force or self.is_over() or self.is_chunk_due()):
            return run.result()
        while True:
            chunk = leaf_chunk(self.context, run.tail(), self.bounds.leaf_chunk_tokens)
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
        return tuple(nearest_summaries(self.context, chunk.start))

    def _incremental(self, run: _Running) -> Generator[Pass, Outcome, None]:
        rules, depth = self.rules.compaction, 0
        limit = rules.sweep_max_depth
        while depth < limit or (limit < 0 and rules.endless_depth):
            found = condensed_chunk(self.context, run.settings_tail(), depth, rules.leaf_chunk_tokens)
            if not is_enough(self.context, found, depth, rules, hard=False):
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

        docs/spec/compaction.md, "Sweep". *hard* takes the small fan-out throughout, *stop_at* is the mark
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
            chunk = leaf_chunk(self.context, run.tail(), self.bounds.leaf_chunk_tokens, skipped)
            if not chunk and self.current_turn:
                chunk = tool_chunk(self.context, self.bounds, self.rules.tail, skipped)
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
        summaries = sum(self.context.weights[at] for at in range(run.tail()) if self.context.is_summary(at))
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

        What a caller overrides does not count here (docs/spec/compaction.md, "Condensed chunk").
        """
        rules, tail = self.rules.compaction, run.settings_tail()
        for depth in depths_before(self.context, tail):
            found = condensed_chunk(self.context, tail, depth, rules.leaf_chunk_tokens)
            if is_enough(self.context, found, depth, rules, hard=goal.hard):
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
        for depth in depths_before(self.context, tail):
            for found in runs(self.context, tail, depth, limit):
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

        docs/spec/compaction.md, "Until under"; *observed*: tokens of the prompt as a host saw it.
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


# -- modes -----------------------------------------------------------------------------------------------


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
