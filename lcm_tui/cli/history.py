"""``history``: what lcm-tui changed in this database, and taking it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lcm_core.base.errors import NotFoundError, RefusedError, UsageError
from lcm_core.base.text import counted
from lcm_core.base.times import iso_z
from lcm_core.base.values import replace
from lcm_core.change.journal import (
    DamagedRecordError,
    Operation,
    beginning,
    edits_of,
    encode_edits,
    get,
    of_batch,
    operations,
)
from lcm_core.change.plan import Edit, Plan
from lcm_core.change.undo import (
    latest,
    named,
    plan_redo,
    plan_redo_batch,
    plan_undo,
    plan_undo_batch,
    plan_undo_with_later,
    prunable,
    prune_history,
    undone_by,
)
from lcm_core.store.database import Reader
from lcm_core.store.listing import CANDIDATES, Page, Position, the_one

from lcm_tui.cli import answer, options
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.command import argument, command, flag, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import ConversationName, OperationId, Stamp, When, WholeNumber
from lcm_tui.cli.options import ChangeFlags, PageOptions, SqlFlags
from lcm_tui.cli.selecting import number_of
from lcm_tui.cli.working import carry_out
from lcm_tui.tables.blocks import Note, json_names, json_of, list_table
from lcm_tui.tables.history import (
    EMPTY,
    LISTED_COLUMNS,
    ListedOperation,
    ShownOperation,
    lines_of,
    operation_blocks,
    operation_json,
)

if TYPE_CHECKING:
    from lcm_core.change.preview import Planner

# -- looking ---------------------------------------------------------------------------------------------


@command("history list", forms=("csv",), examples=("history list", "history list 3"))
@options.optional_conversation
@options.page_options
def list_(run: Run, *, conversation: ConversationName | None, paged: PageOptions) -> Answer:
    """List the changes, newest first, with their undos; a batch is one line, and `show` has its parts."""
    window = options.window(run, "history", paged)
    below = None if window.position is None else int(window.position.id)
    owner, page = run.read(_load_list, conversation, window.limit, below)
    return run.answer(
        "history.list",
        {
            "conversationId": owner,
            "items": [json_of(LISTED_COLUMNS, one) for one in lines_of(page.items, unfold=True)],
        },
        [list_table(LISTED_COLUMNS, lines_of(page.items), run.time, empty=EMPTY)],
        paging=Paging("history", window.limit, len(page.items), page.next),
        names=json_names(LISTED_COLUMNS),
    )


async def _load_list(
    reader: Reader, named: ConversationName | None, limit: int, below: int | None
) -> tuple[int | None, Page[ListedOperation]]:
    owner = None if named is None else await number_of(reader, named)
    found = await reader.run(operations, limit=limit + 1, below=below, conversation_id=owner)
    items = tuple([await _standing(reader, one) for one in found[:limit]])
    last = found[limit - 1] if len(found) > limit else None
    return owner, Page(items, None if last is None else Position(last.created_at, last.place))


async def _standing(reader: Reader, operation: Operation) -> ListedOperation:
    try:
        by = await undone_by(reader, operation.id)
    except RefusedError:
        return ListedOperation(operation, None, operation.undone_by)
    batch = None if by is None or operation.batch is None else (await reader.run(get, by)).batch
    return ListedOperation(operation, by is None, by, batch)


def show_batch(run: Run, batch: str) -> Answer:
    """List the operations of a batch, the newest first."""

    async def load(reader: Reader) -> list[ListedOperation]:
        return [await _standing(reader, one) for one in await reader.run(of_batch, batch)]

    lines = lines_of(run.read(load), unfold=True)
    data: Document = {"batch": batch, "items": [json_of(LISTED_COLUMNS, one) for one in lines]}
    return run.answer("show", data, [list_table(LISTED_COLUMNS, lines, run.time)])


def show_operation(run: Run, operation_id: str) -> Answer:
    """Show one operation: every row it changed, and whether it can be undone (or redone) now."""
    found = run.read(_load, operation_id)
    data = {
        "operation": operation_json(found.operation, found.undone_by),
        "edits": None if found.edits is None else encode_edits(found.edits),
        **some_of(found, "in_effect undoable redoable why_not"),
    }
    told = run.answer("show", data, operation_blocks(run.time, found))
    if found.damaged is None:
        return told
    return replace(told, exit_code=found.damaged.exit_code, failed=found.damaged)


async def _load(reader: Reader, wanted: str) -> ShownOperation:
    operation = await reader.run(get, await operation_beginning(reader, wanted))
    edits: Sequence[Edit] | None = None
    by, why_not, damaged = operation.undone_by, None, None
    try:
        edits = await reader.run(edits_of, operation)
        by = await undone_by(reader, operation.id)
        await (plan_undo if by is None else plan_redo)(reader, operation.id)
    except DamagedRecordError as error:
        why_not, damaged = error.message, error if edits is None else None
    except RefusedError as error:
        why_not = error.message
    return ShownOperation(operation, edits, by, why_not, damaged)


async def operation_beginning(reader: Reader, wanted: str) -> str:
    """The operation whose id is *wanted*, or the only one whose id begins so; with none, *wanted* itself.

    Raises:
        UsageError: there are several, or nothing was given.
    """
    if not wanted:
        raise UsageError(
            "The id of an operation is empty. Give the id, or a unique prefix.", code="INVALID_COMMAND"
        )
    found = await reader.run(beginning, wanted, CANDIDATES + 1)
    return the_one(wanted, found, "operations", "operationId") if found else wanted


# -- undo and redo ---------------------------------------------------------------------------------------


back = argument(
    "operation_id",
    OperationId(),
    "OPERATION_ID",
    "The operation, or a unique prefix of its id; the batch_... of several that belong together; or "
    "`last`: the newest change in effect, or to redo, the last undone one.",
)


@command("history undo", examples=("history undo last --apply", "history undo op_4c4b --with-later"))
@back
@flag("--with-later", "Undo later operations that depend on it too, as a batch.")
@options.budget
@options.sql_flags()
def undo(run: Run, *, operation_id: str, with_later: bool, budget: int | None, flags: SqlFlags) -> Answer:
    """Undo any operation (previews unless --apply). It can be redone."""
    from lcm_tui.cli.changing import run_change

    planner = _planner(operation_id, redo=False, with_later=with_later)
    told = run_change(run, "history.undo", planner, flags, budget=budget)
    if not told.data.get("applied"):
        return told
    left = run.read(_left)
    document = None if left is None else some_of(left, "id title batch")
    said = "Nothing else is in effect." if left is None else f"Still in effect, newest: {named(left)}."
    return replace(told, data={**told.data, "newestInEffect": document}, blocks=[*told.blocks, Note(said)])


async def _left(reader: Reader) -> Operation | None:
    """What `history undo last` would take back now."""
    try:
        return await latest(reader)
    except NotFoundError:
        return None


@command("history redo", examples=("history redo last --apply",))
@back
@options.budget
@options.sql_flags()
def redo(run: Run, *, operation_id: str, budget: int | None, flags: SqlFlags) -> Answer:
    """Redo an undone operation (previews unless --apply)."""
    from lcm_tui.cli.changing import run_change

    return run_change(run, "history.redo", _planner(operation_id, redo=True), flags, budget=budget)


def _planner(operation_id: str, *, redo: bool, with_later: bool = False) -> Planner:
    """What makes the inverse of the operation, or of the batch, that was named."""
    found: list[str] = []  # what was meant stays the same when it has to be planned again

    async def plan(reader: Reader) -> Plan | Sequence[Plan]:
        if operation_id.startswith("batch_"):
            if redo:
                return await plan_redo_batch(reader, operation_id)
            return await plan_undo_batch(reader, operation_id, with_later=with_later)
        if not found and operation_id == "last":
            found.append((await latest(reader, undone=redo)).id)
        elif not found:
            found.append(await operation_beginning(reader, operation_id))
        if with_later:
            return await plan_undo_with_later(reader, found[0])
        return await (plan_redo if redo else plan_undo)(reader, found[0])

    return plan


# -- forgetting ------------------------------------------------------------------------------------------


@command("history prune", examples=("history prune --until 90d --apply",))
@options.optional_conversation
@option("--until", When(), "TIME", "Only operations from before this time, or older: 90d.")
@option("--keep-newest", WholeNumber(0), "N", "Keep the newest N operations.", into="keep")
@options.change_flags
def prune(
    run: Run,
    *,
    conversation: ConversationName | None,
    until: Stamp | None,
    keep: int | None,
    flags: ChangeFlags,
) -> Answer:
    """Remove operations from the history; they can then no longer be undone (previews unless --apply)."""
    if until is None and keep is None and conversation is None:
        raise UsageError(
            "`history prune` needs --until TIME, --keep-newest N or a conversation.",
            details={"command": "history.prune"},
        )
    limit = None if until is None else iso_z(until.moment(run.clock))
    owner, count = run.read(_load_prunable, conversation, keep, limit)
    number = counted(count, "operation")
    if not flags.apply or not count:
        what = f"To be removed from the history, and then not undoable: {number}."
        blocks = [Note(what), Note("Nothing was changed; --apply removes them.")]
        if not count:
            blocks = [Note("No operation matches.")]
        return run.answer("history.prune", {"applied": False, "operations": count}, blocks)
    gone = carry_out(
        run,
        f"Forget {number} permanently? The changes stay but can no longer be undone.",
        lambda stopped: prune_history(
            run.settings.database.value,
            keep=keep,
            before=limit,
            conversation_id=owner,
            wait=answer.BUSY_SECONDS,
            stopped=stopped,
        ),
        yes=flags.yes,
    )
    note = Note(f"Forgotten: {counted(gone, 'operation')}.")
    return run.answer("history.prune", {"applied": True, "operations": gone}, [note])


async def _load_prunable(
    reader: Reader, named: ConversationName | None, keep: int | None, before: str | None
) -> tuple[int | None, int]:
    owner = None if named is None else await number_of(reader, named)
    found = await reader.run(prunable, keep=keep, before=before, conversation_id=owner)
    return owner, len(found)
