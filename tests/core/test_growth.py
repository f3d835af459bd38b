"""How a conversation grew: sampled times, and equal pieces of its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from lcm_core.api import Database
from lcm_core.store.statistics import Growth, growth_of, growth_of_all

from tests.conftest import DatabaseFactory
from tests.databases import run

CLOSER = 240
SAMPLES = 240

BEGUN = datetime(2026, 3, 1, tzinfo=UTC)


def grown(*marks: tuple[float, int]) -> Growth:
    """Marks by the hour."""
    return Growth(tuple((BEGUN + timedelta(hours=hours), seq) for hours, seq in marks))


def test_pieces_of_the_time_hold_every_message_once():
    growth = grown((0, 1), (1, 11), (9, 12), (10, 42))
    cells = growth.cells(10)
    assert sum(count for count, _ in cells) == 42
    assert [first for _, first in cells] == [1 + sum(count for count, _ in cells[:at]) for at in range(10)]
    assert cells[0][0] == 11
    assert cells[-1][0] == 30
    assert cells[4][0] == 0


def test_a_pause_has_no_bar_however_many_messages_follow_it():
    growth = grown((0, 1), (1, 300), (99, 380), (100, 400))
    counts = [count for count, _ in growth.cells(10)]
    pause = counts.index(-1)
    assert (sum(counts[:pause]), sum(counts[pause + 1 :])) == (300, 100)


def test_a_long_time_without_messages_is_one_piece():
    marks = [(hours / 60, 1 + hours) for hours in range(60)]
    growth = grown(*marks, *((hours + 99, seq + 60) for hours, seq in marks))
    cells = growth.cells(21)
    assert [count for count, _ in cells] == [*[6] * 10, -1, *[6] * 10]
    assert cells[10][1] == cells[11][1] == 61


async def test_few_rows_of_a_long_conversation_are_read_and_wrong_times_are_left_out(
    database_copy: DatabaseFactory,
):
    path: Path = database_copy("0.15.3")
    run(
        path,
        "UPDATE messages SET created_at = 'soon' WHERE conversation_id = 3 AND seq = 50",
        "UPDATE messages SET created_at = x'ff' WHERE conversation_id = 3 AND seq = 60",
    )
    async with await Database.open(path) as database:
        found = await database.read(growth_of, 3)
        assert found is not None
        assert found.marks == tuple(sorted(found.marks))
        assert 100 < len(found.marks) <= SAMPLES
        assert found.marks[0][1] == 1
        assert found.marks[-1][1] == 136
        assert 50 not in {seq for _, seq in found.marks}
        assert await database.read(growth_of, 99) is None
        everything = await database.read(growth_of_all)
        assert everything is not None
        assert everything.first <= found.first
        assert everything.last >= found.last
        assert sum(max(count, 0) for count, _ in everything.cells(40)) == everything.marks[-1][1] + 1


async def test_the_end_of_a_pause_is_looked_up_in_a_long_conversation(database_copy: DatabaseFactory):
    path: Path = database_copy("0.15.3")
    run(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, identity_hash, created_at)
        WITH RECURSIVE n(seq) AS (SELECT 1001 UNION ALL SELECT seq + 1 FROM n WHERE seq < 9000)
        SELECT 3, seq, 'user', 'x', 1, 'h' || seq, CASE WHEN seq < 5003 THEN '2027-01-01 00:00:00'
        ELSE '2027-11-01 00:00:00' END FROM n""",
    )
    async with await Database.open(path) as database:
        found = await database.read(growth_of, 3)
    assert found is not None
    assert len(found.marks) <= SAMPLES + CLOSER
    late = next(seq for at, seq in found.marks if at.month == 11)
    early = max(seq for at, seq in found.marks if at < datetime(2027, 6, 1, tzinfo=UTC))
    assert (early, late) == (5002, 5003)
