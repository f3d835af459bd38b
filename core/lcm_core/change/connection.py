"""The one connection that writes, and what is checked before it opens: processes, a WAL, names, the catalog.

It is opened for a commit and closed after it. Nothing cascades unseen (``foreign_keys`` is off, and we check
what refers to a row), nothing is created (``mode=rw``), and text that is not valid UTF-8 is written back as
the bytes that were read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import platformdirs

from lcm_core.base.errors import (
    CancelledError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseMissingError,
    DatabaseQueryError,
    RefusedError,
    nothing_at,
)
from lcm_core.base.files import PROGRAM, PartialFile, make_private, sync_folder
from lcm_core.base.text import clip, safe_line
from lcm_core.base.values import Record
from lcm_core.change.plan import BusyError, DiskFullError, ReadOnlyError
from lcm_core.store.listing import TABLE as ASSEMBLIES
from lcm_core.store.opening import (
    Access,
    FileState,
    Rows,
    SqlValue,
    WalState,
    Way,
    WayInChanged,
    check_sidecars,
    choose_way,
    connect_writing,
    diagnose,
    error_name,
    examine_wal,
    file_state,
    lacks_locks,
    no_locks,
    private_copy,
    real_path,
    remove_copy,
    sidecar,
    undisturbed,
)
from lcm_core.store.schema import BASE, JOURNAL, LISTING, Schema, listed_schema

# -- nothing else is written -----------------------------------------------------------------------------
# No trigger runs, and no table takes a row that is not named (docs/spec/changes.md, "Nothing else writes").
# The engine makes neither triggers nor views (docs/spec/format.md, "The file itself"), so any that a file
# has are another program's. They are found by name before anything is written; while a transaction is open,
# SQLite asks `Guard` about each table that a statement would write.

#: The tables of our own, as the first row makes them (docs/spec/format.md, "Tables of ours").
OWN_TABLES: Final = {
    JOURNAL: f"""CREATE TABLE IF NOT EXISTS {JOURNAL} (
    id TEXT PRIMARY KEY NOT NULL,
    batch TEXT,
    kind TEXT NOT NULL,
    conversation_id INTEGER,
    title TEXT NOT NULL,
    edits BLOB,
    resolution BLOB NOT NULL,
    export_path TEXT,
    export_sha256 TEXT,
    removed_findings TEXT NOT NULL,
    row_counts TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    tool_version TEXT NOT NULL,
    created_at TEXT NOT NULL,
    undoes TEXT,
    undone_by TEXT
)""",
    ASSEMBLIES: f"""CREATE TABLE IF NOT EXISTS {ASSEMBLIES} (
    id TEXT PRIMARY KEY NOT NULL,
    conversation_id INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    rules TEXT NOT NULL,
    zone TEXT,
    messages_hash TEXT NOT NULL,
    account TEXT NOT NULL,
    items BLOB NOT NULL
)""",
}
#: The tables behind a full-text table, as SQLite's FTS5 makes them, without blanks and quotes.
_SHADOWS: Final = {
    "data": r"\(idintegerprimarykey,blockblob\)",
    "idx": r"\(segid,term,pgno,primarykey\(segid,term\)\)withoutrowid",
    "content": r"\(idintegerprimarykey(,[cl]\d+)*\)",
    "docsize": r"\(idintegerprimarykey,szblob(,origininteger)?\)",
    "config": r"\(kprimarykey,v\)withoutrowid",
}
_FULL_TEXT: Final = re.compile(r"createvirtualtable\w+usingfts5\b")
_OTHER: Final = (
    "lcm-tui makes it with another definition, so another program changed it. Rename it: the next change "
    "makes a new one, but the changes that this one records can then no longer be undone"
)
_WIDTH: Final = 80


class Guard:
    """What one transaction may write: some tables, with what is behind those that are virtual."""

    def __init__(self, db: Rows, tables: Iterable[str]) -> None:
        """Look at the tables.

        Raises:
            RefusedError: one of them has a trigger, is a view, or is not as the engine or lcm-tui makes it.
        """
        self._tables = frozenset(name.lower() for name in tables)
        listed = db.tuples("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type <> 'index'")
        held = {str(name).lower(): (kind, str(sql)) for kind, name, _, sql in listed if kind != "trigger"}
        self._prefixes = tuple(
            f"{name}_"
            for name in self._tables
            if name not in held or held[name][1][:14].upper() == "CREATE VIRTUAL"
        )
        for kind, name, table, _ in listed:
            if kind == "trigger" and self._is_ours(str(table)):
                raise trigger_refusal(str(name), str(table))
        for name, (kind, sql) in sorted(held.items()):
            if self._is_ours(name):
                _check_shape(name, kind, sql, held)
        for name in sorted(self._tables & held.keys()):
            if f"{name}_" not in self._prefixes and db.tuples(
                "SELECT 1 FROM pragma_table_xinfo(?) WHERE lower(name) = 'rowid'", (name,)
            ):
                raise _odd_shape(name, "it has a column named rowid, which hides the numbers of its rows")
        self.denied: RefusedError | None = None  #: why SQLite was told not to compile a statement

    def _is_ours(self, table: str) -> bool:
        name = table.lower()
        return name in self._tables or name.startswith(self._prefixes)

    def judge(
        self, action: int, first: str | None, _second: str | None, _database: str | None, within: str | None
    ) -> int:
        """SQLite's question about one step of a statement (`sqlite3.Connection.set_authorizer`)."""
        if within is not None:  # our statements have neither views nor subqueries, by which it would be named
            self.denied = trigger_refusal(within, None)
        elif action in _WRITING and not (self._is_ours(first or "") or (first or "").startswith("sqlite_")):
            self.denied = _odd_shape(first or "", "a change would write it that is not about it")
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


