"""What programs may rely on (docs/python.md): the one documented entry; all other modules may move.

`LcmDatabase` reads a database, says what a model is sent, and plans, previews, commits and undoes changes.
`Engine` keeps an agent's memory. Both need no terminal. Names here are loaded when they are first used.

Units: tokens are the engine's estimates (docs/engine/tokens.md), times are UTC, ordinals count from 0 and
``seq`` from 1 (docs/format.md, "Numbering"). Every error is an `LcmError`: one sentence, a ``code`` for
scripts, ``details``, and the exit code that a command would end with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Self

from lcm_core.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseMissingError,
    ExitCode,
    LcmError,
    NotFoundError,
    RefusedError,
    UsageError,
)
from lcm_core.records import (
    ContextItem,
    Conversation,
    ConversationId,
    Message,
    MessageId,
    MessagePart,
    Summary,
    SummaryId,
    SummaryText,
)
from lcm_core.store.database import Database, Reader

if TYPE_CHECKING:
    from lcm_core.assemble.export import api_request
    from lcm_core.assemble.result import Assembled
    from lcm_core.change.commit import Committed
    from lcm_core.change.errors import StalePlanError
    from lcm_core.change.journal import Operation
    from lcm_core.change.plan import Plan
    from lcm_core.change.planning import Planned
    from lcm_core.change.preview import Preview
    from lcm_core.change.undo import plan_redo, plan_undo, plan_undo_batch, plan_undo_with_later
    from lcm_core.checks import Folders, Limits
    from lcm_core.dag.graph import SummaryGraph
    from lcm_core.engine import Engine, Session
    from lcm_core.findings import Confidence, Finding, Report
    from lcm_core.operations.dissolve import plan_dissolve
    from lcm_core.operations.merge import plan_merge
    from lcm_core.operations.prune import plan_archive
    from lcm_core.operations.transplant import plan_transplant
    from lcm_core.settings.engine import EngineSettings
    from lcm_core.settings.resolve import Options, Settings, resolve
    from lcm_core.store.schema import Schema
    from lcm_core.summarize.models.extractive import ExtractiveSummarizer

P = ParamSpec("P")

__all__ = [
    "Assembled",
    "Committed",
    "Confidence",
    "ConfigurationError",
    "ContextItem",
    "Conversation",
    "ConversationId",
    "DatabaseBusyError",
    "DatabaseError",
    "DatabaseMissingError",
    "Engine",
    "EngineSettings",
    "ExitCode",
    "ExtractiveSummarizer",
    "Finding",
    "Folders",
    "LcmDatabase",
    "LcmError",
    "Limits",
    "Message",
    "MessageId",
    "MessagePart",
    "NotFoundError",
    "Operation",
    "Options",
    "Plan",
    "Planned",
    "Preview",
    "RefusedError",
    "Report",
    "Session",
    "Settings",
    "StalePlanError",
    "Summary",
    "SummaryGraph",
    "SummaryId",
    "SummaryText",
    "UsageError",
    "api_request",
    "limits_of",
    "plan_archive",
    "plan_dissolve",
    "plan_merge",
    "plan_redo",
    "plan_transplant",
    "plan_undo",
    "plan_undo_batch",
    "plan_undo_with_later",
    "resolve",
]

#: Rows of a page, at most: SQLite counts in 64 bits.
_MOST_ROWS: Final = 2**31
#: Where a name is loaded from when it is first used: reading a database needs none of them.
_LATER: Final = {
    "Assembled": "lcm_core.assemble.result",
    "Committed": "lcm_core.change.commit",
    "Confidence": "lcm_core.findings",
    "Engine": "lcm_core.engine",
    "EngineSettings": "lcm_core.settings.engine",
    "ExtractiveSummarizer": "lcm_core.summarize.models.extractive",
    "Finding": "lcm_core.findings",
    "Folders": "lcm_core.checks",
    "Limits": "lcm_core.checks",
    "Operation": "lcm_core.change.journal",
    "Options": "lcm_core.settings.resolve",
    "Plan": "lcm_core.change.plan",
    "Planned": "lcm_core.change.planning",
    "Preview": "lcm_core.change.preview",
    "Report": "lcm_core.findings",
    "Session": "lcm_core.engine",
    "Settings": "lcm_core.settings.resolve",
    "StalePlanError": "lcm_core.change.errors",
    "SummaryGraph": "lcm_core.dag.graph",
    "api_request": "lcm_core.assemble.export",
    "plan_archive": "lcm_core.operations.prune",
    "plan_dissolve": "lcm_core.operations.dissolve",
    "plan_merge": "lcm_core.operations.merge",
    "plan_redo": "lcm_core.change.undo",
    "plan_transplant": "lcm_core.operations.transplant",
    "plan_undo": "lcm_core.change.undo",
    "plan_undo_batch": "lcm_core.change.undo",
    "plan_undo_with_later": "lcm_core.change.undo",
    "resolve": "lcm_core.settings.resolve",
}


def __getattr__(name: str) -> object:
    """A public name, loaded when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def limits_of(engine: EngineSettings, schema: Schema | None = None) -> Limits:
    """What the checks measure against, as the engine is configured that left this schema.

    None: the present engine. What an operator set applies to both.
    """
    from lcm_core.checks import Limits
    from lcm_core.engine_rules import RULES_PRESENT, configured, engine_rules

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
    """A database of any version, open for reading; changed only by `commit`.

    Opening and reading leave no trace beside the file, also while a host writes it (docs/decisions.md, "No
    trace"). Each call is one read transaction and sees one state of the file. Use it as an asynchronous
    context manager, or `close` it. One object serves many tasks of one event loop.
    """

    def __init__(self, database: Database, settings: EngineSettings) -> None:
        self._database = database
        self._settings = settings

    @classmethod
    async def open(
        cls, path: Path, *, settings: EngineSettings | None = None, busy_seconds: float = 5.0
    ) -> Self:
        """Open a file that is there; it is never created.

        *settings* are the engine's, as an operator has them (`resolve` reads them); None: its defaults.
        *busy_seconds*: for how long another process's lock is waited for.

        Raises:
            DatabaseMissingError: there is no file.
            DatabaseError: it is damaged, locked, encrypted, or of another program.
        """
        from lcm_core.settings.engine import EngineSettings

        return cls(await Database.open(path, busy_seconds=busy_seconds), settings or EngineSettings())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file; what still reads is interrupted."""
        await self._database.close()

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    # -- reading -----------------------------------------------------------------------------------------

    async def conversations(self) -> list[Conversation]:
        """All conversations, archived ones too, newest activity first."""
        from lcm_core.store.conversations import list_conversations

        return [one.conversation for one in await self._database.read(list_conversations)]

    async def conversation(self, wanted: int | str) -> Conversation:
        """One conversation: by its id, or by a session key, which means the active one, else the newest.

        Raises:
            NotFoundError: there is none.
        """
        from lcm_core.store.conversations import find_by_session_key, get_conversation

        if isinstance(wanted, str):
            return await self._database.read(find_by_session_key, wanted)
        return await self._database.read(get_conversation, wanted)

    async def messages(
        self, conversation_id: ConversationId, *, from_seq: int | None = None, limit: int = 200
    ) -> list[Message]:
        """At most *limit* messages in order of ``seq``, whole, from *from_seq* on (None: from the first).

        The next page begins at the last one's ``seq`` + 1. None of a conversation that is not there.

        Raises:
            UsageError: *limit* is less than 1.
        """
        if limit < 1:
            raise UsageError(f"A page has at least 1 message, not {limit:,}.", details={"limit": limit})
        return await self._database.read(_messages, conversation_id, from_seq, min(limit, _MOST_ROWS))

    async def parts(self, message_ids: Sequence[MessageId]) -> dict[MessageId, list[MessagePart]]:
        """The blocks of messages, each message's in order; those without any are left out."""
        from lcm_core.store.messages import message_parts

        found: dict[MessageId, list[MessagePart]] = {}
        for part in await self._database.read(message_parts, message_ids):
            found.setdefault(part.message_id, []).append(part)
        return found

    async def graph(self, conversation_id: ConversationId) -> SummaryGraph:
        """The summaries of a conversation and what each was made from, without their texts.

        Walks of it end on any rows, also where edges go in a circle or lead nowhere.
        """
        from lcm_core.store.summaries import load_graph

        return await self._database.read(load_graph, conversation_id)

    async def summaries(self, summary_ids: Iterable[SummaryId]) -> list[SummaryText]:
        """Summaries with their texts, in the order asked; those that are gone are left out."""
        from lcm_core.store.summaries import texts_of

        return await self._database.read(texts_of, list(summary_ids))

    async def source_messages(self, summary_id: SummaryId) -> list[Message]:
        """The messages that a leaf was made from, in order; none of a condensed summary."""
        from lcm_core.store.summaries import source_messages_of

        return await self._database.read(source_messages_of, summary_id)

    async def context(self, conversation_id: ConversationId) -> list[ContextItem]:
        """The items of a conversation's context in order, including those whose row is gone."""
        from lcm_core.store.context import context_items

        return list(await self._database.read(context_items, conversation_id))

    # -- what is sent ------------------------------------------------------------------------------------

    async def assemble(
        self, conversation_id: ConversationId, *, budget: int, prompt: str | None = None, clamp: bool = True
    ) -> Assembled:
        """What the model is sent of a conversation under *budget* tokens, and why not the rest.

        Source: docs/engine/assembly.md. *prompt* chooses among older items by what it asks, where the file's
        version can; *clamp* False leaves out the engine's last step. `api_request` makes a request of it.

        Raises:
            UsageError: *budget* is less than 1.
            NotFoundError: there is no such conversation.
        """
        from zoneinfo import ZoneInfo

        from lcm_core.assembly import assemble_context, settings_for

        if budget < 1:
            raise UsageError(f"A budget is at least 1 token, not {budget:,}.", details={"budget": budget})
        await self.conversation(conversation_id)
        name = self._settings.timezone.value
        return await self._database.read(
            assemble_context,
            conversation_id,
            settings_for(self._settings, budget, prompt, clamp=clamp),
            zone=None if name is None else ZoneInfo(name),
        )

    # -- checking ----------------------------------------------------------------------------------------

    async def check(
        self,
        conversation_id: ConversationId | None = None,
        *,
        only: Sequence[str] | None = None,
        folders: Folders | None = None,
    ) -> Report:
        """Ask the doctor's checks of the whole file, or of one conversation (docs/engine/doctor.md).

        *only* names ids (``A11``) or families (``A``). *folders* are where the host's files lie; checks that
        need one which is not named are "not run", as any that could not be asked.

        Raises:
            UsageError: *only* names no check.
            NotFoundError: there is no such conversation.
        """
        from lcm_core.checks import run_checks

        return await run_checks(
            self._database,
            conversation=conversation_id,
            only=only,
            folders=folders,
            limits=limits_of(self._settings, self._database.schema),
        )

    # -- changing ----------------------------------------------------------------------------------------

    async def plan(
        self,
        operation: Callable[Concatenate[Reader, P], Awaitable[Plan | Sequence[Plan]]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Planned:
        """Work out a change, without any lock: `plan_dissolve`, `plan_undo` or another ``plan_`` function.

        ``preview`` of the result says what it would do, row by row (``text()``, ``as_json()``, ``sql()``);
        `commit` does exactly that. Source: docs/changes.md, "The plan".

        Raises:
            NotFoundError: the database does not hold what is named.
            RefusedError: it would do harm, or nothing; or an engine that we do not know wrote the file.
        """
        from lcm_core.change.planning import plan_for

        async def planner(reader: Reader) -> Plan | Sequence[Plan]:
            return await operation(reader, *args, **kwargs)

        return await self._database.read(plan_for, planner)

    async def plan_fixes(self, findings: Iterable[Finding]) -> Planned:
        """One plan for all fixes that some findings carry; those without a fix are left.

        Raises:
            RefusedError: no change of rows fixes any of them (for search tables: `lcm-tui reindex`).
        """
        from lcm_core.operations.fix import plan_fixes

        chosen = list(findings)

        async def planner(reader: Reader) -> Sequence[Plan]:
            fixes = await plan_fixes(reader, chosen, limits=limits_of(self._settings, reader.schema))
            return (fixes.plan,) if fixes.plan else ()

        return await self.plan(planner)

    async def commit(self, planned: Planned, *, wait: float = 5.0) -> list[Committed]:
        """Make a planned change: one short transaction for each of its plans, which is one but for a batch.

        *wait*: seconds for which another process's lock is waited for. If a later plan of a batch fails, the
        earlier ones stand, and `plan_undo_batch` takes them back.

        Raises:
            StalePlanError: the database moved on since it was planned; plan again.
            DatabaseBusyError: another process kept the lock.
            RefusedError: it would leave an error that was not there.
            DatabaseError: the file cannot be written.
        """
        from lcm_core.change.commit import commit_plan

        return [await commit_plan(self._database, plan, wait=wait) for plan in planned.plans]

    async def history(self, *, limit: int = 50) -> list[Operation]:
        """The newest changes that were made with this package, newest first; *limit* of them at most.

        `plan_undo` takes any of them back by its ``id``, if its rows are still as it left them.
        """
        from lcm_core.change.journal import operations

        async def load(reader: Reader) -> list[Operation]:
            return await reader.run(operations, limit=max(0, min(limit, _MOST_ROWS)))

        return await self._database.read(load)


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
