"""A context as it is shown: what stands between its items, what is wrong with them, and what they add up to.

Pure functions over the items and weights of `lcm_core.store.context`; the app and the command line share
them. A weight that is not in the mapping has not been read yet, one that is None has no row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.context_items import ABNORMAL_ORDINAL, ContextItems, Gap, ItemId
from lcm_core.engine_rules import TailRules
from lcm_core.fresh_tail import FreshTail, fresh_tail
from lcm_core.records import ConversationId
from lcm_core.store.context import Weight
from lcm_core.store.statistics import ContextMessage

Weights = Mapping[ItemId, Weight | None]


class Finding(StrEnum):
    """What can be wrong with an item of a context (docs/engine/doctor.md, "Family A: the context")."""

    DANGLING = "dangling"  #: its row is gone
    DUPLICATE = "duplicate"  #: the same row stands elsewhere too
    FOREIGN = "foreign"  #: its row belongs to another conversation
    ORDINAL = "ordinal"  #: negative or huge
    TYPE = "type"  #: the type does not say what it refers to


@dataclass(frozen=True, slots=True)
class Found:
    """A finding at one item, in words."""

    finding: Finding
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """A part of a context of one sort."""

    name: str  #: ``D2``, ``D1``, ``L`` for leaves, or a role
    depth: int | None  #: of summaries
    role: str | None  #: of messages
    protected: bool  #: within the fresh tail
    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What a context adds up to; tokens are stored estimates, and a dangling item counts none."""

    items: int
    messages: int
    summaries: int
    tokens: int
    groups: tuple[Group, ...]  #: deep summaries first, then messages, those of the fresh tail last
    dangling: int  #: items whose row is gone
    foreign: int  #: items whose row belongs to another conversation

    def share(self, budget: int) -> float:
        """The part of a budget that the context takes; above 1 when it does not fit."""
        return self.tokens / budget


#: Other places of an item that are named.
MOST_NAMED = 20

# -- what is wrong ---------------------------------------------------------------------------------------


def gap_text(gap: Gap) -> str:
    """A gap in words."""
    if gap.first == gap.last:
        return f"gap: ordinal {gap.first:,} is missing"
    return f"gap: ordinals {gap.first:,}–{gap.last:,} are missing"


def findings_at(
    items: ContextItems, place: int, weight: Weight | None, conversation_id: ConversationId
) -> list[Found]:
    """What is wrong with one item whose weight has been read."""
    found = []
    item, ordinal = items.refs[place], items.ordinals[place]
    if place in items.mismatched and item is not None:
        found.append(Found(Finding.TYPE, _mismatch(items, place)))
    if weight is None:
        said = "refers to nothing" if item is None else "row is gone"
        found.append(Found(Finding.DANGLING, f"{said}: the engine skips it"))
    elif weight.conversation_id != conversation_id:
        found.append(Found(Finding.FOREIGN, f"belongs to conversation {weight.conversation_id}"))
    if item in items.repeated:
        found.append(Found(Finding.DUPLICATE, _elsewhere(items, place)))
    if ordinal < 0:
        found.append(Found(Finding.ORDINAL, "negative ordinal: a resequencing was interrupted"))
    elif ordinal >= ABNORMAL_ORDINAL:
        found.append(Found(Finding.ORDINAL, "ordinal out of range: a resequencing was interrupted"))
    return found


def _elsewhere(items: ContextItems, place: int) -> str:
    """Where else an item stands; of very many places the first ones."""
    places = items.repeated[items.refs[place]]
    others = [other for other in places[: MOST_NAMED + 1] if other != place][:MOST_NAMED]
    more = len(places) - 1 - len(others)
    named = ", ".join(f"{items.ordinals[other]:,}" for other in others)
    return f"duplicate: stands at {named}{f' and {more:,} other places' if more else ''} too"


def _mismatch(items: ContextItems, place: int) -> str:
    held = "a message" if items.summary_ids[place] is None else "a summary"
    if items.message_ids[place] is not None and items.summary_ids[place] is not None:
        held = "both a message and a summary"
    return f"item_type is {items.types[place]}, but it refers to {held}"


