"""Whether a file's schema is one that we know: what we do not know is written only when the operator says so.

A newer engine may keep something beside the rows that we change and rely on it. So a file with columns or
tables of the engine that no known version makes is read like any other and written by nobody of ours, until
the operator allows it. Source: docs/engine/prepared.md, "Schemas that we do not know".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from lcm_core.change.schema_new import SEARCH_TABLES, TABLES
from lcm_core.errors import RefusedError
from lcm_core.store.schema import Schema

#: What the 1.x line adds, as far as it could be seen.
_LATER: Final[Mapping[str, str]] = {
    "conversation_transcript_cursors": """conversation_id created_at cursor frontier_entry_id frontier_seq
        mode origin updated_at""",
    "conversation_transcript_gaps": """conversation_id detected_at entry_count first_entry_id
        first_visible_seq gap_id last_entry_id last_visible_seq next_message_id prev_message_id source""",
    "conversation_transcript_epochs": """conversation_id created_at frontier_created_at frontier_entry_id
        frontier_seq metadata_json migration_mode session_id session_key updated_at""",
    "message_transcript_anchor_trust": """conversation_id created_at message_id reason source
        transcript_entry_id trust_state updated_at verified_at""",
    "pending_compaction_batches": """batch_id compactable_end_ordinal compactable_start_ordinal
        conversation_id created_at failure_summary model planned_fresh_tail_start_ordinal prompt_version
        published_at session_key session_target_json source_projection_fingerprint status updated_at""",
    "pending_summary_node_children": "child_node_id child_summary_id node_id ordinal",
    "pending_summary_node_messages": "identity_hash message_id node_id ordinal transcript_entry_id",
    "pending_summary_nodes": """active_ordinal_end active_ordinal_start batch_id
        canonical_summary_id content conversation_id created_at depth
        failure_summary kind lease_expires_at lease_owner model next_attempt_after node_id ordinal_end
        ordinal_start promoted_at prompt_version ready_at retry_count source_context_hash source_fingerprint
        status token_count updated_at""",
    "transcript_user_replay_keys": """conversation_id entry_signature idempotency_key transcript_entry_id
        updated_at""",
    "turn_advancements": """admission_entry_id advancement_key committed_at message_count payload_hash
        session_id session_key terminal_entry_id""",
}
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    **{table.name: frozenset(name for name, _ in table.columns) for table in TABLES},
    **{table: frozenset(columns.split()) for table, columns in _LATER.items()},
}
#: Columns by which a table belongs to what we change.
_OURS: Final = frozenset({"conversation_id", "message_id", "summary_id"})
#: Tables that no engine makes, and the search tables with their shadows.
_BESIDE: Final = ("lcm_tui_", "sqlite_", *(table.name for table in SEARCH_TABLES))

_allowed: ContextVar[bool] = ContextVar("unknown schemas may be written", default=False)


def allow_unknown_schema(allowed: bool) -> None:
    """The operator's word, for everything that this context starts from here on."""
    _allowed.set(allowed)


@contextmanager
def unknown_schema_allowed() -> Iterator[None]:
    """The operator's word, for a while."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def unknown_parts(schema: Schema) -> tuple[str, ...]:
    """Columns (``table.column``) and tables of the engine that no known version makes, by name."""
    found = []
    for table, columns in sorted(schema.tables.items()):
        known = _KNOWN.get(table)
        if known is not None:
            found += [f"{table}.{column}" for column in sorted(columns - known)]
        elif columns & _OURS and not table.startswith(_BESIDE):
            found.append(table)
    return tuple(found)


def check_known(schema: Schema) -> None:
    """Refuse to change a file of an engine that we do not know.

    Raises:
        RefusedError: there are unknown parts, and the operator did not allow to write beside them.
    """
    if not _allowed.get() and (parts := unknown_parts(schema)):
        named = ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
        raise RefusedError(
            f"This file was written by an engine that lcm-tui does not know: {named}. It is opened "
            "read-only, because the effect of a change is unknown. To change it anyway, make a backup and "
            "set write_unknown_schema = true in config.toml. Nothing was changed.",
            code="SCHEMA_UNKNOWN",
            details={"unknown": ", ".join(parts)},
        )
