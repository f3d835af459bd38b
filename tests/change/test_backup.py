"""Backups: one state of a database that others write to, whole or not there at all, and no trace."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from lcm_core.api import DatabaseBusyError, DatabaseError, DatabaseMissingError, RefusedError
from lcm_core.base.errors import CancelledError, FileMissingError
from lcm_core.change import backup, copying
from lcm_core.change.backup import (
    KnownBackup,
    default_target,
    estimate_backup,
    known_backups,
    make_backup,
    offers_backup,
)
from lcm_core.change.copying import CopyProgress, CopyStep
from lcm_core.change.plan import DiskFullError, ReadOnlyError
from lcm_core.store.opening import Access

from tests.change.support import beside, dump
from tests.conftest import DatabaseFactory
from tests.databases import connect, run, value
from tests.support import VERSIONS

#: Writes once for every line it is sent: all titles change, and a message is appended.
HOST = """
import sqlite3, sys
host = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
host.execute("PRAGMA journal_mode = " + sys.argv[2])
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    try:
        host.execute("BEGIN IMMEDIATE")
        host.execute("UPDATE conversations SET title = ?", (f"state {number}",))
        host.execute("INSERT INTO messages (conversation_id, seq, role, content, token_count) "
                     "VALUES (1, ?, 'user', ?, 9)", (10_000 + number, "x" * 50_000))
        host.execute("COMMIT")
        if line.strip() == "checkpoint":
            host.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        print("ok", flush=True)
    except sqlite3.Error as error:
        host.rollback()
        print(error, flush=True)
"""


class Host:
    """A second process that has the database open and writes when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.answers: list[str] = []

    def write(self, how: str = "") -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(how, file=self.process.stdin, flush=True)
        self.answers.append(self.process.stdout.readline().strip())


@contextmanager
def host_of(path: Path, mode: str = "WAL") -> Iterator[Host]:
    arguments = [sys.executable, "-c", HOST, str(path), mode]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Host(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)


