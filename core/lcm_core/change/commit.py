"""The only way to write: check a plan against the database as it is, apply it, check the outcome, journal it.

One ``BEGIN IMMEDIATE`` with a bounded wait, and under it nothing but the writing (docs/spec/changes.md,
"Under the lock"). Everything else comes before it, in a snapshot: every edit is compared with the database,
the ids of new rows are worked out, the checks are asked of the rows around it, its rows and those of the
search tables and of the journal are made. It is done again when SQLite says that somebody has committed
anything by the time the lock is ours. No model call, file access or user wait ever happens inside.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lcm_core import __version__
from lcm_core.base.errors import DatabaseBusyError, DatabaseError, RefusedError
from lcm_core.base.records import Timestamp
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, field
from lcm_core.change import journal as exports
from lcm_core.change import plan as breaks
from lcm_core.change.apply import (
    ResolvedEdits,
    Write,
    check_counted,
    resolve_symbols,
    statements_of,
    write,
    writes_of,
)
from lcm_core.change.connection import Catalog, Fault, Writer, open_writer, quiet, read_catalog
from lcm_core.change.copying import Stop, never
from lcm_core.change.guard import Guard, check_tables, check_whole
from lcm_core.change.journal import TABLE, JournalRow, Operation, journal_row, pack, pack_resolution, record
from lcm_core.change.place import verify
from lcm_core.change.plan import (
    BusyError,
    Edit,
    Keeping,
    Moved,
    Plan,
    ReplacedError,
    StalePlanError,
    WouldBreakError,
    row_counts,
)
from lcm_core.change.reindex import (
    LookedUp,
    SearchWrites,
    keep_in_step,
    look_up,
    search_writes,
    written_tables,
)
from lcm_core.change.schema import check_unknown
from lcm_core.change.snapshots import conversations_gone, drop_snapshots
from lcm_core.change.surroundings import Tried, try_change
from lcm_core.store.database import Database

#: From so many edits on more pages are kept in memory, and how many bytes of them: a copy of 360,000 rows
#: then writes 307 MB of WAL instead of 541 MB, and holds the lock a third shorter.
MANY_EDITS = 20_000
PAGES_BYTES = 256 * 1024 * 1024
#: How often a change is worked out before the lock is taken; where somebody always writes in between, it is
#: once more done under it.
ATTEMPTS = 3
#: How long a commit waits for the lock by default.
WAIT_SECONDS = 5.0


class Committed(Record, frozen=True):
    """A change that was made."""

    operation: Operation | None  #: None: it was not to be journaled
    edits: tuple[Edit, ...]  #: as they went: whole rows, real ids, ordinals of that moment
    tokens: int  #: by how much the stored estimates of the contexts grew
    #: what became of the search tables, when they did not follow
    search: str | None = field(name="searchIndex")
    waited: float = field(name="waitedSeconds")  #: until the lock was ours, to the microsecond
    held: float = field(name="heldSeconds")  #: for which the lock was ours, to the microsecond

    @property
    def id(self) -> str:
        """The operation's id; empty when it was not journaled."""
        return self.operation.id if self.operation else ""


def commit(
    path: Path,
    plan: Plan,
    *,
    wait: float = WAIT_SECONDS,
    journal: bool = True,
    inode: int | None = None,
    fault: Fault | None = None,
    stopped: Stop | None = None,
) -> Committed:
    """Make a change, or leave everything as it was.

    *inode* is the file that was planned on. *fault* is called with the name of every step, for tests that
    kill the process there. *stopped* says whether to give up; it is called until the lock is held, then the
    change is made.

    Raises:
        CancelledError: *stopped* said so.
        StalePlanError: the database moved on since the plan was made.
        BusyError: another process kept the lock for *wait* seconds.
        WouldBreakError: it would leave an error that was not there.
        RefusedError: there is nothing to do, the schema does not take a row, or what we do not know of it
            refers to a row that changes.
        ReplacedError: another file lies at the path.
        ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: it cannot be written.
    """
    if not plan:
        raise RefusedError(f"{plan.title}: there is nothing to change.")
    step = fault or quiet
    operation_id = f"op_{secrets.token_hex(8)}"
    step("packing")
    if not journal or plan.keeping is Keeping.NOWHERE:
        return _commit(path, plan, None, wait, inode, step, stopped)
    packed = pack(plan.edits)
    limit = exports.APART_BYTES if plan.keeping is Keeping.APART else exports.LIMIT_BYTES
    if len(packed) <= limit:
        return _commit(path, plan, _Draft(operation_id, packed, None), wait, inode, step, stopped)
    export = exports.write_export(operation_id, packed)
    step("exported")
    try:
        return _commit(path, plan, _Draft(operation_id, None, export), wait, inode, step, stopped)
    except BaseException:
        exports.remove_export(export.path)
        raise


