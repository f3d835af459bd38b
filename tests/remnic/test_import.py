"""What an import puts into Remnic, judged by SQL that shares no code with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lcm_core.api import NotFoundError

from tests.conftest import DatabaseFactory
from tests.databases import building, new_database
from tests.remnic.store import (
    all_rows,
    check_import,
    check_search,
    native_turn,
    new_remnic,
    opened,
    other_importer,
)
from tests.remnic.support import differences, imported, previewed
from tests.support import sampled

SOUND = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "1.0-next")


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(SOUND, ("0.1.2",)))
def test_everything_is_there_as_the_rules_say(version: str, database_file: DatabaseFactory, tmp_path: Path):
    source, remnic = database_file(version), new_remnic(tmp_path / "lcm.sqlite")
    expected = previewed(source, remnic)
    assert imported(source, remnic) == expected  # the preview counts what the run does
    check_import(source, remnic)
    before = all_rows(remnic)
    again = imported(source, remnic)
    assert all_rows(remnic) == before
    assert not again.written
    assert differences(source, remnic) == []


@pytest.mark.long
def test_what_the_other_importer_left_is_completed(database_file: DatabaseFactory, tmp_path: Path):
    source, remnic = database_file("0.15.3"), new_remnic(tmp_path / "lcm.sqlite")
    other_importer(source, remnic)
    before = all_rows(remnic)
    expected = previewed(source, remnic)
    assert all_rows(remnic) == before
    assert imported(source, remnic) == expected
    check_import(source, remnic)
    after = all_rows(remnic)
    kept = [row[0] for row in before["lcm_messages"]]
    assert [row[0] for row in after["lcm_messages"]] == kept  # no message came twice
    assert expected.rows["turn"].missing == 0
    assert expected.rows["part"].changed == len(before["lcm_message_parts"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two conversations of one session that took turns, one without a session, and a small DAG."""
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        for number, session in ((1, " shared "), (2, "shared"), (3, "  ")):
            rows.conversation(number, session_id=session, title=f"Title {number}")
        times = ("2026-01-01 10:00:00", "2026-01-01T10:00:00.000Z", "2026-01-01 10:00:01")
        for number in (2, 1, 3):
            for place, created in enumerate(times):
                rows.message(number, f"message {place} of {number}", created_at=created)
        mine = [row[0] for row in rows.execute("SELECT message_id FROM messages WHERE conversation_id = 1")]
        rows.summary(1, "sum_a", messages=mine[:1])
        rows.summary(1, "sum_b", "[Truncated from 9 tokens]", messages=mine[1:2], model="unknown")
        rows.summary(1, "sum_c", sources=["sum_a", "sum_b"], depth=1)
        rows.summary(1, "sum_d", sources=["sum_b"], depth=1)
        rows.summary(1, "sum_e", "nothing below")
    return path


def test_conversations_of_one_session_are_one(source: Path, tmp_path: Path):
    remnic = new_remnic(tmp_path / "lcm.sqlite")
    report = imported(source, remnic)
    with opened(remnic) as db:
        said = db.execute(
            "SELECT session_id, turn_index, content FROM lcm_messages ORDER BY session_id, turn_index"
        ).fetchall()
        assert [one for one in said if one[0] == "shared"] == [
            ("shared", place, f"message {text} of {number}")
            for place, (text, number) in enumerate(((0, 1), (1, 1), (0, 2), (1, 2), (2, 1), (2, 2)))
        ]
        assert {one[0] for one in said} == {"shared", "3"}
        assert db.execute(
            "SELECT id, parent_id, msg_start, msg_end FROM lcm_summary_nodes ORDER BY id"
        ).fetchall() == [
            ("sum_a", "sum_c", 0, 0),
            ("sum_b", "sum_d", 1, 1),  # first in D, second in C
            ("sum_c", None, 0, 1),
            ("sum_d", None, 1, 1),
        ]
    assert (report.collapsed, report.no_messages) == (1, ["sum_e"])


def test_a_text_that_no_model_wrote_is_of_the_second_level(source: Path, tmp_path: Path):
    with building(source) as rows:
        cut = "[LCM fallback summary; truncated for context management]\nthe rest"
        rows.execute("UPDATE summaries SET content = ? WHERE summary_id = 'sum_a'", cut)
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with opened(remnic) as db:
        found = dict(db.execute("SELECT id, escalation FROM lcm_summary_nodes"))
    assert found["sum_a"] == 2
    assert found["sum_c"] == 0


