"""Reads what the previous context of a summary is reconstructed from; the rule is `lcm_core.engine.previous`.

Source: docs/spec/texts.md, "Previous context of stored summaries".

Nothing here depends on the size of the conversation: the search goes back from where the summary begins, from
one summary that was in the context to the one before it, and reads the texts of those alone.
"""

from __future__ import annotations

from lcm_core.base.records import ConversationId, Summary, SummaryId, SummaryText
from lcm_core.base.times import parse_utc, sort_key
from lcm_core.base.values import Record
from lcm_core.engine.previous import (
    Candidate,
    Making,
    PreviousContext,
    PreviousRules,
    not_applicable,
    reconstruct,
)
from lcm_core.store import summaries
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row
from lcm_core.store.summaries import SeqRange, broken_among, seq_ranges

#: Candidates that are read at least, and where the search for two that can be given gives up.
FEWEST, MOST = 5, 400
#: How many of the summaries made last are looked at for some that no message is linked to.
RECENT = 40

#: SQL: not a record of a compaction pass, which 0.1 to 0.6.0 stored (docs/spec/format.md, "Records of
#: passes").
_NO_EVENT = "NOT (m.role = 'system' AND m.content LIKE 'LCM compaction % pass (%')"


class _Subject(Record, frozen=True):
    """The summary asked about."""

    summary: Summary
    row: int  #: rows grow in the order of making
    covers: SeqRange | None

    @property
    def conversation_id(self) -> ConversationId:
        return self.summary.conversation_id


async def previous_context(reader: Reader, summary_id: str, rules: PreviousRules) -> PreviousContext:
    """The previous context of a summary, as it was given and for a rewrite, with the present texts.

    Raises:
        NotFoundError: no summary has this id.
    """
    summary = (await summaries.get_summary(reader, summary_id)).summary
    answer = not_applicable(summary)
    if answer is not None:
        return answer
    row = await reader.value("SELECT rowid FROM summaries WHERE summary_id = ?", summary_id)
    ranges = await seq_ranges(reader, summary.conversation_id, [summary.summary_id])
    subject = _Subject(summary, row, ranges.get(summary.summary_id))
    making, preceding = await _making(reader, subject, rules)
    candidates = await _candidates(reader, subject, rules)
    return reconstruct(summary.summary_id, making, preceding, candidates, rules)


async def leaves_beside(
    reader: Reader, conversation_id: ConversationId, summary_id: SummaryId
) -> tuple[SummaryId | None, SummaryId | None]:
    """The leaves of a conversation that were made just before a summary and just after it."""
    row = await reader.value("SELECT rowid FROM summaries WHERE summary_id = ?", summary_id)
    found = []
    for sign, order in (("<", "DESC"), (">", "ASC")):
        leaf = await reader.value(
            f"""SELECT summary_id FROM summaries
            WHERE conversation_id = ? AND kind = 'leaf' AND rowid {sign} ? ORDER BY rowid {order} LIMIT 1""",
            conversation_id,
            row,
        )
        found.append(None if leaf is None else SummaryId(leaf))
    return found[0], found[1]


async def _making(reader: Reader, subject: _Subject, rules: PreviousRules) -> tuple[Making, SummaryId | None]:
    """The kind of pass that made a summary, concluded from what was made and said just before and after it.

    All passes of a sweep follow each other without a message between them, leaves first.
    """
    made = subject.summary.created_at
    before = await _neighbour(reader, subject, earlier=True)
    together = before is not None and not await _said_between(reader, subject, before["created_at"], made)
    if before is not None and before["kind"] == "leaf" and together:
        return Making.IN_SWEEP, SummaryId(before["summary_id"])
    if together or rules.sweeps_only:
        return Making.SWEEP_START, None
    after = await _neighbour(reader, subject, earlier=False)
    if after is None or after["kind"] != "leaf":
        return Making.SINGLE, None
    apart = await _said_between(reader, subject, made, after["created_at"])
    return Making.SINGLE if apart else Making.SWEEP_START, None


async def _neighbour(reader: Reader, subject: _Subject, *, earlier: bool) -> Row | None:
    """The summary of the conversation that was made just before, or just after, this one."""
    end, sign = ("max", "<") if earlier else ("min", ">")
    return await reader.row(
        f"""SELECT {reader.schema.select("summaries", ("summary_id", "kind", "created_at"), "s")}
        FROM summaries AS s WHERE s.rowid = (
            SELECT {end}(+rowid) FROM summaries WHERE conversation_id = ? AND +rowid {sign} ?)""",
        subject.conversation_id,
        subject.row,
    )


