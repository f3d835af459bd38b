"""Whether the engine keeps up with its host, and what the host still has of noted gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import DatabaseError, LcmError, NotFoundError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.jsonl import TranscriptError, read_moment
from lcm_core.base.records import ConversationId
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.change.journal import deleted_sessions
from lcm_core.engine.sessions import is_acknowledgement, is_poll, names_heartbeats, why_not_stored
from lcm_core.engine.stored_parts import message_text
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import EngineEnd, GapRow, began_at, engine_ends, gap_rows
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.ownership import key_owners, session_owners, values_taken

from lcm_host.entries import SessionEntry
from lcm_host.reading import newest_in_file, newest_in_table, open_session
from lcm_host.rows import OutboxRow, outbox_of, session_status
from lcm_host.sessions import HostSession, HotPlace

# -- keeping up ------------------------------------------------------------------------------------------
# What was said in a session and is not in its conversation (docs/spec/host.md, "Is it ingesting?"). A turn
# that has not ended is no reason to worry, nor is what the engine never stores.

#: Entries of a session that are compared at most; of what is further behind the number is a lower bound.
MOST: Final = 5000
#: Characters of a text that are kept.
_CHARACTERS: Final = 200
#: Stored times have no fraction of a second.
_SECOND: Final = timedelta(seconds=1)


class Ingestion(Record, frozen=True):
    """How far the engine is with one session."""

    session: HostSession
    conversation_id: ConversationId | None  #: None: the engine has never stored anything of it
    end: EngineEnd | None
    last_entry: Said | None  #: the last of the host's path
    behind: int  #: messages of finished turns that the engine would have stored and has not
    behind_since: datetime | None  #: when the first of them was said, UTC
    in_flight: bool  #: the host's last turn is not at its end
    outbox: tuple[OutboxRow, ...]  #: turns that the host waits for the engine to commit
    problem: str | None = None  #: why it could not be compared
    #: the host's transcript has the entry up to which the engine's cursor goes; None: no cursor follows it
    by_cursor: bool | None = None

    @property
    def needs_a_look(self) -> bool:
        """Whether the engine lags behind."""
        return self.behind > 0 or bool(self.outbox)

    def lags_since(self) -> datetime | None:
        """Since when it lags behind, UTC; None when it does not."""
        waiting = [moment for row in self.outbox if (moment := read_moment(row.created_ms)) is not None]
        said = [self.behind_since] if self.behind and self.behind_since is not None else []
        return min((*waiting, *said), default=None)


class Said(Record, frozen=True):
    """A message of a session, as far as the engine's rules look at it."""

    entry_id: str | None
    role: str | None  #: as the host wrote it
    text: str  #: what it begins with
    created_at: datetime | None  #: UTC
    is_storable: bool = False  #: unless it is a heartbeat
    is_poll: bool = False
    is_acknowledgement: bool = False
    names_heartbeats: bool = False
    ends_turn: bool = False

    @classmethod
    def of(cls, entry: SessionEntry) -> Said:
        """The message of an entry; only its id and time where it has none."""
        message, role = entry.message, entry.role or ""
        head = cls(entry.entry_id, entry.role, (entry.text or "")[:_CHARACTERS], entry.created_at)
        if not entry.is_storable:
            return head
        stored = message_text(message)
        return replace(
            head,
            is_storable=True,
            is_poll=is_poll(role, stored),
            is_acknowledgement=is_acknowledgement(role, stored),
            names_heartbeats=names_heartbeats(stored),
            ends_turn=_ends_turn(message),
        )


class _Tail(Record, frozen=True):
    """What a session holds behind the engine's end."""

    last_entry: Said | None
    said: tuple[Said, ...]  #: what an engine may store, in order
    running: bool
    outbox: tuple[OutboxRow, ...]
    by_cursor: bool | None


