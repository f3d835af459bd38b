"""A deep copy of a subtree into another conversation, as edits: new ids, and seq below the target's first.

Every column that the file has is copied; only what names the row or its conversation is new.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from lcm_core.change.breaks import line_key, message_key, summary_key
from lcm_core.change.plan import Cells, Edit, RowChange, SqlValue, Symbol, SymbolKind, insertion
from lcm_core.operations.file_copies import Renamed, files_to_copy, named_in, new_ids, refer
from lcm_core.operations.subtree import Subtree
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.occupied import ONCE, seq_bounds, taken
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.wording import phrase

#: Rows that become edits between two looks at what else is to be done.
BATCH: Final = 2_000


@dataclass(frozen=True, slots=True)
class DeepCopy:
    """A subtree as rows of another conversation: what everything is called there."""

    whole: Subtree
    target: ConversationId
    session_id: str  #: of the target; the host looks for it in parts
    first_seq: int
    ids: Mapping[str, str]  #: summaries
    messages: Mapping[int, Symbol]
    files: Mapping[str, StoredRow]
    renamed: Renamed  #: files
    once: Mapping[str, frozenset[str]]  #: values that the target has, by column

    @classmethod
    async def begin(cls, reader: Reader, whole: Subtree, target: ConversationId, session_id: str) -> DeepCopy:
        """Choose the names; ids of summaries and files are random, those of messages the database gives."""
        bounds = await seq_bounds(reader, target)
        texts = [*whole.summaries.values(), *whole.messages.values()]
        named = set(await asyncio.to_thread(named_in, texts))
        for rows in _batches(list(whole.messages)):
            named |= named_in(await rows_by(reader, "message_parts", "message_id", rows))
        files = await files_to_copy(reader, named, target)
        once: dict[str, frozenset[str]] = {}
        for column in ONCE:
            held = {str(row[column]) for row in whole.messages.values() if row.get(column) is not None}
            once[column] = await taken(reader, target, column, sorted(held))
        return cls(
            whole,
            target,
            session_id,
            (1 if bounds is None else bounds.first) - len(whole.messages),
            {summary: f"sum_{secrets.token_hex(8)}" for summary in whole.summaries},
            {one: Symbol(f"new:{number}", SymbolKind.ID) for number, one in enumerate(whole.messages, 1)},
            files,
            new_ids(files),
            once,
        )

    async def edits(self, reader: Reader) -> list[Edit]:
        """Every row of the copy but those of the context; what is referred to comes first."""
        found: list[Edit] = await asyncio.to_thread(list, chain(self._files(), self._messages()))
        for ids in _batches(list(self.messages)):
            parts = await rows_by(reader, "message_parts", "message_id", ids)
            found += await asyncio.to_thread(list, self._parts(parts))
        return found + await asyncio.to_thread(list, chain(self._summaries(), self._lines()))

    def _files(self) -> Iterator[Edit]:
        for file, row in self.files.items():
            yield _insert("large_files", row, file_id=self.renamed[file], conversation_id=self.target)

    def _messages(self) -> Iterator[Edit]:
        for seq, (message, row) in enumerate(self.whole.messages.items(), self.first_seq):
            known = {column: None for column in ONCE if row.get(column) in self.once[column]}
            yield _insert(
                "messages",
                {**refer(row, self.renamed), **known},
                message_id=self.messages[message],
                conversation_id=self.target,
                seq=seq,
            )

    def _parts(self, rows: Iterable[StoredRow]) -> Iterator[Edit]:
        for row in rows:
            message = row["message_id"]
            assert isinstance(message, int)
            yield _insert(
                "message_parts",
                refer(row, self.renamed),
                part_id=str(uuid.uuid4()),
                message_id=self.messages[message],
                session_id=self.session_id,
            )

    def _summaries(self) -> Iterator[Edit]:
        for summary, row in self.whole.summaries.items():
            yield _insert(
                "summaries",
                refer(row, self.renamed),
                summary_id=self.ids[summary],
                conversation_id=self.target,
            )

    def _lines(self) -> Iterator[Edit]:
        for row in self.whole.links:
            summary, message = row["summary_id"], row["message_id"]
            assert isinstance(summary, str)
            assert isinstance(message, int)
            yield _insert(
                "summary_messages", row, summary_id=self.ids[summary], message_id=self.messages[message]
            )
        for row in self.whole.edges:
            summary, source = row["summary_id"], row["parent_summary_id"]
            assert isinstance(summary, str)
            assert isinstance(source, str)
            yield _insert(
                "summary_parents", row, summary_id=self.ids[summary], parent_summary_id=self.ids[source]
            )

    def oddities(self) -> frozenset[str]:
        """What is odd in the source and harms nobody: the copy has it too."""
        return frozenset(self._key(str(check), *names) for check, *names in self.whole.oddities())

    def _key(self, check: str, *names: str | int) -> str:
        copies = [self.messages[one].name if isinstance(one, int) else self.ids[one] for one in names]
        if len(copies) > 1:
            return line_key(check, self.target, "edge", *copies)
        kind = message_key if isinstance(names[0], int) else summary_key
        return kind(check, self.target, copies[0])

    def warnings(self) -> Iterator[str]:
        """What of the copy differs from the original."""
        for column, held in self.once.items():
            if held:
                words = f"lose the {column}, for a message of conversation {self.target} has the same one"
                yield phrase(len(held), "copied message", None, words)


def _insert(table: str, row: Mapping[str, SqlValue], **changed: SqlValue | Symbol) -> RowChange:
    return insertion(table, Cells.of({**row, **changed}))


def _batches(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
