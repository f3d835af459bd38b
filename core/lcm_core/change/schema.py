"""The present schema as a value, a new database made of it, and what we do not know of a file's schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.values import Record
from lcm_core.change.connection import Writer, creating
from lcm_core.change.place import Verified
from lcm_core.change.plan import CONTEXT, KEYS, Cells, RowChange, row_name
from lcm_core.store.opening import CHUNK, Rows, SqlValue, quoted
from lcm_core.store.schema import Schema

# -- the present schema ----------------------------------------------------------------------------------
# Source: docs/spec/format.md, "The file itself" and "Tables". An old database is compared with it. Nothing
# may depend on the order of columns.

_NOW: Final = "TEXT NOT NULL DEFAULT (datetime('now'))"
_COUNT: Final = "INTEGER NOT NULL DEFAULT 0"
_OWNER: Final = "INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE"
_OWNED: Final = "INTEGER PRIMARY KEY REFERENCES conversations(conversation_id) ON DELETE CASCADE"
_PART_TYPES: Final = (
    "'text', 'reasoning', 'tool', 'patch', 'file', 'subtask', 'compaction', 'step_start', 'step_finish', "
    "'snapshot', 'agent', 'retry'"
)


class Table(Record, frozen=True):
    """A table: its columns with their definitions, and what holds for several of them."""

    name: str
    columns: tuple[tuple[str, str], ...]
    constraints: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """The statement that makes it."""
        lines = [*(f"{name} {definition}" for name, definition in self.columns), *self.constraints]
        return f"CREATE TABLE {self.name} (\n  " + ",\n  ".join(lines) + "\n)"


class Index(Record, frozen=True):
    """An index; *where* makes it partial."""

    name: str
    table: str
    columns: str
    unique: bool = False
    where: str = ""

    @property
    def sql(self) -> str:
        """The statement that makes it."""
        kind = "UNIQUE INDEX" if self.unique else "INDEX"
        where = f" WHERE {self.where}" if self.where else ""
        return f"CREATE {kind} {self.name} ON {self.table} ({self.columns}){where}"


class NewSearchTable(Record, frozen=True):
    """A full-text table, a copy of its own (docs/spec/search.md, "Tables")."""

    name: str
    columns: str
    tokenizer: str

    @property
    def sql(self) -> str:
        """The statement that makes it."""
        return f"CREATE VIRTUAL TABLE {self.name} USING fts5({self.columns}, tokenize='{self.tokenizer}')"


def _table(name: str, columns: str, *constraints: str) -> Table:
    """A table from lines of ``column definition``."""
    pairs = (line.strip().partition(" ") for line in columns.strip().splitlines())
    return Table(name, tuple((column, definition) for column, _, definition in pairs), constraints)


TABLES: Final = (
    _table(
        "conversations",
        f"""conversation_id INTEGER PRIMARY KEY AUTOINCREMENT
        session_id TEXT NOT NULL
        session_key TEXT
        active INTEGER NOT NULL DEFAULT 1
        archived_at TEXT
        archive_cause TEXT
        title TEXT
        bootstrapped_at TEXT
        created_at {_NOW}
        updated_at {_NOW}""",
    ),
    _table(
        "messages",
        f"""message_id INTEGER PRIMARY KEY AUTOINCREMENT
        conversation_id {_OWNER}
        seq INTEGER NOT NULL
        role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool'))
        content TEXT NOT NULL
        token_count INTEGER NOT NULL
        identity_hash TEXT
        openclaw_sender_metadata TEXT
        transcript_entry_id TEXT
        created_at {_NOW}
        large_content TEXT
        stable_event_key TEXT""",
        "UNIQUE (conversation_id, seq)",
    ),
    _table(
        "summaries",
        f"""summary_id TEXT PRIMARY KEY
        conversation_id {_OWNER}
        kind TEXT NOT NULL CHECK (kind IN ('leaf', 'condensed'))
        depth {_COUNT}
        content TEXT NOT NULL
        token_count INTEGER NOT NULL
        earliest_at TEXT
        latest_at TEXT
        descendant_count {_COUNT}
        descendant_token_count {_COUNT}
        source_message_token_count {_COUNT}
        created_at {_NOW}
        file_ids TEXT NOT NULL DEFAULT '[]'
        model TEXT NOT NULL DEFAULT 'unknown'""",
    ),
    _table(
        "message_parts",
        f"""part_id TEXT PRIMARY KEY
        message_id INTEGER NOT NULL REFERENCES messages(message_id) ON DELETE CASCADE
        session_id TEXT NOT NULL
        part_type TEXT NOT NULL CHECK (part_type IN ({_PART_TYPES}))
        ordinal INTEGER NOT NULL
        text_content TEXT
        is_ignored INTEGER
        is_synthetic INTEGER
        tool_call_id TEXT
        tool_name TEXT
        tool_status TEXT
        tool_input TEXT
        tool_output TEXT
        tool_error TEXT
        tool_title TEXT
        patch_hash TEXT
        patch_files TEXT
        file_mime TEXT
        file_name TEXT
        file_url TEXT
        subtask_prompt TEXT
        subtask_desc TEXT
        subtask_agent TEXT
        step_reason TEXT
        step_cost REAL
        step_tokens_in INTEGER
        step_tokens_out INTEGER
        snapshot_hash TEXT
        compaction_auto INTEGER
        metadata TEXT""",
        "UNIQUE (message_id, ordinal)",
    ),
    _table(
        "summary_messages",
        """summary_id TEXT NOT NULL REFERENCES summaries(summary_id) ON DELETE CASCADE
        message_id INTEGER NOT NULL REFERENCES messages(message_id) ON DELETE RESTRICT
        ordinal INTEGER NOT NULL""",
        "PRIMARY KEY (summary_id, message_id)",
    ),
    _table(
        "summary_parents",
        """summary_id TEXT NOT NULL REFERENCES summaries(summary_id) ON DELETE CASCADE
        parent_summary_id TEXT NOT NULL REFERENCES summaries(summary_id) ON DELETE RESTRICT
        ordinal INTEGER NOT NULL""",
        "PRIMARY KEY (summary_id, parent_summary_id)",
    ),
    _table(
        "context_items",
        f"""conversation_id {_OWNER}
        ordinal INTEGER NOT NULL
        item_type TEXT NOT NULL CHECK (item_type IN ('message', 'summary'))
        message_id INTEGER REFERENCES messages(message_id) ON DELETE RESTRICT
        summary_id TEXT REFERENCES summaries(summary_id) ON DELETE RESTRICT
        created_at {_NOW}""",
        "PRIMARY KEY (conversation_id, ordinal)",
        "CHECK ((item_type = 'message' AND message_id IS NOT NULL AND summary_id IS NULL) OR "
        "(item_type = 'summary' AND summary_id IS NOT NULL AND message_id IS NULL))",
    ),
    _table(
        "large_files",
        f"""file_id TEXT PRIMARY KEY
        conversation_id {_OWNER}
        file_name TEXT
        mime_type TEXT
        byte_size INTEGER
        line_count INTEGER
        storage_uri TEXT NOT NULL
        exploration_summary TEXT
        created_at {_NOW}""",
    ),
    _table(
        "conversation_bootstrap_state",
        f"""conversation_id {_OWNED}
        session_file_path TEXT NOT NULL
        last_seen_size INTEGER NOT NULL
        last_seen_mtime_ms INTEGER NOT NULL
        last_processed_offset INTEGER NOT NULL
        last_processed_entry_hash TEXT
        session_header_id TEXT
        last_processed_entry_id TEXT
        fork_bounded {_COUNT}
        fork_source_message_count {_COUNT}
        soft_reset_pruned_at TEXT
        updated_at {_NOW}""",
    ),
    _table(
        "conversation_compaction_telemetry",
        f"""conversation_id {_OWNED}
        last_observed_cache_read INTEGER
        last_observed_cache_write INTEGER
        last_observed_prompt_token_count INTEGER
        last_observed_cache_hit_at TEXT
        last_observed_cache_break_at TEXT
        cache_state TEXT NOT NULL DEFAULT 'unknown' CHECK (cache_state IN ('hot', 'cold', 'unknown'))
        consecutive_cold_observations {_COUNT}
        retention TEXT
        last_leaf_compaction_at TEXT
        turns_since_leaf_compaction {_COUNT}
        tokens_accumulated_since_leaf_compaction {_COUNT}
        last_activity_band TEXT NOT NULL DEFAULT 'low' CHECK (last_activity_band IN ('low', 'medium', 'high'))
        last_api_call_at TEXT
        last_cache_touch_at TEXT
        provider TEXT
        model TEXT
        updated_at {_NOW}""",
    ),
    _table(
        "conversation_compaction_maintenance",
        f"""conversation_id {_OWNED}
        pending {_COUNT}
        requested_at TEXT
        reason TEXT
        running {_COUNT}
        last_started_at TEXT
        last_finished_at TEXT
        last_failure_summary TEXT
        token_budget INTEGER
        current_token_count INTEGER
        projected_token_count INTEGER
        raw_tokens_outside_tail INTEGER
        context_threshold REAL
        context_threshold_source TEXT
        context_fresh_tail_count INTEGER
        context_leaf_chunk_tokens INTEGER
        retry_attempts {_COUNT}
        next_attempt_after TEXT
        resolution_reason TEXT
        resolved_at TEXT
        maintenance_revision {_COUNT}
        updated_at {_NOW}""",
    ),
    _table(
        "focus_briefs",
        f"""brief_id TEXT PRIMARY KEY
        conversation_id {_OWNER}
        session_key TEXT
        prompt TEXT NOT NULL
        content TEXT NOT NULL
        status TEXT NOT NULL CHECK (status IN ('draft', 'active', 'superseded', 'failed', 'inactive'))
        token_count {_COUNT}
        target_tokens {_COUNT}
        covered_latest_at TEXT
        covered_message_seq INTEGER
        source_context_hash TEXT NOT NULL DEFAULT ''
        generator_run_id TEXT
        generator_session_key TEXT
        raw_result_json TEXT
        error TEXT
        created_at {_NOW}
        updated_at {_NOW}
        superseded_at TEXT""",
    ),
    _table(
        "focus_brief_sources",
        f"""brief_id TEXT NOT NULL REFERENCES focus_briefs(brief_id) ON DELETE CASCADE
        summary_id TEXT NOT NULL
        ordinal INTEGER
        role TEXT NOT NULL
        created_at {_NOW}""",
        "PRIMARY KEY (brief_id, summary_id, role)",
    ),
    _table(
        "lcm_migration_state",
        f"""step_name TEXT NOT NULL
        algorithm_version INTEGER NOT NULL
        completed_at {_NOW}""",
        "PRIMARY KEY (step_name, algorithm_version)",
    ),
)

INDEXES: Final = (
    Index("messages_conv_seq_idx", "messages", "conversation_id, seq"),
    Index("messages_conv_identity_hash_idx", "messages", "conversation_id, identity_hash"),
    Index(
        "messages_conv_entry_unique_idx",
        "messages",
        "conversation_id, transcript_entry_id",
        unique=True,
        where="transcript_entry_id IS NOT NULL",
    ),
    Index(
        "messages_stable_event_key_unique",
        "messages",
        "conversation_id, stable_event_key",
        unique=True,
        where="stable_event_key IS NOT NULL",
    ),
    Index("summaries_conv_created_idx", "summaries", "conversation_id, created_at"),
    Index("summaries_conv_depth_kind_idx", "summaries", "conversation_id, depth, kind"),
    Index("summary_messages_message_idx", "summary_messages", "message_id"),
    Index("summary_parents_parent_summary_idx", "summary_parents", "parent_summary_id"),
    Index("message_parts_message_idx", "message_parts", "message_id"),
    Index("message_parts_type_idx", "message_parts", "part_type"),
    Index("context_items_conv_idx", "context_items", "conversation_id, ordinal"),
    Index("large_files_conv_idx", "large_files", "conversation_id, created_at"),
    Index("bootstrap_state_path_idx", "conversation_bootstrap_state", "session_file_path, updated_at"),
    Index("compaction_telemetry_state_idx", "conversation_compaction_telemetry", "cache_state, updated_at"),
    Index("focus_briefs_conversation_status_idx", "focus_briefs", "conversation_id, status, created_at"),
    Index("focus_brief_sources_summary_idx", "focus_brief_sources", "summary_id"),
    Index(
        "conversations_active_session_key_idx",
        "conversations",
        "session_key",
        unique=True,
        where="session_key IS NOT NULL AND active = 1",
    ),
    Index("conversations_session_key_active_created_idx", "conversations", "session_key, active, created_at"),
    Index("conversations_session_id_active_created_idx", "conversations", "session_id, active, created_at"),
)

SEARCH_TABLES: Final = (
    NewSearchTable("messages_fts", "content", "porter unicode61"),
    NewSearchTable("summaries_fts", "summary_id UNINDEXED, content", "porter unicode61"),
    NewSearchTable("summaries_fts_cjk", "summary_id UNINDEXED, content", "trigram"),
)

#: Backfills of the engine, with the version of each that the present rows follow.
MIGRATION_STEPS: Final = (
    ("backfillSummaryDepths", 1),
    ("backfillSummaryMetadata", 1),
    ("backfillToolCallColumns", 1),
    ("repairOpenClawMetadataIdentityState", 2),
)

#: An index of 0.4 and 0.5 that forbade an archived conversation to share its key (docs/spec/format.md,
#: "conversations").
OBSOLETE_INDEXES: Final = ("conversations_session_key_idx",)


# -- a new database -------------------------------------------------------------------------------------


def create_database(path: Path) -> None:
    """Make an empty database of the present schema; blocks. Raises what `creating` does."""
    with creating(path) as writer:
        for statement in (*TABLES, *INDEXES):
            writer.execute(statement.sql)
        add_search_tables(writer, frozenset())
        for step, version in MIGRATION_STEPS:
            writer.execute(
                "INSERT INTO lcm_migration_state (step_name, algorithm_version) VALUES (?, ?)",
                (step, version),
            )


def add_search_tables(writer: Writer, present: frozenset[str]) -> tuple[str, ...]:
    """Make those search tables that are not *present* and that this SQLite can; which were made.

    Full-text search is optional: an engine without it looks with LIKE (docs/spec/search.md, "Tables").
    """
    made = []
    for table in SEARCH_TABLES:
        if table.name in present:
            continue
        try:
            writer.execute("SAVEPOINT search_table")
            writer.execute(table.sql)
        except sqlite3.OperationalError:
            writer.execute("ROLLBACK TO search_table")
        else:
            made.append(table.name)
        writer.execute("RELEASE search_table")
    return tuple(made)


# -- unknown parts of a schema ---------------------------------------------------------------------------
# What we do not know of a file's schema, and whether it refers to a row that a change touches.
#
# A newer engine, or another tool, may keep something beside the rows that we change and rely on it. Such a
# file is changed like any other, except where a table or column that we do not know refers to a row that
# the change alters or deletes. Source: docs/spec/prepared.md, "Schemas that we do not know".

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
#: Tables that no engine makes, and the search tables with their shadows.
_BESIDE: Final = ("lcm_tui_", "sqlite_", *(table.name for table in SEARCH_TABLES))
#: The column that names a row, and the first table that has it as its whole key.
_KEY_COLUMNS: Final[Mapping[str, str]] = {
    key[0]: table for table, key in reversed(list(KEYS.items())) if len(key) == 1
}

_allowed: ContextVar[bool] = ContextVar("unknown schemas may be written", default=False)


def allow_unknown_schema(allowed: bool) -> None:
    """The operator's word, for everything that this context starts from here on."""
    _allowed.set(allowed)