async def ingestions(
    reader: Reader, sessions: Sequence[HostSession], settings: EngineSettings | None
) -> list[Ingestion]:
    """Compare the sessions that a host goes on with, in its tables or in files, with their conversations.

    Others are left out. A session with which its key does not go on is compared only when a conversation is
    its own; one whose conversation was deleted with this program, only when something was said since.
    """
    living = [one for one in sessions if _is_living(one) and not is_ignored(one, settings)]
    owners = await owners_of(reader, living)
    ends = await engine_ends(reader, owners.values())
    began = await began_at(reader)
    deleted = await reader.run(deleted_sessions) if len(owners) < len(living) else {}
    since = {
        one: parse_utc(deleted.get(one.session_id) or deleted.get(one.session_key)) or began for one in living
    }
    wanted = {
        one: ends[owners[one]] if one in owners else None
        for one in living
        if one in owners or (one.current and _is_of_this_engine(one.newest_at, since[one]))
    }
    tails = await asyncio.to_thread(
        _tails, {one: end for one, end in wanted.items() if one.live_file is None}
    )
    of_files = await asyncio.to_thread(_of_files, wanted, since, settings)
    return [
        _compared(one, end, tails[one], settings) if one in tails else of_files[one]
        for one, end in wanted.items()
        if one in tails or one in of_files
    ]


def _is_living(session: HostSession) -> bool:
    return isinstance(session.place, HotPlace) or session.live_file is not None


def is_ignored(session: HostSession, settings: EngineSettings | None) -> bool:
    """Whether the engine is told to store nothing of a session."""
    name = session.session_key or session.session_id
    return settings is not None and why_not_stored(settings, name) is not None


async def owners_of(reader: Reader, sessions: Iterable[HostSession]) -> dict[HostSession, ConversationId]:
    """The conversations of sessions: by id, and of those that keys go on with by key."""
    several = list(sessions)
    by_id = await session_owners(reader, [one.session_id for one in several])
    keys = [one.session_key for one in several if one.current and one.session_key is not None]
    by_key = await key_owners(reader, keys)
    found = {
        one: by_key[one.session_key]
        for one in several
        if one.current and one.session_key is not None and one.session_key in by_key
    }
    return {**found, **{one: by_id[one.session_id] for one in several if one.session_id in by_id}}


def _is_of_this_engine(newest_at: datetime | None, since: datetime | None) -> bool:
    """Whether something was said in a session after the engine had begun: else it was never its business."""
    return since is not None and newest_at is not None and newest_at > since


def _tails(wanted: Mapping[HostSession, EngineEnd | None]) -> dict[HostSession, _Tail | str]:
    by_database: dict[Path, list[HostSession]] = {}
    for session in wanted:
        if isinstance(session.place, HotPlace):
            by_database.setdefault(session.place.database, []).append(session)
    found: dict[HostSession, _Tail | str] = {}
    for database, several in by_database.items():
        try:
            found |= read_host(database, _tails_in, {one: wanted[one] for one in several})
        except DatabaseError as error:
            found |= dict.fromkeys(several, error.message)
    return found


def _tails_in(
    rows: HostRows, wanted: Mapping[HostSession, EngineEnd | None]
) -> dict[HostSession, _Tail | str]:
    found: dict[HostSession, _Tail | str] = {}
    for session, end in wanted.items():
        try:
            found[session] = _tail(rows, session, end)
        except NotFoundError as error:
            found[session] = error.message
    return found


def _of_files(
    wanted: Mapping[HostSession, EngineEnd | None],
    since: Mapping[HostSession, datetime | None],
    settings: EngineSettings | None,
) -> dict[HostSession, Ingestion]:
    """The same of sessions in files. A copy of a file has the time of the copying: what it holds counts."""
    found = {}
    for session, end in wanted.items():
        path = session.live_file
        if path is None:
            continue
        try:
            one = _of_file(path, session, end, settings)
        except (TranscriptError, OSError) as error:
            one = _compared(session, end, str(error), settings)
        last = one.last_entry
        if end is not None or (last is not None and _is_of_this_engine(last.created_at, since[session])):
            found[session] = one
    return found


