"""Some summaries with everything below them as rows of another conversation: read, checked, and copied.

The rows are read level by level, each once, whatever cycles or diamonds there are. What cannot be copied
without adding an error to the target is refused. Every column that the file has is copied; only what names
the row or its conversation is new, and seq is below the first one of the target.

A large file stays where it is; its row is copied, since a row belongs to one conversation and goes with it.
References are ids of one length (docs/spec/format.md, "Identifiers"), so token estimates stay what they are.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.records import ContextItems, ConversationId, Edge, SummaryId
from lcm_core.base.text import phrase
from lcm_core.base.values import Record
from lcm_core.change.plan import (
    Cells,
    Edit,
    Ref,
    RowChange,
    Symbol,
    SymbolKind,
    fault_key,
    insertion,
)
from lcm_core.checks import lineage
from lcm_core.checks.check import Subject
from lcm_core.checks.structure import Structure, node_of, partial_structure
from lcm_core.engine.graph import PlainNode, SummaryGraph
from lcm_core.operations.rows import new_summary_id, pages
from lcm_core.store.conversations import seq_bounds
from lcm_core.store.database import Reader
from lcm_core.store.messages import new_file_id
from lcm_core.store.opening import SqlValue
from lcm_core.store.ownership import UNIQUE_COLUMNS, entries_noted, values_taken
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.state import GAPS, REPLAY_KEYS


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
            found[_id(link, "summary_id")].append(_number(link, "message_id"))
        for edge in self.edges:
            found[_id(edge, "summary_id")].append(_id(edge, "parent_summary_id"))
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
        _id(row, "summary_id"): row for row in await rows_by(reader, "summaries", "summary_id", seen)
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
        sources = dict.fromkeys(_id(row, "parent_summary_id") for row in rows)
        level = [source for source in sources if source not in seen]
        seen.update(dict.fromkeys(level))
    return edges, list(seen)


def _graph(summaries: Iterable[str], edges: Iterable[StoredRow]) -> SummaryGraph:
    lines = [(_id(edge, "summary_id"), _id(edge, "parent_summary_id")) for edge in edges]
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
    made = {_id(edge, "summary_id") for edge in edges}
    linked = {_id(link, "summary_id") for link in links}
    for summary, row in summaries.items():
        leaf = row["kind"] == "leaf"
        if summary not in (linked if leaf else made):
            what = "Leaf" if leaf else "Condensed summary"
            raise RefusedError(
                f"{what} {summary} has no {'source messages' if leaf else 'sources'}: what the copy covers "
                "is unknown. Fix it first; `lcm-tui doctor` shows it."
            )


def _id(row: StoredRow, column: str) -> str:
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
