"""An import into Remnic as values: rows and differences, Remnic's tables, parts as its payloads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NewType, TypeAlias, TypeGuard

from lcm_core.base.errors import DatabaseError, RefusedError
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.journal import encode_cell
from lcm_core.change.plan import Cells
from lcm_core.store.opening import Rows, SqlValue

# -- rows and differences --------------------------------------------------------------------------------
# Rows that are wanted, and what differs from them.

#: How Remnic calls a session: the source's trimmed session id, or the conversation's number without one.
SessionId = NewType("SessionId", str)


#: Numbers of messages, places and conversations are smaller: there is always a next one.
LIMIT: Final = 2**62


def is_place(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number that has a next one."""
    return isinstance(value, int) and not isinstance(value, bool) and -LIMIT < value < LIMIT


class Origin(Record, frozen=True, order=True):
    """Which message of the source a turn is: what Remnic's importer puts into a turn's metadata."""

    conversation_id: str  #: a number as text: the other importer stores numbers and texts
    seq: int

    @property
    def text(self) -> str:
        """It for people."""
        return f"conversation {self.conversation_id}, seq {self.seq}"


class Kind(StrEnum):
    """How a row of Remnic's differs from the source."""

    MISSING = "missing"
    CHANGED = "changed"
    MOVED = "moved"  #: all but its place is as it should be
    REPEATED = "repeated"  #: a second row for the same message; it stays
    EXTRA = "extra"  #: of a message or summary that the source does not hold any more; it stays


class What(StrEnum):
    """What a difference is about."""

    TURN = "turn"
    PART = "part"
    NODE = "node"
    RECORD = "record"  #: what Remnic has no column for
    EVENT = "event"
    SEARCH = "search row"


#: No columns.
NOTHING: Final = Cells((), ())


class Step(Record, frozen=True):
    """One row that differs, and what makes it right.

    Without *key* a row comes. Values of *after* may be a symbol: the id of the turn of that origin. Without
    columns in *after* nothing is to be done: the row stays as it is.
    """

    kind: Kind
    what: What
    session: SessionId
    name: str  #: which row, for people
    table: str
    key: int | str | None
    before: Cells = NOTHING
    after: Cells = NOTHING
    origin: Origin | None = None  #: of a turn that comes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that differ, of a row that is there."""
        return self.before.columns

    @property
    def writes(self) -> bool:
        """Whether it changes the file."""
        return bool(self.after.columns)


class Tally(Struct):
    """How many rows of a kind came, differed, and were as they should be."""

    missing: int = field(name="inserted", default=0)
    changed: int = field(name="updated", default=0)
    moved: int = 0
    extra: int = 0
    same: int = field(name="skipped", default=0)

    def count(self, kind: Kind) -> None:
        """Add one."""
        match kind:
            case Kind.MISSING:
                self.missing += 1
            case Kind.CHANGED:
                self.changed += 1
            case Kind.MOVED:
                self.moved += 1
            case Kind.EXTRA | Kind.REPEATED:
                self.extra += 1


class Why(StrEnum):
    """Why a row of the source does not come into Remnic as it is, or not back out of it."""

    NO_SEQ = "the seq is no number, or not the only one"
    NO_CONVERSATION = "the conversation is missing"
    NO_MESSAGE = "the message is missing or skipped"
    NO_SUMMARY = "the summary is missing"
    NO_END = "one end is missing, skipped, or in another conversation"
    NO_TARGET = "the message or summary is missing, skipped, or in another conversation"
    NO_ID = "the id is no text"
    NO_TURN = "no message is below"
    ELSEWHERE = "Remnic has the id in another session"
    WRONG_TYPE = "a value has another type than its column, and is converted"


class Unheld(Record, frozen=True):
    """A row that does not come along."""

    table: str
    why: Why
    row: str  #: which, for people


#: Rows of a kind that are named.
NAMED: Final = 50


class UnheldRows(Struct):
    """Rows of one table that do not come along for one reason."""

    count: int = 0
    rows: list[str] = field(default_factory=list)  #: the first of them


def _tallies() -> dict[What, Tally]:
    return {one: Tally() for one in What}


