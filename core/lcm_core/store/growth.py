"""How a conversation, or a database, grew: the times of some of its messages, without its texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.typed import place
from lcm_core.times import parse_utc

#: Messages whose times are read first, at most: each costs one look-up by (conversation, seq).
SAMPLES = 240
#: Look-ups beyond these, at most, that find out when in a long pause the messages came.
CLOSER = 240


@dataclass(frozen=True, slots=True)
class Growth:
    """Messages of a conversation over its time, from some that stand at equal distances of seq."""

    marks: tuple[tuple[datetime, int], ...]  #: a time (UTC) and the seq that was reached then; both grow

    @property
    def first(self) -> datetime:
        """When it began."""
        return self.marks[0][0]

    @property
    def last(self) -> datetime:
        """When it grew last."""
        return self.marks[-1][0]

    def cells(self, number: int) -> list[tuple[int, int]]:
        """The time in so many equal pieces: about how many messages came in each, and its first seq.

        Between two marks as many messages come in any time as in any other, unless they are further apart
        than a piece is long: then all came at the end, so that a piece has a bar only if a message is in it.
        A message at the very end belongs to the last piece.
        """
        span = (self.last - self.first).total_seconds()
        found: list[tuple[int, int]] = []
        before = self.marks[0][1] - 1
        at = 1
        for piece in range(1, number + 1):
            until = span * piece / number
            while at < len(self.marks) and self._seconds(at) < until:
                at += 1
            reached = self.marks[-1][1] if piece == number else self._reached(at, until, span / number)
            reached = max(reached, before)
            found.append((reached - before, before + 1))
            before = reached
        return found

    def _seconds(self, at: int) -> float:
        return (self.marks[at][0] - self.first).total_seconds()

    def _reached(self, at: int, until: float, piece: float) -> int:
        """The seq that was reached after so many seconds, between the mark before *at* and that one."""
        if at >= len(self.marks):
            return self.marks[-1][1]
        begun, ended = self._seconds(at - 1), self._seconds(at)
        low, high = self.marks[at - 1][1], self.marks[at][1]
        if ended <= begun or until <= begun or (ended - begun > piece and until < ended):
            return low
        return low + int((high - low) * (until - begun) / (ended - begun))


async def growth_of(reader: Reader, conversation_id: ConversationId) -> Growth | None:
    """The times of at most `SAMPLES` messages, from the first to the last; None: fewer than two are known.

    Where two of them are long apart, at most `CLOSER` more tell when the messages between them came.
    Times that cannot be read, and those before an earlier message's, are left out.
    """
    if not reader.schema.has("messages", "created_at"):
        return None
    bounds = await reader.row(
        "SELECT min(seq) AS first, max(seq) AS last FROM messages WHERE conversation_id = ?", conversation_id
    )
    if bounds is None or bounds["first"] is None:
        return None
    first, last = place(bounds["first"]), place(bounds["last"])
    steps = min(SAMPLES - 1, max(last - first, 1))
    wanted = sorted({first + (last - first) * step // steps for step in range(steps + 1)})
    marks = _growing(await _times(reader, conversation_id, wanted))
    if len(marks) < 2 or marks[-1][0] <= marks[0][0]:
        return None
    left = CLOSER
    while left and (asked := _in_pauses(marks)[:left]):
        left -= len(asked)
        found = await _times(reader, conversation_id, asked)
        if len(found) < len(asked):
            left = 0  # a time cannot be read: nothing is learned by asking for it again
        known = _growing(sorted((*marks, *found), key=lambda mark: mark[1]))
        left = left if len(known) > len(marks) else 0
        marks = known
    return Growth(tuple(marks))


async def _times(
    reader: Reader, conversation_id: ConversationId, seqs: list[int]
) -> list[tuple[datetime, int]]:
    """When each of some seqs was reached, as far as that can be read."""
    rows = await reader.rows(
        """SELECT value AS seq, (SELECT created_at FROM messages WHERE conversation_id = ? AND seq >= value
        ORDER BY seq LIMIT 1) AS at FROM json_each(?)""",
        conversation_id,
        json.dumps(seqs),
    )
    return [(at, row["seq"]) for row in rows if (at := parse_utc(row["at"])) is not None]


def _growing(marks: list[tuple[datetime, int]]) -> list[tuple[datetime, int]]:
    """Without the marks whose time is before that of an earlier one."""
    found: list[tuple[datetime, int]] = []
    for mark in marks:
        if not found or mark[0] >= found[-1][0]:
            found.append(mark)
    return found


def _in_pauses(marks: list[tuple[datetime, int]]) -> list[int]:
    """The seqs in the middle between marks that are long apart, the longest pause first."""
    shortest = (marks[-1][0] - marks[0][0]) / SAMPLES
    pauses = [
        (after - before, (low + high) // 2)
        for (before, low), (after, high) in pairwise(marks)
        if after - before > shortest and high - low > 1
    ]
    return [middle for _, middle in sorted(pauses, reverse=True)]


async def growth_of_all(reader: Reader) -> Growth | None:
    """The same of all messages of a database, from some at equal distances of their ids.

    Ids need not be in the order of time: an import adds old messages. So each of the messages that are read
    counts for as many as any other, at its time.
    """
    if not reader.schema.has("messages", "created_at"):
        return None
    bounds = await reader.row("SELECT min(message_id) AS first, max(message_id) AS last FROM messages")
    if bounds is None or bounds["first"] is None:
        return None
    first, last = place(bounds["first"]), place(bounds["last"])
    steps = min(SAMPLES - 1, max(last - first, 1))
    wanted = sorted({first + (last - first) * step // steps for step in range(steps + 1)})
    rows = await reader.rows(
        """SELECT (SELECT created_at FROM messages WHERE message_id >= value
        ORDER BY message_id LIMIT 1) AS at FROM json_each(?)""",
        json.dumps(wanted),
    )
    times = sorted(at for row in rows if (at := parse_utc(row["at"])) is not None)
    if len(times) < 2 or times[0] == times[-1]:
        return None
    return Growth(tuple((at, (last - first) * number // (len(times) - 1)) for number, at in enumerate(times)))
