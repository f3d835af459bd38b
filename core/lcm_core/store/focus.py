"""Focus briefs: those of a conversation, the active one over its context, and whether one is stale."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import tzinfo
from operator import itemgetter
from typing import Final

from lcm_core.base.records import ConversationId, FocusBrief, SummaryId, Timestamp
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, replace
from lcm_core.engine.graph import (
    NOTHING_COVERED,
    BriefState,
    FocusInput,
    FocusSource,
    Watermark,
    context_hash,
    hash_differs,
)
from lcm_core.engine.wrapper import FocusOverlay, SummaryReach, overlay
from lcm_core.store.conversations import moment
from lcm_core.store.database import Reader
from lcm_core.store.opening import Rows
from lcm_core.store.rows import StoredRow, records, rows_by
from lcm_core.store.schema import Columns, Schema, number, typed
from lcm_core.store.summaries import read_seq_ranges

# -- the briefs ------------------------------------------------------------------------------------------
# Source: docs/spec/assembly.md, "What is sent".

_BRIEFS: Final = Columns("focus_briefs", FocusBrief, tokens="token_count")


async def list_briefs(reader: Reader, conversation_id: ConversationId) -> list[FocusBrief]:
    """All briefs of a conversation, newest first as the engine orders them; none where it has no briefs."""
    clause = "WHERE t.conversation_id = ? ORDER BY t.created_at DESC, t.rowid DESC"
    return await records(reader, _BRIEFS, clause, conversation_id)


async def active_brief(reader: Reader, conversation_id: ConversationId) -> FocusBrief | None:
    """The brief that the engine uses: the newest active one that has a text.

    Source: docs/spec/assembly.md, "What is sent".
    """
    return active_in(await list_briefs(reader, conversation_id))


def active_in(briefs: Iterable[FocusBrief]) -> FocusBrief | None:
    """The one of some briefs, newest first, that the engine uses."""
    return next((one for one in briefs if one.status == "active" and one.content.strip(BLANKS)), None)


async def focus_overlay(
    reader: Reader, conversation_id: ConversationId, zone: tzinfo | None
) -> FocusOverlay | None:
    """What the active brief does to the context of a conversation; None without one, or if it covers nothing.

    Only a conversation with an active brief pays for the walk from its context down to the messages.
    """
    brief = await active_brief(reader, conversation_id)
    return None if brief is None else await overlay_of(reader, brief, zone)


async def overlay_of(reader: Reader, brief: FocusBrief, zone: tzinfo | None) -> FocusOverlay | None:
    """What a brief does to the context of its conversation, or would do if it were active; None: nothing."""
    return overlay(brief, await context_reaches(reader, brief.conversation_id), zone)


async def context_reaches(reader: Reader, conversation_id: ConversationId) -> list[SummaryReach]:
    """The summaries of a context and how far each reaches."""
    return await reader.run(read_reaches, reader.schema, conversation_id)


def read_reaches(db: Rows, schema: Schema, conversation_id: ConversationId) -> list[SummaryReach]:
    """The same as a load."""
    if not (schema.has("context_items") and schema.has("summaries")):
        return []
    found = typed(
        db.rows(
            f"""SELECT {schema.select("summaries", ("summary_id", "latest_at"), "s")}, item.ordinal
            FROM context_items AS item CROSS JOIN summaries AS s ON s.summary_id = item.summary_id
            WHERE item.conversation_id = ? ORDER BY item.ordinal""",
            (conversation_id,),
        )
    )
    ranges = read_seq_ranges(db, schema, conversation_id, dict.fromkeys(row[0] for row in found))
    return [
        SummaryReach(summary_id, ordinal, ranges[summary_id].last if summary_id in ranges else None, latest)
        for summary_id, latest, ordinal in found
    ]


# -- what a brief is made from ---------------------------------------------------------------------------
# Source: docs/spec/focus.md.

BRIEFS = "focus_briefs"
SOURCES = "focus_brief_sources"


def has_briefs(reader: Reader) -> bool:
    """Whether the engine of this file knows focus briefs (0.11.0 on)."""
    return reader.schema.has(BRIEFS) and reader.schema.has(SOURCES)


async def focus_input(reader: Reader, conversation_id: ConversationId) -> FocusInput:
    """The summaries of a context as a brief is made from them, and how far they reach."""
    found = await context_sources(reader, conversation_id)
    ids = list(dict.fromkeys(one.summary_id for one in found))
    own = await _own_last_seqs(reader, ids)
    sources = tuple(replace(one, own_last_seq=own.get(one.summary_id)) for one in found)
    return FocusInput(sources, await _watermark(reader, ids))


async def context_sources(reader: Reader, conversation_id: ConversationId) -> tuple[FocusSource, ...]:
    """The summaries of a context, in order, without the messages that they were made from."""
    return await reader.run(read_sources, reader.schema, conversation_id)


def read_sources(db: Rows, schema: Schema, conversation_id: ConversationId) -> tuple[FocusSource, ...]:
    """The same as a load."""
    if not (schema.has("context_items") and schema.has("summaries")):
        return ()
    columns = ("summary_id", "kind", "depth", "token_count", "latest_at", "created_at")
    found = typed(
        db.rows(
            f"""SELECT item.ordinal, {schema.select("summaries", columns, "s")}
            FROM context_items AS item CROSS JOIN summaries AS s ON s.summary_id = item.summary_id
            WHERE item.conversation_id = ? ORDER BY item.ordinal""",
            (conversation_id,),
        )
    )
    return tuple(
        FocusSource(ordinal, one, kind or "", depth or 0, tokens or 0, latest, made or Timestamp(""), None)
        for ordinal, one, kind, depth, tokens, latest, made in found
    )


async def _own_last_seqs(reader: Reader, ids: Iterable[SummaryId]) -> dict[SummaryId, int]:
    if not reader.schema.has("summary_messages"):
        return {}
    rows = await reader.rows_in(
        """SELECT link.summary_id, max(m.seq) AS seq FROM summary_messages AS link
        CROSS JOIN messages AS m ON m.message_id = link.message_id
        WHERE link.summary_id IN (?*) GROUP BY link.summary_id""",
        ids,
    )
    return {SummaryId(row["summary_id"]): row["seq"] for row in rows if isinstance(row["seq"], int)}


async def _watermark(reader: Reader, ids: Iterable[SummaryId]) -> Watermark:
    """The latest time, as text, and the newest message of some summaries and all below them."""
    if not all(reader.schema.has(table) for table in ("summaries", "summary_parents", "summary_messages")):
        return NOTHING_COVERED
    rows = await reader.rows_in(
        """WITH RECURSIVE below(id) AS (
            SELECT summary_id FROM summaries WHERE summary_id IN (?*)
            UNION SELECT edge.parent_summary_id
            FROM below CROSS JOIN summary_parents AS edge ON edge.summary_id = below.id)
        SELECT max(coalesce(CAST(s.latest_at AS TEXT), CAST(m.created_at AS TEXT))) AS latest_at,
            max(m.seq) AS seq
        FROM below JOIN summaries AS s ON s.summary_id = below.id
        LEFT JOIN summary_messages AS link ON link.summary_id = s.summary_id
        LEFT JOIN messages AS m ON m.message_id = link.message_id""",
        ids,
    )
    times = [row["latest_at"] for row in rows if row["latest_at"]]
    seqs = [seq for row in rows if (seq := number(row["seq"])) is not None]
    return Watermark(Timestamp(max(times)) if times else None, max(seqs, default=None))


async def stored_briefs(reader: Reader, conversation_id: ConversationId) -> list[StoredRow]:
    """The whole rows of a conversation's briefs, as they are stored, in the order in which they were made."""
    return await rows_by(reader, BRIEFS, "conversation_id", [conversation_id])


