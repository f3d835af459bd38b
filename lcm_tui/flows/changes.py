"""The changes of the app, one after the other: what each is called, lets you choose, and plans."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.errors import LcmError, RefusedError
from lcm_core.base.findings import Finding, FixId
from lcm_core.base.records import Conversation, ConversationId, SummaryId
from lcm_core.base.settings import Settings
from lcm_core.base.text import counted
from lcm_core.base.values import replace
from lcm_core.change.backup import Backup, default_target, make_backup
from lcm_core.change.commit import Committed
from lcm_core.change.guard import check_whole
from lcm_core.change.journal import Operation, of_batch
from lcm_core.change.plan import Plan
from lcm_core.change.preview import Batch, Planner
from lcm_core.change.reindex import resync
from lcm_core.change.undo import (
    NotUndoableError,
    kind_back,
    named,
    plan_redo,
    plan_redo_batch,
    plan_undo,
    plan_undo_batch,
    plan_undo_with_later,
)
from lcm_core.checks.check import Limits
from lcm_core.engine.rules import IngestRules, ingest_rules
from lcm_core.operations.debt import LABEL, plan_close_debt
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.operations.fix import Keep
from lcm_core.operations.fixing import Fixes, plan_fixes
from lcm_core.operations.merge import plan_merge
from lcm_core.operations.transplant import plan_transplant
from lcm_core.store.database import Database, Reader
from lcm_host.backfill import Backfill, BackfillFiles, Backfilling, ImportSource, host_source
from lcm_host.messages import HostFile, read_host_file
from lcm_host.sessions import HostSession

from lcm_tui.flows.change import BlockedError, Change, Choice, Notice, Then
from lcm_tui.flows.ui import Ui
from lcm_tui.tables.history import HistoryLine

# -- import ----------------------------------------------------------------------------------------------
# A session that only the host knows: its rows, and its files with them.


async def import_rules(reader: Reader, settings: Settings) -> IngestRules:
    """The rules by which a file takes messages.

    Raises:
        RefusedError: no message can be stored in it: said before a session is looked for, unpacked or read.
    """
    check_whole(reader.schema)
    return ingest_rules(reader.schema, settings.engine)


class Importing(Change):
    """A session of the host that is imported, with its payloads, which lie beside the database."""

    def __init__(
        self, planner: Planner, settings: Settings, title: str = "", then: Then | None = None
    ) -> None:
        super().__init__(planner, title, then=then)
        self._settings = settings
        self._files = BackfillFiles(settings.large_files_dir.value)
        self._work: Backfilling | None = None  #: goes on where its last commit ended

    def _begin(
        self, rules: IngestRules, source: ImportSource, transcript: HostFile, title: str | None = None
    ) -> Backfilling:
        self._work = Backfilling(
            source.session,
            transcript,
            rules,
            self._files.folder,
            archived=not source.is_live,
            is_noted=source.path == source.place,
            remarks=source.remarks,
            title=title,
        )
        return self._work

    async def before(self, ui: Ui, plan: Plan) -> None:
        """Write the payloads of a part."""
        del ui
        await asyncio.to_thread(self._files.write, plan)

    async def applied(self, ui: Ui, done: Sequence[Committed]) -> Sequence[Notice]:
        """Where it is now."""
        del ui
        numbers = {one.operation.conversation_id for one in done if one.operation is not None}
        return [Notice("", f"The session is conversation {number} now.") for number in numbers]

    async def left(self, database: Database) -> None:
        """Take back the files whose rows were not committed."""
        await self._files.take_back(database)


class HostImport(Importing):
    """What is left of a session of the host, read again when it has grown meanwhile."""

    def __init__(self, session: HostSession, settings: Settings, then: Then | None = None) -> None:
        title = f"Import session {session.session_key or session.session_id}"
        super().__init__(self._plan, settings, title, then)
        self._session = session
        self._folder: tempfile.TemporaryDirectory[str] | None = None  #: for what is written out

    async def _plan(self, reader: Reader) -> Batch:
        work = self._work
        if work is None or not await work.goes_on(reader):
            rules = await import_rules(reader, self._settings)
            now = await asyncio.to_thread(self._source)
            transcript = await asyncio.to_thread(read_host_file, now.path, whole_records=True)
            work = self._begin(rules, now, transcript)
        shown = await work.plan(reader)
        if (reason := _refusal(shown)) and not shown.goes_on:
            raise RefusedError(reason)
        self._files.expect(shown.appends)
        plans = tuple(append.plan for append in shown.appends)
        if shown.goes_on:
            return Batch(plans, shown.more)
        warnings = (*shown.warnings, *_rest_of(shown))
        return Batch((replace(plans[0], warnings=(*plans[0].warnings, *warnings)), *plans[1:]), shown.more)

    def _source(self) -> ImportSource:
        """The session as it is now; blocks."""
        self._remove()
        if self._session.plain_file is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lcm-tui-")
        return host_source(self._session, Path(self._folder.name if self._folder else ""))

    def _remove(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def left(self, database: Database) -> None:
        """Remove what was written out, too."""
        await super().left(database)
        await asyncio.to_thread(self._remove)


def _rest_of(shown: Backfill) -> tuple[str, ...]:
    """What is said of a large session, of which only the first parts are planned here."""
    if not shown.more:
        return ()
    return (
        f"this shows the first {len(shown.appends):,} of {shown.parts:,} parts; all of them are applied: "
        f"{counted(shown.tally.stored, 'message')}, {shown.tally.tokens:,} tokens",
    )


def _refusal(shown: Backfill) -> str:
    """Why there is nothing to preview; empty when there is."""
    if shown.doubtful:
        return (
            f"Conversation {shown.conversation_id} does not match this transcript: where its messages "
            "belong is unknown."
        )
    return "" if shown.appends else shown.nothing_text


# -- close debt ------------------------------------------------------------------------------------------
# The debt of a conversation that has ended, behind a backup as the engine's doctor does it.

ABOUT_CLOSING_DEBT: Final = """
Compaction that is due in an ended conversation never runs: its debt record stays forever. Closing the debt
marks the record as closed by the operator; no message or summary changes. The database is backed up first,
and the change is refused if the engine has changed the record meanwhile. U, then u undoes it.
"""


class ClosingDebt(Change):
    """The debt of a conversation, closed behind a copy of the file at *target*."""

    def __init__(self, planner: Planner, title: str, target: Callable[[Path], Path]) -> None:
        super().__init__(planner, title, ABOUT_CLOSING_DEBT)
        self._target = target
        self._made: Backup | None = None

    @property
    def offers_backup(self) -> bool:
        """None is offered: one is made."""
        return False

    async def before(self, ui: Ui, plan: Plan) -> None:
        """Copy the file, once."""
        del plan
        path = ui.database.path
        self._made = self._made or await asyncio.to_thread(make_backup, path, self._target(path))

    async def applied(self, ui: Ui, done: Sequence[Committed]) -> Sequence[Notice]:
        """Where the copy is."""
        del ui, done
        return () if self._made is None else (Notice("Backup made before", str(self._made.path)),)


def closing_debt(conversation: Conversation) -> Change:
    """Close the debt of a conversation."""

    async def plan(reader: Reader) -> Plan:
        return await plan_close_debt(reader, conversation.conversation_id)

    title = f"Close the debt of conversation {conversation.called}"
    return ClosingDebt(plan, title, lambda path: default_target(path, label=LABEL))


# -- dissolve --------------------------------------------------------------------------------------------
# Condensed summaries are replaced with their sources.

ABOUT_DISSOLVING: Final = """
Dissolving a condensed summary puts its sources back in its place in the context. The summary is deleted, with
its links and search rows, unless 1 keeps it in the database; 2 also dissolves condensed sources, that many
levels down. Where something else needs the summary, dissolving is refused with the reason.
"""
#: What can be chosen for the levels, and what it stands for.
LEVELS: Final = {"1": 1, "2": 2, "3": 3, "all": 1_000}


def dissolving(
    conversation: Conversation, chosen: Sequence[SummaryId], budget: int, then: Then | None = None
) -> Change:
    """Dissolve the *chosen* summaries of a conversation. *budget* in tokens."""
    keep = Choice.switch("keep the dissolved summary in the database")
    levels = Choice("levels", tuple(LEVELS))
    owner = conversation.conversation_id

    async def plan(reader: Reader) -> Plan:
        return await plan_dissolve(
            reader, owner, chosen, levels=LEVELS[levels.value], keep=keep.on, budget=budget
        )

    title = f"Dissolve, conversation {conversation.called}"
    return Change(plan, title, ABOUT_DISSOLVING, (keep, levels), then)


# -- merge -----------------------------------------------------------------------------------------------
# A split session becomes one conversation again; what only the operator can know is a choice.

ABOUT_MERGING: Final = """
A merge rejoins a session that a rollover split into several conversations: messages, summaries and context of
the older ones are put before those of the active one; the older conversations remain, empty. A session that
was reset or ended on purpose is never merged. Where no cause is recorded, only you can know: 1 treats it as a
rollover.
"""


def merging(conversation: Conversation, budget: int, done: Callable[[ConversationId], object]) -> Change:
    """Merge the session of a conversation; *done* gets the conversation that is left. *budget* in tokens."""
    assume = Choice.switch("treat as a rollover when the cause was not recorded")
    into = [conversation.conversation_id]

    async def plan(reader: Reader) -> Plan:
        made = await plan_merge(
            reader, [conversation.conversation_id], assume_rollover=assume.on, budget=budget
        )
        if made.conversation_id is not None:
            into[:] = [ConversationId(made.conversation_id)]
        return made

    def then(_: tuple[Committed, ...]) -> None:
        done(into[0])

    title = f"Merge the session of conversation {conversation.called}"
    return Change(plan, title, ABOUT_MERGING, (assume,), then)


# -- transplant ------------------------------------------------------------------------------------------
# The summaries of one conversation are copied to the front of another one's context.

ABOUT_TRANSPLANTING: Final = """
A transplant copies the summaries of one context, with every summary, message, part and large file below them,
to the front of another context, under new ids and in time order. The source conversation does not change, and
the host's newest message stays where the host left it. Summaries the target already has are listed and
refused; 1 skips them.
"""


def transplanting(
    source: ConversationId, target: ConversationId, budget: int, then: Then | None = None
) -> Change:
    """Copy the summaries, messages and files of *source* into *target*. *budget* in tokens."""
    skip = Choice.switch("skip duplicates")

    async def plan(reader: Reader) -> Plan:
        return await plan_transplant(reader, source, target, skip_duplicates=skip.on, budget=budget)

    return Change(plan, f"Transplant {source} → {target}", ABOUT_TRANSPLANTING, (skip,), then)


# -- fix -------------------------------------------------------------------------------------------------
# What the checks found, fixed without a model: rows by a plan, and search tables after it.

#: Checks whose fix can take out the one side or the other.
TWO_SIDED: Final = frozenset({"A6", "A7", "B21"})
KEEP_WORDS: Final = ("the summary", "its sources")
#: How long a search table may be waited for (seconds).
WAIT_SECONDS: Final = 5.0


async def bring_in_step(database: Database, tables: Sequence[str]) -> Notice:
    """Write what is missing, stale or too many in some search tables; what came of it."""
    try:
        done = await asyncio.to_thread(resync, database.path, tuple(tables), wait=WAIT_SECONDS)
    except LcmError as error:
        return Notice("Search tables", error.message, warns=True)
    finally:
        await database.refresh()
    rows = ", ".join(f"{one.table} {one.rows:,}" for one in done)
    return Notice("Search tables updated", f"Rows written: {rows}")


class Fixing(Change):
    """Some findings fixed by one plan, and then the search tables that its rows are found by."""

    def __init__(self, findings: Sequence[Finding], limits: Limits, then: Then | None = None) -> None:
        """*limits* as the checks had them."""
        self._findings = tuple(findings)
        self._limits = limits
        self._tables: tuple[str, ...] = ()  #: that the last plan asks for
        number = len(self._findings)
        title = f"Fix {self._findings[0].check}" if number == 1 else f"Fix {number:,} findings"
        self._keep = Choice(
            "if the context contains both a summary and everything it covers, keep", KEEP_WORDS
        )
        choices = (self._keep,) if any(one.check in TWO_SIDED for one in self._findings) else ()
        super().__init__(self._plan, title, about_fixes(self._findings), choices, then)

    async def _plan(self, reader: Reader) -> Plan:
        side = Keep.SOURCES if self._keep.on else Keep.SUMMARIES
        fixes = await plan_fixes(reader, self._findings, keep=side, limits=self._limits)
        self._tables = fixes.search
        if not fixes.plan:
            raise RefusedError("No row has to change any more: go back and run the checks again.")
        return _with_search(fixes)

    async def applied(self, ui: Ui, done: Sequence[Committed]) -> Sequence[Notice]:
        """Bring the search tables in step with the rows that were committed."""
        del done
        return (await bring_in_step(ui.database, self._tables),) if self._tables else ()


def about_fixes(findings: Sequence[Finding]) -> str:
    """What the fixes of some findings do."""
    checks: dict[FixId, dict[str, None]] = {}
    for one in findings:
        if one.fix is not None:
            checks.setdefault(one.fix, {})[one.check] = None
    said = [f"{', '.join(found)}: {fix.effect}" for fix, found in checks.items()]
    return "\n\n".join(
        ["One plan fixes everything that was selected, without a model and without guessing.", *said]
    )


def _with_search(fixes: Fixes) -> Plan:
    """The plan, which says what is done after it."""
    if not fixes.search:
        return fixes.plan
    tables = ", ".join(fixes.search)
    said = f"{tables}: updated afterwards; search tables are not part of the plan and need no undo"
    return replace(fixes.plan, warnings=(*fixes.plan.warnings, said))


# -- undo and redo ---------------------------------------------------------------------------------------
# Of an operation alone or with what depends on it.

ABOUT_UNDOING: Final = """
Undo restores the rows that an operation replaced; redo applies it again. Every row is compared first: if one
has changed since, the undo is refused with the reason. Both are operations in the history, too.
"""


#: Kinds of operations of which a batch is undone as a whole at first.
WHOLE: Final = frozenset({"compact", "focus", "refocus"})


class Undoing(Change):
    """An operation that holds is undone, one that was undone is redone; with *batch* at first all of it.

    Only what would change something can be chosen: a batch of several, later changes where there are some.
    The passes of a compaction, and a brief with its sweep, are one change to the operator.
    """

    def __init__(self, one: Operation, *, holds: bool, batch: Sequence[Operation] = ()) -> None:
        if one.batch is not None and one.kind in WHOLE:
            batch = batch or (one,)
        self._verb = kind_back(one, redo=not holds).capitalize()
        self._one, self._holds, self._batch = one, holds, batch
        self._whole = Choice("with all of its batch", ("no", "yes"), chosen="yes" if batch else "no")
        self._later = Choice.switch("with later changes that depend on it")
        super().__init__(self._plan, about=ABOUT_UNDOING)

    @property
    def title(self) -> str:
        """What is undone: an operation, or a batch with the number of its conversations."""
        owners = {each.conversation_id for each in (self._batch if self._whole.on else (self._one,))}
        if not owners:
            return f"{self._verb} a batch"
        if len(owners) > 1:
            return f"{self._verb}, {len(owners):,} conversations"
        [owner] = owners
        return self._verb if owner is None else f"{self._verb}, conversation {owner}"

    async def _plan(self, reader: Reader) -> Sequence[Plan]:
        """What somebody else has undone or redone meanwhile is refused: it never does the opposite."""
        one, redo = self._one, not self._holds
        several = one.batch is not None and len(await reader.run(of_batch, one.batch)) > 1
        whole = (self._whole,) if several else ()
        self.choices = (*whole, self._later) if self._later.on else whole
        try:
            if self._whole.on and one.batch is not None:
                if redo:
                    return await plan_redo_batch(reader, one.batch)
                return await plan_undo_batch(reader, one.batch, with_later=self._later.on)
            if self._later.on and not redo:
                return await plan_undo_with_later(reader, one.id)
            return (await (plan_redo if redo else plan_undo)(reader, one.id),)
        except NotUndoableError as error:
            if not error.dependents or self._later.on or redo:
                raise
            self.choices = (*whole, self._later)
            raise _depended_on(error, len(whole), whole=self._whole.on) from error


def undoing_line(line: HistoryLine) -> Change:
    """Undo what holds of a line of the history, or redo it when nothing of it does."""
    batch = line.holding or [one.operation for one in line.listed]
    return Undoing(batch[0], holds=bool(line.holding), batch=batch if len(line.listed) > 1 else ())


def _depended_on(error: NotUndoableError, choice: int, *, whole: bool) -> BlockedError:
    """What depends on an operation, or on the *whole* batch, and the choice that takes all of it back."""
    names = "; ".join(named(one) for one in error.dependents)
    number = len(error.dependents)
    key, offer = choice + 1, "Undo both" if whole or number == 1 else f"Undo all {number + 1}"
    said = "1 later change depends" if number == 1 else f"{number} later changes depend"
    return BlockedError(
        f"{said} on {'the batch' if whole else 'it'} and go{'es' if number == 1 else ''} with it: {names}. "
        f"Press {key} to {offer[0].lower()}{offer[1:]}.",
        choice,
        offer,
    )
