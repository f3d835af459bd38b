"""Remnic's sessions into a lossless-claw database, conversation by conversation, as plans.

Each is brought in like an exported conversation (`operations.import_conversation`): previewed, committed in
pieces that keep no host waiting, kept in the history, undone there (docs/remnic.md, "Export").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.change.schema_new import TABLES
from lcm_core.operations.conversation_file import ConversationFile
from lcm_core.operations.import_conversation import plan_import
from lcm_core.remnic.reading import read_session
from lcm_core.remnic.records import SessionId
from lcm_core.remnic.restoring import FileRow, Restored, restore_session
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Reader
from lcm_core.store.schema import Schema
from lcm_core.store.typed import text

#: The first number of a conversation that has none.
_FREE = 1


@dataclass(frozen=True, slots=True)
class Exported:
    """A conversation that would come, or is there."""

    number: int
    session: SessionId
    messages: int
    parts: int
    summaries: int
    items: int
    notes: tuple[str, ...]
    there: bool


class Export:
    """An export on its way: every conversation once, then the plans of one after the other."""

    def __init__(self, path: Path, sessions: Sequence[SessionId]) -> None:
        self.path = path
        self.conversations: tuple[Exported, ...] = ()
        self._free: dict[SessionId, int] = {}  #: the first number for a conversation without one
        self._sessions = sessions
        self._ahead: list[tuple[SessionId, int]] | None = None
        self._there: dict[tuple[SessionId, int], int] = {}  #: what a conversation is called there
        self._batch = new_batch_id()

    @property
    def left(self) -> int:
        """How many conversations are still to come."""
        return len(self._ahead or ())

    async def plan(self, reader: Reader) -> tuple[Plan, ...]:
        """The plans of the next conversation that the database of *reader* does not hold; none at the end.

        Raises:
            LcmError: Remnic's file cannot be read, or a conversation cannot be imported.
        """
        if self._ahead is None:
            await self._look(reader)
        while self._ahead:
            session, number = self._ahead[0]
            found = {one.number: one for one in self._read(session)}
            one = found.get(number)
            if one is not None and not await self._is_there(reader, one):
                stamp = f"{self.path} {session}"
                file = ConversationFile(self.path, number, stamp, _whole(one.rows, reader.schema))
                plans = await plan_import(reader, file)
                return tuple(replace(plan, batch=self._batch) for plan in plans)
            del self._ahead[0]
        return ()

    async def _look(self, reader: Reader) -> None:
        found: list[Exported] = []
        self._ahead = []
        for one in self._each():
            there = await self._is_there(reader, one)
            found.append(_exported(one, there))
            if not there:
                self._ahead.append((one.session, one.number))
        self.conversations = tuple(found)

    async def _is_there(self, reader: Reader, one: Restored) -> bool:
        """Whether the database holds it; what stands for one conversation stands for no other."""
        others = {number for name, number in self._there.items() if name != (one.session, one.number)}
        number = await reader.run(_same_conversation, one, others)
        if number is not None:
            self._there[one.session, one.number] = number
        return number is not None

    def preview(self) -> tuple[Exported, ...]:
        """What would come into a database that is empty; blocks."""
        return tuple(_exported(one, False) for one in self._each())

    def _each(self) -> Iterator[Restored]:
        free = _FREE
        for session in self._sessions:
            self._free[session] = free
            for one in self._read(session):
                free = max(free, one.number + 1)
                yield one

    def _read(self, session: SessionId) -> tuple[Restored, ...]:
        return restore_session(read_session(self.path, session), self._free[session])


def _whole(rows: dict[str, list[FileRow]], schema: Schema) -> dict[str, list[FileRow]]:
    """The same rows with NULL in the columns of this database that may be, and of which nothing is known."""
    empty = {
        table.name: {
            column: None
            for column, definition in table.columns
            if "NOT NULL" not in definition
            and "PRIMARY KEY" not in definition
            and schema.has(table.name, column)
        }
        for table in TABLES
    }
    return {table: [{**empty.get(table, {}), **row} for row in held] for table, held in rows.items()}


def _exported(one: Restored, there: bool) -> Exported:
    tables = ("messages", "message_parts", "summaries", "context_items")
    messages, parts, summaries, items = (len(one.rows.get(table, ())) for table in tables)
    return Exported(one.number, one.session, messages, parts, summaries, items, one.notes, there)


def _same_conversation(rows: Rows, one: Restored, others: Collection[int]) -> int | None:
    """The conversation of the same session that holds every message of one, the one of its number first."""
    session = one.rows["conversations"][0]["session_id"]
    wanted = {_said(row["seq"], row["role"], row["content"]) for row in one.rows.get("messages", ())}
    for (number,) in rows.tuples(
        "SELECT conversation_id FROM conversations WHERE session_id = ? "
        "ORDER BY conversation_id <> ?, conversation_id",
        (session, one.number),
    ):
        held = rows.tuples("SELECT seq, role, content FROM messages WHERE conversation_id = ?", (number,))
        if number not in others and wanted <= {_said(*row) for row in held}:
            return int(number)
    return None


def _said(seq: object, role: object, content: object) -> tuple[object, str | None, str | None]:
    return seq, text(role), text(content)
