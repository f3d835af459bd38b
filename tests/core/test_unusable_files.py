"""Files that SQLite refuses, or should not be let near: what is said of each; nothing waits for ever."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lcm_core.api import Database, DatabaseBusyError, DatabaseError, restore
from lcm_core.change.connection import open_writer
from lcm_core.change.plan import BusyError
from lcm_core.store import opening
from lcm_core.store.opening import Access, sidecar
from lcm_core.store.wal import examine_wal

from tests.conftest import DatabaseFactory
from tests.databases import connect

COUNT = "SELECT count(*) FROM messages"
#: Holds every lock of a file that SQLite takes, until its input ends.
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 600, 0x40000000)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def database(database_copy: DatabaseFactory) -> Path:
    """A database in WAL mode without a WAL, as a host leaves it."""
    return database_copy("0.15.3")


async def refused(path: Path) -> DatabaseError:
    with pytest.raises(DatabaseError) as raised:
        await Database.open(path, busy_seconds=0.3)
    return raised.value


async def count(opened: Database) -> int:
    return int(await opened.read(lambda reader: reader.value(COUNT)))


def leave_wal(path: Path, *, shm: bool = False) -> None:
    """Put a WAL with one more message beside *path*, as a host that died leaves it."""
    work = path.parent / "work"
    work.mkdir()
    with connect(Path(shutil.copy(path, work / "lcm.db"))) as host:
        host.execute("PRAGMA wal_autocheckpoint = 0")
        host.execute("DELETE FROM messages WHERE message_id = (SELECT max(message_id) FROM messages)")
        for suffix in ("-wal", "-shm") if shm else ("-wal",):
            shutil.copy(work / f"lcm.db{suffix}", sidecar(path, suffix))
    shutil.rmtree(work)


# -- something else than a file where SQLite keeps one ------------------------------------------------------


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        work = os.getcwd()
        os.chdir(path.parent)  # its name may have 108 bytes
        try:
            listener.bind(path.name)
        finally:
            os.chdir(work)


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is a pipe"),
        (bind_socket, "is a socket"),
        (lambda path: path.symlink_to("/dev/null"), "is a device"),
        (lambda path: path.symlink_to("gone"), "is a link to something that is not there"),
    ],
    ids=["folder", "pipe", "socket", "device", "dead link"],
)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_what_is_no_file_is_named_and_not_waited_for(
    database: Path, make: Callable[[Path], None], said: str, suffix: str, mode: str
):
    with connect(database) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    other = database.with_name("backup.db")
    shutil.copy(database, other)
    make(sidecar(database, suffix))
    with pytest.raises(DatabaseError) as restoring:
        await asyncio.to_thread(restore, other, database)
    messages = ((await refused(database)).message, _refused_to_write(database), restoring.value.message)
    for message in messages:
        assert said in message
        assert f"{database.name}{suffix}" in message


def _refused_to_write(path: Path) -> str:
    with pytest.raises(DatabaseError) as raised, open_writer(path, 0.3) as writer:
        writer.begin()
    return raised.value.message


# -- the first page ---------------------------------------------------------------------------------------


@pytest.mark.cases(7)
@pytest.mark.parametrize("size", [16, 100, 512, 4096])
@pytest.mark.parametrize("value", [0, 0xFF, 0xE5])
@pytest.mark.parametrize("wal", [False, True])
async def test_a_lost_first_page_is_damage_and_no_encryption(
    database: Path, size: int, value: int, wal: bool
):
    if wal:
        leave_wal(database)
    content = database.read_bytes()
    database.write_bytes(bytes([value]) * size + content[size:])
    error = await refused(database)
    assert error.code == "DATABASE_CORRUPT"
    assert "damaged" in error.message
    assert "encrypt" not in error.message
    assert ("Keep lcm.db-wal" in error.message) == wal


@pytest.mark.cases(8)
@pytest.mark.parametrize("place", range(16))
async def test_a_flipped_byte_of_the_magic_is_damage_too(database: Path, place: int):
    content = bytearray(database.read_bytes())
    content[place] ^= 0x20
    database.write_bytes(content)
    assert "is damaged" in (await refused(database)).message


async def test_a_file_of_random_bytes_may_be_encrypted(tmp_path: Path):
    (tmp_path / "lcm.db").write_bytes(bytes(range(255, -1, -1)) * 64)
    assert "encrypted" in (await refused(tmp_path / "lcm.db")).message


# -- the WAL of another file --------------------------------------------------------------------------------


@pytest.mark.cases(4)
@pytest.mark.parametrize("page_size", [1024, 4096, 16384])
@pytest.mark.parametrize("shm", [False, True])
async def test_a_file_with_the_wal_of_another_is_said_to_be_sound_without_it(
    database: Path, tmp_path: Path, page_size: int, shm: bool
):
    other = tmp_path / "other" / "lcm.db"
    other.parent.mkdir()
    with connect(other) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE messages (a, b)")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.executemany("INSERT INTO messages VALUES (?, ?)", [(n, "text" * 90) for n in range(90)])
        for suffix in ("-wal", "-shm") if shm else ("-wal",):
            shutil.copy(sidecar(other, suffix), sidecar(database, suffix))
    before = database.read_bytes()
    error = await refused(database)
    assert error.code == "WAL_OF_ANOTHER_FILE"
    assert "sound without its -wal" in error.message
    assert database.read_bytes() == before


async def test_damage_with_a_wal_is_damage_when_the_file_alone_has_it_too(database: Path):
    leave_wal(database)
    content = bytearray(database.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    database.write_bytes(content)
    assert (await refused(database)).code == "DATABASE_CORRUPT"


# -- a file system without locks or shared memory -----------------------------------------------------------


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process has the locks of *path*: SQLite says "busy", as where no lock can be had."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.communicate(b"")


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lock that this program asks for itself fails, as on such a file system."""

    def fail(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", fail)


@pytest.mark.parametrize(
    ("mode", "access"), [("wal", Access.COPY), ("delete", Access.IMMUTABLE)], ids=["wal", "journal"]
)
@pytest.mark.usefixtures("no_locks")
async def test_a_file_without_locks_is_read_and_a_change_says_what_is_missing(
    database: Path, mode: str, access: Access
):
    with connect(database) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        (messages,) = connection.execute(COUNT).fetchone()
    if mode == "wal":
        leave_wal(database, shm=True)
        messages -= 1
    with held(database):
        async with await Database.open(database, busy_seconds=60) as opened:
            assert (opened.access, await count(opened)) == (access, messages)
            assert await opened.read(lambda reader: reader.value(COUNT)) == messages
        message = _refused_to_write(database)
    assert "no working file locks" in message
    assert "process" not in message


async def test_a_file_that_somebody_holds_is_still_busy(database: Path):
    with connect(database) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    with held(database):
        assert isinstance(await refused(database), DatabaseBusyError)
        with pytest.raises(BusyError), open_writer(database, 0.1) as writer:
            writer.begin()


@pytest.mark.parametrize("name", ["SHMMAP", "SHMLOCK", "LOCK", "RDLOCK", "UNLOCK"])
@pytest.mark.parametrize("wal", [True, False])
def test_shared_memory_that_fails_leads_to_another_way_in(database: Path, name: str, wal: bool):
    if wal:
        leave_wal(database, shm=True)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_IOERR_{name}")
    error.sqlite_errorname = f"SQLITE_IOERR_{name}"
    way = opening.Way(Access.READ_ONLY, database, beside_wal=wal)
    instead = way.instead(error, opening.file_state(database))
    assert instead is not None
    assert instead.access is (Access.COPY if wal else Access.IMMUTABLE)
    assert "no working file locks or no shared memory" in opening.explain(error, database).message


def test_looking_whether_locks_work_drops_none_of_ours(database: Path):
    with open_writer(database, 0.1) as writer:
        writer.begin()
        assert opening.locks_work(database)
        other = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')",
                str(database),
            ],
            capture_output=True,
        )
        assert b"database is locked" in other.stderr
        writer.rollback()
    assert examine_wal(database) is None
