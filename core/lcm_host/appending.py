"""What a host's turn changes in a conversation, as plans: messages, cache telemetry, a session's end."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Final

from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.setting_values import Json, object_or_empty
from lcm_core.base.text import counted
from lcm_core.base.times import iso_z, sql_utc
from lcm_core.base.values import Record, Struct, field, force_setattr
from lcm_core.change.place import Listing, Place, carry_out, splice_at
from lcm_core.change.plan import (
    Cell,
    Cells,
    Edit,
    Plan,
    RowChange,
    Symbol,
    SymbolKind,
    fault_key,
    insertion,
    ref_of,
    sorted_names,
)
from lcm_core.engine.sessions import (
    UNKNOWN_MODEL,
    RuntimeModel,
    is_acknowledgement,
    is_poll,
    names_heartbeats,
)
from lcm_core.engine.stored_parts import StoredPart, entry_hash
from lcm_core.engine.wrapper import CacheState
from lcm_core.operations.rows import context_item, delete, forget, in_context_order, listing_of, update
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.ingested import (
    Holding,
    RowText,
    end_of_context,
    find_holding,
    finished_heartbeats,
    holds_reasoning,
    key_is_taken,
    newest_row,
    next_conversation_id,
    next_message_id,
    summarised_among,
    turn_before,
)
from lcm_core.store.opening import SqlValue
from lcm_core.store.ownership import values_taken
from lcm_core.store.rows import StoredRow, referring_columns, rows_by
from lcm_core.store.schema import Schema
from lcm_core.store.state import BOOTSTRAP, TELEMETRY, keeps_checkpoints
from lcm_core.store.summaries import summaries_in

from lcm_host.messages import StoredMessage
from lcm_host.payloads import Payload, payload_path

# -- appends ---------------------------------------------------------------------------------------------
# Messages at the end of a conversation, as the plan that stores them (docs/spec/ingest.md).
#
# Every seq is given, so that two writers who append at once collide on it instead of mixing: the second one
# plans again. A new conversation has its id beforehand, because its files are in a folder of that name; so
# have the messages of appends that are planned together, for a later one names what an earlier one makes.
#
# Besides new rows, a stored row takes the id of its transcript's entry, a conversation whose transcript is
# gone is archived, and idle turns are deleted.

_STATE: Final = BOOTSTRAP
_ANCHORS: Final = "message_transcript_anchor_trust"
#: What a new checkpoint holds until something else is known.
_FIRST_STATE: Final[StoredRow] = {
    "last_processed_entry_hash": None,
    "last_processed_entry_id": None,
    "fork_bounded": 0,
    "fork_source_message_count": 0,
    "soft_reset_pruned_at": None,
}
#: The id of a new message: known beforehand, or what the database gives it.
MessageId = int | Symbol
#: Ids that are left free before each of several appends that are planned together, for what others store
#: meanwhile: without them every new message of a working host would make the plans stale.
FREE_IDS: Final = 1_000


class Session(Record, frozen=True):
    """Whose messages they are, as the host names it."""

    session_id: str
    session_key: str | None = None  #: ``agent:<agent>:<lane>``; the same over many session ids

    def __post_init__(self) -> None:
        """A blank key is no key: it would make one conversation of many sessions."""
        if self.session_key is not None and not self.session_key.strip():
            force_setattr(self, "session_key", None)


class TranscriptCheckpoint(Record, frozen=True):
    """How far a transcript was read. Source: ``conversation_bootstrap_state``."""

    path: str
    size: int  #: bytes of the file when it was read
    modified_ms: int
    offset: int  #: bytes that have been processed
    header_id: str | None
    messages: int = 0  #: that the host sees in it
    bounded: bool = False  #: a fork of which a part was left out
    is_whole: bool = True  #: it was read to its end
    entry_id: str | None = None  #: of the last message in the file
    first_hash: str | None = None  #: of a first import: the hash of its last message
    is_unread: bool = False  #: there was nothing to read
    bootstraps: bool = True  #: the conversation was begun or brought up to date by it
    is_noted: bool = True  #: False: it was no file of the host, which would look for it again


def unread_checkpoint(path: Path) -> TranscriptCheckpoint:
    """What is noted of a transcript that is not there (yet)."""
    return TranscriptCheckpoint(str(path.absolute()), 0, 0, 0, None, is_unread=True, bootstraps=False)


class Append(Record, frozen=True):
    """A plan that stores messages, and the files that must be there before it is committed."""

    plan: Plan
    conversation_id: ConversationId
    payloads: tuple[Payload, ...] = ()
    stored: int = 0  #: messages
    known: int = 0  #: messages that were there already


class ConversationEnd(Struct):
    """The end of a conversation, moving on with every append that is planned on it."""

    schema: Schema
    session: Session
    conversation_id: ConversationId
    stamp: str  #: of everything but the messages
    large_files: Path
    opening: list[RowChange]  #: what makes the conversation, or brings it to this session
    listing: Listing  #: the end of the context is enough to append to it
    last_seq: int
    next_message_id: int
    state: StoredRow | None  #: the row of ``conversation_bootstrap_state``
    is_new: bool
    is_empty: bool  #: no message is stored
    newest: RowText | None  #: the newest message that is stored
    waiting: list[Edit] = field(default_factory=list)  #: what the first checkpoint brings with it
    entries: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)
    reasoned: bool = False  #: the newest message holds reasoning

    async def recognise(self, reader: Reader, messages: Sequence[StoredMessage]) -> None:
        """Look up which of some messages the conversation holds by entry id or event key."""
        if self.is_new:
            return
        owner = ConversationId(self.conversation_id)
        ids = [message.entry_id for message in messages if message.entry_id is not None]
        self.entries |= await values_taken(reader, owner, "transcript_entry_id", ids)
        keys = [message.event_key for message in messages if message.event_key is not None]
        self.events |= await values_taken(reader, owner, "stable_event_key", keys)
        if self.newest is not None and any(message.may_mirror for message in messages):
            self.reasoned = await holds_reasoning(reader, self.newest.message_id)

    def append(
        self,
        messages: Sequence[StoredMessage],
        checkpoint: TranscriptCheckpoint | None = None,
        *,
        kind: str = "ingest",
        title: Callable[[int], str] | None = None,
        chained: bool = False,
        whole_rows: bool = True,
    ) -> Append:
        """Plan to store messages behind the others; those that `recognise` found are left out.

        *title* gets the number of those that are stored.
        *chained* appends are planned together and committed one after the other.
        *whole_rows* gives every column of a part, as an operation does that the journal keeps.
        """
        fresh = list(self.fresh(messages))
        edits, self.opening = self._opened(checkpoint), []
        first = self.next_message_id + FREE_IDS if chained else None
        numbered = [(_id(first, number), message) for number, message in enumerate(fresh)]
        unused = dict.fromkeys(self.schema.tables["message_parts"]) if whole_rows else {}
        edits += self._message_edits(numbered, unused)
        if fresh:
            rows = [context_item(self.conversation_id, message_id, self.stamp) for message_id, _ in numbered]
            edits.append(splice_at(self.listing, self.conversation_id, len(self.listing), (), rows))
        if checkpoint is not None and checkpoint.is_noted and keeps_checkpoints(self.schema):
            edits += self._checkpoint_edits(checkpoint, fresh[-1] if fresh else None)
        self.last_seq += len(fresh)
        if first is not None:
            self.next_message_id = first + len(fresh)
        said = (
            title(len(fresh))
            if title is not None
            else f"Store {counted(len(fresh), 'message')} of session {self.session.session_id}"
        )
        payloads = tuple(payload for message in fresh for payload in message.payloads)
        plan = Plan(kind, said, self.conversation_id, tuple(edits))
        return Append(plan, self.conversation_id, payloads, len(fresh), len(messages) - len(fresh))

    def _opened(self, checkpoint: TranscriptCheckpoint | None) -> list[Edit]:
        """What comes first. Only what was read from a transcript was bootstrapped."""
        if checkpoint is not None and checkpoint.bootstraps:
            waiting, self.waiting = self.waiting, []
            return [*self.opening, *waiting]
        return [
            insertion(edit.table, edit.row.but(bootstrapped_at=None)) if edit.before is None else edit
            for edit in self.opening
        ]

    def fresh(self, messages: Iterable[StoredMessage]) -> Iterator[StoredMessage]:
        """The messages that `recognise` did not find and that repeat none of those given before.

        They are known by entry, by event, or as the copy of the newest one.
        """
        newest = None if self.newest is None else (self.newest.role, self.newest.content)
        reasoned = self.reasoned
        for message in messages:
            if message.entry_id in self.entries or message.event_key in self.events:
                continue
            if message.may_mirror and reasoned and newest == (message.role, message.content):
                continue
            if message.entry_id is not None:
                self.entries.add(message.entry_id)
            if message.event_key is not None:
                self.events.add(message.event_key)
            newest, reasoned = (message.role, message.content), message.is_reasoned
            yield message
        self.reasoned = reasoned

    def _message_edits(
        self, messages: Sequence[tuple[MessageId, StoredMessage]], unused: Mapping[str, Cell]
    ) -> Iterator[Edit]:
        """The rows of messages, table by table: rows of one table are inserted together (`change.apply`)."""
        for seq, (message_id, message) in enumerate(messages, self.last_seq + 1):
            values: dict[str, Cell] = {
                "message_id": message_id,
                "conversation_id": self.conversation_id,
                "seq": seq,
                "role": message.role,
                "content": message.content,
                "token_count": message.tokens,
                "identity_hash": message.identity,
                "openclaw_sender_metadata": message.sender,
                "transcript_entry_id": message.entry_id,
                "created_at": message.created_at or self.stamp,
                "stable_event_key": message.event_key,
            }
            yield insertion("messages", _row(self.schema, "messages", values))
        if self.schema.has(_ANCHORS):
            yield from self._anchors(messages)
        for message_id, message in messages:
            for ordinal, part in enumerate(message.parts):
                row = _part(self.schema, message_id, self.session.session_id, ordinal, part)
                yield insertion("message_parts", Cells.of({**unused, **row.as_dict()}) if unused else row)
        for _, message in messages:
            for payload in message.payloads:
                path = payload_path(self.large_files, self.conversation_id, payload)
                yield _file(self.schema, self.conversation_id, payload, path, self.stamp)

    def _anchors(self, messages: Sequence[tuple[MessageId, StoredMessage]]) -> Iterator[Edit]:
        """What proves that messages come from entries (docs/spec/prepared.md, "Anchors, epochs, turns")."""
        values: dict[str, Cell] = {
            "conversation_id": self.conversation_id,
            "trust_state": "verified",
            "source": "transcript-import",
            "reason": "message imported from transcript entry",
            "verified_at": f"{self.stamp.replace(' ', 'T')}.000Z",
            "created_at": self.stamp,
            "updated_at": self.stamp,
        }
        for message_id, message in messages:
            if message.entry_id is not None:
                named: dict[str, Cell] = {"message_id": message_id, "transcript_entry_id": message.entry_id}
                yield insertion(_ANCHORS, _row(self.schema, _ANCHORS, {**values, **named}))

    def _checkpoint_edits(
        self, checkpoint: TranscriptCheckpoint, last: StoredMessage | None
    ) -> Iterator[Edit]:
        """Note how far the transcript was read."""
        present = self.state
        values: dict[str, SqlValue] = {
            "session_file_path": checkpoint.path,
            "last_seen_size": checkpoint.size,
            "last_seen_mtime_ms": checkpoint.modified_ms,
            "last_processed_offset": checkpoint.offset,
            "session_header_id": checkpoint.header_id,
        }
        if present is not None and present.get("session_file_path") != checkpoint.path:
            values["fork_source_message_count"] = 0
        if checkpoint.is_whole:
            values["last_processed_entry_id"] = checkpoint.entry_id
        elif last is not None:
            values["last_processed_entry_id"] = last.entry_id
        if last is not None:
            values["last_processed_entry_hash"] = entry_hash(last.role, last.content)
        elif self.newest is not None and not checkpoint.is_unread:
            values["last_processed_entry_hash"] = entry_hash(self.newest.role, self.newest.content)
        if checkpoint.is_whole and (checkpoint.first_hash is not None or (self.is_empty and last is None)):
            values["last_processed_entry_hash"] = checkpoint.first_hash
        values = {name: value for name, value in values.items() if self.schema.has(_STATE, name)}
        self.state = {**(present or _FIRST_STATE), **values, "updated_at": self.stamp}
        if present is None:
            more: dict[str, SqlValue] = {
                "conversation_id": self.conversation_id,
                "fork_bounded": int(checkpoint.bounded),
                "fork_source_message_count": checkpoint.messages if self.is_empty else 0,
            }
            self.state = {**self.state, **more}
            yield insertion(_STATE, _row(self.schema, _STATE, self.state))
            return
        changed = [name for name in values if name in present and present[name] != values[name]]
        if changed:
            names = [*changed, "updated_at"]
            yield RowChange(
                _STATE,
                Cells.of({"conversation_id": self.conversation_id}),
                Cells.of({name: present[name] for name in names}),
                Cells.of({name: self.state[name] for name in names}),
            )


async def end_of_conversation(
    reader: Reader, session: Session, *, now: datetime, large_files: Path, archived: bool = False
) -> ConversationEnd:
    """The end of a session's conversation; without one, what makes it.

    A new one is *archived* when the host does not continue it, and when its key belongs
    to another active one. *now* stamps everything but the messages.
    """
    holding = await find_holding(reader, session.session_id, session.session_key)
    stamp = sql_utc(now)
    listing = Listing.of(())
    waiting: list[Edit] = []
    newest = None
    if holding is None:
        conversation_id = await next_conversation_id(reader)
        taken = session.session_key is not None and await key_is_taken(reader, session.session_key)
        cause = "backfill" if archived or taken else None
        row = conversation_row(reader.schema, conversation_id, session, stamp, cause=cause, bootstrapped=True)
        opening = [insertion("conversations", row)]
    else:
        conversation_id, held = holding.conversation_id, holding.row
        # The host continues under another session id: the conversation of the key gets it.
        follows = session.session_key is not None and held["session_id"] != session.session_id
        opening = [update("conversations", held, {"session_id": session.session_id})] if follows else []
        if held.get("bootstrapped_at", "") is None:  # begun without the transcript that is now read for it
            waiting = [update("conversations", held, {"bootstrapped_at": stamp})]
        listing = Listing.of(await end_of_context(reader, conversation_id))
        newest = await newest_row(reader, conversation_id)
    return ConversationEnd(
        reader.schema,
        session,
        conversation_id,
        stamp,
        large_files,
        opening,
        listing,
        last_seq=holding.last_seq if holding else 0,
        next_message_id=await next_message_id(reader),
        state=holding.checkpoint if holding else None,
        is_new=holding is None,
        is_empty=holding is None or holding.messages == 0,
        newest=newest,
        waiting=waiting,
    )


async def plan_append(
    reader: Reader,
    session: Session,
    messages: Sequence[StoredMessage],
    *,
    now: datetime,
    large_files: Path,
    checkpoint: TranscriptCheckpoint | None = None,
    whole_rows: bool = True,
) -> Append:
    """Store *messages* behind what the session's conversation holds; those that it holds are left out."""
    target = await end_of_conversation(reader, session, now=now, large_files=large_files)
    await target.recognise(reader, messages)
    return target.append(messages, checkpoint, whole_rows=whole_rows)


