"""The summary DAG of one conversation: walks that survive cycles, dangling edges and shared sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lcm_core.records import Edge, SummaryId


@dataclass(frozen=True, slots=True)
class Node:
    """What a walk needs to know of a summary."""

    summary_id: SummaryId
    kind: str
    depth: int


@dataclass(frozen=True)
class SummaryGraph:
    """All nodes and edges of one conversation; nodes in the order in which they were made."""

    nodes: Mapping[SummaryId, Node]
    sources: Mapping[SummaryId, tuple[SummaryId, ...]]  #: by consumer, in the order of condensation
    consumers: Mapping[SummaryId, tuple[SummaryId, ...]]  #: by source
    in_context: tuple[SummaryId, ...]  #: in order of ordinal; may repeat and may dangle

    @classmethod
    def build(
        cls, nodes: Iterable[Node], edges: Iterable[Edge], in_context: Sequence[SummaryId]
    ) -> SummaryGraph:
        """Arrange rows into a graph; an edge given twice counts once."""
        sources: dict[SummaryId, dict[SummaryId, None]] = {}
        consumers: dict[SummaryId, dict[SummaryId, None]] = {}
        for edge in edges:
            sources.setdefault(edge.consumer, {})[edge.source] = None
            consumers.setdefault(edge.source, {})[edge.consumer] = None
        return cls(
            {node.summary_id: node for node in nodes},
            {consumer: tuple(found) for consumer, found in sources.items()},
            {source: tuple(found) for source, found in consumers.items()},
            tuple(in_context),
        )

    @cached_property
    def roots(self) -> tuple[SummaryId, ...]:
        """Nodes that nothing here was made from and that the context holds, newest in the context first."""
        held = dict.fromkeys(reversed(self.in_context))
        return tuple(node for node in held if node in self.nodes and not self.consumers.get(node))

    @cached_property
    def orphans(self) -> tuple[SummaryId, ...]:
        """Nodes without a consumer that the context does not hold either, newest first (B13)."""
        held = set(self.in_context)
        return tuple(
            node for node in reversed(tuple(self.nodes)) if not self.consumers.get(node) and node not in held
        )

    @cached_property
    def unreachable(self) -> tuple[SummaryId, ...]:
        """Nodes that no walk from a root or an orphan meets: they lie on a cycle or below one (B6)."""
        seen = set(self.walk((*self.roots, *self.orphans)))
        return tuple(node for node in reversed(tuple(self.nodes)) if node not in seen)

    @cached_property
    def cycle_heads(self) -> tuple[SummaryId, ...]:
        """Of the unreachable nodes the fewest from which a walk meets all: one on each outermost cycle."""
        seen: set[SummaryId] = set()
        heads = []
        # What a depth-first walk finishes last, nothing that it finished before leads to.
        for node in reversed(self.bottom_up(*self.unreachable)):
            if node not in seen:
                heads.append(node)
                seen.update(found for found, _ in self._visits([node], seen))
        return tuple(heads)

    @cached_property
    def dangling(self) -> tuple[SummaryId, ...]:
        """Ids that an edge or the context names and that no row here has (A2, B4)."""
        named = [*self.in_context, *(source for found in self.sources.values() for source in found)]
        return tuple(dict.fromkeys(name for name in named if name not in self.nodes))

    def walk(self, start: Iterable[SummaryId]) -> Iterator[SummaryId]:
        """*start* and everything below it toward the messages, each node once, consumers first."""
        return (node for node, _ in self._visits(start, set()))

    def first_visits(self, start: Iterable[SummaryId]) -> dict[SummaryId, SummaryId | None]:
        """What `walk` meets, in its order, each with the consumer that led there (None: *start* did)."""
        return dict(self._visits(start, set()))

    def _visits(
        self, start: Iterable[SummaryId], seen: set[SummaryId]
    ) -> Iterator[tuple[SummaryId, SummaryId | None]]:
        waiting: list[tuple[SummaryId, SummaryId | None]] = [(node, None) for node in reversed(tuple(start))]
        while waiting:
            node, consumer = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node, consumer
            waiting.extend((source, node) for source in reversed(self.sources.get(node, ())))

    def bottom_up(self, *start: SummaryId) -> list[SummaryId]:
        """*start* and everything below it, every source before its consumers (as far as cycles allow)."""
        order: list[SummaryId] = []
        seen: set[SummaryId] = set()
        waiting: list[tuple[SummaryId, bool]] = [(node, False) for node in reversed(start)]
        while waiting:
            node, done = waiting.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                waiting.append((node, True))
                waiting.extend((source, False) for source in reversed(self.sources.get(node, ())))
        return order

    def on_cycle(self, node: SummaryId) -> bool:
        """Whether a walk from *node* toward the messages comes back to it."""
        return node in self.walk(self.sources.get(node, ()))
