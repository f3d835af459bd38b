"""A transcript into a conversation: what is new, in pieces, each committed with its files.

Idempotent by entry ids, and therefore resumable: what an earlier run stored is where the next one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lcm_core.change.commit import Committed, commit
from lcm_core.engine_rules import IngestRules
from lcm_core.errors import LcmError
from lcm_core.ingest.host_file import HostFile, HostMessage, entry_id_of, read_messages
from lcm_core.ingest.identity import entry_hash
from lcm_core.ingest.jsonl import Cancelled, JsonObject, never
from lcm_core.ingest.parts import content_text
from lcm_core.ingest.payloads import remove_payloads, write_payloads
from lcm_core.ingest.reconcile import (
    TAIL,
    Anchor,
    Proof,
    anchor_by_content,
    anchor_by_entry,
    comparable,
)
from lcm_core.ingest.skipping import Skipped, is_acknowledgement, is_poll, names_heartbeats, stored_role
from lcm_core.ingest.stored import StoredMessage, store_message
from lcm_core.operations.appending import Append, Checkpoint, Session
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.ingested import Holding, TailMessage, find_holding, known_entry_ids, tail_messages

#: Messages that are held and committed at a time, and characters and payload bytes after which a piece ends
#: earlier: a host waits for less than 0.1 s (docs/changes.md, "How long the host waits").
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
) -> Checkpoint:
    """How far a transcript was read: to its end, or to a byte.

    *bounded*: a fork of which a part is left out. *first_hash*: of the last message of a first import.
    """
    last = file.last_message()
    return Checkpoint(
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


async def read_known(reader: Reader, session: Session) -> Known:
    """What is stored of a session, as far as `anchor_of` needs it."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return Known(None)
    conversation_id = ConversationId(int(str(holding.row["conversation_id"])))
    entries = await known_entry_ids(reader, conversation_id)
    tail = await tail_messages(reader, conversation_id, TAIL)
    return Known(holding, entries, tuple(tail))


def anchor_of(file: HostFile, known: Known, rules: IngestRules, *, cancelled: Cancelled = never) -> Anchor:
    """From where on a transcript is new; blocks, for it may have to be read."""
    if known.holding is None or not known.tail:
        return Anchor(0, Proof.EMPTY)
    found = anchor_by_entry([entry_id_of(one) for one in file.messages], known.entry_ids)
    if found is None:
        hosts = read_messages(file, file.messages, cancelled=cancelled)
        stored = (store_message(host, rules) for host in hosts)
        texts = [
            comparable(one.role, one.content) if isinstance(one, StoredMessage) else "" for one in stored
        ]
        tail = [comparable(each.role, each.content) for each in known.tail]
        found = anchor_by_content(texts, tail)
    return found or Anchor(len(file.on_path), Proof.NONE)


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages that are committed together."""

    messages: tuple[StoredMessage, ...]
    offset: int | None  #: bytes of the transcript behind its last line; None: all of it


def pieces(
    stored: Iterable[tuple[HostMessage, StoredMessage]], tally: Tally, *, size: int | None = None
) -> Iterator[Piece]:
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
            yield Piece(tuple(waiting), offset)
            waiting, held, characters = [], 0, 0
    if waiting:
        yield Piece(tuple(waiting), None)


def hash_of(message: JsonObject) -> str:
    """The hash by which a checkpoint knows a message of the host again."""
    return entry_hash(stored_role(message) or "", content_text(message))


def last_hash(file: HostFile) -> str | None:
    """The same of the last message that the host sees; blocks."""
    last = next(read_messages(file, file.messages[-1:]), None)
    return None if last is None else hash_of(last.message)


def stored_of(
    hosts: Iterable[HostMessage], rules: IngestRules, tally: Tally
) -> Iterator[tuple[HostMessage, StoredMessage]]:
    """What is stored of some messages; the rest is counted."""
    for host in hosts:
        stored = store_message(host, rules)
        if isinstance(stored, Skipped):
            tally.skipped[stored] += 1
        else:
            yield host, stored


def without_heartbeats(
    stored: Iterable[tuple[HostMessage, StoredMessage]], tally: Tally
) -> Iterator[tuple[HostMessage, StoredMessage]]:
    """The same without the host's own polls and the turns in which nothing was to be done.

    Such a turn goes from a user's message to an answer that is the acknowledgement alone, and names the file
    of the host's heartbeats. At most one turn is held.
    """
    turn: list[tuple[HostMessage, StoredMessage]] = []
    in_turn = False
    for host, message in stored:
        if message.role == "user":
            yield from turn
            turn, in_turn = [], True
        if is_poll(message.role, message.content):
            tally.skipped[Skipped.HEARTBEAT] += 1
        elif in_turn:
            turn.append((host, message))
        else:
            yield host, message
        is_end = is_acknowledgement(message.role, message.content)
        if is_end and any(names_heartbeats(one.content) for _, one in turn):
            tally.skipped[Skipped.HEARTBEAT] += len(turn)
            turn, in_turn = [], False
    yield from turn


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
