"""The summary graph of one conversation, and what a focus brief covers in it. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain, count, repeat
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from lcm_core.base.records import Edge, FocusBrief, SummaryId, Timestamp
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record

# -- the graph -------------------------------------------------------------------------------------------
# Every walk, over cycles, dangling edges and shared sources as well. Where only a few rows matter and the
# graph is not read whole, the file is queried instead (`lcm_core.store.summaries`).

_ID: Final = itemgetter(0)
_SOURCE: Final = itemgetter(1)


class Node(Protocol):
    """What is asked of a summary; whoever builds a graph may know more of it."""

    @property
    def summary_id(self) -> SummaryId:
        """Its id."""

    @property
    def kind(self) -> str:
        """Leaf or condensed."""

    @property
    def depth(self) -> int | None:
        """As stored; None: not recorded."""


class PlainNode(NamedTuple):
    """A summary of which no more is known than a graph asks; a tuple, for 12,000 of them are made at once."""

    summary_id: SummaryId
    kind: str
    depth: int


def plain_nodes(
    ids: Iterable[SummaryId], kinds: Iterable[str], depths: Iterable[int]
) -> dict[SummaryId, Node]:
    """Many of them by id; `PlainNode()` itself is a function of Python's, and takes twice as long."""
    rows = list(zip(ids, kinds, depths, strict=True))
    return dict(zip(map(_ID, rows), map(tuple.__new__, repeat(PlainNode), rows), strict=True))


class GraphColumns(Record, frozen=True, dict=True):
    """The rows of a graph as columns, for what needs no walk: of 12,000 summaries no object each is made."""

    ids: Sequence[SummaryId]  #: in the order in which they were made, each once
    kinds: Sequence[str]
    depths: Sequence[int]
    consumers: Sequence[SummaryId]  #: of each edge, in the order of condensation; each has a row
    sources: Sequence[SummaryId]  #: of each edge; may dangle
    in_context: tuple[SummaryId, ...]  #: in order of ordinal; may repeat and may dangle

    @cached_property
    def at(self) -> Mapping[SummaryId, int]:
        """The place of each id among the ids."""
        return dict(zip(self.ids, count()))

    @cached_property
    def graph(self) -> SummaryGraph:
        """The same, arranged for walks."""
        # Of each text one: what is compared from here on is mostly the very same.
        known = dict(zip(self.ids, self.ids, strict=True)).get
        columns = [map(known, column, column) for column in (self.consumers, self.sources)]
        nodes = plain_nodes(self.ids, self.kinds, self.depths)
        return SummaryGraph(nodes, list(zip(*columns, strict=True)), self.in_context)