# -- rows ------------------------------------------------------------------------------------------------


def _row(schema: Schema, table: str, values: Mapping[str, Cell]) -> Cells:
    """A row with those columns that this file has."""
    columns = _held(tuple(values), schema.tables.get(table, frozenset()))
    return Cells(columns, tuple([values[column] for column in columns]))


@lru_cache(maxsize=32)
def _held(names: tuple[str, ...], held: frozenset[str]) -> tuple[str, ...]:
    """Those of some columns that a table has: thousands of rows ask for the same ones."""
    return sorted_names(tuple([name for name in names if name in held]))


def conversation_row(
    schema: Schema,
    conversation_id: ConversationId,
    session: Session,
    stamp: str,
    *,
    cause: str | None = None,
    bootstrapped: bool = False,
) -> Cells:
    """The row of a new conversation; with a *cause* it is archived."""
    values: dict[str, Cell] = {
        "conversation_id": conversation_id,
        "session_id": session.session_id,
        "session_key": session.session_key,
        "active": 0 if cause else 1,
        "archived_at": stamp if cause else None,
        "archive_cause": cause,
        "title": None,
        "bootstrapped_at": stamp if bootstrapped else None,
        "created_at": stamp,
        "updated_at": stamp,
    }
    return _row(schema, "conversations", values)


