"""New rows of one shape that go in with one statement: the same rows, ids and refusals as one by one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lcm_core.api import Plan, RefusedError, StalePlanError, plan_transplant, plan_undo
from lcm_core.change import commit as committing
from lcm_core.change.commit import commit
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Cells, RowChange, Symbol, SymbolKind, insertion, insertions

from tests.change.support import dump, reading, search_faults
from tests.conftest import DatabaseFactory
from tests.databases import value


def messages(count: int, *, content: str = "text", first_seq: int = 1_000):
    """New messages whose ids the database gives, each with a part that names it."""
    ids = [Symbol(f"new:{number}", SymbolKind.ID) for number in range(count)]
    rows = [
        insertion(
            "messages",
            Cells.of(
                {
                    "message_id": ids[number],
                    "conversation_id": 1,
                    "seq": first_seq + number,
                    "role": "user",
                    "content": f"{content} {number}",
                    "token_count": 1,
                    "created_at": "2026-03-06 12:00:00",
                }
            ),
        )
        for number in range(count)
    ]
    parts = [
        insertion(
            "message_parts",
            Cells.of(
                {
                    "part_id": f"part-{first_seq + number}",
                    "message_id": ids[number],
                    "session_id": "s",
                    "part_type": "text",
                    "ordinal": 0,
                }
            ),
        )
        for number in range(count)
    ]
    return [*rows, *parts]


def plan(edits) -> Plan:
    """A plan that leaves what it stores uncovered, on purpose."""
    return Plan("ingest", "Many", 1, tuple(edits))


@pytest.mark.long
async def test_a_copy_is_the_same_as_one_by_one(
    database_copy: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_copy("0.15.3")
    single, before = tmp_path / "single.db", dump(path)
    shutil.copy(path, single)
    copy = await reading(path, lambda reader: plan_transplant(reader, 1, 7, skip_duplicates=True))
    at_once: list[int] = []
    execute_many = Writer.execute_many

    def spy(self: Writer, sql: str, rows) -> int:
        at_once.append(len(rows))
        return execute_many(self, sql, rows)

    monkeypatch.setattr(Writer, "execute_many", spy)
    together = commit(path, copy)
    assert max(at_once) > 20
    monkeypatch.setattr(
        Writer, "execute_many", lambda self, sql, rows: sum(self.execute(sql, row).rowcount for row in rows)
    )
    one_by_one = commit(single, copy)
    assert together.edits == one_by_one.edits
    assert dump(path) == dump(single)
    assert search_faults(path) == []
    undo = await reading(path, lambda reader: plan_undo(reader, together.id))
    commit(path, undo)
    assert dump(path) == before


@pytest.mark.cases(1)
@pytest.mark.parametrize("content", ["text", "ü 漢字 \U0001f600", "half \udcff"])
def test_ids_follow_those_that_are_there(content: str, database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    last = value(path, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
    done = commit(path, plan(messages(150, content=content)), journal=False)
    made = [edit.row["message_id"] for edit in insertions(done.edits) if "seq" in edit.row]
    assert made == list(range(last + 1, last + 151))
    assert value(path, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'") == last + 150
    lost = """SELECT count(*) FROM message_parts AS p LEFT JOIN messages AS m USING (message_id)
        WHERE p.part_id = 'part-' || m.seq AND m.content = ? || ' ' || (m.seq - 1000)"""
    assert (
        value(path, lost.replace("?", "CAST(? AS TEXT)"), content.encode("utf-8", "surrogateescape")) == 150
    )
    assert search_faults(path) == []


@pytest.mark.parametrize("place", [0, 77])
def test_a_seq_that_is_taken_makes_all_of_it_stale(place: int, database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    edits = messages(150)
    doubled = edits[place]
    assert isinstance(doubled, RowChange)
    edits[place] = insertion("messages", doubled.row.but(seq=1))
    before = dump(path)
    with pytest.raises(StalePlanError, match="UNIQUE constraint"):
        commit(path, plan(edits))
    assert dump(path) == before


def test_an_id_of_ones_own_that_is_taken_is_named(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    taken = value(path, "SELECT min(part_id) FROM message_parts")
    edits = messages(60)
    last = edits[-1]
    assert isinstance(last, RowChange)
    edits[-1] = insertion(last.table, last.row.but(part_id=taken))
    before = dump(path)
    with pytest.raises(StalePlanError, match="was not there, now there") as caught:
        commit(path, plan(edits))
    assert [taken in one.text for one in caught.value.moved] == [True]
    assert dump(path) == before


def test_no_id_is_made_up_behind_the_last_one(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    with committing.open_writer(path, 1.0) as writer:
        writer.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'messages'", (2**63 - 100,))
    before = dump(path)
    with pytest.raises(RefusedError, match="no ids left"):
        commit(path, plan(messages(150)))
    assert dump(path) == before


def test_much_is_kept_in_memory_while_it_is_written(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    monkeypatch.setattr(Writer, "hold_pages", lambda _, size: held.append(size))
    path = database_copy("0.15.3")
    monkeypatch.setattr(committing, "MANY_EDITS", 200)
    commit(path, plan(messages(99)))
    assert held == []
    commit(path, plan(messages(100, first_seq=2_000)))
    assert held == [committing.PAGES_BYTES]
