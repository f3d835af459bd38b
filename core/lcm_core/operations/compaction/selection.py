"""What a pass compacts: chunks of raw messages and of summaries. Pure (docs/engine/compaction.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from lcm_core.dag.previous import given
from lcm_core.engine_rules import CompactionRules, TailRules
from lcm_core.fresh_tail import protected


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


@dataclass(frozen=True, slots=True)
class Bounds:
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
    first in any case; docs/engine/compaction.md, "Current turn". *above* as in `leaf_chunk`.
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
            and _touch(context, chunk.stop)
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


def _touch(context: WeighedContext, at: int) -> bool:
    """Whether an item follows the one before it without a gap in the ordinals."""
    return context.ordinals[at] == context.ordinals[at - 1] + 1


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


def prefix_tokens(context: WeighedContext, tail: int) -> int:
    """What the summaries before the tail weigh."""
    return sum(context.weights[at] for at in range(tail) if context.is_summary(at))


def nearest_summaries(context: WeighedContext, before: int) -> list[str]:
    """The summaries before an index that a leaf pass of its own is given, in order."""
    summaries = [(at, ref) for at, ref in enumerate(context.refs[:before]) if isinstance(ref, str)][::-1]
    return [summaries[place][1] for place in reversed(given(context.blank[at] for at, _ in summaries))]
