"""The only way to write: check a plan against the database as it is, apply it, check the outcome, journal it.

One ``BEGIN IMMEDIATE`` with a bounded wait. What can be slow (packing the edits, writing an export, finding
rows of search tables) comes before it; no model call, file access or user wait ever happens inside. Every
edit is compared with the database in a snapshot right before the lock, and again under it unless SQLite says
that nobody has committed anything in between: then the lock is held for the writing alone.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lcm_core import __version__
from lcm_core.change import exports
from lcm_core.change.apply import Applied, apply
from lcm_core.change.breaks import resolved
from lcm_core.change.catalog import Catalog, read_catalog
from lcm_core.change.codec import pack
from lcm_core.change.connection import Fault, Writer, open_writer, quiet
from lcm_core.change.copying import Stop, never
from lcm_core.change.errors import (
    BusyError,
    Moved,
    RefusedError,
    ReplacedError,
    StalePlanError,
    WouldBreakError,
)
from lcm_core.change.journal import Entry, Operation, pack_resolution, record
from lcm_core.change.lineage import summary_findings, touched_summaries
from lcm_core.change.local import context_findings, subjects_of
from lcm_core.change.place import Listing
from lcm_core.change.plan import Edit, Keeping, Owner, Plan, Splice, row_counts
from lcm_core.change.references import missing, named_by
from lcm_core.change.search_index import LookedUp, keep_in_step, look_up
from lcm_core.change.snapshots import conversations_gone, drop_snapshots
from lcm_core.change.tokens_moved import tokens_of
from lcm_core.change.twice import told_twice, was_read_twice
from lcm_core.change.verify import Verified, verify
from lcm_core.change.walks import Walks
from lcm_core.errors import DatabaseBusyError, DatabaseError
from lcm_core.records import Timestamp
from lcm_core.store.database import Database
from lcm_core.store.guard import undisturbed
from lcm_core.times import iso_z

#: From so many edits on more pages are kept in memory, and how many bytes of them: a copy of 360,000 rows
#: then writes 307 MB of WAL instead of 541 MB, and holds the lock a third shorter.
MANY_EDITS = 20_000
PAGES_BYTES = 256 * 1024 * 1024
#: How long a commit waits for the lock by default.
WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Committed:
    """A change that was made."""

    operation: Operation | None  #: None: it was not to be journaled
    edits: tuple[Edit, ...]  #: as they went: whole rows, real ids, ordinals of that moment
    tokens: int  #: by how much the stored estimates of the contexts grew
    search: str | None  #: what became of the search tables, when they did not follow
    waited: float  #: seconds until the lock was ours
    held: float  #: seconds for which the lock was ours

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
    folder: Path | None = None,
    fault: Fault | None = None,
    stopped: Stop | None = None,
) -> Committed:
    """Make a change, or leave everything as it was.

    *inode* is the file that was planned on, *folder* where the edits of a very large operation go. *fault* is
    called with the name of every step, for tests that kill the process there. *stopped* says whether to give
    it up; it is asked until the lock is ours, then the change is made.

    Raises:
        CancelledError: *stopped* said so.
        StalePlanError: the database moved on since the plan was made.
        BusyError: another process kept the lock for *wait* seconds.
        WouldBreakError: it would leave an error that was not there.
        RefusedError: there is nothing to do, or the schema does not take a row.
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
    export = exports.write_export(folder or exports.export_folder(), operation_id, packed)
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
    folder: Path | None = None,
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
            folder=folder,
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


@dataclass(frozen=True, slots=True)
class _Draft:
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
        with undisturbed(path, wait), open_writer(path, wait, stopped) as writer:
            if plan.keeping is Keeping.NOWHERE:
                writer.overwrite_deleted()
            if len(plan.edits) >= MANY_EDITS:
                writer.hold_pages(PAGES_BYTES)
            _check_inode(path, inode)
            step("opened")
            catalog = read_catalog(writer)
            looked_up = look_up(writer, catalog, plan.edits)
            step("looked up")
            with writer.snapshot():
                checked, version = _check(writer, catalog, plan), writer.data_version
            step("checked before")
            writer.begin()
            locked = time.monotonic()
            step("begun")
            _check_inode(path, inode)
            # Nothing that anybody else committed since the snapshot: what was checked there holds here.
            if writer.data_version != version:
                catalog = read_catalog(writer)
                checked = _check(writer, catalog, plan)
            step("verified")
            done = _carry_out(writer, catalog, plan, checked, looked_up, step)
            operation = _record(writer, plan, draft, done) if draft else None
            drop_snapshots(writer, conversations_gone(done.applied.edits))
            step("journaled")
            writer.commit()
            held = time.monotonic() - locked
            step("committed")
    except DatabaseBusyError as error:
        if isinstance(error, BusyError):
            raise
        raise BusyError(path, time.monotonic() - begun) from error
    step("closed")
    return Committed(operation, done.applied.edits, done.tokens, done.search, locked - begun, held)


def _check_inode(path: Path, inode: int | None) -> None:
    if inode is None:
        return
    try:
        present = os.stat(path).st_ino
    except OSError:
        present = None
    if present != inode:
        raise ReplacedError(
            f"{path} is another file than the one that this was planned on: it was replaced meanwhile. "
            "Nothing was changed; look at it again and plan it anew."
        )


@dataclass(frozen=True, slots=True)
class _Done:
    applied: Applied
    removed: frozenset[str]
    tokens: int
    search: str | None


@dataclass(frozen=True, slots=True)
class _Checked:
    """A plan that fits the database, and what is wrong there before it."""

    verified: Verified
    findings: frozenset[str]
    leaving: int  #: tokens


def _check(writer: Writer, catalog: Catalog, plan: Plan) -> _Checked:
    """Compare every edit with what stands there now.

    Raises:
        StalePlanError: something moved.
    """
    verified = writer.answer(verify(plan.edits, catalog.tables))
    if verified.moved:
        raise StalePlanError(verified.moved)
    contexts = {owner: context.before for owner, context in verified.contexts.items()}
    findings = _findings(writer, catalog, verified.edits, contexts)
    return _Checked(verified, findings, tokens_of(writer, catalog, verified.edits, entering=False))


def _carry_out(
    writer: Writer, catalog: Catalog, plan: Plan, checked: _Checked, looked_up: LookedUp, step: Fault
) -> _Done:
    """Apply, check what it left, and bring the search tables in step; all within the transaction."""
    verified, before = checked.verified, checked.findings
    changes = writer.row_changes
    applied = apply(writer, verified.steps, verified.values, step)
    _check_count(writer.row_changes - changes, applied.row_changes)
    after = _findings(writer, catalog, applied.edits, _after(verified, applied))
    new = after - before - {resolved(key, applied.values) for key in plan.allows}
    if broken := frozenset(key for key in new if not was_read_twice(key, before)):
        if plan.whole:
            raise StalePlanError([Moved("what belongs to it", "all in the plan", "more: it has grown")])
        raise WouldBreakError(broken)
    tokens = tokens_of(writer, catalog, applied.edits, entering=True) - checked.leaving
    step("checked after")
    search = keep_in_step(writer, catalog, applied.edits, looked_up)
    step("indexed")
    return _Done(applied, before - after, tokens, search)


def _after(verified: Verified, applied: Applied) -> dict[Owner, Listing]:
    """The lists behind the change, with real ids."""
    found: dict[Owner, Listing] = {}
    for owner, context in verified.contexts.items():
        known = owner if isinstance(owner, int) else applied.values.get(owner.name)
        if isinstance(known, int):
            found[known] = context.after.filled(applied.values)
    return found


def _findings(
    writer: Writer, catalog: Catalog, edits: tuple[Edit, ...], contexts: Mapping[Owner, Listing]
) -> frozenset[str]:
    """What is wrong, now, with what some edits touch."""
    found = missing(writer, catalog, named_by(edits, catalog))
    found |= summary_findings(writer, catalog, touched_summaries(edits))
    found |= told_twice(writer, catalog, edits)
    for owner, listing in contexts.items():
        splices = [edit for edit in edits if isinstance(edit, Splice) and edit.conversation_id == owner]
        if isinstance(owner, int) and splices:
            found |= context_findings(Walks(writer, catalog), owner, listing, subjects_of(splices))
    return found


def _check_count(counted: int, expected: int) -> None:
    """Nothing else may have changed: a trigger, for example, would write what no plan shows."""
    if counted != expected:
        raise RefusedError(
            f"This change stands for {expected:,} rows, and the database changed {counted:,}: something in "
            "it (a trigger?) writes along. Nothing was changed."
        )


def _record(writer: Writer, plan: Plan, draft: _Draft, done: _Done) -> Operation:
    operation = Operation(
        id=draft.id,
        place=0,
        kind=plan.kind,
        title=plan.title,
        conversation_id=plan.conversation_id,
        batch=plan.batch,
        rows=row_counts(done.applied.edits),
        tokens=done.tokens,
        removed=done.removed,
        tool_version=__version__,
        created_at=Timestamp(iso_z(datetime.now(UTC))),
        undoes=plan.undoes,
        undone_by=None,
        export=draft.export,
    )
    resolution = pack_resolution(plan.edits, done.applied.edits, done.applied.values)
    return record(writer, Entry(operation, draft.packed, resolution))
