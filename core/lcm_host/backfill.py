"""Importing a transcript that the database does not know, or knows in part, in pieces that can be resumed."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.jsonl import TranscriptError
from lcm_core.base.paths import SESSIONS_IN_HOST_DATABASE, host_databases
from lcm_core.base.records import ConversationId
from lcm_core.base.text import agree, counted
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.change.plan import Plan, RowChange, insertion
from lcm_core.engine.rules import IngestRules
from lcm_core.engine.sessions import Skipped, is_acknowledgement, is_poll, names_heartbeats, stored_role
from lcm_core.engine.stored_parts import entry_hash, message_text
from lcm_core.store.database import Database, Reader
from lcm_core.store.ingested import find_holding, next_conversation_id, without_row

from lcm_host.appending import Append, ConversationEnd, Session, TranscriptCheckpoint, end_of_conversation
from lcm_host.codex import is_rollout, write_rollout
from lcm_host.messages import (
    HostFile,
    HostMessage,
    StoredMessage,
    read_host_file,
    read_messages,
    store_message,
)
from lcm_host.payloads import remove_payloads, write_payloads
from lcm_host.reading import write_transcript
from lcm_host.reconciling import Anchor, AnchorProof, anchor_of, import_cap
from lcm_host.sessions import FilePlace, HostSession, Storage, find_sessions, list_sessions, path_of

# -- a piece of a transcript -----------------------------------------------------------------------------
# What is new of it, each piece committed with its files. Idempotent by entry ids, and therefore resumable:
# where an earlier run stopped, the next one begins.

#: Messages that are held and committed at a time, and characters and payload bytes after which a piece ends
#: earlier: a host waits for less than 0.1 s (docs/spec/changes.md, "How long the host waits").
PIECE = 1_000
_PIECE_CHARACTERS = 1_500_000
_PIECE_BYTES = 32 * 1024 * 1024


def checkpoint_of(
    file: HostFile,
    offset: int | None = None,
    *,
    bounded: bool = False,
    first_hash: str | None = None,
    bootstraps: bool = True,
    is_noted: bool = True,
) -> TranscriptCheckpoint:
    """How far a transcript was read: to its end, or to a byte.

    *bounded*: a fork of which a part is left out. *first_hash*: of the last message of a first import.
    """
    last = file.last_message()
    return TranscriptCheckpoint(
        str(file.path.absolute()),
        file.stamp.size if offset is None else offset,  # what is behind it is to be found as appended
        file.stamp.modified_ns // 10**6,
        file.stamp.size if offset is None else offset,
        file.header.session_id if file.header is not None else None,
        len(file.on_path),
        bounded=bounded,
        is_whole=offset is None,
        entry_id=last.node if last is not None else None,
        first_hash=first_hash,
        bootstraps=bootstraps,
        is_noted=is_noted,
    )


class ImportTally(Struct):
    """What became of the messages that were read."""

    stored: int = 0
    tokens: int = 0
    roles: Counter[str] = field(default_factory=Counter)
    skipped: Counter[Skipped] = field(default_factory=Counter)
    payloads: int = 0
    payload_bytes: int = 0
    first: str | None = None  #: the earliest time of a message, as `StoredMessage.created_at`
    last: str | None = None

    def add(self, message: StoredMessage) -> None:
        """Count one."""
        self.stored += 1
        self.tokens += message.tokens
        self.roles[message.role] += 1
        for payload in message.payloads:
            self.payloads += 1
            self.payload_bytes += len(payload.data)
        moment = message.created_at
        if moment is not None and len(moment) == 19 and moment[0].isdigit():  # so they sort as they are
            if self.first is None or moment < self.first:
                self.first = moment
            if self.last is None or moment > self.last:
                self.last = moment


class TranscriptPiece(Record, frozen=True):
    """Messages that are committed together."""

    messages: tuple[StoredMessage, ...]
    offset: int | None  #: bytes of the transcript behind its last line; None: all of it


def transcript_pieces(
    stored: Iterable[tuple[HostMessage, StoredMessage]], tally: ImportTally, *, size: int | None = None
) -> Iterator[TranscriptPiece]:
    """Messages, *size* (None: `PIECE`) at a time, counted in *tally*."""
    waiting: list[StoredMessage] = []
    held, offset, characters = 0, 0, 0
    for host, message in stored:
        waiting.append(message)
        characters += len(message.content)
        tally.add(message)
        offset = host.end or offset
        held += sum(len(payload.data) for payload in message.payloads)
        full = len(waiting) >= (size or PIECE) or characters >= _PIECE_CHARACTERS
        if full or held >= _PIECE_BYTES:
            yield TranscriptPiece(tuple(waiting), offset)
            waiting, held, characters = [], 0, 0
    if waiting:
        yield TranscriptPiece(tuple(waiting), None)


def hash_of(message: JsonObject) -> str:
    """The hash by which a checkpoint knows a message of the host again."""
    return entry_hash(stored_role(message) or "", message_text(message))


def last_hash(file: HostFile) -> str | None:
    """The same of the last message that the host sees; blocks."""
    last = next(read_messages(file, file.messages[-1:]), None)
    return None if last is None else hash_of(last.message)


def stored_of(
    hosts: Iterable[HostMessage], rules: IngestRules, tally: ImportTally
) -> Iterator[tuple[HostMessage, StoredMessage]]:
    """What is stored of some messages; the rest is counted."""
    for host in hosts:
        stored = store_message(host, rules)
        if isinstance(stored, Skipped):
            tally.skipped[stored] += 1
        else:
            yield host, stored


def without_heartbeats(
    stored: Iterable[tuple[HostMessage, StoredMessage]], tally: ImportTally, *, polls: bool = False
) -> Iterator[tuple[HostMessage, StoredMessage]]:
    """The same without the host's own polls and the turns in which nothing was to be done.

    Such a turn is from a user's message to an answer that is the acknowledgement alone, and names the file
    of the host's heartbeats. *polls* are preserved: then only the acknowledgement is left out, also of a turn
    that begins with a poll. At most one turn is held.
    """
    turn: list[tuple[HostMessage, StoredMessage]] = []
    in_turn = False
    for host, message in stored:
        if message.role == "user":
            yield from turn
            turn, in_turn = [], True
        if not polls and is_poll(message.role, message.content):
            tally.skipped[Skipped.HEARTBEAT] += 1
        elif in_turn:
            turn.append((host, message))
        else:
            yield host, message
        if is_acknowledgement(message.role, message.content) and _is_idle(turn):
            yield from turn[:-1] if polls else ()
            tally.skipped[Skipped.HEARTBEAT] += 1 if polls else len(turn)
            turn, in_turn = [], False
    yield from turn


def _is_idle(turn: Sequence[tuple[HostMessage, StoredMessage]]) -> bool:
    """Whether the host's timer began a turn: it names its file, or is its poll (where polls are stored)."""
    began = any(is_poll(one.role, one.content) for _, one in turn[:1])
    return began or any(names_heartbeats(one.content) for _, one in turn)


# -- a backfill ------------------------------------------------------------------------------------------
# Every block, role, time and id of the transcript is stored as the engine would have stored it, seq begins
# at 1, and what is already stored is recognised by its entry ids: a second run has nothing to do, and a run
# that was stopped continues.

#: Sessions that a refusal names at most.
_NAMED: Final = 5
#: Parts of an import, and bytes of them, that are planned and held at a time.
_HELD: Final = 4
_HELD_BYTES: Final = 32 * 1024 * 1024
#: Ids that several entries have, of which the messages are compared.
_MOST_REPEATED: Final = 1_000
#: How a session's file is called that is written out for an import.
_WRITTEN: Final = "session.jsonl"


class MessageWeights(Record, frozen=True):
    """What the messages of an import weigh, without their texts; in order."""

    tokens: array[int] = field(default_factory=lambda: array("q"))  #: as stored
    whole: array[int] = field(default_factory=lambda: array("q"))  #: before payloads went to files
    of_user: bytearray = field(default_factory=bytearray)  #: 1 where the user said it

    def add(self, message: StoredMessage) -> None:
        """Note one."""
        self.tokens.append(message.tokens)
        self.whole.append(message.whole_tokens)
        self.of_user.append(message.role == "user")


class Backfill(Record, frozen=True):
    """What would be imported, before anything is."""

    session: Session
    transcript: HostFile
    conversation_id: ConversationId
    is_new: bool  #: the conversation is made
    present: int  #: messages that it holds already
    anchor: Anchor
    weights: MessageWeights  #: of the messages that would be stored
    parts: int  #: appends that all of it takes
    appends: tuple[Append, ...]  #: the next of them, committed one after the other
    more: bool  #: the others are planned once these were committed (`Backfilling.plan`)
    tally: ImportTally
    warnings: tuple[str, ...]
    engine_keeps: (
        int | None
    )  #: how many of the messages a first import of the engine keeps; None: it is no first import
    lost: tuple[str, ...] = ()  #: messages that cannot be imported beside others with the same id
    goes_on: bool = False  #: earlier parts were committed

    @property
    def doubtful(self) -> bool:
        """Whether it is not proven that the messages are new, or where they belong."""
        return self.anchor.proof is AnchorProof.NONE

    @property
    def nothing_text(self) -> str:
        """Why nothing is imported, where that is so."""
        if self.is_new:
            return "The transcript has no messages to store: there is nothing to import."
        what = "all that can be imported" if self.lost else "all of it"
        rest = f" (and {len(self.lost) - 1:,} more)" if len(self.lost) > 1 else ""
        lost = f" {self.lost[0].capitalize()}{rest}." if self.lost else ""
        return f"Conversation {self.conversation_id} already has {what}: there is nothing to import.{lost}"


