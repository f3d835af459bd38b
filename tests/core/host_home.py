"""Builds the folder of a host: agents with sessions in every place where a host keeps them.

`Story` makes up a session and knows, from making it, what its path is and what was said.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SCHEMA = """
CREATE TABLE schema_meta (meta_key TEXT PRIMARY KEY, role TEXT, schema_version INTEGER, agent_id
  TEXT) /*strict*/;
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, entry_json TEXT,
  updated_at INTEGER, status TEXT) /*strict*/;
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, previous_session_id
  TEXT, reason TEXT, created_at INTEGER, updated_at INTEGER, transcript_updated_at INTEGER)
  /*strict*/;
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER,
  event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT, PRIMARY KEY (session_id, seq))
  /*strict*/;
CREATE TABLE transcript_event_identities (session_id TEXT, event_id TEXT, seq INTEGER, event_type
  TEXT, parent_id TEXT, message_idempotency_key TEXT, created_at INTEGER, PRIMARY KEY (session_id,
  event_id)) /*strict*/;
CREATE INDEX identity_seq ON transcript_event_identities (session_id, seq);
CREATE TABLE session_transcript_index_state (session_id TEXT PRIMARY KEY, indexed_seq INTEGER,
  leaf_event_id TEXT, needs_rebuild INTEGER, active_event_count INTEGER, active_message_count
  INTEGER, updated_at INTEGER) /*strict*/;
CREATE TABLE session_transcript_active_events (session_id TEXT, active_position INTEGER, event_seq
  INTEGER, message_position INTEGER, context_eligible INTEGER, PRIMARY KEY (session_id,
  active_position)) /*strict*/;
CREATE UNIQUE INDEX active_seq ON session_transcript_active_events (session_id, event_seq);
CREATE TABLE session_transcript_cold_archives (session_id TEXT PRIMARY KEY, generation TEXT,
  archive_name TEXT, archive_sha256 TEXT, event_count INTEGER, raw_bytes INTEGER, archive_bytes
  INTEGER, last_seq INTEGER, archived_at INTEGER, storage TEXT, archive_blob BLOB) /*strict*/;
CREATE TABLE session_transcript_archives (session_id TEXT, generation TEXT, session_key TEXT, reason
  TEXT, encoding TEXT, archive_blob BLOB, archive_sha256 TEXT, archive_name TEXT, created_at
  INTEGER, published_at INTEGER, PRIMARY KEY (session_id, generation)) /*strict*/;
CREATE TABLE transcript_rewrite_watermarks (session_id TEXT PRIMARY KEY, generation TEXT, updated_at
  INTEGER) /*strict*/;
CREATE TABLE context_engine_turn_outbox (advancement_key TEXT PRIMARY KEY, engine_id TEXT,
  session_id TEXT, payload_json TEXT, attempt_count INTEGER, last_attempt_at INTEGER, last_error
  TEXT, created_at INTEGER) /*strict*/;
