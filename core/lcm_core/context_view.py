"""A context as it is shown: what stands between its items, what is wrong with them, and what they add up to.

Pure functions over the references and weights of `lcm_core.store.context`; the app and the command line share
them. A weight that is not in the mapping has not been read yet, one that is None has no row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lcm_core.assemble.focus import FocusOverlay
from lcm_core.engine_rules import TailRules
from lcm_core.fresh_tail import FreshTail, fresh_tail
from lcm_core.records import ConversationId
from lcm_core.store.context import ItemId, References, Weight
from lcm_core.store.statistics import ContextMessage

#: From here on an ordinal is no place in a list but what an interrupted resequencing left (docs/format.md,
#: "Numbering").
HUGE_ORDINAL = 10_000_000

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
class Gap:
    """Ordinals at which nothing stands; legitimate after a prune by the host (A8)."""

    place: int  #: of the item that follows, counted from 0
    first: int
    last: int

    @property
    def text(self) -> str:
        """The gap in words."""
        if self.first == self.last:
            return f"gap: ordinal {self.first:,} is missing"
        return f"gap: ordinals {self.first:,}–{self.last:,} are missing"


@dataclass(frozen=True, slots=True)
class Structure:
    """What references alone show of a context."""

    gaps: tuple[Gap, ...] = ()
    ordinals_of: Mapping[ItemId, tuple[int, ...]] = field(default_factory=dict)  #: of what stands repeatedly
    mismatched: frozenset[int] = frozenset()  #: places of items whose type does not fit
    abnormal: frozenset[int] = frozenset()  #: places of items whose ordinal is negative or huge


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

# -- what references show --------------------------------------------------------------------------------


def structure_of(items: References) -> Structure:
    """Gaps, repetitions, types that do not fit, and ordinals that are no places."""
    counts = Counter(items.ids)
    counts.pop(None, 0)
    found: dict[ItemId, list[int]] = {}
    if any(count > 1 for count in counts.values()):
        for item, ordinal in zip(items.ids, items.ordinals, strict=True):
            if counts[item] > 1:
                found.setdefault(item, []).append(ordinal)
    repeated = {item: tuple(ordinals) for item, ordinals in found.items()}
    fitting = [
        (message is None or summary is None) and kind == ("summary" if message is None else "message")
        for kind, message, summary in zip(items.types, items.message_ids, items.summary_ids, strict=True)
    ]
    wrong = [place for place, fits in enumerate(fitting) if not fits and items.ids[place] is not None]
    start, end = bisect_left(items.ordinals, 0), bisect_left(items.ordinals, HUGE_ORDINAL)
    return Structure(
        tuple(_gaps(items.ordinals, start, end)),
        repeated,
        frozenset(wrong),
        frozenset((*range(start), *range(end, len(items)))),
    )


def _gaps(ordinals: Sequence[int], start: int, end: int) -> list[Gap]:
    """Missing ordinals between two places; abnormal ordinals are findings of their own and open no gap."""
    if start == end or ordinals[end - 1] - (end - 1 - start) == 0:
        return []
    gaps, expected = [], 0
    for place in range(start, end):
        if ordinals[place] > expected:
            gaps.append(Gap(place, expected, ordinals[place] - 1))
        expected = ordinals[place] + 1
    return gaps


def findings_at(
    items: References,
    place: int,
    structure: Structure,
    weight: Weight | None,
    conversation_id: ConversationId,
) -> list[Found]:
    """What is wrong with one item whose weight has been read."""
    found = []
    item, ordinal = items.ids[place], items.ordinals[place]
    if place in structure.mismatched:
        found.append(Found(Finding.TYPE, _mismatch(items, place)))
    if weight is None:
        said = "refers to nothing" if item is None else "row is gone"
        found.append(Found(Finding.DANGLING, f"{said}: the engine skips it"))
    elif weight.conversation_id != conversation_id:
        found.append(Found(Finding.FOREIGN, f"belongs to conversation {weight.conversation_id}"))
    if item in structure.ordinals_of:
        found.append(Found(Finding.DUPLICATE, _elsewhere(structure.ordinals_of[item], ordinal)))
    if ordinal < 0:
        found.append(Found(Finding.ORDINAL, "negative ordinal: a resequencing was interrupted"))
    elif ordinal >= HUGE_ORDINAL:
        found.append(Found(Finding.ORDINAL, "ordinal out of range: a resequencing was interrupted"))
    return found


def _elsewhere(ordinals: Sequence[int], ordinal: int) -> str:
    """Where else an item stands; of very many places the first ones."""
    others = [other for other in ordinals[: MOST_NAMED + 1] if other != ordinal][:MOST_NAMED]
    more = len(ordinals) - 1 - len(others)
    named = ", ".join(f"{other:,}" for other in others)
    return f"duplicate: stands at {named}{f' and {more:,} other places' if more else ''} too"


def _mismatch(items: References, place: int) -> str:
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

    def totals(self, items: References, weights: Weights, tail: FreshTail | None) -> Totals | None:
        """What all items add up to; None while a weight has not been read.

        Of the items only those in the fresh tail are looked at.
        """
        if len(self.running) < len(items):
            return None
        first = tail.first_ordinal if tail is not None else None
        start = len(items) if first is None else bisect_left(items.ordinals, first)
        protected: dict[_Sort, tuple[int, int]] = {}
        for item in items.ids[start:]:
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
    items: References, weights: Weights, tail: FreshTail | None, conversation_id: ConversationId
) -> Totals | None:
    """What the items of a context add up to; None while a weight has not been read."""
    tally = Tally(conversation_id)
    tally.extend(items.ids, weights)
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
    items: References,
    weights: Weights,
    rules: TailRules,
) -> FreshTail | None:
    """The fresh tail of a context; None while too few weights near its end have been read.

    Looks at no more of the context than the rule needs.
    """
    raw: list[ContextMessage] = []
    has_user = not rules.keeps_turn_whole
    for place in range(len(items) - 1, -1, -1):
        item = items.ids[place]
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

    items: References = field(default_factory=References)
    structure: Structure = field(default_factory=Structure)
    tail: FreshTail | None = None  #: None: not known yet
    overlay: FocusOverlay | None = None  #: the active focus brief over what it covers
    item_keys: list[RowKey] = field(default_factory=list)  #: one for each item
    keys: Sequence[RowKey] = ()  #: one for each line
    places: Sequence[int] = ()  #: of the item that each line shows, or that follows a line between items


def goes_on(before: ContextView, after: ContextView) -> bool:
    """Whether of a list that was shown *before* every item is shown *after* as it was, but for its weight.

    Whether it lies in the fresh tail is another question.
    """
    known = len(before.items)
    old, new = before.structure, after.structure
    return before.overlay == after.overlay and (
        before.items is after.items
        or (
            known > 0
            and (old.ordinals_of, old.abnormal, old.mismatched)
            == (new.ordinals_of, new.abnormal, new.mismatched)
            and before.items.ids == after.items.ids[:known]
            and before.items.ordinals == after.items.ordinals[:known]
        )
    )


def moved_tail(before: FreshTail | None, after: FreshTail | None) -> range:
    """The ordinals that have joined or left the fresh tail; all there can be while it is not known."""
    if before is None or after is None:
        return range(-(2**63), 2**63)
    ends = [HUGE_ORDINAL if one.first_ordinal is None else one.first_ordinal for one in (before, after)]
    return range(min(ends), max(ends))


def view_context(
    items: References,
    tail: FreshTail | None,
    overlay: FocusOverlay | None,
    before: ContextView | None = None,
) -> ContextView:
    """Lay a context out as lines; what is known from *before* of the same items is not made again."""
    same = before is not None and before.items is items
    structure = before.structure if before is not None and same else structure_of(items)
    keys = before.item_keys if before is not None and same else _item_keys(items, structure, before)
    between: list[tuple[int, int, RowKey]] = [(gap.place, 0, ("gap", gap.first, 0)) for gap in structure.gaps]
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
    return ContextView(items, structure, tail, overlay, keys, lines, places)


def _item_keys(items: References, structure: Structure, before: ContextView | None) -> list[RowKey]:
    """The keys of all items; those of a beginning that *before* has too are the same objects."""
    known = 0 if before is None or before.structure.ordinals_of else len(before.items)
    if before is None or items.ids[:known] != before.items.ids or None in items.ids:
        known = 0
    keys = before.item_keys[:known] if before is not None else []
    keys += [
        ("summary", item, 0)
        if isinstance(item, str)
        else ("item", ordinal, 0)
        if item is None
        else ("message", item, 0)
        for item, ordinal in zip(items.ids[known:], items.ordinals[known:], strict=True)
    ]
    for place, item in enumerate(items.ids) if structure.ordinals_of else ():
        if item in structure.ordinals_of:
            nth = structure.ordinals_of[item].index(items.ordinals[place])
            keys[place] = (keys[place][0], keys[place][1], nth)
    return keys