def unknown_parts(schema: Schema) -> tuple[str, ...]:
    """Columns (``table.column``) that no known engine makes, and tables with a key's column, by name."""
    found = []
    for table, columns in _unknown(schema):
        if table in _KNOWN:
            found += [f"{table}.{column}" for column in columns]
        elif any(_key_named(column) for column in columns):
            found.append(table)
    return tuple(found)


def _unknown(schema: Schema) -> Iterator[tuple[str, list[str]]]:
    """Tables with the columns in them that we do not know, by name; of an unknown table all of them."""
    for table, columns in sorted(schema.tables.items()):
        unknown = sorted(columns - _KNOWN.get(table, frozenset()))
        if unknown and not table.startswith(_BESIDE):
            yield table, unknown


class _Reference(Record, frozen=True):
    """Columns that we do not know, whose values name a row of a table that we know."""

    table: str
    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The table and the columns, for people."""
        return f"{self.table}.{', '.join(self.columns)}"


def check_unknown(db: Rows, schema: Schema, verified: Verified) -> None:
    """Refuse a change of rows to which something refers that we do not know.

    Raises:
        RefusedError: there is such a row, and the operator did not allow to change it.
    """
    unknown = () if _allowed.get() else tuple(_unknown(schema))
    for table, columns in unknown:
        for reference in _references(db, schema, table, columns):
            rows = _altered(db, verified, reference)
            if (values := _first_referred(db, reference, rows)) is not None:
                change, key = rows[values]
                raise RefusedError(
                    f"This change {change} {row_name(reference.target, key)}, and {reference.name}, which "
                    "lcm-tui does not know, refers to that row: a newer engine or another tool may rely on "
                    "it. To change it anyway, make a backup and give --allow-unknown-schema (or set "
                    "write_unknown_schema = true in config.toml). Nothing was changed.",
                    code="SCHEMA_UNKNOWN",
                    details={"unknown": reference.name},
                )


def _references(db: Rows, schema: Schema, table: str, columns: list[str]) -> Iterator[_Reference]:
    """What the unknown *columns* of a table refer to: as declared, else by the names of keys."""
    declared: dict[int, list[tuple[str, str, str | None]]] = {}
    sql = f'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list({_literal(table)}) ORDER BY id, seq'
    for number, column, target, target_column in db.tuples(sql):
        declared.setdefault(number, []).append((column, target, target_column))
    names = {known.casefold(): known for known in _KNOWN if schema.has(known)}
    for pairs in declared.values():
        target = names.get(pairs[0][1].casefold())
        if target is not None and any(column in columns for column, _, _ in pairs):
            targets = [column for _, _, column in pairs]
            whole = KEYS.get(target, ()) if None in targets else tuple(one for one in targets if one)
            yield _Reference(table, tuple(column for column, _, _ in pairs), target, whole)
    for column in columns:
        key = _key_named(column)
        if key is not None and schema.has(_KEY_COLUMNS[key], key):
            yield _Reference(table, (column,), _KEY_COLUMNS[key], (key,))
        elif "ordinal" in column.casefold().split("_") and schema.has(table, "conversation_id"):
            yield _Reference(table, ("conversation_id", column), CONTEXT, ("conversation_id", "ordinal"))


def _key_named(column: str) -> str | None:
    """The key that a column is named after: ``message_id``, also as ``source_message_id``."""
    name = column.casefold()
    return next((key for key in _KEY_COLUMNS if name == key or name.endswith(f"_{key}")), None)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


#: What becomes of each row that a plan alters or deletes, and its key, by the values that refer to it.
_Altered = dict[tuple[SqlValue, ...], tuple[str, Cells]]


def _altered(db: Rows, verified: Verified, reference: _Reference) -> _Altered:
    found: _Altered = {}
    for edit in verified.edits:
        if isinstance(edit, RowChange) and edit.table == reference.target and edit.before is not None:
            values = _values(db, edit, reference.target_columns)
            found[values] = ("deletes" if edit.after is None else "alters", edit.key)
    if reference.target == CONTEXT and set(reference.target_columns) == set(KEYS[CONTEXT]):
        found |= _altered_places(verified, reference.target_columns)
    return found


def _values(db: Rows, edit: RowChange, columns: tuple[str, ...]) -> tuple[SqlValue, ...]:
    """The values of a row's *columns* as they are before the change."""
    held = {**edit.key.as_dict(), **(edit.before.as_dict() if edit.before else {})}
    if any(column not in held for column in columns):
        keys = " AND ".join(f"{quoted(name)} IS ?" for name in edit.key.columns)
        sql = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(edit.table)} WHERE {keys}"
        rows = db.tuples(sql, [_plain(value) for value in edit.key.cells])
        held |= dict(zip(columns, rows[0], strict=True)) if rows else {}
    return tuple(_plain(held.get(column)) for column in columns)


