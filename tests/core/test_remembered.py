"""What is remembered of a file: it is never wrong, and nobody misses it when it is gone or damaged."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.base.files import cache_path, forget_cache
from lcm_core.base.values import replace
from lcm_core.change.guard import OWN_TABLES
from lcm_core.store import remembered
from lcm_core.store.conversations import count_rows, first_words, list_conversations
from lcm_core.store.remembered import Figures, FileMemory, Memory, Place, Verdict, mark_of, place_of, since
from lcm_core.store.statistics import History, Statistics, statistics_of, sums_of, sums_since, text_bytes

from tests.conftest import DatabaseFactory
from tests.databases import building, connect, run

FIGURES = ".figures"
JOURNAL = "lcm_tui_operations"
TICK_NS = 20_000_000


async def figures_of(reader) -> tuple[Figures, ...]:
    entries = await list_conversations(reader)
    ids = [one.conversation.conversation_id for one in entries]
    counts, words = await count_rows(reader, ids), await first_words(reader, ids)
    sums = [await sums_of(reader, one) for one in ids]
    return tuple(
        Figures(
            entry.conversation.created_at, entry.last_activity, count, summed, words[count.conversation_id]
        )
        for entry, count, summed in zip(entries, counts, sums, strict=True)
    )


async def memory_of(path: Path) -> Memory:
    await settled(path)
    async with Database.open(path) as database:
        figures, place = await database.read(figures_of), await database.read(place_of)
    mark = mark_of(path)
    assert mark is not None
    return Memory(mark, place, figures, mark, Verdict(68, 4, 2, 1, 124, at=1.5), mark)


async def settled(path: Path) -> None:
    """Wait until the last write lies back further than a clock tick."""
    while mark_of(path) is None:
        await asyncio.sleep(TICK_NS / 1e9)


async def came(path: Path, place: Place) -> remembered.Since | None:
    async with Database.open(path) as database:
        return await database.read(since, place)


async def test_it_is_private_and_comes_back_as_it_was(database_copy: DatabaseFactory, tmp_path: Path):
    path, folder = database_copy("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    assert remembered.remember(path, memory, folder)
    assert remembered.recall(path, folder) == memory
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert forget_cache(path, folder) == 1
    assert remembered.recall(path, folder) is None


def damage(text: bytes) -> bytes:
    return text.replace(b'"messages":', b'"messages":' + b"9" * 40, 1)


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "truncated": lambda text: text[: len(text) // 2],
    "no text": lambda text: text[:100] + b"\xff\xfe" + text[100:],
    "another program's": lambda _: b'{"shares": {}}',
    "a database": lambda _: b"SQLite format 3\x00" + bytes(4096),
    "another format": lambda text: text.replace(b'"format":3', b'"format":2'),
    "another version of ours": lambda text: text.replace(b'"program":"', b'"program":"9'),
    "a huge number": damage,
    "a number that is none": lambda text: text.replace(b'"messages":', b'"messages":"x', 1),
    "nested without end": lambda _: b"[" * 100_000,
    "figures of another conversation": lambda text: text.replace(
        b'"conversationId":1,', b'"conversationId":7,', 1
    ),
    "too large": lambda text: text + b" " * remembered.MOST_BYTES,
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("how", DAMAGED)
async def test_what_is_damaged_or_foreign_is_as_nothing(
    database_file: DatabaseFactory, tmp_path: Path, how: str
):
    path, folder = database_file("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    assert remembered.remember(path, memory, folder)
    file = cache_path(path, FIGURES, folder)
    written = DAMAGED[how](file.read_bytes())
    assert written != file.read_bytes()
    file.write_bytes(written)
    assert remembered.recall(path, folder) is None
    assert remembered.remember(path, memory, folder)
    assert remembered.recall(path, folder) == memory


async def test_where_nothing_can_be_written_nothing_is_remembered(
    database_file: DatabaseFactory, tmp_path: Path
):
    path, folder = database_file("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    folder.write_text("not a folder")
    assert not remembered.remember(path, memory, folder)
    assert remembered.recall(path, folder) is None
    folder.unlink()
    cache_path(path, FIGURES, folder).mkdir(parents=True)
    assert not remembered.remember(path, memory, folder)
    assert remembered.recall(path, folder) is None
    held = FileMemory(path, allowed=True, folder=folder)
    await held.keep(memory.file, memory.place, memory.conversations, exact=True)
    assert await held.recall() is not None  # for this run


async def test_without_leave_nothing_is_read_or_written(database_file: DatabaseFactory, tmp_path: Path):
    path, folder = database_file("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    held = FileMemory(path, allowed=False, folder=folder)
    await held.keep(memory.file, memory.place, memory.conversations, exact=True)
    assert memory.verdict is not None
    await held.judge(memory.file, memory.verdict)
    assert await held.recall() is None
    assert not folder.exists()
    assert remembered.remember(path, memory, folder)
    assert await FileMemory(path, allowed=False, folder=folder).recall() is None


async def read_history(path: Path, folder: Path) -> tuple[History, int]:
    """What was said in the first conversation, and how many statements of the reader that took."""
    asked = []

    async def load(reader, memory: FileMemory) -> History:
        ask = reader.row
        reader.row = lambda *sql: asked.append(sql) or ask(*sql)
        try:
            return await memory.history_of(reader, 1)
        finally:
            del reader.row

    async with Database.open(path) as database:
        memory = FileMemory(path, allowed=True, folder=folder, access=lambda: database.access.value)
        return await database.read(load, memory), len(asked)


async def test_the_sum_of_a_long_conversation_is_read_once(
    database_copy: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, folder = database_copy("0.15.3"), tmp_path / "cache"
    await settled(path)
    short, _ = await read_history(path, folder)
    assert not folder.exists()  # it costs nothing to read
    monkeypatch.setattr(remembered, "LONG", 1)
    assert await read_history(path, folder) == (short, 1)
    assert await read_history(path, folder) == (short, 0)
    # Count and ids stay; the file says something else.
    run(path, "UPDATE messages SET token_count = token_count + 5 WHERE conversation_id = 1")
    heavier = replace(short, tokens=short.tokens + 5 * short.messages)
    assert await read_history(path, folder) == (heavier, 1)
    await settled(path)
    assert (await read_history(path, folder))[0] == heavier
    assert await read_history(path, folder) == (heavier, 0)


async def test_the_sum_of_an_unchanged_file_is_taken_from_the_figures(
    database_copy: DatabaseFactory, tmp_path: Path
):
    path, folder = database_copy("0.15.3"), tmp_path / "cache"
    async with Database.open(path) as database:
        access = database.access.value
    memory = await memory_of(path)
    mark = replace(memory.file, access=access)
    assert remembered.remember(path, replace(memory, file=mark, mark=mark), folder)
    known, statements = await read_history(path, folder)
    [figures] = [one for one in memory.conversations if one.sums.conversation_id == 1]
    assert (known, statements) == (figures.sums.history, 0)
    run(path, "UPDATE messages SET token_count = token_count + 1 WHERE conversation_id = 1")
    assert await read_history(path, folder) == (replace(known, tokens=known.tokens + known.messages), 1)


async def test_the_statistics_of_a_long_conversation_are_read_once(
    database_copy: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, folder, asked = database_copy("0.15.3"), tmp_path / "cache", list[int]()

    async def noted(reader, conversation_id):
        asked.append(conversation_id)
        return await statistics_of(reader, conversation_id)

    async def load(reader, memory: FileMemory):
        return await memory.statistics_of(reader, [1, 2, 3])

    async def read() -> tuple[dict[int, Statistics], list[int]]:
        asked.clear()
        await settled(path)
        async with Database.open(path) as database:
            memory = FileMemory(path, allowed=True, folder=folder, access=lambda: database.access.value)
            return await database.read(load, memory), list(asked)

    monkeypatch.setattr(remembered, "statistics_of", noted)
    known, _ = await read()
    assert not folder.exists()  # they cost nothing to read
    longest = max(known, key=lambda one: known[one].messages.count)
    others = [one for one in known if one != longest]
    monkeypatch.setattr(remembered, "LONG", known[longest].messages.count)
    assert await read() == (known, [1, 2, 3])
    assert await read() == (known, others)
    assert (await read_history(path, folder))[1] == 1  # both are kept
    assert await read() == (known, others)
    run(path, f"UPDATE messages SET token_count = token_count + 5 WHERE conversation_id = {longest}")
    heavier, again = await read()
    assert again == [1, 2, 3]
    assert heavier[longest].messages.tokens == (
        known[longest].messages.tokens + 5 * known[longest].messages.count
    )


async def test_several_at_once_leave_a_whole_one(database_file: DatabaseFactory, tmp_path: Path):
    path, folder = database_file("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    others = [replace(memory, verdict=Verdict(number, 0, 0, 0, 0)) for number in range(20)]
    with ThreadPoolExecutor(4) as threads:
        kept = [threads.submit(remembered.remember, path, one, folder) for one in others]
        read = [remembered.recall(path, folder) for _ in range(20)]
        assert all(one.result() for one in kept)
    assert all(one is None or one in others for one in read)
    assert remembered.recall(path, folder) in others
    assert len(list(folder.iterdir())) == 1


async def test_a_text_that_cannot_be_written_costs_only_its_conversation(
    database_copy: DatabaseFactory, tmp_path: Path
):
    path, folder = database_copy("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    first, *rest = memory.conversations
    odd = replace(memory, conversations=(replace(first, words="caf\udce9"), *rest))
    assert remembered.remember(path, odd, folder)
    assert remembered.recall(path, folder) == replace(memory, conversations=tuple(rest))


# -- what identifies a file ----------------------------------------------------------------------------------


async def test_a_mark_changes_with_every_commit_and_with_nothing_else(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    await settled(path)
    mark = mark_of(path)
    async with Database.open(path) as database:
        await database.read(figures_of)
    assert mark_of(path) == mark
    with connect(path) as host:
        host.execute("PRAGMA journal_mode = WAL")
        for number in range(5):
            host.execute("UPDATE messages SET token_count = ? WHERE message_id = 1", (number,))
            await settled(path)
            before, mark = mark, mark_of(path)
            assert mark not in (None, before)
    size = path.stat().st_size
    os.truncate(path, size)
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))
    await settled(path)
    assert mark_of(path) != mark


async def test_a_mark_is_of_one_file(database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("0.15.3")
    await settled(path)
    mark = mark_of(path)
    copied = tmp_path / "copy.db"
    copied.write_bytes(path.read_bytes())
    copied.replace(path)
    await settled(path)
    other = mark_of(path)
    assert mark is not None
    assert other is not None
    assert not mark.is_of(other)
    path.unlink()
    assert mark_of(path) is None


async def test_what_is_remembered_of_another_file_is_not_taken(
    database_copy: DatabaseFactory, tmp_path: Path
):
    path, folder = database_copy("0.15.3"), tmp_path / "cache"
    memory = await memory_of(path)
    remembered.remember(path, memory, folder)
    assert await FileMemory(path, allowed=True, folder=folder).recall() == memory
    copied = tmp_path / "copy.db"
    copied.write_bytes(path.read_bytes())
    copied.replace(path)
    await settled(path)
    assert await FileMemory(path, allowed=True, folder=folder).recall() is None


# -- what came since -----------------------------------------------------------------------------------------


async def test_messages_and_summaries_that_came_name_their_conversations(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    place = (await memory_of(path)).place
    found = await came(path, place)
    assert found is not None
    assert not found.grown
    assert not found.operated
    assert found.place == place
    with building(path) as rows:
        rows.message(1, "x", seq=9000, in_context=False)
        rows.summary(3, "sum_new")
    found = await came(path, place)
    assert found is not None
    assert found.grown == {1, 3}
    again = await came(path, found.place)
    assert again is not None
    assert not again.grown


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM messages WHERE message_id = (SELECT max(message_id) FROM messages)",
        "DELETE FROM summaries WHERE rowid = (SELECT max(rowid) FROM summaries)",
        "ALTER TABLE messages ADD COLUMN more TEXT",
        "CREATE INDEX another ON messages (role)",
    ],
)
async def test_what_was_taken_away_or_migrated_is_read_anew(database_copy: DatabaseFactory, statement: str):
    path = database_copy("0.15.3")
    place = (await memory_of(path)).place
    with connect(path) as host:
        host.execute("PRAGMA foreign_keys = OFF")
        host.execute(statement)
    assert await came(path, place) is None


def note(path: Path, name: str, owner: int | None) -> None:
    row = {"id": name, "kind": "rewrite", "conversation_id": owner, "title": "t", "resolution": b""}
    more = dict.fromkeys(("removed_findings", "row_counts", "tool_version", "created_at"), "")
    with connect(path) as host:
        host.execute(OWN_TABLES[JOURNAL])
        values = {**row, **more, "tokens": 0}
        host.execute(
            f"INSERT INTO {JOURNAL} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            tuple(values.values()),
        )


async def test_operations_of_ours_name_theirs_and_one_that_is_gone_means_anything(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    note(path, "op_1", 1)
    place = (await memory_of(path)).place
    assert place.operation is not None
    note(path, "op_2", 2)
    found = await came(path, place)
    assert found is not None
    assert found.operated == {2}
    note(path, "op_3", None)
    assert await came(path, place) is None
    run(path, "DELETE FROM lcm_tui_operations WHERE id IN ('op_1', 'op_3')")
    assert await came(path, place) is None


# -- the sums ------------------------------------------------------------------------------------------------


async def test_sums_have_the_bytes_of_all_texts(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with Database.open(path) as database:
        for one in await database.read(figures_of):
            key = one.sums.conversation_id
            assert one.sums.bytes == (await database.read(text_bytes, [key])).get(key, 0)
    with building(path) as rows:
        rows.message(1, "Größe", seq=9000, in_context=False)
        rows.summary(1, "sum_new")
    async with Database.open(path) as database:
        known = one_of(await database.read(figures_of), 1)
        assert await database.read(sums_since, known.sums) == await database.read(
            sums_of, known.sums.conversation_id
        )


def one_of(figures: tuple[Figures, ...], key: int) -> Figures:
    return next(one for one in figures if one.sums.conversation_id == key)


def test_the_file_is_text_that_a_person_can_look_into(tmp_path: Path):
    mark = remembered.FileMark(1, 2, 3, 4, 5)
    assert remembered.remember(tmp_path / "x.db", Memory(mark, Place(0)), tmp_path)
    assert json.loads(cache_path(tmp_path / "x.db", FIGURES, tmp_path).read_text())["format"] == 3
