"""Archive or delete whole conversations: which ones, the plans, and the space they use.

docs/spec/decisions.md, "Archiving and deleting".
"""

from __future__ import annotations

import fnmatch
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.javascript import first_units
from lcm_core.base.paths import resolve_transcript
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.times import iso_z, parse_utc, sql_utc
from lcm_core.base.tokens import utf16_length
from lcm_core.base.values import Record, Struct, field
from lcm_core.change.place import splice_at
from lcm_core.change.plan import (
    Cell,
    Cells,
    Edit,
    Keeping,
    Plan,
    RowChange,
    Splice,
    deletion,
    deletions,
    fault_key,
    listed,
    ref_of,
    row_counts,
    rows_words,
    touched_rows,
)
from lcm_core.operations.rows import forget, in_context_order, listing_of, pages, refuse_active, update
from lcm_core.store.conversations import first_texts, get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.opening import SqlValue
from lcm_core.store.ownership import consumers_first, foreign_uses, message_seqs
from lcm_core.store.rows import StoredRow, owning_tables, referring_columns, rows_by
from lcm_core.store.state import PREPARED_TABLES, batches_of, keeps_checkpoints, transcripts
from lcm_core.store.statistics import ConversationSize, conversation_sizes, measured

# -- the engine's cleaners -------------------------------------------------------------------------------
# What the engine's own cleaners would delete (docs/spec/doctor.md, "Its cleaners").
#
# They select by what a session was for: sub-agents that have ended, jobs on a clock. `conversations delete`
# deletes the selection: it has a preview and can be undone.


class Cleaner(StrEnum):
    """A filter of the engine's ``doctor clean``, by its id there and in its order."""

    ARCHIVED_SUBAGENTS = "archived_subagents"
    CRON_SESSIONS = "cron_sessions"
    NULL_SUBAGENT_CONTEXT = "null_subagent_context"


#: What each selects, in a phrase.
MEANINGS: Final[Mapping[Cleaner, str]] = MappingProxyType(
    {
        Cleaner.ARCHIVED_SUBAGENTS: "archived conversations of sub-agents",
        Cleaner.CRON_SESSIONS: "conversations of scheduled jobs, active ones too",
        Cleaner.NULL_SUBAGENT_CONTEXT: "archived conversations without a session key that begin with "
        "[Subagent Context]",
    }
)
#: How the first message of a sub-agent without a key begins.
SUBAGENT_CONTEXT: Final = "[Subagent Context]"
#: The lane, behind the agent's name in a key, by which a cleaner knows its conversations.
_LANES: Final = MappingProxyType({Cleaner.ARCHIVED_SUBAGENTS: "subagent", Cleaner.CRON_SESSIONS: "cron"})
#: UTF-16 units of a first message that the engine shows.
_PREVIEW: Final = 120
_CUT: Final = "..."


class Cleaning(Record, frozen=True):
    """Which of the cleaners are meant: a conversation is when one of them selects it."""

    cleaners: tuple[Cleaner, ...] = tuple(Cleaner)
    agents: tuple[str, ...] = ("main",)  #: ids of the host's agents


class Cleaned(Record, frozen=True):
    """What the cleaners select."""

    cleaning: Cleaning
    chosen: Mapping[ConversationId, Sequence[Cleaner]]  #: who selects each
    previews: Mapping[ConversationId, str]  #: how their first messages begin, in one line
    others: Mapping[str, int]  #: agents that are not the host's, and how many of theirs would be selected


