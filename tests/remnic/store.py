"""Remnic's tables as docs/spec/remnic.md has them, the other importer's mistakes, and what ours should make.

Nothing here shares code with what is tested: tables and the oracle are plain SQL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

_TABLES = """
CREATE TABLE lcm_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE lcm_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, turn_index INTEGER NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL, created_at TEXT NOT NULL,
  metadata TEXT);
CREATE INDEX m1 ON lcm_messages (session_id, turn_index);
CREATE TABLE lcm_message_parts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id INTEGER NOT NULL REFERENCES lcm_messages (id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL, tool_name TEXT, file_path TEXT,
  created_at TEXT);
CREATE INDEX p1 ON lcm_message_parts (message_id, ordinal);
CREATE TABLE lcm_summary_nodes (
  id TEXT PRIMARY KEY, session_id TEXT NOT NULL, depth INTEGER NOT NULL,
  parent_id TEXT REFERENCES lcm_summary_nodes (id), summary_text TEXT NOT NULL, token_count INTEGER NOT NULL,
  msg_start INTEGER NOT NULL, msg_end INTEGER NOT NULL, escalation INTEGER DEFAULT 0,
  created_at TEXT NOT NULL);
CREATE INDEX n1 ON lcm_summary_nodes (session_id, depth);
CREATE TABLE lcm_compaction_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, fired_at TEXT, msg_before INTEGER,
  tokens_before INTEGER, tokens_after INTEGER);
CREATE VIRTUAL TABLE lcm_messages_fts USING fts5(content, content='lcm_messages', content_rowid='id');
CREATE VIRTUAL TABLE lcm_summaries_fts USING fts5(
  summary_text, content='lcm_summary_nodes', content_rowid='rowid');
