"""Restoring: the file is as it was or as the backup, whatever happens, and what was there stays in a copy."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lcm_core.api import DatabaseBusyError, DatabaseError, DatabaseMissingError, RefusedError, preview_restore
from lcm_core.base.errors import CancelledError, FileMissingError
from lcm_core.change import backup as restore
from lcm_core.change import connection as processes
from lcm_core.change import copying
from lcm_core.change.backup import make_backup
from lcm_core.change.connection import Holder, process_names
from lcm_core.change.copying import CopyStep
from lcm_core.change.plan import DiskFullError
from lcm_core.store.opening import Access

from tests.change.support import beside, dump, only
from tests.conftest import DatabaseFactory
from tests.databases import connect, keeps_a_wal, run, value
from tests.support import VERSIONS, sampled

PROC = Path("/proc/self/fd").is_dir()
WITH_PATH = {"PYTHONPATH": os.pathsep.join([*sys.path, os.getcwd()])}


@contextmanager
def holding(path: Path, *statements: str) -> Iterator[subprocess.Popen[str]]:
    """A second process with a connection on which *statements* have run."""
    code = (
        "import sqlite3, sys\nhost = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for sql in sys.argv[2:]: host.execute(sql).fetchall()\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(path), *statements]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)


def rows(path: Path) -> dict[str, list[object]]:
    """Every row of every table, search tables too, in the order in which they stand: pages are copied."""
    with connect(path) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}


def damage_the_rows(path: Path) -> None:
    run(
        path,
        "DELETE FROM context_items",
        "UPDATE summaries SET content = 'lost'",
        "DELETE FROM message_parts",
    )
    run(path, "PRAGMA journal_mode = WAL")


def restored(backup: Path, path: Path, **options: float):
    return restore.restore(backup, path, **options)


@pytest.fixture
def saved(database_copy: DatabaseFactory, tmp_path: Path) -> tuple[Path, Path]:
    """A database that lost rows after a backup was made of it, and the backup."""
    path = database_copy("0.15.3")
    backup = tmp_path / "backup"
    make_backup(path, backup)
    damage_the_rows(path)
    return path, backup


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_a_restored_database_has_the_same_rows_in_the_same_file(
    version: str, database_copy: DatabaseFactory, tmp_path: Path
):
    path, backup = database_copy(version), tmp_path / "backup"
    path.chmod(0o640)
    before = dump(path)
    made = make_backup(path, backup)
    damage_the_rows(path)
    spoiled, inode = dump(path), path.stat().st_ino
    assert spoiled != before
    done = restored(backup, path)
    assert done.kept is not None
    assert beside(path) == {"lcm.db", done.kept.name}
    assert dump(path) == before
    assert dump(done.kept) == spoiled
    assert (path.stat().st_ino, path.stat().st_mode & 0o777) == (inode, 0o640)
    assert (done.path, done.bytes, done.pages) == (path, made.bytes, made.pages)
    assert done.kept.name.endswith(".before-restore.backup")
    assert keeps_a_wal(path)
    assert value(path, "PRAGMA integrity_check") == "ok"


@pytest.mark.long
def test_a_preview_says_what_would_happen_and_leaves_no_trace(saved: tuple[Path, Path]):
    path, backup = saved
    run(path, "DELETE FROM messages WHERE message_id > 800")
    content = path.read_bytes()
    preview = preview_restore(backup, path)
    assert preview.database is not None
    assert preview.database.messages < preview.backup.messages == 865
    assert (preview.backup.conversations, preview.backup.summaries) == (8, 116)
    assert preview.backup.newest == "2026-03-04 12:11:41"
    assert preview.room == len(content) + max(len(content), backup.stat().st_size)
    assert (preview.missing, preview.unreadable, preview.holders) == (False, None, ())
    assert path.read_bytes() == content
    assert beside(path) == {"lcm.db"}
    with holding(path, "SELECT count(*) FROM messages") as host:
        [holder] = preview_restore(backup, path).holders if PROC else [Holder(host.pid, "")]
        assert holder.pid == host.pid


@pytest.mark.long
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("statement", ["SELECT count(*) FROM messages", "BEGIN IMMEDIATE"])
def test_a_database_that_a_host_has_open_is_refused_and_the_host_named(
    mode: str, statement: str, saved: tuple[Path, Path]
):
    path, backup = saved
    run(path, f"PRAGMA journal_mode = {mode}")
    before = rows(path)
    with holding(path, statement) as host:
        told = []
        with pytest.raises(DatabaseBusyError) as caught:
            restore.restore(backup, path, told.append, wait=0.2)
        assert caught.value.exit_code == 8
        assert str(path) in caught.value.message
        if PROC:
            assert f"(process {host.pid}). Stop it and restore again" in caught.value.message
            assert caught.value.details["pids"] == str(host.pid)
            assert told == []
    assert rows(path) == before
    assert beside(path) == {"lcm.db"}
    assert restored(backup, path).kept


def test_a_host_that_cannot_be_named_is_in_the_way_too(
    saved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    path, backup = saved
    monkeypatch.setattr(restore, "processes_with_open", lambda path: ())
    before = rows(path)
    with holding(path, "SELECT count(*) FROM messages"):
        with pytest.raises(DatabaseBusyError, match="does not name"):
            restored(backup, path, wait=0.2)
        assert value(path, "SELECT count(*) FROM context_items") == 0
    assert rows(path) == before


@pytest.mark.long
def test_a_host_that_goes_in_time_is_waited_for(saved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    path, backup = saved
    with holding(path, "SELECT count(*) FROM messages") as host:
        tries = 0

        def look(where: Path) -> tuple[Holder, ...]:
            nonlocal tries
            tries += 1
            if tries == 3:
                assert host.stdin is not None
                host.stdin.close()
                host.wait(20)
            return processes.processes_with_open(where) if PROC else (Holder(host.pid, ""),) * (tries < 3)

        monkeypatch.setattr(restore, "processes_with_open", look)
        assert restored(backup, path, wait=60).kept
    assert value(path, "SELECT count(*) FROM context_items") > 0


def test_our_own_connection_is_in_the_way_too(saved: tuple[Path, Path]):
    path, backup = saved
    with connect(path) as own:
        own.execute("SELECT count(*) FROM messages").fetchone()
        with pytest.raises(DatabaseBusyError, match="lcm-tui itself"):
            restored(backup, path, wait=0.1)


def test_processes_are_told_by_descriptors_and_by_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, proc = tmp_path / "lcm.db", tmp_path / "proc"
    monkeypatch.setattr(processes, "_PROC", proc)
    path.touch()
    found = path.stat()
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    for pid, name in ((11, "node\x1b[31m\n"), (12, "sqlite3\n"), (os.getpid(), "pytest\n"), (14, "other\n")):
        (proc / str(pid) / "fd").mkdir(parents=True)
        (proc / str(pid) / "comm").write_text(name)
    (proc / "11" / "fd" / "5").symlink_to(path)
    (proc / "14" / "fd" / "5").symlink_to("socket:[17]")
    (proc / "14" / "fd" / "6").symlink_to(tmp_path / "gone")
    (proc / str(os.getpid()) / "fd" / "5").symlink_to(path)
    assert [holder.pid for holder in processes.processes_with_open(path)] == [11]
    (proc / "locks").write_text(
        f"1: POSIX  ADVISORY  READ 12 {device}:{found.st_ino} 1073741826 1073742335\n"
        f"1: -> POSIX  ADVISORY  WRITE 13 {device}:{found.st_ino} 1073741826 1073742335\n"
        f"2: POSIX  ADVISORY  READ 14 {device}:{found.st_ino + 1} 0 EOF\n"
        "3: nonsense\n"
    )
    assert processes.processes_with_open(path) == (
        Holder(11, "node\x1b[31m"),
        Holder(12, "sqlite3"),
        Holder(13, ""),
    )
    monkeypatch.setattr(processes, "_PROC", tmp_path / "no")
    assert processes.processes_with_open(path) == ()


@pytest.mark.parametrize(
    ("pids", "text"),
    [
        ((1,), "a program (process 1)"),
        ((1, 2), "a program (process 1) and a program (process 2)"),
        ((1, 2, 3, 4, 5), "a program (process 1), a program (process 2), a program (process 3) and 2 more"),
    ],
)
def test_holders_are_named_in_a_sentence(pids: tuple[int, ...], text: str):
    assert process_names(Holder(pid, "") for pid in pids) == text


#: For each folder restores a backup to the database in it, in a process that leaves without a word at the
#: *n*-th report of a step (-1: at the last); says how each of them ended.
KILLED = """
import json, os, sys
from pathlib import Path
from lcm_core.change import copying
from lcm_core.change.backup import restore
copying.STEP_BYTES = 65_536

