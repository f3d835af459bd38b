"""How a conversation grew: sampled times, equal pieces of its time, and a line of bars."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from lcm_core.base.records import ConversationId
from lcm_core.store.database import Database
from lcm_core.store.statistics import CLOSER, SAMPLES, Growth, growth_of, growth_of_all

from lcm_tui.kit.spans import text_of
from lcm_tui.tables.status import bar_cells, bar_start, growth_line, seq_at, spark_text
from tests.conftest import DatabaseFactory
from tests.databases import run

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


def test_bars_are_as_tall_as_there_are_messages_and_nothing_is_a_dot():
    assert spark_text(grown((0, 1), (1, 11), (9, 12), (10, 42)), 10) == "▃·······▁█"


def test_a_pause_has_no_bar_however_many_messages_follow_it():
    growth = grown((0, 1), (1, 300), (99, 380), (100, 400))
    assert [count for count, _ in growth.cells(10)] == [300, *[0] * 8, 100]


def test_a_bar_leads_to_the_messages_of_its_time():
    growth = grown(*((at, 1 + 10 * at) for at in range(101)))
    line = text_of(growth_line(growth, 80, UTC, read=True))
    assert len(line) <= 80
    assert line[bar_start() - 1] == " "
    assert line[bar_start()] in "▁▂▃▄▅▆▇█"
    assert seq_at(growth, bar_start(), 80) == 1
    assert (
        seq_at(growth, bar_start() + bar_cells(80) - 1, 80) == 980 or growth.cells(bar_cells(80))[-1][1] > 900
    )
    assert seq_at(growth, 0, 80) is None


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
        found = await database.read(growth_of, ConversationId(3))
        assert found is not None
        assert found.marks == tuple(sorted(found.marks))
        assert 100 < len(found.marks) <= SAMPLES
        assert found.marks[0][1] == 1
        assert found.marks[-1][1] == 136
        assert 50 not in {seq for _, seq in found.marks}
        assert await database.read(growth_of, ConversationId(99)) is None
        everything = await database.read(growth_of_all)
        assert everything is not None
        assert everything.first <= found.first
        assert everything.last >= found.last
        assert sum(count for count, _ in everything.cells(40)) == everything.marks[-1][1] + 1


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
        found = await database.read(growth_of, ConversationId(3))
    assert found is not None
    assert len(found.marks) <= SAMPLES + CLOSER
    late = next(seq for at, seq in found.marks if at.month == 11)
    early = max(seq for at, seq in found.marks if at < datetime(2027, 6, 1, tzinfo=UTC))
    assert (early, late) == (5002, 5003)