async def cleaned(reader: Reader, counts: Sequence[ConversationSize], cleaning: Cleaning) -> Cleaned:
    """What *cleaning* selects of the conversations in *counts*; reads first messages, and only of these."""
    keyless = [
        one.id
        for one in counts
        if one.conversation.session_key is None
        and one.conversation.active is False
        and one.conversation.archived_at is not None
    ]
    wanted = Cleaner.NULL_SUBAGENT_CONTEXT in cleaning.cleaners
    begins = await first_texts(reader, keyless, len(SUBAGENT_CONTEXT)) if wanted else {}
    agents = frozenset(agent.strip().lower() for agent in cleaning.agents)
    chosen: dict[ConversationId, Sequence[Cleaner]] = {}
    others: dict[str, int] = {}
    for one in counts:
        known = one.conversation
        by = [cleaner for cleaner in cleaning.cleaners if _is_of(known, cleaner, agents)]
        if not by and known.agent is not None and any(_in_lane(known, one) for one in cleaning.cleaners):
            others[known.agent] = others.get(known.agent, 0) + 1
        if begins.get(one.id, "") == SUBAGENT_CONTEXT:
            by.append(Cleaner.NULL_SUBAGENT_CONTEXT)
        if by:
            chosen[one.id] = by
    texts = await first_texts(reader, list(chosen), 2 * _PREVIEW)
    previews = {one: preview_of(text) for one, text in texts.items()}
    return Cleaned(cleaning, chosen, previews, others)


def _is_of(one: Conversation, cleaner: Cleaner, agents: Collection[str]) -> bool:
    """Whether the key begins with that of one of the *agents*, in lower case, and a cleaner's lane."""
    lane, key = _LANES.get(cleaner), one.session_key or ""
    if lane is None or (cleaner is Cleaner.ARCHIVED_SUBAGENTS and one.active is not False):
        return False
    agent, found, _ = key.removeprefix("agent:").partition(f":{lane}:")
    return bool(found and agent) and key.startswith("agent:") and agent.lower() in agents


def _in_lane(one: Conversation, cleaner: Cleaner) -> bool:
    """Whether the key is of a cleaner's lane, whoever the agent is."""
    lane = _LANES.get(cleaner)
    if lane is None or one.agent is None or not one.lane.startswith(f"{lane}:"):
        return False
    return cleaner is not Cleaner.ARCHIVED_SUBAGENTS or one.active is False


def preview_of(text: str) -> str:
    """The beginning of a message as the engine shows it: one line of 120 UTF-16 units at most."""
    line = " ".join(text.split())
    return line if utf16_length(line) <= _PREVIEW else first_units(line, _PREVIEW - len(_CUT)) + _CUT


# -- which conversations ---------------------------------------------------------------------------------

#: Rows that are planned before the first of them is committed; what is left is planned afterwards.
WAVE_ROWS: Final = 8_000
#: What the engine notes when a conversation is ended on purpose: its own repair never
#: joins such a conversation to a later one.
CAUSE: Final = "manual-reset"
#: From this share of the conversations on their texts are measured in one scan of the file.
_WHOLE_SHARE: Final = 0.5


class TranscriptFolders(Record, frozen=True):
    """Where transcripts of sessions are looked for."""

    sessions: Path
    state: Path


class Criteria(Record, frozen=True):
    """Which conversations are meant: all conditions that are given must hold."""

    ids: tuple[ConversationId, ...] = ()
    older_than: timedelta | None = None  #: by the newest message, else by when it was made
    larger_than: int | None = None  #: bytes of texts
    empty: bool = False  #: no message, no summary, no context item
    max_messages: int | None = None
    session_pattern: str | None = None  #: a glob over session key and session id
    no_key: bool = False  #: without a session key, in a version that records them
    orphaned: TranscriptFolders | None = None  #: its transcript is recorded and not there any more
    archived: bool = False  #: archived ones only
    cleaning: Cleaning | None = None  #: what the engine's own cleaners would delete

    def __bool__(self) -> bool:
        return self != Criteria()


class Selection(Record, frozen=True):
    """The conversations that are meant, and what the cleaners said when they were asked."""

    conversations: Sequence[ConversationSize]  #: the largest first
    cleaned: Cleaned | None


async def select(
    reader: Reader, criteria: Criteria, now: datetime | None = None, *, sizes: bool = True
) -> Sequence[ConversationSize]:
    """The conversations that are meant, as `selection` finds them."""
    return (await selection(reader, criteria, now, sizes=sizes)).conversations