def titles(path: Path) -> set[str]:
    with connect(path) as connection:
        return {str(title) for (title,) in connection.execute("SELECT title FROM conversations")}


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 16 pages, so that much can happen in the middle of a small file."""
    monkeypatch.setattr(copying, "STEP_BYTES", 65_536)


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_copy_has_the_same_rows_and_leaves_no_trace(version: str, database_copy: DatabaseFactory):
    path = database_copy(version)
    content = path.read_bytes()
    target = default_target(path)
    estimate = estimate_backup(path, target)
    assert beside(path) == {"lcm.db"}
    made = make_backup(path, target, check=True)
    assert beside(path) == {"lcm.db", target.name}
    assert path.read_bytes() == content
    assert (made.bytes, made.checked, made.problems) == (len(content), True, ())
    assert made.bytes == estimate.bytes == target.stat().st_size == made.pages * 4096
    keeps_a_wal = content[18] == 2  # the 1.x file came in rollback mode
    assert made.access is (Access.IMMUTABLE if keeps_a_wal else Access.READ_ONLY)
    assert estimate.fits
    assert estimate.seconds > 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert dump(target) == dump(path)


def test_a_copy_is_told_from_beginning_to_end(small_steps: None, database_copy: DatabaseFactory):
    path, told = database_copy("0.15.3"), list[CopyProgress]()
    made = make_backup(path, default_target(path), told.append, check=True)
    copied = [now.done for now in told if now.step is CopyStep.COPY]
    assert copied == sorted(set(copied))
    assert (copied[0], copied[-1], len(copied) > 50) == (0, made.bytes, True)
    assert {now.total for now in told if now.step is CopyStep.COPY} == {made.bytes}
    assert told[-1].step is CopyStep.VERIFY


@pytest.mark.long
def test_a_host_that_writes_never_waits_nor_begins_the_copy_again(
    small_steps: None, database_copy: DatabaseFactory
):
    path = database_copy("0.15.3")
    with host_of(path) as host:
        host.write()
        names, steps = beside(path), 0

        def write(_: CopyProgress) -> None:
            nonlocal steps
            steps += 1
            host.write("checkpoint" if steps % 10 == 0 else "")

        target = default_target(path)
        made = make_backup(path, target, write)
        assert made.access is Access.READ_ONLY
        assert set(host.answers) == {"ok"}
        assert len(host.answers) == steps + 1
        assert steps == -(-made.bytes // 65_536) + 1
        assert beside(path) == names | {target.name}
    assert titles(target) == {"state 0"}
    assert titles(path) == {f"state {steps}"}
    rows = dump(target)["messages"]
    assert len(rows) == 866
    assert value(target, "PRAGMA quick_check") == "ok"


@pytest.mark.long
def test_a_host_that_begins_to_write_into_a_file_at_rest_is_noticed(
    small_steps: None, database_copy: DatabaseFactory
):
    path = database_copy("0.15.3")
    with ExitStack() as later:
        begun, hosts = 0, list[Host]()

        def write(now: CopyProgress) -> None:
            nonlocal begun
            begun += now.done == 0
            if now.done and not hosts:
                hosts.append(later.enter_context(host_of(path)))
                hosts[0].write("checkpoint")  # straight into the file that is read without a lock

        made = make_backup(path, default_target(path), write)
        assert begun == 2
    assert titles(made.path) == {"state 0"}
    assert dump(made.path) == dump(path)


def test_a_wal_that_appears_while_the_file_stays_is_no_reason_to_begin_again(
    small_steps: None, database_copy: DatabaseFactory
):
    path = database_copy("0.15.3")
    before = dump(path)
    with ExitStack() as later:
        begun, hosts = 0, list[Host]()

        def write(now: CopyProgress) -> None:
            nonlocal begun
            begun += now.done == 0
            if not hosts:
                hosts.append(later.enter_context(host_of(path)))
            if len(hosts[0].answers) < 3:  # too little for a checkpoint of its own accord
                hosts[0].write()

        made = make_backup(path, default_target(path), write)
    assert (begun, made.access, set(hosts[0].answers)) == (1, Access.IMMUTABLE, {"ok"})
    assert dump(made.path) == before


def test_a_file_that_never_rests_is_given_up(small_steps: None, database_copy: DatabaseFactory):
    path = database_copy("0.15.3")

    def replace(_: CopyProgress) -> None:
        other = path.with_name("other")
        shutil.copyfile(path, other)
        os.replace(other, path)

    with pytest.raises(DatabaseBusyError, match="again and again"):
        make_backup(path, default_target(path), replace)
    assert beside(path) == {"lcm.db"}


def test_a_file_with_a_rollback_journal_is_locked_while_it_is_copied(
    small_steps: None, database_copy: DatabaseFactory
):
    path = database_copy("0.15.3")
    with host_of(path, "DELETE") as host:
        host.write()
        made = make_backup(path, default_target(path), lambda now: host.write() if now.done else None)
        host.write()
    assert (host.answers[0], host.answers[-1]) == ("ok", "ok")
    assert set(host.answers[1:-1]) == {"database is locked"}
    assert titles(made.path) == {"state 0"}
    assert beside(path) == {"lcm.db", made.path.name}


def test_a_wal_without_its_index_is_read_from_a_private_copy(
    database_copy: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, private = database_copy("0.15.3"), tmp_path / "private"
    private.mkdir()
    with host_of(path) as host:
        host.write()
        moved = tmp_path / "moved" / "lcm.db"
        moved.parent.mkdir()
        for name in ("lcm.db", "lcm.db-wal"):
            shutil.copyfile(path.with_name(name), moved.with_name(name))
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    estimate = estimate_backup(moved, default_target(moved))
    made = make_backup(moved, default_target(moved))
    assert made.access is Access.COPY
    assert estimate.bytes >= made.bytes
    assert beside(moved) == {"lcm.db", "lcm.db-wal", made.path.name}
    assert list(private.iterdir()) == []
    assert titles(made.path) == {"state 0"}


def test_what_is_damaged_is_copied_as_it_is_and_said(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with path.open("r+b") as file:
        file.seek(4096 * 400)
        file.write(b"\xa5" * 4096)
    made = make_backup(path, default_target(path), check=True)
    assert made.problems
    assert made.path.read_bytes()[4096 * 400 : 4096 * 401] == b"\xa5" * 4096


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("Tree 5 page 401: btreeInitPage() returns error code 11", True),
        ("row 17 missing from index conversations_session", True),
        ("malformed inverted index for FTS5 table main.messages_fts", False),
        ("NULL value in messages.content", False),
        ("CHECK constraint failed in messages", False),
        ("ok", False),
    ],
)
def test_only_bad_pages_count(line: str, counts: bool):
    class Connection:
        def set_progress_handler(self, *_: object) -> None: ...

        def execute(self, _: str) -> Connection:
            return self

        def fetchall(self) -> list[tuple[str]]:
            return [(line,)]

    assert copying.quick_check(Connection()) == ((line,) if counts else ())


def test_no_room_is_seen_beforehand(database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    path = database_copy("0.15.3")
    size = path.stat().st_size

    def usage(free: int) -> Callable[[object], object]:
        return lambda _: shutil._ntuple_diskusage(10 * size, 10 * size - free, free)

    monkeypatch.setattr(shutil, "disk_usage", usage(int(size * 1.05)))
    assert not estimate_backup(path, default_target(path)).fits
    with pytest.raises(DiskFullError, match=rf"needs {size:,} bytes") as caught:
        make_backup(path, default_target(path))
    assert caught.value.details == {"needed": size, "free": int(size * 1.05)}
    assert beside(path) == {"lcm.db"}
    monkeypatch.setattr(shutil, "disk_usage", usage(int(size * 1.15)))
    assert make_backup(path, default_target(path)).bytes == size


LIMITED = """
import resource, sys
from pathlib import Path
from lcm_core.change.backup import make_backup
from lcm_core.base.errors import LcmError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    make_backup(Path(sys.argv[1]), Path(sys.argv[2]))
except LcmError as error:
    print(int(error.exit_code), error.message)
