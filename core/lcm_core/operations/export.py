"""A conversation as a file that brings it back, what forgetting removes beside its rows, and copied rows."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from hashlib import sha256
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Final, TextIO, cast

import platformdirs

from lcm_core import __version__
from lcm_core.base.errors import DatabaseError, FileMissingError, LcmError, NotFoundError, RefusedError
from lcm_core.base.files import (
    PROGRAM,
    FileNotWrittenError,
    FileThereError,
    PartialFile,
    checked_target,
    drafts_folder,
    forget_cache,
    make_private,
    reason_of,
    sync_folder,
)
from lcm_core.base.jsonl import open_regular
from lcm_core.base.records import ContextItems, Conversation, ConversationId, Edge, SummaryId
from lcm_core.base.text import counted, phrase
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.apply import last_id
from lcm_core.change.backup import known_backups
from lcm_core.change.connection import Stop
from lcm_core.change.journal import CodecError, decode_values, encode_values, new_batch_id, operations
from lcm_core.change.place import Listing, Place, carry_out
from lcm_core.change.plan import (
    Cell,
    Cells,
    DiskFullError,
    Edit,
    Plan,
    Ref,
    RowChange,
    Splice,
    Symbol,
    SymbolKind,
    fault_key,
    insertion,
    ref_of,
    touched_rows,
    value_of,
)
from lcm_core.change.preview import row_seconds
from lcm_core.change.undo import forget_history
from lcm_core.checks import context, lineage
from lcm_core.checks.check import Subject
from lcm_core.checks.structure import Structure, node_of, partial_structure
from lcm_core.engine.graph import PlainNode, SummaryGraph
from lcm_core.operations.prune import CAUSE, deletion_pieces
from lcm_core.operations.rows import new_summary_id, pages, update
from lcm_core.store.conversations import seq_bounds
from lcm_core.store.database import Reader
from lcm_core.store.messages import new_file_id
from lcm_core.store.opening import SqlValue, database_files
from lcm_core.store.ownership import UNIQUE_COLUMNS, entries_noted, values_taken
from lcm_core.store.rows import StoredRow, ids_taken, rows_by
from lcm_core.store.schema import Schema
from lcm_core.store.state import GAPS, REPLAY_KEYS
from lcm_core.store.state import PREPARED_TABLES as PREPARED

# -- summaries with everything below them, as rows of another conversation -------------------------------
# The rows are read level by level, each once, whatever cycles or diamonds there are. What cannot be copied
# without adding an error to the target is refused. Every column that the file has is copied; only what names
# the row or its conversation is new, and seq is below the first one of the target.
#
# A large file stays where it is; its row is copied, since a row belongs to one conversation and goes with
# it. References are ids of one length (docs/spec/format.md, "Identifiers"), so token estimates stay what
# they are.


class Subtree(Record, frozen=True, dict=True):
    """Whole rows, each summary behind all of its sources and each message behind those of smaller seq."""

    summaries: Mapping[str, StoredRow]
    edges: tuple[StoredRow, ...]  #: rows of ``summary_parents``
    links: tuple[StoredRow, ...]  #: rows of ``summary_messages``
    messages: Mapping[int, StoredRow]

    @cached_property
    def below(self) -> Mapping[str, Sequence[str | int]]:
        """What each summary was made from: messages, then summaries, in the order of the rows."""
        found: dict[str, list[str | int]] = {summary: [] for summary in self.summaries}
        for link in self.links:
            found[_name_in(link, "summary_id")].append(_number(link, "message_id"))
        for edge in self.edges:
            found[_name_in(edge, "summary_id")].append(_name_in(edge, "parent_summary_id"))
        return found

    @cached_property
    def structure(self) -> Structure:
        """The same as the checks see it, with all of it in reach."""
        lines = [(one, source) for one, sources in self.below.items() for source in sources]
        tops = self.summaries.keys() - {source for _, source in lines}
        nodes = map(node_of, self.summaries.values())
        return partial_structure(0, ContextItems.naming(tops), nodes, lines, self.messages)


#: What may be wrong in the source and does no harm: a copy may have it too.
_HARMLESS: Final = frozenset({"B8", "B9", "B12", "B14", "B15"})


async def load_subtree(reader: Reader, owner: ConversationId, roots: Sequence[str]) -> Subtree:
    """Read everything under *roots*, summaries of conversation *owner*.

    Raises:
        RefusedError: a row is gone or another conversation's, a summary has no sources, one of *roots* is
            below another, or there is a cycle.
    """
    edges, seen = await _edges_below(reader, roots)
    summaries = {
        _name_in(row, "summary_id"): row for row in await rows_by(reader, "summaries", "summary_id", seen)
    }
    _check_present(owner, seen, summaries, "Summary", "summary_id")
    graph = _graph(summaries, edges)
    _check_roots(roots, graph)
    links = await rows_by(reader, "summary_messages", "summary_id", seen)
    wanted = list(dict.fromkeys(link["message_id"] for link in links))
    rows = await rows_by(reader, "messages", "message_id", wanted)
    messages = {_number(row, "message_id"): row for row in sorted(rows, key=lambda row: _number(row, "seq"))}
    _check_present(owner, wanted, messages, "Message", "message_id")
    _check_sources(summaries, edges, links)
    order = _sources_first(graph)
    return Subtree({one: summaries[one] for one in order}, tuple(edges), tuple(links), messages)


async def _edges_below(reader: Reader, roots: Sequence[str]) -> tuple[list[StoredRow], list[str]]:
    """The edges under some summaries, and all summaries that they name."""
    edges: list[StoredRow] = []
    seen = dict.fromkeys(roots)
    level = list(seen)
    while level:
        rows = await rows_by(reader, "summary_parents", "summary_id", level)
        edges += rows
        sources = dict.fromkeys(_name_in(row, "parent_summary_id") for row in rows)
        level = [source for source in sources if source not in seen]
        seen.update(dict.fromkeys(level))
    return edges, list(seen)


def _graph(summaries: Iterable[str], edges: Iterable[StoredRow]) -> SummaryGraph:
    lines = [(_name_in(edge, "summary_id"), _name_in(edge, "parent_summary_id")) for edge in edges]
    return SummaryGraph.build(
        (PlainNode(SummaryId(one), "", 0) for one in summaries),
        (Edge(SummaryId(consumer), SummaryId(source), 0) for consumer, source in lines),
        (),
    )


def _sources_first(graph: SummaryGraph) -> Iterable[SummaryId]:
    """The summaries in an order in which none comes before its sources, whatever depth they claim."""
    order = graph.sources_first
    for one in graph.nodes:
        if one not in order or one in graph.sources.get(one, ()):
            raise RefusedError(
                f"Summary {one} is part of a cycle or above one: its sources never end. Fix the source "
                "conversation first; `lcm-tui doctor` names the edges."
            )
    return order


# -- refusals --------------------------------------------------------------------------------------------


def _check_present(
    owner: ConversationId,
    wanted: Sequence[object],
    rows: Mapping[str, StoredRow] | Mapping[int, StoredRow],
    kind: str,
    column: str,
) -> None:
    known = {row[column]: row for row in rows.values()}
    for one in wanted:
        row = known.get(one) if isinstance(one, int | str) else None
        if row is None:
            raise RefusedError(
                f"{kind} {one} is referenced by the copied rows of conversation {owner}, and its row is "
                f"missing: the copy would be incomplete. Fix it first; `lcm-tui doctor {owner}` shows where."
            )
        if row["conversation_id"] != owner:
            raise RefusedError(
                f"{kind} {one} is referenced by the copied rows of conversation {owner} and belongs to "
                f"conversation {row['conversation_id']!r}. Fix it first: see `lcm-tui doctor {owner}`."
            )


def _check_roots(roots: Sequence[str], graph: SummaryGraph) -> None:
    """No root may be below another one: the copy would cover the same twice (A7)."""
    below = graph.walk(source for root in roots for source in graph.sources.get(SummaryId(root), ()))
    if double := set(roots).intersection(below):
        raise RefusedError(
            f"Summary {min(double)} and one made from it are both in the source's context: the copy would "
            "cover the same messages twice. Remove one of them first; `lcm-tui doctor` has a fix."
        )


def _check_sources(
    summaries: Mapping[str, StoredRow], edges: Iterable[StoredRow], links: Iterable[StoredRow]
) -> None:
    """Every summary must be made from something of its kind (B1, B2)."""
    made = {_name_in(edge, "summary_id") for edge in edges}
    linked = {_name_in(link, "summary_id") for link in links}
    for summary, row in summaries.items():
        leaf = row["kind"] == "leaf"
        if summary not in (linked if leaf else made):
            what = "Leaf" if leaf else "Condensed summary"
            raise RefusedError(
                f"{what} {summary} has no {'source messages' if leaf else 'sources'}: what the copy covers "
                "is unknown. Fix it first; `lcm-tui doctor` shows it."
            )


def _name_in(row: StoredRow, column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise RefusedError(f"A copied summary has {value!r} as its id; fix it first.")
    return value


def _number(row: StoredRow, column: str) -> int:
    value = row[column]
    if not isinstance(value, int):
        raise RefusedError(f"A copied message has {value!r} for its {column}; fix it first.")
    return value


# -- large files behind copied rows ---------------------------------------------------------------------


#: An id as texts refer to it; not in a path, where it is a file's name. Behind a JSON escape it is a word.
_FILE_ID: Final = re.compile(r"(?:(?<![\w/\\])|(?<=\\[nrtbf]))file_[a-f0-9]{16}\b", re.IGNORECASE | re.ASCII)
#: Columns that name rows or people and never refer to a file.
_NO_TEXT: Final = frozenset(
    {"summary_id", "part_id", "session_id", "role", "kind", "model", "created_at", "identity_hash"}
    | {"earliest_at", "latest_at", "transcript_entry_id", "stable_event_key"}
)

#: New ids by old ones.
Renamed = Mapping[str, str]


def named_in(rows: Iterable[StoredRow]) -> frozenset[str]:
    """The ids, in lower case, of the files that the texts of some rows refer to."""
    return frozenset(
        found.lower()
        for row in rows
        for column, value in row.items()
        if isinstance(value, str) and column not in _NO_TEXT and "file_" in value.lower()
        for found in _FILE_ID.findall(value)
    )


async def files_to_copy(reader: Reader, wanted: Iterable[str], target: int) -> dict[str, StoredRow]:
    """The rows of some files that the target does not have, by id."""
    rows = await rows_by(reader, "large_files", "file_id", sorted(wanted))
    return {str(row["file_id"]): row for row in rows if row["conversation_id"] != target}


def refer(row: StoredRow, renamed: Renamed) -> dict[str, SqlValue]:
    """A row whose texts refer to the copies; its identity hash follows where it is that of its text."""
    if not renamed:
        return dict(row)
    changed: dict[str, SqlValue] = {
        column: refer_text(value, renamed) if isinstance(value, str) and column not in _NO_TEXT else value
        for column, value in row.items()
    }
    plain = row.get("identity_hash") == _identity(row.get("role"), row.get("content"))
    if plain and changed["content"] != row["content"]:
        changed["identity_hash"] = _identity(changed["role"], changed["content"])
    return changed


def refer_text(text: str, names: Mapping[str, str]) -> str:
    """A text with other names for some files."""
    if "file_" not in text.lower():
        return text
    return _FILE_ID.sub(lambda found: names.get(found[0].lower(), found[0]), text)


def _identity(role: SqlValue, content: SqlValue) -> str:
    """What the engine takes for the identity of a plain message (docs/spec/ingest.md, "Hashes")."""
    if not isinstance(role, str) or not isinstance(content, str):
        return ""
    return sha256(f"{role}\0{content}".encode("utf-8", "surrogateescape")).hexdigest()


# -- the copy -------------------------------------------------------------------------------------------


#: Rows that become edits between two looks at what else is to be done.
BATCH: Final = 2_000


class DeepCopy(Record, frozen=True):
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
    entries: Mapping[str, Sequence[StoredRow]]  #: what is noted of the copied entries, by table
    half_gaps: int  #: gaps of which one side alone is copied

    @classmethod
    async def begin(cls, reader: Reader, whole: Subtree, target: ConversationId, session_id: str) -> DeepCopy:
        """Choose the names; ids of summaries and files are random, those of messages the database gives."""
        bounds = await seq_bounds(reader, target)
        texts = [*whole.summaries.values(), *whole.messages.values()]
        named = set(await asyncio.to_thread(named_in, texts))
        for rows in pages(list(whole.messages), BATCH):
            named |= named_in(await rows_by(reader, "message_parts", "message_id", rows))
        files = await files_to_copy(reader, named, target)
        once: dict[str, frozenset[str]] = {}
        for column in UNIQUE_COLUMNS:
            held = {str(row[column]) for row in whole.messages.values() if row.get(column) is not None}
            once[column] = await values_taken(reader, target, column, sorted(held))
        return cls(
            whole,
            target,
            session_id,
            (1 if bounds is None else bounds.first) - len(whole.messages),
            {summary: new_summary_id() for summary in whole.summaries},
            {one: Symbol(f"new:{number}", SymbolKind.ID) for number, one in enumerate(whole.messages, 1)},
            files,
            {file: new_file_id() for file in files},
            once,
            *await _entries_to_copy(reader, whole, target),
        )

    async def edits(self, reader: Reader) -> list[Edit]:
        """Every row of the copy but those of the context; what is referred to comes first."""
        found: list[Edit] = await asyncio.to_thread(list, chain(self._files(), self._messages()))
        for ids in pages(list(self.messages), BATCH):
            parts = await rows_by(reader, "message_parts", "message_id", ids)
            found += await asyncio.to_thread(list, self._parts(parts))
        return found + await asyncio.to_thread(list, chain(self._summaries(), self._lines(), self._entries()))

    def _files(self) -> Iterator[Edit]:
        for file, row in self.files.items():
            yield _insert("large_files", row, file_id=self.renamed[file], conversation_id=self.target)

    def _messages(self) -> Iterator[Edit]:
        for seq, (message, row) in enumerate(self.whole.messages.items(), self.first_seq):
            known = {column: None for column in UNIQUE_COLUMNS if row.get(column) in self.once[column]}
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

    def _entries(self) -> Iterator[Edit]:
        for row in self.entries[REPLAY_KEYS]:
            if row["transcript_entry_id"] not in self.once["transcript_entry_id"]:
                yield _insert(REPLAY_KEYS, row, conversation_id=self.target)
        for number, row in enumerate(self.entries[GAPS], 1):
            yield _insert(
                GAPS,
                row,
                gap_id=Symbol(f"gap:{number}", SymbolKind.ID),
                conversation_id=self.target,
                prev_message_id=self.messages[_number(row, "prev_message_id")],
                next_message_id=self.messages[_number(row, "next_message_id")],
            )

    def oddities(self) -> frozenset[str]:
        """What is odd in the source and does no harm: the copy has it too."""
        return frozenset(
            fault_key(rule.id, self.target, self._copy_of(subject))
            for rule in lineage.CHECKS
            if rule.id in _HARMLESS
            for subject in rule.subjects(self.whole.structure)
        )

    def _copy_of(self, subject: Subject) -> Ref | tuple[str, int | str]:
        if isinstance(subject, tuple):
            return self.ids[subject[0]], self.ids[str(subject[1])]
        return self.messages[subject] if isinstance(subject, int) else self.ids[str(subject)]

    def warnings(self) -> Iterator[str]:
        """What of the copy differs from the original."""
        for column, held in self.once.items():
            if held:
                words = f"lose the {column}, for a message of conversation {self.target} has the same one"
                yield phrase(len(held), "copied message", None, words)
        if self.half_gaps:
            words = "are not copied: only one side of them is"
            yield phrase(self.half_gaps, "transcript gap", None, words)


async def _entries_to_copy(
    reader: Reader, whole: Subtree, target: ConversationId
) -> tuple[Mapping[str, Sequence[StoredRow]], int]:
    """What the source has noted of entries that are copied and the target has not; and the halves of gaps."""
    keys: list[StoredRow] = []
    gaps: list[StoredRow] = []
    halves = 0
    held = {row.get("transcript_entry_id") for row in whole.messages.values()} - {None}
    for owner in {ConversationId(_number(row, "conversation_id")) for row in whole.messages.values()}:
        there = await entries_noted(reader, target, REPLAY_KEYS)
        noted = await entries_noted(reader, owner, REPLAY_KEYS)
        keys += (row for key, row in noted.items() if key[0] in held and key not in there)
        there = await entries_noted(reader, target, GAPS)
        for key, row in (await entries_noted(reader, owner, GAPS)).items():
            sides = sum(row[name] in whole.messages for name in ("prev_message_id", "next_message_id"))
            halves += sides == 1
            gaps += [row] if sides == 2 and key not in there else []
    return {REPLAY_KEYS: keys, GAPS: gaps}, halves


def _insert(table: str, row: Mapping[str, SqlValue], **changed: SqlValue | Symbol) -> RowChange:
    return insertion(table, Cells.of({**row, **changed}))


# -- the file --------------------------------------------------------------------------------------------
# JSON lines, written before a conversation is deleted, and imported again when it is wanted.
#
# The first line says what it is: ``{"format": "lcm-tui conversation", "version": 1, "conversationId":
# ...}``. Each further line is one row, ``{"table": ..., "row": {column: value}}``, with every column that
# the database had; a row comes after those that refer to it. The last line counts them: ``{"end": {table:
# rows}}``. A value that JSON cannot hold is an object: ``{"$blob": base64}`` for bytes, ``{"$text":
# base64}`` for text that is not valid UTF-8, ``{"$real": "inf"}``. Search tables are derived and not in it;
# large files stay where they are.

FORMAT: Final = "lcm-tui conversation"
VERSION: Final = 1
_STAMP: Final = "%Y%m%dT%H%M%SZ"

#: A row as it is stored.
FileRow = dict[str, SqlValue]


class ConversationFile(Record, frozen=True):
    """What a file holds."""

    path: Path
    conversation_id: int
    exported_at: str
    rows: dict[str, list[FileRow]]  #: by table


class Exported(Record, frozen=True):
    """A file that was written."""

    path: Path
    conversation_id: int
    bytes: int
    rows: int
    last_message: int  #: the largest id of a message in it; 0 without one
    summaries: frozenset[str]  #: the ids of those in it

    def covers(self, edits: Iterable[Edit]) -> bool:
        """Whether it holds all messages and summaries that some edits delete."""
        return all(
            row["message_id"] <= self.last_message
            if table == "messages" and isinstance(row["message_id"], int)
            else table != "summaries" or row["summary_id"] in self.summaries
            for table, row in _rows(edits)
        )


def default_folder() -> Path:
    """Where exported conversations of this user are kept unless a caller says otherwise."""
    return Path(platformdirs.user_data_dir(PROGRAM, appauthor=False)) / "exports"


def known_exports(folder: Path, conversations: Iterable[int]) -> list[Path]:
    """The files of some conversations in a folder, whichever database they are from."""
    found = (folder.glob(f"conversation-{number}-*.jsonl") for number in conversations)
    return sorted(path for paths in found for path in paths)


async def export_conversation(
    reader: Reader, conversation: Conversation, folder: Path, database: Path, *, now: datetime | None = None
) -> Exported:
    """Write all that a deletion would take into a new file that only this user can read, and make it last.

    Raises:
        DiskFullError: the folder cannot be written.
    """
    number, moment = conversation.conversation_id, now or datetime.now(UTC)
    wanted = folder / export_name(number, moment)
    try:
        return await _write(reader, conversation, folder, database, moment, partial(_placed, wanted))
    except OSError as error:
        raise DiskFullError(
            f"Conversation {number} cannot be exported to {folder} ({error.strerror}), so it is not deleted. "
            "Nothing was changed; make room there, or give another folder with --export-to.",
            code="EXPORT_FAILED",
        ) from error


def export_name(number: int, moment: datetime) -> str:
    """What an exported conversation is called unless a caller says otherwise, without the ending."""
    return f"conversation-{number}-{moment.astimezone(UTC):{_STAMP}}"


async def export_to(
    reader: Reader, conversation: Conversation, path: Path, database: Path, *, replace: bool = False
) -> Exported:
    """Write the same into the file at *path*, which stays as it is if it is there, unless *replace* says so.

    Raises:
        FileThereError: something of that name is there.
        FileMissingError: its folder is missing.
        FileNotWrittenError: it cannot be written.
    """
    whole = checked_target(path, never=database_files(database), replace=replace)

    def place(part: Path) -> Path:
        if replace:
            os.replace(part, whole)
        else:
            os.link(part, whole)
            part.unlink()
        sync_folder(whole.parent)
        return whole

    try:
        return await _write(reader, conversation, whole.parent, database, datetime.now(UTC), place)
    except FileExistsError as error:
        raise FileThereError(f"{whole} already exists; nothing was written.") from error
    except OSError as error:
        problem = error.strerror or "it is not a path"
        raise FileNotWrittenError(f"{whole} cannot be written ({problem}); give another name.") from error
    except ValueError as error:  # a name with a NUL
        raise FileNotWrittenError("That is not a file name; give another one.") from error


async def _write(
    reader: Reader,
    conversation: Conversation,
    folder: Path,
    database: Path,
    moment: datetime,
    place: Callable[[Path], Path],
) -> Exported:
    """Write the file, and give it its name with *place* when it is whole."""
    number = conversation.conversation_id
    writing = await asyncio.to_thread(_Writing.begin, folder, number)
    try:
        await asyncio.to_thread(writing.line, _header(conversation, database, moment))
        async for piece in deletion_pieces(reader, number):
            await asyncio.to_thread(writing.rows, piece.edits)
        target, size = await asyncio.to_thread(writing.end, place)
    finally:
        writing.leave()
    return Exported(
        target, number, size, writing.counts.total(), writing.last_message, frozenset(writing.summaries)
    )


class _Writing(Struct):
    """A file on its way, under another name until it is whole."""

    part: PartialFile
    file: TextIO
    counts: Counter[str] = field(default_factory=Counter)
    last_message: int = 0
    summaries: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, folder: Path, number: int) -> _Writing:
        """Make the folder and the file."""
        part = PartialFile.create(make_private(folder), f".conversation-{number}")
        return cls(part, part.path.open("w", encoding="ascii", newline="\n"))

    def line(self, value: object) -> None:
        """Write one line."""
        self.file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")

    def rows(self, edits: Iterable[Edit]) -> None:
        """Write the rows that some edits delete."""
        for table, row in _rows(edits):
            self.counts[table] += 1
            self.line({"table": table, "row": encode_values(row)})
            if table == "messages" and isinstance(row["message_id"], int):
                self.last_message = max(self.last_message, row["message_id"])
            elif table == "summaries":
                self.summaries.add(str(row["summary_id"]))

    def end(self, place: Callable[[Path], Path]) -> tuple[Path, int]:
        """Write the last line, make it last, and give it its name with *place*."""
        self.line({"end": dict(sorted(self.counts.items()))})
        self.file.flush()
        os.fsync(self.file.fileno())
        size = os.fstat(self.file.fileno()).st_size
        return place(self.part.path), size

    def leave(self) -> None:
        """Close the file; what is not whole is removed."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.part.close()


