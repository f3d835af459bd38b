"""Every command on every recorded version and the damaged one: nothing breaks, the numbers are right."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.text import safe_line

from tests.cli.support import readings, run
from tests.conftest import DatabaseFactory
from tests.databases import run as run_sql
from tests.support import VERSIONS, sampled


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def every_command(path: Path) -> Iterator[list[str]]:
    """Each command with ids that this database has."""
    database = connect(path)

    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}

    def ids(column: str, table: str) -> list[str]:
        if table not in tables:
            return []
        rows = database.execute(f"SELECT {column} FROM {table} ORDER BY rowid LIMIT 40")
        return [str(row[0]) for row in rows]

    conversations, summaries = ids("conversation_id", "conversations"), ids("summary_id", "summaries")[::5]
    files, briefs = ids("file_id", "large_files")[:2], ids("brief_id", "focus_briefs")[:2]
    database.close()
    found = {
        "CONVERSATION": conversations,
        "SUMMARY_ID": summaries,
        "FILE_ID": files,
        "BRIEF_ID": briefs,
        "OPERATION_ID": (),
        "ID": [*summaries[:1], *files[:1]],
        "QUERY": ["the"],
    }
    # An engine without briefs refuses the commands about them.
    yield from (line for line in readings(found) if line[0] != "focus" or "focus_briefs" in tables)
    yield from (["engine"], ["doctor"], ["config", "show"], ["config", "get", "freshTailCount"])
    yield ["summaries", "list", "--include-content", "--depth", "1"]
    for conversation in conversations:
        yield ["messages", "list", conversation, "--include-content", "--role", "tool"]


@pytest.mark.parametrize("version", sampled(VERSIONS, ("0.1.2",)))
def test_every_command_answers_in_every_form_and_leaves_no_trace(
    version: str, database_copy: DatabaseFactory
):
    path = database_copy(version)
    before = traces(path.parent)
    named: set[tuple[str, ...]] = set()
    for arguments in every_command(path):
        command = tuple(word for word in arguments if word.isalpha() or word.startswith("-"))
        # That a table is what is answered to no form is seen with the first id.
        forms = [[], ["--json"]] if command in named else [[], ["--json"], ["--format", "table"]]
        named.add(command)
        answers = [run(*arguments, "--db", path, *form) for form in forms]
        code = 6 if arguments == ["doctor"] else 0  # each of them has bad summaries
        assert [(answer.code, answer.err) for answer in answers] == [(code, "")] * len(forms), arguments
        assert json.loads(answers[1].out)["ok"] is True
        assert all(answer.out.endswith("\n") for answer in answers)
    assert traces(path.parent) == before


def traces(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        entry.name: (entry.stat().st_size, entry.stat().st_mtime_ns, entry.stat().st_ino)
        for entry in os.scandir(folder)
    }


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", VERSIONS)
def test_counts_and_sums_are_those_of_plain_queries(version: str, database_file: DatabaseFactory):
    path = database_file(version)
    database = connect(path)

    def value(sql: str, *parameters: object) -> Any:
        return database.execute(sql, parameters).fetchone()[0]

    status = run("status", "--db", path, "--json").data["status"]
    assert status["conversations"]["total"] == value("SELECT count(*) FROM conversations")
    for table in ("messages", "summaries"):
        assert status[table]["count"] == value(f"SELECT count(*) FROM {table}")
        assert status[table]["tokens"] == value(f"SELECT sum(token_count) FROM {table}")
    assert status["context"]["items"] == value("SELECT count(*) FROM context_items")
    covered = """SELECT sum(token_count) FROM messages WHERE message_id IN
        (SELECT message_id FROM summary_messages JOIN summaries USING (summary_id))"""
    assert status["summaries"]["sourceMessageTokens"] == value(covered)
    depths = status["summaries"]["byDepth"]
    assert sum(row["count"] for row in depths) == status["summaries"]["count"]
    assert [row["depth"] for row in depths] == sorted(row["depth"] for row in depths)

    items = run("conversations", "list", "--db", path, "--json").data["items"]
    assert sum(item["messageTokens"] for item in items) == status["messages"]["tokens"]
    assert sum(item["summaryTokens"] for item in items) == status["summaries"]["tokens"]
    assert sum(item["contextTokens"] for item in items) == status["context"]["tokens"]
    for item in items:
        key = item["conversationId"]
        assert item["messageCount"] == value("SELECT count(*) FROM messages WHERE conversation_id = ?", key)
        assert item["maxSummaryDepth"] == value(
            "SELECT max(depth) FROM summaries WHERE conversation_id = ?", key
        )
    database.close()


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_context_adds_up_and_begins_its_tail_at_an_item(version: str, database_file: DatabaseFactory):
    path = database_file(version)
    database = connect(path)
    for (key,) in database.execute("SELECT conversation_id FROM conversations"):
        data = run("context", key, "--db", path, "--json").data
        items, totals, tail = data["items"], data["totals"], data["freshTail"]
        stored = database.execute(
            "SELECT ordinal FROM context_items WHERE conversation_id = ? ORDER BY ordinal", (key,)
        ).fetchall()
        assert [item["ordinal"] for item in items] == [row[0] for row in stored]
        assert totals["items"] == totals["messages"] + totals["summaries"] == len(items)
        assert totals["tokens"] == sum(item["tokenCount"] or 0 for item in items)
        assert totals["share"] == round(totals["tokens"] / 128_000, 4)
        protected = [item for item in items if item["messageId"] and item["ordinal"] >= tail["firstOrdinal"]]
        assert tail["messages"] == len([item for item in protected if item["status"] != "dangling"])
        assert tail["count"] == (32 if version in {"0.1.2", "0.3.0"} else 64)
    database.close()


def test_a_dangling_item_is_shown_with_what_is_left_of_it(database_file: DatabaseFactory):
    items = run("context", "4", "--db", database_file("0.15.3-damaged"), "--json").data["items"]
    [dangling] = [item for item in items if item["status"]]
    assert (dangling["messageId"], dangling["status"], dangling["tokenCount"]) == (286, "dangling", None)


def test_gaps_repetitions_and_strangers_are_named_in_place(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    database = sqlite3.connect(path)
    database.executescript(
        """UPDATE context_items SET message_id = 569 WHERE conversation_id = 2 AND ordinal = 5;
        UPDATE context_items SET message_id = 1 WHERE conversation_id = 2 AND ordinal = 6;
        DELETE FROM context_items WHERE conversation_id = 2 AND ordinal = 8;"""
    )
    database.close()
    items = run("context", "2", "--db", path, "--json").data["items"]
    assert {item["ordinal"]: item["status"] for item in items if item["status"]} == {
        1: "duplicate",
        5: "duplicate",
        6: "foreign",
    }
    text = run("context", "2", "--db", path).out
    for words in ("also at 5", "also at 1", "belongs to conversation 1", "ordinal 8 is missing"):
        assert words in text


def test_a_context_that_no_table_records_is_not_called_empty_alone(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run_sql(path, "DROP TABLE context_items")
    assert "no table context_items: it does not record" in run("context", "1", "--db", path).out
    document = run("context", "1", "--db", path, "--json").document
    assert document["meta"]["lcmTui"]["notRecorded"] == ["items"]


def test_what_a_version_does_not_record_is_null_and_named(database_file: DatabaseFactory):
    document = run("conversations", "list", "--db", database_file("0.1.2"), "--json").document
    assert document["meta"]["lcmTui"]["notRecorded"] == [
        "items.sessionKey",
        "items.active",
        "items.archivedAt",
    ]
    assert all(item["active"] is None and item["sessionKey"] is None for item in document["data"]["items"])
    document = run("summaries", "list", "--db", database_file("0.1.2"), "--json").document
    assert document["meta"]["lcmTui"]["notRecorded"] == [
        "items.descendantTokenCount",
        "items.sourceMessageTokenCount",
        "items.model",
    ]
    assert "not recorded" in run("conversations", "show", "1", "--db", database_file("0.3.0")).out
    assert "lcmTui" not in run("status", "--db", database_file("0.15.3"), "--json").document["meta"]


@pytest.mark.long
def test_a_database_with_the_two_essential_tables_alone_is_shown(tmp_path: Path):
    path = tmp_path / "lcm.db"
    database = sqlite3.connect(path)
    database.executescript(
        """CREATE TABLE conversations (conversation_id INTEGER PRIMARY KEY, session_id TEXT);
        CREATE TABLE messages (message_id INTEGER PRIMARY KEY, conversation_id INTEGER, seq INTEGER,
                               role TEXT, content TEXT);
        INSERT INTO conversations VALUES (1, 's'); INSERT INTO messages VALUES (1, 1, 1, 'user', 'hello');"""
    )
    database.close()
    assert run("status", "--db", path, "--json").data["status"]["messages"]["count"] == 1
    for arguments in (
        ["conversations", "list"],
        ["conversations", "show", "1"],
        ["messages", "list", "1"],
        ["messages", "tail", "1"],
        ["summaries", "list"],
        ["context", "1"],
        ["files"],
    ):
        for form in ([], ["--json"]):
            answer = run(*arguments, "--db", path, *form)
            assert (answer.code, answer.err) == (0, ""), arguments
    assert run("summaries", "show", "sum_1", "--db", path).code == 3
    assert run("show", "file_1", "--db", path).code == 3


@pytest.mark.long
def test_values_of_the_wrong_type_break_nothing(database_copy: DatabaseFactory):
    """SQLite stores what it is given: bytes where text belongs, text where numbers belong, broken UTF-8."""
    path = database_copy("0.15.3")
    database = sqlite3.connect(path)
    database.execute("PRAGMA ignore_check_constraints = 1")
    for table, columns in (
        (
            "conversations",
            ("session_id", "session_key", "title", "created_at", "updated_at", "archived_at", "active"),
        ),
        ("messages", ("content", "created_at", "token_count", "role", "large_content")),
        (
            "summaries",
            ("content", "created_at", "latest_at", "token_count", "depth", "file_ids", "model", "kind"),
        ),
        ("large_files", ("file_name", "storage_uri", "created_at", "byte_size", "exploration_summary")),
        ("focus_briefs", ("content", "prompt", "created_at", "token_count")),
        ("context_items", ("created_at",)),
        ("conversation_compaction_telemetry", ("provider", "last_observed_cache_read", "updated_at")),
    ):
        key = {"conversations": "conversation_id % 4", "messages": "message_id % 3"}.get(table, "rowid % 3")
        for column in columns:
            database.execute(
                f"UPDATE {table} SET {column} = CAST({column} || x'ff00' AS BLOB) WHERE {key} = 1"
            )
            database.execute(f"UPDATE {table} SET {column} = CAST(x'ff' || {column} AS TEXT) WHERE {key} = 2")
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    for arguments in every_command(path):
        for form in ([], ["--json"], ["--format", "table"]):
            answer = run(*arguments, "--db", path, *form)
            code = 6 if arguments == ["doctor"] else 0
            assert (answer.code, answer.err) == (code, ""), arguments
            if form == ["--json"]:
                json.loads(answer.out)


@pytest.mark.long
@pytest.mark.parametrize("written_out", [False, True], ids=["as bytes", "as it is shown"])
def test_an_id_that_is_no_utf8_can_be_asked_for(database_copy: DatabaseFactory, written_out: bool):
    """SQLite and Python count the characters of such bytes differently."""
    path = database_copy("0.15.3")
    summary, file = b"sum_\xff\x80\xbfabfa225", b"file_\xc3(f952c89fc"
    with contextlib.closing(sqlite3.connect(path)) as host:
        for sql, value in (
            (
                "UPDATE summaries SET summary_id = CAST(? AS TEXT) WHERE summary_id = 'sum_4c4bd5292abfa225'",
                summary,
            ),
            (
                "UPDATE summary_parents SET summary_id = CAST(? AS TEXT) "
                "WHERE summary_id = 'sum_4c4bd5292abfa225'",
                summary,
            ),
            (
                "UPDATE context_items SET summary_id = CAST(? AS TEXT) "
                "WHERE summary_id = 'sum_4c4bd5292abfa225'",
                summary,
            ),
            (
                "UPDATE large_files SET file_id = CAST(? AS TEXT) WHERE file_id = 'file_400f952c89fc4c2b'",
                file,
            ),
            (
                "UPDATE conversations SET session_key = CAST(? AS TEXT) WHERE conversation_id = 1",
                b"agent:\xff",
            ),
        ):
            assert host.execute(sql, (value,)).rowcount
        host.commit()

    def named(stored: bytes) -> str:
        text = os.fsdecode(stored)
        return safe_line(text) if written_out else text

    at = ("--db", path)
    shown = run("summaries", "show", named(summary), *at, "--json").data
    assert shown["summary"]["summaryId"] == os.fsdecode(summary)
    assert [one["summaryId"] for one in shown["children"]] == ["sum_e2c12a356775e203", "sum_93d8bff206c72158"]
    assert run("summaries", "show", "--previous", named(summary), *at, "--json").data[
        "summaryId"
    ] == os.fsdecode(summary)
    assert run("show", named(file), *at, "--json").data["file"]["fileId"] == os.fsdecode(file)
    known = run("conversations", "show", "--session-key", named(b"agent:\xff"), *at, "--json").data
    assert known["conversation"]["conversationId"] == 1
    dissolved = run("dissolve", "1", "--summary", named(summary), *at)
    assert (dissolved.code, dissolved.err) == (0, "")
    assert run("rewrite", "1", "--summary", named(summary), *at).code == 0


def test_times_are_compared_as_times(database_copy: DatabaseFactory):
    """``2026-03-02T05:00`` sorts behind ``2026-03-02 23:00`` as text, and lies before it in time."""
    path = database_copy("0.15.3")
    database = sqlite3.connect(path)
    database.execute("UPDATE messages SET created_at = '2026-03-02 12:00:00' WHERE conversation_id = 7")
    database.execute(
        "UPDATE messages SET created_at = '2026-03-02T05:00:00.000Z' WHERE conversation_id = 7 AND seq = 5"
    )
    database.execute(
        "UPDATE messages SET created_at = '2026-03-02 23:00:00' WHERE conversation_id = 7 AND seq = 3"
    )
    database.commit()
    database.close()
    items = run("messages", "list", "7", "--db", path, "--json").data["items"]
    assert [items[0]["seq"], items[-1]["seq"]] == [3, 5]
    counted = run("conversations", "show", "7", "--db", path, "--json").data["conversation"]
    assert counted["earliestMessageAt"] == "2026-03-02T05:00:00.000Z"
    assert counted["latestMessageAt"] == "2026-03-02 23:00:00"
    early = run("messages", "list", "7", "--before", "2026-03-02T06:00:00Z", "--db", path, "--json").data[
        "items"
    ]
    assert [item["seq"] for item in early] == [5]


def test_the_tail_keeps_the_turn_whole_where_the_engine_does(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    """The engine's own ``lcm messages tail`` leaves the user's message out, the engine itself does not.

    A number that is asked for is what is shown, here as there.
    """
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "2")
    for version, whole in (("0.15.3", True), ("0.1.2", False)):
        path = database_file(version)
        asked = run("messages", "tail", "2", "--count", "3", "--db", path, "--json").data
        assert (asked["selected"]["messages"], len(asked["messages"])) == (3, 3)
        data = run("messages", "tail", "2", "--db", path, "--json").data
        roles = [message["role"] for message in data["messages"]]
        assert (roles[0] == "user") is whole
        assert data["limits"] == {"count": 2, "maxTokens": None}
        assert data["selected"]["messages"] == len(roles) > 2 if whole else len(roles) == 2
        assert data["selected"]["lastSeq"] == data["messages"][-1]["seq"]
        assert data["selected"]["tokens"] == sum(message["tokenCount"] for message in data["messages"])