class SummaryGraph(Record, frozen=True, dict=True):
    """All nodes and edges of one conversation; nodes in the order in which they were made."""

    nodes: Mapping[SummaryId, Node]
    pairs: Sequence[tuple[SummaryId, SummaryId]]  #: consumer and source, in the order of condensation
    in_context: tuple[SummaryId, ...]  #: in order of ordinal; may repeat and may dangle

    @classmethod
    def build(
        cls, nodes: Iterable[Node], edges: Iterable[Edge], in_context: Sequence[SummaryId]
    ) -> SummaryGraph:
        """Arrange rows into a graph; an edge given twice counts once."""
        pairs = [(edge.consumer, edge.source) for edge in edges]
        return cls({node.summary_id: node for node in nodes}, pairs, tuple(in_context))

    @cached_property
    def sources(self) -> Mapping[SummaryId, tuple[SummaryId, ...]]:
        """What each consumer was made from, in the order of condensation."""
        found: defaultdict[SummaryId, list[SummaryId]] = defaultdict(list)
        for consumer, source in self.pairs:
            found[consumer].append(source)
        return _each_once(found)

    @cached_property
    def consumers(self) -> Mapping[SummaryId, tuple[SummaryId, ...]]:
        """What was made from each source."""
        found: defaultdict[SummaryId, list[SummaryId]] = defaultdict(list)
        for consumer, source in self.pairs:
            found[source].append(consumer)
        return _each_once(found)

    @cached_property
    def roots(self) -> tuple[SummaryId, ...]:
        """Nodes that nothing here was made from and that the context holds, in its order."""
        held = dict.fromkeys(self.in_context)
        return tuple(node for node in held if node in self.nodes and not self.consumers.get(node))

    @cached_property
    def orphans(self) -> tuple[SummaryId, ...]:
        """Nodes without a consumer that the context does not hold either, oldest first (B13)."""
        held = set(self.in_context)
        return tuple(node for node in self.nodes if not self.consumers.get(node) and node not in held)

    @cached_property
    def unreachable(self) -> tuple[SummaryId, ...]:
        """Nodes that no walk from a root or an orphan meets: they lie on a cycle or below one (B6)."""
        seen = set(self.walk((*self.roots, *self.orphans)))
        return tuple(node for node in self.nodes if node not in seen)

    @cached_property
    def cycle_heads(self) -> tuple[SummaryId, ...]:
        """Of the unreachable nodes the fewest from which a walk meets all: one on each outermost cycle."""
        seen: set[SummaryId] = set()
        heads = []
        # What a depth-first walk finishes last, nothing that it finished before leads to.
        for node in reversed(self.bottom_up(*reversed(self.unreachable))):
            if node not in seen:
                heads.append(node)
                seen.update(found for found, _ in self._visits([node], seen))
        return tuple(heads)

    @cached_property
    def dangling(self) -> tuple[SummaryId, ...]:
        """Ids that an edge or the context names and that no row here has (A2, B4)."""
        named = [*self.in_context, *map(_SOURCE, self.pairs)]
        if self.nodes.keys() >= set(named):
            return ()
        named[len(self.in_context) :] = chain.from_iterable(self.sources.values())
        return tuple(dict.fromkeys(name for name in named if name not in self.nodes))

    @cached_property
    def live(self) -> frozenset[SummaryId]:
        """The nodes that a walk from the context meets."""
        seen: set[SummaryId] = set()
        ahead, sources = set(self.in_context), self.sources
        while ahead:
            seen |= ahead
            ahead = set(chain.from_iterable(map(sources.__getitem__, ahead & sources.keys()))) - seen
        return frozenset(seen & self.nodes.keys())

    @cached_property
    def sources_first(self) -> Mapping[SummaryId, None]:
        """The nodes, each behind its sources; those on cycles and above them are left out."""
        nodes = self.nodes
        waiting = {
            one: sum([source in nodes and source != one for source in found])
            for one, found in self.sources.items()
            if one in nodes
        }
        free = [one for one in nodes if not waiting.get(one)]
        for one in free:  # grows while it is walked
            for consumer in self.consumers.get(one, ()):
                if consumer != one and consumer in waiting:
                    waiting[consumer] -= 1
                    if not waiting[consumer]:
                        free.append(consumer)
        return dict.fromkeys(free)

    @cached_property
    def rings_first(self) -> tuple[tuple[SummaryId, ...], ...]:
        """The nodes in groups, each behind the groups of its sources: alone, or with its whole cycle."""
        if len(self.sources_first) == len(self.nodes):
            return tuple(zip(self.sources_first, strict=True))
        seen: set[SummaryId] = set()
        groups = []
        # What a depth-first walk to the sources finishes last comes first: from there, a walk to the
        # consumers that leaves out what was met before meets a cycle and nothing else (Kosaraju).
        for node in reversed(self.bottom_up(*self.nodes)):
            if node in seen or node not in self.nodes:
                continue
            seen.add(node)
            group = [node]
            for one in group:  # grows while it is walked
                for consumer in self.consumers.get(one, ()):
                    if consumer in self.nodes and consumer not in seen:
                        seen.add(consumer)
                        group.append(consumer)
            groups.append(tuple(group))
        return tuple(reversed(groups))

    @cached_property
    def cyclic(self) -> frozenset[SummaryId]:
        """The nodes that lie on a cycle or between two; an edge to oneself does not count."""
        return self._cyclic_among(self.nodes)

    @cached_property
    def rings(self) -> tuple[tuple[SummaryId, ...], ...]:
        """Each cycle once; where several hang together, as many as leave none when they are taken away."""
        found, cyclic = [], self.cyclic
        while cyclic:
            ring = [next(node for node in self.nodes if node in cyclic)]
            while True:
                here = ring[-1]
                following = next(one for one in self.consumers[here] if one in cyclic and one != here)
                if following in ring:
                    ring = ring[ring.index(following) :]
                    break
                ring.append(following)
            found.append(tuple(ring))
            cyclic = self._cyclic_among(cyclic.difference(ring))
        return tuple(found)

    def _cyclic_among(self, among: Iterable[SummaryId]) -> frozenset[SummaryId]:
        kept = set(among)
        for ahead, behind in ((self.sources, self.consumers), (self.consumers, self.sources)):
            degree = {node: sum(one in kept and one != node for one in ahead.get(node, ())) for node in kept}
            free = [node for node, number in degree.items() if not number]
            while free:
                node = free.pop()
                kept.discard(node)
                for one in behind.get(node, ()):
                    if one in kept and one != node:
                        degree[one] -= 1
                        if not degree[one]:
                            free.append(one)
        return frozenset(kept)

    def below(self, start: Iterable[SummaryId]) -> list[SummaryId]:
        """The nodes that `walk` meets: what has no row here is left out."""
        return [node for node in self.walk(start) if node in self.nodes]

    def above(self, start: Iterable[SummaryId]) -> set[SummaryId]:
        """The nodes that were made from some, directly or through others, and are none of these."""
        known = set(start)
        waiting = list(known)
        found: set[SummaryId] = set()
        while waiting:
            for consumer in self.consumers.get(waiting.pop(), ()):
                if consumer in self.nodes and consumer not in found and consumer not in known:
                    found.add(consumer)
                    waiting.append(consumer)
        return found

    def held_above(self, summary_id: SummaryId) -> SummaryId | None:
        """The first summary of the context that was made from another, directly or through others."""
        above = self.above([summary_id])
        return next((one for one in self.in_context if one in above), None)

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