async def commit_plan(
    database: Database,
    plan: Plan,
    *,
    wait: float = WAIT_SECONDS,
    inode: int | None = None,
    stopped: Stop = never,
) -> Committed:
    """`commit` in a thread; what *database* reads afterwards holds it, or whatever made the plan stale.

    When the caller is cancelled while it waits for the lock it is given up; later it runs to its end.
    *stopped* gives it up likewise, and what comes of it tells which of the two it was.
    *inode* is that of the file that was planned on; without one, of the file that *database* reads.
    """
    planned_on = database.inode if inode is None else inode
    cancelled = threading.Event()
    work = asyncio.ensure_future(
        asyncio.to_thread(
            commit,
            database.path,
            plan,
            wait=wait,
            inode=planned_on,
            stopped=lambda: cancelled.is_set() or stopped(),
        )
    )
    try:
        done = await asyncio.shield(work)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait((work,))
        raise
    except (StalePlanError, ReplacedError):
        with suppress(DatabaseError):  # a file that is gone makes the plan no less stale
            await database.refresh()
        raise
    await database.refresh()
    return done


class _Draft(Record, frozen=True):
    """What the journal gets, as far as it is known before the lock is taken."""

    id: str
    packed: bytes | None
    export: exports.Export | None


def _commit(
    path: Path,
    plan: Plan,
    draft: _Draft | None,
    wait: float,
    inode: int | None,
    step: Fault,
    stopped: Stop | None,
) -> Committed:
    begun = time.monotonic()
    try:
        with open_writer(path, wait, stopped) as writer:
            if plan.keeping is Keeping.NOWHERE:
                writer.overwrite_deleted()
            if plan.undoes is not None:
                writer.take_back()
            if len(plan.edits) >= MANY_EDITS:
                writer.hold_pages(PAGES_BYTES)
            writer.checkpoint_later()
            _check_inode(path, inode)
            step("opened")
            locked = _lock_prepared(writer, plan, draft, step)
            _check_inode(path, inode)
            prepared = locked.prepared
            writer.write_only(prepared.guard)
            step("verified")
            before = writer.row_changes
            rows = write(writer, prepared.writes, step)
            followed = writer.row_changes
            search = keep_in_step(writer, prepared.search)
            rows += writer.row_changes - followed
            step("indexed")
            operation = record(writer, prepared.entry) if prepared.entry else None
            rows += 0 if operation is None else 1 + (operation.undoes is not None)
            rows += drop_snapshots(writer, prepared.gone)
            check_counted(writer.row_changes - before, rows)
            step("journaled")
            writer.commit()
            held = time.monotonic() - locked.since
            step("committed")
            writer.checkpoint(path)
    except DatabaseBusyError as error:
        if isinstance(error, BusyError):
            raise
        raise BusyError(path, time.monotonic() - begun) from error
    step("closed")
    waited = locked.since - begun
    return Committed(operation, prepared.edits, prepared.tokens, search, round(waited, 6), round(held, 6))


class _Locked(Record, frozen=True):
    """The lock is ours, and what is to be written fits what is there."""

    prepared: _Prepared
    since: float  #: on the monotonic clock