def _header(conversation: Conversation, database: Path, moment: datetime) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "conversationId": conversation.conversation_id,
        "sessionId": _plain(conversation.session_id),
        "sessionKey": _plain(conversation.session_key),
        "exportedAt": iso_z(moment),
        "toolVersion": __version__,
        "database": _plain(str(database)),
    }


def _plain(text: str | None) -> str | None:
    """A text without bytes that are no text; the row itself keeps them."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def _rows(edits: Iterable[Edit]) -> Iterator[tuple[str, FileRow]]:
    """The rows that some edits delete; one that only loses a reference is another conversation's."""
    for edit in edits:
        if not isinstance(edit, RowChange) or edit.after is None:
            for table, _, row in touched_rows(edit):
                yield table, {name: value_of(value) for name, value in row.values}


def _placed(wanted: Path, part: Path) -> Path:
    """Give a finished file a name that is not taken, and make the name last too."""
    number = 1
    while True:
        target = wanted.with_name(f"{wanted.name}{f'-{number}' if number > 1 else ''}.jsonl")
        try:
            os.link(part, target)
        except FileExistsError:
            number += 1
            continue
        part.unlink()
        break
    sync_folder(target.parent)
    return target


# -- reading ---------------------------------------------------------------------------------------------


def read_conversation_file(path: Path) -> ConversationFile:
    """What a file holds, checked to be whole.

    Raises:
        NotFoundError: there is no such file, or it cannot be read.
        RefusedError: it is no export of ours, or a part of one.
    """
    rows: dict[str, list[FileRow]] = {}
    header: dict[str, object] | None = None
    ended = False
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8") as file:  # a device may never end
            for number, line in enumerate(file, 1):
                found = _parsed(path, number, line)
                if header is None:
                    header = _checked(path, found)
                elif ended:
                    raise _refused(path, f"line {number} comes after its end")
                elif "end" in found:
                    ended = True
                    _check_counts(path, found["end"], rows)
                else:
                    table, row = _row_of(path, number, found)
                    rows.setdefault(table, []).append(row)
    except FileNotFoundError as error:
        raise FileMissingError(
            "exported conversation", path, "Give a file that `lcm-tui conversations delete` or `export` made."
        ) from error
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror}. Give the path of an exported conversation.",
            code="FILE_UNREADABLE",
            details={"path": str(path)},
        ) from error
    except UnicodeDecodeError as error:
        raise _refused(path, "it is not text") from error
    if header is None or not ended:
        raise _refused(path, "its end is missing: it was truncated")
    owner = header["conversationId"]
    assert isinstance(owner, int)
    _check_owner(path, owner, rows)
    return ConversationFile(path, owner, str(header.get("exportedAt") or ""), rows)