@lru_cache(maxsize=4096)
def _of_file(
    path: Path, session: HostSession, end: EngineEnd | None, settings: EngineSettings | None
) -> Ingestion:
    """Compare a session in a file; *session* has the size and time of the file that was listed."""
    return _compared(session, end, _tail_of(newest_in_file(path), session, end), settings)


def _tail(rows: HostRows, session: HostSession, end: EngineEnd | None) -> _Tail:
    running = session_status(rows, session.session_key) == "running"
    outbox = outbox_of(rows, session.session_id)
    return _tail_of(newest_in_table(rows, session.session_id), session, end, running=running, outbox=outbox)


def _tail_of(
    newest_first: Iterable[SessionEntry],
    session: HostSession,
    end: EngineEnd | None,
    *,
    running: bool = False,
    outbox: tuple[OutboxRow, ...] = (),
) -> _Tail:
    newest: list[Said] = []
    last: Said | None = None
    stored = None  #: how many messages are newer than the newest that is stored
    frontier = None if end is None else end.frontier
    passed = False
    for seen, entry in enumerate(newest_first):
        last = last or Said.of(entry)
        passed = frontier is not None and entry.entry_id == frontier
        if stored is None and end is not None and entry.entry_id in end.entries:
            stored = len(newest)
        # The cursor goes on over what is not stored: where there is one, it is the end.
        if passed or (stored is not None and frontier is None) or seen >= MOST:
            break
        if entry.unread is None and (one := Said.of(entry)).is_storable:
            newest.append(one)
    if not passed and stored is not None:
        del newest[stored:]
    elif not passed:
        since = session.created_at if end is None or end.at is None else end.at + _SECOND
        newest = [one for one in newest if since is None or _is_since(one, since)]
    by_cursor = None if frontier is None else passed
    return _Tail(last, tuple(newest[::-1]), running, outbox, by_cursor)


def _is_since(one: Said, since: datetime) -> bool:
    return one.created_at is not None and one.created_at >= since


def _ends_turn(message: JsonObject) -> bool:
    answers = message.get("role") == "assistant"
    return answers and message.get("stopReason") != "toolUse" and not _calls(message)


def _calls(message: JsonObject) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") == "toolCall" for block in blocks)


def _compared(
    session: HostSession, end: EngineEnd | None, tail: _Tail | str, settings: EngineSettings | None
) -> Ingestion:
    owner = None if end is None else end.conversation_id
    if isinstance(tail, str):
        return Ingestion(session, owner, end, None, 0, None, False, (), tail)
    turns = turns_of(tail.said)
    in_flight = tail.running or (bool(turns) and not turns[-1][-1].ends_turn)
    if tail.running and turns:
        turns.pop()
    while turns and not turns[-1][-1].ends_turn:  # before one that ended they were the engine's to store
        turns.pop()
    if not _preserves_polls(settings):  # what a poll began is stored with the turn after it, if at all
        turns = [turn for turn in turns if not turn[0].is_poll]
    missing = [one for turn in turns for one in kept_of(turn, settings)]
    since = min((one.created_at for one in missing if one.created_at is not None), default=None)
    return Ingestion(
        *(session, owner, end, tail.last_entry, len(missing), since, in_flight, tail.outbox),
        by_cursor=tail.by_cursor,
    )


def turns_of(said: Iterable[Said]) -> list[list[Said]]:
    """Messages from one of a user to the next."""
    turns: list[list[Said]] = []
    for one in said:
        if one.role == "user" or not turns:
            turns.append([])
        turns[-1].append(one)
    return turns


