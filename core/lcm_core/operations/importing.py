"""A transcript into a conversation: what is new, in pieces, each committed with its files (engine.md 5).

Idempotent by entry ids, and therefore resumable: what an earlier run stored is where the next one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from lcm_core.change.commit import Committed, commit
from lcm_core.errors import LcmError
from lcm_core.ingest.columns import LineProblem
from lcm_core.ingest.history import HostMessage, entry_ids, index_for_import, message_positions, read_messages
from lcm_core.ingest.index import TranscriptIndex
from lcm_core.ingest.jsonl import Cancelled, never
from lcm_core.ingest.payload_files import remove_payloads, write_payloads
from lcm_core.ingest.reconcile import (
    TAIL,
    Anchor,
    Proof,
    anchor_by_content,
    anchor_by_entry,
    comparable,
)
from lcm_core.ingest.skipping import Skipped, is_acknowledgement, is_poll
from lcm_core.ingest.stored import LARGE_TOKENS, StoredMessage, store_message
from lcm_core.ingest.storing import StoringRules, storing_rules
from lcm_core.operations.appending import Append, Checkpoint, Session
from lcm_core.records import ConversationId
from lcm_core.settings.engine import EngineSettings
from lcm_core.store.database import Reader
from lcm_core.store.ingested import Holding, TailMessage, find_holding, known_entry_ids, tail_messages
from lcm_core.store.schema import Schema

#: Messages that are held and committed at a time, and the payload bytes after which a piece ends earlier.
PIECE = 2_000
_PIECE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImportRules:
    """How messages of a transcript are stored."""

    storing: StoringRules
    large_tokens: int = LARGE_TOKENS  #: from so many on a payload goes to a file
    prune_heartbeats: bool = False  #: polls of the host's timer and their acknowledgements are left out


def import_rules(schema: Schema, settings: EngineSettings) -> ImportRules:
    """How messages are stored in a file of this schema by an operator's settings."""
    return ImportRules(
        storing_rules(schema), settings.large_file_token_threshold.value, settings.prune_heartbeat_ok.value
    )


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript that was read once."""

    index: TranscriptIndex
    positions: tuple[int, ...]  #: of its messages on the path
    entry_ids: tuple[str | None, ...]  #: of the same

    @property
    def problems(self) -> tuple[LineProblem, ...]:
        """Lines that a person should know about."""
        return self.index.problems

    @property
    def modified(self) -> datetime:
        """When the file was last written, UTC."""
        return datetime.fromtimestamp(self.index.stamp.modified_ns / 10**9, UTC)

    def checkpoint(self, offset: int | None = None) -> Checkpoint:
        """How far it was read: to its end, or to a byte."""
        stamp, header = self.index.stamp, self.index.header
        return Checkpoint(
            str(self.index.path.absolute()),
            stamp.size,
            stamp.modified_ns // 10**6,
            stamp.size if offset is None else offset,
            header.session_id if header is not None else None,
            len(self.positions),
        )


@dataclass(frozen=True, slots=True)
class Known:
    """What a database holds of a session."""

    holding: Holding | None
    entry_ids: frozenset[str] = frozenset()
    tail: tuple[TailMessage, ...] = ()


@dataclass(slots=True)
class Tally:
    """What became of the messages that were read."""

    stored: int = 0
    tokens: int = 0
    roles: Counter[str] = field(default_factory=Counter)
    skipped: Counter[Skipped] = field(default_factory=Counter)
    payloads: int = 0
    payload_bytes: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, message: StoredMessage) -> None:
        """Count one."""
        self.stored += 1
        self.tokens += message.tokens
        self.roles[message.role] += 1
        for payload in message.payloads:
            self.payloads += 1
            self.payload_bytes += len(payload.data)
        moment = message.created_at
        if self.first is None or moment < self.first:
            self.first = moment
        if self.last is None or moment > self.last:
            self.last = moment


def read_transcript(path: Path, *, cancelled: Cancelled = never) -> Transcript:
    """Read a transcript once; blocks. Raises as `lcm_core.ingest.index.index_transcript`."""
    index = index_for_import(path, cancelled=cancelled)
    positions = message_positions(index)
    return Transcript(index, tuple(positions), tuple(entry_ids(index, positions)))


async def read_known(reader: Reader, session: Session) -> Known:
    """What is stored of a session, as far as `anchor_of` needs it."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return Known(None)
    conversation_id = ConversationId(int(str(holding.row["conversation_id"])))
    entries = await known_entry_ids(reader, conversation_id)
    tail = await tail_messages(reader, conversation_id, TAIL)
    return Known(holding, entries, tuple(tail))