def _part(schema: Schema, message: MessageId, session_id: str, ordinal: int, part: StoredPart) -> Cells:
    values: dict[str, Cell] = {
        "part_id": str(uuid.uuid4()),
        "message_id": message,
        "session_id": session_id,
        "part_type": part.part_type,
        "ordinal": ordinal,
        "text_content": part.text,
        "tool_call_id": part.tool_call_id,
        "tool_name": part.tool_name,
        "tool_input": part.tool_input,
        "tool_output": part.tool_output,
        "metadata": part.metadata,
    }
    return _row(schema, "message_parts", values)


def _file(schema: Schema, conversation_id: int, payload: Payload, path: Path, stamp: str) -> RowChange:
    values: dict[str, Cell] = {
        "file_id": payload.file_id,
        "conversation_id": conversation_id,
        "file_name": payload.file_name,
        "mime_type": payload.mime,
        "byte_size": len(payload.data),
        "line_count": payload.lines,
        "storage_uri": str(path),
        "exploration_summary": payload.summary,
        "created_at": stamp,
    }
    return insertion("large_files", _row(schema, "large_files", values))


def _id(first: int | None, number: int) -> MessageId:
    return Symbol(f"message:{number}", SymbolKind.ID) if first is None else first + number


# -- what follows a transcript beside new rows -----------------------------------------------------------
# Source: docs/spec/ingest.md, "Later reads" and "Heartbeats".