# -- sums ------------------------------------------------------------------------------------------------


_Sort = tuple[int, str | None]  #: depth of a summary, or -1 and the role of a message


class Tally:
    """Sums over a context from its first item on, as far as weights have been read."""

    def __init__(self, conversation_id: ConversationId) -> None:
        self.running: list[int] = []  #: tokens up to and with each item
        self._conversation_id = conversation_id
        self._sums: dict[_Sort, tuple[int, int]] = {}
        self._dangling = 0
        self._foreign = 0
        self._summaries = 0

    def extend(self, ids: Sequence[ItemId], weights: Weights) -> None:
        """Go on up to the first item whose weight has not been read."""
        total = self.running[-1] if self.running else 0
        for place in range(len(self.running), len(ids)):
            item = ids[place]
            if item not in weights:
                return
            weight = weights[item]
            self._summaries += isinstance(item, str)
            if weight is None:
                self._dangling += 1
            else:
                total += weight.tokens
                self._foreign += weight.conversation_id != self._conversation_id
                _count(self._sums, weight)
            self.running.append(total)

    def totals(self, items: ContextItems, weights: Weights, tail: FreshTail | None) -> Totals | None:
        """What all items add up to; None while a weight has not been read.

        Of the items only those in the fresh tail are looked at.
        """
        if len(self.running) < len(items):
            return None
        first = tail.first_ordinal if tail is not None else None
        start = len(items) if first is None else bisect_left(items.ordinals, first)
        protected: dict[_Sort, tuple[int, int]] = {}
        for item in items.refs[start:]:
            weight = weights[item]
            if weight is not None and weight.role is not None:
                _count(protected, weight)
        outside = {
            sort: (count - protected.get(sort, (0, 0))[0], tokens - protected.get(sort, (0, 0))[1])
            for sort, (count, tokens) in self._sums.items()
        }
        parts = [(sort, False, *outside[sort]) for sort in outside if outside[sort][0]]
        parts += [(sort, True, *protected[sort]) for sort in protected]
        return Totals(
            items=len(items),
            messages=len(items) - self._summaries,
            summaries=self._summaries,
            tokens=self.running[-1] if self.running else 0,
            groups=tuple(_group(*part) for part in sorted(parts, key=_order)),
            dangling=self._dangling,
            foreign=self._foreign,
        )


def _count(sums: dict[_Sort, tuple[int, int]], weight: Weight) -> None:
    sort = (weight.depth or 0, None) if weight.role is None else (-1, weight.role)
    count, tokens = sums.get(sort, (0, 0))
    sums[sort] = (count + 1, tokens + weight.tokens)


def totals_of(
    items: ContextItems, weights: Weights, tail: FreshTail | None, conversation_id: ConversationId
) -> Totals | None:
    """What the items of a context add up to; None while a weight has not been read."""
    tally = Tally(conversation_id)
    tally.extend(items.refs, weights)
    return tally.totals(items, weights, tail)


_ROLES = ("system", "user", "assistant", "tool")


def _order(part: tuple[_Sort, bool, int, int]) -> tuple[int, bool, int, str]:
    (depth, role), protected, _, _ = part
    return (-depth, protected, _ROLES.index(role) if role in _ROLES else len(_ROLES), role or "")


def _group(sort: _Sort, protected: bool, count: int, tokens: int) -> Group:
    depth, role = sort
    if role is not None:
        return Group(role, None, role, protected, count, tokens)
    return Group(depth_name(depth), depth, None, False, count, tokens)


def depth_name(depth: int) -> str:
    """``L`` for leaves, ``D1`` and so on for what was condensed from them."""
    return "L" if depth == 0 else f"D{depth}"


def fresh_tail_of(
    items: ContextItems,
    weights: Weights,
    rules: TailRules,
) -> FreshTail | None:
    """The fresh tail of a context; None while too few weights near its end have been read.

    Looks at no more of the context than the rule needs.
    """
    raw: list[ContextMessage] = []
    has_user = not rules.keeps_turn_whole
    for place in range(len(items) - 1, -1, -1):
        item = items.refs[place]
        if item is None or isinstance(item, str):
            continue
        if item not in weights:
            return None
        weight = weights[item]
        if weight is None:
            continue
        raw.append(ContextMessage(item, items.ordinals[place], weight.role or "", weight.tokens))
        has_user = has_user or weight.role == "user"
        if len(raw) > rules.fresh_tail_count and has_user:
            break
    raw.reverse()
    return fresh_tail(raw, rules)


