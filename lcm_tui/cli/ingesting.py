"""Whether the engine keeps up with the host, as ``status`` says it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lcm_core.host.ingestion import Ingestion
from lcm_core.ingest.jsonl import read_moment
from lcm_core.store.host_sessions import OutboxRow
from lcm_core.times import iso_z
from lcm_core.wording import counted

from lcm_tui.cli.answer import Run
from lcm_tui.cli.documents import Document
from lcm_tui.views.blocks import Block, Cell, Column, Note, Table
from lcm_tui.views.ingesting import Ingesting

#: Places that could not be read that people are shown at most.
_PROBLEMS = 5


def document(found: Ingesting) -> Document:
    """The same as JSON."""
    return {
        "compared": len(found.compared),
        "behind": len(found.lagging),
        "items": [_item(one) for one in found.compared],
        "problems": [{"path": str(one.path), "reason": one.reason} for one in found.problems],
        "badLines": [
            {"agent": one.agent, "sessionId": one.session_id, "lines": lines}
            for one, lines in found.bad_lines.items()
        ],
        "checkpoints": found.checkpoints,
    }


def _item(one: Ingestion) -> Document:
    end, last = one.end, one.last_entry
    return {
        "conversationId": one.conversation_id,
        "agent": one.session.agent,
        "sessionKey": one.session.session_key,
        "sessionId": one.session.session_id,
        "hostLastEntryId": None if last is None else last.entry_id,
        "hostLastEntryAt": _iso(None if last is None else last.created_at),
        "engineLastMessageId": None if end is None else end.message_id,
        "engineLastMessageAt": _iso(None if end is None else end.at),
        "lastCommittedTurnAt": _iso(None if end is None else end.committed_at),
        "cursorEntryId": None if end is None else end.frontier,
        "cursorSeq": None if end is None else end.frontier_seq,
        "cursorFound": one.by_cursor,
        "behind": one.behind,
        "behindSince": _iso(one.behind_since),
        "inFlight": one.in_flight,
        "outbox": [_waiting(row) for row in one.outbox],
        "problem": one.problem,
    }


def _waiting(row: OutboxRow) -> Document:
    return {
        "advancementKey": row.key,
        "attempts": row.attempts,
        "lastError": row.last_error,
        "createdAt": _iso(read_moment(row.created_ms)),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_z(moment)


def blocks(run: Run, found: Ingesting) -> list[Block]:
    """What lags behind, and what could not be read."""
    said: list[Block] = []
    if found.lagging:
        said.append(_table(run, found.lagging))
    said += [Note(one.sentence) for one in found.problems[:_PROBLEMS]]
    said += [
        Note(f"{counted(lines, 'line')} of session {one.session_id} cannot be read.")
        for one, lines in list(found.bad_lines.items())[:_PROBLEMS]
    ]
    if found.checkpoints:
        said.append(Note(f"{counted(found.checkpoints, 'checkpoint')} of session files left out."))
    return said


def _table(run: Run, lagging: Sequence[Ingestion]) -> Table:
    columns = (
        Column("Conv.", right=True),
        Column("Session", grows=True),
        Column("Missing", right=True),
        Column("Since"),
        Column("Host's last", spare=2),
        Column("Engine's last", spare=1),
        Column("Waiting turns", right=True),
        Column("Last error", grows=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            None if one.conversation_id is None else str(one.conversation_id),
            one.session.session_key or one.session.session_id,
            one.behind,
            run.time(_iso(one.lags_since())),
            run.time(_iso(None if one.last_entry is None else one.last_entry.created_at)),
            run.time(_iso(None if one.end is None else one.end.at)),
            len(one.outbox),
            next((row.last_error for row in one.outbox if row.last_error), None),
        )
        for one in lagging
    ]
    return Table(columns, rows, title="What the engine has not stored")