def test_parts_keep_what_they_say(source: Path, tmp_path: Path):
    with building(source) as rows:
        call = rows.message(3, "", role="assistant")
        rows.part(call, "reasoning", "why")
        rows.part(
            call, "tool", tool_call_id="call_1", tool_name="read", tool_input='{"path":"a.txt","n":[1,2]}'
        )
        rows.part(call, "file", file_name="b.txt", file_mime="text/plain")
        answer = rows.message(3, "said", role="tool")
        rows.part(answer, "text", "the answer", tool_call_id="call_1", tool_name="read")
        asked = rows.message(3, "see", role="user")
        rows.part(asked, "file", file_name="c.txt")
        rows.part(asked, "patch", patch_hash="abc")
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with opened(remnic) as db:
        found = [
            (
                kind,
                {name: value for name, value in json.loads(payload).items() if name != "lcm_tui"},
                tool,
                path,
            )
            for kind, payload, tool, path in db.execute(
                """SELECT p.kind, p.payload, p.tool_name, p.file_path FROM lcm_message_parts AS p
                JOIN lcm_messages AS m ON m.id = p.message_id ORDER BY m.turn_index, p.ordinal"""
            )
        ]
    assert found == [
        ("text", {"text": "why", "type": "reasoning"}, None, None),
        (
            "tool_call",
            {"id": "call_1", "name": "read", "input": {"path": "a.txt", "n": [1, 2]}},
            "read",
            None,
        ),
        ("file_write", {"name": "b.txt", "mime": "text/plain"}, None, "b.txt"),
        ("tool_result", {"id": "call_1", "output": "the answer"}, "read", None),
        ("file_read", {"name": "c.txt"}, None, "c.txt"),
        ("patch", {"patch_hash": "abc"}, None, None),
    ]


def test_only_the_sessions_that_are_named(source: Path, tmp_path: Path):
    remnic = new_remnic(tmp_path / "lcm.sqlite")
    assert imported(source, remnic, "3").conversations == 1
    with opened(remnic) as db:
        assert db.execute("SELECT DISTINCT session_id FROM lcm_messages").fetchall() == [("3",)]
    with pytest.raises(NotFoundError, match="No session matched 4"):
        previewed(source, remnic, "4")