def _each_once(found: Mapping[SummaryId, Sequence[SummaryId]]) -> dict[SummaryId, tuple[SummaryId, ...]]:
    return {
        one: tuple(others if len(others) == 1 else dict.fromkeys(others)) for one, others in found.items()
    }


# -- focus briefs ----------------------------------------------------------------------------------------
# What a brief is made from and covers, and whether that is still so (docs/spec/focus.md).


class FocusSource(Record, frozen=True):
    """A summary in a context, as a brief is made from it."""

    ordinal: int
    summary_id: SummaryId
    kind: str
    depth: int
    tokens: int
    latest_at: Timestamp | None  #: as it is stored
    created_at: Timestamp
    #: seq of the newest message that it was itself made from; None for a condensed summary
    own_last_seq: int | None


class Watermark(Record, frozen=True):
    """How far a brief reaches: over the summaries that it is made from, and all below them."""

    latest_at: Timestamp | None  #: the greatest as text, as the engine takes it
    message_seq: int | None


NOTHING_COVERED = Watermark(None, None)


class FocusInput(Record, frozen=True):
    """What the brief of a conversation is made from at one moment."""

    sources: tuple[FocusSource, ...]  #: the summaries of the context, in order
    watermark: Watermark

    @property
    def digest(self) -> str:
        """What ``source_context_hash`` records of it."""
        return context_hash(self.sources)

    @property
    def ids(self) -> tuple[SummaryId, ...]:
        """The summaries, in order."""
        return tuple(one.summary_id for one in self.sources)


def context_hash(sources: Iterable[FocusSource]) -> str:
    """SHA-256 over a line for each summary: ordinal, id, tokens and latest time, with NUL between them."""
    lines = (f"{one.ordinal}\0{one.summary_id}\0{one.tokens}\0{one.latest_at or ''}\n" for one in sources)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def newer_sources(brief: FocusBrief, sources: Sequence[FocusSource]) -> tuple[FocusSource, ...]:
    """The summaries that came since a brief: by messages where both know them, else by time, else all."""
    return tuple(one for one in sources if _is_newer(brief, one))


def _is_newer(brief: FocusBrief, source: FocusSource) -> bool:
    if brief.covered_message_seq is not None and source.own_last_seq is not None:
        return source.own_last_seq > brief.covered_message_seq
    reach = source.latest_at or source.created_at
    limit = brief.covered_latest_at
    if not reach or not limit:
        return True
    then, until = parse_utc(reach), parse_utc(limit)
    return reach > limit if then is None or until is None else then > until


class StaleReason(StrEnum):
    """Why a brief says less than the conversation holds by now."""

    CONTEXT = "the summaries it was made from are no longer those of the context"
    MESSAGES = "newer messages"
    SUMMARIES = "newer summaries"


class BriefState(Record, frozen=True):
    """What came since a brief was written, as the engine reports it; it never decides what is sent."""

    messages: int  #: behind the newest message that it covers; 0 where that is not known
    summaries: int  #: newer than what it covers
    tokens: int | None  #: of both; None: not asked for
    context_changed: bool  #: its hash is that of another context
    truncated: bool  #: whoever wrote it said that something was left out

    @property
    def reasons(self) -> tuple[StaleReason, ...]:
        """Why it is stale; empty: it is not."""
        known = (
            (StaleReason.CONTEXT, self.context_changed),
            (StaleReason.MESSAGES, self.messages > 0),
            (StaleReason.SUMMARIES, self.summaries > 0),
        )
        return tuple(reason for reason, holds in known if holds)

    @property
    def stale(self) -> bool:
        """Whether something came since."""
        return bool(self.reasons)

    @property
    def outdated(self) -> bool:
        """Whether another brief would say more: newer messages alone are sent as they are, whatever it says.

        Ours; the engine has `stale` (docs/spec/focus.md, "Ours: when a brief counts as current").
        """
        return self.context_changed or self.summaries > 0 or (self.truncated and self.stale)


def hash_differs(recorded: str, present: str) -> bool:
    """Whether a brief was made from another context; an empty hash says nothing."""
    return bool(recorded and present) and recorded != present
