"""Opening a database of any kind without a trace, reading it from many tasks, and following its writers."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from lcm_core.api import Database, DatabaseBusyError, DatabaseError, DatabaseMissingError, ExitCode, Reader
from lcm_core.change.backup import make_backup
from lcm_core.store import database as handle_module
from lcm_core.store import opening as opening_module
from lcm_core.store.opening import TICK_NS, Access, file_state, private_copy, sidecar

from tests.conftest import DatabaseFactory
from tests.databases import connect
from tests.support import sampled

READINGS = 3

#: What a database is read with.
Load = Callable[..., Awaitable[Any]]

COUNT = "SELECT count(*) FROM messages"
#: Takes minutes.
SLOW = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)
    SELECT count(*) FROM n"""


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private copies are made, so that a test sees whether one was left behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def database(database_copy: DatabaseFactory) -> Path:
    """A database in WAL mode without a WAL, as a host leaves it."""
    return database_copy("0.15.3")


@contextmanager
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program that has the database open."""
    with connect(path, timeout=1) as connection:
        yield connection


def write(path: Path, title: str = "changed") -> None:
    with writer(path) as connection:
        connection.execute("UPDATE conversations SET title = ?", (title,))


async def value(reader: Reader, sql: str, *parameters: object) -> object:
    return await reader.value(sql, *parameters)


async def value_in_thread(reader: Reader, sql: str, *parameters) -> object:
    return await reader.run(lambda db: db.rows(sql, parameters)[0][0])


#: A statement that is awaited, and one of a load that runs as a whole in a thread.
BOTH_WAYS = pytest.mark.parametrize("load", [value, value_in_thread])


def listing(folder: Path, *, times: bool = True) -> dict[str, tuple[int, ...]]:
    return {
        path.name: (path.stat().st_size, path.stat().st_ino, path.stat().st_mtime_ns if times else 0)
        for path in [folder, *folder.iterdir()]
    }


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    for _ in range(3000):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain")


def leave_wal(path: Path, *, shm: bool) -> int:
    """Put a WAL with one more message beside *path*, as a host that died leaves it; returns the count."""
    folder = path.parent / "host"
    folder.mkdir()
    original = Path(shutil.copy(path, folder / path.name))
    with writer(original) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(
            "INSERT INTO messages (conversation_id, seq, role, content, token_count)"
            " VALUES (1, 100000, 'user', 'only in the WAL', 4)"
        )
        (count,) = connection.execute(COUNT).fetchone()
        for suffix in ("-wal", "-shm") if shm else ("-wal",):
            shutil.copy(sidecar(original, suffix), sidecar(path, suffix))
    shutil.rmtree(folder)
    return int(count)


# -- the way in --------------------------------------------------------------------------------------------


async def test_a_wal_file_without_a_wal_is_immutable_and_its_folder_stays_as_it_was(database: Path):
    before = listing(database.parent)
    async with await Database.open(database) as opened:
        assert opened.access is Access.IMMUTABLE
        assert await opened.read(value, COUNT) > 0
        assert listing(database.parent) == before
    assert listing(database.parent) == before


async def test_a_commit_is_read_at_once_also_by_an_immutable_connection(database: Path):
    """Nobody polls here, and such a connection keeps the pages that it has read."""
    title = "SELECT title FROM conversations"
    async with await Database.open(database) as opened:
        for number in range(3):
            assert opened.access is Access.IMMUTABLE
            write(database, f"title {number}")
            assert await opened.read(lambda reader: reader.value(title)) == f"title {number}"
        with writer(database) as host:
            host.execute("UPDATE conversations SET title = 'in the WAL'")
            assert await opened.read(lambda reader: reader.value(title)) == "in the WAL"


async def test_what_is_written_while_an_immutable_connection_reads_is_read_again(database: Path):
    titles = []

    async def load(reader: Reader) -> str:
        if not titles:
            write(database, "changed meanwhile")
        titles.append(await reader.value("SELECT title FROM conversations"))
        return str(titles[-1])

    async with await Database.open(database) as opened:
        await opened.read(lambda reader: reader.value("SELECT title FROM conversations"))
        assert await opened.read(load) == "changed meanwhile"
    assert len(titles) == 2


async def test_what_a_batch_of_commits_tears_is_read_until_they_are_over(database: Path):
    """A fast batch of ours commits more often in a moment than something is read at least."""
    readings = 0

    async def load(reader: Reader) -> object:
        nonlocal readings
        readings += 1
        if readings <= 2 * READINGS:
            await asyncio.to_thread(write, database, f"changed {readings} times")
        return await reader.value("SELECT title FROM conversations")

    async with await Database.open(database) as opened:
        assert await opened.read(load) == f"changed {2 * READINGS} times"


async def test_what_is_written_each_time_that_it_is_read_is_said_to_be(database: Path):
    async def load(reader: Reader) -> None:
        await asyncio.to_thread(write, database, f"changed at {time.monotonic()}")

    async with await Database.open(database, busy_seconds=0) as opened:
        with pytest.raises(DatabaseBusyError, match="written each of 3 times"):
            await opened.read(load)


@pytest.mark.long
async def test_a_file_can_be_opened_and_read_while_it_is_written_without_a_rest(database: Path):
    """A host that opens, commits and closes: its checkpoints write pages under whoever took no lock."""
    over = threading.Event()

    def host() -> None:
        number = 0
        while not over.wait(0.015):
            number += 1
            with connect(database) as connection:
                connection.execute(f"CREATE TABLE more_{number} AS SELECT * FROM messages")

    writing = asyncio.ensure_future(asyncio.to_thread(host))
    try:
        for _ in range(20):
            with suppress(DatabaseBusyError):
                async with await Database.open(database) as opened:
                    assert await opened.read(lambda reader: reader.value("SELECT count(*) FROM messages"))
    finally:
        over.set()
        await writing


async def test_a_file_from_the_future_is_no_file_that_changes(database: Path):
    ahead = time.time() + 86_400
    os.utime(database, (ahead, ahead))
    state = file_state(database)
    assert state is not None
    assert not state.may_hide_a_write


async def test_an_empty_wal_is_as_good_as_none(database: Path):
    sidecar(database, "-wal").touch()
    before = listing(database.parent)
    async with await Database.open(database) as opened:
        assert opened.access is Access.IMMUTABLE
        await opened.read(value, COUNT)
    assert listing(database.parent) == before


async def test_a_host_that_has_the_file_open_keeps_its_pages_from_being_read_without_a_lock(database: Path):
    with writer(database) as host:
        host.execute(COUNT).fetchone()
        assert sidecar(database, "-wal").stat().st_size == 0
        async with await Database.open(database) as opened:
            assert opened.access is Access.READ_ONLY
            assert await opened.read(value, COUNT) > 0
    assert [path.name for path in database.parent.iterdir()] == ["lcm.db"]


async def test_a_live_wal_is_read_in_place(database: Path):
    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'only in the WAL'")
        before = listing(database.parent, times=False)
        async with await Database.open(database) as opened:
            assert opened.access is Access.READ_ONLY
            assert await opened.read(value, "SELECT title FROM conversations LIMIT 1") == "only in the WAL"
        assert listing(database.parent, times=False) == before


async def test_the_wal_that_a_dead_host_left_is_read_in_place_and_stays(database: Path):
    count = leave_wal(database, shm=True)
    before = listing(database.parent, times=False)
    content = {name: (database.parent / name).read_bytes() for name in ("lcm.db", "lcm.db-wal")}
    async with await Database.open(database) as opened:
        assert opened.access is Access.READ_ONLY
        assert await opened.read(value, COUNT) == count
    assert listing(database.parent, times=False) == before
    assert content == {name: (database.parent / name).read_bytes() for name in content}


async def test_a_wal_without_its_index_is_read_from_a_private_copy(database: Path, temporary_folder: Path):
    count = leave_wal(database, shm=False)
    before = listing(database.parent)
    async with await Database.open(database) as opened:
        assert opened.access is Access.COPY
        assert await opened.read(value, COUNT) == count
        [copy] = temporary_folder.iterdir()
        assert copy.stat().st_mode & 0o077 == 0
    assert listing(database.parent) == before
    assert not list(temporary_folder.iterdir())


def test_a_copy_in_which_a_host_came_and_went_is_made_again(database: Path, monkeypatch: pytest.MonkeyPatch):
    """Its WAL was there when it was decided to copy, and neither before nor after the copy."""
    copied: list[Path] = []
    copy_file = opening_module._copy_file

    def then_written(source: Path, target: Path, stopped: Callable[[], bool]) -> None:
        copy_file(source, target, stopped)
        copied.append(source)
        if len(copied) == 1:
            write(database, "changed meanwhile")

    monkeypatch.setattr(opening_module, "_copy_file", then_written)
    copy = private_copy(database, lambda: False)
    assert copied.count(database) == 2
    assert copy.read_bytes() == database.read_bytes()


async def test_a_wal_beside_a_file_that_claims_to_have_none_is_read_from_a_copy_too(database: Path):
    """SQLite reads it there, and would make an index for it."""
    count = leave_wal(database, shm=False)
    with database.open("r+b") as file:
        file.seek(18)
        file.write(b"\1\1")
    before = listing(database.parent)
    async with await Database.open(database) as opened:
        assert opened.access is Access.COPY
        assert await opened.read(value, COUNT) == count
    assert listing(database.parent) == before


async def test_a_wal_whose_index_may_not_be_read_is_copied(
    database: Path, monkeypatch: pytest.MonkeyPatch, temporary_folder: Path
):
    count = leave_wal(database, shm=True)
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, *rest: not str(path).endswith("-shm") and allowed(path, *rest)
    )
    async with await Database.open(database) as opened:
        assert opened.access is Access.COPY
        assert await opened.read(value, COUNT) == count
    assert not list(temporary_folder.iterdir())


async def test_a_file_without_wal_mode_is_read_under_its_writers_locks_and_leaves_no_trace(database: Path):
    with writer(database) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    before = listing(database.parent)
    async with await Database.open(database, busy_seconds=0.05) as opened:
        assert opened.access is Access.READ_ONLY
        assert await opened.read(value, COUNT) > 0
        assert listing(database.parent) == before
        with writer(database) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            with pytest.raises(DatabaseBusyError):
                await opened.read(value, COUNT)
    assert listing(database.parent) == before


async def test_a_link_is_followed_to_where_the_wal_is(database: Path, tmp_path: Path):
    link = tmp_path / "link.db"
    link.symlink_to(database)
    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'only in the WAL'")
        async with await Database.open(link) as opened:
            assert await opened.read(value, "SELECT title FROM conversations LIMIT 1") == "only in the WAL"
            assert opened.state == file_state(database)


@pytest.mark.parametrize(
    "name", ["a b.db", "a#b.db", "a?mode=rw&x.db", "a%20b.db", "ä 日本.db", "[red]x[].db"]
)
async def test_any_file_name_is_just_a_name(database: Path, name: str):
    renamed = database.rename(database.with_name(name))
    before = listing(database.parent)
    async with await Database.open(renamed) as opened:
        assert await opened.read(value, COUNT) > 0
    assert listing(database.parent) == before


async def test_a_file_name_that_is_not_utf8_is_opened(database: Path):
    renamed = database.rename(os.fsdecode(os.fsencode(database.parent) + b"/\xff.db"))
    async with await Database.open(renamed) as opened:
        assert await opened.read(value, COUNT) > 0


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shm", [True, False])
async def test_the_wal_beside_a_file_that_was_cut_off_stays(database: Path, shm: bool):
    """SQLite removes it when it opens an empty file, and perhaps it is all that is left."""
    leave_wal(database, shm=shm)
    os.truncate(database, 0)
    before = listing(database.parent)
    with pytest.raises(DatabaseError, match=r"is empty, but .* copy lcm.db-wal"):
        await Database.open(database)
    with pytest.raises(DatabaseError, match="is empty, but"):
        make_backup(database, database.with_name("copy"))
    assert listing(database.parent) == before


async def refused(path: Path) -> DatabaseError:
    with pytest.raises(DatabaseError) as caught:
        await Database.open(path, busy_seconds=0.05)
    error = caught.value
    assert str(path) in error.message
    assert error.message.endswith(".")
    assert "\n" not in error.message
    return error


async def test_a_missing_file_is_an_error_and_is_not_made(tmp_path: Path):
    error = await refused(tmp_path / "no" / "lcm.db")
    assert isinstance(error, DatabaseMissingError)
    assert error.exit_code == ExitCode.NOT_FOUND
    assert not (tmp_path / "no").exists()


async def test_a_folder_is_refused(tmp_path: Path):
    assert "is a folder" in (await refused(tmp_path)).message


async def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in (await refused(tmp_path / "pipe")).message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"just some text\n" * 50, "not a SQLite database"),
        (os.urandom(10_000), "not a SQLite database"),
        (b"SQLite format 3\x00", "truncated"),
    ],
    ids=["empty", "text", "random", "magic"],
)
async def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes, said: str):
    path = tmp_path / "lcm.db"
    path.write_bytes(content)
    assert said in (await refused(path)).message
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["lcm.db"]


@pytest.mark.parametrize("keep", [100, 4096, 5000, 1_000_000])
async def test_a_truncated_database_is_refused(database: Path, keep: int):
    os.truncate(database, keep)
    assert "truncated" in (await refused(database)).message


async def test_a_database_whose_pages_are_overwritten_is_called_damaged(database: Path):
    content = bytearray(database.read_bytes())
    content[100:4096] = b"\xff" * 3996
    database.write_bytes(content)
    error = await refused(database)
    assert error.code == "DATABASE_CORRUPT"
    assert "damaged" in error.message


async def test_damage_that_is_met_later_is_a_sentence_too(database: Path):
    with writer(database) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(database.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    database.write_bytes(content)
    async with await Database.open(database) as opened:
        with pytest.raises(DatabaseError, match="damaged"):
            await opened.read(value, "SELECT content FROM messages")
        assert await opened.read(value, "SELECT count(*) FROM conversations") > 0


async def test_the_database_of_another_program_is_refused(tmp_path: Path):
    path = tmp_path / "lcm.db"
    with writer(path) as connection:
        connection.execute("CREATE TABLE bookmarks (id INTEGER)")
    error = await refused(path)
    assert error.code == "DATABASE_NOT_LCM"
    assert "conversations" in error.message


async def test_a_table_that_lacks_what_it_must_have_is_named(tmp_path: Path):
    path = tmp_path / "lcm.db"
    with writer(path) as connection:
        connection.execute("CREATE TABLE conversations (conversation_id INTEGER, session_id TEXT)")
        connection.execute("CREATE TABLE messages (message_id INTEGER, text TEXT)")
    error = await refused(path)
    assert error.code == "DATABASE_NOT_LCM"
    assert "'messages'" in error.message


async def test_a_database_that_another_process_locks_is_busy(database: Path):
    with writer(database) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", script, str(database)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"locked\n"
        error = await refused(database)
        other.communicate()
    assert isinstance(error, DatabaseBusyError)
    assert error.exit_code == ExitCode.BUSY == 8


async def test_a_change_left_half_done_is_not_taken_back_by_reading(database: Path):
    with writer(database) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    host = database.parent / "host.db"
    shutil.copy(database, host)
    with writer(host) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE messages SET content = content || 'x'")
        shutil.copy(host, database)
        shutil.copy(sidecar(host, "-journal"), sidecar(database, "-journal"))
        connection.execute("ROLLBACK")
    journal = bytearray(sidecar(database, "-journal").read_bytes())
    before = listing(database.parent)
    if journal[:8] == bytes(8):  # written, but not yet synced: its header says so
        journal[:8] = bytes.fromhex("d9d505f920a163d7")
        sidecar(database, "-journal").write_bytes(journal)
        before = listing(database.parent)
    assert "an unfinished change" in (await refused(database)).message
    assert listing(database.parent) == before


# -- reading -----------------------------------------------------------------------------------------------


async def test_nothing_can_be_written(database: Path):
    async with await Database.open(database) as opened:
        with pytest.raises(DatabaseError):
            await opened.read(value, "DELETE FROM messages")
        with pytest.raises(DatabaseError):
            await opened.read(value, "CREATE TABLE x (y)")


async def test_reads_that_run_together_have_a_connection_each(database: Path):
    inside = asyncio.Barrier(3)

    async def read(reader: Reader) -> object:
        async with asyncio.timeout(60):
            await inside.wait()  # all three are within their transaction
        return await reader.value(COUNT)

    async with await Database.open(database) as opened:
        found = await asyncio.gather(*(opened.read(read) for _ in range(3)))
        assert len(set(found)) == 1
        assert opened.statements == 3


async def test_a_read_sees_one_state_of_the_file(database: Path):
    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'a'")

        async def read(reader: Reader) -> tuple[object, object]:
            first = await reader.value("SELECT title FROM conversations LIMIT 1")
            host.execute("UPDATE conversations SET title = 'b'")
            return first, await reader.value("SELECT title FROM conversations LIMIT 1")

        async with await Database.open(database) as opened:
            assert await opened.read(read) == ("a", "a")
            assert await opened.read(value, "SELECT title FROM conversations LIMIT 1") == "b"


@pytest.mark.cases(1)
@BOTH_WAYS
async def test_a_cancelled_read_stops_its_statement_and_leaves_the_connection_usable(
    database: Path, load: Load
):
    async with await Database.open(database) as opened:
        for _ in range(3):
            slow = asyncio.create_task(opened.read(load, SLOW))
            await asyncio.sleep(0.05)
            slow.cancel()
            async with asyncio.timeout(60):  # the statement itself would take minutes
                with pytest.raises(asyncio.CancelledError):
                    await slow
            assert await opened.read(value, COUNT) > 0


async def test_a_load_in_a_thread_asks_nothing_more_once_its_caller_is_cancelled(database: Path):
    asking, ended = threading.Event(), threading.Event()

    def load(db) -> None:
        try:
            while db.tuples("SELECT 1"):
                asking.set()
        finally:
            ended.set()

    async with await Database.open(database) as opened:
        reading = asyncio.create_task(opened.read(Reader.run, load))
        await asyncio.to_thread(asking.wait)
        reading.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert ended.is_set()  # the caller goes on when the thread is done with the connection
        assert await opened.read(value, COUNT) > 0


@pytest.mark.long
@BOTH_WAYS
@pytest.mark.parametrize("steps", sampled(range(8), (0, 3, 6)))
async def test_a_read_can_be_cancelled_at_any_moment(database: Path, steps: int, load: Load):
    async with await Database.open(database) as opened:
        await asyncio.gather(*(opened.read(value, COUNT) for _ in range(2)))
        reads = [asyncio.create_task(opened.read(load, SLOW)) for _ in range(4)]  # two need a new connection
        for _ in range(steps):
            await asyncio.sleep(0)
        for read in reads:
            read.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*reads, return_exceptions=True)
            assert await asyncio.gather(*(opened.read(value, "SELECT 1") for _ in range(5))) == [1] * 5
    gc.collect()


async def test_a_read_that_fails_leaves_the_connection_usable(database: Path):
    async def fail(reader: Reader) -> None:
        await reader.value(COUNT)
        raise LookupError("nothing")

    async with await Database.open(database) as opened:
        with pytest.raises(LookupError):
            await opened.read(fail)
        with pytest.raises(DatabaseError, match="no such table"):
            await opened.read(value, "SELECT 1 FROM nowhere")
        assert await opened.read(value, COUNT) > 0


@BOTH_WAYS
async def test_closing_stops_what_runs_and_closed_is_said_in_a_sentence(database: Path, load: Load):
    opened = await Database.open(database)
    running = [asyncio.create_task(opened.read(load, SLOW)) for _ in range(2)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(60):
        await opened.close()
        for outcome in await asyncio.gather(*running, return_exceptions=True):
            assert isinstance(outcome, DatabaseError)
            assert "closed" in outcome.message
    with pytest.raises(DatabaseError, match="closed"):
        await opened.read(value, COUNT)
    await opened.close()


@pytest.mark.long
@pytest.mark.parametrize("asked", ["reader.value(sql)", "reader.run(lambda db: db.rows(sql))"])
@pytest.mark.parametrize("leaving", ["await database.close()", "pass", "raise SystemExit"])
def test_a_process_ends_while_a_read_runs(database: Path, leaving: str, asked: str):
    script = f"""
