"""What this file's schema can do, by its tables and columns (docs/engine/versions.md, "Features").

The engine stores no version number and an upgraded file differs from a fresh one, so nothing here compares
versions: a reader asks for the columns it wants and gets NULL for those that this file does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_core.errors import DatabaseError

#: (first tag, table, column or None for the table itself), oldest first (docs/engine/versions.md,
#: "Features").
FEATURES: tuple[tuple[str, str, str | None], ...] = (
    ("0.1.2", "summaries", "earliest_at"),
    ("0.1.2", "summaries", "descendant_count"),
    ("0.3.0", "summaries", "descendant_token_count"),
    ("0.3.0", "summaries", "source_message_token_count"),
    ("0.4.0", "conversations", "session_key"),
    ("0.5.0", "conversation_bootstrap_state", None),
    ("0.5.0", "summaries", "model"),
    ("0.6.0", "conversations", "active"),
    ("0.6.0", "conversations", "archived_at"),
    ("0.7.0", "conversation_compaction_telemetry", None),
    ("0.8.1", "lcm_migration_state", None),
    ("0.9.0", "conversation_compaction_maintenance", None),
    ("0.9.0", "messages", "identity_hash"),
    ("0.9.2", "conversation_compaction_telemetry", "last_observed_prompt_token_count"),
    ("0.10.0", "messages", "large_content"),
    ("0.11.0", "focus_briefs", None),
    ("0.12.0", "conversation_compaction_maintenance", "retry_attempts"),
    ("0.13.0", "messages", "transcript_entry_id"),
    ("0.14.0", "conversations", "archive_cause"),
    ("0.14.0", "large_files", "line_count"),
    ("0.15.2", "messages", "openclaw_sender_metadata"),
    ("0.15.2", "messages", "stable_event_key"),
    ("0.15.3+main", "conversation_compaction_maintenance", "maintenance_revision"),
)

#: Tables by which a file of the 1.x line is recognised.
MARKS_OF_1X = frozenset({"message_transcript_anchor_trust", "pending_compaction_batches"})
#: What the 1.x line added to its first beta, oldest first: (versions that leave such a file, table, column).
FEATURES_OF_1X: tuple[tuple[str, str, str | None], ...] = (
    ("1.0.0 or 1.1.0", "messages", "openclaw_sender_metadata"),
    ("1.1.1 or later", "pending_summary_nodes", "active_ordinal_start"),
    ("1.1.1 or later", "pending_summary_nodes", "active_ordinal_end"),
    ("1.1.1 or later, with transcript cursors", "conversation_transcript_cursors", None),
    ("1.1.1 or later, with transcript cursors", "transcript_user_replay_keys", None),
    ("1.1.1 or later, with transcript cursors and gaps", "conversation_transcript_gaps", None),
)
#: What the 0.x line has and a file that the 1.x line made need not have. An upgraded file keeps it.
NOT_IN_1X = frozenset(
    {
        ("conversation_bootstrap_state", None),
        ("messages", "openclaw_sender_metadata"),
        ("conversation_compaction_maintenance", "maintenance_revision"),
    }
)

#: What every version has: a file that lacks some of it is damaged.
BASE: Mapping[str, tuple[str, ...]] = {
    "conversations": ("conversation_id", "session_id", "created_at", "updated_at"),
    "messages": ("message_id", "conversation_id", "seq", "role", "content", "token_count", "created_at"),
    "summaries": (
        *("summary_id", "conversation_id", "kind", "depth", "content", "token_count"),
        *("created_at", "file_ids"),
    ),
    "summary_messages": ("summary_id", "message_id", "ordinal"),
    "summary_parents": ("summary_id", "parent_summary_id", "ordinal"),
    "context_items": ("conversation_id", "ordinal", "item_type", "message_id", "summary_id"),
    "message_parts": (
        *("part_id", "message_id", "session_id", "part_type", "ordinal", "text_content"),
        *("tool_call_id", "tool_name", "tool_input", "tool_output", "metadata"),
    ),
    "large_files": ("file_id", "conversation_id", "storage_uri"),
}

#: The table of ours that holds the journal of changes; a file that was never changed has none.
JOURNAL = "lcm_tui_operations"
#: Without these the file is not an LCM database.
ESSENTIAL: Mapping[str, frozenset[str]] = {
    "conversations": frozenset({"conversation_id", "session_id"}),
    "messages": frozenset({"message_id", "conversation_id", "seq", "role", "content"}),
}


#: Columns that hold numbers, and those that rows are asked for by; all others hold text.
NUMBERS = frozenset(
    {
        "active",
        "byte_size",
        "covered_message_seq",
        "depth",
        "descendant_count",
        "descendant_token_count",
        "fork_bounded",
        "fork_source_message_count",
        "line_count",
        "pending",
        "running",
        "source_message_token_count",
        "target_tokens",
        "token_count",
    }
)
#: Places in a conversation or a context.
PLACES = frozenset({"ordinal", "seq"})
#: Columns of texts that may be long; what another one holds is read up to `LABEL` characters.
BODIES = frozenset(
    {
        *("content", "text_content", "tool_input", "tool_output", "tool_error", "metadata", "file_url"),
        *("exploration_summary", "prompt", "raw_result_json", "openclaw_sender_metadata", "file_ids"),
    }
)
#: No name, role, time or title has more characters, unless somebody means harm: they are shown as a line.
LABEL = 10_000
KEYS = frozenset({"conversation_id", "message_id", "summary_id", "file_id", "brief_id"})


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one file and their columns, by name."""

    tables: Mapping[str, frozenset[str]]

    def has(self, table: str, column: str | None = None) -> bool:
        """Whether this file has the table (and, when named, the column)."""
        columns = self.tables.get(table)
        return columns is not None and (column is None or column in columns)

    def select(self, table: str, columns: Iterable[str], alias: str | None = None) -> str:
        """A select list of *columns*, with NULL in place of those that this file does not have.

        Every value but a key and a place has the type of its column, whatever is stored: SQLite keeps what it
        is given, and `lcm_core.store.typed` sees to the rest.
        """
        return ", ".join(self.typed(table, name, f"{alias or table}.{name}") for name in columns)

    def typed(self, table: str, column: str, expression: str) -> str:
        """*expression*, made of a column, under the column's name and with its type; NULL if it is absent."""
        if not self.has(table, column):
            return f"NULL AS {column}"
        if column in KEYS or column in PLACES:
            return f"{expression} AS {column}"
        if column in NUMBERS:
            return f"CAST({expression} AS INTEGER) AS {column}"
        whole = expression if column in BODIES else f"substr({expression}, 1, {LABEL})"
        return f"CAST({whole} AS TEXT) AS {column}"

    @property
    def is_1x(self) -> bool:
        """Whether an engine of the 1.x line has opened this file."""
        return any(table in self.tables for table in MARKS_OF_1X)

    @property
    def version(self) -> str:
        """The engine versions that leave a schema like this one, for people."""
        if self.is_1x:
            later = [tag for tag, table, column in FEATURES_OF_1X if self.has(table, column)]
            return later[-1] if later else "1.0.0-beta"
        tags = list(dict.fromkeys(tag for tag, _, _ in FEATURES))
        present = {tag for tag, table, column in FEATURES if self.has(table, column)}
        if not present:
            return f"before {tags[0]}"
        newest = max(present, key=tags.index)
        following = tags[tags.index(newest) + 1 :]
        return f"{newest} or later, before {following[0]}" if following else f"{newest} or later"

    @property
    def missing(self) -> tuple[str, ...]:
        """What is absent though it is older than the newest feature present, or as old as the engine.

        A migration was not completed, or the file is damaged.
        """
        gone = [table for table in BASE if not self.has(table)]
        base = [(table, column) for table, columns in BASE.items() if table not in gone for column in columns]
        later = self._up_to_newest(FEATURES)
        if self.is_1x:
            later = [one for one in later if one not in NOT_IN_1X] + self._up_to_newest(FEATURES_OF_1X)
        return (
            *gone,
            *(
                table if column is None else f"{table}.{column}"
                for table, column in dict.fromkeys((*base, *later))
                if table not in gone and not self.has(table, column)
            ),
        )

    def _up_to_newest(
        self, features: tuple[tuple[str, str, str | None], ...]
    ) -> list[tuple[str, str | None]]:
        """*features* up to the newest that this file has."""
        held = [at for at, (_, table, column) in enumerate(features) if self.has(table, column)]
        return [(table, column) for _, table, column in features[: held[-1] + 1]] if held else []