_WRITING: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})


def check_whole(schema: Schema) -> None:
    """Refuse a change of a file without the tables by which summaries and contexts are checked.

    Raises:
        DatabaseError: one of them, or a column that every version has, is missing.
    """
    lacking = [
        table if not schema.has(table) else f"{table}.{column}"
        for table in _STRUCTURE
        for column in BASE[table]
        if not schema.has(table, column)
    ]
    if lacking:
        named = ", ".join(dict.fromkeys(lacking))
        raise DatabaseError(
            f"This database lacks a part of LCM's schema ({named}): it is damaged, or a migration did not "
            "finish. Nothing was changed; restore a backup (`lcm-tui restore`), or let the host start once "
            "and migrate it.",
            code="DATABASE_INCOMPLETE",
            details={"missing": named},
        )


_STRUCTURE: Final = ("summaries", "summary_messages", "summary_parents", "context_items")


#: A statement: the table that it writes, its text, and how many values it takes.
Statement = tuple[str, str, int]


def check_tables(db: Rows, tables: Collection[str], statements: Iterable[Statement] = ()) -> Guard:
    """Refuse a change of *tables* which something else would write along, or which SQLite cannot make here.

    What comes out lets nothing else be written, as long as nobody commits.

    SQLite compiles the *statements* without running them. A user's index, constraint or column may need a
    function or an order of texts that only another program has.

    Raises:
        RefusedError: as `Guard` does, or a statement cannot be compiled.
    """
    guard = Guard(db, tables)
    for table, sql, values in sorted(set(statements)):
        try:
            db.tuples(f"EXPLAIN {sql}", (None,) * values)
        except sqlite3.OperationalError as error:
            if not error_name(error).startswith("SQLITE_ERROR"):
                raise
            if not _IS_GONE.search(str(error)):
                raise _odd_shape(
                    table, f"an index, constraint or column of another program needs more ({error})"
                ) from error
    return guard


#: What SQLite says of a table or column that a plan knows and the file no longer has: the plan is stale.
_IS_GONE: Final = re.compile("no such table|no such column|has no column named")


def trigger_refusal(name: str, table: str | None) -> RefusedError:
    """Why nothing is written where a trigger would run; *table* is where it is, if that is known."""
    named = clip(safe_line(name), _WIDTH)
    where = "" if table is None else f" on table {clip(safe_line(table), _WIDTH)}"
    return RefusedError(
        f"Trigger {named}{where} would run with this change and may write what no preview shows; the engine "
        f"makes no triggers. Nothing was changed; if you trust it, drop it, make the change and create it "
        "again.",
        code="DATABASE_HAS_TRIGGER",
        details={"trigger": name, "table": table},
    )


def _odd_shape(table: str, why: str) -> RefusedError:
    return RefusedError(
        f"Table {clip(safe_line(table), _WIDTH)} cannot be written safely: {why}. Nothing was changed.",
        code="TABLE_UNKNOWN",
        details={"table": table},
    )


def _check_shape(name: str, kind: str, sql: str, held: dict[str, tuple[str, str]]) -> None:
    if kind != "table":
        raise _odd_shape(name, f"it is a {safe_line(kind)}, not a table")
    if name in OWN_TABLES:
        if _bare(sql) != _bare(OWN_TABLES[name]):
            raise _odd_shape(name, _OTHER)
        return
    table, _, shadow = name.rpartition("_")
    expected = _SHADOWS.get(shadow)
    if expected is None or not _FULL_TEXT.match(_bare(held.get(table, ("", ""))[1])):
        return
    if not re.fullmatch(f"createtable{re.escape(name)}{expected}", _bare(sql)):
        raise _odd_shape(name, f"it belongs to the search table {table}, and SQLite makes it otherwise")


def _bare(sql: str) -> str:
    """A definition without what means nothing: blanks, quotes of names, capitals."""
    return re.sub(r"[\s'\"\[\]`]", "", sql).lower().replace("ifnotexists", "", 1)


# -- copying page by page --------------------------------------------------------------------------------
# SQLite's online backup begins again whenever another process writes, unless the source connection holds one
# read transaction from the first page to the last; then the copy is the state at which that began. In a WAL
# file this keeps nobody from writing (the WAL grows meanwhile); in a file with a rollback journal, which no
# engine uses (docs/spec/format.md, "The file itself"), writers wait for the end of the copy.

#: Copied between two looks at whether to go on.
STEP_BYTES = 1024 * 1024
#: How long another process may keep us from reading a page, seconds.
BUSY_SECONDS = 10.0
#: How often the file is looked at until no write can hide in the clock tick of its time, and the pause.
_LOOKS, _LOOK_SECONDS = 50, 0.02
#: How often a file is opened that others write, bring or take away in that moment.
OPENINGS = 10
#: Instructions of SQLite between two looks at whether a check is still wanted.
_INSTRUCTIONS = 100_000
#: Findings of ``quick_check`` that are read at most.
_FINDINGS = 20
#: What ``quick_check`` says of contents and of search tables, which can be built anew: no page is bad.
_NOT_STRUCTURAL = re.compile(
    r"(?i).*(malformed inverted index|unable to validate the inverted index)|CHECK constraint failed in "
    r"|(NULL|TEXT|NUMERIC|non-\w+) value (missing )?(in|from) "
)
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class DisturbedError(Exception):
    """What was being copied changed under the copy, which is of no use; only seen inside this package."""


