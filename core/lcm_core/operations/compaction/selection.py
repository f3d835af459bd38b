"""What a pass compacts: chunks of raw messages and runs of summaries. Pure (engine.md 2.2, 2.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from lcm_core.compaction_rules import CompactionSettings, SweepRules
from lcm_core.fresh_tail import protected


class Standing(NamedTuple):
    """An item of a context with what selection needs to know of it."""

    ref: int | str | None  #: message id or summary id; None: the item names neither
    tokens: int  #: stored estimate; 0 when the row is gone
    is_user: bool = False  #: a message of the user
    depth: int = 0  #: of a summary
    sound: bool = True  #: its row is there, of this conversation, and stands once: it may be compacted
    blank: bool = False  #: a summary that says nothing


@dataclass(slots=True)
class Context:
    """The items of one conversation in order; a pass replaces a run of them by a summary.

    Column by column, as the fields of `Standing`: 46,000 objects take half as long to make, and to be gone
    through by the garbage collector, as all else that a sweep is planned with.
    """

    refs: list[int | str | None]
    weights: list[int]  #: tokens of each
    users: list[bool]
    depths: list[int]
    sound: list[bool]
    blank: list[bool]
    tokens: int = field(init=False)  #: of all of them

    def __post_init__(self) -> None:
        self.tokens = sum(self.weights)

    @classmethod
    def of(cls, items: Sequence[Standing]) -> Self:
        """A context of some items."""
        refs, weights, users, depths, sound, blank = zip(*items, strict=True) if items else [()] * 6
        return cls(list(refs), list(weights), list(users), list(depths), list(sound), list(blank))

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def items(self) -> list[Standing]:
        """The items one by one."""
        return list(map(Standing._make, zip(*self._columns, strict=True)))

    def copy(self) -> Self:
        """The same, to be changed."""
        return type(self)(*(column[:] for column in self._columns))

    def adopt(self, other: Context) -> None:
        """Take over a context that was read again."""
        self.refs, self.weights, self.users, self.depths, self.sound, self.blank = other._columns
        self.tokens = other.tokens

    def replace(self, run: range, summary: Standing) -> None:
        """A summary takes the place of a run."""
        self.tokens += summary.tokens - sum(self.weights[run.start : run.stop])
        for column, value in zip(self._columns, summary, strict=True):
            column[run.start : run.stop] = [value]

    def is_message(self, at: int) -> bool:
        """Whether there is a raw message that may be compacted."""
        return self.sound[at] and isinstance(self.refs[at], int)

    def is_summary(self, at: int) -> bool:
        """Whether there is a summary that may be condensed."""
        return self.sound[at] and isinstance(self.refs[at], str)

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return self.refs, self.weights, self.users, self.depths, self.sound, self.blank


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers by which one operation selects; a caller may override the settings' own."""

    fresh_tail_count: int
    leaf_chunk_tokens: int


def tail_start(context: Context, count: int, rules: SweepRules, settings: CompactionSettings) -> int:
    """The index from which on everything is protected; one past the end when nothing is.

    docs/engine/compaction.md, Fresh tail.
    """
    places: list[int] = []

    def newest_first() -> Iterator[tuple[int, bool]]:
        for at in range(len(context) - 1, -1, -1):
            if context.is_message(at):
                places.append(at)
                yield context.weights[at], context.users[at]

    size = protected(
        newest_first(),
        count=count,
        max_tokens=settings.fresh_tail_max_tokens,
        whole_turn=rules.keeps_turn_whole,
    )
    return places[size - 1] if size else len(context)


def leaf_chunk(
    context: Context, tail: int, limit: int, passed_over: Collection[int | str | None] = ()
) -> range:
    """The oldest run of raw messages before the tail, at least one, of at most *limit* tokens; maybe empty.

    Messages that were *passed over* count as compacted.
    """

    def is_due(at: int) -> bool:
        return context.is_message(at) and context.refs[at] not in passed_over

    return _run(context, next(filter(is_due, range(tail)), tail), tail, limit, is_due)


def _run(context: Context, first: int, tail: int, limit: int, belongs: Callable[[int], bool]) -> range:
    """From *first* on while items belong: one at least, then as many as stay within *limit* tokens."""
    end, spent = first, 0
    while end < tail and belongs(end):
        if end > first and spent + context.weights[end] > limit:
            break
        spent += context.weights[end]
        end += 1
        if spent >= limit:
            break
    return range(first, end)


def raw_tokens(context: Context, tail: int) -> int:
    """The tokens of the raw messages before the tail."""
    return sum(context.weights[at] for at in range(tail) if context.is_message(at))


def oldest_run(context: Context, tail: int, depth: int, limit: int) -> range:
    """The oldest run of summaries of one depth before the tail, of at most *limit* tokens; maybe empty."""

    def belongs(at: int) -> bool:
        return context.is_summary(at) and context.depths[at] == depth

    return _run(context, next(filter(belongs, range(tail)), tail), tail, limit, belongs)


def runs(context: Context, tail: int, depth: int, limit: int) -> Iterator[range]:
    """All runs of summaries of one depth before the tail, two at least where two stand side by side."""

    def belongs(at: int) -> bool:
        return context.is_summary(at) and context.depths[at] == depth

    at = 0
    while at < tail:
        if not belongs(at):
            at += 1
            continue
        found = _run(context, at, tail, limit, belongs)
        if len(found) == 1 and at + 1 < tail and belongs(at + 1):
            found = range(at, at + 2)
        yield found
        at = found.stop


def depths_before(context: Context, tail: int) -> list[int]:
    """The depths of summaries that stand before the tail, shallowest first."""
    return sorted({context.depths[at] for at in range(tail) if context.is_summary(at)})


def fanout(depth: int, settings: CompactionSettings, *, hard: bool) -> int:
    """How many sources of *depth* make a condensed summary at the least."""
    if hard:
        return settings.condensed_min_fanout_hard
    return settings.leaf_min_fanout if depth == 0 else settings.condensed_min_fanout


def is_enough(
    context: Context, run: range, depth: int, rules: SweepRules, settings: CompactionSettings, *, hard: bool
) -> bool:
    """Whether a run has the count and the tokens to be condensed."""
    counted = [at for at in run if not (rules.meaningful_fanout and context.blank[at])]
    tokens = sum(context.weights[run.start : run.stop])
    return len(counted) >= fanout(depth, settings, hard=hard) and tokens >= settings.smallest_condensation


def prefix_tokens(context: Context, tail: int) -> int:
    """The tokens of the summaries before the tail."""
    return sum(context.weights[at] for at in range(tail) if context.is_summary(at))


def nearest_summaries(context: Context, before: int, most: int) -> list[str]:
    """The last *most* summaries before an index, in order."""
    found: list[str] = []
    for at in range(before - 1, -1, -1):
        ref = context.refs[at]
        if len(found) >= most:
            break
        if isinstance(ref, str):
            found.append(ref)
    return found[::-1]