#: What the engine calls the end of a conversation that another one follows.
_CAUSE: Final = "rollover-fallback"


class Adoption(Record, frozen=True):
    """A stored row that turns out to be an entry of the transcript."""

    row: RowText
    entry_id: str
    sender: str | None  #: filled in where the row has none


async def plan_adoption(reader: Reader, session: Session, adoptions: Sequence[Adoption]) -> Append | None:
    """Give rows the ids of the entries that they are, and a sender where they have none."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return None
    edits: list[Edit] = []
    for one in adoptions:
        before: dict[str, Cell] = {"transcript_entry_id": one.row.entry_id}
        after: dict[str, Cell] = {"transcript_entry_id": one.entry_id}
        has_sender = reader.schema.has("messages", "openclaw_sender_metadata")
        if has_sender and one.row.sender is None and one.sender is not None:
            before["openclaw_sender_metadata"] = None
            after["openclaw_sender_metadata"] = one.sender
        key = Cells.of({"message_id": one.row.message_id})
        edits.append(RowChange("messages", key, Cells.of(before), Cells.of(after)))
    return _append(holding.conversation_id, "Name stored messages as their transcript does", edits)


async def plan_rollover_archive(reader: Reader, session: Session, now: datetime) -> Append | None:
    """Archive the active conversation of a session's key: its transcript is gone."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return None
    values: dict[str, Cell] = {"active": 0, "archived_at": sql_utc(now), "archive_cause": _CAUSE}
    return _append(
        holding.conversation_id, "Archive a conversation", [update("conversations", holding.row, values)]
    )


