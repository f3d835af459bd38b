"""The transplant against the recorded rows of the Go tool, and its faults, which are not ours."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from lcm_core.api import LcmError, NotFoundError, RefusedError
from lcm_core.change.commit import commit
from lcm_core.change.plan import Splice, row_counts

from tests.change.support import context_of, dump, undo
from tests.databases import column, connect, run, value
from tests.operations.copies import NAMES, Files, Row, below, context_summaries, plan, rows, transplant
from tests.support import recorded

# -- against the Go tool --------------------------------------------------------------

RECORDED = recorded("go-transplant.json.gz")
APPLIED = [name for name, calls in RECORDED["0.15.3"].items() if calls[1]["diff"]]
#: What the Go tool forgets or does in its own way, and what has the name of a file in it.
FORGOTTEN = {"earliest_at", "latest_at", "descendant_count", "descendant_token_count", "model"} | {
    *("source_message_token_count", "identity_hash", "openclaw_sender_metadata"),
    *("transcript_entry_id", "stable_event_key", "large_content"),
}


def bare(row: Row, files: Files) -> str:
    kept = {name: files.plain(cell) for name, cell in row.items() if name not in NAMES | FORGOTTEN}
    return repr(sorted(kept.items()))


def by_content(found_rows: list[Row], key: str, files: Files) -> dict[Any, str]:
    return {row[key]: bare(row, files) for row in found_rows}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", APPLIED)
def test_the_rows_are_those_of_the_go_tool(database_copy, name):
    """But for ids and clocks, for the order and numbers of messages, and for what it forgets."""
    path = database_copy("0.15.3")
    call = RECORDED["0.15.3"][name][1]
    source, target = map(int, call["args"][1:3])
    theirs = {table: changed["added"] for table, changed in call["diff"].items()}
    last = value(path, "SELECT max(message_id) FROM messages")
    known = set(column(path, "SELECT summary_id FROM summaries"))
    own = [ref for _, ref in context_of(path, target)]
    transplant(path, source, target)
    files = Files(path)
    messages = rows(path, "SELECT * FROM messages WHERE message_id > ? ORDER BY seq", last)
    summaries = [row for row in rows(path, "SELECT * FROM summaries") if row["summary_id"] not in known]
    ids = {row["summary_id"] for row in summaries}
    ours = {
        "messages": messages,
        "summaries": summaries,
        "message_parts": rows(path, "SELECT * FROM message_parts WHERE message_id > ?", last),
        "summary_messages": rows(path, "SELECT * FROM summary_messages WHERE message_id > ?", last),
        "summary_parents": [
            row for row in rows(path, "SELECT * FROM summary_parents") if row["summary_id"] in ids
        ],
    }
    shapes = []
    for side in (ours, theirs):
        said_by_message = by_content(side["messages"], "message_id", files)
        said_by_summary = by_content(side["summaries"], "summary_id", files)
        shapes.append(
            (
                Counter(said_by_message.values()),
                Counter(said_by_summary.values()),
                Counter(
                    (said_by_message[row["message_id"]], bare(row, files)) for row in side["message_parts"]
                ),
                Counter(
                    (said_by_summary[row["summary_id"]], said_by_message[row["message_id"]], row["ordinal"])
                    for row in side["summary_messages"]
                ),
                Counter(
                    (
                        said_by_summary[row["summary_id"]],
                        said_by_summary[row["parent_summary_id"]],
                        row["ordinal"],
                    )
                    for row in side["summary_parents"]
                ),
            )
        )
    assert shapes[0] == shapes[1]
    items = [ref for _, ref in context_of(path, target)]
    assert items[len(items) - len(own) :] == own
    assert len(items) - len(own) == len(context_summaries(path, source))


def test_the_go_tool_was_asked_for_enough():
    assert len(APPLIED) == 3
    refused = RECORDED["0.15.3"][APPLIED[0]][2]
    assert refused["rc"] == 1
    assert "matching summary content hashes" in refused["stderr"]


def test_a_file_of_0_1_can_be_transplanted_into(database_copy):
    """The Go tool fails there, for it writes a column that came with 0.9."""
    calls = RECORDED["0.1.2"]["transplant-5-7"]
    assert "no column named identity_hash" in calls[1]["stderr"]
    assert transplant(database_copy("0.1.2"), 5, 7)


@pytest.mark.parametrize("version", RECORDED)
def test_what_the_go_tool_refuses_is_refused(database_file, version):
    calls = [call["args"] for call in RECORDED[version]["transplant-errors"] if len(call["args"]) > 2]
    assert len(calls) == 4
    for args in calls:
        with pytest.raises((RefusedError, NotFoundError)):
            plan(database_file(version), int(args[1]), int(args[2]))


@pytest.mark.long
def test_faults_of_the_go_tool_are_not_ours(database_copy):
    """W3, W7, W12, W13, W14 and W18 at once: nothing dangles, is lost, forgotten or overwritten."""
    path = database_copy("0.15.3")
    before = dump(path)
    made = plan(path, 3, 1)
    assert not any(one.update for one in row_counts(made.edits))
    assert [one.removed for one in made.edits if isinstance(one, Splice)] == [()]
    operation = commit(path, made).id
    assert rows(path, "PRAGMA foreign_key_check") == []
    copies = below(path, context_summaries(path, 1)[:2])
    for one in copies:
        for table in ("summaries_fts", "summaries_fts_cjk"):
            assert value(path, f"SELECT count(*) FROM {table} WHERE summary_id = ?", one) == 1
        kept = "earliest_at, latest_at, source_message_token_count, model"
        [row] = rows(path, f"SELECT {kept} FROM summaries WHERE summary_id = ?", one)
        assert None not in row.values()
        assert row["source_message_token_count"] > 0
    assert value(path, "SELECT max(seq) FROM messages WHERE conversation_id = 1") == 384
    run(path, f"UPDATE summaries SET content = 'rewritten meanwhile' WHERE summary_id = '{copies[0]}'")
    with pytest.raises(LcmError, match="content was"):
        undo(path, operation)
    original = "SELECT content FROM summaries WHERE conversation_id = 3 AND token_count = ? AND depth = ?"
    [row] = rows(path, "SELECT token_count, depth FROM summaries WHERE summary_id = ?", copies[0])
    [text] = column(path, original, row["token_count"], row["depth"])
    with connect(path) as connection:
        files = {Files(path).stored[one["file_id"]]: one["file_id"] for one in rows(
            path, "SELECT * FROM large_files WHERE conversation_id = 1"
        )}  # fmt: skip
        for stored, file in Files(path).stored.items():
            text = text.replace(stored, files.get(file, stored))
        connection.execute("UPDATE summaries SET content = ? WHERE summary_id = ?", (text, copies[0]))
    undo(path, operation)
    assert dump(path) == before