async def selection(
    reader: Reader, criteria: Criteria, now: datetime | None = None, *, sizes: bool = True
) -> Selection:
    """The conversations that are meant; all of them for no criteria.

    Bytes cost a scan of the texts; without *sizes* they are read only when a condition asks for them.

    Raises:
        NotFoundError: there is no conversation of this id.
    """
    for one in criteria.ids:
        await get_conversation(reader, one)
    counts = await conversation_sizes(reader)
    found = [one for one in counts if _meant(one, criteria, now or datetime.now(UTC))]
    if criteria.orphaned is not None:
        orphans = await _orphaned(reader, criteria.orphaned)
        found = [one for one in found if one.id in orphans]
    junk = None if criteria.cleaning is None else await cleaned(reader, found, criteria.cleaning)
    if junk is not None:
        found = [one for one in found if one.id in junk.chosen]
    if sizes or criteria.larger_than is not None:
        found = await measured(reader, found, whole=len(found) > len(counts) * _WHOLE_SHARE)
    if criteria.larger_than is not None:
        found = [one for one in found if (one.bytes or 0) > criteria.larger_than]
    return Selection(sorted(found, key=lambda one: (-(one.bytes or 0), -one.messages, one.id)), junk)


def _meant(one: ConversationSize, criteria: Criteria, now: datetime) -> bool:
    """The conditions that counts and columns of the conversation decide."""
    known = one.conversation
    at = parse_utc(one.at)
    older = criteria.older_than is None or (at is not None and at < now - criteria.older_than)
    pattern = criteria.session_pattern
    names = [name for name in (known.session_key, known.session_id) if name]
    return (
        (not criteria.ids or one.id in criteria.ids)
        and older
        and (not criteria.empty or one.empty)
        and (criteria.max_messages is None or one.messages <= criteria.max_messages)
        and (pattern is None or any(fnmatch.fnmatchcase(name, pattern) for name in names))
        and (not criteria.no_key or not known.session_key)
        and (not criteria.archived or known.active is False)
    )


async def _orphaned(reader: Reader, folders: TranscriptFolders) -> Collection[int]:
    """Conversations whose transcript the database names and the disk does not have."""
    recorded = await transcripts(reader) if keeps_checkpoints(reader.schema) else []
    return {
        one
        for one, stored in recorded
        if not resolve_transcript(stored, sessions=folders.sessions, state_dir=folders.state).found
    }


# -- archiving -------------------------------------------------------------------------------------------


async def plan_archive(
    reader: Reader, conversations: Sequence[ConversationId], *, now: datetime | None = None
) -> Plan:
    """Put conversations away as the engine does at a reset: every row stays, the host begins a new one.

    Those that are archived already are left alone; a plan without edits when all are.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: this version of the engine archives nothing.
    """
    if not reader.schema.has("conversations", "active"):
        raise RefusedError(
            "This database was written by an engine before 0.6, which archives no conversation. Delete "
            "unwanted conversations instead; nothing was changed."
        )
    moment = now or datetime.now(UTC)
    edits: list[RowChange] = []
    live: list[Conversation] = []
    for one in dict.fromkeys(conversations):
        conversation = await get_conversation(reader, one)
        if conversation.active is False:
            continue
        live.append(conversation)
        [row] = await rows_by(reader, "conversations", "conversation_id", [one])
        wanted: dict[str, Cell] = {
            "active": 0,
            "archived_at": iso_z(moment),
            "archive_cause": CAUSE,
            "updated_at": sql_utc(moment),
        }
        edits.append(update("conversations", row, wanted))
    ids = [one.conversation_id for one in live]
    warnings = ["The host starts a new, empty conversation at the next message of an archived session"]
    if left := [one for one in dict.fromkeys(conversations) if one not in ids]:
        warnings.append(
            f"{_named(left).capitalize()}, already archived, {'is' if len(left) == 1 else 'are'} left"
        )
    return Plan(
        kind="archive",
        title=f"Archive {_named(ids)}",
        conversation_id=ids[0] if len(ids) == 1 else None,
        edits=tuple(edits),
        warnings=tuple(warnings) if live else (),
    )


