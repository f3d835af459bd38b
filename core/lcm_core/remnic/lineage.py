"""Order of turns, ranges and upward links of nodes: pure (docs/remnic.md, "Order" and "Nodes")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lcm_core.remnic.source import Link, MessageKey, Outline, SourceSummary
from lcm_core.times import sort_key


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a summary belongs among the turns of its session."""

    summary: SourceSummary
    start: int  #: the first turn below it
    end: int  #: the last one
    parent: str | None  #: the summary that used it
    collapsed: int  #: further ones that did


def in_order(messages: Iterable[MessageKey]) -> list[MessageKey]:
    """The messages of a session as its turns: by time, then conversation, then seq.

    Within a conversation the seq decides: a message counts as at least as late as those before it.
    """
    latest: dict[int, datetime] = {}
    keyed: list[tuple[datetime, int, int, MessageKey]] = []
    for one in sorted(messages, key=lambda one: (one.conversation_id, one.seq)):
        moment = sort_key(one.created_at)
        before = latest.get(one.conversation_id)
        moment = moment if before is None or moment > before else before
        latest[one.conversation_id] = moment
        keyed.append((moment, one.conversation_id, one.seq, one))
    keyed.sort(key=lambda item: item[:3])
    return [item[3] for item in keyed]


def place_summaries(outline: Outline, turns: Mapping[int, int]) -> tuple[list[Placed], list[str]]:
    """The summaries below which is a turn, the deepest first, and the ids of the others.

    *turns*: the turn of each message by its id. Whatever the links say, no parent leads back.
    """
    ranges = _ranges(outline, turns)
    known = {one.summary_id: one for one in outline.summaries if one.summary_id in ranges}
    users: dict[str, list[tuple[int, int, str]]] = {}
    for edge in outline.edges:
        user, source = known.get(edge.summary_id), known.get(str(edge.target))
        if user is not None and source is not None and user.depth > source.depth:
            users.setdefault(source.summary_id, []).append((user.depth, edge.ordinal, user.summary_id))
    placed = []
    for summary in sorted(known.values(), key=lambda one: (-one.depth, one.summary_id)):
        above = sorted(users.get(summary.summary_id, ()))
        start, end = ranges[summary.summary_id]
        parent = above[0][2] if above else None
        placed.append(Placed(summary, start, end, parent, max(0, len(above) - 1)))
    return placed, sorted(one.summary_id for one in outline.summaries if one.summary_id not in ranges)


def _ranges(outline: Outline, turns: Mapping[int, int]) -> dict[str, tuple[int, int]]:
    """First and last turn below each summary, through every summary that it was made from."""
    ids = {one.summary_id for one in outline.summaries}
    found: dict[str, tuple[int, int]] = {}
    for link in outline.links:
        turn = turns.get(link.target) if isinstance(link.target, int) else None
        if turn is not None and link.summary_id in ids:
            found[link.summary_id] = _joined(found.get(link.summary_id), (turn, turn))
    users = _users(outline.edges, ids)
    waiting = list(found)
    while waiting:  # a range only ever grows, so this ends in a circle too
        source = waiting.pop()
        for user in users.get(source, ()):
            joined = _joined(found.get(user), found[source])
            if joined != found.get(user):
                found[user] = joined
                waiting.append(user)
    return found


def _users(edges: Sequence[Link], ids: set[str]) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for edge in edges:
        if edge.summary_id in ids and edge.target in ids:
            users.setdefault(str(edge.target), []).append(edge.summary_id)
    return users


def _joined(one: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))
