"""An LCM engine for a Python agent: it stores what the host says, and finds its place again after a restart.

Appends are committed without the journal: what a host would have written anyway is no operation (design.md
section 4). Calls for one conversation run one after the other, calls for several side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from zoneinfo import ZoneInfo

from lcm_core.assemble.assembler import Surroundings, assemble
from lcm_core.assemble.live import live_message
from lcm_core.assemble.resolve import ResolvedContext
from lcm_core.assemble.result import Assembled
from lcm_core.assembly import assemble_context, settings_for
from lcm_core.change.schema_new import create_database
from lcm_core.change.snapshots import KEPT
from lcm_core.compaction_rules import compaction_rules, compaction_settings
from lcm_core.engine.appends import Appender
from lcm_core.engine.presence import Presence
from lcm_core.engine.snapshots import Snapshots
from lcm_core.errors import NotFoundError, UsageError
from lcm_core.ingest.history import HostMessage, host_message
from lcm_core.ingest.jsonl import JsonObject
from lcm_core.ingest.patterns import matches_any
from lcm_core.ingest.reconcile import Proof
from lcm_core.operations.admission import doubt, overlap_of, refuse_flood
from lcm_core.operations.appending import Session
from lcm_core.operations.compaction.run import Operation, Runner, Setting
from lcm_core.operations.importing import (
    ImportRules,
    Tally,
    Transcript,
    anchor_of,
    import_rules,
    pieces,
    read_known,
    read_transcript,
    stored_of,
)
from lcm_core.records import ConversationId
from lcm_core.rules import rules_of
from lcm_core.settings.engine import EngineSettings
from lcm_core.store.database import Database
from lcm_core.store.ingested import find_holding
from lcm_core.summarize.reading import Rendering
from lcm_core.summarize.request import Summarizer

__all__ = ["Bootstrapped", "Engine", "Ingested", "Session"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of messages that a host handed over."""

    conversation_id: int | None  #: None: the session is not stored
    stored: int
    known: int  #: they were there already
    skipped: int  #: the engine stores none such


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """What became of a transcript at the start of a session."""

    conversation_id: int | None
    imported: int
    left_out: int  #: older messages that are not stored: they would come behind newer ones
    bad_lines: int
    proof: Proof  #: by what the place was found
    reason: str | None  #: why nothing was imported although something is new


_NOT_STORED: Final = Ingested(None, 0, 0, 0)


