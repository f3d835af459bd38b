"""There and back: the same rows, whatever the database holds; without what we kept, all that Remnic holds."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.remnic.records import What

from tests.conftest import DatabaseFactory
from tests.databases import Builder, building, new_database
from tests.remnic.store import (
    TABLES,
    all_rows,
    check_import,
    check_search,
    lcm_rows,
    native_turn,
    new_remnic,
    opened,
)
from tests.remnic.support import differences, exported, imported, previewed
from tests.support import sampled

SOUND = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "1.0-next")


@pytest.mark.parametrize("version", sampled(SOUND, ("0.15.3",)))
def test_the_same_rows_come_back(version: str, database_file: DatabaseFactory, tmp_path: Path):
    source, back = database_file(version), tmp_path / "back.db"
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    work = exported(remnic, back)
    assert [one.notes for one in work.conversations] == [()] * len(work.conversations)
    assert lcm_rows(back, source) == lcm_rows(source, back)
    differing = differences(back, remnic)
    if version == "0.15.3":  # the schema that an export is made in
        assert differing == []
    assert {one.what for one in differing} <= {What.RECORD}  # of columns that the source did not have


#: Conversations whose context is every summary that none was made from, and every message without one.
_PLAIN = """SELECT conversation_id FROM conversations AS c WHERE NOT EXISTS (
  SELECT m.message_id FROM messages AS m WHERE m.conversation_id = c.conversation_id
  AND (m.message_id IN (SELECT message_id FROM summary_messages))
    = (m.message_id IN (SELECT message_id FROM context_items WHERE message_id IS NOT NULL))
  UNION ALL SELECT x.summary_id FROM summaries AS x WHERE x.conversation_id = c.conversation_id
  AND (x.summary_id IN (SELECT parent_summary_id FROM summary_parents))
    = (x.summary_id IN (SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL)))"""
#: Leaves that leave out a message of their range, which Remnic's two numbers cannot say.
_GAPS = """SELECT summary_id FROM (SELECT l.summary_id, m.conversation_id AS owner, count(*) AS n,
    min(m.seq) AS first, max(m.seq) AS last FROM summary_messages AS l JOIN messages AS m USING (message_id)
  GROUP BY l.summary_id) AS leaf WHERE n <> (SELECT count(*) FROM messages AS m
  WHERE m.conversation_id = leaf.owner AND m.seq BETWEEN leaf.first AND leaf.last)"""


@pytest.mark.parametrize("version", sampled(("0.1.2", "0.15.3", "1.0-next"), ("1.0-next",)))
def test_without_what_was_kept_the_columns_of_remnic_come_back(
    version: str, database_file: DatabaseFactory, tmp_path: Path
):
    source, back = database_file(version), tmp_path / "back.db"
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"))
    with opened(remnic) as db:
        db.execute("DELETE FROM lcm_meta WHERE key <> 'schema_version'")
        db.execute("UPDATE lcm_messages SET metadata = json_remove(metadata, '$.lcm_tui')")
        db.execute("UPDATE lcm_message_parts SET payload = json_remove(payload, '$.lcm_tui')")
    exported(remnic, back)
    kept = {
        "conversations": "conversation_id, session_id, title",
        "messages": "conversation_id, seq, role, content, token_count, created_at",
        "summaries": "summary_id, conversation_id, kind, depth, content, token_count",
        "summary_messages": """summary_id, (SELECT m.seq FROM messages AS m
            WHERE m.message_id = summary_messages.message_id)""",
        "summary_parents": "summary_id, parent_summary_id, ordinal",
        "context_items": """conversation_id, item_type, summary_id, (SELECT m.seq FROM messages AS m
            WHERE m.message_id = context_items.message_id)""",
    }
    with opened_read(source) as db:
        gaps = ", ".join(repr(row[0]) for row in db.execute(_GAPS))
        held = f"SELECT conversation_id FROM summaries WHERE summary_id IN ({gaps})"
        plain = ", ".join(str(row[0]) for row in db.execute(f"{_PLAIN} AND conversation_id NOT IN ({held})"))
    assert plain
    for table, columns in kept.items():
        where = {
            "context_items": f" WHERE conversation_id IN ({plain})",
            "summary_messages": f" WHERE summary_id NOT IN ({gaps})",
        }.get(table, "")
        sides = []
        for path in (source, back):
            with opened_read(path) as db:
                sides.append(sorted(map(repr, db.execute(f"SELECT {columns} FROM {table}{where}"))))
        assert sides[0] == sides[1], table


def opened_read(path: Path) -> Any:
    """A connection that leaves nothing beside the file."""

    return closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True))


def test_what_remnic_added_comes_along(database_file: DatabaseFactory, tmp_path: Path):
    source, back = database_file("0.15.3"), tmp_path / "back.db"
    session = "34904ebd-bc37-4a66-a7f0-18a94dd1c57a"
    imported(source, remnic := new_remnic(tmp_path / "lcm.sqlite"), session)
    with opened(remnic) as db:
        turns = [native_turn(db, session, f"later {number}", role="human") for number in range(3)]
        db.execute(
            "INSERT INTO lcm_summary_nodes VALUES ('own', ?, 0, NULL, 'two later', 3, ?, ?, 0, '2026-12-02')",
            (session, turns[0], turns[1]),
        )
        db.execute(
            "INSERT INTO lcm_message_parts (message_id, ordinal, kind, payload, created_at) "
            'SELECT id, 0, \'tool_result\', \'{"id":"c","output":{"a":1}}\', \'now\' FROM lcm_messages '
            "WHERE content = 'later 2'"
        )
        native_turn(db, "own session", "only Remnic knows")
    work = exported(remnic, back)
    assert [one.session for one in work.conversations].count("own session") == 1
    with opened_read(back) as db:
        added = "conversation_id = 4 AND seq > 61"
        assert db.execute(f"SELECT seq, role, content FROM messages WHERE {added}").fetchall() == [
            (62, "user", "later 0"),
            (63, "user", "later 1"),
            (64, "user", "later 2"),
        ]
        context = [
            row[0]
            for row in db.execute(
                """SELECT coalesce(i.summary_id, m.content) FROM context_items AS i
                LEFT JOIN messages AS m USING (message_id)
                WHERE i.conversation_id = 4 ORDER BY i.ordinal DESC LIMIT 2"""
            )
        ]
        assert context == ["later 2", "own"]
        assert db.execute(
            "SELECT p.part_type, p.tool_call_id, p.tool_output FROM message_parts AS p "
            "JOIN messages AS m USING (message_id) WHERE m.content = 'later 2'"
        ).fetchall() == [("tool", "c", '{"a":1}')]


# -- generated databases ---------------------------------------------------------------------------------

_TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "",
            "\x00",
            "\x1b[2J",
            "'; DROP TABLE lcm_messages; --",
            '{"a":"\\ud800"}',
            "\udcff\udcfe",
            "x" * 5000,
        ]
    ),
)
_TIMES = st.sampled_from(
    [
        "2026-01-01 00:00:00",
        "2026-01-01T00:00:00.500Z",
        "2026-01-02 00:00:00",
        "2025-06-01T10:00:00Z",
        "soon",
        "",
    ]
)
_ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
_PART_TYPES = st.sampled_from(
    ["text", "reasoning", "tool", "patch", "file", "subtask", "compaction", "step_start", "snapshot", "agent"]
)


@st.composite
def _parts(draw: Any) -> dict[str, Any]:
    columns = draw(
        st.dictionaries(
            st.sampled_from(
                [
                    "text_content",
                    "tool_call_id",
                    "tool_name",
                    "tool_input",
                    "tool_output",
                    "file_name",
                    "metadata",
                ]
            ),
            st.one_of(_TEXTS, st.sampled_from(['{"raw":{"type":"toolCall","id":"a"}}', "[1, 2]", '{"b":1}'])),
        )
    )
    return {"part_type": draw(_PART_TYPES), **columns}


@st.composite
def _conversations(draw: Any) -> dict[str, Any]:
    return {
        "session": draw(st.sampled_from(["a", "b", " a", ""])),
        "messages": draw(
            st.lists(
                st.tuples(_ROLES, _TEXTS, _TIMES, st.integers(0, 3), st.lists(_parts(), max_size=2)),
                max_size=6,
            )
        ),
        "seed": draw(st.integers(0, 1000)),
        "summaries": draw(st.integers(0, 5)),
    }


def _fill(rows: Builder, described: list[dict[str, Any]]) -> None:
    for number, one in enumerate(described, 1):
        rows.conversation(number, session_id=one["session"], title=one["session"] or None)
        chance = random.Random(one["seed"])
        ids, seq = [], 0
        for role, text, created, gap, parts in one["messages"]:
            seq += 1 + gap
            ids.append(
                rows.message(
                    number,
                    "",
                    role=role,
                    seq=seq,
                    created_at=created,
                    token_count=gap,
                    identity_hash=None,
                    in_context=False,
                )
            )
            raw = text.encode("utf-8", "surrogateescape")
            rows.execute("UPDATE messages SET content = CAST(? AS TEXT) WHERE message_id = ?", raw, ids[-1])
            for part in parts:
                _part(rows, ids[-1], part)
        made: list[tuple[str, int]] = []
        for place in range(one["summaries"] if ids else 0):
            name, lower = f"sum_{number}_{place}", [each for each in made if each[1] < 3]
            if lower and chance.random() < 0.5:
                depth = 1 + max(depth for _, depth in lower)
                sources = [each for each, _ in chance.sample(lower, chance.randint(1, len(lower)))]
                rows.summary(number, name, sources=sources, depth=depth, created_at="2026-03-01 00:00:00")
            else:
                depth = 0
                used = chance.sample(ids, chance.randint(1, len(ids)))
                rows.summary(number, name, messages=used, created_at="2026-03-01 00:00:00")
            made.append((name, depth))
        items: list[int | str] = [*chance.sample(ids, chance.randint(0, len(ids)))]
        items += [name for name, _ in chance.sample(made, chance.randint(0, len(made)))]
        chance.shuffle(items)
        for ordinal, item in enumerate(items):
            rows.item(number, item, ordinal * 2)


def _part(rows: Builder, message: int, part: dict[str, Any]) -> None:
    name = rows.part(message, part["part_type"], metadata=None, text_content=None)
    for column, value in part.items():
        raw = value.encode("utf-8", "surrogateescape")
        rows.execute(f"UPDATE message_parts SET {column} = CAST(? AS TEXT) WHERE part_id = ?", raw, name)


def _there_and_back(described: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, back = new_database(Path(folder) / "lcm.db"), Path(folder) / "back.db"
        with building(source) as rows:
            _fill(rows, described)
        remnic = new_remnic(Path(folder) / "lcm.sqlite")
        expected = previewed(source, remnic)
        assert imported(source, remnic) == expected
        before = all_rows(remnic)
        assert not imported(source, remnic).written
        assert all_rows(remnic) == before
        check_search(remnic)
        if all(_sane(one) for one in described):
            check_import(source, remnic)
        exported(remnic, back)
        assert lcm_rows(back, source) == lcm_rows(source, back)
        assert set(TABLES) == set(lcm_rows(back, source))


def _sane(one: dict[str, Any]) -> bool:
    """Whether plain SQL can judge it: times that are some, texts that JSON functions of SQLite read alike."""
    return all(
        created not in ("soon", "") and not parts and text.isprintable()
        for _, text, created, _, parts in one["messages"]
    )


@pytest.mark.long
@settings(max_examples=6)
@given(st.lists(_conversations(), min_size=1, max_size=3))
def test_any_database_comes_back(described: list[dict[str, Any]]):
    _there_and_back(described)


@pytest.mark.long
@settings(max_examples=300)
@given(st.lists(_conversations(), min_size=1, max_size=4))
def test_any_database_comes_back_many_times(described: list[dict[str, Any]]):
    _there_and_back(described)