def _named(ids: Sequence[ConversationId]) -> str:
    if len(ids) == 1:
        return f"conversation {ids[0]}"
    listed = ", ".join(str(one) for one in ids[:5]) + (", ..." if len(ids) > 5 else "")
    return f"{len(ids):,} conversations ({listed})"


# -- deleting --------------------------------------------------------------------------------------------
# A deletion is made in pieces, each a plan and a commit of its own; after each, the planner plans what is
# left. A conversation whose rows are used elsewhere is refused.
#
# Whatever refers to a row is deleted before it, so the database is sound after every piece: the context
# first, then what the engine has prepared, briefs, summaries (each before its sources), messages, what else
# belongs to it, and the conversation itself (docs/spec/format.md, "Deleting").


class Deletion(Record, frozen=True):
    """The next plans of a deletion."""

    plans: tuple[Plan, ...]
    complete: bool  #: nothing is left after them


async def plan_delete(
    reader: Reader,
    conversations: Sequence[ConversationId],
    *,
    forget: bool = False,
    rows: int = WAVE_ROWS,
) -> Deletion:
    """Take conversations away, every row; those that are gone already are left out.

    One plan for each piece, and no more plans than *rows* rows take (at least one): ask again for the rest
    after they were committed. *forget*: nothing is kept to undo it.

    Raises:
        RefusedError: something of another conversation needs a row of one of them.
    """
    plans: list[Plan] = []
    planned = 0
    for one in dict.fromkeys(conversations):
        held = await rows_by(reader, "conversations", "conversation_id", [one])
        if not held:
            continue
        warnings = await _refuse_if_used(reader, one)
        conversation = await get_conversation(reader, one)
        async for piece in deletion_pieces(reader, one):
            if plans and planned >= rows:
                return Deletion(tuple(plans), complete=False)
            plans.append(_plan(conversation, piece, warnings, forget))
            planned += piece.rows
            warnings = ()  # once is enough
    return Deletion(tuple(plans), complete=True)


def _plan(conversation: Conversation, piece: DeletionPiece, warnings: Sequence[str], forget: bool) -> Plan:
    number = conversation.conversation_id
    verb = "Forget" if forget else "Delete"
    deleted = ((count.table, count.delete) for count in row_counts(piece.edits))
    return Plan(
        kind="forget" if forget else "delete",
        title=f"{verb} conversation {number} {conversation.lane}: {rows_words(deleted)}",
        conversation_id=number,
        edits=tuple(piece.edits),
        warnings=tuple(warnings),
        allows=piece.leaves(),
        keeping=Keeping.NOWHERE if forget else Keeping.APART,
        whole=True,
    )


async def _refuse_if_used(reader: Reader, one: ConversationId) -> tuple[str, ...]:
    """Warnings about what is only named elsewhere.

    Raises:
        RefusedError: something else needs a row of this conversation.
    """
    archive = f"`lcm-tui conversations archive {one} --apply`"
    instead = f"; or archive the conversation first (K in the list of conversations, {archive})"
    refuse_active(await batches_of(reader, one), f"conversation {one} cannot be deleted", instead)
    uses = await foreign_uses(reader, one)
    needed = [
        f"{use.user} of conversation {use.conversation_id} needs {use.used}" for use in uses if not use.file
    ]
    if needed:
        raise RefusedError(
            f"Conversation {one} cannot be deleted because other conversations use its rows: "
            f"{listed(needed)}. "
            "Archive it instead, or delete the other one first; nothing was changed."
        )
    return tuple(
        f"{use.used} is deleted with conversation {one}; {use.user} of conversation {use.conversation_id} "
        "names it"
        for use in uses
    )


# -- the pieces of a deletion ---------------------------------------------------------------------------


#: Rows of one commit, and characters of their texts; measured on 1 GB: the lock is held for some 0.05 s.
PIECE_ROWS: Final = 250
PIECE_CHARACTERS: Final = 1_000_000
#: Rows that are read at a time.
PAGE: Final = 400

#: Rows that are deleted with one summary or message, by its id.
_ByOwner = dict[object, list[Edit]]


