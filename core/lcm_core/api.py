"""The interface for programs (docs/python.md): what that page names is documented; all else may change.

`open` gives a `Database`; every function takes it first, and each call sees one state of the file. A change
is planned with `plan` and one of the ``plan_`` functions, and made by `commit`. `open_sync` does the same
without an event loop. Nothing here needs a terminal, and each module is loaded when it is first used.

*settings* are those of the operator, as `resolve` reads them; None: the defaults of the engine. Tokens are
the engine's estimates (docs/spec/tokens.md), times are UTC, ordinals count from 0 and ``seq`` from 1
(docs/spec/format.md, "Numbering"). Every error is an `LcmError`: one sentence, a ``code`` for scripts,
``details``, and the exit code of a command.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Self, TypeAlias

from lcm_core.base.errors import (
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
from lcm_core.base.records import (
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
from lcm_core.base.values import P, T, replace
from lcm_core.store.database import Database, Opening, Reader

if TYPE_CHECKING:
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.base.findings import Confidence, Finding, Report
    from lcm_core.base.settings import Options, Settings, resolve
    from lcm_core.change.backup import Backup, Restored, RestorePreview, preview_restore, restore
    from lcm_core.change.journal import Operation
    from lcm_core.change.migrate import Migrated, Migration, migrate
    from lcm_core.change.plan import Plan, StalePlanError
    from lcm_core.change.preview import Planned, Preview
    from lcm_core.change.undo import plan_redo, plan_undo, plan_undo_batch, plan_undo_with_later
    from lcm_core.checks.check import Folders, Stage
    from lcm_core.engine.assembly import Assembled
    from lcm_core.engine.graph import SummaryGraph
    from lcm_core.engine.markers import BadKind
    from lcm_core.engine.rules import EngineRules
    from lcm_core.engine.sent import ApiRequest, api_request
    from lcm_core.operations.dissolve import plan_dissolve
    from lcm_core.operations.drafting import Draft
    from lcm_core.operations.export import Exported
    from lcm_core.operations.focus import (
        BriefEntry,
        plan_activate_brief,
        plan_clear_brief,
        plan_create_brief,
        plan_delete_brief,
    )
    from lcm_core.operations.merge import plan_merge
    from lcm_core.operations.prune import plan_archive
    from lcm_core.operations.repair import RepairList
    from lcm_core.operations.transplant import plan_transplant
    from lcm_core.writers.briefing import BriefText
    from lcm_core.writers.cost import Model
    from lcm_core.writers.extractive import ExtractiveSummarizer
    from lcm_core.writers.request import Summarizer
    from lcm_core.writers.writer import named_model

    #: What history says of a prompt, put before an assembled context.
    Cue: TypeAlias = Callable[
        [Reader, ConversationId, Assembled, str | None, EngineRules, datetime], Awaitable[Assembled]
    ]

__all__ = ["ApiRequest", "Assembled", "Backup", "BadKind", "BriefEntry", "BriefText", "Confidence"]
__all__ += ["ConfigurationError", "ContextItem", "Conversation", "ConversationId", "Database"]
__all__ += ["DatabaseBusyError", "DatabaseError", "DatabaseMissingError", "Draft", "EngineSettings"]
__all__ += ["ExitCode", "Exported", "ExtractiveSummarizer", "Finding", "Folders", "LcmError", "Message"]
__all__ += ["MessageId", "MessagePart", "Migrated", "Migration", "Model", "NotFoundError", "Opening"]
__all__ += ["Operation", "Options", "Plan", "Planned", "Preview", "Reader", "RefusedError", "RepairList"]
__all__ += ["Report", "RestorePreview", "Restored", "Settings", "StalePlanError", "Summarizer", "Summary"]
__all__ += ["SummaryGraph", "SummaryId", "SummaryText", "Synchronous", "UsageError", "api_request"]
__all__ += ["assemble", "backup", "briefs", "broken_summaries", "check", "commit", "context", "conversation"]
__all__ += ["conversations", "draft", "each_message", "export", "graph", "history", "messages", "migrate"]
__all__ += ["migration", "named_model", "open", "open_sync", "parts", "plan", "plan_activate_brief"]
__all__ += ["plan_archive", "plan_clear_brief", "plan_create_brief", "plan_delete", "plan_delete_brief"]
__all__ += ["plan_dissolve", "plan_fixes", "plan_merge", "plan_redo", "plan_rewrite", "plan_transplant"]
__all__ += ["plan_undo", "plan_undo_batch", "plan_undo_with_later", "preview_restore", "resolve", "restore"]
__all__ += ["source_messages", "summaries", "undo"]

#: Where names are loaded from when they are first used: reading a database needs none of them.
_LATER: Final = {
    "lcm_core.engine.sent": "ApiRequest api_request",
    "lcm_core.engine.assembly": "Assembled",
    "lcm_core.change.backup": "Backup RestorePreview Restored preview_restore restore",
    "lcm_core.change.plan": "Plan StalePlanError",
    "lcm_core.change.journal": "Operation",
    "lcm_core.change.migrate": "Migrated Migration migrate",
    "lcm_core.change.preview": "Planned Preview",
    "lcm_core.change.undo": "plan_redo plan_undo plan_undo_batch plan_undo_with_later",
    "lcm_core.checks.check": "Folders",
    "lcm_core.engine.graph": "SummaryGraph",
    "lcm_core.base.findings": "Confidence Finding Report",
    "lcm_core.operations.focus": (
        "BriefEntry plan_activate_brief plan_clear_brief plan_create_brief plan_delete_brief"
    ),
    "lcm_core.operations.export": "Exported",
    "lcm_core.writers.briefing": "BriefText",
    "lcm_core.operations.dissolve": "plan_dissolve",
    "lcm_core.operations.drafting": "Draft",
    "lcm_core.operations.merge": "plan_merge",
    "lcm_core.operations.prune": "plan_archive",
    "lcm_core.engine.markers": "BadKind",
    "lcm_core.operations.repair": "RepairList",
    "lcm_core.operations.transplant": "plan_transplant",
    "lcm_core.base.engine_settings": "EngineSettings",
    "lcm_core.base.settings": "Options Settings resolve",
    "lcm_core.writers.extractive": "ExtractiveSummarizer",
    "lcm_core.writers.writer": "named_model",
    "lcm_core.writers.cost": "Model",
    "lcm_core.writers.request": "Summarizer",
}
_MODULE_OF: Final = {name: module for module, names in _LATER.items() for name in names.split()}


#: Rows of a page, at most: SQLite counts in 64 bits.
_MOST_ROWS: Final = 2**31


def __getattr__(name: str) -> object:
    """A public name, loaded at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