def find_to_import(sessions: Path, agent: str, session_id: str) -> HostSession:
    """The session of an agent, wherever it lies; *session_id* as the host or the name of its file has it.

    What is in the host's database, or packed, goes before plain files; of these a live one before one that
    was reset or deleted, then the newest one.

    Raises:
        NotFoundError: there is none; the sentence names some that are there.
    """
    wanted = session_id.removesuffix(".jsonl")
    for one in list_sessions(sessions).sessions:
        if (one.agent, one.session_id) == (agent, wanted) and one.plain_file is None:
            return one
    listing = find_sessions(sessions)
    listed = [one for one in listing.sessions if one.agent == agent]
    found = [one for one in listed if wanted in (_file_id(one), _stem(one), path_of(one).name)]
    # A topic's own name says more than the id that its file shares with others.
    found.sort(key=lambda one: (one.storage is not Storage.JSONL, _stem(one) != wanted))
    if found:
        return found[0]
    known = ", ".join(_stem(one) for one in listed[:_NAMED])
    hint = f" It has {known}{' …' if len(listed) > _NAMED else ''}." if listed else ""
    passed_over = [one for one in listing.problems if agent in one.path.parts or not listed]
    if passed_over:
        hint += f" Skipped: {passed_over[0].path} ({passed_over[0].reason.rstrip('.')})."
    if databases := host_databases(sessions):
        hint += f" Its {SESSIONS_IN_HOST_DATABASE} ({databases[0]})."
    raise NotFoundError(
        f"Agent {agent} has no session {session_id} in {sessions}.{hint} Give another id, or the file itself "
        "with --file.",
        code="TRANSCRIPT_NOT_FOUND",
        details={"agent": agent, "session": session_id},
    )


class ImportSource(Record, frozen=True):
    """A transcript that is imported, and whose it is."""

    session: Session  #: as the engine names it
    path: Path  #: of the transcript
    place: Path  #: where the session lies; another one where it was only written out
    agent: str | None = None
    is_live: bool = True  #: the host goes on with it
    remarks: tuple[str, ...] = ()  #: what is not in it, or not as it was