def _lock_prepared(writer: Writer, plan: Plan, draft: _Draft | None, step: Fault) -> _Locked:
    """Work out what is to be written, then take the lock; and again when somebody wrote in between.

    What was worked out in a snapshot holds under the lock when nobody has committed anything since. A host
    that commits many times a second would outrun that for ever, so the last time it is done under the lock.
    """
    catalog = read_catalog(writer)
    for attempt in range(ATTEMPTS):
        looked_up = look_up(writer, catalog, plan.edits)
        if not attempt:
            step("looked up")
        with writer.snapshot():
            if attempt:
                catalog = read_catalog(writer)
            prepared, version = _prepare(writer, catalog, plan, draft, looked_up), writer.data_version
        step("checked again" if attempt else "checked before")
        writer.begin()
        since = time.monotonic()
        step("begun")
        if writer.data_version == version:
            return _Locked(prepared, since)
        if attempt < ATTEMPTS - 1:
            writer.rollback()
    return _Locked(_prepare(writer, read_catalog(writer), plan, draft, looked_up), since)


def _check_inode(path: Path, inode: int | None) -> None:
    if inode is None:
        return
    try:
        present = os.stat(path).st_ino
    except OSError:
        present = None
    if present != inode:
        raise ReplacedError(
            f"{path} is a different file than the one this was planned on: it was replaced meanwhile. "
            "Nothing was changed; preview the change again."
        )


class _Prepared(Record, frozen=True):
    """A change as it will be written; right as long as nobody else writes."""

    edits: tuple[Edit, ...]
    guard: Guard  #: of the tables that it writes
    writes: list[Write]
    search: list[SearchWrites]
    tokens: int
    entry: JournalRow | None
    gone: list[int]  #: conversations that it deletes


def _prepare(
    writer: Writer, catalog: Catalog, plan: Plan, draft: _Draft | None, looked_up: LookedUp
) -> _Prepared:
    """Compare every edit with what is there now, try the change, and make its rows; nothing is written.

    Raises:
        StalePlanError: something moved.
        WouldBreakError: it would leave an error that was not there.
        RefusedError: a table has no ids left, something that we do not know refers to an altered row,
            or something else would write along.
    """
    check_whole(catalog.schema)
    tables = written_tables(plan.edits, catalog.schema)
    guard = check_tables(writer, tables, statements_of(plan.edits))
    verified = verify(writer, plan.edits, catalog.tables)
    if verified.moved:
        raise StalePlanError(verified.moved)
    check_unknown(writer, catalog.schema, verified)
    resolved = resolve_symbols(writer, verified.steps, verified.values)
    tried = try_change(writer, catalog, verified, resolved)
    values = resolved.values
    allowed = {breaks.resolved(key, values) for key in plan.allows} if values else plan.allows
    if broken := tried.broken(allowed):
        if plan.whole:
            raise StalePlanError([Moved("what belongs to it", "all in the plan", "more: it has grown")])
        raise WouldBreakError(broken)
    return _Prepared(
        resolved.edits,
        guard,
        writes_of(resolved.edits, verified.contexts, resolved.values),
        search_writes(writer, catalog, resolved.edits, looked_up),
        tried.tokens,
        _entry(catalog, plan, draft, resolved, tried) if draft else None,
        conversations_gone(resolved.edits),
    )


def _entry(catalog: Catalog, plan: Plan, draft: _Draft, resolved: ResolvedEdits, tried: Tried) -> JournalRow:
    operation = Operation(
        id=draft.id,
        place=0,
        kind=plan.kind,
        title=plan.title,
        conversation_id=plan.conversation_id,
        batch=plan.batch,
        rows=row_counts(resolved.edits),
        tokens=tried.tokens,
        removed=tried.before - tried.after,
        tool_version=__version__,
        created_at=Timestamp(iso_z(datetime.now(UTC))),
        undoes=plan.undoes,
        undone_by=None,
        export=draft.export,
    )
    resolution = pack_resolution(plan.edits, resolved.edits, resolved.values)
    return journal_row(operation, draft.packed, resolution, table_exists=catalog.schema.has(TABLE))