def anchor_of(
    transcript: Transcript, known: Known, rules: ImportRules, *, cancelled: Cancelled = never
) -> Anchor:
    """From where on the transcript is new; blocks, for it may have to be read."""
    if known.holding is None or not known.tail:
        return Anchor(0, Proof.EMPTY)
    found = anchor_by_entry(transcript.entry_ids, known.entry_ids)
    if found is None:
        texts = [
            comparable(stored.role, stored.content) if isinstance(stored, StoredMessage) else ""
            for stored in _stored(transcript, 0, rules, cancelled)
        ]
        tail = [comparable(each.role, each.content) for each in known.tail]
        found = anchor_by_content(texts, tail)
    return found or Anchor(len(transcript.positions), Proof.NONE)


def _stored(
    transcript: Transcript, start: int, rules: ImportRules, cancelled: Cancelled
) -> Iterator[StoredMessage | Skipped]:
    for host in read_messages(transcript.index, list(transcript.positions[start:]), cancelled=cancelled):
        yield store_message(host, rules.storing, threshold=rules.large_tokens)


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages that are committed together."""

    messages: tuple[StoredMessage, ...]
    offset: int | None  #: bytes of the transcript behind its last line; None: all of it


def pieces(
    transcript: Transcript,
    start: int,
    rules: ImportRules,
    tally: Tally,
    *,
    size: int | None = None,
    cancelled: Cancelled = never,
) -> Iterator[Piece]:
    """The messages from the number *start* on, *size* (None: `PIECE`) at a time, counted in *tally*.

    Raises as `lcm_core.ingest.history.read_messages`.
    """
    waiting: list[StoredMessage] = []
    held, offset = 0, 0
    hosts = read_messages(transcript.index, list(transcript.positions[start:]), cancelled=cancelled)
    for host, stored in stored_of(hosts, rules, tally):
        waiting.append(stored)
        tally.add(stored)
        offset = host.end or offset
        held += sum(len(payload.data) for payload in stored.payloads)
        if len(waiting) >= (size or PIECE) or held >= _PIECE_BYTES:
            yield Piece(tuple(waiting), offset)
            waiting, held = [], 0
    if waiting:
        yield Piece(tuple(waiting), None)


def stored_of(
    hosts: Iterable[HostMessage], rules: ImportRules, tally: Tally
) -> Iterator[tuple[HostMessage, StoredMessage]]:
    """What is stored of some messages; the rest is counted. Heartbeats go in pairs, if the rules say so."""
    poll: tuple[HostMessage, StoredMessage] | None = None
    for host in hosts:
        stored = store_message(host, rules.storing, threshold=rules.large_tokens)
        if isinstance(stored, Skipped):
            tally.skipped[stored] += 1
            continue
        if poll is not None:
            if is_acknowledgement(stored.role, stored.content):
                tally.skipped[Skipped.HEARTBEAT] += 2
                poll = None
                continue
            yield poll
            poll = None
        if rules.prune_heartbeats and is_poll(stored.role, stored.content):
            poll = host, stored
        else:
            yield host, stored
    if poll is not None:
        yield poll


def commit_append(
    path: Path,
    append: Append,
    large_files: Path,
    *,
    journal: bool,
    wait: float,
    step: Callable[[str], None] | None = None,
) -> Committed:
    """Write the payloads, then commit; when the commit is refused or fails the files go again.

    Raises:
        PayloadError: the large-files folder cannot be written.
        LcmError: as `lcm_core.change.commit.commit`.
    """
    written = write_payloads(large_files, append.conversation_id, append.payloads)
    try:
        return commit(path, append.plan, wait=wait, journal=journal, fault=step)
    except LcmError:
        remove_payloads(written)
        raise


def in_batch(append: Append, batch: str) -> Append:
    """The same as a part of a batch."""
    return replace(append, plan=replace(append.plan, batch=batch))