def killed(folder, step, number):
    seen = 0
    def watch(now):
        nonlocal seen
        seen += now.step.name == step
        if now.step.name == step and (seen == number or (number < 0 and now.done == now.total)):
            os._exit(77)
    restore(Path(folder) / "backup", Path(folder) / "database" / "lcm.db", watch)

for arguments in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        killed(*arguments)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
#: Where the process ends; whether the backup is in the file by then.
MODES = ("WAL", "DELETE", "WAL, other pages", "WAL of a dead host")
POINTS = (
    ("CHECK", 1, False),
    ("KEEP", 20, False),
    ("KEEP", -1, False),
    ("RESTORE", 1, False),
    ("RESTORE", 20, False),
    ("RESTORE", -1, True),
    ("SETTLE", 1, True),
)


@pytest.mark.long
@pytest.mark.parametrize("mode", sampled(MODES, ("DELETE", "WAL of a dead host")))
def test_a_killed_restore_leaves_the_file_before_or_after(
    mode: str, database_copy: DatabaseFactory, tmp_path: Path
):
    path, backup = only(database_copy("0.15.3"), 3), tmp_path / "backup"
    make_backup(path, backup)
    damage_the_rows(path)
    run(path, f"PRAGMA journal_mode = {mode.partition(' ')[0].rstrip(',')}")
    if mode.endswith("pages"):
        run(backup, "PRAGMA journal_mode = DELETE", "PRAGMA page_size = 8192", "VACUUM")
        run(backup, "PRAGMA journal_mode = WAL")
    if mode.endswith("host"):
        with holding(path, "UPDATE conversations SET title = 'only in the WAL'") as host:
            host.kill()
        assert path.with_name("lcm.db-wal").stat().st_size
    folders = [tmp_path / f"{step} {number}" for step, number, _ in POINTS]
    for folder in (*folders, tmp_path / "before"):
        shutil.copytree(path.parent, folder / "database")
        shutil.copyfile(backup, folder / "backup")
    # Read in a copy, for reading settles what lies in the WAL.
    before, after = rows(tmp_path / "before" / "database" / "lcm.db"), rows(backup)
    points = [(str(folder), step, number) for folder, (step, number, _) in zip(folders, POINTS, strict=True)]
    result = subprocess.run(
        [sys.executable, "-c", KILLED],
        input=json.dumps(points),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **WITH_PATH},
    )
    assert result.stderr == ""
    settles = mode in ("WAL", "WAL of a dead host")  # a rollback journal has no such step
    assert result.stdout.split() == ["77" if settles or step != "SETTLE" else "0" for step, _, _ in POINTS]
    for folder, (step, _, done) in zip(folders, POINTS, strict=True):
        left = folder / "database" / "lcm.db"
        # SQLite itself finishes or takes back what the dead process left, as the host would by opening it.
        assert value(left, "PRAGMA integrity_check") == "ok", folder.name
        assert rows(left) == (after if done else before), folder.name
        kept = [name for name in beside(left) if name.endswith(".backup")]
        assert len(kept) == (step in ("RESTORE", "SETTLE")), folder.name
        assert all(rows(left.with_name(name)) == before for name in kept), folder.name
        restored(folder / "backup", left)
        assert rows(left) == after, folder.name
        assert not any(name.endswith(("-journal", "-wal")) for name in beside(left)), folder.name