import asyncio, sys
from pathlib import Path
from typing import Any
from lcm_core.store.database import Database

async def slow(reader):
    sql = {SLOW!r}
    await {asked}

async def main():
    database = await Database.open(Path(sys.argv[1]))
    reading = asyncio.create_task(database.read(slow))
    reading.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        await asyncio.sleep(0.1)
        {leaving}
    finally:
        await database.close()

asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script, str(database)],
        env=environment,
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")


async def test_text_that_is_not_utf8_survives_and_can_be_asked_for(database: Path):
    with writer(database) as connection:
        connection.execute(
            "UPDATE conversations SET title = CAST(x'61ff62' AS TEXT) WHERE conversation_id = 1"
        )
    async with await Database.open(database) as opened:
        title = await opened.read(value, "SELECT title FROM conversations WHERE conversation_id = 1")
        assert title == "a\udcffb"
        found = "SELECT conversation_id FROM conversations WHERE title = ? AND conversation_id < ?"
        assert await opened.read(value, found, title, 5) == 1
        assert await opened.read(value, found, "\ud800", 5) is None


async def test_keys_are_asked_for_in_chunks(database: Path):
    async def read(reader: Reader) -> list[object]:
        sql = "SELECT seq FROM messages WHERE conversation_id = ? AND seq IN (?*)"
        return [row["seq"] for row in await reader.rows_in(sql, range(1, 1201), 1)]

    async with await Database.open(database) as opened:
        assert sorted(await opened.read(read)) == list(range(1, 385))
        assert opened.statements == 3


