"""Remnic's tables of schema 2, and how a file is known to hold them (docs/remnic.md, "Tables")."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lcm_core.errors import DatabaseError, RefusedError
from lcm_core.store.connecting import Rows

#: The schema that is written.
VERSION: Final = "2"
META: Final = "lcm_meta"
TURNS: Final = "lcm_messages"
PARTS: Final = "lcm_message_parts"
NODES: Final = "lcm_summary_nodes"
EVENTS: Final = "lcm_compaction_events"
TURNS_SEARCH: Final = "lcm_messages_fts"
NODES_SEARCH: Final = "lcm_summaries_fts"

#: The column that names a row, by table.
KEYS: Final = {META: "key", TURNS: "id", PARTS: "id", NODES: "id", EVENTS: "id"}
#: The search table of a table, and the column of text that both have.
SEARCH: Final = {TURNS: (TURNS_SEARCH, "content"), NODES: (NODES_SEARCH, "summary_text")}

#: The tables that an import writes.
WRITTEN: Final = (*KEYS, *(search for search, _ in SEARCH.values()))

TURN_COLUMNS: Final = ("role", "content", "token_count", "created_at", "metadata")
PART_COLUMNS: Final = ("kind", "payload", "tool_name", "file_path", "created_at")
NODE_COLUMNS: Final = (
    "session_id",
    "depth",
    "parent_id",
    "summary_text",
    "token_count",
    "msg_start",
    "msg_end",
    "escalation",
    "created_at",
)
_NEEDED: Final = {
    TURNS: ("id", "session_id", "turn_index", *TURN_COLUMNS),
    NODES: ("id", *NODE_COLUMNS),
    PARTS: ("id", "message_id", "ordinal", *PART_COLUMNS),
    EVENTS: ("id", "session_id", "fired_at", "msg_before", "tokens_before", "tokens_after"),
    META: ("key", "value"),
}
#: Tables by which a file is known, and without which nothing can be shown.
_ESSENTIAL: Final = (TURNS, NODES)

_STATEMENTS: Final = (
    "CREATE TABLE lcm_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE lcm_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, turn_index INTEGER NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL, created_at TEXT NOT NULL,
  metadata TEXT)""",
    "CREATE INDEX idx_lcm_messages_session ON lcm_messages(session_id, turn_index)",
    """CREATE TABLE lcm_message_parts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id INTEGER NOT NULL REFERENCES lcm_messages(id) ON DELETE CASCADE, ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL, payload TEXT NOT NULL, tool_name TEXT, file_path TEXT, created_at TEXT NOT NULL)""",
    "CREATE INDEX idx_lcm_parts_message ON lcm_message_parts(message_id, ordinal)",
    "CREATE INDEX idx_lcm_parts_tool ON lcm_message_parts(tool_name)",
    "CREATE INDEX idx_lcm_parts_file ON lcm_message_parts(file_path)",
    """CREATE TABLE lcm_summary_nodes (
  id TEXT PRIMARY KEY, session_id TEXT NOT NULL, depth INTEGER NOT NULL,
  parent_id TEXT REFERENCES lcm_summary_nodes(id), summary_text TEXT NOT NULL, token_count INTEGER NOT NULL,
  msg_start INTEGER NOT NULL, msg_end INTEGER NOT NULL, escalation INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL)""",
    "CREATE INDEX idx_lcm_nodes_depth ON lcm_summary_nodes(session_id, depth)",
    "CREATE INDEX idx_lcm_nodes_range ON lcm_summary_nodes(session_id, msg_start, msg_end)",
    """CREATE TABLE lcm_compaction_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, fired_at TEXT NOT NULL,
  msg_before INTEGER NOT NULL, tokens_before INTEGER NOT NULL, tokens_after INTEGER NOT NULL)""",
)
_SEARCH_STATEMENTS: Final = (
    "CREATE VIRTUAL TABLE lcm_messages_fts USING fts5(content, content='lcm_messages', content_rowid='id')",
    "CREATE VIRTUAL TABLE lcm_summaries_fts USING fts5("
    "summary_text, content='lcm_summary_nodes', content_rowid='rowid')",
)


def has_table(rows: Rows, name: str) -> bool:
    """Whether the file has a table."""
    return bool(rows.tuples("SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table'", (name,)))


def is_remnic(tables: frozenset[str]) -> bool:
    """Whether a file with these tables is Remnic's."""
    return tables.issuperset(_ESSENTIAL)


def check_readable(rows: Rows, path: Path) -> None:
    """Refuse a file of another program.

    Raises:
        DatabaseError: it has not Remnic's tables, or not their columns.
    """
    for table, columns in _NEEDED.items():
        if table not in _ESSENTIAL and not has_table(rows, table):
            continue
        _check_columns(rows, path, table, columns)


def check_writable(rows: Rows, path: Path) -> None:
    """Refuse a file into which rows may not be written as schema 2 has them.

    Raises:
        DatabaseError: it is another program's.
        RefusedError: its schema is another one.
    """
    check_readable(rows, path)
    for table, columns in _NEEDED.items():
        _check_columns(rows, path, table, columns)
    stored = rows.tuples("SELECT value FROM lcm_meta WHERE key = 'schema_version'")
    if stored and str(stored[0][0]).strip() != VERSION:
        raise RefusedError(
            f"{path} has schema {str(stored[0][0])[:20]!r} of Remnic, but lcm-tui writes schema {VERSION}. "
            "Nothing was changed; look for a newer lcm-tui, or update Remnic.",
            code="REMNIC_SCHEMA_UNKNOWN",
        )


def _check_columns(rows: Rows, path: Path, table: str, columns: tuple[str, ...]) -> None:
    found = {row[0] for row in rows.tuples("SELECT name FROM pragma_table_info(?)", (table,))}
    if not found:
        raise DatabaseError(
            f"{path} is not a Remnic database: it has no table '{table}'. Give Remnic's lcm.sqlite with "
            "--remnic, or its memory folder with --memory-dir.",
            code="DATABASE_NOT_REMNIC",
        )
    lacking = next((name for name in columns if name not in found), None)
    if lacking is not None:
        raise DatabaseError(
            f"{path} is not a Remnic database that can be read: its table '{table}' has no column "
            f"'{lacking}'. Look for a newer lcm-tui.",
            code="DATABASE_NOT_REMNIC",
        )


def statements() -> tuple[str, ...]:
    """What makes an empty database of schema 2."""
    version = f"INSERT INTO lcm_meta (key, value) VALUES ('schema_version', '{VERSION}')"
    return (*_STATEMENTS, *_SEARCH_STATEMENTS, version)
