"""The rows that Remnic is to have for what the source holds: pure (docs/remnic.md, "Turns" and "Nodes")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from lcm_core.change.codec import encode_cell
from lcm_core.change.plan import Cells
from lcm_core.dag.markers import classify
from lcm_core.remnic.lineage import Placed
from lcm_core.remnic.payloads import OURS, Json, parsed_object, payload_of, written
from lcm_core.remnic.records import Origin
from lcm_core.remnic.source import (
    Link,
    MessageKey,
    Outline,
    SourceConversation,
    SourceMessage,
    SourceSummary,
    Stored,
)
from lcm_core.store.connecting import SqlValue
from lcm_core.store.typed import number, text

SOURCE: Final = "lossless-claw"
#: Level of a text that no model wrote: the deterministic cut.
CUT: Final = 2
_RECORD_VERSION: Final = 1
#: Columns of a message that a turn has.
_TURN: Final = frozenset({"conversation_id", "seq", "role", "content", "token_count", "created_at"})
#: Columns of a summary that every record of it has in another place.
_NODE: Final = frozenset({"summary_id", "conversation_id"})


def origin_of(key: MessageKey) -> Origin:
    """Which message it is, for Remnic."""
    return Origin(str(key.conversation_id), key.seq)


def turn_of(message: SourceMessage, conversation: SourceConversation) -> Cells:
    """A turn but for its session and place."""
    row = message.row
    return Cells.of(
        {
            "role": text(row["role"]) or "",
            "content": text(row["content"]) or "",
            "token_count": number(row.get("token_count")) or 0,
            "created_at": text(row.get("created_at")) or "",
            "metadata": written(metadata_of(row, conversation)),
        }
    )


def metadata_of(row: Stored, conversation: SourceConversation) -> dict[str, Json]:
    """What a turn says about its message: what Remnic's importer writes, and what it has no place for."""
    ours: dict[str, Json] = {
        name: _json(value) for name, value in sorted(row.items()) if value is not None and name not in _TURN
    }
    return {
        "conversation_id": conversation.conversation_id,
        "identity_hash": _text(row.get("identity_hash")),
        "source": SOURCE,
        "source_seq": number(row["seq"]) or 0,
        "title": _text(conversation.row.get("title")),
        OURS: ours,
    }


def parts_of(message: SourceMessage) -> dict[int, Cells]:
    """The parts of a turn by ordinal, but for the turn's id."""
    role = text(message.row["role"]) or ""
    created = text(message.row.get("created_at")) or ""
    found: dict[int, Cells] = {}
    for place, part in enumerate(message.parts):
        ordinal = number(part.get("ordinal"))
        kind, payload, tool, path = payload_of(part, role)
        found.setdefault(
            place if ordinal is None else ordinal,
            Cells.of(
                {
                    "kind": kind,
                    "payload": written(payload),
                    "tool_name": tool,
                    "file_path": path,
                    "created_at": created,
                }
            ),
        )
    return found


def node_of(placed: Placed, session: str, content: SqlValue) -> Cells:
    """A node but for its id."""
    row, said = placed.summary.row, text(content) or ""
    made = row.get("latest_at") or row.get("earliest_at") or row.get("created_at")
    return Cells.of(
        {
            "session_id": session,
            "depth": placed.summary.depth,
            "parent_id": placed.parent,
            "summary_text": said,
            "token_count": number(row.get("token_count")) or 0,
            "msg_start": placed.start,
            "msg_end": placed.end,
            "escalation": CUT if classify(said, text(row.get("model"))) else 0,
            "created_at": text(made) or "",
        }
    )


def record_key(session: str, conversation_id: int | str) -> str:
    """The key under which Remnic's table of settings has what it has no column for."""
    return f"lcm-tui:conversation:{conversation_id}:{session}"


def gone_summaries(stored: SqlValue, known: Collection[str]) -> list[str]:
    """The summaries of a stored record that are not among those of the source any more."""
    held = parsed_object(stored)
    summaries, gone = held.get("summaries"), held.get("gone")
    earlier = {*(summaries if isinstance(summaries, dict) else ()), *(gone if isinstance(gone, list) else ())}
    return sorted(one for one in earlier if isinstance(one, str) and one not in known)


def record_of(conversation: SourceConversation, outline: Outline, gone: Sequence[str] = ()) -> str:
    """A conversation's columns, its summaries' columns and links, and its context, as JSON."""
    owner = conversation.conversation_id
    mine = [one for one in outline.summaries if one.conversation_id == owner]
    links, edges = _by_summary(outline.links), _by_summary(outline.edges)
    summaries: dict[str, Json] = {
        one.summary_id: _summary(one, links.get(one.summary_id, []), edges.get(one.summary_id, []))
        for one in mine
    }
    context: list[Json] = [
        _columns(row, frozenset({"conversation_id"}))
        for row in outline.context
        if row["conversation_id"] == owner
    ]
    record: dict[str, Json] = {
        "version": _RECORD_VERSION,
        "conversation": _columns(conversation.row, frozenset()),
        "summaries": summaries,
        "context": context,
        **({"gone": list(gone)} if gone else {}),
    }
    return written(record)


def _summary(summary: SourceSummary, links: list[Link], edges: list[Link]) -> Json:
    return {
        "row": _columns(summary.row, _NODE),
        "messages": [[_json(link.target), link.ordinal] for link in links],
        "sources": [[_json(link.target), link.ordinal] for link in edges],
    }


def _by_summary(links: Iterable[Link]) -> dict[str, list[Link]]:
    found: dict[str, list[Link]] = {}
    for link in links:
        found.setdefault(link.summary_id, []).append(link)
    return found


def _columns(row: Stored, but: frozenset[str]) -> dict[str, Json]:
    return {
        name: _json(value) for name, value in sorted(row.items()) if name not in but and value is not None
    }


def _json(value: SqlValue) -> Json:
    cell = encode_cell(value)
    return dict(cell) if isinstance(cell, dict) else cell if not isinstance(cell, list) else list(cell)


def _text(value: SqlValue) -> str | None:
    found = text(value)
    return None if found is None else found.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