def host_source(session: HostSession, folder: Path) -> ImportSource:
    """A session of the host, written out in *folder* unless it lies in a plain file; blocks.

    Raises:
        TranscriptError: it cannot be read.
        DatabaseError: the same of the host's database.
    """
    key, place = session.session_key, path_of(session)
    if session.plain_file is not None:
        named = Session(session.session_id, key)
        return ImportSource(named, place, place, session.agent, session.storage is Storage.JSONL)
    path = folder / _WRITTEN
    with path.open("xb") as target:
        unread = write_transcript(session, target)
    # A key that goes on with another session is that one's: this is a conversation of its own.
    is_live = session.current and session.storage in (Storage.HOT, Storage.COLD)
    named = Session(session.session_id, key if is_live else None)
    remarks = (f"{counted(unread, 'entry')} of the session cannot be read",) if unread else ()
    return ImportSource(named, path, place, session.agent, is_live, remarks)


def file_source(path: Path, folder: Path) -> ImportSource:
    """A transcript in any file, or a rollout of Codex, which is written out in *folder*; blocks.

    Raises:
        TranscriptError: it cannot be read, or the engine would import nothing of a rollout.
    """
    if is_rollout(path):
        written = folder / _WRITTEN
        with written.open("xb") as target:
            reading, thread = write_rollout(path, target)
        return ImportSource(Session(thread), written, path, remarks=tuple(reading.notes()))
    for one in find_sessions(path.parent).sessions:
        if path_of(one).name == path.name:
            is_live = one.storage is Storage.JSONL
            return ImportSource(Session(one.session_id, one.session_key), path, path, one.agent, is_live)
    header = read_host_file(path, whole_records=True).header  # a file that its folder does not list
    named = (header.session_id if header else None) or path.name.removesuffix(".jsonl")
    return ImportSource(Session(named), path, path)


def _stem(session: HostSession) -> str:
    return session.place.stem if isinstance(session.place, FilePlace) else session.session_id


def _file_id(session: HostSession) -> str:
    return session.place.file_id if isinstance(session.place, FilePlace) else session.session_id


