"""The benchmark's own parts: it generates valid databases of the shape asked for, and reads screens right."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from lcm_core.base.tokens import Verdict, check_message_tokens, estimate_weighted

from benchmarks import generate, recall, writer
from benchmarks.keys import Cursor
from benchmarks.passages import output, prose
from benchmarks.rows import Rows, Session
from benchmarks.screen import Screen
from benchmarks.shapes import DEEP_CONVERSATION, MANY_CONVERSATIONS, TINY, Shape, layouts, levels, roots
from lcm_tui.cli.demo import unpack_demo


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate.database(TINY, tmp_path_factory.mktemp("out"))


@pytest.fixture
def db(tiny: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{tiny.as_uri()}?immutable=1", uri=True)
    yield connection
    connection.close()


def count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.long
def test_generated_database_is_sound_and_of_the_asked_size(db, tiny):
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert [path.name for path in tiny.parent.iterdir()] == [tiny.name]
    assert tiny.read_bytes()[18:20] == b"\x02\x02"  # the header of a database in WAL mode
    sizes = [count(db, table) for table in ("conversations", "messages", "summaries", "context_items")]
    assert sizes == [TINY.conversations, TINY.messages, TINY.summaries, TINY.context_items]


@pytest.mark.long
def test_generated_schema_is_that_of_the_engine(db, tmp_path):
    engine = sqlite3.connect(unpack_demo(tmp_path).database)
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    schemas = [set(each.execute(query)) for each in (engine, db)]
    engine.close()
    assert schemas[0] == schemas[1]


def test_every_message_stands_in_the_context_once_raw_or_through_its_summaries(db):
    sources = {}
    for consumer, source in db.execute(
        "SELECT summary_id, parent_summary_id FROM summary_parents ORDER BY ordinal"
    ):
        sources.setdefault(consumer, []).append(source)
    messages = {}
    for summary, message in db.execute(
        "SELECT summary_id, message_id FROM summary_messages ORDER BY ordinal"
    ):
        messages.setdefault(summary, []).append(message)

    def expand(summary: str) -> list[int]:
        return messages.get(summary, []) + [
            found for source in sources.get(summary, []) for found in expand(source)
        ]

    for conversation in range(1, TINY.conversations + 1):
        own = (conversation,)
        items = db.execute(
            "SELECT ordinal, message_id, summary_id FROM context_items WHERE conversation_id = ? ORDER BY 1",
            own,
        ).fetchall()
        assert [ordinal for ordinal, _, _ in items] == list(range(len(items)))
        shown = [
            found for _, message, summary in items for found in ([message] if message else expand(summary))
        ]
        stored = db.execute("SELECT message_id FROM messages WHERE conversation_id = ? ORDER BY seq", own)
        assert shown == [message for (message,) in stored]


def test_counters_are_those_of_the_engine(db):
    wrong = db.execute(
        """SELECT s.summary_id FROM summaries AS s WHERE kind = 'condensed' AND (
        descendant_count, descendant_token_count, source_message_token_count, depth, earliest_at) IS NOT (
        SELECT sum(p.descendant_count + 1), sum(p.token_count + p.descendant_token_count),
        sum(p.source_message_token_count), max(p.depth) + 1, min(p.earliest_at) FROM summary_parents AS e
        JOIN summaries AS p ON p.summary_id = e.parent_summary_id WHERE e.summary_id = s.summary_id)"""
    ).fetchall()
    assert wrong == []
    assert all(
        estimate_weighted(text) == stored
        for text, stored in db.execute("SELECT content, token_count FROM summaries")
    )


def test_message_tokens_can_be_recomputed_from_what_the_host_sent(db):
    verdicts = Counter()
    for message_id, stored, content in db.execute("SELECT message_id, token_count, content FROM messages"):
        parts = db.execute(
            "SELECT metadata FROM message_parts WHERE message_id = ? ORDER BY ordinal", (message_id,)
        )
        verdicts[check_message_tokens(stored, content, [text for (text,) in parts]).verdict] += 1
    assert verdicts == {Verdict.FITS: TINY.messages}


@pytest.mark.long
def test_same_parameters_give_the_same_rows_and_the_file_is_reused(db, tiny, tmp_path):
    again = generate.database(TINY, tmp_path)
    assert again.name == tiny.name
    other = sqlite3.connect(again)
    assert list(other.iterdump()) == list(db.iterdump())
    other.close()
    made = again.stat().st_mtime_ns
    assert generate.database(TINY, tmp_path).stat().st_mtime_ns == made


@pytest.mark.cases(1)
@pytest.mark.parametrize("shape", [MANY_CONVERSATIONS, DEEP_CONVERSATION, MANY_CONVERSATIONS.scaled(10)])
def test_layout_reaches_every_count_of_the_shape(shape: Shape):
    plan = layouts(shape)
    assert len(plan) == shape.conversations
    assert sum(layout.messages for layout in plan) == shape.messages
    assert sum(sum(levels(layout.leaves, shape.max_depth)) for layout in plan) == shape.summaries
    items = sum(layout.raw + roots(layout.leaves, shape.max_depth) for layout in plan)
    assert shape.context_items in (None, items)
    assert all(layout.covered >= 8 * layout.leaves for layout in plan)
    assert len(levels(DEEP_CONVERSATION.messages, DEEP_CONVERSATION.max_depth)) == 6


def test_writer_appends_as_the_engine_does(tiny, tmp_path):
    path = tmp_path / "copy.db"
    path.write_bytes(tiny.read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys=ON")
    rows = Rows(random.Random(5), prose(random.Random(6)), output(random.Random(7)))
    ends = """SELECT (SELECT max(seq) FROM messages WHERE conversation_id = 1), max(ordinal)
        FROM context_items WHERE conversation_id = 1"""
    seq, ordinal = connection.execute(ends).fetchone()
    session = Session(1, "session", 400.0)
    for _ in range(7):
        writer.append(connection, rows, session)
    assert connection.execute(ends).fetchone() == (seq + 7, ordinal + 7)
    assert count(connection, "messages_fts") == 7
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_screen_follows_output_that_is_cut_anywhere():
    shown = "\x1b[?1049h\x1b[2;3H\x1b[1;38;5;9;48;2;1;2;3mab\x1b[0m\x1b]0;title\x07"
    shown = f"{shown}\r\nΩ漢x\x1b[1;1H\x1b[Kt\x1b[?2026l".encode()
    for cut in range(len(shown)):
        screen = Screen(4, 10)
        screen.feed(shown[:cut])
        screen.feed(shown[cut:])
        assert screen.text() == "t\n  ab\nΩ漢x\n"
        assert screen.frames == 1
        assert screen.backgrounds(1)[1:5] == ["", "2;1;2;3", "2;1;2;3", ""]


@pytest.mark.parametrize(
    ("style", "expected"),
    [("7", "reverse"), ("44", "44"), ("48;5;7;1", "5;7"), ("44;49", ""), ("38;2;48;5;7", "")],
)
def test_screen_knows_backgrounds(style: str, expected: str):
    screen = Screen(1, 2)
    screen.feed(f"\x1b[{style}mx".encode())
    assert screen.backgrounds(0) == [expected, ""]


def test_cursor_is_the_one_run_of_lines_that_has_its_background():
    screen, cursor = Screen(3, 9), Cursor(0, "44")
    assert cursor.signature(screen) is None
    screen.feed(b"\x1b[2;1H\x1b[44msecond")
    assert cursor.signature(screen) == (1, "second   ")
    screen.feed(b"\x1b[3;1Hand third")
    assert cursor.rows(screen) == range(1, 3)
    screen.feed(b"\x1b[2;1H\x1b[0msecond\x1b[1;1H\x1b[44mfirst")
    assert cursor.signature(screen) is None


@pytest.mark.long
async def test_needles_are_found_and_a_kind_that_the_engine_does_not_read_is_seen_to_be_missed() -> None:
    places = await recall.measure(seed=7, count=1)
    assert {kind for kind, (ours, _) in places.items() if recall.share(ours, 5) < 1} == set()
    assert recall.share(places["tool inputs"][1], 20) == 0
    assert recall.share(places["words"][1], 20) == 1