async def plan_fork_mark(reader: Reader, session: Session) -> Append | None:
    """Note that a conversation was begun from a fork; None when that is noted, or nothing else is."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    state = None if holding is None else holding.checkpoint
    if holding is None or state is None or state.get("fork_bounded") != 0:
        return None
    edit = RowChange(
        _STATE,
        Cells.of({"conversation_id": holding.conversation_id}),
        Cells.of({"fork_bounded": 0}),
        Cells.of({"fork_bounded": 1}),
    )
    return _append(holding.conversation_id, "Note that a transcript is a fork", [edit])


async def plan_heartbeat_pruning(
    reader: Reader, session: Session, after: int, *, polls: bool = False
) -> Append | None:
    """Delete the turns that end behind the seq *after*; without edits when there is none.

    A turn is from a user's message to an answer that is the acknowledgement alone, and names the file of
    the host's heartbeats. *polls* are preserved: of such a turn, and of one that begins with a poll, only the
    acknowledgement goes. One of which a message was summarised, or is named by what a 1.x engine
    prepares, stays. Gaps in seq and ordinals stay.
    """
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return None
    conversation_id = holding.conversation_id
    edits: list[Edit] = []
    for row in await finished_heartbeats(reader, conversation_id, after):
        if not is_acknowledgement(row.role, row.content):
            continue
        turn = await turn_before(reader, conversation_id, row.seq)
        ids = [one.message_id for one in (turn[-1:] if polls else turn)]
        is_idle = any(names_heartbeats(one.content) for one in turn)
        is_idle = is_idle or (polls and any(is_poll(one.role, one.content) for one in turn[:1]))
        if is_idle and not await summarised_among(reader, ids):
            edits += await _deletions(reader, conversation_id, ids)
    return _append(holding.conversation_id, "Delete turns of the host's timer", edits)


def _append(conversation_id: ConversationId, title: str, edits: Sequence[Edit]) -> Append:
    return Append(Plan("ingest", title, conversation_id, tuple(edits)), conversation_id)


async def _deletions(reader: Reader, conversation_id: ConversationId, ids: list[int]) -> list[Edit]:
    items = in_context_order(await rows_by(reader, "context_items", "conversation_id", [conversation_id]))
    edits: list[Edit] = []
    listing = listing_of(items)
    gone = set(ids)
    for item in reversed(items):
        if item["message_id"] in gone:
            place = Place(listing.refs.index(ref_of(item)), (), 0)
            edits.append(carry_out(listing, conversation_id, place, [item], ()).splice)
    for one in await referring_columns(reader, "messages"):
        if one.table not in ("context_items", "message_parts"):
            rows = await rows_by(reader, one.table, one.column, ids)
            edits += forget(one.table, one.column, rows) if one.forgets else delete(one.table, rows)
    for table in ("message_parts", "messages"):
        edits += delete(table, await rows_by(reader, table, "message_id", ids))
    return edits


# -- cache telemetry -------------------------------------------------------------------------------------
# What is noted of a provider's prompt cache after a turn (docs/spec/sessions.md, "What a turn notes").


class CacheSnapshot(Record, frozen=True):
    """What a host says of the cache after a call; None where it says nothing. Tokens."""

    prompt: int | None = None  #: that were not in the cache
    read: int | None = None
    written: int | None = None
    broke: bool | None = None  #: None: nothing was observed
    retention: str | None = None
    touched_at: datetime | None = None

    @property
    def state(self) -> CacheState:
        """Whether the cache is warm, as the engine judges it."""
        if self.broke:
            return CacheState.COLD
        if (self.read or 0) > 0 or (self.written or 0) > 0:
            return CacheState.HOT
        said = any(one is not None for one in (self.prompt, self.read, self.written, self.broke))
        return CacheState.COLD if said else CacheState.UNKNOWN

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the whole prompt; None where nothing is known of it."""
        return sum(one or 0 for one in (self.prompt, self.read, self.written)) or None


