"""Replays recorded messages and transcripts of a host through an `Engine`, and tells the rows as recorded.

The recordings (``tests/data/ingest-*.json.gz``) are generated, seeded inputs and the answers of lossless-claw
HEAD 4214b480: what a conversation holds after each call. Ids of files are numbered in both.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_core.api import EngineSettings, RefusedError
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.values import replace
from lcm_core.engine.stored_parts import entry_hash, identity_of
from lcm_host.appending import Session
from lcm_host.engine import Engine

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
_NOW = "2031-05-06 07:08:09"
_FILE_ID = re.compile(r"file_[0-9a-f]{16}")
_DATA = Path(__file__).parent.parent / "data"
_MESSAGE = (
    *("seq", "role", "content", "token_count", "identity_hash", "openclaw_sender_metadata"),
    *("transcript_entry_id", "stable_event_key", "large_content", "created_at"),
)
_STATE = (
    *("last_seen_size", "last_seen_mtime_ms", "last_processed_offset", "last_processed_entry_hash"),
    *("session_header_id", "last_processed_entry_id", "fork_bounded", "fork_source_message_count"),
)
#: The engine's own names of settings, and ours.
_SETTINGS = {
    "pruneHeartbeatOk": "prune_heartbeat_ok",
    "bootstrapMaxTokens": "bootstrap_max_tokens",
    "largeFileTokenThreshold": "large_file_token_threshold",
    "ignoreSessionPatterns": "ignore_session_patterns",
    "statelessSessionPatterns": "stateless_session_patterns",
}


def recording(name: str) -> list[dict[str, Any]]:
    """The cases of ``messages`` or ``transcripts``."""
    with gzip.open(_DATA / f"ingest-{name}.json.gz", "rt", encoding="utf-8") as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
    return cases


def settings_of(config: dict[str, Any]) -> EngineSettings:
    """Settings with some of the engine's own keys."""
    given = {
        _SETTINGS[key]: Sourced(tuple(value) if isinstance(value, list) else value, SettingSource.ENVIRONMENT)
        for key, value in config.items()
    }
    return replace(EngineSettings(), **given)


async def opened(path: Path, config: dict[str, Any]) -> Engine:
    """An engine whose clock stands still."""
    return await Engine.open(
        path,
        large_files=path.parent / "lcm-files",
        settings=settings_of(config),
        clock=lambda: NOW,
        snapshots=0,
    )


async def ingest_case(engine: Engine, case: dict[str, Any]) -> list[str | None]:
    """Hand over the batches of a case of ``messages``; per batch why it was refused."""
    refused: list[str | None] = []
    for batch in case["batches"]:
        try:
            await engine.ingest_batch(Session(f"s{case['n']}"), batch)
            refused.append(None)
        except RefusedError as error:
            refused.append("replay" if error.code == "REPLAY_REFUSED" else str(error))
    return refused


async def transcript_step(engine: Engine, folder: Path, step: dict[str, Any]) -> dict[str, Any] | None:
    """Take one step of a case of ``transcripts``; what the engine answers."""
    path = folder / step["file"]
    if step.get("text") is not None:
        path.write_bytes(step["text"].encode("utf-8", "replace"))
    if step.get("mtimeMs") is not None and path.exists():
        nanoseconds = int(step["mtimeMs"] * 1_000_000)
        os.utime(path, ns=(nanoseconds, nanoseconds))
    session = Session(step["session"], step.get("key"))
    if step["op"] == "afterTurn":
        before = step.get("prePromptMessageCount") or 0
        await engine.after_turn(session, step["messages"], before, transcript=path)
        return None
    done = await engine.bootstrap(session, path)
    found: dict[str, Any] = {"bootstrapped": done.bootstrapped, "importedMessages": done.imported}
    return found if done.engine_reason is None else {**found, "reason": done.engine_reason}


