"""From where on a transcript is new to a database that holds some of it. Pure.

Source: docs/engine/ingest.md, "Later reads".

Entry ids prove it where they are recorded. Elsewhere the newest stored messages are looked for in the
transcript by role and text, with as many of their predecessors as agree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lcm_core.ingest.identity import identity_of

#: Stored messages that are compared at most.
MOST_COMPARED: Final = 64
#: Messages in a row that must agree, when there are so many.
_RUN: Final = 3
_FILE_ID: Final = re.compile(r"file_[0-9a-f]{16}")


class AnchorProof(StrEnum):
    """By what the place was found."""

    EMPTY = "nothing is stored yet"
    ENTRY_ID = "entry ids"
    CONTENT = "role and text"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where the new part of a transcript begins."""

    start: int  #: index of the first new message
    proof: AnchorProof
    left_out: int = 0  #: messages before it that are not stored: they would come behind newer ones


def comparable(role: str, content: str) -> str:
    """What is compared: the ids of files are minted anew whenever a message is stored."""
    return identity_of(role, _FILE_ID.sub("file_", content))


def anchor_by_entry(ids: Sequence[str | None], known: Collection[str]) -> Anchor | None:
    """Behind the last message whose entry is stored; None when none is."""
    last = next((at for at in range(len(ids) - 1, -1, -1) if ids[at] in known), None)
    if last is None:
        return None
    left_out = sum(1 for entry_id in ids[:last] if entry_id not in known)
    return Anchor(last + 1, AnchorProof.ENTRY_ID, left_out)


def anchor_by_content(transcript: Sequence[str], stored: Sequence[str]) -> Anchor | None:
    """Behind the place at which the newest *stored* messages are in the transcript.

    Both are sequences of `comparable`, oldest first. None when no place has as many agreeing predecessors as
    are asked for, or several have equally many.
    """
    if not stored:
        return None
    runs = {
        at: _run(transcript, stored, at) for at, identity in enumerate(transcript) if identity == stored[-1]
    }
    longest = max(runs.values(), default=0)
    best = [at for at, run in runs.items() if run == longest]
    if longest < min(_RUN, len(stored)) or len(best) != 1:
        return None
    return Anchor(best[0] + 1, AnchorProof.CONTENT)


def anchor_by_counts(
    transcript: Sequence[tuple[str, str]], stored: Mapping[tuple[str, str], int]
) -> int | None:
    """Behind the newest message of which the transcript has as many up to there as are stored.

    *transcript* holds role and text of every message, *stored* how many rows have a role and text.
    """
    seen: Counter[tuple[str, str]] = Counter()
    anchor = None
    for at, key in enumerate(transcript):
        seen[key] += 1
        if seen[key] == stored.get(key):
            anchor = at + 1
    return anchor


def _run(transcript: Sequence[str], stored: Sequence[str], at: int) -> int:
    """How many messages agree, going back from the newest stored one at *at*."""
    length = 0
    while length < min(at + 1, len(stored)) and transcript[at - length] == stored[-1 - length]:
        length += 1
    return length


def import_cap(stored: int) -> int:
    """How many messages the engine imports at most where no entry id proves that they are new.

    Source: docs/engine/ingest.md, "Later reads".
    """
    return max(stored // 5, 50)


def overlap(batch: Sequence[tuple[str, str]], stored: Sequence[tuple[str, str]]) -> int:
    """How many messages at the start of a batch are the newest stored ones, by identity and time.

    Texts repeat; only together with its time is a message the same (docs/engine/ingest.md, "Turns").
    """
    for length in range(min(len(batch), len(stored)), 0, -1):
        if list(batch[:length]) == list(stored[-length:]):
            return length
    return 0
