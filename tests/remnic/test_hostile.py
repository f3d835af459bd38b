"""Files that nobody should have written: refused in a sentence, or read for what they are worth."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import DatabaseError, LcmError, RefusedError
from lcm_core.base.errors import FileMissingError
from lcm_remnic.importing import read_contents, read_session
from lcm_remnic.write import create

from tests.conftest import DatabaseFactory
from tests.databases import building, new_database
from tests.remnic.store import all_rows, check_import, check_search, new_remnic, opened
from tests.remnic.support import differences, imported, previewed
from tests.support import sampled

#: What a column may hold whatever its type.
_ODD: tuple[Any, ...] = (
    None,
    b"\xff\x00",
    "\x1b]0;x\x07",
    -1,
    2**63 - 1,
    -(2**63),
    1e308,
    "12abc",
    '{"lcm_tui":{"message_id":9223372036854775807,"a\\"b":1,"created_at":{"$text":"!"}},"source_seq":1e99}',
    '{"conversation_id":"' + "9" * 5000 + '","source":"lossless-claw","source_seq":3}',
    '{"conversation_id":7,"source":"lossless-claw","source_seq":4611686018427387904}',
    "[" * 3000,
)


@pytest.fixture
def remnic(tmp_path: Path) -> Path:
    return new_remnic(tmp_path / "lcm.sqlite")


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(200)])
def test_what_is_no_database_is_refused(content: bytes, tmp_path: Path, database_file: DatabaseFactory):
    path = tmp_path / "lcm.sqlite"
    path.write_bytes(content)
    with pytest.raises(DatabaseError):
        read_contents(path)
    with pytest.raises(DatabaseError):
        imported(database_file("1.0-next"), path)
    assert path.read_bytes() == content


def test_another_program_s_database_is_refused(tmp_path: Path, database_file: DatabaseFactory):
    other = new_database(tmp_path / "lcm.db")
    with pytest.raises(DatabaseError, match="not a Remnic database: it has no table 'lcm_messages'"):
        previewed(database_file("1.0-next"), other)
    with pytest.raises(FileMissingError):
        read_contents(tmp_path / "missing")
    with pytest.raises(FileMissingError):
        read_contents(tmp_path)


def test_a_schema_that_is_not_known_is_read_and_not_written(remnic: Path, database_file: DatabaseFactory):
    with opened(remnic) as db:
        db.execute("UPDATE lcm_meta SET value = '3'")
    assert read_contents(remnic).version == "3"
    with pytest.raises(RefusedError, match="schema '3' of Remnic"):
        imported(database_file("1.0-next"), remnic)
    assert read_contents(remnic).sessions == ()


@pytest.mark.long
def test_a_new_database_is_as_remnic_writes_one(tmp_path: Path, database_file: DatabaseFactory):
    made, like = tmp_path / "deep" / "made.sqlite", new_remnic(tmp_path / "like.sqlite")
    create(made)
    described = []
    for path in (made, like):
        with opened(path) as db:
            tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            described.append(
                {
                    name: [(row[1], row[2], row[5]) for row in db.execute(f"PRAGMA table_info({name})")]
                    for name in tables
                }
            )
    assert described[0] == described[1]
    imported(database_file("1.0-next"), made)
    check_import(database_file("1.0-next"), made)
    with pytest.raises(RefusedError, match="already exists"):
        create(made)


def test_a_damaged_search_table_holds_nothing_up(remnic: Path, database_file: DatabaseFactory):
    with opened(remnic) as db:
        db.execute("UPDATE lcm_messages_fts_data SET block = x'00'")
    imported(database_file("1.0-next"), remnic)
    with opened(remnic) as db:
        assert db.execute("SELECT count(*) FROM lcm_messages").fetchone() == (268,)


@pytest.mark.long
def test_a_missing_search_table_is_no_matter(remnic: Path, database_file: DatabaseFactory):
    with opened(remnic) as db:
        db.execute("DROP TABLE lcm_messages_fts")
    imported(database_file("1.0-next"), remnic)
    assert differences(database_file("1.0-next"), remnic) == []


@pytest.mark.long
def test_every_recorded_damage_is_imported_for_what_it_is_worth(
    remnic: Path, tmp_path: Path, database_file: DatabaseFactory
):
    source = database_file("0.15.3-damaged")
    assert imported(source, remnic) == previewed_after(source, remnic)
    assert not imported(source, remnic).written
    check_search(remnic)


def previewed_after(source: Path, remnic: Path) -> Any:
    """What the import that was just made had to say, asked of an empty database."""
    empty = new_remnic(remnic.with_name("empty.sqlite"))
    return previewed(source, empty)


@pytest.mark.long
@pytest.mark.parametrize("seed", sampled(range(40), range(1)))
def test_odd_values_in_remnic_are_read_compared_and_completed(
    seed: int, remnic: Path, tmp_path: Path, database_file: DatabaseFactory
):
    source = database_file("1.0-next")
    imported(source, remnic)
    chance = random.Random(seed)
    with opened(remnic) as db:
        for table in ("lcm_messages", "lcm_message_parts", "lcm_summary_nodes", "lcm_meta"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
            for _ in range(4):
                column, value = chance.choice(columns), chance.choice(_ODD)
                try:
                    db.execute(
                        f"UPDATE {table} SET {column} = ? WHERE rowid IN "
                        f"(SELECT rowid FROM {table} ORDER BY random() LIMIT 3)",
                        (value,),
                    )
                except sqlite3.IntegrityError:
                    continue
    read_contents(remnic)
    for session in (one.session for one in read_contents(remnic).sessions):
        read_session(remnic, session)
    _orderly(lambda: imported(source, remnic))
    _orderly(lambda: differences(source, remnic))


@pytest.mark.long
@pytest.mark.parametrize("seed", sampled(range(40), range(1)))
def test_odd_values_in_the_source_are_imported_once(
    seed: int, remnic: Path, tmp_path: Path, database_copy: DatabaseFactory
):
    source = database_copy("1.0-next")
    chance = random.Random(seed)
    with building(source, checks=False) as rows:
        for table in ("conversations", "messages", "message_parts", "summaries", "summary_messages"):
            columns = [row[1] for row in rows.execute(f"PRAGMA table_info({table})")]
            for _ in range(4):
                column, value = chance.choice(columns), chance.choice(_ODD)
                try:
                    rows.execute(
                        f"UPDATE {table} SET {column} = ? WHERE rowid IN "
                        f"(SELECT rowid FROM {table} ORDER BY random() LIMIT 3)",
                        value,
                    )
                except sqlite3.Error:
                    continue
    if _orderly(lambda: imported(source, remnic)):
        before = all_rows(remnic)
        assert not imported(source, remnic).written
        assert all_rows(remnic) == before


@pytest.mark.long
@pytest.mark.parametrize("seed", sampled(range(60), range(2)))
def test_damaged_pages_end_in_a_sentence(
    seed: int, remnic: Path, tmp_path: Path, database_file: DatabaseFactory
):
    source = database_file("1.0-next")
    imported(source, remnic)
    content = bytearray(remnic.read_bytes())
    chance = random.Random(seed)
    for _ in range(20):
        at = chance.randrange(100, len(content))
        content[at : at + 8] = chance.randbytes(8)
    remnic.write_bytes(content)
    for work in (
        lambda: [read_session(remnic, one.session) for one in read_contents(remnic).sessions],
        lambda: differences(source, remnic),
        lambda: imported(source, remnic),
    ):
        _orderly(work)


def _orderly(work: Any) -> bool:
    """Whether something was done; what is refused is refused with an error of ours."""
    try:
        work()
    except LcmError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("value", [None, b"\xff", 7, "{", '{"version":1,"summaries":[],"gone":{"a":1}}'])
def test_a_record_that_is_none_is_written_anew(value: Any, remnic: Path, database_file: DatabaseFactory):
    source = database_file("1.0-next")
    imported(source, remnic)
    before = all_rows(remnic)
    with opened(remnic) as db:
        db.execute("UPDATE lcm_meta SET value = ? WHERE key <> 'schema_version'", (value,))
    assert imported(source, remnic).rows["record"].changed == 11
    assert all_rows(remnic) == before
