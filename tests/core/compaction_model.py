"""A second telling of docs/spec/compaction.md: plain lists, one step after the other, nothing clever.

Written from the page alone, for tests that compare it with the code on contexts nobody recorded. What comes
of a pass is asked of a function; there is no database, no clock but a counter of seconds, no concurrency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Item:
    """What stands in a context."""

    ref: int | str
    stored: int
    weight: int
    is_user: bool = False
    depth: int = 0
    blank: bool = False

    @property
    def is_message(self) -> bool:
        return isinstance(self.ref, int)


@dataclass
class Config:
    """The settings in force."""

    threshold: float = 0.75
    tail: int = 4
    tail_tokens: int | None = None
    leaf_fanout: int = 3
    fanout: int = 3
    hard_fanout: int = 2
    depth: int = 1
    chunk: int = 120
    condensed_target: int = 10
    prefix_target: int | None = None
    rounds: int = 3
    iterations: int = 12
    sweep_ms: int = 50_000
    until_ms: int = 90_000


@dataclass
class Caller:
    """What one call asks for."""

    force: bool = True
    hard: bool = False
    stop_at: int | None = None
    threshold: float | None = None
    tail: int | None = None
    chunk: int | None = None
    target: int | None = None
    current: int = 0
    given: str | None = None
    condense: bool = True


@dataclass
class Answer:
    """What comes of a pass: a summary of some tokens, nothing to be said, or a refused key."""

    kind: str  #: made, skipped or refused
    tokens: int = 0
    blank: bool = False  #: what was made says nothing


@dataclass
class Sweeping:
    """One sweep on its way."""

    call: Caller
    threshold: int
    mark: int | None
    total: int  #: the running total
    counted: int  #: what the last pass that counted left of it
    ends: int
    made: int = 0
    acted: bool = False
    condensed: bool = False
    auth: bool = False
    over: bool = False


@dataclass
class Model:
    """One conversation; *ask* answers for a pass by its number, depth and items."""

    items: list[Item]
    config: Config
    budget: int
    present: bool
    ask: Callable[[int, int, list[Item]], Answer]
    passes: list[tuple[int, tuple[int | str, ...], tuple[str, ...]]] = field(default_factory=list)
    seconds: int = 0
    ordinals: Sequence[int] = ()  #: at which the items stand; none are given: from 0

    # -- what is looked at -------------------------------------------------------------------------------

    def stored(self) -> int:
        return sum(item.stored for item in self.items)

    def tail_begins(self, count: int) -> int:
        """The index of the first protected item."""
        if count <= 0:
            return len(self.items)
        places = [at for at, item in enumerate(self.items) if item.is_message]
        users = [at for at in places if self.items[at].is_user]
        taken: list[int] = []
        for at in reversed(places):
            must = not taken or (self.present and users and users[-1] not in taken)
            if not must:
                weight = sum(self.items[one].weight for one in taken) + self.items[at].weight
                if len(taken) >= count:
                    break
                if self.present and self.config.tail_tokens is not None and weight > self.config.tail_tokens:
                    break
            taken.append(at)
        return min(taken) if taken else len(self.items)

    def ordinal(self, at: int) -> int:
        return self.ordinals[at] if self.ordinals else at

    def callers_tail(self, call: Caller) -> int:
        return self.tail_begins(call.tail if call.tail and call.tail > 0 else self.config.tail)

    def settings_tail(self) -> int:
        return self.tail_begins(self.config.tail)

    def leaf_chunk(self, call: Caller, above: int = -1) -> list[int]:
        limit = call.chunk if call.chunk and call.chunk > 0 else self.config.chunk
        chosen: list[int] = []
        weight = 0
        for at in range(self.callers_tail(call)):
            if self.ordinal(at) <= above:
                continue
            if not self.items[at].is_message:
                if chosen:
                    break
                continue
            if chosen and weight + self.items[at].weight > limit:
                break
            chosen.append(at)
            weight += self.items[at].weight
            if weight >= limit:
                break
        return chosen

    def condensed_chunk(self, depth: int) -> list[int]:
        chosen: list[int] = []
        weight = 0
        for at in range(self.settings_tail()):
            item = self.items[at]
            fits = not item.is_message and item.depth == depth
            blank = self.present and item.blank
            if not chosen and (not fits or blank):
                continue
            if not fits:
                break
            if not blank:
                if chosen and weight + item.weight > self.config.chunk:
                    break
                weight += item.weight
            chosen.append(at)
        return chosen

    def enough(self, chunk: list[int], depth: int, hard: bool) -> bool:
        counted = [self.items[at] for at in chunk if not (self.present and self.items[at].blank)]
        usual = self.config.leaf_fanout if depth == 0 else self.config.fanout
        least = max(self.config.condensed_target, self.config.chunk // 10)
        return bool(chunk) and (
            len(counted) >= (self.config.hard_fanout if hard else usual)
            and sum(item.weight for item in counted) >= least
        )

    def candidate(self, hard: bool) -> tuple[int, list[int]] | None:
        before = self.items[: self.settings_tail()]
        for depth in sorted({item.depth for item in before if not item.is_message}):
            chunk = self.condensed_chunk(depth)
            if self.enough(chunk, depth, hard):
                return depth, chunk
        return None

    def nearest(self, chunk: list[int]) -> tuple[str, ...]:
        before = [item for item in self.items[: chunk[0]] if not item.is_message]
        if self.present:
            before = [item for item in before if not item.blank]
        return tuple(str(item.ref) for item in before[-2:])

    def raw_weight(self, call: Caller) -> int:
        return sum(item.weight for item in self.items[: self.callers_tail(call)] if item.is_message)

    # -- a pass ------------------------------------------------------------------------------------------

    def make(self, depth: int, chunk: list[int], previous: tuple[str, ...]) -> tuple[Answer, int]:
        """Do it; what it took out of the running total less what it made."""
        self.seconds += 1
        sources = [self.items[at] for at in chunk]
        number = len(self.passes)
        self.passes.append((depth, tuple(item.ref for item in sources), previous))
        answer = self.ask(number, depth, sources)
        if answer.kind != "made":
            return answer, 0
        removed = sum(item.weight if depth == 0 else item.stored for item in sources)
        name = f"made_{number}"
        self.ordinals = ()
        self.items[chunk[0] : chunk[-1] + 1] = [
            Item(name, answer.tokens, answer.tokens, depth=depth, blank=answer.blank)
        ]
        return answer, removed - answer.tokens

    # -- operations --------------------------------------------------------------------------------------

    def sweep(self, call: Caller, deadline: int | None = None) -> dict[str, Any]:
        if not self.present:
            return self.old_sweep(call)
        share = self.config.threshold
        if call.threshold is not None and 0 <= call.threshold <= 1:
            share = call.threshold
        threshold = int(share * self.budget)
        mark = call.stop_at if call.stop_at is not None and call.stop_at > 0 else None
        before = self.stored()
        result: dict[str, Any] = {"acted": False, "before": before, "condensed": False, "level": False}
        if not call.force and before <= threshold and (mark is None or before <= mark):
            return {**result, "after": before}
        ends = self.seconds * 1000 + self.config.sweep_ms
        state = Sweeping(
            call, threshold, mark, before, before, ends if deadline is None else min(ends, deadline)
        )
        self.leaves(state)
        if not state.over and self.condensations(state, last_resort=False) and not state.auth:
            self.condensations(state, last_resort=True)
        result |= {"acted": state.acted, "level": state.acted, "condensed": state.condensed}
        result["after"] = state.total
        if state.auth:
            result["auth"] = True
        if state.over:
            result["over"] = True
        return result

    def bound(self, state: Sweeping) -> bool:
        if state.made >= self.config.iterations or self.seconds * 1000 >= state.ends:
            state.over = True
        return state.over

    def leaves(self, state: Sweeping) -> None:
        skipped = -1
        last: str | None = None
        while not self.bound(state):
            chunk = self.leaf_chunk(state.call, skipped)
            if not chunk:
                return
            previous: tuple[str, ...] = ()
            if last is not None:
                previous = (last,)
            elif skipped >= 0:
                previous = self.nearest(chunk)
            start = state.total
            answer, saved = self.make(0, chunk, previous)
            state.made += 1
            if answer.kind == "refused":
                state.auth = True
                return
            if answer.kind == "skipped":
                skipped = self.ordinal(chunk[-1])
                continue
            last = f"made_{len(self.passes) - 1}"
            state.acted = True
            state.total = max(0, state.total - saved)
            if state.mark is not None and state.total <= state.mark:
                return
            if state.total >= start or state.total >= state.counted:
                return
            state.counted = state.total

    def is_wanted(self, state: Sweeping) -> bool:
        target = self.config.prefix_target
        if target is None:
            half = max(1, state.threshold) // 2
            target = max(self.config.condensed_target, min(self.config.chunk, half))
        before = self.items[: self.callers_tail(state.call)]
        weight = sum(item.weight for item in before if not item.is_message)
        return weight > target or (state.mark is not None and state.total > state.mark)

    def condensations(self, state: Sweeping, *, last_resort: bool) -> bool:
        """One of the two loops; whether the next may follow."""
        while self.is_wanted(state):
            if self.bound(state):
                return False
            found = self.candidate(state.call.hard or last_resort)
            if found is None:
                return True
            depth, chunk = found
            if not last_resort and 0 <= self.config.depth <= depth:
                return True
            start = state.total
            answer, saved = self.make(depth + 1, chunk, ())
            state.made += 1
            if answer.kind == "refused":
                state.auth = True
            if answer.kind != "made":
                return False
            state.acted = state.condensed = True
            state.total = max(0, state.total - saved)
            fell = state.total < start and state.total < state.counted
            there = state.mark is not None and state.total <= state.mark
            if not state.call.force and state.total <= state.threshold:
                there = True
            if not (fell or there):
                return False
            state.counted = state.total
        return True

    def old_sweep(self, call: Caller) -> dict[str, Any]:
        before = self.stored()
        result: dict[str, Any] = {"acted": False, "before": before, "condensed": False, "level": False}
        over_threshold = before > int(self.config.threshold * self.budget)
        if not (call.force or over_threshold or self.raw_weight(Caller()) >= self.config.chunk):
            return {**result, "after": before}
        last: tuple[str, ...] = ()
        counted = before
        for phase in ("leaf", "condensed"):
            while True:
                if phase == "leaf":
                    depth, chunk, previous = 0, self.leaf_chunk(Caller()), last
                    if not chunk:
                        break
                else:
                    found = self.candidate(call.hard)
                    if found is None:
                        break
                    depth, chunk, previous = found[0] + 1, found[1], ()
                start = self.stored()
                self.make(depth, chunk, previous)
                last = (f"made_{len(self.passes) - 1}",)
                result["acted"] = result["level"] = True
                result["condensed"] = result["condensed"] or depth > 0
                if self.stored() >= start or self.stored() >= counted:
                    break
                counted = self.stored()
        return {**result, "after": self.stored()}

    def leaf(self, call: Caller) -> dict[str, Any]:
        before = total = self.stored()
        result: dict[str, Any] = {"acted": False, "before": before, "condensed": False, "level": False}
        limit = call.chunk if call.chunk and call.chunk > 0 else self.config.chunk
        over_threshold = total > int(self.config.threshold * self.budget)
        if not (call.force or over_threshold or self.raw_weight(call) >= limit):
            return {**result, "after": total}
        chunk = self.leaf_chunk(call)
        if not chunk:
            return {**result, "after": total}
        previous = () if call.given is not None else self.nearest(chunk)
        answer, saved = self.make(0, chunk, previous)
        if answer.kind == "refused":
            return {**result, "after": total, "auth": True}
        if answer.kind == "skipped":
            return {**result, "after": total}
        result["acted"] = result["level"] = True
        total = max(0, total - saved) if self.present else self.stored()
        depth = 0
        while call.condense:
            endless = self.present and self.config.depth < 0
            if not endless and depth >= self.config.depth:
                break
            chunk = self.condensed_chunk(depth)
            if not self.enough(chunk, depth, hard=False):
                break
            start = total
            answer, saved = self.make(depth + 1, chunk, ())
            if answer.kind != "made":
                break
            result["condensed"] = True
            total = max(0, total - saved) if self.present else self.stored()
            if total >= start:
                break
            depth += 1
        return {**result, "after": total}

    def until_under(self, call: Caller) -> dict[str, Any]:
        target = call.target if call.target and call.target > 0 else self.budget
        last = max(self.stored(), call.current)
        acted = False
        if last < target:
            return {"success": True, "rounds": 0, "after": last, "acted": acted}
        ends = self.seconds * 1000 + self.config.until_ms
        for number in range(1, self.config.rounds + 1):
            if self.present and number > 1 and self.seconds * 1000 >= ends:
                return {"success": False, "rounds": number - 1, "after": last, "acted": acted}
            done = self.sweep(Caller(tail=call.tail, chunk=call.chunk), ends)
            total, acted = done["after"], acted or done["acted"]
            if done.get("auth"):
                return {"success": False, "rounds": number, "after": total, "acted": acted, "auth": True}
            if total <= target:
                return {"success": True, "rounds": number, "after": total, "acted": acted}
            if not done["acted"] or total >= last:
                return {"success": False, "rounds": number, "after": total, "acted": acted}
            last = total
        return {"success": last <= target, "rounds": self.config.rounds, "after": last, "acted": acted}