# -- following the file ------------------------------------------------------------------------------------


@contextmanager
def following(opened: Database):
    changes = []

    async def follow() -> None:
        nonlocal changes
        async for change in opened.watch():
            changes += [change]

    task = asyncio.get_running_loop().create_task(follow())
    try:
        yield changes
        assert not task.done(), task
    finally:
        task.cancel()


#: What another process does with a database, and whether its content is another then.
DOINGS = {
    "reads": ("c.execute('SELECT count(*) FROM messages').fetchall()", False),
    "rolls back": ("c.execute('BEGIN IMMEDIATE'); c.execute(update); c.execute('ROLLBACK')", False),
    "commits": ("c.execute(update)", True),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("doing", DOINGS)
@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_change_of_the_content_is_told_from_what_else_touches_the_file(
    database_copy: DatabaseFactory, mode: str, doing: str
):
    path = database_copy("0.15.3")
    with writer(path) as host:
        host.execute(f"PRAGMA journal_mode = {mode}")
    code, changes_content = DOINGS[doing]
    script = f"""import sqlite3, sys
update = "UPDATE conversations SET title = 'other'"
c = sqlite3.connect(sys.argv[1], isolation_level=None)
{code}
print(flush=True)
sys.stdin.read(1)
c.close()"""
    async with await Database.open(path) as opened:
        with following(opened) as changes:
            await seen_again(opened)
            changes.clear()
            command = [sys.executable, "-c", script, str(path)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
                assert other.stdout is not None
                await asyncio.to_thread(other.stdout.readline)
                await seen_again(opened)
                told = len([one for one in changes if one.content])
                await asyncio.to_thread(other.communicate, b".")
            await seen_again(opened)
            assert bool(told) is changes_content
            assert len([one for one in changes if one.content]) == told, "closing it is no change"


async def seen_again(opened: Database) -> None:
    """Wait until the file was looked at twice, long enough after it was written."""
    await asyncio.sleep(2 * TICK_NS / 1e9)
    await until(lambda: asyncio.sleep(0, opened.looks is not None))
    assert opened.looks is not None
    count = opened.looks.count
    await until(lambda: asyncio.sleep(0, opened.looks is not None and opened.looks.count >= count + 2))


def titled(opened: Database, title: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool(await opened.read(value, "SELECT title FROM conversations LIMIT 1") == title)

    return look


async def test_a_wal_that_appears_is_read_and_one_that_goes_is_missed_by_nobody(database: Path):
    async with await Database.open(database) as opened:
        assert opened.access is Access.IMMUTABLE
        with following(opened) as changes, writer(database) as host:
            host.execute("UPDATE conversations SET title = 'one'")
            await until(titled(opened, "one"))
            assert opened.access is Access.READ_ONLY
            await until(lambda: asyncio.sleep(0, bool(changes)))
            assert changes[-1].state == file_state(database)
            host.execute("UPDATE conversations SET title = 'two'")
            await until(titled(opened, "two"))
            host.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            host.execute("UPDATE conversations SET title = 'three'")
            await until(titled(opened, "three"))
            host.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            await until(titled(opened, "three"))
            assert opened.access is Access.READ_ONLY  # empty, but the host has the file open
            host.close()
            write(database, "four")
            await until(titled(opened, "four"))
    assert [path.name for path in database.parent.iterdir() if not path.name.endswith("-shm")] in (
        ["lcm.db"],
        ["lcm.db", "lcm.db-wal"],
        ["lcm.db-wal", "lcm.db"],
    )


async def test_a_host_that_comes_and_goes_finds_its_folder_as_it_left_it(database: Path):
    async with await Database.open(database) as opened:
        with following(opened):
            write(database, "one")  # opens, writes, checkpoints and removes the WAL
            await until(titled(opened, "one"))
            assert [path.name for path in database.parent.iterdir()] == ["lcm.db"]


async def test_a_host_that_leaves_while_nothing_is_read_takes_its_wal_along(database: Path):
    """SQLite removes it with the last connection; what is read afterwards must not make it anew."""
    before = os.listdir(database.parent)
    async with await Database.open(database) as opened:

        async def resting() -> bool:
            handle = opened._current()  # it has a user until its connections are closed
            return not handle._idle and not handle._users

        with following(opened), writer(database) as host:
            host.execute("UPDATE conversations SET title = 'one'")
            await until(titled(opened, "one"))
            assert opened.access is Access.READ_ONLY
            assert await opened.read(value, COUNT) > 0
            await until(resting)
            assert await opened.read(value, COUNT) > 0  # and opens again, as often as it is wanted
            await until(resting)
            host.close()
            assert os.listdir(database.parent) == before
            assert await opened.read(value, COUNT) > 0
            assert os.listdir(database.parent) == before
            assert opened.access is Access.IMMUTABLE
    assert os.listdir(database.parent) == before


async def test_a_host_that_leaves_between_the_look_and_the_opening_finds_nothing_in_its_folder(
    database: Path, monkeypatch: pytest.MonkeyPatch
):
    """SQLite would make a WAL of ours there, and a host that is another user could write no more."""
    look = opening_module.choose_access
    host = sqlite3.connect(database, isolation_level=None, check_same_thread=False)

    def then_leave(path: Path) -> Access:
        found = look(path)
        host.close()
        return found

    host.execute("UPDATE conversations SET title = 'one'")
    monkeypatch.setattr(opening_module, "choose_access", then_leave)
    async with await Database.open(database) as opened:
        assert opened.access is Access.IMMUTABLE
        assert await opened.read(value, "SELECT title FROM conversations LIMIT 1") == "one"
        assert os.listdir(database.parent) == ["lcm.db"]
    assert os.listdir(database.parent) == ["lcm.db"]


#: A host whose connection is the last to close: it locks the file until WAL and ``-shm`` are gone.
LEAVE = """
import fcntl, os, sys, time
path = sys.argv[1]
with open(path, "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 510, 0x40000002)
    print("leaving", flush=True)
    time.sleep(0.3)
    os.unlink(path + "-wal")
    os.unlink(path + "-shm")
"""


async def read_once(path: Path) -> None:
    async with await Database.open(path) as opened:
        assert opened.access is Access.IMMUTABLE
        assert await opened.read(value, COUNT) > 0


async def back_up(path: Path) -> None:
    made = await asyncio.to_thread(make_backup, path, path.with_name("copy"))
    assert made.access is Access.IMMUTABLE
    made.path.unlink()


@pytest.mark.parametrize("look", [read_once, back_up])
async def test_a_host_that_is_leaving_finds_nothing_of_ours_in_its_folder(
    database: Path, look: Callable[[Path], Awaitable[None]]
):
    """Where SQLite waits for it, it makes a WAL afterwards."""
    leave_wal(database, shm=True)
    with subprocess.Popen(
        [sys.executable, "-c", LEAVE, str(database)], stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        assert await asyncio.to_thread(host.stdout.readline) == "leaving\n"
        await look(database)
        assert os.listdir(database.parent) == ["lcm.db"]


async def test_the_file_is_not_looked_into_before_connections_are_opened_again(
    database: Path, monkeypatch: pytest.MonkeyPatch
):
    """Closing it drops the locks that SQLite holds on it by then (POSIX)."""
    looked: list[Path] = []
    look = opening_module.choose_access

    def noted(path: Path) -> Access:
        looked.append(path)
        return look(path)

    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'one'")
        async with await Database.open(database) as opened:
            await opened._current().rest(0)
            monkeypatch.setattr(opening_module, "choose_access", noted)
            await asyncio.gather(*(opened.read(value, COUNT) for _ in range(5)))
            assert not looked


async def test_reads_that_begin_while_connections_are_closed_are_answered(database: Path):
    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'one'")
        async with await Database.open(database) as opened:
            handle = opened._current()
            for steps in range(40):
                resting = asyncio.create_task(handle.rest(0))
                for _ in range(steps % 8):
                    await asyncio.sleep(0)
                assert await opened.read(value, COUNT) > 0
                await resting
            assert opened._current() is handle
        assert handle.closed


async def test_a_file_that_is_replaced_is_opened_again(database: Path, database_copy: DatabaseFactory):
    other = database_copy("0.8.2")
    async with await Database.open(database) as opened:
        assert opened.schema.has("focus_briefs")
        with following(opened) as changes:
            other.rename(database)
            await until(lambda: asyncio.sleep(0, changes))
            assert not opened.schema.has("focus_briefs")
            assert await opened.read(value, COUNT) > 0


async def test_a_file_that_goes_and_comes_back_is_told_and_read_again(database: Path):
    async with await Database.open(database) as opened:
        with following(opened) as changes:
            away = database.rename(database.with_name("away.db"))
            await until(lambda: asyncio.sleep(0, changes))
            assert changes[-1].state is None
            assert opened.state is None
            assert await opened.read(value, COUNT) > 0  # what was open stays readable
            write(away, "back")
            away.rename(database)
            await until(titled(opened, "back"))
            await until(lambda: asyncio.sleep(0, changes[-1].state))
            assert opened.state == file_state(database)


async def test_a_file_that_is_replaced_by_rubbish_is_tried_again_until_it_is_whole(database: Path):
    whole = database.read_bytes()
    async with await Database.open(database) as opened:
        with following(opened) as changes:
            database.write_bytes(b"half a copy")
            await until(lambda: asyncio.sleep(0, changes))
            write_back = database.with_name("new.db")
            write_back.write_bytes(whole)
            write(write_back, "whole")
            write_back.rename(database)
            await until(titled(opened, "whole"))


async def test_a_host_that_migrates_the_schema_is_followed(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    with writer(path) as host:
        host.execute("UPDATE conversations SET title = 'a WAL'")
        async with await Database.open(path) as opened:
            assert opened.access is Access.READ_ONLY
            with following(opened):
                host.execute("ALTER TABLE conversations ADD COLUMN session_key TEXT")
                await until(lambda: asyncio.sleep(0, opened.schema.has("conversations", "session_key")))
                assert opened.access is Access.READ_ONLY


async def test_a_copied_wal_is_copied_again_when_it_grows(
    database: Path, monkeypatch: pytest.MonkeyPatch, temporary_folder: Path
):
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, *rest: not str(path).endswith("-shm") and allowed(path, *rest)
    )
    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'one'")
        async with await Database.open(database) as opened:
            assert opened.access is Access.COPY
            with following(opened):
                host.execute("UPDATE conversations SET title = 'two'")
                await until(titled(opened, "two"))
                assert opened.access is Access.COPY
                await until(lambda: asyncio.sleep(0, len(list(temporary_folder.iterdir())) == 1))
    assert not list(temporary_folder.iterdir())


async def test_a_host_that_writes_all_the_time_is_not_copied_all_the_time(
    database: Path, monkeypatch: pytest.MonkeyPatch, temporary_folder: Path
):
    leave_wal(database, shm=False)
    monkeypatch.setattr(handle_module, "COPY_PAUSE", 1_000_000)
    async with await Database.open(database) as opened:
        [copy] = temporary_folder.iterdir()
        with following(opened) as changes:
            for _ in range(3):
                seen = len(changes)
                os.utime(sidecar(database, "-wal"))
                await until(lambda seen=seen: asyncio.sleep(0, len(changes) > seen))
        assert [copy] == list(temporary_folder.iterdir())


async def test_an_unwanted_copy_is_stopped_and_removed(
    database: Path, monkeypatch: pytest.MonkeyPatch, temporary_folder: Path
):
    leave_wal(database, shm=False)

    def endless(path: Path, stopped: Callable[[], bool]) -> Path:
        copy = private_copy(path, stopped)
        while not stopped():
            time.sleep(0.01)
        return copy

    monkeypatch.setattr(handle_module, "private_copy", endless)
    opening = asyncio.ensure_future(Database.open(database))
    await until(lambda: asyncio.sleep(0, list(temporary_folder.iterdir())))
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not list(temporary_folder.iterdir())


def test_a_copy_that_is_made_while_the_loop_ends_is_removed(
    database: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """`asyncio.run` cancels every task, also the one that waits for the thread."""
    leave_wal(database, shm=False)
    begun = threading.Event()

    def slowly(path: Path, stopped: Callable[[], bool]) -> Path:
        begun.set()
        made = private_copy(path, lambda: False)
        while not stopped():
            time.sleep(0.001)
        return made

    async def leave_early() -> None:
        opening = asyncio.ensure_future(Database.open(database))
        await asyncio.to_thread(begun.wait)
        assert not opening.done()

    monkeypatch.setattr(handle_module, "private_copy", slowly)
    asyncio.run(leave_early())
    assert list(temporary_folder.iterdir()) == []


async def test_what_may_be_torn_is_read_again(database: Path):
    tries = 0

    async def torn(reader: Reader) -> object:
        nonlocal tries
        tries += 1
        if tries == 1:
            write(database, "new")
            raise sqlite3.DatabaseError("database disk image is malformed")
        return await reader.value("SELECT title FROM conversations LIMIT 1")

    async with await Database.open(database) as opened:
        assert await opened.read(torn) == "new"
        assert tries == 2


async def test_reads_of_the_old_file_end_in_peace_when_it_is_opened_again(database: Path):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def read(reader: Reader) -> tuple[object, object]:
        before = await reader.value(COUNT)
        begun.set()
        await go_on.wait()
        return before, await reader.value(COUNT)

    async with await Database.open(database) as opened:
        reading = asyncio.create_task(opened.read(read))
        await begun.wait()
        with following(opened), writer(database) as host:
            host.execute("DELETE FROM messages WHERE message_id = 1")
            await until(lambda: asyncio.sleep(0, opened.access is Access.READ_ONLY))
            now = await opened.read(value, COUNT)
            go_on.set()
            before, after = await reading
            assert (before, after) == (now + 1, now + 1)


async def test_our_looking_at_the_file_keeps_the_locks_of_our_reads(database: Path):
    with writer(database) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0.1);"
        "c.execute('UPDATE conversations SET title = 5')"
    )
    arguments = [sys.executable, "-c", script, str(database)]
    holding, go_on = asyncio.Event(), asyncio.Event()

    async def read(reader: Reader) -> None:
        await reader.value(COUNT)
        holding.set()
        await go_on.wait()

    async with await Database.open(database) as opened:
        reading = asyncio.create_task(opened.read(read))
        await holding.wait()
        with following(opened) as changes:
            os.utime(database)  # the file is looked at again
            await until(lambda: asyncio.sleep(0, changes))
            run = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, check=False)
            assert b"database is locked" in run.stderr
        go_on.set()
        await reading


async def test_watching_ends_when_the_database_is_closed(database: Path):
    opened = await Database.open(database)

    async def follow() -> None:
        async for _ in opened.watch():
            pass

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await opened.close()
    async with asyncio.timeout(60):
        await task


@pytest.mark.cases(3)
@pytest.mark.parametrize("pause", [0.0005, 0.001, 0.002, 0.004, 0.008])
async def test_closing_waits_for_an_opening_that_was_given_up(
    database: Path, monkeypatch: pytest.MonkeyPatch, pause: float
):
    """Whoever ends with the loop right afterwards cancels what has not ended by then."""
    made: list[aiosqlite.Connection] = []
    connect = aiosqlite.Connection

    def noted(*args: Any, **kwargs: Any) -> aiosqlite.Connection:
        made.append(connect(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(aiosqlite, "Connection", noted)
    opened = await Database.open(database)
    for _ in range(20):
        opening = asyncio.create_task(opened.refresh())
        await asyncio.sleep(pause)
        opening.cancel()
    await opened.close()
    assert not [each for each in made if each._connection is not None]


LEAVING = """
import asyncio, sys
from pathlib import Path
from lcm_core.store.database import Database

async def leave() -> None:
    database = await Database.open(Path(sys.argv[1]))
    print(database.access.name)

asyncio.run(leave())
"""


@pytest.mark.long
def test_a_private_copy_goes_with_a_program_that_never_closes(database: Path, tmp_path: Path):
    leave_wal(database, shm=False)
    room = tmp_path / "room"
    room.mkdir()
    environment = {**os.environ, "TMPDIR": str(room)}
    command = [sys.executable, "-c", LEAVING, str(database)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "COPY\n", "")
    assert list(room.iterdir()) == []


async def test_a_file_that_is_gone_is_not_made_anew_by_a_second_read(
    database: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each read that runs beside another has a connection of its own, opened when it is needed.

    One that does not open has no thread: it could outlive the loop that it reports to.
    """
    async with await Database.open(database) as opened:
        monkeypatch.delattr(aiosqlite, "Connection")
        assert opened.access is Access.IMMUTABLE
        database.unlink()
        await asyncio.gather(*(opened.read(value, COUNT) for _ in range(4)), return_exceptions=True)
    assert os.listdir(database.parent) == []


async def test_what_a_live_host_does_not_mend_is_said_after_the_second_time(database: Path):
    """Its commits go on meanwhile, so the file is never as it was when it was opened."""
    tries = []
    with writer(database) as host:
        host.execute("UPDATE conversations SET title = 'a WAL'")

        async def load(reader: Reader) -> None:
            host.execute("UPDATE conversations SET title = title || '.'")
            tries.append(reader)
            await reader.rows("SELECT * FROM nowhere")

        async with await Database.open(database) as opened:
            assert opened.access is Access.READ_ONLY
            with pytest.raises(DatabaseError, match="no such table"):
                await opened.read(load)
    assert len(tries) == 2


async def test_what_is_wrong_with_a_file_that_is_written_all_the_time_is_said(tmp_path: Path):
    path, over = tmp_path / "notes.txt", threading.Event()
    path.write_text("no database, and a long one " * 10)

    def scribble() -> None:
        while not over.wait(0.002):
            os.utime(path)

    writing = asyncio.ensure_future(asyncio.to_thread(scribble))
    try:
        with pytest.raises(DatabaseError, match="is not a SQLite database"):
            await Database.open(path, busy_seconds=0.3)
    finally:
        over.set()
        await writing


async def test_a_refresh_sees_what_was_written_while_another_one_opened_the_file(
    database: Path, monkeypatch: pytest.MonkeyPatch
):
    """The other one opened it before that was written, and so did not see it."""
    opens, sees_all = handle_module.open_handle, handle_module.Handle.sees_all
    opened_before, asked, written = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def held_back(*given: Any) -> Any:
        handle = await opens(*given)
        opened_before.set()
        await written.wait()
        return handle

    async def noted(handle: Any, state: Any) -> bool:
        answer = await sees_all(handle, state)
        if opened_before.is_set():
            asked.set()
        return answer

    async with Database.open(database) as opened:
        with connect(database) as other:
            other.execute("CREATE TABLE first_added (id)")
            other.commit()
            monkeypatch.setattr(handle_module, "open_handle", held_back)
            monkeypatch.setattr(handle_module.Handle, "sees_all", noted)
            earlier = asyncio.create_task(opened.refresh())
            await opened_before.wait()
            other.execute("CREATE TABLE then_added (id)")
            other.commit()
            later = asyncio.create_task(opened.refresh())
            await asked.wait()
            written.set()
            await asyncio.gather(earlier, later)
            assert opened.schema.has("then_added")