def _parsed(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"line {number} is not JSON") from error
    if not isinstance(found, dict):
        raise _refused(path, f"line {number} is not an object")
    return found


def _checked(path: Path, header: dict[str, object]) -> dict[str, object]:
    if header.get("format") != FORMAT or not isinstance(header.get("conversationId"), int):
        raise _refused(path, "its first line is not the header of an export")
    if header.get("version") != VERSION:
        raise _refused(path, f"it is of version {header.get('version')!r}; this program reads {VERSION}")
    return header


def _row_of(path: Path, number: int, found: dict[str, object]) -> tuple[str, FileRow]:
    table, row = found.get("table"), found.get("row")
    if not isinstance(table, str) or not isinstance(row, dict):
        raise _refused(path, f"line {number} is not a row")
    try:
        return table, decode_values(row)
    except CodecError as error:
        raise _refused(path, f"line {number} contains an invalid value") from error


def _check_counts(path: Path, end: object, rows: dict[str, list[FileRow]]) -> None:
    if end != {table: len(found) for table, found in rows.items()}:
        raise _refused(path, "it has missing or surplus rows")


def _check_owner(path: Path, owner: int, rows: dict[str, list[FileRow]]) -> None:
    """Every row that names a conversation names the one."""
    if len(rows.get("conversations", ())) != 1:
        raise _refused(path, "it does not contain exactly one conversation")
    for table, found in rows.items():
        if any(row.get("conversation_id", owner) != owner for row in found):
            raise _refused(path, f"a row of {table} belongs to another conversation")