# -- as lines of a list ----------------------------------------------------------------------------------

#: What a line of the list stands for, and which: ``("summary", id, occurrence)``, ``("message", id,
#: occurrence)``, ``("item", ordinal, 0)`` for one that refers to nothing, and between items
#: ``("gap", first missing ordinal, 0)``, ``("brief", id, 0)`` and ``("tail", 0, 0)``.
RowKey = tuple[str, int | str, int]

TAIL: RowKey = ("tail", 0, 0)
ITEM_KINDS = frozenset({"summary", "message", "item"})


@dataclass(frozen=True, slots=True)
class ContextView:
    """A context as the lines of a list: its items, and what stands between them."""

    items: ContextItems = field(default_factory=ContextItems)
    tail: FreshTail | None = None  #: None: not known yet
    overlay: FocusOverlay | None = None  #: the active focus brief over what it covers
    item_keys: list[RowKey] = field(default_factory=list)  #: one for each item
    keys: Sequence[RowKey] = ()  #: one for each line
    places: Sequence[int] = ()  #: of the item that each line shows, or that follows a line between items


def goes_on(before: ContextView, after: ContextView) -> bool:
    """Whether of a list that was shown *before* every item is shown *after* as it was, but for its weight.

    Whether it lies in the fresh tail is another question.
    """
    return before.overlay == after.overlay and (
        before.items is after.items
        or (
            len(before.items) > 0
            and before.items.repeated == after.items.repeated
            and after.items.begins_with(before.items)
        )
    )


def moved_tail(before: FreshTail | None, after: FreshTail | None) -> range:
    """The ordinals that have joined or left the fresh tail; all there can be while it is not known."""
    if before is None or after is None:
        return range(-(2**63), 2**63)
    ends = [ABNORMAL_ORDINAL if one.first_ordinal is None else one.first_ordinal for one in (before, after)]
    return range(min(ends), max(ends))


def view_context(
    items: ContextItems,
    tail: FreshTail | None,
    overlay: FocusOverlay | None,
    before: ContextView | None = None,
) -> ContextView:
    """Lay a context out as lines; what is known from *before* of the same items is not made again."""
    same = before is not None and before.items is items
    keys = before.item_keys if before is not None and same else _item_keys(items, before)
    between: list[tuple[int, int, RowKey]] = [(gap.place, 0, ("gap", gap.first, 0)) for gap in items.gaps]
    if overlay is not None:
        at = bisect_left(items.ordinals, overlay.at_ordinal)
        between.append((at, 1, ("brief", overlay.brief.brief_id, 0)))
    if tail is not None and tail.first_ordinal is not None:
        between.append((bisect_left(items.ordinals, tail.first_ordinal), 2, TAIL))
    lines: list[RowKey] = []
    places: list[int] = []
    start = 0
    for place, _, key in sorted(between):
        lines += keys[start:place]
        places += range(start, place)
        lines.append(key)
        places.append(place)
        start = place
    lines += keys[start:]
    places += range(start, len(keys))
    return ContextView(items, tail, overlay, keys, lines, places)


def _item_keys(items: ContextItems, before: ContextView | None) -> list[RowKey]:
    """The keys of all items; those of a beginning that *before* has too are the same objects."""
    keys: list[RowKey] = []
    if before is not None and not before.items.repeated and items.begins_with(before.items):
        keys += before.item_keys
    known = len(keys)
    keys += [
        ("summary", item, 0)
        if isinstance(item, str)
        else ("item", ordinal, 0)
        if item is None
        else ("message", item, 0)
        for item, ordinal in zip(items.refs[known:], items.ordinals[known:], strict=True)
    ]
    for places in items.repeated.values():
        for nth, place in enumerate(places):
            keys[place] = (keys[place][0], keys[place][1], nth)
    return keys
