"""Transcripts into conversations, as the engine imports them at a session's start and after its turns.

Source: docs/spec/ingest.md, "First import".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from lcm_core.base.records import ConversationId
from lcm_core.base.values import Record
from lcm_core.engine.rules import IngestRules
from lcm_core.store.database import Database
from lcm_core.store.ingested import Holding, find_holding

from lcm_host.appending import (
    Session,
    TranscriptCheckpoint,
    plan_adoption,
    plan_fork_mark,
    plan_rollover_archive,
)
from lcm_host.backfill import (
    ImportTally,
    checkpoint_of,
    hash_of,
    last_hash,
    stored_of,
    transcript_pieces,
    without_heartbeats,
)
from lcm_host.committing import Appender
from lcm_host.messages import (
    HostFile,
    HostMessage,
    StoredMessage,
    message_tokens,
    read_host_file,
    read_messages,
)
from lcm_host.reconciling import AnchorProof, Reconciled, is_up_to_date, reconcile
from lcm_host.sessions import first_header

#: Tokens of a message for each byte of its line, at most.
_TOKENS_PER_BYTE: Final = 2

UP_TO_DATE: Final = "already bootstrapped"
RECONCILED: Final = "reconciled missing session messages"
FORK_BOUNDED: Final = "fork-bounded bootstrap import"
NOTHING_THERE: Final = "no leaf-path messages in session"


class Bootstrapped(Record, frozen=True):
    """What became of a transcript at the start of a session."""

    conversation_id: ConversationId | None
    imported: int
    left_out: int  #: older messages that are not stored: they would follow newer ones, or exceed the budget
    bad_lines: int
    proof: AnchorProof  #: by what the place was found
    engine_reason: str | None  #: what the engine says of it
    reason: str | None = None  #: why nothing was imported although something is new

    @property
    def bootstrapped(self) -> bool:
        """What the engine answers: whether anything was imported."""
        return self.imported > 0


class Transcripts:
    """Brings conversations up to the transcripts of their sessions."""

    def __init__(self, database: Database, appender: Appender) -> None:
        self._database = database
        self._appender = appender

    async def bootstrap(self, session: Session, path: Path, rules: IngestRules) -> Bootstrapped:
        """Bring a conversation up to its transcript, or begin it with its newest messages."""
        find = partial(self._database.read, find_holding, session.session_id, session.session_key)
        held = await find()
        if await asyncio.to_thread(_is_read, held, path):
            if await asyncio.to_thread(_is_fork, path):
                await self._appender.committed(plan_fork_mark, session)
            owner = None if held is None else held.conversation_id
            return Bootstrapped(owner, 0, 0, 0, AnchorProof.EMPTY, UP_TO_DATE)
        file = await asyncio.to_thread(read_host_file, path)
        if held and held.messages and await asyncio.to_thread(_is_left_behind, held, session):
            found = await self._database.read(reconcile, file, held)
            if found.proof is AnchorProof.NONE:
                await self._appender.committed(plan_rollover_archive, session, self._appender.clock())
                held = await find()
        if held is None or not held.messages:
            return await self._first(session, file, rules)
        found, imported = await self.catch_up(session, file, held, rules)
        return Bootstrapped(
            held.conversation_id,
            imported,
            found.left_out,
            file.bad_lines,
            found.proof,
            RECONCILED if imported else UP_TO_DATE,
            found.reason,
        )

    async def _first(self, session: Session, file: HostFile, rules: IngestRules) -> Bootstrapped:
        kept = await asyncio.to_thread(_within_budget, file, rules)
        left_out = len(file.on_path) - kept.count
        is_fork = file.header is not None and bool(file.header.parent_session)
        bounded = bool(left_out) and is_fork
        tally = ImportTally()
        whole = checkpoint_of(file, bounded=bounded, first_hash=kept.last_hash)
        hosts = read_messages(file, file.messages)
        stored = kept.stored if kept.stored is not None else stored_of(hosts, rules, tally)
        conversation_id = await self._import(session, file, stored, tally, whole)
        if rules.prune_heartbeat_ok and tally.stored:
            await self._appender.prune(session, 0, rules)
        done = FORK_BOUNDED if bounded else None
        return Bootstrapped(
            conversation_id,
            tally.stored,
            left_out,
            file.bad_lines,
            AnchorProof.EMPTY,
            done if tally.stored else NOTHING_THERE,
        )

    async def catch_up(
        self,
        session: Session,
        file: HostFile,
        held: Holding,
        rules: IngestRules,
        *,
        bootstraps: bool = True,
    ) -> tuple[Reconciled, int]:
        """Store what a transcript has and a conversation with messages lacks; say how many messages."""
        found = await self._database.read(reconcile, file, held)
        if found.adopted:
            await self._appender.committed(plan_adoption, session, found.adopted)
        if not found.new and not found.moves_on:
            return found, 0
        tally = ImportTally()
        hosts = read_messages(file, found.new)
        stored = stored_of(hosts, rules, tally)
        if not rules.preserve_heartbeat_poll:
            stored = without_heartbeats(stored, tally)
        whole = checkpoint_of(file, bootstraps=bootstraps) if found.moves_on else None
        await self._import(session, file, stored, tally, whole)
        if rules.prune_heartbeat_ok and tally.stored:
            await self._appender.prune(session, held.last_seq, rules)
        return found, tally.stored

    async def _import(
        self,
        session: Session,
        file: HostFile,
        stored: Iterable[tuple[HostMessage, StoredMessage]],
        tally: ImportTally,
        whole: TranscriptCheckpoint | None,
    ) -> ConversationId | None:
        """Store messages piece by piece; while one is stored the next one is read."""
        conversation_id, done_all = None, False
        waiting = transcript_pieces(stored, tally)
        piece = await asyncio.to_thread(next, waiting, None)
        known = 0
        while piece is not None:
            checkpoint = whole
            if piece.offset is not None and whole is not None:
                checkpoint = checkpoint_of(file, piece.offset, bounded=whole.bounded)
            done, following = await asyncio.gather(
                self._appender.append(session, piece.messages, checkpoint),
                asyncio.to_thread(next, waiting, None),
                return_exceptions=True,  # so that both have ended when one fails
            )
            if isinstance(done, BaseException):
                raise done
            if isinstance(following, BaseException):
                raise following
            known += done.known
            conversation_id, done_all = done.conversation_id, piece.offset is None
            piece = following
        tally.stored -= known
        if whole is not None and not done_all:
            conversation_id = (await self._appender.append(session, (), whole)).conversation_id
        return conversation_id


class _Kept(Record, frozen=True):
    """What a first import keeps."""

    count: int  #: of messages, those that are not stored among them
    last_hash: str | None
    stored: tuple[tuple[HostMessage, StoredMessage], ...] | None  #: None: all of them, not read yet


def _within_budget(file: HostFile, rules: IngestRules) -> _Kept:
    """The newest messages whose tokens fit, in their order; blocks."""
    messages = file.messages
    if sum(one.size for one in messages) * _TOKENS_PER_BYTE <= rules.bootstrap_max_tokens:
        return _Kept(len(messages), last_hash(file), None)
    room, count = rules.bootstrap_max_tokens, 0
    kept: list[tuple[HostMessage, StoredMessage]] = []
    last: str | None = None
    for host in read_messages(file, messages[::-1]):
        found = next(stored_of([host], rules, ImportTally()), None)
        tokens = found[1].whole_tokens if found is not None else message_tokens(host.message)
        if tokens > room:
            break
        last = hash_of(host.message) if not count else last
        room, count = room - tokens, count + 1
        if found is not None:
            kept.append(found)
    return _Kept(count, last, tuple(reversed(kept)))


def _is_read(held: Holding | None, path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return is_up_to_date(held, path, found.st_size, found.st_mtime_ns // 10**6)


def _is_fork(path: Path) -> bool:
    """Whether a transcript begins by naming the one that it was forked from."""
    try:
        header = first_header(path)
    except OSError:
        return False
    return header is not None and bool(header.parent_session)


def _is_left_behind(held: Holding, session: Session) -> bool:
    """Whether the host continues under another session id, and the file of the former one is gone."""
    if held.row.get("session_id") == session.session_id:
        return False
    path = (held.checkpoint or {}).get("session_file_path")
    return isinstance(path, str) and bool(path) and not Path(path).exists()