"""


@pytest.mark.long
@pytest.mark.parametrize("limit", [0, 4096, 1_000_000, 3_700_000])
def test_a_copy_that_cannot_grow_is_removed(limit: int, database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    arguments = [sys.executable, "-c", LIMITED, str(path), str(path.with_name("copy")), str(limit)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(arguments, capture_output=True, text=True, check=False, env=env)
    assert result.stderr == ""
    assert result.stdout.startswith(f"5 {path} could not be copied: disk I/O error.")
    assert result.stdout.count("\n") == 1
    assert beside(path) == {"lcm.db"}


@pytest.mark.parametrize(("number", "kind"), [(errno.EACCES, ReadOnlyError), (errno.ENOSPC, DiskFullError)])
def test_a_folder_that_cannot_be_written_is_said(
    number: int, kind: type[DatabaseError], database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    real = os.open

    def refuse(name: object, *arguments: object, **options: object) -> int:
        if str(name).endswith(".partial"):
            raise OSError(number, os.strerror(number), name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(backup.os, "open", refuse)
    target = default_target(path)
    for work in (make_backup, estimate_backup):
        with pytest.raises(kind, match=os.strerror(number)) as caught:
            work(path, target)
        assert str(target) in caught.value.message
    assert beside(path) == {"lcm.db"}


def test_a_folder_that_is_not_there_is_said(database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("0.15.3")
    with pytest.raises(FileMissingError, match="There is no folder"):
        make_backup(path, tmp_path / "no" / "copy")
    with pytest.raises(FileMissingError):
        estimate_backup(path, tmp_path / "no" / "copy")


def test_nothing_is_written_over_unless_that_is_wanted(database_copy: DatabaseFactory, tmp_path: Path):
    path, target = database_copy("0.15.3"), tmp_path / "copy"
    target.write_text("mine")
    with pytest.raises(RefusedError, match="exists"):
        make_backup(path, target)
    assert target.read_text() == "mine"
    make_backup(path, target, replace=True)
    assert dump(target) == dump(path)


def test_a_name_that_is_taken_meanwhile_is_not_written_over(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    target = default_target(path)
    with pytest.raises(RefusedError, match="meanwhile"):
        make_backup(path, target, lambda now: target.write_text("mine") and None)
    assert target.read_text() == "mine"
    assert beside(path) == {"lcm.db", target.name}


def test_a_file_system_without_links_gets_its_backup_too(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(backup.os, "link", refuse)
    path = database_copy("0.15.3")
    target = default_target(path)
    make_backup(path, target)
    assert beside(path) == {"lcm.db", target.name}
    with pytest.raises(ReadOnlyError):
        make_backup(path, (other := path.with_name("other")), lambda now: other.write_text("mine") and None)
    assert other.read_text() == "mine"


@pytest.mark.parametrize("replace", [False, True])
def test_a_target_that_belongs_to_a_database_is_refused(
    replace: bool, database_copy: DatabaseFactory, tmp_path: Path
):
    path = database_copy("0.15.3")
    link, hard, other = tmp_path / "link", tmp_path / "hard", tmp_path / "other.db"
    link.symlink_to(path)
    os.link(path, hard)
    other.with_name("other.db-wal").write_bytes(b"the WAL of another database")
    content = path.read_bytes()
    for target in (path, link, hard, other, path.with_name("lcm.db-wal"), path.with_name("lcm.db-journal")):
        with pytest.raises(RefusedError):
            make_backup(path, target, replace=replace)
    assert path.read_bytes() == content
    assert beside(path) == {"lcm.db"}
    assert not other.exists()


@pytest.mark.parametrize("at", [CopyStep.COPY, CopyStep.VERIFY])
def test_a_copy_that_is_cancelled_is_removed(
    at: CopyStep, small_steps: None, database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(copying, "_INSTRUCTIONS", 100)
    path, asked = database_copy("0.15.3"), list[CopyStep]()

    def note(now: CopyProgress) -> None:
        if now.step is at and (now.done > 1_000_000 or at is CopyStep.VERIFY):
            asked.append(now.step)

    with pytest.raises(CancelledError) as caught:
        make_backup(path, default_target(path), note, lambda: bool(asked), check=True)
    assert caught.value.exit_code == 10
    assert len(asked) == 1
    assert beside(path) == {"lcm.db"}


def test_an_error_in_the_middle_leaves_nothing(small_steps: None, database_copy: DatabaseFactory):
    def fail(now: CopyProgress) -> None:
        if now.done > 1_000_000:
            raise KeyboardInterrupt

    path = database_copy("0.15.3")
    with pytest.raises(KeyboardInterrupt):
        make_backup(path, default_target(path), fail)
    assert beside(path) == {"lcm.db"}


def test_what_is_no_database_is_refused(tmp_path: Path):
    with pytest.raises(DatabaseMissingError):
        make_backup(tmp_path / "no.db", tmp_path / "copy")
    (tmp_path / "text").write_text("Dear diary,\n" * 50)
    with pytest.raises(DatabaseError, match="not a SQLite database"):
        make_backup(tmp_path / "text", tmp_path / "copy")
    assert beside(tmp_path / "text") == {"text"}


def test_a_copy_that_is_not_what_was_read_is_removed(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    monkeypatch.setattr(backup, "facts_in", lambda header: None)
    with pytest.raises(DatabaseError, match="is not what was read"):
        make_backup(path, default_target(path))
    assert beside(path) == {"lcm.db"}


@pytest.mark.cases(1)
@pytest.mark.parametrize("pragma", ["page_size = 8192", "auto_vacuum = FULL"])
def test_files_of_any_shape_are_copied(pragma: str, database_copy: DatabaseFactory):
    path = database_copy("0.8.2")
    run(path, "PRAGMA journal_mode = DELETE", f"PRAGMA {pragma}", "VACUUM", "PRAGMA user_version = -7")
    run(path, "PRAGMA application_id = 305419896", "DELETE FROM message_parts")
    made = make_backup(path, default_target(path), check=True)
    assert dump(made.path) == dump(path)
    with sqlite3.connect(f"{made.path.as_uri()}?mode=ro", uri=True) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (-7,)
    copy.close()


NOON = datetime(2026, 3, 4, 12, 0, 5, tzinfo=UTC)


def test_a_backup_is_named_after_its_database_and_time(tmp_path: Path):
    path = tmp_path / "lcm.db"
    path.touch()
    link = tmp_path / "elsewhere"
    link.mkdir()
    (link / "link.db").symlink_to(path)
    first = default_target(link / "link.db", NOON.astimezone(timezone(timedelta(hours=5))))
    assert first == tmp_path / "lcm.db.20260304T120005Z.backup"
    first.write_bytes(b"1")
    second = default_target(path, NOON)
    assert second.name == "lcm.db.20260304T120005Z-2.backup"
    second.write_bytes(b"22")
    kept = default_target(path, NOON, "before-restore")
    assert kept.name == "lcm.db.20260304T120005Z.before-restore.backup"
    kept.write_bytes(b"333")
    for name in ("other.db.20260304T120005Z.backup", "lcm.db.20269999T120005Z.backup", "lcm.db.backup"):
        (tmp_path / name).touch()
    (tmp_path / "lcm.db.20260305T120005Z.backup").mkdir()
    assert [(found.path, found.bytes, found.at) for found in known_backups(path)] == [
        (first, 1, NOON),
        (kept, 3, NOON),
        (second, 2, NOON),
    ]
    assert known_backups(tmp_path / "no" / "lcm.db") == ()


@pytest.mark.parametrize(
    ("size", "limit", "operation", "backups", "offered"),
    [
        (100, 512, None, [], True),
        (512, 512, None, [], False),
        (0, 0, None, [], False),
        (100, 512, NOON - timedelta(hours=1), [], False),
        (100, 512, NOON - timedelta(days=1), [], True),
        (100, 512, None, [NOON - timedelta(minutes=5)], False),
        (100, 512, NOON - timedelta(days=3), [NOON - timedelta(days=2)], True),
        # 23:30 UTC of the day before is already today two hours further east
        (100, 512, NOON.replace(hour=0) - timedelta(minutes=30), [], False),
    ],
)
def test_a_backup_is_offered_before_the_first_commit_of_a_day(
    size: int, limit: int, operation: datetime | None, backups: list[datetime], offered: bool
):
    known = [KnownBackup(Path("x"), at, 1) for at in backups]
    now = NOON.astimezone(timezone(timedelta(hours=2)))
    assert offers_backup(size, limit, operation, known, now) is offered
