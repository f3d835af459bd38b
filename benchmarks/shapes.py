"""What a benchmark database contains, and how that is spread over its conversations.

The counts are exact: a layout that cannot reach them is an error, never an approximation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from lcm_core.base.values import replace

#: leaves per summary of depth 1 (leafMinFanout; docs/spec/settings.md, "Settings and defaults")
LEAF_FANOUT = 8
CONDENSED_FANOUT = 4  #: sources per summary of depth 2 and more (condensedMinFanout)
LEAF_MESSAGES = 8  #: no leaf is made from fewer messages than this
FRESH_TAIL = 64  #: raw messages that compaction leaves in a context (freshTailCount)


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a benchmark database; a token is the engine's estimate.

    Source: docs/spec/tokens.md, "Estimators".
    """

    name: str
    conversations: int
    messages: int
    summaries: int
    context_items: int | None  #: None is whatever the summaries and the fresh tails come to
    largest_messages: int
    largest_tokens: int  #: approximate; the text is random
    other_tokens: int  #: approximate mean of a message outside the largest conversation
    largest_raw: int  #: raw messages in the context of the largest conversation
    max_depth: int
    seed: int = 1

    def mean_tokens(self, largest: bool) -> float:
        """Tokens of an average message of the largest conversation, or of the others."""
        return self.largest_tokens / self.largest_messages if largest else self.other_tokens

    def scaled(self, factor: int) -> Shape:
        """The same database *factor* times larger in every count, its messages as long as before."""
        return replace(
            self,
            name=f"{self.name}x{factor}",
            conversations=self.conversations * factor,
            messages=self.messages * factor,
            summaries=self.summaries * factor,
            context_items=None if self.context_items is None else self.context_items * factor,
            largest_messages=self.largest_messages * factor,
            largest_tokens=self.largest_tokens * factor,
            largest_raw=self.largest_raw * factor,
        )


MANY_CONVERSATIONS = Shape(
    "a",
    conversations=755,
    messages=275_264,
    summaries=3_558,
    context_items=35_596,
    largest_messages=46_000,
    largest_tokens=20_000_000,
    other_tokens=175,
    largest_raw=1_000,
    max_depth=9,
)
DEEP_CONVERSATION = Shape(
    "b",
    conversations=1,
    messages=100_000,
    summaries=12_000,
    context_items=None,
    largest_messages=100_000,
    largest_tokens=15_000_000,
    other_tokens=0,
    largest_raw=FRESH_TAIL,
    max_depth=5,
)
TINY = Shape(
    "tiny",
    conversations=12,
    messages=1_500,
    summaries=60,
    context_items=420,
    largest_messages=600,
    largest_tokens=60_000,
    other_tokens=60,
    largest_raw=FRESH_TAIL,
    max_depth=5,
)


@dataclass(slots=True)
class Layout:
    """How many messages one conversation has, how many leaves cover the old ones, how many stay raw."""

    messages: int
    raw: int
    leaves: int = 0

    @property
    def covered(self) -> int:
        """Messages that stand in the context only through a leaf."""
        return self.messages - self.raw


def fanout(depth: int) -> int:
    """How many summaries of *depth* one summary above them is made from."""
    return LEAF_FANOUT if depth == 0 else CONDENSED_FANOUT


def levels(leaves: int, max_depth: int) -> list[int]:
    """Summaries per depth after every full group of sources was condensed."""
    counts = [leaves]
    while len(counts) <= max_depth and (above := counts[-1] // fanout(len(counts) - 1)):
        counts.append(above)
    return counts


def roots(leaves: int, max_depth: int) -> int:
    """Summaries that no other one was made from: those that stand in the context."""
    counts = levels(leaves, max_depth)
    used = sum(fanout(depth) * above for depth, above in enumerate(counts[1:]))
    return sum(counts) - used


def layouts(shape: Shape) -> list[Layout]:
    """One layout per conversation, the largest conversation first; the sums are those of *shape*."""
    rng = random.Random(shape.seed)
    result = [Layout(shape.largest_messages, min(shape.largest_raw, shape.largest_messages))]
    for messages in _message_counts(shape, rng):
        raw = FRESH_TAIL if messages >= FRESH_TAIL + LEAF_MESSAGES else messages
        result.append(Layout(messages, raw))
    _spread_leaves(shape, result)
    if shape.context_items is not None:
        _adjust_raw(shape, result)
    return result


def _message_counts(shape: Shape, rng: random.Random) -> list[int]:
    """Message counts of all but the largest conversation: a few long ones and many short ones."""
    count, total = shape.conversations - 1, shape.messages - shape.largest_messages
    if count == 0:
        return []
    weights = [rng.lognormvariate(0.0, 1.6) for _ in range(count)]
    unit = (total - 4 * count) / sum(weights)
    ceiling = shape.largest_messages - 1
    counts = [min(ceiling, 4 + int(weight * unit)) for weight in weights]
    missing = total - sum(counts)
    for index in sorted(range(count), key=counts.__getitem__)[:missing]:
        counts[index] += 1
    if sum(counts) != total:
        raise ValueError(f"shape {shape.name}: {total} messages do not fit {count} conversations")
    return counts


def _spread_leaves(shape: Shape, result: list[Layout]) -> None:
    """Give each compacted conversation its leaves, so that all summaries together are *shape.summaries*."""
    weights = [layout.covered * shape.mean_tokens(index == 0) for index, layout in enumerate(result)]

    def leaves_at(rate: float, index: int) -> int:
        covered = result[index].covered
        return min(covered // LEAF_MESSAGES, max(1, int(rate * weights[index]))) if covered else 0

    def total(counts: list[int]) -> int:
        return sum(sum(levels(leaves, shape.max_depth)) for leaves in counts if leaves)

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if total([leaves_at(middle, index) for index in range(len(result))]) <= shape.summaries:
            low = middle
        else:
            high = middle
    counts = [leaves_at(low, index) for index in range(len(result))]
    missing = shape.summaries - total(counts)
    while missing:
        before = missing
        for index, layout in enumerate(result):
            if counts[index] and (counts[index] + 1) * LEAF_MESSAGES <= layout.covered:
                gain = total([counts[index] + 1]) - total([counts[index]])
                if gain <= missing:
                    counts[index] += 1
                    missing -= gain
            if missing == 0:
                break
        if missing == before or missing < 0:
            raise ValueError(f"shape {shape.name}: {shape.summaries} summaries cannot be reached")
    for layout, leaves in zip(result, counts, strict=True):
        layout.leaves = leaves


def _adjust_raw(shape: Shape, result: list[Layout]) -> None:
    """Move messages between fresh tails and leaves until the contexts hold *shape.context_items* items."""
    assert shape.context_items is not None
    items = sum(layout.raw + roots(layout.leaves, shape.max_depth) for layout in result)
    missing = shape.context_items - items
    compacted = [layout for layout in result[1:] if layout.leaves]
    step = 1 if missing > 0 else -1
    while missing:
        before = missing
        for layout in compacted:
            raw = layout.raw + step
            if raw >= LEAF_MESSAGES and layout.messages - raw >= layout.leaves * LEAF_MESSAGES:
                layout.raw = raw
                missing -= step
            if missing == 0:
                break
        if missing == before:
            raise ValueError(f"shape {shape.name}: {shape.context_items} context items cannot be reached")