class CopyStep(StrEnum):
    """What is being done; the value is the phrase to show."""

    CHECK = "checking the backup"
    KEEP = "keeping a copy of what is there"
    COPY = "copying"
    RESTORE = "restoring"
    SETTLE = "writing it into the file"
    VERIFY = "checking the copy"


class CopyProgress(Record, frozen=True):
    """How far a step has come; reported at its beginning, every few pages, and at its end."""

    step: CopyStep
    done: int  #: bytes
    total: int  #: bytes; 0: not known, as for a check


Report = Callable[[CopyProgress], None]
Stop = Callable[[], bool]


def unheard(_: CopyProgress) -> None:
    """Reports to nobody."""


def never() -> bool:
    """Goes on to the end."""
    return False


class Facts(Record, frozen=True):
    """What the header of a database says and a copy must say too."""

    page_size: int
    pages: int
    encoding: int  #: 1 UTF-8, 2 and 3 UTF-16
    user_version: int
    application_id: int
    free_pages: int

    @property
    def bytes(self) -> int:
        """The size of the file that holds these pages."""
        return self.page_size * self.pages


class CopySource(Record, frozen=True):
    """A state of a database that stays as it is while it is copied."""

    path: Path
    connection: sqlite3.Connection  #: in a read transaction
    access: Access
    facts: Facts
    state: FileState | None  #: the file when the transaction began; None: nobody else can reach it

    def check_undisturbed(self) -> None:
        """Make sure that what was read so far belongs together.

        Without a lock (an immutable file) a checkpoint shows in the file itself. With a lock only a process
        that did not see it can disturb us: then the WAL that we read is another file or gone.

        Raises:
            DisturbedError: it does not.
        """
        if self.state is None:
            return
        before, now = self.state, file_state(self.path)
        if now is not None and self.access is Access.READ_ONLY and before.wal_inode:
            same = (now.inode, now.wal_inode) == (before.inode, before.wal_inode)
        else:
            same = now is not None and before.unchanged_until(now)
        if not same:
            raise DisturbedError


@contextmanager
def open_source(path: Path, stopped: Stop = never) -> Iterator[CopySource]:
    """Open *path* in the way that leaves no trace beside it, and hold one state of it.

    A WAL file without a WAL is read as immutable, one whose WAL cannot be read in place from a private copy.

    Raises:
        DatabaseError: it is missing, damaged, locked, encrypted, or there is no room for the private copy.
        CancelledError: *stopped* said so.
    """
    with ExitStack() as stack:
        yield _opened(stack, real_path(path), stopped)


def _opened(stack: ExitStack, path: Path, stopped: Stop) -> CopySource:
    for _ in range(OPENINGS):
        check_wanted(stopped)
        with suppress(DisturbedError):
            try:
                return stack.enter_context(_source(path, choose_way(path), stopped))
            except _UnreadableWalError as error:
                way = error.instead
            return stack.enter_context(_source(path, way, stopped))
        time.sleep(_LOOK_SECONDS)
    raise DatabaseBusyError(f"{path} was written each of {OPENINGS} times that it was opened. Try again.")


class _UnreadableWalError(Exception):
    """The WAL is there and cannot be read in place."""

    def __init__(self, instead: Way) -> None:
        self.instead = instead


@contextmanager
def _source(path: Path, way: Way, stopped: Stop) -> Iterator[CopySource]:
    if way.access is not Access.COPY:
        with _connected(way) as source:
            yield source
        return
    copy = private_copy(path, stopped)
    try:
        check_wanted(stopped)
        with _connected(Way(Access.COPY, copy)) as found:
            yield CopySource(path, found.connection, Access.COPY, found.facts, None)
    finally:
        remove_copy(copy)


@contextmanager
def _connected(way: Way) -> Iterator[CopySource]:
    """A file with a read transaction begun."""
    path, immutable = way.location, way.access is Access.IMMUTABLE
    state = _settled_state(path) if immutable else None
    try:
        connection, facts = _begun(way)
    except WayInChanged as error:
        raise DisturbedError from error
    except sqlite3.Error as error:
        found = file_state(path)
        if immutable and state and found and not state.unchanged_until(found):
            raise DisturbedError from error
        if (instead := way.instead(error, found)) is not None:
            raise _UnreadableWalError(instead) from error
        raise diagnose(error, path) from error
    with closing(connection):
        if way.access is Access.READ_ONLY:
            state = _settled_state(path)
        yield CopySource(path, connection, way.access, facts, state)


def _begun(way: Way) -> tuple[sqlite3.Connection, Facts]:
    connection = way.connect(BUSY_SECONDS)
    try:
        connection.execute("BEGIN")
        return connection, facts_of(connection)
    except BaseException:
        connection.close()
        raise


def _settled_state(path: Path) -> FileState | None:
    """The state of the file once no later write can leave an equal one."""
    state = file_state(path)
    for _ in range(_LOOKS):
        if state is None or state.wal_size or not state.may_hide_a_write:
            break
        time.sleep(_LOOK_SECONDS)
        state = file_state(path)
    return state


