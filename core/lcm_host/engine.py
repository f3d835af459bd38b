"""An LCM engine for a Python agent: it stores what the host says, and finds its place again after a restart.

Appends are committed without the journal: what a host would have written anyway is no operation
(docs/spec/decisions.md, "A change is a value"). Calls for one conversation run one after the other, calls for
several side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from zoneinfo import ZoneInfo

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import LcmError, NotFoundError, UsageError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.base.times import sql_utc
from lcm_core.base.values import Record, replace
from lcm_core.change.schema import create_database
from lcm_core.change.snapshots import KEPT, note_assembly
from lcm_core.engine.assembly import (
    Assembled,
    AssemblyInputs,
    AssemblySettings,
    SentSource,
    assemble,
    weight,
    with_turn,
)
from lcm_core.engine.blocks import live_message
from lcm_core.engine.items import ContextMessages
from lcm_core.engine.messages import OriginKind, SentMessage
from lcm_core.engine.rules import EngineRules, IngestRules, configured, engine_rules, ingest_rules
from lcm_core.engine.sessions import (
    UNKNOWN_MODEL,
    RuntimeModel,
    is_acknowledgement,
    names_heartbeats,
    settings_for_session,
    why_not_stored,
)
from lcm_core.operations.assembly import add_history, assemble_context, settings_for
from lcm_core.operations.compact import Operation, Runner, compaction_setting
from lcm_core.store.database import Database, Reader, opens
from lcm_core.store.ingested import find_holding
from lcm_core.writers.request import Summarizer, SummarizerError
from lcm_core.writers.source import Rendering
from lcm_recall.answer import ToolAnswer
from lcm_recall.cue import with_cue
from lcm_recall.grants import Grants
from lcm_recall.queries import engine_recall
from lcm_recall.tools import TOOLS, RecallTools

from lcm_host.appending import (
    Append,
    Session,
    cache_snapshot,
    plan_reset,
    plan_session_end,
    unread_checkpoint,
)
from lcm_host.backfill import ImportTally, checkpoint_of, stored_of
from lcm_host.committing import Appender
from lcm_host.connection import OpenConnection
from lcm_host.messages import HostMessage, StoredMessage, host_message, read_host_file
from lcm_host.reconciling import AnchorProof, overlap_of, refuse_flood, stored_of_turn, without_repeated
from lcm_host.transcripts import Bootstrapped, Transcripts

if TYPE_CHECKING:
    from lcm_core.writers.cost import Model

__all__ = ["Bootstrapped", "Compacted", "Engine", "Ingested", "RuntimeModel", "Session"]


class Snapshots:
    """The snapshots of one engine's assemblies; those of a conversation are in the order they were made."""

    def __init__(self, database: Database, newest: int) -> None:
        self._database = database
        self._newest = newest  #: kept of each conversation; 0: none is made
        self._running: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.problem: str | None = None  #: why the last one was not kept

    def keep(
        self,
        assembled: Assembled,
        conversation_id: ConversationId,
        settings: AssemblySettings,
        *,
        zone: tzinfo | None,
        now: datetime,
    ) -> None:
        """Begin to keep one; `settled` waits for it."""
        note = partial(note_assembly, newest=self._newest, zone=zone, now=now)

        async def kept() -> None:
            async with self._turn:
                try:  # to count what was ever said takes its time, so it is done here and not in the assembly
                    whole = await self._database.read(add_history, conversation_id, assembled)
                    path = self._database.path
                    self.problem = await asyncio.to_thread(note, path, whole, conversation_id, settings)
                    await self._database.refresh()
                except LcmError as error:
                    self.problem = error.message

        if self._newest > 0:
            task = asyncio.create_task(kept())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def settled(self) -> None:
        """Wait until all that were begun are kept, or `problem` says why not."""
        await asyncio.gather(*self._running)


class Ingested(Record, frozen=True):
    """What became of messages that a host handed over."""

    conversation_id: ConversationId | None  #: None: the session is not stored
    stored: int
    known: int  #: they were there already
    skipped: int  #: the engine stores none such


_NOT_STORED: Final = Ingested(None, 0, 0, 0)


class Compacted(Record, frozen=True):
    """What a compaction made."""

    made: int  #: passes that were committed, each a summary
    leaves: int  #: of them
    batch: str  #: by which the history has them, and `plan_undo_batch` takes them back
    failed: SummarizerError | None  #: what ended it after passes that stay


