"""The repetitions of a conversation, each with what of it the context holds and could do without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lcm_core.dag.checks.duplicates import Keys, Proof, Repetition, find_clusters, find_replays
from lcm_core.dag.checks.facts import Structure


@dataclass(frozen=True, slots=True)
class _Repeat:
    """Messages that were stored again, by place; as many originals as copies, or a single one."""

    originals: Sequence[int]
    copies: Sequence[int]
    proof: Proof | None
    certain: bool
    flood: bool = False

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Each copy behind its original."""
        single = len(self.originals) < len(self.copies)
        originals = [self.originals[0]] * len(self.copies) if single else self.originals
        return zip(originals, self.copies, strict=True)


def repetitions(structure: Structure, keys: Keys) -> list[Repetition]:
    """Replayed blocks, floods and duplicates, in order."""
    repeats = _repeats(structure, keys)
    seen = _in_sight(structure, repeats)
    return [_told(structure, one, seen) for one in repeats]


def spare_copies(structure: Structure, keys: Keys) -> frozenset[int]:
    """The places of all proven copies of something that the context reaches without them."""
    return frozenset(_in_sight(structure, _repeats(structure, keys)))


def _repeats(structure: Structure, keys: Keys) -> list[_Repeat]:
    replays = find_replays(structure.messages, keys)
    found = [
        _Repeat(
            range(one.original, one.original + one.length),
            range(one.copy, one.copy + one.length),
            one.proof,
            one.certain,
        )
        for one in replays
    ]
    for cluster in find_clusters(structure.messages, keys, replays):
        first, *copies = cluster.places
        found.append(_Repeat([first], copies, None, cluster.certain, cluster.flood))
    return found


def _in_sight(structure: Structure, repeats: Sequence[_Repeat]) -> Mapping[int, int]:
    """Originals by copy: of proven copies whose original the context reaches, itself or as a copy."""
    origins = {
        copy: original for one in repeats if one.proof is not Proof.LENGTH for original, copy in one.pairs
    }
    found: dict[int, int] = {}
    for copy, original in sorted(origins.items()):  # an original stands before its copies
        if structure.raw[original] or structure.linked[original] == 2 or original in found:
            found[copy] = original
    return found


def _told(structure: Structure, one: _Repeat, seen: Mapping[int, int]) -> Repetition:
    messages, raw = structure.messages, structure.raw
    return Repetition(
        original_ids=tuple(messages.ids[place] for place in one.originals),
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