class Backfilling(Struct):
    """An import of any size: at most `_HELD` parts, or `_HELD_BYTES` of them, are planned and held at a time.

    All of it is read once for the preview, which holds no texts. `plan` is asked again when what it planned
    was committed, and goes on where that ended; when the database moved on otherwise, it begins anew.
    """

    session: Session
    transcript: HostFile
    rules: IngestRules
    large_files: Path
    archived: bool = False  #: of a new conversation: the host does not continue the session
    is_noted: bool = True  #: False: the transcript was only written out for the import
    remarks: tuple[str, ...] = ()  #: what is known of a transcript that was written out
    title: str | None = None  #: of a new conversation
    now: datetime | None = None
    _shown: Backfill | None = None
    _pieces: Iterator[TranscriptPiece] | None = None
    _next: TranscriptPiece | None = None
    _part: int = 1  #: number of the next part
    _end: tuple[ConversationId, int] | None = None  #: conversation and last seq once all planned is committed
    _first_hash: str | None = None

    async def goes_on(self, reader: Reader) -> bool:
        """Whether what was planned last was committed, and there is more."""
        if self._next is None or self._end is None:
            return False
        holding = await find_holding(reader, self.session.session_id, self.session.session_key)
        return holding is not None and (holding.conversation_id, holding.last_seq) == self._end

    async def plan(self, reader: Reader) -> Backfill:
        """Plan the next parts.

        Raises:
            TranscriptError: the transcript cannot be read, is none, or was rewritten meanwhile.
        """
        going_on = await self.goes_on(reader)
        shown = self._shown if going_on and self._shown is not None else await self._survey(reader)
        target = await self._end_of_conversation(reader)
        if self.title is not None and target.is_new:
            target.opening = [_titled(edit, self.title) for edit in target.opening]
        if not going_on:
            self._first_hash = None
            if target.is_empty:
                self._first_hash = await asyncio.to_thread(last_hash, self.transcript)
        appends: list[Append] = []
        while not appends and self._next is not None:  # what is there already makes no append
            for piece in await asyncio.to_thread(self._take):
                await target.recognise(reader, piece.messages)
                read_to = checkpoint_of(
                    self.transcript, piece.offset, first_hash=self._first_hash, is_noted=self.is_noted
                )
                append = _append(target, piece, self._part, shown.parts, read_to)
                appends += [append] if append.stored else []
                self._part += 1
        self._end = (target.conversation_id, target.last_seq)
        self._shown = replace(shown, appends=tuple(appends), more=self._next is not None, goes_on=going_on)
        return self._shown

    async def _end_of_conversation(self, reader: Reader) -> ConversationEnd:
        return await end_of_conversation(
            reader,
            self.session,
            now=self.now or datetime.now(UTC),
            large_files=self.large_files,
            archived=self.archived,
        )

    async def _survey(self, reader: Reader) -> Backfill:
        """Read all of it, and begin it."""
        transcript, rules = self.transcript, self.rules
        _check_is_transcript(transcript)
        holding = await find_holding(reader, self.session.session_id, self.session.session_key)
        anchor = await anchor_of(reader, holding, transcript, rules)
        read, weights = ImportTally(), MessageWeights()
        tally = ImportTally(skipped=read.skipped)
        end = await self._end_of_conversation(reader)
        pieces = _pieces(transcript, anchor.start, rules, read)
        parts = 0
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            parts += 1
            await end.recognise(reader, piece.messages)
            for message in end.fresh(piece.messages):
                tally.add(message)
                weights.add(message)
        lost = await asyncio.to_thread(lambda: list(_lost(transcript)))
        self._pieces = _pieces(transcript, anchor.start, rules, ImportTally())
        self._next, self._part = await asyncio.to_thread(next, self._pieces, None), 1
        present = holding.messages if holding is not None else 0
        keeps = kept_by_engine(weights.whole, rules.bootstrap_max_tokens) if not present else None
        warnings = [*self.remarks, *_warnings(transcript, anchor, tally, present)]
        if (known_already := read.stored - tally.stored) > 0:
            left_out = f"{counted(known_already, 'message')} left out"
            warnings.append(f"{left_out}: one with the same entry or event is stored, or comes before")
        warnings += lost
        count = len(weights.tokens)
        if keeps is not None and keeps < count:
            warnings.append(_kept(keeps, count, rules.bootstrap_max_tokens))
        owner = await next_conversation_id(reader) if holding is None else holding.conversation_id
        is_new = holding is None
        return Backfill(
            *(self.session, transcript, owner, is_new, present, anchor, weights, parts, ()),
            *(False, tally, tuple(warnings), keeps, tuple(lost)),
        )

    def _take(self) -> list[TranscriptPiece]:
        """The next pieces, as many as may be held; blocks."""
        found: list[TranscriptPiece] = []
        held = 0
        while self._next is not None and len(found) < _HELD and held < _HELD_BYTES:
            found.append(self._next)
            held += sum(_bytes_of(message) for message in self._next.messages)
            self._next = next(self._pieces, None) if self._pieces is not None else None
        return found


def _bytes_of(message: StoredMessage) -> int:
    return len(message.content) + sum(len(payload.data) for payload in message.payloads)


def kept_by_engine(tokens: Sequence[int], budget: int) -> int:
    """How many of the newest messages fit into a budget of tokens (docs/spec/ingest.md, "First import").

    *tokens* are those of each message, in order, before payloads went to files.
    """
    room, count = budget, 0
    for weight in reversed(tokens):
        if weight > room:
            break
        room, count = room - weight, count + 1
    return count


def _kept(keeps: int, count: int, budget: int) -> str:
    newest = "none of" if not keeps else f"the newest {keeps:,} of"
    return f"the engine itself would keep {newest} these {count:,} messages, to fit in {budget:,} tokens"


def _check_is_transcript(transcript: HostFile) -> None:
    if transcript.bad_lines and not transcript.entry_count and transcript.header is None:
        first = transcript.problems[0]
        raise TranscriptError(
            f"{transcript.path} is not a transcript: {counted(transcript.bad_lines, 'line')}, and no entry "
            f"(line {first.line:,}: {first.reason}). Nothing was imported; give a session's .jsonl file.",
            code="NOT_A_TRANSCRIPT",
        )


