"""What is known of a context whose rows are read page by page: references at once, weights behind them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from lcm_core.context_items import Gap, ItemId
from lcm_core.context_view import (
    ITEM_KINDS,
    ContextView,
    Found,
    RowKey,
    Tally,
    Totals,
    findings_at,
    fresh_tail_of,
    view_context,
)
from lcm_core.engine_rules import TailRules
from lcm_core.records import ConversationId
from lcm_core.store.context import Weight


class KnownContext:
    """A context as far as it has been read; every answer says when it is not known yet."""

    def __init__(self, conversation_id: ConversationId, rules: TailRules) -> None:
        self.conversation_id = conversation_id
        self.rules = rules
        self.view = ContextView()
        self.weights: dict[ItemId, Weight | None] = {}
        self.totals: Totals | None = None  #: None: not everything has been read
        self._tally = Tally(conversation_id)
        self._alike: dict[Weight, Weight] = {}  #: equal weights are kept once: there are few of them
        self._next = 0  #: place of the next item to verify
        self._unverified = 0  #: how many are left

    def adopt(self, view: ContextView) -> None:
        """Take over a list that was read again; weights are kept, and are due to be read again."""
        items, known = view.items, self.view.items
        if items is not known and not items.begins_with(known):
            self._tally = Tally(self.conversation_id)
            present = set(items.refs)
            self.weights = {item: weight for item, weight in self.weights.items() if item in present}
        if items is not known or view.tail != self.view.tail:
            self.totals = None
        self.view = view
        self._unverified = len(items)
        self._sum_up()

    def learn(self, weights: Mapping[ItemId, Weight | None]) -> bool:
        """Take in what was read of some items; True when something that was known has changed."""
        known = self.weights
        changed = False
        for item, weight in weights.items():
            if item not in known:
                known[item] = weight and self._alike.setdefault(weight, weight)
            elif known[item] != weight:
                known[item], changed = weight, True
        if changed:
            self._tally, self.totals = Tally(self.conversation_id), None
        view = self.view
        tail = fresh_tail_of(view.items, known, self.rules) if view.items.complete else None
        if tail is not None and tail != view.tail:
            self.view = view_context(view.items, tail, view.overlay, view)
            self.totals = None
        self._sum_up()
        return changed

    def unread(self, limit: int) -> list[ItemId]:
        """The first items whose weight has not been read, in the order of the context."""
        ids = self.view.items.refs
        rest = (ids[place] for place in range(self.read, len(ids)))
        return list(dict.fromkeys(islice((item for item in rest if item not in self.weights), limit)))

    def unverified(self, limit: int) -> list[ItemId]:
        """The next items whose weight was read before the list was; none when all have been read again.

        Goes round and round under a host that writes without a pause: no item waits for others twice.
        """
        ids = self.view.items.refs
        limit = min(limit, self._unverified)
        self._next = self._next if self._next < len(ids) else 0
        found = ids[self._next : self._next + limit]
        self._next += len(found)
        self._unverified -= len(found)
        return list(dict.fromkeys(found))

    @property
    def read(self) -> int:
        """How many items have been read, from the top."""
        return len(self._tally.running)

    def running_total(self, place: int) -> int | None:
        """Tokens up to and with the item at *place*; None while one before it has not been read."""
        return self._tally.running[place] if place < self.read else None

    def findings(self, place: int) -> list[Found]:
        """What is wrong with an item, as far as it has been read."""
        item = self.view.items.refs[place]
        weight = self.weights.get(item)
        if item not in self.weights:
            return []
        return findings_at(self.view.items, place, weight, self.conversation_id)

    def gap(self, key: RowKey) -> Gap | None:
        """The gap that a line stands for."""
        return next((gap for gap in self.view.items.gaps if gap.first == key[1]), None)

    def is_covered(self, item: ItemId) -> bool:
        """Whether the active focus brief stands in place of an item."""
        overlay = self.view.overlay
        return overlay is not None and item in overlay.covered

    def tokens_with_brief(self) -> int | None:
        """Stored tokens with the active focus brief in place of what it covers; None without one."""
        overlay, totals = self.view.overlay, self.totals
        if overlay is None or totals is None:
            return None
        weights = [self.weights.get(item) for item in self.view.items.refs if item in overlay.covered]
        return totals.tokens - sum(weight.tokens for weight in weights if weight) + overlay.brief.tokens

    def is_protected(self, place: int) -> bool:
        """Whether an item lies in the fresh tail."""
        tail = self.view.tail
        first = tail.first_ordinal if tail is not None else None
        return first is not None and self.view.items.ordinals[place] >= first

    def _sum_up(self) -> None:
        items = self.view.items
        self._tally.extend(items.refs, self.weights)
        if self.totals is None and items.complete:
            self.totals = self._tally.totals(items, self.weights, self.view.tail)


def stands_for_item(key: RowKey) -> bool:
    """Whether a line shows an item, not what stands between items."""
    return key[0] in ITEM_KINDS