@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("step", [CopyStep.CHECK, CopyStep.KEEP, CopyStep.RESTORE])
def test_a_cancelled_restore_changes_nothing(
    mode: str, step: CopyStep, saved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(copying, "STEP_BYTES", 65_536)
    monkeypatch.setattr(copying, "_INSTRUCTIONS", 100)
    path, backup = saved
    run(path, f"PRAGMA journal_mode = {mode}")
    before, asked = rows(path), list[CopyStep]()

    def watch(now) -> None:
        if now.step is step and (now.done > 1_000_000 or not now.total):
            asked.append(now.step)

    with pytest.raises(CancelledError) as caught:
        restore.restore(backup, path, watch, lambda: bool(asked))
    assert len(asked) == 1
    assert rows(path) == before
    kept = beside(path) - {"lcm.db"}
    assert len(kept) == (step is CopyStep.RESTORE)
    for name in kept:
        assert caught.value.message.endswith(f"current database is in {path.with_name(name)}.")
        assert rows(path.with_name(name)) == before


def test_once_it_is_committed_it_is_not_cancelled(saved: tuple[Path, Path]):
    path, backup = saved
    asked: list[CopyStep] = []

    def watch(now) -> None:
        if now.step is CopyStep.SETTLE or (now.step is CopyStep.RESTORE and now.done == now.total):
            asked.append(now.step)

    assert restore.restore(backup, path, watch, lambda: bool(asked)).kept
    assert len(asked) == 2
    assert rows(path) == rows(backup)


def text(path: Path) -> None:
    path.write_text("Dear diary,\n" * 50)


def other_program(path: Path) -> None:
    path.unlink()
    run(path, "CREATE TABLE bookmarks (url TEXT)")


def damaged(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 400)
        file.write(b"\xa5" * 4096)


def truncated(path: Path) -> None:
    os.truncate(path, 4096 * 300)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (text, "not a SQLite database"),
        (other_program, "not an LCM one"),
        (damaged, "damaged"),
        (truncated, "truncated"),
        (Path.unlink, "no backup"),
    ],
)
def test_what_is_no_whole_backup_is_refused(
    spoil: Callable[[Path], None], words: str, saved: tuple[Path, Path]
):
    path, backup = saved
    spoil(backup)
    before = rows(path)
    for work in (preview_restore, restore.restore):
        with pytest.raises((DatabaseError, RefusedError), match=words) as caught:
            work(backup, path)
        assert str(backup) in caught.value.message
    assert rows(path) == before
    assert beside(path) == {"lcm.db"}


