"""A file that is followed is looked at when Linux announces a write, and else several times a second."""

import asyncio
import contextlib
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.store import following
from lcm_core.store.following import Looks, Notices, file_system

from tests.conftest import DatabaseFactory
from tests.databases import connect

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux announces writes")


@pytest.fixture
def database(database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file on a file system that counts as one whose writes are announced, looked at once a minute."""
    path = database_copy("0.15.3")
    monkeypatch.setattr(following, "_LOCAL", {file_system(path)})
    monkeypatch.setattr(following, "CALM_SECONDS", 0.0)
    monkeypatch.setattr(following, "ANNOUNCED_SECONDS", 60.0)
    return path


@asynccontextmanager
async def followed(path: Path):
    """It is followed, and has been calm for a while."""
    changes = []

    async def follow() -> None:
        nonlocal changes
        async for change in opened.watch():
            changes += [change]

    async with Database.open(path) as opened:
        task = asyncio.create_task(follow())
        await at_rest(opened)
        yield opened, changes
        await opened.close()
        async with asyncio.timeout(10):  # not after a minute
            await task


def looks(opened: Database) -> int:
    return 0 if opened.looks is None else opened.looks.count


async def at_rest(opened: Database) -> None:
    before = -1
    async with asyncio.timeout(60):
        while before != (before := looks(opened)):
            await asyncio.sleep(4 * following.POLL_SECONDS)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def write(path: Path) -> None:
    with connect(path) as connection:
        connection.execute("UPDATE conversations SET title = coalesce(title, '') || '.'")


async def count(reader) -> object:
    return await reader.value("SELECT count(*) FROM messages")


async def test_a_calm_file_is_not_looked_at_until_it_is_written(database: Path) -> None:
    async with followed(database) as (opened, changes):
        before = looks(opened)
        await asyncio.sleep(1.5)
        assert looks(opened) == before
        for _ in range(2):
            write(database)
            await until(lambda: changes)
            await at_rest(opened)
            changes.clear()


@pytest.mark.long
async def test_a_wal_is_followed_when_it_is_there_and_when_it_comes(database: Path) -> None:
    async with followed(database) as (opened, changes):
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as host:
            host.execute("UPDATE conversations SET title = 'one'")
            await until(lambda: changes)
            await at_rest(opened)
            changes.clear()
            host.execute("UPDATE conversations SET title = 'two'")
            await until(lambda: changes)
            await at_rest(opened)
            changes.clear()
        await until(lambda: changes)


@pytest.mark.parametrize("leave", [os.remove, lambda path: os.replace(path, f"{path}.old")])
async def test_a_file_that_goes_and_comes_back_is_noticed(
    database: Path, leave: Callable[..., object]
) -> None:
    saved = database.read_bytes()
    async with followed(database) as (_, changes):
        leave(database)
        await until(lambda: changes and changes[-1].state is None)
        changes.clear()
        (other := database.with_name("other")).write_bytes(saved)
        os.replace(other, database)
        await until(lambda: changes and changes[-1].state is not None)


@pytest.mark.long
async def test_what_was_opened_to_read_a_calm_file_is_closed_soon(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as host:
        host.execute("UPDATE conversations SET title = 'one'")
        async with followed(database) as (opened, _):
            before = looks(opened)
            assert await opened.read(count)
            assert opened._handle is not None
            await until(lambda: opened._handle is None or opened._handle.rests)
            await at_rest(opened)
            assert looks(opened) - before < 8


@pytest.mark.long
async def test_other_files_of_its_folder_cost_no_more_than_looking(database: Path) -> None:
    async with followed(database) as (opened, changes):
        before, began = looks(opened), asyncio.get_running_loop().time()
        for number in range(200):
            database.with_name(f"log{number}").touch()
            await asyncio.sleep(0.005)
        passed = asyncio.get_running_loop().time() - began
        assert looks(opened) - before <= 2 + passed / following.POLL_SECONDS
        assert not changes


async def test_a_file_system_that_announces_nothing_is_looked_at(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_LOCAL", frozenset())
    with pytest.raises(OSError, match="another computer"):
        Notices(database)
    stirred = asyncio.Event()
    with contextlib.closing(Looks(database, stirred)) as plain:
        for each in range(1, 4):
            await plain.next(calm=True)
            assert plain.count == each


async def test_a_write_that_was_not_announced_ends_the_trust(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ANNOUNCED_SECONDS", 2.0)
    monkeypatch.setattr(following, "_OF_FILE", following._DELETE_SELF)
    async with followed(database) as (opened, changes):
        with database.open("rb") as file:
            os.utime(file.fileno(), (1, 1))
        await until(lambda: changes)
        monkeypatch.setattr(following, "ANNOUNCED_SECONDS", 60.0)
        before = looks(opened)
        await until(lambda: looks(opened) > before + 5)


def test_the_file_system_of_a_file_is_that_of_its_nearest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "28 27 0:9 / /mnt/a\\040share rw - nfs4 there:/x rw\n"
        "29 27 0:9 / /mnt/a rw shared:1 master:2 - tmpfs none rw\n"
    )
    monkeypatch.setattr(following, "_MOUNTS", table)
    found = {
        name: file_system(Path(name))
        for name in ("/x/lcm.db", "/mnt/a share/lcm.db", "/mnt/a/lcm.db", "/mnt/ab")
    }
    assert list(found.values()) == ["ext4", "nfs4", "tmpfs", "ext4"]
    table.unlink()
    assert file_system(Path("/x")) == ""