def _pieces(
    transcript: HostFile, start: int, rules: IngestRules, tally: ImportTally
) -> Iterator[TranscriptPiece]:
    hosts = read_messages(transcript, transcript.messages[start:], inherit=True)
    stored = stored_of(hosts, rules, tally)
    if rules.prune_heartbeat_ok:
        stored = without_heartbeats(stored, tally, polls=rules.preserve_heartbeat_poll)
    return transcript_pieces(stored, tally)


def _titled(edit: RowChange, title: str) -> RowChange:
    return insertion(edit.table, edit.row.but(title=title)) if "title" in edit.row else edit


def _append(
    target: ConversationEnd,
    piece: TranscriptPiece,
    number: int,
    count: int,
    read_to: TranscriptCheckpoint,
) -> Append:
    part = f", part {number} of {count}" if count > 1 else ""
    return target.append(
        piece.messages,
        read_to,
        kind="backfill",
        title=lambda many: f"Import {counted(many, 'message')} of session {target.session.session_id}{part}",
        chained=count > 1,
    )


def _lost(transcript: HostFile) -> Iterator[str]:
    """The messages that cannot be imported, because another one of the file has the same id; blocks."""
    on_path = set(transcript.on_path)
    for numbers in transcript.repeated[:_MOST_REPEATED]:
        entries = [transcript.entries[number] for number in numbers if transcript.entries[number].is_message]
        imported = next((number for number in numbers if number in on_path), None)
        if imported is None or len(entries) < 2:
            continue
        kept = transcript.entries[imported]
        told = next(read_messages(transcript, [kept])).message
        for other, host in zip(entries, read_messages(transcript, entries), strict=True):
            if host.message != told:
                yield (
                    f"line {other.line:,}: its message is not imported: line {kept.line:,} has another "
                    f"one with the same id {kept.node}"
                )


def _warnings(transcript: HostFile, anchor: Anchor, tally: ImportTally, present: int) -> Iterable[str]:
    if transcript.bad_lines:
        yield f"{counted(transcript.bad_lines, 'line')} of the file cannot be read, or not wholly"
    if transcript.abandoned:
        count = counted(transcript.abandoned, "entry")
        is_left = agree(transcript.abandoned, "are not imported, as the host ignores them too")
        yield f"{count} on abandoned branches {is_left}"
    for reason, number in sorted(tally.skipped.items()):
        yield f"{counted(number, 'message')} left out: {reason.value}"
    if anchor.left_out:
        yield (
            f"{counted(anchor.left_out, 'message')} between stored ones {agree(anchor.left_out, 'are')} not "
            "imported: newer ones are already stored"
        )
    if anchor.proof is AnchorProof.NONE:
        yield "none of the stored messages is in the file, so its place is unknown"
    if anchor.proof is AnchorProof.CONTENT and tally.stored > import_cap(present):
        yield (
            f"these {tally.stored:,} messages are new by their text alone; the engine itself would import "
            f"{import_cap(present):,}"
        )


# -- the files of a backfill ----------------------------------------------------------------------------


class BackfillFiles(Struct):
    """What one run has written. Its plans may be made again; then `expect` takes the new ones."""

    folder: Path  #: for large files
    appends: tuple[Append, ...] = ()
    written: dict[str, Path] = field(default_factory=dict)  #: by file id

    def expect(self, appends: Iterable[Append]) -> None:
        """Take the appends that are going to be committed."""
        self.appends = tuple(appends)

    def write(self, plan: Plan) -> None:
        """Write the payloads of a plan; blocks.

        Raises:
            PayloadError: the folder cannot be written.
        """
        append = next(one for one in self.appends if one.plan.edits is plan.edits)
        paths = write_payloads(self.folder, append.conversation_id, append.payloads)
        ids = (payload.file_id for payload in append.payloads)
        self.written |= dict(zip(ids, paths, strict=True))

    async def take_back(self, database: Database) -> None:
        """Remove the files whose rows were not committed after all."""
        if self.written:
            lost = await database.read(without_row, list(self.written))
            remove_payloads(self.written.pop(file_id) for file_id in lost)