def _plain(value: object) -> SqlValue:
    return value if isinstance(value, int | float | str | bytes) else None


def _altered_places(verified: Verified, columns: tuple[str, ...]) -> _Altered:
    """The places of contexts at which something else is afterwards, or nothing."""
    found: _Altered = {}
    for owner, change in verified.contexts.items():
        after = dict(zip(change.after.ordinals, change.after.rows, strict=True))
        for ordinal, row in zip(change.before.ordinals, change.before.rows, strict=True):
            if isinstance(owner, int) and (ordinal not in after or after[ordinal] != row):
                place: dict[str, SqlValue] = {"conversation_id": owner, "ordinal": ordinal}
                values = tuple(place[column] for column in columns)
                found[values] = ("moves or removes", Cells.of(dict(place)))
    return found


def _first_referred(
    db: Rows, reference: _Reference, rows: Iterable[tuple[SqlValue, ...]]
) -> tuple[SqlValue, ...] | None:
    """The first of the values of *rows* that the table of the reference holds."""
    wanted = {values for values in rows if None not in values}
    first = {values[0] for values in wanted}
    if not wanted:
        return None
    sql = f"SELECT DISTINCT {', '.join(map(quoted, reference.columns))} FROM {quoted(reference.table)}"
    where = f" WHERE {quoted(reference.columns[0])} IN (?*)"
    # So many keys are looked for among what the table holds, not one chunk of them after the other.
    held = db.rows_in(sql + where, first) if len(first) <= CHUNK else db.rows(sql)
    return next((tuple(row) for row in held if tuple(row) in wanted), None)