#: Every table with its columns; of a virtual one the name alone, for its module may be missing. One
#: statement, for every start and every commit waits for it; of no table (NULL) there are no columns.
LISTING = """SELECT t.name, c.name FROM sqlite_master AS t LEFT JOIN pragma_table_info(
    CASE WHEN t.sql LIKE 'CREATE VIRTUAL%' THEN NULL ELSE t.name END) AS c
    WHERE t.type = 'table'"""


def listed_schema(listed: Iterable[Sequence[Any]]) -> Schema:
    """The schema of a file: *listed* are the rows of `LISTING`."""
    tables: dict[str, set[str]] = {}
    for table, column in listed:
        columns = tables.setdefault(table, set())
        if column is not None:
            columns.add(column)
    return Schema({table: frozenset(columns) for table, columns in tables.items()})


def check_essential(schema: Schema, name: str) -> None:
    """Refuse a database of another program.

    Raises:
        DatabaseError: a table or column without which nothing can be shown is missing.
    """
    if schema.has("lcm_messages") and schema.has("lcm_summary_nodes") and not schema.has("conversations"):
        raise DatabaseError(
            f"{name} is a database of Remnic, not of lossless-claw: "
            "`lcm-tui remnic list --remnic PATH` shows what is in it.",
            code="DATABASE_IS_REMNIC",
        )
    for table, columns in ESSENTIAL.items():
        if not schema.has(table):
            raise DatabaseError(
                f"{name} is a SQLite database but not an LCM one: it has no table '{table}'. "
                "Give the path of the engine's lcm.db with --db.",
                code="DATABASE_NOT_LCM",
            )
        lacking = sorted(columns - schema.tables[table])
        if lacking:
            raise DatabaseError(
                f"{name} is not an LCM database that can be read: its table '{table}' has no column "
                f"'{lacking[0]}'. Give the path of the engine's lcm.db with --db.",
                code="DATABASE_NOT_LCM",
            )