async def _said_between(reader: Reader, subject: _Subject, start: str | None, end: str | None) -> bool:
    """Whether a message came after *start* and not after *end*; True also when a time cannot be read.

    Looks at a few messages only: in a conversation they are ordered by time.
    """
    since, until = parse_utc(start), parse_utc(end)
    if since is None or until is None or not reader.schema.has("messages", "created_at"):
        return True
    last = await reader.value(
        "SELECT max(seq) AS seq FROM messages WHERE conversation_id = ?", subject.conversation_id
    )
    low, high = 0, 1 + last
    while low < high:  # the first seq from which on all is later than the end
        middle = (low + high) // 2
        row = await reader.row(
            """SELECT seq, created_at FROM messages
            WHERE conversation_id = ? AND seq >= ? ORDER BY seq LIMIT 1""",
            subject.conversation_id,
            middle,
        )
        if row is None or sort_key(row["created_at"]) > until or row["seq"] < middle:
            high = middle
        else:
            low = row["seq"] + 1
    newest = await reader.value(
        f"""SELECT m.created_at FROM messages AS m WHERE m.conversation_id = ? AND m.seq < ? AND {_NO_EVENT}
        ORDER BY m.seq DESC LIMIT 1""",
        subject.conversation_id,
        low,
    )
    return sort_key(newest) > since


async def _candidates(reader: Reader, subject: _Subject, rules: PreviousRules) -> list[Candidate]:
    """What was before a summary in the context when it was made, nearest first; what did not, and why."""
    found = (
        []
        if subject.covers is None
        else await _found_by_messages(reader, subject, subject.covers.first, rules)
    )
    known = {one.summary.summary_id for one in found}
    for candidate in await _found_by_time(reader, subject, known):
        ended = sort_key(candidate.summary.latest_at)
        farther = (i for i, one in enumerate(found) if sort_key(one.summary.latest_at) < ended)
        found.insert(next(farther, len(found)), candidate)
    return found


async def _found_by_messages(
    reader: Reader, subject: _Subject, seq: int, rules: PreviousRules
) -> list[Candidate]:
    """Goes back from *seq*: a summary that was there then covers the message before it, and so on."""
    found: dict[SummaryId, Candidate] = {}
    sound = 0
    while len(found) < MOST and (sound < 2 or len(found) < FEWEST):
        message = await _covered_before(reader, subject, seq)
        if message is None:
            break
        leaves, tops = await _covering(reader, subject, message["message_id"])
        refusals = {} if found and tops else _consumed(leaves, tops)
        wanted = [one for one in (*refusals, *tops) if one not in found]
        ranges = await seq_ranges(reader, subject.conversation_id, wanted)
        for text in await summaries.texts_of(reader, wanted):
            one = text.summary.summary_id
            candidate = await _candidate(reader, subject, text, ranges.get(one), refusals.get(one))
            found[one] = candidate
            fit = candidate.refused is None and candidate.broken is None
            sound += fit and not (rules.passes_over and not rules.reading(candidate.content))
        following = min((message["seq"], *(known.first for known in ranges.values())))
        if following >= seq:  # a place that is no number, which SQLite sorts elsewhere
            break
        seq = following
    return list(found.values())


async def _covered_before(reader: Reader, subject: _Subject, seq: int) -> Row | None:
    """The last message before *seq* that a summary made before the subject covers."""
    if not reader.schema.has("summary_messages"):
        return None
    return await reader.row(
        """SELECT m.seq, m.message_id
        FROM messages AS m
        CROSS JOIN summary_messages AS link ON link.message_id = m.message_id
        CROSS JOIN summaries AS s ON s.summary_id = link.summary_id
        WHERE m.conversation_id = ? AND m.seq < ? AND s.conversation_id = ? AND s.rowid < ?
        ORDER BY m.seq DESC LIMIT 1""",
        subject.conversation_id,
        seq,
        subject.conversation_id,
        subject.row,
    )


async def _covering(
    reader: Reader, subject: _Subject, message_id: int
) -> tuple[list[SummaryId], list[SummaryId]]:
    """The leaves made from a message, and what they had been condensed into when the subject was made.

    A leaf that had not been condensed is in both; on a cycle there is no second one.
    """
    made_before = "s.rowid < ? AND s.conversation_id = ?"
    when = (subject.row, subject.conversation_id)
    made_from = f"""SELECT s.summary_id FROM summary_messages AS link
        CROSS JOIN summaries AS s ON s.summary_id = link.summary_id AND {made_before}
        WHERE link.message_id = ?"""
    leaves = await reader.rows(f"{made_from} ORDER BY s.rowid DESC", *when, message_id)
    ids = [SummaryId(row["summary_id"]) for row in leaves]
    if not reader.schema.has("summary_parents"):
        return ids, ids
    tops = await reader.rows(
        f"""WITH RECURSIVE above(id) AS (
            {made_from}
            UNION SELECT s.summary_id FROM above
            CROSS JOIN summary_parents AS edge ON edge.parent_summary_id = above.id
            CROSS JOIN summaries AS s ON s.summary_id = edge.summary_id AND {made_before})
        SELECT id FROM above WHERE NOT EXISTS (
            SELECT 1 FROM summary_parents AS edge
            CROSS JOIN summaries AS s ON s.summary_id = edge.summary_id AND {made_before}
            WHERE edge.parent_summary_id = above.id)""",
        *when,
        message_id,
        *when,
        *when,
    )
    return ids, [SummaryId(row["id"]) for row in tops]


