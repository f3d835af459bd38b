"""Summaries that were made from each other in a circle (B6). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lcm_core.dag.checks.facts import Structure
from lcm_core.records import SummaryId


def rings(structure: Structure) -> Iterator[list[SummaryId]]:
    """Each cycle once; where several hang together, as many as leave none when they are taken away."""
    cyclic = cyclic_nodes(structure, structure.nodes)
    while cyclic:
        ring = [next(node for node in structure.nodes if node in cyclic)]
        while True:
            following = next(
                one for one in structure.consumers[ring[-1]] if one in cyclic and one != ring[-1]
            )
            if following in ring:
                ring = ring[ring.index(following) :]
                break
            ring.append(following)
        cyclic = cyclic_nodes(structure, cyclic - set(ring))
        yield ring


def cyclic_nodes(structure: Structure, among: Iterable[SummaryId]) -> set[SummaryId]:
    """The summaries *among* some that lie on a cycle or between two; self edges do not count."""
    kept = set(among)

    def sources(node: SummaryId) -> list[SummaryId]:
        return [
            edge.source
            for edge in structure.edges.get(node, ())
            if edge.source in kept and edge.source != node
        ]

    def consumers(node: SummaryId) -> list[SummaryId]:
        return [one for one in structure.consumers.get(node, ()) if one in kept and one != node]

    for before, after in ((sources, consumers), (consumers, sources)):
        degree = {node: len(before(node)) for node in kept}
        free = [node for node, number in degree.items() if not number]
        while free:
            node = free.pop()
            following = after(node)
            kept.discard(node)
            for one in following:
                degree[one] -= 1
                if not degree[one]:
                    free.append(one)
    return kept