def _refused(path: Path, reason: str) -> RefusedError:
    return RefusedError(
        f"{path} is not a complete export of a conversation: {reason}. Nothing was changed.",
        code="FILE_INVALID",
    )


class Traces(Record, frozen=True):
    """What was noted about conversations and is gone."""

    operations: int = field(name="historyForgotten", default=0)  #: that are no longer in the history
    #: files that held drafts of their summaries or briefs
    drafts: tuple[Path, ...] = field(name="draftsForgotten", default=())

    def __add__(self, other: Traces) -> Traces:
        """Both together."""
        return Traces(self.operations + other.operations, (*self.drafts, *other.drafts))

    def add_to(self, error: LcmError) -> None:
        """Say in the error of a change that was not made what is gone all the same."""
        if self.operations:
            error.message += (
                f" Only the history lost {counted(self.operations, 'operation')} that touched it."
            )
            error.args = (error.message,)


def forgetting_means(database: Path, conversations: Sequence[ConversationId]) -> tuple[str, ...]:
    """What has to be known before it is agreed to, and where copies are left; sentences without an end.

    Looks into folders, so call it in a thread.
    """
    return (
        "This cannot be undone: every row and all records of lcm-tui about it are deleted, nothing is "
        "exported, and the file is rewritten (VACUUM)",
        "Large files, transcripts of the host, copies in other conversations and backups are not touched",
        *(f"An export is at {path}" for path in known_exports(default_folder(), conversations)),
        *(f"A backup is at {one.path}" for one in known_backups(database)),
    )