def test_a_database_is_no_backup_of_itself(saved: tuple[Path, Path]):
    path, _ = saved
    link = path.parent.parent / "link"
    link.symlink_to(path)
    for given in (path, link):
        with pytest.raises(RefusedError, match="is the database itself"):
            restored(given, path)


def test_a_missing_database_is_made_of_the_backup(saved: tuple[Path, Path]):
    path, backup = saved
    path.unlink()
    preview = preview_restore(backup, path)
    assert (preview.missing, preview.database) == (True, None)
    assert beside(path) == set()
    done = restored(backup, path)
    assert done.kept is None
    assert beside(path) == {"lcm.db"}
    assert rows(path) == rows(backup)


def test_the_wal_of_a_missing_database_is_not_taken_for_that_of_the_backup(saved: tuple[Path, Path]):
    path, backup = saved
    path.rename(path.parent.parent / "away")
    path.with_name("lcm.db-wal").write_bytes(b"the last changes")
    with pytest.raises(RefusedError, match="Move it away"):
        restored(backup, path)
    assert beside(path) == {"lcm.db-wal"}


@pytest.mark.long
def test_a_damaged_database_is_replaced_and_kept_as_it_is(saved: tuple[Path, Path]):
    path, backup = saved
    damaged(path)
    pages = path.read_bytes()[4096:]
    done = restored(backup, path)
    assert done.kept is not None
    assert done.kept.read_bytes()[4096:] == pages
    assert rows(path) == rows(backup)