def conversations(path: Path, session_id: str | None = None) -> list[dict[str, Any]]:
    """What the conversations of a database hold, as the recordings tell it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT * FROM conversations WHERE ? IS NULL OR session_id = ? ORDER BY conversation_id",
            (session_id, session_id),
        ).fetchall()
        return [_conversation(connection, row) for row in rows]


def _conversation(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    number = row["conversation_id"]
    files = connection.execute(
        "SELECT * FROM large_files WHERE conversation_id = ? ORDER BY rowid", (number,)
    ).fetchall()
    names = {file["file_id"]: f"file_#{at}" for at, file in enumerate(files, 1)}
    messages = connection.execute(
        "SELECT * FROM messages WHERE conversation_id = ? ORDER BY seq", (number,)
    ).fetchall()
    context = connection.execute(
        """SELECT c.ordinal, c.item_type, m.seq FROM context_items AS c LEFT JOIN messages AS m
        USING (message_id) WHERE c.conversation_id = ? ORDER BY c.ordinal""",
        (number,),
    ).fetchall()
    state = connection.execute(
        "SELECT * FROM conversation_bootstrap_state WHERE conversation_id = ?", (number,)
    ).fetchone()
    return {
        "session_id": row["session_id"],
        "session_key": row["session_key"],
        "active": row["active"],
        "archive_cause": row["archive_cause"],
        "bootstrapped": row["bootstrapped_at"] is not None,
        "messages": [_message(connection, message, names) for message in messages],
        "context": [list(item) for item in context],
        "large_files": [_file(file, names, number) for file in files],
        "state": _state(state, messages, names),
    }


def _message(connection: sqlite3.Connection, row: sqlite3.Row, names: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {name: row[name] for name in _MESSAGE}
    if any(name in row["content"] for name in names):
        assert found["identity_hash"] == identity_of(row["role"], row["content"])
        found["identity_hash"] = "plain"
    found["content"] = _numbered(row["content"], names)
    found["created_at"] = "now" if row["created_at"] == _NOW else row["created_at"]
    fts = connection.execute(
        "SELECT content FROM messages_fts WHERE rowid = ?", (row["message_id"],)
    ).fetchone()
    text = None if fts is None else _numbered(fts["content"], names)
    found["fts"] = "=" if text is not None and text == found["content"] else text
    parts = connection.execute(
        "SELECT * FROM message_parts WHERE message_id = ? ORDER BY ordinal", (row["message_id"],)
    ).fetchall()
    found["parts"] = [
        {
            name: _numbered(value, names)
            for name, value in dict(part).items()
            if value is not None and name not in ("part_id", "message_id", "session_id")
        }
        for part in parts
    ]
    return found


def _file(row: sqlite3.Row, names: dict[str, str], number: int) -> dict[str, Any]:
    path = Path(row["storage_uri"])
    data = path.read_bytes().decode("utf-8", "surrogateescape")
    numbered = _numbered(data, names).encode("utf-8", "surrogateescape")
    return {
        "file_id": names[row["file_id"]],
        "file_name": row["file_name"],
        "mime_type": row["mime_type"],
        "byte_size": row["byte_size"],
        "line_count": row["line_count"],
        "exploration_summary": _numbered(row["exploration_summary"], names),
        "stored": _numbered(f"C/{path.name}" if path.parent.name == str(number) else str(path), names),
        "sha256": hashlib.sha256(numbered).hexdigest(),
    }


def _state(
    row: sqlite3.Row | None, messages: list[sqlite3.Row], names: dict[str, str]
) -> dict[str, Any] | None:
    if row is None:
        return None
    found: dict[str, Any] = {"session_file": Path(row["session_file_path"]).name}
    found |= {name: row[name] for name in _STATE}
    held = [one for one in messages if any(name in one["content"] for name in names)]
    if row["last_processed_entry_hash"] in {entry_hash(one["role"], one["content"]) for one in held}:
        found["last_processed_entry_hash"] = "plain"
    return found


def _numbered(value: Any, names: dict[str, str]) -> Any:
    if not isinstance(value, str):
        return value
    return _FILE_ID.sub(lambda found: names.get(found[0], found[0]), value)


def differences(found: Any, wanted: Any, where: str = "") -> list[str]:
    """Where two values differ, one line each."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return [
            line
            for key in sorted({*found, *wanted})
            for line in differences(found.get(key, "absent"), wanted.get(key, "absent"), f"{where}.{key}")
        ]
    if isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            return [f"{where}: {len(found)} for {len(wanted)}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [line for at, (one, other) in pairs for line in differences(one, other, f"{where}[{at}]")]
    return [] if found == wanted else [f"{where}: {found!r} for {wanted!r}"[:600]]
