"""No other part of this process takes the locks of a commit away: closing any descriptor drops them all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from lcm_core.api import Database, migrate
from lcm_core.base.errors import CancelledError
from lcm_core.change import reindex as reindex_module
from lcm_core.change.commit import commit
from lcm_core.change.plan import BusyError
from lcm_core.change.reindex import reindex, resync
from lcm_core.change.undo import forget_history, prune_history
from lcm_core.store.conversations import list_conversations
from lcm_core.store.opening import choose_access, private_copy, remove_copy, undisturbed

from tests.change.support import plan_of, update
from tests.databases import connect, run, value

#: Whether another process gets the write lock.
TRY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError:
    print("held")
"""


def lock_of(path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", TRY, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def a_plan(path: Path):
    leaf = value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf'")
    return plan_of(update(path, "summaries", "summary_id", leaf, content="new"))


def copy_it(path: Path) -> None:
    remove_copy(private_copy(path, lambda: False))


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("mode", "look", "by_hand"),
    [("wal", choose_access, False), ("delete", choose_access, True)]
    + [(mode, copy_it, True) for mode in ("wal", "delete")],
)
def test_who_looks_into_the_file_waits_for_the_commit_or_leaves_it_closed(database_copy, mode, look, by_hand):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    looked, seen = threading.Event(), {}

    def looking() -> None:
        look(path)
        looked.set()

    def fault(step: str) -> None:
        if step == "begun":
            seen["thread"] = threading.Thread(target=looking)
            seen["thread"].start()
            time.sleep(0.2)
            seen["looked"] = looked.is_set()
            seen["lock"] = lock_of(path)

    commit(path, a_plan(path), fault=fault)
    seen["thread"].join()
    assert seen["lock"] == "held"
    assert seen["looked"] is not by_hand
    assert looked.is_set()


@pytest.mark.long
@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_an_app_that_reads_and_watches_leaves_the_lock_alone(database_copy, mode):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    locks: list[str] = []

    def fault(step: str) -> None:
        if step in ("begun", "applied 0", "journaled"):
            time.sleep(0.5)  # the watch looks five times a second
            locks.append(lock_of(path))

    async with await Database.open(path) as database:

        async def follow() -> None:
            async for _ in database.watch():
                await database.read(list_conversations)

        following = asyncio.create_task(follow())
        reading = asyncio.create_task(_keep_reading(database))
        await asyncio.to_thread(commit, path, a_plan(path), fault=fault)
        for task in (following, reading):
            task.cancel()
        await asyncio.gather(following, reading, return_exceptions=True)
    assert locks == ["held"] * 3


async def _keep_reading(database: Database) -> None:
    while True:
        await database.read(list_conversations)
        await asyncio.sleep(0.02)


WRITERS = {
    "prune_history": ("0.15.3", prune_history),
    "reindex": ("0.15.3", reindex),
    "resync": ("0.15.3", lambda path, **rest: resync(path, ["messages_fts"], **rest)),
    "migrate": ("0.3.0", migrate),
    "forget_history": ("0.15.3", lambda path, **rest: forget_history(path, 1, **rest)),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", WRITERS)
def test_who_waits_for_the_lock_can_be_stopped(database_copy, name: str):
    version, write = WRITERS[name]
    path = database_copy(version)
    if version == "0.15.3":
        commit(path, a_plan(path))  # there is a history
    run(path, "DELETE FROM messages_fts WHERE rowid < 9")
    before, asked = path.read_bytes(), []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 2

    with connect(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(CancelledError, match="Cancelled"):
            write(path, wait=60, stopped=stopped)
        holder.execute("ROLLBACK")
    assert path.read_bytes() == before
    with connect(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            write(path, wait=0.2, stopped=lambda: False)
        holder.execute("ROLLBACK")
    write(path, stopped=lambda: False)


def test_what_is_mended_in_pieces_is_stopped_between_two(database_copy, monkeypatch):
    path = database_copy("0.15.3")
    monkeypatch.setattr(reindex_module, "PAGE", 2)
    run(path, "DELETE FROM messages_fts WHERE rowid < 9")
    gone = "SELECT count(*) FROM messages WHERE message_id NOT IN (SELECT rowid FROM messages_fts)"
    missing = value(path, gone)
    with pytest.raises(CancelledError, match="stay updated"):
        resync(path, ["messages_fts"], stopped=lambda: value(path, gone) < missing)
    assert 0 < value(path, gone) < missing


def test_two_commits_of_one_process_take_turns(database_copy):
    path = database_copy("0.15.3")
    plan = a_plan(path)
    with undisturbed(path), pytest.raises(BusyError) as caught:
        commit(path, plan, wait=0.1)
    assert caught.value.waited >= 0.1
    commit(path, plan)


def test_a_guard_is_one_for_all_names_of_a_file(database_copy):
    path = database_copy("0.15.3")
    link = path.with_name("link.db")
    link.symlink_to(path)
    with undisturbed(link), pytest.raises(BusyError):
        commit(path, a_plan(path), wait=0.1)