INSERT INTO lcm_meta VALUES ('schema_version', '2');
"""


def new_remnic(path: Path) -> Path:
    """An empty database of Remnic's; *path* again."""
    with opened(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(_TABLES)
    return path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that commits each statement."""
    address = f"{path.as_uri()}?mode=rwc"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=10)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        yield db


def all_rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of Remnic's tables, and what is indexed for search."""
    tables = {
        "lcm_meta": "key",
        "lcm_messages": "id",
        "lcm_message_parts": "id",
        "lcm_summary_nodes": "id",
        "lcm_compaction_events": "id",
        "lcm_messages_fts_docsize": "id",
        "lcm_summaries_fts_docsize": "id",
    }
    with opened(path) as db:
        return {
            table: db.execute(f"SELECT * FROM {table} ORDER BY {key}").fetchall()
            for table, key in tables.items()
        }


def native_turn(db: sqlite3.Connection, session: str, text: str, **columns: Any) -> int:
    """A turn as Remnic itself records it, behind the last one; its place."""
    [turn] = db.execute(
        "SELECT coalesce(max(turn_index) + 1, 0) FROM lcm_messages WHERE session_id = ?", (session,)
    ).fetchone()
    row = {
        "session_id": session,
        "turn_index": turn,
        "role": "user",
        "content": text,
        "token_count": (len(text) + 3) // 4,
        "created_at": "2026-12-01T00:00:00.000Z",
        **columns,
    }
    db.execute(
        f"INSERT INTO lcm_messages ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
        tuple(row.values()),
    )
    db.execute("INSERT INTO lcm_messages_fts (rowid, content) VALUES (last_insert_rowid(), ?)", (text,))
    return int(turn)


def other_importer(source: Path, path: Path) -> None:
    """What the other importer leaves: no parts' content, leaves alone, no upward links, nothing searchable.

    By the rules that were read in its source; it numbers turns as ours does where times differ.
    """
    with opened(path) as db:
        db.execute("ATTACH ? AS s", (f"{source.as_uri()}?immutable=1",))
        db.execute("BEGIN")
        db.execute(
            """INSERT INTO lcm_messages (
              session_id, turn_index, role, content, token_count, created_at, metadata)
            SELECT trim(c.session_id), row_number() OVER (
              PARTITION BY trim(c.session_id) ORDER BY m.created_at, m.conversation_id, m.seq) - 1,
            m.role, m.content, m.token_count, m.created_at,
            json_object('conversation_id', m.conversation_id, 'identity_hash', m.identity_hash,
              'source', 'lossless-claw', 'source_seq', m.seq, 'title', c.title)
            FROM s.messages AS m JOIN s.conversations AS c USING (conversation_id)"""
        )
        db.execute(
            """INSERT INTO lcm_message_parts (message_id, ordinal, kind, payload, tool_name)
            SELECT t.id, p.ordinal, 'tool_call', '{}', p.tool_name
            FROM s.message_parts AS p JOIN s.messages AS m USING (message_id)
            JOIN lcm_messages AS t ON json_extract(t.metadata, '$.conversation_id') = m.conversation_id
            AND json_extract(t.metadata, '$.source_seq') = m.seq"""
        )
        db.execute(
            """INSERT INTO lcm_summary_nodes
            SELECT x.summary_id, trim(c.session_id), x.depth, NULL, x.content, x.token_count,
            min(t.turn_index), max(t.turn_index), 0, coalesce(x.latest_at, x.earliest_at, 'now')
            FROM s.summaries AS x JOIN s.conversations AS c USING (conversation_id)
            JOIN s.summary_messages AS l USING (summary_id) JOIN s.messages AS m USING (message_id)
            JOIN lcm_messages AS t ON json_extract(t.metadata, '$.conversation_id') = m.conversation_id
            AND json_extract(t.metadata, '$.source_seq') = m.seq
            GROUP BY x.summary_id"""
        )
        db.execute(
            """INSERT INTO lcm_compaction_events
            SELECT NULL, session_id, 'then', max(turn_index) + 1, sum(token_count), sum(token_count)
            FROM lcm_messages GROUP BY session_id"""
        )
        db.execute("COMMIT")


#: What is to be in Remnic for a source that is attached as ``s``: each is compared both ways.
_EXPECTED = {
    "turns": (
        """SELECT session, turn, role, content, token_count, created_at, conversation_id, seq FROM turns""",
        """SELECT session_id, turn_index, role, content, token_count, created_at,
        json_extract(metadata, '$.conversation_id'), json_extract(metadata, '$.source_seq')
        FROM lcm_messages WHERE json_extract(metadata, '$.source') = 'lossless-claw'""",
    ),
    "nodes": (
        """SELECT x.summary_id, c.session, x.depth, x.content, x.token_count, below.first, below.last,
        (SELECT e.summary_id FROM s.summary_parents AS e JOIN s.summaries AS user USING (summary_id)
         WHERE e.parent_summary_id = x.summary_id AND user.depth > x.depth
         ORDER BY user.depth, e.ordinal, e.summary_id LIMIT 1)
        FROM s.summaries AS x JOIN sessions AS c USING (conversation_id)
        JOIN (SELECT reached.top, min(turns.turn) AS first, max(turns.turn) AS last
          FROM reached JOIN s.summary_messages AS l ON l.summary_id = reached.id
          JOIN turns ON turns.message_id = l.message_id AND turns.session = reached.session
          GROUP BY reached.top) AS below ON below.top = x.summary_id""",
        """SELECT id, session_id, depth, summary_text, token_count, msg_start, msg_end, parent_id
        FROM lcm_summary_nodes""",
    ),
    "parts": (
        """SELECT t.conversation_id, t.seq, p.ordinal, CASE
        WHEN t.role = 'tool' THEN 'tool_result'
        WHEN p.part_type IN ('patch', 'step_start', 'step_finish', 'snapshot', 'retry') THEN p.part_type
        WHEN p.part_type = 'file' THEN CASE t.role WHEN 'assistant' THEN 'file_write' ELSE 'file_read' END
        WHEN p.part_type = 'tool' OR p.part_type = 'agent'
          AND json_valid(p.metadata) AND json_extract(p.metadata, '$.raw.type') LIKE 'tool%'
        THEN CASE WHEN p.tool_output IS NOT NULL AND p.tool_input IS NULL
          THEN 'tool_result' ELSE 'tool_call' END
        ELSE 'text' END,
        CASE WHEN t.role = 'tool' THEN coalesce(p.tool_output, p.text_content) ELSE p.text_content END
        FROM s.message_parts AS p JOIN turns AS t USING (message_id)""",
        """SELECT json_extract(t.metadata, '$.conversation_id'), json_extract(t.metadata, '$.source_seq'),
        p.ordinal, p.kind, coalesce(json_extract(p.payload, '$.text'),
          CASE p.kind WHEN 'tool_result' THEN json_extract(p.payload, '$.output') END)
        FROM lcm_message_parts AS p JOIN lcm_messages AS t ON t.id = p.message_id""",
    ),
}


def check_import(source: Path, path: Path) -> None:
    """Remnic holds exactly what the rules say, for a source that is the only one; asserts."""
    with opened(path) as db:
        db.execute("ATTACH ? AS s", (f"{source.as_uri()}?immutable=1",))
        db.execute(
            """CREATE TEMP VIEW sessions AS SELECT conversation_id,
            coalesce(nullif(trim(session_id), ''), CAST(conversation_id AS TEXT)) AS session
            FROM s.conversations"""
        )
        db.execute(
            """CREATE TEMP TABLE turns AS SELECT *, row_number() OVER (
              PARTITION BY session ORDER BY moment, conversation_id, seq) - 1 AS turn
            FROM (SELECT m.*, c.session, max(julianday(m.created_at)) OVER (
                PARTITION BY m.conversation_id ORDER BY m.seq) AS moment
              FROM s.messages AS m JOIN sessions AS c USING (conversation_id))"""
        )
        db.execute(
            """CREATE TEMP TABLE reached AS WITH RECURSIVE walk (top, id) AS (
              SELECT summary_id, summary_id FROM s.summaries
              UNION SELECT walk.top, e.parent_summary_id FROM walk
              JOIN s.summary_parents AS e ON e.summary_id = walk.id)
            SELECT walk.top, walk.id, c.session FROM walk JOIN s.summaries AS x ON x.summary_id = walk.top
            JOIN sessions AS c USING (conversation_id)"""
        )
        for what, (wanted, held) in _EXPECTED.items():
            lacking = db.execute(f"{wanted} EXCEPT {held}").fetchall()
            extra = db.execute(f"{held} EXCEPT {wanted}").fetchall()
            assert not lacking, f"{what} lacking: {lacking[:2]}"
            assert not extra, f"{what} too many: {extra[:2]}"
            counted = [db.execute(f"SELECT count(*) FROM ({sql})").fetchone() for sql in (wanted, held)]
            assert counted[0] == counted[1], f"{what} repeated"
    check_search(path)
    with opened(path) as db:
        wrong = db.execute(
            """SELECT session_id FROM (SELECT session_id, sum(token_count) AS tokens,
              max(turn_index) + 1 AS turns FROM lcm_messages GROUP BY session_id) AS m
            WHERE NOT EXISTS (SELECT 1 FROM lcm_compaction_events AS e WHERE e.session_id = m.session_id
              AND e.tokens_before = m.tokens AND e.tokens_after = m.tokens AND e.msg_before = m.turns)"""
        ).fetchall()
        assert not wrong, f"no event marks the end of {wrong}"
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def check_search(path: Path) -> None:
    """Both search tables are whole, and hold every row; asserts."""
    with opened(path) as db:
        for search, table in (
            ("lcm_messages_fts", "lcm_messages"),
            ("lcm_summaries_fts", "lcm_summary_nodes"),
        ):
            db.execute(f"INSERT INTO {search} ({search}, rank) VALUES ('integrity-check', 1)")
            counts = [
                db.execute(f"SELECT count(*) FROM {one}").fetchone() for one in (f"{search}_docsize", table)
            ]
            assert counts[0] == counts[1], f"{search} does not hold every row"


TABLES = (
    "conversations",
    "messages",
    "message_parts",
    "summaries",
    "summary_messages",
    "summary_parents",
    "context_items",
)


def lcm_rows(path: Path, like: Path) -> dict[str, list[str]]:
    """The rows of a lossless-claw database, by the columns that *like* has too."""
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        db.execute("ATTACH ? AS other", (f"{like.as_uri()}?immutable=1",))
        found = {}
        for table in TABLES:
            shared = [
                [row[1] for row in db.execute(f"PRAGMA {one}.table_info({table})")]
                for one in ("main", "other")
            ]
            columns = ", ".join(sorted({*shared[0]} & {*shared[1]}))
            found[table] = sorted(
                json.dumps(row, default=repr) for row in db.execute(f"SELECT {columns} FROM {table}")
            )
        return found