def kept_of(turn: Sequence[Said], settings: EngineSettings | None) -> list[Said]:
    """What the engine stores of a turn, and does not delete again at once.

    Source: docs/spec/host.md, "Is it ingesting?". The beginning of the turn may be missing.
    """
    acknowledged = turn[-1].is_acknowledgement
    is_idle = acknowledged and (turn[0].is_poll or any(one.names_heartbeats for one in turn))
    if not _preserves_polls(settings):
        return [] if is_idle else [one for one in turn if not (one.is_poll or one.is_acknowledgement)]
    if settings is not None and settings.prune_heartbeat_ok.value and (is_idle or len(turn) == 1):
        return [one for one in turn if not one.is_acknowledgement]
    return list(turn)


def _preserves_polls(settings: EngineSettings | None) -> bool:
    return settings is not None and settings.preserve_heartbeat_poll.value


# -- gaps ------------------------------------------------------------------------------------------------
# What the host's transcripts still have of noted gaps (docs/spec/cursors.md, "Gaps"). A gap whose
# transcript is not available is listed too.

_ENTRY: Final = "transcript_entry_id"


class FoundGap(Record, frozen=True):
    """A gap, and the entries of it that the host still has, no message holds and the engine would store."""

    gap: GapRow
    session: HostSession | None  #: whose transcript it is; None: not at hand
    entries: tuple[Said, ...] = ()  #: in the order of the host
    problem: str | None = None  #: why its transcript could not be read

    @property
    def is_filled(self) -> bool:
        """Whether the host has its entries, and the engine lacks none of them that it would store."""
        return self.session is not None and self.problem is None and not self.entries


async def find_gaps(
    reader: Reader,
    sessions: Sequence[HostSession],
    settings: EngineSettings | None = None,
    conversation_id: ConversationId | None = None,
) -> list[FoundGap]:
    """The gaps of a conversation or of all, by conversation and place; none where none are noted."""
    gaps = await gap_rows(reader, conversation_id)
    if not gaps:
        return []
    by_id = {one.session_id: one for one in sessions}
    found: list[FoundGap] = []
    for owner in dict.fromkeys(gap.conversation_id for gap in gaps):
        several = [gap for gap in gaps if gap.conversation_id == owner]
        session = await _session_of(reader, owner, by_id)
        if session is None:
            found += (FoundGap(gap, None) for gap in several)
            continue
        try:
            path = await asyncio.to_thread(_path, session)
        except LcmError as error:
            found += (FoundGap(gap, session, problem=error.message) for gap in several)
            continue
        kept = frozenset(_kept(path, settings)) - {""}
        found += [await _found(reader, gap, session, path, kept) for gap in several]
    return found


def _path(session: HostSession) -> list[Said]:
    """The path of a session with the first words of each message; blocks."""
    with closing(open_session(session)) as opened:
        return list(map(Said.of, opened.entries()))


def _kept(path: Iterable[Said], settings: EngineSettings | None) -> list[str]:
    """The ids of the entries that the engine would store."""
    turns = turns_of(one for one in path if one.is_storable)
    return [one.entry_id or "" for turn in turns for one in kept_of(turn, settings)]


async def _session_of(
    reader: Reader, owner: ConversationId, by_id: Mapping[str, HostSession]
) -> HostSession | None:
    try:
        conversation = await get_conversation(reader, owner)
    except LcmError:  # a row of a conversation that is gone
        return None
    return by_id.get(conversation.session_id)


async def _found(
    reader: Reader, gap: GapRow, session: HostSession, path: Sequence[Said], kept: Collection[str]
) -> FoundGap:
    places = {one.entry_id: place for place, one in enumerate(path) if one.entry_id}
    first, last = places.get(gap.first_entry_id), places.get(gap.last_entry_id)
    if first is None or last is None or first > last:
        missing = gap.first_entry_id if first is None else gap.last_entry_id
        return FoundGap(gap, session, problem=f"the transcript no longer has entry {missing} at its place")
    within = [one for one in path[first : last + 1] if one.entry_id in kept]
    stored = await values_taken(reader, gap.conversation_id, _ENTRY, [one.entry_id or "" for one in within])
    return FoundGap(gap, session, tuple(one for one in within if one.entry_id not in stored))
