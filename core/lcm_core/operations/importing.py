"""A transcript into a conversation: what is new, in pieces, each committed with its files.

Idempotent by entry ids, and therefore resumable: what an earlier run stored is where the next one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lcm_core.engine_rules import IngestRules
from lcm_core.ingest.host_file import HostFile, HostMessage, read_messages
from lcm_core.ingest.identity import entry_hash
from lcm_core.ingest.parts import message_text
from lcm_core.ingest.skipping import Skipped, is_acknowledgement, is_poll, names_heartbeats, stored_role
from lcm_core.ingest.stored import StoredMessage, store_message
from lcm_core.javascript import JsonObject
from lcm_core.operations.appending import TranscriptCheckpoint

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


@dataclass(slots=True)
class ImportTally:
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


@dataclass(frozen=True, slots=True)
class TranscriptPiece:
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