class Report(Struct):
    """What a run of an import did, or would do: the same numbers for both."""

    conversations: int = field(name="conversationsScanned", default=0)
    sessions: int = field(name="sessionsTouched", default=0)  #: that something was written for
    rows: dict[What, Tally] = field(default_factory=_tallies)
    #: further summaries that used a summary: Remnic holds one
    collapsed: int = field(name="multiParentCollapsed", default=0)
    #: summaries left out: no message is below them
    no_messages: list[str] = field(name="skippedNoMessages", default_factory=list)
    #: summaries left out: their id is another session's
    elsewhere: list[str] = field(name="skippedMultiSession", default_factory=list)
    #: conversations left out: another database's
    conflicts: list[str] = field(name="skippedConversations", default_factory=list)
    #: messages left out: their seq is no number, or stands twice
    unreadable: int = field(name="skippedMessages", default=0)
    unheld: dict[tuple[str, Why], UnheldRows] = field(default_factory=dict)  #: by table and reason

    def note(self, rows: Iterable[Unheld]) -> None:
        """Note rows that do not come along."""
        for one in rows:
            held = self.unheld.setdefault((one.table, one.why), UnheldRows())
            held.count += 1
            if len(held.rows) < NAMED:
                held.rows.append(one.row)

    @property
    def written(self) -> bool:
        """Whether anything came or changed."""
        return any(one.missing or one.changed or one.moved for one in self.rows.values())

    @property
    def left_out(self) -> int:
        """What the source holds and Remnic does not get."""
        return len(self.no_messages) + len(self.elsewhere) + len(self.conflicts) + self.unreadable


# -- Remnic's tables -------------------------------------------------------------------------------------
# Those of schema 2, and how a file is known to hold them (docs/spec/remnic.md, "Tables").

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
    *("session_id", "depth", "parent_id", "summary_text", "token_count", "msg_start", "msg_end"),
    *("escalation", "created_at"),
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
            "--remnic, or its memory folder.",
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


# -- payloads --------------------------------------------------------------------------------------------
# Parts of messages as Remnic's parts, and back (docs/spec/remnic.md, "Parts").
#
# A payload is JSON with what Remnic's reader looks for. Beside it, under `OURS`, it holds every column of
# the part whose text is not in the payload already, so that the row comes back as it was.

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Payload: TypeAlias = "dict[str, Json]"
#: A row as it is stored, by column.
Stored: TypeAlias = Mapping[str, SqlValue]

#: The member under which we keep what Remnic has no place for.
OURS: Final = "lcm_tui"
#: Kinds that have one name on both sides.
_ALIKE: Final = frozenset({"patch", "step_start", "step_finish", "snapshot", "retry"})
#: Columns that a part of Remnic has itself, or that its turn says.
_KNOWN: Final = frozenset({"message_id", "ordinal"})
_CALL_IDS: Final = ("id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id", "callId")
_INPUTS: Final = ("arguments", "input")
#: Types of a host's block that ask for a tool.
_CALLS: Final = frozenset(
    {"tool_use", "toolUse", "tool-use", "toolCall", "tool_call", "functionCall", "function_call"}
)


def payload_of(part: Stored, role: str) -> tuple[str, Payload, str | None, str | None]:
    """Kind, payload, name of the tool and path of the file of a part of a message of some *role*."""
    kind, payload, held = _translated(part, role)
    tool = _clean(part.get("tool_name")) or _block_text(part, ("name", "toolName"))
    path = _clean(part.get("file_name")) or _clean(part.get("file_url"))
    ours: dict[str, Json] = {
        name: stored_json(value)
        for name, value in sorted(part.items())
        if value is not None and name not in _KNOWN and name not in held
    }
    if held:
        ours["$in"] = dict(sorted(held.items()))
    payload[OURS] = ours
    is_tool = kind in ("tool_call", "tool_result")
    return kind, payload, tool if is_tool else None, path if kind.startswith("file") else None


def _translated(part: Stored, role: str) -> tuple[str, Payload, dict[str, Json]]:
    """Kind, payload, and the columns whose text is in it, each with its member."""
    kind = _clean(part.get("part_type")) or "text"
    held: dict[str, Json] = {}

    def take(column: str, member: str, into: Payload) -> None:
        """Put a column's text into the payload; it is not kept twice when it comes back from there."""
        value = part.get(column)
        text = _clean(value)
        if text is None:
            return
        into[member] = text
        if text == value:
            held[column] = member

    payload: Payload = {}
    is_call = kind == "tool" or (kind == "agent" and _block(part).get("type") in _CALLS)
    if role == "tool" or (is_call and part.get("tool_output") is not None and part.get("tool_input") is None):
        _put(payload, "id", _call_id(part))
        take("tool_output" if part.get("tool_output") is not None else "text_content", "output", payload)
        take("tool_error", "error", payload)
        return "tool_result", payload, held
    if is_call:
        _put(payload, "id", _call_id(part))
        _put(payload, "name", _clean(part.get("tool_name")) or _block_text(part, ("name", "toolName")))
        _take_input(part, payload, held)
        take("tool_output", "output", payload)
        take("tool_error", "error", payload)
        return "tool_call", payload, held
    if kind == "file":
        take("file_name", "name", payload)
        take("file_mime", "mime", payload)
        take("file_url", "url", payload)
        take("text_content", "text", payload)
        return "file_write" if role == "assistant" else "file_read", payload, held
    take("text_content", "text", payload)
    if kind in _ALIKE:
        for column in ("patch_hash", "patch_files", "step_reason", "snapshot_hash"):
            take(column, column, payload)
        return kind, payload, held
    if kind != "text":
        payload["type"] = kind  # reasoning, subtask, compaction, agent: Remnic has no such kind
    return "text", payload, held


def _take_input(part: Stored, payload: Payload, held: dict[str, Json]) -> None:
    raw = part.get("tool_input")
    if raw is None:
        found = next((_block(part)[name] for name in _INPUTS if name in _block(part)), None)
        _put(payload, "input", _plain(found))
        return
    text = _clean(raw)
    value = _parsed(text or "")
    payload["input"] = value if isinstance(value, dict | list) else text
    if raw == (_compact(value) if isinstance(value, dict | list) else text):
        held["tool_input"] = "input"


def parsed_object(text: object) -> dict[str, Json]:
    """A JSON object of the file; empty where it is none."""
    value = _parsed(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else {}


def written(value: Mapping[str, Json]) -> str:
    """A JSON object as it is stored: members in order of their names, as Remnic's importer writes them."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parsed(text: str) -> Json:
    """The value that a text writes, without what JSON for everybody may not hold; None where it is none."""
    try:
        value: Json = _DECODER.decode(text)
        # Most texts hold neither half a character nor a depth that cannot be written again.
        odd = "\\u" in text or _torn(text) or text.count("{") + text.count("[") > _SHALLOW
        return _plain(value) if odd else value
    except (ValueError, RecursionError):
        return None


def _finite(written: str) -> float | None:
    number = float(written)
    return number if abs(number) < float("inf") else None


#: Braces of a text that are no reason to look how deep it is nested.
_SHALLOW: Final = 200
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)


def _compact(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


def _text_of(value: Json) -> str | None:
    return value if value is None or isinstance(value, str) else _compact(value)


def _clean(value: object) -> str | None:
    """A value as text that JSON can hold; what is no UTF-8 is U+FFFD."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if _torn(text) else text


def _torn(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _plain(value: object) -> Json:
    """JSON values without lone surrogates and without numbers that JSON has not."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {str(_plain(str(name))): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value if isinstance(value, bool | int | float) else None


def stored_json(value: SqlValue) -> Json:
    """A value as JSON that Remnic can read again."""
    return _plain(encode_cell(value))


def _put(payload: Payload, name: str, value: Json) -> None:
    if value is not None:
        payload[name] = value


def _block(part: Stored) -> dict[str, Json]:
    """The block as the host sent it, which the part's metadata holds."""
    raw = parsed_object(part.get("metadata")).get("raw")
    return raw if isinstance(raw, dict) else {}


def _block_text(part: Stored, names: Sequence[str]) -> str | None:
    block = _block(part)
    found = next((block[name] for name in names if isinstance(block.get(name), str)), None)
    return _clean(found)


def _call_id(part: Stored) -> str | None:
    return _clean(part.get("tool_call_id")) or _block_text(part, _CALL_IDS)