async def brief_sources(reader: Reader, brief_id: str) -> list[StoredRow]:
    """The whole rows that say what a brief was made from."""
    return await rows_by(reader, SOURCES, "brief_id", [brief_id])


def read_role_counts(db: Rows, schema: Schema, conversation_id: ConversationId) -> dict[str, dict[str, int]]:
    """By brief and role, how many summaries are recorded as its sources; a load."""
    if not (schema.has(BRIEFS) and schema.has(SOURCES)):
        return {}
    found: dict[str, dict[str, int]] = {}
    for row in typed(
        db.rows(
            f"""SELECT s.brief_id, CAST(s.role AS TEXT) AS role, count(*) AS number
            FROM {BRIEFS} AS b JOIN {SOURCES} AS s ON s.brief_id = b.brief_id
            WHERE b.conversation_id = ? GROUP BY s.brief_id, s.role ORDER BY s.role""",
            (conversation_id,),
        )
    ):
        found.setdefault(row["brief_id"], {})[row["role"]] = row["number"]
    return found


# -- what came since -------------------------------------------------------------------------------------


def read_states(
    db: Rows,
    schema: Schema,
    conversation_id: ConversationId,
    briefs: Sequence[FocusBrief],
    present: Iterable[FocusSource],
    *,
    with_tokens: bool,
) -> Mapping[str, BriefState]:
    """What came since each of some briefs of a conversation, by id; *present*: the summaries of its context.

    A load. *with_tokens* reads the counts of every newer message, which takes its time in a large file.
    """
    if not briefs:
        return {}
    cut = _truncated(db, schema, [one.brief_id for one in briefs])
    digest, dated = context_hash(present), _Dated.read(db, schema, conversation_id)
    found: dict[str, BriefState] = {}
    for one in briefs:
        messages, tokens = _messages_since(db, one, with_tokens)
        since, reaches = (
            (one.covered_latest_at, dated.reaches) if one.covered_latest_at else (one.created_at, dated.made)
        )
        limit = _moment_of(db, since)
        newer = len(reaches) - bisect_right(reaches, limit, key=itemgetter(0))
        tokens += sum(count for _, count in reaches[len(reaches) - newer :]) if with_tokens else 0
        found[one.brief_id] = BriefState(
            messages,
            newer,
            tokens if with_tokens else None,
            hash_differs(one.source_context_hash, digest),
            one.brief_id in cut,
        )
    return found


