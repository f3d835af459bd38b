"""The plan that brings an exported conversation back, into the database it came from or into another.

Ids stay what they were as long as they are free; else the conversation, its messages, or single summaries,
parts, files and briefs get new ones. Columns that this database does not have are left out.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from lcm_core.change.breaks import summary_key
from lcm_core.change.plan import Cell, Cells, Edit, Insert, Plan, Splice, Symbol, SymbolKind
from lcm_core.dag.checks.facts import counted, told
from lcm_core.errors import DatabaseError
from lcm_core.operations.conversation_file import ConversationFile, FileRow
from lcm_core.operations.file_copies import refer
from lcm_core.operations.prune import CAUSE
from lcm_core.store.database import Reader
from lcm_core.store.lifecycle import ids_taken
from lcm_core.store.prepared import TABLES as PREPARED
from lcm_core.store.rows import rows_by
from lcm_core.times import iso_z

#: Tables in which every row refers only to rows of tables before its own; others come before the last.
_ORDER: Final = (
    "conversations",
    "large_files",
    "messages",
    "message_parts",
    "summaries",
    "summary_messages",
    "summary_parents",
    "focus_briefs",
    "focus_brief_sources",
)
_CONTEXT: Final = "context_items"
#: Never written by an import: our own tables, the engine's notes about its migrations, SQLite's.
_FORBIDDEN: Final = ("lcm_", "sqlite_")

_NewId = Callable[[], str]
_KEYS: Final[Mapping[str, tuple[str, _NewId]]] = {
    "summaries": ("summary_id", lambda: f"sum_{secrets.token_hex(8)}"),
    "message_parts": ("part_id", lambda: str(uuid.uuid4())),
    "large_files": ("file_id", lambda: f"file_{secrets.token_hex(8)}"),
    "focus_briefs": ("brief_id", lambda: f"focus_{secrets.token_hex(8)}"),
}
#: Columns by the table whose rows they name.
_NAMES: Final[Mapping[str, str]] = {
    "summary_id": "summaries",
    "parent_summary_id": "summaries",
    "part_id": "message_parts",
    "file_id": "large_files",
    "brief_id": "focus_briefs",
}


async def plan_import(reader: Reader, file: ConversationFile, *, now: datetime | None = None) -> Plan:
    """Insert a conversation as it was exported; an active session of the same key makes it an archived one.

    Raises:
        DatabaseError: this database lacks a table that it needs.
    """
    importing = await _Importing.begin(reader, file)
    row = await _conversation(reader, file, importing, now or datetime.now(UTC))
    edits: list[Edit] = [importing.insert("conversations", row)]
    for table in importing.tables():
        rows = file.rows[table]
        edits += (importing.insert(table, one) for one in rows if importing.leads_somewhere(table, one))
    edits += importing.context(file.rows.get(_CONTEXT, ()))
    messages, summaries = (len(file.rows.get(table, ())) for table in ("messages", "summaries"))
    as_new = "" if importing.owner == file.conversation_id else ", as a new conversation"
    return Plan(
        kind="import",
        title=f"Import conversation {file.conversation_id}{as_new}: {counted(messages, 'message')}, "
        f"{counted(summaries, 'summary')}",
        conversation_id=importing.owner if isinstance(importing.owner, int) else None,
        edits=tuple(edits),
        warnings=tuple(importing.warnings()),
        allows=importing.oddities(),
    )


@dataclass(slots=True)
class _Importing:
    """What everything is called in this database."""

    file: ConversationFile
    columns: Mapping[str, frozenset[str]]
    owner: int | Symbol
    messages: Mapping[object, int | Symbol]
    ids: Mapping[str, Mapping[object, str]]  #: by table
    said: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)  #: values of columns that are not there
    stray: int = 0  #: rows that refer to what is not in the file

    @classmethod
    async def begin(cls, reader: Reader, file: ConversationFile) -> _Importing:
        """Look which ids are taken."""
        number = file.conversation_id
        columns = reader.schema.tables
        for table in ("conversations", "messages"):
            if not columns.get(table):
                raise DatabaseError(f"This database has no table {table}: nothing can be imported into it.")
        there = await rows_by(reader, "conversations", "conversation_id", [number])
        owner: int | Symbol = Symbol("new:conversation", SymbolKind.ID) if there else number
        held = [row["message_id"] for row in file.rows.get("messages", ())]
        taken = await ids_taken(reader, "messages", "message_id", held)
        messages: dict[object, int | Symbol] = {}
        for place, one in enumerate(held, 1):
            assert isinstance(one, int)
            messages[one] = Symbol(f"new:{place}", SymbolKind.ID) if taken else one
        ids: dict[str, dict[object, str]] = {}
        for table, (column, new) in _KEYS.items():
            names = [row[column] for row in file.rows.get(table, ())]
            used = await ids_taken(reader, table, column, names)
            ids[table] = {one: new() if one in used else str(one) for one in names}
        made = cls(file, columns, owner, messages, ids)
        if there:
            made.said.append(f"Conversation {number} is taken here, so it gets a new number")
        if taken:
            made.said.append("Some messages' ids are taken here, so all messages get new ones")
        for table, renamed in ids.items():
            count = sum(old != new for old, new in renamed.items())
            if count:
                made.said.append(told(count, _NOUNS[table], None, "get a new id, for the old one is taken"))
        return made

    @property
    def renames(self) -> bool:
        """Whether the conversation, its messages or its summaries are called something else here."""
        return (
            self.owner != self.file.conversation_id
            or any(isinstance(new, Symbol) for new in self.messages.values())
            or any(old != new for old, new in self.ids["summaries"].items())
        )

    def tables(self) -> Iterator[str]:
        """The tables of the file that this database has, in an order in which nothing refers ahead."""
        rest = sorted(set(self.file.rows) - {*_ORDER, _CONTEXT})
        for table in (*_ORDER[1:], *rest):
            count = len(self.file.rows.get(table, ()))
            if count and (table.startswith(_FORBIDDEN) or not self.columns.get(table)):
                self.said.append(f"{counted(count, 'row')} of {table} left out: there is no such table here")
            elif count and table in PREPARED and self.renames:
                self.said.append(
                    f"{counted(count, 'row')} of {table} left out: what the engine has prepared is of the "
                    "original conversation"
                )
            elif count:
                yield table

    def leads_somewhere(self, table: str, row: FileRow) -> bool:
        """Whether what a row refers to is in the file."""
        known: Mapping[object, object]
        for column, value in row.items():
            if column == "message_id":
                known = self.messages
            elif column in _NAMES and table != "message_parts":
                known = self.ids[_NAMES[column]]
            else:
                continue
            if value is not None and value not in known:
                self.stray += 1
                return False
        return True

    def insert(self, table: str, row: FileRow) -> Insert:
        """A row under its new names."""
        return Insert(table, Cells.of(self._cells(table, row)))

    def _cells(self, table: str, row: FileRow) -> dict[str, Cell]:
        renamed = {old: new for old, new in self.ids["large_files"].items() if old != new}
        texts = refer(row, {str(old).lower(): new for old, new in renamed.items()})
        found: dict[str, Cell] = {}
        for column, value in texts.items():
            if column not in self.columns[table]:
                if value is not None:
                    name = f"{table}.{column}"
                    self.lost[name] = self.lost.get(name, 0) + 1
            elif column == "conversation_id":
                found[column] = self.owner
            elif column == "message_id":
                found[column] = self.messages.get(row[column])
            elif column in _NAMES:
                found[column] = self.ids[_NAMES[column]].get(row[column])
            else:
                found[column] = value
        return found

    def context(self, rows: Sequence[FileRow]) -> Iterator[Splice]:
        """The whole context with the ordinals that it had."""
        kept = [row for row in rows if self.leads_somewhere(_CONTEXT, row)]
        if not kept or not self.columns.get(_CONTEXT):
            return
        cells = [Cells.of(self._cells(_CONTEXT, row)) for row in sorted(kept, key=_ordinal)]
        yield Splice(self.owner, None, None, (), tuple(cells), 0, copies=(0, len(cells)))

    def oddities(self) -> frozenset[str]:
        """What was wrong with its summaries when it was exported, and may be so again."""
        made = {
            table: {row["summary_id"] for row in self.file.rows.get(table, ())}
            for table in ("summary_messages", "summary_parents")
        }
        links, edges = made["summary_messages"], made["summary_parents"]
        return frozenset(
            summary_key(check, self.owner, self.ids["summaries"][one])
            for row in self.file.rows.get("summaries", ())
            if isinstance(self.owner, int) and (one := row["summary_id"]) is not None
            for check, wrong in (
                ("B1", row.get("kind") == "leaf" and one not in links),
                ("B2", row.get("kind") == "condensed" and one not in edges),
                ("B8", one in (edges if row.get("kind") == "leaf" else links)),
                ("B9", (row.get("kind") == "leaf") != (row.get("depth", 0) == 0)),
            )
            if wrong
        )

    def warnings(self) -> Iterator[str]:
        """What is not as it was."""
        yield from self.said
        if self.lost:
            names = ", ".join(sorted(self.lost))
            yield f"This version does not record {names}: those values are left out"
        if self.stray:
            yield f"{counted(self.stray, 'row')} left out that refer to what is not in the file"


_NOUNS: Final = {
    "summaries": "summary",
    "message_parts": "part",
    "large_files": "large file",
    "focus_briefs": "focus brief",
}


def _ordinal(row: FileRow) -> int:
    ordinal = row.get("ordinal")
    return ordinal if isinstance(ordinal, int) else 0


async def _conversation(
    reader: Reader, file: ConversationFile, importing: _Importing, now: datetime
) -> FileRow:
    """The conversation's row; of one key only one conversation can be active (engine.md 1.4)."""
    [row] = file.rows["conversations"]
    key = row.get("session_key")
    if key is None or not reader.schema.has("conversations", "session_key"):
        return row
    others = await rows_by(reader, "conversations", "session_key", [key])
    if not reader.schema.has("conversations", "active"):
        if others:
            importing.said.append("Another conversation has its session key: it comes in without one")
            return {**row, "session_key": None}
        return row
    if row.get("active", 1) == 0 or not any(one["active"] == 1 for one in others):
        return row
    importing.said.append("Another conversation of its session is active: it comes in as an archived one")
    wanted: FileRow = {
        "active": 0,
        "archived_at": iso_z(now),
        "archive_cause": row.get("archive_cause") or CAUSE,
    }
    here = importing.columns["conversations"]
    return {**row, **{name: value for name, value in wanted.items() if name in here}}