class Engine:
    """One database, open for a host. Use as an asynchronous context manager, or `close` it."""

    def __init__(
        self,
        database: Database,
        large_files: Path,
        settings: EngineSettings,
        clock: Callable[[], datetime],
        snapshots: int = KEPT,
        model: Model | None = None,
    ) -> None:
        self.database = database
        self._presence = OpenConnection(database.path)
        self._snapshots = Snapshots(database, snapshots)
        self._appender = Appender(database, large_files, clock)
        self._transcripts = Transcripts(database, self._appender)
        recalling = engine_recall(settings, large_files, database.path.parent)
        self._recall = RecallTools(database, recalling, model=model)
        self._settings = settings
        name = settings.timezone.value
        self._zone = None if name is None else ZoneInfo(name)
        self._clock = clock
        self._locks: dict[str, asyncio.Lock] = {}

    @classmethod
    @opens
    async def open(
        cls,
        path: Path,
        *,
        large_files: Path,
        settings: EngineSettings | None = None,
        create: bool = True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        snapshots: int = KEPT,
        model: Model | None = None,
    ) -> Engine:
        """Open a database: ``async with Engine.open(...)``; what is awaited instead is to be closed.

        A missing one is made with the present schema if *create* says so.

        One that an engine before 0.15.2 wrote is read, and stores no messages before it is migrated.

        *snapshots* are kept of each conversation's newest assemblies; 0: none, and what was kept stays.
        *model* answers ``lcm_expand_query``; its maker closes it. None: no model is called.

        Raises:
            DatabaseError: it cannot be opened, or not made.
        """
        if create and not await asyncio.to_thread(path.exists):
            await asyncio.to_thread(create_database, path)
        database = await Database.open(path)
        engine = cls(database, large_files, settings or EngineSettings(), clock, snapshots, model)
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
        """Store one message of the host behind the others, with the present as its time.

        Raises:
            RefusedError: an engine before 0.15.2 wrote the file: it is to be migrated first.
            LcmError: the database or the large-files folder cannot be written.
        """
        if not self._is_stored(session):
            return _NOT_STORED
        async with self._turn(session):
            return await self._store(session, [host_message(message, entry_id=entry_id, timed=False)])

    async def ingest_batch(
        self,
        session: Session,
        messages: Sequence[JsonObject],
        *,
        entry_ids: Sequence[str | None] | None = None,
    ) -> Ingested:
        """Store messages behind the others in one commit, each with its own time.

        Those with a known entry or event are left out, and those that repeat a stored message block by block.

        Raises:
            UsageError: there is not one entry id for every message.
            RefusedError: as `ingest`; or they look like a replay of what is stored.
            LcmError: the database or the large-files folder cannot be written.
        """
        ids = [None] * len(messages) if entry_ids is None else entry_ids
        if len(ids) != len(messages):
            raise UsageError(
                f"{counted(len(ids), 'entry id')} for {counted(len(messages), 'message')}: give one each."
            )
        if not self._is_stored(session) or not messages:
            return _NOT_STORED
        hosts = [host_message(one, entry_id=entry_id) for one, entry_id in zip(messages, ids, strict=True)]
        async with self._turn(session):
            return await self._store(session, hosts)

    async def after_turn(
        self,
        session: Session,
        messages: Sequence[JsonObject],
        pre_prompt_message_count: int = 0,
        *,
        transcript: Path | None = None,
        is_heartbeat: bool = False,
        prompt_cache: JsonObject | None = None,
        model: RuntimeModel = UNKNOWN_MODEL,
    ) -> Ingested:
        """Store what a turn added to the host's *messages*: those from *pre_prompt_message_count* on.

        What the session's *transcript* has is stored first, with its own ids; of the turn only what is behind
        that. Nothing is stored when it cannot be shown where the transcript goes on, or when the turn
        *is_heartbeat*: one of the host's own timer (unless preserveHeartbeatPoll is set). *prompt_cache* is
        what the host knows of the provider's
        cache after the turn, and *model* what answered: both are noted (docs/spec/sessions.md, "What a turn
        notes"), nothing without the first.

        Raises as `ingest_batch`; TranscriptError when the transcript cannot be read.
        """
        added = list(messages)[max(0, pre_prompt_message_count) :]
        if not self._is_stored(session) or not added:
            return _NOT_STORED
        rules = self._ingest_rules()
        if is_heartbeat and not rules.preserve_heartbeat_poll:
            return _NOT_STORED
        hosts = [host_message(one) for one in added]
        async with self._turn(session):
            done = await self._after_turn(session, hosts, transcript)
            if prompt_cache is not None:
                seen = cache_snapshot(prompt_cache)
                rendering = Rendering(self._rules(), self._zone)
                await self._appender.note_telemetry(session, seen, rendering, model)
        return done

    async def bootstrap(self, session: Session, transcript: Path) -> Bootstrapped:
        """Bring a session's conversation up to its transcript; a second call stores nothing.

        A conversation without messages gets the newest ones that fit into the budget (bootstrapMaxTokens).

        Raises:
            RefusedError: as `ingest`.
            TranscriptError: the transcript cannot be read.
            LcmError: the database or the large-files folder cannot be written.
        """
        excluded = self._exclusion(session)
        if excluded is not None:
            return Bootstrapped(None, 0, 0, 0, AnchorProof.NONE, excluded, "the session is not stored")
        async with self._turn(session):
            return await self._transcripts.bootstrap(session, transcript, self._ingest_rules())

    # -- when a session is reset or ends -------------------------------------------------------------------

    async def new_session(self, session: Session) -> None:
        """`/new`: the context of the same conversation loses all that is not deep enough.

        Source: docs/spec/sessions.md, "Events". How deep, the setting newSessionRetainDepth says.

        Raises:
            RefusedError: as `ingest`.
            LcmError: the database cannot be written.
        """
        if self._is_stored(session):
            async with self._turn(session):
                depth = self._settings.new_session_retain_depth.value
                await self._appender.prune_context(session, depth)

    async def reset(self, session: Session) -> int | None:
        """`/reset`: put the conversation aside and begin another one; its id, None where nothing was done.

        Raises as `new_session`.
        """
        if not self._is_stored(session):
            return None
        async with self._turn(session):
            done = await self._appender.committed(plan_reset, session, now=self._clock())
        return None if done is None else done.conversation_id

    async def end_session(
        self, session: Session, reason: str, *, following: Session | None = None
    ) -> int | None:
        """A session has ended for a *reason* of the host, which goes on with *following*.

        The conversation that was begun, or put aside when none was; None where nothing was done. Raises as
        `new_session`.
        """
        if not self._is_stored(session):
            return None
        async with self._turn(session):
            done = await self._appender.committed(
                plan_session_end, session, reason, following, now=self._clock()
            )
        return None if done is None else done.conversation_id

    # -- what the model sees -----------------------------------------------------------------------------

    async def assemble(
        self,
        session: Session,
        *,
        budget: int,
        prompt: str | None = None,
        live: Sequence[JsonObject] | None = None,
        can_compact: bool = True,
        delivers_prompt: bool = False,
        zone: tzinfo | None = None,
        model: RuntimeModel = UNKNOWN_MODEL,
    ) -> Assembled:
        """The messages that go to the model within *budget* tokens; *live* are those that the host holds.

        Where the database's messages are sent, the turn at the end of *live* (the user's last messages and
        what follows them) comes behind them as far as it is not stored; older messages give way to it.

        *delivers_prompt*: the host sends *prompt* by itself, behind these messages, so that they may end with
        the assistant; then no turn is added.

        Where *prompt* names an identifier that they do not hold, what history says of it may stand before
        them (docs/spec/recall.md, "Recall cue").

        *live* is sent alone if the session is empty, if nothing is summarised and the database has fewer
        messages, or if compaction is due but the host cannot run it (docs/spec/tokens.md,
        "When compaction is due and cannot run").
        *model* is as for `compact`. *zone* is that of all times (None: that of the settings, else this
        machine's). A snapshot is kept afterwards, unless that fails: `snapshot_problem` says why.

        Raises:
            NotFoundError: nothing is stored of this session, and the host holds nothing either.
            LcmError: the database cannot be read.
        """
        settings = settings_for(
            settings_for_session(self._settings, session.session_key, model), budget, prompt
        )
        settings = replace(settings, host_delivers_turn=delivers_prompt and prompt is not None)
        held = None if live is None else tuple(map(live_message, live))
        try:
            conversation_id = await self._conversation(session)
        except NotFoundError:
            if not held:
                raise
            return await asyncio.to_thread(
                assemble, ContextMessages(()), settings, self._rules(), AssemblyInputs(live=held)
            )
        now, zone = self._clock(), zone or self._zone

        async def load(reader: Reader) -> tuple[Assembled, AssemblySettings, Assembled]:
            asked, rules = settings, engine_rules(reader.schema)
            assembling = partial(
                assemble_context,
                reader,
                conversation_id,
                zone=zone,
                live=held,
                can_compact=can_compact,
                now=now,
            )
            plain = await assembling(asked)
            turn = () if asked.host_delivers_turn else await self._turn_of(reader, session, live, plain)
            if turn:
                room = budget - sum(weight(message, rules) for message in turn)
                asked = replace(asked, budget=max(1, room), host_delivers_turn=True)
                plain = await assembling(asked)
            assembled = await with_cue(reader, conversation_id, plain, prompt, rules, now)
            if turn and plain.metadata.source is SentSource.ASSEMBLED:
                assembled = with_turn(assembled, turn, budget, rules)
            return plain, asked, assembled

        plain, asked, assembled = await self.database.read(load)
        self._snapshots.keep(plain, conversation_id, asked, zone=zone, now=now)  # rows are noted, no text
        return assembled

    async def _turn_of(
        self, reader: Reader, session: Session, live: Sequence[JsonObject] | None, sent: Assembled
    ) -> tuple[SentMessage, ...]:
        """The host's turn, as far as it is not stored, where only messages of the database are sent."""
        theirs = any(message.origin.kind is OriginKind.LIVE for message in sent.messages)
        if not live or theirs or sent.metadata.source is not SentSource.ASSEMBLED:
            return ()
        first = max((at for at, one in enumerate(live) if one.get("role") == "user"), default=len(live))
        while first > 0 and live[first - 1].get("role") == "user":
            first -= 1
        turn = live[first:]
        hosts = [host_message(one) for one in turn]
        stored = list(stored_of(hosts, self._ingest_rules(), ImportTally()))
        held = await stored_of_turn(reader, session, [message for _, message in stored])
        if held == len(stored):
            return ()
        begin = next(at for at, host in enumerate(hosts) if host is stored[held][0])
        return tuple(map(live_message, turn[begin:]))

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
        operation: Operation[object] | None = None,
        force: bool = False,
        zone: tzinfo | None = None,
        model: RuntimeModel = UNKNOWN_MODEL,
        overflowed: bool = False,
    ) -> Compacted:
        """Compact as the engine would: a sweep, when it is due or *force* says so, or another *operation*.

        *model* is the one that the session runs on: the operator's thresholds may depend on it. *overflowed*:
        the model refused the context as too long, and all of the host's transcript is stored; then the
        operation is forced, and from 1.1 on takes finished tool calls of the current turn too
        (docs/spec/compaction.md, "Current turn").

        Appends go on meanwhile: every pass is committed by itself, with compare and set, and journaled.
        From 1.1 on a summariser that fails after a committed pass raises nothing: ``failed`` has its error
        (docs/spec/compaction.md, "What is answered"). *zone* as for `assemble`.

        Raises:
            NotFoundError: nothing is stored of this session.
            SummarizerError: no answer came back; what was committed stays.
            LcmError: the database cannot be written.
        """
        conversation_id = await self._conversation(session)
        setting = compaction_setting(
            self.database.schema,
            self._settings,
            zone or self._zone,
            budget,
            session_key=session.session_key,
            model=model,
        )
        setting = replace(setting, current_turn=overflowed)
        passes: Operation[object] = operation or (
            lambda compaction: compaction.sweep(force=force or overflowed)
        )
        runner = Runner(self.database, conversation_id, setting, summarizer, passes, now=self._clock)
        async with self._turn(session, "compact"):
            try:
                async for _ in runner.steps():
                    pass
            except SummarizerError as error:
                if not (runner.made and setting.rendering.rules.compaction.reports_stored):
                    raise
                runner.failed = error
            finally:
                await runner.note()
        return Compacted(runner.made, runner.leaves, runner.batch, runner.failed)

    # -- what the model asks for -------------------------------------------------------------------------

    @property
    def grants(self) -> Grants:
        """What sub-agents may expand, while this engine is open (docs/spec/recall.md, "Grants").

        ``grants.create(issuer, conversations, session=key)`` gives one to the session of that key.
        """
        return self._recall.grants

    async def call_tool(self, session: Session, name: str, parameters: Mapping[str, Any]) -> ToolAnswer:
        """What ``lcm_grep``, ``lcm_describe``, ``lcm_expand`` or ``lcm_expand_query`` answers to a session.

        What a tool refuses is an answer too, with ``error`` in its details. A session whose key is that of a
        sub-agent may only what it was granted. `RECALL_TOOLS` declares the four for a model.

        Raises:
            UsageError: there is no such tool.
            LcmError: the database cannot be read.
        """
        if name not in TOOLS:
            raise UsageError(f"There is no tool {name}; there are {', '.join(TOOLS)}.")
        return await self._recall.call(name, parameters, session.session_key, session.session_id)

    async def _conversation(self, session: Session) -> ConversationId:
        holding = await self.database.read(find_holding, session.session_id, session.session_key)
        if holding is None:
            raise NotFoundError(
                f"Nothing is stored of session {session.session_key or session.session_id}: bootstrap it, or "
                "hand its messages over first.",
                code="CONVERSATION_NOT_FOUND",
            )
        return holding.conversation_id

    # -- how it is stored --------------------------------------------------------------------------------

    async def _store(self, session: Session, hosts: Sequence[HostMessage]) -> Ingested:
        stored = [message for _, message in stored_of(hosts, self._ingest_rules(), ImportTally())]
        skipped = len(hosts) - len(stored)
        if not stored:
            return Ingested(None, 0, 0, skipped)
        fresh = await self.database.read(without_repeated, session, stored)
        done = await self._admit(session, fresh)
        known = len(stored) - len(fresh)
        return Ingested(done.conversation_id, done.stored, done.known + known, skipped)

    async def _admit(self, session: Session, fresh: Sequence[StoredMessage]) -> Append:
        """Store messages unless they look like a replay."""
        limits = self._settings
        await self.database.read(
            refuse_flood,
            session,
            fresh,
            now=sql_utc(self._clock()),
            users=limits.replay_flood_threshold_external.value,
            others=limits.replay_flood_threshold_internal.value,
        )
        return await self._appender.append(session, fresh, None)

    async def _after_turn(
        self, session: Session, hosts: Sequence[HostMessage], transcript: Path | None
    ) -> Ingested:
        rules = self._ingest_rules()
        before = await self.database.read(find_holding, session.session_id, session.session_key)
        there = transcript is not None and await asyncio.to_thread(transcript.exists)
        file = await asyncio.to_thread(read_host_file, transcript) if there and transcript else None
        imported = 0
        if file is not None and before is not None and before.messages:
            found, imported = await self._transcripts.catch_up(session, file, before, rules, bootstraps=False)
            if not found.moves_on:
                return Ingested(before.conversation_id, imported, 0, len(hosts))
        stored = [message for _, message in stored_of(hosts, rules, ImportTally())]
        held = await self.database.read(overlap_of, session, stored)
        done = await self._admit(session, stored[held:])
        if file is not None:
            await self._appender.append(session, (), checkpoint_of(file, bootstraps=False))
        elif transcript is not None and before and before.messages and before.checkpoint is None:
            await self._appender.append(session, (), unread_checkpoint(transcript))
        await self._prune_after(session, stored, 0 if before is None else before.last_seq, rules)
        skipped = len(hosts) - len(stored)
        return Ingested(done.conversation_id, done.stored + imported, done.known + held, skipped)

    async def _prune_after(
        self,
        session: Session,
        stored: Sequence[StoredMessage],
        after: int,
        rules: IngestRules,
    ) -> None:
        """Delete a turn of the host's timer again once it has ended (docs/spec/ingest.md, "Heartbeats")."""
        named = not rules.preserve_heartbeat_poll and any(names_heartbeats(one.content) for one in stored)
        ended = any(is_acknowledgement(one.role, one.content) for one in stored)
        if (named and ended) or (rules.prune_heartbeat_ok and ended):
            await self._appender.prune(session, after, rules)

    def _rules(self) -> EngineRules:
        return configured(engine_rules(self.database.schema), self._settings)

    def _ingest_rules(self) -> IngestRules:
        return ingest_rules(self.database.schema, self._settings)

    def _is_stored(self, session: Session) -> bool:
        """Whether the operator wants sessions like this one stored."""
        return self._exclusion(session) is None

    def _exclusion(self, session: Session) -> str | None:
        """Why sessions like this one are not stored."""
        return why_not_stored(self._settings, session.session_key or session.session_id)

    @contextlib.asynccontextmanager
    async def _turn(self, session: Session, kind: str = "append") -> AsyncIterator[None]:
        """Wait until no other call of its kind runs for the conversation: a model may take minutes.

        What is no compaction refuses a file that an engine before 0.15.2 wrote.
        """
        if kind != "compact":
            self._ingest_rules()
        name = f"{kind}:{session.session_key or session.session_id}"
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield
