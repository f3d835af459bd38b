"""What a pass compacts: chunks of raw messages and runs of summaries. Pure (engine.md 2.2, 2.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from lcm_core.compaction_rules import CompactionSettings, SweepRules


class Standing(NamedTuple):
    """An item of a context with what selection needs to know of it.

    A tuple, not a dataclass: 46,000 of them are made in a fifth of the time.
    """

    ref: int | str | None  #: message id or summary id; None: the item names neither
    tokens: int  #: stored estimate; 0 when the row is gone
    is_user: bool = False  #: a message of the user
    depth: int = 0  #: of a summary
    sound: bool = True  #: its row is there, of this conversation, and stands once: it may be compacted
    blank: bool = False  #: a summary that says nothing

    @property
    def is_message(self) -> bool:
        """Whether it is a raw message that may be compacted."""
        return self.sound and isinstance(self.ref, int)

    @property
    def is_summary(self) -> bool:
        """Whether it is a summary that may be condensed."""
        return self.sound and isinstance(self.ref, str)


@dataclass(slots=True)
class Context:
    """The items of one conversation in order; a pass replaces a run of them by a summary."""

    items: list[Standing]
    tokens: int = field(init=False)  #: of all of them

    def __post_init__(self) -> None:
        self.tokens = sum(map(attrgetter("tokens"), self.items))

    def adopt(self, other: Context) -> None:
        """Take over a context that was read again."""
        self.items, self.tokens = other.items, other.tokens

    def replace(self, run: range, summary: Standing) -> None:
        """A summary takes the place of a run."""
        gone = self.items[run.start : run.stop]
        self.tokens += summary.tokens - sum(item.tokens for item in gone)
        self.items[run.start : run.stop] = [summary]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers by which one operation selects; a caller may override the settings' own."""

    fresh_tail_count: int
    leaf_chunk_tokens: int


def tail_start(context: Context, count: int, rules: SweepRules, settings: CompactionSettings) -> int:
    """The index from which on everything is protected; one past the end when nothing is.

    The newest *count* raw messages, fewer when they exceed the token cap (the newest is protected in any
    case), at the present engine moved back to the newest user message.
    """
    items, limit = context.items, settings.fresh_tail_max_tokens
    first, found, spent = len(items), 0, 0
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if not item.is_message:
            continue
        if found >= count or (limit is not None and found and spent + item.tokens > limit):
            break
        first, found, spent = at, found + 1, spent + item.tokens
    if not rules.keeps_turn_whole or not found:
        return first
    user = next((at for at in range(len(items) - 1, -1, -1) if _is_user(items[at])), first)
    return min(first, user)


def _is_user(item: Standing) -> bool:
    return item.is_message and item.is_user


def leaf_chunk(
    context: Context, tail: int, limit: int, passed_over: Collection[int | str | None] = ()
) -> range:
    """The oldest run of raw messages before the tail, at least one, of at most *limit* tokens; maybe empty.

    Messages that were *passed over* count as compacted.
    """
    items = context.items

    def is_due(at: int) -> bool:
        return items[at].is_message and items[at].ref not in passed_over

    return _run(items, next(filter(is_due, range(tail)), tail), tail, limit, is_due)


def _run(
    items: Sequence[Standing], first: int, tail: int, limit: int, belongs: Callable[[int], bool]
) -> range:
    """From *first* on while items belong: one at least, then as many as stay within *limit* tokens."""
    end, spent = first, 0
    while end < tail and belongs(end):
        if end > first and spent + items[end].tokens > limit:
            break
        spent += items[end].tokens
        end += 1
        if spent >= limit:
            break
    return range(first, end)


def raw_tokens(items: Iterable[Standing]) -> int:
    """The tokens of the raw messages among some items."""
    return sum(item.tokens for item in items if item.is_message)


def oldest_run(context: Context, tail: int, depth: int, limit: int) -> range:
    """The oldest run of summaries of one depth before the tail, of at most *limit* tokens; maybe empty."""
    items = context.items

    def belongs(at: int) -> bool:
        return items[at].is_summary and items[at].depth == depth

    return _run(items, next(filter(belongs, range(tail)), tail), tail, limit, belongs)


def runs(context: Context, tail: int, depth: int, limit: int) -> Iterator[range]:
    """All runs of summaries of one depth before the tail, two at least where two stand side by side."""
    items = context.items

    def belongs(at: int) -> bool:
        return items[at].is_summary and items[at].depth == depth

    at = 0
    while at < tail:
        if not belongs(at):
            at += 1
            continue
        found = _run(items, at, tail, limit, belongs)
        if len(found) == 1 and at + 1 < tail and belongs(at + 1):
            found = range(at, at + 2)
        yield found
        at = found.stop


def depths_before(context: Context, tail: int) -> list[int]:
    """The depths of summaries that stand before the tail, shallowest first."""
    return sorted({item.depth for item in context.items[:tail] if item.is_summary})


def fanout(depth: int, settings: CompactionSettings, *, hard: bool) -> int:
    """How many sources of *depth* make a condensed summary at the least."""
    if hard:
        return settings.condensed_min_fanout_hard
    return settings.leaf_min_fanout if depth == 0 else settings.condensed_min_fanout


def is_enough(
    context: Context, run: range, depth: int, rules: SweepRules, settings: CompactionSettings, *, hard: bool
) -> bool:
    """Whether a run has the count and the tokens to be condensed."""
    items = context.items[run.start : run.stop]
    counted = [item for item in items if not (rules.meaningful_fanout and item.blank)]
    tokens = sum(item.tokens for item in items)
    return len(counted) >= fanout(depth, settings, hard=hard) and tokens >= settings.smallest_condensation


def prefix_tokens(context: Context, tail: int) -> int:
    """The tokens of the summaries before the tail."""
    return sum(item.tokens for item in context.items[:tail] if item.is_summary)


def nearest_summaries(context: Context, before: int, most: int) -> list[str]:
    """The last *most* summaries before an index, in order."""
    found: list[str] = []
    for at in range(before - 1, -1, -1):
        item = context.items[at]
        if len(found) >= most:
            break
        if isinstance(item.ref, str):
            found.append(item.ref)
    return found[::-1]
