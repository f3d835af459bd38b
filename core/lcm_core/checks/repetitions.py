"""Messages that were stored again: replayed blocks, floods, duplicates (E3, E4). Pure.

Two messages are the same when role and text are (the identity hash says so where it is recorded). A
session repeats itself often without anything being wrong: a timer's prompt, ``HEARTBEAT_OK``, the same
tool output. So a repetition counts only with proof that it is a copy: the times or the tool call ids of
the original, or many messages stamped in one second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from lcm_core.base.findings import Proof, Repeat
from lcm_core.base.values import Record
from lcm_core.checks.structure import SECOND, MessageColumns, Structure

#: A text this short is repeated in every session: NO_REPLY, HEARTBEAT_OK, ok, (no output).
SHORT_TEXT: Final = 24
#: Messages that mean something which a replayed block has at least.
_MIN_BLOCK: Final = 3
#: So many without any proof are a replay all the same, though not for certain.
_LONG_BLOCK: Final = 12
#: Earlier places of a message that are tried as the beginning of the original.
_MAX_TRIES: Final = 16
#: The engine's own flood guard (docs/spec/ingest.md, "Repeated messages"): identical rows in one second.
FLOOD_OF_USER: Final = 3
FLOOD_OF_OTHERS: Final = 32
#: So many different messages in one second were stamped at import: their times prove nothing.
BULK: Final = 10


class Replay(Record, frozen=True):
    """A block of messages that repeats an earlier one; places in the columns of the conversation."""

    original: int  #: first place of the original
    copy: int  #: first place of the copy
    length: int
    proof: Proof

    @property
    def certain(self) -> bool:
        """Whether more than its length speaks for it."""
        return self.proof is not Proof.LENGTH


class Cluster(Record, frozen=True):
    """The same message several times outside replayed blocks: the first one and its extras, by place."""

    places: tuple[int, ...]
    flood: bool  #: by the engine's flood guard
    certain: bool


class Repetition(Record, frozen=True):
    """Messages that were stored again: what the health screen shows and a fix takes out of the context."""

    copy_ids: tuple[int, ...]  #: of a block as many as the originals, of a cluster all but the first
    original_seqs: tuple[int, int]  #: first and last
    copy_seqs: tuple[int, int]  #: first and last; those of a cluster may lie apart
    proof: Proof | None  #: of a block; None for a flood or a duplicate
    flood: bool
    certain: bool
    tokens: int  #: stored estimate of the copies
    in_context: tuple[int, ...]  #: the copies that are in the context themselves
    spare: tuple[int, ...]  #: those of them whose originals the context reaches too: they can go
    summarised: int  #: how many copies went into a summary


class Keys(Record, frozen=True):
    """What distinguishes the messages of a conversation, by place."""

    texts: array[int]  #: 64 bits of the identity of role and text
    calls: array[int]  #: 64 bits of the tool call ids; 0 without any
    weights: bytes  #: 0 blank, 1 short, 2 means something


def find_replays(messages: MessageColumns, keys: Keys) -> list[Replay]:
    """The replayed blocks of a conversation, in order, none overlapping."""
    earlier = _earlier(keys)
    found: list[Replay] = []
    place, size = 0, len(messages)
    while place < size:
        best: Replay | None = None
        if keys.weights[place] and earlier[place] >= 0:
            best = _best_replay(messages, keys, earlier, place)
        if best is None:
            place += 1
            continue
        found.append(best)
        place += best.length
    return found


def _earlier(keys: Keys) -> array[int]:
    """By place, where the same message stood before; -1 for a first time."""
    latest: dict[int, int] = {}
    earlier = array("q", [-1]) * len(keys.texts)
    for place, key in enumerate(keys.texts):
        if keys.weights[place]:
            earlier[place] = latest.get(key, -1)
            latest[key] = place
    return earlier


def _best_replay(messages: MessageColumns, keys: Keys, earlier: Sequence[int], copy: int) -> Replay | None:
    best: Replay | None = None
    following = keys.texts[copy + 1 : copy + _MIN_BLOCK]
    for original in islice(_all_before(earlier, copy), _MAX_TRIES):
        if keys.texts[original + 1 : original + _MIN_BLOCK] != following:  # shorter than any block
            continue
        length = _common(messages, keys, original, copy)
        if best is None or length > best.length:
            proof = _proof(messages, keys, original, copy, length)
            if proof is not None:
                best = Replay(original, copy, length, proof)
    return best


def _all_before(earlier: Sequence[int], place: int) -> Iterator[int]:
    while (place := earlier[place]) >= 0:
        yield place


def _common(messages: MessageColumns, keys: Keys, original: int, copy: int) -> int:
    most = min(copy - original, len(messages) - copy)
    length = 0
    while length < most and keys.texts[original + length] == keys.texts[copy + length]:
        length += 1
    return length


def _proof(messages: MessageColumns, keys: Keys, original: int, copy: int, length: int) -> Proof | None:
    distinct = {keys.texts[place] for place in range(copy, copy + length) if keys.weights[place] == 2}
    if len(distinct) < _MIN_BLOCK:
        return None
    calls = [
        keys.calls[original + step] == keys.calls[copy + step]
        for step in range(length)
        if keys.calls[original + step] and keys.calls[copy + step]
    ]
    if calls:
        return Proof.SAME_CALLS if sum(calls) * 2 > len(calls) else None
    before = [messages.days[place] for place in range(original, original + length)]
    after = [messages.days[place] for place in range(copy, copy + length)]
    together = max(before) - min(before) <= SECOND * 2
    same = sum(abs(one - other) < SECOND / 2 for one, other in zip(before, after, strict=True))
    if same * 2 > length and not together:
        return Proof.SAME_TIMES
    if max(after) - min(after) <= SECOND * 2 and not together:
        return Proof.BURST
    return Proof.LENGTH if len(distinct) >= _LONG_BLOCK else None


def find_clusters(messages: MessageColumns, keys: Keys, replays: Sequence[Replay]) -> Iterator[Cluster]:
    """Floods, and messages that were stored twice with one time; those of replayed blocks are left out."""
    replayed = bytearray(len(messages))
    for replay in replays:
        replayed[replay.copy : replay.copy + replay.length] = b"\1" * replay.length
    again = {key for key, before in zip(keys.texts, _earlier(keys), strict=True) if before >= 0}
    groups: dict[tuple[int, int], list[int]] = {}
    for place, key in enumerate(keys.texts):
        if key in again and keys.weights[place] == 2 and not replayed[place]:
            groups.setdefault((key, round(messages.days[place] * 86_400)), []).append(place)
    repeated = {key: places for key, places in groups.items() if len(places) > 1}
    crowds: dict[int, set[int]] = {second: set() for _, second in repeated}
    for place, day in enumerate(messages.days) if crowds else ():
        if (second := round(day * 86_400)) in crowds:
            crowds[second].add(keys.texts[place])
    for (_, second), places in repeated.items():
        if _different_calls(keys, places):
            continue
        user = messages.role(places[0]) == "user"
        flood = len(places) >= (FLOOD_OF_USER if user else FLOOD_OF_OTHERS)
        imported = len(crowds[second]) >= BULK
        if flood or not imported:
            yield Cluster(tuple(places), flood, flood and not imported)


def _different_calls(keys: Keys, places: Sequence[int]) -> bool:
    calls = [keys.calls[place] for place in places if keys.calls[place]]
    return len(set(calls)) > 1


def repeats_in(structure: Structure, keys: Keys) -> list[Repeat]:
    """Replayed blocks, floods and duplicates, by place."""
    replays = find_replays(structure.messages, keys)
    found = [
        Repeat(
            tuple(range(one.original, one.original + one.length)),
            tuple(range(one.copy, one.copy + one.length)),
            one.proof,
            one.certain,
        )
        for one in replays
    ]
    for cluster in find_clusters(structure.messages, keys, replays):
        first, *copies = cluster.places
        found.append(Repeat((first,), tuple(copies), None, cluster.certain, cluster.flood))
    return found


def in_sight(structure: Structure, repeats: Sequence[Repeat]) -> Mapping[int, int]:
    """Originals by copy: of proven copies whose original the context reaches, itself or as a copy."""
    origins = {
        copy: original for one in repeats if one.proof is not Proof.LENGTH for original, copy in one.pairs
    }
    found: dict[int, int] = {}
    for copy, original in sorted(origins.items()):  # an original comes before its copies
        if structure.raw[original] or structure.linked[original] == 2 or original in found:
            found[copy] = original
    return found


def describe_repetition(structure: Structure, one: Repeat, seen: Mapping[int, int]) -> Repetition:
    """The same by ids and seq; *seen* as `in_sight` says."""
    messages, raw = structure.messages, structure.raw
    return Repetition(
        copy_ids=tuple(messages.ids[place] for place in one.copies),
        original_seqs=(messages.seqs[one.originals[0]], messages.seqs[one.originals[-1]]),
        copy_seqs=(messages.seqs[one.copies[0]], messages.seqs[one.copies[-1]]),
        proof=one.proof,
        flood=one.flood,
        certain=one.certain,
        tokens=sum(max(messages.tokens[place], 0) for place in one.copies),
        in_context=tuple(messages.ids[place] for place in one.copies if raw[place]),
        spare=tuple(messages.ids[place] for place in one.copies if raw[place] and place in seen),
        summarised=sum(structure.linked[place] > 0 for place in one.copies),
    )