@pytest.mark.cases(1)
@pytest.mark.parametrize("spoil", [text, truncated])
def test_a_file_that_is_too_damaged_to_be_written_into_stays(
    spoil: Callable[[Path], None], saved: tuple[Path, Path]
):
    path, backup = saved
    spoil(path)
    content = path.read_bytes()
    assert preview_restore(backup, path).unreadable
    with pytest.raises(DatabaseError, match="Move it with its -wal and -journal files"):
        restored(backup, path)
    assert path.read_bytes() == content
    assert beside(path) == {"lcm.db"}


def test_an_empty_file_is_filled(saved: tuple[Path, Path]):
    path, backup = saved
    path.write_bytes(b"")
    assert restored(backup, path).kept is None
    assert rows(path) == rows(backup)
    assert beside(path) == {"lcm.db"}


def test_a_live_database_can_be_the_backup(saved: tuple[Path, Path]):
    path, backup = saved
    run(backup, "PRAGMA journal_mode = WAL")
    with holding(backup, "UPDATE conversations SET title = 'only in the WAL'"):
        restored(backup, path)
    assert value(path, "SELECT min(title) FROM conversations") == "only in the WAL"


def test_room_is_asked_for_both_copies(saved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    path, backup = saved
    before, size = rows(path), path.stat().st_size
    usage = shutil._ntuple_diskusage(10 * size, 0, int(1.9 * size))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFullError):
        restored(backup, path)
    assert rows(path) == before
    assert beside(path) == {"lcm.db"}


LIMITED = """
import resource, sys
from pathlib import Path
from lcm_core.change.backup import restore
from lcm_core.base.errors import LcmError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    restore(Path(sys.argv[1]), Path(sys.argv[2]))
except LcmError as error:
    print(int(error.exit_code), error.message)
"""


@pytest.mark.long
def test_a_disk_that_fills_up_in_the_middle_changes_nothing(saved: tuple[Path, Path]):
    path, backup = saved
    before = rows(path)
    limit = path.stat().st_size  # enough for the copy that is kept, but the WAL has a header for every page
    arguments = [sys.executable, "-c", LIMITED, str(backup), str(path), str(limit)]
    result = subprocess.run(
        arguments, capture_output=True, text=True, check=False, env={**os.environ, **WITH_PATH}
    )
    assert result.stderr == ""
    assert result.stdout.startswith(f"5 {path} could not be written (disk I/O error). Nothing was changed;")
    assert "A copy of the current database is in" in result.stdout
    assert rows(path) == before


def test_a_backup_that_is_written_meanwhile_is_said(saved: tuple[Path, Path]):
    path, backup = saved
    before = rows(path)

    def write(now) -> None:
        if now.step is CopyStep.KEEP and not now.done:
            run(backup, "UPDATE conversations SET title = 'new'")

    with pytest.raises(DatabaseBusyError, match="was changed while it was read"):
        restore.restore(backup, path, write)
    assert rows(path) == before


def test_a_restore_reads_the_backup_without_a_trace(saved: tuple[Path, Path]):
    path, backup = saved
    others, content = beside(backup), backup.read_bytes()
    with copying.open_source(backup) as source:
        assert source.access is Access.IMMUTABLE
    restored(backup, path)
    assert beside(backup) == others
    assert backup.read_bytes() == content


def test_a_missing_folder_is_said(saved: tuple[Path, Path], tmp_path: Path):
    _, backup = saved
    with pytest.raises(FileMissingError, match="There is no folder"):
        restored(backup, tmp_path / "no" / "lcm.db")
    with pytest.raises(DatabaseMissingError):
        restored(tmp_path / "no", backup)
    assert sqlite3.connect(backup).close() is None