async def state_of(reader: Reader, brief: FocusBrief) -> BriefState:
    """What came since one brief, with its tokens."""

    def load(db: Rows) -> BriefState:
        present = read_sources(db, reader.schema, brief.conversation_id)
        states = read_states(db, reader.schema, brief.conversation_id, [brief], present, with_tokens=True)
        return states[brief.brief_id]

    return await reader.run(load)


class _Dated(Record, frozen=True):
    """The summaries of a conversation by time, in days, each with its tokens; the earliest first."""

    reaches: Sequence[tuple[float, int]]  #: by what they reach to, else by when they were made
    made: Sequence[tuple[float, int]]

    @classmethod
    def read(cls, db: Rows, schema: Schema, conversation_id: ConversationId) -> _Dated:
        if not schema.has("summaries", "latest_at"):
            return cls((), ())
        rows = db.tuples(
            f"""SELECT {moment("reach")}, {moment("created_at")}, CAST(token_count AS INTEGER)
            FROM (SELECT coalesce(latest_at, created_at) AS reach, created_at, token_count
            FROM summaries WHERE conversation_id = ?)""",
            (conversation_id,),
        )
        return cls(
            sorted((row[0], row[2] or 0) for row in rows), sorted((row[1], row[2] or 0) for row in rows)
        )


def _moment_of(db: Rows, stored: str) -> float:
    """A stored time in days, as the times of summaries are; 0 for none."""
    found = db.tuples(f"SELECT {moment('stored')} FROM (SELECT ? AS stored)", (stored,))
    return float(found[0][0])


def _messages_since(db: Rows, brief: FocusBrief, with_tokens: bool) -> tuple[int, int]:
    """The messages behind those that a brief covers, and their tokens; none where that is not known."""
    if brief.covered_message_seq is None:
        return 0, 0
    [(messages, tokens)] = db.tuples(
        f"""SELECT count(*), CAST({"total(token_count)" if with_tokens else "0"} AS INTEGER)
        FROM messages WHERE conversation_id = ? AND seq > ?""",
        (brief.conversation_id, brief.covered_message_seq),
    )
    return messages, tokens


def _truncated(db: Rows, schema: Schema, ids: Iterable[str]) -> frozenset[str]:
    """Those of some briefs whose writer said that something was left out."""
    if not schema.has(BRIEFS, "raw_result_json"):
        return frozenset()
    rows = typed(
        db.rows_in(
            f"""SELECT brief_id, CAST(raw_result_json AS TEXT) AS raw FROM {BRIEFS}
            WHERE brief_id IN (?*) AND instr(raw_result_json, 'truncated') > 0""",
            ids,
        )
    )
    return frozenset(row["brief_id"] for row in rows if _says_truncated(row["raw"]))


def _says_truncated(raw: str) -> bool:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("truncated") is True


async def briefs_beginning(
    reader: Reader, prefix: str, limit: int, within: Collection[ConversationId] | None = None
) -> list[tuple[str, ConversationId]]:
    """At most *limit* briefs whose ids begin with *prefix*, in order, each with its conversation.

    *within*: only those of these conversations. Bytes that are no UTF-8 are counted otherwise by SQLite: an
    id that holds some is found as a whole.
    """
    if not has_briefs(reader):
        return []
    rows = await reader.rows(
        f"""SELECT brief_id, conversation_id FROM {BRIEFS}
        WHERE (substr(brief_id, 1, ?) = ? OR brief_id = ?) {of_these(within)} ORDER BY brief_id LIMIT ?""",
        len(prefix),
        prefix,
        prefix,
        limit,
    )
    return [(row["brief_id"], ConversationId(row["conversation_id"])) for row in rows]


def of_these(within: Collection[ConversationId] | None) -> str:
    """A condition for the rows of some conversations; None: of all."""
    return "" if within is None else f"AND conversation_id IN ({', '.join(str(int(one)) for one in within)})"
