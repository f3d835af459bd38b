"""A database as programs use it: `LcmDatabase` reads it, plans and commits changes (docs/python.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Self, TypeAlias

from lcm_core.base.errors import UsageError
from lcm_core.base.records import (
    ContextItem,
    Conversation,
    ConversationId,
    Message,
    MessageId,
    MessagePart,
    SummaryId,
    SummaryText,
)
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema

if TYPE_CHECKING:
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.base.findings import Finding, Report
    from lcm_core.change.backup import Backup
    from lcm_core.change.commit import Committed
    from lcm_core.change.journal import Operation
    from lcm_core.change.migrate import Migration
    from lcm_core.change.plan import Plan
    from lcm_core.change.preview import Planned
    from lcm_core.checks.check import Folders, Limits, Stage
    from lcm_core.engine.assembly import Assembled
    from lcm_core.engine.graph import SummaryGraph
    from lcm_core.engine.rules import EngineRules
    from lcm_core.operations.drafting import Draft
    from lcm_core.operations.export import Exported
    from lcm_core.operations.focus import BriefEntry
    from lcm_core.operations.repair import BadKind, RepairList
    from lcm_core.writers.request import Summarizer

    #: What history says of a prompt, put before an assembled context.
    Cue: TypeAlias = Callable[
        [Reader, ConversationId, Assembled, str | None, EngineRules, datetime], Awaitable[Assembled]
    ]

P = ParamSpec("P")

#: Rows of a page, at most: SQLite counts in 64 bits.
_MOST_ROWS: Final = 2**31


def limits_of(engine: EngineSettings, schema: Schema | None = None) -> Limits:
    """The limits that the checks apply, for the engine that wrote this schema.

    None: the present engine. The operator's settings apply to both.
    """
    from lcm_core.checks.check import Limits
    from lcm_core.engine.rules import RULES_PRESENT, configured, engine_rules

    rules = configured(RULES_PRESENT if schema is None else engine_rules(schema), engine)
    return Limits(
        now=datetime.now(UTC),
        retain_depth=engine.new_session_retain_depth.value,
        leaf_target=rules.compaction.leaf_target_tokens,
        condensed_target=rules.compaction.condensed_target_tokens,
        overage=rules.escalation.summary_max_overage_factor,
        fresh_tail=rules.tail.fresh_tail_count,
        large_payload=rules.ingest.large_file_token_threshold,
    )


class LcmDatabase:
    """A database of any version, open for reading; only `commit` changes it.

    Opening and reading leave no trace beside the file, even while a host writes it (docs/decisions.md, "No
    trace"). Each call is one read transaction and sees one state of the file. Use it as an asynchronous
    context manager, or `close` it. One object serves many tasks of one event loop.
    """

    def __init__(self, database: Database, settings: EngineSettings, large_files: Path | None = None) -> None:
        self.database = database  #: what reads it, one function in one transaction
        self.settings = settings
        self.large_files = large_files or database.path.parent / "lcm-files"  #: the folder of its large files

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        settings: EngineSettings | None = None,
        busy_seconds: float = 5.0,
        large_files: Path | None = None,
    ) -> Self:
        """Open an existing file; this never creates one.

        *settings*: the operator's settings of the engine (`resolve` reads them); None: the defaults.
        *large_files*: the folder of the large files; None: ``lcm-files`` beside the database.
        *busy_seconds*: how long to wait for the lock of another process.

        Raises:
            DatabaseMissingError: the file does not exist.
            DatabaseError: it is damaged, locked, encrypted, or belongs to another program.
        """
        from lcm_core.base.engine_settings import EngineSettings

        database = await Database.open(path, busy_seconds=busy_seconds)
        return cls(database, settings or EngineSettings(), large_files)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file and interrupt running reads."""
        await self.database.close()

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.database.path

    # -- reading -----------------------------------------------------------------------------------------

    async def conversations(self) -> list[Conversation]:
        """All conversations, also archived ones, the newest activity first."""
        from lcm_core.store.conversations import list_conversations

        return [one.conversation for one in await self.database.read(list_conversations)]

    async def conversation(self, wanted: int | str) -> Conversation:
        """One conversation, by its id or session key. A key selects the active conversation, else the newest.

        Raises:
            NotFoundError: no conversation matches.
        """
        from lcm_core.store.conversations import find_by_session_key, get_conversation

        if isinstance(wanted, str):
            return await self.database.read(find_by_session_key, wanted)
        return await self.database.read(get_conversation, wanted)

    async def messages(
        self, conversation_id: ConversationId, *, from_seq: int | None = None, limit: int = 200
    ) -> list[Message]:
        """At most *limit* messages in order of ``seq``, whole, from *from_seq* on (None: from the first).

        The next page begins at the last ``seq`` + 1. The list is empty if the conversation does not exist.

        Raises:
            UsageError: *limit* is less than 1.
        """
        if limit < 1:
            raise UsageError(f"A page has at least 1 message, not {limit:,}.", details={"limit": limit})
        return await self.database.read(_messages, conversation_id, from_seq, min(limit, _MOST_ROWS))

    async def parts(self, message_ids: Sequence[MessageId]) -> dict[MessageId, list[MessagePart]]:
        """The parts of messages, each message's in order; messages without parts are left out."""
        from lcm_core.store.messages import message_parts

        found: dict[MessageId, list[MessagePart]] = {}
        for part in await self.database.read(message_parts, message_ids):
            found.setdefault(part.message_id, []).append(part)
        return found

    async def graph(self, conversation_id: ConversationId) -> SummaryGraph:
        """The summaries of a conversation with their sources, without their texts.

        Walks over the graph end on any rows, even if links form a cycle or refer to missing rows.
        """
        from lcm_core.store.summaries import load_graph

        return await self.database.read(load_graph, conversation_id)

    async def summaries(self, summary_ids: Iterable[SummaryId]) -> list[SummaryText]:
        """Summaries with their texts, in the given order; ids that do not exist are left out."""
        from lcm_core.store.summaries import texts_of

        return await self.database.read(texts_of, list(summary_ids))

    async def source_messages(self, summary_id: SummaryId) -> list[Message]:
        """The source messages of a leaf, in order; none for a condensed summary."""
        from lcm_core.store.summaries import source_messages_of

        return await self.database.read(source_messages_of, summary_id)

    async def context(self, conversation_id: ConversationId) -> list[ContextItem]:
        """The items of a conversation's context in order, including items whose row is missing."""
        from lcm_core.store.context import context_items

        return list(await self.database.read(context_items, conversation_id))

    # -- what is sent ------------------------------------------------------------------------------------

    async def assemble(
        self,
        conversation_id: ConversationId,
        *,
        budget: int,
        prompt: str | None = None,
        clamp: bool = True,
        cue: Cue | None = None,
    ) -> Assembled:
        """What the model receives of a conversation under *budget* tokens, and why the rest is left out.

        Source: docs/engine/assembly.md. *prompt*: the user's message. It selects among older items if the
        engine of this file does that. *clamp* False skips the engine's last step. *cue*: what puts the recall
        cue for an identifier of the prompt first; None: nothing does. `api_request` makes a request of the
        result.

        Raises:
            UsageError: *budget* is less than 1.
            NotFoundError: the conversation does not exist.
        """
        from lcm_core.engine.rules import engine_rules
        from lcm_core.engine.sessions import settings_for_session
        from lcm_core.operations.assembly import assemble_context, settings_for

        if budget < 1:
            raise UsageError(f"A budget is at least 1 token, not {budget:,}.", details={"budget": budget})
        session_key = (await self.conversation(conversation_id)).session_key
        engine = settings_for_session(self.settings, session_key)
        settings = settings_for(engine, budget, prompt, clamp=clamp)

        async def load(reader: Reader) -> Assembled:
            found = await assemble_context(reader, conversation_id, settings, zone=self._zone())
            if cue is None:
                return found
            rules = engine_rules(reader.schema)
            return await cue(reader, conversation_id, found, prompt, rules, datetime.now(UTC))

        return await self.database.read(load)

    def _zone(self) -> tzinfo | None:
        """The time zone in the engine's settings; None: the zone of this machine."""
        from zoneinfo import ZoneInfo

        name = self.settings.timezone.value
        return None if name is None else ZoneInfo(name)

    # -- focus briefs -------------------------------------------------------------------------------------

    async def briefs(self, conversation_id: ConversationId) -> tuple[BriefEntry, ...]:
        """The focus briefs of a conversation, newest first: what each replaces, and what is newer.

        None if the engine of this file has no briefs. The tokens of what is newer are not counted.
        """
        from lcm_core.operations.focus import load_briefs

        async def load(reader: Reader) -> tuple[BriefEntry, ...]:
            return await load_briefs(reader, conversation_id)

        return await self.database.read(load)

    # -- checking ----------------------------------------------------------------------------------------

    async def check(
        self,
        conversation_id: ConversationId | None = None,
        *,
        only: Sequence[str] | None = None,
        folders: Folders | None = None,
        stages: Sequence[Stage] | None = None,
    ) -> Report:
        """Run the checks on the whole database, or on one conversation (docs/engine/doctor.md).

        *only* names ids (``A11``) or families (``A``). *folders*: the folders of the host's files. A
        check that needs a folder which is not named is "not run", as any check that cannot run.
        *stages*: the checks that are known; None: those of a database (A1 to G20).

        Raises:
            UsageError: *only* names an unknown check.
            NotFoundError: there is no such conversation.
        """
        from lcm_core.checks.running import STAGES, run_checks

        return await run_checks(
            self.database,
            conversation=conversation_id,
            only=only,
            folders=folders,
            stages=STAGES if stages is None else stages,
            limits=limits_of(self.settings, self.database.schema),
        )

    # -- changing ----------------------------------------------------------------------------------------

    async def plan(
        self,
        operation: Callable[Concatenate[Reader, P], Awaitable[Plan | Sequence[Plan]]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Planned:
        """Plan a change without a lock, with `plan_dissolve`, `plan_undo` or another ``plan_`` function.

        ``preview`` of the result shows its effect, row by row (``text()``, ``as_json()``, ``sql()``);
        `commit` makes exactly that change. Source: docs/changes.md, "The plan".

        Raises:
            NotFoundError: the database does not contain the named rows.
            RefusedError: the change would do harm, or nothing; or an unknown engine wrote the file.
        """
        from lcm_core.change.preview import plan_for

        async def planner(reader: Reader) -> Plan | Sequence[Plan]:
            return await operation(reader, *args, **kwargs)

        return await self.database.read(plan_for, planner)

    async def plan_fixes(self, findings: Iterable[Finding]) -> Planned:
        """One plan for the fixes of some findings; findings without a fix are left alone.

        Raises:
            RefusedError: no change of rows fixes any finding (for search tables: `lcm-tui reindex`).
        """
        from lcm_core.operations.fixing import plan_fixes

        chosen = list(findings)

        async def planner(reader: Reader) -> Sequence[Plan]:
            fixes = await plan_fixes(reader, chosen, limits=limits_of(self.settings, reader.schema))
            return (fixes.plan,) if fixes.plan else ()

        return await self.plan(planner)

    async def plan_delete(self, conversation_ids: Sequence[ConversationId]) -> Planned:
        """Plan to delete whole conversations, every row, in pieces that hardly delay a host.

        The pieces are one batch, which `plan_undo_batch` undoes. The plan contains every deleted row;
        `export` writes them to a file too. Conversations that no longer exist are left out.

        Raises:
            RefusedError: another conversation needs one of their rows, or none of them exists.
        """
        from dataclasses import replace

        from lcm_core.change.journal import new_batch_id
        from lcm_core.operations.prune import plan_delete

        async def planner(reader: Reader) -> Sequence[Plan]:
            batch = new_batch_id()
            found = await plan_delete(reader, conversation_ids, rows=_MOST_ROWS)
            return [replace(plan, batch=batch) for plan in found.plans]

        return await self.plan(planner)

    async def export(self, conversation_id: ConversationId, folder: Path) -> Exported:
        """Write every row of a conversation to a new private file in *folder* (`lcm-tui import` reads it).

        Raises:
            NotFoundError: there is no such conversation.
            DatabaseError: the folder cannot be written.
        """
        from lcm_core.operations.export import export_conversation

        found = await self.conversation(conversation_id)
        return await self.database.read(export_conversation, found, folder, self.path)

    # -- other texts -------------------------------------------------------------------------------------

    async def broken_summaries(
        self, conversation_id: ConversationId, *, kinds: Collection[BadKind] | None = None
    ) -> RepairList:
        """The broken summaries of a conversation, and the summaries made from them.

        *kinds*: what counts as broken; None: what is certainly broken (docs/decisions.md, "Checks").
        Sources come before their consumers: draft and commit in that order.

        Raises:
            NotFoundError: there is no such conversation.
        """
        from lcm_core.operations.repair import SURE, find_repair

        await self.conversation(conversation_id)
        return await self.database.read(find_repair, conversation_id, kinds=SURE if kinds is None else kinds)

    async def draft(
        self, summary_id: SummaryId, summarizer: Summarizer, *, previous: bool = True
    ) -> tuple[Draft, ...]:
        """Draft a new text of a summary from its present sources, without changing anything.

        No lock is held while *summarizer* works. Returns up to three drafts in the order they were made:
        ``verdict`` names the problems of each, ``usage`` its cost (tokens and US dollars). The last may be
        the truncated source, without a model (docs/decisions.md, "Drafts"). *previous*: give a leaf the
        summaries before it, so that it does not repeat them.

        Raises:
            NotFoundError: the summary does not exist.
            LcmError: the summarizer returned no answer.
        """
        from lcm_core.operations.drafting import draft_setting, draft_summary, read_material

        setting = draft_setting(self.database.schema, self.settings, self._zone(), previous=previous)
        material = await self.database.read(
            read_material, summary_id, setting.rendering, with_previous=previous
        )
        return await draft_summary(summarizer, material, setting)

    async def plan_rewrite(
        self, summary_id: SummaryId, text: str | Draft, *, repair: bool = False
    ) -> Planned:
        """Plan a new text of a summary: a draft, or your own text (``summaries.model``: manual).

        The plan updates the counters and file lists of all consumers. *repair*: the history says repair.
        A draft is committed only if the old text and the sources are those it was made from.

        Raises:
            NotFoundError: the summary does not exist.
            StalePlanError: the summary or its sources changed since the draft was made; draft again.
            RefusedError: the text is blank, or is the present one.
        """
        from lcm_core.operations.drafting import MANUAL, draft_setting
        from lcm_core.operations.rewrite import plan_rewrite
        from lcm_core.store.summaries import get_summary

        draft = None if isinstance(text, str) else text
        setting = draft_setting(self.database.schema, self.settings, self._zone())

        async def planner(reader: Reader) -> Plan:
            found = await get_summary(reader, summary_id)
            return await plan_rewrite(
                reader,
                found.summary.conversation_id,
                summary_id,
                text if isinstance(text, str) else text.text,
                model=MANUAL if draft is None else draft.model,
                rendering=setting.rendering,
                base=None if draft is None else draft.base,
                kind="repair" if repair else "rewrite",
            )

        return await self.plan(planner)

    # -- the file as a whole -----------------------------------------------------------------------------

    async def backup(self, target: Path, *, check: bool = False, replace: bool = False) -> Backup:
        """Copy one state of the database to *target*, even while a host writes. A failure leaves no file.

        *check*: read the whole copy again. *replace*: replace an existing file; else it is refused.

        Raises:
            RefusedError: *target* exists, belongs to a database, or is the database.
            DatabaseError: the database cannot be read, *target* cannot be written, or the disk is full.
        """
        from lcm_core.change.backup import make_backup

        return await asyncio.to_thread(make_backup, self.path, target, check=check, replace=replace)

    async def plan_migration(self) -> Migration:
        """What the file lacks of the present schema; false if it is complete. `migrate` adds what is missing.

        Raises:
            RefusedError: an engine of the 1.x line wrote the file, which has another schema.
        """
        from lcm_core.change.migrate import plan_migration

        return await self.database.read(plan_migration)

    # -- committing --------------------------------------------------------------------------------------

    async def commit(self, planned: Planned, *, wait: float = 5.0) -> list[Committed]:
        """Commit a planned change: one short transaction for each plan; only a batch has several.

        *wait*: seconds to wait for the lock of another process. If a later plan of a batch fails, the
        earlier ones stay, and `plan_undo_batch` undoes them.

        Raises:
            StalePlanError: the database has changed since it was planned; plan again.
            DatabaseBusyError: another process kept the lock.
            RefusedError: it would add an error to the database.
            DatabaseError: the file cannot be written.
        """
        from lcm_core.change.commit import commit_plan

        return [await commit_plan(self.database, plan, wait=wait) for plan in planned.plans]

    async def history(self, *, limit: int = 50) -> list[Operation]:
        """The changes made with this package, newest first, at most *limit*.

        `plan_undo` undoes a change by its ``id``, if its rows are still as the change left them.
        """
        from lcm_core.change.journal import operations

        async def load(reader: Reader) -> list[Operation]:
            return await reader.run(operations, limit=max(0, min(limit, _MOST_ROWS)))

        return await self.database.read(load)


async def _messages(
    reader: Reader, conversation_id: ConversationId, from_seq: int | None, limit: int
) -> list[Message]:
    from lcm_core.store.listing import messages_by_id
    from lcm_core.store.messages import oldest_page, page_from

    if from_seq is None:
        page = await oldest_page(reader, conversation_id, limit)
    else:
        page = await page_from(reader, conversation_id, from_seq, limit)
    return await messages_by_id(reader, [one.message.message_id for one in page.entries])