class DeletionPiece(Struct):
    """Edits of one commit."""

    edits: list[Edit] = field(default_factory=list)
    rows: int = 0
    characters: int = 0

    def add(self, edits: Iterable[Edit]) -> None:
        """Take what may not be parted."""
        for edit in edits:
            self.edits.append(edit)
            for _, _, row in touched_rows(edit):
                self.rows += 1
                self.characters += sum(len(cell) for cell in row.cells if isinstance(cell, str | bytes))

    @property
    def full(self) -> bool:
        """Whether the next edits should be in another commit."""
        return self.rows >= PIECE_ROWS or self.characters >= PIECE_CHARACTERS

    def leaves(self) -> frozenset[str]:
        """What it leaves behind for the next pieces to take: items that are in no context any more."""
        gone = {
            value
            for edit in deletions(self.edits)
            if edit.table in ("messages", "summaries")
            for value in edit.key.cells
        }
        return frozenset(
            fault_key("B13" if isinstance(ref, str) else "A11", edit.conversation_id, ref)
            for edit in self.edits
            if isinstance(edit, Splice) and isinstance(edit.conversation_id, int)
            for ref in map(ref_of, edit.removed)
            if ref not in gone
        )


async def deletion_pieces(reader: Reader, conversation_id: ConversationId) -> AsyncIterator[DeletionPiece]:
    """The deletion of what is there of a conversation, in order; only as much is read as is asked for."""
    piece = DeletionPiece()
    async for unit in _units(reader, conversation_id):
        piece.add(unit)
        if piece.full:
            yield piece
            piece = DeletionPiece()
    if piece.edits:
        yield piece


async def _units(reader: Reader, conversation_id: ConversationId) -> AsyncIterator[Sequence[Edit]]:
    for splice in _context(await rows_by(reader, "context_items", "conversation_id", [conversation_id])):
        yield [splice]
    for batch in await batches_of(reader, conversation_id):
        for table, row in batch.rows:
            yield [_delete(table, row)]
    briefs = await rows_by(reader, "focus_briefs", "conversation_id", [conversation_id])
    for brief in briefs:
        sources = await rows_by(reader, "focus_brief_sources", "brief_id", [brief["brief_id"]])
        yield [*(_delete("focus_brief_sources", row) for row in sources), _delete("focus_briefs", brief)]
    owning = [table for table in owning_tables(reader) if table not in _IN_ORDER]
    gone: set[tuple[str, Cells]] = set()  # rows of these that went with a summary or a message
    forgetting = await _forgetting(reader)
    for table in [one for one in owning if one in forgetting]:
        # Such a row would lose what it names before it went itself.
        for row in await rows_by(reader, table, "conversation_id", [conversation_id]):
            yield [_delete(table, row)]
        owning.remove(table)
    own = frozenset(brief["brief_id"] for brief in briefs)
    async for unit in _summaries_and_messages(reader, conversation_id, own):
        gone.update((edit.table, edit.key) for edit in deletions(unit) if edit.table in owning)
        yield unit
    for table in owning:
        rows = await rows_by(reader, table, "conversation_id", [conversation_id])
        for edit in (_delete(table, row) for row in rows):
            if (table, edit.key) not in gone:
                yield [edit]
    for row in await rows_by(reader, "conversations", "conversation_id", [conversation_id]):
        yield [_delete("conversations", row)]


async def _summaries_and_messages(
    reader: Reader, conversation_id: ConversationId, briefs: frozenset[object]
) -> AsyncIterator[Sequence[Edit]]:
    in_turn, on_cycles = await consumers_first(reader, conversation_id)
    owned = _Owned(conversation_id, frozenset([*in_turn, *on_cycles]), briefs)
    for ids in pages(in_turn, PAGE):
        for unit in await _summaries(reader, ids, owned):
            yield unit
    if on_cycles:
        yield [edit for unit in await _summaries(reader, on_cycles, owned) for edit in unit]
    message_ids = [message_id for message_id, _ in await message_seqs(reader, conversation_id)]
    for numbers in pages(message_ids, PAGE):
        for unit in await _messages(reader, numbers, owned):
            yield unit


_IN_ORDER: Final = PREPARED_TABLES | {
    "context_items",
    "conversations",
    "focus_briefs",
    "messages",
    "summaries",
}
#: What refers to a summary or a message and is not deleted with it but before.
_LINES: Final = PREPARED_TABLES | {
    *("context_items", "summary_messages", "summary_parents", "focus_brief_sources")
}


def _context(rows: Sequence[StoredRow]) -> Iterator[Splice]:
    """The whole context, from its end: nothing shifts."""
    cells = in_context_order(rows)
    listing = listing_of(cells)
    while cells:
        start = max(0, len(cells) - PIECE_ROWS)
        owner = cells[start]["conversation_id"]
        assert isinstance(owner, int)
        yield splice_at(listing, owner, start, cells[start:], ())
        del cells[start:]


class _Owned(Record, frozen=True):
    """What refers to rows of the conversation and is deleted in its own turn."""

    conversation_id: ConversationId
    summaries: frozenset[object]
    briefs: frozenset[object]


async def _summaries(reader: Reader, ids: Sequence[str], owned: _Owned) -> list[Sequence[Edit]]:
    """Each summary with its lines to what it was made from, and with lines that lead from nowhere to it."""
    rows = {row["summary_id"]: row for row in await rows_by(reader, "summaries", "summary_id", ids)}
    lines: _ByOwner = {}
    for table in ("summary_parents", "summary_messages"):
        _collect(lines, table, "summary_id", await rows_by(reader, table, "summary_id", ids))
    above = await rows_by(reader, "summary_parents", "parent_summary_id", ids)
    stray = [row for row in above if row["summary_id"] not in owned.summaries]
    _collect(lines, "summary_parents", "parent_summary_id", stray)
    covered = await rows_by(reader, "focus_brief_sources", "summary_id", ids)
    stray = [row for row in covered if row["brief_id"] not in owned.briefs]
    _collect(lines, "focus_brief_sources", "summary_id", stray)
    await _collect_others(reader, lines, "summaries", ids, owned)
    return [[*lines.get(summary, ()), _delete("summaries", rows[summary])] for summary in ids]


async def _messages(reader: Reader, ids: Sequence[int], owned: _Owned) -> list[Sequence[Edit]]:
    """Each message with its parts, and with links that lead from nowhere to it."""
    rows = {row["message_id"]: row for row in await rows_by(reader, "messages", "message_id", ids)}
    lines: _ByOwner = {}
    links = await rows_by(reader, "summary_messages", "message_id", ids)
    stray = [row for row in links if row["summary_id"] not in owned.summaries]
    _collect(lines, "summary_messages", "message_id", stray)
    await _collect_others(reader, lines, "messages", ids, owned)
    return [[*lines.get(message, ()), _delete("messages", rows[message])] for message in ids]


async def _collect_others(
    reader: Reader, found: _ByOwner, target: str, ids: Sequence[SqlValue], owned: _Owned
) -> None:
    """Rows that go with some of *target*, or stay without what they name; also of tables not known here."""
    for one in await referring_columns(reader, target):
        if one.table in _LINES or one.table == target:
            continue
        rows = await rows_by(reader, one.table, one.column, ids)
        if one.forgets:  # those of the conversation went before
            rows = [row for row in rows if row.get("conversation_id") != owned.conversation_id]
            for row, edit in zip(rows, forget(one.table, one.column, rows), strict=True):
                found.setdefault(row[one.column], []).append(edit)
        else:
            _collect(found, one.table, one.column, rows)


async def _forgetting(reader: Reader) -> frozenset[str]:
    """Tables whose rows stay without what they name when a summary or a message is deleted."""
    referring = [await referring_columns(reader, target) for target in ("summaries", "messages")]
    return frozenset(one.table for found in referring for one in found if one.forgets)


def _collect(found: _ByOwner, table: str, column: str, rows: Iterable[StoredRow]) -> None:
    for row in rows:
        found.setdefault(row[column], []).append(_delete(table, row))


def _delete(table: str, row: StoredRow) -> RowChange:
    return deletion(table, Cells.of(row))
