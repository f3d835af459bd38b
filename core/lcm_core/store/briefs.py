"""Focus briefs of a conversation, and the active one over its context.

Source: docs/engine/assembly.md, "What is sent".
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from lcm_core.assemble.elements import FocusOverlay, SummaryReach, overlay
from lcm_core.javascript import BLANKS
from lcm_core.records import ConversationId, FocusBrief, Timestamp
from lcm_core.store.connecting import Row, Rows
from lcm_core.store.database import Reader
from lcm_core.store.schema import Schema
from lcm_core.store.typed import typed
from lcm_core.store.walks import read_seq_ranges

COLUMNS = (
    "brief_id",
    "conversation_id",
    "prompt",
    "content",
    "status",
    "token_count",
    "target_tokens",
    "covered_latest_at",
    "covered_message_seq",
    "generator_run_id",
    "generator_session_key",
    "created_at",
    "updated_at",
    "source_context_hash",
    "error",
    "superseded_at",
)


def brief_of(row: Row) -> FocusBrief:
    """A row that holds `COLUMNS` as a record."""
    return FocusBrief(
        brief_id=row["brief_id"],
        conversation_id=ConversationId(row["conversation_id"]),
        prompt=row["prompt"] or "",
        content=row["content"] or "",
        status=row["status"],
        tokens=row["token_count"] or 0,
        target_tokens=row["target_tokens"] or 0,
        covered_latest_at=row["covered_latest_at"],
        covered_message_seq=row["covered_message_seq"],
        generator_run_id=row["generator_run_id"],
        generator_session_key=row["generator_session_key"],
        created_at=row["created_at"] or Timestamp(""),
        updated_at=row["updated_at"] or Timestamp(""),
        source_context_hash=str(row["source_context_hash"] or ""),
        error=None if row["error"] is None else str(row["error"]),
        superseded_at=row["superseded_at"],
    )


async def list_briefs(reader: Reader, conversation_id: ConversationId) -> list[FocusBrief]:
    """All briefs of a conversation, newest first as the engine orders them; none where it has no briefs."""
    if not reader.schema.has("focus_briefs"):
        return []
    rows = await reader.rows(
        f"""SELECT {reader.schema.select("focus_briefs", COLUMNS, "b")} FROM focus_briefs AS b
        WHERE b.conversation_id = ? ORDER BY b.created_at DESC, b.rowid DESC""",
        conversation_id,
    )
    return [brief_of(row) for row in rows]


async def active_brief(reader: Reader, conversation_id: ConversationId) -> FocusBrief | None:
    """The brief that the engine uses: the newest active one that has a text.

    Source: docs/engine/assembly.md, "What is sent".
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
