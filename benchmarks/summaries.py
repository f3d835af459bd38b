"""The summary graph of one conversation: leaves over runs of messages, condensed level by level.

Counters and times follow docs/spec/format.md, "Numbers beside a summary"; a condensed summary is made as soon
as its last source is there.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.passages import Pool, tokens
from benchmarks.shapes import Layout, fanout

_LEAF_TOKENS = 1_200
_CONDENSED_TOKENS = 900
_BROKEN_EVERY = 89  #: one leaf in so many is a truncation, as a failing model leaves them

SUMMARY_SQL = """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count,
    earliest_at, latest_at, descendant_count, descendant_token_count, source_message_token_count, created_at,
    file_ids, model) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""

SummaryRow = tuple[str, int, str, int, str, int, str, str, int, int, int, str, str, str]


@dataclass(slots=True)
class History:
    """The messages of one conversation that exist already, oldest first."""

    ids: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("i"))
    times: array[int] = field(default_factory=lambda: array("q"))  #: seconds since 1970


@dataclass(slots=True)
class Node:
    """A summary while the graph is built."""

    summary_id: str
    depth: int
    tokens: int
    descendants: int
    descendant_tokens: int
    message_tokens: int
    earliest: int
    latest: int
    created: int
    messages: range = range(0)  #: places in the history, of a leaf
    sources: list[Node] = field(default_factory=list)
    text: str = ""
    model: str = "claude-haiku-4-5"


def nodes(
    layout: Layout, history: History, rng: random.Random, prose: Pool, max_depth: int
) -> Iterator[Node | list[Node]]:
    """Every summary in the order of its making, and at last those that stand in the context, oldest first."""
    waiting: list[list[Node]] = [[] for _ in range(max_depth + 1)]
    for number in range(layout.leaves):
        first = number * layout.covered // layout.leaves
        last = (number + 1) * layout.covered // layout.leaves
        node = _leaf(range(first, last), history, rng, prose)
        depth = 0
        while True:
            yield node
            waiting[depth].append(node)
            if depth == max_depth or len(waiting[depth]) < fanout(depth):
                break
            node = _condensed(waiting[depth], rng, prose)
            waiting[depth] = []
            depth += 1
    yield [node for level in reversed(waiting) for node in level]


def _leaf(places: range, history: History, rng: random.Random, prose: Pool) -> Node:
    source = sum(history.tokens[place] for place in places)
    passage = prose.passage(rng, 4 * min(_LEAF_TOKENS, max(30, source // 4)) * rng.uniform(0.6, 1.0))
    text, weight, model = passage.text, passage.weight, "claude-haiku-4-5"
    if rng.randrange(_BROKEN_EVERY) == 0:
        marker = f"\n[Truncated from {source} tokens]"
        text, weight, model = text + marker, weight + len(marker), "unknown"
    latest = history.times[places[-1]]
    return Node(
        _summary_id(rng), 0, tokens(weight), 0, 0, source,
        history.times[places[0]], latest, latest + 60, messages=places, text=text, model=model,
    )  # fmt: skip


def _condensed(sources: list[Node], rng: random.Random, prose: Pool) -> Node:
    total = sum(source.tokens for source in sources)
    passage = prose.passage(rng, 4 * min(_CONDENSED_TOKENS, total // 2) * rng.uniform(0.7, 1.0))
    return Node(
        _summary_id(rng),
        sources[0].depth + 1,
        tokens(passage.weight),
        sum(source.descendants + 1 for source in sources),
        total + sum(source.descendant_tokens for source in sources),
        sum(source.message_tokens for source in sources),
        min(source.earliest for source in sources),
        max(source.latest for source in sources),
        sources[-1].created + 5,
        sources=sources,
        text=passage.text,
    )


def _summary_id(rng: random.Random) -> str:
    return f"sum_{rng.getrandbits(64):016x}"
