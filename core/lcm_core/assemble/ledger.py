"""An assembly seen from its context: what becomes of each item, and what all of it adds up to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lcm_core.assemble.message import Origin, OriginKind, SentMessage
from lcm_core.assemble.repair import Repair
from lcm_core.assemble.result import Assembled, AssemblyStep, Evicted
from lcm_core.records import LargeFile

#: A message among those that are sent: what it represents, its id, and which of several of the same it is.
#: Stable from one assembly to the next, and for items that of the list of items, too.
MessageKey = tuple[str, int | str, int]


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """What becomes of one item of a context."""

    number: int | None  #: among the messages, from 1; None: it is not sent
    tokens: int  #: what it weighs as it is sent, or would be; 0 when that is not known
    step: AssemblyStep | None  #: in which it was left out; None: it is sent
    why: str  #: for people, when it is left out
    item: int | str | None = None  #: id of the message or summary; None: its row is gone, or was not read
    repairs: tuple[Repair, ...] = ()
    read: bool = True  #: False: it is so old that it cannot fit, and was not even read
    score: float | None = None  #: the share of its words that the prompt names; None: no prompt chose it
    unseen: bool = False  #: it is a message, and no summary that is sent covers it either
    pasted: tuple[LargeFile, ...] = ()  #: what a user pasted is in these, and a reference is sent

    @property
    def sent(self) -> bool:
        """Whether the model gets it."""
        return self.number is not None


@dataclass(frozen=True, slots=True)
class Ledger:
    """An assembly, by item and by message."""

    assembled: Assembled
    fates: Mapping[int, ItemOutcome]  #: by ordinal, of the items that were read
    keys: tuple[MessageKey, ...]  #: of the messages, in order
    places: Mapping[MessageKey, int]  #: of the messages, from 0
    left_out: Mapping[AssemblyStep, int]  #: items (and a focus brief) that are not sent, by step

    def fate(self, ordinal: int, item: int | str | None) -> ItemOutcome | None:
        """What becomes of an item; None when the assembly is of a context in which it was not there."""
        found = self.fates.get(ordinal)
        if found is not None and found.item != item and found.step is not AssemblyStep.RESOLVE:
            return None
        unread = self.assembled.unread
        if found is None and unread is not None and unread.first_ordinal <= ordinal <= unread.last_ordinal:
            why = "so much older than what fits that it was not read"
            raw = isinstance(item, int)
            return ItemOutcome(None, 0, AssemblyStep.BUDGET, why, read=False, unseen=raw)
        return found

    def message(self, key: MessageKey) -> SentMessage | None:
        """A message by its key."""
        place = self.places.get(key)
        return None if place is None else self.assembled.messages[place]

    def repairs_of(self, message: SentMessage) -> tuple[Repair, ...]:
        """What was repaired at the item that a message represents."""
        ordinal = message.origin.ordinal
        if ordinal is None or message.origin.kind is not OriginKind.MESSAGE:
            return ()
        fate = self.fates.get(ordinal)
        return fate.repairs if fate else ()

    def pasted_in(self, message: SentMessage) -> tuple[LargeFile, ...]:
        """The files with what a user pasted, of which a message holds references."""
        if message.origin.kind is not OriginKind.MESSAGE or message.origin.ordinal is None:
            return ()
        return self.assembled.pasted.get(message.origin.ordinal, ())

    def key_at(self, ordinal: int) -> MessageKey | None:
        """The message that is sent for the item at an ordinal, else the next one behind it, else the last."""
        if not self.keys:
            return None
        for key, message in zip(self.keys, self.assembled.messages, strict=True):
            at = message.origin.ordinal
            if at is not None and at >= ordinal:
                return key
        return self.keys[-1]


def ledger_of(assembled: Assembled) -> Ledger:
    """The ledger of an assembly."""
    repairs: dict[int, list[Repair]] = {}
    for repair in assembled.repairs:
        if repair.origin.ordinal is not None:
            repairs.setdefault(repair.origin.ordinal, []).append(repair)
    # A focus brief is no item: it has the ordinal of the first summary that it covers.
    items = [one for one in assembled.evicted if one.origin is None or not _is_brief(one.origin)]
    scores = assembled.prompt_scores
    unseen = assembled.unseen.tokens
    fates = {
        one.ordinal: _gone(
            one, repairs.get(one.ordinal, ()), scores.get(one.ordinal), unseen=one.ordinal in unseen
        )
        for one in items
    }
    for at, (message, weight) in enumerate(zip(assembled.messages, assembled.weights, strict=True), 1):
        origin = message.origin
        if origin.ordinal is not None and origin.kind in (OriginKind.MESSAGE, OriginKind.SUMMARY):
            item_repairs = tuple(repairs.get(origin.ordinal, ()))
            item = origin.summary_id or origin.message_id
            score = scores.get(origin.ordinal)
            pasted = assembled.pasted.get(origin.ordinal, ())
            fates[origin.ordinal] = ItemOutcome(
                at, weight, None, "", item, item_repairs, score=score, pasted=pasted
            )
    keys = tuple(message_keys(assembled.messages))
    places = {key: at for at, key in enumerate(keys)}
    left_out = Counter(one.step for one in assembled.evicted)
    if assembled.unread is not None:
        left_out[AssemblyStep.BUDGET] += assembled.unread.items
    return Ledger(assembled, fates, keys, places, left_out)


def message_keys(messages: Iterable[SentMessage]) -> Iterator[MessageKey]:
    """A key for each message: what it represents, and which of those that represent the same it is."""
    seen: Counter[tuple[str, int | str]] = Counter()
    for message in messages:
        name = _named(message, message.origin)
        yield (*name, seen[name])
        seen[name] += 1


def _named(message: SentMessage, origin: Origin) -> tuple[str, int | str]:
    match origin.kind:
        case OriginKind.MESSAGE:
            return "message", int(origin.message_id or 0)
        case OriginKind.SUMMARY:
            return "summary", str(origin.summary_id)
        case OriginKind.FOCUS_BRIEF:
            return "brief", str(origin.brief_id)
        case _:
            return str(origin.kind), message.call_id or ""


def _is_brief(origin: Origin) -> bool:
    return origin.kind is OriginKind.FOCUS_BRIEF


def _gone(one: Evicted, repairs: Sequence[Repair], score: float | None, *, unseen: bool) -> ItemOutcome:
    item = None if one.origin is None else one.origin.summary_id or one.origin.message_id
    return ItemOutcome(None, one.tokens, one.step, one.why, item, tuple(repairs), score=score, unseen=unseen)