def facts_of(connection: sqlite3.Connection) -> Facts:
    """What a connection says of its database; begins the read when a transaction is open.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    encodings = {"UTF-8": 1, "UTF-16le": 2, "UTF-16be": 3}
    return Facts(
        int(_pragma(connection, "page_size")),
        int(_pragma(connection, "page_count")),
        encodings[str(_pragma(connection, "encoding"))],
        int(_pragma(connection, "user_version")),
        int(_pragma(connection, "application_id")),
        int(_pragma(connection, "freelist_count")),
    )


def facts_in(header: bytes) -> Facts:
    """What the first 100 bytes of a file say."""

    def number(at: int) -> int:
        return int.from_bytes(header[at : at + 4], "big")

    size = int.from_bytes(header[16:18], "big")
    signed = (
        int.from_bytes(header[60:64], "big", signed=True),
        int.from_bytes(header[68:72], "big", signed=True),
    )
    return Facts(65536 if size == 1 else size, number(28), number(56), *signed, number(36))


def copy_pages(
    source: CopySource,
    target: sqlite3.Connection,
    step: CopyStep,
    report: Report = unheard,
    stopped: Stop = never,
) -> None:
    """Copy every page; all of them become visible in *target* in one transaction, or none does.

    Once that transaction is committed, *stopped* is not asked any more.

    Raises:
        CancelledError: *stopped* said so.
        DisturbedError: what was read so far does not belong together.
        DatabaseBusyError: another process kept a lock for too long.
        sqlite3.Error: pages cannot be read or written.
    """
    waiting_since: float | None = None

    def after_each(status: int, remaining: int, total: int) -> None:
        nonlocal waiting_since
        if status != sqlite3.SQLITE_DONE:
            check_wanted(stopped)
        if status not in _BUSY_CODES:
            waiting_since = None
        elif waiting_since is None:
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since > BUSY_SECONDS:
            raise DatabaseBusyError(
                "Another process has locked the database in the middle of the copy. Nothing was changed; "
                "wait until it has finished, or stop it, and try again."
            )
        source.check_undisturbed()
        report(CopyProgress(step, (total - remaining) * page_size, total * page_size))

    page_size = source.facts.page_size
    report(CopyProgress(step, 0, source.facts.bytes))
    source.connection.backup(target, pages=max(1, STEP_BYTES // page_size), progress=after_each, sleep=0.05)


def quick_check(connection: sqlite3.Connection, stopped: Stop = never) -> tuple[str, ...]:
    """What is wrong with the pages of a database, a line each; nothing when it is whole.

    What ``quick_check`` says of contents and of search tables is left out: that is for the doctor to say.

    Raises:
        CancelledError: *stopped* said so.
        DatabaseError: the check could not run.
    """
    connection.set_progress_handler(lambda: int(stopped()), _INSTRUCTIONS)
    try:
        rows = connection.execute(f"PRAGMA quick_check({_FINDINGS})").fetchall()
    except sqlite3.Error as error:
        check_wanted(stopped)
        if error_name(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return (str(error),)
        raise DatabaseQueryError(f"The check of the database could not run: {error}. Try again.") from error
    finally:
        connection.set_progress_handler(None, 0)
    lines = [line for row in rows for line in str(row[0]).splitlines()]
    return tuple(line for line in lines if line != "ok" and not _NOT_STRUCTURAL.match(line))


def check_wanted(stopped: Stop) -> None:
    """Leave when nobody wants the result any more.

    Raises:
        CancelledError: *stopped* said so.
    """
    if stopped():
        raise CancelledError("Cancelled; nothing was changed.")


def has_sidecars(path: Path) -> tuple[Path, ...]:
    """What lies beside *path* that SQLite would take for a part of a database there.

    Nothing, in a folder that this user may not look into: whoever opens *path* then says so.
    """
    found = (sidecar(path, suffix) for suffix in ("-wal", "-journal"))
    return tuple(file for file in found if os.path.exists(file) and file.stat().st_size)


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    [[value]] = connection.execute(f"PRAGMA {name}").fetchall()
    found: int | str = value
    return found


# -- processes with the file open ------------------------------------------------------------------------
# What Linux says in ``/proc``, and nothing on other systems.

_PROC = Path("/proc")
#: Of many processes this many are named in a sentence.
_NAMED = 3


class Holder(Record, frozen=True):
    """A process that has the database open."""

    pid: int
    name: str  #: of the program, which chose it itself: foreign text; empty when it cannot be read

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name or 'a program'} (process {self.pid})"


def processes_with_open(path: Path, proc: Path = _PROC) -> tuple[Holder, ...]:
    """The processes besides this one that have *path* or its WAL open, by number.

    Descriptors of other users' processes can be read by root alone; locks, which everybody may see, are
    looked at too. What runs outside this machine or container is not seen.
    """
    files: set[tuple[int, int]] = set()
    for file in (real_path(path), sidecar(real_path(path), "-wal"), sidecar(real_path(path), "-shm")):
        with contextlib.suppress(OSError):
            found = file.stat()
            files.add((found.st_dev, found.st_ino))
    pids = {*_by_descriptor(proc, files), *_by_lock(proc, files)} - {os.getpid()}
    return tuple(Holder(pid, _name(proc, pid)) for pid in sorted(pids))


def open_under_other_names(path: Path, proc: Path = _PROC) -> tuple[Holder, ...]:
    """The processes besides this one that have the file at *path* open by another of its names."""
    location = real_path(path)
    with contextlib.suppress(OSError):
        found = location.stat()
        files = {(found.st_dev, found.st_ino)}
        names = {str(location)}
        return tuple(
            Holder(int(process), _name(proc, int(process)))
            for process in _entries(proc)
            if process.isdigit()
            and int(process) != os.getpid()
            and any(
                _is_one(link, files) and os.readlink(link) not in names
                for link in ((proc / process / "fd" / number) for number in _entries(proc / process / "fd"))
            )
        )
    return ()


def process_names(found: Iterable[Holder]) -> str:
    """Some holders as part of a sentence."""
    texts = [holder.text for holder in found]
    more = len(texts) - _NAMED
    if more > 0:
        texts = [*texts[:_NAMED], f"{more} more"]
    return " and ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _by_descriptor(proc: Path, files: set[tuple[int, int]]) -> Iterator[int]:
    for process in _entries(proc):
        if process.isdigit() and any(
            _is_one(proc / process / "fd" / number, files) for number in _entries(proc / process / "fd")
        ):
            yield int(process)


def _is_one(link: Path, files: set[tuple[int, int]]) -> bool:
    try:
        if not os.readlink(link).startswith("/"):  # sockets and pipes
            return False
        found = link.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) in files


def _by_lock(proc: Path, files: set[tuple[int, int]]) -> Iterator[int]:
    """Lines such as ``1: POSIX  ADVISORY  READ 24708 fe:00:2146401 1073741826 1073742335``."""
    try:
        lines = (proc / "locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = [field for field in line.split() if field != "->"]
        with contextlib.suppress(IndexError, ValueError):
            major, minor, inode = fields[5].split(":")
            device = os.makedev(int(major, 16), int(minor, 16))
            if (device, int(inode)) in files and int(fields[4]) > 0:
                yield int(fields[4])


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _name(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


# -- what is beside the file -----------------------------------------------------------------------------
# A WAL that SQLite ignores, and other names of the file, keep it from being changed.
#
# Both are checked before SQLite opens the file for writing: the connection that closes it last deletes the
# WAL (docs/spec/decisions.md, "A WAL that SQLite ignores").

OPTION: Final = "--allow-unread-wal"
#: Entries of a folder that are looked at for other names of a file.
_MOST_NAMES: Final = 10_000
_CHUNK: Final = 8 * 1024 * 1024
#: WALs that were examined, by file and header: a WAL that SQLite goes on with stays sound.
_sound: set[tuple[int, int, bytes]] = set()
#: Those of which a copy was kept: by database, the WAL, open, and the bytes that SQLite ignored. While it is
#: open, no later WAL has its inode; nobody locks a WAL, so that closing it drops no lock.
_agreed: dict[Path, tuple[int, int]] = {}


def check_beside(path: Path) -> None:
    """Refuse to change a file whose WAL holds what SQLite ignores, or that is in use by another name; blocks.

    Raises:
        RefusedError: it is so, and the operator has not agreed to lose the WAL (`keep_wal`).
        DatabaseError: the WAL cannot be read, or a WAL or journal is no file.
    """
    location = real_path(path)
    check_sidecars(location)
    _check_names(path, location)
    found = unread_wal(location)
    if found is not None and found.lost:
        raise RefusedError(
            f"{found.path} contains {found.lost_bytes:,} bytes that SQLite ignores, because {found.problem}. "
            "A change would delete it with the commits in it, so nothing was changed. Copy the file with its "
            f"-wal again, or give {OPTION}: a private copy of the WAL is kept first.",
            code="WAL_UNREAD",
            details={"path": str(found.path), "bytes": found.lost_bytes},
        )


# -- a WAL that SQLite ignores -----------------------------------------------------------------------------


def unread_wal(path: Path) -> WalState | None:
    """The WAL beside *path* when SQLite ignores a part of it, and no copy of it was kept; blocks.

    Raises:
        DatabaseError: it cannot be read.
    """
    path = real_path(path)
    state = file_state(path)
    agreed_bytes = _agreed_bytes(path, 0 if state is None else state.wal_inode)
    if state is None or not state.wal_size:
        return None
    wal = sidecar(path, "-wal")
    try:
        key = _key(wal)
        if key in _sound:
            return None
        found = examine_wal(path)
    except OSError as error:
        raise DatabaseError(
            f"{wal} cannot be read ({error.strerror}). Nothing was changed; check its permissions."
        ) from error
    if found is None or found.is_sound:
        if found is not None and not found.is_in_use:
            _sound.add(key)
        return None
    return None if found.lost_bytes <= agreed_bytes else found


def _agreed_bytes(path: Path, inode: int) -> int:
    """How many bytes of a WAL may be lost, -1: none was copied; forgotten once what was copied is gone."""
    if path not in _agreed:
        return -1
    copied, lost_bytes = _agreed[path]
    if os.fstat(copied).st_ino == inode:
        return lost_bytes
    os.close(copied)
    del _agreed[path]
    return -1


def keep_wal(path: Path) -> Path | None:
    """Copy the WAL beside *path* to a private file, and let this process change the file; the copy's path.

    None: there is nothing in it that SQLite ignores. The same WAL is copied once.

    Raises:
        RefusedError: it cannot be copied.
    """
    location = real_path(path)
    found = unread_wal(location)
    if found is None:
        return None
    state, wal = file_state(location), sidecar(location, "-wal")
    try:
        folder = make_private(wals_folder())
        kept = _copied(wal, folder)
        copied = os.open(wal, os.O_RDONLY)
    except OSError as error:
        raise RefusedError(
            f"{wal} cannot be copied to {wals_folder()} ({error.strerror}). Nothing was changed; "
            "free space there, or copy it yourself and move it away."
        ) from error
    if state is None or state != file_state(location):
        os.close(copied)
        raise RefusedError(f"{wal} was written while it was copied. Nothing was changed; try again.")
    _agreed[location] = copied, found.lost_bytes
    return kept


def wals_folder() -> Path:
    """Where copies of WALs are kept."""
    return Path(platformdirs.user_state_dir(PROGRAM, appauthor=False)) / "wals"


def _key(wal: Path) -> tuple[int, int, bytes]:
    with wal.open("rb") as file:
        found = os.fstat(file.fileno())
        return found.st_dev, found.st_ino, file.read(32)


def _copied(wal: Path, folder: Path) -> Path:
    """A copy whose name has the time and the start of its hash."""
    partial = PartialFile.create(folder, wal.name)
    try:
        digest = hashlib.sha256()
        with wal.open("rb") as source, partial.path.open("wb") as target:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        mark = digest.hexdigest()[:16]
        for there in folder.glob(f"*.{mark}"):
            return there
        kept = folder / f"{wal.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{mark}"
        partial.path.rename(kept)
        sync_folder(folder)
        return kept
    finally:
        partial.close()


# -- other names of the file -------------------------------------------------------------------------------


def _check_names(path: Path, location: Path) -> None:
    """Refuse a hard link of a file that is, or may be, in use by another name: SQLite's WAL has the name's.

    Raises:
        RefusedError: it is so.
    """
    with suppress(OSError, ValueError):
        found = location.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2:
            return
        others = _other_names(location, found)
        used = next((one for one in others if _has_sidecar(one)), None)
        elsewhere = open_under_other_names(location)
        why = f"{used}-wal or -journal is there" if used else ""
        if elsewhere:
            why = f"{process_names(elsewhere)} has it open by another name"
        elif not used and not _has_sidecar(location):
            if processes_with_open(location):
                why = f"{process_names(processes_with_open(location))} has it open, perhaps by another name"
            elif len(others) + 1 < found.st_nlink:
                why = "not all of them are in its folder, and a WAL may be beside another"
        if why:
            raise RefusedError(
                f"{path} is one of {found.st_nlink} names (hard links) of the same file, and {why}: SQLite "
                "would not see what is in that WAL, and would damage the file. Nothing was changed; give "
                "the name that the host uses, or make a copy and change that.",
                code="FILE_HAS_OTHER_NAMES",
            )


def _other_names(path: Path, found: os.stat_result) -> list[Path]:
    """Those in the same folder."""
    others = []
    with os.scandir(path.parent) as entries:
        for _, entry in zip(range(_MOST_NAMES), entries, strict=False):
            if entry.name != path.name and entry.inode() == found.st_ino:
                others.append(Path(entry.path))
    return others


def _has_sidecar(path: Path) -> bool:
    return any(sidecar(path, suffix).exists() for suffix in ("-wal", "-journal"))


#: Parameters of one statement at most; SQLite allows 32,766 since 3.32.
CHUNK = 30_000
#: Bytes of the first piece of the file that processes share beside a write-ahead log.
SHARED_MEMORY = 32_768
#: From so many bytes on a write-ahead log is moved into its file: SQLite's own default, 1,000 pages.
LONG_LOG_BYTES = 1_000 * 4_096
#: Room to rewrite a file, as a multiple of its size: the copy, and what goes through the WAL.
REWRITE_ROOM: Final = 2.2
#: How long SQLite waits for a lock at a time, where somebody may want to stop: it hears nothing meanwhile.
_STEP_SECONDS = 0.1
#: Steps of SQLite's machine after which a long statement looks whether to stop: less than a millisecond.
_STEPS_A_LOOK = 1_000


class Writer(Rows):
    """A read-write connection in one thread, for the length of a commit."""

    def __init__(self, connection: sqlite3.Connection, wait: float, stopped: Stop | None = None) -> None:
        self._connection = connection
        self._wait = wait
        self._stopped = stopped
        self._guard: Guard | None = None
        self._waits_whole = stopped is None  #: a lock is waited for in one go, and nothing stops that
        self.chunk = min(CHUNK, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER))

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; SQLite itself ends it when the disk is full, for example."""
        return self._connection.in_transaction

    @property
    def data_version(self) -> int:
        """A number that changes when somebody else commits anything; within a transaction, as it sees it."""
        return int(self.value("PRAGMA data_version"))

    @property
    def row_changes(self) -> int:
        """Rows inserted, updated or deleted so far, by triggers too."""
        return self._connection.total_changes

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        """Run one statement.

        Raises:
            CancelledError: it waited for a lock, outside `begin` and `commit`, and was to stop.
        """
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return self._connection.execute(sql, parameters)
            except sqlite3.DatabaseError as error:
                self._check_allowed(error)
                if self._waits_whole or not _waits(error) or time.monotonic() >= deadline:
                    raise
                self._check_wanted()

    def execute_many(self, sql: str, parameters: Iterable[Sequence[SqlValue]]) -> int:
        """Run one statement for many rows, whose text has to be valid UTF-8; how many rows it changed."""
        try:
            return self._connection.executemany(sql, parameters).rowcount
        except sqlite3.DatabaseError as error:
            self._check_allowed(error)
            raise

    def value(self, sql: str, parameters: Sequence[SqlValue] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.execute(sql, parameters).fetchone()
        return None if found is None else found[0]

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the file; no lock is taken that a writer would wait for."""
        self.execute("BEGIN")
        yield
        self.execute("ROLLBACK")

    def rewrite_file(self, path: Path) -> None:
        """``VACUUM``, which takes long; the file is as before when it was to stop while it was being copied.

        SQLite hears nothing while it puts the copy back, which is the greater part of the time.

        Raises:
            RefusedError: there is no room for it.
            CancelledError: it was to stop.
        """
        size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
        if free < size * REWRITE_ROOM:
            raise RefusedError(f"that needs {int(size * REWRITE_ROOM):,} bytes, and {free:,} are free")
        stopped = self._stopped
        if stopped is None:
            self.execute("VACUUM")
            return
        self._connection.set_progress_handler(lambda: stopped(), _STEPS_A_LOOK)
        try:
            self.execute("VACUUM")
        except sqlite3.OperationalError as error:
            if error_name(error) == "SQLITE_INTERRUPT":
                check_wanted(stopped)
            raise
        finally:
            self._connection.set_progress_handler(None, 0)

    def begin(self) -> None:
        """Take the write lock, waiting for it as long as `open_writer` says; nothing stops what follows.

        Raises:
            CancelledError: it was to stop by then.
        """
        self.execute("BEGIN IMMEDIATE")
        self._check_wanted()
        self._wait_whole(True)

    def write_only(self, allowed: Iterable[str] | Guard) -> None:
        """Let nothing but some tables be written until the transaction ends, and no trigger run.

        A guard that was made before the lock was taken will do if nobody committed since.

        Raises:
            RefusedError: one of the tables has a trigger, or is not as the engine or lcm-tui makes it. From
                here on every statement that would write something else raises it, too.
        """
        self._guard = allowed if isinstance(allowed, Guard) else Guard(self, allowed)
        self._connection.set_authorizer(self._guard.judge)

    def _check_allowed(self, error: sqlite3.Error) -> None:
        if self._guard is not None and self._guard.denied is not None:
            raise self._guard.denied from error

    def _write_anything(self) -> None:
        if self._guard is not None:
            self._guard = None
            self._connection.set_authorizer(None)

    def hold_pages(self, size: int) -> None:
        """Keep up to *size* bytes of pages in memory: what does not fit is written more than once."""
        self.execute(f"PRAGMA cache_size = -{size // 1024}")

    def checkpoint_later(self) -> None:
        """Leave it to `checkpoint` to move what is committed from a write-ahead log into the file."""
        self.execute("PRAGMA wal_autocheckpoint = 0")

    def checkpoint(self, path: Path) -> None:
        """Move a long write-ahead log into the file as far as that holds nobody up, as SQLite would."""
        with contextlib.suppress(OSError, sqlite3.Error):  # whoever writes next does it
            if os.stat(f"{os.path.realpath(path)}-wal").st_size >= LONG_LOG_BYTES:
                self.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def take_back(self) -> None:
        """Take rows as they were, whatever the file's CHECK constraints say: it held them before."""
        self.execute("PRAGMA ignore_check_constraints = ON")

    def overwrite_deleted(self) -> None:
        """Have what this connection deletes overwritten with zeros in the file."""
        self.execute("PRAGMA secure_delete = ON")

    def commit(self) -> None:
        """Make everything last."""
        self.execute("COMMIT")
        self._write_anything()
        self._wait_whole(False)

    def rollback(self) -> None:
        """Undo everything since `begin`."""
        self._write_anything()
        if self.in_transaction:
            self.execute("ROLLBACK")
        self._wait_whole(False)

    def _check_wanted(self) -> None:
        if self._stopped is not None:
            check_wanted(self._stopped)

    def _wait_whole(self, whole: bool) -> None:
        """Have SQLite wait for locks in one go; or a little at a time, where somebody may want to stop."""
        if self._stopped is not None:
            self._waits_whole = whole
            seconds = self._wait if whole else min(self._wait, _STEP_SECONDS)
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


@contextlib.contextmanager
def open_writer(path: Path, wait: float, stopped: Stop | None = None) -> Iterator[Writer]:
    """Open *path* for writing; errors of SQLite become ours, an open transaction is rolled back.

    Meanwhile nobody else in this process closes a descriptor of the file (`undisturbed`).

    *stopped* says whether to stop: looked at while a lock is waited for, but not from `Writer.begin`, once
    that has it, to the end of the transaction.

    Raises:
        DatabaseMissingError: there is no such file.
        DatabaseBusyError: this process changes it already.
        BusyError: another process kept the lock for *wait* seconds.
        RefusedError: its WAL holds what SQLite ignores, or the file is in use by another name.
        ReadOnlyError: the file or its folder cannot be written.
        DiskFullError: there is no room.
        DatabaseError: any other complaint of SQLite.
    """
    with undisturbed(path, wait):
        _check_there(path)
        check_beside(path)
        begun = time.monotonic()
        try:
            connection = connect_writing(
                real_path(path), wait if stopped is None else min(wait, _STEP_SECONDS)
            )
            with contextlib.closing(connection):
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA foreign_keys = OFF")
                connection.execute("PRAGMA trusted_schema = OFF")
                writer = Writer(connection, wait, stopped)
                try:
                    _load_schema(writer)
                    yield writer
                finally:
                    _roll_back(writer)
        except sqlite3.Error as error:
            raise explained(error, path, time.monotonic() - begun) from error


@contextlib.contextmanager
def creating(path: Path) -> Iterator[Writer]:
    """Make a database, private to its user, in WAL mode; blocks. What goes wrong leaves no file.

    Raises:
        RefusedError: something lies there already.
        ReadOnlyError: its folder is missing or cannot be written.
        DatabaseError: SQLite refused.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    except FileExistsError as error:
        raise RefusedError(f"{path} already exists and is not replaced.") from error
    except OSError as error:
        raise ReadOnlyError(
            f"{path} cannot be created ({error.strerror or error}): check that its folder is there and that "
            "you may write to it."
        ) from error
    try:
        with open_writer(path, 5.0) as writer:
            writer.execute("PRAGMA journal_mode = WAL")
            writer.begin()
            yield writer
            writer.commit()
    except BaseException as error:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{path}{ending}")
        if isinstance(error, sqlite3.Error):
            raise explained(error, path, 0.0) from error
        raise


def _load_schema(writer: Writer) -> None:
    """Have SQLite read the schema.

    Where it trusts none, SQLite up to 3.40 calls a file malformed that has an index over one of its own JSON
    functions: they are harmless, and not marked so. Functions of other programs it does not have at all.
    """
    try:
        writer.value("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.DatabaseError as error:
        if "unsafe use of" not in str(error):
            raise
        writer.execute("PRAGMA trusted_schema = ON")


def _check_there(path: Path) -> None:
    try:
        os.stat(path)
    except FileNotFoundError as error:
        raise DatabaseMissingError(
            nothing_at("database", path, "It was there before; nothing was created."),
            details={"path": str(path)},
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ReadOnlyError(
            f"{path} cannot be reached ({reason}). Check the path and its permissions."
        ) from error
    if not os.access(path, os.W_OK):
        # SQLite would open it for reading, and leave a -wal that the host, as another user, cannot write.
        raise _read_only(path, "no permission")


def check_writable(path: Path) -> None:
    """Whether *path* can be written, as far as looking tells: asked before what costs something; blocks.

    Raises:
        DatabaseMissingError: there is no such file.
        ReadOnlyError: the file or its folder cannot be written.
        RefusedError: its WAL holds what SQLite ignores, or the file is in use by another name.
    """
    _check_there(path)
    check_beside(path)
    if not (os.access(path.parent, os.W_OK | os.X_OK) or os.path.exists(f"{path}-wal")):
        raise _read_only(path, "no permission for its folder")


def _read_only(path: Path, why: str) -> ReadOnlyError:
    return ReadOnlyError(
        f"{path} cannot be written ({why}): it or its folder is read-only for this user. Nothing was "
        "changed; run lcm-tui as the user who owns it, or change the permissions."
    )


def explained(error: sqlite3.Error, path: Path, waited: float) -> DatabaseError:
    """SQLite's complaint during a change, as a sentence for people."""
    name, text = error_name(error), str(error)
    if lacks_locks(error, real_path(path)):
        return no_locks(path)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return BusyError(path, waited)
    if name.startswith("SQLITE_FULL") or (name.startswith("SQLITE_IOERR") and _is_full(path)):
        return DiskFullError(
            f"The disk of {path} is full ({text}). Nothing was changed; free space and try again."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return _read_only(path, text)
    if name.startswith("SQLITE_IOERR"):
        return DatabaseError(
            f"{path} could not be written ({text}). Nothing was changed; check the disk, then try again.",
            code="DATABASE_WRITE_FAILED",
        )
    return diagnose(error, path)


def _is_full(path: Path) -> bool:
    """Whether the disk has no room left: SQLite calls it an I/O error when its shared memory cannot grow."""
    try:
        return shutil.disk_usage(path.parent).free < SHARED_MEMORY
    except OSError:
        return False


def _waits(error: sqlite3.Error) -> bool:
    """Whether a statement failed for a lock alone, so that it can be tried again."""
    return error_name(error) in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY")


def _roll_back(writer: Writer) -> None:
    with contextlib.suppress(sqlite3.Error):
        writer.rollback()


Fault = Callable[[str], None]


def quiet(_: str) -> None:
    """A fault hook that does nothing."""


# -- the catalog -----------------------------------------------------------------------------------------
# What the file's schema holds, as a commit needs it: tables, their columns, and what refers to what.

#: References that the engine keeps without declaring them (docs/spec/format.md, "Tables").
UNDECLARED = (("focus_brief_sources", "summary_id", "summaries", "summary_id"),)


class Reference(Record, frozen=True):
    """A column whose values name rows of another table."""

    table: str
    column: str
    target: str
    target_column: str


class Catalog(Record, frozen=True):
    """The schema of one file."""

    schema: Schema
    references: tuple[Reference, ...]

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """Columns by table; search tables and their shadows have none."""
        return self.schema.tables

    def to(self, table: str) -> tuple[Reference, ...]:
        """What refers to a table."""
        return tuple(one for one in self.references if one.target == table)

    def of(self, table: str) -> tuple[Reference, ...]:
        """What a table refers to."""
        return tuple(one for one in self.references if one.table == table)


_REFERRING = """SELECT t.name, f."from", f."table", f."to" FROM sqlite_master AS t
    CROSS JOIN pragma_foreign_key_list(t.name) AS f
    WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"""


def read_catalog(writer: Writer) -> Catalog:
    """Read the schema."""
    schema = listed_schema(writer.tuples(LISTING))
    declared = (
        Reference(table, column, target, target_column or column)
        for table, column, target, target_column in writer.tuples(_REFERRING)
    )
    held = (
        one
        for one in (*declared, *(Reference(*one) for one in UNDECLARED))
        if schema.has(one.table, one.column) and schema.has(one.target, one.target_column)
    )
    return Catalog(schema, tuple(held))