def forget_traces(
    database: Path, conversation: ConversationId, *, wait: float = 5.0, stopped: Stop | None = None
) -> Traces:
    """Remove what our own history and drafts hold of a conversation, while its rows are still there; blocks.

    The private index and what is remembered of the file go as a whole: both hold words of it.

    Raises:
        RefusedError: a file in the cache folder cannot be removed.
        CancelledError: *stopped* said so before the lock was ours.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    # Only who forgets needs those who write: 50 ms of each deletion and import.
    from lcm_core.operations.drafts import forget_drafts
    from lcm_core.operations.focus import forget_brief_drafts

    try:
        forget_cache(database, searches=False)
    except OSError as error:
        raise RefusedError(f"{error.filename} cannot be removed ({reason_of(error)}).") from error
    operations = forget_history(database, conversation, wait=wait, stopped=stopped)
    drafts = forget_drafts(drafts_folder(), database, [conversation])
    return Traces(operations, (*drafts, *forget_brief_drafts(database, [conversation])))


# -- importing it ----------------------------------------------------------------------------------------
# The plans that bring an exported conversation back, into the database it came from or into another.
#
# Ids stay what they were as long as they are free; else the conversation, its messages, or single
# summaries, parts, files and briefs get new ones. Columns that this database does not have are left out.
#
# What takes longer is committed in pieces that keep no host waiting, and no host finds it before it is
# whole: until the last piece it is archived, without its session (docs/spec/changes.md, "How long the host
# waits").

#: Seconds for which a host waits for one piece, about (`lcm_core.change.preview`).
PIECE_SECONDS: Final = 0.02
#: Context items that are not parted.
CONTEXT_ROWS: Final = 500
#: New ids of messages begin so far behind the largest one: a host may append that much until the first piece
#: is committed. It holds the largest id, so that the host continues behind it.
ROOM: Final = 1_000
_LAST_ID: Final = 2**63 - 1

#: Tables in which every row refers only to rows of tables before its own; others come before the last.
_ORDER: Final = (
    *("conversations", "large_files", "messages", "message_parts", "summaries", "summary_messages"),
    *("summary_parents", "focus_briefs", "focus_brief_sources"),
)
#: What comes with the summary that was made.
_LINES: Final = ("summary_messages", "summary_parents")
_CONTEXT: Final = "context_items"
#: The checks that an import may break as the conversation did when it was exported.
_MAY_BE_SO: Final = frozenset({"A3", "A4", "A6", "A7", "A9", "B1", "B2", "B8", "B9", "B12", "B14", "B15"})
#: Never written by an import: our own tables, the engine's notes about its migrations, SQLite's.
_FORBIDDEN: Final = ("lcm_", "sqlite_")

_NewId = Callable[[], str]
_KEYS: Final[Mapping[str, tuple[str, _NewId]]] = {
    "summaries": ("summary_id", new_summary_id),
    "message_parts": ("part_id", lambda: str(uuid.uuid4())),
    "large_files": ("file_id", new_file_id),
    "focus_briefs": ("brief_id", lambda: f"focus_{secrets.token_hex(8)}"),
}
#: Columns that name a message; where it is not in the file, the last two name none, as if it were deleted.
_MESSAGES: Final = ("message_id", "prev_message_id", "next_message_id")
#: Columns by the table whose rows they name.
_NAMES: Final[Mapping[str, str]] = {
    "summary_id": "summaries",
    "parent_summary_id": "summaries",
    "part_id": "message_parts",
    "file_id": "large_files",
    "brief_id": "focus_briefs",
}


async def plan_import(
    reader: Reader, file: ConversationFile, *, now: datetime | None = None
) -> tuple[Plan, ...]:
    """Insert a conversation as it was exported; an active session of the same key makes it an archived one.

    One plan for each piece, to be committed in their order.

    Raises:
        DatabaseError: this database lacks a table that it needs.
        RefusedError: an earlier import of the file was stopped, or a table has no ids left.
    """
    moment = now or datetime.now(UTC)
    marker = _marker(file)
    await _refuse_half(reader, file, marker)
    importing = await _Importing.begin(reader, file)
    row = await _conversation(reader, file, importing, moment)
    pieces = _packed(importing.units(), reader.schema)
    opening: Edit = importing.insert("conversations", row)
    if len(pieces) > 1:
        held = {name: value for name, value in _hidden(marker, moment).items() if name in row}
        opening = importing.insert("conversations", {**row, **held})
        pieces[-1].append(
            update(
                "conversations", opening.row.as_dict(), importing.insert("conversations", row).row.as_dict()
            )
        )
    pieces[0].insert(0, opening)
    messages, summaries = (len(file.rows.get(table, ())) for table in ("messages", "summaries"))
    as_new = "" if importing.owner == file.conversation_id else ", as a new conversation"
    title = (
        f"Import conversation {file.conversation_id}{as_new}: {counted(messages, 'message')}, "
        f"{counted(summaries, 'summary')}"
    )
    batch = new_batch_id() if len(pieces) > 1 else None
    warnings, allowed = tuple(importing.warnings()), importing.oddities(chain.from_iterable(pieces))
    return tuple(
        Plan(
            kind="import",
            title=title if batch is None else f"{title}, part {number:,} of {len(pieces):,}",
            conversation_id=importing.owner,
            edits=tuple(edits),
            warnings=warnings if number == 1 else (),
            batch=batch,
            allows=allowed,
        )
        for number, edits in enumerate(pieces, 1)
    )


# -- pieces ----------------------------------------------------------------------------------------------


def _packed(units: Iterable[Sequence[Edit]], schema: Schema) -> list[list[Edit]]:
    """What may not be parted, put together as long as a host does not wait too long; at least one piece."""
    pieces: list[list[Edit]] = [[]]
    seconds = 0.0
    for unit in units:
        if seconds >= PIECE_SECONDS:
            pieces.append([])
            seconds = 0.0
        pieces[-1] += unit
        for table, _, row in (one for edit in unit for one in touched_rows(edit)):
            seconds += row_seconds(table, row, schema)
    return pieces


def _marker(file: ConversationFile) -> str:
    """What replaces the session of a conversation until all of the file is there."""
    named = f"{file.conversation_id}\n{file.exported_at}".encode("utf-8", "surrogatepass")
    return f"lcm-tui:import:{hashlib.sha256(named).hexdigest()[:16]}"


def _hidden(marker: str, now: datetime) -> FileRow:
    """A conversation that no host finds: it looks for a session's key, else for its id."""
    return {
        "session_id": marker,
        "session_key": None,
        "active": 0,
        "archived_at": iso_z(now),
        "archive_cause": "import",
    }