class Engine:
    """One database, open for a host. Use as an asynchronous context manager, or `close` it."""

    def __init__(
        self,
        database: Database,
        large_files: Path,
        settings: EngineSettings,
        clock: Callable[[], datetime],
        snapshots: int = KEPT,
    ) -> None:
        self.database = database
        self._presence = Presence(database.path)
        self._snapshots = Snapshots(database, snapshots)
        self._appender = Appender(database, large_files, clock)
        self._settings = settings
        name = settings.timezone.value
        self._zone = None if name is None else ZoneInfo(name)
        self._clock = clock
        self._locks: dict[str, asyncio.Lock] = {}

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        large_files: Path,
        settings: EngineSettings | None = None,
        create: bool = True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        snapshots: int = KEPT,
    ) -> Self:
        """Open a database of any version; a missing one is made with the present schema if *create* says so.

        *snapshots* are kept of each conversation's newest assemblies; 0: none, and what was kept stays.

        Raises:
            DatabaseError: it cannot be opened, or not made.
        """
        if create and not await asyncio.to_thread(path.exists):
            await asyncio.to_thread(create_database, path)
        engine = cls(await Database.open(path), large_files, settings or EngineSettings(), clock, snapshots)
        try:
            await asyncio.to_thread(engine._presence.begin)
            await engine.database.refresh()
        except BaseException:
            await engine.close()
            raise
        return engine

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file; calls that still run end first."""
        async with contextlib.AsyncExitStack() as last:
            last.push_async_callback(asyncio.to_thread, self._presence.end)
            last.push_async_callback(self.database.close)
            for lock in list(self._locks.values()):
                async with lock:
                    pass
            await self.noted()

    # -- what a host says --------------------------------------------------------------------------------

    async def ingest(self, session: Session, message: JsonObject, *, entry_id: str | None = None) -> Ingested:
        """Store one message of the host (field.md 6.3) behind the others.

        Raises:
            LcmError: the database or the large-files folder cannot be written.
        """
        return await self.ingest_batch(session, [message], entry_ids=[entry_id])

    async def ingest_batch(
        self,
        session: Session,
        messages: Sequence[JsonObject],
        *,
        entry_ids: Sequence[str | None] | None = None,
    ) -> Ingested:
        """Store messages behind the others in one commit; those with a known entry or event are left out.

        Raises:
            UsageError: there is not one entry id for every message.
            RefusedError: they look like a replay of what is stored.
            LcmError: the database or the large-files folder cannot be written.
        """
        ids = [None] * len(messages) if entry_ids is None else entry_ids
        if len(ids) != len(messages):
            raise UsageError(
                f"There are {len(ids):,} entry ids for {len(messages):,} messages: give one each."
            )
        if not self._is_stored(session) or not messages:
            return _NOT_STORED
        hosts = self._hosts(messages, ids)
        async with self._turn(session):
            return await self._store(session, hosts, align=False)

    async def after_turn(
        self, session: Session, messages: Sequence[JsonObject], pre_prompt_message_count: int = 0
    ) -> Ingested:
        """Store what a turn added to the host's *messages*: those from *pre_prompt_message_count* on.

        The first of them may be stored already; they are recognised by text and time together.

        Raises as `ingest_batch`.
        """
        added = list(messages)[max(0, pre_prompt_message_count) :]
        if not self._is_stored(session) or not added:
            return _NOT_STORED
        hosts = self._hosts(added, [None] * len(added))
        async with self._turn(session):
            return await self._store(session, hosts, align=True)

    async def bootstrap(self, session: Session, transcript: Path) -> Bootstrapped:
        """Bring a session's conversation up to its transcript; a second call stores nothing.

        Raises:
            TranscriptError: the transcript cannot be read.
            LcmError: the database or the large-files folder cannot be written.
        """
        if not self._is_stored(session):
            return Bootstrapped(None, 0, 0, 0, Proof.NONE, "the session is not stored")
        async with self._turn(session):
            read = await asyncio.to_thread(read_transcript, transcript)
            rules = self._rules()
            known = await self.database.read(read_known, session)
            anchor = await asyncio.to_thread(anchor_of, read, known, rules)
            new = len(read.positions) - anchor.start
            reason = doubt(anchor.proof, new, known.holding.messages if known.holding else 0)
            tally, conversation_id = Tally(), None
            if known.holding is not None:
                conversation_id = int(str(known.holding.row["conversation_id"]))
            if reason is None and new:
                conversation_id = await self._import(session, read, anchor.start, rules, tally)
            return Bootstrapped(
                conversation_id, tally.stored, anchor.left_out, read.index.bad_lines, anchor.proof, reason
            )

    # -- what the model sees -----------------------------------------------------------------------------

    async def assemble(
        self,
        session: Session,
        *,
        budget: int,
        prompt: str | None = None,
        live: Sequence[JsonObject] | None = None,
        can_compact: bool = True,
        zone: tzinfo | None = None,
    ) -> Assembled:
        """The messages that go to the model within *budget* tokens; *live* are those that the host holds.

        They are sent of a session that nothing is stored of, and when the host says that it cannot compact
        now although that is due (engine.md 2.5, 3). *zone* is that of all times (None: that of the settings,
        else this machine's). A snapshot is kept afterwards (seed 004), unless that
        fails: `snapshot_problem` says why.

        Raises:
            NotFoundError: nothing is stored of this session, and the host holds nothing either.
            LcmError: the database cannot be read.
        """
        settings = settings_for(self._settings, budget, prompt)
        held = None if live is None else tuple(map(live_message, live))
        try:
            conversation_id = await self._conversation(session)
        except NotFoundError:
            if not held:
                raise
            rules = rules_of(self.database.schema)
            return await asyncio.to_thread(
                assemble, ResolvedContext(()), settings, rules, Surroundings(live=held)
            )
        now, zone = self._clock(), zone or self._zone
        assembled = await self.database.read(
            assemble_context,
            conversation_id,
            settings,
            zone=zone,
            live=held,
            can_compact=can_compact,
            now=now,
        )
        self._snapshots.keep(assembled, conversation_id, settings, zone=zone, now=now)
        return assembled

    @property
    def snapshot_problem(self) -> str | None:
        """Why the last assembly left no snapshot."""
        return self._snapshots.problem

    async def noted(self) -> None:
        """Wait until the snapshots of all assemblies so far are kept, or `snapshot_problem` says why not."""
        await self._snapshots.settled()

    async def compact(
        self,
        session: Session,
        summarizer: Summarizer,
        *,
        budget: int,
        operation: Operation[T] | None = None,
        force: bool = False,
        zone: tzinfo | None = None,
    ) -> Runner[T]:
        """Compact as the engine would: a sweep, when it is due or *force* says so, or another *operation*.

        Appends go on meanwhile: every pass is committed by itself, with compare and set, and journaled.
        The runner says what was made; its ``batch`` is what takes it back. *zone* as for `assemble`.

        Raises:
            NotFoundError: nothing is stored of this session.
            SummarizerError: no answer came back; what was committed stays.
            LcmError: the database cannot be written.
        """
        conversation_id = await self._conversation(session)
        rules = compaction_rules(self.database.schema)
        settings = compaction_settings(self._settings, rules)
        setting = Setting(Rendering(rules, zone or self._zone, settings.injected_tags), settings, budget)
        passes: Operation[Any] = operation or (lambda compaction: compaction.sweep(force=force))
        runner: Runner[T] = Runner(
            self.database, conversation_id, setting, summarizer, passes, now=self._clock
        )
        async with self._turn(session, "compact"):
            async for _ in runner.steps():
                pass
            await runner.note()
        return runner

    async def _conversation(self, session: Session) -> ConversationId:
        holding = await self.database.read(find_holding, session.session_id, session.session_key)
        if holding is None:
            raise NotFoundError(
                f"Nothing is stored of session {session.session_key or session.session_id}: bootstrap it, or "
                "hand its messages over first.",
                code="CONVERSATION_NOT_FOUND",
            )
        return ConversationId(int(str(holding.row["conversation_id"])))

    # -- how it is stored --------------------------------------------------------------------------------

    async def _import(
        self, session: Session, transcript: Transcript, start: int, rules: ImportRules, tally: Tally
    ) -> int | None:
        """Store what is new, piece by piece; while one is stored the next one is read."""
        conversation_id = None
        waiting = pieces(transcript, start, rules, tally)
        piece = await asyncio.to_thread(next, waiting, None)
        while piece is not None:
            done, following = await asyncio.gather(
                self._appender.append(session, piece.messages, transcript.checkpoint(piece.offset)),
                asyncio.to_thread(next, waiting, None),
                return_exceptions=True,  # so that both have ended when one fails
            )
            if isinstance(done, BaseException):
                raise done
            if isinstance(following, BaseException):
                raise following
            conversation_id, piece = done.conversation_id, following
        return conversation_id

    async def _store(self, session: Session, hosts: Sequence[HostMessage], *, align: bool) -> Ingested:
        stored = [message for _, message in stored_of(hosts, self._rules(), Tally())]
        skipped = len(hosts) - len(stored)
        held = await self.database.read(overlap_of, session, stored) if align else 0
        fresh = stored[held:]
        limits = self._settings
        await self.database.read(
            refuse_flood,
            session,
            fresh,
            users=limits.replay_flood_threshold_external.value,
            others=limits.replay_flood_threshold_internal.value,
        )
        if not fresh:
            return Ingested(None, 0, held, skipped)
        done = await self._appender.append(session, fresh, None)
        return Ingested(done.conversation_id, done.stored, done.known + held, skipped)

    def _hosts(self, messages: Sequence[JsonObject], ids: Sequence[str | None]) -> list[HostMessage]:
        now = self._clock()
        return [
            host_message(message, now=now, entry_id=entry_id)
            for message, entry_id in zip(messages, ids, strict=True)
        ]

    def _rules(self) -> ImportRules:
        return import_rules(self.database.schema, self._settings)

    def _is_stored(self, session: Session) -> bool:
        """Whether the operator wants sessions like this one stored."""
        settings, name = self._settings, session.session_key or session.session_id
        if matches_any(settings.ignore_session_patterns.value, name):
            return False
        stateless = matches_any(settings.stateless_session_patterns.value, name)
        return not (stateless and settings.skip_stateless_sessions.value)

    @contextlib.asynccontextmanager
    async def _turn(self, session: Session, kind: str = "append") -> AsyncIterator[None]:
        """Wait until no other call of its kind runs for the conversation: a model may take minutes."""
        name = f"{kind}:{session.session_key or session.session_id}"
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield
