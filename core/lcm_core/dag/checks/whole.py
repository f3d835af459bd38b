"""Family G, the file as a whole: schema, pages, counters, space, work of the 1.0-beta line; and E23."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.dag.checks.facts import Limits, Tally, counted, found, some, told
from lcm_core.dag.checks.state import State, conversation_row, related
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import ConversationId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

_MIB: Final = 1024 * 1024
_LARGE_WAL: Final = 64 * _MIB
_MANY_FREE_PAGES: Final = 1_000
#: Entries of transcripts that two conversations share by more than chance: ids are short.
MIN_SHARED_ENTRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """Rows of a table that refer to rows of another one that are gone."""

    table: str
    parent: str
    rowids: Sequence[int]  #: the first of them
    count: int
    fix: FixId | None


@dataclass(frozen=True, slots=True)
class Space:
    """What the file and its WAL take up."""

    pages: int
    free_pages: int
    page_size: int  #: bytes
    wal: int  #: bytes


@dataclass(frozen=True, slots=True)
class Migration:
    """What the schema lacks of the version that it otherwise is."""

    missing: Sequence[str]  #: tables and columns
    steps: Sequence[str]  #: steps that were never recorded
    leftover_index: bool  #: that of 0.4, which forbids archiving


@dataclass(frozen=True, slots=True)
class SharedEntries:
    """Entries of transcripts that stand for the same message in two conversations."""

    one: ConversationId
    other: ConversationId
    count: int


@dataclass(frozen=True, slots=True)
class Collision:
    """Messages of one conversation that claim the same entry or event."""

    conversation_id: ConversationId
    column: str
    message_ids: Sequence[int]


def damaged_pages(problems: Sequence[str]) -> Iterator[Finding]:
    """G13, ``quick_check``; *problems* as SQLite words them."""
    if problems:
        yield Finding(
            "G13",
            _BROKEN,
            None,
            (RowRef("sqlite_master", ()),),
            len(problems),
            f"SQLite finds {counted(len(problems), 'fault')} in the file itself ({problems[0][:200]}); "
            "work on a copy.",
        )


def violations(found_violations: Iterable[Violation], limits: Limits) -> Iterator[Finding]:
    """G13, ``foreign_key_check``: the same rows have findings of their own in other families."""
    for one in found_violations:
        rows = tuple(RowRef(one.table, (rowid,)) for rowid in one.rowids[: limits.rows])
        what = told(one.count, "row", None, f"refer to rows of {one.parent} that are gone.")
        yield Finding(
            "G13",
            _BROKEN,
            None,
            rows,
            one.count,
            f"In {one.table}, {what}",
            one.fix,
        )


def migration(state: Migration) -> Iterator[Finding]:
    """G12."""
    reasons = []
    if state.missing:
        reasons.append(f"it lacks {some(state.missing)}")
    if state.steps:
        reasons.append(f"it never finished {some(state.steps)}")
    if state.leftover_index:
        reasons.append(
            "it still has the index conversations_session_key_idx, which forbids archiving a session"
        )
    if reasons:
        yield found(
            "G12",
            _SUSPICIOUS,
            None,
            [RowRef("sqlite_master", ())],
            f"The migration of this file is not complete: {'; '.join(reasons)}.",
        )


def space(used: Space) -> Iterator[Finding]:
    """G14."""
    size = used.pages * used.page_size
    if used.wal > _LARGE_WAL and used.wal * 4 > size:
        sentence = f"The WAL holds {used.wal // _MIB:,} MiB beside a file of {size // _MIB:,} MiB."
        yield found("G14", _BY_DESIGN, None, [RowRef("disk", ("-wal",))], sentence)
    if used.free_pages > _MANY_FREE_PAGES and used.free_pages * 4 > used.pages:
        free = used.free_pages * used.page_size // _MIB
        sentence = f"{free:,} of {size // _MIB:,} MiB of the file are free; VACUUM would give them back."
        yield found("G14", _BY_DESIGN, None, [RowRef("disk", ("",))], sentence)


def counters_behind(behind: Iterable[tuple[str, int, int]]) -> Iterator[Finding]:
    """G15; table, recorded and largest id."""
    for table, recorded, largest in behind:
        yield found(
            "G15",
            _SUSPICIOUS,
            None,
            [RowRef("sqlite_sequence", (table,))],
            f"The id counter of {table} is at {recorded:,} although ids go to {largest:,}: ids of deleted "
            "rows may "
            "be given out again.",
        )


def stuck_batches(groups: Iterable[tuple[str, Sequence[str]]], limits: Limits) -> Iterator[Finding]:
    """G16; what is stuck, with the ids."""
    for what, ids in groups:
        if ids:
            table = "pending_compaction_batches" if "batches that" in what else "pending_summary_nodes"
            rows = [RowRef(table, (one,)) for one in ids[: limits.rows]]
            sentence = f"{counted(len(ids), 'row')} of pending work: {what}."
            yield Finding("G16", _SUSPICIOUS, None, tuple(rows), len(ids), sentence)


def untrusted(anchors: int, doubtful: int, corrupt: Sequence[int]) -> Iterator[Finding]:
    """G17."""
    if doubtful:
        yield found(
            "G17",
            _BY_DESIGN,
            None,
            [RowRef("message_transcript_anchor_trust", ())],
            f"{doubtful:,} of {counted(anchors, 'transcript anchor')} cannot be trusted. The engine keeps "
            "the messages and ignores these anchors: nothing has to be done.",
        )
    for conversation_id in corrupt:
        yield found(
            "G17",
            _BROKEN,
            ConversationId(conversation_id),
            [RowRef("conversation_transcript_epochs", (conversation_id,))],
            f"The transcript of conversation {conversation_id} is marked as corrupt.",
        )


def collisions(found_collisions: Iterable[Collision], limits: Limits) -> Iterator[Finding]:
    """E23 within a conversation, which only a missing index makes possible."""
    for one in found_collisions:
        rows = Tally(limits)
        for message_id in one.message_ids:
            rows.add("messages", message_id)
        yield rows.finding(
            "E23",
            _BROKEN,
            one.conversation_id,
            told(rows.count, "message", one.conversation_id, f"have one and the same {one.column}."),
        )


def shared_entries(pairs: Iterable[SharedEntries], state: State) -> Iterator[Finding]:
    """E23 across conversations."""
    known = {one.id: one for one in state.conversations}
    for pair in pairs:
        one, other = known.get(pair.one), known.get(pair.other)
        if pair.count < MIN_SHARED_ENTRIES or one is None or other is None:
            continue
        yield found(
            "E23",
            _BY_DESIGN if related(one, other) else _SUSPICIOUS,
            None,
            [conversation_row(pair.one), conversation_row(pair.other)],
            f"{pair.count:,} entries of a transcript stand in conversation {pair.one} and in {pair.other}.",
        )