def _consumed(leaves: list[SummaryId], tops: list[SummaryId]) -> dict[SummaryId, str]:
    """Why leaves that are not among the *tops* were not given, though they cover what comes just before."""
    reason = f"had been condensed into {tops[0]} by then" if tops else "is below a cycle"
    return {leaf: reason for leaf in leaves if leaf not in tops}


async def _found_by_time(reader: Reader, subject: _Subject, known: set[SummaryId]) -> list[Candidate]:
    """Unconsumed summaries that no message is linked to (or, when none is linked to the subject, all).

    Their place follows from the times that they cover, nearest first; an undamaged conversation has none.
    """
    ids = [one for one in await _unplaced(reader, subject) if one not in known]
    ended = {
        row["summary_id"]: sort_key(row["latest_at"])
        for row in await reader.rows_in(
            f"""SELECT {reader.schema.select("summaries", ("summary_id", "latest_at"), "s")}
            FROM summaries AS s WHERE s.summary_id IN (?*)""",
            ids,
        )
    }
    nearest = sorted(ids, key=lambda one: ended.get(one, sort_key(None)), reverse=True)[:MOST]
    ranges = await seq_ranges(reader, subject.conversation_id, nearest)
    return [
        await _candidate(reader, subject, text, ranges.get(text.summary.summary_id), None)
        for text in await summaries.texts_of(reader, nearest)
    ]


async def _unplaced(reader: Reader, subject: _Subject) -> list[SummaryId]:
    """Summaries made before the subject and not consumed then whose place no message shows, newest first."""
    rows = await reader.rows(
        """SELECT summary_id FROM summaries WHERE conversation_id = ? AND +rowid < ?
        ORDER BY created_at DESC, rowid DESC LIMIT ?""",
        subject.conversation_id,
        subject.row,
        -1 if subject.covers is None else RECENT,
    )
    if reader.schema.has("summary_parents"):
        consumed = await reader.rows_in(
            """SELECT edge.parent_summary_id FROM summary_parents AS edge
            JOIN summaries AS s ON s.summary_id = edge.summary_id
            WHERE s.rowid < ? AND edge.parent_summary_id IN (?*)""",
            [row["summary_id"] for row in rows],
            subject.row,
        )
        gone = {row["parent_summary_id"] for row in consumed}
        rows = [row for row in rows if row["summary_id"] not in gone]
    ids = [SummaryId(row["summary_id"]) for row in rows]
    if subject.covers is None:
        return ids
    linked = [
        row["summary_id"]
        for table in ("summary_messages", "summary_parents")
        if reader.schema.has(table)
        for row in await reader.rows_in(
            f"SELECT DISTINCT summary_id FROM {table} WHERE summary_id IN (?*)", ids
        )
    ]
    return [one for one in ids if one not in linked]


async def _candidate(
    reader: Reader, subject: _Subject, text: SummaryText, covers: SeqRange | None, refused: str | None
) -> Candidate:
    return Candidate(
        text.summary,
        text.content,
        (await broken_among(reader, [text.summary.summary_id])).get(text.summary.summary_id),
        covers.first if covers else None,
        covers.last if covers else None,
        refused
        or _overlap(subject, text.summary, covers)
        or await _taken_out(reader, subject, text.summary.summary_id, covers),
    )


def _overlap(subject: _Subject, summary: Summary, covers: SeqRange | None) -> str | None:
    """Why a summary does not cover only what ends before the subject starts, or None when it does."""
    if subject.covers is not None and covers is not None:
        return None if covers.last < subject.covers.first else "covers messages after the start of this one"
    ends, starts = parse_utc(summary.latest_at), parse_utc(subject.summary.earliest_at)
    if ends is None or starts is None:
        return "whether it covers earlier messages is unknown"
    return None if ends <= starts else "covers messages after the start of this one"


async def _taken_out(
    reader: Reader, subject: _Subject, one: SummaryId, covers: SeqRange | None
) -> str | None:
    """Why a summary had left the context by then, or None.

    What ``/new`` takes out of a context (docs/spec/format.md, "What leaves the context") has neither a
    consumer nor a place there, and the raw messages that were taken out with it are covered by nothing. When
    the subject covers what came after them, it was made later than that.
    """
    if covers is None or subject.covers is None or not reader.schema.has("context_items"):
        return None
    if await summaries.consumers_of(reader, one):
        return None
    held = "SELECT 1 FROM context_items WHERE conversation_id = ? AND summary_id = ? LIMIT 1"
    if await reader.value(held, subject.conversation_id, one):
        return None
    hole = await reader.value(
        f"""SELECT m.seq FROM messages AS m
        WHERE m.conversation_id = ? AND m.seq > ? AND m.seq < ? AND {_NO_EVENT}
        AND m.message_id NOT IN (SELECT message_id FROM summary_messages)
        AND m.message_id NOT IN (
            SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL)
        ORDER BY m.seq LIMIT 1""",
        subject.conversation_id,
        covers.last,
        subject.covers.first,
        subject.conversation_id,
    )
    return None if hole is None else f"had been removed from the context by then, with message {hole} on"