def test_later_messages_follow_and_earlier_ones_are_put_before(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with building(source) as rows:
        rows.conversation(4, session_id="shared")
        rows.message(4, "the very first", created_at="2025-01-01 00:00:00")
        rows.message(1, "the last", created_at="2026-02-01 00:00:00")
    assert imported(source, remnic).rows["turn"].moved == 6
    check_import(source, remnic)


@pytest.mark.long
def test_what_remnic_recorded_itself_stays_in_its_place(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with opened(remnic) as db:
        own = native_turn(db, "shared", "said to Remnic")
        db.execute(
            "INSERT INTO lcm_summary_nodes VALUES ('own', 'shared', 2, NULL, 'mine', 1, 0, ?, 0, 'now')",
            (own,),
        )
        db.execute("INSERT INTO lcm_summaries_fts (rowid, summary_text) VALUES (last_insert_rowid(), 'mine')")
        db.execute("UPDATE lcm_summary_nodes SET parent_id = 'own' WHERE id = 'sum_c'")
    with building(source) as rows:
        rows.message(1, "an early one", created_at="2025-01-01 00:00:00")
        rows.message(2, "a late one", created_at="2027-01-01 00:00:00")
    report = imported(source, remnic)
    with opened(remnic) as db:
        said = [
            row[0]
            for row in db.execute(
                "SELECT content FROM lcm_messages WHERE session_id = 'shared' ORDER BY turn_index"
            )
        ]
        assert said[6:] == ["said to Remnic", "an early one", "a late one"]
        assert db.execute("SELECT parent_id FROM lcm_summary_nodes WHERE id = 'sum_c'").fetchone() == ("own",)
    assert report.rows["turn"].moved == 0
    assert differences(source, remnic) == []
    check_search(remnic)


def test_a_difference_is_named_with_its_columns(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with opened(remnic) as db:
        db.execute("UPDATE lcm_messages SET content = 'x' WHERE content = 'message 0 of 1'")
        db.execute("DELETE FROM lcm_messages WHERE content = 'message 0 of 3'")
        db.execute("UPDATE lcm_messages SET turn_index = 7 WHERE content = 'message 1 of 3'")
        db.execute("UPDATE lcm_summary_nodes SET parent_id = NULL WHERE id = 'sum_a'")
        db.execute("DELETE FROM lcm_summary_nodes WHERE id = 'sum_d'")
        db.execute(
            "INSERT INTO lcm_messages SELECT 99, session_id, 99, role, content, token_count, created_at, "
            "metadata FROM lcm_messages WHERE content = 'message 2 of 3'"
        )
    with building(source) as rows:
        rows.execute("DELETE FROM messages WHERE content = 'message 2 of 2'")
    found = {(one.kind, one.what, one.name, one.columns) for one in differences(source, remnic)}
    assert found >= {
        ("changed", "turn", "conversation 1, seq 1", ("content",)),
        ("missing", "turn", "conversation 3, seq 1", ()),
        ("moved", "node", "sum_a", ("parent_id",)),
        ("missing", "node", "sum_d", ()),
        ("extra", "turn", "conversation 2, seq 3", ()),
        ("repeated", "turn", "conversation 3, seq 3", ()),
    }


@pytest.mark.long
def test_a_summary_that_is_gone_from_the_source_is_told_apart(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with building(source) as rows:
        rows.execute("DELETE FROM summary_parents WHERE summary_id = 'sum_d'")
        rows.execute("DELETE FROM summaries WHERE summary_id = 'sum_d'")
    for _ in range(2):  # before it is noted, and after
        extra = [one.name for one in differences(source, remnic) if one.kind == "extra"]
        assert extra == ["sum_d"]
        imported(source, remnic)


def test_another_database_with_the_same_numbers_is_left_alone(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    other = new_database(tmp_path / "other.db")
    with building(other) as rows:
        rows.conversation(3, session_id="")
        rows.message(3, "of somebody else", created_at="2020-01-01 00:00:00")
    before = all_rows(remnic)
    report = imported(other, remnic)
    assert [one.split(":")[0] for one in report.conflicts] == ["conversation 3 of session 3"]
    assert all_rows(remnic) == before


def test_a_time_in_another_form_is_the_same_message(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with building(source) as rows:
        rows.execute("UPDATE messages SET created_at = '2026-01-01T10:00:01.000Z' WHERE seq = 3")
    report = imported(source, remnic)
    assert (report.conflicts, report.rows["turn"].changed) == ([], 3)
    check_import(source, remnic)


def test_a_node_of_that_id_in_another_session_stays(source: Path, tmp_path: Path):
    remnic = new_remnic(tmp_path / "lcm.sqlite")
    with opened(remnic) as db:
        db.execute("INSERT INTO lcm_summary_nodes VALUES ('sum_c', 'x', 0, NULL, 'mine', 1, 0, 0, 0, 'now')")
    report = imported(source, remnic)
    assert report.elsewhere == ["sum_c"]
    with opened(remnic) as db:
        found = db.execute("SELECT id, parent_id FROM lcm_summary_nodes ORDER BY id").fetchall()
    assert found == [("sum_a", None), ("sum_b", "sum_d"), ("sum_c", None), ("sum_d", None)]


@pytest.mark.long
def test_what_remnic_deleted_for_its_age_comes_back_to_its_place(source: Path, tmp_path: Path):
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with opened(remnic) as db:
        native_turn(db, "shared", "said to Remnic")
        before = db.execute("SELECT turn_index, content FROM lcm_messages ORDER BY session_id, 1").fetchall()
        nodes = db.execute("SELECT * FROM lcm_summary_nodes ORDER BY id").fetchall()
        for text in ("message 0 of 1", "message 1 of 1", "message 0 of 2", "message 2 of 1"):
            db.execute(
                "INSERT INTO lcm_messages_fts (lcm_messages_fts, rowid, content) "
                "SELECT 'delete', id, content FROM lcm_messages WHERE content = ?",
                (text,),
            )
            db.execute("DELETE FROM lcm_messages WHERE content = ?", (text,))
    tally = previewed(source, remnic).rows["node"]
    assert tally.missing + tally.changed + tally.moved + tally.extra == 0
    imported(source, remnic)
    with opened(remnic) as db:
        after = db.execute("SELECT turn_index, content FROM lcm_messages ORDER BY session_id, 1").fetchall()
        assert after == before
        assert db.execute("SELECT * FROM lcm_summary_nodes ORDER BY id").fetchall() == nodes
    assert differences(source, remnic) == []
    check_search(remnic)