PRAGMA user_version = 23;
"""
#: Texts that break what takes a line, a character or a byte for another.
TEXTS = (
    *(
        "hello",
        "",
        "два\nстроки",
        "line\u2028separated\u0085here",
        "👩🏽\u200d💻 done",
        "tab\tand \x00 nul",
        "\ud83d half",
    ),
    *("a" * 3000, "数据库迁移脚本在第三步失败了。" * 80, '{"type":"leaf","targetId":"x"}', "\r\nwindows\r\n"),
)
START_MS = 1_772_440_000_000


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("\ud83d", "\\ud83d")


@dataclass
class Story:
    """A session as it was written, and what its host sees of it."""

    session_id: str
    seed: int
    entries: list[dict[str, Any]] = field(default_factory=list)
    paths: dict[str | None, list[str]] = field(default_factory=lambda: {None: []})
    texts: dict[str, str] = field(default_factory=dict)
    leaf: str | None = None
    tail: str | None = None  #: what the next entry names as its parent

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.session_id}{self.seed}")
        self.header = {
            "type": "session",
            "version": 3,
            "id": self.session_id,
            "timestamp": self._at(0),
            "cwd": "/w",
        }

    @property
    def path(self) -> list[str]:
        return self.paths[self.leaf]

    @property
    def messages(self) -> list[tuple[str, str, str]]:
        """(id, role, text) of what the host sees."""
        by_id = {one["id"]: one for one in self.entries}
        return [
            (name, by_id[name]["message"]["role"], self.texts[name])
            for name in self.path
            if by_id[name]["type"] == "message"
        ]

    @property
    def off_path(self) -> list[str]:
        seen = set(self.path)
        return [one["id"] for one in self.entries if one["id"] not in seen]

    @property
    def lines(self) -> list[str]:
        """The transcript, the header first."""
        return [compact(one) for one in (self.header, *self.entries)]

    def _at(self, number: int) -> str:
        return f"2026-03-02T{8 + number // 3600 % 12:02d}:{number // 60 % 60:02d}:{number % 60:02d}.012Z"

    def add(self, kind: str, **rest: Any) -> str:
        number = len(self.entries) + 1
        name = (
            f"{self.random.getrandbits(32):08x}"
            if self.random.random() < 0.9
            else f"id-{number}-{self.session_id}"
        )
        entry = {"type": kind, "id": name, "parentId": self.tail, "timestamp": self._at(number), **rest}
        self.entries.append(entry)
        self.paths[name] = [*self.path, name]
        self.leaf = self.tail = name
        return name

    def say(self, role: str, text: str) -> None:
        form = self.random.choice(("text", "block", "blocks", "mixed"))
        content: Any = text
        if form == "block":
            content = [{"type": "text", "text": text}]
        elif form == "blocks":
            content = [{"type": "text", "text": text}, {"type": "text", "text": "and more"}]
            text = f"{text}\nand more"
        elif form == "mixed":
            content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
            content += [{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}]
        self.texts[self.add("message", message={"role": role, "content": content, "idempotencyKey": "k"})] = (
            text
        )

    def rewind(self, *, to: str | None) -> None:
        """A marker: the path goes on behind *to*."""
        number = len(self.entries) + 1
        name = f"leaf-{number}"
        marker = {
            "type": "leaf",
            "id": name,
            "parentId": self.tail,
            "timestamp": self._at(number),
            "targetId": to,
        }
        self.entries.append(marker)
        # What follows names the marker's target, or the marker itself.
        self.leaf, self.tail = to, self.random.choice((to, name)) if to else to

    def branch(self, *, to: str | None) -> None:
        """The next entry has another parent than the last one."""
        self.leaf = self.tail = to

    def tell(self, count: int) -> Story:
        """Make up *count* entries."""
        pick = self.random
        while len(self.entries) < count:
            chance = pick.random()
            if chance < 0.75 or not self.entries:
                self.say(pick.choice(("user", "assistant", "toolResult")), pick.choice(TEXTS))
            elif chance < 0.80:
                self.add("reset", reason=pick.choice(("reset", "new")))
            elif chance < 0.85:
                self.add("custom", customType="run-failed-before-reply", data={"a": 1})
            elif chance < 0.88:
                self.add("compaction", summary="s", firstKeptEntryId="x", tokensBefore=5)
            elif chance < 0.90:
                self.add("model_change", provider="p", modelId="m")
            elif self.path:
                back = pick.choice(self.path)
                self.rewind(to=back) if chance < 0.96 else self.branch(to=back)
        if self.leaf != self.entries[-1]["id"] and self.entries[-1]["type"] != "leaf":
            self.say("user", "so the last entry is the leaf")
        return self


@dataclass
class AgentFolder:
    """The folder of one agent, ``agents/<agent>``."""

    path: Path
    strict: bool = True

    def __post_init__(self) -> None:
        self.database = self.path / "agent" / "openclaw-agent.sqlite"
        self.sessions = self.path / "sessions"
        self.cold = self.sessions / "cold"
        self.database.parent.mkdir(parents=True)
        self.cold.mkdir(parents=True)
        with closing(sqlite3.connect(self.database)) as db:
            db.executescript(SCHEMA.replace("/*strict*/", "STRICT" if self.strict else ""))

    def write(self, sql: str, rows: Iterable[tuple[Any, ...]] = ((),)) -> None:
        with closing(sqlite3.connect(self.database)) as db, db:
            db.execute("PRAGMA synchronous = OFF")
            db.executemany(sql, list(rows))

    def window(self, story: Story, key: str, *, previous: str | None = None, current: bool = True) -> None:
        stamp = START_MS + 1000 * len(story.entries)
        self.write(
            "INSERT INTO session_windows VALUES (?, ?, ?, NULL, ?, ?, ?)",
            [(story.session_id, key, previous, stamp, stamp, stamp)],
        )
        if current:
            self.write(
                "INSERT OR REPLACE INTO session_nodes VALUES (?, ?, ?, ?, 'done')",
                [(key, story.session_id, json.dumps({"sessionId": story.session_id}), stamp)],
            )

    def hot(
        self, story: Story, key: str, *, packed: float = 0.2, index: str = "complete", **window: Any
    ) -> None:
        """Rows of the table; *index* says what is wrong with the host's own list."""
        self.window(story, key, **window)
        pick = random.Random(story.seed)
        rows = []
        for seq, line in enumerate(story.lines):
            data = line.encode()
            value = json.loads(line)
            stamp = START_MS + seq
            if seq and pick.random() < packed:
                noted = {name: value.get(name) for name in ("type", "id", "parentId", "timestamp")}
                noted["message"] = {"role": value.get("message", {}).get("role")}
                navigation = json.dumps({"version": 1, "navigation": noted})
                rows.append(
                    (story.session_id, seq, None, stamp, zstd.compress(data, 1), len(data), navigation)
                )
            else:
                rows.append((story.session_id, seq, line, stamp, None, None, None))
        self.write("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self.write(
            "INSERT INTO transcript_event_identities VALUES (?, ?, ?, ?, ?, NULL, ?)", identities(story)
        )
        active, state = index_of(story, index)
        self.write("INSERT INTO session_transcript_active_events VALUES (?, ?, ?, ?, 1)", active)
        if index != "missing":
            self.write("INSERT INTO session_transcript_index_state VALUES (?, ?, ?, ?, ?, ?, 0)", [state])
        self.write("INSERT INTO transcript_rewrite_watermarks VALUES (?, 'g', 0)", [(story.session_id,)])

    def put_away(
        self, story: Story, key: str, *, in_file: bool = True, index: str = "complete", **window: Any
    ) -> Path:
        """A cold session; the path of its file, whether it is there or not."""
        self.window(story, key, **window)
        data = zstd.compress("".join(f"{line}\n" for line in cold_lines(story, index)).encode(), 1)
        digest = hashlib.sha256(data).hexdigest()
        name = f"{digest}.jsonl.zst"
        if in_file:
            (self.cold / name).write_bytes(data)
        raw = len("\n".join(story.lines).encode())
        row = (story.session_id, "g", name, digest, len(story.lines), raw, len(data), len(story.entries), 0)
        stored = ("file", None) if in_file else ("sqlite", data)
        self.write(
            f"INSERT INTO session_transcript_cold_archives VALUES ({', '.join('?' * 11)})", [(*row, *stored)]
        )
        return self.cold / name

    def archive(self, story: Story, key: str, *, reason: str, encoding: str, generation: str = "g") -> Path:
        """A deleted or reset session; the path of the file that would hold the same bytes."""
        text = "".join(f"{line}\n" for line in story.lines).encode()
        data = zstd.compress(text) if encoding == "zstd" else text
        digest = hashlib.sha256(data).hexdigest()
        ending = ".zst" if encoding == "zstd" else ""
        name = f"{story.session_id}.jsonl.{reason}.2026-11-22T18-06-08.842Z.{generation}{ending}"
        self.write(
            "INSERT INTO session_transcript_archives VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            [(story.session_id, generation, key, reason, encoding, data, digest, name, START_MS)],
        )
        return self.sessions / name

    def transcript(self, story: Story, name: str | None = None) -> Path:
        """A file of the era before."""
        path = self.sessions / (name or f"{story.session_id}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in story.lines).encode()
        path.write_bytes(zstd.compress(text) if path.suffix == ".zst" else text)
        return path


def identities(story: Story) -> list[tuple[Any, ...]]:
    rows = [(story.session_id, story.session_id, 0, "session", None, START_MS)]
    for seq, one in enumerate(story.entries, 1):
        rows.append((story.session_id, one["id"], seq, one["type"], one["parentId"], START_MS + seq))
    return rows


def index_of(story: Story, index: str) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
    """The host's own list of the path, and what it says of it; complete, or wrong in one way."""
    seqs = {one["id"]: seq for seq, one in enumerate(story.entries, 1)}
    path = [(seqs[name], story.entries[seqs[name] - 1]["type"] == "message") for name in story.path]
    active, said = [], 0
    for position, (seq, is_message) in enumerate(path):
        active.append((story.session_id, position, seq, said if is_message else None))
        said += is_message
    last = len(story.entries) - (index == "behind")
    state = (
        story.session_id,
        last,
        story.leaf,
        int(index == "rebuild"),
        len(path) + (index == "counts"),
        said,
    )
    if index == "leaf":
        state = (*state[:2], story.session_id, *state[3:])
    return (active[: len(active) // 2] if index in ("rebuild", "behind") else active), state


def cold_lines(story: Story, index: str) -> list[str]:
    active, state = index_of(story, index)
    names = ("indexed_seq", "leaf_event_id", "needs_rebuild", "active_event_count", "active_message_count")
    rows: list[tuple[str, dict[str, Any]]] = []
    for seq, line in enumerate(story.lines):
        rows.append(("event", {"seq": seq, "event_json": line, "created_at": START_MS + seq}))
    for _, name, seq, kind, parent, _stamp in identities(story):
        rows.append(("identity", {"event_id": name, "seq": seq, "event_type": kind, "parent_id": parent}))
    for _, position, seq, message in active:
        rows.append(("active", {"active_position": position, "event_seq": seq, "message_position": message}))
    if index != "missing":
        rows.append(("index", dict(zip(names, state[1:], strict=True))))
    rows.append(("fts", {"text": "x", "message_id": "y", "role": "user", "timestamp": "z"}))
    header = {"kind": "header", "version": 1, "sessionId": story.session_id, "generation": "g"}
    return [compact(header), *(compact({"kind": kind, "row": row}) for kind, row in rows)]