async def _refuse_half(reader: Reader, file: ConversationFile, marker: str) -> None:
    if not reader.schema.has("conversations", "session_id"):
        return
    for row in await rows_by(reader, "conversations", "session_id", [marker]):
        half = row["conversation_id"]
        assert isinstance(half, int)
        found = await reader.run(operations, limit=1, conversation_id=half)
        batch = found[0].batch if found else None
        take = (
            f"`lcm-tui history undo {batch} --apply`" if batch else f"`lcm-tui conversations delete {half}`"
        )
        raise RefusedError(
            f"An earlier import of {file.path} was stopped or is still running: conversation {half} "
            f"contains a part of it. Undo that with {take}, then import it again; nothing was changed.",
            code="IMPORT_BEGUN",
        )


# -- rows ------------------------------------------------------------------------------------------------


class _Importing(Struct):
    """What everything is called in this database."""

    file: ConversationFile
    columns: Mapping[str, frozenset[str]]
    owner: int
    messages: Mapping[object, int]
    ids: Mapping[str, Mapping[object, str]]  #: by table
    said: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)  #: values of columns that are not there
    stray: int = 0  #: rows that refer to what is not in the file
    gaps: frozenset[SqlValue] = frozenset()  #: ids of gaps that are taken here

    @classmethod
    async def begin(cls, reader: Reader, file: ConversationFile) -> _Importing:
        """Look which ids are taken."""
        number = file.conversation_id
        columns = reader.schema.tables
        for table in ("conversations", "messages"):
            if not columns.get(table):
                raise DatabaseError(f"This database has no table {table}: nothing can be imported into it.")
        there = await rows_by(reader, "conversations", "conversation_id", [number])
        owner = await _next_id(reader, "conversations", "conversation_id") if there else number
        held = [row["message_id"] for row in file.rows.get("messages", ())]
        taken = await ids_taken(reader, "messages", "message_id", held)
        first = 0
        if taken:
            first = await _next_id(reader, "messages", "message_id", len(held) + ROOM) + ROOM
        messages: dict[object, int] = {}
        for place, one in enumerate(held):
            assert isinstance(one, int)
            messages[one] = first + place if taken else one
        ids: dict[str, dict[object, str]] = {}
        for table, (column, new) in _KEYS.items():
            names = [row[column] for row in file.rows.get(table, ())]
            used = await ids_taken(reader, table, column, names)
            ids[table] = {one: new() if one in used else str(one) for one in names}
        gaps = [row.get("gap_id") for row in file.rows.get(GAPS, ())]
        made = cls(file, columns, owner, messages, ids, gaps=await ids_taken(reader, GAPS, "gap_id", gaps))
        if there:
            made.said.append(f"Conversation {number} already exists here, so the import gets a new number")
        if taken:
            made.said.append("Some message ids already exist here, so all messages get new ids")
        for table, renamed in ids.items():
            count = sum(old != new for old, new in renamed.items())
            if count:
                made.said.append(
                    phrase(count, _NOUNS[table], None, "get a new id, because the old one already exists")
                )
        return made

    @property
    def renames(self) -> bool:
        """Whether the conversation, its messages or its summaries are called something else here."""
        return (
            self.owner != self.file.conversation_id
            or any(old != new for old, new in self.messages.items())
            or any(old != new for old, new in self.ids["summaries"].items())
        )

    def units(self) -> Iterator[Sequence[Edit]]:
        """All rows but the conversation's, by what may not be parted; nothing refers ahead."""
        lines = {table: self._by_summary(table) for table in _LINES}
        together: list[Edit] = []
        for table in self.tables():
            rows = self.file.rows[table]
            if table in _LINES:
                continue
            if table == "summaries":
                for group in self._sources_first(rows):
                    made = [self.insert(table, row) for row in group if self.leads_somewhere(table, row)]
                    keys = [row["summary_id"] for row in group]
                    yield [
                        *made,
                        *(edit for key in keys for one in lines.values() for edit in one.pop(key, ())),
                    ]
            elif table == "messages":
                # The largest id first: what a host appends meanwhile is numbered behind it.
                for row in sorted(rows, key=lambda row: -self.messages[row["message_id"]]):
                    yield [self.insert(table, row)]
            elif table in _ORDER or table not in PREPARED:
                yield from ([self.insert(table, row)] for row in rows if self.leads_somewhere(table, row))
            else:
                together += (self.insert(table, row) for row in rows if self.leads_somewhere(table, row))
        yield from self.context(self.file.rows.get(_CONTEXT, ()))
        if together:  # these refer to each other, and a host continues with what it has prepared
            yield together

    def _by_summary(self, table: str) -> dict[object, list[Edit]]:
        found: dict[object, list[Edit]] = {}
        if self.columns.get(table):
            for row in self.file.rows.get(table, ()):
                if self.leads_somewhere(table, row):
                    found.setdefault(row.get("summary_id"), []).append(self.insert(table, row))
        return found

    def _sources_first(self, rows: Sequence[FileRow]) -> Iterator[Sequence[FileRow]]:
        """Summaries one by one, each behind its sources; those on or above a cycle together."""
        by_id = {_id(row, "summary_id"): row for row in rows}
        graph = SummaryGraph.build(
            (PlainNode(one, str(row.get("kind")), 0) for one, row in by_id.items()),
            (
                Edge(_id(line, "summary_id"), _id(line, "parent_summary_id"), 0)
                for line in self.file.rows.get("summary_parents", ())
            ),
            (),
        )
        for one in graph.sources_first:
            yield [by_id[one]]
        done = {id(by_id[one]) for one in graph.sources_first}
        if rest := [row for row in rows if id(row) not in done]:
            yield rest

    def tables(self) -> Iterator[str]:
        """The tables of the file that this database has, in an order in which nothing refers ahead."""
        rest = sorted(set(self.file.rows) - {*_ORDER, _CONTEXT})
        for table in (*_ORDER[1:], *rest):
            count = len(self.file.rows.get(table, ()))
            if count and (table.startswith(_FORBIDDEN) or not self.columns.get(table)):
                self.said.append(
                    f"{counted(count, 'row')} of {table} not imported: this database has no such table"
                )
            elif count and table in PREPARED and self.renames:
                self.said.append(
                    f"{counted(count, 'row')} of {table} not imported: prepared compactions belong to the "
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

    def insert(self, table: str, row: FileRow) -> RowChange:
        """A row under its new names."""
        return insertion(table, Cells.of(self._cells(table, row)))

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
            elif column in _MESSAGES:
                found[column] = self.messages.get(row[column])
            elif column == "gap_id" and value in self.gaps:
                found[column] = Symbol(f"gap:{value!r}", SymbolKind.ID)
            elif column in _NAMES:
                found[column] = self.ids[_NAMES[column]].get(row[column])
            else:
                found[column] = value
        return found

    def context(self, rows: Sequence[FileRow]) -> Iterator[Sequence[Splice]]:
        """The whole context with the ordinals that it had, from its beginning."""
        if not self.columns.get(_CONTEXT):
            return
        kept = sorted((row for row in rows if self.leads_somewhere(_CONTEXT, row)), key=_ordinal)
        listing = Listing.of(())
        for start in range(0, len(kept), CONTEXT_ROWS):
            some = kept[start : start + CONTEXT_ROWS]
            place = Place(len(listing), tuple(map(_ordinal, some)), 0)
            cells = [Cells.of(self._cells(_CONTEXT, row)) for row in some]
            yield [carry_out(listing, self.owner, place, (), cells).splice]

    def oddities(self, edits: Iterable[Edit]) -> frozenset[str]:
        """What was wrong with its summaries and its context when it was exported, and is so again."""
        rows: dict[str, list[Cells]] = {}
        for table, _, row in chain.from_iterable(map(touched_rows, edits)):
            rows.setdefault(table, []).append(row)
        items = rows.get(_CONTEXT, [])
        refs = [ref if isinstance(ref := ref_of(row), int | str) else None for row in items]
        structure = partial_structure(
            self.owner,
            ContextItems.naming(refs, [cast(int, row["ordinal"]) for row in items]),
            [node_of(row.as_dict()) for row in rows.get("summaries", ())],
            [
                (str(row["summary_id"]), cast(int | str, row[source]))
                for table, source in zip(_LINES, ("message_id", "parent_summary_id"), strict=True)
                for row in rows.get(table, ())
            ],
            [cast(int, row["message_id"]) for row in rows.get("messages", ())],
        )
        return frozenset(
            fault_key(rule.id, self.owner, subject)
            for rule in (*context.CHECKS, *lineage.CHECKS)
            if rule.id in _MAY_BE_SO
            for subject in rule.subjects(structure)
        )

    def warnings(self) -> Iterator[str]:
        """What is not as it was."""
        yield from self.said
        if self.lost:
            names = ", ".join(sorted(self.lost))
            yield f"This version does not record {names}: those values are not imported"
        if self.stray:
            yield (
                f"{counted(self.stray, 'row')} not imported because they refer to rows that are not in "
                "the file"
            )


_NOUNS: Final = {
    "summaries": "summary",
    "message_parts": "part",
    "large_files": "large file",
    "focus_briefs": "focus brief",
}


async def _next_id(reader: Reader, table: str, column: str, count: int = 1) -> int:
    """The first of some ids that a table has not used yet."""
    last = await reader.run(last_id, table, column)
    if last > _LAST_ID - count:
        raise RefusedError(f"Table {table} has no ids left. Nothing was changed.")
    return last + 1


def _id(row: FileRow, column: str) -> SummaryId:
    """What a file gives for an id: of any type, as it was stored."""
    return cast(SummaryId, row.get(column))


def _ordinal(row: FileRow) -> int:
    ordinal = row.get("ordinal")
    return ordinal if isinstance(ordinal, int) else 0


async def _conversation(
    reader: Reader, file: ConversationFile, importing: _Importing, now: datetime
) -> FileRow:
    """The conversation's row; of one key only one can be active (docs/spec/format.md, "conversations")."""
    [row] = file.rows["conversations"]
    key = row.get("session_key")
    if key is None or not reader.schema.has("conversations", "session_key"):
        return row
    others = await rows_by(reader, "conversations", "session_key", [key])
    if not reader.schema.has("conversations", "active"):
        if others:
            importing.said.append("Another conversation has its session key: it is imported without one")
            return {**row, "session_key": None}
        return row
    if row.get("active", 1) == 0 or not any(one["active"] == 1 for one in others):
        return row
    importing.said.append("Another conversation of its session is active: it is imported as archived")
    wanted: FileRow = {
        "active": 0,
        "archived_at": iso_z(now),
        "archive_cause": row.get("archive_cause") or CAUSE,
    }
    here = importing.columns["conversations"]
    return {**row, **{name: value for name, value in wanted.items() if name in here}}