def cache_snapshot(given: Mapping[str, Json]) -> CacheSnapshot:
    """A host's ``promptCache``: its last call goes before what it observed."""
    usage, seen = object_or_empty(given.get("lastCallUsage")), object_or_empty(given.get("observation"))
    broke = seen.get("broke")
    read = _tokens(usage.get("cacheRead"))
    retention = given.get("retention")
    return CacheSnapshot(
        _tokens(usage.get("input")),
        _tokens(seen.get("cacheRead")) if read is None else read,
        _tokens(usage.get("cacheWrite")),
        broke
        if isinstance(broke, bool)
        else False
        if any(one is not None for one in seen.values())
        else None,
        retention if isinstance(retention, str) and retention.strip() else None,
        _moment(given.get("lastCacheTouchAt")),
    )


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value if value >= 0 else None


def _tokens(value: Json) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _moment(value: Json) -> datetime | None:
    """A time in milliseconds since 1970."""
    number = _number(value)
    try:
        return None if number is None else datetime.fromtimestamp(number / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


async def plan_telemetry(
    reader: Reader,
    conversation_id: ConversationId,
    snapshot: CacheSnapshot | None,
    raw_tokens: int | None,
    *,
    now: datetime,
    model: RuntimeModel = UNKNOWN_MODEL,
) -> Append | None:
    """Note a turn: the cache, and *raw_tokens* outside the fresh tail; what is not known stays as it was.

    None where neither is known, and in a file that notes no such thing.
    """
    columns = reader.schema.tables.get(TELEMETRY, frozenset())
    if not columns or (snapshot is None and raw_tokens is None):
        return None
    rows = await rows_by(reader, TELEMETRY, "conversation_id", [conversation_id])
    row = rows[0] if rows else None
    noted = _noted(row, snapshot, raw_tokens, now, model)
    values = {name: value for name, value in noted.items() if name in columns}
    if row is not None:
        edit = update(TELEMETRY, row, values)
    else:
        blank: dict[str, Cell] = {
            **dict.fromkeys(columns),
            **{name: value for name, value in _BLANK.items() if name in columns},
        }
        edit = insertion(TELEMETRY, Cells.of({**blank, **values, "conversation_id": conversation_id}))
    return _append(conversation_id, "Note a turn beside the conversation", [edit])


#: What a new row holds where nothing is known.
_BLANK: Mapping[str, Cell] = {
    "cache_state": CacheState.UNKNOWN.value,
    "consecutive_cold_observations": 0,
    "turns_since_leaf_compaction": 0,
    "tokens_accumulated_since_leaf_compaction": 0,
    "last_activity_band": "low",
}


def _noted(
    row: StoredRow | None,
    snapshot: CacheSnapshot | None,
    raw_tokens: int | None,
    now: datetime,
    model: RuntimeModel,
) -> dict[str, Cell]:
    held = row or {}
    noted: dict[str, Cell] = {
        "turns_since_leaf_compaction": _count(held, "turns_since_leaf_compaction") + 1,
        "tokens_accumulated_since_leaf_compaction": raw_tokens,
        "provider": model.provider,
        "model": model.model,
        "updated_at": sql_utc(now),
    }
    if snapshot is not None:
        state = snapshot.state
        noted |= {
            "last_observed_cache_read": snapshot.read,
            "last_observed_cache_write": snapshot.written,
            "last_observed_prompt_token_count": snapshot.prompt_tokens,
            "last_observed_cache_hit_at": iso_z(now) if state is CacheState.HOT else None,
            "last_observed_cache_break_at": iso_z(now) if snapshot.broke else None,
            "cache_state": state.value,
            "consecutive_cold_observations": _streak(snapshot, _count(held, "consecutive_cold_observations")),
            "retention": snapshot.retention,
            "last_cache_touch_at": None if snapshot.touched_at is None else iso_z(snapshot.touched_at),
        }
    return {name: value for name, value in noted.items() if value is not None}


def _streak(snapshot: CacheSnapshot, old: int) -> int:
    """How many calls in a row found the cache cold."""
    if snapshot.broke:
        return max(old, 1)
    match snapshot.state:
        case CacheState.HOT:
            return 0
        case CacheState.COLD:
            return old + 1
        case CacheState.UNKNOWN:
            return old


def _count(held: StoredRow, name: str) -> int:
    value = held.get(name)
    return value if isinstance(value, int) else 0


# -- the end of a session --------------------------------------------------------------------------------
# What it does to its conversation: `/new`, `/reset`, and what a host says when a session ends
# (docs/spec/sessions.md, "Events").

MANUAL_RESET = "manual-reset"
SESSION_DELETED = "session-deleted"
SESSION_END = "session-end"
#: Reasons of a host for the end of a session that change nothing.
_NOTHING = frozenset({"", "new", "unknown", "restart", "shutdown"})


async def plan_new_session(
    reader: Reader, conversation_id: ConversationId, retain_depth: int, *, now: datetime
) -> Plan:
    """Prune a context as `/new` does: messages leave it, and summaries of a depth below *retain_depth*.

    Every row stays, and so does the ordinal of what is left. With a negative depth nothing leaves; a plan
    without edits when there is nothing to prune.

    Raises:
        NotFoundError: there is no such conversation.
    """
    await get_conversation(reader, conversation_id)
    items = in_context_order(await rows_by(reader, "context_items", "conversation_id", [conversation_id]))
    summaries = [SummaryId(ref) for item in items if isinstance(ref := ref_of(item), str)]
    depths = {one.summary_id: one.depth or 0 for one in await summaries_in(reader, summaries)}
    leaving = [retain_depth >= 0 and _leaves(item, depths, retain_depth) for item in items]
    edits: list[Edit] = []
    listing = listing_of(items)
    runs = [list(run) for _, run in groupby(range(len(items)), key=leaving.__getitem__)]
    for run in reversed(runs):  # from the end: what stands before it is where it was
        if leaving[run[0]]:
            place = Place(run[0], (), 0)
            edits.append(carry_out(listing, conversation_id, place, [items[at] for at in run], ()).splice)
    if edits and keeps_checkpoints(reader.schema) and reader.schema.has(BOOTSTRAP, "soft_reset_pruned_at"):
        for row in await rows_by(reader, BOOTSTRAP, "conversation_id", [conversation_id]):
            stamp = sql_utc(now)
            edits.append(update(BOOTSTRAP, row, {"soft_reset_pruned_at": stamp, "updated_at": stamp}))
    stays = counted(leaving.count(False), "item")
    return Plan(
        kind="new-session",
        title=f"Prune the context of conversation {conversation_id} as /new does",
        conversation_id=conversation_id,
        edits=tuple(edits),
        allows=frozenset(
            _missed(conversation_id, item) for item, leaves in zip(items, leaving, strict=True) if leaves
        ),
        warnings=(f"The model no longer sees the removed items; {stays} stay, and every row",)
        if edits
        else (),
    )


def _missed(conversation_id: ConversationId, item: Cells) -> str:
    """The finding that nothing reaches what left: here that is what is wanted."""
    ref = ref_of(item)
    return fault_key("B13" if isinstance(ref, str) else "A11", conversation_id, ref)


def _leaves(item: Cells, depths: dict[SummaryId, int], retain_depth: int) -> bool:
    ref = ref_of(item)
    return not isinstance(ref, str) or depths.get(SummaryId(ref), 0) < retain_depth


async def plan_session_end(
    reader: Reader, session: Session, reason: str, following: Session | None, *, now: datetime
) -> Append | None:
    """What the end of a session does to its conversation, by the *reason* of the host; None: nothing.

    *following* is the session that the host goes on with.
    """
    wanted = reason.strip().lower()
    if wanted in _NOTHING:
        return None
    holding = await find_holding(reader, session.session_id, session.session_key)
    if wanted == "deleted":
        if holding is None:
            return None
        aside = _archive(holding, SESSION_DELETED, now)
        return _append(holding.conversation_id, "Put a conversation aside", [aside])
    if wanted == "reset":
        return await plan_reset(reader, session, now=now)
    return await _followed(reader, holding, following or session, SESSION_END, now)


async def plan_reset(reader: Reader, session: Session, *, now: datetime) -> Append | None:
    """Put a session's conversation aside and begin another one under its id and key; None: it is fresh."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is not None and await _is_fresh(reader, holding):
        return None
    return await _followed(reader, holding, session, MANUAL_RESET, now)


async def _is_fresh(reader: Reader, holding: Holding) -> bool:
    """Whether nothing was stored of it yet."""
    if holding.messages or holding.row.get("bootstrapped_at") is not None:
        return False
    return not await rows_by(reader, "context_items", "conversation_id", [holding.conversation_id])


async def _followed(
    reader: Reader, holding: Holding | None, following: Session, cause: str, now: datetime
) -> Append:
    """Put a conversation aside, if there is one, and begin that of another session."""
    edits: list[Edit] = [] if holding is None else [_archive(holding, cause, now)]
    begun = await next_conversation_id(reader)
    row = conversation_row(reader.schema, begun, following, sql_utc(now))
    edits.append(insertion("conversations", row))
    return _append(begun, "Start a conversation", edits)


def _archive(holding: Holding, cause: str, now: datetime) -> Edit:
    stamp = sql_utc(now)
    values: dict[str, Cell] = {"active": 0, "archived_at": stamp, "archive_cause": cause, "updated_at": stamp}
    return update("conversations", holding.row, values)