# -- opening --------------------------------------------------------------------------------------------

open = Database.open  # noqa: A001


class Synchronous:
    """An open database for scripts and notebooks: called with a function of this module, it awaits that.

    ``memory(api.messages, 1)`` is ``await api.messages(database, 1)``, in a thread that has the event loop.
    Functions of `lcm_recall.program` are called in the same way. Close it, or use it in a ``with``.
    """

    def __init__(self, opening: Opening[Database]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lcm-open-sync", daemon=True)
        self._thread.start()
        self._opening = opening
        try:
            self._database = self._result(opening.__aenter__())
        except BaseException:
            self._stop()
            raise

    def __call__(
        self,
        function: Callable[Concatenate[Database, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What *function* returns for this database and these arguments."""
        return self._result(function(self._database, *args, **kwargs))

    def each(
        self,
        function: Callable[Concatenate[Database, P], AsyncIterator[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Iterator[T]:
        """What *function* yields, such as `each_message`."""
        found = function(self._database, *args, **kwargs)

        async def following() -> list[T]:
            async for one in found:
                return [one]
            return []

        while following_one := self._result(following()):
            yield from following_one

    def close(self) -> None:
        """Close the file, and end the thread."""
        if not self._loop.is_closed():
            self._result(self._opening.__aexit__())
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def open_sync(path: Path, *, busy_seconds: float = 5.0) -> Synchronous:
    """Open a database as `open` does, for a program without an event loop, or with another one."""
    return Synchronous(Database.open(path, busy_seconds=busy_seconds))


# -- reading --------------------------------------------------------------------------------------------


async def conversations(database: Database) -> list[Conversation]:
    """All conversations, also archived ones, the newest activity first."""
    from lcm_core.store.conversations import list_conversations

    return [one.conversation for one in await database.read(list_conversations)]


async def conversation(database: Database, wanted: int | str) -> Conversation:
    """One conversation, by its id or session key. A key selects the active conversation, else the newest.

    Raises:
        NotFoundError: no conversation matches.
    """
    from lcm_core.store.conversations import find_by_session_key, get_conversation

    if isinstance(wanted, str):
        return await database.read(find_by_session_key, wanted)
    return await database.read(get_conversation, wanted)


async def messages(
    database: Database, conversation_id: int, *, from_seq: int | None = None, limit: int = 200
) -> list[Message]:
    """At most *limit* messages in order of ``seq``, whole, from *from_seq* on (None: from the first).

    `each_message` goes on page by page. The list is empty if the conversation does not exist.

    Raises:
        UsageError: *limit* is less than 1.
    """
    from lcm_core.store.listing import messages_by_id
    from lcm_core.store.messages import oldest_page, page_from

    if limit < 1:
        raise UsageError(f"A page has at least 1 message, not {limit:,}.", details={"limit": limit})
    owner, most = ConversationId(conversation_id), min(limit, _MOST_ROWS)

    async def load(reader: Reader) -> list[Message]:
        if from_seq is None:
            page = await oldest_page(reader, owner, most)
        else:
            page = await page_from(reader, owner, from_seq, most)
        return await messages_by_id(reader, [one.message.message_id for one in page.entries])

    return await database.read(load)


async def each_message(database: Database, conversation_id: int) -> AsyncIterator[Message]:
    """All messages of a conversation in order of ``seq``, whole; a page at a time is read and held."""
    begin: int | None = None
    while page := await messages(database, conversation_id, from_seq=begin):
        for one in page:
            yield one
        begin = page[-1].seq + 1


async def parts(database: Database, message_ids: Sequence[MessageId]) -> dict[MessageId, list[MessagePart]]:
    """The parts of messages, each message's in order; messages without parts are left out."""
    from lcm_core.store.messages import message_parts

    found: dict[MessageId, list[MessagePart]] = {}
    for part in await database.read(message_parts, message_ids):
        found.setdefault(part.message_id, []).append(part)
    return found


async def graph(database: Database, conversation_id: int) -> SummaryGraph:
    """The summaries of a conversation with their sources, without their texts.

    Walks over the graph end on any rows, even if links form a cycle or refer to missing rows.
    """
    from lcm_core.store.summaries import load_graph

    return await database.read(load_graph, ConversationId(conversation_id))


async def summaries(database: Database, summary_ids: Iterable[str]) -> list[SummaryText]:
    """Summaries with their texts, in the given order; ids that do not exist are left out."""
    from lcm_core.store.summaries import texts_of

    return await database.read(texts_of, [SummaryId(one) for one in summary_ids])


async def source_messages(database: Database, summary_id: str) -> list[Message]:
    """The source messages of a leaf, in order; none for a condensed summary."""
    from lcm_core.store.summaries import source_messages_of

    return await database.read(source_messages_of, SummaryId(summary_id))


async def context(database: Database, conversation_id: int) -> list[ContextItem]:
    """The items of a conversation's context in order, including items whose row is missing."""
    from lcm_core.store.context import context_items

    return list(await database.read(context_items, ConversationId(conversation_id)))


async def briefs(database: Database, conversation_id: int) -> tuple[BriefEntry, ...]:
    """The focus briefs of a conversation, newest first: what each replaces, and what is newer.

    None if the engine of this file has no briefs. The tokens of what is newer are not counted.
    """
    from lcm_core.operations.focus import load_briefs

    return await database.read(load_briefs, ConversationId(conversation_id))


async def history(database: Database, *, limit: int = 50) -> list[Operation]:
    """The changes made with this package, newest first, at most *limit*.

    `plan_undo` undoes a change by its ``id``, if its rows are still as the change left them.
    """
    from lcm_core.change.journal import operations

    return await database.read(Reader.run, operations, limit=max(0, min(limit, _MOST_ROWS)))


async def assemble(
    database: Database,
    conversation_id: int,
    *,
    budget: int,
    prompt: str | None = None,
    clamp: bool = True,
    cue: Cue | None = None,
    settings: Settings | None = None,
) -> Assembled:
    """What the model receives of a conversation under *budget* tokens, and why the rest is left out.

    Source: docs/spec/assembly.md. *prompt*: the user's message. It selects among older items if the
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
    found = await conversation(database, conversation_id)
    engine = settings_for_session(_engine(settings), found.session_key)
    chosen = settings_for(engine, budget, prompt, clamp=clamp)

    async def load(reader: Reader) -> Assembled:
        owner = found.conversation_id
        assembled = await assemble_context(reader, owner, chosen, zone=_zone(engine))
        if cue is None:
            return assembled
        return await cue(reader, owner, assembled, prompt, engine_rules(reader.schema), datetime.now(UTC))

    return await database.read(load)


async def check(
    database: Database,
    conversation_id: int | None = None,
    *,
    only: Sequence[str] | None = None,
    folders: Folders | None = None,
    stages: Sequence[Stage] | None = None,
    settings: Settings | None = None,
) -> Report:
    """Run the checks on the whole database, or on one conversation (docs/spec/doctor.md).

    *only* names ids (``A11``) or families (``A``). *folders*: the folders of the host's files. A
    check that needs a folder which is not named is "not run", as any check that cannot run.
    *stages*: the checks that are known; None: those of a database (A1 to G20).

    Raises:
        UsageError: *only* names an unknown check.
        NotFoundError: there is no such conversation.
    """
    from lcm_core.checks.check import limits_of
    from lcm_core.checks.running import STAGES, run_checks

    return await run_checks(
        database,
        conversation=None if conversation_id is None else ConversationId(conversation_id),
        only=only,
        folders=folders,
        stages=STAGES if stages is None else stages,
        limits=limits_of(_engine(settings), database.schema),
    )


# -- changing -------------------------------------------------------------------------------------------


async def plan(
    database: Database,
    operation: Callable[Concatenate[Reader, P], Awaitable[Plan | Sequence[Plan]]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> Planned:
    """Plan a change without a lock, with `plan_dissolve`, `plan_undo` or another ``plan_`` function.

    ``preview`` of the result shows its effect, row by row (``text()``, ``as_json()``, ``sql()``);
    `commit` makes exactly that change. Source: docs/spec/changes.md, "The plan".

    Raises:
        NotFoundError: the database does not contain the named rows.
        RefusedError: the change would do harm, or nothing; or an unknown engine wrote the file.
    """
    from lcm_core.change.preview import plan_for

    async def planner(reader: Reader) -> Plan | Sequence[Plan]:
        return await operation(reader, *args, **kwargs)

    return await database.read(plan_for, planner)


async def plan_fixes(
    reader: Reader, findings: Iterable[Finding], *, settings: Settings | None = None
) -> Sequence[Plan]:
    """One plan for the fixes of some findings; findings without a fix are left alone.

    None where no change of rows fixes any finding (for search tables: `lcm-tui reindex`).
    """
    from lcm_core.checks.check import limits_of
    from lcm_core.operations.fixing import plan_fixes as plan_all

    found = await plan_all(reader, findings, limits=limits_of(_engine(settings), reader.schema))
    return (found.plan,) if found.plan else ()


async def plan_delete(reader: Reader, conversation_ids: Sequence[int]) -> Sequence[Plan]:
    """Plan to delete whole conversations, every row, in pieces that hardly delay a host.

    The pieces are one batch. The history keeps every deleted row, so that `undo` brings them back; `export`
    writes them to a file too. Conversations that no longer exist are left out.

    Raises:
        RefusedError: another conversation needs one of their rows.
    """

    from lcm_core.change.journal import new_batch_id
    from lcm_core.operations.prune import plan_delete as plan_pieces

    batch = new_batch_id()
    owners = [ConversationId(one) for one in conversation_ids]
    found = await plan_pieces(reader, owners, rows=_MOST_ROWS)
    return [replace(one, batch=batch) for one in found.plans]


async def plan_rewrite(
    reader: Reader,
    summary_id: str,
    text: str | Draft,
    *,
    repair: bool = False,
    settings: Settings | None = None,
) -> Plan:
    """Plan a new text of a summary: a draft, or your own text (``summaries.model``: manual).

    The plan updates the counters and file lists of all consumers. *repair*: the history says repair.
    A draft is committed only if the old text and the sources are those it was made from.

    Raises:
        NotFoundError: the summary does not exist.
        StalePlanError: the summary or its sources changed since the draft was made; draft again.
        RefusedError: the text is blank, or is the present one.
    """
    from lcm_core.operations.drafting import draft_setting
    from lcm_core.operations.rewrite import plan_rewrite as plan_text
    from lcm_core.store.summaries import get_summary
    from lcm_core.writers.request import MANUAL

    engine = _engine(settings)
    given = None if isinstance(text, str) else text
    found = await get_summary(reader, SummaryId(summary_id))
    return await plan_text(
        reader,
        found.summary.conversation_id,
        found.summary.summary_id,
        text if isinstance(text, str) else text.text,
        model=MANUAL if given is None else given.model,
        rendering=draft_setting(reader.schema, engine, _zone(engine)).rendering,
        base=None if given is None else given.base,
        kind="repair" if repair else "rewrite",
    )


async def commit(database: Database, planned: Planned, *, wait: float = 5.0) -> list[Operation]:
    """Commit a planned change: one short transaction for each plan; only a batch has several.

    Returns what the history now has of it. *wait*: seconds to wait for the lock of another process. If a
    later plan of a batch fails, the earlier ones stay, and `undo` takes them back.

    Raises:
        StalePlanError: the database has changed since it was planned; plan again.
        DatabaseBusyError: another process kept the lock.
        RefusedError: it would add an error to the database.
        DatabaseError: the file cannot be written.
    """
    from lcm_core.change.commit import commit_plan

    made = [await commit_plan(database, one, wait=wait) for one in planned.plans]
    return [one.operation for one in made if one.operation is not None]


async def undo(database: Database, operation: Operation, *, wait: float = 5.0) -> list[Operation]:
    """Take a change back, with all that was committed with it; returns and raises as `commit`.

    Raises:
        RefusedError: it has been undone already, or its rows have changed since.
    """
    from lcm_core.change.undo import plan_undo, plan_undo_batch

    if operation.batch is None:
        planned = await plan(database, plan_undo, operation.id)
    else:
        planned = await plan(database, plan_undo_batch, operation.batch)
    return await commit(database, planned, wait=wait)


# -- other texts ----------------------------------------------------------------------------------------


async def broken_summaries(
    database: Database, conversation_id: int, *, kinds: Collection[BadKind] | None = None
) -> RepairList:
    """The broken summaries of a conversation, and the summaries made from them.

    *kinds*: what counts as broken; None: what is certainly broken (docs/spec/decisions.md, "Checks").
    Sources come before their consumers: draft and commit in that order.

    Raises:
        NotFoundError: there is no such conversation.
    """
    from lcm_core.operations.repair import SURE, find_repair

    owner = (await conversation(database, conversation_id)).conversation_id
    return await database.read(find_repair, owner, kinds=SURE if kinds is None else kinds)


async def draft(
    database: Database,
    summary_id: str,
    summarizer: Summarizer,
    *,
    previous: bool = True,
    settings: Settings | None = None,
) -> tuple[Draft, ...]:
    """Draft a new text of a summary from its present sources, without changing anything.

    No lock is held while *summarizer* works. Returns up to three drafts in the order they were made:
    ``verdict`` names the problems of each, ``usage`` its cost (tokens and US dollars). The last may be
    the truncated source, without a model (docs/spec/decisions.md, "Drafts"). *previous*: give a leaf the
    summaries before it, so that it does not repeat them.

    Raises:
        NotFoundError: the summary does not exist.
        LcmError: the summarizer returned no answer.
    """
    from lcm_core.operations.drafting import draft_setting, draft_summary, read_material

    engine = _engine(settings)
    setting = draft_setting(database.schema, engine, _zone(engine), previous=previous)
    material = await database.read(
        read_material, SummaryId(summary_id), setting.rendering, with_previous=previous
    )
    return await draft_summary(summarizer, material, setting)


# -- the file as a whole --------------------------------------------------------------------------------


async def export(database: Database, conversation_id: int, folder: Path) -> Exported:
    """Write every row of a conversation to a new private file in *folder* (`lcm-tui import` reads it).

    Raises:
        NotFoundError: there is no such conversation.
        DatabaseError: the folder cannot be written.
    """
    from lcm_core.operations.export import export_conversation

    found = await conversation(database, conversation_id)
    return await database.read(export_conversation, found, folder, database.path)


async def backup(database: Database, target: Path, *, check: bool = False, replace: bool = False) -> Backup:
    """Copy one state of the database to *target*, even while a host writes. A failure leaves no file.

    *check*: read the whole copy again. *replace*: replace an existing file; else it is refused.

    Raises:
        RefusedError: *target* exists, belongs to a database, or is the database.
        DatabaseError: the database cannot be read, *target* cannot be written, or the disk is full.
    """
    from lcm_core.change.backup import make_backup

    return await asyncio.to_thread(make_backup, database.path, target, check=check, replace=replace)


async def migration(database: Database) -> Migration:
    """What the file lacks of the present schema; false if it is complete. `migrate` adds what is missing.

    Raises:
        RefusedError: an engine of the 1.x line wrote the file, which has another schema.
    """
    from lcm_core.change.migrate import plan_migration

    return await database.read(plan_migration)


def _engine(settings: Settings | None) -> EngineSettings:
    from lcm_core.base.engine_settings import EngineSettings

    return EngineSettings() if settings is None else settings.engine


def _zone(engine: EngineSettings) -> tzinfo | None:
    """The time zone in the engine's settings; None: the zone of this machine."""
    from zoneinfo import ZoneInfo

    name = engine.timezone.value
    return None if name is None else ZoneInfo(name)
