"""Archive or delete whole conversations: which, and the plans (docs/decisions.md, "Conversations that go").

Deletion goes in pieces of which each is a plan and a commit of its own; a planner is asked again for what is
left. What else uses a conversation's rows is looked for first: then it is refused.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from lcm_core.change.errors import said
from lcm_core.change.plan import Cell, Cells, Keeping, Plan, RowChange, row_counts
from lcm_core.errors import RefusedError
from lcm_core.operations.deleting import Piece, pieces
from lcm_core.operations.prepared import refuse_active
from lcm_core.paths import resolve_transcript
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.families import owned_keys
from lcm_core.store.lifecycle import foreign_uses, transcripts
from lcm_core.store.prepared import batches_of
from lcm_core.store.rows import rows_by
from lcm_core.store.sizes import ConversationSize, conversation_counts, measured
from lcm_core.times import iso_z, parse_utc, sql_utc
from lcm_core.wording import counted, phrase

#: Rows that are planned before the first of them is committed; what is left is planned afterwards.
WAVE_ROWS: Final = 8_000
#: What the engine notes when somebody ends a conversation on purpose: its own repair never
#: joins such a conversation to a later one.
CAUSE: Final = "manual-reset"
#: From this share of the conversations on their texts are measured in one scan of the file.
_WHOLE_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Folders:
    """Where transcripts of sessions are looked for."""

    sessions: Path
    state: Path


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which conversations are meant: all conditions that are given must hold."""

    ids: tuple[ConversationId, ...] = ()
    older_than: timedelta | None = None  #: by the newest message, else by when it was made
    larger_than: int | None = None  #: bytes of texts
    empty: bool = False  #: no message, no summary, no context item
    max_messages: int | None = None
    session_pattern: str | None = None  #: a glob over session key and session id
    no_key: bool = False  #: without a session key, in a version that records them
    orphaned: Folders | None = None  #: its transcript is recorded and not there any more
    archived: bool = False  #: archived ones only

    def __bool__(self) -> bool:
        return self != Criteria()


async def select(
    reader: Reader, criteria: Criteria, now: datetime | None = None, *, sizes: bool = True
) -> list[ConversationSize]:
    """The conversations that are meant, the largest first; all of them for no criteria.

    Bytes cost a scan of the texts; without *sizes* they are read only when a condition asks for them.

    Raises:
        NotFoundError: an id is none of this database.
    """
    for one in criteria.ids:
        await get_conversation(reader, one)
    counts = await conversation_counts(reader)
    found = [one for one in counts if _meant(one, criteria, now or datetime.now(UTC))]
    if criteria.orphaned is not None:
        orphans = await _orphaned(reader, criteria.orphaned)
        found = [one for one in found if one.id in orphans]
    if sizes or criteria.larger_than is not None:
        found = await measured(reader, found, whole=len(found) > len(counts) * _WHOLE_SHARE)
    if criteria.larger_than is not None:
        found = [one for one in found if (one.bytes or 0) > criteria.larger_than]
    return sorted(found, key=lambda one: (-(one.bytes or 0), -one.messages, one.id))


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


async def _orphaned(reader: Reader, folders: Folders) -> Collection[int]:
    """Conversations whose transcript the database names and the disk does not have."""
    recorded = await transcripts(reader)
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
            "This database was written by an engine before 0.6, which archives no conversation. Delete what "
            "is not wanted any more; nothing was changed."
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
        after = Cells.of({name: value for name, value in wanted.items() if name in row})
        before = Cells.of({name: value for name, value in row.items() if name in wanted})
        edits.append(RowChange("conversations", Cells.of({"conversation_id": one}), before, after))
    ids = [one.conversation_id for one in live]
    warnings = ["The host begins a new, empty conversation at the next message of an archived session"]
    if left := [one for one in dict.fromkeys(conversations) if one not in ids]:
        warnings.append(
            f"{_named(left).capitalize()}, archived already, {'is' if len(left) == 1 else 'are'} left"
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


@dataclass(frozen=True, slots=True)
class Deletion:
    """The next plans of a deletion."""

    plans: tuple[Plan, ...] = field(repr=False)
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
        async for piece in pieces(reader, one):
            if plans and planned >= rows:
                return Deletion(tuple(plans), complete=False)
            plans.append(_plan(conversation, piece, warnings, forget))
            planned += piece.rows
            warnings = ()  # once is enough
    return Deletion(tuple(plans), complete=True)


def _plan(conversation: Conversation, piece: Piece, warnings: Sequence[str], forget: bool) -> Plan:
    number = conversation.conversation_id
    verb = "Forget" if forget else "Delete"
    return Plan(
        kind="forget" if forget else "delete",
        title=f"{verb} conversation {number} {conversation.lane}: {_what(piece)}",
        conversation_id=number,
        edits=tuple(piece.edits),
        warnings=tuple(warnings),
        allows=piece.leaves(),
        keeping=Keeping.NOWHERE if forget else Keeping.APART,
        whole=True,
    )


_WORDS: Final = (("messages", "message"), ("summaries", "summary"), ("context_items", "context item"))


def _what(piece: Piece) -> str:
    counts = {count.table: count.delete for count in row_counts(piece.edits)}
    found = [counted(counts[table], word) for table, word in _WORDS if counts.get(table)]
    rest = sum(count for table, count in counts.items() if table not in dict(_WORDS))
    return ", ".join([*found, counted(rest, "other row" if found else "row")] if rest else found)


async def _refuse_if_used(reader: Reader, one: ConversationId) -> tuple[str, ...]:
    """Warnings about what is only named elsewhere, and what stays on the disk.

    Raises:
        RefusedError: something else needs a row of this conversation.
    """
    refuse_active(await batches_of(reader, one), f"conversation {one} cannot be deleted")
    uses = await foreign_uses(reader, one)
    needed = [
        f"{use.user} of conversation {use.conversation_id} needs {use.used}" for use in uses if not use.file
    ]
    if needed:
        raise RefusedError(
            f"Conversation {one} cannot be deleted, for other conversations use its rows: {said(needed)}. "
            "Archive it instead, or delete the other one first; nothing was changed."
        )
    found = [
        f"{use.used} goes with conversation {one}; {use.user} of conversation {use.conversation_id} names it"
        for use in uses
    ]
    files = len(await owned_keys(reader, "large_files", "file_id", one))
    if files:
        words = f"stay on the disk when conversation {one} is gone, and no row names them any more"
        found.append(phrase(files, "large file", None, words))
    return tuple(found)
