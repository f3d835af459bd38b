"""Large files and what refers to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lcm_core.api import Database, ExitCode, NotFoundError
from lcm_core.store.messages import get_file, list_files, references_to

from tests.databases import connect, reading
from tests.support import VERSIONS

DatabaseFactory = Callable[[str], Path]


async def test_files_are_listed_as_they_were_stored(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        every = await database.read(list_files)
        third = await database.read(list_files, 3)
        assert await database.read(lambda reader: list_files(reader, newest=4)) == every[-4:]
        assert await database.read(lambda reader: list_files(reader, 3, newest=2)) == third[-2:]
    assert len(every) == 11
    assert [one.file_id for one in third] == [one.file_id for one in every if one.conversation_id == 3]
    first = third[0]
    assert (first.file_id, first.file_name, first.byte_size) == (
        "file_0d4e9cd9791444c6",
        "export-dcdd.json",
        20061,
    )
    assert first.storage_uri == "/home/operator/.openclaw/lcm-files/3/file_0d4e9cd9791444c6.json"


async def test_what_this_version_does_not_record_is_none(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.1.2")) as database:
        assert [one.line_count for one in await database.read(list_files)] == [None] * 3


async def test_a_file_by_its_id(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        found = await database.read(get_file, "FILE_9BCD3A4617DC4952")
        assert (found.file_id, found.file_name) == ("file_9bcd3a4617dc4952", "scheduler.py")
        with pytest.raises(NotFoundError) as missing:
            await database.read(get_file, "file_0000000000000000")
    assert (missing.value.code, missing.value.exit_code) == ("FILE_NOT_FOUND", ExitCode.NOT_FOUND)


@pytest.mark.cases(4)
@pytest.mark.parametrize("version", [one for one in VERSIONS if one != "1.0-next"])  # that has no files
async def test_references_are_all_that_a_full_search_finds(version: str, database_file: DatabaseFactory):
    path = database_file(version)
    with reading(path) as raw:
        contents = raw.execute("SELECT message_id, content FROM messages ORDER BY message_id").fetchall()
        naming = raw.execute("SELECT summary_id, file_ids FROM summaries ORDER BY rowid").fetchall()
    async with await Database.open(path) as database:
        files = await database.read(list_files)
        assert files
        for file in files:
            found = await database.read(references_to, file)
            assert list(found.messages) == [key for key, text in contents if file.file_id in text]
            assert list(found.summaries) == [key for key, ids in naming if file.file_id in ids]
            assert found.messages


async def test_a_payload_moved_out_of_its_message_refers_to_its_file(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with connect(path) as raw:
        raw.execute("UPDATE summaries SET file_ids = '[]'")
        in_context, gone = (
            raw.execute(
                f"""SELECT message_id FROM messages WHERE conversation_id = 3 AND message_id {test}
                (SELECT message_id FROM context_items WHERE message_id IS NOT NULL) ORDER BY seq"""
            ).fetchone()[0]
            for test in ("IN", "NOT IN")
        )
        file_id = "file_0d4e9cd9791444c6"
        raw.execute(
            "UPDATE messages SET large_content = ? WHERE message_id IN (?, ?)", (file_id, in_context, gone)
        )
    async with await Database.open(path) as database:
        found = await database.read(references_to, await database.read(get_file, file_id))
    assert found.summaries == ()
    assert found.messages == (in_context,)  # the other one would take a search through all messages
